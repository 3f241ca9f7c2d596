#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What ptxas makes of kernels: does it take each without a spill and within the machine's limits, and with how many registers and instructions?

usage: ptxas.py PTXAS CACHE FIGURES [--write] [--on=MACHINE] NAME=FILE.ptx...

A line for each file, `ok NAME MACHINE: ...` or `not ok NAME MACHINE: why`. MACHINE is the one that the text is for, or a newer one (--on), as a driver would translate it. Kernels are told apart by the digest of their text without their names: each is
assembled once, fifty in a process, as many processes at once as there are cores, and what came of it is kept in the folder CACHE for the same ptxas. FIGURES holds a line for each file, which
--write writes anew: kernels, the most registers of one, instructions of all, the most static shared memory. More than half as many
again are a failure: the assembler's version may change a few.
"""
import hashlib, json, os, re, struct, subprocess, sys, tempfile
from concurrent.futures import ThreadPoolExecutor

ENTRY = re.compile(r"^\.visible \.entry ([\w$]+)\(", re.M)
STATIC = 48 << 10
SLACK = 1.5


def kernels(text):
    """(directives, {name: text}): declarations outside of kernels go with each of them, under names of their own."""
    starts = [m.start() for m in ENTRY.finditer(text)] + [len(text)]
    head = re.sub(r"//.*", "", text[:starts[0]])
    directives = "".join(line + "\n" for line in head.splitlines() if re.match(r"\.(version|target|address_size)\b", line))
    others = "\n".join(line for line in head.splitlines() if line.strip() and line + "\n" not in directives)
    names = re.findall(r"([\w$]+)(?:\[\d*\])?\s*;", others)
    found = {}
    for a, b in zip(starts, starts[1:]):
        name, body = ENTRY.match(text, a).group(1), text[a:b]
        body = re.sub(r"//.*", "", body).rstrip()
        used = [n for n in names if re.search(rf"(?<![\w$]){re.escape(n)}(?![\w$])", body)]
        found[name] = (others + "\n" if used else "") + body, used
    return directives, found


def anonymous(name, body, used):
    """The text with KERNEL in place of its name, and for what it declares."""
    for k, n in enumerate(used):
        body = body.replace(n, f"KERNEL_{k}_shared")
    return body.replace(name, "KERNEL")


def code_sizes(path):
    """Bytes of .text.NAME of a cubin, an ELF file of 64 bits."""
    with open(path, "rb") as f:
        data = f.read()
    at, each, count, names = struct.unpack_from("<Q10xHHH", data, 0x28)
    sections = [struct.unpack_from("<IIQQQQ", data, at + k * each) for k in range(count)]
    texts = sections[names][4]
    sizes = {}
    for section in sections:
        name = data[texts + section[0]:data.index(b"\0", texts + section[0])].decode()
        if name.startswith(".text."):
            sizes[name[6:]] = section[5]
    return sizes


def assemble(ptxas, machine, text):
    """({name: figures}, what is wrong or None)."""
    with tempfile.TemporaryDirectory() as folder:
        source, to = os.path.join(folder, "k.ptx"), os.path.join(folder, "k.cubin")
        with open(source, "w") as f:
            f.write(text)
        run = subprocess.run([ptxas, "-v", f"-arch={machine}", "-o", to, source], capture_output=True, text=True)
        said = run.stdout + run.stderr
        if run.returncode:
            return {}, said.strip().splitlines()[-1] if said.strip() else f"exit status {run.returncode}"
        sizes = code_sizes(to)
    figures = {}
    for part in re.split(r"Compiling entry function ", said)[1:]:
        name = re.match(r"'([^']+)'", part).group(1)
        number = lambda pattern: int((re.search(pattern, part) or [0, 0])[1])
        threads = re.search(rf"\.entry {re.escape(name)}\(.*?\.maxntid (\d+)", text, re.S)
        f = {"registers": number(r"Used (\d+) registers"), "instructions": sizes.get(name, 0) // 16, "shared": number(r"(\d+) bytes smem")}
        wrong = [w for w in re.findall(r"C75\d\d", part)]
        if number(r"(\d+) bytes spill stores") or number(r"(\d+) bytes spill loads"):
            wrong.append("registers are spilled")
        if f["shared"] > STATIC:
            wrong.append(f"{f['shared']} bytes of static shared memory")
        # Registers come in units of 8 for each of a warp's threads; a multiprocessor has 65,536.
        if threads and (f["registers"] + 7) // 8 * 8 * int(threads.group(1)) > 65536:
            wrong.append(f"{f['registers']} registers for each of {threads.group(1)} threads")
        f["wrong"] = ", ".join(wrong)
        figures[name] = f
    return figures, None


def machine_of(directives, on):
    return on or re.search(r"\.target (\w+)", directives).group(1)


def batches(ptxas, cache, modules, on):
    """Assembles what the cache does not hold. {(machine, digest): figures}."""
    version = subprocess.run([ptxas, "--version"], capture_output=True, text=True).stdout
    path = os.path.join(cache, hashlib.sha256((version + open(__file__).read()).encode()).hexdigest()[:16] + ".json")
    known = {}
    if os.path.exists(path):
        with open(path) as f:
            known = json.load(f)
    wanted = {}
    for directives, found in modules:
        for name, (body, used) in found.items():
            body = anonymous(name, body, used)
            digest = hashlib.sha256(((on or "") + directives + body).encode()).hexdigest()[:24]
            found[name] = digest
            if digest not in known:
                wanted.setdefault(directives, {})[digest] = body
    parts = []
    for directives, texts in wanted.items():
        machine = machine_of(directives, on)
        digests = sorted(texts)
        for k in range(0, len(digests), 50):
            some = digests[k:k + 50]
            parts.append((some, machine, directives + "\n".join(texts[d].replace("KERNEL", "k" + d) for d in some)))
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for (some, _, _), (figures, error) in zip(parts, pool.map(lambda part: assemble(ptxas, *part[1:]), parts)):
            for d in some:
                known[d] = figures.get("k" + d, {"registers": 0, "instructions": 0, "shared": 0, "wrong": error or "nothing is said about it"})
    os.makedirs(cache, exist_ok=True)
    with open(path + ".tmp", "w") as f:
        json.dump(known, f)
    os.replace(path + ".tmp", path)
    return known


def main(ptxas, cache, plans, *files):
    write = "--write" in files
    on = next((f[5:] for f in files if f.startswith("--on=")), None)
    files = [f.split("=", 1) for f in files if not f.startswith("--")]
    modules = [kernels(open(path).read()) for _, path in files]
    known = batches(ptxas, cache, modules, on)
    recorded, lines, bad = {}, [], False
    if os.path.exists(plans):
        with open(plans) as f:
            recorded = {tuple(line.split()[:2]): dict(zip(line.split()[2::2], map(int, line.split()[3::2]))) for line in f if not line.startswith("#")}
    for (name, _), (directives, found) in zip(files, modules):
        machine = machine_of(directives, on)
        all = {n: known[d] for n, d in found.items()}
        got = {"kernels": len(all), "registers": max(f["registers"] for f in all.values()),
               "instructions": sum(f["instructions"] for f in all.values()), "shared": max(f["shared"] for f in all.values())}
        wrong = [f"{n}: {f['wrong']}" for n, f in all.items() if f["wrong"]]
        want = recorded.get((name, machine))
        if want and not write:
            wrong += [f"{got[k]} {k}, {want[k]} are recorded" for k in ("registers", "instructions", "shared") if got[k] > SLACK * want[k]]
        elif not want and not write:
            wrong.append("no figures are recorded")
        bad = bad or bool(wrong)
        text = " ".join(f"{k} {v}" for k, v in got.items())
        lines.append(f"{name} {machine} {text}")
        print("not ok" if wrong else "ok", f"{name} {machine}:", "; ".join(wrong[:5]) or text)
    if write:
        mine = {tuple(line.split()[:2]) for line in lines}
        lines += [" ".join([*key, *(f"{k} {v}" for k, v in f.items())]) for key, f in recorded.items() if key not in mine]
        with open(plans, "w") as f:
            f.write("# What ptxas makes of the networks' kernels (tests/cuda/ptxas.py): kernels, the most registers of one, instructions of all, the most\n"
                    "# static shared memory.\n" + "".join(line + "\n" for line in sorted(lines)))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
