#!/bin/sh
# Start-up of the program in milliseconds, the median of 50, for verbs that do no work: bench/program.sh LATHE
set -eu
lathe=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
tasks=$(cd "$(dirname "$0")/../tasks" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

start_up() {
  for _ in $(seq 50); do
    begin=$(date +%s%N)
    "$@" >/dev/null
    echo $((($(date +%s%N) - begin) / 10000))
  done | sort -n | sed -n '25s/\(..\)$/.\1/p'
}

printf '| what | ms |\n|---|---|\n'
printf '| lathe --version | %s |\n' "$(start_up "$lathe" --version)"
printf '| lathe tasks list (every task is read) | %s |\n' "$(start_up "$lathe" tasks list --folder "$tasks")"
printf '| an empty process (/bin/true) | %s |\n' "$(start_up /bin/true)"
