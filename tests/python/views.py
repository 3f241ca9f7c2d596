#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs of views, copies and writes, drawn at random, beside eager PyTorch: what looks at memory that is written to later, by whatever way, sees it, and a copy does not.

usage: views.py archives DIR [FIRST [COUNT]]     programs of torch.export in both IRs, with PyTorch's results, in the official suite's layout (tccc-run --test-suite DIR)
       views.py compile [FIRST [COUNT]]          under torch.compile; with --onnx exported to ONNX
       views.py show NUMBER

Each program is drawn while it runs, so that what is written fits; programs of BUNDLE numbers make one graph.
"""
import os
import random
import sys
import warnings

import torch

BUNDLE = 8
warnings.simplefilter("ignore")


def sizes_of(r, n, most=4):
    """n as a product of sizes."""
    found = []
    while len(found) < most - 1 and r.random() < 0.7:
        d = r.choice([k for k in range(1, n + 1) if n % k == 0]) if n else 0
        if not n:
            break
        found.append(d)
        n //= d
    return tuple(found + [n])


def axis(r, t):
    return r.randrange(-t.dim(), t.dim())


def a_slice(r, t):
    parts = []
    for n in t.shape:
        a, b = sorted((r.randint(0, n), r.randint(0, n)))
        parts.append(r.choice([":", ":", f"{a}:{max(b, a + (n > a))}", "::2", "-1:", f"{r.randrange(n)}" if n else ":", "None, :"]))
    return ", ".join(parts)


def strided(r, t):
    room = t.untyped_storage().size() // t.element_size()
    size, stride, last = [], [], r.randrange(max(room, 1))
    start = last
    for _ in range(r.randint(1, 2)):
        s, n = r.choice((1, 2, 3, 4)), r.randint(1, 3)
        n = max(1, min(n, (room - 1 - last) // s + 1))
        last += (n - 1) * s
        size.append(n)
        stride.append(s)
    return f"as_strided({tuple(size)}, {tuple(stride)}, {start})"


# What gives one more name, and what writes. Each gets the generator, a tensor and a second one; None: not of this tensor.
GIVES = [
    lambda r, t, u: f"reshape({sizes_of(r, t.numel())})", lambda r, t, u: f"reshape({sizes_of(r, t.numel())})", lambda r, t, u: f"view({sizes_of(r, t.numel())})", lambda r, t, u: "flatten()", lambda r, t, u: "ravel()",
    lambda r, t, u: t.dim() > 1 and f"flatten({r.randrange(t.dim() - 1)})", lambda r, t, u: t.dim() and f"transpose({axis(r, t)}, {axis(r, t)})",
    lambda r, t, u: t.dim() and f"transpose({axis(r, t)}, {axis(r, t)})", lambda r, t, u: f"permute({tuple(r.sample(range(t.dim()), t.dim()))})", lambda r, t, u: t.dim() == 2 and "t()",
    lambda r, t, u: t.dim() < 5 and f"unsqueeze({r.randint(-t.dim() - 1, t.dim())})", lambda r, t, u: "squeeze()", lambda r, t, u: t.dim() and f"squeeze({axis(r, t)})",
    lambda r, t, u: t.dim() and f"narrow({(k := r.randrange(t.dim()))}, {(s := r.randrange(max(t.shape[k], 1)))}, {r.randint(0, t.shape[k] - s)})",
    lambda r, t, u: t.dim() and f"movedim({axis(r, t)}, {axis(r, t)})", lambda r, t, u: t.dim() > 1 and f"diagonal({r.randint(-1, 1)})", lambda r, t, u: strided(r, t),
    lambda r, t, u: "detach()", lambda r, t, u: "contiguous()", lambda r, t, u: f"to(torch.{r.choice(('float32', 'float64', 'int64'))})", lambda r, t, u: f"to(torch.{r.choice(('float32', 'float64'))}, copy=True)",
    lambda r, t, u: "type_as({u})", lambda r, t, u: "clone()", lambda r, t, u: "mul(1)", lambda r, t, u: t.dim() and f"flip({axis(r, t)})", lambda r, t, u: t.numel() == u.numel() and "view_as({u})",
    lambda r, t, u: t.numel() == u.numel() and "reshape_as({u})", lambda r, t, u: t.dim() and t.shape[0] > 1 and f"unfold(0, 2, {r.randint(1, 2)})", lambda r, t, u: f"expand(2, *{tuple(t.shape)})",
    lambda r, t, u: t.dim() and t.shape[-1] % 2 == 0 and "unflatten(-1, (2, -1))",
]
LISTS = [
    lambda r, t, u: t.dim() and f"{{t}}.chunk({r.randint(1, 3)}, {axis(r, t)})", lambda r, t, u: t.dim() and f"{{t}}.split({r.randint(1, 3)}, {axis(r, t)})", lambda r, t, u: t.dim() and f"{{t}}.unbind({axis(r, t)})",
    lambda r, t, u: t.dim() and f"{{t}}.tensor_split({r.randint(1, 3)}, {axis(r, t)})", lambda r, t, u: t.dim() and (n := t.shape[(k := r.randrange(t.dim()))]) > 1 and f"{{t}}.split(({r.randint(1, n - 1)}, -1), {k})",
    lambda r, t, u: "torch.broadcast_tensors({t}, {u})", lambda r, t, u: "torch.atleast_2d({t}, {u})", lambda r, t, u: "torch.meshgrid({t}, {u}, indexing='ij')",
]
WRITES = [
    lambda r, t, u: f"add_({r.randint(1, 5)})", lambda r, t, u: "mul_(2)", lambda r, t, u: "zero_()", lambda r, t, u: f"fill_({r.randint(1, 5)})", lambda r, t, u: "copy_({u})", lambda r, t, u: "add_({u})",
    lambda r, t, u: "clamp_(-3, 3)", lambda r, t, u: f"masked_fill_({{t}} > {r.randint(0, 3)}, {r.randint(5, 9)})", lambda r, t, u: t.dim() and t.shape[0] and f"index_fill_(0, torch.tensor([{r.randrange(t.shape[0])}]), 7)",
    lambda r, t, u: t.dim() > 1 and f"transpose_({axis(r, t)}, {axis(r, t)})", lambda r, t, u: t.dim() == 2 and "t_()", lambda r, t, u: "squeeze_()", lambda r, t, u: t.dim() < 5 and "unsqueeze_(0)",
    lambda r, t, u: t.dim() and f"index_add_(0, torch.tensor([0]), {{t}}[:1] * 2)", lambda r, t, u: t.dim() and f"scatter_(0, torch.zeros_like({{t}}[:1], dtype=torch.long), 4)", lambda r, t, u: "relu_()",
]


def overlaps(t):
    """Are two of its elements one? What a write to them leaves is not defined."""
    places = torch.arange(t.untyped_storage().size() // t.element_size()).as_strided(t.shape, t.stride(), t.storage_offset())
    return places.unique().numel() < t.numel()


def partly_same(t, u):
    """Does u lie in the memory of t, but not element by element? What eager PyTorch reads while it writes depends on its loops then."""
    if t.untyped_storage().data_ptr() != u.untyped_storage().data_ptr() or (t.shape, t.stride(), t.storage_offset()) == (u.shape, u.stride(), u.storage_offset()):
        return False
    places = torch.arange(t.untyped_storage().size())
    return bool(torch.isin(*(places.as_strided(x.shape, [s * x.element_size() for s in x.stride()], x.storage_offset() * x.element_size()).reshape(-1) for x in (t, u))).any())


class Drawn:
    """A program's lines, and its values so far."""

    def __init__(self, number):
        self.r = random.Random(number)
        self.lines, self.values, self.count = [], {}, 0
        self.inputs = [torch.arange(24.0).reshape(self.r.choice(((4, 6), (2, 3, 4), (24,), (2, 12), (1, 4, 6)))) - 9, torch.arange(6.0).reshape(self.r.choice(((6,), (2, 3), (3, 1, 2))))]
        for k, x in enumerate(self.inputs):
            self.values[f"x{k}"] = x.clone()
        for k in range(2):
            self.do(f"a{k} = {{}}".format(self.r.choice((f"x{k}.clone()", f"x{k} * 1", f"(x{k} * 1).transpose(0, -1)", f"x{k}"))))
        while len(self.lines) < 12:
            self.step()
        names = [n for n in self.values if n[0] != "x"]
        self.results = ["a0", *self.r.sample(names[1:], min(len(names) - 1, 5))]

    def do(self, line):
        before = set(self.values)
        scope = dict(self.values, torch=torch)
        exec(line, scope)
        self.lines.append(line)
        self.values.update({n: v for n, v in scope.items() if isinstance(v, torch.Tensor)})
        return set(self.values) - before

    def step(self):
        r = self.r
        names = [n for n in self.values if n[0] != "x"]
        t, u = r.choice(names), r.choice(names)
        a, b, kind = self.values[t], self.values[u], r.random()
        if a.numel() > 200:
            return
        self.count += 1
        v = f"v{self.count}"
        if kind < 0.35:
            text = r.choice(GIVES)(r, a, b)
            line = text and f"{v} = {t}." + text.format(u=u)
        elif kind < 0.45:
            line = f"{v} = {t}[{a_slice(r, a)}]" if a.dim() else None
        elif kind < 0.55:
            text = r.choice(LISTS)(r, a, b)
            line = text and f"{v}, *w{self.count} = " + text.format(t=t, u=u)
            if line and r.random() < 0.7:
                line += f"; {v} = w{self.count}[-1] if w{self.count} else {v}"
        elif kind < 0.9:
            text = not overlaps(a) and r.choice(WRITES)(r, a, b)
            line = text and not ("{u}" in text and partly_same(a, b)) and f"{t}." + text.format(t=t, u=u)
            if line and r.random() < 0.1:
                line = f"with torch.no_grad(): {line}"
        else:
            line = f"{t}[{a_slice(r, a)}] = {r.choice((str(r.randint(1, 9)), u))}" if a.dim() and not overlaps(a) else None
            line = line if line and not (line.endswith(u) and partly_same(a, b)) else None
        if line:
            kept = {n: (x.clone(), x.stride()) for n, x in self.values.items()}
            try:
                self.do(line)
            except (RuntimeError, IndexError, ValueError, TypeError):
                assert all(torch.equal(self.values[n], x) for n, (x, _) in kept.items())

    def source(self, number):
        body = [f"def p{number}(x0, x1):", *self.lines, f"return {', '.join(self.results)}"]
        return body[0] + "\n    " + "\n    ".join(body[1:]) + "\n"


class Bundle(torch.nn.Module):
    """Programs of these numbers; copies: of copies of their inputs, which stay as they are."""

    def __init__(self, numbers, copies=False):
        super().__init__()
        self.copies = copies
        self.programs, self.inputs = [], []
        for n in numbers:
            drawn = Drawn(n)
            scope = {"torch": torch}
            exec(drawn.source(n), scope)
            self.programs.append(scope[f"p{n}"])
            self.inputs += drawn.inputs

    def forward(self, *inputs):
        if self.copies:
            inputs = [x.clone() for x in inputs]
        return [y for k, p in enumerate(self.programs) for y in p(inputs[2 * k], inputs[2 * k + 1])]


def bundles(first, count, **how):
    for b in range(first, first + count, BUNDLE):
        yield b, Bundle(range(b, min(b + BUNDLE, first + count)), **how)


def export(bundle):
    with torch.no_grad():
        return torch.export.export(bundle, tuple(x.clone() for x in bundle.inputs))


def archives(folder, first, count):
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "pt2"))
    from archive import write
    for b, bundle in bundles(first, count, copies=True):
        want = [y.clone(memory_format=torch.contiguous_format) for y in bundle(*[x.clone() for x in bundle.inputs])]
        try:
            program = export(bundle)
            write(os.path.join(folder, f"views_{b}"), program, bundle.inputs, want, "1e-6 1e-6")
            if b // BUNDLE % 4 == 0:
                core = program.run_decompositions()     # which PyTorch does not always do right
                want = [y.clone(memory_format=torch.contiguous_format) for y in core.module()(*[x.clone() for x in bundle.inputs])]
                write(os.path.join(folder, f"views_{b}.core"), core, bundle.inputs, want, "1e-6 1e-6")
        except Exception as e:         # PyTorch's exporter has no way for some of what eager does
            print(f"# {b}: {type(e).__name__}: {str(e).splitlines()[0][:150]}", flush=True)


def same(a, b):
    return len(a) == len(b) and all(x.shape == y.shape and x.dtype == y.dtype and torch.equal(x, y) for x, y in zip(a, b))


def found(bundle, call):
    """Results, and inputs afterwards."""
    given = [x.clone() for x in bundle.inputs]
    return [y.clone() for y in call(*given)] + given


REFUSALS = "results that share memory in a way", "writes to elements that may lie in one place"     # graphs that tccc leaves to eager PyTorch


def compiled(bundle, backend, **options):
    """The same under torch.compile; None: tccc refuses the graph, or PyTorch's own backend raises as well."""
    torch._dynamo.reset()
    try:
        with torch.no_grad():
            return found(bundle, torch.compile(bundle, backend=backend, dynamic=False, **options))
    except Exception as e:
        if backend != "aot_eager" and not any(text in str(e) for text in REFUSALS) and compiled(bundle, "aot_eager") is not None:
            raise


def compile_all(first, count):
    """Number of bundles that are wrong, and how many there are. Where PyTorch's own graphs give something else than eager, those are right."""
    import tccc.dynamo  # noqa: F401
    wrong = made = 0
    for b, bundle in bundles(first, count):
        got, want = compiled(bundle, "tccc", options=dict(level=0, fallback=False)), found(bundle, bundle)
        made += got is not None
        if got is not None and not same(got, want) and not same(got, compiled(bundle, "aot_eager")):
            wrong += 1
            print(f"not ok - programs {b}...: results {[k for k, (x, y) in enumerate(zip(got, want)) if not same([x], [y])]} of {len(want)}", flush=True)
    return wrong, made


def theirs(model, bundle):
    """ONNX Runtime's results: where they are ours, it is the exporter that has changed the program."""
    import onnxruntime
    session = onnxruntime.InferenceSession(model)
    return [torch.from_numpy(y) for y in session.run(None, {i.name: x.numpy() for i, x in zip(session.get_inputs(), bundle.inputs)})]


def onnx_all(first, count):
    import io
    import tccc
    wrong = 0
    for b, bundle in bundles(first, count):
        try:
            out = io.BytesIO()
            torch.onnx.export(bundle, tuple(x.clone() for x in bundle.inputs), out, dynamo=True, verbose=False)
        except Exception as e:
            print(f"# {b}: {type(e).__name__}", flush=True)
            continue
        try:
            model = tccc.compile(out.getvalue(), level=0)
        except tccc.InputError as e:
            print(f"# {b}: refused: {str(e).splitlines()[-1].strip()}", flush=True)
            continue
        got = list(model(*[x.clone() for x in bundle.inputs]))
        want = list(bundle(*[x.clone() for x in bundle.inputs]))
        if not same(got, want) and not same(got, theirs(out.getvalue(), bundle)):
            wrong += 1
            print(f"not ok - programs {b}... through ONNX", flush=True)
    return wrong


if __name__ == "__main__":
    what = sys.argv[1]
    if what == "show":
        print(Drawn(int(sys.argv[2])).source(sys.argv[2]))
    elif what == "archives":
        archives(sys.argv[2], *(int(a) for a in sys.argv[3:] or ("0",)), *([1000] if len(sys.argv) < 5 else []))
    else:
        numbers = [int(a) for a in sys.argv[2:] if a != "--onnx"] or [0, 1000]
        sys.exit(bool(onnx_all(*numbers) if "--onnx" in sys.argv else compile_all(*numbers)[0]))
