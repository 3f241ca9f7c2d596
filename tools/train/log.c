/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --log-file (or --log): the JSON lines of all runs that went on from one another, each step once. A run that ended
 * between two checkpoints has written steps that
 * --resume makes again: from the first line of a later step on, the file is cut off, and so is a line that was never
 * finished.
 *
 * It has two names since torchrun, which reads its own options in front of a program's, finds --log ambiguous.
 */
#include "tools/train/train_int.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *log_path(const struct trainer *t)
{
    return option_text(t->o, OPT_log, option_text(t->o, OPT_log_file, NULL));
}

static int cannot(const struct trainer *t)
{
    return tool_error(t->o, EXIT_ENVIRONMENT, "--log: cannot write '%s': %s", log_path(t), strerror(errno));
}

int train_log_open(struct trainer *t)
{
    if (option_set(t->o, OPT_log) && option_set(t->o, OPT_log_file))
        return usage_error(t->o, "--log and --log-file are the same: one of them");
    if (!log_path(t) || !t->chief)
        return EXIT_FINE;
    t->log = fopen(log_path(t), option_set(t->o, OPT_resume) ? "a+" : "w");
    return t->log ? EXIT_FINE : cannot(t);
}

/* The step that a line is about; -1: of none. */
static int64_t step_of(const char *line)
{
    static const char *const keys[] = {"{\"step\":", "{\"eval_step\":"};

    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (!strncmp(line, keys[i], strlen(keys[i])))
            return strtoll(line + strlen(keys[i]), NULL, 10);
    return -1;
}

static int cut(struct trainer *t)
{
    char *line = NULL;
    size_t room = 0;
    ssize_t n;
    off_t keep = 0;

    rewind(t->log);
    while ((n = getline(&line, &room, t->log)) > 0 && line[n - 1] == '\n' && step_of(line) <= t->done) {
        keep += n;
        t->logged = step_of(line) > t->logged ? step_of(line) : t->logged;
    }
    free(line);
    return fflush(t->log) == 0 && ftruncate(fileno(t->log), keep) == 0 && fseeko(t->log, 0, SEEK_END) == 0 ? EXIT_FINE
                                                                                                           : cannot(t);
}

int train_log_resume(struct trainer *t)
{
    return t->log && option_set(t->o, OPT_resume) ? cut(t) : EXIT_FINE;
}

int train_log_take(struct trainer *t)
{
    if (!log_path(t))
        return EXIT_FINE;
    if (t->log) /* it was rank 0 before */
        fclose(t->log);
    t->logged = 0;
    t->log = fopen(log_path(t), "a+");
    return t->log ? cut(t) : cannot(t);
}

int train_log_close(struct trainer *t)
{
    bool bad = t->log && (ferror(t->log) | fclose(t->log)) != 0;

    t->log = NULL;
    return bad ? cannot(t) : EXIT_FINE;
}
