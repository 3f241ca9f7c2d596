/* SPDX-License-Identifier: Apache-2.0 */
/*
 * compile.c - tccc_compile(): reads the model, runs the passes, has the target compile the kernels, and puts the
 * artifact together in a temporary folder beside the output, so that nothing half-made is ever seen under the output's
 * name.
 */
#include "base/env.h"
#include "compiler/again_int.h"
#include "compiler/artifact/artifact_int.h"
#include "compiler/memory/budget_int.h"
#include "compiler/cache_int.h"
#include "compiler/compile_int.h"
#include "compiler/cpu/isa/isa_int.h"
#include "compiler/custom_int.h"
#include "compiler/import/frontend.h"
#include "compiler/isolate_int.h"
#include "compiler/job_int.h"
#include "compiler/artifact/link_int.h"
#include "compiler/locate_int.h"
#include "compiler/sources_int.h"
#include "compiler/target.h"
#include "compiler/tccc.h"
#include "base/safe.h"

#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void tccc_options_init(struct tccc_options *o)
{
    memset(o, 0, sizeof *o);
    o->level = 2;
    o->change_limit = -1;
    o->time_limit = 600;
}

/* To the caller, `user` his options. */
static void tell(void *user, const struct ir_message *message)
{
    const struct tccc_options *o = user;
    if (!o->message)
        return;
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    if (!f)
        return;
    ir_print_message(f, message);
    fclose(f);
    size_t n = strlen(text);
    if (n && text[n - 1] == '\n')
        text[n - 1] = 0;
    o->message(o->user, (int)message->severity, text);
    free(text);
}

void job_progress(const struct job *j, const char *what, double fraction)
{
    ir_doing(j->ctx, what, NULL);
    if (j->o->progress)
        j->o->progress(j->o->user, what, fraction);
}

/* -- Names --------------------------------------------------------------------------------------------- */

/* The model's file name made an identifier, or its folder's where the file is just model.onnx. */
static const char *default_name(struct ir_ctx *ctx, const char *path)
{
    char *copy = ir_strdup(ctx, path), *base = basename(copy);
    if (!strncmp(base, "model.", 6)) {
        char full[PATH_MAX];
        if (realpath(path, full)) {
            char *folder = basename(dirname(ir_strdup(ctx, full)));
            if (strcmp(folder, "/") && strcmp(folder, "."))
                base = folder;
        }
    } else if (strrchr(base, '.') > base) {
        *strrchr(base, '.') = 0;
    }
    char *name = IR_NEWN(ctx, strlen(base) + 2, char);
    if (base[0] >= '0' && base[0] <= '9')
        name[0] = '_';
    for (char *c = base, *to = name + strlen(name); *c; c++)
        *to++ = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9') ? *c : '_';
    return name;
}

/* NAME_ENTRY is no function of tccrt.h or tccdata.h. */
static bool choose_name(struct job *j)
{
    static const char *const taken[] = {"tccrt", "tccdata"};
    struct ir_where where = {.file = j->o->model};
    j->name = j->o->name ? j->o->name : default_name(j->ctx, j->o->model);
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++) {
        size_t n = strlen(taken[i]);
        if (!strncmp(j->name, taken[i], n) && (!j->name[n] || j->name[n] == '_'))
            return ir_error(j->ctx, &where, "'%s' is a name of the runtime's functions: --name=NAME gives another one",
                            j->name);
    }
    return true;
}

/* -- Output -------------------------------------------------------------------------------------------------- */

static bool make_folder(struct job *j)
{
    const char *output = j->o->output;
    bool beside = output && tcr_save_plain(output);
    const char *where = beside ? dirname(ir_strdup(j->ctx, output)) : tcr_temporary();
    if (!tcr_scratch_make(&j->scratch, where, ".tccc-")) {
        j->folder = j->scratch.path;
        return true;
    }
    struct ir_where at = {.file = beside ? output : where};
    ir_error(j->ctx, &at, "cannot create output file: %m");
    j->status = errno == ENOENT || errno == ENOTDIR ? WRONG_INPUT : ENVIRONMENT;
    return false;
}

static bool move_into_place(struct job *j, const char *from, const char *to)
{
    if (tcr_save_move(from, to) == 0)
        return true;
    struct ir_where where = {.file = to};
    ir_error(j->ctx, &where, "cannot write: %m");
    j->status = ENVIRONMENT;
    return false;
}

static const char *source_digest(struct job *j)
{
    return ir_internf(j->ctx, "tccc %s model %016llx -O%d%s%s", tccc_version(), (unsigned long long)j->digest,
                      j->o->level, j->o->exact ? " --exact" : "", j->o->fast_math ? " --fast-math" : "");
}

/* Names in a .o or .a are those of the program or library that it is linked into: two plugins with a model of one name
 * do not meet. A .so is opened by its names, and uses its own whatever else there is (-Bsymbolic). */
static bool hidden_names(const struct tccc_options *o)
{
    return o->kind != TCCC_SO && !o->export_name;
}

/* NAME.weights beside the output, when weights are large or asked to be apart. */
static const char *sidecar_path(struct job *j)
{
    const struct tccc_options *o = j->o;
    bool apart = o->weights == TCCC_WEIGHTS_EXTERNAL ||
                 (o->weights == TCCC_WEIGHTS_AUTO && j->module->program->weight_bytes > (UINT64_C(1) << 30));
    if (!apart || !j->module->program->weight_bytes)
        return NULL;
    return ir_internf(j->ctx, "%s/%s.weights", dirname(ir_strdup(j->ctx, o->output)), j->name);
}

bool job_each_target(struct job *j, bool (*step)(struct job *))
{
    for (struct job *k = j; k; k = k->next)
        if (!step(k)) {
            j->status = k->status;
            return false;
        }
    return true;
}

/* A step of the compilation is over. */
static void lap(struct job *j, const char *what)
{
    double now = 1e-6 * tcr_now();
    if (what && j->nlaps < (int)(sizeof j->laps / sizeof *j->laps)) {
        j->laps[j->nlaps].what = what;
        j->laps[j->nlaps++].ms = now - j->lap;
    }
    j->lap = now;
}

static void print_laps(const struct job *j)
{
    double total = 0;
    fprintf(stderr, "%-20s %10s\n", "step", "ms");
    for (int i = 0; i < j->nlaps; i++) {
        fprintf(stderr, "%-20s %10.3f\n", j->laps[i].what, j->laps[i].ms);
        total += j->laps[i].ms;
    }
    fprintf(stderr, "%-20s %10.3f\n", "total", total);
}

/* Whose objects the artifact is made of. */
static const struct cpu_isa *isa_of(const struct job *j)
{
    return cpu_isa_of(j->host.archs[0]);
}

/* libtccrt.a for the artifact's processors; false after a diagnostic. */
static bool find_runtime(struct job *j, char *path, size_t size)
{
    const struct cpu_isa *isa = isa_of(j);
    bool host = isa == cpu_isa_host();
    if (tccc_locate(host ? "libtccrt.a" : ir_internf(j->ctx, "%s/libtccrt.a", isa->debian), path, size))
        return true;
    if (host)
        ir_error(j->ctx, NULL,
                 "libtccrt.a was not found (last looked at %s); set TCCC_LIBDIR to the folder that holds it", path);
    else
        ir_error(
            j->ctx, NULL,
            "a .so for %s requires %s/libtccrt.a, which was not found (last looked at %s): install gcc-%s and build "
            "tccc by configure --with-cross=%s, or write a .a or .o (-c), which require none",
            isa->name, isa->debian, path, isa->debian, isa->debian);
    return false;
}

/* A file in the scratch folder, of the job's own; the first job's have plain names. */
static const char *scratch_file(struct job *j, const char *name)
{
    return ir_internf(j->ctx, "%s/%s%s%s", j->folder, j->main ? j->name : "", j->main ? "." : "", name);
}

static bool link_output(struct job *j, const char *out, int *status)
{
    struct custom_paths customs = {0};
    const char *cross = isa_of(j) == cpu_isa_host() ? NULL : isa_of(j)->cc;
    VEC(const struct kn_program *) programs = {0};
    VEC(const char *) objects = {0};
    for (struct job *k = j; k; k = k->next)
        VEC_PUSH(j->ctx, programs, k->module->program);
    if (!custom_objects(j->ctx, programs.n, programs.at, cross, j->folder, &customs)) {
        *status = WRONG_INPUT;
        return false;
    }
    for (struct job *k = j; k; k = k->next) {
        for (int i = 0; i < k->code.nobjects; i++)
            VEC_PUSH(j->ctx, objects, k->code.objects[i]);
        for (int i = 0; i < customs.n && k == j; i++)
            VEC_PUSH(j->ctx, objects, customs.at[i]);
        VEC_PUSH(j->ctx, objects, scratch_file(k, "model.o"));
    }
    if (j->o->kind == TCCC_OBJECT)
        return link_object(j->ctx, isa_of(j), out, objects.n, objects.at, status);
    if (j->o->kind == TCCC_ARCHIVE)
        return link_archive(j->ctx, out, j->name, objects.n, objects.at, status);
    char runtime[PATH_MAX];
    if (!find_runtime(j, runtime, sizeof runtime)) {
        *status = ENVIRONMENT;
        return false;
    }
    const struct kn_program *p = j->module->program;
    const char *archives[] = {runtime}, **exports = IR_NEWN(j->ctx, artifact_nentries(p) + 2, const char *),
               **names = artifact_identifiers(j->ctx, p);
    exports[0] = "tccc_model";
    exports[1] = ir_internf(j->ctx, "%s_model", j->name);
    for (int e = 0; e < artifact_nentries(p); e++)
        exports[2 + e] = ir_internf(j->ctx, "%s_%s", j->name, names[e]);
    return link_shared(j->ctx, isa_of(j), out, objects.n, objects.at, 1, archives, artifact_nentries(p) + 2, exports,
                       status);
}

/* The weights' file in place; NULL: they are in the artifact, or drawn. */
static const char *apart(struct job *j)
{
    return j->o->weights == TCCC_WEIGHTS_RANDOM ? NULL : sidecar_path(j);
}

static bool is_whole(struct job *j)
{
    return !sidecar_path(j);
}

/* Descriptor, plan, weights and, of the first job, entry points: what the artifact holds beside code. */
static bool write_model(struct job *j)
{
    const struct kn_program *p = j->module->program;
    const char *sidecar = apart(j), *base = sidecar ? strrchr(sidecar, '/') + 1 : NULL;
    VEC(const char *) others = {0};
    for (struct job *k = j->main ? NULL : j->next; k; k = k->next)
        VEC_PUSH(j->ctx, others, k->name);
    if (j->o->weights == TCCC_WEIGHTS_RANDOM && p->weight_bytes)
        base = ir_internf(j->ctx, TCC_RANDOM_WEIGHTS "%llu", j->o->weights_seed);
    struct artifact_options a = {.name = j->main ? j->main->name : j->name,
                                 .symbol = j->name,
                                 .nothers = others.n,
                                 .others = others.at,
                                 .isa = isa_of(j),
                                 .nversions = j->host.n,
                                 .isas = j->host.archs,
                                 .prefixes = j->prefixes,
                                 .on_host = j->on_host,
                                 .nimages = j->code.nimages,
                                 .images = j->code.images,
                                 .device = j->target->device,
                                 .shared = !j->main && j->o->kind == TCCC_SO,
                                 .entries = !j->main,
                                 .hidden = j->main || hidden_names(j->o),
                                 .sidecar = base,
                                 .source = source_digest(j)};
    j->status = ENVIRONMENT;
    return artifact_object(j->ctx, p, &a, scratch_file(j, "model.o"), scratch_file(j, "weights"));
}

static bool write_artifact(struct job *j)
{
    const struct kn_program *p = j->module->program;
    const char *out = ir_internf(j->ctx, "%s/out", j->folder), *header = ir_internf(j->ctx, "%s/header.h", j->folder);
    j->status = ENVIRONMENT;
    if (!job_each_target(j, write_model))
        return false;
    lap(j, "weights and plan");
    job_progress(j, "linking", 0.9);
    int status = BUG;
    if (!link_output(j, out, &status)) {
        j->status = status;
        return false;
    }
    if (j->o->header && (!artifact_header(j->ctx, p, j->name, source_digest(j), j->o->pictures, header) ||
                         !move_into_place(j, header, j->o->header)))
        return false;
    for (struct job *k = j; k; k = k->next)
        if (apart(k) && !move_into_place(j, scratch_file(k, "weights"), apart(k)))
            return false;
    if (j->o->depends && !sources_write_depfile(j->ctx, &j->sources, j->o->output, j->o->depfile))
        return false;
    return move_into_place(j, out, j->o->output);
}

/* -- The call ----------------------------------------------------------------------------------------------------- */

/* Is more wanted than the artifact and its warnings? Reports and charts are found while compiling, and are not kept. */
static bool wants_more(const struct tccc_options *o)
{
    const struct tccc_train *t = o->train;
    return o->facts || o->report || (t && (t->report || (t->split && (t->split->report || t->split->chart))));
}

/* The artifact as it was made before, if it is in the cache. */
static bool from_cache(struct job *j)
{
    if (j->fresh || wants_more(j->o) || faccessat(j->cache.folder, j->cache.name, R_OK, 0) != 0 ||
        (!j->folder[0] && !make_folder(j)))
        return false;
    const char *out = ir_internf(j->ctx, "%s/out", j->folder);
    return cache_fetch(&j->cache, j->ctx, out, j->o->model) && move_into_place(j, out, j->o->output);
}

/* What the options have wrong is a matter of usage. */
static void usage_first(struct job *j)
{
    for (int i = 0; i < ir_nmessages(j->ctx); i++)
        if (ir_message(j->ctx, i)->kind == IR_D_USAGE)
            j->status = USAGE;
}

static bool read_model(struct job *j)
{
    const struct tccc_options *o = j->o;
    if (j->built)
        return true;
    job_progress(j, "reading the model", 0.0);
    struct frontend_options front = frontend_options_of(o);
    if (o->train && !frontend_train_check(j->ctx, o->train)) {
        j->status = USAGE;
        return false;
    }
    struct train_split split;
    if (o->train && o->train->split) {
        if (!frontend_split(j->ctx, o->train->split, &split))
            return false;
        front.split = &split;
    }
    j->module = frontend_read(j->ctx, o->model, &front);
    if (!j->module || !frontend_adapt(j->module, o)) {
        usage_first(j);
        return false;
    }
    if (o->level >= 3 && !o->train && !o->pipeline && !j->module->program)
        frontend_specialise(j->module);
    j->sources = sources_collect(j->ctx, j->module, o->model, frontend_adapter_files(j->ctx, o));
    if (o->depends && !sources_in_rule(j->ctx, &j->sources, o->output)) {
        j->status = WRONG_INPUT;
        return false;
    }
    if (o->pictures && !artifact_takes_pictures(j->ctx, ir_entry_by_name(j->module, "main"), o->pictures)) {
        j->status = WRONG_INPUT;
        return false;
    }
    j->digest = sources_digest(j->ctx, &j->sources);
    return true;
}

static void tell_errors(void *user, const struct ir_message *message)
{
    if (message->severity >= IR_ERROR)
        tell(user, message);
}

/* What was said of the model when it was read for the first target is not said again. */
static bool read_for_target(struct job *j)
{
    ir_on_diag(j->ctx, j->main ? tell_errors : tell, (void *)j->o);
    bool fine = read_model(j);
    ir_on_diag(j->ctx, tell, (void *)j->o);
    return fine;
}

static bool make_plan(struct job *j)
{
    if (!job_build_training(j))
        return false;
    job_progress(j, "optimising the graph", 0.1);
    return job_run_passes(j);
}

static bool compile_kernels(struct job *j)
{
    if (j->main) {
        j->folder = j->main->folder;
        j->name = ir_internf(j->ctx, "%s_%s", j->main->name, artifact_identifier(j->ctx, j->target->name));
    }
    return job_compile_kernels(j);
}

static bool work(struct job *j)
{
    const struct tccc_options *o = j->o;
    lap(j, NULL);
    j->changes_left = o->change_limit;
    ir_hang(j->ctx, o->hang);
    if ((o->schedules && !(j->overrides = target_schedules(j->ctx, o->schedules))) || !job_choose_target(j) ||
        !job_each_target(j, read_for_target))
        return false;
    lap(j, "reading the model");
    ir_detail(j->ctx, "%s: target %s, -O%d%s%s", ir_shown(o->model), j->target->name, o->level,
              o->exact ? ", exact" : "", o->fast_math ? ", fast math" : "");
    if (!choose_name(j))
        return false;
    struct cache_key key = job_cache_key(j);
    bool caches = cache_open(&j->cache, j->ctx, o, &key);
    int first = ir_nmessages(j->ctx); /* those before are given whenever the model is read */
    j->cached = caches && from_cache(j);
    if (caches && !j->cached) { /* one process compiles, the others wait for what it makes */
        cache_lock(&j->cache);
        j->cached = from_cache(j);
    }
    if (j->cached) {
        ir_detail(j->ctx, "taken from the cache");
        return true;
    }
    facts_begin(j);
    if (!job_each_target(j, make_plan))
        return false;
    if (!j->module->program || (!o->output && !job_machine_dump(o)))
        return true;
    lap(j, "passes");
    job_progress(j, "compiling kernels", 0.3);
    if ((!j->folder[0] && !make_folder(j)) || !job_each_target(j, compile_kernels))
        return false;
    lap(j, "code of kernels");
    if (o->output && !write_artifact(j))
        return false;
    lap(j, "linking");
    if (o->time_passes)
        print_laps(j);
    if (o->facts)
        facts_write(j);
    if (caches && job_each_target(j, is_whole))
        cache_store(&j->cache, j->ctx, o->output, o->model, first);
    return true;
}

static int finish_work(struct job *j)
{
    int status = OK;
    if (!work(j)) {
        status = j->status;
        for (int i = 0; i < ir_nmessages(j->ctx); i++)
            if (ir_message(j->ctx, i)->severity == IR_BUG)
                status = BUG;
            else if (ir_message(j->ctx, i)->kind == IR_D_ENVIRONMENT)
                status = ENVIRONMENT;
    }
    free(j->graph);
    tcr_scratch_remove(&j->scratch);
    cache_close(&j->cache);
    return status;
}

static int compile_isolated(void *user, const struct isolate_child *c, bool *flag)
{
    const struct tccc_options *o = &c->options;
    (void)user, (void)flag;
    struct job j = {.o = o,
                    .owner = c->owner,
                    .status = WRONG_INPUT,
                    .cache = {.folder = -1, .lock = -1},
                    .folder = "",
                    .scratch.alive = -1};
    struct ir_protect frame;
    j.ctx = ir_ctx_new();
    if (!j.ctx) {
        if (o->message)
            o->message(o->user, 2, "error: not enough memory");
        return ENVIRONMENT;
    }
    ir_on_diag(j.ctx, tell, (void *)o);
    ir_verbose(j.ctx, o->verbose > 0);
    ir_watch(j.ctx, c->life);
    volatile int status = OK;
    if (IR_PROTECT(j.ctx, &frame)) {
        status = finish_work(&j);
        ir_unprotect(j.ctx);
    } else {
        status = ENVIRONMENT;
        tcr_scratch_remove(&j.scratch);
        cache_close(&j.cache);
        if (o->message)
            o->message(o->user, 2, "error: not enough memory");
    }
    ir_ctx_free(j.ctx);
    return status;
}

int tccc_compile(const struct tccc_options *o)
{
    struct isolate_job job = {.o = o, .work = compile_isolated};
    return isolate_run(&job);
}

/* -- Modules in memory -------------------------------------------------------------------------------------------- */

struct built {
    struct ir_module *m;
    uint64_t digest;
    bool fresh;
};

static int module_here(const struct isolate_child *c, const struct built *b, bool *cached)
{
    const struct tccc_options *o = &c->options;
    struct job j = {.o = o,
                    .owner = c->owner,
                    .status = WRONG_INPUT,
                    .cache = {.folder = -1, .lock = -1},
                    .folder = "",
                    .scratch.alive = -1,
                    .ctx = b->m->ctx,
                    .module = b->m,
                    .digest = b->digest,
                    .built = true,
                    .fresh = b->fresh,
                    .name = o->name};
    int status = finish_work(&j);
    *cached = j.cached;
    return status;
}

static int module_isolated(void *user, const struct isolate_child *c, bool *flag)
{
    const struct built *b = user;
    struct ir_protect frame;
    volatile int status = ENVIRONMENT;
    const int before = ir_nmessages(b->m->ctx);
    ir_watch(b->m->ctx, c->life);
    if (IR_PROTECT(b->m->ctx, &frame)) {
        status = module_here(c, b, flag);
        isolate_tell(c, b->m->ctx, before);
        ir_unprotect(b->m->ctx);
    }
    return status;
}

int compile_module(const struct tccc_options *o, struct ir_module *m, uint64_t digest, bool fresh, bool *cached)
{
    struct built b = {m, digest, fresh};
    struct isolate_job job = {.o = o, .ctx = m->ctx, .work = module_isolated, .user = &b};
    int status = isolate_run(&job);
    *cached = job.flag;
    return status;
}
