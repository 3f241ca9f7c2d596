#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""GPTQ's codes beside a reference implementation's: how many tccc-quantize writes are those of AutoGPTQ, the package that most 4-bit models were made with.

usage: gptq_codes.py FOLDER        FOLDER: auto_gptq, unpacked (pip download --no-deps auto-gptq; it need not be installed: its loop alone is used, without a GPU)
"""
import importlib, os, subprocess, sys, tempfile, types

import numpy as np, onnx, torch
from onnx import TensorProto, helper, numpy_helper

SHAPES = [(256, 128, 32), (384, 96, 64), (512, 64, 128), (256, 64, 16), (320, 48, 64)]  # inputs, outputs, inputs of a group


def load(folder):
    package = types.ModuleType("auto_gptq_loop")
    package.__path__ = [os.path.join(folder, "quantization")]
    sys.modules["auto_gptq_loop"] = package
    return importlib.import_module("auto_gptq_loop.gptq").GPTQ


def theirs(GPTQ, w, x, group):
    layer = torch.nn.Linear(*w.shape, bias=False)
    layer.weight.data = torch.from_numpy(w.T.copy())
    loop, codes = GPTQ(layer), []
    loop.quantizer.configure(4, perchannel=True, sym=False)
    quantize = loop.quantizer.quantize
    loop.add_batch(torch.from_numpy(x), None)
    torch.cuda.synchronize = lambda: None

    def noted(v):
        q = loop.quantizer
        codes.append(torch.clamp(torch.round(v / q.scale) + q.zero, 0, 15).flatten().numpy())
        return quantize(v)

    loop.quantizer.quantize = noted
    loop.fasterquant(blocksize=128, percdamp=0.01, group_size=group)
    return np.array(codes)


def ours(folder, w, x, group):
    k, n = w.shape
    path = lambda name: os.path.join(folder, name)
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", k])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", n])], [numpy_helper.from_array(w, "w")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path("m.onnx"))
    np.savez(path("x.npz"), x=x)
    subprocess.run(["tccc-quantize", path("m.onnx"), "--data", path("x.npz"), "--mode=weight-int4", "--method=gptq", f"--group={group}", "-o", path("q.onnx")],
                   check=True, stdout=subprocess.DEVNULL)
    model = onnx.load(path("q.onnx"))
    packed = next(numpy_helper.to_array(t) for t in model.graph.initializer if t.name == model.graph.node[0].input[1]).reshape(n, -1)
    return np.stack([packed & 15, packed >> 4], -1).reshape(n, -1)[:, :k].T


def main():
    GPTQ, same, total = load(sys.argv[1]), 0, 0
    with tempfile.TemporaryDirectory() as folder:
        for seed, (k, n, group) in enumerate(SHAPES):
            r = np.random.default_rng(seed)
            w = (r.standard_normal((k, n)) / k**0.5).astype("f4")
            x = (r.standard_normal((1024, k // 2)) @ r.standard_normal((k // 2, k)) / 8 + 0.3 * r.standard_normal((1024, k))).astype("f4")
            equal = ours(folder, w, x, group) == theirs(GPTQ, w, x, group)
            print(f"{k} inputs, {n} outputs, groups of {group}: {100 * equal.mean():.2f} % of the codes")
            same, total = same + equal.sum(), total + equal.size
    print(f"{100 * same / total:.2f} % of {total} codes are AutoGPTQ's")
    sys.exit(same < 0.99 * total)


if __name__ == "__main__":
    main()
