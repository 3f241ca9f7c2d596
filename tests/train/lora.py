#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A small network whose layers get adapters, and what Hugging Face's PEFT makes of it.

usage: lora.py model OUT.onnx      the network, with seeded weights
       lora.py data OUT.npz        samples for it
       lora.py damaged FOLDER      copies of an adapter's files with bytes changed: FOLDER.0, FOLDER.1, ...
       lora.py --update FOLDER     with PyTorch and PEFT (DoRA where the folder is called so): adapters before (begin) and after (end) 30 steps of AdamW, losses
                                   and outputs, which tests/lora.tap compares with
"""
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
    elif what == "damaged":
        damaged(path)
    elif what == "--update":
        update(path)
    else:
        sys.exit(__doc__)
