/* SPDX-License-Identifier: Apache-2.0 */
/* Operations between the lanes of a warp: shfl, vote, match, activemask, redux, elect (PTX ISA, 9.7.9 and 9.7.13). */
#include "sim/ptx/text_int.h"

enum { SHFL_UP, SHFL_DOWN, SHFL_BFLY, SHFL_IDX };

void ptx_run_shfl(struct ptx_warp *w, const struct ptx_insn *i, uint32_t mask)
{
    uint32_t value[LANES], def = w->frame->def[i->s[0].reg], lost = 0;
    if (!ptx_members(w, &i->s[3], mask))
        return;
    memcpy(value, ptx_row(w, &i->s[0]), sizeof value);
    EACH_LANE(l, mask) {
        uint32_t b = (uint32_t)ptx_lane(w, &i->s[1], (int)l) & 31, c = (uint32_t)ptx_lane(w, &i->s[2], (int)l);
        uint32_t segment = c >> 8 & 31, most = (l & segment) | (c & 31 & ~segment), least = l & segment;
        int j = i->op == SHFL_UP     ? (int)l - (int)b
                : i->op == SHFL_DOWN ? (int)(l + b)
                : i->op == SHFL_BFLY ? (int)(l ^ b)
                                     : (int)(least | (b & ~segment));
        bool in = i->op == SHFL_UP ? j >= (int)most : j <= (int)most;
        uint32_t from = in ? (uint32_t)j : l;
        ptx_set(w, &i->d, (int)l, value[from]);
        ptx_set(w, &i->d2, (int)l, in);
        if (!(mask >> from & 1) || !(def >> from & 1))
            lost |= 1u << l; /* the value of a lane that takes no part is undefined */
    }
    if (!i->d.sink)
        w->frame->def[i->d.reg] &= ~lost;
}

void ptx_decode_shfl(struct ptx_parse *p, struct ptx_insn *i)
{
    bool sync = ptx_take(p, "sync");
    i->op = ptx_take(p, "up")     ? SHFL_UP
            : ptx_take(p, "down") ? SHFL_DOWN
            : ptx_take(p, "bfly") ? SHFL_BFLY
                                  : (ptx_take(p, "idx"), SHFL_IDX);
    ptx_take(p, "b32");
    if (!sync)
        ptx_fail(p, p->st.line, "'shfl' without .sync is not supported");
    ptx_operands(p, 5);
    i->d = ptx_dest(p, &p->st.op[0]);
    i->d2 = p->st.op[0].second ? ptx_dest(p, p->st.op[0].second) : (struct ptx_op){.sink = 1};
    for (int s = 0; s < 4; s++)
        i->s[s] = ptx_source(p, &p->st.op[s + 1], PT_B32);
    i->kind = K_RUN;
    i->fn.run = ptx_run_shfl;
}

void ptx_run_vote(struct ptx_warp *w, const struct ptx_insn *i, uint32_t mask)
{
    if (!ptx_members(w, &i->s[1], mask))
        return;
    ptx_need_defined(w, &i->s[0], mask, "the vote");
    uint32_t p = ptx_pred(w, &i->s[0]) & mask;
    bool r = i->op == 'a' ? p == mask : i->op == 'o' ? p != 0 : p == 0 || p == mask;
    if (i->op != 'b') {
        ptx_set_pred(w, &i->d, mask, r ? FULL : 0);
        return;
    }
    EACH_LANE(l, mask)
        ptx_set(w, &i->d, (int)l, p);
}

void ptx_decode_vote(struct ptx_parse *p, struct ptx_insn *i)
{
    bool sync = ptx_take(p, "sync");
    i->op = ptx_take(p, "all")   ? 'a'
            : ptx_take(p, "any") ? 'o'
            : ptx_take(p, "uni") ? 'u'
                                 : (ptx_take(p, "ballot"), 'b');
    ptx_take(p, "pred"), ptx_take(p, "b32");
    if (!sync)
        ptx_fail(p, p->st.line, "'vote' without .sync is not supported");
    ptx_operands(p, 3);
    i->d = ptx_dest(p, &p->st.op[0]);
    i->s[0] = ptx_source(p, &p->st.op[1], PT_PRED);
    i->s[1] = ptx_source(p, &p->st.op[2], PT_B32);
    i->kind = K_RUN;
    i->fn.run = ptx_run_vote;
}

void ptx_run_match(struct ptx_warp *w, const struct ptx_insn *i, uint32_t mask)
{
    uint32_t same[LANES] = {0};
    if (!ptx_members(w, &i->s[1], mask))
        return;
    EACH_LANE(l, mask)
        EACH_LANE(k, mask)
            if (ptx_lane(w, &i->s[0], (int)l) == ptx_lane(w, &i->s[0], (int)k))
                same[l] |= 1u << k;
    EACH_LANE(l, mask) {
        bool all = same[l] == mask;
        ptx_set(w, &i->d, (int)l, i->op == 'a' ? (all ? mask : 0) : same[l]);
        ptx_set(w, &i->d2, (int)l, all);
    }
}

void ptx_decode_match(struct ptx_parse *p, struct ptx_insn *i)
{
    ptx_take(p, "sync");
    i->op = ptx_take(p, "all") ? 'a' : (ptx_take(p, "any"), 'o');
    enum ptx_type type = ptx_take_type(p);
    ptx_operands(p, 3);
    i->d = ptx_dest(p, &p->st.op[0]);
    i->d2 = p->st.op[0].second ? ptx_dest(p, p->st.op[0].second) : (struct ptx_op){.sink = 1};
    i->s[0] = ptx_source(p, &p->st.op[1], type);
    i->s[1] = ptx_source(p, &p->st.op[2], PT_B32);
    i->nsrc = 1;
    i->kind = K_RUN;
    i->fn.run = ptx_run_match;
}

void ptx_run_activemask(struct ptx_warp *w, const struct ptx_insn *i, uint32_t mask)
{
    EACH_LANE(l, mask)
        ptx_set(w, &i->d, (int)l, mask);
}

void ptx_decode_activemask(struct ptx_parse *p, struct ptx_insn *i)
{
    ptx_take(p, "b32");
    ptx_operands(p, 1);
    i->d = ptx_dest(p, &p->st.op[0]);
    i->kind = K_RUN;
    i->fn.run = ptx_run_activemask;
}

static uint32_t reduce(int op, bool is_signed, uint32_t a, uint32_t b)
{
    bool less = is_signed ? (int32_t)a < (int32_t)b : a < b;
    return op == '+'   ? a + b
           : op == '<' ? (less ? a : b)
           : op == '>' ? (less ? b : a)
           : op == '&' ? a & b
           : op == '|' ? a | b
                       : a ^ b;
}

void ptx_run_redux(struct ptx_warp *w, const struct ptx_insn *i, uint32_t mask)
{
    if (!ptx_members(w, &i->s[1], mask))
        return;
    ptx_need_defined(w, &i->s[0], mask, "the reduction");
    uint32_t rest = mask & (mask - 1), r = (uint32_t)ptx_lane(w, &i->s[0], __builtin_ctz(mask));
    EACH_LANE(l, rest)
        r = reduce(i->op, i->type == PT_S32, r, (uint32_t)ptx_lane(w, &i->s[0], (int)l));
    EACH_LANE(l, mask)
        ptx_set(w, &i->d, (int)l, r);
}

void ptx_decode_redux(struct ptx_parse *p, struct ptx_insn *i)
{
    static const struct {
        const char *name;
        char op;
    } ops[] = {{"add", '+'}, {"min", '<'}, {"max", '>'}, {"and", '&'}, {"or", '|'}, {"xor", '^'}};
    ptx_take(p, "sync");
    for (size_t k = 0; k < sizeof ops / sizeof *ops; k++)
        if (ptx_take(p, ops[k].name))
            i->op = (uint8_t)ops[k].op;
    i->type = (uint8_t)ptx_take_type(p);
    ptx_operands(p, 3);
    if (ptx_types[i->type].bytes != 4 || ptx_types[i->type].cls == 'f' || !i->op)
        ptx_fail(p, p->st.line, "'redux' of type .%s is not supported", ptx_types[i->type].text);
    i->d = ptx_dest(p, &p->st.op[0]);
    i->s[0] = ptx_source(p, &p->st.op[1], PT_B32);
    i->s[1] = ptx_source(p, &p->st.op[2], PT_B32);
    i->kind = K_RUN;
    i->fn.run = ptx_run_redux;
}

void ptx_run_elect(struct ptx_warp *w, const struct ptx_insn *i, uint32_t mask)
{
    if (!ptx_members(w, &i->s[0], mask))
        return;
    int leader = __builtin_ctz(mask);
    EACH_LANE(l, mask) {
        ptx_set(w, &i->d, (int)l, (uint64_t)leader);
        ptx_set(w, &i->d2, (int)l, (int)l == leader);
    }
}

void ptx_decode_elect(struct ptx_parse *p, struct ptx_insn *i)
{
    ptx_take(p, "sync");
    ptx_operands(p, 2);
    i->d = ptx_dest(p, &p->st.op[0]);
    i->d2 = p->st.op[0].second ? ptx_dest(p, p->st.op[0].second) : (struct ptx_op){.sink = 1};
    i->s[0] = ptx_source(p, &p->st.op[1], PT_B32);
    i->kind = K_RUN;
    i->fn.run = ptx_run_elect;
}
