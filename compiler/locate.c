/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the files that the compiler needs beside itself. The folder of the running code is asked first, so that a
 * build tree and an installation that was moved both work; the folder fixed at configure time is the last resort.
 */
#include "compiler/locate_int.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Write "DIR/MIDDLE/NAME" and say whether a readable file is there. */
static bool try_place(const char *dir, const char *middle, const char *name, char *path, size_t size)
{
    int n = snprintf(path, size, "%s/%s%s", dir, middle, name);
    return n > 0 && (size_t)n < size && access(path, R_OK) == 0;
}

/* Cut `file` down to its folder; false where it names none. */
static bool to_folder(char *file)
{
    char *slash = strrchr(file, '/');
    if (!slash || slash == file)
        return false;
    *slash = '\0';
    return true;
}

/* The file that holds this code: the program itself, or libtccc.so. */
static bool own_file(char *file)
{
    Dl_info info;
    if (dladdr((const void *)(size_t)&tccc_locate, &info) && info.dli_fname && strchr(info.dli_fname, '/'))
        return realpath(info.dli_fname, file) != NULL;
    return false;
}

static bool program_file(char *file)
{
    ssize_t n = readlink("/proc/self/exe", file, PATH_MAX - 1);
    if (n <= 0)
        return false;
    file[n] = '\0';
    return true;
}

bool tccc_locate(const char *name, char *path, size_t size)
{
    static bool (*const finders[])(char *) = {program_file, own_file};
    char dir[PATH_MAX];
    const char *given = getenv("TCCC_LIBDIR");

    if (given && *given)
        return try_place(given, "", name, path, size);
    for (size_t i = 0; i < sizeof finders / sizeof *finders; i++) {
        if (!finders[i](dir) || !to_folder(dir))
            continue;
        if (try_place(dir, "", name, path, size) || try_place(dir, "../lib/", name, path, size))
            return true;
    }
    return try_place(TCCC_LIBDIR, "", name, path, size);
}
