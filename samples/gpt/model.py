#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write a GPT, by default a small one over bytes, untrained, as an ONNX file.

usage: model.py gpt.onnx [--layers 2] [--width 64] [--heads 4] [--length 64] [--words 256] [--seed 0]

Pre-norm transformer blocks (attention with a causal mask, then a feed-forward layer four times as wide with GELU), learned
positions, one embedding table for input and output. Input `ids` int64 [N,T] (bytes, T <= length); output `logits` float32
[N,T,words]: at each place, what comes next. GPT-2's smallest: --layers 12 --width 768 --heads 12 --length 1024 --words 50257. Weights are normal with deviation 0.02, as in GPT-2. Needs numpy and onnx only.
"""
import argparse

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


class Graph:
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.nodes, self.values, self.count = [], {}, 0

    def weight(self, name, *shape, scale=0.02):
        self.values[name] = (self.rng.standard_normal(shape) * scale).astype(np.float32)
        return name

    def filled(self, name, value, *shape):
        self.values[name] = np.full(shape, value, np.float32)
        return name

    def const(self, value, dtype=np.int64):
        """A node, not an initialiser: float initialisers are trained."""
        return self.op("Constant", value=numpy_helper.from_array(np.array(value, dtype)))

    def op(self, kind, *inputs, **attributes):
        name = f"{kind.lower()}{self.count}"
        self.count += 1
        self.nodes.append(helper.make_node(kind, list(inputs), [name], name, **attributes))
        return name


def norm(g, name, x, width):
    return g.op("LayerNormalization", x, g.filled(name + ".weight", 1, width), g.filled(name + ".bias", 0, width), axis=-1)


def linear(g, name, x, inputs, outputs, scale=0.02):
    y = g.op("MatMul", x, g.weight(name + ".weight", inputs, outputs, scale=scale))
    return g.op("Add", y, g.filled(name + ".bias", 0, outputs))


def heads(g, x, n, size):
    return g.op("Transpose", g.op("Reshape", x, g.const([0, 0, n, size])), perm=[0, 2, 1, 3])


def block(g, name, x, mask, width, n, layers):
    h = norm(g, name + ".norm1", x, width)
    q, k, v = (heads(g, linear(g, f"{name}.{part}", h, width, width), n, width // n) for part in ("query", "key", "value"))
    scores = g.op("MatMul", q, g.op("Transpose", k, perm=[0, 1, 3, 2]))
    scores = g.op("Mul", scores, g.const((width // n) ** -0.5, np.float32))
    weights = g.op("Softmax", g.op("Add", scores, mask), axis=-1)
    mixed = g.op("Reshape", g.op("Transpose", g.op("MatMul", weights, v), perm=[0, 2, 1, 3]), g.const([0, 0, width]))
    x = g.op("Add", x, linear(g, name + ".project", mixed, width, width, 0.02 / (2 * layers) ** 0.5))
    h = linear(g, name + ".widen", norm(g, name + ".norm2", x, width), width, 4 * width)
    erf = g.op("Erf", g.op("Mul", h, g.const(0.5 ** 0.5, np.float32)))
    h = g.op("Mul", g.op("Mul", h, g.const(0.5, np.float32)), g.op("Add", erf, g.const(1, np.float32)))
    return g.op("Add", x, linear(g, name + ".narrow", h, 4 * width, width, 0.02 / (2 * layers) ** 0.5))


def build(layers, width, n, length, words, seed):
    g = Graph(seed)
    table = g.weight("embedding", words, width)
    x = g.op("Add", g.op("Gather", table, "ids"), g.weight("positions", length, width))
    mask = g.const(np.triu(np.full((length, length), -1e9, np.float32), 1), np.float32)
    for i in range(layers):
        x = block(g, f"block{i}", x, mask, width, n, layers)
    x = norm(g, "norm", x, width)
    g.nodes.append(helper.make_node("MatMul", [x, g.op("Transpose", table, perm=[1, 0])], ["logits"], "head"))
    graph = helper.make_graph(
        g.nodes, "gpt", [helper.make_tensor_value_info("ids", TensorProto.INT64, ["N", length])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["N", length, words])],
        [numpy_helper.from_array(v, k) for k, v in g.values.items()])
    model = helper.make_model(graph, producer_name="samples/gpt/model.py",
                              opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    return model


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    for option, value in (("layers", 2), ("width", 64), ("heads", 4), ("length", 64), ("words", 256), ("seed", 0)):
        parser.add_argument("--" + option, type=int, default=value)
    args = parser.parse_args()
    onnx.save(build(args.layers, args.width, args.heads, args.length, args.words, args.seed), args.file)
