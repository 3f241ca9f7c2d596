# SPDX-License-Identifier: Apache-2.0
"""Networks of the kinds that people deploy, small, with random weights, as PyTorch's exporters write them.

A graph is a module whose forward() names its inputs and whose example(**sizes) makes them; `sizes` lists the sizes of a few
runs, the first that of the export. Axes in `free` stay symbolic. exports.py exports and runs them.
"""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torchvision  # noqa: F401  registers operators

GRAPHS = {}


class Graph:
    def __init__(self, cls, free, sizes, exporters, gradients, quantised):
        self.cls, self.free, self.sizes, self.exporters, self.gradients = cls, free, sizes, exporters, gradients
        self.quantised = quantised

    def make(self, training=False):
        """The network, the same each time."""
        torch.manual_seed(sum(map(ord, self.cls.__name__)))
        return trained(self.cls()).train(training)


def graph(free, *sizes, exporters=("torchscript", "dynamo"), gradients=False, quantised=False):
    """Registers a module. gradients: has a training step compared too; quantised: weights quantised by ONNX Runtime's tool as well."""

    def register(cls):
        GRAPHS[cls.__name__] = Graph(cls, free, sizes, exporters, gradients, quantised)
        return cls

    return register


def trained(model):
    """No two norms of a trained network are alike, no bias is 0: exporters merge equal weights, and folds may hide behind ones."""
    for m in model.modules():
        if isinstance(m, (nn.BatchNorm1d, nn.BatchNorm2d)):
            m.running_mean.normal_(0, 0.3)
            m.running_var.uniform_(0.5, 1.5)
        if isinstance(m, (nn.BatchNorm1d, nn.BatchNorm2d, nn.LayerNorm, nn.GroupNorm, nn.InstanceNorm2d)) and m.weight is not None:
            nn.init.normal_(m.weight, 1, 0.2)
            nn.init.normal_(m.bias, 0, 0.2)
    return model


class Layer(nn.Module):
    """An encoder's layer, or a decoder's where it is given what to attend to."""

    def __init__(self, width, heads):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))
        self.n1, self.up, self.down, self.n2, self.heads = nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.Linear(2 * width, width), nn.LayerNorm(width), heads

    def forward(self, x, memory=None):
        m = x if memory is None else memory
        x = self.n1(x + self.o(attend(self.q(x), self.k(m), self.v(m), self.heads)))
        return self.n2(x + self.down(F.relu(self.up(x))))


def attend(q, k, v, heads, bias=None):
    """Scaled dot products of (batch, length, width), spelled out as most published code does."""
    split = lambda t: t.view(t.shape[0], t.shape[1], heads, -1).transpose(1, 2)
    s = split(q) @ split(k).transpose(-1, -2) / math.sqrt(q.shape[-1] // heads)
    if bias is not None:
        s = s + bias
    return (s.softmax(-1) @ split(v)).transpose(1, 2).reshape(q.shape)


# -- Language models ----------------------------------------------------------------------------------------------


@graph(
    {
        "input_ids": {0: "batch", 1: "sequence"},
        "attention_mask": {0: "batch", 1: "total"},
        "past_key_0": {0: "batch", 2: "past"},
        "past_value_0": {0: "batch", 2: "past"},
        "past_key_1": {0: "batch", 2: "past"},
        "past_value_1": {0: "batch", 2: "past"},
    },
    {"batch": 2, "sequence": 3, "past": 4},
    {"batch": 1, "sequence": 1, "past": 9},
    {"batch": 3, "sequence": 5, "past": 0},
    exporters=("torchscript",),
)
class GptPast(nn.Module):
    """GPT-2 with keys and values of the past going in and out, left-padded batches."""

    WIDTH, HEADS = 32, 4

    def __init__(self):
        super().__init__()
        w = self.WIDTH
        self.wte, self.wpe = nn.Embedding(61, w), nn.Embedding(32, w)
        self.ln1 = nn.ModuleList(nn.LayerNorm(w) for _ in range(2))
        self.qkv = nn.ModuleList(nn.Linear(w, 3 * w) for _ in range(2))
        self.out = nn.ModuleList(nn.Linear(w, w) for _ in range(2))
        self.ln2 = nn.ModuleList(nn.LayerNorm(w) for _ in range(2))
        self.up = nn.ModuleList(nn.Linear(w, 4 * w) for _ in range(2))
        self.down = nn.ModuleList(nn.Linear(4 * w, w) for _ in range(2))
        self.ln = nn.LayerNorm(w)

    def example(self, batch, sequence, past):
        mask = torch.ones(batch, past + sequence, dtype=torch.int64)
        mask[0, : (past + sequence) // 3] = 0
        kv = [torch.randn(batch, self.HEADS, past, self.WIDTH // self.HEADS) for _ in range(4)]
        ids = torch.randint(0, 61, (batch, sequence))
        return dict(zip(self.names(), [ids, mask, *kv]))

    @staticmethod
    def names():
        return ["input_ids", "attention_mask", "past_key_0", "past_value_0", "past_key_1", "past_value_1"]

    def forward(self, input_ids, attention_mask, past_key_0, past_value_0, past_key_1, past_value_1):
        b, s = input_ids.shape
        position = (attention_mask.cumsum(-1) - 1).masked_fill(attention_mask == 0, 1)[:, -s:]
        x = self.wte(input_ids) + self.wpe(position)
        total = attention_mask.shape[1]
        causal = torch.ones(total, total, dtype=torch.bool).tril()[total - s :, :]
        bias = torch.where(causal[None, None] & (attention_mask[:, None, None, :] != 0), 0.0, torch.finfo(torch.float32).min)
        present = []
        for i, (pk, pv) in enumerate(((past_key_0, past_value_0), (past_key_1, past_value_1))):
            q, k, v = self.qkv[i](self.ln1[i](x)).split(self.WIDTH, -1)
            heads = lambda t: t.view(b, s, self.HEADS, -1).permute(0, 2, 1, 3)
            k, v = torch.cat([pk, heads(k)], 2), torch.cat([pv, heads(v)], 2)
            present += [k, v]
            a = (heads(q) @ k.transpose(-1, -2) / math.sqrt(self.WIDTH // self.HEADS) + bias).softmax(-1) @ v
            x = x + self.out[i](a.permute(0, 2, 1, 3).reshape(b, s, -1))
            x = x + self.down[i](F.gelu(self.up[i](self.ln2[i](x)), approximate="tanh"))
        return (self.ln(x) @ self.wte.weight.T, *present)


class RmsNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(1 + 0.2 * torch.randn(width))

    def forward(self, x):
        return self.weight * (x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype)


@graph(
    {"ids": {0: "batch", 1: "sequence"}, "past_k": {0: "batch", 2: "past"}, "past_v": {0: "batch", 2: "past"}},
    {"batch": 2, "sequence": 4, "past": 3},
    {"batch": 1, "sequence": 1, "past": 8},
)
class Llama(nn.Module):
    """RMS norms, rotary positions, grouped queries, gated units, a cache."""

    def __init__(self):
        super().__init__()
        self.e = nn.Embedding(53, 32)
        self.n1, self.n2, self.n = RmsNorm(32), RmsNorm(32), RmsNorm(32)
        self.q, self.k, self.v = nn.Linear(32, 32, bias=False), nn.Linear(32, 16, bias=False), nn.Linear(32, 16, bias=False)
        self.o = nn.Linear(32, 32, bias=False)
        self.gate, self.up, self.down = nn.Linear(32, 64, bias=False), nn.Linear(32, 64, bias=False), nn.Linear(64, 32, bias=False)
        self.head = nn.Linear(32, 53, bias=False)
        self.register_buffer("frequencies", 1 / 10000 ** (torch.arange(0, 8, 2).float() / 8))

    def example(self, batch, sequence, past):
        return {"ids": torch.randint(0, 53, (batch, sequence)), "past_k": torch.randn(batch, 2, past, 8),
                "past_v": torch.randn(batch, 2, past, 8)}

    def forward(self, ids, past_k, past_v):
        b, s = ids.shape
        p = past_k.shape[2]
        angle = torch.arange(p, p + s)[:, None].float() * self.frequencies[None]
        angle = torch.cat([angle, angle], -1)
        turn = lambda t: t * angle.cos() + torch.cat([-t[..., 4:], t[..., :4]], -1) * angle.sin()
        x = self.e(ids)
        y = self.n1(x)
        q = turn(self.q(y).view(b, s, 4, 8).transpose(1, 2))
        k = torch.cat([past_k, turn(self.k(y).view(b, s, 2, 8).transpose(1, 2))], 2)
        v = torch.cat([past_v, self.v(y).view(b, s, 2, 8).transpose(1, 2)], 2)
        repeat = lambda t: t[:, :, None].expand(b, 2, 2, p + s, 8).reshape(b, 4, p + s, 8)
        mask = torch.full((s, p + s), float("-inf")).triu(p + 1)
        a = (q @ repeat(k).transpose(2, 3) / math.sqrt(8) + mask).softmax(-1, dtype=torch.float32) @ repeat(v)
        x = x + self.o(a.transpose(1, 2).reshape(b, s, 32))
        y = self.n2(x)
        x = x + self.down(F.silu(self.gate(y)) * self.up(y))
        return self.head(self.n(x)), k, v


@graph({"ids": {0: "batch", 1: "sequence"}, "mask": {0: "batch", 1: "sequence"}},
       {"batch": 2, "sequence": 7}, {"batch": 1, "sequence": 12}, {"batch": 3, "sequence": 1}, gradients=True)
class SentenceEncoder(nn.Module):
    """BERT-like layers, mean over what the mask keeps, unit length."""

    def __init__(self):
        super().__init__()
        self.e, self.p, self.n = nn.Embedding(71, 32), nn.Embedding(16, 32), nn.LayerNorm(32)
        self.q, self.k, self.v, self.o = (nn.Linear(32, 32) for _ in range(4))
        self.n1, self.up, self.down, self.n2 = nn.LayerNorm(32), nn.Linear(32, 64), nn.Linear(64, 32), nn.LayerNorm(32)

    def example(self, batch, sequence):
        mask = torch.ones(batch, sequence, dtype=torch.int64)
        mask[0, (sequence + 1) // 2 + 1 :] = 0
        return {"ids": torch.randint(0, 71, (batch, sequence)), "mask": mask}

    def forward(self, ids, mask):
        x = self.n(self.e(ids) + self.p(torch.arange(ids.shape[1])))
        bias = (1.0 - mask[:, None, None, :].float()) * torch.finfo(torch.float32).min
        x = self.n1(x + self.o(attend(self.q(x), self.k(x), self.v(x), 4, bias)))
        x = self.n2(x + self.down(F.gelu(self.up(x))))
        keep = mask.unsqueeze(-1).expand(x.shape).float()
        return F.normalize((x * keep).sum(1) / torch.clamp(keep.sum(1), min=1e-9), p=2.0, dim=1)


@graph(
    {"ids": {0: "batch", 1: "target"}, "memory": {0: "batch", 1: "source"}, "past_k": {0: "batch", 2: "past"},
     "past_v": {0: "batch", 2: "past"}},
    {"batch": 2, "target": 2, "source": 6, "past": 3},
    {"batch": 1, "target": 1, "source": 11, "past": 5},
)
class CrossDecoder(nn.Module):
    """A decoder layer with buckets of relative positions (T5), its own cache and keys and values of the encoder's output."""

    def __init__(self):
        super().__init__()
        self.e, self.relative = nn.Embedding(47, 24), nn.Embedding(8, 3)
        self.n = nn.ModuleList(RmsNorm(24) for _ in range(4))
        self.a = nn.ModuleList(nn.Linear(24, 24, bias=False) for _ in range(8))
        self.up, self.down = nn.Linear(24, 48, bias=False), nn.Linear(48, 24, bias=False)

    def example(self, batch, target, source, past):
        return {"ids": torch.randint(0, 47, (batch, target)), "memory": torch.randn(batch, source, 24),
                "past_k": torch.randn(batch, 3, past, 8), "past_v": torch.randn(batch, 3, past, 8)}

    def forward(self, ids, memory, past_k, past_v):
        b, s = ids.shape
        heads = lambda t: t.view(t.shape[0], t.shape[1], 3, 8).transpose(1, 2)
        flat = lambda t: t.transpose(1, 2).reshape(t.shape[0], -1, 24)
        x = self.e(ids)
        y = self.n[0](x)
        k = torch.cat([past_k, heads(self.a[1](y))], 2)
        v = torch.cat([past_v, heads(self.a[2](y))], 2)
        total = k.shape[2]
        distance = torch.clamp(torch.arange(total)[:, None] - torch.arange(total)[None], min=0)
        far = 4 + (torch.log(distance.float().clamp(min=1) / 4) / math.log(4) * 4).long()
        bucket = torch.where(distance < 4, distance, torch.minimum(far, torch.full_like(far, 7)))
        bias = self.relative(bucket).permute(2, 0, 1)[None]
        bias = bias + torch.where(torch.arange(total)[None] > torch.arange(total)[:, None], -1e9, 0.0)
        x = x + self.a[3](flat((heads(self.a[0](y)) @ k.transpose(2, 3) + bias[:, :, -s:, :]).softmax(-1) @ v))
        y = self.n[1](x)
        ck, cv = heads(self.a[5](memory)), heads(self.a[6](memory))
        x = x + self.a[7](flat((heads(self.a[4](y)) @ ck.transpose(2, 3)).softmax(-1) @ cv))
        x = x + self.down(F.relu(self.up(self.n[2](x))))
        return (self.n[3](x) * 24**-0.5) @ self.e.weight.T, k, v, ck, cv


@graph({"mel": {0: "batch"}, "tokens": {0: "batch", 1: "tokens"}},
       {"batch": 1, "tokens": 4}, {"batch": 2, "tokens": 1}, gradients=True)
class Whisper(nn.Module):
    """Two convolutions and a layer over a spectrogram of fixed length, a causal decoder with cross-attention."""

    def __init__(self):
        super().__init__()
        self.c1, self.c2 = nn.Conv1d(10, 24, 3, padding=1), nn.Conv1d(24, 24, 3, stride=2, padding=1)
        self.register_buffer("position", torch.randn(20, 24))
        self.enc = nn.TransformerEncoderLayer(24, 3, 48, 0.0, F.gelu, batch_first=True, norm_first=True)
        self.e, self.pe = nn.Embedding(50, 24), nn.Parameter(torch.randn(12, 24))
        self.q, self.k, self.v, self.o = (nn.Linear(24, 24, bias=i != 1) for i in range(4))
        self.q2, self.k2, self.v2, self.o2 = (nn.Linear(24, 24, bias=i != 1) for i in range(4))
        self.n = nn.ModuleList(nn.LayerNorm(24) for _ in range(4))
        self.up, self.down = nn.Linear(24, 96), nn.Linear(96, 24)
        self.register_buffer("mask", torch.full((12, 12), float("-inf")).triu(1))

    def example(self, batch, tokens):
        return {"mel": torch.randn(batch, 10, 40), "tokens": torch.randint(0, 50, (batch, tokens))}

    def forward(self, mel, tokens):
        m = F.gelu(self.c2(F.gelu(self.c1(mel)))).permute(0, 2, 1) + self.position
        m = self.enc(m)
        t = tokens.shape[-1]
        x = self.e(tokens) + self.pe[:t]
        y = self.n[0](x)
        x = x + self.o(attend(self.q(y), self.k(y), self.v(y), 3, self.mask[:t, :t]))
        y = self.n[1](x)
        s = lambda a: a.view(a.shape[0], a.shape[1], 3, 8).transpose(1, 2)
        a = (s(self.q2(y)) @ s(self.k2(m)).transpose(2, 3) * 8**-0.5).softmax(-1) @ s(self.v2(m))
        x = x + self.o2(a.transpose(1, 2).reshape(x.shape))
        x = x + self.down(F.gelu(self.up(self.n[2](x))))
        return self.n[3](x) @ self.e.weight.T


@graph({"prompt": {1: "length"}}, {"length": 3}, {"length": 5}, exporters=("script",))
class GreedyLoop(nn.Module):
    """Scripted: a while loop that appends the likeliest token until one ends it or there are enough."""

    def __init__(self):
        super().__init__()
        self.e, self.r, self.o = nn.Embedding(20, 16), nn.Linear(16, 16), nn.Linear(16, 20)

    def example(self, length):
        return {"prompt": torch.randint(1, 20, (1, length))}

    def forward(self, prompt):
        tokens = prompt
        going = torch.tensor(True)
        while bool(going) and tokens.size(1) < 12:
            h = torch.tanh(self.r(self.e(tokens).mean(1)))
            best = self.o(h).argmax(-1, keepdim=True)
            tokens = torch.cat([tokens, best], 1)
            going = (best != 0).all()
        return tokens


# -- Speech ---------------------------------------------------------------------------------------------------


@graph({"wave": {0: "batch", 1: "samples"}}, {"batch": 2, "samples": 400}, {"batch": 1, "samples": 643}, gradients=True)
class Wav2vec(nn.Module):
    """Strided convolutions of a wave, a positional convolution with weight norm, layers, logits of characters."""

    def __init__(self):
        super().__init__()
        self.c = nn.ModuleList([nn.Conv1d(1, 16, 10, 5, bias=False), nn.Conv1d(16, 16, 3, 2, bias=False), nn.Conv1d(16, 24, 2, 2, bias=False)])
        self.g, self.n = nn.GroupNorm(16, 16), nn.LayerNorm(24)
        self.p = nn.utils.weight_norm(nn.Conv1d(24, 24, 8, padding=4, groups=4))
        self.l = nn.TransformerEncoderLayer(24, 4, 48, 0.0, F.gelu, batch_first=True)
        self.h = nn.Linear(24, 12)

    def example(self, batch, samples):
        return {"wave": torch.randn(batch, samples)}

    def forward(self, wave):
        x = (wave - wave.mean(1, keepdim=True)) / torch.sqrt(wave.var(1, keepdim=True, unbiased=False) + 1e-7)
        x = F.gelu(self.g(self.c[0](x[:, None])))
        for c in self.c[1:]:
            x = F.gelu(c(x))
        x = self.n(x.transpose(1, 2))
        x = x + F.gelu(self.p(x.transpose(1, 2))[:, :, :-1]).transpose(1, 2)
        return self.h(self.l(x)).log_softmax(-1)


@graph({"wave": {0: "batch", 1: "samples"}}, {"batch": 2, "samples": 400}, {"batch": 1, "samples": 333}, {"batch": 3, "samples": 800})
class Wav2vecOfTransformers(nn.Module):
    """The library's own: its masks and positions are where sizes of two names meet."""

    def __init__(self):
        super().__init__()
        import transformers as hf

        self.m = hf.Wav2Vec2ForCTC(hf.Wav2Vec2Config(
            vocab_size=20, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=48, conv_dim=(16, 16), conv_stride=(5, 2), conv_kernel=(10, 3),
            num_feat_extract_layers=2, num_conv_pos_embeddings=8, num_conv_pos_embedding_groups=2, attn_implementation="eager"))

    def example(self, batch, samples):
        return {"wave": torch.randn(batch, samples)}

    def forward(self, wave):
        return self.m(wave).logits


@graph({"frame": {0: "batch"}, "state": {1: "batch"}}, {"batch": 1}, {"batch": 3})
class VoiceActivity(nn.Module):
    """A spectrum by convolution with fixed sines, an LSTM's state in and out, a probability."""

    def __init__(self):
        super().__init__()
        k = torch.arange(32)[:, None] * torch.arange(17)[None] * 2 * math.pi / 32
        self.register_buffer("basis", torch.cat([k.cos(), k.sin()], 1).T[:, None].contiguous())
        self.c1, self.c2 = nn.Conv1d(17, 16, 3, padding=1), nn.Conv1d(16, 16, 3, 2, padding=1)
        self.r, self.o = nn.LSTMCell(16, 16), nn.Conv1d(16, 1, 1)

    def example(self, batch):
        return {"frame": torch.randn(batch, 128), "state": torch.randn(2, batch, 16)}

    def forward(self, frame, state):
        x = F.conv1d(F.pad(frame, (16, 16), "reflect")[:, None], self.basis, stride=16)
        x = torch.sqrt(x[:, :17] ** 2 + x[:, 17:] ** 2)
        x = F.relu(self.c2(F.relu(self.c1(torch.log1p(x))))).mean(-1)
        h, c = self.r(x, (state[0], state[1]))
        return torch.sigmoid(self.o(F.relu(h).unsqueeze(-1))).squeeze(-1).mean(1, keepdim=True), torch.stack([h, c])


@graph({"x": {0: "batch", 1: "samples"}}, {"batch": 1, "samples": 64}, {"batch": 2, "samples": 96}, {"batch": 1, "samples": 32},
       exporters=("script",))
class ScriptedRates(nn.Module):
    """Scripted: branches on sizes make ranks differ; one of them squeezes."""

    def __init__(self):
        super().__init__()
        self.c, self.r = nn.Conv1d(1, 8, 8, 8), nn.LSTM(8, 8)

    def example(self, batch, samples):
        return {"x": torch.randn(batch, samples)}

    def forward(self, x):
        if x.dim() == 1:
            x = x.unsqueeze(0)
        if x.size(1) > 48:
            x = x[:, :64] if x.size(1) >= 96 else x
        y = F.relu(self.c(x.unsqueeze(1)))
        y, _ = self.r(y.permute(2, 0, 1))
        return y.mean(0).squeeze()


@graph({"x": {0: "batch", 1: "frames"}, "h": {1: "batch"}}, {"batch": 1, "frames": 6}, {"batch": 2, "frames": 9})
class Denoiser(nn.Module):
    """Gains of bands by stacked GRUs whose state goes in and out."""

    def __init__(self):
        super().__init__()
        self.i, self.g, self.o = nn.Linear(22, 24), nn.GRU(24, 24, 2, batch_first=True), nn.Linear(24 + 22, 22)

    def example(self, batch, frames):
        return {"x": torch.randn(batch, frames, 22), "h": torch.randn(2, batch, 24)}

    def forward(self, x, h):
        y, h = self.g(torch.tanh(self.i(x)), h)
        return torch.sigmoid(self.o(torch.cat([y, x], -1))), h


@graph({"mix": {0: "batch", 1: "samples"}}, {"batch": 1, "samples": 160}, {"batch": 2, "samples": 224})
class TasNet(nn.Module):
    """Two speakers from a wave: encoder, dilated depthwise convolutions with global norm, masks, transposed convolution."""

    def __init__(self):
        super().__init__()
        self.e, self.n, self.i = nn.Conv1d(1, 24, 16, 8, bias=False), nn.GroupNorm(1, 24), nn.Conv1d(24, 16, 1)
        self.a = nn.ModuleList(nn.Conv1d(16, 32, 1) for _ in range(3))
        self.p = nn.ModuleList(nn.PReLU() for _ in range(3))
        self.g = nn.ModuleList(nn.GroupNorm(1, 32) for _ in range(3))
        self.d = nn.ModuleList(nn.Conv1d(32, 32, 3, padding=2**k, dilation=2**k, groups=32) for k in range(3))
        self.s = nn.ModuleList(nn.Conv1d(32, 16, 1) for _ in range(3))
        self.m, self.o = nn.Conv1d(16, 48, 1), nn.ConvTranspose1d(24, 1, 16, 8, bias=False)

    def example(self, batch, samples):
        return {"mix": torch.randn(batch, samples)}

    def forward(self, mix):
        w = F.relu(self.e(mix[:, None]))
        x = self.i(self.n(w))
        for a, p, g, d, s in zip(self.a, self.p, self.g, self.d, self.s):
            x = x + s(d(g(p(a(x)))))
        m = torch.sigmoid(self.m(x)).view(x.shape[0], 2, 24, -1)
        y = (m * w[:, None]).view(-1, 24, w.shape[-1])
        return self.o(y).view(x.shape[0], 2, -1)


@graph({"mel": {0: "batch", 1: "frames"}, "length": {0: "batch"}}, {"batch": 2, "frames": 24}, {"batch": 1, "frames": 37})
class Conformer(nn.Module):
    """Subsampling in two dimensions, attention with relative positions by a shift, a convolution module, lengths by a mask."""

    def __init__(self):
        super().__init__()
        self.s1, self.s2 = nn.Conv2d(1, 8, 3, 2, 1), nn.Conv2d(8, 8, 3, 2, 1)
        self.i = nn.Linear(8 * 5, 24)
        self.q, self.k, self.v, self.pos, self.o = (nn.Linear(24, 24) for _ in range(5))
        self.u, self.w = nn.Parameter(torch.randn(3, 8)), nn.Parameter(torch.randn(3, 8))
        self.n = nn.ModuleList(nn.LayerNorm(24) for _ in range(3))
        self.a, self.d, self.b = nn.Conv1d(24, 48, 1), nn.Conv1d(24, 24, 5, padding=2, groups=24), nn.Conv1d(24, 24, 1)
        self.bn, self.up, self.down = nn.BatchNorm1d(24), nn.Linear(24, 48), nn.Linear(48, 24)

    def example(self, batch, frames):
        return {"mel": torch.randn(batch, frames, 20), "length": torch.tensor([frames, frames * 2 // 3][:batch])}

    def forward(self, mel, length):
        x = F.relu(self.s2(F.relu(self.s1(mel[:, None]))))
        b, _, t, _ = x.shape
        x = self.i(x.transpose(1, 2).reshape(b, t, -1))
        short = torch.div(torch.div(length - 1, 2, rounding_mode="floor"), 2, rounding_mode="floor") + 1
        valid = torch.arange(t)[None] < short[:, None]
        angle = torch.arange(t - 1, -t, -1).float()[:, None] * torch.exp(torch.arange(0, 24, 2).float() * (-math.log(10000.0) / 24))
        p = self.pos(torch.stack([angle.sin(), angle.cos()], -1).reshape(2 * t - 1, 24)).view(-1, 3, 8).permute(1, 2, 0)
        y = self.n[0](x)
        q = self.q(y).view(b, t, 3, 8)
        k, v = self.k(y).view(b, t, 3, 8).permute(0, 2, 3, 1), self.v(y).view(b, t, 3, 8).transpose(1, 2)
        ac, bd = (q + self.u).transpose(1, 2) @ k, (q + self.w).transpose(1, 2) @ p
        bd = F.pad(bd, (1, 0)).view(b, 3, 2 * t, t)[:, :, 1:].reshape(b, 3, t, 2 * t - 1)[..., :t]
        s = ((ac + bd) / math.sqrt(8)).masked_fill(~valid[:, None, None], -1e4)
        a = s.softmax(-1).masked_fill(~valid[:, None, None], 0.0) @ v
        x = x + self.o(a.transpose(1, 2).reshape(b, t, 24))
        y = self.n[1](x).transpose(1, 2).masked_fill(~valid[:, None], 0.0)
        x = x + self.b(F.silu(self.bn(self.d(F.glu(self.a(y), 1))))).transpose(1, 2)
        return x + 0.5 * self.down(F.silu(self.up(self.n[2](x)))), short


@graph({"text": {0: "batch", 1: "length"}, "lengths": {0: "batch"}}, {"batch": 1, "length": 5}, {"batch": 2, "length": 8},
       exporters=("torchscript",))
class TextToSpeech(nn.Module):
    """Durations of letters are predicted and letters repeated that often (a path from cumulative sums), then a vocoder."""

    def __init__(self):
        super().__init__()
        self.e, self.c, self.n = nn.Embedding(30, 16), nn.Conv1d(16, 16, 5, padding=2), nn.LayerNorm(16)
        self.d, self.f = nn.Conv1d(16, 1, 3, padding=1), nn.Conv1d(16, 32, 3, padding=1)
        self.u1, self.u2 = nn.ConvTranspose1d(16, 12, 8, 4, 2), nn.ConvTranspose1d(12, 8, 4, 2, 1)
        self.r = nn.ModuleList(nn.Conv1d(12, 12, 3, padding=k, dilation=k) for k in (1, 3))
        self.o = nn.Conv1d(8, 1, 7, padding=3)

    def example(self, batch, length):
        return {"text": torch.randint(0, 30, (batch, length)), "lengths": torch.tensor([length, length // 2][:batch])}

    def forward(self, text, lengths):
        mask = (torch.arange(text.shape[1])[None] < lengths[:, None])[:, None].float()
        x = self.n(F.relu(self.c(self.e(text).transpose(1, 2) * mask)).transpose(1, 2)).transpose(1, 2) * mask
        w = torch.ceil(torch.exp(self.d(x)) * mask)
        frames = torch.clamp_min(w.sum((1, 2)), 1).long()
        ends = w.cumsum(-1).squeeze(1)
        t = torch.arange(int(frames.max()) if not torch.jit.is_tracing() else frames.max())
        path = (t[None, :, None] < ends[:, None]).float()
        path = path - F.pad(path, (1, 0))[..., :-1]
        z = x @ path.transpose(1, 2)
        g = self.f(z)
        z = torch.tanh(g[:, :16]) * torch.sigmoid(g[:, 16:])
        z = self.u1(F.leaky_relu(z, 0.1))
        z = sum(r(F.leaky_relu(z, 0.1)) for r in self.r) / 2
        return torch.tanh(self.o(F.leaky_relu(self.u2(z)))), frames


@graph({"phones": {0: "batch", 1: "length"}}, {"batch": 1, "length": 6}, {"batch": 2, "length": 9}, quantised=True)
class ProsodyLstm(nn.Module):
    """Bidirectional LSTMs as small text-to-speech models have them; also with weights quantised by ONNX Runtime's tool."""

    def __init__(self):
        super().__init__()
        self.e, self.l, self.o = nn.Embedding(40, 24), nn.LSTM(24, 16, bidirectional=True, batch_first=True), nn.Linear(32, 8)

    def example(self, batch, length):
        return {"phones": torch.randint(0, 40, (batch, length))}

    def forward(self, phones):
        return F.softplus(self.o(self.l(self.e(phones))[0]))


# -- Images ---------------------------------------------------------------------------------------------------


class Residual(nn.Module):
    """A residual block of diffusion networks: norms by group, the time's embedding added between two convolutions."""

    def __init__(self, n, m, t):
        super().__init__()
        self.n1, self.c1, self.n2, self.c2 = nn.GroupNorm(4, n), nn.Conv2d(n, m, 3, 1, 1), nn.GroupNorm(4, m), nn.Conv2d(m, m, 3, 1, 1)
        self.t = nn.Linear(t, m) if t else None
        self.s = nn.Conv2d(n, m, 1) if n != m else nn.Identity()

    def forward(self, x, t=None):
        y = self.c1(F.silu(self.n1(x)))
        if self.t is not None:
            y = y + self.t(F.silu(t))[:, :, None, None]
        return self.s(x) + self.c2(F.silu(self.n2(y)))


@graph({"sample": {0: "batch", 2: "height", 3: "width"}, "timestep": {0: "batch"}, "context": {0: "batch", 1: "tokens"}},
       {"batch": 2, "height": 8, "width": 8, "tokens": 5}, {"batch": 1, "height": 12, "width": 16, "tokens": 3}, gradients=True)
class DiffusionUnet(nn.Module):
    """Time embedding, attention to a context, a skip around two scales."""

    def __init__(self):
        super().__init__()
        self.t1, self.t2 = nn.Linear(16, 32), nn.Linear(32, 32)
        self.i, self.d1, self.down = nn.Conv2d(4, 16, 3, 1, 1), Residual(16, 16, 32), nn.Conv2d(16, 16, 3, 2, 1)
        self.m1, self.m2, self.up = Residual(16, 32, 32), Residual(32, 16, 32), nn.Conv2d(16, 16, 3, 1, 1)
        self.n, self.q, self.k, self.v, self.o = nn.GroupNorm(4, 32), nn.Linear(32, 32), nn.Linear(12, 32), nn.Linear(12, 32), nn.Linear(32, 32)
        self.u, self.on, self.oc = Residual(32, 16, 32), nn.GroupNorm(4, 16), nn.Conv2d(16, 4, 3, 1, 1)

    def example(self, batch, height, width, tokens):
        return {"sample": torch.randn(batch, 4, height, width), "timestep": torch.arange(37, 37 + batch), "context": torch.randn(batch, tokens, 12)}

    def forward(self, sample, timestep, context):
        f = torch.exp(-math.log(10000.0) * torch.arange(8).float() / 8)
        a = timestep[:, None].float() * f[None]
        t = self.t2(F.silu(self.t1(torch.cat([a.cos(), a.sin()], -1))))
        x = self.d1(self.i(sample), t)
        y = self.m1(self.down(x), t)
        b, c, h, w = y.shape
        z = self.n(y).reshape(b, c, h * w).transpose(1, 2)
        q, k, v = (g.view(b, -1, 4, 8).transpose(1, 2) for g in (self.q(z), self.k(context), self.v(context)))
        z = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, h * w, c)
        y = y + self.o(z).transpose(1, 2).reshape(b, c, h, w)
        y = self.up(F.interpolate(self.m2(y, t), scale_factor=2.0, mode="nearest"))
        return self.oc(F.silu(self.on(self.u(torch.cat([y, x], 1), t))))


@graph({"latent": {0: "batch", 2: "height", 3: "width"}}, {"batch": 1, "height": 6, "width": 6}, {"batch": 2, "height": 5, "width": 8},
       gradients=True)
class VaeDecoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.i, self.r1, self.r2, self.r3 = nn.Conv2d(4, 16, 3, 1, 1), Residual(16, 16, 0), Residual(16, 16, 0), Residual(16, 8, 0)
        self.n, self.q, self.k, self.v, self.o = nn.GroupNorm(4, 16), *(nn.Conv2d(16, 16, 1) for _ in range(4))
        self.u, self.e, self.f = nn.Conv2d(16, 16, 3, 1, 1), nn.GroupNorm(4, 8), nn.Conv2d(8, 3, 3, 1, 1)

    def example(self, batch, height, width):
        return {"latent": torch.randn(batch, 4, height, width)}

    def forward(self, latent):
        x = self.r1(self.i(latent / 0.18215))
        b, c, h, w = x.shape
        y = self.n(x)
        q, k, v = (g(y).reshape(b, c, h * w) for g in (self.q, self.k, self.v))
        a = torch.bmm(q.transpose(1, 2), k) * c**-0.5
        x = x + self.o(torch.bmm(v, a.softmax(-1).transpose(1, 2)).reshape(b, c, h, w))
        x = self.r3(self.u(F.interpolate(self.r2(x), scale_factor=2.0)))
        return (torch.clamp(self.f(F.silu(self.e(x))), -1, 1) + 1) / 2


class ConvBnSilu(nn.Module):
    def __init__(self, n, m, k=1, s=1):
        super().__init__()
        self.c, self.b = nn.Conv2d(n, m, k, s, k // 2, bias=False), nn.BatchNorm2d(m)

    def forward(self, x):
        return F.silu(self.b(self.c(x)))


class Yolo(nn.Module):
    """Split-and-concat blocks, pooled pyramid, two scales up and down, boxes from distributions over distances."""

    def __init__(self):
        super().__init__()
        self.a, self.b = ConvBnSilu(3, 8, 3, 2), ConvBnSilu(8, 16, 3, 2)
        self.c, self.m, self.d = ConvBnSilu(16, 16), ConvBnSilu(8, 8, 3), ConvBnSilu(24, 16)
        self.e, self.p, self.q = ConvBnSilu(16, 24, 3, 2), ConvBnSilu(24, 12), ConvBnSilu(48, 24)
        self.u, self.v = ConvBnSilu(40, 16), ConvBnSilu(16, 24, 3, 2)
        self.box, self.cls = (nn.ModuleList(nn.Conv2d(n, m, 1) for n in (16, 48)) for m in (16, 3))

    def boxes(self, image):
        x = self.c(self.b(self.a(image)))
        y = x.chunk(2, 1)
        p3 = self.d(torch.cat([*y, self.m(y[1])], 1))
        x = self.p(self.e(p3))
        m1 = F.max_pool2d(x, 5, 1, 2)
        m2 = F.max_pool2d(m1, 5, 1, 2)
        p4 = self.q(torch.cat([x, m1, m2, F.max_pool2d(m2, 5, 1, 2)], 1))
        p3 = self.u(torch.cat([F.interpolate(p4, scale_factor=2.0), p3], 1))
        p4 = torch.cat([self.v(p3), p4], 1)
        anchors, strides, box, cls = [], [], [], []
        for x, stride, b, c in zip((p3, p4), (4, 8), self.box, self.cls):
            h, w = x.shape[2:]
            gy, gx = torch.meshgrid(torch.arange(h) + 0.5, torch.arange(w) + 0.5, indexing="ij")
            anchors.append(torch.stack([gx, gy], -1).view(-1, 2))
            strides.append(torch.full((h * w, 1), float(stride)))
            box.append(b(x).flatten(2))
            cls.append(c(x).flatten(2))
        anchors, strides = torch.cat(anchors).T[None], torch.cat(strides).T
        d = torch.cat(box, 2)
        d = (d.view(d.shape[0], 4, 4, -1).softmax(2) * torch.arange(4.0)[None, None, :, None]).sum(2)
        lt, rb = d.chunk(2, 1)
        lo, hi = anchors - lt, anchors + rb
        return torch.cat([(lo + hi) / 2, hi - lo], 1) * strides, torch.cat(cls, 2).sigmoid()

    def example(self, batch, height, width):
        return {"image": torch.rand(batch, 3, height, width)}


@graph({"image": {0: "batch", 2: "height", 3: "width"}},
       {"batch": 1, "height": 32, "width": 32}, {"batch": 2, "height": 48, "width": 32}, exporters=("torchscript", "dynamo"))
class YoloRaw(Yolo):
    def forward(self, image):
        return torch.cat(self.boxes(image), 1)


@graph({"image": {2: "height", 3: "width"}}, {"batch": 1, "height": 32, "width": 32}, {"batch": 1, "height": 32, "width": 64},
       exporters=("torchscript",))
class YoloNms(Yolo):
    """The same with suppression inside: as many boxes as remain."""

    def forward(self, image):
        boxes, scores = self.boxes(image)
        boxes, scores = boxes[0].T, scores[0].T
        best, label = scores.max(1)
        xyxy = torch.cat([boxes[:, :2] - boxes[:, 2:] / 2, boxes[:, :2] + boxes[:, 2:] / 2], 1)
        keep = torch.ops.torchvision.nms(xyxy + label[:, None] * 4096.0, best, 0.45)[:20]
        return xyxy[keep], best[keep], label[keep]


@graph({"image": {0: "batch"}}, {"batch": 1}, {"batch": 3})
class SsdHead(nn.Module):
    """Anchors as constants, decoded boxes clipped, the best forty by score."""

    def __init__(self):
        super().__init__()
        self.b = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), nn.ReLU6(), nn.Conv2d(16, 16, 3, 1, 1, groups=16), nn.ReLU6(), nn.Conv2d(16, 24, 1))
        self.l, self.s = nn.Conv2d(24, 24, 3, 1, 1), nn.Conv2d(24, 30, 3, 1, 1)
        self.register_buffer("anchors", torch.rand(8 * 8 * 6, 4))

    def example(self, batch):
        return {"image": torch.randn(batch, 3, 16, 16)}

    def forward(self, image):
        x = self.b(image)
        n = x.shape[0]
        l = self.l(x).permute(0, 2, 3, 1).reshape(n, -1, 4)
        s = self.s(x).permute(0, 2, 3, 1).reshape(n, -1, 5).softmax(-1)[..., 1:].max(-1)
        xy = self.anchors[:, :2] + l[..., :2] * 0.1 * self.anchors[:, 2:]
        wh = self.anchors[:, 2:] * torch.exp(l[..., 2:] * 0.2)
        boxes = torch.clamp(torch.cat([xy - wh / 2, xy + wh / 2], -1), 0, 1)
        score, index = s[0].topk(40, 1)
        return torch.gather(boxes, 1, index[..., None].expand(-1, -1, 4)), score, torch.gather(s[1], 1, index)


@graph({"image": {0: "batch", 3: "width"}}, {"batch": 1, "width": 48}, {"batch": 2, "width": 80})
class Crnn(nn.Module):
    """Columns of convolutions into a bidirectional LSTM, then CTC's log probabilities."""

    def __init__(self):
        super().__init__()
        self.c1, self.c2, self.c3 = nn.Conv2d(1, 8, 3, 1, 1), nn.Conv2d(8, 16, 3, 1, 1), nn.Conv2d(16, 16, (4, 1))
        self.b, self.l, self.o = nn.BatchNorm2d(16), nn.LSTM(16, 16, 2, bidirectional=True), nn.Linear(32, 11)

    def example(self, batch, width):
        return {"image": torch.randn(batch, 1, 16, width)}

    def forward(self, image):
        x = F.max_pool2d(F.relu(self.c1(image)), 2)
        x = F.max_pool2d(F.relu(self.b(self.c2(x))), (2, 2), (2, 1), (0, 1))
        x = F.relu(self.c3(x)).squeeze(2).permute(2, 0, 1)
        return self.o(self.l(x)[0]).log_softmax(2)


@graph({"image": {0: "batch", 3: "width"}}, {"batch": 1, "width": 32}, {"batch": 2, "width": 72})
class Svtr(nn.Module):
    """A recogniser that mixes patches of a line of text by attention over all of them and halves its height."""

    def __init__(self):
        super().__init__()
        self.c1, self.c2 = ConvBnSilu(3, 12, 3, 2), ConvBnSilu(12, 24, 3, 2)
        self.n1, self.qkv, self.p, self.n2 = nn.LayerNorm(24), nn.Linear(24, 72), nn.Linear(24, 24), nn.LayerNorm(24)
        self.up, self.down, self.m = nn.Linear(24, 48), nn.Linear(48, 24), nn.Conv2d(24, 24, 3, (2, 1), 1)
        self.o = nn.Linear(24, 13)

    def example(self, batch, width):
        return {"image": torch.randn(batch, 3, 16, width)}

    def forward(self, image):
        x = self.c2(self.c1(image))
        b, c, h, w = x.shape
        x = x.flatten(2).transpose(1, 2)
        q, k, v = self.qkv(self.n1(x)).reshape(b, -1, 3, 3, 8).permute(2, 0, 3, 1, 4).unbind(0)
        x = x + self.p(((q * 8**-0.5) @ k.transpose(-2, -1)).softmax(-1).matmul(v).transpose(1, 2).reshape(b, -1, 24))
        x = x + self.down(F.gelu(self.up(self.n2(x))))
        x = self.m(x.permute(0, 2, 1).reshape(b, c, h, w))
        return self.o(x.mean(2).permute(0, 2, 1)).softmax(2)


@graph({"image": {0: "batch", 2: "height", 3: "width"}},
       {"batch": 1, "height": 32, "width": 32}, {"batch": 1, "height": 64, "width": 96}, gradients=True)
class TextDetector(nn.Module):
    """A pyramid resized to the finest level by its size, then two transposed convolutions to a map of probabilities."""

    def __init__(self):
        super().__init__()
        widths = (8, 12, 16, 24)
        self.s = nn.ModuleList(nn.Conv2d(n, m, 3, 2, 1) for n, m in zip((3, *widths), widths))
        self.l = nn.ModuleList(nn.Conv2d(m, 16, 1, bias=False) for m in widths[1:])
        self.c = nn.ModuleList(nn.Conv2d(16, 6, 3, 1, 1, bias=False) for _ in range(3))
        self.a, self.n1, self.b = nn.Conv2d(18, 8, 3, 1, 1), nn.BatchNorm2d(8), nn.ConvTranspose2d(8, 8, 2, 2)
        self.n2, self.d = nn.BatchNorm2d(8), nn.ConvTranspose2d(8, 1, 2, 2)

    def example(self, batch, height, width):
        return {"image": torch.randn(batch, 3, height, width)}

    def forward(self, image):
        x, levels = image, []
        for s in self.s:
            x = F.hardswish(s(x))
            levels.append(x)
        p = [l(x) for l, x in zip(self.l, levels[1:])]
        for k in (1, 0):
            p[k] = p[k] + F.interpolate(p[k + 1], size=p[k].shape[2:], mode="nearest")
        fine = p[0].shape[2:]
        x = torch.cat([F.interpolate(c(q), size=fine, mode="bilinear", align_corners=False) for c, q in zip(self.c, p)], 1)
        return torch.sigmoid(self.d(F.relu(self.n2(self.b(F.relu(self.n1(self.a(x))))))))


@graph({"image": {0: "batch"}}, {"batch": 2}, {"batch": 1}, {"batch": 5}, gradients=True)
class MobileNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.i, self.bi = nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8)
        self.e, self.be = nn.Conv2d(8, 24, 1, bias=False), nn.BatchNorm2d(24)
        self.d, self.bd = nn.Conv2d(24, 24, 5, 1, 2, groups=24, bias=False), nn.BatchNorm2d(24)
        self.f1, self.f2 = nn.Conv2d(24, 8, 1), nn.Conv2d(8, 24, 1)
        self.p, self.bp, self.o = nn.Conv2d(24, 8, 1, bias=False), nn.BatchNorm2d(8), nn.Linear(8, 10)

    def example(self, batch):
        return {"image": torch.randn(batch, 3, 20, 20)}

    def forward(self, image):
        x = F.hardswish(self.bi(self.i(image)))
        y = F.hardswish(self.bd(self.d(F.hardswish(self.be(self.e(x))))))
        y = y * F.hardsigmoid(self.f2(F.relu(self.f1(F.adaptive_avg_pool2d(y, 1)))))
        return self.o((x + self.bp(self.p(y))).mean((2, 3)))


@graph({"image": {0: "batch", 2: "height", 3: "width"}}, {"batch": 1, "height": 24, "width": 32}, {"batch": 2, "height": 40, "width": 24})
class SegFormer(nn.Module):
    """Overlapping patches, keys and values from a reduced map, depthwise convolution inside the unit, masks at the image's size."""

    def __init__(self):
        super().__init__()
        self.p, self.n = nn.Conv2d(3, 16, 7, 4, 3), nn.ModuleList(nn.LayerNorm(16) for _ in range(3))
        self.q, self.k, self.v, self.o, self.s = *(nn.Linear(16, 16) for _ in range(4)), nn.Conv2d(16, 16, 2, 2)
        self.up, self.d, self.down, self.h = nn.Linear(16, 32), nn.Conv2d(32, 32, 3, 1, 1, groups=32), nn.Linear(32, 16), nn.Conv2d(16, 5, 1)

    def example(self, batch, height, width):
        return {"image": torch.randn(batch, 3, height, width)}

    def forward(self, image):
        x = self.p(image)
        b, c, h, w = x.shape
        x = self.n[0](x.flatten(2).transpose(1, 2))
        y = self.n[1](x)
        z = self.s(y.transpose(1, 2).reshape(b, c, h, w)).reshape(b, c, -1).transpose(1, 2)
        split = lambda t: t.view(b, -1, 2, 8).transpose(1, 2)
        a = (split(self.q(y)) @ split(self.k(z)).transpose(2, 3) / math.sqrt(8)).softmax(-1) @ split(self.v(z))
        x = x + self.o(a.transpose(1, 2).reshape(b, -1, c))
        y = self.up(self.n[2](x))
        y = self.d(y.transpose(1, 2).view(b, 32, h, w)).flatten(2).transpose(1, 2)
        x = (x + self.down(F.gelu(y))).transpose(1, 2).reshape(b, c, h, w)
        return F.interpolate(self.h(x), size=image.shape[2:], mode="bilinear", align_corners=False).argmax(1)


@graph({"image": {0: "batch", 2: "height", 3: "width"}}, {"batch": 1, "height": 16, "width": 24}, {"batch": 2, "height": 24, "width": 16},
       gradients=True)
class DeepLab(nn.Module):
    """Dilated convolutions beside a global mean, decoded with the first features, resized with corners aligned."""

    def __init__(self):
        super().__init__()
        self.a, self.b = ConvBnSilu(3, 12, 3, 2), ConvBnSilu(12, 16, 3, 2)
        self.d = nn.ModuleList(nn.Conv2d(16, 8, 3, padding=k, dilation=k) for k in (1, 2, 3))
        self.g, self.p, self.l, self.o = nn.Conv2d(16, 8, 1), nn.Conv2d(32, 12, 1), nn.Conv2d(12, 6, 1), nn.Conv2d(18, 4, 3, 1, 1)

    def example(self, batch, height, width):
        return {"image": torch.randn(batch, 3, height, width)}

    def forward(self, image):
        a = self.a(image)
        x = self.b(a)
        size = lambda t, like: F.interpolate(t, size=like.shape[-2:], mode="bilinear", align_corners=True)
        g = size(F.relu(self.g(x.mean((2, 3), keepdim=True))), x)
        x = F.relu(self.p(torch.cat([*(F.relu(d(x)) for d in self.d), g], 1)))
        return size(self.o(torch.cat([size(x, a), self.l(a)], 1)), image)


@graph({"image": {0: "batch", 2: "height", 3: "width"}, "mask": {0: "batch", 2: "height", 1: None, 3: "width"}},
       {"batch": 1, "height": 16, "width": 16}, {"batch": 2, "height": 24, "width": 16}, exporters=("torchscript",))
class Detr(nn.Module):
    """Positions from cumulative sums of a mask, learned queries, boxes by sigmoid."""

    def __init__(self):
        super().__init__()
        self.c = nn.Sequential(nn.Conv2d(3, 12, 3, 2, 1), nn.ReLU(), nn.Conv2d(12, 24, 3, 2, 1))
        self.e, self.d = Layer(24, 3), Layer(24, 3)
        self.q, self.cls, self.box = nn.Embedding(6, 24), nn.Linear(24, 5), nn.Sequential(nn.Linear(24, 24), nn.ReLU(), nn.Linear(24, 4))

    def example(self, batch, height, width):
        mask = torch.zeros(batch, 1, height, width)
        mask[0, :, :, : width * 3 // 4] = 1
        mask[1:] = 1
        return {"image": torch.randn(batch, 3, height, width), "mask": mask}

    def forward(self, image, mask):
        x = self.c(image)
        m = F.interpolate(mask, size=x.shape[-2:])[:, 0] > 0.5
        y, z = m.cumsum(1, dtype=torch.float32), m.cumsum(2, dtype=torch.float32)
        y, z = y / (y[:, -1:, :] + 1e-6) * 2 * math.pi, z / (z[:, :, -1:] + 1e-6) * 2 * math.pi
        d = 10000 ** (2 * torch.div(torch.arange(12), 2, rounding_mode="floor").float() / 12)
        wave = lambda t: torch.stack([(t[..., None] / d)[..., 0::2].sin(), (t[..., None] / d)[..., 1::2].cos()], -1).flatten(3)
        p = torch.cat([wave(y), wave(z)], -1).flatten(1, 2)
        x = self.e(x.flatten(2).transpose(1, 2) + p)
        h = self.d(self.q.weight[None].expand(x.shape[0], -1, -1), x)
        return self.cls(h), self.box(h).sigmoid()


@graph({"image": {0: "batch"}, "ids": {0: "texts", 1: "length"}}, {"batch": 2, "texts": 3, "length": 6}, {"batch": 1, "texts": 2, "length": 9})
class Clip(nn.Module):
    """Two towers; the text's vector is where its largest token stands."""

    def __init__(self):
        super().__init__()
        self.c, self.cls, self.pos = nn.Conv2d(3, 24, 8, 8, bias=False), nn.Parameter(torch.randn(24)), nn.Parameter(torch.randn(5, 24))
        self.v = nn.TransformerEncoderLayer(24, 3, 48, 0.0, F.gelu, batch_first=True, norm_first=True)
        self.e, self.tp = nn.Embedding(30, 24), nn.Parameter(torch.randn(12, 24))
        self.q, self.k, self.w, self.o, self.n = *(nn.Linear(24, 24) for _ in range(4)), nn.LayerNorm(24)
        self.vp, self.sp, self.scale = nn.Parameter(torch.randn(24, 16)), nn.Parameter(torch.randn(24, 16)), nn.Parameter(torch.tensor(2.0))

    def example(self, batch, texts, length):
        return {"image": torch.randn(batch, 3, 16, 16), "ids": torch.randint(0, 30, (texts, length))}

    def forward(self, image, ids):
        x = self.c(image).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(x.shape[0], 1, -1), x], 1) + self.pos
        x = self.v(x)[:, 0] @ self.vp
        n = ids.shape[1]
        t = self.e(ids) + self.tp[:n]
        mask = torch.full((n, n), float("-inf")).triu(1)
        t = t + self.o(attend(self.q(t), self.k(t), self.w(t), 3, mask))
        t = self.n(t)[torch.arange(t.shape[0]), ids.argmax(-1)] @ self.sp
        x, t = x / x.norm(dim=-1, keepdim=True), t / t.norm(dim=-1, keepdim=True)
        s = self.scale.exp() * x @ t.T
        return s, s.T


@graph({"image": {0: "batch"}, "points": {0: "batch", 1: "points"}, "labels": {0: "batch", 1: "points"}},
       {"batch": 2, "points": 4}, {"batch": 1, "points": 2})
class PromptMask(nn.Module):
    """Clicks as random Fourier features by label, two-way attention, masks as products of tokens and an upscaled map."""

    def __init__(self):
        super().__init__()
        self.register_buffer("gauss", torch.randn(2, 8))
        self.label, self.empty = nn.Embedding(2, 16), nn.Parameter(torch.randn(16))
        self.c, self.token = nn.Conv2d(3, 16, 4, 4), nn.Embedding(3, 16)
        self.a, self.b = Layer(16, 2), Layer(16, 2)
        self.u, self.n, self.h = nn.ConvTranspose2d(16, 8, 2, 2), nn.GroupNorm(1, 8), nn.Linear(16, 8)

    def example(self, batch, points):
        return {"image": torch.randn(batch, 3, 16, 16), "points": torch.rand(batch, points, 2) * 16,
                "labels": torch.randint(-1, 2, (batch, points))}

    def forward(self, image, points, labels):
        p = 2 * math.pi * ((2 * (points + 0.5) / 16 - 1) @ self.gauss)
        p = torch.cat([p.sin(), p.cos()], -1)
        p = torch.where(labels[..., None] == -1, self.empty, p) + torch.where(labels[..., None] == 0, self.label.weight[0], 0.0)
        p = p + torch.where(labels[..., None] == 1, self.label.weight[1], 0.0)
        x = self.c(image)
        k = x.flatten(2).transpose(1, 2)
        t = torch.cat([self.token.weight[None].expand(k.shape[0], -1, -1), p], 1)
        t = self.a(t, k)
        k = self.b(k, t)
        y = F.gelu(self.n(self.u(k.transpose(1, 2).reshape(x.shape))))
        return (self.h(t[:, :3]) @ y.flatten(2)).reshape(y.shape[0], 3, y.shape[2], y.shape[3])


@graph({"x": {0: "batch", 2: "height", 3: "width"}}, {"batch": 1, "height": 8, "width": 8}, {"batch": 1, "height": 9, "width": 13},
       gradients=True)
class SuperResolution(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Conv2d(1, 16, 5, 1, 2), nn.Conv2d(16, 16, 3, 1, 1), nn.Conv2d(16, 9, 3, 1, 1)

    def example(self, batch, height, width):
        return {"x": torch.rand(batch, 1, height, width)}

    def forward(self, x):
        y = F.pixel_shuffle(self.c(torch.tanh(self.b(F.leaky_relu(self.a(x), 0.2)))), 3)
        return y + F.interpolate(x, scale_factor=3.0, mode="bicubic", align_corners=False)


@graph({"x": {2: "height", 3: "width"}}, {"height": 16, "width": 20}, {"height": 21, "width": 18}, gradients=True)
class StyleTransfer(nn.Module):
    """Reflected borders, norms by instance, nearest upsampling to where it came from."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Conv2d(3, 8, 5), nn.Conv2d(8, 12, 3, 2), nn.Conv2d(12, 8, 3)
        self.n1, self.n2, self.o = nn.InstanceNorm2d(8, affine=True), nn.InstanceNorm2d(12, affine=True), nn.Conv2d(8, 3, 5)

    def example(self, height, width):
        return {"x": torch.rand(1, 3, height, width)}

    def forward(self, x):
        pad = lambda t, k: F.pad(t, (k, k, k, k), "reflect")
        y = F.relu(self.n1(self.a(pad(x, 2))))
        y = F.relu(self.n2(self.b(pad(y, 1))))
        y = F.relu(self.c(pad(F.interpolate(y, size=x.shape[2:], mode="nearest"), 1)))
        return self.o(pad(y, 2))


@graph({"a": {0: "batch", 2: "height", 3: "width"}, "b": {0: "batch", 2: "height", 3: "width"}},
       {"batch": 1, "height": 8, "width": 8}, {"batch": 2, "height": 10, "width": 12})
class OpticalFlow(nn.Module):
    """A volume of correlations by unfolding, a flow, the second image warped by it."""

    def __init__(self):
        super().__init__()
        self.f, self.o = nn.Conv2d(3, 8, 3, 1, 1), nn.Conv2d(9 + 8, 2, 3, 1, 1)

    def example(self, batch, height, width):
        return {"a": torch.rand(batch, 3, height, width), "b": torch.rand(batch, 3, height, width)}

    def forward(self, a, b):
        x, y = F.relu(self.f(a)), F.relu(self.f(b))
        n, c, h, w = x.shape
        y = F.pad(y, (1, 1, 1, 1))
        volume = torch.stack([(x * y[:, :, i : i + h, j : j + w]).mean(1) for i in range(3) for j in range(3)], 1)
        flow = self.o(torch.cat([volume, x], 1))
        gy, gx = torch.meshgrid(torch.linspace(-1, 1, h), torch.linspace(-1, 1, w), indexing="ij")
        grid = torch.stack([gx, gy], -1)[None] + flow.permute(0, 2, 3, 1) * 0.1
        return F.grid_sample(b, grid, mode="bilinear", padding_mode="border", align_corners=True), flow


@graph({"features": {0: "images", 2: "height", 3: "width"}, "boxes": {0: "boxes"}},
       {"images": 2, "height": 12, "width": 12, "boxes": 3}, {"images": 1, "height": 16, "width": 10, "boxes": 5}, exporters=("torchscript",))
class RoiHead(nn.Module):
    """Boxes of a second stage: aligned regions, a score and offsets each, suppression of what overlaps."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(8 * 9, 24), nn.Linear(24, 3), nn.Linear(24, 4)

    def example(self, images, height, width, boxes):
        lo = torch.rand(boxes, 2) * 24
        index = torch.arange(boxes).float()[:, None] % images
        return {"features": torch.randn(images, 8, height, width), "boxes": torch.cat([index, lo, lo + 4 + torch.rand(boxes, 2) * 16], 1)}

    def forward(self, features, boxes):
        x = torch.ops.torchvision.roi_align(features, boxes, 0.25, 3, 3, 2, True)
        x = F.relu(self.a(x.flatten(1)))
        score, moved = self.b(x).softmax(-1)[:, 1], boxes[:, 1:] + torch.tanh(self.c(x))
        keep = torch.ops.torchvision.nms(moved, score, 0.5)
        return moved[keep], score[keep]


@graph({"maps": {0: "people"}}, {"people": 2}, {"people": 5})
class Keypoints(nn.Module):
    """Where heat maps are highest, moved by a quarter towards the higher neighbour."""

    def __init__(self):
        super().__init__()
        self.c = nn.Conv2d(4, 6, 3, 1, 1)

    def example(self, people):
        return {"maps": torch.randn(people, 4, 12, 10)}

    def forward(self, maps):
        h = self.c(maps)
        flat = h.flatten(2)
        best, index = flat.max(-1)
        x, y = (index % 10).float(), torch.div(index, 10, rounding_mode="floor").float()
        right = torch.gather(flat, 2, (index + 1).clamp(max=119)[..., None])[..., 0]
        left = torch.gather(flat, 2, (index - 1).clamp(min=0)[..., None])[..., 0]
        return torch.stack([x + 0.25 * torch.sign(right - left), y], -1), best


# -- Points, graphs, tables, sequences ----------------------------------------------------------------------------


@graph({"points": {0: "batch", 2: "points"}}, {"batch": 2, "points": 16}, {"batch": 1, "points": 50}, gradients=True)
class PointNet(nn.Module):
    """A learned rotation of the points, then the largest of each feature over all points."""

    def __init__(self):
        super().__init__()
        self.t, self.tl = nn.Conv1d(3, 16, 1), nn.Linear(16, 9)
        self.a, self.b, self.n, self.o = nn.Conv1d(3, 16, 1), nn.Conv1d(16, 32, 1), nn.BatchNorm1d(32), nn.Linear(32, 5)

    def example(self, batch, points):
        return {"points": torch.randn(batch, 3, points)}

    def forward(self, points):
        m = self.tl(F.relu(self.t(points)).max(2)[0]).view(-1, 3, 3) + torch.eye(3)[None]
        x = torch.bmm(points.transpose(2, 1), m).transpose(2, 1)
        return self.o(self.n(self.b(F.relu(self.a(x)))).max(2)[0]).log_softmax(1)


@graph({"x": {0: "nodes"}, "edges": {1: "edges"}}, {"nodes": 5, "edges": 9}, {"nodes": 8, "edges": 3}, {"nodes": 3, "edges": 20})
class GraphNetwork(nn.Module):
    """Messages along edges added up and the largest of them taken at the nodes where they end."""

    def __init__(self):
        super().__init__()
        self.m, self.u, self.o = nn.Linear(16, 8), nn.Linear(24, 8), nn.Linear(8, 4)

    def example(self, nodes, edges):
        return {"x": torch.randn(nodes, 8), "edges": torch.randint(0, nodes, (2, edges))}

    def forward(self, x, edges):
        source, end = edges[0], edges[1]
        m = F.relu(self.m(torch.cat([x[source], x[end]], -1)))
        index = end[:, None].expand(-1, 8)
        total = torch.zeros(x.shape[0], 8).scatter_add(0, index, m)
        most = torch.zeros(x.shape[0], 8).scatter_reduce(0, index, m, "amax", include_self=True)
        return self.o(F.relu(self.u(torch.cat([x, total, most], -1))))


@graph({"dense": {0: "batch"}, "sparse": {0: "batch"}}, {"batch": 3}, {"batch": 1}, {"batch": 17}, gradients=True)
class Recommender(nn.Module):
    """Products of pairs of embeddings beside dense features."""

    def __init__(self):
        super().__init__()
        self.e = nn.ModuleList(nn.Embedding(n, 8) for n in (20, 7, 50))
        self.d, self.t = nn.Linear(5, 8), nn.Linear(8 + 6, 1)
        i, j = torch.tril_indices(4, 4, -1)
        self.register_buffer("pairs", i * 4 + j)

    def example(self, batch):
        return {"dense": torch.rand(batch, 5), "sparse": torch.stack([torch.randint(0, n, (batch,)) for n in (20, 7, 50)], 1)}

    def forward(self, dense, sparse):
        d = F.relu(self.d(torch.log1p(dense)))
        x = torch.stack([d, *(e(sparse[:, k]) for k, e in enumerate(self.e))], 1)
        z = torch.bmm(x, x.transpose(1, 2)).flatten(1)[:, self.pairs]
        return torch.sigmoid(self.t(torch.cat([d, z], 1)))


@graph({"x": {0: "batch", 1: "time"}}, {"batch": 2, "time": 12}, {"batch": 1, "time": 7}, gradients=True)
class Forecaster(nn.Module):
    """A series normalised by itself, split in trend and rest by a moving mean, gated dilated convolutions, the norm undone."""

    def __init__(self):
        super().__init__()
        self.i = nn.Conv1d(2, 16, 1)
        self.d = nn.ModuleList(nn.Conv1d(16, 32, 2, dilation=2**k) for k in range(3))
        self.o = nn.Linear(16, 4)

    def example(self, batch, time):
        return {"x": torch.randn(batch, time).cumsum(1)}

    def forward(self, x):
        mean, std = x.mean(1, keepdim=True), torch.sqrt(x.var(1, keepdim=True, unbiased=False) + 1e-5)
        z = (x - mean) / std
        front, back = z[:, :1].repeat(1, 2), z[:, -1:].repeat(1, 2)
        trend = F.avg_pool1d(torch.cat([front, z, back], 1)[:, None], 5, 1)
        y = self.i(torch.cat([trend, z[:, None] - trend], 1))
        for k, d in enumerate(self.d):
            g = d(F.pad(y, (2**k, 0)))
            y = y + torch.tanh(g[:, :16]) * torch.sigmoid(g[:, 16:])
        return self.o(y[:, :, -1]) * std + mean


@graph({"x": {0: "batch", 1: "time"}}, {"batch": 1, "time": 6}, {"batch": 2, "time": 10})
class SelectiveScan(nn.Module):
    """A diagonal recurrence whose steps depend on the input, computed in parallel by cumulative sums of logarithms."""

    def __init__(self):
        super().__init__()
        self.i, self.c, self.dt, self.bc = nn.Linear(8, 32), nn.Conv1d(16, 16, 3, groups=16, padding=2), nn.Linear(16, 16), nn.Linear(16, 8)
        self.a, self.d, self.o = nn.Parameter(torch.rand(16, 4)), nn.Parameter(torch.randn(16)), nn.Linear(16, 8)

    def example(self, batch, time):
        return {"x": torch.randn(batch, time, 8)}

    def forward(self, x):
        u, z = self.i(x).chunk(2, -1)
        u = F.silu(self.c(u.transpose(1, 2))[..., : x.shape[1]].transpose(1, 2))
        dt, (b, c) = F.softplus(self.dt(u)), self.bc(u).chunk(2, -1)
        log = (-dt[..., None] * self.a.exp()).cumsum(1)
        h = torch.exp(log) * (torch.exp(-log) * dt[..., None] * u[..., None] * b[:, :, None]).cumsum(1)
        return self.o(((h * c[:, :, None]).sum(-1) + u * self.d) * F.silu(z))


@graph({"x": {0: "rows"}}, {"rows": 6}, {"rows": 9})
class Masked(nn.Module):
    """Rows whose score is above the mean go on, padded back to where they were."""

    def __init__(self):
        super().__init__()
        self.s, self.f = nn.Linear(6, 1), nn.Linear(6, 4)

    def example(self, rows):
        return {"x": torch.randn(rows, 6)}

    def forward(self, x):
        s = self.s(x)[:, 0]
        where = torch.nonzero(s > s.mean())[:, 0]
        y = torch.relu(self.f(x[where]))
        return torch.zeros(x.shape[0], 4).index_copy(0, where, y), y
