# SPDX-License-Identifier: Apache-2.0
"""sparse_initializer and sparse Constants: linear indices and coordinates, in any order; out of range, or twice, is an error."""
import numpy as np
import onnx
from says import T, agrees, h, model, nh, refused

X = {"x": np.zeros((2, 3), np.float32)}
DENSE = np.float32([[0, 2, 0], [0, 0, 3]])


def sparse(values, indices, dims=(2, 3), dtype=np.int64):
    s = onnx.SparseTensorProto(dims=dims)
    s.values.CopyFrom(nh.from_array(np.asarray(values, np.float32), "w"))
    s.indices.CopyFrom(nh.from_array(np.asarray(indices, dtype), "i"))
    return s


def models(s):
    m = model([h.make_node("Add", ["x", "w"], ["y"])], X, {"y": T.FLOAT})
    m.graph.sparse_initializer.append(s)
    yield m
    yield model([h.make_node("Constant", [], ["w"], sparse_value=s), h.make_node("Add", ["x", "w"], ["y"])], X, {"y": T.FLOAT})


def check_forms():
    for s in (sparse([2, 3], [1, 5]), sparse([3, 2], [5, 1]), sparse([2, 3], [[0, 1], [1, 2]]), sparse([3, 2], [[1, 2], [0, 1]])):
        for m in models(s):
            agrees(m, X, [DENSE])
    for m in models(sparse([], np.zeros(0))):
        agrees(m, X, [0 * DENSE])


def check_what_is_wrong():
    for s, words in ((sparse([2], [6]), "index 6 of 6"), (sparse([2], [-1]), "index -1 of 6"), (sparse([2], [[0, 3]]), "index 3 of 3"), (sparse([2], [[2, 0]]), "index 2 of 2"),
                     (sparse([2, 3], [1, 1]), "twice"), (sparse([2, 3], [1]), "2 values, 1 indices"), (sparse([2], [[1, 1, 1]]), "1 values, 3 indices"),
                     (sparse([2], [1], dims=(2, -3)), "of this form"), (sparse([2], [1], dtype=np.int32), "of this form")):
        for m in models(s):
            refused(m, X, words, levels=({"level": 0},))
