#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes unicode.def: ranges of Unicode, as Python knows it: letters and numbers (general categories L* and N*), characters whose NFC_Quick_Check is No or Maybe, and
marks (those with a combining class).

usage: unicode.py >unicode.def
"""
import unicodedata


def composing():
    """What normalization form C may change or join to what stands before: UAX 15, NFC_Quick_Check."""
    found = set(range(0x1161, 0x1176)) | set(range(0x11A8, 0x11C3))
    for k in range(0x110000):
        c = chr(k)
        if 0xD800 <= k < 0xE000:
            continue
        if unicodedata.normalize("NFC", c) != c:
            found.add(k)
        parts = unicodedata.decomposition(c).split()
        if len(parts) == 2 and parts[0][0] != "<" and unicodedata.normalize("NFC", unicodedata.normalize("NFD", c)) == c:
            found.add(int(parts[1], 16))
    return found


def ranges(inside_of):
    first = None
    for c in range(0x110001):
        inside = c < 0x110000 and inside_of(c)
        if inside and first is None:
            first = c
        if not inside and first is not None:
            yield first, c - 1
            first = None


changes = composing()
KINDS = {"LETTER": lambda c: unicodedata.category(chr(c))[0] == "L", "NUMBER": lambda c: unicodedata.category(chr(c))[0] == "N",
         "COMPOSING": lambda c: c in changes, "MARK": lambda c: unicodedata.combining(chr(c)) != 0}
print("/* SPDX-License-Identifier: Apache-2.0 */")
print(f"/* Ranges of code points of Unicode {unicodedata.unidata_version}, ascending: {', '.join(k + '(first, last)' for k in KINDS)}. Written by unicode.py. */")
for name, inside in KINDS.items():
    print(f"#ifdef {name}")
    line = ""
    for a, b in ranges(inside):
        word = f"{name}(0x{a:x}, 0x{b:x}) "
        if len(line) + len(word) > 120:
            print(line.rstrip())
            line = ""
        line += word
    print(line.rstrip())
    print(f"#undef {name}\n#endif")
