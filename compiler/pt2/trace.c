/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where in the Python program a node is from: of the stack that the archive records, the innermost line that is not
 * PyTorch's own, and the module around the node: `model.py:12, in forward, of 'encoder.0' (Linear): return
 * self.proj(x)`.
 */
#include "compiler/pt2/pt2_int.h"

#include <string.h>

/* A line of a stack: File "PATH", line N, in NAME, and on the next line its source. */
struct frame {
    const char *path, *number, *name, *source;
    int path_length, number_length, name_length, source_length;
};

/* Reads the frame whose `File "` ends at `at`. */
static bool read_frame(const char *at, struct frame *f)
{
    const char *quote = strchr(at, '"');
    if (!quote || strncmp(quote, "\", line ", 8) != 0)
        return false;
    *f = (struct frame){.path = at, .path_length = (int)(quote - at), .number = quote + 8};
    f->number_length = (int)strspn(f->number, "0123456789");
    const char *rest = f->number + f->number_length;
    f->name = f->source = "";
    if (!strncmp(rest, ", in ", 5)) {
        f->name = rest + 5;
        f->name_length = (int)strcspn(f->name, "\n");
        rest = f->name + f->name_length;
    }
    if (*rest == '\n') {
        const char *source = rest + strspn(rest, "\n ");
        f->source = strncmp(source, "File \"", 6) ? source : "";
        f->source_length = (int)strcspn(f->source, "\n");
    }
    return f->number_length > 0;
}

static bool is_torch(const struct frame *f)
{
    static const char *const own[] = {"-packages/torch/", "torch/nn/modules/"};
    const char *path = f->path;
    for (size_t k = 0; k < sizeof own / sizeof *own; k++) {
        const char *found = strstr(path, own[k]);
        if (found && found < path + f->path_length)
            return true;
    }
    return false;
}

/* ", of 'layer.0' (Linear)", of "KEY,PATH,TYPE;KEY,PATH,TYPE...", the innermost last; "": the node is of no module but
 * the program. */
static const char *module(struct ir_ctx *ctx, const char *stack)
{
    const char *last = stack ? strrchr(stack, ';') : NULL;
    const char *path = last ? strchr(last, ',') : NULL, *type = path ? strchr(path + 1, ',') : NULL;
    if (!type || type == path + 1)
        return "";
    const char *dot = strrchr(type, '.');
    return ir_internf(ctx, ", of '%.*s' (%s)", (int)(type - path) - 1, path + 1, (dot ? dot : type) + 1);
}

const char *pt2_line(struct imp *im)
{
    struct pt2 *p = (struct pt2 *)im;
    const json_t *metadata = p->at.node ? js_object(p->at.node, "metadata") : NULL;
    const char *trace = js_string(metadata, "stack_trace");
    struct frame here = {0}, frame;
    for (const char *at = trace; at && (at = strstr(at, "File \"")); at++) {
        if (read_frame(at + 6, &frame) && (!here.path || !is_torch(&frame)))
            here = frame;
    }
    if (!here.path)
        return NULL;
    const char *in = here.name_length ? ir_internf(p->ctx, ", in %.*s", here.name_length, here.name) : "";
    const char *text = here.source_length ? ir_internf(p->ctx, ": %.*s", here.source_length, here.source) : "";
    return ir_internf(p->ctx, "%.*s:%.*s%s%s%s", here.path_length, here.path, here.number_length, here.number, in,
                      module(p->ctx, js_string(metadata, "nn_module_stack")), text);
}
