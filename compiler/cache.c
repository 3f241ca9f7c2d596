/* SPDX-License-Identifier: Apache-2.0 */
/* cache.c - finished artifacts kept under a digest of all that they were made of. */
#include "compiler/cache_int.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

#include "compiler/locate_int.h"

static void add_text(XXH3_state_t *h, const char *s)
{
    XXH3_128bits_update(h, s ? s : "", s ? strlen(s) + 1 : 1);
}

static void add_number(XXH3_state_t *h, int64_t v)
{
    XXH3_128bits_update(h, &v, sizeof v);
}

static void add_list(XXH3_state_t *h, const char *const *list)
{
    for (int i = 0; list && list[i]; i++)
        add_text(h, list[i]);
    add_text(h, NULL);
}

/* Another build of the compiler or the runtime is another file. */
static void add_file(XXH3_state_t *h, const char *path)
{
    struct stat st;
    bool found = path && stat(path, &st) == 0;
    add_number(h, found ? st.st_size : -1);
    add_number(h, found ? st.st_mtim.tv_sec : 0);
    add_number(h, found ? st.st_mtim.tv_nsec : 0);
}

static void add_compiler(XXH3_state_t *h)
{
    char runtime[PATH_MAX];
    Dl_info self;
    add_text(h, tccc_version());
    const char *file = dladdr((const void *)(size_t)&tccc_compile, &self) ? self.dli_fname : NULL;
    add_file(h, file);
    if (!file || !strstr(file, ".so")) /* a program with the compiler linked in may have been called by any name */
        add_file(h, "/proc/self/exe");
    add_file(h, tccc_locate("libtccrt.a", runtime, sizeof runtime) ? runtime : NULL);
}

static void add_training(XXH3_state_t *h, const struct tccc_train *t)
{
    const char *const texts[] = {t->loss,      t->optimizer,      t->optimizer_state, t->schedule,    t->precision,
                                 t->auto_cast, t->auto_cast_type, t->loss_scale,      t->step_outputs};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        add_text(h, texts[i]);
    add_file(h, t->auto_cast); /* it may name one */
    add_list(h, t->freeze);
    add_list(h, t->train_only);
    add_text(h, "training");
    XXH3_128bits_update(h, &t->clip_norm, sizeof t->clip_norm);
    add_number(h, t->accumulate);
    add_number(h, (int64_t)t->memory_budget);
    add_number(h, t->data_parallel);
    XXH3_128bits_update(h, &t->bucket_cap_mb, sizeof t->bucket_cap_mb);
    add_text(h, t->broadcast_buffers);
    add_number(h, t->sync_bn);
    add_number(h, t->zero);
    add_number(h, t->split != NULL);
    if (!t->split)
        return;
    add_number(h, t->split->partitions);
    add_number(h, t->split->microbatches);
    add_number(h, t->split->active);
    add_number(h, t->split->default_stage);
    add_text(h, t->split->pipeline);
    add_text(h, t->split->optimize);
    add_file(h, t->split->map);
    add_list(h, t->split->split_axes);
}

const char *cache_path(struct ir_ctx *ctx, const struct tccc_options *o, const char *name, const char *target,
                       int narchs, const char *const *archs, uint64_t sources)
{
    static const char *const suffixes[] = {[TCCC_SO] = "so", [TCCC_OBJECT] = "o", [TCCC_ARCHIVE] = "a"};

    if (!o->cache_dir || !o->output || o->header || o->depfile || (o->dumps && o->dumps[0]) ||
        o->weights == TCCC_WEIGHTS_EXTERNAL)
        return NULL;
    XXH3_state_t *h = XXH3_createState();
    if (!h)
        return NULL;
    XXH3_128bits_reset(h);
    add_compiler(h);
    add_number(h, (int64_t)sources);
    add_text(h, name);
    add_text(h, target);
    for (int i = 0; i < narchs; i++)
        add_text(h, archs[i]);
    add_list(h, o->dims);
    add_list(h, o->shapes);
    add_text(h, o->pipeline);
    add_text(h, o->auto_cast);
    add_text(h, o->auto_cast_type);
    add_file(h, o->auto_cast);
    if (o->train)
        add_training(h, o->train);
    const int64_t numbers[] = {narchs, o->kind, o->level, o->weights, o->exact, o->fast_math, o->change_limit};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        add_number(h, numbers[i]);
    XXH128_hash_t digest = XXH3_128bits_digest(h);
    XXH3_freeState(h);
    return ir_internf(ctx, "%s/%016llx%016llx.%s", o->cache_dir, (unsigned long long)digest.high64,
                      (unsigned long long)digest.low64, suffixes[o->kind]);
}

/* Copies all bytes and the mode; removes what it has begun when that fails. */
static bool copy(const char *from, const char *to)
{
    struct stat st;
    int in = open(from, O_RDONLY | O_CLOEXEC);
    int out =
        in >= 0 && fstat(in, &st) == 0 ? open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, st.st_mode & 0777) : -1;
    bool ok = out >= 0;
    char buffer[65536];
    ssize_t n = 0;

    while (ok && (n = read(in, buffer, sizeof buffer)) > 0)
        for (ssize_t done = 0, w; ok && done < n; done += w)
            ok = (w = write(out, buffer + done, (size_t)(n - done))) > 0;
    ok &= n == 0;
    if (in >= 0)
        close(in);
    if (out >= 0)
        ok &= close(out) == 0;
    if (!ok && out >= 0)
        unlink(to);
    return ok;
}

/* Does an ELF file end before its section headers, which lie last, do? The loader would die of it. */
static bool cut_short(const char *path)
{
    Elf64_Ehdr head;
    struct stat st;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    bool known = file >= 0 && fstat(file, &st) == 0;
    bool elf = known && read(file, &head, sizeof head) == sizeof head && !memcmp(head.e_ident, ELFMAG, SELFMAG);
    bool cut = !known || st.st_size < (off_t)sizeof head ||
               (elf && (uint64_t)st.st_size < head.e_shoff + (uint64_t)head.e_shnum * head.e_shentsize);

    if (file >= 0)
        close(file);
    return cut;
}

bool cache_fetch(const char *path, const char *to)
{
    if (!copy(path, to))
        return false;
    if (!cut_short(to))
        return true;
    unlink(to);
    return false;
}

int cache_lock(const char *path)
{
    const struct timespec pause = {.tv_nsec = 20000000};
    char file[PATH_MAX], folder[PATH_MAX];
    const char *slash = strrchr(path, '/');

    if (snprintf(file, sizeof file, "%s.lock", path) >= (int)sizeof file)
        return -1;
    snprintf(folder, sizeof folder, "%.*s", (int)(slash - path), path);
    mkdir(folder, 0777);
    int lock = open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    for (int i = 0; lock >= 0 && flock(lock, LOCK_EX | LOCK_NB) != 0; i++) {
        if (i == 6000 || (errno != EWOULDBLOCK && errno != EINTR)) {
            close(lock);
            return -1;
        }
        nanosleep(&pause, NULL);
    }
    return lock;
}

/* The file stays while somebody holds or awaits its lock; who comes later makes another, and finds the entry. */
void cache_unlock(int lock)
{
    char link[64], file[PATH_MAX];

    if (lock < 0)
        return;
    snprintf(link, sizeof link, "/proc/self/fd/%d", lock);
    ssize_t n = readlink(link, file, sizeof file - 1);
    if (n > 0) {
        file[n] = 0;
        unlink(file);
    }
    flock(lock, LOCK_UN); /* children may hold the file open */
    close(lock);
}

void cache_store(struct ir_ctx *ctx, const char *path, const char *from)
{
    const char *slash = strrchr(path, '/'), *folder = ir_internf(ctx, "%.*s", (int)(slash - path), path);
    /* The context's address tells threads of a process apart. */
    const char *temporary = ir_internf(ctx, "%s.%d.%zx", path, (int)getpid(), (size_t)ctx);
    struct ir_where where = {.file = path};

    mkdir(folder, 0777);
    if (copy(from, temporary) && rename(temporary, path) == 0)
        return;
    unlink(temporary);
    ir_diag(ctx, &where, IR_D_not_cached);
}
