#!/bin/sh
# llama_server_test.sh LATHE WORK [MODEL]: a real language model in the loop, by a name of fetch_models.sh, served by
# llama.cpp on loopback. It ends with 77, which CTest takes for skipped, where the model or the server cannot be fetched.
set -eu

lathe=$1 work=$2 name=${3:-smollm2-135m}
scripts=$(cd "$(dirname "$0")/../../scripts" && pwd)
key=sk-this-is-a-secret-0123456789
die() { echo "llama_server_test.sh: $*" >&2; exit 1; }

mkdir -p "$work"
model=$("$scripts/fetch_models.sh" --to "$work/models" "$name") || exit 77
folder=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null || true; rm -rf "$folder"' EXIT
port=$((20000 + $$ % 20000))
"$scripts/llama_server.sh" "$work/llama" "$model" "$port" >"$folder/server.log" 2>&1 &
server=$!
for _ in $(seq 300); do
  ! grep -q '^listening' "$folder/server.log" || break
  kill -0 "$server" 2>/dev/null || { wait "$server" || code=$?; [ "${code:-1}" != 77 ] || exit 77; die "no server: $(tail -3 "$folder/server.log")"; }
  sleep 1
done
cat >"$folder/tiny.toml" <<'END'
name = "tiny"
dims = { n = [1, 4096] }
tensor = [{ name = "x", shape = ["n"] }]
graph = "y = add(x, x)"
baselines = ["naive"]
shape = [{ name = "small", n = 2048 }]
END
cd "$folder"
code=0
LATHE_API_KEY=$key "$lathe" optimize tiny.toml --device cpu --policy openai --endpoint "http://127.0.0.1:$port/v1" \
  --turns 2 --branches 2 --evals 3 --answer-tokens 64 --json out.json >out.txt 2>err.txt || code=$?
[ "$code" = 0 ] || [ "$code" = 1 ] || die "exit $code: $(cat err.txt)"
grep -q '"answers": 3' out.json || die "three answers were asked for: $(cat out.json)"
grep -q 'model: tiny: 3 answers' out.txt || die "the table says nothing of the model: $(cat out.txt)"
code=0
LATHE_API_KEY=$key "$lathe" optimize --resume last --evals 4 --json out.json >>out.txt 2>>err.txt || code=$?
[ "$code" = 0 ] || [ "$code" = 1 ] || die "exit $code: $(cat err.txt)"
grep -q '"answers": 4' out.json || die "the resumed run lacks one answer: $(cat out.json)"
"$lathe" runs show last >shown.txt
! grep -rq "$key" . || die "the key was kept: $(grep -rl "$key" .)"
echo "4 answers of $name"
