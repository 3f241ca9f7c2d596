# SPDX-License-Identifier: Apache-2.0
"""Writes merged.onnx, folded.onnx and kept.onnx: what an export for inference makes of a network that is to be trained, and one for training."""
import numpy as np, onnx
from onnx import TensorProto as T, helper as H, numpy_helper as NH
rng = np.random.default_rng(0)
w = lambda name, *shape: NH.from_array((rng.standard_normal(shape) * 0.3).astype(np.float32), name)
full = lambda name, value, *shape: NH.from_array(np.full(shape, value, np.float32), name)
vi = lambda name, shape: H.make_tensor_value_info(name, T.FLOAT, shape)
def save(file, nodes, x, y, weights):
    m = H.make_model(H.make_graph(nodes, "net", [vi("x", x)], [vi("y", y)], weights), opset_imports=[H.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(m)
    onnx.save(m, file)
def norms(scale2, bias2):
    return [H.make_node("LayerNormalization", ["x", "ln1.weight", "ln1.bias"], ["a"], name="ln1"), H.make_node("MatMul", ["a", "fc"], ["b"], name="fc"),
            H.make_node("LayerNormalization", ["b", scale2, bias2], ["y"], name="ln2")]
ln1 = [full("ln1.weight", 1, 4), full("ln1.bias", 0, 4), w("fc", 4, 4)]
save("merged.onnx", [H.make_node("Identity", ["ln1.bias"], ["ln2.bias"])] + norms("ln1.weight", "ln2.bias"), ["n", 4], ["n", 4], ln1)
save("kept.onnx", norms("ln2.weight", "ln2.bias"), ["n", 4], ["n", 4], ln1 + [full("ln2.weight", 1, 4), full("ln2.bias", 0, 4)])
conv = [H.make_node("Conv", ["x", "c1.weight", "onnx::Conv_7"], ["a"], name="c1"), H.make_node("Relu", ["a"], ["b"]),
        H.make_node("Conv", ["b", "c2.weight", "c2.bias"], ["y"], name="c2")]
save("folded.onnx", conv, ["n", 2, 5, 5], ["n", 3, 1, 1], [w("c1.weight", 4, 2, 3, 3), w("onnx::Conv_7", 4), w("c2.weight", 3, 4, 3, 3), w("c2.bias", 3)])
