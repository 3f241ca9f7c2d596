#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Models that there are, changed at 1 to 4 places, as cases of tests/sizes (cases.py says how they look); ONNX's checker takes them. sizes-run must find no
internal error, no crash, and the same refusals at all levels. schemas.py grows models from nothing: these begin with ones that mean something.

usage: mutated.py OUT FROM... [--seed FIRST] [--count N] [--sets M]

FROM is a folder of cases. A change is one of CHANGES: an attribute, an operand, an operator, a constant, a type, a size, what stands between a node and its
operand, a node in a branch, in a loop's body or in a function, one more result. In nine of ten strict shape inference takes the model, too. mutated_SEED is its name.
"""
import os, re, sys, warnings
import numpy as np, onnx
from onnx import AttributeProto as A, TensorProto as T, helper as h, numpy_helper as nh

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "onnx"))
from cases import data_sets, write
from draw import Draws, Refused
from forms import bounded_operands, copied, load, open_type, read_case
from schemas import HISTORY, NAMES, Graph, drop_dead, fit, make_all, options, with_shapes
from sets import shaped

MOST_NODES, MOST_BYTES, TRIES = 60, 200_000, 40
FLOATS = (T.FLOAT, T.FLOAT16, T.DOUBLE, T.BFLOAT16)
NEWEST = {(s.domain, s.name): s for s in HISTORY}


def groups_of(sources):
    """Folders of cases by the first words of their names: of some operators there are hundreds."""
    groups = {}
    for s in sources:
        for d in sorted(os.listdir(s)):
            if os.path.exists(os.path.join(s, d, "model.onnx")):
                groups.setdefault(tuple(re.split("[_.]", d.removeprefix("test_"))[:1]), []).append(os.path.join(s, d))
    return list(groups.values())


class Mutant(Draws):
    def __init__(self, rng, model, values):
        self.rng, self.m, self.values = rng, copied(model), dict(values)
        inferred = onnx.shape_inference.infer_shapes(model)
        self.types = {v.name: v.type.tensor_type.elem_type for v in [*inferred.graph.value_info, *inferred.graph.input, *inferred.graph.output] if v.type.HasField("tensor_type")}
        self.types |= {i.name: i.data_type for i in model.graph.initializer}
        opset = next((o.version for o in model.opset_import if o.domain == ""), onnx.defs.onnx_opset_version())
        self.opset, self.random = opset, Graph(rng, opset)
        self.random.shape = list(self.one(*[v.shape for v in self.values.values() if isinstance(v, np.ndarray)] or [(2,)]))

    def name(self):
        return f"mutated{self.below(1 << 40)}"

    @staticmethod
    def lists(m):
        """The nodes of the graph, and those of each body."""
        lists = [m.graph.node]
        for nodes in lists:
            lists += [g.node for n in nodes for a in n.attribute for g in [a.g] * a.HasField("g") + list(a.graphs)]
        return lists

    def node(self, wanted=lambda n: True):
        """With the list that it stands in."""
        return self.one(*[(n, nodes) for nodes in self.lists(self.m) for n in nodes if wanted(n)])

    def schema(self, n):
        try:
            return onnx.defs.get_schema(n.op_type, self.opset if not n.domain else NEWEST[n.domain, n.op_type].since_version, n.domain)
        except (KeyError, onnx.defs.SchemaError):
            raise Refused from None

    def constant(self, value, nodes=None, at=0):
        """Its name: an initialiser, or a node before `at`."""
        name = self.name()
        self.types[name] = h.np_dtype_to_tensor_dtype(value.dtype)
        self.m.graph.initializer.append(nh.from_array(value, name))
        return name

    def put(self, nodes, n, *new):
        """`new` in front of `n`."""
        at = [x is n or x == n for x in nodes].index(True)
        for k, x in enumerate(new):
            nodes.insert(at + k, x)

    # -- Changes

    def attribute(self):
        n, _ = self.node()
        s = self.schema(n)
        a = self.one(*s.attributes.values())
        there = [b for b in n.attribute if b.name == a.name]
        if there and there[0].type == A.GRAPH:
            raise Refused
        for b in there:
            n.attribute.remove(b)
        if there and self.below(4) == 0:
            return
        if there and there[0].type == A.INT and self.below(2):
            v = there[0].i
            value = self.one(v + 1, v - 1, -v, 0, 2 * v, 1 << 40, -1 << 63, (1 << 63) - 1)
        elif there and there[0].type == A.INTS and there[0].ints and self.below(2):
            value = list(there[0].ints)
            k = self.below(len(value))
            value[k] = self.one(value[k] + 1, value[k] - 1, -value[k], 0, 1 << 40, -1 << 63, (1 << 63) - 1)
        else:
            value = self.random.attribute(s, a)
        n.attribute.append(h.make_attribute(a.name, value, attr_type={onnx.defs.OpSchema.AttrType.INTS: A.INTS, onnx.defs.OpSchema.AttrType.FLOATS: A.FLOATS,
                                                                      onnx.defs.OpSchema.AttrType.STRINGS: A.STRINGS}.get(a.type)))

    def operand(self):
        n, nodes = self.node(lambda n: n.input)
        k = self.below(len(n.input))
        if self.below(5) == 0:
            n.input[k] = ""
            return
        before = [i.name for i in self.m.graph.input] + [i.name for i in self.m.graph.initializer]
        for x in nodes:
            if x == n:
                break
            before += x.output
        same = self.types.get(n.input[k])
        n.input[k] = self.one(*[b for b in before if b and b != n.input[k] and (self.types.get(b) == same or self.below(16) == 0)])

    def operator(self):
        n, _ = self.node()
        many = len(n.input)
        s = self.one(*[s for (d, _), s in NEWEST.items() if s.min_input <= many <= s.max_input and s.min_output <= len(n.output) <= s.max_output])
        n.op_type, n.domain = s.name, s.domain
        s = self.schema(n)
        for a in list(n.attribute):
            if a.name not in s.attributes:
                n.attribute.remove(a)
        for a in s.attributes.values():
            if a.required and not any(b.name == a.name for b in n.attribute):
                n.attribute.append(h.make_attribute(a.name, self.random.attribute(s, a)))
        if s.domain and all(o.domain != s.domain for o in self.m.opset_import):
            self.m.opset_import.append(h.make_opsetid(s.domain, s.since_version))

    def number(self):
        """A constant says something else, or has another shape."""
        places = list(self.m.graph.initializer) + [a.t for n in self.m.graph.node for a in n.attribute if n.op_type == "Constant" and a.HasField("t")]
        t = self.one(*places)
        a, name = np.array(nh.to_array(t)), t.name
        if self.below(2) and a.size and a.dtype.kind in "iuf":
            low, high = (np.iinfo(a.dtype).min, np.iinfo(a.dtype).max) if a.dtype.kind in "iu" else (-np.inf, np.nan)
            a.flat[self.below(a.size)] = self.one(low, high, 0, 1, 2, *([-1, -2] if a.dtype.kind != "u" else []))
        else:
            a = self.one(a.reshape(-1), a[None], a[:0] if a.ndim else a, a[:1] if a.ndim else a[None], np.concatenate([a, a]) if a.ndim else a, a.T, shaped(a, self.random.shape))
        t.CopyFrom(nh.from_array(np.ascontiguousarray(a).reshape(a.shape), name))

    def cast(self):
        """A node computes in another type."""
        n, nodes = self.node(lambda n: any(self.types.get(i) in FLOATS for i in n.input) and n.op_type != "Cast")
        to, was = self.one(T.FLOAT16, T.DOUBLE, T.BFLOAT16, T.INT32, T.INT64, T.UINT8), {}
        for k, i in enumerate(n.input):
            if self.types.get(i) in FLOATS:
                was[k] = self.types[i]
                n.input[k] = self.name()
                self.put(nodes, n, h.make_node("Cast", [i], [n.input[k]], to=to))
        back = [k for k, o in enumerate(n.output) if self.types.get(o) in FLOATS]
        for k in back:
            o, n.output[k] = n.output[k], self.name()
            nodes.insert(list(nodes).index(n) + 1, h.make_node("Cast", [n.output[k]], [o], to=next(iter(was.values()))))

    def between(self):
        n, nodes = self.node(lambda n: any(n.input))
        k = self.one(*[k for k, i in enumerate(n.input) if i])
        i, y, z = n.input[k], self.name(), self.name()
        ints = lambda *v: self.constant(np.array(v, np.int64))
        axis = self.below(5) - 2
        chain = self.one(
            lambda: [h.make_node("Unsqueeze", [i, ints(axis)], [y])], lambda: [h.make_node("Squeeze", [i, ints(axis)], [y])], lambda: [h.make_node("Squeeze", [i], [y])],
            lambda: [h.make_node("Transpose", [i], [y])], lambda: [h.make_node("Flatten", [i], [y], axis=axis)], lambda: [h.make_node("Reshape", [i, ints(-1)], [y])],
            lambda: [h.make_node("Concat", [i, i], [y], axis=axis)], lambda: [h.make_node("Slice", [i, ints(self.below(4) - 2), ints(self.below(6) - 2), ints(axis), ints(self.one(1, 2, -1))], [y])],
            lambda: [h.make_node("Expand", [i, ints(self.one(1, 2), 1)], [y])], lambda: [h.make_node("Identity", [i], [y])],
            lambda: [h.make_node("SequenceConstruct", [i, i], [z]), h.make_node("SequenceAt", [z, self.constant(np.array(self.below(3) - 1))], [y])],
            lambda: [h.make_node("SplitToSequence", [i], [z], axis=axis), h.make_node("ConcatFromSequence", [z], [y], axis=axis)],
            lambda: [h.make_node("Optional", [i], [z]), h.make_node("OptionalGetElement", [z], [y])],
            lambda: [h.make_node("Shape", [i], [z]), h.make_node("Reshape", [i, z], [y])],
            lambda: [h.make_node("NonZero", [i], [z]), h.make_node("Gather", [i, z], [y], axis=0)],
            lambda: [h.make_node("Pad", [i, ints(1, 0)], [y], mode=self.one("constant", "edge", "reflect", "wrap"))])()
        self.put(nodes, n, *chain)
        n.input[k] = y

    def size(self):
        i = self.one(*[i for i in self.m.graph.input if isinstance(self.values.get(i.name), np.ndarray) and i.type.HasField("tensor_type")])
        a = self.values[i.name]
        s, k = list(a.shape), self.below(a.ndim + 1)
        if k == a.ndim:
            s = self.one(s + [1], s + [2], s[1:], [1] + s)
        else:
            s[k] = self.one(0, 1, max(0, s[k] - 1), s[k] + 1, 2 * s[k])
        self.values[i.name] = shaped(a, s)
        open_type(i.type, i.name, self.values[i.name], self.below(2) == 0)

    def moved(self):
        """A node whose results are tensors of known types."""
        n, nodes = self.node(lambda n: n.output and all(o in self.types for o in n.output))
        inner, typed = onnx.NodeProto(), {}
        inner.CopyFrom(n)
        inner.output[:] = [self.name() for _ in n.output]
        typed = [h.make_tensor_value_info(o, self.types[old], None) for o, old in zip(inner.output, n.output)]
        return n, nodes, inner, typed

    def branch(self):
        """A node in a branch; the other takes an operand, or computes the same."""
        n, nodes, inner, typed = self.moved()
        if self.below(2):
            c = self.constant(np.array(bool(self.below(2))))
        else:
            c = self.name()
            self.m.graph.input.append(h.make_tensor_value_info(c, T.BOOL, []))
            self.values[c], self.types[c] = np.array(bool(self.below(4))), T.BOOL
        other, same = onnx.NodeProto(), [i for i in n.input if i and self.types.get(i) == self.types[n.output[0]]]
        other.CopyFrom(h.make_node("Identity", [self.one(*same)], [self.name()]) if same and len(n.output) == 1 and self.below(2) else n)
        other.output[:] = [self.name() for _ in n.output]
        results = [h.make_tensor_value_info(o, self.types[old], None) for o, old in zip(other.output, n.output)]
        self.put(nodes, n, h.make_node("If", [c], list(n.output), then_branch=h.make_graph([inner], "then", [], typed), else_branch=h.make_graph([other], "else", [], results)))
        nodes.remove(n)

    def loop(self):
        """A node in the body of a Loop, whose last round's result is read."""
        n, nodes, inner, typed = self.moved()
        b, i, rounds = self.name(), self.name(), self.constant(np.array(self.one(1, 2, 3, 0)))
        body = h.make_graph([h.make_node("Identity", [b], [b + "_"]), inner], "body", [h.make_tensor_value_info(i, T.INT64, []), h.make_tensor_value_info(b, T.BOOL, [])],
                            [h.make_tensor_value_info(b + "_", T.BOOL, [])] + typed)
        all_of = [self.name() for _ in n.output]
        last = self.constant(np.array(-1))
        self.put(nodes, n, h.make_node("Loop", [rounds, ""], all_of, body=body), *[h.make_node("Gather", [a, last], [o]) for a, o in zip(all_of, n.output)])
        nodes.remove(n)

    def scan(self):
        """A node over the rows of its first operand."""
        n, nodes, inner, typed = self.moved()
        if not n.input or not n.input[0] or n.input[0] not in self.types:
            raise Refused
        row = self.name()
        inner.input[0] = row
        back = {f"scan_{w}_directions": [self.below(2)] * k for w, k in (("input", 1), ("output", len(typed)))} if self.below(2) else {}
        body = h.make_graph([inner], "body", [h.make_tensor_value_info(row, self.types[n.input[0]], None)], typed)
        self.put(nodes, n, h.make_node("Scan", [n.input[0]], list(n.output), body=body, num_scan_inputs=1, **back))
        nodes.remove(n)

    def function(self):
        n, nodes = self.node(lambda n: not any(a.type in (A.GRAPH, A.GRAPHS) for a in n.attribute))
        if n.domain == "mutated":
            raise Refused
        inner, name = onnx.NodeProto(), self.name()
        inner.CopyFrom(n)
        names = {i: f"i{k}" for k, i in enumerate(dict.fromkeys(i for i in n.input if i))}
        inner.input[:] = [names.get(i, "") for i in n.input]
        inner.output[:] = [f"o{k}" for k in range(len(n.output))]
        self.m.functions.append(h.make_function("mutated", name, list(names.values()), list(inner.output), [inner], [h.make_opsetid(o.domain, o.version) for o in self.m.opset_import if o.domain != "mutated"]))
        if all(o.domain != "mutated" for o in self.m.opset_import):
            self.m.opset_import.append(h.make_opsetid("mutated", 1))
        self.put(nodes, n, h.make_node(name, list(names), list(n.output), domain="mutated"))
        nodes.remove(n)

    def result(self):
        v, y, z = self.one(*[o for n in self.m.graph.node for o in n.output if o in self.types], *self.values), self.name(), self.name()
        ints = lambda *v: self.constant(np.array(v, np.int64))
        self.m.graph.node.extend(self.one(
            lambda: [h.make_node("Identity", [v], [y])], lambda: [h.make_node("ReduceSum", [v], [y], keepdims=0)], lambda: [h.make_node("Concat", [v, v, v, v], [z], axis=-1), h.make_node("ReduceMax", [z, ints(-1)], [y])],
            lambda: [h.make_node("NonZero", [v], [y])], lambda: [h.make_node("Shape", [v], [y])], lambda: [h.make_node("TopK", [v, ints(self.below(3))], [y, z])],
            lambda: [h.make_node("CumSum", [v, self.constant(np.array(self.below(3) - 1))], [y])], lambda: [h.make_node("Unique", [v], [y])],
            lambda: [h.make_node("Softmax", [v], [y])], lambda: [h.make_node("MatMul", [v, v], [y])], lambda: [h.make_node("ArgMax", [v], [y], axis=-1)])())
        self.m.graph.output.append(onnx.ValueInfoProto(name=y))

    def ends(self, m, loop):
        """A number of rounds that is an input, or a small constant: others are right, and take for ever."""
        rounds = {i.name: nh.to_array(i) for i in m.graph.initializer} | {n.output[0]: nh.to_array(a.t) for n in m.graph.node for a in n.attribute if n.op_type == "Constant" and a.HasField("t")}
        name = loop.input[0] if loop.input else ""
        return name in self.values if name not in rounds else rounds[name].size == 1 and rounds[name].reshape(-1)[0] < 100

    def checked(self, strict):
        del self.m.graph.value_info[:]
        results = [o.name for o in self.m.graph.output]
        del self.m.graph.output[:]
        self.m.graph.output.extend(onnx.ValueInfoProto(name=y) for y in dict.fromkeys(results))
        m = onnx.shape_inference.infer_shapes(self.m, check_type=strict, strict_mode=strict)
        for o in list(m.graph.output):
            if o.type.WhichOneof("value") is None or (o.type.HasField("tensor_type") and o.type.tensor_type.elem_type == 0):
                m.graph.output.remove(o)
        if not m.graph.output:
            raise Refused
        drop_dead(m.graph)
        if any(n.op_type == "Loop" and not self.ends(m, n) for nodes in self.lists(m) for n in nodes):
            raise Refused
        onnx.checker.check_model(with_shapes(m))
        return m


CHANGES = [Mutant.attribute] * 3 + [Mutant.operand, Mutant.operator, Mutant.number, Mutant.cast, Mutant.between, Mutant.between, Mutant.size, Mutant.branch, Mutant.loop,
                                    Mutant.scan, Mutant.function, Mutant.result]
FAILS = (Refused, onnx.shape_inference.InferenceError, onnx.checker.ValidationError, ValueError, TypeError, OverflowError, IndexError, AssertionError, KeyError)


def mutated(rng, groups):
    """(model, values)"""
    while True:
        group = groups[int(rng.integers(len(groups)))]
        folder = group[int(rng.integers(len(group)))]
        if os.path.getsize(os.path.join(folder, "model.onnx")) > MOST_BYTES:
            continue
        m = load(folder)
        values = read_case(folder, m)
        if values and len(m.graph.node) <= MOST_NODES and m.ir_version >= 4 and fit(m, [("own", values)]):
            break
    wanted, strict = 1 + int(rng.integers(4)), bool(rng.integers(10))
    for _ in range(TRIES):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                g = Mutant(rng, m, values)
                g.one(*CHANGES)(g)
                m, values = g.checked(strict), g.values
        except FAILS:
            continue
        wanted -= 1
        if not wanted:
            return m, values
    return None


def write_model(o, seed):
    found = mutated(np.random.default_rng(seed), o.groups)
    if not found:
        return False
    m, values = found
    used = {i.name for i in m.graph.input}
    values = {k: v for k, v in values.items() if k in used}
    fixed = all(d.dim_value or not d.dim_param for i in m.graph.input for d in i.type.tensor_type.shape.dim)
    write(os.path.join(o.out, f"mutated_{seed}"), m, fit(m, data_sets(f"mutated_{seed}", fixed, values, [], 3 * o.sets, [seed], bounded_operands(m)))[:o.sets + 1])
    return True


def main():
    p = options("sources")
    o = p.parse_args()
    o.groups = groups_of(o.sources)
    return make_all(o, write_model)


if __name__ == "__main__":
    sys.exit(main())
