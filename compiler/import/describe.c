/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --embed-meta: what training's data were goes from a checkpoint into the artifact, as the text that tccc-train wrote
 * (tools/data/tables.c says how it reads), and what its loss was (train_loss_text); and the names of the target's
 * classes become the words of the output that has so many numbers a sample.
 */
#include "compiler/import/adapter.h"
#include "compiler/import/frontend.h"

#include <string.h>

#include "base/safe.h"

#define TABLES "train.data.tables"
#define LOSS "train.loss"

struct classes {
    VEC(const char *) names;
};

static bool is_input(const struct ir_module *m, const char *name)
{
    const struct ir_func *f = m->funcs;

    for (int i = 0; f && i < f->body->nparams; i++)
        if (f->input_names[i] && !strcmp(f->input_names[i], name))
            return true;
    return false;
}

/* Of the first column with classes of what is no input of the model: the target. False: the text is damaged. */
static bool read_classes(const struct ir_module *m, const char *text, struct classes *c)
{
    char *at = strcpy(IR_NEWN(m->ctx, strlen(text) + 1, char), text);
    bool target = false, done = false;

    while (*at && !done) {
        char *line = at, *end = at + strcspn(at, "\n"), *rest = line + strcspn(line, " \n");
        at = *end ? end + 1 : end;
        *end = '\0';
        if (rest < end)
            *rest++ = '\0';
        bool input = !strcmp(line, "input"), class = !strcmp(line, "class");
        if ((input || class) && !tcr_unescape(rest))
            return false;
        done = c->names.n && !class;
        target = input ? !is_input(m, rest) : target;
        if (class && target)
            VEC_PUSH(m->ctx, c->names, ir_intern(m->ctx, rest));
    }
    return true;
}

/* The output whose rows have a number for each class: the first of floats. */
static const char *output_of(const struct ir_module *m, int nclasses)
{
    const struct ir_func *f = m->funcs;
    const struct ir_node *result = f ? f->body->last : NULL;

    for (int i = 0; result && i < result->nin; i++) {
        ir_type t = result->in[i].value->type;
        if (t->kind == IR_T_TENSOR && t->rank == 2 && tcc_is_float(t->dtype) && ir_const_or(t->dim[1], -1) == nclasses)
            return ir_output_name(f, i);
    }
    return NULL;
}

bool frontend_describe(struct ir_module *m, const char *path)
{
    static const char *const keys[] = {TABLES, LOSS};
    const struct ir_where where = {.file = path};
    const char *text[2], *output;
    struct classes c = {0};

    if (!safetensors_values(m->ctx, path, 2, keys, text))
        return false;
    if (!text[0])
        return ir_error(m->ctx, &where, "its metadata have no '" TABLES "', which tccc-train writes into checkpoints");
    if (!read_classes(m, text[0], &c))
        return ir_error(m->ctx, &where, "its metadata " TABLES " is damaged");
    for (int i = 0; i < 2; i++)
        if (text[i] && *text[i])
            ir_meta_new(m, keys[i], text[i]);
    output = c.names.n ? output_of(m, c.names.n) : NULL;
    if (output && !ir_labels_of(m, output))
        ir_labels_new(m, output, c.names.n, c.names.at);
    return true;
}
