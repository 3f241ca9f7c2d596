# SPDX-License-Identifier: Apache-2.0
"""
Networks of tccc-train --net beside PyTorch's and torchvision's: the same names and shapes of parameters, first values with the same moments, and the
losses of 50 steps (of networks of pictures fewer unless TCCC_TEST_FULL is set) from the same first values.

    nets.py --data DIR                   writes the data of all cases
    nets.py --check DIR                  (needs onnx) DIR/CASE/net.onnx, DIR/CASE.log beside tests/train/nets.txt
    nets.py --torch DIR >tests/train/nets.txt    (needs torch, torchvision) what the check compares with, of the same files

A line of nets.txt: case, parameters, deviations of first values, losses of the steps in float64 (not of the networks of pictures) and float32.
"""
import json
import os
import sys
import zlib

import numpy as np

STEPS = 50
FEWER = {"resnet50": 6, "mobilenet": 12, "resnet18": 12}  # of the slow ones, but in the whole check
# In large steps the losses of networks with batch normalisation mean nothing: PyTorch's own in float32 and float64 part by a factor of 30 a step of ResNet-18 at a
# rate of 2e-4. At these they stay together (8e-6 over 50 steps there), and float64, which takes minutes, is left out.
CASES = {
    "mlp": ("mlp:24,16", "numbers", "sgd:lr=0.1,momentum=0.9"),
    "resnet18": ("resnet18", "pictures", "sgd:lr=2e-6"),
    "resnet50": ("resnet50", "pictures", "sgd:lr=1e-9"),
    "mobilenet": ("mobilenet,dropout=0", "pictures", "sgd:lr=1e-7"),
    "lstm": ("lstm:2x24", "text", "sgd:lr=0.5"),
    "lstm-rows": ("lstm:16", "rows", "sgd:lr=0.2"),
    "transformer": ("transformer:2x32,heads=4,dropout=0", "next", "sgd:lr=0.1"),
    "transformer-rows": ("transformer:1x16,heads=2,dropout=0", "rows", "sgd:lr=0.1"),
}


def data(kind):
    r = np.random.default_rng(zlib.crc32(kind.encode()))
    if kind == "numbers":
        x = r.standard_normal((64, 10)).astype("f")
        return x, (x[:, 0] > 0).astype("i8") + (x[:, 1] > 0)
    if kind == "pictures":
        y = np.arange(16) % 3
        return (r.standard_normal((16, 3, 64, 64)) + y[:, None, None, None]).astype("f"), y
    if kind == "rows":
        x = r.standard_normal((32, 9, 5)).astype("f")
        return x, (x.mean((1, 2)) > 0).astype("i8")
    x = r.integers(0, 11, (32, 13))
    return (x, (x[:, -1] > 4).astype("i8")) if kind == "text" else (x[:, :-1], (x[:, 1:] + x[:, :-1]) % 11)


def steps(case):
    return STEPS if os.environ.get("TCCC_TEST_FULL") else FEWER.get(case, STEPS)


def batches(kind, count):
    x, y = data(kind)
    size = 8
    return [(x[i : i + size], y[i : i + size]) for k in range(count) for i in [(k * size) % len(x)]]


def initialisers(path):
    import onnx
    from onnx import numpy_helper

    return {t.name: numpy_helper.to_array(t) for t in onnx.load(path).graph.initializer if t.data_type == 1}


def named_once(path):
    import onnx

    names = [n.name for n in onnx.load(path).graph.node]
    return len(set(names)) == len(names)


def moments(values):
    """Of all weights but those of one value alone, each by its own deviation: mean and deviation."""
    drawn = [v.ravel() for v in values if v.size > 200 and v.std() > 0]
    return float(np.mean([abs(v.mean()) / v.std() * v.size**0.5 for v in drawn])), [float(v.std()) for v in drawn]


def learned(names):
    return [n for n in names if "running_" not in n and "num_batches" not in n]


def write(folder):
    for case, (net, kind, optimizer) in CASES.items():
        x, y = data(kind)
        np.savez(f"{folder}/{case}.npz", input=x, target=y)
        print(case, net, optimizer, steps(case))


def module(case, shapes):
    import torch
    import torchvision
    from torch import nn

    class Lstm(nn.Module):
        def __init__(self, tokens, inputs, width, layers, outputs):
            super().__init__()
            if tokens:
                self.embed = nn.Embedding(tokens, width)
            self.lstm = nn.LSTM(inputs, width, layers, batch_first=True)
            self.fc = nn.Linear(width, outputs)

        def forward(self, x):
            return self.fc(self.lstm(self.embed(x) if hasattr(self, "embed") else x)[0][:, -1])

    class Transformer(nn.Module):
        def __init__(self, tokens, inputs, width, layers, heads, time, outputs, each):
            super().__init__()
            self.embed = nn.Embedding(tokens, width) if tokens else nn.Linear(inputs, width)
            self.position = nn.Parameter(0.02 * torch.randn(time, width))
            layer = nn.TransformerEncoderLayer(width, heads, 4 * width, 0, "gelu", norm_first=True, batch_first=True)
            encoder = nn.TransformerEncoder(layer, layers, nn.LayerNorm(width), enable_nested_tensor=False)
            for l in encoder.layers:  # copies of one: drawn again
                l.__init__(width, heads, 4 * width, 0, "gelu", norm_first=True, batch_first=True)
            self.layers, self.norm = encoder.layers, encoder.norm
            self.fc = nn.Linear(width, outputs)
            self.each = each

        def forward(self, x):
            x = self.embed(x) + self.position
            mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1]) if self.each else None
            for l in self.layers:
                x = l(x, mask)
            x = self.norm(x)
            return self.fc(x if self.each else x.mean(1))

    outputs = shapes["fc.weight" if "fc.weight" in shapes else "classifier.1.weight" if "classifier.1.weight" in shapes else "4.weight"][0]
    if case == "mlp":
        return nn.Sequential(nn.Linear(10, 24), nn.ReLU(), nn.Linear(24, 16), nn.ReLU(), nn.Linear(16, outputs))
    if case.startswith("resnet"):
        return getattr(torchvision.models, case)(num_classes=outputs)
    if case == "mobilenet":
        return torchvision.models.mobilenet_v2(num_classes=outputs, dropout=0)
    if case == "lstm":
        return Lstm(11, 24, 24, 2, outputs)
    if case == "lstm-rows":
        return Lstm(0, 5, 16, 1, outputs)
    return Transformer(11, 0, 32, 2, 4, 12, outputs, True) if case == "transformer" else Transformer(0, 5, 16, 1, 2, 9, outputs, False)


def train(m, case, dtype):
    """Losses of the steps."""
    import torch

    net, kind, optimizer = CASES[case]
    m = m.to(dtype)
    settings = dict(s.split("=") for s in optimizer.split(":")[1].split(","))
    opt = torch.optim.SGD(m.parameters(), **{k: float(v) for k, v in settings.items()})
    losses = []
    for x, y in batches(kind, STEPS):
        x = torch.from_numpy(x)
        out = m(x.to(dtype) if x.is_floating_point() else x)
        loss = torch.nn.functional.cross_entropy(out.flatten(0, -2), torch.from_numpy(y).flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()
        losses.append(loss.item())
    return losses


def torch_case(case, folder):
    import copy

    import torch

    torch.manual_seed(0)
    torch.set_num_threads(1)
    first = initialisers(f"{folder}/{case}/net.onnx")
    m = module(case, {n: v.shape for n, v in first.items()})
    own = {n: v.numpy().copy() for n, v in m.state_dict().items()}
    assert set(own) - set(first) <= {n for n in own if "num_batches" in n} and set(first) <= set(own), set(first) ^ set(own)
    names = learned(first)
    _, deviations = moments([own[n] for n in sorted(names)])
    m.load_state_dict({n: torch.from_numpy(first[n].copy()) for n in first}, strict=False)
    exact = [] if case in FEWER else train(copy.deepcopy(m), case, torch.float64)
    losses = train(m, case, torch.float32)
    return {"parameters": sum(p.numel() for p in m.parameters()), "deviations": deviations, "exact": exact, "losses": losses}


def check(folder):
    bad = 0
    stored = {w[0]: json.loads(w[1]) for w in (line.split(" ", 1) for line in open(os.path.dirname(os.path.abspath(__file__)) + "/nets.txt"))}
    for case in sys.argv[3:] or CASES:
        want, first = stored[case], initialisers(f"{folder}/{case}/net.onnx")
        names = learned(first)
        size = sum(first[n].size for n in names)
        mean, deviations = moments([first[n] for n in sorted(names)])
        got = [json.loads(line)["loss"] for line in open(f"{folder}/{case}.log") if line.startswith('{"step"')]
        # what rounding makes of a step grows in those after it: no more than a few times as much as in PyTorch itself
        worst = theirs = share = 0
        for a, b, c in zip(got, want["losses"], want["exact"] or want["losses"]):
            worst, theirs = max(worst, abs(a - c)), max(theirs, abs(b - c))
            share = max(share, worst / ((1e-5 if want["exact"] else 5e-5) * abs(c) + 1e-6 + 4 * theirs))
        # a sample's deviation is sqrt(1 / 2n) off: 200 elements and more; of means, in units of theirs, the mean is 0.8
        apart = max(abs(a / b - 1) for a, b in zip(deviations, want["deviations"]))
        ok = (
            named_once(f"{folder}/{case}/net.onnx")
            and len(got) == steps(case) <= len(want["losses"])
            and share < 1
            and size == want["parameters"]
            and len(deviations) == len(want["deviations"])
            and apart < 0.25
            and mean < 2
        )
        bad += not ok
        whose = "float64's" if want["exact"] else "PyTorch's"
        print(f"{'ok' if ok else 'NOT OK'} {case}: {size} parameters ({want['parameters']}), losses {worst:.1e} from {whose} (PyTorch's own {theirs:.1e}), deviations {apart:.2f}, means {mean:.2f}")
    return bad


def main():
    command, folder = sys.argv[1:3]
    if command == "--data":
        write(folder)
    elif command == "--check":
        sys.exit(check(folder) > 0)
    else:
        for case in sys.argv[3:] or CASES:
            print(case, json.dumps(torch_case(case, folder)), flush=True)


main()
