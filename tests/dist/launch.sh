#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Starts a command as the ranks of a job, with the variables that torchrun sets, and waits for them all: what the tests of the engine
# `ucx` need of a launcher. It ends with the first status that is not 0, by rank. A rank that fails ends no other; after LAUNCH_LIMIT
# seconds (100) whoever is left is killed, stopped ranks too.
#   launch.sh [-m MACHINES] N COMMAND...    N ranks in all, on MACHINES machines (1), all of which are this one
machines=1
if [ "$1" = -m ]; then
    machines=$2
    shift 2
fi
size=$1
shift
here=$((size / machines))
: "${MASTER_PORT:=$((20000 + $$ % 10000))}" # likely to be free; rank 0 takes the next one that is
export MASTER_PORT MASTER_ADDR=127.0.0.1 WORLD_SIZE="$size" LOCAL_WORLD_SIZE=$here GROUP_WORLD_SIZE="$machines" TORCHELASTIC_RUN_ID="test-$$"
r=0 all=''
while [ $r -lt "$size" ]; do
    RANK=$r LOCAL_RANK=$((r % here)) GROUP_RANK=$((r / here)) "$@" &
    all="$all $!"
    r=$((r + 1))
done
# shellcheck disable=SC2086 # numbers
(
    trap 'kill $nap; exit' TERM
    sleep "${LAUNCH_LIMIT:-100}" &
    nap=$!
    wait
    kill -KILL $all
) >/dev/null 2>&1 &
watcher=$!
status=0
for p in $all; do
    wait "$p"
    code=$?
    [ $status -ne 0 ] || status=$code
done
kill $watcher 2>/dev/null
exit $status
