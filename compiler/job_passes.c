/* SPDX-License-Identifier: Apache-2.0 */
/*
 * job_passes.c - the passes of a compilation: their options from the caller's, the passes of the graph (a training
 * step's forward network by itself, for its versions), and the kernels and the plan that they end in; dumps and
 * reproducers on the way.
 */
#include "compiler/again_int.h"
#include "compiler/memory/budget_int.h"
#include "compiler/cache_int.h"
#include "compiler/compile_int.h"
#include "compiler/import/frontend.h"
#include "compiler/job_int.h"
#include "compiler/target.h"
#include "compiler/tccc.h"
#include "base/safe.h"

#include <string.h>
#include <unistd.h>

/* -O level to pass options; dumps of passes only: the others are ours. */
static struct pass_options pass_options_of(struct job *j)
{
    const struct tccc_options *o = j->o;
    int ndumps = 0;
    while (o->dumps && o->dumps[ndumps])
        ndumps++;
    const char **dumps = IR_NEWN(j->ctx, ndumps + 1, const char *);
    struct pass_options p = {.level = o->level,
                             .exact = o->exact,
                             .fast_math = o->fast_math,
                             .reduced = o->fast_math || o->auto_cast || o->auto_cast_type ||
                                        (o->train && o->train->precision && !strcmp(o->train->precision, "autocast")),
                             .keep_bytes = o->train && o->train->base,
                             .machine = j->made.machine,
                             .overrides = j->overrides,
                             .dump = dumps,
                             .dump_to = o->dump_to ? o->dump_to : stdout,
                             .time_passes = o->time_passes,
                             .time_to = stderr,
                             .verify = o->verify,
                             .change_limit = o->change_limit,
                             .changes_left = &j->changes_left,
                             .hang = o->hang,
                             .damage = o->damage,
                             .offload = o->train && o->train->offload & TCCC_OFFLOAD_ACTIVATIONS,
                             .timed = j->facts ? facts_timed : NULL,
                             .timed_user = j};
    int n = 0;
    for (int i = 0; o->dumps && o->dumps[i]; i++)
        if (!strncmp(o->dumps[i], "before:", 7) || !strncmp(o->dumps[i], "after:", 6) || !strcmp(o->dumps[i], "all"))
            dumps[n++] = o->dumps[i];
    dumps[n] = NULL;
    if (!o->reproducer)
        return p;
    p.reproducer = j->reproducer = ir_internf(j->ctx, "%s/tccc-reproducer-%d.tcir", o->reproducer, j->owner);
    if (!j->beside) /* folders aside, as the text lies beside it */
        j->beside = ir_beside_new(j->ctx, ir_internf(j->ctx, "%s/tccc-reproducer-%d.weights", o->reproducer, j->owner));
    p.beside = j->beside;
    p.again = again_command(j->ctx, o);
    return p;
}

bool job_wants(const struct tccc_options *o, const char *dump)
{
    for (int i = 0; o->dumps && o->dumps[i]; i++)
        if (!strcmp(o->dumps[i], dump))
            return true;
    return false;
}

static bool graph_passes(void *user, struct ir_module *m, const struct pass_options *p)
{
    const struct job *j = user;
    const struct tccc_options *o = j->o;
    char level[6] = {'O', (char)('0' + o->level), 0};
    if ((o->train || (j->built && m->states)) && o->level > 1)
        snprintf(level, sizeof level, "train");
    return pass_list(m, o->pipeline ? o->pipeline : level, p);
}

/* --memory-budget of a step in stages. */
static bool choose_recomputed(struct job *j)
{
    const struct tccc_options *o = j->o;
    if (!o->train->split || !o->train->memory_budget)
        return true;
    struct pass_options p = pass_options_of(j);
    return budget_fit_stages(j->module, o->train, &p, graph_passes, j, &j->recompute);
}

/* Sizes that --dim lists: of the entry points of training, which were built for any. */
static bool build_versions(struct job *j)
{
    struct frontend_options front = {.dims = j->o->dims};
    const char *const *lists = frontend_lists(j->ctx, &front);
    if (!lists[0])
        return true;
    if (j->module->staged)
        return ir_error(j->ctx, NULL, "--dim=%s: a step in stages has one size for each dim; give one", lists[0]);
    if (j->o->train->memory_budget)
        return ir_error(j->ctx, NULL, "--dim=%s: --memory-budget requires one size for each dim", lists[0]);
    return frontend_versions(j->module, &front);
}

/* For a reproducer of the training transformation, which begins with the model as it was read. */
static void keep_model(struct job *j)
{
    const struct tccc_options *o = j->o;
    FILE *f = NULL;
    pass_options_of(j); /* names the file */
    if (j->reproducer && !(f = fopen(j->reproducer, "we")))
        j->reproducer = NULL;
    if (!f)
        return;
    fprintf(f, "; the training step did not come back; %s THIS-FILE -o FILE.so shows it again\n",
            again_training(j->ctx, o));
    ir_print_module_beside(f, j->module, j->beside);
    fclose(f);
}

/* It stays where the compiler is at fault. */
static void drop_model(const struct job *j)
{
    bool bug = j->status == BUG;
    for (int i = 0; i < ir_nmessages(j->ctx); i++)
        bug |= ir_message(j->ctx, i)->severity == IR_BUG;
    if (j->reproducer && !bug)
        unlink(j->reproducer);
}

/* For tests of what happens then: a node's result has another type than the node gives it, or a stage lacks its last
 * task. */
static void damage_step(struct ir_module *m, const char *where)
{
    struct ir_node *n = m->funcs->body->last;
    if (!strcmp(where, "partition") && m->staged)
        m->staged->lists[0].n--;
    while (!strcmp(where, "train") && n && !(n->nout && ir_is_tensor(n->out[0]->type) && n->nin && n->in[0].value))
        n = n->prev;
    if (!strcmp(where, "train") && n)
        n->out[0]->type = ir_scalar_type(m->ctx, n->out[0]->type->dtype == TCC_U8 ? TCC_I8 : TCC_U8);
}

/* What is better found in the model than in its step. A list of passes to be run says all of them; --step-outputs names
 * values of the model as it is. */
static bool prepare_forward(struct job *j)
{
    struct pass_options p = pass_options_of(j);
    p.reproducer = NULL;                   /* the model's stays */
    if (j->o->train->context_parallel > 1) /* it is what the sequence's parts go around for */
        return pass_list(j->module, "ring", &p);
    return j->o->level < 2 || j->o->pipeline || j->o->train->step_outputs || pass_list(j->module, "forward", &p);
}

static bool make_step(struct job *j)
{
    const struct tccc_train *t = j->o->train;
    job_progress(j, "differentiating", 0.05);
    if (!prepare_forward(j) || !choose_recomputed(j) ||
        !frontend_train(j->module, t, j->made.machine,
                        job_wants(j->o, "plan") ? j->o->dump_to ? j->o->dump_to : stdout : NULL, j->recompute)) {
        for (int i = 0; i < ir_nmessages(j->ctx); i++) /* what a map leaves out is a matter of usage */
            if (ir_message(j->ctx, i)->kind == IR_D_USAGE)
                j->status = USAGE;
        return false;
    }
    if (!build_versions(j))
        return false;
    if (j->o->damage)
        damage_step(j->module, j->o->damage);
    if (!j->o->verify || ir_verify(j->module))
        return true;
    ir_diag(j->ctx, &(struct ir_where){0}, IR_D_BUG, "invalid IR: the training step");
    j->status = BUG;
    return false;
}

bool job_build_training(struct job *j)
{
    if (!j->o->train)
        return true;
    keep_model(j);
    bool ok = make_step(j);
    drop_model(j);
    return ok;
}

/* For a reproducer of code generation: kernels are made of the graph, and change it. */
static void keep_graph(struct job *j)
{
    size_t size = 0;
    FILE *f = j->reproducer ? open_memstream(&j->graph, &size) : NULL;
    if (!f)
        return;
    fprintf(f, "; code generation did not come back; %s THIS-FILE -o FILE.so shows it again\n",
            again_command(j->ctx, j->o));
    ir_print_module_beside(f, j->module, j->beside);
    fclose(f);
}

void job_write_graph(const struct job *j)
{
    FILE *f = j->graph ? fopen(j->reproducer, "we") : NULL;
    if (!f)
        return;
    fputs(j->graph, f);
    fclose(f);
}

bool job_run_passes(struct job *j)
{
    const struct tccc_options *o = j->o;
    struct pass_options p = pass_options_of(j);
    if (!graph_passes(j, j->module, &p) ||
        (!o->train && !frontend_autocast(j->module, o->auto_cast, o->auto_cast_type, &p)) ||
        !frontend_mx(j->module, o->train ? o->train->auto_cast : o->auto_cast, &p))
        return false;
    FILE *to = o->dump_to ? o->dump_to : stdout;
    if (job_wants(o, ""))
        ir_print_module(to, j->module);
    /* Nothing more is asked for: the dump of the graph is all. */
    bool deeper = job_wants(o, "kernels") || job_wants(o, "plan") || job_wants(o, "memory") || job_machine_dump(o);
    if (!o->output && !deeper && o->dumps && o->dumps[0])
        return true;
    keep_graph(j);
    job_progress(j, "planning kernels", 0.2);
    if (o->train && !budget_fit(j->ctx, j->module, &p, o->train->memory_budget, o->train->report))
        return false;
    /* Graph passes that have made a plan stood for the whole sequence: of a dump that is continued. */
    if (!(o->pipeline && j->module->program) && !pass_list(j->module, "codegen", &p))
        return false;
    if (o->train && o->train->split && (o->train->memory_budget || o->train->split->report))
        budget_tell_stages(j->module, j->recompute, o->train->split->report);
    for (int i = 0; i < j->module->program->nkernels; i++) {
        const struct kn_kernel *k = j->module->program->kernels[i];
        ir_detail(j->ctx, "kernel %s: %s, %s operations", ir_shown(k->name), k->schedule.how,
                  ir_expr_text(j->ctx, k->flops));
    }
    if (j->target->device && !plan_host_steps(j->ctx, j->module->program, j->target, j->made.machine, o->strict_device))
        return false;
    if (o->report)
        plan_report(j->ctx, j->module->program, j->made.machine, o->report);
    if (job_wants(o, "kernels") || job_wants(o, "plan"))
        kn_print_program(to, j->module->program, job_wants(o, "kernels"), job_wants(o, "plan"));
    for (const struct kn_staged *q = j->module->staged; q && job_wants(o, "plan"); q = q->next)
        kn_print_staged(to, j->module, q);
    return !job_wants(o, "memory") || figures_print(j->module, &p, o->copies, to);
}
