# SPDX-License-Identifier: Apache-2.0
"""Convolutions, their transposes, pooling and gradients over sizes below, at and above their windows.
usage: windows.py BUILD TMP [--full] [--seed N] [--only TEXT]     prints a line a case, as TAP

A case is a model of many windows that were drawn together (window, stride, rate, pads of each side, groups, channels above and below blocks, rounding of
sizes), over one picture whose sizes are symbols, run at many sizes; or over one picture of each size, which takes other code. What is expected is summed
up here, in float64. Buffers end at a page that nobody may touch."""
import itertools, json, os, random, shutil, subprocess, sys
import numpy as np
from onnx import TensorProto as T, helper as h, numpy_helper as nh, save

SMALL = [(1, 1), (7, 1), (1, 6), (2, 2), (2, 3), (3, 5), (5, 4)]
LARGE = [(6, 7), (9, 8), (13, 15), (16, 17), (20, 33)]
TOLERANCE = {"f32": 2e-4, "f64": 1e-9, "f16": 6e-3, "bf16": 5e-2, "i8": 0}
ONNX = {"f32": T.FLOAT, "f64": T.DOUBLE, "f16": T.FLOAT16, "bf16": T.BFLOAT16}


class Window:
    """A window over two axes; what it gives is `out` of sizes, and reach - pads is the least size that it fits in."""

    def __init__(self, r, padded, pool=False):
        self.k = [r.choice([1, 2, 3, 3, 4, 5, 7]), r.choice([1, 2, 3, 3, 5, 5, 7])]
        self.s = [r.choice([1, 1, 1, 2, 3]) for _ in "hw"]
        self.d = [1, 1] if pool else [r.choice([1, 1, 1, 2, 3]) for _ in "hw"]
        self.reach = [(k - 1) * d + 1 for k, d in zip(self.k, self.d)]
        most = [k - 1 for k in (self.k if pool else self.reach)]
        even = r.random() < .5
        self.p = [m // 2 if even else r.randint(0, m) for m in most]
        self.q = [m - m // 2 if even else r.randint(0, m) for m in most]
        if padded:      # fits into a single point
            self.q = [max(q, n - 1 - p) for p, q, n in zip(self.p, self.q, self.reach)]
        self.least = [max(1, n - p - q) for n, p, q in zip(self.reach, self.p, self.q)]

    def square(self, r):
        k, d, s = r.choice([(3, 1, 1), (3, 2, 1), (5, 1, 1), (5, 2, 1), (7, 1, 1), (7, 1, 2), (3, 1, 2)])
        self.k, self.d, self.s, self.reach = [k, k], [d, d], [s, s], [(k - 1) * d + 1] * 2
        self.p = self.q = [(k - 1) * d // 2] * 2
        self.least = [1, 1]

    def attrs(self):
        return dict(kernel_shape=self.k, strides=self.s, dilations=self.d, pads=self.p + self.q)

    def out(self, sizes, ceil=False):
        o = [n + p + q - reach for n, p, q, reach in zip(sizes, self.p, self.q, self.reach)]
        o = [-(-n // s) + 1 if ceil else n // s + 1 for n, s in zip(o, self.s)]
        return [n - 1 if ceil and (n - 1) * s >= size + p else n for n, s, size, p in zip(o, self.s, sizes, self.p)]

    def taps(self, x, fill, ceil=False):
        """For each tap (number, what each result reads)."""
        out = self.out(x.shape[2:], ceil)
        room = [max(q, (n - 1) * s + reach - size - p) for n, s, reach, size, p, q in zip(out, self.s, self.reach, x.shape[2:], self.p, self.q)]
        x = np.pad(x, [(0, 0), (0, 0)] + list(zip(self.p, room)), constant_values=fill)
        for t in itertools.product(*map(range, self.k)):
            at = tuple(slice(i * d, i * d + (n - 1) * s + 1, s) for i, d, n, s in zip(t, self.d, out, self.s))
            yield t, x[(slice(None), slice(None)) + at]


class Conv:
    def __init__(self, r, channels, padded):
        self.w = Window(r, padded)
        if padded and r.random() < .4:      # as networks have them
            self.w.square(r)
            self.groups, self.out = 1, channels
            self.shape = [channels, channels] + self.w.k
            return
        groups = r.choice([1, 1, 1, 2, channels]) if channels > 1 and channels % 2 == 0 else r.choice([1, channels])
        out = r.choice([1, 3, 8, 16, 24, 33])
        self.groups, self.out = groups, -(-out // groups) * groups if groups < channels else channels * r.choice([1, 1, 2])
        self.shape = [self.out, channels // groups] + self.w.k

    def node(self, dtype, i):
        op = "ConvInteger" if dtype == "i8" else "Conv"
        return [h.make_node(op, ["x", f"w{i}"], [f"c{i}"], group=self.groups, **self.w.attrs())]

    def expected(self, x, w):
        n, g = x.shape[0], self.groups
        y = 0
        for (a, b), v in self.w.taps(x, 0):
            v = v.reshape(n, g, -1, *v.shape[2:])
            y = y + np.einsum("ngchw,gkc->ngkhw", v, w[:, :, a, b].reshape(g, -1, w.shape[1]))
        return y.reshape(n, -1, *y.shape[3:])

    def gradient(self, x, w, dy):
        """Of the weights."""
        n, g, dw = x.shape[0], self.groups, np.zeros_like(w)
        dy = dy.reshape(n, g, -1, *dy.shape[2:])
        for (a, b), v in self.w.taps(x, 0):
            dw[:, :, a, b] = np.einsum("ngchw,ngkhw->gkc", v.reshape(n, g, -1, *v.shape[2:]), dy).reshape(w.shape[:2])
        return dw


class Transposed(Conv):
    def __init__(self, r, channels, padded):
        super().__init__(r, channels, padded)
        w = self.w
        w.p, w.q = list(w.p), list(w.q)
        self.shape = [channels, self.out // self.groups] + w.k
        most = [max(0, n - 1) for n in w.reach]
        w.p = [r.randint(0, m // 2) for m in most]
        w.q = [r.randint(0, m // 2) for m in most]
        self.more = [r.randint(0, s - 1) for s in w.s]
        w.least = [1, 1]

    def node(self, dtype, i):
        return [h.make_node("ConvTranspose", ["x", f"w{i}"], [f"c{i}"], group=self.groups, output_padding=self.more, **self.w.attrs())]

    def expected(self, x, w):
        n, g, c, out = x.shape[0], self.groups, x.shape[1], self.w
        whole = [(size - 1) * s + reach + m for size, s, reach, m in zip(x.shape[2:], out.s, out.reach, self.more)]
        y = np.zeros([n, g, self.out // g] + whole)
        xs = x.reshape(n, g, c // g, *x.shape[2:])
        for a, b in itertools.product(*map(range, out.k)):
            part = np.einsum("ngchw,gck->ngkhw", xs, w[:, :, a, b].reshape(g, c // g, -1))
            at = tuple(slice(i * d, i * d + (size - 1) * s + 1, s) for i, d, size, s in zip((a, b), out.d, x.shape[2:], out.s))
            y[(Ellipsis,) + at] += part
        y = y.reshape(n, -1, *whole)
        return y[:, :, out.p[0]:whole[0] - out.q[0], out.p[1]:whole[1] - out.q[1]]


class Pool:
    def __init__(self, r, channels, padded):
        self.w, self.op, self.ceil = Window(r, padded, True), r.choice(["MaxPool", "AveragePool"]), r.random() < .4
        self.all = self.op == "AveragePool" and not self.ceil and r.random() < .5
        self.shape = None

    def node(self, dtype, i):
        a = self.w.attrs()
        if self.op == "AveragePool":
            a["count_include_pad"] = int(self.all)
        return [h.make_node(self.op, ["x"], [f"c{i}"], ceil_mode=int(self.ceil), **a)]

    def expected(self, x, w):
        if self.op == "MaxPool":
            return np.max([v for _, v in self.w.taps(x, -np.inf, self.ceil)], axis=0)
        n = len(list(self.w.taps(x, 0))) if self.all else sum(v for _, v in self.w.taps(np.ones_like(x), 0, self.ceil))
        return sum(v for _, v in self.w.taps(x, 0, self.ceil)) / n


KINDS = {"convolution": Conv, "transposed": Transposed, "pool": Pool}


def rounded(a, dtype):
    if dtype == "f16":
        return a.astype(np.float16).astype(np.float64)
    if dtype == "bf16":
        bits = a.astype(np.float32).view(np.uint32)
        return ((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32).astype(np.float64)
    return a.astype(np.float64)


def values(r, shape, dtype, weight=False):
    if dtype == "i8":
        return r.integers(-7 if weight else 0, 8, shape).astype(np.int8 if weight else np.uint8)
    return r.standard_normal(shape).astype(np.float64 if dtype == "f64" else np.float32)


class Failed(Exception):
    pass


def tool(build, *args, env=()):
    p = subprocess.run([f"{build}/{args[0]}", *args[1:]], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={**os.environ, "TCCRT_GUARD": "1", **dict(env)})
    if p.returncode:
        raise Failed(f"{' '.join(args[:1])} ended with {p.returncode}: {p.stdout.strip()[-200:]}")


class Case:
    """Windows over pictures: of sizes that are symbols (open), or one input for each of them."""

    def __init__(self, kind, seed, dtype, channels, is_open, padded, count, sizes):
        r = random.Random(f"{kind} {seed} {dtype} {channels} {padded}")
        self.name = f"{kind} {dtype} {channels} channels {'open' if is_open else 'fixed'} {'padded ' if padded else ''}seed {seed}"
        self.dtype, self.channels, self.open, self.rng = dtype, channels, is_open, np.random.default_rng(seed)
        self.items = [KINDS[kind](r, channels, padded) for _ in range(count)]
        least = [max(i.w.least[a] for i in self.items) for a in range(2)]
        self.sizes = [s for s in sizes if s[0] >= least[0] and s[1] >= least[1]] or [tuple(least), (least[0] + 1, least[1] + 3)]
        self.weights = [values(self.rng, i.shape, dtype, True) if i.shape else None for i in self.items]
        self.weights = [w if w is None or dtype == "i8" else w / np.sqrt(np.prod(i.shape[1:])).astype(w.dtype) for w, i in zip(self.weights, self.items)]

    def inputs(self):
        return [("x", self.sizes)] if self.open else [(f"x{h_}_{w}", [(h_, w)]) for h_, w in self.sizes]

    def windows(self, x, name):
        """What stands between a picture and the windows: nodes, and what they make."""
        return [], x

    def constants(self):
        return []

    def cast(self):
        return self.dtype in ("f16", "bf16")

    def model(self, path, whole=False):
        """whole: one result, of all of them one behind the other, for a loss."""
        x_type = T.UINT8 if self.dtype == "i8" else T.DOUBLE if self.dtype == "f64" else T.FLOAT
        y_type = T.INT32 if self.dtype == "i8" else x_type
        nodes, outs, wide = [], [], []
        for i, w in enumerate(self.weights):
            if w is not None and self.cast():
                nodes.append(h.make_node("Cast", [f"f{i}"], [f"w{i}"], to=ONNX[self.dtype]))
        for name, _ in self.inputs():
            x = name
            if self.cast():
                x = name + "c"
                nodes.append(h.make_node("Cast", [name], [x], to=ONNX[self.dtype]))
            more, x = self.windows(x, name)
            nodes += more
            for i, item in enumerate(self.items):
                for n in item.node(self.dtype, i):
                    n.input[0], y = x, f"y_{name}_{i}"
                    n.output[0] = y + "c" if self.cast() else y
                    nodes.append(n)
                if self.cast():
                    nodes.append(h.make_node("Cast", [y + "c"], [y], to=T.FLOAT))
                outs.append(y)
        if whole:
            for y in outs:
                nodes.append(h.make_node("Flatten", [y], [y + "f"], axis=1))
            nodes.append(h.make_node("Concat", [y + "f" for y in outs], ["y"], axis=1))
            outs = ["y"]
        ins = [h.make_tensor_value_info(n, x_type, ["N" if self.open else 2, self.channels] + (["H", "W"] if self.open else list(s[0]))) for n, s in self.inputs()]
        init = [nh.from_array(w, f"{'f' if self.cast() else 'w'}{i}") for i, w in enumerate(self.weights) if w is not None] + self.constants()
        g = h.make_graph(nodes, "g", ins, [h.make_tensor_value_info(y, y_type, None) for y in outs], init)
        save(h.make_model(g, opset_imports=[h.make_opsetid("", 22)], ir_version=10), path)

    def pictures(self, sizes):
        return values(self.rng, [2, self.channels, *sizes], self.dtype)

    def expected(self, x):
        q = [None if w is None else rounded(w, self.dtype) for w in self.weights]
        return [i.expected(rounded(x, self.dtype), w) for i, w in zip(self.items, q)]

    def run(self, build, tmp, flags):
        self.model(f"{tmp}/m.onnx")
        tool(build, "tccc", "-q", *flags, f"{tmp}/m.onnx", "-o", f"{tmp}/m.so")
        runs = [{"x": s} for s in self.sizes] if self.open else [{n: s[0] for n, s in self.inputs()}]
        for feed in runs:
            self.one(build, tmp, feed, flags)

    def one(self, build, tmp, feed, flags):
        args, want = ["--device=sim"] if flags in SIMULATED else [], []
        for name, sizes in feed.items():
            x = self.pictures(sizes)
            np.save(f"{tmp}/{name}.npy", x)
            args += ["--input", f"{name}={tmp}/{name}.npy"]
            want += [(sizes, i, y) for i, y in enumerate(self.expected(x))]
        shutil.rmtree(f"{tmp}/out", ignore_errors=True)
        tool(build, "tccc-run", f"{tmp}/m.so", "--threads", "1", *args, "--output-dir", f"{tmp}/out")
        for k, (sizes, i, y) in enumerate(want):
            self.compare(np.load(f"{tmp}/out/output_{k}.npy"), y, sizes, i)

    def compare(self, got, want, sizes, i):
        what = f"{sizes}: {type(self.items[i]).__name__} {vars(self.items[i].w)} {[(k, v) for k, v in vars(self.items[i]).items() if k != 'w']}"
        if got.shape != want.shape:
            raise Failed(f"{what}: {got.shape}, not {want.shape}")
        off = float(np.abs(got.astype(float) - want).max(initial=0))
        if not off <= TOLERANCE[self.dtype] * max(1.0, float(np.abs(want).max(initial=0))):
            raise Failed(f"{what}: off by {off:.3g}")


class Gradient(Case):
    """A step of descent at rate 1: what parameters lose is their gradient. The channels' scales, all 1, stand for the picture's: whatever is linear in
    a parameter p has p * dp = y * dy in sum, pools of both kinds too."""

    def __init__(self, *args):
        super().__init__(*args)
        self.name = "gradient of " + self.name

    def one(self, build, tmp, feed, flags):
        args, parts = [], []
        for name, sizes in feed.items():
            x = self.pictures(sizes)
            args += ["--data", f"{name}={tmp}/{name}.npy"]
            np.save(f"{tmp}/{name}.npy", x)
            parts.append((x, self.expected(x)))
        y = np.concatenate([v.reshape(2, -1) for _, vs in parts for v in vs], 1)
        target = self.rng.standard_normal(y.shape).astype(np.float32)
        np.save(f"{tmp}/target.npy", target)
        shutil.rmtree(f"{tmp}/ck", ignore_errors=True)
        tool(build, "tccc-train", f"{tmp}/m.so", *args, "--data", f"target={tmp}/target.npy", "--batch-size", "2", "--steps", "1", "--no-shuffle",
             "--threads", "1", "--checkpoint", f"{tmp}/ck")
        got, dy, at, whole = load(f"{tmp}/ck"), 2 * (y - target) / y.size, 0, [0.0] * len(self.items)
        want = [None if w is None else np.zeros(w.shape) for w in self.weights]
        for x, vs in parts:
            for i, v in enumerate(vs):
                d = dy[:, at:at + v[0].size].reshape(v.shape)
                at += v[0].size
                whole[i] += float((d * v).sum())
                if isinstance(self.items[i], Conv) and not isinstance(self.items[i], Transposed):
                    want[i] += self.items[i].gradient(x.astype(float), self.weights[i].astype(float), d)
        room = 1e-3 * float(np.abs(dy * y).sum()) + 3e-7
        off = abs(float((1 - got["scale"].astype(float)).sum()) - sum(whole))
        if not off <= room:
            raise Failed(f"{feed}: {[vars(i.w) for i in self.items]}: the picture's gradient is off by {off:.2g}, {room:.2g} is allowed")
        for i, w in enumerate(self.weights):
            if w is not None:
                self.compare_gradient(feed, i, w - got[f"w{i}"].astype(float), want[i], whole[i], room)

    def compare_gradient(self, feed, i, got, want, whole, room):
        off, allowed = float(np.abs(got - want).max()), 2e-3 * float(np.abs(want).max()) + 3e-7
        if isinstance(self.items[i], Transposed):
            off, allowed = abs(float((got * self.weights[i]).sum()) - whole), room
        if not off <= allowed:
            raise Failed(f"{feed}: {vars(self.items[i].w)} groups {self.items[i].groups} to {self.items[i].out}: gradient off by {off:.2g}, {allowed:.2g} is allowed")

    def windows(self, x, name):
        return [h.make_node("Mul", [x, "scale"], [name + "s"])], name + "s"

    def constants(self):
        return [nh.from_array(np.ones((self.channels, 1, 1), np.float32), "scale")]

    def run(self, build, tmp, flags):
        self.model(f"{tmp}/m.onnx", True)
        tool(build, "tccc", "-q", "--train", "--loss=mse", "--optimizer=sgd:lr=1", *flags, f"{tmp}/m.onnx", "-o", f"{tmp}/m.so")
        for feed in [{"x": s} for s in self.sizes] if self.open else [{n: s[0] for n, s in self.inputs()}]:
            self.one(build, tmp, feed, flags)


class Upsampled(Case):
    """Each point twice along both axes, in front of the windows: what padding reads beside them is no index."""

    def __init__(self, *args):
        super().__init__(*args)
        self.name = "upsampled " + self.name

    def windows(self, x, name):
        return [h.make_node("Resize", [x, "", "scales"], [name + "u"], mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor")], name + "u"

    def constants(self):
        return [nh.from_array(np.array([1, 1, 2, 2], np.float32), "scales")]

    def expected(self, x):
        return super().expected(x.repeat(2, 2).repeat(2, 3))


def load(folder):
    """The newest safetensors of a folder."""
    files = sorted(os.path.join(d, f) for d, _, fs in os.walk(folder) for f in fs if f.endswith(".safetensors"))
    tensors = {}
    for f in files:
        raw = open(f, "rb").read()
        n = int.from_bytes(raw[:8], "little")
        for name, t in json.loads(raw[8:8 + n]).items():
            if name != "__metadata__" and t["dtype"] == "F32":
                a, b = t["data_offsets"]
                tensors[name] = np.frombuffer(raw[8 + n + a:8 + n + b], np.float32).reshape(t["shape"])
    return tensors


LEVELS = [["-O2", "--march=x86-64-v4"], ["-O2", "--march=x86-64-v3"], ["-O3", "--march=x86-64-v2"], ["--exact", "--march=x86-64-v3"], ["-O0", "--march=x86-64-v2"], ["--target=cpu-split", "-O2", "--march=x86-64-v3"]]


SIMULATED = [["--target=cuda:sm_80"], ["--target=neuron:trn2"], ["--target=cuda:sm_90a"]]


def simulated(full, number):
    """Few, and small: simulators take their time. NeuronCores have no sizes that are symbols."""
    for kind in KINDS:
        for level in SIMULATED if full else SIMULATED[:2]:
            for is_open in [True, False] if "cuda" in level[0] else [False]:
                number += 1
                yield Case(kind, number, "f32", [16, 3, 8][number % 3], is_open, True, 6 if full else 2, SMALL if full else SMALL[:5]), level


def cases(full, seed):
    """(case, flags): each kind at each level, and each dtype and width at some."""
    n, number = (14, 6) if full else (7, 1), seed * 1000
    widths = [16, 3, 8, 32, 17, 1, 4]
    for round_ in range(n[1]):
        for kind in KINDS:
            for dtype in ["f32", "f16", "bf16", "f64", "i8"]:
                if dtype == "i8" and kind != "convolution" or dtype in ("f64",) and kind == "transposed":
                    continue
                for padded in [True, False] if dtype == "f32" or full else [True]:
                    for is_open in [True, False]:
                        for level in LEVELS if full else [LEVELS[number % len(LEVELS)]] + ([LEVELS[0]] if dtype == "f32" else []):
                            number += 1
                            width = 16 if dtype == "f32" and level is LEVELS[0] else widths[number % len(widths)]
                            few = SMALL + LARGE if is_open or full else SMALL + LARGE[:2]
                            yield Case(kind, number, dtype, width, is_open, padded, n[0] if is_open or full else 3, few), level
        for is_open in [True, False]:
            for channels in [8, 8, 3, 16]: # one window each: what several read is stored
                number += 1
                yield Upsampled("convolution", number, "f32", channels, is_open, True, 1, SMALL), LEVELS[number % 2]
            for level in LEVELS if full else LEVELS[:3]:
                number += 1
                width = 32 if level is LEVELS[0] else widths[number % len(widths)]
                yield Gradient("convolution", number, "f32", width, is_open, True, n[0] if is_open or full else 3, SMALL + LARGE[:3]), level
                if full or level is LEVELS[0 if is_open else 1]:
                    for kind in ["transposed", "pool"]:
                        yield Gradient(kind, number, "f32", width, is_open, True, 4, SMALL + LARGE[:2]), level
    yield from simulated(full, number)


def main():
    build, tmp = sys.argv[1:3]
    full, only = "--full" in sys.argv, sys.argv[sys.argv.index("--only") + 1] if "--only" in sys.argv else ""
    seed = int(sys.argv[sys.argv.index("--seed") + 1]) if "--seed" in sys.argv else 1
    share = [int(v) for v in sys.argv[sys.argv.index("--share") + 1].split("/")] if "--share" in sys.argv else [0, 1]
    todo = [c for c in cases(full, seed) if only in c[0].name + " " + " ".join(c[1])]
    todo = [c for i, c in enumerate(todo) if i % share[1] == share[0]]
    print(f"1..{len(todo)}", flush=True)
    for k, (case, level) in enumerate(todo):
        try:
            case.run(build, tmp, level)
            print(f"ok {k + 1} {case.name} {' '.join(level)}", flush=True)
        except Failed as f:
            print(f"not ok {k + 1} {case.name} {' '.join(level)}\n# {f}", flush=True)


if __name__ == "__main__":
    main()
