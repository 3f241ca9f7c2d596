#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random ONNX graphs in the official suite's layout: all opsets from 7 on, all element types, sizes that the model leaves open.

usage: random_cases.py DIR [--seed FIRST] [--count N] [--nodes N] [--runtime]

A graph grows node by node. A node is an operator of the table below in the form that it has at the graph's opset, on operands whose types the
operator's schema allows there; it is evaluated at once, by ONNX's reference evaluator, and with --runtime by ONNX Runtime too. One that an
engine refuses, whose result is large or not finite, or on which the engines disagree, is dropped and another one is drawn. So the outputs are
known, and no size grows beyond control. Operators that jump (rounding, comparing, sorting) are given operands that were computed without
rounding only. Seeds are the cases' names: random_SEED.
"""
import argparse, collections, os, sys, warnings
import numpy as np, onnx
from onnx import TensorProto as T, helper as h, numpy_helper
from onnx.reference import ReferenceEvaluator

FLOATS = ("float", "double", "float16", "bfloat16")
INTS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
TYPES = {name: getattr(T, name.upper()) for name in FLOATS + INTS + ("bool",)}
NUMPY = {name: h.tensor_dtype_to_np_dtype(t) for name, t in TYPES.items()}
NAMES = {v: k for k, v in NUMPY.items()}
LATEST = min(onnx.defs.onnx_opset_version(), 26)

Value = collections.namedtuple("Value", "name data exact dims")      # exact: computed without rounding; dims: as declared


class Refused(Exception):
    pass


def wide(a):
    return a.astype(np.float64) if a.dtype.kind not in "fiub" or a.dtype.itemsize < 4 else a


def load_runtime():
    import onnxruntime
    onnxruntime.set_default_logger_severity(4)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return lambda model, feeds: onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"]).run(None, feeds)


class Graph:
    def __init__(self, seed, runtime):
        self.rng = np.random.default_rng(seed)
        self.opset = int(self.rng.integers(7, LATEST + 1))
        self.runtime = runtime
        self.pool, self.nodes, self.constants, self.inputs, self.names = [], [], {}, {}, 0
        self.ends = []         # values that no operator reads: their ranks are known only to the run

    # -- Choosing ----------------------------------------------------------------------------------------------------------------------

    def below(self, n):
        return int(self.rng.integers(n))

    def one(self, *choices):
        return choices[self.below(len(choices))]

    def name(self, prefix):
        self.names += 1
        return f"{prefix}{self.names}"

    def pick(self, test=lambda v: True):
        """A value, the newer ones more often."""
        fit = [v for v in self.pool if test(v)]
        if not fit:
            raise Refused
        return fit[-1 - self.below((len(fit) + 1) // 2)] if self.below(2) else fit[self.below(len(fit))]

    def pick_float(self, rank=0, exact=False):
        return self.pick(lambda v: NAMES[v.data.dtype] in FLOATS and v.data.ndim >= rank and (v.exact or not exact))

    def pick_exact(self, rank=0):
        return self.pick(lambda v: v.exact and v.data.dtype != bool and v.data.ndim >= rank)

    def like(self, v, shape=None):
        """An operand of v's type that broadcasts with it: from the pool, or a constant."""
        if shape is None:
            fit = [o for o in self.pool if o.data.dtype == v.data.dtype and broadcasts(o.data.shape, v.data.shape)]
            if len(fit) > 1 and self.below(3):
                return fit[self.below(len(fit))]
            keep = self.below(v.data.ndim + 1)
            shape = [n if self.below(2) else 1 for n in v.data.shape[keep:]]
        return self.constant(self.draw(NAMES[v.data.dtype], shape))

    def draw(self, dtype, shape):
        """Numbers on a grid of eighths; integers near 0."""
        if dtype in FLOATS:
            return (self.rng.integers(-24, 25, shape) / 8).astype(NUMPY[dtype])
        if dtype == "bool":
            return self.rng.integers(0, 2, shape).astype(bool)
        return np.asarray(self.rng.integers(0 if dtype[0] == "u" else -8, 9, shape)).astype(NUMPY[dtype])

    def constant(self, data, prefix="c"):
        data = np.asarray(data)
        name = self.name(prefix)
        self.constants[name] = data
        return Value(name, data, True, data.shape)

    def ints(self, *values):
        return self.constant(np.array(values, np.int64))

    def input(self, dtype, shape):
        name = self.name("x")
        dims = [n if self.below(4) else self.one(f"n{n}", self.name("d")) for n in shape]      # n3: 3 wherever it stands
        self.inputs[name] = self.draw(dtype, shape)
        self.pool.append(Value(name, self.inputs[name], True, tuple(dims)))

    # -- Nodes -------------------------------------------------------------------------------------------------------------------------

    def schema(self, op):
        try:
            return onnx.defs.get_schema(op, self.opset)
        except onnx.defs.SchemaError:
            raise Refused

    def allowed(self, schema, operands):
        """Do the operands' types fit the schema's?"""
        bound = {}
        for k, v in enumerate(operands):
            if v is None:
                continue
            formal = schema.inputs[min(k, len(schema.inputs) - 1)]
            what = f"tensor({NAMES[v.data.dtype]})"
            if what not in formal.types:
                return False
            hetero = k >= len(schema.inputs) - 1 and not schema.inputs[-1].is_homogeneous
            if not hetero and bound.setdefault(formal.type_str, what) != what and formal.type_str in [t.type_param_str for t in schema.type_constraints]:
                return False
        return True

    def node(self, op, *operands, outputs=1, exact=False, keep=None, **attrs):
        """Adds a node; its outputs that `keep` names (all) go into the pool."""
        schema = self.schema(op)
        if schema.deprecated or outputs > schema.max_output or not self.allowed(schema, operands) or not set(attrs) <= set(schema.attributes):
            raise Refused
        names = [self.name("v") for _ in range(outputs)]
        n = h.make_node(op, [v.name if v else "" for v in operands], names, name=names[0], **attrs)
        results = self.evaluate(n, [v for v in operands if v])
        values = [Value(name, r, exact, r.shape) for name, r in zip(names, results)]
        self.nodes.append(n)
        for k, v in enumerate(values):
            if keep is None or k in keep:
                self.pool.append(v)
        return values[0] if outputs == 1 else values

    def evaluate(self, n, operands):
        feeds = {v.name: v.data for v in operands}
        graph = h.make_graph([n], "g", [h.make_tensor_value_info(v.name, h.np_dtype_to_tensor_dtype(v.data.dtype), v.data.shape)
                                        for v in {v.name: v for v in operands}.values()], [onnx.ValueInfoProto(name=o) for o in n.output])
        model = h.make_model(graph, opset_imports=[h.make_opsetid("", self.opset)], ir_version=min(10, onnx.IR_VERSION))
        found = []
        if self.runtime and all(NAMES[a.dtype] != "bfloat16" for a in feeds.values()):
            try:
                found.append(self.runtime(model, feeds))
            except Exception:
                pass
        ran = bool(found)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found.append(ReferenceEvaluator(model).run(None, feeds))
        except Exception:
            pass
        if not ran and self.reference_errs(n, operands):
            raise Refused
        if not found or not all(plain(r) for results in found for r in results):
            raise Refused
        if len(found) == 2 and not all(agree(a, b) for a, b in zip(*found)):
            raise Refused
        return [np.asarray(r) for r in found[0]]

    def reference_errs(self, n, operands):
        """Where onnx's reference evaluator is known to be wrong, and is no oracle alone."""
        rank, attrs = operands[0].data.ndim if operands else 0, {a.name: a for a in n.attribute}
        if n.op_type in ("Softmax", "LogSoftmax"):
            return self.opset < 13 and attrs["axis"].i != rank - 1       # all axes from this one on together
        if n.op_type in ("LRN", "Hardmax") or (n.op_type == "BatchNormalization" and self.opset < 14) or (n.op_type == "MaxPool" and len(n.output) > 1):
            return True         # even sizes; more than one axis in front; statistics of the batch; indices in each channel for itself
        if n.op_type == "ConvTranspose":
            return attrs.get("group") is not None and attrs["group"].i > 1
        if n.op_type in ("MatMul", "Gemm", "Einsum") and operands[0].data.dtype.itemsize < 4 and NAMES[operands[0].data.dtype] in FLOATS:
            return max(operands[0].data.shape, default=0) > 8        # sums that it rounds at each step
        return n.op_type == "LpNormalization" and attrs["p"].i == 1 or n.op_type == "GlobalMaxPool" and rank != 4


def broadcasts(a, b):
    return all(m == n or m == 1 or n == 1 for m, n in zip(a[::-1], b[::-1]))


def plain(r):
    r = np.asarray(r)
    if r.dtype not in NAMES or r.size > 20000 or r.ndim > 6:
        return False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return r.size == 0 or r.dtype == bool or bool(np.isfinite(wide(r)).all() and np.abs(wide(r).astype(np.float64)).max() < 1000)


def agree(a, b):
    a, b = np.asarray(a), np.asarray(b)
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    loose = 1e-2 if a.dtype.itemsize < 4 and NAMES[a.dtype] in FLOATS else 1e-4 if NAMES[a.dtype] in FLOATS else 0
    return np.allclose(wide(a).astype(np.float64), wide(b).astype(np.float64), rtol=loose, atol=loose)


# -- Operators: each function adds a node or more, or raises Refused. -------------------------------------------------------------------

def small(v, most):
    if v.data.size and np.abs(wide(v.data).astype(np.float64)).max() > most:
        raise Refused
    return v


def unary(g):
    op, attrs = g.one(("Abs", {}), ("Neg", {}), ("Relu", {}), ("LeakyRelu", {"alpha": 0.25}), ("Elu", {"alpha": 1.5}), ("Selu", {}), ("Celu", {"alpha": 2.0}),
                      ("Sigmoid", {}), ("Tanh", {}), ("Exp", {}), ("Softplus", {}), ("Softsign", {}), ("HardSigmoid", {"alpha": 0.3}), ("HardSwish", {}),
                      ("Mish", {}), ("Gelu", {"approximate": "tanh"}), ("Gelu", {}), ("Erf", {}), ("Sin", {}), ("Cos", {}), ("Atan", {}), ("Asinh", {}),
                      ("Sinh", {}), ("Swish", {}), ("Identity", {}), ("Cosh", {}))
    exact = op in ("Abs", "Neg", "Relu", "LeakyRelu", "Identity")
    v = g.pick() if exact else small(g.pick_float(), 6)
    g.node(op, v, exact=exact and v.exact, **attrs)


def positive(g):
    v = g.pick_float()
    a = g.node("Add", g.node("Abs", v, keep=()), g.constant(np.asarray(1, v.data.dtype)), keep=())
    g.node(g.one("Log", "Sqrt", "Reciprocal", "Sqrt"), a)


def jumping(g):
    op = g.one("Floor", "Ceil", "Round", "Sign", "IsNaN", "IsInf", "ThresholdedRelu", "Hardmax", "Not", "BitwiseNot", "Shrink")
    v = g.pick(lambda v: v.exact)
    g.node(op, v, exact=True, **({"alpha": 0.5} if op == "ThresholdedRelu" else {"axis": g.below(max(1, v.data.ndim))} if op == "Hardmax" else
                                 {"bias": 0.5, "lambd": 1.0} if op == "Shrink" else {}))


def binary(g):
    op = g.one("Add", "Sub", "Mul", "Add", "Mul", "Min", "Max", "Div", "Pow", "PRelu", "Sum", "Mean")
    v = g.pick(lambda v: v.data.dtype != bool)
    w = g.like(v)
    floats = NAMES[v.data.dtype] in FLOATS
    if op == "Pow":
        return g.node(op, small(v, 5), g.constant(np.asarray(g.one(2, 3, 1), v.data.dtype)))
    if op == "Div":
        one = g.constant(np.ones([], v.data.dtype))
        w = g.node("Add", g.node("Abs", w, keep=()), one, keep=()) if floats else g.constant(np.asarray(1 + g.below(5), v.data.dtype))
    pair = (v, w) if op in ("PRelu", "Div") or g.below(2) else (w, v)
    g.node(op, *pair, exact=v.exact and w.exact and op in ("Min", "Max", "Add", "Sub") or not floats)


def logic(g):
    op = g.one("And", "Or", "Xor", "Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Mod", "BitShift")
    v = g.pick(lambda v: v.exact)
    attrs = {"direction": g.one("LEFT", "RIGHT")} if op == "BitShift" else {"fmod": 1} if op == "Mod" and NAMES[v.data.dtype] in FLOATS else {}
    w = g.like(v)
    if op in ("Mod", "BitShift"):
        w = g.constant(np.asarray(1 + g.below(3), v.data.dtype))
    if not w.exact:
        raise Refused
    g.node(op, v, w, exact=True, **attrs)


def select(g):
    v = g.pick()
    if g.below(2):
        c = g.constant(g.draw("bool", [n if g.below(2) else 1 for n in v.data.shape]))
        w = g.like(v)
        return g.node("Where", c, v, w, exact=v.exact and w.exact)
    low, high = -1.5 if NAMES[v.data.dtype] in FLOATS else 1, 2
    if g.opset < 11:
        return g.node("Clip", v, exact=v.exact, min=float(low), max=float(high))
    g.node("Clip", v, g.constant(np.asarray(low, v.data.dtype)) if g.below(4) else None, g.constant(np.asarray(high, v.data.dtype)), exact=v.exact)


def cast(g):
    v = g.pick()
    to = g.one(*TYPES) if g.below(2) else "float"
    if to not in FLOATS and (not v.exact or (to[0] == "u" and v.data.size and wide(v.data).min() < 0)):
        raise Refused
    g.node("Cast", v, exact=v.exact and to in ("float", "double", "int32", "int64", "bool"), to=TYPES[to])


def axes_of(g, rank, most=None):
    axes = [a for a in range(rank) if g.below(2)][:most] or [g.below(rank)]
    return [a - rank if g.below(3) == 0 else a for a in axes]


def reduce(g):
    op = g.one("Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "SumSquare", "LogSumExp", "LogSum")
    v = g.pick_float(1) if g.below(4) or op.startswith("Log") else g.pick(lambda v: v.data.ndim > 0 and v.data.dtype != bool)
    if op == "LogSum":
        v = g.node("Add", g.node("Abs", v, keep=()), g.constant(np.asarray(1, v.data.dtype)), keep=())
    axes, keep = axes_of(g, v.data.ndim), {} if g.below(2) else {"keepdims": g.below(2)}
    exact = v.exact and (op in ("Max", "Min") or NAMES[v.data.dtype] in INTS and op != "Mean")
    if g.below(4) == 0:
        return g.node("Reduce" + op, v, exact=exact, **keep)
    if g.opset >= (13 if op == "Sum" else 18):
        return g.node("Reduce" + op, v, g.ints(*axes), exact=exact, **keep)
    if g.opset < 11:
        axes = [a % v.data.ndim for a in axes]
    g.node("Reduce" + op, v, exact=exact, axes=axes, **keep)


def argument(g):
    v = g.pick_exact(1)
    last = {"select_last_index": g.below(2)} if g.opset >= 12 else {}
    g.node(g.one("ArgMax", "ArgMin"), v, exact=True, axis=g.below(v.data.ndim), keepdims=g.below(2), **last)


def softmax(g):
    v = small(g.pick_float(1), 50)
    g.node(g.one("Softmax", "LogSoftmax", "Softmax"), v, **({} if g.opset >= 13 and g.below(4) == 0 else {"axis": g.below(v.data.ndim)}))


def normalise(g):
    op = g.one("LayerNormalization", "RMSNormalization", "InstanceNormalization", "GroupNormalization", "BatchNormalization", "LRN", "LpNormalization",
               "MeanVarianceNormalization")
    v = g.pick_float(1 if op in ("LayerNormalization", "RMSNormalization", "LpNormalization") else 3)
    t, shape = NAMES[v.data.dtype], v.data.shape
    const = lambda *s: g.constant(g.draw(t, s))
    if op in ("LayerNormalization", "RMSNormalization"):
        axis = g.below(v.data.ndim)
        g.node(op, v, const(*shape[axis:]), *([const(*shape[axis:])] if op[0] == "L" and g.below(2) else []), axis=axis, epsilon=0.1)
    elif op == "InstanceNormalization":
        g.node(op, v, const(shape[1]), const(shape[1]), epsilon=0.1)
    elif op == "GroupNormalization":
        groups = g.one(1, shape[1], 2)
        n = groups if g.opset < 21 else shape[1]
        g.node(op, v, const(n), const(n), num_groups=groups, epsilon=0.1)
    elif op == "BatchNormalization":
        var = g.constant((np.abs(g.draw("float", [shape[1]])) + 0.5).astype(v.data.dtype))
        g.node(op, v, const(shape[1]), const(shape[1]), const(shape[1]), var, epsilon=0.1)
    elif op == "LRN":
        g.node(op, v, size=g.one(1, 3, 5), alpha=0.1, beta=0.75, bias=1.0)
    elif op == "LpNormalization":
        g.node(op, v, axis=g.below(v.data.ndim), p=g.one(1, 2))
    else:
        g.node(op, v, **({"axes": axes_of(g, v.data.ndim)} if v.data.ndim != 4 or g.below(2) else {}))


def matmul(g):
    v = small(g.pick_float(1), 60)
    t, k = v.data.dtype, v.data.shape[-1]
    fit = [w for w in g.pool if w.data.dtype == t and w.data.ndim >= 2 and w.data.shape[-2] == k and broadcasts(w.data.shape[:-2], v.data.shape[:-2])]
    w = fit[g.below(len(fit))] if fit and g.below(2) else g.constant((g.draw("float", (k, 1 + g.below(g.one(5, 40)))) / 4).astype(t))
    g.node("MatMul", v, w)


def gemm(g):
    v = small(g.pick_float(2), 60)
    if v.data.ndim != 2:
        v = g.node("Flatten", v, keep=(), exact=v.exact, axis=1)
    ta, tb, n = g.below(2), g.below(2), 1 + g.below(9)
    m, k = v.data.shape[::-1] if ta else v.data.shape
    const = lambda *s: g.constant((g.draw("float", s) / 4).astype(v.data.dtype))
    c = [const(*g.one((n,), (1, n), (m, 1), (m, n), ()))] if g.opset < 11 or g.below(3) else []
    g.node("Gemm", v, const(n, k) if tb else const(k, n), *c, transA=ta, transB=tb, alpha=g.one(1.0, 0.5), beta=g.one(1.0, 2.0))


def window(g, v):
    """Window attributes for the spatial axes of v; no window reaches beyond the padding."""
    n = v.data.ndim - 2
    if min(v.data.shape[2:]) < 4:
        raise Refused
    attrs = {"kernel_shape": [1 + g.below(3) for _ in range(n)]}
    attrs["strides"] = [1 + (k > 1 and g.below(3) == 0) for k in attrs["kernel_shape"]]
    if g.below(3):
        attrs["pads"] = [min(g.below(2), k - 1) for k in attrs["kernel_shape"]] * 2
    else:
        attrs["auto_pad"] = g.one("SAME_UPPER", "SAME_LOWER", "VALID")
    return attrs


def conv(g):
    v = small(g.pick_float(3), 60)
    op = g.one("Conv", "Conv", "ConvTranspose")
    c, t = v.data.shape[1], v.data.dtype
    attrs = window(g, v)
    attrs["group"] = group = c if g.below(3) == 0 else 2 if c % 2 == 0 and g.below(2) else 1
    per = 1 + g.below(3 if group > 1 else 9)
    if op == "ConvTranspose":
        attrs.pop("auto_pad", None)
        if g.below(3) == 0:
            attrs["output_padding"] = [s - 1 for s in attrs["strides"]]
    elif "auto_pad" not in attrs and g.below(4) == 0:
        attrs["dilations"] = [1 + g.below(2) for _ in attrs["kernel_shape"]]
    shape = (c, per) if op == "ConvTranspose" else (group * per, c // group)
    const = lambda *s: g.constant((g.draw("float", s) / 8).astype(t))
    g.node(op, v, const(*shape, *attrs["kernel_shape"]), *([const(group * per)] if g.below(2) else []), **attrs)


def pool(g):
    v = g.pick_float(3)
    op = g.one("MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool", "LpPool")
    if op.startswith("Global"):
        return g.node(op, v, exact=v.exact and op == "GlobalMaxPool")
    attrs = window(g, v)
    if op != "LpPool" and g.opset >= 11 and "auto_pad" not in attrs and g.below(3) == 0:
        attrs["ceil_mode"] = 1
    if op == "AveragePool" and g.below(2):
        attrs["count_include_pad"] = 1
    if op == "MaxPool" and v.exact and g.below(3) == 0:
        attrs.pop("auto_pad", None)
        return g.node(op, v, outputs=2, exact=True, **attrs)
    g.node(op, v, exact=v.exact and op == "MaxPool", **attrs)


def transpose(g):
    v = g.pick(lambda v: v.data.ndim > 1)
    g.node("Transpose", v, exact=v.exact, **({"perm": [int(k) for k in g.rng.permutation(v.data.ndim)]} if g.below(4) else {}))


def reshape(g):
    v = g.pick(lambda v: v.data.ndim > 0)
    shape = list(v.data.shape)
    what = g.below(5)
    if what == 0:
        return g.node("Flatten", v, exact=v.exact, axis=g.below(v.data.ndim + 1))
    if what == 1:
        at = g.below(v.data.ndim + 1)
        if g.opset < 13:
            return g.node("Unsqueeze", v, exact=v.exact, axes=[at])
        return g.node("Unsqueeze", v, g.ints(at), exact=v.exact)
    if what == 2 and 1 in shape:
        at = shape.index(1)
        if g.opset < 13:
            return g.node("Squeeze", v, exact=v.exact, axes=[at])
        return g.node("Squeeze", v, g.ints(at), exact=v.exact)
    if v.data.ndim > 1 and what == 3:       # two axes become one, the first is copied where it is another one
        at = g.below(v.data.ndim - 1)
        shape[at:at + 2] = [-1]
        if at:
            shape[0] = 0
    else:
        at = g.below(v.data.ndim)
        factor = g.one(2, 3)
        if shape[at] % factor or not shape[at]:
            raise Refused
        shape[at:at + 1] = [factor, -1]
    g.node("Reshape", v, g.ints(*shape), exact=v.exact)


def by_shape(g):
    """What exporters write for sizes that they leave open: Shape, Gather, Concat, Reshape or Expand."""
    v = g.pick(lambda v: v.data.ndim > 1)
    size = g.node("Shape", v, keep=() if g.below(3) else None, exact=True)
    first = g.node("Gather", size, g.ints(0), keep=(), exact=True)
    if g.below(2):
        whole = g.node("Concat", first, g.ints(-1), keep=(), axis=0)
        return g.node("Reshape", v, whole, exact=v.exact)
    filled = g.node("ConstantOfShape", size, keep=(), exact=True, value=numpy_helper.from_array(np.array([1], v.data.dtype)))
    g.node(g.one("Mul", "Add"), v, filled)


def piece(g):
    v = g.pick(lambda v: v.data.ndim > 0 and v.data.size)
    axis = g.below(v.data.ndim)
    n = v.data.shape[axis]
    if g.below(3) == 0:
        parts = 2 if n > 1 else 1
        sizes = [n // 2, n - n // 2] if parts == 2 else [n]
        if g.opset < 13:
            return g.node("Split", v, outputs=parts, exact=v.exact, axis=axis, split=sizes)
        if g.opset >= 18 and g.below(2):
            return g.node("Split", v, outputs=parts, exact=v.exact, axis=axis, num_outputs=parts)
        return g.node("Split", v, g.ints(*sizes), outputs=parts, exact=v.exact, axis=axis)
    start, step = g.below(n), g.one(1, 1, 2)
    end = g.one(n, 2 ** 31 - 1, -1 if start < n - 1 else n, min(n, start + 1 + g.below(3)))
    if g.opset < 10:
        return g.node("Slice", v, exact=v.exact, axes=[axis], starts=[start], ends=[end])
    if g.below(4) == 0:
        start, end, step = n - 1 - g.below(n), -2 ** 31, -g.one(1, 2)
    g.node("Slice", v, g.ints(start), g.ints(end), g.ints(axis), *([g.ints(step)] if step != 1 or g.below(2) else []), exact=v.exact)


def join(g):
    v = g.pick(lambda v: v.data.ndim > 0)
    axis = g.below(v.data.ndim)
    cut = lambda s: s[:axis] + s[axis + 1:]
    fit = [w for w in g.pool if w.data.dtype == v.data.dtype and w.data.ndim == v.data.ndim and cut(w.data.shape) == cut(v.data.shape)]
    operands = [v] + [fit[g.below(len(fit))] for _ in range(1 + g.below(2))]
    g.node("Concat", *operands, exact=all(w.exact for w in operands), axis=axis - (v.data.ndim if g.opset >= 11 and g.below(3) == 0 else 0))


def pad(g):
    v = g.pick(lambda v: v.data.ndim > 0)
    mode = g.one("constant", "edge", "reflect", "wrap")
    pads = [g.below(3) if g.below(2) and (mode == "constant" or n > 2) else 0 for n in v.data.shape * 2]
    if g.opset < 11:
        return g.node("Pad", v, exact=v.exact, mode=mode, pads=pads, **({"value": 1.5} if mode == "constant" else {}))
    g.node("Pad", v, g.ints(*pads), *([g.constant(np.asarray(1, v.data.dtype))] if g.below(2) and mode == "constant" else []), exact=v.exact, mode=mode)


def enlarge(g):
    v = g.pick()
    if g.below(2):
        return g.node("Tile", v, g.ints(*[1 + g.below(2) for _ in v.data.shape]), exact=v.exact)
    g.node("Expand", v, g.ints(*([1 + g.below(3)] * g.below(2) + [1 + g.below(4) if n == 1 else n for n in v.data.shape])), exact=v.exact)


def gather(g):
    v = g.pick(lambda v: v.data.ndim > 0 and v.data.size)
    axis = g.below(v.data.ndim)
    n = v.data.shape[axis]
    index = lambda shape: g.constant((g.rng.integers(0, n, shape) - (n if g.opset >= 11 and g.below(3) == 0 else 0)).astype(g.one(np.int64, np.int32)))
    what = g.below(5)
    if what < 2:
        return g.node("Gather", v, index(g.one((), (2,), (1, 3))), exact=v.exact, axis=axis)
    if what == 2:
        return g.node("GatherElements", v, index([m if k != axis else 2 for k, m in enumerate(v.data.shape)]), exact=v.exact, axis=axis)
    if what == 3:
        depth = 1 + g.below(v.data.ndim)
        where = np.stack([g.rng.integers(0, m, (2,)) for m in v.data.shape[:depth]], -1)
        return g.node("GatherND", v, g.constant(where.astype(np.int64)), exact=v.exact)
    g.node("Compress", v, g.constant(g.draw("bool", (n,))), exact=v.exact, axis=axis)


def scatter(g):
    v = g.pick(lambda v: v.data.ndim > 0 and v.data.size)
    axis, t = g.below(v.data.ndim), NAMES[v.data.dtype]
    if g.below(2):
        n = v.data.shape[axis]
        shape = [m if k != axis else min(2, n) for k, m in enumerate(v.data.shape)]
        index = np.argsort(g.rng.random(v.data.shape), axis)[tuple(slice(0, m) for m in shape)]
        extra = {"reduction": g.one("add", "mul", "none", "max", "min")} if g.opset >= 16 else {}
        return g.node("ScatterElements", v, g.constant(index.astype(np.int64)), g.constant(g.draw(t, shape)), exact=False, axis=axis, **extra)
    rows = g.rng.permutation(v.data.shape[0])[:2].reshape(-1, 1)
    g.node("ScatterND", v, g.constant(rows.astype(np.int64)), g.constant(g.draw(t, (len(rows),) + v.data.shape[1:])), exact=v.exact)


def order(g):
    v = g.pick_exact(1)
    axis = g.below(v.data.ndim)
    n = v.data.shape[axis]
    if not n:
        raise Refused
    k = 1 + g.below(n)
    more = {"largest": g.below(2)} if g.opset >= 11 else {}
    if g.opset < 10:
        return g.node("TopK", v, outputs=2, exact=True, axis=axis, k=k)
    g.node("TopK", v, g.ints(k), outputs=2, exact=True, axis=axis, **more)


def count(g):
    v = g.pick(lambda v: v.exact and v.data.ndim > 0)
    what = g.below(4)
    if what == 0:
        return g.node("NonZero", v, exact=True)
    if what == 1:
        return g.node("Size", v, exact=True)
    if what == 2 and v.data.dtype == np.int64:
        return g.node("OneHot", v, g.ints(4), g.constant(np.array([-1, 2], np.float32)), exact=True, axis=g.one(-1, 0))
    if v.data.ndim > 1:
        g.node("Trilu", v, exact=True, upper=g.below(2))


def scan(g):
    v = g.pick_float(1)
    g.node("CumSum", v, g.constant(np.asarray(g.below(v.data.ndim), np.int64)), exclusive=g.below(2), reverse=g.below(2))


def blocks(g):
    v = g.pick(lambda v: v.data.ndim == 4)
    if g.below(2):
        mode = {"mode": g.one("DCR", "CRD")} if g.opset >= 11 else {}
        return g.node("DepthToSpace", v, exact=v.exact, blocksize=2, **mode)
    g.node("SpaceToDepth", v, exact=v.exact, blocksize=g.one(1, 2))


def resize(g):
    v = g.pick_float(3)
    factors = g.constant(np.array([1, 1] + [g.one(1, 2, 0.5, 1.5) for _ in v.data.shape[2:]], np.float32))
    mode = g.one("nearest", "linear")
    if g.opset < 10:
        return g.node("Upsample", v, factors, mode=mode)
    if g.opset == 10:
        return g.node("Resize", v, factors, mode=mode)
    coordinate = g.one("half_pixel", "align_corners", "asymmetric")
    near = {"nearest_mode": g.one("floor", "round_prefer_floor", "ceil")} if mode == "nearest" else {}
    if mode == "nearest" and not v.exact and coordinate == "align_corners":
        raise Refused
    g.node("Resize", v, g.constant(np.zeros([0], np.float32)) if g.opset < 13 else None, factors, mode=mode, coordinate_transformation_mode=coordinate, **near)


def quantise(g):
    v = g.pick(lambda v: v.exact and v.data.dtype == np.float32)
    t = g.one(np.uint8, np.int8)
    scale, zero = g.constant(np.float32(0.125)), g.constant(np.asarray(g.below(5), t))
    q = g.node("QuantizeLinear", v, scale, zero, exact=True)
    if g.below(2) and q.data.ndim == 2:
        w = g.constant(g.draw(g.one("uint8", "int8"), (q.data.shape[1], 1 + g.below(9))))
        return g.node("MatMulInteger", q, w, zero, exact=True)
    g.node("DequantizeLinear", q, scale, zero, exact=True)


def recurrent(g):
    v = g.pick(lambda v: v.data.dtype == np.float32 and v.data.ndim == 3 and v.data.size)
    op, gates = g.one(("LSTM", 4), ("GRU", 3), ("RNN", 1))
    hidden, direction = 1 + g.below(5), g.one("forward", "reverse", "bidirectional")
    d = 2 if direction == "bidirectional" else 1
    const = lambda *s: g.constant((g.draw("float", s) / 8).astype(np.float32))
    more = [const(d, 2 * gates * hidden)] if g.below(2) else []
    after = {"linear_before_reset": g.below(2)} if op == "GRU" else {}
    g.node(op, small(v, 20), const(d, gates * hidden, v.data.shape[2]), const(d, gates * hidden, hidden), *more, outputs=2, hidden_size=hidden,
           direction=direction, **after)


def einsum(g):
    v = small(g.pick(lambda v: NAMES[v.data.dtype] in ("float", "double") and v.data.ndim == 3), 60)
    w = g.constant((g.draw("float", (v.data.shape[2], 3)) / 4).astype(v.data.dtype))
    g.node("Einsum", v, w, equation=g.one("abc,cd->abd", "abc,cd->bad", "abc,cd->ad", "abc,cd"))


def branch(g):
    """If: one branch a constant or a captured value, the other computed."""
    v = g.pick(lambda v: v.data.dtype == np.float32)
    c = g.constant(np.asarray(bool(g.below(2)))) if g.below(2) or not [w for w in g.pool if w.data.dtype == bool and w.data.size == 1] else \
        g.pick(lambda w: w.data.dtype == bool and w.data.size == 1)
    if c.data.ndim:
        c = g.node("Reshape", c, g.constant(np.zeros([0], np.int64)), keep=(), exact=True)
    then, other, name = g.name("t"), g.name("e"), g.name("v")
    info = lambda k: [h.make_tensor_value_info(k, T.FLOAT, None)]
    n = h.make_node("If", [c.name], [name], name=name,
                    then_branch=h.make_graph([h.make_node(g.one("Neg", "Tanh", "Identity"), [v.name], [then])], then, [], info(then)),
                    else_branch=h.make_graph([h.make_node("Mul", [v.name, v.name], [other])], other, [], info(other)))
    taken = {a.name: a.g for a in n.attribute}["then_branch" if c.data else "else_branch"].node[0]
    result = g.evaluate(taken, [v])[0]
    g.nodes.append(n)
    g.pool.append(Value(name, result, False, result.shape))


# -- Sizes that only the run knows, and what stands behind them --------------------------------------------------------------------------


def chosen_rows(g, v):
    """Some rows of v, by what its elements (or those of another value) are."""
    n = v.data.shape[0]
    keep = [m for m in g.pool if m.data.dtype == bool and m.data.shape == (n,)]
    if keep and g.below(2):
        mask = keep[g.below(len(keep))]
    else:
        x = g.pick(lambda w: w.exact and w.data.ndim > 0 and w.data.shape[0] == n and NAMES[w.data.dtype] in ("float", "double", "int32", "int64"))
        first = g.node("Gather", g.node("Reshape", x, g.ints(n, -1), keep=(), exact=True), g.constant(np.asarray(0, np.int64)), axis=1, keep=(), exact=True) \
            if x.data.ndim > 1 else x
        mask = g.node("Greater", first, g.constant(g.draw(NAMES[x.data.dtype], ())), exact=True)
    if g.below(3):
        return g.node("Compress", v, mask, axis=0, exact=v.exact)
    index = g.node("Squeeze", g.node("NonZero", mask, keep=(), exact=True), g.ints(0), keep=(), exact=True) if g.opset >= 13 else \
        g.node("Squeeze", g.node("NonZero", mask, keep=(), exact=True), axes=[0], keep=(), exact=True)
    return g.node("Gather", v, index, axis=0, exact=v.exact)


def chosen(g):
    chosen_rows(g, g.pick(lambda v: v.data.ndim > 0 and v.data.shape[0] > 0))


def count_of(g, most):
    """A number that the run counts: how many elements are not zero, at most so many."""
    x = g.pick(lambda v: v.exact and 0 < v.data.ndim and v.data.size < 100)      # of a scalar engines say another shape than the text
    n = g.node("Size", g.node("NonZero", x, keep=(), exact=True), keep=(), exact=True)
    return g.node("Min", n, g.constant(np.asarray(g.below(most + 1), np.int64)), keep=(), exact=True)


def counted(g):
    """A Range as long as the run says."""
    top = count_of(g, 9)
    r = g.node("Range", g.constant(np.asarray(0, np.int64)), g.node("Add", top, g.constant(np.asarray(g.below(4), np.int64)), keep=(), exact=True),
               g.constant(np.asarray(1, np.int64)), exact=True)
    if g.below(2):
        g.node("Cast", r, exact=True, to=T.FLOAT)


def pieces(g):
    """Pieces of such sizes, joined; whatever operator reads it is the next one's choice."""
    v = g.pick(lambda v: v.data.ndim > 0 and v.data.shape[0] > 0)
    parts = [chosen_rows(g, v) if g.below(3) else v for _ in range(2 + g.below(5))]
    c = g.node("Concat", *parts, axis=0, exact=v.exact)
    for _ in range(1 + g.below(3)):
        try:
            MAKERS[int(np.searchsorted(np.cumsum([w for _, w in MAKERS]), g.below(sum(w for _, w in MAKERS)), "right"))][0](g)
        except Refused:
            pass
    return c


def both_directions(g):
    """A recurrent layer over a length that the run knows, and what it gives joined again."""
    v = g.pick(lambda v: v.data.dtype == np.float32 and v.data.ndim == 2 and 0 < v.data.shape[0] < 12 and v.data.shape[1] > 0)
    rows = chosen_rows(g, small(v, 20))
    x = g.node("Unsqueeze", rows, g.ints(1), keep=()) if g.opset >= 13 else g.node("Unsqueeze", rows, axes=[1], keep=())
    g.pool.append(x)
    recurrent(g)


def sequence(g):
    """Values through a sequence."""
    v = g.pick(lambda v: v.data.ndim > 0 and v.data.shape[0] > 0 and v.data.dtype != bool)
    parts = [v] + [chosen_rows(g, v) if g.below(2) else v for _ in range(1 + g.below(3))]
    s, c, at = g.name("s"), g.name("v"), g.name("v")
    axis = g.one(0, -v.data.ndim)
    n = [h.make_node("SequenceConstruct", [p.name for p in parts], [s], name=s), h.make_node("ConcatFromSequence", [s], [c], name=c, axis=axis),
         h.make_node("SequenceAt", [s, g.ints(g.below(len(parts))).name], [at], name=at)]
    k = int(g.constants[n[2].input[1]][0])
    g.constants[n[2].input[1]] = np.asarray(k, np.int64)
    if g.opset < 11:
        raise Refused
    g.nodes.extend(n)
    both = np.concatenate([p.data for p in parts], 0)
    g.ends += [Value(c, both, v.exact, both.shape), Value(at, parts[k].data, v.exact, parts[k].data.shape)]


def collected(g):
    """A loop of as many iterations as the run says, with a condition or without; what it collects, joined with other rows."""
    v = g.pick(lambda v: v.data.dtype == np.float32 and 0 < v.data.ndim < 4)
    top = count_of(g, 6)
    op, names = g.one("Neg", "Identity", "Relu", "Tanh"), [g.name("b") for _ in range(6)]
    go = h.make_node("Identity", [names[1]], [names[3]]) if g.below(2) else h.make_node("Less", [names[0], names[0]], [names[3]])
    body = h.make_graph([go, h.make_node(op, [names[2]], [names[4]]), h.make_node("Abs", [names[4]], [names[5]])], names[0] + "body",
                        [h.make_tensor_value_info(names[0], T.INT64, []), h.make_tensor_value_info(names[1], T.BOOL, []), h.make_tensor_value_info(names[2], T.FLOAT, None)],
                        [h.make_tensor_value_info(names[3], T.BOOL, [])] + [h.make_tensor_value_info(k, T.FLOAT, None) for k in names[4:]])
    last, rows, made, all_rows = v.data, [], [g.name("v"), g.name("v")], None
    for i in range(max(0, int(top.data))):
        last = {"Neg": lambda a: -a, "Identity": lambda a: a, "Relu": lambda a: np.maximum(a, 0), "Tanh": np.tanh}[op](last)
        rows.append(np.abs(last))
        if go.op_type == "Less":
            break
    if not rows:
        raise Refused
    all_rows = np.stack(rows).astype(np.float32)
    g.nodes.append(h.make_node("Loop", [top.name, "", v.name], made, name=made[0], body=body))
    g.pool += [Value(made[0], last, False, last.shape), Value(made[1], all_rows, False, all_rows.shape)]
    if g.below(3):
        w = g.constant(g.draw("float", (1,) + v.data.shape))
        all_value = g.pool[-1]
        g.node("Concat", *((all_value, w) if g.below(2) else (w, all_value, all_value)), axis=0)


MAKERS = ((unary, 6), (positive, 2), (jumping, 2), (binary, 8), (logic, 3), (select, 2), (cast, 3), (reduce, 5), (argument, 1), (softmax, 2), (normalise, 3),
          (matmul, 4), (gemm, 2), (conv, 4), (pool, 3), (transpose, 3), (reshape, 4), (by_shape, 2), (piece, 3), (join, 2), (pad, 2), (enlarge, 2), (gather, 3),
          (scatter, 1), (order, 1), (count, 1), (scan, 1), (blocks, 1), (resize, 2), (quantise, 1), (recurrent, 1), (einsum, 1), (branch, 1), (chosen, 3), (counted, 1), (pieces, 3), (both_directions, 1), (sequence, 1),
          (collected, 2))


# -- Cases -------------------------------------------------------------------------------------------------------------------------------

def build(seed, nodes, runtime):
    g = Graph(seed, runtime)
    sizes = (1, 2, 3, 4, 5, 6, 8)
    for k in range(1 + g.below(3)):
        dtype = "float" if k == 0 or g.below(3) == 0 else g.one(*TYPES)
        g.input(dtype, [g.one(*sizes) for _ in range(2 + g.below(3) if k == 0 else g.below(4))])
    total = np.cumsum([w for _, w in MAKERS])
    tries = 0
    while len(g.nodes) < nodes and tries < 20 * nodes:
        tries += 1
        before = len(g.nodes), len(g.pool)
        try:
            MAKERS[int(np.searchsorted(total, g.below(int(total[-1])), "right"))][0](g)
        except Refused:
            del g.nodes[before[0]:], g.pool[before[1]:]
    used = {name for n in g.nodes for name in n.input} | \
        {name for n in g.nodes for a in n.attribute if a.type == onnx.AttributeProto.GRAPH for m in a.g.node for name in m.input}
    made = {name for n in g.nodes for name in n.output}
    outputs = [v for v in g.pool if v.name in made and (v.name not in used or g.below(12) == 0)] + [v for v in g.ends if v.name in made]
    if not outputs:
        return None
    info = lambda v: h.make_tensor_value_info(v.name, h.np_dtype_to_tensor_dtype(v.data.dtype), v.dims)
    graph = h.make_graph(g.nodes, f"random_{seed}", [info(v) for v in g.pool if v.name in g.inputs],
                         [h.make_tensor_value_info(v.name, h.np_dtype_to_tensor_dtype(v.data.dtype), None) for v in outputs],
                         [numpy_helper.from_array(a, k) for k, a in g.constants.items() if k in used])
    model = h.make_model(graph, opset_imports=[h.make_opsetid("", g.opset)], ir_version=min(10, onnx.IR_VERSION))
    return model, g.inputs, outputs


def tolerance(model, outputs):
    """Of the narrowest float type on the way."""
    kinds = {NAMES.get(np.dtype(numpy_helper.to_array(i).dtype)) for i in model.graph.initializer}
    kinds |= {NAMES[v.data.dtype] for v in outputs} | {NAMES[h.tensor_dtype_to_np_dtype(i.type.tensor_type.elem_type)] for i in model.graph.input}
    casts = {h.tensor_dtype_to_np_dtype(a.i) for n in model.graph.node if n.op_type == "Cast" for a in n.attribute}
    kinds |= {NAMES[c] for c in casts}
    return "6e-2 6e-2" if "bfloat16" in kinds else "1e-2 1e-2" if "float16" in kinds else "1e-3 1e-4"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("dir")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--nodes", type=int, default=8)
    parser.add_argument("--runtime", action="store_true")
    o = parser.parse_args()
    runtime = load_runtime() if o.runtime else None
    for seed in range(o.seed, o.seed + o.count):
        made = build(seed, o.nodes, runtime)
        if not made:
            continue
        model, inputs, outputs = made
        folder = os.path.join(o.dir, f"random_{seed}")
        os.makedirs(os.path.join(folder, "test_data_set_0"), exist_ok=True)
        onnx.save(model, os.path.join(folder, "model.onnx"))
        for kind, named in (("input", [(i.name, inputs[i.name]) for i in model.graph.input]), ("output", [(v.name, v.data) for v in outputs])):
            for k, (name, value) in enumerate(named):
                with open(os.path.join(folder, "test_data_set_0", f"{kind}_{k}.pb"), "wb") as f:
                    f.write(numpy_helper.from_array(value, name).SerializeToString())
        with open(os.path.join(folder, "tol"), "w") as f:
            f.write(tolerance(model, outputs) + "\n")


if __name__ == "__main__":
    main()
