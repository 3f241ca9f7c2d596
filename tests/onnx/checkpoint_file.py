# SPDX-License-Identifier: Apache-2.0
"""Read a checkpoint (safetensors: a length, a JSON header, the tensors' bytes) with numpy alone."""
import json
import numpy as np

DTYPES = {"F64": np.float64, "F32": np.float32, "F16": np.float16, "I64": np.int64, "I32": np.int32, "I16": np.int16, "I8": np.int8,
          "U64": np.uint64, "U32": np.uint32, "U16": np.uint16, "U8": np.uint8, "BOOL": np.bool_}


def read_checkpoint(path, dtype=None):
    """{name: array}. dtype: only these ("F32"); else what NumPy has no type for (bf16) comes as its 16 bits."""
    with open(path, "rb") as f:
        data = f.read()
    start = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:start])
    header.pop("__metadata__", None)
    return {name: np.frombuffer(data[start + t["data_offsets"][0]:start + t["data_offsets"][1]], DTYPES.get(t["dtype"], np.uint16)).reshape(t["shape"])
            for name, t in header.items() if dtype in (None, t["dtype"])}
