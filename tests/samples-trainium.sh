# samples/trainium in the simulator: several workers have the losses of one, which are the CPU's; training goes on from a checkpoint, and learns.
. "${top_srcdir:=$(cd "$(dirname "$0")/.." && pwd)}/tests/setup.sh"
[ -z "${INSTRUMENT:-}" ] || skip "the simulator is slow in an instrumented build"
TCCC_LIBDIR=$top_builddir
export TCCC_LIBDIR
unset TCCC_DEVICE TCCC_SIM TCCC_ORDER_SEED
"$TEST_PYTHON" -c 'import numpy, onnx' 2>"$tmp/err" || skip "$TEST_PYTHON has no numpy and onnx"

expect_status 2 sh "$top_srcdir/samples/trainium/run.sh"
PYTHON=$TEST_PYTHON expect_status 0 sh "$top_srcdir/samples/trainium/run.sh" "$tmp/made" 2 6 40
cd "$tmp/made" || exit 99
digits=$top_srcdir/samples/digits
tccc --train --loss=cross_entropy --optimizer=sgd:lr=0.2 --dim N=64 mlp.onnx -o cpu.so || fail "cpu.so"
tccc-train cpu.so --threads 1 --json --data "picture=$digits/pictures.idx3-ubyte" --data "target=$digits/labels.idx1-ubyte" --seed 1 --batch-size 64 --steps 12 >cpu.json || fail "the CPU"
"$TEST_PYTHON" - <<'END' || fail "losses"
import json
def losses(path):
    return [json.loads(l)["loss"] for l in open(path) if '"step"' in l]
one, many, more, cpu = (losses(f + ".json") for f in ("one", "many", "more", "cpu"))
near = lambda a, b: all(abs(x - y) <= 1e-5 * abs(y) for x, y in zip(a, b))
assert len(one) == len(many) == len(more) == 6 and len(cpu) == 12, (one, many, more, cpu)
assert near(one, cpu) and near(many, one) and near(more, cpu[6:]), (one, many, more, cpu)
assert sum(cpu[8:]) < sum(cpu[:4]), cpu
END
# 32 ranks are slower than one by their collectives.
"$TEST_PYTHON" - <<'END' || fail "time: $(cat time1.json time32.json)"
import json
a, b = (next(json.loads(l)["sim"] for l in open(f"time{n}.json") if '"sim":' in l) for n in (1, 32))
assert a["collective_ms"] == 0 and b["exposed_ms"] > 0 and abs(b["ms"] - a["ms"] - b["exposed_ms"]) < 1e-6 and a["engines"] == b["engines"]
END
grep -q '"name":"collectives"' trace32.json && grep -q '"name":"collective","ph":"X"' trace32.json || fail "trace"
