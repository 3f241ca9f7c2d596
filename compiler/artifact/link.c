/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs the linker on objects, and writes archives. The linker is looked for beside the compiler (lld/ld.lld of the
 * Python package), where configure found it, then by the usual names on the PATH: ld.lld (fast, reads large sections),
 * else the C compiler. It writes beside the output, under a temporary name that is renamed once everything has gone
 * well, so that a failure leaves nothing.
 */
#include "compiler/artifact/link_int.h"
#include "compiler/child_int.h"
#include "compiler/cpu/isa/isa_int.h"
#include "compiler/locate_int.h"
#include "base/format.h"
#include "base/safe.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { STATUS_ENV = 3, STATUS_BUG = 4 };

struct arguments {
    const char **at;
    int n, cap;
};

static bool fail(struct ir_ctx *ctx, int *status, int code, const char *format, ...)
{
    FORMATTED(text, 2048, format);
    ir_error(ctx, NULL, "%s", text);
    if (status)
        *status = code;
    return false;
}

/* Linkers to try, best first; `driver`: a C compiler, which wants -Wl, in front of linker options. */
struct linker {
    const char *program;
    bool driver;
};
static const struct linker linkers[] = {
#ifdef TCCC_LLD
    {TCCC_LLD, false},
#endif
    {"ld.lld-19", false}, {"ld.lld", false}, {"cc", true}, {"gcc", true}, {"clang", true},
};

/* An option for the linker itself: as it is, or with -Wl, for a compiler driver. */
static void option(struct ir_ctx *ctx, struct arguments *a, bool driver, const char *text)
{
    VEC_PUSH(ctx, *a, driver ? ir_internf(ctx, "-Wl,%s", text) : text);
}

static void tell_command(struct ir_ctx *ctx, const struct arguments *a)
{
    const char *text = "link:";
    for (int i = 0; i < a->n && a->at[i]; i++)
        text = ir_internf(ctx, "%s %s", text, ir_shown(a->at[i]));
    ir_detail(ctx, "%s", text);
}

/* Runs the first linker that can be started; `build` makes its command line. */
static bool link_with(struct ir_ctx *ctx, const struct cpu_isa *isa, const char *output,
                      void (*build)(void *job, struct arguments *a, bool driver), void *job, int *status)
{
    char text[1500], beside[PATH_MAX];
    const char *temporary = ir_internf(ctx, "%s.tmp%ld", output, (long)getpid());
    bool own = tccc_locate("../lld/ld.lld", beside, sizeof beside);
    for (size_t i = 0; i < sizeof linkers / sizeof *linkers + own; i++) {
        struct linker l = own && i == 0 ? (struct linker){beside, false} : linkers[i - own];
        if (l.driver && isa != cpu_isa_host())
            l.program = ir_internf(ctx, "%s-gcc", isa->debian);
        struct arguments a = {0};
        VEC_PUSH(ctx, a, l.program);
        VEC_PUSH(ctx, a, "-o");
        VEC_PUSH(ctx, a, temporary);
        build(job, &a, l.driver);
        VEC_PUSH(ctx, a, NULL);
        int code = child_program((char *const *)a.at, text, sizeof text);
        if (code < 0 || code == 127)
            continue;
        if (code != 0) {
            unlink(temporary);
            bool space = child_lacked(text) || strstr(text, "Permission") || strstr(text, "annot open output");
            if (code > 128 || strstr(text, "Stack dump")) /* it writes through a mapping, whose pages have no room */
                return fail(ctx, status, STATUS_ENV,
                            "%s: the linker (%s) crashed, as it does where the device is full or "
                            "a file may not grow (ulimit -f)",
                            output, l.program);
            return fail(ctx, status, space ? STATUS_ENV : STATUS_BUG, "%s: the linker (%s) failed: %s", output,
                        l.program, text);
        }
        if (rename(temporary, output) != 0) {
            int error = errno;
            unlink(temporary);
            return fail(ctx, status, STATUS_ENV, "%s: %s", output, strerror(error));
        }
        tell_command(ctx, &a);
        return true;
    }
    return fail(ctx, status, STATUS_ENV, "%s: no linker found: install ld.lld (Debian: lld-19) or a C compiler%s%s",
                output, isa == cpu_isa_host() ? "" : " for ", isa == cpu_isa_host() ? "" : isa->debian);
}

/* -- Shared objects ----------------------------------------------------------------------------- */

struct shared_job {
    struct ir_ctx *ctx;
    const struct cpu_isa *isa;
    int nobjects, narchives;
    const char *const *objects, *const *archives;
    const char *script;
};

/* Whether the objects are so few bytes that starting threads costs the linker more than they save: measured, a fifth of
 * its time for a network of one kernel. (The linkers that are not drivers are all lld, whose option it is.) */
static bool small(const struct shared_job *job)
{
    long long bytes = 0;
    struct stat file;
    for (int i = 0; i < job->nobjects; i++)
        bytes += stat(job->objects[i], &file) == 0 ? (long long)file.st_size : 0;
    return bytes < 4 << 20;
}

static void build_shared(void *user, struct arguments *a, bool driver)
{
    const struct shared_job *job = user;
    struct ir_ctx *ctx = job->ctx;
    VEC_PUSH(ctx, *a, "-shared");
    if (driver)
        VEC_PUSH(ctx, *a, "-nostartfiles");
    option(ctx, a, driver, ir_internf(ctx, "--version-script=%s", job->script));
    option(ctx, a, driver, "--exclude-libs=ALL");
    option(ctx, a, driver, "--gc-sections");
    option(ctx, a, driver, "-Bsymbolic"); /* whatever another artifact of the same --name exports */
    option(ctx, a, driver, "--build-id=none");
    option(ctx, a, driver, "--hash-style=gnu");
    option(ctx, a, driver, driver ? "-z,defs" : "-zdefs");
    option(ctx, a, driver, driver ? "-z,relro" : "-zrelro");
    option(ctx, a, driver, driver ? "-z,now" : "-znow");
    option(ctx, a, driver, driver ? "-z,noexecstack" : "-znoexecstack");
    option(ctx, a, driver, "--strip-debug");
    if (job->isa->page_option)
        option(ctx, a, driver, ir_internf(ctx, driver ? "-z,%s" : "-z%s", job->isa->page_option));
    if (!driver && small(job))
        VEC_PUSH(ctx, *a, "--threads=1");
    for (int i = 0; i < job->nobjects; i++)
        VEC_PUSH(ctx, *a, job->objects[i]);
    for (int i = 0; i < job->narchives; i++)
        VEC_PUSH(ctx, *a, job->archives[i]);
    if (!driver) {
        for (const char *const *folder = job->isa->folders; *folder; folder++)
            VEC_PUSH(ctx, *a, ir_internf(ctx, "-L%s", *folder));
    }
    option(ctx, a, driver, "--as-needed");
    VEC_PUSH(ctx, *a, "-lm");
    VEC_PUSH(ctx, *a, driver ? "-lpthread" : "-lc");
}

bool link_shared(struct ir_ctx *ctx, const struct cpu_isa *isa, const char *output, int nobjects,
                 const char *const *objects, int narchives, const char *const *archives, int nexports,
                 const char *const *exports, int *status)
{
    const char *script = ir_internf(ctx, "%s.map%ld", output, (long)getpid());
    struct tcr_save save;
    if (tcr_save_open(&save, script, TCR_SAVE_STREAM))
        return fail(ctx, status, STATUS_ENV, "%s: %s", script, strerror(errno));
    FILE *f = save.stream;
    fprintf(f, "{ global:");
    for (int i = 0; i < nexports; i++)
        fprintf(f, " %s;", exports[i]);
    fprintf(f, " local: *; };\n");
    if (tcr_save_commit(&save))
        return fail(ctx, status, STATUS_ENV, "%s: %s", script, strerror(errno));
    struct shared_job job = {ctx, isa, nobjects, narchives, objects, archives, script};
    bool ok = link_with(ctx, isa, output, build_shared, &job, status);
    unlink(script);
    return ok;
}

/* -- One object from several ------------------------------------------------------------------------- */

static void build_object(void *user, struct arguments *a, bool driver)
{
    const struct shared_job *job = user;
    VEC_PUSH(job->ctx, *a, "-r");
    if (driver)
        VEC_PUSH(job->ctx, *a, "-nostdlib");
    for (int i = 0; i < job->nobjects; i++)
        VEC_PUSH(job->ctx, *a, job->objects[i]);
}

bool link_object(struct ir_ctx *ctx, const struct cpu_isa *isa, const char *output, int nobjects,
                 const char *const *objects, int *status)
{
    struct shared_job job = {.ctx = ctx, .isa = isa, .nobjects = nobjects, .objects = objects};
    return link_with(ctx, isa, output, build_object, &job, status);
}
