# SPDX-License-Identifier: Apache-2.0
"""Writes what PyTorch's exporters make of a small network (requires torch and onnxscript): in eval mode by each of them, in training mode, and with its norms folded beforehand."""
import copy
import io
import json
import zipfile
import numpy as np
import onnx
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = (nn.Conv1d(2, 2, 2) for _ in range(3))
        self.n1, self.n2, self.n3, self.drop = nn.BatchNorm1d(2), nn.BatchNorm1d(2), nn.BatchNorm1d(2), nn.Dropout(0.5)

    def forward(self, x):
        return self.n3(self.c(self.drop(self.n2(self.b(self.n1(self.a(x)).relu())).relu())))


def save(program, path, kept=False):
    """`kept`: with the region's line of a node. Without the example and the lines of Python that nodes are from, which are most of it."""
    out = io.BytesIO()
    torch.export.save(program, out)
    with zipfile.ZipFile(out) as old, zipfile.ZipFile(path, "w") as new:
        for entry in old.infolist():
            data = old.read(entry)
            if entry.filename.endswith("models/model.json"):
                made = json.loads(data)
                for node in made["graph_module"]["graph"]["nodes"]:
                    every = node["metadata"]
                    node["metadata"] = {"torch_fn": every["torch_fn"]} if "torch_fn" in every else {}
                    if kept:
                        node["metadata"]["stack_trace"] = 'File "region.py", line 1, in forward\n' + every.get("stack_trace", "").split("\n")[-1]
                data = json.dumps(made, separators=(",", ":"))
            if "sample_inputs" not in entry.filename:
                new.writestr(zipfile.ZipInfo(entry.filename), data)


torch.manual_seed(0)
net, x = Net(), torch.randn(3, 2, 9)
net.train()(x)
fused = copy.deepcopy(net).eval()
for conv, norm in ("a", "n1"), ("b", "n2"), ("c", "n3"):
    setattr(fused, conv, nn.utils.fuse_conv_bn_eval(getattr(fused, conv), getattr(fused, norm)))
    setattr(fused, norm, nn.Identity())
fused.drop = nn.Identity()
save(torch.export.export(fused, (x,)), "fused.pt2")
save(torch.export.export(net.train(), (x,)), "train.pt2")
save(torch.export.export(net.eval(), (x,)), "eval.pt2")
save(torch.export.export(net.eval(), (x,)).run_decompositions(), "eval-core.pt2")
torch.onnx.export(net.eval(), (x,), "torchscript.onnx", dynamo=False)
torch.onnx.export(net.eval(), (x,), "dynamo.onnx", dynamo=True, verbose=False, external_data=False)


class Cuts(nn.Module):
    """Gradients stop in it, in three ways. The losses of four steps stand in onnx-training.txt."""

    def __init__(self, writes):
        super().__init__()
        self.w, self.writes = nn.Parameter(torch.tensor([0.5, -0.4, 0.3])), writes
        self.register_buffer("mean", torch.zeros(3))

    def forward(self, x):
        h = x * self.w
        with torch.no_grad():
            self.mean.mul_(0.5).add_(h.mean(0))
            s = h.sin()
            if self.writes:
                h.clamp_(-0.5, 0.5)
        return h * s + h.detach() + self.mean


x, y = torch.linspace(-1, 1, 6).reshape(2, 3), torch.ones(2, 3)
np.savez("cuts.npz", x=torch.cat([x] * 4).numpy(), target=torch.cat([y] * 4).numpy())
save(torch.export.export(Cuts(False), (x,)).run_decompositions(), "cuts-core.pt2")
save(torch.export.export(Cuts(True), (x,)).run_decompositions(), "writes-core.pt2", True)
net = Cuts(False)
optimizer = torch.optim.SGD(net.parameters(), 1)
for _ in range(4):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(net(x), y)
    loss.backward()
    optimizer.step()
    print("loss", loss.item())

model = onnx.load("dynamo.onnx")
for part in (*model.graph.node, *model.graph.value_info, *model.graph.input, *model.graph.output, *model.graph.initializer, model.graph, model):
    del part.metadata_props[:]
onnx.save(model, "dynamo.onnx")
