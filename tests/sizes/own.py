#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Cases of operators that no other folder of cases has, without outputs.

usage: own.py OUT
"""
import os, sys
import numpy as np, onnx
from onnx import TensorProto as T, helper as h, numpy_helper

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "onnx"))
from case_folder import write_case

rng = np.random.default_rng(5)


def f(*shape):
    return rng.standard_normal(shape).astype(np.float32)


ML, MS, TF = "ai.onnx.ml", "com.microsoft", "ai.onnx.converters.tensorflow"
CASES = {       # operator, _ and what of it: (domain, operands, type of the result, attributes)
    "CategoryMapper": (ML, [np.array([[1, 2, 3], [4, 1, 9]])], T.STRING, dict(cats_int64s=[1, 2, 3], cats_strings=["a", "b", "c"], default_string="none")),
    "FeatureVectorizer": (ML, [f(3, 2), f(3, 4)], T.FLOAT, dict(inputdimensions=[2, 4])),
    "Imputer": (ML, [np.array([[1, np.nan, 3], [np.nan, 5, 6]], np.float32)], T.FLOAT, dict(imputed_value_floats=[7.0, 8.0, 9.0], replaced_value_float=float("nan"))),
    "LinearRegressor": (ML, [f(4, 3)], T.FLOAT, dict(coefficients=[.5, -1., 2., 1., .25, -.5], intercepts=[.1, -.2], targets=2)),
    "LinearRegressor_row": (ML, [f(3)], T.FLOAT, dict(coefficients=[.5, -1., 2.], intercepts=[.1])),
    "SVMRegressor": (ML, [f(4, 3)], T.FLOAT, dict(kernel_type="RBF", kernel_params=[.5, 0., 3.], support_vectors=[.5, -1., 2., 1., .25, -.5], coefficients=[1., -2.], n_supports=2, rho=[.3])),
    "SimplifiedLayerNormalization": ("", [f(2, 3, 8), f(8)], T.FLOAT, dict(axis=-1)),
    "RandomNormal": ("", [], T.FLOAT, dict(shape=[3, 5], seed=2.0)),
    "RandomNormalLike": ("", [f(3, 5)], T.FLOAT, dict(seed=2.0, mean=1.0)),
    "RandomUniform": ("", [], T.FLOAT, dict(shape=[3, 5], seed=2.0, low=-1.0)),
    "RandomUniformLike": ("", [f(3, 5)], T.FLOAT, dict(seed=2.0, high=3.0)),
    "ZipMap": (ML, [f(4, 3)], T.FLOAT, dict(classlabels_strings=["a", "b", "c"])),
    "ZipMap_row": (ML, [f(2)], T.FLOAT, dict(classlabels_int64s=[0, 1])),
    "Erfc": (TF, [f(3, 5)], T.FLOAT, {}),
    **{op: (TF, [f(3, 5)], T.FLOAT, {}) for op in "BesselI0 BesselI0e BesselI1 BesselI1e Digamma Expm1 Lgamma".split()},
    **{op: (TF, [np.abs(f(3, 5)) / 4], T.FLOAT, {}) for op in "Erfinv Log1p Ndtri".split()},
    "Bucketize": (TF, [f(3, 5)], T.INT32, dict(boundaries=[-1.0, 0.0, 0.5])),
    "Bitcast": (TF, [f(3, 5)], T.INT32, dict(type=T.INT32)),
    **{op: (TF, [np.array([[1, -2, 3], [7, 6, 5]]), np.array([3, -1, 4])], T.INT64, {}) for op in "BitwiseAnd BitwiseOr BitwiseXor".split()},
    "BroadcastArgs": (TF, [np.array([1, 3, 4]), np.array([2, 3, 1])], T.INT64, {}),
    "Cross": (TF, [f(4, 3), f(4, 3)], T.FLOAT, {}),
    **{op: (TF, [np.abs(f(2, 4, 3)) / 4], T.FLOAT, {}) for op in "HSVToRGB RGBToHSV".split()},
    "InTopKV2": (TF, [f(4, 6), np.array([0, 5, 2, 3]), np.array(2)], T.BOOL, {}),
    "Qr": (TF, [f(2, 5, 3)], T.FLOAT, {}),
    "Qr_full": (TF, [f(3, 4)], T.FLOAT, dict(full_matrices=1)),
    "MatrixInverse": (TF, [f(2, 4, 4)], T.FLOAT, {}),
    "ComplexAbs": (TF, [f(2, 3, 4)], T.FLOAT, {}),
    "Dilation2D": (TF, [f(2, 5, 6, 3), f(3, 2, 3)], T.FLOAT, dict(strides=[1, 2, 1, 1], rates=[1, 1, 2, 1], padding="SAME")),
    "Dilation2D_valid": (TF, [f(2, 5, 6, 3), f(3, 2, 3)], T.FLOAT, dict(strides=[1, 2, 3, 1], rates=[1, 1, 1, 1], padding="VALID")),
}


def one_vs_rest():
    """As scikit-learn's: a classifier of two classes for each class, the second columns of their probabilities side by side."""
    classes, w = 10, f(10, 12)
    nodes = [h.make_node("LinearClassifier", ["x"], [f"l{k}", f"p{k}"], domain=ML, coefficients=np.concatenate([-w[k], w[k]]).tolist(), intercepts=[-.1, .1], classlabels_ints=[0, 1],
                         post_transform="LOGISTIC", multi_class=1) for k in range(classes)]
    nodes += [h.make_node("Slice", [f"p{k}", "one", "two", "one"], [f"d{k}"]) for k in range(classes)]
    nodes += [h.make_node("Concat", [f"d{k}" for k in range(classes)], ["j"], axis=1), h.make_node("ArgMax", ["j"], ["y"], axis=1)]
    graph = h.make_graph(nodes, "one_vs_rest", [h.make_tensor_value_info("x", T.FLOAT, ["N", 12])], [h.make_tensor_value_info("y", T.INT64, None)],
                         [h.make_tensor("one", T.INT64, [1], [1]), h.make_tensor("two", T.INT64, [1], [2])])
    return h.make_model(graph, opset_imports=[h.make_opsetid("", 17), h.make_opsetid(ML, 1)], ir_version=9), {"x": f(5, 12)}


def transform():
    """What tf2onnx leaves of complex numbers inside of a model."""
    nodes = [h.make_node("RFFT", ["x", "n"], ["z"], domain=TF), h.make_node("Real", ["z"], ["a"], domain=TF), h.make_node("Imag", ["z"], ["b"], domain=TF),
             h.make_node("Complex", ["b", "a"], ["w"], domain=TF), h.make_node("ComplexAbs", ["w"], ["m"], domain=TF), h.make_node("Imag", ["w"], ["c"], domain=TF), h.make_node("Add", ["m", "c"], ["y"])]
    graph = h.make_graph(nodes, "transform", [h.make_tensor_value_info("x", T.FLOAT, [3, 10])], [h.make_tensor_value_info("y", T.FLOAT, None)], [h.make_tensor("n", T.INT32, [1], [8])])
    return h.make_model(graph, opset_imports=[h.make_opsetid("", 17), h.make_opsetid(TF, 1)], ir_version=9), {"x": f(3, 10)}


def spectrum(op):
    """A transform of complex numbers, which only the inside of a model has."""
    length = {"n": np.array([6], np.int32)} if op == "IRFFT" else {}
    nodes = [h.make_node("Complex", ["a", "b"], ["z"], domain=TF), h.make_node(op, ["z", *length], ["w" if not length else "y"], domain=TF)]
    if not length:
        nodes += [h.make_node("Real", ["w"], ["r"], domain=TF), h.make_node("Imag", ["w"], ["i"], domain=TF), h.make_node("Concat", ["r", "i"], ["y"], axis=0)]
    graph = h.make_graph(nodes, op, [h.make_tensor_value_info(n, T.FLOAT, [2, 3, 4]) for n in "ab"], [h.make_tensor_value_info("y", T.FLOAT, None)], [numpy_helper.from_array(v, k) for k, v in length.items()])
    return h.make_model(graph, opset_imports=[h.make_opsetid("", 17), h.make_opsetid(TF, 1)], ir_version=9), {"a": f(2, 3, 4), "b": f(2, 3, 4)}


def factor():
    """Cholesky's, of what is positive definite at any size."""
    nodes = [h.make_node("Transpose", ["x"], ["t"]), h.make_node("MatMul", ["x", "t"], ["s"]), h.make_node("EyeLike", ["s"], ["e"]), h.make_node("Add", ["s", "e"], ["a"]), h.make_node("Cholesky", ["a"], ["y"], domain=TF)]
    graph = h.make_graph(nodes, "factor", [h.make_tensor_value_info("x", T.FLOAT, [4, 3])], [h.make_tensor_value_info("y", T.FLOAT, None)])
    return h.make_model(graph, opset_imports=[h.make_opsetid("", 17), h.make_opsetid(TF, 1)], ir_version=9), {"x": f(4, 3)}


def wrapped(op):
    """Integers that overflow, of sizes and of constants: data as any, which wrap, but no sizes."""
    nodes = [h.make_node("Shape", ["x"], ["s"]), h.make_node(op, ["s", "most"], ["a"]), h.make_node(op, ["least", "most"], ["b"]), h.make_node("Concat", ["a", "b"], ["y"], axis=0)]
    graph = h.make_graph(nodes, "wrapped", [h.make_tensor_value_info("x", T.FLOAT, [3, 4])], [h.make_tensor_value_info("y", T.INT64, None)],
                         [numpy_helper.from_array(np.array(v), k) for k, v in (("most", [(1 << 63) - 1, 1]), ("least", [-(1 << 63), 5]))])
    return h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=9), {"x": f(3, 4)}


def factors(whole):
    """Both factors, whose signs are told by each other alone."""
    nodes = [h.make_node("Qr", ["x"], ["q", "r"], name="Qr", domain=TF, full_matrices=whole), h.make_node("MatMul", ["q", "r"], ["y"])]
    graph = h.make_graph(nodes, "factors", [h.make_tensor_value_info("x", T.FLOAT, [2, 5, 3])], [h.make_tensor_value_info(n, T.FLOAT, None) for n in "qry"])
    return h.make_model(graph, opset_imports=[h.make_opsetid("", 17), h.make_opsetid(TF, 1)], ir_version=9), {"x": f(2, 5, 3)}


def one_node(op, opset, operands, **attrs):
    graph = h.make_graph([h.make_node(op, list(operands), ["y"], name=op, **attrs)], op, [h.make_tensor_value_info(n, T.FLOAT, v.shape) for n, v in operands.items()],
                         [h.make_tensor_value_info("y", T.FLOAT, None)])
    return h.make_model(graph, opset_imports=[h.make_opsetid("", opset)], ir_version=8), operands


def norms_of_heads(width):
    """Heads of 4, normalised with weights of `width`."""
    data = {"q": f(1, 3, 8), "k": f(1, 3, 4), "v": f(1, 3, 4), "l": np.array([2], np.int32), "w": f(width), "u": f(4)}
    total = h.make_node("Constant", [], ["t"], value=h.make_tensor("t", T.INT32, [], [3]))
    node = h.make_node("GroupQueryAttention", ["q", "k", "v", "", "", "l", "t", "", "", "", "", "", "", "", "w", "u"], ["y", "pk", "pv"], domain=MS, num_heads=2, kv_num_heads=1)
    graph = h.make_graph([total, node], "g", [h.make_tensor_value_info(n, h.np_dtype_to_tensor_dtype(v.dtype), v.shape) for n, v in data.items()], [h.make_tensor_value_info(n, T.FLOAT, None) for n in node.output])
    return h.make_model(graph, opset_imports=[h.make_opsetid("", 18), h.make_opsetid(MS, 1)], ir_version=9), data


def lengths_side_by_side():
    """Rows that conditions choose, beside rows that others choose when the product of the first is there already."""
    nodes, values = [], {"a": f(4, 3), "b": f(4, 3), "s": np.array([1], np.int64), "z": np.array([0], np.int64), "n": np.float32(0), "m": np.float32(-1)}
    nodes.append(h.make_node("ReduceSum", ["x", "s"], ["sum"], keepdims=0))
    for w, limit, y in (("a", "n", "ya"), ("b", "m", "yb")):
        nodes += [h.make_node("Greater", ["sum", limit], [w + "is"]), h.make_node("NonZero", [w + "is"], [w + "at"]), h.make_node("Squeeze", [w + "at", "z"], [w + "i"]),
                  h.make_node("Gather", ["x", w + "i"], [w + "rows"]), h.make_node("MatMul", [w + "rows", w], [y])]
    nodes.append(h.make_node("Concat", ["ya", "yb"], ["y"], axis=0))
    graph = h.make_graph(nodes, "g", [h.make_tensor_value_info("x", T.FLOAT, ["N", 4])], [h.make_tensor_value_info("y", T.FLOAT, None)], [numpy_helper.from_array(np.asarray(v), k) for k, v in values.items()])
    return h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=9), {"x": f(5, 4)}


MOVERS = {      # a copy whose indices are divided by sizes: nodes from x (2, 3, 4) to m
    "tile": [h.make_node("Tile", ["x", "times"], ["m"])],
    "flat": [h.make_node("Reshape", ["x", "flat"], ["m"])],
    "merged": [h.make_node("Transpose", ["x"], ["t"], perm=[0, 2, 1]), h.make_node("Reshape", ["t", "merged"], ["r"]), h.make_node("Unsqueeze", ["r", "zero"], ["m"])],
}
READERS = {     # and who reads beyond its ends
    "pad": [h.make_node("Pad", ["m", "pads"], ["y"])],
    "max_pool": [h.make_node("MaxPool", ["m"], ["y", "at"], kernel_shape=[2], pads=[1, 1])],
    "average_pool": [h.make_node("AveragePool", ["m"], ["y"], kernel_shape=[3], pads=[2, 2], count_include_pad=1)],
    "conv": [h.make_node("Conv", ["m", "w"], ["y"], pads=[2, 2])],
    "slice": [h.make_node("Concat", ["m", "m"], ["c"], axis=2), h.make_node("Pad", ["c", "pads"], ["y"], mode="edge")],
}


def copied(mover, reader):
    nodes = MOVERS[mover] + READERS[reader]
    values = {"times": np.array([1, 1, 2]), "flat": np.array([1, 1, -1]), "merged": np.array([0, -1]), "zero": np.array([0]), "pads": np.array([0, 0, 2, 0, 0, 1])}
    data = {"x": f(2, 3, 4)} | ({"w": f(2, {"tile": 3, "flat": 1, "merged": 2}[mover], 3)} if reader == "conv" else {}) | ({"times": values.pop("times")} if mover == "tile" else {})
    used = {i for n in nodes for i in n.input}
    graph = h.make_graph(nodes, "g", [h.make_tensor_value_info(n, h.np_dtype_to_tensor_dtype(v.dtype), v.shape) for n, v in data.items()],
                         [h.make_tensor_value_info(o, T.INT64 if o == "at" else T.FLOAT, None) for o in nodes[-1].output], [numpy_helper.from_array(v, k) for k, v in values.items() if k in used])
    return h.make_model(graph, opset_imports=[h.make_opsetid("", 18)], ir_version=8), data


def of_other_lengths():
    """A Scan that yields as much of each row as a count says: where counts differ, it is no tensor."""
    body = h.make_graph([h.make_node("Unsqueeze", ["n", "axes"], ["to"]), h.make_node("Slice", ["row", "axes", "to"], ["part"])], "body",
                        [h.make_tensor_value_info("row", T.FLOAT, ["M"]), h.make_tensor_value_info("n", T.INT64, [])], [h.make_tensor_value_info("part", T.FLOAT, ["L"])],
                        [numpy_helper.from_array(np.array([0], np.int64), "axes")])
    graph = h.make_graph([h.make_node("Scan", ["x", "counts"], ["y"], name="rows", body=body, num_scan_inputs=2)], "g",
                         [h.make_tensor_value_info("x", T.FLOAT, [3, 4]), h.make_tensor_value_info("counts", T.INT64, [3])], [h.make_tensor_value_info("y", T.FLOAT, [3, "L"])])
    return h.make_model(graph, opset_imports=[h.make_opsetid("", 20)], ir_version=9), {"x": f(3, 4), "counts": np.array([2, 2, 2])}


def left_out():
    """Wrong wherever sizes broadcast: no row has as many numbers as there are labels."""
    nodes = [h.make_node("Expand", ["x", "none"], ["e"]), h.make_node("Reshape", ["e", "flat"], ["r"]), h.make_node("ZipMap", ["r"], ["y"], domain=ML, classlabels_strings=["a", "b", "c"])]
    graph = h.make_graph(nodes, "g", [h.make_tensor_value_info("x", T.FLOAT, ["N", "M"])], [h.make_tensor_value_info("y", T.FLOAT, None)],
                         [numpy_helper.from_array(np.array(v), k) for k, v in (("none", [0, 1]), ("flat", [-1]))])
    return h.make_model(graph, opset_imports=[h.make_opsetid("", 17), h.make_opsetid(ML, 1)], ir_version=9), {"x": f(1, 3)}


def places():
    """Elements that Resize takes at quotients which may be whole numbers, by sizes and by scales."""
    nodes, constants = [], {}
    for k, (kind, v) in enumerate([("sizes", n) for n in (3, 5, 7, 10)] + [("scales", s) for s in (.2, .7, 3.)]):
        constants[f"v{k}"] = np.array([v], np.int64 if kind == "sizes" else np.float32)
        names = ["x", "", "", f"v{k}"] if kind == "sizes" else ["x", "", f"v{k}"]
        nodes += [h.make_node("Resize", names, [f"{c}{k}"], mode="nearest", nearest_mode="floor", coordinate_transformation_mode=c) for c in ("half_pixel", "asymmetric")]
    outs = [h.make_tensor_value_info(n.output[0], T.FLOAT, None) for n in nodes]
    inits = [numpy_helper.from_array(v, k) for k, v in constants.items()]
    graph = h.make_graph(nodes, "g", [h.make_tensor_value_info("x", T.FLOAT, [15])], outs, inits)
    return h.make_model(graph, opset_imports=[h.make_opsetid("", 19)], ir_version=9), {"x": f(15)}


MODELS = {      # what once fell, and is no operator by itself
    **{f"copied_{m}_{r}": (lambda m=m, r=r: copied(m, r)) for m in MOVERS for r in READERS},
    "norms_of_heads": lambda: norms_of_heads(4),
    "norms_that_do_not_fit": lambda: norms_of_heads(3),
    "one_vs_rest": one_vs_rest,
    "left_out": left_out,
    "of_other_lengths": of_other_lengths,
    "lengths_side_by_side": lengths_side_by_side,
    "places": places,
    "empty_beside": lambda: one_node("Hardmax", 7, {"x": f(4, 4, 1, 0, 4)}, axis=4),
    "kernel_shape": lambda: one_node("Conv", 11, {"x": f(1, 2, 5, 6), "w": f(4, 2, 3, 2), "b": f(4)}, kernel_shape=[3, 2]),
    # operators as opsets 1 to 6 have them (compiler/onnx/op_old.c)
    "old_aligned": lambda: one_node("Add", 6, {"x": f(2, 3, 4, 5), "y": f(3, 4)}, broadcast=1, axis=1),
    "old_same": lambda: one_node("Mul", 6, {"x": f(3, 4), "y": f(3, 4)}),
    "old_suffix": lambda: one_node("Pow", 1, {"x": abs(f(2, 3, 4)), "y": f(4)}, broadcast=1),
    "old_concat": lambda: one_node("Concat", 1, {"x": f(2, 3, 4), "y": f(2, 1, 4)}),
    "old_pad": lambda: one_node("Pad", 1, {"x": f(3, 4)}, paddings=[1, 0, 2, 1], value=0.5),
    "old_tile": lambda: one_node("Tile", 5, {"x": f(3, 4), "tiles": np.float32([3]), "axis": np.float32([1])}),
    "old_upsample": lambda: one_node("Upsample", 6, {"x": f(1, 2, 3, 4)}, height_scale=2.0, width_scale=1.5, mode="bilinear"),
    "old_image": lambda: one_node("ImageScaler", 7, {"x": f(1, 3, 4, 5)}, scale=2.0, bias=[1.0, 2.0, 3.0]),
    "old_crop": lambda: one_node("Crop", 7, {"x": f(1, 3, 4, 5)}, border=[1, 0, 1, 2]),
    "old_crop_to": lambda: one_node("Crop", 7, {"x": f(1, 3, 4, 5)}, border=[1, 0, 1, 2], scale=[2, 2]),
    "old_affine": lambda: one_node("Affine", 7, {"x": f(3, 4)}, alpha=2.0, beta=1.0),
    "old_scale": lambda: one_node("Scale", 7, {"x": f(3, 4)}, scale=2.0),
    "old_softplus": lambda: one_node("ParametricSoftplus", 7, {"x": f(3, 4)}, alpha=2.0, beta=0.5),
    "old_tanh": lambda: one_node("ScaledTanh", 7, {"x": f(3, 4)}, alpha=2.0, beta=0.5),
    "old_mvn": lambda: one_node("MeanVarianceNormalization", 7, {"x": f(2, 3, 4, 5)}, across_channels=1),
    "transform": transform,
    **{op: (lambda op=op: spectrum(op)) for op in "FFT FFT2D FFT3D IFFT IFFT2D IFFT3D IRFFT".split()},
    "factor": factor,
    **{f"wrapped_{op}": (lambda op=op: wrapped(op)) for op in ("Add", "Sub", "Mul")},
    "factors": lambda: factors(0),
    "factors_whole": lambda: factors(1),
    "old_elements": lambda: one_node("BatchNormalization", 6, {"x": f(2, 3, 4), "s": f(3, 4), "b": f(3, 4), "m": f(3, 4), "v": abs(f(3, 4))}, spatial=0),
    "features_of_rows": lambda: (h.make_model(h.make_graph([h.make_node("ArrayFeatureExtractor", ["x", "i"], ["y"], domain=ML)], "g",
                                 [h.make_tensor_value_info("x", T.FLOAT, [2, 1, 4]), h.make_tensor_value_info("i", T.INT64, [3])], [h.make_tensor_value_info("y", T.FLOAT, None)]),
                                 opset_imports=[h.make_opsetid("", 9), h.make_opsetid(ML, 1)], ir_version=8), {"x": f(2, 1, 4), "i": np.array([2, 0, 3])}),
}


def main(out):
    for name, make in MODELS.items():
        model, operands = make()
        write_case(os.path.join(out, name), model, [(operands, {})])
    for op, (domain, operands, kind, attrs) in CASES.items():
        names = [f"x{k}" for k in range(len(operands))]
        nodes = [h.make_node(op.split("_")[0], names, ["y0"], name=op, domain=domain, **attrs)]
        inputs = [h.make_tensor_value_info(n, h.np_dtype_to_tensor_dtype(v.dtype), v.shape) for n, v in zip(names, operands)]
        if not operands:        # a case has an input
            nodes, inputs = [h.make_node(op, [], ["r"], name=op, domain=domain, **attrs), h.make_node("Add", ["r", "x0"], ["y0"])], [h.make_tensor_value_info("x0", T.FLOAT, [1])]
            names, operands = ["x0"], [f(1)]
        graph = h.make_graph(nodes, op, inputs, [h.make_empty_tensor_value_info("y0")])
        graph.output[0].type.tensor_type.elem_type = kind
        model = h.make_model(graph, opset_imports=[h.make_opsetid("", 20), h.make_opsetid(ML, 3), h.make_opsetid(TF, 1)], ir_version=9)
        write_case(os.path.join(out, op), model, [(dict(zip(names, operands)), {})])


if __name__ == "__main__":
    main(sys.argv[1])
