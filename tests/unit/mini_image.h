/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mini_image.h - images built by hand (runtime/abi.h), for tests of devices: kernels of one function each, of blocks of
 * 32 threads, one for each tile. mi_code has the PTX of add, control and total, numbers 0 to 2:
 *
 *   add      args x, y; size n: y[tile] = x[tile] + n; a bad index where n < 0
 *   control  arg y: the seed and the run number
 *   total    sizes n; args y, x1, ... x(n): y[0] = the sum of the others' first words, by way of scratch; its arguments
 *            lie in a table
 */
#ifndef MINI_IMAGE_H
#define MINI_IMAGE_H

#include <stdlib.h>
#include <string.h>

#include "runtime/abi.h"

static const char mi_code[] =
    ".version 7.0\n.target sm_80\n.address_size 64\n"
    ".visible .entry mi_k0(.param .u64 x, .param .u64 y, .param .u64 n, .param .u64 scratch, .param .u64 control, .param .u64 tiles, .param .u64 values)\n{\n"
    ".reg .pred %p<4>; .reg .b32 %r<6>; .reg .b64 %d<12>;\n"
    "ld.param.u64 %d1, [x]; ld.param.u64 %d2, [y]; ld.param.u64 %d3, [n]; ld.param.u64 %d4, [control]; ld.param.u64 %d5, [tiles];\n"
    "ld.param.u64 %d8, [values]; setp.eq.u64 %p1, %d8, 0; @%p1 bra GIVEN;\n"
    "shl.b64 %d9, %d3, 3; add.u64 %d9, %d9, %d8; ld.global.u64 %d3, [%d9];\n"
    "shl.b64 %d9, %d5, 3; add.u64 %d9, %d9, %d8; ld.global.u64 %d5, [%d9];\nGIVEN:\n"
    "ld.relaxed.sys.global.u32 %r1, [%d4]; setp.ne.u32 %p1, %r1, 0; @%p1 ret;\n"
    "setp.ge.s64 %p2, %d3, 0; @%p2 bra GOOD; mov.u64 %d6, 1; st.relaxed.sys.global.u64 [%d4+24], %d3; st.relaxed.sys.global.u64 [%d4+32], %d5;\n"
    "st.relaxed.sys.global.u64 [%d4+40], %d6; mov.u32 %r1, 5; st.relaxed.sys.global.u32 [%d4], %r1; ret;\nGOOD:\n"
    "mov.u32 %r2, %tid.x; mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ntid.x; mad.lo.u32 %r2, %r3, %r4, %r2;\n"
    "cvt.u64.u32 %d6, %r2; setp.ge.u64 %p3, %d6, %d5; @%p3 ret;\n"
    "shl.b64 %d6, %d6, 3; add.u64 %d1, %d1, %d6; add.u64 %d2, %d2, %d6;\n"
    "ld.global.u64 %d7, [%d1]; add.u64 %d7, %d7, %d3; st.global.u64 [%d2], %d7; ret;\n}\n"
    ".visible .entry mi_k1(.param .u64 y, .param .u64 scratch, .param .u64 control, .param .u64 tiles, .param .u64 values)\n{\n"
    ".reg .pred %p<2>; .reg .b32 %r<2>; .reg .b64 %d<5>;\n"
    "mov.u32 %r1, %tid.x; setp.ne.u32 %p1, %r1, 0; @%p1 ret;\n"
    "ld.param.u64 %d1, [y]; ld.param.u64 %d2, [control];\n"
    "ld.global.u64 %d3, [%d2+8]; st.global.u64 [%d1], %d3; ld.global.u64 %d3, [%d2+16]; st.global.u64 [%d1+8], %d3; ret;\n}\n"
    ".visible .entry mi_k2(.param .u64 table, .param .u64 scratch, .param .u64 control, .param .u64 tiles, .param .u64 values)\n{\n"
    ".reg .pred %p<3>; .reg .b32 %r<2>; .reg .b64 %d<12>;\n"
    "mov.u32 %r1, %tid.x; setp.ne.u32 %p1, %r1, 0; @%p1 ret;\n"
    "ld.param.u64 %d1, [table]; ld.param.u64 %d2, [scratch]; ld.param.u64 %d3, [tiles];\n" /* as many as tiles: x1 .. */
    "mov.u64 %d4, 0; st.global.u64 [%d2], %d4; ld.global.u64 %d5, [%d1];\nLOOP:\n"
    "add.u64 %d1, %d1, 8; ld.global.u64 %d6, [%d1]; ld.global.u64 %d7, [%d6];\n"
    "ld.global.u64 %d8, [%d2]; add.u64 %d8, %d8, %d7; st.global.u64 [%d2], %d8;\n"
    "sub.u64 %d3, %d3, 1; setp.ne.u64 %p2, %d3, 0; @%p2 bra LOOP;\n"
    /* and the size behind them */
    "ld.global.u64 %d9, [%d1+8]; add.u64 %d8, %d8, %d9; st.global.u64 [%d5], %d8; ret;\n}\n";

enum { MI_KERNELS = 3 };

/* The image of mi_code for a machine; free() it. */
static inline struct tcc_pimage *
mi_image(const char *machine)
{
    static const char names[] = "ptx\0mi_k0\0mi_k1\0mi_k2";       /* at 0, 4, 10, 16 */
    struct tcc_pexpr exprs[] = {{TCC_EX_SYM, 0, 0, 0, 1}, {TCC_EX_SYM, 0, 0, 0, 0}, {TCC_EX_CONST, 0, 0, 0, 31},
        {TCC_EX_CONST, 0, 0, 0, 32},
                                {TCC_EX_ADD, 0, 2, 0, 0}, {TCC_EX_FLOORDIV, 4, 3, 0, 0}, {TCC_EX_CONST, 0, 0, 0, 64}};
    struct tcc_range kernels[MI_KERNELS];
    struct tcc_plaunch launches[MI_KERNELS];
    char strings[64];
    size_t at = sizeof(struct tcc_pimage);
    struct tcc_pimage head = {.magic = TCC_IMAGE_MAGIC, .version = TCC_ABI_VERSION};
    char *block = aligned_alloc(64, 16 << 10);

    memset(block, 0, 16 << 10);
    memcpy(strings, names, sizeof names);
    strcpy(strings + sizeof names, machine);
    head.machine = sizeof names;
    for (uint32_t k = 0; k < MI_KERNELS; k++) {
        kernels[k] = (struct tcc_range){k, 1};
        launches[k] = (struct tcc_plaunch){.symbol = 4 + 6 * k, .shared = TCC_NO, .scratch = k == 2 ? 6 : TCC_NO};
        for (int i = 0; i < 3; i++) /* control has no size: its tiles are symbol 0 */
            launches[k].grid[i] = launches[k].block[i] = launches[k].cluster[i] = TCC_NO;
        launches[k].block[0] = 3;
        if (k == 0)
            launches[k].grid[0] = 5;
    }
#define PUT(field, from, n, align) \
    (at = (at + (align) - 1) / (align) * (align), memcpy(block + at, from, (n) * sizeof *(from)), \
     head.field = (struct tcc_range){(uint32_t)at, (uint32_t)(n)}, at += (n) * sizeof *(from))
    PUT(strings, strings, sizeof names + strlen(machine) + 1, 1);
    PUT(exprs, exprs, sizeof exprs / sizeof *exprs, 8);
    PUT(kernels, kernels, MI_KERNELS, 4);
    PUT(launches, launches, MI_KERNELS, 4);
    PUT(bytes, strings, 0, 1);
    PUT(code, mi_code, sizeof mi_code, 64);
#undef PUT
    head.size = at;
    memcpy(block, &head, sizeof head);
    return (struct tcc_pimage *)block;
}

#endif
