#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Cases of any size: the cases of the official suite's layout with their dims opened, at sizes and with values that nobody chose.

usage: cases.py OUT FROM... [--part K/N] [--forms open,const,fixed,types] [--sets M] [--tccc PROGRAM] [--table OPS.DEF --without LIST]

FROM is a folder of cases (or one case); each becomes OUT/NAME.FORM with model.onnx, test_data_set_K/input_J.pb and no outputs: sizes-run compares with the
reference interpreter. Forms:
  open    each dim of each input is a symbol of its own, and every operand is an input
  const   the same, with operands of few integers, flags and numbers as initialisers
  fixed   as the case has it, at its own sizes; a case for a few others
  types   open, with f32 exchanged for each other float type that the operator's schema allows, or for integers
Data sets: the case's own; each distinct size of it, wherever it stands, at 0, 1, 2, 3, around it, around vectors and around what the schedule shows
(--tccc: tccc --dump-ir=kernels); one axis of one operand alone (mostly sizes that don't fit); small integers that say the size, with it; then
hostile values: the least and the greatest integer, one below and at what an axis allows, NaN. --sets: at most M of them, drawn by the case's name.
--part K/N: the cases whose name's digest mod N is K. --table: fails unless each operator of the table is in a case or, with a reason, in LIST.
"""
import argparse, collections, itertools, os, re, shutil, subprocess, sys, zlib
import numpy as np, onnx
from onnx import TensorProto as T, helper as h, numpy_helper as nh

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "onnx"))
from case_folder import write_data  # noqa: E402

MOST = 1 << 14                      # elements of an operand
SIZES = (0, 1, 2, 3, 5, 7, 8, 9, 13, 15, 16, 17, 31, 33, 63, 65, 127, 129)
FLOATS = {"f16": T.FLOAT16, "bf16": T.BFLOAT16, "f64": T.DOUBLE}
INTS = {"i32": T.INT32, "i64": T.INT64, "u8": T.UINT8}


def digest(*words):
    return zlib.crc32(" ".join(map(str, words)).encode())


# -- Cases that there are ------------------------------------------------------------------------------------------------------------

def operators(graph):
    for n in graph.node:
        yield n.domain or "ai.onnx", n.op_type
        for a in n.attribute:
            for g in [a.g] * a.HasField("g") + list(a.graphs):
                yield from operators(g)


def read_case(folder):
    """The model and its first data set's tensors, by input; None: it has inputs that are no tensors, or none at all."""
    model = onnx.load(os.path.join(folder, "model.onnx"))
    names = [i.name for i in model.graph.input]
    values = {}
    for k in range(len(names)):
        path = os.path.join(folder, "test_data_set_0", f"input_{k}.pb")
        if not os.path.exists(path):
            break
        t = T()
        try:
            with open(path, "rb") as f:
                t.ParseFromString(f.read())
            value = nh.to_array(t)
        except Exception:
            return None
        info = {i.name: i for i in model.graph.input}.get(t.name or names[k], model.graph.input[k])
        if not info.type.HasField("tensor_type"):
            return None
        values[info.name] = value
    given = {i.name for i in model.graph.initializer}
    return (model, values) if values and all(n in values or n in given for n in names) else None


# -- Models --------------------------------------------------------------------------------------------------------------------------

def is_control(a):
    """Few integers, flags or numbers: sizes, axes, positions, factors."""
    return a.ndim <= 1 and a.size <= 8 and (a.dtype.kind in "iub" or a.ndim == 0 or a.size <= 1)


def opened(model, values, fixed=False):
    """A copy whose inputs are those of `values`, each dim of them a symbol; results have a type and no shape."""
    m = onnx.ModelProto()
    m.CopyFrom(model)
    del m.graph.value_info[:]
    for i in list(m.graph.input):
        if i.name not in values:
            continue
        t, rank = i.type.tensor_type, values[i.name].ndim
        t.shape.Clear()
        t.shape.SetInParent()
        for axis in range(rank):
            d = t.shape.dim.add()
            if fixed:
                d.dim_value = values[i.name].shape[axis]
            else:
                d.dim_param = f"{re.sub('[^A-Za-z0-9]', '_', i.name)}_{axis}"
    for o in m.graph.output:
        if o.type.HasField("tensor_type"):
            o.type.tensor_type.ClearField("shape")
    return m


def with_constants(model, values):
    m, rest = onnx.ModelProto(), dict(values)
    m.CopyFrom(model)
    for i in list(m.graph.input):
        if i.name in values and is_control(values[i.name]):
            m.graph.initializer.append(nh.from_array(values[i.name], i.name))
            m.graph.input.remove(i)
            del rest[i.name]
    return (m, rest) if rest and len(rest) < len(values) else None


def retyped(model, values, to):
    """f32 becomes another type everywhere; None: the operators do not allow it."""
    m = onnx.ModelProto()
    m.CopyFrom(model)
    versions = {o.domain: o.version for o in m.opset_import}
    what = "tensor(" + h.tensor_dtype_to_string(to).split(".")[1].lower() + ")"
    for n in m.graph.node:
        if n.domain or n.op_type in ("Cast", "CastLike", "Constant") or any(a.type in (onnx.AttributeProto.GRAPH, onnx.AttributeProto.TENSOR) for a in n.attribute):
            return None
        schema = onnx.defs.get_schema(n.op_type, versions.get("", 1))
        formals = list(schema.inputs) + list(schema.outputs)
        if any("tensor(float)" in f.types and what not in f.types for f in formals):
            return None
    kind = h.tensor_dtype_to_np_dtype(to)
    changed = 0
    for i in list(m.graph.input) + list(m.graph.output):
        if i.type.tensor_type.elem_type == T.FLOAT:
            i.type.tensor_type.elem_type = to
            changed += 1
    if not changed or m.graph.initializer:
        return None
    return m, {k: v.astype(kind) if v.dtype == np.float32 else v for k, v in values.items()}


# -- Sizes ---------------------------------------------------------------------------------------------------------------------------

def shaped(a, shape):
    """The same numbers over and over."""
    if int(np.prod(shape, dtype=object)) == 0:
        return np.zeros(shape, a.dtype)
    if a.size == 0:
        return np.ones(shape, a.dtype)
    return np.resize(a, shape)


def fits(values):
    return all(v.size <= MOST for v in values.values())


def sizes_of(values):
    return sorted({n for v in values.values() for n in v.shape})


def joint(values, old, new, also_values):
    """Wherever `old` stands in a shape it is `new`."""
    r = {k: shaped(v, tuple(new if n == old else n for n in v.shape)) for k, v in values.items()}
    if also_values:
        r = {k: np.where(v == old, np.asarray(new, v.dtype), v) if v.dtype in (np.int64, np.int32) and v.size <= 16 else v for k, v in r.items()}
    return r


def numbers_of_schedule(tccc, path):
    """Tiles, vectors and blocks that the kernels show."""
    text = subprocess.run([tccc, "-O2", "-q", "--dump-ir=kernels", path], capture_output=True, text=True, timeout=60).stdout
    return sorted({int(n) for line in re.findall(r"(?:tile|vector|block|panel|lanes|unroll)[^\n]*", text) for n in re.findall(r"\d+", line) if 2 < int(n) <= 128})


def size_sets(values, schedule):
    wanted = sorted(set(SIZES) | {n + d for n in schedule for d in (-1, 0, 1)})
    for old in sizes_of(values):
        for new in sorted(set(wanted) | {max(0, old - 1), old + 1, 2 * old, 2 * old + 1}):
            if new == old:
                continue
            yield f"{old}->{new}", joint(values, old, new, False)
            moved = joint(values, old, new, True)
            if any(v.dtype in (np.int64, np.int32) and v.size <= 16 and old in v for v in values.values()):
                yield f"{old}->{new} with values", moved
    for k, v in values.items():
        for axis, n in enumerate(v.shape):
            for new in {0, 1, max(0, n - 1), n + 1, 2 * n} - {n}:
                yield f"{k}[{axis}]={new}", {**values, k: shaped(v, v.shape[:axis] + (new,) + v.shape[axis + 1:])}


def hostile_sets(values):
    dims = [n for v in values.values() if v.ndim for n in v.shape[:2]][:4] or [1]
    for k, v in values.items():
        if v.dtype.kind in "iu" and v.size and v.size <= 4096:
            low, high = (np.iinfo(v.dtype).min, np.iinfo(v.dtype).max) if v.dtype.kind in "iu" else (0, 1)
            for bad in sorted({low, high, -1, 0} | {s for d in dims for s in (-d - 1, -d, d)}):
                if not low <= bad <= high:
                    continue
                one = v.copy()
                one.flat[-1 if bad > 0 else 0] = bad
                yield f"{k} has {bad}", {**values, k: one}
                if v.size > 1:
                    yield f"{k} is {bad}", {**values, k: np.full_like(v, bad)}
        elif v.dtype.kind == "f" and v.size and v.size <= 4:
            for bad in (np.nan, np.inf, -np.inf, -1, 0):
                yield f"{k} is {bad}", {**values, k: np.full_like(v, bad)}
        elif v.dtype == bool and v.size:
            yield f"{k} flipped", {**values, k: ~v}
            yield f"{k} all", {**values, k: np.ones_like(v)}


def data_sets(name, values, schedule, most):
    """The case's own first; of the others at most so many, of both kinds."""
    def drawn(sets, n):
        sets = [s for s in sets if fits(s[1])]
        return sorted(sets, key=lambda s: digest(name, s[0]))[:n] if n else sets

    more = drawn(size_sets(values, schedule), most and most - most // 3) + drawn(hostile_sets(values), most // 3)
    return [("own", values)] + more[:500]


# -- Writing -------------------------------------------------------------------------------------------------------------------------

def narrowest(model, values):
    kinds = {v.dtype.name for v in values.values()} | {i.type.tensor_type.elem_type for i in model.graph.output}
    if "bfloat16" in kinds or T.BFLOAT16 in kinds:
        return "6e-2 2e-2"
    return "1e-2 1e-2" if "float16" in kinds or T.FLOAT16 in kinds else "1e-3 1e-4"


def write(out, name, model, sets):
    folder = os.path.join(out, name)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    onnx.save(model, os.path.join(folder, "model.onnx"))
    order = [i.name for i in model.graph.input]
    for k, (_, values) in enumerate(sets):
        write_data(folder, k, [(n, values[n]) for n in order if n in values], {})
    with open(os.path.join(folder, "sets"), "w", encoding="utf-8") as f:
        f.writelines(f"{k}: {what}\n" for k, (what, _) in enumerate(sets))
    with open(os.path.join(folder, "tol"), "w", encoding="utf-8") as f:
        f.write(narrowest(model, sets[0][1]) + "\n")


def forms_of(model, values, forms):
    """(form, model, values that stay inputs, are sizes fixed?)"""
    if "open" in forms:
        yield "open", opened(model, values), values, False
    constants = with_constants(model, values) if "const" in forms or "fixed" in forms else None
    if constants and "const" in forms:
        yield "const", opened(constants[0], constants[1]), constants[1], False
    if "fixed" in forms:
        m, v = constants or (model, values)
        yield "fixed", opened(m, v, True), v, True
        old = max(sizes_of(v), default=0)
        for new in (0, 1, old + 1, 17):
            moved = joint(values, old, new, True)
            c = with_constants(model, moved) or (model, moved)
            if new != old and fits(moved):
                yield f"fixed{new}", opened(c[0], c[1], True), c[1], True
    for name, to in {**FLOATS, **INTS}.items():
        r = retyped(model, values, to) if "types" in forms else None
        if r:
            yield name, opened(*r), r[1], False


def make(out, folder, name, o):
    case = read_case(folder)
    if not case:
        return None
    model, values = case
    if not fits(values):
        return None
    for form, m, v, fixed in forms_of(model, values, o.forms.split(",")):
        write(out, f"{name}.{form}", m, [("own", v)])
        schedule = numbers_of_schedule(o.tccc, os.path.join(out, f"{name}.{form}", "model.onnx")) if o.tccc and not fixed else []
        write(out, f"{name}.{form}", m, [("own", v)] + list(hostile_sets(v))[:o.sets // 3 or 500] if fixed else data_sets(f"{name}.{form}", v, schedule, o.sets))
    return set(operators(model.graph)) | {(f.domain, n.op_type) for f in model.functions for n in f.node}


def check_table(path, without, covered):
    domains = {"AI": "ai.onnx", "ML": "ai.onnx.ml", "MS": "com.microsoft", "PREVIEW": "ai.onnx.preview", "TRAIN": "ai.onnx.preview.training"}
    with open(path, encoding="utf-8") as f:
        rows = {(domains[d], op) for d, op in re.findall(r'^(?:ROW|MAP|ANY)\((\w+), "(\w+)"', f.read(), re.M)}
    with open(without, encoding="utf-8") as f:
        reasons = dict(re.findall(r"^([\w.]+): *(\S.*)", f.read(), re.M))
    names = {f"{d}.{op}": (d, op) for d, op in rows}
    bad = [f"{n}: no case has it, and {without} does not say why" for n, row in sorted(names.items()) if row not in covered and n not in reasons]
    bad += [f"{n}: {without} says that no case has it" for n in reasons if n not in names or names[n] in covered]
    return bad


def main():
    p = argparse.ArgumentParser()
    p.add_argument("out")
    p.add_argument("sources", nargs="+")
    p.add_argument("--part", default="0/1")
    p.add_argument("--forms", default="open,const,fixed,types")
    p.add_argument("--sets", type=int, default=0)
    p.add_argument("--tccc")
    p.add_argument("--table")
    p.add_argument("--without")
    o = p.parse_args()
    k, n = map(int, o.part.split("/"))
    covered = set()
    for source in o.sources:
        single = os.path.exists(os.path.join(source, "model.onnx"))
        for name in [os.path.basename(source.rstrip("/"))] if single else sorted(os.listdir(source)):
            folder = source if single else os.path.join(source, name)
            if name.endswith(("_expanded", "_expanded_ver18")) or "_expanded" in name or not os.path.isdir(folder):
                continue
            mine = digest(name) % n == k
            if mine:
                covered |= make(o.out, folder, name, o) or set()
            elif o.table:
                case = read_case(folder)
                covered |= set(operators(case[0].graph)) if case else set()
    bad = check_table(o.table, o.without, covered) if o.table else []
    print("\n".join(bad), end="\n" if bad else "")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
