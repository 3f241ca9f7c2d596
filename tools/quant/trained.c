/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --trained: weights and steps of a checkpoint that tccc-train --qat has written. The model gets the weights as
 * tccc-ckpt export would put them; nodes are quantised whose weight has steps, qat.step.PARAM, and their inputs by
 * qat.input_step.PARAM and qat.input_zero.PARAM of whichever node reads them: nothing is calibrated.
 */
#include "tools/quant/quant_int.h"

#include "tools/train/ckpt_tool_int.h"

#include <float.h>
#include <math.h>
#include <string.h>

static const struct tccrt_named *part_of(const struct quant *q, const char *param, const char *what)
{
    return tccrt_tensors_parameter(q->trained->n, q->trained->at, ir_internf(q->ctx, "qat.%s.%s", what, param));
}

static float number(const struct tccrt_named *x, int64_t i)
{
    enum tcc_dtype dtype = (enum tcc_dtype)x->t.dtype;
    return (float)tcc_load_f64(dtype, (const char *)x->t.data + i * tcc_dtype_bytes(dtype));
}

static bool has(const struct tccrt_named *x, int64_t n)
{
    return x && tcc_is_float((enum tcc_dtype)x->t.dtype) && tcc_elements(x->t.rank, x->t.dims) == n;
}

static float step_at(const struct tccrt_named *x, int64_t i)
{
    return fmaxf(number(x, i), FLT_EPSILON);
}

int quant_open_trained(struct quant *q)
{
    static struct tensors t; /* of the process */
    const char *path = option_text(q->o, OPT_trained, NULL), *own = ir_internf(q->ctx, "%s/trained.onnx", q->folder);
    int replaced, code = tensors_open(q->o, path, &t);

    if (code != EXIT_FINE)
        return code;
    q->trained = &t;
    const struct tccrt_named *bits = tccrt_tensors_parameter(t.n, t.at, "qat.bits");
    int64_t n = bits && bits->t.dtype == TCC_I64 && !bits->t.rank ? *(const int64_t *)bits->t.data : 0;
    if (n != 4 && n != 8)
        return tool_error(q->o, EXIT_DATA, "%s: it has no steps: it is no checkpoint of tccc-train --qat", path);
    q->trained_bits = (int)n;
    code = onnx_export(q->o, &t, q->path, own, &replaced);
    q->path = own;
    return code;
}

/* The node's steps, and its input's; a node without is not chosen. */
static int mark(struct quant *q, struct quant_node *n)
{
    struct quant_weight w;
    const char *param = quant_value_name(q, n->in[1]);
    const struct tccrt_named *steps = part_of(q, param, "step"), *in = part_of(q, param, "input_step"),
                             *zero = part_of(q, param, "input_zero");
    struct quant_value *v = &q->values[n->in[0]];

    if (!steps || !quant_weight_of(q, n, &w)) {
        n->chosen = false;
        return EXIT_FINE;
    }
    if (!has(steps, w.n) || (in && !(has(in, 1) && has(zero, 1))))
        return tool_error(q->o, EXIT_DATA, "%s: the steps of '%s' in the checkpoint are not those of its %lld outputs",
                          q->o->words[0], param, (long long)w.n);
    n->steps = IR_NEWN(q->ctx, w.n + 1, float);
    for (int64_t i = 0; i < w.n; i++)
        n->steps[i] = step_at(steps, i);
    if (in) {
        v->step = step_at(in, 0);
        v->zero = (int)fminf(fmaxf(nearbyintf(number(zero, 0)), 0), 255);
    }
    return EXIT_FINE;
}

/* Steps that no node has taken: the graph reads those weights in another way. */
static void tell_left(const struct quant *q)
{
    for (int i = 0; i < q->trained->n; i++) {
        const char *name = q->trained->at[i].name;
        bool taken = strncmp(name, "qat.step.", 9) != 0;
        for (int k = 0; k < q->nnodes && !taken; k++)
            taken =
                q->nodes[k].chosen && part_of(q, quant_value_name(q, q->nodes[k].in[1]), "step") == &q->trained->at[i];
        if (!taken && !option_set(q->o, OPT_quiet))
            fprintf(stderr,
                    "warning: '%s' was trained for %d bits, and stays in floats: no Conv, Gemm or MatMul has "
                    "it as its weight\n",
                    ir_shown(name + 9), q->trained_bits);
    }
}

int quant_mark_trained(struct quant *q)
{
    int code = EXIT_FINE;

    for (int i = 0; i < q->nnodes && code == EXIT_FINE; i++)
        if (q->nodes[i].chosen)
            code = mark(q, &q->nodes[i]);
    for (int i = 0; i < q->nnodes && code == EXIT_FINE; i++)
        if (q->nodes[i].chosen && !(q->values[q->nodes[i].in[0]].step > 0))
            q->nodes[i].chosen = false;
    if (code == EXIT_FINE)
        tell_left(q);
    return code != EXIT_FINE || quant_chosen(q)
               ? code
               : tool_error(q->o, EXIT_DATA, "%s: no node's weight has steps in the checkpoint", q->o->words[0]);
}
