#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every number of README.md, CONTRIBUTING.md and doc/*.md is known: checked against the product, named as measured with its command, or not a figure at all.

usage: figures.py [--run] [PAGE...]        TAP: a test a page. --run: `$` lines too, which a build is needed for
       figures.py --accept PAGE...         take a page's sections as they stand, when their commands have been run again
       figures.py --open PAGE...           print what stands in no list

tests/docs/figures.list says how each is known, a line each, fields separated by " ~ ":
  PAGE ~ TEXT ~ FILE ~ REGEX           each {figure} of TEXT is what a group of REGEX finds in FILE, once: a number or an expression of numbers, units counted
  PAGE ~ TEXT ~ rows FILE ~ REGEX      ... how many lines of FILE match; where REGEX has a group, how many texts that has
  PAGE ~ TEXT ~ most FILE ~ REGEX      ... the largest that a group of REGEX finds
  PAGE ~ TEXT ~ $ COMMAND ~ REGEX [~ TOLERANCE]   ... what COMMAND prints, run in the source folder with the build ($BUILD) on the PATH; within TOLERANCE (0.02: 2 %)
  PAGE ~ TEXT ~ fixed ~ WHY            not the product's to change: a standard's, arithmetic's, an example's
  PAGE ~ # SECTION ~ measured MACHINE ~ COMMAND ~ DIGEST   all others of a section; COMMAND stands on the page and is there; DIGEST is of them
  PAGE ~ # SECTION ~ measured MACHINE ~ each row ~ DIGEST       a table whose rows name, in their last cell, a command, a file or a page
  PAGE ~ # SECTION ~ told ~ WHY ~ DIGEST           all others of a section that is a day's record: those of RECORDS alone
PAGE may be `*`. Pages that mkdoc makes are compared by tests/docs.sh and left out.
"""
import functools
import math
import os
import re
import subprocess
import sys
import zlib

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
LIST = os.path.join(HERE, "figures.list")
MACHINES = {"cores": "two cores of a shared virtual machine with AVX-512", "simulator": "a simulator's model", "emulator": "counted in the emulator", "any": "the same on any machine"}
NUMBER = re.compile(r"(?<![\w.,^-])[-±]?\d+(?:,\d{3})*(?:\.\d+)*(?:e-?\d+)?(?!\w)")
# What looks like a figure and is none.
WORDS = re.compile("|".join((
    r"^\s*\d+\. ",                                              # an item's number
    r"(?<![\d.,/])-?\b[01]\b(?![.,]\d)(?! ?%)",                   # 0 and 1 are words
    r"\b\d+(?:x\d+)+\b|\b\d[\d,]*(?: x \d[\d,]*)+|\b\d+(?:-\d+)+\b",   # shapes
    r"\b\d+[- ]bits?\b|\b\d+ and \d+ bits\b|\b\d or \d bits\b",     # types of numbers
    r"\b(?:19|20)\d\d\]|\b20\d\d-\d\d-\d\d",                     # years of papers, days
    r"\b[2e]\^-?[\dh(.]+", r"\be-?\d+\b",                        # powers
    r"\b[Ll]evels? \d|\branks? \d|\bnode \d|\bstatus \d",
    r"\bGPT-2 \d+M",
)))
UNITS = {"KiB": 2**10, "KB": 2**10, "MiB": 2**20, "GiB": 2**30, "K": 2**10, "Ki": 2**10, "%": 0.01, "million": 1e6, "ms": 1e-3, "µs": 1e-6, "us": 1e-6, "MB": 1e6, "s": 1.0}
SMALL = "zero one two three four five six seven eight nine ten eleven twelve".split()
RECORDS = "decisions.md", "status.md"
MADE = re.compile(r"Made of `|<!-- Written by ")


def blank(match):
    return re.sub(r"\S", " ", match.group())


class Page:
    """A page's running text, code and links blanked, of the same length; its sections."""

    def __init__(self, name):
        self.name = name
        with open(os.path.join(TOP, "doc", name)) as f:
            self.whole = f.read()
        text = re.sub(r"^```.*?^```", blank, self.whole, flags=re.S | re.M)
        text = re.sub(r"(?:(?<=\n\n)|(?<=    .\n)) {4}.*(?:\n(?: {4}.*)?)*", blank, text)
        text = re.sub(r"`[^`\n]*`", lambda m: "`" * len(m.group()), text)
        text = re.sub(r"\]\([^)]*\)|<!--.*?-->", lambda m: blank(m) if m.group()[0] == "<" else "]" + " " * (len(m.group()) - 1), text)
        self.text = "\n".join(WORDS.sub(blank, line) if not line.startswith("#") else line for line in text.split("\n"))
        self.known = [False] * len(self.text)
        heads = list(re.finditer(r"^#+ (.*)$", text, flags=re.M))
        self.sections = {}
        for h, after in zip(heads, [*heads[1:], None]):
            self.sections[self.whole[h.start():h.end()].lstrip("# ")] = (h.end(), after.start() if after else len(text))

    def figures(self, begin=0, end=None):
        heads = [m.span() for m in re.finditer(r"^#+ .*$", self.text, flags=re.M)]
        return [m for m in NUMBER.finditer(self.text, begin, len(self.text) if end is None else end) if not all(self.known[m.start():m.end()]) and not any(a <= m.start() < b for a, b in heads)]

    def find(self, text):
        """Where TEXT stands on the page, white space counting as any, and its figures' texts."""
        parts = re.split(r"\{(.*?)\}", text)
        pattern = "".join(r"\s+".join(re.escape(w) for w in re.split(r"\s+", p)) if k % 2 == 0 else "(" + re.escape(p) + ")" for k, p in enumerate(parts))
        return list(re.finditer(pattern, self.whole))


def value(text):
    """A number with a unit, a word for one, or an expression of C."""
    text = text.strip()
    if text.lower() in SMALL:
        return float(SMALL.index(text.lower()))
    m = re.fullmatch(r"([-±]?\d[\d,]*(?:\.\d+)?(?:e-?\d+)?) ?(\S*)", text)
    if m and m.group(2) in ("", *UNITS):
        return float(m.group(1).replace(",", "").lstrip("±")) * UNITS.get(m.group(2), 1)
    text = re.sub(r"(?<=\d)[uUlLfF]+\b", "", text)
    if not re.fullmatch(r"[\d\s.()*+<>e/-]+", text):
        raise ValueError(f"no number: {text}")
    try:
        return float(eval(text))
    except (SyntaxError, NameError):         # a version
        return math.nan


def equal(says, found, room):
    return says == found or abs(value(says) - value(found)) <= room * abs(value(found))


def read(name):
    with open(os.path.join(TOP, name)) as f:
        return f.read()


def lines():
    for number, line in enumerate(read("tests/docs/figures.list").split("\n"), 1):
        if line.strip() and not line.startswith(";"):
            yield number, [f.strip() for f in line.split(" ~ ")]


def digest(figures):
    return f"{len(figures)}:{zlib.crc32(' '.join(m.group() for m in figures).encode()):08x}"


@functools.cache
def run(command):
    """What it prints, run in the source folder; None: exit status 77, what it needs is not there."""
    build = os.environ.get("top_builddir", os.path.join(TOP, "build"))
    path = build + ":" + os.environ["PATH"]
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, cwd=TOP, env=dict(os.environ, PATH=path, BUILD=build, TCCC_LIBDIR=build, PYTHON=sys.executable))
    return None if done.returncode == 77 else done.stdout + done.stderr


def got(fields, running):
    """What the product says of a line's figures: one text each; None where it is not asked now."""
    how, pattern = fields[2], fields[3]
    if how.startswith("rows "):
        found = re.findall(pattern, read(how[5:]), flags=re.M)
        return [str(len(set(found) if re.compile(pattern).groups else found))]
    if how.startswith("most "):
        return [max(re.findall(pattern, read(how[5:]), flags=re.M), key=value)]
    if how.startswith("$ "):
        if not running:
            return None
        text = run(how[2:])
        if text is None:
            return None
    else:
        text = read(how)
    found = re.search(pattern, text, flags=re.M)
    if not found:
        raise ValueError(f"{how}: nothing matches {pattern}" + (f": {text[-300:]}" if how.startswith("$ ") else ""))
    return list(found.groups())


def fact(page, fields, running):
    """Complaints about one line of a page; its figures are known then."""
    stands = page.find(fields[1])
    if not stands and fields[0] != "*":
        return [f"'{fields[1]}' does not stand there"]
    for m in stands:
        for g in range(1, (m.lastindex or 0) + 1):
            page.known[m.start(g):m.end(g)] = [True] * (m.end(g) - m.start(g))
    if fields[2] == "fixed" or not stands:
        return []
    says = re.findall(r"\{(.*?)\}", fields[1])
    try:
        is_, room = got(fields, running), float(fields[4]) if len(fields) > 4 else 1e-9
        return [] if is_ is None or len(is_) == len(says) and all(equal(a, b, room) for a, b in zip(says, is_)) else [f"'{fields[1]}': {fields[2]} has {', '.join(is_)}"]
    except (ValueError, OSError) as e:
        return [f"'{fields[1]}': {e}"]


def rows(text):
    """A section's rows of tables that have a number."""
    return [row for row in re.findall(r"^\|.*\|$", text, flags=re.M) if NUMBER.search(WORDS.sub(blank, row))]


def there(command):
    """Is the command's program one of this tree's, or (a pair: a command, or a page) the page there?"""
    if isinstance(command, tuple):
        return there(command[0]) if command[0] else os.path.exists(os.path.join(TOP, "doc", command[1]))
    words = [w for w in command.split() if "=" not in w or "/" in w]
    return any(any(os.path.exists(os.path.join(TOP, w.split("=")[-1] + end)) for end in ("", ".c")) or re.fullmatch(r"tccc(-[a-z]+)?", w) for w in words)


def section(page, fields):
    title = fields[1].lstrip("# ")
    if title not in page.sections:
        return [f"has no section '{title}'"], None
    begin, end = page.sections[title]
    figures = page.figures(begin, end)
    for m in figures:
        page.known[m.start():m.end()] = [True] * (m.end() - m.start())
    wrong = [f"section '{title}': no record, so its figures need a command, a file or a reason each"] if fields[2] == "told" and page.name not in RECORDS else []
    if fields[2].startswith("measured"):
        if fields[2].split()[-1] not in MACHINES:
            wrong.append(f"section '{title}': no such machine: {fields[2]}")
        if fields[3] == "each row":
            wrong += [f"section '{title}': no command, file or page in the last cell of: {row[:80]}" for row in rows(page.whole[begin:end]) if not any(map(there, re.findall(r"`([^`]+)`|\]\(([^)#]+)", row.split(" | ")[-1])))]
        elif fields[3] not in " ".join(page.whole[:end].split()) or not there(fields[3]):
            wrong.append(f"section '{title}': the command '{fields[3]}' does not stand there, or is not in the tree")
    if fields[-1] != digest(figures):
        wrong.append(f"section '{title}': {digest(figures)}, not {fields[-1]}: {f'run {fields[3]} again' if fields[2] != 'told' else 'say why'}, then tests/docs/figures.py --accept {page.name}")
    return wrong, digest(figures)


def check(name, running, accept=None):
    page, wrong = Page(name), []
    mine = [(n, f) for n, f in lines() if f[0] in (name, "*")]
    for _, f in mine:
        if not f[1].startswith("#"):
            wrong += fact(page, f, running)
    for n, f in mine:
        if f[1].startswith("#"):
            complaints, now = section(page, f)
            if accept is not None and now:
                accept[n] = now
            wrong += complaints
    return wrong, page


def unknown(page):
    for title, (begin, end) in page.sections.items():
        for m in page.figures(begin, end):
            a, b = page.whole.rfind("\n", 0, m.start()) + 1, page.whole.find("\n", m.start())
            yield f"'{m.group()}' stands in no list ('{title}'): {page.whole[max(a, m.start() - 60):min(b, m.end() + 60)]}"


def main():
    options = [a for a in sys.argv[1:] if a.startswith("--")]
    every = ["../README.md", "../CONTRIBUTING.md", *sorted(p for p in os.listdir(os.path.join(TOP, "doc")) if p.endswith(".md"))]
    pages = [a for a in sys.argv[1:] if not a.startswith("--")] or [p for p in every if not MADE.search(read(f"doc/{p}"))]
    if "--accept" in options:
        accept = {}
        for name in pages:
            check(name, False, accept)
        text = read("tests/docs/figures.list").split("\n")
        for n, now in accept.items():
            text[n - 1] = text[n - 1].rsplit(" ~ ", 1)[0] + " ~ " + now
        with open(LIST, "w") as f:
            f.write("\n".join(text))
        return 0
    if "--open" not in options:
        print(f"1..{len(pages)}")
    bad = 0
    for k, name in enumerate(pages, 1):
        wrong, page = check(name, "--run" in options)
        wrong += unknown(page)
        if "--open" in options:
            print("\n".join(f"{name}: {w}" for w in wrong))
            continue
        print("".join("# " + w.replace("\n", " ") + "\n" for w in wrong), end="")
        print(f"{'not ' if wrong else ''}ok {k} - the numbers of {name}", flush=True)
        bad += bool(wrong)
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
