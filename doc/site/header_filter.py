#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Doxygen's filter of a public header: our comments are plain. What stands before a declaration is about it, what stands behind one on its line, too; the first
comment is the file's; a line of dashes is no comment of anything."""
import re
import sys

first, out, inside = True, [], False
for line in open(sys.argv[1], encoding="utf-8"):
    if not inside and re.match(r"\s*/\*(?![*!])", line) and "SPDX" not in line and not re.match(r"\s*/\* --", line):
        line = re.sub(r"/\*", "/** @file\n" if first else "/**", line, count=1)
        first = False
    elif not inside and not line.lstrip().startswith("#"):
        line = re.sub(r"(\S.*?[;,{]\s*)/\*(?![*!]) ?", r"\1/**< ", line, count=1)
    inside = (inside or "/*" in line) and line.rfind("*/") < line.rfind("/*") if "/*" in line else inside and "*/" not in line
    out.append(line)
sys.stdout.write("".join(out))
