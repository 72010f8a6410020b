# For the scripts that measure: record NAME TITLE COMMAND... writes the command's output to $out/NAME.md under a heading that says what was measured
# where; device() names the place. A command that fails leaves NAME.md.new.
record() {
  name=$1 title=$2
  shift 2
  echo "measuring $name" >&2
  {
    printf '# %s\n\n' "$title"
    printf '`%s`\n\n' "$*"
    printf '%s, %s cores, %s, commit %s\n\n' "$(device)" "$(nproc)" "$(date -u +%Y-%m-%d)" "$(git rev-parse --short HEAD)"
    "$@"
  } >"$out/$name.md.new" || return
  mv "$out/$name.md.new" "$out/$name.md"
}
