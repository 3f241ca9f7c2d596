#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A small network whose layers get adapters, and what Hugging Face's PEFT makes of it.

usage: lora.py model OUT.onnx      the network, with seeded weights
       lora.py data OUT.npz        samples for it
       lora.py damaged FOLDER      copies of an adapter's files with bytes changed: FOLDER.0, FOLDER.1, ...
       lora.py names FOLDER        a model whose layers are called alike, m.fc and m.b.fc, and one whose weight is renamed and turned; adapters for it as PEFT names them;
                                   x.npy, and what the model makes of it with them (ADAPTER.npy)
       lora.py --update FOLDER     with PyTorch and PEFT (DoRA where the folder is called so): adapters before (begin) and after (end) 30 steps of AdamW, losses
                                   and outputs, which tests/lora.tap compares with
"""
import json
import os
import sys

import numpy as np


def weights():
    r = np.random.default_rng(11)
    shapes = {"conv.weight": (8, 3, 3), "conv.bias": (8,), "q.weight": (8, 8), "q.bias": (8,), "v.weight": (8, 8), "head.weight": (4, 8), "head.bias": (4,)}
    return {name: (r.standard_normal(shape) * 0.4).astype(np.float32) for name, shape in shapes.items()}


def samples():
    r = np.random.default_rng(12)
    return r.standard_normal((48, 3, 10)).astype(np.float32), r.integers(0, 4, 48)


def model(path):
    """x[N,3,10] -> scores[N,4]: conv, q (with its weight transposed), v (without bias; [inputs, outputs]), head"""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    w = weights()
    w["v.weight"] = np.ascontiguousarray(w["v.weight"].T)
    node = helper.make_node
    nodes = [node("Conv", ["x", "conv.weight", "conv.bias"], ["c"], pads=[1, 1]), node("Transpose", ["c"], ["t"], perm=[0, 2, 1]),
             node("Transpose", ["q.weight"], ["qt"], perm=[1, 0]), node("MatMul", ["t", "qt"], ["qm"]), node("Add", ["qm", "q.bias"], ["q"]), node("Tanh", ["q"], ["h"]),
             node("MatMul", ["h", "v.weight"], ["v"]), node("ReduceMean", ["v"], ["m"], axes=[1], keepdims=0),
             node("Gemm", ["m", "head.weight", "head.bias"], ["scores"], transB=1)]
    graph = helper.make_graph(nodes, "lora", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3, 10])],
                              [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["N", 4])], [numpy_helper.from_array(v, k) for k, v in w.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def damaged(folder, count=48):
    """Copies with bytes changed, cut off, or put in, in one of the two files: FOLDER.0, FOLDER.1, ..."""
    r = np.random.default_rng(5)
    names = ["adapter_config.json", "adapter_model.safetensors"]
    files = {name: open(os.path.join(folder, name), "rb").read() for name in names}
    for k in range(count):
        os.makedirs(f"{folder}.{k}", exist_ok=True)
        for name, data in files.items():
            data = bytearray(data)
            header = min(len(data), 1200)  # what is read, rather than multiplied
            if name == names[k % 2]:
                for _ in range(int(r.integers(1, 4))):
                    at = int(r.integers(0, header))
                    how = int(r.integers(0, 4))
                    if how == 0:
                        data[at] = int(r.integers(0, 256))
                    elif how == 1:
                        del data[at:]
                    elif how == 2:
                        data[at:at] = bytes(r.integers(32, 127, 3).astype(np.uint8))
                    else:
                        data[at] = ord("9") if chr(data[at]).isdigit() else data[at] ^ 1
                    header = max(1, min(len(data), 1200))
                    data = data or bytearray(b" ")
            open(os.path.join(f"{folder}.{k}", name), "wb").write(bytes(data))
    print(count)


def tensors(path, values):
    """A safetensors file of float32."""
    header, at = {}, 0
    for name, v in values.items():
        header[name] = {"dtype": "F32", "shape": list(v.shape), "data_offsets": [at, at + 4 * v.size]}
        at += 4 * v.size
    text = json.dumps(header).encode()
    open(path, "wb").write(len(text).to_bytes(8, "little") + text + b"".join(np.ascontiguousarray(v, "<f4").tobytes() for v in values.values()))


def names(folder):
    """y = tanh(tanh(x fc' + bias) b.fc') b.head', exported in a wrapper, `m`; b.head's weight is val_3, [inputs, outputs]."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    r = np.random.default_rng(21)
    w = {name: r.standard_normal(shape).astype("f") * 0.4 for name, shape in {"fc": (6, 6), "b.fc": (6, 6), "b.head": (4, 6)}.items()}
    bias, x = r.standard_normal(6).astype("f"), r.standard_normal((5, 6)).astype("f")
    constants = {"m.fc.weight": w["fc"], "m.fc.bias": bias, "m.b.fc.weight": w["b.fc"], "val_3": w["b.head"].T}
    node = helper.make_node
    nodes = [node("Gemm", ["x", "m.fc.weight", "m.fc.bias"], ["u"], transB=1), node("Tanh", ["u"], ["h"]), node("Gemm", ["h", "m.b.fc.weight"], ["v"], transB=1), node("Tanh", ["v"], ["g"]),
             node("MatMul", ["g", "val_3"], ["scores"], name="/m/b.head/MatMul")]
    value = lambda name, n: helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", n])
    graph = helper.make_graph(nodes, "names", [value("x", 6)], [value("scores", 4)], [numpy_helper.from_array(np.ascontiguousarray(v), k) for k, v in constants.items()])
    os.makedirs(folder, exist_ok=True)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), f"{folder}/net.onnx")
    np.save(f"{folder}/x.npy", x)
    np.savez(f"{folder}/data.npz", x=x, target=np.arange(5) % 4)
    ab = {name: (r.standard_normal((rank, 6)).astype("f") * 0.4, r.standard_normal((6, rank)).astype("f") * 0.4) for name, rank in (("fc", 2), ("b.fc", 3))}
    whole = {"b.head.weight": r.standard_normal((4, 6)).astype("f"), "fc.base_layer.bias": r.standard_normal(6).astype("f")}
    plain, more = {"r": 2, "lora_alpha": 4}, {"b.head.modules_to_save.weight": whole["b.head.weight"], "b.head.original_module.weight": w["b.head"]}
    kinds = {  # configuration; layers with adapters and their factors, alpha / r; what is saved
        "outer": (plain, {"fc": 2}, {}),
        "inner": (plain, {"b.fc": 4 / 3}, {}),
        "both": ({**plain, "use_rslora": True}, {"fc": 4 / 2**0.5, "b.fc": 4 / 3**0.5}, {}),
        "first": ({**plain, "alpha_pattern": {"fc": 7, "b.fc": 1}}, {"fc": 3.5, "b.fc": 7 / 3}, {}),
        "own": ({**plain, "alpha_pattern": {"^fc": 7, r"(?:b|c\d)\.fc": 1}}, {"fc": 3.5, "b.fc": 1 / 3}, {}),
        "saved": ({**plain, "bias": "lora_only"}, {"fc": 2}, {**whole, **more}),
    }
    for kind, (config, factors, saved) in kinds.items():
        os.makedirs(f"{folder}/{kind}", exist_ok=True)
        json.dump({"peft_type": "LORA", **config}, open(f"{folder}/{kind}/adapter_config.json", "w"))
        part = {f"base_model.model.{name}.lora_{c}.weight": m for name in factors for c, m in zip("AB", ab[name])}
        tensors(f"{folder}/{kind}/adapter_model.safetensors", {**part, **{f"base_model.model.{k}": v for k, v in saved.items()}})
        full = {name: v.astype("d") + (factors[name] * (ab[name][1].astype("d") @ ab[name][0]) if name in factors else 0) for name, v in w.items()}
        head, first = saved.get("b.head.weight", w["b.head"]), saved.get("fc.base_layer.bias", bias)
        np.save(f"{folder}/{kind}.npy", np.tanh(np.tanh(x @ full["fc"].T + first) @ full["b.fc"].T) @ (head if saved else full["b.head"]).T)
    for key, v in {"alora_invocation_tokens": [1], "init_lora_weights": "pissa_niter_4", "alpha_pattern": {"(?=x)fc": 3}, "layer_replication": [[0, 1]]}.items():
        os.makedirs(f"{folder}/no.{key}", exist_ok=True)
        json.dump({"peft_type": "LORA", **plain, key: v}, open(f"{folder}/no.{key}/adapter_config.json", "w"))
        tensors(f"{folder}/no.{key}/adapter_model.safetensors", {f"base_model.model.fc.lora_{c}.weight": m for c, m in zip("AB", ab["fc"])})


def losses(net, optimizer, x, y):
    """Of 30 steps, 16 samples each."""
    import torch
    found = []
    for i in range(30):
        part = slice(16 * (i % 3), 16 * (i % 3) + 16)
        loss = torch.nn.functional.cross_entropy(net(x[part]), y[part])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


def update(folder):
    import torch
    from peft import LoraConfig, get_peft_model

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = torch.nn.Conv1d(3, 8, 3, padding=1)
            self.q, self.v, self.head = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8, bias=False), torch.nn.Linear(8, 4)

        def forward(self, x):
            return self.head(self.v(torch.tanh(self.q(self.conv(x).transpose(1, 2)))).mean(1))

    net = Net()
    net.load_state_dict({k: torch.from_numpy(v) for k, v in weights().items()})
    torch.manual_seed(1)
    dora = "dora" in os.path.basename(folder)
    net = get_peft_model(net, LoraConfig(r=2, lora_alpha=6, target_modules=["conv", "q", "v"], alpha_pattern={"v": 3}, modules_to_save=["head"], use_dora=dora))
    for name, p in net.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(p, std=0.2)
    x, y = (torch.from_numpy(a) for a in samples())
    net.save_pretrained(os.path.join(folder, "begin"))
    optimizer = torch.optim.AdamW([p for p in net.parameters() if p.requires_grad], lr=1e-2)
    lines = [f"loss {v:.9g}" for v in losses(net, optimizer, x, y)]
    net.save_pretrained(os.path.join(folder, "end"))
    lines += ["scores " + " ".join(f"{v:.9g}" for v in row) for row in net.eval()(x).detach().numpy()]
    for name in "begin", "end":
        for extra in os.listdir(os.path.join(folder, name)):
            if extra == "README.md":
                os.unlink(os.path.join(folder, name, extra))
    open(os.path.join(folder, "expected.txt"), "w").write("# PEFT's losses and outputs: tests/train/lora.py --update\n" + "\n".join(lines) + "\n")


if __name__ == "__main__":
    what, path = sys.argv[1:3]
    if what == "model":
        model(path)
    elif what == "data":
        x, y = samples()
        np.savez(path, x=x, target=y)
    elif what == "names":
        names(path)
    elif what == "damaged":
        damaged(path)
    elif what == "--update":
        update(path)
    else:
        sys.exit(__doc__)
