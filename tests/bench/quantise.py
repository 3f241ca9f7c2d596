#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes 8-bit versions of ONNX models with ONNX Runtime's quantiser, with inputs and what ONNX Runtime computes from them.

usage: quantise.py MODELS OUT [NAME...]
For each MODELS/NAME (model.onnx and test_data_set_0, as models.py writes them; without names: all of them) writes
OUT/NAME_qdq (QuantizeLinear and DequantizeLinear around float operators; activations u8, weights s8 for each channel),
OUT/NAME_qop (QLinear operators) where the network has convolutions, and OUT/NAME_dynq (weights only, activations when it runs) where
it has none. Calibrated with the test's input and noisy variants of it. `tol` is what 8-bit results are held to: rounding to quanta
happens at the same places, but a tie may fall to either side, and later layers see that.
"""
import os, shutil, sys, tempfile

import numpy as np
import onnx
import onnxruntime as ort
from onnx import numpy_helper
from onnxruntime import quantization as q
from onnxruntime.quantization.shape_inference import quant_pre_process

models, out = sys.argv[1:3]
names = sys.argv[3:] or sorted(os.listdir(models))


class Calibration(q.CalibrationDataReader):
    def __init__(self, feeds):
        rng = np.random.default_rng(0)
        self.feeds = iter([feeds] + [{k: v + np.float32(0.1) * rng.standard_normal(v.shape).astype(v.dtype) if v.dtype == np.float32 else v
                                      for k, v in feeds.items()} for _ in range(3)])

    def get_next(self):
        return next(self.feeds, None)


def finish(folder, feeds):
    """The model's outputs by ONNX Runtime, beside its inputs."""
    model = onnx.load(f"{folder}/model.onnx")
    session = ort.InferenceSession(f"{folder}/model.onnx", providers=["CPUExecutionProvider"])
    results = session.run(None, feeds)
    os.makedirs(f"{folder}/test_data_set_0", exist_ok=True)
    for kind, values, infos in (("input", [feeds[i.name] for i in session.get_inputs()], session.get_inputs()), ("output", results, model.graph.output)):
        for k, (value, info) in enumerate(zip(values, infos)):
            with open(f"{folder}/test_data_set_0/{kind}_{k}.pb", "wb") as f:
                f.write(numpy_helper.from_array(np.asarray(value), info.name).SerializeToString())
    with open(f"{folder}/tol", "w") as f:
        f.write(f"0 {0.1 * max(float(np.abs(v).max()) for v in results):.3g}\n")
    print(folder, os.path.getsize(f"{folder}/model.onnx"), flush=True)


for name in names:
    source = f"{models}/{name}"
    if not os.path.exists(f"{source}/model.onnx"):
        continue
    proto = onnx.load(f"{source}/model.onnx")
    given = {t.name for t in proto.graph.initializer}
    feeds = {}
    for k, i in enumerate([i for i in proto.graph.input if i.name not in given]):
        feeds[i.name] = numpy_helper.to_array(onnx.load_tensor(f"{source}/test_data_set_0/input_{k}.pb"))
    with tempfile.TemporaryDirectory() as tmp:
        plain = f"{tmp}/model.onnx"
        try:
            quant_pre_process(f"{source}/model.onnx", plain, skip_symbolic_shape=True)
        except Exception:
            shutil.copy(f"{source}/model.onnx", plain)
        common = dict(activation_type=q.QuantType.QUInt8, weight_type=q.QuantType.QInt8, per_channel=True)
        if any(n.op_type == "Conv" for n in proto.graph.node):
            jobs = [("qdq", lambda to: q.quantize_static(plain, to, Calibration(feeds), quant_format=q.QuantFormat.QDQ, **common)),
                    ("qop", lambda to: q.quantize_static(plain, to, Calibration(feeds), quant_format=q.QuantFormat.QOperator, **common))]
        else:
            jobs = [("qdq", lambda to: q.quantize_static(plain, to, Calibration(feeds), quant_format=q.QuantFormat.QDQ, op_types_to_quantize=["MatMul", "Gemm"],
                                                         **common)),
                    ("dynq", lambda to: q.quantize_dynamic(plain, to, weight_type=q.QuantType.QInt8, per_channel=True))]
        for kind, job in jobs:
            folder = f"{out}/{name}_{kind}"
            os.makedirs(folder, exist_ok=True)
            job(f"{folder}/model.onnx")
            finish(folder, feeds)
