# SPDX-License-Identifier: Apache-2.0
"""tccc: an ahead-of-time compiler for neural networks.

    import tccc
    m = tccc.compile("model.onnx", dims={"N": 8})       # an ONNX file or ModelProto, a .pt2 or ExportedProgram, a torch.nn.Module with an example
    y = m(x)                                            # numpy arrays, torch tensors, whatever offers buffers or DLPack, lists
    m.save("model.so")                                  # an artifact that needs no Python
    m = tccc.load("model.so")
    step = tccc.train("model.onnx", loss="cross_entropy", optimizer="adamw:lr=1e-3")
    loss = step(x, target)
    net = torch.compile(net, backend="tccc")

The wheel tccc_runtime has this package without the compiler: load() and all that a model or step does.
"""
from . import _runtime, errors
from ._model import Model, load
from ._runtime import DeviceArray
from ._types import Value
from .errors import Error, InputError, InternalError, UnavailableError, UsageError
from ._compile import compile, dim_names, metrics, versions
from ._train import Step, load_step, train
from ._world import world

__version__ = _runtime.version

__all__ = ["DeviceArray", "Error", "InputError", "InternalError", "Model", "Step", "UnavailableError", "UsageError", "Value", "compile", "dim_names", "errors", "load",
           "load_step", "metrics", "train", "versions", "world"]
