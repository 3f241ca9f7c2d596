/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An estimate of the registers a thread needs: the most words that are live at once, by the span of instructions from a
 * register's first to its last mention, drawn out over the loops around it. An assembler that reorders needs more or
 * fewer.
 */
#include <stdlib.h>

#include "sim/ptx/ptx_int.h"

struct span {
    int from, to;
};

static void mention(struct span *s, const struct ptx_op *o, int pc)
{
    if (!o->reg || o->constant)
        return;
    struct span *r = &s[o->reg];
    r->from = r->from < 0 || pc < r->from ? pc : r->from;
    r->to = pc > r->to ? pc : r->to;
}

static void mentions(const struct ptx_func *f, struct span *s)
{
    for (int pc = 0; pc < f->ncode; pc++) {
        const struct ptx_insn *i = &f->code[pc];
        mention(s, &i->guard, pc);
        mention(s, &i->d, pc);
        mention(s, &i->d2, pc);
        for (int k = 0; k < 4; k++)
            mention(s, &i->s[k], pc);
        for (int k = 0; k < i->nmore; k++)
            mention(s, &i->more[k], pc);
    }
}

int ptx_registers(const struct ptx_func *f)
{
    struct span *s = malloc((size_t)(f->nregs + 1) * sizeof *s);
    int *change = calloc((size_t)f->ncode + 2, sizeof *change), live = 0, most = 0;
    for (int r = 0; s && r <= f->nregs; r++)
        s[r] = (struct span){-1, -1};
    if (s && change) {
        mentions(f, s);
        for (int pc = 0; pc < f->ncode; pc++) /* what a loop takes in and uses stays until its end */
            for (int r = 1; f->code[pc].kind == K_BRANCH && f->code[pc].target <= pc && r < f->nregs; r++)
                if (s[r].from >= 0 && s[r].from < f->code[pc].target && s[r].to >= f->code[pc].target && s[r].to < pc)
                    s[r].to = pc;
        for (int r = 1; r < f->nregs; r++)
            if (s[r].from >= 0) {
                int words = (ptx_types[f->reg_type[r]].bytes + 3) / 4;
                change[s[r].from] += words;
                change[s[r].to] -= words; /* a result may take the place of a last use */
            }
    }
    for (int pc = 0; change && pc < f->ncode; pc++) {
        live += change[pc];
        most = live > most ? live : most;
    }
    free(s);
    free(change);
    most += 6; /* addresses and the machine's own */
    return most < 16 ? 16 : most > 255 ? 255 : most;
}
