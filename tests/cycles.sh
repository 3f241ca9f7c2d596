# Cycles of calls: in the objects of this build, files of a folder that call each other in a circle. One is at most six
# files, and every one is within a line of tests/cycles.list, which says why; larger ones stand there with the number of
# their files, which may fall only. So do cycles that go through several folders. Calls through tables are none.
. "${top_srcdir:=$(cd "$(dirname "$0")/.." && pwd)}/tests/setup.sh"
needs
list=$top_srcdir/tests/cycles.list
"$TEST_PYTHON" "$top_srcdir/tests/cycles.py" "$top_builddir" "$list" || exit $?

# A line less, and the cycle is told; a cycle of more files than its line says, too.
sed '/^ir\/text .* parse/d' "$list" >"$tmp/less"
! "$TEST_PYTHON" "$top_srcdir/tests/cycles.py" "$top_builddir" "$tmp/less" >"$tmp/log" || fail "a cycle without a reason is not told"
grep -q 'ir/text: .*parse_node.* call each other' "$tmp/log" || fail "said: $(cat "$tmp/log")"
