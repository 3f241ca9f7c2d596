#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/train/pictures.txt: what Pillow and torchvision make of stored pictures, as digests of the samples' bytes.

usage: pictures.py FOLDER >tests/train/pictures.txt     (FOLDER: tests/fuzz/readers; needs torchvision)

A line: FILE CHANNELS HEIGHT WIDTH RESIZE LAST TYPE MEAN STD SHA-256, as tests/train/pictures.c takes them (MEAN and STD of each channel c are + c / 8).
"""
import hashlib
import os
import sys

import numpy as np
import torch
from PIL import Image
from torchvision.transforms import v2, InterpolationMode

FILES = ["small.png", "small.jpg", "gray.pgm", "rgb.bmp", "alpha.bmp", "palette.bmp", "plain.ppm", "gamma.png", "alpha.tiff", "cmyk.jpg", "hundred.pgm",
         "turned5.tiff", "turned6.tiff", "turned7.tiff", "turned8.tiff"]
WAYS = [  # channels, height, width, resize, last, type, mean, std
    (3, 20, 24, 0, 0, "f32", 0.0, 1.0), (3, 16, 16, 0, 0, "f32", 0.485, 0.229), (1, 9, 14, 12, 0, "f32", 0.1307, 0.3081), (3, 30, 41, 0, 1, "f32", 0.5, 0.25),
    (3, 7, 5, 6, 1, "u8", 0.0, 1.0), (1, 33, 8, 17, 0, "u8", 0.0, 1.0), (3, 224, 224, 256, 0, "f32", 0.406, 0.225), (3, 12, 50, 9, 0, "u8", 0.0, 1.0)]


def sample(path, channels, height, width, resize, last, kind, mean, std):
    image = Image.open(path)
    image = image.convert("RGBA").convert("RGB") if image.mode == "RGBA" else image.convert("RGB")
    image = image.convert("L") if channels == 1 else image
    image = v2.CenterCrop((height, width))(v2.Resize(resize or min(height, width), InterpolationMode.BILINEAR)(image))
    x = v2.PILToTensor()(image)
    if kind == "f32":
        per = torch.arange(channels) / 8
        x = v2.Normalize((mean + per).tolist(), (std + per).tolist())(x.to(torch.float32) / 255)
    x = x.permute(1, 2, 0) if last else x
    return np.ascontiguousarray(x.numpy())


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    for name in FILES:
        for way in WAYS:
            digest = hashlib.sha256(sample(os.path.join(sys.argv[1], name), *way).tobytes()).hexdigest()
            print(name, *way, digest)
