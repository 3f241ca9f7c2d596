# The shared libraries export the functions that their public headers declare, and nothing else.
. "${top_srcdir:=$(cd "$(dirname "$0")/.." && pwd)}/tests/setup.sh"
cd "$top_srcdir" || exit 99

# check LIBRARY LIST PREFIXES HEADER...: compare the headers, the list and the library.
check() {
    library=$1 list=$2 prefixes=$3
    shift 3
    sed -nE "s/^[^/]*[ *](($prefixes)_[a-z0-9_]*)\\(.*/\\1/p" "$@" | sort -u >"$tmp/declared"
    sed -nE "s/^ *(($prefixes)_[a-z0-9_]*);/\\1/p" "$list" | sort -u >"$tmp/listed"
    [ -s "$tmp/declared" ] || fail "no functions found in $*"
    diff "$tmp/declared" "$tmp/listed" || fail "$* and $list differ"
    nm -D --defined-only "$top_builddir/$library" | awk '{ print $3 }' | sort -u >"$tmp/exported"
    diff "$tmp/listed" "$tmp/exported" || fail "$list and $library differ"
}

check libtccrt.so.0 runtime/tccrt.map tccrt runtime/tccrt.h
check libtccc.so.0 compiler/tccc.map 'tccc|trace' compiler/tccc.h compiler/trace.h
