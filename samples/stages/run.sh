#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Training in pipeline stages, at a size for two cores (doc/partitions.md).
# usage: run.sh FOLDER, which gets what is made.
#   1. a network cut by hand in two, a stage a process
#   2. two copies of it, of two stages each: hybrid
#   3. a GPT over bytes, cut automatically in two and in four
# Needs tccc and mpirun on the PATH; for the GPT a Python with numpy and onnx ($PYTHON).
set -e
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../usage.sh"
digits=$here/../digits
mkdir -p "$1"
cd "$1"

# More ranks than cores, and root in a container, are for trying out: leave these away on a cluster.
mpirun="mpirun --allow-run-as-root --oversubscribe"
pictures="--data picture=$digits/pictures.idx3-ubyte --data target=$digits/labels.idx1-ubyte --batch-size 48 --steps 6"

tccc --train --loss=cross_entropy --optimizer=adam:lr=1e-3 --partitions=2 --partition-map="$here/two.map" --microbatches=4 \
    --pipeline=1f1b --partition-report --pipeline-chart=two.svg "$digits/digits.onnx" -o two.so
$mpirun -np 2 tccc-train two.so $pictures --json --checkpoint two --overwrite

tccc --train --loss=cross_entropy --optimizer=adam:lr=1e-3 --partitions=2 --partition-map="$here/two.map" --microbatches=2 \
    --data-parallel "$digits/digits.onnx" -o hybrid.so
$mpirun -np 4 tccc-train hybrid.so $pictures --json --placement=spread

if "${PYTHON:-python3}" "$here/../gpt/model.py" gpt.onnx --layers 4 --width 32 --length 32 2>/dev/null; then
    text="--data ids=$here/../../LICENSE,dtype=u8,stride=32 --data target=$here/../../LICENSE,dtype=u8,stride=32,offset=1"
    for stages in 2 4; do
        tccc --train --loss=cross_entropy --optimizer=adamw:lr=1e-3 --clip-norm=1 --partitions=$stages --microbatches=4 \
            --partition-report gpt.onnx -o gpt$stages.so
        $mpirun -np $stages tccc-train gpt$stages.so $text --batch-size 16 --steps 6 --json
    done
fi
