#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Cases of the importer that the official suite lacks, in its layout: what the shapes of real exports leave open until the run.

usage: more_cases.py DIR

Outputs are the ONNX reference evaluator's. A case is a function below; its name is the folder's.
"""
import os, sys
import numpy as np, onnx
from onnx import TensorProto as T, helper as h, numpy_helper
from onnx.reference import ReferenceEvaluator
from case_folder import write_case


def i64(*values):
    return np.array(values, np.int64)


def slice_by_sliced_offsets():
    """The number of starts is itself a slice's length; the product's first operand has 0 to 24 rows beside 1."""
    nodes = [("Slice", "offsets from to", "starts"), ("Slice", "x starts ends axes", "y")]
    return nodes, {"x": np.arange(24, dtype=np.float32).reshape(4, 6), "from": i64(1), "to": i64(2)}, \
        {"offsets": i64(0, 1, 2), "ends": i64(4), "axes": i64(0)}, {"y": ["rows", 6]}


def broadcast_counted_rows():
    """One of the elements that are not zero, times a row: the importer can't count them."""
    x = np.zeros((4, 6), np.float32)
    x[2, 3] = x[3, 5] = 1
    nodes = [("NonZero", "x", "where"), ("Transpose", "where", "rows"), ("Slice", "rows zero one", "first"), ("Mul", "first row", "y")]
    return nodes, {"x": x}, {"zero": i64(0), "one": i64(1), "row": i64(2, 3)}, {"y": ["n", 2]}


def shrink_integers():
    """Of integers: lambd and bias are floats all the same, what comes out is truncated."""
    return [("Shrink", "x", "y", {"bias": 0.5, "lambd": 1.25})], {"x": np.arange(-4, 5, dtype=np.int32)}, {}, {"y": [9]}


def compress_by_a_constant():
    """How many it keeps is known, and broadcasts: one column, and of all elements two."""
    nodes = [("Compress", "x one", "first", {"axis": 1}), ("Add", "first x", "y"), ("Compress", "x two", "z")]
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    return nodes, {"x": x}, {"one": np.array([False, True, False]), "two": np.array([True, False, False, False, False, True])}, \
        {"y": ["n", 4], "z": [2]}


def empty_of_unknown_size():
    """One dim is 0, the other is what the run finds out: no bytes, whatever it is."""
    return [("Compress", "x keep", "y", {"axis": 1}), ("Neg", "y", "z")], {"x": np.zeros((0, 4), np.float32), "keep": np.array([True, False, True, True])}, {}, \
        {"y": [0, "n"], "z": [0, "n"]}


def strings(*values):
    return np.array(values, object)


def branch(name, *values):
    """A graph without inputs whose output is a constant of strings."""
    value = numpy_helper.from_array(strings(*values), name)
    return h.make_graph([h.make_node("Constant", [], [name], value=value)], name, [], [h.make_tensor_value_info(name, T.STRING, [len(values)])])


def string_outputs():
    """Constants of strings: of a node and an initializer, both also outputs; an input handed on; none; a rank-0 one."""
    nodes = [("Constant", "", "y", {"value_strings": ["a", "h\u00e9llo", ""]}), ("Constant", "", "z", {"value_string": "one"}),
             ("Identity", "w", "u"), ("Identity", "x", "v"), ("Identity", "none", "n")]
    return nodes, {"x": strings("in", "put")}, {"w": strings("p", "q"), "none": strings()}, \
        {"y": [3], "z": [], "u": [2], "v": [2], "n": [0]}


def string_operands():
    nodes = [("StringConcat", "x w", "y"), ("StringConcat", "w w", "z"), ("Equal", "x w", "same"), ("Gather", "w i", "g"), ("Reshape", "w shape", "r"),
             ("SequenceConstruct", "w x w", "q"), ("ConcatFromSequence", "q", "s", {"axis": 0})]
    return nodes, {"x": strings("p", "r")}, {"w": strings("p", "q"), "i": i64(1, 1, 0), "shape": i64(2, 1)}, \
        {"y": [2], "z": [2], "same": [2], "g": [3], "r": [2, 1], "s": [6]}


def string_branches():
    branches = {"then_branch": branch("t", "x", "y"), "else_branch": branch("e", "u", "v")}
    longer = {"then_branch": branch("t", "x", "y", "z"), "else_branch": branch("e", "u")}
    return [("If", "c", "y", branches), ("If", "c", "z", longer)], {"c": np.array(False)}, {}, {"y": [2], "z": ["n"]}


def recurrent(op, gates, length, batch, hidden, **attrs):
    def case():
        rng = np.random.default_rng(3)
        draw = lambda *shape: rng.standard_normal(shape).astype(np.float32)
        directions = 2 if attrs.get("direction") == "bidirectional" else 1
        results = "y y_h y_c" if op == "LSTM" else "y y_h"
        outputs = {"y": [length, directions, batch, hidden], "y_h": [directions, batch, hidden], "y_c": [directions, batch, hidden]}
        return [(op, "x w r b", results, {"hidden_size": hidden, **attrs})], {"x": draw(length, batch, 3)}, \
            {"w": draw(directions, gates * hidden, 3), "r": draw(directions, gates * hidden, hidden), "b": draw(directions, 2 * gates * hidden)}, \
            {name: outputs[name] for name in results.split()}
    case.__name__ = f"{op.lower()}_{length}_{batch}_{hidden}_{attrs.get('direction', 'forward')}"
    return case


def draw(*shape, rng=np.random.default_rng(8)):
    return rng.standard_normal(shape).astype(np.float32)


def graph_of(nodes, inputs, outputs):
    """The body of a loop: operands and results as (name, element type)."""
    info = lambda values: [h.make_tensor_value_info(name, kind, None) for name, kind in values]
    return h.make_graph([h.make_node(op, a.split(), b.split(), **dict(*attrs)) for op, a, b, *attrs in nodes], "body", info(inputs), info(outputs))


def keras_lstm_loop():
    """As tf2onnx writes Keras's LSTM where it doesn't see one: TensorFlow's loop over a list of steps, with a condition and a counter of its own."""
    body = graph_of([("Gather", "steps time", "now"), ("MatMul", "now w", "a"), ("MatMul", "h r", "b"), ("Add", "a b", "ab"), ("Add", "ab bias", "gates"),
                     ("Split", "gates", "gi gf gc go", {"axis": 1, "num_outputs": 4}), ("Sigmoid", "gi", "i"), ("Sigmoid", "gf", "f"), ("Tanh", "gc", "g"), ("Sigmoid", "go", "o"),
                     ("Mul", "f c", "kept"), ("Mul", "i g", "new"), ("Add", "kept new", "c1"), ("Tanh", "c1", "ct"), ("Mul", "o ct", "h1"), ("Add", "time one", "next"),
                     ("Less", "next length", "more"), ("Identity", "h1", "step")],
                    [("k", T.INT64), ("go_on", T.BOOL), ("time", T.INT32), ("h", T.FLOAT), ("c", T.FLOAT)],
                    [("more", T.BOOL), ("next", T.INT32), ("h1", T.FLOAT), ("c1", T.FLOAT), ("step", T.FLOAT)])
    nodes = [("Transpose", "x", "steps", {"perm": [1, 0, 2]}), ("Shape", "steps", "sizes"), ("Gather", "sizes zero", "trips"), ("Gather", "sizes first", "rows"), ("Cast", "trips", "length", {"to": T.INT32}),
             ("Concat", "rows width", "state", {"axis": 0}), ("Expand", "nothing state", "zeros"), ("Less", "start length", "some"),
             ("Loop", "trips some start zeros zeros", "end h c all", {"body": body}),
             # the reference evaluator joins what is stacked; in truth this changes nothing
             ("Shape", "steps", "outer", {"end": 2}), ("Concat", "outer width", "stacked", {"axis": 0}), ("Reshape", "all stacked", "list"), ("Transpose", "list", "y", {"perm": [1, 0, 2]})]
    constants = {"w": draw(3, 16), "r": draw(4, 16), "bias": draw(16), "zero": np.int64(0), "first": i64(1), "width": i64(4), "nothing": np.float32(0), "one": np.int32(1), "start": np.int32(0)}
    return nodes, {"x": draw(2, 5, 3)}, constants, {"y": ["B", "T", 4], "h": ["B", 4], "c": ["B", 4]}


def keras_gru_scan():
    """Keras's GRU both ways (reset_after) as scans, the second from the end."""
    step = [("MatMul", "now {}w", "a0"), ("Add", "a0 {}b", "a"), ("MatMul", "h {}r", "b0"), ("Add", "b0 {}c", "b"), ("Split", "a", "az ar ah", {"axis": 1, "num_outputs": 3}),
            ("Split", "b", "bz br bh", {"axis": 1, "num_outputs": 3}), ("Add", "az bz", "sz"), ("Sigmoid", "sz", "z"), ("Add", "ar br", "sr"), ("Sigmoid", "sr", "g"), ("Mul", "g bh", "gh"),
            ("Add", "ah gh", "sh"), ("Tanh", "sh", "n"), ("Sub", "h n", "d"), ("Mul", "z d", "zd"), ("Add", "n zd", "h1"), ("Identity", "h1", "out")]
    nodes = [("Transpose", "x", "steps", {"perm": [1, 0, 2]}), ("Shape", "x", "rows", {"end": 1}), ("Concat", "rows width", "state", {"axis": 0}), ("Expand", "nothing state", "zeros")]
    constants = {"width": i64(4), "nothing": np.float32(0)}
    for k, back in ("f", 0), ("b", 1):
        constants |= {k + "w": draw(3, 12), k + "r": draw(4, 12), k + "b": draw(12), k + "c": draw(12)}
        body = graph_of([(op, a.format(k), *rest) for op, a, *rest in step], [("h", T.FLOAT), ("now", T.FLOAT)], [("h1", T.FLOAT), ("out", T.FLOAT)])
        nodes += [("Scan", f"zeros {'turned' if back else 'steps'}", f"{k}h {k}y", {"body": body, "num_scan_inputs": 1})]
        if not back:
            nodes += [("Slice", "steps last least first minus", "turned")]
    constants |= {"last": i64(-1), "least": i64(-2**63), "first": i64(0), "minus": i64(-1)}
    nodes += [("Slice", "by last least first minus", "again"), ("Concat", "fy again", "both", {"axis": 2}), ("Transpose", "both", "y", {"perm": [1, 0, 2]})]
    return nodes, {"x": draw(2, 5, 3)}, constants, {"y": ["B", "T", 8], "fh": ["B", 4], "bh": ["B", 4]}


def ranks_of_branches(flag):
    """Of two branches one puts an axis in between, as in scikit-learn's imputer by neighbours: what picks by order and by place takes either."""
    def case():
        either = {"then_branch": graph_of([("Unsqueeze", "x one", "t")], [], [("t", T.FLOAT)]), "else_branch": graph_of([("Identity", "x", "e")], [], [("e", T.FLOAT)])}
        nodes = [("If", "c", "z", either), ("TopK", "z two", "best at", {"largest": 0}), ("GatherND", "z rows", "some"), ("GatherElements", "some at", "taken", {"axis": 1 + flag}),
                 ("Shape", "taken", "sizes"), ("ConstantOfShape", "sizes", "ones", {"value": numpy_helper.from_array(np.float32([1]))}), ("Expand", "half sizes", "halves"), ("Equal", "taken best", "same"),
                 ("Where", "same ones halves", "weights"), ("ReduceSum", "weights last", "sums", {"keepdims": 0}), ("Reshape", "sums whole", "list"), ("ScatterND", "old rows sums" if not flag else "old rows list", "y")]
        constants = {"one": i64(1), "two": i64(2), "rows": np.array([[0], [1], [2]], np.int64), "half": np.float32(0.5), "last": i64(-1), "whole": i64(-1), "old": np.zeros(3, np.float32)}
        return nodes, {"c": np.array(flag), "x": draw(3, 5)}, constants, {"y": [3]}
    case.__name__ = f"ranks_of_branches_{'then' if flag else 'else'}"
    return case


def attention_mask_one_wide(opset, dims):
    """A mask one wide is broadcast in opset 23, as the operator's function there has it; from 24 on it is padded, as any that is shorter than the keys."""
    def case():
        return [("Attention", "q k v m", "y")], {"q": draw(1, 2, 3, 8), "k": draw(1, 2, 4, 8), "v": draw(1, 2, 4, 8), "m": draw(3, 1)}, {}, {"y": [1, 2, 3, 8]}

    def results(q, k, v, m):
        scores = q @ k.transpose(0, 1, 3, 2) / np.float32(8 ** 0.5) + (m if opset < 24 else np.pad(m, ((0, 0), (0, 3)), constant_values=-np.inf))
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        return [weights / weights.sum(-1, keepdims=True) @ v]
    case.__name__ = f"attention_mask_one_wide_{opset}{'_open' if dims else ''}"
    case.opset, case.results, case.dims = opset, results, dims
    return case


def write(folder, case):
    nodes, inputs, constants, outputs = case()
    info = lambda name, a, dims: h.make_tensor_value_info(name, h.np_dtype_to_tensor_dtype(a.dtype), dims)
    names = {name: None for name in outputs}
    made = [h.make_node(op, operands.split(), results.split(), **dict(*attrs)) for op, operands, results, *attrs in nodes]
    graph = lambda outs: h.make_graph(made, case.__name__, [info(k, v, getattr(case, "dims", {}).get(k, v.shape)) for k, v in inputs.items()], outs,
                                      [numpy_helper.from_array(v, k) for k, v in constants.items()])
    model = lambda outs: h.make_model(graph(outs), opset_imports=[h.make_opsetid("", getattr(case, "opset", 20))], ir_version=10 if hasattr(case, "opset") else 8)
    untyped = model([onnx.ValueInfoProto(name=name) for name in names])
    results = case.results(**inputs) if hasattr(case, "results") else ReferenceEvaluator(untyped).run(None, inputs)
    typed = model([info(name, r, outputs[name]) for name, r in zip(names, results)])
    write_case(os.path.join(folder, case.__name__), typed, [(inputs, dict(zip(names, results)))])


# Lengths, batches and states of one: what is a loop elsewhere is none here.
one_step = [recurrent(op, gates, length, batch, hidden, direction=direction) for op, gates in (("RNN", 1), ("GRU", 3), ("LSTM", 4))
            for direction in ("bidirectional", "reverse") for length, batch, hidden in ((1, 2, 3), (1, 1, 1), (2, 1, 1))]
masks = [attention_mask_one_wide(opset, dims) for opset in (23, 24) for dims in ({}, {"m": ["rows", "width"], "k": [1, 2, "keys", 8], "v": [1, 2, "keys", 8]})]

for case in (slice_by_sliced_offsets, broadcast_counted_rows, shrink_integers, compress_by_a_constant, empty_of_unknown_size, string_outputs, string_operands, string_branches, keras_lstm_loop, keras_gru_scan, ranks_of_branches(True), ranks_of_branches(False),
             *one_step, *masks):
    write(sys.argv[1], case)
