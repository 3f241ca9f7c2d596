# tests/gpu/run rehearsed without a GPU: models are compiled and packed, unpacked and run in the simulator and compared with the CPU, every part ends and says its seconds; a wrong
# result, an artifact that is not there, peers that are not installed and a part whose time is over are told; the page says what was measured, what the model predicted, and of what is
# asked of an H200 what was met. Peers run every kind of theirs on the CPU, where PyTorch is. TCCC_TEST_FULL: networks that are run by name only, too.
. "${top_srcdir:=$(cd "$(dirname "$0")/.." && pwd)}/tests/setup.sh"
[ -z "${INSTRUMENT:-}" ] || skip "measures the plain runtime"
needs numpy onnx
TCCC_LIBDIR=$top_builddir TCCC_PTXAS=none
export TCCC_LIBDIR TCCC_PTXAS
unset TCCC_DEVICE
cd "$tmp" || exit 99
gpu() { "$TEST_PYTHON" "$top_srcdir/tests/gpu/run" "$@"; }
expect_status 0 gpu --prepare --small --build "$top_builddir" ready
grep -q '^prepared 1: 12 official cases' out && grep -q '^prepared 3: gpt-training-bf16, .* h100 [0-9.]* ms, h200 ' out && grep -q '^[0-9.]* MB in all' out || fail "$(cat "$tmp/out")"
rm -r ready/[1-6] # what is carried are the archives
expect_status 0 gpu ready --device sim --output page.md
for name in bert-small lstm-small mobilenet-small resnet-small bert-small-bf16 gpt-small product-bf16-40 attention-training-20x16 gpt-training-bf16 resnet-2-bf16 streams graphs sessions \
    resnet-2-threads launch host-link; do
    grep -q "^ok $name: [0-9.]* ms" out || fail "$name: $(cat out)"
done
grep -q '^ok official: 12 cases, [1-9][0-9]* of them with kernels' out || fail "$(cat "$tmp/out")"
grep -q '^ok product-bf16-40 beside PyTorch # SKIP' out && grep -q '^ok compute-sanitizer # SKIP needs a GPU' out || fail "$(cat "$tmp/out")"
[ "$(grep -c '^# part [1-6]: [0-9.]* s' out)" -eq 6 ] || fail "$(cat "$tmp/out")"
diff page.md "$top_srcdir/doc/gpu-performance.md" >diff || grep -q '^| part' "$top_srcdir/doc/gpu-performance.md" || fail "doc/gpu-performance.md is not what the script writes: $(cat diff)"

# What is wrong is told, and the page has it; a case whose process dies takes no other one with it.
case=$(cd ready/1/official && ls ./*.so | head -n 1)
case=${case#./}
"$TEST_PYTHON" - "ready/1/official/${case%.so}.out" <<'END_OF_PROGRAM'
import struct, sys
with open("ready/1/lstm-small.expected", "r+b") as f:
    f.write(struct.pack("f", 100.0))
with open(sys.argv[1], "r+b") as f:
    f.write(b"\x5a" * 4)
END_OF_PROGRAM
mv ready/1/bert-small.so ready/1/none.so
expect_status 1 gpu ready --part 1 --device sim --output page.md
grep -q "^not ok official: 1 of 12 are wrong: ${case%.so}\$" out || fail "$(cat "$tmp/out")"
grep -q '^not ok lstm-small: outputs are off by' out || fail "$(cat "$tmp/out")"
grep -q '^not ok bert-small: .*ready/1/bert-small.so' out || fail "$(cat "$tmp/out")"
: >"ready/1/official/$case"
expect_status 1 gpu ready --part 1 --device sim --output page.md
grep -q "^# ${case%.so}: measure: ready/1/official/$case" out && grep -q '^not ok official: 1 of 12 are wrong' out || fail "$(cat "$tmp/out")"

# A part whose time is over.
sed 's/, 150),$/, 0),/' "$top_srcdir/tests/gpu/page.py" >page.py
mkdir -p short/tests && cp -r "$top_srcdir/tests/gpu" short/tests/ && mv page.py short/tests/gpu/
expect_status 0 "$TEST_PYTHON" short/tests/gpu/run ready --part 2 --device sim --results late.json --output page.md
grep -q "^ok product-f32-40 # SKIP the part's time was over" out || fail "$(cat "$tmp/out")"

# The page of figures that are stored: bandwidth beside a copy, what is asked and met, missed, in part or not at all measured, what was predicted.
"$TEST_PYTHON" - <<'END_OF_PROGRAM'
import json
def case(part, ms, peers, flops=0, bytes=0, wrong=None, predicted={}):
    return {"part": part, "device": "cuda", "wrong": wrong, "open_ms": 100, "first_ms": 50, "p50_ms": ms, "flops": flops, "bytes": bytes, "batch": 8192, "unit": "tokens",
            "elements": 1000000, "peers": peers, "predicted": predicted, "programs": 1, "replays": 99}
torch = lambda ms: {"torch": {"ms": ms, "version": "2.0"}}
cases = {"product-bf16-4096": case(2, 10, torch(0.9), flops=1.4e12, predicted={"h100": 9, "h200": 8}), "product-bf16-8192": case(2, 100, torch(9), flops=1.1e13),
         "product-f32-4096": case(2, 10, torch(2), flops=1.4e12), "product-f32-8192": {"part": 2, "device": "cuda", "wrong": None, "missed": True},
         "attention-2048x64": case(2, 10, torch(0.5), flops=1e12), "attention-2048x128": case(2, 10, torch(1.5), flops=1e12),
         "layer-norms": case(2, 1, {"copy": {"ms": 0.09, "version": "2.0"}}, bytes=8e7),
         "gpt-training-bf16": case(3, 16, {"torch": {"skip": "no PyTorch"}}),
         "streams": {"part": 4, "device": "cuda", "wrong": None, "alone_ms": 2, "together_ms": 1, "queued_ms": 1.5, "sessions": 4},
         "sessions": {"part": 4, "device": "cuda", "wrong": None, "each_ms": 30, "sessions": 200, "grown_kb": 8, "device_grown_kb": 0},
         "graphs": case(4, 1, {}), "graphs-walked": case(4, 3, {}),
         "compute-sanitizer-memcheck": {"part": 1, "device": "cuda", "wrong": "a race"}}
json.dump({"cases": cases, "seconds": {"1": 99.6}, "machine": {"gpu": "NVIDIA H200, 580", "cpu": "a CPU"}}, open("ready/results.json", "w"))
END_OF_PROGRAM
expect_status 0 gpu --table ready --output page.md
while IFS= read -r line; do
    grep -qF "$line" page.md || fail "no line '$line': $(cat page.md)"
done <<'END_OF_LINES'
On: NVIDIA H200, 580; a CPU.
| 2 | product-bf16-4096 | 10.000 ms | 140 TFLOP/s | PyTorch 0.90 | 150 ms |
| 2 | product-f32-8192 | no time was left | | | |
| 2 | layer-norms | 1.000 ms | 80 GB/s | a copy 0.90 | 150 ms |
| 3 | gpt-training-bf16 | 16.000 ms | 512000 tokens/s | - | 150 ms |
| 4 | streams | 2.000 ms alone | 1.000 ms a run of 4 sessions, 1.500 ms queued | | |
| 4 | sessions | 30.0 ms each | 200 sessions leave 8 KB, of the device's 0 KB | | |
| 1 | compute-sanitizer-memcheck | wrong: a race | | | |
Recorded programs (CUDA graphs): 99 replays of 1; a run takes 3.00 times as long where its plan is walked.
| product-bf16-4096 | 8.000 ms | 10.000 ms | 1.25 |
| bf16 products of 4,096 and 8,192: 0.85 of cuBLASLt's rate | 0.90 | yes |
| float32 products above cuBLAS's | 2.00 | not measured: 1 of 2 |
| attention: 0.8 of cuDNN's rate | 0.50 | no |
| norms: 0.85 of a copy's bandwidth | 0.90 | yes |
| GPT-2 124M training in bf16: 450,000 tokens a second | 512000 | yes |
| GPT-2 124M training ahead of torch.compile | - | not measured |
| compute-sanitizer finds nothing | 0 | no |
| sessions beside each other give the same bits | 1 | yes |
Beside PyTorch 2.0.
Seconds of the parts: 1: 100.
END_OF_LINES
expect_status 2 gpu ready --part 10
if [ -n "${TCCC_TEST_FULL:-}" ]; then
    expect_status 0 gpu --prepare --small --build "$top_builddir" --part 7 longer
    expect_status 0 gpu longer --part 7 --device sim --output page.md
fi

"$TEST_PYTHON" -c 'import torch, torchvision, onnxruntime' 2>/dev/null || exit 0
expect_status 0 "$TEST_PYTHON" "$top_srcdir/tests/gpu/peers.py" --dry
grep -q skip out && fail "$(cat "$tmp/out")"
for kind in "product-f32-40 torch" "attention-training-20x16 torch" "layer-norms copy" "bert-2-f32 onnxruntime" "gpt-2-f32 onnxruntime" "lstm-2-bf16 torch" "gpt-training-bf16 torch" \
    "resnet-50-training-bf16 torch" "bert-2-threads onnxruntime-cpu"; do
    grep -q "^$kind {\"ms\": [0-9.]*" out || fail "$kind: $(cat "$tmp/out")"
done
