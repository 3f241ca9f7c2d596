# tests/gpu/run, as far as it goes without a GPU: models are prepared, run in the simulator and compared with the CPU; a wrong result, an
# artifact that is not there and peers that are not installed are told; the page says what was measured, and of what is asked of an H200 what was met. Peers run every
# kind of theirs on the CPU, where PyTorch is. TCCC_TEST_FULL: all nine parts.
. "${top_srcdir:=$(cd "$(dirname "$0")/.." && pwd)}/tests/setup.sh"
[ -z "${INSTRUMENT:-}" ] || skip "measures the plain runtime"
needs numpy onnx
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
grep -q '^ok product-bf16-40 beside PyTorch # SKIP' out && grep -q '^ok compute-sanitizer # SKIP needs a GPU' out || fail "$(cat "$tmp/out")"
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
    grep -q '^| 8 | gpt-training-bf16 | 0.500 ms | 32000 tokens/s' page.md || fail "$(cat page.md)"

# The page of figures that are stored: bandwidth beside a copy, what is asked and met, missed, in part or not at all measured.
"$TEST_PYTHON" - <<'END_OF_PROGRAM'
import json
def case(part, ms, peers, flops=0, bytes=0, wrong=None):
    return {"part": part, "device": "cuda", "wrong": wrong, "open_ms": 100, "first_ms": 50, "p50_ms": ms, "flops": flops, "bytes": bytes, "batch": 8192, "unit": "tokens",
            "elements": 1000000, "peers": peers}
torch = lambda ms: {"torch": {"ms": ms, "version": "2.0"}}
results = {"product-bf16-4096": case(2, 10, torch(0.9), flops=1.4e12), "product-bf16-8192": case(2, 100, torch(9), flops=1.1e13),
           "product-f32-4096": case(3, 10, torch(2), flops=1.4e12),
           "attention-2048x64": case(4, 10, torch(0.5), flops=1e12), "attention-2048x128": case(4, 10, torch(1.5), flops=1e12),
           "layer-norms": case(5, 1, {"copy": {"ms": 0.09, "version": "2.0"}}, bytes=8e7),
           "gpt-training-bf16": case(8, 16, {"torch": {"skip": "no PyTorch"}}),
           "compute-sanitizer-memcheck": {"part": 1, "device": "cuda", "wrong": "a race"}}
json.dump(results, open("ready/results.json", "w"))
END_OF_PROGRAM
expect_status 0 gpu --table ready --output page.md
while IFS= read -r line; do
    grep -qF "$line" page.md || fail "no line '$line': $(cat page.md)"
done <<'END_OF_LINES'
| 2 | product-bf16-4096 | 10.000 ms | 140 TFLOP/s | PyTorch 0.90 | 150 ms |
| 5 | layer-norms | 1.000 ms | 80 GB/s | a copy 0.90 | 150 ms |
| 1 | compute-sanitizer-memcheck | wrong: a race | | | |
| bf16 products of 4,096 and 8,192: 0.85 of cuBLASLt's rate | 0.90 | yes |
| float32 products above cuBLAS's | 2.00 | not measured: 1 of 2 |
| attention: 0.8 of cuDNN's rate | 0.50 | no |
| norms: 0.85 of a copy's bandwidth | 0.90 | yes |
| GPT-2 124M training in bf16: 450,000 tokens a second | 512000 | yes |
| GPT-2 124M training ahead of torch.compile | - | not measured |
| compute-sanitizer finds nothing | 0 | no |
Beside PyTorch 2.0.
END_OF_LINES
expect_status 2 gpu ready --part 10

"$TEST_PYTHON" -c 'import torch, torchvision, onnxruntime' 2>/dev/null || exit 0
expect_status 0 "$TEST_PYTHON" "$top_srcdir/tests/gpu/peers.py" --dry
grep -q skip out && fail "$(cat "$tmp/out")"
for kind in "product-f32-40 torch" "attention-training-20x16 torch" "layer-norms copy" "bert-2-f32 onnxruntime" "gpt-2-f32 onnxruntime" "lstm-2-bf16 torch" "gpt-training-bf16 torch" "resnet-50-training-bf16 torch"; do
    grep -q "^$kind {\"ms\": [0-9.]*" out || fail "$kind: $(cat "$tmp/out")"
done
