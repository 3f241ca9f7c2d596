# SPDX-License-Identifier: Apache-2.0
"""Random ONNX models with sizes that only the run knows inside, for importer_grads.py: rows that conditions choose (by NonZero, Compress, Slice, Range, TopK, GatherND),
one after the other, beside each other and against each other, down to a sum or scattered back.

    models(count)      yields (name, model, notes) for seeds 0..count-1
"""
import random

import numpy as np
from onnx import TensorProto as T, helper

from sequence_grads import F64, Program, info


class Rows(Program):
    """Values are (name, columns)."""

    def __init__(self, r):
        super().__init__(r)
        self.inputs = [info("x", ["n", 4])]

    def weight(self, *shape):
        name = f"w{len(self.inputs)}"
        self.inputs.append(info(name, list(shape)))
        return name

    def mask(self, x):
        limit = self.const(self.r.choice((0.3, -0.7, 0.1, 90)), np.float64)
        return self.op("Greater", [self.op("ReduceSum", [x[0], self.const([1])], keepdims=0), limit])

    def chosen(self, x):
        name, columns = x
        m, how = self.mask(x), self.r.choice(("NonZero", "Compress", "GatherND", "Slice", "Range", "TopK", "Unique"))
        if how == "Compress":
            return self.op("Compress", [name, m], axis=0), columns
        if how == "NonZero":
            return self.op("Gather", [name, self.op("Squeeze", [self.op("NonZero", [m]), self.const([0])])]), columns
        if how == "GatherND":
            return self.op("GatherND", [name, self.op("Transpose", [self.op("NonZero", [m])], perm=[1, 0])]), columns
        whole = self.op("Cast", [m], to=T.INT64)
        count = self.op("ReduceSum", [whole, self.const([0])])
        if how == "Slice":
            return self.op("Slice", [name, self.const([0]), count, self.const([0])]), columns
        if how == "Range":
            return self.op("Gather", [name, self.op("Range", [self.const(0), self.op("Squeeze", [count]), self.const(1)])]), columns
        if how == "Unique":
            return self.op("Gather", [name, self.op("Mul", [self.op("Unique", [whole]), self.const(0)])]), columns
        values = self.name()
        self.nodes.append(helper.make_node("TopK", [self.op("Transpose", [name], perm=[1, 0]), count], [values, self.name()], axis=1))
        return self.op("Transpose", [values], perm=[1, 0]), columns

    def changed(self, x):
        name, columns = x
        how = self.r.choice(("MatMul", "MatMul", "Add", "Tanh", "Softmax", "Mul", "LayerNormalization", "CumSum", "Sub"))
        if how == "MatMul":
            columns = self.r.choice((2, 3, 4))
            return self.op(how, [name, self.weight(x[1], columns)]), columns
        if how in ("Add", "LayerNormalization"):
            return self.op(how, [name] + [self.weight(columns) for _ in range(1 + (how != "Add"))]), columns
        if how == "Softmax":
            return self.op(how, [name], axis=self.r.choice((0, 1))), columns
        if how == "Sub":
            return self.op(how, [name, self.op("ReduceSum", [name, self.const([0])])]), columns
        return self.op(how, [name] + {"Tanh": [], "Mul": [name], "CumSum": [self.const(0)]}[how]), columns

    def joined(self, a, b):
        (x, columns), (y, others) = a, b
        if columns != others:
            y = self.op("MatMul", [y, self.weight(others, columns)])
        if self.r.random() < 0.5:
            return self.op("Concat", [x, y], axis=0), columns
        scores = self.op("MatMul", [x, self.op("Transpose", [y], perm=[1, 0])])
        return self.op("MatMul", [self.op("Softmax", [scores], axis=1) if self.r.random() < 0.5 else self.op("Tanh", [scores]), y]), columns

    def ended(self, x):
        if self.r.random() < 0.6:
            return self.op("ReduceSum", [x[0], self.const([0])])
        size = lambda v: self.op("Squeeze", [self.op("Slice", [self.op("Shape", [v]), self.const([0]), self.const([1])])])
        at = self.op("Mod", [self.op("Range", [self.const(0), size(x[0]), self.const(1)]), size("x")])
        base = self.op("MatMul", ["x", self.weight(4, x[1])])
        return self.op("ScatterND", [base, self.op("Unsqueeze", [at, self.const([1])]), x[0]], reduction="add")


def model(seed):
    p = Rows(random.Random(seed))
    start = (p.op("MatMul", ["x", p.weight(4, 3)]), 3) if p.r.random() < 0.7 else ("x", 4)
    pool = [p.chosen(start)]
    for _ in range(p.r.randint(1, 4)):
        k, how = p.r.randrange(len(pool)), p.r.random()
        if how < 0.6:
            pool[k] = p.changed(pool[k])
        elif how < 0.8:
            pool.append(p.chosen(p.r.choice((start, pool[k]))))
        else:
            pool[k] = p.joined(pool[k], p.r.choice(pool + [start]))
    y = pool[0]
    for other in pool[1:]:
        y = p.joined(y, other)
    out = p.ended(y)
    graph = helper.make_graph(p.nodes, "g", p.inputs, [helper.make_empty_tensor_value_info(out)], p.constants)
    return f"sizes_{seed}", helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), "; dim n " + " ".join(str(p.r.choice((1, 2, 4, 5))) for _ in range(2))


def models(count):
    for seed in range(count):
        yield model(seed)
