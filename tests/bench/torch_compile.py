#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""torch.compile with this backend beside Inductor's and eager PyTorch, on the modules of tests/pt2/modules.py: latency of inference and of a training step.

usage: PYTHONPATH=BUILD/python torch_compile.py TOP [PATTERN,...] [--rounds N] [--threads N]    medians of interleaved rounds in us, then geometric means of the ratios (above 1: tccc is faster)

The module one_element, which is in no mean, shows what a call costs. Where a run must be short, each PATTERN is run by itself, after a run with --rounds 1 that fills Inductor's
cache; --summary FILE... gives the means of what several runs have printed.
"""
import fnmatch
import math
import re
import statistics
import sys
import time
import warnings

import torch

top = sys.argv[1] if len(sys.argv) > 1 else sys.exit(__doc__)
patterns = sys.argv[2].split(",") if len(sys.argv) > 2 and not sys.argv[2].startswith("--") else ["*"]
rounds = int(sys.argv[sys.argv.index("--rounds") + 1]) if "--rounds" in sys.argv else 7
files = sys.argv[sys.argv.index("--summary") + 1:] if "--summary" in sys.argv else []
torch.set_num_threads(int(sys.argv[sys.argv.index("--threads") + 1]) if "--threads" in sys.argv else 1)     # more of them measure other programs where cores are shared
sys.path.insert(0, top + "/tests/pt2")
sys.argv[1:] = []
import modules  # noqa: E402

warnings.simplefilter("ignore")
ENGINES = ("tccc", "inductor", "eager")


def leaves(out):
    return [t for t in modules.flat(out) if isinstance(t, torch.Tensor)]


def callables(make, inputs, train):
    made = {}
    for engine in ENGINES:
        torch.manual_seed(1)
        net = make()
        net.train(train)
        torch.manual_seed(2)
        x = [modules.values(s) for s in inputs]
        call = net if engine == "eager" else torch.compile(net, backend=engine, dynamic=False)

        def infer(call=call, x=x):
            with torch.no_grad():
                return call(*x)

        def step(call=call, x=x, net=net):
            net.zero_grad()
            sum(t.float().sum() for t in leaves(call(*x)) if t.requires_grad).backward()
        made[engine] = step if train else infer
        made[engine]()
        made[engine]()
    return made


def measure(made):
    times = {e: [] for e in made}
    for _ in range(rounds):
        for engine, call in made.items():
            n, begin = 0, time.perf_counter()
            while time.perf_counter() - begin < 0.05:
                call()
                n += 1
            times[engine].append((time.perf_counter() - begin) / n * 1e6)
    return {e: statistics.median(t) for e, t in times.items()}


class OneElement(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(1))

    def forward(self, x):
        return x * self.weight


def summary(lines):
    ratios = {}
    for line in lines:
        found = re.match(r"(\w+) (inference|training): (tccc \d.*)", line)
        if found and found[1] != "one_element":
            us = {e: float(t) for e, t in (part.split() for part in found[3].split(", "))}
            for other in ENGINES[1:]:
                ratios.setdefault((found[2], other), []).append((us[other] / us["tccc"], found[1]))
    for (what, other), r in sorted(ratios.items()):
        print(f"{what}: {other} / tccc {math.exp(sum(math.log(x) for x, _ in r) / len(r)):.2f} over {len(r)}, worst {min(r)[0]:.2f} ({min(r)[1]})")


def main():
    if files:
        return summary(line for f in files for line in open(f))
    lines = []
    for name, (make, inputs, _, _, trains) in {"one_element": (OneElement, [(1,)], None, (), True), **modules.MODULES}.items():
        if not any(fnmatch.fnmatch(name, p) for p in patterns):
            continue
        for train in (False, True) if trains else (False,):
            torch._dynamo.reset()
            try:
                us = measure(callables(make, inputs, train))
            except Exception as e:
                print(f"{name} {'training' if train else 'inference'}: {type(e).__name__}: {str(e).splitlines()[0] if str(e) else ''}", flush=True)
                continue
            lines.append(f"{name} {'training' if train else 'inference'}: " + ", ".join(f"{e} {t:.1f}" for e, t in us.items()))
            print(lines[-1], flush=True)
    summary(lines)


if __name__ == "__main__":
    main()
