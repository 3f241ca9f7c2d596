#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random networks, exported by PyTorch and compiled as training steps: are their gradients PyTorch's? Needs PyTorch and onnx.

usage: random_gradients.py BUILD [--seed S] [--count N] [--keep DIR]

Each seed makes a network of random layers over vectors, images or sequences, a random opset, exporter's batch (free or fixed), level and instruction
set. A step of plain SGD at learning rate 1 is compiled and run; what it took from a parameter is the gradient. The reference is autograd in
float64; a gradient may be off by 1e-4 of its norm and by ten times what PyTorch's in float32 is. Prints "ok SEED WHAT", "not ok SEED WHAT: WHY", and
"ok SEED WHAT # SKIP WHY" where the exporter refuses. --keep keeps what failed.
"""
import argparse, contextlib, copy, io, json, os, random, shutil, subprocess, sys, tempfile, warnings

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "onnx"))
from checkpoint_file import read_checkpoint  # noqa: E402

LEVELS = ("-O0", "-O1", "-O2", "-O3", "-O2 --march=x86-64-v3", "-O2 --march=x86-64-v2")


class Call(nn.Module):
    """A function of the activations as a layer."""

    def __init__(self, text, f):
        super().__init__()
        self.text, self.f = text, f

    def forward(self, x):
        return self.f(x)

    def extra_repr(self):
        return self.text


class Scale(nn.Module):
    """x * w + b over the last dims."""

    def __init__(self, *shape):
        super().__init__()
        self.w, self.b = nn.Parameter(torch.randn(*shape) * 0.3 + 1), nn.Parameter(torch.randn(*shape) * 0.3)

    def forward(self, x):
        return x * self.w + self.b


class Branch(nn.Module):
    """Two ways, joined."""

    def __init__(self, a, b, how):
        super().__init__()
        self.a, self.b, self.how = a, b, how

    def forward(self, x):
        a, b = self.a(x), self.b(x)
        return {"add": lambda: a + b, "mul": lambda: a * torch.sigmoid(b), "max": lambda: torch.maximum(a, b), "where": lambda: torch.where(x > 0, a, b),
                "cat": lambda: torch.cat([a, b], 1), "div": lambda: a / (1 + b * b), "sub": lambda: a - b}[self.how]()


class First(nn.Module):
    """The first result of a recurrent layer or of attention."""

    def __init__(self, m, attention=False):
        super().__init__()
        self.m, self.attention = m, attention

    def forward(self, x):
        return self.m(x, x, x, need_weights=False)[0] if self.attention else self.m(x)[0]


class Heads(nn.Module):
    """Attention written out with scaled_dot_product_attention."""

    def __init__(self, d, heads, causal):
        super().__init__()
        self.q, self.heads, self.causal = nn.Linear(d, 3 * d), heads, causal

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.q(x).reshape(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        return F.scaled_dot_product_attention(q, k, v, is_causal=self.causal).transpose(1, 2).reshape(b, t, d)


POINTWISE = {
    "relu": F.relu, "gelu": F.gelu, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "silu": F.silu, "tanh": torch.tanh, "sigmoid": torch.sigmoid,
    "softplus": F.softplus, "elu": F.elu, "selu": F.selu, "leaky": lambda x: F.leaky_relu(x, 0.1), "mish": F.mish, "hardswish": F.hardswish,
    "hardsigmoid": F.hardsigmoid, "softsign": F.softsign, "abs": torch.abs, "sqrt": lambda x: torch.sqrt(x * x + 1), "log": lambda x: torch.log(x * x + 0.5),
    "exp": lambda x: torch.exp(x.clamp(-3, 2)), "sin": torch.sin, "erf": torch.erf, "pow": lambda x: (x * x + 0.1) ** 1.5, "cube": lambda x: x ** 3 * 0.1,
    "reciprocal": lambda x: 1 / (x * x + 1), "clamp": lambda x: x.clamp(-0.8, 0.9), "where": lambda x: torch.where(x > 0.2, x * 2, x - 0.2), "atan": torch.atan,
    "celu": lambda x: F.celu(x, 0.7), "relu6": lambda x: F.relu6(3 * x), "logsigmoid": F.logsigmoid, "rsqrt": lambda x: torch.rsqrt(x * x + 1), "cos": torch.cos}


def pointwise(r):
    name = r.choice(sorted(POINTWISE))
    return Call(name, POINTWISE[name])


def vector_layer(r, d):
    """A layer over [..., d], and its d."""
    n = r.choice((3, 5, 8, 12))
    k = r.randrange(12)
    if k <= 2:
        return nn.Linear(d, n, bias=r.random() < 0.8), n
    if k == 3:
        return nn.LayerNorm(d), d
    if k == 4:
        return Call("softmax", lambda x: F.softmax(x, -1) * d), d
    if k == 5:
        return Call("log_softmax", lambda x: F.log_softmax(x, -1)), d
    if k == 6:
        return Scale(d), d
    if k == 7:
        return Call("cumsum", lambda x: torch.cumsum(x, -1) * 0.5), d
    if k == 8 and d > 2:
        at = r.randrange(1, d)
        return Call(f"roll {at}", lambda x: torch.cat([x[..., at:], x[..., :at] * 2], -1)), d
    if k == 9:
        return Call("normalize", lambda x: F.normalize(x, dim=-1, eps=1e-3)), d
    if k == 10:
        return Call("centred", lambda x: (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + 0.5)), d
    return Call("logsumexp", lambda x: x - torch.logsumexp(x, -1, keepdim=True)), d


def image_layer(r, c):
    """A layer over [b, c, h, w] of at least 8 x 8 that keeps or halves or doubles them: layer, c, factor."""
    n = r.choice((3, 4, 6, 8))
    k = r.randrange(16)
    if k <= 3:
        size, dilation = r.choice((1, 3, 5)), r.choice((1, 1, 2))
        groups = r.choice([g for g in (1, 1, 2, 3, 4) if c % g == 0 and n % g == 0])
        mode = r.choice(("zeros", "zeros", "reflect", "replicate", "circular"))
        return nn.Conv2d(c, n, size, 1, dilation * (size // 2), dilation, groups, bias=r.random() < 0.7, padding_mode=mode), n, 1
    if k == 4:
        return nn.Conv2d(c, c, 3, 1, 1, groups=c), c, 1
    if k == 5:
        return nn.Conv2d(c, n, r.choice((2, 3, 4)), 2, 1), n, 0.5
    if k == 6:
        return nn.ConvTranspose2d(c, n, *r.choice(((2, 2), (4, 2, 1), (3, 2, 1, 1)))), n, 2
    if k == 7:
        return nn.MaxPool2d(*r.choice(((2,), (3, 2, 1)))), c, 0.5
    if k == 8:
        return nn.AvgPool2d(*r.choice(((2,), (3, 2, 1), (3, 2, 1, False, False)))), c, 0.5
    if k == 9:
        return nn.BatchNorm2d(c), c, 1
    if k == 10:
        return nn.GroupNorm(r.choice([g for g in (1, 2, 3, 4) if c % g == 0]), c), c, 1
    if k == 11:
        return nn.InstanceNorm2d(c, affine=True), c, 1
    if k == 12:
        mode = r.choice(("nearest", "bilinear", "bicubic"))
        options = {} if mode == "nearest" else {"align_corners": r.random() < 0.5}
        return Call(f"interpolate {mode} {options}", lambda x: F.interpolate(x, scale_factor=2.0, mode=mode, **options)), c, 2
    if k == 13:
        mode = r.choice(("reflect", "replicate", "constant"))
        return Call(f"pad {mode}", lambda x: F.pad(x, (1, 2, 0, 1), mode=mode)[:, :, :-1, 1:-2] * 1.5), c, 1
    if k == 14:
        return nn.Sequential(nn.Conv2d(c, 4 * c, 1), nn.PixelShuffle(2)), c, 2
    return nn.PReLU(c), c, 1


def sequence_layer(r, d):
    """A layer over [b, t, d], and its d."""
    n = r.choice((4, 6, 8))
    k = r.randrange(9)
    if k == 0:
        return First(nn.LSTM(d, n // 2 if (two := r.random() < 0.4) else n, batch_first=True, bidirectional=two)), n
    if k == 1:
        return First(nn.GRU(d, n, batch_first=True)), n
    if k == 2:
        return First(nn.RNN(d, n, batch_first=True)), n
    if k == 3 and d % 2 == 0:
        return First(nn.MultiheadAttention(d, 2, batch_first=True), True), d
    if k == 4 and d % 2 == 0:
        return Heads(d, 2, r.random() < 0.5), d
    if k == 5:
        return nn.Sequential(Call("to channels", lambda x: x.transpose(1, 2)), nn.Conv1d(d, n, 3, 1, 1), Call("back", lambda x: x.transpose(1, 2))), n
    if k == 6 and d % 2 == 0:
        return nn.TransformerEncoderLayer(d, 2, 2 * d, dropout=0.0, batch_first=True, activation=r.choice(("relu", "gelu"))), d
    if k == 7:
        return Call("cumsum of time", lambda x: torch.cumsum(x, 1) * 0.3), d
    return vector_layer(r, d)


def make(seed):
    """-> network, input"""
    r = random.Random(seed)
    torch.manual_seed(seed)
    kind = r.choice(("vector", "image", "image", "sequence"))
    batch, layers = r.choice((1, 2, 3, 5)), []
    if kind == "image":
        c, size, at = r.choice((3, 4)), r.choice((8, 9, 12)), 1.0
        x = torch.randn(batch, c, size, size + r.choice((0, 2)))
        for _ in range(r.randint(2, 5)):
            layer, n, factor = image_layer(r, c)
            if factor * at < 0.5 or factor * at > 2:
                continue
            if factor == 1 and n == c and r.random() < 0.3:
                layer = Branch(layer, pointwise(r), r.choice(("add", "mul", "max", "where", "div", "sub")))
            layers.append(layer)
            if r.random() < 0.6:
                layers.append(pointwise(r))
            c, at = n, factor * at
        layers.append(nn.Conv2d(c, 2, 1))
        if r.random() < 0.5:
            layers += [r.choice((nn.AdaptiveAvgPool2d(1), Call("mean", lambda x: x.mean((2, 3), keepdim=True)), Call("amax", lambda x: x.amax((2, 3), keepdim=True)))),
                       nn.Flatten(), nn.Linear(2, 3)]
        return nn.Sequential(*layers), x
    d = r.choice((4, 6, 8))
    x = torch.randn(batch, r.choice((1, 3, 5)), d) if kind == "sequence" else torch.randn(batch, d)
    for _ in range(r.randint(2, 5)):
        layer, n = (sequence_layer if kind == "sequence" else vector_layer)(r, d)
        if n == d and r.random() < 0.3:
            layer = Branch(layer, pointwise(r), r.choice(("add", "mul", "max", "where", "div", "sub")))
        layers.append(layer)
        d = n
        if r.random() < 0.6:
            layers.append(pointwise(r))
    layers.append(nn.Linear(d, 3))
    if kind == "sequence" and r.random() < 0.5:
        layers.append(r.choice((Call("last", lambda x: x[:, -1]), Call("mean", lambda x: x.mean(1)), Call("max", lambda x: x.max(1).values))))
    return nn.Sequential(*layers), x


def gradients(model, x, target):
    model.zero_grad()
    loss = F.mse_loss(model(x), target)
    loss.backward()
    return loss.item(), {k: v.grad.detach().double().numpy().copy() for k, v in model.named_parameters() if v.grad is not None}


def check(build, seed, folder):
    """-> what it was, why it failed (None: it did not), why it was skipped"""
    r = random.Random(seed + 1)
    model, x = make(seed)
    model.train()
    level, opset, free = r.choice(LEVELS), r.randint(13, 20), r.random() < 0.5 and len(x) > 1
    what = f"{level}, opset {opset}, {'free' if free else 'fixed'} batch of {len(x)}: " + " ".join(str(m).replace("\n", " ") for m in model)
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):  # it says a lot where it refuses
            torch.onnx.export(copy.deepcopy(model), (x,), folder + "/model.onnx", dynamo=False, opset_version=opset, input_names=["x"], output_names=["y"],
                              dynamic_axes={"x": {0: "batch"}} if free else None, do_constant_folding=False, training=torch.onnx.TrainingMode.TRAINING)
    except Exception as e:  # of many kinds, none of which is ours
        return what, None, f"{type(e).__name__}: {(str(e).strip() or '-').splitlines()[0][:100]}"
    target = torch.randn_like(model(x).detach())
    try:
        loss, exact = gradients(copy.deepcopy(model).double(), x.double(), target.double())
        _, narrow = gradients(copy.deepcopy(model), x, target)
    except RuntimeError as e:
        return what, None, f"PyTorch: {str(e).splitlines()[0][:100]}"
    before = {k: v.detach().numpy().copy() for k, v in model.named_parameters()}
    np.savez(folder + "/data.npz", x=x.numpy(), target=target.numpy())
    step = folder + "/step.so"
    for command in ([build + "/tccc", "-q", "--train", "--loss=mse", "--optimizer=sgd:lr=1", *level.split(), folder + "/model.onnx", "-o", step],
                    [build + "/tccc-train", step, "--data", folder + "/data.npz", f"--batch-size={len(x)}", "--steps=1", "--json", "--no-shuffle",
                     "--checkpoint", folder + "/saved"]):
        p = subprocess.run(command, capture_output=True, text=True, timeout=600)
        if p.returncode:
            return what, (p.stderr.strip() or f"status {p.returncode}").split("\n")[0], None
    got = next(json.loads(line)["loss"] for line in p.stdout.splitlines() if '"loss"' in line)
    wrong = [] if abs(got - loss) <= 2e-5 * abs(loss) + 1e-6 else [f"loss {got}, not {loss}"]
    after = read_checkpoint(folder + "/saved/last.safetensors", "F32")
    for name, g in exact.items():
        if name not in after:
            if np.linalg.norm(g):
                wrong.append(f"{name} is no parameter")
            continue
        error, own = np.linalg.norm(before[name].astype(np.float64) - after[name] - g), np.linalg.norm(narrow[name] - g)
        if not error <= 1e-4 * np.linalg.norm(g) + 10 * own + 1e-6 * np.linalg.norm(before[name]) + 1e-7:
            wrong.append(f"{name} is off by {error:.3g} of {np.linalg.norm(g):.3g}")
    return what, "; ".join(wrong) or None, None


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("build")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--count", type=int, default=100)
    p.add_argument("--keep")
    o = p.parse_args()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    failed = 0
    for seed in range(o.seed, o.seed + o.count):
        with tempfile.TemporaryDirectory() as folder:
            what, why, skipped = check(o.build, seed, folder)
            failed += why is not None
            print(f"{'not ok' if why else 'ok'} {seed} {what}" + (f": {why}" if why else f" # SKIP {skipped}" if skipped else ""), flush=True)
            if why and o.keep:
                shutil.copytree(folder, os.path.join(o.keep, str(seed)), dirs_exist_ok=True)
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
