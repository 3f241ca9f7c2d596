# SPDX-License-Identifier: Apache-2.0
"""Einsum: every form of an equation, against numpy.einsum."""
import random
import numpy as np
from says import T, agrees, h, model, refused

WRITTEN = ["ii", "ii->i", "iij", "aab,b", "aab,b->a", "ij->", "ij->ji", "->", ",->", ",", "i,", "i,j", "i,i", "ij,jk", "kj,ji", "ba", "Ba,aB", "...", "...->...",
           "...ij->...ji", "i...->...", "...i,...i", "...ij,...jk->...ik", "i...j,j...->i...", "...ii", "...ii->...i", "i...i->i...", "a...,b...->ab...",
           "b...,b...", "ij, jk -> ik", " i j , j k ", "ijk,ikl,il->j", "i,j,k", "...,...", "...a,...", "ij...,jk...->ik...", "abc,cd,def->abef", "aa,aa", "aa,aa->", "aaa"]


def equations(seed, n):
    """Those written out, then drawn ones: two to four letters, up to three operands, an ellipsis here and there, with and without a result."""
    yield from WRITTEN
    rng = random.Random(seed)
    for _ in range(n):
        letters = rng.sample("abcXYz", rng.randint(1, 4))
        terms = ["".join(rng.choices(letters, k=rng.randint(0, 3))) for _ in range(rng.randint(1, 3))]
        ellipsis = rng.random() < 0.5
        if ellipsis:
            terms = [t[:(at := rng.randint(0, len(t)))] + "..." + t[at:] if rng.random() < 0.7 else t for t in terms]
        used = sorted(set("".join(terms)) - {"."})
        result = "".join(rng.sample(used, rng.randint(0, len(used))))
        yield ",".join(terms) + ("" if rng.random() < 0.4 else "->" + ("..." if "..." in ",".join(terms) else "") + result)


def operands(equation, seed):
    """Sizes of 2 to 4 for each letter; an axis of 1 where it broadcasts; up to two axes for '...', the first of which may be missing or 1."""
    rng = np.random.default_rng(seed)
    size = {c: int(rng.integers(2, 5)) for c in equation if c.isalpha()}
    extra = [int(n) for n in rng.integers(2, 4, 2)][:int(rng.integers(0, 3))]
    shapes = []
    for term in equation.split("->")[0].replace(" ", "").split(","):
        ones = {c for c in term if c.isalpha() and term.count(c) == 1 and rng.random() < 0.15}
        shape = []
        for part in term.replace("...", ".").strip():
            if part == ".":
                own = [1 if rng.random() < 0.3 else n for n in extra]
                shape += own[int(rng.integers(0, 2)) if own else 0:]
            else:
                shape.append(1 if part in ones else size[part])
        shapes.append(tuple(shape))
    return [rng.integers(-3, 4, s).astype(np.float32) for s in shapes]


def cases(seed, n):
    for k, equation in enumerate(equations(seed, n)):
        ops = operands(equation, seed + k)
        try:
            yield equation, ops, np.einsum(equation, *ops)
        except ValueError:  # numpy does not take it either
            continue


def whole(seed=1, n=120, names=False):
    """All of them in one model; with `names` the dims are symbols, each one's own or shared by its letter."""
    nodes, inputs, want, dims, outputs = [], {}, [], {}, {}
    for k, (equation, ops, result) in enumerate(cases(seed, n)):
        ins = [f"x{k}_{i}" for i in range(len(ops))]
        nodes.append(h.make_node("Einsum", ins, [f"y{k}"], equation=equation))
        inputs.update(zip(ins, ops))
        outputs[f"y{k}"] = T.FLOAT
        want.append(np.asarray(result, np.float32))
        if names:
            dims.update((name, [f"{name}_{a}" for a in range(np.ndim(v))]) for name, v in zip(ins, ops))
    return model(nodes, inputs, outputs, dims=dims), inputs, want


def check_fixed_sizes():
    agrees(*whole(), tol=1e-5)


def check_integers():
    m, inputs, want = whole(5, 20)
    for v in (*m.graph.input, *m.graph.output):
        v.type.tensor_type.elem_type = T.INT32
    agrees(m, {k: v.astype(np.int32) for k, v in inputs.items()}, [w.astype(np.int32) for w in want])


def check_open_sizes():
    for k, (equation, ops, result) in enumerate(cases(2, 12)):
        inputs = {f"x{i}": v for i, v in enumerate(ops)}
        dims = {name: [f"{name}_{a}" for a in range(np.ndim(v))] for name, v in inputs.items()}
        m = model([h.make_node("Einsum", list(inputs), ["y"], equation=equation)], inputs, {"y": T.FLOAT}, dims=dims)
        agrees(m, inputs, [np.asarray(result, np.float32)], tol=1e-5, what=f"'{equation}' {[v.shape for v in ops]}", levels=({"level": 2},))


def check_what_is_no_equation():
    x = {"a": np.ones((2, 3), np.float32), "b": np.ones((3, 4), np.float32)}
    for equation, words in (("ij,jk->ii", "twice"), ("ij,jk->il", "in no operand"), ("ij", "does not fit"), ("ij,jk,kl", "does not fit"), ("i,jk", "does not fit"),
                            ("ij,ij", "has the sizes"), ("ii,jk", "different sizes"), ("......ij,jk", "does not fit"), ("...ij,jk->...->ij", "cannot be read"),
                            ("i...,...k->ik", "has none"), ("ij,jk-", "cannot be read"), ("i1,1k", "does not fit")):
        refused(model([h.make_node("Einsum", ["a", "b"], ["y"], equation=equation)], x, {"y": T.FLOAT}), x, words, levels=({"level": 0},))
    open_dims = model([h.make_node("Einsum", ["a", "b"], ["y"], equation="ij,ij")], x, {"y": T.FLOAT}, dims={"a": ["p", "q"], "b": ["r", "s"]})
    refused(open_dims, x, "")
