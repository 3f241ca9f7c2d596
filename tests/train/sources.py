#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the stored files of tests/sources.tap and tests/unit/test_sources.c, with what h5py, Pillow and tokenizers make of them.

usage: sources.py FOLDER     (tests/fuzz/readers: they are the fuzzer's corpus too)
"""
import os
import sys

import h5py
import numpy as np
from PIL import Image
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

TEXT = ("The quick brown fox jumps over the lazy dog; it's 1984, and they've never seen 3.14159.\n\n  Ångström's naïve café — „straße\" — 東京 ١٢٣\t"
        "don't we'll\u00a0x   y\n") * 2


def hdf5(path, r):
    x = r.standard_normal((10, 3)) * 4
    with h5py.File(path, "w", libver="earliest") as f:
        f["x"] = x.astype(np.float32)
        f["g/wide"] = x
        f["target"] = r.integers(0, 5, 10).astype(np.int16)
        f.create_dataset("u", data=r.integers(0, 256, (10, 3)).astype(np.uint8), chunks=(4, 3), compression="gzip")
        f["names"] = np.array([b"a", b"b"])


def pictures(folder, r):
    grow = lambda a, b: np.add.outer(np.arange(20) * a, np.arange(24) * b) % 256
    image = Image.fromarray(np.stack([grow(12, 3), grow(2, 10), r.integers(0, 256, (20, 24))], -1).astype(np.uint8))
    image.save(os.path.join(folder, "small.png"))
    image.save(os.path.join(folder, "small.jpg"), quality=90)
    for size in (8, 8), (11, 7), (30, 25), (24, 9):
        y = np.asarray(image.resize(size, Image.BILINEAR)).reshape(-1).astype(np.int64)
        print(f"/* {size[0]}x{size[1]} */ {{{size[0]}, {size[1]}, {int((y * np.arange(1, y.size + 1) % 65521).sum())}}},")


def bpe(path):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(vocab_size=330, special_tokens=["<|end|>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    tokenizer.train_from_iterator([TEXT], trainer)
    tokenizer.save(path, pretty=False)
    print(tokenizer.encode(TEXT + "<|end|>  The end<|end|>").ids)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    random = np.random.default_rng(5)
    hdf5(os.path.join(sys.argv[1], "small.h5"), random)
    pictures(sys.argv[1], random)
    bpe(os.path.join(sys.argv[1], "bpe.json"))
