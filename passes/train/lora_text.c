/* SPDX-License-Identifier: Apache-2.0 */
/* The text of --lora: KEY:VALUE or KEY=VALUE, separated by commas; a comma in a value has a backslash before it. */
#include "passes/train/adapt_int.h"

#include <math.h>
#include <regex.h>
#include <stdlib.h>
#include <string.h>

static bool bad(struct ir_ctx *ctx, const char *text, const char *what)
{
    return ir_diag(ctx, NULL, IR_D_USAGE, "--lora=%s: %s", text, what);
}

static bool is_regex(const char *pattern)
{
    regex_t r;
    int status = regcomp(&r, pattern, REG_EXTENDED | REG_NOSUB);
    if (!status)
        regfree(&r);
    return !status;
}

/* A number above `least`. */
static bool read_number(const char *value, double least, double *out)
{
    char *end;
    *out = strtod(value, &end);
    return *value && !*end && isfinite(*out) && *out > least;
}

static bool set(struct ir_ctx *ctx, const char *text, const char *key, const char *value, struct train_lora *l)
{
    double number = 0;
    const char **pattern = !strcmp(key, "targets") ? &l->targets : !strcmp(key, "save") ? &l->save : NULL;
    if (pattern) {
        *pattern = value;
        return is_regex(value) || bad(ctx, text, ir_internf(ctx, "%s: no regular expression", key));
    }
    if (!strcmp(key, "adapter")) {
        l->from = value;
        return *value || bad(ctx, text, "adapter: expected a folder");
    }
    if (!strcmp(key, "r")) {
        bool fits = read_number(value, 0, &number) && number <= 65536 && number == floor(number);
        l->rank = fits ? (int64_t)number : 0;
        return fits || bad(ctx, text, "r: expected a rank, a whole number from 1 to 65536");
    }
    if (!strcmp(key, "alpha"))
        return read_number(value, 0, &l->alpha) || bad(ctx, text, "alpha: expected a number above 0");
    if (!strcmp(key, "dropout"))
        return (read_number(value, -1e-300, &l->dropout) && l->dropout < 1) ||
               bad(ctx, text, "dropout: expected a probability below 1");
    return bad(ctx, text, ir_internf(ctx, "'%s': expected r, alpha, targets, save, dropout, dora or adapter", key));
}

bool train_lora_read(struct ir_ctx *ctx, const char *text, struct train_lora *l)
{
    *l = (struct train_lora){.rank = 8};
    for (const char *at = text; *at;) {
        char *part = IR_NEWN(ctx, strlen(at) + 1, char), *value = NULL, *to = part;
        for (; *at && *at != ','; at++) {
            if (!value && (*at == ':' || *at == '=')) {
                *to++ = 0;
                value = to;
                continue;
            }
            at += *at == '\\' && at[1] == ',';
            *to++ = *at;
        }
        *to = 0;
        at += *at == ',';
        if (!value && !strcmp(part, "dora")) {
            l->dora = true;
            continue;
        }
        if (!value)
            return bad(ctx, text, ir_internf(ctx, "'%s': expected KEY:VALUE", part));
        if (!set(ctx, text, part, value, l))
            return false;
    }
    if (l->alpha == 0)
        l->alpha = (double)l->rank;
    if (l->dora && l->dropout > 0)
        return bad(ctx, text, "dora and dropout exclude each other");
    if (l->from && l->dora)
        return bad(ctx, text, "adapter and dora exclude each other: a stored adapter has magnitudes, or has none");
    if (l->from && l->targets)
        return bad(ctx, text, "adapter and targets exclude each other: a stored adapter has its layers");
    return true;
}
