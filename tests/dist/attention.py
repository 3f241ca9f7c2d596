#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write a layer of attention as IR text, and samples: attention.py FILE.tcir KIND LENGTH

KIND: `plain`; `causal`; `grouped` (two heads of keys for four of queries); `masked` (by an input of -inf and 0, a sample each, whose
hidden rows would be NaN); `low` (causal, by an input of large finite numbers and 0 that hides all keys of some samples, and the first of others:
their first rows are means). Writes x.npy, hidden.npy and target.npy beside the text.
"""
import os
import sys

import numpy as np

path, kind, n = sys.argv[1], sys.argv[2], int(sys.argv[3])
numbers = np.random.default_rng(3)
few = 2 if kind == "grouped" else 4
masked = kind in ("masked", "low")


def parameter(name, *shape):
    t = "f32[%s]" % ",".join(map(str, shape))
    return "state @%s : %s param = %s [%s]" % (name, t, t, ", ".join("%.6g" % x for x in numbers.standard_normal(shape).ravel() * 0.3))


lines = [parameter("q", 16, 16), parameter("k", 16, 4 * few), parameter("v", 16, 4 * few), parameter("o", 16, 16), parameter("top", 16, 5)]
lines.append('func @main(%%x: f32[N,%d,16]%s) -> ("y": f32[N,5]) {' % (n, ", %%hidden: f32[N,1,1,%d]" % n if masked else ""))
lines += ['  %%%s = state_read() {name = "%s"}' % (s, s) for s in ("q", "k", "v", "o", "top")]
for s, heads in ("q", 4), ("k", few), ("v", few):
    lines += ["  %%m%s = matmul(%%x, %%%s)" % (s, s), "  %%r%s = reshape(%%m%s) {shape = [N, %d, %d, 4]}" % (s, s, n, heads),
              "  %%h%s = transpose(%%r%s) {perm = [0, 2, 1, 3]}" % (s, s)]
lines += ['  %%a = attention(%%hq, %%hk, %%hv%s) {scale = 0.5, causal = %d, mode = "%s"}'
          % (", %hidden" if masked else "", kind in ("causal", "low"), "nan" if masked else "zero"),
          "  %t = transpose(%a) {perm = [0, 2, 1, 3]}", "  %%j = reshape(%%t) {shape = [N, %d, 16]}" % n, "  %p = matmul(%j, %o)",
          "  %z = add(%p, %x)", "  %e = tanh(%z)", "  %s = reduce_sum(%e) {axes = [1], keepdims = 0}", "  %y = matmul(%s, %top)", "  return(%y)", "}"]
with open(path, "w", encoding="ascii") as f:
    f.write("\n".join(lines) + "\n")
beside = os.path.dirname(path) or "."
np.save(f"{beside}/x.npy", numbers.standard_normal((64, n, 16)).astype(np.float32))
shown = np.arange(n) < numbers.integers(1, n, (64, 1))
never = -np.inf
if kind == "low":
    shown = np.arange(n) >= numbers.integers(0, n + 1, (64, 1))
    never = np.where(np.arange(64) % 2, -1e9, np.finfo(np.float32).min)[:, None]
np.save(f"{beside}/hidden.npy", np.where(shown, 0, never).astype(np.float32).reshape(64, 1, 1, n))
np.save(f"{beside}/target.npy", numbers.integers(0, 5, 64))
