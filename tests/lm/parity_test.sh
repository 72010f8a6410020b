#!/bin/sh
# parity_test.sh LATHE_TORCH: compares it with llama.cpp on the models that Lathe is tried with. 77, with the
# reason, where they or llama.cpp cannot be had.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
mkdir -p "$PARITY_FOLDER"
python=$("$root/scripts/python_env.sh" "$PARITY_FOLDER/python" "$root/scripts/parity_requirements.txt")
models=$("$root/scripts/fetch_models.sh") || exit 77
cd "$PARITY_FOLDER"
# shellcheck disable=SC2086
PYTHONDONTWRITEBYTECODE=1 "$python" "$here/parity.py" "$1" $models
