# SPDX-License-Identifier: Apache-2.0
"""Data sets of tests/sizes: a case's values at other sizes, and with values that nobody chose. A data set is (what it is, values by input)."""
import math, re, subprocess
import numpy as np

MOST = 1 << 14                      # elements of an operand
SIZES = (0, 1, 2, 3, 5, 7, 8, 9, 13, 15, 16, 17, 31, 33, 63, 65, 127, 129)
SEQUENCE = 64                       # arrays of a sequence, at most


def arrays(values):
    return [a for v in values.values() for a in (v if isinstance(v, list) else [v]) if a is not None]


def changed(values, f):
    """Each array by f."""
    return {k: [f(a) for a in v] if isinstance(v, list) else v if v is None else f(v) for k, v in values.items()}


def shaped(a, shape):
    """The same numbers over and over; where they are too many, a shape alone."""
    shape = tuple(max(0, d) for d in shape)
    n = math.prod(shape)
    if n == 0 or n > MOST:
        return np.broadcast_to(np.zeros((), a.dtype), shape) if n else np.zeros(shape, a.dtype)
    if a.size == 0:
        return np.ones(shape, a.dtype) if a.dtype.kind not in "OSU" else np.full(shape, "a", object)
    return np.resize(a, shape)


def fits(values):
    return all(a.size <= MOST for a in arrays(values)) and all(len(v) <= SEQUENCE for v in values.values() if isinstance(v, list))


def sizes_of(values):
    return sorted({n for a in arrays(values) for n in a.shape})


def may_say_sizes(a):
    return a.dtype in (np.int64, np.int32) and a.size <= 16


def joint(values, old, new, also_values):
    """Wherever `old` stands in a shape it is `new`; in small integers too, where wanted."""
    r = changed(values, lambda a: shaped(a, tuple(new if n == old else n for n in a.shape)))
    return changed(r, lambda a: np.where(a == old, np.asarray(new, a.dtype), a) if may_say_sizes(a) else a) if also_values else r


def numbers_of_schedule(tccc, path):
    """Tiles, vectors and blocks that the kernels show."""
    try:
        text = subprocess.run([tccc, "-O2", "-q", "--dump-ir=kernels", path], capture_output=True, text=True, timeout=60).stdout
    except subprocess.TimeoutExpired:
        return []
    return sorted({int(n) for line in re.findall(r"(?:tile|vector|block|panel|lanes|unroll)[^\n]*", text) for n in re.findall(r"\d+", line) if 2 < int(n) <= 128})


def one_axis(values):
    """One axis of one array alone: mostly sizes that do not fit."""
    for k, v in values.items():
        for i, a in enumerate(v if isinstance(v, list) else [v] if v is not None else []):
            for axis, n in enumerate(a.shape):
                for new in sorted({0, 1, max(0, n - 1), n + 1, 2 * n} - {n}):
                    other = shaped(a, a.shape[:axis] + (new,) + a.shape[axis + 1:])
                    yield f"{k}[{axis}]={new}" + (f" in {i}" if isinstance(v, list) else ""), {**values, k: v[:i] + [other] + v[i + 1:] if isinstance(v, list) else other}


def sequence_sets(values):
    """Sequences of other lengths."""
    for k, v in values.items():
        if isinstance(v, list):
            for n in sorted({0, 1, 2, len(v) - 1, len(v) + 1, 17} - {len(v), -1}):
                if n == 0 or v:
                    yield f"{k} of {n}", {**values, k: [v[i % len(v)] for i in range(n)]}


def size_sets(values, schedule):
    wanted = set(SIZES) | {n + d for n in schedule for d in (-1, 0, 1)}
    says = {int(x) for a in arrays(values) if may_say_sizes(a) for x in a.flat}
    for old in sizes_of(values):
        for new in sorted(wanted | {max(0, old - 1), old + 1, 2 * old, 2 * old + 1}):
            if new != old:
                yield f"{old}->{new}", joint(values, old, new, False)
                if old in says:
                    yield f"{old}->{new} with values", joint(values, old, new, True)
    yield from one_axis(values)
    yield from sequence_sets(values)


def hostile_floats(a):
    usual = [np.nan, np.inf, -np.inf, -1, 0, 6e4]
    # Of several, or of one that stands for a picture or a signal of more, sums lose what is small.
    return usual + [-0.0, 1e-30, 0.999, 1e7, 3e38] if a.size == 1 and a.ndim <= 1 else usual if a.size <= 4 else []


def hostile_numbers(a, dims):
    if a.dtype.kind in "iu":
        low, high = int(np.iinfo(a.dtype).min), int(np.iinfo(a.dtype).max)
        return [n for n in sorted({low, high, -1, 0, 1} | {s for d in dims for s in (-d - 1, -d, d - 1, d)}) if low <= n <= high]
    return hostile_floats(a) if a.dtype.kind == "f" else []


def hostile_sets(values, only=None, bounded=()):
    """Of each operand of integers, few floats or flags (or those of `only`); those of `bounded` are never endless."""
    dims = sorted({n for k, v in values.items() if isinstance(v, np.ndarray) for n in v.shape})[:6] or [1]
    for k, v in (only or values).items():
        if not isinstance(v, np.ndarray) or not 0 < v.size <= 4096 or v.dtype.kind not in "iufb" or v.dtype.fields:
            continue
        if v.dtype == bool:
            yield f"{k} flipped", {**values, k: ~v}
            yield f"{k} all", {**values, k: np.ones_like(v)}
            yield f"{k} none", {**values, k: np.zeros_like(v)}
        for bad in hostile_numbers(v, dims):
            if k in bounded and not -np.inf < bad < 1 << 62:
                continue
            one = v.copy()
            with np.errstate(over="ignore"):
                one.flat[-1 if bad > 0 else 0] = bad
            yield f"{k} has {bad}", {**values, k: one}
            if v.size > 1:
                yield f"{k} is {bad}", {**values, k: np.full_like(v, bad)}
