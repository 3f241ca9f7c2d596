#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A network whose frozen weights are kept in 8 or 4 bits under adapters: --base.

usage: base.py model OUT.onnx [FORM]    the network, with seeded weights; with FORM (int8, nf4, q4), weights of all layers but the last are what FORM
                                        makes of them, by NumPy
       base.py odd OUT.onnx [FORM]      the same with widths of which no layer's weights fill their last block
       base.py data OUT.npz             samples for it
       base.py adapter DIR              an adapter as PEFT writes it, to begin with
       base.py losses FILE FORM         losses of tccc-train --json on standard input, beside those of FILE
       base.py --update FILE [PATH]     with PyTorch (and bitsandbytes, in PATH): FILE's losses of 30 steps of AdamW; nf4 and int8 by bitsandbytes, q4 by NumPy
"""
import json
import os
import struct
import sys

import numpy as np

# Widths: "b" reads 512 values, so that its codes are too many to be unpacked when compiling; rows of "c" end within blocks.
LAYERS = {"a": (512, 96), "b": (320, 512), "c": (70, 320), "head": (5, 70)}
ODD = {"a": (37, 96), "b": (29, 37), "c": (7, 29), "head": (5, 7)}
RANK, ALPHA = 4, 8
NF4 = [-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0.0,
       0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0]


def weights(layers=LAYERS):
    r = np.random.default_rng(21)
    return {name: (r.standard_normal(shape) / np.sqrt(shape[1]) * 1.5).astype(np.float32) for name, shape in layers.items()}


def samples():
    r = np.random.default_rng(22)
    return r.standard_normal((48, 96)).astype(np.float32), r.integers(0, 5, 48)


def first_adapters():
    r = np.random.default_rng(23)
    return {name: ((r.standard_normal((RANK, shape[1])) * 0.1).astype(np.float32), (r.standard_normal((shape[0], RANK)) * 0.1).astype(np.float32))
            for name, shape in LAYERS.items() if name != "head"}


def blocks(w, size):
    flat = w.reshape(-1)
    return np.pad(flat, (0, -len(flat) % size)).reshape(-1, size)


def rounded(w, form):
    """w [outputs, inputs] after it has been kept in that form"""
    f32 = np.float32
    if form == "int8":
        scale = np.abs(w).max(1, keepdims=True) / f32(127)
        return (np.rint(w / scale) * scale).astype(f32)
    if form == "nf4":
        b, levels = blocks(w, 64), np.array(NF4, f32)
        most = np.abs(b).max(1, keepdims=True)
        y = levels[np.abs((b / most)[:, :, None] - levels).argmin(2)] * most
    else:
        b = blocks(w, 32)
        lo, hi = np.minimum(b.min(1, keepdims=True), 0), np.maximum(b.max(1, keepdims=True), 0)
        scale = ((hi - lo) / f32(15)).astype(f32)
        zero = np.rint(-lo / scale)
        y = (np.clip(np.rint(b / scale) + zero, 0, 15) - zero).astype(f32) * scale
    return y.reshape(-1)[: w.size].reshape(w.shape).astype(f32)


def model(path, form=None, layers=LAYERS):
    """x[N,96] -> scores[N,5]: a (Gemm, transposed), b ([inputs, outputs]), c, head, with tanh between"""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    w = {k: rounded(v, form) if form and k != "head" else v for k, v in weights(layers).items()}
    w = {k + ".weight": np.ascontiguousarray(v.T) if k == "b" else v for k, v in w.items()}
    node = helper.make_node
    nodes = [node("Gemm", ["x", "a.weight"], ["a1"], transB=1), node("Tanh", ["a1"], ["a2"]), node("MatMul", ["a2", "b.weight"], ["b1"]), node("Tanh", ["b1"], ["b2"]),
             node("Gemm", ["b2", "c.weight"], ["c1"], transB=1), node("Tanh", ["c1"], ["c2"]), node("Gemm", ["c2", "head.weight"], ["scores"], transB=1)]
    graph = helper.make_graph(nodes, "base", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 96])],
                              [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["N", 5])], [numpy_helper.from_array(v, k) for k, v in w.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def adapter(folder):
    tensors = {f"base_model.model.{k}.lora_{m}.weight": v for k, (a, b) in first_adapters().items() for m, v in (("A", a), ("B", b))}
    header, data = {}, b""
    for name, v in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(v.shape), "data_offsets": [len(data), len(data) + v.nbytes]}
        data += v.tobytes()
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    os.makedirs(folder, exist_ok=True)
    open(os.path.join(folder, "adapter_model.safetensors"), "wb").write(struct.pack("<Q", len(text)) + text + data)
    json.dump({"peft_type": "LORA", "r": RANK, "lora_alpha": ALPHA, "target_modules": ["a", "b", "c"], "bias": "none"},
              open(os.path.join(folder, "adapter_config.json"), "w"))


def losses(path, form):
    want = [float(line.split()[1]) for line in open(path) if line.startswith(form + " ")]
    got = [json.loads(line)["loss"] for line in sys.stdin if '"loss"' in line]
    worst = max(abs(a - b) / b for a, b in zip(got, want)) if len(got) == len(want) == 30 else None
    print(f"# {form}: {worst}")
    assert worst is not None and worst < 1e-5


def by_bitsandbytes(w, form):
    import bitsandbytes.functional as F
    import torch

    if form == "q4":
        return rounded(w, form)
    if form == "nf4":  # its loops over rows on CPUs require rows of whole blocks: blocks run on here
        codes, state = F.quantize_4bit(torch.from_numpy(w).reshape(1, -1), blocksize=64, quant_type="nf4")
        codes = codes.numpy().reshape(-1)
        code = np.stack([codes >> 4, codes & 15], 1).reshape(-1)[: w.size]
        return (state.code.numpy()[code] * np.repeat(state.absmax.numpy(), 64)[: w.size]).reshape(w.shape)
    # Its int8_vectorwise_quant() takes float16.
    q = torch.quantize_per_channel(torch.from_numpy(w), torch.from_numpy(np.abs(w).max(1) / np.float32(127)), torch.zeros(len(w), dtype=torch.int64), 0, torch.qint8)
    return q.dequantize().numpy()


def update(path, where=None):
    sys.path[:0] = [where] if where else []
    import torch

    x, y = (torch.from_numpy(a) for a in samples())
    lines = []
    for form in "int8", "nf4", "q4":
        w = {k: torch.from_numpy(by_bitsandbytes(v, form) if k != "head" else v) for k, v in weights().items()}
        params = {k: [torch.nn.Parameter(torch.from_numpy(m.copy())) for m in pair] for k, pair in first_adapters().items()}
        optimizer = torch.optim.AdamW([p for pair in params.values() for p in pair], lr=1e-2)
        for i in range(30):
            part = slice(16 * (i % 3), 16 * (i % 3) + 16)
            h = x[part]
            for k in "abc":
                a, b = params[k]
                h = torch.tanh(h @ w[k].T + (h @ a.T) @ b.T * (ALPHA / RANK))
            loss = torch.nn.functional.cross_entropy(h @ w["head"].T, y[part])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            lines.append(f"{form} {loss.item():.9g}")
    open(path, "w").write("# PyTorch's losses over weights of 8 and 4 bits: tests/train/base.py --update\n" + "\n".join(lines) + "\n")


if __name__ == "__main__":
    what, args = sys.argv[1], sys.argv[2:]
    if what == "model":
        model(*args)
    elif what == "odd":
        model(args[0], *args[1:] or [None], ODD)
    elif what == "data":
        x, y = samples()
        np.savez(args[0], x=x, target=y)
    elif what == "adapter":
        adapter(args[0])
    elif what == "losses":
        losses(*args)
    elif what == "--update":
        update(*args)
    else:
        sys.exit(__doc__)
