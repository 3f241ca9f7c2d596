#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes a failing case of tests/sizes small, and prints it: one data set, fewest nodes, smallest dims, plainest values.

usage: reduce.py SIZES-RUN CASE [--seconds S] [--out FOLDER]

What fails must fail in the same way all along (wrong, an internal error, runs what the interpreter refuses, ...), in whichever compiled way. Steps, as long
as one helps: another node's results are the model's (what does not lead there goes), a size is smaller wherever it stands or on one axis, numbers are 1.
"""
import argparse, os, re, shutil, subprocess, sys, tempfile, time
import numpy as np, onnx
from onnx import helper as h

from cases import write
from forms import load, read_value
from sets import joint, one_axis, sizes_of

KINDS = ("runs, and the interpreter refuses", "refuses what the interpreter runs", "refuses in other words", "internal error", "wrong")


class Reducer:
    def __init__(self, program, case, seconds):
        self.program, self.name, self.until = program, os.path.basename(case.rstrip("/")), time.time() + seconds
        self.folder = os.path.join(tempfile.mkdtemp(prefix="tccc-reduce-"), "case")
        with open(os.path.join(case, "tol"), encoding="utf-8") as f:
            self.tolerance = f.read()
        self.model = load(case)
        kind, where = self.kind_of(self.run(case))
        self.kind = kind
        self.values = self.read_set(case, where)

    def read_set(self, case, k):
        values = {}
        for j, i in enumerate(self.model.graph.input):
            path = os.path.join(case, f"test_data_set_{k}", f"input_{j}.pb")
            if os.path.exists(path):
                values[i.name] = read_value(path, i.type.WhichOneof("value"))[0]
        return values

    def run(self, folder):
        return subprocess.run([self.program, folder], capture_output=True, text=True, timeout=600).stdout

    @staticmethod
    def kind_of(text):
        """How the first failure is, and in which data set; a crash is a kind of its own."""
        m = re.search(r"^not ok - .*; first: .*, data set (-?\d+): ([^:]*)", text, re.M)
        return (next((k for k in KINDS if m[2].startswith(k)), m[2]), max(0, int(m[1]))) if m else (None, 0)

    def fails(self, model, values):
        if time.time() > self.until:
            return False
        write(self.folder, model, [("own", values)])
        with open(os.path.join(self.folder, "tol"), "w", encoding="utf-8") as f:
            f.write(self.tolerance)
        return self.kind_of(self.run(self.folder))[0] == self.kind

    # -- Steps: what is tried, smallest first

    def fewer_nodes(self):
        """The model that ends at a node; nodes that do not lead there go, and inputs that are then unused."""
        for at, node in enumerate(self.model.graph.node[:-1] if len(self.model.graph.output) == 1 else self.model.graph.node):
            m = onnx.ModelProto()
            m.CopyFrom(self.model)
            needed, keep = set(node.output), []
            for n in reversed(m.graph.node[:at + 1]):
                if needed & set(n.output):
                    keep.insert(0, n)
                    needed |= set(n.input) | {i for a in n.attribute for g in [a.g] * a.HasField("g") + list(a.graphs) for x in g.node for i in x.input}
            del m.graph.node[at + 1:]
            kept = [onnx.NodeProto.FromString(n.SerializeToString()) for n in keep]
            del m.graph.node[:], m.graph.output[:]
            m.graph.node.extend(kept)
            m.graph.output.extend(h.make_empty_tensor_value_info(o) for o in node.output if o)
            for field in m.graph.input, m.graph.initializer:
                copies = [type(x).FromString(x.SerializeToString()) for x in field if x.name in needed]
                del field[:]
                field.extend(copies)
            names = {i.name for i in m.graph.input}
            yield m, {k: v for k, v in self.values.items() if k in names}

    def smaller_sizes(self):
        if any(d.dim_value for i in self.model.graph.input for d in i.type.tensor_type.shape.dim):
            return          # fixed
        for n in reversed(sizes_of(self.values)):
            for new in sorted({0, 1, 2, 3, n // 2, n - 1}):
                if new < n:
                    yield self.model, joint(self.values, n, new, False)
                    yield self.model, joint(self.values, n, new, True)
        for _, values in one_axis(self.values):
            if sum(sum(v.shape) for v in values.values() if isinstance(v, np.ndarray)) < sum(sum(v.shape) for v in self.values.values() if isinstance(v, np.ndarray)):
                yield self.model, values

    def plainer_values(self):
        for k, v in self.values.items():
            if isinstance(v, np.ndarray) and v.dtype.kind in "fiu" and v.size and not (v == 1).all():
                yield self.model, {**self.values, k: np.ones_like(v)}

    def reduce(self):
        steps, again = (self.fewer_nodes, self.smaller_sizes, self.plainer_values), True
        while again and time.time() < self.until:
            again = False
            for step in steps:
                for model, values in step():
                    if self.fails(model, values):
                        self.model, self.values, again = model, values, True
                        break

    def show(self):
        self.fails(self.model, self.values)
        print(f"{self.name}, reduced: {self.kind}")
        print(re.sub(r"\{([^{}]{60})[^{}]{40,}\}", r"{\1...}", onnx.printer.to_text(self.model)))
        for k, v in self.values.items():
            print(f"{k}: {v.dtype}{list(v.shape)} {np.array2string(v.ravel()[:8], separator=', ')}" if isinstance(v, np.ndarray) else f"{k}: {v}")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("program")
    p.add_argument("case")
    p.add_argument("--seconds", type=float, default=60)
    p.add_argument("--out")
    o = p.parse_args()
    r = Reducer(o.program, o.case, o.seconds)
    if r.kind is None:
        print(f"{r.name} is fine")
        return 1
    r.reduce()
    r.until = time.time() + 60
    r.show()
    if o.out:
        shutil.copytree(r.folder, o.out, dirs_exist_ok=True)
    shutil.rmtree(os.path.dirname(r.folder))
    return 0


if __name__ == "__main__":
    sys.exit(main())
