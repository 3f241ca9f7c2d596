/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes a file at once and never through a link: it is made without a name (open(2), O_TMPFILE), linked beside the old
 * one when it is whole, and renamed over it. File systems without nameless files get PATH.tmp, locked while it is
 * written. All names are looked up in the folder that was opened first, so that nobody changes it meanwhile.
 */
#include "base/safe.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

int tcr_write_all(int fd, const void *data, size_t size)
{
    const char *at = data;

    while (size) {
        ssize_t n = write(fd, at, size > (size_t)1 << 30 ? (size_t)1 << 30 : size);

        if (n < 0 && errno == EINTR)
            continue;
        if (n == 0)
            errno = EIO;
        if (n <= 0)
            return -1;
        at += n;
        size -= (size_t)n;
    }
    return 0;
}

/* -- Where to ------------------------------------------------------------------------------------------ */

/* Splits the path, and opens its folder. */
static int open_folder(struct tcr_save *s)
{
    char folder[PATH_MAX];
    const char *slash = strrchr(s->path, '/'), *name = slash ? slash + 1 : s->path;

    if (!*name || !strcmp(name, ".") || !strcmp(name, "..")) {
        errno = *s->path ? EISDIR : ENOENT;
        return -1;
    }
    if (strlen(name) >= sizeof s->name) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(s->name, name, strlen(name) + 1);
    snprintf(folder, sizeof folder, "%.*s",
             slash == s->path ? 1
             : slash          ? (int)(slash - s->path)
                              : 1,
             slash ? s->path : ".");
    s->folder = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return s->folder < 0 ? -1 : 0;
}

/* What is there and can't be replaced. 1: it is open; 0: there is nothing in the way. */
static int open_special(struct tcr_save *s)
{
    struct stat st;

    if (fstatat(s->folder, s->name, &st, AT_SYMLINK_NOFOLLOW))
        return errno == ENOENT ? 0 : -1;
    if (S_ISREG(st.st_mode) || S_ISLNK(st.st_mode))
        return 0;
    if (!S_ISCHR(st.st_mode) && !S_ISFIFO(st.st_mode)) {
        errno = S_ISDIR(st.st_mode) ? EISDIR : EINVAL;
        return -1;
    }
    s->fd = openat(s->folder, s->name, O_WRONLY | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC);
    if (s->fd < 0 || (s->fd = tcr_let_wait(s->fd)) < 0)
        return -1;
    close(s->folder);
    s->folder = -1;
    return 1;
}

/* The locked file of a known name. Another writer may have renamed it between our open and our lock: then it is the
 * result, and not ours to empty. What somebody else put there (a link, a second name of another file) goes. */
static int open_named(struct tcr_save *s, mode_t mode)
{
    snprintf(s->temporary, sizeof s->temporary, "%.*s.tmp", (int)sizeof s->name - 5, s->name);
    for (int tries = 0; tries < 16; tries++) {
        struct stat ours, there;
        int fd = openat(s->folder, s->temporary, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, mode);

        if (fd < 0 && errno != ELOOP && errno != ENXIO)
            return -1;
        if (fd < 0 || fstat(fd, &ours) || !S_ISREG(ours.st_mode) || ours.st_nlink > 1 || ours.st_uid != geteuid()) {
            tcr_fail_closing(fd, EEXIST);
            if (unlinkat(s->folder, s->temporary, 0) && errno != ENOENT)
                return -1;
            continue;
        }
        if (flock(fd, LOCK_EX | LOCK_NB))
            return tcr_fail_closing(fd, errno == EWOULDBLOCK ? EBUSY : errno);
        if (!fstatat(s->folder, s->temporary, &there, AT_SYMLINK_NOFOLLOW) && ours.st_ino == there.st_ino &&
            ours.st_dev == there.st_dev) {
            s->fd = fd;
            return ftruncate(fd, 0) ? -1 : 0;
        }
        close(fd);
    }
    errno = EBUSY;
    return -1;
}

static int open_new(struct tcr_save *s, int flags)
{
    char own[64];

    s->fd = openat(s->folder, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, flags & TCR_SAVE_EXECUTABLE ? 0777 : 0666);
    snprintf(own, sizeof own, "/proc/self/fd/%d", s->fd);
    s->nameless = s->fd >= 0 && access(own, F_OK) == 0;
    if (s->nameless)
        return 0;
    if (s->fd >= 0)
        close(s->fd);
    else if (errno == ENOSPC || errno == EDQUOT || errno == EACCES || errno == EROFS || errno == EMFILE)
        return -1;
    s->fd = -1;
    return open_named(s, flags & TCR_SAVE_EXECUTABLE ? 0777 : 0666);
}

/* -- The stream: as of the C library, but it writes on after signals and short counts ----------------------- */

static ssize_t stream_write(void *fd, const char *data, size_t n)
{
    return tcr_write_all((int)(intptr_t)fd, data, n) ? 0 : (ssize_t)n;
}

static int stream_close(void *fd)
{
    return close((int)(intptr_t)fd);
}

static FILE *open_stream(int fd)
{
    return fopencookie((void *)(intptr_t)fd, "w",
                       (cookie_io_functions_t){.write = stream_write, .close = stream_close});
}

int tcr_save_open(struct tcr_save *s, const char *path, int flags)
{
    *s = (struct tcr_save){.fd = -1, .folder = -1, .sync = flags & TCR_SAVE_SYNC};
    int own = tcr_own_descriptor(path), special = 1;

    if (snprintf(s->path, sizeof s->path, "%s", path) >= (int)sizeof s->path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    if (own >= 0)
        s->fd = fcntl(own, F_DUPFD_CLOEXEC, 3);
    else if (open_folder(s) || (special = open_special(s)) < 0 || (!special && open_new(s, flags)))
        special = -1;
    if (special < 0 || s->fd < 0) {
        tcr_save_drop(s);
        return -1;
    }
    if ((flags & TCR_SAVE_STREAM) && !(s->stream = open_stream(s->fd))) {
        tcr_save_drop(s);
        errno = ENOMEM;
        return -1;
    }
    return 0;
}

/* -- The end --------------------------------------------------------------------------------------------- */

/* A name that nobody has, for the moment between linking and renaming. */
static int link_beside(struct tcr_save *s, const char *own)
{
    static _Thread_local unsigned count;

    for (int tries = 0; tries < 64; tries++) {
        snprintf(s->temporary, sizeof s->temporary, ".tccc-%lx-%lx-%x", (unsigned long)getpid(),
                 (unsigned long)(uintptr_t)&count & 0xffffff, count++);
        if (!linkat(AT_FDCWD, own, s->folder, s->temporary, AT_SYMLINK_FOLLOW))
            return 0;
        if (errno != EEXIST)
            break;
    }
    s->temporary[0] = '\0';
    return -1;
}

static int give_name(struct tcr_save *s)
{
    char own[64];

    snprintf(own, sizeof own, "/proc/self/fd/%d", s->fd);
    if (s->nameless) {
        if (!linkat(AT_FDCWD, own, s->folder, s->name, AT_SYMLINK_FOLLOW))
            return 0;
        if (errno != EEXIST || link_beside(s, own))
            return -1;
    }
    if (renameat(s->folder, s->temporary, s->folder, s->name))
        return -1;
    s->temporary[0] = '\0';
    return 0;
}

/* File systems that can't sync say so; that is no failure. */
static int sync_to_disk(int fd)
{
    while (fsync(fd))
        if (errno != EINTR)
            return errno == EINVAL || errno == EROFS ? 0 : -1;
    return 0;
}

int tcr_save_commit(struct tcr_save *s)
{
    bool bad = s->stream && (ferror(s->stream) | fflush(s->stream));

    if (bad && !errno)
        errno = EIO;
    if (bad || (s->folder >= 0 && s->sync && sync_to_disk(s->fd)) || (s->folder >= 0 && give_name(s)) ||
        (s->folder >= 0 && s->sync && sync_to_disk(s->folder))) {
        tcr_save_drop(s);
        return -1;
    }
    int folder = s->folder, fd = s->stream ? -1 : s->fd, lost = s->stream ? fclose(s->stream) : 0;

    *s = (struct tcr_save){.fd = -1, .folder = -1};
    if (fd >= 0)
        lost = close(fd) && errno != EINTR;
    if (folder >= 0)
        close(folder);
    return lost ? -1 : 0;
}

void tcr_save_drop(struct tcr_save *s)
{
    int why = errno;

    if (s->temporary[0] && s->fd >= 0)
        unlinkat(s->folder, s->temporary, 0);
    if (s->stream)
        fclose(s->stream);
    else if (s->fd >= 0)
        close(s->fd);
    if (s->folder >= 0)
        close(s->folder);
    *s = (struct tcr_save){.fd = -1, .folder = -1};
    errno = why;
}

static int copy_bytes(int from, int to)
{
    char buffer[65536];
    ssize_t n;

    while ((n = read(from, buffer, sizeof buffer)) != 0)
        if (n < 0 ? errno != EINTR : tcr_write_all(to, buffer, (size_t)n))
            return -1;
    return 0;
}

bool tcr_save_plain(const char *path)
{
    struct stat st;

    return tcr_own_descriptor(path) < 0 && (lstat(path, &st) || S_ISREG(st.st_mode) || S_ISLNK(st.st_mode));
}

int tcr_save_move(const char *from, const char *path)
{
    struct stat st;
    struct tcr_save s;
    bool plain = tcr_save_plain(path);

    if (plain && rename(from, path) == 0)
        return 0;
    if (plain && errno != EXDEV)
        return -1;
    int in = tcr_open_input(from, false);
    if (in < 0 || fstat(in, &st))
        return tcr_fail_closing(in, errno);
    if (tcr_save_open(&s, path, st.st_mode & 0111 ? TCR_SAVE_EXECUTABLE : 0))
        return tcr_fail_closing(in, errno);
    if (copy_bytes(in, s.fd)) {
        tcr_save_drop(&s);
        return tcr_fail_closing(in, errno);
    }
    close(in);
    return tcr_save_commit(&s) || unlink(from) ? -1 : 0;
}
