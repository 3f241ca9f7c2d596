"""Faults in programs that the compiler made (kernels.text), one at a time, that the simulator's checks must find: each wait taken out, and the rows of `faults` below.

Usage: faults.py KERNELS.TEXT TCCC-NEURON. A line "ok: WHAT" or "not ok: WHAT" (a wait that nothing needs, too) for each, then how many there are of each kind.
"""
import re
import subprocess
import sys

# kernel, text, what it becomes, the check
FAULTS = (
    # a transfer too little, a row or an element too short; a constant left out
    ("map_f32_300_0", "dma sbuf.f32[0:100, 64, 3], a1.f32[0, 300]", "dma sbuf.f32[0:99, 64, 3], a1.f32[0, 297]", "uninitialised"),
    ("map_bf16_800_1", "dma sbuf.bf16[0:114, 0, 7], a0.bf16[0, 798]", "dma sbuf.bf16[0:114, 0, 6], a0.bf16[0, 684]", "uninitialised"),
    ("reduce_f32_6_over_50_3", "sbuf.f32[0:6, 0, 50] op0=add", "sbuf.f32[0:6, 4, 50] op0=add", "uninitialised"),
    ("reduce_f32_7_over_20_4", "activation sbuf.f32[0:7, 192, 20], sbuf.f32[0:7, 0, 20], 1, sbuf.f32[0:7, 320, 1]", "activation sbuf.f32[0:6, 192, 20], sbuf.f32[0:6, 0, 20], 1, sbuf.f32[0:6, 320, 1]", "uninitialised"),
    ("contract_f32_9x30_over_200_5", "transpose32 sbuf.f32[0:32, 896, 224], sbuf.f32[0:32, 0, 224]", "transpose32 sbuf.f32[0:32, 896, 192], sbuf.f32[0:32, 0, 192]", "uninitialised"),
    ("window_f32_4x6x6_over_3x2x2_6", "memset sbuf.f32[0:3, 1024, 49], 0", "memset sbuf.f32[0:3, 1024, 40], 0", "uninitialised"),
    # sums that go on from another's bank, or from nothing
    ("contract_f32_9x30_over_200_5", "matmul psum.f32[0:9, 0, 30], sbuf.f32[0:32, 1792, 30]", "matmul psum.f32[0:9, 0, 30], sbuf.f32[0:32, 1792, 30] accumulate", "accumulate"),
    ("window_f32_4x6x6_over_3x2x2_6", "matmul psum.f32[0:4, 0, 36], sbuf.f32[0:3, 1024, 6@7, 6]", "matmul psum.f32[0:4, 2048, 36], sbuf.f32[0:3, 1024, 6@7, 6]", "accumulate"),
    # an engine's results signalled by the instruction before; a semaphore that two use
    ("map_bf16_800_1", "sbuf.bf16[0:1, 64, 2] func=exp wait s6>=16", "sbuf.bf16[0:1, 64, 2] func=exp wait s5>=16", "race"),
    ("map_f32_300_0", "a1.f32[0, 300] signal s6", "a1.f32[0, 300] queue=3 signal s5", "deadlock"),
    ("contract_f32_9x30_over_200_5", "wait s3>=3 signal s14", "wait s3>=2 signal s14", "race"),
    ("window_f32_4x6x6_over_3x2x2_6", "wait s3>=3 signal s6", "wait s3>=2 signal s6", "race"),
    # a wait for more than is signalled, and for each other
    ("scan_f32_4_over_11_9", "wait s5>=16", "wait s5>=17", "deadlock"),
    ("reduce_f32_7_over_20_4", "wait s3>=2 signal s6", "wait s3>=3 signal s6", "deadlock"),
    ("reduce_f32_6_over_50_3", "dma sbuf.f32[0:6, 0, 50], a0.f32[0, 300] signal s5", "dma sbuf.f32[0:6, 0, 50], a0.f32[0, 300] wait s3>=1 signal s5", "deadlock"),
    # functions beside what they are documented for, rows that are not there
    ("map_bf16_800_1", "func=exp wait s5>=16", "func=log wait s5>=16", "function-range"),
    ("reduce_f32_7_over_20_4", "func=exp", "func=sqrt", "function-range"),
    ("move_f32_3x12_8", "sbuf.i32[0:12, 256, 3], 12 op0=mul", "sbuf.i32[0:12, 256, 3], 120 op0=add", "index"),
    # buffers that overlap what others still read
    ("move_f32_8x5_7", "engine sync\n", "engine vector\n    memset sbuf.f32[0:8, 4, 1], 0 wait s5>=16\n\nengine sync\n", "race"),
    ("map_bool_5x3_2", "dma sbuf.i32[0:5, 64, 3], a1.i32[0, 5@0, 3] signal s6", "dma sbuf.i32[0:5, 64, 3], a1.i32[0, 5@0, 3] signal s6\n    dma sbuf.i32[0:5, 0, 3], a1.i32[0, 5@0, 3] queue=2 signal s8", "race"),
)


def run(tool, text, seed):
    with open("fault.neuron", "w") as f:
        f.write(text)
    done = subprocess.run([tool, "run", "fault.neuron", "--random=1", "--seed", str(seed)], capture_output=True, text=True)
    return done.returncode, re.findall(r"^error: fault.neuron: ([a-z-]+):", done.stderr, re.M), done.stderr


def main():
    programs = {p.split()[2]: p for p in re.split(r"(?m)^(?=# kernel)", open(sys.argv[1]).read())[1:]}
    for name, text in programs.items():
        for seed in range(3):
            status, checks, said = run(sys.argv[2], text, seed)
            if status or checks:
                print(f"not ok: {name} as it is, order {seed}: {said}")
    planted = []
    for name, text in programs.items():
        for wait in re.finditer(r" wait (s\d+>=\d+)", text):
            line = text.count("\n", 0, wait.start()) + 1
            planted.append((f"{name}, line {line} without{wait.group()}", text[:wait.start()] + text[wait.end():],
                            ("race", "uninitialised")))
    for name, old, new, check in FAULTS:
        if programs[name].count(old) != 1:
            print(f"not ok: {name} has no line, or several, with {old}")
            continue
        planted.append((f"{name}: {' '.join(new.split())}", programs[name].replace(old, new), (check,)))
    count = {"ok": 0, "not ok": 0}
    for what, text, wanted in planted:
        verdict = "ok"
        for seed in range(3):
            status, checks, said = run(sys.argv[2], text, seed)
            if not status or not set(wanted) & set(checks):
                verdict = "not ok"
                break
        count[verdict] += 1
        print(f"{verdict}: {what}: {', '.join(sorted(set(checks)))}{f' in order {seed}: {said}' if verdict == 'not ok' else ''}")
    print(", ".join(f"{n} {verdict}" for verdict, n in count.items()))



if __name__ == "__main__":
    main()
