# SPDX-License-Identifier: Apache-2.0
"""A network of two layers with com.example:ScaledTanh between them: model.onnx, the same in ONNX's own operators: plain.onnx, and data: x.npy, data.npz."""
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

random = np.random.default_rng(0)
weights = {"w1": random.normal(0, 0.4, (8, 16)), "w2": random.normal(0, 0.4, (16, 3))}


def network(activation):
    nodes = [helper.make_node("MatMul", ["x", "w1"], ["a"], name="first"), *activation,
             helper.make_node("MatMul", ["b", "w2"], ["y"], name="second")]
    graph = helper.make_graph(nodes, "network", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 8])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 3])],
                              [numpy_helper.from_array(v.astype(np.float32), k) for k, v in weights.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.example", 1)])


def constant(name, value):
    return helper.make_node("Constant", [], [name], value=numpy_helper.from_array(np.float32(value)))


folder = sys.argv[1]
onnx.save(network([helper.make_node("ScaledTanh", ["a"], ["b"], name="activation", domain="com.example", alpha=1.7159, beta=2 / 3)]),
          f"{folder}/model.onnx")
onnx.save(network([constant("alpha", 1.7159), constant("beta", 2 / 3), helper.make_node("Mul", ["a", "beta"], ["c"]),
                   helper.make_node("Tanh", ["c"], ["d"]), helper.make_node("Mul", ["d", "alpha"], ["b"])]),
          f"{folder}/plain.onnx")
x = random.normal(size=(64, 8)).astype(np.float32)
np.save(f"{folder}/x.npy", x)
np.savez(f"{folder}/data.npz", x=x, target=x[:, :3] * x[:, 3:6])
