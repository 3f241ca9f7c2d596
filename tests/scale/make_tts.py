#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a network as text-to-speech models of 8 bits are built, for measuring what compiling it costs.

usage: make_tts.py FILE.onnx [--layers=12] [--blocks=50] [--width=512]

An encoder of LAYERS layers that share their weights (MatMulInteger behind DynamicQuantizeLinear), bidirectional LSTMs of bytes
(DynamicQuantizeLSTM), BLOCKS residual blocks of convolutions of bytes (ConvInteger), normalised and scaled by what a product of a
style vector gives, each with sines for activations. About 42 nodes a block; with the defaults 3,600 nodes and 92 MB. Tokens in, a
signal out; the number of tokens is open. Weights are random, none equal.
"""
import argparse

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


class Net:
    def __init__(self):
        self.nodes, self.weights, self.rng = [], [], np.random.default_rng(7)

    def node(self, op, *ins, outs=1, domain="", **attrs):
        at = len(self.nodes)
        names = [f"v{at}"] if outs == 1 else [f"v{at}.{i}" for i in range(outs)]
        self.nodes.append(helper.make_node(op, list(ins), names, domain=domain, **attrs))
        return names[0] if outs == 1 else names

    def const(self, array):
        self.weights.append(numpy_helper.from_array(np.asarray(array), f"w{len(self.weights)}"))
        return self.weights[-1].name

    def f32(self, *shape, scale=0.1, mean=0.0):
        return self.const((mean + scale * self.rng.standard_normal(shape)).astype(np.float32))

    def scalar(self, value):
        return self.const(np.float32(value))

    def bytes(self, *shape, dtype=np.uint8):
        info = np.iinfo(dtype)
        raw = np.clip(np.rint((info.min + info.max + 1) / 2 + 40 * self.rng.standard_normal(shape, dtype=np.float32)), info.min, info.max)
        return self.const(raw.astype(dtype))

    def matrix(self, rows, columns):
        """What one product of bytes needs; the layers share it."""
        return (self.bytes(rows, columns), self.scalar(0.02 / rows ** 0.5), self.const(np.uint8(128)), self.f32(columns, scale=0.02))

    def linear(self, x, matrix):
        w, scale, zero, bias = matrix
        q, s, z = self.node("DynamicQuantizeLinear", x, outs=3)
        y = self.node("Cast", self.node("MatMulInteger", q, w, z, zero), to=TensorProto.FLOAT)
        return self.node("Add", self.node("Mul", y, self.node("Mul", s, scale)), bias)

    def conv(self, x, filters, channels, width):
        q, s, z = self.node("DynamicQuantizeLinear", x, outs=3)
        y = self.node("ConvInteger", q, self.bytes(filters, channels, width), z, self.const(np.uint8(128)), kernel_shape=[width],
                      pads=[width // 2, width // 2])
        y = self.node("Mul", self.node("Cast", y, to=TensorProto.FLOAT), self.node("Mul", s, self.scalar(0.02 / (channels * width) ** 0.5)))
        return self.node("Add", y, self.f32(1, filters, 1, scale=0.02))

    def norm(self, x, axis, scale, shift):
        mean = self.node("ReduceMean", x, axes=[axis])
        d = self.node("Sub", x, mean)
        var = self.node("ReduceMean", self.node("Mul", d, d), axes=[axis])
        y = self.node("Div", d, self.node("Sqrt", self.node("Add", var, self.scalar(1e-5))))
        return self.node("Add", self.node("Mul", y, scale), shift)

    def gelu(self, x):
        e = self.node("Erf", self.node("Div", x, self.scalar(1.4142135)))
        return self.node("Mul", self.node("Mul", x, self.node("Add", e, self.scalar(1))), self.scalar(0.5))

    def snake(self, x, channels):
        s = self.node("Sin", self.node("Mul", x, self.f32(1, channels, 1, mean=1)))
        return self.node("Add", x, self.node("Mul", self.node("Mul", s, s), self.f32(1, channels, 1, mean=0.5)))


def attention(net, x, width, heads, w):
    """One layer of the encoder."""
    parts = []
    for k in range(3):
        y = net.node("Reshape", net.linear(x, w[k]), net.const(np.array([1, -1, heads, width // heads], np.int64)))
        parts.append(net.node("Transpose", y, perm=[0, 2, 3, 1] if k == 1 else [0, 2, 1, 3]))
    scores = net.node("Div", net.node("MatMul", parts[0], parts[1]), net.scalar((width // heads) ** 0.5))
    y = net.node("MatMul", net.node("Softmax", scores, axis=-1), parts[2])
    y = net.node("Reshape", net.node("Transpose", y, perm=[0, 2, 1, 3]), net.const(np.array([1, -1, width], np.int64)))
    x = net.norm(net.node("Add", x, net.linear(y, w[3])), -1, w[6], w[7])
    y = net.linear(net.gelu(net.linear(x, w[4])), w[5])
    return net.norm(net.node("Add", x, y), -1, w[8], w[9])


def lstm(net, x, inputs, hidden):
    """[tokens, 1, inputs] to [tokens, 1, 2 hidden], by bytes, in both directions."""
    zero = net.const(np.full((2,), 128, np.uint8))
    y = net.node("DynamicQuantizeLSTM", x, net.bytes(2, inputs, 4 * hidden), net.bytes(2, hidden, 4 * hidden), net.f32(2, 8 * hidden), "", "", "", "",
                 net.const(np.full((2,), 1e-3, np.float32)), zero, net.const(np.full((2,), 1e-3, np.float32)), zero,
                 domain="com.microsoft", hidden_size=hidden, direction="bidirectional")
    y = net.node("Transpose", y, perm=[0, 2, 1, 3])
    return net.node("Reshape", y, net.const(np.array([0, 0, -1], np.int64)))


def block(net, x, style, width):
    """A residual block: style, norm, snake, convolution, twice; the second convolution is narrow."""
    y = x
    for taps in (3, 1):
        h = net.node("Unsqueeze", net.linear(style, net.matrix(128, 2 * width)), net.const(np.array([2], np.int64)))
        scale, shift = net.node("Split", h, net.const(np.array([width, width], np.int64)), outs=2, axis=1)
        y = net.norm(y, 2, net.node("Add", scale, net.scalar(1)), shift)
        y = net.conv(net.snake(y, width), width, width, taps)
    return net.node("Mul", net.node("Add", x, y), net.scalar(0.7071))


def network(layers, blocks, width):
    net = Net()
    wide = width * 3 // 2
    style = "style"
    x = net.node("Gather", net.f32(178, wide), "tokens", axis=0)
    shared = [net.matrix(wide, wide) for _ in range(4)] + [net.matrix(wide, 4 * wide), net.matrix(4 * wide, wide)]
    shared += [net.f32(wide, scale=0.02, mean=float(i % 2 == 0)) for i in range(4)]
    for _ in range(layers):
        x = attention(net, x, wide, 12, shared)
    x = net.node("Transpose", x, perm=[1, 0, 2])
    for i in range(6):
        x = lstm(net, x, wide if i == 0 else width, width // 2)
    x = net.node("Transpose", x, perm=[1, 2, 0])
    for _ in range(blocks):
        x = block(net, x, style, width)
    y = net.node("Tanh", net.conv(x, 1, width, 7))
    inputs = [helper.make_tensor_value_info("tokens", TensorProto.INT64, [1, "T"]),
              helper.make_tensor_value_info("style", TensorProto.FLOAT, [1, 128])]
    graph = helper.make_graph(net.nodes, "tts", inputs, [helper.make_tensor_value_info(y, TensorProto.FLOAT, None)], net.weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)], ir_version=8)


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("file")
    options.add_argument("--layers", type=int, default=12)
    options.add_argument("--blocks", type=int, default=50)
    options.add_argument("--width", type=int, default=512)
    given = options.parse_args()
    onnx.save(network(given.layers, given.blocks, given.width), given.file)
