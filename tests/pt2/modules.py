#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Modules of many kinds as programs of torch.export, in both IRs, with PyTorch's results at several sizes, and one step's gradients.

usage: modules.py DIR [PATTERN]      then: tccc-run --test-suite DIR, ../onnx/exported_gradients.py BUILD DIR

DIR/NAME and DIR/NAME.core are cases in the official suite's layout; DIR/NAME/training holds the module in training mode, data, and PyTorch's gradients
of the mean squared error; DIR/NAME.joint is the program of _export_forward_backward, whose results are the gradients.
"""
import fnmatch, math, os, sys, warnings
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
import archive
from archive import flat

MODULES = {}


def module(*inputs, dynamic=None, sizes=(), train=True):
    """dynamic: axes' symbols; sizes: more values of the first symbol."""
    def add(make):
        MODULES[make.__name__] = (make, inputs, dynamic, sizes, train)
        return make
    return add


class Lambda(nn.Module):
    def __init__(self, f, **parts):
        super().__init__()
        for name, part in parts.items():
            setattr(self, name, part)
        self.f = f

    def forward(self, *inputs):
        return self.f(self, *inputs)


B = ({0: "n"},)


@module((4, 8), dynamic=B, sizes=(1, 3, 7))
def mlp():
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 4), nn.Tanh())


@module((4, 3, 12, 12), dynamic=B, sizes=(1, 2))
def cnn():
    return nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.MaxPool2d(2), nn.Conv2d(8, 8, 3), nn.BatchNorm2d(8), nn.SiLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5))


class Residual(nn.Module):
    def __init__(self, c, k, stride):
        super().__init__()
        self.a, self.an = nn.Conv2d(c, k, 3, stride, 1, bias=False), nn.BatchNorm2d(k)
        self.b, self.bn = nn.Conv2d(k, k, 3, 1, 1, bias=False), nn.BatchNorm2d(k)
        self.skip = nn.Sequential(nn.Conv2d(c, k, 1, stride, bias=False), nn.BatchNorm2d(k)) if stride > 1 or c != k else nn.Identity()

    def forward(self, x):
        out = self.bn(self.b(F.relu(self.an(self.a(x)), inplace=True)))
        out += self.skip(x)
        return F.relu(out, inplace=True)


@module((2, 3, 16, 16), dynamic=B, sizes=(1, 3))
def resnet():
    return nn.Sequential(nn.Conv2d(3, 8, 7, 2, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1), Residual(8, 8, 1), Residual(8, 16, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 5))


class Squeeze(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.down, self.up = nn.Conv2d(c, 4, 1), nn.Conv2d(4, c, 1)

    def forward(self, x):
        return x * F.hardsigmoid(self.up(F.relu(self.down(F.adaptive_avg_pool2d(x, 1)))))


@module((2, 4, 8, 8), dynamic=B, sizes=(3,))
def mobilenet():
    return nn.Sequential(nn.Conv2d(4, 12, 1, bias=False), nn.BatchNorm2d(12), nn.Hardswish(), nn.Conv2d(12, 12, 5, 2, 2, groups=12, bias=False), nn.BatchNorm2d(12), nn.ReLU6(), Squeeze(12), nn.Conv2d(12, 4, 1), nn.BatchNorm2d(4))


@module((2, 3, 8, 8))
def convnext():
    def f(m, x):
        x = m.stem(x)
        y = m.depth(x).permute(0, 2, 3, 1)
        y = m.down(F.gelu(m.up(m.norm(y)))) * m.scale
        return x + y.permute(0, 3, 1, 2)
    return Lambda(f, stem=nn.Conv2d(3, 8, 2, 2), depth=nn.Conv2d(8, 8, 7, padding=3, groups=8), norm=nn.LayerNorm(8), up=nn.Linear(8, 32), down=nn.Linear(32, 8), scale=nn.Parameter(torch.rand(8)))


@module((2, 3, 8, 8), dynamic=B, sizes=(1,))
def unet():
    def f(m, x):
        a = F.relu(m.norm(m.a(x)))
        b = F.leaky_relu(m.b(a), 0.2)
        up = m.up(b)
        return m.out(torch.cat([a, up], 1))
    return Lambda(f, a=nn.Conv2d(3, 6, 3, padding=1), norm=nn.GroupNorm(2, 6), b=nn.Conv2d(6, 8, 3, 2, 1), up=nn.ConvTranspose2d(8, 6, 4, 2, 1), out=nn.Conv2d(12, 3, 1))


@module((2, 4, 6, 6))
def fpn():
    def f(m, x):
        low = m.down(x)
        top = m.lateral(x) + F.interpolate(m.top(low), scale_factor=2, mode="nearest")
        return m.out(top), F.interpolate(low, size=(7, 5), mode="bilinear", align_corners=False)
    return Lambda(f, down=nn.Conv2d(4, 8, 3, 2, 1), lateral=nn.Conv2d(4, 6, 1), top=nn.Conv2d(8, 6, 1), out=nn.Conv2d(6, 6, 3, padding=1))


@module((2, 2, 5, 5))
def superres():
    return nn.Sequential(nn.Conv2d(2, 12, 3, padding=1), nn.PReLU(12), nn.Conv2d(12, 8, 3, padding=1), nn.PixelShuffle(2))


@module((2, 1, 8, 8))
def spatial_transformer():
    def f(m, x):
        theta = m.theta(x.flatten(1)).view(-1, 2, 3)
        return F.grid_sample(x, F.affine_grid(theta, [2, 1, 8, 8], align_corners=False), align_corners=False)
    return Lambda(f, theta=nn.Linear(64, 6))


@module((2, 3, 16))
def tcn():
    return nn.Sequential(nn.Conv1d(3, 8, 3, padding="same", dilation=2), nn.ELU(), nn.BatchNorm1d(8), nn.AvgPool1d(2), nn.Conv1d(8, 4, 3), nn.Mish())


@module((1, 2, 4, 6, 6))
def conv3d():
    return nn.Sequential(nn.Conv3d(2, 4, 3, padding=1), nn.BatchNorm3d(4), nn.Softplus(), nn.MaxPool3d(2), nn.Flatten())


class Block(nn.Module):
    """A decoder's layer: RMSNorm, rotary positions, grouped queries, SwiGLU."""
    def __init__(self, d=16, heads=4, groups=2):
        super().__init__()
        self.heads, self.groups, self.size = heads, groups, d // heads
        self.q, self.k, self.v, self.o = nn.Linear(d, d, False), nn.Linear(d, groups * self.size, False), nn.Linear(d, groups * self.size, False), nn.Linear(d, d, False)
        self.gate, self.up, self.down = nn.Linear(d, 24, False), nn.Linear(d, 24, False), nn.Linear(24, d, False)
        self.n1, self.n2 = nn.RMSNorm(d), nn.RMSNorm(d)
        self.register_buffer("frequencies", 1 / 100 ** (torch.arange(0, self.size, 2) / self.size), persistent=False)

    def rotate(self, x):
        angle = torch.arange(x.shape[2])[:, None] * self.frequencies
        angle = torch.cat([angle, angle], -1)
        a, b = x.chunk(2, -1)
        return x * angle.cos() + torch.cat([-b, a], -1) * angle.sin()

    def forward(self, x):
        b, t, d = x.shape
        h = self.n1(x)
        q = self.rotate(self.q(h).view(b, t, self.heads, self.size).transpose(1, 2))
        k = self.rotate(self.k(h).view(b, t, self.groups, self.size).transpose(1, 2))
        v = self.v(h).view(b, t, self.groups, self.size).transpose(1, 2)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + self.o(y.transpose(1, 2).reshape(b, t, d))
        h = self.n2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


@module((2, 5, 16), dynamic=({0: "n", 1: "t"},), sizes=(1, 3))
def llama():
    return nn.Sequential(Block(), Block(), nn.RMSNorm(16))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.places, self.head = nn.Embedding(20, 16), nn.Embedding(8, 16), nn.Linear(16, 20, False)
        self.head.weight = self.tokens.weight
        self.qkv, self.out, self.n1, self.n2 = nn.Linear(16, 48), nn.Linear(16, 16), nn.LayerNorm(16), nn.LayerNorm(16)
        self.mlp = nn.Sequential(nn.Linear(16, 64), nn.GELU(approximate="tanh"), nn.Linear(64, 16))
        self.register_buffer("mask", torch.tril(torch.ones(8, 8)).view(1, 1, 8, 8))

    def forward(self, x):
        b, t = x.shape
        h = self.tokens(x) + self.places(torch.arange(t))
        q, k, v = (y.view(b, t, 2, 8).transpose(1, 2) for y in self.qkv(self.n1(h)).split(16, 2))
        a = (q @ k.transpose(-2, -1)) / math.sqrt(8)
        a = a.masked_fill(self.mask[:, :, :t, :t] == 0, float("-inf")).softmax(-1)
        h = h + self.out((a @ v).transpose(1, 2).contiguous().view(b, t, 16))
        return self.head(h + self.mlp(self.n2(h)))


@module(("i", 20, 2, 6), dynamic=({0: "n"},), sizes=(1, 5))
def gpt():
    return GPT()


@module((2, 5, 16), dynamic=({0: "n"},), sizes=(3,))
def encoder_layer():
    return nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0, activation="gelu", batch_first=True, norm_first=True)


@module((5, 2, 16))
def multihead():
    return Lambda(lambda m, x: m.a(x, x, x, need_weights=True), a=nn.MultiheadAttention(16, 4))


@module((2, 3, 8, 8))
def vit():
    def f(m, x):
        h = m.patch(x).flatten(2).transpose(1, 2)
        h = torch.cat([m.token.expand(h.shape[0], -1, -1), h], 1) + m.places
        return m.head(m.layer(h)[:, 0])
    return Lambda(f, patch=nn.Conv2d(3, 16, 4, 4), token=nn.Parameter(torch.randn(1, 1, 16)), places=nn.Parameter(torch.randn(1, 5, 16)), layer=nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True), head=nn.Linear(16, 5))


@module((2, 8, 8, 8))
def swin_window():
    def f(m, x):
        b, h, w, c = x.shape
        x = torch.roll(x, (-2, -2), (1, 2))
        y = x.view(b, 2, 4, 2, 4, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, 16, c)
        q, k, v = m.qkv(y).view(-1, 16, 3, 2, 4).permute(2, 0, 3, 1, 4).unbind(0)
        bias = m.table[m.index.view(-1)].view(16, 16, 2).permute(2, 0, 1)
        y = (((q * 0.5) @ k.transpose(-2, -1) + bias).softmax(-1) @ v).transpose(1, 2).reshape(-1, 16, c)
        y = y.view(b, 2, 2, 4, 4, c).permute(0, 1, 3, 2, 4, 5).reshape(b, h, w, c)
        return torch.roll(y, (2, 2), (1, 2))
    m = Lambda(f, qkv=nn.Linear(8, 24), table=nn.Parameter(torch.randn(49, 2)))
    grid = torch.stack(torch.meshgrid(torch.arange(4), torch.arange(4), indexing="ij")).flatten(1)
    d = (grid[:, :, None] - grid[:, None]).permute(1, 2, 0) + 3
    m.register_buffer("index", d[..., 0] * 7 + d[..., 1])
    return m


@module((2, 6, 5), dynamic=({0: "n"},), sizes=(3,))
def lstm():
    return Lambda(lambda m, x: m.r(x)[0], r=nn.LSTM(5, 7, num_layers=2, batch_first=True, bidirectional=True))


@module((6, 2, 5))
def gru():
    return Lambda(lambda m, x: m.r(x), r=nn.GRU(5, 7))


@module((6, 2, 5))
def rnn():
    return Lambda(lambda m, x: m.r(x), r=nn.RNN(5, 7, nonlinearity="relu", bias=False))


@module(("i", 10, 3, 4))
def embedding_sum():
    return Lambda(lambda m, i: m.o(m.e(i).sum(1)), e=nn.Embedding(10, 6, padding_idx=3), o=nn.Linear(6, 2))


@module((6, 8))
def mixture_of_experts():
    def f(m, x):
        weights, which = torch.topk(m.gate(x).softmax(-1), 2)
        mask = F.one_hot(which, 4).to(x.dtype) * weights[..., None]
        return sum(mask[:, :, k].sum(1, keepdim=True) * e(x) for k, e in enumerate(m.experts))
    return Lambda(f, gate=nn.Linear(8, 4), experts=nn.ModuleList(nn.Sequential(nn.Linear(8, 8), nn.ReLU()) for _ in range(4)))


@module((2, 10, 3))
def pointnet():
    return Lambda(lambda m, x: m.head(m.net(x.transpose(1, 2)).max(2).values), net=nn.Sequential(nn.Conv1d(3, 8, 1), nn.BatchNorm1d(8), nn.ReLU(), nn.Conv1d(8, 16, 1)), head=nn.Linear(16, 4))


@module((3, 4), train=False)  # PyTorch itself has no gradient of it
def in_place():
    def f(m, x):
        y = m.a(x)
        z = y.clone()
        z[:, 1:3] = x[:, :2] * 2
        z[0].mul_(3)
        z.view(-1)[::2].add_(1)
        z.t()[2] += 5
        y.relu_().add_(z)
        z[:, 0].zero_()
        return y, z
    return Lambda(f, a=nn.Linear(4, 4))


@module((2, 3), train=False)
def counter():
    def f(m, x):
        m.count += 1
        m.seen.copy_(m.seen * 0.5 + x)
        m.log[:, 1] = x.sum(1)
        return m.seen + m.count, m.log * 1.0
    m = Lambda(f)
    m.register_buffer("count", torch.zeros((), dtype=torch.int64))
    m.register_buffer("seen", torch.zeros(2, 3))
    m.register_buffer("log", torch.zeros(2, 4))
    return m


@module((2, 3), train=False)
def changed_input():
    def f(m, x):
        y = x * 2
        x.add_(1)
        return y + x
    return Lambda(f)


@module((3, 4), train=False)
def branches():
    def f(m, x):
        return torch.cond(x.sum() > 0, lambda a: m.a(a) * 2, lambda a: torch.relu(a) - 1, (x,))
    return Lambda(f, a=nn.Linear(4, 4))


@module((3, 4), train=False)
def iterations():
    from torch._higher_order_ops import while_loop
    def f(m, x):
        return while_loop(lambda i, y: i < 5, lambda i, y: (i + 1, torch.tanh(y * 1.5)), (torch.tensor(0), x))[1]
    return Lambda(f)


@module((5, 3), train=False)
def scanned():
    from torch._higher_order_ops.scan import scan
    def f(m, x):
        return scan(lambda c, y: (c * 0.5 + y, torch.sin(c) + y), x[0] * 0, x)
    return Lambda(f)


@module((5, 3), train=False)
def mapped():
    from torch._higher_order_ops.map import map as torch_map
    return Lambda(lambda m, x: torch_map(lambda y, w: torch.relu(y) * w, x, m.w), w=nn.Parameter(torch.rand(3)))


@module((3, 4))
def frozen():
    def f(m, x):
        with torch.no_grad():
            h = m.a(x)
        return m.c(m.b(h) + m.b(x).detach())
    m = Lambda(f, a=nn.Linear(4, 4), b=nn.Linear(4, 4), c=nn.Linear(4, 2))
    m.c.bias.requires_grad_(False)
    return m


@module((4, 6), ("i", 3, 4))
def metric_loss():
    def f(m, x, y):
        z = F.normalize(m.a(x), dim=-1)
        return torch.cdist(z, z), F.cross_entropy(m.b(z), y, label_smoothing=0.1, reduction="none")
    return Lambda(f, a=nn.Linear(6, 5), b=nn.Linear(5, 3))


@module((2, 6, 8), dynamic=({0: "n", 1: "2*t"},), sizes=(1, 4))
def pooled_sequence():
    def f(m, x):
        n, t, d = x.shape
        weights = torch.softmax(m.score(x).squeeze(-1) / t, 1)
        half = x[:, : t // 2].mean(1)
        return (weights[..., None] * x).sum(1) + half, x.reshape(n * t, d)[-1] * n
    return Lambda(f, score=nn.Linear(8, 1))


def values(spec, size=None):
    if spec[0] == "i":
        shape = spec[2:] if size is None else (size, *spec[3:])
        return torch.randint(0, spec[1], shape)
    return torch.randn(*(spec if size is None else (size, *spec[1:])))


def randomise(m):
    for name, b in m.named_buffers():
        if b.is_floating_point() and "running" in name:
            b.data = torch.rand_like(b) + 0.5


def write_training(folder, make, inputs):
    torch.manual_seed(3)
    m = make()
    randomise(m)
    m.train()
    example = [values(s) for s in inputs]
    os.makedirs(folder, exist_ok=True)
    archive.save(torch.export.export(m, tuple(example)), folder + "/model.pt2")
    before = {n: p.detach().numpy().copy() for n, p in m.named_parameters()}
    program = torch.export.export(m, tuple(example))
    out = flat(m(*example))[0]
    target = torch.randn(out.shape)
    loss = F.mse_loss(out, target)
    loss.backward()
    names = [s.arg.name for s in program.graph_signature.input_specs if s.kind.name == "USER_INPUT"]
    np.savez(folder + "/data.npz", target=target.numpy(), **{n: x.numpy() for n, x in zip(names, example)})
    np.savez(folder + "/before.npz", **before)
    np.savez(folder + "/gradients.npz", loss=loss.item(), **{n: p.grad.numpy() for n, p in m.named_parameters() if p.grad is not None})
    np.savez(folder + "/buffers.npz", **{n: b.numpy() for n, b in m.named_buffers() if "running" in n})


class WithLoss(nn.Module):
    def __init__(self, m):
        super().__init__()
        self.m = m

    def forward(self, *inputs):
        return flat(self.m(*inputs))[0].square().mean()


def write_joint(folder, make, inputs):
    from torch.export.experimental import _export_forward_backward
    torch.manual_seed(4)
    m = WithLoss(make().eval())
    example = [values(s) for s in inputs]
    program = _export_forward_backward(torch.export.export(m, tuple(example)))
    loss = m(*example)
    loss.backward()
    grads = dict(m.named_parameters())
    specs = [s for s in program.graph_signature.output_specs]
    results = [loss.detach() if s.kind.name == "LOSS_OUTPUT" else grads[s.target].grad for s in specs]
    archive.write(folder, program, example, results, "1e-3 1e-5")


def write_module(folder, name, make, inputs, dynamic, sizes, train):
    torch.manual_seed(1)
    m = make()
    randomise(m)
    m.eval()
    example = [values(s) for s in inputs]
    shapes = archive.dynamic_shapes(dynamic) if dynamic else None
    if shapes and isinstance(m, Lambda):
        shapes = (shapes,)
    with torch.no_grad():
        program = torch.export.export(m, tuple(e.clone() for e in example), dynamic_shapes=shapes)
    core = program.run_decompositions()
    for suffix, p in (("", program), (".core", core)):
        for k, size in enumerate((None, *sizes)):
            data = [e.clone() for e in example] if size is None else [values(s, size) for s in inputs]
            state = {n: b.clone() for n, b in m.named_buffers()}
            given = [x.clone() for x in data]
            with torch.no_grad():
                results = flat(m(*given))
            results += [g for g, x in zip(given, data) if not torch.equal(g, x)]
            for n, b in m.named_buffers():
                b.data = state[n]
            archive.write(f"{folder}/{name}{suffix}", p, data, results, "1e-3 1e-5", number=k, again=k > 0)
    if train:
        write_training(f"{folder}/{name}/training", make, inputs)
        if name in JOINT:
            write_joint(f"{folder}/{name}.joint", make, inputs)


JOINT = ("mlp", "cnn", "resnet", "encoder_layer", "unet", "convnext", "llama")


def main():
    folder, pattern = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "*"
    warnings.simplefilter("ignore")
    bad = 0
    for name, (make, *rest) in MODULES.items():
        if not fnmatch.fnmatch(name, pattern):
            continue
        try:
            write_module(folder, name, make, *rest)
        except Exception as e:
            print(f"not made: {name}: {type(e).__name__}: {(str(e).strip().splitlines() or [''])[0]}", flush=True)
            bad += 1
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
