# SPDX-License-Identifier: Apache-2.0
"""Files of the MNIST format: pictures as numbers from 0 to 1, labels."""
import numpy as np


def pictures(path):
    with open(path, "rb") as f:
        return np.frombuffer(f.read()[16:], np.uint8).reshape(-1, 1, 28, 28).astype(np.float32) / 255


def labels(path):
    with open(path, "rb") as f:
        return np.frombuffer(f.read()[8:], np.uint8).astype(np.int64)
