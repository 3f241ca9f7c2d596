/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pass runner: runs a list of passes over a module and gives each of them dumps, verification, times, node counts,
 * a change limit, and a reproducer file that is there exactly while the pass runs.
 */
#include "passes/runner_int.h"
#include "passes/util_int.h"
#include "base/env.h"
#include "base/safe.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

static const struct ir_where nowhere;

/* So many changes for each node are progress; a pass that makes more may be undoing what it has done. */
enum { CHANGES_PER_NODE = 100 };

struct ir_module *pass_module(struct pass_run *r)
{
    return r->module;
}

struct ir_ctx *pass_ctx(struct pass_run *r)
{
    return r->module->ctx;
}

const struct pass_options *pass_opts(struct pass_run *r)
{
    return r->options;
}

const char *pass_param(struct pass_run *r, const char *name, const char *otherwise)
{
    for (int i = 0; i < r->item->nargs; i++) {
        if (strcmp(r->item->args[i].name, name) == 0) {
            r->item->args[i].asked = true;
            return r->item->args[i].value;
        }
    }
    return otherwise;
}

bool pass_changed(struct pass_run *r)
{
    if (r->left && *r->left <= 0)
        return false;
    if (r->left)
        --*r->left;
    if (r->changes++ < r->room)
        ir_tick(r->module->ctx);
    return true;
}

bool pass_bounded(struct pass_run *r)
{
    return (r->options->level >= 1 && !r->options->exact) || pass_fast(r);
}

bool pass_fast(struct pass_run *r)
{
    return r->options->fast_math && !r->options->exact;
}

/* -- Dumps ---------------------------------------------------------------------------------- */

/* Is the running pass that one, or the first (in front of it), or last, of the pipeline of that name? */
static bool is_named(const struct pass_run *r, bool before, const char *name)
{
    int at = (int)(r->item - r->list->at);
    for (int i = 0; i < r->list->nspans; i++)
        if (strcmp(r->list->spans[i].name, name) == 0 &&
            at == (before ? r->list->spans[i].first : r->list->spans[i].last))
            return true;
    return strcmp(r->item->pass->name, name) == 0;
}

/* The name by which a dump there is asked for; NULL: nobody asks. */
static const char *wants_dump(const struct pass_run *r, const char *when)
{
    const struct pass_options *o = r->options;
    for (int i = 0; o->dump && o->dump[i]; i++) {
        const char *d = o->dump[i];
        size_t n = strlen(when);
        if (strcmp(d, "all") == 0 && strcmp(when, "after") == 0)
            return r->item->pass->name;
        if (strncmp(d, when, n) == 0 && d[n] == ':' && is_named(r, *when == 'b', d + n + 1))
            return d + n + 1;
    }
    return NULL;
}

static void dump(const struct pass_run *r, const char *when)
{
    FILE *out = r->options->dump_to ? r->options->dump_to : stderr;
    const char *name = wants_dump(r, when);

    if (!name)
        return;
    fprintf(out, "; %s %s\n", when, name);
    ir_print_module(out, r->module);
    fflush(out);
}

/* Names in --dump-ir that no pass has would silently print nothing. */
static bool check_dumps(struct ir_ctx *ctx, const struct pass_options *o)
{
    int n;
    const struct pass *table = pass_table(&n);

    for (int i = 0; o->dump && o->dump[i]; i++) {
        const char *name = strchr(o->dump[i], ':');
        bool found = !name || pass_of_pipeline(name + 1);
        for (int k = 0; k < n && !found; k++)
            found = strcmp(table[k].name, name + 1) == 0;
        if (!found)
            return ir_error(ctx, &nowhere, "--dump-ir=%s: %s", o->dump[i], pass_unknown(ctx, name + 1));
    }
    return true;
}

/* -- Times ---------------------------------------------------------------------------------- */

static int count_nodes(const struct ir_module *m)
{
    int count = 0;
    for (const struct ir_func *f = m->funcs; f; f = f->next)
        count += pass_count_nodes(f->body);
    return count;
}

static void print_times(FILE *out, const struct pass_timing *t, int n)
{
    double total = 0;

    fprintf(out, "%-20s %10s %8s %8s %8s\n", "pass", "ms", "before", "after", "changes");
    for (int i = 0; i < n; i++) {
        fprintf(out, "%-20s %10.3f %8d %8d %8" PRId64 "\n", t[i].name, t[i].ms, t[i].before, t[i].after, t[i].changes);
        total += t[i].ms;
    }
    fprintf(out, "%-20s %10.3f\n", "total", total);
    fflush(out);
}

/* -- Reproducer ----------------------------------------------------------------------------- */

/* For tests of reproducers. */
static void damage(struct ir_module *m)
{
    struct ir_node *n = m->funcs->body->last;
    while (n && !(n->nout && ir_is_tensor(n->out[0]->type) && n->nin && n->in[0].value))
        n = n->prev;
    if (n)
        n->out[0]->type = ir_scalar_type(m->ctx, n->out[0]->type->dtype == TCC_U8 ? TCC_I8 : TCC_U8);
}

/* Writes the IR and the command that runs the rest of the list on it. A file that can't be written is a warning only:
 * the compilation itself is well. */
static bool write_reproducer(const struct pass_run *r)
{
    const struct pass_options *o = r->options;
    struct ir_ctx *ctx = r->module->ctx;
    struct tcr_save save;
    int at = (int)(r->item - r->list->at);

    if (tcr_save_open(&save, o->reproducer, TCR_SAVE_STREAM))
        return false;
    FILE *out = save.stream;
    const char *list = pass_list_text(ctx, r->list->at, at, r->list->n);
    fprintf(out, "; pass '%s' did not come back; ", r->item->pass->name);
    if (o->again)
        fprintf(out, "%s --passes='%s' THIS-FILE -o FILE.so shows it again\n", o->again, list);
    else
        fprintf(out, "tccc-opt --allow-files -O%d%s%s -p '%s' THIS-FILE shows it again\n", o->level,
                o->exact ? " --exact" : "", o->fast_math ? " --fast-math" : "", list);
    ir_print_module_beside(out, r->module, o->beside);
    return tcr_save_commit(&save) == 0;
}

/* -- Running -------------------------------------------------------------------------------- */

static bool check_args(const struct pass_run *r)
{
    for (int i = 0; i < r->item->nargs; i++) {
        if (!r->item->args[i].asked)
            return ir_error(r->module->ctx, &nowhere, "pass '%s' has no option '%s'", r->item->pass->name,
                            r->item->args[i].name);
    }
    return true;
}

static bool verify(const struct pass_run *r)
{
    struct ir_ctx *ctx = r->module->ctx;

    bool ok = ir_verify(r->module) && (!r->module->program || kn_verify_program(r->module->program));
    for (const struct ir_func *f = r->module->funcs; f && ok; f = f->next)
        ok = kn_verify_fusion(f);
    if (ok)
        return true;
    return ir_diag(ctx, &nowhere, IR_D_BUG, "invalid IR: after pass '%s'", r->item->pass->name);
}

static bool run_one(struct pass_run *r, struct pass_timing *t)
{
    int errors = ir_nerrors(r->module->ctx);

    dump(r, "before");
    t->name = r->item->pass->name;
    ir_doing(r->module->ctx, "pass", t->name);
    t->before = count_nodes(r->module);
    r->room = 1000 + CHANGES_PER_NODE * (int64_t)t->before;
    t->ms = 1e-6 * tcr_now();
    while (r->options->hang && is_named(r, true, r->options->hang))
        pause();
    bool ok = r->item->pass->run(r);
    if (r->options->damage && is_named(r, true, r->options->damage))
        damage(r->module);
    t->ms = 1e-6 * tcr_now() - t->ms;
    ir_tick(r->module->ctx);
    t->after = count_nodes(r->module);
    t->changes = r->changes;
    if (ok)
        dump(r, "after");
    if (!ok && ir_nerrors(r->module->ctx) == errors)
        ir_diag(r->module->ctx, &nowhere, IR_D_BUG, "invalid IR: pass '%s' failed without a message", t->name);
    if (ok && ir_nerrors(r->module->ctx) != errors) { /* a rewrite gave up what it could not build */
        return ir_diag(r->module->ctx, &nowhere, IR_D_BUG, "invalid IR: pass '%s' went on behind an error", t->name);
    }
    return ok && check_args(r) && (!r->options->verify || verify(r));
}

static bool run_items(struct ir_module *m, const struct pass_sequence *list, const struct pass_options *o)
{
    struct pass_timing *times = IR_NEWN(m->ctx, list->n + 1, struct pass_timing);
    int64_t left = o->change_limit;
    bool ok = true;
    int done = 0;

    for (; done < list->n && ok; done++) {
        struct pass_run r = {.module = m,
                             .options = o,
                             .item = &list->at[done],
                             .list = list,
                             .left = o->change_limit < 0 ? NULL
                                     : o->changes_left   ? o->changes_left
                                                         : &left};
        bool kept = o->reproducer && write_reproducer(&r);
        int bugs = ir_nerrors(m->ctx);
        ok = run_one(&r, &times[done]);
        if (o->timed)
            o->timed(o->timed_user, &times[done]);
        /* A diagnosed bug keeps its reproducer; an error in the model does not need one. */
        bool bug = false;
        for (int i = 0; !ok && ir_nerrors(m->ctx) > bugs && i < ir_nmessages(m->ctx); i++)
            bug |= ir_message(m->ctx, i)->severity == IR_BUG;
        if (kept && !bug)
            unlink(o->reproducer);
    }
    if (o->time_passes)
        print_times(o->time_to ? o->time_to : stderr, times, done);
    return ok;
}

bool pass_list(struct ir_module *m, const char *list, const struct pass_options *o)
{
    static const struct pass_options defaults = {.change_limit = -1};
    struct pass_sequence items;
    char error[256];

    if (!o)
        o = &defaults;
    if (pass_tables_error(error, sizeof error))
        return ir_diag(m->ctx, &nowhere, IR_D_BUG, "invalid IR: %s", error);
    return pass_parse_list(m->ctx, list, &items) && check_dumps(m->ctx, o) && run_items(m, &items, o);
}

bool pass_check(struct ir_ctx *ctx, const char *list, const struct pass_options *o)
{
    struct pass_sequence items;
    return pass_parse_list(ctx, list, &items) && (!o || check_dumps(ctx, o));
}
