/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Model-local functions: finding them, and counting what their expansion would make before any of it is made. Sixteen
 * functions that call each other twice are 65,536 nodes from a file of a kilobyte; the nodes that the graph itself has
 * are paid for by its size.
 */
#include "compiler/onnx/import_int.h"

#include <stdlib.h>
#include <string.h>

#define MOST (UINT64_C(1) << 62)

static int compare(const char *name, const char *domain, const char *overload, const struct onnx_function *f)
{
    int c = strcmp(name, f->name);
    c = c ? c : strcmp(domain, f->domain);
    return c ? c : strcmp(overload, f->overload);
}

/* Of two with one name the first in the file comes first. */
static int by_name(const void *a, const void *b)
{
    const struct onnx_function *x = *(const struct onnx_function *const *)a,
                               *y = *(const struct onnx_function *const *)b;
    int c = compare(x->name, x->domain, x->overload, y);
    return c ? c : (x > y) - (x < y);
}

void imp_sort_functions(struct imp *im)
{
    size_t n = im->model->function_count;
    im->functions = IR_NEWN(im->ctx, n + 1, const struct onnx_function *);
    for (size_t k = 0; k < n; k++)
        im->functions[k] = &im->model->functions[k];
    if (n)
        qsort(im->functions, n, sizeof *im->functions, by_name);
}

const struct onnx_function *imp_find_function(const struct imp *im, const struct onnx_node *node)
{
    size_t low = 0, high = im->model->function_count;
    while (low < high) {
        size_t mid = (low + high) / 2;
        if (compare(node->op, node->domain, node->overload, im->functions[mid]) > 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low < im->model->function_count && !compare(node->op, node->domain, node->overload, im->functions[low])
               ? im->functions[low]
               : NULL;
}

/* A function, or the graphs: its nodes, those of the graphs in their attributes included, and which functions they
 * call. */
struct body {
    uint64_t nodes, all_nodes, all_calls; /* all: of the functions called too */
    VEC(size_t) calls;
    int next; /* call to look at */
    bool open, known;
};

static void count_nodes(struct imp *im, struct body *b, const struct onnx_node *nodes, size_t n)
{
    for (size_t k = 0; k < n; k++) {
        const struct onnx_function *f = imp_find_function(im, &nodes[k]);
        b->nodes += !f;
        if (f)
            VEC_PUSH(im->ctx, b->calls, (size_t)(f - im->model->functions));
        for (size_t a = 0; a < nodes[k].attr_count; a++) {
            const struct onnx_attr *attr = &nodes[k].attrs[a];
            if (attr->graph)
                count_nodes(im, b, attr->graph->nodes, attr->graph->node_count);
            for (size_t g = 0; attr->graphs && g < attr->count; g++)
                count_nodes(im, b, attr->graphs[g].nodes, attr->graphs[g].node_count);
        }
    }
}

static uint64_t bounded(uint64_t n)
{
    return n > MOST ? MOST : n;
}

/* Without recursion: a file may nest as many functions as it has. Those that call themselves count as nothing there;
 * the import says what is wrong with them. */
static void add_totals(struct imp *im, struct body *bodies, size_t first)
{
    VEC(size_t) stack = {0};
    VEC_PUSH(im->ctx, stack, first);
    bodies[first].open = true;
    while (stack.n) {
        struct body *b = &bodies[stack.at[stack.n - 1]];
        if (b->next < b->calls.n) {
            size_t called = b->calls.at[b->next];
            if (!bodies[called].known && !bodies[called].open) {
                bodies[called].open = true;
                VEC_PUSH(im->ctx, stack, called);
                continue;
            }
            const struct body *c = &bodies[called];
            b->all_nodes = bounded(b->all_nodes + (c->known ? c->all_nodes + c->nodes : 0));
            b->all_calls = bounded(b->all_calls + 1 + (c->known ? c->all_calls : 0));
            b->next++;
            continue;
        }
        b->known = true;
        b->open = false;
        stack.n--;
    }
}

bool imp_check_expansion(struct imp *im, int64_t most)
{
    const struct onnx_model *m = im->model;
    struct body *bodies = IR_NEWN(im->ctx, m->function_count + 1, struct body);
    for (size_t k = 0; k < m->function_count; k++)
        count_nodes(im, &bodies[k], m->functions[k].nodes, m->functions[k].node_count);
    struct body *graphs = &bodies[m->function_count];
    count_nodes(im, graphs, m->graph->nodes, m->graph->node_count);
    for (size_t k = 0; k < m->training_count; k++) {
        const struct onnx_graph *parts[] = {m->training[k].initialization, m->training[k].algorithm};
        for (int i = 0; i < 2; i++)
            if (parts[i])
                count_nodes(im, graphs, parts[i]->nodes, parts[i]->node_count);
    }
    add_totals(im, bodies, m->function_count);
    /* Functions of nothing but calls make no nodes, and take as long. */
    uint64_t calls = graphs->all_calls - (uint64_t)graphs->calls.n,
             total = graphs->all_nodes > calls ? graphs->all_nodes : calls;
    if (total <= (uint64_t)most)
        return true;
    struct ir_where w = {.file = im->path};
    return ir_error(im->ctx, &w,
                    "its functions expand to %s%llu nodes, at most %lld are allowed: --max-nodes=N allows more",
                    total == MOST ? "more than " : "", (unsigned long long)total, (long long)most);
}
