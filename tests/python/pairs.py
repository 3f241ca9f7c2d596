#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ATen's operators of two operands (and of three tensors, the last two of one type) with operands of each pair of types, beside eager PyTorch.

usage: pairs.py compile [NAME...]          under torch.compile
       pairs.py archives DIR [NAME...]     programs of torch.export in both IRs, with PyTorch's results, in the official suite's layout (tccc-run --test-suite DIR)
       pairs.py names

The operators are those whose schema in PyTorch's registry takes nothing else, in place too, and conversions. A second operand is a vector, one element without dims
(whose type counts less) or a number; a first one is a number where the schema says so. Each vector has small values that every type holds, and the type's extremes,
infinities and NaN, which are left out where PyTorch's answer is undefined: floats become integers.
"""
import itertools
import os
import re
import sys
import warnings

import torch

warnings.simplefilter("ignore")
DTYPES = {"b": torch.bool, "u8": torch.uint8, "i8": torch.int8, "i16": torch.int16, "i32": torch.int32, "i64": torch.int64, "f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "f64": torch.float64,
          "c64": torch.complex64, "c128": torch.complex128}
NUMBERS = {"3": 3, "3.1": 3.1, "2j": 2j, "True": True}
# Random, of sizes that values decide, not of numbers, not of dense tensors, wanting an order. Polynomials of the degree 2^63 take as many steps.
LEFT_OUT = re.compile(r"binomial|normal|bernoulli|random|dropout|masked_select|repeat_interleave|histogram|set|resize|to_mkldnn|to_dense|to_sparse|sparse|_quantize|quantized|fbgemm|full_like|new_full|cudnn|miopen|mkldnn|"
                      r"nested|jagged|_nested|is_same_size|equal$|allclose|promote_types|result_type|can_cast|record_stream|data$|to\.other|rename|align|put|masked_scatter|nextafter|polynomial|randint|noise|shallow_copy|slice_inverse")

# The least integer's lcm ends PyTorch's process; isin compares in another type where ten elements or more are asked for.
TAME = re.compile(r"lcm|isin\.Scalar_Tensor")
ASCENDING = {"searchsorted": 0, "bucketize": 1}    # the operand that is searched


def operators():
    """NAME: (the operator, the kinds of its operands)."""
    found = {}
    for full in sorted(torch._C._dispatch_get_all_op_names()):
        base, _, form = full.removeprefix("aten::").partition(".")
        if not full.startswith("aten::") or base.startswith("_") and not base.startswith("__") or LEFT_OUT.search(full) or not hasattr(torch.ops.aten, base):
            continue
        op = getattr(getattr(torch.ops.aten, base), form or "default", None)
        if op is None or any(a.is_out for a in op._schema.arguments) or len(op._schema.returns) != 1 or str(op._schema.returns[0].type) != "Tensor":
            continue
        kinds = tuple(str(a.type) for a in op._schema.arguments if not a.has_default_value())
        if kinds in {("Tensor", "Tensor"), ("Tensor", "number"), ("number", "Tensor"), ("Tensor", "Tensor", "Tensor"), ("Tensor", "Tensor", "number")}:
            found[full.removeprefix("aten::")] = (op, kinds)
    return found


def vector(dtype, second, wild):
    if dtype == torch.bool:
        return torch.tensor([True, False, True, False, True, True] if second else [False, False, True, True, True, False])
    if wild and not dtype.is_floating_point and not dtype.is_complex:
        most = torch.iinfo(dtype)
        return torch.tensor([2, most.max, 1, most.max, 5, 3] if second else [3, 5, most.max, most.min, 0, 7], dtype=dtype)
    if wild:
        return torch.tensor([0.75, 2.0, -1.5, 1.0, float("nan"), 4.0] if second else [1.5, -2.25, 0.0, float("inf"), 3.0, -0.5], dtype=torch.float64).to(dtype)
    values = torch.tensor([2, 1, 3, 1, 5, 4] if second else [3, 5, 1, 2, 7, 6], dtype=torch.float64)
    if dtype.is_floating_point or dtype.is_complex:
        values += 0.1
    if dtype.is_complex:
        values = torch.complex(values, torch.tensor([0.5, 1.25, -1.0, 2.0, -3.0, 1.0], dtype=torch.float64))
    return values.to(dtype)


def undefined(args, y):
    """Whether eager's answer is any: floats became integers, which C leaves open where they don't fit."""
    floats = any(isinstance(a, (float, complex)) or isinstance(a, torch.Tensor) and (a.is_floating_point() or a.is_complex()) for a in args)
    return floats and not y.is_floating_point() and not y.is_complex() and y.dtype != torch.bool


class Pairs:
    """All pairs of one operator that PyTorch takes: their names, arguments, results."""

    def __init__(self, op, kinds):
        name = op.name().removeprefix("aten::")
        base = name.partition(".")[0]
        self.op, self.write, self.calls = op, any(a.alias_info and a.alias_info.is_write for a in op._schema.arguments), []
        self.ascending = ASCENDING.get(base)
        first, second = [list(self.values(kinds[k], k)) for k in (0, 1)]
        for (a, x), (b, y) in itertools.product(first, second):
            for wild in (False,) if TAME.match(name) else (True, False):
                args = [v[1 - wild] if isinstance(v, tuple) else v for v in (x, y)]
                args += [args[1] if kinds[2] == "Tensor" else 2] if len(kinds) == 3 else []
                try:
                    got = op(args[0].clone() if self.write else args[0], *args[1:])
                except Exception:
                    continue
                if base == "soft_margin_loss" and got.isinf().any():   # log(1 + exp(x)) where exp(x) is too large, which softplus gives
                    continue
                if isinstance(got, torch.Tensor) and got.layout == torch.strided and got.dtype != torch.complex32 and not (wild and (undefined(args, got) or got.is_complex())) and not (got.is_complex() and not got.isfinite().all()):
                    self.calls.append((f"{a},{b}", args, got.clone()))
                    break

    def values(self, kind, k):
        if kind == "number":
            yield from NUMBERS.items()
            return
        for name, dtype in DTYPES.items():
            tame, wild = vector(dtype, k, False), vector(dtype, k, True)
            both = torch.cat([tame, wild]), tame
            yield name, tuple(v.sort().values for v in both) if k == self.ascending and not dtype.is_complex else both
            if k:
                yield name + "[]", (wild[1], tame[1])

    def graph(self, calls):
        """A graph of ATen ops for them, and its inputs."""
        mode, graph, inputs = torch._subclasses.FakeTensorMode(), torch.fx.Graph(), {}
        inputs = {id(a): a for _, args, _ in calls for a in args if isinstance(a, torch.Tensor)}
        nodes = {key: self.node(graph.placeholder(f"x{k}"), mode, a) for k, (key, a) in enumerate(inputs.items())}
        results = []
        for _, args, got in calls:
            given = [nodes.get(id(a), a) for a in args]
            if self.write:
                given[0] = self.node(graph.call_function(torch.ops.aten.clone.default, (given[0],)), mode, args[0])
            results.append(self.node(graph.call_function(self.op, tuple(given)), mode, got))
        graph.output(tuple(results))
        return torch.fx.GraphModule(torch.nn.Module(), graph), list(inputs.values())

    @staticmethod
    def node(node, mode, tensor):
        node.meta["val"] = mode.from_tensor(tensor)
        return node


def programs(names):
    for name, (op, kinds) in operators().items():
        if not names or name in names or name.partition(".")[0] in names:
            p = Pairs(op, kinds)
            if p.calls:
                yield name, p


def by_kind(calls):
    kinds = {}
    for call in calls:
        types = {a.dtype for a in call[1] if isinstance(a, torch.Tensor)} | {torch.complex128 for a in call[1] if isinstance(a, complex)}
        kinds.setdefault("complex" if any(t.is_complex for t in types) else "halves" if types & {torch.float16, torch.bfloat16} else "real", []).append(call)
    return kinds


def same(x, y):
    if x.dtype != y.dtype or x.shape != y.shape:
        return False
    if not x.is_floating_point() and not x.is_complex():
        return torch.equal(x, y)
    bound = {torch.float16: 4e-3, torch.bfloat16: 2e-2, torch.complex32: 4e-3}.get(y.dtype, 1e-4)
    return torch.allclose(x.to(torch.complex128), y.to(torch.complex128), bound, bound, equal_nan=True)


def compile_all(names):
    """Parts that are refused are halved, to a bound. Where the graph that PyTorch makes gives something else than eager, that is right."""
    import logging
    from functorch.compile import nop
    from torch._dynamo.backends.common import aot_autograd
    from tccc.dynamo import _decompositions, backend
    logging.disable(logging.CRITICAL)
    wrong = right = refused = 0
    for name, p in programs(names):
        todo, bad, why, tries = list(by_kind(p.calls).values()), [], {}, 0
        while todo:
            calls, tries = todo.pop(), tries + 1
            try:
                gm, inputs = p.graph(calls)
                got = backend(gm, inputs, options=dict(level=0, fallback=False))(*inputs)
            except Exception as e:
                if len(calls) > 1 and tries < 16:
                    todo += [calls[:len(calls) // 2], calls[len(calls) // 2:]]
                    continue
                refused += len(calls)
                text = next((line for line in str(e).split("\n") if "node '" in line), f"{type(e).__name__}: {e}")
                why.setdefault(re.sub(r"^.*node '\w+' ", "", text).strip()[:110], []).extend(c[0] for c in calls)
                continue
            if not all(same(g, w) for g, (_, _, w) in zip(got, calls)):
                theirs = aot_autograd(fw_compiler=nop, decompositions=_decompositions())(*p.graph(calls))(*inputs)
                got = [w if same(g, t) else g for g, t, (_, _, w) in zip(got, theirs, calls)]
            bad += [f"{n}: {g.tolist()} not {w.tolist()}" if (g.dtype, g.shape) == (w.dtype, w.shape) else f"{n}: {g.dtype}{list(g.shape)} not {w.dtype}{list(w.shape)}" for (n, _, w), g in zip(calls, got) if not same(g, w)]
            right += len(calls)
        wrong += len(bad)
        print(f"{'not ok' if bad else 'ok'} - {name}: {len(p.calls)} pairs", *(f"\n#   {b[:300]}" for b in bad[:8]), *(f"\n#   refused, {len(v)}: {k} ({' '.join(v[:4])})" for k, v in why.items()), flush=True)
    print(f"# {right - wrong} right, {wrong} wrong, {refused} refused")
    return wrong


def archives(folder, names):
    from torch._export.verifier import TrainingIRVerifier
    from torch.export.graph_signature import ExportGraphSignature, InputKind, InputSpec, OutputKind, OutputSpec, TensorArgument
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "pt2"))
    from archive import write
    tree = torch.utils._pytree.tree_structure
    for name, p in programs(names):
        for kind, calls in by_kind(p.calls).items():
            gm, inputs = p.graph(calls)
            outs = [n.name for n in list(gm.graph.nodes)[-1].args[0]]
            signature = ExportGraphSignature([InputSpec(InputKind.USER_INPUT, TensorArgument(f"x{k}"), None) for k in range(len(inputs))], [OutputSpec(OutputKind.USER_OUTPUT, TensorArgument(n), None) for n in outs])
            entry = torch.export.ModuleCallEntry("", torch.export.ModuleCallSignature([i.arg for i in signature.input_specs], [o.arg for o in signature.output_specs], tree((tuple(inputs), {})), tree(tuple(outs))))
            program = torch.export.ExportedProgram(gm, gm.graph, signature, {}, {}, [entry], example_inputs=(tuple(inputs), {}), verifiers=[TrainingIRVerifier])
            write(os.path.join(folder, f"pairs_{name.replace('.', '_')}_{kind}"), program, inputs, [c[2] for c in calls], "2e-2 2e-2" if kind == "halves" else "1e-4 1e-4")


if __name__ == "__main__":
    what, rest = sys.argv[1], sys.argv[2:]
    if what == "names":
        print("\n".join(operators()))
    elif what == "archives":
        archives(rest[0], rest[1:])
    else:
        sys.exit(bool(compile_all(rest)))
