/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Placing by hand. A map file's lines are
 *     STAGE PATTERN...        # the nodes whose name, result's name or parameter's name match, as in a shell
 * and the first pattern that fits a node decides.
 */
#include "passes/parallel/partition.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#define LISTED 12 /* nodes without a place that are named */

struct rule {
    int stage;
    const char *pattern;
    bool used;
};
struct rules {
    struct rule *at;
    int n, cap;
};

static bool wrong(struct ir_ctx *ctx, const char *file, int line, const char *format, const char *text, int stages)
{
    struct ir_where w = {.file = file, .line = line, .col = 1};
    return ir_error(ctx, &w, format, text, stages);
}

static bool read_line(struct ir_ctx *ctx, const struct partition_options *o, char *text, int line, struct rules *r)
{
    char *save, *end;
    text[strcspn(text, "#")] = 0;
    char *word = strtok_r(text, " \t\r", &save);
    if (!word)
        return true;
    long stage = strtol(word, &end, 10);
    if (*end || stage < 0 || stage >= o->stages)
        return wrong(ctx, o->map_name, line, "'%s' is no stage: expected a number below %d, then patterns", word,
                     o->stages);
    word = strtok_r(NULL, " \t\r", &save);
    if (!word)
        return wrong(ctx, o->map_name, line, "stage%s without a pattern (of %d stages)", "", o->stages);
    for (; word; word = strtok_r(NULL, " \t\r", &save))
        VEC_PUSH(ctx, *r, (struct rule){(int)stage, ir_strdup(ctx, word), false});
    return true;
}

static bool read_map(struct ir_ctx *ctx, const struct partition_options *o, struct rules *r)
{
    char *text = ir_strdup(ctx, o->map), *save;
    int line = 1;
    for (char *at = text; at; line++) {
        char *next = strchr(at, '\n');
        if (next)
            *next++ = 0;
        if (!read_line(ctx, o, at, line, r))
            return false;
        at = next;
    }
    (void)save;
    if (!r->n && o->default_stage < 0)
        return wrong(ctx, o->map_name, 1, "the map%s places nothing in %d stages", "", o->stages);
    return true;
}

bool partition_map_check(struct ir_ctx *ctx, const struct partition_options *o)
{
    struct rules r = {0};
    return !o->map || read_map(ctx, o, &r);
}

static bool fits(const struct ir_node *n, const char *pattern)
{
    if (n->where.node && !fnmatch(pattern, n->where.node, 0))
        return true;
    for (int i = 0; i < n->nout; i++)
        if (n->out[i]->name && !fnmatch(pattern, n->out[i]->name, 0))
            return true;
    for (int i = 0; i < n->nin; i++) {
        const struct ir_state *s = partition_state_of(n->in[i].value);
        if (s && !fnmatch(pattern, s->name, 0))
            return true;
    }
    return n->op == IR_state_write && !fnmatch(pattern, ir_state_of(n)->name, 0);
}

static const char *name_of(struct ir_ctx *ctx, const struct ir_node *n)
{
    const char *name = n->where.node && *n->where.node ? n->where.node
                       : n->nout && n->out[0]->name    ? n->out[0]->name
                                                       : "?";
    return ir_internf(ctx, "%s (%s)", name, n->where.op ? n->where.op : ir_op_info(n->op)->name);
}

bool partition_by_map(struct partition *p)
{
    struct rules r = {0};
    if (!read_map(p->ctx, &p->o, &r))
        return false;
    const char *names = "", *last = "";
    int missing = 0;
    for (int i = 0; i < p->n; i++) {
        struct partition_item *it = &p->items[i];
        it->stage = p->o.default_stage;
        for (int k = 0; k < r.n; k++) {
            if (!fits(it->node, r.at[k].pattern))
                continue;
            it->stage = r.at[k].stage;
            r.at[k].used = true;
            break;
        }
        if (it->stage >= 0 || !strcmp(last, name_of(p->ctx, it->node)))
            continue; /* an operator may have become several nodes */
        last = name_of(p->ctx, it->node);
        if (missing++ < LISTED)
            names = ir_internf(p->ctx, "%s\n  %s", names, last);
    }
    struct ir_where w = {.file = p->func->module->name};
    if (missing)
        ir_diag(p->ctx, &w, IR_D_USAGE, "%d node%s without a stage: add patterns to %s, or --default-partition=K:%s%s",
                missing, missing == 1 ? "" : "s", p->o.map_name ? p->o.map_name : "the map", names,
                missing > LISTED ? "\n  ..." : "");
    return !missing;
}
