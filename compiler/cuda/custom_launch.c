/* SPDX-License-Identifier: Apache-2.0 */
/*
 * custom_launch.c - calls of custom operators that a device runs become launches: of kernels that have no loop nest of
 * ours, but a few lines of CUDA C++ around the user's device code (tccc_custom.h), in which what is known of the call
 * are constants. Calls that differ in nothing share a kernel.
 */
#include "base/format.h"
#include "compiler/custom_int.h"
#include "runtime/tccc_custom.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

struct writer {
    struct ir_ctx *ctx;
    struct kn_program *p;
    VEC(struct kn_kernel *) kernels;
    /* of the call being written */
    const char *text;
    VEC(ir_expr) sizes;
    bool ok;
};

static void put(struct writer *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void put(struct writer *w, const char *format, ...)
{
    FORMATTED(line, 512, format);
    w->text = ir_internf(w->ctx, "%s%s", w->text, line);
}

/* A C string; attributes' names and values are the model's author's. */
static const char *quoted(struct ir_ctx *ctx, const char *s)
{
    char *to = IR_NEWN(ctx, 4 * strlen(s) + 3, char), *at = to;
    *at++ = '"';
    for (; *s; s++)
        if (isalnum((unsigned char)*s) || *s == '_' || *s == ' ')
            *at++ = *s;
        else
            at += sprintf(at, "\\%03o", (unsigned char)*s);
    *at++ = '"';
    return to;
}

static const char *number(struct ir_ctx *ctx, double v)
{
    return isnan(v)   ? "__longlong_as_double(0x7ff8000000000000LL)"
           : isinf(v) ? v < 0 ? "(-1e308 * 10)" : "(1e308 * 10)"
                      : ir_internf(ctx, "%.17g", v);
}

/* Constants by name: name == "a" ? 1 : name == "b" ? 2 : otherwise. */
static void put_attrs(struct writer *w, const struct kn_step *s)
{
    const struct ir_attr *a = s->attrs;
    put(w, "    static __device__ constexpr long long attr_count(const char *name) { return ");
    for (int i = 0; i < s->nattrs; i++)
        put(w, "tccc_same(name, %s) ? %d : ", quoted(w->ctx, a[i].name),
            a[i].kind == IR_A_INTS || a[i].kind == IR_A_FLOATS ? a[i].n : 1);
    put(w, "0; }\n    static __device__ constexpr long long attr_ints(const char *name, long long i, long long "
           "otherwise) { return ");
    for (int i = 0; i < s->nattrs; i++) {
        int n = a[i].kind == IR_A_INTS ? a[i].n : a[i].kind == IR_A_INT;
        for (int k = 0; k < n; k++)
            put(w, "i == %d && tccc_same(name, %s) ? %lldLL : ", k, quoted(w->ctx, a[i].name),
                (long long)(a[i].kind == IR_A_INT ? a[i].i : a[i].ints[k]));
    }
    put(w, "otherwise; }\n    static __device__ constexpr double attr_floats(const char *name, long long i, double "
           "otherwise) { return ");
    for (int i = 0; i < s->nattrs; i++) {
        int n = a[i].kind == IR_A_FLOATS ? a[i].n : a[i].kind == IR_A_FLOAT;
        for (int k = 0; k < n; k++)
            put(w, "i == %d && tccc_same(name, %s) ? %s : ", k, quoted(w->ctx, a[i].name),
                number(w->ctx, a[i].kind == IR_A_FLOAT ? a[i].f : a[i].floats[k]));
    }
    put(w, "otherwise; }\n"
           "    static __device__ constexpr long long attr_int(const char *name, long long otherwise) { return "
           "attr_ints(name, 0, otherwise); }\n"
           "    static __device__ constexpr double attr_float(const char *name, double otherwise) { return "
           "attr_floats(name, 0, otherwise); }\n");
}

static int size_number(struct writer *w, ir_expr e)
{
    for (int i = 0; i < w->sizes.n; i++)
        if (w->sizes.at[i] == e)
            return i;
    VEC_PUSH(w->ctx, w->sizes, e);
    return w->sizes.n - 1;
}

/* "    c.in[0] = ...": what the call knows of an argument. */
static void put_tensor(struct writer *w, const char *list, int i, int parameter, ir_type t)
{
    put(w, "    c.%s[%d].data = a%d; c.%s[%d].dtype = %d; c.%s[%d].rank = %d;\n", list, i, parameter, list, i,
        (int)t->dtype, list, i, t->rank);
    const char *product = "1LL";
    for (int d = 0; d < t->rank; d++) {
        int64_t v;
        const char *dim = ir_is_const(t->dim[d], &v) ? ir_internf(w->ctx, "%lldLL", (long long)v)
                                                     : ir_internf(w->ctx, "s%d", size_number(w, t->dim[d]));
        put(w, "    c.%s[%d].dims[%d] = %s;\n", list, i, d, dim);
        product = ir_internf(w->ctx, "%s * %s", product, dim);
    }
    put(w, "    c.%s[%d].elements = %s;\n", list, i, product);
}

/* The text of a call, in which @ stands for the kernel's name. */
static void write_call(struct writer *w, const struct ir_custom *x, const struct kn_step *s)
{
    int nout = s->nargs - s->nin, parameters = 0;
    const char *body;
    w->text = "";
    w->sizes.n = 0;
    for (int a = 0; a < s->nargs; a++) {
        const char *list = a < s->nin ? "in" : "out";
        int i = a < s->nin ? a : a - s->nin;
        if (s->args[a] < 0)
            put(w, "    c.%s[%d].data = 0; c.%s[%d].dtype = 0; c.%s[%d].rank = 0; c.%s[%d].elements = 0;\n", list, i,
                list, i, list, i, list, i);
        else
            put_tensor(w, list, i, parameters++, w->p->buffers[s->args[a]].type);
    }
    body = w->text;
    w->text = "";
    put(w, "struct @_call {\n    static constexpr int nin = %d, nout = %d;\n    tccc_cuda_tensor in[%d], out[%d];\n",
        s->nin, nout, s->nin ? s->nin : 1, nout ? nout : 1);
    put_attrs(w, s);
    put(w, "};\nextern \"C\" __global__ void __launch_bounds__(%d) @(", x->device->cuda.block);
    for (int i = 0; i < parameters; i++)
        put(w, "void *a%d, ", i);
    for (int i = 0; i < w->sizes.n; i++)
        put(w, "long long s%d, ", i);
    put(w, "void *, void *, long long, const long long *values)\n{\n    @_call c;\n");
    for (int i = 0; i < w->sizes.n; i++) /* of a program that serves several sizes: numbers of them (abi.h) */
        put(w, "    if (values)\n        s%d = values[s%d];\n", i, i);
    put(w, "    (void)values;\n");
    w->text = ir_internf(w->ctx, "%s%s    tccc_cuda_op_%s(c);\n}\n", w->text, body, strrchr(x->name, ':') + 1);
    if (tcc_launch_has_table((uint64_t)parameters, (uint64_t)w->sizes.n)) {
        ir_error(w->ctx, NULL,
                 "custom operator '%s' has %d operands and results; %u bytes of parameters are what a launch takes",
                 x->name, parameters, TCC_LAUNCH_BYTES);
        w->ok = false;
    }
}

static struct kn_kernel *kernel_of(struct writer *w, const struct ir_custom *x, const struct kn_step *s)
{
    write_call(w, x, s);
    for (int i = w->p->nkernels; i < w->kernels.n; i++)
        if (!strcmp(w->kernels.at[i]->custom->text, w->text))
            return w->kernels.at[i];
    struct kn_custom *custom = IR_NEW(w->ctx, struct kn_custom);
    struct kn_kernel *k = IR_NEW(w->ctx, struct kn_kernel);
    *custom = (struct kn_custom){.file = custom_device_file(x),
                                 .text = w->text,
                                 .block = x->device->cuda.block,
                                 .rows = x->device->cuda.rows != 0,
                                 .shared = x->device->cuda.shared};
    *k = (struct kn_kernel){.name = ir_internf(w->ctx, "custom_%s_%d", strrchr(x->name, ':') + 1, w->kernels.n),
                            .kind = IR_K_LIBRARY,
                            .id = w->kernels.n,
                            .custom = custom,
                            .operands = IR_NEWN(w->ctx, s->nargs + 1, struct kn_operand),
                            .nsizes = w->sizes.n,
                            .sizes = IR_NEWN(w->ctx, w->sizes.n + 1, ir_expr),
                            .flops = ir_const(w->ctx, 0)};
    for (int a = 0; a < s->nargs; a++)
        if (s->args[a] >= 0)
            k->operands[k->noperands++] =
                (struct kn_operand){.use = a < s->nin ? KN_IN : KN_OUT, .dtype = w->p->buffers[s->args[a]].dtype};
    for (int i = 0; i < w->sizes.n; i++)
        k->sizes[i] = ir_sym(w->ctx, ir_internf(w->ctx, "size %d of the call", i));
    VEC_PUSH(w->ctx, w->kernels, k);
    return k;
}

static ir_expr units(struct writer *w, const struct kn_custom *c, const struct kn_step *s)
{
    ir_type t = w->p->buffers[s->args[s->nin]].type;
    ir_expr n = ir_const(w->ctx, 1);
    for (int d = 0; d < t->rank - (c->rows && t->rank > 0); d++)
        n = ir_mul(w->ctx, n, t->dim[d]);
    return n;
}

static void launch(struct writer *w, struct kn_step *s, const struct ir_custom *x)
{
    s->kernel = kernel_of(w, x, s);
    s->tiles = units(w, s->kernel->custom, s);
    s->nsizes = w->sizes.n;
    s->sizes = IR_NEWN(w->ctx, w->sizes.n + 1, ir_expr);
    if (w->sizes.n)
        memcpy(s->sizes, w->sizes.at, (size_t)w->sizes.n * sizeof *s->sizes);
    int n = 0;
    for (int a = 0; a < s->nargs; a++)
        if (s->args[a] >= 0)
            s->args[n++] = s->args[a];
    s->nargs = n;
    s->nin = s->nattrs = 0;
    s->kind = TCC_STEP_LAUNCH;
    s->lib = NULL;
}

static void walk(struct writer *w, struct kn_steps *steps)
{
    for (int i = 0; i < steps->n; i++) {
        struct kn_step *s = &steps->at[i];
        for (int r = 0; r < s->nregions; r++)
            walk(w, &s->regions[r].steps);
        const struct ir_custom *x = s->kind == TCC_STEP_LIB ? ir_custom_find(w->ctx, s->lib) : NULL;
        if (x && x->device && w->p->nqueues && w->p->queues[s->queue].memory)
            launch(w, s, x);
    }
}

const char *custom_text(struct ir_ctx *ctx, const struct kn_custom *c, const char *name)
{
    const char *text = "", *from = c->text;
    for (const char *at; (at = strchr(from, '@')); from = at + 1)
        text = ir_internf(ctx, "%s%.*s%s", text, (int)(at - from), from, name);
    return ir_internf(ctx, "%s%s", text, from);
}

bool custom_launches(struct ir_ctx *ctx, struct kn_program *p)
{
    struct writer w = {.ctx = ctx, .p = p, .ok = true};
    if (!ir_customs(ctx))
        return true;
    for (int i = 0; i < p->nkernels; i++)
        VEC_PUSH(ctx, w.kernels, p->kernels[i]);
    for (int e = 0; e < p->nentries; e++)
        walk(&w, &p->entries[e].steps);
    VEC_GIVE(w.kernels, p->kernels, p->nkernels);
    return w.ok;
}
