# SPDX-License-Identifier: Apache-2.0
"""Random ONNX models whose values go through sequences and optionals of known structure, for importer_grads.py: split, construct, insert, erase, map,
take out, put together, in any order, plain, in the branches of an If, as its results, and in the body of a Loop.

    models(count)      yields (name, model, notes) for seeds 0..count-1
"""
import random

import numpy as np
from onnx import TensorProto as T, helper, numpy_helper

F64 = T.DOUBLE


class Program:
    """Nodes of one graph; `items`: shapes' second sizes of the sequence's items, all [n, size]."""

    def __init__(self, r, prefix=""):
        self.r, self.nodes, self.constants, self.prefix, self.count = r, [], [], prefix, 0

    def name(self):
        self.count += 1
        return f"{self.prefix}v{self.count}"

    def const(self, value, dtype=np.int64):
        name = self.name()
        self.constants.append(numpy_helper.from_array(np.array(value, dtype), name))
        return name

    def op(self, op, inputs, out=None, **attrs):
        out = out or self.name()
        self.nodes.append(helper.make_node(op, inputs, [out], name=f"node_{out}", **attrs))
        return out

    def at(self, n):
        """A position of n, from either end."""
        k = self.r.randrange(n)
        return self.const(self.r.choice((k, k - n)))


def start(p, x, size):
    """A sequence of pieces of x [n, size]."""
    how = p.r.choice(("sizes", "each", "each", "construct"))
    if how == "sizes":
        cut = p.r.randrange(1, size - 1)
        sizes = [cut, size - cut - 1, 1]
        return p.op("SplitToSequence", [x, p.const(sizes)], axis=p.r.choice((1, -1))), sizes
    if how == "each":
        each = p.r.choice((2, 4))
        return p.op("SplitToSequence", [x, p.const(each)], axis=1), [each] * (size // each) + [size % each] * (size % each > 0)
    return p.op("SequenceConstruct", [x, p.op("Tanh", [x]), x]), [size] * 3


def mapped(p, s, x):
    """SequenceMap whose body reads a value from outside, too."""
    factor, item = p.const(p.r.choice((0.5, -1.5)), np.float64), p.name()
    inside = p.op("Sin", [x]) if p.r.random() < 0.3 else None
    a, b = p.name(), p.name()
    nodes = [helper.make_node(p.r.choice(("Tanh", "Sin", "Mul")), [item], [a])]
    if nodes[0].op_type == "Mul":
        nodes[0].input.append(item)
    if inside:
        scalar = p.op("ReduceMean", [inside], keepdims=0)
        nodes += [helper.make_node("Mul", [a, scalar], [a + "s"])]
        a += "s"
    nodes.append(helper.make_node("Mul", [a, factor], [b]))
    info = lambda v: helper.make_tensor_value_info(v, F64, None)
    return p.op("SequenceMap", [s], body=helper.make_graph(nodes, "body", [info(item)], [info(b)]))


def change(p, s, sizes, x, size):
    sizes = list(sizes)
    how = p.r.choice(("insert", "insert", "erase", "map", "identity", "optional", "rebuild"))
    if how == "insert":
        k = p.r.randrange(len(sizes) + 1)
        item, width = (p.op("Sin", [x]), size) if p.r.random() < 0.5 else take(p, s, sizes)
        where = [] if p.r.random() < 0.3 else [p.const(k)]
        sizes.insert(k if where else len(sizes), width)
        return p.op("SequenceInsert", [s, item, *where]), sizes
    if how == "erase" and len(sizes) > 1:
        k = p.r.randrange(len(sizes))
        where = [] if p.r.random() < 0.3 else [p.const(p.r.choice((k, k - len(sizes))))]
        sizes.pop(k if where else -1)
        return p.op("SequenceErase", [s, *where]), sizes
    if how == "map":
        return mapped(p, s, x), sizes
    if how == "optional":
        return p.op("OptionalGetElement", [p.op("Optional", [s])]), sizes
    if how == "rebuild":
        order = [p.r.randrange(len(sizes)) for _ in range(p.r.randint(1, 3))]
        return p.op("SequenceConstruct", [p.op("SequenceAt", [s, p.const(k)]) for k in order]), [sizes[k] for k in order]
    return p.op("Identity", [s]), sizes


def take(p, s, sizes):
    k = p.r.randrange(len(sizes))
    item = p.op("SequenceAt", [s, p.const(p.r.choice((k, k - len(sizes))))])
    return (p.op("OptionalGetElement", [p.op("Optional", [item])]) if p.r.random() < 0.3 else item), sizes[k]


def finish(p, s, sizes, out=None):
    """One tensor of any shape."""
    if len(set(sizes)) == 1 and p.r.random() < 0.5:
        joined = p.op("ConcatFromSequence", [s], axis=p.r.choice((0, 1, 2, -1)), new_axis=1)
    elif p.r.random() < 0.6:
        joined = p.op("ConcatFromSequence", [s], axis=p.r.choice((1, -1)))
    else:
        joined = p.op("Mul", [take(p, s, sizes)[0], p.op("ReduceMean", [take(p, s, sizes)[0]], keepdims=0)])
    return p.op("Tanh", [joined], out)


def chain(p, x, size):
    s, sizes = start(p, x, size)
    for _ in range(p.r.randint(0, 3)):
        s, sizes = change(p, s, sizes, x, size)
    return s, sizes


def value(p, x, size):
    return p.op("ReduceSum", [finish(p, *chain(p, x, size))], keepdims=0)


def info(name, dims=None, kind=F64):
    return helper.make_tensor_value_info(name, kind, dims)


def branch(p, k, x, size, sequence):
    """A graph that yields a value, or a sequence of two items."""
    q = Program(p.r, f"{p.prefix}b{k}_")
    if sequence:
        s, sizes = chain(q, x, size)
        both = [q.op("ReduceSum", [q.op(p.r.choice(("Tanh", "Sin")), [take(q, s, sizes)[0]])], keepdims=0) for _ in range(2)]
        out = q.op("SequenceConstruct", both)
        kind = helper.make_sequence_type_proto(helper.make_tensor_type_proto(F64, []))
        result = helper.make_value_info(out, kind)
    else:
        out = value(q, x, size)
        result = info(out, [])
    return helper.make_graph(q.nodes, f"branch{k}", [], [result], q.constants)


def conditional(p, x, size):
    sequence = p.r.random() < 0.5
    out = p.op("If", ["cond"], then_branch=branch(p, 0, x, size, sequence), else_branch=branch(p, 1, x, size, sequence))
    return p.op("Mul", [p.op("SequenceAt", [out, p.at(2)]), p.op("SequenceAt", [out, p.at(2)])]) if sequence else out


def looped(p, x, size):
    q = Program(p.r, f"{p.prefix}l_")
    go = q.op("Identity", ["l_go"])
    s, sizes = chain(q, "l_x", size)
    y = q.op("Add", ["l_x", q.op("ReduceMean", [finish(q, s, sizes)], keepdims=0)])
    body = helper.make_graph(q.nodes, "body", [info("l_i", [], T.INT64), info("l_go", [], T.BOOL), info("l_x", ["n", size])],
                             [info(go, [], T.BOOL), info(y, ["n", size])], q.constants)
    return p.op("Loop", [p.const(3), "", x], body=body)


def model(seed):
    r = random.Random(seed)
    p, size = Program(r), r.choice((4, 6))
    h = p.op("MatMul", ["x", "w"])
    inputs = [info("x", [r.choice(("n", 3)), 4]), info("w", [4, size])]
    how = ("plain", "if", "loop", "plain")[seed % 4]
    if how == "if":
        inputs.append(info("cond", [], T.BOOL))
    y = {"plain": lambda: finish(p, *chain(p, h, size)), "if": lambda: conditional(p, h, size), "loop": lambda: looped(p, h, size)}[how]()
    graph = helper.make_graph(p.nodes, "g", inputs, [helper.make_empty_tensor_value_info(y)], p.constants)
    return f"sequences_{how}_{seed}", helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), "; dim n 3"


def models(count):
    for seed in range(count):
        yield model(seed)
