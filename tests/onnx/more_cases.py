#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Cases of the importer that the official suite lacks, in its layout: what the shapes of real exports leave open until the run.

usage: more_cases.py DIR

Outputs are the ONNX reference evaluator's. A case is a function below; its name is the folder's.
"""
import os, sys
import numpy as np, onnx
from onnx import TensorProto as T, helper as h, numpy_helper
from onnx.reference import ReferenceEvaluator


def i64(*values):
    return np.array(values, np.int64)


def slice_by_sliced_offsets():
    """The number of starts is itself a slice's length; the product's first operand has 0 to 24 rows beside 1."""
    nodes = [("Slice", "offsets from to", "starts"), ("Slice", "x starts ends axes", "y")]
    return nodes, {"x": np.arange(24, dtype=np.float32).reshape(4, 6), "from": i64(1), "to": i64(2)}, \
        {"offsets": i64(0, 1, 2), "ends": i64(4), "axes": i64(0)}, {"y": ["rows", 6]}


def broadcast_counted_rows():
    """One of the elements that are not zero, times a row: the importer can't count them."""
    x = np.zeros((4, 6), np.float32)
    x[2, 3] = x[3, 5] = 1
    nodes = [("NonZero", "x", "where"), ("Transpose", "where", "rows"), ("Slice", "rows zero one", "first"), ("Mul", "first row", "y")]
    return nodes, {"x": x}, {"zero": i64(0), "one": i64(1), "row": i64(2, 3)}, {"y": ["n", 2]}


def write(folder, case):
    nodes, inputs, constants, outputs = case()
    info = lambda name, a, dims: h.make_tensor_value_info(name, h.np_dtype_to_tensor_dtype(a.dtype), dims)
    names = {name: None for name in outputs}
    made = [h.make_node(op, operands.split(), [result]) for op, operands, result in nodes]
    graph = lambda outs: h.make_graph(made, case.__name__, [info(k, v, v.shape) for k, v in inputs.items()], outs,
                                      [numpy_helper.from_array(v, k) for k, v in constants.items()])
    model = lambda outs: h.make_model(graph(outs), opset_imports=[h.make_opsetid("", 17)], ir_version=8)
    untyped = model([onnx.ValueInfoProto(name=name) for name in names])
    results = ReferenceEvaluator(untyped).run(None, inputs)
    data = os.path.join(folder, case.__name__, "test_data_set_0")
    os.makedirs(data)
    onnx.save(model([info(name, r, outputs[name]) for name, r in zip(names, results)]), os.path.join(folder, case.__name__, "model.onnx"))
    for kind, named in (("input", inputs.items()), ("output", zip(names, results))):
        for k, (name, value) in enumerate(named):
            with open(os.path.join(data, f"{kind}_{k}.pb"), "wb") as f:
                f.write(numpy_helper.from_array(value, name).SerializeToString())


for case in (slice_by_sliced_offsets, broadcast_counted_rows):
    write(sys.argv[1], case)
