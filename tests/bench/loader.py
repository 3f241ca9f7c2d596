#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Does loading hide behind computing, and does memory stay? Draws 256 x 256 JPEGs into a folder of classes and runs tccc-train on them.

usage: loader.py [--build BUILD] [--folder DIR] [--steps 6] [--long 1000] [--pictures 512] [resnet] [memory]

resnet: torchvision's ResNet-18 at 224 x 224, batches of 64, one thread that computes: a step's time, and how long it waited for its batch, without a thread that loads
and with one (medians). memory: a small network, --long steps of 64 pictures: resident memory after a tenth of them and at the end. PyTorch exports the network; Pillow draws.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys

import numpy as np
from PIL import Image

p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
p.add_argument("--build", default="build")
p.add_argument("--folder", default="loader")
p.add_argument("--steps", type=int, default=6)
p.add_argument("--long", type=int, default=1000)
p.add_argument("--pictures", type=int, default=512)
p.add_argument("what", nargs="*", default=["resnet", "memory"])
a = p.parse_args()
os.environ["TCCC_LIBDIR"] = os.path.abspath(a.build)
tool = lambda name: os.path.join(a.build, name)
pictures = os.path.join(a.folder, "pictures")


def draw():
    r = np.random.default_rng(1)
    for k in range(a.pictures):
        folder = os.path.join(pictures, str(k % 10))
        os.makedirs(folder, exist_ok=True)
        coarse = Image.fromarray(r.integers(0, 256, (16, 16, 3)).astype(np.uint8)).resize((256, 256), Image.BICUBIC)
        noise = r.normal(0, 12, (256, 256, 3))
        Image.fromarray(np.clip(np.asarray(coarse) + noise, 0, 255).astype(np.uint8)).save(os.path.join(folder, f"{k}.jpg"), quality=90)


def train(artifact, steps, workers, watch=lambda pid, step: None):
    command = [tool("tccc-train"), artifact, "--data", f"folder:{pictures},augment=flip+crop", "--batch-size=64", f"--steps={steps}", f"--workers={workers}", "--threads=1", "--drop-last", "--json"]
    lines = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as run:
        for line in run.stdout:
            lines.append(json.loads(line))
            watch(run.pid, len(lines))
    if run.returncode:
        sys.exit(run.returncode)
    return lines


def compiled(model, *options):
    step = os.path.join(a.folder, os.path.basename(model) + ".so")
    subprocess.run([tool("tccc"), "--train", "--loss=cross_entropy", "--optimizer=sgd:lr=0.01,momentum=0.9", *options, model, "-o", step, "-q"], check=True)
    return step


def resnet():
    import warnings
    import torch
    import torchvision
    warnings.filterwarnings("ignore")
    model = os.path.join(a.folder, "resnet18.onnx")
    if not os.path.exists(model):
        torch.onnx.export(torchvision.models.resnet18(num_classes=10).train(), torch.randn(64, 3, 224, 224), model, dynamo=False, training=torch.onnx.TrainingMode.TRAINING,
                          do_constant_folding=False, input_names=["x"], output_names=["y"])
    step = compiled(model)
    for workers in 0, 1:
        lines = train(step, a.steps, workers)[1:]
        m = lambda key: statistics.median(line[key] for line in lines)
        print(f"ResNet-18, 64 pictures of 256 x 256, {workers} threads that load: step {m('ms'):.0f} ms, waits {m('data_ms'):.2f} ms for its batch")


def memory():
    model = os.path.join(a.folder, "small.tcir")
    with open(model, "w") as f:
        f.write("state @w : f32[3072,10] param\nfunc @main(%x: f32[N,3,32,32]) -> (\"y\": f32[N,10]) {\n  %w = state_read() {name = \"w\"}\n  %r = reshape(%x) {shape = [N, 3072]}\n"
                "  %y = matmul(%r, %w)\n  return(%y)\n}\n")
    seen = {}

    def watch(pid, step):
        if step in (a.long // 10, a.long - 1):
            with open(f"/proc/{pid}/status") as f:
                seen[step] = int(next(line for line in f if line.startswith("VmRSS")).split()[1]) / 1024

    train(compiled(model), a.long, 1, watch)
    print("; ".join(f"step {step}: {mb:.1f} MB resident" for step, mb in seen.items()))


draw()
for what in a.what:
    {"resnet": resnet, "memory": memory}[what]()
