/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What fuzzers of random programs share: each program is checked in a process of its own (60 s); one that fails is
 * reduced (fewer steps of the same seed, then without every step that it fails without) and, with --keep, its text is
 * written to FOLDER/SEED.tcir.
 */
#include "tests/fuzz/programs.h"
#include "base/safe.h"
#include "compiler/tccc.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { TIME_LIMIT = 60 };

int complain(const struct job *j, const char *what, const char *why)
{
    if (!j->quiet)
        printf("seed %" PRIu64 ", %d nodes: %s: %s\n", j->seed, j->nodes - __builtin_popcountll(j->skip), what, why);
    return 1;
}

void keep_message(void *user, int severity, const char *text)
{
    if (severity >= 2 && !*(char *)user)
        snprintf(user, 300, "%s", text);
}

bool refuses(int status)
{
    return status == TCC_EINPUT || status == TCC_EINDEX;
}

void count_run(const struct job *j, bool values)
{
    __atomic_fetch_add(values ? &j->counts->values : &j->counts->refusals, 1, __ATOMIC_RELAXED);
}

/* check() in a child. 0: fine. */
static int check_in_child(const struct job *j, check_fn *check)
{
    int status;

    if (j->form != RANDOM_FIXED && j->seed % 2)
        setenv("TCCRT_GUARD", "1", 1);
    else
        unsetenv("TCCRT_GUARD");
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        alarm(TIME_LIMIT);
        status = check(j);
        fflush(stdout);
        _exit(status);
    }
    if (child < 0 || waitpid(child, &status, 0) != child)
        return complain(j, "fuzzer", "cannot start a process");
    if (WIFSIGNALED(status))
        return complain(j, WTERMSIG(status) == SIGALRM ? "takes too long" : "crashed", strsignal(WTERMSIG(status)));
    return WEXITSTATUS(status);
}

/* The shortest beginning of a failing program that fails too, less each step that it does not need for that: said, and
 * its text kept. */
static void shrink(struct job j, check_fn *check, const char *keep)
{
    int nodes = j.nodes;
    char command[700];

    j.quiet = true;
    for (j.nodes = 1; j.nodes < nodes && check_in_child(&j, check) == 0;)
        j.nodes++;
    for (int i = j.nodes - 2 < 63 ? j.nodes - 2 : 63; i >= 0; i--) {
        struct job less = j;
        less.skip |= UINT64_C(1) << i;
        if (check_in_child(&less, check) != 0)
            j = less;
    }
    j.quiet = false;
    printf("shrunk: ");
    check_in_child(&j, check);
    if (keep) {
        snprintf(command, sizeof command, "mkdir -p '%s' && cp '%s/fuzz.tcir' '%s/%" PRIu64 ".tcir'", keep, j.folder,
                 keep, j.seed);
        if (system(command) == 0)
            printf("program: %s/%" PRIu64 ".tcir\n", keep, j.seed);
    }
}

int programs_main(int argc, char **argv, const char *name, enum random_form form, check_fn *check)
{
    char folder[200], command[220];
    struct job j = {.seed = 1, .nodes = 14, .form = form, .folder = folder};
    long seconds = 0, count = 0;
    const char *keep = NULL;
    int bad = 0, done = 0;
    time_t start = time(NULL);

    for (int i = 1; i < argc; i += 2) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (value && strcmp(argv[i], "--seconds") == 0)
            seconds = atol(value);
        else if (value && strcmp(argv[i], "--count") == 0)
            count = atol(value);
        else if (value && strcmp(argv[i], "--seed") == 0)
            j.seed = strtoull(value, NULL, 10);
        else if (value && strcmp(argv[i], "--nodes") == 0)
            j.nodes = atoi(value);
        else if (value && strcmp(argv[i], "--keep") == 0)
            keep = value;
        else if (value && strcmp(argv[i], "--levels") == 0)
            j.turn = strcmp(value, "turn") == 0;
        else if (strcmp(argv[i], "--open") == 0) {
            j.form = RANDOM_OPEN;
            i--;
        } else
            return fprintf(stderr,
                           "usage: %s [--seconds S] [--count N] [--seed FIRST] [--nodes N] [--keep FOLDER] "
                           "[--levels both|turn] [--open]\n",
                           name),
                   2;
    }
    j.counts = mmap(NULL, sizeof *j.counts, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (j.counts == MAP_FAILED)
        return perror(name), 1;
    if (!seconds && !count)
        count = 20;
    tccc_prepare();
    snprintf(folder, sizeof folder, "%s/tccc-fuzz.XXXXXX", tcr_temporary());
    if (!mkdtemp(folder))
        return perror(folder), 1;
    for (; (!count || done < count) && (!seconds || time(NULL) - start < seconds) && bad < 10; j.seed++, done++) {
        if (check_in_child(&j, check) != 0) {
            bad++;
            shrink(j, check, keep);
        }
    }
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    if (system(command) != 0)
        bad++;
    printf("%d programs, %d failed; %ld runs gave values, %ld were refused\n", done, bad, j.counts->values,
           j.counts->refusals);
    return bad != 0;
}
