#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs of torch.export whose parameters are trained, with PyTorch's gradients.

usage: grads.py DIR [PATTERN]

DIR/NAME/model.pt2 computes its loss itself, the output that DIR/NAME/loss names. DIR/NAME/data.npz holds its input (a 1 that the loss is multiplied by), DIR/NAME/after.safetensors what one
step of plain SGD at learning rate 1 makes of the parameters, by PyTorch's gradients.
"""
import fnmatch, json, os, sys, warnings
import numpy as np
import torch
import torch.nn.functional as F
import small
from archive import flat, save
from torchvision.ops import deform_conv2d, ps_roi_align, roi_align, roi_pool

F32, F64, C64, C128 = torch.float32, torch.float64, torch.complex64, torch.complex128
CASES = {}
generator = torch.Generator().manual_seed(11)


def r(*shape, lo=-1.5, hi=1.5):
    return torch.rand(shape, generator=generator, dtype=F64) * (hi - lo) + lo


def c(*shape):
    return torch.complex(r(*shape), r(*shape))


def case(name, f, *tensors, types=(F32, F64), bound=None):
    """f of the parameters gives what is weighed and added up to the loss. bound: of differences in double precision, where PyTorch's own are larger than pt2.tap asks."""
    for t in types:
        CASES[f"{name}_{'f32' if t == F32 else 'f64'}"] = (f, [x.to((C64 if t == F32 else C128) if x.is_complex() else t) for x in tensors], t, bound if t == F64 else None)


class Trained(torch.nn.Module):
    def __init__(self, f, tensors):
        super().__init__()
        self.f = f
        self.p = torch.nn.ParameterList([torch.nn.Parameter(x.clone()) for x in tensors])

    def forward(self, x):
        loss = 0
        for k, y in enumerate(flat(self.f(*self.p))):
            y = torch.view_as_real(y.resolve_conj()) if y.is_complex() else y
            loss = loss + (y * torch.sin(torch.arange(y.numel(), dtype=x.dtype).reshape(y.shape) * 1.7 + 0.3 + k)).sum()
        return loss * x.sum()


# -- Transforms
fft = torch.fft
for n in (8, 7):
    for norm in ("backward", "ortho", "forward"):
        case(f"fft_{n}_{norm}", lambda x, n=n, norm=norm: (fft.fft(x, norm=norm), fft.ifft(x, dim=0, norm=norm)), c(3, n))
        case(f"rfft_{n}_{norm}", lambda x, n=n, norm=norm: fft.rfft(x, norm=norm), r(3, n))
        case(f"irfft_{n}_{norm}", lambda x, n=n, norm=norm: fft.irfft(x, n=n, norm=norm), c(3, n // 2 + 1))
case("fft_real", lambda x: (fft.fft(x), fft.ifft(x, dim=0)), r(4, 5))
case("fft_sizes", lambda x: (fft.fft(x, n=5), fft.fft(x, n=9), fft.ifft(x, n=4, dim=0), fft.irfft(x, n=5), fft.irfft(x, n=14)), c(6, 6))
case("rfft_sizes", lambda x: (fft.rfft(x, n=5), fft.rfft(x, n=9, dim=0)), r(6, 6))
case("fft_two", lambda x, y: (fft.fft2(x), fft.ifft2(x, norm="ortho"), fft.rfft2(y), fft.irfft2(x)), c(2, 4, 3), r(2, 4, 5))
case("fft_many", lambda x, y: (fft.fftn(x), fft.ifftn(x, dim=(0, 2)), fft.rfftn(y, s=(3, 4), dim=(1, 0)), fft.irfftn(x, s=(5, 4), dim=(0, 1))), c(3, 4, 2), r(3, 4, 2))
case("stft", lambda x, w: (torch.stft(x, 8, 3, window=w, return_complex=True), torch.stft(x, 6, 2, center=False, onesided=False, return_complex=True)), r(2, 21), r(8, lo=0.5))
case("istft", lambda x: torch.istft(x, 8, 3, window=torch.hann_window(8, dtype=x.real.dtype)), c(2, 5, 6))
case("fnet", lambda x, w, b: torch.tanh(fft.fft2(F.layer_norm(x, (6,)), dim=(-1, -2)).real @ w + b), r(2, 5, 6), r(6, 4), r(4))
case("spectral_loss", lambda x: (torch.stft(x, 8, 2, window=torch.hann_window(8, dtype=x.dtype), return_complex=True).abs() + 0.1).log(), r(2, 24))


def fourier_operator(x, w, skip):
    modes = fft.rfft(x)
    low = torch.einsum("bim,iom->bom", modes[..., :3], w)
    out = torch.zeros(x.shape[0], w.shape[1], modes.shape[-1], dtype=modes.dtype)
    out = torch.cat([low, out[..., 3:]], -1)
    return F.gelu(fft.irfft(out, n=x.shape[-1]) + torch.einsum("bix,io->box", x, skip))


case("fourier_operator", fourier_operator, r(2, 3, 9), c(3, 4, 3), r(3, 4))

# -- Complex numbers
case("complex_arithmetic", lambda x, y: (x + y, x - 2 * y, x * y, x / y, y / (x * x + 5), 3 / y, x / 2, -x, x * (1 + 2j)), c(3, 4), c(4) + 2.5)
case("complex_real", lambda x, y: (x * y, x / (y + 4), y / (x + 4), x + y, y - x), c(3, 4), r(3, 4))
case("complex_parts", lambda x: (x.real * x.imag, x.abs(), x.angle(), x.conj() * x, torch.view_as_real(x) * 2), c(3, 4))
case("complex_made", lambda a, b: (torch.complex(a, b) * torch.complex(b, a), torch.polar(a, b) / (1 + 3j)), r(3, 4, lo=0.3), r(3, 4))
case("complex_zeros", lambda x, y: ((x * 0).abs() + x.abs(), torch.stft(y, 4, 2, return_complex=True).abs()), c(3, 4), torch.cat([torch.zeros(1, 12), r(1, 12)], 1))
case("complex_products", lambda x, y: (x @ y, torch.einsum("ij,jk->ik", x, y.conj()), (x.unsqueeze(-1) * y).sum(1), x.mean(0)), c(3, 4), c(4, 2))
case("complex_moves", lambda x: (x.T * 2, x.reshape(2, 6), x[1:, ::2], torch.cat([x, x * 1j], 1), torch.roll(x, 1, 0), x.flip(1)), c(3, 4))

# -- Ops that the library computes
case("fold", lambda x: (F.fold(x, (5, 6), (2, 3)) ** 2, F.fold(F.unfold(F.fold(x, (5, 6), (2, 3)), 2, stride=2, padding=1), (5, 6), 2, stride=2, padding=1)), r(2, 12, 16))


# -- Rare operators
case("embedding_by_uses", lambda w: F.embedding(torch.tensor([[0, 1, 3], [1, 3, 3]]), w, padding_idx=1, scale_grad_by_freq=True), r(5, 3), types=(F64,))
bags_by_uses = lambda w, **more: F.embedding_bag(torch.tensor([0, 1, 3, 1, 3, 3, 2]), w, torch.tensor([0, 2, 5]), padding_idx=2, scale_grad_by_freq=True, **more)
case("embedding_bag_by_uses", lambda w: (bags_by_uses(w, mode="sum"), bags_by_uses(w, mode="mean"), bags_by_uses(w, mode="sum", per_sample_weights=torch.arange(7, dtype=w.dtype) / 2)), r(4, 3), types=(F64,))
case("trapezoid", lambda x: (torch.trapezoid(x.outer(x), dx=0.5), torch.cumulative_trapezoid(x.outer(x), x, dim=0)), r(4))
case("chosen", lambda x: (torch.mode(x, 1)[0], torch.kthvalue(x, 2, 0)[0], torch.cummax(x, 1)[0], torch.cummin(x, 0)[0], torch.median(x, 1)[0], torch.frexp(x)[0]), r(3, 5), types=(F64,))
case("renorm", lambda x: [torch.renorm(x, p, 1, 1.2) for p in (1, 2, 3)], r(3, 4), types=(F64,))
INDEX = torch.tensor([1, 3, 1, 0])
case("put", lambda x, s: (torch.put(x, INDEX.reshape(2, 2) * 2, s.reshape(2, 2), accumulate=True), torch.put(x, torch.tensor([-1, 2, 0, 5]), s)), r(3, 4), r(4), types=(F64,))
for how in ("prod", "mean", "amax", "amin"):
    case(f"index_reduce_{how}", lambda x, s, how=how: [x.index_reduce(0, INDEX, s, how, include_self=i) for i in (True, False)], r(5, 3), r(4, 3), types=(F64,))


def unpooled(x):
    y, i = F.max_pool2d(x, 2, return_indices=True)
    return F.max_unpool2d(y * y, i, 2), F.fractional_max_pool2d(x, 2, output_size=2, _random_samples=torch.full((1, 2, 2), 0.4, dtype=x.dtype))


case("unpool", unpooled, r(1, 2, 4, 6), types=(F64,))
TARGET = torch.tensor([1, 3, 0])
case("margins", lambda x: (F.multi_margin_loss(x, TARGET), F.multi_margin_loss(x, TARGET, p=2, weight=torch.linspace(0.5, 2, 4, dtype=x.dtype), reduction="none"), F.multilabel_margin_loss(x, torch.tensor([[1, 3, -1, 0], [0, 1, 2, 3], [-1, 0, 1, 2]]))), r(3, 4))


ROIS = torch.tensor([[0, 0.2, 1.3, 9, 10], [1, 3, 2, 11, 8.5], [0, -2, -1, 5, 5]])
case("regions", lambda x: (roi_pool(x, ROIS.to(x.dtype), 2, 0.5), ps_roi_align(x, ROIS.to(x.dtype), 2, 0.5, 2)), r(2, 4, 6, 7), types=(F64,))
case("deform_conv", lambda x, o, w, b, m: (deform_conv2d(x, o, w, b, padding=1, mask=m), deform_conv2d(x, o[:, :, ::2, ::2], w[:, :2], stride=2, padding=1)), r(1, 4, 5, 6), r(1, 18, 5, 6, lo=-2, hi=2), r(2, 4, 3, 3), r(2), r(1, 9, 5, 6))
MODES = torch.tensor([[4.0, 1, 0.5, -1], [-1, 4, 0.25, 0.5], [0.5, 0, -3, 1], [0, 1, -0.5, 7]])


def modes(x):
    """What phases of eigenvectors don't change; the order of eigenvalues is PyTorch's alone, so that sums run over all of them."""
    w, v = torch.linalg.eig(x + MODES.to(x.dtype))
    w, v = torch.view_as_real(w), torch.view_as_real(v).square().sum(-1)
    return w.square().sum((-1, -2)) / 50, (v.square() * w[..., :1].mT).mean(-1), torch.view_as_real(torch.linalg.eigvals(x)).square().mean((-1, -2))


case("eig", modes, r(2, 4, 4, lo=-0.5, hi=0.5))



def projected(x, *w):
    return torch.ops.aten.lstm.input(x, [x.new_zeros(1, 2, 3), x.new_zeros(1, 2, 5)], w, True, 1, 0.0, False, False, False)


case("lstm_projected", projected, r(4, 2, 3), r(20, 3), r(20, 3), r(20), r(20), r(3, 5))


def safetensors(path, tensors):
    header, data = {}, b""
    for name, x in tensors.items():
        raw = x.tobytes()
        header[name] = {"dtype": {"float32": "F32", "float64": "F64"}[str(x.dtype)], "shape": list(x.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(len(text).to_bytes(8, "little") + text + data)


def held(m, x, step=1e-6):
    """PyTorch's own gradients beside central differences of the loss."""
    with torch.no_grad():
        for name, p in m.named_parameters():
            for k in range(p.numel()):
                was, ends = p.reshape(-1)[k].item(), []
                for to in (was + step, was - step):
                    p.view(-1)[k] = to
                    ends.append(m(x).item())
                p.view(-1)[k] = was
                slope, told = (ends[0] - ends[1]) / (2 * step), p.grad.reshape(-1)[k].item()
                if abs(slope - told) > 1e-4 * max(1, abs(told)):
                    print(f"differs: {name}[{k}]: PyTorch {told}, by differences {slope}")


def write(folder, f, tensors, dtype, bound):
    m, x = Trained(f, tensors), torch.ones(1, 1, dtype=dtype)
    os.makedirs(folder, exist_ok=True)
    program = torch.export.export(m, (x,))
    save(program, folder + "/model.pt2")
    with open(folder + "/loss", "w") as file:
        file.write(program.graph_signature.user_outputs[0] + "\n")
    if bound:
        with open(folder + "/bound", "w") as file:
            file.write(f"{bound}\n")
    m(x).backward()
    for q in m.parameters():
        if q.grad is None:                 # of no elements, or not asked for
            q.grad = torch.zeros_like(q)
    if os.path.basename(folder).startswith("small_"):
        held(m, x)
    after = {n: p.detach() - p.grad for n, p in m.named_parameters()}
    np.savez(folder + "/data.npz", x=x.numpy())
    safetensors(folder + "/after.safetensors", {n: (torch.view_as_real(v) if v.is_complex() else v).contiguous().numpy() for n, v in after.items()})


# -- torchvision
REGIONS = torch.tensor([[0, 0.5, 1, 9, 12], [1, -2, 3, 7, 7], [1, 4, 4, 20, 9]])
case("roi_align", lambda x: tuple(roi_align(x, REGIONS.to(x.dtype), (2, 3), 0.5, ratio, aligned) for ratio in (-1, 2) for aligned in (False, True)), r(2, 2, 6, 7))

# -- Special functions
S = torch.special
case("special_gamma", lambda x, y: (torch.lgamma(x), torch.digamma(x), torch.polygamma(1, x), torch.polygamma(3, y), S.zeta(2.5, y)), r(3, 4, lo=-1.9, hi=5), r(3, 4, lo=0.2, hi=5), bound=1e-9)
case("special_normal", lambda x, y: (torch.erfinv(x), S.ndtri(x * x + 0.01), S.log_ndtr(y), S.erfcx(y), S.entr(x * x + 0.1)), r(3, 4, lo=-0.95, hi=0.95), r(3, 4, lo=-3, hi=4))
case("special_bessel", lambda x: (torch.i0(x), S.i0e(x), S.i1(x), S.i1e(x)), torch.cat([r(11, lo=-4, hi=6), torch.zeros(1, dtype=F64)]))
case("special_incomplete", lambda x: (torch.igamma(torch.tensor([0.4, 1.5, 12.0], dtype=x.dtype), x), torch.igammac(torch.tensor([0.4, 1.5, 12.0], dtype=x.dtype), x)), r(4, 3, lo=0.2, hi=14), bound=1e-9)

# -- Where a function has a kink, or two operands are equal: whole numbers meet there.
whole = lambda *shape: torch.randint(-3, 4, shape, generator=generator).to(F64)
KINKS = {
    "clamp": lambda x, y: (x.clamp(min=0), x.clamp(max=1), x.clamp(-1, 2), x.clamp(min=y), x.clamp(max=y), x.clamp(y, y + 1), x.clamp(y + 1, y), x.clamp(min=-1, max=float("inf"))),
    "bounds": lambda x, y: (torch.clamp(x, x.detach(), x.detach()), torch.clamp(x.detach(), y), F.hardtanh(x, -2, 1), F.relu6(x * 2), F.threshold(x, 1, 5)),
    "extremes": lambda x, y: (torch.maximum(x, y), torch.minimum(x, y), torch.fmax(x, y), torch.fmin(x, y)),
    "over_axes": lambda x, y: (x.amax(1), x.amin(0), x.amax(), x.max(), y.min(), x.amax((0, 1), keepdim=True)),
    "places": lambda x, y: (x.max(1)[0], x.min(0)[0], x.cummax(1)[0], y.cummin(0)[0], x.sort(dim=1, stable=True)[0]),
    "kinks": lambda x, y: (x.abs(), F.relu(y), F.leaky_relu(x, 0.1), F.elu(x), F.celu(x, 2), F.selu(x), F.hardshrink(x, 1), F.softshrink(x, 1), F.hardsigmoid(x), F.hardswish(x)),
    "slopes": lambda x, y: (F.prelu(x, y[0, :1]), F.softsign(x), torch.sign(x) * y, torch.copysign(x.detach() + 0.5, y + 0.25) * y, x % 2, torch.fmod(x, 2), torch.frac(x), F.logsigmoid(x)),
    "losses": lambda x, y: (F.l1_loss(x, y, reduction="none"), F.smooth_l1_loss(x, y, reduction="none"), F.huber_loss(x, y, reduction="none", delta=2.0), F.hinge_embedding_loss(x, y.detach().sign() + 0.5, reduction="none"), F.margin_ranking_loss(x, y, torch.ones_like(x), reduction="none")),
    "powers": lambda x, y: ((x * x).sum(1).sqrt(), (x - x.detach()).norm(), x.norm(dim=1), x.norm(1, dim=0), x.norm(float("inf"), dim=1), torch.dist(x, x.detach()), torch.pow(x, 2), x.prod(1), x.abs().pow(y.abs() + 1), torch.xlogy(x, y.abs() + 1), torch.special.xlog1py(x, y.abs())),
    "products": lambda x, y: [f(x, y, keep) for keep in (True, False) for f in (lambda x, y, k: x.scatter_reduce(0, torch.arange(30).reshape(5, 6) * 7 % 5 // 2, y, "prod", include_self=k), lambda x, y, k: x.index_reduce(0, torch.tensor([0, 3, 0, 3, 3]), y, "prod", include_self=k))],
    "norms": lambda x, y: [f(torch.cat([x, 0 * y]), p) for p in (0.5, 1.5, 3, -1, float("inf"), -float("inf")) for f in (lambda z, p: torch.linalg.vector_norm(z, p, dim=1), lambda z, p: z.norm(p))],
    "distances": lambda x, y: [v for p in (0.5, 1.5, 3) for z in [torch.cat([x, y[:2]])] for v in (torch.cdist(z, y, p), torch.pdist(torch.cat([x, x[:2]]), p), torch.dist(x, y, p), torch.dist(x, x.detach(), p), F.pairwise_distance(x, torch.cat([x[:2].detach(), y[2:]]), p, eps=0))],
    "pooling": lambda x, y: (F.max_pool1d(x, 3, 1, 1), F.max_pool2d(x[None], 2, 1), F.adaptive_max_pool1d(y, 2)),
    "where": lambda x, y: (torch.where(x >= y, x, y), torch.where(x > y, x * x, y), x.masked_fill(x == 0, 2), torch.logaddexp(x, y), torch.atan2(x, y + 0.5)),
    "medians": lambda x, y: (x.median(), y.median(), torch.nanmedian(x), x.median(1)[0], torch.cdist(x, y, p=float("inf")), torch.cdist(x, x.detach() + 1, p=float("inf"))),
    # rows of equal elements whose sums are rounded
    "spread": lambda x, y: ((x[:, :1] / 3 + 0.1).expand(-1, 7).std(1), torch.std_mean((x[:1] / 7 + 0.3).expand(9, -1), 0), (x[:, :1] / 3 + 0.1).expand(-1, 7).var(1), y.std(0, correction=0), y.var()),
}
for name, f in KINKS.items():
    case(f"kink_{name}", f, whole(5, 6), whole(5, 6), bound=1e-7 if name == "kinks" else None)  # hardsigmoid has 1/6 in float32 there

case("complex_waves", lambda x: (x.sin(), x.cos() * x, x.sinh(), x.cosh(), x.tanh(), x.sigmoid()), c(3, 4))
case("complex_prod", lambda x, y: (x.prod(1), x.prod(0, keepdim=True), y.prod()), c(3, 5), c(2, 2))


def put_back(f, inputs):
    """f of the floats among its inputs, the others as they are."""
    def of(*floats):
        rest = iter(floats)
        return f(*[next(rest) if x.is_floating_point() else x for x in inputs])
    return of


def floats_of(inputs):
    return [x for x in inputs if x.is_floating_point()]


# -- Each row of small.py
for name, (f, _, _, trained) in small.ROWS.items():
    inputs = small.drawn(name, F64) if trained else []
    if inputs:
        every = [x for some in inputs for x in some]
        case(f"small_{name}", put_back(small.of_all(f, inputs), every), *floats_of(every), types=(F64,), bound=1e-9 if name in ("digamma", "polygamma") else None)


def main():
    folder, pattern = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "*"
    warnings.simplefilter("ignore")
    for name, row in CASES.items():
        if fnmatch.fnmatch(name, pattern):
            write(f"{folder}/{name}", *row)


if __name__ == "__main__":
    main()
