/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening of artifacts by file name. They may be for any device: who links this file links the runtimes of all of them;
 * artifacts that bring their own runtime go without it.
 */
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/rt_int.h"
#include "base/grow.h"
#include "base/safe.h"

__attribute__((used)) static tcr_device_opener *const *const devices = tcr_optional_devices;

/* -- Names that the loader knows ------------------------------------------------------------------------------
 * It gives what it loaded under a name before, as long as that is open, also where another file has been put in that
 * file's place since, as a compiler does. So another file of the same name is loaded by another path to it, with "./"
 * before the last part; `files` are those behind the name with none, one, two of them. */
struct loaded {
    char *name;
    int n;
    struct stat *files;
    struct loaded *next;
};
static struct loaded *all_loaded;
static pthread_mutex_t loading = PTHREAD_MUTEX_INITIALIZER;

static bool same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* What is known of the name; NULL: no memory. */
static struct loaded *files_of(const char *name)
{
    struct loaded *l = all_loaded;

    while (l && strcmp(l->name, name) != 0)
        l = l->next;
    if (l || !(l = calloc(1, sizeof *l)))
        return l;
    if (!(l->name = strdup(name))) {
        free(l);
        return NULL;
    }
    l->next = all_loaded;
    return all_loaded = l;
}

static bool is_open(const char *name)
{
    void *handle = dlopen(name, RTLD_NOW | RTLD_NOLOAD);

    if (handle)
        dlclose(handle);
    return handle != NULL;
}

/* Makes the real path `name` (room for PATH_MAX) one under which the loader gives the file. False: there is no room. */
static bool rename_for(struct loaded *l, char *name, const struct stat *file)
{
    for (int k = 0;; k++) {
        size_t size = strlen(name) + 1, last = (size_t)(strrchr(name, '/') - name) + 1;

        if (k == l->n) {
            if (!ONE_MORE(l->files, k))
                return false;
            l->files[l->n++] = *file;
        }
        if (same_file(&l->files[k], file) || !is_open(name)) {
            l->files[k] = *file;
            return true;
        }
        if (size + 2 > PATH_MAX)
            return false;
        memmove(name + last + 2, name + last, size - last);
        memcpy(name + last, "./", 2);
    }
}

static void *load(char *name, const struct stat *file)
{
    struct loaded *l;
    void *handle = NULL;

    pthread_mutex_lock(&loading);
    if ((l = files_of(name)) && rename_for(l, name, file))
        handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    else
        errno = ENOMEM;
    pthread_mutex_unlock(&loading);
    return handle;
}

/* Bytes that a file has by its own ELF header (System V ABI, chapters 4 and 5): its segments, and the table of
 * sections, which linkers put last. 0: it is none. The loader maps a segment that the file lacks, too, and who touches
 * it gets SIGBUS. */
static uint64_t size_by_header(int fd)
{
    Elf64_Ehdr h;
    Elf64_Phdr p;

    if (pread(fd, &h, sizeof h, 0) != sizeof h || memcmp(h.e_ident, ELFMAG, SELFMAG) != 0 ||
        h.e_ident[EI_CLASS] != ELFCLASS64 || h.e_phentsize != sizeof p)
        return 0;
    uint64_t size = h.e_shoff ? h.e_shoff + (uint64_t)h.e_shnum * h.e_shentsize : 0;
    for (int i = 0; i < h.e_phnum; i++) {
        uint64_t at = h.e_phoff + (uint64_t)i * sizeof p, end = at + sizeof p;

        if (pread(fd, &p, sizeof p, (off_t)at) == sizeof p && p.p_type == PT_LOAD)
            end = p.p_offset + p.p_filesz;
        size = end > size ? end : size;
    }
    return size;
}

int tccrt_open(const char *path, struct tccrt_model **out)
{
    const struct tcc_model *desc;
    uint64_t whole = 0;
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
        whole = size_by_header(fd);
        close(fd);
    }
    if (whole > (uint64_t)file.st_size)
        return tcr_fail(TCC_EINPUT,
                        "%s: cut short: it has %lld of the %llu bytes that its header tells of; copy it again", path,
                        (long long)file.st_size, (unsigned long long)whole);
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
