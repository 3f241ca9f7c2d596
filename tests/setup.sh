# Sourced by every test script: a fixed locale, an empty folder $tmp that goes away at the end, helpers.
# Set by `make check`: top_srcdir, top_builddir, FILECHECK, CLANG, CC, TEST_PYTHON. By hand, from the build folder:
#   top_srcdir=$PWD/.. top_builddir=$PWD sh ../tests/NAME.sh
LC_ALL=C
export LC_ALL
: "${top_srcdir:=$(dirname "$0")/..}"
top_srcdir=$(cd "$top_srcdir" && pwd) || exit 99 # without build/.. of a configure that was called as ../configure: messages have the plain one
: "${top_builddir:=$(pwd)}"
: "${FILECHECK:=FileCheck-19}"
: "${CC:=cc}"
: "${TEST_PYTHON:=python3}"
PATH=$top_builddir:$PATH
unset TCCC_FLAGS TCCC_CACHE_DIR
tmp=$(mktemp -d "${TMPDIR:-/tmp}/tccc-test.XXXXXX") || exit 99
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' HUP INT TERM

# fail TEXT: say why and end the test as failed.
fail() {
    echo "FAIL: $*"
    exit 1
}

# skip TEXT: end the test as skipped. Of TAP: before its first line.
skip() {
    case $0 in
    *.tap) echo "1..0 # SKIP $*" && exit 0 ;;
    esac
    echo "SKIP: $*"
    exit 77
}

# needs [MODULE...]: skip the test where there is no Python, or one without these modules.
needs() {
    modules=sys
    for module; do modules=$modules,$module; done
    "$TEST_PYTHON" -c "import $modules" 2>/dev/null || skip "$TEST_PYTHON ${*:+has no $*, or }is not there"
}

# expect_status N COMMAND...: run, keep its output in $tmp/out and $tmp/err, fail on another exit status.
expect_status() {
    want=$1
    shift
    got=0
    "$@" >"$tmp/out" 2>"$tmp/err" || got=$?
    if [ "$got" -ne "$want" ]; then
        cat "$tmp/out" "$tmp/err"
        fail "exit status $got, not $want: $*"
    fi
}

# joined N: the TAP of N programs that is its input, as that of one. One that did not get to its plan, or to all of it, is a failure.
joined() {
    awk -v programs="$1" '/^1\.\./ { plans++; planned += substr($0, 4); next }
        /^(not )?ok / { n++; sub(/ok [0-9]+/, "ok " n) }
        { print }
        END {
            if (plans != programs || planned != n)
                print "not ok " ++n " - " plans + 0 " of " programs " programs ended, " n - 1 " of " planned + 0 " cases are there"
            print "1.." n
        }'
}
