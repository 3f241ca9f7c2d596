/* SPDX-License-Identifier: Apache-2.0 */
/*
 * small_target.c - the smallest target: its machine interprets kernels.
 *
 * The "machine code" of a kernel is its text. A C function around it, made by the C compiler, hands text and arguments
 * to small_run(), which reads the kernel and runs it by its meaning (kn_interp_kernel). small_run() lies in the program
 * that compiled: its address stands in the code, so an artifact runs in the process that made it, which is what a test
 * needs. Everything else, the plan, its memory and its steps, is what every target gets from the passes and the
 * run-time library.
 */
#include "tests/unit/small_target.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* -- The machine ------------------------------------------------------------------------------------------------- */

static void small_run(const char *text, void *const *args, const int64_t *sizes, struct tcc_env *env)
{
    struct ir_ctx *ctx = ir_ctx_new();
    struct ir_module *m = ctx ? ir_parse(ctx, "kernel", text, strlen(text)) : NULL;
    int status = m ? kn_interp_kernel(m->program->kernels[0], args, sizes, env) : TCC_EENV;
    if (status)
        env->fault = status;
    ir_ctx_free(ctx);
}

/* -- What passes ask ----------------------------------------------------------------------------------------------- */

/* The table of schedules: one, which runs all points one after the other. */
static void schedule(const struct pass_machine *m, struct ir_ctx *ctx, struct kn_kernel *k)
{
    (void)m;
    k->schedule = (struct kn_schedule){.how = "interpret"};
    k->tiles = ir_const(ctx, 1);
    k->scratch = ir_const(ctx, 0);
}

static bool verify_schedule(const struct pass_machine *m, struct ir_ctx *ctx, const struct kn_kernel *k)
{
    (void)m;
    if (!strcmp(k->schedule.how, "interpret") && !k->schedule.nparams)
        return true;
    ir_error(ctx, NULL, "kernel %s: unknown schedule '%s'; expected interpret", ir_shown(k->name),
             ir_shown(k->schedule.how));
    return false;
}

/* A launch is expensive: each reads its kernel anew. */
static const struct pass_cost *cost(const struct pass_machine *m)
{
    static const struct pass_cost interpreter = {
        .flops = 0x1p25, .bandwidth = 0x1p28, .launch = 0x1p-13, .function = 1, .kernel = 2000};
    (void)m;
    return &interpreter;
}

static const struct pass_machine *machine(struct ir_ctx *ctx, const char *arch)
{
    static const struct pass_machine small = {
        .name = "small", .schedule = schedule, .verify_schedule = verify_schedule, .cost = cost};
    (void)ctx, (void)arch;
    return &small;
}

/* What the host's processor must be, for the functions around the texts. */
static const char *resolve(struct ir_ctx *ctx, const char *arch)
{
    (void)arch;
    return ir_intern(ctx, "x86-64-v2");
}

static const char *refuses(struct ir_ctx *ctx, const struct kn_kernel *k)
{
    (void)ctx;
    for (int i = 0; i < k->ninsns; i++)
        if (k->insns[i].dtype == TCC_STRING)
            return "strings have no kernels";
    return NULL;
}

/* -- Code ---------------------------------------------------------------------------------------------------------- */

static void write_kernel(FILE *out, const char *prefix, int number, const struct kn_kernel *k)
{
    char *text = NULL;
    size_t size = 0;
    FILE *memory = open_memstream(&text, &size);
    kn_print_kernel(memory, k);
    fclose(memory);
    fprintf(out, "static const char text%d[] = {", number);
    for (size_t i = 0; i <= size; i++)
        fprintf(out, "%d,", i < size ? text[i] : 0);
    fprintf(
        out,
        "};\n__attribute__((visibility(\"hidden\"))) void %sk%d(void *const *args, const long *sizes, void *scratch, "
        "void *env, long first, long last)\n{\n    (void)scratch;\n    if (first < last)\n"
        "        ((void (*)(const char *, void *const *, const long *, void *))%#" PRIxPTR
        ")(text%d, args, sizes, env);\n}\n",
        prefix, number, (uintptr_t)small_run, number);
    free(text);
}

static bool assemble(struct ir_ctx *ctx, const char *source, const char *object)
{
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        execlp("cc", "cc", "-O1", "-fPIC", "-c", source, "-o", object, (char *)NULL);
        _exit(127);
    }
    if (pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return true;
    ir_error(ctx, NULL, "the C compiler does not take %s", source);
    return false;
}

static bool compile(struct ir_ctx *ctx, const struct kn_program *p, const struct target_options *o, const char *prefix,
                    const char *folder, struct target_code *code)
{
    const char *source = ir_internf(ctx, "%s/%s.c", folder, prefix),
               *object = ir_internf(ctx, "%s/%s.o", folder, prefix);
    FILE *out = fopen(source, "w");
    (void)o;
    if (!out) {
        ir_error(ctx, NULL, "cannot write %s: %m", source);
        return false;
    }
    for (int i = 0; i < p->nkernels; i++)
        write_kernel(out, prefix, i, p->kernels[i]);
    bool ok = fclose(out) == 0 && assemble(ctx, source, object);
    unlink(source);
    if (ok)
        target_add_object(ctx, code, object);
    return ok;
}

const struct target small_target = {
    .name = "small", .machine = machine, .resolve = resolve, .refuses = refuses, .compile = compile};
