#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a network of two dense layers as an ONNX file. Input `flat` float32 [N,4], output `price` float32 [N]. Needs numpy and onnx. usage: model.py OUT.onnx"""
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

if len(sys.argv) != 2:
    sys.exit(__doc__)
rng = np.random.default_rng(2)
weights = {"first.weight": rng.standard_normal((16, 4)) * 0.5, "first.bias": np.zeros(16), "second.weight": rng.standard_normal((1, 16)) * 0.25, "second.bias": np.zeros(1)}
nodes = [helper.make_node("Gemm", ["flat", "first.weight", "first.bias"], ["h"], transB=1), helper.make_node("Relu", ["h"], ["r"]),
         helper.make_node("Gemm", ["r", "second.weight", "second.bias"], ["p"], transB=1), helper.make_node("Squeeze", ["p", "last"], ["price"])]
initial = [numpy_helper.from_array(v.astype(np.float32), k) for k, v in weights.items()] + [numpy_helper.from_array(np.array([1]), "last")]
graph = helper.make_graph(nodes, "rent", [helper.make_tensor_value_info("flat", TensorProto.FLOAT, ["N", 4])],
                          [helper.make_tensor_value_info("price", TensorProto.FLOAT, ["N"])], initial)
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), sys.argv[1])
