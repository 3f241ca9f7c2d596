/* SPDX-License-Identifier: Apache-2.0 */
/*
 * collective.c - collectives, sends and receives become steps where their node stands. A mark (KN_STEP_WAIT) stands in
 * front of the first step that reads a result or overwrites an operand, at the latest at the end of the list: up to
 * there it may run beside the other steps, which therefore don't move across the mark. The pass `queues` makes of it
 * what runs beside what.
 */
#include "passes/lower_int.h"

#include <string.h>

static const struct {
    enum ir_op op;
    enum tcc_step_kind kind;
    int what;
} rows[] = {
    {IR_all_reduce, TCC_STEP_COLLECTIVE, TCC_ALL_REDUCE},
    {IR_broadcast, TCC_STEP_COLLECTIVE, TCC_BROADCAST},
    {IR_reduce, TCC_STEP_COLLECTIVE, TCC_REDUCE},
    {IR_all_gather, TCC_STEP_COLLECTIVE, TCC_ALL_GATHER},
    {IR_reduce_scatter, TCC_STEP_COLLECTIVE, TCC_REDUCE_SCATTER},
    {IR_all_to_all, TCC_STEP_COLLECTIVE, TCC_ALL_TO_ALL},
    {IR_send, TCC_STEP_SEND, 0},
    {IR_recv, TCC_STEP_RECV, 0},
    {IR_broadcast_from_owner, TCC_STEP_COLLECTIVE, TCC_BROADCAST_FROM_OWNER},
    {IR_is_owner, TCC_STEP_COLLECTIVE, TCC_IS_OWNER},
    {IR_reduce_owned, TCC_STEP_COLLECTIVE, TCC_REDUCE_OWNED},
    {IR_vote, TCC_STEP_COLLECTIVE, TCC_VOTE},
};

/* The attributes that the step carries, under their own names. */
static void step_attrs(struct lw *lw, struct kn_step *s, const struct ir_node *n)
{
    static const enum ir_attr_key keys[] = {IR_ATTR_group, IR_ATTR_mode,    IR_ATTR_scale, IR_ATTR_root, IR_ATTR_name,
                                            IR_ATTR_bytes, IR_ATTR_members, IR_ATTR_give,  IR_ATTR_take, IR_ATTR_ahead};
    struct ir_attr *attrs = IR_NEWN(lw->ctx, sizeof keys / sizeof *keys, struct ir_attr);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const struct ir_attr *a = ir_attr(n, keys[i]);
        if (!a)
            continue;
        attrs[s->nattrs] = *a;
        attrs[s->nattrs].key = IR_ATTR_user;
        attrs[s->nattrs++].name = ir_attr_name(keys[i]);
    }
    s->attrs = attrs;
}

/* May the result take its operand's memory? Only where nobody else looks at it, and all ranks have it. */
static bool in_place(struct lw *lw, struct ir_node *n, int i)
{
    struct ir_value *x = n->in[i].value, *y = n->out[i];
    if (ir_attr(n, IR_ATTR_kept))
        return false;
    const struct ir_node *writer = ir_has_one_use(y) ? y->uses->user : NULL;
    if (n->op == IR_broadcast_from_owner && x->def && x->def->op == IR_state_read && ir_has_one_use(x) && writer &&
        writer->op == IR_state_write && /* the variable itself */
        ir_state_of(writer) == ir_state_of(x->def))
        return true;
    if (n->op != IR_all_reduce && n->op != IR_broadcast && n->op != IR_reduce_owned)
        return false;
    return lw->buffer[n->out[i]->id] < 0 && x->def && x->def->op != IR_state_read && x->def->block == n->block &&
           ir_has_one_use(x) && lw->buffers.at[lw_buffer(lw, x)].space == TCC_SPACE_ARENA;
}

/* Results that one rank keeps have memory there alone: their size is the symbol's multiple. */
static void keep_owned(struct lw *lw, struct kn_step *s, const struct ir_node *n)
{
    const struct ir_attr *kept = ir_attr(n, IR_ATTR_kept);
    for (int i = 0; kept && n->op == IR_reduce_owned && i < n->nout && i < kept->n; i++) {
        struct kn_buffer *b = &lw->buffers.at[s->args[n->nin + i]];
        if (b->space == TCC_SPACE_ARENA)
            b->bytes = ir_mul(lw->ctx, kept->exprs[i], b->bytes);
    }
    if (!kept || n->op != IR_is_owner)
        return;
    s->nsyms = kept->n;
    s->syms = IR_NEWN(lw->ctx, kept->n, ir_expr);
    memcpy(s->syms, kept->exprs, (size_t)kept->n * sizeof *s->syms);
}

/* What writes state waits for a vote (the pass `queues`): it has no mark. */
static bool is_marked(const struct kn_step *s)
{
    return lw_communicates(s) && !kn_is_vote(s);
}

static void push_wait(struct lw *lw, struct kn_steps *to, const struct kn_step *started)
{
    struct kn_step w = {.kind = KN_STEP_WAIT,
                        .nin = started->kind == TCC_STEP_SEND ? 1 : started->nin,
                        .nargs = started->nargs,
                        .args = started->args,
                        .node = started->node,
                        .op = started->op};
    lw_push_step(lw->ctx, to, w);
}

bool lw_lower_collective(struct lw *lw, struct ir_node *n, struct kn_steps *to)
{
    size_t r = 0;
    while (r < sizeof rows / sizeof *rows && rows[r].op != n->op)
        r++;
    int *args = IR_NEWN(lw->ctx, n->nin + n->nout + 1, int);
    for (int i = 0; i < n->nin; i++)
        args[i] = lw_buffer(lw, n->in[i].value);
    for (int i = 0; i < n->nout; i++) {
        if (i < n->nin && in_place(lw, n, i))
            lw->buffer[n->out[i]->id] = args[i];
        args[n->nin + i] = lw_buffer(lw, n->out[i]);
    }
    struct kn_step *s = lw_step(lw, to, rows[r].kind, n, n->nin + n->nout, args);
    s->what = rows[r].what;
    s->nin = n->nin;
    step_attrs(lw, s, n);
    keep_owned(lw, s, n);
    if (rows[r].kind != TCC_STEP_COLLECTIVE) {
        const struct ir_attr *tag = ir_attr(n, IR_ATTR_tag);
        s->nsizes = 2;
        s->sizes = IR_NEWN(lw->ctx, 2, ir_expr);
        s->sizes[0] = ir_attr(n, IR_ATTR_peer)->e;
        s->sizes[1] = tag ? tag->e : ir_const(lw->ctx, 0);
    }
    if (is_marked(s))
        push_wait(lw, to, s);
    return true;
}

/* -- Marks --------------------------------------------------------------------------------------------- */

/* Does s only read that buffer where it names it? */
static bool only_reads(const struct lw *lw, const struct kn_step *s, int buffer)
{
    for (int a = 0; a < s->nargs; a++)
        if (s->args[a] >= 0 && lw_storage(lw, s->args[a]) == buffer && kn_use(s, a) != KN_IN)
            return false;
    return !s->nregions;
}

static bool must_wait(const struct lw *lw, const struct kn_step *started, const struct kn_step *s)
{
    int nread = started->kind == TCC_STEP_RECV ? 0 : started->kind == TCC_STEP_SEND ? 1 : started->nin;
    if (s->kind == KN_STEP_WAIT)
        return false;
    for (int i = 0; i < started->nargs; i++) {
        int b = lw_storage(lw, started->args[i]);
        if (lw_touches(lw, s, b) && (i >= nread || !only_reads(lw, s, b)))
            return true;
    }
    return false;
}

/* Results that are returned may be waited for at the very end; where state is written in front of it, then behind the
 * last step that may fail for other reasons, so that state is written where it is computed. */
static bool waits_early(const struct lw *lw, const struct kn_steps *steps, int at)
{
    for (int i = 0; i < steps->n; i++)
        if (steps->at[i].kind == TCC_STEP_COPY && lw->buffers.at[steps->at[i].args[1]].space == TCC_SPACE_STATE)
            return at == steps->n || (steps->at[at].kind == TCC_STEP_COPY &&
                                      lw->buffers.at[steps->at[at].args[1]].space == TCC_SPACE_OUTPUT);
    return false;
}

/* A wait at the end of the list, or (early) behind the last step that may fail. */
static void add_wait(struct lw *lw, struct kn_steps *all, const struct kn_step *started, bool early)
{
    int at = all->n;
    push_wait(lw, all, started);
    while (early && at > 0 && !lw_may_fail(&all->at[at - 1])) {
        struct kn_step w = all->at[at];
        all->at[at] = all->at[at - 1];
        all->at[--at] = w;
    }
}

void lw_place_waits(struct lw *lw, struct kn_steps *steps)
{
    struct kn_steps all = {0};
    VEC(struct kn_step) open = {0};
    bool any = false;
    for (int i = 0; i < steps->n; i++) {
        any |= is_marked(&steps->at[i]);
        for (int r = 0; r < steps->at[i].nregions; r++)
            lw_place_waits(lw, &steps->at[i].regions[r].steps);
    }
    for (int i = 0; any && i < steps->n; i++) {
        int n = 0;
        if (steps->at[i].kind == KN_STEP_WAIT)
            continue;
        for (int j = 0; j < open.n; j++) {
            if (must_wait(lw, &open.at[j], &steps->at[i]))
                add_wait(lw, &all, &open.at[j], waits_early(lw, steps, i));
            else
                open.at[n++] = open.at[j];
        }
        open.n = n;
        lw_push_step(lw->ctx, &all, steps->at[i]);
        if (is_marked(&steps->at[i]))
            VEC_PUSH(lw->ctx, open, steps->at[i]);
    }
    for (int j = 0; j < open.n; j++)
        add_wait(lw, &all, &open.at[j], waits_early(lw, steps, steps->n));
    if (any)
        *steps = all;
}
