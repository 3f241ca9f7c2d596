# Random programs, interpreted against compiled at -O0 and -O3, with one thread and with three; with open dims at many sizes, each compiled once; training
# steps against the slopes of their losses. For a bounded time: the first programs are the same in every run; TCCC_TEST_FULL=1 goes on for half an hour from
# seeds that rise from run to run.
. "${top_srcdir:=$(cd "$(dirname "$0")/.." && pwd)}/tests/setup.sh"
TCCC_LIBDIR=$top_builddir
export TCCC_LIBDIR
cd "$tmp" || fail "no folder"
run() {
    program=$top_builddir/tests/fuzz/$1
    shift
    [ -x "$program" ] || fail "$program is not built"
    "$program" --keep "$top_builddir/crashes" "$@" || fail "programs are in $top_builddir/crashes"
}
# seconds SHARE: of the time that plain runs take, in tenths
seconds() {
    echo $((${TCCC_FUZZ_SECONDS:-40} * $1 / 10))
}
run fuzz-diff --seconds "$(seconds 3)" --seed 1 --nodes 14
run fuzz-diff --seconds "$(seconds 4)" --seed 1 --nodes 10 --open --levels turn
run fuzz-steps --seconds "$(seconds 3)" --seed 1 --nodes 6
if [ -n "${TCCC_TEST_FULL:-}" ]; then
    seed=$(date +%s)000
    run fuzz-diff --seconds 600 --seed "$seed" --nodes 24
    run fuzz-diff --seconds 600 --seed "$seed" --nodes 14 --open --levels turn
    run fuzz-steps --seconds 600 --seed "$seed" --nodes 10
fi
