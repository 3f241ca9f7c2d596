/* SPDX-License-Identifier: Apache-2.0 */
/* control.c - if, loop, bind, and the state variables of the reference interpreter. */
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "ir/interp/interp_int.h"

int interp_bind(struct it_call *c)
{
    const struct ir_attr *syms = ir_attr(c->n, IR_ATTR_syms);
    const struct ir_tensor *t = c->in[0];
    if (!syms || !t || t->nelems != syms->n)
        return it_fail(c, TCC_EINPUT, "expected %d values, got %lld", syms ? syms->n : 0, t ? (long long)t->nelems : 0);
    for (int i = 0; i < syms->n; i++) {
        int64_t value = tcc_load_i64(it_dtype(t), ir_tensor_at(t, i));
        if (!it_bind(c->it, syms->exprs[i], value))
            return it_fail(c, TCC_EINPUT, "size '%s' must be in [%lld, %lld], got %lld", ir_sym_said(syms->exprs[i]),
                           (long long)syms->exprs[i]->lo, (long long)syms->exprs[i]->hi, (long long)value);
    }
    return TCC_OK;
}

static bool truth(const struct ir_tensor *t)
{
    return t->nelems > 0 && *(const uint8_t *)t->data != 0;
}

/* Terminator operand i of a block that has run, with a new reference. */
static struct it_value result_of(struct interp *it, const struct ir_block *b, int i)
{
    const struct ir_value *v = b->last->in[i].value;
    return v ? it_share(it->values[v->id]) : (struct it_value){NULL, NULL};
}

/* Lets go of what a block's nodes and parameters left behind. */
static void clear_block(struct interp *it, const struct ir_block *b)
{
    for (int i = 0; i < b->nparams; i++)
        it_drop(&it->values[b->params[i]->id]);
    for (const struct ir_node *n = b->first; n; n = n->next)
        for (int k = 0; k < n->nout; k++)
            it_drop(&it->values[n->out[k]->id]);
}

int interp_if(struct it_call *c)
{
    if (!c->in[0] || c->n->nregions != 2)
        return it_fail(c, TCC_EBUG, "expected a condition and two regions");
    const struct ir_block *b = c->n->regions[truth(c->in[0]) ? 0 : 1];
    int status = it_run_block(c->it, b);
    if (!status && b->last->nin != c->n->nout)
        status = it_fail(c, TCC_EBUG, "the region yields %d values for %d results", b->last->nin, c->n->nout);
    for (int k = 0; k < c->n->nout && !status; k++)
        status = it_set(c->it, c->n->out[k], result_of(c->it, b, k));
    clear_block(c->it, b);
    return status;
}

/* -- Loop --------------------------------------------------------------------------------------- */

struct scans {
    struct it_value *at;
    int64_t n, cap;
};

struct loop {
    struct it_call *c;
    const struct ir_block *body;
    int ncarried, nscan;
    int64_t trips; /* INT64_MAX: no limit */
    bool go;
    struct it_value *carried;
    struct scans *scans; /* per scan output, a value per iteration */
};

static int set_param(struct loop *l, int i, struct it_value x)
{
    struct interp *it = l->c->it;
    const struct ir_value *v = l->body->params[i];
    int status = it_set(it, v, x);
    return status ? status : it_match(it, l->body, v, &it->values[v->id]);
}

static int set_params(struct loop *l, int64_t iteration)
{
    struct ir_tensor *number = ir_tensor_scalar_i(TCC_I64, iteration), *cond = ir_tensor_scalar_i(TCC_BOOL, 1);
    if (!number || !cond) {
        ir_tensor_unref(number);
        ir_tensor_unref(cond);
        return it_fail(l->c, TCC_EENV, "no memory");
    }
    int status = set_param(l, 0, (struct it_value){number, NULL});
    int second = set_param(l, 1, (struct it_value){cond, NULL});
    status = status ? status : second;
    for (int i = 0; i < l->ncarried; i++) {
        struct it_value x = l->carried[i];
        l->carried[i] = (struct it_value){NULL, NULL};
        second = set_param(l, i + 2, x);
        status = status ? status : second;
    }
    for (int i = 0; i < l->body->nparams; i++)
        it_redefine(l->c->it, l->body, l->body->params[i]->type);
    return status;
}

static int push_scan(struct loop *l, struct scans *s, struct it_value x)
{
    if (!GROWN(s->at, s->n, s->cap, 8)) {
        it_drop(&x);
        return it_fail(l->c, TCC_EENV, "no memory");
    }
    s->at[s->n++] = x;
    return TCC_OK;
}

static int iterate(struct loop *l)
{
    struct interp *it = l->c->it;
    int status = TCC_OK;
    for (int64_t i = 0; i < l->trips && l->go && !status; i++) {
        status = set_params(l, i);
        if (!status)
            status = it_run_block(it, l->body);
        if (!status) {
            const struct ir_value *cond = l->body->last->in[0].value;
            l->go = !cond || truth(it->values[cond->id].t);
        }
        for (int k = 0; k < l->ncarried && !status; k++)
            l->carried[k] = result_of(it, l->body, k + 1);
        for (int k = 0; k < l->nscan && !status; k++)
            status = push_scan(l, &l->scans[k], result_of(it, l->body, 1 + l->ncarried + k));
        clear_block(it, l->body);
    }
    return status;
}

/* Element type and dims of iteration i's value of a scan. */
static const int64_t *scan_dims(const struct it_value *x, int *rank)
{
    *rank = x->t ? x->t->rank : x->o ? x->o->t.rank : 0;
    return x->t ? x->t->dims : x->o->t.dims;
}

/* Stacks a scan's values on a new axis 0. Without iterations, dims come from the result's type; unknown ones are 0. */
static int stack(struct loop *l, const struct scans *s, const struct ir_value *v)
{
    struct it_call *c = l->c;
    ir_type type = v->type;
    int64_t dims[TCC_MAX_RANK] = {s->n};
    int rank = type->rank;
    for (int i = 1; !s->n && i < rank; i++)
        if (!it_eval(c->it, type->dim[i], &dims[i]))
            dims[i] = 0;
    if (s->n) {
        const int64_t *first = scan_dims(&s->at[0], &rank);
        if (++rank > TCC_MAX_RANK)
            return it_fail(c, TCC_EINPUT, "a scan's rank is above %d", TCC_MAX_RANK);
        memcpy(dims + 1, first, (size_t)(rank - 1) * sizeof *first);
    }
    struct ir_tensor *t = ir_tensor_new((enum tcc_dtype)type->dtype, rank < 1 ? 1 : rank, dims);
    if (!t)
        return it_fail(c, TCC_EENV, "no memory");
    size_t step = s->n ? (size_t)(t->bytes / (uint64_t)s->n) : 0;
    for (int64_t i = 0; i < s->n; i++) {
        struct ir_tensor *x = s->at[i].t ? it_dense(s->at[i].t) : it_from_object(s->at[i].o);
        bool same = x && x->rank == rank - 1 && !memcmp(x->dims, dims + 1, (size_t)x->rank * sizeof *dims) &&
                    x->dtype == t->dtype;
        if (same && step)
            memcpy((char *)it_data(t) + (size_t)i * step, x->data, step);
        if (same && x->dtype == TCC_STRING && x->refs == 1)
            memset(it_data(x), 0, (size_t)x->bytes); /* the strings have moved */
        char a[IT_DIMS_TEXT], b[IT_DIMS_TEXT];
        if (!same) { /* as tcr_step_stack() (runtime/control.c) */
            int status =
                it_fail(c, x ? TCC_EINPUT : TCC_EENV, "iterations yield values of different shapes, %s and %s",
                        it_dims_text(a, rank - 1, dims + 1), it_dims_text(b, x ? x->rank : 0, x ? x->dims : NULL));
            ir_tensor_unref(x);
            ir_tensor_unref(t);
            return status;
        }
        ir_tensor_unref(x);
    }
    return it_set(c->it, v, (struct it_value){t, NULL});
}

static int run_loop(struct loop *l)
{
    struct it_call *c = l->c;
    for (int i = 0; i < l->ncarried; i++)
        if (c->n->in[i + 2].value)
            l->carried[i] = it_share(c->it->values[c->n->in[i + 2].value->id]);
    int status = iterate(l);
    for (int i = 0; i < l->ncarried && !status; i++) {
        struct it_value x = l->carried[i];
        l->carried[i] = (struct it_value){NULL, NULL};
        status = it_set(c->it, c->n->out[i], x);
    }
    for (int k = 0; k < l->nscan && !status; k++)
        status = stack(l, &l->scans[k], c->n->out[l->ncarried + k]);
    return status;
}

int interp_loop(struct it_call *c)
{
    int nscan = (int)ir_get_i(c->n, IR_ATTR_nscan, 0);
    struct loop l = {.c = c, .nscan = nscan, .ncarried = c->n->nout - nscan, .trips = INT64_MAX, .go = true};
    if (c->n->nregions != 1 || l.ncarried < 0 || nscan < 0 || c->n->regions[0]->nparams != l.ncarried + 2 ||
        c->n->regions[0]->last->nin != 1 + c->n->nout || c->n->nin > l.ncarried + 2)
        return it_fail(c, TCC_EBUG, "operands, region and results do not fit");
    l.body = c->n->regions[0];
    if (c->n->nin > 0 && c->in[0])
        l.trips = tcc_load_i64(it_dtype(c->in[0]), c->in[0]->data);
    if (c->n->nin > 1 && c->in[1])
        l.go = truth(c->in[1]);
    l.carried = calloc((size_t)l.ncarried + 1, sizeof *l.carried);
    l.scans = calloc((size_t)nscan + 1, sizeof *l.scans);
    int status = l.carried && l.scans ? run_loop(&l) : it_fail(c, TCC_EENV, "no memory");
    for (int i = 0; l.carried && i < l.ncarried; i++)
        it_drop(&l.carried[i]);
    for (int k = 0; l.scans && k < nscan; k++) {
        for (int64_t i = 0; i < l.scans[k].n; i++)
            it_drop(&l.scans[k].at[i]);
        free(l.scans[k].at);
    }
    free(l.carried);
    free(l.scans);
    return status;
}

/* -- State ---------------------------------------------------------------------------------------- */

struct ir_interp_state *ir_interp_state_new(struct ir_module *m)
{
    struct ir_interp_state *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->module = m;
    for (struct ir_state *v = m->states; v; v = v->next)
        s->n = v->index >= s->n ? v->index + 1 : s->n;
    s->values = calloc((size_t)s->n + 1, sizeof *s->values);
    if (!s->values) {
        free(s);
        return NULL;
    }
    for (struct ir_state *v = m->states; v; v = v->next)
        s->values[v->index] = ir_tensor_ref(v->init);
    return s;
}

void ir_interp_state_step(struct ir_interp_state *s, int64_t step)
{
    s->step = (uint64_t)step;
}

int64_t it_position(const struct ir_interp_state *s, const struct ir_state *v)
{
    const struct ir_tensor *now = s ? s->values[v->index] : NULL;
    return now ? tcc_load_i64(TCC_I64, ir_tensor_at(now, 0)) : 0;
}

int it_bind_positions(struct interp *it)
{
    for (const struct ir_state *v = it->func->module->states; v; v = v->next)
        if (v->owner && !it_bind(it, v->owner, 1)) /* alone */
            return TCC_EBUG;
        else if (v->sym && !it_bind(it, v->sym, it_position(it->state, v)))
            return it_error(it, NULL, TCC_EINPUT, "state variable '%s' is %lld, and a run begins in [%lld, %lld]",
                            v->name, (long long)it_position(it->state, v), (long long)v->sym->lo,
                            (long long)v->sym->hi);
    return TCC_OK;
}

int it_check_advances(struct interp *it)
{
    for (int i = 0; i < it->func->nadvances; i++) {
        const struct ir_advance *a = &it->func->advances[i];
        int64_t to;
        if (!it_eval(it, a->to, &to) || to < a->state->sym->lo || to > a->state->sym->hi + 1)
            return it_error(it, NULL, TCC_EINPUT,
                            "state variable '%s' is %lld, and this run would make it %lld; at most %lld fit",
                            a->state->name, (long long)it_position(it->state, a->state), (long long)to,
                            (long long)a->state->sym->hi + 1);
    }
    return TCC_OK;
}

int it_advance(struct interp *it)
{
    for (int i = 0; i < it->func->nadvances && it->state; i++) {
        const struct ir_advance *a = &it->func->advances[i];
        int64_t to = 0;
        it_eval(it, a->to, &to);
        struct ir_tensor *t = ir_tensor_scalar_i(TCC_I64, to);
        if (!t)
            return it_error(it, NULL, TCC_EENV, "no memory");
        ir_tensor_unref(it->state->values[a->state->index]);
        it->state->values[a->state->index] = t;
    }
    return TCC_OK;
}

void ir_interp_state_free(struct ir_interp_state *s)
{
    for (int i = 0; s && i < s->n; i++)
        ir_tensor_unref(s->values[i]);
    if (s)
        free(s->values);
    free(s);
}

/* A version is the tensor that it holds: so what is read of an old one is right wherever it is read. */
int interp_state_version(struct it_call *c)
{
    const struct ir_state *v = ir_state_of(c->n);
    int64_t dims[TCC_MAX_RANK];
    if (!c->it->state)
        return it_fail(c, TCC_EUSAGE, "no state variable '%s' (the run has no state)", v->name);
    struct ir_tensor *now = c->it->state->values[v->index];
    if (!now && !ir_static_dims(v->type, dims))
        return it_fail(c, TCC_EBUG, "the dims of '%s' are not constant", v->name);
    c->out[0] = now ? ir_tensor_ref(now) : ir_tensor_new((enum tcc_dtype)v->type->dtype, v->type->rank, dims);
    return c->out[0] ? TCC_OK : it_fail(c, TCC_EENV, "no memory");
}

int interp_state_read(struct it_call *c)
{
    if (!c->in[0])
        return it_fail(c, TCC_EBUG, "a version without a value");
    c->out[0] = ir_tensor_ref(c->in[0]);
    return TCC_OK;
}

int interp_state_write(struct it_call *c)
{
    const struct ir_state *v = ir_state_of(c->n);
    if (!c->it->state)
        return it_fail(c, TCC_EUSAGE, "no state variable '%s' (the run has no state)", v->name);
    if (!c->in[0] || c->in[0]->dtype != v->type->dtype || c->in[0]->rank != v->type->rank)
        return it_fail(c, TCC_EINPUT, "'%s' has another type", v->name);
    for (int i = 0; i < v->type->rank; i++)
        if (!ir_is_value(v->type->dim[i], c->in[0]->dims[i]))
            return it_fail(c, TCC_EINPUT, "'%s' has another shape", v->name);
    ir_tensor_unref(c->it->state->values[v->index]);
    c->it->state->values[v->index] = ir_tensor_ref(c->in[0]);
    c->out[0] = ir_tensor_ref(c->in[0]);
    return TCC_OK;
}
