# SPDX-License-Identifier: Apache-2.0
# Hand-written kernels in the PTX simulator against NumPy: reduction, transpose through shared memory, every shape of mma.sync by the
# fragment maps of the PTX ISA's figures, GEMM with ldmatrix and cp.async in two buffers, operations between lanes, atomics.
# Usage: kernels.py TCCC-PTXSIM FOLDER. Prints TAP.
import os
import subprocess
import sys

import numpy as np

tool, folder = sys.argv[1:]
rng = np.random.default_rng(2)
HEAD = ".version 8.7\n.target sm_90\n.address_size 64\n"
tests = []

def run(name, text, launch, inputs, out_bytes, dtype, seed=0, options=()):
    path = os.path.join(folder, name + ".ptx")
    open(path, "w").write(HEAD + text)
    if os.environ.get("PTXAS"):
        subprocess.run([os.environ["PTXAS"], "-arch=sm_90", "-o", os.devnull, path], check=True)
    args = []
    for k, x in enumerate(inputs):
        if isinstance(x, np.ndarray):
            x.tofile("%s.%d" % (path, k))
            x = "@%s.%d" % (path, k)
        args += ["--arg", str(x)]
    args += ["--arg", "new:%d,out=%s.out" % (out_bytes, path)]
    r = subprocess.run([tool, path, "--launch", launch, "--seed", str(seed), *args, *options], capture_output=True, text=True)
    if r.returncode:
        raise AssertionError(r.stderr.strip())
    return np.fromfile(path + ".out", dtype=dtype), r.stdout

def test(f):
    tests.append(f)
    return f

def bf16(x):
    bits = x.astype(np.float32).view(np.uint32)
    return ((bits + 0x7fff + (bits >> 16 & 1)) >> 16).astype(np.uint16)

def from_bf16(h):
    return (h.astype(np.uint32) << 16).view(np.float32)

REGS = ".reg .pred %p<8>; .reg .b16 %h<8>; .reg .b32 %r<64>; .reg .f32 %f<32>; .reg .b64 %d<32>; .reg .f64 %g<16>;\n"

@test
def reduction():
    """Sum of 5000 floats by blocks of 256: strided loads, shared-memory tree, one atomic addition a block."""
    text = ".visible .entry k(.param .u64 a, .param .u32 n, .param .u64 o) {" + REGS + """.shared .align 4 .f32 s[8];
    ld.param.u64 %d1, [a]; ld.param.u32 %r1, [n]; ld.param.u64 %d2, [o];
    mov.u32 %r2, %tid.x; mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ntid.x; mad.lo.u32 %r5, %r3, %r4, %r2; mov.u32 %r6, %nctaid.x; mul.lo.u32 %r6, %r6, %r4;
    mov.f32 %f1, 0f00000000;
LOOP: setp.ge.u32 %p1, %r5, %r1; @%p1 bra DONE;
    mad.wide.u32 %d3, %r5, 4, %d1; ld.global.f32 %f2, [%d3]; add.rn.f32 %f1, %f1, %f2; add.u32 %r5, %r5, %r6; bra LOOP;
DONE: shfl.sync.bfly.b32 %r7, %f1, 16, 31, -1; mov.b32 %f2, %r7; add.f32 %f1, %f1, %f2;
    shfl.sync.bfly.b32 %r7, %f1, 8, 31, -1; mov.b32 %f2, %r7; add.f32 %f1, %f1, %f2;
    shfl.sync.bfly.b32 %r7, %f1, 4, 31, -1; mov.b32 %f2, %r7; add.f32 %f1, %f1, %f2;
    shfl.sync.bfly.b32 %r7, %f1, 2, 31, -1; mov.b32 %f2, %r7; add.f32 %f1, %f1, %f2;
    shfl.sync.bfly.b32 %r7, %f1, 1, 31, -1; mov.b32 %f2, %r7; add.f32 %f1, %f1, %f2;
    mov.u32 %r8, s; mov.u32 %r9, %laneid; mov.u32 %r10, %warpid; mad.lo.u32 %r11, %r10, 4, %r8;
    setp.eq.u32 %p2, %r9, 0; @%p2 st.shared.f32 [%r11], %f1;
    bar.sync 0;
    setp.ne.u32 %p3, %r2, 0; @%p3 bra END;
    ld.shared.v4.f32 {%f3,%f4,%f5,%f6}, [s]; ld.shared.v4.f32 {%f7,%f8,%f9,%f10}, [s+16];
    add.f32 %f3,%f3,%f4; add.f32 %f5,%f5,%f6; add.f32 %f7,%f7,%f8; add.f32 %f9,%f9,%f10; add.f32 %f3,%f3,%f5; add.f32 %f7,%f7,%f9; add.f32 %f3,%f3,%f7;
    mad.wide.u32 %d4, %r3, 4, %d2; st.global.f32 [%d4], %f3;
END: ret; }""".replace(".align 4 .f32 s[8]", ".align 16 .f32 s[8]")
    a = rng.integers(-50, 50, 5000).astype(np.float32)
    for seed in range(3):
        got, _ = run("reduction", text, "k:4:256", [a, 5000], 16, np.float32, seed)
        assert got.sum() == a.sum(), (got, a.sum())

@test
def transpose():
    """64 x 64 words by 32 x 8 threads through padded shared memory: the right values, all accesses coalesced, no conflict."""
    for pitch, conflicts in ((33, False), (32, True)):
        text = ".visible .entry k(.param .u64 a, .param .u64 o) {" + REGS + """.shared .align 4 .b32 s[1056];
        ld.param.u64 %d1, [a]; ld.param.u64 %d2, [o]; mov.u32 %r1, %tid.x; mov.u32 %r2, %tid.y; mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ctaid.y; mov.u32 %r5, 0; mov.u32 %r20, s;
    L1: add.u32 %r6, %r2, %r5; mad.lo.u32 %r7, %r4, 32, %r6; mad.lo.u32 %r8, %r3, 32, %r1; mad.lo.u32 %r9, %r7, 64, %r8; mad.wide.u32 %d3, %r9, 4, %d1;
        ld.global.u32 %r10, [%d3]; mad.lo.u32 %r11, %r6, PITCH, %r1; mad.lo.u32 %r11, %r11, 4, %r20; st.shared.u32 [%r11], %r10;
        add.u32 %r5, %r5, 8; setp.lt.u32 %p1, %r5, 32; @%p1 bra L1;
        bar.sync 0; mov.u32 %r5, 0;
    L2: add.u32 %r6, %r2, %r5; mad.lo.u32 %r7, %r3, 32, %r6; mad.lo.u32 %r8, %r4, 32, %r1; mad.lo.u32 %r9, %r7, 64, %r8; mad.wide.u32 %d3, %r9, 4, %d2;
        mad.lo.u32 %r11, %r1, PITCH, %r6; mad.lo.u32 %r11, %r11, 4, %r20; ld.shared.u32 %r10, [%r11]; st.global.u32 [%d3], %r10;
        add.u32 %r5, %r5, 8; setp.lt.u32 %p1, %r5, 32; @%p1 bra L2; ret; }""".replace("PITCH", str(pitch))
        a = rng.integers(0, 1 << 32, (64, 64), dtype=np.uint32)
        got, out = run("transpose", text, "k:2x2:32x8", [a], a.nbytes, np.uint32, 1, ["--counters"])
        assert (got.reshape(64, 64) == a.T).all()
        counts = [line for line in out.splitlines() if line.startswith(("global:", "shared:"))]
        assert counts[0] == "global: 256 requests, 1024 sectors, ideal 1024", counts[0]
        wavefronts = 128 + 128 * (32 if conflicts else 1)
        assert counts[1] == "shared: 256 requests, %d wavefronts, ideal 256" % wavefronts, counts[1]

# Fragments, as the ISA's figures give them: for each shape the (row, column) of element i of a register list in lane (g, t).
A_MAPS = {
    "16x8 16": lambda g, t, i: (g + 8 * (i >= 2), 2 * t + (i & 1)),
    "16x16 16": lambda g, t, i: (g if i in (0, 1, 4, 5) else g + 8, 2 * t + (i & 1) + (8 if i >= 4 else 0)),
    "16x4 32": lambda g, t, i: (g + 8 * i, t),
    "16x8 32": lambda g, t, i: (g if i in (0, 2) else g + 8, t if i < 2 else t + 4),
    "16x16 8": lambda g, t, i: (g if i < 4 else g + 8, 4 * t + (i & 3)),
    "16x32 8": lambda g, t, i: (g if i < 4 or 8 <= i < 12 else g + 8, 4 * t + (i & 3) + (0 if i < 8 else 16)),
    "8x16 8": lambda g, t, i: (g, 4 * t + i),
    "8x4 64": lambda g, t, i: (g, t),
    "16x4 64": lambda g, t, i: (g + 8 * i, t),
    "16x16 64": lambda g, t, i: (g + 8 * (i % 2), t + 2 * i if i % 2 == 0 else t + 2 * i - 2),
    "16x8 64": lambda g, t, i: (g if i in (0, 2) else g + 8, t if i < 2 else t + 4),
}
B_MAPS = {
    "8 16": lambda g, t, i: (2 * t + i, g), "16 16": lambda g, t, i: (2 * t + (i & 1) + (8 if i >= 2 else 0), g),
    "4 32": lambda g, t, i: (t, g), "8 32": lambda g, t, i: (t + 4 * i, g),
    "16 8": lambda g, t, i: (4 * t + i, g), "32 8": lambda g, t, i: (4 * t + (i & 3) + (16 if i >= 4 else 0), g),
    "4 64": lambda g, t, i: (t, g), "8 64": lambda g, t, i: (t + 4 * i, g), "16 64": lambda g, t, i: (t + 4 * i, g),
}

def pack(x, where, n, lanes=32):
    """Elements of matrix x in the order of the fragments: [lane][i]."""
    return np.array([[x[where(l >> 2, l & 3, i)] for i in range(n)] for l in range(lanes)])

# 8-bit floats by their code: exponent and mantissa bits, bias (PTX ISA, "Alternate floating point data formats").
def fp8_values(mantissa, bias):
    c = np.arange(256)
    e, f = (c & 127) >> mantissa, (c & ((1 << mantissa) - 1)) / (1 << mantissa)
    v = np.where(e == 0, f * 2.0 ** (1 - bias), (1 + f) * 2.0 ** (e - bias))
    return np.where(c >> 7, -v, v)
FP8 = {"e4m3": fp8_values(3, 7), "e5m2": fp8_values(2, 15)}

def mma(m, k, kind, code, d_type):
    bits = {"f16": 16, "bf16": 16, "tf32": 32, "s8": 8, "u8": 8, "f64": 64, "e4m3": 8, "e5m2": 8}[kind]
    word = 64 if bits == 64 else 32
    na, nb = m * k * bits // (32 * word), 8 * k * bits // (32 * word)
    whole = kind in ("s8", "u8")
    lo = -100 if kind == "s8" else 0
    fp8 = kind in ("e4m3", "e5m2")
    if fp8: # sums of fractions that a float holds exactly: codes of moderate size
        code_a, code_b = (rng.integers(*((0x28, 0x48) if kind == "e4m3" else (0x34, 0x44)), shape).astype(np.uint8) | rng.integers(0, 2, shape).astype(np.uint8) << 7
                          for shape in ((m, k), (k, 8)))
    a = FP8[kind][code_a] if fp8 else rng.integers(lo, 120, (m, k)) if whole else rng.integers(-64, 64, (m, k)) / 8
    b = FP8[kind][code_b] if fp8 else rng.integers(lo, 120, (k, 8)) if whole else rng.integers(-64, 64, (k, 8)) / 8
    c = rng.integers(-9, 9, (m, 8))
    to = {"f16": lambda x: x.astype(np.float16), "bf16": bf16, "tf32": lambda x: x.astype(np.float32), "f64": lambda x: x.astype(np.float64),
          "s8": lambda x: x.astype(np.int8)}.get(kind, lambda x: x.astype(np.uint8))
    fa = to(pack(code_a if fp8 else a, A_MAPS["%dx%d %d" % (m, k, bits)], na * word // bits))
    fb = to(pack(code_b if fp8 else b, B_MAPS["%d %d" % (k, bits)], nb * word // bits))
    c_map = lambda g, t, i: (g + 8 * (i >> 1), 2 * t + (i & 1))
    dt = {"f32": np.float32, "f16": np.float16, "s32": np.int32, "f64": np.float64}[d_type]
    fc = pack(c, c_map, m // 4).astype(dt)
    r, size = ("%d", 8) if word == 64 else ("%r", 4)
    nc = fc.nbytes // (32 * size)
    lists, loads, at = [], [], 10
    for name, n in (("a", na), ("b", nb), ("c", nc)):
        regs = ["%s%d" % (r, at + i) for i in range(n)]
        at += n
        loads += ["ld.param.u64 %%d1, [%s]; mad.wide.u32 %%d1, %%r1, %d, %%d1;" % (name, n * size)]
        loads += ["ld.global.b%d %s, [%%d1+%d];" % (size * 8, x, i * size) for i, x in enumerate(regs)]
        lists.append("{%s}" % ",".join(regs))
    text = ".visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 o) {" + REGS + "mov.u32 %r1, %tid.x;\n" + "\n".join(loads)
    text += "\nmma.sync.aligned.m%dn8k%d.row.col.%s.%s.%s.%s %s, %s, %s, %s;\n" % (m, k, d_type, code, code, d_type, lists[2], *lists)
    text += "ld.param.u64 %%d1, [o]; mad.wide.u32 %%d1, %%r1, %d, %%d1;\n" % (nc * size)
    text += "\n".join("st.global.b%d [%%d1+%d], %s;" % (size * 8, i * size, x) for i, x in enumerate(lists[2][1:-1].split(","))) + "\nret; }"
    got, _ = run("mma_%d_%d_%s_%s" % (m, k, kind, d_type), text, "k:1:32", [fa, fb, fc], fc.nbytes, dt)
    want = pack(a @ b + c, c_map, m // 4)
    assert (got.reshape(want.shape) == want.astype(dt)).all(), (m, k, kind)

@test
def mma_shapes():
    for m, k, kind, d in [(16, 8, "f16", "f32"), (16, 16, "f16", "f32"), (16, 16, "f16", "f16"), (16, 8, "f16", "f16"), (16, 8, "bf16", "f32"),
                          (16, 16, "bf16", "f32"), (16, 4, "tf32", "f32"), (16, 8, "tf32", "f32"), (16, 16, "s8", "s32"), (16, 32, "s8", "s32"),
                          (16, 32, "u8", "s32"), (8, 16, "s8", "s32"), (8, 4, "f64", "f64"), (16, 4, "f64", "f64"), (16, 8, "f64", "f64"), (16, 16, "f64", "f64"),
                          (16, 16, "e4m3", "f32"), (16, 32, "e4m3", "f32"), (16, 16, "e5m2", "f32"), (16, 32, "e5m2", "f32"), (16, 32, "e4m3", "f16")]:
        mma(m, k, kind, kind, d)

@test
def gemm():
    """64 x 32 x 96 in bf16: four warps, k-slabs of 32 by cp.async into two buffers, ldmatrix, mma.sync; each order gives the same bits."""
    K = 96
    text = ".visible .entry k(.param .u64 a, .param .u64 b, .param .u64 o) {" + REGS + """.shared .align 16 .b8 s[15360];
    ld.param.u64 %d1, [a]; ld.param.u64 %d2, [b]; ld.param.u64 %d3, [o]; mov.u32 %r1, %tid.x; mov.u32 %r2, s;
    shr.u32 %r3, %r1, 2; and.b32 %r4, %r1, 3;
    mad.lo.u32 %r5, %r3, 192, 0; mad.lo.u32 %r5, %r4, 16, %r5; cvt.u64.u32 %d4, %r5;
    add.s64 %d5, %d1, %d4; add.s64 %d6, %d2, %d4;
    mad.lo.u32 %r6, %r3, 80, %r2; mad.lo.u32 %r6, %r4, 16, %r6;
    mov.u32 %r7, 0; mov.u32 %r8, 0;
    """ + "\n".join("mov.f32 %%f%d, 0f00000000;" % i for i in range(16)) + """
    call_issue
    NEXT: add.u32 %r7, %r7, 1; setp.ge.u32 %p1, %r7, 3;
    @%p1 bra LAST;
    add.s64 %d5, %d5, 64; add.s64 %d6, %d6, 64; xor.b32 %r8, %r8, 1;
    call_issue
    cp.async.wait_group 1; bra COMPUTE;
    LAST: cp.async.wait_group 0; xor.b32 %r8, %r8, 1;
    COMPUTE: bar.sync 0;
    xor.b32 %r9, %r8, 1; mad.lo.u32 %r10, %r9, 7680, %r2;
    shr.u32 %r11, %r1, 5; and.b32 %r12, %r1, 31; and.b32 %r13, %r12, 15; shr.u32 %r14, %r12, 4;
    mad.lo.u32 %r15, %r11, 16, %r13; mad.lo.u32 %r15, %r15, 80, %r10; mad.lo.u32 %r15, %r14, 16, %r15;
    and.b32 %r16, %r12, 7; shr.u32 %r17, %r12, 3; and.b32 %r18, %r17, 1; shr.u32 %r19, %r17, 1;
    mad.lo.u32 %r16, %r19, 8, %r16; mad.lo.u32 %r20, %r16, 80, %r10; mad.lo.u32 %r20, %r18, 16, %r20; add.u32 %r20, %r20, 5120;
    """ + "\n".join("""ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%%r30,%%r31,%%r32,%%r33}, [%%r15+%d];
    ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%%r34,%%r35,%%r36,%%r37}, [%%r20+%d];
    ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%%r38,%%r39,%%r40,%%r41}, [%%r20+%d];""" % (32 * s, 32 * s, 1280 + 32 * s) + "".join(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%%f%d,%%f%d,%%f%d,%%f%d}, {%%r30,%%r31,%%r32,%%r33}, {%%r%d,%%r%d}, {%%f%d,%%f%d,%%f%d,%%f%d};\n"
        % (*range(4 * j, 4 * j + 4), 34 + 2 * j, 35 + 2 * j, *range(4 * j, 4 * j + 4)) for j in range(4)) for s in range(2)) + """
    bar.sync 0; @!%p1 bra NEXT;
    shr.u32 %r21, %r12, 2; mad.lo.u32 %r21, %r11, 16, %r21; and.b32 %r22, %r12, 3; shl.b32 %r22, %r22, 1; mad.lo.u32 %r23, %r21, 32, %r22; mad.wide.u32 %d7, %r23, 4, %d3;
    """ + "\n".join("st.global.v2.f32 [%%d7+%d], {%%f%d,%%f%d}; st.global.v2.f32 [%%d7+%d], {%%f%d,%%f%d};" % (32 * j, 4 * j, 4 * j + 1, 1024 + 32 * j, 4 * j + 2, 4 * j + 3)
                    for j in range(4)) + "\nret; }"
    issue = """mad.lo.u32 %r25, %r8, 7680, %r6;
    cp.async.cg.shared.global [%r25], [%d5], 16; cp.async.cg.shared.global [%r25+2560], [%d5+6144], 16; cp.async.cg.shared.global [%r25+5120], [%d6], 16; cp.async.commit_group;"""
    text = text.replace("call_issue", issue)
    a, b = bf16(rng.normal(size=(64, K))), bf16(rng.normal(size=(32, K)))
    want = from_bf16(a).astype(np.float64) @ from_bf16(b).astype(np.float64).T
    first = None
    for seed in range(6):
        got, out = run("gemm", text, "k:1:128", [a, b], 64 * 32 * 4, np.float32, seed, ["--counters"])
        assert np.abs(got.reshape(64, 32) - want).max() < 1e-4, np.abs(got.reshape(64, 32) - want).max()
        first = got if first is None else first
        assert (got == first).all()
    assert "mma 96, asynchronous copies 36" in out, out
    try:
        run("gemm_early", text.replace("cp.async.wait_group 1", "cp.async.wait_group 2"), "k:1:128", [a, b], 64 * 32 * 4, np.float32)
    except AssertionError as e:
        assert "async-copy" in str(e), e
    else:
        raise AssertionError("reading before the wait is not found")

@test
def lanes():
    """shfl in its modes and widths, vote, match, redux against their definitions."""
    body, models = [], []
    x = rng.integers(0, 6, 32).astype(np.uint32)
    lane = np.arange(32)
    for c, width in ((31, 32), (0x1800 + 7 if False else (24 << 8) + 31, 8)):
        seg = lane // width * width
        for mode, j in (("down", lane + 3), ("bfly", lane ^ 5), ("idx", seg + (9 % width)), ("up", lane - 3)):
            clamp = c if mode != "up" else c & ~31
            good = (j >= seg) if mode == "up" else (j < seg + width)
            op = {"down": 3, "bfly": 5, "idx": 9, "up": 3}[mode]
            body.append("shfl.sync.%s.b32 %%r3|%%p1, %%r2, %d, %d, -1; selp.u32 %%r4, 100, 0, %%p1; add.u32 %%r3, %%r3, %%r4;" % (mode, op, clamp))
            models.append(np.where(good, x[np.clip(j, 0, 31)] + 100, x))
    body.append("setp.gt.u32 %p1, %r2, 2; vote.sync.ballot.b32 %r3, %p1, -1;")
    models.append(np.full(32, sum(1 << int(i) for i in lane if x[i] > 2)))
    for how, f in (("any", any), ("all", all)):
        body.append("setp.gt.u32 %%p1, %%r2, 2; vote.sync.%s.pred %%p2, %%p1, -1; selp.u32 %%r3, 1, 0, %%p2;" % how)
        models.append(np.full(32, int(f(x > 2))))
    body.append("match.any.sync.b32 %r3, %r2, -1;")
    models.append([sum(1 << int(i) for i in lane if x[i] == v) for v in x])
    for op, f in (("add", np.sum), ("min", np.min), ("max", np.max), ("or", np.bitwise_or.reduce), ("xor", np.bitwise_xor.reduce), ("and", np.bitwise_and.reduce)):
        body.append("redux.sync.%s.%s %%r3, %%r2, -1;" % (op, "u32" if op in ("add", "min", "max") else "b32"))
        models.append(np.full(32, f(x)))
    body.append("activemask.b32 %r3;")
    models.append(np.full(32, 0xffffffff))
    text = ".visible .entry k(.param .u64 a, .param .u64 o) {" + REGS + "ld.param.u64 %d1, [a]; ld.param.u64 %d2, [o]; mov.u32 %r1, %tid.x; mad.wide.u32 %d1, %r1, 4, %d1; mad.wide.u32 %d2, %r1, 4, %d2; ld.global.u32 %r2, [%d1];\n"
    text += "\n".join(b + " st.global.u32 [%d2], %r3; add.s64 %d2, %d2, 128;" for b in body) + "\nret; }"
    got, _ = run("lanes", text, "k:1:32", [x], 128 * len(body), np.uint32)
    for b, row, want in zip(body, got.reshape(-1, 32), models):
        assert (row == np.asarray(want, dtype=np.uint64).astype(np.uint32)).all(), (b, row, want)

@test
def divergence():
    """Nested loops and branches by lane: the Collatz steps of each thread's number."""
    text = ".visible .entry k(.param .u64 o) {" + REGS + """ld.param.u64 %d1, [o]; mov.u32 %r1, %tid.x; mad.wide.u32 %d1, %r1, 4, %d1; add.u32 %r2, %r1, 1; mov.u32 %r3, 0;
    LOOP: setp.eq.u32 %p1, %r2, 1; @%p1 bra END; and.b32 %r4, %r2, 1; setp.eq.u32 %p2, %r4, 0; @%p2 bra EVEN;
    mad.lo.u32 %r2, %r2, 3, 1; bra STEP;
    EVEN: shr.u32 %r2, %r2, 1;
    STEP: add.u32 %r3, %r3, 1; bra LOOP;
    END: activemask.b32 %r5; setp.ne.u32 %p3, %r5, -1; @%p3 trap; st.global.u32 [%d1], %r3; ret; }"""
    got, _ = run("divergence", text, "k:1:128", [], 512, np.uint32)
    for i in range(128):
        n, steps = i + 1, 0
        while n != 1:
            n, steps = (n // 2 if n % 2 == 0 else 3 * n + 1), steps + 1
        assert got[i] == steps

@test
def atomics():
    """Each operation by 256 threads in 4 blocks on one word, where the result does not depend on the order; cas as a lock-free maximum."""
    x = rng.integers(1, 1 << 31, 256).astype(np.uint32)
    cells = np.array([0, 0xffffffff, 0, 0xffffffff, 0, 0, 0, 0], dtype=np.uint32)
    text = ".visible .entry k(.param .u64 a, .param .u64 c, .param .u64 o) {" + REGS + """ld.param.u64 %d1, [a]; ld.param.u64 %d2, [c]; ld.param.u64 %d3, [o];
    mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mad.lo.u32 %r1, %r2, 64, %r1; mad.wide.u32 %d1, %r1, 4, %d1; ld.global.u32 %r3, [%d1];
    red.global.add.u32 [%d2], %r3; red.global.min.u32 [%d2+4], %r3; atom.global.max.u32 %r4, [%d2+8], %r3; atom.global.and.b32 %r4, [%d2+12], %r3;
    atom.global.or.b32 %r4, [%d2+16], %r3; atom.global.xor.b32 %r4, [%d2+20], %r3; atom.global.inc.u32 %r5, [%d2+24], 99;
    ld.volatile.global.u32 %r6, [%d2+28];
    AGAIN: max.u32 %r7, %r6, %r3; atom.global.cas.b32 %r8, [%d2+28], %r6, %r7; setp.ne.u32 %p1, %r8, %r6; mov.u32 %r6, %r8; @%p1 bra AGAIN;
    mad.wide.u32 %d4, %r1, 4, %d3; st.global.u32 [%d4], %r5; ret; }"""
    path = os.path.join(folder, "cells")
    open(path + ".ptx", "w").write(HEAD + text)
    x.tofile(path + ".x")
    cells.tofile(path + ".c")
    subprocess.run([tool, path + ".ptx", "--launch", "k:4:64", "--arg", "@%s.x" % path, "--arg", "@%s.c,out=%s.o" % (path, path), "--arg", "new:1024,out=%s.i" % path],
                   check=True, stdout=subprocess.DEVNULL)
    got, turns = np.fromfile(path + ".o", dtype=np.uint32), np.fromfile(path + ".i", dtype=np.uint32)
    want = [x.sum(dtype=np.uint32), x.min(), x.max(), np.bitwise_and.reduce(x), np.bitwise_or.reduce(x), np.bitwise_xor.reduce(x), 256 % 100, x.max()]
    assert (got == np.array(want, dtype=np.uint32)).all(), (got, want)
    assert (np.sort(turns) == np.sort(np.arange(256) % 100)).all()

@test
def functions():
    """Calls with parameters by value, local memory, a call in divergent code, dynamic shared memory."""
    text = """.func (.param .f64 r) f (.param .b64 x, .param .b32 n) { .reg .f64 %v<4>; .reg .b32 %i<4>; .reg .b64 %a<4>; .local .align 8 .f64 t[2];
    ld.param.f64 %v1, [x]; ld.param.u32 %i1, [n]; st.local.f64 [t+8], %v1; cvt.rn.f64.u32 %v2, %i1; ld.local.f64 %v3, [t+8]; fma.rn.f64 %v1, %v3, %v2, %v2; st.param.f64 [r], %v1; ret; }
    .extern .shared .align 8 .b8 dyn[];
    .visible .entry k(.param .u64 o) {""" + REGS + """ld.param.u64 %d1, [o]; mov.u32 %r1, %tid.x; mad.wide.u32 %d1, %r1, 8, %d1; cvt.rn.f64.u32 %g1, %r1; mov.f64 %g2, %g1;
    setp.lt.u32 %p1, %r1, 40; @!%p1 bra SKIP;
    { .param .f64 pr; .param .b64 p0; .param .b32 p1; st.param.f64 [p0], %g1; st.param.b32 [p1], %r1; call.uni (pr), f, (p0, p1); ld.param.f64 %g2, [pr]; }
    SKIP: mov.u64 %d2, dyn; cvta.shared.u64 %d2, %d2; mad.wide.u32 %d2, %r1, 8, %d2; st.f64 [%d2], %g2; bar.sync 0; ld.f64 %g3, [%d2]; st.global.f64 [%d1], %g3; ret; }"""
    got, _ = run("functions", text, "k:1:64:512", [], 512, np.float64)
    n = np.arange(64.0)
    assert (got == np.where(n < 40, n * n + n, n)).all(), got

def rows(name, body, x, models, regs=REGS, dtype=np.uint32):
    """Each line of body leaves its result of lane %r1's input %r2 in %r3: compared with models."""
    text = ".visible .entry k(.param .u64 a, .param .u64 o) {" + regs + "ld.param.u64 %d1, [a]; ld.param.u64 %d2, [o]; mov.u32 %r1, %tid.x; mad.wide.u32 %d1, %r1, 4, %d1; mad.wide.u32 %d2, %r1, 4, %d2; ld.global.u32 %r2, [%d1];\n"
    text += "\n".join(b + " st.global.u32 [%%d2], %%r3; add.s64 %%d2, %%d2, %d;" % (4 * len(x)) for b in body) + "\nret; }"
    got, _ = run(name, text, "k:1:%d" % len(x), [x], 4 * len(x) * len(body), dtype)
    for b, row, want in zip(body, got.reshape(-1, len(x)), models):
        assert (row == np.asarray(want).astype(np.int64).astype(np.uint32)).all(), (b, row, want)

@test
def more_lanes():
    """match.all, redux of signed integers, elect, fns by the ISA's pseudo-code."""
    x = rng.integers(-1 << 31, 1 << 31, 32).astype(np.int64)
    lane = np.arange(32)
    body = ["match.all.sync.b32 %r3|%p1, %r2, -1; selp.u32 %r4, 1, 0, %p1; add.u32 %r3, %r3, %r4;",
            "mov.u32 %r5, 7; match.all.sync.b32 %r3|%p1, %r5, -1; selp.u32 %r4, 1, 0, %p1; add.u32 %r3, %r3, %r4;",
            "shr.u32 %r5, %r1, 4; mov.u32 %r3, 0; setp.lt.u32 %p2, %r1, 8; mov.u32 %r6, 3; @%p2 match.all.sync.b32 %r3|%p1, %r6, 0xff;",
            "elect.sync %r3|%p1, -1; selp.u32 %r4, 100, 0, %p1; add.u32 %r3, %r3, %r4;",
            "mov.u32 %r3, 55; setp.ge.u32 %p2, %r1, 5; @%p2 elect.sync %r3|%p1, 0xffffffe0;"]
    models = [np.zeros(32), np.zeros(32), np.where(lane < 8, 0xff, 0), np.where(lane == 0, 100, 0), np.where(lane < 5, 55, 5)]
    models[1] = np.full(32, (0xffffffff + 1) & 0xffffffff)
    for op, f in (("add", np.sum), ("min", np.min), ("max", np.max)):
        body.append("redux.sync.%s.s32 %%r3, %%r2, -1;" % op)
        models.append(np.full(32, f(x) & 0xffffffff))

    def fns(mask, base, offset):
        if offset == 0:
            return base if mask >> base & 1 else 0xffffffff
        pos, step, count = base, 1 if offset > 0 else -1, 0
        while 0 <= pos < 32:
            if mask >> pos & 1:
                count += 1
                if count == abs(offset):
                    return pos
            pos += step
        return 0xffffffff
    for base, offset in ((0, 3), (7, 1), (31, -2), (12, 0), (20, -40), (4, -1)):
        body.append("fns.b32 %%r3, %%r2, %d, %d;" % (base, offset))
        models.append([fns(int(v) & 0xffffffff, base, offset) for v in x])
    rows("more_lanes", body, x.astype(np.int32).view(np.uint32), models)

@test
def barrier_reductions():
    """bar.red over 96 threads of three warps: popc, and, or; barrier.red with a thread count."""
    x = rng.integers(0, 100, 96).astype(np.uint32)
    body, models = [], []
    for limit in (0, 50, 99, 100):
        some = x < limit
        body += ["setp.lt.u32 %%p1, %%r2, %d; bar.red.popc.u32 %%r3, 0, %%p1;" % limit,
                 "setp.lt.u32 %%p1, %%r2, %d; bar.red.and.pred %%p2, 0, %%p1; selp.u32 %%r3, 1, 0, %%p2;" % limit,
                 "setp.lt.u32 %%p1, %%r2, %d; barrier.cta.red.or.pred %%p2, 1, 96, %%p1; selp.u32 %%r3, 1, 0, %%p2;" % limit,
                 "setp.lt.u32 %%p1, %%r2, %d; bar.red.popc.u32 %%r3, 0, !%%p1;" % limit]
        models += [np.full(96, some.sum()), np.full(96, some.all()), np.full(96, some.any()), np.full(96, (~some).sum())]
    rows("barrier_reductions", body, x, models)

@test
def float_atomics():
    """atom and red on floats, whose values are small integers: sums are exact in any order. Vectors of them, and pairs."""
    x = rng.integers(-20, 21, 64).astype(np.float32)
    cells = np.zeros(64, np.uint8)
    text = ".visible .entry k(.param .u64 a, .param .u64 c) {" + REGS + """ld.param.u64 %d1, [a]; ld.param.u64 %d2, [c]; mov.u32 %r1, %tid.x; mad.wide.u32 %d1, %r1, 4, %d1; ld.global.f32 %f1, [%d1];
    red.global.add.f32 [%d2], %f1; cvt.f64.f32 %g1, %f1; atom.global.add.f64 %g2, [%d2+8], %g1;
    cvt.rn.f16.f32 %h1, %f1; mov.b32 %r2, {%h1, %h1}; red.global.add.noftz.f16x2 [%d2+16], %r2;
    cvt.rn.bf16.f32 %h2, %f1; mov.b32 %r3, {%h2, %h2}; red.global.add.noftz.bf16x2 [%d2+20], %r3; atom.global.add.noftz.f16 %h3, [%d2+24], %h1;
    neg.f32 %f2, %f1; add.f32 %f3, %f1, %f1; red.global.add.v4.f32 [%d2+32], {%f1, %f2, %f3, %f1}; atom.global.add.v2.f32 {%f4, %f5}, [%d2+48], {%f1, %f3};
    ret; }"""
    path = os.path.join(folder, "float_cells")
    open(path + ".ptx", "w").write(HEAD + text)
    x.tofile(path + ".x")
    cells.tofile(path + ".c")
    subprocess.run([tool, path + ".ptx", "--launch", "k:1:64", "--arg", "@%s.x" % path, "--arg", "@%s.c,out=%s.o" % (path, path)], check=True, stdout=subprocess.DEVNULL)
    got, s = np.fromfile(path + ".o", dtype=np.uint8), x.sum()
    f32, f16 = got.view(np.float32), got.view(np.float16)
    assert f32[0] == s and got.view(np.float64)[1] == s and (f16[8:10] == s).all() and (from_bf16(got.view(np.uint16)[10:12]) == s).all() and f16[12] == s, (f32, s)
    assert (f32[8:12] == [s, -s, 2 * s, s]).all() and (f32[12:14] == [s, 2 * s]).all(), (f32, s)

@test
def matrices():
    """stmatrix and ldmatrix, plain and transposed, movmatrix: each against the figure's map of an 8x8 matrix to lanes."""
    x = rng.integers(0, 1 << 16, (4, 8, 8)).astype(np.uint16)
    frag = np.array([[[x[m, l >> 2, 2 * (l & 3)], x[m, l >> 2, 2 * (l & 3) + 1]] for m in range(4)] for l in range(32)], dtype=np.uint16) # [lane][matrix][2]
    for n in (1, 2, 4):
        for trans in (False, True):
            regs = ",".join("%%r%d" % (10 + i) for i in range(n))
            text = ".visible .entry k(.param .u64 a, .param .u64 o) {" + REGS + ".shared .align 16 .b8 s[512];\nld.param.u64 %d1, [a]; ld.param.u64 %d2, [o]; mov.u32 %r1, %tid.x; mad.wide.u32 %d3, %r1, 16, %d1;"
            text += "".join("ld.global.u32 %%r%d, [%%d3+%d];" % (10 + i, 4 * i) for i in range(n))
            text += "shl.b32 %%r2, %%r1, 4; mov.u32 %%r3, s; add.u32 %%r2, %%r2, %%r3; stmatrix.sync.aligned.m8n8.x%d%s.shared.b16 [%%r2], {%s}; bar.sync 0;" % (n, ".trans" if trans else "", regs)
            text += "setp.lt.u32 %%p1, %%r1, %d; mad.wide.u32 %%d4, %%r1, 16, %%d2; @!%%p1 bra E; ld.shared.v4.u32 {%%r20,%%r21,%%r22,%%r23}, [%%r2]; st.global.v4.u32 [%%d4], {%%r20,%%r21,%%r22,%%r23}; E: ret; }" % (8 * n)
            got, _ = run("stmatrix%d%d" % (n, trans), text, "k:1:32", [frag], 128 * n, np.uint16)
            want = x[:n].transpose(0, 2, 1) if trans else x[:n]
            assert (got.reshape(n, 8, 8) == want).all(), (n, trans)
    text = ".visible .entry k(.param .u64 a, .param .u64 o) {" + REGS + "ld.param.u64 %d1, [a]; ld.param.u64 %d2, [o]; mov.u32 %r1, %tid.x; mad.wide.u32 %d1, %r1, 4, %d1; mad.wide.u32 %d2, %r1, 4, %d2; ld.global.u32 %r2, [%d1]; movmatrix.sync.aligned.m8n8.trans.b16 %r3, %r2; st.global.u32 [%d2], %r3; ret; }"
    got, _ = run("movmatrix", text, "k:1:32", [np.ascontiguousarray(frag[:, 0])], 128, np.uint16)
    t = x[0].T
    assert (got.reshape(32, 2) == [[t[l >> 2, 2 * (l & 3)], t[l >> 2, 2 * (l & 3) + 1]] for l in range(32)]).all()

@test
def copies_on_mbarriers():
    """cp.async.mbarrier.arrive, with the count raised (net 0: a plain arrival follows) and with .noinc."""
    x = rng.integers(0, 1 << 31, 64).astype(np.uint32)
    for noinc in (False, True):
        text = ".visible .entry k(.param .u64 a, .param .u64 o) {" + REGS + """.shared .align 16 .b8 s[256]; .shared .align 8 .b64 bar;
        ld.param.u64 %d1, [a]; ld.param.u64 %d2, [o]; mov.u32 %r1, %tid.x; mad.wide.u32 %d1, %r1, 4, %d1; mad.wide.u32 %d2, %r1, 4, %d2;
        setp.eq.u32 %p1, %r1, 0; @%p1 mbarrier.init.shared.b64 [bar], 64; bar.sync 0;
        shl.b32 %r2, %r1, 2; mov.u32 %r3, s; add.u32 %r4, %r3, %r2; cp.async.ca.shared.global [%r4], [%d1], 4; """
        text += "cp.async.mbarrier.arrive.noinc.shared.b64 [bar];" if noinc else "cp.async.mbarrier.arrive.shared.b64 [bar]; mbarrier.arrive.shared.b64 %d5, [bar];"
        text += "W: mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0; @!%p2 bra W; xor.b32 %r5, %r2, 252; add.u32 %r5, %r3, %r5; ld.shared.u32 %r6, [%r5]; st.global.u32 [%d2], %r6; ret; }"
        for seed in range(4):
            got, _ = run("cp_mbarrier%d" % noinc, text, "k:1:64", [x], 256, np.uint32, seed)
            assert (got == x[::-1]).all(), noinc

for number, t in enumerate(tests, 1):
    try:
        t()
        print("ok %d - %s" % (number, t.__name__))
    except (AssertionError, subprocess.CalledProcessError) as e:
        print("not ok %d - %s\n# %s" % (number, t.__name__, str(e).replace("\n", "\n# ")))
print("1..%d" % len(tests))
