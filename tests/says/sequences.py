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


def check_loop_that_puts_in_other_shapes():
    body = h.make_graph([h.make_node("Identity", ["c"], ["d"]), h.make_node("SequenceAt", ["s", "zero"], ["e"]), h.make_node("Concat", ["e", "e"], ["f"], axis=0), h.make_node("SequenceInsert", ["s", "f", "zero"], ["t"])], "body",
                        [h.make_tensor_value_info("k", T.INT64, []), h.make_tensor_value_info("c", T.BOOL, []), h.make_tensor_sequence_value_info("s", T.FLOAT, None)], [h.make_tensor_value_info("d", T.BOOL, []), h.make_tensor_sequence_value_info("t", T.FLOAT, None)])
    zero = h.make_node("Constant", [], ["zero"], value_int=0)
    for dims in ({"x": ["N", "M"]}, {}):
        for make, first in ((h.make_node("SplitToSequence", ["x"], ["first"], axis=1), list(np.split(X, 3, 1))), (h.make_node("SequenceConstruct", ["x"], ["first"]), [X])):
            nodes = [zero, make, h.make_node("Loop", ["n", "", "first"], ["all"], body=body), h.make_node("ConcatFromSequence", ["all"], ["y"], axis=0)]
            items = list(first)
            for _ in range(2):
                items.insert(0, np.concatenate([items[0]] * 2))
            ins = {"x": X, "n": np.array(2, np.int64)}
            agrees(model(nodes, ins, {"y": T.FLOAT}, opset=18, dims=dims), ins, [np.concatenate(items)])
