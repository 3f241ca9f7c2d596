/* SPDX-License-Identifier: Apache-2.0 */
/* graph.c - the graph being recorded: its module, its inputs, ops by name, autocast. */
#include "compiler/trace/trace_int.h"

#include <stdlib.h>
#include <string.h>

/* -- The graph ------------------------------------------------------------------------------------------- */

static void begin(struct trace_ctx *c)
{
    struct trace_graph *g = &c->graph;
    g->module = ir_module_new(g->ctx, "trace");
    g->func = ir_func_new(g->module, "main");
    g->b = (struct ir_builder){.ctx = g->ctx, .func = g->func, .block = g->func->body};
}

/* The IR's first error from message number `first` on becomes the context's. */
static void note_errors(struct trace_ctx *c, int first)
{
    const struct ir_ctx *ctx = c->graph.ctx;
    for (int i = first; i < ir_nmessages(ctx); i++)
        if (ir_message(ctx, i)->severity >= IR_ERROR) {
            trace_fail(c, TCC_EINPUT, "%s", ir_message(ctx, i)->text);
            return;
        }
}

int trace_do(struct trace_ctx *c, trace_work *work, void *arg)
{
    struct ir_protect frame;
    if (c->status)
        return c->status;
    if (!c->graph.ctx && !(c->graph.ctx = ir_ctx_new()))
        return trace_no_memory(c);
    int messages = ir_nmessages(c->graph.ctx);
    if (IR_PROTECT(c->graph.ctx, &frame)) {
        if (!c->graph.module)
            begin(c);
        work(c, arg);
        note_errors(c, messages);
        if (c->mode == TRACE_EAGER && !c->status)
            trace_eager(c);
        ir_unprotect(c->graph.ctx);
    } else {
        trace_no_memory(c);
    }
    return c->status;
}

void trace_graph_drop(struct trace_ctx *c)
{
    struct trace_graph *g = &c->graph;
    for (int i = 0; i < g->ninputs; i++)
        trace_data_unref(g->inputs[i]);
    for (uint32_t i = 0; i < g->neager; i++)
        tccrt_object_unref(g->eager[i]);
    free(g->inputs);
    free(g->names);
    free(g->eager);
    ir_ctx_free(g->ctx);
    *g = (struct trace_graph){0};
    c->generation++;
}

static bool push_input(struct trace_ctx *c, struct trace_data *data, const char *name)
{
    struct trace_graph *g = &c->graph;
    if (g->ninputs == g->cap_inputs) {
        int cap = 2 * g->cap_inputs + 16;
        struct trace_data **inputs = realloc(g->inputs, (size_t)cap * sizeof *inputs);
        g->inputs = inputs ? inputs : g->inputs;
        const char **names = inputs ? realloc(g->names, (size_t)cap * sizeof *names) : NULL;
        g->names = names ? names : g->names;
        if (!names)
            return false;
        g->cap_inputs = cap;
    }
    g->names[g->ninputs] = name ? ir_intern(g->ctx, name) : NULL;
    g->inputs[g->ninputs] = trace_data_ref(data);
    data->generation = c->generation;
    data->input = g->ninputs++;
    data->alias = false;
    return true;
}

struct ir_value *trace_value(struct trace_tensor *t)
{
    struct trace_ctx *c = t->c;
    struct trace_graph *g = &c->graph;
    if (!trace_alive(t))
        return NULL;
    if (t->value && t->generation == c->generation)
        return t->value;
    if (!t->data)
        return trace_fail(c, TCC_EUSAGE, "tensor %s: it was part of a graph that has been run, and not retained",
                          t->name ? t->name : "without a name"),
               NULL;
    if (t->data->generation != c->generation) { /* two tensors may hold the same data */
        ir_type type = ir_tensor_type_i(g->ctx, (enum tcc_dtype)t->dtype, t->rank, t->dims);
        if (!push_input(c, t->data, t->name))
            return trace_no_memory(c), NULL;
        ir_input_new(g->func, type, ir_internf(g->ctx, "in%d", g->ninputs - 1));
    }
    t->value = g->func->body->params[t->data->input];
    t->generation = c->generation;
    return t->value;
}

/* -- Attributes ------------------------------------------------------------------------------------------- */

static const uint8_t kinds[] = {
#define ATTR(name, kind, doc) [IR_ATTR_##name] = IR_A_##kind,
#include "ir/attrs.def"
};

static enum ir_attr_key key_of(const struct ir_op_info *info, const char *name)
{
    for (const enum ir_attr_key *k = info->attrs; k && *k; k++)
        if (!strcmp(ir_attr_name(*k), name))
            return *k;
    return IR_ATTR_NONE;
}

static struct ir_attr exprs_attr(struct ir_ctx *ctx, enum ir_attr_key key, const struct tcc_attr *a)
{
    ir_expr *exprs = IR_NEWN(ctx, (size_t)a->n + 1, ir_expr);
    for (int i = 0; i < a->n; i++)
        exprs[i] = ir_const(ctx, a->ints[i]);
    return ir_attr_exprs(key, a->n, exprs);
}

static bool convert(struct ir_ctx *ctx, enum ir_attr_key key, const struct tcc_attr *a, struct ir_attr *out)
{
    bool ints = a->kind == TCC_ATTR_INTS, floats = a->kind == TCC_ATTR_FLOATS, one = a->n == 1, ok = false;
    switch (kinds[key]) {
    case IR_A_INT:
        if ((ok = ints && one))
            *out = ir_attr_i(key, a->ints[0]);
        return ok;
    case IR_A_DTYPE:
        if ((ok = ints && one && a->ints[0] > 0 && a->ints[0] < TCC_NDTYPES))
            *out = ir_attr_dtype(key, (enum tcc_dtype)a->ints[0]);
        return ok;
    case IR_A_INTS:
        if ((ok = ints))
            *out = ir_attr_ints(key, a->n, a->ints);
        return ok;
    case IR_A_EXPR:
        if ((ok = ints && one))
            *out = ir_attr_e(key, ir_const(ctx, a->ints[0]));
        return ok;
    case IR_A_EXPRS:
        if ((ok = ints))
            *out = exprs_attr(ctx, key, a);
        return ok;
    case IR_A_FLOAT:
        if ((ok = floats && one))
            *out = ir_attr_f(key, a->floats[0]);
        return ok;
    case IR_A_FLOATS:
        if ((ok = floats))
            *out = ir_attr_floats(key, a->n, a->floats);
        return ok;
    case IR_A_STRING:
        if ((ok = a->kind == TCC_ATTR_STRINGS && one))
            *out = ir_attr_s(key, ir_intern(ctx, a->strings[0]));
        return ok;
    default: return false;
    }
}

static bool attributes(struct trace_ctx *c, const struct ir_op_info *info, const struct tcc_attr *attrs,
                       struct ir_attr **out)
{
    struct ir_ctx *ctx = c->graph.ctx;
    int n = 0;
    while (attrs && attrs[n].name)
        n++;
    *out = IR_NEWN(ctx, (size_t)n + 1, struct ir_attr);
    for (int i = 0; i < n; i++) {
        enum ir_attr_key key = key_of(info, attrs[i].name);
        if (!key || !convert(ctx, key, &attrs[i], &(*out)[i])) {
            trace_fail(c, TCC_EUSAGE, "%s: attribute '%s' is unknown or has a value of another kind", info->name,
                       attrs[i].name);
            return false;
        }
    }
    return true;
}

/* -- Autocast ------------------------------------------------------------------------------------------------- */

int trace_autocast(struct trace_ctx *c, int dtype)
{
    int before = c->autocast;
    if (dtype == TCC_NONE || dtype == TCC_BF16 || dtype == TCC_F16)
        c->autocast = dtype;
    else
        trace_fail(c, TCC_EUSAGE, "autocast: the lower type is bf16 or f16");
    return before;
}

static bool castable(const struct ir_value *v)
{
    return v && (v->type->dtype == TCC_F32 || v->type->dtype == TCC_F16 || v->type->dtype == TCC_BF16);
}

/* The widest type of the operands; scalars count where there is nothing else. NONE: no floats. */
static enum tcc_dtype widest(int nin, struct ir_value *const *in)
{
    enum tcc_dtype to = TCC_NONE;
    for (int scalars = 0; scalars < 2 && to == TCC_NONE; scalars++)
        for (int i = 0; i < nin; i++)
            if (castable(in[i]) && (in[i]->type->rank == 0) == (scalars == 1)) {
                enum tcc_dtype d = (enum tcc_dtype)in[i]->type->dtype;
                to = to == TCC_NONE || to == d ? d : TCC_F32;
            }
    return to;
}

static bool keeps_types(enum ir_op op)
{
    enum ir_kind kind = ir_op_info(op)->kind;
    return op == IR_cast || kind == IR_K_RANDOM || kind == IR_K_SOURCE;
}

static void cast_operands(struct trace_ctx *c, enum ir_op op, int nin, struct ir_value **in)
{
    if (c->autocast == TCC_NONE || keeps_types(op))
        return;
    enum autocast_policy policy = autocast_policy_of(c->composite, op);
    enum tcc_dtype to = policy == AUTOCAST_LOWER     ? (enum tcc_dtype)c->autocast
                        : policy == AUTOCAST_FLOAT32 ? TCC_F32
                                                     : widest(nin, in);
    for (int i = 0; i < nin; i++)
        if (castable(in[i]))
            in[i] = ir_cast_to(&c->graph.b, in[i], to);
}

/* -- Ops ------------------------------------------------------------------------------------------------------ */

struct op_work {
    const char *name;
    int nin, nout;
    struct trace_tensor *const *in;
    const struct tcc_attr *attrs;
    struct trace_tensor **out;
};

static const struct ir_op_info *find_op(struct trace_ctx *c, const struct op_work *w, enum ir_op *op)
{
    *op = ir_op_by_name(w->name);
    const struct ir_op_info *info = *op ? ir_op_info(*op) : NULL;
    bool recordable = info && info->kind != IR_K_UPDATE && info->kind != IR_K_CONTROL && info->kind != IR_K_LIBRARY &&
                      *op != IR_constant;
    if (!recordable)
        trace_fail(c, TCC_EUSAGE, "unknown op '%s' to trace", w->name);
    else if (w->nin < info->nin_min || (info->nin_max >= 0 && w->nin > info->nin_max))
        trace_fail(c, TCC_EUSAGE, "%s: it does not have %d operands", w->name, w->nin);
    else if (w->nout != info->nout)
        trace_fail(c, TCC_EUSAGE, "%s: the number of its results is %d, not %d", w->name, info->nout, w->nout);
    else
        return info;
    return NULL;
}

/* What the IR says, and what it says it of: the op with its operands' types. */
static void op_failed(struct trace_ctx *c, const struct op_work *w, int first)
{
    char text[700] = "", type[256];
    size_t n = 0;
    const char *why = "the op cannot be built";
    for (int i = first; i < ir_nmessages(c->graph.ctx); i++)
        if (ir_message(c->graph.ctx, i)->severity >= IR_ERROR)
            why = ir_message(c->graph.ctx, i)->text;
    for (int i = 0; i < w->nin && n < sizeof text - 1; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%s", i ? ", " : "",
                              w->in[i] ? trace_type_text(w->in[i], type, sizeof type) : "none");
    size_t same = strlen(w->name);
    if (!strncmp(why, w->name, same) && why[same] == ':')
        why += same + 1 + (why[same + 1] == ' ');
    trace_fail(c, TCC_EINPUT, "%s(%s)%s%s: %s", w->name, text, c->source ? " of " : "", c->source ? c->source : "",
               why);
}

static void build_op(struct trace_ctx *c, void *arg)
{
    struct op_work *w = arg;
    struct trace_graph *g = &c->graph;
    struct ir_value **values = IR_NEWN(g->ctx, (size_t)w->nin + 1, struct ir_value *);
    struct ir_attr *converted;
    enum ir_op op;
    int messages = ir_nmessages(g->ctx);
    const struct ir_op_info *info = find_op(c, w, &op);
    if (!info)
        return;
    for (int i = 0; i < w->nin; i++)
        if (w->in[i] && !(values[i] = trace_value(w->in[i])))
            return;
    if (!attributes(c, info, w->attrs, &converted))
        return;
    g->b.where = trace_where(c, c->source);
    cast_operands(c, op, w->nin, values);
    struct ir_node *n = ir_build(&g->b, op, w->nin, values, converted);
    if (!n) {
        op_failed(c, w, messages);
        return;
    }
    if (info->kind == IR_K_RANDOM) { /* a session adds its seed; the interpreter only knows the node's */
        ir_set_attr(n, ir_attr_i(IR_ATTR_seed, c->mode == TRACE_EAGER ? (int64_t)c->seed : 0));
        ir_set_attr(n, ir_attr_i(IR_ATTR_stream, g->nrandom++));
    }
    for (int i = 0; i < w->nout; i++)
        if (!(w->out[i] = trace_tensor_of(c, n->out[i])))
            return;
}

int trace_op_many(struct trace_ctx *c, const char *name, int nin, struct trace_tensor *const *in,
                  const struct tcc_attr *attrs, int nout, struct trace_tensor **out)
{
    struct op_work w = {name, nin, nout, in, attrs, out};
    memset(out, 0, (size_t)nout * sizeof *out);
    for (int i = 0; i < nin; i++)
        if (in[i] && in[i]->c != c)
            return trace_fail(c, TCC_EUSAGE, "%s: operand %d is of another context", name, i);
    if (trace_do(c, build_op, &w))
        memset(out, 0, (size_t)nout * sizeof *out);
    return c->status;
}

struct trace_tensor *trace_op(struct trace_ctx *c, const char *name, int nin, struct trace_tensor *const *in,
                              const struct tcc_attr *attrs)
{
    struct trace_tensor *out;
    trace_op_many(c, name, nin, in, attrs, 1, &out);
    return out;
}
