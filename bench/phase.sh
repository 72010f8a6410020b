# For the scripts that run in phases: phase NAME COMMAND... writes the command's output to $out/NAME.log and its time to
# $out/seconds.txt, and ends the script where it fails.
phase() {
  name=$1
  shift
  from=$(date +%s)
  code=0
  "$@" >"$out/$name.log" 2>&1 || code=$?
  echo "$name $(($(date +%s) - from)) s, exit code $code" | tee -a "$out/seconds.txt"
  tail -n 3 "$out/$name.log"
  [ "$code" -eq 0 ] || exit "$code"
}
