#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Small models of the operators of domain com.microsoft, one each, in the official suite's layout.

usage: contrib_cases.py DIR [--runtime]

Outputs are the references' (contrib_refs.py). With --runtime they are ONNX Runtime's, where it has a kernel for the CPU; the references are held to
it as well (exit 1 where they differ). A case whose operands have symbolic dims is written with fixed ones and, as NAME_sym, with symbolic ones.
"""
import os, sys
import numpy as np, onnx
from onnx import helper as h, numpy_helper
import contrib_refs as refs
from case_folder import write_case

rng = np.random.default_rng(11)
CASES = []
# No kernel for the CPU in ONNX Runtime 1.31, or one that wants a form of ours less.
NO_KERNEL = {"Rfft", "Irfft", "QLinearReduceMean", "BiasSplitGelu", "BiasAdd", "GroupNorm", "SkipGroupNorm", "GemmFastGelu", "NhwcConv", "NhwcFusedConv", "PackedAttention", "PackedMultiHeadAttention"}
REFERENCE = {"NhwcFusedConv": "NhwcConv", "TransposeMatMul": "FusedMatMul"}


def f32(*shape, scale=1.0):
    return (rng.standard_normal(shape) * scale).astype(np.float32)


def byte(*shape, lo=0, hi=256, dtype=np.uint8):
    return rng.integers(lo, hi, shape).astype(dtype)


def i32(*values):
    return np.array(values, np.int32)


def case(name, operands, attrs=None, outs=(0,), sym=None, const=(), runtime=True, tol=None, domain="com.microsoft"):
    """operands: arrays (None: omitted); const: which are constants; sym: {operand: "b s 16"}, names are symbols; outs: which results are wanted."""
    op = name.split(".")[0].removesuffix("_f16")
    runtime = runtime and op not in NO_KERNEL and not any(a is not None and a.dtype == np.float16 and op in HALF_MISSING for a in operands)
    half = any(a is not None and a.dtype == np.float16 for a in operands)
    CASES.append((name, op, operands, attrs or {}, outs, None, const, runtime, tol or ("2e-2 2e-2" if half else "1e-4 2e-5"), domain))
    if sym:
        CASES.append((name + "_sym", op, operands, attrs or {}, outs, sym, const, runtime, CASES[-1][8], domain))


HALF_MISSING = {"FastGelu", "Gelu", "BiasGelu", "QuickGelu", "EmbedLayerNormalization", "Attention", "MultiHeadAttention", "FusedMatMul"}


def half(*arrays):
    return [None if a is None else a.astype(np.float16) if a.dtype == np.float32 else a for a in arrays]


def both(name, operands, *args, **named):
    case(name, operands, *args, **named)
    case(name + "_f16", half(*operands), *args, **named)


# -- Activations
x = f32(2, 5, 24)
seq = {0: "b s 24"}
both("BiasGelu", [x, f32(24)], sym=seq, const=[1])
both("Gelu", [x * 2], sym=seq)
both("FastGelu", [x, f32(24)], sym=seq, const=[1])
case("FastGelu.plain", [x * 2])
both("QuickGelu", [x], sym=seq)
case("QuickGelu.alpha", [x], {"alpha": 1.0})
both("BiasSplitGelu", [x, f32(24)], sym=seq, const=[1])
both("BiasAdd", [x, f32(24), f32(2, 5, 24)], sym={0: "b s 24", 2: "b s 24"}, const=[1])

# -- Normalisation
gamma, beta, bias = f32(24), f32(24), f32(24)
pair = {0: "b s 24", 1: "b s 24"}
both("SkipLayerNormalization", [x, f32(2, 5, 24), gamma, beta, bias], {"epsilon": 1e-5}, outs=(0, 3), sym=pair, const=[2, 3, 4])
case("SkipLayerNormalization.bare", [x, f32(2, 5, 24), gamma], {"epsilon": 1e-3}, const=[2])
case("SkipLayerNormalization.no_beta", [x, f32(2, 5, 24), gamma, None, bias], const=[2, 4])
case("SkipLayerNormalization.one", [x, f32(1, 5, 24), gamma, beta], sym={0: "b s 24", 1: "1 s 24"}, const=[2, 3])
case("SkipLayerNormalization.row", [x, f32(5, 24), gamma, beta], sym={0: "b s 24", 1: "s 24"}, const=[2, 3])
both("SkipSimplifiedLayerNormalization", [x, f32(2, 5, 24), gamma, bias], {"epsilon": 1e-6}, outs=(0, 3), sym=pair, const=[2, 3])
case("SkipSimplifiedLayerNormalization.bare", [x, f32(2, 5, 24), gamma], {"epsilon": 1e-6}, const=[2])
case("SkipSimplifiedLayerNormalization.two", [x[0], f32(5, 24), gamma], {"epsilon": 1e-6}, outs=(0, 3), sym={0: "s 24", 1: "s 24"}, const=[2])
both("SimplifiedLayerNormalization", [x, gamma], {"epsilon": 1e-6, "axis": -1, "stash_type": 1}, sym=seq, const=[1], domain="")
case("LayerNormalization.opset13", [x, gamma, beta], {"epsilon": 1e-5, "axis": -1}, sym=seq, const=[1, 2], domain="")

ids, seg = byte(3, 6, hi=40, dtype=np.int32), byte(3, 6, hi=2, dtype=np.int32)
mask = np.array([[1] * 6, [1, 1, 1, 0, 0, 0], [1] * 5 + [0]], np.int32)
tables = [f32(40, 24), f32(16, 24), f32(2, 24), gamma, beta]
words = {0: "b s", 1: "b s", 7: "b s"}
both("EmbedLayerNormalization", [ids, seg, *tables, mask], {"epsilon": 1e-12}, outs=(0, 1), sym=words, const=[2, 3, 4, 5, 6])
case("EmbedLayerNormalization.no_segment", [ids, None, *tables[:2], None, gamma, beta], {"epsilon": 1e-5}, outs=(0, 1, 2), sym={0: "b s"}, const=[2, 3, 5, 6])
case("EmbedLayerNormalization.positions", [ids, seg, *tables, mask, byte(3, 6, hi=16, dtype=np.int32)], outs=(0, 1), sym={**words, 8: "b s"}, const=[2, 3, 4, 5, 6])
for kind, dtype, lo, hi in (("u8", np.uint8, 0, 256), ("s8", np.int8, -128, 128)):
    quant = [byte(*t.shape, lo=lo, hi=hi, dtype=dtype) for t in tables]
    zero = [np.array(z, dtype) for z in (3, 0, 7, 12, 100)]
    case(f"QEmbedLayerNormalization.{kind}", [ids, seg, *quant, mask, *(np.array(s, np.float32) for s in (0.02, 0.01, 0.03, 0.05, 0.04)), *zero], outs=(0, 1),
         sym=words, const=range(2, 7))

image = f32(2, 4, 3, 32)
for activation in (0, 1):
    attrs = {"groups": 8, "activation": activation, "epsilon": 1e-4}
    both(f"GroupNorm.{activation}", [image, f32(32), f32(32)], attrs, sym={0: "b h w 32"}, const=[1, 2])
    case(f"GroupNorm.first_{activation}", [np.ascontiguousarray(image.transpose(0, 3, 1, 2)), f32(32), f32(32)], {**attrs, "channels_last": 0}, sym={0: "b 32 h w"}, const=[1, 2])
    both(f"SkipGroupNorm.{activation}", [image, f32(32), f32(32), f32(2, 4, 3, 32), f32(32)], attrs, outs=(0, 1), sym={0: "b h w 32", 3: "b h w 32"}, const=[1, 2, 4])
case("SkipGroupNorm.rows", [image, f32(32), f32(32), f32(2, 32)], attrs, sym={0: "b h w 32", 3: "b 32"}, const=[1, 2])
case("SkipGroupNorm.ones", [image, f32(32), f32(32), f32(2, 1, 1, 32)], attrs, const=[1, 2])

# -- Products
for ta in (0, 1):
    for tb in (0, 1):
        a, b = f32(2, 3, *((12, 7) if ta else (7, 12))), f32(2, 3, *((9, 12) if tb else (12, 9)))
        case(f"FusedMatMul.{ta}{tb}", [a, b], {"transA": ta, "transB": tb, "alpha": 0.125}, sym={0: "b 3 s " + str(a.shape[3]) if not ta else "b 3 12 s", 1: "b 3 9 12" if tb else "b 3 12 9"})
        case(f"FusedMatMul.batch_{ta}{tb}", [np.ascontiguousarray(np.moveaxis(a, -2, 0)), np.ascontiguousarray(np.moveaxis(b, -2, 0))],
             {"transA": ta, "transB": tb, "transBatchA": 1, "transBatchB": 1})
case("FusedMatMul.f64", [f32(5, 6).astype(np.float64), f32(6, 4).astype(np.float64)], {"alpha": 2.0})
case("FusedMatMul.vector", [f32(2, 5, 6), f32(6)], {"alpha": 2.0})
case("TransposeMatMul", [f32(6, 5), f32(6, 4)], {"transA": 1, "alpha": 0.5})
for name, alpha, beta2 in (("Relu", None, None), ("Tanh", None, None), ("Sigmoid", None, None), ("LeakyRelu", 0.2, None), ("HardSigmoid", 0.3, 0.4)):
    attrs = {"activation": name, **({} if alpha is None else {"activation_alpha": alpha}), **({} if beta2 is None else {"activation_beta": beta2})}
    case(f"FusedGemm.{name}", [f32(7, 12), f32(9, 12), f32(9)], {**attrs, "transB": 1, "alpha": 0.5, "beta": 2.0}, sym={0: "b 12"}, const=[1, 2])
    params = [v for v in (alpha, beta2) if v is not None]
    case(f"FusedConv.{name}", [f32(2, 8, 9, 7), f32(16, 4, 3, 3), f32(16)],
         {"activation": name, **({"activation_params": params} if params else {}), "group": 2, "pads": [1, 1, 1, 1], "strides": [2, 1]}, sym={0: "b 8 h w"}, const=[1, 2])
case("FusedConv.Clip", [f32(2, 8, 9, 7), f32(16, 8, 3, 3), f32(16)], {"activation": "Clip", "activation_params": [-1.0, 2.0], "dilations": [2, 1]}, const=[1, 2])
case("FusedConv.sum", [f32(2, 8, 9, 7), f32(16, 8, 1, 1), f32(16), f32(2, 16, 9, 7)], {"activation": "Relu"}, sym={0: "b 8 h w", 3: "b 16 h w"}, const=[1, 2])
case("GemmFastGelu", [x, f32(24, 8), f32(8)], sym=seq, const=[1, 2])
case("GemmFastGelu.plain", [x, f32(24, 8)], const=[1])
case("NhwcConv", [f32(2, 9, 7, 8), f32(16, 8, 3, 3), f32(16)], {"pads": [1, 1, 1, 1]}, sym={0: "b h w 8"}, const=[1, 2])
case("NhwcFusedConv", [f32(2, 9, 7, 8), f32(16, 8, 3, 3), f32(16), f32(2, 9, 7, 16)], {"pads": [1, 1, 1, 1], "activation": "Relu"}, const=[1, 2])
for kind, dtype, lo, hi in (("u8", np.uint8, 0, 256), ("s8", np.int8, -128, 128)):
    case(f"NhwcMaxPool.{kind}", [byte(2, 9, 7, 16, lo=lo, hi=hi, dtype=dtype)], {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}, sym={0: "b h w 16"})

# -- Attention
B, S, H, D = 2, 6, 4, 8
W = H * D
hidden, weights, joined = f32(B, S, 20), f32(20, 3 * W, scale=0.3), f32(3 * W)
batch = {0: "b s 20"}
lengths = np.array([[1] * S, [1, 1, 1, 1, 0, 0]], np.int32)


def attention(name, mask=None, past=None, bias=None, sym=None, outs=(0,), data=hidden, w=weights, b=joined, **attrs):
    case("Attention." + name, [data, w, b, mask, past, bias], {"num_heads": H, **attrs}, outs=outs, sym={**batch, **sym} if sym is not None else None, const=[1, 2])


attention("plain", sym={}, outs=(0, 1))
case("Attention.f16", half(hidden, weights, joined), {"num_heads": H}, const=[1, 2])
case("Attention.no_bias", [hidden, weights], {"num_heads": H}, const=[1], runtime=False)
attention("scale", scale=0.2)
attention("causal", sym={}, unidirectional=1)
attention("sizes", w=f32(20, 2 * W + 48), b=f32(2 * W + 48), qkv_hidden_sizes=[W, W, 48])
attention("ends", i32(6, 4), sym={3: "b"})
attention("ranges", i32(6, 4, 0, 1), sym={0: "2 s 20"})
attention("keys", lengths, sym={3: "b s"})
attention("keys_causal", lengths, unidirectional=1)
attention("filter", lengths, mask_filter_value=-3.0)
attention("rows", byte(B, S, S, hi=2, dtype=np.int32), sym={3: "b s s"})
attention("dummy", np.ones((B, 1), np.int32))
attention("bias", None, None, f32(B, H, S, S), sym={5: "b 4 s s"})
attention("bias_one", lengths, None, f32(1, 1, S, S))
past = f32(2, B, H, 3, D)
attention("past", None, past, sym={4: "2 b 4 p 8"}, outs=(0, 1))
attention("past_causal", None, past, sym={4: "2 b 4 p 8"}, outs=(0, 1), unidirectional=1)
attention("past_mask", np.concatenate([np.ones((B, 3), np.int32), lengths], 1), past, outs=(0, 1), unidirectional=1)
attention("past_step", np.array([[1] * 4, [0, 1, 1, 1]], np.int32), past, sym={3: "b t", 4: "2 b 4 p 8"}, outs=(0, 1), data=f32(B, 1, 20), unidirectional=1)
case("Attention.megatron", [hidden, weights, joined, np.tril(np.ones((B, 1, 16, 16), np.int32)), past], {"num_heads": H}, outs=(0, 1), const=[1, 2], runtime=False)
case("Attention.cumulated", [hidden, weights, joined, i32(6, 4, 0, 6, 10, 0, 6, 10)], {"num_heads": H}, const=[1, 2], runtime=False)
for causal in (0, 1):
    room = f32(2, B, H, 12, D)
    room[:, :, :, 3:] = 0
    case(f"Attention.buffer_{causal}", [hidden, weights, joined, None, room, None, i32(3)], {"num_heads": H, "past_present_share_buffer": 1, "unidirectional": causal}, outs=(0, 1),
         sym={0: "b s 20", 4: "2 b 4 m 8"}, const=[1, 2], runtime=False)
    case(f"MultiHeadAttention.buffer_{causal}", [f32(B, S, W), f32(B, S, W), f32(B, S, W), None, None, None, room[0], room[1], i32(3)], {"num_heads": H, "unidirectional": causal},
         outs=(0, 1, 2), sym={0: "b s 32", 1: "b s 32", 2: "b s 32", 6: "b 4 m 8", 7: "b 4 m 8"}, runtime=False)
case("Attention.rotary", [f32(B, S, 20), f32(20, 3 * 64, scale=0.3), f32(3 * 64), None, f32(2, B, 2, 3, 32)], {"num_heads": 2, "do_rotary": 1, "unidirectional": 1}, outs=(0, 1),
     sym={0: "b s 20", 4: "2 b 2 p 32"}, const=[1, 2], runtime=False)

for kind, dtype, lo, hi in (("u8", np.uint8, 0, 256), ("s8", np.int8, -128, 128)):
    for scale in (np.array(0.01, np.float32), rng.uniform(0.005, 0.01, 3 * W).astype(np.float32)):
        zero = np.array(7, dtype) if scale.ndim == 0 else np.zeros(3 * W, dtype)
        case(f"QAttention.{kind}_{scale.ndim}", [byte(B, S, 20), byte(20, 3 * W, lo=lo, hi=hi, dtype=dtype), joined, np.array(0.02, np.float32), scale, i32(6, 4), np.array(120, np.uint8), zero],
             {"num_heads": H}, sym={0: "b s 20", 5: "b"}, const=[1, 2, 3, 4, 6, 7])
case("QAttention.past", [byte(B, S, 20), byte(20, 3 * W), joined, np.array(0.02, np.float32), np.array(0.01, np.float32), None, np.array(120, np.uint8), np.array(128, np.uint8), past],
     {"num_heads": H, "unidirectional": 1}, outs=(0, 1), sym={0: "b s 20", 8: "2 b 4 p 8"}, const=[1, 2, 3, 4, 6, 7])

T = 9
query, key, value = f32(B, S, W), f32(B, S, W), f32(B, S, W)


def multi(name, q=query, k=key, v=value, b=None, mask=None, bias=None, past_k=None, past_v=None, outs=(0,), sym=None, runtime=True, **attrs):
    case("MultiHeadAttention." + name, [q, k, v, b, mask, bias, past_k, past_v], {"num_heads": H, **attrs}, outs=outs, sym=sym, const=[3], runtime=runtime)


flat = {0: "b s 32", 1: "b s 32", 2: "b s 32"}
cross = {0: "b s 32", 1: "b t 32", 2: "b t 32"}
multi("plain", sym=flat)
case("MultiHeadAttention.f16", half(query, key, value), {"num_heads": H})
multi("bias", b=f32(3 * W), sym=flat)
multi("causal", sym=flat, unidirectional=1)
multi("scale", scale=0.1)
multi("cross", k=f32(B, T, W), v=f32(B, T, W), b=f32(3 * W), sym=cross)
multi("values", k=f32(B, T, W), v=f32(B, T, 48), sym={0: "b s 32", 1: "b t 32", 2: "b t 48"})
multi("lengths", k=f32(B, T, W), v=f32(B, T, W), mask=i32(9, 5), sym={**cross, 4: "b"})
multi("keys", mask=lengths, sym={**flat, 4: "b s"})
multi("rows", mask=byte(B, S, S, hi=2, dtype=np.int32))
multi("attention_bias", bias=f32(B, H, S, S), sym={**flat, 5: "b 4 s s"})
multi("attention_bias_one", bias=f32(1, H, S, S), mask=lengths)
multi("packed", q=f32(B, S, H, 3, D), k=None, v=None, sym={0: "b s 4 3 8"}, runtime=False)
multi("packed_kv", k=f32(B, T, H, 2, D), v=None, sym={0: "b s 32", 1: "b t 4 2 8"}, runtime=False)
multi("cached", k=f32(B, H, T, D), v=f32(B, H, T, D), sym={0: "b s 32", 1: "b 4 t 8", 2: "b 4 t 8"})
multi("cached_bias", k=f32(B, H, T, D), v=f32(B, H, T, D), b=f32(3 * W))
cache = {6: "b 4 p 8", 7: "b 4 p 8"}
multi("present", outs=(0, 1, 2), sym=flat)
multi("past", past_k=f32(B, H, 3, D), past_v=f32(B, H, 3, D), outs=(0, 1, 2), sym={**flat, **cache})
multi("past_causal", past_k=f32(B, H, 3, D), past_v=f32(B, H, 3, D), outs=(0, 1, 2), sym={**flat, **cache}, unidirectional=1)
multi("past_mask", mask=np.concatenate([np.ones((B, 3), np.int32), lengths], 1), b=f32(3 * W), past_k=f32(B, H, 3, D), past_v=f32(B, H, 3, D), outs=(0, 1, 2), unidirectional=1)
multi("scores", bias=f32(B, H, S, S), outs=(0, 1, 2, 3), sym={**flat, 5: "b 4 s s"})

offset, bounds, rows = i32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11).reshape(2, 6), i32(0, 6, 10), 10
ragged = {0: "n 20", 3: "b s", 4: "b1"}
case("PackedAttention", [f32(rows, 20), weights, joined, offset, bounds], {"num_heads": H}, sym=ragged, const=[1, 2])
case("PackedAttention.bias", [f32(rows, 20), f32(20, 2 * W + 48), f32(2 * W + 48), offset, bounds, f32(1, H, S, S)], {"num_heads": H, "qkv_hidden_sizes": [W, W, 48], "scale": 0.2}, const=[1, 2])
case("PackedAttention.gaps", [f32(7, 20), weights, joined, i32(0, 6, 7, 8, 9, 10, 11, 1, 2, 3, 4, 5).reshape(2, 6), i32(0, 1, 7)], {"num_heads": H}, const=[1, 2])
case("PackedMultiHeadAttention", [f32(rows, W), f32(rows, W), f32(rows, W), f32(3 * W), offset, bounds], {"num_heads": H}, sym={0: "n 32", 1: "n 32", 2: "n 32", 4: "b s", 5: "b1"}, const=[3])
case("PackedMultiHeadAttention.packed", [f32(rows, H, 3, D), None, None, None, offset, bounds, f32(B, H, S, S)], {"num_heads": H}, sym={0: "n 4 3 8", 4: "b s", 5: "b1", 6: "b 4 s s"})

angle = rng.uniform(-3, 3, (16, D // 2))
cos, sin = np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)
ids64 = byte(B, S, hi=16, dtype=np.int64)
for interleaved in (0, 1):
    attrs = {"interleaved": interleaved}
    both(f"RotaryEmbedding.{interleaved}", [query, ids64, cos, sin], attrs, sym={0: "b s 32", 1: "b s"}, const=[2, 3])
    case(f"RotaryEmbedding.offset_{interleaved}", [query, np.array([3], np.int64), cos, sin], attrs, sym={0: "b s 32"}, const=[2, 3])
    case(f"RotaryEmbedding.four_{interleaved}", [f32(B, H, S, D), ids64, cos, sin], attrs, sym={0: "b 4 s 8", 1: "b s"}, const=[2, 3])
    case(f"RotaryEmbedding.part_{interleaved}", [query, ids64, cos[:, :2].copy(), sin[:, :2].copy()], {**attrs, "num_heads": H, "rotary_embedding_dim": 4}, sym={0: "b s 32", 1: "b s"}, const=[2, 3])


G = 16
states = f32(B, S, H * G)
angle = rng.uniform(-3, 3, (16, G // 2))
cos, sin = np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)


def group(name, q, k, v, past_k, past_v, lengths, total, *rest, outs=(0, 1, 2), sym=None, runtime=True, dtype=np.float32, const=(7, 8), tol=None, **attrs):
    operands = [None if a is None else np.asarray(a) for a in (q, k, v, past_k, past_v, np.array(lengths, np.int32), np.array([total], np.int32), *rest)]
    for past in (a for a in (past_k, past_v) if a is not None):  # what lies behind a sample's rows is for nobody to say; there it is 0
        for n, last in enumerate(lengths):
            past[n, :, 0 if q.shape[1] == total else last + 1 - q.shape[1]:] = 0
    operands = operands if dtype == np.float32 else half(*operands)
    case("GroupQueryAttention." + name, operands, {"num_heads": H, "kv_num_heads": 2, **attrs}, outs=outs, sym=sym, const=const, runtime=runtime, tol=tol)


def kv(n, batch=B):
    return f32(batch, n, 2 * G), f32(batch, n, 2 * G)


def caches(n, batch=B):
    return f32(batch, 2, n, G), f32(batch, 2, n, G)


prompt, decode = {0: "b s 64", 1: "b s 32", 2: "b s 32", 5: "b"}, {0: "b s 64", 1: "b s 32", 2: "b s 32", 3: "b 2 p 16", 4: "b 2 p 16", 5: "b"}
group("prompt", states, *kv(S), None, None, [S - 1] * B, S, sym=prompt)
group("prompt_f16", states, *kv(S), None, None, [S - 1] * B, S, dtype=np.float16)
group("prompt_empty", states, *kv(S), *caches(0), [S - 1] * B, S)
group("prompt_rotary", states, *kv(S), None, None, [S - 1] * B, S, cos, sin, sym=prompt, do_rotary=1)
group("prompt_pairs", states, *kv(S), None, None, [S - 1] * B, S, cos, sin, do_rotary=1, rotary_interleaved=1)
group("prompt_part", f32(B, S, H * 32), f32(B, S, 64), f32(B, S, 64), None, None, [S - 1] * B, S, cos, sin, do_rotary=1)
group("prompt_packed", f32(B, S, 8 * G), None, None, None, None, [S - 1] * B, S, cos, sin, sym={0: "b s 128", 5: "b"}, do_rotary=1)
group("prompt_softcap", states, *kv(S), None, None, [S - 1] * B, S, softcap=2.0, scale=0.5)
group("prompt_window", states, *kv(S), None, None, [S - 1] * B, S, sym=prompt, local_window_size=3)
group("prompt_smooth", states, *kv(S), None, None, [S - 1] * B, S, smooth_softmax=1)
group("prompt_sink", states, *kv(S), None, None, [S - 1] * B, S, None, None, None, None, f32(H), const=[])
group("prompt_bias", states, *kv(S), None, None, [S - 1] * B, S, None, None, None, f32(B, H, S, S), sym={**prompt, 10: "b 4 s s"}, const=[])
group("prompt_positions", states, *kv(S), None, None, [S - 1] * B, S, cos, sin, np.tile(np.arange(S), (B, 1)), sym={**prompt, 9: "b s"}, do_rotary=1)
one = f32(B, 1, H * G)
group("step", one, *kv(1), *caches(5), [5, 5], 6, sym=decode)
group("step_rotary", one, *kv(1), *caches(5), [5, 5], 6, cos, sin, sym=decode, do_rotary=1)
group("step_f16", one, *kv(1), *caches(5), [5, 5], 6, cos, sin, dtype=np.float16, do_rotary=1)
group("step_window", one, *kv(1), *caches(5), [5, 5], 6, local_window_size=2, softcap=3.0)
group("step_packed", f32(B, 1, 8 * G), None, None, *caches(5), [5, 5], 6, cos, sin, sym={0: "b s 128", 3: "b 2 p 16", 4: "b 2 p 16", 5: "b"}, do_rotary=1)
group("step_ragged", one, *kv(1), *caches(5), [5, 3], 6, cos, sin, sym=decode, do_rotary=1)
group("step_bias", one, *kv(1), *caches(5), [5, 5], 6, None, None, None, f32(1, H, 1, 6), const=[])
group("step_sink", one, *kv(1), *caches(5), [5, 5], 6, None, None, None, None, f32(H), const=[])
group("chunk", f32(1, 3, H * G), *kv(3, 1), *caches(5, 1), [7], 8, cos, sin, sym=decode, do_rotary=1)
group("room", one, *kv(1), *caches(12), [5, 5], 6, cos, sin, sym=decode, do_rotary=1)
group("room_prompt", states, *kv(S), *caches(12), [S - 1] * B, S, sym=decode)
group("room_ragged", one, *kv(1), *caches(12), [5, 2], 6, cos, sin, do_rotary=1, local_window_size=3)

# -- Weights of few bits
for bits in (2, 4, 8):
    for size in (16, 32, 128):
        for K in (128, 200):
            count = -(-K // size)
            w, scales = byte(24, count, size * bits // 8), rng.uniform(0.005, 0.02, (24, count)).astype(np.float32)
            zero = byte(24, -(-count * bits // 8))
            attrs = {"N": 24, "K": K, "bits": bits, "block_size": size}
            name = f"MatMulNBits.{bits}_{size}_{K}"
            runtime = not (bits == 2 and K % size)
            case(name, [f32(2, 5, K), w, scales], attrs, sym={0: "b s " + str(K)}, const=[1, 2], runtime=runtime, tol="1e-3 1e-4")
            case(name + "_row", [f32(1, K), w, scales, zero], attrs, sym={0: "s " + str(K)}, const=[1, 2, 3], runtime=runtime, tol="1e-3 1e-4")
            case(name + "_zero", [f32(5, K), w, scales, zero], attrs, const=[1, 2, 3], runtime=runtime, tol="1e-3 1e-4")
count = 4
w, scales = byte(24, count, 16), rng.uniform(0.005, 0.02, (24, count)).astype(np.float32)
attrs = {"N": 24, "K": 128, "bits": 4, "block_size": 32}
case("MatMulNBits.float_zero", [f32(5, 128), w, scales, rng.uniform(0, 15, (24, count)).astype(np.float32)], attrs, const=[1, 2, 3], tol="1e-3 1e-4")
case("MatMulNBits.bias", [f32(5, 128), w, scales, None, None, f32(24)], attrs, const=[1, 2, 5], tol="1e-3 1e-4")
case("MatMulNBits.flat", [f32(5, 128), w, scales.reshape(-1), byte(24 * 2)], attrs, const=[1, 2, 3], tol="1e-3 1e-4", runtime=False)
case("MatMulNBits.group", [f32(5, 128), w, scales, None, rng.permutation(np.arange(128) // 32).astype(np.int32)], attrs, const=[1, 2, 4], tol="1e-3 1e-4")
case("MatMulNBits.f16", [f32(5, 128).astype(np.float16), w, scales.astype(np.float16), byte(24, 2)], attrs, const=[1, 2, 3])
case("MatMulNBits.f16_row", [f32(1, 128).astype(np.float16), w, scales.astype(np.float16), byte(24, 2)], attrs, const=[1, 2, 3])
case("MatMulNBits.vector", [f32(128), w, scales], attrs, const=[1, 2], runtime=False, tol="1e-3 1e-4")
case("MatMulNBits.inputs", [f32(5, 128), w, scales, byte(24, 2)], attrs, tol="1e-3 1e-4")
case("MatMulNBits.level4", [f32(5, 128), w, scales, byte(24, 2)], {**attrs, "accuracy_level": 4}, const=[1, 2, 3], tol="2e-2 2e-2")

for bits in (2, 4, 8):
    data, scales = byte(20, 64 * bits // 8), rng.uniform(0.01, 0.02, (20, 4)).astype(np.float32)
    attrs = {"bits": bits, "block_size": 16, "quantize_axis": 1}
    index = byte(3, 5, hi=20, dtype=np.int64)
    case(f"GatherBlockQuantized.{bits}", [data, index, scales], attrs, sym={1: "b s"}, const=[0, 2])
    case(f"GatherBlockQuantized.{bits}_zero", [data, index, scales, byte(20, -(-4 * bits // 8))], attrs, const=[0, 2, 3])
case("GatherBlockQuantized.f16", [data, index, scales.astype(np.float16)], attrs, const=[0, 2])
import ml_dtypes
for dtype, lo in ((ml_dtypes.uint4, 0), (ml_dtypes.int4, -8)):
    four = rng.integers(lo, lo + 16, (20, 64)).astype(dtype)
    tag = np.dtype(dtype).name
    case(f"GatherBlockQuantized.{tag}", [four, index.astype(np.int32), scales, rng.integers(lo, lo + 16, (20, 4)).astype(dtype)], {"block_size": 16, "quantize_axis": 1}, const=[0, 2, 3])
    case(f"GatherBlockQuantized.{tag}_columns", [four, byte(3, hi=64, dtype=np.int64), scales], {"block_size": 16, "quantize_axis": 1, "gather_axis": 1}, const=[0, 2])
    case(f"GatherBlockQuantized.{tag}_other", [four, byte(3, hi=64, dtype=np.int64), rng.uniform(0.01, 0.02, (2, 64)).astype(np.float32)],
         {"block_size": 16, "quantize_axis": 0, "gather_axis": 1}, const=[0, 2])

# -- Bytes
ONE = "0 1.01"  # ties: one quantum
for kind, dtype, lo, hi in (("u8", np.uint8, 0, 256), ("s8", np.int8, -128, 128)):
    quant = lambda scale, zero: [np.array(scale, np.float32), np.array(zero, dtype)]
    many = lambda *shape: byte(*shape, lo=lo, hi=hi, dtype=dtype)
    picture, other, nhwc = many(2, 8, 9, 7), many(2, 8, 9, 7), many(2, 9, 7, 8)
    sizes = {0: "b 8 h w", 3: "b 8 h w"}
    for op in ("QLinearAdd", "QLinearMul"):
        case(f"{op}.{kind}", [picture, *quant(0.02, 3), other, *quant(0.013, 11), *quant(0.05, 9)], sym=sizes, const=[1, 2, 4, 5, 6, 7], tol=ONE)
    for op, label, data, attrs in (("QLinearSigmoid", "", picture, {}), ("QLinearLeakyRelu", "", picture, {"alpha": 0.1}), ("QLinearGlobalAveragePool", "", picture, {}),
                                   ("QLinearGlobalAveragePool", "_last", nhwc, {"channels_last": 1}),
                                   ("QLinearAveragePool", "", picture, {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": [2, 1]}),
                                   ("QLinearAveragePool", "_last", nhwc, {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "channels_last": 1}),
                                   ("QLinearSoftmax", "", picture, {"axis": -1, "opset": 13}), ("QLinearSoftmax", "_flat", picture, {"axis": 2, "opset": 12}),
                                   ("QLinearReduceMean", "", picture, {"axes": [2, 3], "keepdims": 0})):
        case(f"{op}.{kind}{label}", [data, *quant(0.02, 3), *quant(0.01, 2)], attrs, sym={0: "b 8 h w" if data is picture else "b h w 8"}, const=[1, 2, 3, 4], tol=ONE)
    case(f"QLinearWhere.{kind}", [byte(2, 8, 9, 7, hi=2).astype(bool), picture, *quant(0.02, 3), other, *quant(0.013, 11), *quant(0.05, 9)], const=[2, 3, 5, 6, 7, 8], tol=ONE)
    case(f"QLinearConcat.{kind}", [*quant(0.05, 9), picture, *quant(0.02, 3), many(2, 5, 9, 7), *quant(0.013, 11)], {"axis": 1}, sym={2: "b 8 h w", 5: "b 5 h w"}, const=[0, 1, 3, 4, 6, 7], tol=ONE)
    w, scales, zeros, sums = byte(16, 8, 3, 3, lo=-128, hi=128, dtype=np.int8), rng.uniform(0.002, 0.01, 16).astype(np.float32), np.zeros(16, np.int8), byte(16, lo=-3000, hi=3000, dtype=np.int32)
    for label, data in (("", picture), ("_last", nhwc)):
        case(f"QLinearConv.{kind}{label}", [data, *quant(0.02, 5), w, scales, zeros, *quant(0.9, 17), sums], {"pads": [1, 1, 1, 1], "channels_last": int(label != "")},
             sym={0: "b 8 h w" if data is picture else "b h w 8"}, const=range(1, 9), tol=ONE)
    for trans in (0, 1):
        b, scales, sums = byte(*((30, 40) if trans else (40, 30)), lo=-128, hi=128, dtype=np.int8), rng.uniform(0.01, 0.02, 30).astype(np.float32), byte(30, lo=-3000, hi=3000, dtype=np.int32)
        operands = [many(13, 40), *quant(0.03, 5), b, scales, np.zeros(30, np.int8), sums]
        case(f"QGemm.{kind}_{trans}", [*operands, *quant(0.7, 12)], {"transB": trans, "alpha": 1.0}, sym={0: "m 40"}, const=range(1, 9), tol=ONE)
        case(f"QGemm.{kind}_{trans}_float", operands, {"transB": trans, "alpha": 0.5}, sym={0: "m 40"}, const=range(1, 7), tol="1e-4 1e-2")
    b, scale, zero = many(40, 30), np.array(0.01, np.float32), np.array(7, dtype)
    columns = rng.uniform(0.005, 0.02, 30).astype(np.float32)
    case(f"MatMulIntegerToFloat.{kind}", [byte(2, 13, 40), b, np.array(0.02, np.float32), scale, np.array(19, np.uint8), zero, f32(30)], sym={0: "b s 40"}, const=range(1, 7), tol="1e-4 1e-3")
    case(f"DynamicQuantizeMatMul.{kind}", [f32(2, 13, 40), b, scale, zero, f32(30)], sym={0: "b s 40"}, const=[1, 2, 3, 4], tol="1e-4 1e-3")
    case(f"DynamicQuantizeMatMul.{kind}_columns", [f32(13, 40), b, columns, np.full(30, 3, dtype)], const=[1, 2, 3], tol="1e-4 1e-3")
    for label, directions, width in (("", 1, 1), ("_both", 2, 1), ("_columns", 2, 64)):
        side = lambda: [rng.uniform(0.003, 0.006, (directions, width) if width > 1 else directions).astype(np.float32),
                        np.full((directions, width) if width > 1 else directions, 128 if dtype == np.uint8 else 0 if width > 1 else 3, dtype)]
        for initial in (0, 1):
            case(f"DynamicQuantizeLSTM.{kind}{label}_{initial}", [f32(7, 2, 12), many(directions, 12, 64), many(directions, 16, 64), f32(directions, 128) if initial else None, None,
                 *([f32(directions, 2, 16, scale=0.5), f32(directions, 2, 16, scale=0.5)] if initial else [None, None]), None, *side(), *side()],
                 {"hidden_size": 16, "direction": "bidirectional" if directions == 2 else "forward"}, outs=(0, 1, 2), sym={0: "t 2 12"}, const=[1, 2, 3, *range(8, 12)], tol="1e-3 1e-4")
case("DynamicQuantizeLSTM.reverse", [f32(7, 2, 12), byte(1, 12, 64), byte(1, 16, 64), None, None, None, None, None, np.array([0.004], np.float32), np.array([128], np.uint8),
     np.array([0.005], np.float32), np.array([128], np.uint8)], {"hidden_size": 16, "direction": "reverse"}, outs=(0, 1, 2), const=[1, 2, *range(8, 12)], tol="1e-3 1e-4")
for dtype in ("uint8", "int8", "uint16", "int16", "uint4", "int4"):
    t = np.dtype(getattr(ml_dtypes, dtype) if dtype.endswith("int4") else dtype)
    top = 1 << refs.BITS[dtype] - 1
    some = lambda *shape: (rng.integers(0, 2 * top, shape) - (0 if "u" in dtype else top)).astype(t)
    for domain in ("com.microsoft", ""):
        label = f"{dtype}_{'ms' if domain else 'ai'}"
        case(f"DequantizeLinear.{label}", [some(4, 6), np.array(0.1, np.float32), some()], sym={0: "b 6"}, const=[1, 2], domain=domain, runtime=t.itemsize * 8 == refs.BITS[dtype])
        case(f"DequantizeLinear.{label}_axis", [some(4, 6), np.abs(f32(6)) + 0.1, some(6)], {"axis": 1}, const=[1, 2], domain=domain, runtime=t.itemsize * 8 == refs.BITS[dtype])
        case(f"QuantizeLinear.{label}", [f32(4, 6, scale=top / 8), np.array(0.25, np.float32), some()], sym={0: "b 6"}, const=[1, 2], domain=domain, runtime=t.itemsize * 8 == refs.BITS[dtype])
        case(f"QuantizeLinear.{label}_axis", [f32(4, 6, scale=top / 8), np.array([0.25, 0.5, 1, 0.5], np.float32), some(4)], {"axis": 0}, const=[1, 2], domain=domain, runtime=t.itemsize * 8 == refs.BITS[dtype])
    case(f"DequantizeLinear.{dtype}_blocks", [some(32, 6), np.abs(f32(2, 6)) + 0.1, some(2, 6)], {"axis": 0, "block_size": 16}, const=[1, 2], domain="", runtime=t.itemsize * 8 == refs.BITS[dtype])
    case(f"QuantizeLinear.{dtype}_blocks", [f32(4, 32, scale=top / 8), np.array(rng.choice([0.25, 0.5, 1], (4, 2)), np.float32), some(4, 2)], {"axis": 1, "block_size": 16}, const=[1, 2], domain="", runtime=t.itemsize * 8 == refs.BITS[dtype])

# -- Others
case("ExpandDims", [x, np.array(1, np.int32)], sym=seq, const=[1])
case("ExpandDims.last", [x, np.array(-1, np.int32)], const=[1])
case("Pad", [x, np.array([0, 1, 2, 0, 3, 0], np.int64), np.array(1.5, np.float32)], sym=seq, const=[1, 2])
case("Pad.row", [x, np.array([[0, 1, 2, 1, 0, 0]], np.int64)], const=[1])
case("Pad.edge", [x, np.array([0, 1, 2, 0, 3, 0], np.int64)], {"mode": "edge"}, const=[1])
case("Pad.reflect", [x, np.array([0, 1, 2, 0, 3, 0], np.int64)], {"mode": "reflect"}, const=[1])
case("Trilu", [f32(2, 5, 6)], sym={0: "b 5 6"})
case("Trilu.lower", [f32(2, 5, 6), np.array(-1, np.int64)], {"upper": 0})
case("Unique", [np.array([2, 1, 1, 3, 4, 3], np.float32)], outs=(0, 1, 2), sym={0: "n"})
case("Inverse", [f32(3, 2, 5, 5) + 3 * np.eye(5, dtype=np.float32)], sym={0: "b 2 5 5"}, tol="1e-3 1e-4")
case("Inverse.f64", [f32(4, 4).astype(np.float64) + 3 * np.eye(4)])
for n in (1, 2):
    case(f"Rfft.{n}", [f32(3, 10, 12)], {"signal_ndim": n, "onesided": 1, "normalized": 0}, sym={0: "b 10 12"})
    case(f"Irfft.{n}", [f32(3, 10, 7, 2)], {"signal_ndim": n, "onesided": 1, "normalized": 0}, sym={0: "b 10 7 2"})
text = np.array(["Hello World", "I love  computer science !"], object)
case("Tokenizer", [text], {"separators": [" "], "mark": 0, "mincharnum": 1, "pad_value": "#"}, sym={0: "n"})
case("Tokenizer.mark", [text], {"separators": [" ", "e"], "mark": 1, "mincharnum": 2, "pad_value": "#"})
case("Tokenizer.letters", [np.array([["h\u00e9llo", "ab"]], object)], {"separators": [""], "mark": 0, "mincharnum": 1, "pad_value": ""})
case("Tokenizer.expression", [np.array(["ab12cd345", "x", "77"], object)], {"tokenexp": "[0-9]+|[a-z]+", "mark": 0, "mincharnum": 2, "pad_value": "_"})


# -- Mixtures of experts: of few tokens only the chosen experts are read, of more all are
def moe(name, tokens, act="relu", fused=0, third=False, bias=True, runtime=True, experts=8, hidden=16, inner=32, bits=0, block=0, zero=False, routed=False, sym=None, **attrs):
    """An x of [tokens, hidden], or [2, tokens, hidden] where sym has three dims; bits: QMoE."""
    def layer(n, k):
        b = f32(experts, n) if bias else None
        if not bits:
            return [f32(experts, n, k, scale=0.3), b], None
        count = k // block if block else 1
        scales = rng.uniform(0.02, 0.05, (experts, n, count) if block else (experts, n)).astype(np.float32)
        zeros = byte(*(experts, n, -(-count * bits // 8)) if block else (experts, -(-n * bits // 8))) if zero else None
        return [byte(experts, n, k * bits // 8), scales, b], zeros
    x = f32(*[2] * (sym is not None and len(sym[0].split()) == 3), tokens, hidden)
    rows = x.size // hidden
    layers = [layer(inner * (2 if fused else 1), hidden), layer(hidden, inner), layer(inner, hidden) if third else ([None] * (3 if bits else 2), None)]
    operands = [x, f32(rows, experts, scale=2.0), *[a for part, _ in layers for a in part]]
    if bits:
        operands += [z for _, z in layers] + [rng.random((rows, experts)).astype(np.float32) if routed else None]
        attrs.update(expert_weight_bits=bits, **{"block_size": block} if block else {})
    if act == "swiglu":
        attrs.update(activation_alpha=1.702, activation_beta=1.0, swiglu_limit=2.0, swiglu_fusion=fused)
    const = [k for k in range(2, len(operands)) if k != 14 and operands[k] is not None]
    case(name, operands, {"k": 2, "activation_type": act, **attrs}, sym=sym, const=const, runtime=runtime, tol="1e-3 1e-3")


for tokens in (1, 3, 9):
    opened = {0: "t 16", 1: "t 8"}
    moe(f"MoE.{tokens}", tokens, sym=opened)
    moe(f"MoE.{tokens}_swiglu", tokens, "swiglu", 1, normalize_routing_weights=1, sym=opened)
    moe(f"QMoE.{tokens}", tokens, "swiglu", 1, bits=4, block=16, normalize_routing_weights=1, sym=opened)
    moe(f"QMoE.{tokens}_zero", tokens, "silu", bits=4, block=16, zero=True, sym=opened)
for act in ("silu", "gelu", "identity"):
    moe(f"MoE.{act}", 5, act, bias=False, normalize_routing_weights=1)
moe("MoE.batch", 3, sym={0: "b s 16", 1: "t 8"}, normalize_routing_weights=1)
moe("MoE.halves", 5, "swiglu", 2, runtime=False)
moe("MoE.third", 5, "swiglu", third=True, runtime=False)
moe("MoE.gated", 5, "silu", third=True, runtime=False, normalize_routing_weights=1)
for bits in (2, 4, 8):
    moe(f"QMoE.{bits}_rows", 5, "silu", bits=bits, zero=bits > 2)
    moe(f"QMoE.{bits}_blocks", 2, "silu", bits=bits, block=16, runtime=bits < 8)     # whose x ONNX Runtime rounds to 8 bits
moe("QMoE.routed", 5, "swiglu", 1, bits=4, block=16, routed=True, sym={0: "t 16", 1: "t 8", 14: "t 8"})
moe("QMoE.routed_sum", 2, "swiglu", 1, bits=4, block=16, routed=True, normalize_routing_weights=1)
moe("QMoE.third", 5, "swiglu", third=True, bits=4, block=16, runtime=False)

# -- What PyTorch's exporter writes behind onnxruntime.tools.pytorch_export_contrib_ops, and skl2onnx with optim="cdist"
for mode in ("bilinear", "nearest", "bicubic"):
    for padding in ("zeros", "border", "reflection"):
        case(f"GridSample.{mode}_{padding}", [f32(2, 3, 6, 7), rng.uniform(-1.3, 1.3, (2, 4, 5, 2)).astype(np.float32)], {"mode": mode, "padding_mode": padding, "align_corners": int(padding == "border")}, sym={0: "b 3 h w", 1: "b p q 2"}, tol="1e-3 1e-4")
case("CDist", [f32(5, 6), f32(7, 6)], sym={0: "n 6", 1: "m 6"})
case("CDist.euclidean", [f32(5, 6), f32(7, 6)], {"metric": "euclidean"}, const=[1])
case("CDist.f64", [f32(5, 6).astype(np.float64), f32(7, 6).astype(np.float64)], {"metric": "euclidean"})

# -- Gates and recurrences, as the genai builder writes them of hybrid decoders
gate = f32(2, 5, 24)
for act in ("silu", "swish", "sigmoid"):
    both(f"GatedRMSNorm.{act}", [x, f32(8), gate], {"activation": act, "epsilon": 1e-6}, sym={0: "b s 24", 2: "b s 24"}, const=[1])
case("GatedRMSNorm.whole", [x, f32(24), gate])
both("GatedAdd", [x, gate, f32(2, 5, 1)], sym={0: "b s 24", 1: "b s 24", 2: "b s 1"})
both("ScaledSiLU", [x], {"alpha": 1.5}, sym=seq)
case("ScaledSiLU.given", [x, np.array(0.5, np.float32)])
both("BranchwiseRMSNorm", [f32(2, 5, 3, 8), f32(3, 8)], sym={0: "b s 3 8"}, const=[1])
case("BranchwiseRMSNorm.flat", [x, f32(24)], {"num_branches": 3, "epsilon": 1e-3}, sym=seq, const=[1])
case("BranchwiseRMSNorm.shared", [x, f32(8)], {"num_branches": 3}, const=[1])
case("BranchwiseRMSNorm.bare", [f32(2, 3, 8)])
case("LinearAttentionGate", [f32(2, 5, 4, scale=4), f32(4), -np.abs(f32(4)), f32(2, 5, 4)], outs=(0, 1), sym={0: "b s 4", 3: "b s 4"}, const=[1, 2])
case("LinearAttentionGate.decay", [f32(2, 5, 4), f32(4), -np.abs(f32(4))], const=[1, 2])
for layout, section in ((0, [3, 2, 3]), (1, [4, 2, 2]), (1, [0, 2, 6]), (0, [8, 0, 0])):
    places = rng.integers(0, 20, (3, 2, 5)).astype(np.int64)
    angles = [np.cos(f32(20, 8)), np.sin(f32(20, 8))]
    for name, more in {"": {}, "_pairs": {"interleaved": 1}}.items():
        case(f"MRotaryEmbedding.{layout}_{section[0]}{name}", [f32(2, 5, 48), places, *angles], {"mrope_section": section, "mrope_layout": layout, "num_heads": 3, **more}, sym={0: "b s 48", 1: "3 b s"}, const=[2, 3])
case("MRotaryEmbedding.heads", [f32(2, 3, 5, 16), places, *angles], {"mrope_section": [2, 3, 3]}, sym={0: "b 3 s 16", 1: "3 b s"}, const=[2, 3])
case("MRotaryEmbedding.part", [f32(2, 5, 60), places, *angles], {"mrope_section": [2, 3, 3], "num_heads": 3, "rotary_embedding_dim": 16}, const=[2, 3])
for name, more in {"": {}, ".silu": {"activation": "silu"}, ".wide": {"activation": "swish", "dilation": 2}}.items():
    front = 3 * more.get("dilation", 1)
    case(f"CausalConvWithState{name}", [f32(2, 6, 7), f32(6, 1, 4), f32(6), f32(2, 6, front)], more, outs=(0, 1), sym={0: "b 6 n", 3: f"b 6 {front}"}, const=[1, 2])
case("CausalConvWithState.first", [f32(2, 6, 7), f32(6, 1, 4)], outs=(0, 1), const=[1])
for rule in ("linear", "gated", "delta", "gated_delta"):
    k = f32(2, 5, 8)
    operands = [f32(2, 5, 16), k / np.sqrt((k.reshape(2, 5, 2, 4) ** 2).sum(-1).repeat(4, -1)), f32(2, 5, 6), f32(2, 2, 4, 3), -np.abs(f32(2, 5, 2)) if "gated" in rule else None, rng.random((2, 5, 2)).astype(np.float32) if "delta" in rule else None]
    case(f"LinearAttention.{rule}", operands, {"q_num_heads": 4, "kv_num_heads": 2, "update_rule": rule}, outs=(0, 1), sym={k: "b s " + str(operands[k].shape[2]) for k in (0, 1, 2, 4, 5) if operands[k] is not None} | {3: "b 2 4 3"})
case("LinearAttention.wide_decay", [f32(2, 5, 8), f32(2, 5, 8), f32(2, 5, 6), None, -np.abs(f32(2, 5, 8))], {"q_num_heads": 2, "kv_num_heads": 2, "update_rule": "gated", "scale": 0.5}, outs=(0, 1))

# -- bitsandbytes' four bits; the older names of what ONNX has now
for kind in (0, 1):
    for n, k, block in ((6, 32, 16), (5, 24, 64), (3, 10, 16)):
        case(f"MatMulBnb4.{kind}_{k}", [f32(2, 3, k), byte(-(-n * k // 2)), np.abs(f32(-(-n * k // block))) + 0.1], {"K": k, "N": n, "block_size": block, "quant_type": kind}, sym={0: f"b s {k}"}, const=[1, 2], runtime=k > 10)
case("MatMulInteger16", [rng.integers(-99, 99, (2, 3, 4)).astype(np.int16), rng.integers(-99, 99, (4, 5)).astype(np.int16)], sym={0: "b s 4"})
case("Range", [np.array(1.5, np.float32), np.array(7, np.float32), np.array(0.75, np.float32)])
case("Range.one", [np.array([2], np.int64), np.array([6], np.int64)], outs=(0,))
case("GatherND", [f32(3, 4, 5), np.array([[0, 1], [2, 3], [1, 0]], np.int64)], sym={0: "a b 5", 1: "n 2"})
case("GatherND.whole", [f32(3, 4), np.array([[[0, 1]], [[2, 3]]], np.int32)])


def build(name, op, operands, attrs, outs, sym, const, domain, results, loose):
    """loose: bytes become floats, so that they may differ by one."""
    names = [f"x{k}" if a is not None else "" for k, a in enumerate(operands)]
    while names and not names[-1]:
        names.pop()
    wanted = [f"y{k}" if k in outs else "" for k in range(max(outs) + 1)]
    dims = lambda k, a: [int(d) if d.isdigit() else d for d in sym[k].split()] if sym and k in sym else a.shape
    info = lambda n, a, d: h.make_tensor_value_info(n, h.np_dtype_to_tensor_dtype(a.dtype), d)
    given = [k for k, a in enumerate(operands) if a is not None and k not in const]
    nodes, unit = [h.make_node(op, names, [w and w + "_bytes" * loose for w in wanted], name, domain=domain, **attrs)], [numpy_helper.from_array(np.float32(1), "unit")] * loose
    nodes += [h.make_node("DequantizeLinear", [w + "_bytes", "unit"], [w]) for w in wanted if loose]
    graph = h.make_graph(nodes, name, [info(f"x{k}", operands[k], dims(k, operands[k])) for k in given],
                         [info(f"y{k}", r, [f"r{k}_{i}" for i in range(r.ndim)] if sym else r.shape) for k, r in zip(outs, results)],
                         [numpy_helper.from_array(a, f"x{k}") for k, a in enumerate(operands) if a is not None and k in const] + unit)
    version = 13 if name.startswith("LayerNormalization") else 21
    return h.make_model(graph, opset_imports=[h.make_opsetid("", version), h.make_opsetid("com.microsoft", 1)], ir_version=10), given


def by_runtime(model, inputs):
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"]).run(None, inputs)


def write(folder, model, given, operands, outs, results, tol):
    write_case(folder, model, [({f"x{k}": operands[k] for k in given}, {f"y{k}": r for k, r in zip(outs, results)})], tol)


def main(folder, runtime):
    differ = 0
    for name, op, operands, attrs, outs, sym, const, has_kernel, tol, domain in CASES:
        all_results = getattr(refs, REFERENCE.get(op, op))(*operands, **attrs)
        results = [all_results[k].astype(np.float32) if tol == ONE else all_results[k] for k in outs]
        model, given = build(name, op, operands, attrs, outs, sym, const, domain, results, tol == ONE)
        if runtime and has_kernel:
            theirs = by_runtime(model, {f"x{k}": operands[k] for k in given})
            rtol, atol = (float(t) for t in tol.split())
            for k, ours, other in zip(outs, results, theirs):
                if ours.dtype == object:
                    near = ours.shape == other.shape and (ours == other).all()
                else:
                    near = np.allclose(ours.astype(np.float64), other.astype(np.float64), rtol, atol)
                if not near:
                    size = "a string" if ours.dtype == object else f"{np.abs(ours.astype(np.float64) - other.astype(np.float64)).max():.3g}"
                    print(f"{name}: result {k} of the reference is off by {size}")
                    differ += 1
            results = theirs
        write(os.path.join(folder, name), model, given, operands, outs, results, tol)
    return differ


if __name__ == "__main__":
    sys.exit(1 if main(sys.argv[1], "--runtime" in sys.argv) else 0)
