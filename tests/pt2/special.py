#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs of torch.export with special functions, with PyTorch's results: NAME/model.pt2 as cases.py writes them.

usage: special.py DIR [PATTERN]

Arguments over the whole domain, at poles and ends; both floats and the 16-bit ones, whole numbers, no elements, open sizes. Where PyTorch's own figures are not right
(Bessel functions at infinity, modified ones above 710, trigamma at negative whole numbers) nothing is asked; its
incomplete gamma function and trigamma have eight digits in double precision, its erfcx and trigamma of float four to five.
"""
import math, sys
import torch
from cases import BF16, CASES, F16, F32, F64, case, main, t

CASES.clear()
S = torch.special
ENDS = [0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5, 1e-6, -1e-6, math.inf, -math.inf, math.nan, 9.75, -9.75, 26.5, -26.5]
ONE = {"lgamma": torch.lgamma, "digamma": torch.digamma, "erfinv": torch.erfinv, "erfcx": S.erfcx, "ndtri": S.ndtri, "log_ndtr": S.log_ndtr, "entr": S.entr,
       "i0": torch.i0, "i0e": S.i0e, "i1": S.i1, "i1e": S.i1e, "k0": S.modified_bessel_k0, "k1": S.modified_bessel_k1, "k0e": S.scaled_modified_bessel_k0,
       "k1e": S.scaled_modified_bessel_k1, "modified_i0": S.modified_bessel_i0, "modified_i1": S.modified_bessel_i1, "j0": S.bessel_j0, "j1": S.bessel_j1, "y0": S.bessel_y0,
       "y1": S.bessel_y1, "spherical": S.spherical_bessel_j0, "gammaln": S.gammaln, "psi": S.psi, "special_i0": S.i0}
UNIT = ("erfinv", "ndtri")
FINITE = ("i1", "modified_i1", "j0", "j1", "y0", "y1")
HALVES = ("lgamma", "digamma", "erfinv", "i0", "i0e", "entr")

for name, f in ONE.items():
    ends = torch.tensor([x for x in ENDS if math.isfinite(x) or name not in FINITE], dtype=F64)
    for dtype, tag, tol in ((F32, "f32", "2e-6 2e-6"), (F64, "f64", "2e-10 2e-12" if name in ("j0", "j1", "y0", "y1") else "1e-13 1e-13")):
        if name in ("j0", "j1", "y0", "y1") and dtype == F64:
            tol = "2e-5 2e-7"
        if name == "erfcx" and dtype == F32:
            tol = "2e-5 2e-6"
        lo, hi = (-1, 1) if name in UNIT else (-12, 30)
        wide = t(2, 400, dtype=dtype, lo=lo, hi=hi)
        case(f"{name}_{tag}", lambda x, y, f=f: (f(x), f(y)), wide, ends.to(dtype), tol=tol)
    case(f"{name}_i64", lambda x, f=f: f(x), torch.arange(1, 9) if name not in UNIT else torch.tensor([0, 1]), tol="2e-6 2e-6")
    case(f"{name}_open", lambda x, f=f: f(x), t(4, 3, lo=0.1, hi=0.9), dynamic=({0: "n"},), tol="2e-6 2e-6")
    case(f"{name}_none", lambda x, f=f: f(x), t(0, 3))
    if name in HALVES:
        case(f"{name}_halves", lambda x, y, f=f: (f(x), f(y)), t(40, dtype=F16, lo=0.05, hi=0.95), t(40, dtype=BF16, lo=0.05, hi=0.95))
for name, f in (("igamma", torch.igamma), ("igammac", torch.igammac), ("gammainc", S.gammainc), ("gammaincc", S.gammaincc)):
    a, x = torch.meshgrid(*[torch.tensor([0.0, 0.3, 1.0, 2.5, 9.0, 11.0, 70.0, 250.0, math.inf], dtype=F64)] * 2, indexing="ij")
    good = ~(a.isinf() & x.isinf()) & ~((a == 0) & (x == 0))
    for dtype, tag, tol in ((F32, "f32", "1e-5 1e-6"), (F64, "f64", "2e-8 1e-9")):
        case(f"{name}_{tag}", lambda a, x, b, y, f=f: (f(a, x), f(b, y)), t(20, 30, dtype=dtype, lo=0.01, hi=40), t(30, dtype=dtype, lo=0, hi=60), a[good].to(dtype), x[good].to(dtype), tol=tol)
    case(f"{name}_open", lambda a, x, f=f: f(a, x), t(4, 3, lo=0.1, hi=4), t(3, lo=0.1, hi=4), dynamic=({0: "n"}, None), tol="1e-5 1e-6")
for dtype, tag, tol in ((F32, "f32", "2e-5 2e-6"), (F64, "f64", "5e-9 1e-9")):
    case(f"polygamma_{tag}", lambda x: tuple(torch.polygamma(n, x) for n in (0, 1, 2, 3, 7)), torch.cat([t(200, dtype=dtype, lo=0.05, hi=30), torch.tensor([math.nan, 1, 2], dtype=dtype)]), tol=tol)
    case(f"trigamma_{tag}", lambda x: S.polygamma(1, x), t(200, dtype=dtype, lo=-5.9, hi=0.4), tol="2e-4 1e-4" if dtype == F32 else tol)
    case(f"zeta_{tag}", lambda x, y: (S.zeta(x, y), S.zeta(x, 2.0), S.zeta(3.0, y)), t(40, dtype=dtype, lo=1.05, hi=12), t(40, dtype=dtype, lo=0.1, hi=20), tol=tol)
case("zeta_ends", lambda x, y: S.zeta(x, y), torch.tensor([1.0, 0.5, 2.0, 2.0, 3.5, 2.0]), torch.tensor([2.0, 2.0, 0.0, -3.0, -0.5, -0.5]))

if __name__ == "__main__":
    sys.exit(main())
