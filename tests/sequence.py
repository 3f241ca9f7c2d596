# SPDX-License-Identifier: Apache-2.0
"""Calls whose result depends on the order of a call's arguments, which C leaves to its compiler (C17 6.5.2.2): two
arguments or more that emit instructions, build nodes or take fresh names. GCC takes the last argument first on x86-64
and the first one first on AArch64, Clang the first one always: artifacts would differ by what compiled tccc. Such
arguments but the first are given names before.

What has effects: the functions of SEEDS, all that call one (found by their text: no C is parsed), and calls by pointers
of records and by parameters that make values. Initialisers aren't looked at: both compilers take those in the order in which they are written.

usage: sequence.py FOLDER: prints the places in FOLDER/{compiler,ir,passes}; exit status 1 where there are any
"""
import collections
import os
import re
import sys

SEEDS = re.compile(r"LLVMBuild\w*|LLVM(Append|Insert)BasicBlock\w*|LLVMPositionBuilder\w*|LLVMAdd(Function|Global)"  # LLVM's instructions
                   r"|ir_build|ir_build_typed|ir_build1|ir_fresh\w*|ir_iter|ir_iter_named|new_value|imp_formula_of"  # nodes, symbols
                   r"|kb_insn|kb_dim|kb_stage_new"                                                                   # kernels
                   r"|nk_emit|nk_sbuf|nk_psum|nk_release\w*|nk_roll")                                                # NeuronCores' programs
WORDS = {"if", "for", "while", "switch", "return", "sizeof", "do", "else"}
ONE_OF = {"MUTANT"}  # macros that evaluate one of their arguments
CALL = re.compile(r"\b([A-Za-z_]\w*)\s*\(")
POINTER = re.compile(r"(?:->|\.)\s*[a-z]\w*\s*\(")
GIVEN = re.compile(r"\b(?:V|LLVMValueRef|struct ir_value \*)\s*\(\*(\w+)\)\(")  # a parameter that makes a value
MACRO = re.compile(r"^#define ([A-Za-z_]\w*)\([^()]*\)((?:[^\n]*\\\n)*[^\n]*)", re.M)
FUNCTION = re.compile(r"^((?:[A-Za-z_][^\n;{}#]*?[\s*])??)([A-Za-z_]\w*)\(([^;{}]*?)\)\s*\{((?:[^\n]*(?=\}[ ]*$))|\n.*?(?=^\}))", re.S | re.M)


def plain(text):
    """Comments become spaces and strings underscores: positions stay."""
    def blank(m):
        t = m.group(0)
        return re.sub(r"[^\n]", " ", t) if t[0] == "/" else t[0] + "_" * (len(t) - 2) + t[0]
    return re.sub(r"""/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])+'""", blank, text, flags=re.S)


def arguments(text):
    part, depth, out = "", 0, []
    for c in text:
        depth += (c in "([{") - (c in ")]}")
        if c == "," and not depth:
            out.append(part)
            part = ""
        else:
            part += c
    return out + [part]


def read(folder):
    """File -> text, the functions' bodies, and what each, and each macro, calls: static ones by file and name, others by name."""
    text, bodies, names = {}, [], collections.defaultdict(set)
    for top in ("compiler", "ir", "passes"):
        for path, _, files in os.walk(os.path.join(folder, top)):
            for f in sorted(os.path.join(path, f) for f in files if f.endswith((".c", ".h"))):
                text[f] = plain(open(f, encoding="utf-8").read())
    for f, t in text.items():
        for m in MACRO.finditer(t):
            names[f if f.endswith(".c") else "", m.group(1)] |= {(f, c) for c in CALL.findall(m.group(2))}
        for m in FUNCTION.finditer(t):
            if m.group(2) not in WORDS:
                own = f if "static" in m.group(1) and f.endswith(".c") else ""
                bodies.append((f, m.start(4), m.group(4)))
                names[own, m.group(2)] |= {(f, "LLVMBuild" if c in GIVEN.findall(m.group(3)) else c) for c in CALL.findall(m.group(4))}
    return text, bodies, names


def main(folder):
    text, bodies, names = read(folder)

    def known(f, name):
        return (f, name) if (f, name) in names else ("", name)
    calls = {k: {known(*c) for c in v} for k, v in names.items()}
    effects = {c for v in calls.values() for c in v if SEEDS.fullmatch(c[1])}
    effects |= {k for k in calls if SEEDS.fullmatch(k[1])}
    more = effects
    while more:
        more = {k for k, v in calls.items() if k not in effects and v & effects}
        effects |= more
    found = 0
    for f, start, body in bodies:
        opened = []
        for i, c in enumerate(body):
            if c == "(":
                opened.append(i)
            elif c == ")" and opened:
                at = opened.pop()
                callee = re.search(r"([A-Za-z_]\w*)$", body[:at].rstrip())
                if not callee or callee.group(1) in WORDS | ONE_OF:
                    continue
                here = [[n for n in CALL.findall(a) if known(f, n) in effects] + POINTER.findall(a) for a in arguments(body[at + 1:i])]
                here = [h[0] for h in here if h]
                if len(here) > 1:
                    line = text[f].count("\n", 0, start + at) + 1
                    print(f"{os.path.relpath(f, folder)}:{line}: arguments of {callee.group(1)} in an order of the compiler's: {', '.join(here)}")
                    found += 1
    if len(effects) < 1000:
        sys.exit(f"only {len(effects)} functions with effects were found in {folder}")
    return found > 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
