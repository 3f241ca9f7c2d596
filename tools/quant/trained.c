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

/* One for each output of this weight. Of two that read it along different axes, steps are one's. */
static bool are_along(const struct quant *q, const struct tccrt_named *x, const struct quant_weight *w)
{
    const struct onnx_tensor *t = &q->tensors[w->tensor];

    for (int i = 0; i < t->rank; i++)
        if (x->t.rank != t->rank || x->t.dims[i] != (i == w->axis ? w->n : 1))
            return false;
    return true;
}

/* The entry @calibrate has run, of which bits? 0: none has. */
static int bits_of(const struct tensors *t)
{
    static const int bits[] = {4, 8};

    for (size_t i = 0; i < sizeof bits / sizeof *bits; i++) {
        char name[16];
        snprintf(name, sizeof name, "qat.int%d", bits[i]);
        const struct tccrt_named *x = tccrt_tensors_parameter(t->n, t->at, name);
        if (x && x->t.dtype == TCC_I64 && !x->t.rank && *(const int64_t *)x->t.data == 1)
            return bits[i];
    }
    return 0;
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
    if (!(q->trained_bits = bits_of(&t)))
        return tool_error(q->o, EXIT_DATA, "%s: it has no steps: it is no checkpoint of tccc-train --qat", path);
    code = onnx_export(q->o, &t, q->path, own, &replaced);
    q->path = own;
    return code;
}

/* The step of a value: what the first node has that reads it. A weight's second input is called :2, and so on. */
static int mark_input(struct quant *q, const struct quant_node *n, const char *param)
{
    struct quant_value *own = &q->values[n->in[0]], *v = own, *weight = &q->values[n->in[1]];

    while (v->producer >= 0 && !strcmp(q->nodes[v->producer].op, "Identity") && q->nodes[v->producer].in[0] >= 0)
        v = &q->values[q->nodes[v->producer].in[0]];
    if (!(v->step > 0)) {
        const char *name = weight->inputs++ ? ir_internf(q->ctx, "%s:%d", param, weight->inputs) : param;
        const struct tccrt_named *step = part_of(q, name, "input_step"), *zero = part_of(q, name, "input_zero");
        if (!step)
            return EXIT_FINE;
        if (!has(step, 1) || !has(zero, 1))
            return tool_error(q->o, EXIT_DATA, "%s: the steps of the inputs of '%s' in the checkpoint are no numbers",
                              quant_shown(q), param);
        v->step = step_at(step, 0);
        v->zero = (int)fminf(fmaxf(nearbyintf(number(zero, 0)), 0), 255);
    }
    own->step = v->step;
    own->zero = v->zero;
    return EXIT_FINE;
}

/* The node's steps, and its input's. */
static int mark(struct quant *q, struct quant_node *n)
{
    struct quant_weight w;
    const struct tccrt_named *steps;

    if (!quant_weight_of(q, n, &w))
        return EXIT_FINE;
    const char *param = quant_value_name(q, n->in[1]);
    if (!(steps = part_of(q, param, "step")))
        return EXIT_FINE;
    if (!has(steps, w.n) && !has(steps, w.k))
        return tool_error(q->o, EXIT_DATA, "%s: the steps of '%s' in the checkpoint are not those of its %lld outputs",
                          quant_shown(q), param, (long long)w.n);
    if (!are_along(q, steps, &w))
        return EXIT_FINE;
    n->steps = IR_NEWN(q->ctx, w.n + 1, float);
    for (int64_t i = 0; i < w.n; i++)
        n->steps[i] = step_at(steps, i);
    return mark_input(q, n, param);
}

static bool is_marked(const struct quant *q, const struct quant_node *n)
{
    return n->steps && q->values[n->in[0]].step > 0;
}

/* Steps that no node has taken: the graph reads those weights in another way. */
static void tell_left(const struct quant *q)
{
    for (int i = 0; i < q->trained->n; i++) {
        const char *name = q->trained->at[i].name;
        bool taken = strncmp(name, "qat.step.", 9) != 0;
        for (int k = 0; k < q->nnodes && !taken; k++)
            taken = is_marked(q, &q->nodes[k]) &&
                    part_of(q, quant_value_name(q, q->nodes[k].in[1]), "step") == &q->trained->at[i];
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
        code = mark(q, &q->nodes[i]);
    for (int i = 0; i < q->nnodes && code == EXIT_FINE; i++)
        q->nodes[i].chosen &= is_marked(q, &q->nodes[i]);
    if (code == EXIT_FINE)
        tell_left(q);
    return code != EXIT_FINE || quant_chosen(q)
               ? code
               : tool_error(q->o, EXIT_DATA, "%s: no node's weight has steps in the checkpoint", quant_shown(q));
}
