#!/bin/sh
# Tunes and measures half-precision products on the GPU within some minutes: bench/gemm_gpu.sh [STEP]... (default: kernels
# losses spread report; others: half layouts wall). BIN has the programs (default: beside this folder, or build/ci/bin),
# OUT gets the journals, tables and logs (default: build/measured). SECONDS_LOSSES, SECONDS_SPREAD, SECONDS_HALF,
# SECONDS_LAYOUT and SECONDS_ALL bound the tuning of each, SECONDS_BENCH a report; JOURNAL is one that `all` goes on
# with, LEARN_FROM are journals, of any GPU, that it learns from. The last lines are a short table.
set -u

root=$(cd "$(dirname "$0")/.." && pwd)
bin=${BIN:-$root/bin}
[ -x "$bin/lathe" ] || bin=$root/build/ci/bin
out=${OUT:-$root/build/measured}
mkdir -p "$out"
LATHE_CACHE=${LATHE_CACHE:-$(mktemp -d)}
export LATHE_CACHE
chmod 755 "$LATHE_CACHE"

# What families E, D and A lost, and some that they did not.
losses=1024x256x2048,4096x128x2048,4096x128x4096,512x512x1024,1024x512x1024,256x128x12288,128x1024x4096,128x1024x8192
losses=$losses,128x1024x16384,256x1024x8192,1024x256x8192,1024x256x4096,128x512x8192,128x512x16384,512x1024x4096
losses=$losses,512x1024x12288,2048x256x8192,2048x128x1024,2048x128x4096,4096x64x12288,12288x64x8192,16384x64x2048
losses=$losses,64x1024x4096,64x2048x2048,2048x64x1024,1024x128x1024,1024x128x4096,256x2048x1024,256x2048x512
losses=$losses,128x4096x2048,1024x1024x1024,1024x1024x4096,1024x4096x512,2048x2048x512,2048x2048x2048,512x8192x1024

# tune NAME SIZES SECONDS [OPTION...]: a kernel that hangs or takes the process down is left out by the next call. SIGTERM
# alone asks for an end between two kernels, which a kernel that hangs never reaches.
tune() {
  name=$1 sizes=$2 ends=$(($(date +%s) + $3))
  shift 3
  while left=$((ends - $(date +%s))) && [ "$left" -gt 0 ]; do
    timeout -k 5 $((left + 45)) "$bin/lathe" gemm tune --journal "$out/$name.jsonl" --sizes "$sizes" --seconds "$left" "$@" \
      >>"$out/$name.log" 2>&1 && break
    echo "tuning $name ended with $?" | tee -a "$out/$name.log"
  done
  tail -2 "$out/$name.log"
  grep -c 'wrong elements\|other bits\|not zero' "$out/$name.log" | sed "s/^/$name: kernels found wrong: /"
}

# A second run of what the first one chose.
bench() {
  name=$1 sizes=$2
  shift 2
  timeout -k 20 "${SECONDS_BENCH:-150}" "$bin/lathe" gemm bench --journal "$out/$name.jsonl" --sizes "$sizes" --out "$out/$name.csv" \
    --summary "$out/$name.md" "$@" >"$out/$name.bench.log" 2>&1 || tail -3 "$out/$name.bench.log"
}

kernels() {
  if [ -x "$bin/gemm_gpu_test" ]; then
    timeout -k 5 200 "$bin/gemm_gpu_test" --gtest_brief=1 >"$out/gemm_gpu_test.log" 2>&1
    echo "gemm_gpu_test ended with $?"
    tail -4 "$out/gemm_gpu_test.log"
  fi
}
losses() {
  tune losses "$losses" "${SECONDS_LOSSES:-110}"
  bench losses "$losses" --verify 20
}
spread() {
  tune spread "${SIZES_SPREAD:-even:100}" "${SECONDS_SPREAD:-150}"
  bench spread "${SIZES_SPREAD:-even:100}" --warm-only
}
# Products that sum in fp16, against COMPUTE_16F.
half() {
  sizes=1024x1024x1024,2048x2048x2048,4096x4096x4096,8192x8192x8192,4096x128x2048,128x1024x4096,16384x4096x1024,64x4096x64
  tune half "$sizes" "${SECONDS_HALF:-40}" --accumulate fp16
  bench half "$sizes" --verify 20
}
# Kernels for the other layouts, each against the vendor's of that layout.
layouts() {
  sizes=1024x1024x1024,2048x2048x2048,4096x4096x4096,1024x256x2048,128x1024x4096,256x4096x1024
  for layout in nn nt tt; do
    tune "$layout" "$sizes" "${SECONDS_LAYOUT:-25}" --layout "$layout"
    bench "$layout" "$sizes" --verify 20
  done
}
# All 1000 sizes, as many as the time allows, with a short list for each: what won at similar sizes is in it.
all() {
  [ -z "${JOURNAL-}" ] || cp "$JOURNAL" "$out/all.jsonl"
  set -- --screened 12 --neighbours 8
  for learned in ${LEARN_FROM-}; do set -- "$@" --learn-from "$learned"; done
  tune all all "${SECONDS_ALL:-400}" "$@"
  bench all all --warm-only --autotuned-only
}
# The paper's protocols, with the choices of losses.
wall() {
  timeout -k 5 200 "$bin/lathe" gemm bench --journal "$out/losses.jsonl" --sizes "$losses" --out "$out/wall.csv" \
    --summary "$out/wall.md" --warm-only --autotuned-only --wall 30 --gap-us 2000 >"$out/wall.bench.log" 2>&1
  sed -n '1,12p' "$out/wall.md"
}
report() {
  for name in losses spread half nn nt tt all; do
    [ ! -s "$out/$name.md" ] || { echo "== $name" && sed -n '/^| [0-9]* sizes/,/^$/p; /^## By family/,/^## The/p' "$out/$name.md"; }
  done
  # Each size: ours and cuBLASLt autotuned in us, the ratio, the kernel.
  for name in losses spread half nn nt tt all; do
    [ ! -s "$out/$name.csv" ] ||
      awk -F, 'NR > 1 && $6 > 0 { printf "%sx%sx%s %.2f %.2f %.3f %s\n", $1, $2, $3, $6 / 1e3, $10 / 1e3, $10 / $6, $4 }' \
        "$out/$name.csv" | sort -k4 -n | head -70
  done
}

[ $# -gt 0 ] || set -- kernels losses spread report
for step; do "$step"; done
