#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the generated programs of tests/run: ops on chosen values, with results computed by NumPy, ml_dtypes, PyTorch or
plain Python from the sentences of ops.def and scalar.def, never by tccc itself. Run by hand when an op is added:

  make_programs.py FOLDER"""
import itertools, math, os, sys, warnings
import numpy as np, ml_dtypes as m, torch
import torch.nn.functional as F
warnings.simplefilter("ignore")

DT = {"f32": np.float32, "f64": np.float64, "f16": np.float16, "bf16": m.bfloat16, "i8": np.int8, "u8": np.uint8, "i16": np.int16,
      "u16": np.uint16, "i32": np.int32, "u32": np.uint32, "i64": np.int64, "u64": np.uint64, "bool": np.bool_,
      "f8e4m3fn": m.float8_e4m3fn, "f8e4m3fnuz": m.float8_e4m3fnuz, "f8e5m2": m.float8_e5m2, "f8e5m2fnuz": m.float8_e5m2fnuz,
      "f4e2m1": m.float4_e2m1fn, "u4": m.uint4, "i4": m.int4, "u2": m.uint2, "i2": m.int2}
NAMES = {np.dtype(v): k for k, v in DT.items()}
FLOATS = ["f32", "f64", "f16", "bf16"]
INTS = ["i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64"]
BITS = {"i8": 8, "u8": 8, "i16": 16, "u16": 16, "i32": 32, "u32": 32, "i64": 64, "u64": 64, "u4": 4, "i4": 4, "u2": 2, "i2": 2}
nan, inf = math.nan, math.inf
rng = np.random.default_rng(1)


def name(a):
    return NAMES[a.dtype]


def type_of(a):
    return f"{name(a)}[{','.join(map(str, a.shape))}]"


def number(v, d):
    if d in BITS or d == "bool":
        return str(int(v))
    v = float(v)
    return "nan" if v != v else "inf" if v == inf else "-inf" if v == -inf else ("%.17g" if d == "f64" else "%.9g") % v


def listing(key, a):
    words = [f"; {key}: {type_of(a)}"] + [number(v, name(a)) for v in a.reshape(-1)]
    lines, line = [], words[0]
    for w in words[1:]:
        if len(line) + len(w) > 118:
            lines.append(line)
            line = "; +"
        line += " " + w
    return lines + [line]


class Program:
    def __init__(self, what):
        self.lines, self.body, self.head, self.params, self.results, self.n = [f"; {what}"], [], [], [], [], 0
        self.ins, self.outs = [], []

    def arg(self, a, typ=None):
        self.ins.append(a)
        self.params.append(f"%x{len(self.ins) - 1}: {typ or type_of(a)}")
        return f"%x{len(self.ins) - 1}"

    def node(self, op, *operands, typ=None, **attrs):
        self.n += 1
        text = ", ".join(f"{k} = {json(v)}" for k, v in attrs.items())
        self.body.append(f"  %v{self.n} = {op}({', '.join(operands)})" + (f" {{{text}}}" if attrs else "") + (f" : {typ}" if typ else ""))
        return f"%v{self.n}"

    def out(self, v, a, typ=None):
        self.outs.append(a)
        self.results.append((v, typ or type_of(a)))

    def case(self, label=None, tol=None):
        if label:
            self.lines.append(f"; CASE: {label}")
        if tol:
            self.lines.append(f"; TOL: {tol}")
        for a in self.ins:
            self.lines += listing("IN", np.asarray(a))
        for a in self.outs:
            self.lines += listing("OUT", np.asarray(a))

    def write(self, folder, file):
        head = "func @main(" + ", ".join(self.params) + ") -> (" + ", ".join(t for _, t in self.results) + ") {"
        text = self.lines + self.head + [head] + self.body + [f"  return({', '.join(v for v, _ in self.results)})", "}"]
        with open(os.path.join(folder, file + ".tcir"), "w") as f:
            f.write("\n".join(text) + "\n")


def json(v):
    if isinstance(v, str):
        return v if v in DT else f'"{v}"'
    if isinstance(v, (list, tuple)):
        return "[" + ", ".join(map(str, v)) + "]"
    return str(v)


# -- Scalar words ------------------------------------------------------------------------------------------------

def f64s(a):
    return a.astype(np.float64)


def elementwise(fn, *arrays):
    """fn on Python floats, NaN where Python raises."""
    out = []
    for values in zip(*(f64s(a).reshape(-1) for a in arrays)):
        try:
            out.append(fn(*map(float, values)))
        except ValueError:
            out.append(nan)
        except OverflowError:
            out.append(inf)
    return np.array(out)


def pole(fn, at, value):
    return lambda x: value(x) if at(x) else fn(x)


UNARY = {
    "neg": lambda x: -x, "abs": abs, "sign": lambda x: x if x != x else float(x > 0) - float(x < 0),
    "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "round": np.rint, "sqrt": np.sqrt, "exp": np.exp, "expm1": np.expm1,
    "log": np.log, "log1p": np.log1p, "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos,
    "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "asinh": np.arcsinh, "acosh": np.arccosh,
    "atanh": np.arctanh, "erf": math.erf, "square": lambda x: x * x, "recip": lambda x: np.float64(1) / np.float64(x),
    "rsqrt": lambda x: np.float64(1) / np.sqrt(x), "relu": lambda x: x if x > 0 or x != x or x == 0 else 0.0,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "silu": lambda x: x / (1 + np.exp(-x)),
    "softplus": lambda x: np.logaddexp(0, x), "softsign": lambda x: x / (1 + abs(x)),
    "gelu": lambda x: 0.5 * x * (1 + math.erf(x * math.sqrt(0.5))),
    "gelu_tanh": lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3))),
    "hardswish": lambda x: x if x != x else x * max(0, min(1, x / 6 + 0.5)), "mish": lambda x: x * np.tanh(np.logaddexp(0, x)),
}
EXACT = {"neg", "abs", "sign", "floor", "ceil", "trunc", "round", "sqrt", "square", "recip", "relu"}
MATH = list(UNARY)[list(UNARY).index("exp"):list(UNARY).index("erf") + 1]
TOL = {"f32": "4e-6 1e-37", "f64": "2e-15 1e-300", "f16": "1.1e-3 6.1e-8", "bf16": "9e-3 1e-38"}
# bodies of several words amplify rounding errors of their parts (gelu far in the negative tail cancels)
BODY_TOL = {"f32": "2e-6 2e-6", "f64": "1e-14 1e-14", "f16": "1.1e-3 1e-3", "bf16": "9e-3 9e-3"}
EDGES = [0.0, -0.0, 1, -1, 0.5, -0.5, 1.5, 2.5, -2.5, 3.49, 1e-3, -1e-3, 10, -10, 0.99, -0.99, 20, -20, 88, -88, 300, -300, inf, -inf, nan]
# where an intermediate result overflows in the type, or a large argument meets inf * 0, the sentences say nothing
TAME = [0.0, -0.0, 1, -1, 0.5, -0.5, 1.5, 2.5, -2.5, 3.49, 1e-3, -1e-3, 5, -5, 8, nan]


def unary_words(folder):
    for d in FLOATS:
        for kind, tol, words, edges in (("exact", "0 0", [w for w in UNARY if w in EXACT], EDGES),
                                        ("math", TOL[d], MATH, EDGES),
                                        ("body", BODY_TOL[d], [w for w in UNARY if w not in EXACT and w not in MATH], TAME)):
            x = np.array(edges, DT[d])
            p = Program(f"Unary words on {d}: {kind}")
            v = p.arg(x)
            for w in words:
                p.out(p.node(w, v), elementwise(lambda t: float(UNARY[w](np.float64(t))), x).astype(DT[d]))
            p.case(tol=tol)
            p.write(folder, f"words_{kind}_{d}")


def float_mod(x, y):
    r = math.fmod(x, y) if y != 0 and abs(x) != inf else nan
    if r == 0:
        return math.copysign(0.0, y)
    return r + y if r == r and (r < 0) != (y < 0) else r


def div(x, y):
    return float(np.float64(x) / np.float64(y))


def c_pow(x, y):
    if x == 0 and y < 0:
        return math.copysign(inf, x) if y != -inf and y == int(y) and int(y) % 2 else inf
    return math.pow(x, y)


def pick_min(x, y):
    return x if x < y or x != x else y


def pick_max(x, y):
    return x if x > y or x != x else y


BINARY = {"add": lambda x, y: x + y, "sub": lambda x, y: x - y, "mul": lambda x, y: x * y, "div": div, "min": pick_min, "max": pick_max,
          "fmod": lambda x, y: math.fmod(x, y) if y != 0 and abs(x) != inf else nan, "mod": float_mod}
TESTS = {"eq": lambda x, y: x == y, "ne": lambda x, y: x != y, "lt": lambda x, y: x < y, "le": lambda x, y: x <= y,
         "gt": lambda x, y: x > y, "ge": lambda x, y: x >= y}


def binary_words(folder):
    values = [0.0, -0.0, 1, -1, 2.5, -3, 7.25, 1e-3, inf, -inf, nan]
    pairs = list(itertools.product(values, values))
    for d in FLOATS:
        x, y = (np.array([q[k] for q in pairs], DT[d]) for k in (0, 1))
        p = Program(f"Binary words on {d}; infinite divisors of mod are left out")
        a, b = p.arg(x), p.arg(y)
        for w in BINARY:
            if w == "mod":        # the sign of a zero is not said: see the program of pow
                continue
            if w == "fmod":
                finite = np.where(np.abs(f64s(y)) == inf, 1, f64s(y)).astype(DT[d])
                p.out(p.node(w, a, p.arg(finite)), elementwise(BINARY[w], x, finite).astype(DT[d]))
            else:
                p.out(p.node(w, a, b), elementwise(BINARY[w], x, y).astype(DT[d]))
        for w in TESTS:
            p.out(p.node(w, a, b), elementwise(TESTS[w], x, y).astype(bool))
        p.out(p.node("isnan", a), np.isnan(f64s(x)))
        p.out(p.node("isinf", a), np.isinf(f64s(x)))
        p.case(tol="0 0")
        p.write(folder, f"words_binary_{d}")
        p = Program(f"pow and mod on {d}")
        ok = [(u, v) for u, v in itertools.product([0.0, -0.0, 1, -1, 2.5, -3, 0.5, inf, -inf, nan], [0, 1, 2, -1, -2, 0.5, -0.5, 3, 2.5, inf, -inf, nan])]
        x, y = (np.array([q[k] for q in ok], DT[d]) for k in (0, 1))
        p.out(p.node("pow", p.arg(x), p.arg(y)), elementwise(c_pow, x, y).astype(DT[d]))
        y = np.where(np.abs(f64s(y)) == inf, 1, f64s(y)).astype(DT[d])
        p.out(p.node("mod", p.arg(x), p.arg(y)), elementwise(float_mod, x, y).astype(DT[d]))
        p.case(tol=TOL[d])
        p.write(folder, f"words_pow_{d}")


def param_words(folder):
    x = np.array([-9, -4, -3, -2, -1, -0.5, -0.0, 0.0, 0.5, 1, 2, 3, 4, 9], np.float64)
    al, ga = 0.75, 1.25
    words = {
        "clip": ((-1.5, 2.0), lambda t: min(2.0, max(-1.5, t))), "swish": ((al,), lambda t: t / (1 + math.exp(-al * t))),
        "hardsigmoid": ((0.2, 0.5), lambda t: max(0, min(1, 0.2 * t + 0.5))), "elu": ((al,), lambda t: t if t > 0 else al * math.expm1(t)),
        "selu": ((al, ga), lambda t: ga * (t if t > 0 else al * math.expm1(t))),
        "celu": ((al,), lambda t: max(0, t) + min(0, al * math.expm1(t / al))),
        "leaky_relu": ((0.125,), lambda t: t if t >= 0 else 0.125 * t), "thresholded_relu": ((1.0,), lambda t: t if t > 1 else 0.0),
        "shrink": ((1.5, 0.25), lambda t: t + 0.25 if t < -1.5 else t - 0.25 if t > 1.5 else 0.0)}
    for d in FLOATS:
        p = Program(f"Words with parameters on {d}")
        v = p.arg(x.astype(DT[d]))
        for w, (params, fn) in words.items():
            args = [p.arg(np.array(c, DT[d])) for c in params]
            p.out(p.node(w, v, *args), np.array([fn(float(t)) for t in x]).astype(DT[d]))
        p.case(tol=BODY_TOL[d].split()[0] + " " + ("1e-6" if d == "f32" else BODY_TOL[d].split()[1]))
        p.write(folder, f"words_params_{d}")


def wrap(v, d):
    b = BITS[d]
    v &= (1 << b) - 1
    return v - (1 << b) if d[0] == "i" and v >> (b - 1) else v


def int_div(x, y):
    return 0 if y == 0 else (abs(x) // abs(y)) * (1 if (x < 0) == (y < 0) else -1)


def int_pow(x, y):
    return x ** y if y >= 0 else 1 if x == 1 else (-1 if y & 1 else 1) if x == -1 else 0


INT_BINARY = {"add": lambda x, y, b: x + y, "sub": lambda x, y, b: x - y, "mul": lambda x, y, b: x * y, "div": lambda x, y, b: int_div(x, y),
              "mod": lambda x, y, b: x % y if y else 0, "fmod": lambda x, y, b: x - int_div(x, y) * y if y else 0,
              "min": lambda x, y, b: min(x, y), "max": lambda x, y, b: max(x, y), "and": lambda x, y, b: x & y, "or": lambda x, y, b: x | y,
              "xor": lambda x, y, b: x ^ y}


def int_words(folder):
    for d in INTS:
        b, signed = BITS[d], d[0] == "i"
        lo, hi = (-(1 << b - 1), (1 << b - 1) - 1) if signed else (0, (1 << b) - 1)
        values = sorted({0, 1, 2, 3, 7, 100, hi, hi - 1, lo, hi // 2} | ({-1, -2, -7, lo + 1} if signed else set()))
        pairs = list(itertools.product(values, values))
        xs, ys = [q[0] for q in pairs], [q[1] for q in pairs]
        p = Program(f"Integer words on {d}")
        a, c = p.arg(np.array(xs, DT[d])), p.arg(np.array(ys, DT[d]))
        for w, fn in INT_BINARY.items():
            p.out(p.node(w, a, c), np.array([wrap(fn(x, y, b), d) for x, y in pairs], DT[d]))
        for w, fn in TESTS.items():
            p.out(p.node(w, a, c), np.array([fn(x, y) for x, y in pairs], bool))
        for w, fn in {"neg": lambda x: -x, "abs": abs, "sign": lambda x: (x > 0) - (x < 0), "not": lambda x: ~x, "square": lambda x: x * x,
                      "relu": lambda x: max(0, x)}.items():
            p.out(p.node(w, a), np.array([wrap(fn(x), d) for x in xs], DT[d]))
        shifts = np.array([0, 1, b - 1, b, 100][: 5], DT[d])
        s = p.arg(np.resize(shifts, len(xs)))
        p.out(p.node("shl", a, s), np.array([wrap(x << int(k), d) if k < b else 0 for x, k in zip(xs, np.resize(shifts, len(xs)))], DT[d]))
        p.out(p.node("shr", a, s), np.array([x >> int(k) if k < b else (-1 if x < 0 else 0) for x, k in zip(xs, np.resize(shifts, len(xs)))], DT[d]))
        e = np.array([q % 6 for q in range(len(xs))], DT[d])
        p.out(p.node("pow", a, p.arg(e)), np.array([wrap(int_pow(x, int(k)), d) for x, k in zip(xs, e)], DT[d]))
        p.out(p.node("clip", a, p.arg(np.array(3, DT[d])), p.arg(np.array(90, DT[d]))), np.array([min(90, max(3, x)) for x in xs], DT[d]))
        p.case()
        p.write(folder, f"words_int_{d}")
    p = Program("Logic on bool, broadcasting select")
    x, y = np.array([0, 0, 1, 1], bool), np.array([0, 1, 0, 1], bool)
    a, c = p.arg(x), p.arg(y)
    for w, fn in {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor, "eq": np.equal, "ne": np.not_equal, "lt": lambda s, t: ~s & t,
                  "ge": lambda s, t: s | ~t}.items():
        p.out(p.node(w, a, c), fn(x, y))
    p.out(p.node("not", a), ~x)
    for d in ["f32", "i64", "u8", "bool", "f16"]:
        u, v = np.array([[1], [0], [3]]).astype(DT[d]), np.array([5, 6, 7, 8]).astype(DT[d])
        p.out(p.node("select", a, p.arg(u), p.arg(v)), np.where(x, u, v))
    p.case()
    p.write(folder, "words_bool")


# -- Casts ---------------------------------------------------------------------------------------------------------

def cast(a, to, saturate=True):
    d = name(a)
    if to in BITS:
        if d in BITS or d == "bool":
            return np.array([wrap(int(v), to) for v in a], DT[to])
        b = BITS[to]
        lo, hi = (-(1 << b - 1), (1 << b - 1) - 1) if to[0] == "i" else (0, (1 << b) - 1)
        if b < 8:
            lo, hi = -(1 << 31), (1 << 31) - 1
        out = []
        for v in map(float, a):
            i = 0 if v != v else hi if v > hi else lo if v < lo else int(v)
            out.append(wrap(i, to))
        return np.array(out, DT[to])
    if to == "bool":
        return np.array([float(v) != 0 for v in a])
    if to in ("f32", "f64"):
        return a.astype(DT[to])
    f = a.astype(np.float32)
    if to.startswith("f8") and saturate:
        big = float(m.finfo(DT[to]).max)
        f = np.where(np.isnan(f), f, np.clip(f, -big, big)).astype(np.float32)
    return f.astype(DT[to])


def casts(folder):
    base = [0, 1, -1, 2, 3, -3.5, 0.5, 1.5, 6, 7, 8, 9.7, -9, 15, 16, 100, 127, 128, 200, -200, 255, 256, 300, 448, 1000, 40000, -40000, 65504,
            70000, 1e6, 3e9, -3e9, 1e10, 0.3, 1e-3, 5e-8]
    for d in DT:
        if d == "f4e2m1" or d in ("u4", "i4", "u2", "i2"):
            x = np.arange(16 if d[1] == "4" else 4, dtype=np.uint8)
            x = x.view(DT[d]) if d == "f4e2m1" else np.array([wrap(int(v), d) for v in x], DT[d])
        elif d in BITS:
            x = np.array(sorted({wrap(int(v), d) for v in base}), DT[d])
        elif d == "bool":
            x = np.array([0, 1], bool)
        else:
            x = np.array(base + [nan, inf, -inf, -0.0], np.float64).astype(np.float32).astype(DT[d])
        p = Program(f"Casts from {d}")
        v = p.arg(x)
        for to in DT:
            if to != d and not (to == "f4e2m1" and np.isnan(x.astype(np.float32)).any()):
                p.out(p.node("cast", v, to=to), cast(x, to))
                if to.startswith("f8"):
                    p.out(p.node("cast", v, to=to, saturate=0), cast(x, to, False))
        p.case(tol="0 0")
        p.write(folder, f"cast_{d}")


def quantised(folder):
    """Rounded, moved by a zero point, cast to bytes, and back; the inverse of what comes back tells 0 from -0."""
    base = [0, 0.4, 0.5, 1.5, 2.5, -0.4, -0.5, -1.5, 17.2, -110.5, -111, -135.2, 126.5, 127.4, 127.5, 128, 144.5, 145.5, 254.5, 255.5, 300, 32767.5, 65535,
            -128.5, -129, -32768.5, -40000, 16777217, 3e9, -3e9, 1e30, -1e30, nan, inf, -inf, -0.0]
    x = np.array(base + [-v for v in base[1:]], np.float64).astype(np.float32)
    p = Program("Floats quantised with zero points, and back again")
    v = p.arg(x)
    p.body.append("  %one = constant() {value = f32[] [1]} : f32[]")
    rounded = p.node("round", v)
    with np.errstate(all="ignore"):
        for k, (to, zero) in enumerate([("u8", 0), ("u8", 110), ("u8", 255), ("u8", -3), ("i8", 0), ("i8", 5), ("i8", -128), ("u16", 7), ("i16", -200), ("u8", 0.5)]):
            p.body.append(f"  %zero{k} = constant() {{value = f32[] [{zero}]}} : f32[]")
            moved = p.node("add", rounded, f"%zero{k}"), np.round(x) + np.float32(zero)
            for value, of in (moved, (v, x)):
                q = p.node("cast", value, to=to)
                p.out(q, cast(of, to))
                p.out(p.node("div", "%one", p.node("cast", q, to="f32")), np.float32(1) / cast(of, to).astype(np.float32))
    p.case(tol="0 0")
    p.write(folder, "cast_quantised")


# -- Moves ---------------------------------------------------------------------------------------------------------

def ramp(*shape, d="f32"):
    return np.arange(math.prod(shape)).reshape(shape).astype(DT[d])


def moves(folder):
    x = ramp(2, 3, 4)
    p = Program("Views: reshape, transpose, expand, slice, concat, iota")
    v = p.arg(x)
    p.out(p.node("reshape", v, shape=[4, 6]), x.reshape(4, 6))
    p.out(p.node("reshape", p.node("transpose", v, perm=[1, 0, 2]), shape=[3, 8]), x.transpose(1, 0, 2).reshape(3, 8))
    p.out(p.node("transpose", v, perm=[2, 0, 1]), x.transpose(2, 0, 1))
    p.out(p.node("slice", v, starts=[1, 2, 3], sizes=[2, 2, 3], steps=[-1, -2, -1]), x[::-1, 2::-2, 3:0:-1])
    p.out(p.node("slice", v, starts=[0, 1, 0], sizes=[2, 0, 4], steps=[1, 1, 1]), x[:, 1:1])
    row = p.node("slice", v, starts=[0, 0, 0], sizes=[2, 1, 4], steps=[1, 1, 1])
    p.out(p.node("expand", row, shape=[3, 2, 5, 4]), np.broadcast_to(x[:, :1], (3, 2, 5, 4)).copy())
    flipped = p.node("slice", v, starts=[0, 2, 0], sizes=[2, 3, 4], steps=[1, -1, 1])
    p.out(p.node("concat", v, flipped, row, axis=1), np.concatenate([x, x[:, ::-1], x[:, :1]], 1))
    p.out(p.node("concat", v, p.node("neg", v), axis=2), np.concatenate([x, -x], 2))
    p.out(p.node("iota", shape=[2, 3], axis=1, to="f32"), np.broadcast_to(np.arange(3, dtype=np.float32), (2, 3)).copy())
    p.out(p.node("iota", shape=[3, 2], axis=0, to="i8"), np.repeat(np.arange(3, dtype=np.int8)[:, None], 2, 1))
    p.case(tol="0 0")
    p.write(folder, "move_views")
    for d in ["f32", "u8", "i64", "f16", "bool"]:
        x = (ramp(3, 5) % 7).astype(DT[d])
        p = Program(f"Padding of {d}")
        v, z = p.arg(x), p.arg(np.array(1, DT[d]))
        p.out(p.node("pad", v, before=[1, 0], after=[0, 2]), np.pad(x, [(1, 0), (0, 2)]))
        p.out(p.node("pad", v, z, before=[0, 1], after=[2, 0], mode="constant"), np.pad(x, [(0, 2), (1, 0)], constant_values=1))
        for mode in ("edge", "reflect", "wrap"):
            p.out(p.node("pad", v, before=[2, 3], after=[1, 4], mode=mode), np.pad(x, [(2, 1), (3, 4)], mode=mode))
        p.case(tol="0 0")
        p.write(folder, f"move_pad_{d}")


def gathers(folder):
    x = ramp(3, 4, 2)
    p = Program("Gathers: negative indices, i32 indices, several ranks")
    v = p.arg(x)
    i = np.array([[2, -1], [0, -3]], np.int64)
    p.out(p.node("gather", v, p.arg(i), axis=0), np.take(x, i, 0))
    i = np.array([3, -4, 1], np.int32)
    p.out(p.node("gather", v, p.arg(i), axis=1), np.take(x, i, 1))
    i = np.array(1, np.int64)
    p.out(p.node("gather", v, p.arg(i), axis=2), np.take(x, i, 2))
    i = np.array([[[0, 1], [2, 0]], [[1, 1], [-1, -2]]], np.int64)
    p.out(p.node("gather_elements", v, p.arg(i), axis=0), np.take_along_axis(x[:, :2], i, 0))
    i = rng.integers(-2, 2, (3, 4, 5))
    p.out(p.node("gather_elements", v, p.arg(i), axis=2), np.take_along_axis(x, i, 2))
    i = np.array([[0, 1], [-1, 3]], np.int64)
    p.out(p.node("gather_nd", v, p.arg(i), batch_dims=0), x[[0, -1], [1, 3]])
    i = np.array([[1], [3], [-1]], np.int64)
    p.out(p.node("gather_nd", v, p.arg(i), batch_dims=1), np.stack([x[k, i[k, 0]] for k in range(3)]))
    i = np.array([[[0, 1, 1]], [[2, 3, 0]]], np.int64)
    p.out(p.node("gather_nd", v, p.arg(i), batch_dims=0), np.array([[x[0, 1, 1]], [x[2, 3, 0]]]))
    p.case(tol="0 0")
    p.write(folder, "gather")
    p = Program("Scatters: every mode, repeated and negative indices")
    ops = {"none": lambda a, b: b, "add": lambda a, b: a + b, "mul": lambda a, b: a * b, "min": min, "max": max}
    for d in ("f32", "i64"):
        x = ramp(3, 4, d=d)
        v = p.arg(x)
        i, u = np.array([[0, 2, -1, 1], [0, 0, 2, 1]], np.int64), (ramp(2, 4, d=d) * 3 - 5).astype(DT[d])
        iv, uv = p.arg(i), p.arg(u)
        for mode, fn in ops.items():
            y = x.copy()
            for r, c in np.ndindex(i.shape):
                y[i[r, c], c] = fn(y[i[r, c], c], u[r, c])
            p.out(p.node("scatter_elements", v, iv, uv, axis=0, mode=mode), y)
        i, u = np.array([[1], [-3], [1]], np.int64), (ramp(3, 4, d=d) - 4).astype(DT[d])
        iv, uv = p.arg(i), p.arg(u)
        for mode, fn in ops.items():
            y = x.copy()
            for r in range(3):
                for c in range(4):
                    y[i[r, 0], c] = fn(y[i[r, 0], c], u[r, c])
            p.out(p.node("scatter_nd", v, iv, uv, mode=mode), y)
    p.case(tol="0 0")
    p.write(folder, "scatter")


# -- Reductions, contractions, windows ------------------------------------------------------------------------------

def reductions(folder):
    for d in FLOATS + ["i8", "u8", "i32", "i64", "u64", "u32"]:
        x = (rng.integers(-20, 20, (3, 5, 4, 7)) / 8) if d in FLOATS else rng.integers(0 if d[0] == "u" else -9, 20, (3, 5, 4, 7))
        x = x.astype(DT[d])
        p = Program(f"Reductions of {d} over every set of axes")
        v = p.arg(x)
        wide = x.astype(np.float64 if d in FLOATS else np.uint64 if d == "u64" else np.int64)
        for n, axes in enumerate(itertools.chain.from_iterable(itertools.combinations(range(4), k) for k in range(1, 5))):
            keep = n % 2
            for op, fn in (("reduce_sum", np.sum), ("reduce_max", np.max), ("reduce_min", np.min)):
                p.out(p.node(op, v, axes=list(axes), keepdims=keep), fn(wide, axes, keepdims=bool(keep)).astype(DT[d]))
        y = (x[:1, :2, 0, :3]).copy()
        p.out(p.node("reduce_prod", p.arg(y), axes=[1], keepdims=0), np.prod(y.astype(wide.dtype), 1).astype(DT[d]))
        p.case(tol={"f64": "1e-12 1e-12", "f32": "1e-6 1e-6", "f16": "1e-3 1e-3", "bf16": "1e-2 1e-2"}.get(d, "0 0"))
        p.write(folder, f"reduce_{d}")
    p = Program("Reductions of nothing, of bool, with NaN; argmax and argmin; running sums")
    e = np.zeros((2, 0, 3), np.float32)
    v = p.arg(e)
    for op, value in (("sum", 0), ("prod", 1), ("max", -inf), ("min", inf)):
        p.out(p.node("reduce_" + op, v, axes=[1], keepdims=0), np.full((2, 3), value, np.float32))
    v = p.arg(np.zeros((0,), np.int8))
    for op, value in (("sum", 0), ("prod", 1), ("max", -128), ("min", 127)):
        p.out(p.node("reduce_" + op, v, axes=[0], keepdims=1), np.full((1,), value, np.int8))
    b = np.array([[0, 1, 0], [1, 1, 1], [0, 0, 0]], bool)
    v = p.arg(b)
    p.out(p.node("reduce_max", v, axes=[1], keepdims=0), b.any(1))
    p.out(p.node("reduce_min", v, axes=[0], keepdims=1), b.all(0, keepdims=True))
    x = np.array([[1, nan, 3, 3], [5, 5, -2, 1], [-inf, -inf, -inf, -inf], [nan, 2, nan, 9]], np.float32)
    v = p.arg(x)
    p.out(p.node("reduce_max", v, axes=[1], keepdims=0), x.max(1))
    p.out(p.node("reduce_min", v, axes=[0], keepdims=0), x.min(0))
    p.out(p.node("argmax", v, axis=1, keepdims=0), x.argmax(1))
    p.out(p.node("argmin", v, axis=1, keepdims=1), x.argmin(1)[:, None])
    p.out(p.node("argmax", v, axis=1, keepdims=0, last=1), np.array([1, 1, 3, 2]))
    p.out(p.node("argmin", v, axis=0, keepdims=0), x.argmin(0))
    k = rng.integers(0, 5, (4, 3, 5)).astype(np.uint8)
    v = p.arg(k)
    p.out(p.node("argmax", v, axis=1, keepdims=0), k.argmax(1))
    p.out(p.node("argmin", v, axis=0, keepdims=0, last=1), 3 - k[::-1].argmin(0))
    x = (rng.integers(-8, 8, (3, 4, 5)) / 4).astype(np.float32)
    v = p.arg(x)
    for axis in range(3):
        p.out(p.node("cumsum", v, axis=axis), x.cumsum(axis))
    c = np.flip(np.flip(x, 1).cumsum(1), 1)
    p.out(p.node("cumsum", v, axis=1, reverse=1), c.copy())
    p.out(p.node("cumsum", v, axis=1, reverse=1, exclusive=1), c - x)
    p.out(p.node("cumsum", v, axis=2, exclusive=1), x.cumsum(2) - x)
    p.out(p.node("cumprod", v, axis=2), x.cumprod(2))
    i = rng.integers(-9, 9, (3, 4)).astype(np.int32)
    p.out(p.node("cumsum", p.arg(i), axis=0), i.cumsum(0).astype(np.int32))
    p.case(tol="1e-6 1e-6")
    p.write(folder, "reduce_special")


def noise(*shape, d="f32"):
    return rng.standard_normal(shape).astype(np.float32).astype(DT[d])


def matmuls(folder):
    p = Program("Matrix products: batches, broadcasts, transposes, odd sizes")
    for sa, sb, ta, tb in (((3, 4), (4, 5), 0, 0), ((1, 7), (7, 1), 0, 0), ((2, 3, 4), (4, 5), 0, 0), ((2, 1, 3, 4), (5, 4, 2), 0, 0),
                           ((4, 3), (4, 5), 1, 0), ((3, 4), (5, 4), 0, 1), ((2, 4, 3), (2, 5, 4), 1, 1), ((1, 33), (33, 65), 0, 0),
                           ((17, 9), (9, 33), 0, 0), ((13, 40), (40, 17), 0, 0), ((3, 0), (0, 2), 0, 0), ((2, 3, 1), (1, 6), 0, 0)):
        a, b = noise(*sa), noise(*sb)
        A = np.swapaxes(a, -1, -2) if ta else a
        B = np.swapaxes(b, -1, -2) if tb else b
        p.out(p.node("matmul", p.arg(a), p.arg(b), trans_a=ta, trans_b=tb), (f64s(A) @ f64s(B)).astype(np.float32))
    p.case(tol="1e-5 1e-5")
    p.write(folder, "matmul")
    p = Program("Matrix products of other types, with a wider result")
    for d, to in (("f64", "f64"), ("f16", "f16"), ("f16", "f32"), ("bf16", "bf16"), ("bf16", "f32"), ("i32", "i32"), ("i64", "i64"), ("u8", "i32"),
                  ("i8", "i32"), ("u32", "u32")):
        a, b = (noise(5, 19, d=d), noise(19, 6, d=d)) if d in FLOATS else (rng.integers(0, 100, (5, 19)).astype(DT[d]), rng.integers(0, 9, (19, 6)).astype(DT[d]))
        wide = (f64s(a) @ f64s(b)) if d in FLOATS else a.astype(np.int64) @ b.astype(np.int64)
        p.out(p.node("matmul", p.arg(a), p.arg(b), to=to), wide.astype(np.float32).astype(DT[to]) if to in ("bf16",) else wide.astype(DT[to]))
    p.case(tol="9e-3 2e-3")
    p.write(folder, "matmul_types")
    p = Program("Large enough for every tile and its edges")
    a, b = noise(37, 70), noise(70, 51)
    p.out(p.node("matmul", p.arg(a), p.arg(b)), (f64s(a) @ f64s(b)).astype(np.float32))
    p.case(tol="1e-5 1e-5")
    p.write(folder, "matmul_tiles")


def windows(folder):
    t = torch.from_numpy
    p = Program("Convolutions: 1, 2 and 3 spatial axes, strides, dilations, groups, uneven padding, bias")
    for xs, ws, stride, dil, before, after, groups, bias in (
            ((1, 2, 9), (3, 2, 3), [1], [1], [0], [0], 1, 0), ((2, 3, 8), (4, 3, 2), [2], [3], [1], [2], 1, 1),
            ((1, 3, 6, 7), (5, 3, 3, 3), [1, 1], [1, 1], [1, 1], [1, 1], 1, 1), ((2, 4, 7, 5), (6, 2, 1, 1), [1, 1], [1, 1], [0, 0], [0, 0], 2, 0),
            ((1, 4, 8, 8), (4, 1, 3, 3), [2, 2], [1, 1], [1, 1], [1, 1], 4, 1), ((1, 17, 5, 6), (17, 1, 3, 3), [1, 1], [1, 1], [1, 1], [1, 1], 17, 1),
            ((1, 2, 9, 9), (3, 2, 3, 2), [2, 3], [2, 1], [0, 2], [3, 1], 1, 1), ((1, 2, 4, 5, 6), (3, 2, 2, 3, 2), [1, 2, 1], [1, 1, 2], [1, 0, 1], [0, 1, 1], 1, 1),
            ((1, 16, 6, 6), (33, 16, 3, 3), [1, 1], [1, 1], [1, 1], [1, 1], 1, 1), ((1, 32, 5, 5), (16, 32, 1, 1), [2, 2], [1, 1], [0, 0], [0, 0], 1, 0)):
        x, w, c = noise(*xs), noise(*ws), noise(ws[0])
        pads = [v for k in reversed(range(len(before))) for v in (before[k], after[k])]
        conv = [F.conv1d, F.conv2d, F.conv3d][len(before) - 1]
        y = conv(F.pad(t(f64s(x)), pads), t(f64s(w)), t(f64s(c)) if bias else None, stride, 0, dil, groups).numpy().astype(np.float32)
        p.out(p.node("conv", p.arg(x), p.arg(w), *([p.arg(c)] if bias else []), strides=stride, dilations=dil, before=before, after=after, groups=groups), y)
    p.case(tol="1e-5 1e-5")
    p.write(folder, "conv")
    p = Program("Integer and f16 convolutions")
    x, w = rng.integers(-9, 9, (1, 3, 6, 5)), rng.integers(-9, 9, (4, 3, 3, 2))
    y = F.conv2d(t(x.astype(np.float64)), t(w.astype(np.float64)), None, [1, 1], 0).numpy()
    p.out(p.node("conv", p.arg(x.astype(np.int8)), p.arg(w.astype(np.int8)), to="i32"), y.astype(np.int32))
    p.out(p.node("conv", p.arg(x.astype(np.int32)), p.arg(w.astype(np.int32))), y.astype(np.int32))
    p.out(p.node("conv", p.arg(x.astype(np.float16)), p.arg(w.astype(np.float16))), y.astype(np.float16))
    p.out(p.node("conv", p.arg(x.astype(np.float64)), p.arg(w.astype(np.float64))), y)
    p.case(tol="1e-3 1e-3")
    p.write(folder, "conv_types")
    p = Program("Depthwise convolutions of bytes: padded, strided; sums above 2^24, which floats do not have")
    own = np.random.default_rng(2)
    for taps, stride, before, most in (((3, 3), [1, 1], [1, 1], 0), ((5, 5), [2, 2], [2, 2], 0), ((75, 7), [1, 1], [0, 0], 1)):
        x, w = own.integers(0, 256, (1, 8, taps[0] + (not most), taps[1] + 3)), own.integers(-128, 128, (8, 1, *taps))
        x, w = (x | 255, w * 0 - 127) if most else (x, w)
        y = F.conv2d(t(x.astype(np.float64)), t(w.astype(np.float64)), None, stride, before, 1, 8).numpy()
        p.out(p.node("conv", p.arg(x.astype(np.uint8)), p.arg(w.astype(np.int8)), to="i32", strides=stride, before=before, after=before, groups=8), y.astype(np.int32))
    p.case(tol="0 0")
    p.write(folder, "conv_bytes")
    p = Program("Transposed convolutions")
    for xs, ws, stride, dil, cut, extra, groups, bias in (((1, 2, 5), (2, 3, 3), [1], [1], [0], [0], 1, 0), ((1, 2, 3, 4), (2, 3, 3, 3), [2, 2], [1, 1], [1, 1], [1, 0], 1, 1),
                                                          ((2, 4, 3, 3), (4, 2, 2, 3), [3, 1], [1, 2], [0, 1], [0, 0], 2, 1), ((1, 1, 2, 3, 2), (1, 2, 2, 2, 2), [2, 1, 2], [1, 1, 1], [0, 0, 0], [0, 0, 1], 1, 0)):
        x, w, c = noise(*xs), noise(*ws), noise(ws[1] * groups)
        conv = [F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d][len(stride) - 1]
        y = conv(t(f64s(x)), t(f64s(w)), t(f64s(c)) if bias else None, stride, cut, extra, groups, dil).numpy().astype(np.float32)
        p.out(p.node("conv_transpose", p.arg(x), p.arg(w), *([p.arg(c)] if bias else []), strides=stride, dilations=dil, before=cut, groups=groups, shape=list(y.shape[2:])), y)
    p.case(tol="1e-5 1e-5")
    p.write(folder, "conv_transpose")


def pools(folder):
    p = Program("Pools: maximum, its place, means with and without padding")
    for xs, kernel, stride, dil, before, after in (((1, 2, 9), [3], [2], [1], [1], [1]), ((2, 3, 7, 6), [3, 2], [2, 2], [1, 1], [1, 0], [1, 1]),
                                                   ((1, 17, 8, 8), [2, 2], [2, 2], [1, 1], [0, 0], [0, 0]), ((1, 2, 9, 9), [3, 3], [1, 2], [2, 2], [1, 1], [0, 1]),
                                                   ((1, 2, 4, 5, 6), [2, 2, 3], [1, 2, 2], [1, 1, 1], [0, 1, 1], [1, 0, 1]), ((1, 3, 5, 4), [5, 4], [1, 1], [1, 1], [0, 0], [0, 0])):
        x = (rng.integers(-40, 40, xs) / 8).astype(np.float32)
        v = p.arg(x)
        attrs = dict(kernel=kernel, strides=stride, dilations=dil, before=before, after=after)
        out = [(xs[k + 2] + before[k] + after[k] - (kernel[k] - 1) * dil[k] - 1) // stride[k] + 1 for k in range(len(kernel))]
        big, place, mean, full, total = (np.zeros(xs[:2] + tuple(out)) for _ in range(5))
        for n, c in np.ndindex(*xs[:2]):
            for o in np.ndindex(*out):
                seen = []
                padded = 0
                for tap in np.ndindex(*kernel):
                    at = [o[k] * stride[k] + tap[k] * dil[k] - before[k] for k in range(len(kernel))]
                    padded += all(-before[k] <= at[k] < xs[k + 2] + after[k] for k in range(len(kernel)))
                    if all(0 <= at[k] < xs[k + 2] for k in range(len(kernel))):
                        seen.append((float(x[(n, c) + tuple(at)]), int(np.ravel_multi_index(at, xs[2:]))))
                best = max(s[0] for s in seen)
                big[(n, c) + o] = best
                place[(n, c) + o] = next(s[1] for s in seen if s[0] == best)
                s = sum(s[0] for s in seen)
                mean[(n, c) + o], full[(n, c) + o], total[(n, c) + o] = s / len(seen), s / padded, s
        p.out(p.node("max_pool", v, **attrs), big.astype(np.float32))
        p.out(p.node("max_pool_index", v, **attrs), place.astype(np.int64))
        p.out(p.node("avg_pool", v, mode="valid", **attrs), mean.astype(np.float32))
        p.out(p.node("avg_pool", v, mode="full", **attrs), full.astype(np.float32))
        p.out(p.node("avg_pool", v, mode="sum", **attrs), total.astype(np.float32))
    for d in ("u8", "i8", "f16", "f64"):
        x = rng.integers(0 if d == "u8" else -50, 100, (1, 2, 6, 6)).astype(DT[d])
        p.out(p.node("max_pool", p.arg(x), kernel=[2, 3], strides=[2, 3]), x.reshape(1, 2, 3, 2, 2, 3).max((3, 5)))
    p.case(tol="1e-6 1e-6")
    p.write(folder, "pool")


def attention(folder):
    p = Program("Attention: grouped heads, causal, masks of several shapes, rows without a visible key")
    t = torch.from_numpy
    for b, h, g, s, k, d, e, causal, mask in ((1, 2, 2, 4, 5, 3, 4, 0, None), (2, 4, 2, 3, 3, 8, 8, 1, None), (1, 3, 1, 5, 6, 4, 2, 0, (5, 6)),
                                              (2, 2, 2, 3, 4, 4, 4, 0, (2, 1, 1, 4)), (1, 1, 1, 17, 19, 16, 16, 1, (1, 1, 17, 19)), (1, 2, 2, 3, 4, 4, 4, 0, "hidden")):
        q, kk, v = noise(b, h, s, d), noise(b, g, k, d), noise(b, g, k, e)
        scale = 0.3
        args = [p.arg(q), p.arg(kk), p.arg(v)]
        add = None
        if mask is not None:
            add = noise(*mask) if mask != "hidden" else np.where(np.arange(12).reshape(3, 4) < 4, -inf, 0).astype(np.float32)
            args.append(p.arg(add))
        p.out(p.node("attention", *args, scale=scale, causal=causal), attended(q, kk, v, scale, add, causal))
    p.case(tol="1e-5 1e-5")
    p.write(folder, "attention")


def attended(q, k, v, scale, add=None, causal=0):
    heads = q.shape[1] // k.shape[1]
    score = f64s(q) @ np.swapaxes(np.repeat(f64s(k), heads, 1), -1, -2) * scale
    if add is not None:
        score = score + f64s(add)
    if causal:
        score = np.where(np.arange(k.shape[2])[None] > np.arange(q.shape[2])[:, None], -inf, score)
    top = score.max(-1, keepdims=True)
    w = np.exp(score - np.where(top == -inf, 0, top))
    total = w.sum(-1, keepdims=True)
    w = np.where(total == 0, 0, w / np.where(total == 0, 1, total))
    return (w @ np.repeat(f64s(v), heads, 1)).astype(np.float32)


def attention_row(folder):
    p = Program("Attention of one row, known and not, over keys that end within a vector, a block, and behind the first one; widths with a rest")
    for h, g, s, k, d, e, mask, symbols in ((2, 1, 1, 37, 20, 24, True, False), (1, 1, 1, 16, 3, 5, False, False), (1, 1, 1, 131, 17, 3, True, True)):
        t = ("n", "m") if symbols else (s, k)
        args = [p.arg(noise(1, h, s, d), f"f32[1,{h},{t[0]},{d}]"), p.arg(noise(1, g, k, d), f"f32[1,{g},{t[1]},{d}]"), p.arg(noise(1, g, k, e), f"f32[1,{g},{t[1]},{e}]")]
        args += [p.arg(np.where(np.arange(k) % 7 == 3, -inf, noise(s, k)).astype(np.float32), f"f32[{t[0]},{t[1]}]")] if mask else []
        first = len(p.ins) - len(args)
        p.out(p.node("attention", *args, scale=0.4, causal=0), attended(*p.ins[first:first + 3], 0.4, p.ins[-1] if mask else None), f"f32[1,{h},{t[0]},{e}]")
    p.case("one row", tol="1e-5 1e-5")
    for rows, keys in ((3, 20), (65, 5)):  # the second: a tile of whole row blocks, and one of one row
        q, k, v, add = noise(1, 1, rows, 17), noise(1, 1, keys, 17), noise(1, 1, keys, 3), noise(rows, keys)
        p.ins[-4:], p.outs[-1] = [q, k, v, add], attended(q, k, v, 0.4, add)
        p.case(f"{rows} rows")
    p.write(folder, "attention_row")


def sorting(folder):
    p = Program("topk: ties, NaN, both directions, every axis, several types")
    for d in ("f32", "f16", "i64", "u8", "u64"):
        x = rng.integers(0, 6, (3, 7, 4)).astype(DT[d])
        if d == "f32":
            x[0, 3, 1], x[2, 0, 0] = nan, nan
        v = p.arg(x)
        for axis, k, largest in ((0, 2, 1), (1, 7, 0), (1, 3, 1), (2, 1, 0), (2, 4, 1)):
            key = np.where(np.isnan(f64s(x)), inf, f64s(x))
            order = np.argsort(-key if largest else key, axis, kind="stable")
            index = np.take(order, range(k), axis)
            p.n += 1
            p.body.append(f"  %v{p.n}, %i{p.n} = topk({v}) {{axis = {axis}, k = {k}, largest = {largest}, sorted = 1}}")
            p.out(f"%v{p.n}", np.take_along_axis(x, index, axis))
            p.out(f"%i{p.n}", index)
    p.case(tol="0 0")
    p.write(folder, "topk")


def philox(seed, counter):
    k, c = [seed & 0xffffffff, seed >> 32], list(counter)
    for _ in range(10):
        a, b = c[0] * 0xD2511F53, c[2] * 0xCD9E8D57
        c = [(b >> 32) ^ c[1] ^ k[0], b & 0xffffffff, (a >> 32) ^ c[3] ^ k[1], a & 0xffffffff]
        k = [(k[0] + 0x9E3779B9) & 0xffffffff, (k[1] + 0xBB67AE85) & 0xffffffff]
    return c


def randoms(folder):
    p = Program("Random numbers: Philox4x32-10, two runs of one session (the second counts one step more)")
    seed, stream = 0x123456789abcdef, 7
    for d, bits in (("f32", 24), ("f64", 32), ("f16", 11), ("bf16", 8)):
        v = p.node("random_uniform", shape=[3, 6], to=d, seed=seed, stream=stream)
        p.results.append((v, f"{d}[3,6]"))
    for d in ("f32", "f64"):
        v = p.node("random_normal", shape=[11], to=d, seed=seed, stream=stream)
        p.results.append((v, f"{d}[11]"))
    for step in (0, 1):
        p.outs = []
        words = [w for q in range(5) for w in philox(seed, (q, 0, stream, step))]
        for d, bits in (("f32", 24), ("f64", 32), ("f16", 11), ("bf16", 8)):
            p.outs.append(np.array([(w >> (32 - bits)) / 2.0 ** bits for w in words[:18]]).astype(DT[d]).reshape(3, 6))
        out = []
        for q in range(0, 12, 2):
            u, v = ((words[q] >> 8) + 1) / 2.0 ** 24, (words[q + 1] >> 8) / 2.0 ** 24
            r = math.sqrt(-2 * math.log(u))
            out += [r * math.cos(2 * math.pi * v), r * math.sin(2 * math.pi * v)]
        for d in ("f32", "f64"):
            p.outs.append(np.array(out[:11]).astype(DT[d]))
        p.case(label=f"step{step}", tol="2e-6 2e-6")
    p.head.append("state @steps: i64[] buffer")
    p.write(folder, "random")


def main():
    folder = sys.argv[1]
    for fn in (unary_words, binary_words, param_words, int_words, casts, quantised, moves, gathers, reductions, matmuls, windows, pools, attention, sorting, randoms, attention_row):
        fn(folder)


main()
