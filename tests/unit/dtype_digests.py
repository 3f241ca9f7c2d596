#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes dtype_digests.h: what ml_dtypes and NumPy make of every code of the small float types, and of many f32 values
converted to them. dtype.c's unit test computes the same digests (64-bit FNV-1a over little-endian words; every NaN
counts as one word). Needs numpy, ml_dtypes and onnx; run by hand when a type is added.

usage: dtype_digests.py > dtype_digests.h"""
import sys, warnings
import numpy as np, ml_dtypes as m
from onnx.numpy_helper import saturate_cast, to_float8e8m0
warnings.simplefilter("ignore")

TYPES = [("F16", np.float16), ("BF16", m.bfloat16), ("F8E4M3FN", m.float8_e4m3fn), ("F8E4M3FNUZ", m.float8_e4m3fnuz),
         ("F8E5M2", m.float8_e5m2), ("F8E5M2FNUZ", m.float8_e5m2fnuz), ("F4E2M1", m.float4_e2m1fn), ("F8E8M0", m.float8_e8m0fnu)]
NAN = 0x7fc00000


def fnv(words):
    h = 0xcbf29ce484222325
    for w in words:
        for k in range(4):
            h = ((h ^ (w >> 8 * k & 255)) * 0x100000001b3) & 0xffffffffffffffff
    return h


def values():
    """f32 values near every rounding boundary: each upper half with tails that are below, at and above a tie."""
    tails = np.array([0, 1, 0x7fff, 0x8000, 0x8001, 0xffff], np.uint32)
    bits = (np.arange(65536, dtype=np.uint32)[:, None] << 16 | tails[None, :]).reshape(-1)
    # f16's boundaries lie lower than bit 16: exponents near its range, 13 bits down
    fine = (np.arange(1 << 16, dtype=np.uint32) << 12) + np.uint32(0x30000000)
    return np.concatenate([bits, fine]).view(np.float32)


def codes_of(a):
    u = a.view(np.uint16 if a.dtype.itemsize == 2 else np.uint8).astype(np.uint32)
    return [NAN if nan else int(c) for c, nan in zip(u, np.isnan(a.astype(np.float32)))]


def main():
    v = values()
    print("/* SPDX-License-Identifier: Apache-2.0 */")
    print("/* Written by dtype_digests.py: digests of ml_dtypes' and NumPy's conversions.")
    print(" * { type, all codes to f32, f32 to codes (not saturating), f32 to codes (saturating) } */")
    for name, d in TYPES:
        n = 1 << (16 if d in (np.float16, m.bfloat16) else 4 if name == "F4E2M1" else 8)
        codes = np.arange(n, dtype=np.uint16 if n > 256 else np.uint8).view(d)
        f = codes.astype(np.float32)
        decoded = fnv([NAN if np.isnan(x) else int(u) for x, u in zip(f, f.view(np.uint32))])
        finite_f4 = name == "F4E2M1"
        w = v[~np.isnan(v)] if finite_f4 else v          # ml_dtypes turns NaN into a zero that depends on its sign
        if name == "F8E8M0":
            plain, sat = to_float8e8m0(w, False), to_float8e8m0(w, True)
        else:
            plain = w.astype(d)
            sat = saturate_cast(w, d) if name.startswith("F8") else plain
        print(f"{{ TCC_{name}, 0x{decoded:016x}ull, 0x{fnv(codes_of(plain)):016x}ull, 0x{fnv(codes_of(sat)):016x}ull }},")


main()
