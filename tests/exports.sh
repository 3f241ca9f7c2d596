# The shared libraries export the functions that their public headers declare, and nothing else.
. "${top_srcdir:=$(cd "$(dirname "$0")/.." && pwd)}/tests/setup.sh"

# check LIBRARY LIST PREFIX HEADER: compare the header, the list and the library.
check() {
    sed -n "s/^[^/]*[ *]\\($3_[a-z_]*\\)(.*/\\1/p" "$top_srcdir/$4" | sort -u >"$tmp/declared"
    sed -n "s/^ *\\($3_[a-z_]*\\);/\\1/p" "$top_srcdir/$2" | sort -u >"$tmp/listed"
    [ -s "$tmp/declared" ] || fail "no functions found in $4"
    diff "$tmp/declared" "$tmp/listed" || fail "$4 and $2 differ"
    nm -D --defined-only "$top_builddir/$1" | awk '{ print $3 }' | sort -u >"$tmp/exported"
    diff "$tmp/listed" "$tmp/exported" || fail "$2 and $1 differ"
}

check libtccrt.so.0 runtime/tccrt.map tccrt runtime/tccrt.h
check libtccc.so.0 compiler/tccc.map tccc compiler/tccc.h
