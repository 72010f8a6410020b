#!/bin/sh
# Measures what results/cpu/ states: bench/measure_cpu.sh [timing|throughput|catalog|search|program]...
# (default: all, some 50 minutes). Run it on a machine that does nothing else; it builds first.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
bin=build/ci/bin
out=results/cpu
mkdir -p "$out"

device() { sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1; }

. bench/record.sh

timing() { record timing "The clock" "$bin/timing_bench" --screens 200 --finals 100 --slower-finals 25; }
# With a cache of its own: else every kernel is found there, and builds cost nothing.
throughput() {
  LATHE_CACHE=$(mktemp -d)
  export LATHE_CACHE
  chmod 755 "$LATHE_CACHE"
  record throughput "Evaluations a minute" "$bin/throughput_bench"
  rm -rf "$LATHE_CACHE"
  unset LATHE_CACHE
}
catalog() { record catalog "Every shipped task" "$bin/search_bench" tasks/*.toml --search evolve --seeds 1 --evals 6 --confirm 0; }
search() {
  record search "Evolve against random at equal evaluations" "$bin/search_bench" tasks/softmax_rows.toml tasks/layer_norm.toml \
    tasks/gemm_bias_gelu.toml tasks/gemm_square.toml tasks/conv2d.toml --search random,evolve --seeds 3 --evals 40 --confirm 1
}
program() { record program "Start-up and memory" bench/program.sh "$bin/lathe"; }

./run lathe --help >/dev/null
cmake --preset ci >/dev/null && ninja -C build/ci >/dev/null
[ $# -gt 0 ] || set -- timing throughput catalog search program
for step; do "$step"; done
