#!/bin/sh
# llama_server.sh FOLDER MODEL.gguf PORT [THREADS]: serves a model over HTTP on loopback with a pinned build of
# llama.cpp (the Python package xllamacpp, in an environment in FOLDER). Prints "listening URL" when it is ready. Ends
# with 77 and the reason where the environment cannot be made, as without a network.
set -eu

[ $# -ge 3 ] || { echo "usage: llama_server.sh FOLDER MODEL.gguf PORT [THREADS]" >&2; exit 64; }
folder=$1 model=$2 port=$3 threads=${4:-1}
package=xllamacpp==2026.10.11549 sum=c54e7d13520ecc989c63dc99d55de3065e2f343a91f43f053d16b5e62077c261

unavailable() { echo "llama_server.sh: $*" >&2; exit 77; }

if [ ! -e "$folder/made" ]; then
  rm -rf "$folder"
  mkdir -p "$folder"
  python3 -m venv "$folder" >&2 || unavailable "python3 -m venv does not work: apt-get install python3-venv"
  "$folder/bin/pip" download -q --disable-pip-version-check --no-deps --only-binary :all: -d "$folder" "$package" >&2 ||
    unavailable "pip cannot fetch $package"
  archive=$(echo "$folder"/xllamacpp-*.whl)
  [ "$(sha256sum "$archive" | cut -d' ' -f1)" = "$sum" ] || {
    echo "llama_server.sh: $archive has another digest than $sum" >&2
    exit 1
  }
  "$folder/bin/pip" install -q --disable-pip-version-check --no-deps --no-index "$archive" >&2 ||
    unavailable "pip cannot install $archive"
  : >"$folder/made"
fi
exec "$folder/bin/python" - "$model" "$port" "$threads" <<'END'
import sys
import time

import xllamacpp

model, port, threads = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
params = xllamacpp.CommonParams()
params.model.path = model
params.model_alias = {"served"}
params.hostnames = ["127.0.0.1"]
params.port = port
params.n_ctx = 16384
params.n_parallel = 4
params.cpuparams.n_threads = threads
params.cpuparams_batch.n_threads = threads
server = xllamacpp.Server(params)
print("listening", server.listening_address, flush=True)
while True:
    time.sleep(3600)
END
