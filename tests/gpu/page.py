# SPDX-License-Identifier: Apache-2.0
"""The page of the figures that tests/gpu/run has: of each part what was measured, and what of what is asked was met."""

# What a part is, and the seconds after which it ends by itself. Those of USUAL take ten minutes and a half; a borrowed GPU's start and the way there come on top.
PARTS = {1: ("loads, runs, is right: official cases, six networks, compute-sanitizer", 150),
         2: ("products and attention beside cuBLAS and cuDNN, memory beside a copy", 150),
         3: ("a GPT-2 step, ResNet-50 in training and inference, beside torch.compile", 150),
         4: ("sessions beside each other, recorded programs, memory that is left behind", 60),
         5: ("the CPU with 1 to 16 threads beside ONNX Runtime", 60),
         6: ("what the simulator's model predicted, and what is", 60),
         7: ("by name only: networks at batches of 1, 8, 64 beside torch.compile's best and ONNX Runtime", 1800)}
USUAL = [1, 2, 3, 4, 5, 6]
REPEATS = 10   # models.REPEATS: a run of ours holds so many of a peer's operation, where it counts FLOPs or bytes
NAMES = {"torch": "PyTorch", "onnxruntime": "ONNX Runtime", "onnxruntime-cpu": "ONNX Runtime", "copy": "a copy"}

HEAD = """# Speed on GPUs

<!-- Written by tests/gpu/run. -->

`tests/gpu/run --prepare FOLDER` compiles models on any machine, `tests/gpu/run FOLDER` runs them where there is a GPU and writes this page: six parts of 60 to 150 seconds, each of which
ends by itself, FOLDER of at most 60 MiB. Inputs and weights are random; times are medians, from the call to the result on the host; networks of `tests/cuda/networks.py`, in full size.
Others run by turns with ours: PyTorch's operations, networks and steps by `torch.compile`, ONNX Runtime, a copy. What the simulator's model says of a run was computed
before there was one.

Parts, and the seconds after which each ends by itself:

""" + "".join(f"* {k}: {what}: {seconds} s\n" for k, (what, seconds) in PARTS.items() if k < 7) + """
Together, with what a machine's start takes, they are within fifteen minutes; `--part K` runs one.
"""
NOTHING = """
**Nothing has been measured yet**: no machine with a GPU has run it. In the simulator (`--small`, `--device sim`) all parts run, with the CPU's results; its times say
nothing.
"""


def rate(r):
    """Ours, as (number, unit)."""
    ms = r["p50_ms"]
    if r["flops"]:
        return r["flops"] / ms / 1e9, "TFLOP/s"
    return (r["bytes"] / ms / 1e6, "GB/s") if r["bytes"] else (1e3 * r["batch"] / ms, r["unit"] + "/s")


def beside(r, who):
    """A peer's time over ours, of the same work; of a copy, whose own reads and writes 8 bytes an element, our rate over its own. None: not measured."""
    if "ms" not in r.get("peers", {}).get(who, {}):
        return None
    ms = r["peers"][who]["ms"]
    if who == "copy":
        return rate(r)[0] / (8 * r["elements"] / ms / 1e6)
    return (REPEATS if r["flops"] or r["bytes"] else 1) * ms / r["p50_ms"]


def of_case(r, who):
    """What models.ASKED asks: a number, or None where it was not measured."""
    if r is None or r.get("error") or r.get("missed"):
        return None
    if r["wrong"] or who == "right":
        return 0 if r["wrong"] else 1
    if who == "rate":
        return rate(r)[0]
    return 500 / (r["open_ms"] + r["first_ms"]) if who == "first" else beside(r, who)


def asked(real, list):
    """The lines of what is asked, with the least of their cases."""
    lines = ["", "## What is asked of an H200", "", "| asked | seen, the least of its cases | met |", "| --- | --- | --- |"]
    for what, names, who, least in list:
        seen = [of_case(real.get(name), who) for name in names]
        missing = sum(v is None for v in seen)
        found = [v for v in seen if v is not None]
        text = "-" if not found else f"{min(found):.0f}" if who in ("rate", "right") else f"{min(found):.2f}"
        met = "not measured" if not found else "no" if min(found) < least else f"not measured: {missing} of {len(seen)}" if missing else "yes"
        lines.append(f"| {what} | {text} | {met} |")
    return lines


def line(name, r):
    """A row: part, what, time, speed, others, first run."""
    if r.get("missed"):
        return f"| {r['part']} | {name} | no time was left | | | |"
    if r["wrong"]:
        return f"| {r['part']} | {name} | wrong: {r['wrong']} | | | |"
    if "together_ms" in r:
        return f"| {r['part']} | {name} | {r['alone_ms']:.3f} ms alone | {r['together_ms']:.3f} ms a run of {r['sessions']} sessions, {r['queued_ms']:.3f} ms queued | | |"
    if "each_ms" in r:
        device = f", of the device's {r['device_grown_kb']} KB" if r["device_grown_kb"] >= 0 else ""
        return f"| {r['part']} | {name} | {r['each_ms']:.1f} ms each | {r['sessions']} sessions leave {max(0, r['grown_kb'])} KB{device} | | |"
    if "p50_ms" not in r:
        return f"| {r['part']} | {name} | right | {str(r['runs']) + ' cases' if 'runs' in r else ''} | | |"
    ours = "{:.0f} {}".format(*rate(r))
    ratios = [f"{NAMES[who]} {beside(r, who):.2f}" for who in r.get("peers", {}) if beside(r, who)]
    return f"| {r['part']} | {name} | {r['p50_ms']:.3f} ms | {ours} | {', '.join(ratios) or '-'} | {r['open_ms'] + r['first_ms']:.0f} ms |"


def graphs(real):
    """What recorded programs bring."""
    r, walked = real.get("graphs", {}), real.get("graphs-walked", {})
    if "p50_ms" not in r or "p50_ms" not in walked:
        return []
    return ["", f"Recorded programs (CUDA graphs): {r['replays']} replays of {r['programs']}; a run takes {walked['p50_ms'] / r['p50_ms']:.2f} times as long where its plan is walked."]


def predictions(real, gpu):
    """The model beside what was measured, on the machine of this name."""
    name = "h200" if "H200" in gpu else "h100"
    rows = [(n, r["predicted"][name], r["p50_ms"]) for n, r in sorted(real.items()) if "p50_ms" in r and not r["wrong"] and r.get("predicted", {}).get(name)]
    if not rows:
        return []
    return ["", f"## The simulator's model of an {name.upper()}", "", "| what | predicted | measured | measured / predicted |", "| --- | --- | --- | --- |",
            *(f"| {n} | {p:.3f} ms | {ms:.3f} ms | {ms / p:.2f} |" for n, p, ms in rows)]


def page(results, list):
    real = {n: r for n, r in results["cases"].items() if not r["device"].startswith("sim")}
    if not real:
        return HEAD + NOTHING
    gpu, cpu = results["machine"].get("gpu", ""), results["machine"].get("cpu", "")
    lines = ["", f"On: {gpu or 'a GPU whose name is not known'}; {cpu}." if cpu or gpu else "", "", "| part | what | time | speed | their time / ours | first run |",
             "| --- | --- | --- | --- | --- | --- |"]
    lines += [line(name, r) for name, r in sorted(real.items(), key=lambda x: x[1]["part"])]
    lines += graphs(real) + predictions(real, gpu) + asked(real, list)
    seconds = ", ".join(f"{k}: {s:.0f}" for k, s in sorted(results["seconds"].items()))
    versions = sorted({f"{NAMES[who]} {p['version']}" for r in real.values() for who, p in r.get("peers", {}).items() if "version" in p and who != "copy"})
    lines += ["", *(["Beside " + "; ".join(versions) + "."] if versions else []), *([f"Seconds of the parts: {seconds}."] if seconds else [])]
    return HEAD + "\n".join(lines) + "\n"
