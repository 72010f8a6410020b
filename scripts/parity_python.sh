#!/bin/sh
# parity_python.sh FOLDER: a Python environment in FOLDER with what scripts/parity_requirements.txt pins; prints its
# interpreter. Ends with 77 and the reason where it cannot be made, as without a network.
set -eu

[ $# = 1 ] || { echo "usage: parity_python.sh FOLDER" >&2; exit 64; }
folder=$1
list=$(cd "$(dirname "$0")" && pwd)/parity_requirements.txt
done=$folder/made-of-$(cksum <"$list" | tr ' ' '-')

unavailable() { echo "parity_python.sh: $*" >&2; exit 77; }

if [ ! -e "$done" ]; then
  rm -rf "$folder"
  mkdir -p "$folder"
  python3 -m venv "$folder" >&2 || unavailable "python3 -m venv does not work: apt-get install python3-venv"
  "$folder/bin/pip" install -q --disable-pip-version-check --no-deps --only-binary :all: --require-hashes -r "$list" >&2 ||
    unavailable "pip cannot fetch what $list names (its own messages stand above)"
  : >"$done"
fi
echo "$folder/bin/python"
