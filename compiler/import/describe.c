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
    const char *text = safetensors_value(m->ctx, path, TABLES, NULL), *output;
    struct classes c = {0};

    if (!text)
        return false;
    if (!read_classes(m, text, &c))
        return ir_error(m->ctx, &(struct ir_where){.file = path}, "its metadata " TABLES " is damaged");
    ir_meta_new(m, TABLES, text);
    const char *loss = safetensors_value(m->ctx, path, "train.loss", "");
    if (loss && *loss)
        ir_meta_new(m, "train.loss", loss);
    output = c.names.n ? output_of(m, c.names.n) : NULL;
    if (output && !ir_labels_of(m, output))
        ir_labels_new(m, output, c.names.n, c.names.at);
    return true;
}
