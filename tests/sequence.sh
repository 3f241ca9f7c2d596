# What tccc writes doesn't depend on which C compiler built it: no call has two arguments whose order is seen in what is emitted (tests/sequence.py).
. "${top_srcdir:=$(cd "$(dirname "$0")/.." && pwd)}/tests/setup.sh"
needs
"$TEST_PYTHON" "$top_srcdir/tests/sequence.py" "$top_srcdir" || fail "arguments whose order is left to the C compiler"
# It notices one, by a function of another file and by a macro.
mkdir "$tmp/passes" && cp -R "$top_srcdir/compiler" "$top_srcdir/ir" "$tmp" || fail "no copy of the sources"
cat >"$tmp/passes/one.c" <<'EOF'
#define TWICE(x) imp_bin(im, IR_add, x, x)
static struct ir_value *one(struct imp *im, struct ir_value *x)
{
    return imp_bin(im, IR_sub, TWICE(x), imp_cast(im, x, TCC_F32));
}
EOF
! "$TEST_PYTHON" "$top_srcdir/tests/sequence.py" "$tmp" >"$tmp/log" || fail "arguments without an order are not noticed"
[ "$(cat "$tmp/log")" = "passes/one.c:4: arguments of imp_bin in an order of the compiler's: TWICE, imp_cast" ] || fail "what is noticed: $(cat "$tmp/log")"
exit 0
