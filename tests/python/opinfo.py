#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch's operators with the arguments that PyTorch's own tests give them (the OpInfo database), in each type, beside eager PyTorch.

usage: opinfo.py WAY [--size=N] [--samples=K] [--types=f16,i8...] [--wild] [--part=K/N] [--share=PERCENT --seed=S] [--level=L] [NAME...]
       opinfo.py names

WAY: export      programs of torch.export (training IR)
     core        the same after run_decompositions()
     open        exported with each size open that the export leaves open
     compile     under torch.compile
     gradients   under torch.compile, with gradients of the floats, in double precision
     train       as training steps of the compiler's own gradients, in double precision

The arguments are of PyTorch's usual sizes (5 to 20), or of N, N + 1, N + 2 where --size says so; K of them (3) are taken of an operator in a type, spread over all. --share tries that part of the operators, chosen by the
seed. --wild puts NaN, infinities, zeros of both
signs and the integers' ends into them. Each operator is tried in a process of its own. All of an operator's calls are one program; one that is refused is halved. A result is wrong that lies
further off PyTorch's in double precision than eager PyTorch's does in the type, by a factor, and off eager's. Where PyTorch leaves signs or order open (eigenvectors), what its tests compare is compared.
"""
import argparse
import itertools
import json
import os
import random
import re
import signal
import sys
import tempfile
import time
import types
import unittest
import warnings

import torch
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException

if "expecttest" not in sys.modules:          # PyTorch's tests want it, the database does not
    sys.modules["expecttest"] = types.ModuleType("expecttest")
    sys.modules["expecttest"].TestCase = unittest.TestCase
warnings.simplefilter("ignore")
DTYPES = {"b": torch.bool, "u8": torch.uint8, "i8": torch.int8, "i16": torch.int16, "i32": torch.int32, "i64": torch.int64, "f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "f64": torch.float64,
          "c64": torch.complex64, "c128": torch.complex128}
WIDER = {torch.float16: torch.float64, torch.bfloat16: torch.float64, torch.float32: torch.float64, torch.complex64: torch.complex128, torch.complex32: torch.complex128}
BOUND = {torch.float16: 4e-3, torch.bfloat16: 2e-2, torch.complex32: 4e-3, torch.float32: 1e-5, torch.complex64: 1e-5, torch.float64: 1e-9, torch.complex128: 1e-9}
# Which of equal elements' places is given, PyTorch leaves open; it gives any number at poles of polygamma() of whole numbers.
PLACES_OPEN = re.compile(r"kthvalue|topk|^mode$|^(nan)?median$|^sort$|cummax|cummin")
# Eigenvalues' order is LAPACK's, so that sums of their powers are compared. Bessel functions of float64 PyTorch has to eight digits only (SciPy agrees with the C library).
SPECTRUM = re.compile(r"^linalg.eig(vals)?$")
LEFT_OPEN = {"polygamma": lambda dtype: not dtype.is_floating_point, "special.polygamma": lambda dtype: not dtype.is_floating_point,
             **{f"special.bessel_{name}": lambda dtype: dtype == torch.float64 for name in ("j0", "j1", "y0", "y1")},
             "nn.functional.soft_margin_loss": lambda dtype: dtype in (torch.float16, torch.bfloat16)}      # that is infinite where exp(x) is
GRADIENT_OPEN = {"nn.functional.hardsigmoid"}     # a sixth in float32 in eager PyTorch, in float64 where it is decomposed
MOST = 4000                                   # elements of a call's operands
RANDOM = re.compile(r"exponential|log_normal|cauchy|geometric|normal$|normal_|uniform|multinomial|rand|bernoulli|dropout|rrelu|empty|lowrank|^item$")
SECONDS = 240                                 # an operator's


def database():
    from torch.testing._internal.common_methods_invocations import op_db
    return op_db


def of_size(n):
    """PyTorch's tests have names for sizes."""
    for m in list(sys.modules.values()):
        if getattr(m, "__name__", "").startswith("torch.testing._internal") and isinstance(getattr(m, "S", None), int):
            for name, size in dict(XS=max(n - 1, 0), S=n, M=n + 1, L=n + 2).items():
                if hasattr(m, name):
                    setattr(m, name, size)


def flat(results):
    leaves = torch.utils._pytree.tree_leaves(results)
    return [r if isinstance(r, torch.Tensor) else torch.tensor(r) for r in leaves if isinstance(r, (torch.Tensor, bool, int, float, complex))]


def wild(t, r):
    """With values that are seldom tried, in place of some."""
    if not t.numel() or t.dim() == 0 and r.random() < 0.5:
        return t
    if t.dtype == torch.bool:
        return t
    if t.is_floating_point() or t.is_complex():
        odd = [float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1.0, -1.0, 0.5]
    else:
        odd = [torch.iinfo(t.dtype).min, torch.iinfo(t.dtype).max, 0, 1, -1 if t.dtype.is_signed else 2]
    flat_, count = t.detach().clone().reshape(-1), min(t.numel(), len(odd))
    for place, value in zip(r.sample(range(t.numel()), count), r.sample(odd, count)):
        flat_[place] = value
    return flat_.reshape(t.shape)


def widened(v):
    """A type or a tensor in double precision, what else it is as it is."""
    return WIDER.get(v, v) if isinstance(v, torch.dtype) else v.to(WIDER.get(v.dtype, v.dtype)) if isinstance(v, torch.Tensor) else v


class Call:
    """An operator with a sample's arguments, as a function of the tensors among them."""

    def __init__(self, op, sample, dtype):
        self.op, self.dtype, self.sample = op, dtype, sample
        leaves, self.tree = torch.utils._pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
        self.places = [k for k, v in enumerate(leaves) if isinstance(v, torch.Tensor)]
        self.leaves = [None if isinstance(v, torch.Tensor) else v for v in leaves]
        self.tensors = [leaves[k] for k in self.places]
        self.process = sample.output_process_fn_grad

    def of(self, *tensors, process=False):
        leaves = list(self.leaves)
        for k, t in zip(self.places, tensors):
            leaves[k] = t
        given, args, kwargs = torch.utils._pytree.tree_unflatten(leaves, self.tree)
        out = self.op(given, *args, **kwargs)
        if process and PLACES_OPEN.search(self.op.name) and isinstance(out, tuple):
            out = out[0]
        if process and SPECTRUM.search(self.op.name):
            w = out[0] if isinstance(out, tuple) else out
            return [w.sum(-1), (w * w).sum(-1), (w * w * w).sum(-1)]
        return flat(self.process(out) if process else out)

    def told(self):
        def text(v):
            return f"{short(v.dtype)}{list(v.shape)}" if isinstance(v, torch.Tensor) else repr(v)
        kwargs = [f"{k}={text(v)}" for k, v in self.sample.kwargs.items()]
        return f"{self.op.formatted_name}({', '.join([str(torch.utils._pytree.tree_map(text, self.sample.input)), *(str(torch.utils._pytree.tree_map(text, a)) for a in self.sample.args), *kwargs])})".replace("'", "")[:300]

    def exact(self):
        """Results in double precision; None where there are none, or it is that."""
        if not any(t.dtype in WIDER for t in self.tensors):
            return None
        try:
            given, args, kwargs = torch.utils._pytree.tree_map(widened, (self.sample.input, self.sample.args, self.sample.kwargs))
            wide = Call(self.op, type(self.sample)(given, args=args, kwargs=kwargs, output_process_fn_grad=self.process), self.dtype)
            return wide.of(*wide.tensors, process=True)
        except Exception:
            return None


def short(dtype):
    return next((k for k, d in DTYPES.items() if d == dtype), str(dtype))


def calls_of(op, dtype, way, options):
    """K of an operator's calls in a type that PyTorch takes, and always takes to the same."""
    r = random.Random(f"{op.formatted_name} {dtype}")
    torch.manual_seed(1)
    try:
        samples = list(itertools.islice(op.sample_inputs("cpu", dtype, requires_grad=False), 24))
    except Exception:
        return
    order = list(range(len(samples)))
    order = sorted(order, key=lambda k: (k * options.samples % max(len(samples), 1) >= options.samples, r.random()))
    found = 0
    for k in order:
        if found == options.samples:
            return
        call = Call(op, samples[k], dtype)
        if sum(t.numel() for t in call.tensors) > MOST or not call.tensors or any(t.layout != torch.strided or t.is_quantized for t in call.tensors):
            continue
        call.tensors = [t.detach().clone() for t in call.tensors]
        if options.wild:
            call.tensors = [wild(t, r) for t in call.tensors]
            leaves = list(call.leaves)
            for p, t in zip(call.places, call.tensors):
                leaves[p] = t
            call.sample.input, call.sample.args, call.sample.kwargs = torch.utils._pytree.tree_unflatten(leaves, call.tree)
        try:
            torch.manual_seed(1)
            first = call.of(*[t.clone() for t in call.tensors])
            torch.manual_seed(2)
            again = call.of(*[t.clone() for t in call.tensors])
        except Exception:
            continue
        if not first or any(t.numel() > 4 * MOST or t.layout != torch.strided or t.dtype == torch.complex32 for t in first) or not all(torch.equal(torch.nan_to_num(a), torch.nan_to_num(b)) for a, b in zip(first, again)):
            continue
        call.first = first
        found += 1
        yield call


# -- What is compared ---------------------------------------------------------------------------------------------------

def near(x, y, bound):
    if x.dtype != y.dtype or x.shape != y.shape:
        return False
    if not x.is_floating_point() and not x.is_complex():
        return torch.equal(x, y)
    return torch.allclose(x.to(torch.complex128), y.to(torch.complex128), bound, bound, equal_nan=True)


def no_further(got, want, exact):
    """Is it as far off double precision as eager PyTorch?"""
    if exact is None or got.shape != want.shape or got.dtype != want.dtype or exact.shape != want.shape or not want.is_floating_point() and not want.is_complex():
        return False
    g, w, e = got.to(torch.complex128), want.to(torch.complex128), exact.to(torch.complex128)
    odd = ~(g.isfinite() & w.isfinite() & e.isfinite())
    if not torch.equal(torch.nan_to_num(g[odd], 7e300, 8e300, 9e300), torch.nan_to_num(w[odd], 7e300, 8e300, 9e300)) and not torch.equal(g[odd].to(want.dtype), e[odd].to(want.dtype)):
        return False
    g, w, e = g[~odd], w[~odd], e[~odd]
    return not g.numel() or bool(((g - e).abs() <= 20 * (w - e).abs().max() + BOUND[want.dtype] * e.abs()).all())


def text_of(g, w):
    if (g.dtype, g.shape) != (w.dtype, w.shape):
        return f"{short(g.dtype)}{list(g.shape)} not {short(w.dtype)}{list(w.shape)}"
    if g.dtype in (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64):
        odd = g != w
    else:
        b = BOUND[g.dtype]
        odd = ~torch.isclose(g.to(torch.complex128), w.to(torch.complex128), b, b, equal_nan=True)
    where = odd.reshape(-1).nonzero().reshape(-1)[:4]
    return f"{int(odd.sum())} of {g.numel()}: {g.reshape(-1)[where].tolist()} not {w.reshape(-1)[where].tolist()} at {where.tolist()}"


def judge(call, got, want, exact):
    """What is wrong with the results; None: nothing."""
    if len(got) != len(want):
        return f"{len(got)} results, not {len(want)}"
    for k, (g, w) in enumerate(zip(got, want)):
        if w.is_complex() and not g.is_complex():
            g = torch.view_as_complex(g.contiguous())
        if not near(g, w, BOUND.get(w.dtype, 0)) and not no_further(g, w, exact[k] if exact and k < len(exact) else None):
            return f"{k}: {text_of(g, w)}"
    return None


# -- Ways ---------------------------------------------------------------------------------------------------------------

class Program(torch.nn.Module):
    def __init__(self, calls, process):
        super().__init__()
        self.calls, self.process = calls, process

    def forward(self, *tensors):
        out, tensors = [], list(tensors)
        for c in self.calls:
            given, tensors = tensors[:len(c.tensors)], tensors[len(c.tensors):]
            out.append(tuple(c.of(*given, process=self.process)))
        return tuple(out)


class Trained(torch.nn.Module):
    def __init__(self, calls):
        super().__init__()
        self.calls = calls
        self.p = torch.nn.ParameterList([torch.nn.Parameter(t.clone(), requires_grad=True) for c in calls for t in c.tensors if t.is_floating_point()])
        self.b = [t for c in calls for t in c.tensors if not t.is_floating_point()]
        for k, b in enumerate(self.b):
            self.register_buffer(f"b{k}", b)

    def forward(self, x):
        loss, p, b = 0, iter(self.p), iter(range(len(self.b)))
        for c in self.calls:
            given = [next(p) if t.is_floating_point() else getattr(self, f"b{next(b)}") for t in c.tensors]
            loss = loss + weighed(c.of(*given, process=True))
        return loss * x.sum()


def weighed(results):
    total = 0
    for k, y in enumerate(results):
        if y.is_complex():
            y = torch.view_as_real(y.resolve_conj())
        if y.is_floating_point():
            total = total + (y.double() * torch.sin(torch.arange(y.numel(), dtype=torch.float64).reshape(y.shape) * 1.7 + 0.3 + k)).sum()
    return total


class NotExported(Exception):
    pass


def exported(calls, way, process=False):
    tensors = tuple(t for c in calls for t in c.tensors)
    try:
        shapes = None
        if way == "open":
            shapes = (tuple({d: torch.export.Dim.AUTO for d in range(t.dim())} for t in tensors),)
        program = torch.export.export(Program(calls, process), tensors, dynamic_shapes=shapes, strict=False)
        return program.run_decompositions() if way == "core" else program
    except Exception as e:
        raise NotExported(f"{type(e).__name__}: {e}") from None


def run_program(calls, way, level):
    """Each call's results, by an artifact."""
    import tccc
    tensors = [t for c in calls for t in c.tensors]
    process = True
    program = exported(calls, way, process)
    model = tccc.compile(program, level=level)
    out = model(*[torch.view_as_real(t.resolve_conj()).contiguous() if t.is_complex() else t for t in tensors])
    out = list(out) if isinstance(out, (tuple, list)) else [out]
    return parted([torch.as_tensor(o) for o in out], calls)


def parted(out, calls):
    """A flat list by call."""
    counts = [len(c.want) for c in calls]
    return [out[sum(counts[:k]):sum(counts[:k + 1])] for k in range(len(calls))]


def as_inputs(program, tensors):
    """A program's graph, and what it is called with."""
    from torch.export.graph_signature import InputKind
    given, args = iter(tensors), []
    for spec in program.graph_signature.input_specs:
        args.append(next(given) if spec.kind == InputKind.USER_INPUT else program.constants.get(spec.target, program.state_dict.get(spec.target)))
    return program.graph_module, args


def compiled(calls, level, gradients):
    from tccc.dynamo import backend
    tensors = [t.clone().requires_grad_() if gradients and (t.is_floating_point()) else t for c in calls for t in c.tensors]
    gm, args = as_inputs(exported(calls, "export", True), tensors)
    with torch.set_grad_enabled(gradients):
        f = backend(gm, args, options=dict(level=level, fallback=False))
        out = list(f(*args))
    return out, tensors


def run_compiled(calls, level):
    return parted(compiled(calls, level, False)[0], calls)


def eager_gradients(call):
    xs = [t.clone().requires_grad_() if t.is_floating_point() else t for t in call.tensors]
    loss = weighed(call.of(*xs, process=True))
    wrt = [x for x in xs if x.requires_grad]
    return [g if g is not None else torch.zeros_like(x) for x, g in zip(wrt, torch.autograd.grad(loss, wrt, allow_unused=True))]


def run_gradients(calls, level):
    out, tensors = compiled(calls, level, True)
    loss = weighed_all(out, calls)
    wrt = [t for t in tensors if t.requires_grad]
    grads = [g if g is not None else torch.zeros_like(x) for x, g in zip(wrt, torch.autograd.grad(loss, wrt, allow_unused=True))]
    return parted(grads, calls)


def weighed_all(out, calls):
    total = 0
    for c in calls:
        mine, out = out[:c.count], out[c.count:]
        total = total + weighed(mine)
    return total


def run_trained(calls, level):
    import tccc
    module = Trained(calls)
    try:
        program = torch.export.export(module, (torch.ones(1, dtype=torch.float64),), strict=False)
    except Exception as e:
        raise NotExported(f"{type(e).__name__}: {e}") from None
    loss = program.graph_signature.user_outputs[0]
    step = tccc.train(program, loss=f"output:{loss}", optimizer="sgd:lr=1", level=level)
    step(torch.ones(1, dtype=torch.float64))
    after = step.state_dict()
    return parted([p.detach() - after[f"p.{k}"].to(p.dtype) for k, p in enumerate(module.p)], calls)


def prepare(calls, way):
    """What eager PyTorch gives; calls that it gives nothing for are left out."""
    kept = []
    for c in calls:
        try:
            if way in ("gradients", "train"):
                if c.op.name in GRADIENT_OPEN:
                    continue
                c.count = len(c.of(*c.tensors, process=True))
                c.want = eager_gradients(c)
                again = eager_gradients(c)
                if not all(torch.equal(torch.nan_to_num(a), torch.nan_to_num(b)) for a, b in zip(c.want, again)) or not all(w.isfinite().all() for w in c.want):
                    continue
            else:
                c.want = [t.detach() for t in c.of(*c.tensors, process=True)]
        except Exception as e:
            if os.environ.get("OPINFO_DEBUG"): print(c.told(), e)
            continue
        kept.append(c)
    return kept


def run(calls, way, level):
    if way == "compile":
        return run_compiled(calls, level)
    if way == "gradients":
        return run_gradients(calls, level)
    return run_trained(calls, level) if way == "train" else run_program(calls, way, level)


def reason(e):
    text = str(e)
    line = next((line for line in text.split("\n") if "node '" in line), text.split("\n")[0])
    return re.sub(r"^.*node '\w+' ", "", line).strip()[:200]


def attempt(calls, way, level, say):
    """Halves what is refused."""
    import tccc
    todo = [calls]
    while todo:
        some = todo.pop()
        say(kind="trying", calls=[c.told() for c in some])
        try:
            got = run(some, way, level)
        except Exception as e:
            if len(some) > 1:
                todo += [some[:len(some) // 2], some[len(some) // 2:]]
                continue
            kind = "not exported" if isinstance(e, (NotExported, DataDependentOutputException, DynamicOutputShapeException)) else "refused" if isinstance(e, (tccc.InputError, tccc.UsageError)) else "internal"
            say(kind=kind, dtype=short(some[0].dtype), call=some[0].told(), why=reason(e) if kind == "refused" else f"{type(e).__name__}: {str(e)[:300]}")
            continue
        for c, g in zip(some, got):
            wrong = judge(c, g, c.want, None if way in ("gradients", "train") else c.exact())
            say(kind="wrong" if wrong else "right", dtype=short(c.dtype), call=c.told(), why=wrong)


def one_operator(op, options, path):
    import tccc  # noqa: F401
    torch.set_num_threads(1)
    out = open(path, "a", buffering=1)

    def say(**what):
        out.write(json.dumps(what) + "\n")
    gradients = options.way in ("gradients", "train")
    calls = []
    for name, dtype in DTYPES.items():
        if name in options.types and dtype in op.dtypes and not LEFT_OPEN.get(op.name, lambda d: False)(dtype) and not (gradients and (not op.supports_autograd or dtype != torch.float64)):
            calls.append(prepare(list(calls_of(op, dtype, options.way, options)), options.way))
    real, pairs = [c for some in calls[:] for c in some if not c.dtype.is_complex], [c for some in calls for c in some if c.dtype.is_complex]
    for some in (real, pairs):
        if some:
            attempt(some, options.way, options.level, say)


def apart(op, options):
    """What an operator's process says."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "said")
        child = os.fork()
        if child == 0:
            try:
                os.dup2(os.open(os.path.join(folder, "err"), os.O_WRONLY | os.O_CREAT), 2)
                one_operator(op, options, path)
            except BaseException as e:
                with open(path, "a") as f:
                    f.write(json.dumps(dict(kind="internal", dtype="", call=op.formatted_name, why=f"the test: {type(e).__name__}: {e}")) + "\n")
            finally:
                os._exit(0)
        end = time.time() + SECONDS
        while True:
            done, status = os.waitpid(child, os.WNOHANG)
            if done or time.time() > end:
                break
            time.sleep(0.02)
        said = [json.loads(line) for line in open(path)] if os.path.exists(path) else []
        if not done:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        if not done or status:
            tried = [s for s in said if s["kind"] == "trying"]
            said.append(dict(kind="internal", dtype="", call=op.formatted_name, why=("no end" if not done else f"ended by {status}") + f": {tried[-1]['calls'] if tried else ''}"[:600]))
        return [s for s in said if s["kind"] != "trying"]


def warm(way):
    """What each operator's process would load by itself."""
    import tccc.dynamo  # noqa: F401
    x = torch.ones(2)
    program = torch.export.export(torch.nn.ReLU(), (x,), dynamic_shapes=(({0: torch.export.Dim.AUTO},)), strict=False)
    with tempfile.TemporaryDirectory() as folder:
        torch.export.save(program, os.path.join(folder, "model.pt2"))
    if way in ("core", "compile", "gradients"):
        program.run_decompositions()
        torch.compile(torch.nn.ReLU(), backend="aot_eager")(x)


KINDS = "right", "wrong", "internal", "refused", "not exported"


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("way", choices=["export", "core", "open", "compile", "gradients", "train", "names"])
    p.add_argument("names", nargs="*")
    p.add_argument("--size", type=int)
    p.add_argument("--samples", type=int, default=3)
    p.add_argument("--types", default=",".join(DTYPES))
    p.add_argument("--wild", action="store_true")
    p.add_argument("--part", default="0/1")
    p.add_argument("--share", type=float, default=100)
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--level", type=int, default=0)
    options = p.parse_intermixed_args()
    options.types = options.types.split(",")
    ops = [op for op in database() if not RANDOM.search(op.name) and (not options.names or op.formatted_name in options.names or op.name in options.names)]
    if options.way == "names":
        print("\n".join(op.formatted_name for op in ops))
        return 0
    if options.size is not None:
        of_size(options.size)
    warm(options.way)
    k, n = map(int, options.part.split("/"))
    ops = [op for op in ops if random.Random(f"{options.seed} {op.formatted_name}").random() * 100 < options.share]
    total, number = dict.fromkeys(KINDS, 0), 0
    for op in ops[k::n]:
        said = apart(op, options)
        count = {kind: sum(s["kind"] == kind for s in said) for kind in KINDS}
        for kind in KINDS:
            total[kind] += count[kind]
        bad = count["wrong"] or count["internal"]
        number += 1
        print(f"{'not ok' if bad else 'ok'} {number} - {op.formatted_name}: " + ", ".join(f"{count[kind]} {kind}" for kind in KINDS if count[kind]), flush=True)
        seen = {}
        for s in said:
            if s["kind"] != "right":
                seen.setdefault((s["kind"], re.sub(r"[\d.]+", "#", s["why"]) if s["kind"] not in ("wrong", "internal") else s["why"]), []).append(s)
        for (kind, _), some in seen.items():
            print(f"#   {kind}, {len(some)} ({' '.join(sorted({s['dtype'] for s in some}))}): {some[0]['why']}\n#      {some[0]['call']}", flush=True)
    print(f"1..{number}\n# " + ", ".join(f"{total[kind]} {kind}" for kind in KINDS))
    return bool(total["wrong"] or total["internal"])


if __name__ == "__main__":
    sys.exit(main())
