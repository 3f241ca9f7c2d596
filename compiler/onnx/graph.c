/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs, scopes, functions: walks the nodes of a graph in order, finds the row of each and lets it build.
 *
 * A node that can't be imported is noted and its results become `imp_poison`; nodes that read poison are skipped, so
 * that one run finds all operators that are not known. A node of a model-local function is expanded where it stands.
 */
#include "compiler/onnx/import_int.h"

#include <string.h>

struct ir_value imp_poison;

/* -- Scopes */

void imp_push_scope(struct imp *im, struct imp_scope *s)
{
    *s = (struct imp_scope){.outer = im->scope};
    im->scope = s;
}

void imp_pop_scope(struct imp *im)
{
    im->scope = im->scope->outer;
}

void imp_bind_name(struct imp *im, const char *name, struct ir_value *v)
{
    const char *key = ir_intern(im->ctx, name);
    if (!*name)
        return;
    *ir_map_add(im->ctx, &im->scope->values, ir_map_key(key)) = v;
    if (v && v != &imp_poison && !v->name)
        v->name = key;
}

static bool bound_here(struct imp *im, const char *name)
{
    return ir_map_find(&im->scope->values, ir_map_key(ir_intern(im->ctx, name))) != NULL;
}

struct ir_value *imp_lookup(struct imp *im, const char *name)
{
    const char *key = ir_intern(im->ctx, name);
    for (const struct imp_scope *s = im->scope; s; s = s->outer) {
        void **v = ir_map_find(&s->values, ir_map_key(key));
        if (v)
            return *v;
    }
    return NULL;
}

/* -- Nodes */

static const struct imp_row rows[] = {
#define AI ""
#define MS "com.microsoft"
#define ML "ai.onnx.ml"
#define PREVIEW "ai.onnx.preview"
#define TRAIN "ai.onnx.preview.training"
#define TF "ai.onnx.converters.tensorflow"
#define ROW(domain, op, since, until, function, arg) {domain, op, since, until, onnx_op_##function, arg, false, false},
#define ANY(domain, op, since, until, function, arg) {domain, op, since, until, onnx_op_##function, arg, true, false},
#define MAP(domain, op, since, until, function, arg) {domain, op, since, until, onnx_op_##function, arg, false, true},
#include "compiler/onnx/ops.def"
};

const struct imp_row *imp_find_row(const char *domain, const char *op, int opset, bool *other_version)
{
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        const struct imp_row *r = &rows[k];
        if (strcmp(r->op, op) || strcmp(r->domain, domain))
            continue;
        if (opset >= r->since && (!r->until || opset <= r->until))
            return r;
        *other_version = true;
    }
    /* tf2onnx leaves operators in ONNX's domain, too */
    return *domain || *other_version ? NULL : imp_find_row(TF, op, 1, other_version);
}

bool imp_build_row(struct imp *im, const struct imp_row *row)
{
    const struct imp_row *outer = im->row;
    im->row = row;
    bool fine = row->build(im);
    im->row = outer;
    return fine;
}

/* What to do at the source about an operator that a converter has left; NULL: not known. */
static const char *left_words(struct imp *im, const char *domain, const char *op)
{
    static const struct {
        const char *domain;
        struct imp_saying saying;
    } left[] = {
#define LEFT(domain, patterns, words) {domain, {patterns, words}},
#include "compiler/onnx/left.def"
    };
    const char *said = NULL, *of = strcmp(domain, TF) ? domain : "";
    for (size_t k = 0; !said && k < sizeof left / sizeof *left; k++)
        said = strcmp(of, left[k].domain) ? NULL : imp_said_of(im, 1, &left[k].saying, op);
    return said;
}

static int opset_of(struct imp *im, const char *domain)
{
    const struct onnx_opset *o = im->call ? im->call->function->opsets : im->model->opsets;
    size_t n = im->call ? im->call->function->opset_count : im->model->opset_count;
    for (size_t k = 0; k < n; k++) {
        if (!strcmp(o[k].domain, domain))
            return o[k].version > 0 && o[k].version < 1000000 ? (int)o[k].version : 0;
    }
    return 0;
}

static bool import_nodes(struct imp *im, const struct onnx_node *nodes, size_t count);

/* Expands a call: the function's names are a scope of their own that sees nothing outside. */
static bool expand(struct imp *im, const struct onnx_function *f)
{
    struct imp_call call = {.outer = im->call,
                            .function = f,
                            .node = im->node,
                            .node_call = im->call,
                            .depth = im->call ? im->call->depth + 1 : 1};
    const struct onnx_node *node = im->node;
    struct ir_value **outs = im->outs;
    struct imp_scope *caller = im->scope;
    const struct onnx_graph *graph = im->graph;
    struct imp_scope scope;
    im->malformed |= call.depth > IMP_MAX_CALLS || node->input_count > f->input_count;
    if (call.depth > IMP_MAX_CALLS)
        return imp_bad(im, "functions call each other more than %d deep", IMP_MAX_CALLS);
    if (node->input_count > f->input_count)
        return imp_bad(im, "%zu operands for a function of %zu", node->input_count, f->input_count);
    struct ir_value **args = IR_NEWN(im->ctx, f->input_count + 1, struct ir_value *);
    for (size_t k = 0; k < f->input_count; k++)
        args[k] = imp_in(im, (int)k);
    im->scope = NULL;
    imp_push_scope(im, &scope);
    for (size_t k = 0; k < f->input_count; k++)
        imp_bind_name(im, f->inputs[k], args[k]);
    im->call = &call;
    im->graph = NULL;
    bool fine = import_nodes(im, f->nodes, f->node_count);
    for (size_t k = 0; fine && k < f->output_count && k < node->output_count; k++) {
        outs[k] = imp_lookup(im, f->outputs[k]);
        if (!outs[k] && node->outputs[k][0])
            fine = imp_bad(im, "function '%s' does not compute its output '%s'", f->name, f->outputs[k]);
    }
    im->scope = caller;
    im->call = call.outer;
    im->graph = graph;
    return fine;
}

/* Are all operands known? Sets *poisoned when one comes from a refused node. */
static bool check_operands(struct imp *im, bool *poisoned)
{
    for (size_t k = 0; k < im->node->input_count; k++) {
        const char *name = im->node->inputs[k];
        if (!*name)
            continue;
        struct ir_value *v = imp_lookup(im, name);
        if (!v) {
            /* An optional parameter of a function that its caller left out is known, and NULL. */
            if (im->call && bound_here(im, name))
                continue;
            im->malformed = true;
            return imp_bad(
                im,
                "operand %zu, '%s', is neither an input nor computed by an earlier node (missing, out of order, or a "
                "cycle)",
                k, name);
        }
        *poisoned |= v == &imp_poison;
    }
    return true;
}

static bool only_tensors(struct imp *im)
{
    for (int k = 0; k < imp_nin(im); k++) {
        if (imp_has(im, k) && !imp_tensor(im, k))
            return false;
    }
    return true;
}

const char *imp_unknown_why(struct imp *im, const char *domain, const char *op, int opset)
{
    bool other_version = false;
    if (imp_find_row(domain, op, opset, &other_version) || imp_custom(im->ctx, domain, op))
        return NULL;
    if (!opset)
        return "the model does not import the operator set of this domain";
    if (other_version)
        return "this version of the operator is not supported";
    const char *left = left_words(im, domain, op);
    if (left)
        return ir_internf(im->ctx, "unsupported operator: %s", left);
    struct ir_nearest near = {.word = op};
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
        if (!strcmp(rows[k].domain, domain))
            ir_nearest_try(&near, rows[k].op);
    bool own = *domain && (strncmp(domain, "ai.onnx", 7) || !strcmp(domain, TF)); /* somebody's, who may bring it */
    return ir_internf(im->ctx, "unsupported operator%s%s", ir_did_you_mean(im->ctx, &near),
                      !own ? ""
                           : ir_internf(im->ctx, "; an operator of one's own is brought by --custom-op=%s:%s=FILE.c",
                                        ir_shown(domain), ir_shown(op)));
}

/* One entry for all nodes of the operator. */
static bool refuse_unknown(struct imp *im)
{
    const char *why = imp_unknown_why(im, im->domain, im->node->op, im->opset);
    if (imp_refusal_of(im, im->domain, im->node->op, im->opset)) {
        im->refused = true;
        return false;
    }
    int before = im->refusals.n;
    imp_unsupported(im, "%s", why ? why : "");
    if (im->refusals.n > before)
        im->refusals.at[before].unknown = true;
    return false;
}

static bool build_node(struct imp *im)
{
    bool other_version = false;
    int errors = ir_nerrors(im->ctx);
    const struct imp_row *row = imp_find_row(im->domain, im->node->op, im->opset, &other_version);
    const struct onnx_function *f = imp_find_function(im, im->node);
    if (f) /* a model's own function wins: that is what its author meant */
        return expand(im, f);
    const struct ir_custom *custom = imp_custom(im->ctx, im->domain, im->node->op);
    if (custom) /* and what is given on the command line what its user means */
        return imp_custom_node(im, custom) && ir_nerrors(im->ctx) == errors;
    if (row && !imp_check_schema(im)) {
        im->malformed = true;
        return false;
    }
    bool done = false;
    if (row && (!imp_dynamic(im, row, &done) || done))
        return done && !im->refused && ir_nerrors(im->ctx) == errors;
    if (row && row->map && imp_has_unranked(im))
        return imp_map_unranked(im, row) && ir_nerrors(im->ctx) == errors;
    if (row)
        return (row->any || only_tensors(im)) && imp_build_row(im, row) && ir_nerrors(im->ctx) == errors;
    return refuse_unknown(im);
}

static struct ir_where where_of(struct imp *im, const struct onnx_node *n, int opset)
{
    const char *name = n->name;
    if (!*name && n->output_count)
        name = n->outputs[0];
    if (!*name)
        name = ir_internf(im->ctx, "#%zu", n->index);
    return (struct ir_where){.file = im->path,
                             .node = ir_intern(im->ctx, name),
                             .op = ir_intern(im->ctx, n->op),
                             .opset = opset,
                             .scope = *n->scope ? ir_intern(im->ctx, n->scope) : NULL};
}

/* A node that no rule took and nothing was said of: the operands are what the message can name. */
static bool misfit(struct imp *im)
{
    const char *types = "none";
    for (int k = 0; k < imp_nin(im); k++) {
        struct ir_value *v = imp_in(im, k);
        const char *text = v ? ir_type_text(im->ctx, v->type) : "(left out)";
        types = k ? ir_internf(im->ctx, "%s, %s", types, text) : text;
    }
    return imp_bad(im, "does not take these operands: %s", types);
}

static bool import_node(struct imp *im, const struct onnx_node *n)
{
    struct ir_value **outs = IR_NEWN(im->ctx, n->output_count + 1, struct ir_value *);
    bool poisoned = false;
    im->node = n;
    im->domain = n->domain;
    im->opset = opset_of(im, n->domain);
    im->outs = outs;
    im->refused = false;
    im->b.where = where_of(im, n, im->opset);
    if (++im->nodes > IMP_MAX_NODES) {
        im->malformed = true;
        return imp_bad(im, "more than %d nodes after functions are expanded", IMP_MAX_NODES);
    }
    if (!check_operands(im, &poisoned))
        return false;
    int errors = ir_nerrors(im->ctx);
    bool fine = poisoned || build_node(im);
    bool refused = im->refused;
    im->refused = false;
    if (im->again)
        return false;
    if (!fine && !refused)
        return ir_nerrors(im->ctx) > errors ? false : misfit(im);
    for (size_t k = 0; k < n->output_count; k++) {
        if (n->outputs[k][0] && bound_here(im, n->outputs[k])) {
            im->malformed = true;
            return imp_bad(im, "result '%s' is already defined", n->outputs[k]);
        }
        if (!poisoned && !refused && !outs[k] && n->outputs[k][0]) {
            imp_unsupported(im, "its result %zu", k);
            refused = true;
            im->refused = false;
        }
        if (poisoned || refused)
            outs[k] = &imp_poison;
        imp_bind_name(im, n->outputs[k], outs[k]);
    }
    return true;
}

/* Leaves the importer at the node where it was: graphs are imported from within nodes. */
static bool import_nodes(struct imp *im, const struct onnx_node *nodes, size_t count)
{
    const struct onnx_node *node = im->node;
    const char *domain = im->domain;
    struct ir_value **outs = im->outs;
    struct ir_where where = im->b.where;
    int opset = im->opset;
    bool refused = im->refused;
    for (size_t k = 0; k < count; k++) {
        if (!import_node(im, &nodes[k]))
            return false;
    }
    im->node = node;
    im->domain = domain;
    im->outs = outs;
    im->b.where = where;
    im->opset = opset;
    im->refused = refused;
    return true;
}

/* -- Graphs */

static bool bind_sparse(struct imp *im, const struct onnx_sparse *s)
{
    const char *name = s->values->name;
    im->b.where = (struct ir_where){.file = im->path, .node = ir_intern(im->ctx, name), .op = "sparse_initializer"};
    struct ir_value *v = imp_sparse_const(im, s);
    if (v && !bound_here(im, name))
        imp_bind_name(im, name, v);
    return v != NULL;
}

bool imp_graph(struct imp *im, const struct onnx_graph *g, struct ir_value **outs)
{
    const struct onnx_graph *outer = im->graph;
    im->graph = g;
    for (size_t k = 0; k < g->init_count; k++) {
        if (g == im->model->graph && imp_is_given(im, g->inits[k].name))
            continue;
        struct ir_value *v = imp_initializer(im, &g->inits[k]);
        if (!v) {
            im->malformed = true;
            return false;
        }
        if (!bound_here(im, g->inits[k].name))
            imp_bind_name(im, g->inits[k].name, v);
    }
    for (size_t k = 0; k < g->sparse_count; k++) {
        if (!bind_sparse(im, &g->sparse[k]))
            return false;
    }
    if (!import_nodes(im, g->nodes, g->node_count))
        return false;
    im->graph = outer;
    for (size_t k = 0; k < g->output_count; k++) {
        outs[k] = imp_lookup(im, g->outputs[k].name);
        if (outs[k])
            continue;
        struct ir_where w = {.file = im->path};
        im->malformed = true;
        return ir_error(im->ctx, &w, "output '%s' of graph '%s' is not computed by any node", g->outputs[k].name,
                        g->name);
    }
    return true;
}
