# SPDX-License-Identifier: Apache-2.0
# samples/rust, where cargo is: its tests, its example, and that its declarations have the header's numbers.
. "${top_srcdir:=$(cd "$(dirname "$0")/.." && pwd)}/tests/setup.sh"
command -v cargo >/dev/null 2>&1 || skip "no cargo"
[ -z "${INSTRUMENT:-}" ] || skip "an instrumented build"
crate=$top_srcdir/samples/rust
digits=$top_srcdir/samples/digits
mkdir "$tmp/crate" && cp -R "$crate/Cargo.toml" "$crate/build.rs" "$crate/src" "$crate/examples" "$crate/tests" "$tmp/crate" || fail "no copy of the crate"

rank=$(sed -n 's/^#define TCC_MAX_RANK \([0-9]*\).*/\1/p' "$top_srcdir/runtime/abi.h")
grep -q "MAX_RANK: usize = $rank;" "$crate/src/ffi.rs" || fail "MAX_RANK is $rank"
sed -n 's/^elements!(\(.*\));/\1/p' "$crate/src/lib.rs" | tr ',' '\n' | sed 's/ //g; s/=>/ /' >"$tmp/elements"
[ "$(wc -l <"$tmp/elements")" -ge 10 ] || fail "no elements in lib.rs"
while read -r type number; do
    grep -q "X([A-Z0-9]*, *$number, \"$type\"," "$top_srcdir/runtime/abi.h" || fail "$type is not element type $number"
done <"$tmp/elements"

expect_status 0 tccc "$digits/digits.onnx" -o "$tmp/digits.so"
TCCRT_LIBDIR=$(cd "$top_builddir" && pwd)
TCCRT_TEST_ARTIFACT=$tmp/digits.so
export TCCRT_LIBDIR TCCRT_TEST_ARTIFACT
cd "$tmp/crate" || fail "no folder"
expect_status 0 cargo test --offline --quiet
expect_status 0 cargo run --offline --quiet --example classify "$tmp/digits.so" "$digits/digit-3.pgm"
grep -q '^label: 3$' "$tmp/out" || fail "$(cat "$tmp/out")"
