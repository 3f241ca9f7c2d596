#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a call from Python costs beyond the same call from C: a model of one element, numpy arrays and (where torch is installed) tensors.

usage: PYTHONPATH=BUILD/python python_call.py BUILD       prints ns a call, medians of interleaved rounds
"""
import os, statistics, subprocess, sys, tempfile, time
import numpy as np
import tccc

MODEL = """func @main(%x: f32[1]) -> ("y": f32[1]) {
  %y = add(%x, %x)
  return(%y)
}
"""
PROGRAM = """
#include <stdio.h>
#include <time.h>
#include "runtime/tccrt.h"
int main(int argc, char **argv)
{
    struct tccrt_model *m;
    struct tccrt_session *s;
    float x = 1, y;
    struct tcc_tensor in = {&x, TCC_F32, 1, {1}}, out = {&y, TCC_F32, 1, {1}};
    struct timespec a, b;
    if (argc < 2 || tccrt_open(argv[1], &m) || tccrt_session_new(m, NULL, &s))
        return 1;
    for (int i = 0; i < 1000; i++)
        tccrt_run(s, "main", 1, &in, 1, &out);
    clock_gettime(CLOCK_MONOTONIC, &a);
    for (int i = 0; i < 100000; i++)
        tccrt_run(s, "main", 1, &in, 1, &out);
    clock_gettime(CLOCK_MONOTONIC, &b);
    printf("%f\\n", ((b.tv_sec - a.tv_sec) * 1e9 + (b.tv_nsec - a.tv_nsec)) / 1e5);
    return 0;
}
"""


def main():
    build = os.path.abspath(sys.argv[1])
    top = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    with tempfile.TemporaryDirectory() as folder:
        at = lambda name: os.path.join(folder, name)
        with open(at("one.tcir"), "w") as f:
            f.write(MODEL)
        with open(at("one.c"), "w") as f:
            f.write(PROGRAM)
        m = tccc.compile(at("one.tcir"), output=at("one.so"), threads=1)
        subprocess.run(["cc", "-O2", "-I" + top, at("one.c"), build + "/libtccrt.a", "-lm", "-lpthread", "-ldl", "-o", at("one")], check=True)
        calls = {"numpy": lambda x=np.ones(1, np.float32): m(x)}
        try:
            import torch
            calls["torch"] = lambda x=torch.ones(1): m(x)
        except ImportError:
            pass
        times = {name: [] for name in ("C", *calls)}
        for _ in range(9):
            times["C"].append(float(subprocess.run([at("one"), at("one.so")], check=True, capture_output=True).stdout))
            for name, call in calls.items():
                begin = time.perf_counter_ns()
                for _ in range(100000):
                    call()
                times[name].append((time.perf_counter_ns() - begin) / 1e5)
        base = statistics.median(times["C"])
        for name, values in times.items():
            print(f"{name}: {statistics.median(values):.0f} ns a call" + ("" if name == "C" else f", {statistics.median(values) - base:.0f} beyond C"))


if __name__ == "__main__":
    main()
