#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A GPU runs a ResNet-18 and trains a small GPT (doc/cuda.md): each is compiled once, for two architectures, on any machine.
# usage: run.sh FOLDER [DEVICE [STEPS [WIDTH]]]; FOLDER gets what is made; DEVICE: cuda, cuda:1, or sim, which needs no GPU and takes its time
# Needs tccc on the PATH, and a Python with numpy and onnx ($PYTHON), which writes the models.
set -e
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../usage.sh"
device=${2:-cuda} steps=${3:-20} width=${4:-64}
python=${PYTHON:-python3}
mkdir -p "$1"
cd "$1"

# Inference: products and convolutions in bf16. Weights lie in the artifact, and go to the device when it is opened.
"$python" "$here/../resnet/model.py" resnet.onnx --width "$width"
tccc --target=cuda:sm_80,sm_90a --auto-cast=matmul resnet.onnx -o resnet.so
tccc-run resnet.so --device="$device" --random=1 --output-dir resnet
tccc-bench resnet.so --device="$device" --runs "$steps"

# Training: parameters and the optimizer's state stay on the device; checkpoints are what the CPU writes, and go on there too.
head -c 65536 "$here/../gpt/model.py" >text
"$python" "$here/../gpt/model.py" gpt.onnx --layers 2 --width "$width" --length 32
tccc --target=cuda:sm_80,sm_90a --train --loss=cross_entropy --optimizer=adamw:lr=1e-3 gpt.onnx -o gpt.so
tccc-train gpt.so --device="$device" --json --steps "$steps" --batch-size 4 --checkpoint saved --overwrite \
    --data ids=text,dtype=u8,length=32,stride=32 --data target=text,dtype=u8,length=32,stride=32,offset=1
