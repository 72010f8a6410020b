#!/bin/sh
# kernels_on_gpu.sh BIN MODEL OUT draft|train|exam...: a language model learns to write kernels on one GPU. `draft` makes
# the examples, `train` an adapter, `exam` compares it with the model before, memory and the catalogue, on compositions
# that the examples do not have and on their tasks with other extents. BIN holds lathe, lathe-lab, their helpers and
# lathe-torch with its parts. RECIPE trains (default: recipes/sft/kernels.toml), with TRAIN_OPTIONS besides; VARIED
# kernels of each task are drafted beside the first. WORK keeps what the steps leave for each other (default:
# /tmp/lathe-sft). OUT gets logs, the adapter, samples and tables.
set -eu

[ $# -ge 4 ] || { sed -n 's/^# \(kernels_on_gpu.sh [A-Z]* [^:]*\):.*/usage: \1/p' "$0" >&2; exit 2; }
bin=$1 model=$2 out=$3
shift 3
root=$(cd "$(dirname "$0")/../.." && pwd)
work=${WORK:-/tmp/lathe-sft}
seed=${SEED:-31000000} tasks=${TASKS:-4000} extents=${EXTENTS:-3} kernels=${KERNELS:-1} varied=${VARIED:-0}
compositions=${COMPOSITIONS:-60} shapes=${SHAPES:-40}
mkdir -p "$out" "$work"
export LATHE_ENGINE="$bin/lathe-torch" LATHE_CACHE="$work/cache"
mkdir -p "$LATHE_CACHE" && chmod 755 "$LATHE_CACHE"

. "$root/bench/phase.sh"

draft() {
  phase draft "$bin/lathe" data draft --device cuda --seed "$seed" --tasks "$tasks" --extents "$extents" \
    --kernels "$kernels" --vary "$varied" --out "$work/data"
}
train() {
  phase train "$bin/lathe" train "${RECIPE:-$root/recipes/sft/kernels.toml}" --device cuda --model "$model" \
    --data "$work/data/train.jsonl" --out "$work/sft" ${TRAIN_OPTIONS-}
  (cd "$work/sft" && tar -czf "$out/sft.tar.gz" metrics.jsonl adapter)
}
# A few of each split, in the generator's order.
exam() {
  [ -d "$work/exam" ] || phase exam_tasks "$bin/lathe" data exam --seed "$seed" --tasks 200 --out "$work/exam"
  rm -rf "$work/chosen" && mkdir -p "$work/chosen"
  for split in compositions:$compositions shapes:$shapes; do
    find "$work/exam/${split%:*}" -name '*.toml' | sort -V | head -"${split#*:}" | while read -r task; do
      cp "$task" "$work/chosen/"
    done
  done
  phase exam "$bin/lathe" policy eval "$work/chosen" --device cuda --policy local --language kernel --model "$model" \
    --adapter "$work/sft/adapter" --label tuned --samples "${SAMPLES:-16}" --answer-tokens "${ANSWER_TOKENS:-8000}" \
    --controls "${CONTROLS:-base,default,retrieval}" \
    --learned "$work/data" --store "$work/store" --out "$out" --window 16
}

for step; do "$step"; done
