#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Training for bytes (tccc-train --qat) beside PyTorch.

usage: qat.py model OUT.onnx [OPSET]          the network of lora.py, all of whose weights a node reads as they are
       qat.py --update OUT.txt                with PyTorch: its losses of 30 steps for int8 and int4, and what it gives then; tests/qat.tap compares
       qat.py losses STORED TYPE <LINES       tccc-train's lines have them
       qat.py outputs STORED TYPE OUT.npz     and an array `scores` the outputs
       qat.py same Q.onnx OUT.npz             and as onnx's evaluator computes the file
       qat.py thin OUT.onnx                   a network for pictures of digits, of four layers through which little passes
       qat.py right OUT.npz LABELS            the share of pictures whose class is right
       qat.py shared OUT.onnx                 a network whose weight w meets three inputs, one of them as the transposed, and whose input meets two weights
"""
import json
import sys

import numpy as np

import lora

LEVELS = {"int8": 127, "int4": 7}
SLACK = 1 / 64  # the largest weight is no clipped one
EPS = float(np.finfo(np.float32).eps)


def model(path, opset="19"):
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    w = lora.weights()
    w.update({k: np.ascontiguousarray(w[k].T) for k in ("q.weight", "v.weight")})
    node = helper.make_node
    nodes = [node("Conv", ["x", "conv.weight", "conv.bias"], ["c"], pads=[1, 1]), node("Transpose", ["c"], ["t"], perm=[0, 2, 1]),
             node("MatMul", ["t", "q.weight"], ["qm"]), node("Add", ["qm", "q.bias"], ["q"]), node("Tanh", ["q"], ["h"]),
             node("MatMul", ["h", "v.weight"], ["v"]), node("GlobalAveragePool", ["vt"], ["p"]), node("Flatten", ["p"], ["m"]),
             node("Gemm", ["m", "head.weight", "head.bias"], ["scores"], transB=1)]
    nodes.insert(6, node("Transpose", ["v"], ["vt"], perm=[0, 2, 1]))
    graph = helper.make_graph(nodes, "qat", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3, 10])],
                              [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["N", 4])], [numpy_helper.from_array(v, k) for k, v in w.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", int(opset))], ir_version=9), path)


def losses_in_torch(kind):
    import torch

    class Lsq(torch.autograd.Function):
        """Esser et al. 2020, equations 1 to 3, and the gradient's scale of section 2.2."""

        @staticmethod
        def forward(ctx, v, s, lo, hi, scale):
            ctx.save_for_backward(v, s)
            ctx.at = lo, hi, scale
            return torch.round(torch.clamp(v / s, lo, hi)) * s

        @staticmethod
        def backward(ctx, d):
            v, s = ctx.saved_tensors
            lo, hi, scale = ctx.at
            q = v / s
            below, above = q <= lo, q >= hi
            by_s = torch.where(below, lo, torch.where(above, hi, torch.round(q) - q)) * d
            axes = [i for i in range(v.dim()) if s.dim() == 0 or s.shape[i] == 1]
            by_s = by_s.sum(axes, keepdim=s.dim() > 0) if axes else by_s
            return torch.where(below | above, 0, d), by_s * scale, None, None, None

    class Fake(torch.nn.Module):
        """A layer, its weight and its input."""

        def __init__(self, layer, by_input=False):
            super().__init__()
            self.layer, self.zero = layer, 0
            self.step, self.input_step = torch.nn.Parameter(torch.ones(())), torch.nn.Parameter(torch.ones(()))
            self.levels, self.set = LEVELS[kind], False

        def first(self, x):
            w = self.layer.weight.detach().abs().flatten(1).max(1)[0] / (self.levels - SLACK)
            self.step.data = w.reshape([-1] + [1] * (self.layer.weight.dim() - 1))
            lo, hi = min(x.min(), torch.zeros(())), max(x.max(), torch.zeros(()))
            self.input_step.data = (hi - lo) / 254
            self.zero = float(torch.round(-lo / self.input_step.data + 0.5))
            self.set = True

        def forward(self, x):
            if not self.set:
                with torch.no_grad():
                    self.first(x)
            w = self.layer.weight
            n, features = w[0].numel(), x[0].numel()
            x = Lsq.apply(x, self.input_step.clamp(min=EPS), -self.zero, 255 - self.zero, (features * 255) ** -0.5)
            w = Lsq.apply(w, self.step.clamp(min=EPS), -self.levels, self.levels, (n * self.levels) ** -0.5)
            if isinstance(self.layer, torch.nn.Conv1d):
                return torch.nn.functional.conv1d(x, w, self.layer.bias, padding=1)
            return torch.nn.functional.linear(x, w, self.layer.bias)

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = Fake(torch.nn.Conv1d(3, 8, 3, padding=1))
            self.q, self.v, self.head = (Fake(torch.nn.Linear(8, n, bias=b)) for n, b in ((8, True), (8, False), (4, True)))

        def forward(self, x):
            return self.head(self.v(torch.tanh(self.q(self.conv(x).transpose(1, 2)))).mean(1))

    net = Net()
    net.load_state_dict({k.replace(".", ".layer."): torch.from_numpy(v) for k, v in lora.weights().items()}, strict=False)
    x, y = (torch.from_numpy(a) for a in lora.samples())
    net(x[:16])  # sets the steps
    steps = [p for n, p in net.named_parameters() if n.endswith("step")]
    rest = [p for n, p in net.named_parameters() if not n.endswith("step")]
    optimizer = torch.optim.SGD([{"params": rest}, {"params": steps, "lr": 0.001}], lr=0.02, momentum=0.9)
    losses = lora.losses(net, optimizer, x, y)
    return losses, net(x).detach().numpy()


def update(path):
    lines = []
    for kind in LEVELS:
        losses, scores = losses_in_torch(kind)
        lines += [f"{kind} losses " + " ".join(f"{v:.9g}" for v in losses)] + [f"{kind} scores " + " ".join(f"{v:.9g}" for v in row) for row in scores]
    open(path, "w").write("# PyTorch's losses and outputs: tests/train/qat.py --update\n" + "\n".join(lines) + "\n")


def same(path, at):
    from onnx.reference import ReferenceEvaluator

    want, got = ReferenceEvaluator(path).run(None, {"x": lora.samples()[0]})[0], np.load(at)["scores"]
    far = np.abs(got - want).max() / np.abs(want).max()
    print(far)
    assert far < 1e-4, far


def shared(path):
    import onnx
    from onnx import helper, numpy_helper

    r, node = np.random.default_rng(3), helper.make_node
    init = [numpy_helper.from_array((r.standard_normal(s) * 0.4).astype(np.float32), k) for k, s in (("a", (30, 30)), ("w", (30, 30)), ("head", (30, 4)))]
    nodes = [node("Flatten", ["x"], ["f"]), node("MatMul", ["f", "a"], ["p"]), node("Identity", ["f"], ["g"]), node("MatMul", ["g", "w"], ["q"], name="second"),
             node("Sub", ["p", "q"], ["s"]), node("Relu", ["s"], ["t"]), node("MatMul", ["t", "w"], ["u"]), node("MatMul", ["u", "w"], ["v"]), node("Tanh", ["v"], ["z"]),
             node("Gemm", ["z", "w"], ["y"], transB=1), node("MatMul", ["y", "head"], ["scores"])]
    graph = helper.make_graph(nodes, "shared", [helper.make_tensor_value_info("x", 1, ["N", 3, 10])], [helper.make_tensor_value_info("scores", 1, ["N", 4])], init)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9), path)


def thin(path):
    import onnx
    from onnx import helper, numpy_helper

    r, dims = np.random.default_rng(1), [784, 10, 10, 10, 10]
    init, nodes = [], [helper.make_node("Flatten", ["picture"], ["h0"])]
    for i in range(4):
        w = (r.standard_normal((dims[i + 1], dims[i])) * np.sqrt(2 / dims[i])).astype(np.float32)
        init += [numpy_helper.from_array(w, f"fc{i}.weight"), numpy_helper.from_array(np.zeros(dims[i + 1], np.float32), f"fc{i}.bias")]
        nodes.append(helper.make_node("Gemm", [f"h{i}", f"fc{i}.weight", f"fc{i}.bias"], [f"g{i}"], transB=1))
        if i < 3:
            nodes.append(helper.make_node("Relu", [f"g{i}"], [f"h{i + 1}"]))
    graph = helper.make_graph(nodes, "thin", [helper.make_tensor_value_info("picture", 1, ["N", 1, 28, 28])], [helper.make_tensor_value_info("g3", 1, ["N", 10])], init)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9), path)


def right(at, labels):
    want = np.frombuffer(open(labels, "rb").read()[8:], np.uint8)
    print(round(100 * float((np.load(at)["g3"].argmax(1) == want).mean()), 1))


def stored(path, kind, what):
    return np.array([[float(v) for v in line.split()[2:]] for line in open(path) if line.startswith(f"{kind} {what}")])


def losses(path, kind):
    want, got = stored(path, kind, "losses")[0], np.array([json.loads(line)["loss"] for line in sys.stdin])
    far = np.abs(got - want).max() / np.abs(want).max()
    print(far)
    assert got.shape == (30,) and far < 1e-5, (got, want)


def outputs(path, kind, at):
    want, got = stored(path, kind, "scores"), np.load(at)["scores"]
    far = np.abs(got - want).max() / np.abs(want).max()
    print(far)
    assert got.shape == want.shape and far < 1e-4, far


if __name__ == "__main__":
    {"model": model, "same": same, "thin": thin, "shared": shared, "right": right, "--update": update, "losses": losses, "outputs": outputs}[sys.argv[1]](*sys.argv[2:])
