# SPDX-License-Identifier: Apache-2.0
# Instruction forms of the PTX simulator against models written from the PTX ISA's text: exact arithmetic (Python's integers and
# fractions), rounded once. Usage: forms.py TCCC-PTXSIM FOLDER. Prints TAP, a line a group of forms.
import math
import os
import random
import struct
import subprocess
import sys
from fractions import Fraction

import numpy as np

tool, folder = sys.argv[1:]
N = 256
rng = random.Random(1)
INTS = {"u16": 16, "s16": 16, "u32": 32, "s32": 32, "u64": 64, "s64": 64}
FLOATS = {"f16": (5, 10), "bf16": (8, 7), "f32": (8, 23), "f64": (11, 52)}      # bits of exponent and mantissa
WIDTH = dict(INTS, b16=16, b32=32, b64=64, u8=8, s8=8, **{k: 1 + sum(v) for k, v in FLOATS.items()})
REG = {8: "h", 16: "h", 32: "r", 64: "d"}

def signed(v, bits):
    v &= (1 << bits) - 1
    return v - (1 << bits) if v >> (bits - 1) else v

def value(v, t):
    if t in FLOATS:
        return decode(v, t)
    return signed(v, WIDTH[t]) if t[0] == "s" else v & ((1 << WIDTH[t]) - 1)

# -- floats: a Fraction, or the strings "nan", "inf", "-inf", "0", "-0"
def decode(bits, t):
    e, m = FLOATS[t]
    sign, x, f = bits >> (e + m) & 1, bits >> m & ((1 << e) - 1), bits & ((1 << m) - 1)
    if x == (1 << e) - 1:
        return "nan" if f else "-inf" if sign else "inf"
    if not x and not f:
        return "-0" if sign else "0"
    bias = (1 << (e - 1)) - 1
    v = Fraction(f + ((1 << m) if x else 0)) * Fraction(2) ** ((x or 1) - bias - m)
    return -v if sign else v

def encode(v, t, mode="rn"):
    e, m = FLOATS[t]
    top = ((1 << e) - 1) << m
    if v == "nan":
        return None
    if isinstance(v, str):
        return (1 << (e + m) if v[0] == "-" else 0) | (top if "inf" in v else 0)
    if v == 0:
        return 0
    sign, a, bias = v < 0, abs(v), (1 << (e - 1)) - 1
    x = a.numerator.bit_length() - a.denominator.bit_length()
    x -= a < Fraction(2) ** x
    x = max(x, 1 - bias)
    scaled = a / Fraction(2) ** (x - m)
    k = scaled.numerator // scaled.denominator
    rest = scaled - k
    if mode == "rn":
        k += rest > Fraction(1, 2) or (rest == Fraction(1, 2) and k & 1)
    elif mode == "rna":
        k += rest >= Fraction(1, 2)
    elif rest:
        k += (mode == "rp" and not sign) or (mode == "rm" and sign)
    bits = k + ((x + bias - 1) << m)
    if bits >= top:
        away = mode in ("rn", "rna") or (mode == "rp" and not sign) or (mode == "rm" and sign)
        bits = top if away else top - 1
    return (1 << (e + m) if sign else 0) | bits

def is_zero(v):
    return v in ("0", "-0")

def is_inf(v):
    return v in ("inf", "-inf")

def negative(v):
    return v[0] == "-" if isinstance(v, str) else v < 0

def neg(v):
    return {"nan": "nan", "inf": "-inf", "-inf": "inf", "0": "-0", "-0": "0"}[v] if isinstance(v, str) else -v

def exact(v):
    return Fraction(0) if is_zero(v) else v

def add(a, b, mode="rn"):
    if "nan" in (a, b) or (is_inf(a) and is_inf(b) and a != b):
        return "nan"
    if is_inf(a) or is_inf(b):
        return a if is_inf(a) else b
    s = exact(a) + exact(b)
    if s:
        return s
    if is_zero(a) and is_zero(b) and a == b:
        return a
    return "-0" if mode == "rm" else "0"

def mul(a, b):
    if "nan" in (a, b) or (is_inf(a) and is_zero(b)) or (is_zero(a) and is_inf(b)):
        return "nan"
    sign = negative(a) != negative(b)
    if is_inf(a) or is_inf(b):
        return "-inf" if sign else "inf"
    return exact(a) * exact(b) or ("-0" if sign else "0")

def div(a, b):
    if "nan" in (a, b) or (is_inf(a) and is_inf(b)) or (is_zero(a) and is_zero(b)):
        return "nan"
    sign = negative(a) != negative(b)
    if is_inf(a) or is_zero(b):
        return "-inf" if sign else "inf"
    if is_inf(b) or is_zero(a):
        return "-0" if sign else "0"
    return a / b

def root(a):
    if a == "nan" or (negative(a) and not is_zero(a)):
        return "nan"
    if isinstance(a, str):
        return a
    shift = 1200
    n = a.numerator * 4 ** shift // a.denominator
    r = math.isqrt(n)
    exactly = r * r == n and a.numerator * 4 ** shift % a.denominator == 0
    return Fraction(2 * r + (not exactly), 2 * 2 ** shift)

def order(a):
    return {"nan": None, "inf": Fraction(10) ** 400, "-inf": -Fraction(10) ** 400, "0": 0, "-0": 0}[a] if isinstance(a, str) else a

def pick(a, b, most, nan):
    if a == "nan" or b == "nan":
        return "nan" if nan or a == b else b if a == "nan" else a
    if order(a) == order(b):
        return a if negative(a) != most else b
    return (a if order(a) > order(b) else b) if most else (a if order(a) < order(b) else b)

def compare(op, a, b):
    x, y = order(a) if isinstance(a, (str, Fraction)) else a, order(b) if isinstance(b, (str, Fraction)) else b
    unordered = x is None or y is None
    if op in ("num", "nan"):
        return unordered == (op == "nan")
    if unordered:
        return op[-1] == "u" and len(op) == 3
    return {"eq": x == y, "ne": x != y, "lt": x < y, "le": x <= y, "gt": x > y, "ge": x >= y,
            "lo": x < y, "ls": x <= y, "hi": x > y, "hs": x >= y}[op[:2]]

# -- one group of forms: a kernel that computes them all
forms = []

def form(text, types, to, model, check=None):
    """text: with {d} {a} {b} {c}; types of the operands; model: values to bits (None: any NaN)."""
    forms.append((text, types, to, model, check))

def samples(t):
    bits = WIDTH[t]
    if t in FLOATS:
        e, m = FLOATS[t]
        top, one = ((1 << e) - 1) << m, ((1 << (e - 1)) - 1) << m
        special = [0, top, 1, top - 1, one, top | 1 << (m - 1), (1 << m) - 1, 1 << m, one + 1, one - 1, one + (1 << m) // 2, one + 3 * (1 << m)]
        special += [s | 1 << (e + m) for s in special]
        near = [(one + rng.randrange(-6 << m, 6 << m)) | rng.getrandbits(1) << (e + m) for _ in range(N)]
        any_bits = [rng.getrandbits(bits) for _ in range(N)]
        return special, near, any_bits
    special = [0, 1, 2, 3, 7, (1 << bits) - 1, 1 << (bits - 1), (1 << (bits - 1)) - 1, (1 << bits) - 2, 31, 32, 33, 63, 64, 5, 255]
    return special, [rng.getrandbits(bits // 2) for _ in range(N)], [rng.getrandbits(bits) for _ in range(N)]

def operands(t, which):
    special, near, any_bits = samples(t)
    v = []
    for i in range(N):
        pair = i < len(special) * min(len(special), 10)
        v.append((special[i % len(special)] if which == 0 else special[(i // len(special) + 3 * which) % len(special)]) if pair
                 else near[i] if i % 2 else any_bits[i])
    return v

def kernel(group):
    types = sorted({t for f in group for t in f[1]})
    lines = [".version 8.3", ".target sm_90", ".address_size 64", ".visible .entry k(.param .u64 in, .param .u64 out) {",
             ".reg .pred %p<4>; .reg .b16 %h<8>; .reg .b32 %r<10>; .reg .b64 %d<9>; .reg .b64 %x<8>;",
             "ld.param.u64 %x1, [in]; ld.param.u64 %x2, [out]; mov.u32 %r9, %tid.x; mul.wide.u32 %x3, %r9, 8;",
             "add.s64 %x1, %x1, %x3; add.s64 %x2, %x2, %x3;"]
    data = []
    where = {}
    for t in types:
        for k in range(3):
            where[t, k] = len(data)
            data.append(operands(t, k))
    for n, (text, ops, to, _, _) in enumerate(group):
        names = {}
        for k, t in enumerate(ops):
            r = "%%%s%d" % (REG[WIDTH[t]], k + 1)
            lines.append("ld.global.%s%d %s, [%%x1+%d];" % ("u" if WIDTH[t] == 8 else "b", WIDTH[t], r, where[t, k] * N * 8))
            names["abc"[k]] = r
        d = "%%%s7" % REG[WIDTH[to]] if to != "pred" else "%p1"
        lines.append("mov.b64 %x4, 0; st.global.b64 [%x2], %x4;")
        lines.append(text.format(d=d, **names) + ";")
        if to == "pred":
            lines.append("selp.b32 %r7, 1, 0, %p1; st.global.b32 [%x2], %r7;")
        else:
            lines.append("st.global.b%d [%%x2], %s;" % (WIDTH[to], d))
        lines.append("add.s64 %%x2, %%x2, %d;" % (N * 8))
    lines.append("ret; }")
    return "\n".join(lines), data, where

def run_group(name, group):
    text, data, where = kernel(group)
    path = os.path.join(folder, name + ".ptx")
    open(path, "w").write(text)
    ptxas = os.environ.get("PTXAS")
    if ptxas and subprocess.run([ptxas, "-arch=sm_90", "-o", os.devnull, path]).returncode:
        return "ptxas refuses " + path
    np.array(data, dtype=np.uint64).tofile(path + ".in")
    r = subprocess.run([tool, path, "--launch", "k:1:%d" % N, "--arg", "@%s.in" % path, "--arg", "new:%d,out=%s.out" % (len(group) * N * 8, path)],
                       capture_output=True, text=True)
    if r.returncode:
        return r.stderr.strip()
    out = np.fromfile(path + ".out", dtype=np.uint64).reshape(len(group), N)
    for n, (form_text, ops, to, model, check) in enumerate(group):
        for i in range(N):
            bits = [data[where[t, k]][i] for k, t in enumerate(ops)]
            got, want = int(out[n, i]), model(*[value(b, t) for b, t in zip(bits, ops)])
            if to in FLOATS:
                fine = decode(got, to) == "nan" if want is None else check(got, want) if check else got == want
            else:
                fine = got == want & ((1 << WIDTH.get(to, 1)) - 1)
            if not fine:
                return "%s of %s: %#x, expected %s" % (form_text, ", ".join(map(hex, bits)), got, "NaN" if want is None else hex(want))
    return None

groups = []

def group(name):
    global forms
    groups.append((name, forms))
    forms = []

# -- integers (PTX ISA, integer arithmetic)
def quotient(a, b):
    return 0 if not b else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)

for t, n in INTS.items():
    m = (1 << n) - 1
    form("add.%s {d}, {a}, {b}" % t, [t, t], t, lambda a, b: a + b)
    form("sub.%s {d}, {a}, {b}" % t, [t, t], t, lambda a, b: a - b)
    form("mul.lo.%s {d}, {a}, {b}" % t, [t, t], t, lambda a, b: a * b)
    form("mul.hi.%s {d}, {a}, {b}" % t, [t, t], t, lambda a, b, n=n: a * b >> n)
    form("mad.lo.%s {d}, {a}, {b}, {c}" % t, [t, t, t], t, lambda a, b, c: a * b + c)
    form("mad.hi.%s {d}, {a}, {b}, {c}" % t, [t, t, t], t, lambda a, b, c, n=n: (a * b >> n) + c)
    if n < 64:
        w = t[0] + str(2 * n)
        form("mul.wide.%s {d}, {a}, {b}" % t, [t, t], w, lambda a, b: a * b)
        form("mad.wide.%s {d}, {a}, {b}, {c}" % t, [t, t, w], w, lambda a, b, c: a * b + c)
    form("or.b%d %s, {b}, 1; div.%s {d}, {a}, %s" % (n, "%%%s8" % REG[n], t, "%%%s8" % REG[n]) if n != 16 else
         "or.b16 {b}, {b}, 1; div.%s {d}, {a}, {b}" % t, [t, t], t,
         lambda a, b, t=t, n=n: quotient(a, value(b | 1, t)))
    form("or.b%d {b}, {b}, 1; rem.%s {d}, {a}, {b}" % (n, t), [t, t], t, lambda a, b, t=t: a - quotient(a, value(b | 1, t)) * value(b | 1, t))
    form("min.%s {d}, {a}, {b}" % t, [t, t], t, min)
    form("max.%s {d}, {a}, {b}" % t, [t, t], t, max)
    form("sad.%s {d}, {a}, {b}, {c}" % t, [t, t, t], t, lambda a, b, c: c + abs(a - b))
    form("shr.%s {d}, {a}, {b}" % t, [t, "u32"], t, lambda a, b, n=n: a >> min(b, n))
    if t[0] == "s":
        form("abs.%s {d}, {a}" % t, [t], t, abs)
        form("neg.%s {d}, {a}" % t, [t], t, lambda a: -a)
    else:
        b = "b%d" % n
        form("and.%s {d}, {a}, {b}" % b, [t, t], t, lambda a, b: a & b)
        form("or.%s {d}, {a}, {b}" % b, [t, t], t, lambda a, b: a | b)
        form("xor.%s {d}, {a}, {b}" % b, [t, t], t, lambda a, b: a ^ b)
        form("not.%s {d}, {a}" % b, [t], t, lambda a: ~a)
        form("cnot.%s {d}, {a}" % b, [t], t, lambda a: a == 0)
        form("shl.%s {d}, {a}, {b}" % b, [t, "u32"], t, lambda a, b, n=n: a << min(b, n))
    for op in ("eq", "ne", "lt", "le", "gt", "ge") + (("lo", "ls", "hi", "hs") if t[0] == "u" else ()):
        form("setp.%s.%s {d}, {a}, {b}" % (op, t), [t, t], "pred", lambda a, b, op=op: int(compare(op, a, b)))
    form("setp.lt.%s %%p2|{d}, {a}, {b}" % t, [t, t], "pred", lambda a, b: int(a >= b))
    form("set.gt.u32.%s {d}, {a}, {b}" % t, [t, t], "u32", lambda a, b: -(a > b))
    form("setp.gt.%s %%p2, {a}, {b}; selp.b%d {d}, {a}, {b}, %%p2" % (t, n), [t, t], t, max)
    form("slct.%s.s32 {d}, {a}, {b}, {c}" % t, [t, t, "s32"], t, lambda a, b, c: a if c >= 0 else b)
group("integers")

def clamp(v, t):
    n, s = WIDTH[t], t[0] == "s"
    return max(-(1 << n - 1) if s else 0, min(v, (1 << (n - 1 if s else n)) - 1))

def bfe(a, at, n, bits, s):
    at, n = at & 255, n & 255
    u = a & ((1 << bits) - 1)
    sign = 0 if not s or n == 0 else u >> min(at + n - 1, bits - 1) & 1
    return sum((u >> (at + i) & 1 if i < n and at + i < bits else sign) << i for i in range(bits))

def bfi(a, b, at, n, bits):
    at, n = at & 255, n & 255
    for i in range(n):
        if at + i < bits:
            b = b & ~(1 << at + i) | (a >> i & 1) << at + i
    return b

def prmt(a, b, c):
    both = b << 32 | a
    r = 0
    for i in range(4):
        s = c >> 4 * i & 15
        byte = both >> 8 * (s & 7) & 255
        r |= ((255 if byte >> 7 else 0) if s & 8 else byte) << 8 * i
    return r

def bfind(a, bits, shift):
    u = (~a if a < 0 else a) & ((1 << bits) - 1)
    return 0xffffffff if not u else (bits - u.bit_length() if shift else u.bit_length() - 1)

for n in (32, 64):
    u, s = "u%d" % n, "s%d" % n
    for t in (u, s):
        form("bfe.%s {d}, {a}, {b}, {c}" % t, [t, "u32", "u32"], t, lambda a, b, c, n=n, t=t: bfe(a, b, c, n, t[0] == "s"))
        form("bfe.%s {d}, {a}, 5, 9" % t, [t], t, lambda a, n=n, t=t: bfe(a, 5, 9, n, t[0] == "s"))
        form("bfind.%s {d}, {a}" % t, [t], "u32", lambda a, n=n: bfind(a, n, False))
        form("bfind.shiftamt.%s {d}, {a}" % t, [t], "u32", lambda a, n=n: bfind(a, n, True))
    form("bfi.b%d {d}, {a}, {b}, {c}, 7" % n, [u, u, "u32"], u, lambda a, b, c, n=n: bfi(a, b, c, 7, n))
    form("popc.b%d {d}, {a}" % n, [u], "u32", lambda a: bin(a).count("1"))
    form("clz.b%d {d}, {a}" % n, [u], "u32", lambda a, n=n: n - a.bit_length())
    form("brev.b%d {d}, {a}" % n, [u], u, lambda a, n=n: int(bin(a)[2:].zfill(n)[::-1], 2))
    c = "%%%s8" % REG[n]
    form("add.cc.%s %s, {a}, {b}; addc.%s {d}, {a}, 0" % (u, c, u), [u, u], u, lambda a, b, n=n: a + (a + b >> n))
    form("sub.cc.%s %s, {a}, {b}; subc.%s {d}, {a}, 0" % (u, c, u), [u, u], u, lambda a, b: a - (a < b))
    form("mad.lo.cc.%s %s, {a}, {b}, {c}; madc.hi.%s {d}, {a}, {b}, {c}" % (u, c, u), [u, u, u], u,
         lambda a, b, c, n=n: (a * b >> n) + c + ((a * b & (1 << n) - 1) + c >> n))
T = ["u32", "u32", "u32"]
for table in (0x96, 0xe8, 0xca, 0x1b):
    form("lop3.b32 {d}, {a}, {b}, {c}, %d" % table, T, "u32",
         lambda a, b, c, k=table: sum((k >> ((a >> i & 1) << 2 | (b >> i & 1) << 1 | (c >> i & 1)) & 1) << i for i in range(32)))
form("prmt.b32 {d}, {a}, {b}, {c}", T, "u32", prmt)
form("prmt.b32.f4e {d}, {a}, {b}, {c}", T, "u32", lambda a, b, c: (b << 32 | a) >> 8 * (c & 3))
form("prmt.b32.b4e {d}, {a}, {b}, {c}", T, "u32", lambda a, b, c: prmt(a, b, sum((((c & 3) - i) % 8) << 4 * i for i in range(4))))
form("prmt.b32.rc8 {d}, {a}, {b}, {c}", T, "u32", lambda a, b, c: (a >> 8 * (c & 3) & 255) * 0x01010101)
form("prmt.b32.ecl {d}, {a}, {b}, {c}", T, "u32", lambda a, b, c: prmt(a, b, [0x3210, 0x3211, 0x3222, 0x3333][c & 3]))
form("prmt.b32.ecr {d}, {a}, {b}, {c}", T, "u32", lambda a, b, c: prmt(a, b, [0x0000, 0x1110, 0x2210, 0x3210][c & 3]))
form("prmt.b32.rc16 {d}, {a}, {b}, {c}", T, "u32", lambda a, b, c: prmt(a, b, [0x1010, 0x3232][c & 1]))
form("shf.l.wrap.b32 {d}, {a}, {b}, {c}", T, "u32", lambda a, b, c: (b << (c & 31)) | (a >> 32 - (c & 31)))
form("shf.r.wrap.b32 {d}, {a}, {b}, {c}", T, "u32", lambda a, b, c: (b << 32 - (c & 31)) | (a >> (c & 31)))
form("shf.l.clamp.b32 {d}, {a}, {b}, {c}", T, "u32", lambda a, b, c: (b << min(c, 32)) | (a >> 32 - min(c, 32)))
form("shf.r.clamp.b32 {d}, {a}, {b}, {c}", T, "u32", lambda a, b, c: (b << 32 - min(c, 32)) | (a >> min(c, 32)))
for x in ("u32", "s32"):
    for y in ("u32", "s32"):
        part = lambda v, i, t: signed(v >> i & 255, 8) if t[0] == "s" else v >> i & 255
        form("dp4a.%s.%s {d}, {a}, {b}, {c}" % (x, y), T, "u32",
             lambda a, b, c, x=x, y=y, part=part: c + sum(part(a, i, x) * part(b, i, y) for i in (0, 8, 16, 24)))
form("add.sat.s32 {d}, {a}, {b}", ["s32", "s32"], "s32", lambda a, b: clamp(a + b, "s32"))
form("sub.sat.s32 {d}, {a}, {b}", ["s32", "s32"], "s32", lambda a, b: clamp(a - b, "s32"))
form("mad.hi.sat.s32 {d}, {a}, {b}, {c}", ["s32"] * 3, "s32", lambda a, b, c: clamp((a * b >> 32) + c, "s32"))
for t in ("u32", "s32"):
    form("mul24.lo.%s {d}, {a}, {b}" % t, [t, t], t, lambda a, b, t=t: x24(a, t) * x24(b, t))
    form("mul24.hi.%s {d}, {a}, {b}" % t, [t, t], t, lambda a, b, t=t: x24(a, t) * x24(b, t) >> 16)
    form("mad24.lo.%s {d}, {a}, {b}, {c}" % t, [t, t, t], t, lambda a, b, c, t=t: x24(a, t) * x24(b, t) + c)
    form("szext.clamp.%s {d}, {a}, {b}" % t, [t, "u32"], t,
         lambda a, b, t=t: a if b > 31 else 0 if not b else signed(a, b) if t[0] == "s" else a & (1 << b) - 1)
form("bmsk.clamp.b32 {d}, {a}, {b}", T[:2], "u32", lambda a, b: 0 if a > 31 else (1 << min(b, 32)) - 1 << a)
form("bmsk.wrap.b32 {d}, {a}, {b}", T[:2], "u32", lambda a, b: (1 << (b & 31)) - 1 << (a & 31))

def x24(a, t):
    return signed(a & 0xffffff, 24) if t[0] == "s" else a & 0xffffff
group("bits")

# -- floats (floating-point instructions, half precision)
def close(t, rel, absolute=0.0):
    def test(got, want):
        g, w = decode(got, t), decode(want, t)
        if isinstance(g, str) or isinstance(w, str):
            return g == w or (is_zero(g) or is_zero(w) or is_inf(g)) and abs(order(g) - order(w)) <= Fraction(absolute) + Fraction(2) ** -126
        return abs(g - w) <= abs(w) * Fraction(rel) + Fraction(absolute)
    return test

def approx(f):
    def model(a):
        try:
            v = f(float(a))
        except (ValueError, ZeroDivisionError):
            return None
        except OverflowError:
            v = math.inf
        return None if v != v else struct.unpack("<I", struct.pack("<f", np.float32(v)))[0]
    return model

for t in FLOATS:
    n = WIDTH[t]
    wide = n > 16
    for r in ("rn", "rz", "rm", "rp") if wide else ("rn",):
        form("add.%s.%s {d}, {a}, {b}" % (r, t), [t, t], t, lambda a, b, t=t, r=r: encode(add(a, b, r), t, r))
        form("sub.%s.%s {d}, {a}, {b}" % (r, t), [t, t], t, lambda a, b, t=t, r=r: encode(add(a, neg(b), r), t, r))
        form("mul.%s.%s {d}, {a}, {b}" % (r, t), [t, t], t, lambda a, b, t=t, r=r: encode(mul(a, b), t, r))
        form("fma.%s.%s {d}, {a}, {b}, {c}" % (r, t), [t, t, t], t, lambda a, b, c, t=t, r=r: encode(add(mul(a, b), c, r), t, r))
        if wide:
            form("div.%s.%s {d}, {a}, {b}" % (r, t), [t, t], t, lambda a, b, t=t, r=r: encode(div(a, b), t, r))
            form("rcp.%s.%s {d}, {a}" % (r, t), [t], t, lambda a, t=t, r=r: encode(div(Fraction(1), a), t, r))
            form("sqrt.%s.%s {d}, {a}" % (r, t), [t], t, lambda a, t=t, r=r: encode(root(a), t, r))
    for op in ("min", "max"):
        form("%s.%s {d}, {a}, {b}" % (op, t), [t, t], t, lambda a, b, t=t, op=op: encode(pick(a, b, op == "max", False), t))
        if t != "f64":
            form("%s.NaN.%s {d}, {a}, {b}" % (op, t), [t, t], t, lambda a, b, t=t, op=op: encode(pick(a, b, op == "max", True), t))
    form("abs.%s {d}, {a}" % t, [t], t, lambda a, t=t: encode(neg(a) if negative(a) else a, t))
    form("neg.%s {d}, {a}" % t, [t], t, lambda a, t=t: encode(neg(a), t))
    for op in ("eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"):
        form("setp.%s.%s {d}, {a}, {b}" % (op, t), [t, t], "pred", lambda a, b, op=op: int(compare(op, a, b)))

def flush(v):
    return v if isinstance(v, str) or abs(v) >= Fraction(2) ** -126 else "-0" if v < 0 else "0"

def unit(v):
    return "0" if v == "nan" or negative(v) or is_zero(v) else Fraction(1) if is_inf(v) or v > 1 else v

def out_flush(v, r="rn"):
    return v if isinstance(v, str) else flush(decode(encode(v, "f32", r), "f32"))

F = ["f32"] * 3
form("add.ftz.f32 {d}, {a}, {b}", F[:2], "f32", lambda a, b: encode(out_flush(add(flush(a), flush(b))), "f32"))
form("mul.rn.ftz.f32 {d}, {a}, {b}", F[:2], "f32", lambda a, b: encode(out_flush(mul(flush(a), flush(b))), "f32"))
form("fma.rz.ftz.f32 {d}, {a}, {b}, {c}", F, "f32", lambda a, b, c: encode(out_flush(add(mul(flush(a), flush(b)), flush(c)), "rz"), "f32", "rz"))
form("add.sat.f32 {d}, {a}, {b}", F[:2], "f32", lambda a, b: encode(unit(add(a, b)), "f32"))
form("fma.rn.sat.f32 {d}, {a}, {b}, {c}", F, "f32", lambda a, b, c: encode(unit(add(mul(a, b), c)), "f32"))
form("copysign.f32 {d}, {a}, {b}", ["u32", "u32"], "f32", lambda a, b: None if (b & 0x7fffffff) > 0x7f800000 else (a & 1 << 31) | (b & 0x7fffffff))
form("ex2.approx.f32 {d}, {a}", F[:1], "f32", lambda a: approx(lambda x: 2.0 ** x)(order(a) if a not in ("nan", "inf", "-inf") else float(a)) if a != "nan" else None, close("f32", 2.0 ** -22))
form("lg2.approx.f32 {d}, {a}", F[:1], "f32", lambda a: None if a == "nan" or (negative(a) and not is_zero(a)) else 0xff800000 if is_zero(a) else 0x7f800000 if is_inf(a) else approx(math.log2)(a), close("f32", 2.0 ** -22, 2.0 ** -22))
form("rsqrt.approx.f32 {d}, {a}", F[:1], "f32", lambda a: encode(div(Fraction(1), root(a)), "f32") if not is_zero(a) else encode("-inf" if a == "-0" else "inf", "f32"), close("f32", 2.0 ** -22))
form("sqrt.approx.f32 {d}, {a}", F[:1], "f32", lambda a: encode(root(a), "f32"), close("f32", 2.0 ** -22))
form("rcp.approx.f32 {d}, {a}", F[:1], "f32", lambda a: encode(div(Fraction(1), a), "f32"), close("f32", 2.0 ** -22, 2.0 ** -126))
form("div.full.f32 {d}, {a}, {b}", F[:2], "f32", lambda a, b: encode(div(a, b), "f32"), lambda got, want: True)
form("tanh.approx.f32 {d}, {a}", F[:1], "f32", lambda a: None if a == "nan" else approx(math.tanh)(float(order(a)) if not is_inf(a) else float(a)), close("f32", 2.0 ** -11))
form("sin.approx.f32 {d}, {a}", F[:1], "f32", lambda a: None if a == "nan" or is_inf(a) else approx(math.sin)(order(a)) if abs(order(a)) < 3 else 0, lambda got, want: want == 0 or close("f32", 0, 2.0 ** -20)(got, want))
form("cos.approx.f32 {d}, {a}", F[:1], "f32", lambda a: None if a == "nan" or is_inf(a) else approx(math.cos)(order(a)) if abs(order(a)) < 3 else 0, lambda got, want: want == 0 or close("f32", 0, 2.0 ** -20)(got, want))
for k, f in {"finite": lambda a: a != "nan" and not is_inf(a), "infinite": is_inf, "number": lambda a: a != "nan", "notanumber": lambda a: a == "nan",
             "normal": lambda a: not isinstance(a, str) and abs(a) >= Fraction(2) ** -126,
             "subnormal": lambda a: not isinstance(a, str) and abs(a) < Fraction(2) ** -126}.items():
    form("testp.%s.f32 {d}, {a}" % k, F[:1], "pred", lambda a, f=f: int(f(a)))
group("floats")

# -- conversions
def whole(v, mode):
    f = v.numerator // v.denominator
    if v == f:
        return f
    if mode == "rni":
        return f + (v - f > Fraction(1, 2) or (v - f == Fraction(1, 2) and f & 1))
    return {"rmi": f, "rpi": f + 1, "rzi": f + (v < 0)}[mode]

def to_int(v, t, mode):
    if v == "nan":
        return 0
    if isinstance(v, str):
        return 0 if is_zero(v) else clamp(-(1 << 80) if negative(v) else 1 << 80, t)
    return clamp(whole(v, mode), t)

for s in list(INTS) + ["u8", "s8"]:
    for d in INTS:
        if s != d:
            form("cvt.%s.%s {d}, {a}" % (d, s), [s], d, lambda a: a)
            if WIDTH[d] < WIDTH[s] or (s[0] == "s" and d[0] == "u") or (WIDTH[d] == WIDTH[s] and d[0] != s[0]):
                form("cvt.sat.%s.%s {d}, {a}" % (d, s), [s], d, lambda a, d=d: clamp(a, d))
    for d in ("f16", "f32", "f64"):
        for r in ("rn", "rz", "rm", "rp"):
            form("cvt.%s.%s.%s {d}, {a}" % (r, d, s), [s], d, lambda a, d=d, r=r: encode(Fraction(a), d, r))
for s in ("f16", "f32", "f64"):
    for d in INTS:
        for r in ("rni", "rzi", "rmi", "rpi"):
            form("cvt.%s.%s.%s {d}, {a}" % (r, d, s), [s], d, lambda a, d=d, r=r: to_int(a, d, r), None)
    for r in ("rni", "rzi", "rmi", "rpi"):
        form("cvt.%s.%s.%s {d}, {a}" % (r, s, s), [s], s,
             lambda a, s=s, r=r: encode(a if isinstance(a, str) else Fraction(whole(a, r)) or ("-0" if a < 0 else "0"), s))
for s, d in (("f64", "f32"), ("f64", "f16"), ("f32", "f16")):
    for r in ("rn", "rz", "rm", "rp"):
        form("cvt.%s.%s.%s {d}, {a}" % (r, d, s), [s], d, lambda a, d=d, r=r: encode(a, d, r))
for r in ("rn", "rz"):
    form("cvt.%s.bf16.f32 {d}, {a}" % r, ["f32"], "bf16", lambda a, r=r: encode(a, "bf16", r))
for s, d in (("f16", "f32"), ("f32", "f64"), ("f16", "f64"), ("bf16", "f32")):
    form("cvt.%s.%s {d}, {a}" % (d, s), [s], d, lambda a, d=d: encode(a, d))
form("cvt.sat.f32.f32 {d}, {a}", ["f32"], "f32", lambda a: encode(unit(a), "f32"))
form("cvt.rn.relu.f16.f32 {d}, {a}", ["f32"], "f16", lambda a: encode("0" if a != "nan" and negative(a) else a, "f16"), lambda got, want: got & 0x7fff == want)
def half(v, t, r="rn"):
    bits = encode(v, t, r)
    return 0x7fff if bits is None else bits
form("cvt.rn.f16x2.f32 {d}, {a}, {b}", ["f32", "f32"], "u32", lambda a, b: half(a, "f16") << 16 | half(b, "f16"))
form("cvt.rz.bf16x2.f32 {d}, {a}, {b}", ["f32", "f32"], "u32", lambda a, b: half(a, "bf16", "rz") << 16 | half(b, "bf16", "rz"))
for op, f in (("add", add), ("mul", mul)):
    for t in ("f16", "bf16"):
        form("%s.%sx2 {d}, {a}, {b}" % (op, t), ["u32", "u32"], "u32",
             lambda a, b, t=t, f=f: sum(half(f(decode(a >> i & 65535, t), decode(b >> i & 65535, t)), t) << i for i in (0, 16)))
def short(v, t):
    return v & 65535 if t[0] == "u" else (v & 65535 ^ 0x8000) - 0x8000
for op, f in (("add", lambda a, b: a + b), ("min", min), ("max", max)):
    for t in ("u16", "s16"):
        form("%s.%sx2 {d}, {a}, {b}" % (op, t), ["u32", "u32"], "u32",
             lambda a, b, t=t, f=f: sum((f(short(a >> i, t), short(b >> i, t)) & 65535) << i for i in (0, 16)))
for op, f in (("min", min), ("max", max)):
    form("%s.relu.s16x2 {d}, {a}, {b}" % op, ["u32", "u32"], "u32",
         lambda a, b, f=f: sum(max(0, f(short(a >> i, "s16"), short(b >> i, "s16"))) << i for i in (0, 16)))
form("mov.b32 %r8, {{{a}, {b}}}; mov.b32 {d}, %r8", ["u16", "u16"], "u32", lambda a, b: b << 16 | a)
form("mov.b64 {{_, {d}}}, {a}", ["u64"], "u32", lambda a: a >> 32)
group("conversions")

bad = 0
count = 0
total = 0
for name, list_of_forms in groups:
    for at in range(0, len(list_of_forms), 40):
        count += 1
        part = list_of_forms[at:at + 40]
        total += len(part)
        why = run_group("%s%d" % (name, at), part)
        bad += why is not None
        print("%s %d - %s %d to %d%s" % ("not ok" if why else "ok", count, name, at, at + len(part) - 1, "\n# " + why if why else ""))
print("# %d forms" % total)
print("1..%d" % count)
