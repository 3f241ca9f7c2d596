/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs: nodes in order, each by its row.
 *
 * A node that can't be imported is noted and its results are marked; nodes that read such a result are passed over, so
 * that one run finds all that is not supported.
 */
#include "compiler/pt2/pt2_int.h"

#include <stdlib.h>
#include <string.h>

/* -- Types */

static const char *size_text(const json_t *size)
{
    return js_string(js_object(size, "as_expr"), "expr_str");
}

ir_expr pt2_meta_size(struct pt2 *p, const json_t *size)
{
    int64_t v;
    const char *text = size_text(size);
    return js_size(size, &v) ? ir_const(p->ctx, v) : text ? pt2_symbols(p, text) : NULL;
}

ir_type pt2_meta_type(struct pt2 *p, const json_t *meta)
{
    ir_expr dims[TCC_MAX_RANK + 1];
    json_t *sizes = js_array(meta, "sizes");
    size_t rank = json_array_size(sizes);
    enum tcc_dtype d = pt2_held_type(meta);
    bool complex = pt2_meta_complex(meta);
    if (!sizes || d == TCC_NONE)
        return imp_unsupported(p->im, "a tensor of element type %lld of the schema",
                               (long long)js_int(meta, "dtype", 0)),
               NULL;
    if (rank + complex > TCC_MAX_RANK)
        return imp_unsupported(p->im, "a tensor with %zu dims; at most %d are supported", rank, TCC_MAX_RANK), NULL;
    if (js_int(meta, "layout", 7) != 7)
        return imp_unsupported(p->im, "a sparse tensor"), NULL;
    for (size_t k = 0; k < rank; k++) {
        const json_t *size = json_array_get(sizes, k);
        dims[k] = pt2_meta_size(p, size);
        if (!dims[k])
            return imp_unsupported(p->im, "a size written as %s",
                                   size_text(size) ? size_text(size) : "something unknown"),
                   NULL;
    }
    dims[rank] = ir_const(p->ctx, 2);
    return ir_tensor_type(p->ctx, d, (int)rank + complex, dims);
}

enum ir_tri pt2_row_major(struct pt2 *p, const json_t *meta)
{
    json_t *sizes = js_array(meta, "sizes"), *strides = js_array(meta, "strides");
    ir_expr step = ir_const(p->ctx, 1), one = step;
    enum ir_tri lies = IR_YES;
    if (!sizes || json_array_size(strides) != json_array_size(sizes))
        return IR_MAYBE;
    for (size_t k = json_array_size(sizes); k-- > 0;) {
        ir_expr size = pt2_meta_size(p, json_array_get(sizes, k)),
                stride = pt2_meta_size(p, json_array_get(strides, k));
        if (!size || !stride)
            return IR_MAYBE;
        enum ir_tri unit = ir_expr_eq(p->ctx, size, one), follows = ir_expr_eq(p->ctx, stride, step);
        if (unit == IR_NO && follows == IR_NO)
            return IR_NO;
        if (unit != IR_YES && follows != IR_YES)
            lies = IR_MAYBE;
        step = ir_mul(p->ctx, step, size);
    }
    return lies;
}

json_t *pt2_meta(struct pt2 *p, const char *name)
{
    return js_object(js_object(p->at.scope->graph, "tensor_values"), name);
}

/* -- Rows */

static const struct aten_row rows[] = {
#define CORE ATEN_CORE
#define VIEW ATEN_VIEW
#define GRAPHS ATEN_GRAPHS
#define STATISTICS ATEN_STATISTICS
#define PAIRS ATEN_PAIRS
#define SHARES ATEN_SHARES
#define COPIES ATEN_COPIES
#define KEEPS ATEN_KEEPS
#define PASSES ATEN_PASSES
#define CUTS ATEN_CUTS
#define STORAGE ATEN_STORAGE
#define CALLS ATEN_CALLS
#define LOWERS ATEN_LOWERS
#define ATEN(name, flags, function, arg) {name, flags, aten_##function, arg},
#include "compiler/pt2/aten.def"
#undef CORE
#undef VIEW
#undef GRAPHS
#undef STATISTICS
#undef PAIRS
#undef SHARES
#undef COPIES
#undef KEEPS
#undef PASSES
#undef CUTS
#undef STORAGE
#undef CALLS
#undef LOWERS
};

static const struct aten_row *find_row(const char *name, size_t n)
{
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        if (!strncmp(rows[k].name, name, n) && !rows[k].name[n])
            return &rows[k];
    }
    return NULL;
}

/* "torch.ops.aten.add.Tensor" is named add.Tensor or add; what is not ATen's keeps its namespace. */
const struct aten_row *pt2_row(const char *target)
{
    if (!strncmp(target, "torch.ops.", 10))
        target += 10;
    if (!strncmp(target, "aten.", 5))
        target += 5;
    const struct aten_row *row = find_row(target, strlen(target));
    const char *dot = strrchr(target, '.');
    return row || !dot ? row : find_row(target, (size_t)(dot - target));
}

/* The row of add.Tensor for add_.Tensor, of __or__ for __ior__. */
const struct aten_row *pt2_row_in_place(struct pt2 *p, const char *target)
{
    const char *dot = strrchr(target, '.');
    if (!dot || strncmp(target, "torch.ops.aten.", 15) || dot - target < 17 || dot[-1] != '_')
        return NULL;
    const char *name = target + 15;
    if (!strncmp(name, "__i", 3) && dot[-2] == '_')
        return pt2_row(ir_internf(p->ctx, "torch.ops.aten.__%s", name + 3));
    return dot[-2] == '_' ? NULL : pt2_row(ir_internf(p->ctx, "%.*s%s", (int)(dot - target) - 1, target, dot));
}

bool pt2_is_out_form(const char *target)
{
    const char *dot = strrchr(target, '.'), *end = target + strlen(target);
    return dot && !strncmp(target, "torch.ops.aten.", 15) &&
           (!strcmp(dot, ".out") || (end - dot > 4 && !strcmp(end - 4, "_out")));
}

/* -- Results */

/* Output k of the node: lists count by element. */
static json_t *output(const struct pt2 *p, int k)
{
    json_t *outputs = js_array(p->at.node, "outputs"), *value;
    for (size_t i = 0; i < json_array_size(outputs); i++) {
        json_t *o = json_array_get(outputs, i);
        js_union(o, &value);
        int n = json_is_array(value) ? (int)json_array_size(value) : 1;
        if (k < n)
            return json_is_array(value) ? json_array_get(value, (size_t)k) : o;
        k -= n;
    }
    return NULL;
}

const char *pt2_out_name(const struct pt2 *p, int k)
{
    json_t *o = output(p, k);
    const char *name = js_string(o, "name");
    return name ? name : o ? pt2_name_of(o) : NULL;
}

static int count_outputs(const struct pt2 *p)
{
    int n = 0;
    while (output(p, n))
        n++;
    return n;
}

int pt2_nouts(const struct pt2 *p)
{
    return p->nouts;
}

bool pt2_makes(const struct pt2 *p, int k)
{
    return !p->at.instead || p->at.instead_index == k;
}

/* The names that a part of the graph reads. */
static void add_names(struct pt2 *p, json_t *item, int depth)
{
    const char *key;
    json_t *value;
    size_t k;
    if (json_is_array(item) && depth < PT2_MAX_DEPTH) {
        json_array_foreach(item, k, value) add_names(p, value, depth + 1);
    } else if (json_is_object(item) && depth < PT2_MAX_DEPTH) {
        json_object_foreach(item, key, value)
        {
            if (json_is_string(value) && (!strcmp(key, "name") || !strcmp(key, "as_name")))
                VEC_PUSH(p->ctx, p->at.scope->used, ir_intern(p->ctx, json_string_value(value)));
            else
                add_names(p, value, depth + 1);
        }
    }
}

static int by_address(const void *a, const void *b)
{
    uintptr_t x = (uintptr_t) * (const char *const *)a, y = (uintptr_t) * (const char *const *)b;
    return (x > y) - (x < y);
}

/* Some results have names that say that they are unused; others are named, and nothing reads them. */
bool pt2_wants(struct pt2 *p, int k)
{
    const char *name = k < p->nouts ? pt2_out_name(p, k) : NULL, *key;
    struct pt2_scope *s = p->at.scope;
    json_t *nodes = js_array(s->graph, "nodes"), *node;
    size_t i;
    if (!s->used.n) {
        json_array_foreach(nodes, i, node) add_names(p, js_array(node, "inputs"), 0);
        add_names(p, js_array(s->graph, "outputs"), 0);
        if (s->used.n)
            qsort(s->used.at, (size_t)s->used.n, sizeof *s->used.at, by_address);
    }
    if (!name || !s->used.n)
        return false;
    key = ir_intern(p->ctx, name);
    return bsearch(&key, s->used.at, (size_t)s->used.n, sizeof key, by_address) != NULL;
}

enum tcc_dtype pt2_out_type(struct pt2 *p, int k)
{
    const char *name = pt2_out_name(p, k);
    json_t *meta = name ? pt2_meta(p, name) : NULL;
    return meta ? pt2_held_type(meta) : TCC_NONE;
}

/* What is built must be what the archive records, as far as that can be told now. */
static bool as_recorded(struct pt2 *p, int k, const struct ir_value *v)
{
    const char *name = pt2_out_name(p, k);
    json_t *sizes = name ? js_array(pt2_meta(p, name), "sizes") : NULL;
    int rank = imp_rank(v) - (p->part[0] == PT2_WHOLE && pt2_out_complex(p, k));
    bool same = !sizes || (int)json_array_size(sizes) == rank;
    for (int i = 0; sizes && same && i < rank; i++) {
        int64_t recorded, built;
        if (js_size(json_array_get(sizes, (size_t)i), &recorded) && ir_is_const(imp_dim(v, i), &built))
            same = recorded == built;
    }
    if (same)
        return true;
    char *text = json_dumps(sizes, JSON_COMPACT | JSON_ENCODE_ANY);
    imp_bad(p->im, "result %d is %s, but the archive records sizes %.200s", k, ir_type_text(p->ctx, v->type),
            text ? text : "");
    free(text);
    return false;
}

bool pt2_out(struct pt2 *p, int k, struct ir_value *v)
{
    if (!v)
        return false;
    if (k >= p->nouts)
        return true;
    enum tcc_dtype d = pt2_out_type(p, k);
    if (!p->at.instead && d != TCC_NONE && ir_is_tensor(v->type))
        v = imp_cast(p->im, v, d);
    if (!v || (!p->at.instead && ir_is_tensor(v->type) && !as_recorded(p, k, v)))
        return false;
    p->at.outs[k] = v;
    return true;
}

bool pt2_out_e(struct pt2 *p, int k, ir_expr e)
{
    if (e && k < p->nouts)
        p->at.out_exprs[k] = e;
    return e != NULL;
}

/* -- Nodes */

static const char *target_of(const json_t *node)
{
    const char *target = js_string(node, "target");
    return target ? target : "";
}

static struct ir_where where_of(struct pt2 *p, const json_t *node)
{
    const char *target = target_of(node), *name = js_string(node, "name");
    if (!strncmp(target, "torch.ops.", 10))
        target += 10;
    if (!name)
        name = pt2_out_name(p, 0);
    return (struct ir_where){.file = p->archive->where.file,
                             .node = ir_intern(p->ctx, name ? name : target),
                             .op = ir_intern(p->ctx, target)};
}

/* The names of arguments that the function did not ask for; some say where or how a result lies, which nothing here
 * asks. */
static const char *unasked(struct pt2 *p)
{
    static const char *const placed[] = {"device",       "layout",    "pin_memory",  "memory_format",
                                         "non_blocking", "generator", "is_coalesced"};
    json_t *inputs = js_array(p->at.node, "inputs"), *value;
    for (size_t k = 0; k < json_array_size(inputs) && k < 256; k++) {
        json_t *input = json_array_get(inputs, k);
        const char *name = js_string(input, "name"), *kind = js_union(json_object_get(input, "arg"), &value);
        bool fine = p->asked[k / 64] >> k % 64 & 1 || !name || !kind || !strcmp(kind, "as_none") ||
                    (p->at.writes && !strcmp(name, "out"));
        for (size_t i = 0; i < sizeof placed / sizeof *placed && !fine; i++)
            fine = !strcmp(name, placed[i]);
        if (!fine)
            return name;
    }
    return NULL;
}

bool pt2_build(struct pt2 *p, const struct aten_row *row, json_t *node, int nouts)
{
    struct imp *im = p->im;
    json_t *outer_node = p->at.node;
    const struct aten_row *outer_row = p->row;
    int outer_nouts = p->nouts;
    uint64_t outer_asked[4];
    struct ir_where where = im->b.where;
    int refusals = im->refusals.n, errors = ir_nerrors(p->ctx);
    memcpy(outer_asked, p->asked, sizeof outer_asked);
    p->at.node = node;
    p->row = row;
    p->nouts = nouts;
    memset(p->asked, 0, sizeof p->asked);
    im->b.where = where_of(p, node);
    im->refused = false;
    pt2_note_signs(p);
    bool fine = !(row->flags & ATEN_PAIRS) && (pt2_reads_complex(p) || pt2_out_complex(p, 0))
                    ? pt2_complex_build(p, row)
                    : row->build(p);
    const char *rest = fine && !p->at.instead ? unasked(p) : NULL;
    if (rest)
        fine = imp_unsupported(im, "argument '%s'", rest);
    if (!fine && !im->again && im->refusals.n == refusals && ir_nerrors(p->ctx) == errors)
        imp_unsupported(im, "these operands");
    fine = fine && im->refusals.n == refusals && ir_nerrors(p->ctx) == errors;
    im->b.where = where;
    im->refused = false;
    p->at.node = outer_node;
    p->row = outer_row;
    p->nouts = outer_nouts;
    memcpy(p->asked, outer_asked, sizeof p->asked);
    return fine;
}

/* Does the node read a refused result? Graphs among its arguments are looked at when they are imported. */
static bool reads_refused(struct pt2 *p, json_t *item, int depth)
{
    const char *key;
    json_t *value;
    size_t k;
    bool found = false;
    if (depth > 16)
        return false;
    if (json_is_array(item)) {
        json_array_foreach(item, k, value) found = found || reads_refused(p, value, depth + 1);
    } else if (json_is_object(item)) {
        json_object_foreach(item, key, value)
        {
            struct pt2_value *v = json_is_string(value) && (!strcmp(key, "name") || !strcmp(key, "as_name"))
                                      ? pt2_lookup(p, json_string_value(value))
                                      : NULL;
            found = found || (v && v->refused) || (strcmp(key, "graph") && reads_refused(p, value, depth + 1));
        }
    }
    return found;
}

/* Why an op of ATen (NAME.OVERLOAD) has no row; NULL: not known. */
static const char *absent_words(struct pt2 *p, const char *op)
{
    static const struct imp_saying absent[] = {
#define ABSENT(patterns, words) {patterns, words},
#include "compiler/pt2/absent.def"
    };
    const char *name = ir_internf(p->ctx, "%.*s", (int)strcspn(op, "."), op);
    return imp_said_of(p->im, sizeof absent / sizeof *absent, absent, name);
}

static bool refuse_unknown(struct pt2 *p, json_t *node)
{
    struct imp *im = p->im;
    struct ir_where where = where_of(p, node);
    for (int k = 0; k < im->refusals.n; k++) {
        struct imp_refusal *r = &im->refusals.at[k];
        if (r->op == where.op && r->count) {
            r->count++;
            return false;
        }
    }
    const char *word = !strncmp(where.op, "aten.", 5) ? where.op + 5 : where.op, *dot = strrchr(word, '.');
    struct ir_nearest near = {.word = word, .length = dot ? (size_t)(dot - word) : 0};
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
        ir_nearest_try(&near, rows[k].name);
    json_t *outer = p->at.node;
    p->at.node = node;
    const char *name = strchr(where.op, '.'), *words = word != where.op ? absent_words(p, word) : NULL,
               *why = words ? ir_internf(p->ctx, "unsupported operator: %s", words)
                            : ir_internf(p->ctx, "unsupported operator%s", ir_did_you_mean(p->ctx, &near));
    if (name && word == where.op && strcspn(name + 1, ".")) /* namespace.name.overload */
        why = ir_internf(p->ctx, "%s; an operator of one's own is brought by --custom-op=%.*s:%.*s=FILE.c", why,
                         (int)(name - where.op), where.op, (int)strcspn(name + 1, "."), name + 1);
    VEC_PUSH(p->ctx, im->refusals,
             (struct imp_refusal){.node = where.node, .op = where.op, .why = why, .line = pt2_line(im), .count = 1});
    p->at.node = outer;
    return false;
}

struct pt2_value *pt2_first_operand(struct pt2 *p, json_t *node, int k)
{
    json_t *input = json_array_get(js_array(node, "inputs"), 0), *value;
    const char *kind = input ? js_union(json_object_get(input, "arg"), &value) : NULL, *name;
    if (kind && json_is_array(value)) {
        json_t *item = json_array_get(value, (size_t)k);
        name = js_string(item, "name") ? js_string(item, "name") : pt2_name_of(item);
    } else {
        name = kind ? pt2_name_of(json_object_get(input, "arg")) : NULL;
    }
    return name ? pt2_lookup(p, name) : NULL;
}

static bool bind_outputs(struct pt2 *p, json_t *node, const struct aten_row *row, int n, struct ir_value **outs,
                         ir_expr *exprs, bool refused)
{
    for (int k = 0; k < n; k++) {
        const char *name = pt2_out_name(p, k);
        if (!name)
            continue;
        struct pt2_value *v = pt2_bind(p, name);
        if (!v)
            return false;
        v->v = outs[k];
        v->e = exprs[k];
        v->refused = refused || (!outs[k] && !exprs[k]);
        v->number = !pt2_meta(p, name);
        v->read = v->number && p->at.reads;
        v->complex = pt2_out_complex(p, k);
        v->node = node;
        v->index = k;
        v->count = n;
        if (v->v && !v->v->name)
            v->v->name = v->name;
        if (!v->refused)
            pt2_bind_memory(p, v, row);
    }
    return true;
}

/* What the node gives goes to what it writes to. False after an error; what can't be written to refuses the node. */
static bool write_result(struct pt2 *p, int n, bool *refused)
{
    struct pt2_value *self = p->at.written;
    int errors = ir_nerrors(p->ctx), refusals = p->im->refusals.n;
    if (!self || n != 1 || !p->at.outs[0] || !pt2_write(p, self, p->at.outs[0])) {
        *refused = p->im->refusals.n > refusals;
        p->im->refused = false;
        if (ir_nerrors(p->ctx) > errors)
            return false;
        return *refused || imp_bad(p->im, "writes to something that is no tensor");
    }
    p->at.outs[0] = pt2_read(p, self);
    return true;
}

/* The argument `out`. */
static struct pt2_value *out_operand(struct pt2 *p)
{
    const char *kind, *name = js_string(pt2_arg(p, "out", &kind), "name");
    return name ? pt2_lookup(p, name) : NULL;
}

static bool import_node(struct pt2 *p, json_t *node)
{
    const char *target = target_of(node);
    const struct aten_row *custom = pt2_custom(p, target), *row = custom ? custom : pt2_row(target);
    const struct aten_row *in_place = row ? NULL : pt2_row_in_place(p, target);
    const struct pt2_at outer = p->at;
    if (in_place && in_place->flags & ATEN_VIEW && !(in_place->flags & (ATEN_COPIES | ATEN_KEEPS | ATEN_PASSES))) {
        row = in_place; /* another view of `self`, by the name that the program goes on with */
        in_place = NULL;
    }
    p->at.node = node;
    p->at.made = NULL;
    p->at.reads = false;
    p->at.in_place = in_place != NULL;
    p->at.writes = in_place || (!custom && target && pt2_is_out_form(target));
    p->at.written = in_place ? pt2_first_operand(p, node, 0) : p->at.writes ? out_operand(p) : NULL;
    p->at.no_gradient = pt2_core_stops(p, node) || outer.no_gradient;
    pt2_core_note(p, node);
    int n = count_outputs(p), errors = ir_nerrors(p->ctx);
    struct ir_value **outs = p->at.outs = IR_NEWN(p->ctx, n + 1, struct ir_value *);
    ir_expr *exprs = p->at.out_exprs = IR_NEWN(p->ctx, n + 1, ir_expr);
    p->im->b.where = where_of(p, node);
    bool refused = reads_refused(p, json_object_get(node, "inputs"), 0);
    if (++p->im->nodes > IMP_MAX_NODES)
        return imp_bad(p->im, "more than %d nodes", IMP_MAX_NODES);
    if (!refused && !row && !in_place)
        refused = !refuse_unknown(p, node);
    if (!refused)
        refused = !pt2_build(p, row ? row : in_place, node, n);
    if (p->at.writes && !refused && !write_result(p, n, &refused))
        return false;
    bool fine = ir_nerrors(p->ctx) == errors && !p->im->again &&
                bind_outputs(p, node, row ? row : in_place, n, outs, exprs, refused);
    p->at = outer;
    return fine;
}

/* An output: a name, or a number by itself. */
static struct pt2_value *graph_output(struct pt2 *p, json_t *o)
{
    json_t *value;
    const char *kind = js_union(o, &value);
    if (kind && pt2_name_of(o))
        return pt2_named(p, o);
    if (kind && (!strcmp(kind, "as_sym_int") || !strcmp(kind, "as_sym_bool") || !strcmp(kind, "as_sym_float")))
        kind = js_union(value, &value);
    struct pt2_value *v = IR_NEW(p->ctx, struct pt2_value);
    v->name = "";
    v->number = true;
    if (json_is_integer(value))
        v->e = ir_const(p->ctx, json_integer_value(value));
    else if (json_is_boolean(value))
        v->v = imp_int(p->im, TCC_BOOL, json_is_true(value));
    else if (json_is_real(value))
        v->v = imp_num(p->im, TCC_F32, json_real_value(value));
    return v;
}

/* What a program checks of values has no result of its own: the check is part of that result of the graph which has the
 * fewest elements, as far as that is known, and is made as often as that is. */
static bool check_outputs(struct pt2 *p, int first, int n, struct pt2_value **outs)
{
    struct pt2_value *least = NULL, **at = NULL;
    for (int k = 0; k < n; k++) {
        struct ir_value *v = outs[k]->v;
        if (v && ir_is_tensor(v->type) &&
            (!least ||
             ir_expr_le(p->ctx, ir_num_elements(p->ctx, v->type), ir_num_elements(p->ctx, least->v->type)) == IR_YES)) {
            least = outs[k];
            at = outs + k;
        }
    }
    for (int k = first; k < p->checks.n; k++) {
        const struct pt2_check *c = &p->checks.at[k];
        struct ir_attr message = imp_user_text(p->im, "message", c->message);
        struct ir_where where = p->im->b.where;
        p->im->b.where = c->where;
        if (!least)
            return imp_unsupported(p->im, "a check in a graph without results");
        struct pt2_value *checked = IR_NEW(p->ctx, struct pt2_value);
        *checked = *least;
        checked->v =
            imp_lib_value(p->im, "check", 2, (struct ir_value *[]){least->v, c->holds}, least->v->type, 1, &message);
        if (!checked->v)
            return false;
        *at = least = checked;
        p->im->b.where = where;
    }
    p->checks.n = first;
    return true;
}

bool pt2_graph(struct pt2 *p, json_t *graph, struct pt2_value **outs)
{
    json_t *nodes = js_array(graph, "nodes"), *outputs = js_array(graph, "outputs"), *node;
    int checks = p->checks.n;
    size_t k;
    if (!nodes || !outputs)
        return imp_bad(p->im, "a graph without nodes or outputs");
    if (++p->depth > PT2_MAX_DEPTH)
        return imp_bad(p->im, "graphs inside each other more than %d deep", PT2_MAX_DEPTH);
    json_array_foreach(nodes, k, node)
    {
        if (!json_is_object(node) || !import_node(p, node))
            return json_is_object(node) ? false : imp_bad(p->im, "a node that is no object");
    }
    for (k = 0; k < json_array_size(outputs); k++) {
        outs[k] = graph_output(p, json_array_get(outputs, k));
        if (!outs[k])
            return false;
        if (outs[k]->complex && p->depth > 1)
            return imp_unsupported(p->im, "a complex result of a graph in the graph");
    }
    p->depth--;
    return check_outputs(p, checks, (int)k, outs);
}
