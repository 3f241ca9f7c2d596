"""Programs with an open batch B and an open sequence S, drawn at random: sums and extremes over either, what is taken off by them again, softmax, products along S and beside it, all in
drawn orders of the dims; and how outputs compare.

Usage: sequences.py write SEED FILE      a program of some of these forms
       sequences.py inputs B S           its inputs, x.npy and y.npy
       sequences.py compare DIR DIR      the largest difference of two folders of outputs, relative to the largest element
"""
import os
import random
import sys

FORMS = 6


def shape(order):
    return "f32[" + ",".join({"b": "B", "s": "S", "h": "3", "c": "20"}[d] for d in order) + "]"


class Program:
    def __init__(self, seed):
        self.draw, self.lines, self.results = random.Random(seed), [], []

    def op(self, text, order):
        self.lines.append(f"  %v{len(self.lines)} = {text} : {shape(order)}")
        return f"%v{len(self.lines) - 1}"

    def turned(self, name, order, to):
        return self.op(f"transpose({name}) {{perm = [{', '.join(str(order.index(d)) for d in to)}]}}", to)

    def kept(self, text, order, axis):
        self.lines.append(f"  %v{len(self.lines)} = {text} : {shape(order).replace(shape(order[axis])[4:-1], '1')}")
        return f"%v{len(self.lines) - 1}"

    def mixed(self, order):
        """Both inputs in that order of their dims."""
        draw = self.draw
        return self.op(f"{draw.choice(['add', 'mul', 'sub'])}({self.turned('%x', 'bshc', order)}, {self.turned('%y', 'sbch', order)})", order)

    def reduced(self):
        order = "".join(self.draw.sample("bshc", 4))
        axes = sorted(order.index(d) for d in self.draw.choice(["s", "b", "bs", "sc", "sh", "bc"]))
        left = "".join(d for k, d in enumerate(order) if k not in axes)
        return self.op(f"reduce_{self.draw.choice(['sum', 'max', 'min'])}({self.mixed(order)}) {{axes = [{', '.join(map(str, axes))}], keepdims = 0}}", left), left

    def softmax(self):
        order = "".join(self.draw.sample("bshc", 4))
        axis, a = order.index(self.draw.choice("bs")), self.mixed(order)
        top = self.kept(f"reduce_max({a}) {{axes = [{axis}], keepdims = 1}}", order, axis)
        e = self.op(f"exp({self.op(f'sub({a}, {top})', order)})", order)
        total = self.kept(f"reduce_sum({e}) {{axes = [{axis}], keepdims = 1}}", order, axis)
        return self.op(f"div({e}, {total})", order), order

    def scores(self):
        left, right = self.mixed("bhsc"), self.mixed("bhcs")
        s = self.op(f"matmul({left}, {right})", "bhss")
        return self.op(f"{self.draw.choice(['tanh', 'sigmoid'])}({s})", "bhss"), "bhss"

    def means(self):
        s, _ = self.scores()
        return self.op(f"matmul({s}, {self.mixed('bhsc')})", "bhsc"), "bhsc"

    def sums(self):
        first, second = self.draw.sample("bh", 2)
        return self.op(f"matmul({self.mixed(first + second + 'cs')}, {self.mixed(first + second + 'sc')})", first + second + "cc"), first + second + "cc"

    def text(self):
        kinds = [self.reduced, self.reduced, self.softmax, self.scores, self.means, self.sums]
        for make in self.draw.sample(kinds, FORMS):
            self.results.append(make())
        types = ", ".join(shape(order) for _, order in self.results)
        return "\n".join([f"func @main(%x: {shape('bshc')}, %y: {shape('sbch')}) -> ({types}) {{", *self.lines,
                          f"  return({', '.join(name for name, _ in self.results)})", "}", ""])


def main():
    if sys.argv[1] == "write":
        with open(sys.argv[3], "w") as f:
            f.write(Program(int(sys.argv[2])).text())
        return
    import numpy as np
    if sys.argv[1] == "inputs":
        b, s = map(int, sys.argv[2:])
        r = np.random.default_rng(1000 * b + s)
        np.save("x", r.standard_normal((b, s, 3, 20)).astype("f4"))
        np.save("y", r.standard_normal((s, b, 20, 3)).astype("f4"))
        return
    worst, elements = 0.0, 0
    for name in sorted(os.listdir(sys.argv[2])):
        a, b = (np.load(os.path.join(folder, name)) for folder in sys.argv[2:])
        assert a.shape == b.shape, (name, a.shape, b.shape)
        elements += a.size
        worst = max(worst, float(abs(a - b).max() / abs(a).max())) if a.size else worst
    assert elements, "nothing to compare"
    print(f"{worst:.1e}")
    sys.exit(not worst < 2e-5)


if __name__ == "__main__":
    main()
