"""Programs whose open dims are expressions of two sizes, drawn at random: sums, products, quotients, remainders, the larger and the smaller of two, inside one another.

Usage: made_sizes.py write SEED FILE      a program; a line to standard output: what its inputs' shapes are, in Python, of B and S
"""
import random
import sys


def expression(draw, depth):
    """As the IR writes it, and as Python does."""
    kind = draw.randrange(8) if depth else 0
    if kind == 0:
        return draw.choice([("S", "S"), ("B", "B")])
    number = draw.randrange(1, 5)
    a, pa = expression(draw, depth - 1)
    b, pb = expression(draw, depth - 1)
    return [None, (f"({a} + {b})", f"({pa} + {pb})"), (f"({a} + {number})", f"({pa} + {number})"), (f"({a}) * {number}", f"({pa}) * {number}"),
            (f"({a}) floordiv {number + 1}", f"({pa}) // {number + 1}"), (f"({a}) mod {number + 1}", f"({pa}) % {number + 1}"), (f"max({a}, {b})", f"max({pa}, {pb})"),
            (f"(min({a}, {b}) * {number})", f"(min({pa}, {pb}) * {number})")][kind]


def main():
    draw = random.Random(int(sys.argv[2]))
    (rows, prows), (columns, pcolumns) = expression(draw, 3), expression(draw, 3)
    with open(sys.argv[3], "w") as f:
        print(f"func @main(%b: f32[B,3], %s: f32[S], %x: f32[{rows},2,{columns}]) -> (f32[B], f32[S], f32[{rows},2,{columns}], f32[{rows},2]) {{\n"
              f"  %r = reduce_sum(%b) {{axes = [1], keepdims = 0}} : f32[B]\n  %t = tanh(%s) : f32[S]\n"
              f"  %u = tanh(%x) : f32[{rows},2,{columns}]\n  %v = reduce_sum(%x) {{axes = [2], keepdims = 0}} : f32[{rows},2]\n  return(%r, %t, %u, %v)\n}}", file=f)
    print(f"{{'b': (B, 3), 's': (S,), 'x': ({prows}, 2, {pcolumns})}}")


if __name__ == "__main__":
    main()
