#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Cases whose outputs are ONNX Runtime's, in the official suite's layout: resampling in all modes, recurrent layers, and each operator
in each of its versions (version_cases.py).

usage: engine_cases.py DIR [--store]

--store also packs them as engines.tar.xz beside this script, which stored_cases.py unpacks where there is no ONNX Runtime.
"""
import io, os, sys, tarfile
import numpy as np, onnx, onnxruntime
from onnx import TensorProto as T, helper as h, numpy_helper
from case_folder import write_case

onnxruntime.set_default_logger_severity(4)
COORDINATES = ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_crop_and_resize")
ROUNDINGS = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")


def run(model, inputs):
    """The outputs that ONNX Runtime computes; raises where it has no kernel or refuses the model."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"]).run(None, inputs)


def info(name, value, dims=None):
    return h.make_tensor_value_info(name, h.np_dtype_to_tensor_dtype(value.dtype), value.shape if dims is None else dims)


def model_of(nodes, inputs, constants, outputs, opset=19, ml=None, dims={}):
    """outputs: {name: element type or ValueInfoProto}; dims: {input: its declared dims}."""
    outs = [t if isinstance(t, onnx.ValueInfoProto) else h.make_tensor_value_info(k, t, None) for k, t in outputs.items()]
    graph = h.make_graph(nodes, "g", [info(k, v, dims.get(k)) for k, v in inputs.items()], outs,
                         [numpy_helper.from_array(v, k) for k, v in constants.items()])
    imports = [h.make_opsetid("", opset)] + ([h.make_opsetid("ai.onnx.ml", ml)] if ml else [])
    return h.make_model(graph, opset_imports=imports, ir_version=min(10, 8 if opset < 19 else 10))


def save(out, name, model, inputs, results, tol="1e-4 1e-5"):
    outputs = dict(zip([o.name for o in model.graph.output], results))
    write_case(os.path.join(out, name), model, [(inputs, outputs)], tol)


# -- Resize ----------------------------------------------------------------------------------------------------------------------------

def resize_forms(coordinate, shape, factors, sizes):
    """(attributes, "scales" or "sizes", their values) of one coordinate rule. Left out is a crop to the input's own size, which ONNX Runtime
    copies (we do what ONNX says), and half_pixel_symmetric to the nearest, where rounding decides between two elements."""
    modes = [{"mode": "nearest", "nearest_mode": r} for r in ROUNDINGS]
    if len(shape) == 4:
        modes += [{"mode": "cubic", "antialias": a, "exclude_outside": e} for a in (0, 1) for e in (0, 1)]
    modes += [{"mode": "linear", "antialias": a} for a in (0, 1)]
    for mode in modes:
        for kind, values in [("scales", f) for f in factors] + [("sizes", s) for s in sizes]:
            whole = [int(np.float32(n) * np.float32(f)) for n, f in zip(shape, values)] if kind == "scales" else values
            if coordinate == "half_pixel_symmetric" and mode["mode"] == "nearest":
                continue
            if coordinate == "tf_crop_and_resize" and any(a == b for a, b in zip(shape[2:], whole[2:])):
                continue
            yield {"coordinate_transformation_mode": coordinate, **mode}, kind, values


def resize_model(forms, shape, dims):
    """One model of all forms. `roi` crops the spatial axes."""
    n = len(shape) - 2
    constants = {"roi": np.array([0, 0] + [0.1] * n + [1, 1] + [0.8] * n, np.float32)}
    nodes = []
    for k, (attrs, kind, values) in enumerate(forms):
        constants[f"v{k}"] = np.array(values, np.float32 if kind == "scales" else np.int64)
        roi = "roi" if attrs["coordinate_transformation_mode"] == "tf_crop_and_resize" else ""
        nodes.append(h.make_node("Resize", ["x", roi, f"v{k}"] if kind == "scales" else ["x", roi, "", f"v{k}"], [f"y{k}"], **attrs))
    x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    return model_of(nodes, {"x": x}, constants, {f"y{k}": T.FLOAT for k in range(len(nodes))}, dims={"x": dims}), {"x": x}


def resize(out):
    for shape, factors, sizes in (((1, 2, 10, 7), ([1, 1, 1.7, 0.6], [1, 1, 0.7, 1.1], [1, 1, 0.13, 2]), ([1, 2, 13, 3], [1, 2, 1, 7])),
                                  ((1, 2, 10), ([1, 1, 0.7],), ([1, 2, 13],)), ((1, 1, 4, 5, 6), ([1, 1, 0.7, 1.7, 2],), ([1, 1, 7, 3, 5],))):
        for coordinate in COORDINATES:
            for symbolic in (False, True) if len(shape) == 4 else (False,):
                model, inputs = resize_model(resize_forms(coordinate, shape, factors, sizes), shape, list("nchw") if symbolic else shape)
                save(out, f"resize_{len(shape)}d_{coordinate}" + ("_symbolic" if symbolic else ""), model, inputs, run(model, inputs))


# -- GridSample ------------------------------------------------------------------------------------------------------------------------

def grid_sample(out):
    rng = np.random.default_rng(2)
    for shape, grid, opset, modes in (((2, 2, 5, 4), (2, 3, 4, 2), 20, ("linear", "nearest", "cubic")), ((1, 2, 3, 4, 5), (1, 2, 3, 2, 3), 20, ("linear", "nearest")),
                                      ((2, 2, 5, 4), (2, 3, 4, 2), 16, ("bilinear", "nearest", "bicubic"))):
        inputs = {"x": rng.standard_normal(shape).astype(np.float32), "grid": (1.3 * rng.standard_normal(grid)).astype(np.float32)}
        inputs["grid"].reshape(-1)[:4] = -1, 1, 3.7, -2.9
        forms = [{"mode": m, "padding_mode": p, "align_corners": a} for m in modes for p in ("zeros", "border", "reflection") for a in (0, 1)]
        nodes = [h.make_node("GridSample", ["x", "grid"], [f"y{k}"], **form) for k, form in enumerate(forms)]
        model = model_of(nodes, inputs, {}, {f"y{k}": T.FLOAT for k in range(len(nodes))}, opset)
        save(out, f"grid_sample_{len(shape)}d_{opset}", model, inputs, run(model, inputs))


# -- Each operator in each of its versions (version_cases.py) ---------------------------------------------------------------------------

def versions(out):
    """What ONNX Runtime has no kernel for, at that version, is said and left out."""
    import version_cases

    for name, inputs, constants, node, names, opset, ml in version_cases.cases():
        untyped = model_of([node], inputs, constants, {n: onnx.ValueInfoProto(name=n) for n in names}, opset, ml)
        try:
            results = run(untyped, inputs)
        except Exception as e:  # of many kinds, none of which is ours
            print(f"SKIP version_{name}: {str(e).splitlines()[0][:150]}", flush=True)
            continue
        typed = {n: info(n, np.asarray(r)) for n, r in zip(names, results)}
        save(out, "version_" + name, model_of([node], inputs, constants, typed, opset, ml), inputs, results)


def main():
    out = sys.argv[1]
    resize(out)
    grid_sample(out)
    versions(out)
    if "--store" in sys.argv[2:]:
        with tarfile.open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "engines.tar.xz"), "w:xz") as tar:
            for folder, _, names in sorted(os.walk(out)):
                for name in sorted(names):
                    path = os.path.join(folder, name)
                    member = tarfile.TarInfo(os.path.relpath(path, out))
                    with open(path, "rb") as f:
                        data = f.read()
                    member.size = len(data)
                    tar.addfile(member, io.BytesIO(data))


if __name__ == "__main__":
    main()
