#!/bin/sh
# devices_test.sh LATHE_TORCH: processes that share a run have the loss of one; where one of them is killed the run ends
# with an error, and goes on bit by bit with --resume.
set -eu

torch=$1
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$root"
fail() { echo "$*" >&2; exit 1; }

set -- train recipes/sft/tiny.toml --device cpu --threads 1

# rows_at_once is 2: so passes are the same, and what is left is the order of sums.
"$torch" "$@" --steps 600 --out "$work/one" >/dev/null 2>"$work/log"
for devices in 2 3; do
  "$torch" "$@" --steps 600 --devices "$devices" --out "$work/$devices" >"$work/out" 2>"$work/log"
  [ "$(wc -l <"$work/out")" = 1 ] || fail "$devices processes: more than one prints"
  [ "$(wc -l <"$work/$devices/metrics.jsonl")" = 600 ] || fail "$devices processes: not a line for each step"
  losses() { sed 's/.*"loss":\([0-9.e-]*\).*/\1/' "$work/$1/metrics.jsonl" | head -n 100; }
  losses one >"$work/a"
  losses "$devices" >"$work/b"
  paste "$work/a" "$work/b" | awk '{ d = $1 - $2; if (d * d > 1e-8) { print "step " NR ": " $0; bad = 1 } } END { exit bad }' >&2 ||
    fail "$devices processes: another loss"
done

lines_of() { cat "$1/metrics.jsonl" 2>/dev/null | wc -l; }
# wait_for_lines COUNT FOLDER: until the run, which is $run, has made so many steps.
wait_for_lines() {
  until [ "$(lines_of "$2")" -ge "$1" ]; do
    kill -0 "$run" 2>/dev/null || fail "the run ended too soon: $(cat "$work/log")"
    sleep 0.05
  done
}
# The members of a run that is under way: its process's children.
members() { grep -ls "^PPid:.$1\$" /proc/[0-9]*/status | cut -d / -f 3 | sort -n; }
is_gone() { [ ! -e "/proc/$1/status" ] || grep -q '^State:.Z' "/proc/$1/status"; }
for killed in last first; do
  "$torch" "$@" --devices 3 --steps 100000 --out "$work/$killed" >/dev/null 2>"$work/log" &
  run=$!
  wait_for_lines 1 "$work/$killed"
  others=$(members "$run")
  [ "$(echo "$others" | wc -l)" = 2 ] || fail "not two further processes: $others"
  from=$(date +%s)
  if [ "$killed" = last ]; then
    kill -9 "$(echo "$others" | tail -n 1)"
    code=0
    wait "$run" || code=$?
    [ "$code" = 4 ] || fail "the run ended with $code"
    grep -q "the process of device 2 ended: killed by Killed" "$work/log" || fail "$(cat "$work/log")"
  else
    kill -9 "$run"
    wait "$run" 2>/dev/null || true
  fi
  for other in $others; do
    until is_gone "$other" 2>/dev/null; do
      [ $(($(date +%s) - from)) -lt 20 ] || fail "process $other stays"
      sleep 0.1
    done
  done
  [ $(($(date +%s) - from)) -lt 10 ] || fail "it took too long to see that a process is gone"
done

# Stopped by Ctrl-C and by a lost process, then ended: the weights of a run that was not.
resume() { "$torch" "$@" --steps 600 --devices 2 --out "$work/parts" --resume >/dev/null 2>"$work/log"; }
begin() {
  lines=$(lines_of "$work/parts")
  resume "$@" &
  run=$!
  wait_for_lines $((lines + 50)) "$work/parts"
  first=$(members "$run" | head -n 1)
}
begin "$@"
kill -INT "$first"
code=0
wait "$run" || code=$?
[ "$code" = 130 ] || fail "Ctrl-C: exit code $code: $(cat "$work/log")"
[ -e "$work/parts/checkpoint/state.json" ] || fail "Ctrl-C: nothing is saved"
begin "$@"
kill -9 "$(members "$first" | head -n 1)"
wait "$run" && fail "a lost process is no error"
resume "$@"
cmp "$work/2/model/model.safetensors" "$work/parts/model/model.safetensors"

"$torch" "$@" --steps 600 --out "$work/parts" --resume >/dev/null 2>"$work/log" && fail "one process goes on with two's run"
grep -q "other processes: 2, not 1" "$work/log" || fail "$(cat "$work/log")"
echo "two and three processes train as one"
