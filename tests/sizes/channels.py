#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Channels that end inside a block of them: between two convolutions stands something that runs over channels or sees them by another shape.

Compiled code beside the interpreter, in guarded memory that is not zero: what pads a block must be zeros, however the kernel in front of it counts its channels.

usage: channels.py BUILD TMP [--seed N] [--models 4]    so many models of each kind; a line a kind (TAP)
"""
import argparse
import os
import random
import subprocess

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

KINDS = {
    "nothing": [("Relu", ["a"], "b", {})],
    "a sum with it": [("HardSwish", ["a"], "h", {}), ("Add", ["h", "a"], "b", {})],
    "local response normalisation": [("LRN", ["a"], "b", {"size": 5})],
    "softmax": [("Softmax", ["a"], "b", {"axis": 1})],
    "norm": [("LpNormalization", ["a"], "b", {"axis": 1, "p": 2})],
    "mean over channels": [("ReduceMean", ["a", "axis"], "m", {}), ("Sub", ["a", "m"], "b", {})],
    "sum over the picture": [("ReduceSum", ["a", "places"], "m", {}), ("Mul", ["a", "m"], "b", {})],
    "average over neighbours": [("Reshape", ["a", "flat"], "r", {}), ("AveragePool", ["r"], "p", {"kernel_shape": [3, 1], "pads": [1, 0, 1, 0]}),
                                ("Reshape", ["p", "picture"], "q", {}), ("Add", ["q", "a"], "b", {})],
    "largest of neighbours": [("Reshape", ["a", "flat"], "r", {}), ("MaxPool", ["r"], "p", {"kernel_shape": [3, 1], "pads": [1, 0, 1, 0]}),
                              ("Reshape", ["p", "picture"], "q", {}), ("Add", ["q", "a"], "b", {})],
    "depthwise products of bytes": None,
    "depthwise products of bytes, to one point": None,
    "convolution over channels": [("Reshape", ["a", "flat"], "r", {}), ("Conv", ["r", "taps"], "p", {"pads": [2, 0, 2, 0]}),
                                  ("Reshape", ["p", "picture"], "q", {}), ("Mul", ["q", "a"], "b", {})],
}


def write_bytes(path, draw, point):
    """Depthwise products of bytes. point: one of each channel, which makes rows of blocks of channels."""
    n, c, high, wide, k, stride = (draw.choice(x) for x in ([1, 2, 3], [16, 24, 32, 40, 64, 100], [1, 2, 3, 5], [1, 2, 3, 6], [3, 5], [1, 2, 4]))
    if point:
        high, wide = min(high, stride), min(wide, stride)
    rng = np.random.default_rng(draw.randrange(1 << 30))
    values = {"w": rng.integers(-127, 128, (c, 1, k, k)).astype(np.int8), "v": rng.integers(-127, 128, (24, c, 1, 1)).astype(np.int8),
              "b": rng.integers(-999, 999, (c,)).astype(np.int32)}
    values.update(s=np.float32(2**-6), t=np.float32(2**-12), z=np.uint8(3), o=np.int8(0), m=np.float32(2**-2), j=np.int32(0))    # all exact in floats
    picture = {"pads": [k // 2] * 4, "strides": [stride] * 2}
    steps = [("DequantizeLinear", ["x", "s", "z"], "a", {}), ("DequantizeLinear", ["w", "s", "o"], "wf", {}), ("DequantizeLinear", ["b", "t", "j"], "bf", {}),
             ("Conv", ["a", "wf", "bf"], "c", {"group": c, **picture}), ("QuantizeLinear", ["c", "m", "z"], "d", {}), ("DequantizeLinear", ["d", "m", "z"], "e", {}),
             ("DequantizeLinear", ["v", "s", "o"], "vf", {}), ("Conv", ["e", "vf"], "f", {}), ("QuantizeLinear", ["f", "m", "z"], "y", {})]
    graph = helper.make_graph([helper.make_node(op, names, [to], **attrs) for op, names, to, attrs in steps], "g",
                              [helper.make_tensor_value_info("x", TensorProto.UINT8, [n, c, high, wide])],
                              [helper.make_tensor_value_info("y", TensorProto.UINT8, [n, 24, None, None])], [numpy_helper.from_array(v, k) for k, v in values.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), path)
    return f"{n} x {c} x {high} x {wide}, {k} x {k} taps by steps of {stride}"


def write(path, kind, draw):
    if KINDS[kind] is None:
        return write_bytes(path, draw, "point" in kind)
    n, c, cin, out, high, wide, k = (draw.choice(x) for x in (
        [1, 2], [8, 17, 18, 24, 36, 40, 48], [1, 3, 4, 16, 24, 36], [5, 8, 20, 24, 32, 64], range(3, 15), range(3, 30), [1, 1, 3, 5]))
    stride, dilation = (draw.choice([1, 1, 2]) for _ in range(2))
    rng = np.random.default_rng(draw.randrange(1 << 30))
    weights = {"w": (c, cin, 3, 3), "v": (out, c, k, k), "taps": (1, 1, 5, 1)}
    values = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in weights.items()}
    values.update(axis=np.array([1]), places=np.array([2, 3]), flat=np.array([n, 1, c, high * wide]), picture=np.array([n, c, high, wide]))
    last = {"pads": [k // 2 * dilation] * 4, "strides": [stride] * 2, "dilations": [dilation] * 2}
    steps = [("Conv", ["x", "w"], "a", {"pads": [1, 1, 1, 1]}), *KINDS[kind], ("Conv", ["b", "v"], "y", last)]
    read = {name for _, names, _, _ in steps for name in names}
    graph = helper.make_graph(
        [helper.make_node(op, names, [to], **attrs) for op, names, to, attrs in steps], "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [n, cin, high, wide])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [n, out, None, None])], [numpy_helper.from_array(v, k) for k, v in values.items() if k in read])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), path)
    return f"{n} x {c} ({cin}) x {high} x {wide} to {out}, {k} x {k} taps by steps of {stride}, {dilation} apart"


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    p.add_argument("build")
    p.add_argument("tmp")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--models", type=int, default=4)
    o = p.parse_args()
    draw, path = random.Random(o.seed), os.path.join(o.tmp, "channels.onnx")
    print(f"1..{len(KINDS)}")
    for i, kind in enumerate(KINDS):
        wrong = []
        for _ in range(o.models):
            sizes = write(path, kind, draw)
            for march in ("x86-64-v3", "native"):
                r = subprocess.run([f"{o.build}/tccc-run", "-q", path, f"--march={march}", "--random", "--check", "--guard"], capture_output=True, text=True)
                if r.returncode:
                    wrong.append(f"{sizes}, {march}: {r.stderr.strip()[-200:]}")
        print(f"{'not ok' if wrong else 'ok'} {i + 1} - {kind}" + "".join(f"\n# {x}" for x in wrong), flush=True)


if __name__ == "__main__":
    main()
