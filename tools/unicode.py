#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes data_unicode.def: the ranges of letters and numbers of Unicode (general categories L* and N*), as Python knows them.

usage: unicode.py >data_unicode.def
"""
import unicodedata


def ranges(letter):
    first = None
    for c in range(0x110001):
        inside = c < 0x110000 and unicodedata.category(chr(c))[0] == letter
        if inside and first is None:
            first = c
        if not inside and first is not None:
            yield first, c - 1
            first = None


print("/* SPDX-License-Identifier: Apache-2.0 */")
print(f"/* Ranges of code points of Unicode {unicodedata.unidata_version}, ascending: LETTER(first, last), NUMBER(first, last). Written by unicode.py. */")
for name, letter in (("LETTER", "L"), ("NUMBER", "N")):
    print(f"#ifdef {name}")
    line = ""
    for a, b in ranges(letter):
        word = f"{name}(0x{a:x}, 0x{b:x}) "
        if len(line) + len(word) > 120:
            print(line.rstrip())
            line = ""
        line += word
    print(line.rstrip())
    print(f"#undef {name}\n#endif")
