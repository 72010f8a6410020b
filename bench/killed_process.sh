# For runs of several processes: killed FOLDER COMMAND... starts a run that writes FOLDER, kills one of its further
# processes after its first step, and fails unless the run ends with exit code 4. $out gets killed.log and losses.txt.
killed() {
  folder=$1
  shift
  "$@" >"$out/killed.log" 2>&1 &
  run=$!
  until [ -s "$folder/metrics.jsonl" ]; do
    kill -0 "$run" 2>/dev/null || { cat "$out/killed.log" >&2; exit 1; }
    sleep 0.2
  done
  from=$(date +%s)
  grep -ls "^PPid:.$run\$" /proc/[0-9]*/status | head -n 1 | cut -d / -f 3 | xargs kill -9
  code=0
  wait "$run" || code=$?
  tail -n 2 "$out/killed.log"
  echo "a process was killed: the run ended with exit code $code after $(($(date +%s) - from)) s" | tee -a "$out/losses.txt"
  [ "$code" = 4 ]
}
