# SPDX-License-Identifier: Apache-2.0
"""Random tree ensembles, by ONNX's text: TreeEnsemble (ml 5), TreeEnsembleRegressor and TreeEnsembleClassifier (ml 3), with all comparisons, splits that
are no floats, sets, NaN, infinities, aggregates and targets; what they give is compared with a walk from root to leaf.

usage: trees.py BUILD FOLDER [COUNT]
"""
import os
import subprocess
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

LEQ, LT, GTE, GT, EQ, NEQ, MEMBER = range(7)
NAMES = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"]
HOW = ["AVERAGE", "SUM", "MIN", "MAX"]
GRID = np.array([-np.inf, -2.5, -1, -0.0, 0.0, 0.1, 0.3, 1 / 3, 1, 2.5, 16777217, 1e300, np.inf])
SPLITS = np.append(GRID, np.nan)


class Inner:
    def __init__(self, rng, features, modes, missing):
        self.feature, self.mode = int(rng.integers(features)), int(rng.choice(modes))
        self.split = float(rng.choice(SPLITS) if rng.random() < 0.5 else np.round(rng.normal(), 2))
        self.members = [float(v) for v in rng.choice(GRID, int(rng.integers(1, 5)))]
        self.nan_yes = bool(missing and rng.random() < 0.5)

    def holds(self, x):
        if np.isnan(x) and self.nan_yes:
            return True
        s = self.split
        return [x <= s, x < s, x >= s, x > s, x == s, x != s, x in self.members][self.mode]


class Leaf:
    def __init__(self, rng, targets, several):
        n = int(rng.integers(0, 4)) if several else 1
        self.shares = [(int(rng.integers(targets)), float(np.round(rng.normal(), 3))) for _ in range(n)]


def grow(rng, leaves, inner, leaf):
    """A tree as (node, yes, no) or a Leaf."""
    if leaves == 1:
        return leaf()
    n = int(rng.integers(1, leaves))
    return inner(), grow(rng, n, inner, leaf), grow(rng, leaves - n, inner, leaf)


def leaf_of(tree, row):
    while not isinstance(tree, Leaf):
        node, yes, no = tree
        tree = yes if node.holds(row[node.feature]) else no
    return tree


def expected(trees, x, targets, how, base):
    y = np.zeros((len(x), targets))
    for i, row in enumerate(x):
        got = [[] for _ in range(targets)]
        for t in trees:
            for target, w in leaf_of(t, row).shares:
                got[target].append(w)
        for k, v in enumerate(got):
            y[i, k] = base[k] + (0 if not v else sum(v) if how == "SUM" else sum(v) / len(trees) if how == "AVERAGE" else min(v) if how == "MIN" else max(v))
    return y


def ensemble(trees, targets, how, dtype):
    """TreeEnsemble: a leaf has one share; a tree is no leaf."""
    a = {k: [] for k in ("roots", "feature", "split", "mode", "yes", "no", "yes_leaf", "no_leaf", "nan", "target", "weight", "members")}

    def put(tree):
        if isinstance(tree, Leaf):
            a["target"].append(tree.shares[0][0]), a["weight"].append(tree.shares[0][1])
            return len(a["weight"]) - 1, 1
        node, i = tree[0], len(a["feature"])
        for k, v in (("feature", node.feature), ("split", node.split), ("mode", node.mode), ("nan", node.nan_yes), ("yes", 0), ("no", 0), ("yes_leaf", 0), ("no_leaf", 0)):
            a[k].append(int(v) if k != "split" else v)
        if node.mode == MEMBER:
            a["members"] += node.members + [np.nan]
        a["yes"][i], a["yes_leaf"][i] = put(tree[1])
        a["no"][i], a["no_leaf"][i] = put(tree[2])
        return i, 0

    for t in trees:
        a["roots"].append(put(t)[0])
    sets = {"membership_values": numpy_helper.from_array(np.array(a["members"], dtype))} if a["members"] else {}
    return helper.make_node(
        "TreeEnsemble", ["x"], ["y"], domain="ai.onnx.ml", n_targets=targets, aggregate_function=HOW.index(how), tree_roots=a["roots"],
        nodes_featureids=a["feature"], nodes_splits=numpy_helper.from_array(np.array(a["split"], dtype)),
        nodes_modes=numpy_helper.from_array(np.array(a["mode"], np.uint8)), nodes_truenodeids=a["yes"], nodes_falsenodeids=a["no"],
        nodes_trueleafs=a["yes_leaf"], nodes_falseleafs=a["no_leaf"], nodes_missing_value_tracks_true=a["nan"], leaf_targetids=a["target"],
        leaf_weights=numpy_helper.from_array(np.array(a["weight"], dtype)), **sets)


def older(trees, targets, how, base, classes):
    kind = "class" if classes else "target"
    a = {"nodes_" + k: [] for k in ("treeids", "nodeids", "featureids", "modes", "values", "truenodeids", "falsenodeids", "missing_value_tracks_true")}
    a.update({f"{kind}_{k}": [] for k in ("treeids", "nodeids", "ids", "weights")})

    def put(t, tree, ids):
        i = next(ids)
        at = len(a["nodes_treeids"])
        leaf = isinstance(tree, Leaf)
        node = None if leaf else tree[0]
        for k, v in (("treeids", t), ("nodeids", i), ("featureids", 0 if leaf else node.feature), ("modes", "LEAF" if leaf else NAMES[node.mode]),
                     ("values", 0.0 if leaf else node.split), ("truenodeids", 0), ("falsenodeids", 0), ("missing_value_tracks_true", 0 if leaf else int(node.nan_yes))):
            a["nodes_" + k].append(v)
        for target, w in tree.shares if leaf else []:
            for k, v in (("treeids", t), ("nodeids", i), ("ids", target), ("weights", w)):
                a[f"{kind}_{k}"].append(v)
        if not leaf:
            a["nodes_truenodeids"][at] = put(t, tree[1], ids)
            a["nodes_falsenodeids"][at] = put(t, tree[2], ids)
        return i

    for t, tree in enumerate(trees):
        put(t, tree, iter(range(10 ** 6)))
    if not a[f"{kind}_ids"]:  # no leaf has a share: lists may not be empty
        return None
    for k in ("nodes_values", f"{kind}_weights", "base_values"):
        v = np.array(base if k == "base_values" else a.pop(k), np.float64)
        a[k + "_as_tensor"] = numpy_helper.from_array(v)
    if classes:
        return helper.make_node("TreeEnsembleClassifier", ["x"], ["label", "y"], domain="ai.onnx.ml", classlabels_int64s=list(range(targets)), **a)
    return helper.make_node("TreeEnsembleRegressor", ["x"], ["y"], domain="ai.onnx.ml", n_targets=targets, aggregate_function=how, **a)


class Ensemble:
    def __init__(self, seed):
        rng = np.random.default_rng(seed)
        self.form = ["new", "old", "classes"][seed % 3]
        self.features, count = int(rng.integers(1, 6)), int(rng.choice([1, 3, 20, 140]))
        self.dtype = [np.float64, np.float32, np.int64, np.int32][int(rng.integers(2 if self.form == "new" else 4))]
        modes = [[LEQ], [LT], [GTE, GT], list(range(6)), list(range(7)) if self.form == "new" else [LEQ, NEQ]][int(rng.integers(5))]
        self.how = HOW[int(rng.integers(4))] if self.form != "classes" else "SUM"
        targets = int(rng.choice([2, 3, 9])) if self.form == "classes" else int(rng.choice([1, 1, 2, 9]))
        missing, sizes = rng.random() < 0.5, [[2, 31], [2, 128], [127, 128, 129], [2, 3], [300]][int(rng.integers(5))]
        if count == 140:
            sizes = [2, 31]
        new = self.form == "new"
        self.trees = [grow(rng, int(rng.choice(sizes + ([] if new else [1]))), lambda: Inner(rng, self.features, modes, missing),
                           lambda: Leaf(rng, targets, not new)) for _ in range(count)]
        if new and self.dtype == np.float32:  # the operator's splits and weights have x's type
            with np.errstate(over="ignore"):
                for node in self.nodes(self.trees):
                    node.split, node.members = float(np.float32(node.split)), [float(np.float32(v)) for v in node.members]
        self.base = [0.0] * targets if new else [float(v) for v in np.round(rng.normal(size=targets), 2)]
        self.node = (ensemble(self.trees, targets, self.how, self.dtype) if new else older(self.trees, targets, self.how, self.base, self.form == "classes"))
        self.targets, self.rng = targets, rng
        self.name = f"{self.form} {seed}: {count} trees of {sizes} leaves, {np.dtype(self.dtype).name}, modes {modes}, {self.how} of {targets}"

    @classmethod
    def nodes(cls, trees):
        for t in trees:
            if not isinstance(t, Leaf):
                yield t[0]
                yield from cls.nodes(t[1:])

    def rows(self, n):
        splits = [node.split for node in self.nodes(self.trees)] + [0.0]
        x = np.where(self.rng.random((n, self.features)) < 0.6, self.rng.choice(splits, (n, self.features)), self.rng.normal(size=(n, self.features)))
        if self.dtype in (np.int64, np.int32):
            return np.clip(np.nan_to_num(np.round(x)), -1e6, 1e6).astype(self.dtype)
        with np.errstate(over="ignore"):
            return np.where(self.rng.random(x.shape) < 0.1, np.nan, x).astype(self.dtype)

    def model(self, path):
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(self.dtype))
        out = [helper.make_tensor_value_info(n, 0, None) for n in self.node.output]
        for v in out:
            v.ClearField("type")
            v.type.tensor_type.elem_type = TensorProto.INT64 if v.name == "label" else kind if self.form == "new" else TensorProto.FLOAT
        graph = helper.make_graph([self.node], "trees", [helper.make_tensor_value_info("x", kind, ["N", self.features])], out)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20), helper.make_opsetid("ai.onnx.ml", 5 if self.form == "new" else 3)], ir_version=10), path)

    def check(self, got, x):
        want = expected(self.trees, x.astype(float), self.targets, self.how, self.base)
        off = np.abs(got.reshape(want.shape) - want)
        tolerance = 1e-9 if self.form == "new" and self.dtype == np.float64 else 2e-6
        return None if (off <= tolerance * (1 + np.abs(want))).all() else f"off by {off.max():.3g} in {int((off > tolerance).sum())} of {off.size}"

    def run(self, build, tmp):
        if not self.node:
            return None
        self.model(f"{tmp}/m.onnx")
        subprocess.run([f"{build}/tccc", "-q", f"{tmp}/m.onnx", "-o", f"{tmp}/m.so"], check=True)
        for rows, how in ((75, []), (1, []), (9, []), (0, []), (40, ["--interpret"])):
            x = self.rows(rows)
            np.save(f"{tmp}/x.npy", x)
            subprocess.run([f"{build}/tccc-run", f"{tmp}/m.{'onnx' if how else 'so'}", *how, "--input", f"x={tmp}/x.npy", "--output-dir", f"{tmp}/out"], check=True,
                           stdout=subprocess.DEVNULL)
            wrong = self.check(np.load(f"{tmp}/out/output_{len(self.node.output) - 1}.npy"), x)
            if wrong:
                return f"{rows} rows{' ' if how else ''}{''.join(how)}: {wrong}"
        return None


def main():
    build, tmp, count = sys.argv[1], sys.argv[2], int((sys.argv[3:] + [""])[0] or 36)
    print(f"1..{count}")
    for seed in range(count):
        e = Ensemble(seed)
        try:
            wrong = e.run(build, tmp)
        except subprocess.CalledProcessError as error:
            wrong = str(error)
        print(("not ok" if wrong else "ok") + f" {seed + 1} - {e.name}" + (f"\n# {wrong}" if wrong else ""), flush=True)


if __name__ == "__main__":
    sys.setrecursionlimit(10000)
    main()
