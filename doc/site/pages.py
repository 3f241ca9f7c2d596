# SPDX-License-Identifier: Apache-2.0
"""What pages of Markdown hold: links, anchors of headings as GitHub makes them, the lists of doc/README.md. The standard library's Python alone."""
import html.parser
import os
import re

LINK = re.compile(r"(?<!\!)\[((?:[^\[\]`]|`[^`]*`)*)\]\(([^()\s]+)\)")
IMAGE = re.compile(r"!\[[^\]]*\]\(([^()\s]+)\)")
HEADING = re.compile(r"^(#{1,6}) +(.*?) *#*$")


def outside_code(text, change):
    """The text with each line outside of fenced blocks changed."""
    lines, inside = text.split("\n"), False
    for i, line in enumerate(lines):
        if line.lstrip().startswith("```"):
            inside = not inside
        elif not inside:
            lines[i] = change(line)
    return "\n".join(lines)


def links(text):
    """(line number, target) of each link and picture outside of code."""
    found, number = [], [0]

    fences = [i for i, line in enumerate(text.split("\n")) if line.lstrip().startswith("```")]
    code = {i for a, b in zip(fences[::2], fences[1::2]) for i in range(a, b + 1)}
    for i, line in enumerate(text.split("\n")):
        if i not in code:
            plain = re.sub(r"`[^`]*`", lambda m: "`" + "x" * (len(m.group(0)) - 2) + "`", line)
            found += [(i + 1, m.group(2)) for m in LINK.finditer(plain)] + [(i + 1, m.group(1)) for m in IMAGE.finditer(plain)]
    return found


def anchors(text):
    """The anchors of a page's headings: lower case, letters, digits, - and _, blanks as -; the second of a name has -1."""
    seen, names = {}, set()

    def heading(line):
        m = HEADING.match(line)
        if m:
            title = LINK.sub(r"\1", m.group(2)).replace("`", "")
            slug = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
            n = seen.get(slug, 0)
            seen[slug] = n + 1
            names.add(slug if n == 0 else f"{slug}-{n}")
        return line
    outside_code(text, heading)
    return names


def contents(path):
    """doc/README.md: [(heading, [page, ...]), ...]."""
    groups = []
    with open(path, encoding="utf-8") as f:
        for line in f:
            if line.startswith("## "):
                groups.append((line[3:].strip(), []))
            m = re.match(r"\* \[[^\]]*\]\(([^)]*)\)", line)
            if m and groups:
                groups[-1][1].append(m.group(1))
    return groups


class _Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.links, self.names = [], set()

    def handle_starttag(self, tag, attributes):
        for key, value in attributes:
            if key in ("id", "name") and value:
                self.names.add(value)
            if key in ("href", "src") and value:
                self.links.append(value)


def html_page(path):
    """(links, anchors) of a file of HTML."""
    page = _Page()
    with open(path, encoding="utf-8", errors="replace") as f:
        page.feed(f.read())
    return page.links, page.names


def walk(folder, suffix):
    for base, _, files in os.walk(folder):
        for name in sorted(files):
            if name.endswith(suffix):
                yield os.path.join(base, name)
