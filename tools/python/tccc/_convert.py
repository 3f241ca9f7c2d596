# SPDX-License-Identifier: Apache-2.0
"""What the extension leaves to Python: element types that the buffer protocol has no letter for, strings, lists."""
import sys

import numpy as np
from numpy import asarray, dtype, empty  # noqa: F401  (asked for by name)

from .errors import InputError

try:
    import ml_dtypes
except ImportError:
    ml_dtypes = None


def _name(a):
    if a.dtype.byteorder == ">":
        return str(a.dtype) + ", big-endian"
    return a.dtype.name


def bits(o):
    """An array of a type of ml_dtypes seen as integers, and the type's name."""
    a = np.ascontiguousarray(o).reshape(np.shape(o))
    if a.dtype.name in ("int4", "int2"):
        return a.astype(np.int8).view(np.uint8), a.dtype.name    # we hold them sign-extended
    if a.dtype.itemsize in (1, 2) and hasattr(ml_dtypes, a.dtype.name):
        return a.view(f"u{a.dtype.itemsize}"), a.dtype.name
    raise InputError(f"elements of type {_name(a)} are none of ours")


def _numpy_type(name):
    if name == "str":
        return np.dtype(object)
    if ml_dtypes is not None and hasattr(ml_dtypes, name):
        return np.dtype(getattr(ml_dtypes, name))
    try:
        return np.dtype(name)
    except TypeError:
        raise InputError(f"arrays of {name} need the package ml_dtypes") from None


def array(o, name, what):
    """A number or nested list as an array of the type that the model wants."""
    if type(o).__name__ == "ndarray" or isinstance(o, (str, bytes, dict, set)):
        raise InputError(f"input '{what}': expected an array of {name}, got {type(o).__name__}")
    try:
        given = np.asarray(o)
        wanted = _numpy_type(name)
        if given.dtype.kind not in "biufc" or (given.dtype.kind == "f" and wanted.kind in "iub") or (given.dtype.kind == "c" and wanted.kind != "c"):
            raise TypeError(f"expected numbers of {name}, got {given.dtype}")
        if given.size and given.dtype.kind in "iu" and wanted.kind in "iu":
            limits = np.iinfo(wanted)
            if int(given.min()) < limits.min or int(given.max()) > limits.max:
                raise TypeError(f"a number does not fit {name}")
        return np.ascontiguousarray(given.astype(wanted)).reshape(given.shape)
    except (TypeError, ValueError) as e:
        raise InputError(f"input '{what}': {e}") from None


def anything(o):
    """A number or a list as numpy makes an array of it; arrays and tensors as they are."""
    return o if hasattr(o, "__dlpack__") or hasattr(o, "__array__") or isinstance(o, (memoryview, bytes, bytearray)) else np.asarray(o)


def typed(a, name):
    """Bits of a type that numpy does not have become that type, where ml_dtypes is installed."""
    return a.view(getattr(ml_dtypes, name)) if hasattr(ml_dtypes, name) else a


def like(other, a):
    """An array as a tensor of the framework of `other`."""
    framework = sys.modules.get(type(other).__module__.split(".")[0])
    make = getattr(framework, "from_dlpack", None)
    return make(a) if make else a


def strings(o):
    """The shape of an array (or list) of strings, and its elements as bytes."""
    a = np.asarray(o)
    if a.dtype.kind not in "UOST":
        raise InputError(f"expected strings, got {a.dtype}")
    items = []
    for s in a.reshape(-1).tolist():
        if not isinstance(s, (str, bytes)):
            raise InputError(f"expected strings, got {type(s).__name__}")
        items.append(s if isinstance(s, bytes) else s.encode("utf-8", "surrogateescape"))
    return a.shape, items


def string_array(items, shape):
    a = np.empty(len(items), object)
    a[:] = items
    return a.reshape(shape)
