#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random training steps beside PyTorch: small networks with losses, optimizers and options at values that nobody chose. Needs PyTorch and onnx.

usage: random_steps.py BUILD [--seed S] [--count N] [--keep DIR] [--verbose]

Each seed draws a network, a loss, an optimizer, what goes with it (clipping, accumulation, schedule, averages, loss scale, frozen parameters) and batches of
0 to 5 samples, some with labels ignored and some that are not finite. The reference is PyTorch in float64 with torch.optim; the loss and each state may be off by
4e-5 of the largest value and by twenty times what PyTorch's in float32 is. Prints "ok SEED WHAT", "not ok SEED WHAT: WHY", and "ok SEED WHAT # SKIP WHY" where
PyTorch refuses the optimizer's options. --keep keeps the models of what failed.
"""
import argparse, math, os, platform, random, sys, warnings

import numpy as np
import onnx
import torch
import torch.nn.functional as F
from onnx import TensorProto as T, helper as h, numpy_helper as nh

STEPS = 6
MARCHES = ("x86-64-v2", "x86-64-v3", "native") if platform.machine() == "x86_64" else ("native",)


class Network:
    """Nodes of ONNX and, beside them, what PyTorch computes: both are made by the same draw."""

    def __init__(self, r, rng):
        self.r, self.rng, self.nodes, self.init, self.made, self.train, self.buffers = r, rng, [], {}, [], True, set()

    def weight(self, name, *shape, scale=None):
        self.init[name] = (self.rng.standard_normal(shape) * (scale or 1 / math.sqrt(max(1, shape[0])))).astype("f4")
        return name

    def op(self, op, ins, f, **a):
        out = f"v{len(self.nodes)}"
        self.nodes.append(h.make_node(op, ins, [out], name=out, **a))
        self.made.append((out, [i for i in ins if i], f))
        return out

    def act(self, x):
        name, f = self.r.choice((("Relu", torch.relu), ("Tanh", torch.tanh), ("Sigmoid", torch.sigmoid), ("Softplus", F.softplus), ("Elu", F.elu),
                                 ("Identity", lambda v: v)))
        return self.op(name, [x], lambda a, x: f(x))

    def norm(self, x, width, images):
        kind = self.r.choice(("batch", "layer", "none", "none"))
        if kind == "none" or (kind == "layer" and images):
            return x
        s, b = self.weight("s", width), self.weight("sb", width)
        self.init["s"] = np.abs(self.init["s"]) + np.float32(.5)
        if kind == "layer":
            return self.op("LayerNormalization", [x, s, b], lambda a, x, s, b: F.layer_norm(x, (width,), s, b, 1e-5), axis=-1, epsilon=1e-5)
        momentum = self.r.choice((.9, .9, 0., 1.))
        self.init["rm"], self.init["rv"] = np.zeros(width, "f4"), np.ones(width, "f4")
        self.buffers = {"rm", "rv"}

        def batch(a, x, s, b, m, v):
            return F.batch_norm(x, a["rm"], a["rv"], s, b, self.train, 1 - momentum, 1e-5)
        return self.op("BatchNormalization", [x, s, b, "rm", "rv"], batch, momentum=momentum, epsilon=1e-5)

    def draw(self):
        kind = self.kind = self.r.choice(("dense", "dense", "tied", "embed", "rows", "images", "pooled"))
        C = self.classes = self.r.choice((1, 2, 3, 5))
        H = self.r.choice((1, 2, 3, 7))
        if kind in ("dense", "tied"):
            D = self.r.choice((1, 2, 4, 17))
            self.shape, self.axis = (D,), 1
            x = self.norm("x", D, False)
            if kind == "tied":
                w = self.weight("w", D, H)
                x = self.act(self.op("MatMul", [x, w], lambda a, x, w: x @ w))
                x = self.op("MatMul", [x, self.op("Transpose", [w], lambda a, w: w.T, perm=[1, 0])], lambda a, x, w: x @ w)
                H = D
            else:
                x = self.act(self.op("Gemm", [x, self.weight("w", H, D), self.weight("b", H)], lambda a, x, w, b: x @ w.T + b, transB=1))
            return self.op("Gemm", [x, self.weight("o", H, C), self.weight("ob", C)], lambda a, x, w, b: x @ w + b)
        if kind in ("embed", "rows"):
            n = self.r.choice((1, 2, 3))
            table = self.weight("table", 6, H)
            self.shape, self.axis = (n,), 1 if kind == "embed" else 2
            x = self.op("Gather", [table, "x"], lambda a, t, x: t[x], axis=0)
            if kind == "embed":
                x = self.op("ReduceMean", [x], lambda a, x: x.mean(1), axes=[1], keepdims=0)
            return self.op("MatMul", [self.act(x), self.weight("o", H, C)], lambda a, x, w: x @ w)
        ci, hw, k = self.r.choice((1, 2, 3)), self.r.choice((1, 2, 3, 5)), self.r.choice((1, 2, 3, 5))
        pad = self.r.choice((0, k // 2, k - 1))
        if hw + 2 * pad < k:
            pad = k - 1
        self.shape, self.axis = (ci, hw, hw), 1
        x = self.norm("x", ci, True)
        stride = self.r.choice((1, 2, 3))
        x = self.op("Conv", [x, self.weight("w", C if kind == "images" else H, ci, k, k), self.weight("b", C if kind == "images" else H)],
                    lambda a, x, w, b: F.conv2d(x, w, b, stride, pad), pads=[pad] * 4, strides=[stride] * 2)
        x = self.act(x)
        if kind == "images":
            return x
        x = self.op("GlobalAveragePool", [x], lambda a, x: x.mean((2, 3), keepdim=True))
        x = self.op("Flatten", [x], lambda a, x: x.flatten(1))
        return self.op("MatMul", [x, self.weight("o", H, C)], lambda a, x, w: x @ w)

    def model(self, y):
        free = [self.r.choice(("N", "N", 2))] + list(self.shape)
        self.fixed = free[0] if isinstance(free[0], int) else None
        t = T.INT64 if self.kind in ("embed", "rows") else T.FLOAT
        g = h.make_graph(self.nodes, "g", [h.make_tensor_value_info("x", t, free)], [h.make_tensor_value_info(y, T.FLOAT, None)],
                         [nh.from_array(v, k) for k, v in self.init.items()])
        return h.make_model(g, opset_imports=[h.make_opsetid("", 17)], ir_version=8).SerializeToString()

    def run(self, a, x):
        v = {**a, "x": x}
        for out, ins, f in self.made:
            v[out] = f(a, *[v[i] for i in ins])
        return v[self.made[-1][0]]


def weights(r, n):
    w = [r.choice((0, .25, 1, 2, 3)) for _ in range(n)]
    return (w if r.random() < .8 else [0] * n)


def a_loss(r, classes, axis, rank):
    """(text, function of (y, t), target: classes, floats, ones or probabilities)), with the classes along `axis`."""
    listed = lambda w: "\\,".join(map(str, w))
    tensor = lambda w, y: torch.tensor(w, dtype=y.dtype)
    reduction = r.choice(("mean", "mean", "sum", "batchmean", "none"))

    def reduced(each, rows):
        return {"mean": lambda: each.mean(), "none": lambda: each.mean(), "sum": lambda: each.sum(), "batchmean": lambda: each.sum() / rows}[reduction]()
    text = "" if reduction == "mean" else f",reduction={reduction}"
    kind = r.choice(("cross_entropy", "cross_entropy", "cross_entropy", "nll", "mse", "l1", "smooth_l1", "huber", "bce_with_logits", "focal", "kl"))
    if kind in ("cross_entropy", "nll"):
        w = weights(r, classes) if r.random() < .5 else None
        ls = r.choice((0, 0, .1, 1.)) if kind == "cross_entropy" else 0
        ignore = r.choice((-100, 0))
        prob = kind == "cross_entropy" and r.random() < .25
        options = f"axis={axis}" + (f",weight={listed(w)}" if w else "") + (f",label_smoothing={ls}" if ls else "") + text
        options += ",target_type=float32" if prob else f",ignore_index={ignore}" if ignore != -100 else ""
        how = {"batchmean": "sum", "none": "mean"}.get(reduction, reduction)

        def f(y, t):
            rows = y.shape[0]
            y, t = y.movedim(axis, 1), t.movedim(axis, 1) if prob else t
            ww = tensor(w, y) if w else None
            if kind == "nll":
                v = F.nll_loss(y, t, ww, ignore_index=ignore, reduction=how)
            elif prob:
                v = F.cross_entropy(y, t, ww, reduction=how, label_smoothing=ls)
            else:
                v = F.cross_entropy(y, t, ww, ignore_index=ignore, reduction=how, label_smoothing=ls)
            return v / rows if reduction == "batchmean" else v
        return f"{kind}:{options}", f, "probabilities" if prob else ("classes", ignore)
    if kind in ("mse", "l1"):
        g = F.mse_loss if kind == "mse" else F.l1_loss
        return f"{kind}:{text[1:]}".rstrip(":"), lambda y, t: reduced(g(y, t, reduction="none"), y.shape[0]), "floats"
    if kind in ("smooth_l1", "huber"):
        b = r.choice((0, 1e-6, .5, 1, 1e6)) if kind == "smooth_l1" else r.choice((1e-6, .5, 1, 1e6))
        g = (lambda y, t: F.smooth_l1_loss(y, t, beta=b, reduction="none")) if kind == "smooth_l1" else (lambda y, t: F.huber_loss(y, t, delta=b, reduction="none"))
        return f"{kind}:{'beta' if kind == 'smooth_l1' else 'delta'}={b}{text}", lambda y, t: reduced(g(y, t), y.shape[0]), "floats"
    if kind == "bce_with_logits":
        w, p = (weights(r, classes) if r.random() < .4 else None), (weights(r, classes) if r.random() < .4 else None)
        if axis == 1 and rank > 2:
            w = p = None
        options = ",".join(([f"weight={listed(w)}"] if w else []) + ([f"pos_weight={listed(p)}"] if p else []) + ([text[1:]] if text else []))
        return f"{kind}:{options}".rstrip(":"), lambda y, t: reduced(F.binary_cross_entropy_with_logits(y, t, tensor(w, y) if w else None, pos_weight=tensor(p, y) if p else None,
                                                                                              reduction="none"), y.shape[0]), "ones"
    if kind == "focal":
        a, g = r.choice((-1, 0, .25, 1)), r.choice((0, .5, 1, 2, 3))

        def f(y, t):
            p, ce = torch.sigmoid(y), F.binary_cross_entropy_with_logits(y, t, reduction="none")
            q = p * t + (1 - p) * (1 - t)
            v = ce * (1 - q) ** g
            return reduced((a * t + (1 - a) * (1 - t)) * v if a >= 0 else v, y.shape[0])
        return f"{kind}:alpha={a},gamma={g}{text}", f, "ones"
    log = r.random() < .5

    def f(y, t):
        return reduced(F.kl_div(y, t, reduction="none", log_target=log), y.shape[0])
    return f"kl:log_target={int(log)}{text}", f, "log" if log else "probabilities"


def an_optimizer(r):
    o = torch.optim
    lr = r.choice((0, 1e-3, .1, 1))
    wd = r.choice((0, 0, .1, 1))
    mx = r.random() < .2
    common = dict(lr=lr, weight_decay=wd, maximize=mx)
    kind = r.choice(("sgd", "adam", "adamw", "adadelta", "adagrad", "rmsprop"))
    if kind == "sgd":
        m = r.choice((0, .5, .99))
        n = m > 0 and r.random() < .4
        k = dict(common, momentum=m, dampening=0 if n else r.choice((0, .5, .99)), nesterov=n)
        return kind, o.SGD, k, k
    if kind in ("adam", "adamw"):
        b1, b2 = r.choice((0, .3, .9)), r.choice((0, .5, .999))
        k = dict(common, eps=r.choice((0, 1e-8, 1)), amsgrad=r.random() < .4)
        return kind, o.Adam if kind == "adam" else o.AdamW, dict(k, betas=(float(b1), float(b2))), dict(k, beta1=b1, beta2=b2)
    if kind == "adadelta":
        k = dict(common, rho=r.choice((0, .5, .99)), eps=r.choice((1e-6, 1)))
        return kind, o.Adadelta, k, k
    if kind == "adagrad":
        k = dict(common, lr_decay=r.choice((0, .5)), initial_accumulator_value=r.choice((0, .5)), eps=r.choice((1e-10, .1)))
        return kind, o.Adagrad, k, k
    k = dict(common, alpha=r.choice((.5, .99)), eps=r.choice((1e-8, .1)), momentum=r.choice((0, .5, .99)), centered=r.random() < .4)
    return kind, o.RMSprop, k, k


def a_schedule(r):
    """(text, factor of the base at t updates)."""
    kind = r.choice(("none", "none", "constant", "step", "multistep", "cosine", "restarts", "linear"))
    if kind == "none":
        return None, lambda base, t: base
    warm = r.choice((0, 0, 1, 3))
    if kind == "constant":
        text, f = "", lambda b, t: b
    elif kind == "step":
        n, g = r.choice((1, 2)), r.choice((0, .5, 1))
        text, f = f"size={n},gamma={g}", lambda b, t: b * g ** (t // n)
    elif kind == "multistep":
        g = r.choice((0, .5))
        text, f = f"milestones=1/2/4,gamma={g}", lambda b, t: b * g ** sum(t >= m for m in (1, 2, 4))
    elif kind in ("cosine", "restarts"):
        n, low, k = r.choice((1, 3)), r.choice((0, .01)), r.choice((1, 2))

        def f(b, t):
            now, length = t, n
            while kind == "restarts" and now >= length:
                now, length = now - length, length * k
            return low + (b - low) * (1 + math.cos(math.pi * now / length)) / 2
        text = f"period={n},min={low}" + (f",growth={k}" if kind == "restarts" else "")
    else:
        s, e, n = r.choice((1 / 3, 1)), r.choice((0, 1, 2)), r.choice((1, 4))
        text, f = f"start={s},end={e},length={n}", lambda b, t: b * (s + (e - s) * min(t, n) / n)
    text = ",".join(p for p in (text, f"warmup={warm}" if warm else "", "unit=step") if p)
    return f"{kind}:{text}", lambda b, t: b * (t + 1) / warm if t < warm else f(b, t - warm)


def batch(r, rng, net, loss, target, scale):
    n = net.fixed or r.choice((0, 1, 1, 2, 3, 5))
    x = rng.integers(0, 6, (n, *net.shape)) if net.kind in ("embed", "rows") else (rng.standard_normal((n, *net.shape)) * scale).astype("f4")
    bad = False
    if x.dtype.kind == "f" and x.size and r.random() < .1:
        x.reshape(-1)[0] = r.choice((np.inf, np.nan, 1e10))
        bad = True
    with torch.no_grad():
        a = {k: torch.tensor(v.astype("f8")) for k, v in net.init.items()}
        was, net.train = net.train, False
        y = net.run(a, torch.tensor(x if x.dtype.kind == "i" else x.astype("f8"))).shape
        net.train = was
    ax = net.axis if net.axis < len(y) else len(y) - 1
    rest = tuple(d for i, d in enumerate(y) if i != ax)
    if isinstance(target, tuple):
        t = rng.integers(0, y[ax], rest)
        how = r.choice(("none", "some", "all", "none"))
        if how != "none":
            t[(rng.random(rest) < .5) | (how == "all")] = target[1]
    elif target == "floats":
        t = rng.standard_normal(y).astype("f4")
    elif target == "ones":
        t = (rng.random(y) < .5).astype("f4") if r.random() < .7 else rng.random(y).astype("f4")
    else:
        t = rng.random(y).astype("f4") + 1e-3
        t /= t.sum(ax, keepdims=True)
        t = np.log(t) if target == "log" else t
    return x, t, bad


class Reference:
    """One run of PyTorch, in `dtype`."""

    def __init__(self, net, dtype, make, frozen):
        self.net, self.dtype = net, dtype
        self.a = {k: torch.tensor(v).to(dtype) for k, v in net.init.items()}
        self.names = [k for k in self.a if k not in net.buffers and k not in frozen]
        for k in self.names:
            self.a[k].requires_grad_(True)
        self.opt = make([self.a[k] for k in self.names])
        self.micro, self.t, self.skipped, self.ema, self.norm, self.sum = 0, 0, 0, {}, None, {}

    def value(self, v):
        t = torch.tensor(v)
        return t.to(self.dtype) if t.is_floating_point() else t

    def step(self, x, t, loss, o):
        self.net.train = True
        value = loss(self.net.run(self.a, self.value(x)), self.value(t))
        grads = torch.autograd.grad(value, [self.a[k] for k in self.names], allow_unused=True)
        for k, g in zip(self.names, grads):
            self.sum[k] = self.sum.get(k, 0) + (torch.zeros_like(self.a[k]) if g is None else g)
        self.micro += 1
        if self.micro == o["accumulate"]:
            self.update(o)
        return float(value)

    def update(self, o):
        grads = {k: g / o["accumulate"] for k, g in self.sum.items()}
        self.micro, self.sum = 0, {}
        for k, g in grads.items():
            self.a[k].grad = g
        if not all(bool(g.isfinite().all()) for g in grads.values()):
            self.skipped, self.norm = self.skipped + 1, None
            return
        if o["clip"] is not None:
            self.norm = float(torch.nn.utils.clip_grad_norm_([self.a[k] for k in self.names], o["clip"]))
        for g in self.opt.param_groups:
            g["lr"] = o["schedule"](o["lr"], self.t)
        self.opt.step()
        self.t += 1
        if o["ema"] is not None:
            for k in self.names:
                p = self.a[k].detach()
                self.ema[k] = p.clone() if k not in self.ema else self.ema[k] * o["ema"] + p * (1 - o["ema"])

    def states(self, o):
        out = {k: v.detach().double().numpy() for k, v in self.a.items()}
        for k in self.names:
            for slot, v in self.opt.state.get(self.a[k], {}).items():
                if slot != "step" and v is not None:
                    out[f"optimizer.{slot}.{k}"] = v.double().numpy()
        out.update({f"ema.{k}": v.double().numpy() for k, v in self.ema.items()})
        out["train.step"], out["train.skipped"] = np.array(self.t), np.array(self.skipped)
        if self.norm is not None:
            out["train.norm"] = np.array(self.norm)
        return {k: v.copy() for k, v in out.items()}


def differs(name, got, want, also):
    got, want, also = (np.asarray(v, np.float64) for v in (got, want, also))
    if got.shape != want.shape:
        return f"{name}: dims {got.shape}, not {want.shape}"
    with np.errstate(all="ignore"):
        if (np.abs(want) > 1e37).any() or (np.abs(also) > 1e37).any():
            return None                                       # f32 ends there
        finite = want[np.isfinite(want)]
        allowed = 4e-5 * np.abs(finite).max(initial=0) + 20 * np.abs(also - want) + 1e-7
        same = (np.abs(got - want) <= allowed) | (np.isnan(got) & np.isnan(want)) | (got == want)
        same |= ~np.isfinite(want) & np.isfinite(also)        # where PyTorch's own two disagree
        same |= np.isfinite(want) & ~np.isfinite(also)
    if same.all():
        return None
    k = int(np.argmin(same.reshape(-1)))
    return f"{name}[{k}] is {got.reshape(-1)[k]:.7g}, not {want.reshape(-1)[k]:.7g} (float32: {also.reshape(-1)[k]:.7g})"


def one(tccc, seed, verbose):
    r, rng = random.Random(seed), np.random.default_rng(seed)
    net = Network(r, rng)
    y = net.draw()
    model = net.model(y)
    rank = {"dense": 2, "tied": 2, "embed": 2, "rows": 3, "images": 4, "pooled": 2}[net.kind]
    text, loss, target = a_loss(r, net.classes, net.axis, rank)
    kind, cls, torch_options, options = an_optimizer(r)
    o = dict(lr=torch_options["lr"], accumulate=r.choice((1, 1, 1, 2, 3)), clip=r.choice((None, None, None, 1e-30, 1e-3, 1, math.inf)), ema=r.choice((None, None, .01, .5, .999)))
    schedule, o["schedule"] = a_schedule(r)
    names = [k for k in net.init if k not in net.buffers]
    frozen = set(r.sample(names, 1)) if len(names) > 1 and r.random() < .2 else set()
    scale = r.choice((None, None, None, "1024", "dynamic:init=4,interval=2"))
    level = r.choice((0, 1, 2, 3))
    more = dict(level=level, march=r.choice(MARCHES))
    more.update({k: v for k, v in dict(clip_norm=o["clip"], ema=o["ema"], schedule=schedule, loss_scale=scale).items() if v is not None})
    if o["accumulate"] > 1:
        more["accumulate"] = o["accumulate"]
    if frozen:
        more["freeze"] = sorted(frozen)
    show = lambda v: str(int(v)) if isinstance(v, bool) else repr(v)
    how = f"{kind}:" + ",".join(f"{k}={show(v)}" for k, v in options.items())
    what = f"{net.kind} classes={net.classes} shape={net.shape} batch={net.fixed} {text} | {how} | {more}"

    def references():
        return [Reference(net, d, lambda p: cls(p, **torch_options), frozen) for d in (torch.float64, torch.float32)]
    try:
        exact, single = references()
    except ValueError as e:
        return what + f" # SKIP {e}", None
    try:
        step = tccc.train(model, loss=text, optimizer=how, threads=1, **more)
    except tccc.Error as e:
        return what, f"compile: {e}"
    done = 0
    for i in range(STEPS):
        x, t, bad = batch(r, rng, net, loss, target, r.choice((1, 1, 1, 0, 100)))
        where = f"step {i} of {x.shape}{' not finite' if bad else ''}"
        try:
            want, also = exact.step(x, t, loss, o), single.step(x, t, loss, o)
        except (ValueError, RuntimeError) as e:
            try:
                got = step(x, t)
                return what, f"{where}: gives {got}, PyTorch: {e}"
            except tccc.Error as mine:
                if verbose:
                    print("   refused by both:", str(mine)[:150], "|", e)
                done += 1
                return what, None
        try:
            got = step(x, t)
            got = got[0] if isinstance(got, tuple) else got
        except tccc.Error as e:
            return what, f"{where}: {e}"
        why = differs("loss", got, want, also)
        if not why and exact.skipped != single.skipped:       # gradients that overflow in float32 alone: from here the two are different runs
            return what, None
        a, b = exact.states(o), single.states(o)
        have = set(v.name for v, _ in step.states())
        for name in a:
            if why or name not in have:
                break
            why = differs(name, step.state(name), a[name], b[name])
        missing = [k for k in a if k not in have]
        if verbose:
            print(f"   {where}: {got} {want}", missing or "")
        if why:
            return what, f"{where}: {why}"
        if missing:
            return what, f"{where}: no state {missing}"
    return what, None


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("build")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--count", type=int, default=20)
    p.add_argument("--keep")
    p.add_argument("--verbose", action="store_true")
    a = p.parse_args()
    sys.path.insert(0, os.path.join(a.build, "python"))
    os.environ.setdefault("TCCC_LIBDIR", a.build)
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    import tccc
    wrong = 0
    for seed in range(a.seed, a.seed + a.count):
        what, why = one(tccc, seed, a.verbose)
        print(f"{'not ok' if why else 'ok'} {seed} {what}{': ' + why if why else ''}", flush=True)
        wrong += why is not None
        if why and a.keep:
            os.makedirs(a.keep, exist_ok=True)
            net = Network(random.Random(seed), np.random.default_rng(seed))
            with open(os.path.join(a.keep, f"{seed}.onnx"), "wb") as f:
                f.write(net.model(net.draw()))
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
