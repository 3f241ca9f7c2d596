# tools/check itself: its usage. (What it runs is tested by running it.)
. "${top_srcdir:=$(cd "$(dirname "$0")/.." && pwd)}/tests/setup.sh"
expect_status 2 sh "$top_srcdir/tools/check" --frobnicate
grep -q "^error: unknown option '--frobnicate'" "$tmp/err" && grep -q '^usage: tools/check ' "$tmp/err" || fail "no usage"
expect_status 2 sh "$top_srcdir/tools/check" --full extra
expect_status 0 sh "$top_srcdir/tools/check" --help
for option in $(sed -n 's/^    \(--[a-z]*\)) .*/\1/p' "$top_srcdir/tools/check"); do
    [ "$option" = --help ] || grep -q -e "^  $option " "$tmp/out" || fail "--help does not tell $option"
done
# Its last lines: what failed, and a run that did not get to its end, are in the exit status.
{
    echo 'started=0'
    sed -n '/^passed=0 failed=0/,/^trap finish EXIT/p' "$top_srcdir/tools/check"
    echo 'failed=$1 finished=$2'
} >"$tmp/end.sh"
expect_status 0 sh "$tmp/end.sh" 0 1
expect_status 1 sh "$tmp/end.sh" 3 1
expect_status 1 sh "$tmp/end.sh" 0 ""
