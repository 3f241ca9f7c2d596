/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Has a node what its operator does not have? Nothing would read it, and the model would compute something else than its author meant; so
 * it is an error, as for ONNX's checker and ONNX Runtime. Attributes that begin with two underscores are anybody's.
 */
#include "compiler/onnx/import_int.h"

#include <string.h>

static const struct schema {
    const char *domain, *op;
    int operands, results;
    const char *attrs; /* names, separated by blanks */
} schemas[] = {
#define AI ""
#define ML "ai.onnx.ml"
#define PREVIEW "ai.onnx.preview"
#define TRAIN "ai.onnx.preview.training"
#define SCHEMA(domain, op, operands, results, attrs) {domain, op, operands, results, attrs},
#include "compiler/onnx/schema.def"
#undef SCHEMA
};

static const struct schema *find(const char *domain, const char *op)
{
    for (size_t k = 0; k < sizeof schemas / sizeof *schemas; k++)
        if (!strcmp(schemas[k].op, op) && !strcmp(schemas[k].domain, domain))
            return &schemas[k];
    return NULL;
}

static bool has_attr(const struct schema *s, const char *name)
{
    size_t n = strlen(name);
    for (const char *at = s->attrs; *at; at += strspn(at, " ")) {
        size_t length = strcspn(at, " ");
        if (length == n && !memcmp(at, name, n))
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

bool imp_check_schema(struct imp *im)
{
    const struct onnx_node *n = im->node;
    const struct schema *s = find(im->domain, n->op);
    if (!s)
        return true;
    int operands = count(n->input_count, n->inputs), results = count(n->output_count, n->outputs);
    if (operands > s->operands)
        return imp_bad(im, "expected at most %d operand%s, got %d", s->operands, s->operands == 1 ? "" : "s", operands);
    if (results > s->results)
        return imp_bad(im, "expected at most %d result%s, got %d", s->results, s->results == 1 ? "" : "s", results);
    for (size_t k = 0; k < n->attr_count; k++)
        if (strncmp(n->attrs[k].name, "__", 2) && !has_attr(s, n->attrs[k].name))
            return unknown_attr(im, s, n->attrs[k].name);
    return true;
}
