/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PTX that the runtime brings along, for every machine from sm_80 on. The driver compiles it when the first session
 * opens a device.
 *
 *   tccrt_copy   to, from, bytes, control: copies, unless the fault word is set: a copy into state. `from` may be
 *                pinned memory of the host
 *   tccrt_note   control, checks: the word in front of the control block becomes `checks` if the fault word is set and
 *                it is 0, the next ones the run, the index, its extent and the check: one thread
 *   tccrt_probe  control, to: fault word and those words go to six 64-bit words of pinned memory: one thread
 *
 * `control` is the address of struct tcc_control, which begins with the fault word.
 */
#include "runtime/device/cuda/cuda_int.h"

const char cuda_helper_ptx[] =
    ".version 7.0\n.target sm_80\n.address_size 64\n"
    ".visible .entry tccrt_copy(.param .u64 p_to, .param .u64 p_from, .param .u64 p_bytes, .param .u64 p_control)\n"
    "{\n"
    "    .reg .pred %p<8>;\n    .reg .b16 %h<2>;\n    .reg .b32 %r<12>;\n    .reg .b64 %d<20>;\n"
    "    ld.param.u64 %d1, [p_to];\n    ld.param.u64 %d2, [p_from];\n"
    "    ld.param.u64 %d3, [p_bytes];\n    ld.param.u64 %d4, [p_control];\n"
    "    ld.relaxed.sys.global.u32 %r1, [%d4];\n    setp.ne.u32 %p1, %r1, 0;\n    @%p1 bra DONE;\n"
    "    mov.u32 %r2, %tid.x;\n    mov.u32 %r3, %ctaid.x;\n    mov.u32 %r4, %ntid.x;\n    mov.u32 %r5, %nctaid.x;\n"
    "    mul.wide.u32 %d5, %r3, %r4;\n    cvt.u64.u32 %d6, %r2;\n    add.u64 %d5, %d5, %d6;\n" /* this thread */
    "    mul.wide.u32 %d7, %r5, %r4;\n"                                                        /* of so many */
    "    or.b64 %d8, %d1, %d2;\n    and.b64 %d8, %d8, 15;\n    mov.u64 %d9, 0;\n"
    "    setp.ne.u64 %p2, %d8, 0;\n    @%p2 bra BYTES;\n"
    "    and.b64 %d9, %d3, -16;\n    shl.b64 %d10, %d5, 4;\n    shl.b64 %d11, %d7, 4;\n"
    "VECTORS:\n"
    "    setp.ge.u64 %p3, %d10, %d9;\n    @%p3 bra BYTES;\n"
    "    add.u64 %d12, %d2, %d10;\n    add.u64 %d13, %d1, %d10;\n"
    "    ld.global.v4.u32 {%r6, %r7, %r8, %r9}, [%d12];\n    st.global.v4.u32 [%d13], {%r6, %r7, %r8, %r9};\n"
    "    add.u64 %d10, %d10, %d11;\n    bra VECTORS;\n"
    "BYTES:\n"
    "    add.u64 %d14, %d9, %d5;\n"
    "TAIL:\n"
    "    setp.ge.u64 %p4, %d14, %d3;\n    @%p4 bra DONE;\n"
    "    add.u64 %d15, %d2, %d14;\n    add.u64 %d16, %d1, %d14;\n"
    "    ld.global.u8 %h1, [%d15];\n    st.global.u8 [%d16], %h1;\n"
    "    add.u64 %d14, %d14, %d7;\n    bra TAIL;\n"
    "DONE:\n    ret;\n}\n"
    ".visible .entry tccrt_note(.param .u64 p_control, .param .u64 p_node)\n"
    "{\n"
    "    .reg .pred %p<2>;\n    .reg .b32 %r<2>;\n    .reg .b64 %d<6>;\n"
    "    ld.param.u64 %d1, [p_control];\n    ld.param.u64 %d2, [p_node];\n"
    "    ld.relaxed.sys.global.u32 %r1, [%d1];\n    setp.eq.u32 %p1, %r1, 0;\n    @%p1 bra DONE;\n"
    "    mov.u64 %d3, 0;\n    atom.relaxed.sys.global.cas.b64 %d4, [%d1+-64], %d3, %d2;\n"
    "    setp.ne.u64 %p1, %d4, 0;\n    @%p1 bra DONE;\n"
    "    ld.global.u64 %d5, [%d1+16];\n    st.relaxed.sys.global.u64 [%d1+-56], %d5;\n"
    "    ld.relaxed.sys.global.u64 %d5, [%d1+24];\n    st.relaxed.sys.global.u64 [%d1+-48], %d5;\n"
    "    ld.relaxed.sys.global.u64 %d5, [%d1+32];\n    st.relaxed.sys.global.u64 [%d1+-40], %d5;\n"
    "    ld.relaxed.sys.global.u64 %d5, [%d1+40];\n    st.relaxed.sys.global.u64 [%d1+-32], %d5;\n"
    "DONE:\n    ret;\n}\n"
    ".visible .entry tccrt_probe(.param .u64 p_control, .param .u64 p_to)\n"
    "{\n"
    "    .reg .b32 %r<2>;\n    .reg .b64 %d<9>;\n"
    "    ld.param.u64 %d1, [p_control];\n    ld.param.u64 %d2, [p_to];\n"
    "    ld.relaxed.sys.global.u32 %r1, [%d1];\n    cvt.u64.u32 %d3, %r1;\n    st.global.u64 [%d2], %d3;\n"
    "    ld.relaxed.sys.global.u64 %d4, [%d1+-64];\n    st.global.u64 [%d2+8], %d4;\n"
    "    ld.relaxed.sys.global.u64 %d5, [%d1+-56];\n    st.global.u64 [%d2+16], %d5;\n"
    "    ld.relaxed.sys.global.u64 %d6, [%d1+-48];\n    st.global.u64 [%d2+24], %d6;\n"
    "    ld.relaxed.sys.global.u64 %d7, [%d1+-40];\n    st.global.u64 [%d2+32], %d7;\n"
    "    ld.relaxed.sys.global.u64 %d8, [%d1+-32];\n    st.global.u64 [%d2+40], %d8;\n"
    "    ret;\n}\n";
