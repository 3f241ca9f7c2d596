# SPDX-License-Identifier: Apache-2.0
"""What the tests of operators' texts share: models of a few nodes, comparison at each level, refusals in words."""
import numpy as np
from onnx import TensorProto as T, helper as h, numpy_helper as nh

import tccc

LEVELS = ({"level": 0}, {"level": 2})


class Wrong(Exception):
    pass


def element(a):
    a = np.asarray(a)
    return T.STRING if a.dtype.kind in "OU" else h.np_dtype_to_tensor_dtype(a.dtype)


def info(name, value, dims=None):
    return h.make_tensor_value_info(name, element(value), np.shape(value) if dims is None else dims)


def model(nodes, inputs, outputs, constants=(), opset=21, ir=10, dims={}, domains=(), overridable=()):
    """inputs, constants: {name: array}; outputs: {name: element type}; dims: {input: its dims}; overridable: constants that are inputs, too."""
    constants = dict(constants)
    ins = [info(k, v, dims.get(k)) for k, v in inputs.items()] + [info(k, constants[k]) for k in overridable]
    outs = [h.make_tensor_value_info(k, t, None) for k, t in outputs.items()]
    graph = h.make_graph(nodes, "g", ins, outs, [nh.from_array(np.asarray(v), k) for k, v in constants.items()])
    imports = [h.make_opsetid("", opset)] + [h.make_opsetid(d, v) for d, v in domains]
    return h.make_model(graph, opset_imports=imports, ir_version=ir)


def run(m, inputs, **options):
    y = tccc.compile(m.SerializeToString(), threads=1, **options)(**inputs)
    return y if isinstance(y, tuple) else (y,)


def close(a, b, tol):
    a, b = np.asarray(a), np.asarray(b)
    if a.shape != b.shape or a.dtype.kind in "OU" or b.dtype.kind in "OU":
        return a.shape == b.shape and list(a.ravel()) == list(b.ravel())
    a, b = a.astype(np.float64), b.astype(np.float64)
    finite = np.abs(b[np.isfinite(b)])
    return np.allclose(a, b, rtol=tol, atol=tol * max(1e-6, finite.max(initial=0)), equal_nan=True)


def agrees(m, inputs, want, tol=1e-4, levels=LEVELS, what=""):
    for o in levels:
        for k, (a, b) in enumerate(zip(run(m, inputs, **o), want, strict=True)):
            if not close(a, b, tol):
                raise Wrong(f"{what} {o} result {k}: {np.shape(a)} {np.ravel(a)[:6]}, expected {np.shape(b)} {np.ravel(b)[:6]}")


def refused(m, inputs, words, levels=LEVELS):
    """At every level an error of the model or of the run that has these words."""
    for o in levels:
        try:
            run(m, inputs, **o)
        except tccc.InternalError:
            raise
        except tccc.Error as e:
            if words not in str(e):
                raise Wrong(f"{o}: '{e}' does not say '{words}'") from None
            continue
        raise Wrong(f"{o}: ran, although '{words}' was to be said")
