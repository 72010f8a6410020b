#!/bin/sh
# kernels_on_gpu.sh BIN MODEL ADAPTER OUT: a language model that writes kernels already (ADAPTER) learns by reinforcement
# which of them are right and fast, on one GPU. `lathe serve` judges on loopback between the model's turns. RUNS are the
# trainings, NAME:SEED or NAME:SEED:RECIPE each; then EXAMS, by default their start and all of them, are examined on
# compositions that none has seen. BIN holds lathe, lathe-lab, lathe-serve, their helpers and lathe-torch with its
# parts. WORK keeps tasks, stores and runs, which go on where they were stopped (default: /tmp/lathe-rl); another model
# or adapter needs another. OUT gets logs, seconds.txt, the runs' metrics and samples, adapters, and the exam's samples
# and table.
set -eu

[ $# -eq 4 ] || { sed -n 's/^# \(kernels_on_gpu.sh [A-Z ]*\):.*/usage: \1/p' "$0" >&2; exit 2; }
bin=$1 model=$2 adapter=$3 out=$4
root=$(cd "$(dirname "$0")/../.." && pwd)
work=${WORK:-/tmp/lathe-rl}
device=${DEVICE:-cuda}
gym_device=${GYM_DEVICE:-$device}  # cuda:1: kernels have a GPU of their own
tasks_seed=${SEED:-33000000} tasks=${TASKS:-400} steps=${STEPS:-20} runs=${RUNS:-learned:1}
compositions=${COMPOSITIONS:-24} samples=${SAMPLES:-16} answer_tokens=${ANSWER_TOKENS:-4096}
recipe=${RECIPE:-$root/recipes/rl/lm_kernel.toml}
mkdir -p "$out" "$work"
out=$(cd "$out" && pwd)
export LATHE_ENGINE="$bin/lathe-torch" LATHE_CACHE="$work/cache"
mkdir -p "$LATHE_CACHE" && chmod 755 "$LATHE_CACHE"

. "$root/bench/phase.sh"

# dash leaves out what stands for EXIT where a signal ends it.
trap 'exit 143' TERM
trap 'exit 130' INT

# Tasks of the exam's compositions are left out of the training's, whatever the seeds.
[ -e "$work/data/train.jsonl" ] || phase tasks "$bin/lathe" data draft --device "$gym_device" --seed "$tasks_seed" --tasks "$tasks" \
  --kernels 1 --out "$work/data"
if [ ! -d "$work/exam" ]; then
  rm -rf "$work/exam.partial"
  phase exam_tasks "$bin/lathe" data exam --seed 31000000 --tasks "${EXAM_TASKS:-200}" --out "$work/exam.partial"
  mv "$work/exam.partial" "$work/exam"
fi
rm -rf "$work/chosen" && mkdir -p "$work/chosen"
find "$work/exam/compositions" -name '*.toml' | sort -V | head -"$compositions" | while read -r task; do
  cp "$task" "$work/chosen/"
done

"$bin/lathe" serve --device "$gym_device" --port 0 --store "$work/served" >"$out/serve.log" 2>&1 &
service=$!
trap 'kill "$service" 2>/dev/null || true; wait "$service" 2>/dev/null || true' EXIT
looks=0
until grep -q '^listening on ' "$out/serve.log" && grep -q 'serve.worker_joined' "$out/serve.log"; do
  looks=$((looks + 1))
  if [ "$looks" -gt 300 ] || ! kill -0 "$service" 2>/dev/null; then
    cat "$out/serve.log" >&2
    exit 1
  fi
  sleep 0.2
done
url=$(sed -n 's/^listening on //p' "$out/serve.log")

pack() {
  (cd "$work/$1" && tar -czf "$out/$1.tar.gz" --exclude='actor-*' --exclude=checkpoint.json --exclude=run.lock \
    --exclude=./adapter . && { [ ! -d adapter ] || tar -czf "$out/$1.adapter.tar.gz" adapter; })
}
busy() { awk '{ n += 1; s += $1 } END { if (n) printf "%s: the GPU was busy %.0f%% of the time\n", run, s / n }' run="$1"; }

for run in $runs; do
  label=${run%%:*} seed=$(echo "$run:1" | cut -d: -f2) own=$(echo "$run::" | cut -d: -f3)
  [ "$label" != none ] || continue
  # What there is, also of a run that failed.
  trap 'pack "$label" || true; kill "$service" $(jobs -p) 2>/dev/null || true; wait "$service" 2>/dev/null || true' EXIT
  nvidia-smi --query-gpu=utilization.gpu --format=csv,noheader,nounits -lms 500 >"$out/$label.busy" 2>/dev/null &
  watch=$!
  phase "train_$label" "$bin/lathe" train "${own:-$recipe}" --device "$device" --model "$model" --adapter "$adapter" \
    --gym "$url" --tasks "$work/data/tasks/train" --steps "$steps" --seed "${seed:-1}" --out "$work/$label" --resume
  kill "$watch" 2>/dev/null || true
  busy "$label" <"$out/$label.busy" | tee -a "$out/seconds.txt"
  "$bin/lathe" report "$work/$label" --html "$out/$label.html" >/dev/null
  pack "$label"
done
# The exam times under the GPU's lock, which its model takes to write.
kill "$service" && wait "$service" || true
trap - EXIT

controls=${CONTROLS:-default}
[ "$samples" -gt 0 ] || exit 0
for run in ${EXAMS:-start $runs}; do
  label=${run%%:*} from=$work/${run%%:*}/adapter
  [ "$label" != start ] || from=$adapter
  [ -d "$from" ] || continue
  phase "exam_$label" "$bin/lathe" policy eval "$work/chosen" --device "$gym_device" --policy local \
    --language kernel --model "$model" --adapter "$from" --label "$label" --samples "$samples" \
    --answer-tokens "$answer_tokens" --controls "$controls" --store "$work/store-$samples" --out "$out/exam" --window 64
  controls=none
done
