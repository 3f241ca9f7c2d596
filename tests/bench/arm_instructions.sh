#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Instructions and accesses to memory that a run of a model takes on AArch64, counted by QEMU (one thread, inputs 0, open dims 1): half of what two
# further runs take, without opening and first run. An access is of up to 8 bytes: a vector is two.
# usage: arm_instructions.sh BUILD MARCH MODEL.onnx...
# Needs gcc-aarch64-linux-gnu, qemu-user, a build with --with-cross=aarch64-linux-gnu. Prints "MODEL INSTRUCTIONS ACCESSES", and with
# ARM_ROOT=DIR, a folder in which Debian's python3.11 for arm64 and what it needs are unpacked, and ARM_SITE=DIR, in which the wheels of onnxruntime
# (1.23: QEMU 7.2 doesn't start later ones) and numpy for aarch64 are, those of ONNX Runtime behind them.
set -eu
build=$(cd "$1" && pwd) march=$2 here=$(cd "$(dirname "$0")" && pwd) triplet=aarch64-linux-gnu
shift 2
TCCC_LIBDIR=$build
export TCCC_LIBDIR
tmp=$(mktemp -d "${TMPDIR:-/tmp}/tccc-count.XXXXXX")
trap 'rm -rf "$tmp"' EXIT
cc -shared -fPIC -O2 -fvisibility=hidden "$here/arm_count.c" -o "$tmp/count.so"
$triplet-gcc -std=gnu17 -O2 -I"$here/../.." "$here/arm_runs.c" "$build/$triplet/libtccrt.a" -lm -lpthread -ldl -o "$tmp/runs"

# counts CPU ROOT PROGRAM...: of a run of PROGRAM, which takes the number of runs as its last argument
counts() {
    cpu=$1 root=$2
    shift 2
    for n in 1 3; do
        PYTHONHASHSEED=0 PYTHONPATH=${ARM_SITE:-} qemu-aarch64 -cpu "$cpu" -plugin "$tmp/count.so" -L "$root" "$@" $n 2>"$tmp/log"
        tail -n 1 "$tmp/log" >"$tmp/$n"
    done
    paste "$tmp/1" "$tmp/3" | awk '{ printf " %d %d", ($3 - $1) / 2, ($4 - $2) / 2 }'
}

case $march in neoverse-n1 | cortex-a53 | cortex-a72) cpu=$march ;; *) cpu=max ;; esac
for model; do
    "$build/tccc" -q --march="$march" "$model" -o "$tmp/model.so"
    printf '%s' "$model"
    counts "$cpu" /usr/$triplet "$tmp/runs" "$tmp/model.so"
    [ -z "${ARM_ROOT:-}" ] || counts "$cpu" "$ARM_ROOT" "$ARM_ROOT/usr/bin/python3.11" "$here/arm_peer.py" "$model"
    echo
done
