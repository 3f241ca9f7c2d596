#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Training of models whose graph depends on the sizes of their inputs: each step is one of several shape versions. Needs NumPy and onnx.

usage: versions.py BUILD      prints TAP

The oracle is NumPy: a network of one product, whose forward pass and gradient are written out for each case of the condition. Plain SGD runs over
batches of sizes that need different versions in turns; parameters and losses are compared at the end.
"""
import json, os, subprocess, sys, tempfile

import numpy as np
from onnx import TensorProto as T, helper as h, numpy_helper as nh, save

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "onnx"))
from checkpoint_file import read_checkpoint  # noqa: E402

RATE = 0.02


def weights():
    r = np.random.default_rng(3)
    return {"w": r.standard_normal((4, 4)).astype(np.float32), "v": r.standard_normal((4, 2)).astype(np.float32)}


def write(path, nodes, inputs, outputs):
    graph = h.make_graph(nodes, "g", [h.make_tensor_value_info(n, T.FLOAT, d) for n, d in inputs.items()],
                         [h.make_tensor_value_info(n, T.FLOAT, d) for n, d in outputs.items()],
                         [nh.from_array(a, n) for n, a in weights().items()])
    m = h.make_model(graph, opset_imports=[h.make_opsetid("", 17)])
    m.ir_version = 8
    save(m, path)


def size_is_one(out):
    return [h.make_node("Shape", ["x"], [out + "s"], start=0, end=1), h.make_node("Constant", [], [out + "k"], value=nh.from_array(np.array([1]))),
            h.make_node("Equal", [out + "s", out + "k"], [out + "e"]), h.make_node("Squeeze", [out + "e"], [out])]


def branch(nodes, out):
    return h.make_graph(nodes, "b", [], [h.make_tensor_value_info(out, T.FLOAT, None)])


def constant(name, value):
    return h.make_node("Constant", [], [name], value=nh.from_array(np.array(value)))


def squeezed(path):
    """One row loses its axis and comes back doubled: If(x.shape[0] == 1, Squeeze, Identity)."""
    one = branch([constant("a", [0]), h.make_node("Squeeze", ["p", "a"], ["q"]), h.make_node("Add", ["q", "q"], ["o"])], "o")
    more = branch([h.make_node("Identity", ["p"], ["i"])], "i")
    write(path, size_is_one("c") + [h.make_node("MatMul", ["x", "w"], ["p"]), h.make_node("If", ["c"], ["r"], then_branch=one, else_branch=more),
                                    constant("shape", [-1, 4]), h.make_node("Reshape", ["r", "shape"], ["f"]), h.make_node("MatMul", ["f", "v"], ["y"])],
          {"x": ["N", 4]}, {"y": ["N", 2]})


def squeezed_step(p, x, t):
    k = 2.0 if len(x) == 1 else 1.0
    f = k * (x @ p["w"])
    e = f @ p["v"] - t
    d = 2 * e / e.size
    return (e ** 2).mean(), {"w": k * (x.T @ (d @ p["v"].T)), "v": f.T @ d}


def unreached(path):
    """`w` is used for one row only: elsewhere its gradient is 0. The branches differ in rank inside, so that they are versions."""
    one = branch([h.make_node("MatMul", ["x", "w"], ["p"]), constant("a", [0]), h.make_node("Squeeze", ["p", "a"], ["o"])], "o")
    more = branch([h.make_node("Identity", ["x"], ["i"])], "i")
    write(path, size_is_one("c") + [h.make_node("If", ["c"], ["r"], then_branch=one, else_branch=more),
                                    constant("shape", [-1, 4]), h.make_node("Reshape", ["r", "shape"], ["f"]), h.make_node("MatMul", ["f", "v"], ["y"])],
          {"x": ["N", 4]}, {"y": ["N", 2]})


def unreached_step(p, x, t):
    f = x @ p["w"] if len(x) == 1 else x
    e = f @ p["v"] - t
    d = 2 * e / e.size
    return (e ** 2).mean(), {"w": x.T @ (d @ p["v"].T) if len(x) == 1 else 0 * p["w"], "v": f.T @ d}


# name, model, step, options of tccc, what --report says
CASES = (("a condition on the batch", squeezed, squeezed_step, (), ("version of 'step' for N = 1", "version of 'step' for N != 1", "version of 'eval' for N = 1")),
         ("a parameter of one version", unreached, unreached_step, (), ("version of 'step' for N = 1",)),
         ("a condition, and sizes by --dim", squeezed, squeezed_step, ("--dim=N=1|3",), ("version of 'step' for N = 1", "version of 'step' for N = 3")),
         ("gradients added up", squeezed, squeezed_step, ("--accumulate=2",), ("version of 'step' for N = 1",)),
         ("gradients added up, a parameter of one version", unreached, unreached_step, ("--accumulate=2",), ("version of 'grad' for N = 1",)))


def run(*command):
    r = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if r.returncode:
        raise AssertionError(f"{os.path.basename(command[0])}: status {r.returncode}: {r.stderr.strip()}")
    return r.stdout + r.stderr


def check(build, folder, model, step, options, said):
    x = np.random.default_rng(5).standard_normal((7, 4)).astype(np.float32)
    target = np.ascontiguousarray(x[:, :2] * 0.5 + 1)
    np.savez(folder + "/data.npz", x=x, target=target)
    model(folder + "/model.onnx")
    report = run(build + "/tccc", "--train", "--verify", "--report", "--loss=mse", f"--optimizer=sgd:lr={RATE}", *options, folder + "/model.onnx", "-o", folder + "/step.so")
    for text in said:
        assert text in report, f"--report does not say {text}: {report}"
    # Batches of 3, 3 and 1 rows, twice.
    log = run(build + "/tccc-train", folder + "/step.so", "--data", folder + "/data.npz", "--batch-size=3", "--epochs=2", "--no-shuffle", "--json",
              "--checkpoint", folder + "/saved")
    got = [json.loads(line)["loss"] for line in log.splitlines() if '"loss"' in line and '"step"' in line]
    p = {k: v.astype(np.float64) for k, v in weights().items()}
    sums, every, want = None, 2 if "--accumulate=2" in options else 1, []
    for k in range(6):
        rows = slice(3 * (k % 3), min(3 * (k % 3) + 3, 7))
        loss, grads = step(p, x[rows].astype(np.float64), target[rows])
        want.append(loss)
        sums = {n: g + (sums[n] if sums else 0) for n, g in grads.items()}
        if (k + 1) % every == 0:
            p = {n: v - RATE * sums[n] / every for n, v in p.items()}
            sums = None
    assert len(got) == 6 and np.allclose(got, want, rtol=1e-5), f"losses {got}, not {want}"
    after = read_checkpoint(folder + "/saved/last.safetensors", "F32")
    for name, v in p.items():
        assert np.abs(after[name] - v).max() < 1e-5, f"{name} is off by {np.abs(after[name] - v).max()}"


def main():
    build = sys.argv[1]
    print(f"1..{len(CASES)}")
    for k, (name, *case) in enumerate(CASES, 1):
        with tempfile.TemporaryDirectory() as folder:
            try:
                check(build, folder, *case)
                print(f"ok {k} - {name}", flush=True)
            except AssertionError as e:
                print(f"# {e}".replace("\n", "\n# ") + f"\nnot ok {k} - {name}", flush=True)


if __name__ == "__main__":
    main()
