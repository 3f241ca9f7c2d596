/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that one call both reads and writes. A run writes results and state variables while inputs are still read. So
 * an input that lies where the run may write is copied before it begins: where a result of this call goes (x = f(x)),
 * where the last call's results are (they are fed back), in a state variable. Results that would lie in each other's
 * memory, or in that of a state variable, have no meaning and are refused.
 */
#include <string.h>

#include "runtime/rt_int.h"

struct range {
    uintptr_t at;
    size_t bytes; /* 0: nothing */
};

static struct range range_of(const struct tcc_tensor *t)
{
    int64_t n = t->data ? tcr_elements(t->dtype, t->rank, t->dims) : 0, bytes;

    if (n <= 0 || __builtin_mul_overflow(n, (int64_t)tcr_dtype_bytes(t->dtype), &bytes))
        return (struct range){0, 0};
    return (struct range){(uintptr_t)t->data, (size_t)bytes};
}

static bool meet(struct range a, struct range b)
{
    return a.bytes && b.bytes && a.at < b.at + b.bytes && b.at < a.at + a.bytes;
}

/* Variable i, in the memory of the device or the host's. */
static struct range state_range(const struct tccrt_session *s, uint32_t i, bool there)
{
    const void *at = s->discrete && !there ? s->borrowed[i] : s->states[i];

    return (struct range){(uintptr_t)at, at ? s->m->states[i].bytes : 0};
}

static const char *in_state(const struct tccrt_session *s, struct range r, bool there)
{
    for (uint32_t i = 0; r.bytes && i < s->m->plan->states.count; i++)
        if (meet(r, state_range(s, i, there)))
            return tcr_string(s->m, s->m->states[i].name);
    return NULL;
}

static bool lies_there(const struct tccrt_session *s, const bool *on_device, int i)
{
    return s->discrete && on_device && on_device[i];
}

static const char *output_name(const struct tccrt_session *s, const struct tcc_pentry *e, int k)
{
    return tcr_string(s->m, s->m->signatures[e->outputs.first + (uint32_t)k].name);
}

static int check_outputs(const struct tccrt_session *s, const struct tcc_pentry *e, int nout,
                         const struct tcc_tensor *out, const bool *on_device)
{
    const char *state;

    for (int k = 0; k < nout; k++) {
        struct range r = range_of(&out[k]);
        bool there = lies_there(s, on_device, k);

        for (int j = 0; j < k && r.bytes; j++)
            if (there == lies_there(s, on_device, j) && meet(r, range_of(&out[j])))
                return tcr_fail(TCC_EINPUT, "outputs '%s' and '%s': the memory given for one overlaps the other's",
                                output_name(s, e, j), output_name(s, e, k));
        if ((state = in_state(s, r, there)))
            return tcr_fail(TCC_EINPUT, "output '%s': the memory given for it overlaps that of state variable '%s'",
                            output_name(s, e, k), state);
    }
    return TCC_OK;
}

/* May the run write to it? *taken: the caller's memory for a result. */
static bool is_written(const struct tccrt_session *s, struct range r, bool there, int nout,
                       const struct tcc_tensor *out, const bool *on_device, int *taken)
{
    *taken = -1;
    for (int k = 0; k < nout; k++) {
        const struct tcr_out *o = &s->outs[k];

        if (out && there == lies_there(s, on_device, k) && meet(r, range_of(&out[k]))) {
            *taken = k;
            return true;
        }
        if (!there && (meet(r, (struct range){(uintptr_t)o->own, o->own_bytes}) ||
                       (o->object && meet(r, range_of(&o->object->t)))))
            return true;
    }
    return in_state(s, r, there) != NULL;
}

/* Input i is read from a copy. Runs that were given before may still read the last one. */
static int copy_input(struct tccrt_session *s, int i, const struct tcc_tensor *t, size_t bytes)
{
    struct tcr_apart *a = &s->apart[i];
    struct tcc_tensor copy = *t;
    int status = tcr_settle(s);

    if (!status)
        status = tcr_grow(s, 0, &a->at, &a->bytes, bytes);
    if (status)
        return status;
    memcpy(a->at, t->data, bytes);
    copy.data = a->at;
    tcr_object_borrow(&s->heads[i], &copy);
    s->in[i] = &s->heads[i];
    return TCC_OK;
}

int tcr_keep_apart(struct tccrt_session *s, const struct tcc_pentry *e, int nout, const struct tcc_tensor *out)
{
    const bool *from = s->how ? s->how->in_on_device : NULL, *to = s->how ? s->how->out_on_device : NULL;
    int status = out ? check_outputs(s, e, nout, out, to) : TCC_OK, k;

    for (uint32_t i = 0; i < e->inputs.count && !status; i++) {
        struct range r = s->in[i] && s->in[i]->kind == TCC_OBJ_TENSOR ? range_of(&s->in[i]->t) : (struct range){0, 0};
        bool there = lies_there(s, from, (int)i);

        if (!is_written(s, r, there, nout, out, to, &k))
            continue;
        if (!there)
            status = copy_input(s, (int)i, &s->in[i]->t, r.bytes);
        else if (k >= 0)
            status = tcr_fail(TCC_EINPUT,
                              "output '%s': the memory given for it on the device overlaps an input's; "
                              "give it other memory",
                              output_name(s, e, k));
    }
    return status;
}
