#!/bin/sh
# check_shell.sh [FILE...]: every script parses in bash and in dash, whichever of the two a machine starts it with.
set -eu
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- run .ci/run scripts/*.sh bench/*.sh bench/*/*.sh tests/scripts/*.sh tests/model/parity/*.sh
status=0
for shell in bash dash; do
  for script; do
    "$shell" -n "$script" || { echo "$script does not parse in $shell"; status=1; }
  done
done
exit $status
