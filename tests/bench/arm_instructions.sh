#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Instructions and accesses to memory that a run of a model takes on AArch64, counted by QEMU (one thread, inputs 0, open dims 1): half of what two
# further runs take, without opening and first run. An access is of up to 8 bytes: a vector is two.
# usage: arm_instructions.sh BUILD MARCH MODEL.onnx...
# Needs gcc-aarch64-linux-gnu, qemu-user, a build with --with-cross=aarch64-linux-gnu. Prints "MODEL INSTRUCTIONS ACCESSES".
set -eu
build=$(cd "$1" && pwd) march=$2 here=$(cd "$(dirname "$0")" && pwd) triplet=aarch64-linux-gnu
shift 2
TCCC_LIBDIR=$build
export TCCC_LIBDIR
tmp=$(mktemp -d "${TMPDIR:-/tmp}/tccc-count.XXXXXX")
trap 'rm -rf "$tmp"' EXIT
cc -shared -fPIC -O2 -fvisibility=hidden "$here/arm_count.c" -o "$tmp/count.so"
$triplet-gcc -std=gnu17 -O2 -I"$here/../.." "$here/arm_runs.c" "$build/$triplet/libtccrt.a" -lm -lpthread -ldl -o "$tmp/runs"
for model; do
    "$build/tccc" -q --march="$march" "$model" -o "$tmp/model.so"
    for n in 1 3; do
        qemu-aarch64 -plugin "$tmp/count.so" -L /usr/$triplet "$tmp/runs" "$tmp/model.so" $n 2>"$tmp/$n"
    done
    paste "$tmp/1" "$tmp/3" | awk -v model="$model" '{ print model, ($3 - $1) / 2, ($4 - $2) / 2 }'
done
