# SPDX-License-Identifier: Apache-2.0
# samples/go, where go is: its tests (with the checks of pointers that cross to C), its example, and that its numbers are the header's.
. "${top_srcdir:=$(cd "$(dirname "$0")/.." && pwd)}/tests/setup.sh"
command -v go >/dev/null 2>&1 || skip "no go"
command -v pkg-config >/dev/null 2>&1 || skip "no pkg-config"
[ -z "${INSTRUMENT:-}" ] || skip "an instrumented build"
package=$top_srcdir/samples/go
digits=$top_srcdir/samples/digits
cp -R "$package" "$tmp/go" || fail "no copy of the package"

rank=$(sed -n 's/^#define TCC_MAX_RANK \([0-9]*\).*/\1/p' "$top_srcdir/runtime/abi.h")
grep -q "^const MaxRank = $rank$" "$package/tensor.go" || fail "MaxRank is not $rank"
sed -n 's/^\t\([A-Z][A-Za-z0-9]*\) *Type = \([0-9]*\).*/\1 \2/p' "$package/tensor.go" >"$tmp/types"
[ "$(wc -l <"$tmp/types")" -ge 13 ] || fail "no types in tensor.go"
while read -r type number; do
    name=$(sed -n "s/.*[ {\t]$type: *{\"\([a-z0-9]*\)\", *\([0-9]*\)}.*/\1/p" "$package/tensor.go") size=$(sed -n "s/.*[ {\t]$type: *{\"\([a-z0-9]*\)\", *\([0-9]*\)}.*/\2/p" "$package/tensor.go")
    grep -qE "X\([A-Z0-9]+, *$number, \"$name\", *$size," "$top_srcdir/runtime/abi.h" || fail "$type ($name, $size bytes) is not element type $number"
done <"$tmp/types"

# tccrt.pc as an installation has it, of this build; a cache of go's own.
mkdir -p "$tmp/pkgconfig" "$tmp/include/tccc" && ln -s "$top_srcdir/runtime" "$tmp/include/tccc/runtime" || fail "no folder"
sed -e "s|^prefix=.*|prefix=$tmp|" -e "s|^libdir=.*|libdir=$top_builddir|" -e 's|^includedir=.*|includedir=${prefix}/include|' "$top_builddir/build-aux/tccrt.pc" >"$tmp/pkgconfig/tccrt.pc"
expect_status 0 tccc "$digits/digits.onnx" -o "$tmp/digits.so"
PKG_CONFIG_PATH=$tmp/pkgconfig GOFLAGS=-mod=mod GOPROXY=off GOTOOLCHAIN=local GODEBUG=cgocheck=2 TCCRT_TEST_ARTIFACT=$tmp/digits.so
export PKG_CONFIG_PATH GOFLAGS GOPROXY GOTOOLCHAIN GODEBUG TCCRT_TEST_ARTIFACT
[ -n "${HOME:-}" ] || { GOCACHE=$tmp/cache && export GOCACHE; }
cd "$tmp/go" || fail "no folder"
expect_status 0 go vet ./...
expect_status 0 go test ./...
expect_status 0 go run ./examples/classify "$tmp/digits.so" "$digits/digit-3.pgm"
grep -q '^label: 3$' "$tmp/out" || fail "$(cat "$tmp/out")"
expect_status 1 go run ./examples/classify "$tmp/digits.so" "$tmp/types"
[ -z "$(gofmt -l .)" ] || fail "gofmt: $(gofmt -l .)"
