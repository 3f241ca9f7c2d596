#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Modules drawn at random under torch.compile beside eager PyTorch: results, buffers and gradients.

usage: random_modules.py [FIRST [COUNT]] [--level=L]     modules of these numbers; exit status 1 where one is wrong
       random_modules.py show NUMBER

A module is a list of layers and of lines, each drawn so that it runs at three sizes of the inputs' open axes. Its number decides how it is compiled (dynamic=False, True, None: with
what dynamo makes dynamic by itself), and where in it an operator stands that the compiler does not know: nowhere, in front, behind, beside, in the middle. What is wrong is made smaller
by leaving lines out, and printed. The measure is PyTorch in double precision: results are wrong that lie further from it than eager PyTorch's in single precision do, by a factor.
"""
import copy
import os
import random
import sys
import time
import warnings

import torch
import torch.nn as nn
import torch.nn.functional as F

MODES = {"static": False, "dynamic": True, "automatic": None}
PLACES = "nowhere", "front", "behind", "beside", "middle"
warnings.simplefilter("ignore")


@torch.library.custom_op("tccc_tests::odd", mutates_args=())
def odd(x: torch.Tensor) -> torch.Tensor:
    return x.sin() * 2


@torch.library.custom_op("tccc_tests::odd_backward", mutates_args=())
def odd_backward(g: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return g * x.cos() * 2


odd.register_fake(torch.empty_like)
odd_backward.register_fake(lambda g, x: torch.empty_like(x))
odd.register_autograd(lambda ctx, g: odd_backward(g, *ctx.saved_tensors), setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs))

# What the compiler does not know, with and without a gradient that it does not know either. The last is known forward.
STRANGE = ("torch.special.airy_ai({x}.detach().clamp(-2, 2)) * {x}", "torch.mode({x}.detach().flatten())[0] * {x}", "torch.ops.tccc_tests.odd({x})", "{x} * torch.special.hermite_polynomial_h({x}.detach().tanh(), 2)",
           "{x} + torch.cdist({x}.reshape(1, {x}.shape[0], -1), {x}.reshape(1, {x}.shape[0], -1).tanh(), p=float('inf')).mean()")

PLAIN = """F.relu({x}) F.gelu({x}) F.gelu({x},approximate='tanh') F.silu({x}) {x}.tanh() {x}.sigmoid() F.elu({x}) F.softplus({x}) F.hardswish({x}) F.mish({x}) F.leaky_relu({x},0.1) (-{x}.square()).exp() {x}.sin() {x}/(1+{x}.abs())
{x}.clamp(-1,1) torch.where({x}>0.1,{x},0.3*{x}) ({x}.abs()+0.5).log() ({x}.abs()+1).sqrt() ({x}.square()+1).rsqrt() F.hardtanh({x}) F.softsign({x}) F.celu({x}) F.logsigmoid({x}) F.tanhshrink({x}) F.softshrink({x})
{x}.masked_fill({x}>1,0.5) torch.atan2({x},{x}.abs()+1) {x}.erf() {x}*{x}.detach() {x}.relu().square() {x}.pow(2)/3 torch.maximum({x},-0.2*{x}) {x}.lerp({x}.cos(),0.3) torch.addcmul({x},{x}.sin(),{x}.cos(),value=0.5) F.threshold({x},0.05,-0.1)
F.selu({x}) F.hardsigmoid({x}) {x}.abs() {x}.expm1().clamp(max=2) torch.hypot({x},{x}*0+1) {x}-{x}.mean() {x}/({x}.norm()+1) {x}*{x}.shape[0] {x}/({x}.numel()) {x}+({x}.shape[0]//2) F.dropout({x},0.0) {x}.clone() {x}.contiguous()
F.normalize({x},dim=0) {x}.nan_to_num() ({x}*3).round()*0.1+{x} torch.floor({x})*0.1+{x} {x}.frac() {x}.cos().to(torch.bfloat16).to({x}.dtype)*0.1+{x} -{x} {x}.flatten()[0]*{x} torch.logaddexp({x},-{x}) torch.xlogy({x},{x}.abs()+0.5)""".split()

# Along an axis {d}, whose size in each call is {n}.
ALONG = """{x}.softmax({d}) {x}.log_softmax({d}) {x}.cumsum({d}) {x}.mean({d},keepdim=True)*{x} {x}.sum({d},keepdim=True)+{x} {x}.amax({d},keepdim=True)-{x} {x}.logsumexp({d},keepdim=True)*{x} {x}.flip({d}) {x}.roll(1,{d}) torch.cat([{x},{x}*2],{d})
{x}.chunk(2,{d})[0] {x}.chunk(3,{d})[-1] {x}.split(2,{d})[0] {x}.tensor_split(2,{d})[1] {x}.narrow({d},{n}//4,{n}//2) {x}.narrow({d},0,{n}//2)+{x}.narrow({d},{n}-{n}//2,{n}//2) {x}.unbind({d})[0] {x}.select({d},-1) {x}.mean({d}) {x}.sum({d})
{x}.amax({d}) {x}.amin({d}) {x}.var({d}) {x}.std({d},keepdim=True)+{x} {x}.norm(dim={d}) F.normalize({x},dim={d}) {x}.topk(2,{d})[0] {x}.sort({d})[0] {x}.gather({d},{x}.argsort({d})) {x}.index_select({d},torch.arange({n}//2)) {x}.repeat_interleave(2,{d})
{x}.diff(dim={d}) {x}.unsqueeze({d}) {x}.max({d})[0] {x}.median({d})[0] {x}.unfold({d},2,1).mean(-1) {x}.unfold({d},{n}//2,1).amax(-1) {x}*torch.arange({n},dtype={x}.dtype).view([-1]+[1]*({x}.dim()-1-{d})) torch.stack([{x},{x}.sin()],{d})
torch.cat([{x},{x}.narrow({d},0,1)],{d}) {x}.movedim({d},0) {x}.movedim({d},-1) {x}.transpose({d},0) {x}.index_add({d},torch.zeros(1,dtype=torch.long),{x}.narrow({d},0,1)) {x}.cumprod({d}).clamp(-3,3) torch.logcumsumexp({x},{d})
F.glu({x},{d}) torch.stack({x}.unbind({d}),{d}).flip({d}) {x}.take_along_dim({x}.argmax({d},keepdim=True),{d}) {x}.scatter({d},{x}.argmax({d},keepdim=True),0.5) {x}.cummax({d})[0] {x}.var({d},unbiased=False,keepdim=True).add(1).rsqrt()*{x}
{x}.split([{n}//2,{n}-{n}//2],{d})[1] {x}.index_fill({d},torch.tensor([0]),0.7) {x}.mean({d},keepdim=True).expand_as({x})*{x} F.softmin({x},{d}) {x}-{x}.max({d},keepdim=True)[0] {x}.kthvalue(2,{d})[0] {x}.aminmax(dim={d})[0]""".split()

# Statements, with {v} the new name.
STATEMENTS = ("{v} = {x}.clone(); {v}[0] = 0.5", "{v} = {x} * 1; {v}.add_(1).mul_(0.5)", "{v} = {x} * 1; {v}[..., : {v}.shape[-1] // 2] *= 2", "{v} = {x}.clone(); {v}[:1].zero_()", "{v} = torch.zeros_like({x}); {v}.copy_({x})",
              "with torch.no_grad(): w = {x}.mean()\n{v} = {x} * w", "with torch.no_grad(): w = {x} * 2\n{v} = w + {x}", "w = {x}.detach().abs() + 1; {v} = {x} / w", "torch._dynamo.graph_break(); {v} = {x} * 2",
              "{v} = {x} * 2 if {x}.shape[0] > 3 else {x} * 3", "{v} = {x} * 1\nfor k in range(2): {v} = {v} + {x}.sin() * k", "{v} = {x} * 1; {v}.relu_()", "{v} = {x}.new_zeros({x}.shape) + {x}", "{v} = {x} + torch.ones({x}.shape[0], *[1] * ({x}.dim() - 1))",
              "w = {x} * 1; w.transpose(0, -1).mul_(2); {v} = w + {x}", "w = {x}.flatten(); {v} = w.view({x}.shape) * 2", "{v} = {x} * 1; {v}.masked_fill_({x} > 0.5, 0)", "with torch.inference_mode(False): {v} = {x} * 3", "{v} = torch.empty_like({x}).fill_(2) * {x}")


class Sizes:
    """What is known of a tensor at all sizes of the inputs."""

    def __init__(self, tensors):
        self.rank = tensors[0].dim()
        self.all = [t.shape for t in tensors]

    def fixed(self, d):
        """Its size along d; None: open."""
        found = {s[d] for s in self.all}
        return found.pop() if len(found) == 1 else None

    def least(self, d):
        return min(s[d] for s in self.all)

    def axis(self, r, least=1):
        found = [d for d in range(self.rank) if self.least(d) >= least]
        return r.choice(found) if found else None


def divisor(r, n):
    return r.choice([k for k in range(1, n + 1) if n % k == 0])


# Each of the generator, the sizes and a function that makes a layer of a text and gives its name: a line's right side, or None.
def linear(r, t, layer):
    n = t.fixed(-1)
    return n and f"{layer(f'nn.Linear({n}, {r.randint(2, 8)}, bias={r.random() < 0.8})')}({{x}})"


def norm_last(r, t, layer):
    n = t.fixed(-1)
    return n and f"{layer(r.choice((f'nn.LayerNorm({n})', f'nn.RMSNorm({n}, eps=1e-5)', f'nn.LayerNorm({n}, elementwise_affine=False)')))}({{x}})"


def norm_channels(r, t, layer):
    c = t.fixed(1) if t.rank in (2, 3, 4) else None
    if not c:
        return None
    d = max(t.rank - 2, 1)
    kinds = [f"nn.BatchNorm{d}d({c})", f"nn.BatchNorm{d}d({c}, track_running_stats=False)", f"nn.GroupNorm({divisor(r, c)}, {c})"]
    if t.rank > 2:
        kinds += [f"nn.InstanceNorm{d}d({c}, affine=True)", f"nn.GroupNorm({divisor(r, c)}, {c})", f"nn.PReLU({c})"]
    return f"{layer(r.choice(kinds))}({{x}})"


def convolution(r, t, layer):
    c = t.fixed(1) if t.rank in (3, 4) else None
    if not c:
        return None
    g, d = divisor(r, c), t.rank - 2
    how = f"{c}, {g * r.randint(1, 2)}, {r.randint(1, 3)}, stride={r.randint(1, 2)}, padding={r.randint(0, 1)}, groups={g}"
    if r.random() < 0.3:
        return f"{layer(f'nn.ConvTranspose{d}d({how})')}({{x}})"
    mode = r.choice(("zeros", "zeros", "reflect", "circular", "replicate"))
    make = f"nn.Conv{d}d({how}, dilation={r.randint(1, 2)}, padding_mode='{mode}')"
    return f"{layer(f'nn.utils.parametrizations.weight_norm({make})' if r.random() < 0.2 else make)}({{x}})"


def pooling(r, t, layer):
    if t.rank not in (3, 4):
        return None
    d, k = t.rank - 2, r.randint(2, 3)
    adaptive = r.choice(("1", "2", "3", "({x}.shape[2] // 2)" if d == 1 else "({x}.shape[2] // 2, None)"))
    return r.choice((f"F.max_pool{d}d({{x}}, {k}, stride={r.randint(1, 3)}, padding={r.randint(0, 1)}, ceil_mode={r.random() < 0.4})", f"F.avg_pool{d}d({{x}}, {k}, stride={r.randint(1, 3)}, padding={r.randint(0, 1)}, ceil_mode={r.random() < 0.4}, count_include_pad={r.random() < 0.5})",
                     f"F.adaptive_avg_pool{d}d({{x}}, {adaptive})", f"F.adaptive_max_pool{d}d({{x}}, {adaptive})", f"F.lp_pool{d}d({{x}}, 2, {k})", f"F.adaptive_avg_pool{d}d({{x}}, {adaptive})"))


def resampling(r, t, layer):
    if t.rank not in (3, 4):
        return None
    modes = ("nearest", "linear", "nearest-exact") if t.rank == 3 else ("nearest", "bilinear", "bicubic", "nearest-exact", "area")
    mode, size = r.choice(modes), r.choice(("scale_factor=2", "scale_factor=1.5", "size={x}.shape[2] * 2" if t.rank == 3 else "size=({x}.shape[2] * 2, {x}.shape[3] + 1)", "size=5", "size={x}.shape[-1] // 2 + 1"))
    corners = f", align_corners={r.random() < 0.5}" if "linear" in mode or "cubic" in mode else ""
    return f"F.interpolate({{x}}, {size}, mode='{mode}'{corners})"


def padding(r, t, layer):
    n = r.randint(1, min(t.rank, 3))
    pads = ", ".join(str(r.randint(0, 1)) for _ in range(2 * n))
    mode = r.choice(("constant", "constant", "reflect", "replicate", "circular"))
    return f"F.pad({{x}}, ({pads}), mode='{mode}'{', value=0.3' if mode == 'constant' else ''})"


def pictures(r, t, layer):
    c = t.fixed(1) if t.rank == 4 else None
    if not c:
        return None
    k = r.randint(1, 2)
    return r.choice((c % 4 == 0 and "F.pixel_shuffle({x}, 2)", "F.pixel_unshuffle({x}, 2)", f"F.unfold({{x}}, {r.randint(2, 3)}, stride={k})", f"F.channel_shuffle({{x}}, {divisor(r, c)})", "{x}.flatten(2).transpose(1, 2)", "{x}.permute(0, 2, 3, 1)",
                     f"F.fold(F.unfold({{x}}, 2, stride={k}), ({{x}}.shape[2], {{x}}.shape[3]), 2, stride={k})", "F.grid_sample({x}, F.affine_grid(torch.tensor([[[0.9, 0.1, 0.0], [0.0, 0.8, 0.1]]], dtype={x}.dtype).expand({x}.shape[0], 2, 3), {x}.shape, align_corners=False), align_corners=False)",
                     "{x}.mean((2, 3))", "{x}.amax((-1, -2))"))


def attention(r, t, layer):
    c = t.fixed(-1) if t.rank == 3 else None
    if not c:
        return None
    heads = divisor(r, c)
    mha = layer(f"nn.MultiheadAttention({c}, {heads}, batch_first=True)") if r.random() < 0.5 else None
    if mha:
        return r.choice((f"{mha}({{x}}, {{x}}, {{x}}, need_weights=False)[0]", f"{mha}({{x}}, {{x}}, {{x}})[0]", f"{mha}({{x}}, {{x}}, {{x}}, attn_mask=nn.Transformer.generate_square_subsequent_mask({{x}}.shape[1], dtype={{x}}.dtype), is_causal=True)[0]"))
    if r.random() < 0.3:
        return f"{layer(f'nn.TransformerEncoderLayer({c}, {heads}, 6, 0.0, batch_first=True, norm_first={r.random() < 0.5})')}({{x}})"
    q = f"{{x}}.view({{x}}.shape[0], {{x}}.shape[1], {heads}, -1).transpose(1, 2)"
    mask = r.choice(("", ", is_causal=True", ", attn_mask=torch.ones({x}.shape[1], {x}.shape[1], dtype=torch.bool).tril()"))
    return f"F.scaled_dot_product_attention({q}, {q} * 2, {q} + 1{mask}).transpose(1, 2).flatten(2)"


def recurrent(r, t, layer):
    c = t.fixed(-1) if t.rank == 3 else None
    kind, both = r.choice(("LSTM", "GRU", "RNN")), r.random() < 0.3
    return c and f"{layer(f'nn.{kind}({c}, {r.randint(2, 4)}, batch_first=True, bidirectional={both})')}({{x}})[0]"


def shapes(r, t, layer):
    found = ["{x}.flatten()", "{x}.reshape({x}.shape[0], -1)", "{x}.squeeze()"]
    if t.rank > 1:
        a = r.randrange(t.rank - 1)
        order = tuple(r.sample(range(t.rank), t.rank))
        found += [f"{{x}}.flatten({a}, {r.randrange(a + 1, t.rank)})", "{x}.view({x}.shape[0] * {x}.shape[1], -1)", f"{{x}}.permute{order}", "{x}.transpose(0, 1)", "{x}.transpose(-1, -2)", f"{{x}}.permute{order}.flatten({a})",
                  "{x}.triu()", "{x}.tril(-1)", "{x}.diagonal(dim1=-2, dim2=-1)"]
    d = t.axis(r)
    if d is not None and t.fixed(d):
        k = divisor(r, t.fixed(d))
        found += [f"{{x}}.unflatten({d}, ({k}, -1))", f"{{x}}.unflatten({d}, (-1, {k})).flip({d})"]
    if d is not None:
        found += [f"{{x}}.expand(2, *{{x}}.shape)", f"{{x}}.repeat({', '.join(str(r.randint(1, 2)) for _ in range(t.rank))})", f"{{x}}[{', '.join([':'] * d + [r.choice(('::2', '1:', ':-1', ': {x}.shape[%d] // 2' % d, 'None', '-2:'))])}]"]
    return r.choice(found)


def products(r, t, layer):
    if t.rank < 2:
        return r.choice(("torch.outer({x}, {x})", "{x}.dot({x}) * {x}", "{x}[:, None] - {x}[None]", "torch.cartesian_prod({x}, {x})"))
    found = ["{x} @ {x}.transpose(-1, -2)", "{x}.transpose(-1, -2) @ {x} / {x}.shape[-2]", "torch.einsum('...ij,...kj->...ik', {x}, {x})", "F.cosine_similarity({x}, {x}.sin(), -1)", "{x} * {x}.flip(-1)"]
    if t.rank == 2:
        found += ["torch.cdist({x}, {x}.cos())", "torch.addmm({x} @ {x}.t(), {x}, {x}.t())", "F.pairwise_distance({x}, {x}.cos())", "torch.tensordot({x}, {x}, ([0], [0]))"]
    if t.rank == 3:
        found += ["torch.bmm({x}, {x}.transpose(1, 2))", "torch.baddbmm({x} @ {x}.mT, {x}, {x}.mT, alpha=0.1)"]
    return r.choice(found)


def indices(r, t, layer):
    k = r.randint(3, 6)
    table = layer(f"nn.Embedding({k}, {r.randint(2, 4)}{', padding_idx=0' if r.random() < 0.3 else ''})")
    return r.choice((f"{table}(({{x}} * 2).long().clamp(0, {k - 1}))", f"{table}({{x}}.argmax(-1) % {k})", f"F.one_hot({{x}}.argmax(-1) % {k}, {k}) * {{x}}.mean()", "{x}[torch.arange({x}.shape[0]).flip(0)]", "{x}[{x}.flatten(1).sum(1).argsort()]" if t.rank > 1 else "{x}[{x}.argsort()]"))


def along(r, t, layer):
    d = t.axis(r)
    return d is not None and r.choice(ALONG).replace("{d}", str(d)).replace("{n}", f"{{x}}.shape[{d}]")


MAKERS = ([lambda r, t, layer: r.choice(PLAIN)] * 3 + [along] * 4 + [linear] * 2 + [shapes] * 3 + [norm_last, norm_channels, convolution, convolution, pooling, pooling, resampling, padding, pictures, pictures,
                                                                                   attention, attention, recurrent, products, products, indices])


class Drawn:
    """A module's layers and lines, as text, and its inputs at three sizes."""

    def __init__(self, number):
        self.number, self.r = number, random.Random(number)
        self.mode, self.place = list(MODES)[number % 3], PLACES[number // 3 % 5] if number // 3 % 10 < 7 else "nowhere"
        r = self.r
        self.train, self.layers, self.lines, self.count = r.random() < 0.7, [], [], 0
        c = r.choice((3, 4, 6, 8))
        kind = r.choice(("rows", "sequences", "pictures", "signals"))
        a, b, e = r.sample(range(2, 7), 3), r.sample(range(4, 9), 3), r.sample(range(4, 9), 3)
        if r.random() < 0.3:
            e = b
        shape = {"rows": lambda k: (a[k], c), "sequences": lambda k: (a[k], b[k], c), "pictures": lambda k: (a[k], c, b[k], e[k]), "signals": lambda k: (a[k], c, b[k])}[kind]
        g = torch.Generator().manual_seed(number)
        self.inputs = [torch.randn(shape(k), generator=g) for k in range(3)]
        self.scopes = [scope(Net(), {"x": x.clone()}) for x in self.inputs]
        self.names, self.results = ["x"], []
        self.draw()

    def draw(self):
        r, most = self.r, self.r.randint(3, 7)
        strange = r.choice(STRANGE)
        if self.place == "front":
            self.line("{v} = {x} + 0.3 * " + strange, "x")
        for k in range(8 * most):
            if len(self.lines) >= most:
                break
            if self.place == "middle" and len(self.lines) == most // 2:
                self.line("{v} = {x} + 0.3 * " + strange, self.names[-1])
            self.step()
        last = self.names[-1]
        self.results = [last] + [n for n in r.sample(self.names[1:-1], min(1, max(len(self.names) - 2, 0))) if r.random() < 0.3]
        if self.place in ("behind", "beside"):
            if self.line("{v} = " + strange + ".sum() * 0.1", last if self.place == "behind" else self.names[len(self.names) // 2]):
                self.results.append(self.names[-1])
        elif self.place == "middle":
            self.line("{v} = {x}.sin()", last)
            self.results[0] = self.names[-1]

    def step(self):
        r = self.r
        x = self.names[-1] if r.random() < 0.8 else r.choice(self.names)
        t = Sizes([s[x] for s in self.scopes])
        if t.rank == 0:
            x, t = "x", Sizes(self.inputs)
        self.fresh = []
        if r.random() < 0.15:
            text = r.choice(STATEMENTS)
        elif r.random() < 0.12 and len(self.names) > 1:
            y = r.choice(self.names)
            text = "{v} = " + r.choice((f"{{x}} + {y}", f"{{x}} * {y}", f"torch.cat([{{x}}, {y}], 0)", f"{{x}} + {y}.mean()", f"{{x}} @ {y}", f"torch.cat([{{x}}, {y}], -1)"))
        else:
            made = r.choice(MAKERS)(r, t, self.layer)
            text = made and "{v} = " + made
        if text:
            self.line(text, x)

    def layer(self, text):
        self.fresh.append((f"l{len(self.layers) + len(self.fresh)}", text))
        return f"self.{self.fresh[-1][0]}"

    def line(self, text, x):
        """Takes it where it runs at all sizes, and the values stay finite and few."""
        fresh, self.fresh = getattr(self, "fresh", []), []
        v = f"v{self.count + 1}"
        text = text.format(x=x, v=v, d=0, n=0)
        fresh = [f for f in fresh if f"self.{f[0]}" in text]
        fresh = [(f"l{len(self.layers) + k}", f) for k, f in enumerate(fresh)]
        for new, (old, _) in fresh:
            text = text.replace(f"self.{old}", f"self.{new}")
        trial = [dict(s) for s in self.scopes]
        try:
            for k, s in enumerate(trial):
                for new, (_, make) in fresh:
                    torch.manual_seed(len(self.layers))
                    s["self"].add_module(new, eval(make, {"nn": nn}))
                with torch.no_grad():
                    exec(text, s)
        except (RuntimeError, IndexError, ValueError, TypeError, AssertionError, NotImplementedError):
            return False
        found = [s[v] for s in trial]
        if not all(f.is_floating_point() and f.dtype == torch.float32 and 0 < f.numel() <= 3000 and f.isfinite().all() and f.abs().max() < 1e3 and f.dim() == found[0].dim() <= 5 for f in found):
            return False
        self.count += 1
        self.scopes, self.layers = trial, self.layers + [(new, make) for new, (_, make) in fresh]
        self.lines.append((v, text))
        self.names.append(v)
        return True

    def net(self, lines=None, results=None):
        """The module, with these lines of its own."""
        torch.manual_seed(self.number)
        net = Net()
        for name, make in self.layers:
            net.add_module(name, eval(make, {"nn": nn}))
        for p in net.parameters():     # nothing that is all ones or zeros
            p.data.add_(torch.randn(p.shape) * 0.1)
        source = self.source(lines, results)
        space = scope(None, {})
        exec(source, space)
        Net.forward = space["forward"]
        made = type("Net", (Net,), {"forward": space["forward"]})
        net.__class__ = made
        return net.train(self.train)

    def source(self, lines=None, results=None):
        lines, results = lines if lines is not None else [text for _, text in self.lines], results or self.results
        body = [part for text in lines for part in text.split("\n")]
        return "def forward(self, x):\n    " + "\n    ".join([*body, f"return {', '.join(results)}"]) + "\n"


class Net(nn.Module):
    pass


def scope(net, values):
    return {"torch": torch, "nn": nn, "F": F, "self": net, **values}


def found(call, net, inputs, dtype=torch.float32):
    """Per input: results, gradients of the input and the parameters, buffers."""
    everything = []
    for x in inputs:
        x = x.to(dtype).clone().requires_grad_()
        net.zero_grad()
        out = call(x)
        out = [t for t in (out if isinstance(out, (tuple, list)) else [out])]
        parts = [(t * (torch.arange(t.numel(), dtype=dtype).reshape(t.shape) % 7 + 0.5)).sum() for t in out if t.requires_grad]
        if parts:
            sum(parts).backward()
        grads = [x.grad] + [p.grad for p in net.parameters()]
        everything.append(([t.detach().clone() for t in out], [g if g is None else g.clone() for g in grads], [b.clone() for b in net.buffers() if b.is_floating_point()]))
    return everything


def inferred(call, inputs):
    with torch.no_grad():
        outs = [call(x.clone()) for x in inputs]
    return [([t.clone() for t in (o if isinstance(o, (tuple, list)) else [o])], [], []) for o in outs]


def difference(got, eager, exact):
    """What lies further off double precision than eager PyTorch's; None: nothing."""
    for k, parts in enumerate(zip(got, eager, exact)):
        for what, mine, theirs, true in zip(("result", "gradient", "buffer"), *parts):
            scale = max([t[t.isfinite()].abs().max().item() for t in true if t is not None and t.isfinite().any()] or [0])
            for j, (a, b, c) in enumerate(zip(mine, theirs, true)):
                if (a is None) != (b is None):
                    return f"call {k}: {what} {j}: {'none' if a is None else 'one'}, PyTorch has {'none' if b is None else 'one'}"
                if a is None:
                    continue
                if a.shape != b.shape or a.dtype != b.dtype:
                    return f"call {k}: {what} {j}: {a.dtype} {tuple(a.shape)}, not {b.dtype} {tuple(b.shape)}"
                ok = b.isfinite() & c.isfinite()
                if not torch.equal(a.isfinite() | ~ok, torch.ones_like(ok)):
                    return f"call {k}: {what} {j}: not finite"
                a, b, c = a[ok].double(), b[ok].double(), c[ok]
                if not a.numel():
                    continue
                off, bound = (a - c).abs().max().item(), 20 * (b - c).abs().max().item() + 1e-4 * c.abs().max().item() + 2e-6 * scale + 1e-7
                if off > bound:
                    return f"call {k}: {what} {j}: {off:.3g} off, eager {(b - c).abs().max().item():.3g}, of {c.abs().max().item():.3g}"
    return None


def told(say):
    """Runs it: (what it gives, warnings of graphs that fell back)."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        made = say()
    return made, sorted({str(w.message).split("eager PyTorch: ")[-1] for w in seen if "runs in eager PyTorch" in str(w.message)})


def try_module(drawn, level=0, lines=None, results=None):
    """(what is wrong or None, why graphs fell back)"""
    import tccc.dynamo
    torch._dynamo.reset()
    tccc.dynamo._made.clear()
    net = drawn.net(lines, results)
    nets = [copy.deepcopy(net) for _ in range(3)]
    nets[2].double()
    inputs = drawn.inputs if drawn.mode != "static" else drawn.inputs[:1]
    infer = drawn.number % 8 == 5

    def run(net, compiled, dtype=torch.float32):
        call = torch.compile(net, backend="tccc", dynamic=MODES[drawn.mode], options={"level": level}) if compiled else net
        return inferred(call, [x.to(dtype) for x in inputs]) if infer else found(call, net, inputs, dtype)
    eager, exact = run(nets[1], False), run(nets[2], False, torch.float64)
    try:
        got, why = told(lambda: run(nets[0], True))
    except Exception as e:
        lines = (str(e).strip() or type(e).__name__).splitlines()
        return f"{type(e).__name__}: {lines[0][:300]}", []
    return difference(got, eager, exact), why


def smaller(drawn, level):
    """Leaves out lines while it is still wrong: (lines, results)."""
    lines, results = list(drawn.lines), list(drawn.results)

    def wrong(lines, results):
        try:
            return try_module(drawn, level, [t for _, t in lines], results)[0]
        except Exception:
            return None
    for one in list(results) + [v for v, _ in reversed(lines)]:
        if wrong(lines, [one]):
            results = [one]
    again = True
    while again:
        again = False
        for k in reversed(range(len(lines))):
            fewer = lines[:k] + lines[k + 1:]
            kept = [r for r in results if r != lines[k][0]] or ([fewer[-1][0]] if fewer else ["x"])
            if wrong(fewer, kept):
                lines, results, again = fewer, kept, True
                break
    return [t for _, t in lines], results


def run_all(first, count, level=0, say=print):
    """(number wrong, modules that fell back with nothing strange in them)."""
    wrong, fallen, start = [], {}, time.time()
    for number in range(first, first + count):
        drawn = Drawn(number)
        what, why = try_module(drawn, level)
        if what:
            wrong.append(number)
            say(f"not ok - module {number} ({drawn.mode}, {drawn.place}): {what}")
            lines, results = smaller(drawn, level)
            for name, make in drawn.layers:
                if any(f"self.{name}" in t for t in lines):
                    say(f"#   self.{name} = {make}")
            say("#   x: " + ", ".join(str(tuple(x.shape)) for x in drawn.inputs) + f", train={drawn.train}")
            say("".join(f"#   {line}\n" for line in drawn.source(lines, results).splitlines()) + f"#   {try_module(drawn, level, lines, results)[0]}")
        if why and drawn.place == "nowhere":
            fallen[number] = why
            say(f"# module {number} ({drawn.mode}) fell back: {'; '.join(why)[:400]}")
        if (number - first) % 100 == 99:
            say(f"# {number - first + 1} modules, {len(wrong)} wrong, {len(fallen)} fell back, {time.time() - start:.0f} s")
    return wrong, fallen


if __name__ == "__main__":
    options = dict(a[2:].split("=") for a in sys.argv[1:] if a.startswith("--"))
    given = [a for a in sys.argv[1:] if not a.startswith("--")]
    if given[:1] == ["show"]:
        drawn = Drawn(int(given[1]))
        print(f"# {drawn.mode}, {drawn.place}, train={drawn.train}, x: {[tuple(x.shape) for x in drawn.inputs]}\n" + "".join(f"# self.{n} = {m}\n" for n, m in drawn.layers) + drawn.source())
        sys.exit()
    torch.set_num_threads(1)
    first, count = (int(a) for a in (given + ["0", "100"][len(given):]))
    wrong, fallen = run_all(first, count, int(options.get("level", 0)), lambda text: print(text, flush=True))
    print(f"{count} modules, {len(wrong)} wrong, {len(fallen)} fell back without reason of ours")
    sys.exit(bool(wrong))
