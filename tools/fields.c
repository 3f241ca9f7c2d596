/* SPDX-License-Identifier: Apache-2.0 */
/* The options of the command line that are members of the compiler's structures: each read, as its row of options.def
 * says, into its place. */
#include "compiler/fields.h"
#include "tools/run/model_int.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* 1500000, 64M, 1.5G: powers of 1024. */
static bool read_size(const struct options *o, enum option_id id, unsigned long long *bytes)
{
    static const char units[] = "KMGT";
    const char *text = option_text(o, id, "");
    char *end;
    double v = strtod(text, &end);
    const char *unit = *end ? strchr(units, *end) : NULL;

    if (unit)
        end++;
    for (long i = 0; unit && i <= unit - units; i++)
        v *= 1024;
    bool ok = end != text && !*end && v >= 1 && v < 1e18;
    if (ok)
        *bytes = (unsigned long long)v;
    else
        usage_error(o, "--%s=%s: expected a number of bytes, or one with K, M or G", option_table[id].long_name, text);
    return ok;
}

static bool read_number(const struct options *o, enum option_id id, const struct tccc_field *f, void *to)
{
    int64_t v = 0;

    if (!option_int(o, id, f->least, f->most, &v))
        return false;
    if (f->type == TCCC_INT)
        TCCC_FIELD_AT(int, to, f) = (int)v;
    else
        TCCC_FIELD_AT(long, to, f) = (long)v;
    return true;
}

static bool read_real(const struct options *o, enum option_id id, const struct tccc_field *f, void *to)
{
    double *v = &TCCC_FIELD_AT(double, to, f);

    if (f->type == TCCC_LIMIT && strcmp(option_text(o, id, ""), "inf") == 0)
        *v = INFINITY;
    else if (!option_float(o, id, v))
        return false;
    if (f->uses & TCCC_POSITIVE && *v == 0)
        return usage_error(o, "--%s=%s: expected a number above 0", option_table[id].long_name,
                           option_text(o, id, "")),
               false;
    return true;
}

static bool set_members(const struct options *o, enum option_id id, const struct tccc_field *f, void *to)
{
    const char *text = option_text(o, id, ""), *expected = tccc_setter(f)->set(to, text);

    if (expected)
        usage_error(o, "--%s=%s: expected %s", option_table[id].long_name, text, expected);
    return !expected;
}

/* An option that is given. */
static bool read_field(const struct options *o, enum option_id id, const struct tccc_field *f, void *to)
{
    switch (f->type) {
    case TCCC_TEXT: TCCC_FIELD_AT(const char *, to, f) = option_text(o, id, NULL); break;
    case TCCC_LIST: TCCC_FIELD_AT(const char *const *, to, f) = o->given[id].at; break;
    case TCCC_FLAG: TCCC_FIELD_AT(bool, to, f) = true; break;
    case TCCC_COUNT: TCCC_FIELD_AT(int, to, f) = o->given[id].n; break;
    case TCCC_SET: return set_members(o, id, f, to);
    case TCCC_STREAM: TCCC_FIELD_AT(FILE *, to, f) = stderr; break;
    case TCCC_INT:
    case TCCC_LONG: return read_number(o, id, f, to);
    case TCCC_SIZE: return read_size(o, id, &TCCC_FIELD_AT(unsigned long long, to, f));
    case TCCC_REAL:
    case TCCC_LIMIT: return read_real(o, id, f, to);
    }
    return true;
}

static bool read_fields(const struct options *o, enum tccc_structure in, void *to)
{
    static const enum option_id ids[] = {
#define TCCC_FIELD(id, long_name, short_name, arg, kind, tools, group, help, in, type, member, least, most, uses) \
    OPT_##id,
#include "base/options.def"
    };

    for (int i = 0; i < tccc_nfields; i++)
        if (tccc_fields[i].in == in && option_set(o, ids[i]) && !read_field(o, ids[i], &tccc_fields[i], to))
            return false;
    return true;
}

bool fields_compile(const struct options *o, struct tccc_options *c)
{
    return read_fields(o, TCCC_OPTIONS, c);
}

bool fields_train(const struct options *o, struct tccc_train *t)
{
    return read_fields(o, TCCC_TRAIN, t);
}

bool fields_split(const struct options *o, struct tccc_split *s)
{
    return read_fields(o, TCCC_SPLIT, s);
}
