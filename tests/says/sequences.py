# SPDX-License-Identifier: Apache-2.0
"""Pieces of SplitToSequence without split have a rank, though only the run knows how many there are: what exporters make of unbind."""
import numpy as np
from says import T, agrees, h, model

X, AT = np.arange(-6, 9, dtype=np.float32).reshape(5, 3), np.array(2, np.int64)


def check_piece_of_an_open_axis():
    for axis in (0, 1, -1):
        for keep in (0, 1):
            nodes = [h.make_node("SplitToSequence", ["x"], ["s"], axis=axis, keepdims=keep), h.make_node("SequenceAt", ["s", "i"], ["p"]), h.make_node("NonZero", ["p"], ["y"])]
            want = np.stack(np.nonzero(np.take(X, [2] if keep else 2, axis)))
            agrees(model(nodes, {"x": X, "i": AT}, {"y": T.INT64}, opset=18, dims={"x": ["N", "M"]}), {"x": X, "i": AT}, [want])


def check_pieces_joined_along_another_axis():
    nodes = [h.make_node("SplitToSequence", ["x"], ["s"], axis=0), h.make_node("ConcatFromSequence", ["s"], ["c"], axis=1), h.make_node("NonZero", ["c"], ["y"])]
    agrees(model(nodes, {"x": X}, {"y": T.INT64}, opset=18, dims={"x": ["N", "M"]}), {"x": X}, [np.stack(np.nonzero(X.reshape(1, -1)))])
