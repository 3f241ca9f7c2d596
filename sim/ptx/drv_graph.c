/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs (CUDA Driver API, "Graph management"): nodes of work with dependencies, made one by one or by capture.
 * Instantiation puts copies of them into an order that respects the dependencies, child graphs in their place; a launch
 * pushes one op a node, between an op that follows the stream and one that the stream follows. Launches of one
 * executable graph run one after the other.
 */
#include <stdlib.h>
#include <string.h>

#include "sim/ptx/drv_int.h"

bool drv_nodes_add(struct drv_nodes *list, CUgraphNode node)
{
    for (int k = 0; k < list->n; k++)
        if (list->at[k] == node)
            return true;
    if (!drv_room(&list->at, list->n, &list->room, sizeof *list->at))
        return false;
    list->at[list->n++] = node;
    return true;
}

CUgraph drv_graph_new(void)
{
    CUgraph g = calloc(1, sizeof *g);
    if (g)
        *g = (struct CUgraph_st){.magic = MAGIC_GRAPH, .refs = 1};
    return g;
}

void drv_graph_unref(CUgraph g)
{
    if (--g->refs)
        return;
    for (int k = 0; k < g->nodes.n; k++) {
        CUgraphNode n = g->nodes.at[k];
        drv_work_free(&n->work);
        if (n->child)
            drv_graph_unref(n->child);
        free(n->deps.at);
        n->magic = 0;
        free(n);
    }
    free(g->nodes.at);
    g->magic = 0;
    free(g);
}

CUresult drv_node_add(CUgraph g, int type, struct drv_work *w, const CUgraphNode *deps, size_t n, CUgraphNode *out)
{
    CUgraphNode node = calloc(1, sizeof *node);
    bool fine = node != NULL;
    if (!w->ctx)
        w->ctx = drv_current();
    for (size_t k = 0; fine && k < n; k++)
        fine = drv_nodes_add(&node->deps, deps[k]);
    if (!fine || !drv_room(&g->nodes.at, g->nodes.n, &g->nodes.room, sizeof *g->nodes.at)) {
        if (node)
            free(node->deps.at);
        free(node);
        drv_work_free(w);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    node->magic = MAGIC_NODE;
    node->graph = g;
    node->type = type;
    node->number = g->nodes.n;
    node->work = *w;
    g->nodes.at[g->nodes.n++] = node;
    *out = node;
    return CUDA_SUCCESS;
}

/* -- Making graphs -- */

static CUresult create(CUgraph *g, unsigned flags)
{
    if (!g || flags)
        return CUDA_ERROR_INVALID_VALUE;
    *g = drv_graph_new();
    return *g ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
API(cuGraphCreate, NEED_INIT, (CUgraph * graph, unsigned flags), create(graph, flags))

static CUresult destroy(CUgraph g)
{
    if (!IS(g, GRAPH))
        return CUDA_ERROR_INVALID_VALUE;
    drv_graph_unref(g);
    return CUDA_SUCCESS;
}
API(cuGraphDestroy, NEED_INIT, (CUgraph graph), destroy(graph))

static bool valid(CUgraph g, const CUgraphNode *deps, size_t n, const void *out)
{
    bool fine = IS(g, GRAPH) && out && (deps || !n);
    for (size_t k = 0; fine && k < n; k++)
        fine = IS(deps[k], NODE) && deps[k]->graph == g;
    return fine;
}

/* Adds a node of work that `r` says was understood. */
static CUresult add(CUgraphNode *node, CUgraph g, const CUgraphNode *deps, size_t n, int type, CUresult r,
                    struct drv_work *w)
{
    if (!r && !valid(g, deps, n, node))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r) {
        drv_work_free(w);
        return r;
    }
    return drv_node_add(g, type, w, deps, n, node);
}

static CUresult kernel_work(struct drv_work *w, const CUDA_KERNEL_NODE_PARAMS *p)
{
    if (!p || !p->func)
        return CUDA_ERROR_INVALID_VALUE;
    w->kind = WORK_KERNEL;
    return drv_kernel_work(w, p->func, p->grid, p->block, p->shared, p->params, p->extra);
}

static CUresult add_kernel(CUgraphNode *node, CUgraph g, const CUgraphNode *deps, size_t n,
                           const CUDA_KERNEL_NODE_PARAMS *p)
{
    struct drv_work w = {0};
    return add(node, g, deps, n, CU_GRAPH_NODE_TYPE_KERNEL, kernel_work(&w, p), &w);
}
API(cuGraphAddKernelNode_v2, NEED_CTX,
    (CUgraphNode * node, CUgraph g, const CUgraphNode *deps, size_t n, const CUDA_KERNEL_NODE_PARAMS *p),
    add_kernel(node, g, deps, n, p))

static bool side_3d(struct drv_side *s, int type, const void *host, CUdeviceptr device, size_t x, size_t y, size_t z,
                    size_t pitch, size_t height, size_t width)
{
    uint64_t base = type == CU_MEMORYTYPE_HOST ? (uintptr_t)host : device;
    s->pitch = pitch ? pitch : width;
    s->slice = s->pitch * (height ? height : 1);
    s->at = base + x + y * s->pitch + z * s->slice;
    return base && type != CU_MEMORYTYPE_ARRAY;
}

static CUresult copy_work(struct drv_work *w, const CUDA_MEMCPY3D *c)
{
    *w = (struct drv_work){.kind = WORK_COPY};
    if (!c || !c->width || !c->height || !c->depth)
        return CUDA_ERROR_INVALID_VALUE;
    w->width = c->width, w->height = c->height, w->depth = c->depth;
    bool fine = side_3d(&w->from, c->src_type, c->src_host, c->src_device, c->src_x, c->src_y, c->src_z, c->src_pitch,
                        c->src_height, c->width) &&
                side_3d(&w->to, c->dst_type, c->dst_host, c->dst_device, c->dst_x, c->dst_y, c->dst_z, c->dst_pitch,
                        c->dst_height, c->width);
    return fine ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult add_copy(CUgraphNode *node, CUgraph g, const CUgraphNode *deps, size_t n, const CUDA_MEMCPY3D *c,
                         CUcontext ctx)
{
    struct drv_work w = {0};
    CUresult r = IS(ctx, CTX) ? copy_work(&w, c) : CUDA_ERROR_INVALID_CONTEXT;
    w.ctx = ctx;
    return add(node, g, deps, n, CU_GRAPH_NODE_TYPE_MEMCPY, r, &w);
}
API(cuGraphAddMemcpyNode, NEED_INIT,
    (CUgraphNode * node, CUgraph g, const CUgraphNode *deps, size_t n, const CUDA_MEMCPY3D *c, CUcontext ctx),
    add_copy(node, g, deps, n, c, ctx))

static CUresult add_fill(CUgraphNode *node, CUgraph g, const CUgraphNode *deps, size_t n,
                         const CUDA_MEMSET_NODE_PARAMS *p, CUcontext ctx)
{
    struct drv_work w = {.kind = WORK_FILL, .ctx = ctx};
    CUresult r = !IS(ctx, CTX) ? CUDA_ERROR_INVALID_CONTEXT
                 : !p || !p->dst || !p->width || !p->height || (p->element != 1 && p->element != 2 && p->element != 4)
                     ? CUDA_ERROR_INVALID_VALUE
                     : CUDA_SUCCESS;
    if (!r) {
        w.to = (struct drv_side){p->dst, p->height > 1 ? p->pitch : p->width * p->element, 0};
        w.value = p->value, w.element = p->element, w.width = p->width, w.height = p->height;
    }
    return add(node, g, deps, n, CU_GRAPH_NODE_TYPE_MEMSET, r, &w);
}
API(cuGraphAddMemsetNode, NEED_INIT,
    (CUgraphNode * node, CUgraph g, const CUgraphNode *deps, size_t n, const CUDA_MEMSET_NODE_PARAMS *p, CUcontext ctx),
    add_fill(node, g, deps, n, p, ctx))

static CUresult add_host(CUgraphNode *node, CUgraph g, const CUgraphNode *deps, size_t n,
                         const CUDA_HOST_NODE_PARAMS *p)
{
    struct drv_work w = {.kind = WORK_HOST};
    if (p)
        w.fn = p->fn, w.data = p->data;
    return add(node, g, deps, n, CU_GRAPH_NODE_TYPE_HOST, w.fn ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE, &w);
}
API(cuGraphAddHostNode, NEED_CTX,
    (CUgraphNode * node, CUgraph g, const CUgraphNode *deps, size_t n, const CUDA_HOST_NODE_PARAMS *p),
    add_host(node, g, deps, n, p))

static CUresult add_empty(CUgraphNode *node, CUgraph g, const CUgraphNode *deps, size_t n)
{
    struct drv_work w = {.kind = WORK_MARK};
    return add(node, g, deps, n, CU_GRAPH_NODE_TYPE_EMPTY, CUDA_SUCCESS, &w);
}
API(cuGraphAddEmptyNode, NEED_CTX, (CUgraphNode * node, CUgraph g, const CUgraphNode *deps, size_t n),
    add_empty(node, g, deps, n))

static CUresult duplicate(CUgraph *out, CUgraph g)
{
    CUgraph c = drv_graph_new();
    CUresult r = c ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    for (int k = 0; !r && k < g->nodes.n; k++) {
        struct drv_work w;
        CUgraphNode from = g->nodes.at[k], to;
        r = drv_work_copy(&w, &from->work) ? drv_node_add(c, from->type, &w, NULL, 0, &to) : CUDA_ERROR_OUT_OF_MEMORY;
        if (!r && from->child)
            r = duplicate(&to->child, from->child);
    }
    for (int k = 0; !r && k < g->nodes.n; k++)
        for (int d = 0; !r && d < g->nodes.at[k]->deps.n; d++)
            if (!drv_nodes_add(&c->nodes.at[k]->deps, c->nodes.at[g->nodes.at[k]->deps.at[d]->number]))
                r = CUDA_ERROR_OUT_OF_MEMORY;
    if (r && c)
        drv_graph_unref(c);
    *out = r ? NULL : c;
    return r;
}

static CUresult add_child(CUgraphNode *node, CUgraph g, const CUgraphNode *deps, size_t n, CUgraph child)
{
    struct drv_work w = {.kind = WORK_MARK};
    CUgraph copy = NULL;
    CUresult r = IS(child, GRAPH) && child != g ? duplicate(&copy, child) : CUDA_ERROR_INVALID_VALUE;
    r = add(node, g, deps, n, CU_GRAPH_NODE_TYPE_GRAPH, r, &w);
    if (!r)
        (*node)->child = copy;
    else if (copy)
        drv_graph_unref(copy);
    return r;
}
API(cuGraphAddChildGraphNode, NEED_CTX,
    (CUgraphNode * node, CUgraph g, const CUgraphNode *deps, size_t n, CUgraph child),
    add_child(node, g, deps, n, child))

static CUresult depend(CUgraph g, const CUgraphNode *from, const CUgraphNode *to, size_t n)
{
    if (!valid(g, from, n, g) || !valid(g, to, n, g))
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t k = 0; k < n; k++)
        if (from[k] == to[k] || !drv_nodes_add(&to[k]->deps, from[k]))
            return from[k] == to[k] ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_OUT_OF_MEMORY;
    return CUDA_SUCCESS;
}
API(cuGraphAddDependencies, NEED_INIT, (CUgraph g, const CUgraphNode *from, const CUgraphNode *to, size_t n),
    depend(g, from, to, n))

/* -- Asking -- */

static CUresult list_nodes(CUgraph g, CUgraphNode *nodes, size_t *n, bool roots)
{
    size_t count = 0;
    if (!IS(g, GRAPH) || !n)
        return CUDA_ERROR_INVALID_VALUE;
    for (int k = 0; k < g->nodes.n; k++)
        if (!roots || !g->nodes.at[k]->deps.n) {
            if (nodes && count < *n)
                nodes[count] = g->nodes.at[k];
            count++;
        }
    for (size_t k = count; nodes && k < *n; k++)
        nodes[k] = NULL;
    *n = count;
    return CUDA_SUCCESS;
}
API(cuGraphGetNodes, NEED_INIT, (CUgraph graph, CUgraphNode *nodes, size_t *n), list_nodes(graph, nodes, n, false))
API(cuGraphGetRootNodes, NEED_INIT, (CUgraph graph, CUgraphNode *nodes, size_t *n), list_nodes(graph, nodes, n, true))

static CUresult list_edges(CUgraph g, CUgraphNode *from, CUgraphNode *to, size_t *n)
{
    size_t count = 0;
    if (!IS(g, GRAPH) || !n || (from == NULL) != (to == NULL))
        return CUDA_ERROR_INVALID_VALUE;
    for (int k = 0; k < g->nodes.n; k++)
        for (int d = 0; d < g->nodes.at[k]->deps.n; d++, count++)
            if (from && count < *n) {
                from[count] = g->nodes.at[k]->deps.at[d];
                to[count] = g->nodes.at[k];
            }
    *n = count;
    return CUDA_SUCCESS;
}
API(cuGraphGetEdges, NEED_INIT, (CUgraph graph, CUgraphNode *from, CUgraphNode *to, size_t *n),
    list_edges(graph, from, to, n))

static CUresult type_of(CUgraphNode node, int *type)
{
    if (!IS(node, NODE) || !type)
        return CUDA_ERROR_INVALID_VALUE;
    *type = node->type;
    return CUDA_SUCCESS;
}
API(cuGraphNodeGetType, NEED_INIT, (CUgraphNode node, int *type), type_of(node, type))

static CUresult kernel_params(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS *p)
{
    if (!IS(node, NODE) || node->type != CU_GRAPH_NODE_TYPE_KERNEL || !p)
        return CUDA_ERROR_INVALID_VALUE;
    memset(p, 0, sizeof *p);
    p->func = node->work.func;
    memcpy(p->grid, node->work.launch.grid, sizeof p->grid);
    memcpy(p->block, node->work.launch.block, sizeof p->block);
    p->shared = (unsigned)node->work.launch.shared;
    p->ctx = node->work.ctx;
    return CUDA_SUCCESS;
}
API(cuGraphKernelNodeGetParams_v2, NEED_INIT, (CUgraphNode node, CUDA_KERNEL_NODE_PARAMS *params),
    kernel_params(node, params))

static CUresult replace(struct drv_work *old, CUresult r, struct drv_work *w)
{
    if (!r) {
        w->ctx = old->ctx;
        drv_work_free(old);
        *old = *w;
    } else {
        drv_work_free(w);
    }
    return r;
}

static CUresult set_kernel(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *p)
{
    struct drv_work w = {0};
    if (!IS(node, NODE) || node->type != CU_GRAPH_NODE_TYPE_KERNEL)
        return CUDA_ERROR_INVALID_VALUE;
    return replace(&node->work, kernel_work(&w, p), &w);
}
API(cuGraphKernelNodeSetParams_v2, NEED_CTX, (CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *p), set_kernel(node, p))

/* -- Executable graphs -- */

static void exec_free(CUgraphExec e)
{
    for (int k = 0; k < e->n; k++) {
        drv_work_free(&e->nodes[k].work);
        free(e->nodes[k].deps);
    }
    drv_unref(e->last);
    free(e->nodes);
    e->magic = 0;
    free(e);
}

static int count_nodes(const struct CUgraph_st *g)
{
    int n = 0;
    for (int k = 0; k < g->nodes.n; k++)
        n += g->nodes.at[k]->child ? 2 + count_nodes(g->nodes.at[k]->child) : 1;
    return n;
}

static CUresult append(CUgraphExec e, CUgraphNode node, const int *deps, int ndeps)
{
    struct drv_exec_node *to = &e->nodes[e->n];
    *to = (struct drv_exec_node){.type = node->type, .ndeps = ndeps, .of = node};
    to->deps = malloc((size_t)(ndeps + 1) * sizeof *to->deps);
    if (!to->deps || !drv_work_copy(&to->work, &node->work)) {
        free(to->deps);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (ndeps)
        memcpy(to->deps, deps, (size_t)ndeps * sizeof *deps);
    e->n++;
    return CUDA_SUCCESS;
}

/* Appends a graph's nodes in an order that respects dependencies; its roots follow `after` (-1: nothing). */
static CUresult flatten(CUgraphExec e, CUgraph g, int after)
{
    int placed = 0, n = g->nodes.n, *deps = malloc((size_t)(n + 2) * sizeof *deps);
    CUresult r = deps ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    for (int k = 0; k < n; k++)
        g->nodes.at[k]->exec_index = -1;
    while (!r && placed < n) {
        int before = placed;
        for (int k = 0; !r && k < n; k++) {
            CUgraphNode node = g->nodes.at[k];
            int nd = 0;
            bool ready = node->exec_index < 0;
            for (int d = 0; ready && d < node->deps.n; d++)
                ready = (deps[nd++] = node->deps.at[d]->exec_index) >= 0;
            if (!ready)
                continue;
            if (!nd && after >= 0)
                deps[nd++] = after;
            if (node->child) { /* where it begins, its nodes, where it ends */
                int from = e->n;
                r = append(e, node, deps, nd);
                r = r ? r : flatten(e, node->child, from);
                int m = e->n - from, *all = r ? NULL : malloc((size_t)m * sizeof *all);
                r = r || all ? r : CUDA_ERROR_OUT_OF_MEMORY;
                for (int j = 0; !r && j < m; j++)
                    all[j] = from + j;
                node->exec_index = e->n;
                r = r ? r : append(e, node, all, m);
                free(all);
            } else {
                node->exec_index = e->n;
                r = append(e, node, deps, nd);
            }
            placed++;
        }
        if (placed == before)
            r = CUDA_ERROR_INVALID_VALUE; /* a cycle */
    }
    free(deps);
    return r;
}

static CUresult instantiate(CUgraphExec *out, CUgraph g, uint64_t flags)
{
    if (!out || !IS(g, GRAPH) || flags & ~UINT64_C(15))
        return CUDA_ERROR_INVALID_VALUE;
    CUgraphExec e = calloc(1, sizeof *e);
    if (!e || !(e->nodes = calloc((size_t)count_nodes(g) + 1, sizeof *e->nodes))) {
        free(e);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    e->magic = MAGIC_EXEC;
    CUresult r = flatten(e, g, -1);
    if (r)
        exec_free(e);
    else
        *out = e;
    return r;
}
API(cuGraphInstantiateWithFlags, NEED_CTX, (CUgraphExec * exec, CUgraph graph, uint64_t flags),
    instantiate(exec, graph, flags))

static CUresult exec_destroy(CUgraphExec e)
{
    if (!IS(e, EXEC))
        return CUDA_ERROR_INVALID_VALUE;
    exec_free(e); /* launches that are pending have their own work */
    return CUDA_SUCCESS;
}
API(cuGraphExecDestroy, NEED_INIT, (CUgraphExec exec), exec_destroy(exec))

static CUresult upload(CUgraphExec e, CUstream handle)
{
    CUstream s;
    CUresult r = drv_stream(handle, &s);
    return r ? r : IS(e, EXEC) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
API(cuGraphUpload, NEED_CTX, (CUgraphExec exec, CUstream stream), upload(exec, stream))

/* One op a node, each after its dependencies' or the launch's first op. */
static CUresult push_nodes(CUgraphExec e, struct drv_op **ops, struct drv_op *first)
{
    CUresult r = CUDA_SUCCESS;
    for (int k = 0; k < e->n && !r; k++) {
        struct drv_exec_node *n = &e->nodes[k];
        struct drv_deps deps = {0};
        struct drv_work w;
        for (int d = 0; d < n->ndeps && !r; d++)
            r = drv_dep(&deps, ops[n->deps[d]]);
        r = r || n->ndeps ? r : drv_dep(&deps, first);
        r = r ? r : drv_work_copy(&w, &n->work) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
        if (!r && !(r = drv_push(&deps, &w, &ops[k])))
            ops[k]->in_graph = true;
    }
    return r;
}

static CUresult launch(CUgraphExec e, CUstream handle)
{
    CUstream s;
    struct drv_work mark = {.kind = WORK_MARK}, end = mark;
    struct drv_deps deps = {0};
    CUresult r = drv_stream(handle, &s);
    if (r || !IS(e, EXEC))
        return r ? r : CUDA_ERROR_INVALID_VALUE;
    if (s->capture) {
        s->capture->broken = true;
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    struct drv_op **ops = calloc((size_t)e->n + 1, sizeof *ops), *before = NULL;
    if (!ops)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (e->last && !e->last->done) { /* one launch of it at a time: the stream waits for the last one */
        r = drv_dep(&deps, s->last);
        r = r ? r : drv_dep(&deps, e->last);
        struct drv_work wait = mark;
        wait.ctx = s->ctx;
        if (!r && !(r = drv_push(&deps, &wait, &before))) {
            drv_unref(s->last);
            s->last = before;
        }
    }
    r = r ? r : drv_enqueue(s, &mark, false);
    r = r ? r : push_nodes(e, ops, s->last);
    deps = (struct drv_deps){0};
    r = r ? r : drv_dep(&deps, s->last);
    for (int k = 0; k < e->n && !r; k++)
        r = drv_dep(&deps, ops[k]);
    struct drv_op *last = NULL;
    end.ctx = s->ctx;
    r = r ? r : drv_push(&deps, &end, &last);
    for (int k = 0; k < e->n; k++)
        drv_unref(ops[k]);
    free(ops);
    if (r)
        return r;
    drv_unref(s->last);
    drv_unref(e->last);
    s->last = e->last = last;
    last->refs++;
    return CUDA_SUCCESS;
}
API(cuGraphLaunch, NEED_CTX, (CUgraphExec exec, CUstream stream), launch(exec, stream))

/* -- Updates -- */

static struct drv_exec_node *exec_node(CUgraphExec e, CUgraphNode node, int type)
{
    for (int k = 0; IS(e, EXEC) && k < e->n; k++)
        if (e->nodes[k].of == node && e->nodes[k].type == type)
            return &e->nodes[k];
    return NULL;
}

static CUresult exec_kernel(CUgraphExec e, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *p)
{
    struct drv_exec_node *n = exec_node(e, node, CU_GRAPH_NODE_TYPE_KERNEL);
    struct drv_work w = {0};
    return n ? replace(&n->work, kernel_work(&w, p), &w) : CUDA_ERROR_INVALID_VALUE;
}
API(cuGraphExecKernelNodeSetParams_v2, NEED_CTX, (CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *p),
    exec_kernel(exec, node, p))

static CUresult exec_copy(CUgraphExec e, CUgraphNode node, const CUDA_MEMCPY3D *c, CUcontext ctx)
{
    struct drv_exec_node *n = exec_node(e, node, CU_GRAPH_NODE_TYPE_MEMCPY);
    struct drv_work w = {0};
    return n && IS(ctx, CTX) ? replace(&n->work, copy_work(&w, c), &w) : CUDA_ERROR_INVALID_VALUE;
}
API(cuGraphExecMemcpyNodeSetParams, NEED_CTX,
    (CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D *c, CUcontext ctx), exec_copy(exec, node, c, ctx))

enum { UPDATE_SUCCESS, UPDATE_ERROR, UPDATE_TOPOLOGY, UPDATE_NODE_TYPE };

static int differs(const struct CUgraphExec_st *a, const struct CUgraphExec_st *b, CUgraphNode *where)
{
    if (a->n != b->n)
        return UPDATE_TOPOLOGY;
    for (int k = 0; k < a->n; k++) {
        *where = b->nodes[k].of;
        if (a->nodes[k].type != b->nodes[k].type)
            return UPDATE_NODE_TYPE;
        if (a->nodes[k].ndeps != b->nodes[k].ndeps ||
            memcmp(a->nodes[k].deps, b->nodes[k].deps, (size_t)a->nodes[k].ndeps * sizeof(int)) != 0)
            return UPDATE_TOPOLOGY;
    }
    *where = NULL;
    return UPDATE_SUCCESS;
}

static CUresult update(CUgraphExec e, CUgraph g, CUgraphExecUpdateResultInfo *info)
{
    CUgraphExec fresh = NULL;
    CUgraphNode where = NULL;
    if (!IS(e, EXEC) || !info)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult r = instantiate(&fresh, g, 0);
    *info = (CUgraphExecUpdateResultInfo){.result = UPDATE_ERROR};
    if (r)
        return r;
    info->result = differs(e, fresh, &where);
    info->error_node = where;
    if (info->result == UPDATE_SUCCESS) {
        struct drv_exec_node *nodes = e->nodes;
        e->nodes = fresh->nodes;
        fresh->nodes = nodes;
        for (int k = 0; k < e->n; k++) /* setters go on naming the nodes of the first graph */
            e->nodes[k].of = nodes[k].of;
    }
    exec_free(fresh);
    return info->result == UPDATE_SUCCESS ? CUDA_SUCCESS : CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
}
API(cuGraphExecUpdate_v2, NEED_CTX, (CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo *info),
    update(exec, graph, info))
