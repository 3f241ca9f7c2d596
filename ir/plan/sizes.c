/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sizes.c - checks that sizes are known where a plan uses them: each symbol of a step's sizes, or of those of a buffer
 * that it accesses, is an input's (level 0) or was bound by a step in front, in the same entry point, in the step's
 * list or in one around it. What a region binds is not known behind it.
 */
#include "ir/text/kernel_words_int.h"

#include <string.h>

struct sizes {
    const struct kn_program *p;
    bool *known; /* by a symbol's id */
    uint32_t room;
    const struct kn_step *step;
    ir_expr unknown;
    struct ir_arena *scratch;
};

static void check_symbol(void *user, ir_expr sym)
{
    struct sizes *c = user;
    if (!c->unknown && (sym->id >= c->room || !c->known[sym->id]))
        c->unknown = sym;
}

static void check(struct sizes *c, ir_expr e)
{
    if (e)
        ir_each_sym(e, check_symbol, c);
}

static void check_buffer(struct sizes *c, int b)
{
    for (; b >= 0 && b < c->p->nbuffers; b = c->p->buffers[b].index) {
        check(c, c->p->buffers[b].bytes);
        if (c->p->buffers[b].space != TCC_SPACE_ALIAS)
            return;
        check(c, c->p->buffers[b].offset);
    }
}

static void check_step(struct sizes *c, const struct kn_step *s)
{
    c->step = s;
    for (int i = 0; i < s->nsizes; i++)
        check(c, s->sizes[i]);
    check(c, s->tiles);
    check(c, s->combining);
    check(c, s->scratch);
    bool sets = s->kind == TCC_STEP_LIB; /* its results have the sizes that it gives them */
    for (int i = 0; i < (sets ? s->nin : s->nargs) && s->kind != TCC_STEP_FREE; i++)
        check_buffer(c, s->args[i]);
}

static void walk(struct sizes *c, const struct kn_steps *steps)
{
    for (int i = 0; i < steps->n && !c->unknown; i++) {
        const struct kn_step *s = &steps->at[i];
        if (s->kind == TCC_STEP_BIND || s->kind == TCC_STEP_DIMS)
            for (int k = 0; k < s->nsyms; k++)
                if (s->syms[k] && s->syms[k]->id < c->room)
                    c->known[s->syms[k]->id] = true;
        check_step(c, s);
        bool *before = s->nregions && !kn_is_bundle(s) ? ir_arena_alloc(c->scratch, c->room) : NULL;
        if (before)
            memcpy(before, c->known, c->room);
        for (int r = 0; r < s->nregions; r++) {
            walk(c, &s->regions[r].steps);
            if (before)
                memcpy(c->known, before, c->room);
        }
    }
}

bool kn_verify_sizes(const struct kn_program *p, const struct kn_entry *e)
{
    struct ir_ctx *ctx = p->module->ctx;
    struct ir_arena *scratch = ir_arena_new(ctx);
    struct sizes c = {.p = p, .scratch = scratch, .room = 1};
    for (int i = 0; i < p->nsyms; i++)
        c.room = p->syms[i]->id >= c.room ? p->syms[i]->id + 1 : c.room;
    c.known = ir_arena_alloc(scratch, c.room);
    for (int i = 0; i < p->nsyms; i++)
        c.known[p->syms[i]->id] = p->sym_level[i] == 0;
    walk(&c, &e->steps);
    ir_arena_free(scratch);
    if (!c.unknown)
        return true;
    const char *node = c.step->node ? c.step->node : "";
    ir_invalid(ctx, NULL, ctx->parsing ? IR_D_ERROR : IR_D_BUG,
               ir_internf(ctx, "plan of '%s': %s%s%s: nothing has bound the size '%s'", e->name,
                          kn_step_words[c.step->kind], *node ? " of " : "", node, c.unknown->name));
    return false;
}
