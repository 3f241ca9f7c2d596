/* SPDX-License-Identifier: Apache-2.0 */
/*
 * compile.c - from a recorded graph to a session: by its digest from the context, else from the cache folder, else
 * through the compiler.
 *
 * Inputs and state variables are named by position, so that the same program recorded again gives the same graph
 * whatever its tensors hold.
 */
#include "compiler/compile_int.h"
#include "compiler/trace/trace_int.h"
#include "base/safe.h"

#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

/* -- The final graph ---------------------------------------------------------------------------------------- */

/* By input: is it no input of what is compiled? It is a state variable, or another process's. */
static bool *left_inputs(struct trace_ctx *c, const struct trace_results *r)
{
    bool *gone = IR_NEWN(c->graph.ctx, (size_t)c->graph.ninputs + 1, bool);
    for (int i = 0; i < c->graph.ninputs; i++)
        gone[i] = r->gone[i];
    for (int i = 0; i < r->n; i++)
        if (r->donors[i] >= 0)
            gone[r->donors[i]] = true;
    return gone;
}

/* Inputs that are replaced become state variables. */
static bool make_states(struct trace_ctx *c, const struct trace_results *r)
{
    struct trace_graph *g = &c->graph;
    struct ir_block *body = g->func->body;
    struct ir_builder first = g->b;
    bool *gone = left_inputs(c, r);
    int nstates = 0, left = 0;
    first.before = body->first;
    first.where = g->b.where = (struct ir_where){0};
    for (int i = 0; i < r->n; i++) {
        if (r->donors[i] < 0 || r->skip[i])
            continue;
        struct ir_value *param = body->params[r->donors[i]], *result = r->values[i];
        const char *name = ir_internf(g->ctx, "s%d", nstates++);
        struct ir_state *state = ir_state_new(g->module, name, param->type, NULL, IR_STATE_PARAM);
        struct ir_value *read = ir_read_state(&first, state);
        if (!read || !ir_write_state(&g->b, state, result))
            return false;
        ir_replace_uses(param, read);
    }
    for (int i = 0; i < g->ninputs; i++)
        if (!gone[i]) {
            body->params[left] = body->params[i];
            body->params[left]->index = left;
            g->func->input_names[left] = ir_internf(g->ctx, "in%d", left);
            left++;
        }
    body->nparams = left;
    return true;
}

/* What nobody needs is no part of the graph: a step that happened to record more is not another one. */
static void drop_unused(struct trace_ctx *c)
{
    for (struct ir_node *n = c->graph.func->body->last, *prev; n; n = prev) {
        bool used = ir_op_info(n->op)->flags & (IR_F_EFFECT | IR_F_TERMINATOR);
        prev = n->prev;
        for (int i = 0; i < n->nout; i++)
            used |= ir_has_uses(n->out[i]);
        if (!used)
            ir_remove(n);
    }
}

static bool finish_graph(struct trace_ctx *c, const struct trace_results *r)
{
    struct trace_graph *g = &c->graph;
    struct ir_value **returned = IR_NEWN(g->ctx, (size_t)r->n + 1, struct ir_value *);
    int count = 0;
    for (int i = 0; i < r->n; i++)
        if (r->donors[i] < 0)
            returned[count++] = r->values[i];
    if (make_states(c, r) && ir_return(&g->b, count, returned, NULL)) {
        drop_unused(c);
        return true;
    }
    trace_fail(c, TCC_EBUG, "the graph cannot be completed");
    return false;
}

static char *text_of(struct trace_ctx *c, size_t *size)
{
    struct ir_protect frame;
    char *text = NULL;
    FILE *volatile f = open_memstream(&text, size);
    if (!f)
        return NULL;
    if (!IR_PROTECT(c->graph.ctx, &frame)) { /* the jump goes on without the stream */
        fclose(f);
        free(text);
        ir_no_memory(c->graph.ctx);
    }
    ir_print_module(f, c->graph.module);
    ir_unprotect(c->graph.ctx);
    if (fclose(f) == 0)
        return text;
    free(text);
    return NULL;
}

/* Names of the tensors that are inputs, then of those that are state variables; ended by 0 each. */
static char *names_of(struct trace_ctx *c, const struct trace_results *r)
{
    const struct trace_graph *g = &c->graph;
    const bool *gone = left_inputs(c, r);
    char *names = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&names, &size);
    if (!f)
        return NULL;
    for (int i = 0; i < g->ninputs; i++)
        if (!gone[i])
            fprintf(f, "%s%c", g->names[i] ? g->names[i] : "", 0);
    for (int i = 0; i < r->n; i++)
        if (r->donors[i] >= 0 && !r->skip[i])
            fprintf(f, "%s%c", g->names[r->donors[i]] ? g->names[r->donors[i]] : "", 0);
    if (fclose(f) == 0)
        return names;
    free(names);
    return NULL;
}

/* -- Artifacts ------------------------------------------------------------------------------------------------ */

static int status_of_exit(int exit_code)
{
    static const int statuses[] = {TCC_OK, TCC_EINPUT, TCC_EUSAGE, TCC_EENV, TCC_EBUG};
    return statuses[exit_code];
}

static int compile_failed(struct trace_ctx *c, int status)
{
    const struct ir_ctx *ctx = c->graph.ctx;
    for (int i = 0; i < ir_nmessages(ctx); i++)
        if (ir_message(ctx, i)->severity >= IR_ERROR)
            return trace_fail(c, status, "compiling the graph: %s", ir_message(ctx, i)->text);
    return trace_fail(c, status, "the graph cannot be compiled");
}

/* A cached artifact that can't be opened is compiled anew. */
static int compile_to(struct trace_ctx *c, const char *path, const char *name, uint64_t digest,
                      struct tccrt_model **model)
{
    struct tccc_options o;
    bool cached = false, fresh = c->flags.ndumps > 0; /* what is dumped is compiled */
    tccc_options_init(&o);
    o.model = o.name = name;
    o.output = path;
    o.level = c->level;
    o.target = c->target;
    o.march = c->march;
    o.exact = c->flags.exact;
    o.fast_math = c->flags.fast_math;
    o.verify = c->flags.verify;
    o.jobs = c->flags.jobs;
    o.verbose = o.time_passes = c->flags.verbose;
    o.dumps = (const char *const *)c->flags.dumps;
    o.dump_to = stderr;
    o.cache_dir = c->cache_dir;
    o.weights = TCCC_WEIGHTS_EMBED;
    for (;;) {
        int status = status_of_exit(compile_module(&o, c->graph.module, digest, fresh, &cached));
        if (status)
            return compile_failed(c, status);
        status = tccrt_open(path, model);
        if (status && !cached)
            return trace_fail(c, status, "%s", tccrt_error());
        if (!status) {
            ++*(cached ? &c->counters.loaded : &c->counters.compiled);
            return TCC_OK;
        }
        fresh = true;
    }
}

/* The artifact is a file in a folder of its own, gone when it has been opened. */
static int compile_and_open(struct trace_ctx *c, const uint64_t digest[2], struct tccrt_model **model)
{
    struct tcr_scratch folder;
    char path[PATH_MAX + 16], name[64];
    if (tcr_scratch_make(&folder, NULL, "tccc-trace-"))
        return trace_fail(c, TCC_EENV, "%s: cannot make a temporary folder: %m", tcr_temporary());
    snprintf(path, sizeof path, "%s/graph.so", folder.path);
    snprintf(name, sizeof name, "trace_%016llx%016llx", (unsigned long long)digest[0], (unsigned long long)digest[1]);
    int status = compile_to(c, path, name, digest[0], model);
    tcr_scratch_remove(&folder);
    return status;
}

void trace_compiled_free(struct trace_compiled *g)
{
    if (!g)
        return;
    tccrt_session_free(g->session);
    tccrt_close(g->model);
    free(g->states);
    free(g->text);
    free(g->names);
    free(g);
}

/* Which of the model's state variables is s0, s1, ... */
static bool find_states(struct trace_compiled *g, int n)
{
    struct tccrt_value_info info;
    g->nstates = n;
    g->states = calloc((size_t)n + 1, sizeof *g->states);
    for (int i = 0; g->states && i < n; i++)
        g->states[i] = -1;
    for (int i = 0; g->states && i < tccrt_nstates(g->model); i++)
        if (tccrt_state_info(g->model, i, &info) == TCC_OK && info.name[0] == 's') {
            int k = atoi(info.name + 1);
            if (k >= 0 && k < n)
                g->states[k] = i;
        }
    return g->states != NULL;
}

static bool make_session(struct trace_ctx *c, struct trace_compiled *g, int nstates)
{
    const struct tccrt_options options = {.threads = c->threads, .seed = c->seed, .device = c->device};
    trace_busy(c, true);
    int status = compile_and_open(c, g->digest, &g->model);
    trace_busy(c, false);
    if (status)
        return false;
    if (!(status = tccrt_session_new(g->model, &options, &g->session)))
        status = trace_session_groups(c, g->session);
    if (status)
        trace_fail(c, status, "%s", tccrt_error());
    else if (!find_states(g, nstates))
        trace_no_memory(c);
    return !c->status;
}

/* -- The door ------------------------------------------------------------------------------------------------------ */

static struct trace_compiled *find(struct trace_ctx *c, const uint64_t digest[2])
{
    for (struct trace_compiled *g = c->compiled; g; g = g->next)
        if (g->digest[0] == digest[0] && g->digest[1] == digest[1])
            return g;
    return NULL;
}

/* `fresh` has digest and texts. The code generator is forked: no thread of ours may be at work then. */
static bool add(struct trace_ctx *c, struct trace_compiled *fresh, int nstates)
{
    if (c->report)
        trace_report(c, fresh->text, fresh->names);
    trace_reap(c, true);
    if (c->status || !make_session(c, fresh, nstates))
        return false;
    trace_report_warnings(c, c->compiled ? c->compiled->number + 1 : 1);
    fresh->number = c->compiled ? c->compiled->number + 1 : 1;
    fresh->next = c->compiled;
    c->compiled = fresh;
    c->fresh = NULL;
    return true;
}

/* Of the context, so that it is not lost where memory runs out. */
static struct trace_compiled *compiled_new(struct trace_ctx *c, const struct trace_results *r, const uint64_t digest[2])
{
    struct trace_compiled *g = c->fresh = calloc(1, sizeof *g);
    size_t size = 0;
    if (!g)
        return NULL;
    g->digest[0] = digest[0];
    g->digest[1] = digest[1];
    g->text = text_of(c, &size);
    g->names = names_of(c, r);
    return g->text && g->names ? g : NULL;
}

struct trace_compiled *trace_compile(struct trace_ctx *c, const struct trace_results *r)
{
    uint64_t digest[2];
    int nstates = 0;
    for (int i = 0; i < r->n; i++)
        nstates += r->donors[i] >= 0 && !r->skip[i];
    if (!finish_graph(c, r))
        return NULL;
    struct trace_compiled *known = trace_digest(c, digest) ? find(c, digest) : NULL;
    if (known)
        return known;
    struct trace_compiled *fresh = compiled_new(c, r, digest);
    return fresh && add(c, fresh, nstates) ? fresh : NULL;
}
