#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A language model of bytes: text is cut into samples and their targets, the last tenth is held out, and the evaluation says the perplexity.
# usage: run.sh FOLDER [STEPS]; FOLDER gets what is made. Needs tccc on the PATH, and a Python with numpy and onnx ($PYTHON), which writes the model.
set -e
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../usage.sh"
mkdir -p "$1"
cd "$1"

sh "$here/../gpt/corpus.sh" corpus
"${PYTHON:-python3}" "$here/../gpt/model.py" gpt.onnx --width "${WIDTH:-128}"
tccc --train --loss=cross_entropy --optimizer=adamw:lr=3e-3,weight_decay=0.1 --clip-norm=1 gpt.onnx -o gpt.so
tccc-train gpt.so --data "text:corpus/training.txt,stride=64,limit=4000" --split=0.1 --batch-size 16 --steps "${2:-600}" --lr-schedule="cosine:period=${2:-600},warmup=20,unit=step" --metrics=perplexity,top5 --checkpoint saved --overwrite --json
tccc-ckpt export saved/best.safetensors gpt.onnx -o trained.onnx
