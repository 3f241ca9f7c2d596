"""Modelled time without values (--sim=time) beside the time of a run with values: every figure the same.

Usage: times.py run ARTIFACT...             by tccc-bench
       times.py train STEP.SO OPTION...     by tccc-train: each step's time, and the figures at the end
"""
import json
import subprocess
import sys


def lines(*command):
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def plausible(s):
    assert s["launches"] > 0 and s["dma_bytes"] > 0 and any(e["busy_ms"] > 0 for e in s["engines"].values()), s
    assert all(e["busy_ms"] + e["waiting_ms"] <= s["ms"] for e in s["engines"].values()), s
    assert 0.05 < s["bound_share"] <= 1 and s["bound"] in list(s["engines"]) + ["dma", "hbm", "copies"], s


def main():
    if sys.argv[1] == "run":
        for artifact in sys.argv[2:]:
            full, time = (lines("tccc-bench", "--json", "--runs", "1", *how, artifact)[0] for how in ((), ("--sim=time",)))
            assert full["sim"] == time["sim"] and full["sim_ms"] == full["sim"]["ms"] > 0, (artifact, full, time)
            plausible(full["sim"])
            print(f"{artifact}: {full['sim_ms']:.4g} ms, {full['sim']['launches']} launches, bound by {full['sim']['bound']}")
    else:
        full, time = (lines("tccc-train", "--json", "--threads", "1", f"--sim={how}", *sys.argv[2:]) for how in ("full", "time"))
        steps = [[line["sim_ms"] for line in run if "step" in line] for run in (full, time)]
        assert steps[0] == steps[1] and len(steps[0]) > 1 and min(steps[0]) > 0, steps
        last = [next(line["sim"] for line in run if "sim" in line) for run in (full, time)]
        assert last[0] == last[1], last
        plausible(last[0])
        print(f"{sys.argv[2]}: steps of {steps[0][-1]:.4g} ms, bound by {last[0]['bound']}")


if __name__ == "__main__":
    main()
