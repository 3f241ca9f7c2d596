# SPDX-License-Identifier: Apache-2.0
"""Cases of the official suite's layout, and the forms of their models that tests/sizes tries. A form has a name and is made when it is drawn.

A case's values, by input: an array, a list of arrays (a sequence), or None (an optional without a value)."""
import os, re, zlib
import numpy as np, onnx
from onnx import TensorProto as T, helper as h, numpy_helper as nh

from sets import hostile_sets, joint, sizes_of

OTHER_TYPES = {"f16": T.FLOAT16, "bf16": T.BFLOAT16, "f64": T.DOUBLE, "i32": T.INT32, "i64": T.INT64, "u8": T.UINT8}
INDICES = {"tensor(int32)", "tensor(int64)", "tensor(bool)"}
TRIES = 6                   # forms of each kind that are drawn: hostile constants, attributes
TABLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "compiler", "onnx")
DOMAINS = {"AI": "", "ML": "ai.onnx.ml", "MS": "com.microsoft", "PREVIEW": "ai.onnx.preview", "TRAIN": "ai.onnx.preview.training", "TF": "ai.onnx.converters.tensorflow"}


def digest(*words):
    return zlib.crc32(" ".join(map(str, words)).encode())


# -- Cases that there are ------------------------------------------------------------------------------------------------------------

def operators(graph):
    for n in graph.node:
        yield n.domain or "ai.onnx", n.op_type
        for a in n.attribute:
            for g in [a.g] * a.HasField("g") + list(a.graphs):
                yield from operators(g)


def all_operators(model):
    return set(operators(model.graph)).union(*(operators(f) for f in model.functions))


def load(folder):
    return onnx.load(os.path.join(folder, "model.onnx"))


def read_value(path, kind):
    """A value of a type (its field's name), and its name."""
    proto, to = {"sequence_type": (onnx.SequenceProto, nh.to_list), "optional_type": (onnx.OptionalProto, nh.to_optional)}.get(kind, (T, nh.to_array))
    p = proto()
    with open(path, "rb") as f:
        p.ParseFromString(f.read())
    if kind == "optional_type" and p.elem_type == onnx.OptionalProto.UNDEFINED:
        return None, p.name
    value = to(p)
    return ([np.asarray(v) for v in value] if isinstance(value, list) else value), p.name


def read_case(folder, model):
    """The first data set by input; None: there is none, or it has values that can't be read."""
    inputs = {i.name: i for i in model.graph.input}
    values = {}
    for k, i in enumerate(model.graph.input):
        path = os.path.join(folder, "test_data_set_0", f"input_{k}.pb")
        if not os.path.exists(path):
            break
        try:
            value, name = read_value(path, i.type.WhichOneof("value"))
        except Exception:
            return None
        values[name if name in inputs else i.name] = value
    given = {i.name for i in model.graph.initializer}
    return values if values and all(n in values or n in given for n in inputs) else None


BOUNDED = {"Conv": 1, "ConvTranspose": 1, "FusedConv": 1, "DeformConv": 1, "Loop": 0}


def bounded_operands(model):
    """What times padding is NaN, where it is not finite, or is not there (doc/numerics.md); and iterations without end, which are right."""
    return {n.input[BOUNDED[n.op_type]] for n in model.graph.node if len(n.input) > BOUNDED.get(n.op_type, len(n.input))}


# -- Models --------------------------------------------------------------------------------------------------------------------------

def is_control(a):
    """Few integers, flags or numbers: sizes, axes, positions, factors."""
    return isinstance(a, np.ndarray) and a.ndim <= 1 and a.size <= 8 and (a.dtype.kind in "iub" or a.ndim == 0 or a.size <= 1)


def value_operands(model, values):
    """Inputs that some node takes as a size, an index, a position, an axis, a length, a condition, a factor: few numbers, and integers or flags that its operator
    does not compute with."""
    versions = {o.domain: o.version for o in model.opset_import}
    found = {}
    for n in model.graph.node:
        try:
            formal = list(onnx.defs.get_schema(n.op_type, versions.get(n.domain, 1), n.domain).inputs)
        except onnx.defs.SchemaError:
            formal = []
        for k, name in enumerate(n.input):
            v = values.get(name)
            types = formal[min(k, len(formal) - 1)].types if formal else ()
            if isinstance(v, np.ndarray) and (is_control(v) or types and types <= INDICES):
                found.setdefault((n.domain, n.op_type, k, v.dtype.name, v.ndim), name)
    return found


def copied(model):
    m = onnx.ModelProto()
    m.CopyFrom(model)
    return m


def open_type(t, name, value, fixed):
    """The shape is that of the value, or of a symbol an axis; of sequences and optionals nothing is known but the rank."""
    inner = {"sequence_type": lambda: t.sequence_type.elem_type, "optional_type": lambda: t.optional_type.elem_type}.get(t.WhichOneof("value"))
    if inner:
        return open_type(inner(), name, value if t.HasField("optional_type") else None, fixed) if not fixed else None
    t.tensor_type.ClearField("shape")
    if not isinstance(value, np.ndarray):
        return None
    t.tensor_type.shape.SetInParent()
    for axis, n in enumerate(value.shape):
        d = t.tensor_type.shape.dim.add()
        if fixed:
            d.dim_value = n
        else:
            d.dim_param = f"{re.sub('[^A-Za-z0-9]', '_', name)}_{axis}"
    return None


def opened(model, values, fixed=False):
    """A copy whose inputs are those of `values`, each dim of them a symbol; results have a type and no shape."""
    m = copied(model)
    del m.graph.value_info[:]
    for i in m.graph.input:
        if i.name in values:
            open_type(i.type, i.name, values[i.name], fixed)
    for o in m.graph.output:
        if o.type.HasField("tensor_type"):
            o.type.tensor_type.ClearField("shape")
    return m


def with_constants(model, values):
    """Few numbers become initialisers; None: there are none, or nothing else."""
    m, rest = copied(model), dict(values)
    for i in list(m.graph.input):
        if i.name in values and i.type.HasField("tensor_type") and is_control(values[i.name]):
            m.graph.initializer.append(nh.from_array(values[i.name], i.name))
            m.graph.input.remove(i)
            del rest[i.name]
    return (m, rest) if rest and len(rest) < len(values) else None


def allows(node, versions, what):
    """Do the operands and results that may be f32 take this type?"""
    try:
        schema = onnx.defs.get_schema(node.op_type, versions.get(node.domain, 1), node.domain)
    except onnx.defs.SchemaError:
        return node.domain not in ("", "ai.onnx.ml")       # of others the importer says what it takes
    return all("tensor(float)" not in f.types or what in f.types for f in list(schema.inputs) + list(schema.outputs))


def retyped(model, values, to):
    """f32 becomes another type everywhere; None: the operators do not allow it, or it has no f32."""
    m = copied(model)
    versions = {o.domain: o.version for o in m.opset_import}
    what = "tensor(" + h.tensor_dtype_to_string(to).split(".")[1].lower() + ")"
    stays = ("Cast", "CastLike", "Constant")
    if m.functions or not all(allows(n, versions, what) and n.op_type not in stays and
                              not any(a.type in (onnx.AttributeProto.GRAPH, onnx.AttributeProto.TENSOR) for a in n.attribute) for n in m.graph.node):
        return None
    kind, changed = h.tensor_dtype_to_np_dtype(to), 0
    for i in list(m.graph.input) + list(m.graph.output):
        if i.type.tensor_type.elem_type == T.FLOAT:
            i.type.tensor_type.elem_type = to
            changed += i.name in values
    for k, c in enumerate(m.graph.initializer):
        if c.data_type == T.FLOAT:
            m.graph.initializer[k].CopyFrom(nh.from_array(nh.to_array(c).astype(kind), c.name))
    return (m, {k: v.astype(kind) if isinstance(v, np.ndarray) and v.dtype == np.float32 else v for k, v in values.items()}) if changed else None


def words_of_attributes():
    """{(domain, operator, attribute): words} of compiler/onnx/values.def."""
    with open(os.path.join(TABLES, "values.def"), encoding="utf-8") as f:
        text = f.read()
    lists = dict(re.findall(r'^#define (\w+) "([^"]*)"', text, re.M))
    rows = re.findall(r'^WORDS\((\w+), "(\w+)", "(\w+)", \d+, \d+, [^,]+,\s*(?:"([^"]*)"|(\w+))\)', text, re.M)
    return {(DOMAINS[d], op, name): (words or lists[named]).split() for d, op, name, words, named in rows}


def other_attributes(model):
    """(what, change): each attribute of the first node with another value, or one that it has not."""
    n = model.graph.node[0]
    words = {name: w for (d, op, name), w in words_of_attributes().items() if (d, op) == (n.domain, n.op_type)}
    there = {a.name: h.get_attribute_value(a) for a in n.attribute if a.type in (1, 2, 3, 6, 7, 8)}
    try:
        schema = onnx.defs.get_schema(n.op_type, {o.domain: o.version for o in model.opset_import}.get(n.domain, 1), n.domain)
        for name, a in schema.attributes.items():
            if name not in there and not a.required and a.type in (onnx.defs.OpSchema.AttrType.INT, onnx.defs.OpSchema.AttrType.FLOAT):
                there[name] = h.get_attribute_value(a.default_value) if a.default_value.name else 0
    except onnx.defs.SchemaError:
        pass
    for name, w in words.items():
        for word in w:
            length = len(there[name]) if isinstance(there.get(name), list) else 0
            yield f"{name}={word}", (name, [word] * length if length else word)
    for name, was in there.items():
        if isinstance(was, int):
            tries = (-(1 << 63), -3, -2, -1, 0, 1, 2, 3, (1 << 63) - 1)
        elif isinstance(was, float):
            tries = (-1.0, 0.0, 0.5, 2.0, float("nan"), float("inf"))
        elif isinstance(was, list) and was and isinstance(was[0], (int, float)):
            tries = [was[:k] + [type(was[0])(x)] + was[k + 1:] for k in (0, len(was) - 1) for x in (-1, 0, 1, 2, 3, 7)] + [was[:-1], was + was[-1:], [0] * len(was)]
        else:
            continue
        for value in tries:
            if value != was:
                yield f"{name}={value}", (name, value)


def with_attribute(model, name, value):
    m = copied(model)
    n = m.graph.node[0]
    for a in list(n.attribute):
        if a.name == name:
            n.attribute.remove(a)
    n.attribute.append(h.make_attribute(name, value, attr_type=None if value != [] else onnx.AttributeProto.INTS))
    return m


# -- Forms ---------------------------------------------------------------------------------------------------------------------------

def open_form(model, values, which):
    return opened(model, values), values


def const_form(model, values, which):
    c = with_constants(model, values)
    return c and (opened(*c), c[1])


def fixed_form(model, values, which):
    """At its own sizes, or with its largest size another one."""
    if which:
        old = max(sizes_of(values), default=0)
        new = old + 1 if which == "more" else int(which)
        if new == old:
            return None
        values = joint(values, old, new, True)
    m, v = with_constants(model, values) or (model, values)
    return opened(m, v, True), v


def hostile_form(model, values, which):
    """A constant holds what it should not."""
    controls = {k: v for k, v in values.items() if is_control(v)}
    if not controls or len(controls) == len(values):
        return None
    sizes = {k: v for k, v in values.items() if k not in controls}
    bad = sorted(hostile_sets({**sizes, **controls}, controls, bounded_operands(model)), key=lambda s: digest(s[0]))
    if int(which) >= len(bad):
        return None
    c = with_constants(model, bad[int(which)][1])
    return c and (opened(*c), c[1])


def attribute_form(model, values, which):
    changes = sorted(other_attributes(model), key=lambda c: digest(c[0])) if len(model.graph.node) == 1 else []
    if int(which) >= len(changes):
        return None
    m = with_attribute(model, *changes[int(which)][1])
    c = with_constants(m, values) if int(which) % 2 else None
    m, v = c or (m, values)
    return opened(m, v), v


def type_form(model, values, which):
    r = retyped(model, values, OTHER_TYPES[which])
    return r and (opened(*r), r[1])


FORMS = {"open": (open_form, [""]), "const": (const_form, [""]), "fixed": (fixed_form, ["", "0", "1", "more", "17"]),
         "types": (type_form, list(OTHER_TYPES)), "bad": (hostile_form, [str(k) for k in range(TRIES)]),
         "attr": (attribute_form, [str(k) for k in range(TRIES)])}


def names_of_forms(kinds):
    """(name, kind, which)"""
    return [((which if kind == "types" else kind + which), kind, which) for kind in kinds for which in FORMS[kind][1]]


def make_form(kind, which, model, values):
    """(model, values), or None: the case has no such form."""
    return FORMS[kind][0](model, values, which)
