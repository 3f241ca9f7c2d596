#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures what compiling graphs of growing size costs, and says whether the costs grow in proportion.

usage: measure.py BUILD_DIR [--full] [SHAPE[:symbolic]...]

A TAP line for each shape of make_graphs.py: CPU time and peak memory of tccc for some number of nodes and for more. Times are the
least of several runs, and bounds are generous, because machines are shared: four times the nodes may take 6 times the time and
memory, which is far from the 16 times of a quadratic step. The fan is four times as large, for a step that is quadratic in kernels
shows there alone, and late. --full doubles from 1,000 to 64,000 nodes, 2.3 times each, prints the
table of doc/performance.md, and checks the bounds of single graphs.
"""
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
SHAPES = ["chain", "sines", "fan", "inputs", "diamonds", "residual"]
# shape, nodes, seconds, MB
BARS = [("chain", 10000, 3, 500), ("chain", 100000, 60, 3000), ("sines", 1024, 2, 500), ("inputs", 10000, 10, 500)]


def cost(build, folder, shape, nodes, runs):
    """Least CPU seconds and MB of peak memory of `runs` compilations; None and the message where one fails."""
    name, _, symbolic = shape.partition(":")
    model = os.path.join(folder, "model.onnx")
    subprocess.run([sys.executable, os.path.join(HERE, "make_graphs.py"), name, str(nodes), model]
                   + (["--symbolic"] if symbolic else []), check=True)
    seconds, mb = [], []
    for _ in range(runs):
        log = os.path.join(folder, "log")
        with open(log, "wb") as to:
            child = subprocess.Popen([os.path.join(build, "tccc"), "-q", "--max-nodes=1000000", model, "-o", model + ".so"], stderr=to)
            _, status, usage = os.wait4(child.pid, 0)
            child.returncode = status
        if status:
            with open(log, encoding="utf-8", errors="replace") as f:
                return None, (f.read().strip().splitlines() or [f"status {status}"])[-1]
        seconds.append(usage.ru_utime + usage.ru_stime)
        mb.append(usage.ru_maxrss / 1024)
    return min(seconds), min(mb)


def compare(build, folder, shape, sizes, runs, ratio):
    """What is wrong with the growth over those numbers of nodes, or None; the table's rows."""
    rows, wrong = [], None
    for nodes in sizes:
        seconds, mb = cost(build, folder, shape, nodes, runs)
        if seconds is None:
            return f"{nodes} nodes: {mb}", rows
        rows.append((nodes, seconds, mb))
    for (n, before, before_mb), (more, after, after_mb) in zip(rows, rows[1:]):
        if after > ratio * before + 0.1:
            wrong = f"{n} nodes take {before:.2f} s, {more} {after:.2f} s"
        if after_mb > ratio * before_mb:
            wrong = f"{n} nodes take {before_mb:.0f} MB, {more} {after_mb:.0f} MB"
    return wrong, rows


def main():
    build, full = sys.argv[1], "--full" in sys.argv
    shapes = [a for a in sys.argv[2:] if not a.startswith("--")]
    shapes = shapes or SHAPES + ["chain:symbolic", "residual:symbolic"]
    number, failed = 0, False
    with tempfile.TemporaryDirectory() as folder:
        for shape in shapes:
            number += 1
            first = 4000 if shape.startswith("fan") else 1000
            sizes = [1000 << i for i in range(7)] if full else [first, 4 * first]
            wrong, rows = compare(build, folder, shape, sizes, 1 if full else 2, 2.3 if full else 6)
            for nodes, seconds, mb in rows:
                print(f"# | {shape} | {nodes} | {seconds:.2f} | {mb:.0f} |")
            print(f"not ok {number} - {shape}: {wrong}" if wrong else f"ok {number} - {shape}", flush=True)
            failed |= bool(wrong)
        for shape, nodes, most, most_mb in BARS if full else []:
            number += 1
            seconds, mb = cost(build, folder, shape, nodes, 1)
            ok = seconds is not None and seconds < most and mb < most_mb
            print(f"{'ok' if ok else 'not ok'} {number} - {nodes} of {shape}: "
                  + (f"{seconds:.2f} s, {mb:.0f} MB" if seconds is not None else mb), flush=True)
            failed |= not ok
    print(f"1..{number}")
    sys.exit(failed)


if __name__ == "__main__":
    main()
