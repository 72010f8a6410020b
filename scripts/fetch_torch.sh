#!/bin/sh
# fetch_torch.sh: makes LibTorch 2.11.0 available and prints its folder (with include/ and lib/): $LATHE_TORCH, or the
# torch of that version that python3 has, or build/torch-2.11.0/torch, which is taken once from PyPI's package: 530 MB,
# and without a CUDA toolkit 12 MB of NVIDIA's packages more. Digests are pinned.
set -eu

version=2.11.0
root=$(cd "$(dirname "$0")/.." && pwd)
home="$root/build/torch-$version"
packages="torch==$version --hash=sha256:7aa2f9bbc6d4595ba72138026b2074be1233186150e9292865e04b7a63b8c67a"
cuda_packages="nvidia-cuda-runtime==13.0.96 --hash=sha256:7f82250d7782aa23b6cfe765ecc7db554bd3c2870c43f3d1821f1d18aebf0548
nvidia-cuda-cupti==13.0.85 --hash=sha256:4eb01c08e859bf924d222250d2e8f8b8ff6d3db4721288cf35d14252a4d933c8"

say() { printf '%s\n' "$*" >&2; }
die() { say "fetch_torch: $*"; exit 1; }

# is_it FOLDER: LibTorch of the version, with its headers.
is_it() {
  [ -e "$1/lib/libtorch_cpu.so" ] && [ -d "$1/include/ATen" ] && grep -q "^__version__ = '$version" "$1/version.py" 2>/dev/null
}

if [ -n "${LATHE_TORCH-}" ]; then
  is_it "$LATHE_TORCH" || die "LATHE_TORCH=$LATHE_TORCH is no folder of torch $version with include/ and lib/"
  echo "$LATHE_TORCH"
  exit 0
fi
if is_it "$home/torch"; then
  echo "$home/torch"
  exit 0
fi
command -v python3 >/dev/null || die "there is no python3: as root, run: apt-get install python3 python3-pip"
installed=$(python3 -c 'import importlib.util as u; s = u.find_spec("torch"); print(s.submodule_search_locations[0] if s else "")' 2>/dev/null || true)
if [ -n "$installed" ] && is_it "$installed"; then
  echo "$installed"
  exit 0
fi

python3 -m pip --version >/dev/null 2>&1 || die "python3 has no pip: as root, run: apt-get install python3-pip"
has_cuda() { ldconfig -p 2>/dev/null | grep -q "$1" || ls /usr/local/cuda*/lib64/"$1" >/dev/null 2>&1; }
if ! has_cuda libcudart.so.13 || ! has_cuda libcupti.so.13; then
  packages="$packages
$cuda_packages"
fi
partial="$home.partial"
rm -rf "$partial"
mkdir -p "$partial/wheels"
printf '%s\n' "$packages" >"$partial/requirements.txt"
say "fetch_torch: downloading torch $version (530 MB) from PyPI"
python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: --require-hashes \
  --python-version 3.11 --implementation cp --abi cp311 --abi abi3 --abi none --platform manylinux_2_28_x86_64 \
  --platform manylinux2014_x86_64 --platform manylinux_2_17_x86_64 ${LATHE_WHEELS:+--no-index --find-links "$LATHE_WHEELS"} \
  --dest "$partial/wheels" -r "$partial/requirements.txt" >&2 ||
  die "pip cannot download it. Offline, give a folder with the wheel as LATHE_WHEELS=FOLDER, or an unpacked torch $version as LATHE_TORCH=FOLDER"
python3 - "$partial" <<'PYTHON' || die "cannot unpack the wheel: is the disk full? It needs 1.1 GB in $root/build"
import pathlib, sys, zipfile
home = pathlib.Path(sys.argv[1])
for wheel in (home / "wheels").glob("*.whl"):
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if name.startswith(("torch/include/", "torch/lib/", "torch/version.py", "nvidia/")):
                if "libtorch_python" not in name:
                    archive.extract(name, home)
PYTHON
rm -rf "$partial/wheels" "$home"
mv "$partial" "$home"
echo "$home/torch"
