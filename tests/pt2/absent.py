#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Does each op of ATen that PyTorch has stand in compiler/pt2/aten.def, or in absent.def with a reason? And does each pattern of absent.def fit
one, which aten.def has not? usage: absent.py SOURCES [--names FILE]      FILE: the names, where there is no PyTorch (tests/pt2/aten.names); written with --store FILE"""
import fnmatch, os, re, sys


def names():
    import torch
    return {op[6:].partition(".")[0] for op in torch._C._dispatch_get_all_op_names() if op.startswith("aten::")}


def read(folder, name, row):
    with open(os.path.join(folder, "compiler/pt2", name), encoding="utf-8") as f:
        return re.findall(row, f.read(), re.M)


def main():
    if sys.argv[2:3] == ["--names"]:
        with open(sys.argv[3], encoding="utf-8") as f:
            every = set(f.read().split())
    else:
        every = names()
    if sys.argv[2:3] == ["--store"]:
        with open(sys.argv[3], "w", encoding="utf-8") as f:
            f.write("".join(f"{n}\n" for n in sorted(every)))
    have = {n.partition(".")[0] for n in read(sys.argv[1], "aten.def", r'^ATEN\("([^"]*)"')}
    plain = lambda n: re.sub(r"^__i", "__", n) if n.startswith("__") else n.rstrip("_")
    missing = sorted(n for n in every if n not in have and plain(n) not in have)
    patterns = [p for row in read(sys.argv[1], "absent.def", r'^ABSENT\("([^"]*)"') for p in row.split()]
    unsaid = [n for n in missing if not any(fnmatch.fnmatchcase(n, p) for p in patterns)]
    idle = [p for p in patterns if not any(fnmatch.fnmatchcase(n, p) for n in missing)]
    print(f"{len(every)} ops of ATen, {len(every) - len(missing)} are read")
    if unsaid:
        print("without a reason:", *unsaid)
    if idle:
        print("patterns that fit none:", *idle)
    return bool(unsaid or idle)


if __name__ == "__main__":
    sys.exit(main())
