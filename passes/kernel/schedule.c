/* SPDX-License-Identifier: Apache-2.0 */
/* schedule: the machine chooses how each kernel is run, unless its text says so; launches learn their tiles and scratch
 * in their own symbols. */
#include "passes/pass.h"

bool pass_schedule_run(struct pass_run *r);

/* The plain loop nest: one tile. */
static void plain_schedule(struct ir_ctx *ctx, struct kn_kernel *k)
{
    k->schedule = (struct kn_schedule){.how = "loops"};
    k->tiles = ir_const(ctx, 1);
    k->combining = k->split.combine ? k->tiles : NULL;
    k->scratch = ir_const(ctx, 0);
    for (int i = 0; i < k->noperands; i++) {
        const struct kn_operand *o = &k->operands[i];
        ir_expr bytes = ir_const(ctx, tcc_dtype_bytes(o->dtype));
        for (int d = 0; d < o->rank; d++)
            bytes = ir_mul(ctx, bytes, o->dims[d]);
        if (o->use == KN_LOCAL) /* one after the other, each on a 64-byte line of its own */
            k->scratch = ir_add(ctx, k->scratch, ir_mulc(ctx, ir_ceildiv(ctx, bytes, ir_const(ctx, 64)), 64));
    }
}

static void schedule_steps(struct ir_ctx *ctx, struct kn_steps *steps)
{
    for (int i = 0; i < steps->n; i++) {
        struct kn_step *s = &steps->at[i];
        for (int g = 0; g < s->nregions; g++)
            schedule_steps(ctx, &s->regions[g].steps);
        if (s->kind != TCC_STEP_LAUNCH)
            continue;
        s->tiles = ir_subst(ctx, s->kernel->tiles, s->nsizes, s->kernel->sizes, s->sizes);
        if (s->kernel->combining)
            s->combining = ir_subst(ctx, s->kernel->combining, s->nsizes, s->kernel->sizes, s->sizes);
        s->scratch = ir_subst(ctx, s->kernel->scratch, s->nsizes, s->kernel->sizes, s->sizes);
    }
}

/* Which kernels only loops launch: first those that one does, then not those that are launched elsewhere too. */
static void find_looped(struct kn_steps *steps, bool inside, bool looped)
{
    for (int i = 0; i < steps->n; i++) {
        struct kn_step *s = &steps->at[i];
        for (int g = 0; g < s->nregions; g++)
            find_looped(&s->regions[g].steps, inside || s->kind == TCC_STEP_LOOP, looped);
        if (s->kind == TCC_STEP_LAUNCH && inside == looped)
            s->kernel->looped = looped;
    }
}

bool pass_schedule_run(struct pass_run *r)
{
    struct ir_ctx *ctx = pass_ctx(r);
    const struct pass_machine *m = pass_opts(r)->machine;
    struct kn_program *p = pass_module(r)->program;
    if (!p)
        return ir_error(ctx, NULL, "schedule: the module has not been lowered");
    for (int looped = 1; looped >= 0; looped--)
        for (int e = 0; e < p->nentries; e++)
            find_looped(&p->entries[e].steps, false, looped);
    for (int i = 0; i < p->nkernels; i++) {
        struct kn_kernel *k = p->kernels[i];
        if (k->schedule.how) { /* pinned by the text that it came from */
            if (m && m->verify_schedule && !m->verify_schedule(m, ctx, k))
                return false;
        } else if (m && m->schedule) {
            m->schedule(m, ctx, k);
            pass_override_schedule(m, ctx, k, pass_opts(r)->overrides);
        } else {
            plain_schedule(ctx, k);
        }
    }
    for (int e = 0; e < p->nentries; e++)
        schedule_steps(ctx, &p->entries[e].steps);
    return true;
}
