/* SPDX-License-Identifier: Apache-2.0 */
/* tccc-plan: which layout of stages, copies and microbatches trains a model fastest on a described cluster, and what it
 * takes. */
#include "compiler/import/frontend.h"
#include "compiler/tccc.h"
#include "tools/plan/plan_tool_int.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST_RANKS 4096
#define MOST_COUNTS 64
#define TOP 10

struct job {
    struct planner p;
    struct tccc_train train;
    struct tccc_split split;
    int ranks[MOST_COUNTS], nranks;
    struct plan_search wanted; /* what the options leave open */
};

/* -- Options ------------------------------------------------------------------------------------------------------ */

static int read_ranks(struct job *j)
{
    const char *text = option_text(j->p.o, OPT_plan_ranks, NULL);
    for (const char *at = text; at; at = *at == ',' ? at + 1 : NULL) {
        char *end;
        long n = strtol(at, &end, 10);
        if (end == at || (*end && *end != ',') || n < 1 || n > MOST_RANKS || j->nranks == MOST_COUNTS)
            return usage_error(j->p.o, "--ranks=%s: expected up to %d whole numbers from 1 to %d", text, MOST_COUNTS,
                               MOST_RANKS);
        j->ranks[j->nranks++] = (int)n;
        at = end;
    }
    return EXIT_FINE;
}

static int read_placement(struct job *j)
{
    const char *text = option_text(j->p.o, OPT_placement, NULL);
    if (!text)
        return EXIT_FINE;
    const char *order = !strcmp(text, "cluster") ? "DPT" : !strcmp(text, "spread") ? "TPD" : text;
    const char *d = strchr(order, 'D'), *s = strchr(order, 'P');
    if (strlen(order) != 3 || !d || !s || !strchr(order, 'T'))
        return usage_error(j->p.o, "--placement=%s: expected cluster, spread or an order of the letters D, P and T",
                           text);
    j->wanted.spread = d > s;
    return EXIT_FINE;
}

/* What the texts of the training options say, and what they leave to be searched. */
static int read_training(struct job *j)
{
    const struct options *o = j->p.o;
    int code = train_flags(o, &j->train);
    if (code != EXIT_FINE)
        return code;
    j->split = (struct tccc_split){.default_stage = -1};
    if (!fields_split(o, &j->split) || !option_int(o, OPT_top, 0, 100000, &j->p.top) ||
        !option_int(o, OPT_batch_size, 1, INT64_C(1) << 40, &j->p.batch))
        return EXIT_USAGE;
    int partitions = j->split.partitions, micros = j->split.microbatches;
    j->split.partitions = 1;
    j->split.microbatches = micros == 1 || partitions * micros == 1 ? 1 : 2;
    j->train.split = &j->split;
    j->p.train = &j->train;
    j->wanted = (struct plan_search){.batch = j->p.batch,
                                     .partitions = partitions,
                                     .micros = micros,
                                     .parts = option_set(o, OPT_tensor_parallel) ? j->train.tensor_parallel : 0,
                                     .how = option_set(o, OPT_sequence_parallel) ? TENSOR_SEQUENCE : -1,
                                     .offload = option_set(o, OPT_offload) ? j->train.offload : -1,
                                     .zero = option_set(o, OPT_zero) ? j->train.zero : -1,
                                     .kind = -1,
                                     .active = j->split.active,
                                     .spread = -1,
                                     .top = (int)j->p.top};
    if (option_set(o, OPT_context_parallel) || option_set(o, OPT_expert_parallel)) {
        bool context = option_set(o, OPT_context_parallel);
        j->wanted.how = context ? TENSOR_CONTEXT : TENSOR_EXPERTS;
        j->wanted.parts = context ? j->train.context_parallel : j->train.expert_parallel;
    }
    /* They are the layout's: the model is read without. */
    j->train.tensor_parallel = j->train.context_parallel = j->train.expert_parallel = 0;
    j->train.sequence_parallel = false;
    j->train.offload = 0;
    return (code = read_ranks(j)) != EXIT_FINE ? code : read_placement(j);
}

/* What passes/ finds wrong with them. */
static int check_training(struct job *j)
{
    struct pipeline_options pipeline;
    if (!frontend_train_check(j->p.ctx, &j->train))
        return usage_error(j->p.o, "%s", ir_message(j->p.ctx, ir_nmessages(j->p.ctx) - 1)->text);
    if (j->split.schedule_of_stages && pipeline_parse(j->p.ctx, j->split.schedule_of_stages, &pipeline)) {
        j->wanted.kind = pipeline.kind;
        j->wanted.chunks = pipeline.chunks;
    }
    return EXIT_FINE;
}

/* -- Reading ------------------------------------------------------------------------------------------------------- */

/* The messages so far; `code`. */
static int tell(const struct job *j, int code)
{
    for (int i = 0; i < ir_nmessages(j->p.ctx); i++) {
        const struct ir_message *m = ir_message(j->p.ctx, i);
        if (m->severity >= IR_ERROR || !option_set(j->p.o, OPT_quiet))
            ir_print_message(stderr, m);
    }
    return code;
}

static int read_cluster(struct job *j)
{
    char error[256];
    struct ir_file *f = ir_file_open(j->p.cluster_file, error, sizeof error);
    if (!f)
        return tool_error(j->p.o, EXIT_DATA, "%s: %s", j->p.cluster_file, error);
    size_t n = ir_file_size(f);
    char *text = IR_NEWN(j->p.ctx, n + 1, char);
    if (n)
        memcpy(text, ir_file_data(f), n);
    ir_file_unref(f);
    return plan_cluster_read(j->p.ctx, j->p.cluster_file, text, &j->p.cluster) ? EXIT_FINE : tell(j, EXIT_DATA);
}

static int read_model(struct job *j)
{
    const struct options *o = j->p.o;
    struct tccc_options c;
    tccc_options_init(&c);
    if (!fields_compile(o, &c))
        return EXIT_USAGE;
    c.train = &j->train;
    struct frontend_options front = frontend_options_of(&c);
    front.one_version = true;
    struct ir_module *m = frontend_read(j->p.ctx, j->p.model, &front);
    struct pass_options plain = {.level = 2, .change_limit = -1};
    if (m && j->wanted.how == TENSOR_CONTEXT && !pass_list(m, "ring", &plain))
        m = NULL;
    if (m)
        j->p.plan = frontend_plan(m, &j->train);
    return tell(j, j->p.plan ? EXIT_FINE : EXIT_DATA);
}

/* -- Planning ------------------------------------------------------------------------------------------------------ */

/* The listed ones' memory is that of their plans. Those that can't be compiled, or take too much, are left out; how
 * many. */
static int compile_listed(struct job *j, struct plan_result *r)
{
    double room = plan_memory_of(&j->p.cluster, r->search.ranks);
    int kept = 0, dropped = 0;
    for (int i = 0; i < r->n && (!j->p.top || kept < j->p.top); i++) {
        struct plan_prediction q = r->list[i];
        char why[ERROR_SIZE];
        if (!plan_compiled(&j->p, &q, why)) {
            r->search.impossible++;
            r->search.why = r->search.why ? r->search.why : ir_strdup(j->p.ctx, why);
            dropped++;
        } else if (q.memory > room) {
            if (!r->search.too_large++ || q.memory < r->search.least_memory)
                r->search.least_memory = q.memory;
            dropped++;
        } else {
            r->list[kept++] = q;
        }
    }
    r->n = kept;
    return dropped;
}

/* As many as are wanted, of which some may turn out too large. */
static void search(struct job *j, struct plan_result *r)
{
    for (int dropped = 0, more = 1; more;) {
        r->search.top = j->p.top ? (int)j->p.top + dropped : 0;
        r->list = plan_search(j->p.plan, &j->p.cluster, &r->search, &r->n);
        int before = dropped, found = r->n;
        if (option_set(j->p.o, OPT_estimate))
            return;
        dropped = compile_listed(j, r);
        more = r->n < j->p.top && dropped > before && found >= r->search.top && r->search.slower;
    }
}

static int search_all(struct job *j)
{
    struct plan_result *results = IR_NEWN(j->p.ctx, j->nranks, struct plan_result);
    int found = 0;
    for (int i = 0; i < j->nranks; i++) {
        struct plan_result *r = &results[i];
        r->search = j->wanted;
        r->search.ranks = j->ranks[i];
        search(j, r);
        found += r->n > 0;
    }
    if (option_set(j->p.o, OPT_sbatch))
        plan_report_sbatch(&j->p, results, j->nranks);
    else if (option_set(j->p.o, OPT_json))
        plan_report_json(&j->p, results, j->nranks);
    else
        plan_report_text(&j->p, results, j->nranks);
    fflush(stdout);
    return found ? EXIT_FINE : tool_error(j->p.o, EXIT_DATA, "%s: no layout fits", j->p.model);
}

static int plan(struct job *j)
{
    int code = check_training(j);
    if (code != EXIT_FINE || (code = read_cluster(j)) != EXIT_FINE || (code = read_model(j)) != EXIT_FINE)
        return code;
    int64_t devices = (int64_t)j->p.cluster.nodes * j->p.cluster.devices;
    if (!j->nranks)
        j->ranks[j->nranks++] = devices < MOST_RANKS ? (int)devices : MOST_RANKS;
    int most = 1;
    for (int i = 0; i < j->nranks; i++)
        most = j->ranks[i] > most ? j->ranks[i] : most;
    if (option_set(j->p.o, OPT_measure) && (code = plan_measure_step(&j->p, &j->wanted, most,
                                                                     j->p.plan->fixed_batch > 0 ? j->p.plan->fixed_batch
                                                                     : j->p.batch > 0           ? j->p.batch
                                                                                                : 32)) != EXIT_FINE)
        return code;
    return search_all(j);
}

static int protected_plan(struct job *j)
{
    struct ir_protect frame;
    volatile int code = EXIT_ENVIRONMENT;
    j->p.ctx = ir_ctx_new();
    if (j->p.ctx && IR_PROTECT(j->p.ctx, &frame)) {
        code = plan(j);
        ir_unprotect(j->p.ctx);
    } else {
        tool_error(j->p.o, code, "no memory");
    }
    ir_ctx_free(j->p.ctx);
    return code;
}

static int run(struct options *o)
{
    static struct job j;
    j.p.o = o;
    j.p.top = TOP;
    if (option_set(o, OPT_calibrate)) {
        return o->nwords ? usage_error(o, "--calibrate measures the machine, not '%s'", o->words[0])
                         : plan_calibrate(o);
    }
    if (o->nwords == 0)
        return usage_error(o, "no model given");
    if (o->nwords > 1)
        return usage_error(o, "more than one model: '%s'", o->words[1]);
    if (!option_set(o, OPT_cluster))
        return usage_error(o, "no cluster given: --cluster=FILE; --calibrate writes one of this machine");
    j.p.model = o->words[0];
    j.p.cluster_file = option_text(o, OPT_cluster, NULL);
    if (!option_give(o, OPT_train, "") || !option_give(o, OPT_data_parallel, "")) /* what else */
        return tool_error(o, EXIT_ENVIRONMENT, "no memory");
    int code = read_training(&j);
    if (code != EXIT_FINE)
        return code;
    if (access(j.p.model, R_OK) != 0)
        return tool_error(o, EXIT_DATA, "cannot open '%s': %s", j.p.model, strerror(errno));
    return protected_plan(&j);
}

int main(int argc, char **argv)
{
    return options_run(TOOL_P, argc, argv, run);
}
