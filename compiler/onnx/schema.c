/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Has a node what its operator does not have, or lacks it what it must have? Nothing would read it, and the model would
 * compute something else than its author meant; so it is an error, as for ONNX's checker and ONNX Runtime. Attributes
 * that begin with two underscores are anybody's.
 */
#include "compiler/onnx/import_int.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const struct schema {
    const char *domain, *op;
    int operands, results;
    const char *needed; /* FIRST_OPSET:LETTERS, separated by blanks */
    const char *attrs;  /* names, likewise */
} schemas[] = {
#define AI ""
#define ML "ai.onnx.ml"
#define MS "com.microsoft"
#define PREVIEW "ai.onnx.preview"
#define TRAIN "ai.onnx.preview.training"
#define SCHEMA(domain, op, operands, results, needed, attrs) {domain, op, operands, results, needed, attrs},
#include "compiler/onnx/schema.def"
#undef SCHEMA
};

/* What an attribute may hold. */
enum { ANYCASE = 1, EMPTY = 2 };
static const struct words {
    const char *domain, *op, *attr;
    int since, until, flags;
    const char *words; /* separated by blanks */
} words[] = {
#define WORDS(domain, op, attr, since, until, flags, words) {domain, op, attr, since, until, flags, words},
#define RANGE(domain, op, attr, least, most)
#include "compiler/onnx/values.def"
};

static const struct range {
    const char *domain, *op, *attr;
    int64_t least, most;
} ranges[] = {
#define WORDS(domain, op, attr, since, until, flags, words)
#define RANGE(domain, op, attr, least, most) {domain, op, attr, least, most},
#include "compiler/onnx/values.def"
};

static const struct schema *find(const char *domain, const char *op)
{
    for (size_t k = 0; k < sizeof schemas / sizeof *schemas; k++)
        if (!strcmp(schemas[k].op, op) && !strcmp(schemas[k].domain, domain))
            return &schemas[k];
    return NULL;
}

/* Is `name` one of the words of a list that blanks separate? */
static bool listed(const char *list, const char *name, bool any_case)
{
    size_t n = strlen(name);
    for (const char *at = list; *at; at += strspn(at, " ")) {
        size_t length = strcspn(at, " ");
        if (length == n && (any_case ? !strncasecmp(at, name, n) : !memcmp(at, name, n)))
            return true;
        at += length;
    }
    return false;
}

/* Those at the end that are left out don't count. */
static int count(size_t n, const char *const *names)
{
    while (n && !names[n - 1][0])
        n--;
    return (int)n;
}

static bool unknown_attr(struct imp *im, const struct schema *s, const char *name)
{
    struct ir_nearest near = {.word = name};
    for (const char *at = s->attrs; *at; at += strspn(at, " ")) {
        size_t length = strcspn(at, " ");
        ir_nearest_try(&near, ir_internf(im->ctx, "%.*s", (int)length, at));
        at += length;
    }
    return imp_bad(im, "unknown attribute '%s'%s", name, ir_did_you_mean(im->ctx, &near));
}

/* The letters of the operator's newest version that is not newer than the opset. */
static const char *needed_letters(const struct schema *s, int opset)
{
    const char *letters = "";
    for (const char *at = s->needed; *at; at += strspn(at, " ")) {
        if (atoi(at) <= opset)
            letters = at + strcspn(at, ":") + 1;
        at += strcspn(at, " ");
    }
    return letters;
}

static bool check_needed(struct imp *im, const struct schema *s)
{
    const char *letters = needed_letters(s, im->opset);
    for (int k = 0; letters[k] && letters[k] != ' '; k++)
        if (letters[k] == 'r' && !imp_has(im, k))
            return imp_bad(im, "operand %d is left out; it must be given", k);
    return true;
}

static bool check_word(struct imp *im, const struct words *w, const char *word)
{
    if (listed(w->words, word, w->flags & ANYCASE) || (!*word && w->flags & EMPTY))
        return true;
    return imp_bad(im, "attribute '%s' is '%s'; it may be %s", w->attr, ir_shown(word), w->words);
}

static bool check_words(struct imp *im, const struct words *w)
{
    const struct onnx_attr *a = imp_attr(im, w->attr);
    if (!a || (w->since > im->opset) || (w->until && w->until < im->opset))
        return true;
    if (a->type == ONNX_ATTR_STRING)
        return check_word(im, w, a->s.data);
    for (size_t k = 0; a->type == ONNX_ATTR_STRINGS && k < a->count; k++)
        if (!check_word(im, w, a->strings[k].data))
            return false;
    return true;
}

static bool check_number(struct imp *im, const struct range *r, int64_t v)
{
    if (v >= r->least && v <= r->most)
        return true;
    if (r->most >= INT32_MAX)
        return imp_bad(im, "attribute '%s' is %lld; at least %lld is expected", r->attr, (long long)v,
                       (long long)r->least);
    return imp_bad(im, "attribute '%s' is %lld; %lld to %lld are expected", r->attr, (long long)v, (long long)r->least,
                   (long long)r->most);
}

static bool check_range(struct imp *im, const struct range *r)
{
    const struct onnx_attr *a = imp_attr(im, r->attr);
    if (!a)
        return true;
    if (a->type == ONNX_ATTR_INT)
        return check_number(im, r, a->i);
    for (size_t k = 0; a->type == ONNX_ATTR_INTS && a->ints && k < a->count; k++)
        if (!check_number(im, r, a->ints[k]))
            return false;
    return true;
}

static bool check_values(struct imp *im)
{
    const char *op = im->node->op;
    for (size_t k = 0; k < sizeof words / sizeof *words; k++)
        if (!strcmp(words[k].op, op) && !strcmp(words[k].domain, im->domain) && !check_words(im, &words[k]))
            return false;
    for (size_t k = 0; k < sizeof ranges / sizeof *ranges; k++)
        if (!strcmp(ranges[k].op, op) && !strcmp(ranges[k].domain, im->domain) && !check_range(im, &ranges[k]))
            return false;
    return true;
}

bool imp_check_schema(struct imp *im)
{
    const struct onnx_node *n = im->node;
    const struct schema *s = find(im->domain, n->op);
    if (!check_values(im))
        return false;
    if (!s || im->opset < atoi(s->needed)) /* of what was before its first version it says nothing */
        return true;
    int operands = count(n->input_count, n->inputs), results = count(n->output_count, n->outputs);
    if (operands > s->operands)
        return imp_bad(im, "expected at most %d operand%s, got %d", s->operands, s->operands == 1 ? "" : "s", operands);
    if (results > s->results)
        return imp_bad(im, "expected at most %d result%s, got %d", s->results, s->results == 1 ? "" : "s", results);
    for (size_t k = 0; k < n->attr_count; k++)
        if (strncmp(n->attrs[k].name, "__", 2) && !listed(s->attrs, n->attrs[k].name, false))
            return unknown_attr(im, s, n->attrs[k].name);
    return check_needed(im, s);
}
