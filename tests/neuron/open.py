"""Programs of kernels with an open size (tccc --dump-ir=neuron): waits of instructions that touch memory, up to 24 of a kernel, are taken out one at a time, and missed by the simulator's checks.

Usage: open.py PROGRAMS TCCC-NEURON NAME=N+N...  The kernels' names and what their sizes are: those at which all of a program runs. A line "ok: WHAT" or "not ok: WHAT" for each kernel.
"""
import re
import subprocess
import sys


def run(tool, text, size, seed):
    with open("open.neuron", "w") as f:
        f.write(text)
    done = subprocess.run([tool, "run", "open.neuron", "--random=1", "--dim", f"n0={size}", "--seed", str(seed)], capture_output=True, text=True)
    return done.returncode, done.stderr


def main():
    programs = {p.split()[2]: p for p in re.split(r"(?m)^(?=# kernel)", open(sys.argv[1]).read())[1:]}
    for given in sys.argv[3:]:
        name, sizes = given.split("=")
        text = next(p for n, p in programs.items() if n.startswith(name))
        ways = [(size, seed) for size in sizes.split("+") for seed in range(3)]
        bad = [way for way in ways if run(sys.argv[2], text, *way)[0]]
        missed = planted = 0
        waits = list(re.finditer(r"^    .*\[.*?( wait s\d+>=\d+(\+r\d+)?)", text, re.M))
        for wait in waits[:: (len(waits) + 23) // 24]:
            planted += 1
            broken = text[:wait.start(1)] + text[wait.end(1):]
            missed += any("race" in said or "uninitialised" in said for said in (run(sys.argv[2], broken, *way)[1] for way in ways))
        print(f"{'ok' if not bad and planted and missed == planted else 'not ok'}: {name}, {sizes}: {missed} of {planted} waits are missed")


if __name__ == "__main__":
    main()
