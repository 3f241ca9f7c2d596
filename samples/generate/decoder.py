#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write the GPT of samples/gpt in the form that generates text, untrained, as an ONNX file.

usage: decoder.py decoder.onnx [--layers 2] [--width 64] [--heads 4] [--length 64]

The same weights by the same names, so that `tccc-ckpt export` puts trained ones in. Inputs: `ids` int64 [1,S], the new bytes, and the keys and
values of the past, `past_key_values.I.key` and `.value` float32 [1,heads,P,width/heads]; outputs: `logits` float32 [1,256], what comes next,
and `present.I.key` and `.value`, past and new together. P + S <= length. Needs numpy and onnx only.
"""
import argparse
import os
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "gpt"))
from model import Graph, heads, linear, norm  # noqa: E402

BYTES = 256


def block(g, i, x, mask, width, n):
    name, size = f"block{i}", width // n
    h = norm(g, name + ".norm1", x, width)
    q, k, v = (heads(g, linear(g, f"{name}.{part}", h, width, width), n, size) for part in ("query", "key", "value"))
    present = []
    for kind, new in (("key", k), ("value", v)):
        present.append(f"present.{i}.{kind}")
        g.nodes.append(helper.make_node("Concat", [f"past_key_values.{i}.{kind}", new], present[-1:], f"append{i}.{kind}", axis=2))
    scores = g.op("MatMul", q, g.op("Transpose", present[0], perm=[0, 1, 3, 2]))
    scores = g.op("Add", g.op("Mul", scores, g.const(size ** -0.5, np.float32)), mask)
    mixed = g.op("MatMul", g.op("Softmax", scores, axis=-1), present[1])
    mixed = g.op("Reshape", g.op("Transpose", mixed, perm=[0, 2, 1, 3]), g.const([0, 0, width]))
    x = g.op("Add", x, linear(g, name + ".project", mixed, width, width))
    h = linear(g, name + ".widen", norm(g, name + ".norm2", x, width), width, 4 * width)
    erf = g.op("Erf", g.op("Mul", h, g.const(0.5 ** 0.5, np.float32)))
    h = g.op("Mul", g.op("Mul", h, g.const(0.5, np.float32)), g.op("Add", erf, g.const(1, np.float32)))
    return g.op("Add", x, linear(g, name + ".narrow", h, 4 * width, width))


def size_of(g, value, axis):
    return g.op("Gather", g.op("Shape", value), g.const([axis]), axis=0)


def build(layers, width, n, length):
    g = Graph(0)
    table, positions = g.weight("embedding", BYTES, width), g.weight("positions", length, width)
    before = size_of(g, "past_key_values.0.key", 2)
    after = g.op("Add", before, size_of(g, "ids", 1))
    zero = g.const([0])
    x = g.op("Add", g.op("Gather", table, "ids"), g.op("Slice", positions, before, after, zero))
    causal = g.const(np.triu(np.full((length, length), -1e9, np.float32), 1), np.float32)
    mask = g.op("Slice", g.op("Slice", causal, before, after, zero), zero, after, g.const([1]))
    for i in range(layers):
        x = block(g, i, x, mask, width, n)
    last = g.op("Gather", norm(g, "norm", x, width), g.const(-1), axis=1)
    g.nodes.append(helper.make_node("MatMul", [last, g.op("Transpose", table, perm=[1, 0])], ["logits"], "head"))
    past = [(f"{i}.{kind}", [1, n, size, width // n]) for i in range(layers) for kind in ("key", "value") for size in ("P",)]
    inputs = [helper.make_tensor_value_info("ids", TensorProto.INT64, [1, "S"])]
    inputs += [helper.make_tensor_value_info("past_key_values." + name, TensorProto.FLOAT, dims) for name, dims in past]
    outputs = [helper.make_tensor_value_info("logits", TensorProto.FLOAT, [1, BYTES])]
    outputs += [helper.make_tensor_value_info("present." + name, TensorProto.FLOAT, [1, n, "P + S", width // n]) for name, _ in past]
    graph = helper.make_graph(g.nodes, "decoder", inputs, outputs, [numpy_helper.from_array(v, k) for k, v in g.values.items()])
    model = helper.make_model(graph, producer_name="samples/generate/decoder.py",
                              opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    return model


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    for option, value in (("layers", 2), ("width", 64), ("heads", 4), ("length", 64)):
        parser.add_argument("--" + option, type=int, default=value)
    args = parser.parse_args()
    onnx.save(build(args.layers, args.width, args.heads, args.length), args.file)
