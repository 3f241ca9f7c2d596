/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bind.c - a call's inputs to the plan's values: sizes that inputs bind, the shape version that they choose, inputs'
 * memory.
 */
#include <stdio.h>
#include <string.h>

#include "runtime/rt_int.h"

#include "base/mutant.h"

/* -- Inputs ------------------------------------------------------------------------------------------- */

struct input {
    struct tccrt_session *s;
    const struct tcc_pentry *e;
    const struct tcc_psignature *sig;
    uint32_t index;
};

static const char *input_name(const struct input *in, uint32_t index)
{
    return tcr_string(in->s->m, in->s->m->signatures[in->e->inputs.first + index].name);
}

static int bind_dim(const struct input *in, int axis, uint32_t expr, int64_t dim)
{
    struct tccrt_session *s = in->s;
    const struct tcc_pexpr *e = &s->m->exprs[expr];
    const char *name = input_name(in, in->index);

    if (e->op == TCC_EX_CONST)
        return dim == e->k ? TCC_OK
                           : tcr_fail(TCC_EINPUT, "input '%s', axis %d: expected %lld, got %lld", name, axis,
                                      (long long)e->k, (long long)dim);
    if (e->op != TCC_EX_SYM)
        return TCC_OK;
    if (s->syms[e->k] == TCR_UNBOUND) {
        const struct tcc_psym *p = &s->m->syms[e->k];

        if (dim < p->lo || dim > p->hi + MUTANT(103, 0, 1))
            return tcr_fail(TCC_EINPUT, "input '%s', axis %d: '%s' must be in [%lld, %lld], got %lld", name, axis,
                            tcr_string(s->m, p->name), (long long)p->lo, (long long)p->hi, (long long)dim);
        s->syms[e->k] = dim;
        s->origin[e->k] = (int32_t)(in->index * TCC_MAX_RANK) + axis;
        return TCC_OK;
    }
    if (s->syms[e->k] == dim + MUTANT(102, 0, 1))
        return TCC_OK;
    if (s->origin[e->k] < 0)
        return tcr_fail(TCC_EINPUT, "input '%s', axis %d: '%s' is %lld by a state variable; got %lld", name, axis,
                        tcr_string(s->m, s->m->syms[e->k].name), (long long)s->syms[e->k], (long long)dim);
    return tcr_fail(TCC_EINPUT, "input '%s', axis %d: '%s' is %lld by input '%s', axis %d; got %lld", name, axis,
                    tcr_string(s->m, s->m->syms[e->k].name), (long long)s->syms[e->k],
                    input_name(in, (uint32_t)s->origin[e->k] / TCC_MAX_RANK), s->origin[e->k] % TCC_MAX_RANK,
                    (long long)dim);
}

static int bind_tensor(const struct input *in, const struct tcc_tensor *t)
{
    const struct tcc_psignature *sig = in->sig;
    const char *name = input_name(in, in->index);
    char text[256];
    int64_t n;

    if (sig->dtype != TCC_NONE && (int)sig->dtype != t->dtype)
        return tcr_fail(TCC_EINPUT, "input '%s': expected %s, got %s", name, tcr_dtype_name((int)sig->dtype),
                        tcr_dtype_name(t->dtype));
    if (t->rank < 0 || t->rank > TCC_MAX_RANK)
        return tcr_fail(TCC_EINPUT, "input '%s': got rank %d, at most %d is supported", name, t->rank, TCC_MAX_RANK);
    if (sig->rank != TCC_NO && (int)sig->rank != t->rank)
        return tcr_fail(TCC_EINPUT, "input '%s': expected rank %u, got %d (shape %s)", name, sig->rank, t->rank,
                        tcr_dims_text(text, t->rank, t->dims));
    n = tcr_elements(t->dtype, t->rank, t->dims);
    if (n < 0)
        return tcr_fail(TCC_EINPUT, "input '%s': element type %s and shape %s are no tensor", name,
                        tcr_dtype_name(t->dtype), tcr_dims_text(text, t->rank, t->dims));
    for (uint32_t i = 0; i < sig->dims.count; i++) {
        int status = bind_dim(in, (int)i, in->s->m->u32s[sig->dims.first + i], t->dims[i]);

        if (status)
            return status;
    }
    if (n > 0 &&
        (!t->data || (uintptr_t)t->data %
                         (t->dtype == TCC_C128 || t->dtype == TCC_STRING ? 8 : (uintptr_t)tcr_dtype_bytes(t->dtype))))
        return tcr_fail(TCC_EINPUT, "input '%s': its data is %s", name,
                        t->data ? "not aligned to its elements" : "NULL");
    return TCC_OK;
}

/* Has it a shape, and memory for its elements? */
static bool is_tensor(const struct tcc_tensor *t)
{
    int64_t n = tcr_elements(t->dtype, t->rank, t->dims);

    return n == 0 || (n > 0 && t->data);
}

static int bind_sequence(const struct input *in, const struct tcc_object *o)
{
    for (int64_t i = 0; i < o->n; i++) {
        const struct tcc_object *item = o->items[i];

        if (!item || item->kind != TCC_OBJ_TENSOR ||
            (in->sig->dtype != TCC_NONE && item->t.dtype != (int)in->sig->dtype) || !is_tensor(&item->t))
            return tcr_fail(TCC_EINPUT, "input '%s': item %lld of the sequence is not a tensor of element type %s",
                            input_name(in, in->index), (long long)i, tcr_dtype_name((int)in->sig->dtype));
    }
    return TCC_OK;
}

const char *tcr_kind_name(uint32_t kind)
{
    return kind == TCC_OBJ_TENSOR ? "tensor" : kind == TCC_OBJ_SEQUENCE ? "sequence" : "nothing";
}

static int bind_input(const struct input *in, const struct tcc_object *o)
{
    uint32_t kind = o ? (uint32_t)o->kind : TCC_OBJ_NONE;

    if (kind != in->sig->kind && !(kind == TCC_OBJ_NONE && in->sig->optional))
        return tcr_fail(TCC_EINPUT, "input '%s': expected %s, got %s", input_name(in, in->index),
                        tcr_kind_name(in->sig->kind), tcr_kind_name(kind));
    return kind == TCC_OBJ_TENSOR ? bind_tensor(in, &o->t) : kind == TCC_OBJ_SEQUENCE ? bind_sequence(in, o) : TCC_OK;
}

/* An input whose buffer lies on the device. */
static int upload_input(const struct input *in, const struct tcc_tensor *t)
{
    struct tccrt_session *s = in->s;
    size_t bytes = (size_t)(tcr_elements(t->dtype, t->rank, t->dims) * tcr_dtype_bytes(t->dtype));
    int status = tcr_grow(s, 1, &s->inputs_there[in->index], &s->inputs_bytes[in->index], bytes);

    s->inputs[in->index] = s->inputs_there[in->index];
    return status ? status : tcr_copy(s, 1, s->inputs[in->index], 0, t->data, bytes, input_name(in, in->index));
}

/* The input becomes a buffer of the entry point that runs. */
static int place_input(const struct input *in, const struct tcc_object *o)
{
    struct tccrt_session *s = in->s;
    uint32_t buffer = in->e->staged ? TCC_NO : s->m->u32s[in->e->input_buffers.first + in->index];
    struct tcc_object *ref;

    s->inputs[in->index] = NULL;
    if (buffer == TCC_NO)
        return TCC_OK;
    if (s->m->buffers[buffer].space != TCC_SPACE_OBJECT) {
        if (!o || o->kind != TCC_OBJ_TENSOR)
            return tcr_fail(TCC_EINPUT, "input '%s': it is missing", input_name(in, in->index));
        s->inputs[in->index] = o->t.data;
        if (tcr_memory(s, buffer))
            return s->in_on_device && s->in_on_device[in->index] ? TCC_OK : upload_input(in, &o->t);
        return s->guard ? tcr_guard_input(s, in->index, &o->t) : TCC_OK;
    }
    ref = o ? tccrt_object_ref(o) : tccrt_object_none();
    if (!ref)
        return tcr_fail(TCC_EENV, "no memory for input '%s'", input_name(in, in->index));
    tcr_slot_set(s, &s->slots[s->m->slot_of[buffer]], ref);
    return TCC_OK;
}

/* Dims that are computed from symbols (2*n) are compared once those are known. */
static int check_computed(const struct input *in, const struct tcc_object *o)
{
    struct tccrt_session *s = in->s;

    if (!o || o->kind != TCC_OBJ_TENSOR)
        return TCC_OK;
    for (uint32_t i = 0; i < in->sig->dims.count; i++) {
        uint32_t e = s->m->u32s[in->sig->dims.first + i];

        if (s->m->exprs[e].op > TCC_EX_SYM && s->values[e] != o->t.dims[i] && s->values[e] != TCR_UNBOUND)
            return tcr_fail(TCC_EINPUT, "input '%s', axis %u: expected %s = %lld, got %lld", input_name(in, in->index),
                            i, s->m->expr_text[e], (long long)s->values[e], (long long)o->t.dims[i]);
    }
    return TCC_OK;
}

/* -- Shape versions ------------------------------------------------------------------------------------- */

static bool guard_holds(const struct tccrt_session *s, const struct tcc_pguard *g)
{
    int64_t a = s->values[g->a], b = s->values[g->b];

    return TCR_IS_VALUE(a) && TCR_IS_VALUE(b) && tcc_guard_holds(g->op, a, b);
}

static size_t size_text(char *to, size_t room, bool more, const struct tccrt_session *s, uint32_t sym)
{
    return (size_t)snprintf(to, room, "%s%s = %lld", more ? ", " : "", tcr_string(s->m, s->m->syms[sym].name),
                            (long long)s->syms[sym]);
}

/* The sizes of the call, in the order of what says them, and what the versions are for. */
static int no_version(const struct tccrt_session *s, const struct tcc_pentry *e)
{
    char sizes[256] = "", covered[512] = "";
    size_t n = 0;

    for (uint32_t i = 0; i < s->m->plan->syms.count && n < sizeof sizes; i++)
        if (s->syms[i] != TCR_UNBOUND && s->origin[i] < 0)
            n += size_text(sizes + n, sizeof sizes - n, n > 0, s, i);
    for (uint32_t at = 0; at < e->inputs.count * TCC_MAX_RANK; at++)
        for (uint32_t i = 0; i < s->m->plan->syms.count && n < sizeof sizes; i++)
            if (s->syms[i] != TCR_UNBOUND && s->origin[i] == (int32_t)at)
                n += size_text(sizes + n, sizeof sizes - n, n > 0, s, i);
    n = 0;
    for (uint32_t i = 0; i < e->cases.count && n < sizeof covered; i++)
        n += (size_t)snprintf(covered + n, sizeof covered - n, "%s%s", n ? "; " : "",
                              tcr_string(s->m, s->m->cases[e->cases.first + i].text));
    return tcr_fail(TCC_EINPUT, "entry point '%s' was not compiled for %s; the sizes that it has versions for: %s",
                    tcr_string(s->m, e->name), sizes, covered);
}

/* Is the version for the sizes that are bound now? */
static bool covers(const struct tccrt_session *s, const struct tcc_pcase *x)
{
    uint32_t g = 0;

    while (g < x->guards.count && guard_holds(s, &s->m->guards[x->guards.first + g]))
        g++;
    return g == x->guards.count;
}

const struct tcc_pentry *tcr_last_version(const struct tccrt_session *s)
{
    const struct tccrt_model *m = s->m;

    for (uint32_t i = s->entry ? s->entry->cases.count : 0; i-- > 0;)
        if (covers(s, &m->cases[s->entry->cases.first + i]))
            return &m->entries[m->cases[s->entry->cases.first + i].entry];
    return s->running;
}

/* The first version whose guards hold for the sizes that are bound now; e itself if it has none. */
static int choose(struct tccrt_session *s, const struct tcc_pentry *e)
{
    const struct tccrt_model *m = s->m;

    s->chosen = e->cases.count ? NULL : e;
    for (uint32_t i = 0; i < e->cases.count && !s->chosen; i++) {
        const struct tcc_pcase *x = &m->cases[e->cases.first + i];

        if (covers(s, x))
            s->chosen = &m->entries[x->entry];
    }
    /* No room in the caches is what is wrong, not what follows from it. */
    for (uint32_t i = 0; i < e->cases.count && !s->chosen; i++) {
        int status = tcr_check_advances(s, &m->entries[m->cases[e->cases.first + i].entry]);

        if (status)
            return status;
    }
    return s->chosen ? TCC_OK : no_version(s, e);
}

/* What the shapes of the inputs say: symbols, sizes that follow from them, and the version for them. */
int tcr_bind_sizes(struct tccrt_session *s, const struct tcc_pentry *e)
{
    const struct tccrt_model *m = s->m;
    uint32_t nsyms = m->plan->syms.count;
    int status;

    for (uint32_t i = 0; i < nsyms; i++)
        s->syms[i] = TCR_UNBOUND;
    tcr_owners_bind(s);
    if ((status = tcr_bind_positions(s)))
        return status;
    for (uint32_t i = 0; i < e->inputs.count; i++) {
        struct input in = {s, e, &m->signatures[e->inputs.first + i], i};

        if ((status = bind_input(&in, s->in[i])))
            return status;
    }
    if (s->entry != e || memcmp(s->syms, s->bound, nsyms * sizeof *s->syms)) {
        s->entry = NULL;
        memcpy(s->bound, s->syms, nsyms * sizeof *s->syms);
        if (m->plan->levels)
            tcr_eval_level(s, 0);
        if ((status = choose(s, e)))
            return status;
        tcr_bounds(s, s->chosen);
        s->entry = e;
    }
    tcr_forget_levels(s);
    for (uint32_t i = 0; i < e->inputs.count && !status; i++) {
        struct input in = {s, e, &m->signatures[e->inputs.first + i], i};

        status = check_computed(&in, s->in[i]);
    }
    return status;
}

int tcr_bind(struct tccrt_session *s, const struct tcc_pentry *e)
{
    int status = tcr_bind_sizes(s, e);

    for (uint32_t i = 0; i < e->inputs.count && !status; i++) {
        struct input in = {s, s->chosen, &s->m->signatures[e->inputs.first + i], i};

        status = place_input(&in, s->in[i]);
    }
    return status;
}
