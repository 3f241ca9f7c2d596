/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening of artifacts by file name. They may be for any device: who links this file links the runtimes of all of them;
 * artifacts that bring their own runtime go without it.
 */
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/rt_int.h"
#include "base/safe.h"

__attribute__((used)) static tcr_device_opener *const *const devices = tcr_optional_devices;

/* -- Names that the loader knows ------------------------------------------------------------------------------
 * It gives what it loaded under a name before, also where another file has been put in that file's place since, as a
 * compiler does. So names are kept with their files; another file of the same name is loaded by another path to it. */
struct loaded {
    char *name;
    struct stat file;
    struct loaded *next;
};
static struct loaded *all_loaded;
static pthread_mutex_t loading = PTHREAD_MUTEX_INITIALIZER;

static bool same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* The name is kept as the file's; no memory: it isn't, and the next file of this name may be taken for it. */
static void keep_name(const char *name, const struct stat *file)
{
    struct loaded *l = malloc(sizeof *l);

    if (!l || !(l->name = strdup(name))) {
        free(l);
        return;
    }
    l->file = *file;
    l->next = all_loaded;
    all_loaded = l;
}

/* dlopen() of a file by its real path, in which `name` (room for PATH_MAX) gets "./" before the last part as often as
 * other files have had the names without. */
static void *load(char *name, const struct stat *file)
{
    const struct loaded *l;
    void *handle = NULL;

    pthread_mutex_lock(&loading);
    for (l = all_loaded; l;) {
        size_t size = strlen(name) + 1, last = (size_t)(strrchr(name, '/') - name) + 1;

        if (strcmp(l->name, name) != 0) {
            l = l->next;
            continue;
        }
        if (same_file(&l->file, file) || size + 2 > PATH_MAX)
            break;
        memmove(name + last + 2, name + last, size - last);
        memcpy(name + last, "./", 2);
        l = all_loaded;
    }
    if (!l || same_file(&l->file, file))
        handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (handle && !l)
        keep_name(name, file);
    pthread_mutex_unlock(&loading);
    return handle;
}

int tccrt_open(const char *path, struct tccrt_model **out)
{
    const struct tcc_model *desc;
    char full[PATH_MAX];
    struct stat file = {0};
    void *handle;
    int fd;

    tcr_clear_error();
    if (out)
        *out = NULL;
    if (!path || !out)
        return tcr_fail(TCC_EUSAGE, "a path and a place for the model are required, got NULL");
    /* The real path: a bare name would be searched for along the library path. */
    if (!realpath(path, full))
        return tcr_fail(TCC_EENV, "%s: %s", path, strerror(errno));
    fd = tcr_open_input(full, true); /* the loader would wait for a FIFO */
    if (fd < 0 && (errno == EINVAL || errno == EISDIR))
        return tcr_fail(TCC_EINPUT, "%s: not a compiled model: not a file", path);
    if (fd >= 0) {
        fstat(fd, &file);
        close(fd);
    }
    errno = 0;
    handle = load(full, &file);
    if (!handle) {
        const char *why = dlerror();
        bool lacking = errno == ENOMEM || access(full, R_OK) != 0;

        return tcr_fail(lacking ? TCC_EENV : TCC_EINPUT, "%s: not a compiled model: %s", path,
                        why ? why : "cannot be loaded");
    }
    desc = dlsym(handle, "tccc_model");
    if (!desc) {
        dlclose(handle);
        return tcr_fail(TCC_EINPUT, "%s: a shared library, but not a compiled model (no symbol 'tccc_model')", path);
    }
    return tcr_open_model(desc, path, handle, out);
}
