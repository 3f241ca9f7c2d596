/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CPU target's door: the table of templates, what is refused, and compile().
 *
 * Kernels are dealt into parts, whose number and members depend on the program only (not on the number of jobs: artifacts must
 * be the same on every machine). A part is compiled by a child process with an LLVM context of its own (object.c), so that
 * neither a fatal error of LLVM nor a crash takes the caller down; the child reports through a pipe.
 */
#include "compiler/cpu/object_int.h"
#include "compiler/cpu/vmath_int.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

const struct cpu_template *const cpu_templates[] = {
    &cpu_template_contract, &cpu_template_conv, &cpu_template_depthwise, &cpu_template_pool, &cpu_template_loops, NULL};

/* -- What can't be lowered ------------------------------------------------------------------------ */

static const char *
refuses_insn(struct ir_ctx *ctx, const struct kn_insn *n)
{
    enum tcc_class class = tcc_dtype_class((enum tcc_dtype)n->dtype);
    if (class == TCC_CLASS_STRING)
        return "strings have no kernels";
    bool moves = n->code == KN_LOAD || n->code == KN_STORE || (n->code == KN_SCALAR && n->word == IR_select);
    if (class == TCC_CLASS_COMPLEX && !moves)
        return "arithmetic on complex numbers";
    if (n->code != KN_SCALAR || n->word == IR_cast)
        return NULL;
    const struct ir_scalar_body *body = ir_scalar_body((enum ir_op)n->word);
    if (!body || !body->primitive)
        return ir_internf(ctx, "%s is not a primitive word", ir_op_info((enum ir_op)n->word)->name);
    bool transcendental = (n->word >= IR_exp && n->word <= IR_erf) || n->word == IR_pow || n->word == IR_fmod;
    if (transcendental && tcc_is_float((enum tcc_dtype)n->dtype) && !vm_has((enum ir_op)n->word))
        return ir_internf(ctx, "no code for %s", ir_op_info((enum ir_op)n->word)->name);
    return NULL;
}

static const char *
cpu_refuses(struct ir_ctx *ctx, const struct kn_kernel *k)
{
    for (int i = 0; i < k->ninsns; i++) {
        const char *why = refuses_insn(ctx, &k->insns[i]);
        if (why)
            return why;
    }
    return NULL;
}

/* -- Parts ------------------------------------------------------------------------------------------- */

#define MAX_PARTS 16

/* How long a kernel takes to compile, roughly. */
static int64_t
weight(const struct kn_kernel *k)
{
    int64_t n = k->ninsns + 8 * k->ndims;
    for (int i = 0; i < k->ninsns; i++)
        if (k->insns[i].code == KN_SCALAR && vm_has((enum ir_op)k->insns[i].word))
            n += 10;
    return k->schedule.how == KN_T_LOOPS ? n : 400 + n;
}

/* Deals the kernels, heaviest first, to the lightest part. part[i] gets kernel i's part; returns the number of parts. */
static int
deal(struct ir_ctx *ctx, const struct kn_program *p, int *part)
{
    int64_t total = 0, load[MAX_PARTS] = {0};
    bool *dealt = IR_NEWN(ctx, p->nkernels + 1, bool);
    for (int i = 0; i < p->nkernels; i++)
        total += weight(p->kernels[i]);
    int64_t wanted = 1 + total / 600;
    int n = wanted > MAX_PARTS ? MAX_PARTS : (int)wanted;
    n = n > p->nkernels ? p->nkernels : n;
    for (int round = 0; round < p->nkernels; round++) {
        int heaviest = -1, lightest = 0;
        for (int i = 0; i < p->nkernels; i++)
            if (!dealt[i] && (heaviest < 0 || weight(p->kernels[i]) > weight(p->kernels[heaviest])))
                heaviest = i;
        for (int j = 1; j < n; j++)
            if (load[j] < load[lightest])
                lightest = j;
        dealt[heaviest] = true;
        part[heaviest] = lightest;
        load[lightest] += weight(p->kernels[heaviest]);
    }
    return n;
}

/* -- Children ------------------------------------------------------------------------------------------ */

struct child { pid_t pid; int pipe; int part; };

static bool
start_child(const struct object_job *job, struct child *c)
{
    int pipes[2];
    fflush(NULL);
    if (pipe(pipes) != 0)
        return false;
    c->pid = fork();
    if (c->pid < 0) {
        close(pipes[0]);
        close(pipes[1]);
        return false;
    }
    if (c->pid == 0) {
        close(pipes[0]);
        object_child(job, pipes[1]);        /* does not return */
    }
    close(pipes[1]);
    c->pipe = pipes[0];
    c->part = job->part;
    return true;
}

/* Waits for a child; false, with its message in `text`, if it failed. */
static bool
finish_child(struct child *c, char *text, size_t size)
{
    size_t n = 0;
    int state = 0;
    for (;;) {
        char buffer[512];
        ssize_t got = read(c->pipe, buffer, sizeof buffer);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        size_t keep = n + (size_t)got < size ? (size_t)got : size - 1 - n;
        memcpy(text + n, buffer, keep);
        n += keep;
    }
    text[n] = '\0';
    close(c->pipe);
    while (waitpid(c->pid, &state, 0) < 0 && errno == EINTR)
        continue;
    if (WIFEXITED(state) && WEXITSTATUS(state) == 0)
        return true;
    if (n == 0 && WIFSIGNALED(state))
        snprintf(text, size, "the code generator died of signal %d (%s)", WTERMSIG(state), strsignal(WTERMSIG(state)));
    else if (n == 0)
        snprintf(text, size, "the code generator failed without a message");
    return false;
}

/* Appends a part's dump to the caller's stream. */
static void
copy_dump(const struct object_job *job, const struct target_options *o)
{
    FILE *f = fopen(job->dump_path, "r");
    char buffer[4096];
    size_t n;
    if (!f)
        return;
    while ((n = fread(buffer, 1, sizeof buffer, f)) > 0)
        fwrite(buffer, 1, n, o->dump_to);
    fclose(f);
    unlink(job->dump_path);
}

/* Runs the jobs, at most `limit` at once. False after a diagnostic; all children have ended then. */
static bool
run_jobs(struct ir_ctx *ctx, struct object_job *jobs, int n, int limit)
{
    struct child *children = IR_NEWN(ctx, n + 1, struct child);
    int started = 0, finished = 0;
    bool ok = true;
    char text[4096];
    if (limit < 1)
        limit = 1;
    while (finished < started || (ok && started < n)) {
        if (ok && started < n && started - finished < limit) {
            if (start_child(&jobs[started], &children[started])) {
                started++;
            } else {
                ir_error(ctx, NULL, "cannot start the code generator: %s", strerror(errno));
                ok = false;
            }
            continue;
        }
        if (!finish_child(&children[finished++], text, sizeof text)) {
            if (ok)
                ir_error(ctx, NULL, "code generation failed: %s", text);
            ok = false;
        }
    }
    return ok;
}

static bool
cpu_compile(struct ir_ctx *ctx, const struct kn_program *p, const struct target_options *o, const char *prefix,
            const char *folder, char ***objects, int *nobjects)
{
    const struct cpu_machine *m = cpu_machine_make(ctx, o->arch);
    if (!m)
        return false;
    int *part = IR_NEWN(ctx, p->nkernels + 1, int), n = deal(ctx, p, part);
    struct object_job *jobs = IR_NEWN(ctx, n + 1, struct object_job);
    for (int i = 0; i < n; i++) {
        jobs[i] = (struct object_job){.ctx = ctx, .program = p, .machine = m, .options = o, .prefix = prefix, .part_of = part,
                                      .part = i, .path = ir_internf(ctx, "%s/%s%d.o", folder, prefix, i),
                                      .dump_path = ir_internf(ctx, "%s/%s%d.dump", folder, prefix, i)};
    }
    bool ok = run_jobs(ctx, jobs, n, o->jobs);
    char **paths = IR_NEWN(ctx, *nobjects + n + 1, char *);
    for (int i = 0; i < *nobjects; i++)
        paths[i] = (*objects)[i];
    for (int i = 0; i < n; i++) {
        paths[*nobjects + i] = (char *)jobs[i].path;
        if (ok && o->dump)
            copy_dump(&jobs[i], o);
        ok = ok && object_check(ctx, jobs[i].path);
    }
    *objects = paths;
    *nobjects += n;
    return ok;
}

static const struct pass_machine *
cpu_machine(struct ir_ctx *ctx, const char *arch)
{
    const struct cpu_machine *m = cpu_machine_make(ctx, arch);
    return m ? &m->pass : NULL;
}

const struct target target_cpu = {
    .name = "cpu", .machine = cpu_machine, .resolve = cpu_resolve, .refuses = cpu_refuses, .compile = cpu_compile};
