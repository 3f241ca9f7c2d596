/* SPDX-License-Identifier: Apache-2.0 */
/* decode_memory.c - the forms of instructions that name memory: addresses, loads and stores, atomics, and what only
 * orders or hints. */
#include "sim/ptx/text_int.h"

static enum ptx_space take_space(struct ptx_parse *p)
{
    static const struct {
        const char *name;
        enum ptx_space space;
    } spaces[] = {
        {"global", SP_GLOBAL},    {"shared", SP_SHARED}, {"shared::cta", SP_SHARED}, {"shared::cluster", SP_SHARED},
        {"const", SP_CONST},      {"local", SP_LOCAL},   {"param", SP_PARAM},        {"param::entry", SP_PARAM},
        {"param::func", SP_PARAM}};
    for (size_t k = 0; k < sizeof spaces / sizeof *spaces; k++)
        if (ptx_take(p, spaces[k].name))
            return spaces[k].space;
    return SP_GENERIC;
}

void ptx_decode_cvta(struct ptx_parse *p, struct ptx_insn *i)
{
    i->op = ptx_take(p, "to") ? 1 : 0;
    i->space = (uint8_t)take_space(p);
    i->type = (uint8_t)ptx_take_type(p);
    ptx_operands(p, 2);
    if (ptx_types[i->type].bytes != 8)
        ptx_fail(p, p->st.line, "'cvta' requires 64-bit addresses");
    i->d = ptx_dest_of(p, &p->st.op[0], 8);
    i->s[0] = ptx_source(p, &p->st.op[1], PT_U64);
    i->nsrc = 1;
    ptx_run_by(i, ptx_run_cvta);
}

void ptx_decode_isspacep(struct ptx_parse *p, struct ptx_insn *i)
{
    i->space = (uint8_t)take_space(p);
    ptx_operands(p, 2);
    i->d = ptx_dest_of(p, &p->st.op[0], 0);
    i->s[0] = ptx_source(p, &p->st.op[1], PT_U64);
    i->nsrc = 1;
    ptx_run_by(i, ptx_run_isspace);
}

static void take_cache(struct ptx_parse *p)
{
    static const char *const hints[] = {"weak",
                                        "ca",
                                        "cg",
                                        "cs",
                                        "lu",
                                        "cv",
                                        "wb",
                                        "wt",
                                        "nc",
                                        "L1::evict_normal",
                                        "L1::evict_unchanged",
                                        "L1::evict_first",
                                        "L1::evict_last",
                                        "L1::no_allocate",
                                        "L2::64B",
                                        "L2::128B",
                                        "L2::256B",
                                        "unified"};
    for (size_t k = 0; k < sizeof hints / sizeof *hints; k++)
        ptx_take(p, hints[k]);
}

/* volatile, relaxed, acquire, release and a scope: accesses that may meet others'. */
static void take_order(struct ptx_parse *p, struct ptx_insn *i)
{
    static const char *const orders[] = {"volatile", "relaxed", "acquire", "release", "acq_rel", "mmio"};
    static const char *const scopes[] = {"cta", "cluster", "gpu", "sys"};
    for (size_t k = 0; k < sizeof orders / sizeof *orders; k++)
        if (ptx_take(p, orders[k]))
            i->flags |= (uint8_t)(F_VOLATILE | (orders[k][0] == 'a' || orders[k][2] == 'l' ? F_ORDER : 0));
    for (size_t k = 0; k < sizeof scopes / sizeof *scopes; k++)
        ptx_take(p, scopes[k]);
}

static int take_vector(struct ptx_parse *p)
{
    return ptx_take(p, "v2") ? 2 : ptx_take(p, "v4") ? 4 : ptx_take(p, "v8") ? 8 : 1;
}

static void memory(struct ptx_parse *p, struct ptx_insn *i, bool load)
{
    take_order(p, i);
    i->space = (uint8_t)take_space(p);
    take_cache(p);
    i->vec = (uint8_t)take_vector(p);
    i->type = (uint8_t)ptx_take_type(p);
    ptx_operands(p, 2);
    ptx_address(p, i, &p->st.op[load ? 1 : 0], 0);
    ptx_vector(p, i, &p->st.op[load ? 0 : 1], i->type, load);
    if (i->nmore != i->vec)
        ptx_fail(p, p->st.line, "'%s' requires %d registers, got %d", p->st.opcode, i->vec, i->nmore);
    for (int k = 0; k < i->nmore; k++)
        if (!i->more[k].sink && i->more[k].bytes < ptx_types[i->type].bytes)
            ptx_fail(p, p->st.line, "register of '%s' is narrower than .%s", p->st.opcode, ptx_types[i->type].text);
    if (ptx_types[i->type].bytes * i->vec > 32 || i->type == PT_PRED)
        ptx_fail(p, p->st.line, "'%s' of this width is not supported", p->st.opcode);
    ptx_run_by(i, load ? ptx_run_load : ptx_run_store);
}

void ptx_decode_ld(struct ptx_parse *p, struct ptx_insn *i)
{
    memory(p, i, true);
}

void ptx_decode_st(struct ptx_parse *p, struct ptx_insn *i)
{
    memory(p, i, false);
}

void ptx_decode_atom(struct ptx_parse *p, struct ptx_insn *i)
{
    static const char *const ops[] = {"add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec"};
    bool red = strcmp(p->st.opcode, "red") == 0;
    take_order(p, i);
    i->space = (uint8_t)take_space(p);
    for (size_t k = 0; k < sizeof ops / sizeof *ops; k++)
        if (ptx_take(p, ops[k]))
            i->op = (uint8_t)(k + 1);
    ptx_take(p, "noftz");
    i->vec = (uint8_t)take_vector(p);
    i->type = (uint8_t)ptx_take_type(p);
    bool cas = i->op == 8;
    int n = (red ? 2 : 3) + cas;
    ptx_operands(p, n);
    if (!i->op || (i->vec > 1 && i->type != PT_F32 && i->type != PT_F16X2 && i->type != PT_BF16X2))
        ptx_fail(p, p->st.line, "this form of '%s' is not supported", p->st.opcode);
    ptx_address(p, i, &p->st.op[red ? 0 : 1], 0);
    i->op2 = red;
    if (!red)
        ptx_vector(p, i, &p->st.op[0], i->type, true);
    ptx_vector(p, i, &p->st.op[red ? 1 : 2], i->type, false);
    if (cas)
        ptx_vector(p, i, &p->st.op[3], i->type, false);
    ptx_run_by(i, ptx_run_atom);
}

/* fence and membar: what they order between blocks. Those of a block alone are no more than the barriers that follow
 * them. */
void ptx_decode_fence(struct ptx_parse *p, struct ptx_insn *i)
{
    if (ptx_take(p, "proxy")) { /* .async, with what it is about; the others order what this simulator does in order */
        bool async = ptx_take(p, "async");
        for (int k = 0; k < p->st.nmod; k++)
            async |= strncmp(p->st.mod[k], "async", 5) == 0;
        p->st.nmod = 0;
        ptx_run_by(i, async ? ptx_run_proxy_fence : ptx_run_nothing);
        return;
    }
    if (ptx_take(p, "mbarrier_init"))
        p->st.nmod = 0;
    bool wide = ptx_take(p, "gl") || ptx_take(p, "gpu") || ptx_take(p, "sys") || ptx_take(p, "cluster");
    ptx_take(p, "cta"), ptx_take(p, "sc"), ptx_take(p, "acq_rel"), ptx_take(p, "acquire"), ptx_take(p, "release");
    ptx_operands(p, 0);
    ptx_run_by(i, wide ? ptx_run_fence : ptx_run_nothing);
}

void ptx_decode_hint(struct ptx_parse *p, struct ptx_insn *i)
{
    p->st.nmod = 0; /* prefetch, fences, nanosleep ...: order and time, no values */
    ptx_run_by(i, ptx_run_nothing);
}
