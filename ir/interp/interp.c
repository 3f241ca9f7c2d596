/* SPDX-License-Identifier: Apache-2.0 */
/*
 * interp.c - the reference interpreter: the oracle of all tests, and the constant folder's arithmetic.
 *
 * Plain loops in the order that ops.def describes. Floats are accumulated in f64 and rounded once to the result's type;
 * integers wrap. Symbols are bound from the inputs' dims, then by the nodes that define them; every result is compared
 * with its inferred type, so a run checks shape inference too. A value is freed after its last use.
 */
#include <stdlib.h>
#include <string.h>

#include "ir/interp/interp_int.h"

struct it_temp {
    struct it_temp *next;
    _Alignas(64) char at[];
};

#define OP(name, kind, nmin, nmax, nout, attrs, infer, interp, flags, doc) int interp_##interp(struct it_call *c);
#include "ir/ops.def"
int interp_map(struct it_call *c);

int interp_none(struct it_call *c)
{
    return c->status;
}

static const it_fn it_fns[IR_NOPS] = {
#define OP(name, kind, nmin, nmax, nout, attrs, infer, interp, flags, doc) [IR_##name] = interp_##interp,
#include "ir/ops.def"
#define SCALAR(name, nargs, types, flags, body, doc) [IR_##name] = interp_map,
#include "ir/scalar.def"
};

/* -- Services for ops --------------------------------------------------------------------- */

static int vfail(struct interp *it, const struct ir_node *n, int status, const char *format, va_list args)
{
    char text[1024];
    vsnprintf(text, sizeof text, format, args);
    if (it->error && it->error_size && !it->error[0]) {
        const char *own = n ? ir_op_info(n->op)->name : NULL, *op = n && n->where.op ? n->where.op : own;
        if (n && n->where.node && strcmp(n->where.node, op)) /* in the words of artifacts (passes/plan/steps.c) */
            snprintf(it->error, it->error_size, "node '%s' (%s): %s", n->where.node, op, text);
        else if (n && n->where.node)
            snprintf(it->error, it->error_size, "node '%s': %s", n->where.node, text);
        else
            snprintf(it->error, it->error_size, "%s%s%s", n ? own : "", n ? ": " : "", text);
    }
    return status;
}

int it_error(struct interp *it, const struct ir_node *n, int status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    status = vfail(it, n, status, format, args);
    va_end(args);
    return status;
}

int it_fail(struct it_call *c, int status, const char *format, ...)
{
    va_list args;
    if (c->status)
        return c->status;
    va_start(args, format);
    c->status = vfail(c->it, c->n, status, format, args);
    va_end(args);
    return c->status;
}

struct ir_tensor *it_out(struct it_call *c, int k, int rank, const int64_t *dims)
{
    ir_type type = c->n->out[k]->type;
    c->out[k] = ir_tensor_new((enum tcc_dtype)type->dtype, rank, dims);
    if (!c->out[k])
        it_fail(c, TCC_EENV, "no memory for a result of rank %d", rank);
    return c->out[k];
}

void *it_scratch(struct it_call *c, int64_t n, size_t size)
{
    size_t bytes;
    void *p;
    if (__builtin_mul_overflow((size_t)n, size, &bytes) ||
        __builtin_add_overflow(bytes, sizeof(struct it_temp) + 64, &bytes) || posix_memalign(&p, 64, bytes)) {
        it_fail(c, TCC_EENV, "no memory");
        return NULL;
    }
    struct it_temp *t = p;
    t->next = c->temps;
    c->temps = t;
    return t->at;
}

static void free_scratch(struct it_call *c)
{
    for (struct it_temp *t = c->temps, *next; t; t = next) {
        next = t->next;
        free(t);
    }
    c->temps = NULL;
}

void it_ints(const struct ir_node *n, enum ir_attr_key key, int count, int64_t otherwise, int64_t *out)
{
    const struct ir_attr *a = ir_attr(n, key);
    for (int i = 0; i < count; i++)
        out[i] = a && i < a->n ? a->ints[i] : otherwise;
}

struct ir_tensor *it_dense(const struct ir_tensor *t)
{
    size_t size = (size_t)tcc_dtype_bytes(it_dtype(t));
    if (!t->splat && (uintptr_t)t->data % (size < 8 ? size : 8) == 0)
        return ir_tensor_ref(t);
    struct ir_tensor *copy = ir_tensor_new(it_dtype(t), t->rank, t->dims);
    if (!copy)
        return NULL;
    if (!t->splat)
        memcpy(it_data(copy), t->data, (size_t)t->bytes);
    for (int64_t i = 0; t->splat && i < t->nelems; i++)
        memcpy((char *)it_data(copy) + (size_t)i * size, t->data, size);
    return copy;
}

/* -- Values ---------------------------------------------------------------------------------- */

struct it_value it_share(struct it_value x)
{
    return (struct it_value){ir_tensor_ref(x.t), x.o ? tccrt_object_ref(x.o) : NULL};
}

void it_drop(struct it_value *x)
{
    ir_tensor_unref(x->t);
    if (x->o)
        tccrt_object_unref(x->o);
    *x = (struct it_value){NULL, NULL};
}

int it_set(struct interp *it, const struct ir_value *v, struct it_value x)
{
    if (ir_is_tensor(v->type) && !x.t && x.o && x.o->kind == TCC_OBJ_TENSOR && x.o->t.dtype != TCC_STRING) {
        struct ir_tensor *t = it_from_object(x.o);
        tccrt_object_unref(x.o);
        if (!t)
            return it_error(it, v->def, TCC_EENV, "no memory");
        x = (struct it_value){t, NULL};
    } else if (ir_is_object(v->type) && x.t) {
        struct tcc_object *o = it_to_object(x.t);
        ir_tensor_unref(x.t);
        if (!o)
            return it_error(it, v->def, TCC_EENV, "no memory");
        x = (struct it_value){NULL, o};
    }
    it_drop(&it->values[v->id]);
    it->values[v->id] = x;
    return TCC_OK;
}

/* -- Nodes and blocks -------------------------------------------------------------------------- */

void it_redefine(struct interp *it, const void *definer, ir_type type)
{
    for (int i = 0; type->kind == IR_T_TENSOR && i < type->rank; i++)
        if (type->dim[i]->kind == IR_X_SYM && !it->definer[type->dim[i]->id])
            it->definer[type->dim[i]->id] = definer;
}

static int take_results(struct it_call *c, const void *definer)
{
    for (int k = 0; k < c->n->nout; k++) {
        const struct ir_value *v = c->n->out[k];
        if (c->out[k]) {
            struct it_value x = {c->out[k], NULL};
            c->out[k] = NULL;
            if (it_set(c->it, v, x))
                return TCC_EENV;
        }
        int status = it_match(c->it, definer, v, &c->it->values[v->id]);
        if (status)
            return status;
    }
    for (int k = 0; definer && k < c->n->nout; k++)
        it_redefine(c->it, definer, c->n->out[k]->type);
    return TCC_OK;
}

void ir_interp_watch(struct ir_interp_state *s, ir_interp_watcher watcher, void *user)
{
    s->watcher = watcher;
    s->watching = user;
}

/* Shows the watcher what n has given. */
static int show(struct interp *it, const struct ir_node *n)
{
    for (int k = 0; k < n->nout; k++) {
        struct ir_tensor *t = it->values[n->out[k]->id].t ? it_dense(it->values[n->out[k]->id].t) : NULL;
        if (!t && it->values[n->out[k]->id].t)
            return it_error(it, n, TCC_EENV, "no memory");
        if (!t)
            continue;
        struct tcc_tensor shown = {.data = (void *)(uintptr_t)t->data, .dtype = t->dtype, .rank = t->rank};
        memcpy(shown.dims, t->dims, sizeof shown.dims);
        it->state->watcher(it->state->watching, n->where.node ? n->where.node : "",
                           n->out[k]->name ? n->out[k]->name : "", &shown);
        ir_tensor_unref(t);
    }
    return TCC_OK;
}

static int run_node(struct interp *it, const struct ir_node *n)
{
    const struct ir_op_info *info = ir_op_info(n->op);
    struct it_call c = {.it = it, .n = n};
    size_t slots = (size_t)(n->nin + n->nout) + 1;
    c.in = calloc(slots, sizeof *c.in);
    if (!c.in)
        return it_error(it, n, TCC_EENV, "no memory");
    c.out = (struct ir_tensor **)c.in + n->nin;
    for (int i = 0; i < n->nin && !c.status; i++) {
        const struct ir_value *v = n->in[i].value;
        if (v && it->values[v->id].t && !(c.in[i] = it_dense(it->values[v->id].t)))
            it_fail(&c, TCC_EENV, "no memory");
    }
    it_fn fn = it_fns[n->op];
    if (!c.status)
        c.status = it_check_facts(it, n, false);
    if (!c.status)
        c.status = fn ? fn(&c) : it_fail(&c, TCC_EBUG, "the interpreter has no such op");
    if (!c.status)
        c.status = take_results(&c, info->flags & IR_F_DEFINES_SYMS ? n : NULL);
    if (!c.status && it->state && it->state->watcher)
        c.status = show(it, n);
    free_scratch(&c);
    for (int i = 0; i < n->nin; i++)
        ir_tensor_unref((struct ir_tensor *)c.in[i]);
    for (int k = 0; k < n->nout; k++)
        ir_tensor_unref(c.out[k]);
    free(c.in);
    return c.status;
}

int it_run_block(struct interp *it, const struct ir_block *block)
{
    if (it->depth > 200)
        return it_error(it, block->parent, TCC_EINPUT, "regions are nested too deeply");
    it->depth++;
    int status = TCC_OK;
    for (const struct ir_node *n = block->first; n && !status; n = n->next) {
        if (ir_op_info(n->op)->flags & IR_F_TERMINATOR)
            break;
        status = run_node(it, n);
        for (uint32_t v = it->dies[n->id]; v; v = it->dies_next[v - 1])
            it_drop(&it->values[v - 1]);
    }
    it->depth--;
    return status;
}

/* -- Preparing a function ----------------------------------------------------------------------- */

static const struct ir_node *ancestor_in(const struct ir_node *n, const struct ir_block *block)
{
    while (n && n->block != block)
        n = n->block->parent;
    return n;
}

/* When a value's last user (or the node of its block that holds it) has run, the value goes. Terminators never run:
 * their operands are taken by whoever runs the block, and dropped with it. */
static void plan_death(struct interp *it, const struct ir_value *v)
{
    const struct ir_node *last = v->def && v->def->block == v->block ? v->def : NULL;
    for (const struct ir_use *u = v->uses; u; u = u->next) {
        const struct ir_node *n = ancestor_in(u->user, v->block);
        if (!n || ir_op_info(n->op)->flags & IR_F_TERMINATOR)
            return;
        if (!last || it->order[n->id] > it->order[last->id])
            last = n;
    }
    if (!last)
        return;
    it->dies_next[v->id] = it->dies[last->id];
    it->dies[last->id] = v->id + 1;
}

static uint32_t number_nodes(struct interp *it, const struct ir_block *block, uint32_t next)
{
    for (const struct ir_node *n = block->first; n; n = n->next) {
        it->order[n->id] = next++;
        for (int r = 0; r < n->nregions; r++)
            next = number_nodes(it, n->regions[r], next);
    }
    return next;
}

static void plan_block(struct interp *it, const struct ir_block *block)
{
    for (int i = 0; i < block->nparams; i++)
        it_redefine(it, block, block->params[i]->type);
    for (const struct ir_node *n = block->first; n; n = n->next) {
        const struct ir_attr *syms = n->op == IR_bind ? ir_attr(n, IR_ATTR_syms) : NULL;
        for (int i = 0; syms && i < syms->n; i++)
            if (!it->definer[syms->exprs[i]->id])
                it->definer[syms->exprs[i]->id] = n;
        for (int r = 0; r < n->nregions; r++)
            plan_block(it, n->regions[r]);
        for (int k = 0; k < n->nout; k++) {
            if (ir_op_info(n->op)->flags & IR_F_DEFINES_SYMS)
                it_redefine(it, n, n->out[k]->type);
            plan_death(it, n->out[k]);
        }
    }
}

static void solve_inputs(struct interp *it)
{
    const struct ir_block *body = it->func->body;
    for (int i = 0; i < body->nparams; i++) {
        const struct ir_value *v = body->params[i];
        const struct it_value *x = &it->values[v->id];
        int rank, dtype;
        if (v->type->kind != IR_T_TENSOR || (!x->t && (!x->o || x->o->kind != TCC_OBJ_TENSOR)))
            continue;
        const int64_t *dims = it_dims_of(x, &rank, &dtype);
        for (int d = 0; d < v->type->rank && d < rank; d++)
            if (v->type->dim[d]->kind != IR_X_SYM)
                it_solve(it, v->type->dim[d], dims[d]);
    }
}

/* Binds the symbols of input i's dims (definer: the body), or checks them once all are bound (NULL). */
static int match_input(struct interp *it, const void *definer, int i)
{
    const struct ir_value *v = it->func->body->params[i];
    char text[1024];
    int status = it_match(it, definer, v, &it->values[v->id]);
    if (!status)
        return TCC_OK;
    snprintf(text, sizeof text, "%s", it->error_size ? it->error : "");
    if (it->error_size)
        snprintf(it->error, it->error_size, "input '%s': %s", it->func->input_names[i], text);
    return status;
}

/* Of a version it has been asked when it was chosen. */
static bool inputs_fit(const struct interp *it, struct tcc_object *const *in)
{
    const struct ir_func *f = it->func;
    struct ir_ctx *ctx = f->module->ctx;
    ir_type *types = ir_alloc(ctx, (size_t)f->body->nparams * sizeof *types);
    for (int i = 0; i < f->body->nparams; i++)
        types[i] = f->body->params[i]->type;
    return f->version || it_inputs_fit(ctx, f->body->nparams, f->input_names, types, in, it->error, it->error_size);
}

static int set_inputs(struct interp *it, struct tcc_object *const *in)
{
    const struct ir_block *body = it->func->body;
    int status = TCC_OK;
    if (!inputs_fit(it, in))
        return TCC_EINPUT;
    for (int i = 0; i < body->nparams && !status; i++) {
        if (!in[i])
            return it_error(it, NULL, TCC_EINPUT, "input '%s' is missing", it->func->input_names[i]);
        status = it_set(it, body->params[i], (struct it_value){NULL, tccrt_object_ref(in[i])});
        if (!status)
            status = match_input(it, body, i);
    }
    if (status)
        return status;
    solve_inputs(it);
    for (int i = 0; i < body->nparams && !status; i++)
        status = match_input(it, NULL, i);
    return status;
}

static int take_outputs(struct interp *it, struct tcc_object **out)
{
    const struct ir_node *ret = it->func->body->last;
    for (int i = 0; i < ret->nin; i++) {
        struct it_value x = it->values[ret->in[i].value->id];
        out[i] = x.t ? it_to_object(x.t) : x.o ? tccrt_object_ref(x.o) : NULL;
        if (!out[i]) {
            while (i-- > 0)
                tccrt_object_unref(out[i]);
            return it_error(it, NULL, TCC_EENV, "no memory");
        }
    }
    return TCC_OK;
}

static bool prepare(struct interp *it, struct ir_func *f)
{
    it->func = f;
    it->facts = calloc((size_t)f->nnodes + 1, sizeof *it->facts);
    if (!it->facts || !it_collect_facts(it, f->body) || !it_prepare_syms(it, f->module->ctx))
        return false;
    it->values = calloc((size_t)f->nvalues + 1, sizeof *it->values);
    it->definer = calloc(it->nsyms, sizeof *it->definer);
    it->dies = calloc((size_t)f->nnodes + 1, sizeof *it->dies);
    it->dies_next = calloc((size_t)f->nvalues + 1, sizeof *it->dies_next);
    it->order = calloc((size_t)f->nnodes + 1, sizeof *it->order);
    if (!it->order || !it->values || !it->definer || !it->dies || !it->dies_next)
        return false;
    number_nodes(it, f->body, 0);
    plan_block(it, f->body);
    return true;
}

static void finish(struct interp *it)
{
    for (uint32_t i = 0; it->values && i < it->func->nvalues; i++)
        it_drop(&it->values[i]);
    free(it->values);
    it_free_facts(it);
    free(it->syms);
    free(it->definer);
    free(it->dies);
    free(it->order);
    free(it->dies_next);
}

bool it_save_state(struct interp *it, struct ir_tensor ***saved)
{
    *saved = calloc((size_t)(it->state ? it->state->n : 0) + 1, sizeof **saved);
    for (int i = 0; *saved && it->state && i < it->state->n; i++)
        (*saved)[i] = ir_tensor_ref(it->state->values[i]);
    return *saved != NULL;
}

void it_settle_state(struct interp *it, struct ir_tensor **saved, bool failed)
{
    for (int i = 0; saved && it->state && i < it->state->n; i++) {
        struct ir_tensor *drop = failed ? it->state->values[i] : saved[i];
        if (failed)
            it->state->values[i] = saved[i];
        ir_tensor_unref(drop);
    }
    free(saved);
}

/* What a version for some sizes refuses, it refuses in the words of the one for all, if that refuses it at once
 * (runtime/walk.c). */
static int refuse(struct ir_func *all, struct ir_interp_state *state, struct tcc_object *const *in, char *error,
                  size_t error_size, int status)
{
    char words[1024];
    int other = ir_interp(all, state, in, NULL, words, sizeof words);
    if (!other)
        return status;
    snprintf(error, error_size, "%s", words);
    return other;
}

int ir_interp(struct ir_func *f, struct ir_interp_state *state, struct tcc_object *const *in, struct tcc_object **out,
              char *error, size_t error_size)
{
    struct interp it = {.state = state, .error = error, .error_size = error_size};
    struct ir_tensor **saved = NULL;
    struct ir_func *all = f;
    if (error_size)
        error[0] = 0;
    int status = prepare(&it, f) && it_save_state(&it, &saved) ? TCC_OK : it_error(&it, NULL, TCC_EENV, "no memory");
    if (!status)
        status = it_bind_positions(&it);
    if (!status)
        status = set_inputs(&it, in);
    if (!status)
        status = it_check_advances(&it);
    if (!status && (status = it_check_inputs(&it)))
        all = it_last_version(f, state, in);
    if (!status && out)
        status = it_run_block(&it, f->body);
    if (!status && out)
        status = take_outputs(&it, out);
    if (!status && out)
        status = it_advance(&it);
    if (!status && out && state)
        state->step++;
    it_settle_state(&it, saved, status != TCC_OK);
    finish(&it);
    return all == f ? status : refuse(all, state, in, error, error_size, status);
}

/* -- Folding ------------------------------------------------------------------------------------- */

static bool foldable(const struct ir_node *n)
{
    const struct ir_op_info *info = ir_op_info(n->op);
    const int barred = IR_F_EFFECT | IR_F_DEFINES_SYMS | IR_F_TERMINATOR | IR_F_REGIONS;
    if ((info->flags & barred) || n->nregions || info->kind == IR_K_LIBRARY || info->kind == IR_K_COLLECTIVE)
        return false;
    for (int k = 0; k < n->nout; k++)
        if (!ir_is_tensor(n->out[k]->type))
            return false;
    for (int i = 0; i < n->nin; i++)
        if (n->in[i].value && !ir_const_of(n->in[i].value))
            return false;
    return n->nin <= 64 && n->nout <= 8;
}

static bool right_type(const struct ir_tensor *t, ir_type type)
{
    int64_t dims[TCC_MAX_RANK];
    return t && t->rank == type->rank && ir_static_dims(type, dims) && !memcmp(dims, t->dims, t->rank * sizeof *dims);
}

bool ir_interp_node(const struct ir_node *n, struct ir_tensor **out)
{
    const struct ir_tensor *in[64] = {NULL};
    struct ir_tensor *results[8] = {NULL};
    char error[8] = "";
    struct interp it = {.error = error, .error_size = sizeof error};
    struct it_call c = {.it = &it, .n = n, .in = in, .out = results};
    if (!foldable(n))
        return false;
    for (int i = 0; i < n->nin && !c.status; i++)
        if (n->in[i].value && !(in[i] = it_dense(ir_const_of(n->in[i].value))))
            c.status = TCC_EENV;
    if (!c.status)
        c.status = it_fns[n->op](&c);
    bool good = c.status == TCC_OK;
    for (int k = 0; k < n->nout; k++)
        good &= right_type(results[k], n->out[k]->type);
    for (int k = 0; k < n->nout; k++) {
        if (good)
            out[k] = results[k];
        else
            ir_tensor_unref(results[k]);
    }
    for (int i = 0; i < n->nin; i++)
        ir_tensor_unref((struct ir_tensor *)in[i]);
    free_scratch(&c);
    return good;
}
