#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Small models of each quantised operator of domain com.microsoft, and of chains of ONNX's own, in the official suite's layout.

usage: qlinear_cases.py DIR

Outputs are ONNX Runtime's. Bytes may differ by one quantum where a value lies at a tie; results are made floats to be compared so.
"""
import os, sys
import numpy as np, onnx, onnxruntime
from onnx import TensorProto as T, helper as h, numpy_helper
from case_folder import write_case

rng = np.random.default_rng(7)
out = sys.argv[1]
TYPES = {np.dtype("uint8"): T.UINT8, np.dtype("int8"): T.INT8, np.dtype("float32"): T.FLOAT, np.dtype("int32"): T.INT32, np.dtype("bool"): T.BOOL}


def byte(*shape, signed=False):
    return rng.integers(-128 if signed else 0, 128 if signed else 256, shape).astype(np.int8 if signed else np.uint8)


def save(name, nodes, inputs, constants, outputs, tol="0 1.01"):
    if T.FLOAT not in outputs.values():
        nodes = nodes + [h.make_node("DequantizeLinear", ["r", "unit"], ["real"])]
        constants = {**constants, "unit": np.asarray(1, np.float32)}
        outputs = {"real": T.FLOAT}
    graph = h.make_graph(nodes, name, [h.make_tensor_value_info(k, TYPES[v.dtype], v.shape) for k, v in inputs.items()],
                         [h.make_tensor_value_info(k, t, None) for k, t in outputs.items()], [numpy_helper.from_array(v, k) for k, v in constants.items()])
    model = h.make_model(graph, opset_imports=[h.make_opsetid("", 21), h.make_opsetid("com.microsoft", 1)], ir_version=10)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    results = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"]).run(None, inputs)
    write_case(f"{out}/{name}", model, [(inputs, dict(zip(outputs, results)))], tol)
    assert all(np.ptp(np.asarray(r, np.float64)) > 0 for r in results), name


def scales(**values):
    """name=(scale, zero point): the constants name_s and name_z."""
    c = {}
    for name, (scale, zero, *signed) in values.items():
        c[name + "_s"] = np.asarray(scale, np.float32)
        c[name + "_z"] = np.asarray(zero, np.int8 if signed else np.uint8)
    return c


for signed in (False, True):
    s, u = (("s8", T.INT8) if signed else ("u8", T.UINT8))
    sign = (True,) if signed else ()
    x = byte(2, 24, 9, 7, signed=signed)
    y = byte(2, 24, 9, 7, signed=signed)
    q = scales(x=(0.02, 3, *sign), y=(0.013, 11, *sign), r=(0.05, 9, *sign))
    out1 = {"r": u}
    for op in ("QLinearAdd", "QLinearMul"):
        save(f"{op}_{s}", [h.make_node(op, ["x", "x_s", "x_z", "y", "y_s", "y_z", "r_s", "r_z"], ["r"], domain="com.microsoft")], {"x": x, "y": y}, q, out1)
    one = scales(x=(0.02, 3, *sign), r=(0.01, 2, *sign))
    for op, attrs in (("QLinearSigmoid", {}), ("QLinearLeakyRelu", {"alpha": 0.1}), ("QLinearGlobalAveragePool", {}),
                      ("QLinearAveragePool", {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}), ("QLinearSoftmax", {"axis": -1, "opset": 13})):
        save(f"{op}_{s}", [h.make_node(op, ["x", "x_s", "x_z", "r_s", "r_z"], ["r"], domain="com.microsoft", **attrs)], {"x": x}, one, out1)
    save(f"QLinearConcat_{s}", [h.make_node("QLinearConcat", ["r_s", "r_z", "x", "x_s", "x_z", "y", "y_s", "y_z"], ["r"], domain="com.microsoft", axis=1)],
         {"x": x, "y": y}, q, out1)
    a = byte(13, 40, signed=signed)
    for trans in (0, 1):
        b = byte(*((30, 40) if trans else (40, 30)), signed=True)
        c = {**scales(a=(0.03, 5, *sign), r=(0.7, 12, *sign)), "b": b, "b_s": rng.uniform(0.01, 0.02, 30).astype(np.float32), "b_z": np.zeros(30, np.int8),
             "c": rng.integers(-3000, 3000, 30).astype(np.int32)}
        save(f"QGemm_{s}_{trans}", [h.make_node("QGemm", ["a", "a_s", "a_z", "b", "b_s", "b_z", "c", "r_s", "r_z"], ["r"], domain="com.microsoft", transB=trans, alpha=1.0)],
             {"a": a}, c, out1)
        save(f"QGemm_{s}_{trans}_float", [h.make_node("QGemm", ["a", "a_s", "a_z", "b", "b_s", "b_z", "c"], ["r"], domain="com.microsoft", transB=trans, alpha=0.5)],
             {"a": a}, c, {"r": T.FLOAT}, "1e-4 1e-2")
    # Convolutions: padded with a zero point, strided, few channels, depthwise.
    for name, shape, attrs in (("plain", (20, 24, 3, 3), {"pads": [1, 1, 1, 1]}), ("strided", (16, 24, 3, 3), {"pads": [1, 1, 1, 1], "strides": [2, 2]}),
                               ("picture", (16, 3, 7, 7), {"pads": [3, 3, 3, 3], "strides": [2, 2]}), ("depthwise", (24, 1, 5, 5), {"pads": [2, 2, 2, 2], "group": 24})):
        w = byte(*shape, signed=True)
        c = {**scales(x=(0.02, 5, *sign), r=(0.9, 17, *sign)), "w": w, "w_s": rng.uniform(0.002, 0.01, shape[0]).astype(np.float32), "w_z": np.zeros(shape[0], np.int8),
             "c": rng.integers(-3000, 3000, shape[0]).astype(np.int32)}
        xs = x[:, :3] if name == "picture" else x
        save(f"QLinearConv_{name}_{s}", [h.make_node("QLinearConv", ["x", "x_s", "x_z", "w", "w_s", "w_z", "r_s", "r_z", "c"], ["r"], **attrs)], {"x": np.ascontiguousarray(xs)}, c, out1)

condition = rng.integers(0, 2, (2, 24, 9, 7)).astype(bool)
save("QLinearWhere", [h.make_node("QLinearWhere", ["k", "x", "x_s", "x_z", "y", "y_s", "y_z", "r_s", "r_z"], ["r"], domain="com.microsoft")],
     {"k": condition, "x": byte(2, 24, 9, 7), "y": byte(2, 24, 9, 7)}, scales(x=(0.02, 3), y=(0.013, 11), r=(0.05, 9)), {"r": T.UINT8})
a, f = byte(2, 13, 40), rng.standard_normal((2, 13, 40)).astype(np.float32)
for kind, b in (("s8", byte(40, 30, signed=True)), ("u8", byte(40, 30))):
    zero = np.asarray(7, b.dtype)
    c = {"a_s": np.asarray(0.02, np.float32), "a_z": np.asarray(19, np.uint8), "b": b, "b_s": np.asarray(0.01, np.float32), "b_z": zero, "c": rng.standard_normal(30).astype(np.float32)}
    save(f"MatMulIntegerToFloat_{kind}", [h.make_node("MatMulIntegerToFloat", ["a", "b", "a_s", "b_s", "a_z", "b_z", "c"], ["r"], domain="com.microsoft")], {"a": a}, c,
         {"r": T.FLOAT}, "1e-4 1e-3")
    save(f"DynamicQuantizeMatMul_{kind}", [h.make_node("DynamicQuantizeMatMul", ["f", "b", "b_s", "b_z", "c"], ["r"], domain="com.microsoft")], {"f": f}, c,
         {"r": T.FLOAT}, "1e-3 0.1")
