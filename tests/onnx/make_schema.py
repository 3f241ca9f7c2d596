#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the operators of ONNX have: compiler/onnx/schema.def, made of the onnx package's own table. Needs onnx.

usage: make_schema.py FILE            writes it
       make_schema.py --check FILE    is all that the installed package knows in it?

A row is the union of an operator's versions: what one of them has is passed over by others.
"""
import re, sys

from onnx import defs

DOMAINS = {"": "AI", "ai.onnx.ml": "ML", "ai.onnx.preview": "PREVIEW", "ai.onnx.preview.training": "TRAIN"}
HEAD = """/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What ONNX's operators have, in any of their versions: SCHEMA(domain, operator, most operands, most results, attributes).
 * 2147483647: any number. Made by tests/onnx/make_schema.py of the table of the onnx package; read by schema.c.
 */
"""


def table():
    rows = {}
    for s in defs.get_all_schemas_with_history():
        if s.domain in DOMAINS:
            row = rows.setdefault((DOMAINS[s.domain], s.name), [0, 0, set()])
            row[0], row[1] = max(row[0], s.max_input), max(row[1], s.max_output)
            row[2] |= set(s.attributes)
    return rows


def main():
    check, path = sys.argv[1] == "--check", sys.argv[-1]
    if not check:
        with open(path, "w", encoding="utf-8") as f:
            f.write(HEAD)
            for (domain, name), (ins, outs, attributes) in sorted(table().items()):
                f.write(f'SCHEMA({domain}, "{name}", {ins}, {outs}, "{" ".join(sorted(attributes))}")\n')
        return
    with open(path, encoding="utf-8") as f:
        stored = {(d, n): (int(i), int(o), set(a.split())) for d, n, i, o, a in re.findall(r'^SCHEMA\((\w+), "(\w+)", (\d+), (\d+), "([^"]*)"\)', f.read(), re.M)}
    for key, (ins, outs, attributes) in table().items():
        i, o, a = stored.get(key, (0, 0, set()))
        if key not in stored or i < ins or o < outs or not attributes <= a:
            sys.exit(f"{path}: {key[1]} has more: make_schema.py {path}")


if __name__ == "__main__":
    main()
