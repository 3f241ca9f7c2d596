#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Of a file in 8 bits that tccc and ONNX Runtime compute differently: whose codes are those of exact arithmetic?

usage: quantise_judge.py FILE.onnx DATA.npz SAMPLES

FILE has one input, `input`, and QuantizeLinear and DequantizeLinear around its products and convolutions (tccc-quantize). Each value in 8 bits is an output here. What a
program has of a value's own inputs, in 8 bits too, onnx.reference computes the value from in double precision: so a code that is another one is the program's own, not
handed on. Printed are how many there are of tccc's and of ONNX Runtime's (without its rewrites), how far from a half between two codes the exact values lie at most, and
how far the outputs lie apart, also of ONNX Runtime with its rewrites and without (root mean squares, relative).
"""
import os
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

model, samples = onnx.load(sys.argv[1]), int(sys.argv[3])
x = np.load(sys.argv[2])["input"][:samples]
for o in model.opset_import:
    if not o.domain:
        o.version = max(o.version, 19)  # onnx.reference has DequantizeLinear from there on, and nothing else changed
made = {o: node for node in model.graph.node for o in node.output}
constants = {i.name: numpy_helper.to_array(i) for i in model.graph.initializer}
quantised = [node for node in model.graph.node if node.op_type == "QuantizeLinear" and made.get(node.input[0], node).op_type != "DequantizeLinear"]
shown = onnx.ModelProto()
shown.CopyFrom(model)
for node in quantised:
    shown.graph.output.append(helper.make_tensor_value_info(node.output[0], TensorProto.UINT8, None))


def onnxruntime(model, level):
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level, options.graph_optimization_level = 1, 3, level
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return dict(zip([o.name for o in session.get_outputs()], session.run(None, {"input": x})))


def tccc(model):
    with tempfile.TemporaryDirectory() as folder:
        onnx.save(model, f"{folder}/model.onnx")
        np.savez(f"{folder}/data.npz", input=x)
        subprocess.run(["tccc-run", f"{folder}/model.onnx", "--data", f"{folder}/data.npz", f"--batch-size={samples}", "--threads=1", "-o", f"{folder}/out.npz"], check=True, stdout=subprocess.DEVNULL)
        return dict(np.load(f"{folder}/out.npz").items())


def real(node, codes):
    """What DequantizeLinear gives, in double precision."""
    scale = constants[node.input[1]].astype("d")
    zero = constants[node.input[2]].astype("d") if len(node.input) > 2 else np.zeros_like(scale)
    if scale.size > 1:
        shape = [1] * codes.ndim
        shape[next((a.i for a in node.attribute if a.name == "axis"), 1)] = scale.size
        scale, zero = scale.reshape(shape), zero.reshape(shape)
    return (codes.astype("d") - zero) * scale


def exact(node, codes):
    """The value that `node` rounds, in its steps, computed from values in 8 bits."""
    nodes, feeds, left, seen = [], {}, [node.input[0]], set(constants) | {""}
    while left:
        name = left.pop()
        if name in seen:
            continue
        seen.add(name)
        by = made.get(name)
        if by is None:
            feeds[name] = x.astype("d")
        elif by.op_type == "DequantizeLinear":
            feeds[name] = real(by, constants.get(by.input[0], codes.get(by.input[0])))
        else:
            nodes.append(by)
            left += by.input
    nodes = [n for n in model.graph.node if n in nodes]
    some = [numpy_helper.from_array(constants[k].astype("d") if constants[k].dtype == np.float32 else constants[k], k) for k in {i for n in nodes for i in n.input} & set(constants)]
    if not nodes:
        return feeds[node.input[0]] / float(constants[node.input[1]])
    values = [helper.make_tensor_value_info(k, TensorProto.DOUBLE, None) for k in (*feeds, node.input[0])]
    graph = helper.make_graph(nodes, "exact", values[:-1], values[-1:], some)
    return ReferenceEvaluator(helper.make_model(graph, opset_imports=model.opset_import)).run(None, feeds)[0] / float(constants[node.input[1]])


def apart(a, b):
    return np.sqrt(np.square(a - b).mean() / np.square(b).mean())


plain, ours = onnxruntime(shown, ort.GraphOptimizationLevel.ORT_DISABLE_ALL), tccc(shown)
name = model.graph.output[0].name
theirs = onnxruntime(model, ort.GraphOptimizationLevel.ORT_ENABLE_ALL)[name]
print(f"outputs apart: tccc and ONNX Runtime {apart(ours[name], theirs):.1e}, tccc and it without rewrites {apart(ours[name], plain[name]):.1e}, it with and without {apart(theirs, plain[name]):.1e}")
for who, codes in ("tccc", ours), ("ONNX Runtime", plain):
    wrong, all_, far = 0, 0, 0.0
    for node in quantised:
        r = exact(node, codes)
        want = np.clip(np.round(r) + int(constants[node.input[2]]), 0, 255)
        differ = codes[node.output[0]] != want
        wrong, all_ = wrong + int(differ.sum()), all_ + differ.size
        far = max(far, float(np.abs(r - np.floor(r) - 0.5)[differ].max(initial=0)))
    print(f"{who}: {wrong} of {all_:,} codes are not exact, {far:.1e} from a half at most")
