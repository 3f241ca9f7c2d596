/* SPDX-License-Identifier: Apache-2.0 */
/* Operators of tests/custom-op.tap: sizes that are computed, several results, operands left out, and mistakes. */
#include "ops.h"

#include <string.h>
#include <tccc_custom.h>

/* Halve(x[N, ...]): every second row: a size that shape() computes. */
static int halve_shape(struct tccc_custom *c)
{
    int64_t n = c->in[0].dims[0];
    tccc_custom_like(c, 0, 0);
    c->out[0].dims[0] = n < 0 ? TCCC_CUSTOM_UNKNOWN : n / 2;
    return 0;
}

static int halve(struct tccc_custom *c)
{
    int64_t n = c->out[0].dims[0], row = 4;
    for (int32_t d = 1; d < c->out[0].rank; d++)
        row *= c->out[0].dims[d];
    for (int64_t i = 0; i < n; i++)
        memcpy((char *)c->out[0].data + i * row, (const char *)c->in[0].data + 2 * i * row, (size_t)row);
    return 0;
}
TCCC_CUSTOM_OP(Halve) = {.version = TCCC_CUSTOM_VERSION, .shape = halve_shape, .run = halve};

/* Sums(x, w?) mode, offsets -> sums along the last axis (mode mean: means), each times w where it is given, and i64[]:
 * how many. In a workspace. */
static int sums_shape(struct tccc_custom *c)
{
    if (c->in[0].rank < 1)
        return c->fail(c, "expected at least one dim");
    c->out[0] = c->in[0];
    c->out[0].rank--;
    c->out[1].dtype = TCCC_I64;
    c->workspace = 8 * (uint64_t)(c->in[0].dims[c->in[0].rank - 1] > 0 ? c->in[0].dims[c->in[0].rank - 1] : 1);
    return 0;
}

static int sums(struct tccc_custom *c)
{
    int64_t last = c->in[0].dims[c->in[0].rank - 1], n = tccc_custom_elements(&c->out[0]);
    const struct tccc_custom_attr *offsets = tccc_custom_attr(c, "offsets");
    double *row = c->work, w = c->nin > 1 && c->in[1].dtype ? ((const float *)c->in[1].data)[0] : 1;
    for (int64_t i = 0; i < n; i++) {
        double sum = 0;
        for (int64_t k = 0; k < last; k++)
            row[k] =
                ((const float *)c->in[0].data)[i * last + k] + (offsets ? (double)offsets->ints[k % offsets->n] : 0);
        for (int64_t k = 0; k < last; k++)
            sum += row[k];
        ((float *)c->out[0].data)[i] =
            (float)(w * (strcmp(tccc_custom_string(c, "mode", "sum"), "mean") ? sum : sum / (double)last));
    }
    *(int64_t *)c->out[1].data = n;
    return 0;
}
TCCC_CUSTOM_OP(Sums) = {.version = TCCC_CUSTOM_VERSION, .shape = sums_shape, .run = sums};

/* Mistakes. */
static int like(struct tccc_custom *c)
{
    return tccc_custom_like(c, 0, 0);
}

static int behind(struct tccc_custom *c)
{
    memset(c->out[0].data, 1, 4 * (size_t)tccc_custom_elements(&c->out[0]) + 4);
    return 0;
}
TCCC_CUSTOM_OP(Behind) = {.version = TCCC_CUSTOM_VERSION, .shape = like, .run = behind};

static int on_operand(struct tccc_custom *c)
{
    memset(c->out[0].data, 0, 4 * (size_t)tccc_custom_elements(&c->out[0]));
    ((float *)c->in[0].data)[1] += 1;
    return 0;
}
TCCC_CUSTOM_OP(OnOperand) = {.version = TCCC_CUSTOM_VERSION, .shape = like, .run = on_operand};

static int refuses(struct tccc_custom *c)
{
    return c->fail(c, "its first element is %g", (double)((const float *)c->in[0].data)[0]);
}
TCCC_CUSTOM_OP(Refuses) = {.version = TCCC_CUSTOM_VERSION, .shape = like, .run = refuses};

static int refused_shape(struct tccc_custom *c)
{
    return c->fail(c, "operand 0 has %d dims, expected %d", c->in[0].rank, RANK);
}
TCCC_CUSTOM_OP(WrongShape) = {.version = TCCC_CUSTOM_VERSION, .shape = refused_shape, .run = refuses};

/* It says another size at run time than to the compiler. */
static int other_shape(struct tccc_custom *c)
{
    tccc_custom_like(c, 0, 0);
    c->out[0].dims[0] = c->in[0].dims[0] < 0 ? 3 : 4;
    return 0;
}
TCCC_CUSTOM_OP(OtherShape) = {.version = TCCC_CUSTOM_VERSION, .shape = other_shape, .run = halve};

static int no_type(struct tccc_custom *c)
{
    tccc_custom_like(c, 0, 0);
    c->out[0].dtype = 99;
    return 0;
}
TCCC_CUSTOM_OP(NoType) = {.version = TCCC_CUSTOM_VERSION, .shape = no_type, .run = halve};

TCCC_CUSTOM_OP(OtherVersion) = {.version = 77, .shape = like, .run = halve};
TCCC_CUSTOM_OP(NoRun) = {.version = TCCC_CUSTOM_VERSION, .shape = like};
