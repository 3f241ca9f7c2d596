#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What 8 and 4 bits cost trained networks, by tccc-quantize and by ONNX Runtime's quantiser, from the same samples.

usage: quantise_trained.py [--root /] [--folder DIR] [--no-search] [NAME...]

Data are those of packages: scikit-learn's digits and photographs; Debian's r-cran-mlbench (letters, pixels of a satellite; read by rdata), wamerican, wfrench,
wngerman, witalian, wspanish (words), fortunes (text), asterisk-core-sounds-{en,es,fr,it}-wav (voices), below --root where they are unpacked elsewhere. Most networks are
trained by tccc-train --net, those that it does not build by PyTorch (torchvision), some minutes in all; what is trained already in DIR stays. A third of the samples is
never trained with, and is what the table tells of: percent right in float32; what is lost in 8 bits by `tccc-quantize`, by it with --max-drop=0.5% (where classes are
told, of samples trained with) and by ONNX Runtime (per channel; its defaults otherwise). Both are given the same 500 samples. A comment beside each row says how far
ranges of all values and those of the least squared error take outputs from float32's. `off` is how far tccc's and ONNX Runtime's
outputs of tccc's file lie apart, the root of the mean square beside that of the outputs.
"""
import argparse
import glob
import os
import subprocess
import sys

import numpy as np

p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
p.add_argument("--root", default="/")
p.add_argument("--folder", default="quantise")
p.add_argument("--no-search", action="store_true", help="leave --max-drop out, which compiles once a node where more is lost")
p.add_argument("names", nargs="*")
a = p.parse_args()
KEPT = 500  # samples of calibration


# -- Data: inputs and targets, in an order that chance decides, groups together ----------------------------------------------------------------------------------------


def parts(x, y, group=None):
    """Samples to train with, and a third that stays unseen; of a group all or none."""
    r = np.random.default_rng(1)
    group = np.arange(len(y)) if group is None else group
    unseen = np.isin(group, r.permutation(group.max() + 1)[: (group.max() + 1) // 3])
    order = r.permutation(len(y))
    return [(x[k], y[k]) for k in (order[~unseen[order]], order[unseen[order]])]


def digits(form):
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    x = (x / 16).astype("f")
    if form == "rows":
        x = x.reshape(-1, 8, 8)
    elif form == "pictures":
        x = np.repeat(x.reshape(-1, 1, 8, 8), 3, 1).repeat(4, 2).repeat(4, 3)
    return parts(x, y)


def table(name):
    import rdata

    frame = next(iter(rdata.read_rda(f"{a.root}/usr/lib/R/site-library/mlbench/data/{name}.rda").values()))
    label = "lettr" if "lettr" in frame else "classes"
    x = frame.drop(columns=label).to_numpy("f")
    x = (x - x.mean(0)) / x.std(0)
    return parts(x.reshape(-1, 9, 4) if name == "Satellite" else x, frame[label].astype("category").cat.codes.to_numpy("i8"))


def words():
    """Of which of five languages is a word of a to z?"""
    x, y = [], []
    for k, name in enumerate(("american-english", "french", "ngerman", "italian", "spanish")):
        lines = open(f"{a.root}/usr/share/dict/{name}", encoding="latin-1" if name in ("italian", "spanish") else "utf-8").read().lower().split()
        found = sorted({w for w in lines if 5 < len(w) <= 12 and w.isascii() and w.isalpha()})
        for w in np.random.default_rng(k).choice(found, 4000, replace=False):
            x.append([ord(c) - 96 for c in w.ljust(12, "`")])
            y.append(k)
    return parts(np.array(x), np.array(y))


def text():
    read = [open(f, encoding="utf-8", errors="replace").read() for f in sorted(glob.glob(f"{a.root}/usr/share/games/fortunes/*")) if "." not in os.path.basename(f)]
    codes = np.frombuffer("".join(read).encode("ascii", "ignore"), np.uint8)[:250000].astype("i8") % 128
    x = codes[: len(codes) // 64 * 64].reshape(-1, 64)
    return parts(x[:, :-1], x[:, 1:])


def voices(colours):
    """Half seconds of four languages, two of them by one voice: logarithms of spectra, 32 bands by 32 moments."""
    import scipy.io.wavfile
    import scipy.signal

    x, y, of = [], [], []
    files = [(k, f) for k, way in enumerate(("en_US*", "es_MX*", "fr_CA*", "it_IT*")) for f in sorted(glob.glob(f"{a.root}/usr/share/asterisk/sounds/{way}/*.wav"))]
    for number, (k, f) in enumerate(files):
        rate, s = scipy.io.wavfile.read(f)
        power = np.abs(scipy.signal.stft(s / 32768, rate, nperseg=256, noverlap=128)[2][1:129]) ** 2
        bands = np.log(power.reshape(32, 4, -1).mean(1) + 1e-7)
        for i in range(0, bands.shape[1] - 32, 32):
            if bands[:, i : i + 32].max() > -8:
                x.append(bands[:, i : i + 32])
                y.append(k)
                of.append(number)
    x = np.stack(x)[:, None].astype("f")
    x = (x - x.mean()) / x.std()
    return parts(np.repeat(x, colours, 1), np.array(y), np.array(of))


def photos():
    """One to three digits in a piece of a photograph. A sample's targets for 6 x 6 cells: is there one, where, how large, which?"""
    from sklearn.datasets import load_digits, load_sample_images

    r, digit = np.random.default_rng(3), load_digits()
    x, y = np.empty((4500, 3, 48, 48), "f"), np.zeros((4500, 6, 6, 5), "f")
    for n in range(len(x)):
        whole = load_sample_images.cache[n % 2]
        u, v = r.integers(0, whole.shape[0] - 48), r.integers(0, whole.shape[1] - 48)
        x[n] = whole[u : u + 48, v : v + 48].transpose(2, 0, 1) / 255
        for _ in range(r.integers(1, 4)):
            size = int(r.integers(12, 21))
            k, u, v = r.integers(len(digit.images) * 2 // 3) if n < 3000 else r.integers(len(digit.images) * 2 // 3, len(digit.images)), *r.integers(0, 48 - size, 2)
            cu, cv = (u + size / 2) / 8, (v + size / 2) / 8
            if y[n, max(0, int(cu) - 2) : int(cu) + 3, max(0, int(cv) - 2) : int(cv) + 3, 0].any():
                continue
            at = (np.arange(size) * 8 // size).astype(int)
            ink = digit.images[k][at][:, at] / 16
            part = x[n, :, u : u + size, v : v + size]
            part += (r.choice([0.0, 1.0]) - part) * ink
            y[n, int(cu), int(cv)] = 1, cu % 1, cv % 1, np.log(size / 16), digit.target[k]
    return (x[:3000], y[:3000]), (x[3000:], y[3000:])


# -- Networks ------------------------------------------------------------------------------------------------------------------------------------------------------------


def by_torch(net, loss, data, epochs, path, rate=1e-3):
    import torch

    torch.manual_seed(0)
    net, (x, y) = net(), [torch.from_numpy(v) for v in data]
    optimizer = torch.optim.AdamW(net.parameters(), rate)
    steps = epochs * (len(x) // 50)
    plan = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    net.train()
    for step in range(steps):
        if step % (len(x) // 50) == 0:
            order = torch.randperm(len(x))
        part = order[step % (len(x) // 50) * 50 :][:50]
        value = loss(net(x[part]), y[part])
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        plan.step()
    print(f"# {path}: loss {value.item():.4f}", flush=True)
    program = torch.onnx.export(net.eval(), (x[:2],), input_names=["input"], output_names=["output"], dynamic_shapes=[{0: torch.export.Dim("N")}], opset_version=18, dynamo=True, verbose=False)
    program.save(path, external_data=False)


def vgg():
    from torch import nn

    layers, before = [], 1
    for width in (16, 32, 64):
        layers += [nn.Conv2d(before, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(2)]
        before = width
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(64 * 16, 64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, 4))


def of_torchvision(name, classes):
    import torchvision

    return getattr(torchvision.models, name)(num_classes=classes)


def cells():
    from torch import nn

    layers, before = [], 3
    for width, stride in ((16, 1), (32, 2), (32, 1), (64, 2), (64, 1), (96, 2), (96, 1)):
        layers += [nn.Conv2d(before, width, 3, stride, 1), nn.BatchNorm2d(width), nn.SiLU()]
        before = width
    return nn.Sequential(*layers, nn.Conv2d(96, 14, 1))


def loss_of_cells(out, y):
    from torch.nn import functional as F

    out = out.movedim(1, -1)
    here = y[..., 0] > 0
    at = F.l1_loss(out[here][:, 1:4], y[here][:, 1:4])
    return 5 * F.binary_cross_entropy_with_logits(out[..., 0], y[..., 0]) + at + F.cross_entropy(out[here][:, 4:], y[here][:, 4].long())


def classes_of(out, y):
    import torch

    return torch.nn.functional.cross_entropy(out, y)


def share(out, y):
    """Percent of classes that are right."""
    return 100 * float((out.argmax(-1) == y).mean())


def found(out, y):
    """F1, in percent: a digit is found where a cell says that it is there, names it, and its box has more than half of both in common."""
    out = np.moveaxis(out, 1, -1)
    said, there = out[..., 0] > 0, y[..., 0] > 0
    apart, size, want = np.abs(out[..., 1:3] - y[..., 1:3]) * 8, 16 * np.exp(out[..., 3]), 16 * np.exp(y[..., 3])
    common = np.prod([np.clip(np.minimum((size + want) / 2 - apart[..., i], np.minimum(size, want)), 0, None) for i in (0, 1)], 0)
    right = said & there & (common > 0.5 * (size**2 + want**2 - common)) & (out[..., 4:].argmax(-1) == y[..., 4])
    return 100 * 2 * right.sum() / (said.sum() + there.sum())


NETS = {
    "digits, mlp:64,64": (lambda: digits("plain"), ("mlp:64,64", 40, "adam:lr=1e-3"), share),
    "digits, resnet18": (lambda: digits("pictures"), ("resnet18", 5, "adam:lr=1e-3"), share),
    "digits, mobilenet": (lambda: digits("pictures"), ("mobilenet,dropout=0", 12, "adam:lr=1e-3"), share),
    "digits, lstm:64": (lambda: digits("rows"), ("lstm:64", 30, "adam:lr=2e-3"), share),
    "digits, transformer:2x64": (lambda: digits("rows"), ("transformer:2x64", 30, "adam:lr=1e-3"), share),
    "letters, mlp:128,128": (lambda: table("LetterRecognition"), ("mlp:128,128", 20, "adam:lr=1e-3"), share),
    "satellite, transformer:2x32": (lambda: table("Satellite"), ("transformer:2x32", 20, "adam:lr=1e-3"), share),
    "words, transformer:2x64": (words, ("transformer:2x64,classes=5,vocabulary=27", 8, "adam:lr=1e-3"), share),
    "text, transformer:2x96": (text, ("transformer:2x96,dropout=0,classes=128,vocabulary=128", 5, "adam:lr=1e-3"), share),
    "voices, vgg": (lambda: voices(1), (vgg, classes_of, 2), share),
    "voices, mobilenet_v3_small": (lambda: voices(3), (lambda: of_torchvision("mobilenet_v3_small", 4), classes_of, 3), share),
    "digits, efficientnet_b0": (lambda: digits("pictures"), (lambda: of_torchvision("efficientnet_b0", 10), classes_of, 6), share),
    "photographs, detector of digits": (photos, (cells, loss_of_cells, 6), found),
}


def run(*words):
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(words)}: {done.stderr}")
    return done.stdout


def train(name, path, data):
    """Writes path/model.onnx, and the data beside it."""
    (x, y), (x2, y2) = data
    os.makedirs(path, exist_ok=True)
    np.savez(f"{path}/train.npz", input=x, target=y)
    np.savez(f"{path}/few.npz", input=x[:KEPT], target=y[:KEPT])
    np.savez(f"{path}/unseen.npz", input=x2, target=y2)
    if os.path.exists(f"{path}/model.onnx"):
        return
    how = NETS[name][1]
    if isinstance(how[0], str):
        run("tccc-train", "--net=" + how[0], "--data", f"{path}/train.npz", f"--epochs={how[1]}", f"--optimizer={how[2]}", "--batch-size=50", "--drop-last", "--threads=1", "--checkpoint", f"{path}/run")
        run("tccc-ckpt", "export", f"{path}/run/last.safetensors", f"{path}/run/net.onnx", "-o", f"{path}/model.onnx")
    else:
        by_torch(how[0], how[1], (x, y), how[2], f"{path}/model.onnx")


# -- 8 and 4 bits --------------------------------------------------------------------------------------------------------------------------------------------------------


def by_tccc(model, path, data="unseen"):
    run("tccc-run", model, "--data", f"{path}/{data}.npz", "--batch-size=100", "--threads=1", "-o", f"{path}/out.npz")
    return next(iter(np.load(f"{path}/out.npz").values()))


def by_onnxruntime(model, x):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return np.concatenate([session.run(None, {"input": x[i : i + 100]})[0] for i in range(0, len(x), 100)])


def quantised_by_onnxruntime(path, x):
    from onnxruntime import quantization as q
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Samples(q.CalibrationDataReader):
        def __init__(self):
            self.left = iter([{"input": x[i : i + 50]} for i in range(0, KEPT, 50)])

        def get_next(self):
            return next(self.left, None)

    quant_pre_process(f"{path}/model.onnx", f"{path}/ready.onnx", skip_symbolic_shape=True)
    q.quantize_static(f"{path}/ready.onnx", f"{path}/theirs.onnx", Samples(), quant_format=q.QuantFormat.QDQ, per_channel=True, activation_type=q.QuantType.QUInt8, weight_type=q.QuantType.QInt8)
    return f"{path}/theirs.onnx"


def perplexity(out, y):
    out = out.astype("d")
    return float(np.exp((np.log(np.exp(out - out.max(-1, keepdims=True)).sum(-1)) + out.max(-1) - np.take_along_axis(out, y[..., None], -1)[..., 0]).mean()))


def four_bits(path, y):
    """By tccc-quantize; what ONNX Runtime computes of the files is its own."""
    told = [perplexity(by_tccc(f"{path}/model.onnx", path), y)]
    for method in "rtn", "gptq", "awq":
        run("tccc-quantize", f"{path}/model.onnx", "--mode=weight-int4", f"--method={method}", "--data", f"{path}/few.npz", "-o", f"{path}/{method}.onnx")
        told.append(perplexity(by_tccc(f"{path}/{method}.onnx", path), y))
    print("# perplexity of %s: float32 %.4f, 4 bits to the nearest %.4f, GPTQ %.4f, AWQ %.4f" % (path, *told), flush=True)


def ranges(name, path):
    """Outputs beside their error, in dB, of the samples of calibration and of unseen ones."""
    told = []
    for method in "minmax", "mse":
        run("tccc-quantize", f"{path}/model.onnx", "--data", f"{path}/few.npz", f"--method={method}", "--min-snr=none", "-o", f"{path}/{method}.onnx")
        for data in "few", "unseen":
            want = by_tccc(f"{path}/model.onnx", path, data).astype("d")
            told.append(10 * np.log10(np.square(want).mean() / np.square(by_tccc(f"{path}/{method}.onnx", path, data) - want).mean()))
    print("# %s, dB with all nodes: minmax %.2f, %.2f; mse %.2f, %.2f" % (name, *told), flush=True)


def row(name):
    path = os.path.join(a.folder, "".join(c if c.isalnum() else "_" for c in name))
    data = NETS[name][0]()
    train(name, path, data)
    x, y = data[1]
    score = NETS[name][2]
    plain = score(by_tccc(f"{path}/model.onnx", path), y)
    run("tccc-quantize", f"{path}/model.onnx", "--data", f"{path}/few.npz", "-o", f"{path}/ours.onnx")
    ours = by_tccc(f"{path}/ours.onnx", path)
    same = by_onnxruntime(f"{path}/ours.onnx", x)
    off = np.sqrt(np.square(same - ours).mean() / np.square(same).mean())
    lost = [plain - score(ours, y), None, plain - score(by_onnxruntime(quantised_by_onnxruntime(path, data[0][0]), x), y)]
    if score is share and y.ndim == 1 and not a.no_search:
        run("tccc-quantize", f"{path}/model.onnx", "--data", f"{path}/few.npz", "--eval-data", f"{path}/few.npz", "--max-drop=0.5%", "-o", f"{path}/searched.onnx")
        lost[1] = plain - score(by_tccc(f"{path}/searched.onnx", path), y)
    print(f"| {name} | {len(y):,} | {plain:.2f} | " + " | ".join("" if v is None else f"{v:.2f}" for v in lost) + f" | {off:.1e} |", flush=True)
    ranges(name, path)
    if name.startswith("text"):
        four_bits(path, y)


def main():
    if "photographs" in " ".join(a.names or NETS):
        import sklearn.datasets

        sklearn.datasets.load_sample_images.cache = sklearn.datasets.load_sample_images().images
    print("| network | unseen | float32 | tccc | --max-drop | ONNX Runtime | off |\n| --- | --- | --- | --- | --- | --- | --- |", flush=True)
    for name in NETS:
        if not a.names or any(n in name for n in a.names):
            row(name)


main()
