/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an import tells: errors at the node that is imported, one message for all nodes that can't be imported, and the
 * warning of a model to be trained that was exported for inference.
 */
#include "compiler/import/import.h"

#include <fnmatch.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FEW_CONVOLUTIONS 3 /* fewer, with biases, are more often a small network than a folded one */

static const char *vtext(struct imp *im, const char *format, va_list args)
{
    char text[600];
    vsnprintf(text, sizeof text, format, args);
    return ir_strdup(im->ctx, text);
}

bool imp_bad(struct imp *im, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const char *text = vtext(im, format, args);
    va_end(args);
    return ir_error(im->ctx, &im->b.where, "%s", text);
}

bool imp_unsupported(struct imp *im, const char *format, ...)
{
    if (im->refused)
        return false;
    va_list args;
    va_start(args, format);
    const char *why = vtext(im, format, args);
    va_end(args);
    im->refused = true;
    VEC_PUSH(im->ctx, im->refusals,
             (struct imp_refusal){.node = im->b.where.node,
                                  .op = im->b.where.op,
                                  .why = why,
                                  .domain = im->line ? NULL : im->domain,
                                  .line = im->line ? im->line(im) : NULL,
                                  .opset = im->opset});
    return false;
}

static void print_refusal(FILE *f, const struct imp_refusal *r)
{
    fputs("\n  ", f);
    if (r->node)
        fprintf(f, "node '%s' (%s", ir_shown(r->node), ir_shown(r->op));
    if (r->node && r->domain)
        fprintf(f, ", domain %s, opset %d", r->domain[0] ? ir_shown(r->domain) : "ai.onnx", r->opset);
    fprintf(f, "%s%s", r->node ? "): " : "", ir_shown(r->why));
    if (r->count > 1)
        fprintf(f, " (and %d more node%s)", r->count - 1, r->count == 2 ? "" : "s");
    if (r->line)
        fprintf(f, "\n    %s", ir_shown(r->line));
}

/* One message for all nodes that can't be imported: what each is, why, where it is from; one entry for an operator that
 * is not known. */
void imp_report_refusals(struct imp *im)
{
    char *text = NULL;
    size_t size = 0;
    int nodes = 0;
    FILE *f = open_memstream(&text, &size);
    if (!f)
        ir_no_memory(im->ctx);
    for (int k = 0; k < im->refusals.n; k++)
        nodes += im->refusals.at[k].count > 1 ? im->refusals.at[k].count : 1;
    fprintf(f, "%d node%s not supported:", nodes, nodes == 1 ? " is" : "s are");
    for (int k = 0; k < im->refusals.n; k++)
        print_refusal(f, &im->refusals.at[k]);
    fclose(f);
    const char *kept = ir_strdup(im->ctx, text);
    free(text);
    struct ir_where w = {.file = im->path};
    ir_diag(im->ctx, &w, IR_D_UNSUPPORTED, "%s", kept);
}

const char *imp_said_of(struct imp *im, size_t n, const struct imp_saying *list, const char *name)
{
    for (size_t k = 0; k < n; k++) {
        for (const char *at = list[k].patterns; *at; at += strspn(at, " ")) {
            size_t length = strcspn(at, " ");
            if (!fnmatch(ir_internf(im->ctx, "%.*s", (int)length, at), name, 0))
                return list[k].words;
            at += length;
        }
    }
    return NULL;
}

static const char *counted(struct imp *im, int n, const char *what)
{
    return n ? ir_internf(im->ctx, "%d %s%s", n, what, n > 1 ? "s" : "") : "";
}

void imp_warn_signs(struct imp *im, const struct imp_export_signs *s)
{
    int norms = s->still_batch_norms == s->batch_norms ? s->still_batch_norms : 0; /* some: frozen on purpose */
    int dropouts = s->still_dropouts == s->dropouts ? s->still_dropouts : 0;
    const char *sign = NULL;

    if (s->made)
        sign = ir_internf(im->ctx, "%s with a bias that an exporter has made", counted(im, s->made, "layer"));
    else if (norms || dropouts)
        sign = ir_internf(im->ctx, "%s%s%s in eval mode", counted(im, norms, "batch normalisation"),
                          norms && dropouts ? " and " : "", counted(im, dropouts, "Dropout"));
    else if (!s->norms && !s->dropouts && !s->plain && s->biased >= FEW_CONVOLUTIONS)
        sign = ir_internf(im->ctx, "%s with biases, and neither normalisation nor Dropout",
                          counted(im, s->biased, "convolution"));
    struct ir_where where = {.file = im->path};
    if (sign)
        ir_diag(im->ctx, &where, IR_D_WARNING,
                "%s: exporters for inference fold BatchNormalization and drop Dropout; if the model has them and they "
                "are to train, export it for training (doc/exporting.md)",
                sign);
}
