/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a model that was refused has of operators that are not known, in all of it: the import itself does not see
 * behind a node that was refused in every case, nor into what such a node would have run. Each operator is one line,
 * however many nodes it has. Models that are imported are not looked at: branches that are never taken may hold
 * anything.
 */
#include "compiler/onnx/import_int.h"

#include <string.h>

struct search {
    struct imp *im;
    const struct onnx_opset *opsets; /* of the model, or of the function being searched */
    size_t nopsets;
    bool *seen; /* functions */
};

static int opset_of(const struct search *s, const char *domain)
{
    for (size_t k = 0; k < s->nopsets; k++) {
        if (!strcmp(s->opsets[k].domain, domain))
            return s->opsets[k].version > 0 && s->opsets[k].version < 1000000 ? (int)s->opsets[k].version : 0;
    }
    return 0;
}

struct imp_refusal *imp_refusal_of(struct imp *im, const char *domain, const char *op, int opset)
{
    for (int k = 0; k < im->refusals.n; k++) {
        struct imp_refusal *r = &im->refusals.at[k];
        if (r->unknown && r->opset == opset && !strcmp(r->op, op) && !strcmp(r->domain, domain))
            return r;
    }
    return NULL;
}

static void search_nodes(struct search *s, const struct onnx_node *nodes, size_t count);

/* A function that is called: once, with the operator sets that it imports. */
static void search_function(struct search *s, size_t which)
{
    const struct onnx_function *f = &s->im->model->functions[which];
    struct search inside = {s->im, f->opsets, f->opset_count, s->seen};
    if (s->seen[which])
        return;
    s->seen[which] = true;
    search_nodes(&inside, f->nodes, f->node_count);
}

static bool is_call(struct search *s, const struct onnx_node *n)
{
    const struct onnx_model *m = s->im->model;
    for (size_t k = 0; k < m->function_count; k++) {
        const struct onnx_function *f = &m->functions[k];
        if (strcmp(f->name, n->op) || strcmp(f->domain, n->domain) || strcmp(f->overload, n->overload))
            continue;
        search_function(s, k);
        return true;
    }
    return false;
}

static void search_nodes(struct search *s, const struct onnx_node *nodes, size_t count)
{
    struct imp *im = s->im;
    for (size_t k = 0; k < count; k++) {
        const struct onnx_node *n = &nodes[k];
        int opset = opset_of(s, n->domain);
        for (size_t a = 0; a < n->attr_count; a++) {
            if (n->attrs[a].type == ONNX_ATTR_GRAPH)
                search_nodes(s, n->attrs[a].graph->nodes, n->attrs[a].graph->node_count);
        }
        const char *why = is_call(s, n) ? NULL : imp_unknown_why(im, n->domain, n->op, opset);
        if (!why)
            continue;
        struct imp_refusal *r = imp_refusal_of(im, n->domain, n->op, opset);
        if (!r) {
            const char *name = *n->name ? n->name : n->output_count ? n->outputs[0] : "";
            VEC_PUSH(im->ctx, im->refusals, (struct imp_refusal){name, n->op, why, n->domain, NULL, opset, true, 0});
            r = &im->refusals.at[im->refusals.n - 1];
        }
        r->count++;
    }
}

void imp_list_unknown(struct imp *im)
{
    struct search s = {im, im->model->opsets, im->model->opset_count,
                       IR_NEWN(im->ctx, im->model->function_count + 1, bool)};
    search_nodes(&s, im->model->graph->nodes, im->model->graph->node_count);
}
