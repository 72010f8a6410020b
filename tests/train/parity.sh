#!/bin/sh
# parity.sh LATHE_TORCH: parity.py in a virtual environment of its own, made on first use (2.5 GB); 77 without a network.
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
venv="$root/build/train-venv"
requirements="$root/tests/train/parity-requirements.txt"
if ! "$venv/bin/python" -c 'import peft, torch, transformers' 2>/dev/null; then
  python3 -m venv "$venv"
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check -r "$requirements" ||
    { echo "skipped: pip cannot install $requirements" >&2; exit 77; }
fi
exec "$venv/bin/python" "$root/tests/train/parity.py" "$1"
