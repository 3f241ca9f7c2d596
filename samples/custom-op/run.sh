#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A network with an operator of one's own (doc/custom-op.md): compiled, compared with the interpreter, and trained; and the same network in ONNX's operators beside it.
# usage: run.sh FOLDER; FOLDER gets what is made
# Needs tccc on the PATH, a C compiler, and a Python with numpy and onnx ($PYTHON), which writes the model.
set -e
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../usage.sh"
python=${PYTHON:-python3}
op=--custom-op=com.example:ScaledTanh=$here/scaled_tanh.c
mkdir -p "$1"
cd "$1"
"$python" "$here/model.py" .

# Inference: the artifact has the operator in it, and is run without its source.
tccc "$op" model.onnx -o model.so
tccc-run model.so --input x=x.npy --output-dir custom
tccc-run plain.onnx --input x=x.npy --output-dir plain
tccc-run "$op" model.onnx --check --input x=x.npy

# Training: the gradient is in the file too.
tccc --train --loss=mse --optimizer=adam:lr=0.01 "$op" model.onnx -o step.so
tccc --train --loss=mse --optimizer=adam:lr=0.01 plain.onnx -o plain-step.so
tccc-train step.so --data data.npz --batch-size 16 --epochs 5 --seed 1 --json >custom.json
tccc-train plain-step.so --data data.npz --batch-size 16 --epochs 5 --seed 1 --json >plain.json
tail -n 1 custom.json plain.json
