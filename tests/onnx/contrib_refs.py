# SPDX-License-Identifier: Apache-2.0
"""What operators of ONNX Runtime's domain com.microsoft compute, in NumPy, written from the operators' text (docs/ContribOperators.md).

A function takes the operands (None: omitted) and the attributes by name, and returns the results. Floats are computed in f64 and rounded at the end.
"""
import math
import numpy as np

erf = np.vectorize(math.erf, otypes=[np.float64])


def wide(x):
    return None if x is None else x.astype(np.float64)


def gelu(x):
    return 0.5 * x * (1 + erf(x / math.sqrt(2)))


def fast_gelu(x):
    return 0.5 * x * (1 + np.tanh(0.797885 * x + 0.035677 * x ** 3))


def silu(x):
    return x / (1 + np.exp(-x))


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def plus(x, y):
    return wide(x) if y is None else wide(x) + wide(y)


# -- Elementwise

def BiasGelu(x, b):
    return [gelu(plus(x, b)).astype(x.dtype)]


def Gelu(x):
    return [gelu(wide(x)).astype(x.dtype)]


def FastGelu(x, b=None):
    return [fast_gelu(plus(x, b)).astype(x.dtype)]


def QuickGelu(x, alpha=1.702):
    return [(wide(x) / (1 + np.exp(-alpha * wide(x)))).astype(x.dtype)]


def BiasSplitGelu(x, b):
    left, right = np.split(plus(x, b), 2, -1)
    return [(left * gelu(right)).astype(x.dtype)]


def BiasAdd(x, b, skip):
    return [(plus(x, b) + wide(skip)).astype(x.dtype)]


# -- Normalisation

def norm(x, gamma, beta, epsilon, rms=False):
    c = x if rms else x - x.mean(-1, keepdims=True)
    y = c / np.sqrt((c * c).mean(-1, keepdims=True) + epsilon) * wide(gamma)
    return y if beta is None else y + wide(beta)


def SkipLayerNormalization(x, skip, gamma, beta=None, bias=None, epsilon=1e-12):
    s = plus(plus(x, skip), bias)
    return [norm(s, gamma, beta, epsilon).astype(x.dtype), None, None, s.astype(x.dtype)]


def SkipSimplifiedLayerNormalization(x, skip, gamma, bias=None, epsilon=1e-12):
    s = plus(plus(x, skip), bias)
    return [norm(s, gamma, None, epsilon, True).astype(x.dtype), None, None, s.astype(x.dtype)]


def SimplifiedLayerNormalization(x, gamma, axis=-1, epsilon=1e-5, stash_type=1):
    return [norm(wide(x), gamma, None, epsilon, True).astype(x.dtype)]


def LayerNormalization(x, gamma, beta=None, axis=-1, epsilon=1e-5):
    return [norm(wide(x), gamma, beta, epsilon).astype(x.dtype)]


def EmbedLayerNormalization(ids, segments, word, position, segment, gamma, beta, mask=None, position_ids=None, epsilon=1e-12, mask_index_type=0):
    s = wide(word)[ids] + (wide(position)[:ids.shape[1]] if position_ids is None else wide(position)[position_ids])
    if segments is not None:
        s = s + wide(segment)[segments]
    count = np.zeros(len(ids), np.int32) if mask is None else (mask == 1).sum(1).astype(np.int32)
    return [norm(s, gamma, beta, epsilon).astype(word.dtype), count, s.astype(word.dtype)]


def QEmbedLayerNormalization(ids, segments, word, position, segment, gamma, beta, mask, *quant, epsilon=1e-12):
    tables = [None if t is None else ((t.astype(np.float64) - z) * np.float64(s)).astype(np.float32)
              for t, s, z in zip((word, position, segment, gamma, beta), quant[:5], quant[5:])]
    return EmbedLayerNormalization(ids, segments, *tables, mask, epsilon=epsilon)[:2]


def GroupNorm(x, gamma, beta, groups=1, channels_last=1, activation=0, epsilon=1e-5):
    last = x if channels_last else np.moveaxis(x, 1, -1)
    g = wide(last).reshape(len(x), -1, groups, last.shape[-1] // groups)
    g = g - g.mean((1, 3), keepdims=True)
    y = (g / np.sqrt((g * g).mean((1, 3), keepdims=True) + epsilon)).reshape(last.shape) * wide(gamma) + wide(beta)
    y = silu(y) if activation else y
    return [(y if channels_last else np.moveaxis(y, -1, 1)).astype(x.dtype)]


def SkipGroupNorm(x, gamma, beta, skip, bias=None, **attrs):
    if skip.ndim == 2:
        skip = skip[:, None, None, :]
    s = plus(plus(x, skip), bias).astype(x.dtype)
    return GroupNorm(s, gamma, beta, **attrs) + [s]


# -- Products

def FusedMatMul(a, b, transA=0, transB=0, transBatchA=0, transBatchB=0, alpha=1.0):
    parts = []
    for x, batch, trans in ((wide(a), transBatchA, transA), (wide(b), transBatchB, transB)):
        x = np.moveaxis(x, 0, -2) if batch else x
        parts.append(x.swapaxes(-1, -2) if trans and x.ndim > 1 else x)
    return [(alpha * np.matmul(*parts)).astype(a.dtype)]


def activate(y, activation, params):
    a, b = (list(params) + [None, None])[:2]
    return {"": lambda: y, "Relu": lambda: np.maximum(y, 0), "Tanh": lambda: np.tanh(y), "Sigmoid": lambda: 1 / (1 + np.exp(-y)),
            "LeakyRelu": lambda: np.where(y < 0, (0.01 if a is None else a) * y, y), "Clip": lambda: np.clip(y, a, b),
            "HardSigmoid": lambda: np.clip(a * y + b, 0, 1)}[activation]()


def FusedGemm(a, b, c=None, transA=0, transB=0, alpha=1.0, beta=1.0, activation="", activation_alpha=None, activation_beta=None):
    y = alpha * ((wide(a).T if transA else wide(a)) @ (wide(b).T if transB else wide(b)))
    return [activate(y if c is None else y + beta * wide(c), activation, (activation_alpha, activation_beta)).astype(a.dtype)]


def GemmFastGelu(x, w, b=None):
    return [fast_gelu(plus(wide(x) @ wide(w), b)).astype(x.dtype)]


def conv(x, w, strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1), group=1):
    x = np.pad(x, ((0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])))
    n, c, kh, kw = w.shape
    oh, ow = ((x.shape[2 + k] - dilations[k] * (w.shape[2 + k] - 1) - 1) // strides[k] + 1 for k in (0, 1))
    y = np.zeros((len(x), n, oh, ow))
    for o in range(n):
        first = o // (n // group) * c
        for i in range(kh):
            for j in range(kw):
                top, left = i * dilations[0], j * dilations[1]
                patch = x[:, first:first + c, top:top + strides[0] * oh:strides[0], left:left + strides[1] * ow:strides[1]]
                y[:, o] += np.einsum("bchw,c->bhw", patch, w[o, :, i, j])
    return y


def FusedConv(x, w, b=None, z=None, activation="", activation_params=(), **window):
    y = conv(wide(x), wide(w), **window)
    y = y if b is None else y + wide(b)[:, None, None]
    return [activate(plus(y, z), activation, activation_params).astype(x.dtype)]


def NhwcConv(x, w, b=None, z=None, **attrs):
    first = lambda v: None if v is None else v.transpose(0, 3, 1, 2)
    return [FusedConv(first(x), w, b, first(z), **attrs)[0].transpose(0, 2, 3, 1)]


def NhwcMaxPool(x, kernel_shape, strides=(1, 1), pads=(0, 0, 0, 0)):
    p = np.pad(x, ((0, 0), (pads[0], pads[2]), (pads[1], pads[3]), (0, 0)), constant_values=np.iinfo(x.dtype).min)
    oh, ow = ((p.shape[1 + k] - kernel_shape[k]) // strides[k] + 1 for k in (0, 1))
    y = [[p[:, i * strides[0]:i * strides[0] + kernel_shape[0], j * strides[1]:j * strides[1] + kernel_shape[1]].max((1, 2)) for j in range(ow)] for i in range(oh)]
    return [np.array(y).transpose(2, 0, 1, 3)]


# -- Attention

def heads(x, n):
    return x if x.ndim == 4 else x.reshape(x.shape[0], x.shape[1], n, -1).transpose(0, 2, 1, 3)


def attend(q, k, v, scale=None, bias=None, softcap=0, sink=None):
    """q [b, h, s, d], k and v [b, hk, t, d] -> [b, s, h d], scores, weights."""
    k, v = (np.repeat(x, q.shape[1] // x.shape[1], 1) for x in (k, v))
    x = q @ k.swapaxes(-1, -2) * (scale or 1 / math.sqrt(q.shape[-1]))
    x = softcap * np.tanh(x / softcap) if softcap else x
    x = x if bias is None else x + bias
    extra = np.broadcast_to(sink[:, None, None], x.shape[:3] + (1,)) if sink is not None else x[..., :0]
    p = softmax(np.concatenate([x, extra], -1))[..., :x.shape[-1]]
    y = (p @ v).transpose(0, 2, 1, 3)
    return y.reshape(y.shape[0], y.shape[1], -1), x, p


def mask_bias(mask, batch, queries, keys, past, filter):
    """An operand of 1 to 4 dims -> what is added to the scores."""
    if mask is None:
        return 0
    key = np.arange(keys)
    if mask.ndim == 1:
        shown = key < mask[:batch, None]
        if len(mask) == 2 * batch:
            shown &= key >= mask[batch:, None]
        shown = shown[:, None, None]
    elif mask.ndim == 4:
        shown = mask[:, :, past:past + queries, :keys] > 0
    else:
        shown = (mask[:, None, None] if mask.ndim == 2 else mask[:, None]) > 0
    return np.where(shown, 0, filter)


def causal_bias(queries, keys):
    return np.where(np.arange(queries)[:, None] + keys - queries >= np.arange(keys), 0, -np.inf)


def rotate(x, cos, sin, interleaved):
    """x [b, h, s, d], cos and sin [b or 1, s, half]."""
    n = 2 * cos.shape[-1]
    turned, rest = x[..., :n], x[..., n:]
    a, b = (turned[..., 0::2], turned[..., 1::2]) if interleaved else np.split(turned, 2, -1)
    cos, sin = cos[:, None], sin[:, None]
    pair = (a * cos - b * sin, a * sin + b * cos)
    turned = np.stack(pair, -1).reshape(turned.shape) if interleaved else np.concatenate(pair, -1)
    return np.concatenate([turned, rest], -1)


def self_attention(x, dtype, mask, past, bias, num_heads, unidirectional=0, scale=None, mask_filter_value=-10000.0, qkv_hidden_sizes=None, do_rotary=0,
                   rotary_embedding_dim=0):
    sizes = qkv_hidden_sizes or [x.shape[-1] // 3] * 3
    q, k, v = (heads(p, num_heads) for p in np.split(x, np.cumsum(sizes)[:2], -1))
    before = 0 if past is None else past.shape[3]
    if do_rotary:
        n = rotary_embedding_dim or q.shape[-1]
        angle = ((np.arange(q.shape[2]) + before)[:, None] * 10000.0 ** (-np.arange(0, n, 2) / n))[None]
        q, k = (rotate(p, np.cos(angle), np.sin(angle), False) for p in (q, k))
    if past is not None:
        k, v = (np.concatenate([wide(past[i]), p], 2) for i, p in enumerate((k, v)))
    total = mask_bias(mask, len(x), q.shape[2], k.shape[2], before, mask_filter_value)
    total = total + (causal_bias(q.shape[2], k.shape[2]) if unidirectional else 0) + (0 if bias is None else wide(bias))
    y = attend(q, k, v, scale, total)[0].astype(dtype)
    return [y, np.stack([k, v]).astype(dtype) if k.shape == v.shape else None]


def in_buffer(attend, room, used):
    """attend(past) with the rows of `room` that are used; what it says is present lies in a buffer as long as `room`."""
    used = int(used[0])
    y, *present = attend([r[..., :used, :] for r in room])
    return [y] + [np.concatenate([p, r[..., p.shape[-2]:, :]], -2) for p, r in zip(present, room)]


def Attention(x, w, b=None, mask=None, past=None, bias=None, used=None, past_present_share_buffer=0, **attrs):
    if past_present_share_buffer:
        return in_buffer(lambda past: Attention(x, w, b, mask, past[0], bias, **attrs), [past], used)
    return self_attention(plus(wide(x) @ wide(w), b), x.dtype, mask, past, bias, **attrs)


def QAttention(x, w, b, x_scale, w_scale, mask=None, x_zero=None, w_zero=None, past=None, **attrs):
    centred = lambda v, z: v.astype(np.float64) - (0 if z is None else z.astype(np.float64))
    y = centred(x, x_zero) @ centred(w, w_zero) * wide(x_scale) * wide(w_scale) + wide(b)
    return self_attention(y, np.float32, mask, past, None, **attrs)


def MultiHeadAttention(q, k=None, v=None, b=None, mask=None, bias=None, past_key=None, past_value=None, used=None, num_heads=1, scale=None, unidirectional=0, mask_filter_value=-10000.0):
    if used is not None:
        attrs = dict(num_heads=num_heads, scale=scale, unidirectional=unidirectional, mask_filter_value=mask_filter_value)
        return in_buffer(lambda past: MultiHeadAttention(q, k, v, b, mask, bias, *past, **attrs)[:3], [past_key, past_value], used)
    dtype = q.dtype
    if q.ndim == 5:
        q, k, v = (p.reshape(*p.shape[:2], -1) for p in np.moveaxis(q, 3, 0))
    elif k.ndim == 5:
        k, v = (p.reshape(*p.shape[:2], -1) for p in np.moveaxis(k, 3, 0))
    cached = k.ndim == 4
    part = [wide(q), wide(k), wide(v)]
    if b is not None:
        widths = [p.shape[-1] if p.ndim == 3 else p.shape[1] * p.shape[3] for p in part]
        for i, own in enumerate(np.split(wide(b), np.cumsum(widths)[:2])):
            part[i] = part[i] + own if part[i].ndim == 3 else part[i]
    q, k, v = (heads(p, num_heads) for p in part)
    before = 0 if past_key is None else past_key.shape[2]
    if past_key is not None and not cached:
        k, v = np.concatenate([wide(past_key), k], 2), np.concatenate([wide(past_value), v], 2)
    total = mask_bias(mask, len(q), q.shape[2], k.shape[2], before, mask_filter_value)
    total = total + (causal_bias(q.shape[2], k.shape[2]) if unidirectional else 0) + (0 if bias is None else wide(bias))
    y, scores, _ = attend(q, k, v, scale, total)
    return [y.astype(dtype), k.astype(dtype), v.astype(dtype), scores.astype(dtype)]


def unpacked(x, offset):
    y = np.zeros((offset.size, x.shape[1]))
    y[offset.reshape(-1)[:len(x)]] = x
    return y.reshape(*offset.shape, -1)


def PackedAttention(x, w, b, offset, bounds, bias=None, num_heads=1, **attrs):
    y = unpacked(plus(wide(x) @ wide(w), b), offset)
    y = self_attention(y, x.dtype, np.diff(bounds), None, bias, num_heads, **attrs)[0]
    return [y.reshape(offset.size, -1)[offset.reshape(-1)[:len(x)]]]


def PackedMultiHeadAttention(q, k, v, b, offset, bounds, bias=None, num_heads=1, **attrs):
    dtype, rows = q.dtype, len(q)
    part = [p.reshape(rows, -1) for p in np.moveaxis(q, 2, 0)] if q.ndim == 4 else [q, k, v]
    if b is not None:
        part = [wide(p) + own for p, own in zip(part, np.split(wide(b), np.cumsum([p.shape[1] for p in part])[:2]))]
    y = MultiHeadAttention(*(unpacked(p, offset) for p in part), None, np.diff(bounds), bias, num_heads=num_heads, **attrs)[0]
    return [y.reshape(offset.size, -1)[offset.reshape(-1)[:rows]].astype(dtype)]


def RotaryEmbedding(x, positions, cos, sin, num_heads=0, rotary_embedding_dim=0, interleaved=0, scale=1.0, is_packed_batching=0):
    y = heads(wide(x), num_heads or x.shape[-1] // (2 * cos.shape[1]))
    if positions.ndim == 1:
        positions = positions[0] + np.arange(y.shape[2])[None]
    y = rotate(y, wide(cos)[positions], wide(sin)[positions], interleaved)
    y = y if x.ndim == 4 else y.transpose(0, 2, 1, 3).reshape(x.shape)
    return [y.astype(x.dtype)]


def GroupQueryAttention(q, k, v, past_key, past_value, lengths, total, cos=None, sin=None, positions=None, bias=None, sink=None, num_heads=1, kv_num_heads=1,
                        scale=None, softcap=0.0, local_window_size=-1, do_rotary=0, rotary_interleaved=0, smooth_softmax=0, causal=1, qk_output=0):
    dtype = q.dtype
    if k is None:
        size = q.shape[-1] // (num_heads + 2 * kv_num_heads)
        q, k, v = np.split(q, [num_heads * size, (num_heads + kv_num_heads) * size], -1)
    q, k, v = heads(wide(q), num_heads), heads(wide(k), kv_num_heads), heads(wide(v), kv_num_heads)
    batch, news, total = len(q), q.shape[2], int(total[0])
    before = np.zeros(batch, int) if news == total else lengths + 1 - news
    at = before[:, None] + np.arange(news)
    if do_rotary:
        p = at if positions is None else positions
        q, k = (rotate(x, wide(cos)[p], wide(sin)[p], rotary_interleaved) for x in (q, k))
    if past_key is not None:
        for name, past in (("k", past_key), ("v", past_value)):
            room = np.zeros((batch, kv_num_heads, max(past.shape[2], total), past.shape[3]))
            room[:, :, :past.shape[2]] = past
            for n in range(batch):
                room[n, :, at[n]] = (k if name == "k" else v)[n].transpose(1, 0, 2)
            k, v = (room, v) if name == "k" else (k, room)
    key = np.arange(k.shape[2])
    shown = key <= at[:, None, :, None] if causal else key < (before + news)[:, None, None, None]
    if local_window_size > 0:
        shown = shown & (key > at[:, None, :, None] - local_window_size)
    add = np.where(shown, 0, -np.inf)
    if bias is not None:
        add = add + np.pad(wide(bias), ((0, 0),) * 3 + ((0, max(0, len(key) - bias.shape[3])),))
    if sink is None and smooth_softmax:
        sink = np.zeros(num_heads)
    y, scores, p = attend(q, k, v, scale, add, softcap, None if sink is None else wide(sink))
    return [y.astype(dtype), k.astype(dtype), v.astype(dtype), (scores if qk_output == 1 else p).astype(dtype)]


# -- Weights of few bits

def unpack(x, bits):
    return np.stack([x >> bits * i & (1 << bits) - 1 for i in range(8 // bits)], -1).reshape(*x.shape[:-1], -1)


def MatMulNBits(a, w, scales, zeros=None, group=None, bias=None, N=0, K=0, bits=4, block_size=32, accuracy_level=0):
    count = -(-K // block_size)
    w = unpack(w.reshape(N, -1), bits).astype(np.float64)[:, :K]
    if zeros is None:
        zeros = np.full((N, count), 1 << bits - 1)
    elif zeros.dtype == np.uint8:
        zeros = unpack(zeros.reshape(N, -1), bits)[:, :count]
    of = np.arange(K) // block_size if group is None else group
    w = (w - wide(zeros.reshape(N, count))[:, of]) * wide(scales.reshape(N, count))[:, of]
    return [plus(wide(a) @ w.T, bias).astype(a.dtype)]


def GatherBlockQuantized(x, index, scales, zeros=None, gather_axis=0, quantize_axis=1, block_size=128, bits=4):
    if x.dtype == np.uint8:
        zeros = np.full(scales.shape, 1 << bits - 1) if zeros is None else unpack(zeros, bits)[..., :scales.shape[-1]]
        x = unpack(x, bits)
    of = np.arange(x.shape[quantize_axis]) // block_size
    y = (x.astype(np.float64) - (0 if zeros is None else np.take(wide(zeros), of, quantize_axis))) * np.take(wide(scales), of, quantize_axis)
    return [np.take(y, index, gather_axis).astype(scales.dtype)]


# -- Bytes: (x - zero) * scale, in any operator

def real(x, scale, zero):
    return (x.astype(np.float64) - (0 if zero is None else zero.astype(np.float64))) * scale.astype(np.float64)


def quantised(y, scale, zero):
    limits = np.iinfo(zero.dtype)
    return [np.clip(np.rint(y / np.float64(scale)) + zero, limits.min, limits.max).astype(zero.dtype)]


def unary(f):
    return lambda x, xs, xz, ys, yz, **attrs: quantised(f(real(x, xs, xz), **attrs), ys, yz)


def binary(f):
    return lambda a, sa, za, b, sb, zb, ys, yz: quantised(f(real(a, sa, za), real(b, sb, zb)), ys, yz)


def pool_mean(x, kernel_shape, channels_last=0, pads=(0, 0, 0, 0), strides=(1, 1), count_include_pad=0):
    x = x.transpose(0, 3, 1, 2) if channels_last else x
    spread = ((0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3]))
    p, ones = np.pad(x, spread), np.pad(np.ones_like(x), spread, constant_values=count_include_pad)
    oh, ow = ((p.shape[2 + k] - kernel_shape[k]) // strides[k] + 1 for k in (0, 1))
    window = lambda v, i, j: v[:, :, i * strides[0]:i * strides[0] + kernel_shape[0], j * strides[1]:j * strides[1] + kernel_shape[1]].sum((2, 3))
    y = np.array([[window(p, i, j) / window(ones, i, j) for j in range(ow)] for i in range(oh)]).transpose(2, 3, 0, 1)
    return y.transpose(0, 2, 3, 1) if channels_last else y


QLinearAdd = binary(np.add)
QLinearMul = binary(np.multiply)
QLinearSigmoid = unary(lambda x: 1 / (1 + np.exp(-x)))
QLinearLeakyRelu = unary(lambda x, alpha=0.01: np.where(x < 0, alpha * x, x))
QLinearAveragePool = unary(pool_mean)
QLinearGlobalAveragePool = unary(lambda x, channels_last=0: x.mean((1, 2) if channels_last else (2, 3), keepdims=True))
QLinearReduceMean = unary(lambda x, axes, keepdims=1: x.mean(tuple(axes), keepdims=bool(keepdims)))
QLinearSoftmax = unary(lambda x, axis=-1, opset=13: softmax(x) if opset >= 13 or axis in (-1, x.ndim - 1) else softmax(x.reshape(*x.shape[:axis], -1)).reshape(x.shape))


def QLinearWhere(c, a, sa, za, b, sb, zb, ys, yz):
    return quantised(np.where(c, real(a, sa, za), real(b, sb, zb)), ys, yz)


def QLinearConcat(ys, yz, *parts, axis=0):
    return quantised(np.concatenate([real(*parts[k:k + 3]) for k in range(0, len(parts), 3)], axis), ys, yz)


def QLinearConv(x, sx, zx, w, sw, zw, sy, zy, b=None, channels_last=0, **window):
    x, sw = real(x, sx, zx), sw.astype(np.float64)
    x = x.transpose(0, 3, 1, 2) if channels_last else x
    y = conv(x, (w.astype(np.float64) - zw.reshape(-1, 1, 1, 1)) * sw.reshape(-1, 1, 1, 1), **window)
    y = y if b is None else y + (b * np.float64(sx) * sw)[:, None, None]
    return quantised(y.transpose(0, 2, 3, 1) if channels_last else y, sy, zy)


def QGemm(a, sa, za, b, sb, zb, c=None, sy=None, zy=None, transA=0, transB=0, alpha=1.0):
    a, b = a.astype(np.int64) - za, b.astype(np.int64) - (zb[:, None] if transB and zb.ndim else zb)
    y = ((a.T if transA else a) @ (b.T if transB else b) + (0 if c is None else c)) * (alpha * np.float64(sa) * sb.astype(np.float64))
    return [y.astype(np.float32)] if sy is None else quantised(y, sy, zy)


def MatMulIntegerToFloat(a, b, sa, sb, za=None, zb=None, bias=None):
    return [plus(real(a, sa, za) @ real(b, sb, zb), bias).astype(np.float32)]


def as_bytes(x):
    """x in u8 by its range, which has 0 in it, and the numbers that these bytes stand for."""
    lo, hi = min(x.min(), 0), max(x.max(), 0)
    scale = (np.float32(hi) - np.float32(lo)) / np.float32(255) if hi > lo else np.float32(1)
    zero = np.rint(np.clip(-lo / scale, 0, 255))
    return (np.clip(np.rint(x / scale) + zero, 0, 255) - zero) * np.float64(scale)


def DynamicQuantizeMatMul(a, b, sb, zb=None, bias=None):
    return [plus(as_bytes(a) @ real(b, sb, zb), bias).astype(np.float32)]


def DynamicQuantizeLSTM(x, w, r, b, lens, h0, c0, p, sw, zw, sr, zr, hidden_size, direction="forward"):
    """One direction after the other; the inputs are made bytes all at once, each sample's state step by step."""
    sigmoid = lambda v: 1 / (1 + np.exp(-v))
    size, last = hidden_size, []
    for d in range(len(w)):
        backward = d == 1 or direction == "reverse"
        spread = lambda v: np.float64(v[d])[None] if v.ndim > 1 else np.float64(v[d])
        wd, rd = (w[d] - spread(zw)) * spread(sw), (r[d] - spread(zr)) * spread(sr)
        h, c = (np.zeros((x.shape[1], size)) if v is None else wide(v[d]) for v in (h0, c0))
        inputs = as_bytes(x) @ wd + (0 if b is None else wide(b[d])[:4 * size] + wide(b[d])[4 * size:])
        steps = np.zeros((len(x), x.shape[1], size))
        rows = lambda v: np.stack([as_bytes(row) for row in v])
        for t in (range(len(x) - 1, -1, -1) if backward else range(len(x))):
            i, o, f, g = np.split(inputs[t] + rows(h) @ rd, 4, -1)
            c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
            h = sigmoid(o) * np.tanh(c)
            steps[t] = h
        last.append((steps, h, c))
    steps, h, c = (np.stack(v) for v in zip(*last))
    return [steps.transpose(1, 0, 2, 3).astype(np.float32), h.astype(np.float32), c.astype(np.float32)]


def DequantizeLinear(x, scale, zero=None, axis=1, block_size=0):
    return [along(x, scale, zero, axis, block_size, lambda v, s, z: (v.astype(np.float64) - z) * s).astype(scale.dtype)]


def QuantizeLinear(x, scale, zero, axis=1, block_size=0):
    lo, hi = (min(0, -(1 << BITS[zero.dtype.name] - 1)) if "u" not in zero.dtype.name else 0), (1 << BITS[zero.dtype.name] - ("u" not in zero.dtype.name)) - 1
    return [np.clip(along(x, scale, zero, axis, block_size, lambda v, s, z: np.rint(np.float32(v) / np.float32(s)) + z), lo, hi).astype(zero.dtype)]


BITS = {"uint8": 8, "int8": 8, "uint16": 16, "int16": 16, "uint4": 4, "int4": 4}


def along(x, scale, zero, axis, block, f):
    """f with scales and zero points for the tensor, an axis' indices or their blocks."""
    pair = [scale.astype(np.float64), np.zeros(scale.shape) if zero is None else zero.astype(np.float64)]
    if block:
        pair = [np.take(v, np.arange(x.shape[axis]) // block, axis) for v in pair]
    elif pair[0].ndim and pair[0].size > 1:
        pair = [v.reshape([-1 if k == axis % x.ndim else 1 for k in range(x.ndim)]) for v in pair]
    return f(x, *pair)


# -- Others

def ExpandDims(x, axis):
    return [np.expand_dims(x, int(axis))]


def Pad(x, pads, value=None, mode="constant"):
    n = x.ndim
    pads = [(int(pads.reshape(-1)[k]), int(pads.reshape(-1)[n + k])) for k in range(n)]
    return [np.pad(x, pads, mode, constant_values=0 if value is None else value.reshape(-1)[0]) if mode == "constant" else np.pad(x, pads, mode)]


def Trilu(x, k=None, upper=1):
    return [(np.triu if upper else np.tril)(x, 0 if k is None else int(k))]


def Unique(x):
    y, first, index, counts = np.unique(x, return_index=True, return_inverse=True, return_counts=True)
    order = np.argsort(first)
    return [y[order], np.argsort(order)[index].astype(np.int64), counts[order].astype(np.int64)]


def Inverse(x):
    return [np.linalg.inv(wide(x)).astype(x.dtype)]


def Rfft(x, signal_ndim=1, onesided=1, normalized=0):
    y = np.fft.rfftn(wide(x), axes=range(-signal_ndim, 0))
    return [np.stack([y.real, y.imag], -1).astype(x.dtype)]


def Irfft(x, signal_ndim=1, onesided=1, normalized=0):
    y = wide(x[..., 0]) + 1j * wide(x[..., 1])
    for axis in range(-signal_ndim, -1):
        y = np.fft.ifft(y, axis=axis)
    return [np.fft.irfft(y, axis=-1).astype(x.dtype)]


def Tokenizer(x, separators=(), tokenexp="", mincharnum=1, mark=0, pad_value=""):
    import re

    def tokens(s):
        if separators and separators[0]:
            return [t for t in re.split("|".join(f"(?:{p})" for p in separators), s) if len(t) >= max(mincharnum, 1)]
        return list(s) if separators or tokenexp == "." else [t for t in re.findall(tokenexp, s) if len(t) >= mincharnum]
    rows = [tokens(s) for s in x.reshape(-1)]
    most = max(map(len, rows))
    rows = [["\x02", *r, "\x03"] for r in rows] if mark and most else rows
    most += 2 * (mark and most > 0)
    return [np.array([r + [pad_value] * (most - len(r)) for r in rows], object).reshape(*x.shape, most)]


# -- Mixtures of experts: one token, one expert at a time

def moe(x, chosen, layers, activation_type="relu", activation_alpha=1.0, activation_beta=0.0, swiglu_fusion=0, swiglu_limit=np.inf):
    """chosen: a row a token of (expert, weight); layers: weights [experts, n, k] and bias of each."""
    rows = wide(x).reshape(-1, x.shape[-1])
    y = np.zeros((len(rows), layers[1][0].shape[1]))
    apply = lambda k, e, v: layers[k][0][e] @ v + (0 if layers[k][1] is None else wide(layers[k][1])[e])
    swish = lambda v, alpha=1.0: v / (1 + np.exp(-alpha * v))
    for t, experts in enumerate(chosen):
        for e, weight in experts:
            h = apply(0, e, rows[t])
            if activation_type == "swiglu":
                g, other = (h[0::2], h[1::2]) if swiglu_fusion == 1 else np.split(h, 2) if swiglu_fusion == 2 else (h, apply(2, e, rows[t]))
                h = swish(np.minimum(g, swiglu_limit), activation_alpha) * (np.clip(other, -swiglu_limit, swiglu_limit) + activation_beta)
            else:
                h = {"relu": lambda v: np.maximum(v, 0), "silu": swish, "gelu": gelu, "identity": lambda v: v}[activation_type](h)
                h = h if layers[2][0] is None else h * apply(2, e, rows[t])
            y[t] += weight * apply(1, e, h)
    return [y.reshape(x.shape).astype(x.dtype)]


def MoE(x, logits, w1, b1, w2, b2, w3=None, b3=None, k=1, normalize_routing_weights=0, **attrs):
    p = wide(logits)
    best = np.argsort(-p, -1, kind="stable")[:, :k]
    weights = softmax(np.take_along_axis(p, best, -1)) if normalize_routing_weights else np.take_along_axis(softmax(p), best, -1)
    return moe(x, [list(zip(*pair)) for pair in zip(best, weights)], [(None if w is None else wide(w), b) for w, b in ((w1, b1), (w2, b2), (w3, b3))], **attrs)


def QMoE(x, logits, *operands, k=1, normalize_routing_weights=0, expert_weight_bits=4, block_size=0, **attrs):
    operands = list(operands) + [None] * (13 - len(operands))
    layers = []
    for (w, scale, bias), zero in zip((operands[0:3], operands[3:6], operands[6:9]), operands[9:12]):
        if w is None:
            layers.append((None, None))
            continue
        w = wide(unpack(w, expert_weight_bits))
        count = w.shape[2] // block_size if block_size else 1
        zero = np.full((*w.shape[:2], count), 1 << expert_weight_bits - 1) if zero is None else \
            unpack(zero, expert_weight_bits)[:, :, :count] if block_size else unpack(zero, expert_weight_bits)[:, :w.shape[1], None]
        spread = lambda v: np.repeat(wide(v).reshape(*w.shape[:2], count), w.shape[2] // count, 2)
        layers.append(((w - spread(zero)) * spread(scale), bias))
    best = np.argsort(-wide(logits), -1, kind="stable")[:, :k]
    if operands[12] is None:
        weights = softmax(np.take_along_axis(wide(logits), best, -1))
    else:
        weights = np.take_along_axis(wide(operands[12]), best, -1)
        weights = weights / weights.sum(-1, keepdims=True) if normalize_routing_weights else weights
    return moe(x, [list(zip(*pair)) for pair in zip(best, weights)], layers, **attrs)


def CDist(a, b, metric="sqeuclidean"):
    d = ((wide(a)[:, None] - wide(b)[None]) ** 2).sum(-1)
    return [(d if metric == "sqeuclidean" else np.sqrt(d)).astype(a.dtype)]


def GridSample(x, grid, mode="bilinear", padding_mode="zeros", align_corners=0):
    """By ONNX's own reference, which calls the modes otherwise. Of the cubic one it brings the point inside of the border, where ONNX Runtime and PyTorch bring each element
    there that is read: here the border is a part of x."""
    if (mode, padding_mode, align_corners) == ("bicubic", "border", 1):
        wide = 2 + int(np.ceil(np.abs(grid).max() * max(x.shape[2:])))
        of = np.array(x.shape[:1:-1]) - 1
        grid = (((grid + 1) / 2 * of + wide) / (of + 2 * wide) * 2 - 1).astype(np.float32)
        x, padding_mode = np.pad(x, ((0, 0), (0, 0), (wide, wide), (wide, wide)), mode="edge"), "zeros"
    from onnx import helper as h
    from onnx.reference import ReferenceEvaluator
    node = h.make_node("GridSample", ["x", "grid"], ["y"], mode={"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode), padding_mode=padding_mode, align_corners=align_corners)
    values = [h.make_tensor_value_info(n, 1, None) for n in ("x", "grid", "y")]
    model = h.make_model(h.make_graph([node], "g", values[:2], values[2:]), opset_imports=[h.make_opsetid("", 20)])
    return ReferenceEvaluator(model).run(None, {"x": x, "grid": grid})


# -- Gates and recurrences
def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def rms(x, epsilon):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + epsilon)


def ScaledSiLU(x, scale=None, alpha=1.0):
    return [silu(wide(x) * (alpha if scale is None else float(scale.reshape(())))).astype(x.dtype)]


def GatedAdd(x, y, gate):
    return [(wide(x) + wide((wide(y) * wide(gate)).astype(x.dtype))).astype(x.dtype)]


def GatedRMSNorm(x, scale, gate, activation="silu", epsilon=1e-5):
    y = (rms(wide(x).reshape(*x.shape[:-1], -1, scale.size), epsilon) * wide(scale)).reshape(x.shape)
    return [(y * (sigmoid(wide(gate)) if activation == "sigmoid" else silu(wide(gate)))).astype(x.dtype)]


def BranchwiseRMSNorm(x, scale=None, num_branches=0, epsilon=1e-5):
    grouped = wide(x).reshape(*x.shape[:-1], num_branches, -1) if num_branches else wide(x)
    y = rms(grouped, epsilon)
    if scale is not None:
        y = y * (wide(scale) if scale.shape[-1] == y.shape[-1] else wide(scale).reshape(y.shape[-2:]))
    return [y.reshape(x.shape).astype(x.dtype)]


def LinearAttentionGate(a, bias, scale, b=None):
    return [(np.log1p(np.exp(wide(a) + bias)) * scale).astype(a.dtype), None if b is None else sigmoid(wide(b)).astype(b.dtype)]


def MRotaryEmbedding(x, positions, cosine, sine, mrope_section, num_heads=0, rotary_embedding_dim=0, interleaved=0, mrope_layout=0):
    columns = np.arange(sum(mrope_section))
    first, second, third = mrope_section
    turn = np.where((columns % 3 == 1) & (columns < 3 * second), 1, np.where((columns % 3 == 2) & (columns < 3 * third), 2, 0))
    stream = turn if mrope_layout else (columns >= first).astype(int) + (columns >= first + second)
    places = positions[stream].transpose(1, 2, 0)                # [b, s, columns]
    c, s = (wide(t)[places, columns][:, None] for t in (cosine, sine))
    heads = wide(x) if x.ndim == 4 else wide(x).reshape(*x.shape[:2], num_heads or x.shape[2] // (2 * len(columns)), -1).transpose(0, 2, 1, 3)
    size = rotary_embedding_dim or heads.shape[-1]
    turned, rest = heads[..., :size], heads[..., size:]
    a, b = (turned[..., ::2], turned[..., 1::2]) if interleaved else np.split(turned, 2, -1)
    a, b = a * c - b * s, b * c + a * s
    y = np.stack([a, b], -1).reshape(turned.shape) if interleaved else np.concatenate([a, b], -1)
    y = np.concatenate([y, rest], -1)
    return [(y if x.ndim == 4 else y.transpose(0, 2, 1, 3).reshape(x.shape)).astype(x.dtype)]


def CausalConvWithState(x, w, bias=None, past=None, activation="none", dilation=1):
    k, n = w.shape[2], x.shape[2]
    front = (k - 1) * dilation
    padded = np.concatenate([np.zeros((*x.shape[:2], front)) if past is None else wide(past), wide(x)], 2)
    y = sum(wide(w)[None, :, 0, j, None] * padded[:, :, j * dilation:j * dilation + n] for j in range(k))
    y = y if bias is None else y + wide(bias)[None, :, None]
    return [(y if activation == "none" else silu(y)).astype(x.dtype), padded[:, :, padded.shape[2] - front:].astype(x.dtype)]


def LinearAttention(q, k, v, past=None, decay=None, beta=None, q_num_heads=1, kv_num_heads=1, scale=0.0, update_rule="gated_delta"):
    batch, tokens, _ = q.shape
    heads = lambda x, h: wide(x).reshape(batch, tokens, h, -1)
    q, k, v = heads(q, q_num_heads), heads(k, kv_num_heads), heads(v, kv_num_heads)
    scale, state, out = scale or 1 / math.sqrt(q.shape[3]), np.zeros((batch, kv_num_heads, k.shape[3], v.shape[3])) if past is None else wide(past), []
    for t in range(tokens):
        if "gated" in update_rule:
            state = state * np.exp(heads(decay, kv_num_heads)[:, t])[..., None]
        new = v[:, t]
        if "delta" in update_rule:
            new = wide(beta)[:, t, :, None] * (new - np.einsum("bhk,bhkv->bhv", k[:, t], state))
        state = state + k[:, t][..., None] * new[:, :, None]
        out.append(scale * np.einsum("bhk,bhkv->bhv", q[:, t], np.repeat(state, q_num_heads // kv_num_heads, 1)))
    return [np.stack(out, 1).reshape(batch, tokens, -1).astype(np.float32), state.astype(np.float32)]


# -- Others
FP4 = np.array([0, 5.208333333e-03, 0.66666667, 1, 0.33333333, 0.5, 0.16666667, 0.25] + [-0.0, -5.208333333e-03, -0.66666667, -1, -0.33333333, -0.5, -0.16666667, -0.25], np.float32)
NF4 = np.array([-1, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0, 0.07958029955625534,
                0.16093020141124725, 0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1], np.float32)


def MatMulBnb4(a, w, most, K, N, block_size, quant_type, transB=1):
    codes = np.stack([w.reshape(-1) >> 4, w.reshape(-1) & 15], 1).reshape(-1)[:N * K]
    weights = (NF4 if quant_type else FP4)[codes] * np.repeat(most, block_size)[:N * K]
    return [(wide(a) @ wide(weights).reshape(N, K).T).astype(a.dtype)]


def MatMulInteger16(a, b):
    return [a.astype(np.int32) @ b.astype(np.int32)]


def Range(start, limit, delta=None):
    return [np.arange(start.reshape(()), limit.reshape(()), 1 if delta is None else delta.reshape(()), dtype=start.dtype)]


def GatherND(data, indices):
    return [data[tuple(np.moveaxis(indices, -1, 0))]]
