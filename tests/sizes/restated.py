#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Cases in other words: models that there are, changed at 1 to 4 places in ways that leave their results as they are, so that the stored outputs are the oracle.

usage: restated.py OUT FROM... [--seed FIRST] [--count N] [--most K] [--only TEXT] [--without LIST]

FROM is a folder of cases; a change is one of CHANGES: a chain of nodes in front of an operand or behind a result that gives what it takes; all nodes in a
(nested) function with references to attributes and overloads, in a branch, a Loop or a Scan; operands as constants of every form (defaults, sparse, external at
odd offsets, typed fields); defaults that the caller overrides; results twice, inputs and constants as results; dims as symbols; later opsets that say the same;
other names and orders; what nobody needs. ONNX's checker and strict inference take each. --without: cases of that list (a name a line) are left out.
OUT/CASE.SEED is a case as `tccc-run --test-suite` runs it; its file `did` says what was changed. (mutated.py changes what models mean; its oracle is the interpreter.)
"""
import argparse, os, re, warnings
import numpy as np, onnx
from onnx import AttributeProto as A, TensorProto as T, helper as h, numpy_helper as nh

from draw import Refused
from identities import MAX, chain
from results import Case

MOST_BYTES, TRIES = 400_000, 30
DRAWS = re.compile("bernoulli|training_dropout|Random|Multinomial")       # numbers that hang on the node's place
SEVERAL = re.compile("seq_none")                                # data that --test-suite doesn't read
FAILS = (onnx.onnx_cpp2py_export.defs.SchemaError, onnx.shape_inference.InferenceError, onnx.checker.ValidationError, ValueError, TypeError, OverflowError,
         IndexError, AssertionError, KeyError, NotImplementedError, AttributeError, ZeroDivisionError)


class Restated(Case):
    """Each method is a change; where it can't be made it raises one of FAILS or Refused, and what it began is forgotten."""

    def front(self):
        """A chain between an input and who reads it."""
        x = self.one(*self.arrays())
        b, a, kind = self.inputs[x]
        nodes = [(n, k) for n in self.m.graph.node for k, i in enumerate(n.input) if i == x]
        if not nodes:
            raise Refused
        y = self.name()
        new = chain(self, x, y, a, kind)
        everywhere = self.below(2)
        n, k = self.one(*nodes)
        if everywhere:
            for n2, k2 in nodes:
                n2.input[k2] = y
        else:
            n.input[k] = y
        conds = [i for i, n2 in enumerate(self.m.graph.node) if n2.op_type == "Squeeze" and n2.input[0].startswith("cond")]
        at = max(conds, default=-1) + 1
        for i, n2 in enumerate(new):
            self.m.graph.node.insert(at + i, n2)

    def back(self):
        """A chain behind a result."""
        o = self.one(*[k for k, v in self.outputs.items() if v[1] is not None])
        b, a, kind = self.outputs[o]
        inner = self.name()
        found = False
        for n in self.m.graph.node:
            for k, y in enumerate(n.output):
                if y == o:
                    n.output[k] = inner
                    found = True
        if not found:
            raise Refused
        for n in self.m.graph.node:
            for k, y in enumerate(n.input):
                if y == o:
                    n.input[k] = inner
        self.m.graph.node.extend(chain(self, inner, o, a, kind))

    def outer(self, nodes):
        """Values that these nodes read and do not make, in order; those of their bodies, too."""
        made, read = set(), {}

        def walk(ns, mine):
            mine = set(mine)
            for n in ns:
                for i in n.input:
                    if i and i not in mine:
                        read[i] = 1
                for a in n.attribute:
                    for g in [a.g] * a.HasField("g") + list(a.graphs):
                        walk(g.node, mine | {x.name for x in g.input} | {x.name for x in g.initializer} | {x.values.name for x in g.sparse_initializer})
                mine |= set(n.output)
        walk(nodes, made)
        return list(read)

    def results(self, nodes):
        return [o.name for o in self.m.graph.output if any(o.name in n.output for n in nodes)]

    def type_of(self, name):
        """(elem type, shape or None)"""
        for d in (self.inputs, self.outputs):
            if name in d and d[name][1] is not None:
                return d[name][2], list(d[name][1].shape)
        raise Refused

    def function(self):
        nodes = list(self.m.graph.node)
        nodes = self.one(nodes, [self.one(*nodes)])
        outs = [o for n in nodes for o in n.output if o]
        ins = self.outer(nodes)
        f, dom, fname, overload = onnx.FunctionProto(), self.one("local", "a.b.c", "x"), self.name("F"), self.one("", "", "v2")
        inner = [onnx.NodeProto() for _ in nodes]
        renamed = {}
        for i, n in zip(inner, nodes):
            i.CopyFrom(n)
        attrs, defaults = {}, {}
        if self.below(2):
            for n in inner:
                for k, a in enumerate(n.attribute):
                    if a.type in (A.GRAPH, A.GRAPHS) or a.ref_attr_name or a.name == "value" and n.op_type == "Constant" and self.below(2):
                        continue
                    ref = self.name("attr")
                    if self.below(3) == 0:
                        d = A()
                        d.CopyFrom(a)
                        d.name = ref
                        defaults[ref] = d
                        if self.below(2):                   # the call says it, too; the default is another one
                            v = A()
                            v.CopyFrom(d)
                            attrs[ref] = v
                            if d.type == A.INT:
                                d.i = 77
                            elif d.type == A.FLOAT:
                                d.f = 77.
                    else:
                        v = A()
                        v.CopyFrom(a)
                        v.name = ref
                        attrs[ref] = v
                    kind, nm = a.type, a.name
                    a.Clear()
                    a.name, a.type, a.ref_attr_name = nm, kind, ref
        f.name, f.domain, f.overload = fname, dom, overload
        f.input.extend(ins)
        f.output.extend(outs)
        f.node.extend(inner)
        f.attribute.extend([k for k in attrs if k not in defaults])
        f.attribute_proto.extend(defaults.values())
        f.opset_import.extend([o for o in self.m.opset_import])
        fs = [f]
        call = h.make_node(fname, ins, outs, domain=dom)
        call.overload = overload
        call.attribute.extend(attrs.values())
        if self.below(2):               # one around it
            g, gname = onnx.FunctionProto(), self.name("G")
            g.name, g.domain = gname, dom
            g.input.extend([f"g{k}" for k in range(len(ins))])
            g.output.extend([f"h{k}" for k in range(len(outs))])
            g.attribute.extend(attrs)
            c2 = h.make_node(fname, list(g.input), list(g.output), domain=dom)
            c2.overload = overload
            for k, a in attrs.items():
                ref = A()
                ref.name, ref.type, ref.ref_attr_name = k, a.type, k
                c2.attribute.append(ref)
            g.node.append(c2)
            g.opset_import.extend([o for o in self.m.opset_import] + ([h.make_opsetid(dom, 1)] if all(o.domain != dom for o in self.m.opset_import) else []))
            call = h.make_node(gname, ins, outs, domain=dom)
            call.attribute.extend(attrs.values())
            fs.append(g)
        if overload or self.below(3) == 0:             # another of that name, which is something else
            w = onnx.FunctionProto()
            w.name, w.domain, w.overload = fname, dom, "other"
            w.input.extend(["a"])
            w.output.extend(["b"])
            w.node.append(h.make_node("Neg", ["a"], ["b"]))
            w.opset_import.extend(self.m.opset_import)
            fs.insert(self.below(2), w)
        self.rng.shuffle(fs)
        self.m.functions.extend(fs)
        if all(o.domain != dom for o in self.m.opset_import):
            self.m.opset_import.append(h.make_opsetid(dom, 1))
        self.replace(nodes, [call])

    def replace(self, nodes, new):
        at = min(i for i, n in enumerate(self.m.graph.node) if any(n is x or n == x for x in nodes))
        rest = [n for n in self.m.graph.node if not any(n == x for x in nodes)]
        before = [n for i, n in enumerate(self.m.graph.node) if i < at]
        after = [n for n in rest if not any(n == x for x in before)]
        keep = []
        for n in before + list(new) + after:
            x = onnx.NodeProto()
            x.CopyFrom(n)
            keep.append(x)
        del self.m.graph.node[:]
        self.m.graph.node.extend(keep)

    def whole(self):
        """All nodes, whose results are the outputs, tensors."""
        nodes = list(self.m.graph.node)
        outs = [o.name for o in self.m.graph.output]
        if any(o in self.inputs or all(o not in n.output for n in nodes) for o in outs):
            raise Refused
        copies = []
        for n in nodes:
            x = onnx.NodeProto()
            x.CopyFrom(n)
            copies.append(x)
        return copies, outs

    def into(self, nodes, outs, tag):
        """A copy of the nodes with other names for what they make."""
        made = {o: f"{o}_{tag}" for n in nodes for o in n.output if o}

        def walk(n, names):
            x = onnx.NodeProto()
            x.CopyFrom(n)
            x.input[:] = [names.get(i, i) for i in n.input]
            x.output[:] = [names.get(i, i) for i in n.output]
            for a in x.attribute:
                for g in [a.g] * a.HasField("g") + list(a.graphs):
                    hidden = {v.name for v in g.input} | {v.name for v in g.initializer} | {o for m in g.node for o in m.output}
                    inner = {k: v for k, v in names.items() if k not in hidden}
                    new = [walk(m, inner) for m in g.node]
                    del g.node[:]
                    g.node.extend(new)
            return x
        return [walk(n, made) for n in nodes], [made[o] for o in outs]

    def infos(self, names, outs):
        return [h.make_tensor_value_info(n, self.type_of(o)[0], self.type_of(o)[1] if self.below(2) else None) for n, o in zip(names, outs)]

    def inits(self, g):
        """Some initialisers move into a body."""
        if self.below(2):
            read = set(self.outer(g.node))
            outside = {o.name for o in self.m.graph.output}
            for i in list(self.m.graph.initializer):
                if i.name in read and i.name not in outside and i.name not in {x.name for x in self.m.graph.input} and self.below(2):
                    g.initializer.append(i)

    def branch(self):
        nodes, outs = self.whole()
        value = bool(self.below(2))
        kind = self.below(3)
        graphs = []
        for k in range(2):
            ns, os_ = self.into(nodes, outs, f"b{self.below(1000)}{k}")
            if k != value and self.below(3):
                ns = [h.make_node("Constant", [], [o], value=nh.from_array(np.zeros_like(self.outputs[w][1])) if self.outputs[w][1].dtype.kind != "O" else 1 / 0) for o, w in zip(os_, outs)]
            g = h.make_graph(ns, f"b{k}", [], self.infos(os_, outs))
            self.inits(g)
            graphs.append(g)
        name = self.name("cond")
        if kind == 0:
            self.m.graph.initializer.append(nh.from_array(np.array(value), name))
        else:
            self.add_input(name, np.array(value) if kind == 1 else np.array([value]))
        del self.m.graph.node[:]
        self.m.graph.node.append(h.make_node("If", [name], outs, then_branch=graphs[1], else_branch=graphs[0]))

    def loop(self):
        nodes, outs = self.whole()
        ns, os_ = self.into(nodes, outs, "l")
        i, c, co = self.name("i"), self.name("c"), self.name("co")
        rounds, form = 1 + self.below(3), self.below(2)
        carried = self.below(2) and all(self.outputs[o][1].dtype.kind != "O" for o in outs)
        ins = [h.make_tensor_value_info(i, T.INT64, []), h.make_tensor_value_info(c, T.BOOL, [])]
        if form:        # goes on as a condition says
            limit = self.const(rounds - 1, scalar=True)
            ns.append(h.make_node("Less", [i, limit], [co]))
            first = [self.one("", self.const(MAX, scalar=True)), self.const(True, dtype=bool, scalar=True)]
        else:
            ns.append(h.make_node("Identity", [c], [co]))
            first = [self.const(rounds, scalar=True), ""]
        infos = self.infos(os_, outs)
        extra, states = [], []
        if self.below(2) and self.arrays():     # an input is carried
            x = self.one(*[k for k in self.arrays() if any(k in n.input for n in ns)])
            s, t = self.name("s"), self.name("s")
            for n in ns:
                n.input[:] = [s if y == x else y for y in n.input]
            ns.append(h.make_node("Identity", [s], [t]))
            ins.append(h.make_tensor_value_info(s, *self.type_of(x)))
            states.append((x, t, self.name("last"), h.make_tensor_value_info(t, *self.type_of(x))))
        first += [s[0] for s in states]
        del self.m.graph.node[:]
        if carried:
            start = []
            for o in outs:
                start.append(self.name("z"))
                self.m.graph.initializer.append(nh.from_array(np.zeros_like(self.outputs[o][1]), start[-1]))
                ins.append(h.make_tensor_value_info(self.name("old"), *self.type_of(o)))
            g = h.make_graph(ns, "body", ins, [h.make_tensor_value_info(co, T.BOOL, [])] + [s[3] for s in states] + infos)
            self.inits(g)
            self.m.graph.node.append(h.make_node("Loop", first + start, [s[2] for s in states] + outs, body=g))
        else:
            g = h.make_graph(ns, "body", ins, [h.make_tensor_value_info(co, T.BOOL, [])] + [s[3] for s in states] + infos)
            self.inits(g)
            all_of = [self.name("all") for _ in outs]
            self.m.graph.node.append(h.make_node("Loop", first, [s[2] for s in states] + all_of, body=g))
            last = self.const(self.below(rounds) - rounds, scalar=True)
            self.m.graph.node.extend(h.make_node("Gather", [a, last], [o], axis=0) for a, o in zip(all_of, outs))

    def scan(self):
        """Over copies of an input."""
        if self.opset < 13:
            raise Refused
        nodes, outs = self.whole()
        ns, os_ = self.into(nodes, outs, "s")
        xs = [k for k in self.arrays() if any(k in n.input for n in ns)]
        x = self.one(*xs)
        row, times = self.name("row"), 1 + self.below(3)
        for n in ns:
            n.input[:] = [row if y == x else y for y in n.input]
        u, many = self.name("u"), self.name("many")
        r = self.inputs[x][1].ndim
        axis = self.below(r + 1)
        oaxes = [self.below(self.outputs[o][1].ndim + 1) for o in outs]
        g = h.make_graph(ns, "body", [h.make_tensor_value_info(row, *self.type_of(x))], self.infos(os_, outs))
        self.inits(g)
        del self.m.graph.node[:]
        all_of = [self.name("all") for _ in outs]
        self.m.graph.node.extend([h.make_node("Unsqueeze", [x, self.const(axis)], [u]), h.make_node("Concat", [u] * times, [many], axis=axis),
                                  h.make_node("Scan", [many], all_of, body=g, num_scan_inputs=1, scan_input_axes=[axis], scan_input_directions=[self.below(2)],
                                              scan_output_axes=oaxes, scan_output_directions=[self.below(2) for _ in outs])])
        last = self.const(self.below(times) - times, scalar=True)
        self.m.graph.node.extend(h.make_node("Gather", [a, last], [o], axis=ax) for a, o, ax in zip(all_of, outs, oaxes))

    def constant(self):
        """An input becomes a constant, in some form."""
        x = self.one(*[k for k in self.arrays()])
        if len(self.inputs) < 2:
            raise Refused
        if any(i.name == x for i in self.m.graph.initializer):
            raise Refused
        b, a, kind = self.inputs.pop(x)
        info = [i for i in self.m.graph.input if i.name == x][0]
        self.m.graph.input.remove(info)
        p = T()
        p.ParseFromString(b)
        p.name = x
        self.store(p, a, x)

    def store(self, p, a, x):
        form = self.below(6)
        if form == 0:                       # a default; the caller says nothing
            self.m.graph.input.append(h.make_tensor_value_info(x, p.data_type, a.shape))
            self.m.graph.initializer.append(p)
        elif form == 1 and a.dtype.kind in "if":           # sparse
            flat = a.reshape(-1)
            at = np.flatnonzero((flat != 0) | np.signbit(flat.astype(np.float64)))
            if a.ndim == 0 or a.ndim and p.data_type in (T.BFLOAT16, T.FLOAT8E4M3FN, T.INT4, T.UINT4):
                raise Refused
            idx = np.stack(np.unravel_index(at, a.shape), 1) if self.below(2) and a.ndim > 1 else at
            v = nh.from_array(flat[at], x)
            sp = h.make_sparse_tensor(v, nh.from_array(idx.astype(np.int64), x + "i"), list(a.shape))
            if self.below(2):
                self.m.graph.sparse_initializer.append(sp)
            else:
                v.name = ""
                self.m.graph.node.insert(0, h.make_node("Constant", [], [x], sparse_value=h.make_sparse_tensor(v, nh.from_array(idx.astype(np.int64)), list(a.shape))))
        elif form == 2:                     # Constant
            if a.ndim <= 1 and a.dtype in (np.int64, np.float32, np.object_) and self.opset >= 12 and (a.size or a.ndim):
                key = {"i": "value_int", "f": "value_float", "O": "value_string"}[a.dtype.kind]
                v = a.tolist()
                if a.dtype.kind == "O" and a.ndim == 0:
                    v = v if isinstance(v, (str, bytes)) else str(v)
                at = h.make_attribute(key + ("s" if a.ndim else ""), v, attr_type={"i": A.INTS, "f": A.FLOATS, "O": A.STRINGS}[a.dtype.kind] if a.ndim else None)
                n = h.make_node("Constant", [], [x])
                n.attribute.append(at)
            else:
                n = h.make_node("Constant", [], [x], value=p)
            self.m.graph.node.insert(0, n)
        elif form == 3 and a.dtype.kind != "O" and p.HasField("raw_data"):        # external, anywhere
            raw = p.raw_data
            file = self.one("weights.bin", "sub/w e.bin", "W.data")
            have = self.external.setdefault(file, bytearray(self.rng.bytes(self.below(50))))
            have += self.rng.bytes(self.below(9))
            off = len(have)
            have += raw
            p.ClearField("raw_data")
            p.data_location = T.EXTERNAL
            p.external_data.add(key="location", value=file)
            p.external_data.add(key="offset", value=str(off))
            p.external_data.add(key="length", value=str(len(raw)))
            self.m.graph.initializer.append(p)
        elif form == 4 and a.dtype.kind in "iufb" and p.data_type not in (T.BFLOAT16,):        # typed field
            q = h.make_tensor(x, p.data_type, a.shape, a.reshape(-1).tolist())
            self.m.graph.initializer.append(q)
        else:
            self.m.graph.initializer.append(p)

    def default(self):
        """An input has a default, which the caller overrides."""
        x = self.one(*[k for k in self.arrays() if self.arrays()[k][1].dtype.kind in "iufb"])
        b, a, kind = self.inputs[x]
        p = nh.from_array(np.zeros_like(a), x)
        p.data_type = kind
        if any(i.name == x for i in self.m.graph.initializer):
            raise Refused
        self.m.graph.initializer.append(p)

    def more_results(self):
        """The same value, or an input, or a constant, as a result."""
        kind = self.below(4)
        if kind == 0:
            o = self.one(*[k for k, v in self.outputs.items()])
            y = self.name("again")
            self.m.graph.node.append(h.make_node("Identity", [o], [y]))
            v = self.outputs[o]
            info = onnx.ValueInfoProto()
            info.CopyFrom([i for i in self.m.graph.output if i.name == o][0])
            info.name = y
            self.m.graph.output.insert(0, info) if self.below(2) else self.m.graph.output.append(info)
            self.outputs[y] = v
        elif kind == 1:
            x = self.one(*self.inputs)
            if x in self.outputs:
                raise Refused
            info = onnx.ValueInfoProto()
            info.CopyFrom([i for i in self.m.graph.input if i.name == x][0])
            self.m.graph.output.insert(0, info) if self.below(2) else self.m.graph.output.append(info)
            self.outputs[x] = self.inputs[x]
        elif kind == 2:
            x = self.one(*self.inputs)
            info = onnx.ValueInfoProto()
            info.CopyFrom([i for i in self.m.graph.input if i.name == x][0])
            y = info.name = self.name("same")
            self.m.graph.output.insert(0, info) if self.below(2) else self.m.graph.output.append(info)
            self.m.graph.node.append(h.make_node("Identity", [x], [y]))
            self.outputs[y] = self.inputs[x]
        else:
            i = self.one(*[i for i in self.m.graph.initializer if i.name not in self.outputs and not i.data_location and i.name not in {x.name for x in self.m.graph.input}])
            self.m.graph.output.append(h.make_tensor_value_info(i.name, i.data_type, list(i.dims)))
            self.outputs[i.name] = (i.SerializeToString(), nh.to_array(i), i.data_type)

    def twice(self):
        nodes, outs = self.whole()
        if len(outs) * 2 > 8:
            raise Refused
        ns, os_ = self.into(nodes, outs, "t")
        self.m.graph.node.extend(ns)
        for n, o in zip(os_, outs):
            info = onnx.ValueInfoProto()
            info.CopyFrom([i for i in self.m.graph.output if i.name == o][0])
            info.name = n
            self.m.graph.output.append(info)
            self.outputs[n] = self.outputs[o]

    def open(self):
        """Dims are symbols; equal sizes may share one."""
        share = self.below(2)
        for i in self.m.graph.input:
            if i.type.HasField("tensor_type") and i.name in self.inputs and self.inputs[i.name][1] is not None and self.below(4):
                i.type.tensor_type.ClearField("shape")
                i.type.tensor_type.shape.SetInParent()
                for k, n in enumerate(self.inputs[i.name][1].shape):
                    d = i.type.tensor_type.shape.dim.add()
                    if self.below(4) == 0:
                        d.dim_value = n
                    elif self.below(5):
                        d.dim_param = f"n{n}" if share else f"{re.sub('[^A-Za-z0-9]', '_', i.name)}_{k}"
        for o in self.m.graph.output:
            if o.type.HasField("tensor_type") and self.below(2):
                n = len(o.type.tensor_type.shape.dim)
                if o.type.tensor_type.HasField("shape"):
                    o.type.tensor_type.ClearField("shape")
                    o.type.tensor_type.shape.SetInParent()
                    for _ in range(n):
                        o.type.tensor_type.shape.dim.add()
        del self.m.graph.value_info[:]

    def newer(self):
        """A later opset that says the same of all nodes."""
        to = self.one(*range(self.opset, onnx.defs.onnx_opset_version() + 1))

        def same(ns):
            for n in ns:
                if n.domain in ("", "ai.onnx") and onnx.defs.get_schema(n.op_type, self.opset, "").since_version != onnx.defs.get_schema(n.op_type, to, "").since_version:
                    return False
                if any(not same(g.node) for a in n.attribute for g in [a.g] * a.HasField("g") + list(a.graphs)):
                    return False
            return True
        if to == self.opset or not same(self.m.graph.node) or any(not same(f.node) for f in self.m.functions):
            raise Refused
        for f in [self.m] + list(self.m.functions):
            for o in f.opset_import:
                if o.domain in ("", "ai.onnx"):
                    o.version = to
        self.opset = to

    def names(self):
        """Values by other names."""
        pool = ["a b", "x\ny", "é→", "%0", "main", "n1", "return", "\"", "\\", "-1", "0", "x:0", "/a/b.c", "a" * 300, "@f", "{", "#", "N", "$(ls)", "nan", "true", "f32[2]", "//", "*/", "%", "d0", "output", "input", "  "]
        self.rng.shuffle(pool)
        values = [i.name for i in self.m.graph.input] + [i.name for i in self.m.graph.initializer] + [o for n in self.m.graph.node for o in n.output if o]
        if any(a.type in (A.GRAPH, A.GRAPHS) for n in self.m.graph.node for a in n.attribute) or self.m.graph.sparse_initializer:
            raise Refused
        to = {}
        for v in dict.fromkeys(values):
            if pool and self.below(2):
                to[v] = pool.pop()
        g = self.m.graph
        for n in g.node:
            n.input[:] = [to.get(i, i) for i in n.input]
            n.output[:] = [to.get(i, i) for i in n.output]
            if self.below(2):
                n.name = self.one("", "same", "a/b", "x\ny", "é")
        for i in list(g.input) + list(g.output) + list(g.initializer) + list(g.value_info):
            i.name = to.get(i.name, i.name)
        self.inputs = {to.get(k, k): v for k, v in self.inputs.items()}
        self.outputs = {to.get(k, k): v for k, v in self.outputs.items()}

    def dead(self):
        """What nobody needs."""
        kind = self.below(4)
        if kind == 0:
            self.add_input(self.name("unused"), np.ones((0, 3) if self.below(2) else (2, 3), self.one(np.float32, np.int64, bool, np.float64)))
        elif kind == 1:
            self.m.graph.initializer.append(nh.from_array(np.ones(self.one((), (0,), (3,)), self.one(np.float32, np.int64, np.uint8)), self.name("unused")))
        elif kind == 2:
            x = self.one(*self.arrays())
            self.m.graph.node.append(h.make_node("NonZero", [x], [self.name()]))
        else:
            self.m.graph.node.append(h.make_node("Shape", [self.one(*self.arrays())], [self.name()]))

    def reorder(self):
        """Inputs in another order."""
        p = list(self.m.graph.input)
        given = [x for x in p if x.name in self.inputs]
        rest = [x for x in p if x.name not in self.inputs]
        order = list(self.rng.permutation(len(given)))
        new = []
        for x in [given[i] for i in order] + rest:
            y = onnx.ValueInfoProto()
            y.CopyFrom(x)
            new.append(y)
        del self.m.graph.input[:]
        self.m.graph.input.extend(new)


CHANGES = "front front front back back function function branch branch loop loop scan scan constant constant constant default more_results more_results twice open open newer names dead reorder".split()


def restated(seed, folder, most):
    rng = np.random.default_rng(seed)
    try:
        c = Restated(rng, folder)
    except (Refused, OSError, *FAILS):
        return None
    wanted = 1 + int(rng.integers(most))
    for _ in range(TRIES):
        if len(c.did) == wanted:
            break
        kind = CHANGES[int(rng.integers(len(CHANGES)))]
        kept = onnx.ModelProto()
        kept.CopyFrom(c.m)
        state = dict(c.inputs), dict(c.outputs), {k: bytearray(v) for k, v in c.external.items()}, c.opset
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                getattr(c, kind)()
                c.check()
            c.did.append(kind)
        except (Refused, *FAILS):
            c.m, (c.inputs, c.outputs, c.external, c.opset) = kept, state
    return c if c.did else None


def without(path):
    if not path:
        return set()
    with open(path, encoding="utf-8") as f:
        return {line.split()[0].rstrip(":") for line in f if line.strip() and not line.startswith("#")}


def main():
    p = argparse.ArgumentParser()
    p.add_argument("out")
    p.add_argument("sources", nargs="+")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--count", type=int, default=100)
    p.add_argument("--only", default="")
    p.add_argument("--most", type=int, default=3)
    p.add_argument("--without", default="")
    o = p.parse_args()
    bad = without(o.without)
    groups = {}
    for s in o.sources:
        for d in sorted(os.listdir(s)):
            path = os.path.join(s, d, "model.onnx")
            if os.path.exists(path) and o.only in d and os.path.getsize(path) < MOST_BYTES and "expanded" not in d and d not in bad and not DRAWS.search(d) and not SEVERAL.search(d):
                groups.setdefault(re.split("[_.]", d.removeprefix("test_").removeprefix("version_"))[0], []).append(os.path.join(s, d))
    groups = list(groups.values())
    n = 0
    for seed in range(o.seed, o.seed + o.count):
        rng = np.random.default_rng(seed)
        g = groups[int(rng.integers(len(groups)))]
        folder = g[int(rng.integers(len(g)))]
        c = restated(seed, folder, o.most)
        if c:
            c.write(os.path.join(o.out, f"{os.path.basename(folder)}.{seed}"))
            n += 1
    print(f"# {n} cases")


if __name__ == "__main__":
    main()
