#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Small networks of many kinds, as PyTorch's two exporters write them: are compiled results and gradients PyTorch's?

usage: modules.py BUILD FOLDER [NAME...]

Each is exported by torch.onnx.export (TorchScript with fixed and with free batch, dynamo) and run at several levels and for
several instruction sets; then it is exported for training by both exporters, as doc/exporting.md says, a training step of every output that
has a gradient is compiled for two instruction sets, and its loss and the gradient of every parameter are compared with PyTorch's. Prints lines
"ok NAME WHAT", "not ok NAME WHAT: WHY", and "ok NAME WHAT # SKIP WHY" where an exporter refuses.
"""
import json, math, os, subprocess, sys, warnings

import numpy as np
import onnx
import torch
import torch.nn as nn
import torch.nn.functional as F

from case_folder import write_data
from checkpoint_file import read_checkpoint

NETWORKS = {}


def network(*shapes):
    """Registers a class with the shapes of its inputs."""

    def register(cls):
        NETWORKS[cls.__name__] = (cls, shapes)
        return cls

    return register


@network((1, 3, 32, 40))
class FPN(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Conv2d(3, 16, 3, 2, 1)
        self.b = nn.Conv2d(16, 32, 3, 2, 1)
        self.c = nn.Conv2d(32, 64, 3, 2, 1)
        self.l = nn.ModuleList([nn.Conv2d(k, 24, 1) for k in (16, 32, 64)])
        self.o = nn.ModuleList([nn.Conv2d(24, 24, 3, 1, 1) for _ in range(3)])

    def forward(self, x):
        a = F.relu(self.a(x))
        b = F.relu(self.b(a))
        c = F.relu(self.c(b))
        p = self.l[2](c)
        r = [self.o[2](p)]
        p = self.l[1](b) + F.interpolate(p, scale_factor=2.0, mode="nearest")
        r.append(self.o[1](p))
        p = self.l[0](a) + F.interpolate(p, size=a.shape[-2:], mode="bilinear", align_corners=False)
        r.append(self.o[0](p))
        return tuple(r)


@network((2, 4, 16, 24))
class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Conv2d(4, 16, 3, 1, 1)
        self.b = nn.Conv2d(16, 32, 3, 2, 1)
        self.c = nn.Conv2d(32, 32, 3, 2, 1)
        self.n = nn.GroupNorm(4, 32)
        self.u = nn.ConvTranspose2d(32, 32, 4, 2, 1)
        self.d = nn.Conv2d(64, 16, 3, 1, 1)
        self.u2 = nn.ConvTranspose2d(16, 16, 3, 2, 1, 1)
        self.e = nn.Conv2d(32, 4, 1)

    def forward(self, x):
        a = F.silu(self.a(x))
        b = F.silu(self.n(self.b(a)))
        c = F.silu(self.c(b))
        d = self.d(torch.cat([self.u(c), b], 1))
        return self.e(torch.cat([self.u2(F.mish(d)), a], 1))


@network((1, 8, 12, 12))
class PixelShuffleNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Conv2d(8, 32, 3, 1, 1)
        self.b = nn.Conv2d(8, 3, 3, 1, 1)
        self.p = nn.PReLU(8)

    def forward(self, x):
        y = F.pixel_shuffle(self.a(x), 2)
        return self.b(self.p(y)) + F.interpolate(
            x[:, :3], scale_factor=2.0, mode="bicubic", align_corners=False
        ), F.pixel_unshuffle(y, 2)


@network((2, 16, 14, 14))
class SE(nn.Module):
    def __init__(self):
        super().__init__()
        self.c = nn.Conv2d(16, 16, 3, 1, 1, groups=16)
        self.bn = nn.BatchNorm2d(16)
        self.f = nn.Conv2d(16, 4, 1)
        self.g = nn.Conv2d(4, 16, 1)
        self.p = nn.Conv2d(16, 16, 1)

    def forward(self, x):
        y = F.hardswish(self.bn(self.c(x)))
        w = F.hardsigmoid(self.g(F.relu(self.f(F.adaptive_avg_pool2d(y, 1)))))
        return self.p(y * w) + x


@network((1, 16, 20, 20))
class ASPP(nn.Module):
    def __init__(self):
        super().__init__()
        self.c = nn.ModuleList([nn.Conv2d(16, 8, 3, padding=d, dilation=d) for d in (1, 3, 6)])
        self.p = nn.Conv2d(16, 8, 1)
        self.o = nn.Conv2d(32, 5, 1)

    def forward(self, x):
        g = F.interpolate(self.p(x.mean((2, 3), keepdim=True)), size=x.shape[2:], mode="bilinear", align_corners=True)
        return (
            F.interpolate(
                self.o(torch.cat([F.relu(c(x)) for c in self.c] + [g], 1)), scale_factor=4.0, mode="bilinear"
            ).argmax(1),
            g,
        )


@network((2, 24, 10, 10))
class Shuffle(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Conv2d(12, 12, 1)
        self.d = nn.Conv2d(12, 12, 3, 1, 1, groups=12)
        self.g = nn.Conv2d(24, 24, 1, groups=3)

    def forward(self, x):
        a, b = x.chunk(2, 1)
        b = F.relu(self.d(self.a(b)))
        x = torch.cat([a, b], 1)
        n, c, h, w = x.shape
        x = x.view(n, 2, c // 2, h, w).transpose(1, 2).reshape(n, c, h, w)
        return self.g(x) + x


@network((2, 9, 32))
class RelBias(nn.Module):
    def __init__(self):
        super().__init__()
        self.q = nn.Linear(32, 96)
        self.t = nn.Parameter(torch.randn(17, 4))
        i = torch.arange(9)
        self.register_buffer("i", i[:, None] - i[None] + 8)
        self.o = nn.Linear(32, 32)
        self.n = nn.LayerNorm(32)

    def forward(self, x):
        b, n, c = x.shape
        q, k, v = self.q(self.n(x)).view(b, n, 3, 4, 8).permute(2, 0, 3, 1, 4).unbind(0)
        a = (q * 8**-0.5) @ k.transpose(-1, -2) + self.t[self.i.view(-1)].view(n, n, 4).permute(2, 0, 1).unsqueeze(0)
        return x + self.o((a.softmax(-1) @ v).transpose(1, 2).reshape(b, n, c))


@network((1, 16, 16, 32))
class SwinBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.q = nn.Linear(32, 96)
        self.o = nn.Linear(32, 32)

    def forward(self, x):
        b, h, w, c = x.shape
        x0 = x
        x = torch.roll(x, (-2, -2), (1, 2))
        x = x.view(b, h // 4, 4, w // 4, 4, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, 16, c)
        q, k, v = self.q(x).reshape(-1, 16, 3, 4, 8).permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(-1, 16, c)
        y = self.o(y).view(b, h // 4, w // 4, 4, 4, c).permute(0, 1, 3, 2, 4, 5).reshape(b, h, w, c)
        return torch.roll(y, (2, 2), (1, 2)) + x0


@network((2, 12, 4, 16))
class Rotary(nn.Module):
    def __init__(self):
        super().__init__()
        t = torch.arange(12)[:, None] / 10000 ** (torch.arange(0, 16, 2) / 16)[None]
        self.register_buffer("c", t.cos().repeat(1, 2))
        self.register_buffer("s_", t.sin().repeat(1, 2))

    def forward(self, x):
        x = x.transpose(1, 2)
        r = lambda x: torch.cat([-x[..., 8:], x[..., :8]], -1)
        q = x * self.c + r(x) * self.s_
        e = torch.stack([-x[..., 1::2], x[..., ::2]], -1).flatten(-2)
        k = x * self.c + e * self.s_
        return F.scaled_dot_product_attention(q, k, x, is_causal=True), (
            e
        )


@network((2, 10, 32))
class MoE(nn.Module):
    def __init__(self):
        super().__init__()
        self.g = nn.Linear(32, 4)
        self.w = nn.Parameter(torch.randn(4, 32, 48) * 0.1)
        self.v = nn.Parameter(torch.randn(4, 48, 32) * 0.1)

    def forward(self, x):
        p = self.g(x).softmax(-1)
        v, i = p.topk(2, -1)
        m = torch.zeros_like(p).scatter(-1, i, v / v.sum(-1, keepdim=True))
        h = F.gelu(torch.einsum("btd,edf->btef", x, self.w), approximate="tanh")
        return torch.einsum("btef,efd,bte->btd", h, self.v, m)


@network((2, 7, 24))
class RMSGLU(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.rand(24))
        self.a = nn.Linear(24, 64, bias=False)
        self.b = nn.Linear(24, 64, bias=False)
        self.c = nn.Linear(64, 24, bias=False)

    def forward(self, x):
        h = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.w
        return x + self.c(F.silu(self.a(h)) * self.b(h)), F.glu(x, -1), F.normalize(x, dim=1)


@network((2, 6, 40))
class TCN(nn.Module):
    def __init__(self):
        super().__init__()
        self.c = nn.ModuleList([nn.Conv1d(6 if i == 0 else 16, 32, 2, dilation=2**i) for i in range(4)])
        self.r = nn.ModuleList([nn.Conv1d(16, 16, 1) for _ in range(4)])
        self.i = nn.Conv1d(6, 16, 1)

    def forward(self, x):
        h = self.i(x)
        k = 0
        for i, (c, r) in enumerate(zip(self.c, self.r)):
            y = c(F.pad(x if i == 0 else h, (2**i, 0)))
            a, b = y.chunk(2, 1)
            y = r(torch.tanh(a) * torch.sigmoid(b))
            h = h + y
            k = k + y
        return k.cumsum(-1), F.max_pool1d(h, 3, 2, 1), F.avg_pool1d(h, 4, 3, 2, count_include_pad=False)


@network((1, 4, 6, 10, 10))
class Vol(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Conv3d(4, 16, 3, 1, 1)
        self.b = nn.InstanceNorm3d(16, affine=True)
        self.c = nn.ConvTranspose3d(16, 4, 2, 2)
        self.d = nn.Conv3d(16, 16, (1, 3, 3), padding=(0, 1, 1), groups=4)

    def forward(self, x):
        y = F.leaky_relu(self.b(self.a(x)), 0.2)
        return (
            self.c(y),
            self.d(y) + y,
            F.adaptive_avg_pool3d(y, (2, 2, 2)),
            F.interpolate(y, scale_factor=2.0, mode="trilinear", align_corners=True),
            F.max_pool3d(y, 2),
        )


@network((2, 3, 18, 18))
class Pools(nn.Module):
    def forward(self, x):
        return (
            F.adaptive_max_pool2d(x, 6),
            F.adaptive_avg_pool2d(x, (3, 9)),
            F.lp_pool2d(x.abs() + 0.1, 2, 3, 2),
            F.max_pool2d(x, 3, 2, 1, dilation=2),
            F.avg_pool2d(x, 3, 2, 1, ceil_mode=True),
            F.unfold(x, 3, padding=1, stride=3),
            F.fold(F.unfold(x, 2, stride=2), (18, 18), 2, stride=2),
        )


@network((2, 5, 7), (2, 6, 7))
class Dist(nn.Module):
    def forward(self, x, y):
        return (
            torch.cdist(x, y),
            F.cosine_similarity(x[:, :, None], y[:, None], dim=-1),
            torch.baddbmm(x @ y.transpose(1, 2), x, y.transpose(1, 2), beta=0.5, alpha=2),
            torch.linalg.norm(x, dim=-1),
            torch.logsumexp(x, 1),
            torch.var(x, 2, unbiased=True),
            torch.std(y, (1, 2)),
        )


@network((2, 11, 16))
class BiRNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.LSTM(16, 12, 2, bidirectional=True, batch_first=True)
        self.g = nn.GRU(24, 8, batch_first=True)
        self.r = nn.RNN(8, 8, nonlinearity="relu")

    def forward(self, x):
        y, (h, c) = self.l(x)
        y, g = self.g(y)
        z, r = self.r(y.transpose(0, 1))
        return y, h, c, g, z


@network((1, 3, 16, 16), (1, 9, 9, 2))
class Grid(nn.Module):
    def forward(self, x, g):
        g = torch.tanh(g)
        return (
            F.grid_sample(x, g, align_corners=False),
            F.grid_sample(x, g, mode="nearest", padding_mode="border", align_corners=True),
            F.grid_sample(x, g, padding_mode="reflection", align_corners=False),
        )


@network((2, 3, 20))
class Sorts(nn.Module):
    def forward(self, x):
        v, i = x.sort(-1, descending=True)
        m = x > 0
        return (
            v,
            i,
            x.masked_fill(m, -1.0),
            torch.where(m, x, x * 2),
            x.topk(3, largest=False)[0],
            x.argmin(-1),
            x.clamp(-0.5, 0.5),
            x.flip(1),
            x.roll(3, -1),
            torch.tril(x),
            x.triu(1),
            x.diagonal(dim1=1, dim2=2),
        )


@network((3, 8))
class Clf(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(8, 16)
        self.b = nn.BatchNorm1d(16)
        self.c = nn.Linear(16, 5)
        self.s = nn.Linear(16, 1)

    def forward(self, x):
        h = F.elu(self.b(self.a(x)))
        return (
            F.log_softmax(self.c(h), -1),
            torch.sigmoid(self.s(h)).squeeze(-1),
            F.softplus(h),
            F.selu(h),
            F.celu(h, 0.5),
            F.hardtanh(h),
            F.softshrink(h),
            F.hardshrink(h),
            F.threshold(h, 0.1, 0.0),
            F.logsigmoid(h),
            F.tanhshrink(h),
            F.softsign(h),
            F.relu6(h),
        )


@network((2, 16, 12, 12))
class ConvNeXt(nn.Module):
    def __init__(self):
        super().__init__()
        self.d = nn.Conv2d(16, 16, 7, padding=3, groups=16)
        self.n = nn.LayerNorm(16)
        self.a = nn.Linear(16, 64)
        self.b = nn.Linear(64, 16)
        self.g = nn.Parameter(torch.randn(16))
        self.w = nn.Parameter(torch.randn(16, 1, 1))
        self.ds = nn.Conv2d(16, 32, 2, 2)

    def forward(self, x):
        y = self.b(F.gelu(self.a(self.n(self.d(x).permute(0, 2, 3, 1))))) * self.g
        x = x + y.permute(0, 3, 1, 2)
        u = x.mean(1, keepdim=True)
        v = (x - u).pow(2).mean(1, keepdim=True)
        return self.ds((x - u) / torch.sqrt(v + 1e-6) * self.w)


@network((2, 6, 32), (2, 9, 32))
class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.d = nn.TransformerDecoderLayer(32, 4, 64, batch_first=True, norm_first=True, dropout=0.0)
        self.e = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, activation="gelu", dropout=0.0)

    def forward(self, x, m):
        return self.d(x, self.e(m), tgt_mask=torch.triu(torch.full((6, 6), float("-inf")), 1))


@network((1, 12, 16))
class Alibi(nn.Module):
    def forward(self, x):
        q = x.view(1, 12, 4, 4).transpose(1, 2)
        a = q @ q.transpose(-1, -2) / 2
        i = torch.arange(12)
        a = a - torch.tensor([0.5, 0.25, 0.125, 0.0625]).view(1, 4, 1, 1) * (i[:, None] - i[None]).abs()
        a = a.masked_fill(i[None] > i[:, None], torch.finfo(torch.float32).min)
        return F.softmax(a, -1) @ q


@network((2, 8, 64))
class LinAttn(nn.Module):
    def forward(self, x):
        q, k, v = (
            x.view(2, 8, 4, 16).transpose(1, 2),
            x.flip(1).view(2, 8, 4, 16).transpose(1, 2),
            x.view(2, 8, 4, 16).transpose(1, 2),
        )
        k = F.elu(k) + 1
        q = F.elu(q) + 1
        kv = torch.einsum("bhnd,bhne->bhde", k, v)
        zz = 1 / (torch.einsum("bhnd,bhd->bhn", q, k.sum(2)) + 1e-6)
        return torch.einsum("bhnd,bhde,bhn->bhne", q, kv, zz)


@network((2, 3, 24, 24))
class Patch(nn.Module):
    def __init__(self):
        super().__init__()
        self.p = nn.Conv2d(3, 32, 8, 8)
        self.c = nn.Parameter(torch.randn(1, 1, 32))
        self.e = nn.Parameter(torch.randn(1, 10, 32))
        self.m = nn.MultiheadAttention(32, 4, batch_first=True)
        self.n = nn.LayerNorm(32)
        self.h = nn.Linear(32, 7)

    def forward(self, x):
        y = self.p(x).flatten(2).transpose(1, 2)
        y = torch.cat([self.c.expand(y.shape[0], -1, -1), y], 1) + self.e
        n = self.n(y)
        y = y + self.m(n, n, n, need_weights=False)[0]
        return self.h(y[:, 0])


@network((2, 10, 8, 8))
class Diffusion(nn.Module):
    def __init__(self):
        super().__init__()
        self.n = nn.GroupNorm(5, 10)
        self.a = nn.Conv2d(10, 20, 3, 1, 1)
        self.t = nn.Linear(16, 40)
        self.n2 = nn.GroupNorm(5, 20)
        self.b = nn.Conv2d(20, 20, 3, 1, 1)
        self.k = nn.Conv2d(10, 20, 1)
        self.q = nn.Conv2d(20, 60, 1)

    def forward(self, x):
        f = torch.exp(-math.log(1e4) * torch.arange(8) / 8)
        t = x.mean((1, 2, 3))[:, None] * f[None]
        t = self.t(torch.cat([t.sin(), t.cos()], -1))
        sc, sh = t[:, :, None, None].chunk(2, 1)
        h = self.a(F.silu(self.n(x)))
        h = self.b(F.silu(self.n2(h) * (1 + sc) + sh)) + self.k(x)
        b, c, hh, w = h.shape
        q, k, v = self.q(h).view(b, 3, 4, 5, hh * w).unbind(1)
        a = torch.einsum("bhdn,bhdm->bhnm", q, k).mul(5**-0.5).softmax(-1)
        return h + torch.einsum("bhnm,bhdm->bhdn", a, v).reshape(b, c, hh, w)


@network((4, 20))
class AE(nn.Module):
    def __init__(self):
        super().__init__()
        self.e = nn.Sequential(nn.Linear(20, 33), nn.Tanh(), nn.Linear(33, 6))
        self.d = nn.Sequential(nn.Linear(3, 33), nn.ReLU(), nn.Linear(33, 20))

    def forward(self, x):
        m, l = self.e(x).split(3, -1)
        y = self.d(m + torch.exp(0.5 * l))
        return (
            y,
            -0.5 * (1 + l - m**2 - l.exp()).sum(1).mean(),
            F.mse_loss(y, x),
            F.kl_div(y.log_softmax(-1), x.softmax(-1), reduction="batchmean"),
            F.smooth_l1_loss(y, x),
            F.binary_cross_entropy_with_logits(y, x.sigmoid()),
        )


@network((2, 3, 33, 47))
class OddConvs(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Conv2d(3, 17, 5, 3, 2)
        self.b = nn.Conv2d(17, 33, (3, 1), (1, 2), (1, 0))
        self.c = nn.Conv2d(33, 19, (1, 5), padding=(0, 2), dilation=(1, 1))
        self.d = nn.Conv2d(19, 38, 3, padding=2, dilation=2, groups=19)
        self.e = nn.ConvTranspose2d(38, 10, (3, 5), (2, 3), (1, 2), (1, 1), groups=2)
        self.f = nn.Conv2d(17, 33, 1, stride=(1, 2))

    def forward(self, x):
        y = F.relu(self.a(x))
        return self.e(F.relu6(self.d(F.elu(self.c(self.b(y) + self.f(y))))))


@network((1, 2, 16, 16))
class Upcat(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Conv2d(2, 8, 3, 1, 1)
        self.b = nn.Conv2d(8, 8, 3, 2, 1)
        self.c = nn.Conv2d(16, 16, 3, 1, 1)
        self.h = nn.Conv2d(16, 18, 1)

    def forward(self, x):
        a = F.silu(self.a(x))
        b = F.silu(self.b(a))
        y = F.silu(self.c(torch.cat([F.interpolate(b, scale_factor=2.0), a], 1)))
        o = self.h(y)
        n = o.view(1, 3, 6, 16, 16).permute(0, 1, 3, 4, 2)
        g = torch.stack(torch.meshgrid(torch.arange(16), torch.arange(16), indexing="xy"), -1).float()
        xy = (n[..., :2].sigmoid() * 2 - 0.5 + g) * 8
        return torch.cat([xy, (n[..., 2:4].sigmoid() * 2) ** 2 * 4, n[..., 4:].sigmoid()], -1).view(1, -1, 6)


@network((3, 50))
class Spec(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("w", torch.hann_window(16))
        k = torch.arange(9)[:, None] * torch.arange(16)[None] * 2 * math.pi / 16
        self.register_buffer("b", torch.cat([k.cos(), -k.sin()]).unsqueeze(1) * torch.hann_window(16))

    def forward(self, x):
        y = F.conv1d(F.pad(x.unsqueeze(1), (8, 8), mode="reflect"), self.b, stride=4)
        re, im = y.chunk(2, 1)
        p = (re**2 + im**2).clamp_min(1e-9)
        return torch.log10(p), (p.amax((1, 2))), p.amin(-1), torch.atan2(im.abs() + 0.1, re)


@network((2, 5, 6, 8))
class Shapes(nn.Module):
    def forward(self, x):
        return (
            x.permute(3, 0, 2, 1).reshape(8, -1),
            x.unflatten(1, (5, 1)).squeeze(2),
            x[:, ::2, 1:5:3, -3:],
            x.repeat(1, 2, 1, 1),
            x.repeat_interleave(2, 1),
            x.tile(1, 1, 2),
            x[..., [3, 1, 0]],
            x.index_select(2, torch.tensor([5, 0])),
            x.gather(3, (x[..., :4] > 0).long()),
            F.pad(x, (1, 2, 0, 1), mode="replicate"),
            F.pad(x, (-1, 1), value=3.0),
            x.movedim(0, 2).flatten(1),
            x.swapaxes(1, 3).contiguous().view(2, -1),
            torch.stack([x, x * 2], 1),
            x.narrow(3, 2, 4),
            F.one_hot((x[:, 0, 0] > 0).long(), 3),
        )


@network((2, 4, 5, 6))
class Ints(nn.Module):
    def forward(self, x):
        i = (x * 10).long()
        j = (x * 7).int() + 3
        return (
            i // 3,
            i % 5,
            torch.div(i, 4, rounding_mode="trunc"),
            j.float().floor(),
            (i & 7) | 2,
            i ^ 5,
            ~j,
            i << 1,
            (i.abs() >> 1),
            i.sum((0, 2)),
            j.amax(1),
            (i > 3) & (j < 2) | (i == -1),
            i.clamp(-3, 4),
            i.float().round(),
            torch.fmod(x * 5, 1.5),
            torch.remainder(x * 5, 1.5),
            i.cumsum(1),
            i.to(torch.uint8),
            x.sign() * x.abs().sqrt(),
            i.prod(1),
            (i > 0).any(2),
            (i > 0).all(1),
        )


@network((2, 7, 9))
class Gathered(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.Linear(9, 12)
        self.e = nn.Embedding(10, 12)
        self.eb = nn.Embedding(7, 12)
        self.n = nn.LayerNorm(12)
        self.k = nn.Parameter(torch.randn(5, 12))

    def forward(self, x):
        i = (x[..., 0].abs() * 4).long().clamp(0, 9)
        p = torch.arange(7)
        y = self.l(x) + self.e(i) + self.eb(p)
        return (
            self.n(y),
            self.l(x) * self.k[i % 5],
            F.relu(self.l(x) + self.e.weight[i].flip(1)),
            self.l(x)[torch.arange(2)[:, None], torch.argsort(i, 1)],
        )


@network((6, 16))
class Graph(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Linear(16, 16)
        self.u = nn.Linear(32, 16)
        self.register_buffer("src", torch.tensor([0, 1, 2, 3, 4, 5, 0, 2, 4]))
        self.register_buffer("dst", torch.tensor([1, 0, 3, 2, 5, 4, 2, 4, 0]))

    def forward(self, x):
        m = F.relu(self.w(x)[self.src])
        a = torch.zeros_like(x).index_add(0, self.dst, m)
        d = torch.zeros(6).scatter_add(0, self.dst, torch.ones(9))
        mx = torch.full_like(x, -9.0).scatter_reduce(0, self.dst[:, None].expand(-1, 16), m, "amax")
        return self.u(torch.cat([x, a / d.clamp_min(1)[:, None]], -1)), mx


@network((2, 3, 15, 15))
class StridedResidual(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Conv2d(3, 16, 3, 2, 1, bias=False)
        self.ba = nn.BatchNorm2d(16)
        self.b = nn.Conv2d(16, 32, 3, 2, 1, bias=False)
        self.bb = nn.BatchNorm2d(32)
        self.c = nn.Conv2d(32, 32, 3, 1, 1, bias=False)
        self.bc = nn.BatchNorm2d(32)
        self.d = nn.Conv2d(16, 32, 1, 2, bias=False)
        self.bd = nn.BatchNorm2d(32)
        for m in self.modules():
            if isinstance(m, nn.BatchNorm2d):
                m.running_mean.normal_()
                m.running_var.uniform_(0.5, 2)
                nn.init.normal_(m.weight)
                nn.init.normal_(m.bias)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.ba(self.a(x))), 3, 1, 1)
        return F.relu(self.bc(self.c(F.relu(self.bb(self.b(x))))) + self.bd(self.d(x))), F.avg_pool2d(x, 2)


@network((2, 1, 40))
class Wave(nn.Module):
    def __init__(self):
        super().__init__()
        self.c = nn.Conv1d(1, 16, 10, 5, bias=False)
        self.n = nn.GroupNorm(16, 16)
        self.p = nn.utils.weight_norm(nn.Conv1d(16, 16, 4, padding=2, groups=4))
        self.l = nn.LayerNorm(16)

    def forward(self, x):
        y = F.gelu(self.n(self.c(x)))
        y = y + F.gelu(self.p(y)[..., :-1])
        return self.l(y.transpose(1, 2)), F.interpolate(y, scale_factor=2.0, mode="linear", align_corners=False)


@network((1, 8, 8, 8))
class GAN(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.ConvTranspose2d(8, 16, 4, 2, 1, bias=False)
        self.n = nn.BatchNorm2d(16)
        self.b = nn.ConvTranspose2d(16, 8, 5, 3, 1)
        self.c = nn.ConvTranspose2d(8, 3, 3, 1, 1, dilation=2)
        self.i = nn.InstanceNorm2d(8)

    def forward(self, x):
        return torch.tanh(self.c(self.i(F.leaky_relu(self.b(F.relu(self.n(self.a(x)))), 0.1))))


@network((2, 16, 6, 6))
class MobileViT(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Conv2d(16, 16, 3, 1, 1)
        self.b = nn.Conv2d(16, 24, 1)
        self.t = nn.TransformerEncoderLayer(24, 2, 48, batch_first=True, dropout=0.0, activation=F.silu)
        self.c = nn.Conv2d(24, 16, 1)
        self.d = nn.Conv2d(32, 16, 3, 1, 1)

    def forward(self, x):
        y = self.b(F.silu(self.a(x)))
        n, c, h, w = y.shape
        y = (
            y.reshape(n * c * (h // 2), 2, w // 2, 2)
            .transpose(1, 2)
            .reshape(n, c, -1, 4)
            .transpose(1, 3)
            .reshape(n * 4, -1, c)
        )
        y = self.t(y)
        y = (
            y.reshape(n, 4, -1, c)
            .transpose(1, 3)
            .reshape(n * c * (h // 2), w // 2, 2, 2)
            .transpose(1, 2)
            .reshape(n, c, h, w)
        )
        return self.d(torch.cat([x, self.c(y)], 1))


@network((4, 3, 6, 6))
class Merged(nn.Module):
    """What exports for inference merge, fold and drop: copied layers, scales of ones, BatchNormalization, Dropout."""

    def __init__(self):
        super().__init__()
        self.c = nn.Conv2d(3, 16, 3, padding=1)
        self.b = nn.BatchNorm2d(16)
        self.d = nn.Dropout(0.2)
        self.n = nn.ModuleList(nn.LayerNorm(16) for _ in range(2))
        self.e = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 24, batch_first=True, dropout=0.0), 2, enable_nested_tensor=False)
        self.h = nn.Linear(16, 5)

    def forward(self, x):
        y = self.d(F.relu(self.b(self.c(x)))).flatten(2).transpose(1, 2)
        return self.h(self.n[1](self.e(self.n[0](y))).mean(1))


# -- Running ----------------------------------------------------------------------------------------------

LEVELS = ("-O0", "-O2", "-O3 --march=x86-64-v3", "-O3 --march=x86-64-v2")
EXPORTERS = ("torchscript", "free batch", "dynamo")


def made(name):
    """The network and its inputs, the same each time."""
    cls, shapes = NETWORKS[name]
    torch.manual_seed(len(name))
    return cls(), tuple(torch.randn(*s) for s in shapes)


def tensors(y):
    return list(y) if isinstance(y, (tuple, list)) else [y]


def result(name, what, why=None):
    print(f"{'not ok' if why else 'ok'} {name} {what}{': ' + why if why else ''}", flush=True)


def export(name, model, x, path, how, **options):
    """False after a line: the exporter can't."""
    names = [f"x{i}" for i in range(len(x))]
    free = {"x0": {0: "batch"}} if how == "free batch" and len(x) == 1 and x[0].shape[0] > 1 else None
    try:
        if how == "dynamo":
            torch.onnx.export(model, x, path, dynamo=True, verbose=False, external_data=False, **options)
        else:
            torch.onnx.export(model, x, path, dynamo=False, opset_version=13 if free else 17, input_names=names,
                              dynamic_axes=free, **options)
    except Exception as e:  # of many kinds, none of which is ours
        print(f"ok {name} {how} # SKIP {type(e).__name__}: {(str(e).strip() or '-').splitlines()[0][:100]}", flush=True)
        return False
    return True


def infer(build, folder, name):
    model, x = made(name)
    with torch.no_grad():
        want = tensors(model.eval()(*x))
    for how in EXPORTERS:
        case = os.path.join(folder, name, how.replace(" ", "-"))
        os.makedirs(case, exist_ok=True)
        if not export(name, model, x, case + "/model.onnx", how):
            continue
        write_data(case, 0, *([("", v.detach().numpy()) for v in values] for values in (x, want)))
        for level in LEVELS:
            command = [build + "/tccc-run", *level.split(), "--rtol=1e-3", "--atol=1e-4", case + "/model.onnx", "--test-data", case + "/test_data_set_0"]
            r = subprocess.run(command, capture_output=True, text=True)
            result(name, f"{how} {level}", r.returncode and (r.stderr or r.stdout).strip().split("\n")[-1])


def differences(before, gradients, loss, folder):
    """What a step of SGD with rate 1 took from each parameter is its gradient."""
    with open(folder + "/log") as f:
        got = next(json.loads(line)["loss"] for line in f if '"loss"' in line)
    if abs(got - loss) > 1e-5 * abs(loss):
        yield f"loss {got}, not {loss}"
    after = read_checkpoint(folder + "/checkpoint/last.safetensors")
    for name, g in gradients.items():
        error = np.linalg.norm(before[name] - after[name] - g) if name in after else math.inf
        if error > 2e-4 * np.linalg.norm(g) + 1e-6 * np.linalg.norm(before[name]) + 1e-7:
            yield f"{name} is off by {error:.3g} of {np.linalg.norm(g):.3g}"


# How to export for training: doc/exporting.md.
FOR_TRAINING = {"torchscript": dict(do_constant_folding=False, training=torch.onnx.TrainingMode.TRAINING), "dynamo": dict(optimize=False)}


def train(build, folder, name):
    model, x = made(name)
    y = tensors(model.train()(*x))
    outputs = [i for i, v in enumerate(y) if v.requires_grad and v.dim() and v.shape[0] == x[0].shape[0]]
    for k, output in enumerate(outputs):
        for how in FOR_TRAINING if k == 0 else ["torchscript"]:
            every = ("", "--march=x86-64-v3", "--partitions=2") if k == 0 and how == "torchscript" else ("",)
            train_output(build, folder, name, output, how, every)


def train_output(build, folder, name, output, how, every):
    model, x = made(name)
    model.train()
    dropout = [m for m in model.modules() if isinstance(m, nn.Dropout) and m.p]
    for m in dropout:
        m.p = 0.0
    case = os.path.join(folder, name, f"training-{how}-{output}")
    os.makedirs(case, exist_ok=True)
    path, step, data = case + "/model.onnx", case + "/step.so", case + "/data.npz"
    if not export(name, model, x, path, how, **FOR_TRAINING[how]):
        return
    model, x = made(name)  # exporting may run the network, which moves its statistics
    model.train()
    for m in model.modules():
        if isinstance(m, nn.Dropout):
            m.p = 0.0
    before = {k: v.detach().numpy().copy() for k, v in model.named_parameters()}
    y = tensors(model(*x))[output]
    target = torch.randn_like(y)
    loss = F.mse_loss(y, target)
    loss.backward()
    gradients = {k: v.grad.numpy() for k, v in model.named_parameters() if v.grad is not None}
    graph = onnx.load(path).graph
    inputs = [i.name for i in graph.input]
    names = [f"x{i}" for i in range(len(x))] if how == "torchscript" else inputs
    np.savez(data, target=target.numpy(), **{n: v.numpy() for n, v in zip(names, x) if n in inputs})
    for options in every:
        compiling = [build + "/tccc", "--train", "--loss=mse:input=" + graph.output[output].name, "--optimizer=sgd:lr=1",
                     *options.split(), path, "-o", step]
        running = [build + "/tccc-train", step, "--data", data, f"--batch-size={len(target)}", "--steps=1", "--json", "--no-shuffle",
                   "--checkpoint", case + "/checkpoint"]
        why = None
        for command in ["rm", "-rf", case + "/checkpoint"], compiling, running:
            r = subprocess.run(command, capture_output=True, text=True)
            if r.returncode:
                why = r.stderr.strip().split("\n")[0] or f"status {r.returncode}"
                break
            if name == "Merged" and "export it for training" in r.stderr:
                why = r.stderr.strip()
        if not why:
            with open(case + "/log", "w") as f:
                f.write(r.stdout)
            why = "; ".join(differences(before, gradients, loss.item(), case))
        result(name, f"training {how} output {output} {options}".strip(), why)


def warned(build, folder):
    """An export for inference of what it spoils is warned of; one for training keeps all of it."""
    for how in FOR_TRAINING:
        for training in False, True:
            model, x = made("Merged")
            case = os.path.join(folder, "Merged", f"warned-{how}-{training}")
            os.makedirs(case, exist_ok=True)
            if not export("Merged", model.train(training), x, case + "/model.onnx", how, **(FOR_TRAINING[how] if training else {})):
                continue
            ops = {n.op_type for n in onnx.load(case + "/model.onnx").graph.node}
            r = subprocess.run([build + "/tccc", "--train", "--loss=mse", case + "/model.onnx", "-o", case + "/step.so"], capture_output=True, text=True)
            kept = {"BatchNormalization", "Dropout"} <= ops
            good = r.returncode == 0 and kept == training and ("will be trained as one" in r.stderr) == (not training)
            result("Merged", f"warning, {how}, for {'training' if training else 'inference'}", None if good else f"{r.stderr.strip()} {sorted(ops)}")


def main():
    build, folder, *names = sys.argv[1:]
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    for name in names or NETWORKS:
        infer(build, folder, name)
        train(build, folder, name)
    if not names or "Merged" in names:
        warned(build, folder)


if __name__ == "__main__":
    main()
