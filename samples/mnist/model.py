#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write the classic MNIST network, untrained, as an ONNX file. usage: model.py mnist.onnx [--seed 0]

conv 3x3 of 32, relu, conv 3x3 of 64, relu, max-pool 2x2, dropout 1/4, dense 128, relu, dropout 1/2, dense 10, log-softmax:
1.2 million weights, uniform in +-1/sqrt(inputs), as PyTorch begins. Input `picture` float32 [N,1,28,28]; output
`logprob` float32 [N,10]. Needs numpy and onnx only.
"""
import argparse

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def uniform(rng, fan_in, *shape):
    bound = 1 / np.sqrt(fan_in)
    return rng.uniform(-bound, bound, shape).astype(np.float32)


def build(seed):
    rng = np.random.default_rng(seed)
    weights = {
        "conv1.weight": uniform(rng, 9, 32, 1, 3, 3), "conv1.bias": uniform(rng, 9, 32),
        "conv2.weight": uniform(rng, 288, 64, 32, 3, 3), "conv2.bias": uniform(rng, 288, 64),
        "fc1.weight": uniform(rng, 9216, 128, 9216), "fc1.bias": uniform(rng, 9216, 128),
        "fc2.weight": uniform(rng, 128, 10, 128), "fc2.bias": uniform(rng, 128, 10),
    }
    constants = {"quarter": np.array(0.25, np.float32), "half": np.array(0.5, np.float32)}
    node = helper.make_node
    nodes = [
        node("Conv", ["picture", "conv1.weight", "conv1.bias"], ["c1"], "conv1", kernel_shape=[3, 3]),
        node("Relu", ["c1"], ["r1"], "relu1"),
        node("Conv", ["r1", "conv2.weight", "conv2.bias"], ["c2"], "conv2", kernel_shape=[3, 3]),
        node("Relu", ["c2"], ["r2"], "relu2"),
        node("MaxPool", ["r2"], ["p"], "pool", kernel_shape=[2, 2], strides=[2, 2]),
        node("Dropout", ["p", "quarter"], ["d1"], "dropout1"),
        node("Flatten", ["d1"], ["f"], "flatten"),
        node("Gemm", ["f", "fc1.weight", "fc1.bias"], ["h"], "fc1", transB=1),
        node("Relu", ["h"], ["r3"], "relu3"),
        node("Dropout", ["r3", "half"], ["d2"], "dropout2"),
        node("Gemm", ["d2", "fc2.weight", "fc2.bias"], ["y"], "fc2", transB=1),
        node("LogSoftmax", ["y"], ["logprob"], "logsoftmax", axis=1),
    ]
    graph = helper.make_graph(
        nodes, "mnist", [helper.make_tensor_value_info("picture", TensorProto.FLOAT, ["N", 1, 28, 28])],
        [helper.make_tensor_value_info("logprob", TensorProto.FLOAT, ["N", 10])],
        [numpy_helper.from_array(v, k) for k, v in {**weights, **constants}.items()])
    model = helper.make_model(graph, producer_name="samples/mnist/model.py",
                              opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    return model


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    onnx.save(build(args.seed), args.file)
