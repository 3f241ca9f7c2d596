# SPDX-License-Identifier: Apache-2.0
"""Sizes and values of a run that an operator's text does not allow, each once wrong in silence or outside of memory: refused in words; and some that it allows; gradients of small pictures."""
import numpy as np
from says import LEVELS, T, Wrong, agrees, close, h, model, refused

import tccc

MS = "com.microsoft"
F = np.float32


def f(*shape):
    return np.random.default_rng(1).standard_normal(shape).astype(F)


def L(*v):
    return np.array(v, np.int64)


# What: operator, operands, which of them are constants, dims of inputs that are open, opset, attributes, words
REFUSED = {
    "pieces_of_other_sizes": ("Split", {"x": f(1, 1024), "s": L(600, 1)}, "s", {"x": ["N", 1024]}, 18, {"axis": 0, "outputs": 2}, "the parts do not add up to axis 0: 601 and N = 1"),
    "more_pieces_than_rows": ("Split", {"x": f(1)}, "", {"x": ["N"]}, 18, {"num_outputs": 4, "outputs": 4}, "must be at most N = 1"),
    "few_scales_for_blocks": ("DequantizeLinear", {"x": np.ones((4, 16384), np.int8), "s": f(4, 2)}, "", {"x": ["M", "K"], "s": ["M", "B"]}, 21, {"axis": 1, "block_size": 4}, "K = 16384 must be at most B * 4 = 8"),
    "rows_into_nothing": ("ScatterND", {"x": f(0, 4096), "i": L(0).reshape(1, 1), "u": f(1, 4096)}, "", {"x": ["N", 4096]}, 18, {}, "axis 0 of the operand, which is empty"),
    "edge_of_nothing": ("Pad", {"x": f(0, 65536), "p": L(1, 0, 1, 0)}, "p", {"x": ["N", 65536]}, 18, {"mode": "edge"}, "axis 0 is empty, nothing to pad it with"),
    "one_value_of_two": ("OneHot", {"i": L(0, 1), "d": np.array(3), "v": f(1)}, "d", {"v": ["V"]}, 18, {}, "2 must be at most V = 1"),
    "bias_of_other_heads": ("MultiHeadAttention", {"q": f(2, 5, 1024), "k": f(2, 7, 1024), "v": f(2, 7, 1024), "b": f(33)}, "",
                            {"q": ["B", "S", 1024], "k": ["B", "T", 1024], "v": ["B", "T", 1024], "b": ["W"]}, MS, {"num_heads": 4}, "1024 must be at most W = 33"),
    "positions_beyond_the_table": ("EmbedLayerNormalization", {"a": np.zeros((2, 5000), np.int32), "b": np.zeros((2, 5000), np.int32), "w": f(9, 16), "p": f(2, 16), "t": f(2, 16), "g": f(16), "e": f(16)}, "",
                                   {"a": ["B", "S"], "b": ["B", "S"], "p": ["P", 16]}, MS, {}, "S = 5000 must be at most P = 2"),
    "pieces_of_one_row_less": ("Split", {"x": f(6, 2), "s": L(1, 2, 2)}, "", {}, 13, {"outputs": 3}, "the parts do not add up to axis 0"),
    "slice_along_axis_3_of_1": ("Slice", {"x": f(4), "s": L(1), "e": L(2), "a": L(3)}, "", {}, 13, {}, "size 'a[0]' must be in [-1, 0], got 3"),
    "sum_along_axis_5_of_1": ("CumSum", {"x": f(4), "a": np.array(5)}, "", {}, 14, {}, "size 'a' must be in [-1, 0], got 5"),
    "position_below_0": ("RotaryEmbedding", {"x": np.ones((1, 1, 1, 2), F), "c": f(3, 1), "s": f(3, 1), "p": L(-1).reshape(1, 1)}, "", {}, 23, {}, "index -1 is outside an axis of 3"),
}


def one(op, operands, constants, dims, opset, attrs):
    attrs, ms = dict(attrs), opset == MS
    outputs = [f"y{k}" for k in range(attrs.pop("outputs", 1))]
    node = h.make_node(op, list(operands), outputs, domain=MS if ms else "", **attrs)
    inputs = {k: v for k, v in operands.items() if k not in constants}
    return model([node], inputs, dict.fromkeys(outputs, T.FLOAT), {k: operands[k] for k in constants}, 17 if ms else opset, dims=dims, domains=[(MS, 1)] if ms else []), inputs


def checked(name):
    *what, words = REFUSED[name]
    refused(*one(*what), words)


for _name in REFUSED:
    globals()[f"check_{_name}"] = lambda name=_name: checked(name)


def check_ends_beyond_any_size():
    x = np.arange(5, dtype=F)
    agrees(*one("Slice", {"x": x, "s": L(1), "e": L((1 << 63) - 1), "a": L(0), "t": L(1)}, "sat", {}, 13, {}), [x[1:]])
    agrees(*one("Slice", {"x": x, "s": L(-(1 << 63)), "e": L(3), "a": L(0), "t": L(1)}, "eat", {}, 13, {}), [x[:3]])


def windows(x, k, pad, stride=1, rate=1):
    x = np.pad(x.astype(np.float64), [(0, 0), (0, 0), (pad, pad), (pad, pad)])
    reach = (k - 1) * rate + 1
    return np.lib.stride_tricks.sliding_window_view(x, (reach, reach), (2, 3))[:, :, ::stride, ::stride, ::rate, ::rate]


def convolved(x, w, pad, stride=1, rate=1):
    return np.einsum("nchwij,kcij->nkhw", windows(x, w.shape[2], pad, stride, rate), w)


def check_convolutions_below_their_windows():
    for k, pad, stride, rate, ci, co, sizes in ((5, 2, 1, 1, 16, 16, [(3, 3), (8, 3), (3, 8), (8, 4)]), (7, 3, 2, 1, 16, 16, [(8, 3), (8, 4), (8, 6)]), (3, 2, 1, 2, 32, 8, [(9, 3), (9, 4)])):
        w = f(co, ci, k, k)
        m = model([h.make_node("Conv", ["x", "w"], ["y"], pads=[pad] * 4, strides=[stride] * 2, dilations=[rate] * 2)], {"x": f(1, ci, 9, 9)}, {"y": T.FLOAT}, {"w": w}, dims={"x": ["N", ci, "H", "W"]})
        for size in sizes:
            x = f(1, ci, *size)
            agrees(m, {"x": x}, [convolved(x, w, pad, stride, rate)], tol=1e-3, what=f"{k} x {k} over {size}")


def check_convolution_of_rows_made_twice():
    w, x = f(8, 8, 3, 3), f(1, 8, 12, 12)
    nodes = [h.make_node("Resize", ["x", "", "s"], ["u"], mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor"), h.make_node("Conv", ["u", "w"], ["y"], pads=[1] * 4)]
    agrees(model(nodes, {"x": x}, {"y": T.FLOAT}, {"s": F([1, 1, 2, 2]), "w": w}, 17), {"x": x}, [convolved(x.repeat(2, 2).repeat(2, 3), w, 1)], tol=1e-3)


def descends(channels, k, pad, rate, size, dims=None):
    """A step of descent at rate 1 changes weights by their gradient."""
    x, w = f(3, channels, *size), f(channels, channels, k, k) / k
    y = convolved(x, w, pad, rate=rate)
    t = f(*y.shape)
    want = np.einsum("nchwij,nkhw->kcij", windows(x, k, pad, rate=rate), 2 / y.size * (y - t))
    nodes = [h.make_node("Mul", ["x", "c"], ["xx"]), h.make_node("Conv", ["xx", "w"], ["y"], pads=[pad] * 4, dilations=[rate] * 2)]
    m = model(nodes, {"x": x}, {"y": T.FLOAT}, {"w": w, "c": F(1)}, 17, dims={"x": dims} if dims else {})
    for o in LEVELS:
        step = tccc.train(m.SerializeToString(), loss="mse", optimizer="sgd:lr=1", threads=1, **o)
        before = np.asarray(step.state_dict()["w"]).copy()
        step(x, t)
        got = before - np.asarray(step.state_dict()["w"])
        if not close(got, want, 1e-3):
            raise Wrong(f"{size} {dims} {o}: off by {abs(got - want).max()} of {abs(want).max()}")


def check_gradient_of_3x3_at_rate_2_over_a_point():
    for dims in (None, ["N", 32, 1, 1], ["N", 32, "H", "W"]):
        descends(32, 3, 2, 2, (1, 1), dims)


def check_gradient_of_5x5_over_7x1():
    descends(16, 5, 2, 1, (7, 1))


def check_gradient_of_7x7_over_2x2():
    descends(16, 7, 3, 1, (2, 2))
