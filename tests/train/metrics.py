#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes metrics.txt: scores, labels and values, and what scikit-learn makes of them (tests/metrics.tap compares). Perplexity is that of torchmetrics: e to the mean cross entropy.

usage: metrics.py >metrics.txt
"""
import warnings

import numpy as np
from sklearn import metrics as m

warnings.filterwarnings("ignore")
r = np.random.default_rng(11)


def show(name, what, values, kind="float32"):
    values = np.asarray(values)
    numbers = " ".join(f"{v:.9g}" for v in values.reshape(-1).tolist())
    print(name, what, "x".join(map(str, values.shape)) or "1", kind, numbers)


def classes(name, x, t, curve=False):
    show(name, "x", x)
    show(name, "target", t, "int64")
    guess, all_classes = x.argmax(1), range(x.shape[1])
    show(name, "accuracy", m.accuracy_score(t, guess))
    for k in range(1, min(4, x.shape[1])):
        show(name, f"top{k}", m.top_k_accuracy_score(t, x, k=k, labels=all_classes) if x.shape[1] > 2 else m.accuracy_score(t, guess))
    for key, f in (("precision", m.precision_score), ("recall", m.recall_score), ("f1", m.f1_score)):
        show(name, key, f(t, guess, average="macro", zero_division=0))
    show(name, "confusion", m.confusion_matrix(t, guess, labels=all_classes))
    p = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    show(name, "perplexity", np.exp(-np.log(p[np.arange(len(t)), t]).mean()))
    if curve:
        show(name, "auc", m.roc_auc_score(t, x[:, 1].astype(np.float64) - x[:, 0]))


t = r.integers(0, 5, 37)
x = r.standard_normal((37, 5)).astype(np.float32)
x[np.arange(37), t] += 1
classes("classes", x, t)
classes("rare", x * [1, 1, .1, 1, 0], np.where(t == 3, 1, t))
t = r.integers(0, 2, 50)
classes("pairs", (r.standard_normal((50, 2)) + np.eye(2)[t]).astype(np.float32), t, True)
classes("ties", np.round(r.standard_normal((50, 2)) + np.eye(2)[t]).astype(np.float32), t, True)
y = (r.standard_normal((40, 3)) * [1, 5, .2] + [0, 3, 1]).astype(np.float32)
x = (y + r.standard_normal((40, 3)) * [.5, 2, .3]).astype(np.float32)
show("values", "x", x)
show("values", "target", y)
show("values", "mae", m.mean_absolute_error(y, x))
show("values", "r2", m.r2_score(y, x))
