#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What samples/images has learned, for other classes: its convolutions, frozen, with a new head for rings and discs. Few pictures are enough.
# usage: run.sh FOLDER TRAINED.onnx [EPOCHS]; FOLDER gets what is made. Needs tccc on the PATH, and a Python with numpy and onnx ($PYTHON).
set -e
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../usage.sh"
trained=$(cd "$(dirname "$2")" && pwd)/$(basename "$2")
mkdir -p "$1"
cd "$1"

sh "$here/../images/draw.sh" rings 40 7 disc ring
"${PYTHON:-python3}" "$here/../images/model.py" rings.onnx 2 "$trained"
tccc --train --freeze='backbone.*' --loss=cross_entropy --optimizer=adam:lr=3e-2 rings.onnx -o rings.so
tccc-train rings.so --data rings --split=0.25 --epochs "${3:-12}" --batch-size 16 --metrics=auc --checkpoint saved --overwrite --json
tccc-ckpt list saved/best.safetensors
