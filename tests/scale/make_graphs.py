#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes graphs of a given shape and number of nodes, for measuring what compiling them costs.

usage: make_graphs.py SHAPE NODES FILE.onnx [--symbolic]

  chain      adds, one after the other, of an input and constants that differ
  sines      sines, one after the other
  fan        NODES adds of one value and weights of their own, joined by one concat
  inputs     a concat of NODES inputs
  diamonds   a value read by two nodes that the next one adds, again and again: no tree
  residual   NODES / 3 layers x + relu(x w) of equal size
  --symbolic makes the first dim a symbol
"""
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def graph(shape, count, symbolic):
    width = 16
    dims = ["N" if symbolic else 4, width]
    nodes, weights, inputs = [], [], [helper.make_tensor_value_info("x", TensorProto.FLOAT, dims)]
    rng = np.random.default_rng(1)

    def node(op, ins, **attrs):
        nodes.append(helper.make_node(op, ins, [f"v{len(nodes)}"], **attrs))
        return nodes[-1].output[0]

    def weight(array):
        weights.append(numpy_helper.from_array(array.astype(np.float32), f"w{len(weights)}"))
        return weights[-1].name

    v = "x"
    if shape == "chain":
        constants = [weight(rng.standard_normal(width)) for _ in range(64)]
        for i in range(count):
            v = node("Add", [v, constants[i % 64]])
    elif shape == "sines":
        for _ in range(count):
            v = node("Sin", [v])
    elif shape == "fan":
        parts = [node("Add", ["x", weight(rng.standard_normal(width))]) for _ in range(count)]
        v = node("Concat", parts, axis=1)
    elif shape == "inputs":
        names = ["x"] + [f"x{i}" for i in range(1, count)]
        inputs += [helper.make_tensor_value_info(n, TensorProto.FLOAT, dims) for n in names[1:]]
        v = node("Concat", names, axis=1)
    elif shape == "diamonds":
        for _ in range(count // 3):
            v = node("Add", [node("Abs", [v]), node("Neg", [v])])
    elif shape == "residual":
        w = weight(rng.standard_normal((width, width)) / 8)
        for _ in range(count // 3):
            v = node("Add", [v, node("Relu", [node("MatMul", [v, w])])])
    else:
        sys.exit(f"make_graphs.py: unknown shape {shape}")
    out = helper.make_tensor_value_info(v, TensorProto.FLOAT, None)
    made = helper.make_graph(nodes, shape, inputs, [out], weights)
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    onnx.save(graph(sys.argv[1], int(sys.argv[2]), "--symbolic" in sys.argv), sys.argv[3])
