# SPDX-License-Identifier: Apache-2.0
"""Models of tests/custom-op.tap, with what they should give: one .onnx a model, and NAME.K.npy."""
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

folder = sys.argv[1]
random = np.random.default_rng(1)


def save(name, nodes, inputs, outputs, arrays, initializers=None):
    graph = helper.make_graph(nodes, name, [helper.make_tensor_value_info(*i) for i in inputs],
                              [helper.make_tensor_value_info(*o) for o in outputs],
                              [numpy_helper.from_array(v, k) for k, v in (initializers or {}).items()])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("test", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets), f"{folder}/{name}.onnx")
    for k, v in enumerate(arrays):
        np.save(f"{folder}/{name}.{k}.npy", v)


F = TensorProto.FLOAT
x = random.normal(size=(6, 5)).astype(np.float32)
np.save(f"{folder}/x.npy", x)
op = lambda name, ins, outs, **attrs: helper.make_node(name, ins, outs, name=name.lower(), domain="test", **attrs)
X, Y = [("x", F, ["N", 5])], [("y", F, None)]
h = np.maximum(x, 0)[::2]
save("halve", [helper.make_node("Relu", ["x"], ["a"]), op("Halve", ["a"], ["b"]), helper.make_node("Add", ["b", "b"], ["y"])], X,
     [("y", F, ["M", 5])], [2 * h])
w = np.float32([0.5])
sums = ((x + np.float32([1, 2, 3, 1, 2])).mean(1) * 0.5).astype(np.float32)
save("sums", [op("Sums", ["x", "w"], ["y", "n"], mode="mean", offsets=[1, 2, 3])], X, [("y", F, ["N"]), ("n", TensorProto.INT64, [])],
     [sums, np.int64(6)], {"w": w})
save("left-out", [op("Sums", ["x", ""], ["y", "n"])], X, [("y", F, ["N"]), ("n", TensorProto.INT64, [])], [x.sum(1), np.int64(6)])
for name in "Behind", "OnOperand", "Refuses", "WrongShape", "OtherShape", "NoType", "OtherVersion", "NoRun", "Missing":
    save(name, [op(name, ["x"], ["y"])], X, [("y", F, ["N", 5])], [])
save("gradless", [helper.make_node("MatMul", ["x", "w"], ["a"]), op("Halve", ["a"], ["b"]), helper.make_node("Relu", ["b"], ["y"])], X,
     [("y", F, ["M", 2])], [], {"w": random.normal(size=(5, 2)).astype(np.float32)})
