# SPDX-License-Identifier: Apache-2.0
"""MultiHeadAttention with unidirectional=1 as ONNX Runtime has it: keys are counted from the first behind the past on, and where there are more
of them than queries the last query sees all."""
import numpy as np
from says import T, agrees, h, model, refused


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


def lengths_alone(batch, keys, mask):
    """Which keys each sample sees by a mask of one dim: ends [b], ends and starts [2 b], ends and what these imply [3 b + 2]."""
    at = np.arange(keys)[None]
    start = mask[batch:, None] if len(mask) == 2 * batch else 0
    return (at < mask[:batch, None]) & (at >= start)


def check_masks_of_one_dim():
    """Whichever of the sizes are open, the run knows what the mask is."""
    rng = np.random.default_rng(1)
    for batch, mask in ((1, [3]), (1, [4, 1]), (2, [3, 2]), (2, [4, 3, 1, 2]), (2, [3, 4, 0, 4, 8, 0, 4, 8]), (1, [2, 0, 4, 0, 4])):
        mask = np.array(mask, np.int32)
        q, k, v = (rng.standard_normal((batch, 4, 8)).astype(np.float32) for _ in range(3))
        inputs = {"q": q, "k": k, "v": v, "m": mask}
        scores = np.where(lengths_alone(batch, 4, mask)[:, None], q @ k.transpose(0, 2, 1) / np.sqrt(8), -1e9)
        p = np.exp(scores - scores.max(2, keepdims=True))
        want = (p / p.sum(2, keepdims=True) @ v).astype(np.float32)
        node = h.make_node("MultiHeadAttention", ["q", "k", "v", "", "m"], ["y"], domain="com.microsoft", num_heads=1, mask_filter_value=-1e9)
        open_batch = {n: ["b", 4, 8] for n in "qkv"}
        for dims in ({}, open_batch, {"m": ["n"]}, open_batch | {"m": ["n"]}):
            agrees(model([node], inputs, {"y": T.FLOAT}, dims=dims, domains=[("com.microsoft", 1)]), inputs, [want], what=f"{batch} {mask} {dims}")


def check_refusals():
    f = {n: np.zeros((1, 2, 3, 4), np.float32) for n in "qkv"}
    for attribute, words in (({"qk_matmul_output_mode": 4}, "'qk_matmul_output_mode' is 4"), ({"scale": 0.0}, "scale 0"), ({"scale": -1.0}, "scale -1")):
        node = h.make_node("Attention", ["q", "k", "v"], ["y", "", "", "w"], **attribute)
        refused(model([node], f, {"y": T.FLOAT, "w": T.FLOAT}, opset=23), f, words)
    for flat in ("q", "k", "v"):
        f = {n: np.zeros((6, 8) if n == flat else (2, 3, 8), np.float32) for n in "qkv"}
        node = h.make_node("MultiHeadAttention", ["q", "k", "v", "b"], ["y"], domain="com.microsoft", num_heads=2)
        inputs = f | {"b": np.zeros(24, np.float32)}
        refused(model([node], inputs, {"y": T.FLOAT}, domains=[("com.microsoft", 1)]), inputs, "dims")
