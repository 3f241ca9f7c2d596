# SPDX-License-Identifier: Apache-2.0
"""The Python package with numpy alone. usage: package.py TOP [TEST...], with the package on PYTHONPATH."""
import ast
import ctypes
import gc
import os
import random
import re
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np

import tccc
from tap import main, raises, skip

TOP = sys.argv[1]
DIGITS = TOP + "/samples/digits/digits.onnx"
folder = tempfile.TemporaryDirectory()


def text(name, source, **options):
    path = os.path.join(folder.name, name + ".tcir")
    with open(path, "w") as f:
        f.write(source)
    return tccc.compile(path, level=1, **options)


def add(kind):
    return text("add_" + kind, f'func @main(%x: {kind}[N], %y: {kind}[N]) -> ("sum": {kind}[N]) {{\n  %s = add(%x, %y)\n  return(%s)\n}}\n')


fixed = text("fixed", 'func @main(%x: f32[2,3], %y: f32[3]) -> ("a": f32[2,3], "b": f32[2,3]) {\n  %a = add(%x, %y)\n  %b = mul(%x, %y)\n  return(%a, %b)\n}\n')
symbolic = add("f32")
digits = tccc.compile(DIGITS)


def test_signatures():
    assert digits.entries == ("main",) and digits.name == "digits" and digits.device == "cpu" and digits.threads >= 1
    assert digits.inputs == (tccc.Value("picture", "float32", ("N", 1, 28, 28)),), digits.inputs
    assert digits.outputs[0].shape == ("N", 10)
    assert "picture: float32['N', 1, 28, 28]" in repr(digits)


def test_results_are_those_of_tccc_run():
    x = np.random.default_rng(0).random((3, 1, 28, 28), np.float32)
    np.save(folder.name + "/x.npy", x)
    digits.save(folder.name + "/digits.so")
    subprocess.run(["tccc-run", folder.name + "/digits.so", "--input", f"picture={folder.name}/x.npy", "--output-dir", folder.name], check=True, capture_output=True)
    assert np.array_equal(digits(x), np.load(folder.name + "/output_0.npy"))
    assert np.array_equal(tccc.load(folder.name + "/digits.so")(picture=x), digits(x))


def test_known_and_symbolic_sizes():
    x, y = np.arange(6, dtype=np.float32).reshape(2, 3), np.arange(3, dtype=np.float32)
    a, b = fixed(x, y)
    assert np.array_equal(a, x + y) and np.array_equal(b, x * y) and a.flags.writeable
    for n in 0, 1, 5, 1000:
        v = np.arange(n, dtype=np.float32)
        assert np.array_equal(symbolic(v, v), 2 * v)
    kept = [symbolic(np.full(4, k, np.float32), np.zeros(4, np.float32)) for k in range(20)]
    gc.collect()
    assert all((r == k).all() for k, r in enumerate(kept))    # results are memory of their own


def test_lists():
    x, y = np.arange(6, dtype=np.float32).reshape(2, 3), np.arange(3, dtype=np.float32)
    a, b = fixed.run_list([x, y])
    assert np.array_equal(a, x + y) and np.array_equal(b, x * y)
    assert len(symbolic.run_list((y, y))) == 1
    raises(tccc.UsageError, "takes 2 inputs", fixed.run_list, [x])
    raises(TypeError, "", fixed.run_list, 3)
    many = text("many", "func @main(" + ", ".join(f"%x{i}: f32[1]" for i in range(20)) + ') -> ("s": f32[1]) {\n  %s1 = add(%x0, %x19)\n  return(%s1)\n}\n')
    assert many(*[np.full(1, i, np.float32) for i in range(20)]).item() == 19


def test_inputs_with_values_of_their_own():
    m = text("defaults", 'default "b" = f32[2] [1.0, 2.0]\ndefault "c"\ndefault "d" = f32[2] [10.0, 20.0]\n'
             'func @main(%x: f32[2]) -> ("y": f32[2]) {\n  %s = constant() {value = f32[2] [11.0, 22.0]}\n  %y = add(%x, %s)\n  return(%y)\n}\n'
             'func @main.given(%x: f32[2], %b: f32[2], %d: f32[2]) -> ("y": f32[2]) {\n  %s = add(%x, %b)\n  %y = add(%s, %d)\n  return(%y)\n}\n')
    x, b, d = (np.array(v, np.float32) for v in ((1, 2), (3, 4), (5, 6)))
    assert m.entries == ("main",) and [v.name for v in m.inputs] == ["x"] and [v.name for v in m.defaults] == ["b", "d"]
    for given, want in (((x,), (12, 24)), ((x, b), (14, 26)), ((x, b, d), (9, 12)), ((x, None, d), (7, 10)), ((x, None, None), (12, 24))):
        assert m(*given).tolist() == list(want), given
    assert m(x, d=d).tolist() == [7, 10] and m(d=d, x=x, b=b).tolist() == [9, 12] and m.run("main", x, b=b).tolist() == [14, 26]
    raises(tccc.UsageError, "the value is compiled in", m, x, c=b)
    raises(tccc.UsageError, "too many", m, x, b, d, d)
    raises(tccc.InputError, "input 'd'", m, x, d=np.zeros(3, np.float32))


def test_forms_of_inputs():
    x, y = np.arange(6, dtype=np.float32).reshape(2, 3), np.arange(3, dtype=np.float32)
    want = x + y
    strided = np.arange(24, dtype=np.float32).reshape(2, 12)[:, ::4]
    assert np.array_equal(fixed(x=x, y=y)[0], want) and np.array_equal(fixed(x, y=y)[0], want)
    assert np.array_equal(fixed(np.asfortranarray(x), y)[0], want)
    assert np.array_equal(fixed(strided, y[::-1])[0], strided + y[::-1])
    assert np.array_equal(fixed(x.tolist(), [0, 1, 2])[0], want)
    assert np.array_equal(fixed(memoryview(x), y)[0], want)
    frozen = x.copy()
    frozen.flags.writeable = False
    assert np.array_equal(fixed(frozen, y)[0], want)

    class Exchanged:
        def __init__(self, a):
            self.a = a
        def __dlpack__(self, **how):
            return self.a.__dlpack__(**how)
        def __dlpack_device__(self):
            return self.a.__dlpack_device__()
    assert np.array_equal(fixed(Exchanged(x), Exchanged(y))[0], want)
    assert np.array_equal(fixed(Exchanged(strided), y)[0], strided + y)


def test_element_types():
    for kind, dtype in dict(f64="f8", i32="i4", i64="i8", u8="u1", i8="i1", u16="u2", i16="i2", u32="u4", u64="u8", f16="f2").items():
        x = np.arange(5).astype(dtype)
        r = add(kind)(x, x)
        assert r.dtype == np.dtype(dtype) and np.array_equal(r, x + x), kind
    try:
        import ml_dtypes
    except ImportError:
        skip("no ml_dtypes")
    for kind, name in ("bf16", "bfloat16"), ("f8e4m3fn", "float8_e4m3fn"):
        x = np.arange(5).astype(getattr(ml_dtypes, name))
        r = add(kind)(x, x)
        assert r.dtype == x.dtype and np.array_equal(r.astype("f4"), (x.astype("f4") * 2)), kind


def test_what_is_refused():
    x, y = np.zeros((2, 3), np.float32), np.zeros(3, np.float32)
    e = raises(tccc.InputError, "input 'x': expected f32, got f64", fixed, x.astype("f8"), y)
    assert e.status == 1 and isinstance(e, ValueError) and isinstance(e, tccc.Error)
    raises(tccc.InputError, "input 'x', axis 0: expected 2, got 4", fixed, np.zeros((4, 3), np.float32), y)
    raises(tccc.InputError, "expected rank 2, got 1", fixed, y, y)
    raises(tccc.InputError, "input 'y', axis 0: 'N' is 3", symbolic, y, x[0, :2])
    raises(tccc.InputError, "native byte order", fixed, x.astype(">f4"), y)
    raises(tccc.InputError, "expected float32, got None", fixed, None, y)
    raises(tccc.InputError, "expected an array of float32, got str", fixed, "no", y)
    raises(tccc.InputError, "input 'x'", fixed, object(), y)
    raises(tccc.InputError, "a number does not fit", add("u8"), [300], [1])
    raises(tccc.InputError, "expected numbers of int32, got float64", add("i32"), [1.5], [1])
    raises(tccc.InputError, "got rank 13", symbolic, np.zeros([1] * 13, np.float32), y)
    raises(tccc.UsageError, "takes 2 inputs (x, y): missing: y", fixed, x)
    raises(tccc.UsageError, "too many", fixed, x, y, y)
    raises(tccc.UsageError, "there is none named z", fixed, x, z=y)
    raises(tccc.UsageError, "given twice: x", fixed, x, x=y)
    raises(tccc.UsageError, "no entry point 'step'", fixed.run, "step", x)
    raises(tccc.UsageError, "has no state", fixed.state, "w")
    e = raises(tccc.InputError, "cannot be opened", tccc.compile, "/nowhere/model.onnx")
    assert e.status == 1
    raises(tccc.InputError, "not a compiled model", tccc.load, DIGITS)
    raises(tccc.Error, "/nowhere/model.so", tccc.load, "/nowhere/model.so")
    raises(tccc.Error, "cannot create output file", tccc.compile, DIGITS, output="/nowhere/model.so")
    raises(tccc.UsageError, "there is no option 'colour'", tccc.compile, DIGITS, colour=1)
    with open(TOP + "/base/options.def") as f:         # what is a step's does nothing without training
        fields = re.findall(r'^TCCC_FIELD\((\w+), .*", (\w+), (\w+), (\w+), [^"]*ARGUMENT[^"]*\)$', f.read(), flags=re.M)
    values = {"FLAG": True, "LIST": ["x"], "INT": 2, "LONG": 2, "SIZE": 2, "REAL": 2.0, "LIMIT": 2.0}
    trains = [(member, values.get(kind, "x")) for _, structure, kind, member in fields if structure != "OPTIONS"]
    assert len(trains) > 25, trains
    for member, value in trains:
        raises(tccc.UsageError, f"there is no option '{member}' without training", tccc.compile, DIGITS, **{member: value})
    raises(tccc.UsageError, "level: expected an int", tccc.compile, DIGITS, level="high")
    raises(tccc.UsageError, "level: expected an int from 0 to 3, not 7", tccc.compile, DIGITS, level=7)
    for name, value in dict(clip_norm=0, ema=0.0, bucket_cap_mb=0, accumulate=0, memory_budget=0, partitions=0).items():    # not "as if it were not given"
        raises(tccc.UsageError, f"{name}: expected a", tccc.train, DIGITS, loss="cross_entropy", **{name: value})
    raises(tccc.UsageError, "weights: expected embed, external, auto or random:SEED", tccc.compile, DIGITS, weights="few")
    raises(tccc.UsageError, "offload: expected activations, optimizer or both", tccc.train, DIGITS, loss="cross_entropy", offload="all")
    raises(tccc.UsageError, "ModelProto", tccc.compile, 3)
    raises(tccc.InputError, "", tccc.compile, b"\x08\x07garbage")
    raises(tccc.Error, "", tccc.compile, DIGITS, target="toaster")
    raises(tccc.Error, "", tccc.compile, DIGITS, device="toaster")
    m = tccc.load(folder.name + "/digits.so")
    m.close()
    raises(tccc.UsageError, "closed", m, x)
    assert repr(m) == "<tccc.Model, closed>"


def test_options():
    m = tccc.compile(DIGITS, dims={"N": 2}, name="two", threads=1, level=0)
    assert m.inputs[0].shape == (2, 1, 28, 28) and m.name == "two" and m.threads == 1
    m = tccc.compile(DIGITS, shapes={"picture": (4, 1, 28, 28)}, weights="embed")
    assert m.inputs[0].shape[0] == 4
    with open(DIGITS, "rb") as f:
        m = tccc.compile(f.read(), dims={"N": (1, "*")})
    x = np.zeros((1, 1, 28, 28), np.float32)
    assert np.allclose(m(x), digits(x))
    assert tccc.metrics()["compiled"] > 2
    x = np.random.default_rng(4).random((8, 1, 28, 28), np.float32)
    exact, got = tccc.compile(DIGITS, level=0)(x), []
    for wish in {"mode": "static-int8", "data": {"picture": x}, "bias_correction": True}, "weight-int8":
        got.append(tccc.compile(DIGITS, level=0, quantize=wish)(x))
        off = np.abs(got[-1] - exact).max() / np.abs(exact).max()
        assert 1e-6 < off < 0.1, (wish, off)
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["tccc-quantize", DIGITS, "--mode=weight-int8", "-o", folder + "/q.onnx"], check=True, capture_output=True)
        assert np.array_equal(tccc.compile(folder + "/q.onnx", level=0)(x), got[1])
    raises(tccc.UsageError, "int9", tccc.compile, DIGITS, quantize="int9")
    raises(tccc.UsageError, "a dict with a mode", tccc.compile, DIGITS, quantize={"data": "few.npz"})
    kept = m.path
    assert os.path.exists(kept)
    del m
    gc.collect()
    assert not os.path.exists(kept)


def test_profile():
    m = tccc.load(folder.name + "/digits.so", profile=True)
    m(np.zeros((1, 1, 28, 28), np.float32))
    rows = m.profile()
    assert rows and all(len(r) == 6 and r[2] == 1 and r[3] >= 0 for r in rows)


def test_threads():
    x = np.random.default_rng(1).random((2, 1, 28, 28), np.float32)
    want, wrong = digits(x), []

    def work():
        for _ in range(50):
            if not np.array_equal(digits(x), want):
                wrong.append(1)
    threads = [threading.Thread(target=work) for _ in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert not wrong
    futures = [digits.run_async(x) for _ in range(8)]
    assert all(np.array_equal(f.result(), want) for f in futures)
    raises(tccc.UsageError, "missing", digits.run_async().result)


def test_replaced_files():
    """A file that another one has replaced is the new one, while the old model lives and when it is gone."""
    path, x = folder.name + "/replaced.so", np.ones(3, np.float32)
    models = []
    for k in 1, 2, 3, 3:
        text(f"times{k}", f'func @main(%x: f32[3]) -> ("y": f32[3]) {{\n  %c = constant() {{value = f32[] [{k}]}}\n  %y = mul(%x, %c)\n  return(%y)\n}}\n').save(path)
        models.append(tccc.load(path))
        assert [m(x)[0] for m in models] == [1, 2, 3, 3][:len(models)]
    del models
    gc.collect()
    symbolic.save(path)
    assert np.array_equal(tccc.load(path)(x, x), 2 * x)


def test_strings_sequences_optionals():
    try:
        from onnx import TensorProto, helper
    except ImportError:
        skip("no onnx")
    t = helper.make_tensor_value_info
    g = helper.make_graph([helper.make_node("StringConcat", ["a", "b"], ["c"])], "s", [t("a", TensorProto.STRING, ["N"]), t("b", TensorProto.STRING, ["N"])],
                          [t("c", TensorProto.STRING, ["N"])])
    m = tccc.compile(helper.make_model(g, opset_imports=[helper.make_opsetid("", 20)], ir_version=9))
    assert m(np.array(["a", "\u00e9"]), ["x", "y"]).tolist() == ["ax", "\u00e9y"]
    raises(tccc.InputError, "expected strings", m, np.zeros(2), ["x", "y"])
    s = helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, None)
    g = helper.make_graph([helper.make_node("SequenceInsert", ["s", "x"], ["r"])], "s", [s, t("x", TensorProto.FLOAT, ["N"])],
                          [helper.make_tensor_sequence_value_info("r", TensorProto.FLOAT, None)])
    m = tccc.compile(helper.make_model(g, opset_imports=[helper.make_opsetid("", 20)], ir_version=9))
    x = np.ones(2, np.float32)
    r = m([x * 2, x * 3], x)
    assert [v.tolist() for v in r] == [[2, 2], [3, 3], [1, 1]]
    assert m([], x)[0].tolist() == [1, 1]
    raises(tccc.InputError, "expected a list or tuple", m, x, x)
    raises(tccc.InputError, "", m, [x.astype("f8")], x)
    o = helper.make_value_info("o", helper.make_optional_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, ["N"])))
    g = helper.make_graph([helper.make_node("OptionalHasElement", ["o"], ["h"])], "o", [o], [t("h", TensorProto.BOOL, [])])
    m = tccc.compile(helper.make_model(g, opset_imports=[helper.make_opsetid("", 18)], ir_version=9))
    assert m(x).item() is True and m(None).item() is False and m().item() is False


# -- Foreign memory ------------------------------------------------------------------------------------------------

class DLTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device", ctypes.c_int32 * 2), ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                ("lanes", ctypes.c_uint16), ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p), ("offset", ctypes.c_uint64)]


class DLManaged(ctypes.Structure):
    _fields_ = [("t", DLTensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class DLVersioned(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint32 * 2), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64), ("t", DLTensor)]


capsule_new = ctypes.pythonapi.PyCapsule_New
capsule_new.restype, capsule_new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
memory, dims = (ctypes.c_float * 64)(), (ctypes.c_int64 * 16)(*[3] + [1] * 15)
deleted = []
deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda p: deleted.append(p))


class Foreign:
    """An object whose DLPack tensor is what its maker says."""

    def __init__(self, name=b"dltensor", version=1, **fields):
        t = dict(data=ctypes.addressof(memory), device=(1, 0), ndim=1, code=2, bits=32, lanes=1, shape=ctypes.addressof(dims), strides=None, offset=0)
        t.update(fields)
        t["device"] = (ctypes.c_int32 * 2)(*t["device"])
        call = ctypes.cast(deleter, ctypes.c_void_p)
        self.m = DLManaged(DLTensor(**t), None, call) if name == b"dltensor" else DLVersioned((ctypes.c_uint32 * 2)(version, 0), None, call, 0, DLTensor(**t))
        self.name = name

    def __dlpack__(self, **how):
        return capsule_new(ctypes.addressof(self.m), self.name, None)


def test_foreign_tensors():
    y = np.zeros(3, np.float32)
    for name in b"dltensor", b"dltensor_versioned":
        deleted.clear()
        assert symbolic(Foreign(name), y).tolist() == [0, 0, 0] and len(deleted) == 1
        for bad, said in ((dict(device=(2, 0)), "device 2:0"), (dict(ndim=-1), "rank -1"), (dict(ndim=100), "rank 100"), (dict(shape=None), "no shape"), (dict(data=None), "no data"),
                          (dict(lanes=4), "none of ours"), (dict(code=77), "none of ours"), (dict(bits=31), "none of ours"), (dict(bits=64), "expected f32, got f64")):
            raises(tccc.InputError, said, symbolic, Foreign(name, **bad), y)
        assert len(deleted) == 10
    raises(tccc.InputError, "DLPack version 9", symbolic, Foreign(b"dltensor_versioned", 9), y)
    negative = (ctypes.c_int64 * 2)(-3, 1 << 62)
    raises(tccc.InputError, "no shape", symbolic, Foreign(shape=ctypes.addressof(negative)), y)
    raises(tccc.InputError, "no shape", symbolic, Foreign(shape=ctypes.addressof(negative) + 8), y)
    raises(tccc.InputError, "gave no DLPack capsule", symbolic, Foreign(b"other"), y)

    class Broken:
        def __dlpack__(self):
            raise KeyError("mine")
    raises(KeyError, "mine", symbolic, Broken(), y)


def test_damaged_files():
    """Artifacts are code and are trusted; models and checkpoints are not."""
    r = random.Random(int(os.environ.get("TCCC_TEST_SEED", "1")))
    with open(DIGITS, "rb") as f:
        whole = f.read()
    for _ in range(200 if os.environ.get("TCCC_TEST_FULL") else 12):
        data = bytearray(whole)
        for _ in range(r.randint(1, 8)):
            data[r.randrange(min(len(data), 400))] = r.randrange(256)
        if r.random() < 0.3:
            del data[r.randrange(len(data)):]
        try:
            tccc.compile(bytes(data), level=0, march="x86-64-v2")
        except tccc.InternalError:
            raise
        except tccc.Error:
            pass


# -- Training --------------------------------------------------------------------------------------------------------

def batches(n):
    r = np.random.default_rng(2)
    return [(r.random((8, 1, 28, 28), np.float32), r.integers(0, 10, 8)) for _ in range(n)]


def test_training():
    import json
    how = dict(loss="nll", optimizer="adamw:lr=1e-3")
    step = tccc.train(DIGITS, output=folder.name + "/step.so", **how)
    data = batches(4)
    losses = [step(x, y) for x, y in data]
    assert all(isinstance(v, float) for v in losses)
    np.savez(folder.name + "/data.npz", picture=np.concatenate([x for x, _ in data]), target=np.concatenate([y for _, y in data]))
    out = subprocess.run(["tccc-train", folder.name + "/step.so", "--data", folder.name + "/data.npz", "--batch-size", "8", "--no-shuffle", "--json", "--epochs", "1"],
                         check=True, capture_output=True, text=True).stdout
    told = [json.loads(line)["loss"] for line in out.splitlines() if '"step"' in line and '"loss"' in line]
    assert np.allclose(told, losses, rtol=1e-6), (told, losses)
    assert step.state("train.step") == 4 and np.isclose(step.lr, 1e-3)
    before = {n: v.copy() for n, v in step.state_dict(torch=False).items()}
    assert before and all(v.dtype == np.float32 for v in before.values())
    step.checkpoint(folder.name + "/c.safetensors", epoch=3)
    after = step(*data[0])
    step.restore(folder.name + "/c.safetensors")
    assert step(*data[0]) == after
    again = tccc.load_step(folder.name + "/step.so")
    again.load_state_dict(before)
    assert np.allclose(again.eval(*data[0])[0], tccc_eval(step, before, data[0]))
    assert again.predict(data[0][0]).shape == (8, 10)
    again.lr = 0.5
    assert again.lr == 0.5
    raises(tccc.InputError, "no parameter or buffer nothing", again.load_state_dict, {"nothing": 1})
    name = next(iter(before))
    raises(tccc.InputError, "", again.set_state, name, np.zeros(1, np.float32))
    raises(tccc.UsageError, "no state variable", again.set_state, "nothing", 1)
    raises(tccc.Error, "", again.restore, DIGITS)
    raises(tccc.InputError, "", again, data[0][0], np.full(8, 99))
    raises(tccc.Error, "", tccc.train, DIGITS, loss="no such loss")
    assert again.random(7, 3) == (7, 3) == again.random()
    again.reset()
    assert again.state("train.step") == 0


def tccc_eval(step, values, batch):
    step.load_state_dict(values)
    return step.eval(*batch)[0]


def test_world_of_one():
    w = tccc.world()
    assert (w.rank, w.size, w.local_rank) == (0, 1, 0) and tccc.world() is w
    x, y = np.arange(4, dtype=np.float32), np.zeros(4, np.float32)
    r = w.all_reduce([x], [y], "sum", 2.0)
    r.wait()
    assert y.tolist() == [0, 2, 4, 6] and r.test()
    w.broadcast([x]).wait()
    w.all_gather(x, y).wait()
    assert np.array_equal(x, y)
    w.barrier().wait()
    raises(tccc.UsageError, "no reduction 'mean'", w.all_reduce, [x], [y], "mean")
    raises(tccc.UsageError, "as many tensors", w.all_reduce, [x], [])
    raises(tccc.Error, "", w.all_reduce, [x], [np.zeros(3, np.float32)])
    raises(ValueError, "", w.broadcast, [np.broadcast_to(x, (2, 4))])


def test_killed():
    """A process that is killed leaves no folder behind, while it compiles as when it holds an artifact; its model runs until then."""
    program = """
import os, signal, sys, threading, numpy as np, tccc
m = tccc.compile(sys.argv[1])
assert os.path.exists(m.path) and m.path.startswith(os.environ["TMPDIR"])
if sys.argv[2] == "compiling":
    threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGKILL)).start()
    while True:
        tccc.compile(sys.argv[1])
os.kill(os.getpid(), signal.SIGKILL)
"""
    for when in "holding", "compiling":
        with tempfile.TemporaryDirectory() as t:
            done = subprocess.run([sys.executable, "-c", program, DIGITS, when], env=dict(os.environ, TMPDIR=t), capture_output=True, text=True)
            assert done.returncode == -9, done.stderr
            until = time.time() + 10
            while os.listdir(t) and time.time() < until:
                time.sleep(0.02)
            assert not os.listdir(t), os.listdir(t)


# -- Stubs -------------------------------------------------------------------------------------------------------------

def test_stubs():
    """Each name of a stub is there, each public name has a stub and a docstring."""
    from tccc import _compiler, _runtime
    place = os.path.dirname(tccc.__file__)
    for module, stub in (tccc, "__init__"), (_runtime, "_runtime"), (_compiler, "_compiler"):
        with open(f"{place}/{stub}.pyi") as f:
            tree = ast.parse(f.read())
        names = {n.name: n for n in tree.body if isinstance(n, (ast.ClassDef, ast.FunctionDef))}
        for name, node in names.items():
            found = getattr(module, name)
            assert found.__doc__, f"{stub}.{name} has no docstring"
            members = {n.name for n in getattr(node, "body", []) if isinstance(n, ast.FunctionDef)} if isinstance(node, ast.ClassDef) else set()
            for member in members:
                assert hasattr(found, member), f"{stub}.{name}.{member}"
                assert getattr(found, member).__doc__, f"{stub}.{name}.{member} has no docstring"
            if isinstance(node, ast.ClassDef) and module is _runtime:
                missing = {n for n in vars(found) if not n.startswith("__")} - members
                assert not missing, f"{name}: no stub of {missing}"
    with open(place + "/_options.pyi") as f:
        options = next(n for n in ast.parse(f.read()).body if isinstance(n, ast.ClassDef) and n.name == "Options")
    names = [n.target.id for n in options.body]
    assert len(names) > 40 and "level" in names and "zero" in names, names
    for name, node in zip(names, options.body):  # each is an argument, of that type
        what = {"str": "a str", "int": "an int", "Sequence[str]": "a list of str"}.get(ast.unparse(node.annotation)[9:-1])
        if what:
            raises(TypeError, f"{name}: expected {what}", _compiler.compile, "no.tcir", "no.so", {name: object()}, True)
    public = {n for n in tccc.__all__} - {"errors"}
    with open(place + "/__init__.pyi") as f:
        source = f.read()
    assert all(n in source for n in public)
    assert os.path.exists(place + "/py.typed")


if __name__ == "__main__":
    main(__name__)
