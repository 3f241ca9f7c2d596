#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Make samples for BERT's pretraining (Devlin et al. 2018, section 3.1) of a text's bytes.

usage: data.py TEXT samples.npz [--count 512] [--length 64] [--seed 0]

A sample is [CLS] A [SEP] B [SEP]: A is a piece of the text, B in half of all samples what follows it (`next` 1), else a piece from elsewhere (0). 15 % of the bytes are to
be guessed, as many in each sample, so that workers' means have one weight (`words`; -100 elsewhere): 80 % of them become [MASK], 10 % another byte, 10 % stay.
"""
import argparse
import pathlib

import numpy as np

CLS, SEP, MASK = 256, 257, 258


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", type=pathlib.Path)
    parser.add_argument("file")
    for option, value in (("count", 512), ("length", 64), ("seed", 0)):
        parser.add_argument("--" + option, type=int, default=value)
    args = parser.parse_args()
    text = np.frombuffer(args.text.read_bytes(), np.uint8).astype(np.int64)
    random = np.random.default_rng(args.seed)
    a = (args.length - 3) // 2
    b = args.length - 3 - a
    starts = random.integers(0, len(text) - a - b, (args.count, 2))
    follows = random.integers(0, 2, args.count)
    ids = np.full((args.count, args.length), SEP)
    ids[:, 0] = CLS
    for row, (first, other), follow in zip(ids, starts, follows):
        second = first + a if follow else other
        row[1:1 + a] = text[first:first + a]
        row[2 + a:2 + a + b] = text[second:second + b]
    places = np.flatnonzero((np.arange(args.length) > 0) & (np.arange(args.length) != 1 + a) & (np.arange(args.length) < args.length - 1))
    guessed = np.zeros(ids.shape, bool)
    for row in guessed:
        row[random.choice(places, round(0.15 * len(places)), replace=False)] = True
    how = random.random(ids.shape)
    words = np.where(guessed, ids, -100)
    ids = np.where(guessed & (how < 0.8), MASK, np.where(guessed & (how < 0.9), random.integers(0, 256, ids.shape), ids))
    segments = np.tile(np.arange(args.length) >= 2 + a, (args.count, 1)).astype(np.int64)
    np.savez(args.file, ids=ids, segments=segments, words=words, next=follows)


if __name__ == "__main__":
    main()
