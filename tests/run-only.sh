# SPDX-License-Identifier: Apache-2.0
# Without the compiler tccc-run runs artifacts, says of models what is missing, and needs no LLVM. --full: a whole installation that
# configure --disable-compiler makes, its size, and training there.
. "${top_srcdir:=$(cd "$(dirname "$0")/.." && pwd)}/tests/setup.sh"
run=$top_builddir/tests/run-only

# runs PROGRAM: it gives what tccc-run gives.
runs() {
    expect_status 0 "$1" "$tmp/digits.so" --random=3 --output-dir "$tmp/there"
    cmp "$tmp/here/output_0.npy" "$tmp/there/output_0.npy" || fail "$1: another result"
    expect_status 3 "$1" "$top_srcdir/samples/digits/digits.onnx" --random
    grep -q '^error: this installation runs artifacts and has no compiler: ' "$tmp/err" || fail "$(cat "$tmp/err")"
    expect_status 1 "$1" "$top_srcdir/samples/digits/digits.onnx" --interpret --random
    grep -q 'this installation runs artifacts' "$tmp/err" || fail "$(cat "$tmp/err")"
    expect_status 0 "$1" --version
    grep -q '^without the compiler$' "$tmp/out" || fail "$(cat "$tmp/out")"
    ! ldd "$1" | grep -q -e LLVM -e protobuf || fail "$1 needs what only the compiler needs: $(ldd "$1")"
}

expect_status 0 tccc "$top_srcdir/samples/digits/digits.onnx" -o "$tmp/digits.so"
expect_status 0 tccc-run "$tmp/digits.so" --random=3 --output-dir "$tmp/here"
runs "$run"

[ -n "${TCCC_TEST_FULL:-}" ] && [ -z "${INSTRUMENT:-}" ] || exit 0
mkdir "$tmp/build" && cd "$tmp/build" || fail "no folder"
expect_status 0 env MAKEFLAGS='' "$(cd "$top_srcdir" && pwd)/configure" --disable-compiler --prefix="$tmp/inst" CFLAGS=-O2
expect_status 0 env MAKEFLAGS='' make -j 2 install-strip
[ ! -e "$tmp/inst/bin/tccc" ] && [ ! -e "$tmp/inst/lib/libtccc.so" ] || fail "the compiler is there"
kilobytes=$(du -sk "$tmp/inst" | cut -f 1)
echo "note: the installation has $kilobytes KB"
[ "$kilobytes" -lt 20000 ] || fail "the installation has $kilobytes KB"
runs "$tmp/inst/bin/tccc-run"
expect_status 0 tccc "$top_srcdir/samples/digits/digits.onnx" --train --loss=cross_entropy -o "$tmp/step.so"
expect_status 0 "$tmp/inst/bin/tccc-train" "$tmp/step.so" --data picture="$top_srcdir/samples/digits/pictures.idx3-ubyte" \
    --data target="$top_srcdir/samples/digits/labels.idx1-ubyte" --batch-size 32
