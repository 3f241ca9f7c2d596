/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lower: from level 1 to level 2. Functions become entry points, fused nodes kernels. See lower_int.h for the files that do it. Equal kernels
 * are kept once: kn_digest_kernel() tells.
 */
#include "passes/lower/lower_int.h"

#include <string.h>

bool pass_lower_run(struct pass_run *r);

static const struct pass_machine plain_machine = {.name = "plain"};

/* The kernel's name: what it is and how large, as in contract_f32_1x128x768. */
static const char *kernel_name(struct ir_ctx *ctx, const struct kn_kernel *k, int number)
{
    char text[160];
    const struct kn_operand *out = NULL;
    for (int i = 0; i < k->noperands; i++)
        if (k->operands[i].use == KN_OUT || k->operands[i].use == KN_INOUT)
            out = &k->operands[i];
    int n = snprintf(text, sizeof text, "%s_%s", ir_kind_name(k->kind), out ? tcc_dtype_name(out->dtype) : "none");
    for (char *c = text; *c; c++)
        if (*c >= 'A' && *c <= 'Z')
            *c += 'a' - 'A';
    int64_t v;
    for (int i = 0; i < k->ndims && n < 130; i++) {
        const char *before = i == 0 ? "_" : k->dims[i].role != k->dims[i - 1].role ? "_over_" : "x";
        if (ir_is_const(k->dims[i].extent, &v))
            n += snprintf(text + n, sizeof text - n, "%s%lld", before, (long long)v);
        else
            n += snprintf(text + n, sizeof text - n, "%sN", before);
    }
    return ir_internf(ctx, "%s_%d", text, number);
}

/* What the kernel costs: scalar instructions, each at every point of its stage. */
static ir_expr kernel_flops(struct ir_ctx *ctx, const struct kn_kernel *k)
{
    ir_expr points = ir_const(ctx, 1), total = ir_const(ctx, 0);
    for (int d = 0; d < k->ndims; d++)
        if (k->dims[d].role == KN_OUTER)
            points = ir_mul(ctx, points, k->dims[d].extent);
    for (int s = 0; s < k->nstages; s++) {
        int64_t ops = 0;
        for (int i = k->stages[s].first; i < k->stages[s].last; i++)
            ops += (k->insns[i].code == KN_SCALAR && k->insns[i].word != IR_cast) || k->insns[i].code == KN_REDUCE ||
                   k->insns[i].code == KN_RUNNING;
        ir_expr n = ir_mulc(ctx, points, ops);
        for (int d = 0; d < k->ndims; d++)
            if ((k->stages[s].inner | k->stages[s].each) >> d & 1)
                n = ir_mul(ctx, n, k->dims[d].extent);
        total = ir_add(ctx, total, n);
    }
    return total;
}

/* Kernels by digest: open addressing, and the order in which they came. */
struct unique {
    VEC(struct kn_kernel *) kernels;
    VEC(uint64_t) digests;
    int *slot, nslots; /* 1 + number of a kernel; 0: free */
};

/* Where that digest has, or would have, its slot. */
static int *slot_of(const struct unique *u, uint64_t digest)
{
    uint64_t i = digest & (uint64_t)(u->nslots - 1);
    while (u->slot[i] && u->digests.at[u->slot[i] - 1] != digest)
        i = (i + 1) & (uint64_t)(u->nslots - 1);
    return &u->slot[i];
}

static void share_kernels(struct ir_ctx *ctx, struct kn_steps *steps, struct unique *u)
{
    for (int i = 0; i < steps->n; i++) {
        struct kn_step *s = &steps->at[i];
        for (int r = 0; r < s->nregions; r++)
            share_kernels(ctx, &s->regions[r].steps, u);
        if (s->kind != TCC_STEP_LAUNCH)
            continue;
        uint64_t digest = kn_digest_kernel(s->kernel);
        int *slot = slot_of(u, digest);
        if (!*slot) {
            struct kn_kernel *k = s->kernel;
            k->id = u->kernels.n;
            k->name = kernel_name(ctx, k, k->id);
            k->flops = kernel_flops(ctx, k);
            VEC_PUSH(ctx, u->kernels, k);
            VEC_PUSH(ctx, u->digests, digest);
            *slot = u->kernels.n;
        }
        s->kernel = u->kernels.at[*slot - 1];
    }
}

/* Has the weight these very elements? */
static bool same_weight(const struct lw *lw, const struct kn_buffer *b, const struct ir_tensor *t)
{
    (void)lw;
    return b->weight == t || (b->weight->splat == t->splat && ir_tensor_equal(b->weight, t));
}

/* State variables' first values are weights: those that @init, or another variable, has already where they are the same. */
static void keep_initial_states(struct lw *lw, struct ir_module *m)
{
    for (struct ir_state *s = m->states; s; s = s->next) {
        int same = s->init ? lw_weight_find(lw, s->type, NULL, s->init, same_weight) : -1;
        if (same >= 0) {
            struct ir_tensor *t = ir_tensor_ref(lw->buffers.at[same].weight);
            ir_tensor_unref(s->init);
            s->init = t;
        } else if (s->init) {
            lw_weight_new(
                lw, (struct kn_buffer){.space = TCC_SPACE_WEIGHT,
                                       .dtype = s->type->dtype,
                                       .type = s->type,
                                       .weight = s->init,
                                       .name = s->name,
                                       .bytes = ir_const(lw->ctx, s->init->nelems * tcc_dtype_bytes(s->init->dtype))});
        }
    }
}

bool pass_lower_run(struct pass_run *r)
{
    struct ir_module *m = pass_module(r);
    struct ir_ctx *ctx = m->ctx;
    const struct pass_options *o = pass_opts(r);
    struct lw lw = {.ctx = ctx,
                    .opts = o,
                    .machine = o->machine ? o->machine : &plain_machine,
                    .fuse = o->level > 0,
                    .next_level = 1};
    struct kn_program *p = lw.prog = IR_NEW(ctx, struct kn_program);
    p->module = m;
    for (struct ir_func *f = m->funcs; f; f = f->next)
        p->nentries++;
    p->entries = IR_NEWN(ctx, p->nentries + 1, struct kn_entry);
    int e = 0;
    for (struct ir_func *f = m->funcs; f; f = f->next, e++)
        if (!lw_lower_func(&lw, f, &p->entries[e]))
            return false;
    lw_drop_dead_buffers(&lw, p);
    keep_initial_states(&lw, m);
    struct unique u = {.nslots = 64};
    while (u.nslots < 2 * lw.kernels.n)
        u.nslots *= 2;
    u.slot = IR_NEWN(ctx, u.nslots, int);
    for (e = 0; e < p->nentries; e++)
        share_kernels(ctx, &p->entries[e].steps, &u);
    p->kernels = u.kernels.at;
    p->nkernels = u.kernels.n;
    p->nbuffers = lw.buffers.n;
    p->buffers = lw.buffers.at;
    p->nsyms = lw.known.n;
    p->syms = lw.known.at;
    p->sym_level = lw.levels.at;
    m->program = p;
    for (int i = 0; i < p->nkernels; i++)
        if (!kn_verify_kernel(ctx, p->kernels[i]))
            return false;
    return true;
}
