#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Compile every model of a folder that models.py wrote, at several levels and instruction sets, and check its outputs.
# usage: models.sh BUILD_DIR MODELS_DIR [LEVEL...]     default levels: 0 3
# A line for each check, `ok WHAT` or `not ok WHAT: why`:
#   outputs   the stored inputs give the stored outputs (rtol 1e-3, atol 1e-4 x max|expected|), 1 and 2 threads
#   threads   1 and 2 threads give the same bits
set -u
build=${1:?usage: models.sh BUILD_DIR MODELS_DIR [LEVEL...]} models=${2:?}
shift 2
[ $# -gt 0 ] || set -- 0 3
tmp=$(mktemp -d "${TMPDIR:-/tmp}/tccc-models.XXXXXX") || exit 3
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' HUP INT TERM
status=0

# report WHAT COMMAND...: run it; ok or not ok.
report() {
    what=$1
    shift
    if "$@" >"$tmp/log" 2>&1; then
        echo "ok $what"
    else
        echo "not ok $what: $(grep -v '^$' "$tmp/log" | tail -n 1)"
        status=1
        return 1
    fi
}

same_bits() {
    for n in 1 2; do
        rm -rf "$tmp/out$n"
        "$build/tccc-run" "$1" --random=7 --threads $n --output-dir "$tmp/out$n" || return 1
    done
    diff -r "$tmp/out1" "$tmp/out2"
}

for folder in "$models"/*/; do
    name=$(basename "$folder")
    for level; do
        for march in x86-64-v3 native; do
            what="$name -O$level $march"
            report "$what compile" "$build/tccc" -O"$level" --march=$march "$folder/model.onnx" -o "$tmp/$name.so" || continue
            for n in 1 2; do
                report "$what outputs, $n thread(s)" "$build/tccc-run" "$tmp/$name.so" --threads $n \
                    --test-data "$folder"/test_data_set_*
            done
            report "$what threads" same_bits "$tmp/$name.so"
            rm -f "$tmp/$name.so" "$tmp/$name.weights"
        done
    done
done
exit $status
