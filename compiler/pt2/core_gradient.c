/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where core ATen stops gradients. Its programs have neither `detach` nor regions without gradients: PyTorch's
 * run_decompositions() makes an alias of the one and inlines the other, without a warning. What each node's metadata
 * says it was made of is still there: the function of the module (`detach_1;method_descriptor.detach`), or the region.
 * It does not say where a region wrote to memory that has a gradient, which the functional program only copies: that is
 * warned of, as is a program without metadata.
 */
#include "compiler/pt2/pt2_int.h"

#include <string.h>

static const char *function_of(const json_t *node)
{
    return js_string(js_object(node, "metadata"), "torch_fn");
}

static bool in_region(const char *function)
{
    return !strncmp(function, "wrap_with_set_grad_enabled;", 27);
}

bool pt2_is_core(const struct pt2 *p)
{
    const json_t *dialects = js_array(p->archive->program, "verifiers");
    size_t k;
    bool training = false;
    for (k = 0; k < json_array_size(dialects); k++) {
        const char *name = json_string_value(json_array_get(dialects, k));
        training = training || (name && !strcmp(name, "TRAINING"));
    }
    return dialects && !training;
}

bool pt2_core_stops(struct pt2 *p, const json_t *node)
{
    if (!p->im->train || !p->core.is)
        return false;
    const char *function = function_of(node), *dot = function ? strrchr(function, '.') : NULL;
    p->core.untold += !function;
    p->core.told += function != NULL;
    return function && (in_region(function) || (dot && (!strcmp(dot, ".detach") || !strcmp(dot, ".detach_"))));
}

/* The name of an op or a method of Python's in place. */
static bool is_in_place(const char *name, size_t length)
{
    return (length > 1 && name[length - 1] == '_' && name[length - 2] != '_') ||
           (length == 11 && !strncmp(name, "__setitem__", 11));
}

/* Was the node made of a write? A region's nodes say that in the line of the region's code that they are from. */
static bool was_write(const json_t *node)
{
    const char *function = function_of(node), *dot = function ? strrchr(function, '.') : NULL;
    if (dot && !in_region(function))
        return is_in_place(dot + 1, strlen(dot + 1));
    const char *trace = js_string(js_object(node, "metadata"), "stack_trace");
    const char *line = trace ? strrchr(trace, '\n') : NULL, *op = line ? strstr(line, "ops.aten.") : NULL;
    return op && is_in_place(op + 9, strcspn(op + 9, "."));
}

/* Memory of a kind that a gradient may be of: what nodes made. With `cut`, where a gradient was stopped. */
static bool is_made(const struct pt2_value *operand, bool cut)
{
    const struct pt2_value *root = operand;
    bool stops = false;
    for (const struct pt2_value *m = operand; m; m = m->of) {
        stops = stops || m->cuts;
        root = m;
    }
    return root && root->node && stops == cut;
}

static const struct pt2_value *operand_at(struct pt2 *p, json_t *node, size_t k)
{
    json_t *input = json_array_get(js_array(node, "inputs"), k);
    const char *name = input ? pt2_name_of(json_object_get(input, "arg")) : NULL;
    return name ? pt2_lookup(p, name) : NULL;
}

void pt2_core_note(struct pt2 *p, json_t *node)
{
    const char *target = js_string(node, "target");
    if (!p->im->train || !p->core.is || p->core.write || !was_write(node))
        return;
    bool select = target && strstr(target, "aten.where"); /* elements of what was there, where nothing is written */
    bool lost = is_made(operand_at(p, node, 0), !p->at.no_gradient);
    if (p->at.no_gradient && select)
        lost = is_made(operand_at(p, node, 1), false) || is_made(operand_at(p, node, 2), false);
    if (lost) {
        const char *line = pt2_line(p->im);
        p->core.write = line ? line : "";
    }
}

void pt2_core_warn(struct pt2 *p)
{
    struct ir_where where = {.file = p->im->path};
    const char *use = "train what torch.export.export() gives, without run_decompositions() (doc/exporting.md)";
    if (p->core.write)
        ir_diag(p->ctx, &where, IR_D_WARNING,
                "core ATen does not say what gradient remains of memory that is written to where none is recorded%s%s; "
                "%s",
                *p->core.write ? ": " : "", p->core.write, use);
    if (p->core.is && p->core.untold && !p->core.told)
        ir_diag(p->ctx, &where, IR_D_WARNING,
                "core ATen without metadata: detach() and torch.no_grad() of the module are lost; if it has any, %s",
                use);
}
