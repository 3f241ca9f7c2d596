/* SPDX-License-Identifier: Apache-2.0 */
/* fields.h - which options are members of the structures of tccc.h, as a table (options.def): for whoever reads, writes
 * or digests all of them. */
#ifndef TCCC_COMPILER_FIELDS_H
#define TCCC_COMPILER_FIELDS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "compiler/tccc.h"

enum tccc_structure { TCCC_OPTIONS, TCCC_TRAIN, TCCC_SPLIT };
enum tccc_field_type { TCCC_TEXT, TCCC_LIST, TCCC_FLAG, TCCC_INT, TCCC_LONG, TCCC_SIZE, TCCC_REAL, TCCC_LIMIT,
                       TCCC_COUNT, TCCC_STREAM, TCCC_SET };
enum tccc_field_use { TCCC_ARGUMENT = 1, TCCC_KEY = 2, TCCC_PATH = 4, TCCC_AGAIN = 8, TCCC_POSITIVE = 16 };

/* What an option's text ("": none was given) means for members of the structure; what it had to be, NULL: it was. And
 * the text that gives the members; NULL: none is needed. */
struct tccc_setter {
    const char *member;
    const char *(*set)(void *to, const char *text);
    const char *(*say)(const void *of, char *buffer, size_t size);
};

struct tccc_field {
    const char *option;          /* without dashes; "": it has a letter alone */
    const char *name;            /* of the member */
    enum tccc_structure in;
    enum tccc_field_type type;
    unsigned uses;
    size_t offset;
    int64_t least, most;         /* of INT and LONG */
};
/* In the order of options.def. */
extern const struct tccc_field tccc_fields[];
extern const int tccc_nfields;
extern const struct tccc_setter tccc_setters[];
static inline const struct tccc_setter *tccc_setter(const struct tccc_field *f)
{
    const struct tccc_setter *s = tccc_setters;
    while (strcmp(s->member, f->name) != 0)
        s++;
    return s;
}

/* A structure's member, as one of `type`. */
#define TCCC_FIELD_AT(type, structure, field) (*(type *)(void *)((char *)(structure) + (field)->offset))
#define TCCC_FIELD_OF(type, structure, field) \
    (*(const type *)(const void *)((const char *)(structure) + (field)->offset))

#endif
