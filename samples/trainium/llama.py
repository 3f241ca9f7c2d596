#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write a network like Llama as IR text with weights of zeros, which take no room: for modelled time (--sim=time) of sizes that no machine here holds.

usage: llama.py FILE.tcir [--layers 2] [--width 64] [--heads 4] [--groups 4] [--inner 176] [--length 64] [--words 256]

Blocks of RMSNorm, attention with rotary positions and `groups` heads of keys, and SwiGLU; logits by a table of their own. Llama 2 7B: --layers 32
--width 4096 --heads 32 --groups 32 --inner 11008 --length 4096 --words 32000; Llama 3.2 1B: --layers 16 --width 2048 --heads 32 --groups 8
--inner 8192 --length 4096 --words 128256.
"""
import argparse
import math

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("file")
for option, value in (("layers", 2), ("width", 64), ("heads", 4), ("groups", 4), ("inner", 176), ("length", 64), ("words", 256)):
    parser.add_argument("--" + option, type=int, default=value)
args = parser.parse_args()
size = args.width // args.heads
states, lines = [], []


def op(kind, *inputs, **attributes):
    name = "%%v%d" % len(lines)
    text = ", ".join("%s = %s" % (k, '"%s"' % v if type(v) is str else v) for k, v in attributes.items())
    lines.append("  %s = %s(%s)%s" % (name, kind, ", ".join(inputs), " {%s}" % text if text else ""))
    return name


def weight(name, *shape):
    kind = "f32[%s]" % ",".join(map(str, shape))
    states.append("state @%s : %s param = %s splat(0.0)" % (name, kind, kind))
    return op("state_read", name=name)


def constant(value, *shape):
    return op("constant", value=Raw("f32[%s] splat(%r)" % (",".join(map(str, shape)), float(value))))


def norm(name, x):
    mean = op("mul", op("reduce_sum", op("square", x), axes=[2], keepdims=1), constant(1 / args.width))
    return op("mul", op("mul", x, op("rsqrt", op("add", mean, constant(1e-5)))), weight(name, args.width))


def linear(name, x, inputs, outputs):
    return op("matmul", x, weight(name, inputs, outputs))


def heads(name, x, n):
    y = op("reshape", linear(name, x, args.width, n * size), shape=Raw("[N, %d, %d, %d]" % (args.length, n, size)))
    return op("transpose", y, perm=[0, 2, 1, 3])


def turned(x, n):
    """Halves of a head, turned by an angle that grows with the position."""
    half = [op("slice", x, starts=[0, 0, 0, at], sizes=Raw("[N, %d, %d, %d]" % (n, args.length, size // 2)), steps=[1, 1, 1, 1])
            for at in (0, size // 2)]
    a, b = (op("mul", half[0], cosine), op("mul", half[1], sine)), (op("mul", half[0], sine), op("mul", half[1], cosine))
    return op("concat", op("sub", *a), op("add", *b), axis=3)


class Raw(str):
    """Text that is no string."""


x = op("gather", weight("embedding", args.words, args.width), "%ids", axis=0)
place = op("iota", shape=[args.length, size // 2], axis=0, to=Raw("f32"))
rate = op("exp", op("mul", op("iota", shape=[args.length, size // 2], axis=1, to=Raw("f32")), constant(-2 * math.log(10000) / size)))
cosine, sine = op("cos", op("mul", place, rate)), op("sin", op("mul", place, rate))
for i in range(args.layers):
    h = norm(f"block{i}.norm1", x)
    q, k = (turned(heads(f"block{i}.{part}", h, n), n) for part, n in (("query", args.heads), ("key", args.groups)))
    v = heads(f"block{i}.value", h, args.groups)
    mixed = op("transpose", op("attention", q, k, v, scale=size ** -0.5, causal=1, mode="zero"), perm=[0, 2, 1, 3])
    mixed = op("reshape", mixed, shape=Raw("[N, %d, %d]" % (args.length, args.width)))
    x = op("add", x, linear(f"block{i}.project", mixed, args.width, args.width))
    h = norm(f"block{i}.norm2", x)
    gate = linear(f"block{i}.gate", h, args.width, args.inner)
    h = op("mul", op("mul", gate, op("sigmoid", gate)), linear(f"block{i}.up", h, args.width, args.inner))
    x = op("add", x, linear(f"block{i}.down", h, args.inner, args.width))
y = linear("head", norm("norm", x), args.width, args.words)
with open(args.file, "w", encoding="ascii") as f:
    f.write("\n".join([*states, 'func @main(%%ids: i64[N,%d]) -> ("logits": f32[N,%d,%d]) {' % (args.length, args.length, args.words), *lines,
                       "  return(%s)" % y, "}", ""]))
