/* SPDX-License-Identifier: Apache-2.0 */
/* cache.c - finished artifacts kept under a digest of all that they were made of. */
#include "compiler/cache_int.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

#include "compiler/locate_int.h"
#include "compiler/target.h"
#include "runtime/mutant.h"
#include "runtime/safe.h"

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
    XXH3_128bits_update(h, &t->ema, sizeof t->ema);
    add_number(h, t->accumulate);
    add_number(h, (int64_t)t->memory_budget);
    add_number(h, t->data_parallel);
    add_text(h, t->group);
    XXH3_128bits_update(h, &t->bucket_cap_mb, sizeof t->bucket_cap_mb);
    add_text(h, t->broadcast_buffers);
    add_number(h, t->sync_bn);
    add_number(h, t->zero);
    add_number(h, t->tensor_parallel);
    add_number(h, t->sequence_parallel);
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

/* The digest of all that the artifact is made of, as a file name. */
static bool entry_name(const struct tccc_options *o, const struct cache_key *k, char name[CACHE_NAME])
{
    static const char *const suffixes[] = {[TCCC_SO] = "so", [TCCC_OBJECT] = "o", [TCCC_ARCHIVE] = "a"};
    XXH3_state_t *h = XXH3_createState();
    if (!h)
        return false;
    XXH3_128bits_reset(h);
    add_compiler(h);
    add_number(h, tcr_mutant()); /* what one of them made is no other's */
    add_text(h, target_ptxas());
    add_file(h, target_ptxas());
    add_number(h, (int64_t)k->sources);
    add_text(h, k->name);
    add_text(h, k->target);
    for (int i = 0; i < k->narchs; i++)
        add_text(h, k->archs[i]);
    add_list(h, o->dims);
    add_list(h, o->shapes);
    add_list(h, o->states);
    add_list(h, o->customs);
    add_text(h, o->customs && o->customs[0] ? getenv("TCCC_CC") : NULL);
    add_text(h, o->pipeline);
    add_text(h, o->auto_cast);
    add_text(h, o->auto_cast_type);
    add_file(h, o->auto_cast);
    add_file(h, o->schedules);
    if (o->train)
        add_training(h, o->train);
    const int64_t numbers[] = {k->narchs, o->kind,      o->level,       o->weights, (int64_t)o->weights_seed,
                               o->exact,  o->fast_math, o->change_limit};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        add_number(h, numbers[i]);
    XXH128_hash_t digest = XXH3_128bits_digest(h);
    XXH3_freeState(h);
    snprintf(name, CACHE_NAME, "%016llx%016llx.%s", (unsigned long long)digest.high64, (unsigned long long)digest.low64,
             suffixes[o->kind]);
    return true;
}

/* -- The folder ----------------------------------------------------------------------------------------- */

/* Nobody else may have made it or may change it: what lies there is loaded and run. */
static bool is_ours(int file, mode_t kind, struct stat *st)
{
    return fstat(file, st) == 0 && (st->st_mode & S_IFMT) == kind && st->st_uid == geteuid() && !(st->st_mode & 022);
}

static void not_cached(struct ir_ctx *ctx, const struct ir_where *where)
{
    ir_diag(ctx, where, IR_D_WARNING, "cannot be written, so the artifact is not kept in the cache");
}

bool cache_open(struct cache *c, struct ir_ctx *ctx, const struct tccc_options *o, const struct cache_key *k)
{
    struct ir_where where = {.file = o->cache_dir};
    struct stat st;

    *c = (struct cache){.path = o->cache_dir, .folder = -1, .lock = -1};
    if (!o->cache_dir || !o->output || o->header || o->depfile || (o->dumps && o->dumps[0]) ||
        o->weights == TCCC_WEIGHTS_EXTERNAL || !entry_name(o, k, c->name))
        return false;
    mkdir(o->cache_dir, 0700);
    c->folder = open(o->cache_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (c->folder >= 0 && is_ours(c->folder, S_IFDIR, &st))
        return true;
    if (c->folder >= 0)
        ir_diag(
            ctx, &where, IR_D_WARNING,
            "belongs to another user, or others may write to it, so it is not used as a cache (expected mode 0700)");
    else
        not_cached(ctx, &where);
    cache_close(c);
    return false;
}

void cache_close(struct cache *c)
{
    if (c->lock >= 0) {
        struct stat ours, there;
        char name[CACHE_NAME + 8];

        /* The file stays while somebody holds or awaits its lock; who comes later makes another, and finds the entry. */
        snprintf(name, sizeof name, "%s.lock", c->name);
        if (fstat(c->lock, &ours) == 0 && fstatat(c->folder, name, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
            ours.st_ino == there.st_ino && ours.st_dev == there.st_dev)
            unlinkat(c->folder, name, 0);
        flock(c->lock, LOCK_UN); /* children may hold the file open */
        close(c->lock);
    }
    if (c->folder >= 0)
        close(c->folder);
    *c = (struct cache){.folder = -1, .lock = -1};
}

void cache_lock(struct cache *c)
{
    const struct timespec pause = {.tv_nsec = 20000000};
    char name[CACHE_NAME + 8];
    struct stat st;

    snprintf(name, sizeof name, "%s.lock", c->name);
    int lock = openat(c->folder, name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    bool ok = lock >= 0 && is_ours(lock, S_IFREG, &st);
    for (int i = 0; ok && flock(lock, LOCK_EX | LOCK_NB) != 0; i++) {
        ok = i < 6000 && (errno == EWOULDBLOCK || errno == EINTR);
        nanosleep(&pause, NULL);
    }
    if (ok)
        c->lock = lock;
    else if (lock >= 0)
        close(lock);
}

/* -- Entries ------------------------------------------------------------------------------------------------
 * The artifact's bytes; the warnings that were given when it was made: F (they name the model's file) or -, the text, a 0 each; and
 * what all that must be. */

struct trailer {
    char magic[16];
    uint64_t warnings;  /* bytes of them */
    uint64_t digest[2]; /* of the entry's name, the bytes and the warnings */
};
static const char magic[16] = "tccc cache 2\n";
#define MOST_WARNINGS (1 << 20)

struct text {
    char *at;
    size_t size;
};

/* Copies up to `left` bytes (all: -1) and takes their digest, and that of what goes with them. */
static bool copy(int in, int out, int64_t left, const char *name, const struct text *with, uint64_t digest[2])
{
    XXH3_state_t *h = XXH3_createState();
    char buffer[65536];
    bool ok = h != NULL;

    if (ok)
        XXH3_128bits_reset(h);
    if (ok)
        add_text(h, name);
    while (ok && left != 0) {
        size_t most = left < 0 || left > (int64_t)sizeof buffer ? sizeof buffer : (size_t)left;
        ssize_t n = read(in, buffer, most);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            ok = n == 0 && left < 0;
            break;
        }
        XXH3_128bits_update(h, buffer, (size_t)n);
        ok = tcr_write_all(out, buffer, (size_t)n) == 0;
        left -= left < 0 ? 0 : n;
    }
    if (ok) {
        XXH3_128bits_update(h, with->at, with->size);
        XXH128_hash_t d = XXH3_128bits_digest(h);
        digest[0] = d.high64;
        digest[1] = d.low64;
    }
    XXH3_freeState(h);
    return ok;
}

static bool read_warnings(int in, int64_t file, const struct trailer *t, struct text *w)
{
    int64_t at = file - (int64_t)sizeof *t - (int64_t)t->warnings;

    if (t->warnings > MOST_WARNINGS || at < 0 || !(w->at = malloc((size_t)t->warnings + 1)))
        return false;
    w->size = (size_t)t->warnings;
    w->at[w->size] = 0;
    return pread(in, w->at, w->size, at) == (ssize_t)w->size;
}

static void repeat_warnings(struct ir_ctx *ctx, const char *model, const struct text *w)
{
    for (const char *s = w->at; s < w->at + w->size; s += strlen(s) + 1) {
        struct ir_where where = {.file = *s == 'F' ? model : NULL};

        ir_diag(ctx, &where, IR_D_WARNING, "%s", s + 1);
    }
}

bool cache_fetch(const struct cache *c, struct ir_ctx *ctx, const char *to, const char *model)
{
    struct trailer t;
    struct text w = {0};
    struct stat st;
    uint64_t digest[2];
    int in = openat(c->folder, c->name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK), out = -1;
    bool ok = in >= 0 && is_ours(in, S_IFREG, &st) && st.st_size > (off_t)sizeof t;

    if (ok)
        ok = pread(in, &t, sizeof t, st.st_size - (off_t)sizeof t) == (ssize_t)sizeof t &&
             !memcmp(t.magic, magic, sizeof magic) && read_warnings(in, st.st_size, &t, &w);
    if (ok)
        ok = (out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, st.st_mode & 0100 ? 0777 : 0666)) >= 0;
    ok = ok && copy(in, out, st.st_size - (int64_t)sizeof t - (int64_t)w.size, c->name, &w, digest) &&
         !memcmp(digest, t.digest, sizeof digest);
    if (in >= 0)
        close(in);
    if (out >= 0)
        ok &= close(out) == 0;
    if (!ok && out >= 0)
        unlink(to);
    if (ok)
        repeat_warnings(ctx, model, &w);
    free(w.at);
    return ok;
}

static bool gather_warnings(const struct ir_ctx *ctx, const char *model, int first, struct text *w)
{
    FILE *f = open_memstream(&w->at, &w->size);

    for (int i = first; f && i < ir_nmessages(ctx); i++) {
        struct ir_message m = *ir_message(ctx, i);
        bool named = m.where.file && model && !strcmp(m.where.file, model);

        if (m.severity != IR_WARNING)
            continue;
        if (named)
            m.where.file = NULL;
        fputc(named ? 'F' : '-', f);
        ir_print_where(f, &m.where);
        fprintf(f, "%s%c", m.text, 0);
    }
    return f && fclose(f) == 0 && w->size <= MOST_WARNINGS;
}

void cache_store(const struct cache *c, struct ir_ctx *ctx, const char *from, const char *model, int first)
{
    struct ir_where where = {.file = ir_internf(ctx, "%s/%s", c->path, c->name)};
    struct trailer t = {0};
    struct text w = {0};
    struct tcr_save save;
    char path[PATH_MAX];
    struct stat st;
    int in = tcr_open_input(from, true);

    snprintf(path, sizeof path, "/proc/self/fd/%d/%s", c->folder, c->name);
    memcpy(t.magic, magic, sizeof magic);
    bool ok = in >= 0 && fstat(in, &st) == 0 && gather_warnings(ctx, model, first, &w);
    bool open = ok && !tcr_save_open(&save, path, 0);
    t.warnings = w.size;
    ok = open && !fchmod(save.fd, st.st_mode & 0700) && copy(in, save.fd, -1, c->name, &w, t.digest) &&
         !tcr_write_all(save.fd, w.at, w.size) && !tcr_write_all(save.fd, &t, sizeof t);
    free(w.at);
    if (in >= 0)
        close(in);
    if (open && !ok)
        tcr_save_drop(&save);
    if (!ok || tcr_save_commit(&save))
        not_cached(ctx, &where);
}
