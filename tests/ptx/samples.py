# SPDX-License-Identifier: Apache-2.0
# Kernels as NVIDIA's published samples have them, written anew in PTX by what their documentation says, in the simulator against NumPy; and faults planted in them. A kernel as it is
# gives the right numbers under several seeds and no check fires; each fault, one place of its text changed, is found by the check that it names.
# Usage: samples.py TCCC-PTXSIM FOLDER. Prints TAP.
import os
import subprocess
import sys

import numpy as np

tool, folder = sys.argv[1:]
rng = np.random.default_rng(5)
HEAD = ".version 8.0\n.target sm_90\n.address_size 64\n"
REGS = ".reg .pred %p<8>; .reg .b16 %h<16>; .reg .b32 %r<64>; .reg .f32 %f<64>; .reg .b64 %d<32>;\n"
# Kernel k(pointers a, b, ...; numbers n): %d1.. the pointers (global), %r60.. the numbers; tid.x %r1, ctaid.x %r2, ntid.x %r3.
def kernel(pointers, numbers, body, shared="", const=""):
    names = ["p%d" % i for i in range(pointers)]
    params = [".param .u64 %s" % p for p in names] + [".param .u32 n%d" % i for i in range(numbers)]
    text = const + ".visible .entry k(" + ", ".join(params) + ") {\n" + REGS + shared + "\n"
    text += "".join("ld.param.u64 %%d%d, [%s]; cvta.to.global.u64 %%d%d, %%d%d;\n" % (i + 1, p, i + 1, i + 1) for i, p in enumerate(names))
    text += "".join("ld.param.u32 %%r%d, [n%d];\n" % (60 + i, i) for i in range(numbers))
    return HEAD + text + "mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x;\n" + body + "\nret; }\n"

class Sample:
    """want: by pointer that is written, what it must hold afterwards, and how near."""
    def __init__(self, name, text, launch, arrays, numbers, want, faults, near=0.0):
        self.name, self.text, self.launch, self.arrays, self.numbers, self.want, self.faults, self.near = name, text, launch, arrays, numbers, want, faults, near

    def run(self, text, seed):
        path = os.path.join(folder, "k.ptx")
        open(path, "w").write(text)
        args = []
        for i, x in enumerate(self.arrays):
            if isinstance(x, int):
                arg = "new:%d" % x
            else:
                arg = "@" + os.path.join(folder, "in%d.npy" % i)
                np.save(arg[1:], x)
            args += ["--arg", arg + (",out=" + os.path.join(folder, "out%d.bin" % i) if i in self.want else "")]
        for n in self.numbers:
            args += ["--arg", str(n)]
        return subprocess.run([tool, path, "--launch", self.launch, "--seed", str(seed), "--limit", "100000", *args], capture_output=True, text=True)

    def right(self):
        for seed in range(3):
            r = self.run(self.text, seed)
            if r.returncode:
                return r.stderr
            for i, want in self.want.items():
                got = np.fromfile(os.path.join(folder, "out%d.bin" % i), dtype=want.dtype).reshape(want.shape)
                if not np.allclose(got.astype(np.float64), want.astype(np.float64), rtol=self.near, atol=self.near * np.abs(want.astype(np.float64)).max()):
                    return "seed %d, argument %d: expected %s, found %s" % (seed, i, want.ravel()[:8], got.ravel()[:8])
        return None

    def found(self, check, old, new):
        if old not in self.text:
            return "the text has no %r" % old
        r = self.run(self.text.replace(old, new), 1)
        return None if r.returncode == 1 and ": %s: kernel" % check in r.stderr else "expected %s, found status %d: %s" % (check, r.returncode, r.stderr)

samples = []
f32 = lambda *shape: rng.standard_normal(shape).astype(np.float32)

# vectorAdd: a thread an element, as many as there are
n = 1000
a, b = f32(n), f32(n)
samples.append(Sample("vectorAdd", kernel(3, 1, """mad.lo.u32 %r4, %r2, %r3, %r1; setp.ge.u32 %p1, %r4, %r60; @%p1 bra END;
    mul.wide.u32 %d4, %r4, 4; add.u64 %d5, %d1, %d4; add.u64 %d6, %d2, %d4; add.u64 %d7, %d3, %d4;
    ld.global.f32 %f1, [%d5]; ld.global.f32 %f2, [%d6]; add.rn.f32 %f3, %f1, %f2; st.global.f32 [%d7], %f3;
END:"""), "k:4:256", [a, b, 4 * n], [n], {2: a + b}, [
    ("out-of-bounds", "@%p1 bra END;", ""),
    ("misaligned", "[%d7], %f3", "[%d7+2], %f3"),
    ("register", "[%d7], %f3", "[%d7], %f4"),
    ("uninitialised", "ld.global.f32 %f2, [%d6]", "ld.global.f32 %f2, [%d7]"),
    ("block-race", "add.u64 %d7, %d3, %d4;", "mul.wide.u32 %d4, %r1, 4; add.u64 %d7, %d3, %d4;"),
    ("host-pointer", "add.u64 %d7, %d3, %d4;", "mov.u64 %d7, %d4;")]))

# matrixMul: tiles of 16 x 16 of both factors through shared memory
m, k, w = 32, 48, 64
a, b = f32(m, k), f32(k, w)
samples.append(Sample("matrixMul", kernel(3, 2, """mov.u32 %r4, %tid.y; mov.u32 %r5, %ctaid.y; mad.lo.u32 %r6, %r5, 16, %r4; mad.lo.u32 %r7, %r2, 16, %r1;
    mov.u32 %r8, s; mad.lo.u32 %r9, %r4, 16, %r1; shl.b32 %r9, %r9, 2; add.u32 %r10, %r8, %r9;
    mad.lo.u32 %r11, %r4, 64, %r8; mad.lo.u32 %r12, %r1, 4, %r8; mov.f32 %f1, 0f00000000; mov.u32 %r13, 0;
STEP: add.u32 %r14, %r13, %r1; mad.lo.u32 %r15, %r6, %r60, %r14; mul.wide.u32 %d4, %r15, 4; add.u64 %d4, %d1, %d4; ld.global.f32 %f2, [%d4];
    add.u32 %r14, %r13, %r4; mad.lo.u32 %r15, %r14, %r61, %r7; mul.wide.u32 %d4, %r15, 4; add.u64 %d4, %d2, %d4; ld.global.f32 %f3, [%d4];
    st.shared.f32 [%r10], %f2; st.shared.f32 [%r10+1024], %f3; bar.sync 0;""" + "".join(
    "ld.shared.f32 %%f4, [%%r11+%d]; ld.shared.f32 %%f5, [%%r12+%d]; fma.rn.f32 %%f1, %%f4, %%f5, %%f1;\n" % (4 * i, 1024 + 64 * i) for i in range(16)) + """
    bar.sync 1; add.u32 %r13, %r13, 16; setp.lt.u32 %p1, %r13, %r60; @%p1 bra STEP;
    mad.lo.u32 %r15, %r6, %r61, %r7; mul.wide.u32 %d4, %r15, 4; add.u64 %d4, %d3, %d4; st.global.f32 [%d4], %f1;""", ".shared .align 4 .b8 s[2048];"),
    "k:4x2:16x16", [a, b, 4 * m * w], [k, w], {2: a.astype(np.float64).dot(b).astype(np.float32)}, [
    ("race", "bar.sync 0;", ""),
    ("race", "bar.sync 1;", ""),
    ("out-of-bounds", "[%r10+1024], %f3", "[%r10+1056], %f3"),
    ("barrier", "bar.sync 1;", "setp.lt.u32 %p2, %r4, 8; @%p2 bra X; bar.sync 1, 256; bra Y; X: bar.sync 1, 128; Y:"),
    ("out-of-bounds", "setp.lt.u32 %p1, %r13, %r60;", "setp.le.u32 %p1, %r13, %r60;")], 1e-5))

# reduction: a sum by blocks, through shared memory and then a warp's shuffles
n = 4096
x = rng.integers(0, 100, n).astype(np.int32)
samples.append(Sample("reduction", kernel(2, 1, """mad.lo.u32 %r4, %r2, %r3, %r1; mov.u32 %r5, s; mad.lo.u32 %r6, %r1, 4, %r5; mul.wide.u32 %d3, %r4, 4; add.u64 %d3, %d1, %d3;
    ld.global.u32 %r7, [%d3]; ld.global.u32 %r8, [%d3+8192]; add.u32 %r7, %r7, %r8; st.shared.u32 [%r6], %r7; bar.sync 0;
    mov.u32 %r9, 128;
TREE: setp.ge.u32 %p1, %r1, %r9; @%p1 bra SKIP; mad.lo.u32 %r10, %r9, 4, %r6; ld.shared.u32 %r11, [%r10]; ld.shared.u32 %r12, [%r6]; add.u32 %r11, %r11, %r12; st.shared.u32 [%r6], %r11;
SKIP: bar.sync 1; shr.u32 %r9, %r9, 1; setp.ge.u32 %p2, %r9, 32; @%p2 bra TREE;
    setp.ge.u32 %p1, %r1, 32; @%p1 bra END; ld.shared.u32 %r13, [%r6];""" + "".join(
    "shfl.sync.down.b32 %%r14, %%r13, %d, 31, 0xffffffff; add.u32 %%r13, %%r13, %%r14;\n" % d for d in (16, 8, 4, 2, 1)) + """
    setp.ne.u32 %p3, %r1, 0; @%p3 bra END; red.global.add.u32 [%d2], %r13;
END:""", ".shared .align 4 .b8 s[1024];"), "k:8:256", [x, np.zeros(1, np.int32)], [n], {1: np.array([x.sum()], np.int32)}, [
    ("race", "bar.sync 0;", ""),
    ("race", "bar.sync 1;", ""),
    ("deadlock", "st.shared.u32 [%r6], %r11;\nSKIP:", "st.shared.u32 [%r6], %r11; bar.sync 2;\nSKIP:"),
    ("member-mask", "setp.ge.u32 %p1, %r1, 32; @%p1 bra END;", "setp.ge.u32 %p1, %r1, 16; @%p1 bra END;"),
    ("block-race", "red.global.add.u32 [%d2], %r13;", "ld.global.u32 %r15, [%d2]; add.u32 %r15, %r15, %r13; st.global.u32 [%d2], %r15;"),
    ("uninitialised", "setp.ge.u32 %p1, %r1, %r9; @%p1 bra SKIP;", "setp.ge.u32 %p1, %r1, %r9; @%p1 bra SKIP; ld.shared.u32 %r20, [%r6+1024];")]))
samples[-1].text = samples[-1].text.replace("s[1024]", "s[2048]")

# transpose: 32 x 32 through a tile of 33 columns
h, w = 64, 96
x = f32(h, w)
samples.append(Sample("transpose", kernel(2, 2, """mov.u32 %r4, %tid.y; mov.u32 %r5, %ctaid.y; mad.lo.u32 %r6, %r2, 32, %r1; mad.lo.u32 %r7, %r5, 32, %r4; mov.u32 %r8, s;
    mad.lo.u32 %r9, %r7, %r61, %r6; mul.wide.u32 %d3, %r9, 4; add.u64 %d3, %d1, %d3; mul.wide.u32 %d4, %r61, 32; mad.lo.u32 %r10, %r4, 33, %r1; mad.lo.u32 %r10, %r10, 4, %r8;""" + "".join(
    "ld.global.f32 %%f1, [%%d3]; st.shared.f32 [%%r10+%d], %%f1; add.u64 %%d3, %%d3, %%d4;\n" % (i * 8 * 33 * 4) for i in range(4)) + """
    bar.sync 0; mad.lo.u32 %r6, %r5, 32, %r1; mad.lo.u32 %r7, %r2, 32, %r4; mad.lo.u32 %r9, %r7, %r60, %r6; mul.wide.u32 %d3, %r9, 4; add.u64 %d3, %d2, %d3; mul.wide.u32 %d4, %r60, 32;
    mad.lo.u32 %r10, %r1, 33, %r4; mad.lo.u32 %r10, %r10, 4, %r8;""" + "".join(
    "ld.shared.f32 %%f1, [%%r10+%d]; st.global.f32 [%%d3], %%f1; add.u64 %%d3, %%d3, %%d4;\n" % (i * 8 * 4) for i in range(4)), ".shared .align 4 .b8 s[4224];"),
    "k:3x2:32x8", [x, 4 * h * w], [h, w], {1: x.T.copy()}, [
    ("race", "bar.sync 0;", ""),
    ("uninitialised", "mad.lo.u32 %r10, %r4, 33, %r1;", "mad.lo.u32 %r10, %r4, 32, %r1;"),
    ("block-race", "mad.lo.u32 %r7, %r2, 32, %r4; mad.lo.u32 %r9", "mad.lo.u32 %r7, %r5, 32, %r4; mad.lo.u32 %r9"),
    ("out-of-bounds", "mul.wide.u32 %d4, %r60, 32;", "mul.wide.u32 %d4, %r61, 32;")]))

# scan: inclusive sums of a block by doubling distances, two buffers by turns
n = 256
x = rng.integers(0, 50, n).astype(np.int32)
samples.append(Sample("scan", kernel(2, 0, """mov.u32 %r5, s; mad.lo.u32 %r6, %r1, 4, %r5; mul.wide.u32 %d3, %r1, 4; add.u64 %d4, %d1, %d3; add.u64 %d5, %d2, %d3;
    ld.global.u32 %r7, [%d4]; st.shared.u32 [%r6], %r7; mov.u32 %r8, 1; mov.u32 %r9, 0; bar.sync 0;
STEP: add.u32 %r10, %r6, %r9; ld.shared.u32 %r7, [%r10]; setp.lt.u32 %p1, %r1, %r8; shl.b32 %r11, %r8, 2; sub.u32 %r12, %r10, %r11;
    @!%p1 ld.shared.u32 %r13, [%r12]; @!%p1 add.u32 %r7, %r7, %r13; xor.b32 %r9, %r9, 1024; add.u32 %r10, %r6, %r9; st.shared.u32 [%r10], %r7; bar.sync 1;
    shl.b32 %r8, %r8, 1; setp.lt.u32 %p2, %r8, 256; @%p2 bra STEP; st.global.u32 [%d5], %r7;""", ".shared .align 4 .b8 s[2048];"), "k:1:256", [x, 4 * n], [], {1: np.cumsum(x).astype(np.int32)}, [
    ("race", "bar.sync 0;", ""),
    ("race", "bar.sync 1;", ""),
    ("out-of-bounds", "@!%p1 ld.shared.u32 %r13", "ld.shared.u32 %r13"),
    ("limit", "shl.b32 %r8, %r8, 1;", ""),
    ("uniform", "@%p2 bra STEP;", "setp.lt.u32 %p3, %r1, 7; @%p3 bra.uni NEXT; NEXT: @%p2 bra STEP;")]))

# histogram: of bytes, by a block's counters in shared memory, which are added to the whole
n = 4096
x = rng.integers(0, 256, n).astype(np.uint8)
samples.append(Sample("histogram", kernel(2, 0, """mov.u32 %r5, s; mad.lo.u32 %r6, %r1, 4, %r5; mov.u32 %r7, 0; st.shared.u32 [%r6], %r7; bar.sync 0;
    mad.lo.u32 %r8, %r2, %r3, %r1; mul.wide.u32 %d3, %r8, 4; add.u64 %d3, %d1, %d3; ld.global.u32 %r9, [%d3];""" + "".join(
    "bfe.u32 %%r10, %%r9, %d, 8; mad.lo.u32 %%r11, %%r10, 4, %%r5; red.shared.add.u32 [%%r11], 1;\n" % (8 * i) for i in range(4)) + """
    bar.sync 1; ld.shared.u32 %r12, [%r6]; mul.wide.u32 %d4, %r1, 4; add.u64 %d4, %d2, %d4; red.global.add.u32 [%d4], %r12;""", ".shared .align 4 .b8 s[1024];"),
    "k:4:256", [x, np.zeros(256, np.uint32)], [], {1: np.bincount(x, minlength=256).astype(np.uint32)}, [
    ("race", "bar.sync 0;", ""),
    ("race", "bar.sync 1;", ""),
    ("uninitialised", "st.shared.u32 [%r6], %r7;", ""),
    ("race", "bfe.u32 %r10, %r9, 8, 8; mad.lo.u32 %r11, %r10, 4, %r5; red.shared.add.u32 [%r11], 1;", "bfe.u32 %r10, %r9, 8, 8; mad.lo.u32 %r11, %r10, 4, %r5; ld.shared.u32 %r20, [%r11]; add.u32 %r20, %r20, 1; st.shared.u32 [%r11], %r20;"),
    ("block-race", "red.global.add.u32 [%d4], %r12;", "st.global.u32 [%d4], %r12;")]))

# sortingNetworks: bitonic, 512 numbers by 256 threads in shared memory
n = 512
x = rng.integers(0, 1 << 30, n).astype(np.uint32)
samples.append(Sample("bitonicSort", kernel(2, 0, """mov.u32 %r5, s; mad.lo.u32 %r6, %r1, 4, %r5; mul.wide.u32 %d3, %r1, 4; add.u64 %d4, %d1, %d3; add.u64 %d5, %d2, %d3;
    ld.global.u32 %r7, [%d4]; st.shared.u32 [%r6], %r7; ld.global.u32 %r7, [%d4+1024]; st.shared.u32 [%r6+1024], %r7; mov.u32 %r8, 2;
SIZE: and.b32 %r9, %r1, 0xff; shr.u32 %r10, %r8, 1; and.b32 %r11, %r1, %r10; setp.ne.u32 %p1, %r11, 0; mov.u32 %r12, %r10;
STRIDE: bar.sync 0; sub.u32 %r13, %r12, 1; and.b32 %r14, %r1, %r13; shl.b32 %r15, %r1, 1; sub.u32 %r15, %r15, %r14; mad.lo.u32 %r16, %r15, 4, %r5; mad.lo.u32 %r17, %r12, 4, %r16;
    ld.shared.u32 %r18, [%r16]; ld.shared.u32 %r19, [%r17]; min.u32 %r20, %r18, %r19; max.u32 %r21, %r18, %r19; selp.u32 %r22, %r21, %r20, %p1; selp.u32 %r23, %r20, %r21, %p1;
    st.shared.u32 [%r16], %r22; st.shared.u32 [%r17], %r23; shr.u32 %r12, %r12, 1; setp.ne.u32 %p2, %r12, 0; @%p2 bra STRIDE;
    shl.b32 %r8, %r8, 1; setp.le.u32 %p2, %r8, 512; @%p2 bra SIZE;
    bar.sync 1; ld.shared.u32 %r7, [%r6]; st.global.u32 [%d5], %r7; ld.shared.u32 %r7, [%r6+1024]; st.global.u32 [%d5+1024], %r7;""", ".shared .align 4 .b8 s[2048];"),
    "k:1:256", [x, 4 * n], [], {1: np.sort(x)}, [
    ("race", "bar.sync 0;", ""),
    ("race", "bar.sync 1;", ""),
    ("out-of-bounds", "setp.le.u32 %p2, %r8, 512;", "setp.le.u32 %p2, %r8, 1024;"),
    ("uninitialised", "st.shared.u32 [%r6+1024], %r7; mov", "mov")]))

# mergeSort: two sorted rows of 128; where an element goes is its place and its rank in the other row, found by halving
x = np.sort(rng.integers(0, 200, (2, 128)).astype(np.uint32), axis=1)
samples.append(Sample("mergeSort", kernel(2, 0, """mul.wide.u32 %d3, %r1, 4; add.u64 %d4, %d1, %d3; ld.global.u32 %r4, [%d4]; setp.ge.u32 %p1, %r1, 128; selp.u32 %r5, 0, 128, %p1; and.b32 %r6, %r1, 127;
    mov.u32 %r7, 0; mov.u32 %r8, 128;
HALVE: setp.ge.u32 %p2, %r7, %r8; @%p2 bra FOUND; add.u32 %r9, %r7, %r8; shr.u32 %r9, %r9, 1; add.u32 %r10, %r5, %r9; mul.wide.u32 %d5, %r10, 4; add.u64 %d5, %d1, %d5; ld.global.u32 %r11, [%d5];
    setp.lt.u32 %p3, %r11, %r4; setp.eq.u32 %p4, %r11, %r4; and.pred %p4, %p4, %p1; or.pred %p3, %p3, %p4; add.u32 %r12, %r9, 1; selp.u32 %r7, %r12, %r7, %p3; selp.u32 %r8, %r8, %r9, %p3; bra HALVE;
FOUND: add.u32 %r13, %r6, %r7; mul.wide.u32 %d6, %r13, 4; add.u64 %d6, %d2, %d6; st.global.u32 [%d6], %r4;"""), "k:1:256", [x, 1024], [], {1: np.sort(x.ravel())}, [
    ("race", "or.pred %p3, %p3, %p4;", ""),
    ("out-of-bounds", "mov.u32 %r8, 128;", "mov.u32 %r8, 256;")]))

# dct8x8: rows, then columns, of 8 x 8 pixels by constants
i = np.arange(8)
c = (np.cos((2 * i[None, :] + 1) * i[:, None] * np.pi / 16) * np.where(i[:, None] == 0, np.sqrt(1 / 8), 0.5)).astype(np.float32)
x = f32(4, 8, 8)
table = ".const .align 4 .f32 c[64] = {" + ", ".join("0f%08x" % v for v in c.ravel().view(np.uint32)) + "};\n"
samples.append(Sample("dct8x8", kernel(2, 0, """mov.u32 %r4, %tid.y; mov.u32 %r5, s; mad.lo.u32 %r6, %r4, 8, %r1; mad.lo.u32 %r7, %r6, 4, %r5; mad.lo.u32 %r8, %r2, 64, %r6; mul.wide.u32 %d3, %r8, 4; add.u64 %d4, %d1, %d3; add.u64 %d5, %d2, %d3;
    ld.global.f32 %f1, [%d4]; st.shared.f32 [%r7], %f1; mov.u64 %d6, c; mul.wide.u32 %d7, %r1, 32; add.u64 %d7, %d6, %d7; mul.wide.u32 %d8, %r4, 32; add.u64 %d8, %d6, %d8;
    mad.lo.u32 %r9, %r4, 32, %r5; mad.lo.u32 %r10, %r1, 4, %r5; mov.f32 %f2, 0f00000000; bar.sync 0;""" + "".join(
    "ld.shared.f32 %%f3, [%%r9+%d]; ld.const.f32 %%f4, [%%d7+%d]; fma.rn.f32 %%f2, %%f3, %%f4, %%f2;\n" % (4 * j, 4 * j) for j in range(8)) + """
    bar.sync 1; st.shared.f32 [%r7], %f2; mov.f32 %f2, 0f00000000; bar.sync 2;""" + "".join(
    "ld.shared.f32 %%f3, [%%r10+%d]; ld.const.f32 %%f4, [%%d8+%d]; fma.rn.f32 %%f2, %%f3, %%f4, %%f2;\n" % (32 * j, 4 * j) for j in range(8)) + "st.global.f32 [%d5], %f2;",
    ".shared .align 4 .b8 s[256];", table), "k:4:8x8", [x, 4 * 256], [], {1: np.einsum("ui,bij,vj->buv", c.astype(np.float64), x, c).astype(np.float32)}, [
    ("race", "bar.sync 0;", ""),
    ("race", "bar.sync 1;", ""),
    ("race", "bar.sync 2;", ""),
    ("read-only", "st.global.f32 [%d5], %f2;", "cvta.const.u64 %d9, %d7; st.f32 [%d9], %f2;"),
    ("out-of-bounds", "mul.wide.u32 %d8, %r4, 32;", "mul.wide.u32 %d8, %r4, 64;")], 1e-5))

# fp16ScalarProduct: pairs of halves by fused multiply-adds, summed by shuffles and shared memory
n = 2048
a, b = (rng.integers(-2, 3, n).astype(np.float16) for _ in range(2))
samples.append(Sample("fp16ScalarProduct", kernel(3, 0, """mul.wide.u32 %d4, %r1, 16; add.u64 %d5, %d1, %d4; add.u64 %d6, %d2, %d4; ld.global.v4.b32 {%r4, %r5, %r6, %r7}, [%d5]; ld.global.v4.b32 {%r8, %r9, %r10, %r11}, [%d6];
    mul.rn.f16x2 %r12, %r4, %r8; fma.rn.f16x2 %r12, %r5, %r9, %r12; fma.rn.f16x2 %r12, %r6, %r10, %r12; fma.rn.f16x2 %r12, %r7, %r11, %r12;
    mov.b32 {%h1, %h2}, %r12; cvt.f32.f16 %f1, %h1; cvt.f32.f16 %f2, %h2; add.f32 %f1, %f1, %f2;""" + "".join(
    "mov.b32 %%r13, %%f1; shfl.sync.bfly.b32 %%r14, %%r13, %d, 31, -1; mov.b32 %%f2, %%r14; add.f32 %%f1, %%f1, %%f2;\n" % d for d in (16, 8, 4, 2, 1)) + """
    mov.u32 %r15, s; shr.u32 %r16, %r1, 5; and.b32 %r17, %r1, 31; mad.lo.u32 %r16, %r16, 4, %r15; setp.eq.u32 %p1, %r17, 0; @%p1 st.shared.f32 [%r16], %f1; bar.sync 0;
    setp.ne.u32 %p2, %r1, 0; @%p2 bra END; mov.f32 %f1, 0f00000000;""" + "".join("ld.shared.f32 %%f2, [%%r15+%d]; add.f32 %%f1, %%f1, %%f2;\n" % (4 * j) for j in range(8)) + """
    st.global.f32 [%d3], %f1;
END:""", ".shared .align 4 .b8 s[32];"), "k:1:256", [a, b, 4], [], {2: np.array([np.dot(a.astype(np.float64), b)], np.float32)}, [
    ("misaligned", "mul.wide.u32 %d4, %r1, 16;", "mul.wide.u32 %d4, %r1, 8;"),
    ("race", "bar.sync 0;", ""),
    ("race", "@%p1 st.shared.f32 [%r16], %f1;", "st.shared.f32 [%r16], %f1;"),
    ("uninitialised", "setp.eq.u32 %p1, %r17, 0;", "setp.eq.u32 %p1, %r1, 0;")]))

# threadFenceReduction: the block that comes last adds up what the others have left
n = 2048
x = rng.integers(0, 100, n).astype(np.int32)
samples.append(Sample("threadFenceReduction", kernel(4, 0, """mad.lo.u32 %r4, %r2, 32, %r1; mul.wide.u32 %d5, %r4, 4; add.u64 %d5, %d1, %d5; ld.global.u32 %r5, [%d5]; redux.sync.add.s32 %r5, %r5, -1;
    setp.eq.u32 %p1, %r1, 0; mul.wide.u32 %d6, %r2, 4; add.u64 %d6, %d2, %d6; @%p1 st.global.u32 [%d6], %r5; membar.gl; mov.u32 %r6, 0; mov.u32 %r10, %nctaid.x; sub.u32 %r10, %r10, 1; @%p1 atom.global.inc.u32 %r6, [%d3], %r10;
    shfl.sync.idx.b32 %r6, %r6, 0, 31, -1; bar.warp.sync -1; setp.ne.u32 %p2, %r6, %r10; @%p2 bra END; fence.acq_rel.gpu;
    mul.wide.u32 %d7, %r1, 4; add.u64 %d7, %d2, %d7; ld.global.u32 %r7, [%d7]; ld.global.u32 %r8, [%d7+128]; add.u32 %r7, %r7, %r8; redux.sync.add.s32 %r7, %r7, -1; @%p1 st.global.u32 [%d4], %r7;
END:"""), "k:64:32", [x, 256, np.zeros(1, np.uint32), 4], [], {3: np.array([x.sum()], np.int32)}, [
    ("block-race", "membar.gl;", ""),
    ("block-race", "@%p2 bra END;", "bar.warp.sync -1;")]))

# globalToShmemAsyncCopy: four tiles on their way through two buffers
x = f32(4, 256)
samples.append(Sample("asyncCopy", kernel(2, 0, """mov.u32 %r5, s; mad.lo.u32 %r6, %r1, 16, %r5; mul.wide.u32 %d3, %r1, 16; add.u64 %d3, %d1, %d3; mov.f32 %f1, 0f00000000; xor.b32 %r7, %r1, 255; mad.lo.u32 %r7, %r7, 4, %r5;
    xor.b32 %r10, %r1, 63; mad.lo.u32 %r10, %r10, 16, %r5; mov.f32 %f5, 0f00000000;
    cp.async.cg.shared.global [%r6], [%d3], 16; cp.async.commit_group; cp.async.cg.shared.global [%r6+1024], [%d3+1024], 16; cp.async.commit_group;""" + "".join("""
    cp.async.wait_group %d; bar.sync 0; ld.shared.v4.f32 {%%f1, %%f2, %%f3, %%f4}, [%%r10+%d]; add.f32 %%f1, %%f1, %%f2; add.f32 %%f3, %%f3, %%f4; add.f32 %%f1, %%f1, %%f3; add.f32 %%f5, %%f5, %%f1; bar.sync 1;
    %s""" % (0 if t == 3 else 1, t % 2 * 1024, "cp.async.cg.shared.global [%%r6+%d], [%%d3+%d], 16; cp.async.commit_group;" % (t % 2 * 1024, (t + 2) * 1024) if t < 2 else "") for t in range(4)) + """
    mul.wide.u32 %d4, %r1, 4; add.u64 %d4, %d2, %d4; st.global.f32 [%d4], %f5;""", ".shared .align 16 .b8 s[2048];"), "k:1:64", [x, 256], [],
    {1: x.reshape(4, 64, 4).sum(axis=(0, 2), dtype=np.float64)[::-1].astype(np.float32)}, [
    ("async-copy", "cp.async.wait_group 1;", ""),
    ("async-copy", "cp.async.wait_group 0;", "cp.async.wait_group 1;"),
    ("race", "bar.sync 0;", ""),
    ("race", "bar.sync 1;", ""),
    ("misaligned", "[%r6], [%d3], 16;", "[%r6+4], [%d3], 16;")], 1e-5))

# bf16TensorCoreGemm: 16 x 8 results a warp, factors by ldmatrix from shared memory
k = 64
def bf16(x):
    return (x.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
a, b = (rng.integers(-4, 5, s).astype(np.float32) for s in ((16, k), (8, k)))
samples.append(Sample("bf16TensorCoreGemm", kernel(3, 0, """mov.u32 %r5, s; mul.wide.u32 %d4, %r1, 16; add.u64 %d5, %d1, %d4; add.u64 %d6, %d2, %d4; mad.lo.u32 %r6, %r1, 16, %r5;""" + "".join(
    "ld.global.v4.b32 {%%r20, %%r21, %%r22, %%r23}, [%%d5+%d]; st.shared.v4.b32 [%%r6+%d], {%%r20, %%r21, %%r22, %%r23};\n" % (512 * j, 512 * j) for j in range(4)) + "".join(
    "ld.global.v4.b32 {%%r20, %%r21, %%r22, %%r23}, [%%d6+%d]; st.shared.v4.b32 [%%r6+%d], {%%r20, %%r21, %%r22, %%r23};\n" % (512 * j, 2048 + 512 * j) for j in range(2)) + """
    bar.warp.sync -1; and.b32 %r7, %r1, 15; shr.u32 %r8, %r1, 4; mul.lo.u32 %r8, %r8, 16; mad.lo.u32 %r9, %r7, 128, %r8; add.u32 %r9, %r9, %r5; and.b32 %r7, %r1, 7; shr.u32 %r8, %r1, 3; and.b32 %r8, %r8, 1; mul.lo.u32 %r8, %r8, 16; mad.lo.u32 %r10, %r7, 128, %r8; add.u32 %r10, %r10, %r5;
    mov.f32 %f1, 0f00000000; mov.f32 %f2, %f1; mov.f32 %f3, %f1; mov.f32 %f4, %f1;""" + "".join("""
    ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%%r30, %%r31, %%r32, %%r33}, [%%r9+%d]; ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%%r34, %%r35}, [%%r10+%d];
    mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%%f1, %%f2, %%f3, %%f4}, {%%r30, %%r31, %%r32, %%r33}, {%%r34, %%r35}, {%%f1, %%f2, %%f3, %%f4};""" % (32 * j, 2048 + 32 * j) for j in range(k // 16)) + """
    shr.u32 %r11, %r1, 2; and.b32 %r12, %r1, 3; mul.lo.u32 %r12, %r12, 8; mad.lo.u32 %r12, %r11, 32, %r12; cvt.u64.u32 %d7, %r12; add.u64 %d7, %d3, %d7; st.global.v2.f32 [%d7], {%f1, %f2}; st.global.v2.f32 [%d7+256], {%f3, %f4};""",
    ".shared .align 16 .b8 s[3072];"), "k:1:32", [bf16(a), bf16(b), 512], [], {2: a.dot(b.T).astype(np.float32)}, [
    ("race", "bar.warp.sync -1;", ""),
    ("misaligned", "[%r9+32]", "[%r9+36]"),
    ("divergent", "mov.f32 %f4, %f1;", "mov.f32 %f4, %f1; setp.lt.u32 %p1, %r1, 16; @%p1 bra END;"),
    ("register", "mov.f32 %f4, %f1;", "")]))
samples[-1].text = samples[-1].text.replace("\nret; }", "\nEND: ret; }")

# simpleVoteIntrinsics: which lanes have something odd
x = rng.integers(0, 100, 64).astype(np.int32)
samples.append(Sample("simpleVoteIntrinsics", kernel(2, 0, """mul.wide.u32 %d3, %r1, 4; add.u64 %d4, %d1, %d3; add.u64 %d5, %d2, %d3; ld.global.u32 %r4, [%d4]; and.b32 %r5, %r4, 1; setp.ne.u32 %p1, %r5, 0;
    vote.sync.ballot.b32 %r6, %p1, 0xffffffff; vote.sync.any.pred %p2, %p1, 0xffffffff; selp.u32 %r7, %r6, 0, %p2; st.global.u32 [%d5], %r7;"""), "k:1:64", [x, 256], [],
    {1: np.repeat([int("".join(str(v & 1) for v in half[::-1]), 2) for half in x.reshape(2, 32)], 32).astype(np.uint32)}, [
    ("member-mask", "vote.sync.ballot.b32 %r6, %p1, 0xffffffff;", "vote.sync.ballot.b32 %r6, %p1, 0x0000ffff;"),
    ("trap", "selp.u32 %r7, %r6, 0, %p2;", "selp.u32 %r7, %r6, 0, %p2; @%p2 trap;")]))

# simpleAWBarrier: threads arrive at an mbarrier, go on, and wait where they need the others
n = 128
x = rng.integers(0, 1000, n).astype(np.int32)
samples.append(Sample("simpleAWBarrier", kernel(2, 0, """mov.u32 %r5, s; mad.lo.u32 %r6, %r1, 4, %r5; mul.wide.u32 %d3, %r1, 4; add.u64 %d4, %d1, %d3; add.u64 %d5, %d2, %d3; setp.eq.u32 %p1, %r1, 0;
    @%p1 mbarrier.init.shared::cta.b64 [bar], 128; bar.sync 0; ld.global.u32 %r7, [%d4]; st.shared.u32 [%r6], %r7; mbarrier.arrive.shared::cta.b64 %d6, [bar]; mul.lo.u32 %r7, %r7, 3;
WAIT: mbarrier.try_wait.shared::cta.b64 %p2, [bar], %d6; @!%p2 bra WAIT; xor.b32 %r8, %r1, 127; mad.lo.u32 %r8, %r8, 4, %r5; ld.shared.u32 %r9, [%r8]; add.u32 %r7, %r7, %r9; st.global.u32 [%d5], %r7;""",
    ".shared .align 4 .b8 s[512]; .shared .align 8 .b64 bar;"), "k:1:128", [x, 512], [], {1: (3 * x + x[::-1]).astype(np.int32)}, [
    ("deadlock", "[bar], 128;", "[bar], 129;"),
    ("race", "@!%p2 bra WAIT;", ""),
    ("mbarrier", "@%p1 mbarrier.init.shared::cta.b64 [bar], 128;", ""),
    ("deadlock", "[bar], 128;", "[bar], 100;")]))

# convolutionSeparable: a row with 8 neighbours on either side
n, r = 256, 8
x, taps = f32(n + 2 * r), f32(2 * r + 1)
samples.append(Sample("convolutionSeparable", kernel(3, 0, """mov.u32 %r5, s; mad.lo.u32 %r4, %r2, 128, %r1; mul.wide.u32 %d4, %r4, 4; add.u64 %d5, %d1, %d4; add.u64 %d6, %d3, %d4; mad.lo.u32 %r6, %r1, 4, %r5; ld.global.f32 %f1, [%d5]; st.shared.f32 [%r6], %f1;
    setp.ge.u32 %p1, %r1, 16; @%p1 bra HALO; ld.global.f32 %f1, [%d5+512]; st.shared.f32 [%r6+512], %f1;
HALO: bar.sync 0; mov.f32 %f2, 0f00000000;""" + "".join("ld.shared.f32 %%f1, [%%r6+%d]; ld.global.f32 %%f3, [%%d2+%d]; fma.rn.f32 %%f2, %%f1, %%f3, %%f2;\n" % (4 * j, 4 * j) for j in range(2 * r + 1)) + "st.global.f32 [%d6], %f2;",
    ".shared .align 4 .b8 s[576];"), "k:2:128", [x, taps, 4 * n], [], {2: np.convolve(x.astype(np.float64), taps[::-1], "valid").astype(np.float32)}, [
    ("race", "bar.sync 0;", ""),
    ("uninitialised", "setp.ge.u32 %p1, %r1, 16;", "setp.ge.u32 %p1, %r1, 15;"),
    ("out-of-bounds", "s[576]", "s[544]"),
    ("out-of-bounds", "s[576]", "s[568]"),
    ("deadlock", "HALO: bar.sync 0;", "HALO: shr.u32 %r9, %r1, 5; setp.eq.u32 %p3, %r9, 0; @%p3 bar.sync 1, 64; bar.sync 0;")], 1e-5))

number, faults = 0, 0
def result(text, why):
    global number
    number += 1
    print("%s %d - %s" % ("not ok" if why else "ok", number, text))
    if why:
        print("# " + why.strip().replace("\n", "\n# "))

for s in samples:
    if os.environ.get("PTXAS"):
        path = os.path.join(folder, s.name + ".ptx")
        open(path, "w").write(s.text)
        r = subprocess.run([os.environ["PTXAS"], "-arch=sm_90", "-o", os.devnull, path], capture_output=True, text=True)
        result(s.name + ": ptxas", r.stderr if r.returncode else None)
    result(s.name, s.right())
    for check, old, new in s.faults:
        faults += 1
        result("%s: fault %d, %s" % (s.name, faults, check), s.found(check, old, new))
result("%d faults in %d kernels" % (faults, len(samples)), None if faults >= 40 else "fewer than 40")
print("1..%d" % number)
