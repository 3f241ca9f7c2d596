#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Models that depend on the sizes of their inputs, with inputs and the outputs that NumPy computes.

usage: make_models.py DIR     writes DIR/NAME/model.onnx, test_data_set_K, and `flags` (options to compile with, one a line).
A model is a function with the decorator case(): it returns the ONNX model, and a function of NumPy arrays that does the same.
"""
import os
import sys

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper as nh

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "onnx"))
from case_folder import write_case  # noqa: E402

CASES = []


def case(*sizes, flags=()):
    """sizes: of the data sets; a shape for each input, or arrays."""
    def register(f):
        CASES.append((f.__name__, f, sizes, flags))
        return f
    return register


def values(i, shape):
    """Different everywhere, fixed, no zeros; an array is itself."""
    if isinstance(shape, np.ndarray):
        return shape
    n = int(np.prod(shape))
    return (np.sin(np.arange(n) * 0.7 + i) * 2 + 0.1 * (i + 1)).astype(np.float32).reshape(shape)


def model(nodes, inputs, outputs, inits=None, opset=17):
    """inputs: {name: dims} of f32; outputs: {name: dims or None}."""
    graph = h.make_graph(nodes, "g", [h.make_tensor_value_info(n, T.FLOAT, d) for n, d in inputs.items()],
                         [h.make_tensor_value_info(n, T.FLOAT, d) for n, d in outputs.items()],
                         [nh.from_array(np.asarray(a), n) for n, a in (inits or {}).items()])
    m = h.make_model(graph, opset_imports=[h.make_opsetid("", opset)])
    m.ir_version = 8
    return m


def size_is(x, axis, value, out, op="Equal"):
    """Nodes: `out` is true where x.shape[axis] is `value`."""
    return [h.make_node("Shape", [x], [out + "_shape"], start=axis, end=axis + 1),
            h.make_node("Constant", [], [out + "_value"], value=nh.from_array(np.array([value], np.int64))),
            h.make_node("Squeeze", [out + "_shape"], [out + "_size"]),
            h.make_node("Squeeze", [out + "_value"], [out + "_number"]),
            h.make_node(op, [out + "_size", out + "_number"], [out])]


def branch(nodes, out):
    return h.make_graph(nodes, "b", [], [h.make_tensor_value_info(out, T.FLOAT, None)])


def squeeze_if(x, axis, cond, out, tag):
    """What torch.jit writes for x.squeeze(axis): an If around it."""
    return h.make_node("If", [cond], [out],
                       then_branch=branch([h.make_node("Constant", [], [tag + "_axes"], value=nh.from_array(np.array([axis]))),
                                           h.make_node("Squeeze", [x, tag + "_axes"], [tag + "_then"])], tag + "_then"),
                       else_branch=branch([h.make_node("Identity", [x], [tag + "_else"])], tag + "_else"))


W = values(9, (4, 6))

@case(((1, 1, 1),), ((2, 1, 2),), ((1, 1, 9),), ((3, 1, 8),))
def size_of_a_window():
    """What exporters write of a convolution's size: (n - 1) / 2 + 1, whose division would round the other way for no elements."""
    w = values(2, (5, 1, 3))
    nodes = [h.make_node("Conv", ["x", "w"], ["c"], strides=[2], pads=[1, 1]),
             h.make_node("Shape", ["x"], ["n"], start=2, end=3), h.make_node("Shape", ["x"], ["b"], start=0, end=1),
             h.make_node("Add", ["n", "less"], ["m"]), h.make_node("Div", ["m", "two"], ["d"]), h.make_node("Add", ["d", "one"], ["size"]),
             h.make_node("Concat", ["b", "size", "five"], ["shape"], axis=0),
             h.make_node("Transpose", ["c"], ["t"], perm=[0, 2, 1]), h.make_node("Reshape", ["t", "shape"], ["r"]), h.make_node("MatMul", ["r", "v"], ["y"])]
    v = values(3, (5, 4))

    def expected(x):
        padded = np.pad(x, ((0, 0), (0, 0), (1, 1)))
        c = np.stack([padded[:, 0, 2 * k:2 * k + 3] @ w[:, 0].T for k in range((x.shape[2] - 1) // 2 + 1)], 1)
        return [c @ v]
    return model(nodes, {"x": ["B", 1, "N"]}, {"y": None}, {"w": w, "v": v, "less": np.array([-1]), "two": np.array([2]), "one": np.array([1]), "five": np.array([5])}), expected


@case(((1, 2),), ((4, 2),), ((5, 2),), ((0, 2),))
def division_of_no_size():
    """(n - 1) / 2 + 1 is 1 where n is 0: integers are divided towards zero."""
    nodes = [h.make_node("Shape", ["x"], ["n"], start=0, end=1), h.make_node("Add", ["n", "less"], ["m"]), h.make_node("Div", ["m", "two"], ["d"]),
             h.make_node("Add", ["d", "one"], ["size"]), h.make_node("Concat", ["size", "two"], ["shape"], axis=0),
             h.make_node("ReduceSum", ["x", "zero"], ["s"], keepdims=1), h.make_node("Expand", ["s", "shape"], ["y"])]
    return model(nodes, {"x": ["N", 2]}, {"y": None}, {"less": np.array([-1]), "two": np.array([2]), "one": np.array([1]), "zero": np.array([0])}), \
        lambda x: [np.broadcast_to(x.sum(0, keepdims=True), (1 if len(x) == 0 else (len(x) - 1) // 2 + 1, 2))]


# -- Squeeze, If ------------------------------------------------------------------------------------------------------------------


@case(((3, 1, 4),), ((1, 1, 4),), ((0, 1, 4),))
def squeeze_without_axes():
    return (model([h.make_node("Squeeze", ["x"], ["s"]), h.make_node("Relu", ["s"], ["y"])], {"x": ["N", 1, 4]}, {"y": None}),
            lambda x: [np.maximum(x.squeeze(), 0)])


@case(((3, 5, 4),), ((1, 5, 4),), ((3, 1, 4),), ((1, 1, 4),))
def squeeze_two_dims():
    return (model([h.make_node("Squeeze", ["x"], ["s"]), h.make_node("Neg", ["s"], ["y"])], {"x": ["N", "M", 4]}, {"y": None}),
            lambda x: [-x.squeeze()])


@case(((3, 4),), ((1, 4),))
def squeeze_in_if():
    return (model(size_is("x", 0, 1, "c") + [squeeze_if("x", 0, "c", "s", "a"), h.make_node("Neg", ["s"], ["y"])],
                  {"x": ["N", 4]}, {"y": None}), lambda x: [-(x[0] if len(x) == 1 else x)])


@case(((3, 4),), ((1, 4),), ((2, 4),))
def ranks_join_again():
    nodes = size_is("x", 0, 1, "c") + [
        h.make_node("Relu", ["x"], ["r"]), squeeze_if("r", 0, "c", "s", "a"),
        h.make_node("Exp", ["s"], ["e"]), h.make_node("Reshape", ["e", "shape"], ["f"]), h.make_node("MatMul", ["f", "w"], ["y"])]
    return (model(nodes, {"x": ["N", 4]}, {"y": ["N", 6]}, {"shape": np.array([-1, 4]), "w": W}),
            lambda x: [np.exp(np.maximum(x, 0)) @ W])


@case(((3, 2),), ((1, 2),), ((1, 5),), ((4, 5),), ((1, 3),))
def conditions_joined():
    nodes = size_is("x", 0, 1, "one") + size_is("x", 1, 3, "large", "GreaterOrEqual") + [
        h.make_node("And", ["one", "large"], ["both"]), h.make_node("Not", ["both"], ["c"]),
        h.make_node("If", ["c"], ["y"], then_branch=branch([h.make_node("Abs", ["x"], ["t"])], "t"),
                    else_branch=branch([h.make_node("ReduceSum", ["x", "axes"], ["e"], keepdims=0)], "e"))]
    return (model(nodes, {"x": ["N", "M"]}, {"y": None}, {"axes": np.array([0])}),
            lambda x: [x.sum(0) if x.shape[0] == 1 and x.shape[1] >= 3 else np.abs(x)])


@case(((1, 3, 4),), ((2, 3, 4),), ((1, 1, 4),), ((2, 1, 4),))
def squeeze_in_squeeze():
    nodes = size_is("x", 0, 1, "c") + size_is("x", 1, 1, "d") + [
        squeeze_if("x", 1, "d", "s", "p"), squeeze_if("s", 0, "c", "t", "q"), h.make_node("Sigmoid", ["t"], ["y"])]
    return (model(nodes, {"x": ["N", "M", 4]}, {"y": None}),
            lambda x: [1 / (1 + np.exp(-x.reshape([d for k, d in enumerate(x.shape) if k == 2 or d != 1])))])


@case(((3, 4),), ((1, 4),))
def shape_chosen():
    def shape(tag, *dims):
        return h.make_graph([h.make_node("Constant", [], [tag], value=nh.from_array(np.array(dims)))], tag, [],
                            [h.make_tensor_value_info(tag, T.INT64, None)])
    nodes = size_is("x", 0, 1, "c") + [h.make_node("If", ["c"], ["s"], then_branch=shape("one", 2, 2), else_branch=shape("more", -1, 2, 2)),
                                       h.make_node("Reshape", ["x", "s"], ["r"]), h.make_node("Sin", ["r"], ["y"])]
    return (model(nodes, {"x": ["N", 4]}, {"y": None}), lambda x: [np.sin(x.reshape((2, 2) if len(x) == 1 else (-1, 2, 2)))])


@case(((1, 40),), ((2, 64),), ((1, 41),))
def one_size_in_two_forms():
    """As exporters write positions: n // 20 - 1 by a convolution, max(n // 20 - 1, 0) by a range; no version comes of it."""
    kernel = np.ones((1, 1, 40), np.float32)
    nodes = [h.make_node("Unsqueeze", ["x", "one"], ["x3"]), h.make_node("Conv", ["x3", "k"], ["c"], strides=[20]),
             h.make_node("Shape", ["x"], ["n"], start=1, end=2), h.make_node("Div", ["n", "twenty"], ["d"]),
             h.make_node("Sub", ["d", "one"], ["m"]), h.make_node("Squeeze", ["m"], ["ms"]),
             h.make_node("Range", ["zero", "ms", "step"], ["r"]), h.make_node("Cast", ["r"], ["rf"], to=T.FLOAT),
             h.make_node("Add", ["c", "rf"], ["y"])]

    def run(x):
        m = x.shape[1] // 20 - 1
        return [np.stack([x[:, 20 * i:20 * i + 40].sum(1) for i in range(m)], 1)[:, None] + np.arange(m, dtype=np.float32)]
    return model(nodes, {"x": ["N", "T"]}, {"y": None}, {"k": kernel, "one": np.array([1]), "twenty": np.array([20]),
                                                         "zero": np.array(0), "step": np.array(1)}), run


# -- Sizes that broadcast ------------------------------------------------------------------------------------------------------------


@case(((3, 4), (3, 4)), ((1, 4), (3, 4)), ((3, 4), (1, 4)), ((1, 4), (1, 4)), ((0, 4), (1, 4)), ((1, 4), (0, 4)))
def broadcast_rows():
    nodes = [h.make_node("Add", ["x", "y"], ["a"]), h.make_node("Mul", ["a", "x"], ["b"]), h.make_node("MatMul", ["b", "w"], ["c"])]
    return model(nodes, {"x": ["N", 4], "y": ["M", 4]}, {"c": None}, {"w": W}), lambda x, y: [((x + y) * x) @ W]


@case(((2, 33), (2, 33)), ((2, 1), (2, 33)), ((2, 33), (2, 1)))
def broadcast_columns():
    nodes = [h.make_node("Sub", ["x", "y"], ["a"]), h.make_node("Softmax", ["a"], ["s"], axis=1),
             h.make_node("Greater", ["x", "y"], ["g"]), h.make_node("Where", ["g", "s", "y"], ["b"])]

    def run(x, y):
        e = np.exp(x - y - (x - y).max(1, keepdims=True))
        return [np.where(x > y, e / e.sum(1, keepdims=True), y)]
    return model(nodes, {"x": [2, "N"], "y": [2, "M"]}, {"b": None}), run


def marks(*at):
    a = np.zeros(8, np.float32)
    a[list(at)] = 1
    return a


def rows_found(x, name):
    """Nodes: the rows of c where the vector x is not 0, how many only a run knows."""
    return [h.make_node("NonZero", [x], [name + "_at"]), h.make_node("Squeeze", [name + "_at", "axis"], [name + "_i"]),
            h.make_node("Gather", ["c", name + "_i"], [name])]


@case((marks(1, 2, 6), marks(0, 4, 7)), (marks(3), marks(0, 4, 7)), (marks(0, 4, 7), marks(3)), (marks(2), marks(5)), (marks(), marks(1)),
      (marks(6), marks()), (marks(), marks()))
def broadcast_found():
    c, axis = values(2, (8, 4)), np.array([0], np.int64)
    nodes = rows_found("x", "a") + rows_found("y", "b") + [
        h.make_node("Add", ["a", "b"], ["s"]), h.make_node("Greater", ["s", "a"], ["g"]), h.make_node("Where", ["g", "b", "a"], ["t"]),
        h.make_node("MatMul", ["t", "w"], ["z"])]

    def run(x, y):
        a, b = c[x != 0], c[y != 0]
        return [a + b, np.where(a + b > a, b, a) @ W]
    return model(nodes, {"x": [8], "y": [8]}, {"s": None, "z": None}, {"c": c, "axis": axis, "w": W}), run


@case(((3, 4),), ((1, 4),))
def broadcast_constant():
    c = values(3, (3, 4))
    return model([h.make_node("Add", ["x", "c"], ["y"])], {"x": ["N", 4]}, {"y": None}, {"c": c}), lambda x: [x + c]


@case(((3, 2, 4), (3, 4, 5)), ((1, 2, 4), (3, 4, 5)), ((3, 2, 4), (1, 4, 5)))
def broadcast_products():
    return (model([h.make_node("MatMul", ["x", "y"], ["z"])], {"x": ["N", 2, 4], "y": ["M", 4, 5]}, {"z": None}),
            lambda x, y: [x @ y])


@case(((3, 4), (3, 4)), ((1, 4), (3, 4)), ((3, 4), (1, 4)))
def expand_to_shape():
    nodes = [h.make_node("Shape", ["y"], ["s"]), h.make_node("Expand", ["x", "s"], ["e"]), h.make_node("Add", ["e", "y"], ["z"])]
    return model(nodes, {"x": ["N", 4], "y": ["M", 4]}, {"z": None}), lambda x, y: [x + y]


@case(((2, 3), (2, 3), (2, 3)), ((1, 3), (2, 3), (2, 3)), ((2, 3), (1, 3), (2, 3)), ((1, 3), (1, 3), (2, 3)), ((2, 3), (2, 3), (1, 3)))
def broadcast_three():
    nodes = [h.make_node("Add", ["x", "y"], ["a"]), h.make_node("Add", ["a", "z"], ["b"]), h.make_node("Mul", ["b", "x"], ["c"]),
             h.make_node("ReduceSum", ["c", "axes"], ["d"], keepdims=0)]
    return (model(nodes, {"x": ["N", 3], "y": ["M", 3], "z": ["K", 3]}, {"d": None}, {"axes": np.array([0])}),
            lambda x, y, z: [((x + y + z) * x).sum(0)])


# -- Ranks that the values decide --------------------------------------------------------------------------------------------------------


def positive(x, out):
    """Nodes: `out` is true where the first element is positive."""
    return [h.make_node("Constant", [], [out + "_at"], value=nh.from_array(np.array([0]))), h.make_node("Reshape", [x, "all"], [out + "_flat"]),
            h.make_node("Gather", [out + "_flat", out + "_at"], [out + "_first"]), h.make_node("Greater", [out + "_first", "zero"], [out])]


@case(((3, 4),), (-np.ones((2, 4), np.float32),))
def scalar_or_list():
    """Beside a list, a value that is a scalar or a list of one keeps the list's rank; so do values made of it, casts included."""
    number = branch([h.make_node("Constant", [], ["half"], value=nh.from_array(np.float32(0.5)))], "half")
    items = branch([h.make_node("Gather", ["row", "second"], ["item"])], "item")
    nodes = positive("x", "c") + [
        h.make_node("Gather", ["x", "first"], ["row"]), h.make_node("If", ["c"], ["step"], then_branch=number, else_branch=items),
        h.make_node("Neg", ["step"], ["less"]), h.make_node("Cast", ["less"], ["wide"], to=T.DOUBLE), h.make_node("Cast", ["wide"], ["back"], to=T.FLOAT),
        h.make_node("Add", ["back", "one"], ["shifted"]), h.make_node("Mul", ["row", "shifted"], ["scaled"]), h.make_node("MatMul", ["scaled", "w"], ["y"])]
    inits = {"all": np.array([-1]), "zero": np.float32(0), "one": np.float32(1), "first": np.array(0), "second": np.array([1]), "w": W}
    return model(nodes, {"x": ["N", 4]}, {"y": None}, inits), lambda x: [(x[0] * (1 - (0.5 if x[0, 0] > 0 else x[0, 1]))) @ W]


@case(((3, 4),), (-np.ones((2, 4), np.float32),))
def conditions_of_any_rank():
    """As paddle2onnx writes loops: conditions whose rank depends, and variables of the body carried in as scalars that nobody reads."""
    true = h.make_graph([h.make_node("Constant", [], ["t"], value=nh.from_array(np.array(True)))], "t", [], [h.make_tensor_value_info("t", T.BOOL, None)])
    first = h.make_graph([h.make_node("Less", ["i1", "three"], ["f"])], "f", [], [h.make_tensor_value_info("f", T.BOOL, None)])
    body = h.make_graph([h.make_node("Reshape", ["i", "all"], ["i1"]), h.make_node("Less", ["i1", "two"], ["early"]),
                         h.make_node("If", ["early"], ["flag"], then_branch=true, else_branch=first),
                         h.make_node("Not", ["flag"], ["stop"]), h.make_node("Cast", ["stop"], ["number"], to=T.INT64),
                         h.make_node("Cast", ["number"], ["end"], to=T.BOOL), h.make_node("Not", ["end"], ["go"]),
                         h.make_node("Tanh", ["x"], ["squashed"]), h.make_node("Add", ["sum", "squashed"], ["more"])],
                        "b", [h.make_tensor_value_info("i", T.INT64, []), h.make_tensor_value_info("on", T.BOOL, []),
                              h.make_tensor_value_info("sum", T.FLOAT, ["N", 4]), h.make_tensor_value_info("unread", T.FLOAT, ["N", 4])],
                        [h.make_tensor_value_info("go", T.BOOL, None), h.make_tensor_value_info("more", T.FLOAT, ["N", 4]),
                         h.make_tensor_value_info("squashed", T.FLOAT, ["N", 4])])
    nodes = [h.make_node("Loop", ["", "yes", "x", "number0"], ["sum1", "last"], body=body), h.make_node("MatMul", ["last", "w"], ["product"])]
    inits = {"yes": np.array(True), "number0": np.float32(0), "all": np.array([-1]), "two": np.array([2]), "three": np.array([3]), "w": W}
    return model(nodes, {"x": ["N", 4]}, {"sum1": None, "product": None}, inits), lambda x: [x + 4 * np.tanh(x), np.tanh(x) @ W]


@case(((3, 1, 4),), ((5, 1, 4),))
def wrong_at_other_sizes():
    """Exporters write branches that make sense for the sizes they saw only: those are compiled."""
    nodes = size_is("x", 1, 1, "c") + [squeeze_if("x", 1, "c", "s", "a"), h.make_node("Gemm", ["s", "w"], ["y"])]
    return model(nodes, {"x": ["N", "M", 4]}, {"y": None}, {"w": W}), lambda x: [x[:, 0] @ W]


@case(((3, 4),), ((1, 4),))
def size_beside_constant():
    """Of sizes that only the run knows, put together with ones that are known, the latter broadcast."""
    nodes = [h.make_node("Abs", ["x"], ["a"]), h.make_node("ReduceSum", ["a"], ["s"], keepdims=0), h.make_node("Cast", ["s"], ["k"], to=T.INT64),
             h.make_node("Reshape", ["k", "all"], ["k1"]), h.make_node("Concat", ["k1", "one"], ["column"], axis=0),
             h.make_node("Concat", ["two", "k1"], ["rows"], axis=0), h.make_node("Expand", ["f2", "column"], ["c"]), h.make_node("Expand", ["f3", "rows"], ["r"]),
             h.make_node("Transpose", ["c"], ["t"]), h.make_node("Mul", ["r", "t"], ["y"])]
    inits = {"all": np.array([-1]), "one": np.array([1]), "two": np.array([2]), "f2": np.float32(2), "f3": np.array([[3], [4]], np.float32)}
    return model(nodes, {"x": ["N", 4]}, {"y": None}, inits), lambda x: [np.array([[6], [8]], np.float32).repeat(int(np.abs(x).sum()), 1)]


# -- Sizes of 0 ------------------------------------------------------------------------------------------------------------------------


@case(((0, 4),), ((1, 4),), ((5, 4),))
def no_rows():
    nodes = [h.make_node("MatMul", ["x", "w"], ["a"]), h.make_node("Relu", ["a"], ["b"]),
             h.make_node("ReduceSum", ["b", "axes"], ["sum"], keepdims=0), h.make_node("ReduceMax", ["b"], ["max"], axes=[0], keepdims=0),
             h.make_node("ReduceProd", ["b"], ["prod"], axes=[0], keepdims=0), h.make_node("Transpose", ["x"], ["t"]),
             h.make_node("MatMul", ["t", "x"], ["gram"]), h.make_node("Concat", ["x", "x"], ["twice"], axis=0)]

    def run(x):
        b = np.maximum(x @ W, 0)
        most = b.max(0) if len(x) else np.full(6, -np.inf, np.float32)
        return [b, b.sum(0), most, b.prod(0), x.T @ x, np.concatenate([x, x])]
    return model(nodes, {"x": ["N", 4]}, {n: None for n in ("b", "sum", "max", "prod", "gram", "twice")},
                 {"w": W, "axes": np.array([0])}), run


@case(((0, 2, 4, 4),), ((2, 2, 4, 4),))
def no_images():
    c = values(2, (3, 2, 1, 1))
    nodes = [h.make_node("Conv", ["x", "c"], ["a"]), h.make_node("MaxPool", ["a"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
             h.make_node("GlobalAveragePool", ["p"], ["g"]), h.make_node("Flatten", ["g"], ["y"])]

    def run(x):
        a = np.einsum("nchw,oc->nohw", x, c[:, :, 0, 0])
        return [a.reshape(len(x), 3, 2, 2, 2, 2).max((3, 5)).mean((2, 3))]
    return model(nodes, {"x": ["N", 2, 4, 4]}, {"y": ["N", 3]}, {"c": c}), run


# -- Names -----------------------------------------------------------------------------------------------------------------------------


@case(((2, 3), (5, 3)), ((4, 4), (1, 4)))
def unknown_names():
    nodes = [h.make_node("Gemm", ["x", "y"], ["z"], transB=1)]
    return model(nodes, {"x": ["?", "None"], "y": ["?", ""]}, {"z": None}), lambda x, y: [x @ y.T]


@case(((2, 3), (3, 7)), flags=["--dim=batch size=2", "--dim=2*n+1=7"])
def odd_names():
    nodes = [h.make_node("MatMul", ["x", "y"], ["z"])]
    return model(nodes, {"x": ["batch size", "s0 + 1"], "y": ["s0 + 1", "2*n+1"]}, {"z": ["batch size", "2*n+1"]}), lambda x, y: [x @ y]


# -- --dim NAME=N|M|* --------------------------------------------------------------------------------------------------------------------


@case(((1, 4),), ((8, 4),), ((5, 4),), flags=["--dim=a.b=1|*|8"])
def listed_sizes():
    nodes = [h.make_node("MatMul", ["x", "w"], ["a"]), h.make_node("Tanh", ["a"], ["y"])]
    return model(nodes, {"x": ["a.b", 4]}, {"y": ["a.b", 6]}, {"w": W}), lambda x: [np.tanh(x @ W)]


@case(((1, 2, 4),), ((8, 3, 4),), ((5, 2, 4),), ((1, 1, 4),), flags=["--dim=N=1|*", "--dim=M=2|*"])
def listed_twice():
    nodes = [h.make_node("Squeeze", ["x"], ["s"]), h.make_node("Cos", ["s"], ["y"])]
    return model(nodes, {"x": ["N", "M", 4]}, {"y": None}), lambda x: [np.cos(x.squeeze())]


def write(folder, name, build, sizes, flags):
    m, run = build()
    runs = []
    for shapes in sizes:
        inputs = [values(i, s) for i, s in enumerate(shapes)]
        outputs = [np.asarray(a, np.float32) for a in run(*inputs)]
        runs.append(({i.name: a for i, a in zip(m.graph.input, inputs)}, {o.name: a for o, a in zip(m.graph.output, outputs)}))
    write_case(folder, m, runs)
    with open(os.path.join(folder, "flags"), "w", encoding="utf-8") as f:
        f.writelines(flag + "\n" for flag in flags)


if __name__ == "__main__":
    for case_name, build_case, case_sizes, case_flags in CASES:
        write(os.path.join(sys.argv[1], case_name), case_name, build_case, case_sizes, case_flags)
    np.savez(os.path.join(sys.argv[1], "..", "data.npz"), x=values(0, (21, 4)), target=np.tanh(values(0, (21, 4)) @ values(5, (4, 6))))
    onnx.save(model([h.make_node("Squeeze", ["x"], ["s"], name="s"), h.make_node("Neg", ["s"], ["y"])], {"x": list("ABCDE")}, {"y": None}),
              os.path.join(sys.argv[1], "..", "many.onnx"))
    np.save(os.path.join(sys.argv[1], "..", "two.npy"), marks(1, 2))
    np.save(os.path.join(sys.argv[1], "..", "three.npy"), marks(1, 2, 3))
    wrong = size_is("x", 0, 1, "c") + [squeeze_if("x", 0, "c", "s", "a"), h.make_node("Conv", ["s", "w"], ["y"])]
    onnx.save(model(wrong, {"x": ["N", 4]}, {"y": None}, {"w": W}), os.path.join(sys.argv[1], "..", "nowhere.onnx"))
