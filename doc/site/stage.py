#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the folder that Sphinx reads: the pages with the site's links, contents, the page of each interface.

usage: stage.py SOURCE TO [--python] [--c]      with the page of the Python package; with that of Doxygen's output
Only files that changed are written, so that Sphinx makes only these anew.
"""
import argparse
import os
import re

from pages import LINK, contents, outside_code

PYTHON = """# Python interface

```{eval-rst}
.. automodule:: tccc
   :no-members:

.. autofunction:: tccc.compile
.. autofunction:: tccc.load
.. autofunction:: tccc.train
.. autofunction:: tccc.load_step
.. autofunction:: tccc.world
.. autofunction:: tccc.metrics
.. autofunction:: tccc.versions

.. autoclass:: tccc.Model
   :members:
   :inherited-members:

.. autoclass:: tccc.Step
   :members:

.. autoclass:: tccc.Value
   :exclude-members: __init__, __new__

tccc.errors
-----------

.. automodule:: tccc.errors
   :members:

tccc.dynamo
-----------

.. automodule:: tccc.dynamo

tccc.distributed
----------------

.. automodule:: tccc.distributed

tccc.onnx_backend
-----------------

.. automodule:: tccc.onnx_backend
```
"""

C = """# C and C++ interfaces

Made of the headers' comments.

<ul>
<li><a href="c/tccrt_8h.html">runtime/tccrt.h</a>: running artifacts from C</li>
<li><a href="c/abi_8h.html">runtime/abi.h</a>: what artifacts and programs share: tensors, types, statuses</li>
<li><a href="c/tccrt_8hpp.html">runtime/tccrt.hpp</a>: the same with C++ types</li>
<li><a href="c/tccdata_8h.html">runtime/tccdata.h</a>: pictures as their inputs</li>
<li><a href="c/tccc__custom_8h.html">runtime/tccc_custom.h</a>: operators of one's own</li>
<li><a href="c/tccc_8h.html">compiler/tccc.h</a>: the compiler as a library</li>
<li><a href="c/trace_8h.html">compiler/trace.h</a>: networks as C programs</li>
<li><a href="c/index.html">all of it</a></li>
</ul>
"""


def site_name(path):
    """The page of the site that a source file becomes: None where it is no page."""
    special = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "doc/README.md": "index.md"}
    if path in special:
        return special[path]
    return os.path.basename(path) if os.path.dirname(path) == "doc" and path.endswith(".md") else None


def translate(text, path):
    """Links of a page of the repository as links of the site; to files that are no pages: the text alone."""
    def link(match):
        label, target = match.group(1), match.group(2)
        if re.match(r"[a-z]+:", target) or target.startswith("#"):
            return match.group(0)
        file, _, anchor = target.partition("#")
        file = os.path.normpath(os.path.join(os.path.dirname(path), file))
        page = site_name(file)
        if page:
            return f"[{label}]({page}{'#' + anchor if anchor else ''})"
        return match.group(0) if file.endswith(".svg") else label
    return outside_code(text, lambda line: LINK.sub(link, line))


def write(path, text):
    if os.path.exists(path):
        with open(path, encoding="utf-8") as f:
            if f.read() == text:
                return
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


def toctree(caption, pages):
    return f"```{{toctree}}\n:hidden:\n:caption: {caption}\n\n" + "".join(f"{p[:-3]}\n" for p in pages) + "```\n\n"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("source")
    parser.add_argument("to")
    parser.add_argument("--python", action="store_true")
    parser.add_argument("--c", action="store_true")
    a = parser.parse_args()
    os.makedirs(a.to, exist_ok=True)
    files = ["CONTRIBUTING.md"] + sorted("doc/" + f for f in os.listdir(os.path.join(a.source, "doc")) if f.endswith(".md") and f != "README.md")
    made = {}
    for file in ["README.md", "doc/README.md"] + files:
        with open(os.path.join(a.source, file), encoding="utf-8") as f:
            made[file] = translate(f.read(), file)
    index = made.pop("README.md").rstrip() + "\n\n" + re.sub(r"^#(#*) ", r"##\1 ", made.pop("doc/README.md"), flags=re.M).rstrip() + "\n\n"
    for caption, pages in contents(os.path.join(a.source, "doc/README.md")):
        index += toctree(caption, pages)
    interfaces = (["api-python.md"] if a.python else []) + (["api-c.md"] if a.c else [])
    index += toctree("Interfaces", interfaces) if interfaces else ""
    index += toctree("Development", ["contributing.md"])
    pages = {"index.md": index, **{site_name(f): text for f, text in made.items()}}
    if a.python:
        pages["api-python.md"] = PYTHON
    if a.c:
        pages["api-c.md"] = C
    for old in set(f for f in os.listdir(a.to) if f.endswith(".md")) - set(pages):
        os.unlink(os.path.join(a.to, old))
    for name, text in pages.items():
        write(os.path.join(a.to, name), text)
    for name in os.listdir(os.path.join(a.source, "doc")):
        if name.endswith(".svg"):
            with open(os.path.join(a.source, "doc", name), encoding="utf-8") as f:
                write(os.path.join(a.to, name), f.read())


if __name__ == "__main__":
    main()
