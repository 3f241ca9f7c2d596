#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The models of models.py as .pt2, beside PyTorch: outputs of both IRs at several sizes, gradients under --train, results of the joint archive.

usage: PYTHONPATH=BUILD/python pt2_models.py [NAME...]      a minute or two a model; needs PyTorch, torchvision and transformers

Prints a line a model and way, `ok` or `not ok` with the worst error: of outputs the largest, relative to the largest element (bound 1e-4); of a gradient relative to its norm,
against PyTorch's in double precision (bound 1e-4, or twice the error of PyTorch's own float32 gradients, which the line gives; where those are beyond the bound, the model is
compiled in double precision, too, and held to it). Gradients below 1e-6 of the largest are noise: a bias in front of a batch normalisation. For gradients the module is in training
mode, its Dropouts with probability 0; the joint archive's is in inference mode. Exit status 1: one is not ok.
"""
import copy
import gc
import os
import sys
import tempfile
import time
import warnings

os.environ.setdefault("HF_HUB_OFFLINE", "1")
import torch  # noqa: E402
import models  # noqa: E402
import tccc  # noqa: E402

BOUND = 1e-4
BATCH = 4        # images a training step
SIZES = {"batch": (1, 5), "sequence": (7, 200)}
failed = 0


class Unwritable(Exception):
    """PyTorch has no such archive."""


def way(name, what, f):
    """Runs f: the error, PyTorch's own (0: none), a text. True: PyTorch's own is beyond the bound."""
    global failed
    begin, hard = time.time(), False
    try:
        error, own, more = f()
        hard = own > BOUND
        fine = error <= max(BOUND, 2 * own)
        text = f"{error:.1e}{f' (PyTorch {own:.1e})' if own else ''}{more}, {time.time() - begin:.0f} s"
    except Unwritable as e:
        fine, text = True, f"# SKIP {e}"
    except Exception as e:
        fine, text = False, f"{type(e).__name__}: {' '.join(str(e).split())[:500]}"
    print(f"{'ok' if fine else 'not ok'} {name} {what}: {text}", flush=True)
    failed += not fine
    gc.collect()
    return hard


def in_both(name, what, f):
    """In float32; in double precision, too, where float32 says little."""
    if way(name, what, lambda: f(torch.float32)):
        way(name, what + ", double precision", lambda: f(torch.float64))


def values_like(x, shape):
    return torch.randn(shape) if x.is_floating_point() else torch.randint(0, int(x.max()) + 1, shape)


def all_inputs(args, dynamic):
    """The inputs that the model is exported with, then others of each open dim's sizes."""
    yield args
    for k in range(2 if dynamic else 0):
        yield tuple(values_like(x, [SIZES[dims[i].__name__][k] if i in dims else n for i, n in enumerate(x.shape)]) for x, dims in zip(args, dynamic))


def outputs(program, net, args, dynamic, folder):
    path = os.path.join(folder, "model.pt2")
    torch.export.save(program, path)
    compiled, worst, sizes = tccc.compile(path, threads=2), 0, 0
    with torch.no_grad():
        assert not torch.equal(net(*[x.flip(-1) for x in args]), net(*args)), "the model's results are the same whatever its inputs are"
    for inputs in all_inputs(args, dynamic):
        with torch.no_grad():
            want = net(*inputs)
        got = compiled(*inputs)
        assert got.shape == want.shape and got.dtype == want.dtype, (got.shape, want.shape)
        worst, sizes = max(worst, ((got - want).abs().max() / want.abs().max()).item()), sizes + 1
    return worst, 0, f" at {sizes} sizes" if dynamic else ""


def errors(exact, theirs, ours):
    """The worst relative error of a parameter's gradient, ours and PyTorch's; how many gradients say something."""
    assert exact.keys() == theirs.keys() == ours.keys(), f"other parameters have gradients: {sorted(exact.keys() ^ ours.keys())[:5]}"
    largest = max(g.norm() for g in exact.values())
    names = [n for n, g in exact.items() if g.norm() > 1e-6 * largest]
    assert len(names) > len(exact) / 2, f"only {len(names)} of {len(exact)} parameters have gradients that are not 0"

    def worst(got):
        return max(((got[n].double() - exact[n]).norm() / exact[n].norm()).item() for n in names)
    return worst(ours), worst(theirs) if theirs is not exact else 0, len(names)


def eager(net, inputs, loss, dtype):
    """PyTorch's loss and gradients of a copy."""
    net = copy.deepcopy(net).to(dtype)
    value = loss(net(*of_type(inputs, dtype)))
    value.backward()
    return value.item(), {n: p.grad for n, p in net.named_parameters() if p.grad is not None}


def of_type(inputs, dtype):
    return tuple(x.to(dtype) if x.is_floating_point() else x for x in inputs)


def compared(net, inputs, loss, dtype, ours, our_loss):
    exact, exact_gradients = eager(net, inputs, loss, torch.float64)
    own, own_gradients = (exact, exact_gradients) if dtype == torch.float64 else eager(net, inputs, loss, dtype)
    assert abs(our_loss - exact) <= 1e-5 * abs(exact) + 2 * abs(own - exact), f"loss {our_loss}, PyTorch {own}, in double precision {exact}"
    ours = {n: g for n, g in ours.items() if n in exact_gradients or g.any()}      # those that the loss does not reach have none in PyTorch
    error, of_pytorch, n = errors(exact_gradients, own_gradients, ours)
    return error, of_pytorch, f", {n} of {len(ours)} parameters"


def gradients(net, args, dtype):
    net.train()
    for m in net.modules():
        if isinstance(m, torch.nn.Dropout):
            m.p = 0.0
    torch.manual_seed(2)
    inputs = tuple(values_like(x, [BATCH, *x.shape[1:]]) for x in args)
    with torch.no_grad():
        target = torch.randn_like(copy.deepcopy(net)(*inputs))
    step = tccc.train(copy.deepcopy(net).to(dtype), loss="mse:target=wanted", optimizer="sgd:lr=1", example=(*of_type(inputs, dtype), target.to(dtype)), threads=2)
    loss = step.run("grad", *of_type(inputs, dtype), target.to(dtype))
    ours = {n[5:]: torch.from_numpy(step.state(n)) for n in step.names("gradient")}
    return compared(net, inputs, lambda y: torch.nn.functional.mse_loss(y, target.to(y.dtype)), dtype, ours, float(loss[0] if isinstance(loss, tuple) else loss))


class WithLoss(torch.nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, *inputs):
        return self.net(*inputs).square().mean()


def joint(net, args, folder, dtype):
    from torch.export.experimental import _export_forward_backward
    whole = WithLoss(copy.deepcopy(net).eval().to(dtype))
    path = os.path.join(folder, "joint.pt2")
    try:
        program = _export_forward_backward(torch.export.export(whole, of_type(args, dtype)))
    except Exception as e:             # of GPT-2's: the tied weight has one gradient, and views of its attention are not what they were
        raise Unwritable(f"PyTorch {torch.__version__} cannot write it: {str(e).splitlines()[0][:80]}") from None
    torch.export.save(program, path)
    ours, loss = {}, None
    for spec, result in zip(program.graph_signature.output_specs, tccc.compile(path, threads=2)(*of_type(args, dtype))):
        if spec.kind.name == "LOSS_OUTPUT":
            loss = float(result)
        else:
            ours[spec.target] = result
    return compared(whole.float(), args, lambda y: y, dtype, ours, loss)


def decomposed(program):
    """PyTorch 2.15 fails at its own decomposition of attention where the batch is not 1 and open: there attention stays one op."""
    try:
        return program.run_decompositions(), ""
    except ValueError:
        table = torch.export.default_decompositions()
        table.pop(torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default)
        return program.run_decompositions(table), ", attention as one op"


def run(name):
    _, args, dynamic = models.MODELS[name]
    net = models.model_of(name)
    with torch.no_grad():
        program = torch.export.export(net, args, dynamic_shapes=dynamic)
    with tempfile.TemporaryDirectory() as folder:
        way(name, "training IR", lambda: outputs(program, net, args, dynamic, folder))
        core, note = decomposed(program)
        way(name, "core ATen" + note, lambda: outputs(core, net, args, dynamic, folder))
        in_both(name, "joint", lambda dtype: joint(net, args, folder, dtype))
    in_both(name, "gradients", lambda dtype: gradients(net, args, dtype))


def main():
    warnings.simplefilter("ignore")
    torch.set_num_threads(2)
    for name in sys.argv[1:] or models.MODELS:
        run(name)
    print(f"{failed} not ok")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
