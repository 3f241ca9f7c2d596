# SPDX-License-Identifier: Apache-2.0
"""Sphinx's configuration. SITE_VERSION, SITE_PACKAGE (the folder that holds the built Python package) and SITE_C (Doxygen's HTML) come from doc/Makefile.inc."""
import os
import sys

project = "tccc"
version = release = os.environ.get("SITE_VERSION", "")
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
master_doc = "index"
html_theme = "furo"
html_title = f"tccc {version}".strip()
html_copy_source = False
smartquotes = False
html_show_sphinx = False
pygments_style = "friendly"

# Pages are GitHub's Markdown: anchors are its headings', a fenced block may be in a language that Pygments has no lexer of.
myst_heading_anchors = 4
suppress_warnings = ["misc.highlighting_failure"]

if os.environ.get("SITE_PACKAGE"):
    sys.path.insert(0, os.environ["SITE_PACKAGE"])
    extensions.append("sphinx.ext.autodoc")
    autodoc_member_order = "bysource"
    autodoc_typehints = "none"
    autodoc_mock_imports = ["torch", "onnx"]
if os.environ.get("SITE_C"):
    html_extra_path = [os.environ["SITE_C"]]

# External links (make linkcheck EXTERNAL=1).
linkcheck_timeout = 20
linkcheck_retries = 2


def plain_text(app, what, name, obj, options, lines):
    """Docstrings are plain text: what is indented (or begins so) is a block of code, and marks of reStructuredText stand for themselves."""
    out, code = [], False
    for line in lines:
        indented = line.startswith("    ")
        if indented and not code:
            out += ["", "::", ""]
        elif code and line and not indented:
            out.append("")
        code = indented or (code and not line)
        out.append(line if code else line.replace("\\", "\\\\").replace("*", "\\*").replace("|", "\\|").replace("_ ", "\\_ "))
    lines[:] = out


def setup(app):
    if "sphinx.ext.autodoc" in extensions:
        app.connect("autodoc-process-docstring", plain_text)
