# SPDX-License-Identifier: Apache-2.0
"""Graphs as tf2onnx and paddle2onnx spell them, written node by node (the frameworks themselves are too large for tests).

Each function returns a model and, for the sizes of a few runs, its inputs. What is imitated: channels last with transposes at
both ends, names with colons and slashes, unk__ dims, casts of shapes back and forth between int32 and int64, fills of shapes
known only at run time, conditions kept as nodes, gates spelled out.
"""
import numpy as np
from onnx import TensorProto as T, helper as h, numpy_helper

GRAPHS = {}


def graph(function):
    GRAPHS[function.__name__] = function
    return function


class Builder:
    def __init__(self, seed, opset, producer):
        self.nodes, self.constants, self.opset, self.producer = [], [], opset, producer
        self.random, self.count = np.random.default_rng(seed), 0

    def const(self, value, name=None):
        name = name or f"const_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def weights(self, *shape, name=None):
        fan = int(np.prod(shape[1:])) or 1
        return self.const((self.random.standard_normal(shape) / np.sqrt(fan)).astype(np.float32), name)

    def vector(self, n, low, high):
        return self.const(self.random.uniform(low, high, n).astype(np.float32))

    def __call__(self, op, *inputs, name=None, outputs=1, domain=None, **attributes):
        self.count += 1
        names = [name or f"{op}_{self.count}:0"] if outputs == 1 else [f"{op}_{self.count}:{k}" for k in range(outputs)]
        self.nodes.append(h.make_node(op, list(inputs), names, name=f"model/{op}_{self.count}", domain=domain, **attributes))
        return names[0] if outputs == 1 else names

    def model(self, inputs, outputs):
        g = h.make_graph(self.nodes, self.producer, inputs, outputs, self.constants)
        m = h.make_model(g, opset_imports=[h.make_opsetid("", self.opset), h.make_opsetid("ai.onnx.ml", 2)], ir_version=8)
        m.producer_name = self.producer
        return m


def info(name, kind, *dims):
    return h.make_tensor_value_info(name, kind, dims)


def i64(*values):
    return np.array(values, np.int64)


# -- tf2onnx --------------------------------------------------------------------------------------------------


def keras_conv(b, x, n, m, k, stride=1, act="Relu", group=1):
    """Convolution, moments as a batch norm, and SAME padding as TensorFlow has it: more at the end."""
    x = b("Conv", x, b.weights(m, n // group, k, k), kernel_shape=[k, k], strides=[stride, stride], group=group, auto_pad="SAME_UPPER")
    x = b("BatchNormalization", x, b.vector(m, 0.5, 1.5), b.vector(m, -0.3, 0.3), b.vector(m, -0.3, 0.3), b.vector(m, 0.5, 1.5), epsilon=1e-3)
    if act == "Relu6":
        return b("Clip", x, b.const(np.float32(0)), b.const(np.float32(6)))
    return b(act, x) if act else x


@graph
def keras_classifier():
    """Channels last outside, inverted residuals inside, mean by attribute, Gemm spelled as MatMul and Add."""
    b = Builder(1, 12, "tf2onnx")
    x = b("Transpose", "serving_default_input_1:0", perm=[0, 3, 1, 2])
    x = b("Sub", b("Mul", x, b.const(np.float32(1 / 127.5))), b.const(np.float32(1)))
    x = keras_conv(b, x, 3, 8, 3, 2, "Relu6")
    y = keras_conv(b, keras_conv(b, x, 8, 24, 1, 1, "Relu6"), 24, 24, 3, 1, "Relu6", 24)
    x = b("Add", x, keras_conv(b, y, 24, 8, 1, 1, None))
    x = b("Squeeze", b("GlobalAveragePool", x), axes=[2, 3])
    x = b("Add", b("MatMul", x, b.weights(8, 10)), b.vector(10, -1, 1))
    b("Softmax", x, name="StatefulPartitionedCall:0", axis=1)
    m = b.model([info("serving_default_input_1:0", T.FLOAT, "unk__310", 15, 17, 3)], [info("StatefulPartitionedCall:0", T.FLOAT, "unk__311", 10)])
    return m, [{"serving_default_input_1:0": b.random.uniform(0, 255, (n, 15, 17, 3)).astype(np.float32)} for n in (1, 3)]


@graph
def keras_resize_by_shape():
    """Upsampling to the size of a skip: a shape cut, cast to int32 and back, joined to what Resize wants."""
    b = Builder(2, 13, "tf2onnx")
    x = b("Transpose", "input_1", perm=[0, 3, 1, 2])
    a = keras_conv(b, x, 3, 8, 3, 2)
    c = keras_conv(b, keras_conv(b, a, 8, 16, 3, 2), 16, 8, 1, 1)
    shape = b("Cast", b("Shape", b("Transpose", a, perm=[0, 2, 3, 1])), to=T.INT32)
    cut = b("Slice", shape, b.const(i64(1)), b.const(i64(3)), b.const(i64(0)))
    size = b("Cast", cut, to=T.INT64)
    lead = b("Slice", b("Shape", c), b.const(i64(0)), b.const(i64(2)), b.const(i64(0)))
    up = b("Resize", c, "", "", b("Concat", lead, size, axis=0), mode="linear", coordinate_transformation_mode="asymmetric", nearest_mode="floor")
    y = keras_conv(b, b("Concat", a, up, axis=1), 16, 4, 3, 1, "LeakyRelu")
    b("Transpose", y, name="Identity:0", perm=[0, 2, 3, 1])
    m = b.model([info("input_1", T.FLOAT, "unk__1", "unk__2", "unk__3", 3)], [info("Identity:0", T.FLOAT, "unk__4", "unk__5", "unk__6", 4)])
    return m, [{"input_1": b.random.standard_normal(s).astype(np.float32)} for s in ((1, 12, 16, 3), (2, 20, 12, 3))]


@graph
def keras_lstm():
    """A Keras LSTM: time first by transposes, the last step by a slice with negative indices."""
    b = Builder(3, 15, "tf2onnx")
    e = b("Gather", b.weights(30, 12), b("Cast", "input_ids", to=T.INT32), axis=0)
    x = b("Transpose", e, perm=[1, 0, 2])
    rows = b("Slice", b("Shape", e), b.const(i64(0)), b.const(i64(1)), b.const(i64(0)))
    zeros = b("Expand", b.const(np.zeros((1, 1, 10), np.float32)), b("Concat", b.const(i64(1)), rows, b.const(i64(10)), axis=0))
    y, last, _ = b("LSTM", x, b.weights(1, 40, 12), b.weights(1, 40, 10), b.vector((1, 80), -0.2, 0.2), "", zeros, zeros, outputs=3, hidden_size=10)
    y = b("Squeeze", y, b.const(i64(1)))
    end = b("Squeeze", b("Slice", y, b.const(i64(-1)), b.const(i64(np.iinfo(np.int64).max)), b.const(i64(0))), b.const(i64(0)))
    b("Sigmoid", b("Add", b("MatMul", end, b.weights(10, 1)), b.vector(1, -1, 1)), name="dense/Sigmoid:0")
    b("Transpose", y, name="lstm/transpose_1:0", perm=[1, 0, 2])
    m = b.model([info("input_ids", T.FLOAT, "unk__10", "unk__11")],
                [info("dense/Sigmoid:0", T.FLOAT, "unk__10", 1), info("lstm/transpose_1:0", T.FLOAT, "unk__10", "unk__11", 10)])
    return m, [{"input_ids": b.random.integers(0, 30, s).astype(np.float32)} for s in ((2, 5), (1, 9), (3, 1))]


@graph
def tf_while_decoder():
    """A dynamic RNN as a Loop with a condition that counts, outputs stacked, the state a loop variable."""
    b = Builder(4, 13, "tf2onnx")
    body = Builder(5, 13, "tf2onnx")
    body.count = 100
    step = body("Gather", "x_time_first", "i", axis=0)
    both = body("Concat", step, "state_in", axis=1)
    new = body("Tanh", body("Add", body("MatMul", both, "kernel"), "bias"), name="state_out")
    body("Identity", new, name="emitted")
    body("Less", body("Add", "i", body.const(np.int64(1), "one")), "steps", name="going_out")
    inner = h.make_graph(body.nodes, "while_body", [info("i", T.INT64), info("going", T.BOOL), info("state_in", T.FLOAT, "n", 6)],
                         [info("going_out", T.BOOL), info("state_out", T.FLOAT, "n", 6), info("emitted", T.FLOAT, "n", 6)], body.constants)
    b("Transpose", "x", name="x_time_first", perm=[1, 0, 2])
    b.weights(10, 6, name="kernel")
    b.const(b.random.uniform(-0.2, 0.2, 6).astype(np.float32), "bias")
    shape = b("Shape", "x")
    b("Squeeze", b("Slice", shape, b.const(i64(1)), b.const(i64(2)), b.const(i64(0))), b.const(i64(0)), name="steps")
    rows = b("Slice", shape, b.const(i64(0)), b.const(i64(1)), b.const(i64(0)))
    start = b("ConstantOfShape", b("Concat", rows, b.const(i64(6)), axis=0), value=h.make_tensor("v", T.FLOAT, [1], [0.0]))
    state, stacked = b("Loop", b.const(np.int64(2**31 - 1)), b.const(np.bool_(True)), start, outputs=2, body=inner)
    b("Transpose", stacked, name="outputs:0", perm=[1, 0, 2])
    b("Identity", state, name="state:0")
    m = b.model([info("x", T.FLOAT, "unk__1", "unk__2", 4)], [info("outputs:0", T.FLOAT, "unk__1", "unk__2", 6), info("state:0", T.FLOAT, "unk__1", 6)])
    return m, [{"x": b.random.standard_normal(s).astype(np.float32)} for s in ((2, 4, 4), (1, 7, 4))]


@graph
def tf_detector_post():
    """Boxes and scores of TensorFlow's detection models: suppression for each class, gathered, padded to a fixed number."""
    b = Builder(6, 11, "tf2onnx")
    scores = b("Transpose", "scores:0", perm=[0, 2, 1])
    kept = b("NonMaxSuppression", "boxes:0", scores, b.const(i64(4)), b.const(np.float32([0.5])), b.const(np.float32([0.3])))
    rows = b("Slice", kept, b.const(i64(2)), b.const(i64(3)), b.const(i64(1)))
    index = b("Squeeze", rows, axes=[1])
    label = b("Squeeze", b("Slice", kept, b.const(i64(1)), b.const(i64(2)), b.const(i64(1))), axes=[1])
    boxes = b("Gather", b("Squeeze", "boxes:0", axes=[0]), index, axis=0)
    value = b("GatherND", b("Squeeze", "scores:0", axes=[0]), b("Concat", b("Unsqueeze", index, axes=[1]), b("Unsqueeze", label, axes=[1]), axis=1))
    n = b("Shape", index)
    k = b("Cast", b("Min", b("Cast", n, to=T.FLOAT), b.const(np.float32([8]))), to=T.INT64)
    best, order = b("TopK", value, k, outputs=2, axis=0, largest=1, sorted=1)
    short = b("Sub", b.const(i64(8)), k)
    b("Pad", best, b("Concat", b.const(i64(0)), short, axis=0), name="detection_scores:0")
    pads = b("Concat", b.const(i64(0, 0)), short, b.const(i64(0)), axis=0)
    b("Pad", b("Gather", boxes, order, axis=0), pads, name="detection_boxes:0")
    b("Cast", k, name="num_detections:0", to=T.FLOAT)
    m = b.model([info("boxes:0", T.FLOAT, 1, "unk__7", 4), info("scores:0", T.FLOAT, 1, "unk__7", 3)],
                [info("detection_scores:0", T.FLOAT, 8), info("detection_boxes:0", T.FLOAT, 8, 4), info("num_detections:0", T.FLOAT, 1)])

    def run(n):
        lo = b.random.uniform(0, 0.6, (1, n, 2))
        boxes = np.concatenate([lo, lo + b.random.uniform(0.1, 0.4, (1, n, 2))], 2).astype(np.float32)
        return {"boxes:0": boxes, "scores:0": b.random.uniform(0, 1, (1, n, 3)).astype(np.float32)}

    return m, [run(6), run(15)]


@graph
def tf_layer_norm_transformer():
    """Means and squared differences, batched MatMul by Einsum, a mask made of NotEqual, gelu by Erf."""
    b = Builder(7, 13, "tf2onnx")
    mask = b("Cast", b("Not", b("Equal", "tokens", b.const(np.int32(0)))), to=T.FLOAT)
    x = b("Gather", b.weights(40, 16), "tokens", axis=0)

    def norm(x):
        mean = b("ReduceMean", x, axes=[-1], keepdims=1)
        var = b("ReduceMean", b("Mul", b("Sub", x, mean), b("Sub", x, mean)), axes=[-1], keepdims=1)
        inverse = b("Mul", b("Reciprocal", b("Sqrt", b("Add", var, b.const(np.float32(1e-6))))), b.vector(16, 0.7, 1.3))
        return b("Add", b("Mul", x, inverse), b("Sub", b.vector(16, -0.2, 0.2), b("Mul", mean, inverse)))

    y = norm(x)
    q, k, v = (b("Add", b("Einsum", y, b.weights(16, 2, 8), equation="abc,cde->abde"), b.vector((2, 8), -0.1, 0.1)) for _ in range(3))
    q = b("Mul", q, b.const(np.float32(8**-0.5)))
    s = b("Einsum", k, q, equation="aecd,abcd->acbe")
    bias = b("Mul", b("Sub", b.const(np.float32(1)), mask), b.const(np.float32(-1e9)))
    s = b("Softmax", b("Add", s, b("Unsqueeze", bias, b.const(i64(1, 2)))), axis=-1)
    o = b("Einsum", b("Einsum", s, v, equation="acbe,aecd->abcd"), b.weights(2, 8, 16), equation="abcd,cde->abe")
    x = b("Add", x, b("Add", o, b.vector(16, -0.1, 0.1)))
    y = b("Add", b("MatMul", norm(x), b.weights(16, 32)), b.vector(32, -0.1, 0.1))
    half = b("Mul", b.const(np.float32(0.5)), y)
    y = b("Mul", half, b("Add", b.const(np.float32(1)), b("Erf", b("Div", y, b.const(np.float32(1.4142135))))))
    b("Add", x, b("MatMul", y, b.weights(32, 16)), name="sequence_output")
    m = b.model([info("tokens", T.INT32, "unk__a", "unk__b")], [info("sequence_output", T.FLOAT, "unk__a", "unk__b", 16)])
    return m, [{"tokens": b.random.integers(0, 40, s).astype(np.int32)} for s in ((2, 6), (1, 11))]


# -- paddle2onnx ----------------------------------------------------------------------------------------------


def hard_swish(b, x):
    y = b("Clip", b("Add", x, b.const(np.float32(3))), b.const(np.float32(0)), b.const(np.float32(6)))
    return b("Div", b("Mul", x, y), b.const(np.float32(6)))


def paddle_conv(b, x, n, m, k, stride=1, group=1):
    p = k // 2
    x = b("Conv", x, b.weights(m, n // group, k, k), kernel_shape=[k, k], strides=[stride, stride], group=group, pads=[p, p, p, p], dilations=[1, 1])
    return b("BatchNormalization", x, b.vector(m, 0.5, 1.5), b.vector(m, -0.3, 0.3), b.vector(m, -0.3, 0.3), b.vector(m, 0.5, 1.5), epsilon=1e-5, momentum=0.9)


@graph
def paddle_detector():
    """A text detector: squeezes by hard sigmoids, scales known when exported, a head of transposed convolutions; dims named -1 and ?."""
    b = Builder(11, 12, "PaddlePaddle")
    roi = b.const(np.zeros(0, np.float32))
    a = hard_swish(b, paddle_conv(b, "x", 3, 8, 3, 2))
    s = b("HardSigmoid", b("Conv", b("GlobalAveragePool", a), b.weights(8, 8, 1, 1), b.vector(8, -1, 1)), alpha=0.2, beta=0.5)
    a = b("Mul", a, s)
    c = hard_swish(b, paddle_conv(b, a, 8, 16, 5, 2))
    p = b("Conv", c, b.weights(12, 16, 1, 1))
    up = b("Resize", p, roi, b.const(np.float32([1, 1, 2, 2])), mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor")
    q = b("Add", b("Conv", a, b.weights(12, 8, 1, 1)), up)
    p = b("Resize", p, roi, b.const(np.float32([1, 1, 2, 2])), mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor")
    x = b("Relu", paddle_conv(b, b("Concat", p, q, axis=1), 24, 6, 3))
    x = b("ConvTranspose", x, b.weights(6, 1, 2, 2), kernel_shape=[2, 2], strides=[2, 2], pads=[0, 0, 0, 0])
    x = b("Add", x, b("Reshape", b.vector(1, -1, 1), b.const(i64(1, 1, 1, 1))))
    b("Sigmoid", x, name="sigmoid_0.tmp_0")
    m = b.model([info("x", T.FLOAT, "-1", 3, "?", "?")], [info("sigmoid_0.tmp_0", T.FLOAT, "-1", 1, "-1", "-1")])
    return m, [{"x": b.random.standard_normal(s).astype(np.float32)} for s in ((1, 3, 16, 24), (2, 3, 32, 16))]


@graph
def paddle_recogniser():
    """A recogniser: height squeezed, a reshape by a shape that was cast and cut, a GRU both ways, softmax over the letters."""
    b = Builder(12, 12, "PaddlePaddle")
    x = hard_swish(b, paddle_conv(b, "x", 3, 8, 3, 2))
    x = b("AveragePool", hard_swish(b, paddle_conv(b, x, 8, 16, 3, 1, 1)), kernel_shape=[8, 2], strides=[8, 2])
    x = b("Transpose", b("Squeeze", x, axes=[2]), perm=[0, 2, 1])
    time = b("Transpose", x, perm=[1, 0, 2])
    rows = b("Cast", b("Slice", b("Shape", x), b.const(i64(0)), b.const(i64(1))), to=T.INT32)
    shape = b("Concat", b.const(np.array([2], np.int32)), rows, b.const(np.array([8], np.int32)), axis=0)
    zeros = b("ConstantOfShape", b("Cast", shape, to=T.INT64), value=h.make_tensor("v", T.FLOAT, [1], [0.0]))
    y, _ = b("GRU", time, b.weights(2, 24, 16), b.weights(2, 24, 8), b.vector((2, 48), -0.2, 0.2), "", zeros, outputs=2, hidden_size=8,
             direction="bidirectional", linear_before_reset=1)
    y = b("Transpose", y, perm=[0, 2, 1, 3])
    y = b("Transpose", b("Reshape", y, b.const(i64(0, 0, -1))), perm=[1, 0, 2])
    b("Softmax", b("Add", b("MatMul", y, b.weights(16, 12)), b.vector(12, -1, 1)), name="softmax_0.tmp_0", axis=2)
    m = b.model([info("x", T.FLOAT, "p2o.DynamicDimension.0", 3, 16, "p2o.DynamicDimension.1")],
                [info("softmax_0.tmp_0", T.FLOAT, "p2o.DynamicDimension.2", "p2o.DynamicDimension.3", 12)])
    return m, [{"x": b.random.standard_normal(s).astype(np.float32)} for s in ((1, 3, 16, 32), (3, 3, 16, 48))]


@graph
def paddle_layout():
    """A detector's head: flattened maps joined, distances projected by a product, suppression of many classes, boxes gathered."""
    b = Builder(13, 11, "PaddlePaddle")
    levels = []
    x = "image"
    for n, m in ((3, 8), (8, 8)):
        x = b("LeakyRelu", paddle_conv(b, x, n, m, 3, 2), alpha=0.1)
        score = b("Sigmoid", b("Conv", x, b.weights(3, 8, 1, 1), b.vector(3, -1, 0.5)))
        box = b("Conv", x, b.weights(16, 8, 1, 1))
        n_, c_ = b.const(i64(0, 3, -1)), b.const(i64(0, 16, -1))
        levels.append((b("Transpose", b("Reshape", score, n_), perm=[0, 2, 1]), b("Transpose", b("Reshape", box, c_), perm=[0, 2, 1])))
    scores, boxes = (b("Concat", *parts, axis=1) for parts in zip(*levels))
    d = b("Softmax", b("Reshape", boxes, b.const(i64(-1, 4))), axis=1)
    d = b("Reshape", b("MatMul", d, b.const(np.arange(4, dtype=np.float32)[:, None])), b.const(i64(0, 1)))
    d = b("Reshape", d, b.const(i64(1, -1, 4)))
    lo, hi = b("Split", d, outputs=2, axis=2, split=[2, 2])
    centre = b("CumSum", b("Add", b("Mul", lo, b.const(np.float32(0))), b.const(np.float32(0.7))), b.const(np.int32(1)))
    boxes = b("Concat", b("Sub", centre, lo), b("Add", centre, hi), axis=2)
    kept = b("NonMaxSuppression", boxes, b("Transpose", scores, perm=[0, 2, 1]), b.const(i64(3)), b.const(np.float32([0.4])), b.const(np.float32([0.2])))
    index = b("Squeeze", b("Slice", kept, b.const(i64(2)), b.const(i64(3)), b.const(i64(1))), axes=[1])
    b("Gather", b("Squeeze", boxes, axes=[0]), index, name="boxes", axis=0)
    b("Cast", b("Shape", index), name="count", to=T.INT32)
    m = b.model([info("image", T.FLOAT, 1, 3, 16, 24)], [info("boxes", T.FLOAT, "?", 4), info("count", T.INT32, 1)])
    return m, [{"image": b.random.standard_normal((1, 3, 16, 24)).astype(np.float32)} for _ in range(2)]


@graph
def paddle_attention():
    """One product for queries, keys and values, cut by slices that squeeze; shapes made of Gather, Unsqueeze and Concat."""
    b = Builder(14, 13, "PaddlePaddle")
    shape = b("Shape", "x")
    part = lambda k: b("Unsqueeze", b("Gather", shape, b.const(np.int64(k)), axis=0), b.const(i64(0)))
    n, t = part(0), part(1)
    y = b("Add", b("MatMul", "x", b.weights(16, 48)), b.vector(48, -0.2, 0.2))
    y = b("Transpose", b("Reshape", y, b("Concat", n, t, b.const(i64(3, 2, 8)), axis=0)), perm=[2, 0, 3, 1, 4])
    q, k, v = (b("Squeeze", b("Slice", y, b.const(i64(j)), b.const(i64(j + 1)), b.const(i64(0))), b.const(i64(0))) for j in range(3))
    s = b("MatMul", b("Mul", q, b.const(np.float32(8**-0.5))), b("Transpose", k, perm=[0, 1, 3, 2]))
    o = b("Transpose", b("MatMul", b("Softmax", s, axis=-1), v), perm=[0, 2, 1, 3])
    o = b("Reshape", o, b("Concat", n, t, b.const(i64(16)), axis=0))
    x = b("Add", "x", b("MatMul", o, b.weights(16, 16)))
    sigma = b("Sigmoid", x)
    b("Mul", x, sigma, name="out")
    m = b.model([info("x", T.FLOAT, "DynamicDimension.0", "DynamicDimension.1", 16)], [info("out", T.FLOAT, "DynamicDimension.2", "DynamicDimension.3", 16)])
    return m, [{"x": b.random.standard_normal(s).astype(np.float32)} for s in ((2, 5, 16), (1, 8, 16))]
