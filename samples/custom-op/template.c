/* SPDX-License-Identifier: Apache-2.0 */
/* DOMAIN:NAME(operands) attributes -> results. Replace NAME, shape() and run(), and give the file as --custom-op=DOMAIN:NAME=FILE.c */
#include <tccc_custom.h>

/* The results' element types and dims, from those of the operands. A negative dim of an operand is a size that is not known yet: copied, it stays that
 * size; a result's dim that must be computed of one is TCCC_CUSTOM_UNKNOWN. */
static int shape(struct tccc_custom *c)
{
    if (c->nin != 1 || c->nout != 1 || c->in[0].dtype != TCCC_F32)
        return c->fail(c, "expected one operand of f32 and one result");
    return tccc_custom_like(c, 0, 0);
}

/* Fills in the results. Row-major, dense; c->each() uses the session's threads. */
static int run(struct tccc_custom *c)
{
    const float *x = c->in[0].data;
    float *y = c->out[0].data;
    for (int64_t i = 0; i < tccc_custom_elements(&c->in[0]); i++)
        y[i] = x[i];
    return 0;
}

TCCC_CUSTOM_OP(NAME) = {.version = TCCC_CUSTOM_VERSION, .shape = shape, .run = run};

/* For --train: operands, results, the results' gradients -> the gradients of the operands of floats. Leave it out where nothing is trained. */
static int run_grad(struct tccc_custom *c)
{
    const float *dy = c->in[2].data;
    float *dx = c->out[0].data;
    for (int64_t i = 0; i < tccc_custom_elements(&c->in[0]); i++)
        dx[i] = dy[i];
    return 0;
}

TCCC_CUSTOM_OP(NAME_grad) = {.version = TCCC_CUSTOM_VERSION, .run = run_grad};
