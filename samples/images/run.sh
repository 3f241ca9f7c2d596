#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A folder of pictures, a subfolder for each class: trained on with random mirrors, evaluated on a fifth that is held out.
# usage: run.sh FOLDER [EPOCHS]; FOLDER gets what is made. Needs tccc on the PATH, and a Python with numpy and onnx ($PYTHON), which writes the model.
set -e
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../usage.sh"
mkdir -p "$1"
cd "$1"

sh "$here/draw.sh" shapes 100 1 cross disc square
"${PYTHON:-python3}" "$here/model.py" shapes.onnx 3
tccc --train --loss=cross_entropy --optimizer=adam:lr=2e-3 shapes.onnx -o shapes.so
tccc-train shapes.so --data folder:shapes,augment=flip --split=0.2 --epochs "${2:-8}" --metrics=f1,confusion --checkpoint saved --overwrite --json
tccc-ckpt export saved/best.safetensors shapes.onnx -o trained.onnx
