#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs of torch.export whose operators are given sizes 0 to 3 in each type that PyTorch has them for, with PyTorch's results: NAME/model.pt2 as cases.py writes them.

usage: small.py DIR [PATTERN]

A row is a function and what it is given at size n; a case is all sizes that PyTorch takes, in one type. grads.py trains the rows in double precision, and holds PyTorch's own gradients
against finite differences.
"""
import sys
import torch
import torch.nn.functional as F
import torchvision.ops as tv
from cases import BF16, BOOL, CASES, F16, F32, F64, I32, I64, U8, case, main, short, t

L, S, aten = torch.linalg, torch.special, torch.ops.aten
FLOATS, INTS = (F32, F64, F16, BF16), (I64, I32, torch.int16, torch.int8, U8)
WIDE, ANY = (F32, F64), (F32, F64, F16, BF16, *INTS, BOOL)
ROWS = {}       # name: function, inputs of n and of a function that draws, types, whether it is trained


def row(name, f, inputs, types=WIDE, trained=True):
    ROWS[name] = f, inputs, types, trained


def near(n, d):
    """Far from singular."""
    return d(n, n) + 2.5 * max(n, 1) ** 0.5 * torch.eye(n, dtype=F64)


def spd(x):
    return x @ x.mT + torch.eye(x.shape[-1], dtype=x.dtype)


def whole(*shape, n):
    return torch.arange(torch.Size(shape).numel()).mul(7).remainder(max(n, 1)).reshape(shape)


def rebuilt(u, s, vh):
    return (u * s.unsqueeze(-2)) @ vh, s


def eigen(w, v):
    return (v * w.unsqueeze(-2)) @ v.mT, w


# -- Matrices
one, two = lambda n, d: [near(n, d)], lambda n, d: [near(n, d), d(n, 2)]
row("inv", lambda x: (L.inv(x), L.inv_ex(x)[0]), one)
row("solve", lambda x, y: (L.solve(x, y), L.solve(x, y.mT, left=False)), two)
row("cholesky", lambda x: (L.cholesky(spd(x)), L.cholesky_ex(spd(x), upper=True)[0]), one)
row("cholesky_solve", lambda x, y: (torch.cholesky_solve(y, L.cholesky(spd(x))), torch.cholesky_inverse(L.cholesky(spd(x)))), two)
row("triangles", lambda x, y: (L.solve_triangular(x, y, upper=True), torch.triangular_solve(y, x, upper=False, unitriangular=True)[0]), two)
row("pinv", lambda x: (L.pinv(x[:, :-1]), L.pinv(x[:-1])), lambda n, d: [near(n + 1, d)])
row("det", lambda x: (L.det(x), L.slogdet(x)[1], torch.logdet(spd(x))), one)
row("lu", lambda x, y: (*L.lu(x)[1:], L.lu_solve(*L.lu_factor(x), y)), two)
row("qr", lambda x: (*L.qr(x[:, :-1]), *L.qr(x)), lambda n, d: [near(n + 1, d)])
row("eigh", lambda x: (*eigen(*L.eigh(x + x.mT + torch.diag(torch.arange(x.shape[0], dtype=x.dtype)))), L.eigvalsh(x + x.mT)), one)
row("svd", lambda x: (*rebuilt(*L.svd(x[:, :-1], full_matrices=False)), L.svdvals(x[:-1])), lambda n, d: [near(n + 1, d)])
row("matrix_exp", lambda x: (L.matrix_exp(x), L.matrix_exp(x * 0.01)), lambda n, d: [d(n, n)])
row("matrix_power", lambda x: (L.matrix_power(x, -2), L.matrix_power(x, 3)), one)
row("matrix_norms", lambda x: (L.matrix_norm(x, "nuc"), L.matrix_norm(x, 2), L.matrix_norm(x)), one)
row("ldl", lambda x, y: L.ldl_solve(*L.ldl_factor(x + x.mT), y), two, trained=False)

# -- torchvision
regions = lambda n: torch.tensor([[0.0, 0.2, 1.3, 9, 10], [1, 3, 2, 11, 8.5], [0, -2, -1, 5, 5]], dtype=F64)[:n]
row("nms", lambda b, s: tv.nms(b, s, 0.3), lambda n, d: [regions(n)[:, 1:], d(n)], trained=False)
for name, f in {"roi_align": lambda x, r: (tv.roi_align(x, r, 2, 0.5, 2), tv.roi_align(x, r, 2, 0.5, -1, True)), "roi_pool": lambda x, r: tv.roi_pool(x, r, 2, 0.5),
                "ps_roi_align": lambda x, r: tv.ps_roi_align(x, r, 2, 0.5, 2), "ps_roi_pool": lambda x, r: tv.ps_roi_pool(x, r, 2, 0.5)}.items():
    row(name, lambda x, f=f: [f(x, regions(n).to(x.dtype)) for n in (0, 1, 2, 3)], lambda n, d: [d(2, 4 * n, 6, 7)])
row("deform_conv2d", lambda x, o, w, m: tv.deform_conv2d(x, o, w, padding=1, mask=m), lambda n, d: [d(n, 2, 3, 4), d(n, 18, 3, 4), d(2, 2, 3, 3), d(n, 9, 3, 4)])

# -- Recurrent layers, bags
row("lstm_projected", lambda x, *w: aten.lstm.input(x, [x.new_zeros(1, x.shape[1], 2), x.new_zeros(1, x.shape[1], 3)], w, True, 1, 0.0, False, False, False),
    lambda n, d: [d(2, n, 3), d(12, 3), d(12, 2), d(12), d(12), d(2, 3)])
for mode in ("sum", "mean", "max"):
    row(f"embedding_bag_{mode}", lambda w, i, o, mode=mode: F.embedding_bag(i, w, o, mode=mode), lambda n, d: [d(4, 3), whole(2 * n, n=4), 2 * torch.arange(n)])

# -- Special functions
for name, f in {"erfinv": torch.erfinv, "ndtri": lambda x: S.ndtri(x.abs()), "entr": lambda x: S.entr(x.abs() + 0.1), "lgamma": torch.lgamma, "digamma": torch.digamma,
                "log_ndtr": S.log_ndtr, "erfcx": S.erfcx, "i0": torch.i0, "i0e": S.i0e, "i1": S.i1, "i1e": S.i1e}.items():
    row(name, f, lambda n, d, lo=(-0.9 if name in ("erfinv", "ndtri") else 0.2): [d(n, lo=lo, hi=0.9)], ANY)
row("polygamma", lambda x: [torch.polygamma(k, x) for k in (0, 1, 2)], lambda n, d: [d(n, lo=0.3, hi=4)], FLOATS)   # of whole numbers it has poles
for name in "bessel_j0 bessel_j1 bessel_y0 bessel_y1 modified_bessel_i0 modified_bessel_i1 modified_bessel_k0 modified_bessel_k1 scaled_modified_bessel_k0 scaled_modified_bessel_k1 spherical_bessel_j0".split():
    row(name, getattr(S, name), lambda n, d: [d(n, lo=0.3, hi=4)], ANY, trained=False)
for name in ("igamma", "igammac"):
    row(name, lambda x, name=name: getattr(torch, name)(torch.full_like(x, 1.5), x), lambda n, d: [d(n, lo=0.3, hi=4)], FLOATS)
row("zeta", lambda x: S.zeta(torch.full_like(x, 2.5), x), lambda n, d: [d(n, lo=0.3, hi=4)], FLOATS)

# -- Counts, chosen values, places
row("bincount", lambda x: torch.bincount(x, minlength=2), lambda n, d: [whole(n, n=4)], INTS, False)
row("histc", lambda x: torch.histc(x, 4, -2, 2), lambda n, d: [d(n)], FLOATS, False)
row("unique", lambda x: (*torch.unique(x, return_inverse=True, return_counts=True), *torch.unique_consecutive(x, return_inverse=True, return_counts=True)), lambda n, d: [d(n)], ANY, False)
row("unique_dim", lambda x: torch.unique(x, dim=0, return_inverse=True, return_counts=True), lambda n, d: [d(n, 2)], ANY, False)
for name, f in {"mode": lambda x: torch.mode(x, 1), "median": lambda x: (torch.median(x, 1)[0], torch.nanmedian(x, 1)[0])}.items():
    row(name, f, lambda n, d: [d(2, n)], ANY, False)
    row(f"{name}_rows", lambda x, f=f: f(x)[0], lambda n, d: [d(n, 3)])
row("kthvalue", lambda x: torch.kthvalue(x, 1, 1), lambda n, d: [d(2, n)], FLOATS, False)    # among equal ones PyTorch's place is any
row("kthvalue_rows", lambda x: torch.kthvalue(x, 2, 1)[0], lambda n, d: [d(n, 3)], (*FLOATS, *INTS))
row("gcd", lambda x, y: (torch.gcd(x, y), torch.lcm(x, y)), lambda n, d: [d(n, lo=-9, hi=9), d(n, lo=-9, hi=9)], INTS, False)
for how in ("prod", "mean", "amax", "amin"):
    row(f"index_reduce_{how}", lambda x, s, i, how=how: [x.index_reduce(0, i, s, how, include_self=k) for k in (True, False)], lambda n, d: [d(3, n), d(4, n), whole(4, n=3)], (*FLOATS, *INTS))
row("put", lambda x, s, i: (torch.put(x, i, s, accumulate=True), torch.put(x, torch.arange(i.shape[0]), s)), lambda n, d: [d(2, 3), d(n), whole(n, n=6)], ANY)
row("renorm", lambda x: [torch.renorm(x, p, 0, 0.7) for p in (1, 2, 3)], lambda n, d: [d(n, 3)], FLOATS)
row("trapezoid", lambda x, y: (torch.trapezoid(x, dx=0.5), torch.trapezoid(x, y), torch.cumulative_trapezoid(x)), lambda n, d: [d(2, n), d(n)], ANY)
row("vander", lambda x: (torch.vander(x), torch.vander(x, 3, increasing=True)), lambda n, d: [d(n)], (*FLOATS, *INTS), False)   # PyTorch's gradient of it raises
row("fftshift", lambda x: (torch.fft.fftshift(x), torch.fft.ifftshift(x, dim=0)), lambda n, d: [d(n, 3)], ANY)
row("roll", lambda x: (torch.roll(x, (1, -2), (0, 1)), torch.roll(x, 5)), lambda n, d: [d(3, n)], ANY)
row("diff", lambda x, y: (torch.diff(x), torch.diff(x, 2, 0), torch.diff(x, prepend=y, append=x)), lambda n, d: [d(3, n), d(3, 1)], ANY)
row("histogram", lambda x: torch.histogram(x, 4), lambda n, d: [d(n)], WIDE, False)
row("frexp", lambda x: torch.frexp(x), lambda n, d: [d(n)], FLOATS, False)
row("nextafter", torch.nextafter, lambda n, d: [d(n), d(n)], FLOATS, False)
row("view_bits", lambda x: (x.view(I32) if x.element_size() == 4 else x.view(I64) if x.element_size() == 8 else x.view(torch.int16) if x.element_size() == 2 else x.view(torch.int8),), lambda n, d: [d(n, 2)], ANY, False)
row("outer", lambda x, y: (torch.outer(x, y), torch.outer(y, x)), lambda n, d: [d(n), d(2)], ANY)
row("outer_types", lambda x, y: (torch.outer(y, x.to(F32)), torch.outer(x.to(I32), y)), lambda n, d: [d(n), d(2)], ANY, False)
row("prod_complex", lambda x: [torch.view_as_real(v) for a in (torch.view_as_complex(x),) for v in (a.prod(0), a.prod(1))], lambda n, d: [d(n, 3, 2)])
row("cdist", lambda x, y: [torch.cdist(x, y, p=p) for p in (1.0, 2.0, 3.0, float("inf"))], lambda n, d: [d(n, 2), d(3, 2)])

# -- Pooling by places and by fractions, margins
pooled = lambda f, g: lambda x: (lambda y, i: g(y * y, i, 2))(*f(x, 2, return_indices=True))
row("max_unpool1d", pooled(F.max_pool1d, F.max_unpool1d), lambda n, d: [d(1, n, 6)], FLOATS)
row("max_unpool2d", pooled(F.max_pool2d, F.max_unpool2d), lambda n, d: [d(n, 2, 4, 2)], FLOATS)
row("max_unpool3d", pooled(F.max_pool3d, F.max_unpool3d), lambda n, d: [d(1, n, 2, 4, 2)], FLOATS)
row("fractional_max_pool2d", lambda x: F.fractional_max_pool2d(x, 2, output_size=2, _random_samples=x.new_full((*x.shape[:2], 2), 0.4)), lambda n, d: [d(1, n, 4, 5)])
row("fractional_max_pool3d", lambda x: F.fractional_max_pool3d(x, 2, output_size=2, _random_samples=x.new_full((*x.shape[:2], 3), 0.4)), lambda n, d: [d(1, n, 4, 5, 4)])
row("multi_margin_loss", lambda x, i: [F.multi_margin_loss(x, i, p=p, reduction=r) for p, r in ((1, "none"), (2, "sum"))], lambda n, d: [d(n, 3), whole(n, n=3)])
row("multilabel_margin_loss", lambda x, i: F.multilabel_margin_loss(x, i, reduction="none"), lambda n, d: [d(n, 3), torch.tensor([[2, -1, 0], [0, 1, 2], [-1, 0, 1]])[:n].clone()])

# -- Factors of matrices that are not square, products of reflections
row("lu_rows", lambda x: (*L.lu(x[:, :-1])[1:], *L.lu(x[:-1])[1:], *[p @ l @ u for y in (x, x[:, :1]) for p, l, u in (L.lu(y),)]), lambda n, d: [near(n + 1, d)])
row("householder", lambda x, s: (L.householder_product(x, s[:x.shape[1]]), L.householder_product(x, s[:x.shape[1] // 2])), lambda n, d: [d(n + 1, n), d(n)])


def taken(f, args):
    """Whether PyTorch takes them."""
    try:
        f(*args)
    except (RuntimeError, IndexError, ValueError, NotImplementedError):
        return False
    return True


def of_size(name, n, dtype):
    """What row `name` is given; whole numbers are places, and stay."""
    inputs = ROWS[name][1](n, lambda *shape, lo=-2.0, hi=2.0: t(*shape, dtype=F64 if dtype.is_floating_point else dtype, lo=lo, hi=hi))
    return [x.to(dtype) if x.is_floating_point() or name == "bincount" else x for x in inputs]


def drawn(name, dtype):
    """(inputs, how many) of each size that PyTorch takes."""
    return [args for args in (of_size(name, n, dtype) for n in (0, 1, 2, 3)) if taken(ROWS[name][0], args)]


def of_all(f, sizes):
    """f of each of several lists of operands, which stand one behind the other."""
    counts = [len(args) for args in sizes]
    return lambda *xs: [f(*xs[sum(counts[:k]):sum(counts[:k + 1])]) for k in range(len(counts))]


if __name__ == "__main__":
    CASES.clear()
    for row_name, (function, _, types, _) in ROWS.items():
        for dtype in types:
            rows = drawn(row_name, dtype)
            if rows:
                case(f"small_{row_name}_{short(dtype)}", of_all(function, rows), *[x for args in rows for x in args], tol="2e-4 2e-5" if dtype == F32 else None)
    sys.exit(main())
