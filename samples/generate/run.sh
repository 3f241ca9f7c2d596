#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Trains the GPT of samples/gpt on this repository's own texts, for about a minute on two cores, and generates text with its keys and values
# in the session (doc/state.md).
# usage: run.sh FOLDER [STEPS [PROMPT [BYTES]]]; FOLDER gets what is made.
# Needs tccc on the PATH, a C compiler ($CC, with $CFLAGS and $LIBS; default: cc and what pkg-config says of tccrt), and a Python with numpy and
# onnx ($PYTHON), which writes the models.
set -e
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../usage.sh"
steps=${2:-2000} prompt=${3:-"The session "} bytes=${4:-400}
python=${PYTHON:-python3} cc=${CC:-cc}
: "${CFLAGS=$(pkg-config --cflags tccrt)}" "${LIBS=$(pkg-config --static --libs tccrt)}"
mkdir -p "$1"
cd "$1"

sh "$here/../gpt/corpus.sh" corpus
"$python" "$here/../gpt/model.py" gpt.onnx
tccc --train --loss=cross_entropy --optimizer=adamw:lr=1.5e-3,weight_decay=0.1 gpt.onnx -o gpt.so
tccc-train gpt.so --json --seed 1 --batch-size 16 --steps "$steps" --lr-schedule="cosine:period=$steps,warmup=100,unit=step" \
    --data ids=corpus/training.txt,dtype=u8,stride=32 --data target=corpus/training.txt,dtype=u8,stride=32,offset=1 \
    --eval-data ids=corpus/held-out.txt,dtype=u8 --eval-data target=corpus/held-out.txt,dtype=u8,offset=1 \
    --checkpoint saved --overwrite >training.json
tail -n 1 training.json

# The same weights in the form that takes a past and gives the present; the cache has room for the positions that were trained.
"$python" "$here/decoder.py" untrained.onnx
tccc-ckpt export saved/last.safetensors untrained.onnx -o decoder.onnx
tccc decoder.onnx --state=auto,capacity=64 -o decoder.so
tccc decoder.onnx -o stateless.so

# shellcheck disable=SC2086  # lists of flags
"$cc" -std=gnu17 -O2 $CFLAGS "$here/generate.c" $LIBS -lm -o generate
./generate decoder.so "$prompt" "$bytes" | tee with.txt
./generate stateless.so "$prompt" "$bytes" >without.txt
cmp with.txt without.txt
