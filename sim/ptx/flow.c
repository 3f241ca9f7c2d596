/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the lanes of a diverged branch meet again: the immediate post-dominator of the branch's block, by the iterative
 * algorithm of Cooper, Harvey and Kennedy, "A Simple, Fast Dominance Algorithm", run on the reversed graph with one
 * virtual exit.
 */
#include "sim/ptx/text_int.h"

struct flow {
    int n;           /* blocks; block n is the exit */
    int *start, *of; /* first instruction of a block; block of an instruction */
    int (*succ)[2];
    int *pred_at, *pred; /* predecessors by block */
    int *order, *number; /* post-order from the exit over reversed edges */
    int *ipdom;
};

static bool ends(const struct ptx_insn *i)
{
    return i->kind == K_BRANCH || i->kind == K_RETURN || i->kind == K_EXIT;
}

static void find_blocks(struct ptx_parse *p, const struct ptx_func *f, struct flow *g)
{
    uint8_t *leader = ptx_new(p, (size_t)f->ncode + 1);
    leader[0] = 1;
    for (int k = 0; k < f->ncode; k++)
        if (ends(&f->code[k])) {
            leader[k + 1] = 1;
            if (f->code[k].kind == K_BRANCH)
                leader[f->code[k].target] = 1;
        }
    g->start = ptx_new(p, sizeof(int) * ((size_t)f->ncode + 2));
    g->of = ptx_new(p, sizeof(int) * ((size_t)f->ncode + 1));
    for (int k = 0; k < f->ncode; k++) {
        if (leader[k])
            g->start[g->n++] = k;
        g->of[k] = g->n - 1;
    }
    g->start[g->n] = f->ncode;
}

static void find_edges(struct ptx_parse *p, const struct ptx_func *f, struct flow *g)
{
    size_t n = (size_t)g->n + 1;
    g->succ = ptx_new(p, sizeof *g->succ * n);
    g->pred_at = ptx_new(p, sizeof(int) * (n + 1));
    g->pred = ptx_new(p, sizeof(int) * 2 * n);
    for (int b = 0; b < g->n; b++) {
        const struct ptx_insn *last = &f->code[g->start[b + 1] - 1];
        int after = b + 1 < g->n ? b + 1 : g->n;
        bool guarded = last->flags & F_GUARD;
        g->succ[b][0] = last->kind == K_BRANCH ? g->of[last->target] : ends(last) ? g->n : after;
        g->succ[b][1] = ends(last) && guarded ? after : -1;
        for (int e = 0; e < 2; e++)
            if (g->succ[b][e] >= 0)
                g->pred_at[g->succ[b][e] + 1]++;
    }
    g->succ[g->n][0] = g->succ[g->n][1] = -1;
    for (size_t b = 0; b < n; b++)
        g->pred_at[b + 1] += g->pred_at[b];
    int *fill = ptx_new(p, sizeof(int) * n);
    for (int b = 0; b < g->n; b++)
        for (int e = 0; e < 2; e++)
            if (g->succ[b][e] >= 0)
                g->pred[g->pred_at[g->succ[b][e]] + fill[g->succ[b][e]]++] = b;
}

/* Post-order of the reversed graph, without recursion. */
static int number_blocks(struct ptx_parse *p, struct flow *g)
{
    size_t n = (size_t)g->n + 1;
    int *stack = ptx_new(p, sizeof(int) * n), *edge = ptx_new(p, sizeof(int) * n), depth = 0, count = 0;
    g->order = ptx_new(p, sizeof(int) * n);
    g->number = ptx_new(p, sizeof(int) * n);
    for (size_t b = 0; b < n; b++)
        g->number[b] = -1;
    stack[depth++] = g->n;
    g->number[g->n] = -2;
    while (depth) {
        int b = stack[depth - 1], next = -1;
        while (edge[b] < g->pred_at[b + 1] - g->pred_at[b] && next < 0) {
            int to = g->pred[g->pred_at[b] + edge[b]++];
            next = g->number[to] == -1 ? to : -1;
        }
        if (next >= 0) {
            g->number[next] = -2;
            stack[depth++] = next;
        } else {
            g->order[count] = b;
            g->number[b] = count++;
            depth--;
        }
    }
    return count;
}

static int meet(const struct flow *g, int a, int b)
{
    while (a != b) {
        while (g->number[a] < g->number[b])
            a = g->ipdom[a];
        while (g->number[b] < g->number[a])
            b = g->ipdom[b];
    }
    return a;
}

static void find_ipdom(struct ptx_parse *p, struct flow *g, int count)
{
    bool changed = true;
    g->ipdom = ptx_new(p, sizeof(int) * ((size_t)g->n + 1));
    for (int b = 0; b <= g->n; b++)
        g->ipdom[b] = -1;
    g->ipdom[g->n] = g->n;
    while (changed) {
        changed = false;
        for (int k = count - 2; k >= 0; k--) {
            int b = g->order[k], best = -1;
            for (int e = 0; e < 2; e++) {
                int to = g->succ[b][e];
                if (to >= 0 && g->ipdom[to] >= 0)
                    best = best < 0 ? to : meet(g, best, to);
            }
            changed |= best != g->ipdom[b];
            g->ipdom[b] = best;
        }
    }
}

void ptx_flow(struct ptx_parse *p, struct ptx_func *f)
{
    struct flow g = {0};
    find_blocks(p, f, &g);
    find_edges(p, f, &g);
    find_ipdom(p, &g, number_blocks(p, &g));
    for (int k = 0; k < f->ncode; k++)
        if (f->code[k].kind == K_BRANCH) {
            int at = g.ipdom[g.of[k]]; /* -1: an endless loop; n: the exit */
            f->code[k].rejoin = at >= 0 && at < g.n ? g.start[at] : -1;
        }
}
