#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draw digit-like grey pictures, 28 x 28, as data to train and test on.

usage: draw.py FILE.pgm DIGIT SEED      one picture (binary PGM)
       draw.py --held-out FOLDER        the held-out set that the tests use: pictures.idx3-ubyte, labels.idx1-ubyte
                                        (the IDX layout of the MNIST files) and digit-D.pgm, one a digit
       draw.py --training FOLDER [COUNT]   pictures to train on (default 6000), in the same layout

A digit is a few strokes (polylines, arcs) in a unit square. Each picture picks one of the digit's forms, jitters its
points, and applies a random slant, rotation, scale and shift; strokes are drawn with a random thickness by distance to
the nearest segment; blur, contrast and noise come last. Needs numpy only. The same seed gives the same pictures.
"""
import os
import struct
import sys

import numpy as np

SIZE = 28
HELD_OUT_SEED = 20240229   # never used for training
HELD_OUT_COUNT = 500


def arc(cx, cy, rx, ry, start, end, n=12):
    """Points of an elliptic arc; degrees, 0 = right, 90 = down (y grows downwards)."""
    t = np.radians(np.linspace(start, end, n))
    return np.stack([cx + rx * np.cos(t), cy + ry * np.sin(t)], 1)


def line(*points):
    return np.array(points, float)


# Forms of each digit: a list of strokes, each an array of points (x, y) in 0..1.
FORMS = [
    [[arc(.5, .5, .28, .42, -90, 270, 24)], [arc(.5, .5, .2, .42, -60, 300, 24)]],
    [[line((.5, .08), (.5, .92))],
     [line((.3, .28), (.52, .08), (.52, .92))],
     [line((.3, .28), (.52, .08), (.52, .92)), line((.3, .92), (.74, .92))]],
    [[np.concatenate([arc(.48, .32, .26, .24, 200, 400), line((.24, .92), (.78, .92))])],
     [np.concatenate([arc(.48, .32, .26, .24, 190, 390), line((.5, .66), (.3, .86))]),
      arc(.36, .84, .1, .08, 0, 360), line((.42, .82), (.8, .92))]],
    [[arc(.46, .3, .25, .22, 210, 450), arc(.46, .71, .29, .22, -90, 150)],
     [np.concatenate([line((.24, .1), (.74, .1), (.45, .42)), arc(.45, .68, .28, .25, -80, 150)])]],
    [[line((.62, .92), (.62, .08), (.2, .64), (.84, .64))],
     [line((.3, .08), (.24, .55), (.78, .55)), line((.68, .08), (.64, .92))]],
    [[np.concatenate([line((.74, .09), (.32, .09), (.28, .46)), arc(.46, .66, .29, .26, -110, 140)])],
     [np.concatenate([line((.32, .1), (.28, .46)), arc(.46, .66, .29, .26, -110, 140)]), line((.32, .1), (.78, .1))]],
    [[np.concatenate([line((.66, .08), (.42, .3)), arc(.5, .68, .26, .24, 190, 550, 20)])],
     [np.concatenate([arc(.6, .5, .36, .42, -80, -180, 8), arc(.5, .68, .26, .24, 180, 540, 20)])]],
    [[line((.22, .1), (.78, .1), (.42, .92))],
     [line((.22, .1), (.78, .1), (.42, .92)), line((.36, .5), (.74, .5))],
     [np.concatenate([line((.22, .2), (.22, .1), (.78, .1)), line((.55, .5), (.48, .92))])]],
    [[arc(.5, .28, .21, .2, 90, 450, 16), arc(.5, .7, .27, .23, -90, 270, 18)],
     [np.concatenate([arc(.5, .29, .22, .21, 60, -240, 14), arc(.5, .71, .25, .21, -60, 240, 14),
                      line((.68, .4))])]],
    [[arc(.48, .32, .25, .23, 0, 360, 18), line((.73, .3), (.66, .92))],
     [arc(.48, .32, .25, .23, 0, 360, 18), np.concatenate([line((.73, .32), (.73, .66)), arc(.5, .7, .23, .22, 0, 140, 8)])]],
]


def segments(strokes):
    """The strokes as one array of segments (n, 2 ends, 2 coordinates)."""
    return np.concatenate([np.stack([s[:-1], s[1:]], 1) for s in strokes])


def place(points, rng):
    """Random slant, rotation, scale and shift about the middle; unit square to pixels."""
    angle, slant = rng.uniform(-.22, .22), rng.uniform(-.25, .25)
    scale = rng.uniform(.62, .88) * np.array([rng.uniform(.8, 1.1), rng.uniform(.9, 1.05)])
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    shear = np.array([[1, -slant], [0, 1]])
    moved = (points - .5) * scale @ (turn @ shear).T
    return (moved + .5) * SIZE + rng.uniform(-2.2, 2.2, 2)


def distance(seg):
    """Distance of every pixel's middle to the nearest segment, (SIZE, SIZE)."""
    p = np.stack(np.meshgrid(np.arange(SIZE) + .5, np.arange(SIZE) + .5), -1).reshape(-1, 1, 2)
    a, d = seg[None, :, 0], seg[None, :, 1] - seg[None, :, 0]
    t = np.clip(((p - a) * d).sum(-1) / np.maximum((d * d).sum(-1), 1e-9), 0, 1)
    return np.sqrt((((a + t[..., None] * d) - p) ** 2).sum(-1).min(1)).reshape(SIZE, SIZE)


def draw(digit, rng):
    """One picture of `digit`, uint8 (SIZE, SIZE), 0 is background."""
    forms = FORMS[digit]
    strokes = [s + rng.normal(0, .012, s.shape) for s in forms[rng.randint(len(forms))]]
    pen = rng.uniform(.8, 1.9)
    ink = np.clip(pen + .5 - distance(place(segments(strokes), rng)), 0, 1)
    soft = ink + rng.uniform(0, .5) * (np.roll(ink, 1, 0) + np.roll(ink, -1, 0) + np.roll(ink, 1, 1) + np.roll(ink, -1, 1))
    picture = soft / soft.max() * rng.uniform(.6, 1) + rng.uniform(0, .12)
    picture = picture + rng.normal(0, rng.uniform(.01, .1), picture.shape)
    return (np.clip(picture, 0, 1) * 255).round().astype(np.uint8)


def dataset(count, seed):
    """`count` pictures, uint8 (count, SIZE, SIZE), and their labels; every digit equally often, in random order."""
    rng = np.random.RandomState(seed)
    labels = rng.permutation(np.arange(count) % 10).astype(np.uint8)
    return np.stack([draw(d, rng) for d in labels]), labels


def write_pgm(path, picture):
    with open(path, "wb") as f:
        f.write(b"P5\n%d %d\n255\n" % (picture.shape[1], picture.shape[0]) + picture.tobytes())


def write_idx(path, array):
    with open(path, "wb") as f:
        f.write(struct.pack(">BBBB", 0, 0, 8, array.ndim) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes())


def main(args):
    if len(args) == 2 and args[0] == "--held-out":
        pictures, labels = dataset(HELD_OUT_COUNT, HELD_OUT_SEED)
        os.makedirs(args[1], exist_ok=True)
        write_idx(os.path.join(args[1], "pictures.idx3-ubyte"), pictures)
        write_idx(os.path.join(args[1], "labels.idx1-ubyte"), labels)
        for digit in range(10):
            write_pgm(os.path.join(args[1], f"digit-{digit}.pgm"), pictures[np.flatnonzero(labels == digit)[1]])
    elif len(args) in (2, 3) and args[0] == "--training":
        pictures, labels = dataset(int(args[2]) if len(args) == 3 else 6000, seed=1)
        os.makedirs(args[1], exist_ok=True)
        write_idx(os.path.join(args[1], "pictures.idx3-ubyte"), pictures)
        write_idx(os.path.join(args[1], "labels.idx1-ubyte"), labels)
    elif len(args) == 3 and not args[0].startswith("-"):
        write_pgm(args[0], draw(int(args[1]), np.random.RandomState(int(args[2]))))
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
