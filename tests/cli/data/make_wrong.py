# SPDX-License-Identifier: Apache-2.0
"""Writes attribute.onnx and operand.onnx: nodes with what their operators do not have. Needs onnx."""
import onnx
from onnx import TensorProto as T, helper as h

for name, node in (("attribute", h.make_node("LeakyRelu", ["x"], ["y"], name="n", alfa=0.5, __note=1)), ("operand", h.make_node("Neg", ["x", "x"], ["y"], name="n"))):
    graph = h.make_graph([node], "g", [h.make_tensor_value_info("x", T.FLOAT, [2])], [h.make_tensor_value_info("y", T.FLOAT, [2])])
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8), name + ".onnx")
