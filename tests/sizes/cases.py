#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Cases of any size: the cases of the official suite's layout with their dims opened, at sizes and with values that nobody chose.

usage: cases.py OUT FROM... [--part K/N] [--forms open,const,...] [--sets M] [--seed S] [--always LIST]... [--tccc PROGRAM] [--only TEXT]
       cases.py OUT FROM... --values [--part K/N] [--only TEXT]
       cases.py SIZES-RUN FROM... --table --without LIST

FROM is a folder of cases (or one case); each becomes OUT/NAME.FORM with model.onnx, test_data_set_K/input_J.pb and no outputs: sizes-run compares with the
reference interpreter. Forms:
  open    each dim of each input is a symbol of its own, and every operand is an input
  const   the same, with operands of few integers, flags and numbers as initialisers
  fixed   as the case has it, at its own sizes; fixed0, fixed1, ...: at a few others
  types   f16, bf16, f64, i32, i64, u8: open, with f32 exchanged for that type where the operators' schemas allow it
  bad     bad0, ...: const, an initialiser holding what it should not
  attr    attr0, ...: open or const, an attribute of the one node with another value
Data sets (sets.py): the case's own; each distinct size of it, wherever it stands, at 0, 1, 2, 3, around it, around vectors and around what the schedule shows
(--tccc: tccc --dump-ir=kernels); one axis of one operand alone (mostly sizes that don't fit); small integers that say the size, with it; sequences of other
lengths; then hostile values: the least and the greatest integer, one below and at what an axis allows, NaN. --sets: at most M of them, drawn by the form's
name and the seed. --part K/N: the forms whose name's digest mod N is K. --always: the forms that a list names are always made, with all data sets (NAME/M: with M).
--values: a case NAME.values for each operand of each operator that is a size, an index, an axis, a condition, ...: open, with every hostile value.
--table: fails unless each operator of the front end's table and each op of ir/ops.def is in a case or, with a reason, in LIST.
"""
import argparse, os, re, shutil, subprocess, sys
import onnx
from onnx import TensorProto as T, numpy_helper as nh

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "onnx"))
from forms import DOMAINS, TABLES, all_operators, bounded_operands, digest, load, make_form, names_of_forms, read_case, value_operands
from sets import arrays, fits, hostile_sets, numbers_of_schedule, size_sets

MOST_SETS = 500


# -- Writing -------------------------------------------------------------------------------------------------------------------------

def value_proto(value, name, t):
    if t.HasField("optional_type"):
        if value is None:
            return onnx.OptionalProto(name=name, elem_type=onnx.OptionalProto.UNDEFINED)
        return nh.from_optional(value, name)
    return nh.from_list(value, name) if isinstance(value, list) else nh.from_array(value, name)


def narrowest(model, values):
    kinds = {a.dtype.name for a in arrays(values)} | {i.type.tensor_type.elem_type for i in model.graph.output}
    if any(re.match("Q[A-Z]|.*Quantize", n.op_type) for n in model.graph.node):
        return "2e-2 2e-2 1"        # a sum's last bit decides between two integers
    if "bfloat16" in kinds or T.BFLOAT16 in kinds:
        return "6e-2 2e-2"
    if "float16" in kinds or T.FLOAT16 in kinds:
        return "1e-2 1e-2"
    # Scores of masked keys are 10,000 less, in float32 multiples of 2^-10: where no key is left, weights are within 2^-11 of what the interpreter's doubles give.
    return "1e-3 1e-3" if any(n.domain == "com.microsoft" and "Attention" in n.op_type for n in model.graph.node) else "1e-3 1e-4"


def write_set(folder, k, model, values):
    data = os.path.join(folder, f"test_data_set_{k}")
    os.makedirs(data)
    for j, i in enumerate(i for i in model.graph.input if i.name in values):
        with open(os.path.join(data, f"input_{j}.pb"), "wb") as f:
            f.write(value_proto(values[i.name], i.name, i.type).SerializeToString())


def write(folder, model, sets):
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    onnx.save(model, os.path.join(folder, "model.onnx"))
    for k, (_, values) in enumerate(sets):
        write_set(folder, k, model, values)
    with open(os.path.join(folder, "sets"), "w", encoding="utf-8") as f:
        f.writelines(f"{k}: {what}\n" for k, (what, _) in enumerate(sets))
    with open(os.path.join(folder, "tol"), "w", encoding="utf-8") as f:
        f.write(narrowest(model, sets[0][1]) + "\n")


def data_sets(name, fixed, values, schedule, most, seed, bounded=()):
    """The case's own first; of the others at most so many, of both kinds. Sizes of fixed models are what they are. bounded: operands of which no infinity is right or wrong."""
    def drawn(sets, n):
        sets = [s for s in sets if fits(s[1])]
        return sorted(sets, key=lambda s: digest(name, s[0], *seed))[:n] if n else sets

    more = drawn([] if fixed else size_sets(values, schedule), most and most - most // 3) + drawn(hostile_sets(values, bounded=bounded), most and max(1, most // 3))
    return [("own", values)] + more[:MOST_SETS]


def make(out, name, kind, which, model, values, o, most):
    """Whether there is such a form."""
    made = fits(values) and make_form(kind, which, model, values)
    if not made or not made[1] or not fits(made[1]):
        return False
    m, v = made
    folder = os.path.join(out, name)
    write(folder, m, [("own", v)])
    schedule = numbers_of_schedule(o.tccc, os.path.join(folder, "model.onnx")) if o.tccc and kind != "fixed" else []
    write(folder, m, data_sets(name, kind == "fixed", v, schedule, most, o.seed, bounded_operands(m)))
    return True


# -- What there are cases of ---------------------------------------------------------------------------------------------------------

def rows(path, pattern):
    with open(path, encoding="utf-8") as f:
        return re.findall(pattern, f.read(), re.M)


def check_table(program, without, sources):
    """Operators and ops that no case has."""
    wanted = {f"{DOMAINS[d] or 'ai.onnx'}.{op}" for d, op in rows(os.path.join(TABLES, "ops.def"), r'^(?:ROW|MAP|ANY)\((\w+), "(\w+)"')}
    wanted |= {f"ir.{op}" for op in rows(os.path.join(TABLES, "..", "..", "ir", "ops.def"), r"^OP\((\w+),")}
    folders = [folder for _, folder in folders_of(sources)]
    there = {f"{d}.{op}" for folder in folders for d, op in all_operators(load(folder))}
    listed = subprocess.run([program, "--ops"], input="\n".join(os.path.join(f, "model.onnx") for f in folders), capture_output=True, text=True, check=True)
    there |= {f"ir.{op}" for op in listed.stdout.split()}
    reasons = dict(rows(without, r"^([\w.]+): *(\S.*)"))
    bad = [f"{n}: no case has it, and {os.path.basename(without)} does not say why" for n in sorted(wanted - there - set(reasons))]
    bad += [f"{n}: {os.path.basename(without)} says that no case has it" for n in reasons if n not in wanted or n in there]
    return bad


# -- The whole -----------------------------------------------------------------------------------------------------------------------

def folders_of(sources):
    """(name, folder); models that stand for the same, spelled as functions, are left out."""
    for source in sources:
        single = os.path.exists(os.path.join(source, "model.onnx"))
        for name in [os.path.basename(source.rstrip("/"))] if single else sorted(os.listdir(source)):
            folder = source if single else os.path.join(source, name)
            if "_expanded" not in name and os.path.exists(os.path.join(folder, "model.onnx")):
                yield name, folder


def make_values(o):
    """One case for each operand of each operator that holds values, its type and rank: in the open form, all hostile values of those."""
    k, n = map(int, o.part.split("/"))
    seen, count = set(), 0
    for case, folder in folders_of(o.sources):
        model = load(folder)
        values = o.only in case and read_case(folder, model)
        found = value_operands(model, values) if values and fits(values) else {}
        new = {key: name for key, name in found.items() if key not in seen}
        seen |= set(new)
        if new and digest(case) % n == k:
            controls = {name: values[name] for name in new.values()}
            m, v = make_form("open", "", model, values)
            sets = list(hostile_sets(v, controls, bounded_operands(model)))
            write(os.path.join(o.out, f"{case}.values"), m, [("own", v)] + sets[:MOST_SETS])
            count += 1
    return count


def make_all(o):
    k, n = map(int, o.part.split("/"))
    always = {name: int(most or 0) for path in o.always for name, most in rows(path, r"^([^#\s:/]+)(?:/(\d+))?:")}
    kinds = names_of_forms(o.forms.split(","))
    count = 0
    for case, folder in folders_of(o.sources):
        mine = [(f"{case}.{form}", kind, which) for form, kind, which in kinds]
        mine = [f for f in mine if digest(f[0]) % n == k or f[0] in always]
        model = load(folder) if mine and o.only in case else None
        values = model and read_case(folder, model)
        for name, kind, which in mine if values else []:
            count += make(o.out, name, kind, which, model, values, o, always.get(name, o.sets))
    return count


def main():
    p = argparse.ArgumentParser()
    p.add_argument("out")
    p.add_argument("sources", nargs="+")
    p.add_argument("--part", default="0/1")
    p.add_argument("--forms", default="open,const,fixed,types,bad,attr")
    p.add_argument("--sets", type=int, default=0)
    p.add_argument("--seed", nargs=1, default=[])
    p.add_argument("--always", action="append", default=[])
    p.add_argument("--only", default="")
    p.add_argument("--tccc")
    p.add_argument("--values", action="store_true")
    p.add_argument("--table", action="store_true")      # OUT is sizes-run
    p.add_argument("--without")
    o = p.parse_args()
    if o.table:
        bad = check_table(o.out, o.without, o.sources)
        print("\n".join(bad), end="\n" if bad else "")
        return bool(bad)
    print(f"# {make_values(o) if o.values else make_all(o)} cases")
    return 0


if __name__ == "__main__":
    sys.exit(main())
