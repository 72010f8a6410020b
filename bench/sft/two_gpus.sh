#!/bin/sh
# two_gpus.sh BIN OUT: the same supervised run on one GPU and on two, their losses side by side. Random weights and
# tokens; no file is needed. Fails where a loss of the first STEPS differs by more than TOLERANCE. Then a process of the
# run on two is killed, which must end it with an error. BIN holds lathe-torch with its parts. OUT gets logs and metrics.
set -eu

[ $# -eq 2 ] || { sed -n 's/^# \(two_gpus.sh [A-Z ]*\):.*/usage: \1/p' "$0" >&2; exit 2; }
bin=$1 out=$2
root=$(cd "$(dirname "$0")/../.." && pwd)
work=${WORK:-/tmp/lathe-two-gpus}
steps=${STEPS:-20} tolerance=${TOLERANCE:-0.01} device=${DEVICE:-cuda} shape=${SHAPE:-smollm2-135m} devices=${DEVICES:-2}
tokens=${TOKENS:-1024} rows=${ROWS:-64}
rm -rf "$work" && mkdir -p "$out" "$work"
out=$(cd "$out" && pwd)

. "$root/bench/phase.sh"
. "$root/bench/killed_process.sh"

# Answers that follow from their prompts, so that there is something to learn.
awk -v tokens="$tokens" 'BEGIN {
  srand(1)
  for (i = 0; i < 512; ++i) {
    length_of_it = int(tokens / 8 + rand() * tokens * 3 / 8)
    step = 1 + int(rand() * 7); at = int(rand() * 200)
    prompt = at; answer = ""
    for (j = 1; j < length_of_it; ++j) prompt = prompt "," (at = (at + step) % 256)
    for (j = 0; j < length_of_it; ++j) answer = answer (j ? "," : "") (at = (at + step) % 256)
    print "{\"kind\":\"first\",\"prompt_tokens\":[" prompt "],\"answer_tokens\":[" answer "]}"
  }
}' >"$work/data.jsonl"
cat >"$work/recipe.toml" <<RECIPE
[model]
path = "random:$shape"
[data]
train = "$work/data.jsonl"
[steps]
row_tokens = $tokens
rows = $rows
rows_at_once = $((rows / 4))
steps = $steps
[optimizer]
learning_rate = 3e-4
[output]
checkpoint_every = 0
RECIPE

train() { "$bin/lathe-torch" train "$work/recipe.toml" --device "$device" --devices "$1" --out "$2"; }
column() { sed "s/.*\"$1\":\([0-9.e-]*\).*/\1/" "$2"; }

phase one train 1 "$work/one"
phase several train "$devices" "$work/several"
for run in one several; do
  cp "$work/$run/metrics.jsonl" "$out/$run.jsonl"
  column loss "$out/$run.jsonl" >"$work/$run.loss"
  column seconds "$out/$run.jsonl" >"$work/$run.seconds"
done
paste "$work/one.loss" "$work/several.loss" "$work/one.seconds" "$work/several.seconds" |
  awk -v devices="$devices" '
    BEGIN { printf "%4s %10s %10s %9s   seconds: %8s %8s\n", "step", "one", devices " GPUs", "apart", "one", devices " GPUs" }
    { d = $1 < $2 ? $2 - $1 : $1 - $2; if (d > most) most = d
      if (NR > 3) { one += $3; several += $4 }
      printf "%4d %10.6f %10.6f %9.2e            %8.4f %8.4f\n", NR, $1, $2, d, $3, $4 }
    END { printf "the losses are at most %.2e apart", most
          if (several > 0) printf "; %d GPUs take %.2f of the time of one", devices, several / one
          print "" }' | tee "$out/losses.txt"
awk -v tolerance="$tolerance" '/^the losses/ { found = 1; bad = $6 + 0 > tolerance + 0 } END { exit !found || bad }' \
  "$out/losses.txt" || { echo "that is more than $tolerance" >&2; exit 1; }

killed "$work/killed" "$bin/lathe-torch" train "$work/recipe.toml" --device "$device" --devices "$devices" \
  --steps 5000 --out "$work/killed"
