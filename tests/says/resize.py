# SPDX-License-Identifier: Apache-2.0
"""Resize to the nearest: opset 10's rounding, tf_half_pixel_for_nn, ties. Which elements are taken is ONNX Runtime's choice."""
import numpy as np
from says import T, agrees, h, model, refused

# elements, result's size, rules, elements taken
TAKEN = [
    (7, 8, "asymmetric", "round_prefer_ceil", [0, 1, 2, 3, 4, 4, 5, 6]),  # 4 / f32(8 / 7) = 3.4999998
    (10, 12, "asymmetric", "round_prefer_ceil", [0, 1, 2, 3, 3, 4, 5, 6, 7, 8, 8, 9]),
    (11, 13, "tf_half_pixel_for_nn", "round_prefer_floor", [0, 1, 2, 3, 4, 5, 5, 6, 7, 8, 9, 10, 10]),
    (14, 1, "half_pixel", "round_prefer_ceil", [7]),
    (7, 1, "tf_half_pixel_for_nn", "round_prefer_ceil", [4]),
    (4, 8, "tf_half_pixel_for_nn", "floor", [0, 0, 1, 1, 2, 2, 3, 3]),
    (4, 8, "tf_half_pixel_for_nn", "ceil", [1, 1, 2, 2, 3, 3, 3, 3]),
    (5, 5, "tf_half_pixel_for_nn", "ceil", [0, 1, 2, 3, 4]),
]


def check_elements_taken():
    for symbolic in (False, True):
        nodes, inputs, outputs, constants, dims, want = [], {}, {}, {}, {}, []
        for k, (n, size, how, rounding, taken) in enumerate(TAKEN):
            inputs[f"x{k}"] = np.arange(n, dtype=np.float32).reshape(1, 1, n)
            constants[f"s{k}"] = np.array([1, 1, size])
            outputs[f"y{k}"] = T.FLOAT
            dims[f"x{k}"] = [1, 1, f"n{k}"] if symbolic else [1, 1, n]
            want.append(np.float32(taken).reshape(1, 1, size))
            nodes.append(h.make_node("Resize", [f"x{k}", "", "", f"s{k}"], [f"y{k}"], mode="nearest", coordinate_transformation_mode=how, nearest_mode=rounding))
        agrees(model(nodes, inputs, outputs, constants, opset=13, dims=dims), inputs, want, what=f"symbolic {symbolic}")


def opset10(scale, op="Resize", opset=10, dim=4, **attrs):
    x = np.arange(4, dtype=np.float32).reshape(1, 1, 4)
    return model([h.make_node(op, ["x", "s"], ["y"], **attrs)], {"x": x}, {"y": T.FLOAT}, {"s": np.float32([1, 1, scale])}, opset, 5, dims={"x": [1, 1, dim]}), {"x": x}


def check_opset_10():
    for scale, taken in ((0.6, [0, 2]), (0.5, [0, 2]), (0.75, [0, 2, 3]), (1.5, [0, 0, 1, 2, 2, 3]), (2, [0, 0, 1, 1, 2, 2, 3, 3])):
        for dim in (4, "n"):
            agrees(*opset10(scale, dim=dim), [np.float32(taken).reshape(1, 1, -1)], what=f"{scale} {dim}")
            if scale >= 1:
                agrees(*opset10(scale, "Upsample", 9, dim=dim), [np.float32(taken).reshape(1, 1, -1)], what=f"Upsample {scale} {dim}")


def check_modes_of_old_opsets():
    refused(*opset10(2, mode="cubic"), "it may be nearest linear")
    refused(*opset10(2, "Upsample", 9, mode="cubic"), "it may be nearest linear")
