#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks every link that stays within: of the pages of Markdown (their files and anchors, and that doc/README.md names each page once), and of a site that was made of
them.

usage: linkcheck.py SOURCE [HTML]
Prints a line for what is wrong; exit status 1 then.
"""
import os
import sys
import urllib.parse

from pages import anchors, contents, html_page, links, walk


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def pages_of(source):
    doc = os.path.join(source, "doc")
    return [os.path.join(source, f) for f in ("README.md", "CONTRIBUTING.md")] + [os.path.join(doc, f) for f in sorted(os.listdir(doc)) if f.endswith(".md")]


def check_pages(source):
    wrong, names, checked = [], {}, 0
    pages = pages_of(source)
    for page in pages:
        for line, target in links(read(page)):
            checked += 1
            if target.startswith(("http:", "https:", "mailto:")):
                continue
            file, _, anchor = target.partition("#")
            path = os.path.normpath(os.path.join(os.path.dirname(page), file)) if file else page
            where = f"{os.path.relpath(page, source)}:{line}"
            if not os.path.exists(path):
                wrong.append(f"{where}: there is no {target}")
            elif anchor:
                if path not in names:
                    names[path] = anchors(read(path))
                if anchor not in names[path]:
                    wrong.append(f"{where}: {file or os.path.basename(page)} has no heading #{anchor}")
    listed = [p for _, group in contents(os.path.join(source, "doc", "README.md")) for p in group]
    there = [f for f in os.listdir(os.path.join(source, "doc")) if f.endswith(".md") and f != "README.md"]
    wrong += [f"doc/README.md: {p} is listed {listed.count(p)} times" for p in sorted(set(there) | set(listed)) if listed.count(p) != 1]
    return wrong, len(pages), checked


def check_site(folder):
    wrong, names, checked, pages = [], {}, 0, list(walk(folder, ".html"))

    def page(path):
        if path not in names:
            names[path] = html_page(path)
        return names[path]
    for path in pages:
        for target in page(path)[0]:
            if urllib.parse.urlsplit(target).scheme or target.startswith("//"):
                continue
            file, _, anchor = urllib.parse.unquote(target).partition("#")
            file = file.partition("?")[0]
            checked += 1
            to = os.path.normpath(os.path.join(os.path.dirname(path), file)) if file else path
            to = os.path.join(to, "index.html") if os.path.isdir(to) else to
            if not os.path.exists(to):
                wrong.append(f"{os.path.relpath(path, folder)}: there is no {target}")
            elif anchor and to.endswith(".html") and anchor not in page(to)[1] and anchor != "top":
                wrong.append(f"{os.path.relpath(path, folder)}: {target}: there is no such anchor")
    return wrong, len(pages), checked


def main():
    wrong = []
    for what, check, place in [("pages", check_pages, sys.argv[1])] + ([("pages of the site", check_site, sys.argv[2])] if len(sys.argv) > 2 else []):
        found, pages, checked = check(place)
        print(f"{pages} {what}, {checked} links, {len(found)} wrong")
        wrong += found
    for text in wrong:
        print(text)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
