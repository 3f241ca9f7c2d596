#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Models for tests/train/gradients --opened: cases of the official suite's layout in double precision, with their dims opened.

usage: gradients.py OUT FROM... [--part K/N]

Each case that may be in double precision becomes OUT/NAME.SIZE.onnx and .notes (sizes of dims, ranges of inputs), SIZE being `own`, or its largest or
smallest size another one. What is no float is a constant. --part: those whose name's digest mod N is K.
"""
import argparse, os, re, sys
import numpy as np, onnx
from onnx import TensorProto as T, numpy_helper as nh

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "onnx"))
from cases import folders_of
from forms import digest, load, opened, read_case, retyped
from sets import arrays, joint, sizes_of

MOST = 2048             # elements: each is moved with the whole model run twice
RANGES = {"Log": (.2, 3), "Sqrt": (.2, 3), "Acos": (-.9, .9), "Asin": (-.9, .9), "Atanh": (-.9, .9), "Acosh": (1.2, 3), "Tan": (-1.2, 1.2), "Pow": (.3, 2),
          "Reciprocal": (.4, 2), "Div": (.4, 2), "ReduceLogSum": (.2, 3), "ReduceProd": (.4, 2), "Det": (.4, 2), "BatchNormalization": (.4, 2)}


# Of an axis of one element: the root of a variance that is 0 has no slope.
WITHOUT = {"test_mvn.large1", "test_mvn.small1"}
CONSTANT = {"Dropout": 1}       # an operand that is worked with in f32 whatever the type


def with_integers(model, values):
    """What is no float is a constant: numbers that were not drawn for it are not valid. None: nothing is left, or it has narrow floats."""
    m, rest = onnx.ModelProto(), dict(values)
    m.CopyFrom(model)
    constant = {n.input[CONSTANT[n.op_type]] for n in m.graph.node if n.op_type in CONSTANT and len(n.input) > CONSTANT[n.op_type]}
    for i in list(m.graph.input):
        if i.name in values and (values[i.name].dtype != np.float64 or i.name in constant):
            m.graph.initializer.append(nh.from_array(values[i.name], i.name))
            m.graph.input.remove(i)
            del rest[i.name]
    return (m, rest) if rest and not any(v.dtype.kind not in "iubOSU" and v.dtype != np.float64 for v in values.values()) else None


def variants(nodes, values):
    yield "own", values
    for name, old in ("large", max(sizes_of(values), default=0)), ("small", min(sizes_of(values), default=0)):
        for new in (1, old + 1):
            if new != old and old:
                yield f"{name}{new}", joint(values, old, new, not any(n.op_type.startswith("Packed") for n in nodes))


def notes(model, values):
    low = next((RANGES[n.op_type] for n in model.graph.node if n.op_type in RANGES), None)
    for i in (i for i in model.graph.input if i.name in values):
        a = values[i.name]
        for d, n in zip(i.type.tensor_type.shape.dim, a.shape):
            yield f"; dim {d.dim_param} {n}"
        if low and a.dtype == np.float64:
            yield f"; input {i.name} {low[0]} {low[1]}"


def main():
    p = argparse.ArgumentParser()
    p.add_argument("out")
    p.add_argument("sources", nargs="+")
    p.add_argument("--part", default="0/1")
    o = p.parse_args()
    k, n = map(int, o.part.split("/"))
    os.makedirs(o.out, exist_ok=True)
    for name, folder in folders_of(o.sources):
        if digest("gradient", name) % n != k:
            continue
        model = load(folder)
        values = read_case(folder, model)
        wide = values and all(isinstance(v, np.ndarray) for v in values.values()) and retyped(model, values, T.DOUBLE)
        for what, other in variants(model.graph.node, wide[1]) if wide else ():
            made = f"{name}.{what}" not in WITHOUT and with_integers(wide[0], other)
            m, v = made or (None, {})
            if not made or sum(a.size for a in arrays(v)) > MOST or any(not re.fullmatch(r"[^\s]{1,60}", x) for x in v):
                continue
            path = os.path.join(o.out, f"{name}.{what}")
            onnx.save(opened(m, v), path + ".onnx")
            with open(path + ".notes", "w", encoding="utf-8") as f:
                f.writelines(line + "\n" for line in notes(opened(m, v), v))
    return 0


if __name__ == "__main__":
    sys.exit(main())
