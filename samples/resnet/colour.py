#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Colour the digits of samples/digits: pictures of 32x32 with light strokes on dark ground, both coloured, uneven.

usage: colour.py FOLDER [COUNT] [SEED]   writes FOLDER/pictures.idx4-ubyte [COUNT,3,32,32], FOLDER/labels.idx1-ubyte
Needs numpy only.
"""
import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "digits"))
import draw  # noqa: E402


def main(folder, count=2000, seed=1):
    grey, labels = draw.dataset(count, seed)
    rng = np.random.RandomState(seed + 1)
    ink = np.pad(grey, ((0, 0), (2, 2), (2, 2))).astype(np.float32)[:, None] / 255
    front = rng.uniform(140, 255, (count, 3, 1, 1)).astype(np.float32)
    back = rng.uniform(10, 110, (count, 3, 1, 1)).astype(np.float32)
    slope = rng.uniform(-30, 30, (2, count, 3, 1, 1)).astype(np.float32)
    place = np.linspace(-1, 1, 32, dtype=np.float32)
    ground = back + slope[0] * place[:, None] + slope[1] * place + rng.normal(0, 6, (count, 3, 32, 32))
    pictures = np.clip(ink * front + (1 - ink) * ground, 0, 255).astype(np.uint8)
    os.makedirs(folder, exist_ok=True)
    draw.write_idx(os.path.join(folder, "pictures.idx4-ubyte"), pictures)
    draw.write_idx(os.path.join(folder, "labels.idx1-ubyte"), labels)


if __name__ == "__main__":
    if not 2 <= len(sys.argv) <= 4:
        sys.exit(__doc__)
    main(sys.argv[1], *map(int, sys.argv[2:]))
