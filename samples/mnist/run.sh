#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The MNIST network trained by several processes (doc/distributed.md), as the examples of smddp and of PyTorch's DDP do it: Adadelta at
# rate 1, times 0.7 after each epoch, batches of 64 for all processes together, tested and saved by rank 0.
# usage: run.sh FOLDER [RANKS [EPOCHS [PICTURES]]]; FOLDER gets what is made.
# Needs tccc and mpirun on the PATH, and a Python with numpy and onnx ($PYTHON), which writes the model and draws the pictures; with
# the real MNIST files in FOLDER/digits (pictures.idx3-ubyte, labels.idx1-ubyte; .gz is fine) nothing is drawn.
set -e
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../usage.sh"
ranks=${2:-2} epochs=${3:-14} pictures=${4:-60000}
python=${PYTHON:-python3}
mkdir -p "$1"
cd "$1"

"$python" "$here/model.py" mnist.onnx
[ -f digits/pictures.idx3-ubyte ] || "$python" "$here/../digits/draw.py" --training digits "$pictures"
tccc --train --loss=nll --optimizer=adadelta:lr=1 --lr-schedule=step:size=1,gamma=0.7 --data-parallel mnist.onnx -o mnist.so

# More ranks than cores, and root in a container, are for trying out: leave these away on a cluster, and name its hosts:
#   mpirun -np 16 --hostfile hosts tccc-train ...        srun --mpi=pmix -n 16 tccc-train ...
mpirun --allow-run-as-root --oversubscribe -np "$ranks" tccc-train mnist.so --json --batch-size 64 --epochs "$epochs" \
    --data picture=digits/pictures.idx3-ubyte --data target=digits/labels.idx1-ubyte \
    --eval-data "picture=$here/../digits/pictures.idx3-ubyte" --eval-data "target=$here/../digits/labels.idx1-ubyte" --checkpoint saved --overwrite

# The best epoch's weights, in the ONNX file: from here on it is a model as any other.
tccc-ckpt export saved/best.safetensors mnist.onnx -o trained.onnx
