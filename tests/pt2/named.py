#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Has each operator of named.list the cases that it says?

usage: named.py LIST TOP CASES CASES.LIST GRADIENTS     CASES/NAME/model.pt2 and GRADIENTS/NAME/model.pt2, unpacked
       named.py --seen ...                              what of types and sizes the cases of each row have

A row of LIST is NAME | OPERATORS | CASES | TYPES | SIZES | GRADIENTS:
CASES      patterns of names; each operator stands in a program among them, and each is in CASES.LIST, so that pt2.tap holds its values against PyTorch's
TYPES      those that inputs of these programs have, the operator among their nodes
SIZES      A-B: an axis of an input has each of these sizes in them; - where the operator has no axis that may differ
GRADIENTS  patterns of programs that are trained and hold one of the operators, or no: and the reason why there are none
Or it is NAME | FILE WORD, a word that stands in a file of tests.
"""
import fnmatch
import json
import os
import sys
import zipfile
from names import nodes

TYPES = {1: "u8", 2: "i8", 3: "i16", 4: "i32", 5: "i64", 6: "f16", 7: "f32", 8: "f64", 9: "c32", 10: "c64", 11: "c128", 12: "bool", 13: "bf16"}       # ScalarType of torch._export.serde.schema


class Program:
    """What a program's nodes call, and its inputs' types and sizes: {(rank, axis): sizes}."""

    def __init__(self, path):
        with zipfile.ZipFile(path) as archive:
            graph = json.loads(archive.read(next(n for n in archive.namelist() if n.endswith("models/model.json"))))["graph_module"]["graph"]
        self.operators = {node["target"].removeprefix("torch.ops.").removeprefix("aten.") for node in nodes(graph)}
        self.types, self.sizes = set(), {}
        for given in graph["inputs"]:
            tensor = graph["tensor_values"].get(given.get("as_tensor", {}).get("name"))
            if tensor:
                self.types.add(TYPES[tensor["dtype"]])
                for axis, size in enumerate(tensor["sizes"]):
                    self.sizes.setdefault((len(tensor["sizes"]), axis), set()).add(size.get("as_int"))

    def calls(self, operator):
        return any(o == operator or o.startswith(operator + ".") for o in self.operators)


def chosen(names, patterns):
    return [n for n in names if any(fnmatch.fnmatchcase(n, p) for p in patterns.split())]


def seen(programs):
    """(types, sizes of an axis: the longest run 0, 1, 2... or 1, 2, 3... that one has)"""
    types, axes = set(), {}
    for p in programs:
        types |= p.types
        for axis, sizes in p.sizes.items():
            axes.setdefault(axis, set()).update(sizes)
    return types, list(axes.values())


def faults(row, tests, read, cases, gradients):
    """What of a row isn't so."""
    if len(row) == 2:
        path, _, word = row[1].partition(" ")
        with open(os.path.join(tests, path), encoding="utf-8") as f:
            return [] if word and word in f.read() else [f"{path} has no '{word}'"]
    if len(row) != 6:
        return ["6 columns, or 2"]
    _, operators, patterns, types, sizes, trained = row
    found = [f"no case '{p}'" for p in patterns.split() if not chosen(cases, p)]
    programs = {n: read("cases", n) for n in chosen(cases, patterns)}
    found += [f"{o} stands in none of the cases" for o in operators.split() if not any(p.calls(o) for p in programs.values())]
    has, axes = seen([p for p in programs.values() if any(map(p.calls, operators.split()))])
    found += [f"no case of {t}" for t in types.split() if t not in has]
    if sizes != "-":
        first, last = map(int, sizes.split("-"))
        found += [] if any(set(range(first, last + 1)) <= a for a in axes) else [f"no axis has the sizes {sizes}"]
    if not trained.startswith("no: "):
        found += [f"no gradients '{p}'" for p in trained.split() if not chosen(gradients, p)]
        if not any(p.calls(o) for p in map(lambda n: read("gradients", n), chosen(gradients, trained)) for o in operators.split()):
            found.append("none of the trained programs holds it")
    return found


def main():
    told = sys.argv[1] == "--seen"
    listed, top, folder, names, trained = sys.argv[1 + told:]
    with open(listed, encoding="utf-8") as f:
        rows = [[c.strip() for c in line.split("|")] for line in f if line.strip() and line[0] != "#"]
    with open(names, encoding="utf-8") as f:
        cases = f.read().split()
    programs = {}

    def read(kind, name):
        key = os.path.join(folder if kind == "cases" else trained, name, "model.pt2")
        if key not in programs:
            programs[key] = Program(key)
        return programs[key]

    wrong = 0
    for row in rows:
        if told and len(row) == 6:
            types, axes = seen([p for p in (read("cases", n) for n in chosen(cases, row[2])) if any(map(p.calls, row[1].split()))])
            print(row[0], sorted(types), max(([s for s in range(5) if s in a] for a in axes), key=len, default=[]), sep=" | ")
        for fault in faults(row, os.path.join(top, "tests"), read, cases, os.listdir(trained)):
            print(f"{row[0]}: {fault}")
            wrong += 1
    print(f"{len(rows)} operators by their own cases{f', {wrong} faults' if wrong else ''}")
    return bool(wrong) or not rows


if __name__ == "__main__":
    sys.exit(main())
