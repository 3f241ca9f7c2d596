#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The digits network and a training step of it for 64-bit Arm, compiled here and run in QEMU's user mode (doc/arm.md): a program with the model
# inside (samples/embed), and one that trains on with pictures of its own (learn.c). Copy `embed` or `learn` and `step.so` to a Raspberry Pi, and they run there.
# usage: run.sh FOLDER [MARCH]; FOLDER gets what is made; MARCH: armv8-a, cortex-a76...
# Needs tccc on the PATH, gcc-aarch64-linux-gnu, qemu-user, and tccc's runtime for Arm (configure --with-cross=aarch64-linux-gnu), in TCCC_RUNTIME or installed.
set -e
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../usage.sh"
march=${2:-armv8-a}
triplet=aarch64-linux-gnu
digits=$here/../digits
runtime=${TCCC_RUNTIME:-$(dirname "$(command -v tccc)")/../lib/$triplet/libtccrt.a}
compile() {
    $triplet-gcc -std=gnu17 -O2 -I"$here/../.." -I"$here/../../runtime" -I. "$@" "$runtime" -lm -lpthread -ldl
}
mkdir -p "$1"
cd "$1"

tccc --march="$march" "$digits/digits.onnx" -H digits.h -o digits.a
compile "$here/../embed/embed.c" digits.a -o embed
tccc --march="$march" --train --loss=cross_entropy --optimizer=adam:lr=1e-3 "$digits/digits.onnx" -o step.so
compile "$here/learn.c" -o learn

qemu-aarch64 -L /usr/$triplet ./embed "$digits/digit-4.pgm"
qemu-aarch64 -L /usr/$triplet ./learn ./step.so "$digits" 3 learned.safetensors
