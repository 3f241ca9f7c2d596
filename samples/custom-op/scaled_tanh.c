/* SPDX-License-Identifier: Apache-2.0 */
/*
 * com.example:ScaledTanh(x) alpha, beta -> alpha * tanh(beta * x), of f32 or f64: an operator that ONNX does not have, for the CPU, with its
 * gradient. It is given to tccc as --custom-op=com.example:ScaledTanh=scaled_tanh.c
 */
#include <math.h>
#include <tccc_custom.h>

enum { PIECE = 4096 }; /* elements that a thread takes at a time */

static int shape(struct tccc_custom *c)
{
    if (c->nin != 1 || c->nout != 1)
        return c->fail(c, "expected 1 operand and 1 result, got %d and %d", c->nin, c->nout);
    if (c->in[0].dtype != TCCC_F32 && c->in[0].dtype != TCCC_F64)
        return c->fail(c, "expected f32 or f64");
    return tccc_custom_like(c, 0, 0);
}

static void piece(void *arg, int64_t i)
{
    const struct tccc_custom *c = arg;
    double alpha = tccc_custom_float(c, "alpha", 1), beta = tccc_custom_float(c, "beta", 1);
    int64_t n = tccc_custom_elements(&c->in[0]), end = (i + 1) * PIECE < n ? (i + 1) * PIECE : n;
    if (c->in[0].dtype == TCCC_F32) {
        const float *x = c->in[0].data;
        float *y = c->out[0].data, a = (float)alpha, b = (float)beta;
        for (int64_t k = i * PIECE; k < end; k++)
            y[k] = a * tanhf(b * x[k]);
    } else {
        const double *x = c->in[0].data;
        double *y = c->out[0].data;
        for (int64_t k = i * PIECE; k < end; k++)
            y[k] = alpha * tanh(beta * x[k]);
    }
}

static int run(struct tccc_custom *c)
{
    c->each(c, (tccc_custom_elements(&c->in[0]) + PIECE - 1) / PIECE, piece, c);
    return 0;
}

TCCC_CUSTOM_OP(ScaledTanh) = {.version = TCCC_CUSTOM_VERSION, .shape = shape, .run = run};

/* (x, y, dy) -> dx = dy beta (alpha - y^2 / alpha); of alpha 0, 0. */
static int run_grad(struct tccc_custom *c)
{
    double alpha = tccc_custom_float(c, "alpha", 1), beta = tccc_custom_float(c, "beta", 1);
    int64_t n = tccc_custom_elements(&c->in[0]);
    for (int64_t k = 0; k < n && c->in[0].dtype == TCCC_F32; k++) {
        const float *y = c->in[1].data, *dy = c->in[2].data;
        ((float *)c->out[0].data)[k] = alpha == 0 ? 0 : (float)(dy[k] * beta * (alpha - y[k] * y[k] / alpha));
    }
    for (int64_t k = 0; k < n && c->in[0].dtype == TCCC_F64; k++) {
        const double *y = c->in[1].data, *dy = c->in[2].data;
        ((double *)c->out[0].data)[k] = alpha == 0 ? 0 : dy[k] * beta * (alpha - y[k] * y[k] / alpha);
    }
    return 0;
}

TCCC_CUSTOM_OP(ScaledTanh_grad) = {.version = TCCC_CUSTOM_VERSION, .run = run_grad};
