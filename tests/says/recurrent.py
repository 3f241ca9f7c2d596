# SPDX-License-Identifier: Apache-2.0
"""RNN, GRU, LSTM: activation_alpha and activation_beta, one value for each activation that takes one, in order, through both directions; and everything else that
they may have, together: directions, layout, lengths, clipping, biases, initial states, peepholes, coupled gates."""
import random
import numpy as np
from says import T, agrees, h, model, refused

# function of x, alpha, beta; how many of the two it takes; what they are unless given
ACTIVATIONS = {
    "Relu": (lambda x, a, b: np.maximum(x, 0), 0, 0, 0),
    "Tanh": (lambda x, a, b: np.tanh(x), 0, 0, 0),
    "Sigmoid": (lambda x, a, b: 1 / (1 + np.exp(-x)), 0, 0, 0),
    "Softsign": (lambda x, a, b: x / (1 + abs(x)), 0, 0, 0),
    "Softplus": (lambda x, a, b: np.log1p(np.exp(x)), 0, 0, 0),
    "LeakyRelu": (lambda x, a, b: np.where(x >= 0, x, a * x), 1, 0.01, 0),
    "ThresholdedRelu": (lambda x, a, b: np.where(x >= a, x, 0), 1, 1, 0),
    "Elu": (lambda x, a, b: np.where(x >= 0, x, a * np.expm1(x)), 1, 1, 0),
    "HardSigmoid": (lambda x, a, b: np.clip(a * x + b, 0, 1), 2, 0.2, 0.5),
    "Affine": (lambda x, a, b: a * x + b, 2, 1, 0),
    "ScaledTanh": (lambda x, a, b: a * np.tanh(b * x), 2, 1, 1),
}


def functions(names, alpha, beta):
    alpha, beta = list(alpha), list(beta)
    for name in names:
        f, takes, a, b = ACTIVATIONS[name]
        a = alpha.pop(0) if takes > 0 and alpha else a
        b = beta.pop(0) if takes > 1 and beta else b
        yield lambda x, f=f, a=a, b=b: f(x, a, b)


def cell(op, f, x, w, r, b=None, h0=0, c0=0, p=None, clip=np.inf, before=0, coupled=0):
    """One direction over x[t, i]: the states [t, h], the last cell state. before: linear_before_reset; coupled: input_forget. What h() of an LSTM takes is not clipped,
    as in ONNX Runtime."""
    n = r.shape[1]
    h_, c, out = np.zeros(n) + h0, np.zeros(n) + c0, []
    wb, rb = np.split(b if b is not None else np.zeros(2 * len(w)), 2)
    pi, po, pf = np.split(p if p is not None else np.zeros(3 * n), 3)
    f = [lambda v, g=g: g(np.clip(v, -clip, clip)) for g in f[:2]] + list(f[2:3])
    for row in x:
        g = w @ row + wb
        if op == "RNN":
            h_ = f[0](g + r @ h_ + rb)
        elif op == "GRU":
            z = f[0](g[:n] + r[:n] @ h_ + rb[:n])
            reset = f[0](g[n:2 * n] + r[n:2 * n] @ h_ + rb[n:2 * n])
            inner = reset * (r[2 * n:] @ h_ + rb[2 * n:]) if before else r[2 * n:] @ (reset * h_) + rb[2 * n:]
            h_ = (1 - z) * f[1](g[2 * n:] + inner) + z * h_
        else:
            g = g + r @ h_ + rb
            i = f[0](g[:n] + pi * c)
            forget = 1 - i if coupled else f[0](g[2 * n:3 * n] + pf * c)
            c = forget * c + i * f[1](g[3 * n:])
            h_ = f[0](g[n:2 * n] + po * c) * f[2](c)
        out.append(h_)
    return np.array(out).reshape(-1, n), h_, c


def drawn(rng):
    op, gates, per = rng.choice([("RNN", 1, 1), ("GRU", 3, 2), ("LSTM", 4, 3)])
    directions = rng.choice([1, 2])
    names = [rng.choice(list(ACTIVATIONS)) for _ in range(per * directions)]
    constants = [[round(rng.uniform(0.2, 0.9), 2) for _ in range(sum(ACTIVATIONS[n][1] > k for n in names))] for k in (0, 1)]
    return op, gates, per, directions, names, [c[:rng.randint(0, len(c))] if rng.random() < 0.3 else c for c in constants]


def check_constants_of_activations():
    rng, nrng = random.Random(3), np.random.default_rng(3)
    x = nrng.standard_normal((2, 1, 2)).astype(np.float32)
    nodes, constants, outputs, want = [], {}, {}, []
    for k in range(24):
        op, gates, per, directions, names, (alpha, beta) = drawn(rng)
        w, r = (nrng.standard_normal((directions, 2 * gates, 2)).astype(np.float32) for _ in "wr")
        given = {"activation_alpha": alpha, "activation_beta": beta}
        constants |= {f"w{k}": w, f"r{k}": r}
        outputs[f"y{k}"] = T.FLOAT
        nodes.append(h.make_node(op, ["x", f"w{k}", f"r{k}"], [f"y{k}"], hidden_size=2, activations=names, direction="bidirectional" if directions == 2 else "forward",
                                 **{name: v for name, v in given.items() if v}))
        f = list(functions(names, alpha, beta))
        rows = [cell(op, f[d * per:(d + 1) * per], x[::-1, 0] if d else x[:, 0], w[d], r[d])[0][::-1 if d else 1] for d in range(directions)]
        want.append(np.stack(rows, 1)[:, :, None, :].astype(np.float32))
    agrees(model(nodes, {"x": x}, outputs, constants), {"x": x}, want)


def everything(rng, nrng, steps, batch, inputs, n):
    """A node's attributes and operands {name: array}, and what it gives: y, y_h, y_c."""
    op, gates, per = rng.choice([("RNN", 1, 1), ("GRU", 3, 2), ("LSTM", 4, 3)])
    direction = rng.choice(["forward", "reverse", "bidirectional"])
    directions = 1 + (direction == "bidirectional")
    normal = lambda *shape: nrng.standard_normal(shape).astype(np.float32)
    v = {"x": normal(steps, batch, inputs), "w": normal(directions, gates * n, inputs), "r": normal(directions, gates * n, n)}
    for name, value in (("b", normal(directions, 2 * gates * n)), ("l", nrng.integers(0, steps + 1, batch).astype(np.int32)), ("h", normal(directions, batch, n))) + \
            ((("c", normal(directions, batch, n)), ("p", normal(directions, 3 * n))) if op == "LSTM" else ()):
        if rng.random() < 0.5:
            v[name] = value
    names = [rng.choice(["Tanh", "Sigmoid", "Relu", "HardSigmoid", "Softsign"]) for _ in range(per * directions)]
    attrs = {"hidden_size": n, "direction": direction, "activations": names, "layout": rng.choice([0, 0, 1])}
    for name, of, value in (("clip", None, 0.7), ("linear_before_reset", "GRU", 1), ("input_forget", "LSTM", 1)):
        if of in (None, op) and rng.random() < 0.5:
            attrs[name] = value
    f = list(functions(names, (), ()))
    y, last = np.zeros((steps, directions, batch, n), np.float32), np.zeros((2, directions, batch, n), np.float32)
    for d in range(directions):
        for k in range(batch):
            length = int(v["l"][k]) if "l" in v else steps
            turn = -1 if direction == "reverse" or d else 1
            start = {name: v[of][d, k] for name, of in (("h0", "h"), ("c0", "c")) if of in v}
            own = {name: v[name][d] for name in "bp" if name in v}
            states, *last[:, d, k] = cell(op, f[d * per:(d + 1) * per], v["x"][:length, k][::turn], v["w"][d], v["r"][d], **start, **own, clip=attrs.get("clip", np.inf),
                                          before=attrs.get("linear_before_reset"), coupled=attrs.get("input_forget"))
            y[:length, d, k] = states[::turn]
    if attrs["layout"]:
        for name in set(v) & set("xhc"):
            v[name] = np.ascontiguousarray(np.swapaxes(v[name], 0, 1))
        y, last = y.transpose(2, 0, 1, 3), last.transpose(0, 2, 1, 3)
    return op, attrs, v, [y, *last][:3 if op == "LSTM" else 2]


def check_everything_together(count=12, seed=5):
    for k in range(count):
        rng, nrng = random.Random(seed + k), np.random.default_rng(seed + k)
        op, attrs, v, want = everything(rng, nrng, *rng.choice([(3, 2, 2, 3), (1, 1, 1, 1), (5, 1, 3, 2), (0, 2, 2, 2), (4, 3, 1, 5)]))
        names = ["x", "w", "r", "b", "l", "h", "c", "p"][:8 if op == "LSTM" else 6]
        results = ["y", "y_h", "y_c"][:len(want)]
        data = {name: v[name] for name in names if name in v and (rng.random() < 0.5 or name in "xl")}
        dims = {"x": ["b", "t", "i"] if attrs["layout"] else ["t", "b", "i"], "l": ["b"]} if k % 2 else {}
        m = model([h.make_node(op, [name if name in v else "" for name in names], results, **attrs)], data, dict.fromkeys(results, T.FLOAT),
                  {name: a for name, a in v.items() if name not in data}, dims=dims)
        agrees(m, data, want, what=f"seed {seed + k}: {op} {attrs}")


def check_lists_that_do_not_fit():
    x, w = np.ones((1, 1, 1), np.float32), np.ones((1, 1, 1), np.float32)
    for words, attrs in (("2 activations; 1 are expected", {"activations": ["Tanh", "Relu"]}), ("'activations' is 'Gelu'", {"activations": ["Gelu"]})):
        refused(model([h.make_node("RNN", ["x", "w", "w"], ["y"], hidden_size=1, **attrs)], {"x": x}, {"y": T.FLOAT}, {"w": w}), {"x": x}, words, levels=({"level": 0},))
