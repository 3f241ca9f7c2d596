#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The bench's networks for smaller pictures and fewer words, which an emulator runs in seconds: for arm_instructions.sh.

usage: small_models.py OUT NAME...          exports these of models.py anew, for pictures of 96 x 96 and sentences of 32 words
       small_models.py OUT MODELS/NAME...   the network of a folder, for pictures of 64 x 64 (96 x 96 where little would be left of them)
"""
import os, sys
import numpy as np, onnx
from onnx import numpy_helper

SIDE, WORDS, LAST = 64, 32, 7  # LAST: side of the picture that the last pool of a network for 224 x 224 sees
# Whose first product takes the whole picture: side, and the values of the 2 x 2 points that the last pool makes of it.
PRODUCTS = {"light_vgg19": (64, 4 * 512), "light_zfnet512": (96, 4 * 512), "light_bvlc_alexnet": (96, 4 * 256)}


def exported(out, name):
    import torch, torchvision
    import models
    picture = (torch.randn(1, 3, 96, 96, generator=torch.Generator().manual_seed(1)),)
    small = {"vit_tiny": (lambda: torchvision.models.VisionTransformer(96, 16, 12, 3, 192, 768), picture, None),
             "bert_small": (models.MODELS["bert_small"][0], models.ids(30000, WORDS), None),
             "gpt_mini": (models.MODELS["gpt_mini"][0], models.ids(8192, WORDS), None)}
    models.MODELS[name] = small[name]
    models.save(out, name)


def cut(out, folder):
    name = os.path.basename(folder.rstrip("/"))
    model = onnx.load(f"{folder}/model.onnx")
    side, values = PRODUCTS.get(name, (SIDE, None))
    given = {t.name for t in model.graph.initializer}
    for value in model.graph.input:
        dims = value.type.tensor_type.shape.dim
        if value.name not in given and len(dims) == 4:
            dims[2].dim_value = dims[3].dim_value = side
    del model.graph.value_info[:]
    for node in model.graph.node:
        for a in node.attribute:
            if node.op_type == "AveragePool" and a.name == "kernel_shape" and list(a.ints) == [LAST, LAST]:
                a.ints[:] = [LAST * side // 224] * 2
    for t in model.graph.initializer:  # shapes of the picture in a row, and of the weights of its product
        if values and (t.name == "OC2_DUMMY_1" or t.name.endswith("fc6_w_0__SHAPE")):
            t.CopyFrom(numpy_helper.from_array(np.array([numpy_helper.to_array(t)[0], values], np.int64), t.name))
    os.makedirs(f"{out}/{name}/test_data_set_0", exist_ok=True)
    onnx.save(model, f"{out}/{name}/model.onnx")
    picture = np.random.default_rng(0).standard_normal((1, 3, side, side)).astype(np.float32)  # for quantise.py
    with open(f"{out}/{name}/test_data_set_0/input_0.pb", "wb") as f:
        f.write(numpy_helper.from_array(picture).SerializeToString())


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    for name in sys.argv[2:]:
        (cut if "/" in name else exported)(sys.argv[1], name)


main()
