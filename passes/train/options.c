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

bool train_spec_read(struct ir_ctx *ctx, const char *option, const char *text, struct train_spec *spec)
{
    VEC(const char *) keys = {0}, values = {0};
    const char *s = text;
    spec->kind = piece(ctx, &s, ":");
    while (*s) {
        s++; /* the colon, or a comma */
        const char *key = piece(ctx, &s, ",=");
        if (*s != '=' || !*key) {
            ir_error(ctx, NULL, "%s=%s: expected key=value, got '%s'", option, text, key);
            return false;
        }
        s++;
        VEC_PUSH(ctx, keys, key);
        VEC_PUSH(ctx, values, piece(ctx, &s, ","));
    }
    spec->n = keys.n;
    spec->keys = keys.at;
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

static const struct {
    const char *name, *keys;
} loss_rows[] = {
#define LOSS(name, target, keys, doc) {#name, keys},
#include "passes/train/losses.def"
#undef LOSS
};

/* Is `word` one of a comma-separated list? */
static bool listed(const char *list, const char *word)
{
    size_t n = strlen(word);
    for (const char *s = list; (s = strstr(s, word)); s++)
        if ((s == list || s[-1] == ',') && (!s[n] || s[n] == ','))
            return n > 0;
    return false;
}

static bool bad_value(struct ir_ctx *ctx, const char *key, const char *value, const char *expected)
{
    ir_error(ctx, NULL, "--loss: %s=%s: expected %s", key, value, expected);
    return false;
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

static bool read_key(struct ir_ctx *ctx, const char *key, const char *value, struct train_loss *l)
{
    if (!strcmp(key, "input") || !strcmp(key, "target")) {
        *(strcmp(key, "input") ? &l->target : &l->input) = ir_intern(ctx, value);
        return *value || bad_value(ctx, key, value, "a name");
    }
    if (!strcmp(key, "reduction")) {
        l->sum = !strcmp(value, "sum");
        return l->sum || !strcmp(value, "mean") || bad_value(ctx, key, value, "mean or sum");
    }
    if (!strcmp(key, "target_type")) {
        bool classes = !strcmp(value, "int64") || !strcmp(value, "int32");
        l->target_type = !strcmp(value, "int64")     ? TCC_I64
                         : !strcmp(value, "int32")   ? TCC_I32
                         : !strcmp(value, "float32") ? TCC_F32
                                                     : TCC_NONE;
        if (l->kind == LOSS_nll)
            return classes || bad_value(ctx, key, value, "int64 or int32");
        return l->target_type != TCC_NONE || bad_value(ctx, key, value, "int64, int32 or float32");
    }
    if (!strcmp(key, "ignore_index"))
        return integer(ctx, key, value, &l->ignore_index);
    if (!strcmp(key, "axis"))
        return l->has_axis = true, integer(ctx, key, value, &l->axis);
    if (!strcmp(key, "label_smoothing"))
        return number(ctx, key, value, 0, 1, &l->smoothing);
    if (!strcmp(key, "beta"))
        return number(ctx, key, value, 0, 3e38, &l->beta);
    if (!strcmp(key, "weight"))
        return numbers(ctx, key, value, &l->nweights, &l->weights);
    return numbers(ctx, key, value, &l->npos_weights, &l->pos_weights);
}

bool train_loss_read(struct ir_ctx *ctx, const char *text, struct train_loss *l)
{
    struct train_spec spec;
    *l = (struct train_loss){.target = "target", .ignore_index = -100, .beta = 1, .target_type = TCC_NONE};
    if (!strncmp(text, "output:", 7)) {
        const char *s = text + 7;
        l->kind = LOSS_output;
        l->input = ir_intern(ctx, piece(ctx, &s, ""));
        if (!*l->input)
            ir_error(ctx, NULL, "--loss=output: requires the name of the output that is the loss: output:NAME");
        return *l->input != 0;
    }
    if (!train_spec_read(ctx, "--loss", text, &spec))
        return false;
    int kind = 0;
    while (kind < LOSS_output && strcmp(loss_rows[kind].name, spec.kind))
        kind++;
    if (kind == LOSS_output) {
        const char *known = "";
        for (int i = 0; i < LOSS_output; i++)
            known = ir_internf(ctx, "%s%s%s", known, i ? ", " : "", loss_rows[i].name);
        ir_error(ctx, NULL, "--loss=%s: unknown loss; expected %s or output:NAME", spec.kind, known);
        return false;
    }
    l->kind = (enum loss_kind)kind;
    for (int i = 0; i < spec.n; i++) {
        if (!listed(loss_rows[kind].keys, spec.keys[i])) {
            ir_error(ctx, NULL, "--loss=%s has no option '%s'; expected %s", spec.kind, spec.keys[i],
                     loss_rows[kind].keys);
            return false;
        }
        if (!read_key(ctx, spec.keys[i], spec.values[i], l))
            return false;
    }
    return true;
}
