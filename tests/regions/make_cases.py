#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Models whose control flow decides what makes sense, and whose loops collect what others join: in the official suite's layout.

usage: make_cases.py DIR

DIR/right/NAME: a case, whose outputs are worked out here. DIR/refused/NAME.onnx, beside NAME.npz: the input with which a run must be refused in words.
DIR/NAME.onnx: models for tests by hand.
"""
import os, sys
import numpy as np, onnx
from onnx import TensorProto as T, helper as h, numpy_helper as nh
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "onnx"))
from case_folder import write_case

F = np.float32


def L(*v):
    return np.array(v, np.int64)


def info(name, dtype, shape):
    return h.make_tensor_value_info(name, dtype, shape)


def node(op, ins, outs, **attrs):
    return h.make_node(op, ins, outs, name=outs[0], **attrs)


def graph(name, nodes, outs, ins=()):
    return h.make_graph(nodes, name, [info(*i) for i in ins], [info(o, t, *(dims or [None])) for o, t, *dims in outs])


def model(nodes, ins, outs, consts, opset=17):
    return h.make_model(h.make_graph(nodes, "g", [info(*i) for i in ins], [info(*o) for o in outs],
                                     [nh.from_array(np.asarray(v), k) for k, v in consts.items()]),
                        opset_imports=[h.make_opsetid("", opset)], ir_version=8)


def random(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(F)


# -- Branches that are not taken --------------------------------------------------------------------------------------------------


def nested(n):
    """`else` makes sense where n is 1 alone: the inner If drops that axis, or keeps it for a Transpose that has one axis."""
    sub = lambda name, op, y: graph(name, [node(op, ["x", "last"] if op == "Squeeze" else ["x"], [y])], [(y, T.FLOAT)])
    then = graph("then", [node("Relu", ["x"], ["r1"]), node("ReduceSum", ["r1", "last"], ["r"], keepdims=0)], [("r", T.FLOAT)])
    other = graph("else", [node("Shape", ["x"], ["xs"]), node("Gather", ["xs", "last"], ["xz"], axis=0), node("Equal", ["xz", "one"], ["x1"]),
                           node("If", ["x1"], ["s"], then_branch=sub("t", "Squeeze", "ss"), else_branch=sub("e", "Identity", "si")),
                           node("Transpose", ["s"], ["q"], perm=[0])], [("q", T.FLOAT)])
    return model([node("If", ["c"], ["y"], then_branch=then, else_branch=other)], [("x", T.FLOAT, [2, n]), ("c", T.BOOL, [])], [("y", T.FLOAT, None)],
                 {"last": L(-1), "one": L(1)})


def voice(n):
    """As voice activity detectors have it: two rates, each with a front end of its own whose frames are one for its own number of samples alone; what
    follows drops that axis."""
    def rate(tag, window, hop, channels):
        w = random(channels, 1, window, seed=window) / F(window ** .5)
        nodes = [node("Constant", [], [f"w{tag}"], value=nh.from_array(w)), node("Unsqueeze", ["x", "one"], [f"u{tag}"]),
                 node("Conv", [f"u{tag}", f"w{tag}"], [f"f{tag}"], strides=[hop]), node("Relu", [f"f{tag}"], [f"r{tag}"]),
                 node("Squeeze", [f"r{tag}", "last"], [f"s{tag}"]), node("Shape", ["h"], [f"hs{tag}"]), node("Size", [f"hs{tag}"], [f"hr{tag}"]),
                 node("Equal", [f"hr{tag}", "three"], [f"h3{tag}"]),
                 node("If", [f"h3{tag}"], [f"hh{tag}"],
                      then_branch=graph(f"t{tag}", [node("Squeeze", ["h", "first"], [f"hq{tag}"])], [(f"hq{tag}", T.FLOAT)]),
                      else_branch=graph(f"e{tag}", [node("Identity", ["h"], [f"hi{tag}"])], [(f"hi{tag}", T.FLOAT)])),
                 node("Add", [f"s{tag}", f"hh{tag}"], [f"y{tag}"])]
        return w, graph(f"rate{tag}", nodes, [(f"y{tag}", T.FLOAT)])
    (wide, a), (narrow, b) = rate("a", 64, 64, 4), rate("b", 32, 32, 4)
    m = model([node("Equal", ["sr", "rate"], ["fast"]), node("If", ["fast"], ["y"], then_branch=a, else_branch=b)],
              [("x", T.FLOAT, ["B", n]), ("h", T.FLOAT, [1, "B", 4]), ("sr", T.INT64, [])], [("y", T.FLOAT, None)],
              {"rate": np.array(16000, np.int64), "one": L(1), "last": L(-1), "three": np.array(3, np.int64), "first": L(0)})
    return m, lambda x, state, sr: np.maximum(x @ (wide if sr == 16000 else narrow)[:, 0].T, 0) + state[0]


def ranks():
    """Branches of different ranks, and a result whose declared shape is that of neither."""
    branches = {"then_branch": graph("then", [node("Relu", ["x"], ["t"])], [("t", T.FLOAT)]), "else_branch": graph("else", [node("Unsqueeze", ["x", "zero"], ["e"])], [("e", T.FLOAT)])}
    return model([node("If", ["c"], ["y"], **branches)], [("x", T.FLOAT, ["a", "b", "c_"]), ("c", T.BOOL, [])], [("y", T.FLOAT, [3, 4, 5])], {"zero": L(0)})


def chosen_beside(n):
    """As many rows as the run chooses, beside n others: the same number of them, or one."""
    nodes = [node("ReduceSum", ["x", "one"], ["s"], keepdims=0), node("Greater", ["s", "none"], ["is"]), node("NonZero", ["is"], ["at"]), node("Squeeze", ["at", "zero"], ["i"]),
             node("Gather", ["x", "i"], ["rows"]), node("Add", ["w", "rows"], ["y"])]
    w = random(n, 2, seed=n)
    return model(nodes, [("x", T.FLOAT, ["N", 2])], [("y", T.FLOAT, None)], {"w": w, "one": L(1), "zero": L(0), "none": F(0)}), w


def loop_body_wrong():
    """A body that joins what doesn't fit, in a loop of as many iterations as the run says: none."""
    body = graph("body", [node("Identity", ["c"], ["c2"]), node("MatMul", ["a", "x"], ["a2"])], [("c2", T.BOOL), ("a2", T.FLOAT)],
                 [("i", T.INT64, []), ("c", T.BOOL, []), ("a", T.FLOAT, [2, 3])])
    return model([node("Loop", ["n", "", "x"], ["y"], body=body)], [("x", T.FLOAT, [2, 3]), ("n", T.INT64, [])], [("y", T.FLOAT, None)], {})


def scan_body_wrong():
    """A body that is wrong, and says the size of what it gives by a name that the model's result has, too."""
    body = graph("body", [node("ScatterElements", ["r", "i", "u"], ["o"], axis=0)], [("o", T.FLOAT, ["wide"])], [("r", T.FLOAT, None)])
    return model([node("Scan", ["x"], ["y"], body=body, num_scan_inputs=1)], [("x", T.FLOAT, ["rows", 6]), ("i", T.INT64, [1, 1]), ("u", T.FLOAT, [1, 1])],
                 [("y", T.FLOAT, ["rows", "wide"])], {})


def scan_slices():
    """A body that scatters into what it has made: the axes of a Slice are values of the run."""
    body = graph("body", [node("Slice", ["r", "start", "end", "axis"], ["o"])], [("o", T.FLOAT)], [("r", T.FLOAT, None)])
    return model([node("Scan", ["x"], ["y"], body=body, num_scan_inputs=1)], [("x", T.FLOAT, ["rows", 4, 5])] + [(k, T.INT64, [1]) for k in ("start", "end", "axis")],
                 [("y", T.FLOAT, None)], {})


# -- What loops collect, and what others join it with -----------------------------------------------------------------------------


def collects(op):
    """A loop of as many iterations as the run says; its results, behind `op`, joined with others."""
    body = graph("body", [node("Add", ["a", "a"], ["a2"]), node("Identity", ["c"], ["c2"]), node("Identity", ["a2"], ["e"])],
                 [("c2", T.BOOL), ("a2", T.FLOAT), ("e", T.FLOAT)], [("i", T.INT64, []), ("c", T.BOOL, []), ("a", T.FLOAT, [1])])
    nodes = [node("Range", ["zero", "k", "one"], ["r"]), node("Size", ["r"], ["n"]), node("Loop", ["n", "", "w"], ["last", "s"], body=body)]
    nodes += [node(op, ["s"], ["t"], **({"perm": [0, 1]} if op == "Transpose" else {})), node("Concat", ["t", "w2", "t"], ["y"], axis=0)]
    return model(nodes, [("k", T.INT64, [])], [("y", T.FLOAT, None), ("last", T.FLOAT, None)],
                 {"zero": np.array(0, np.int64), "one": np.array(1, np.int64), "w": F([1.5]), "w2": F([[.5]])})


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def cell(op, x, w, r, hidden):
    """One direction, without biases, of x [T, 1, I]; [T, 1, H]."""
    state, memory, out = np.zeros((1, hidden)), np.zeros((1, hidden)), []
    for row in x:
        a, b = row @ w.T, state @ r.T
        if op == "RNN":
            state = np.tanh(a + b)
        elif op == "LSTM":
            i, o, f, c = np.split(a + b, 4, 1)
            memory = sigmoid(f) * memory + sigmoid(i) * np.tanh(c)
            state = sigmoid(o) * np.tanh(memory)
        else:
            z, g = sigmoid(a[:, :hidden] + b[:, :hidden]), sigmoid(a[:, hidden:2 * hidden] + b[:, hidden:2 * hidden])
            new = np.tanh(a[:, 2 * hidden:] + (g * state) @ r[2 * hidden:].T)
            state = (1 - z) * new + z * state
        out.append(state)
    return np.array(out).reshape(len(x), 1, hidden)


def both_ways(op, gates):
    """Both directions, over a length that only the run knows; a second layer behind the first."""
    w, r = random(2, gates * 2, 1, seed=1), random(2, gates * 2, 2, seed=2)
    w2, r2 = random(2, gates * 2, 4, seed=3), random(2, gates * 2, 2, seed=4)
    nodes = [node("Range", ["i0", "k", "i1"], ["q"]), node("Cast", ["q"], ["qf"], to=T.FLOAT), node("Unsqueeze", ["qf", "ax"], ["x"]),
             node(op, ["x", "W", "R"], ["Y"], direction="bidirectional", hidden_size=2), node("Transpose", ["Y"], ["Yt"], perm=[0, 2, 1, 3]),
             node("Reshape", ["Yt", "shape"], ["x2"]), node(op, ["x2", "W2", "R2"], ["Z"], direction="bidirectional", hidden_size=2)]
    m = model(nodes, [("k", T.INT64, [])], [("Y", T.FLOAT, None), ("Z", T.FLOAT, None)],
              {"i0": np.array(0, np.int64), "i1": np.array(1, np.int64), "ax": L(1, 2), "shape": L(0, 0, -1), "W": w, "R": r, "W2": w2, "R2": r2})
    both = lambda x, w, r: np.stack([cell(op, x, w[0], r[0], 2), cell(op, x[::-1], w[1], r[1], 2)[::-1]], 1)

    def expect(k):
        y = both(np.arange(k, dtype=float).reshape(k, 1, 1), w, r)
        z = both(y.transpose(0, 2, 1, 3).reshape(k, 1, 4), w2, r2)
        return {"Y": y.astype(F), "Z": z.astype(F)}
    return m, expect


def pieces(n, reducer):
    """Pieces of sizes that only the run knows, joined; a reduction over them, and a copy."""
    nodes = []
    for i in range(n):
        nodes += [node("Greater", ["x", f"t{i}"], [f"m{i}"]), node("NonZero", [f"m{i}"], [f"z{i}"]), node("Squeeze", [f"z{i}", "zero"], [f"i{i}"]),
                  node("Gather", ["x", f"i{i}"], [f"g{i}"])]
    nodes += [node("Concat", [f"g{i}" for i in range(n)], ["c"], axis=0), node(reducer, ["c"], ["y"], keepdims=0, **({"axis": 0} if reducer == "ArgMax" else {})),
              node("Mul", ["c", "c"], ["d"])]
    return model(nodes, [("x", T.FLOAT, [20])], [("y", T.FLOAT if reducer != "ArgMax" else T.INT64, None), ("d", T.FLOAT, None)],
                 {"zero": L(0), **{f"t{i}": F(.15 * i) for i in range(n)}})


def conditions():
    """A loop that ends when the body says so; its condition is made on a device, in kernels."""
    body = graph("b", [node("Less", ["i", "c"], ["go2"]), node("MatMul", ["a", "w"], ["a2"])], [("go2", T.BOOL), ("a2", T.FLOAT)],
                 [("i", T.INT64, []), ("go", T.BOOL, []), ("a", T.FLOAT, [None, None])])
    return model([node("Loop", ["M", "", "x"], ["y"], body=body)], [("x", T.FLOAT, [3, 4])], [("y", T.FLOAT, None)],
                 {"w": np.eye(4, dtype=F) * F(.5), "M": np.array(5, np.int64), "c": np.array(1, np.int64)})


def wrong_condition(where):
    """A condition that is no bool: of the loop, or what its body gives."""
    body = graph("b", [node("Cast", ["go"], ["go2"], to=T.FLOAT if where == "body" else T.BOOL), node("Identity", ["a"], ["a2"])],
                 [("go2", T.FLOAT if where == "body" else T.BOOL), ("a2", T.FLOAT)], [("i", T.INT64, []), ("go", T.BOOL, []), ("a", T.FLOAT, [3])])
    return model([node("Loop", ["n", "go" if where == "loop" else "", "x"], ["y"], body=body)], [("x", T.FLOAT, [3]), ("n", T.INT64, []), ("go", T.FLOAT, [])],
                 [("y", T.FLOAT, None)], {})


# -- Training ---------------------------------------------------------------------------------------------------------------------


def counted_training():
    """A loop with a condition behind a parameter: how many iterations there were is known behind it."""
    body = graph("b", [node("Less", ["i", "c"], ["go2"]), node("Add", ["a", "x"], ["a2"])], [("go2", T.BOOL), ("a2", T.FLOAT)],
                 [("i", T.INT64, []), ("go", T.BOOL, []), ("a", T.FLOAT, [None, None])])
    return model([node("MatMul", ["x", "w"], ["a0"]), node("Loop", ["M", "", "a0"], ["y"], body=body)], [("x", T.FLOAT, [3, 4])], [("y", T.FLOAT, None)],
                 {"w": np.eye(4, dtype=F) * F(.9), "M": np.array(5, np.int64), "c": np.array(1, np.int64)})


def chosen_rows():
    """The rows whose sum is positive, times a parameter: sizes that the run finds, in every entry point."""
    return model([node("ReduceSum", ["x", "one"], ["s"], keepdims=0), node("Greater", ["s", "z"], ["m"]), node("NonZero", ["m"], ["i2"]),
                  node("Squeeze", ["i2", "zero"], ["i"]), node("Gather", ["x", "i"], ["r"]), node("MatMul", ["r", "w"], ["q"]),
                  node("ReduceSum", ["q", "zero"], ["y"], keepdims=1)], [("x", T.FLOAT, ["N", 6])], [("y", T.FLOAT, [1, 5])],
                 {"w": random(6, 5), "z": F(0), "one": L(1), "zero": L(0)})


def main(to):
    right, refused = os.path.join(to, "right"), os.path.join(to, "refused")
    os.makedirs(refused)
    x = np.arange(-2, 4, dtype=F).reshape(2, 3)
    for tag, n in (("open", "n"), ("fixed", 3)):
        write_case(f"{right}/nested_{tag}", nested(n), [({"x": x, "c": np.array(True)}, {"y": F([0, 6])})])
        onnx.save(nested(n), f"{refused}/nested_{tag}.onnx")
        np.savez(f"{refused}/nested_{tag}.npz", x=x, c=np.array(False))
    write_case(f"{right}/nested_one", nested("n"), [({"x": x[:, :1], "c": np.array(False)}, {"y": F([-2, 1])})])
    state = random(1, 2, 4, seed=5)
    for tag, n in (("open", "S"), ("fixed", 64)):
        m, expect = voice(n)
        runs = []
        for sr, length in ((16000, 64), (8000, 32)) if n == "S" else ((16000, 64),):
            s = random(2, length, seed=sr)
            runs.append(({"x": s, "h": state, "sr": np.array(sr, np.int64)}, {"y": expect(s, state, sr)}))
        write_case(f"{right}/voice_{tag}", m, runs)
        onnx.save(m, f"{refused}/voice_{tag}.onnx")
        np.savez(f"{refused}/voice_{tag}.npz", x=random(2, 64), h=state, sr=np.array(8000, np.int64))
    for tag, shape, c in (("dims", (4, 3, 5), True), ("sizes", (3, 4, 1), True), ("rank", (3, 4, 5), False)):
        onnx.save(ranks(), f"{refused}/another_{tag}.onnx")
        np.savez(f"{refused}/another_{tag}.npz", x=random(*shape), c=np.array(c))
    for n, counts in ((3, (0, 1, 2, 3, 4, 6)), (2, (0, 1, 2, 3)), (0, (0, 1, 2))):
        m, w = chosen_beside(n)
        for k in counts:
            rows = np.arange(-4, 2 * k, dtype=F).reshape(k + 2, 2)
            taken = rows[2:] + F(.5)
            rows[2:] = taken
            if k in (1, n):
                write_case(f"{right}/chosen_{k}_beside_{n}", m, [({"x": rows}, {"y": w + taken})])
            else:
                onnx.save(m, f"{refused}/chosen_{k}_beside_{n}.onnx")
                np.savez(f"{refused}/chosen_{k}_beside_{n}.npz", x=rows)
    write_case(f"{right}/loop_not_entered", loop_body_wrong(), [({"x": x, "n": np.array(0, np.int64)}, {"y": x})])
    onnx.save(loop_body_wrong(), f"{refused}/loop_entered.onnx")
    np.savez(f"{refused}/loop_entered.npz", x=x, n=np.array(2, np.int64))
    boxes = random(3, 4, 5)
    write_case(f"{right}/scan_slices", scan_slices(), [({"x": boxes, "start": L(1), "end": L(3), "axis": L(a)}, {"y": boxes[:, 1:3] if a == 0 else boxes[:, :, 1:3]}) for a in (0, 1, -1)])
    onnx.save(scan_body_wrong(), f"{refused}/scan_entered.onnx")
    np.savez(f"{refused}/scan_entered.npz", x=random(2, 6), i=L(0).reshape(1, 1), u=random(1, 1))
    for op in ("Identity", "Transpose", "Neg"):
        runs = []
        for k in (3, 1, 0):
            s = F([[1.5 * 2 ** (i + 1)] for i in range(k)]).reshape(k, 1) * (-1 if op == "Neg" else 1)
            runs.append(({"k": np.array(k, np.int64)}, {"y": np.concatenate([s, F([[.5]]), s]), "last": F([1.5 * 2 ** k])}))
        write_case(f"{right}/collects_{op.lower()}", collects(op), runs)
    for op, gates in (("RNN", 1), ("GRU", 3), ("LSTM", 4)):
        m, expect = both_ways(op, gates)
        write_case(f"{right}/both_ways_{op.lower()}", m, [({"k": np.array(k, np.int64)}, expect(k)) for k in (3, 1)])
    for n in (4, 7, 40):
        for reducer in ("ReduceMax", "ReduceSum", "ArgMax"):
            v = np.random.default_rng(n).permutation(20).astype(F) * F(.37)
            c = np.concatenate([v[v > F(.15 * i)] for i in range(n)])
            y = {"ReduceMax": c.max(), "ReduceSum": c.sum(dtype=np.float64).astype(F), "ArgMax": np.array(c.argmax(), np.int64)}[reducer]
            write_case(f"{right}/pieces_{n}_{reducer.lower()}", pieces(n, reducer), [({"x": v}, {"y": y, "d": c * c})])
    write_case(f"{right}/ends_by_condition", conditions(), [({"x": x.repeat(2).reshape(3, 4)}, {"y": x.repeat(2).reshape(3, 4) * F(.25)})])
    for where in ("loop", "body"):
        onnx.save(wrong_condition(where), f"{refused}/condition_of_{where}.onnx")
        np.savez(f"{refused}/condition_of_{where}.npz", x=F([1, 2, 3]), n=np.array(2, np.int64), go=F(1))
    onnx.save(counted_training(), f"{to}/counted.onnx")
    onnx.save(chosen_rows(), f"{to}/chosen.onnx")


if __name__ == "__main__":
    main(sys.argv[1])
