# SPDX-License-Identifier: Apache-2.0
"""dropout.py FILE: a network of six layers with Dropout behind each, for tests/stages.tap."""
import sys, numpy as np, onnx
from onnx import helper as h, numpy_helper as nh, TensorProto as T
r = np.random.default_rng(1)
nodes, weights, x = [], [], "x"
for i in range(6):
    w = (r.standard_normal((64, 64)) / 8).astype(np.float32)
    weights.append(nh.from_array(w, "w%d" % i))
    nodes += [h.make_node("MatMul", [x, "w%d" % i], ["m%d" % i]), h.make_node("Tanh", ["m%d" % i], ["t%d" % i]),
              h.make_node("Dropout", ["t%d" % i, "p"], ["d%d" % i])]
    x = "d%d" % i
weights += [nh.from_array(np.array(0.5, np.float32), "p"), nh.from_array((r.standard_normal((64, 10)) / 8).astype(np.float32), "o")]
nodes.append(h.make_node("MatMul", [x, "o"], ["y"]))
g = h.make_graph(nodes, "drop", [h.make_tensor_value_info("x", T.FLOAT, ["batch", 64])], [h.make_tensor_value_info("y", T.FLOAT, ["batch", 10])], weights)
onnx.save(h.make_model(g, opset_imports=[h.make_opsetid("", 17)], ir_version=8), sys.argv[1])
