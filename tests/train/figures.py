#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Training of small models against PyTorch's stored figures: gradients of parameters, and buffers after some steps.

figures.py --write DIR         export the models and write DIR/<case>/: model.onnx, data.npz (the batches of all steps) and figures.npz (needs PyTorch)
figures.py --check BUILD DIR   compile each with BUILD/tccc --train, run BUILD/tccc-train, compare; TAP (NumPy and onnx are enough)

figures.npz: `steps`, `loss` (of each step), grad/NAME (of the first step, found as what --optimizer=sgd:lr=1 takes off), state/NAME (after the
last step, rate 0). A parameter that the exporter transposed or renamed is the only initialiser of its shape.
"""
import json, os, subprocess, sys, tempfile, warnings
import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "onnx"))
from checkpoint_file import read_checkpoint  # noqa: E402

warnings.filterwarnings("ignore")


# -- Cases. Each returns module, batch arguments (NumPy arrays by input name), target, the exporter's options.

def cases():
    import torch, torch.nn as nn, torch.nn.functional as F

    class Attention(nn.Module):
        """Two of the rows of the mask hide every key."""

        def __init__(self):
            super().__init__()
            self.qkv, self.o = nn.Linear(8, 24), nn.Linear(8, 4)

        def forward(self, x, m):
            b, t, _ = x.shape
            q, k, v = self.qkv(x).view(b, t, 3, 2, 4).permute(2, 0, 3, 1, 4)
            return self.o(F.scaled_dot_product_attention(q, k, v, attn_mask=m).transpose(1, 2).reshape(b, t, 8))

    class Pooler(nn.Module):
        """First and last place of a sequence of dynamic length, one that an input names, and an LSTM's last."""

        def __init__(self):
            super().__init__()
            self.a, self.lstm, self.c = nn.Linear(3, 6), nn.LSTM(6, 5, batch_first=True), nn.Linear(6 + 6 + 5, 4)

        def forward(self, x):
            h = torch.tanh(self.a(x))
            return self.c(torch.cat([h[:, 0], h[:, -1] * h[:, 1], self.lstm(h)[0][:, -1]], 1))

    class Sampler(nn.Module):
        def __init__(self, mode, padding, align):
            super().__init__()
            self.how = dict(mode=mode, padding_mode=padding, align_corners=align)
            self.w, self.a, self.t = nn.Parameter(torch.randn(2, 4, 5)), nn.Parameter(torch.tensor([[1.3, 0.2], [-0.3, 0.9]])), nn.Parameter(torch.tensor([0.1, 0.2]))

        def forward(self, x, g):
            return F.grid_sample(x + self.w, g @ self.a + self.t, **self.how)

    class Norms(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.BatchNorm2d(3), nn.BatchNorm1d(4, momentum=0.3, eps=1e-3)
            self.l = nn.Linear(3, 4)

        def forward(self, x):
            return self.b(self.l(self.a(x).mean((2, 3))))

    class Pool(nn.Module):
        """Windows whose maximum is the lowest number: their places are not in the padding."""

        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.randn(2, 6, 7))

        def forward(self, x):
            y = F.max_pool2d(x + self.w, 3, 2, 1)
            return torch.where(y < -1e30, 0.0, y)

    rand = lambda *dims: torch.randn(*dims).numpy()
    mask = (torch.rand(2, 1, 5, 5) > 0.4).numpy()
    mask[0, 0, 2] = mask[1, 0, 4] = False
    yield "attention_opset17", Attention(), dict(x=rand(2, 5, 8), m=mask), rand(2, 5, 4), 1, dict(dynamo=False, opset_version=17)
    yield "attention_opset23", Attention(), dict(x=rand(2, 5, 8), m=mask), rand(2, 5, 4), 1, dict(dynamo=True, opset_version=23)
    for kind, how in (("torchscript", dict(dynamo=False, dynamic_axes={"x": {0: "n", 1: "length"}})),
                      ("dynamo", dict(dynamo=True, dynamic_shapes={"x": {0: torch.export.Dim("n"), 1: torch.export.Dim("length", min=2)}}))):
        yield f"pooler_{kind}", Pooler(), dict(x=rand(4, 7, 3)), rand(4, 4), 1, dict(opset_version=18, **how)
    for mode in ("bilinear", "nearest", "bicubic"):
        for padding in ("zeros", "border", "reflection"):
            for align in (False, True):
                yield (f"grid_sample_{mode}_{padding}_{int(align)}", Sampler(mode, padding, align), dict(x=rand(2, 2, 4, 5), g=rand(2, 3, 2, 2)),
                       rand(2, 2, 3, 2), 1, dict(dynamo=False, opset_version=20))
    yield "batch_norm", Norms(), dict(x=3 + 2 * rand(4 * 6, 3, 2, 3)), rand(4 * 6, 4), 6, dict(dynamo=False, opset_version=17, training=torch.onnx.TrainingMode.TRAINING,
                                                                                              dynamic_axes={"x": {0: "n"}})
    x = rand(3, 2, 6, 7)
    x[:, 0] = -np.inf
    x[:, 1, :4, :5] = -np.inf
    yield "max_pool_lowest", Pool(), dict(x=x), rand(3, 2, 3, 4), 1, dict(dynamo=False, opset_version=17)


def write(folder):
    import torch
    torch.manual_seed(0)
    for name, module, inputs, target, steps, how in cases():
        d = f"{folder}/{name}"
        os.makedirs(d, exist_ok=True)
        module.train()
        n = len(target) // steps
        first = tuple(torch.from_numpy(v[:n]) for v in inputs.values())
        torch.onnx.export(module, first, f"{d}/model.onnx", input_names=list(inputs), output_names=["y"], **{"training": torch.onnx.TrainingMode.EVAL, **how} if not how["dynamo"] else how)
        initial = strip(f"{d}/model.onnx")
        for k, v in module.named_buffers():     # exporting in training mode has moved them
            if k in initial:
                v.copy_(torch.from_numpy(initial[k].copy()))
        np.savez_compressed(f"{d}/data.npz", target=target, **inputs)
        figures, losses = {"steps": np.array(steps)}, []
        for s in range(steps):
            part = slice(s * n, (s + 1) * n)
            module.zero_grad()
            loss = torch.nn.functional.mse_loss(module(*(torch.from_numpy(v[part]) for v in inputs.values())), torch.from_numpy(target[part]))
            loss.backward()
            losses.append(loss.item())
            if s == 0:
                figures.update({"grad/" + k: p.grad.numpy().copy() for k, p in module.named_parameters()})
        figures.update({"state/" + k: v.numpy() for k, v in module.named_buffers() if v.dtype == torch.float32})
        np.savez_compressed(f"{d}/figures.npz", loss=np.array(losses), **figures)
        print("wrote", d, flush=True)


def strip(path):
    """What the exporter says about its sources is no part of the model."""
    import onnx
    m = onnx.load(path)
    for thing in [m, m.graph, *m.graph.node, *m.graph.value_info, *m.graph.input, *m.graph.output, *m.graph.initializer, *m.functions]:
        thing.doc_string = ""
        if hasattr(thing, "metadata_props"):
            del thing.metadata_props[:]
    onnx.save(m, path)
    return {i.name: onnx.numpy_helper.to_array(i) for i in m.graph.initializer}


# -- Checking

def train(build, model, data, folder, rate, batch, steps, *more):
    """-> losses of the steps, the checkpoint behind them"""
    subprocess.run([f"{build}/tccc", "-q", "--train", *(more or ["--loss=mse"]), f"--optimizer=sgd:lr={rate}", model, "-o", f"{folder}/step.so"], check=True)
    r = subprocess.run([f"{build}/tccc-train", f"{folder}/step.so", "--data", data, "--no-shuffle", f"--batch-size={batch}", f"--steps={steps}", "--json",
                        "--checkpoint", f"{folder}/ck{rate}"], check=True, stdout=subprocess.PIPE, text=True)
    losses = [json.loads(line)["loss"] for line in r.stdout.splitlines() if "step" in json.loads(line)]
    return losses, read_checkpoint(f"{folder}/ck{rate}/last.safetensors", "F32")


def find(got, key, shape):
    """The tensor of that name, or the only one of that shape, as it is or transposed."""
    if key in got:
        return got[key]
    like = [v for k, v in got.items() if v.shape == shape] + [v.T for v in got.values() if v.T.shape == shape and v.shape != shape]
    return like[0] if len(like) == 1 else None


def compare(build, case, folder):
    """-> what differs"""
    import onnx
    figures, wrong = np.load(f"{case}/figures.npz"), []
    steps, data = int(figures["steps"]), f"{case}/data.npz"
    batch = len(np.load(data)["target"]) // steps
    before = {i.name: onnx.numpy_helper.to_array(i) for i in onnx.load(f"{case}/model.onnx").graph.initializer}

    # Where gradients cancel (a bias before a batch normalisation) nothing is left but the rounding of what was summed, as large as others' is.
    largest = max((np.linalg.norm(figures[k]) for k in figures if k.startswith("grad/")), default=0)

    def differ(what, got, want, tolerance, least=1e-2):
        if got is None:
            wrong.append(f"{what}: not found")
        elif not np.linalg.norm(got - want) <= tolerance * max(np.linalg.norm(want), least):
            wrong.append(f"{what}: off by {np.linalg.norm(got - want):.3g} of {np.linalg.norm(want):.3g}")
    losses, after = train(build, f"{case}/model.onnx", data, folder, 1, batch, 1)
    differ("loss", losses[0], figures["loss"][0], 1e-5)
    taken = {k: before[k] - v for k, v in after.items() if k in before}
    for key in (k[5:] for k in figures if k.startswith("grad/")):
        want = figures["grad/" + key]
        if key.startswith("lstm."):     # ONNX has its own order of gates, and one tensor for both biases
            continue
        differ(f"gradient of {key}", find(taken, key, want.shape), want, 1e-4, max(1e-2, largest / 10))
    if steps > 1:
        losses, after = train(build, f"{case}/model.onnx", data, folder, 0, batch, steps)
        differ("losses", np.array(losses), figures["loss"], 1e-5)
        for key in (k[6:] for k in figures if k.startswith("state/")):
            differ(f"{key} after {steps} steps", after.get(key), figures["state/" + key], 1e-5)
    return wrong


def dropout(build, folder):
    """y = dropout(w) c, summed: the gradient of w says which elements were kept, exactly c / (1 - p) there, and with it the sum is known."""
    import onnx
    from onnx import helper
    n, p, wrong = 4000, 0.3, []
    rng = np.random.default_rng(0)
    w, c = (rng.uniform(0.5, 1.5, n).astype(np.float32) for _ in range(2))
    arrays = [onnx.numpy_helper.from_array(v, k) for k, v in (("w", w), ("ratio", np.float32(p)), ("on", np.array(True)))]
    graph = helper.make_graph([helper.make_node("Mul", ["x", "w"], ["h"]), helper.make_node("Dropout", ["h", "ratio", "on"], ["d"]),
                               helper.make_node("Mul", ["d", "c"], ["e"]), helper.make_node("ReduceSum", ["e"], ["y"], keepdims=0)], "g",
                              [helper.make_tensor_value_info(k, onnx.TensorProto.FLOAT, [1, n]) for k in ("x", "c")],
                              [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [])], arrays)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), f"{folder}/dropout.onnx")
    np.savez(f"{folder}/dropout.npz", x=np.ones((1, n), np.float32), c=c[None])
    losses, after = train(build, f"{folder}/dropout.onnx", f"{folder}/dropout.npz", folder, 1, 1, 1, "--loss=output:y")
    taken = (w.astype(np.float64) - after["w"]) / c
    kept = taken > 0.5
    scale = 1 / (1 - np.float64(np.float32(p)))
    if not np.abs(taken[kept] - scale).max() <= 1e-6 or not np.abs(taken[~kept]).max() <= 1e-6:
        wrong.append(f"gradients are not 0 or {scale:.7g} of what is kept, but up to {taken.max():.7g}")
    if not abs(kept.mean() - (1 - p)) <= 5 * np.sqrt(p * (1 - p) / n):
        wrong.append(f"{kept.mean():.4f} of the elements were kept")
    want = (w * c * kept * scale).sum(dtype=np.float64)
    if not abs(losses[0] - want) <= 1e-5 * want:
        wrong.append(f"the sum is {losses[0]}, of what was kept {want}")
    return wrong


def check(build, folder):
    cases = sorted(os.listdir(folder))
    print(f"1..{len(cases) + 1}")
    for i, name in enumerate(cases + ["dropout"]):
        with tempfile.TemporaryDirectory() as tmp:
            try:
                wrong = compare(build, f"{folder}/{name}", tmp) if i < len(cases) else dropout(build, tmp)
            except (subprocess.CalledProcessError, OSError, KeyError) as e:
                wrong = [str(e)]
        for line in wrong:
            print("#", line)
        print(f"{'not ' if wrong else ''}ok {i + 1} - {name}", flush=True)


if sys.argv[1:2] == ["--write"]:
    write(sys.argv[2])
else:
    check(sys.argv[2], sys.argv[3])
