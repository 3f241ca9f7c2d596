# SPDX-License-Identifier: Apache-2.0
"""What every tool does where nothing can be written (tests/full.tap). full.py SOURCES FAULT.SO, in an empty folder. Prints a line of TAP a case, the last the count."""
import os
import resource
import shutil
import signal
import subprocess
import sys

top, fault = sys.argv[1:3]
full = bool(os.environ.get("TCCC_TEST_FULL"))
digits = top + "/samples/digits"
here = os.getcwd()
cases = 0


def run(argv, limit=None, out=None, env=None):
    """(status, what it said on standard error); its own files in w."""
    def begin():
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)        # as a shell's children have it; Python's ignore it
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        if out == "closed":
            os.close(1)

    to = open("/dev/full", "wb") if out == "full" else None if out == "closed" else subprocess.PIPE
    p = subprocess.run(argv, cwd="w", preexec_fn=begin, stdout=to, stderr=subprocess.PIPE, env=dict(os.environ, **(env or {})), timeout=120)
    return p.returncode, p.stderr.decode(errors="replace")


def result(name, bad):
    global cases
    cases += 1
    for line in bad[:4]:
        print("#", line.replace("\n", " ")[:400])
    print("not ok" if bad else "ok", cases, "-", name, flush=True)


def fresh():
    shutil.rmtree("w", ignore_errors=True)
    os.mkdir("w")


def files():
    return {os.path.relpath(os.path.join(d, f), "w"): os.path.getsize(os.path.join(d, f)) for d, _, names in os.walk("w") for f in names}


def make(*argv):
    p = subprocess.run(argv, capture_output=True, text=True)
    if p.returncode:
        print("# cannot prepare:", argv, p.stderr)
        sys.exit(99)


add = here + "/add.tcir"
with open(add, "w") as f:
    f.write("state @s: f32[64] buffer\nfunc @main(%x: f32[64]) -> (\"a\": f32[64]) {\n  %s = state_read() {name = \"s\"} : f32[64]\n  %a = add(%x, %s) : f32[64]\n  return(%a)\n}\n")
with open("prog.neuron", "w") as f:
    f.write(open(top + "/tests/fuzz/neuron/products.neuron").read())
make("tccc", "-q", add, "-o", "add.so")
make("tccc", "-q", "--train", "--loss=cross_entropy", "--optimizer=sgd:lr=1e-3", digits + "/digits.onnx", "-o", "step.so")
data = ["--data", f"picture={digits}/pictures.idx3-ubyte,limit=20", "--data", f"target={digits}/labels.idx1-ubyte,limit=20"]
train = ["tccc-train", here + "/step.so", *data, "--batch-size", "10", "--steps", "2", "--threads", "1", "--workers", "0"]
make(*train, "--quiet", "--checkpoint", "c")
last, so = here + "/c/last.safetensors", here + "/add.so"

# What writes a file: the command, and the file or folder that it makes. A second file is made at the end, or not at all.
writers = [
    ["tccc", "-q", add, "-o", "o.so"],
    ["tccc", "-q", add, "-o", "o.a"],
    ["tccc", "-q", "-c", add, "-o", "o.o"],
    ["tccc", "-q", "-c", add, "-o", "o.o", "-H", "o.h"],
    ["tccc", "-q", "-c", add, "-o", "o.o", "-MD", "-MF", "o.d"],
    ["tccc", "-q", "-c", add, "-o", "o.o", "--html=o.html"],
    ["tccc-run", so, "--random", "--output-dir", "."],
    ["tccc-run", so, "--random", "--profile=o.json"],
    ["tccc-run", so, "--random", "--html=o.html"],
    ["tccc-run", here + "/step.so", "--entry", "predict", "--load", last, *data[:2], "-o", "o.npz"],
    ["tccc-bench", so, "--runs", "1", "--html=o.html"],
    [*train, "--quiet", "--checkpoint", "."],
    [*train, "--quiet", "--trace=o.json"],
    [*train, "--quiet", "--html=o.html"],
    [*train, "--quiet", "--log=o.json"],
    ["tccc-ckpt", "convert", last, "-o", "o.npz"],
    ["tccc-ckpt", "convert", last, "-o", "o.safetensors"],
    ["tccc-ckpt", "average", last, last, "-o", "o.safetensors"],
    ["tccc-ckpt", "export", last, digits + "/digits.onnx", "-o", "o.onnx"],
    ["tccc-neuron", "asm", here + "/prog.neuron", "-o", "o.nbin"],
    ["tccc-neuron", "disasm", here + "/prog.neuron", "-o", "o.neuron"],
    ["tccc-ptxsim", top + "/tests/fuzz/ptx/scale.ptx", "--launch", "scale:1:32", "--arg", "ones:128,out=o.bin", "--arg", "2", "--arg", "32"],
]
grows = {"--log=o.json"}        # lines, one after the other: what was written stays


def named(argv):
    return " ".join(a for a in argv if a not in data).replace(here, "").replace(top, "")


for argv in writers:
    bad = []
    fresh()
    status, said = run(argv)
    made = files()
    if status or not made:
        result(named(argv), [f"status {status}: {said}", str(made)])
        continue
    least = min(made.values())
    sizes = {0, least // 2, least * 4 // 5} if not full else {*range(0, least * 4 // 5, max(1, least // 40))}
    for limit in sorted(sizes):
        for old in (False, True):
            fresh()
            if old:
                for name in made:
                    os.makedirs(os.path.dirname(os.path.join("w", name)) or "w", exist_ok=True)
                    open(os.path.join("w", name), "w").write("")
            extra = ["--overwrite"] if "--checkpoint" in argv else []
            status, said = run(argv + extra, limit=limit)
            left = files()
            if status != 3 or "error: " not in said:
                bad.append(f"limit {limit} of {least}: status {status}: {said}")
            if not grows & set(argv) and left != ({n: 0 for n in made} if old else {}):
                bad.append(f"limit {limit} of {least}{', old files' if old else ''}: left {left}: {said}")
    result("limits of a file's size: " + named(argv), bad)

# What writes to standard output.
printers = [
    *([t, "--help"] for t in ("tccc", "tccc-opt", "tccc-run", "tccc-bench", "tccc-train", "tccc-ckpt", "tccc-ptxsim", "tccc-neuron", "tccc-plan")),
    ["tccc", "--version"],
    ["tccc", "--dump-ir", add],
    ["tccc-opt", add],
    ["tccc-run", so, "--random"],
    ["tccc-run", add, "--interpret", "--random"],
    ["tccc-bench", so, "--runs", "1"],
    ["tccc-bench", so, "--runs", "1", "--json"],
    [*train, "--json"],
    train,
    ["tccc-ckpt", "list", last],
    ["tccc-ckpt", "diff", last, here + "/c/last.safetensors"],
    ["tccc-ptxsim", top + "/tests/fuzz/ptx/scale.ptx"],
    ["tccc-neuron", "disasm", here + "/prog.neuron"],
]
for argv in printers:
    bad = []
    for out in ("full", "closed"):
        fresh()
        status, said = run(argv, out=out)
        if status != 3 or "error: " not in said:
            bad.append(f"{out}: status {status}: {said}")
        if files():
            bad.append(f"{out}: left {files()}")
    result("standard output is full, or closed: " + named(argv), bad)

# A closed standard output is nobody's file: what is printed gets into none.
fresh()
status, said = run(["tccc-run", so, "--random", "--output-dir", "."], out="closed")
result("nothing printed gets into a file", [str(files())] if any(b"a:" in open("w/" + n, "rb").read() for n in files()) else [])

# Mappings.
for argv in (["tccc", "-q", "-j1", add, "-o", "o.so"], ["tccc-run", so, "--random"], ["tccc-ckpt", "list", last], [*train, "--quiet", "--checkpoint", "."],
             ["tccc-ckpt", "export", last, digits + "/digits.onnx", "-o", "o.onnx"]):
    fresh()
    run(argv, env={"LD_PRELOAD": fault, "FAULT_COUNT": here + "/counts"})
    maps = int(open("counts").read().split()[2])
    bad = [] if maps else ["it maps nothing"]
    for k in range(1, maps + 1, 1 if full or maps <= 24 else maps // 24 + 1):
        fresh()
        status, said = run(argv, env={"LD_PRELOAD": fault, "FAULT": f"map:{k}"})
        if status not in (0, 3) or (status == 3 and ("error: " not in said or files())):
            bad.append(f"mapping {k} of {maps}: status {status}: {said} left {files()}")
    result("mappings that fail: " + named(argv), bad)
print(f"1..{cases}")
