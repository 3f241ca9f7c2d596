# SPDX-License-Identifier: Apache-2.0
"""Tree ensembles of many shapes, ONNX Runtime / tccc: TreeEnsemble (ml 5) with random splits and rows, in float and in double.

usage: trees.py BUILD [--threads N] [--march M] [--only TEXT]

In one process, by turns, medians of seven, each once the other's threads have gone to sleep. ONNX Runtime's walk has branches, which a processor learns by
heart where the same rows come again and again: each turn takes the next of eight sets of rows, single rows of 64.
"""
import argparse
import os
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FEATURES, TURNS = 30, 7
SHAPES = [(10, 31, False), (100, 31, False), (500, 31, False), (100, 8, True), (100, 64, True), (100, 1000, False), (1000, 255, False)]
ROWS = [1, 64, 1000, 20000]


def grow(a, rng, leaves, balanced):
    """Puts a tree of `leaves` leaves; its node's number and whether that is a leaf's."""
    if leaves == 1:
        a["target"].append(0), a["weight"].append(rng.normal())
        return len(a["weight"]) - 1, 1
    i = len(a["feature"])
    for k, v in (("feature", int(rng.integers(FEATURES))), ("split", rng.normal()), ("yes", 0), ("no", 0), ("yes_leaf", 0), ("no_leaf", 0)):
        a[k].append(v)
    n = leaves // 2 if balanced else int(rng.integers(1, leaves))
    a["yes"][i], a["yes_leaf"][i] = grow(a, rng, n, balanced)
    a["no"][i], a["no_leaf"][i] = grow(a, rng, leaves - n, balanced)
    return i, 0


def write(path, trees, leaves, balanced, dtype):
    rng = np.random.default_rng(0)
    a = {k: [] for k in ("feature", "split", "yes", "no", "yes_leaf", "no_leaf", "target", "weight")}
    roots = [grow(a, rng, leaves, balanced)[0] for _ in range(trees)]
    node = helper.make_node(
        "TreeEnsemble", ["x"], ["y"], domain="ai.onnx.ml", n_targets=1, aggregate_function=1, tree_roots=roots, nodes_featureids=a["feature"],
        nodes_splits=numpy_helper.from_array(np.array(a["split"], dtype)), nodes_modes=numpy_helper.from_array(np.zeros(len(a["split"]), np.uint8)),
        nodes_truenodeids=a["yes"], nodes_falsenodeids=a["no"], nodes_trueleafs=a["yes_leaf"], nodes_falseleafs=a["no_leaf"],
        leaf_targetids=a["target"], leaf_weights=numpy_helper.from_array(np.array(a["weight"], dtype)))
    kind = TensorProto.DOUBLE if dtype == np.float64 else TensorProto.FLOAT
    graph = helper.make_graph([node], "trees", [helper.make_tensor_value_info("x", kind, ["N", FEATURES])], [helper.make_tensor_value_info("y", kind, ["N", 1])])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20), helper.make_opsetid("ai.onnx.ml", 5)], ir_version=10), path)


def turn(call, sets, n):
    time.sleep(0.02)
    for x in sets:
        call(x)
    begin = time.perf_counter()
    for i in range(n):
        call(sets[i % len(sets)])
    return (time.perf_counter() - begin) / n


def compare(theirs, ours, rows, dtype):
    """Microseconds of a call of each."""
    sets = [np.random.default_rng(i).normal(size=(rows, FEATURES)).astype(dtype) for i in range(64 if rows == 1 else 8)]
    if not np.allclose(theirs(sets[0]).ravel(), ours(sets[0]).ravel(), rtol=1e-4, atol=1e-4):
        sys.exit("error: results differ")
    n = len(sets) * max(1, int(0.02 / turn(theirs, sets, len(sets)) / len(sets)))
    times = np.array([(turn(theirs, sets, n), turn(ours, sets, n)) for _ in range(TURNS)])
    return np.median(times, 0) * 1e6


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    p.add_argument("build")
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--march", default="native")
    p.add_argument("--only", default="")
    o = p.parse_args()
    sys.path.insert(0, os.path.join(o.build, "python"))
    import onnxruntime
    import tccc
    options, ratios = onnxruntime.SessionOptions(), []
    options.intra_op_num_threads = o.threads
    print("| trees x leaves | type |" + "".join(f" {r} rows |" for r in ROWS) + "\n| --- | --- |" + " --- |" * len(ROWS))
    with tempfile.TemporaryDirectory() as tmp:
        for dtype in (np.float64, np.float32):
            for trees, leaves, balanced in SHAPES:
                name = f"{trees} x {leaves}{' balanced' if balanced else ''} | {np.dtype(dtype).name}"
                if o.only not in name:
                    continue
                path = f"{tmp}/m{len(ratios)}"
                write(path + ".onnx", trees, leaves, balanced, dtype)
                subprocess.run([f"{o.build}/tccc", "-q", f"--march={o.march}", path + ".onnx", "-o", path + ".so"], check=True)
                session = onnxruntime.InferenceSession(path + ".onnx", options, providers=["CPUExecutionProvider"])
                model = tccc.load(path + ".so", threads=o.threads)
                cells = [compare(lambda x: session.run(None, {"x": x})[0], model, rows, dtype) for rows in ROWS]
                ratios.append([a / b for a, b in cells])
                print(f"| {name} |" + "".join(f" {a:.0f} / {b:.0f} = {a / b:.2f} |" for a, b in cells), flush=True)
    print("| geometric mean | |" + "".join(f" {v:.2f} |" for v in np.exp(np.log(ratios).mean(0))))


if __name__ == "__main__":
    main()
