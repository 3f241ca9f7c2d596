#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""torch.compile with this backend beside Inductor's and eager PyTorch, on the modules of tests/pt2/modules.py: latency of inference and of a training step.

usage: PYTHONPATH=BUILD/python torch_compile.py TOP [PATTERN,...] [--rounds N] [--threads N]    medians of interleaved rounds in us, then geometric means of the ratios (above 1: tccc is faster)
"""
import fnmatch
import math
import statistics
import sys
import time
import warnings

import torch

top = sys.argv[1]
patterns = sys.argv[2].split(",") if len(sys.argv) > 2 and not sys.argv[2].startswith("--") else ["*"]
rounds = int(sys.argv[sys.argv.index("--rounds") + 1]) if "--rounds" in sys.argv else 7
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


def main():
    ratios = {}
    for name, (make, inputs, _, _, trains) in modules.MODULES.items():
        if not any(fnmatch.fnmatch(name, p) for p in patterns):
            continue
        for train in (False, True) if trains else (False,):
            torch._dynamo.reset()
            try:
                us = measure(callables(make, inputs, train))
            except Exception as e:
                print(f"{name} {'training' if train else 'inference'}: {type(e).__name__}: {str(e).splitlines()[0] if str(e) else ''}", flush=True)
                continue
            print(f"{name} {'training' if train else 'inference'}: " + ", ".join(f"{e} {t:.0f}" for e, t in us.items()), flush=True)
            for other in ENGINES[1:]:
                ratios.setdefault((train, other), []).append(us[other] / us["tccc"])
    for (train, other), r in sorted(ratios.items()):
        print(f"{'training' if train else 'inference'}: {other} / tccc {math.exp(sum(map(math.log, r)) / len(r)):.2f} over {len(r)}")


if __name__ == "__main__":
    main()
