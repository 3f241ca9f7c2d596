/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The passes that work on the plan, from `steps`, which makes it of functions and the kernels of their groups, to
 * `share`, which keeps equal kernels once (kn_digest_kernel() tells). What they do is in the files that lower_int.h
 * lists.
 */
#include "ir/map.h"
#include "passes/lower_int.h"

#include <string.h>

bool pass_steps_run(struct pass_run *r);
bool pass_elide_run(struct pass_run *r);
bool pass_waits_run(struct pass_run *r);
bool pass_commit_run(struct pass_run *r);
bool pass_merge_run(struct pass_run *r);
bool pass_dead_run(struct pass_run *r);
bool pass_chain_run(struct pass_run *r);
bool pass_split_run(struct pass_run *r);
bool pass_join_run(struct pass_run *r);
bool pass_abreast_run(struct pass_run *r);
bool pass_share_run(struct pass_run *r);

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
        const char *before = i == 0                                   ? "_"
                             : k->dims[i].role == k->dims[i - 1].role ? "x"
                             : k->dims[i].role == KN_OUTER            ? "_of_"
                                                                      : "_over_";
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
            ops += (k->insns[i].code == KN_SCALAR && k->insns[i].op != IR_cast) || k->insns[i].code == KN_REDUCE ||
                   k->insns[i].code == KN_SCAN;
        ir_expr n = ir_mulc(ctx, points, ops);
        for (int d = 0; d < k->ndims; d++)
            if ((k->stages[s].inner | k->stages[s].repeat) >> d & 1)
                n = ir_mul(ctx, n, k->dims[d].extent);
        total = ir_add(ctx, total, n);
    }
    return total;
}

/* Kernels by digest, and in the order in which they came. */
struct unique {
    VEC(struct kn_kernel *) kernels;
    struct ir_map by_digest;
};

/* Names for messages, one a line. */
static const char *in_a_line(struct ir_ctx *ctx, const char *name)
{
    char *text = ir_strdup(ctx, name);
    for (char *c = text; *c; c++)
        *c = *c == '\n' || *c == '\t' ? ' ' : *c;
    return text;
}

/* Points of a dim: numbers and sizes of the launch, by their place in its list, as "8*s0*s1"; NULL: they are no such
 * product. */
static const char *points_of(struct ir_ctx *ctx, const struct kn_kernel *k, ir_expr e)
{
    const char *text = NULL;
    int64_t n;
    int size = 0;
    if (ir_is_const(e, &n))
        return ir_internf(ctx, "%lld", (long long)n);
    while (size < k->nsizes && k->sizes[size] != e)
        size++;
    if (size < k->nsizes)
        return ir_internf(ctx, "s%d", size);
    for (int a = 0; e->kind == IR_X_MUL && a < e->nargs; a++) {
        const char *factor = points_of(ctx, k, e->arg[a]);
        if (!factor)
            return NULL;
        text = text ? ir_internf(ctx, "%s*%s", text, factor) : factor;
    }
    return text;
}

/* Of a line of `checks`, where that index is an operand's: the argument, bytes of an integer, of how many they choose,
 * the first one's place, and the points and the step along each dim that they lie along. Else "". */
static const char *read_as(struct ir_ctx *ctx, const struct kn_kernel *k, const struct kn_insn *index)
{
    const struct kn_insn *from = &k->insns[index->arg[0]];
    const char *along = "", *points;
    int64_t extent, step, base;
    if (from->code == KN_SCALAR && from->op == IR_cast && from->dtype == TCC_I64) /* which changes none */
        from = &k->insns[from->arg[0]];
    if (from->code != KN_LOAD || from->nguards || !ir_is_const(index->bound, &extent))
        return "";
    const struct kn_operand *o = &k->operands[from->operand];
    ir_expr at = kn_flat_offset(ctx, o, from->index), coefficient, rest;
    for (int d = 0; d < k->ndims; d++) {
        if (!ir_uses_sym(at, k->dims[d].var))
            continue;
        if (!ir_linear_in(ctx, at, k->dims[d].var, &coefficient, &rest) || !ir_is_const(coefficient, &step) ||
            !(points = points_of(ctx, k, k->dims[d].extent)))
            return "";
        along = ir_internf(ctx, "%s %s %lld", along, points, (long long)step);
        at = rest;
    }
    if (o->use != KN_IN || (o->dtype != TCC_I32 && o->dtype != TCC_I64) || !ir_is_const(at, &base))
        return "";
    return ir_internf(ctx, "\t%d %d %lld %lld%s", kn_argument_of(k, from->operand), o->dtype == TCC_I64 ? 8 : 4,
                      (long long)extent, (long long)base, along);
}

/* Whose indices a launch's kernel checks, which kernels that are shared no longer tell (struct tcc_pstep: checks);
 * silent: nor what they are. */
static const char *checks_of(struct ir_ctx *ctx, const struct kn_step *s, bool silent)
{
    const char *text = "";
    bool others = false;
    for (int i = 0; i < s->kernel->ninsns; i++) {
        const struct kn_insn *n = &s->kernel->insns[i];
        if (n->code != KN_INDEX)
            continue;
        bool named = n->from && n->from->node;
        const char *node = named ? n->from->node : s->node, *op = named ? n->from->op : s->op;
        others |= silent || strcmp(node, s->node) != 0;
        /* a node whose name is its operator's is told once (steps.c) */
        op = op && strcmp(op, node) != 0 ? in_a_line(ctx, op) : "";
        text =
            ir_internf(ctx, "%s%s\t%s%s\n", text, in_a_line(ctx, node), op, silent ? read_as(ctx, s->kernel, n) : "");
    }
    return others ? text : NULL;
}

static void share_kernels(struct ir_ctx *ctx, struct kn_steps *steps, struct unique *u, bool silent)
{
    for (int i = 0; i < steps->n; i++) {
        struct kn_step *s = &steps->at[i];
        for (int r = 0; r < s->nregions; r++)
            share_kernels(ctx, &s->regions[r].steps, u, silent);
        if (s->kind != TCC_STEP_LAUNCH)
            continue;
        s->checks = checks_of(ctx, s, silent);
        void **same = ir_map_add(ctx, &u->by_digest, kn_digest_kernel(s->kernel));
        if (!*same) {
            struct kn_kernel *k = *same = s->kernel;
            k->id = u->kernels.n;
            k->name = kernel_name(ctx, k, k->id);
            k->flops = kernel_flops(ctx, k);
            VEC_PUSH(ctx, u->kernels, k);
        }
        s->kernel = *same;
    }
}

/* Has the weight these very elements? */
static bool same_weight(const struct lw *lw, const struct kn_buffer *b, const struct ir_tensor *t)
{
    (void)lw;
    return b->weight == t || (b->weight->splat == t->splat && ir_tensor_equal(b->weight, t));
}

/* State variables' first values are weights: those that @init, or another variable, has already where they are the
 * same. */
static void keep_initial_states(struct lw *lw, struct ir_module *m)
{
    for (struct ir_state *s = m->states; s; s = s->next) {
        ir_type type = ir_state_whole_type(lw->ctx, s);
        int same = s->init ? lw_weight_find(lw, type, NULL, s->init, same_weight) : -1;
        if (same >= 0) {
            struct ir_tensor *t = ir_tensor_ref(lw->buffers.at[same].weight);
            ir_tensor_unref(s->init);
            s->init = t;
        } else if (s->init) {
            lw_weight_new(
                lw, (struct kn_buffer){.space = TCC_SPACE_WEIGHT,
                                       .dtype = type->dtype,
                                       .type = type,
                                       .weight = s->init,
                                       .name = s->name,
                                       .bytes = ir_const(lw->ctx, s->init->nelems * tcc_dtype_bytes(s->init->dtype))});
        }
    }
}

/* -- The passes ----------------------------------------------------------------------------------------- */

void lw_open(struct lw *lw, struct pass_run *r)
{
    const struct pass_options *o = pass_opts(r);
    struct kn_program *p = pass_module(r)->program;
    *lw = (struct lw){.ctx = pass_ctx(r),
                      .run = r,
                      .opts = o,
                      .machine = o->machine ? o->machine : &plain_machine,
                      .prog = p,
                      .fuse = o->level > 0,
                      .next_level = 1};
    if (!p)
        return;
    lw->kernels.at = p->kernels;
    lw->kernels.n = lw->kernels.cap = p->nkernels;
    lw->buffers.at = p->buffers;
    lw->buffers.n = lw->buffers.cap = p->nbuffers;
}

/* What the pass has added to the program. */
static void lw_close(struct lw *lw)
{
    struct kn_program *p = lw->prog;
    VEC_GIVE(lw->kernels, p->kernels, p->nkernels);
    VEC_GIVE(lw->buffers, p->buffers, p->nbuffers);
}

void lw_add_kernel(struct lw *lw, struct kn_kernel *k)
{
    k->id = lw->kernels.n;
    k->name = kernel_name(lw->ctx, k, k->id);
    VEC_PUSH(lw->ctx, lw->kernels, k);
}

/* Opens lw for a pass over a program with entries; false after a diagnostic. */
static bool open_plan(struct lw *lw, struct pass_run *r, const char *name)
{
    lw_open(lw, r);
    if (lw->prog && lw->prog->nentries)
        return true;
    return ir_error(lw->ctx, NULL, "%s: the module has no plan", name);
}

bool pass_steps_run(struct pass_run *r)
{
    struct ir_module *m = pass_module(r);
    struct lw lw;
    lw_open(&lw, r);
    struct kn_program *p = lw.prog;
    for (struct ir_func *f = m->funcs; f; f = f->next)
        if (!p || !f->fusion)
            return ir_error(lw.ctx, NULL, "steps: the module has no kernels");
    for (struct ir_func *f = m->funcs; f; f = f->next)
        p->nentries++;
    p->entries = IR_NEWN(lw.ctx, p->nentries + 1, struct kn_entry);
    struct kn_entry *e = p->entries;
    for (struct ir_func *f = m->funcs; f; f = f->next, e++) {
        e->name = f->name;
        e->func = f;
        lw_enter(&lw, f);
        lw_load_groups(&lw);
        if (!lw_lower_func(&lw, e))
            return false;
        f->fusion = NULL;
    }
    keep_initial_states(&lw, m);
    VEC_GIVE(lw.known, p->syms, p->nsyms);
    p->sym_level = lw.depths.at;
    lw_leave(&lw);
    lw_close(&lw);
    return true;
}

bool pass_elide_run(struct pass_run *r)
{
    struct lw lw;
    const char *of = pass_param(r, "of", "writes");
    bool reads = !strcmp(of, "reads");
    if (!open_plan(&lw, r, "elide"))
        return false;
    if (!reads && strcmp(of, "writes"))
        return ir_error(lw.ctx, NULL, "elide: option of=%s must be reads or writes", of);
    for (int e = 0; e < lw.prog->nentries; e++) {
        if (reads)
            lw_elide_reads(&lw, &lw.prog->entries[e]);
        else if (lw.fuse)
            lw_elide_writes(&lw, &lw.prog->entries[e]);
    }
    return true;
}

/* A pass over the steps of each entry point. fusing: only where kernels are fused at all. */
static bool on_steps(struct pass_run *r, const char *name, bool fusing, void (*run)(struct lw *, struct kn_steps *))
{
    struct lw lw;
    if (!open_plan(&lw, r, name))
        return false;
    for (int e = 0; (lw.fuse || !fusing) && e < lw.prog->nentries; e++)
        run(&lw, &lw.prog->entries[e].steps);
    lw_close(&lw);
    return true;
}

bool pass_waits_run(struct pass_run *r)
{
    return on_steps(r, "waits", false, lw_place_waits);
}

bool pass_commit_run(struct pass_run *r)
{
    return on_steps(r, "commit", false, lw_commit);
}

bool pass_merge_run(struct pass_run *r)
{
    return on_steps(r, "merge", true, lw_merge_launches);
}

bool pass_dead_run(struct pass_run *r)
{
    struct lw lw;
    if (!open_plan(&lw, r, "dead"))
        return false;
    for (int e = 0; lw.fuse && e < lw.prog->nentries; e++)
        lw_drop_dead_stores(&lw, &lw.prog->entries[e]);
    return true;
}

bool pass_chain_run(struct pass_run *r)
{
    struct lw lw;
    if (!open_plan(&lw, r, "chain"))
        return false;
    const struct pass_cost *cost = pass_cost(lw.machine);
    for (int e = 0; lw.fuse && (cost->chain || cost->rows_merge) && e < lw.prog->nentries; e++)
        lw_chain_launches(&lw, &lw.prog->entries[e]);
    lw_close(&lw);
    return true;
}

bool pass_split_run(struct pass_run *r)
{
    struct lw lw;
    if (!open_plan(&lw, r, "split"))
        return false;
    for (int e = 0; lw.fuse && e < lw.prog->nentries; e++)
        lw_split(&lw, &lw.prog->entries[e]);
    lw_close(&lw);
    return true;
}

bool pass_join_run(struct pass_run *r)
{
    const struct pass_machine *m = pass_opts(r)->machine;
    return !pass_cost(m)->joins || on_steps(r, "join", true, lw_join_launches);
}

bool pass_parallel_run(struct pass_run *r)
{
    return on_steps(r, "parallel", true, lw_parallel_loops);
}

bool pass_share_run(struct pass_run *r)
{
    struct lw lw;
    struct unique u = {0};
    if (!open_plan(&lw, r, "share"))
        return false;
    struct kn_program *p = lw.prog;
    lw_drop_dead_buffers(&lw, p);
    for (int e = 0; e < p->nentries; e++)
        share_kernels(lw.ctx, &p->entries[e].steps, &u, lw.machine && lw.machine->silent);
    VEC_GIVE(u.kernels, p->kernels, p->nkernels);
    p->nbuffers = lw.buffers.n;
    for (int i = 0; i < p->nkernels; i++)
        if (!kn_verify_kernel(lw.ctx, p->kernels[i]) || !kn_require(lw.ctx, p->kernels[i]))
            return false;
    for (int e = 0; e < p->nentries; e++)
        lw_require_again(&lw, &p->entries[e]);
    return true;
}
