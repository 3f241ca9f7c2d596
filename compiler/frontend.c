/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a model file with the front end that its suffix names, and pins the dims of IR text (ONNX pins its own). */
#include "compiler/frontend.h"
#include "passes/pass.h"

#include <string.h>

static bool pin_func(struct ir_ctx *ctx, const struct frontend_options *o, struct ir_func *f)
{
    struct frontend_pins pins = {0};
    int n = f->body->nparams;
    ir_type *types = IR_NEWN(ctx, n, ir_type);

    for (int i = 0; i < n; i++)
        types[i] = f->body->params[i]->type;
    if (!frontend_pin(ctx, o, n, f->input_names, types, &pins))
        return false;
    for (int i = 0; i < n; i++)
        f->body->params[i]->type = types[i];
    return pins.n ? pass_substitute(f, pins.n, pins.from, pins.to) : ir_infer_func(f);
}

static struct ir_module *read_text(struct ir_ctx *ctx, const char *path, const struct frontend_options *o)
{
    char error[512];
    struct ir_file *file = ir_file_open(path, error, sizeof error);
    struct ir_where where = {.file = path};

    if (!file) {
        ir_error(ctx, &where, "%s", error);
        return NULL;
    }
    struct ir_module *m = ir_parse(ctx, path, (const char *)ir_file_data(file), ir_file_size(file));
    ir_file_unref(file);
    if (m && !m->funcs) {
        ir_error(ctx, &where, "it holds no function");
        return NULL;
    }
    if (!m)
        return NULL;
    bool pinned = o && ((o->dims && o->dims[0]) || (o->shapes && o->shapes[0]) || o->split);
    for (struct ir_func *f = m->funcs; f && pinned; f = f->next)
        if (!pin_func(ctx, o, f))
            return NULL;
    return m;
}

struct ir_module *frontend_read(struct ir_ctx *ctx, const char *path, const struct frontend_options *o)
{
    const char *dot = strrchr(path, '.');
    return dot && strcmp(dot, ".tcir") == 0 ? read_text(ctx, path, o) : onnx_import(ctx, path, o);
}
