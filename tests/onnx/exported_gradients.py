#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Gradients of exported models beside PyTorch's stored ones. Needs NumPy and onnx.

usage: exported_gradients.py BUILD DIR

For each DIR/NAME/training (written by exports.py --gradients, or ../pt2/modules.py): a step of plain SGD at learning rate 1 is compiled and run; what it
took from a parameter is the gradient. Prints "ok NAME" and "not ok NAME: WHY".
"""
import glob, json, os, subprocess, sys, tempfile

import numpy as np
import onnx
from onnx import numpy_helper

from checkpoint_file import read_checkpoint

LEVELS = ("-O2", "-O0 --march=x86-64-v3")


def model_of(case):
    return next(case + name for name in ("/model.onnx", "/model.pt2") if os.path.exists(case + name))


def weights_of(case):
    if os.path.exists(case + "/before.npz"):
        return np.load(case + "/before.npz")
    return {i.name: numpy_helper.to_array(i) for i in onnx.load(model_of(case)).graph.initializer}


def buffers_of(case):
    """What the step must leave in buffers, where the case says it."""
    return np.load(case + "/buffers.npz") if os.path.exists(case + "/buffers.npz") else {}


def gradients_of(build, case, level, folder):
    """What one step of the case takes from its parameters, and its loss. Raises RuntimeError with what a command said."""
    step = folder + "/step.so"
    data = case + "/data.npz"
    rows = len(np.load(data)["target"])
    train = [build + "/tccc-train", step, "--data", data, f"--batch-size={rows}", "--no-shuffle", "--json", "--seed=1"]
    commands = (
        [build + "/tccc", "-q", "--train", "--loss=mse", "--optimizer=sgd:lr=1", *level.split(), model_of(case), "-o", step],
        [*train, "--steps=1", "--checkpoint", folder + "/after"],
    )
    for command in commands:
        r = subprocess.run(command, capture_output=True, text=True, timeout=120)
        if r.returncode:
            raise RuntimeError(f"{os.path.basename(command[0])}: {(r.stderr or r.stdout).strip().splitlines()[0]}")
    loss = next(json.loads(line)["loss"] for line in r.stdout.splitlines() if '"loss"' in line)
    return weights_of(case), read_checkpoint(folder + "/after/last.safetensors", "F32"), loss


def differences(want, buffers, before, after, loss):
    for name in buffers:
        if name not in after or not np.allclose(after[name], buffers[name], rtol=1e-4, atol=1e-5):
            yield f"buffer {name} is not what it should become"
    if abs(loss - want["loss"]) > 1e-5 * abs(want["loss"]):
        yield f"loss {loss}, expected {want['loss']}"
    # A bias in front of a batch norm has no gradient but rounding: what counts is how large the others are.
    floor = 1e-5 * max(np.linalg.norm(want[name]) for name in want.files if name != "loss")
    for name in want.files:
        if name == "loss":
            continue
        if name not in after or name not in before:
            yield f"{name} is not trained"
            continue
        g = want[name]
        error = np.linalg.norm(before[name] - after[name] - g)
        if not error <= 2e-4 * np.linalg.norm(g) + 1e-6 * np.linalg.norm(before[name]) + floor:
            yield f"gradient of {name} differs by {error:.3g}, its norm is {np.linalg.norm(g):.3g}"


def main():
    build, folder = sys.argv[1:]
    cases = sorted(glob.glob(folder + "/*/training"))
    for case in cases:
        name = case.split("/")[-2]
        want = np.load(case + "/gradients.npz")
        for level in LEVELS:
            with tempfile.TemporaryDirectory() as scratch:
                try:
                    why = "; ".join(differences(want, buffers_of(case), *gradients_of(build, case, level, scratch)))
                except (RuntimeError, subprocess.TimeoutExpired) as e:
                    why = str(e)
            print(f"{'not ok' if why else 'ok'} {name} gradients {level}{': ' + why if why else ''}", flush=True)
    sys.exit(not cases)


if __name__ == "__main__":
    main()
