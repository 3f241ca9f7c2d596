#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Guards of exports: programs with one guard each, run at sizes that hold it and that break it; Python says which.

usage: guards.py MODEL.pt2 DIR [SEED]     MODEL: a program of one matrix with two open sizes
"""
import json, math, os, random, subprocess, sys, types, zipfile
import numpy as np

source, folder = sys.argv[1:3]
rng = random.Random(int(sys.argv[3]) if len(sys.argv) > 3 else 1)
with zipfile.ZipFile(source) as archive:
    ENTRIES = {e.filename: archive.read(e) for e in archive.infolist()}
MODEL = next(n for n in ENTRIES if n.endswith("models/model.json"))
SIZES = [(3, 5), (4, 6), (2, 9), (7, 3), (12, 4)]
A, B = ("L['inputs'][0].size()[%d]" % k for k in range(2))
# As PyTorch writes them.
GUARDS = [f"math.trunc(0.3*torch.sym_float({B})) == 1", f"math.trunc({A} / 3) == 1", f"({A} / {B}) > 0.5", f"torch.sym_float({A}) ** 0.5 > 1.5",
          f"math.ceil(0.69999999999999996*torch.sym_float({A})) > 2", f"torch.sym_float(math.floor(((torch.sym_float({A})) / 1.5))) <= 2.0", f"({A} % 2) == 0",
          f"not ({B} > 3 and {A} > 5)", f"{B} > 33 or {A} < 5", f"(({A} // 2) % (({B}*{A}) // 2)) != 0", f"(-1)*(((-1)*{B}) // 4) != 1",
          f"torch.sym_max({A}, {B}, 4) == 2*torch.sym_min({A}, {B})", f"torch._sym_sqrt({A}*{B}) >= 4.5", f"2**{A} < 100", f"{A}*{A} + {B}*(-1) >= -1 + max(1, {A})",
          f"round(0.69999999999999996*torch.sym_float({A})) > 2", f"round({B} / 2) == 2", f"({A} << 1) > ({B} | 1)", f"(({A} / {B}) > 0.5) | ({A} == 2)", "L['flat_args'][0].size()[1] < 6", f"-2.5e0*torch.sym_float({A}) < -10.0",
          f"({A} > 3) & ({B} < 6)", f"not (not {A} == {B})", f"{A} != 4 and (({A} / {B}) < 1.5 or {B} > 8)"]
# These say nothing of sizes, or nothing that can be read: they refuse no run.
OTHERS = {"L['inputs'][0]._base.size()[1] == 99": "", "L['inputs'][0].stride()[0] == 99": "", "L['inputs'][0].size()[7] == 99": "can't be read",
          "math.gamma(L['inputs'][0].size()[0]) == 99": "can't be read", "L['x'].size()[0] == 99": "can't be read", "99": "can't be read", "": "can't be read",
          f"{A} == ": "can't be read", f"{A} // -3 == 99": "can't be read", f"{A} == 99)": "can't be read", "(" * 100 + A: "can't be read", f"{A} % 0 == 99": "can't be read",
          f"{A} == 99999999999999999999": "can't be read", f"({A} > 3) + 1 == 99": "can't be read", f"({A} / 2) & 1 == 0": "can't be read"}


def integer(depth):
    if not depth:
        return rng.choice([A, A, B, B, str(rng.randrange(1, 9))])
    a, b, c = integer(depth - 1), integer(depth - 1), rng.randrange(2, 5)
    return rng.choice([f"({a} + {b})", f"{c}*({a})", f"(({a}) // {c})", f"(({a}) % {c})", f"torch.sym_max({a}, {b})", f"torch.sym_min({a}, {b})", f"({a} + (-1)*({b}))",
                       f"math.{rng.choice(['trunc', 'floor', 'ceil'])}({real(depth - 1)})"])


def real(depth):
    a = integer(depth)
    return rng.choice([f"torch.sym_float({a})*{rng.choice([0.3, 0.7, 1.1, -0.9])}", f"(({a}) / {rng.randrange(2, 8)})"])


def truth(depth):
    if depth:
        a, b = truth(depth - 1), truth(depth - 1)
        return rng.choice([f"({a} and {b})", f"({a} or {b})", f"not ({a})"])
    relation = rng.choice(["==", "!=", "<", "<=", ">", ">="])
    return f"{integer(rng.randrange(3))} {relation} {integer(rng.randrange(2))}" if rng.random() < 0.7 else f"{real(1)} {relation} {real(0)}"


class Input:
    def __init__(self, shape):
        self.shape = shape

    def size(self):
        return self.shape


def holds(guard, shape):
    functions = types.SimpleNamespace(sym_float=float, sym_max=max, sym_min=min, _sym_sqrt=math.sqrt)
    return bool(eval(guard, {"L": {"inputs": [Input(shape)], "flat_args": [Input(shape)]}, "torch": functions, "math": math}))


def write(guard):
    path = os.path.join(folder, "model.pt2")
    root = json.loads(ENTRIES[MODEL])
    root["guards_code"] = [guard]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, data in {**ENTRIES, MODEL: json.dumps(root).encode()}.items():
            archive.writestr(name, data)
    return path


def run(model, *arguments):
    done = subprocess.run(["tccc-run", model, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=120)
    return done.returncode, done.stdout + done.stderr


for shape in SIZES:
    np.save(os.path.join(folder, "%dx%d.npy" % shape), np.ones(shape, "f4"))
WAYS = [["--interpret"], ["-O0"], ["-O3"], ["--target=cuda:sm_80", "--device=sim"], ["--target=neuron:trn1", "--device=sim"]]
bad = refused = runs = 0
for number, guard in enumerate(GUARDS + [truth(rng.randrange(3)) for _ in range(16)]):
    model = write(guard)
    # Every guard by the interpreter, each size; by the other ways one that holds it and one that doesn't, in turn.
    for index, shape in enumerate(SIZES):
        way = WAYS[0] if index != number % len(SIZES) else WAYS[number % len(WAYS)]
        rc, text = run(model, *way, "--input", "inputs_0=" + os.path.join(folder, "%dx%d.npy" % shape))
        right = rc == 0 if holds(guard, shape) else rc != 0 and "guard of the export: " + guard[:100] in text
        runs, refused = runs + 1, refused + (rc != 0)
        if not right or "can't be read" in text:
            bad += 1
            print(f"{guard} at {shape} by {way}: {holds(guard, shape)}, got {rc}: {text}")
for guard, told in OTHERS.items():
    rc, text = run(write(guard), "--interpret", "--input", "inputs_0=" + os.path.join(folder, "3x5.npy"))
    if rc or (told and told not in text) or (not told and "guard" in text):
        bad += 1
        print(f"{guard!r}: expected {told!r}, got {rc}: {text}")
print(f"{runs} runs with guards, {refused} of them refused, beside Python")
sys.exit(bad > 0)
