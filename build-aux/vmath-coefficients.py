#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes compiler/emit/vmath_coeffs.h: minimax polynomials for the vector math of generated code.

Each is the polynomial P of the given degree that minimises max |w(x) (P(x) - f(x))| over [a, b], found by the Remez
exchange in 60-digit arithmetic (Muller, Handbook of Floating-Point Arithmetic, chapter 10). The largest weighted
error is printed beside it. Needs mpmath. Usage: vmath-coefficients.py > compiler/emit/vmath_coeffs.h
"""
import math
import struct

from mpmath import fp, mp, mpf, mpc, exp, expm1, log, log1p, sin, cos, atan, asin, sqrt, erf, erfc, tanh, pi, matrix, lu_solve

mp.dps = 60
LN2_2 = log(2) / 2


def remez(f, w, a, b, degree):
    a, b = mpf(a), mpf(b)
    n = degree + 2
    xs = [(a + b) / 2 - (b - a) / 2 * cos(pi * (2 * k + 1) / (2 * n)) for k in range(n)]
    best = None
    for _ in range(12):
        m, rhs = matrix(n, n), matrix(n, 1)
        for i, x in enumerate(xs):
            for j in range(degree + 1):
                m[i, j] = x ** j
            m[i, degree + 1] = (-1) ** i / w(x)
            rhs[i] = f(x)
        solution = lu_solve(m, rhs)
        c = [solution[j] for j in range(degree + 1)]

        def err(x):
            p = mpf(0)
            for k in reversed(c):
                p = p * x + k
            return w(x) * (p - f(x))
        grid = 40 * n
        pts = [a + (b - a) * (1 - cos(pi * mpf(k) / grid)) / 2 for k in range(grid + 1)]
        es = [err(x) for x in pts]
        worst = max(abs(v) for v in es)
        best = (worst, c)
        # The extrema: the largest error in each run of one sign.
        ext, run = [], [0]
        for k in range(1, grid + 1):
            if es[k] * es[run[-1]] >= 0:
                run.append(k)
            else:
                ext.append(max(run, key=lambda q: abs(es[q])))
                run = [k]
        ext.append(max(run, key=lambda q: abs(es[q])))
        while len(ext) > n:
            ext.pop(0 if abs(es[ext[0]]) < abs(es[ext[-1]]) else -1)
        if len(ext) < n:
            break
        xs = [pts[k] for k in ext]
        if worst / min(abs(es[k]) for k in ext) < mpf('1.01'):
            break
    return best


def near(f, limit, at=mpf(10) ** -12):
    """f, or its limit at 0."""
    return lambda x: limit if abs(x) < at else f(x)


def by_square(f, limit):
    return near(lambda z: f(sqrt(z)), limit, mpf(10) ** -20)


def q_exp(r): return (expm1(r) - r) / r ** 2
def q_log(f): return (log1p(f) - f + f * f / 2) / f ** 3
def r_log(s): return (log((1 + s) / (1 - s)) - 2 * s) / s ** 3
def r_log5(s): return (log((1 + s) / (1 - s)) - 2 * s - 2 * s ** 3 / 3) / s ** 5
def erfcx_t(t):
    x = 2 * (1 + t) / (1 - t)
    return erfc(x) * exp(x * x)


S2 = sqrt(mpf(2))
T8 = S2 - 1
TABLE = [
    ('exp_f32', near(q_exp, mpf(1) / 2), near(lambda r: max(r * r / abs(expm1(r)), mpf('0.01')), mpf('0.01')), -LN2_2 * 1.01, LN2_2 * 1.01, 4),
    ('exp_f64', near(q_exp, mpf(1) / 2), near(lambda r: max(r * r / abs(expm1(r)), mpf('0.01')), mpf('0.01')), -LN2_2 * 1.01, LN2_2 * 1.01, 10),
    ('log_f32', near(q_log, mpf(1) / 3), near(lambda f: abs(f ** 3 / log1p(f)), mpf(0)), 1 / S2 - 1, S2 - 1, 8),
    ('log_f64', by_square(r_log, mpf(2) / 3), by_square(lambda s: s ** 2 / 2, mpf(0)), 0, ((S2 - 1) / (S2 + 1)) ** 2, 7),
    ('log5_f64', by_square(r_log5, mpf(2) / 5), by_square(lambda s: s ** 4 / 2, mpf(0)), 0, ((S2 - 1) / (S2 + 1)) ** 2, 7),
    ('sin_f64', by_square(lambda x: (sin(x) - x) / x ** 3, -mpf(1) / 6), by_square(lambda x: x ** 3 / sin(x), mpf(0)), 0, (pi / 4) ** 2 * 1.01, 5),
    ('cos_f64', by_square(lambda x: (cos(x) - 1 + x * x / 2) / x ** 4, mpf(1) / 24), by_square(lambda x: x ** 4 / cos(x), mpf(0)), 0, (pi / 4) ** 2 * 1.01, 5),
    ('atan_f64', by_square(lambda x: (atan(x) - x) / x ** 3, -mpf(1) / 3), by_square(lambda x: x ** 3 / atan(x), mpf(0)), 0, T8 ** 2 * 1.01, 11),
    ('asin_f64', by_square(lambda x: (asin(x) - x) / x ** 3, mpf(1) / 6), by_square(lambda x: x ** 3 / asin(x), mpf(0)), 0, mpf(1) / 4, 12),
    ('tanh_f32', by_square(lambda x: (tanh(x) - x) / x ** 3, -mpf(1) / 3), by_square(lambda x: x ** 3 / tanh(x), mpf(0)), 0, mpf('0.625') ** 2, 5),
    ('erf_f32', near(lambda x: -log(erfc(x)) / x - 1, 2 / sqrt(pi) - 1), near(lambda x: x * erfc(x) / erf(x), sqrt(pi) / 2), 0, mpf('3.92'), 8),
    ('erf_f64', by_square(lambda x: erf(x) / x - 1, 2 / sqrt(pi) - 1), by_square(lambda x: x / erf(x), sqrt(pi) / 2), 0, mpf(1), 12),
    ('erfcx_f64', erfcx_t, lambda t: exp(-(2 * (1 + t) / (1 - t)) ** 2), -mpf(1) / 3, mpf('0.5'), 14),
]

print('''/* SPDX-License-Identifier: Apache-2.0 */
/* Minimax polynomials of vmath, lowest power first. Made by build-aux/vmath-coefficients.py; do not edit. */
#ifndef TCC_CPU_VMATH_COEFFS_H
#define TCC_CPU_VMATH_COEFFS_H
''')
for name, f, w, a, b, degree in TABLE:
    worst, c = remez(f, w, a, b, degree)
    print('/* degree %d on [%s, %s]; largest error 2^%s */' % (degree, mp.nstr(mpf(a), 6), mp.nstr(mpf(b), 6), mp.nstr(log(worst) / log(2), 4)))
    print('static const double vm_%s[] = {' % name)
    for k in c:
        print('    %s,' % float(k).hex())
    print('};\n')
PIECES, DEGREE, ONE = 8, 6, 2.0 ** 23  # of float: units in the last place in 1


def gelu_tanh(x, m=mp): return m.tanh(m.sqrt(2 / m.pi) * (x + m.mpf('0.044715') * x ** 3))


def as_float(v): return mpf(struct.unpack('f', struct.pack('f', float(v)))[0])


def interpolate(f, n):
    """The polynomial through n Chebyshev points of [-1/2, 1/2], among which the middle: coefficients as floats, and its largest error."""
    points = [cos(pi * (2 * k + 1) / (2 * n)) / 2 for k in range(n)]
    c = lu_solve(matrix([[x ** j for j in range(n)] for x in points]), matrix([f(x) for x in points]))
    c = [mp.nint(c[0] * ONE) / ONE] + [as_float(v) for v in c[1:]]
    return max(abs(mp.polyval(c[::-1], x) - f(x)) for x in (mpf(k) / 50 - mpf(1) / 2 for k in range(51))), c


def pieces_of(f, quick, least, most, tries=200000, best=40):
    """Pieces per unit, such that the values in the pieces' middles are multiples of 1 / ONE as nearly as can be: with one added those are
    exact. Of the best ones that whose polynomials of floats err least."""
    def far(per_unit):
        return max(abs(v - round(v)) for v in (quick((k + 0.5) / per_unit) * ONE for k in range(PIECES)))
    some = sorted(((PIECES - 0.002) / (least + (most - least) * i / tries) for i in range(tries)), key=far)[:best]
    all = ((u, [interpolate(lambda t: f((k + t + mpf(1) / 2) / u), DEGREE + 1) for k in range(PIECES)]) for u in some)
    return min(((max(error for error, c in pieces), u, pieces) for u, pieces in all), key=lambda x: x[0])


print('/* Functions from 0 to `end`, where they round to 1, in pieces of equal length, which end a bit behind it so that no')
print(' * value is rounded into another: polynomials in -1/2 to 1/2, by power, then by piece. */')
print('enum { VM_PIECES = %d, VM_PIECE_DEGREE = %d };\n' % (PIECES, DEGREE))
print('struct vm_pieces {\n    double end, per_unit;\n    double c[VM_PIECE_DEGREE + 1][VM_PIECES];\n};\n')
for name, f, quick, least, most in (('erf', erf, math.erf, 3.935, 3.96), ('gelu_tanh', gelu_tanh, lambda x: gelu_tanh(x, fp), 5.165, 5.22)):
    worst, per_unit, pieces = pieces_of(f, quick, least, most)
    print('/* largest error 2^%s */' % mp.nstr(log(worst) / log(2), 4))
    print('static const struct vm_pieces vm_%s_pieces = {\n    %s,\n    %s,\n    {' % (name, '%.6g' % ((PIECES - 0.002) / per_unit), per_unit.hex()))
    for power in range(DEGREE + 1):
        numbers = [float(c[power]).hex() for error, c in pieces]
        print('        {%s,\n         %s},' % tuple(', '.join(numbers[i:i + PIECES // 2]) for i in (0, PIECES // 2)))
    print('    },\n};\n')
print('/* Bits of 2/pi after 64 zero bits, for the reduction of huge arguments. */')
print('static const unsigned long long vm_two_over_pi[] = {')
mp.dps = 500
bits = int(mp.floor(2 / mp.pi * mpf(2) ** 1280))
for i in range(21):
    print('    0x%016xull,' % ((bits >> (64 * (20 - i))) & (2 ** 64 - 1)))
print('};\n\n#endif')
