/* SPDX-License-Identifier: Apache-2.0 */
/* Files that are written at once and never through a link, folders that are gone whatever happens, text without control
 * characters. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/safe.h"
#include "tests/unit/suite.h"

static char work[64];

static void enter(void)
{
    strcpy(work, "/tmp/tccc-safe-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(work));
    ck_assert_int_eq(chdir(work), 0);
}

static void leave(void)
{
    char command[100];

    ck_assert_int_eq(chdir("/"), 0);
    snprintf(command, sizeof command, "rm -r %s", work);
    ck_assert_int_eq(system(command), 0);
}

static void put(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");

    ck_assert_ptr_nonnull(f);
    fputs(text, f);
    fclose(f);
}

static void holds(const char *path, const char *text)
{
    char found[100] = "";
    FILE *f = fopen(path, "r");

    ck_assert_ptr_nonnull(f);
    ck_assert(fgets(found, sizeof found, f) || !*text);
    fclose(f);
    ck_assert_str_eq(found, text);
}

/* How many names the folder has. */
static int names(const char *folder)
{
    char command[200];
    int n = -1;

    snprintf(command, sizeof command, "ls -A %s 2>/dev/null | wc -l", folder);
    FILE *f = popen(command, "r");
    ck_assert_int_eq(fscanf(f, "%d", &n), 1);
    pclose(f);
    return n;
}

static int save(const char *path, const char *text, int flags)
{
    struct tcr_save s;

    if (tcr_save_open(&s, path, flags))
        return -1;
    if (flags & TCR_SAVE_STREAM)
        fputs(text, s.stream);
    else
        ck_assert_int_eq(tcr_write_all(s.fd, text, strlen(text)), 0);
    return tcr_save_commit(&s);
}

START_TEST(replaces)
{
    struct tcr_save s;
    struct stat st;

    umask(022);
    ck_assert_int_eq(save("a", "first", TCR_SAVE_STREAM), 0);
    ck_assert_int_eq(save("a", "second", TCR_SAVE_SYNC), 0);
    holds("a", "second");
    ck_assert(stat("a", &st) == 0 && (st.st_mode & 0777) == 0644);
    ck_assert_int_eq(save("b", "x", TCR_SAVE_EXECUTABLE), 0);
    ck_assert(stat("b", &st) == 0 && (st.st_mode & 0777) == 0755);
    ck_assert_int_eq(tcr_save_open(&s, "a", TCR_SAVE_STREAM), 0);
    fputs("third", s.stream);
    tcr_save_drop(&s);
    holds("a", "second");
    ck_assert_int_eq(names("."), 2);
    ck_assert(save("none/a", "x", 0) == -1 && errno == ENOENT);
    ck_assert_int_eq(mkdir("folder", 0777), 0);
    ck_assert(save("folder", "x", 0) == -1 && errno == EISDIR);
    ck_assert(save("folder/", "x", 0) == -1 && errno == EISDIR);
}
END_TEST

START_TEST(follows_no_link)
{
    char target[100];

    put("precious", "precious");
    ck_assert_int_eq(symlink("precious", "out"), 0);
    ck_assert_int_eq(symlink("precious", "out.tmp"), 0);
    ck_assert_int_eq(save("out", "new", TCR_SAVE_SYNC), 0);
    holds("out", "new");
    holds("precious", "precious");
    ck_assert_int_eq(symlink("precious", "moved"), 0);
    ck_assert_int_eq(tcr_save_move("out", "moved"), 0);
    holds("moved", "new");
    holds("precious", "precious");
    ck_assert_int_eq(readlink("moved", target, sizeof target), -1);
}
END_TEST

START_TEST(devices_and_fifos)
{
    struct stat st;
    char path[64], byte[8];
    int ends[2], reader;

    ck_assert_int_eq(save("/dev/null", "x", TCR_SAVE_STREAM), 0);
    put("a", "x");
    ck_assert_int_eq(tcr_save_move("a", "/dev/null"), 0);
    ck_assert(stat("/dev/null", &st) == 0 && S_ISCHR(st.st_mode));
    ck_assert_int_eq(names("."), 0);
    ck_assert_int_eq(mkfifo("fifo", 0666), 0);
    ck_assert(save("fifo", "x", 0) == -1 && errno == ENXIO); /* and does not wait */
    ck_assert(tcr_open_input("fifo", true) == -1 && errno == EINVAL);
    ck_assert(tcr_open_input(".", true) == -1 && errno == EISDIR);
    reader = open("fifo", O_RDONLY | O_NONBLOCK);
    ck_assert_int_eq(save("fifo", "hello", TCR_SAVE_STREAM), 0);
    ck_assert(read(reader, byte, 8) == 5 && !memcmp(byte, "hello", 5));
    ck_assert_int_eq(pipe(ends), 0);
    snprintf(path, sizeof path, "/dev/fd/%d", ends[1]);
    ck_assert_int_eq(save(path, "there", TCR_SAVE_STREAM), 0);
    ck_assert(read(ends[0], byte, 8) == 5 && !memcmp(byte, "there", 5));
    ck_assert(save("/dev/fd/900", "x", 0) == -1 && errno == EBADF);
    ck_assert_int_eq(names("."), 1);
}
END_TEST

START_TEST(killed_writer)
{
    struct tcr_save s;
    int status;
    pid_t child = fork();

    if (!child) {
        if (!tcr_save_open(&s, "a", 0) && !tcr_write_all(s.fd, "half", 4))
            raise(SIGKILL);
        _exit(1);
    }
    ck_assert(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
    ck_assert_int_eq(names("."), 0);
}
END_TEST

/* The maker, or a child of it, is killed in the midst of its work. */
START_TEST(scratch)
{
    const struct timespec pause = {.tv_nsec = 20000000};
    struct tcr_scratch s;
    int status, tries = 0;
    pid_t child;

    ck_assert_int_eq(tcr_scratch_make(&s, ".", ".x-"), 0);
    ck_assert_int_eq(names("."), 1);
    put(".x-link", "stays");
    ck_assert_int_eq(rename(".x-link", "stays"), 0);
    char path[PATH_MAX + 16];
    snprintf(path, sizeof path, "%s/l", s.path);
    ck_assert_int_eq(symlink("../stays", path), 0);
    tcr_scratch_remove(&s);
    tcr_scratch_remove(&s);
    ck_assert_int_eq(names("."), 1);
    holds("stays", "stays");
    ck_assert_int_eq(tcr_scratch_make(&s, "none", "x"), -1);
    setenv("TMPDIR", "", 1);
    ck_assert_str_eq(tcr_temporary(), "/tmp");
    setenv("TMPDIR", ".", 1);
    ck_assert_int_eq(tcr_scratch_make(&s, NULL, "x-"), 0);
    ck_assert_int_eq(names("."), 2);
    tcr_scratch_remove(&s);
    child = fork();
    if (!child) {
        pid_t self = getpid();
        if (tcr_scratch_make(&s, ".", "x-") || mkdir(strcat(s.path, "/deep"), 0700) || chdir(s.path))
            _exit(1);
        put("file", "x");
        if (!fork()) {
            tcr_die_with_parent(self);
            for (;;)
                put("file", "again");
        }
        nanosleep(&pause, NULL);
        raise(SIGKILL);
    }
    ck_assert(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
    while (names(".") > 1 && tries++ < 250)
        nanosleep(&pause, NULL);
    ck_assert_int_eq(names("."), 1);
}
END_TEST

START_TEST(shown)
{
    static const struct {
        const char *text, *shown;
    } cases[] = {
        {"plain / text: 'x' \\", "plain / text: 'x' \\"},
        {"a\nerror: b\r\t", "a\\nerror: b\\r\\t"},
        {"\x1b]0;PWNED\a\x7f", "\\x1b]0;PWNED\\x07\\x7f"},
        {"gr\xc3\xbc\xc3\x9f \xe6\x97\xa5 \xf0\x9f\x98\x80", "gr\xc3\xbc\xc3\x9f \xe6\x97\xa5 \xf0\x9f\x98\x80"},
        {"\xc2\x9b"
         "2J",
         "\\u{9b}2J"},                                         /* C1: CSI */
        {"\x9b\xff\xc3", "\\x9b\\xff\\xc3"},                   /* no UTF-8 */
        {"\xc0\x9b\xe0\x82\x9b", "\\xc0\\x9b\\xe0\\x82\\x9b"}, /* longer than needed */
        {"\xed\xa0\x80", "\\xed\\xa0\\x80"},                   /* a surrogate */
        {"\xe2\x80\xae"
         "fdp\xe2\x80\xa8x",
         "\\u{202e}fdp\\u{2028}x"},
        {"", ""}};
    char text[64];

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ck_assert_uint_eq(tcr_show(text, sizeof text, cases[i].text, false), strlen(cases[i].shown));
        ck_assert_str_eq(text, cases[i].shown);
    }
    ck_assert_uint_eq(tcr_show(text, 6,
                               "ab\x1b"
                               "c",
                               false),
                      7); /* never half an escape */
    ck_assert_str_eq(text, "ab");
    tcr_show(text, sizeof text, "a\n\x1b", true);
    ck_assert_str_eq(text, "a\n\\x1b");
    ck_assert_uint_eq(tcr_show(NULL, 0, "a\n", false), 3);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("safe");
    TCase *tc = tcase_create("safe");

    tcase_add_checked_fixture(tc, enter, leave);
    tcase_add_test(tc, replaces);
    tcase_add_test(tc, follows_no_link);
    tcase_add_test(tc, devices_and_fifos);
    tcase_add_test(tc, killed_writer);
    tcase_add_test(tc, scratch);
    tcase_add_test(tc, shown);
    suite_add_tcase(suite, tc);
    return run_tests(suite);
}
