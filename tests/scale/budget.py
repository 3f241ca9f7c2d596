#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Says whether compiling costs more than it did: CPU time and peak memory of a few graphs, a fifth above the table is a failure.

usage: budget.py BUILD_DIR [--full]

Times are the least of several runs, over the least time of what stands for the machine, the build's flags and the hour: tccc-opt
reading, verifying and printing a chain of adds, run by turns with them. Where one is over its bar, more rounds are run before that
is believed. Memory is what is above the compilation of one node, over the size of the weights where there are any. --full: the
network of text to speech in full size as well (85 MB of weights).
"""
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
# name, generator, arguments, flags, time over the measure, MB over one node's. Pages and starts of programs cost a machine more on some
# days than on others beside what the measure does (one build: 8.0, 1.4 and 1.2, later 9.7, 1.85 and 1.5): the larger ones stand here.
BUDGET = [
    ("tts of 5 MB", "make_tts.py", ["--layers=12", "--blocks=8", "--width=192"], [], 9.7, 10),
    ("chain of 10,000", "make_graphs.py", ["chain", "10000"], [], 1.85, 4),
    ("residual of 3,000, -O3", "make_graphs.py", ["residual", "3000", "--symbolic"], ["-O3"], 1.5, 4),
]
FULL = [("tts of 85 MB", "make_tts.py", [], [], 15.0, 232)]
ROUNDS, MORE = 4, 12


def run(command, log):
    """CPU seconds and MB of a command, children included; ends the test where it fails."""
    with open(log, "wb") as to:
        child = subprocess.Popen(command, stdout=to, stderr=to)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = status
    if status:
        with open(log, encoding="utf-8", errors="replace") as f:
            sys.exit(f"Bail out! {' '.join(command)}: {f.read(500).strip()}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


class Cases:
    def __init__(self, build, folder, table):
        self.build, self.folder = build, folder
        self.chain = os.path.join(folder, "measure.tcir")
        self.commands, self.best = [], [(1e9, 1e9)] * len(table)
        self.unit, self.floor = 1e9, 1e9
        for i, (_, generator, arguments, flags, _, _) in enumerate(table):
            self.commands.append(self.compile(f"{i}.onnx", generator, arguments, flags))
        self.one = self.compile("one.onnx", "make_graphs.py", ["chain", "1"], [])
        with open(self.chain, "w", encoding="ascii") as f:
            lines = "".join(f"  %{i + 1} = add(%{i}, %{i // 2})\n" for i in range(40000))
            f.write(f"func @main(%0: f32[4,16]) -> (f32[4,16]) {{\n{lines}  return(%40000)\n}}\n")

    def compile(self, name, generator, arguments, flags):
        model = os.path.join(self.folder, name)
        place = arguments + [model] if generator == "make_graphs.py" and arguments[-1] != "--symbolic" else arguments[:-1] + [model] + arguments[-1:]
        if generator == "make_tts.py":
            place = [model] + arguments
        subprocess.run([sys.executable, os.path.join(HERE, generator)] + place, check=True)
        return [os.path.join(self.build, "tccc"), "-q", "--max-nodes=1000000", model, "-o", model + ".so"] + flags

    def round(self):
        log = os.path.join(self.folder, "log")
        self.unit = min(self.unit, run([os.path.join(self.build, "tccc-opt"), self.chain], log)[0])
        self.floor = min(self.floor, run(self.one, log)[1])
        for i, command in enumerate(self.commands):
            self.best[i] = tuple(map(min, self.best[i], run(command, log)))

    def figures(self, i):
        seconds, mb = self.best[i]
        return seconds / self.unit, mb - self.floor


def within(row, figures):
    """At most a fifth above the row; 4 MB are what the allocator gives or takes."""
    return figures[0] <= 1.2 * row[4] and figures[1] <= 1.2 * row[5] + 4


def main():
    table = BUDGET + (FULL if "--full" in sys.argv else [])
    with tempfile.TemporaryDirectory() as folder:
        cases = Cases(sys.argv[1], folder, table)
        over, rounds = True, 0
        while rounds < ROUNDS or (over and rounds < MORE):
            cases.round()
            rounds += 1
            over = not all(within(row, cases.figures(i)) for i, row in enumerate(table))
        failed = False
        for i, row in enumerate(table):
            t, mb = cases.figures(i)
            ok = within(row, (t, mb))
            failed |= not ok
            print(f"{'ok' if ok else 'not ok'} {i + 1} - {row[0]}: {cases.best[i][0]:.2f} s, {t:.2f} measures (was {row[4]}); {mb:.0f} MB (was {row[5]})")
        print(f"# a measure: {cases.unit:.2f} s, one node: {cases.floor:.0f} MB, {rounds} rounds")
    print(f"1..{len(table)}")
    sys.exit(failed)


if __name__ == "__main__":
    main()
