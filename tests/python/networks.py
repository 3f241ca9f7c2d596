#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Networks of the libraries that PyPI has, small and with random weights, exported as .pt2 and by torch.onnx, compiled, and beside PyTorch at two sizes.

usage: PYTHONPATH=BUILD/python networks.py [--onnx] [--all] [--write] [LIBRARY[/NAME]...]      seconds a network; setup-peers has the libraries

networks_of.py makes them; networks.list has a line for each that was looked at and how far it goes (the others are run with --all): `dynamic` (one artifact, every size open that differs), `batch` (one artifact, the first dim open),
`static` (an artifact a size), each as far as PyTorch's own exporter and the program that it wrote go; `none`, with PyTorch's or the library's own reason (as ONNX it is not run then). A line a network is
printed, `ok` or `not ok` with the largest difference, relative to the result's largest element (1e-3; what is beyond is held against PyTorch in double precision, too). Not ok is
also one that goes less far than its line says. Exit status 1: one is not ok. --onnx takes the networks by torch.onnx.export as well, --write prints the list anew.
"""
import contextlib
import copy
import importlib
import inspect
import os
import resource
import sys
import tempfile
import time
import traceback
import warnings

os.environ.update(HF_HUB_OFFLINE="1", CUDA_VISIBLE_DEVICES="", TOKENIZERS_PARALLELISM="false", OMP_NUM_THREADS="1")
import torch  # noqa: E402
import networks_of  # noqa: E402
import tccc  # noqa: E402

BOUND, LIMIT = 1e-3, 300      # LIMIT: seconds of CPU time a network
HERE = os.path.dirname(os.path.abspath(__file__))
FAR = ["none", "static", "batch", "dynamic"]


class Theirs(Exception):
    """PyTorch's or the library's fault: there is nothing to compile, or nothing to compare with."""


def leaves(x):
    """The tensors of a result, in order, whatever holds them."""
    return [v for v in torch.utils._pytree.tree_leaves(x) if isinstance(v, torch.Tensor)]


def prepare(net, inputs):
    """Heads of zeros get numbers, running statistics are those of what flows: else deep networks give zeros, and nothing is compared."""
    with torch.no_grad():
        for p in net.parameters():
            if p.is_floating_point() and not p.any():
                p.normal_(0, 0.02)
        norms = [m for m in net.modules() if isinstance(m, torch.nn.modules.batchnorm._BatchNorm) and m.track_running_stats]
        if norms:
            for m in norms:
                m.train()
                m.momentum = 1.0
            try:
                net(*inputs)
            except ValueError:             # one value a channel
                pass
    return net.eval()


def difference(ours, theirs):
    """The largest, relative to the largest element of the result that it is in."""
    ours, theirs = leaves(ours), leaves(theirs)
    assert len(ours) == len(theirs), f"{len(ours)} results, PyTorch {len(theirs)}"
    worst = 0.0
    for got, want in zip(ours, theirs):
        assert got.shape == want.shape, f"a result of {tuple(got.shape)}, PyTorch {tuple(want.shape)}"
        if want.is_complex():
            got, want = torch.view_as_real(got), torch.view_as_real(want)
        got, want = got.double(), want.double()
        assert torch.equal(got.isnan(), want.isnan()), "NaN where PyTorch has none, or the other way round"
        infinite = want.isinf() | got.isinf()
        assert torch.equal(got[infinite], want[infinite]), "an infinity that PyTorch has not"
        got, want = got[~infinite].nan_to_num(0), want[~infinite].nan_to_num(0)
        if want.numel():
            worst = max(worst, ((got - want).abs().max() / want.abs().max().clamp(min=1e-30)).item())
    return worst


def told(net, inputs):
    """PyTorch's results; they must say something."""
    with torch.no_grad():
        try:
            want, again = net(*inputs), net(*inputs)
        except Exception as e:
            raise Theirs(f"eager: {type(e).__name__}: {e}") from None
    if difference(again, want) > 0:
        raise Theirs("draws random numbers")
    if not leaves(want) or not any(w.numel() and w.to(torch.complex128 if w.is_complex() else torch.float64).abs().sum() > 0 for w in leaves(want)):
        raise Theirs("results are zeros")
    return want


def exact(net, inputs):
    """PyTorch in double precision, or None where the network can't."""
    try:
        with torch.no_grad():
            return copy.deepcopy(net).double()(*[x.double() if x.is_floating_point() else x for x in inputs])
    except Exception:
        return None


def export(net, first, second):
    """A program whose dims that differ are open; Theirs where PyTorch can't, or closes one of them."""
    variadic = any(p.kind == p.VAR_POSITIONAL for p in inspect.signature(net.forward).parameters.values())
    shapes = tuple({d: torch.export.Dim.AUTO for d in range(x.dim()) if x.shape[d] != y.shape[d]} for x, y in zip(first, second))
    try:
        with torch.no_grad():
            program = torch.export.export(net, first, dynamic_shapes=(shapes,) if variadic else shapes, strict=False)
            if any(shapes):
                program.module()(*second)
    except Exception as e:
        raise Theirs(f"torch.export: {type(e).__name__}: {' '.join(str(e).split())[:120]}") from None
    return program


def saved(program, folder, onnx):
    path = os.path.join(folder, "model.onnx" if onnx else "model.pt2")
    try:
        if onnx:
            torch.onnx.export(program, dynamo=True, verbose=False, external_data=False).save(path)
        else:
            torch.export.save(program, path)
    except Exception as e:
        raise Theirs(f"{'torch.onnx' if onnx else 'torch.export.save'}: {type(e).__name__}: {' '.join(str(e).split())[:120]}") from None
    return path


def used(program, inputs):
    """What an exporter leaves out of a signature is not given."""
    names = [n.name for n in program.graph.nodes if n.op == "placeholder"][-len(inputs):]
    live = {n.name for n in program.graph.nodes if n.op == "placeholder" and n.users}
    return [x for x, n in zip(inputs, names) if n in live]


def held(net, program, sizes, onnx):
    """The worst difference of one artifact at these sizes."""
    with tempfile.TemporaryDirectory() as folder:
        compiled, worst = tccc.compile(saved(program, folder, onnx), threads=1), 0.0
        for inputs in sizes:
            want = told(net, inputs)
            got = compiled(*(used(program, inputs) if onnx and len(compiled.inputs) < len(inputs) else inputs))
            error = difference(got, want)
            if error > BOUND:
                true = exact(net, inputs)
                if true is not None and difference(got, true) <= 2 * difference(want, true):
                    continue                 # PyTorch's float32 is as far from it
            worst = max(worst, error)
    return worst


def far(net, inputs, onnx):
    """How far it goes, the worst difference, why no farther."""
    why, big = "", inputs(3, 1)
    both = [("dynamic", (2, 0), (3, 1)), ("batch", (2, 0), (3, 0))]
    for how, one, other in both:
        first, second = inputs(*one), inputs(*other)
        if all(x.shape == y.shape for x, y in zip(first, second)) or how == "batch" and all(x.shape == y.shape for x, y in zip(big, second)):
            continue
        told(net, second)
        try:
            program = export(net, first, second)
            return how, held(net, program, (first, second), onnx), why
        except Theirs as e:
            why = why or str(e)
    worst = 0.0
    for size in ((2, 0), (1, 1)):
        x = inputs(*size)
        worst = max(worst, held(net, export(net, x, x), (x,), onnx))
    return "static", worst, why


def tried(name, onnx):
    """How far, and a text."""
    begin = time.time()
    torch.manual_seed(1)
    torch.set_num_threads(1)
    try:
        try:
            net, inputs = networks_of.make(name)
            prepare(net, inputs(2, 0))
            told(net, inputs(2, 0))
        except Exception as e:
            raise e if isinstance(e, Theirs) else Theirs(f"{type(e).__name__}: {' '.join(str(e).split())[:160]}") from None
        how, error, why = far(net, inputs, onnx)
    except Theirs as e:
        return "none", f"# {e}"
    except Exception as e:
        if os.environ.get("TRACE"):
            traceback.print_exc()
        return "bad", f"{type(e).__name__}: {' '.join(str(e).split())[:600]}"
    text = f"{error:.1e}, {time.time() - begin:.0f} s{' # ' + why if why else ''}"
    return (how, text) if error <= BOUND else ("bad", f"{how} {text}")


def apart(name, onnx):
    """In a process of its own, which has a limit of time."""
    out, into = os.pipe()
    child = os.fork()
    if not child:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        if not os.environ.get("TRACE"):
            os.dup2(1, 2)
        resource.setrlimit(resource.RLIMIT_CPU, (LIMIT, LIMIT))
        os.write(into, "\n".join(tried(name, onnx)).encode())
        os._exit(0)
    os.close(into)
    with os.fdopen(out) as f:
        said = f.read()
    status = os.waitpid(child, 0)[1]
    if not said:
        return "bad", f"ended with status {status}, of a limit of {LIMIT} s"
    return tuple(said.split("\n", 1))


def listed():
    """{name: how far it goes}."""
    with open(os.path.join(HERE, "networks.list"), encoding="ascii") as f:
        rows = [line.split("#")[0].split() for line in f]
    return {row[0]: row[1:] for row in rows if row}


def main():
    warnings.simplefilter("ignore")
    options = [w for w in sys.argv[1:] if w.startswith("--")]
    words = [w for w in sys.argv[1:] if not w.startswith("--")]
    expected, bad, count = listed(), 0, 0
    known = networks_of.names() if words or "--all" in options else expected
    names = [n for n in known if not words or n in words or n.split("/")[0] in words]
    for name in names:
        with contextlib.suppress(ImportError):         # once, not in each child
            importlib.import_module(networks_of.LIBRARIES.get(name.split("/")[0], name.split("/")[0]))
        for onnx in (False, True) if "--onnx" in options else (False,):
            want = (expected.get(name, ["static"]) + ["static"])[onnx]
            if onnx and want == "none" and "--write" not in options:
                continue
            how, text = apart(name, onnx)
            if "--write" in options:
                print(f"{name} {how} {text}", flush=True)
                continue
            fine = how in FAR and FAR.index(how) >= FAR.index(want)
            bad, count = bad + (not fine), count + 1
            print(f"{'ok' if fine else 'not ok'} {count} - {name} {'ONNX' if onnx else 'pt2'}, {how}: {text}{'' if fine else f' (expected: {want})'}", flush=True)
    print(f"1..{count}")
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
