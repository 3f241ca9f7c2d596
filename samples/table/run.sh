#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A table of flats, with a column of names and fields that are missing: their rent by a small network, which ends when it gets no better.
# usage: run.sh FOLDER [EPOCHS]; FOLDER gets what is made. Needs tccc on the PATH, and a Python with numpy and onnx ($PYTHON), which writes the model.
set -e
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../usage.sh"
mkdir -p "$1"
cd "$1"

sh "$here/flats.sh" 600 >flats.csv
"${PYTHON:-python3}" "$here/model.py" rent.onnx
tccc --train --loss=huber:target=rent --optimizer=adam:lr=1e-2 rent.onnx -o rent.so
tccc-train rent.so --data flats.csv,columns=size+rooms+floor+garden,missing=mean --split=0.2 --epochs "${2:-60}" --patience=15 --metrics=mae,r2 --checkpoint saved --overwrite --json
tccc-run rent.so --entry predict --load saved/best.safetensors --data flats.csv,columns=size+rooms+floor+garden,missing=mean -o rents.npz
