"""Cycles of calls between files, from the objects of a build (cycles.sh).

usage: cycles.py BUILD LIST [--print]      (--print: what there is, as lines of LIST without reasons)
"""
import collections
import os
import re
import subprocess
import sys

MOST = 6
CALL = re.compile(r"\S+\s+(?:R_X86_64_PLT32|R_AARCH64_(?:CALL|JUMP)26)\s+([\w.]+?)(?:[-+]0x\w+)?$")


def objects(build):
    for product in ("base", "ir", "passes", "compiler", "runtime", "sim", "tools"):
        for folder, _, names in os.walk(os.path.join(build, product)):
            for name in sorted(names):  # the shared libraries' are the static ones' sources once more
                if name.endswith(".o") and "_shared_a-" not in name:
                    yield os.path.relpath(os.path.join(folder, name), build)


def source(path):
    """An object's source, without its suffix: automake's are ir/op.o and runtime/libtccrt_a-walk.o."""
    folder, name = os.path.split(path)
    return os.path.join(folder, name[:-2].rsplit("-", 1)[-1] if "_a-" in name else name[:-2])


def calls(build):
    """{file: {file that it calls}}"""
    files = list(objects(build))
    where, graph = collections.defaultdict(set), {source(f): set() for f in files}
    run = lambda *argv: subprocess.run(argv + tuple(files), cwd=build, capture_output=True, text=True).stdout.splitlines()
    for line in run("nm", "-A", "--defined-only"):
        path, _, rest = line.partition(":")
        words = rest.split()
        if len(words) == 3 and words[1] in "TW":
            where[words[2]].add(source(path))
    at = None
    for line in run("objdump", "-r"):
        call = CALL.match(line)
        if "file format" in line:
            at = source(line.partition(":")[0])
        elif call:
            graph[at] |= where[call[1]] - {at}
    return graph


def circles(graph):
    """Tarjan's strongly connected components of more than one file."""
    index, low, stack, found = {}, {}, [], []

    def go(v):
        index[v] = low[v] = len(index)
        stack.append(v)
        for w in sorted(graph.get(v, ())):
            if w not in index:
                go(w)
            if w in stack:
                low[v] = min(low[v], low[w])
        if low[v] == index[v]:
            at = stack.index(v)
            if len(stack) - at > 1:
                found.append(sorted(stack[at:]))
            del stack[at:]

    sys.setrecursionlimit(10000)
    for v in sorted(graph):
        if v not in index:
            go(v)
    return found


def read_list(path):
    """[(folders, files or how many, line)]: `FOLDER ~ file file ... ~ reason`, `FOLDER FOLDER ... ~ at most N ~ reason`"""
    rows = []
    for line in open(path):
        if line.strip() and not line.startswith("#"):
            folders, files, reason = (part.strip() for part in line.split(" ~ "))
            most = re.fullmatch(r"at most (\d+)", files)
            if not reason or (not most and len(files.split()) > MOST):
                sys.exit(f"{path}: no reason, or more than {MOST} files: {line}")
            rows.append((set(folders.split()), int(most[1]) if most else set(files.split())))
    return rows


def main():
    build, path = sys.argv[1:3]
    graph = calls(build)
    if not any(graph.values()):
        print("SKIP: no calls found: objects of x86-64 or AArch64, nm and objdump are needed")
        return 77
    folder = os.path.dirname
    inside = circles({v: {w for w in to if folder(w) == folder(v)} for v, to in graph.items()})
    across = [c for c in circles(graph) if len({folder(v) for v in c}) > 1]
    if "--print" in sys.argv:
        for c in inside + across:
            print(*sorted({folder(v) for v in c}), "~", *(map(os.path.basename, c) if c in inside else c))
        return 0
    rows, bad = read_list(path), 0
    for c in inside + across:
        folders, names = {folder(v) for v in c}, {os.path.basename(v) for v in c}
        fits = (len(c) <= files if isinstance(files, int) else names <= files
                for f, files in rows if (folders == f if len(folders) == 1 else folders <= f))
        if not any(fits):
            print(f"{' '.join(sorted(folders))}: {len(c)} files, {' '.join(sorted(names))}, call each other in a circle")
            bad = 1
    return bad


sys.exit(main())
