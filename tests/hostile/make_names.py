"""Models in which every name has control characters, line ends, C1 controls and a change of writing direction. usage: make_names.py FOLDER"""
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

ODD = "\x1b[31m\n\x7f\u009b2J\u202e*/\"<b>"


def odd(text):
    return text + ODD


def save(path, nodes, domains=()):
    x = helper.make_tensor_value_info(odd("x"), TensorProto.FLOAT, [odd("N"), 4])
    y = helper.make_tensor_value_info(odd("y"), TensorProto.FLOAT, [odd("N"), 3])
    w = numpy_helper.from_array(np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3), odd("w"))
    graph = helper.make_graph(nodes, odd("g"), [x], [y], [w], doc_string=odd("text"))
    opsets = [helper.make_opsetid("", 17)] + [helper.make_opsetid(d, 1) for d in domains]
    model = helper.make_model(graph, producer_name=odd("p"), opset_imports=opsets)
    model.ir_version = 8
    onnx.save(model, path)


folder = sys.argv[1]
product = helper.make_node("MatMul", [odd("x"), odd("w")], [odd("h")], name=odd("product"))
save(folder + "/good.onnx", [product, helper.make_node("Relu", [odd("h")], [odd("y")], name=odd("r"))])
wrong = [
    [product, helper.make_node(odd("Nope"), [odd("h")], [odd("y")], name=odd("r"), domain=odd("d"))],
    [product, helper.make_node("Nope", [odd("h")], [odd("y")], name=odd("r"))],
    [helper.make_node("Reshape", [odd("x"), odd("w")], [odd("y")], name=odd("r"))],
    [helper.make_node("Relu", [odd("missing")], [odd("y")], name=odd("r"))],
    [helper.make_node("Concat", [odd("x"), odd("w")], [odd("y")], name=odd("r"), axis=9)],
    [helper.make_node("Cast", [odd("x")], [odd("y")], name=odd("r"), to=999)],
]
for k, nodes in enumerate(wrong):
    save(f"{folder}/wrong{k}.onnx", nodes, [odd("d")])
np.save(folder + "/x.npy", np.ones((8, 4), np.float32))
np.save(folder + "/target.npy", np.zeros((8, 3), np.float32))
with open(folder + "/x.name", "w", encoding="utf-8") as f:
    f.write(odd("x"))
# libzip takes no archive that has control characters in a name marked as UTF-8.
np.savez(folder + "/other.npz", **{odd("z"): np.ones((8, 4), np.float32)})
