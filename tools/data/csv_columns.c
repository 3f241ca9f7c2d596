/* SPDX-License-Identifier: Apache-2.0 */
/*
 * csv_columns.c - which columns of a table an input takes: the ones that are asked for by name or number, or those that
 * training had, in its order; which of them hold categories, and whether they are the ones that training saw.
 */
#include "tools/data/csv_int.h"

#include <stdlib.h>
#include <string.h>

static int column_named(const struct csv_table *t, const char *name, size_t n)
{
    for (int i = 0; i < t->ncolumns; i++)
        if (csv_same(t->names[i], name, n))
            return i;
    return -1;
}

static int columns_named(const struct csv_table *t, const char *name, size_t n)
{
    int count = 0;

    for (int i = 0; i < t->ncolumns; i++)
        count += csv_same(t->names[i], name, n);
    return count;
}

/* Is that the name at `s` of a list A+B? */
static bool is_listed(struct csv_span name, const char *s)
{
    const char *behind = data_item_behind(s, "+", name.at, name.n);

    return behind && (!*behind || *behind == '+');
}

static bool is_input(const struct data_request *q, struct csv_span name)
{
    for (int i = 0; i < q->ninputs; i++)
        if (csv_same(name, q->inputs[i].name, strlen(q->inputs[i].name)))
            return true;
    return false;
}

/* Does another argument name that column of the file: INPUT=FILE:A+B or INPUT=FILE,columns=A+B? */
static bool is_given(const struct data_request *q, struct csv_span name)
{
    for (int k = 0; k < q->nwords; k++) {
        const struct data_words *w = &q->words[k];
        const char *list = w->name ? w->name : w->o.columns;

        if (w->input < 0 || strcmp(w->path, q->path))
            continue;
        for (; list && *list; list += data_item(list, "+"), list += *list == '+')
            if (is_listed(name, list))
                return true;
    }
    return false;
}

bool csv_takes_text(const struct csv_table *t)
{
    const struct data_request *q = t->q;
    const char *name = q->info->name;
    bool other = t->lines || (column_named(t, name, strlen(name)) < 0 && strcmp(name, "target") != 0);

    if (q->named || q->o->table->tokens)
        return q->o->tokens || q->o->table->tokens;
    return q->o->tokens && other && q->info->rank == 2 && tcc_is_int((enum tcc_dtype)q->info->dtype);
}

static void list_names(const struct csv_table *t, char *to, size_t room)
{
    size_t used = 0;

    *to = '\0';
    for (int i = 0; i < t->ncolumns && used < room - 80; i++)
        used += (size_t)snprintf(to + used, room - used, "%s'%.*s'", i ? ", " : "",
                                 (int)(t->names[i].n < 60 ? t->names[i].n : 60), t->names[i].at);
}

/* Columns of a list A+B+C. */
static int named_columns(const struct csv_table *t, const char *list, struct csv_column *c, char *error)
{
    char names[400];
    int n = 0;

    for (const char *s = list; n < t->ncolumns; s++) {
        size_t length = data_item(s, "+");
        int count = 0;
        for (int i = t->ncolumns - 1; i >= 0; i--)
            if (is_listed(t->names[i], s)) {
                c[n].at = i;
                count++;
            }
        if (!count) {
            list_names(t, names, sizeof names);
            return put_error(error, "%s: no column '%.*s'; it has %s", t->q->path, (int)length, s, names), 0;
        }
        if (count > 1)
            return put_error(error, "%s: %d columns are called '%.*s': which one?", t->q->path, count, (int)length, s),
                   0;
        n++;
        s += length;
        if (!*s)
            break;
    }
    return n;
}

static const char *asked_columns(const struct data_request *q)
{
    return q->name ? q->name : q->o->columns;
}

/* Those that the request is for: columns=, FILE:NAME, the input's own name, else (floats) all that are no input's. */
static int choose_columns(const struct csv_table *t, struct csv_column *c, bool *found, char *error)
{
    const struct data_request *q = t->q;
    const char *list = asked_columns(q);
    int n = 0, own = column_named(t, q->info->name, strlen(q->info->name));

    bool wants = q->named || q->name || t->text || tcc_is_float((enum tcc_dtype)q->info->dtype);

    if (list && wants && (q->named || own < 0))
        return named_columns(t, list, c, error);
    if (own >= 0) {
        c[0].at = own;
        return 1;
    }
    for (int i = 0; i < t->ncolumns && tcc_is_float((enum tcc_dtype)q->info->dtype); i++)
        if (!is_input(q, t->names[i]) && !is_given(q, t->names[i]))
            c[n++].at = i;
    *found = n > 0 || q->named;
    if (!n) {
        char names[400];
        list_names(t, names, sizeof names);
        snprintf(error, ERROR_SIZE, "%s: no column for input '%s': NAME=FILE:COLUMN, or columns=A+B; it has %s",
                 q->path, q->info->name, names);
    }
    return n;
}

/* The next column of that name behind `after`: names may be there twice. */
static int column_after(const struct csv_table *t, const char *name, int after)
{
    for (int i = after + 1; i < t->ncolumns; i++)
        if (csv_same(t->names[i], name, strlen(name)))
            return i;
    return -1;
}

/* Training's columns, in its order, where this file has them. */
static int known_columns(const struct csv_table *t, struct csv_column *c, char *error)
{
    const struct data_table *known = t->q->o->table;
    char names[400];

    for (int k = 0; k < known->ncolumns; k++) {
        const char *name = known->columns[k].name;
        int after = -1, here = columns_named(t, name, strlen(name)), then = 0;
        for (int i = 0; i < known->ncolumns; i++)
            then += !strcmp(known->columns[i].name, name);
        if (here > then)
            return put_error(error, "%s: %d columns are called '%.80s', of which input '%s' was trained with %d",
                             t->q->path, here, name, known->input, then),
                   0;
        for (int i = 0; i < k; i++)
            after = !strcmp(known->columns[i].name, name) && c[i].at > after ? c[i].at : after;
        if ((c[k].at = column_after(t, name, after)) < 0) {
            list_names(t, names, sizeof names);
            return put_error(error, "%s: no column '%.80s', which input '%s' was trained with; it has %s", t->q->path,
                             name, known->input, names),
                   0;
        }
    }
    return known->ncolumns;
}

/* Columns that are asked for by name stand for training's, one by one; those that have a name of its table must be
 * where that is. */
static int renamed_columns(const struct csv_table *t, struct csv_column *c, char *error)
{
    const struct data_table *known = t->q->o->table;
    int n = named_columns(t, asked_columns(t->q), c, error);

    if (n && n != known->ncolumns)
        return put_error(error, "%s: %d column%s for input '%s', which was trained with %d", t->q->path, n,
                         n == 1 ? "" : "s", known->input, known->ncolumns),
               0;
    for (int k = 0; k < n; k++)
        for (int i = 0; i < n; i++) {
            struct csv_span s = t->names[c[k].at];
            if (!csv_same(s, known->columns[i].name, strlen(known->columns[i].name)) ||
                csv_same(s, known->columns[k].name, strlen(known->columns[k].name)))
                continue;
            return put_error(error, "%s: column '%.80s' is number %d of input '%s'; in training it was number %d",
                             t->q->path, known->columns[i].name, k + 1, known->input, i + 1),
                   0;
        }
    return n;
}

static const char *entry_of(const char *s, struct csv_span name)
{
    const char *behind = data_item_behind(s, ";", name.at, name.n);

    return behind && *behind == ':' ? behind + 1 : NULL;
}

static const char *next_entry(const char *s)
{
    s += data_item(s, ";");
    return s + (*s == ';');
}

const char *csv_listed(const struct csv_table *t, const char *list, int at)
{
    const char *found = NULL;

    for (const char *s = list; s && *s && !found; s = next_entry(s))
        found = entry_of(s, t->names[at]);
    return found;
}

/* The entries of categories= or encode= are of columns that there are. */
static bool check_listed(const struct csv_table *t, const char *key, const char *list, char *error)
{
    char names[400];

    for (const char *s = list; s && *s; s = next_entry(s)) {
        bool known = *key == 'e' && !strncmp(s, "*:", 2);
        for (int i = 0; i < t->ncolumns && !known; i++)
            known = entry_of(s, t->names[i]) != NULL;
        if (known)
            continue;
        list_names(t, names, sizeof names);
        return put_error(error, "%s: %s=%.*s is of no column; expected COLUMN:A+B, and there are %s", t->q->path, key,
                         (int)(data_item(s, ";") < 60 ? data_item(s, ";") : 60), s, names);
    }
    return true;
}

/* categories= of a new column. */
static bool list_classes(const struct csv_table *t, const struct csv_column *c, char *error)
{
    const char *list = csv_listed(t, t->q->o->categories, c->at);

    c->of->numbers = !list;
    for (const char *s = list; s; s++) {
        size_t n = data_item(s, "+;"), used = 0;
        char *name = malloc(n + 1);
        if (!name)
            return csv_no_memory(error);
        for (size_t i = 0; i < n; i++) {
            i += s[i] == '\\' && i + 1 < n;
            name[used++] = s[i];
        }
        bool ok = data_class_list(c->of, name, used, error);
        free(name);
        if (!ok)
            return false;
        s += n;
        if (*s != '+')
            break;
    }
    return true;
}

/* categories= of a column that training had. */
static bool same_classes(const struct csv_table *t, const struct csv_column *c, char *error)
{
    const char *s = csv_listed(t, t->q->o->categories, c->at);
    char names[400];
    bool same = true;
    int k = 0;

    for (; same && k < c->of->nclasses; k++) {
        const char *behind = data_item_behind(s, "+;", c->of->classes[k], strlen(c->of->classes[k]));
        same = behind && (!*behind || *behind == '+' || *behind == ';');
        s = same ? behind + (*behind == '+') : s;
    }
    if (same && k && (!*s || *s == ';'))
        return true;
    data_class_names(c->of, names, sizeof names);
    return put_error(error, "%s: categories= of column '%.80s' are not those of training: %s", t->q->path, c->of->name,
                     c->of->numbers ? "it had numbers" : names);
}

/* -- encode= ------------------------------------------------------------------------------------------------------- */

/* Words of `*` are for what has none of its own: categories have them with onehot, numbers the others. Columns that an
 * input is called after have to be named. */
static bool others_encoding(const struct csv_table *t, const struct csv_column *c, struct data_encoding *e, bool *any,
                            char *error)
{
    const struct tccrt_value_info *info = t->q->info;
    bool own = !t->q->named && csv_same(t->names[c->at], info->name, strlen(info->name));

    for (const char *s = t->q->o->encode; s && *s && !*any; s = next_entry(s)) {
        if (strncmp(s, "*:", 2))
            continue;
        if (!data_encoding_read(s + 2, strcspn(s + 2, ";"), e, error))
            return false;
        if (e->nparts && e->parts[0] != ENCODE_onehot)
            return put_error(error, "%s: encode=*: which columns are of dates has to be said", t->q->path);
        *any = !own && tcc_is_float((enum tcc_dtype)info->dtype) && !c->of->dates && c->of->numbers == !e->nparts;
    }
    return true;
}

/* What encode= says of the column; *any false: nothing. */
static bool asked_encoding(const struct csv_table *t, const struct csv_column *c, struct data_encoding *e, bool *any,
                           char *error)
{
    const char *own = csv_listed(t, t->q->o->encode, c->at);
    struct data_encoding found = {0};

    *any = own != NULL;
    if (!(own ? data_encoding_read(own, strcspn(own, ";"), &found, error) : others_encoding(t, c, &found, any, error)))
        return false;
    *e = *any ? found : (struct data_encoding){0};
    return true;
}

/* A new column's own words; they say whether it is of dates, and that numbers are names of categories. */
static bool own_encoding(const struct csv_table *t, struct csv_column *c, char *error)
{
    struct data_encoding *e = &c->of->encoding;
    bool any;

    if (!csv_listed(t, t->q->o->encode, c->at))
        return true;
    if (!asked_encoding(t, c, e, &any, error))
        return false;
    bool onehot = e->nparts && e->parts[0] == ENCODE_onehot;
    if (!tcc_is_float((enum tcc_dtype)t->q->info->dtype) && (onehot || e->curve || e->scale))
        return put_error(error, "%s: encode= of column '%.80s' makes floats; input '%s' takes integers", t->q->path,
                         c->of->name, t->q->info->name);
    c->of->dates = e->nparts && !onehot;
    if (c->of->dates && !c->of->numbers)
        return put_error(error, "%s: column '%.80s' is of categories (categories=) or of dates (encode=), not of both",
                         t->q->path, c->of->name);
    c->of->numbers &= !onehot;
    return true;
}

bool csv_encode_others(struct csv_table *t, struct csv_column *c, char *error)
{
    bool any;

    return asked_encoding(t, c, &c->of->encoding, &any, error);
}

/* encode= of a column that training had. */
static bool same_encoding(const struct csv_table *t, const struct csv_column *c, char *error)
{
    struct data_encoding e;
    char had[160];
    bool any;

    if (!asked_encoding(t, c, &e, &any, error))
        return false;
    if (!any || !memcmp(&e, &c->of->encoding, sizeof e))
        return true;
    data_encoding_text(&c->of->encoding, had, sizeof had);
    return put_error(error, "%s: encode= of column '%.80s' is not that of training (%s): leave it out", t->q->path,
                     c->of->name, had);
}

/* -- The columns --------------------------------------------------------------------------------------------------- */

/* The table's columns are this file's. */
static bool note_columns(struct csv_table *t, int n, struct csv_column *c, char *error)
{
    struct data_table *table = t->q->o->table;

    if (!check_listed(t, "categories", t->q->o->categories, error) ||
        !check_listed(t, "encode", t->q->o->encode, error))
        return false;
    for (int k = 0; k < n; k++)
        if (!data_table_column(table, t->names[c[k].at].at, t->names[c[k].at].n))
            return csv_no_memory(error);
    for (int k = 0; k < n; k++) {
        c[k].of = &table->columns[k];
        if (!list_classes(t, &c[k], error) || !own_encoding(t, &c[k], error))
            return false;
    }
    return !t->q->o->missing || table->missing || (table->missing = strdup(t->q->o->missing)) || csv_no_memory(error);
}

int csv_find_columns(struct csv_table *t, struct csv_column *c, bool *found, char *error)
{
    struct data_table *table = t->q->o->table;
    bool known = table->ncolumns > 0;
    int n = !known                               ? choose_columns(t, c, found, error)
            : asked_columns(t->q) && t->q->named ? renamed_columns(t, c, error)
                                                 : known_columns(t, c, error);

    if (!known)
        return n && note_columns(t, n, c, error) ? n : 0;
    for (int k = 0; k < n; k++) {
        c[k].of = &table->columns[k];
        if ((csv_listed(t, t->q->o->categories, c[k].at) && !same_classes(t, &c[k], error)) ||
            (table->closed && !same_encoding(t, &c[k], error)))
            return 0;
    }
    return n;
}
