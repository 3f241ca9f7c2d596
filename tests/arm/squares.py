# SPDX-License-Identifier: Apache-2.0
"""Writes a model of random products and convolutions of bytes, or of floats that --auto-cast makes bf16, whose weights lie in groups of 64 bits
where the machine multiplies two rows by two columns (i8mm, bf16): odd numbers of rows, open ones, one; columns that fill no vector; padding, strides, groups;
either side unsigned. Called by networks.py.
"""
import numpy as np, onnx
from onnx import helper as h, numpy_helper as nh, TensorProto as T

KINDS = {"bytes": [(T.UINT8, np.int8), (T.INT8, np.uint8)], "floats": [(T.FLOAT, np.float32)]}


def write(path, kind, seed):
    rng = np.random.default_rng(seed)
    pick = lambda *values: values[rng.integers(len(values))]
    nodes, inputs, outputs, weights = [], [], [], []
    for i in range(10):
        x_type, w_type = pick(*KINDS[kind])
        x, w, y = f"x{i}", f"w{i}", f"y{i}"
        if i < 5:
            k, n = pick(8, 16, 24, 40, 72, 264), pick(4, 7, 16, 33, 70, 136)
            dims, shape, out, attrs, op = [pick(1, 2, 5, 9, 16, 37, "N") if i else "N", k], [k, n], [None, n], {}, "MatMul"
        else:
            groups, taps, strides = pick(1, 1, 2), pick(1, 2, 3), pick([1, 1], [2, 1], [2, 2])
            c, o, pads = 16 * groups * pick(1, 2), 16 * groups * pick(1, 2, 3), [int(p) for p in rng.integers(0, taps, 4)]
            dims, shape, out, op = [pick(1, 2), c, pick(5, 9), pick(6, 13)], [o, c // groups, taps, taps], [None] * 4, "Conv"
            attrs = {"group": groups, "strides": strides, "pads": pads}
        value = rng.integers(*((-128, 128) if w_type is np.int8 else (0, 256)), shape).astype(w_type) if kind == "bytes" else rng.standard_normal(shape).astype(w_type)
        nodes.append(h.make_node(op + ("Integer" if kind == "bytes" else ""), [x, w], [y], **attrs))
        inputs.append(h.make_tensor_value_info(x, x_type, dims))
        outputs.append(h.make_tensor_value_info(y, T.INT32 if kind == "bytes" else T.FLOAT, out))
        weights.append(nh.from_array(value, w))
    onnx.save(h.make_model(h.make_graph(nodes, "squares", inputs, outputs, weights), opset_imports=[h.make_opsetid("", 17)], ir_version=8), path)
