/* SPDX-License-Identifier: Apache-2.0 */
/* csv_int.h - a table as text that is being read: what csv.c, csv_text.c and csv_columns.c share. */
#ifndef TCC_DATA_CSV_INT_H
#define TCC_DATA_CSV_INT_H

#include "tools/data/data_int.h"

enum { CSV_MOST_COLUMNS = 65536 };

struct csv_span {
    const char *at;
    size_t n;
    bool quoted;
};

struct csv_table {
    struct data_request *q;
    bool lines; /* of one field each, as they are, and the first one names nothing */
    bool text;  /* the column is of text, which becomes tokens */
    const char *at, *end; /* of the text; `at` moves */
    char delimiter;
    int64_t line; /* of the file, from 1 */
    int ncolumns, room;
    struct csv_span *fields; /* of the line that was read last */
    int nfields;
    struct csv_span *names;
    char *heads; /* what the names of the first line lie in */
    char *plain; /* a category's name with its quotes single */
    size_t plain_room;
};

struct csv_column {
    int at; /* in a line */
    struct data_column *of;
};

/* csv_text.c */
bool csv_no_memory(char *error);                                     /* false */
/* The next line's fields into t->fields, its number into `line`; false with an empty error: there is none. */
bool csv_read_line(struct csv_table *t, int64_t *line, char *error);
bool csv_same(struct csv_span s, const char *text, size_t n);
struct csv_span csv_trim(struct csv_span s);                         /* without spaces around it, if it has no quotes */
bool csv_missing(struct csv_span s);
bool csv_number(struct csv_span s, double *out);                     /* false: it is none */
/* The name of a category; NULL: no memory. It lasts to the next call. */
const char *csv_plain(struct csv_table *t, struct csv_span s, size_t *n);

/* csv_columns.c. Is what the input takes a column of text? By tokens=, which in words for all inputs is not of the
 * target, nor of columns that have an input's name. */
bool csv_takes_text(const struct csv_table *t);
/* The columns that the input takes, how many; 0 after an error, or where nothing asks for this table
 * (`found` false). */
int csv_find_columns(struct csv_table *t, struct csv_column *c, bool *found, char *error);
/* Of categories= or encode= (`list`), COLUMN:A+B;COLUMN:...: what it says of this column, or NULL. */
const char *csv_listed(const struct csv_table *t, const char *list, int at);
/* What encode=*:... says of a column that has no words of its own, once it is known what the column holds. */
bool csv_encode_others(struct csv_table *t, struct csv_column *c, char *error);

#endif
