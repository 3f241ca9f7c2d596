#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Networks on AArch64 in the emulator beside what x86-64 gives for them; called by tests/arm-networks.tap, prints TAP.

usage: networks.py BUILD SOURCE FOLDER [full]     FOLDER: for temporary files; full: every network at each level, else at one of them

Floats are within 1e-5 of the largest of their tensor (sums are taken in vectors of other lengths), integers equal. Networks in 8 bits and
in 4, which tccc-quantize makes, give the same bits: their sums are exact, and what stands around them has one order.
"""
import glob, os, subprocess, sys
import numpy as np, onnx, squares
from onnx import numpy_helper

build, source, folder = sys.argv[1:4]
full = len(sys.argv) > 4
LEVELS = ("armv8-a", "armv8.2-a+dotprod+fp16", "armv9-a+bf16+i8mm")
# Of tests/train/networks: the batch's dims, and how many classes its numbers stand for (0: floats).
TRAINED = {"mlp": ((16, 16), 0), "cnn": ((8, 1, 12, 12), 0), "lstm": ((8, 6, 8), 0), "gru": ((8, 6, 8), 0), "resnet": ((8, 3, 8, 8), 0),
           "groups": ((4, 3, 8, 8), 0), "encoder": ((4, 10), 40), "gpt": ((4, 12), 48)}
EXPORTED = ("dynamo-Forecaster", "dynamo-GraphNetwork", "dynamo-PointNet", "quantised-ProsodyLstm", "script-GreedyLoop", "spelled-paddle_recogniser",
            "spelled-tf_layer_norm_transformer", "torchscript-CrossDecoder", "torchscript-Llama", "torchscript-MobileNet", "torchscript-Recommender",
            "torchscript-StyleTransfer")
QUANTISED = (("digits", "static-int8"), ("digits", "dynamic-int8"), ("digits", "weight-int4"), ("cnn", "static-int8"), ("resnet", "static-int8"), ("mlp", "dynamic-int8"),
             ("mlp", "static-int8"))


def tool(*arguments):
    done = subprocess.run([f"{build}/{arguments[0]}", *arguments[1:]], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(arguments)}: {done.stderr.strip()}")


def outputs(model, feeds, march):
    out = f"{folder}/out"
    os.makedirs(out, exist_ok=True)
    for old in glob.glob(f"{out}/*"):
        os.remove(old)
    given = []
    for i, (name, value) in enumerate(feeds.items()):
        np.save(f"{folder}/in{i}.npy", value)
        given += ["--input", f"{name}={folder}/in{i}.npy"]
    tool("tccc-run", "-q", model, f"--march={march}", *(() if march.startswith("x86") else ("--emulate",)), "--output-dir", out, "--threads=2", *given)
    return [np.load(f"{out}/output_{i}.npy") for i in range(len(os.listdir(out)))]


def differences(got, want, exact):
    """What is wrong; "" for nothing."""
    if len(got) != len(want) or not want:
        return f"{len(got)} outputs, not {len(want)}"
    for i, (a, b) in enumerate(zip(got, want)):
        if a.dtype != b.dtype or a.shape != b.shape:
            return f"output {i}: {a.dtype}{a.shape}, not {b.dtype}{b.shape}"
        if exact or a.dtype.kind != "f":
            if a.tobytes() != b.tobytes():
                return f"output {i}: other bits, {np.count_nonzero(a != b)} of {a.size} values"
        elif a.size and not np.allclose(a, b, rtol=0, atol=1e-5 * float(np.max(np.abs(b[np.isfinite(b)]), initial=0)), equal_nan=True):
            return f"output {i}: differs by {np.nanmax(np.abs(a.astype(np.float64) - b))} of {np.nanmax(np.abs(b))}"
    return "" if any(v.size > 1 and np.any(v != v.flat[0]) for v in want) else "outputs do not vary"


def trained(name):
    model = f"{source}/tests/train/networks/{name}.onnx"
    dims, classes = TRAINED[name]
    rng = np.random.default_rng(len(name))
    value = rng.integers(classes, size=dims) if classes else rng.uniform(-1, 1, dims).astype(np.float32)
    return model, {onnx.load(model).graph.input[0].name: value}


def exported(name):
    where = f"{source}/tests/onnx/exported/{name}"
    graph = onnx.load(f"{where}/model.onnx").graph
    names = [i.name for i in graph.input if i.name not in {t.name for t in graph.initializer}]
    data = [onnx.load_tensor(f"{where}/test_data_set_0/input_{i}.pb") for i in range(len(names))]
    return f"{where}/model.onnx", {t.name or n: numpy_helper.to_array(t) for n, t in zip(names, data)}


def digits():
    where = f"{source}/samples/digits"
    pictures = np.fromfile(f"{where}/pictures.idx3-ubyte", np.uint8)[16:].reshape(-1, 1, 28, 28)
    return f"{where}/digits.onnx", {"picture": (pictures[:20] / 255).astype(np.float32)}


def quantised(name, mode):
    model, feeds = digits() if name == "digits" else trained(name)
    np.savez(f"{folder}/data.npz", **feeds)
    tool("tccc-quantize", model, "--data", f"{folder}/data.npz", f"--mode={mode}", "-o", f"{folder}/quantised.onnx")
    return f"{folder}/quantised.onnx", feeds


def in_squares():
    """Random products and convolutions beside the interpreter, with instructions for squares and, at others' schedules, without."""
    model = f"{folder}/squares.onnx"
    for seed in range(5 if full else 1):
        for kind, options in ("bytes", ()), ("floats", ("--auto-cast=all",)):
            squares.write(model, kind, seed)
            for march, cpu in ("armv8.6-a", "max"), ("neoverse-v1", "max,sve256=on"), ("neoverse-n1,neoverse-v2", "neoverse-n1"):
                tool("tccc-run", "-q", "--check", model, "--random", "--dim=N=11", f"--march={march}", f"--emulate={cpu}", *options)


def report(number, name, wrong):
    print(f"{'not ok' if wrong else 'ok'} {number} - {name}" + "".join(f"\n# {line}" for line in wrong.splitlines()), flush=True)


def main():
    cases = [("digits", digits, (), False)] + [(n, trained, (n,), False) for n in TRAINED] + [(n, exported, (n,), False) for n in EXPORTED]
    cases += [(f"{n} {mode}", quantised, (n, mode), True) for n, mode in QUANTISED]
    print(f"1..{len(cases) + 1}")
    for i, (name, make, arguments, exact) in enumerate(cases):
        wrong = ""
        try:
            model, feeds = make(*arguments)
            want = outputs(model, feeds, "x86-64-v3")
            for level in LEVELS if full else [LEVELS[i % len(LEVELS)]]:
                wrong = wrong or (lambda why: why and f"{level}: {why}")(differences(outputs(model, feeds, level), want, exact))
        except (RuntimeError, ValueError, OSError) as e:
            wrong = str(e)
        report(i + 1, name, wrong)
    wrong = ""
    try:
        in_squares()
    except RuntimeError as e:
        wrong = str(e)
    report(len(cases) + 1, "products of two rows by two columns", wrong)


main()
