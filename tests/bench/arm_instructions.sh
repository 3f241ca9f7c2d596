#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Instructions, those of them that calculate with vectors or floats, and accesses to memory that a model's second run takes on AArch64, counted by
# QEMU (one thread, inputs 0, open dims 1; WORDS=N: N behind the first place). An access is of up to 8 bytes: a vector is two.
# usage: arm_instructions.sh BUILD MARCH MODEL.onnx...
# Needs gcc-aarch64-linux-gnu, qemu-user, a build with --with-cross=aarch64-linux-gnu. Prints "MODEL INSTRUCTIONS VECTORS ACCESSES", and with
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

# counts CPU ROOT PROGRAM...: between the last two marks of PROGRAM
counts() {
    cpu=$1 root=$2
    shift 2
    PYTHONHASHSEED=0 PYTHONPATH=${ARM_SITE:-} qemu-aarch64 -cpu "$cpu" -plugin "$tmp/count.so" -L "$root" "$@" 2>"$tmp/log" ||
        { cat "$tmp/log" >&2 && return 1; }
    awk '$1 == "count" { for (i = 2; i <= 4; i++) { d[i] = $i - last[i]; last[i] = $i } } END { printf " %d %d %d", d[2], d[3], d[4] }' "$tmp/log"
}

case $march in neoverse-n1 | cortex-a53 | cortex-a72) cpu=$march ;; *) cpu=max ;; esac
for model; do
    "$build/tccc" -q --march="$march" "$model" -o "$tmp/model.so"
    printf '%s' "$model"
    counts "$cpu" /usr/$triplet "$tmp/runs" "$tmp/model.so"
    [ -z "${ARM_ROOT:-}" ] || counts "$cpu" "$ARM_ROOT" "$ARM_ROOT/usr/bin/python3.11" "$here/arm_peer.py" "$model"
    echo
done
