#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Four kinds of networks as ONNX, made with numpy alone, at a size for each test run and at full size.

usage: networks.py write FOLDER small|full|open [NAME...]   FOLDER/NAME/model.onnx and test_data_set_0/input_K.pb; open: small, the batch is N
       networks.py expect FOLDER OUTPUTS...                 FOLDER/test_data_set_0/output_K.pb from OUTPUTS/output_K.npy

mobilenet: MobileNetV3's blocks; resnet: ResNet's bottlenecks; bert: an encoder of transformer blocks; lstm: two layers, the second in both directions. Weights are
random and scaled so that values neither vanish nor grow; biases, scales and statistics are no zeros or ones, so that a wrong one shows.
"""
import os, sys

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save


class Graph:
    """A graph under construction: values are names; node() gives that of its first result."""

    def __init__(self, name):
        self.name, self.nodes, self.weights, self.inputs, self.count = name, [], [], [], 0
        self.random = np.random.default_rng(7)

    def node(self, op, *inputs, outputs=1, **attributes):
        self.count += 1
        names = [f"{op.lower()}_{self.count}" + (f"_{k}" if k else "") for k in range(outputs)]
        self.nodes.append(helper.make_node(op, list(inputs), names, **attributes))
        return names[0] if outputs == 1 else names

    def constant(self, array):
        self.count += 1
        self.weights.append(numpy_helper.from_array(np.ascontiguousarray(array), f"w_{self.count}"))
        return f"w_{self.count}"

    def normal(self, *shape, fan=None):
        return self.constant((self.random.standard_normal(shape) * (2 / (fan or np.prod(shape[1:]))) ** 0.5).astype(np.float32))

    def uniform(self, low, high, *shape):
        return self.constant(self.random.uniform(low, high, shape).astype(np.float32))

    def input(self, name, array):
        self.inputs.append((name, array))
        return name

    def dense(self, x, n, m):
        return self.node("Add", self.node("MatMul", x, self.normal(n, m, fan=n)), self.uniform(-0.1, 0.1, m))

    def conv(self, x, n, m, kernel, stride=1, group=1, activation=None):
        """A convolution, a batch norm and an activation."""
        y = self.node("Conv", x, self.normal(m, n // group, kernel, kernel), kernel_shape=[kernel] * 2, strides=[stride] * 2,
                      pads=[kernel // 2] * 4, group=group)
        y = self.node("BatchNormalization", y, self.uniform(0.7, 1.3, m), self.uniform(-0.2, 0.2, m), self.uniform(-0.3, 0.3, m),
                      self.uniform(0.5, 1.5, m))
        return self.node(activation, y) if activation else y

    def opened(self, model, axis):
        """The model with that axis of its input open; reshapes take it as it is."""
        dim = model.graph.input[0].type.tensor_type.shape.dim[axis]
        dim.Clear()
        dim.dim_param = "N"
        shapes = {n.input[1] for n in model.graph.node if n.op_type == "Reshape"}
        for weight in model.graph.initializer:
            if weight.name in shapes:
                dims = numpy_helper.to_array(weight).copy()
                dims[axis] = 0
                weight.CopyFrom(numpy_helper.from_array(dims, weight.name))
        return model

    def write(self, folder, result, axis=None):
        data = os.path.join(folder, self.name, "test_data_set_0")
        os.makedirs(data, exist_ok=True)
        infos = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for n, a in self.inputs]
        out = [helper.make_tensor_value_info(result, TensorProto.FLOAT, None)]
        model = helper.make_model(helper.make_graph(self.nodes, self.name, infos, out, self.weights), opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
        save(model if axis is None else self.opened(model, axis), os.path.join(folder, self.name, "model.onnx"))
        for k, (name, array) in enumerate(self.inputs):
            with open(os.path.join(data, f"input_{k}.pb"), "wb") as f:
                f.write(numpy_helper.from_array(array, name).SerializeToString())


def image(g, batch, size):
    return g.input("x", g.random.standard_normal((batch, 3, size, size)).astype(np.float32))


def classify(g, x, channels, classes):
    return g.dense(g.node("Flatten", g.node("GlobalAveragePool", x)), channels, classes)


def squeeze(g, x, n):
    """A weight for each channel, from all of the image."""
    m = max(4, n // 4)
    y = g.conv(g.conv(g.node("GlobalAveragePool", x), n, m, 1, activation="Relu"), m, n, 1, activation="HardSigmoid")
    return g.node("Mul", x, y)


# Kernel, expanded channels, channels, squeezed?, activation, stride.
MOBILE = [(3, 16, 16, 0, "Relu", 1), (3, 64, 24, 0, "Relu", 2), (3, 72, 24, 0, "Relu", 1), (5, 72, 40, 1, "Relu", 2), (5, 120, 40, 1, "Relu", 1),
          (5, 120, 40, 1, "Relu", 1), (3, 240, 80, 0, "HardSwish", 2), (3, 200, 80, 0, "HardSwish", 1), (3, 184, 80, 0, "HardSwish", 1),
          (3, 184, 80, 0, "HardSwish", 1), (3, 480, 112, 1, "HardSwish", 1), (3, 672, 112, 1, "HardSwish", 1), (5, 672, 160, 1, "HardSwish", 2),
          (5, 960, 160, 1, "HardSwish", 1), (5, 960, 160, 1, "HardSwish", 1)]


def mobilenet(full, batch=1):
    g = Graph("mobilenet")
    n = 16
    x = g.conv(image(g, batch, 224 if full else 25), 3, n, 3, 2, activation="HardSwish")
    for kernel, wide, m, squeezed, activation, stride in MOBILE if full else [MOBILE[0], (5, 40, 24, 1, "Relu", 2), (3, 56, 24, 0, "HardSwish", 1)]:
        y = g.conv(x, n, wide, 1, activation=activation)
        y = g.conv(y, wide, wide, kernel, stride, wide, activation)
        y = squeeze(g, y, wide) if squeezed else y
        y = g.conv(y, wide, m, 1)
        x, n = g.node("Add", x, y) if stride == 1 and n == m else y, m
    return g, classify(g, g.conv(x, n, 6 * n, 1, activation="HardSwish"), 6 * n, 1000 if full else 10)


def resnet(full, batch=1):
    g = Graph("resnet")
    width = 64 if full else 8
    n = width
    x = g.conv(image(g, batch, 224 if full else 31), 3, n, 7, 2, activation="Relu")
    x = g.node("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    for stage, blocks in enumerate([3, 4, 6, 3] if full else [1, 2]):
        m = width << stage
        for block in range(blocks):
            stride = 2 if stage and not block else 1
            y = g.conv(g.conv(x, n, m, 1, activation="Relu"), m, m, 3, stride, activation="Relu")
            y = g.conv(y, m, 4 * m, 1)
            x = g.node("Relu", g.node("Add", y, x if block else g.conv(x, n, 4 * m, 1, stride)))
            n = 4 * m
    return g, classify(g, x, n, 1000 if full else 10)


def norm(g, x, n):
    return g.node("LayerNormalization", x, g.uniform(0.7, 1.3, n), g.uniform(-0.2, 0.2, n), axis=-1)


def attention(g, x, batch, length, n, heads):
    def parts(perm):
        y = g.node("Reshape", g.dense(x, n, n), g.constant(np.array([batch, length, heads, n // heads])))
        return g.node("Transpose", y, perm=perm)

    q, k, v = parts([0, 2, 1, 3]), parts([0, 2, 3, 1]), parts([0, 2, 1, 3])
    s = g.node("Mul", g.node("MatMul", q, k), g.constant(np.float32((n // heads) ** -0.5)))
    y = g.node("Transpose", g.node("MatMul", g.node("Softmax", s, axis=-1), v), perm=[0, 2, 1, 3])
    return g.dense(g.node("Reshape", y, g.constant(np.array([batch, length, n]))), n, n)


def bert(full, batch=0):
    g = Graph("bert")
    layers, n, heads, words, usual, length = (12, 768, 12, 30000, 1, 128) if full else (2, 40, 2, 50, 2, 13)
    batch = batch or usual
    ids = g.input("x", g.random.integers(0, words, (batch, length)))
    x = g.node("Add", g.node("Gather", g.normal(words, n, fan=2), ids), g.normal(length, n, fan=2))
    x = norm(g, x, n)
    for _ in range(layers):
        x = norm(g, g.node("Add", x, attention(g, x, batch, length, n, heads)), n)
        x = norm(g, g.node("Add", x, g.dense(g.node("Gelu", g.dense(x, n, 4 * n)), 4 * n, n)), n)
    return g, x


def lstm(full, batch=0):
    g = Graph("lstm")
    length, usual, n, m, classes = (35, 20, 650, 650, 1000) if full else (5, 3, 20, 24, 11)
    batch = batch or usual
    x = g.input("x", g.random.standard_normal((length, batch, n)).astype(np.float32))
    for directions in (1, 2):
        x, _, _ = g.node("LSTM", x, g.normal(directions, 4 * m, n, fan=2 * n), g.normal(directions, 4 * m, m, fan=2 * m),
                         g.uniform(-0.1, 0.1, directions, 8 * m), outputs=3, hidden_size=m, direction="bidirectional" if directions == 2 else "forward")
        x = g.node("Reshape", g.node("Transpose", x, perm=[0, 2, 1, 3]), g.constant(np.array([length, batch, directions * m])))
        n = directions * m
    return g, g.dense(x, n, classes)


NETWORKS = {"mobilenet": mobilenet, "resnet": resnet, "bert": bert, "lstm": lstm}


def write(folder, size, *names):
    for name in names or NETWORKS:
        g, result = NETWORKS[name](size == "full")
        g.write(folder, result, None if size != "open" else 1 if name == "lstm" else 0)
        print(name)


def expect(folder, *outputs):
    for path in outputs:
        for file in sorted(os.listdir(path)):
            array = np.load(os.path.join(path, file))
            if not array.std() > 0.01 * abs(array).max() > 0:
                sys.exit(f"{folder}: {file} is nearly constant and would hide mistakes")
            with open(os.path.join(folder, "test_data_set_0", file[:-4] + ".pb"), "wb") as f:
                f.write(numpy_helper.from_array(array, "").SerializeToString())


if __name__ == "__main__":
    {"write": write, "expect": expect}[sys.argv[1]](*sys.argv[2:])
