#!/bin/sh
# python_env.sh FOLDER LIST: a Python environment in FOLDER with what LIST, a requirements file with hashes, pins;
# prints its interpreter. Ends with 77 and the reason where it cannot be made, as without a network.
set -eu

[ $# = 2 ] || { echo "usage: python_env.sh FOLDER LIST" >&2; exit 64; }
folder=$1
list=$2
done=$folder/made-of-$(cksum <"$list" | tr ' ' '-')

# Of several that want it at once the first makes it.
mkdir -p "$(dirname "$folder")"
exec 9>"$folder.lock"
flock 9

unavailable() { echo "python_env.sh: $*" >&2; exit 77; }

if [ ! -e "$done" ]; then
  rm -rf "$folder"
  mkdir -p "$folder"
  python3 -m venv "$folder" >&2 || unavailable "python3 -m venv does not work: apt-get install python3-venv"
  # Of a package for newer interpreters its tests say what works here.
  "$folder/bin/pip" install -q --disable-pip-version-check --no-deps --only-binary :all: --require-hashes \
    --ignore-requires-python -r "$list" >&2 ||
    unavailable "pip cannot fetch what $list names (its own messages stand above)"
  : >"$done"
fi
echo "$folder/bin/python"
