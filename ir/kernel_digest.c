/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kernel_digest.c - XXH3-64 of what a kernel is, apart from names: dims, index symbols and sizes count by their place.
 * The bounds of sizes are part of it, since they shape what targets make of a kernel.
 */
#include <string.h>

#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

#include "ir/text/kernel_words_int.h"

struct digest {
    XXH3_state_t state;
    const struct kn_kernel *k;
};

static void feed(struct digest *d, int64_t v)
{
    XXH3_64bits_update(&d->state, &v, sizeof v);
}

static void feed_sym(struct digest *d, ir_expr sym)
{
    const struct kn_kernel *k = d->k;
    for (int i = 0; i < k->ndims; i++) {
        if (k->dims[i].var == sym) {
            feed(d, 1000 + i);
            return;
        }
    }
    for (int i = 0; i < k->nsizes; i++) {
        if (k->sizes[i] == sym) {
            feed(d, 2000 + i);
            return;
        }
    }
    for (int i = 0; i < k->ninsns; i++) {
        if (k->insns[i].code == KN_INDEX && k->insns[i].expr == sym) {
            feed(d, 1000000 + i);
            return;
        }
    }
    XXH3_64bits_update(&d->state, sym->name, __builtin_strlen(sym->name));
}

static void feed_expr(struct digest *d, ir_expr e)
{
    if (!e) {
        feed(d, -1);
        return;
    }
    feed(d, e->kind);
    if (e->kind == IR_X_SYM)
        feed_sym(d, e);
    feed(d, e->kind == IR_X_CONST ? e->value : e->nargs);
    for (int i = 0; i < e->nargs; i++)
        feed_expr(d, e->arg[i]);
}

static void feed_insn(struct digest *d, const struct kn_insn *n)
{
    const int64_t plain[] = {n->code,    n->dtype, n->reducer, n->nargs, n->nindex,
                             n->nguards, n->op,    n->operand, n->ivalue};
    XXH3_64bits_update(&d->state, plain, sizeof plain);
    XXH3_64bits_update(&d->state, &n->fvalue, sizeof n->fvalue);
    for (int i = 0; i < n->nargs; i++)
        feed(d, n->arg[i]);
    for (int i = 0; i < n->nindex; i++)
        feed_expr(d, n->index[i]);
    for (int i = 0; i < n->nguards; i++) {
        feed_expr(d, n->guards[i].e);
        feed_expr(d, n->guards[i].lo);
        feed_expr(d, n->guards[i].hi);
    }
    feed_expr(d, n->code == KN_EXPR ? n->expr : NULL);
    feed_expr(d, n->bound);
}

static void feed_contraction(struct digest *d)
{
    static const struct kn_roles none = {0};
    bool is = d->k->roles.form == KN_CONTRACTION;
    const struct kn_contraction *c = is ? &d->k->roles.contraction : &none.contraction;
    int operand[2] = {0};
    for (int i = 0; i < 2 && is; i++)
        operand[i] = d->k->insns[c->load[i]].operand;
    const int64_t partial = is ? d->k->partial : 0, mx = is ? d->k->mx : 0;
    const int64_t plain[] = {is,       operand[0], operand[1], c->load[0], c->load[1], c->mul, c->reduce,
                             c->batch, c->m,       c->n,       c->k,       partial,    mx};
    XXH3_64bits_update(&d->state, plain, sizeof plain);
}

static void feed_schedule(struct digest *d)
{
    const struct kn_schedule *s = &d->k->schedule;
    feed(d, s->nparams);
    if (s->how)
        XXH3_64bits_update(&d->state, s->how, strlen(s->how) + 1);
    for (int i = 0; i < s->nparams; i++) {
        XXH3_64bits_update(&d->state, s->params[i].key, strlen(s->params[i].key) + 1);
        feed(d, s->params[i].value);
    }
    XXH3_64bits_update(&d->state, s->tile, sizeof s->tile);
}

static uint64_t digest_kernel(const struct kn_kernel *k, bool schedule)
{
    struct digest d;
    d.k = k;
    XXH3_64bits_reset(&d.state);
    const int64_t plain[] = {k->kind, k->ndims, k->noperands, k->ninsns, k->nstages, k->nsizes};
    XXH3_64bits_update(&d.state, plain, sizeof plain);
    for (int i = 0; i < k->ndims; i++) {
        feed(&d, k->dims[i].role);
        feed_expr(&d, k->dims[i].extent);
    }
    for (int i = 0; i < k->noperands; i++) {
        const struct kn_operand *o = &k->operands[i];
        feed(&d, (int64_t)o->space << 40 | (int64_t)o->use << 32 | (int64_t)o->dtype << 8 | o->rank);
        for (int j = 0; j < o->rank; j++)
            feed_expr(&d, o->dims[j]);
    }
    for (int i = 0; i < k->nstages; i++) {
        feed(&d, (int64_t)k->stages[i].repeat << 32 | k->stages[i].inner);
        feed(&d, (int64_t)k->stages[i].first << 32 | k->stages[i].last);
    }
    for (int i = 0; i < k->ninsns; i++)
        feed_insn(&d, &k->insns[i]);
    for (int i = 0; i < k->nsizes; i++) {
        feed(&d, k->sizes[i]->lo);
        feed(&d, k->sizes[i]->hi);
    }
    feed(&d, (int64_t)k->split.combine << 32 | k->split.dim);
    feed_expr(&d, k->split.step);
    feed_contraction(&d);
    if (schedule) {
        feed_schedule(&d);
        feed_expr(&d, k->tiles);
        feed_expr(&d, k->combining);
        feed_expr(&d, k->scratch);
    }
    return XXH3_64bits_digest(&d.state);
}

uint64_t kn_digest_kernel(const struct kn_kernel *k)
{
    return digest_kernel(k, true);
}

uint64_t kn_digest_meaning(const struct kn_kernel *k)
{
    return digest_kernel(k, false);
}
