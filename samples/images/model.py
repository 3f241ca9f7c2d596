#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a small network for pictures as an ONNX file: three convolutions with batch normalisation, the largest value over the picture, a dense layer. Input `x` float32 [N,3,20,20],
output `scores` float32 [N,CLASSES]. Needs numpy and onnx.

usage: model.py OUT.onnx CLASSES [TRAINED.onnx]     TRAINED.onnx: the convolutions are those of this network; the head is new
"""
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

rng = np.random.default_rng(3)


def build(classes, trained):
    node, weights, nodes, at, before = helper.make_node, {}, [], "x", 3
    for k, channels in enumerate((16, 32, 32)):
        name = f"backbone.{k}"
        weights[name + ".weight"] = rng.standard_normal((channels, before, 3, 3)) * np.sqrt(2 / (9 * before))
        for part, value in (("scale", 1), ("shift", 0), ("mean", 0), ("var", 1)):
            weights[f"{name}.norm.{part}"] = np.full(channels, value)
        nodes += [node("Conv", [at, name + ".weight"], [name + ".c"], pads=[1, 1, 1, 1], strides=[1 + (k > 0)] * 2),
                  node("BatchNormalization", [name + ".c"] + [f"{name}.norm.{p}" for p in ("scale", "shift", "mean", "var")], [name + ".n"]),
                  node("Relu", [name + ".n"], [name + ".r"])]
        at, before = name + ".r", channels
    weights["head.weight"], weights["head.bias"] = rng.standard_normal((classes, before)) / np.sqrt(before), np.zeros(classes)
    for w in trained:
        if w.name.startswith("backbone."):
            weights[w.name] = numpy_helper.to_array(w)
    nodes += [node("GlobalMaxPool", [at], ["g"]), node("Flatten", ["g"], ["f"]), node("Gemm", ["f", "head.weight", "head.bias"], ["scores"], transB=1)]
    graph = helper.make_graph(nodes, "shapes", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3, 20, 20])],
                              [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["N", classes])],
                              [numpy_helper.from_array(np.asarray(v, np.float32), k) for k, v in weights.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    onnx.save(build(int(sys.argv[2]), onnx.load(sys.argv[3]).graph.initializer if len(sys.argv) == 4 else []), sys.argv[1])
