#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Cases of one node with every attribute at each of its values, beside each other, and each optional operand given or omitted, whose outputs are ONNX Runtime's
(--peers; what they found is stored elsewhere). Left out is what has no meaning: of Affine and ScaledTanh alpha or beta alone, whose defaults no text gives; and ThresholdedRelu
in a recurrent cell, whose default is 1 by the text and 0 in ONNX Runtime. A row of ROWS is an operator, its operands, the values of its attributes, the opsets.

usage: attribute_cases.py DIR [--most N] [--seed S] [--only OP] [--open]

At most N (12) combinations of a row are drawn, the same for a seed. Where ONNX Runtime has no kernel or refuses, the case is left out and counted. --open: of the same cases every dim of an input is a symbol, and initialisers are inputs, too, so that the run decides what they say.
"""
import argparse, itertools, os, sys, warnings
import numpy as np, onnx
from onnx import TensorProto as T, helper as h, numpy_helper
import engine_cases as engine
from case_folder import write_case

rng = np.random.default_rng(11)
f = lambda *s: rng.standard_normal(s).astype(np.float32)
u = lambda *s: rng.uniform(0.1, 0.9, s).astype(np.float32)
i64 = lambda *v: np.array(v, np.int64)
i32 = lambda *v: np.array(v, np.int32)
f32 = lambda *v: np.array(v, np.float32)
byte = lambda *s: rng.integers(0, 256, s).astype(np.uint8)
sbyte = lambda *s: rng.integers(-128, 128, s).astype(np.int8)
NO = None                                    # an attribute that is not written, an operand that is omitted
MAY = lambda v: ("may", v)                   # an operand that may be omitted
C = lambda v: ("constant", np.asarray(v))    # an initialiser
MAYC = lambda v: ("may", ("constant", np.asarray(v)))
ROWS = []


def row(op, operands, attrs={}, opsets=(17,), results=1, domain="", when=lambda a: True):
    """operands: a list, or a function of the attributes; attrs: lists of values; when: combinations that the operator's text allows."""
    ROWS.append((op, operands, attrs, opsets, results, domain, when))


# -- Windows
PADDING = [NO, "VALID", "SAME_UPPER", "SAME_LOWER"]
explicit = lambda a: not (a.get("pads") and a.get("auto_pad") and a["auto_pad"] != "NOTSET")
for op, extra in (("MaxPool", {"ceil_mode": [NO, 1], "dilations": [NO, [2, 1]], "storage_order": [NO, 1]}), ("AveragePool", {"ceil_mode": [NO, 1], "count_include_pad": [NO, 1]}),
                  ("LpPool", {"p": [NO, 1, 3], "ceil_mode": [NO, 1]})):
    for n in (1, 2, 3):
        cut = lambda v: [x if not isinstance(x, list) else x[:n] if len(x) == 2 else x for x in v] if n < 3 else [NO if isinstance(x, list) else x for x in v]
        row(op, [f(2, 3, *(7, 8, 5)[:n])], {"kernel_shape": [[3, 2, 2][:n], [1, 4, 3][:n]], "strides": [NO, [2, 3, 1][:n]], "pads": [NO, [1, 0, 1][:n] + [1, 1, 0][:n]],
            "auto_pad": PADDING, **{k: cut(v) for k, v in extra.items()}}, (18 if op == "LpPool" else 12, 11 if op != "LpPool" else 18),
            2 if op == "MaxPool" else 1, when=lambda a: explicit(a) and not (a.get("auto_pad") in PADDING[2:] and a.get("dilations")))
for n in (1, 2, 3):
    size = (9, 6, 5)[:n]
    row("Conv", lambda a, n=n, size=size: [f(2, 4, *size), f(6, 4 // a.get("group", 1), *(3, 2, 2)[:n]), MAY(f(6))],
        {"strides": [NO, [2, 1, 2][:n]], "pads": [NO, [1, 0, 1][:n] + [0, 1, 1][:n]], "auto_pad": PADDING, "dilations": [NO, [2, 1, 1][:n]], "group": [NO, 2]}, (11,),
        when=lambda a: explicit(a) and not (a.get("auto_pad") in PADDING[2:] and a.get("dilations")))
    row("ConvTranspose", lambda a, n=n, size=size: [f(1, 4, *(4, 3, 3)[:n]), f(4, 3, *(3, 2, 2)[:n]), MAY(f(3 * a.get("group", 1)))],
        {"strides": [NO, [2, 2, 2][:n]], "pads": [NO, [1, 0, 1][:n] + [0, 1, 0][:n]], "auto_pad": PADDING, "dilations": [NO, [2, 1, 1][:n]], "group": [NO, 2],
         "output_padding": [NO, [1, 0, 1][:n]], "output_shape": [NO, [9, 8, 7][:n]]}, (11,),
        when=lambda a: explicit(a) and not (a.get("output_padding") and not a.get("strides")) and not (a.get("output_shape") and (not a.get("strides") or a.get("pads") or a.get("output_padding"))))
row("LRN", [f(2, 7, 3, 2)], {"size": [1, 2, 3, 4, 9], "alpha": [NO, .5], "beta": [NO, 1.2], "bias": [NO, 2.]}, (13,))
row("GlobalLpPool", [f(2, 3, 4, 5)], {"p": [NO, 1, 3]}, (2,))
row("MaxUnpool", [f(1, 1, 2, 2), C(np.array([[[[5, 7], [13, 15]]]], np.int64)), NO], {"kernel_shape": [[2, 2]], "strides": [NO, [2, 2]], "pads": [NO, [0, 0, 0, 0]]}, (11,), when=lambda a: a.get("strides"))
row("RoiAlign", [f(2, 2, 6, 7), C(f32([0, 0, 4, 5], [1, 1, 5, 5], [-1, 2, 9, 3.5])), C(i64(0, 1, 0))],
    {"mode": [NO, "avg", "max"], "output_height": [NO, 2], "output_width": [NO, 3], "sampling_ratio": [NO, 2], "spatial_scale": [NO, .5],
     "coordinate_transformation_mode": [NO, "half_pixel", "output_half_pixel"]}, (16,))
for dims, opset, modes in ((2, 16, ("bilinear", "nearest", "bicubic")), (2, 20, ("linear", "nearest", "cubic")), (3, 20, ("linear", "nearest"))):
    row("GridSample", [f(2, 2, *(4, 5, 3)[:dims]), 1.3 * f(2, *(3, 2, 2)[:dims], dims)], {"mode": [NO, *modes], "padding_mode": [NO, "zeros", "border", "reflection"], "align_corners": [NO, 1]}, (opset,))
row("AffineGrid", [f(2, 2, 3), C(i64(2, 3, 4, 5))], {"align_corners": [NO, 1]}, (20,))
row("DeformConv", [f(1, 2, 4, 4), f(4, 1, 2, 2), .3 * f(1, 8, 3, 3), MAY(f(4)), MAY(u(1, 4, 3, 3))], {"group": [2], "offset_group": [NO]}, (19,))
for pads, opsets in (([1, 2, 0, 3], (11, 13, 18)), ([0, -1, 1, -1], (13,)), ([0, 1, 0, 2], (18, 19))):
    row("Pad", [f(3, 5), C(i64(*pads)), MAYC(np.float32(.5))], {"mode": [NO, "constant", "edge", "reflect"] + (["wrap"] if opsets[0] > 17 else [])}, opsets)
row("Pad", [f(2, 3, 4), C(i64(1, 2)), MAYC(np.float32(2)), C(i64(-1))], {"mode": [NO, "edge", "reflect"]}, (18,))
for op in ("DepthToSpace",):
    row(op, [f(1, 8, 2, 3)], {"blocksize": [1, 2], "mode": [NO, "DCR", "CRD"]}, (11, 13))
# -- Along axes
for op in "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSumSquare".split():
    row(op, [u(2, 3, 4)], {"axes": [NO, [0], [-1, 1], [0, 1, 2]], "keepdims": [NO, 0, 1]}, (11, 13))
    row(op, lambda a: [u(2, 3, 4), MAY(a.get("_axes", C(i64(-1))))], {"keepdims": [NO, 0], "noop_with_empty_axes": [NO, 1], "_axes": [C(np.zeros(0, np.int64)), C(i64(0, -1)), C(i64(1))]}, (18,))
row("ReduceSum", lambda a: [u(2, 3, 4), MAY(a["_axes"])], {"keepdims": [NO, 0], "noop_with_empty_axes": [NO, 1], "_axes": [C(np.zeros(0, np.int64)), C(i64(0, -1)), i64(1)]}, (13,))
for op in "ArgMax ArgMin".split():
    row(op, [np.round(f(3, 5, 4))], {"axis": [NO, 0, 1, -1, -3], "keepdims": [NO, 0], "select_last_index": [NO, 1]}, (12, 13))
for op in "Softmax LogSoftmax Hardmax".split():
    row(op, [f(2, 3, 4)], {"axis": [NO, 0, 1, 2, -1, -3]}, (11, 13))
row("Flatten", [f(2, 3, 4)], {"axis": [NO, 0, 1, 2, 3, -1, -3]}, (13,))
row("TopK", [np.round(2 * f(3, 6)), C(i64(3))], {"axis": [NO, 0, -2], "largest": [NO, 0], "sorted": [NO, 1]}, (11,), 2)
row("CumSum", lambda a: [f(3, 4), C(a["_axis"])], {"_axis": [np.int64(0), np.int32(-1), i64(1)], "exclusive": [NO, 1], "reverse": [NO, 1]}, (11, 14))
row("Gather", [f(4, 3, 2), C(np.array([[-1, 0], [1, -2]], np.int64))], {"axis": [NO, 0, 1, -1, -3]}, (13,))
row("GatherElements", [f(3, 3), C(np.array([[0, 1, 2], [-1, 0, -3]], np.int64))], {"axis": [NO, 0, 1, -1, -2]}, (13,))
row("GatherND", [f(2, 3, 4), C(np.array([[[1], [-1]], [[0], [2]]], np.int64))], {"batch_dims": [NO, 0, 1]}, (13,), when=lambda a: a.get("batch_dims") == 1)
row("ScatterElements", [f(3, 3), C(np.array([[1, 0, 2], [1, -1, 0]], np.int64)), f(2, 3)], {"axis": [NO, 0, 1, -1], "reduction": ["add", "mul", "min", "max"]}, (18,))
row("ScatterND", [f(4, 2), C(np.array([[1], [3], [1]], np.int64)), f(3, 2)], {"reduction": ["add", "mul", "min", "max"]}, (18,))
row("OneHot", [i64(0, 2, -1, 5, -4), C(np.int64(3)), C(f32(.5, 5))], {"axis": [NO, 0, 1, -1, -2]}, (11,))
row("Compress", [f(4, 3), C(np.array([True, False, True]))], {"axis": [NO, 0, 1, -1]}, (11,))
row("Unique", [np.round(f(4, 3))], {"axis": [NO, 0, 1, -1], "sorted": [NO, 0]}, (11,), 4)
row("ReverseSequence", lambda a: [f(3, 3, 2), C(i64(2, 3, 1))], {"time_axis": [NO, 1], "batch_axis": [NO, 0]}, (10,), when=lambda a: bool(a.get("time_axis")) == (a.get("batch_axis") == 0))
row("Concat", [f(2, 3), f(2, 3), f(2, 3)], {"axis": [0, 1, -1, -2]}, (13,))
row("Split", [f(4, 6), MAYC(i64(1, 3))], {"axis": [NO, 0, -2]}, (13,), 2, when=lambda a: True)
row("Split", [f(7, 5)], {"axis": [NO, 0, 1, -1], "num_outputs": [2]}, (18,), 2)
row("EyeLike", [f(3, 4)], {"k": [NO, 1, -2, 9], "dtype": [NO, T.INT32, T.DOUBLE]}, (9,))
row("Trilu", [f(2, 3, 4), MAYC(np.int64(-1))], {"upper": [NO, 0, 1]}, (14,))
row("Transpose", [f(2, 3, 4)], {"perm": [NO, [1, 2, 0], [2, 1, 0]]}, (13,))
row("Shape", [f(2, 3, 4)], {"start": [NO, 1, -2, -9, 9], "end": [NO, 2, -1, -9, 9]}, (15,))
row("Reshape", [f(2, 0, 4), C(i64(0, 4, 0))], {"allowzero": [1]}, (14,), when=lambda a: True)
row("Slice", lambda a: [f(4, 5), C(a["_s"][0]), C(a["_s"][1]), MAYC(i64(1, 0)), MAYC(i64(-2, 1))], {"_s": [(i64(4, 1), i64(-9, 3)), (i64(-1, -3), i64(0, 2**62)), (i64(9, -9), i64(-2**62, 9))]}, (13,))
row("NonMaxSuppression", lambda a: [C(np.array([[[0, 0, 1, 1], [.5, .55, 1, 1.1], [0, 5, 1, 6], [3, 3, 2, 2]]], np.float32)), C(np.array([[[.9, .8, .7, .6], [.1, .95, .2, .3]]], np.float32)),
    MAYC(i64(2)), MAYC(f32(.4)), MAYC(f32(.15))], {"center_point_box": [NO, 0, 1]}, (11,))
# -- Resampling
for op, opset in (("Resize", 10), ("Upsample", 9)):
    row(op, lambda a: [f(1, 2, 3, 4), C(f32(1, 1, *a["_s"]))], {"mode": [NO, "nearest", "linear"], "_s": [(2, 2), (1.5, 2.3)] + ([(.6, .5)] if op == "Resize" else [])}, (opset,))
RULES = ["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_half_pixel_for_nn"]
for opset in (11, 13, 18, 19):
    row("Resize", lambda a, o=opset: [f(1, 2, 3, 4), C(f32()) if o == 11 else NO, C(f32(1, 1, *a["_s"]))],
        {"mode": [NO, "nearest", "linear", "cubic"], "_s": [(2, 2), (1.5, 2.3), (.6, .5)], "coordinate_transformation_mode": [NO] + (RULES if opset == 11 else RULES[:4]),
         "nearest_mode": [NO, "floor", "ceil", "round_prefer_ceil"], "cubic_coeff_a": [NO, -.5], "exclude_outside": [NO, 1]}, (opset,), when=lambda a: not a.get("exclude_outside") or a.get("mode") == "cubic")
# -- Normalisation, losses, random-free training forms
row("BatchNormalization", [f(2, 3, 4), C(u(3)), C(f(3)), C(f(3)), C(u(3))], {"epsilon": [NO, .1], "momentum": [NO, .5], "training_mode": [NO, 0]}, (9, 14, 15))
row("InstanceNormalization", [f(2, 3, 5), C(u(3)), C(f(3))], {"epsilon": [NO, .1]}, (6,))
row("GroupNormalization", [f(2, 4, 5), C(u(4)), C(f(4))], {"num_groups": [1, 2, 4], "epsilon": [NO, .1]}, (21,))
row("LayerNormalization", lambda a: [f(2, 3, 4), u(*(2, 3, 4)[a.get("axis", -1):]), MAY(f(*(2, 3, 4)[a.get("axis", -1):]))], {"axis": [NO, 0, 1, -2], "epsilon": [NO, .1], "stash_type": [NO, 1]}, (17,), 3)
row("LpNormalization", [f(2, 3, 5)], {"axis": [NO, 0, 1, -2], "p": [NO, 1, 2]}, (1,))
row("MeanVarianceNormalization", [f(2, 3, 4, 2)], {"axes": [NO, [0, 2], [1, -1], [0, 1, 2, 3]]}, (13,))
for op in ("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"):
    for shape in ((4,), (4, 2), (4, 2, 3)):
        row(op, [f(5, *shape[:1], *shape[1:]), C(rng.integers(0, 4, (5, *shape[1:]))), MAYC(u(4))], {"reduction": [NO, "none", "sum", "mean"], "ignore_index": [NO, 1, -1]}, (13,), 1)
row("Dropout", [f(2, 3), MAYC(np.float32(.3)), MAYC(np.bool_(False))], {"seed": [NO, 3]}, (12, 13), 2)
# -- Elements
row("Clip", [f(3, 4), MAYC(np.float32(-.5)), MAYC(np.float32(.4))], {}, (11, 13))
row("Clip", [i32(-9, 3, 9), MAYC(np.int32(2)), MAYC(np.int32(-1))], {}, (12,))
row("Gelu", [f(3, 4)], {"approximate": [NO, "none", "tanh"]}, (20,))
for op, names in (("Elu", ["alpha"]), ("Celu", ["alpha"]), ("LeakyRelu", ["alpha"]), ("ThresholdedRelu", ["alpha"]), ("HardSigmoid", ["alpha", "beta"]), ("Selu", ["alpha", "gamma"]), ("Shrink", ["lambd", "bias"])):
    row(op, [2 * f(3, 4)], {n: [NO, .3, 1.7] for n in names}, (16 if op == "LeakyRelu" else 12,))
row("IsInf", [f32(1, np.inf, -np.inf, np.nan)], {"detect_negative": [NO, 0], "detect_positive": [NO, 0]}, (10, 20))
row("Mod", [f32(-7, 7, 5.5, -.5), f32(3, -3, 2, 2)], {"fmod": [1]}, (13,))
row("Mod", [i32(-7, 7, 5, -1), i32(3, -3, 2, -2)], {"fmod": [NO, 0, 1]}, (13,))
row("BitShift", [byte(6), np.array([1, 0, 2, 3, 9, 7], np.uint8)], {"direction": ["LEFT", "RIGHT"]}, (11,))
for to in (T.INT8, T.INT64, T.FLOAT16, T.BOOL, T.DOUBLE):        # floats of 8 bits: the official suite; negative ones as unsigned integers are nobody's
    row("Cast", [f32(0, -.4, .6, 1.5, -1.5, 100, -100)], {"to": [to]}, (13,))
row("Gemm", lambda a: [f(*((4, 3) if a.get("transA") else (3, 4))), f(*((5, 4) if a.get("transB") else (4, 5))), MAY(a["_c"])], {"transA": [NO, 1], "transB": [NO, 1], "alpha": [NO, .5], "beta": [NO, .3], "_c": [f(5), f(3, 1), f(3, 5), np.float32(2)]}, (11, 13))
for e, shapes in (("ij,jk", ((2, 3), (3, 4))), ("ij->ji", ((2, 3),)), ("ii->i", ((3, 3),)), ("i,i", ((3,), (3,))), ("...ij,...jk->...ik", ((2, 1, 2, 3), (4, 3, 5))), ("bij,bjk,kl->bil", ((2, 3, 4), (2, 4, 2), (2, 3))),
                  ("ij->", ((2, 3),)), ("i,j->ij", ((2,), (3,))), ("b...,b...->b", ((2, 3, 4), (2, 3, 4))), (" i j , j k -> i k", ((2, 3), (3, 4)))):
    row("Einsum", [f(*s) for s in shapes], {"equation": [e]}, (12,))
# -- Signals
row("DFT", lambda a: [f(2, 8, 1 if a.get("onesided") else 2), MAYC(np.int64(6))], {"axis": [NO, 1, -2], "inverse": [NO, 1], "onesided": [NO, 1]}, (17,), when=lambda a: not (a.get("inverse") and a.get("onesided")))
row("STFT", [f(1, 32, 1), C(np.int64(8)), MAYC(u(16)), MAYC(np.int64(16))], {"onesided": [NO, 0, 1]}, (17,))
for op in "HannWindow HammingWindow BlackmanWindow".split():
    row(op, lambda a: [C(np.int64(a["_n"]))], {"periodic": [NO, 0, 1], "_n": [1, 2, 9], "output_datatype": [NO, T.DOUBLE]}, (17,))
# -- Recurrent
def recurrent(op, gates):
    def operands(a):
        d = 2 if a.get("direction") == "bidirectional" else 1
        layout = lambda x: np.ascontiguousarray(np.swapaxes(x, 0, 1)) if a.get("layout") else x
        return [layout(f(4, 2, 3)), C(f(d, gates * 3, 3)), C(f(d, gates * 3, 3)), MAYC(f(d, 2 * gates * 3)), MAYC(i32(4, 2)), MAY(layout(f(d, 2, 3)))] + ([MAY(layout(f(d, 2, 3))), MAYC(f(d, 9))] if op == "LSTM" else [])
    return operands
def has_constants(a):
    """Affine and ScaledTanh need both, HardSigmoid has defaults, others take none or, of several, which is whose is not asked here."""
    name, given = (a.get("activations") or [""])[0], sum(k in a for k in ("activation_alpha", "activation_beta"))
    return given == 2 if name in ("Affine", "ScaledTanh") else name == "HardSigmoid" or not given
for op, gates, acts in (("RNN", 1, [["Relu"], ["Affine"], ["LeakyRelu"], ["ScaledTanh"], ["HardSigmoid"], ["Elu"], ["Softsign"], ["Softplus"]]), ("GRU", 3, [["HardSigmoid", "Relu"], ["Sigmoid", "Softsign"]]),
                        ("LSTM", 4, [["HardSigmoid", "Relu", "Tanh"], ["Sigmoid", "Elu", "LeakyRelu"]])):
    for k in range(2):
        row(op, recurrent(op, gates), {"hidden_size": [3], "direction": [NO, "forward", "reverse", "bidirectional"], "clip": [NO, .4], "activations": [NO, *acts], "activation_alpha": [NO, [.7]], "activation_beta": [NO, [.2]],
                                       **({"linear_before_reset": [NO, 1]} if op == "GRU" else {}), **({"input_forget": [NO, 1]} if op == "LSTM" else {})}, (14,), 3 if op == "LSTM" else 2,
            when=lambda a: (a.get("direction") != "bidirectional" or not a.get("activations")) and has_constants(a))
# -- Quantised
for dtype, draw in ((np.uint8, byte), (np.int8, sbyte)):
    row("QuantizeLinear", lambda a, d=dtype: [40 * f(2, 3, 4), C(a["_s"]), MAYC(np.broadcast_to(d(5), np.shape(a["_s"])).copy())], {"axis": [NO, 0, 1, 2, -1], "_s": [np.float32(.5), u(2), u(3), u(4)]}, (13,),
        when=lambda a: not np.ndim(a["_s"]) or np.size(a["_s"]) == (2, 3, 4)[a.get("axis", 1)])
    row("DequantizeLinear", lambda a, d=dtype, draw=draw: [draw(2, 3, 4), C(a["_s"]), MAYC(np.broadcast_to(d(5), np.shape(a["_s"])).copy())], {"axis": [NO, 0, 1, 2, -1], "_s": [np.float32(.5), u(2), u(3), u(4)]}, (13,),
        when=lambda a: not np.ndim(a["_s"]) or np.size(a["_s"]) == (2, 3, 4)[a.get("axis", 1)])
    row("DequantizeLinear", lambda a, d=dtype, draw=draw: [draw(4, 6), C(u(*((2, 6) if a["axis"] in (0, -2) else (4, 3)))), MAYC(draw(*((2, 6) if a["axis"] in (0, -2) else (4, 3))))], {"axis": [0, 1, -1, -2], "block_size": [2]}, (21,))
    row("MatMulInteger", [draw(3, 4), draw(4, 2), MAYC(dtype(3)), MAYC(dtype(9))], {}, (10,))
    row("QLinearConv", lambda a, d=dtype, draw=draw: [draw(1, 4, 5, 5), C(np.float32(.1)), C(d(7)), C(draw(6, 4 // a.get("group", 1), 3, 2)), C(a["_s"]), C(np.zeros(np.shape(a["_s"]), d)), C(np.float32(9)), C(d(5)), MAYC(i32(1, 2, -300, 4, 5, 6))],
        {"group": [NO, 2], "pads": [NO, [1, 0, 1, 1]], "auto_pad": PADDING, "strides": [NO, [2, 1]], "dilations": [NO, [1, 2]], "_s": [np.float32(.2), u(6)]}, (10,), when=lambda a: explicit(a) and not (a.get("auto_pad") in PADDING[2:] and a.get("dilations")))
row("ConvInteger", lambda a: [byte(1, 4, 5, 5), byte(6, 4 // a.get("group", 1), 3, 2), MAYC(np.uint8(3)), MAYC(np.uint8(5))], {"group": [NO, 2], "pads": [NO, [1, 0, 1, 1]], "auto_pad": PADDING, "strides": [NO, [2, 1]]}, (10,), when=explicit)
# -- com.microsoft
MS = "com.microsoft"
row("FusedMatMul", lambda a: [f(2, *((4, 3) if a.get("transA") else (3, 4))), f(2, *((5, 4) if a.get("transB") else (4, 5)))], {"transA": [NO, 1], "transB": [NO, 1], "alpha": [NO, .5]}, domain=MS)
row("FusedGemm", lambda a: [f(*((4, 3) if a.get("transA") else (3, 4))), f(*((5, 4) if a.get("transB") else (4, 5))), f(5)], {"transA": [NO, 1], "transB": [NO, 1], "alpha": [NO, .5], "beta": [NO, .3], "activation": ["Relu", "LeakyRelu", "Sigmoid", "Tanh"], "activation_alpha": [NO, .2]}, domain=MS,
    when=lambda a: not a.get("activation_alpha") or a["activation"] == "LeakyRelu")
for op, more in (("SkipLayerNormalization", [MAY(f(8)), MAY(f(8))]), ("SkipSimplifiedLayerNormalization", [MAY(f(8))])):
    row(op, [f(2, 3, 8), f(2, 3, 8), u(8), *more], {"epsilon": [NO, .1]}, domain=MS)
row("RotaryEmbedding", lambda a: [f(2, 3, 16), C(i64(0)) if a["_p"] else C(np.array([[0, 1, 2], [4, 1, 3]], np.int64)), C(u(8, 8 // (1 if not a.get("num_heads") else 2))), C(u(8, 8 // (1 if not a.get("num_heads") else 2)))],
    {"interleaved": [NO, 1], "num_heads": [NO, 2], "scale": [NO], "_p": [0, 1]}, domain=MS, when=lambda a: a.get("num_heads"))
row("MultiHeadAttention", lambda a: [f(2, 3, 16), f(2, 5, 16), f(2, 5, 16), MAY(f(48)), MAY(np.array([[1, 1, 1, 0, 1], [1, 1, 0, 0, 0]], np.int32)), MAY(f(1, a["num_heads"], 3, 5))], {"num_heads": [1, 2, 4], "scale": [NO, .3], "mask_filter_value": [NO, -100.]}, domain=MS)
row("Attention", lambda a: [f(2, 5, 12), C(f(12, 24)), MAYC(f(24)), MAY(a["_m"])], {"num_heads": [1, 2], "unidirectional": [NO, 1], "scale": [NO, .3], "qkv_hidden_sizes": [NO], "_m": [np.array([[1, 1, 1, 0, 1], [1, 1, 0, 0, 0]], np.int32), i32(5, 2), (rng.integers(0, 2, (2, 5, 5)) | np.eye(5, dtype=int)).astype(np.int32)]}, domain=MS)
row("GroupQueryAttention", lambda a: [f(2, 3, 32), f(2, 3, 16), f(2, 3, 16), np.zeros((2, 2, 0, 8), np.float32), np.zeros((2, 2, 0, 8), np.float32), C(i32(2, 2)), C(np.int32(3)), *([C(u(8, 4)), C(u(8, 4))] if a.get("do_rotary") else [])],
    {"num_heads": [4], "kv_num_heads": [2], "scale": [NO, .3], "local_window_size": [NO, 2], "do_rotary": [NO, 1], "rotary_interleaved": [NO, 1], "softcap": [NO, 5.], "smooth_softmax": [NO]}, domain=MS, results=3, when=lambda a: a.get("do_rotary") or not a.get("rotary_interleaved"))
row("QuickGelu", [f(3, 4)], {"alpha": [NO, .7]}, domain=MS)
row("BiasGelu", [f(3, 4), f(4)], domain=MS)
row("FastGelu", [f(3, 4), MAY(f(4))], domain=MS)
row("MatMulNBits", lambda a: [f(3, 32), C(byte(4, 32 // a["block_size"], a["block_size"] // 2)), C(u(4 * 32 // a["block_size"])), MAYC(byte(4 * ((32 // a["block_size"] + 1) // 2)))], {"K": [32], "N": [4], "bits": [4], "block_size": [16, 32], "accuracy_level": [NO, 1]}, domain=MS)
for op in ("QLinearAdd", "QLinearMul"):
    row(op, [byte(2, 3, 4), C(np.float32(.1)), MAYC(np.uint8(7)), byte(3, 1), C(np.float32(.2)), MAYC(np.uint8(5)), C(np.float32(.5)), MAYC(np.uint8(90))], domain=MS)
row("QLinearAveragePool", [byte(1, 2, 5, 6), C(np.float32(.1)), MAYC(np.uint8(7)), C(np.float32(.12)), MAYC(np.uint8(9))], {"kernel_shape": [[3, 2]], "strides": [NO, [2, 2]], "pads": [NO, [1, 0, 1, 1]], "ceil_mode": [NO, 1], "count_include_pad": [NO, 1], "channels_last": [NO, 0], "auto_pad": [NO, "SAME_UPPER"]}, domain=MS, when=explicit)
row("QLinearLeakyRelu", [byte(2, 6), C(np.float32(.1)), MAYC(np.uint8(90)), C(np.float32(.2)), MAYC(np.uint8(60))], {"alpha": [NO, .3]}, domain=MS)
row("QLinearSigmoid", [byte(2, 6), C(np.float32(.1)), MAYC(np.uint8(90)), C(np.float32(.004)), MAYC(np.uint8(0))], domain=MS)
row("DynamicQuantizeMatMul", [f(3, 4), C(byte(4, 5)), C(u(5)), MAYC(byte(5)), MAY(f(5))], domain=MS)
row("MatMulIntegerToFloat", [byte(3, 4), C(byte(4, 5)), C(np.float32(.1)), C(u(5)), MAYC(np.uint8(3)), MAYC(byte(5)), MAY(f(5))], domain=MS)
row("QGemm", lambda a: [byte(*((4, 3) if a.get("transA") else (3, 4))), C(np.float32(.1)), C(np.uint8(3)), C(byte(*((5, 4) if a.get("transB") else (4, 5)))), C(u(5)), C(byte(5)), MAYC(i32(1, 2, 3, 4, 5)), MAYC(np.float32(2)), MAYC(np.uint8(9))], {"transA": [NO], "transB": [NO, 1], "alpha": [NO, .5]}, domain=MS)
row("GroupNorm", [f(1, 3, 2, 8), C(u(8)), C(f(8))], {"activation": [0, 1], "groups": [2, 4], "epsilon": [NO, .1], "channels_last": [NO, 1]}, domain=MS)
row("Trilu", [f(3, 4), MAYC(np.int64(1))], {"upper": [NO, 0]}, domain=MS)
row("GatherBlockQuantized", [C(byte(4, 16)), C(i64(1, -1, 0)), C(u(4, 2)), MAYC(byte(4, 1))], {"bits": [4], "block_size": [16], "gather_axis": [NO, 0], "quantize_axis": [NO, 1]}, domain=MS)


def operand_forms(operands):
    """The operands with each subset of the optional ones; NO at the end is cut."""
    may = [k for k, v in enumerate(operands) if isinstance(v, tuple) and v[0] == "may"]
    for kept in itertools.product((True, False), repeat=len(may)):
        made = [v[1] if k in may else v for k, v in enumerate(operands)]
        for k, keep in zip(may, kept):
            made[k] = made[k] if keep else NO
        while made and made[-1] is NO:
            made.pop()
        yield made


def cases(most, seed, only):
    draw = np.random.default_rng(seed)
    for number, (op, operands, attrs, opsets, results, domain, when) in enumerate(ROWS):
        if only and only not in op:
            continue
        every = [{k: v for k, v in zip(attrs, values) if v is not NO} for values in itertools.product(*attrs.values())]
        every = [a for a in every if when(a)]
        forms = []
        for a in every if len(every) <= 8 * most else [every[k] for k in sorted(draw.choice(len(every), 8 * most, replace=False))]:
            forms += [(a, o) for o in operand_forms(operands(a) if callable(operands) else operands)]
        if len(forms) > most:
            forms = [forms[k] for k in sorted(draw.choice(len(forms), most, replace=False))]
        for k, (a, values) in enumerate(forms):
            inputs, constants, names = {}, {}, []
            for i, v in enumerate(values):
                names.append("" if v is NO else f"x{i}")
                if v is not NO:
                    (constants if isinstance(v, tuple) else inputs)[names[-1]] = v[1] if isinstance(v, tuple) else np.asarray(v)
            node = h.make_node(op, names, [f"y{i}" for i in range(results)], name=op, domain=domain, **{n: v for n, v in a.items() if n[0] != "_"})
            yield f"{domain and 'ms_'}{op}_{number}_{k}", node, inputs, constants, opsets[k % len(opsets)]


def write(folder, node, inputs, constants, opset, opened):
    dims = {}
    if opened:
        dims = {x: [f"{x}_{k}" for k in range(np.ndim(v))] for x, v in inputs.items()}
        inputs = {x: {**inputs, **constants}[x] for x in node.input if x}
        constants = {}
    model = engine.model_of([node], inputs, constants, {y: 0 for y in node.output}, opset, dims=dims)
    model.opset_import.append(h.make_opsetid(MS, 1))
    for y in model.graph.output:
        y.ClearField("type")
    results = engine.run(model, inputs)
    for y, r in zip(model.graph.output, results):
        y.CopyFrom(engine.info(y.name, r, [None] * np.ndim(r)))
    write_case(folder, model, [(inputs, dict(zip(node.output, results)))], "1e-3 1e-4")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("out")
    p.add_argument("--most", type=int, default=12)
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--only", default="")
    p.add_argument("--open", action="store_true")
    o = p.parse_args()
    made = left = 0
    for name, *case in cases(o.most, o.seed, o.only):
        sys.stdout.flush()
        child = os.fork()                # ONNX Runtime crashes on some of what it should refuse
        if not child:
            try:
                write(os.path.join(o.out, name), *case, o.open)
                os._exit(0)
            except BaseException as e:
                print(f"{name}: {str(e).splitlines()[0][:200]}", flush=True)
                os._exit(1)
        status = os.waitpid(child, 0)[1]
        made += status == 0
        left += status != 0
        if status & 127:
            print(f"{name}: ONNX Runtime ends by signal {status & 127}")
    print(f"{made} cases, {left} left out: ONNX Runtime has no kernel, refuses them, or crashes")


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        main()
