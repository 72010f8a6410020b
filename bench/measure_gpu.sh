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

. bench/record.sh

throughput() { record throughput "Evaluations an hour" "$bin/throughput_bench" --device cuda --count 10 --alone 3; }
references() {
  record references "References of large products and convolutions" "$bin/reference_bench" --device cuda bench/gym/products.toml \
    bench/gym/convolutions.toml bench/gym/transposed_convolutions.toml
}
conformance() { record conformance "The conformance suite" "$bin/lathe" doctor --conformance --device cuda; }
memory_bound() { record memory_bound "Beside PyTorch" python3 bench/torch/compare.py "$bin/lathe" --candidates 56 --verbose 6 --out "$LATHE_CACHE/compare"; }
ragged() { record ragged "Ragged shapes" python3 bench/torch/check.py "$bin/lathe" --candidates 4 --out "$LATHE_CACHE/check"; }
fp16() { record fp16 "The worked example on tensor cores" python3 bench/matmul_fp16.py; }
profile() {
  record profile "A profile" "$bin/lathe" eval examples/cuda/matmul_fp16.toml examples/cuda/matmul_fp16.cu --device cuda --depth profile
}

[ $# -gt 0 ] || set -- throughput references conformance memory_bound ragged fp16 profile
# One that fails says why; the others are measured all the same.
for step; do "$step" || echo "measure_gpu.sh: $step failed" >&2; done
