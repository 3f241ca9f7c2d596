#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Inner loops of AArch64 under llvm-mca: multiply-adds a cycle as a share of what the processor's pipes can do, and what bounds each.

usage: arm_loops.py BUILD [--markdown] [--least=PERCENT] [--show=LOOP:CPU] [CPU...]     --least: exit 1 where a loop's share is less
       arm_loops.py BUILD --gathers     instead: cycles in which four floats are gathered by NEON's loads and by SVE's, on processors whose SVE has 128 bits

Needs numpy, onnx and llvm-mca (Debian: llvm-19), no machine. llvm-mca takes data for granted in the first cache. A loop is the block that
branches to itself and holds the most multiply-adds; of each network's kernels the one with the most. Share: the multiply-adds of that loop, by
the instructions that it has, over cycles times PIPES. What bounds: the resource that is busy longest, where it is busy for 9 of 10 cycles; else waits.
"""
import argparse, os, re, subprocess, sys, tempfile
import numpy as np, onnx
from onnx import helper as h, numpy_helper as nh, TensorProto as T

# Vector multiply-adds of 128 bits a cycle. Arm's Software Optimization Guides: Cortex-A72 has two pipes of 64 bits, Neoverse N1 two of 128, V1 and V2 four.
PIPES = {"cortex-a72": 1, "neoverse-n1": 2, "neoverse-v1": 4, "neoverse-v2": 4}
# What multiplies, by element: fmla of floats; dot and matrix products; widening multiplications and products of 16 bits.
MULTIPLIES = r"\b(fmla|fmlal2?|bfdot|bfmmla|bfmlal[bt]|sdot|udot|usdot|sudot|us?mmla|smmla|mul(?! vl)|mla|[su]mlal2?|[su]mull2?)\b"

# What gathers four floats at x0: where their indices come from, the code that is made (128 bits: by NEON) and what SVE would do instead.
GATHERS = {
    "indices in memory, of 64 bits": (
        "ldp x3, x4, [x1], #32; ldp x5, x6, [x1, #-16]; add x4, x0, x4, lsl #2; add x5, x0, x5, lsl #2; add x6, x0, x6, lsl #2;"
        "ldr s3, [x0, x3, lsl #2]; ld1 {v3.s}[1], [x4]; ld1 {v3.s}[2], [x5]; ld1 {v3.s}[3], [x6]; str q3, [x2], #16",
        "ldp q1, q2, [x1], #32; ld1w {z3.d}, p0/z, [x0, z1.d, lsl #2]; ld1w {z4.d}, p0/z, [x0, z2.d, lsl #2]; uzp1 z3.s, z3.s, z4.s; str q3, [x2], #16"),
    "computed, of 64 bits": (
        "add v1.2d, v1.2d, v20.2d; add v2.2d, v2.2d, v20.2d; fmov x3, d1; mov x4, v1.d[1]; fmov x5, d2; mov x6, v2.d[1];"
        "ldr s3, [x3]; ld1 {v3.s}[1], [x4]; ld1 {v3.s}[2], [x5]; ld1 {v3.s}[3], [x6]; str q3, [x2], #16",
        "add v1.2d, v1.2d, v20.2d; add v2.2d, v2.2d, v20.2d; ld1w {z3.d}, p0/z, [z1.d]; ld1w {z4.d}, p0/z, [z2.d]; uzp1 z3.s, z3.s, z4.s; str q3, [x2], #16"),
    "computed, of 32 bits": (
        "add v1.4s, v1.4s, v20.4s; fmov w3, s1; mov w4, v1.s[1]; mov w5, v1.s[2]; mov w6, v1.s[3];"
        "ldr s3, [x0, w3, sxtw #2]; ldr s4, [x0, w4, sxtw #2]; ldr s5, [x0, w5, sxtw #2]; ldr s6, [x0, w6, sxtw #2];"
        "mov v3.s[1], v4.s[0]; mov v3.s[2], v5.s[0]; mov v3.s[3], v6.s[0]; str q3, [x2], #16",
        "add v1.4s, v1.4s, v20.4s; ld1w {z3.s}, p0/z, [x0, z1.s, sxtw #2]; str q3, [x2], #16"),
}


def value(name, kind, dims):
    return h.make_tensor_value_info(name, kind, dims)


def models():
    """Name: (node, input, output, weights)."""
    rng = np.random.default_rng(0)
    f = lambda *dims: rng.standard_normal(dims).astype(np.float32)
    conv = lambda **a: h.make_node("Conv", ["x", "w"], ["y"], **a)
    x = lambda *dims: value("x", T.FLOAT, dims)
    y = lambda *dims: value("y", T.FLOAT, dims)
    return {
        "product 128x768x768": (h.make_node("MatMul", ["x", "w"], ["y"]), x(128, 768), y(128, 768), {"w": f(768, 768)}),
        "product 64x3072x768": (h.make_node("MatMul", ["x", "w"], ["y"]), x(64, 3072), y(64, 768), {"w": f(3072, 768)}),
        "convolution 1x1, 256 of 28x28": (conv(), x(1, 256, 28, 28), y(1, 256, 28, 28), {"w": f(256, 256, 1, 1)}),
        "convolution 3x3 by 2, 64 of 57x57": (conv(pads=[1] * 4, strides=[2, 2]), x(1, 64, 57, 57), y(1, 128, 29, 29), {"w": f(128, 64, 3, 3)}),
        "convolution 3x3, 64 of 56x56": (conv(pads=[1] * 4), x(1, 64, 56, 56), y(1, 64, 56, 56), {"w": f(64, 64, 3, 3)}),
        "bytes 128x768x768": (h.make_node("MatMulInteger", ["x", "w", "z"], ["y"]), value("x", T.UINT8, (128, 768)), value("y", T.INT32, (128, 768)),
                              {"w": rng.integers(-128, 128, (768, 768)).astype(np.int8), "z": np.uint8(128)}),
    }


def write(path, node, x, y, weights):
    graph = h.make_graph([node], "g", [x], [y], [nh.from_array(np.asarray(v), k) for k, v in weights.items()])
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8), path)


def useful(block):
    """Multiply-adds for the result, of 128 bits (V1's SVE registers are two of these): of bytes those by lane, where there are such; SDOTs of B alone make up for A's signs."""
    all_of_them = [i for i in block if re.search(MULTIPLIES, i)]
    rows = [i for i in all_of_them if re.search(r"\bs?u?dot\b.*\.4?b\[", i)]
    return sum(2 if re.search(r"\bz\d", i) else 1 for i in rows or all_of_them)


def loops(text):
    """Blocks that branch to themselves."""
    label, block = None, []
    for line in text.splitlines():
        start = re.match(r"(\.LBB\w+):", line)
        if start:
            label, block = start[1], []
            continue
        if not re.match(r"\s*//", line):
            block.append(line)
        if label and re.search(rf"\b(b\.\w+|cbn?z|tbn?z)\b.*{re.escape(label)}$", line):
            yield block
            label, block = None, []


def inner_loop(build, model, cpu, kind):
    env = dict(os.environ, TCCC_LIBDIR=build)
    # The dump's registers, not the operands' types, say what it does; nothing is linked.
    text = subprocess.run([f"{build}/tccc", "-q", f"--march={cpu}", "--dump-ir=asm", *kind, model], capture_output=True, text=True, env=env, check=True).stdout
    count = lambda block: sum(bool(re.search(MULTIPLIES, i)) for i in block)
    blocks = list(loops(text))
    # Winograd's transforms multiply too, among many additions.
    return max([b for b in blocks if 2.5 * count(b) > len(b)] or blocks, key=count)


def measure(block, cpu):
    """Cycles an iteration, and how long each resource is busy."""
    done = subprocess.run([os.environ.get("LLVM_MCA", "llvm-mca-19"), "-mtriple=aarch64", f"-mcpu={cpu}", "-iterations=200", "-resource-pressure"],
                          input="\n".join(block), capture_output=True, text=True, check=True).stdout
    cycles = int(re.search(r"Total Cycles:\s+(\d+)", done)[1]) / 200
    names = re.findall(r"^\[([\d.]+)\]\s+- (\w+)", done, re.M)
    busy = re.search(r"Resource pressure per iteration:\n.*\n(.*)\n", done)[1].split()
    return cycles, {name: float(b) for (_, name), b in zip(names, busy) if b != "-"}


def bound(cycles, busy):
    name, most = max(busy.items(), key=lambda x: x[1])
    unit = re.sub(r"^([A-Z]\d+)Unit", "", name)
    if most < 0.9 * cycles:
        return f"waits (busiest: {unit}, {100 * most / cycles:.0f} %)"
    return f"pipe {unit}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("cpus", nargs="*", metavar="CPU")
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--least", type=float, default=0)
    parser.add_argument("--show", default="")
    parser.add_argument("--gathers", action="store_true")
    args = parser.parse_args()
    build, bad = os.path.abspath(args.build), False
    row = (lambda *c: print("| " + " | ".join(c) + " |")) if args.markdown else (lambda *c: print(*(f"{x:<36}" if i == 0 else f"{x:<12}" for i, x in enumerate(c))))
    if args.gathers:
        row("gather of four floats", "processor", "NEON", "SVE")
        for name, ways in GATHERS.items():
            for cpu in args.cpus or ("neoverse-n2", "neoverse-v2"):
                row(name, cpu, *(f"{measure(way.split(';'), cpu)[0]:.1f}" for way in ways))
        return
    row("loop", "processor", "multiply-adds", "loads", "cycles", "share", "bound by")
    if args.markdown:
        row(*["---"] * 7)
    with tempfile.TemporaryDirectory() as tmp:
        path = f"{tmp}/model.onnx"
        for name, model in models().items():
            write(path, *model)
            for cpu in args.cpus or PIPES:
                for kind, options in (("bytes", ()),) if "bytes" in name else (("f32", ()), ("bf16", ("--auto-cast=matmul",)), ("f16", ("--auto-cast=matmul", "--auto-cast-type=fp16"))) if "product 128" in name else (("f32", ()),):
                    block = inner_loop(build, path, cpu, options)
                    cycles, busy = measure(block, cpu)
                    if args.show == f"{name}:{cpu}":
                        print("\n".join(block))
                    multiplies = useful(block)
                    share = multiplies / cycles / PIPES[cpu]
                    bad |= 100 * share < args.least
                    row(f"{name} {'' if kind == 'bytes' else kind}".strip(), cpu, str(multiplies), str(sum(bool(re.search(r"^\s*ld", i)) for i in block)), f"{cycles:.1f}", f"{100 * share:.0f} %", bound(cycles, busy))
    sys.exit(bad)


main()
