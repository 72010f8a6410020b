#!/bin/sh
# trainer_test.sh TRAINER: runs TRAINER_test.py with the packages that requirements/TRAINER.txt pins. 77, with the
# reason, where they cannot be had.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
python=$("$here/../../scripts/python_env.sh" "$TRAINERS/$1" "$here/requirements/$1.txt")
exec "$python" -B "$here/$1_test.py" -v
