/* SPDX-License-Identifier: Apache-2.0 */
/*
 * safe.h - what every folder needs against hostile files and folders: writing a file at once and never through a link,
 * a private folder that is gone whatever happens, text from files shown without control characters. Libc only; private
 * to the project: not installed, and hidden in what links the static library.
 */
#ifndef TCCRT_SAFE_H
#define TCCRT_SAFE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/types.h>

/* -- Writing a file ------------------------------------------------------------------------------------
 * tcr_save_open(), write to `stream` or `fd` (not both), tcr_save_commit(); tcr_save_drop() instead gives up. Under
 * PATH there is the old file or the whole new one at every moment, and a process that is killed leaves nothing behind.
 * (On file systems that know no nameless files it leaves PATH.tmp at most, which the next writer takes over; a second
 * writer at the same time gets EBUSY.)
 *
 * A link at PATH is replaced, not followed. What can't be replaced is written to as it is: a character device or a FIFO
 * that somebody reads (ENXIO: nobody does), and the process's own descriptors: /dev/stdout, /dev/stderr, /dev/fd/N,
 * /proc/self/fd/N. Folders (EISDIR), block devices and sockets (EINVAL) are refused. */
struct tcr_save {
    FILE *stream;            /* NULL without TCR_SAVE_STREAM */
    int fd, folder;          /* folder: that PATH lies in; -1 where the file is written directly */
    bool nameless, sync;
    char path[PATH_MAX], name[NAME_MAX + 1], temporary[NAME_MAX + 8];
};
/* SYNC: on the disk before the name changes, and the name then too */
enum { TCR_SAVE_STREAM = 1, TCR_SAVE_SYNC = 2, TCR_SAVE_EXECUTABLE = 4 };
/* All return 0, or -1 with errno; then nothing is left to free and PATH is as it was. */
int tcr_save_open(struct tcr_save *s, const char *path, int flags);
int tcr_save_commit(struct tcr_save *s);
void tcr_save_drop(struct tcr_save *s);                                      /* errno is kept */
/* Is there nothing at PATH, or what can be replaced? */
bool tcr_save_plain(const char *path);
/* Puts a finished file under PATH by the same rules: renamed where that is possible, else copied and removed. */
int tcr_save_move(const char *from, const char *path);
/* Writes all bytes, whatever signals and short counts come between. */
int tcr_write_all(int fd, const void *data, size_t size);
int tcr_fail_closing(int fd, int why);                   /* closes it if it is one; -1 with that errno */
/* Opens for reading without waiting for a FIFO's writer: regular files only (else EISDIR, EINVAL), and the process's
 * own descriptors. `links`: may the last name be a link? */
int tcr_open_input(const char *path, bool links);
/* A path that an input file names: the real path of `name` in `folder` ("": the working one). Files below the folder
 * alone, links followed; else NULL and errno: EPERM (absolute, or with ".."), EXDEV (a link leads out), or why there is
 * none. malloc'd. */
char *tcr_path_below(const char *folder, const char *name);
bool tcr_is_below(const char *real, const char *folder);                     /* is that real path below the folder? */
/* the number behind /dev/fd/ and the like; -1: another path */
int tcr_own_descriptor(const char *path);
/* takes O_NONBLOCK back: fd; -1 with errno, and it is closed */
int tcr_let_wait(int fd);
/* the same as a stream; links are followed */
FILE *tcr_stream_input(const char *path);

/* -- A private folder -------------------------------------------------------------------------------------
 * Mode 0700, in the folder `where`; NULL: in tcr_temporary(). It is removed, with all that lies in it, by
 * tcr_scratch_remove() or when the process and its children have ended, however they did: a small watching process sees
 * to that. */
struct tcr_scratch { char path[PATH_MAX]; pid_t watcher; int alive; };
/* where temporary files go: $TMPDIR, else /tmp */
const char *tcr_temporary(void);
int tcr_scratch_make(struct tcr_scratch *s, const char *where, const char *prefix);
/* errno is kept; a folder that was not made is fine */
void tcr_scratch_remove(struct tcr_scratch *s);
/* In a child: it is killed when its parent ends. `parent`: the parent's pid, taken before the fork. */
void tcr_die_with_parent(pid_t parent);

/* -- Showing text --------------------------------------------------------------------------------------------
 * Copies text for a terminal or a log: control characters (C0, DEL, C1), line and direction marks of Unicode and bytes
 * that are no UTF-8 become \n, \t, \xNN or \u{NNNN}; all else stays. Cut at `size`. `lines`: line ends stay. Returns
 * what it needs, as snprintf. */
size_t tcr_show(char *to, size_t size, const char *text, bool lines);
/* Undoes \xHH, in place; false: a backslash without its digits, or a byte of 0. */
bool tcr_unescape(char *text);
int tcr_plain(const char *text);                     /* bytes of the first character, if it is shown as it is; else 0 */
/* as a JSON string, quotes included; bytes that are no UTF-8 become U+FFFD */
void tcr_print_json(FILE *out, const char *text);

#endif
