# SPDX-License-Identifier: Apache-2.0
"""Chains of nodes that give what they take (restated.py puts them where they change nothing): moves and back, casts to wider types, pieces and wholes, sequences,
optionals, conditions whose branches are the same, loops that hand through."""
import numpy as np
from onnx import TensorProto as T, helper as h

from draw import Refused

MIN, MAX = -(1 << 63), (1 << 63) - 1


def chain(case, x, y, a, kind):
    """Nodes from x to y that give x, an array a of that element type. Names, constants and random numbers are the case's."""
    s, r, old = list(a.shape), a.ndim, case.opset < 13
    z, z2 = case.name(), case.name()
    c = [lambda: [h.make_node("Identity", [x], [y])]]
    if not old:
        ax = case.below(2 * r + 2) - r - 1
        c += [lambda: [h.make_node("Unsqueeze", [x, case.const(ax)], [z]), h.make_node("Squeeze", [z, case.const(ax)], [y])]]
        if r:
            ax2 = case.below(2 * r) - r

            def split():
                o = [z2, y] if case.below(2) else [y, z2]
                return [h.make_node("Concat", [x, x], [z], axis=ax2), h.make_node("Split", [z, case.const(s[ax2], s[ax2])], o, axis=ax2)]

            c += [split]
            c += [lambda: [h.make_node("SplitToSequence", [x], [z], axis=ax2, keepdims=1), h.make_node("ConcatFromSequence", [z], [y], axis=ax2)] if s[ax2] else 1 / 0]
            c += [lambda: [h.make_node("SplitToSequence", [x], [z], axis=ax2, keepdims=0), h.make_node("ConcatFromSequence", [z], [y], axis=ax2, new_axis=1)] if s[ax2] else 1 / 0]
    if r:
        p = list(case.rng.permutation(r))
        q = [p.index(i) for i in range(r)]
        c += [lambda: [h.make_node("Transpose", [x], [z], perm=p), h.make_node("Transpose", [z], [y], perm=q)]]
        k = case.below(r)
        c += [lambda: [h.make_node("Slice", [x, case.const(-1), case.const(MIN), case.const(k), case.const(-1)], [z]),
                       h.make_node("Slice", [z, case.const(MAX), case.const(-MAX), case.const(k - r), case.const(-1)], [y])]]
        c += [lambda: [h.make_node("Concat", [x, x, x], [z], axis=k), h.make_node("Slice", [z, case.const(s[k]), case.const(2 * s[k]), case.const(k)], [y])]]
        c += [lambda: [h.make_node("Slice", [x, case.const(MIN), case.const(MAX), case.const(k)], [y])]]
        c += [lambda: [h.make_node("Gather", [x, case.const(*range(-s[k], 0))], [y], axis=k)] if s[k] else 1 / 0]
        c += [lambda: [h.make_node("Compress", [x, case.const(*[True] * s[k], dtype=bool)], [y], axis=k)] if s[k] and case.opset >= 9 else 1 / 0]
        c += [lambda: [h.make_node("Flatten", [x], [z], axis=k), h.make_node("Reshape", [z, case.const(*s)], [y])] if 0 not in s else 1 / 0]
        if case.opset >= 13:
            c += [lambda: [h.make_node("Tile", [x, case.const(*[2 if i == k else 1 for i in range(r)])], [z]),
                           h.make_node("Slice", [z, case.const(-s[k] or MAX), case.const(MAX), case.const(k)], [y])]]
            c += [lambda: padded(case, x, y, z, s)]
    if 0 not in s:
        c += [lambda: [h.make_node("Reshape", [x, case.const(-1)], [z]), h.make_node("Reshape", [z, case.const(*s) if s else case.empty()], [y])]]
    c += [lambda: [h.make_node("Shape", [x], [z]), h.make_node("Reshape", [x, z], [y], **({"allowzero": 1} if case.opset >= 14 else {}))] if case.opset >= 14 or 0 not in s else 1 / 0]
    c += [lambda: [h.make_node("Shape", [x], [z]), h.make_node("Expand", [x, z], [y])]]
    if case.opset >= 11:
        c += [lambda: [h.make_node("SequenceConstruct", [x, x], [z]), h.make_node("SequenceAt", [z, case.const(case.one(-1, 0, 1, -2), scalar=True)], [y])]]
        c += [lambda: [h.make_node("SequenceEmpty", [], [z], dtype=kind), h.make_node("SequenceInsert", [z, x], [z2]), h.make_node("SequenceAt", [z2, case.const(-1, scalar=True)], [y])]]
    if case.opset >= 15:
        c += [lambda: [h.make_node("Optional", [x], [z]), h.make_node("OptionalGetElement", [z], [y])]]
    if a.dtype in (np.float32, np.float16) or kind == T.BFLOAT16:
        c += [lambda: [h.make_node("Cast", [x], [z], to=T.DOUBLE), h.make_node("Cast", [z], [y], to=kind)]]
        c += [lambda: [h.make_node("Neg", [x], [z]), h.make_node("Neg", [z], [y])]] * 2
        c += [lambda: [h.make_node("Sum", [x], [y])], lambda: [h.make_node("Max", [x, x], [y])], lambda: [h.make_node("Min", [x, x, x], [y])]]
        c += [lambda: [h.make_node("Clip", [x], [y])]] if case.opset >= 11 else []
        c += [lambda: [h.make_node("Dropout", [x], [y])]] if case.opset >= 12 else []
        if r == 4:
            c += [lambda: [h.make_node("MaxPool", [x], [y], kernel_shape=[1, 1])]]
        if r == 4 and s[1] % 4 == 0:
            c += [lambda: [h.make_node("DepthToSpace", [x], [z], blocksize=2), h.make_node("SpaceToDepth", [z], [y], blocksize=2)]]
        if r:
            l = "abcdefgh"[:r]
            c += [lambda: [h.make_node("Einsum", [x], [y], equation=f"{l}->{l}")], lambda: [h.make_node("Einsum", [x], [z], equation=f"{l}->{l[::-1]}"), h.make_node("Einsum", [z], [y], equation=f"{l[::-1]}->{l}")]]
    if a.dtype in (np.int32, np.int8, np.uint8, np.int16, np.uint16, np.uint32, np.bool_):
        c += [lambda: [h.make_node("Cast", [x], [z], to=T.INT64), h.make_node("Cast", [z], [y], to=kind)]]
    if a.dtype == np.bool_:
        c += [lambda: [h.make_node("Not", [x], [z]), h.make_node("Not", [z], [y])], lambda: [h.make_node("And", [x, x], [y])]]
    if case.opset >= 9:
        c += [lambda: [h.make_node("Where", [case.const(bool(case.below(2)), dtype=bool, scalar=True), x, x], [y])]]
    # control flow
    b, b2 = case.name("b"), case.name("b")
    g = lambda n, ins=(): h.make_graph([h.make_node("Identity", [ins[0].name if ins else x], [n])], n + "g", list(ins), [h.make_tensor_value_info(n, kind, None)])
    c += [lambda: [h.make_node("If", [case.condition()], [y], then_branch=g(b), else_branch=g(b2))]]
    if r and s[0]:
        row = case.name("row")
        c += [lambda: [h.make_node("Scan", [x], [y], num_scan_inputs=1, body=g(b, [h.make_tensor_value_info(row, kind, s[1:])]))]] if case.opset >= 9 else []
        i, cnd, co = case.name(), case.name(), case.name()
        body = h.make_graph([h.make_node("Identity", [cnd], [co]), h.make_node("Gather", [x, i], [b], axis=0)], "body", [h.make_tensor_value_info(i, T.INT64, []), h.make_tensor_value_info(cnd, T.BOOL, [])],
                            [h.make_tensor_value_info(co, T.BOOL, []), h.make_tensor_value_info(b, kind, s[1:])])
        c += [lambda: [h.make_node("Loop", [case.const(s[0], scalar=True), ""], [y], body=body)]]
    i, cnd, co, st = case.name(), case.name(), case.name(), case.name()
    body2 = h.make_graph([h.make_node("Identity", [cnd], [co]), h.make_node("Identity", [st], [b])], "body", [h.make_tensor_value_info(i, T.INT64, []), h.make_tensor_value_info(cnd, T.BOOL, []), h.make_tensor_value_info(st, kind, s)],
                        [h.make_tensor_value_info(co, T.BOOL, []), h.make_tensor_value_info(b, kind, s)])
    c += [lambda: [h.make_node("Loop", [case.const(case.below(4), scalar=True), "", x], [y], body=body2)]]
    try:
        return case.one(*c)()
    except ZeroDivisionError:
        raise Refused from None


def padded(case, x, y, z, s):
    before, after = [case.below(3) for _ in s], [case.below(3) for _ in s]
    return [h.make_node("Pad", [x, case.const(*before, *after)], [z]),
            h.make_node("Slice", [z, case.const(*before), case.const(*[b + n for b, n in zip(before, s)]), case.const(*range(len(s)))], [y])]
