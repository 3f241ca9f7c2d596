/* SPDX-License-Identifier: Apache-2.0 */
/*
 * emulate.c - runs an artifact of another processor: QEMU's user mode (Debian: qemu-user) runs tccc-guest, which was
 * made for that processor, over the C library of Debian's cross compiler. The guest holds artifact and session; inputs
 * and outputs go through its standard input and output (guest_io_int.h).
 */
#include "tools/run/emulate_int.h"
#include "base/safe.h"
#include "tools/values/values_int.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Processors that artifacts are made for, and what runs them elsewhere. */
static const struct machine {
    uint16_t elf;
    const char *name, *emulator, *debian, *cpu; /* cpu: which has most */
} machines[] = {{EM_X86_64, "x86-64", "qemu-x86_64", "x86_64-linux-gnu", "max"},
                {EM_AARCH64, "aarch64", "qemu-aarch64", "aarch64-linux-gnu", "max"},
                {EM_RISCV, "riscv64", "qemu-riscv64", "riscv64-linux-gnu", "rv64,v=true,vext_spec=v1.0"}};

#if defined(__aarch64__)
#define HOST EM_AARCH64
#elif defined(__riscv)
#define HOST EM_RISCV
#else
#define HOST EM_X86_64
#endif

struct emulated {
    pid_t guest;
    FILE *to, *from;
    char *entry;
    int nneeded, ndefaults, nout, nvalues;
    struct guest_value *values;
};

/* NULL: it is for none of them. */
static const struct machine *machine_of(const char *path)
{
    Elf64_Ehdr h = {0};
    FILE *in = tcr_stream_input(path);
    if (!in)
        return NULL;
    bool elf = fread(&h, 1, sizeof h, in) == sizeof h && memcmp(h.e_ident, ELFMAG, SELFMAG) == 0;
    fclose(in);
    for (size_t i = 0; elf && i < sizeof machines / sizeof *machines; i++)
        if (machines[i].elf == h.e_machine)
            return &machines[i];
    return NULL;
}

bool emulate_foreign(const char *path, char *error)
{
    const struct machine *m = machine_of(path);
    if (!m || m->elf == HOST)
        return false;
    snprintf(
        error, ERROR_SIZE,
        "its code is for %s, not for this machine: run it there, or here with --emulate, by %s -L /usr/%s (Debian: "
        "qemu-user, libc6-dev-%s-cross)",
        m->name, m->emulator, m->debian, m->elf == EM_AARCH64 ? "arm64" : m->name);
    return true;
}

static const char *given_folder(void)
{
    const char *given = getenv("QEMU_LD_PREFIX"); /* the emulator's own name for -L */
    return given && *given ? given : NULL;
}

/* TRIPLET/NAME in $TCCC_LIBDIR, beside this program (a build folder), or in the lib folder beside its own. */
static bool find_program(const struct machine *m, const char *name, char *path, size_t size)
{
    char self[PATH_MAX];
    const char *given = getenv("TCCC_LIBDIR");
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n > 0 ? n : 0] = '\0';
    if (strrchr(self, '/'))
        *strrchr(self, '/') = '\0';
    const char *const places[] = {given && *given ? given : self, self, "/../lib"};
    for (int i = 0; i < 3; i++) {
        int wrote =
            snprintf(path, size, "%s%s/%s/%s", i == 2 ? self : places[i], i == 2 ? places[2] : "", m->debian, name);
        if (wrote > 0 && (size_t)wrote < size && access(path, X_OK) == 0)
            return true;
    }
    return false;
}

enum { BEGIN = 5 }; /* words of a command line */
struct emulator {
    char sysroot[64];
    char *words[BEGIN];
};

/* What starts a program for that machine, which comes behind the words. */
static void emulator_of(const struct machine *m, const char *cpu, struct emulator *e)
{
    const char *given = given_folder();
    snprintf(e->sysroot, sizeof e->sysroot, "/usr/%s", m->debian);
    char *const words[BEGIN] = {(char *)m->emulator, "-L", given ? (char *)given : e->sysroot, "-cpu",
                                (char *)(*cpu ? cpu : m->cpu)};
    memcpy(e->words, words, sizeof words);
}

static int not_foreign(char *error)
{
    snprintf(error, ERROR_SIZE, "--emulate is for artifacts of other processors, as --march=armv8-a makes them");
    return TCC_EUSAGE;
}

/* -- The process ---------------------------------------------------------------------------------------- */

static void become(char *const *argv, const int *in, const int *out, pid_t parent)
{
    tcr_die_with_parent(parent);
    dup2(in[0], STDIN_FILENO);
    dup2(out[1], STDOUT_FILENO);
    for (int i = 0; i < 2; i++) {
        close(in[i]);
        close(out[i]);
    }
    execvp(argv[0], argv);
    _exit(127);
}

static int launch(struct emulated *e, char *const *argv, char *error)
{
    int in[2], out[2];
    pid_t self = getpid();
    if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0) {
        snprintf(error, ERROR_SIZE, "no pipe: %s", strerror(errno));
        return TCC_EENV;
    }
    signal(SIGPIPE, SIG_IGN); /* a guest that is gone shows as a write that fails */
    fflush(NULL);
    e->guest = fork();
    if (e->guest == 0)
        become(argv, in, out, self);
    close(in[0]);
    close(out[1]);
    e->to = fdopen(in[1], "w");
    e->from = fdopen(out[0], "r");
    if (e->guest > 0 && e->to && e->from)
        return TCC_OK;
    snprintf(error, ERROR_SIZE, "cannot start %s: %s", argv[0], strerror(errno));
    return TCC_EENV;
}

/* The guest is gone: why. */
static int gone(struct emulated *e, char *error)
{
    int status = 0;
    fclose(e->to);
    e->to = NULL;
    waitpid(e->guest, &status, 0);
    e->guest = 0;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 127) {
        snprintf(error, ERROR_SIZE, "the emulator could not be started (Debian: qemu-user)");
        return TCC_EENV;
    }
    if (WIFSIGNALED(status))
        snprintf(error, ERROR_SIZE, "the emulated program ended by signal %d (%s)", WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
    else
        snprintf(error, ERROR_SIZE, "the emulated program ended with status %d", WEXITSTATUS(status));
    return TCC_EBUG;
}

/* A status, and its message. */
static int answer(struct emulated *e, char *error)
{
    int64_t status;
    char *text;
    if (fflush(e->to) != 0 || !guest_get_number(e->from, &status))
        return gone(e, error);
    if (status == TCC_OK)
        return TCC_OK;
    if (!guest_get_text(e->from, &text))
        return gone(e, error);
    snprintf(error, ERROR_SIZE, "%s", text ? text : "");
    free(text);
    return (int)status;
}

static bool read_shape(struct emulated *e)
{
    int64_t n[3];
    if (!guest_get_text(e->from, &e->entry) || !guest_get_number(e->from, &n[0]) || !guest_get_number(e->from, &n[1]) ||
        !guest_get_number(e->from, &n[2]))
        return false;
    e->nneeded = (int)n[0];
    e->ndefaults = (int)n[1];
    e->nout = (int)n[2];
    int wanted = e->nneeded + e->ndefaults + e->nout;
    e->values = calloc((size_t)wanted + 1, sizeof *e->values);
    for (; e->values && e->nvalues < wanted; e->nvalues++)
        if (!guest_get_value(e->from, &e->values[e->nvalues]))
            return false;
    return e->values != NULL;
}

int emulated_start(const char *path, const char *entry, const char *cpu, struct emulated **out, char *error)
{
    char guest[PATH_MAX + 64];
    struct emulator q;
    const struct machine *m = machine_of(path);
    if (!m || m->elf == HOST)
        return not_foreign(error);
    if (!find_program(m, "tccc-guest", guest, sizeof guest)) {
        snprintf(error, ERROR_SIZE, "%s/tccc-guest was not found: build tccc by configure --with-cross=%s", m->debian,
                 m->debian);
        return TCC_EENV;
    }
    struct emulated *e = *out = calloc(1, sizeof *e);
    emulator_of(m, cpu, &q);
    char **w = q.words, *const argv[] = {w[0], w[1], w[2], w[3], w[4], guest, (char *)path, (char *)entry, NULL};
    int status = e ? launch(e, argv, error) : TCC_EENV;
    if (status == TCC_OK)
        status = answer(e, error);
    if (status == TCC_OK && !read_shape(e))
        status = gone(e, error);
    if (status != TCC_OK) {
        emulated_end(e);
        *out = NULL;
    }
    return status;
}

void emulated_end(struct emulated *e)
{
    if (!e)
        return;
    if (e->to)
        fclose(e->to); /* the guest's input ends, and so does it */
    if (e->from)
        fclose(e->from);
    if (e->guest > 0)
        waitpid(e->guest, &(int){0}, 0);
    for (int i = 0; i < e->nvalues; i++) {
        struct tccrt_value_info *info = &e->values[i].info;
        for (int k = 0; k < info->rank; k++)
            free((char *)info->dim_names[k]);
        free((char *)info->name);
    }
    free(e->values);
    free(e->entry);
    free(e);
}

/* -- Its model ---------------------------------------------------------------------------------------------- */

struct emulated_shape emulated_shape(const struct emulated *e)
{
    return (struct emulated_shape){e->entry, e->nneeded, e->ndefaults, e->nout};
}

const struct guest_value *emulated_value(const struct emulated *e, int i)
{
    return &e->values[i];
}

int emulated_session(struct emulated *e, int threads, char *error)
{
    putc(GUEST_SESSION, e->to);
    guest_put_number(e->to, threads);
    return answer(e, error);
}

int emulated_run(struct emulated *e, struct tcc_object *const *in, struct tcc_object **out, char *error)
{
    bool ok = putc(GUEST_RUN, e->to) != EOF;
    for (int i = 0; ok && i < e->nneeded + e->ndefaults; i++)
        ok = guest_put_object(e->to, in[i]);
    int status = ok ? answer(e, error) : gone(e, error);
    for (int i = 0; status == TCC_OK && i < e->nout; i++)
        if (!guest_get_object(e->from, &out[i]))
            status = gone(e, error);
    return status;
}

/* -- A whole tool ------------------------------------------------------------------------------------------- */

/* In the folder that stands for the other machine's root, or where tccc-guest would lie. */
static bool find_tool(const struct machine *m, const char *name, char *path, size_t size)
{
    static const char *const folders[] = {"usr/bin", "usr/local/bin"};
    for (int i = 0; given_folder() && i < 2; i++) {
        int wrote = snprintf(path, size, "%s/%s/%s", given_folder(), folders[i], name);
        if (wrote > 0 && (size_t)wrote < size && access(path, X_OK) == 0)
            return true;
    }
    return find_program(m, name, path, size);
}

int emulate_tool(const char *artifact, const char *name, const char *cpu, char **argv, char *error)
{
    char tool[PATH_MAX + 64];
    struct emulator q;
    const struct machine *m = machine_of(artifact);
    int argc = 0, n = BEGIN + 1;
    if (!m || m->elf == HOST)
        return not_foreign(error);
    if (!find_tool(m, name, tool, sizeof tool)) {
        snprintf(error, ERROR_SIZE,
                 "no %s for %s was found: unpack tccc's Debian packages for it into the folder that QEMU_LD_PREFIX "
                 "names, or put that of a cross build to %s/ beside libtccrt.a (doc/arm.md)",
                 name, m->name, m->debian);
        return TCC_EENV;
    }
    while (argv[argc])
        argc++;
    char **all = calloc((size_t)argc + 8, sizeof *all);
    if (!all) {
        snprintf(error, ERROR_SIZE, "no memory");
        return TCC_EENV;
    }
    emulator_of(m, cpu, &q);
    memcpy(all, q.words, sizeof q.words);
    all[BEGIN] = tool;
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--emulate") != 0 && strncmp(argv[i], "--emulate=", 10) != 0)
            all[n++] = argv[i];
    fflush(NULL);
    execvp(*all, all);
    snprintf(error, ERROR_SIZE, "%s could not be started: %s (Debian: qemu-user)", m->emulator, strerror(errno));
    free(all);
    return TCC_EENV;
}
