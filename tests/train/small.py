#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Small models with a symbolic batch and seeded weights, for the tests of tccc --train and tccc-train.

usage: small.py KIND OUT.onnx
"""
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

TRAINING = "ai.onnx.preview.training"
random = np.random.default_rng(7)


def weight(name, *shape, scale=0.5):
    return numpy_helper.from_array((random.standard_normal(shape) * scale).astype(np.float32), name)


def save(path, nodes, inputs, outputs, weights, training=None, opset=17):
    values = [[helper.make_tensor_value_info(name, kind, shape) for name, kind, shape in part] for part in (inputs, outputs)]
    graph = helper.make_graph(nodes, "small", values[0], values[1], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)] + [helper.make_opsetid(TRAINING, 1)] * bool(training), ir_version=8)
    if training:
        model.training_info.append(training)
    onnx.checker.check_model(model)
    onnx.save(model, path)


def mlp(path):
    """x[N,3] -> scores[N,5]"""
    save(path, [helper.make_node("Gemm", ["x", "fc1.weight", "fc1.bias"], ["h"], transB=1), helper.make_node("Tanh", ["h"], ["a"]),
                helper.make_node("Gemm", ["a", "fc2.weight", "fc2.bias"], ["scores"], transB=1)],
         [("x", TensorProto.FLOAT, ["N", 3])], [("scores", TensorProto.FLOAT, ["N", 5])],
         [weight("fc1.weight", 8, 3), weight("fc1.bias", 8), weight("fc2.weight", 5, 8), weight("fc2.bias", 5)])


def tokens(path):
    """ids[N,4] -> scores[N,4,6]"""
    save(path, [helper.make_node("Gather", ["embed", "ids"], ["e"]), helper.make_node("MatMul", ["e", "head"], ["scores"])],
         [("ids", TensorProto.INT64, ["N", 4])], [("scores", TensorProto.FLOAT, ["N", 4, 6])],
         [weight("embed", 6, 8), weight("head", 8, 6)])


def pictures(path):
    """x[N,3,8,8] -> scores[N,3]"""
    save(path, [helper.make_node("Conv", ["x", "conv.weight"], ["c"], strides=[2, 2], pads=[1, 1, 1, 1]), helper.make_node("Relu", ["c"], ["r"]),
                helper.make_node("Flatten", ["r"], ["f"]), helper.make_node("Gemm", ["f", "fc.weight", "fc.bias"], ["scores"], transB=1)],
         [("x", TensorProto.FLOAT, ["N", 3, 8, 8])], [("scores", TensorProto.FLOAT, ["N", 3])],
         [weight("conv.weight", 4, 3, 3, 3), weight("fc.weight", 3, 64), weight("fc.bias", 3)])


def narrow(path, kind, mixed=False):
    """mlp, with parameters of 16 bits (mixed: the biases are float32)"""
    def cast(w):
        if mixed and w.name.endswith("bias"):
            return w
        values = numpy_helper.to_array(w)
        return helper.make_tensor(w.name, kind, values.shape, values.reshape(-1))

    nodes = [helper.make_node("Cast", ["x"], ["x16"], to=kind)]
    at = "x16"
    for k, (first, name) in enumerate((("fc1", "a"), ("fc2", "y"))):
        nodes.append(helper.make_node("Gemm", [at, first + ".weight"], [name + "m"], transB=1))
        bias = first + ".bias"
        if mixed:
            nodes.append(helper.make_node("Cast", [bias], [bias + "16"], to=kind))
            bias += "16"
        nodes.append(helper.make_node("Add", [name + "m", bias], [name + "s"]))
        nodes.append(helper.make_node("Tanh" if k == 0 else "Identity", [name + "s"], [name]))
        at = name
    nodes.append(helper.make_node("Cast", [at], ["scores"], to=TensorProto.FLOAT))
    save(path, nodes, [("x", TensorProto.FLOAT, ["N", 3])], [("scores", TensorProto.FLOAT, ["N", 5])],
         [cast(w) for w in (weight("fc1.weight", 8, 3), weight("fc1.bias", 8), weight("fc2.weight", 5, 8), weight("fc2.bias", 5))])


def bf16(path):
    narrow(path, TensorProto.BFLOAT16)


def f16(path):
    narrow(path, TensorProto.FLOAT16)


def mixed(path):
    narrow(path, TensorProto.BFLOAT16, True)


def norm(path, features=True):
    """x[N,3] -> scores[N,5], features[2,N,8]: in training by statistics of the batch, with Dropout"""
    const = lambda name, values, kind=np.float32: numpy_helper.from_array(np.asarray(values, kind), name)
    save(path, [helper.make_node("Gemm", ["x", "fc1.weight", "fc1.bias"], ["h"], transB=1),
                helper.make_node("BatchNormalization", ["h", "bn.weight", "bn.bias", "bn.mean", "bn.var"], ["n", "new.mean", "new.var"], training_mode=1),
                helper.make_node("Relu", ["n"], ["a"]), helper.make_node("Dropout", ["a", "ratio", "yes"], ["d"]),
                helper.make_node("Gemm", ["d", "fc2.weight", "fc2.bias"], ["scores"], transB=1),
                helper.make_node("Unsqueeze", ["a", "zero"], ["a1"]), helper.make_node("Neg", ["a1"], ["a2"]),
                helper.make_node("Concat", ["a1", "a2"], ["features"], axis=0)][:None if features else 5],
         [("x", TensorProto.FLOAT, ["N", 3])],
         [("scores", TensorProto.FLOAT, ["N", 5]), ("features", TensorProto.FLOAT, [2, "N", 8])][:1 + features],
         [weight("fc1.weight", 8, 3), weight("fc1.bias", 8), weight("fc2.weight", 5, 8), weight("fc2.bias", 5), const("bn.weight", np.ones(8)),
          const("bn.bias", np.zeros(8)), const("bn.mean", np.zeros(8)), const("bn.var", np.ones(8)), const("ratio", 0.5), const("yes", True, bool),
          const("zero", [0], np.int64)])


def major(path):
    """x[T,N,3] -> scores[N,5]: time-major"""
    save(path, [helper.make_node("ReduceMean", ["x"], ["m"], axes=[0], keepdims=0), helper.make_node("Gemm", ["m", "fc.weight", "fc.bias"], ["scores"], transB=1)],
         [("x", TensorProto.FLOAT, ["T", "N", 3])], [("scores", TensorProto.FLOAT, ["N", 5])], [weight("fc.weight", 5, 3), weight("fc.bias", 5)])


def table(path):
    """x[N,3], table[12,3] -> scores[N,5]: an input whose first axis is no batch"""
    save(path, [helper.make_node("ReduceMean", ["table"], ["m"], axes=[0]), helper.make_node("Add", ["x", "m"], ["s"]),
                helper.make_node("Gemm", ["s", "fc.weight", "fc.bias"], ["scores"], transB=1)],
         [("x", TensorProto.FLOAT, ["N", 3]), ("table", TensorProto.FLOAT, [12, 3])], [("scores", TensorProto.FLOAT, ["N", 5])],
         [weight("fc.weight", 5, 3), weight("fc.bias", 5)])


def pinned(path):
    """x[N,3] -> scores[N,5] by way of a constant of 32 rows: right for N = 32 only"""
    save(path, [helper.make_node("Gemm", ["x", "fc.weight", "fc.bias"], ["y"], transB=1), helper.make_node("Add", ["y", "offset"], ["scores"])],
         [("x", TensorProto.FLOAT, ["N", 3])], [("scores", TensorProto.FLOAT, ["N", 5])],
         [weight("fc.weight", 5, 3), weight("fc.bias", 5), weight("offset", 32, 5)])


def layout(path, first):
    """x[N,T,3], shift[N,3] -> scores[N,5], steps[N,T,3]; not first: x[T,N,3], shift[3], one for all samples -> scores[N,5], steps[T,N,3]"""
    shape = ["N", "T", 3] if first else ["T", "N", 3]
    save(path, [helper.make_node("Tanh", ["x"], ["steps"]), helper.make_node("ReduceMean", ["steps"], ["m"], axes=[1 if first else 0], keepdims=0),
                helper.make_node("Add", ["m", "shift"], ["s"]), helper.make_node("Gemm", ["s", "fc.weight", "fc.bias"], ["scores"], transB=1)],
         [("x", TensorProto.FLOAT, shape), ("shift", TensorProto.FLOAT, ["N", 3] if first else [3])],
         [("scores", TensorProto.FLOAT, ["N", 5]), ("steps", TensorProto.FLOAT, shape)], [weight("fc.weight", 5, 3), weight("fc.bias", 5)])


def first(path):
    layout(path, True)


def inner(path):
    layout(path, False)


def scores(path):
    norm(path, False)


def own(path):
    """x[N,3], wanted[N,2] -> y[N,2], and the loss that the model computes"""
    save(path, [helper.make_node("Gemm", ["x", "fc.weight", "fc.bias"], ["y"], transB=1), helper.make_node("Sub", ["y", "wanted"], ["e"]),
                helper.make_node("Mul", ["e", "e"], ["s"]), helper.make_node("ReduceMean", ["s"], ["cost"], keepdims=0)],
         [("x", TensorProto.FLOAT, ["N", 3]), ("wanted", TensorProto.FLOAT, ["N", 2])],
         [("y", TensorProto.FLOAT, ["N", 2]), ("cost", TensorProto.FLOAT, [])], [weight("fc.weight", 2, 3), weight("fc.bias", 2)])


def normal(path, opset):
    """x[N,3] -> scores[N,5] through a BatchNormalization, which has five results up to opset 13"""
    old = opset < 14
    const = lambda name, value: numpy_helper.from_array(np.full(8, value, np.float32), name)
    save(path, [helper.make_node("Gemm", ["x", "fc1.weight", "fc1.bias"], ["h"], transB=1),
                helper.make_node("BatchNormalization", ["h", "bn.weight", "bn.bias", "bn.mean", "bn.var"],
                                 ["n", "new.mean", "new.var"] + ["dead.mean", "dead.var"] * old, **({} if old else {"training_mode": 1})),
                helper.make_node("Relu", ["n"], ["a"]), helper.make_node("Gemm", ["a", "fc2.weight", "fc2.bias"], ["scores"], transB=1)],
         [("x", TensorProto.FLOAT, ["N", 3])], [("scores", TensorProto.FLOAT, ["N", 5])],
         [weight("fc1.weight", 8, 3), weight("fc1.bias", 8), weight("fc2.weight", 5, 8), weight("fc2.bias", 5), const("bn.weight", 1), const("bn.bias", 0),
          const("bn.mean", 0), const("bn.var", 1)], opset=opset)


def normal13(path):
    normal(path, 13)


def normal17(path):
    normal(path, 17)


def info(path):
    """x[N,3], wanted[N,5] -> scores[N,5], and the loss; its TrainingInfoProto: plain SGD, running statistics of the BatchNormalization"""
    const = lambda name, values, kind=np.float32: numpy_helper.from_array(np.asarray(values, kind), name)
    trained = ["fc1.weight", "fc1.bias", "bn.weight", "bn.bias", "fc2.weight", "fc2.bias"]
    shapes = [(8, 3), (8,), (8,), (8,), (5, 8), (5,)]
    nodes = [helper.make_node("Gradient", trained + ["x", "wanted"], ["d." + t for t in trained], domain=TRAINING, xs=trained, zs=["x", "wanted"], y="cost")]
    for t in trained:
        nodes += [helper.make_node("Mul", ["d." + t, "rate"], ["s." + t]), helper.make_node("Sub", [t, "s." + t], ["new." + t])]
    step = onnx.TrainingInfoProto()
    step.algorithm.CopyFrom(helper.make_graph(nodes, "algorithm", [], [helper.make_tensor_value_info("new." + t, TensorProto.FLOAT, s) for t, s in zip(trained, shapes)],
                                              [const("rate", 0.1)]))
    for t in trained + ["bn.mean", "bn.var"]:
        b = step.update_binding.add()
        b.key, b.value = t, "new." + t
    save(path, [helper.make_node("Gemm", ["x", "fc1.weight", "fc1.bias"], ["h"], transB=1),
                helper.make_node("BatchNormalization", ["h", "bn.weight", "bn.bias", "bn.mean", "bn.var"], ["n", "new.bn.mean", "new.bn.var"], training_mode=1),
                helper.make_node("Relu", ["n"], ["a"]), helper.make_node("Dropout", ["a", "ratio", "yes"], ["d"]),
                helper.make_node("Gemm", ["d", "fc2.weight", "fc2.bias"], ["scores"], transB=1),
                helper.make_node("Sub", ["scores", "wanted"], ["e"]), helper.make_node("Mul", ["e", "e"], ["q"]),
                helper.make_node("ReduceMean", ["q"], ["cost"], keepdims=0)],
         [("x", TensorProto.FLOAT, ["N", 3]), ("wanted", TensorProto.FLOAT, ["N", 5])],
         [("scores", TensorProto.FLOAT, ["N", 5]), ("cost", TensorProto.FLOAT, [])],
         [weight("fc1.weight", 8, 3), weight("fc1.bias", 8), weight("fc2.weight", 5, 8), weight("fc2.bias", 5), const("bn.weight", np.ones(8)),
          const("bn.bias", np.zeros(8)), const("bn.mean", np.zeros(8)), const("bn.var", np.ones(8)), const("ratio", 0.5), const("yes", True, bool)], step)


KINDS = {f.__name__: f for f in (mlp, tokens, pictures, bf16, f16, mixed, norm, scores, own, major, first, inner, table, pinned, info, normal13, normal17)}

if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in KINDS:
        sys.exit(__doc__)
    KINDS[sys.argv[1]](sys.argv[2])
