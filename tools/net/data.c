/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the data of --data decide about a network of --net: the shape of its input, how many classes or numbers its
 * output has. The files are read as the step's will be, by infos of inputs that leave every dim open; what a file has
 * nothing for, or in another form, is asked for again in the next one.
 */
#include "tools/net/net_int.h"

#include "tools/data/data_int.h"

#include <stdlib.h>
#include <string.h>

enum { PICTURE = 224, CHUNK = 4096, MOST_TOKENS = 1 << 24 };

struct peek {
    const struct options *o;
    struct tccrt_value_info infos[2]; /* input, target */
    struct data_words *words;         /* of all arguments of --data */
    struct data_tables tables;
    char error[ERROR_SIZE]; /* of the last try */
    int code;               /* of what was told already */
};

/* One argument of --data; *found: it had something. */
static void look(struct peek *p, int i, const struct data_words *w, bool named, struct data_array *out, bool *found)
{
    struct data_options own = w->o;
    struct data_request q = {.path = w->path,
                             .name = w->name,
                             .o = &own,
                             .info = &p->infos[i],
                             .named = named,
                             .ninputs = 2,
                             .inputs = p->infos,
                             .words = p->words,
                             .nwords = p->o->given[OPT_data].n};
    own.table = data_table_of(&p->tables, p->infos[i].name);
    if (!tcc_is_float((enum tcc_dtype)p->infos[i].dtype)) {
        own.scaled = false;
        own.scale = 1;
        own.means.n = own.stds.n = 0;
    }
    if (i == 0 && p->infos[0].rank == 4 && !own.size && !own.length)
        own.size = PICTURE;
    if (!own.table)
        return;
    *found = true;
    if (!data_read(&q, w->reader, out, found, p->error))
        *found = false;
}

/* The array for input i as infos[i] stands: of what names it, if anything does, else of what names no input. */
static bool try_read(struct peek *p, int i, struct data_array *out)
{
    bool found = false, asked = false;

    for (int k = 0; k < p->o->given[OPT_data].n; k++)
        asked |= p->words[k].input == i;
    for (int k = 0; k < p->o->given[OPT_data].n && !found; k++)
        if (p->words[k].input == (asked ? i : -1))
            look(p, i, &p->words[k], asked, out, &found);
    return found;
}

/* Forgets the columns that the last try has found. */
static bool try_as(struct peek *p, int i, enum tcc_dtype dtype, int rank, struct data_array *out)
{
    struct tccrt_value_info *info = &p->infos[i];
    info->dtype = (int)dtype;
    info->rank = rank;
    for (int k = 0; k < rank; k++)
        info->dims[k] = k == 1 && rank == 4 ? 3 : -1; /* pictures that are decoded are of three colours */
    data_tables_free(&p->tables);
    p->tables = (struct data_tables){0};
    if (!try_read(p, i, out) || p->code != EXIT_FINE)
        return false;
    if (out->rank > 0 && !out->dims[0])
        p->code = tool_error(p->o, EXIT_DATA, "%s: no samples", out->name);
    if (p->code != EXIT_FINE)
        data_release(out);
    return p->code == EXIT_FINE;
}

/* -- The input --------------------------------------------------------------------------------------------------- */

static int refuse(struct peek *p, const char *what)
{
    if (p->code != EXIT_FINE)
        return p->code;
    /* of the file, or of a row, not of its form */
    if (!strncmp(p->error, "cannot open '", 13) || strstr(p->error, ": line ") || strstr(p->error, ": no column '"))
        return tool_error(p->o, EXIT_DATA, "--data: %s", p->error);
    return tool_error(p->o, EXIT_DATA, "--net: --data has no %s%s%s", what, *p->error ? ": " : "", p->error);
}

static int input_of(struct peek *p, const struct net_spec *spec, struct net_data *d, struct data_array *a)
{
    static const struct {
        enum net_takes takes;
        enum tcc_dtype dtype;
        int rank;
    } forms[] = {{NET_TAKES_PICTURES, TCC_F32, 4},
                 {NET_TAKES_NUMBERS, TCC_F32, 2},
                 {NET_TAKES_NUMBERS, TCC_F32, 4},
                 {NET_TAKES_SEQUENCES, TCC_I64, 2},
                 {NET_TAKES_SEQUENCES, TCC_F32, 3}};
    bool ok = false;
    enum tcc_dtype wanted = TCC_F32;
    for (size_t k = 0; k < sizeof forms / sizeof *forms && !ok && p->code == EXIT_FINE; k++) {
        if (forms[k].takes != spec->row->takes)
            continue;
        wanted = forms[k].dtype;
        ok = try_as(p, 0, wanted, forms[k].rank, a);
        bool floats = ok && tcc_is_float(a->dtype);
        if (ok && spec->row->takes == NET_TAKES_SEQUENCES && floats != (wanted == TCC_F32)) {
            data_release(a);
            ok = false;
        }
    }
    if (!ok)
        return refuse(p, "input that the network reads (an array 'input', pictures, or columns)");
    d->rank = a->rank - 1;
    if (a->rank < 2 || a->rank > 7)
        return tool_error(p->o, EXIT_DATA, "%s: samples of %d dims, which no network of --net takes", a->name,
                          a->rank - 1);
    memcpy(d->dims, a->dims + 1, (size_t)d->rank * sizeof *d->dims);
    d->tokens = wanted == TCC_I64;
    if (spec->row->takes == NET_TAKES_PICTURES && d->rank == 2) { /* of one channel */
        memmove(d->dims + 1, d->dims, 2 * sizeof *d->dims);
        d->dims[0] = 1;
        d->rank = 3;
    }
    if (d->rank != 3 && spec->row->takes == NET_TAKES_PICTURES)
        return tool_error(p->o, EXIT_DATA, "%s: samples of %d dims; pictures have three: channels, height, width",
                          a->name, d->rank);
    if (spec->row->takes == NET_TAKES_SEQUENCES && d->rank != (d->tokens ? 1 : 2))
        return tool_error(p->o, EXIT_DATA,
                          "%s: samples of %d dims; a sequence of tokens has one, of numbers two: time, features; a "
                          "column of text is one with --data input=FILE:COLUMN,tokens=bytes,length=N",
                          a->name, d->rank);
    for (int i = 0; i < d->rank; i++)
        if (d->dims[i] < 1)
            return tool_error(p->o, EXIT_DATA, "%s: samples of no elements", a->name);
    return EXIT_FINE;
}

/* -- Numbers of classes ------------------------------------------------------------------------------------------ */

/* One more than the largest of an array of whole numbers. */
static int count_classes(struct peek *p, int i, struct data_array *a, int64_t *count)
{
    static const int axes[2];
    struct data_set set = {
        .n = 1, .arrays = a, .inputs = &p->infos[i], .axes = axes, .samples = a->dims[0], .tables = &p->tables};
    struct tccrt_value_info *info = &p->infos[i];
    int64_t each = data_row_elements(a), rows[CHUNK], *values = calloc((size_t)(each * CHUNK) + 1, sizeof *values);
    int code = values ? EXIT_FINE : tool_error(p->o, EXIT_ENVIRONMENT, "no memory");
    info->dtype = TCC_I64;
    info->rank = a->rank;
    memcpy(info->dims, a->dims, sizeof info->dims);
    *count = 0;
    for (int64_t at = 0; at < set.samples && code == EXIT_FINE; at += CHUNK) {
        struct data_fill f = {.set = &set, .n = set.samples - at < CHUNK ? set.samples - at : CHUNK, .rows = rows};
        for (int64_t k = 0; k < f.n; k++)
            rows[k] = at + k;
        if (!data_fill(&f, 0, values, p->error))
            code = tool_error(p->o, EXIT_DATA, "%s", p->error);
        for (int64_t k = 0; k < f.n * each && code == EXIT_FINE; k++)
            *count = values[k] >= *count ? values[k] + 1 : *count;
    }
    free(values);
    if (code == EXIT_FINE && *count > MOST_TOKENS)
        code = tool_error(p->o, EXIT_DATA, "%s: the number %lld of a class or token is too large for a network",
                          a->name, (long long)*count - 1);
    return code;
}

/* Names that the target's column or folder has; 0: it has none. */
static int64_t named_classes(const struct peek *p)
{
    for (int i = 0; i < p->tables.n; i++)
        for (int c = 0; c < p->tables.at[i]->ncolumns && !strcmp(p->tables.at[i]->input, "target"); c++)
            if (!p->tables.at[i]->columns[c].numbers)
                return p->tables.at[i]->columns[c].nclasses;
    return 0;
}

/* As many tokens as the data could have; 0: not known, or more than a network would have. */
static int64_t vocabulary_of(const struct peek *p)
{
    int64_t most = 0;
    for (int i = 0; i < p->tables.n; i++)
        most = p->tables.at[i]->vocabulary > most ? p->tables.at[i]->vocabulary : most;
    return most <= MOST_TOKENS ? most : 0;
}

/* -- The target -------------------------------------------------------------------------------------------------- */

/* Are these all columns of a table, since none is called after the target and nobody has said which one it is? */
static bool echoes(const struct peek *p)
{
    const struct data_table *t = data_table_find(&p->tables, "target");

    for (int k = 0; k < p->o->given[OPT_data].n; k++)
        if (p->words[k].input >= 0)
            return false;
    return t && t->ncolumns > 0 && *t->columns[0].name && strcmp(t->columns[0].name, "target") != 0;
}

static int target_of(struct peek *p, const struct net_spec *spec, struct net_data *d)
{
    struct data_array a = {0};
    int code = EXIT_FINE, ranks[] = {1, 2};
    bool ok = false;
    for (int k = 0; k < 2 && !ok; k++) {
        ok = try_as(p, 1, TCC_I64, d->tokens ? ranks[!k] : ranks[k], &a);
        bool column = ok && d->tokens && !k && a.source && a.dims[1] == 1; /* one a sample, after all */
        if (ok && (tcc_is_float(a.dtype) || column)) {
            data_release(&a);
            ok = false;
        }
    }
    if (ok) {
        d->classes = spec->classes ? spec->classes : vocabulary_of(p) ? vocabulary_of(p) : named_classes(p);
        d->each = a.rank == 2 && spec->row->takes == NET_TAKES_SEQUENCES && a.dims[1] == d->dims[0];
        if (a.rank != 1 && !d->each)
            code =
                tool_error(p->o, EXIT_DATA,
                           "%s: class numbers of %d dims; expected one a sample, or one for each element of a sequence",
                           a.name, a.rank);
        if (code == EXIT_FINE && !d->classes)
            code = count_classes(p, 1, &a, &d->classes);
    } else {
        for (int k = 0; k < 2 && !ok; k++)
            ok = try_as(p, 1, TCC_F32, 2 - k, &a);
        if (!ok)
            return refuse(p, "array, column or classes 'target'");
        d->numbers = data_row_elements(&a);
        if (echoes(p))
            code = tool_error(p->o, EXIT_DATA,
                              "%s: no column is called 'target': which one is it? --data target=%s:COLUMN beside this",
                              a.name, a.name);
        else if (a.rank > 2)
            code =
                tool_error(p->o, EXIT_DATA, "%s: a target of numbers has one axis besides the samples; this one has %d",
                           a.name, a.rank - 1);
    }
    data_release(&a);
    return code;
}

int net_data_read(const struct options *o, const struct net_spec *spec, struct net_data *d)
{
    struct peek p = {.o = o};
    struct data_array input = {0};
    *d = (struct net_data){0};
    p.infos[0] = p.infos[1] =
        (struct tccrt_value_info){.kind = TCC_OBJ_TENSOR, .dtype = TCC_I64, .rank = 1, .dims = {-1}};
    p.infos[0].name = "input";
    p.infos[1].name = "target";
    int code = data_words_all(o, OPT_data, p.infos, 2, &p.words);
    if (code == EXIT_FINE)
        code = input_of(&p, spec, d, &input);
    if (code == EXIT_FINE && d->tokens) {
        d->vocabulary = spec->vocabulary ? spec->vocabulary : vocabulary_of(&p);
        code = d->vocabulary ? EXIT_FINE : count_classes(&p, 0, &input, &d->vocabulary);
    }
    data_release(&input);
    if (code == EXIT_FINE)
        code = target_of(&p, spec, d);
    if (code == EXIT_FINE && d->each && d->tokens && !spec->classes && d->vocabulary > d->classes)
        d->classes = d->vocabulary; /* what is said of the next token, any of them may be */
    else if (code == EXIT_FINE && d->each && d->tokens && !spec->vocabulary && d->classes > d->vocabulary)
        d->vocabulary = d->classes;
    data_tables_free(&p.tables);
    data_words_free(p.words, o->given[OPT_data].n);
    return code;
}
