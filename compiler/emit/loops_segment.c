/* SPDX-License-Identifier: Apache-2.0 */
/* loops_segment.c - the vector lanes of a loop of any number of points: whole vectors, then what is left, masked. */
#include "compiler/emit/loops.h"

struct loops_segments loops_segments(const struct em *e, int width, int unroll, int ncounts, const int64_t *counts)
{
    struct loops_segments s = {0};
    bool masks = e->m->masks;
    int64_t rest[4];
    int lanes[] = {width * unroll, width};
    for (int i = 0; i < ncounts; i++)
        rest[i] = counts[i];
    for (int i = 0; i < 2; i++) {
        bool wanted = ncounts == 0 && lanes[i] > 1 && (i == 0 || (unroll > 1 && !masks));
        for (int j = 0; j < ncounts; j++) {
            wanted = wanted || (rest[j] >= lanes[i] && lanes[i] > 1 && (i == 0 || unroll > 1));
            rest[j] %= lanes[i];
        }
        if (wanted && !(i == 1 && masks))
            s.at[s.n++] = (struct loops_segment){lanes[i], false};
    }
    bool tail = ncounts == 0 || width == 1;
    for (int j = 0; j < ncounts; j++)
        tail = tail || counts[j] % (masks ? lanes[0] : lanes[unroll > 1]) != 0 || rest[j] != 0;
    if (tail || s.n == 0)
        s.at[s.n++] = (struct loops_segment){masks ? width : 1, masks && width > 1};
    return s;
}

void loops_run_segments(struct em *e, const struct loops_segments *s, int dim, struct em_range r,
                        void (*body)(void *, int), void *user)
{
    ir_expr var = e->k->dims[dim].var;
    for (int i = 0; i < s->n; i++) {
        int lanes = s->at[i].lanes;
        struct em_parts parts = {.whole = r};
        if (!s->at[i].masked && lanes > 1)
            parts = em_tiles(e, r, lanes);
        struct em_loop l;
        em_loop_begin(e, &l, parts.whole, em_i64(e, lanes), "v");
        em_bind(e, var, l.iv);
        LLVMValueRef mask = s->at[i].masked ? em_tail_mask(e, LLVMBuildSub(e->b, r.hi, l.iv, ""), lanes) : NULL;
        em_set_lanes(e, var, lanes, mask);
        body(user, i);
        em_set_lanes(e, NULL, 1, NULL);
        em_loop_end(e, &l);
        r = parts.rest;
    }
}
