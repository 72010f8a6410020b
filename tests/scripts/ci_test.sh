#!/bin/sh
# .ci/run on a machine that forbids mount namespaces, with a stub for `run`: it says what was not proved, and its last
# line is the count.
set -u

source=$(cd "$(dirname "$0")/../.." && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir -p "$folder/stubs" "$folder/tree/.ci"
cp "$source/.ci/run" "$folder/tree/.ci/run"
cp -r "$source/scripts" "$folder/tree/scripts"
printf '#!/bin/sh\nexit 1\n' >"$folder/stubs/unshare"
chmod +x "$folder/stubs/unshare"
PATH=$folder/stubs:$PATH
export PATH

failed=0
# ci ANSWER CODE: .ci/run, where `./run test` prints ANSWER and ends with CODE.
ci() {
  printf '#!/bin/sh\nprintf "%s\\n"\nexit %s\n' "$1" "$2" >"$folder/tree/run"
  chmod +x "$folder/tree/run"
  last=$(bash "$folder/tree/.ci/run" 2>"$folder/errors" </dev/null)
  code=$?
  last=$(printf '%s\n' "$last" | tail -1)
}
check() { [ "$2" = "$3" ] || { echo "FAILED: $1: '$3' instead of '$2'"; failed=1; }; }

ci 'noise\n12 passed, 0 failed, 3 skipped' 0
check "the count is the last line" '12 passed, 0 failed, 3 skipped' "$last"
check "and all is well" 0 "$code"
check "what is not proved is said first and last" 2 "$(grep -ci 'not proved' "$folder/errors")"

ci '11 passed, 1 failed' 1
check "failures are counted" '11 passed, 1 failed' "$last"
check "and fail" 1 "$code"

ci 'a build that broke' 1
check "no count is a failure" '0 passed, 1 failed' "$last"
check "and fails" 1 "$code"
exit $failed
