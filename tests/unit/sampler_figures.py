#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write sampler_figures.h: what torch.utils.data.DistributedSampler gives, as digests (FNV-1a over the numbers as int64)
and the first five numbers. usage: sampler_figures.py > sampler_figures.h   (needs torch)
"""
import struct

import torch
from torch.utils.data.distributed import DistributedSampler


def digest(order):
    h = 0xCBF29CE484222325
    for b in struct.pack(f"<{len(order)}q", *order):
        h = (h ^ b) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return h


CASES = [(n, ranks, rank, shuffle, drop, seed, epoch)
         for n, ranks, rank in [(1, 1, 0), (5, 1, 0), (10, 3, 2), (1000, 1, 0), (1003, 4, 1), (70000, 1, 0), (3, 8, 7)]
         for shuffle in (True, False) for drop in (False, True) for seed, epoch in [(0, 0), (42, 3)]]

print("/* SPDX-License-Identifier: Apache-2.0 */")
print(f"/* Made by sampler_figures.py with torch {torch.__version__}: n, ranks, rank, shuffle, drop_last, seed, epoch, count, digest, first five. */")
for n, ranks, rank, shuffle, drop, seed, epoch in CASES:
    if drop and n < ranks:
        continue
    s = DistributedSampler(range(n), num_replicas=ranks, rank=rank, shuffle=shuffle, seed=seed, drop_last=drop)
    s.set_epoch(epoch)
    order = list(s)
    first = (order + [-1] * 5)[:5]
    print("FIGURE(%d, %d, %d, %s, %s, %d, %d, %d, 0x%016xu, %s)" % (n, ranks, rank, str(shuffle).lower(), str(drop).lower(), seed, epoch,
                                                             len(order), digest(order), ", ".join(map(str, first))))
