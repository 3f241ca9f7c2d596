#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Cases of ONNX's operators as their versions of opsets 1 to 6 define them, and some to 12, in the official suite's layout.

usage: old_cases.py DIR        writes them
       old_cases.py --check [OPS.DEF]    is each version of each operator either read, or refused with a reason that stands here?

Where an old version says something else than a later one, its form stands in OLD, and what it computes is worked out here from its text;
the others are called as version_cases.py calls them, and ONNX's reference evaluator computes them.
"""
import os, re, sys
import numpy as np, onnx
from onnx import TensorProto, defs, helper as h, numpy_helper
from onnx.reference import ReferenceEvaluator
from case_folder import write_case
from version_cases import FORMS, FIRST

rng = np.random.default_rng(5)
f = lambda *s: rng.standard_normal(s).astype(np.float32)
u = lambda *s: rng.uniform(0.1, 0.9, s).astype(np.float32)
flags = lambda *s: rng.integers(0, 2, s).astype(bool)
f32 = lambda *v: np.array(v, np.float32)

# label: (first version, last version, operands, attributes, results, whether dims may be open). A label's first word is the operator.
OLD = []


def old(label, since, until, operands, attributes, *results, open_dims=False):
    OLD.append((label, since, until, operands, attributes, results, open_dims))


def aligned():
    """Operand 1 has operand 0's dims, or with broadcast = 1 one element, or a run of them that begins at `axis` or ends with the last."""
    both = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide, "Pow": np.power, "Greater": np.greater, "Less": np.less, "Equal": np.equal,
            "And": np.logical_and, "Or": np.logical_or, "Xor": np.logical_xor}
    for op, compute in both.items():
        values = flags if op in ("And", "Or", "Xor") else (lambda *s: rng.integers(1, 4, s).astype(np.int64)) if op == "Equal" else u
        since = [s.since_version for s in defs.get_all_schemas_with_history() if s.name == op and s.domain == "" and s.since_version < FIRST]
        x = values(2, 3, 4, 5)
        for v in since:
            consumed = {"consumed_inputs": [0, 0]} if v == 1 and op in ("Add", "Sub", "Mul", "Div") else {}
            last = v if v == max(since) and v == 6 else (5 if len(since) > 1 else 6)
            y = values(2, 3, 4, 5)
            old(f"{op} same", v, last, [x, y], consumed, compute(x, y), open_dims=True)
            for label, shape, axis in (("scalar", (), None), ("one", (1, 1), None), ("last", (5,), None), ("last two", (4, 5), None), ("inner", (3, 4), 1), ("first", (2,), 0),
                                       ("last by number", (5,), -1)):
                y = values(*shape)
                at = len(x.shape) - len(shape) if axis is None else axis % 4
                spread = y.reshape(()) if y.size == 1 else y.reshape(shape + (1,) * (4 - at - len(shape)))
                attributes = {"broadcast": 1, **({} if axis is None else {"axis": axis}), **consumed}
                old(f"{op} {label}", v, last, [x, y], attributes, compute(x, spread), open_dims=label in ("inner", "last two"))


def normalised(x, scale, bias, mean, var, epsilon=1e-5):
    return (scale * (x - mean) / np.sqrt(var + np.float32(epsilon)) + bias).astype(np.float32)


def layers():
    x, per = f(2, 3, 4, 5), [u(3), f(3), f(3), u(3)]
    along = [p.reshape(3, 1, 1) for p in per]
    old("BatchNormalization", 1, 5, [x, *per], {"consumed_inputs": [0, 0, 0, 1, 1], "is_test": 1}, normalised(x, *along))
    old("BatchNormalization", 6, 6, [x, *per], {"is_test": 1, "epsilon": 1e-3}, normalised(x, *along, 1e-3))
    of_each = [u(3, 4, 5), f(3, 4, 5), f(3, 4, 5), u(3, 4, 5)]
    old("BatchNormalization of elements", 6, 8, [x, *of_each], {"spatial": 0}, normalised(x, *of_each))
    mean, var = x.mean((2, 3), keepdims=True), x.var((2, 3), keepdims=True)
    old("InstanceNormalization", 1, 5, [x, *per[:2]], {"consumed_inputs": [0, 0, 0]}, normalised(x, *along[:2], mean, var))
    for v in 1, 6:
        old("Dropout", v, 6 if v == 6 else 5, [x], {"is_test": 1, "ratio": 0.3, **({"consumed_inputs": [0]} if v == 1 else {})}, x)
    a, b, c = f(4, 3), f(5, 4), f(5)
    product = 0.5 * (a.T @ b.T)
    for v in 1, 6:
        old("Gemm of a row", v, 6 if v == 6 else 5, [a, b, c], {"transA": 1, "transB": 1, "alpha": 0.5, "beta": 2.0, "broadcast": 1}, product + 2 * c)
        whole = f(3, 5)
        old("Gemm of a matrix", v, 6 if v == 6 else 5, [a, b, whole], {"transA": 1, "transB": 1, "alpha": 0.5}, product + whole)
    for p in 2.0, 3.5:
        whole = (np.abs(x.astype(np.float64)) ** p).sum((2, 3), keepdims=True) ** (1 / p)
        old(f"GlobalLpPool {p}", 1, 1, [x], {"p": p}, whole.astype(np.float32))
        windows = np.lib.stride_tricks.sliding_window_view(np.abs(x.astype(np.float64)) ** p, (2, 3), (2, 3)).sum((-1, -2)) ** (1 / p)
        old(f"LpPool {p}", 1, 1, [x], {"p": p, "kernel_shape": [2, 3]}, windows.astype(np.float32))
    old("GlobalLpPool 3", 2, 6, [x], {"p": 3}, ((np.abs(x.astype(np.float64)) ** 3).sum((2, 3), keepdims=True) ** (1 / 3)).astype(np.float32))
    for axis in None, 1, 2, 0:  # what stands from `axis` on is one row
        at = 1 if axis is None else axis
        rows = x.reshape(int(np.prod(x.shape[:at])), -1).astype(np.float64)
        soft = np.exp(rows - rows.max(1, keepdims=True))
        soft /= soft.sum(1, keepdims=True)
        hard = np.arange(rows.shape[1]) == rows.argmax(1)[:, None]
        for op, y in (("Softmax", soft), ("LogSoftmax", np.log(soft)), ("Hardmax", hard)):
            old(f"{op} {'' if axis is None else axis}".strip(), 1, 6, [x], {} if axis is None else {"axis": axis}, y.reshape(x.shape).astype(np.float32))
    for p in 1, 2:
        old(f"LpNormalization {p}", 1, 6, [x], {"axis": 1, "p": p}, (x / (np.abs(x.astype(np.float64)) ** p).sum(1, keepdims=True) ** (1 / p)).astype(np.float32))
    across = np.pad(x.astype(np.float64) ** 2, ((0, 0), (1, 1), (0, 0), (0, 0)))
    across = across[:, :-2] + across[:, 1:-1] + across[:, 2:]
    old("LRN", 1, 6, [x], {"size": 3, "alpha": 0.1, "beta": 0.5, "bias": 2.0}, (x / np.sqrt(2 + 0.1 / 3 * across)).astype(np.float32))
    slope = f(3)
    for v in 1, 6:
        old("PRelu of channels", v, 6 if v == 6 else 5, [x, slope], {"consumed_inputs": [0, 0]} if v == 1 else {}, np.where(x < 0, x * slope.reshape(3, 1, 1), x))
    gamma, alpha = np.float32(1.0507), np.float32(1.6732)
    old("Selu", 1, 5, [x], {"consumed_inputs": [0]}, np.where(x > 0, gamma * x, gamma * (alpha * np.exp(x) - alpha)))
    for op, compute in (("Max", np.maximum), ("Min", np.minimum), ("Sum", np.add)):
        y = f(2, 3, 4, 5)
        old(op, 1, 5, [x, y], {"consumed_inputs": [0, 0]}, compute(x, y))


def moves():
    x = f(2, 3, 4)
    for name, dtype in (("FLOAT16", np.float16), ("INT32", np.int32), ("DOUBLE", np.float64), ("BOOL", bool)):
        old(f"Cast {name}", 1, 5, [9 * x], {"to": name}, (9 * x).astype(dtype))
    y = f(2, 2, 4)
    old("Concat", 1, 3, [x, y], {}, np.concatenate([x, y], 1))
    z = f(1, 3, 4)
    old("Concat along 0", 1, 3, [x, z], {"axis": 0}, np.concatenate([x, z], 0))
    old("Pad", 1, 1, [x], {"paddings": [0, 1, 2, 1, 0, 0], "value": 0.5}, np.pad(x, ((0, 1), (1, 0), (2, 0)), constant_values=np.float32(0.5)))
    old("Pad edge", 1, 1, [x], {"paddings": [0, 1, 0, 0, 2, 0], "mode": "edge"}, np.pad(x, ((0, 0), (1, 2), (0, 0)), "edge"))
    old("Pad reflect", 1, 1, [x], {"paddings": [0, 0, 1, 0, 1, 2], "mode": "reflect"}, np.pad(x, ((0, 0), (0, 1), (1, 2)), "reflect"))
    old("Split", 1, 1, [x], {"axis": 1, "split": [1, 2]}, x[:, :1], x[:, 1:])
    old("Split by values", 1, 1, [x, ("constant", f32(3, 1))], {"axis": 2}, x[:, :, :3], x[:, :, 3:])
    old("Split equal", 1, 1, [x], {"axis": 2}, x[:, :, :2], x[:, :, 2:])
    for axis in 0, 2:
        copies = [1, 1, 1]
        copies[axis] = 3
        old(f"Tile along {axis}", 1, 5, [x, ("constant", np.float32(3)), ("constant", np.float32(axis))], {}, np.tile(x, copies))
    old("Tile of the run", 1, 5, [x, f32(2), ("constant", f32(1))], {}, np.tile(x, (1, 2, 1)))
    old("Reshape", 1, 4, [x], {"shape": [0, -1], "consumed_inputs": [0]}, x.reshape(2, 12))
    picture = f(1, 2, 3, 4)
    rows, columns = np.arange(6) // 2, np.arange(12) // 3
    old("Upsample", 1, 6, [picture], {"height_scale": 2.0, "width_scale": 3.0}, picture[:, :, rows][:, :, :, columns])
    old("Upsample by parts", 1, 6, [picture], {"height_scale": 1.5, "width_scale": 1.3, "mode": "nearest"},
        picture[:, :, (np.arange(4) / 1.5).astype(int)][:, :, :, (np.arange(5) / 1.3).astype(int)])

    def line(x, n, scale, axis):
        at = np.arange(n) / scale
        low = np.minimum(at.astype(int), x.shape[axis] - 1)
        high = np.minimum(low + 1, x.shape[axis] - 1)
        part = (at - low).reshape([-1 if k == axis else 1 for k in range(4)])
        return x.take(low, axis) * (1 - part) + x.take(high, axis) * part

    old("Upsample bilinear", 1, 6, [picture], {"height_scale": 2.0, "width_scale": 2.0, "mode": "bilinear"}, line(line(picture, 6, 2, 2), 8, 2, 3).astype(np.float32))


def on_trial():
    """What ONNX dropped before its tables began, as ONNX Runtime has it."""
    x = f(2, 3, 5, 6)
    old("ImageScaler", 1, 8, [x], {"scale": 2.0, "bias": [1.0, -2.0, 3.0]}, x * 2 + f32(1, -2, 3).reshape(3, 1, 1))
    old("Affine", 1, 8, [x], {"alpha": 2.0, "beta": 1.0}, x * 2 + 1)
    old("ParametricSoftplus", 1, 8, [x], {"alpha": 2.0, "beta": 0.5}, 2 * np.log1p(np.exp(0.5 * x)))
    old("ScaledTanh", 1, 8, [x], {"alpha": 2.0, "beta": 0.5}, 2 * np.tanh(0.5 * x))
    old("Scale", 1, 8, [x], {"scale": 3.0}, x * 3)
    old("ThresholdedRelu", 1, 8, [x], {"alpha": 0.5}, np.where(x > 0.5, x, 0))
    old("Crop", 1, 8, [x], {"border": [1, 0, 1, 2]}, x[:, :, :3, 1:5])
    old("Crop to a size", 1, 8, [x], {"border": [1, 2, 0, 0], "scale": [2, 3]}, x[:, :, 2:4, 1:4])
    for across in 0, 1:
        axes = (1, 2, 3) if across else (2, 3)
        centred = x - x.mean(axes, keepdims=True)
        old(f"MeanVarianceNormalization {across}", 1, 8, [x], {"across_channels": across}, centred / x.std(axes, keepdims=True))
        old(f"MeanVarianceNormalization centred {across}", 1, 8, [x], {"across_channels": across, "normalize_variance": 0}, centred)


def graphs():
    """Operators that hold graphs or tensors, and two that a later one replaced, in versions of opsets 1 to 12 that nothing else here has."""
    number, vector = lambda name, dtype=TensorProto.FLOAT: h.make_tensor_value_info(name, dtype, []), lambda name: h.make_tensor_value_info(name, TensorProto.FLOAT, [3])
    x, y = f(3), f(3)
    branch = lambda op: h.make_graph([h.make_node(op, ["x1", "x2"], ["r"])], op, [], [vector("r")])
    for taken in True, False:
        node = {"then_branch": branch("Sub"), "else_branch": branch("Mul")}
        old(f"If {taken}", 1, 10, [np.array(taken), ("outer", x), ("outer", y)], node, x - y if taken else x * y)
    steps = h.make_graph([h.make_node("Add", ["v", "v"], ["w"]), h.make_node("Identity", ["go"], ["on"]), h.make_node("Neg", ["w"], ["seen"])], "steps",
                         [number("i", TensorProto.INT64), number("go", TensorProto.BOOL), vector("v")], [number("on", TensorProto.BOOL), vector("w"), vector("seen")])
    for count in 3, 0:
        old(f"Loop {count}", 1, 10, [np.int64(count), np.array(True), x], {"body": steps}, x * 2 ** count, np.array([-x * 2 ** (k + 1) for k in range(count)], np.float32).reshape(count, 3))
    body = h.make_graph([h.make_node("Add", ["sum", "row"], ["next"]), h.make_node("Mul", ["sum", "row"], ["part"])], "row", [vector("sum"), vector("row")], [vector("next"), vector("part")])
    rows, part = f(4, 3), [x]
    for row in rows[::-1]:
        part.append(part[-1] + row)
    old("Scan backwards", 11, 15, [x, rows], {"num_scan_inputs": 1, "body": body, "scan_input_directions": [1], "scan_output_axes": [-1]}, part[-1], np.stack([a * b for a, b in zip(part, rows[::-1])], 1))
    for v in 1, 9:
        old("Constant", v, v, [], {"value": numpy_helper.from_array(rows)}, rows)
    for word, given, value in (("float", 1.5, np.float32(1.5)), ("floats", [1.5, 2], f32(1.5, 2)), ("int", 7, np.int64(7)), ("ints", [7, -8], np.array([7, -8])), ("string", "a", np.array("a", object)),
                               ("strings", ["a", "b"], np.array(["a", "b"], object))):
        old(f"Constant {word}", 12, 12, [], {f"value_{word}": given}, value)
    few = h.make_sparse_tensor(numpy_helper.from_array(f32(3, -4), "v"), numpy_helper.from_array(np.array([1, 5])), [2, 3])
    for v in 11, 12:
        old("Constant of few", v, v, [], {"sparse_value": few}, f32(0, 3, 0, 0, 0, -4).reshape(2, 3))
    scattered = rows.copy()
    scattered[[1, 0, 3], [0, 1, 2]] = x
    old("Scatter", 11, 12, [rows, ("constant", np.array([[1, 0, 3]])), x[None]], {"axis": 0}, scattered)
    picture = f(1, 2, 2, 3)
    old("Upsample", 10, 12, [picture, ("constant", f32(1, 1, 2, 3))], {"mode": "nearest"}, picture.repeat(2, 2).repeat(3, 3))


aligned()
layers()
moves()
on_trial()
graphs()

# Versions of which there is no case here, and why. REFUSED: tccc doesn't read them.
ELSEWHERE = {**dict.fromkeys("RandomNormal RandomNormalLike RandomUniform RandomUniformLike".split(), "random numbers: tests/onnx/contrib_cases.py"),
             **dict.fromkeys("ConvTranspose MaxRoiPool".split(), "version 1 is opset 7's too, and the reference evaluator can't: version_cases.py")}
REFUSED = {}


def model_of(node, inputs, constants, results, opset, names=None):
    info = lambda name, value, dims: h.make_tensor_value_info(name, h.np_dtype_to_tensor_dtype(value.dtype), dims)
    ins = [info(k, v, [f"{k}{d}" for d in range(v.ndim)] if names else v.shape) for k, v in inputs.items()]
    if names:  # of dims that are the same
        ins[0] = info("x0", inputs["x0"], names)
        ins[1] = info("x1", inputs["x1"], names[-inputs["x1"].ndim:] if "axis" not in {a.name for a in node.attribute} else names[1:1 + inputs["x1"].ndim])
    outs = [info(k, np.asarray(v), None) for k, v in results.items()]
    graph = h.make_graph([node], "g", ins, outs, [numpy_helper.from_array(v, k) for k, v in constants.items()])
    model = h.make_model(graph, opset_imports=[h.make_opsetid("", opset)], ir_version=2 if opset == 1 else 3 if opset < 9 else 7)
    if opset == 1:             # as models of these IR versions have it: the first operator set, unsaid
        del model.opset_import[:]
    return model


def named(operands):
    inputs, constants, names = {}, {}, []
    for k, value in enumerate(operands):
        if isinstance(value, str):
            names.append("")
            continue
        names.append(f"x{k}")
        if isinstance(value, tuple) and value[0] == "outer":  # what a graph of the node reads
            inputs[names.pop()] = value[1]
            continue
        (constants if isinstance(value, tuple) else inputs)[names[-1]] = np.asarray(value[1] if isinstance(value, tuple) else value)
    return inputs, constants, names


def restated(out):
    for label, since, _, operands, attributes, values, open_dims in OLD:
        inputs, constants, names = named(operands)
        results = {f"y{k}": np.asarray(v) for k, v in enumerate(values)}
        node = h.make_node(label.split()[0], names, list(results), name=label, **attributes)
        folder = os.path.join(out, f"old_{label.replace(' ', '_')}_{since}")
        write_case(folder, model_of(node, inputs, constants, results, since), [(inputs, results)], "1e-4 1e-5")
        if open_dims:
            write_case(folder + "_open", model_of(node, inputs, constants, results, since, ["A", "B", "C", "D"]), [(inputs, results)], "1e-4 1e-5")


def unchanged():
    """(label, version, form) of the operators whose versions of opsets 1 to 6 are called as opset 7's is."""
    told = {(label.split()[0], v) for label, since, until, *_ in OLD for v in range(since, until + 1)}
    for s in sorted(defs.get_all_schemas_with_history(), key=lambda s: (s.name, s.since_version)):
        if s.domain or s.since_version >= FIRST or s.name in ELSEWHERE or (s.name, s.since_version) in told:
            continue
        for label, form in FORMS.items():
            if label.split()[0] == s.name:
                form = form(FIRST) if callable(form) else form
                if form and s.name in ("GRU", "LSTM", "RNN"):  # the reference evaluator takes all rows to be as long
                    form = (form[0][:4], *form[1:])
                yield label, s, form


def computed(node, inputs, constants, opset):
    results = {name: np.zeros(0, np.float32) for name in node.output}
    model = model_of(node, inputs, constants, results, opset)
    return dict(zip(results, ReferenceEvaluator(model).run(None, inputs)))


def as_ever(out):
    for label, schema, form in unchanged():
        if not form:
            continue
        operands, attributes, *count = form
        inputs, constants, names = named(operands)
        results = [f"y{k}" for k in range(min(count[0] if count else 1, schema.max_output))]
        node = h.make_node(label.split()[0], names, results, name=label, **{k: v for k, v in attributes.items() if k in schema.attributes})
        results = computed(node, inputs, constants, FIRST)
        if "consumed_inputs" in schema.attributes:
            node.attribute.append(h.make_attribute("consumed_inputs", [0] * len(names)))
        folder = os.path.join(out, f"old_{label.replace(' ', '_')}_{schema.since_version}")
        write_case(folder, model_of(node, inputs, constants, results, schema.since_version), [(inputs, results)], "1e-4 1e-5")


def check(table=None):
    """Each version of each operator that the onnx package knows has a row of ops.def or stands in REFUSED, and each old one a case."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    domains = {"AI": "", "ML": "ai.onnx.ml", "PREVIEW": "ai.onnx.preview", "TRAIN": "ai.onnx.preview.training"}
    rows, wrong = {}, []
    with open(table or os.path.join(root, "compiler/onnx/ops.def"), encoding="utf-8") as file:
        for domain, op, since, until in re.findall(r'^(?:ROW|MAP|ANY)\((\w+), "(\w+)", (\d+), (\d+)', file.read(), re.M):
            if domain in domains:
                rows.setdefault((domains[domain], op), []).append((int(since), int(until) or 1000))
    has_case = {(label.split()[0], v) for label, since, until, *_ in OLD for v in range(since, until + 1)} | {(s.name, s.since_version) for _, s, form in unchanged() if form}
    for s in defs.get_all_schemas_with_history():
        read = any(since <= s.since_version <= until for since, until in rows.get((s.domain, s.name), []))
        if read == ((s.domain, s.name, s.since_version) in REFUSED):
            wrong.append(f"{s.domain or 'ai.onnx'} {s.name} {s.since_version}: {'REFUSED says that it is not read' if read else 'no row of ops.def reads it'}")
        if not s.domain and s.since_version < FIRST and s.name not in ELSEWHERE and (s.name, s.since_version) not in has_case:
            wrong.append(f"{s.name} {s.since_version}: no case")
    print("\n".join(wrong), end="\n" if wrong else "")
    return bool(wrong)


if __name__ == "__main__":
    if sys.argv[1] == "--check":
        sys.exit(check(*sys.argv[2:]))
    restated(sys.argv[1])
    as_ever(sys.argv[1])
