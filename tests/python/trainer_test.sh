#!/bin/sh
# trainer_test.sh TRAINER TEST: runs TEST_test.py with the packages that requirements/TRAINER.txt pins. 77, with the
# reason, where they cannot be had.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
scripts=$here/../../scripts
folder=$TRAINERS/$1
python=$("$scripts/python_env.sh" "$folder" "$here/requirements/$1.txt")
if [ -d "$folder/lib/python3.11/site-packages/torch" ] && [ ! -e "$folder/without-cuda" ]; then
  "$python" "$scripts/torch_without_cuda.py" "$folder/lib/python3.11/site-packages"
  : >"$folder/without-cuda"
fi
exec "$python" -B "$here/$2_test.py" -v
