/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clusters (PTX ISA, "Thread block clusters"): their barrier and their addresses. An address of shared::cluster holds
 * the block's rank plus one above its offset; a plain offset is the block's own. An arrival publishes the warp's clock,
 * the end of the barrier gives all of them to all. setmaxnreg stands here too: a promise about registers, of which the
 * simulator has enough.
 */
#include "sim/ptx/text_int.h"

void ptx_run_mapa(struct ptx_warp *w, const struct ptx_insn *i, uint32_t mask)
{
    uint64_t window = i->space == SP_SHARED ? 0 : WINDOW_SHARED;
    EACH_LANE(l, mask) {
        uint64_t a = ptx_lane(w, &i->s[0], (int)l), rank = (uint32_t)ptx_lane(w, &i->s[1], (int)l);
        if (rank >= (unsigned)w->b->nblocks || (window && (a & WINDOW_MASK) != WINDOW_SHARED)) {
            ptx_report(w, PTX_CHECK_BOUNDS, (int)l, a,
                       window ? "'mapa' of rank %d in a cluster of %d blocks, or of no shared address"
                              : "'mapa' of rank %d in a cluster of %d blocks",
                       (int)rank, w->b->nblocks);
            return;
        }
        uint64_t offset = (a - window) & ((1u << RANK_SHIFT) - 1);
        ptx_set(w, &i->d, (int)l, window + (rank + 1) * (1u << RANK_SHIFT) + offset);
    }
}

void ptx_run_ctarank(struct ptx_warp *w, const struct ptx_insn *i, uint32_t mask)
{
    EACH_LANE(l, mask) {
        uint64_t a = ptx_lane(w, &i->s[0], (int)l);
        uint64_t rank = (a & 0xffffffff) >> RANK_SHIFT;
        ptx_set(w, &i->d, (int)l, rank ? rank - 1 : (uint64_t)w->b->rank);
    }
}

void ptx_decode_mapa(struct ptx_parse *p, struct ptx_insn *i)
{
    bool rank = p->st.opcode[0] == 'g';
    i->space = ptx_take(p, "shared::cluster") ? SP_SHARED : SP_GENERIC;
    enum ptx_type type = ptx_take_type(p);
    ptx_operands(p, rank ? 2 : 3);
    i->d = ptx_dest(p, &p->st.op[0]);
    i->s[0] = ptx_source(p, &p->st.op[1], type == PT_U32 && rank && i->space == SP_GENERIC ? PT_U64 : type);
    if (!rank)
        i->s[1] = ptx_source(p, &p->st.op[2], PT_U32);
    i->nsrc = rank ? 1 : 2;
    ptx_run_by(i, rank ? ptx_run_ctarank : ptx_run_mapa);
}

/* -- The barrier -- */

void ptx_run_cluster_arrive(struct ptx_warp *w, const struct ptx_insn *i, uint32_t mask)
{
    struct ptx_block *lead = w->b->lead;
    (void)i;
    if (!ptx_whole_warp(w, mask))
        return;
    if (w->in_cluster) {
        ptx_report(w, PTX_CHECK_BARRIER, __builtin_ctz(mask), 0,
                   "the warp arrives at the cluster's barrier twice in one phase");
        return;
    }
    w->in_cluster = true;
    w->cluster_phase = lead->cluster_phase;
    ptx_join(lead, lead->cluster_clock, w->clock);
    lead->cluster_clock[ptx_index(w)] = lead->era++;
    ptx_path_arrive(w, &lead->cluster_now[lead->cluster_phase & 1]);
    ptx_cluster_exit(lead);
}

void ptx_run_cluster_wait(struct ptx_warp *w, const struct ptx_insn *i, uint32_t mask)
{
    struct ptx_block *lead = w->b->lead;
    (void)i;
    if (!ptx_whole_warp(w, mask))
        return;
    if (w->in_cluster && w->cluster_phase == lead->cluster_phase) { /* again, until the others have arrived */
        w->split[w->nsplit - 1].pc--;
        w->state = W_WAIT;
        ptx_path_tries(w);
        return;
    }
    ptx_path_wait(w, &lead->cluster_now[w->cluster_phase & 1]);
    ptx_join(lead, w->clock, lead->cluster_clock);
}

/* -- Registers -- */

void ptx_run_setmaxnreg(struct ptx_warp *w, const struct ptx_insn *i, uint32_t mask)
{
    (void)i;
    ptx_whole_warp(w, mask);
}

void ptx_decode_setmaxnreg(struct ptx_parse *p, struct ptx_insn *i)
{
    bool fine = ptx_take(p, "inc") || ptx_take(p, "dec");
    fine = ptx_take(p, "sync") && ptx_take(p, "aligned") && ptx_take(p, "u32") && fine;
    ptx_operands(p, 1);
    uint64_t n = p->st.op[0].value;
    if (!fine || p->st.op[0].kind != O_INT || n < 24 || n > 256 || n % 8)
        ptx_fail(p, p->st.line, "'%s' requires a multiple of 8 from 24 to 256", i->text);
    ptx_run_by(i, ptx_run_setmaxnreg);
}
