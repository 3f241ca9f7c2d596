/* SPDX-License-Identifier: Apache-2.0 */
/* cache.c - the folder in which finished artifacts and parts of them are kept; what an artifact is kept under:
 * cache_key.c. */
#include "compiler/cache_int.h"

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

#include "base/safe.h"

void cache_add_text(struct XXH3_state_s *h, const char *s)
{
    XXH3_128bits_update(h, s ? s : "", s ? strlen(s) + 1 : 1);
}

void cache_name(struct XXH3_state_s *h, const char *suffix, char name[CACHE_NAME])
{
    XXH128_hash_t digest = XXH3_128bits_digest(h);
    XXH3_freeState(h);
    snprintf(name, CACHE_NAME, "%016llx%016llx.%.8s", (unsigned long long)digest.high64,
             (unsigned long long)digest.low64, suffix);
}

bool cache_part(struct cache *part, const struct cache *of, const char *by, const void *bytes, size_t n,
                const char *suffix)
{
    XXH3_state_t *h = of && of->folder >= 0 ? XXH3_createState() : NULL;
    if (!h)
        return false;
    XXH3_128bits_reset(h);
    cache_add_text(h, by);
    XXH3_128bits_update(h, bytes, n);
    *part = (struct cache){.path = of->path, .folder = of->folder, .lock = -1};
    cache_name(h, suffix, part->name);
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

bool cache_open_folder(struct cache *c, struct ir_ctx *ctx, const char *path)
{
    struct ir_where where = {.file = path};
    struct stat st;

    *c = (struct cache){.path = path, .folder = -1, .lock = -1};
    mkdir(path, 0700);
    c->folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
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

        /* The file stays while somebody holds or awaits its lock; who comes later makes another, and finds the
         * entry. */
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
 * The artifact's bytes; the warnings that were given when it was made: F (they name the model's file) or -, the text, a
 * 0 each; and what all that must be. */

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
        cache_add_text(h, name);
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
