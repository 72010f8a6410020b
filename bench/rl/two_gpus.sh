#!/bin/sh
# two_gpus.sh BIN MODEL TABLE OUT: the same reinforcement on one GPU and on two, losses and gradients of its first steps
# side by side. TABLE is of lathe data table --language schedule. Fails where they differ by more than TOLERANCE in the
# first step that has a gradient; later ones draw other answers once rounding has moved a probability. Then a process of
# the run on two is killed, which must end it with an error. BIN holds lathe-torch with its parts. OUT gets logs and
# metrics.
set -eu

[ $# -eq 4 ] || { sed -n 's/^# \(two_gpus.sh [A-Z ]*\):.*/usage: \1/p' "$0" >&2; exit 2; }
bin=$1 model=$2 table=$3 out=$4
root=$(cd "$(dirname "$0")/../.." && pwd)
work=${WORK:-/tmp/lathe-rl-two-gpus}
steps=${STEPS:-8} tolerance=${TOLERANCE:-0.01} device=${DEVICE:-cuda} devices=${DEVICES:-2}
rm -rf "$work" && mkdir -p "$out" "$work"
out=$(cd "$out" && pwd)

. "$root/bench/phase.sh"
. "$root/bench/killed_process.sh"

# Passes are small, so that there are several to share.
cat >"$work/recipe.toml" <<RECIPE
[rl]
steps = $steps
prompts = ${PROMPTS:-8}
samples = ${SAMPLES:-16}
[model]
tokens_at_once = ${TOKENS:-16384}
answers_at_once = 128
[adapter]
rank = 8
alpha = 16
[optimizer]
learning_rate = 1e-4
[exam]
held_out = 0
[output]
checkpoint_every = 1000000
RECIPE

train() {
  "$bin/lathe-torch" train "$work/recipe.toml" --model "$model" --table "$table" --device "$device" --devices "$1" \
    --out "$2"
}
column() { sed "s/.*\"$1\":\([0-9.e-]*\).*/\1/" "$2"; }

phase one train 1 "$work/one"
phase several train "$devices" "$work/several"
for run in one several; do
  cp "$work/$run/metrics.jsonl" "$out/$run.jsonl"
  for name in loss gradient_norm update_seconds; do column $name "$out/$run.jsonl" >"$work/$run.$name"; done
done
paste "$work/one.loss" "$work/several.loss" "$work/one.gradient_norm" "$work/several.gradient_norm" \
  "$work/one.update_seconds" "$work/several.update_seconds" |
  awk -v devices="$devices" '
    BEGIN { printf "%4s %12s %12s %10s %10s   update: %7s %7s\n", "step", "loss, one", devices " GPUs", "norm", devices " GPUs", "one s", devices " GPUs" }
    { if (!length_ && $3 > 0) { loss = $1 - $2; norm = $3 - $4; if (loss < 0) loss = -loss; if (norm < 0) norm = -norm; length_ = $3 }
      if (NR > 2) { one += $5; several += $6 }
      printf "%4d %12.6f %12.6f %10.5f %10.5f            %7.3f %7.3f\n", NR, $1, $2, $3, $4, $5, $6 }
    END { if (length_) printf "the first losses are %.2e apart, the norms %.2e of one\n", loss, norm / length_
          if (several > 0) printf "an update on %d GPUs takes %.2f of the time of one\n", devices, several / one }' |
  tee "$out/losses.txt"
awk -v tolerance="$tolerance" '/^the first losses/ { found = 1; bad = $5 + 0 > tolerance + 0 || $9 + 0 > tolerance + 0 }
  END { exit !found || bad }' "$out/losses.txt" || { echo "that is more than $tolerance" >&2; exit 1; }

killed "$work/killed" "$bin/lathe-torch" train "$work/recipe.toml" --model "$model" --table "$table" --device "$device" \
  --devices "$devices" --steps 5000 --out "$work/killed"
