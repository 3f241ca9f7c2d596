# SPDX-License-Identifier: Apache-2.0
"""Write a case as the official suite has it: DIR/model.onnx, DIR/test_data_set_K/{input,output}_J.pb, and DIR/tol ("RTOL ATOL") where given."""
import os
import numpy as np, onnx
from onnx import numpy_helper


def value_proto(value, name):
    """A tensor, or a list of tensors as a sequence."""
    if isinstance(value, list):
        if value and isinstance(value[0], dict):
            raise TypeError(f"{name}: sequences of maps can't be stored")
        return numpy_helper.from_list(value, name)
    return numpy_helper.from_array(np.asarray(value), name)


def write_data(folder, k, inputs, outputs):
    """Data set k; inputs and outputs: {name: value}, or pairs of both, in the model's order. Values named '' are told by their order."""
    data = os.path.join(folder, f"test_data_set_{k}")
    os.makedirs(data, exist_ok=True)
    for kind, named in ("input", inputs), ("output", outputs):
        for j, (name, value) in enumerate(named.items() if isinstance(named, dict) else named):
            with open(os.path.join(data, f"{kind}_{j}.pb"), "wb") as f:
                f.write(value_proto(value, name).SerializeToString())


def write_case(folder, model, runs, tol=None):
    """runs: a pair (inputs, outputs) for each data set."""
    os.makedirs(folder, exist_ok=True)
    onnx.save(model, os.path.join(folder, "model.onnx"))
    for k, (inputs, outputs) in enumerate(runs):
        write_data(folder, k, inputs, outputs)
    if tol:
        with open(os.path.join(folder, "tol"), "w", encoding="utf-8") as f:
            f.write(tol + "\n")
