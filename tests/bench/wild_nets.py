#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes networks of the kinds that users bring, as their exporters spell them, with random weights and symbolic axes.

usage: wild_nets.py FOLDER [NAME...]        beside wild.py, whose models are trained ones; then tests/bench/run --models FOLDER

Built with torch, torchvision and transformers and exported by torch.onnx (dynamo); tree ensembles by skl2onnx; NAME_qdq, NAME_qop,
NAME_dynq and NAME_w4, NAME_w8 are made of others by ONNX Runtime's quantisers. Each goes to FOLDER/NAME/model.onnx, with inputs in
FOLDER/NAME/test_data_set_0. Needs the environment of setup-peers. A network that can't be made is left out with a line.
"""
import os, sys, tempfile, warnings
warnings.filterwarnings("ignore")
import numpy as np, onnx, torch
from onnx import numpy_helper
from torch import nn
from torch.nn import functional as F

A, D = torch.export.Dim.AUTO, torch.export.Dim.DYNAMIC


def conv(i, o, k=3, s=1, g=1, act=nn.SiLU):
    return nn.Sequential(nn.Conv2d(i, o, k, s, k // 2, groups=g, bias=False), nn.BatchNorm2d(o), act())


class Csp(nn.Module):
    """A stage of a CSP network: half of the channels through bottlenecks, then all joined."""
    def __init__(self, i, o, n):
        super().__init__()
        self.a, self.b, self.out = conv(i, o // 2, 1), conv(i, o // 2, 1), conv(o, o, 1)
        self.m = nn.Sequential(*[nn.Sequential(conv(o // 2, o // 2, 1), conv(o // 2, o // 2)) for _ in range(n)])

    def forward(self, x):
        return self.out(torch.cat([self.m(self.a(x)), self.b(x)], 1))


class Pan(nn.Module):
    """A detector: CSP stages, a PAN neck with nearest upsampling, three heads."""
    def __init__(self):
        super().__init__()
        self.stem, self.c3, self.c4, self.c5 = conv(3, 16, 6, 2), nn.Sequential(conv(16, 32, 3, 2), Csp(32, 32, 1), conv(32, 64, 3, 2), Csp(64, 64, 2)), \
            nn.Sequential(conv(64, 128, 3, 2), Csp(128, 128, 2)), nn.Sequential(conv(128, 256, 3, 2), Csp(256, 256, 1))
        self.p5, self.p4, self.n4, self.n5 = conv(256, 128, 1), Csp(256, 128, 1), conv(64, 64, 3, 2), conv(128, 128, 3, 2)
        self.l4, self.p3, self.o4, self.o5 = conv(128, 64, 1), Csp(128, 64, 1), Csp(128, 128, 1), Csp(256, 256, 1)
        self.heads = nn.ModuleList([nn.Conv2d(c, 85, 1) for c in (64, 128, 256)])

    def forward(self, x):
        c3 = self.c3(self.stem(x))
        c4 = self.c4(c3)
        p5 = self.p5(self.c5(c4))
        p4 = self.l4(self.p4(torch.cat([F.interpolate(p5, size=c4.shape[2:]), c4], 1)))
        p3 = self.p3(torch.cat([F.interpolate(p4, size=c3.shape[2:]), c3], 1))
        o4 = self.o4(torch.cat([self.n4(p3), p4], 1))
        o5 = self.o5(torch.cat([self.n5(o4), p5], 1))
        return torch.cat([h(v).flatten(2) for h, v in zip(self.heads, (p3, o4, o5))], 2)


class Crnn(nn.Module):
    """Text lines: convolutions, then two bidirectional LSTMs over columns."""
    def __init__(self):
        super().__init__()
        r, p = nn.ReLU, nn.MaxPool2d
        self.f = nn.Sequential(conv(1, 32, act=r), p(2), conv(32, 64, act=r), p(2), conv(64, 128, act=r), conv(128, 128, act=r), p((2, 1)), conv(128, 256, act=r), p((4, 1)))
        self.rnn, self.out = nn.LSTM(256, 128, 2, bidirectional=True), nn.Linear(256, 6000)

    def forward(self, x):
        y, _ = self.rnn(self.f(x).squeeze(2).permute(2, 0, 1))
        return self.out(y)


class Svtr(nn.Module):
    """Text lines: mixing blocks of attention over patches."""
    def __init__(self, d=96):
        super().__init__()
        self.patch = nn.Sequential(conv(3, d // 2, 3, 2, act=nn.GELU), conv(d // 2, d, 3, 2, act=nn.GELU))
        layer = lambda d: nn.TransformerEncoderLayer(d, d // 32, 2 * d, 0, "gelu", batch_first=True, norm_first=True)
        self.a, self.merge, self.b, self.out = layer(d), nn.Conv2d(d, 2 * d, 3, (2, 1), 1), nn.Sequential(layer(2 * d), layer(2 * d)), nn.Linear(2 * d, 6000)

    def forward(self, x):
        x = self.patch(x)
        b, c, h, w = x.shape
        x = self.a(x.flatten(2).transpose(1, 2)).transpose(1, 2).reshape(b, c, h, w)
        x = self.merge(x)
        h = x.shape[2]
        y = self.b(x.flatten(2).transpose(1, 2))
        return self.out(y.reshape(b, h, w, -1).mean(1)).softmax(-1)


class Eeg(nn.Module):
    """Brain waves: Conv1d layers over channels of electrodes, an LSTM over what they leave, as sleep stages and seizures are told."""
    def __init__(self):
        super().__init__()
        block = lambda i, o, k, s: nn.Sequential(nn.Conv1d(i, o, k, s, k // 2), nn.BatchNorm1d(o), nn.ReLU(), nn.MaxPool1d(2))
        self.f = nn.Sequential(block(18, 32, 7, 1), block(32, 64, 5, 1), block(64, 64, 3, 1))
        self.rnn, self.out = nn.LSTM(64, 64, 1, batch_first=True), nn.Linear(64, 5)

    def forward(self, x):
        y, _ = self.rnn(self.f(x).transpose(1, 2))
        return self.out(y[:, -1])


class SmallEncoder(nn.Module):
    """A transformer's encoder for short sequences of measurements."""
    def __init__(self, d=64):
        super().__init__()
        layer = lambda: nn.TransformerEncoderLayer(d, 4, 2 * d, 0, batch_first=True)
        self.i, self.l, self.o = nn.Linear(12, d), nn.Sequential(layer(), layer(), layer()), nn.Linear(d, 8)

    def forward(self, x):
        return self.o(self.l(self.i(x)).mean(1))


class GruDenoiser(nn.Module):
    """Gains of bands by three GRUs, as RNNoise."""
    def __init__(self):
        super().__init__()
        self.i, self.a, self.b, self.c, self.o = nn.Linear(42, 24), nn.GRU(24, 48, batch_first=True), nn.GRU(90, 96, batch_first=True), nn.GRU(162, 96, batch_first=True), nn.Linear(96, 22)

    def forward(self, x):
        t = torch.tanh(self.i(x))
        v, _ = self.a(t)
        n, _ = self.b(torch.cat([t, v[..., :24], x], -1)[..., :90])
        d, _ = self.c(torch.cat([v[..., :24], n, x], -1))
        return torch.sigmoid(self.o(d))


class MaskDenoiser(nn.Module):
    """A filter bank as Conv1d over a padded signal, LSTMs that make a mask, the bank's transpose, as DTLN."""
    def __init__(self):
        super().__init__()
        self.bank, self.rnn, self.mask, self.back = nn.Conv1d(1, 256, 512, 128, bias=False), nn.LSTM(256, 128, 2, batch_first=True), nn.Linear(128, 256), nn.ConvTranspose1d(256, 1, 512, 128, bias=False)

    def forward(self, x):
        y = self.bank(F.pad(x, (256, 256), mode="reflect"))
        m, _ = self.rnn(y.abs().transpose(1, 2))
        return self.back(y * torch.sigmoid(self.mask(m)).transpose(1, 2))


class Vocoder(nn.Module):
    """Mel frames to a signal by ConvTranspose1d and dilated residual blocks, as HiFi-GAN (v3's size)."""
    def __init__(self, c=128):
        super().__init__()
        self.pre, self.up, self.res = nn.Conv1d(80, c, 7, padding=3), nn.ModuleList(), nn.ModuleList()
        for s in (8, 8, 4):
            self.up.append(nn.ConvTranspose1d(c, c // 2, 2 * s, s, s // 2))
            c //= 2
            self.res.append(nn.ModuleList([nn.Conv1d(c, c, k, padding=d * (k // 2), dilation=d) for k, d in ((3, 1), (5, 2), (7, 3))]))
        self.post = nn.Conv1d(c, 1, 7, padding=3)

    def forward(self, x):
        x = self.pre(x)
        for up, res in zip(self.up, self.res):
            x = up(F.leaky_relu(x, 0.1))
            for r in res:
                x = x + r(F.leaky_relu(x, 0.1))
        return torch.tanh(self.post(F.leaky_relu(x)))


class Separator(nn.Module):
    """Dilated depthwise convolutions with global norms over a learned bank, as Conv-TasNet."""
    def __init__(self, n=128, h=256):
        super().__init__()
        self.enc, self.dec, self.inp, self.mask = nn.Conv1d(1, n, 16, 8), nn.ConvTranspose1d(n, 1, 16, 8), nn.Conv1d(n, n, 1), nn.Conv1d(n, n, 1)
        self.blocks = nn.ModuleList([nn.Sequential(nn.Conv1d(n, h, 1), nn.PReLU(), nn.GroupNorm(1, h), nn.Conv1d(h, h, 3, padding=2 ** d, dilation=2 ** d, groups=h),
                                                   nn.PReLU(), nn.GroupNorm(1, h), nn.Conv1d(h, n, 1)) for d in range(6)])

    def forward(self, x):
        w = F.relu(self.enc(x))
        y = self.inp(w)
        for b in self.blocks:
            y = y + b(y)
        return self.dec(w * torch.sigmoid(self.mask(y)))


class Pitch(nn.Module):
    """Six convolutions of a frame of 1,024 samples, as CREPE (tiny)."""
    def __init__(self):
        super().__init__()
        sizes, layers, i = (128, 16, 16, 16, 32, 64), [], 1
        for k, o in enumerate(sizes):
            layers += [nn.Conv1d(i, o, 512 if k == 0 else 64, 4 if k == 0 else 1, 254 if k == 0 else 32), nn.ReLU(), nn.BatchNorm1d(o), nn.MaxPool1d(2)]
            i = o
        self.f, self.out = nn.Sequential(*layers), nn.Linear(256, 360)

    def forward(self, x):
        x = self.f(x.unsqueeze(1))
        return torch.sigmoid(self.out(x.transpose(1, 2).flatten(1)[:, :256]))


class ResBlock(nn.Module):
    def __init__(self, i, o, t):
        super().__init__()
        self.a, self.b, self.t = nn.Sequential(nn.GroupNorm(8, i), nn.SiLU(), nn.Conv2d(i, o, 3, padding=1)), nn.Sequential(nn.GroupNorm(8, o), nn.SiLU(), nn.Conv2d(o, o, 3, padding=1)), nn.Linear(t, o)
        self.skip = nn.Conv2d(i, o, 1) if i != o else nn.Identity()

    def forward(self, x, t):
        return self.skip(x) + self.b(self.a(x) + self.t(t)[:, :, None, None])


class Mixer(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.n, self.qkv, self.o = nn.GroupNorm(8, c), nn.Conv2d(c, 3 * c, 1), nn.Conv2d(c, c, 1)

    def forward(self, x):
        b, c, h, w = x.shape
        q, k, v = self.qkv(self.n(x)).reshape(b, 3, 4, c // 4, h * w).transpose(3, 4).unbind(1)
        return x + self.o(F.scaled_dot_product_attention(q, k, v).transpose(2, 3).reshape(b, c, h, w))


class Diffusion(nn.Module):
    """A U-Net of a diffusion model: time embedding, group norms, attention at the lower sizes."""
    def __init__(self, c=32):
        super().__init__()
        self.time = nn.Sequential(nn.Linear(c, 4 * c), nn.SiLU(), nn.Linear(4 * c, 4 * c))
        t, self.c = 4 * c, c
        self.i, self.d1, self.s1, self.d2, self.m2, self.s2 = nn.Conv2d(4, c, 3, padding=1), ResBlock(c, c, t), nn.Conv2d(c, c, 3, 2, 1), ResBlock(c, 2 * c, t), Mixer(2 * c), nn.Conv2d(2 * c, 2 * c, 3, 2, 1)
        self.mid, self.mm, self.u2, self.mu, self.u1 = ResBlock(2 * c, 4 * c, t), Mixer(4 * c), ResBlock(6 * c, 2 * c, t), Mixer(2 * c), ResBlock(3 * c, c, t)
        self.o = nn.Sequential(nn.GroupNorm(8, c), nn.SiLU(), nn.Conv2d(c, 4, 3, padding=1))

    def forward(self, x, step):
        f = torch.exp(torch.arange(self.c // 2) * (-9.2 / (self.c // 2))) * step[:, None]
        t = self.time(torch.cat([f.sin(), f.cos()], 1))
        a = self.d1(self.i(x), t)
        b = self.m2(self.d2(self.s1(a), t))
        y = self.mm(self.mid(self.s2(b), t))
        y = self.mu(self.u2(torch.cat([F.interpolate(y, scale_factor=2.0), b], 1), t))
        return self.o(self.u1(torch.cat([F.interpolate(y, scale_factor=2.0), a], 1), t))


class Segmenter(nn.Module):
    """A U-Net with ConvTranspose2d."""
    def __init__(self):
        super().__init__()
        c, r = (16, 32, 64, 128), nn.ReLU
        self.down = nn.ModuleList([nn.Sequential(conv(i, o, act=r), conv(o, o, act=r)) for i, o in zip((3,) + c, c)])
        self.up = nn.ModuleList([nn.ConvTranspose2d(o, i, 2, 2) for i, o in zip(c, c[1:])])
        self.join = nn.ModuleList([nn.Sequential(conv(2 * i, i, act=r), conv(i, i, act=r)) for i in c[:-1]])
        self.out = nn.Conv2d(16, 2, 1)

    def forward(self, x):
        kept = []
        for k, d in enumerate(self.down):
            x = d(F.max_pool2d(x, 2) if k else x)
            kept.append(x)
        for k in (2, 1, 0):
            x = self.join[k](torch.cat([self.up[k](x), kept[k]], 1))
        return self.out(x)


class Upscaler(nn.Module):
    """Super-resolution by sub-pixels, as ESPCN."""
    def __init__(self):
        super().__init__()
        self.f = nn.Sequential(nn.Conv2d(1, 64, 5, padding=2), nn.Tanh(), nn.Conv2d(64, 32, 3, padding=1), nn.Tanh(), nn.Conv2d(32, 9, 3, padding=1), nn.PixelShuffle(3))

    def forward(self, x):
        return self.f(x)


class Fpn(nn.Module):
    """ResNet-18 with a feature pyramid."""
    def __init__(self):
        super().__init__()
        from torchvision.models import resnet18
        from torchvision.ops import FeaturePyramidNetwork
        r = resnet18()
        self.stem, self.stages = nn.Sequential(r.conv1, r.bn1, r.relu, r.maxpool), nn.ModuleList([r.layer1, r.layer2, r.layer3, r.layer4])
        self.fpn = FeaturePyramidNetwork([64, 128, 256, 512], 64)

    def forward(self, x):
        x, found = self.stem(x), {}
        for k, s in enumerate(self.stages):
            x = found[str(k)] = s(x)
        return tuple(self.fpn(found).values())


class OnlyOut(nn.Module):
    def __init__(self, net, pick):
        super().__init__()
        self.net, self.pick = net, pick

    def forward(self, *x):
        return self.pick(self.net(*x))


class Decoder(nn.Module):
    """A decoder of Llama's kind on one token, with its caches as inputs and outputs."""
    def __init__(self, d=512, layers=8, heads=8, words=16000, ff=1376):
        super().__init__()
        self.h, self.e, self.head = heads, nn.Embedding(words, d), nn.Linear(d, words, bias=False)
        self.l = nn.ModuleList([nn.ModuleDict({"n1": nn.RMSNorm(d), "qkv": nn.Linear(d, 3 * d, bias=False), "o": nn.Linear(d, d, bias=False), "n2": nn.RMSNorm(d),
                                               "gate": nn.Linear(d, ff, bias=False), "up": nn.Linear(d, ff, bias=False), "down": nn.Linear(ff, d, bias=False)}) for _ in range(layers)])
        self.norm = nn.RMSNorm(d)

    def forward(self, ids, past):
        x, caches = self.e(ids), []
        b, s, d = x.shape
        n = past.shape[4]
        angle = torch.arange(s)[:, None] + n
        angle = angle * torch.exp(torch.arange(0, d // self.h, 2) * (-9.21 / (d // self.h)))
        cos, sin = torch.cat([angle.cos()] * 2, -1), torch.cat([angle.sin()] * 2, -1)
        turn = lambda v: v * cos + torch.cat([-v[..., v.shape[-1] // 2:], v[..., :v.shape[-1] // 2]], -1) * sin
        for k, l in enumerate(self.l):
            q, key, v = l["qkv"](l["n1"](x)).reshape(b, s, 3, self.h, d // self.h).permute(2, 0, 3, 1, 4).unbind(0)
            key, v = torch.cat([past[k, 0], turn(key)], 2), torch.cat([past[k, 1], v], 2)
            caches.append(torch.stack([key, v]))
            y = F.scaled_dot_product_attention(turn(q), key, v)
            x = x + l["o"](y.transpose(1, 2).reshape(b, s, d))
            y = l["n2"](x)
            x = x + l["down"](F.silu(l["gate"](y)) * l["up"](y))
        return self.head(self.norm(x)), torch.stack(caches)


def vision(name, **more):
    import torchvision
    return lambda: getattr(torchvision.models, name)(weights=None, **more)


def segmentation(name):
    import torchvision
    return lambda: OnlyOut(getattr(torchvision.models.segmentation, name)(weights=None, weights_backbone=None), lambda y: y["out"])


def whisper_encoder():
    import transformers as t
    c = t.WhisperConfig(d_model=256, encoder_layers=4, encoder_attention_heads=4, encoder_ffn_dim=1024, decoder_layers=1, max_source_positions=500)
    return OnlyOut(t.models.whisper.modeling_whisper.WhisperEncoder(c), lambda y: y.last_hidden_state)


class WhisperDecoder(nn.Module):
    """Whisper's decoder on one token: caches of its own tokens, keys and values of the audio."""
    def __init__(self, d=384, layers=4, heads=6):
        super().__init__()
        self.layers, self.h, self.e, self.p = layers, heads, nn.Embedding(20000, d), nn.Parameter(torch.randn(448, d) * 0.02)
        lin = lambda a, b: nn.Linear(a, b)
        self.l = nn.ModuleList([nn.ModuleDict({"n1": nn.LayerNorm(d), "qkv": lin(d, 3 * d), "o": lin(d, d), "n2": nn.LayerNorm(d), "q": lin(d, d), "co": lin(d, d),
                                               "n3": nn.LayerNorm(d), "f1": lin(d, 4 * d), "f2": lin(4 * d, d)}) for _ in range(layers)])
        self.n = nn.LayerNorm(d)

    def forward(self, ids, past, audio):
        n = past.shape[4]
        x, caches = self.e(ids) + self.p[n:n + 1], []
        b, s, d = x.shape
        split = lambda v: v.reshape(b, s, self.h, d // self.h).transpose(1, 2)
        for k, l in enumerate(self.l):
            q, key, v = [split(t) for t in l["qkv"](l["n1"](x)).chunk(3, -1)]
            key, v = torch.cat([past[k, 0], key], 2), torch.cat([past[k, 1], v], 2)
            caches.append(torch.stack([key, v]))
            x = x + l["o"](F.scaled_dot_product_attention(q, key, v).transpose(1, 2).reshape(b, s, d))
            y = F.scaled_dot_product_attention(split(l["q"](l["n2"](x))), audio[k, 0], audio[k, 1])
            x = x + l["co"](y.transpose(1, 2).reshape(b, s, d))
            x = x + l["f2"](F.gelu(l["f1"](l["n3"](x))))
        return self.n(x) @ self.e.weight.T, torch.stack(caches)


def bert():
    import transformers as t
    c = t.BertConfig(hidden_size=256, num_hidden_layers=4, num_attention_heads=4, intermediate_size=1024, vocab_size=8000, attn_implementation="sdpa")
    return OnlyOut(t.BertModel(c), lambda y: y.last_hidden_state)


def randn(*shape):
    return lambda: torch.randn(*shape)


def ids(*shape):
    return lambda: torch.randint(0, 1000, shape)


# name: the network, its inputs, their symbolic axes
NETS = {
    "csp_pan": (Pan, [randn(1, 3, 320, 320)], [{2: A, 3: A}]),
    "fpn_resnet18": (Fpn, [randn(1, 3, 256, 256)], [{2: A, 3: A}]),
    "lraspp": (segmentation("lraspp_mobilenet_v3_large"), [randn(1, 3, 320, 320)], [{2: A, 3: A}]),
    "unet_segmenter": (Segmenter, [randn(1, 3, 256, 256)], [{0: D}]),
    "upscaler": (Upscaler, [randn(1, 1, 160, 160)], [{2: D, 3: D}]),
    "resnet18": (vision("resnet18"), [randn(4, 3, 224, 224)], [{0: D}]),
    "mobilenet_v3": (vision("mobilenet_v3_small"), [randn(4, 3, 224, 224)], [{0: D}]),
    "efficientnet_b0": (vision("efficientnet_b0"), [randn(1, 3, 224, 224)], [{0: D}]),
    "shufflenet": (vision("shufflenet_v2_x1_0"), [randn(4, 3, 224, 224)], [{0: D}]),
    "regnet_y": (vision("regnet_y_400mf"), [randn(1, 3, 224, 224)], [{0: D}]),
    "convnext_tiny": (vision("convnext_tiny"), [randn(1, 3, 224, 224)], [{0: D}]),
    "swin_tiny": (vision("swin_t"), [randn(1, 3, 224, 224)], [None]),
    "diffusion_unet": (Diffusion, [randn(2, 4, 32, 32), lambda: torch.tensor([10.0, 500.0])], [{0: A}, {0: A}]),
    "crnn": (Crnn, [randn(2, 1, 32, 256)], [{3: D}]),
    "svtr": (Svtr, [randn(2, 3, 32, 256)], [{0: D, 3: A}]),
    "eeg": (Eeg, [randn(1, 18, 1024)], [{0: D}]),
    "small_encoder": (SmallEncoder, [randn(1, 50, 12)], [{0: D}]),
    "gru_denoiser": (GruDenoiser, [randn(1, 200, 42)], [{1: D}]),
    "mask_denoiser": (MaskDenoiser, [randn(1, 1, 16000)], [{2: A}]),
    "separator": (Separator, [randn(1, 1, 8000)], [{2: A}]),
    "pitch": (Pitch, [randn(50, 1024)], [{0: D}]),
    "vocoder": (Vocoder, [randn(1, 80, 64)], [{2: D}]),
    "whisper_encoder": (whisper_encoder, [randn(1, 80, 1000)], [{0: D}]),
    "whisper_decoder": (WhisperDecoder, [ids(1, 1), randn(4, 2, 1, 6, 40, 64), randn(4, 2, 1, 6, 500, 64)], [None, {4: D}, None]),
    "bert": (bert, [ids(1, 128)], [{1: D}]),
    "decoder": (Decoder, [ids(1, 1), randn(8, 2, 1, 8, 256, 64)], [None, {4: D}]),
}


def save(folder, proto, feeds):
    os.makedirs(f"{folder}/test_data_set_0", exist_ok=True)
    onnx.save(proto, f"{folder}/model.onnx")
    given = {t.name for t in proto.graph.initializer}
    for k, info in enumerate(i for i in proto.graph.input if i.name not in given):
        with open(f"{folder}/test_data_set_0/input_{k}.pb", "wb") as f:
            f.write(numpy_helper.from_array(feeds[k], info.name).SerializeToString())


def network(name):
    make, inputs, axes = NETS[name]
    torch.manual_seed(0)
    net, args = make().eval(), tuple(i() for i in inputs)
    for m in net.modules():
        if isinstance(m, nn.modules.batchnorm._BatchNorm):
            m.running_mean.uniform_(-0.3, 0.3)
            m.running_var.uniform_(0.5, 1.5)
    # A wrapper takes its network's inputs as one tuple.
    shapes = (tuple(axes),) if isinstance(net, OnlyOut) else tuple(axes)
    program = torch.onnx.export(net, args, dynamo=True, opset_version=20, dynamic_shapes=shapes if any(axes) else None, verbose=False)
    return program.model_proto, [a.numpy() for a in args]


def trees(kind):
    from sklearn.ensemble import GradientBoostingRegressor, RandomForestClassifier
    from skl2onnx import to_onnx
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2000, 20)).astype(np.float32)
    if kind == "forest":
        model = RandomForestClassifier(1000, max_depth=8, random_state=0).fit(x, (x[:, 0] + x[:, 1] * x[:, 2] > 0) + 2 * (x[:, 3] > 0))
        return to_onnx(model, x[:1], options={"zipmap": False}), [x[:64]]
    model = GradientBoostingRegressor(n_estimators=1000, max_depth=5, random_state=0).fit(x, x[:, 0] * x[:, 1] + x[:, 2])
    return to_onnx(model, x[:1]), [x[:64]]


def quantised(source, kind):
    """That network's 8-bit or 4-bit form by ONNX Runtime's quantisers."""
    import onnxruntime.quantization as q
    from onnxruntime.quantization.matmul_nbits_quantizer import DefaultWeightOnlyQuantConfig, MatMulNBitsQuantizer
    proto, feeds = network(source)
    names = [i.name for i in proto.graph.input]

    class Reader(q.CalibrationDataReader):
        left = [dict(zip(names, feeds))] * 2

        def get_next(self):
            return self.left.pop() if self.left else None

    if kind in ("w4", "w8"):
        config = DefaultWeightOnlyQuantConfig(block_size=32, is_symmetric=False, accuracy_level=4, bits=int(kind[1]))
        made = MatMulNBitsQuantizer(proto, algo_config=config)
        made.process()
        return made.model.model, feeds
    with tempfile.TemporaryDirectory() as tmp:
        plain, out = f"{tmp}/plain.onnx", f"{tmp}/out.onnx"
        onnx.save(proto, plain)
        if kind == "dynq":
            q.quantize_dynamic(plain, out, weight_type=q.QuantType.QInt8 if source != "crnn" else q.QuantType.QUInt8)
        else:
            form = q.QuantFormat.QDQ if kind == "qdq" else q.QuantFormat.QOperator
            q.quantize_static(plain, out, Reader(), quant_format=form, activation_type=q.QuantType.QUInt8, weight_type=q.QuantType.QInt8, per_channel=True)
        return onnx.load(out), feeds


MADE = {name: (network, name) for name in NETS} | {
    "forest": (trees, "forest"), "boosting": (trees, "boosting"),
    "resnet18_qdq": (quantised, "resnet18", "qdq"), "mobilenet_v3_qop": (quantised, "mobilenet_v3", "qop"), "crnn_dynq": (quantised, "crnn", "dynq"),
    "bert_dynq": (quantised, "bert", "dynq"), "whisper_encoder_dynq": (quantised, "whisper_encoder", "dynq"),
    "decoder_w4": (quantised, "decoder", "w4"), "decoder_w8": (quantised, "decoder", "w8")}

if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
    sys.exit(__doc__)
for name in sys.argv[2:] or MADE:
    try:
        maker, *rest = MADE[name]
        with torch.no_grad():
            proto, feeds = maker(*rest)
        save(f"{sys.argv[1]}/{name}", proto, feeds)
        print(name, flush=True)
    except Exception as e:
        print(f"{name}: left out: {type(e).__name__}: {str(e)[:200]!r}", flush=True)
