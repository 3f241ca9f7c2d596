# SPDX-License-Identifier: Apache-2.0
"""What documents say beside what sources hold. usage: site.py messages|headers|docstrings SOURCE

messages     each message of doc/troubleshooting.md, a code span in a table's first column where … stands for anything, is one that a source can give
headers      each function of the public headers stands under a comment, its own or its group's
docstrings   each public function, class and method of tools/python/tccc has a docstring; methods of a class that implements another package's are documented there
"""
import ast
import os
import re
import sys

FORMAT = re.compile(r"%(?:%|[-+ #0]*(?:\*|\d+)?(?:\.(?:\*|\d+))?(?:hh|h|ll|l|z|j|t)?[a-zA-Z])")


def files(source, folders, suffixes):
    for folder in folders:
        for base, _, names in os.walk(os.path.join(source, folder)):
            for name in sorted(names):
                if name.endswith(suffixes):
                    with open(os.path.join(base, name), encoding="utf-8") as f:
                        yield os.path.join(base, name), f.read()


def literals(source):
    """Texts of C's and Python's literals, adjacent ones as one, where … stands for what is filled in."""
    for path, text in files(source, ["runtime", "ir", "passes", "compiler", "tools"], (".c", ".h", ".def")):
        text = re.sub(r'"\s*(?:PRI[a-z]\w+\s*)?"', lambda m: "…" if "PRI" in m.group(0) else "", text)
        for m in re.finditer(r'"((?:[^"\\\n]|\\.)*)"', text):
            plain = re.sub(r"\\(.)", lambda e: {"n": "\n"}.get(e.group(1), e.group(1)), m.group(1))
            yield FORMAT.sub(lambda f: "%" if f.group(0) == "%%" else "…", plain)
    for path, text in files(source, ["tools/python"], (".py",)):
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value
            elif isinstance(node, ast.JoinedStr):
                yield "".join(p.value if isinstance(p, ast.Constant) else "…" for p in node.values)


def messages(source):
    with open(os.path.join(source, "doc", "troubleshooting.md"), encoding="utf-8") as f:
        given = [m.group(1).replace("``", "`") for m in (re.match(r"\| `(.*?)(?<!`)`(?!`) \|", line) for line in f) if m]
    simple = {re.sub("…+", "…", t) for t in literals(source)}
    wrong = []
    for text in given:
        # Placeholders of a source may stand for nothing, and a message may be the beginning of a longer one where it ends in one.
        parts = [re.escape(p.strip()) for p in text.split("…") if p.strip()]
        fixed = sum(len(p) for p in parts)
        pattern = re.compile(r"(?:…|\s)*".join(parts))
        if fixed < 12 or not any(pattern.search(t) for t in simple):
            wrong.append(f"no source says: {text}")
    print(f"{len(given)} messages")
    return wrong if len(given) >= 40 else [f"only {len(given)} messages are found"]


HEADERS = ["runtime/tccrt.h", "runtime/tccdata.h", "compiler/tccc.h", "compiler/trace.h", "runtime/tccc_custom.h"]


def headers(source):
    """A declaration is documented by a comment on its line, or by one before it that no blank line parts from it (a group's)."""
    wrong, count = [], 0
    for name in HEADERS:
        with open(os.path.join(source, name), encoding="utf-8") as f:
            lines = f.read().split("\n")
        comment = documented = False
        for number, line in enumerate(lines):
            if not line.strip():
                documented = False
            if comment or line.lstrip().startswith("/*"):
                documented = True
            comment = (comment or "/*" in line) and "*/" not in line[line.rfind("/*") if "/*" in line else 0:]
            m = re.match(r"(?:const )?(?:struct |enum |unsigned )?\w+ \**(\w+)\(.*[,;)]", line)
            if m and not line.startswith(("#", " ", "static", "typedef", "return")):
                count += 1
                own = "/*" in line or any("/*" in x for x in lines[number:number + 3] if x.startswith((" ", line[:5])))
                if not documented and not own and m.group(1).startswith(("tccrt_", "tccc_", "trace_")):
                    wrong.append(f"{name}:{number + 1}: {m.group(1)} has no comment")
    print(f"{count} functions")
    return wrong if count > 150 else wrong + [f"only {count} functions are found"]


def docstrings(source):
    wrong, count = [], 0
    for path, text in files(source, ["tools/python/tccc"], (".py",)):
        tree, public = ast.parse(text), not os.path.basename(path).startswith("_") or os.path.basename(path) == "__init__.py"
        if not ast.get_docstring(tree):
            wrong.append(f"{path}: no docstring")
        exported = {"compile", "load", "train", "load_step", "world", "metrics", "versions", "Model", "Step", "Value"}
        for node in tree.body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.name.startswith("_") and (public or node.name in exported):
                members = [n for n in node.body if isinstance(n, ast.FunctionDef) and not n.name.startswith("_") and not any(
                    isinstance(d, ast.Attribute) and d.attr == "setter" for d in n.decorator_list)] if isinstance(node, ast.ClassDef) and not any(isinstance(b, ast.Attribute) for b in node.bases) else []
                for n in [node] + members:
                    count += 1
                    if not ast.get_docstring(n):
                        wrong.append(f"{os.path.basename(path)}: {n.name} has no docstring")
    print(f"{count} functions and classes")
    return wrong if count > 25 else wrong + [f"only {count} are found"]


if __name__ == "__main__":
    found = {"messages": messages, "headers": headers, "docstrings": docstrings}[sys.argv[1]](sys.argv[2])
    print("\n".join(found))
    sys.exit(bool(found))
