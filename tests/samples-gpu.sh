# samples/gpu in the simulator: the ResNet's outputs are the CPU's within what bf16 gives, the GPT's losses are the CPU's.
. "${top_srcdir:=$(cd "$(dirname "$0")/.." && pwd)}/tests/setup.sh"
[ -z "${INSTRUMENT:-}" ] || skip "the simulator is slow in an instrumented build"
TCCC_LIBDIR=$top_builddir
export TCCC_LIBDIR
unset TCCC_DEVICE
needs numpy onnx

expect_status 2 sh "$top_srcdir/samples/gpu/run.sh"
PYTHON=$TEST_PYTHON expect_status 0 sh "$top_srcdir/samples/gpu/run.sh" "$tmp/made" sim 2 8
grep '"loss"' "$tmp/out" >"$tmp/losses"
cd "$tmp/made" || exit 99
expect_status 0 tccc resnet.onnx -o cpu.so
expect_status 0 tccc-run cpu.so --random=1 --output-dir cpu
"$TEST_PYTHON" - <<'END_OF_PROGRAM' || fail "the ResNet's outputs differ"
import numpy as np
a, b = np.load("cpu/output_0.npy"), np.load("resnet/output_0.npy")
assert a.shape == b.shape and abs(a - b).max() < 0.03 * abs(a).max(), (a, b)
END_OF_PROGRAM
expect_status 0 tccc --train --loss=cross_entropy --optimizer=adamw:lr=1e-3 gpt.onnx -o cpu.so
expect_status 0 tccc-train cpu.so --json --steps 2 --batch-size 4 --data ids=text,dtype=u8,length=32,stride=32 \
    --data target=text,dtype=u8,length=32,stride=32,offset=1
grep '"loss"' "$tmp/out" >"$tmp/cpu"
paste "$tmp/losses" "$tmp/cpu" | awk '{ n += gsub(/"step"/, "&") }
    match($0, /"loss":[0-9.]*/) { a = substr($0, RSTART + 7, RLENGTH - 7); rest = substr($0, RSTART + RLENGTH)
        match(rest, /"loss":[0-9.]*/); b = substr(rest, RSTART + 7, RLENGTH - 7); seen++; if (a - b > 1e-4 || b - a > 1e-4 || a <= 0) bad = 1 }
    END { exit bad || seen < 2 }' || fail "losses: $(paste "$tmp/losses" "$tmp/cpu")"
