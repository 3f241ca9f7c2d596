#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Errors of the special functions in double precision, in units in the last place of the result, beside mpmath with 60 digits: the table of doc/numerics.md.

usage: special.py BUILD     with numpy and mpmath; exit status 77: there is none
"""
import os
import subprocess
import sys
import tempfile

try:
    import mpmath
    import numpy as np
except ImportError:
    sys.exit(77)

POINTS = 60
mpmath.mp.dps = 60
R = np.random.default_rng(7)


def spread(low, high):
    """Arguments of which no two calls give the same."""
    return lambda: R.uniform(low, high, POINTS)


def middle():
    """Second arguments of the incomplete gamma functions where both are far from 0 and 1."""
    a = R.uniform(50, 1000, POINTS)
    return a, a + R.uniform(-2, 2, POINTS) * np.sqrt(a)


def upper(a, x):
    return mpmath.gammainc(a, x, mpmath.inf, regularized=True)


def lower(a, x):
    return mpmath.gammainc(a, 0, x, regularized=True)


def normal(x):
    return mpmath.erfc(-x / mpmath.sqrt(2)) / 2


# label, functions of runtime/libop/special.def with what they are, what draws the arguments
ROWS = [
    ("lgamma, digamma", [("lgamma", mpmath.loggamma), ("digamma", mpmath.digamma)], spread(2, 100)),
    ("digamma", [("digamma", mpmath.digamma)], spread(-20, 0)),
    ("polygamma", [("polygamma", lambda n, x: mpmath.psi(int(n), x))], lambda: (R.integers(1, 7, POINTS).astype(float), R.uniform(0.1, 50, POINTS))),
    ("zeta", [("zeta", mpmath.zeta)], lambda: (R.uniform(1.05, 12, POINTS), R.uniform(0.1, 50, POINTS))),
    ("erfinv", [("erfinv", mpmath.erfinv)], spread(-1, 1)),
    ("ndtri", [("ndtri", lambda p: mpmath.sqrt(2) * mpmath.erfinv(2 * p - 1))], spread(0, 1)),
    ("erfcx", [("erfcx", lambda x: mpmath.exp(x * x) * mpmath.erfc(x))], spread(-5, 100)),
    ("log_ndtr", [("log_ndtr", lambda x: mpmath.log(normal(x)))], spread(-30, 5)),
    ("i0, i1, i0e, i1e", [("i0", lambda x: mpmath.besseli(0, x)), ("i1", lambda x: mpmath.besseli(1, x)),
                          ("i0e", lambda x: mpmath.besseli(0, x) * mpmath.exp(-abs(x))), ("i1e", lambda x: mpmath.besseli(1, x) * mpmath.exp(-abs(x)))], spread(-60, 60)),
    ("k0, k1, k0e, k1e", [("k0", lambda x: mpmath.besselk(0, x)), ("k1", lambda x: mpmath.besselk(1, x)),
                          ("k0e", lambda x: mpmath.besselk(0, x) * mpmath.exp(x)), ("k1e", lambda x: mpmath.besselk(1, x) * mpmath.exp(x))], spread(0, 60)),
    ("j0, j1", [("bessel_j0", lambda x: mpmath.besselj(0, x)), ("bessel_j1", lambda x: mpmath.besselj(1, x))], spread(0, 2)),
    ("igamma, igammac", [("igamma", lower), ("igammac", upper)], lambda: (R.uniform(0, 50, POINTS), R.uniform(0, 80, POINTS))),
    ("igamma, igammac in the middle", [("igamma", lower), ("igammac", upper)], middle),
]


def ours(build, name, arguments):
    """What the library op gives, by the interpreter."""
    names = [f"x{k}" for k in range(len(arguments))]
    text = f"func @main({', '.join(f'%{n}: f64[{POINTS}]' for n in names)}) -> (\"y\": f64[{POINTS}]) {{\n" \
           f"  %y = lib({', '.join('%' + n for n in names)}) {{name = \"special\", \"function\": string = \"{name}\"}} : f64[{POINTS}]\n  return(%y)\n}}\n"
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "f.tcir")
        with open(path, "w") as f:
            f.write(text)
        inputs = []
        for n, x in zip(names, arguments):
            np.save(os.path.join(folder, n), x)
            inputs += ["--input", f"{n}={folder}/{n}.npy"]
        subprocess.run([os.path.join(build, "tccc-run"), path, "--interpret", *inputs, "--output-dir", folder], check=True, stdout=subprocess.DEVNULL)
        return np.load(os.path.join(folder, "output_0.npy"))


def main(build):
    for label, functions, draw in ROWS:
        x = draw()
        x = x if isinstance(x, tuple) else (x,)
        errors = []
        for name, exact in functions:
            y = ours(build, name, x)
            want = [mpmath.re(exact(*(mpmath.mpf(float(a)) for a in point))) for point in zip(*x)]
            errors.append(max(float(abs(mpmath.mpf(float(b)) - w) / mpmath.mpf(float(np.spacing(abs(float(w)))))) for b, w in zip(y, want) if abs(w) > 1e-20))
        print(f"{label}: {', '.join(f'{e:.1f}' for e in errors)}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
