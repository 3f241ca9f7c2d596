# The parsers meet changed files for a bounded time: the .tcir texts of the tests, and ONNX files.
# TCCC_TEST_FULL=1 makes it ten minutes each; TCCC_FUZZ_SECONDS says how long otherwise.
. "${top_srcdir:=$(cd "$(dirname "$0")/.." && pwd)}/tests/setup.sh"
seconds=${TCCC_FUZZ_SECONDS:-10}
[ -z "${TCCC_TEST_FULL:-}" ] || seconds=600

# fuzz NAME CORPUS...: run tests/fuzz/NAME on copies of the files.
fuzz() {
    name=$1
    shift
    program=$top_builddir/tests/fuzz/$name
    [ -x "$program" ] || fail "$program is not built"
    cd "$tmp" || fail "no folder"
    case " ${INSTRUMENT:-} " in
    *fuzzer-no-link*)
        mkdir "$name" || fail "no folder"
        find "$@" -type f -size -64k -exec cp {} "$name" \;
        "$program" -max_total_time="$seconds" -timeout=30 -detect_leaks=0 -rss_limit_mb=4096 -max_len=65536 "$name" >"$tmp/log" 2>&1
        ;;
    *)
        "$program" -seconds="$seconds" "$@" >"$tmp/log" 2>&1
        ;;
    esac || {
        tail -n 60 "$tmp/log"
        mkdir -p "$top_builddir/crashes" && cp crash-* timeout-* oom-* "$top_builddir/crashes" 2>/dev/null
        fail "$name: the input is in $top_builddir/crashes"
    }
    tail -n 1 "$tmp/log"
}

mkdir "$tmp/values" && for i in 1 2 3 4 5; do
    tccc-run --interpret "$top_srcdir/tests/cli/data/add.tcir" --random=$i --shape=x=${i}x2 --output-dir "$tmp/values/$i" >"$tmp/log" || fail "no values"
done
fuzz fuzz-values "$tmp/values"
fuzz fuzz-text "$top_srcdir/tests/ir" "$top_srcdir/tests/passes"

corpus=$top_srcdir/samples/digits
for suite in "$top_builddir/suite" "$top_builddir/../suite"; do      # the official cases, where tools/check wrote them
    [ -d "$suite" ] && corpus="$corpus $suite"
done
# shellcheck disable=SC2086  # a list of folders
fuzz fuzz-onnx $corpus
