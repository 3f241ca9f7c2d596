# SPDX-License-Identifier: Apache-2.0
"""DynamicQuantizeLinear of what has no range: results of ONNX Runtime."""
import numpy as np
from says import LEVELS, T, agrees, h, model

CASES = [([0, 0, 0, 0], [0, 0, 0, 0], 1, 0), ([-0.0], [0], 1, 0), ([], [], 1, 0), ([-1, -2], [128, 0], 2 / 255, 255), ([3], [255], 3 / 255, 0), ([1, np.inf, -2], [0, 0, 0], np.inf, 0)]


def check_without_a_range():
    for dim in (None, "n"):
        for x, y, scale, zero in CASES:
            x = np.float32(x)
            m = model([h.make_node("DynamicQuantizeLinear", ["x"], ["y", "s", "z"])], {"x": x}, {"y": T.UINT8, "s": T.FLOAT, "z": T.UINT8}, opset=13, dims={"x": [dim or len(x)]})
            agrees(m, {"x": x}, [np.uint8(y), np.float32(scale), np.uint8(zero)], what=f"{x} {dim}", levels=(*LEVELS, {"exact": True}) if dim else LEVELS[1:])
