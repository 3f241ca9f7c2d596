/* SPDX-License-Identifier: Apache-2.0 */
/* Outputs of stages: microbatches' values added up (in float64, in their order), or put behind each other. */
#include <stdlib.h>
#include <string.h>

#include "runtime/stages_int.h"

static const char *output_name(const struct run *r, uint32_t k)
{
    return tcr_string(r->s->m, r->s->m->signatures[r->e->outputs.first + k].name);
}

static bool adds(const struct run *r, uint32_t k)
{
    return r->outputs[k].how == TCC_COMBINE_MEAN || r->outputs[k].how == TCC_COMBINE_SUM;
}

int tcr_stages_begin_results(struct run *r)
{
    for (uint32_t k = 0; k < r->p->results.count; k++) {
        struct result *x = &r->state->results[k];

        x->seen = 0;
        x->t = (struct tcc_tensor){.dtype = (int32_t)r->s->m->buffers[r->outputs[k].buffer].dtype};
    }
    return TCC_OK;
}

static double load(int dtype, const void *p, int64_t i)
{
    switch (dtype) {
    case TCC_F32: return ((const float *)p)[i];
    case TCC_F64: return ((const double *)p)[i];
    case TCC_I32: return ((const int32_t *)p)[i];
    default: return (double)((const int64_t *)p)[i];
    }
}

static void store(int dtype, void *p, int64_t i, double v)
{
    switch (dtype) {
    case TCC_F32: ((float *)p)[i] = (float)v; return;
    case TCC_F64: ((double *)p)[i] = v; return;
    case TCC_I32: ((int32_t *)p)[i] = (int32_t)v; return;
    default: ((int64_t *)p)[i] = (int64_t)v;
    }
}

/* That of the first microbatch is kept: is this one's the same? */
static int same_shape(const struct run *r, uint32_t k, int rank, const int64_t *dims)
{
    struct result *x = &r->state->results[k];

    if (!x->seen) {
        x->t.rank = rank;
        memcpy(x->t.dims, dims, (size_t)rank * sizeof *dims);
    }
    if (x->t.rank != rank || memcmp(x->t.dims, dims, (size_t)rank * sizeof *dims))
        return tcr_fail(TCC_EINPUT, "output '%s' changes its shape between microbatches", output_name(r, k));
    return TCC_OK;
}

static int add(struct run *r, uint32_t k, const struct tcc_tensor *v)
{
    struct result *x = &r->state->results[k];
    int64_t n = tcr_elements(v->dtype, v->rank, v->dims);
    double *sums;

    if (v->dtype != TCC_F32 && v->dtype != TCC_F64 && v->dtype != TCC_I32 && v->dtype != TCC_I64)
        return tcr_fail(TCC_EUSAGE,
                        "output '%s': values of type %s aren't added over microbatches: use concat or stack",
                        output_name(r, k), tcr_dtype_name(v->dtype));
    int status = same_shape(r, k, v->rank, v->dims);
    if (status || (status = tcr_stages_result_room(x, (size_t)n * sizeof *sums)))
        return status;
    sums = x->data;
    for (int64_t i = 0; i < n; i++)
        sums[i] = (x->seen ? sums[i] : 0) + load(v->dtype, v->data, i);
    if (++x->seen < r->p->micros)
        return TCC_OK;
    /* In place: no element is larger than its sum. */
    for (int64_t i = 0; i < n; i++)
        store(v->dtype, x->data, i, r->outputs[k].how == TCC_COMBINE_MEAN ? sums[i] / r->p->micros : sums[i]);
    return TCC_OK;
}

static int append(struct run *r, uint32_t k, uint32_t micro, const struct tcc_tensor *v)
{
    struct result *x = &r->state->results[k];
    size_t bytes = (size_t)(tcr_elements(v->dtype, v->rank, v->dims) * tcr_dtype_bytes(v->dtype)), pieces = 1;
    bool stack = r->outputs[k].how == TCC_COMBINE_STACK;
    int axis = stack ? 0 : (int)r->outputs[k].axis;
    struct tcc_tensor whole = {.dtype = v->dtype, .rank = v->rank + stack};

    if (!stack && v->rank <= axis)
        return tcr_fail(TCC_EUSAGE, "output '%s' has no axis %d to be concatenated on", output_name(r, k), axis);
    memcpy(whole.dims + stack, v->dims, (size_t)v->rank * sizeof *v->dims);
    whole.dims[axis] = (stack ? 1 : v->dims[axis]) * r->p->micros;
    int status = same_shape(r, k, whole.rank, whole.dims);
    if (status || (status = tcr_stages_result_room(x, bytes * r->p->micros)))
        return status;
    x->seen++;
    for (int d = 0; d < axis; d++)
        pieces *= (size_t)v->dims[d];
    size_t each = pieces ? bytes / pieces : 0;
    for (size_t p = 0; p < pieces; p++)
        memcpy((char *)x->data + (p * r->p->micros + micro) * each, (const char *)v->data + p * each, each);
    return TCC_OK;
}

int tcr_stages_reduce(struct run *r, uint32_t k, uint32_t micro, const struct tcc_tensor *v)
{
    return adds(r, k) ? add(r, k, v) : append(r, k, micro, v);
}

/* Every process gets all outputs. */
int tcr_stages_share_results(struct run *r)
{
    for (uint32_t k = 0; r->group && k < r->p->results.count; k++) {
        int status = tcr_stages_broadcast(r, k);

        if (status)
            return status;
    }
    return tcr_stages_meet(r);
}

int tcr_stages_give_result(struct run *r, uint32_t k)
{
    const struct result *x = &r->state->results[k];
    int64_t bytes = tcr_elements(x->t.dtype, x->t.rank, x->t.dims) * tcr_dtype_bytes(x->t.dtype);
    int status;
    void *to = tcr_output_memory(r->s, k, 0, x->t.dtype, x->t.rank, x->t.dims, bytes, &status);

    if (to && bytes)
        memcpy(to, x->t.data, (size_t)bytes);
    return status;
}
