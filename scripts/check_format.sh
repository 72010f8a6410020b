#!/bin/sh
# check_format.sh [CLANG_FORMAT]: names every line that clang-format would change, or with --fix as the second
# argument changes it.
set -eu
cd "$(dirname "$0")/.."
tool=${1:-clang-format}
command -v "$tool" >/dev/null || { echo "there is no $tool: apt-get install clang-format"; exit 77; }
action='--dry-run -Werror'
[ "${2-}" != --fix ] || action=-i
find src tests bench fuzz examples device -name '*.h' -o -name '*.c' -o -name '*.cpp' | xargs "$tool" $action
