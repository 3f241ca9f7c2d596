/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening of artifacts by file name. They may be for any device: who links this file links the runtimes of all of them;
 * artifacts that bring their own runtime go without it.
 */
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/rt_int.h"
#include "base/safe.h"

__attribute__((used)) static tcr_device_opener *const *const devices = tcr_optional_devices;

int tccrt_open(const char *path, struct tccrt_model **out)
{
    const struct tcc_model *desc;
    char full[PATH_MAX];
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
    if (fd >= 0)
        close(fd);
    errno = 0;
    handle = dlopen(full, RTLD_NOW | RTLD_LOCAL);
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
