# samples/trainium in the simulator: several workers have the losses of one, which are the CPU's; training goes on from a checkpoint, and learns.
. "${top_srcdir:=$(cd "$(dirname "$0")/.." && pwd)}/tests/setup.sh"
[ -z "${INSTRUMENT:-}" ] || skip "the simulator is slow in an instrumented build"
TCCC_LIBDIR=$top_builddir
export TCCC_LIBDIR
unset TCCC_DEVICE TCCC_SIM TCCC_ORDER_SEED
needs numpy onnx

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

# The same as traced C programs: two workers have the losses of one; autocast and bf16 are near float32; batches_per_execution changes no loss, and raises the modelled rate.
engine=sim
. "$top_srcdir/tests/dist/setup.sh"
unset TCCC_COMM
for program in mlp vit; do
    $CC -std=gnu17 -Wall -Wextra -Werror -O1 -I"$top_srcdir" "$top_srcdir/samples/trainium/$program.c" "$top_builddir/libtccc.so.0" -lm -o $program >log 2>&1 || fail "$program.c: $(cat log)"
done
LD_LIBRARY_PATH=$top_builddir${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LD_LIBRARY_PATH
for how in float32 autocast bf16; do
    expect_status 0 ./mlp "$digits" $how 4
    mv "$tmp/out" $how.out
done
TCCC_DEVICE=cpu expect_status 0 ./mlp "$digits" float32 4
mv "$tmp/out" cpu.out
TCCC_COMM=sim ranks 2 ./mlp "$digits" float32 4 >two.out 2>log || fail "two workers: $(cat log)"
expect_status 0 ./vit "$digits" 1 4
mv "$tmp/out" vit1.out
expect_status 0 ./vit "$digits" 4 1
mv "$tmp/out" vit4.out
"$TEST_PYTHON" - <<'END' || fail "programs: $(cat ./*.out)"
import re
text = {f: open(f + ".out").read() for f in ("float32", "autocast", "bf16", "cpu", "two", "vit1", "vit4")}
loss = {f: [float(x) for x in re.findall("loss (.*)", t)] for f, t in text.items()}
near = lambda a, b, by: len(a) == len(b) == 4 and all(abs(x - y) <= by * abs(y) for x, y in zip(a, b))
assert near(loss["float32"], loss["cpu"], 1e-5) and near(loss["two"], loss["float32"], 1e-5), loss
assert near(loss["autocast"], loss["cpu"], 1e-3) and near(loss["bf16"], loss["cpu"], 1e-2), loss
assert loss["autocast"] != loss["cpu"] and loss["bf16"] != loss["autocast"] and loss["cpu"][0] != loss["cpu"][3], loss
assert "2 workers, 1 graphs" in text["two"] and "1 workers" in text["float32"]
time = {f: float(re.search("graphs: (.*) us", text[f])[1]) for f in ("float32", "two", "cpu")}
assert time["float32"] > 0 and time["two"] > 0 and time["cpu"] == 0, time
assert near(loss["vit1"], loss["vit4"], 1e-6), loss
rate = [float(re.search("execution: (.*) pictures", text[f])[1]) for f in ("vit1", "vit4")]
assert rate[1] > 1.02 * rate[0], rate
END
expect_status 2 ./mlp "$digits" int8
expect_status 2 ./vit
expect_status 1 ./vit "$tmp"
