/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scalar.c - parses the bodies of scalar.def, once, into shared expression graphs (their language: formula.c).
 *
 * Words called in a body are primitive ones. Equal sub-expressions become one node, so what is written twice is
 * computed once; a node's operands stand before it. A row that does not parse has no body (NULL): the unit test of this
 * file meets every row, so such a table is never released.
 */
#include <pthread.h>
#include <string.h>

#include "ir/ir.h"
#include "ir/scalar_int.h"

#define MAX_NODES 40

static const struct ir_scalar_row rows[] = {
#define SCALAR(name, nargs, types, flags, body, doc) {IR_##name, #name, nargs, IR_ST_##types, body},
#include "ir/scalar.def"
};
#define NROWS (int)(sizeof rows / sizeof *rows)

static struct ir_scalar_node nodes[NROWS][MAX_NODES];
static struct ir_scalar_body bodies[NROWS];

/* The nodes of a body that is being read; to its reader a node is the address of its place here. */
struct graph {
    int nargs, n;
    struct ir_scalar_node *nodes;
};

const struct ir_scalar_row *ir_scalar_row(enum ir_op op)
{
    int first = rows[0].op;
    return (int)op >= first && (int)op < first + NROWS ? &rows[(int)op - first] : NULL;
}

static void *add_node(struct graph *g, struct ir_scalar_node node)
{
    for (int i = 0; i < g->n; i++)
        if (g->nodes[i].kind == node.kind && g->nodes[i].op == node.op && g->nodes[i].value == node.value &&
            !memcmp(g->nodes[i].arg, node.arg, sizeof node.arg))
            return &g->nodes[i];
    if (g->n == MAX_NODES)
        return NULL;
    g->nodes[g->n] = node;
    return &g->nodes[g->n++];
}

static void *number(void *user, double v)
{
    return add_node(user, (struct ir_scalar_node){.kind = IR_S_CONST, .value = v, .arg = {-1, -1, -1}});
}

/* The operands are the first nodes. */
static void *operand(void *user, char c)
{
    struct graph *g = user;
    return c >= 'x' && c < 'x' + g->nargs ? &g->nodes[c - 'x'] : NULL;
}

static void *call(void *user, const char *word, int n, void *const *args)
{
    struct graph *g = user;
    struct ir_scalar_node node = {.kind = IR_S_CALL, .arg = {-1, -1, -1}};
    for (int i = 0; i < n; i++) {
        if (!args[i])
            return NULL;
        node.arg[i] = (int16_t)((const struct ir_scalar_node *)args[i] - g->nodes);
    }
    for (int i = 0; i < NROWS; i++)
        if (!strcmp(rows[i].name, word) && !rows[i].body[0] && rows[i].nargs == n) {
            node.op = (uint16_t)rows[i].op;
            return add_node(g, node);
        }
    return NULL;
}

static void read_row(const struct ir_scalar_row *row, struct ir_scalar_node *to, struct ir_scalar_body *body)
{
    struct graph g = {.nargs = row->nargs, .nodes = to};
    void *args[3] = {NULL};
    for (int i = 0; i < row->nargs; i++)
        args[i] = add_node(&g, (struct ir_scalar_node){.kind = IR_S_ARG, .arg = {(int16_t)i, -1, -1}});
    const struct ir_scalar_node *last =
        row->body[0] ? ir_read_formula(&(struct ir_reading){&g, number, operand, call}, row->body)
                     : call(&g, row->name, row->nargs, args);
    /* The result is the last node, unless the row is malformed (or says just "x"). */
    if (last != &to[g.n - 1])
        return;
    *body = (struct ir_scalar_body){.nargs = row->nargs, .primitive = !row->body[0], .nnodes = g.n, .nodes = to};
}

static void read_rows(void)
{
    for (int i = 0; i < NROWS; i++)
        read_row(&rows[i], nodes[i], &bodies[i]);
}

const struct ir_scalar_body *ir_scalar_body(enum ir_op map_op)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    const struct ir_scalar_row *row = ir_scalar_row(map_op);
    if (!row)
        return NULL;
    pthread_once(&once, read_rows);
    const struct ir_scalar_body *body = &bodies[row - rows];
    return body->nnodes ? body : NULL;
}
