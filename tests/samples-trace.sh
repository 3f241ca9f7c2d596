# The traced MNIST sample: trains to 97 % of the held-out images at small size, from two graphs that are compiled once; another
# process compiles nothing; so in two processes at once. Needs Python with numpy, which draws the pictures.
. "${top_srcdir:=$(cd "$(dirname "$0")/.." && pwd)}/tests/setup.sh"
[ -z "${INSTRUMENT:-}" ] || skip "links the plain library"
TCCC_LIBDIR=$top_builddir
TCCC_CACHE_DIR=$tmp/cache
LD_LIBRARY_PATH=$top_builddir
export TCCC_LIBDIR TCCC_CACHE_DIR LD_LIBRARY_PATH
samples=$top_srcdir/samples
needs numpy
"$TEST_PYTHON" "$samples/digits/draw.py" --training "$tmp/digits" 5000 || fail "no training data"

$CC -std=gnu17 -Wall -Wextra -Werror -O2 -I"$top_srcdir" "$samples/trace-mnist/trace-mnist.c" "$top_builddir/libtccc.so.0" -lm \
    -o "$tmp/trace-mnist" || fail "samples/trace-mnist does not build"
expect_status 0 "$tmp/trace-mnist" "$tmp/digits" "$samples/digits" 3
right=$(sed -n 's/^epoch 3: .* \([0-9]*\) of 500 .*/\1/p' "$tmp/out")
[ "${right:-0}" -ge 485 ] || fail "$(cat "$tmp/out")"
grep -q '^graphs: 249 traced, 2 compiled, 0 loaded, 249 executed$' "$tmp/out" || fail "$(cat "$tmp/out")"
cat "$tmp/out"

TCCC_TRACE=report expect_status 0 "$tmp/trace-mnist" "$samples/digits" "$samples/digits" 1
grep -q '^graphs: 12 traced, 0 compiled, 2 loaded, 12 executed$' "$tmp/out" || fail "$(cat "$tmp/out")"
grep -q '^trace: graph 1 of .* is the first$' "$tmp/err" || fail "$(cat "$tmp/err")"
[ "$(ls "$tmp/cache" | wc -l)" -eq 2 ] || fail "the cache holds $(ls "$tmp/cache")"

# On a device with a memory of its own: the same losses, one execution an iteration. The simulated GPU takes its time.
loss=$(sed -n 's/^epoch 1: \(loss [0-9.]*\).*/\1/p' "$tmp/out")
[ -n "$loss" ] || fail "no loss: $(cat "$tmp/out")"
for device in cpu-split ${TCCC_TEST_FULL:+sim}; do
    TCCC_DEVICE=$device expect_status 0 "$tmp/trace-mnist" "$samples/digits" "$samples/digits" 1
    grep -q "^epoch 1: $loss" "$tmp/out" || fail "$device: $loss expected: $(cat "$tmp/out")"
    grep -q '^graphs: 12 traced, 2 compiled, 0 loaded, 12 executed$' "$tmp/out" || fail "$device: $(cat "$tmp/out")"
done

# In two processes: the losses of one but for the masks, compiled once.
if command -v mpirun >/dev/null; then
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_btl_vader_single_copy_mechanism=none TCCC_CACHE_DIR='' \
        expect_status 0 timeout 120 mpirun --oversubscribe -np 2 "$tmp/trace-mnist" "$samples/digits" "$samples/digits" 1
    [ "$(grep -c '^epoch 1: loss' "$tmp/out")" -eq 1 ] || fail "$(cat "$tmp/out")"
    [ "$(sed -n 's/.* \([0-9]*\) compiled.*/\1/p' "$tmp/out" | awk '{ n += $1 } END { print n }')" -eq 2 ] || fail "$(cat "$tmp/out")"
fi

expect_status 1 "$tmp/trace-mnist" "$tmp/none" "$samples/digits"
expect_status 2 "$tmp/trace-mnist"
