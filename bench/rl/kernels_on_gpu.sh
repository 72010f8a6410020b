#!/bin/sh
# kernels_on_gpu.sh BIN MODEL ADAPTER OUT: a language model that writes kernels already (ADAPTER) learns by reinforcement
# which of them are right and fast, on one GPU. `lathe serve` judges on loopback while the model rests; both take turns.
# Then the adapter is examined against its start on compositions that neither has seen. BIN holds lathe, lathe-lab,
# lathe-serve, their helpers and lathe-torch with its parts. WORK keeps tasks, stores and the run, which goes on where it
# was stopped (default: /tmp/lathe-rl). OUT gets logs, seconds.txt, the run's metrics and samples, the adapter, and the
# exam's samples and table.
set -eu

[ $# -eq 4 ] || { sed -n 's/^# \(kernels_on_gpu.sh [A-Z ]*\):.*/usage: \1/p' "$0" >&2; exit 2; }
bin=$1 model=$2 adapter=$3 out=$4
root=$(cd "$(dirname "$0")/../.." && pwd)
work=${WORK:-/tmp/lathe-rl}
device=${DEVICE:-cuda}
seed=${SEED:-33000000} tasks=${TASKS:-400} steps=${STEPS:-20}
compositions=${COMPOSITIONS:-24} samples=${SAMPLES:-16} answer_tokens=${ANSWER_TOKENS:-4096}
recipe=${RECIPE:-$root/recipes/rl/lm_kernel.toml}
mkdir -p "$out" "$work"
export LATHE_ENGINE="$bin/lathe-torch" LATHE_CACHE="$work/cache"
mkdir -p "$LATHE_CACHE" && chmod 755 "$LATHE_CACHE"

. "$root/bench/phase.sh"

# Tasks of the exam's compositions are left out of the training's, whatever the seeds.
[ -d "$work/data" ] || phase tasks "$bin/lathe" data draft --device "$device" --seed "$seed" --tasks "$tasks" \
  --kernels 1 --out "$work/data"
[ -d "$work/exam" ] || phase exam_tasks "$bin/lathe" data exam --seed 31000000 --tasks 200 --out "$work/exam"
rm -rf "$work/chosen" && mkdir -p "$work/chosen"
find "$work/exam/compositions" -name '*.toml' | sort -V | head -"$compositions" | while read -r task; do
  cp "$task" "$work/chosen/"
done

"$bin/lathe" serve --device "$device" --port 0 --store "$work/served" >"$out/serve.log" 2>&1 &
service=$!
trap 'kill "$service" 2>/dev/null || true; wait "$service" 2>/dev/null || true' EXIT
until grep -q '^listening on ' "$out/serve.log"; do
  kill -0 "$service" 2>/dev/null || { cat "$out/serve.log" >&2; exit 1; }
  sleep 0.2
done
url=$(sed -n 's/^listening on //p' "$out/serve.log")

pack() {
  (cd "$work/run" && tar -czf "$out/run.tar.gz" --exclude='actor-*' --exclude=checkpoint.json --exclude=run.lock .)
}
# What there is, also of a run that failed.
trap 'pack || true; kill "$service" 2>/dev/null || true; wait "$service" 2>/dev/null || true' EXIT
phase train "$bin/lathe" train "$recipe" --device "$device" --model "$model" --adapter "$adapter" --gym "$url" \
  --tasks "$work/data/tasks/train" --steps "$steps" --out "$work/run" --resume
"$bin/lathe" report "$work/run" >/dev/null && cp "$work/run/curves.svg" "$out/"
pack
# The exam times under the GPU's lock, which its model takes to write.
kill "$service" && wait "$service" || true
trap - EXIT

controls=${CONTROLS:-default}
for entrant in "start:$adapter" "learned:$work/run/adapter"; do
  phase "exam_${entrant%%:*}" "$bin/lathe" policy eval "$work/chosen" --device "$device" --policy local \
    --language kernel --model "$model" --adapter "${entrant#*:}" --label "${entrant%%:*}" --samples "$samples" \
    --answer-tokens "$answer_tokens" --controls "$controls" --store "$work/store" --out "$out/exam" --window 16
  controls=none
done
