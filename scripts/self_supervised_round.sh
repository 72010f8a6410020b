#!/bin/sh
# self_supervised_round.sh MODEL DATA OUT [OPTIONS of lathe policy eval ...]
#
# One round of self-supervised training (stage 2 of CUDA-L1): the model answers the training tasks, the gym judges
# the answers, and the model is trained on its successes and on the data it began with. After Ctrl-C or a crash the
# same command goes on. With --adapter DIR it is that adapter's answers from which a new adapter learns.
#
#   scripts/self_supervised_round.sh smollm2.gguf data round1 --adapter sft/adapter --samples 16
#
# LATHE names the program, RECIPE the recipe, LANGUAGE "schedule" (default) or "kernel". KEEP_OPTIONS go to lathe policy
# keep, TRAIN_OPTIONS to lathe train: with "--adapter DIR" an adapter is trained on rather than begun.
set -eu
if [ $# -lt 3 ]; then
  echo "usage: $0 MODEL DATA OUT [OPTIONS of lathe policy eval ...]" >&2
  exit 2
fi
model=$1 data=$2 out=$3
shift 3
root=$(cd "$(dirname "$0")/.." && pwd)
lathe=${LATHE:-lathe}
language=${LANGUAGE:-schedule}
recipe=${RECIPE:-$root/recipes/sft/$([ "$language" = schedule ] && echo schedule || echo adapter).toml}
examples=$data/train$([ "$language" = schedule ] && echo .schedule || true).jsonl

mkdir -p "$out"
"$lathe" policy eval "$data/tasks/train" --controls none --language "$language" --model "$model" --name round \
  --store "$out/store" --out "$out" "$@"
# The data set must not change while the training on it is resumed.
[ -e "$out/examples.jsonl" ] ||
  "$lathe" policy keep --name round --store "$out/store" --also "$examples" --out "$out/examples.jsonl" \
    ${KEEP_OPTIONS-}
"$lathe" train "$recipe" --model "$model" --data "$out/examples.jsonl" --out "$out/training" --resume \
  ${TRAIN_OPTIONS-}
