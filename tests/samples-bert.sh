# samples/bert in the simulator: pretraining on two workers (a few steps; TCCC_TEST_FULL: twenty) has the CPU's losses, in bf16 near them, and updates every second step.
. "${top_srcdir:=$(cd "$(dirname "$0")/.." && pwd)}/tests/setup.sh"
[ -z "${INSTRUMENT:-}" ] || skip "the simulator is slow in an instrumented build"
TCCC_LIBDIR=$top_builddir
export TCCC_LIBDIR
unset TCCC_DEVICE TCCC_SIM TCCC_ORDER_SEED
needs numpy onnx

steps=4
[ -z "${TCCC_TEST_FULL:-}" ] || steps=20
expect_status 2 sh "$top_srcdir/samples/bert/run.sh"
PYTHON=$TEST_PYTHON expect_status 0 sh "$top_srcdir/samples/bert/run.sh" "$tmp/made" 2 $steps
PYTHON=$TEST_PYTHON expect_status 0 sh "$top_srcdir/samples/bert/run.sh" "$tmp/cpu" 1 20 cpu
cd "$tmp" || exit 99
"$TEST_PYTHON" - $steps <<'END' || fail "losses"
import json, sys
def steps(folder, how):
    return [json.loads(l) for l in open(f"{folder}/{how}-0.json") if '"step"' in l]
n = int(sys.argv[1])
cpu, got = ({how: steps(f, how) for how in ("float32", "bf16-sr", "bf16-master")} for f in ("cpu", "made"))
for how, by in ("float32", 1e-4), ("bf16-sr", 3e-2), ("bf16-master", 3e-2):
    a, b = ([s["loss"] for s in x[how]] for x in (got, cpu))
    assert len(a) == n and len(b) == 20 and all(abs(x - y) <= by * y for x, y in zip(a, b)), (how, a, b)
    assert sum(b[-4:]) < 0.85 * sum(b[:4]), (how, b)  # it learns
assert [s["lr"] for s in got["float32"][:4]] == [0, 0.005, 0.005, 0.005], got["float32"]
assert all(s["sim_ms"] > 0 for s in got["bf16-sr"]), got["bf16-sr"]
END
exit 0
