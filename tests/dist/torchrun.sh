#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# tccc-train as torchrun's workers, with each of its rendezvous: the losses of one process; and a worker that fails ends the job.
# torchrun.sh BUILD PEERS: the build folder, an environment with PyTorch. A line each, as TAP has it.
build=$(cd "$1" && pwd) peers=$2
top=$(cd "$(dirname "$0")/../.." && pwd)
digits=$top/samples/digits
PATH=$build:$PATH TCCC_LIBDIR=$build
export PATH TCCC_LIBDIR
folder=$(mktemp -d) && cd "$folder" || exit 1
trap 'rm -rf "$folder"' EXIT
tccc --train --loss=cross_entropy --optimizer=adamw:lr=1e-3 --clip-norm=1 --data-parallel "$digits/digits.onnx" -o step.so || exit 1
words="step.so --json --threads 1 --data picture=$digits/pictures.idx3-ubyte --data target=$digits/labels.idx1-ubyte --seed 5 --batch-size 48 --steps 10"
# shellcheck disable=SC2086 # words
tccc-train $words | sed 's/,"ms".*//' >one.txt
case_of() {
    name=$1
    shift
    # shellcheck disable=SC2086
    timeout 400 "$peers/bin/python" -m torch.distributed.run "$@" --no-python tccc-train $words >raw 2>err
    status=$?
    wait
    [ ! -f other ] || cat other >>raw
    grep '^{"step"' raw | sed 's/,"ms".*//' >out
    if [ $status -eq 0 ] && paste one.txt out | awk -F'"loss":' 'function abs(x) { return x < 0 ? -x : x }
        { n++; bad += NF != 3 || abs($2 - $3) > 1e-5 * abs($2) } END { exit bad || n != 10 }'; then
        echo "ok - torchrun $name"
    else
        echo "not ok - torchrun $name: status $status" && tail -n 20 raw err
    fi
}
port=$((20000 + $$ % 10000))
case_of "--nproc_per_node=2" --nproc_per_node=2
case_of "--standalone --nproc_per_node=4" --standalone --nproc_per_node=4
case_of "--master_port (static rendezvous)" --nproc_per_node=2 --master_addr=127.0.0.1 --master_port=$port
TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 case_of "with a port of the workers' own" --nproc_per_node=2 --rdzv_backend=c10d --rdzv_endpoint=127.0.0.1:$((port + 100))
# A job of two machines, both of which are this one.
words_of_two="--nnodes=2 --nproc_per_node=2 --rdzv_backend=c10d --rdzv_id=two --rdzv_endpoint=127.0.0.1:$((port + 200))"
# shellcheck disable=SC2086
timeout 400 "$peers/bin/python" -m torch.distributed.run $words_of_two --no-python tccc-train $words >other 2>&1 &
# shellcheck disable=SC2086
case_of "--nnodes=2 --nproc_per_node=2" $words_of_two
rm -f other
# shellcheck disable=SC2016 # the rank is the worker's
timeout 400 "$peers/bin/python" -m torch.distributed.run --nproc_per_node=2 --no-python sh -c '[ $RANK = 1 ] && exit 9; exec tccc-train '"$words" >raw 2>&1
if [ $? -ne 0 ] && grep -q 'exitcode *: 9' raw; then echo "ok - a worker that fails ends the job"; else echo "not ok - a worker that fails ends the job" && tail -n 20 raw; fi
