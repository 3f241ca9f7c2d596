#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Memory of a rank where a GPT is divided: tensor_memory.py BUILD [--gpus] [--processes N] [T,P,D[,s] ...]

Compiles a GPT (4 layers of width 256, 8 heads, 4,096 words, sequences of 128) for T parts of tensors, P stages, D copies, s: with sequence parallel norms;
runs two steps of 8 samples a copy on T*P*D processes of this machine (engine `sim`), and prints of the rank that has most, in MB: parameters, gradients and
the optimizer's state (of the artifact), the plan's buffers besides (activations; of one stage gradients, too; of several what lies in a stage's arena and in
slots of microbatches), and the measured peak of the process's anonymous memory (tccc-train --memory-report); "-" where there are more than N processes (8), which
are compiled and not run. Without layouts: T, P, D in 1, 2, 4, all 27.

--gpus: on simulated GPUs in modelled time, as many as there are ranks (64 at most), copies with --zero=3, what the rank that has most takes of its GPU:
parameters, the optimizer's state, gradients that microbatches add up, arena and slots (activations, with one stage gradients too), the peak of all.
--check: with --gpus and 1,1,1 first, exit status 1 where parameters and the optimizer's state do not fall with T, P and D (not quite by these: what is whole
everywhere, stages and owners that have more than others), or the peak does not.
Figures of doc/distributed.md.
"""
import json, math, os, re, struct, subprocess, sys, tempfile

LAYERS, WIDTH, HEADS, WORDS, LENGTH, BATCH = 4, 256, 8, 4096, 128, 8
build = os.path.abspath(sys.argv[1])
tests = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
arguments = sys.argv[2:]
gpus, check = "--gpus" in arguments, "--check" in arguments
arguments = [a for a in arguments if a not in ("--gpus", "--check")]
processes = 64 if gpus else 8
if arguments[:1] == ["--processes"]:
    processes = int(arguments[1])
    arguments = arguments[2:]
layouts = arguments or [f"{t},{p},{d}" for t in (1, 2, 4) for p in (1, 2, 4) for d in (1, 2, 4)]


def network():
    states, body = [], []
    count = [0]

    def state(name, *dims):
        states.append(f"state @{name} : f32[{','.join(map(str, dims))}] param")
        body.append(f'%{name} = state_read() {{name = "{name}"}}')
        return "%" + name

    def op(name, *values, attrs=""):
        count[0] += 1
        body.append(f"%v{count[0]} = {name}({', '.join(values)}) {attrs}")
        return f"%v{count[0]}"

    def number(x):
        return op("constant", attrs=f"{{value = f32[] splat({x})}}")

    def mean(x):
        return op("mul", op("reduce_sum", x, attrs="{axes = [2], keepdims = 1}"), number(1 / WIDTH))

    def norm(x, name):
        d = op("sub", x, mean(x))
        y = op("mul", d, op("rsqrt", op("add", mean(op("square", d)), number(1e-5))))
        return op("add", op("mul", y, state(name + "g", WIDTH)), state(name + "b", WIDTH))

    def product(x, name, n, m):
        return op("add", op("matmul", x, state(name + "w", n, m)), state(name + "b", m))

    def heads(x):
        y = op("reshape", x, attrs=f"{{shape = [N, {LENGTH}, {HEADS}, {WIDTH // HEADS}]}}")
        return op("transpose", y, attrs="{perm = [0, 2, 1, 3]}")

    x = op("add", op("gather", state("words", WORDS, WIDTH), "%x", attrs="{axis = 0}"), state("place", LENGTH, WIDTH))
    for i in range(LAYERS):
        y = norm(x, f"n{i}")
        q, k, v = (heads(product(y, f"{c}{i}", WIDTH, WIDTH)) for c in "qkv")
        scores = op("matmul", q, k, attrs="{trans_b = 1}")
        scores = op("sub", scores, op("reduce_max", scores, attrs="{axes = [3], keepdims = 1}"))
        e = op("exp", scores)
        a = op("matmul", op("div", e, op("reduce_sum", e, attrs="{axes = [3], keepdims = 1}")), v)
        a = op("reshape", op("transpose", a, attrs="{perm = [0, 2, 1, 3]}"), attrs=f"{{shape = [N, {LENGTH}, {WIDTH}]}}")
        x = op("add", x, product(a, f"o{i}", WIDTH, WIDTH))
        y = op("gelu", product(norm(x, f"m{i}"), f"u{i}", WIDTH, 4 * WIDTH))
        x = op("add", x, product(y, f"d{i}", 4 * WIDTH, WIDTH))
    y = op("matmul", norm(x, "last"), state("head", WIDTH, WORDS))
    lines = "\n  ".join(body)
    return "\n".join(states) + f'\nfunc @main(%x: i64[N,{LENGTH}]) -> ("y": f32[N,{LENGTH},{WORDS}]) {{\n  {lines}\n  return({y})\n}}\n'


def array(path, rows, top):
    head = "{'descr': '<i8', 'fortran_order': False, 'shape': (%d, %d), }" % (rows, LENGTH)
    head += " " * (63 - (10 + len(head)) % 64) + "\n"
    with open(path, "wb") as f:
        f.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode())
        f.write(struct.pack("<%dq" % (rows * LENGTH), *(i * 7919 % top for i in range(rows * LENGTH))))


def run(ranks, batch, *options, **more):
    env = {**os.environ, "TCCC_COMM": "sim", "TCCC_LIBDIR": build, "LAUNCH_LIMIT": "300", "TCCC_COMM_TIMEOUT": "300", **more}
    ran = subprocess.run([f"{tests}/dist/launch.sh", str(ranks), f"{build}/tccc-train", "step.so", "--json", "--threads=1", "--memory-report", "--steps=2",
                          "--data", "x=x.npy", "--data", "target=target.npy", f"--batch-size={batch}", *options], capture_output=True, text=True, env=env)
    rows = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith('{"rank"')]
    if ran.returncode or not rows:
        sys.exit(ran.stderr)
    return rows


def measure_gpus(layout):
    t, p, d, *s = layout.split(",")
    t, p, d = int(t), int(p), int(d)
    options = [f"--dim=N={BATCH}", "--target=cuda:sm_90a"] + [f"--tensor-parallel={t}"] * (t > 1) + ["--sequence-parallel"] * bool(s)
    options += ["--data-parallel", "--zero=3"] * (d > 1) + ([f"--partitions={p}", f"--microbatches={p}"] if p > 1 else [])
    subprocess.run([f"{build}/tccc", "--train", "--loss=cross_entropy", "--optimizer=adamw", *options, "gpt.tcir", "-o", "step.so"], capture_output=True, check=True)
    rows = run(t * p * d, BATCH * d, "--device=sim", "--sim=time", TCCC_COMM="sim+nccl", TCCC_SIM_DEVICES=str(t * p * d), TCCC_SIM_THREADS="1",
               LD_LIBRARY_PATH=build)
    most = [max(r[k] for r in rows) for k in ("param_bytes", "optimizer_bytes", "gradient_bytes", "arena_bytes", "device_peak_bytes")]
    print(f"| {t} | {p} | {d} | {'yes' if s else 'no'} | " + " | ".join(f"{n / 1e6:.1f}" for n in most) + " |", flush=True)
    return (t, p, d), most


def measure(layout):
    t, p, d, *s = layout.split(",")
    t, p, d = int(t), int(p), int(d)
    options = [f"--dim=N={BATCH}"] + [f"--tensor-parallel={t}"] * (t > 1) + ["--sequence-parallel"] * bool(s) + ["--data-parallel"] * (d > 1)
    options += [f"--partitions={p}", f"--microbatches={p}", "--partition-report"] if p > 1 else []
    compiled = subprocess.run([f"{build}/tccc", "--train", "--loss=cross_entropy", "--optimizer=adamw", *options, "--dump-ir=before:legalise", "--report", "gpt.tcir",
                               "-o", "step.so"], capture_output=True, text=True, check=True)
    text = compiled.stdout + compiled.stderr
    kinds = [{}, {}, {}]
    for line in text.splitlines():
        m = re.match(r"state @\S+ : \w+\[([\d,]*)\] (param|optimizer|gradient)(.*)", line)
        if m:
            n = 4
            for x in filter(None, m[1].split(",")):
                n *= int(x)
            stage = re.search(r"stage (\d+)", m[3])
            kind = kinds[["param", "gradient", "optimizer"].index(m[2])]
            for r in [int(stage[1])] if stage else range(p):
                kind[r] = kind.get(r, 0) + n
    most = [max(k.values()) / 1e6 for k in kinds]
    found = [int(m[1]) + int(m[2]) for m in re.finditer(r"at its peak: (\d+) for tensors, \d+ for state, (\d+) for microbatches", text)]
    found = found or [int(m[1]) for m in re.finditer(r"memory of 'step': (\d+) bytes", text)]
    row = f"| {t} | {p} | {d} | {'yes' if s else 'no'} | {most[0]:.1f} | {most[1]:.1f} | {most[2]:.1f} | {max(found) / 1e6:.1f} |"
    if t * p * d > processes:
        print(f"{row} - |", flush=True)
        return
    rows = run(t * p * d, BATCH * d)
    print(f"{row} {max(r['peak_bytes'] for r in rows) / 1e6:.1f} |", flush=True)


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    with open("gpt.tcir", "w") as f:
        f.write(network())
    array("x.npy", 64, WORDS)
    array("target.npy", 64, WORDS)
    if not gpus:
        print("| T | P | D | sequence | parameters | gradients | optimizer | plan's buffers | measured peak |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
        for layout in layouts:
            measure(layout)
        sys.exit()
    print("| T | P | D | sequence | parameters | optimizer | gradients | arena | device's peak |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    found = [measure_gpus(layout) for layout in layouts if math.prod(map(int, layout.split(",")[:3])) <= processes]
    for (t, p, d), most in found if check else []:
        share = t**-0.85 * (p * d) ** -0.65
        if any(most[k] > share * found[0][1][k] for k in (0, 1)) or most[4] > found[0][1][4] or (t > 1 and most[3] > t**-0.5 * found[0][1][3]):
            sys.exit(f"T={t}, P={p}, D={d}: {most} of {found[0][1]}")
