/* SPDX-License-Identifier: Apache-2.0 */
/* Private to passes/: the running pass, and lists of passes as text. */
#ifndef TCC_PASSES_RUNNER_INT_H
#define TCC_PASSES_RUNNER_INT_H

#include "passes/pass.h"

struct pass_arg { const char *name, *value; bool asked; };

/* The passes of a list [first, last] that the name of a pipeline stood for. */
struct pass_span { const char *name; int first, last; };

/* One element of a list: the pass and what stood in its braces. */
struct pass_item {
    const struct pass *pass;
    int nargs;
    struct pass_arg *args;
};

struct pass_run {
    struct ir_module *module;
    const struct pass_options *options;
    struct pass_item *item;
    const struct pass_sequence *list;    /* in which it stands */
    int64_t changes;             /* of this pass */
    int64_t *left;               /* changes that may still be made; NULL: no limit */
    int64_t room;                /* changes that count as progress */
};

/* "unknown pass 'NAME'", with the nearest known one. */
const char *pass_unknown(struct ir_ctx *ctx, const char *name);
struct pass_sequence { struct pass_item *at; int n, cap; struct pass_span *spans; int nspans, spans_cap; };

/* Parses 'pass,pass{opt=1,opt2=x}' (a backslash escapes , = { }), in which names of pipelines stand for their passes;
 * false after a diagnostic. */
bool pass_parse_list(struct ir_ctx *ctx, const char *text, struct pass_sequence *list);
/* The passes of a pipeline; NULL: there is none of that name. */
const char *pass_of_pipeline(const char *name);
/* The same list as text again, from item `from` on. */
const char *pass_list_text(struct ir_ctx *ctx, const struct pass_item *items, int from, int n);

#endif
