# SPDX-License-Identifier: Apache-2.0
"""Inputs of a program of tests/run, as its comments say them, for tccc-run: writes DIR/NAME.npy and prints the options. Called by arm.tap.

usage: values.py PROGRAM.tcir DIR        of one case, of dtypes that NumPy has, whose values are written out
"""
import re, sys
import numpy as np

KINDS = {"f32": "f4", "f64": "f8", "f16": "f2", "bool": "?", **{f"{k}{8 * n}": f"{k}{n}" for k in "iu" for n in (1, 2, 4, 8)}}


def options(path, to):
    text = open(path).read().replace("\n; +", "")
    rows = re.findall(r"^; IN: (\w+)\[([\d,]*)\] (.*)$", text, re.M)
    names = re.findall(r"%(\w+):", re.search(r"^func @main\((.*?)\) ->", text, re.M | re.S)[1])
    assert rows and len(rows) == len(names)
    for name, (kind, dims, values) in zip(names, rows):
        dims = [int(d) for d in dims.split(",") if d]
        flat = [(float if kind[0] == "f" else int)({"true": 1, "false": 0}.get(v, v)) for v in values.split()]
        np.save(f"{to}/{name}.npy", np.broadcast_to(np.array(flat, KINDS[kind]), [int(np.prod(dims))]).reshape(dims))
        print(f"--input {name}={to}/{name}.npy", end=" ")


if __name__ == "__main__":
    options(*sys.argv[1:])
