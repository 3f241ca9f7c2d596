# SPDX-License-Identifier: Apache-2.0
"""MultiHeadAttention with unidirectional=1 as ONNX Runtime has it: keys are counted from the first behind the past on, and where there are more
of them than queries the last query sees all."""
import numpy as np
from says import T, agrees, h, model


def expected(q, k, v, past):
    scores = q @ k.T / np.sqrt(q.shape[1])
    query, key = np.arange(len(q))[:, None], np.arange(len(k))[None]
    seen = (key <= query + past) | (query == len(q) - 1) if len(k) > len(q) + past else key <= query + past
    p = np.exp(np.where(seen, scores, -np.inf) - scores.max(1, keepdims=True))
    return p / p.sum(1, keepdims=True) @ v


def check_unidirectional():
    rng = np.random.default_rng(0)
    for queries, keys, past in ((3, 7, 0), (7, 3, 0), (1, 5, 0), (2, 2, 3)):
        q, k, v = (rng.standard_normal((1, n, 8)).astype(np.float32) for n in (queries, keys, keys))
        inputs, names = {"q": q, "k": k, "v": v}, ["q", "k", "v"]
        before = rng.standard_normal((2, 1, 1, past, 8)).astype(np.float32)
        if past:
            inputs |= {"pk": before[0], "pv": before[1]}
            names += ["", "", "", "pk", "pv"]
        node = h.make_node("MultiHeadAttention", names, ["y"], domain="com.microsoft", num_heads=1, unidirectional=1)
        whole = [np.concatenate([before[i, 0, 0], x[0]]) for i, x in enumerate((k, v))]
        for dims in ({}, {"q": [1, "s", 8], "k": [1, "t", 8], "v": [1, "t", 8]}):
            m = model([node], inputs, {"y": T.FLOAT}, dims=dims, domains=[("com.microsoft", 1)])
            agrees(m, inputs, [expected(q[0], *whole, past)[None].astype(np.float32)], what=f"{queries} {keys} {past} {dims}")
