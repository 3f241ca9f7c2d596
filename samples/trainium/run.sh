#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A perceptron trained on simulated NeuronCores (doc/neuron.md), as the vendor's tutorial does it on Trainium: all programs are compiled first, side by side; one worker trains,
# then several, data parallel, each a process and a core; the time of a step is looked at; training goes on from what was saved.
# usage: run.sh FOLDER [WORKERS [STEPS [WIDTH]]]; FOLDER gets what is made; WORKERS: 2, 8 or 32
# Needs tccc on the PATH, and a Python with numpy and onnx ($PYTHON), which writes the model.
set -e
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../usage.sh"
workers=${2:-2} steps=${3:-30} width=${4:-120} batch=64
python=${PYTHON:-python3}
mkdir -p "$1"
cd "$1"
digits=$here/../digits
data="--data picture=$digits/pictures.idx3-ubyte --data target=$digits/labels.idx1-ubyte --seed 1"

# What neuron_parallel_compile does: both programs at once, and a report. A worker's program has its part of the batch.
"$python" "$here/model.py" mlp.onnx --width "$width"
flags="--target=neuron:trn1 --train --loss=cross_entropy --optimizer=sgd:lr=0.2 --data-parallel"
printf '%s\n' "$flags --dim N=$batch mlp.onnx -o one.so" "$flags --dim N=$((batch / workers)) mlp.onnx -o many.so" >programs
tccc-neuron compile programs

# One worker, one core.
# shellcheck disable=SC2086 # words
tccc-train one.so --threads 1 --json $data --batch-size $batch --steps "$steps" --checkpoint saved --overwrite >one.json

# Several: torchrun does the same, as
#   torchrun --nproc_per_node=2 --no-python tccc-train many.so --comm=sim ...
export MASTER_ADDR=127.0.0.1 MASTER_PORT=$((20000 + $$ % 10000)) WORLD_SIZE="$workers" LOCAL_WORLD_SIZE="$workers"
rank=1 others=""
while [ $rank -lt "$workers" ]; do
    # shellcheck disable=SC2086
    RANK=$rank LOCAL_RANK=$rank tccc-train many.so --comm=sim --threads 1 --json $data --batch-size $batch --steps "$steps" >/dev/null &
    others="$others $!" rank=$((rank + 1))
done
# shellcheck disable=SC2086
RANK=0 LOCAL_RANK=0 tccc-train many.so --comm=sim --threads 1 --json $data --batch-size $batch --steps "$steps" --sim=full >many.json
for process in $others; do wait "$process"; done
unset WORLD_SIZE LOCAL_WORLD_SIZE

# Where the time of a step goes, without values: on one core, and on 32, for which one process stands.
for ranks in 1 32; do
    # shellcheck disable=SC2086
    tccc-train one.so --threads 1 $data --batch-size $batch --steps 2 --sim=time,ranks=$ranks --trace "trace$ranks.json" >time$ranks.json
done

# On from what the first run saved, twice as far.
# shellcheck disable=SC2086
tccc-train one.so --threads 1 --json $data --batch-size $batch --steps $((2 * steps)) --checkpoint saved --resume >more.json
tail -n 1 one.json many.json more.json
tail -n 1 time1.json time32.json
