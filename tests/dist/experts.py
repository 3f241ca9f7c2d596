#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write a network with a layer of experts (a mixture of experts) as an ONNX file, and samples.

usage: experts.py FILE.onnx KIND [--batch B] [--length S] [--experts E] [--samples N]

KIND: `switch` (Fedus et al. 2021: each token goes to its best expert, which takes `S / E * 1.5` tokens of a sample, the first that come;
others pass by it), by tables of who goes where, as GShard (Lepikhin et al. 2020) writes it; `two`: each token is the weighted sum of its two
best experts, every expert computes every token, as models are exported whose routing is in a loop. Both have a loss of three axes: labels of
tokens. Writes x.npy and target.npy beside the model.
"""
import argparse
import os
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../samples/gpt"))
import model  # noqa: E402

WIDTH, HIDDEN, CLASSES = 8, 12, 5


def by_expert(g, x, e):
    """[e, tokens, WIDTH] through each expert's two layers."""
    h = g.op("Add", g.op("MatMul", x, g.weight("widen.weight", e, WIDTH, HIDDEN, scale=0.3)), g.weight("widen.bias", e, 1, HIDDEN, scale=0.1))
    return g.op("MatMul", g.op("Relu", h), g.weight("narrow.weight", e, HIDDEN, WIDTH, scale=0.3))


def chosen(g, p, n, e):
    """[..., e] -> its best expert as a row of zeros and a one; the numbers themselves."""
    best = g.op("ArgMax", p, axis=2, keepdims=0)
    return g.op("OneHot", best, g.const(e), g.const([0, 1], np.float32), axis=-1)


def switch(g, x, p, batch, length, e):
    room = length * 3 // (2 * e)
    mine = chosen(g, p, length, e)
    before = g.op("CumSum", mine, g.const(1), exclusive=1)  # tokens that came earlier
    place = g.op("Mul", g.op("OneHot", g.op("Cast", g.op("ReduceSum", g.op("Mul", before, mine), g.const([2]), keepdims=0), to=TensorProto.INT64),
                             g.const(1000), g.const([0, 1], np.float32), axis=-1), g.const(1, np.float32))
    place = g.op("Slice", place, g.const([0]), g.const([room]), g.const([2]))  # [B, S, room]: zeros for those that find no room
    table = g.op("Mul", g.op("Unsqueeze", mine, g.const([3])), g.op("Unsqueeze", place, g.const([2])))  # [B, S, E, room]
    gate = g.op("ReduceSum", g.op("Mul", p, mine), g.const([2]), keepdims=1)
    there = g.op("Reshape", table, g.const([batch, length, e * room]))
    sent = g.op("MatMul", g.op("Transpose", there, perm=[0, 2, 1]), x)
    sent = g.op("Transpose", g.op("Reshape", sent, g.const([batch, e, room, WIDTH])), perm=[1, 0, 2, 3])
    back = by_expert(g, g.op("Reshape", sent, g.const([e, batch * room, WIDTH])), e)
    back = g.op("Transpose", g.op("Reshape", back, g.const([e, batch, room, WIDTH])), perm=[1, 0, 2, 3])
    return g.op("MatMul", g.op("Mul", there, gate), g.op("Reshape", back, g.const([batch, e * room, WIDTH])))


def two(g, x, p, batch, length, e):
    values, index = g.op("TopK", p, g.const([2]), axis=2), f"topk{g.count}.index"
    g.nodes[-1].output.append(index)
    total = g.op("ReduceSum", values, g.const([2]), keepdims=1)
    zeros = g.op("Mul", p, g.const(0, np.float32))
    weights = g.op("ScatterElements", zeros, index, g.op("Div", values, total), axis=2)
    tokens = g.op("Reshape", x, g.const([1, batch * length, WIDTH]))
    y = by_expert(g, tokens, e)
    shares = g.op("Transpose", g.op("Reshape", weights, g.const([batch * length, e, 1])), perm=[1, 0, 2])
    return g.op("Reshape", g.op("ReduceSum", g.op("Mul", y, shares), g.const([0]), keepdims=0), g.const([batch, length, WIDTH]))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("file")
    parser.add_argument("kind", choices=["switch", "two"])
    for name, default in ("batch", 8), ("length", 12), ("experts", 4), ("samples", 64):
        parser.add_argument("--" + name, type=int, default=default)
    a = parser.parse_args()
    g = model.Graph(3)
    g.nodes.append(helper.make_node("Identity", ["x"], ["tokens"], "tokens"))
    p = g.op("Softmax", g.op("MatMul", "tokens", g.weight("router.weight", WIDTH, a.experts, scale=1)), axis=-1)
    y = (switch if a.kind == "switch" else two)(g, "tokens", p, a.batch, a.length, a.experts)
    y = g.op("Add", y, "tokens")
    g.nodes.append(helper.make_node("MatMul", [y, g.weight("top.weight", WIDTH, CLASSES, scale=0.3)], ["y"], "y"))
    graph = helper.make_graph(g.nodes, "experts", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [a.batch, a.length, WIDTH])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [a.batch, a.length, CLASSES])],
                              [onnx.numpy_helper.from_array(v, k) for k, v in g.values.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), a.file)
    numbers = np.random.default_rng(4)
    beside = os.path.dirname(a.file) or "."
    np.save(f"{beside}/x.npy", numbers.standard_normal((a.samples, a.length, WIDTH)).astype(np.float32))
    np.save(f"{beside}/target.npy", numbers.integers(0, CLASSES, (a.samples, a.length)))


main()
