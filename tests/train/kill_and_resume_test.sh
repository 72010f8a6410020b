#!/bin/sh
# kill_and_resume_test.sh LATHE_TORCH: a run that is killed again and again ends with the weights of one that is not,
# and two processes do not work on one run.
set -eu

torch=$1
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$root"

set -- train recipes/sft/tiny.toml --device cpu --threads 2 --steps 300 --out
"$torch" "$@" "$work/whole" 2>"$work/log"
kills=0
for delay in 1.2 1.5 1.9 2.4; do
  "$torch" "$@" "$work/killed" --resume >/dev/null 2>"$work/log" &
  pid=$!
  sleep "$delay"
  if kill -9 "$pid" 2>/dev/null; then kills=$((kills + 1)); fi
  wait "$pid" 2>/dev/null || true
done
"$torch" "$@" "$work/killed" --resume 2>"$work/log"
[ "$kills" -gt 0 ] || { echo "no run was killed: they end too soon" >&2; exit 1; }
cmp "$work/whole/model/model.safetensors" "$work/killed/model/model.safetensors"
[ "$(wc -l <"$work/whole/metrics.jsonl")" = "$(wc -l <"$work/killed/metrics.jsonl")" ]
echo "killed $kills times; the weights are equal bit for bit"

long="train recipes/sft/tiny.toml --device cpu --threads 2 --steps 1000000 --out $work/long"
"$torch" $long 2>"$work/first" &
pid=$!
until [ -s "$work/first" ]; do sleep 0.05; done
if "$torch" $long --resume >/dev/null 2>"$work/second"; then
  kill -9 "$pid"
  echo "two processes worked on one run" >&2 && exit 1
fi
kill -9 "$pid"
grep -q "another process" "$work/second"
