#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# BERT's pretraining on simulated NeuronCores, as the Neuron SDK's tutorial has it, at a small size: masked words and next sentence, data parallel, gradients added up over
# several batches before an update, parameters in bf16 with stochastic rounding or with a float32 copy.
# usage: run.sh FOLDER [WORKERS [STEPS [TARGET]]]; FOLDER gets what is made; WORKERS: 1, 2, 8 or 32; TARGET: neuron:trn1
# Needs tccc on the PATH, and a Python with numpy and onnx ($PYTHON), which writes the model and the samples.
set -e
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../usage.sh"
workers=${2:-2} steps=${3:-20} target=${4:-neuron:trn1} batch=16 accumulate=2
python=${PYTHON:-python3}
mkdir -p "$1"
cd "$1"

"$python" "$here/model.py" bert.onnx --layers 2 --width 32 --length 32
"$python" "$here/data.py" "$here/../../LICENSE" samples.npz --length 32

# A worker's part of the batch is compiled in. All programs side by side, as neuron_parallel_compile does.
compiles=""
for precision in float32 bf16-sr bf16-master; do
    tccc "--target=$target" --train --loss=output:loss --optimizer=adamw:lr=5e-3,weight_decay=0.01 --clip-norm=1 --data-parallel --accumulate=$accumulate \
        --precision=$precision --dim "N=$((batch / workers))" bert.onnx -o $precision.so &
    compiles="$compiles $!"
done
for process in $compiles; do wait "$process"; done

export MASTER_ADDR=127.0.0.1 MASTER_PORT=$((20000 + $$ % 10000)) WORLD_SIZE="$workers" LOCAL_WORLD_SIZE="$workers"
for precision in float32 bf16-sr bf16-master; do
    rank=$workers others=""
    while [ $rank -gt 0 ]; do
        rank=$((rank - 1))
        RANK=$rank LOCAL_RANK=$rank tccc-train $precision.so --comm=sim --threads 1 --json --data samples.npz --seed 1 --batch-size $batch --steps "$steps" >$precision-$rank.json &
        others="$others $!"
    done
    for process in $others; do wait "$process"; done
    tail -n 1 $precision-0.json
done
