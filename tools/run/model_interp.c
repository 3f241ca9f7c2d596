/* SPDX-License-Identifier: Apache-2.0 */
/* model_interp.c - a model in the reference interpreter: read, described as an artifact describes itself, and run. */
#include "tools/run/model_int.h"

#include "compiler/import/frontend.h"
#include "compiler/tccc.h"
#include "passes/pass.h"

#include <stdlib.h>
#include <string.h>

static void describe_type(struct ir_ctx *ctx, struct model_value *v, ir_type t)
{
    struct tccrt_value_info *info = &v->info;

    info->optional = t->kind == IR_T_OPTIONAL;
    if (info->optional && t->elem)
        t = t->elem;
    info->kind = t->kind == IR_T_SEQUENCE ? TCC_OBJ_SEQUENCE : TCC_OBJ_TENSOR;
    if (t->kind != IR_T_TENSOR)
        return;
    info->dtype = t->dtype;
    info->rank = t->rank;
    for (int i = 0; i < t->rank; i++) {
        int64_t n;
        bool constant = ir_is_const(t->dim[i], &n);
        info->dims[i] = constant ? n : -1;
        info->dim_names[i] = constant ? NULL : ir_expr_text(ctx, t->dim[i]);
        v->most[i] = -1;
        if (t->dim[i]->kind == IR_X_SYM) {
            v->least[i] = t->dim[i]->lo;
            v->most[i] = t->dim[i]->hi;
        }
    }
}

/* -- The interpreter ------------------------------------------------------------------------------ */

/* With -O, the graph passes of that level run first: so they are tested without a target. Without it, nodes that
 * nothing needs go, which no level runs. */
static int run_passes(const struct options *o, struct ir_module *module)
{
    int64_t level = 0;
    char name[8];

    if (!option_set(o, OPT_level) || option_set(o, OPT_check))
        return pass_list(module, "prune", &(struct pass_options){.change_limit = -1}) ? EXIT_FINE : EXIT_BUG;
    if (!option_int(o, OPT_level, 0, 3, &level))
        return EXIT_USAGE;
    struct pass_options passes = {.level = (int)level,
                                  .exact = option_set(o, OPT_exact),
                                  .fast_math = option_set(o, OPT_fast_math),
                                  .dump = o->given[OPT_dump_ir].at,
                                  .dump_to = stderr,
                                  .time_passes = option_set(o, OPT_time_passes),
                                  .time_to = stderr,
                                  .verify = true,
                                  .change_limit = -1};
    snprintf(name, sizeof name, "O%d", (int)level);
    return pass_list(module, name, &passes) ? EXIT_FINE : EXIT_BUG;
}

/* Inputs and outputs of whole batches, as an artifact describes them (tccrt_input): types of stages are those of a
 * microbatch. */
static void describe_staged(struct model *m)
{
    const struct kn_staged *p = m->staged;
    for (int i = 0; i < m->nin; i++) {
        struct tccrt_value_info *info = &m->in[i].info;
        int axis = p->inputs[i].axis;
        info->name = p->inputs[i].name;
        describe_type(m->ctx, &m->in[i], p->inputs[i].type);
        if (axis >= 0 && info->dims[axis] >= 0)
            info->dims[axis] *= p->micros;
        model_note_kind(m, &m->in[i]);
    }
    for (int i = 0; i < m->nout; i++) {
        struct tccrt_value_info *info = &m->out[i].info;
        const struct kn_stage_output *out = &p->outputs[i];
        ir_type t = out->type;
        ir_expr dims[TCC_MAX_RANK];
        info->name = out->name;
        if (out->how == TCC_COMBINE_STACK && t->rank < TCC_MAX_RANK) {
            dims[0] = ir_const(m->ctx, p->micros);
            for (int d = 0; d < t->rank; d++)
                dims[1 + d] = t->dim[d];
            t = ir_tensor_type(m->ctx, (enum tcc_dtype)t->dtype, t->rank + 1, dims);
        }
        describe_type(m->ctx, &m->out[i], t);
        if (out->how == TCC_COMBINE_CONCAT && info->dims[out->axis] >= 0)
            info->dims[out->axis] *= p->micros;
        model_note_kind(m, &m->out[i]);
    }
}

static void describe_func(struct model *m)
{
    const struct ir_func *all = m->nin > m->nneeded ? ir_entry_by_name(m->module, IR_GIVEN) : m->func;
    for (int i = 0; i < m->nin; i++) {
        m->in[i].info.name = all->input_names[i];
        describe_type(m->ctx, &m->in[i], all->version ? all->version->inputs[i] : all->body->params[i]->type);
        model_note_kind(m, &m->in[i]);
    }
    for (int i = 0; i < m->nout; i++) {
        m->out[i].info.name = ir_output_name(m->func, i);
        describe_type(m->ctx, &m->out[i], ir_entry_result(m->func, i, ir_sym(m->ctx, "?")));
        model_note_kind(m, &m->out[i]);
    }
}

/* --entry: one in stages, whose calls are functions that nobody sees, or a function. */
static int find_entry(const struct options *o, struct ir_module *module, const char *path, struct model *m)
{
    const char *name = option_text(o, OPT_entry, NULL);
    m->module = module;
    m->staged = name ? kn_staged_by_name(module, name) : module->staged;
    m->func = module->staged ? NULL : ir_entry_by_name(module, name ? name : "main");
    if (!m->func && !m->staged && name) {
        struct ir_known known = {.near.word = name};
        for (const struct ir_func *f = module->staged ? NULL : module->funcs; f; f = f->next)
            ir_known_add(&known, f->version ? NULL : f->name);
        for (const struct kn_staged *q = module->staged; q; q = q->next)
            ir_known_add(&known, q->name);
        return tool_error(o, EXIT_DATA, "%s: the model has no entry point '%s'%s", path, name, ir_known_text(&known));
    }
    if (!m->func && !m->staged)
        m->func = module->funcs;
    return m->func || m->staged ? EXIT_FINE : EXIT_DATA;
}

/* What a model that could not be read means: mostly that it is wrong. */
static int exit_code_of(const struct ir_ctx *ctx)
{
    int code = EXIT_DATA;
    for (int i = 0; i < ir_nmessages(ctx); i++)
        code = ir_message(ctx, i)->kind == IR_D_USAGE                              ? EXIT_USAGE
               : ir_message(ctx, i)->kind == IR_D_ENVIRONMENT && code == EXIT_DATA ? EXIT_ENVIRONMENT
                                                                                   : code;
    return code;
}

static int read_module(const struct options *o, const char *path, struct model *m)
{
    struct tccc_train train;
    int code = train_flags(o, &train);
    if (code != EXIT_FINE)
        return code;
    struct tccc_options c;
    tccc_options_init(&c);
    if (!fields_compile(o, &c))
        return EXIT_USAGE;
    c.train = train_wanted(o) ? &train : NULL;
    struct frontend_options options = frontend_options_of(&c);
    options.one_version = c.train && train.data_parallel; /* the interpreter takes any sizes */
    struct ir_module *module = frontend_read(m->ctx, path, &options);

    if (!module || !frontend_adapt(module, &c) ||
        (options.training &&
         (!frontend_train(module, &train, NULL, NULL, NULL) || !frontend_versions(module, &options))))
        return exit_code_of(m->ctx);
    if (!ir_verify(module))
        return EXIT_BUG;
    code = run_passes(o, module);
    if (code != EXIT_FINE)
        return code;
    struct pass_options casts = {.change_limit = -1};
    if ((!options.training && !frontend_autocast(module, train.auto_cast, train.auto_cast_type, &casts)) ||
        !frontend_mx(module, train.auto_cast, &casts))
        return EXIT_DATA;
    if ((code = find_entry(o, module, path, m)) != EXIT_FINE)
        return code;
    int ndefaults = 0;
    for (int i = 0; i < module->ndefaults && m->func && !strcmp(ir_entry_name(m->func), "main"); i++)
        ndefaults += module->defaults[i].value != NULL;
    if (m->staged ? !model_allocate(m, m->staged->ninputs, 0, m->staged->noutputs)
                  : !model_allocate(m, m->func->body->nparams, ndefaults, m->func->body->last->nin))
        return EXIT_ENVIRONMENT;
    if (m->staged)
        describe_staged(m);
    else
        describe_func(m);
    m->state = ir_interp_state_new(module); /* which counts runs, too: random numbers depend on it */
    return EXIT_FINE;
}

/* The first error in `why`, or all messages on standard error. */
static void tell_messages(const struct options *o, const struct ir_ctx *ctx, char *why)
{
    for (int i = 0; i < ir_nmessages(ctx); i++) {
        const struct ir_message *message = ir_message(ctx, i);
        if (why && message->severity >= IR_ERROR) {
            FILE *out = fmemopen(why, ERROR_SIZE, "w");
            if (out) {
                ir_print_message(out, message);
                fclose(out);
            }
            why[ERROR_SIZE - 1] = '\0';
            return;
        }
        if (!why && (message->severity >= IR_ERROR || !option_set(o, OPT_quiet)))
            ir_print_message(stderr, message);
    }
}

int interp_open(const struct options *o, const char *path, struct model *m, char *why)
{
    struct ir_protect frame;
    volatile int code = EXIT_ENVIRONMENT;

    m->ctx = ir_ctx_new();
    if (m->ctx && IR_PROTECT(m->ctx, &frame)) {
        code = read_module(o, path, m);
        ir_unprotect(m->ctx);
        tell_messages(o, m->ctx, why);
    }
    if (code == EXIT_ENVIRONMENT && (!m->ctx || !ir_nerrors(m->ctx)))
        return model_error(o, why, code, "no memory");
    return code;
}

int interp_run(struct model *m, struct tcc_object *const *given, struct tcc_object **outputs, char *error)
{
    struct tcc_object **volatile inputs = calloc((size_t)m->nin + 1, sizeof *inputs);
    struct ir_protect frame;
    volatile int status = TCC_EENV;

    snprintf(error, ERROR_SIZE, "no memory");
    if (inputs && IR_PROTECT(m->ctx, &frame)) {
        memcpy(inputs, given, (size_t)m->nin * sizeof *inputs);
        const char *entry = m->staged             ? NULL
                            : m->nin > m->nneeded ? ir_take_defaults(m->module, m->nneeded, inputs)
                                                  : ir_entry_name(m->func);
        struct ir_func *f = m->staged ? NULL : ir_choose_version(m->module, entry, m->state, inputs, error, ERROR_SIZE);
        if (m->staged) {
            status = ir_interp_staged(m->module, m->staged, m->state, given, outputs, error, ERROR_SIZE);
        } else if (f) {
            status = ir_interp(f, m->state, inputs, outputs, error, ERROR_SIZE);
        } else {
            status = TCC_EINPUT;
        }
        ir_unprotect(m->ctx);
    }
    for (int i = 0; inputs && i < m->nin; i++)
        if (inputs[i] && inputs[i] != given[i])
            tccrt_object_unref(inputs[i]);
    free(inputs);
    return status;
}
