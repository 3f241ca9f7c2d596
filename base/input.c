/* SPDX-License-Identifier: Apache-2.0 */
/* Opens files for reading: nothing that could be waited for, and nothing that is no file. */
#include "base/safe.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int tcr_fail_closing(int fd, int why)
{
    if (fd >= 0)
        close(fd);
    errno = why;
    return -1;
}

/* Waiting begins again after the opening, which must not wait. */
int tcr_let_wait(int fd)
{
    int flags = fcntl(fd, F_GETFL);

    if (flags < 0 || fcntl(fd, F_SETFL, flags & ~O_NONBLOCK))
        return tcr_fail_closing(fd, errno);
    return fd;
}

/* The number behind /dev/fd/ and the like; -1: another path. */
int tcr_own_descriptor(const char *path)
{
    static const char *const folders[] = {"/dev/fd/", "/proc/self/fd/"};
    char *end;

    if (!strcmp(path, "/dev/stdin"))
        return 0;
    if (!strcmp(path, "/dev/stdout"))
        return 1;
    if (!strcmp(path, "/dev/stderr"))
        return 2;
    for (int i = 0; i < 2; i++) {
        size_t n = strlen(folders[i]);
        long fd = strncmp(path, folders[i], n) ? -1 : strtol(path + n, &end, 10);

        if (fd >= 0 && fd < INT_MAX && path[n] >= '0' && path[n] <= '9' && !*end)
            return (int)fd;
    }
    return -1;
}

int tcr_open_input(const char *path, bool links)
{
    struct stat st;
    int own = tcr_own_descriptor(path), fd;

    if (own >= 0)
        return fcntl(own, F_DUPFD_CLOEXEC, 3);
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | (links ? 0 : O_NOFOLLOW));
    if (fd < 0)
        return -1;
    if (fstat(fd, &st))
        return tcr_fail_closing(fd, errno);
    if (!S_ISREG(st.st_mode))
        return tcr_fail_closing(fd, S_ISDIR(st.st_mode) ? EISDIR : EINVAL);
    return tcr_let_wait(fd);
}

FILE *tcr_stream_input(const char *path)
{
    int fd = tcr_open_input(path, true);
    FILE *f = fd < 0 ? NULL : fdopen(fd, "r");

    if (!f && fd >= 0)
        tcr_fail_closing(fd, ENOMEM);
    return f;
}

static bool climbs(const char *p)
{
    while (*p) {
        size_t n = strcspn(p, "/");

        if (n == 2 && p[0] == '.' && p[1] == '.')
            return true;
        p += n;
        p += strspn(p, "/");
    }
    return false;
}

bool tcr_is_below(const char *real, const char *folder)
{
    char *root = realpath(*folder ? folder : ".", NULL);
    size_t n = root && strcmp(root, "/") ? strlen(root) : 0;
    bool below = root && !strncmp(real, root, n) && real[n] == '/';

    free(root);
    return below;
}

char *tcr_path_below(const char *folder, const char *name)
{
    size_t room = strlen(folder) + strlen(name) + 3;
    char *joined, *real;
    int why;

    if (*name == '/' || climbs(name)) {
        errno = EPERM;
        return NULL;
    }
    if (!(joined = malloc(room)))
        return NULL;
    snprintf(joined, room, "%s/%s", *folder ? folder : ".", name);
    real = realpath(joined, NULL);
    why = errno;
    if (real && !tcr_is_below(real, folder)) {
        free(real);
        real = NULL;
        why = EXDEV;
    }
    free(joined);
    errno = why;
    return real;
}
