#!/bin/sh
# check_archive.sh ARCHIVE: what every program and library of an archive asks of a machine. Fails where one needs a
# newer C or C++ library than docs/archive.md says, a library that is neither inside nor named here, or a path of
# the machine that built it.
set -eu

glibc=2.36 glibcxx=3.4.29 cxxabi=1.3.13
# Of the C library; the others come with g++, which compiles candidates.
everywhere='libc.so.6 libm.so.6 ld-linux-x86-64.so.2'
with_gcc='libgcc_s.so.1 libstdc++.so.6 libgomp.so.1'

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
tar -C "$folder" -xzf "$1"
cd "$folder"/*/
failed=0
complain() { echo "check_archive.sh: $*" >&2; failed=1; }

# newest FILE PREFIX: the newest version of a symbol that the file takes from elsewhere.
newest() { readelf -V --wide "$1" | grep -o "Name: $2_[0-9.]*" | sed "s/.*_//" | sort -V | tail -1; }
no_newer() { [ -z "$1" ] || [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | tail -1)" = "$2" ]; }

printf '%-32s %-8s %-8s %-8s %s\n' file GLIBC GLIBCXX CXXABI needs
for file in bin/* lib/*; do
  needed=$(readelf -d "$file" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | xargs)
  c=$(newest "$file" GLIBC) cxx=$(newest "$file" GLIBCXX) abi=$(newest "$file" CXXABI)
  printf '%-32s %-8s %-8s %-8s %s\n' "$file" "${c:--}" "${cxx:--}" "${abi:--}" "$needed"
  no_newer "$c" "$glibc" && no_newer "$cxx" "$glibcxx" && no_newer "$abi" "$cxxabi" ||
    complain "$file needs newer symbols than GLIBC_$glibc, GLIBCXX_$glibcxx, CXXABI_$cxxabi"
  allowed=$everywhere
  case $file in lib/*) allowed="$everywhere $with_gcc" ;; esac
  for library in $needed; do
    case " $allowed " in *" $library "*) continue ;; esac
    [ "${file%%/*}" = lib ] && [ -e "lib/$library" ] || complain "$file needs $library, which the archive lacks"
  done
  path=$(readelf -d "$file" | sed -n 's/.*(R[UN]*PATH).*\[\(.*\)\]/\1/p')
  case $path in '' | '$ORIGIN') ;; *) complain "$file looks for libraries in $path" ;; esac
  ! grep -qF "${SOURCE_FOLDER:-/nonexistent}" "$file" || complain "$file has the path of the tree it was built from"
done
exit $failed
