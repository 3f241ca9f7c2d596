# SPDX-License-Identifier: Apache-2.0
"""Writes what PyTorch's exporters make of a small network (requires torch and onnxscript): in eval mode by each of them, in training mode, and with its norms folded beforehand."""
import copy
import io
import json
import zipfile
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = (nn.Conv1d(2, 2, 2) for _ in range(3))
        self.n1, self.n2, self.n3, self.drop = nn.BatchNorm1d(2), nn.BatchNorm1d(2), nn.BatchNorm1d(2), nn.Dropout(0.5)

    def forward(self, x):
        return self.n3(self.c(self.drop(self.n2(self.b(self.n1(self.a(x)).relu())).relu())))


def save(program, path):
    """Without the example and the lines of Python that nodes are from, which are most of it."""
    out = io.BytesIO()
    torch.export.save(program, out)
    with zipfile.ZipFile(out) as old, zipfile.ZipFile(path, "w") as new:
        for entry in old.infolist():
            data = old.read(entry)
            if entry.filename.endswith("models/model.json"):
                made = json.loads(data)
                for node in made["graph_module"]["graph"]["nodes"]:
                    node["metadata"] = {}
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
