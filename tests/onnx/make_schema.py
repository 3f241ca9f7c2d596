#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the operators of ONNX have: compiler/onnx/schema.def, made of the onnx package's own table. Needs onnx.

usage: make_schema.py FILE            writes it; rows of com.microsoft are made of onnxruntime's table where that is installed, else kept
       make_schema.py --check FILE    is all that the installed package knows in it?

A row is the union of an operator's versions: what one of them has is passed over by others. Which operands must be given is told by version.
"""
import os, re, sys

from onnx import defs

DOMAINS = {"": "AI", "ai.onnx.ml": "ML", "com.microsoft": "MS", "ai.onnx.preview": "PREVIEW", "ai.onnx.preview.training": "TRAIN"}
ROW = r'^SCHEMA\((\w+), "(\w+)", (\d+), (\d+), "([^"]*)", "([^"]*)"\)'
HEAD = """/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What ONNX's operators have, in any of their versions: SCHEMA(domain, operator, most operands, most results, operands needed, attributes).
 * 2147483647: any number. Needed, from each opset on: "r" for an operand that must be given, "o" for one that may be left out, those at
 * the end not written. Made by tests/onnx/make_schema.py of the tables of the onnx package and ONNX Runtime; read by schema.c.
 */
"""


def needed(schema):
    """One letter an operand; of a variadic one as many as there must be."""
    letters = "".join("o" if "Optional" in str(i.option) else "r" for i in schema.inputs if "Variadic" not in str(i.option))
    return letters.ljust(schema.min_input, "r").rstrip("o")


def imported(path):
    """The operators of com.microsoft that are imported."""
    with open(os.path.join(os.path.dirname(path), "ops.def"), encoding="utf-8") as f:
        return set(re.findall(r'^\w+\(MS, "(\w+)"', f.read(), re.M))


def contributed(path):
    """The schemas of com.microsoft; none without onnxruntime."""
    try:
        from onnxruntime.capi import onnxruntime_pybind11_state as ort
    except ImportError:
        return []
    names = imported(path)
    return [s for s in ort.get_all_operator_schema() if s.domain == "com.microsoft" and s.name in names]


def table(more=()):
    rows = {}
    for s in sorted([*defs.get_all_schemas_with_history(), *more], key=lambda s: s.since_version):
        if s.domain in DOMAINS:
            row = rows.setdefault((DOMAINS[s.domain], s.name), [0, 0, {}, set()])
            row[0], row[1] = max(row[0], s.max_input), max(row[1], s.max_output)
            row[2][s.since_version] = (s.max_input, needed(s))
            row[3] |= set(s.attributes)
    return {key: (i, o, told(need), a) for key, (i, o, need, a) in rows.items()}


def told(need):
    """What each version needs, but for what a later one of as many operands leaves out: exporters do so early."""
    out, last = [], None
    for version, (most, letters) in need.items():
        for later, (n, other) in need.items():
            if later > version and n == most:
                letters = "".join(c if other[k:k + 1] == "r" else "o" for k, c in enumerate(letters)).rstrip("o")
        if letters != last:
            out.append(f"{version}:{letters}")
            last = letters
    return " ".join(out)


def stored(path):
    with open(path, encoding="utf-8") as f:
        return {(d, n): (int(i), int(o), need, set(a.split())) for d, n, i, o, need, a in re.findall(ROW, f.read(), re.M)}


def main():
    check, path = sys.argv[1] == "--check", sys.argv[-1]
    if not check:
        more = contributed(path)
        rows = table(more)
        if not more:
            rows |= {key: row for key, row in stored(path).items() if key[0] == "MS"}
        with open(path, "w", encoding="utf-8") as f:
            f.write(HEAD)
            for (domain, name), (ins, outs, need, attributes) in sorted(rows.items()):
                f.write(f'SCHEMA({domain}, "{name}", {ins}, {outs}, "{need}", "{" ".join(sorted(attributes))}")\n')
        return
    known = stored(path)
    for key, (ins, outs, need, attributes) in table().items():
        i, o, n, a = known.get(key, (0, 0, "", set()))
        if key not in known or i < ins or o < outs or not set(need.split()) <= set(n.split()) or not attributes <= a:
            sys.exit(f"{path}: {key[1]} has more: make_schema.py {path}")


if __name__ == "__main__":
    main()
