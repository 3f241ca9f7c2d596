# tests/gpu/run, as far as it goes without a GPU: models are prepared, run in the simulator and compared with the CPU; a wrong result, an
# artifact that is not there and a PyTorch that is not installed are told; the page says what was measured. TCCC_TEST_FULL: all nine parts.
. "${top_srcdir:=$(cd "$(dirname "$0")/.." && pwd)}/tests/setup.sh"
[ -z "${INSTRUMENT:-}" ] || skip "measures the plain runtime"
"$TEST_PYTHON" -c 'import numpy, onnx' 2>/dev/null || skip "$TEST_PYTHON has no numpy and onnx"
TCCC_LIBDIR=$top_builddir TCCC_PTXAS=none
export TCCC_LIBDIR TCCC_PTXAS
unset TCCC_DEVICE
cd "$tmp" || exit 99
gpu() { "$TEST_PYTHON" "$top_srcdir/tests/gpu/run" "$@"; }
parts="--part 1 --part 2 --part 8"
[ -z "${TCCC_TEST_FULL:-}" ] || parts=
# shellcheck disable=SC2086  # words
{
    expect_status 0 gpu --prepare --small --build "$top_builddir" $parts ready
    grep -q '^prepared 8: gpt-training-bf16' out || fail "$(cat "$tmp/out")"
    expect_status 0 gpu ready $parts --device sim --output page.md
}
for name in bert-small lstm-small mobilenet-small resnet-small bert-small-bf16 product-bf16-40 gpt-training-bf16; do
    grep -q "^ok $name: [0-9.]* ms" out || fail "$name: $(cat out)"
done
grep -q '^ok product-bf16-40 beside PyTorch # SKIP' out || fail "$(cat "$tmp/out")"
diff page.md "$top_srcdir/doc/gpu-performance.md" >diff || grep -q '^| part' "$top_srcdir/doc/gpu-performance.md" || fail "doc/gpu-performance.md is not what the script writes: $(cat diff)"

# What is wrong is told, and the page has it.
"$TEST_PYTHON" - <<'END_OF_PROGRAM'
import struct
with open("ready/1/lstm-small.expected", "r+b") as f:
    f.write(struct.pack("f", 100.0))
END_OF_PROGRAM
mv ready/1/bert-small.so ready/1/none.so
expect_status 1 gpu ready --part 1 --device sim --output page.md
grep -q '^not ok lstm-small: outputs are off by' out || fail "$(cat "$tmp/out")"
grep -q '^not ok bert-small: .*ready/1/bert-small.so' out || fail "$(cat "$tmp/out")"
sed -i 's/"device": "sim"/"device": "cuda"/; s/"p50_ms": [0-9.]*/"p50_ms": 0.5/' ready/results.json
expect_status 0 gpu --table ready --output page.md
grep -q '^| 1 | lstm-small | wrong: outputs are off' page.md && grep -q '^| 2 | product-bf16-40 | 0.500 ms | 0 TFLOP/s | - |' page.md &&
    grep -q '^| 8 | gpt-training-bf16 | 0.500 ms | 4000 samples/s' page.md || fail "$(cat page.md)"
expect_status 2 gpu ready --part 10
