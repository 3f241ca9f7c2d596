/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of passes as text: 'pass,pass{opt=1,opt2=x}'. */
#include "passes/runner_int.h"

#include <string.h>

struct list_reader {
    struct ir_ctx *ctx;
    const char *text, *at;
};

static bool list_error(struct list_reader *r, const char *what)
{
    static const struct ir_where nowhere;
    return ir_error(r->ctx, &nowhere, "pass list '%s', at '%s': %s", r->text, r->at, what);
}

/* A word up to one of the characters `, = { }` that no backslash escapes; blanks around it are dropped. */
static const char *read_word(struct list_reader *r)
{
    char *word = IR_NEWN(r->ctx, strlen(r->at) + 1, char);
    size_t n = 0;

    r->at += strspn(r->at, " \t\n");
    for (; *r->at && !strchr(",={}", *r->at); r->at++) {
        if (*r->at == '\\' && r->at[1])
            r->at++;
        word[n++] = *r->at;
    }
    while (n && strchr(" \t\n", word[n - 1]))
        n--;
    word[n] = '\0';
    return word;
}

static bool read_args(struct list_reader *r, struct pass_item *item)
{
    VEC(struct pass_arg) args = {0};

    do {
        struct pass_arg arg = {0};
        r->at++;
        arg.name = read_word(r);
        if (*r->at != '=' || !*arg.name)
            return list_error(r, "expected OPTION=VALUE in the braces");
        r->at++;
        arg.value = read_word(r);
        VEC_PUSH(r->ctx, args, arg);
    } while (*r->at == ',');
    if (*r->at != '}')
        return list_error(r, "expected '}'");
    r->at++;
    r->at += strspn(r->at, " \t\n");
    VEC_GIVE(args, item->args, item->nargs);
    return true;
}

static const struct pass *find_pass(const char *name)
{
    int n;
    const struct pass *table = pass_table(&n);
    for (int i = 0; i < n; i++)
        if (strcmp(table[i].name, name) == 0)
            return &table[i];
    return NULL;
}

const char *pass_unknown(struct ir_ctx *ctx, const char *name)
{
    struct ir_nearest near = {.word = name};
    int n;
    const struct pass *table = pass_table(&n);

    for (int i = 0; i < n; i++)
        ir_nearest_try(&near, table[i].name);
    const struct pass_pipeline_row *rows = pass_pipeline_table(&n);
    for (int i = 0; i < n; i++)
        ir_nearest_try(&near, rows[i].name);
    return ir_internf(ctx, "unknown pass '%s'%s", name, ir_did_you_mean(ctx, &near));
}

static bool parse(struct ir_ctx *ctx, const char *text, struct pass_sequence *list);

/* The passes of the pipeline of that name. */
static bool read_pipeline(struct list_reader *r, const char *name, struct pass_sequence *list)
{
    struct pass_span span = {name, list->n, 0};
    if (!parse(r->ctx, pass_of_pipeline(name), list))
        return false;
    span.last = list->n - 1;
    IR_PUSH(r->ctx, list->spans, list->nspans, list->spans_cap, span);
    return true;
}

static bool read_pass(struct list_reader *r, struct pass_sequence *list)
{
    struct pass_item item = {0};
    const char *start = r->at, *name = read_word(r);
    item.pass = find_pass(name);
    if (!item.pass && pass_of_pipeline(name))
        return read_pipeline(r, name, list);
    if (!item.pass) {
        r->at = start;
        return list_error(r, *name ? pass_unknown(r->ctx, name) : "expected the name of a pass");
    }
    if (*r->at == '{' && !read_args(r, &item))
        return false;
    VEC_PUSH(r->ctx, *list, item);
    return true;
}

static bool parse(struct ir_ctx *ctx, const char *text, struct pass_sequence *list)
{
    struct list_reader r = {ctx, text, text};

    while (*r.at) {
        if (!read_pass(&r, list))
            return false;
        if (*r.at && (*r.at != ',' || !r.at[1]))
            return list_error(&r, "expected ',' and another pass");
        r.at += *r.at == ',';
    }
    return true;
}

bool pass_parse_list(struct ir_ctx *ctx, const char *text, struct pass_sequence *list)
{
    *list = (struct pass_sequence){0};
    return parse(ctx, text, list);
}

static const char *escaped(struct ir_ctx *ctx, const char *s)
{
    char *out = IR_NEWN(ctx, 2 * strlen(s) + 1, char);
    size_t n = 0;

    for (; *s; s++) {
        if (strchr(",={}\\", *s))
            out[n++] = '\\';
        out[n++] = *s;
    }
    return out;
}

const char *pass_list_text(struct ir_ctx *ctx, const struct pass_item *items, int from, int n)
{
    const char *text = "";

    for (int i = from; i < n; i++) {
        text = ir_internf(ctx, "%s%s%s", text, i > from ? "," : "", items[i].pass->name);
        for (int k = 0; k < items[i].nargs; k++)
            text = ir_internf(ctx, "%s%s%s=%s", text, k ? "," : "{", escaped(ctx, items[i].args[k].name),
                              escaped(ctx, items[i].args[k].value));
        if (items[i].nargs)
            text = ir_internf(ctx, "%s}", text);
    }
    return text;
}
