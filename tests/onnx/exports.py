#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Models as people's exporters write them (exports/), in the layout of the official suite.

usage: exports.py DIR [--gradients | --stored] [NAME...]

Writes DIR/<exporter>-<name>/{model.onnx, test_data_set_*}: outputs are ONNX Runtime's, each data set has sizes of its own, so that
the axes that an exporter leaves free are run with several. What an exporter refuses is listed in exports/refused.txt; anything
else that it refuses is an error. --gradients also writes training/ where the table says so: model.onnx as exported for training,
data.npz (inputs and target) and gradients.npz (PyTorch's, of the mean squared error, named as the model's initialisers).
--stored writes those that the tree keeps (exports/stored.txt), with gradients: exports.py --stored tests/onnx/exported
"""
import argparse, io, os, shutil, sys, tempfile, warnings

import numpy as np
import onnx

from case_folder import write_case

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "exports"))
warnings.filterwarnings("ignore")


def save_case(folder, model, runs):
    import onnxruntime

    onnxruntime.set_default_logger_severity(4)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    inputs, outputs = [i.name for i in session.get_inputs()], [o.name for o in session.get_outputs()]
    data = []
    for run in runs:
        given = {name: run[name] for name in inputs}
        data.append((given, dict(zip(outputs, session.run(None, given)))))
    write_case(folder, model, data)


# -- PyTorch --------------------------------------------------------------------------------------------------


def torch_export(graph, exporter, only=None, training=False, **options):
    """The model, or the exporter's error as a string. only: the one axis that stays free."""
    import torch

    module = graph.make(training)
    torch.manual_seed(1)
    values = module.example(**graph.sizes[0])
    free = {name: {k: v for k, v in axes.items() if v and only in (None, k)} for name, axes in graph.free.items()}
    with tempfile.TemporaryDirectory() as folder:
        path = folder + "/model.onnx"
        out, err = sys.stdout, sys.stderr
        sys.stdout = sys.stderr = io.StringIO()
        try:
            if exporter == "dynamo":
                shapes = {name: {k: torch.export.Dim.DYNAMIC for k in free.get(name, {})} for name in values}
                torch.onnx.export(module, (), path, kwargs=values, dynamo=True, dynamic_shapes=shapes, external_data=False, verbose=False)
            else:
                source = torch.jit.script(module) if exporter == "script" else module
                torch.onnx.export(source, tuple(values.values()), path, dynamo=False, opset_version=17, input_names=list(values),
                                  dynamic_axes=free, training=torch.onnx.TrainingMode.PRESERVE, **options)
        except Exception as e:  # of many kinds, none of which is ours
            return f"{type(e).__name__}: {e}".split("\n")[0][:150]
        finally:
            sys.stdout, sys.stderr = out, err
        return onnx.load(path)


def torch_runs(graph):
    import torch

    module, runs = graph.make(), []
    for k, sizes in enumerate(graph.sizes):
        torch.manual_seed(k + 1)
        runs.append({name: v.detach().numpy() for name, v in module.example(**sizes).items()})
    return runs


def torch_gradients(graph, folder):
    """A training export, its batch free, and PyTorch's gradients for its initialisers."""
    import torch

    model = torch_export(graph, "torchscript", only=0, training=True, do_constant_folding=False)
    if isinstance(model, str):
        raise RuntimeError(model)
    module = graph.make(training=True)
    torch.manual_seed(1)
    values = module.example(**graph.sizes[0])
    out = module(**values)
    out = out[0] if isinstance(out, tuple) else out
    target = torch.randn(out.shape)
    loss = torch.nn.functional.mse_loss(out, target)
    loss.backward()
    kept = {i.name for i in model.graph.initializer}
    inputs = {i.name for i in model.graph.input}
    gradients = {k: v.grad.numpy() for k, v in module.named_parameters() if v.grad is not None and k in kept}
    os.makedirs(folder)
    onnx.save(model, folder + "/model.onnx")
    np.savez(folder + "/data.npz", target=target.numpy(), **{k: v.numpy() for k, v in values.items() if k in inputs})
    np.savez(folder + "/gradients.npz", loss=loss.item(), **gradients)


def quantised(model):
    """Weights quantised, activations when it runs, by ONNX Runtime's tool."""
    from onnxruntime.quantization import quantize_dynamic

    with tempfile.TemporaryDirectory() as folder:
        onnx.save(model, folder + "/a.onnx")
        quantize_dynamic(folder + "/a.onnx", folder + "/b.onnx", op_types_to_quantize=["LSTM", "MatMul"])
        return onnx.load(folder + "/b.onnx")


# -- Everything -----------------------------------------------------------------------------------------------


def cases():
    """(name, function that writes the case into a folder, function that writes its training or None)"""
    import torch_graphs, spelled

    for name, g in torch_graphs.GRAPHS.items():
        for exporter in g.exporters:

            def write(folder, g=g, exporter=exporter):
                model = torch_export(g, exporter)
                if isinstance(model, str):
                    return model
                save_case(folder, model, torch_runs(g))

            first = exporter == g.exporters[0]
            yield f"{exporter}-{name}", write, (lambda folder, g=g: torch_gradients(g, folder)) if g.gradients and first else None
        if g.quantised:
            yield f"quantised-{name}", lambda folder, g=g: save_case(folder, quantised(torch_export(g, "torchscript")), torch_runs(g)), None
    for name, make in spelled.GRAPHS.items():
        yield f"spelled-{name}", lambda folder, make=make: save_case(folder, *make()), None
    try:
        import sklearn_graphs
    except ImportError:
        print("SKIP sklearn-*: scikit-learn and skl2onnx are not installed")
        return
    for name, make in sklearn_graphs.GRAPHS.items():
        yield f"sklearn-{name}", lambda folder, make=make: save_case(folder, *make()), None


def names_in(path):
    with open(path) as f:
        return {line.split(":")[0].strip() for line in f if line.strip() and line[0] != "#"}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dir")
    parser.add_argument("--gradients", action="store_true")
    parser.add_argument("--stored", action="store_true")
    parser.add_argument("names", nargs="*")
    options = parser.parse_intermixed_args()
    here = os.path.dirname(os.path.abspath(__file__))
    refused, stored = (names_in(os.path.join(here, "exports", file)) for file in ("refused.txt", "stored.txt"))
    options.gradients |= options.stored
    wrong = 0
    for name, write, train in cases():
        if options.stored and name not in stored or options.names and not any(n in name for n in options.names):
            continue
        folder = os.path.join(options.dir, name)
        shutil.rmtree(folder, ignore_errors=True)
        try:
            why = write(folder)
            if options.stored:
                shutil.rmtree(folder + "/test_data_set_2", ignore_errors=True)
            if not why and train and options.gradients:
                train(folder + "/training")
        except Exception as e:
            why = f"{type(e).__name__}: {e}".split("\n")[0][:200]
        if why:
            shutil.rmtree(folder, ignore_errors=True)
            known = name in refused
            print(f"{'SKIP' if known else 'not ok'} {name}: {why}", flush=True)
            wrong += not known
        elif name in refused:
            print(f"not ok {name}: listed as refused, but written", flush=True)
            wrong += 1
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
