/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cp.async: a copy is noted when issued; its target holds poison and is marked as in flight. The data come at a moment
 * drawn from the seed, at the latest when the thread waits for the copy's group; only the wait makes the target
 * readable.
 */
#include <stdlib.h>

#include "sim/ptx/text_int.h"

static void land(struct ptx_warp *w, struct ptx_copy *c)
{
    if (c->arrived)
        return;
    memcpy(w->b->shared + c->to, c->data, c->from_bytes);
    memset(w->b->shared + c->to + c->from_bytes, 0, (size_t)(c->bytes - c->from_bytes));
    c->arrived = true;
}

void ptx_copies_land(struct ptx_warp *w)
{
    for (int k = 0; k < w->ncopies; k++)
        land(w, &w->copies[k]);
}

void ptx_copies_arrive(struct ptx_warp *w, int pending, uint32_t mask)
{
    int kept = 0;
    for (int k = 0; k < w->ncopies; k++) {
        struct ptx_copy c = w->copies[k];
        if (!(mask >> c.lane & 1) || (pending >= 0 && c.group >= w->group[c.lane] - pending)) {
            w->copies[kept++] = c;
            continue;
        }
        land(w, &c);
        memset(w->b->shadow + c.to, 1, c.bytes);
        ptx_race(w, w->b, c.lane, c.to, c.bytes, true, 0);
    }
    w->ncopies = kept;
}

/* Bytes that the lane copies; the others of its target become zeros. */
static size_t copied(struct ptx_warp *w, const struct ptx_insn *i, int lane)
{
    if (i->nsrc > 2 && i->s[2].bytes)
        return (uint32_t)ptx_lane(w, &i->s[2], lane);
    return i->nsrc > 2 && ptx_lane(w, &i->s[2], lane) ? 0 : i->vec;
}

static bool more_copies(struct ptx_warp *w, int n)
{
    if (w->ncopies + n <= w->copy_room)
        return true;
    int room = w->copy_room ? 2 * w->copy_room : 256;
    struct ptx_copy *grown = realloc(w->copies, (size_t)room * sizeof *grown);
    if (!grown) {
        w->b->g->no_memory = true;
        w->b->stop = true;
        return false;
    }
    w->copies = grown;
    w->copy_room = room;
    return true;
}

/* A copy whose places are known to be right. */
static void start(struct ptx_warp *w, int lane, const struct ptx_place *to, const struct ptx_place *from, size_t bytes,
                  size_t n)
{
    if (n) {
        if (from->shadow && (n & (n - 1) || !ptx_written(from->shadow, n)))
            ptx_check_read(w, from, n, lane, from->offset);
        ptx_race_global(w, lane, from, n, false, false);
    }
    if (!more_copies(w, 1))
        return;
    w->copies[w->ncopies++] =
        (struct ptx_copy){(uint32_t)to->offset,     (uint8_t)lane, (uint8_t)bytes, (uint8_t)n, false, w->group[lane],
                          n ? from->data : to->data};
    memset(to->data, 0xff, bytes);
    memset(to->shadow, 2, bytes);
}

static void one(struct ptx_warp *w, const struct ptx_insn *i, int lane, uint64_t target, uint64_t origin, size_t n)
{
    struct ptx_place to, from = {0};
    size_t bytes = i->vec;
    if (n > bytes) {
        ptx_report(w, PTX_CHECK_BOUNDS, lane, origin, "cp.async of %zu bytes from a source of %zu", bytes, n);
        return;
    }
    if (!ptx_place(w, SP_SHARED, target, bytes, lane, true, &to))
        return;
    if (n && (!ptx_place(w, SP_GLOBAL, origin, bytes, lane, false, &from)))
        return;
    ptx_race(w, w->b, lane, (uint32_t)to.offset, bytes, true, 0);
    start(w, lane, &to, &from, bytes, n);
}

void ptx_run_cp_async(struct ptx_warp *w, const struct ptx_insn *i, uint32_t mask)
{
    uint64_t address[LANES], target[LANES];
    size_t n[LANES], bytes = i->vec, most = 0;
    uint32_t copying = 0;
    struct ptx_reach to, from = {0};
    ptx_need_defined(w, &i->s[0], mask, "the address");
    ptx_need_defined(w, &i->s[1], mask, "the address");
    EACH_LANE(l, mask) {
        address[l] = ptx_lane(w, &i->s[1], (int)l) + (uint64_t)i->target;
        target[l] = ptx_lane_address(w, i, 0, (int)l);
        n[l] = copied(w, i, (int)l);
        copying |= n[l] ? 1u << l : 0;
        most = n[l] > most ? n[l] : most;
    }
    bool fine = most <= bytes && ptx_reach(w, SP_SHARED, target, mask, bytes, true, &to) &&
                (!copying || ptx_reach(w, SP_GLOBAL, address, copying, bytes, false, &from));
    if (fine)
        ptx_race_lanes(w, target, 0, mask, bytes, true);
    EACH_LANE(l, mask)
        if (fine) {
            struct ptx_place at = ptx_reach_place(w, &to, target[l]), origin = {0};
            if (n[l])
                origin = ptx_reach_place(w, &from, address[l]);
            start(w, (int)l, &at, &origin, bytes, n[l]);
        } else {
            one(w, i, (int)l, target[l], address[l], n[l]);
        }
    w->b->count.async_copies++;
    w->copies_at[w->copy_group % PTX_GROUPS] = ptx_path_copy(w);
    ptx_count_global(w, address, mask, i->vec);
}

void ptx_run_cp_commit(struct ptx_warp *w, const struct ptx_insn *i, uint32_t mask)
{
    (void)i;
    EACH_LANE(l, mask)
        w->group[l]++;
    w->copies_at[++w->copy_group % PTX_GROUPS] = (struct ptx_path){{0}};
}

void ptx_run_cp_wait(struct ptx_warp *w, const struct ptx_insn *i, uint32_t mask)
{
    ptx_copies_arrive(w, (int)i->imm, mask);
    for (uint64_t g = (uint64_t)i->imm + 1; g < PTX_GROUPS && g <= w->copy_group; g++)
        ptx_path_wait(w, &w->copies_at[(w->copy_group - g) % PTX_GROUPS]);
}

void ptx_decode_bulk(struct ptx_parse *p, struct ptx_insn *i);

void ptx_decode_cp(struct ptx_parse *p, struct ptx_insn *i)
{
    struct ptx_operand *o = p->st.op;
    i->kind = K_RUN;
    for (int k = 0; k < p->st.nmod; k++)
        if (strcmp(p->st.mod[k], "bulk") == 0) {
            ptx_decode_bulk(p, i);
            return;
        }
    if (!ptx_take(p, "async"))
        ptx_fail(p, p->st.line, "instruction '%s' is not supported", i->text);
    if (ptx_take(p, "commit_group")) {
        ptx_operands(p, 0);
        i->fn.run = ptx_run_cp_commit;
    } else if (ptx_take(p, "wait_all")) {
        ptx_operands(p, 0);
        i->imm = -1;
        i->fn.run = ptx_run_cp_wait;
    } else if (ptx_take(p, "wait_group")) {
        ptx_operands(p, 1);
        if (o[0].kind != O_INT)
            ptx_fail(p, p->st.line, "'cp.async.wait_group' requires a number");
        i->imm = (int64_t)o[0].value;
        i->fn.run = ptx_run_cp_wait;
    } else if (ptx_take(p, "mbarrier")) {
        ptx_take(p, "arrive");
        i->op2 = ptx_take(p, "noinc");
        i->space = ptx_take(p, "shared") || ptx_take(p, "shared::cta") ? SP_SHARED : SP_GENERIC;
        ptx_take(p, "b64");
        ptx_operands(p, 1);
        ptx_address(p, i, &o[0], 0);
        i->nsrc = 1;
        i->fn.run = ptx_run_cp_mbarrier;
    } else {
        bool cg = ptx_take(p, "cg");
        ptx_take(p, "ca"), ptx_take(p, "shared") || ptx_take(p, "shared::cta") || ptx_take(p, "shared::cluster"),
            ptx_take(p, "global");
        ptx_take(p, "L2::64B"), ptx_take(p, "L2::128B"), ptx_take(p, "L2::256B");
        if (p->st.nop < 3 || p->st.nop > 4 || o[2].kind != O_INT)
            ptx_fail(p, p->st.line, "this form of 'cp.async' is not supported");
        uint64_t size = o[2].value;
        if (size != 16 && (cg || (size != 4 && size != 8)))
            ptx_fail(p, p->st.line, "'cp.async' of %llu bytes", (unsigned long long)size);
        ptx_address(p, i, &o[1], 1);
        if (i->s[1].sink || i->imm != (int32_t)i->imm)
            ptx_fail(p, p->st.line, "this address of 'cp.async' is not supported");
        i->target = (int32_t)i->imm;
        i->space = SP_SHARED;
        ptx_address(p, i, &o[0], 0);
        i->vec = (uint8_t)size;
        i->nsrc = 2;
        if (p->st.nop == 4) {
            enum ptx_type t = PT_B32;
            if (o[3].kind == O_REG)
                ptx_register(p, o[3].name, &t);
            i->s[2] = ptx_source(p, &o[3], t == PT_PRED ? PT_PRED : PT_B32);
            i->nsrc = 3;
        }
        i->fn.run = ptx_run_cp_async;
    }
}
