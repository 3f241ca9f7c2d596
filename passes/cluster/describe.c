/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptions of clusters: lines `key = value` in sections, # begins a comment; cluster.def has the keys.
 *
 *     nodes = 4
 *     [node]
 *     devices = 8
 *     [device]
 *     flops = 60T
 */
#include "passes/cluster/cluster.h"

#include <ctype.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define NONE (-1)
#define SAME (-2)

enum key_kind { COUNT, BYTES, RATE, TIME, SHARE, SHARING };
static const struct key {
    const char *section, *key;
    size_t at;
    enum key_kind kind;
    double fallback;
} keys[] = {
#define PLAN_KEY(section, key, field, kind, fallback, help) \
    {section, key, offsetof(struct plan_cluster, field), kind, fallback},
#include "passes/cluster/cluster.def"
#undef PLAN_KEY
};
#define NKEYS ((int)(sizeof keys / sizeof *keys))

struct reader {
    struct ir_ctx *ctx;
    struct ir_where where;
    const char *section;
    bool seen[NKEYS];
    double value[NKEYS];
};

static bool complain(struct reader *r, const char *text)
{
    return ir_error(r->ctx, &r->where, "%s", text);
}

/* Does the section begin with nothing, or is it one of the table's? */
static bool known_section(const char *name)
{
    for (int i = 0; i < NKEYS; i++)
        if (*name && !strcmp(keys[i].section, name))
            return true;
    return false;
}

static const char *keys_of(struct ir_ctx *ctx, const char *section)
{
    const char *list = "";
    for (int i = 0; i < NKEYS; i++)
        if (!strcmp(keys[i].section, section))
            list = ir_internf(ctx, "%s%s%s", list, *list ? ", " : "", keys[i].key);
    return list;
}

static const struct unit {
    const char *name;
    unsigned kinds;
    double factor;
} units[] = {{"Ki", 1u << BYTES, 1024},
             {"Mi", 1u << BYTES, 1048576},
             {"Gi", 1u << BYTES, 1073741824},
             {"Ti", 1u << BYTES, 1099511627776},
             {"K", 1u << BYTES | 1u << RATE, 1e3},
             {"M", 1u << BYTES | 1u << RATE, 1e6},
             {"G", 1u << BYTES | 1u << RATE, 1e9},
             {"T", 1u << BYTES | 1u << RATE, 1e12},
             {"P", 1u << RATE, 1e15},
             {"ns", 1u << TIME, 1e-9},
             {"us", 1u << TIME, 1e-6},
             {"ms", 1u << TIME, 1e-3},
             {"s", 1u << TIME, 1},
             {"", 1u << COUNT | 1u << BYTES | 1u << RATE | 1u << TIME | 1u << SHARE, 1}};

static const char *const expected[] = {"a whole number from 1 to 1048576",
                                       "a number of bytes above 0, or one with K, M, G, T, Ki, Mi, Gi or Ti",
                                       "a number a second above 0, or one with K, M, G, T or P",
                                       "a time: 5us, 0.1ms",
                                       "a number from 0 to 1",
                                       "whole or divided"};

static bool parse(enum key_kind kind, const char *text, double *v)
{
    char *end;
    const struct unit *u = units;
    if (kind == SHARING) {
        *v = !strcmp(text, "divided");
        return *v != 0 || !strcmp(text, "whole");
    }
    *v = strtod(text, &end);
    if (end == text || !isfinite(*v))
        return false;
    while (isspace((unsigned char)*end))
        end++;
    while (*u->name && (strcmp(u->name, end) || !(u->kinds >> kind & 1)))
        u++;
    *v *= u->factor;
    if (strcmp(u->name, end) || !(u->kinds >> kind & 1))
        return false;
    switch (kind) {
    case COUNT: return *v >= 1 && *v <= 1 << 20 && *v == floor(*v);
    case SHARE: return *v >= 0 && *v <= 1;
    case TIME: return *v >= 0 && *v <= 1e3;
    default: return *v > 0 && *v < 1e30;
    }
}

static char *trim(char *s)
{
    while (isspace((unsigned char)*s))
        s++;
    for (char *end = s + strlen(s); end > s && isspace((unsigned char)end[-1]);)
        *--end = 0;
    return s;
}

static bool read_key(struct reader *r, const char *key, const char *value)
{
    const char *in = *r->section ? ir_internf(r->ctx, " in [%s]", r->section) : "";
    for (int i = 0; i < NKEYS; i++) {
        if (strcmp(keys[i].section, r->section) || strcmp(keys[i].key, key))
            continue;
        if (r->seen[i])
            return complain(r, ir_internf(r->ctx, "'%s'%s is given twice", key, in));
        r->seen[i] = true;
        return parse(keys[i].kind, value, &r->value[i]) ||
               complain(r, ir_internf(r->ctx, "%s = %s: expected %s", key, value, expected[keys[i].kind]));
    }
    return complain(r,
                    ir_internf(r->ctx, "unknown key '%s'%s; expected one of %s", key, in, keys_of(r->ctx, r->section)));
}

static bool read_line(struct reader *r, char *line)
{
    line[strcspn(line, "#")] = 0;
    line = trim(line);
    size_t n = strlen(line);
    char *equals = strchr(line, '=');
    if (!n)
        return true;
    if (*line == '[' && line[n - 1] == ']') {
        line[n - 1] = 0;
        r->section = ir_intern(r->ctx, trim(line + 1));
        return known_section(r->section) ||
               complain(r,
                        ir_internf(r->ctx, "unknown section [%s]; expected one of [node], [device], [local], [remote]",
                                   r->section));
    }
    if (!equals)
        return complain(r, ir_internf(r->ctx, "'%s': expected key = value, or a [section]", line));
    *equals = 0;
    return read_key(r, trim(line), trim(equals + 1));
}

static void store(struct plan_cluster *c, const struct key *k, double v)
{
    void *field = (char *)c + k->at;
    if (k->kind == COUNT)
        *(int *)field = (int)v;
    else if (k->kind == SHARING)
        *(bool *)field = v != 0;
    else
        *(double *)field = v;
}

/* What is left out. */
static bool complete(struct reader *r, struct plan_cluster *c)
{
    r->where.line = 0;
    for (int i = 0; i < NKEYS; i++) {
        if (!r->seen[i] && keys[i].fallback == NONE)
            return complain(r, ir_internf(r->ctx, "'%s' in [%s] is missing", keys[i].key, keys[i].section));
        store(c, &keys[i], r->seen[i] ? r->value[i] : keys[i].fallback);
    }
    double *const same[][2] = {{&c->bf16_flops, &c->flops},
                               {&c->cache_bandwidth, &c->bandwidth},
                               {&c->local.reduce, &c->local.bandwidth},
                               {&c->remote.bandwidth, &c->local.bandwidth},
                               {&c->remote.reduce, &c->remote.bandwidth}};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        if (*same[i][0] == SAME)
            *same[i][0] = *same[i][1];
    return true;
}

bool plan_cluster_read(struct ir_ctx *ctx, const char *name, const char *text, struct plan_cluster *c)
{
    struct reader r = {.ctx = ctx, .where = {.file = name, .line = 1, .col = 1}, .section = ""};
    char *copy = ir_strdup(ctx, text);
    *c = (struct plan_cluster){0};
    for (char *at = copy; at; r.where.line++) {
        char *next = strchr(at, '\n');
        if (next)
            *next++ = 0;
        if (!read_line(&r, at))
            return false;
        at = next;
    }
    return complete(&r, c);
}

void plan_cluster_write(FILE *out, const struct plan_cluster *c)
{
    static const char letters[] = " KMGTP";
    const char *section = "";
    for (int i = 0; i < NKEYS; i++) {
        const struct key *k = &keys[i];
        const void *field = (const char *)c + k->at;
        double v = k->kind == COUNT ? *(const int *)field : k->kind == SHARING ? 0 : *(const double *)field;
        if (strcmp(section, k->section))
            fprintf(out, "\n[%s]\n", section = k->section);
        if (k->fallback == 0 && v == 0 && (k->kind == RATE || k->kind == BYTES))
            continue;
        fprintf(out, "%s = ", k->key);
        if (k->kind == SHARING) {
            fputs(*(const bool *)field ? "divided\n" : "whole\n", out);
        } else if (k->kind == TIME) {
            fprintf(out, "%.4gus\n", v * 1e6);
        } else {
            int unit = 0;
            while (k->kind != COUNT && k->kind != SHARE && v >= 1000 && unit < (k->kind == BYTES ? 4 : 5)) {
                v /= 1000;
                unit++;
            }
            fprintf(out, unit ? "%.4g%c\n" : "%.7g\n", v, letters[unit]);
        }
    }
}
