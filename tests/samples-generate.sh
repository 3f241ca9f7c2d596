# The sample that generates text: a short run of its run.sh. The loss reached is that of a model that has learnt something (guessing bytes is 5.5), and
# the text with the cache in the session is the text without, through several fillings of the cache.
. "${top_srcdir:=$(cd "$(dirname "$0")/.." && pwd)}/tests/setup.sh"
TCCC_LIBDIR=$top_builddir
export TCCC_LIBDIR
needs numpy onnx
runtime=$top_builddir/libtccrt.a
[ -f "$top_builddir/libtccrt_instrumented.a" ] && runtime=$top_builddir/libtccrt_instrumented.a
steps=250
[ -n "${TCCC_TEST_FULL:-}" ] && steps=2000

expect_status 2 sh "$top_srcdir/samples/generate/run.sh"
PYTHON=$TEST_PYTHON CFLAGS="-Wall -Wextra -Werror ${INSTRUMENT:-} -I$top_srcdir/runtime" LIBS="$runtime -lm -lpthread -ldl" \
    expect_status 0 sh "$top_srcdir/samples/generate/run.sh" "$tmp/made" "$steps" "The session " 200
cd "$tmp/made" || exit 99
loss=$(sed -n 's/.*"eval_loss":\([0-9.]*\).*/\1/p' training.json | tail -n 1)
echo "$steps steps: loss $loss"
awk -v l="$loss" -v most="$([ "$steps" -ge 2000 ] && echo 2.0 || echo 2.9)" 'BEGIN { exit !(l > 0 && l < most) }' || fail "loss $loss"
cmp -s with.txt without.txt || fail "with the cache: $(cat with.txt); without: $(cat without.txt)"
[ "$(wc -c <with.txt)" -eq 213 ] || fail "$(wc -c <with.txt) bytes of text"
grep -q '^The session ' with.txt || fail "$(cat with.txt)"
expect_status 0 ./generate decoder.so "int main(" 100 0
grep -q '^with a cache: first byte [0-9.]* ms, each later one [0-9.]* ms$' "$tmp/err" || fail "$(cat "$tmp/err")"
expect_status 2 ./generate decoder.so
expect_status 1 ./generate none.so x
