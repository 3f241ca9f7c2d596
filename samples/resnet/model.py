#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write a ResNet-18 for pictures of 32x32, untrained, as an ONNX file. usage: model.py resnet.onnx [--width 64] [--seed 0]

The form for small pictures: a 3x3 convolution without pooling, four stages of two basic blocks (width, 2, 4 and 8 times
width), batch norms, mean over the picture, dense 10. Input `picture` float32 [N,3,32,32], output `logits` float32 [N,10].
Convolutions are normal with deviation sqrt(2 / outputs), as He et al. 2015 begin. Needs numpy and onnx only.
"""
import argparse

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


class Graph:
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.nodes, self.values = [], {}

    def node(self, kind, name, inputs, **attributes):
        self.nodes.append(helper.make_node(kind, inputs, [name], name, **attributes))
        return name

    def conv(self, name, x, inputs, outputs, size, stride):
        scale = np.sqrt(2 / (outputs * size * size))
        self.values[name + ".weight"] = (self.rng.standard_normal((outputs, inputs, size, size)) * scale).astype(np.float32)
        y = self.node("Conv", name, [x, name + ".weight"], kernel_shape=[size, size], strides=[stride, stride],
                      pads=[size // 2] * 4)
        norm = {".weight": 1, ".bias": 0, ".running_mean": 0, ".running_var": 1}
        for part, value in norm.items():
            self.values[name + ".norm" + part] = np.full(outputs, value, np.float32)
        return self.node("BatchNormalization", name + ".norm", [y] + [name + ".norm" + part for part in norm],
                         epsilon=1e-5, momentum=0.9)

    def block(self, name, x, inputs, outputs, stride):
        y = self.node("Relu", name + ".relu1", [self.conv(name + ".conv1", x, inputs, outputs, 3, stride)])
        y = self.conv(name + ".conv2", y, outputs, outputs, 3, 1)
        if stride != 1 or inputs != outputs:
            x = self.conv(name + ".shortcut", x, inputs, outputs, 1, stride)
        return self.node("Relu", name + ".relu2", [self.node("Add", name + ".add", [x, y])])


def build(width, seed):
    g = Graph(seed)
    x = g.node("Relu", "relu", [g.conv("conv", "picture", 3, width, 3, 1)])
    inputs = width
    for stage in range(4):
        for k in range(2):
            x = g.block(f"stage{stage}.{k}", x, inputs, width << stage, 2 if stage and not k else 1)
            inputs = width << stage
    x = g.node("Flatten", "flatten", [g.node("GlobalAveragePool", "mean", [x])])
    bound = inputs ** -0.5
    g.values["dense.weight"] = g.rng.uniform(-bound, bound, (10, inputs)).astype(np.float32)
    g.values["dense.bias"] = g.rng.uniform(-bound, bound, 10).astype(np.float32)
    g.node("Gemm", "logits", [x, "dense.weight", "dense.bias"], transB=1)
    graph = helper.make_graph(
        g.nodes, "resnet18", [helper.make_tensor_value_info("picture", TensorProto.FLOAT, ["N", 3, 32, 32])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["N", 10])],
        [numpy_helper.from_array(v, k) for k, v in g.values.items()])
    model = helper.make_model(graph, producer_name="samples/resnet/model.py",
                              opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    return model


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    onnx.save(build(args.width, args.seed), args.file)
