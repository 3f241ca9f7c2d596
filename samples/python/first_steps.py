# SPDX-License-Identifier: Apache-2.0
"""Compile a network, run it on pictures, keep the artifact. usage: first_steps.py MODEL.onnx PICTURE.pgm..."""
import sys

import numpy as np

import tccc


def read_pgm(path):
    """A 28x28 picture (PGM, binary) as numbers from 0 to 1."""
    with open(path, "rb") as f:
        return np.frombuffer(f.read()[-784:], np.uint8).reshape(1, 28, 28).astype(np.float32) / 255


def main():
    model = tccc.compile(sys.argv[1])
    print(model)
    probabilities = model(np.stack([read_pgm(p) for p in sys.argv[2:]]))      # any number of pictures at once
    for path, p in zip(sys.argv[2:], probabilities):
        print(f"{path}: {p.argmax()} ({p.max():.0%})")
    model.save("digits.so")                                                   # for tccc.load(), or a C program
    assert np.array_equal(tccc.load("digits.so")(np.stack([read_pgm(p) for p in sys.argv[2:]])), probabilities)


if __name__ == "__main__":
    main()
