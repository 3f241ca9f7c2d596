/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tccc --info MODEL: what a model is, before anything is compiled: its entry points with types and sizes, the operators
 * of the source, parameters and state, and the memory that values take at most: those alive at once in the graph's
 * order, none of them fused away or shared. Sizes that are open count as 1 there, and it is said.
 */
#include "compiler/import/frontend.h"
#include "ir/ir.h"
#include "tools/run/model_int.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_OPS = 1024, MOST_DIMS = 64 };

struct counted {
    const char *name;
    int64_t n;
};

struct info {
    struct counted ops[MOST_OPS];
    int nops;
    int64_t nodes;
    const char *dims[MOST_DIMS]; /* sizes that are open */
    int ndims;
    int64_t constants, constant_values, constant_bytes, params, param_values, param_bytes, states, state_bytes;
    double peak; /* bytes of values alive at once */
};

/* -- Counting --------------------------------------------------------------------------------------------- */

static void count_op(struct info *x, const char *op)
{
    int i = 0;

    while (i < x->nops && strcmp(x->ops[i].name, op))
        i++;
    if (i == MOST_OPS)
        return;
    if (i == x->nops)
        x->ops[x->nops++] = (struct counted){op, 0};
    x->ops[i].n++;
    x->nodes++;
}

static void count_block(struct info *x, const struct ir_block *b)
{
    const char *before = NULL;

    IR_EACH_NODE(n, b) {
        const struct ir_op_info *row = ir_op_info(n->op);
        const struct ir_attr *value = n->op == IR_constant ? ir_attr(n, IR_ATTR_value) : NULL;
        bool source = row->kind == IR_K_SOURCE || (row->flags & IR_F_TERMINATOR);
        /* A node of the source that was built as several is one: they stand together. */
        bool again = before && n->where.op && n->where.node && !strcmp(before, n->where.node);
        before = n->where.node;
        if (!source && !again)
            count_op(x, n->where.op ? n->where.op : row->name);
        if (value && (!n->where.op || !strcmp(n->where.op, "Constant"))) { /* none that an importer made */
            x->constants++;
            x->constant_values += value->t->nelems;
            x->constant_bytes += value->t->nelems * tcc_dtype_bytes((enum tcc_dtype)value->t->dtype);
        }
        for (int r = 0; r < n->nregions; r++)
            count_block(x, n->regions[r]);
    }
}

static void count_states(struct info *x, const struct ir_module *m)
{
    for (const struct ir_state *s = m->states; s; s = s->next) {
        int64_t dims[TCC_MAX_RANK], n = ir_static_dims(s->type, dims) ? tcc_elements(s->type->rank, dims) : 0,
                                    bytes = n * tcc_dtype_bytes((enum tcc_dtype)s->type->dtype);
        bool param = (s->flags & IR_STATE_PARAM) != 0;
        *(param ? &x->params : &x->states) += 1;
        *(param ? &x->param_bytes : &x->state_bytes) += bytes;
        x->param_values += param ? n : 0;
    }
}

static void note_size(void *user, ir_expr sym)
{
    struct info *x = user;
    int i = 0;

    while (i < x->ndims && strcmp(x->dims[i], sym->name))
        i++;
    if (i == x->ndims && i < MOST_DIMS)
        x->dims[x->ndims++] = sym->name;
}

/* -- Memory ----------------------------------------------------------------------------------------------- */

static bool one(void *user, ir_expr sym, int64_t *out)
{
    (void)user, (void)sym;
    *out = 1;
    return true;
}

static double value_bytes(const struct ir_value *v)
{
    double n = ir_is_tensor(v->type) ? tcc_dtype_bytes((enum tcc_dtype)v->type->dtype) : 0;

    for (int i = 0; n > 0 && i < v->type->rank; i++) {
        int64_t dim = 1;
        ir_eval(v->type->dim[i], one, NULL, &dim);
        n *= (double)dim;
    }
    return n;
}

/* Numbers of nodes in the order in which they end; of a node with regions: behind those. */
static int number_nodes(const struct ir_block *b, int *at, int next)
{
    IR_EACH_NODE(n, b) {
        for (int r = 0; r < n->nregions; r++)
            next = number_nodes(n->regions[r], at, next);
        at[n->id] = next++;
    }
    return next;
}

static void live(const struct ir_value *v, const int *at, int from, double *change)
{
    int last = from;

    for (const struct ir_use *u = v->uses; u; u = u->next)
        last = at[u->user->id] > last ? at[u->user->id] : last;
    change[from] += value_bytes(v);
    change[last + 1] -= value_bytes(v);
}

static void live_block(const struct ir_block *b, const int *at, double *change)
{
    for (int i = 0; i < b->nparams; i++)
        live(b->params[i], at, b->first ? at[b->first->id] : 0, change);
    IR_EACH_NODE(n, b) {
        for (int k = 0; k < n->nout && n->op != IR_constant; k++)
            live(n->out[k], at, at[n->id], change);
        for (int r = 0; r < n->nregions; r++)
            live_block(n->regions[r], at, change);
    }
}

static bool find_peak(struct info *x, const struct ir_func *f)
{
    int *at = calloc((size_t)f->nnodes + 1, sizeof *at);
    double *change = calloc((size_t)f->nnodes + 2, sizeof *change), now = 0;
    bool ok = at && change;

    if (ok) {
        number_nodes(f->body, at, 0);
        live_block(f->body, at, change);
    }
    for (uint32_t i = 0; ok && i <= f->nnodes; i++) {
        now += change[i];
        x->peak = now > x->peak ? now : x->peak;
    }
    free(at);
    free(change);
    return ok;
}

/* -- What is said ------------------------------------------------------------------------------------------ */

static int by_count(const void *a, const void *b)
{
    const struct counted *x = a, *y = b;
    return x->n != y->n ? (x->n < y->n ? 1 : -1) : strcmp(x->name, y->name);
}

static json_t *value_of(struct info *x, const struct ir_func *f, const char *name, ir_type t)
{
    const struct ir_labels *labels = ir_labels_of(f->module, name ? name : "");
    json_t *list = labels ? json_array() : NULL;

    for (int i = 0; t->kind == IR_T_TENSOR && i < t->rank; i++)
        ir_each_sym(t->dim[i], note_size, x);
    for (int i = 0; labels && i < labels->n; i++)
        json_array_append_new(list, json_string(ir_shown(labels->at[i])));
    return json_pack("{s:s, s:s, s:o*}", "name", ir_shown(name ? name : ""), "type",
                     ir_shown(ir_type_text(f->module->ctx, t)), "labels", list);
}

static json_t *entry_of(struct info *x, struct ir_ctx *ctx, const struct ir_func *f)
{
    json_t *in = json_array(), *out = json_array();

    for (int i = 0; i < f->body->nparams; i++)
        json_array_append_new(
            in, value_of(x, f, f->input_names[i], f->version ? f->version->inputs[i] : f->body->params[i]->type));
    for (int i = 0; i < f->body->last->nin; i++)
        json_array_append_new(out, value_of(x, f, ir_output_name(f, i), ir_entry_result(f, i, ir_sym(ctx, "?"))));
    return json_pack("{s:s, s:o, s:o}", "name", ir_shown(ir_entry_name(f)), "inputs", in, "outputs", out);
}

static bool first_version(const struct ir_module *m, const struct ir_func *f)
{
    for (const struct ir_func *g = m->funcs; g != f; g = g->next)
        if (!strcmp(ir_entry_name(g), ir_entry_name(f)))
            return false;
    return true;
}

static json_t *describe(struct info *x, const struct ir_module *m)
{
    json_t *entries = json_array(), *ops = json_object(), *sizes = json_array();

    for (const struct ir_func *f = m->funcs; f; f = f->next) {
        if (!first_version(m, f))
            continue;
        json_array_append_new(entries, entry_of(x, m->ctx, f));
        count_block(x, f->body);
        if (!find_peak(x, f))
            return NULL;
    }
    count_states(x, m);
    if (x->nops)
        qsort(x->ops, (size_t)x->nops, sizeof *x->ops, by_count);
    for (int i = 0; i < x->nops; i++)
        json_object_set_new(ops, ir_shown(x->ops[i].name), json_integer(x->ops[i].n));
    for (int i = 0; i < x->ndims; i++)
        json_array_append_new(sizes, json_string(ir_shown(x->dims[i])));
    json_t *memory =
        json_pack("{s:I, s:I}", "weights", (json_int_t)(x->constant_bytes + x->param_bytes + x->state_bytes), "values",
                  (json_int_t)x->peak);
    json_t *params = json_pack("{s:I, s:I, s:I, s:I, s:I}", "tensors", (json_int_t)(x->constants + x->params),
                               "numbers", (json_int_t)(x->constant_values + x->param_values), "bytes",
                               (json_int_t)(x->constant_bytes + x->param_bytes), "states", (json_int_t)x->states,
                               "state_bytes", (json_int_t)x->state_bytes);
    return json_pack("{s:o, s:o, s:I, s:o, s:o, s:o}", "entries", entries, "sizes", sizes, "nodes",
                     (json_int_t)x->nodes, "operators", ops, "parameters", params, "memory", memory);
}

static const char *bytes_text(double n, char *to)
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    int k = 0;

    for (; n >= 1024 && k < 4; k++)
        n /= 1024;
    snprintf(to, 40, k ? "%.1f %s" : "%.0f %s", n, units[k]);
    return to;
}

static void print_values(const json_t *list)
{
    const json_t *v, *label;
    size_t i, k;

    json_array_foreach(list, i, v)
    {
        printf("%s%s: %s", i ? ", " : "", json_string_value(json_object_get(v, "name")),
               json_string_value(json_object_get(v, "type")));
        json_array_foreach(json_object_get(v, "labels"), k, label)
            printf("%s%s", k ? ", " : " of ", json_string_value(label));
    }
}

static void print_text(const struct info *x, const json_t *root)
{
    char a[40], b[40];
    const json_t *e;
    size_t i;

    json_array_foreach(json_object_get(root, "entries"), i, e)
    {
        printf("%s(", json_string_value(json_object_get(e, "name")));
        print_values(json_object_get(e, "inputs"));
        printf(") -> (");
        print_values(json_object_get(e, "outputs"));
        printf(")\n");
    }
    printf("sizes: %s", x->ndims ? "" : "all fixed");
    for (int k = 0; k < x->ndims; k++)
        printf("%s%s", k ? ", " : "", ir_shown(x->dims[k]));
    printf("%s\noperators: %" PRId64, x->ndims ? " (open; --dim NAME=N fixes one)" : "", x->nodes);
    for (int k = 0; k < x->nops; k++)
        printf("%s%" PRId64 " %s", k ? ", " : ": ", x->ops[k].n, ir_shown(x->ops[k].name));
    printf("\nparameters: %" PRId64 " numbers in %" PRId64 " tensors, %s\n", x->constant_values + x->param_values,
           x->constants + x->params, bytes_text((double)(x->constant_bytes + x->param_bytes), a));
    if (x->states)
        printf("state: %" PRId64 " variables, %s\n", x->states, bytes_text((double)x->state_bytes, a));
    printf("memory: %s of weights and state, at most %s of values at once%s\n",
           bytes_text((double)(x->constant_bytes + x->param_bytes + x->state_bytes), a), bytes_text(x->peak, b),
           x->ndims ? ", with every open size 1" : "");
}

int info_print(const struct options *o)
{
    struct model m = {0};
    struct info *x = calloc(1, sizeof *x);
    int code = x ? model_open_interpreted(o, o->words[0], &m) : tool_error(o, EXIT_ENVIRONMENT, "no memory");
    struct ir_protect frame;
    json_t *volatile root = NULL;

    if (code == EXIT_FINE && IR_PROTECT(m.ctx, &frame)) {
        root = describe(x, m.module);
        ir_unprotect(m.ctx);
    }
    if (code == EXIT_FINE && !root)
        code = tool_error(o, EXIT_ENVIRONMENT, "no memory");
    else if (code == EXIT_FINE && option_set(o, OPT_json))
        json_dumpf(root, stdout, JSON_INDENT(1) | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(15)), putchar('\n');
    else if (code == EXIT_FINE)
        print_text(x, root);
    if (code == EXIT_FINE && fflush(stdout) != 0)
        code = tool_error(o, EXIT_ENVIRONMENT, "cannot write standard output: %m");
    json_decref(root);
    model_close(&m);
    free(x);
    return code;
}
