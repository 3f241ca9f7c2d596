#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The perceptron of the Neuron SDK's training tutorial as an ONNX file: 784 inputs, two layers of ReLUs, 10 classes.

usage: model.py mlp.onnx [--width 120]

Input `picture` float32 [N,1,28,28], output `logits` float32 [N,10]; parameters as torch.nn.Linear draws them, by a fixed seed.
"""
import argparse

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("output")
    parser.add_argument("--width", type=int, default=120)
    arguments = parser.parse_args()
    random = np.random.default_rng(1)
    nodes, weights, value = [helper.make_node("Flatten", ["picture"], ["flat"], name="flatten")], [], "flat"
    sizes = [784, arguments.width, arguments.width * 7 // 10, 10]
    for k, (n, m) in enumerate(zip(sizes, sizes[1:]), 1):
        limit = 1 / np.sqrt(n)
        weights += [numpy_helper.from_array(random.uniform(-limit, limit, shape).astype(np.float32), f"fc{k}.{name}")
                    for name, shape in (("weight", (m, n)), ("bias", (m,)))]
        out = "logits" if k == 3 else f"fc{k}"
        nodes.append(helper.make_node("Gemm", [value, f"fc{k}.weight", f"fc{k}.bias"], [out], name=f"fc{k}", transB=1))
        value = out
        if k < 3:
            nodes.append(helper.make_node("Relu", [value], [f"relu{k}"], name=f"relu{k}"))
            value = f"relu{k}"
    graph = helper.make_graph(nodes, "mlp", [helper.make_tensor_value_info("picture", TensorProto.FLOAT, ["N", 1, 28, 28])],
                              [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["N", 10])], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), arguments.output)


if __name__ == "__main__":
    main()
