#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write a small BERT with both of its pretraining losses as an ONNX file, untrained.

usage: model.py bert.onnx [--layers 2] [--width 32] [--heads 2] [--length 64] [--seed 0]

A post-norm encoder over bytes and three marks (data.py makes its inputs): `ids` and `segments` int64 [N,length], `words` int64 [N,length], what stands at
the masked places and -100 elsewhere, `next` int64 [N], 1 where the second part follows the first in the text. Outputs: `loss` float32, the sum of
`word_loss` (cross entropy at the masked places) and `next_loss`. Weights are normal with deviation 0.02, as in the paper. Needs numpy and onnx only.
"""
import argparse
import pathlib
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "gpt"))
from model import Graph, heads, linear, norm  # noqa: E402  the GPT's building blocks

WORDS = 256 + 3


def gelu(g, x):
    erf = g.op("Erf", g.op("Mul", x, g.const(0.5 ** 0.5, np.float32)))
    return g.op("Mul", g.op("Mul", x, g.const(0.5, np.float32)), g.op("Add", erf, g.const(1, np.float32)))


def block(g, name, x, width, n):
    q, k, v = (heads(g, linear(g, f"{name}.{part}", x, width, width), n, width // n) for part in ("query", "key", "value"))
    scores = g.op("Mul", g.op("MatMul", q, g.op("Transpose", k, perm=[0, 1, 3, 2])), g.const((width // n) ** -0.5, np.float32))
    mixed = g.op("Transpose", g.op("MatMul", g.op("Softmax", scores, axis=-1), v), perm=[0, 2, 1, 3])
    mixed = linear(g, name + ".project", g.op("Reshape", mixed, g.const([0, 0, width])), width, width)
    x = norm(g, name + ".norm1", g.op("Add", x, mixed), width)
    h = linear(g, name + ".narrow", gelu(g, linear(g, name + ".widen", x, width, 4 * width)), 4 * width, width)
    return norm(g, name + ".norm2", g.op("Add", x, h), width)


def build(layers, width, n, length, seed):
    g = Graph(seed)
    table = g.weight("words.weight", WORDS, width)
    x = g.op("Add", g.op("Gather", table, "ids"), g.op("Gather", g.weight("segments.weight", 2, width), "segments"))
    x = norm(g, "norm", g.op("Add", x, g.weight("positions.weight", length, width)), width)
    for i in range(layers):
        x = block(g, f"block{i}", x, width, n)
    h = norm(g, "words.norm", gelu(g, linear(g, "words.dense", x, width, width)), width)
    scores = g.op("Add", g.op("MatMul", h, g.op("Transpose", table, perm=[1, 0])), g.filled("words.bias", 0, WORDS))
    g.nodes.append(helper.make_node("SoftmaxCrossEntropyLoss", [g.op("Transpose", scores, perm=[0, 2, 1]), "words"], ["word_loss"],
                                    ignore_index=-100))
    first = g.op("Tanh", linear(g, "pool", g.op("Gather", x, g.const(0), axis=1), width, width))
    g.nodes.append(helper.make_node("SoftmaxCrossEntropyLoss", [linear(g, "next", first, width, 2), "next"], ["next_loss"]))
    g.nodes.append(helper.make_node("Add", ["word_loss", "next_loss"], ["loss"]))
    inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, ["N", length][:rank])
              for name, rank in (("ids", 2), ("segments", 2), ("words", 2), ("next", 1))]
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, []) for name in ("loss", "word_loss", "next_loss")]
    graph = helper.make_graph(g.nodes, "bert", inputs, outputs, [numpy_helper.from_array(v, k) for k, v in g.values.items()])
    model = helper.make_model(graph, producer_name="samples/bert/model.py", opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    return model


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    for option, value in (("layers", 2), ("width", 32), ("heads", 2), ("length", 64), ("seed", 0)):
        parser.add_argument("--" + option, type=int, default=value)
    args = parser.parse_args()
    onnx.save(build(args.layers, args.width, args.heads, args.length, args.seed), args.file)
