#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes metrics-torch.txt: what torchmetrics makes of the scores, labels and values of metrics.txt (tests/metrics.tap compares).

usage: metrics_torch.py metrics.txt >metrics-torch.txt
"""
import sys

import torch
import torchmetrics.functional as m

sets = {}
for line in open(sys.argv[1]):
    name, what, shape, kind, *values = line.split()
    if what in ("x", "target"):
        sets.setdefault(name, {})[what] = torch.tensor([float(v) for v in values], dtype=getattr(torch, kind)).reshape([int(k) for k in shape.split("x")])


def show(name, what, v):
    v = torch.as_tensor(v, dtype=torch.float64)
    print(name, what, "x".join(map(str, v.shape)) or "1", "float64", " ".join(f"{k:.9g}" for k in v.reshape(-1).tolist()))


for name, s in sets.items():
    x, t = s["x"], s["target"]
    if t.dtype != torch.int64:
        show(name, "mae", m.mean_absolute_error(x.double(), t.double()))
        show(name, "r2", m.r2_score(x.double(), t.double()))
        continue
    n = dict(task="multiclass", num_classes=x.shape[1])
    show(name, "accuracy", m.accuracy(x, t, average="micro", **n))
    for k in range(1, min(4, x.shape[1])):
        show(name, f"top{k}", m.accuracy(x, t, average="micro", top_k=k, **n))
    for key, f in (("precision", m.precision), ("recall", m.recall), ("f1", m.f1_score)):
        show(name, key, f(x, t, average="macro", **n))
    show(name, "confusion", m.confusion_matrix(x, t, **n))
    show(name, "perplexity", m.text.perplexity(x[None].double(), t[None]))
    if x.shape[1] == 2:
        show(name, "auc", m.auroc((x[:, 1].double() - x[:, 0].double()).sigmoid(), t, task="binary"))
