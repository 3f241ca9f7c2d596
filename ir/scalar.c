/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scalar.c - parses the bodies of scalar.def, once, into shared expression graphs.
 *
 *   sum     = product { ("+" | "-") product }
 *   product = factor { ("*" | "/") factor }
 *   factor  = "-" factor | number | "x" | "y" | "z" | word "(" sum { "," sum } ")" | "(" sum ")"
 *
 * Words called in a body are primitive ones. Equal sub-expressions become one node, so what is written twice is
 * computed once; a node's operands stand before it. A row that does not parse has no body (NULL): the unit test of this
 * file meets every row, so such a table is never released.
 */
#include <ctype.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "ir/ir.h"
#include "ir/scalar_int.h"

#define MAX_NODES 40

static const struct ir_scalar_row rows[] = {
#define SCALAR(name, nargs, types, flags, body, doc) {IR_##name, #name, nargs, IR_ST_##types, body},
#include "ir/scalar.def"
#undef SCALAR
};
#define NROWS (int)(sizeof rows / sizeof *rows)

static struct ir_scalar_node nodes[NROWS][MAX_NODES];
static struct ir_scalar_body bodies[NROWS];

struct reader {
    const char *at;
    int nargs;
    struct ir_scalar_node *nodes;
    int n;
    bool bad;
};

static const struct ir_scalar_row *row_of(enum ir_op op)
{
    int first = rows[0].op;
    return (int)op >= first && (int)op < first + NROWS ? &rows[(int)op - first] : NULL;
}

const struct ir_scalar_row *ir_scalar_row(enum ir_op op)
{
    return row_of(op);
}

static int add_node(struct reader *r, struct ir_scalar_node node)
{
    for (int i = 0; i < r->n; i++)
        if (r->nodes[i].kind == node.kind && r->nodes[i].op == node.op && r->nodes[i].value == node.value &&
            !memcmp(r->nodes[i].arg, node.arg, sizeof node.arg))
            return i;
    if (r->n == MAX_NODES) {
        r->bad = true;
        return 0;
    }
    r->nodes[r->n] = node;
    return r->n++;
}

static int call(struct reader *r, enum ir_op op, int n, const int *args)
{
    struct ir_scalar_node node = {.kind = IR_S_CALL, .op = (uint16_t)op, .arg = {-1, -1, -1}};
    for (int i = 0; i < n; i++)
        node.arg[i] = (int16_t)args[i];
    return add_node(r, node);
}

static int sum(struct reader *r);

static bool eat(struct reader *r, char c)
{
    r->at += strspn(r->at, " ");
    if (*r->at != c)
        return false;
    r->at++;
    return true;
}

static int call_word(struct reader *r, const char *word, size_t length)
{
    int args[3], n = 0;
    do {
        int a = sum(r);
        if (n < 3)
            args[n] = a;
        n++;
    } while (eat(r, ',') && !r->bad);
    r->bad |= !eat(r, ')');
    for (int i = 0; i < NROWS; i++) {
        if (strlen(rows[i].name) != length || strncmp(rows[i].name, word, length))
            continue;
        if (rows[i].body[0] || rows[i].nargs != n)
            break;
        return call(r, rows[i].op, n, args);
    }
    r->bad = true;
    return 0;
}

static int factor(struct reader *r)
{
    struct ir_scalar_node node = {.arg = {-1, -1, -1}};
    if (r->bad)
        return 0;
    if (eat(r, '-')) {
        int a = factor(r);
        return call(r, IR_neg, 1, &a);
    }
    if (eat(r, '(')) {
        int a = sum(r);
        r->bad |= !eat(r, ')');
        return a;
    }
    r->at += strspn(r->at, " ");
    if (isdigit((unsigned char)*r->at)) {
        char *end;
        node.kind = IR_S_CONST;
        node.value = strtod(r->at, &end);
        r->at = end;
        return add_node(r, node);
    }
    const char *word = r->at;
    while (isalnum((unsigned char)*r->at) || *r->at == '_')
        r->at++;
    size_t length = (size_t)(r->at - word);
    if (length && eat(r, '('))
        return call_word(r, word, length);
    if (length == 1 && *word >= 'x' && *word < 'x' + r->nargs)
        return *word - 'x'; /* the operands are the first nodes */
    r->bad = true;
    return 0;
}

static int product(struct reader *r)
{
    int args[2] = {factor(r), 0};
    for (;;) {
        enum ir_op op = eat(r, '*') ? IR_mul : eat(r, '/') ? IR_div : IR_OP_NONE;
        if (op == IR_OP_NONE || r->bad)
            return args[0];
        args[1] = factor(r);
        args[0] = call(r, op, 2, args);
    }
}

static int sum(struct reader *r)
{
    int args[2] = {product(r), 0};
    for (;;) {
        enum ir_op op = eat(r, '+') ? IR_add : eat(r, '-') ? IR_sub : IR_OP_NONE;
        if (op == IR_OP_NONE || r->bad)
            return args[0];
        args[1] = product(r);
        args[0] = call(r, op, 2, args);
    }
}

static void read_row(const struct ir_scalar_row *row, struct ir_scalar_node *to, struct ir_scalar_body *body)
{
    struct reader r = {.at = row->body, .nargs = row->nargs, .nodes = to};
    int args[3] = {0, 1, 2}, last;
    for (int i = 0; i < row->nargs; i++)
        add_node(&r, (struct ir_scalar_node){.kind = IR_S_ARG, .arg = {(int16_t)i, -1, -1}});
    if (row->body[0])
        last = sum(&r);
    else
        last = call(&r, row->op, row->nargs, args);
    /* The result is the last node, unless the row is malformed (or says just "x"). */
    if (r.bad || *r.at || last != r.n - 1)
        return;
    *body = (struct ir_scalar_body){.nargs = row->nargs, .primitive = !row->body[0], .nnodes = r.n, .nodes = to};
}

static void read_rows(void)
{
    for (int i = 0; i < NROWS; i++)
        read_row(&rows[i], nodes[i], &bodies[i]);
}

const struct ir_scalar_body *ir_scalar_body(enum ir_op map_op)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    const struct ir_scalar_row *row = row_of(map_op);
    if (!row)
        return NULL;
    pthread_once(&once, read_rows);
    const struct ir_scalar_body *body = &bodies[row - rows];
    return body->nnodes ? body : NULL;
}
