#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A model that is refused for want of a size says which --dim says it: who follows the advice gets what all sizes together give.

usage: advice.py TCCC CASE...

A CASE is a folder with model.onnx and test_data_set_0 (cases.py: the form `open`). Where `tccc --info` refuses the model, what its message asks for is given with
the case's own sizes, again and again; in the end the model must be read, or refused as it is with all sizes given. A TAP line for each that was refused.
"""
import os, re, subprocess, sys
import onnx
from onnx import numpy_helper as nh


def sizes_of(case):
    """The name of each dim of the inputs -> its size in the case's own data."""
    model, sizes = onnx.load(os.path.join(case, "model.onnx"), load_external_data=False), {}
    for k, i in enumerate(model.graph.input):
        path = os.path.join(case, "test_data_set_0", f"input_{k}.pb")
        if not i.type.HasField("tensor_type") or not os.path.exists(path):
            continue
        value = onnx.TensorProto()
        with open(path, "rb") as f:
            value.ParseFromString(f.read())
        shape = nh.to_array(value).shape
        for axis, d in enumerate(i.type.tensor_type.shape.dim):
            if d.dim_param and axis < len(shape):
                sizes[d.dim_param] = shape[axis]
    return sizes


def refusal(tccc, case, sizes):
    flags = [f"--dim={name}={n}" for name, n in sizes.items()]
    run = subprocess.run([tccc, "--info", os.path.join(case, "model.onnx"), *flags], capture_output=True, text=True, timeout=60)
    return run.stderr if run.returncode else ""


def follow(tccc, case):
    """What is wrong with the advice; "": nothing. None: the model was not refused."""
    sizes, said, given = sizes_of(case), refusal(tccc, case, {}), {}
    if not said:
        return None
    for _ in range(8):
        asked = [n for n in re.findall(r"--dim (\S+)=N", said) if n in sizes and n not in given]
        if not said or not asked:
            break
        given.update((n, sizes[n]) for n in asked)
        said = refusal(tccc, case, given)
    if said and said != refusal(tccc, case, sizes):
        return f"no way out of: {said.strip()}"
    return ""


def main():
    tccc, cases = sys.argv[1], sys.argv[2:]
    n = 0
    for case in cases:
        wrong = follow(tccc, case)
        if wrong is None:
            continue
        n += 1
        print(f"{'not ok' if wrong else 'ok'} {n} - advice: {os.path.basename(case)}" + (f": {wrong}".replace("\n", " ") if wrong else ""), flush=True)
    print(f"1..{n}")


main()
