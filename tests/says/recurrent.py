# SPDX-License-Identifier: Apache-2.0
"""activation_alpha and activation_beta of RNN, GRU, LSTM: one value for each activation that takes one, in order, through both directions."""
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


def cell(op, f, x, w, r):
    """One direction over x[t, i]: the states [t, h]; no biases, peepholes, clipping."""
    n = r.shape[1]
    h_, c, out = np.zeros(n), np.zeros(n), []
    for row in x:
        g = w @ row
        if op == "RNN":
            h_ = f[0](g + r @ h_)
        elif op == "GRU":
            z = f[0](g[:n] + r[:n] @ h_)
            reset = f[0](g[n:2 * n] + r[n:2 * n] @ h_)
            h_ = (1 - z) * f[1](g[2 * n:] + r[2 * n:] @ (reset * h_)) + z * h_
        else:
            g = g + r @ h_
            i, o, forget = (f[0](g[k * n:(k + 1) * n]) for k in range(3))
            c = forget * c + i * f[1](g[3 * n:])
            h_ = o * f[2](c)
        out.append(h_)
    return np.array(out)


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
        rows = [cell(op, f[d * per:], x[::-1, 0] if d else x[:, 0], w[d], r[d])[::-1 if d else 1] for d in range(directions)]
        want.append(np.stack(rows, 1)[:, :, None, :].astype(np.float32))
    agrees(model(nodes, {"x": x}, outputs, constants), {"x": x}, want)


def check_lists_that_do_not_fit():
    x, w = np.ones((1, 1, 1), np.float32), np.ones((1, 1, 1), np.float32)
    for words, attrs in (("2 activations; 1 are expected", {"activations": ["Tanh", "Relu"]}), ("'activations' is 'Gelu'", {"activations": ["Gelu"]})):
        refused(model([h.make_node("RNN", ["x", "w", "w"], ["y"], hidden_size=1, **attrs)], {"x": x}, {"y": T.FLOAT}, {"w": w}), {"x": x}, words, levels=({"level": 0},))
