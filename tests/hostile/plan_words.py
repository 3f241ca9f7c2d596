#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Words changed in the tables of an artifact's stages: it is refused when it is opened, or runs; no process ends by a signal.

usage: plan_words.py RUNTIME ARTIFACT COUNT COMMAND...      COMMAND runs the file changed.so, and is told its name for {}; RUNTIME is the folder of plan.def
"""
import os
import random
import re
import struct
import subprocess
import sys

runtime, path, count, command = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4:]
whole = open(path, "rb").read()
version = int(re.search(r"define TCC_ABI_VERSION (\d+)", open(os.path.join(runtime, "abi.h")).read()).group(1))
begins = [m.start() for m in re.finditer(re.escape(struct.pack("<II", 0x4E504354, version)), whole)]
at = next(b for b in begins if b % 16 == 0 and b + struct.unpack_from("<Q", whole, b + 8)[0] <= len(whole))
definition = open(os.path.join(runtime, "plan.def")).read()
tables = [m.group(1) for m in re.finditer(r"^TCC_(?:TABLE|RECORDS)\((\w+), ", definition, re.M) if m.group(1) != "member"]
words = {}  # of a record
for m in re.finditer(r"^TCC_RECORDS\((\w+), .*?\n(.*?)^TCC_END", definition, re.M | re.S):
    words[m.group(1)] = sum({"uint32_t": 1, "uint64_t": 2, "int64_t": 2, "struct tcc_range": 2, "struct tcc_pshard": 6}[t] for t in re.findall(r"^TCC_FIELD\(([\w ]+), ", m.group(2), re.M))


def entry(table, i):
    """Where record i of a table stands, in words of the file's plan."""
    return struct.unpack_from("<I", whole, at + 16 + 8 * tables.index(table))[0] // 4 + i * words.get(table, 1)


def word(i):
    return struct.unpack_from("<I", whole, at + 4 * i)[0]


# The first entry in stages: stages, micros, accumulates, counter, then ranges (first, count): early, axes, peaks, buffers, results, lists.
staged = entry("staged", 0)
ranges = [(word(staged + 4 + 2 * i), word(staged + 5 + 2 * i)) for i in range(6)]
places = list(range(staged, staged + words["staged"]))
for table, (first, n) in zip(("buffers", "results", "regions"), ranges[3:]):
    places += range(entry(table, first), entry(table, first + n))
for i in range(*(lambda r: (r[0], r[0] + r[1]))(ranges[5])):
    first, n = word(entry("regions", i)), word(entry("regions", i) + 1)
    places += range(entry("steps", first), entry("steps", first + n))
    for s in range(first, first + n):  # operands
        args = entry("steps", s) + 8
        places += range(entry("u32s", word(args)), entry("u32s", word(args) + word(args + 1)))
draw, ends = random.Random(11), {}
for _ in range(count):
    place = draw.choice(places)
    value = draw.choice([0, 1, 2, 7, 0x7FFFFFFF, 0xFFFFFFFF] + [(word(place) + d) & 0xFFFFFFFF for d in (-2, -1, 1, 2, 3, 5)])
    changed = bytearray(whole)
    struct.pack_into("<I", changed, at + 4 * place, value)
    with open("changed.so", "wb") as f:
        f.write(changed)
    p = subprocess.run([c.replace("{}", "./changed.so") for c in command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=60)
    ends[p.returncode] = ends.get(p.returncode, 0) + 1
    if p.returncode not in (0, 1, 2, 3, 4):
        sys.exit(f"word {place} of the plan, {word(place)} -> {value}: status {p.returncode}: {p.stderr[-300:]!r}")
print(ends)
assert ends.get(0, 0) and sum(v for k, v in ends.items() if k) > count // 4, ends
