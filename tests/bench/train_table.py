#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Training steps of tccc beside PyTorch's, eager and by torch.compile (Inductor), by turns: a table.

usage: train_table.py [--build build] --train DIR [--only NAME,...] [--threads 2,1] [--precisions float32,bf16] [--contenders eager,compile,tccc] [--rounds 1] [--seconds 2] [--part FILE [--for S]] [--print]
  --train DIR   cases that train_peers.py --export wrote
  --part FILE   measurements are kept there, a line each, and what stands there is not taken again: a table can be taken in several calls
  --for S       no contender begins after so many seconds; exit 3 when something is left
  --print       only the table of what FILE has
For each case, precision and number of threads the contenders run one after the other, each in a process of its own, rounds times; the best round's median counts; "of least steps" is
the ratio of the shortest steps, which other work on the machine disturbs less.
tccc's bf16 is --precision=autocast, PyTorch's torch.autocast; the batch's size is pinned in neither, as the model is exported.
"""
import argparse, glob, json, math, os, statistics, subprocess, sys, tempfile, time

HERE = os.path.dirname(os.path.abspath(__file__))

def mean(ratios):
    return math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else float("nan")


class Table:
    def __init__(self, a):
        self.a, self.found, self.made, self.start = a, {}, {}, time.time()
        self.tmp = tempfile.mkdtemp(prefix="tccc-train-")
        if a.part and os.path.exists(a.part):
            with open(a.part) as f:
                for line in f:
                    self.note(*json.loads(line))

    def note(self, key, got):
        self.found.setdefault(tuple(key), []).append(got)

    def take(self, key, measure):
        """One more measurement of that contender; False: no time for it."""
        if self.a.limit and time.time() - self.start > self.a.limit:
            return False
        got = measure()
        if got:
            self.note(key, got)
            if self.a.part:
                with open(self.a.part, "a") as f:
                    f.write(json.dumps([key, got]) + "\n")
        return True

    def torch(self, name, mode, precision, threads):
        words = subprocess.run([sys.executable, f"{HERE}/train_peers.py", "--threads", str(threads), "--seconds", str(self.a.seconds), "--one", name, mode, precision], capture_output=True, text=True).stdout.split()
        return [float(words[words.index(w) + 1]) for w in ("p50", "peak", "min")] if "p50" in words else None

    def step(self, folder, init, precision):
        key = folder, precision
        if key not in self.made:
            out = f"{self.tmp}/{os.path.basename(folder)}-{precision}.so"
            r = subprocess.run([f"{self.a.build}/tccc", "-q", "--train", f"--loss={init['loss']}", f"--optimizer={init['optimizer']}", f"--precision={'autocast' if precision == 'bf16' else precision}",
                                f"{folder}/model.onnx", "-o", out], capture_output=True, text=True)
            if r.returncode:
                print(f"  tccc: {r.stderr.strip()[-200:]}", file=sys.stderr)
            self.made[key] = None if r.returncode else out
        return self.made[key]

    def tccc(self, folder, init, precision, threads):
        out = self.step(folder, init, precision)
        if not out:
            return None
        ms, rss, start = [], 0, time.time()
        while len(ms) < 5 or time.time() - start < self.a.seconds:
            r = subprocess.run(["/usr/bin/time", "-f", "rss %M", f"{self.a.build}/tccc-train", out, "--data", f"{folder}/data.npz", "--batch-size", str(init["batch"]), "--steps", "24", "--threads", str(threads),
                                "--json"], capture_output=True, text=True)
            steps = [json.loads(line)["ms"] for line in r.stdout.splitlines() if line.startswith("{") and '"ms"' in line]
            if len(steps) <= 6:
                return None
            ms, rss = ms + steps[3:], max(rss, float(r.stderr.split("rss")[-1]) / 1024)
        return [statistics.median(ms), rss, min(ms)]

    def case(self, folder, precision, threads):
        """False: no time."""
        name = os.path.basename(folder)
        with open(f"{folder}/init.json") as f:
            init = json.load(f)
        for turn in range(self.a.rounds):
            for who in self.a.contenders:
                key = [name, precision, threads, who]
                if len(self.found.get(tuple(key), [])) > turn:
                    continue
                measure = (lambda: self.tccc(folder, init, precision, threads)) if who == "tccc" else (lambda: self.torch(name, who, precision, threads))
                if not self.take(key, measure):
                    return False
        print(name, precision, threads, {w: round(self.best(name, precision, threads, w)[0], 1) for w in self.a.contenders if self.best(name, precision, threads, w)}, flush=True)
        return True

    def best(self, *key):
        got = self.found.get(tuple(key))
        return got and min(got)

    def lines(self, folders):
        out = []
        for threads in self.a.threads:
            for precision in self.a.precisions:
                ratios, least = [], []
                out += ["", f"{precision}, {threads} thread{'s' if threads > 1 else ''}:", "", "| case | tccc | PyTorch eager | torch.compile | ratio | of least steps | peak MB: tccc, the better of PyTorch |",
                        "| --- | --- | --- | --- | --- | --- | --- |"]
                for folder in folders:
                    name = os.path.basename(folder)
                    ours, eager, compiled = (self.best(name, precision, threads, w) for w in ("tccc", "eager", "compile"))
                    theirs = min((x for x in (eager, compiled) if x), default=None)
                    if not ours or not theirs:
                        continue
                    ratios.append(theirs[0] / ours[0])
                    least.append(min(x[2] for x in (eager, compiled) if x) / ours[2])
                    text = [f"{x[0]:.1f}" if x else "-" for x in (ours, eager, compiled)]
                    out.append(f"| {name} | {' | '.join(text)} | {ratios[-1]:.2f} | {least[-1]:.2f} | {ours[1]:.0f}, {theirs[1]:.0f} |")
                out += ["", f"Geometric mean **{mean(ratios):.2f}**, worst {min(ratios, default=0):.2f}, {len(ratios)} networks; of least steps **{mean(least):.2f}**, worst {min(least, default=0):.2f}."]
        return out


def arguments(parser):
    parser.add_argument("--build", default="build")
    parser.add_argument("--train", required=True)
    parser.add_argument("--only")
    parser.add_argument("--threads", default="2,1", type=lambda s: [int(x) for x in s.split(",")])
    parser.add_argument("--precisions", default="float32,bf16", type=lambda s: s.split(","))
    parser.add_argument("--contenders", default="eager,compile,tccc", type=lambda s: s.split(","))
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--part")
    parser.add_argument("--for", dest="limit", type=float, default=0)
    parser.add_argument("--print", action="store_true")
    return parser


def main():
    a = arguments(argparse.ArgumentParser()).parse_args()
    table = Table(a)
    folders = [f for f in sorted(glob.glob(f"{a.train}/*/")) if os.path.exists(f"{f}init.json") and (not a.only or os.path.basename(f[:-1]) in a.only.split(","))]
    folders = [f[:-1] for f in folders]
    done = a.print or all([table.case(f, p, t) for t in a.threads for f in folders for p in a.precisions])
    print("\n".join(table.lines(folders)))
    sys.exit(0 if done else 3)


if __name__ == "__main__":
    main()
