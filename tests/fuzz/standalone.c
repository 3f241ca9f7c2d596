/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a fuzz target without libFuzzer: on the files and folders given, as they are, truncated, and with bytes changed
 * in a fixed pseudo-random way. A child process does the work, so that a crash names the input.
 *
 *   fuzz-NAME [-passes=N] [-seconds=S] [-dict=FILE] FILE|FOLDER...
 *
 * N passes over the files (1 by default; with -seconds alone as many as fit), S seconds at most. A dictionary has a
 * word a line, "quoted" with \\xHH, as libFuzzer's have; words are put over and between the bytes.
 *
 * Exit status: 0 fine, 1 an input crashed the target (it is written to ./crash-NAME), 2 usage.
 */
#include <ctype.h>
#include <dirent.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { INPUT_BYTES = 1 << 20, MAX_FILES = 4096, MAX_WORDS = 256, ROUNDS = 40, HANG_SECONDS = 30 };

/* Shared with the child: what it is trying now. */
static struct {
    size_t size;
    uint8_t data[INPUT_BYTES];
} * current;
static char *files[MAX_FILES];
static int nfiles;
static struct word {
    uint8_t at[64];
    size_t n;
} words[MAX_WORDS];
static int nwords;

static uint64_t mix(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    return z ^ z >> 27;
}

static void add_path(const char *path)
{
    struct stat st;
    struct dirent **names;

    if (stat(path, &st) != 0 || nfiles == MAX_FILES)
        return;
    if (S_ISREG(st.st_mode)) {
        files[nfiles++] = strdup(path);
        return;
    }
    int n = scandir(path, &names, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        char inner[4096];
        snprintf(inner, sizeof inner, "%s/%s", path, names[i]->d_name);
        if (names[i]->d_name[0] != '.')
            add_path(inner);
        free(names[i]);
    }
    if (n >= 0)
        free(names);
}

static void read_words(const char *path)
{
    char line[400];
    FILE *f = fopen(path, "r");

    while (f && nwords < MAX_WORDS && fgets(line, sizeof line, f)) {
        struct word *w = &words[nwords];
        const char *s = strchr(line, '"');
        for (w->n = 0, s = s ? s + 1 : ""; *s && *s != '"' && w->n < sizeof w->at; w->n++) {
            char hex[3] = "";
            if (s[0] == '\\' && s[1] == 'x' && isxdigit((unsigned char)s[2]) && isxdigit((unsigned char)s[3])) {
                memcpy(hex, s + 2, 2);
                w->at[w->n] = (uint8_t)strtol(hex, NULL, 16);
                s += 4;
            } else {
                s += *s == '\\' && s[1];
                w->at[w->n] = (uint8_t)*s++;
            }
        }
        nwords += w->n > 0 && *line != '#';
    }
    if (f)
        fclose(f);
}

/* A word of the dictionary over what is at `at`, or in front of it. */
static void put_word(uint64_t *random, size_t at)
{
    const struct word *w = &words[mix(random) % (uint64_t)nwords];
    bool between = mix(random) % 2;

    if (current->size + w->n > INPUT_BYTES)
        return;
    if (between) {
        memmove(current->data + at + w->n, current->data + at, current->size - at);
        current->size += w->n;
    }
    memcpy(current->data + at, w->at, w->n);
    current->size = at + w->n > current->size ? at + w->n : current->size;
}

/* Changes a few bytes, or cuts, repeats or removes a piece. */
static void mutate(uint64_t *random)
{
    for (int n = 1 + (int)(mix(random) % 4); n > 0 && current->size > 0; n--) {
        size_t at = mix(random) % current->size, length = 1 + mix(random) % 16;
        if (length > current->size - at)
            length = current->size - at;
        if (nwords && mix(random) % 3 == 0) {
            put_word(random, at);
            continue;
        }
        switch (mix(random) % 6) {
        case 0: current->data[at] ^= (uint8_t)(1u << mix(random) % 8); break;
        case 1: current->data[at] = (uint8_t)mix(random); break;
        case 2: current->data[at] = (uint8_t)(mix(random) % 2 ? 0xff : 0x7f); break;
        case 3: current->size = at; break;
        case 4:
            memmove(current->data + at, current->data + at + length, current->size - at - length);
            current->size -= length;
            break;
        default:
            if (current->size + length <= INPUT_BYTES) {
                memmove(current->data + at + length, current->data + at, current->size - at);
                current->size += length;
            }
        }
    }
}

/* File i as it is, then changed. `skip` tries of it have been made. */
static void run_file(const char *path, uint64_t random)
{
    FILE *f = fopen(path, "rb");
    uint8_t *original = malloc(INPUT_BYTES);
    size_t size = f && original ? fread(original, 1, INPUT_BYTES, f) : 0;

    for (int round = 0; original && round < ROUNDS; round++) {
        memcpy(current->data, original, size);
        current->size = size;
        if (round > 0)
            mutate(&random);
        /* a copy of just that size, so that a sanitizer sees a read past its end */
        uint8_t *copy = malloc(current->size ? current->size : 1);
        if (copy) {
            memcpy(copy, current->data, current->size);
            alarm(HANG_SECONDS);
            LLVMFuzzerTestOneInput(copy, current->size);
            free(copy);
        }
    }
    free(original);
    if (f)
        fclose(f);
}

static int report(const char *name, int status)
{
    char path[64];

    snprintf(path, sizeof path, "crash-%s", name);
    FILE *f = fopen(path, "wb");
    if (f) {
        fwrite(current->data, 1, current->size, f);
        fclose(f);
    }
    fprintf(stderr, "%s: status 0x%x on the input in %s\n", name, (unsigned)status, path);
    return 1;
}

int main(int argc, char **argv)
{
    const char *name = strrchr(argv[0], '/') ? strrchr(argv[0], '/') + 1 : argv[0];
    time_t start = time(NULL);
    long seconds = 0, passes = 0;
    int status = 0, at = 0;

    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], "-seconds=", 9) == 0)
            seconds = atol(argv[i] + 9);
        else if (strncmp(argv[i], "-passes=", 8) == 0)
            passes = atol(argv[i] + 8);
        else if (strncmp(argv[i], "-dict=", 6) == 0)
            read_words(argv[i] + 6);
        else
            add_path(argv[i]);
    }
    if (nfiles == 0)
        return fprintf(stderr, "usage: %s [-passes=N] [-seconds=S] [-dict=FILE] FILE|FOLDER...\n", name), 2;
    current = mmap(NULL, sizeof *current, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (current == MAP_FAILED)
        return perror(name), 1;
    for (uint64_t pass = 0; status == 0 && (passes ? at < nfiles * passes : at < nfiles || seconds); at++) {
        if (at && at % nfiles == 0)
            pass++;
        pid_t child = fork();
        if (child == 0) {
            run_file(files[at % nfiles], (uint64_t)at * 1000003 + pass);
            _exit(0);
        }
        if (child < 0 || waitpid(child, &status, 0) != child)
            return perror(name), 1;
        if (seconds && time(NULL) - start >= seconds)
            break;
    }
    if (status != 0)
        return report(name, status);
    printf("%s: %d files, %d rounds, %d inputs, no crash\n", name, nfiles, at, at * ROUNDS);
    return 0;
}
