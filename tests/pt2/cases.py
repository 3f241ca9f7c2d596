#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs of torch.export, one ATen op each, over types and shapes, with PyTorch's results: NAME/model.pt2 in the official suite's layout.

usage: cases.py DIR [PATTERN]

Each case is exported as it is written (training IR) and, as NAME.core, after run_decompositions() where that changes its ops.
"""
import fnmatch, math, os, sys, warnings
import torch
from archive import write_case

aten = torch.ops.aten
F32, F64, F16, BF16, I64, I32, U8, BOOL = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.uint8, torch.bool)
FLOATS, ALL = (F32, F64, F16, BF16), (F32, F64, F16, BF16, I64, I32)
CASES = []
generator = torch.Generator().manual_seed(7)


def t(*shape, dtype=F32, lo=-2.0, hi=2.0):
    if dtype == BOOL:
        return torch.rand(shape, generator=generator) > 0.5
    if not dtype.is_floating_point:
        return torch.randint(0 if dtype == U8 else int(lo) - 3, int(hi) + 4, shape, generator=generator).to(dtype)
    return (torch.rand(shape, generator=generator, dtype=F64) * (hi - lo) + lo).to(dtype)


def idx(*shape, n, dtype=I64):
    return torch.randint(0, n, shape, generator=generator).to(dtype)


def case(name, f, *inputs, dynamic=None, tol=None, edit=None, also=()):
    CASES.append((name, f, inputs, dynamic, tol, edit, also))


def short(dtype):
    return str(dtype).removeprefix("torch.").replace("float", "f").replace("bf", "bf").replace("uint", "u").replace("int", "i")


def unary(names, dtypes=FLOATS + (I64,), lo=-2.0, hi=2.0):
    for name in names.split():
        op = getattr(aten, name)
        for d in dtypes:
            case(f"{name}_{short(d)}", lambda x, op=op: op(x), t(3, 5, dtype=d, lo=lo, hi=hi))
        case(f"{name}_dynamic", lambda x, op=op: op(x), t(4, 3, dtype=dtypes[0], lo=lo, hi=hi), dynamic=({0: "n"},))


unary("atan asinh cos cosh erf exp expm1 sigmoid sin sinh tan tanh")
unary("acos asin atanh", lo=-0.95, hi=0.95)
unary("acosh", lo=1.1, hi=4)
unary("log log10 log2 rsqrt sqrt reciprocal", lo=0.2, hi=4, dtypes=FLOATS)
unary("log1p", lo=-0.5, hi=3, dtypes=FLOATS)
unary("abs neg sign relu clone alias isinf isnan", dtypes=ALL)
unary("ceil floor trunc round", dtypes=ALL, lo=-7, hi=7)
unary("elu gelu leaky_relu hardtanh silu hardswish hardsigmoid mish softplus selu celu log_sigmoid relu6", dtypes=FLOATS, lo=-5, hi=5)
unary("logical_not", dtypes=(F32, I64, BOOL, U8))
unary("bitwise_not", dtypes=(I64, I32, BOOL, U8))
case("special_values", lambda x: (aten.isinf(x), aten.isnan(x), aten.abs(x), aten.relu(x), aten.sign(x), aten.floor(x), aten.exp(x)),
     torch.tensor([0.0, -0.0, math.inf, -math.inf, math.nan, 1e-40, -1.5]))
case("gelu_tanh", lambda x: aten.gelu(x, approximate="tanh"), t(3, 4))
case("elu_all", lambda x: aten.elu(x, 1.3, 0.7, 1.1), t(3, 4))
case("leaky_relu_slope", lambda x: aten.leaky_relu(x, 0.2), t(3, 4))
case("hardtanh_bounds", lambda x: aten.hardtanh(x, -0.5, 1.5), t(3, 4))
case("softplus_beta", lambda x: aten.softplus(x, 2.0, 1.0), t(3, 4))
case("round_decimals", lambda x: aten.round.decimals(x, decimals=1), t(3, 4))

# -- Two operands
for name in "add sub mul".split():
    op = getattr(aten, name)
    for d in ALL + (U8,):
        case(f"{name}_{short(d)}", lambda x, y, op=op: op(x, y), t(3, 4, dtype=d), t(4, dtype=d))
        case(f"{name}_scalar_{short(d)}", lambda x, op=op: op(x, 3), t(3, 4, dtype=d))
    case(f"{name}_mixed", lambda x, y, z, op=op: (op(x, y), op(y, z), op(x, 2.5), op(y, 1.5)), t(3, 4), t(3, 4, dtype=I64), t(3, 1, dtype=I32))
    case(f"{name}_half_scalar", lambda x, op=op: op(x, 0.3), t(3, 4, dtype=BF16))
    case(f"{name}_rank0", lambda x, y, op=op: op(x, y), t(3, 4, dtype=F16), torch.tensor(1.25))
    case(f"{name}_dynamic", lambda x, y, op=op: op(x, y), t(3, 4), t(3, 1), dynamic=({0: "n"}, {0: "n"}))
case("add_alpha", lambda x, y: (aten.add(x, y, alpha=2.5), aten.sub(x, y, alpha=0.5), aten.rsub(x, y, alpha=3)), t(3, 4), t(3, 4))
case("add_alpha_int", lambda x, y: (aten.add(x, y, alpha=2), aten.add(x, 3, 2)), t(3, 4, dtype=I64), t(3, 4, dtype=I64))
case("add_bool", lambda x, y: (aten.add(x, y), aten.mul(x, y), aten.add(x, 1), aten.mul(x, 2.0)), t(3, 4, dtype=BOOL), t(3, 4, dtype=BOOL))
for name in "eq ne lt le gt ge".split():
    op = getattr(aten, name)
    for d in ALL + (BOOL, U8):
        case(f"{name}_{short(d)}", lambda x, y, op=op: op(x, y), t(3, 4, dtype=d), t(3, 4, dtype=d))
    case(f"{name}_scalar", lambda x, y, op=op: (op(x, 0.5), op(y, 1)), t(3, 4), t(3, 4, dtype=I64))
    case(f"{name}_mixed", lambda x, y, op=op: op(x, y), t(3, 4), t(4, dtype=I64))
for name in "maximum minimum atan2 fmod remainder".split():
    op = getattr(aten, name)
    for d in (FLOATS if name == "atan2" else ALL):
        y = t(3, 4, dtype=d)
        y[y == 0] = 2
        case(f"{name}_{short(d)}", lambda x, y, op=op: op(x, y), t(3, 4, dtype=d), y)
case("remainder_scalar", lambda x, y: (aten.remainder(x, 1.5), aten.fmod(x, -1.5), aten.remainder(y, 3), aten.remainder(y, -3)), t(3, 4, lo=-5, hi=5), t(3, 4, dtype=I64))
case("maximum_nan", lambda x, y: (aten.maximum(x, y), aten.minimum(x, y)), torch.tensor([1.0, math.nan, 2.0]), torch.tensor([math.nan, 1.0, 3.0]))
case("atan2_corners", lambda y, x: aten.atan2(y, x), *(torch.tensor(v) for v in zip(*[(a, b) for a in (0.0, -0.0, 1.0, -1.0, math.inf, -math.inf) for b in (0.0, -0.0, 1.0, -1.0, math.inf, -math.inf)])))
for d in ALL:
    y = t(3, 4, dtype=d)
    y[y == 0] = 2
    for mode in (None, "floor", "trunc"):
        case(f"div_{mode}_{short(d)}", lambda x, y, mode=mode: aten.div(x, y, rounding_mode=mode) if mode else aten.div(x, y), t(3, 4, dtype=d, lo=-7, hi=7), y)
case("div_scalar", lambda x, y: (aten.div(x, 3), aten.div(y, 3), aten.div(y, 2, rounding_mode="floor"), aten.floor_divide(y, 4)), t(3, 4), t(3, 4, dtype=I64))
case("div_floor_corners", lambda x, y: aten.div(x, y, rounding_mode="floor"), torch.tensor([1.0, -1.0, 0.0, 5.0, -5.0, 1.0, -1.0]), torch.tensor([0.0, 0.0, 0.0, 0.1, 0.1, math.inf, math.inf]))
for d in FLOATS:
    case(f"pow_{short(d)}", lambda x, y: aten.pow(x, y), t(3, 4, dtype=d, lo=0.3, hi=2), t(3, 4, dtype=d))
case("pow_scalar", lambda x, y, z: (aten.pow(x, 2), aten.pow(x, 3.0), aten.pow(z, 0.5), aten.pow(2.0, x), aten.pow(y, 2), aten.pow(z, -1)), t(3, 4), t(3, 4, dtype=I64), t(3, 4, lo=0.3, hi=2))
for name in "bitwise_and bitwise_or bitwise_xor".split():
    op = getattr(aten, name)
    for d in (I64, I32, U8, BOOL):
        case(f"{name}_{short(d)}", lambda x, y, op=op: op(x, y), t(3, 4, dtype=d), t(3, 4, dtype=d))
    case(f"{name}_scalar", lambda x, op=op: op(x, 5), t(3, 4, dtype=I64))
for name in "logical_and logical_or logical_xor".split():
    op = getattr(aten, name)
    for d in (F32, I64, BOOL):
        case(f"{name}_{short(d)}", lambda x, y, op=op: op(x, y), t(3, 4, dtype=d).trunc() if d.is_floating_point else t(3, 4, dtype=d), t(3, 4, dtype=d))
case("where_types", lambda c, x, y: (aten.where(c, x, x * 2), aten.where(c, x, y), aten.where(c, y, y + 1), aten.where(c, 1.5, x)), t(3, 4, dtype=BOOL), t(3, 4), t(4, dtype=I64))
for d in ALL:
    case(f"where_{short(d)}", lambda c, x, y: aten.where(c, x, y), t(3, 1, dtype=BOOL), t(3, 4, dtype=d), t(3, 4, dtype=d))
    case(f"clamp_{short(d)}", lambda x: (aten.clamp(x, -1, 1), aten.clamp(x, min=0), aten.clamp(x, max=1)), t(3, 4, dtype=d))
case("clamp_tensor", lambda x, a, b: (aten.clamp(x, a, b), aten.clamp(x, min=a)), t(3, 4), t(4, lo=-1, hi=0), t(4, lo=0, hi=1))
case("masked_fill", lambda x, m: (aten.masked_fill(x, m, -math.inf), aten.masked_fill(x, m, 2)), t(3, 4), t(3, 4, dtype=BOOL))
case("addc", lambda x, a, b: (aten.addcmul(x, a, b, value=0.5), aten.addcdiv(x, a, b.abs() + 1, value=2), aten.lerp(x, a, 0.3), aten.lerp(x, a, b)), t(3, 4), t(3, 4), t(4))
for a in (F32, F16, BF16, F64, I64, I32, U8, BOOL):
    case(f"to_copy_{short(a)}", lambda x: tuple(aten._to_copy(x, dtype=b) for b in (F32, F16, BF16, F64, I64, I32, BOOL)), t(3, 4, dtype=a, lo=-3, hi=3))

# -- Reductions
for name in "sum mean amax amin prod var".split():
    op = getattr(aten, name)
    for d in (FLOATS if name in ("mean", "var") else ALL):
        case(f"{name}_{short(d)}", lambda x, op=op: op(x, [1]), t(3, 4, 2, dtype=d)) if name not in ("prod", "var") else case(f"{name}_{short(d)}", lambda x, op=op: op(x, 1) if op is aten.prod else op.correction(x, [1]), t(3, 4, 2, dtype=d))
case("sum_forms", lambda x: (aten.sum(x), aten.sum(x, [0, -1], True), aten.sum(x, [1], dtype=F64), aten.sum(x, [])), t(3, 4, 2))
case("sum_bool", lambda x: (aten.sum(x), aten.sum(x, [0])), t(3, 4, dtype=BOOL))
case("mean_forms", lambda x: (aten.mean(x), aten.mean(x, [-1], True), aten.mean(x, [0, 1])), t(3, 4, 2))
case("sum_dynamic", lambda x: (aten.sum(x, [0]), aten.mean(x, [0]), aten.amax(x, [1])), t(3, 4), dynamic=({0: "n"},))
case("amax_forms", lambda x: (aten.amax(x, [0, 2]), aten.amin(x, [-1], True), aten.amax(x)), t(3, 4, 2))
case("prod_forms", lambda x: (aten.prod(x), aten.prod(x, 0, True)), t(3, 4))
case("var_forms", lambda x: (aten.var.correction(x, [0], correction=0), aten.var.correction(x, correction=1), aten.var.correction(x, [1], correction=2, keepdim=True), aten.var.dim(x, [0], False), aten.std.correction(x, [0])), t(3, 4))
for name in "max min".split():
    op = getattr(aten, name)
    for d in ALL:
        case(f"{name}_dim_{short(d)}", lambda x, op=op: op.dim(x, 1), t(3, 5, dtype=d))
    case(f"{name}_forms", lambda x, op=op: (op(x), *op.dim(x, -1, True)), t(3, 5))
for name in "argmax argmin".split():
    op = getattr(aten, name)
    for d in ALL:
        case(f"{name}_{short(d)}", lambda x, op=op: op(x, 1), t(3, 5, dtype=d))
    case(f"{name}_forms", lambda x, op=op: (op(x), op(x, 0, True), op(x, -1)), t(3, 5))
case("any_all", lambda x, y: (aten.any(x), aten.any(x, 1), aten.all(x, 0), aten.all(y), aten.any.dim(y, 0, True), aten.any.dims(x, [0, 1])), t(3, 4, dtype=BOOL), t(3, 4, dtype=I64))
for d in ALL:
    case(f"cumsum_{short(d)}", lambda x: (aten.cumsum(x, 0), aten.cumsum(x, -1)), t(3, 4, dtype=d))
for name in "_softmax _log_softmax".split():
    op = getattr(aten, name)
    for d in FLOATS:
        case(f"{name[1:]}_{short(d)}", lambda x, op=op: (op(x, -1, False), op(x, 0, False)), t(3, 5, dtype=d))
case("softmax_forms", lambda x: (torch.softmax(x, 1), torch.log_softmax(x, -1), torch.softmax(x, 0, dtype=F64)), t(3, 5), dynamic=({0: "n"},))
for d in ALL:
    case(f"sort_{short(d)}", lambda x: (*aten.sort(x, -1), aten.sort(x, 0, True)[0]), torch.stack([torch.randperm(7, generator=generator) for _ in range(3)]).to(d))
    case(f"topk_{short(d)}", lambda x: (*aten.topk(x, 3), *aten.topk(x, 2, 0, False)), torch.randperm(21, generator=generator).reshape(3, 7).to(d))
case("logsumexp_norm", lambda x: (torch.logsumexp(x, 1), torch.linalg.vector_norm(x, 2, 1), torch.linalg.vector_norm(x, 1), torch.norm(x, 3, dim=0), torch.linalg.vector_norm(x, math.inf, 1)), t(3, 4))

# -- Shapes and moves
for d in (F32, BF16, I64, BOOL):
    s = short(d)
    case(f"view_{s}", lambda x: (aten.view(x, [4, -1]), aten.view(x, [2, 2, 6]), aten.reshape(x, [-1])), t(4, 6, dtype=d))
    case(f"permute_{s}", lambda x: (aten.permute(x, [2, 0, 1]), aten.transpose(x, 0, -1), aten.permute(x, [0, -1, 1])), t(2, 3, 4, dtype=d))
    case(f"squeeze_{s}", lambda x: (aten.squeeze(x), aten.squeeze(x, 0), aten.squeeze(x, 1), aten.squeeze(x, [0, 2]), aten.unsqueeze(x, -1), aten.unsqueeze(x, 1)), t(1, 3, 1, dtype=d))
    case(f"expand_{s}", lambda x: (aten.expand(x, [4, 3, 5]), aten.expand(x, [-1, 5])), t(3, 1, dtype=d))
    case(f"slice_{s}", lambda x: (aten.slice(x, 0, 1, 4), aten.slice(x, 1, -3, -1), aten.slice(x, 1, 0, 9223372036854775807, 2), aten.select(x, 0, -1), aten.select(x, 1, 2), aten.slice(x, 0, 3, 2)), t(5, 6, dtype=d))
    case(f"cat_{s}", lambda x, y: (aten.cat([x, y], 1), aten.cat([x, x]), aten.stack([x, x], -1)), t(3, 4, dtype=d), t(3, 2, dtype=d))
    case(f"repeat_{s}", lambda x: (aten.repeat(x, [2, 1, 3]), aten.repeat(x, [1, 2])), t(3, 2, dtype=d))
    case(f"flip_{s}", lambda x: (aten.flip(x, [0]), aten.flip(x, [-1, 0]), torch.roll(x, 2, 1), torch.roll(x, (1, -1), (0, 1)), torch.roll(x, 3)), t(3, 4, dtype=d))
    case(f"index_{s}", lambda x, i, j: (x[i], x[:, j], x[i, j], x[i[:, None], j], x[0, i, :]), t(4, 4, 3, dtype=d), idx(3, n=4), idx(3, n=4))
    case(f"gather_{s}", lambda x, i: (aten.gather(x, 1, i), aten.index_select(x, 0, i[0])), t(4, 4, dtype=d), idx(2, 3, n=4))
    case(f"scatter_{s}", lambda x, i, y: (aten.scatter(x, 0, i, y), aten.scatter(x, 1, i, 1)), t(4, 4, dtype=d), torch.tensor([[0, 1, 2], [3, 2, 0]]), t(3, 4, dtype=d))
    case(f"index_put_{s}", lambda x, i, j, v, w: (aten.index_put(x, [i], v), aten.index_put(x, [i, j], v[:, 0]), aten.index_put(x, [None, j], w)), t(4, 5, dtype=d), torch.tensor([0, 2, 3]), torch.tensor([1, 4, 0]), t(3, 5, dtype=d), t(4, 3, dtype=d))
    case(f"split_{s}", lambda x: (*aten.split_with_sizes(x, [1, 3, 2], 1), *aten.split(x, 4, 1), *torch.chunk(x, 2, 0), *torch.unbind(x[:2])), t(5, 6, dtype=d))
    case(f"diagonal_{s}", lambda x: (aten.diagonal(x), aten.diagonal(x, 1), aten.diagonal(x, -2, 0, 2), torch.tril(x), torch.triu(x, 1)), t(4, 5, 5, dtype=d))
    case(f"slice_scatter_{s}", lambda x, y, z: (aten.slice_scatter(x, y, 0, 1, 3), aten.slice_scatter(x, z, 1, 0, 5, 2), aten.select_scatter(x, z[:, 0], 1, -1)), t(4, 5, dtype=d), t(2, 5, dtype=d), t(4, 3, dtype=d))
    case(f"as_strided_{s}", lambda x: (aten.as_strided(x, [2, 3], [6, 1], 2), aten.as_strided(x, [3, 4], [2, 3])), t(4, 6, dtype=d))
    case(f"constant_pad_{s}", lambda x: (aten.constant_pad_nd(x, [1, 2], 1), aten.constant_pad_nd(x, [0, 1, 2, 0]), aten.constant_pad_nd(x, [-1, 2, 1, -1], 0)), t(3, 4, dtype=d))
    case(f"full_like_{s}", lambda x: (aten.full_like(x, 1), aten.zeros_like(x), aten.ones_like(x), aten.full([2, 3], 1, dtype=x.dtype), aten.fill(x, 0), aten.new_zeros(x, [2])), t(3, 4, dtype=d))
    case(f"copy_{s}", lambda x, y: (aten.copy(x, y),), t(3, 4, dtype=d), t(4, dtype=F32))
case("view_dynamic", lambda x: (x.reshape(x.shape[0], -1), x.view(-1, 3), x.transpose(0, 1).reshape(2, -1)), t(5, 2, 3), dynamic=({0: "n"},))
case("slice_dynamic", lambda x: (x[1:], x[:, :2], x[-1], x[::2]), t(6, 4), dynamic=({0: "2*n"},))
case("cat_dynamic", lambda x, y: torch.cat([x, y], 0) * x.shape[0], t(6, 4), t(3, 4), dynamic=({0: "n"}, {0: "m"}))
case("expand_dynamic", lambda x, y: (y.expand(x.shape[0], 4), torch.zeros(x.shape[0], 2), torch.arange(x.shape[0] * 2)), t(6, 4), t(4), dynamic=({0: "n"}, None))
case("sym_sizes", lambda x: (x.reshape(x.shape[0] // 2, 2, 3), x[: x.shape[0] // 3], x.new_full((x.shape[0] + 1,), x.numel())), t(6, 3), dynamic=({0: "2*n"},))
for k in (1, 2, 3):
    for kind in ("reflection", "replication"):
        op = getattr(aten, f"{kind}_pad{k}d")
        case(f"{kind}_pad{k}d", lambda x, op=op, k=k: op(x, [1, 2, 2, 0, 1, 1][:2 * k]), t(*(2, 3) + (4,) * k))
        case(f"{kind}_pad{k}d_single", lambda x, op=op, k=k: op(x, [1, 2, 2, 0, 1, 1][:2 * k]), t(*(3,) + (4,) * k))
case("index_mask", lambda x, m: (aten.index_put(x, [m], torch.tensor(2.0)), torch.where(m, x, 0.0)), t(4, 5), t(4, 5, dtype=BOOL))
case("index_put_add", lambda x, i, v: (aten.index_put(x, [i], v, True), aten.index_add(x, 0, i, v, alpha=2)), t(5, 4), torch.tensor([0, 2, 0]), t(3, 4))
case("nonzero", lambda x: aten.nonzero(x), t(4, 5, dtype=BOOL))
case("masked_select", lambda x, m: (x[m],), t(4, 5), t(4, 5, dtype=BOOL))
for d in (F32, F16, I64):
    case(f"scatter_add_{short(d)}", lambda x, i, y: (aten.scatter_add(x, 0, i, y), aten.scatter_add(x, 1, i, y)), t(4, 4, dtype=d), idx(2, 3, n=4), t(3, 4, dtype=d))
    for r in "sum prod amax amin mean".split():
        case(f"scatter_reduce_{r}_{short(d)}", lambda x, i, y, r=r: (aten.scatter_reduce(x, 0, i, y, r), aten.scatter_reduce(x, 0, i, y, r, include_self=False)), t(4, 4, dtype=d), idx(3, 4, n=4), t(3, 4, dtype=d))
    case(f"masked_scatter_{short(d)}", lambda x, m, y: aten.masked_scatter(x, m, y), t(3, 4, dtype=d), t(3, 4, dtype=BOOL), t(12, dtype=d))
for d in (F32, BF16):
    case(f"embedding_{short(d)}", lambda w, i: (aten.embedding(w, i), aten.embedding(w, i, 2)), t(7, 4, dtype=d), idx(2, 3, n=7))
case("arange", lambda x: (aten.arange(5), aten.arange(2, 9), aten.arange(2, 9, 3), aten.arange(0, 1, 0.25), aten.arange(5, dtype=F32), aten.arange(9, 2, -2)) + (x + 1,), t(2))
case("fills", lambda x: (x + 1, aten.full([2, 3], 2.5), aten.full([2], 7), aten.full([], True), aten.scalar_tensor(1.5), aten.full([2], 1, dtype=F16), torch.eye(3), torch.linspace(0, 1, 5)), t(2))
case("empty", lambda x: (aten.fill(aten.empty([2, 3]), 2.0) + x, aten.empty_strided([2, 3], [3, 1]).zero_() + x), t(2, 3))
case("one_hot", lambda x: torch.nn.functional.one_hot(x, 5), idx(3, n=5))
case("sym_ops", lambda x: x * (x.numel() + x.stride(0) + x.storage_offset()), t(3, 4))
case("scalar_dense", lambda x, y: (y * x.item(),), torch.tensor(2.5), t(3))

# -- Products, convolutions, pools
for d in FLOATS:
    s = short(d)
    case(f"mm_{s}", lambda x, y: aten.mm(x, y), t(3, 4, dtype=d), t(4, 5, dtype=d))
    case(f"bmm_{s}", lambda x, y: aten.bmm(x, y), t(2, 3, 4, dtype=d), t(2, 4, 5, dtype=d))
    case(f"addmm_{s}", lambda c, x, y: (aten.addmm(c, x, y), aten.addmm(c, x, y, beta=0.5, alpha=2)), t(5, dtype=d), t(3, 4, dtype=d), t(4, 5, dtype=d))
    case(f"linear_{s}", lambda x, w, b: (aten.linear(x, w, b), aten.linear(x[0], w), aten.linear(x[0, 0], w, b)), t(2, 3, 4, dtype=d), t(5, 4, dtype=d), t(5, dtype=d))
for d in (F32, F64, BF16):
    case(f"convolution_{short(d)}", lambda x, w, b: aten.convolution(x, w, b, [1, 1], [1, 1], [1, 1], False, [0, 0], 1), t(2, 3, 5, 6, dtype=d), t(4, 3, 3, 3, dtype=d), t(4, dtype=d))
case("matmul_forms", lambda x, y, v: (x @ y, x @ v, v @ y[0], torch.dot(v, v), x[0] @ y, torch.mv(x[0], v), torch.outer(v, v)), t(2, 3, 4), t(2, 4, 5), t(4))
case("mm_int", lambda x, y: aten.mm(x, y), t(3, 4, dtype=I64), t(4, 5, dtype=I64))
case("baddbmm", lambda c, x, y: aten.baddbmm(c, x, y, beta=2, alpha=0.5), t(2, 3, 5), t(2, 3, 4), t(2, 4, 5))
case("einsum", lambda x, y: torch.einsum("bij,bjk->bik", x, y), t(2, 3, 4), t(2, 4, 5))
case("convolution_forms", lambda x, w, g: (aten.convolution(x, w, None, [2, 1], [0, 1], [1, 2], False, [0, 0], 1), aten.convolution(x, g, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 3)), t(2, 3, 7, 6), t(4, 3, 3, 2), t(6, 1, 3, 3))
case("convolution_1d_3d", lambda x, w, y, v: (aten.conv1d(x, w, None, [2], [1]), aten.conv3d(y, v), aten.conv1d(x, w, None, [1], "same"), aten.conv1d(x[0], w)), t(2, 3, 8), t(4, 3, 3), t(1, 2, 4, 4, 4), t(3, 2, 2, 2, 2))
case("convolution_transposed", lambda x, w, b: (aten.convolution(x, w, b, [2, 2], [1, 1], [1, 1], True, [1, 1], 1), aten.conv_transpose2d(x, w, None, [3, 3], [0, 0], [0, 0], 1, [2, 2])), t(2, 3, 4, 5), t(3, 4, 3, 3), t(4))
case("convolution_dynamic", lambda x, w: aten.conv2d(x, w, None, [2, 2], [1, 1]), t(2, 3, 8, 10), t(4, 3, 3, 3), dynamic=({0: "n", 2: "2*h", 3: "2*w"}, None))
for mask in ([True, True, True], [False, True, False]):
    case(f"convolution_backward_{sum(mask)}", lambda dy, x, w, mask=mask: tuple(r for r in aten.convolution_backward(dy, x, w, [4], [1, 1], [1, 1], [1, 1], False, [0, 0], 1, mask) if r is not None), t(2, 4, 5, 6), t(2, 3, 5, 6), t(4, 3, 3, 3))
case("convolution_backward_strided", lambda dy, x, w: aten.convolution_backward(dy, x, w, None, [2, 2], [0, 1], [1, 1], False, [0, 0], 2, [True, True, False])[:2], t(2, 4, 3, 4), t(2, 4, 7, 7), t(4, 2, 3, 3))
case("convolution_backward_transposed", lambda dy, x, w: aten.convolution_backward(dy, x, w, [4], [2, 2], [1, 1], [1, 1], True, [1, 1], 1, [True, True, True]), t(2, 4, 8, 10), t(2, 3, 4, 5), t(3, 4, 3, 3))
for d in FLOATS:
    s = short(d)
    case(f"max_pool2d_{s}", lambda x: aten.max_pool2d_with_indices(x, [2, 3], [1, 2], [1, 1]), t(2, 3, 5, 6, dtype=d))
    case(f"avg_pool2d_{s}", lambda x: (aten.avg_pool2d(x, [2, 3], [1, 2], [1, 1]), aten.avg_pool2d(x, 2, 2, 0, False, False)), t(2, 3, 5, 6, dtype=d))
    case(f"adaptive_avg_pool2d_{s}", lambda x: (aten._adaptive_avg_pool2d(x, [2, 3]), aten.adaptive_avg_pool2d(x, [1, 1]), aten._adaptive_avg_pool2d(x, [4, 4])), t(2, 3, 5, 6, dtype=d))
case("max_pool_forms", lambda x: (aten.max_pool2d(x, 3, 2, 1, 1, True), aten.max_pool2d(x, 2, 2, 0, 2), *aten.max_pool2d_with_indices(x[0], 2), aten.max_pool2d(x, 2, 3, 0, 1, True)), t(2, 3, 7, 8))
case("max_pool3d", lambda x: (*aten.max_pool3d_with_indices(x, 2, 2), aten.max_pool1d(x[0, 0], 3, 1, 1)), t(2, 3, 4, 5, 6))
case("avg_pool_forms", lambda x: (aten.avg_pool2d(x, 3, 2, 1, True), aten.avg_pool2d(x, 3, 2, 1, True, False), aten.avg_pool2d(x, 2, 2, 0, False, True, 3), aten.avg_pool2d(x[0], 2)), t(2, 3, 7, 8))
case("avg_pool3d", lambda x: (aten.avg_pool3d(x, 2, 1, 1), aten.avg_pool1d(x[0, 0], 3, 1, 1)), t(1, 2, 4, 5, 4))
case("adaptive_avg_pool3d", lambda x: (aten._adaptive_avg_pool3d(x, [2, 3, 1]), aten.adaptive_avg_pool1d(x[0, 0], [3])), t(1, 2, 5, 6, 4))
case("adaptive_avg_pool2d_dynamic", lambda x: aten.adaptive_avg_pool2d(x, [1, 1]), t(2, 3, 5, 6), dynamic=({0: "n", 2: "h"},))
case("avg_pool2d_backward", lambda dy, x: aten.avg_pool2d_backward(dy, x, [2, 3], [1, 2], [1, 1], False, True, None), t(2, 3, 6, 3), t(2, 3, 5, 6))
case("avg_pool2d_backward_valid", lambda dy, x: aten.avg_pool2d_backward(dy, x, [3, 3], [2, 2], [1, 1], True, False, None), t(2, 3, 4, 4), t(2, 3, 7, 6))
case("max_pool2d_backward", lambda dy, x: aten.max_pool2d_with_indices_backward(dy, x, [2, 2], [2, 2], [0, 0], [1, 1], False, aten.max_pool2d_with_indices(x, [2, 2])[1]), t(2, 3, 3, 3), t(2, 3, 6, 6))
case("adaptive_avg_pool2d_backward", lambda dy, x: aten._adaptive_avg_pool2d_backward(dy, x), t(2, 3, 2, 3), t(2, 3, 5, 6))

# -- Normalisations
for d in (F32, F64, BF16):
    s = short(d)
    case(f"layer_norm_{s}", lambda x, w, b: aten.native_layer_norm(x, [4], w, b, 1e-5), t(2, 3, 4, dtype=d), t(4, dtype=d), t(4, dtype=d))
    case(f"group_norm_{s}", lambda x, w, b: aten.native_group_norm(x, w, b, 2, 6, 20, 3, 1e-5), t(2, 6, 4, 5, dtype=d), t(6, dtype=d), t(6, dtype=d))
case("layer_norm_forms", lambda x: (aten.layer_norm(x, [3, 4]), torch.nn.functional.rms_norm(x, [4]), aten.native_layer_norm(x, [4], None, None, 1e-3)[0]), t(2, 3, 4), dynamic=({0: "n"},))
case("batch_norm_no_training", lambda x, w, b, m, v: aten._native_batch_norm_legit_no_training(x, w, b, m, v, 0.1, 1e-5)[0], t(2, 3, 4), t(3), t(3), t(3), t(3, lo=0.5, hi=2))
case("batch_norm_functional", lambda x, w, b, m, v: aten._native_batch_norm_legit_functional(x, w, b, m, v, True, 0.1, 1e-5), t(4, 3, 2), t(3), t(3), t(3), t(3, lo=0.5, hi=2))
case("batch_norm_legit", lambda x, w, b, m, v: (aten._native_batch_norm_legit.no_stats(x, w, b, True, 0.1, 1e-5)[0], aten._native_batch_norm_legit(x, w, b, m.clone(), v.clone(), False, 0.1, 1e-5)[0]), t(4, 3, 2), t(3), t(3), t(3), t(3, lo=0.5, hi=2))
case("instance_norm", lambda x, w, b: torch.nn.functional.instance_norm(x, None, None, w, b), t(2, 3, 4, 5), t(3), t(3))
case("layer_norm_backward", lambda dy, x, w, b: aten.native_layer_norm_backward(dy, x, [4], *aten.native_layer_norm(x, [4], w, b, 1e-5)[1:], w, b, [True, True, True]), t(2, 3, 4), t(2, 3, 4), t(4), t(4))
case("group_norm_backward", lambda dy, x, w: aten.native_group_norm_backward(dy, x, *aten.native_group_norm(x, w, None, 2, 6, 20, 3, 1e-5)[1:], w, 2, 6, 20, 3, [True, True, True]), t(2, 6, 4, 5), t(2, 6, 4, 5), t(6))
case("embedding_backward", lambda dy, i: (aten.embedding_dense_backward(dy, i, 7, -1, False), aten.embedding_dense_backward(dy, i, 7, 2, False)), t(2, 3, 4), idx(2, 3, n=7))
case("dropout_off", lambda x: (aten.native_dropout(x, 0.5, False)[0], aten.dropout(x, 0.5, False), aten.native_dropout(x, 0.0, True)[0]), t(3, 4))

# -- Attention, losses, images
for d in (F32, BF16):
    case(f"sdpa_{short(d)}", lambda q, k, v: (torch.nn.functional.scaled_dot_product_attention(q, k, v), torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.3)), t(2, 3, 5, 8, dtype=d), t(2, 3, 5, 8, dtype=d), t(2, 3, 5, 8, dtype=d))
case("sdpa_masks", lambda q, k, v, m, b: (torch.nn.functional.scaled_dot_product_attention(q, k, v, m), torch.nn.functional.scaled_dot_product_attention(q, k, v, b), torch.nn.functional.scaled_dot_product_attention(q[0], k[0], v[0])), t(2, 3, 5, 8), t(2, 3, 6, 8), t(2, 3, 6, 8), t(5, 6), torch.ones(2, 1, 5, 6, dtype=BOOL).tril())
case("sdpa_gqa", lambda q, k, v: torch.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=True), t(2, 4, 5, 8), t(2, 2, 5, 8), t(2, 2, 5, 8))
loss = torch.nn.functional
case("losses", lambda x, y: (loss.mse_loss(x, y), loss.l1_loss(x, y, reduction="sum"), loss.smooth_l1_loss(x, y), loss.huber_loss(x, y, delta=0.7), loss.mse_loss(x, y, reduction="none")), t(3, 4), t(3, 4))
case("bce", lambda x, y: (loss.binary_cross_entropy(x, y), loss.binary_cross_entropy_with_logits(x * 3, y), loss.kl_div(x.log(), y)), t(3, 4, lo=0.1, hi=0.9), t(3, 4, lo=0.1, hi=0.9))
case("cross_entropy", lambda x, y, w: (loss.cross_entropy(x, y), loss.cross_entropy(x, y, w), loss.cross_entropy(x, y, reduction="none", ignore_index=1), loss.cross_entropy(x, y, label_smoothing=0.1), loss.cross_entropy(x, y, w, label_smoothing=0.1), loss.cross_entropy(x, torch.softmax(x * 2, 1)), loss.nll_loss(x, y), loss.cross_entropy(x[0], y[0])), t(5, 4), idx(5, n=4), t(4, lo=0.5, hi=1.5))
case("cross_entropy_2d", lambda x, y: (loss.cross_entropy(x, y), loss.nll_loss(x, y)), t(2, 4, 3, 3), idx(2, 3, 3, n=4))
case("upsample_nearest2d", lambda x: (aten.upsample_nearest2d(x, [7, 9]), aten.upsample_nearest2d.vec(x, None, [2.0, 1.5])), t(2, 3, 4, 5))
case("upsample_bilinear2d", lambda x: (aten.upsample_bilinear2d(x, [7, 9], False), aten.upsample_bilinear2d(x, [7, 9], True), aten.upsample_bilinear2d.vec(x, None, False, [2.0, 2.0]), aten.upsample_bilinear2d(x, [2, 3], False)), t(2, 3, 4, 5))
case("upsample_more", lambda x: (aten.upsample_bicubic2d(x, [7, 9], False), aten.upsample_linear1d(x[0], [9], False), aten._upsample_nearest_exact2d(x, [7, 9])), t(2, 3, 4, 5))
for kind in ("bilinear", "bicubic", "lanczos"):
    resize, back = getattr(aten, f"_upsample_{kind}2d_aa"), getattr(aten, f"_upsample_{kind}2d_aa_backward", None)
    case(f"upsample_{kind}_aa", lambda x, resize=resize: (resize(x, [3, 7], False), resize(x, [11, 9], False), resize(x, [5, 6], True), resize.vec(x, None, False, [0.4, 1.7])), t(2, 3, 8, 13))
    case(f"upsample_{kind}_aa_f64", lambda x, resize=resize: resize(x, [5, 20], False), t(2, 3, 8, 13, dtype=F64))
    case(f"upsample_{kind}_aa_scales", lambda x, resize=resize: resize(x, [3, 7], False, 0.40625, 0.53125), t(2, 3, 8, 13))
    if back:
        case(f"upsample_{kind}_aa_backward", lambda dy, back=back: (back(dy, [3, 7], [2, 3, 8, 13], False), back(dy, [3, 7], [2, 3, 2, 9], True)), t(2, 3, 3, 7))
    if kind != "lanczos":
        case(f"upsample_{kind}_aa_dynamic", lambda x, resize=resize: resize(x, [5, 9], False), t(2, 3, 8, 13), dynamic=({2: "h", 3: "w"},))
for mode in (0, 1, 2):
    for pad in (0, 1, 2):
        case(f"grid_sampler_2d_{mode}{pad}", lambda x, g, mode=mode, pad=pad: (aten.grid_sampler_2d(x, g, mode, pad, False), aten.grid_sampler_2d(x, g, mode, pad, True)), t(2, 3, 4, 5), t(2, 3, 4, 2, lo=-1.3, hi=1.3))
case("col2im", lambda x: aten.col2im(x, [5, 6], [2, 3], [1, 1], [1, 0], [1, 2]), t(2, 18, 12))
case("im2col", lambda x: aten.im2col(x, [2, 3], [1, 1], [1, 0], [1, 2]), t(2, 3, 5, 7))
case("pixel_shuffle", lambda x, y: (torch.pixel_shuffle(x, 2), torch.pixel_unshuffle(y, 2)), t(2, 8, 3, 4), t(2, 3, 4, 6))
for order in (0.0, 1.0, 2.0, 3.0, math.inf):
    case(f"cdist_{order:g}", lambda x, y, order=order: aten._cdist_forward(x, y, order, None), t(2, 3, 4), t(2, 5, 4))
    case(f"pdist_{order:g}", lambda x, order=order: aten._pdist_forward(x, order), t(4, 3))
for mode in (0, 1, 2):
    case(f"embedding_bag_{mode}", lambda w, i, o, mode=mode: (aten._embedding_bag(w, i, o, False, mode)[0], aten._embedding_bag(w, i, o, False, mode, False, None, True)[0]), t(7, 4), idx(9, n=7), torch.tensor([0, 3, 3, 9]))

# -- Transforms and complex tensors, which come in and go out as pairs
fft, pairs = torch.fft, torch.view_as_real
for d in (F32, F64):
    for n in (1, 8, 7, 12):
        s = f"{n}_{short(d)}"
        case(f"fft_r2c_{s}", lambda x: (pairs(fft.rfft(x)), pairs(fft.rfft(x, dim=0, norm="ortho")), pairs(aten._fft_r2c(x, [1], 0, False))), t(3, n, dtype=d))
        case(f"fft_c2c_{s}", lambda x: (pairs(fft.fft(torch.view_as_complex(x))), pairs(fft.ifft(torch.view_as_complex(x), norm="forward")), pairs(fft.fft(torch.view_as_complex(x), norm="ortho"))), t(3, n, 2, dtype=d))
    for n in (2, 7, 8):
        case(f"fft_c2r_{n}_{short(d)}", lambda x, n=n: (fft.irfft(torch.view_as_complex(x), n=n), fft.irfft(torch.view_as_complex(x), n=n, norm="ortho"), fft.irfft(torch.view_as_complex(x), n=n, norm="forward")), t(3, n // 2 + 1, 2, dtype=d))
case("fft_sizes", lambda x: (pairs(fft.rfft(x, n=5)), pairs(fft.rfft(x, n=12)), pairs(fft.fft(x, n=6)), fft.irfft(fft.rfft(x), n=6), fft.irfft(fft.rfft(x), n=11)), t(3, 8))
case("fft_two", lambda x: (pairs(fft.fft2(x)), pairs(fft.ifft2(x, norm="ortho")), pairs(fft.rfft2(x)), fft.irfft2(fft.rfft2(x), s=(5, 6)), pairs(fft.rfft2(x, s=(4, 8)))), t(2, 5, 6))
case("fft_many", lambda x: (pairs(fft.fftn(x)), pairs(fft.ifftn(x, dim=(0, 2))), pairs(fft.rfftn(x, dim=(2, 1))), fft.irfftn(fft.rfftn(x, norm="forward"), s=x.shape, norm="forward")), t(3, 4, 6))
case("fft_core_axes", lambda x: (pairs(aten._fft_r2c(x, [0, 2], 2, True)), aten._fft_c2r(aten._fft_r2c(x, [0, 2], 1, True), [0, 2], 1, 6), pairs(aten._fft_c2c(aten._fft_r2c(x, [1], 0, False), [1, 0], 2, False))), t(3, 4, 6))
case("fft_dynamic", lambda x: (pairs(fft.rfft(x, dim=1)), fft.irfft(fft.rfft(x, dim=1), dim=1)), t(4, 6), dynamic=({0: "n"},))
case("complex_parts", lambda x, y: (torch.view_as_complex(x).real, torch.view_as_complex(x).imag, torch.view_as_complex(x).abs(), torch.view_as_complex(x).angle(), pairs(torch.view_as_complex(x).conj().resolve_conj()), pairs(torch.complex(y, y + 1)), pairs(torch.polar(y.abs(), y))), t(3, 4, 2), t(3, 4))
case("complex_arithmetic", lambda x, y, r: [pairs(v) for a, b in ((torch.view_as_complex(x), torch.view_as_complex(y)),) for v in (a + b, a - b, a * b, a * r, r * a, a + r, r - a, a + 2.5, a * 2, a / r, a / 3, -a, a.sum(0), a.mean(), a * b.conj())], t(3, 4, 2), t(3, 4, 2), t(3, 4, lo=0.5, hi=2))
case("complex_moves", lambda x, y: [pairs(v) for a, b in ((torch.view_as_complex(x), torch.view_as_complex(y)),) for v in (torch.cat([a, b], 1), torch.stack([a, b]), a.permute(1, 0), a[:, 1:3], a[1], a.reshape(2, 6), a.flip(0), torch.roll(a, 1, 1), a[[2, 0]], torch.nn.functional.pad(a, (1, 2)), torch.where(y[..., 0] > 0, a, b), a.expand(2, 3, 4), a.unsqueeze(1))], t(3, 4, 2), t(3, 4, 2))
case("complex_products", lambda x, y: [pairs(v) for a, b in ((torch.view_as_complex(x), torch.view_as_complex(y)),) for v in (a @ b, torch.mm(a, b), torch.einsum("ij,jk->ki", a, b), torch.bmm(a[None], b[None]))], t(3, 4, 2), t(4, 5, 2))
case("diff", lambda x: (x.diff(), x.diff(n=2, dim=0), (x > 0).diff(dim=1), torch.diff(x, prepend=x[:, :1]), torch.diff(x, append=x[:, :2], dim=1)), t(4, 6))
case("as_strided_scatter", lambda x, s: (aten.as_strided_scatter(x, s, [2, 3], [6, 1], 4), aten.as_strided_scatter(x, s.long(), [2, 3], [1, 7])), t(4, 6), t(2, 3))
case("dropout_in_place_off", lambda x: aten.dropout_(x * 2, 0.5, False), t(3, 4))

# -- Complex inputs, results and constants; windows
view = torch.view_as_complex


def c(*shape, dtype=F32):
    return view(t(*shape, 2, dtype=dtype))


class Rotary(torch.nn.Module):
    """A complex buffer, as rotary embeddings keep one, and a complex parameter."""
    def __init__(self):
        super().__init__()
        self.register_buffer("turn", torch.polar(torch.ones(5, 3), torch.outer(torch.arange(5.0), torch.tensor([1.0, 0.1, 0.01]))))
        self.weight = torch.nn.Parameter(c(3, 3).t().contiguous())

    def forward(self, x):
        y = view(x.reshape(*x.shape[:-1], 3, 2)) * self.turn[:x.shape[1]]
        return torch.view_as_real(y).flatten(2), y @ self.weight


for d in (F32, F64):
    case(f"complex_io_{short(d)}", lambda x, y: (x + y, x * y, x.abs(), x.conj(), x[1:], torch.view_as_real(x)), c(3, 4, dtype=d), c(4, dtype=d))
case("complex_io_layout", lambda x: (x.permute(1, 0), x.real, x.unsqueeze(0) * 2, x), c(3, 4))
case("complex_io_scalar", lambda x, y: (x * y, y + 1), c(3, 4), view(t(2)))
case("complex_io_fft", lambda x: (fft.fft(x), fft.ifft(x, n=6), fft.irfft(x, n=7)), c(3, 5))
case("complex_io_dynamic", lambda x, y: (x * y, fft.fft(x)), c(4, 6), c(4, 1), dynamic=({0: "n"}, {0: "n"}))
case("complex_buffer", Rotary(), t(2, 4, 6))
for d in ALL + (BOOL, U8):
    case(f"unfold_{short(d)}", lambda x: (x.unfold(1, 3, 2), x.unfold(0, 2, 1), x.unfold(-1, 7, 5)), t(4, 7, dtype=d))
case("unfold_axes", lambda x: (x.unfold(0, 2, 2), x.unfold(1, 3, 1).unfold(2, 2, 2), x.unfold(1, 5, 1)), t(4, 5, 6))
case("unfold_dynamic", lambda x: x.unfold(1, 3, 2), t(2, 12), dynamic=({0: "n", 1: "4*m"},))
case("unfold_complex", lambda x: x.unfold(0, 2, 1), c(4, 3))
for d in FLOATS:
    case(f"unfold_backward_{short(d)}", lambda g: aten.unfold_backward(g, [2, 9], 1, 3, 2), t(2, 4, 3, dtype=d))
case("unfold_backward_axes", lambda g, h: (aten.unfold_backward(g, [6, 3], 0, 2, 3), aten.unfold_backward(h, [4, 7], -1, 2, 4)), t(2, 3, 2), t(4, 2, 2))
hann = torch.hann_window(12)
for d in (F32, F64):
    w = hann.to(d)
    case(f"stft_{short(d)}", lambda x, w=w: (torch.stft(x, 12, 3, window=w, return_complex=True), torch.stft(x, 12, window=w, normalized=True, return_complex=True), torch.stft(x, 16, 5, 12, window=w, return_complex=True)), t(2, 40, dtype=d))
    case(f"istft_{short(d)}", lambda x, w=w: (torch.istft(x, 12, 3, window=w), torch.istft(x, 12, 3, window=w, length=25), torch.istft(x, 12, 3, window=w, length=20, normalized=True)), c(2, 7, 9, dtype=d))
case("stft_plain", lambda x: (aten.stft(x, 8, None, None, None, False, True, False), torch.stft(x, 9, 2, 5, center=False, onesided=False, return_complex=True)), t(33))
case("stft_complex", lambda x, w: torch.stft(x, 12, 3, window=w, return_complex=True), c(2, 40), hann)
case("istft_plain", lambda x, y: (torch.istft(x, 8, 2), torch.istft(x, 8, 8, center=False), torch.istft(y, 8, 2, onesided=False), torch.istft(y, 8, 2, onesided=False, return_complex=True)), c(5, 6), c(8, 6))
case("istft_long", lambda x: torch.istft(x, 8, 2, length=11), c(5, 6))
case("stft_round", lambda x, w: torch.istft(torch.stft(x, 12, 3, window=w, return_complex=True), 12, 3, window=w, length=40), t(3, 40), hann)


def writes_whole(x, y):
    z = fft.fft(x)
    z[..., 0] = 0
    z[1] = y[1]
    z[:, 1:3] *= 2j
    z += 1 + 2j
    return z, z.abs()


def writes_parts(x, y):
    z = torch.complex(x, x * 2)
    before = z.real + 1
    z.real.mul_(3)
    z.imag[:, 1] = 7
    torch.view_as_real(z)[0, 0, 1] = -1
    rows = z.t()
    rows[2].copy_(y[:, 0])
    return before, z, z.real, rows


def writes_view(x, y):
    x, y = x + 0, y.clone()
    z = view(x)
    z.mul_(1 - 1j)
    y.copy_(z)
    y[0] = 2
    return x, y.sum(), z


case("complex_writes", writes_whole, t(3, 5), c(3, 5))
case("complex_writes_core", lambda x, z: (aten.copy(z, fft.fft(x)), aten.fill(z, 1 - 2j), aten.mul(x, 2j), aten.add(z, 1j), aten.index_put(z, [torch.tensor([2, 0])], z[:2] * 2), aten.select_scatter(z, z[0], 0, 1), aten.masked_fill(z, x > 0, 3)), t(3, 5), c(3, 5))
case("complex_writes_parts", writes_parts, t(3, 4), c(3, 2))
case("complex_writes_view", writes_view, t(3, 4, 2), c(3, 4))
for d in ALL:
    case(f"diagonal_scatter_{short(d)}", lambda x, s, r, q: (torch.diagonal_scatter(x, s), torch.diagonal_scatter(x, r, -1, 2, 0), torch.diagonal_scatter(x, q, 2, 0, 2)), t(4, 3, 5, dtype=d), t(5, 3, dtype=d), t(3, 4, dtype=d), t(3, 3, dtype=d))
case("broadcast_tensors", lambda x, y, z: torch.broadcast_tensors(x, y, z), t(4, 1), t(3), t(1, 1, 1))
case("new_empty_strided", lambda x: aten.new_empty_strided(x, [2, 3], [1, 2]).zero_() + x, t(2, 3))
case("stft_dynamic", lambda x, w: torch.stft(x, 12, 3, window=w, center=False, return_complex=True).abs(), t(3, 40), hann, dynamic=({0: "n"}, None))
for d in (F32, F64):
    case(f"complex_quotients_{short(d)}", lambda x, y, r: (x / y, x / y[0], r / y, 1 / y, x / (2 - 3j), y.reciprocal(), r / (1j * r), x / x.abs(), (x / (y * 1e30)) * 1e30, (x / (y * 1e-30)) * 1e-30), c(3, 4, dtype=d) + 1, c(3, 4, dtype=d) + 2j, t(3, 4, dtype=d))

# -- Names of NumPy's and special's, and formulas
for name, other, lo, hi in (("absolute", "abs", -2, 2), ("negative", "neg", -2, 2), ("arccos", "", -0.9, 0.9), ("arcsin", "", -0.9, 0.9), ("arctan", "", -2, 2), ("arctanh", "", -0.9, 0.9), ("arcsinh", "", -2, 2), ("arccosh", "", 1.1, 4),
                            ("special_erf", "", -2, 2), ("special_expit", "", -3, 3), ("special_expm1", "", -2, 2), ("special_log1p", "", -0.5, 3), ("special_exp2", "", -2, 2), ("special_round", "", -7, 7), ("sgn", "", -2, 2)):
    case(f"alias_{name}", lambda x, op=getattr(aten, name): op(x), t(3, 4, lo=lo, hi=hi))
case("alias_two", lambda x, y: (aten.multiply(x, y), aten.multiply(x, 2), aten.subtract(x, y, alpha=2), aten.divide(x, y), aten.divide(x, y, rounding_mode="floor"), aten.arctan2(x, y), aten.greater(x, y), aten.greater_equal(x, 0.5), aten.less(x, y), aten.less_equal(x, y), aten.not_equal(x, y)), t(3, 4), t(3, 4, lo=0.5, hi=2))
case("alias_moves", lambda x, y: (torch.moveaxis(x, 0, 2), torch.swapdims(x, 0, 1), torch.concatenate([x, y], 1), torch.ravel(x), y.mH, y.adjoint(), x[0].H, aten.linalg_matmul(x, y.mT), torch.ger(x[0, 0], y[0, 0]), torch.vdot(x[0, 0], y[0, 0]), torch.argwhere(x > 0)), t(2, 3, 4), t(2, 3, 4))
case("alias_copies", lambda x: (aten.expand_copy(x[:, :1], [4, 6]), aten.permute_copy(x, [1, 0]), aten.slice_copy(x, 1, 1, 5, 2), aten.select_copy.int(x, 0, 1), aten.squeeze_copy(x[:1]), aten.unsqueeze_copy(x, 1), aten.t_copy(x), aten.transpose_copy.int(x, 0, 1), *aten.unbind_copy.int(x[:2]), *aten.split_copy.Tensor(x, 4, 1), *aten.split_with_sizes_copy(x, [1, 5], 1), aten.diagonal_copy(x), aten.narrow_copy(x, 1, 2, 3), *aten.unsafe_split.Tensor(x, 3, 1), *aten.unsafe_chunk(x, 2)), t(4, 6))
for d in FLOATS:
    s = short(d)
    case(f"formulas_{s}", lambda x: (aten.rad2deg(x), aten.deg2rad(x), aten.erfc(x), aten.sinc(x), aten.hardshrink(x, 0.7), aten.softshrink(x, 0.3), aten.glu(x), aten.glu(x, 0), aten.rrelu(x)), t(4, 6, dtype=d, lo=-3, hi=3))
    case(f"logit_{s}", lambda x: (aten.logit(x), aten.logit(x, 0.2), aten.special_logit(x, 0.01)), t(3, 4, dtype=d, lo=0.05, hi=0.95))
    case(f"formulas_two_{s}", lambda x, y: (aten.logaddexp(x, y), aten.logaddexp2(x, y), aten.hypot(x, y), aten.copysign(x, y), aten.fmax(x, y), aten.fmin(x, y), aten.heaviside(x, y), aten.xlogy(x, y.abs()), aten.special_xlog1py(x, y.abs()), aten.ldexp(x, y.round())), t(3, 4, dtype=d), t(4, dtype=d))
odd = torch.tensor([0.0, -0.0, math.inf, -math.inf, math.nan, 1e30, -1.5, 2.0])
case("formulas_corners", lambda x: (aten.isposinf(x), aten.isneginf(x), aten.signbit(x), aten.nan_to_num(x), aten.nan_to_num(x, 1.0, 2.0, -3.0), aten.hardshrink(x), aten.softshrink(x), aten.sinc(x[:2]), aten.heaviside(x, torch.tensor(0.5))), odd)
case("formulas_pairs", lambda x, y: (aten.logaddexp(x, y), aten.hypot(x, y), aten.copysign(x, y), aten.fmax(x, y), aten.fmin(x, y), aten.xlogy(x, y), aten.isclose(x, y), aten.isclose(x, y, 1e-2, 1e-3, True)), odd[:, None].expand(8, 8).clone(), odd)
case("formulas_int", lambda x, y: (aten.float_power(x, 2), aten.float_power(x, y), aten.isclose(x, y), aten.nan_to_num(x), aten.isposinf(x), aten.signbit(x - 3), aten.logaddexp(x.float(), y.float()), aten.xlogy(x, y + 1)), t(3, 4, dtype=I64, lo=4, hi=6), t(3, 4, dtype=I64, lo=4, hi=6))
case("erfc_tail", lambda x: aten.erfc(x), torch.linspace(-4, 9, 40))
case("glu_dynamic", lambda x: torch.nn.functional.glu(x, 1), t(3, 8), dynamic=({0: "n"},))
case("dropouts_off", lambda x: (torch.nn.functional.alpha_dropout(x, 0.3, False), torch.nn.functional.feature_alpha_dropout(x, 0.3, False), torch.nn.functional.rrelu(x, 0.1, 0.5, False)), t(2, 3, 4))

# -- Joins, splits, grids
for d in (F32, BF16, I64, BOOL):
    s = short(d)
    case(f"stacks_{s}", lambda x, y, v: (torch.hstack([x, y]), torch.vstack([x, y]), torch.dstack([x, y]), torch.column_stack([x, v, y]), torch.hstack([v, v]), torch.vstack([v, v]), torch.dstack([v, v]), torch.row_stack([x, y]), torch.block_diag(x, v, y[:1])), t(3, 4, dtype=d), t(3, 4, dtype=d), t(3, dtype=d))
    case(f"splits_{s}", lambda x: (*torch.tensor_split(x, 3, 1), *torch.tensor_split(x, (1, 4), 1), *torch.hsplit(x, 2), *torch.vsplit(x, [1]), *torch.hsplit(x[0], [2]), *torch.dsplit(x[None], 2), *torch.tensor_split(x, (2, 9), 0)), t(4, 8, dtype=d))
    case(f"repeat_interleave_{s}", lambda x: (x.repeat_interleave(3), x.repeat_interleave(2, 0), x.repeat_interleave(2, -1), torch.repeat_interleave(x[:, :, None], 3, 2)), t(3, 2, dtype=d))
    case(f"diagonals_{s}", lambda x, v: (torch.diag(x), torch.diag(x, 1), torch.diag(x, -2), torch.diag(v), torch.diag(v, 2), torch.diag(v, -1), torch.diagflat(x[:2, :2]), torch.diag_embed(x), torch.diag_embed(x, 1, 0, 2), torch.diag_embed(x, -1)), t(4, 3, dtype=d), t(3, dtype=d))
    case(f"turns_{s}", lambda x: (torch.fliplr(x), torch.flipud(x), torch.rot90(x), torch.rot90(x, 2), torch.rot90(x, -1), torch.rot90(x, 1, (2, 0)), aten.channel_shuffle(x[None], 2), torch.channel_shuffle(x[None], 4)), t(4, 3, 2, dtype=d))
    case(f"takes_{s}", lambda x, i: (torch.take(x, i), torch.take_along_dim(x, i, 1), torch.take_along_dim(x, i), torch.take_along_dim(x, i[:1], 0), torch.take_along_dim(x, i[:, :1], 1)), t(3, 4, dtype=d), torch.tensor([[0, 2, 1, 2], [1, 0, 2, 2], [2, 2, 0, 1]]))
case("ranks", lambda x: (*torch.atleast_1d(x[0, 0, 0], x[0]), *torch.atleast_2d(x[0, 0, 0], x[0, 0], x), *torch.atleast_3d(x[0, 0, 0], x[0, 0], x[0]), torch.atleast_1d(x[0, 0, 0])), t(2, 3, 4))
case("grids", lambda x, y: (*torch.meshgrid(x, y, indexing="ij"), *torch.meshgrid(x, y, x, indexing="xy"), torch.cartesian_prod(x, y), torch.cartesian_prod(x)), t(3), t(4))
case("triangles", lambda x: (x + 1, torch.tril_indices(4, 3), torch.triu_indices(3, 5, 1), torch.tril_indices(3, 3, -1)), t(2))
case("repeat_interleave_dynamic", lambda x: (x.repeat_interleave(2, 0), x.repeat_interleave(3, 1)), t(4, 3), dynamic=({0: "n"},))
case("repeat_interleave_each", lambda x, n: (torch.repeat_interleave(x, n, 0, output_size=7), torch.repeat_interleave(n, output_size=7)), t(4, 3), torch.tensor([2, 0, 4, 1]))
case("tensor_split_dynamic", lambda x: x.tensor_split(2, 1)[1] * 2, t(3, 6), dynamic=({1: "2*n"},))
case("windows", lambda x: (x + 1, torch.hann_window(9), torch.hann_window(8, False), torch.hamming_window(7), torch.hamming_window(7, False, 0.5, 0.4), torch.blackman_window(9), torch.bartlett_window(8), torch.bartlett_window(5, False), torch.logspace(-1, 1, 5), torch.logspace(0, 3, 4, 2), aten.range(1, 3, 0.5)), t(2))

# -- Order, searches, counts
for d in ALL:
    s = short(d)
    perm = torch.stack([torch.randperm(7, generator=generator) for _ in range(3)]).to(d)
    case(f"order_{s}", lambda x: (*torch.kthvalue(x, 3), torch.kthvalue(x, 2, 0, True)[0], torch.median(x), *torch.median(x, 1), torch.median(x[:, :6], -1, True)[0], torch.msort(x), *torch.aminmax(x, dim=1), *torch.aminmax(x), torch.count_nonzero(x), torch.count_nonzero(x, 1), torch.trace(x[:, :3])), perm)
    case(f"running_{s}", lambda x: (*torch.cummax(x, 1), *torch.cummin(x, -1), torch.cummax(x, 0)[0]), t(4, 5, dtype=d))
    case(f"searches_{s}", lambda x, b: (torch.bucketize(x, b), torch.bucketize(x, b, right=True), torch.searchsorted(b, x), torch.searchsorted(b, x, side="right", out_int32=True), torch.isin(x, b), torch.isin(x, b, invert=True), torch.bucketize(1, b), torch.isin(x, 1)), t(3, 4, dtype=d, lo=-4, hi=4), torch.tensor([-3, -1, 0, 1, 3]).to(d))
case("order_nan", lambda x: (torch.median(x), *torch.median(x, 1), *torch.cummax(x, 1), torch.nansum(x), torch.nansum(x, 1), torch.nanmean(x, 0), torch.quantile(x, 0.3, dim=1)), torch.tensor([[1.0, math.nan, 3.0], [2.0, 5.0, 4.0]]))
case("searches_rows", lambda b, x: (torch.searchsorted(b, x), torch.searchsorted(b, x, right=True), torch.searchsorted(b.flip(1), x, sorter=torch.tensor([[4, 3, 2, 1, 0]] * 3))), torch.sort(t(3, 5))[0], t(3, 4))
for d in (F32, F64):
    case(f"quantile_{short(d)}", lambda x, q: (torch.quantile(x, 0.4), torch.quantile(x, q, dim=1), torch.quantile(x, q, dim=0, keepdim=True), torch.quantile(x, 0.75, dim=1, interpolation="lower"), torch.quantile(x, 0.1, interpolation="nearest"), torch.quantile(x, q, interpolation="midpoint", keepdim=True), torch.quantile(x, 1.0, dim=0, interpolation="higher")), t(4, 7, dtype=d), torch.tensor([0.0, 0.25, 0.6], dtype=d))
    case(f"histc_{short(d)}", lambda x: (torch.histc(x, 5), torch.histc(x, 4, -1, 1), torch.histc(x * 0 + 1, 3)), t(40, dtype=d))
case("histc_counts", lambda x: torch.histc(x.float(), 6, 0, 5), idx(3, 9, n=6))
for d in (F32, BF16):
    case(f"logcumsumexp_{short(d)}", lambda x: (torch.logcumsumexp(x, 1), torch.logcumsumexp(x * 30, 0)), t(4, 6, dtype=d))
case("running_dynamic", lambda x: (*torch.cummax(x, 1), torch.logcumsumexp(x, 0)), t(4, 6), dynamic=({0: "n"},))
case("norms", lambda x: (torch.linalg.norm(x), torch.linalg.norm(x, dim=1), torch.linalg.norm(x, 1, 0), torch.linalg.norm(x, math.inf, 1, True), torch.linalg.matrix_norm(x), torch.linalg.norm(x, "fro"), torch.linalg.norm(x[0], 3), torch.dist(x, x * 2), torch.dist(x, x + 1, 1)), t(3, 4))

# -- Products of tensors, similarities
for d in (F32, F64, BF16):
    case(f"products_{short(d)}", lambda x, y, v: (torch.tensordot(x, y, dims=([2, 0], [1, 2])), torch.tensordot(x, v, 1), torch.inner(x, v), torch.inner(v, v), torch.kron(x[0], y[0]), torch.kron(v, x[0]), torch.linalg.vecdot(x, v), torch.linalg.multi_dot([x[0], y[0, :, :2], x[1, :2]]), torch.linalg.matrix_power(x[:, :, :3], 3), torch.matrix_power(x[:, :, :3], 0), torch.addr(x[0], x[0, :, 0], v), torch.addbmm(x[0, :, :2], x, y[:, :, :2], beta=0.5, alpha=2)), t(2, 3, 4, dtype=d), t(2, 4, 2, dtype=d), t(4, dtype=d))
    case(f"crosses_{short(d)}", lambda x, y: (torch.linalg.cross(x, y), torch.cross(x, y, dim=0), torch.linalg.cross(x[:1], y, dim=1)), t(3, 3, dtype=d), t(3, 3, dtype=d))
    case(f"similarities_{short(d)}", lambda x, y: (torch.cosine_similarity(x, y), torch.cosine_similarity(x, y, 0), torch.pairwise_distance(x, y), torch.pairwise_distance(x, y, 1.0, keepdim=True), torch.cosine_similarity(x[None], y[:, None], -1)), t(3, 5, dtype=d), t(3, 5, dtype=d))
case("cells", lambda x, h, c, w, u, b, e: (*torch.lstm_cell(x, (h, c), w, u, b, e), torch.gru_cell(x, h, w[:12], u[:12], b[:12], e[:12]), torch.rnn_tanh_cell(x, h, w[:4], u[:4], b[:4], e[:4]), torch.rnn_relu_cell(x, h, w[:4], u[:4])), t(2, 3), t(2, 4), t(2, 4), t(16, 3), t(16, 4), t(16), t(16))
for d in (F32, BF16):
    case(f"grouped_{short(d)}", lambda x, w, o: torch._grouped_mm(x, w, offs=o), t(9, 8, dtype=d), t(4, 8, 16, dtype=d), torch.tensor([3, 3, 4, 9], dtype=I32))
case("weight_norm", lambda v, g, h: (torch._weight_norm(v, g), torch._weight_norm(v, h, 2)), t(4, 3, 5), t(4, 1, 1), t(1, 1, 5))
case("masked_scatter_none", lambda x, m, y: (aten.masked_scatter(x, m, y), x + 1), t(3, 4), torch.zeros(3, 4, dtype=BOOL), t(0))
case("trilinear", lambda x, y, w, i, j, k: (torch.nn.functional.bilinear(x, y, w), aten._trilinear(i, j, k, [0], [1], [], [2], 1), aten._trilinear(i, j, k, [-3], [-2], [], [0, 1], 0)), t(2, 3, 4), t(2, 3, 5), t(6, 4, 5), t(3, 4), t(2, 4), t(2, 3, 4))
case("linalg_norm_zero", lambda x, y: (torch.linalg.norm(x, 0), torch.linalg.norm(y, 0, dim=1), torch.linalg.vector_norm(y, 0, dim=(0, 1)), torch.linalg.norm(y, 0, dim=-1, keepdim=True)), torch.tensor([0.0, -1.5, 0.0, 2.0]), t(3, 4).round())
case("bilinear", lambda x, y, w, b: (torch.nn.functional.bilinear(x, y, w, b), torch.nn.functional.bilinear(x[0], y[0], w)), t(2, 3, 4), t(2, 3, 5), t(6, 4, 5), t(6))
case("names_more", lambda x, y: (torch.chain_matmul(x, y, x), aten.frobenius_norm.dim(x, [0, 1]), aten.special_erfc(x), aten.special_sinc(x), aten.special_softmax(x, 1), aten.special_logsumexp(x, [1]), aten.special_xlogy(x, y.T.abs()), aten.native_channel_shuffle(x[None, :, :, None].repeat(1, 2, 1, 1), 2), torch.pdist(x), *aten.unsafe_split_with_sizes(x, [1, 3], 1)), t(3, 4), t(4, 3))
case("losses_apart", lambda x, y, z: (loss.margin_ranking_loss(x, y, z.sign(), 0.3), loss.hinge_embedding_loss(x, z.sign()), loss.triplet_margin_loss(x, y, z), loss.triplet_margin_loss(x, y, z, swap=True, reduction="none"), loss.cosine_embedding_loss(x, y, z[:, 0].sign(), 0.2), loss.soft_margin_loss(x, z.sign()), loss.poisson_nll_loss(x, y.abs() * 3), loss.poisson_nll_loss(x.abs(), y.abs() * 3, log_input=False, full=True, reduction="sum")), t(3, 5), t(3, 5), t(3, 5, lo=0.1, hi=2) * torch.tensor([[1.0], [-1.0], [1.0]]))

# -- Quantisation: PT2E's ops and fake quantisation
from torch.ao.quantization.fx import _decomposed  # noqa: F401 (registers them)
quant = torch.ops.quantized_decomposed
for d, low, high, zero in ((torch.int8, -128, 127, 3), (torch.int8, -127, 127, 0), (U8, 0, 255, 120)):
    s = f"{short(d)}_{high - low}"
    case(f"quantize_{s}", lambda x, low=low, high=high, zero=zero, d=d: (quant.quantize_per_tensor(x, 0.011, zero, low, high, d), quant.dequantize_per_tensor(quant.quantize_per_tensor(x, 0.02, zero, low, high, d), 0.02, zero, low, high, d)), t(3, 40))
case("quantize_channels", lambda x, s, z: quant.dequantize_per_channel(quant.quantize_per_channel(x, s, z, 1, -127, 127, torch.int8), s, z, 1, -127, 127, torch.int8), t(5, 4), t(4, lo=0.01, hi=0.03), torch.zeros(4, dtype=I64))
case("quantize_linear", lambda x, w, s, z: torch.nn.functional.linear(quant.dequantize_per_tensor(quant.quantize_per_tensor(x, 0.02, 4, -128, 127, torch.int8), 0.02, 4, -128, 127, torch.int8), quant.dequantize_per_channel(w, s, z, 0, -127, 127, torch.int8)), t(3, 8), idx(5, 8, n=200).sub(100).to(torch.int8), t(5, lo=0.01, hi=0.02), torch.zeros(5, dtype=I64))
case("quantize_data", lambda x: (lambda s, z: quant.dequantize_per_tensor.tensor(quant.quantize_per_tensor.tensor(x, s, z, 0, 255, U8), s, z, 0, 255, U8))(*quant.choose_qparams.tensor(x, 0, 255, 1e-6, U8)), t(3, 40))
case("fake_quantize", lambda x, s, z: (torch.fake_quantize_per_tensor_affine(x, 0.1, 3, 0, 15), torch.fake_quantize_per_channel_affine(x, s, z, 1, -8, 7), torch.fake_quantize_per_tensor_affine(x, s[0], z[0], -8, 7)), t(5, 4), t(4, lo=0.1, hi=0.3), torch.tensor([0, 1, -2, 3], dtype=I32))



def resized(x):
    y, z = x.clone(), x * 2
    row = y[1]
    y.resize_(2, 5)
    y.mul_(2)
    return y, row, y.sum(1), z.resize_(6)


def asks_memory(graph):
    """Strides and offsets, which the exporter writes as sizes and numbers."""
    x = next(n for n in graph.nodes if n.op == "placeholder")
    for n in list(graph.nodes):
        if n.target is aten.sym_size.int:
            n.target, n.args = aten.sym_stride.int, (x, 0)
        if n.target is aten.add.Tensor:
            with graph.inserting_before(n):
                offset = graph.call_function(aten.sym_storage_offset.default, (x,))
            offset.meta["val"] = n.args[0].meta["val"].storage_offset()
            n.args = (n.args[0], offset)


case("resize", resized, t(3, 4))
case("is_contiguous", lambda x: (x * (2 if aten.sym_is_contiguous(x) else 3), x.t() * (2 if aten.sym_is_contiguous(x.t()) else 3)), t(3, 4), dynamic=({1: "n"},))
case("sym_strides", lambda x: x * x.stride(0) + x.storage_offset(), t(3, 4), dynamic=({1: "n"},), edit=asks_memory)
case("random_numbers", lambda x: (((r := aten.rand([500])) >= 0).all(), (r < 1).all(), r.mean() > 0.4, aten.sort(aten.randperm(50))[0], (n := aten.randn([500])).abs().mean() > 0.6, n.abs().max() < 8, n.mean().abs() < 0.3, x + 1), t(2))


def loops(x):
    from torch._higher_order_ops import while_loop
    return while_loop(lambda i, y: i < 5, lambda i, y: (i + 1, torch.tanh(y * 1.5)), (torch.tensor(0), x))[1]


def scans(x):
    from torch._higher_order_ops.scan import scan
    return scan(lambda c, y: (c * 0.5 + y, torch.sin(c) + y), x[0] * 0, x)


def maps(x, w):
    from torch._higher_order_ops.map import map as torch_map
    return torch_map(lambda y, w: torch.relu(y) * w, x, w)


case("cond", lambda x: torch.cond(x.sum() > 0, lambda a: a * 2, lambda a: torch.relu(a) - 1, (x,)), t(3, 4))
case("cond_nested", lambda x: torch.cond(x.sum() > 0, lambda a: torch.cond(a[0, 0] > 0, torch.sin, torch.cos, (a,)), lambda a: a.flip(0), (x,)), t(3, 4).abs())
case("while_loop", loops, t(3, 4))
case("scan", scans, t(5, 3))
case("map", maps, t(5, 3), t(3))
case("lstm", torch.nn.LSTM(5, 7, num_layers=2, batch_first=True, bidirectional=True).eval(), t(2, 6, 5))
case("gru", torch.nn.GRU(5, 7).eval(), t(6, 2, 5))
case("complex_functions", lambda x, r: [pairs(v) for a in (torch.view_as_complex(x),) for v in (a.exp(), a.log(), a.sqrt(), a.square(), torch.sqrt(a * r), torch.log(a * 1e20), a.conj().resolve_conj().sqrt())],
     torch.cat([t(4, 5, 2, lo=-3, hi=3), torch.tensor([[[0.0, 0.0], [-2.0, 0.0], [0.0, 3.0], [0.0, -3.0], [2.0, 0.0]]])]), t(5, 5, lo=0.5, hi=2))
case("complex_powers", lambda x, y, r: [pairs(v) for a, b in ((torch.view_as_complex(x), torch.view_as_complex(y)),) for v in (a ** 2, a ** 3, a ** 0.5, a ** -1.5, a ** 0, a ** b, a ** r, r ** b, 2.0 ** b, a ** (1 + 2j))], t(3, 4, 2, lo=0.2, hi=2), t(4, 2), t(3, 4, lo=0.5, hi=2))

# -- Memory: views see what is written to it by whatever name, copies do not


def written(f):
    """f of a copy of its first input, so that no input is written to."""
    return lambda x, *more: f(x.clone(), *more)


def both(y, z):
    z.add_(1)
    return y, z


def every(y, parts):
    for k, z in enumerate(parts):
        z.mul_(k + 2)
    return y, *parts


def turned(x):
    y = x[1:]
    z = x.transpose_(0, 1)
    y.add_(1)
    z[0] = 5
    return x, y, z


def in_no_grad(x):
    y = x[:, 1:]
    with torch.no_grad():
        y.mul_(2)
        z = x[0]
        z.add_(1)
    z.sub_(3)
    return x, y, z


def bits(x, y):
    x |= y
    x &= 6
    x ^= 1
    return x


case("memory_reshape", written(lambda x: (*both(x, x.reshape(6, 4)), *both(x, x.transpose(1, 2).reshape(2, 12)), *both(x, x[:, :2].reshape(-1)), *both(x, x.flatten(1)), *both(x, x.mT.flatten()), *both(x, x.mT.contiguous()), *both(x, x.mT.ravel()), *both(x, x.contiguous()))), t(2, 3, 4))
case("memory_to", written(lambda x: (*both(x, x.to(F32)), *both(x, x.to(F64)), *both(x, x.to(F32, copy=True)), *both(x, x.type_as(x[0])), *both(x, torch.nn.functional.dropout(x, 0.5, False)))), t(3, 4))
case("memory_pieces", written(lambda x: (every(x, x.chunk(3, 1)), every(x, x.split((1, 3, 2), 1)), every(x, x.unbind()), every(x, x.tensor_split((2, 3), 1)), both(x.chunk(2, 1)[0], x))), t(4, 6))
case("memory_lists", written(lambda x: (every(x, torch.atleast_2d(x, x[1:])), both(torch.broadcast_tensors(x, x[:1] * 1)[0], x))), t(3, 4))
case("memory_turned", written(turned), t(3, 3))
case("memory_strided", written(lambda x: (*both(x, x[1:, 2:].as_strided((2, 3), (7, 2))), *both(x, x.t().as_strided((3,), (5,), 4)), *both(x, (x * 1).t().mul(1).as_strided((2, 2), (6, 1), 3)))), t(4, 6))
case("memory_overlaps", written(lambda x: (x.unfold(0, 2, 1)[:, -1:].fill_(2), x)), t(8))
case("memory_no_grad", written(in_no_grad), t(3, 4))
case("memory_bits", written(bits), t(3, 4, dtype=I64), t(4, dtype=I64))
case("floor_divide_limits", lambda x, y, z: (x // 100, x // -8, y // 10, z // -3, aten.remainder(x, 100), aten.fmod(x, -7), x // y, aten.div(z, 3, rounding_mode="trunc")),
     torch.tensor([-128, -120, 121, 127], dtype=torch.int8), torch.tensor([-32768, 32767, -1, 5], dtype=torch.int16), torch.tensor([2147483647, -2147483648, 7, -7], dtype=I32))

case("adaptive_max_pool_any", lambda x: (*aten.adaptive_max_pool2d(x, [2, 4]), *aten.adaptive_max_pool1d(x[0], [4]), *aten.adaptive_max_pool2d(x[0], [7, 5])), t(2, 3, 5, 6).round())
case("adaptive_max_pool3d_any", lambda x: aten.adaptive_max_pool3d(x, [2, 3, 3]), t(1, 2, 5, 4, 4).round())
case("adaptive_pool_dynamic", lambda x: (aten.adaptive_avg_pool2d(x, [2, 3]), *aten.adaptive_max_pool2d(x, [3, 2])), t(2, 3, 5, 6), dynamic=({0: "n", 2: "H", 3: "W"},))
case("adaptive_max_pool2d_backward", lambda dy, x: aten.adaptive_max_pool2d_backward(dy, x, aten.adaptive_max_pool2d(x, [2, 4])[1]), t(2, 3, 2, 4), t(2, 3, 5, 6))
case("adaptive_max_pool3d_backward", lambda dy, x: aten.adaptive_max_pool3d_backward(dy, x, aten.adaptive_max_pool3d(x, [2, 2, 3])[1]), t(2, 1, 2, 2, 3), t(2, 1, 3, 4, 4))
case("upsample_scaled_dynamic", lambda x: (torch.nn.functional.interpolate(x, scale_factor=1.5), x), t(2, 3, 5), dynamic=({2: "W"},))


def drawn():
    """Programs of views, copies and writes, drawn at random."""
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
    import views
    for first, bundle in views.bundles(0, 6 * views.BUNDLE, copies=True):
        if first != 32:                    # PyTorch has no core program of it
            case(f"views_{first}", bundle, *bundle.inputs)


drawn()


def main():
    folder, pattern = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "*"
    warnings.simplefilter("ignore")
    seen, bad = set(), 0
    for name, f, inputs, dynamic, tol, edit, also in CASES:
        assert name not in seen, name
        seen.add(name)
        if not fnmatch.fnmatch(name, pattern):
            continue
        try:
            write_case(folder, name, f, inputs, dynamic, tol, edit, also)
        except Exception as e:
            print(f"not made: {name}: {type(e).__name__}: {str(e).strip().splitlines()[0] if str(e) else ''}")
            bad += 1
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
