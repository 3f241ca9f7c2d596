/* SPDX-License-Identifier: Apache-2.0 */
/* library.c - where a simulator's library lies: beside the program or the file that holds this code, as built or as
 * installed; else where the system looks. */
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/rt_int.h"

static bool try_folder(char *to, const char *folder, const char *middle, const char *name)
{
    int n = snprintf(to, PATH_MAX, "%s/%s%s", folder, middle, name);

    return n > 0 && n < PATH_MAX && !access(to, R_OK);
}

static bool beside(char *to, char *file, const char *name)
{
    char *slash = strrchr(file, '/');

    if (!slash)
        return false;
    *slash = 0;
    return try_folder(to, file, "", name) || try_folder(to, file, "../lib/", name);
}

const char *tcr_library_path(const char *name, char *to)
{
    const char *given = tccrt_env_text("TCCC_LIBDIR");
    char file[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", file, sizeof file - 1);
    Dl_info info;

    if (given && try_folder(to, given, "", name))
        return to;
    file[n > 0 ? n : 0] = 0;
    if (beside(to, file, name))
        return to;
    if (dladdr((const void *)tcr_library_path, &info) && info.dli_fname && realpath(info.dli_fname, file) &&
        beside(to, file, name))
        return to;
    return name;
}
