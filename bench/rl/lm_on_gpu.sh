#!/bin/sh
# lm_on_gpu.sh BIN MODEL TABLE PAIRS OUT [SECONDS]: a language model learns to write schedules on one GPU. First by
# examples (PAIRS, of `lathe data write --exam TABLE`), then from that adapter by reinforcement on TABLE (of `lathe data
# table --language schedule`) for about SECONDS (150), at 16 prompts x 16 samples a step; at last the exam on the tasks
# that are held out. BIN holds lathe-torch, lathe-torch-train and the two liblathe-torch-*cuda.so; torch 2.11 is
# python3's or LATHE_TORCH. OUT gets logs, seconds.txt, the exam's table, and sft.tar.gz and rl.tar.gz with
# metrics, samples and adapters.
set -eu

[ $# -ge 5 ] || { sed -n 's/^# \(lm_on_gpu.sh [A-Z ]*\[SECONDS\]\).*/usage: \1/p' "$0" >&2; exit 2; }
bin=$1 model=$2 table=$3 pairs=$4 out=$5 seconds=${6:-150}
root=$(cd "$(dirname "$0")/../.." && pwd)
mkdir -p "$out"
out=$(cd "$out" && pwd)
work=$(mktemp -d)
# What there is, also of a run that failed.
pack() {
  for run in sft rl; do
    if [ -d "$work/$run" ]; then
      (cd "$work/$run" && tar -czf "$out/$run.tar.gz" --exclude='actor-*' --exclude=checkpoint --exclude=checkpoint.json .)
    fi
  done
  if [ -e "$work/rl/table.md" ]; then cp "$work/rl/table.md" "$out/table.md"; fi
  rm -rf "$work"
}
trap pack EXIT
begin=$(date +%s)

. "$root/bench/phase.sh"

phase sft "$bin/lathe-torch" train "$root/recipes/sft/schedule.toml" --device cuda --model "$model" --data "$pairs" \
  --out "$work/sft"

# The last of four steps tells how many fit; a probe is examined with one sample a task.
sed '/^\[exam\]/,$ s/^samples = .*/samples = 1/' "$root/recipes/rl/lm_schedule.toml" >"$work/probe.toml"
phase probe "$bin/lathe-torch" train "$work/probe.toml" --device cuda --model "$model" --adapter "$work/sft/adapter" \
  --table "$table" --steps 4 --out "$work/probe"
steps=$(sed -n '$s/.*"seconds":\([0-9.]*\).*/\1/p' "$work/probe/metrics.jsonl" |
  awk -v most="$seconds" '{ n = int(most / $1); print (n < 10 ? 10 : (n > 300 ? 300 : n)) }')
echo "$steps steps" | tee -a "$out/seconds.txt"

phase rl "$bin/lathe-torch" train "$root/recipes/rl/lm_schedule.toml" --device cuda --model "$model" \
  --adapter "$work/sft/adapter" --table "$table" --steps "$steps" --out "$work/rl"
echo "all $(($(date +%s) - begin)) s" | tee -a "$out/seconds.txt"
