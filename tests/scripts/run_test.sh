#!/bin/sh
# The script `run` in a tree of its own, where apt-get and the build are stubs that write down how they were called.
set -u

source=$(cd "$(dirname "$0")/../.." && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir -p "$folder/stubs" "$folder/scripts" "$folder/build/run/bin"
cp "$source/run" "$folder/run"
echo missing-package >"$folder/scripts/packages.txt"
echo "project(lathe VERSION 0.1.0" >"$folder/CMakeLists.txt"
stub() { printf '#!/bin/sh\n%s\n' "$2" >"$1" && chmod +x "$1"; }
stub "$folder/stubs/apt-get" "echo \"apt-get \$*\" >>$folder/calls"
stub "$folder/stubs/dpkg-query" 'exit 1'
stub "$folder/stubs/id" 'echo 0'
stub "$folder/stubs/cmake" ':'
stub "$folder/stubs/ninja" 'echo "no work to do"'
stub "$folder/build/run/bin/lathe" "echo \"lathe \$*\" >>$folder/calls"
PATH=$folder/stubs:$PATH
export PATH
unset LATHE_YES

failed=0
# expect WHAT PATTERN TEXT, refuse WHAT PATTERN TEXT: TEXT has a line with PATTERN, or has none.
expect() { printf '%s\n' "$3" | grep -q -e "$2" || { echo "FAILED: $1: '$2' is not in: $3"; failed=1; }; }
refuse() { ! printf '%s\n' "$3" | grep -q -e "$2" || { echo "FAILED: $1: '$2' is in: $3"; failed=1; }; }
afresh() { rm -rf "$folder/build/.run" "$folder/calls" && : >"$folder/calls"; }
calls() { cat "$folder/calls"; }
# at_terminal ANSWER ARGS: `run ARGS` by somebody who sits at a terminal and types ANSWER.
at_terminal() {
  answer=$1
  shift
  printf '%s\n' "$answer" | timeout 20 script -qec "$folder/run $*" /dev/null
}

afresh
said=$(at_terminal n lathe doctor)
expect "the packages are named" missing-package "$said"
expect "and asked about" '\[Y/n\]' "$said"
refuse "after a no nothing is installed" 'apt-get install' "$(calls)"
refuse "and nothing runs" 'lathe doctor' "$(calls)"

afresh
at_terminal '' lathe doctor >/dev/null
expect "Return is a yes" 'apt-get install .*missing-package' "$(calls)"
expect "and the program runs" '^lathe doctor$' "$(calls)"

afresh
said=$(at_terminal n --yes lathe doctor)
refuse "--yes asks nothing" '\[Y/n\]' "$said"
expect "--yes installs" 'apt-get install .*missing-package' "$(calls)"

afresh
said=$(timeout 20 "$folder/run" lathe doctor </dev/null 2>&1)
refuse "without a terminal nobody is asked" '\[Y/n\]' "$said"
expect "and packages are installed" 'apt-get install .*missing-package' "$(calls)"

"$folder/run" --seconds 20 2>/dev/null
expect "options of optimize are passed on" 'lathe optimize .*--seconds 20$' "$(calls)"

afresh
said=$("$folder/run" tets 2>&1)
[ $? = 64 ] || { echo "FAILED: a wrong argument exits with 64"; failed=1; }
expect "a wrong argument is named" "'tets'" "$said"
expect "and what there is is listed" './run test' "$said"
refuse "and nothing is installed for it" apt-get "$(calls)"
for wrong in "test --gpu fast" "package fast" "asan fast" "wheel fast"; do
  # shellcheck disable=SC2086
  said=$("$folder/run" $wrong 2>&1)
  [ $? = 64 ] || { echo "FAILED: '$wrong' exits with 64"; failed=1; }
  expect "'$wrong' names what is wrong" "'fast'" "$said"
done

afresh
mkdir -p "$folder/bin"
ln -s "$folder/run" "$folder/bin/lathe-run"
"$folder/bin/lathe-run" lathe doctor >/dev/null 2>&1 </dev/null
expect "a link to it finds its tree" '^lathe doctor$' "$(calls)"

afresh
: >"$folder/build/.run"
said=$("$folder/run" lathe doctor 2>&1 </dev/null)
expect "a tree that cannot be written to is said to be one" "cannot write to '$folder/build'" "$said"
refuse "and nothing runs in it" 'lathe doctor' "$(calls)"
exit $failed
