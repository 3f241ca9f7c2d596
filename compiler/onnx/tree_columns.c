/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tree ensembles: what nodes compare, as the columns of runtime/trees.h. Each node asks for a key: a feature, how it is
 * compared, and with what. Keys in order are the columns' cuts; a set is a column of its own. x > c is x <= c with the
 * branches exchanged, x == c is a set of one.
 */
#include "compiler/onnx/tree_int.h"

#include "runtime/trees.h"

#include <math.h>
#include <stdlib.h>

enum { NO_SET = -1, EMPTY = -2 };

struct tree_key {
    int64_t feature;
    int flags;
    int64_t set; /* the place of its members, or these */
    double cut;
    int64_t column;
    int rank;
};

static const struct {
    int flags;
    bool exchanged;
} forms[] = {[LEQ] = {0, false},         [LT] = {COLUMN_LT, false},  [GTE] = {COLUMN_LT, true},     [GT] = {0, true},
             [EQ] = {COLUMN_SET, false}, [NEQ] = {COLUMN_SET, true}, [MEMBER] = {COLUMN_SET, false}};

static int by_key(const void *a, const void *b)
{
    const struct tree_key *x = a, *y = b;
    if (x->feature != y->feature)
        return x->feature < y->feature ? -1 : 1;
    if (x->flags != y->flags)
        return x->flags < y->flags ? -1 : 1;
    if (x->set != y->set)
        return x->set < y->set ? -1 : 1;
    return (x->cut > y->cut) - (x->cut < y->cut);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Is a value never equal to c? */
static bool is_nobody(const struct tree_columns_made *c, double v)
{
    return isnan(v) || (c->narrow && (double)(float)v != v);
}

/* For floats x: x <= c is x <= the next float below, x < c is x < the next float above. */
static double as_float(double c, bool lt)
{
    float f = (float)c;
    if (lt ? (double)f < c : (double)f > c)
        f = nextafterf(f, lt ? INFINITY : -INFINITY);
    return (double)f;
}

/* Is the comparison made with the branches exchanged? One with NaN is not: it never holds, whichever it is. */
static bool exchanged(const struct tree_node *n)
{
    return forms[n->mode].exchanged && (n->mode == NEQ || !isnan(n->split));
}

static struct tree_key key_of(const struct tree_columns_made *c, const struct tree_node *n)
{
    /* x != c is true of NaN without being asked: as the exchanged x == c, which is not */
    bool nan_yes = n->mode != NEQ && n->nan_yes != exchanged(n);
    int flags = forms[n->mode].flags;
    struct tree_key k = {.feature = n->feature, .set = NO_SET, .cut = n->split + 0.0}; /* zeros are equal */
    if (n->mode == MEMBER) {
        k.set = n->first;
        k.cut = 0;
    } else if (isnan(n->split) || (flags & COLUMN_SET && is_nobody(c, n->split))) { /* nobody compares with NaN */
        flags = COLUMN_SET;
        k.set = EMPTY;
        k.cut = 0;
    } else if (c->narrow && !(flags & COLUMN_SET)) {
        k.cut = as_float(n->split, (flags & COLUMN_LT) != 0) + 0.0;
    }
    k.flags = flags | (nan_yes ? COLUMN_NAN_YES : 0);
    return k;
}

struct tree_place tree_place_of(const struct tree_columns_made *c, const struct tree_node *n)
{
    struct tree_key key = key_of(c, n);
    const struct tree_key *k = bsearch(&key, c->keys, (size_t)c->nkeys, sizeof *k, by_key);
    return (struct tree_place){k->column, k->rank, exchanged(n)};
}

/* The cuts of a set: its members in order, each once. */
static void put_set(struct tree_columns_made *c, int64_t at)
{
    double *from = c->cuts + c->ncuts, *to = from;
    int64_t n = 0;
    for (; at < c->f->nmembers && !isnan(c->f->members[at]); at++)
        if (!is_nobody(c, c->f->members[at]))
            from[n++] = c->f->members[at] + 0.0;
    qsort(from, (size_t)n, sizeof *from, by_value);
    for (int64_t i = 0; i < n; i++)
        if (!i || from[i] != to[-1])
            *to++ = from[i];
    c->ncuts += to - from;
}

/* Does key i begin a column? */
static bool begins(const struct tree_columns_made *c, int64_t i, int64_t cuts)
{
    const struct tree_key *k = &c->keys[i];
    return !i || k->flags & COLUMN_SET || cuts == COLUMN_CUTS_MOST || k[-1].feature != k->feature ||
           k[-1].flags != k->flags;
}

static bool put_columns(struct tree_columns_made *c)
{
    int32_t *column = c->columns - COLUMN_WORDS;
    for (int64_t i = 0; i < c->nkeys; i++) {
        struct tree_key *k = &c->keys[i];
        if (begins(c, i, i ? c->ncuts - column[COLUMN_FIRST] : 0)) {
            column += COLUMN_WORDS;
            column[COLUMN_FEATURE] = (int32_t)k->feature;
            column[COLUMN_FLAGS] = k->flags;
            column[COLUMN_FIRST] = (int32_t)c->ncuts;
            c->ncolumns++;
        }
        k->column = c->ncolumns - 1;
        k->rank = k->flags & COLUMN_SET ? 0 : (int)(c->ncuts - column[COLUMN_FIRST]);
        if (k->set >= 0)
            put_set(c, k->set);
        else if (k->set == NO_SET)
            c->cuts[c->ncuts++] = k->cut;
        if (c->ncuts - column[COLUMN_FIRST] > COLUMN_CUTS_MOST)
            return imp_unsupported(c->f->im, "a set of more than %d members", COLUMN_CUTS_MOST);
        column[COLUMN_CUTS] = (int32_t)(c->ncuts - column[COLUMN_FIRST]);
    }
    return c->ncolumns <= NODE_MOST || imp_unsupported(c->f->im, "more than 2^24 comparisons of features");
}

/* How many members the sets have that nodes name, those of a set that several nodes name as often. */
static int64_t count_members(const struct tree_forest *f)
{
    int64_t n = 0;
    for (int64_t i = 0; i < f->nnodes; i++)
        for (int64_t at = f->nodes[i].first; f->nodes[i].mode == MEMBER && at < f->nmembers && !isnan(f->members[at]);
             at++)
            n++;
    return n;
}

bool tree_columns_make(const struct tree_forest *f, bool narrow, struct tree_columns_made *c)
{
    struct ir_ctx *ctx = f->im->ctx;
    int64_t n = 0;
    *c = (struct tree_columns_made){.f = f, .narrow = narrow};
    c->keys = IR_NEWN(ctx, f->nnodes + 1, struct tree_key);
    for (int64_t i = 0; i < f->nnodes; i++)
        if (f->nodes[i].mode != LEAF)
            c->keys[n++] = key_of(c, &f->nodes[i]);
    qsort(c->keys, (size_t)n, sizeof *c->keys, by_key);
    for (int64_t i = 0; i < n; i++)
        if (!i || by_key(&c->keys[i], &c->keys[c->nkeys - 1]))
            c->keys[c->nkeys++] = c->keys[i];
    c->columns = IR_NEWN(ctx, (c->nkeys + 1) * COLUMN_WORDS, int32_t);
    c->cuts = IR_NEWN(ctx, c->nkeys + count_members(f) + 1, double);
    if (!put_columns(c))
        return false;
    c->ncolumns += !c->ncolumns; /* an empty operand is none */
    c->ncuts += !c->ncuts;
    return true;
}
