#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ONNX models of one operator each, in f64, for tests/train/gradients --imported: gradients as they come through the importer, whose spelling of
an op (lists, omitted operands, defaults) need not be the one of the .tcir programs.

importer_grads.py DIR      write DIR/<case>.onnx and DIR/<case>.notes (lines as the .tcir programs have them: ranges of inputs, sizes of dims)

A row: the operator, its inputs (name: shape, or an array: an initialiser; None: omitted), attributes, notes. A library op that becomes
differentiable needs a row here: gradients --imported fails without. Models of sequences and optionals: sequence_grads.py; with sizes that
only the run knows: size_grads.py.
"""
import os, sys
import numpy as np, onnx
from onnx import TensorProto as T, helper, numpy_helper

import sequence_grads
import size_grads

ROWS, F64 = {}, T.DOUBLE


def i64(*v):
    return np.array(v, np.int64)


def row(name, op, inputs, out=1, notes="", opset=20, domain="", ints=(), then=(), outputs=None, **attrs):
    """inputs: a list of (name, shape or array) or None; ints: names of those that are i64; `then`: ops on the first result, each (op,
    inputs after it, attributes), where the result's own size is known only at run time."""
    ROWS[name] = (op, inputs, out, notes, opset, domain, ints, then, outputs, attrs)


def model(op, inputs, out, notes, opset, domain, ints, then, outputs, attrs):
    names, given, constants = [], [], []
    for item in inputs:
        names.append(item[0] if item else "")
        if item and isinstance(item[1], np.ndarray):
            constants.append(numpy_helper.from_array(item[1], item[0]))
        elif item and not any(item[0] == v.name for v in given):
            kind = T.BOOL if item[0] == "cond" else F64 if item[0] not in ints else T.INT32 if op == "LSTM" else T.INT64
            given.append(helper.make_tensor_value_info(item[0], kind, item[1]))
    made = outputs or [f"y{k}" for k in range(out)]
    nodes = [helper.make_node(op, names, made, domain=domain, **attrs)]
    for k, (name, more, its) in enumerate(then):
        for c in more:
            constants.append(numpy_helper.from_array(c[1], c[0]))
        nodes.append(helper.make_node(name, [nodes[-1].output[0]] + [c[0] for c in more], [f"z{k}"], **its))
    results = [nodes[-1].output[0]] + [v for v in made[1:] if v and not then]
    graph = helper.make_graph(nodes, "g", given, [helper.make_empty_tensor_value_info(v) for v in results], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)] + ([helper.make_opsetid(domain, 3)] if domain else []), ir_version=9)


# -- Library ops: every one of passes/grad/lib.c, in every mode

for mode in ("linear", "nearest", "cubic"):
    for padding in ("zeros", "border", "reflection"):
        for align in (0, 1):
            row(f"grid_sample_{mode}_{padding}_{align}", "GridSample", [("x", [2, 2, 4, 5]), ("g", [2, 3, 2, 2])], mode=mode, padding_mode=padding,
                align_corners=align, notes="; input g -1.7 1.7")
row("grid_sample_bilinear_16", "GridSample", [("x", [1, 2, 4, 5]), ("g", [1, 3, 2, 2])], opset=16, mode="bilinear", padding_mode="border", notes="; input g -1.7 1.7")
row("grid_sample_defaults", "GridSample", [("x", [1, 2, 4, 5]), ("g", [1, 3, 2, 2])], notes="; input g -1.7 1.7")
row("grid_sample_volume", "GridSample", [("x", [1, 2, 3, 4, 5]), ("g", [1, 2, 2, 2, 3])], padding_mode="reflection", notes="; input g -1.7 1.7")
row("grid_sample_symbolic", "GridSample", [("x", ["n", 2, "h", "w"]), ("g", ["n", 3, 2, 2])], mode="cubic", align_corners=1, padding_mode="border",
    notes="; dim n 2\n; dim h 4\n; dim w 3\n; input g -1.3 1.3")

row("topk_at_run_time", "TopK", [("x", [3, 6]), ("k", [1])], 2, ints=("k",), notes="; input k 3 4", axis=1,
    then=[("Pad", [("pads", i64(0, 0, 0, 3))], {}), ("Mul", [("fours", np.full([1, 6], 0.5))], {}), ("ReduceSum", [("ax", i64(1))], dict(keepdims=0))])
for mode in ("half_pixel", "output_half_pixel"):
    row(f"roi_align_{mode}", "RoiAlign", [("x", [2, 2, 5, 6]), ("rois", np.array([[0.5, 1, 7, 9], [-2, 3, 6, 7], [4, 4, 14, 9.0]])), ("b", i64(0, 1, 1))],
        coordinate_transformation_mode=mode, output_height=2, output_width=3, spatial_scale=0.5, sampling_ratio=2)
row("topk_smallest", "TopK", [("x", [3, 6]), ("k", i64(2))], 2, axis=0, largest=0)

for mode, how in (("nearest", "asymmetric"), ("linear", "half_pixel"), ("linear", "align_corners"), ("cubic", "pytorch_half_pixel"), ("cubic", "half_pixel_symmetric")):
    row(f"resize_{mode}_{how}", "Resize", [("x", [1, 2, 4, 3]), None, ("s", np.array([1, 1, 1.6, 2], np.float32))], mode=mode, coordinate_transformation_mode=how,
        **(dict(nearest_mode="floor") if mode == "nearest" else {}))
    row(f"resize_{mode}_{how}_sizes", "Resize", [("x", [1, 2, 4, 3]), None, None, ("n", i64(7, 2))], mode=mode, coordinate_transformation_mode=how, axes=[2, 3])
row("resize_symbolic", "Resize", [("x", ["n", 2, "h", 3]), None, ("s", np.array([1, 1, 2, 2], np.float32))], mode="linear", notes="; dim n 2\n; dim h 3")
row("resize_antialias", "Resize", [("x", [1, 1, 6, 7]), None, None, ("n", i64(3, 4))], mode="linear", antialias=1, axes=[2, 3])
row("resize_antialias_cubic", "Resize", [("x", [1, 1, 6, 7]), None, None, ("n", i64(3, 4))], mode="cubic", antialias=1, cubic_coeff_a=-0.5, axes=[2, 3])
row("resize_exclude_outside", "Resize", [("x", [1, 1, 4, 3]), None, ("s", np.array([1.5, 2], np.float32))], mode="cubic", exclude_outside=1, cubic_coeff_a=-0.5, axes=[2, 3])
row("resize_stretch", "Resize", [("x", [1, 1, 4, 3]), None, None, ("n", i64(5, 5))], mode="linear", keep_aspect_ratio_policy="stretch", axes=[2, 3], opset=18)
row("upsample_9", "Upsample", [("x", [1, 2, 3, 2]), ("s", np.array([1, 1, 2, 3], np.float32))], opset=9, mode="linear")
row("upsample_7", "Upsample", [("x", ["n", 2, "h", 2])], opset=7, mode="nearest", scales=[1.0, 1.0, 2.0, 3.0], notes="; dim n 1\n; dim h 3")

row("compress", "Compress", [("x", [4, 3]), ("c", np.array([True, False, True]))], axis=1, then=[("ReduceSum", [("ax", i64(1))], dict(keepdims=0))])
row("compress_flat", "Compress", [("x", [4, 3]), ("c", np.array([True, False, True, True]))], then=[("Mul", [("half", np.array(0.5))], {}), ("ReduceSum", [], dict(keepdims=0))])
row("compress_at_run_time", "Compress", [("x", [4, 3]), ("cond", [4])], axis=0, then=[("ReduceSum", [("ax", i64(0))], dict(keepdims=0))])
row("max_unpool", "MaxUnpool", [("x", [1, 1, 2, 2]), ("at", np.array([[[[0, 3], [9, 14]]]], np.int64))], kernel_shape=[2, 2], strides=[2, 2])
row("max_unpool_to", "MaxUnpool", [("x", [1, 1, 2, 2]), ("at", np.array([[[[0, 3], [9, 14]]]], np.int64)), ("to", i64(1, 1, 5, 5))], kernel_shape=[2, 2], strides=[2, 2])
row("reverse_sequence", "ReverseSequence", [("x", [4, 3, 2]), ("n", i64(4, 1, 3))], time_axis=0, batch_axis=1)
row("reverse_sequence_batch", "ReverseSequence", [("x", [3, 4]), ("n", [3])], ints=("n",), time_axis=1, batch_axis=0, notes="; input n 1 5")
for n in (8, 5):
    for inverse in (0, 1):
        row(f"dft_{n}_{inverse}", "DFT", [("x", [2, n, 3, 2])], opset=17, inverse=inverse)
        row(f"dft_real_{n}_{inverse}", "DFT", [("x", [2, n, 1])], opset=17, inverse=inverse)
        row(f"dft_length_{n}_{inverse}", "DFT", [("x", [2, 6, 2]), ("n", np.array(n)), ("ax", np.array(-2))], inverse=inverse)
        row(f"dft_one_sided_length_{n}_{inverse}", "DFT", [("x", [3, 2, 2 if inverse else 1]), ("n", np.array(n)), ("ax", np.array(0))], inverse=inverse, onesided=1)
    row(f"dft_one_sided_{n}", "DFT", [("x", [n, 2, 1]), None, ("ax", np.array(0))], onesided=1)
    row(f"dft_one_sided_inverse_{n}", "DFT", [("x", [2, n, 2])], onesided=1, inverse=1)
row("dft_one_sided_of_more", "DFT", [("x", [9, 2]), ("n", np.array(5)), ("ax", np.array(0))], onesided=1, inverse=1)
row("dft_symbolic", "DFT", [("x", ["n", "l", 2])], opset=17, notes="; dim n 2\n; dim l 6")
row("dft_one_sided_symbolic", "DFT", [("x", ["n", "l", 1])], onesided=1, notes="; dim n 2\n; dim l 6")
row("dft_one_sided_inverse_symbolic", "DFT", [("x", ["n", "l", 2])], onesided=1, inverse=1, notes="; dim n 2\n; dim l 4")
row("stft", "STFT", [("x", [2, 14, 1]), ("step", np.array(3)), ("w", [6])], opset=17)
row("stft_two_sided", "STFT", [("x", [1, 13, 1]), ("step", np.array(4)), ("w", [4]), ("n", np.array(5))], opset=17, onesided=0)
row("stft_complex", "STFT", [("x", [1, 12, 2]), ("step", np.array(2)), None, ("n", np.array(8))], opset=17, onesided=0)
row("stft_at_run_time", "STFT", [("x", ["b", "l", 1]), ("step", []), ("w", ["n"])], opset=17, ints=("step",),
    then=[("Tanh", [], {}), ("ReduceSum", [("ax", i64(1, 2))], dict(keepdims=0))], notes="; dim b 1\n; dim l 14\n; dim n 5\n; input step 2 4")
row("det", "Det", [("x", [2, 3, 3])], opset=11)
row("det_one", "Det", [("x", [2, 2])], opset=22)
row("inverse", "Inverse", [("x", [2, 3, 3])], domain="com.microsoft", notes="; input x 0.2 2.5")
for align in (0, 1):
    row(f"affine_grid_{align}", "AffineGrid", [("t", [2, 2, 3]), ("n", i64(2, 1, 3, 4))], align_corners=align)
    row(f"affine_grid_volume_{align}", "AffineGrid", [("t", [1, 3, 4]), ("n", i64(1, 2, 3, 1, 4))], align_corners=align)
row("col2im", "Col2Im", [("x", [2, 12, 16]), ("im", i64(5, 6)), ("b", i64(2, 3))], opset=18)
row("col2im_strided", "Col2Im", [("x", [1, 12, 12]), ("im", i64(6, 7)), ("b", i64(2, 3))], opset=18, strides=[2, 2], dilations=[2, 1], pads=[1, 0, 1, 2])
row("col2im_line", "Col2Im", [("x", [1, 6, 3]), ("im", i64(7)), ("b", i64(3))], opset=18, strides=[2])
row("array_feature_extractor", "ArrayFeatureExtractor", [("x", [3, 4]), ("at", i64(2, 0, 2))], domain="ai.onnx.ml",
    then=[("Mul", [("some", np.array([[1, 2, 3], [4, 5, 6], [7, 8, 9.0]]))], {}), ("ReduceSum", [], dict(keepdims=0))])

# -- Moves

row("gather_negative", "Gather", [("x", [4, 5]), ("i", [2, 2])], ints=("i",), axis=-1, notes="; input i -5 5")
row("gather_symbolic_first", "Gather", [("x", ["n", "l", 3]), ("i", np.array(0))], axis=1, notes="; dim n 2\n; dim l 4")
row("gather_symbolic_last", "Gather", [("x", ["n", "l", 3]), ("i", np.array(-1))], axis=1, notes="; dim n 2\n; dim l 4")
row("gather_elements", "GatherElements", [("x", [3, 4]), ("i", [2, 4])], ints=("i",), axis=0, notes="; input i -3 3")
row("gather_nd_batch", "GatherND", [("x", [2, 3, 4]), ("i", [2, 5, 1])], ints=("i",), batch_dims=1, notes="; input i -3 3")
for reduction in ("none", "add", "mul", "max", "min"):
    row(f"scatter_elements_{reduction}", "ScatterElements", [("x", [3, 4]), ("i", [2, 4]), ("u", [2, 4])], ints=("i",), reduction=reduction, axis=0, notes="; input i -3 3")
    row(f"scatter_nd_{reduction}", "ScatterND", [("x", [4, 3]), ("i", np.array([[2], [-4]], np.int64)), ("u", [2, 3])], reduction=reduction)
row("scatter_nd_twice_add", "ScatterND", [("x", [4, 3]), ("i", np.array([[2, 1], [2, 1], [0, -1]], np.int64)), ("u", [3])], reduction="add")
row("slice_backwards", "Slice", [("x", [5, 6]), ("a", i64(4, -1)), ("b", i64(-9, 0)), ("ax", i64(0, 1)), ("st", i64(-2, -3))])
row("slice_symbolic", "Slice", [("x", ["n", "l"]), ("a", i64(-1)), ("b", i64(-9223372036854775807)), ("ax", i64(1)), ("st", i64(-2))], notes="; dim n 2\n; dim l 5")
row("slice_symbolic_step", "Slice", [("x", ["n", "l"]), ("a", i64(1)), ("b", i64(9223372036854775807)), ("ax", i64(-1)), ("st", i64(3))], notes="; dim n 2\n; dim l 8")
for mode in ("constant", "edge", "reflect", "wrap"):
    row(f"pad_{mode}", "Pad", [("x", [3, 4]), ("p", i64(1, 2, 0, 1)), *([("v", [])] if mode == "constant" else [])], mode=mode)
    row(f"pad_{mode}_symbolic", "Pad", [("x", ["n", "l"]), ("p", i64(1, 2)), *([("v", [])] if mode == "constant" else [None]), ("ax", i64(1))], mode=mode, notes="; dim n 2\n; dim l 4")
row("pad_crops", "Pad", [("x", [4, 5]), ("p", i64(-1, 2, 1, -2))])
row("expand", "Expand", [("x", [3, 1]), ("to", i64(2, 1, 4))])
row("expand_symbolic", "Expand", [("x", [1, "l"]), ("to", i64(3, 1))], notes="; dim l 4")
row("where", "Where", [("cond", [3, 1]), ("x", [1, 4]), ("z", [3, 4])])
row("split", "Split", [("x", [6, 2]), ("n", i64(1, 3, 2))], 3, axis=0)
row("concat", "Concat", [("x", ["n", 2]), ("z", ["n", 3]), ("x", ["n", 2])], axis=-1, notes="; dim n 2")
row("tile", "Tile", [("x", [2, 3]), ("r", i64(2, 3))])
row("depth_to_space", "DepthToSpace", [("x", [1, 8, 2, 3])], blocksize=2, mode="CRD")
row("space_to_depth", "SpaceToDepth", [("x", [1, 2, 4, 6])], blocksize=2)
row("trilu", "Trilu", [("x", [2, 4, 4]), ("k", np.array(-1))], upper=0)
row("center_crop_pad", "CenterCropPad", [("x", [5, 3]), ("to", i64(3, 4))], opset=18)
row("eye_product", "Einsum", [("x", [3, 3])], equation="ii->i")

# -- Windows

row("max_pool_odd", "MaxPool", [("x", [2, 2, 7, 8])], kernel_shape=[3, 2], strides=[2, 3], pads=[1, 0, 0, 1], dilations=[2, 1], ceil_mode=1)
row("max_pool_symbolic", "MaxPool", [("x", ["n", 2, "l"])], kernel_shape=[3], strides=[2], pads=[1, 1], ceil_mode=1, notes="; dim n 2\n; dim l 8")
row("max_pool_same", "MaxPool", [("x", [1, 2, 5, 6])], kernel_shape=[3, 3], strides=[2, 2], auto_pad="SAME_LOWER")
row("average_pool_odd", "AveragePool", [("x", [2, 2, 7, 8])], kernel_shape=[3, 2], strides=[2, 3], pads=[1, 0, 1, 1], dilations=[2, 1], ceil_mode=1)
row("average_pool_counted", "AveragePool", [("x", [2, 2, 7, 8])], kernel_shape=[3, 3], strides=[2, 3], pads=[1, 1, 1, 1], count_include_pad=1, ceil_mode=1)
row("average_pool_symbolic", "AveragePool", [("x", ["n", 2, "l"])], kernel_shape=[4], strides=[3], pads=[1, 2], ceil_mode=1, notes="; dim n 2\n; dim l 8")
row("average_pool_symbolic_counted", "AveragePool", [("x", ["n", 2, "l"])], kernel_shape=[4], strides=[3], pads=[1, 2], count_include_pad=1, ceil_mode=1, notes="; dim n 2\n; dim l 8")
row("lp_pool", "LpPool", [("x", [1, 2, 6, 5])], kernel_shape=[2, 3], strides=[2, 1], p=3, notes="; input x 0.3 1.5", opset=18)
row("global_max_pool", "GlobalMaxPool", [("x", [2, 2, 3, 4])])
row("conv_groups", "Conv", [("x", [1, 4, 7, 6]), ("w", [6, 2, 3, 2]), ("b", [6])], group=2, strides=[2, 3], pads=[1, 0, 2, 1], dilations=[2, 1])
row("conv_symbolic", "Conv", [("x", ["n", 2, "l"]), ("w", [3, 2, 3]), ("b", [3])], strides=[2], pads=[1, 1], notes="; dim n 2\n; dim l 7")
row("conv_same", "Conv", [("x", [1, 2, 5, 6]), ("w", [3, 2, 2, 3])], strides=[2, 2], auto_pad="SAME_UPPER")
row("conv_transpose_odd", "ConvTranspose", [("x", [1, 4, 3, 4]), ("w", [4, 2, 3, 2]), ("b", [4])], group=2, strides=[2, 3], pads=[1, 0, 0, 1], dilations=[2, 1], output_padding=[1, 2])
row("conv_transpose_symbolic", "ConvTranspose", [("x", ["n", 2, "l"]), ("w", [2, 3, 4])], strides=[3], pads=[1, 2], output_padding=[1], notes="; dim n 2\n; dim l 4")
row("conv_transpose_shape", "ConvTranspose", [("x", [1, 2, 3, 3]), ("w", [2, 2, 3, 3])], strides=[2, 2], output_shape=[7, 6], auto_pad="SAME_UPPER")

# -- Norms, reductions, products

row("layer_norm", "LayerNormalization", [("x", [2, 3, 4]), ("s", [3, 4]), ("b", [3, 4])], axis=1, epsilon=0.1)
row("layer_norm_all", "LayerNormalization", [("x", [2, 3, 4]), ("s", [4])], 3, axis=-1, epsilon=0.1, stash_type=T.DOUBLE)
row("rms_norm", "RMSNormalization", [("x", [2, 3, 4]), ("s", [4])], opset=23, epsilon=0.1)
row("group_norm", "GroupNormalization", [("x", [2, 6, 3, 2]), ("s", [6]), ("b", [6])], opset=21, num_groups=3, epsilon=0.1)
row("group_norm_18", "GroupNormalization", [("x", [2, 6, 3, 2]), ("s", [3]), ("b", [3])], opset=18, num_groups=3, epsilon=0.1)
row("instance_norm", "InstanceNormalization", [("x", [2, 3, 5]), ("s", [3]), ("b", [3])], epsilon=0.1)
row("instance_norm_symbolic", "InstanceNormalization", [("x", ["n", 3, "l"]), ("s", [3]), ("b", [3])], epsilon=0.1, notes="; dim n 2\n; dim l 5")
row("lp_normalization", "LpNormalization", [("x", [3, 4])], axis=1, p=2)
row("mean_variance", "MeanVarianceNormalization", [("x", [2, 3, 2, 2])], axes=[0, 2, 3])
row("lrn", "LRN", [("x", [2, 5, 3, 2])], size=3, alpha=0.1, beta=0.75, bias=1.5)
row("batch_norm", "BatchNormalization", [("x", [3, 2, 4]), ("s", [2]), ("b", [2]), ("m", [2]), ("v", [2])], notes="; input v 0.5 2", epsilon=0.1)
row("softmax", "Softmax", [("x", ["n", "l"])], axis=-1, notes="; dim n 2\n; dim l 5")
row("log_softmax_axis", "LogSoftmax", [("x", [2, 3, 4])], axis=1)
row("softmax_flattened", "Softmax", [("x", [2, 3, 4])], axis=1, opset=11)
row("reduce_log_sum_exp", "ReduceLogSumExp", [("x", ["n", "l", 2]), ("ax", i64(1))], keepdims=0, notes="; dim n 2\n; dim l 4")
row("reduce_l1", "ReduceL1", [("x", ["n", "l"]), ("ax", i64(-1))], keepdims=0, notes="; dim n 2\n; dim l 4")
row("reduce_l2", "ReduceL2", [("x", ["n", "l"]), ("ax", i64(-1))], keepdims=0, notes="; dim n 2\n; dim l 4")
row("reduce_mean", "ReduceMean", [("x", ["n", "l"]), ("ax", i64(-1))], keepdims=0, notes="; dim n 2\n; dim l 4")
row("reduce_prod", "ReduceProd", [("x", ["n", "l", 2]), ("ax", i64(-2))], keepdims=0, notes="; dim n 2\n; dim l 4")
row("reduce_max", "ReduceMax", [("x", ["n", "l"]), ("ax", i64(1))], keepdims=0, notes="; dim n 2\n; dim l 4")
row("reduce_log_sum", "ReduceLogSum", [("x", [3, 4]), ("ax", i64(1))], keepdims=1, notes="; input x 0.2 2")
row("cumsum", "CumSum", [("x", ["n", "l"]), ("ax", np.array(-1))], exclusive=1, reverse=1, notes="; dim n 2\n; dim l 4")
row("gemm", "Gemm", [("x", [4, 3]), ("w", [5, 4]), ("c", [5])], transA=1, transB=1, alpha=0.5, beta=1.5)
row("einsum_batch", "Einsum", [("x", [2, 3, 4]), ("w", [2, 5, 4])], equation="bij,bkj->bik")
row("einsum_dots", "Einsum", [("x", [2, 3, 4]), ("w", [4, 5])], equation="...j,jk->...k")
row("einsum_outer", "Einsum", [("x", [2, 3]), ("w", [4]), ("z", [3, 4])], equation="ij,k,jk->ki")
row("einsum_sum", "Einsum", [("x", [2, 3, 4])], equation="ijk->j")
row("einsum_trace", "Einsum", [("x", [2, 3, 3])], equation="bii->b")
row("matmul_broadcast", "MatMul", [("x", ["n", 1, 2, 3]), ("w", [4, 3, 2])], notes="; dim n 2")
row("prelu", "PRelu", [("x", [2, 3, 4]), ("s", [3, 1])])
row("gelu_tanh", "Gelu", [("x", [3, 4])], approximate="tanh")
row("celu", "Celu", [("x", [3, 4])], alpha=0.7)
row("hard_sigmoid", "HardSigmoid", [("x", [3, 4])], alpha=0.3, beta=0.4)

# -- Recurrent ones: all directions, lengths, layouts

for op, gates in (("RNN", 1), ("GRU", 3), ("LSTM", 4)):
    for direction in ("forward", "reverse", "bidirectional"):
        d = 2 if direction == "bidirectional" else 1
        row(f"{op.lower()}_{direction}_lengths", op, [("x", [4, 3, 2]), ("w", [d, gates * 3, 2]), ("r", [d, gates * 3, 3]), ("b", [d, gates * 6]),
            ("n", np.array([4, 2, 1], np.int32)), ("h", [d, 3, 3]), *([("c", [d, 3, 3]), ("p", [d, 9])] if op == "LSTM" else [])],
            3 if op == "LSTM" else 2, hidden_size=3, direction=direction)
row("gru_before", "GRU", [("x", ["l", 2, 2]), ("w", [1, 9, 2]), ("r", [1, 9, 3]), ("b", [1, 18])], 2, hidden_size=3, linear_before_reset=1, notes="; dim l 3")
row("lstm_lengths_at_run_time", "LSTM", [("x", ["l", 3, 2]), ("w", [1, 12, 2]), ("r", [1, 12, 3]), None, ("n", [3])], 3, hidden_size=3, notes="; dim l 4\n; input n 1 5", ints=("n",))
row("lstm_layout", "LSTM", [("x", [2, 4, 2]), ("w", [1, 12, 2]), ("r", [1, 12, 3])], 3, hidden_size=3, layout=1)
row("rnn_clip", "RNN", [("x", [3, 2, 2]), ("w", [1, 3, 2]), ("r", [1, 3, 3])], 2, hidden_size=3, clip=0.8)
row("gru_activations", "GRU", [("x", [3, 2, 2]), ("w", [1, 9, 2]), ("r", [1, 9, 3])], 2, hidden_size=3, activations=["HardSigmoid", "Softsign"], activation_alpha=[0.2], activation_beta=[0.5])

# -- Attention

row("attention", "Attention", [("q", [2, 2, 3, 4]), ("k", [2, 2, 5, 4]), ("v", [2, 2, 5, 4])], opset=23)
row("attention_mask", "Attention", [("q", [2, 2, 3, 4]), ("k", [2, 2, 5, 4]), ("v", [2, 2, 5, 4]), ("m", [3, 5])], opset=23, scale=0.3)
row("attention_causal", "Attention", [("q", [2, 4, 3, 4]), ("k", [2, 2, 5, 4]), ("v", [2, 2, 5, 6])], opset=23, is_causal=1)
row("attention_softcap", "Attention", [("q", [1, 2, 3, 4]), ("k", [1, 2, 5, 4]), ("v", [1, 2, 5, 4]), ("m", [1, 2, 3, 5])], opset=23, softcap=2.0)
row("attention_merged", "Attention", [("q", [2, 3, 8]), ("k", [2, 5, 4]), ("v", [2, 5, 6])], opset=23, q_num_heads=4, kv_num_heads=2)
row("attention_past", "Attention", [("q", [1, 2, 3, 4]), ("k", [1, 2, 3, 4]), ("v", [1, 2, 3, 4]), None, ("pk", [1, 2, 2, 4]), ("pv", [1, 2, 2, 4])], 3, opset=23, is_causal=1)
row("attention_symbolic", "Attention", [("q", ["n", 2, "s", 4]), ("k", ["n", 2, "t", 4]), ("v", ["n", 2, "t", 4])], opset=23, is_causal=1, notes="; dim n 2\n; dim s 3\n; dim t 3")
row("rotary", "RotaryEmbedding", [("x", [1, 2, 3, 4]), ("cs", [1, 3, 2]), ("sn", [1, 3, 2])], opset=23)

# -- What ONNX Runtime's optimiser writes

MS = dict(domain="com.microsoft")
LINE = "; dim n 2\n; dim s 3"
row("ms_bias_gelu", "BiasGelu", [("x", ["n", "s", 4]), ("b", [4])], notes=LINE, **MS)
row("ms_fast_gelu", "FastGelu", [("x", ["n", "s", 4]), ("b", [4])], notes=LINE, **MS)
row("ms_quick_gelu", "QuickGelu", [("x", [3, 4])], alpha=1.5, **MS)
row("ms_bias_split_gelu", "BiasSplitGelu", [("x", [2, 3, 8]), ("b", [8])], **MS)
row("ms_skip_layer_norm", "SkipLayerNormalization", [("x", ["n", "s", 4]), ("skip", ["n", "s", 4]), ("g", [4]), ("b", [4]), ("c", [4])], outputs=["y", "", "", "sum"], notes=LINE, epsilon=1e-5, **MS)
row("ms_skip_rms_norm", "SkipSimplifiedLayerNormalization", [("x", ["n", "s", 4]), ("skip", ["n", "s", 4]), ("g", [4])], notes=LINE, epsilon=1e-5, **MS)
row("ms_simplified_norm", "SimplifiedLayerNormalization", [("x", ["n", "s", 4]), ("g", [4])], notes=LINE, epsilon=1e-5)
row("ms_group_norm", "GroupNorm", [("x", [2, 3, 2, 4]), ("g", [4]), ("b", [4])], groups=2, activation=1, epsilon=1e-4, **MS)
row("ms_skip_group_norm", "SkipGroupNorm", [("x", [2, 3, 2, 4]), ("g", [4]), ("b", [4]), ("skip", [2, 4]), ("c", [4])], groups=2, activation=0, epsilon=1e-4, **MS)
row("ms_fused_matmul", "FusedMatMul", [("x", [3, 2, 4]), ("w", [5, 2, 4])], transB=1, transBatchA=1, transBatchB=1, alpha=0.5, **MS)
row("ms_fused_gemm", "FusedGemm", [("x", [3, 4]), ("w", [5, 4]), ("c", [5])], transB=1, activation="LeakyRelu", activation_alpha=0.2, **MS)
row("ms_fused_conv", "FusedConv", [("x", [1, 2, 4, 4]), ("w", [3, 2, 3, 3]), ("b", [3]), ("z", [1, 3, 4, 4])], pads=[1, 1, 1, 1], activation="Tanh", **MS)
row("ms_attention", "Attention", [("x", ["n", "s", 3]), ("w", [3, 24]), ("b", [24])], num_heads=2, unidirectional=1, notes=LINE, **MS)
row("ms_attention_past", "Attention", [("x", [2, 3, 3]), ("w", [3, 24]), ("b", [24]), ("m", np.array([3, 2, 0, 1], np.int32)), ("p", [2, 2, 2, 2, 4])], 2, num_heads=2, **MS)
row("ms_multi_head", "MultiHeadAttention", [("q", ["n", "s", 8]), ("k", ["n", "t", 8]), ("v", ["n", "t", 6]), ("b", [22])], num_heads=2, notes=LINE + "\n; dim t 4", **MS)
row("ms_multi_head_past", "MultiHeadAttention", [("q", [2, 3, 8]), ("k", [2, 3, 8]), ("v", [2, 3, 8]), None, None, ("a", [1, 2, 3, 5]), ("pk", [2, 2, 2, 4]), ("pv", [2, 2, 2, 4])], 3, num_heads=2,
    unidirectional=1, **MS)
row("ms_group_query", "GroupQueryAttention", [("q", ["n", "s", 16]), ("k", ["n", "s", 8]), ("v", ["n", "s", 8]), None, None, ("len", np.array([2, 2], np.int32)), ("all", np.array([3], np.int32)),
    ("cs", [5, 2]), ("sn", [5, 2])], num_heads=4, kv_num_heads=2, do_rotary=1, softcap=2.0, local_window_size=2, notes=LINE, **MS)
row("ms_group_query_step", "GroupQueryAttention", [("q", [2, 1, 16]), ("k", [2, 1, 8]), ("v", [2, 1, 8]), ("pk", [2, 2, 5, 4]), ("pv", [2, 2, 5, 4]), ("len", np.array([3, 2], np.int32)),
    ("all", np.array([4], np.int32))], num_heads=4, kv_num_heads=2, smooth_softmax=1, **MS)
row("ms_rotary", "RotaryEmbedding", [("x", [2, 3, 8]), ("at", i64(1)), ("cs", [5, 2]), ("sn", [5, 2])], interleaved=1, **MS)

# -- Gates and recurrences of hybrid decoders
row("ms_gated_norm", "GatedRMSNorm", [("x", ["n", "s", 4]), ("g", [4]), ("z", ["n", "s", 4])], notes=LINE, epsilon=1e-5, **MS)
row("ms_gated_norm_sigmoid", "GatedRMSNorm", [("x", [2, 3, 6]), ("g", [3]), ("z", [2, 3, 6])], activation="sigmoid", epsilon=1e-5, **MS)
row("ms_gated_add", "GatedAdd", [("x", ["n", "s", 4]), ("y", ["n", "s", 4]), ("z", ["n", "s", 1])], notes=LINE, **MS)
row("ms_scaled_silu", "ScaledSiLU", [("x", ["n", "s", 4])], notes=LINE, alpha=1.5, **MS)
row("ms_branchwise_norm", "BranchwiseRMSNorm", [("x", ["n", "s", 6]), ("g", [6])], notes=LINE, num_branches=2, epsilon=1e-3, **MS)
row("ms_linear_attention_gate", "LinearAttentionGate", [("a", ["n", "s", 4]), ("b", [4]), ("g", [4]), ("z", ["n", "s", 4])], 2, notes=LINE, **MS)
PLACES = np.array([[[0, 1, 2], [3, 4, 0]], [[1, 1, 2], [0, 2, 4]], [[2, 0, 3], [1, 1, 2]]], np.int64)
for layout in (0, 1):
    for pairs in (0, 1):
        row(f"ms_rotary_of_three_{layout}_{pairs}", "MRotaryEmbedding", [("x", [2, 3, 16]), ("at", PLACES), ("cs", [5, 4]), ("sn", [5, 4])], mrope_section=[2, 1, 1], mrope_layout=layout,
            interleaved=pairs, num_heads=2, **MS)
for act, wide in (("none", 1), ("silu", 1), ("swish", 2)):
    row(f"ms_causal_conv_{act}_{wide}", "CausalConvWithState", [("x", ["n", 3, "s"]), ("w", [3, 1, 3]), ("b", [3]), ("p", ["n", 3, 2 * wide])], 2, notes=LINE, activation=act, dilation=wide, **MS)
row("ms_causal_conv_first", "CausalConvWithState", [("x", [2, 3, 5]), ("w", [3, 1, 3])], 2, **MS)
for rule in ("linear", "gated", "delta", "gated_delta"):
    row(f"ms_linear_attention_{rule}", "LinearAttention", [("q", ["n", "s", 8]), ("k", ["n", "s", 4]), ("v", ["n", "s", 6]), ("p", ["n", 2, 2, 3]), ("d", ["n", "s", 2]) if "gated" in rule else None,
        *([("z", ["n", "s", 2])] if "delta" in rule else [])], 2, notes=LINE, q_num_heads=4, kv_num_heads=2, update_rule=rule, **MS)
row("ms_gather_nd", "GatherND", [("x", [3, 4]), ("at", np.array([[0, 1], [2, 3], [0, 1]], np.int64))], **MS)


def main():
    os.makedirs(sys.argv[1], exist_ok=True)
    for name, r in ROWS.items():
        try:
            onnx.save(onnx.shape_inference.infer_shapes(model(*r)), f"{sys.argv[1]}/{name}.onnx")
        except Exception as e:
            sys.exit(f"{name}: {e}")
        with open(f"{sys.argv[1]}/{name}.notes", "w") as f:
            print(r[3], file=f)
    whole = os.environ.get("TCCC_TEST_FULL")
    for name, m, notes in [*sequence_grads.models(200 if whole else 20), *size_grads.models(200 if whole else 12)]:
        onnx.save(m, f"{sys.argv[1]}/{name}.onnx")
        with open(f"{sys.argv[1]}/{name}.notes", "w") as f:
            print(notes, file=f)


main()
