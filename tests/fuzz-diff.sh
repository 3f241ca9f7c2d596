# Random programs, interpreted against compiled at -O0 and -O3, with one thread and with three, for a bounded time. The
# first programs are the same in every run; TCCC_TEST_FULL=1 goes on for ten minutes, elsewhere each day.
. "${top_srcdir:=$(cd "$(dirname "$0")/.." && pwd)}/tests/setup.sh"
TCCC_LIBDIR=$top_builddir
export TCCC_LIBDIR
program=$top_builddir/tests/fuzz/fuzz-diff
[ -x "$program" ] || fail "$program is not built"
cd "$tmp" || fail "no folder"
run() {
    "$program" --keep "$top_builddir/crashes" "$@" || fail "programs are in $top_builddir/crashes"
}
run --seconds "${TCCC_FUZZ_SECONDS:-40}" --seed 1 --nodes 14
if [ -n "${TCCC_TEST_FULL:-}" ]; then
    run --seconds 600 --seed "$(date +%Y%m%d)000" --nodes 24
fi
