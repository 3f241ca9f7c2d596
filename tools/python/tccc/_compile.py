# SPDX-License-Identifier: Apache-2.0
"""Compilation: what a model is, where its artifact goes, which options there are."""
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import warnings
import weakref
import shutil

from . import _runtime
from ._model import Model
from .errors import UsageError, UnavailableError, of_status

_counts = {"compiled": 0, "seconds": 0.0, "graphs": 0, "cached": 0, "fallbacks": 0}


def count(what, n=1):
    _counts[what] += n


def metrics():
    """What has happened in this process: models compiled and the seconds that took; graphs of torch.compile, those that were there already, and those that eager PyTorch runs."""
    return dict(_counts)


def _compiler():
    try:
        from . import _compiler
    except ImportError as e:
        raise UnavailableError(f"this installation of tccc only runs artifacts (the wheel tccc has the compiler): {e}") from None
    return _compiler


def versions():
    """Versions: of the package, and what the compiler is made of where it is there."""
    found = {"tccc": _runtime.version}
    try:
        found["compiler"] = _compiler().build()
    except UnavailableError:
        pass
    return found


def _pairs(values, between="|"):
    """{"N": 8} or {"N": (1, 8)} as texts of --dim; with "x" {"input": (8, 3)} as those of --shape."""
    return None if values is None else [f"{k}={between.join(map(str, v)) if isinstance(v, (tuple, list)) else v}" for k, v in values.items()]


def _module_of(o):
    return type(o).__module__.split(".")[0]


def _is(o, module, name):
    """Is it an instance of module.name, without importing that?"""
    where = sys.modules.get(module)
    cls = getattr(where, name, None)
    return isinstance(cls, type) and isinstance(o, cls)


_root, _root_lock = (None, None), threading.Lock()


def temporary_folder():
    """A new folder, below one of this process (a forked one has its own) that goes with it, killed or not."""
    global _root
    with _root_lock:
        if _root[0] != os.getpid() or not os.path.isdir(_root[1]):
            _root = os.getpid(), _compiler().scratch()
    return tempfile.mkdtemp(dir=_root[1])


def _specs(value, spec):
    """Of each tensor in nested arguments, its entry in dynamic_shapes."""
    if isinstance(value, (tuple, list)):
        return [s for k, v in enumerate(value) for s in _specs(v, spec[k] if isinstance(spec, (tuple, list)) and k < len(spec) else None)]
    if isinstance(value, dict):
        return [s for k, v in value.items() for s in _specs(v, spec.get(k) if isinstance(spec, dict) else None)]
    return [spec]


def dim_names(program, dynamic_shapes):
    """What torch.export.save() is to be given as extra_files, so that sizes keep the names of their torch.export.Dim: PyTorch's format has no place for them.

    program: an ExportedProgram; dynamic_shapes: as it was exported with.
    """
    names = list(program.graph_signature.user_inputs)
    if isinstance(dynamic_shapes, dict):
        specs = [dynamic_shapes.get(n) for n in names]
    else:
        args, kwargs = program.example_inputs or ((), {})
        specs = _specs(tuple(args) + tuple(kwargs.values()), dynamic_shapes)
    nodes, found = {n.name: n for n in program.graph.nodes if n.op == "placeholder"}, {}
    for name, spec in zip(names, specs):
        shape = getattr(nodes[name].meta.get("val"), "shape", ()) if name in nodes else ()
        axes = spec.items() if isinstance(spec, dict) else enumerate(spec) if isinstance(spec, (tuple, list)) else ()
        for axis, dim in axes:
            symbols = getattr(getattr(shape[axis] if axis < len(shape) else None, "node", None), "expr", None)
            symbols, text = getattr(symbols, "free_symbols", ()), getattr(getattr(dim, "root", dim), "__name__", None)
            if text and len(symbols) == 1:
                found.setdefault(str(next(iter(symbols))), text)
    known, texts = {str(s) for s in program.range_constraints}, list(found.values())
    found = {s: t for s, t in found.items() if s in known and t not in known and texts.count(t) == 1}
    return {"dim_names": json.dumps(found)} if found else {}


_exporting = threading.RLock()


@contextlib.contextmanager
def _inference_mode_as_no_grad():
    """torch.export records regions under no_grad(), and drops inference_mode() without a trace. Meanwhile that is what it does to gradients, in this thread; it is PyTorch's in all others."""
    import torch
    mode, thread = torch.inference_mode, threading.get_ident()

    def enter(self):
        if threading.get_ident() != thread:
            return own[0](self)
        self.no_grad = torch.set_grad_enabled(not self.mode)
        self.no_grad.__enter__()

    def leave(self, *what):
        region = self.__dict__.pop("no_grad", None)     # as it was entered
        return region.__exit__(*what) if region else own[1](self, *what)
    with _exporting:                                    # what it puts back is PyTorch's
        own = mode.__enter__, mode.__exit__
        mode.__enter__, mode.__exit__ = enter, leave
        try:
            yield
        finally:
            mode.__enter__, mode.__exit__ = own


def _write_model(model, folder, example, dynamic_shapes, train):
    """The model's file."""
    if isinstance(model, (str, os.PathLike)):
        return os.fspath(model)
    if isinstance(model, (bytes, bytearray)) or hasattr(model, "SerializeToString"):
        path = os.path.join(folder, "model.onnx")
        with open(path, "wb") as f:
            f.write(model if isinstance(model, (bytes, bytearray)) else model.SerializeToString())
        return path
    if _is(model, "torch.nn", "Module"):
        import torch
        if example is None:
            raise UsageError("a torch.nn.Module needs example=(x, ...), inputs to export it with")
        example = example if isinstance(example, tuple) else (example,)
        with torch.set_grad_enabled(train), _inference_mode_as_no_grad():     # no_grad() within the module is a change then, which the program records
            model = torch.export.export(model, example, dynamic_shapes=dynamic_shapes)
    if _is(model, "torch.export", "ExportedProgram"):
        import torch
        path = os.path.join(folder, "model.pt2")
        torch.export.save(model, path, extra_files=dim_names(model, dynamic_shapes))
        return path
    raise UsageError(f"expected the path of a model, an onnx.ModelProto, an ExportedProgram or a torch.nn.Module, got {type(model).__name__}")


def _quantise_words(wish, folder):
    """What quantize= says as options of tccc-quantize: a text as of tccc --quantize, or a dict of these options; data may be arrays by name."""
    if isinstance(wish, str):
        mode, *rest = [w.replace("\0", ",") for w in wish.replace("\\,", "\0").split(",")]
        return ["--mode=" + mode] + ["--" + w for w in rest]
    if not isinstance(wish, dict) or "mode" not in wish:
        raise UsageError("quantize: expected a text (\"static-int8,data=FILE\") or a dict with a mode")
    words = []
    for name, value in wish.items():
        option = "--" + name.replace("_", "-")
        if isinstance(value, dict):
            import numpy
            path = os.path.join(folder, name + ".npz")
            numpy.savez(path, **{k: numpy.asarray(v) for k, v in value.items()})
            value = path
        for one in value if isinstance(value, (list, tuple)) else [value]:
            if one is not False and one is not None:
                words.append(option if one is True else f"{option}={one}")
    return words


def _quantise(path, folder, wish):
    """The model's file in fewer bits, by the command tccc-quantize."""
    words, command = _quantise_words(wish, folder), shutil.which("tccc-quantize")
    if not command:
        raise UnavailableError("quantize: the command tccc-quantize is not in PATH")
    out = os.path.join(folder, "quantised.onnx")
    done = subprocess.run([command, path, *words, "-o", out], capture_output=True, text=True)
    if done.returncode:
        told = [line.removeprefix("error: ") for line in done.stderr.splitlines() if not line.startswith("Try '")]
        raise of_status(done.returncode, "\n".join(told) or "tccc-quantize failed")
    return out


def _tell(status, messages):
    for severity, text in messages:
        if severity == 1:
            warnings.warn(text, stacklevel=4)
    if status:
        errors = [text for severity, text in messages if severity >= 2]
        raise of_status(status, "\n".join(errors) or "the compiler failed")


def write(model, output, options, train, example=None, dynamic_shapes=None):
    """Compiles to the file `output`. Raises what the compiler says, gives warnings of it."""
    import time
    compiler = _compiler()
    folder = temporary_folder()
    options = dict(options)
    quantize = options.pop("quantize", None)
    try:
        path = _write_model(model, folder, example, dynamic_shapes, train)
        if quantize is not None:
            path = _quantise(path, folder, quantize)
        begin = time.perf_counter()
        status, messages = compiler.compile(path, output, options, train)
        count("compiled")
        count("seconds", time.perf_counter() - begin)
    except TypeError as e:
        if isinstance(e, UsageError):
            raise
        raise UsageError(str(e)) from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    _tell(status, messages)


def make(cls, model, options, train, output, runtime, example=None, dynamic_shapes=None):
    """Compiles, opens what came of it as a `cls`; without an output of the caller's the artifact's folder goes with the model."""
    folder = None
    if output is None:
        folder = temporary_folder()
        output = os.path.join(folder, "model.so")
    try:
        if folder and "name" not in options:
            options = dict(options, name=_name_of(model))
        write(model, os.fspath(output), options, train, example, dynamic_shapes)
        m = cls(os.fspath(output), **runtime)
    except BaseException:
        if folder:
            shutil.rmtree(folder, ignore_errors=True)
        raise
    m.path = os.path.abspath(os.fspath(output))
    if folder:
        m._folder = folder
        weakref.finalize(m, shutil.rmtree, folder, True)
    return m


def _name_of(model):
    text = os.path.splitext(os.path.basename(os.fspath(model)))[0] if isinstance(model, (str, os.PathLike)) else "model" if hasattr(model, "SerializeToString") else type(model).__name__
    name = "".join(c if c.isascii() and c.isalnum() else "_" for c in text) or "model"
    return "_" + name if name[0].isdigit() else name


RUNTIME = ("threads", "device", "seed", "sim", "rounding", "profile")


def split_options(options):
    """The options of the runtime, and those of the compiler."""
    return {k: options.pop(k) for k in RUNTIME if k in options}, options


def compile(model, *, example=None, dynamic_shapes=None, target=None, dims=None, shapes=None, states=None, output=None, quantize=None, **options):
    """Compiles a model for inference and opens it: a Model.

    model: the path of an .onnx, .pt2 or .tcir file, ONNX as bytes or ModelProto, a torch.export.ExportedProgram, or a torch.nn.Module, which is exported with
    the inputs `example` (and `dynamic_shapes` as torch.export takes them). target: "cpu", "cuda:sm_80", "neuron:trn1"... dims, shapes: sizes by symbol or
    input ({"N": 8}, {"x": (8, 3)}). states: texts of --state. defaults: which initialisers that an ONNX model lists as inputs may be given ("auto", "all", "none" or names, "w,b"). output: where the artifact goes; None: a folder that goes with the Model.
    quantize: an ONNX model in fewer bits first, as tccc --quantize does: a text ("static-int8,data=few.npz"), or a dict of tccc-quantize's options, {"mode": "static-int8",
    "data": {"x": array}}; by the command tccc-quantize, which must be in PATH.
    Other options are those of the command line: level (0 to 3), march, exact, fast_math, auto_cast, auto_cast_type, cache_dir, name, header, verify, jobs, max_nodes,
    time_limit; and of load(): threads, device, seed, sim, rounding, profile.
    Raises InputError for a model that is wrong or unsupported, UsageError, UnavailableError, InternalError; warnings are Python's.
    """
    runtime, options = split_options(options)
    if quantize is not None:
        options["quantize"] = quantize
    options.update(target=target, dims=_pairs(dims), shapes=_pairs(shapes, "x"), states=states)
    return make(Model, model, options, False, output, runtime, example, dynamic_shapes)
