# SPDX-License-Identifier: Apache-2.0
"""Attributes with a word or a number that the operator does not have, operands left out that must be given: refused when compiling, in words,
for every row of compiler/onnx/values.def and schema.def that an imported operator has."""
import os, re
import numpy as np
import tccc
from says import T, Wrong, h, model

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "compiler", "onnx")
DOMAINS = {"AI": "", "ML": "ai.onnx.ml", "MS": "com.microsoft", "PREVIEW": "ai.onnx.preview", "TRAIN": "ai.onnx.preview.training", "TF": "ai.onnx.converters.tensorflow"}
X = np.ones((1, 1, 1), np.float32)


def text(name):
    with open(os.path.join(SOURCE, name), encoding="utf-8") as f:
        return f.read()


def imported():
    """The newest opset that an operator has a row for: 0, it is the newest there is."""
    return {(d, op): int(until) for d, op, until in re.findall(r'^\w+\((\w+), "(\w+)", \d+, (\d+),', text("ops.def"), re.M)}


def needed():
    """(domain, operator) -> letters of the newest version."""
    return {(d, op): need.split()[-1].partition(":")[2] for d, op, need in re.findall(r'^SCHEMA\((\w+), "(\w+)", \d+, \d+, "([^"]*)"', text("schema.def"), re.M)}


def message(domain, op, operands, opset=None, **attrs):
    """What compiling a node says; "" for nothing."""
    node = h.make_node(op, operands, ["y"], domain=DOMAINS[domain], **attrs)
    newest = {"AI": 28, "ML": 5}.get(domain, 1)
    m = model([node], {"x": X}, {"y": T.FLOAT}, opset=28 if domain != "AI" else opset or newest, domains=[(DOMAINS[domain], newest)] if domain != "AI" else [])
    try:
        tccc.compile(m.SerializeToString(), threads=1, level=0)
    except tccc.InternalError:
        raise
    except tccc.Error as e:
        return str(e)
    return ""


def expect(words, domain, op, operands, **more):
    said = message(domain, op, operands, **more)
    if words not in said:
        raise Wrong(f"{op} {operands} {more}: '{said}' does not say '{words}'")


def check_words():
    values = text("values.def")
    macros = dict(re.findall(r'^#define (\w+) "([^"]*)"', values, re.M))
    rows = re.findall(r'^WORDS\((\w+), "(\w+)", "(\w+)", (\d+), (\d+), \w+,\s*(?:"([^"]*)"|(\w+))\)', values, re.M)
    need, rows_of = needed(), imported()
    assert len(rows) > 60
    for domain, op, attr, since, until, words, macro in rows:
        if (domain, op) not in rows_of:
            continue
        words = words or macros[macro]
        many = attr in ("activations", "nodes_modes")
        operands = ["x"] * max(1, len(need.get((domain, op), "")))
        for word in (words.split()[0] + "x",):
            expect(f"is '{word}'; it may be {words}", domain, op, operands, opset=int(until) or rows_of[domain, op] or None, **{attr: [word] if many else word})
        said = message(domain, op, operands, opset=int(until) or rows_of[domain, op] or None, **{attr: words.split() if many else words.split()[-1]})
        if "it may be" in said:
            raise Wrong(f"{op} {attr}: {said}")


def check_ranges():
    limits = {"INT64_MAX": None, "INT32_MAX": None, "TCC_MAX_RANK": 12}
    rows = re.findall(r'^RANGE\((\w+), "(\w+)", "(\w+)", (-?\d+), (\w+)\)', text("values.def"), re.M)
    need, lists = needed(), ("strides", "dilations", "kernel_shape")
    assert len(rows) > 60
    for domain, op, attr, least, most in rows:
        most = limits[most] if most in limits else int(most)
        for v in [int(least) - 1] + ([most + 1] if most is not None else []):
            expect(f"attribute '{attr}' is {v}", domain, op, ["x"] * max(1, len(need.get((domain, op), ""))), **{attr: [v] if attr in lists else v})


def check_operands_left_out():
    """A fifth of them; with TCCC_TEST_FULL all."""
    for (domain, op), letters in needed().items():
        if (domain, op) not in imported() or imported()[domain, op]:
            continue
        for k, letter in enumerate(letters):
            if letter == "r" and (os.environ.get("TCCC_TEST_FULL") or sum(map(ord, op)) % 5 == k % 5):
                expect(f"operand {k} is left out", domain, op, ["x" if i != k else "" for i in range(len(letters))])
