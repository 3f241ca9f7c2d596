/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the texts of the training options: KIND:key=value,key=value, lists of names, and --loss against losses.def. */
#include "passes/train/train_int.h"
#include "passes/train/loss_int.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The next piece up to one of `ends` that no backslash protects, without its backslashes; *text then stands on that
 * character or the end. */
static const char *piece(struct ir_ctx *ctx, const char **text, const char *ends)
{
    char *out = IR_NEWN(ctx, strlen(*text) + 1, char), *to = out;
    const char *s = *text;
    for (; *s && !strchr(ends, *s); s++) {
        if (*s == '\\' && s[1])
            s++;
        *to++ = *s;
    }
    *text = s;
    return out;
}

/* Splits a text; `option` ("--loss") is named in the diagnostic of a malformed one. */
static bool train_spec_read(struct ir_ctx *ctx, const char *option, const char *text, struct train_spec *spec)
{
    VEC(const char *) keys = {0}, values = {0};
    const char *s = text;
    spec->kind = piece(ctx, &s, ":");
    while (*s) {
        s++; /* the colon, or a comma */
        const char *key = piece(ctx, &s, ",=");
        if (*s != '=' || !*key)
            return ir_error(ctx, NULL, "%s=%s: expected key=value, got '%s'", option, text, key);
        s++;
        VEC_PUSH(ctx, keys, key);
        VEC_PUSH(ctx, values, piece(ctx, &s, ","));
    }
    VEC_GIVE(keys, spec->keys, spec->n);
    spec->values = values.at;
    return true;
}

const char **train_names(struct ir_ctx *ctx, const char *text)
{
    VEC(const char *) names = {0};
    for (const char *s = text ? text : ""; *s; s += *s == ',') {
        const char *name = piece(ctx, &s, ",");
        if (*name)
            VEC_PUSH(ctx, names, name);
    }
    VEC_PUSH(ctx, names, NULL);
    return names.at;
}

/* -- --loss */

static const struct loss_row {
    const char *name;
    enum loss_target target;
    const char *holds, *others, *keys;
} loss_rows[] = {
#define LOSS(name, target, holds, build, others, keys, doc) {#name, TARGET_##target, #holds, others, keys},
#include "passes/train/losses.def"
};

/* Keys whose values are numbers, with the least and the most that they may be. */
static const struct loss_number {
    const char *key;
    size_t field;
    double low, high, otherwise;
} loss_numbers[] = {
    {"label_smoothing", offsetof(struct train_loss, smoothing), 0, 1, 0},
    {"beta", offsetof(struct train_loss, beta), 0, 3e38, 1},
    {"delta", offsetof(struct train_loss, delta), 1e-38, 3e38, 1},
    {"alpha", offsetof(struct train_loss, alpha), -1, 1, 0.25},
    {"gamma", offsetof(struct train_loss, gamma), 0, 100, 2},
    {"smooth", offsetof(struct train_loss, smooth), 0, 3e38, 1},
    {"log_target", offsetof(struct train_loss, log_target), 0, 1, 0},
    {"swap", offsetof(struct train_loss, swap), 0, 1, 0},
    {"zero_infinity", offsetof(struct train_loss, zero_infinity), 0, 1, 0},
    {"margin", offsetof(struct train_loss, margin), -3e38, 3e38, 0},
};
enum { NNUMBERS = sizeof loss_numbers / sizeof *loss_numbers };

/* Where `word` stands in a comma-separated list; -1: nowhere. */
static int listed(const char *list, const char *word)
{
    size_t n = strlen(word);
    int at = 0;
    for (const char *s = list; *s; s += *s == ',', at++) {
        size_t length = strcspn(s, ",");
        if (n && n == length && !strncmp(s, word, n))
            return at;
        s += length;
    }
    return -1;
}

static bool bad_value(struct ir_ctx *ctx, const char *key, const char *value, const char *expected)
{
    return ir_error(ctx, NULL, "--loss: %s=%s: expected %s", key, value, expected);
}

static bool number(struct ir_ctx *ctx, const char *key, const char *value, double lo, double hi, double *out)
{
    char *end;
    *out = strtod(value, &end);
    if (end == value || *end || !(*out >= lo && *out <= hi))
        return bad_value(ctx, key, value, ir_internf(ctx, "a number from %g to %g", lo, hi));
    return true;
}

static bool integer(struct ir_ctx *ctx, const char *key, const char *value, int64_t *out)
{
    char *end;
    errno = 0;
    *out = strtoll(value, &end, 10);
    return (end != value && !*end && !errno) || bad_value(ctx, key, value, "a whole number");
}

/* Numbers between blanks, semicolons or commas. */
static bool numbers(struct ir_ctx *ctx, const char *key, const char *value, int *n, const double **out)
{
    VEC(double) list = {0};
    for (const char *s = value; *(s += strspn(s, " ;,"));) {
        char *end;
        double v = strtod(s, &end);
        if (end == s || !(v >= 0 && v <= 3e38))
            return bad_value(ctx, key, value, "numbers that are not negative, separated by blanks or semicolons");
        VEC_PUSH(ctx, list, v);
        s = end;
    }
    *n = list.n;
    *out = list.at;
    return list.n > 0 || bad_value(ctx, key, value, "at least one number");
}

static bool read_reduction(struct ir_ctx *ctx, const char *value, enum loss_reduction *to)
{
    static const char *const names[] = {"mean", "sum", "batchmean", "none"};
    for (int i = 0; i < 4; i++)
        if (!strcmp(value, names[i])) {
            *to = (enum loss_reduction)i;
            return true;
        }
    return bad_value(ctx, "reduction", value, "mean, sum, batchmean or none");
}

static bool read_target_type(struct ir_ctx *ctx, const char *value, struct train_loss *l)
{
    bool classes = !strcmp(value, "int64") || !strcmp(value, "int32");
    l->target_type = !strcmp(value, "int64")     ? TCC_I64
                     : !strcmp(value, "int32")   ? TCC_I32
                     : !strcmp(value, "float32") ? TCC_F32
                                                 : TCC_NONE;
    if (l->kind == LOSS_nll)
        return classes || bad_value(ctx, "target_type", value, "int64 or int32");
    return l->target_type != TCC_NONE || bad_value(ctx, "target_type", value, "int64, int32 or float32");
}

static bool read_key(struct ir_ctx *ctx, const char *key, const char *value, struct train_loss *l)
{
    int other = listed(loss_rows[l->kind].others, key);
    const char **name = !strcmp(key, "input")    ? &l->input
                        : !strcmp(key, "target") ? &l->target
                        : other >= 0             ? &l->others[other]
                                                 : NULL;
    if (name) {
        *name = ir_intern(ctx, value);
        return *value || bad_value(ctx, key, value, "a name");
    }
    for (int i = 0; i < NNUMBERS; i++)
        if (!strcmp(key, loss_numbers[i].key))
            return number(ctx, key, value, loss_numbers[i].low, loss_numbers[i].high,
                          (double *)((char *)l + loss_numbers[i].field));
    if (!strcmp(key, "reduction"))
        return read_reduction(ctx, value, &l->reduction);
    if (!strcmp(key, "target_type"))
        return read_target_type(ctx, value, l);
    if (!strcmp(key, "ignore_index"))
        return integer(ctx, key, value, &l->ignore_index);
    if (!strcmp(key, "blank"))
        return integer(ctx, key, value, &l->blank) && (l->blank >= 0 || bad_value(ctx, key, value, "a class number"));
    if (!strcmp(key, "axis"))
        return l->has_axis = true, integer(ctx, key, value, &l->axis);
    if (!strcmp(key, "weight"))
        return numbers(ctx, key, value, &l->nweights, &l->weights);
    return numbers(ctx, key, value, &l->npos_weights, &l->pos_weights);
}

/* The keys of a loss, for messages too. */
static const char *keys_of(struct ir_ctx *ctx, int kind)
{
    const struct loss_row *r = &loss_rows[kind];
    return ir_internf(ctx, "input,%sreduction%s%s%s%s", r->target == TARGET_NOTHING ? "" : "target,",
                      *r->others ? "," : "", r->others, *r->keys ? "," : "", r->keys);
}

static int find_loss(struct ir_ctx *ctx, const char *name)
{
    const char *known = "";
    for (int i = 0; i < LOSS_output; i++) {
        if (!strcmp(loss_rows[i].name, name))
            return i;
        known = ir_internf(ctx, "%s%s%s", known, i ? ", " : "", loss_rows[i].name);
    }
    return ir_error(ctx, NULL, "--loss=%s: unknown loss; expected %s or output:NAME", name, known), -1;
}

static bool read_output(struct ir_ctx *ctx, const char *text, struct train_loss *l)
{
    l->kind = LOSS_output;
    l->input = ir_intern(ctx, piece(ctx, &text, ""));
    if (!*l->input)
        ir_error(ctx, NULL, "--loss=output: requires the name of the output that is the loss: output:NAME");
    return *l->input != 0;
}

/* One term, without its factor. */
static bool read_term(struct ir_ctx *ctx, const char *text, struct train_loss *l)
{
    struct train_spec spec = {0};
    if (!strncmp(text, "output:", 7))
        return read_output(ctx, text + 7, l);
    if (!train_spec_read(ctx, "--loss", text, &spec))
        return false;
    int kind = find_loss(ctx, spec.kind);
    if (kind < 0)
        return false;
    l->kind = (enum loss_kind)kind;
    l->margin = l->kind == LOSS_triplet;
    const char *keys = keys_of(ctx, kind);
    for (int i = 0; i < spec.n; i++) {
        if (listed(keys, spec.keys[i]) < 0)
            return ir_error(ctx, NULL, "--loss=%s has no option '%s'; expected %s", spec.kind, spec.keys[i], keys);
        if (!read_key(ctx, spec.keys[i], spec.values[i], l))
            return false;
    }
    for (int i = 0; i < train_loss_nscores(l) - 1; i++)
        if (!l->others[i])
            return ir_error(ctx, NULL, "--loss=%s requires the names of the outputs that it takes: input=,%s",
                            spec.kind, loss_rows[kind].others);
    return true;
}

enum loss_target train_loss_target_kind(const struct train_loss *l)
{
    return l->kind == LOSS_output ? TARGET_NOTHING : loss_rows[l->kind].target;
}

int train_loss_nscores(const struct train_loss *l)
{
    int n = 1;
    if (l->kind == LOSS_output)
        return n;
    for (const char *s = loss_rows[l->kind].others; *s; s += *s == ',') {
        s += strcspn(s, ",");
        n++;
    }
    return n;
}

const char *train_loss_text(struct ir_ctx *ctx, const struct train_loss *l, const char *input)
{
    bool own = l->kind == LOSS_output;
    const char *line = ir_internf(ctx, "%s %s %s\n", own ? "output" : loss_rows[l->kind].name,
                                  own ? "none" : loss_rows[l->kind].holds, l->input ? l->input : input);
    return l->next ? ir_internf(ctx, "%s%s", line, train_loss_text(ctx, l->next, input)) : line;
}

bool train_loss_is_simple(const struct train_loss *l)
{
    return !l->next && l->factor == 1 && l->reduction != REDUCE_NONE && train_loss_nscores(l) == 1;
}

/* NUMBER*TERM, or TERM; " + " stands between terms. */
bool train_loss_read(struct ir_ctx *ctx, const char *text, struct train_loss *l)
{
    *l = (struct train_loss){.target = "target", .ignore_index = -100, .factor = 1, .target_type = TCC_NONE};
    for (int i = 0; i < NNUMBERS; i++)
        *(double *)((char *)l + loss_numbers[i].field) = loss_numbers[i].otherwise;
    const char *plus = strstr(text, " + ");
    char *star;
    const char *own = plus ? ir_internf(ctx, "%.*s", (int)(plus - text), text) : text;
    double factor = strtod(own, &star);
    if (star != own && *star == '*') {
        l->factor = factor;
        own = star + 1;
        if (!(factor > 0 && factor <= 3e38))
            return ir_error(ctx, NULL, "--loss=%s: expected a factor above 0", text);
    }
    if (!read_term(ctx, own, l))
        return false;
    if (!plus)
        return true;
    l->next = IR_NEW(ctx, struct train_loss);
    return train_loss_read(ctx, plus + 3, l->next);
}
