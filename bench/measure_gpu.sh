#!/bin/sh
# Measures what results/cuda/ states: bench/measure_gpu.sh [throughput|references|conformance|memory_bound|ragged|fp16|profile]...
# (default: all, some ten minutes). Needs an NVIDIA GPU, and PyTorch with Triton for all but the first three. BIN has the programs (build/ci/bin), OUT
# gets a file each (build/measured); what they mean, and the losses, a person writes into results/cuda.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
bin=${BIN:-build/ci/bin}
out=${OUT:-build/measured}
mkdir -p "$out"
LATHE_CACHE=$(mktemp -d)
LATHE_STORE=$LATHE_CACHE/store
export LATHE_CACHE LATHE_STORE
chmod 755 "$LATHE_CACHE"
trap 'rm -rf "$LATHE_CACHE"' EXIT

device() { nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null || echo "an unnamed GPU"; }

# record NAME COMMAND...: the command's output under what was measured where; goes on where one fails.
record() {
  name=$1
  shift
  echo "measuring $name" >&2
  {
    printf '`%s`\n\n' "$*"
    printf '%s, %s cores, %s, commit %s\n\n' "$(device)" "$(nproc)" "$(date -u +%Y-%m-%d)" "$(git rev-parse --short HEAD 2>/dev/null || echo unknown)"
    "$@" 2>&1 || printf '\nended with %s\n' "$?"
  } >"$out/$name.md"
}

throughput() { record throughput "$bin/throughput_bench" --device cuda --count 10 --alone 3; }
references() { record references "$bin/reference_bench" --device cuda bench/gym/products.toml; }
conformance() { record conformance "$bin/lathe" doctor --conformance --device cuda; }
memory_bound() { record memory_bound python3 bench/torch/compare.py "$bin/lathe" --candidates 56 --verbose 6 --out "$LATHE_CACHE/compare"; }
ragged() { record ragged python3 bench/torch/check.py "$bin/lathe" --candidates 4 --out "$LATHE_CACHE/check"; }
fp16() { record fp16 python3 bench/matmul_fp16.py; }
profile() {
  record profile "$bin/lathe" eval examples/cuda/matmul_fp16.toml examples/cuda/matmul_fp16.cu --device cuda --depth profile
}

[ $# -gt 0 ] || set -- throughput references conformance memory_bound ragged fp16 profile
for step; do "$step"; done
