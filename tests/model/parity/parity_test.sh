#!/bin/sh
# parity_test.sh fetch|tokens|weights|chat: one comparison of tests/model/parity. `fetch` makes the Python environment
# and gets the models; the others use them. 77, with the reason, where they cannot be had.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)
python=$("$root/scripts/python_env.sh" "$PARITY_PYTHON" "$root/scripts/parity_requirements.txt")
models=$("$root/scripts/fetch_models.sh")
export PYTHONDONTWRITEBYTECODE=1 TRANSFORMERS_VERBOSITY=error

case $1 in
  fetch) ;;
  # shellcheck disable=SC2086
  tokens) "$python" "$here/tokens_parity.py" "$root" $models ;;
  # shellcheck disable=SC2086
  weights) "$python" "$here/weights_parity.py" $models ;;
  # shellcheck disable=SC2086
  chat) "$python" "$here/chat_parity.py" $models ;;
  *) exit 64 ;;
esac
