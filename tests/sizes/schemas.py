#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random models of 1 to 4 nodes that ONNX's checker takes, of every operator, version, type and attribute of ONNX's schema registry, as cases of tests/sizes
(cases.py says how they look): sizes-run must find no internal error, no crash, and the same refusals at all levels.

usage: schemas.py OUT [--seed FIRST] [--count N] [--sets M]

A model begins with a row of the registry (an operator at one of its versions), drawn evenly; others at that opset follow, which take what there is where types
allow. An operand is a node's result (more than one node's, too), an input or an initialiser, of rank 0 to 5 and sizes 0 to 4, fixed or open; with open dims and
operands that say sizes there are other data sets, too (sets.py). onnx.checker takes the model, in nine of ten with strict shape inference; so much fits, but not
all. A model's seed is its name: schema_SEED.
"""
import argparse, os, re, sys, warnings
import numpy as np, onnx
from onnx import AttributeProto as A, TensorProto as T, helper as h, numpy_helper as nh

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "onnx"))
from cases import data_sets, write
from draw import Draws, Refused
from forms import open_type, words_of_attributes

LATEST = onnx.defs.onnx_opset_version()
NAMES = {f"tensor({n.lower()})": getattr(T, n) for n in T.DataType.keys() if n not in ("UNDEFINED", "COMPLEX64", "COMPLEX128")}
USUAL = ("tensor(float)", "tensor(float)", "tensor(float16)", "tensor(double)", "tensor(int64)", "tensor(int64)", "tensor(int32)", "tensor(bool)", "tensor(uint8)")
TYPED = ("to", "dtype", "output_datatype", "output_dtype", "stash_type", "softmax_precision")      # attributes that name an element type
ALONG = ("axis", "axes", "batch_axis", "time_axis", "perm", "start", "end")                       # or axes
WORDS = words_of_attributes()
EQUATIONS = ("ij,jk", "ij->ji", "i,i", "ii->i", "...ij,...jk->...ik", "ij->", "i,j->ij", "...->...", "bij,bjk->bik", "ab,ab->a")
HISTORY = [s for s in onnx.defs.get_all_schemas_with_history() if not s.deprecated and s.since_version <= LATEST]


def versions():
    """{(domain, name): its versions, ascending}"""
    found = {}
    for s in HISTORY:
        found.setdefault((s.domain, s.name), []).append(s.since_version)
    return {k: sorted(v) for k, v in found.items()}


VERSIONS = versions()


class Graph(Draws):
    def __init__(self, rng, opset, outer=None):
        self.rng, self.opset, self.outer = rng, opset, outer
        self.nodes, self.inputs, self.constants, self.values, self.types = [], [], [], {}, dict(outer.types) if outer else {}
        self.shape = [self.below(5) for _ in range(self.one(0, 1, 1, 2, 2, 3, 3, 4, 4, 5))]      # what operands are like
        self.count = [0] if outer is None else outer.count
        self.closed = False         # takes no inputs

    def name(self, prefix):
        self.count[0] += 1
        return f"{prefix}{self.count[0]}"

    # -- Operands

    def array(self, kind, shape):
        """Few different numbers on a grid, so that much is exact and much is equal."""
        if kind == T.STRING:
            return np.array([self.one("a", "b", "1.5", "", "ab c") for _ in range(int(np.prod(shape)))], object).reshape(shape)
        if kind == T.BOOL:
            return self.rng.integers(0, 2, shape).astype(bool)
        name = T.DataType.Name(kind)
        if "INT" in name:
            return np.asarray(self.rng.integers(0 if name[0] == "U" or self.below(2) else -2, 4, shape)).astype(h.tensor_dtype_to_np_dtype(kind))
        return np.asarray(self.rng.integers(-12, 13, shape) / 8).astype(h.tensor_dtype_to_np_dtype(kind))

    def shape_like(self):
        """What the graph's operands have, or something near it."""
        s, how = list(self.shape), self.below(10)
        if how < 5:
            return s
        if how == 5:
            return [1 if self.below(2) else n for n in s]
        if how == 6:
            return s[self.below(len(s) + 1):]
        if how == 7:
            return [self.one(len(s), 1, s[-1] if s else 2)]
        return [self.below(5) for _ in range(self.below(6) if how == 8 else self.below(2))]

    def leaf(self, what):
        """An input or an initialiser of a type, as ONNX writes it."""
        inner = re.fullmatch(r"(seq|optional)\((.*)\)", what)
        if inner:
            return self.structure(what, *inner.groups())
        if what not in NAMES:
            raise Refused
        kind, name = NAMES[what], self.name("x")
        a = self.array(kind, self.shape_like())
        if self.below(3) == 0 or self.closed:
            self.constants.append(nh.from_array(a, name))
            self.types[name] = what
            return name
        self.inputs.append(self.typed(name, kind, a))
        self.values[name], self.types[name] = a, what
        return name

    def typed(self, name, kind, a):
        i = h.make_tensor_value_info(name, kind, None)
        how = self.below(3)         # fixed, open, or some of either
        if how:
            open_type(i.type, name, a, False)
        if how != 1:
            i.type.tensor_type.shape.SetInParent()
            for k, n in enumerate(a.shape):
                if how == 0:
                    i.type.tensor_type.shape.dim.add().dim_value = n
                elif self.below(2):
                    i.type.tensor_type.shape.dim[k].dim_value = n
        return i

    def structure(self, what, kind, inner):
        of = re.fullmatch(r"seq\((.*)\)", inner)
        element = of[1] if of else inner
        if element not in NAMES or self.outer:
            raise Refused
        name, t = self.name("x"), h.make_tensor_type_proto(NAMES[element], None)
        items = [self.array(NAMES[element], self.shape_like()) for _ in range(self.below(4))] if kind == "seq" or of else self.array(NAMES[element], self.shape_like())
        if of:
            t = h.make_sequence_type_proto(t)
        t = h.make_sequence_type_proto(t) if kind == "seq" else h.make_optional_type_proto(t)
        self.inputs.append(onnx.ValueInfoProto(name=name, type=t))
        self.values[name], self.types[name] = None if kind == "optional" and self.below(3) == 0 else items, what
        return name

    def operand(self, allowed):
        fit = [n for n, t in self.types.items() if t in allowed]
        if fit and self.below(4):
            return fit[-1 - self.below(min(3, len(fit)))]
        usual = [t for t in USUAL if t in allowed]
        return self.leaf(self.one(*usual) if usual and self.below(4) else self.one(*sorted(allowed)))

    # -- Nodes

    def attribute(self, s, a):
        n, rank, kinds = a.name, len(self.shape), onnx.defs.OpSchema.AttrType
        axis = lambda: self.below(2 * rank + 2) - rank - (self.below(8) > 0 and rank > 0)
        number = lambda: self.one(0, 1, 1, 2, 3, -1, 4)
        words = WORDS.get((s.domain, s.name, n))
        if a.type == kinds.INT:
            return self.one(1, 7, 10, 11, 9, 6, 3, self.below(26)) if n in TYPED else axis() if n in ALONG else number()
        if a.type == kinds.FLOAT:
            return self.one(0.0, 0.5, 1.0, -1.0, 2.0, 1e-5)
        if a.type == kinds.STRING:
            return self.one(*EQUATIONS) if n == "equation" else self.one(*words) if words and self.below(16) else self.one("", "none", "a")
        length = self.one(max(0, rank - 2), max(0, rank - 2), rank, 2 * max(0, rank - 2), self.below(4))
        if a.type == kinds.INTS:
            return [int(k) for k in self.rng.permutation(rank)] if n == "perm" else [axis() if n in ALONG else self.one(1, 1, 2, 3, 0) for _ in range(length)]
        if a.type == kinds.FLOATS:
            return [self.one(0.0, 0.5, 1.0, -1.0, 2.0) for _ in range(length)]
        if a.type == kinds.STRINGS:
            return [self.one(*words) if words else self.one("a", "b") for _ in range(length)]
        if a.type == kinds.TENSOR:
            kind = NAMES[self.one(*USUAL)]
            return nh.from_array(self.array(kind, self.one(self.shape, [], [1])), "t")
        if a.type == kinds.TYPE_PROTO:
            return h.make_tensor_type_proto(T.FLOAT, None)
        if a.type == kinds.GRAPH:
            return self.body(s.name, n)
        raise Refused

    def body(self, op, which):
        """Of If: one result; of Loop: a carried value, and perhaps a collected one; of Scan: a state or none, and what is scanned."""
        g = Graph(self.rng, self.opset, self)
        g.closed = op == "If"
        if op in ("Loop", "Scan", "SequenceMap"):
            kinds = ["tensor(int64)", "tensor(bool)"] * (op == "Loop") + [self.one(*USUAL) for _ in range(1 + self.below(2))]
            for t in kinds:
                name = g.name("b")
                g.inputs.append(h.make_tensor_value_info(name, NAMES[t], [] if t == kinds[0] and op == "Loop" else None))
                g.types[name] = t
        start = len(g.types)
        for _ in range(1 + g.below(2)):
            try:
                g.node(g.one(*BODY))
            except Refused:
                pass
        results = list(g.types)[start:][:1 if op == "If" else 3]
        if op == "Loop":
            results = [g.inputs[1].name] + results
        if not results:
            raise Refused
        body = h.make_graph(g.nodes, which, g.inputs, [onnx.ValueInfoProto(name=n, type=h.make_tensor_type_proto(NAMES[g.types[n]], None)) for n in results if g.types[n] in NAMES], g.constants)
        drop_dead(body)
        return body

    def schema(self, domain, op):
        try:
            return onnx.defs.get_schema(op, self.opset if domain == "" else VERSIONS[domain, op][-1], domain)
        except onnx.defs.SchemaError:
            raise Refused from None

    def node(self, which):
        s = self.schema(*which)
        if s.deprecated:
            raise Refused
        bound, operands = {}, []
        for k, f in enumerate(s.inputs):
            option, many = f.option, 1
            if option == onnx.defs.OpSchema.FormalParameterOption.Variadic:
                many = max(f.min_arity, self.one(1, 1, 2, 2, 3))
            elif option == onnx.defs.OpSchema.FormalParameterOption.Optional and self.below(2):
                operands.append("")
                continue
            for _ in range(many):
                same = f.is_homogeneous or option != onnx.defs.OpSchema.FormalParameterOption.Variadic
                allowed = {bound[f.type_str]} if same and f.type_str in bound else set(f.types)
                operands.append(self.operand(allowed))
                if same:
                    bound[f.type_str] = self.types[operands[-1]]
        while operands and not operands[-1]:
            operands.pop()
        attrs = {a.name: self.attribute(s, a) for a in s.attributes.values() if a.required or self.below(3) == 0}
        most = min(s.max_output, 3 + max(1, s.min_output))
        names = [self.name("y") for _ in range(max(s.min_output, self.one(1, most, min(2, most))))]
        n = h.make_node(s.name, operands, names, names[0] if names else s.name, domain=s.domain)
        for k, v in attrs.items():
            of = s.attributes[k].type
            n.attribute.append(h.make_attribute(k, v, attr_type=A.INTS if of == onnx.defs.OpSchema.AttrType.INTS else A.FLOATS if of == onnx.defs.OpSchema.AttrType.FLOATS
                                                else A.STRINGS if of == onnx.defs.OpSchema.AttrType.STRINGS else None))
        self.nodes.append(n)
        for k, y in enumerate(names):       # what its type is: as far as operands say, inference says the rest
            f = s.outputs[min(k, len(s.outputs) - 1)]
            self.types[y] = bound.get(f.type_str, f.type_str if f.type_str in NAMES else "?")

    def model(self, strict):
        """Checked; results that inference knows the types of."""
        results = [onnx.ValueInfoProto(name=y) for n in self.nodes for y in n.output]
        domains = {"": self.opset, **{n.domain: VERSIONS[n.domain, n.op_type][-1] for n in self.nodes if n.domain}}
        m = h.make_model(h.make_graph(self.nodes, "g", self.inputs, results, self.constants), opset_imports=[h.make_opsetid(d, v) for d, v in domains.items()], ir_version=10)
        m = onnx.shape_inference.infer_shapes(m, check_type=strict, strict_mode=strict)
        for o in list(m.graph.output):
            kind = o.type.WhichOneof("value")
            if kind is None or (kind == "tensor_type" and o.type.tensor_type.elem_type == 0):
                m.graph.output.remove(o)
            else:
                self.types[o.name] = "tensor(" + T.DataType.Name(o.type.tensor_type.elem_type).lower() + ")" if kind == "tensor_type" else "?"
        if not m.graph.output:
            raise Refused
        drop_dead(m.graph)
        onnx.checker.check_model(with_shapes(m))
        return m


def drop_dead(graph):
    """Nodes that no result needs: which of them a level runs is its own affair."""
    needed = {o.name for o in graph.output}
    for n in reversed(list(graph.node)):
        if needed.isdisjoint(n.output):
            graph.node.remove(n)
        else:
            needed.update(used(n))


def graphs(a):
    return [a.g] * a.HasField("g") + list(a.graphs)


def used(n):
    return [*n.input, *(i for a in n.attribute for g in graphs(a) for x in g.node for i in used(x))]


def fit(m, sets):
    """Data sets but for most of those whose sizes the model's fixed dims forbid."""
    dims = {i.name: [d.dim_value if d.HasField("dim_value") else None for d in i.type.tensor_type.shape.dim] for i in m.graph.input if i.type.HasField("tensor_type")}
    wrong = lambda v: any(isinstance(a, np.ndarray) and k in dims and any(d not in (None, n) for d, n in zip(dims[k], a.shape)) for k, a in v.items())
    bad = [k for k, s in enumerate(sets) if wrong(s[1])][1:]
    return [s for k, s in enumerate(sets) if k not in bad]


def with_shapes(m):
    """A copy whose results have shapes: the checker wants one."""
    c = onnx.ModelProto()
    c.CopyFrom(m)
    for t in [v.type for v in list(c.graph.input) + list(c.graph.output)]:
        while t.WhichOneof("value") in ("sequence_type", "optional_type"):
            t = getattr(t, t.WhichOneof("value")).elem_type
        if t.HasField("tensor_type"):
            t.tensor_type.shape.SetInParent()
    return c


BODY = [("", op) for op in ("Add", "Mul", "Identity", "Relu", "Neg", "Cast", "Shape", "Concat", "Transpose", "ReduceSum", "Less", "Where", "Squeeze", "Gather")]


def grown(seed):
    """(model, values)"""
    rng = np.random.default_rng(seed)
    first = HISTORY[int(rng.integers(len(HISTORY)))]
    key, strict = (first.domain, first.name), bool(rng.integers(10))
    later = [v for v in VERSIONS[key] if v > first.since_version]
    opset = int(rng.integers(max(7, first.since_version), max(8, first.since_version + 1, later[0] if later else LATEST + 1))) if first.domain == "" else LATEST
    for _ in range(60):
        g = Graph(rng, min(opset, LATEST))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                g.node(key)
                m = g.model(strict)
        except (Refused, onnx.shape_inference.InferenceError, onnx.checker.ValidationError, ValueError, TypeError, OverflowError):
            continue
        return more(g, m, strict)
    return None


def more(g, m, strict):
    """Further nodes, as far as they fit."""
    domains = list(VERSIONS)
    for _ in range(g.below(10)):
        was = len(g.nodes), len(g.inputs), len(g.constants), dict(g.types), dict(g.values)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                g.node(g.one(*domains))
                m = g.model(strict)
        except (Refused, onnx.shape_inference.InferenceError, onnx.checker.ValidationError, ValueError, TypeError, OverflowError):
            del g.nodes[was[0]:], g.inputs[was[1]:], g.constants[was[2]:]
            g.types, g.values = was[3:]
        if len(g.nodes) == 4:
            break
    return m, g.values


def write_model(o, seed):
    name, found = f"schema_{seed}", grown(seed)
    if not found or (not found[1] and found[0].graph.input):
        return False
    m, values = found
    fixed = all(d.dim_value or not d.dim_param for i in m.graph.input for d in i.type.tensor_type.shape.dim)
    sets = data_sets(name, fixed, values, [], 3 * o.sets, [seed]) if values else [("own", values)]
    write(os.path.join(o.out, name), m, fit(m, sets)[:o.sets + 1])
    return True


def options(*positional):
    p = argparse.ArgumentParser()
    p.add_argument("out")
    for name in positional:
        p.add_argument(name, nargs="+")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--count", type=int, default=100)
    p.add_argument("--sets", type=int, default=4)
    return p


def make_all(o, write_one):
    """Whether nothing was made."""
    made = crashed = 0
    for seed in range(o.seed, o.seed + o.count):
        sys.stdout.flush()
        child = os.fork()               # onnx's inference crashes on some of what it should refuse
        if not child:
            os._exit(not write_one(o, seed))
        status = os.waitpid(child, 0)[1]
        made += status == 0
        crashed += status & 127 != 0
    print(f"# {made} cases; onnx crashed {crashed} times")
    return made == 0


if __name__ == "__main__":
    sys.exit(make_all(options().parse_args(), write_model))
