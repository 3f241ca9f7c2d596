/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that one call both reads and writes. A run writes results and state variables while inputs are still read. So
 * an input that lies where the run may write is copied before it begins: where a result of this call goes (x = f(x)),
 * where the last call's results are (they are fed back), in a state variable. Results that would lie in each other's
 * memory, or in that of a state variable, have no meaning and are refused.
 *
 * Most calls have nothing of that. Where there are so many tensors that comparing all pairs would take longer than a
 * small kernel (a decoder's caches), all ranges are sorted, and one walk says whether any two are in each other's way.
 */
#include <string.h>

#include "base/mutant.h"
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

/* From so many pairs a range on, by measurement, comparing them takes longer than sorting the ranges. */
#define SORTED_ABOVE 6

/* By memory, then by address. */
static bool lies_before(const struct tcr_span *a, const struct tcr_span *b)
{
    return a->there != b->there ? b->there : a->at < b->at;
}

/* Shell's sort with Ciura's steps: it takes no memory, and little time for what is nearly in order. */
static void sort_spans(struct tcr_span *x, size_t n)
{
    static const size_t steps[] = {1750, 701, 301, 132, 57, 23, 10, 4, 1};

    for (size_t k = 0; k < sizeof steps / sizeof *steps; k++)
        for (size_t i = steps[k]; i < n; i++) {
            struct tcr_span v = x[i];
            size_t j = i;

            for (; j >= steps[k] && lies_before(&v, &x[j - steps[k]]); j -= steps[k])
                x[j] = x[j - steps[k]];
            x[j] = v;
        }
}

static void add_span(struct tccrt_session *s, size_t *n, struct range r, bool there, bool written)
{
    if (r.bytes)
        s->spans[(*n)++] = (struct tcr_span){r.at, r.at + r.bytes, there, written};
}

static struct range input_range(const struct tccrt_session *s, uint32_t i)
{
    return s->in[i] && s->in[i]->kind == TCC_OBJ_TENSOR ? range_of(&s->in[i]->t) : (struct range){0, 0};
}

/* Does anything that the run may write lie where an input or something else that it may write does? */
static bool any_meet(struct tccrt_session *s, const struct tcc_pentry *e, int nout, const struct tcc_tensor *out,
                     const bool *from, const bool *to)
{
    uintptr_t read = 0, written = 0; /* up to where what came before goes */
    size_t n = 0;

    for (uint32_t i = 0; i < e->inputs.count; i++)
        add_span(s, &n, input_range(s, i), lies_there(s, from, (int)i), false);
    for (int k = 0; k < nout; k++) {
        const struct tcr_out *o = &s->outs[k];

        if (out)
            add_span(s, &n, range_of(&out[k]), lies_there(s, to, k), true);
        add_span(s, &n, (struct range){(uintptr_t)o->own, o->own_bytes}, false, true);
        if (o->object)
            add_span(s, &n, range_of(&o->object->t), false, true);
    }
    for (uint32_t i = 0; i < s->m->plan->states.count; i++)
        for (int there = 0; there <= s->discrete; there++)
            add_span(s, &n, state_range(s, i, there), there, true);
    sort_spans(s->spans, n);
    for (size_t i = 0; i < n; i++) {
        const struct tcr_span *x = &s->spans[i];

        if (i && x->there != x[-1].there)
            read = written = 0;
        if (x->at < written || (x->written && x->at < MUTANT(415, read, 0)))
            return true;
        if (x->written)
            written = x->end;
        else if (x->end > read)
            read = x->end;
    }
    return false;
}

/* Of inputs, results and state variables, so many pairs would be compared. */
static bool is_worth_sorting(const struct tccrt_session *s, const struct tcc_pentry *e, int nout)
{
    uint64_t in = e->inputs.count, results = (uint64_t)nout, states = s->m->plan->states.count;

    return in * (2 * results + states) + results * (results / 2 + states) > SORTED_ABOVE * (in + 2 * results + states);
}

int tcr_keep_apart(struct tccrt_session *s, const struct tcc_pentry *e, int nout, const struct tcc_tensor *out)
{
    const bool *from = s->how ? s->how->in_on_device : NULL, *to = s->how ? s->how->out_on_device : NULL;

    if (is_worth_sorting(s, e, nout) && !any_meet(s, e, nout, out, from, to))
        return TCC_OK;
    int status = out ? check_outputs(s, e, nout, out, to) : TCC_OK, k;

    for (uint32_t i = 0; i < e->inputs.count && !status; i++) {
        struct range r = input_range(s, i);
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
