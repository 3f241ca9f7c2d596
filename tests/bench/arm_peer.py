#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two runs of a model by ONNX Runtime with one thread, inputs 0, open dims as in arm_runs.c, whose peer it is, the second between
two calls of getppid.

usage: arm_peer.py MODEL.onnx
"""
import os
import sys

import numpy as np
import onnxruntime

options = onnxruntime.SessionOptions()
options.intra_op_num_threads = options.inter_op_num_threads = 1
options.log_severity_level = 3
session = onnxruntime.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
words = int(os.environ.get("WORDS", 1))
types = {"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(int64)": np.int64, "tensor(int32)": np.int32,
         "tensor(bool)": np.bool_, "tensor(float16)": np.float16, "tensor(uint8)": np.uint8, "tensor(int8)": np.int8}
feed = {i.name: np.zeros([d if isinstance(d, int) and d > 0 else words if k else 1 for k, d in enumerate(i.shape)], types[i.type]) for i in session.get_inputs()}
session.run(None, feed)
os.getppid()
session.run(None, feed)
os.getppid()
