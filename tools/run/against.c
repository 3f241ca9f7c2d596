/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tccc-run --against: two ways to run the same thing, step by step, and the first step whose result differs: two
 * devices or machines of an artifact, two artifacts, or a model compiled for two targets.
 *
 * The first way (--device) runs in a process of its own, which may have another simulated machine, and writes what each
 * step makes to a file without a name. Then the second runs, and each of its values is looked up there by its name and
 * node. Where the plans are the same so are the names, and values that a loop makes again are told apart by how often
 * they were made; else only what both make once is compared: other targets fuse and lay out otherwise.
 */
#include "tools/run/run_int.h"

#include "compiler/tccc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* -- What the first has made --------------------------------------------------------------------------------------- */

/* In the file: this, node and value with their zeros, and the data; each at a multiple of 64 bytes. */
struct head {
    uint64_t whole, bytes; /* of all that belongs to it; of the data */
    uint64_t digest;       /* of what ran */
    uint32_t text[3];      /* lengths of node, value and kernel, zeros included */
    int32_t dtype, rank, dense;
    int64_t dims[TCC_MAX_RANK];
};

struct made {
    const struct head *head;
    const char *node, *value, *what, *data;
    uint32_t next; /* 1 + the number of the next one of that name; 0: there is none */
    /* Of equal names, for the first alone: how many there are, the last, and the next that the second makes. */
    uint32_t times, last, turn;
};

struct first {
    char *map;
    size_t size;
    struct made *list; /* in order */
    size_t n;
    uint32_t *table; /* of 1 + numbers in the list of the first of each name; its size a power of two */
    size_t mask;
};

struct pair {
    const struct options *o;
    struct tolerance tolerance;
    FILE *out;       /* the first: where to */
    uint64_t digest; /* of the artifact that runs */
    bool failed;     /* to write */
    struct first a;
    int64_t compared, alone, steps;
    char *why; /* ERROR_SIZE: the difference; empty: none */
};

static size_t rounded(size_t n)
{
    return (n + 63) & ~(size_t)63;
}

static bool pad(FILE *f, size_t n)
{
    static const char zeros[64];
    return fwrite(zeros, 1, rounded(n) - n, f) == rounded(n) - n;
}

static int record(void *user, const struct tccrt_made *m)
{
    struct pair *p = user;
    struct head h = {
        .bytes = m->bytes,
        .digest = p->digest,
        .dtype = m->tensor.dtype,
        .rank = m->tensor.rank,
        .dense = m->dense,
        .text = {(uint32_t)strlen(m->node) + 1, (uint32_t)strlen(m->value) + 1, (uint32_t)strlen(m->what) + 1}};
    memcpy(h.dims, m->tensor.dims, sizeof h.dims);
    size_t text = (size_t)h.text[0] + h.text[1] + h.text[2];
    h.whole = rounded(sizeof h) + rounded(text) + rounded(m->bytes);
    p->failed = fwrite(&h, sizeof h, 1, p->out) != 1 || !pad(p->out, sizeof h) ||
                fwrite(m->node, 1, h.text[0], p->out) != h.text[0] ||
                fwrite(m->value, 1, h.text[1], p->out) != h.text[1] ||
                fwrite(m->what, 1, h.text[2], p->out) != h.text[2] || !pad(p->out, text) ||
                fwrite(m->tensor.data, 1, m->bytes, p->out) != m->bytes || !pad(p->out, m->bytes);
    return p->failed;
}

static uint64_t hash(const char *node, const char *value)
{
    uint64_t h = 0xcbf29ce484222325;
    for (const char *list[] = {node, value, NULL}, **at = list; *at; at++)
        for (const char *c = *at;; c++) {
            h = (h ^ (unsigned char)*c) * 0x100000001b3;
            if (!*c)
                break;
        }
    return h ^ h >> 32;
}

/* The place in the table of that name: what stands there is of it, or 0. */
static uint32_t *place(const struct first *a, const char *node, const char *value)
{
    size_t i = hash(node, value) & a->mask;
    while (a->table[i] &&
           (strcmp(a->list[a->table[i] - 1].node, node) || strcmp(a->list[a->table[i] - 1].value, value)))
        i = (i + 1) & a->mask;
    return &a->table[i];
}

static bool list_all(struct first *a)
{
    size_t n = 0;
    for (size_t at = 0; at < a->size; at += ((const struct head *)(a->map + at))->whole)
        n++;
    for (a->mask = 64; a->mask < 2 * n; a->mask *= 2)
        ;
    a->list = calloc(n + 1, sizeof *a->list);
    a->table = calloc(a->mask--, sizeof *a->table);
    if (!a->list || !a->table)
        return false;
    for (size_t at = 0; at < a->size; at += ((const struct head *)(a->map + at))->whole) {
        const struct head *h = (const struct head *)(a->map + at);
        const char *text = a->map + at + rounded(sizeof *h);
        size_t all = (size_t)h->text[0] + h->text[1] + h->text[2];
        a->list[a->n] = (struct made){.head = h,
                                      .node = text,
                                      .value = text + h->text[0],
                                      .what = text + h->text[0] + h->text[1],
                                      .data = text + rounded(all)};
        uint32_t *to = place(a, a->list[a->n].node, a->list[a->n].value);
        a->n++;
        if (!*to) {
            *to = (uint32_t)a->n;
            a->list[*to - 1].turn = *to;
        } else {
            a->list[a->list[*to - 1].last - 1].next = (uint32_t)a->n;
        }
        a->list[*to - 1].last = (uint32_t)a->n;
        a->list[*to - 1].times++;
    }
    return true;
}

/* -- One of the two ------------------------------------------------------------------------------------------------ */

static int run_observed(const struct options *o, const char *path, tccrt_observer observer, struct pair *p)
{
    struct model m;
    char error[ERROR_SIZE];
    int64_t threads = 0;
    int code = option_int(o, OPT_threads, 1, 4096, &threads) ? model_open(o, path, &m, NULL) : EXIT_USAGE;
    if (code != EXIT_FINE)
        return code;
    struct tcc_object **in = calloc((size_t)m.nin + 1, sizeof *in), **out = calloc((size_t)m.nout + 1, sizeof *out);
    code = in && out ? model_session(o, &m, (int)threads, NULL) : tool_error(o, EXIT_ENVIRONMENT, "no memory");
    if (code == EXIT_FINE && tccrt_observe(m.session, observer, p) != TCC_OK)
        code = tool_error(o, EXIT_BUG, "%s", tccrt_error());
    if (code == EXIT_FINE)
        code = inputs_read(o, &m, false, 0, in);
    if (code == EXIT_FINE) {
        p->digest = tccrt_digest(m.artifact);
        int status = inputs_run(o, &m, 0, in, out, error);
        if (status != TCC_OK && p->failed)
            code = tool_error(o, EXIT_ENVIRONMENT, "cannot write what the steps make: %m");
        else if (status != TCC_OK && !*p->why)
            code = tool_error(o, model_exit_code(status), "%s: %s", path, error);
    }
    objects_drop(in, m.nin);
    objects_drop(out, m.nout);
    model_close(&m);
    return code;
}

void against_plain_code(struct options *o, const char *path)
{
    static const char *levels[1] = {"0"};
    if (strncmp(option_text(o, OPT_target, "cpu"), "cpu", 3) || option_set(o, OPT_level) || model_is_artifact(path))
        return;
    o->given[OPT_level].n = 1;
    o->given[OPT_level].at = levels;
}

/* In a process of its own; its messages and exit code are this one's. */
static int run_first(const char *path, struct pair *p)
{
    int status;
    fflush(NULL);
    pid_t child = fork();
    if (child < 0)
        return tool_error(p->o, EXIT_ENVIRONMENT, "cannot start a process: %s", strerror(errno));
    if (!child) {
        struct options first = *p->o;
        against_plain_code(&first, path);
        int code = run_observed(&first, path, record, p);
        if (code == EXIT_FINE && fflush(p->out) != 0)
            code = tool_error(p->o, EXIT_ENVIRONMENT, "cannot write what the steps make: %m");
        fflush(NULL);
        _exit(code);
    }
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    if (!WIFEXITED(status))
        return tool_error(p->o, EXIT_BUG, "%s: ended by signal %d", path, WTERMSIG(status));
    return WEXITSTATUS(status);
}

/* -- Comparison ---------------------------------------------------------------------------------------------------- */

/* Values of the two: of a layout of the target's own only where the plans are one. */
static bool comparable(const struct pair *p, const struct made *a, const struct tccrt_made *b)
{
    const struct head *h = a->head;
    bool same = h->dtype == b->tensor.dtype && h->rank == b->tensor.rank && h->bytes == b->bytes &&
                !memcmp(h->dims, b->tensor.dims, (size_t)h->rank * sizeof *h->dims);
    return same && ((h->dense && b->dense) || h->digest == p->digest) && b->tensor.dtype != TCC_STRING;
}

static int compare(void *user, const struct tccrt_made *b)
{
    struct pair *p = user;
    uint32_t first = *place(&p->a, b->node, b->value);
    struct made *name = first ? &p->a.list[first - 1] : NULL;
    const struct made *a = name && name->turn ? &p->a.list[name->turn - 1] : NULL;
    bool one_plan = a && a->head->digest == p->digest;
    p->steps++;
    if (a)
        name->turn = a->next;
    if (!a || !comparable(p, a, b) || (!one_plan && name->times > 1)) {
        p->alone++;
        return 0;
    }
    struct tcc_tensor x = b->tensor, y = b->tensor;
    char why[ERROR_SIZE];
    if (!b->dense) { /* in the layout of the plan, padding and all */
        x.rank = 1;
        x.dims[0] = (int64_t)b->bytes / tcc_dtype_bytes((enum tcc_dtype)x.dtype);
        y = x;
    }
    x.data = (void *)(uintptr_t)a->data;
    p->compared++;
    if (tensor_equal(&y, &x, &p->tolerance, NULL, why))
        return 0;
    snprintf(p->why, ERROR_SIZE, "step %u, %.120s (node '%.120s'), value '%.120s': %.480s", b->step, b->what,
             ir_shown(b->node), ir_shown(b->value), why);
    return 1;
}

/* -- The two ------------------------------------------------------------------------------------------------------- */

/* The second way's options: --against is a file, or DEVICE[@MACHINE] for the first one's. What a model is compiled for
 * follows the device. */
static const char *second_way(const struct options *o, struct options *second, const char *path)
{
    static char device[64];
    static const char *devices[1] = {device}, *targets[1];
    const char *text = option_text(o, OPT_against, ""), *machine = strchr(text, '@');
    *second = *o;
    if (access(text, R_OK) == 0)
        return text;
    snprintf(device, sizeof device, "%.*s", (int)(machine ? machine - text : (long)strlen(text)), text);
    second->given[OPT_device].n = 1;
    second->given[OPT_device].at = devices;
    if (machine)
        setenv("TCCC_SIM_MACHINE", machine + 1, 1);
    bool host = !strcmp(device, "cpu") || !strcmp(device, "cpu-split");
    if (host && !model_is_artifact(path)) {
        targets[0] = device;
        second->given[OPT_target].n = 1;
        second->given[OPT_target].at = targets;
        against_plain_code(second, path);
        second->given[OPT_schedules].n = 0;
    }
    return path;
}

static int compare_all(struct pair *p, const char *path)
{
    struct options second;
    char why[ERROR_SIZE] = "";
    p->a.size = (size_t)ftello(p->out);
    p->a.map = p->a.size ? mmap(NULL, p->a.size, PROT_READ, MAP_PRIVATE, fileno(p->out), 0) : NULL;
    if (p->a.map == MAP_FAILED || !list_all(&p->a))
        return tool_error(p->o, EXIT_ENVIRONMENT, "no memory");
    const char *other = second_way(p->o, &second, path);
    p->why = why;
    int code = run_observed(&second, other, compare, p);
    if (code != EXIT_FINE)
        return code;
    if (*why)
        return tool_error(p->o, EXIT_DATA, "the first difference: %s", why);
    if (!p->compared)
        return tool_error(p->o, EXIT_DATA, "nothing was compared: the two make no value of one name, type and shape");
    printf("%lld values agree", (long long)p->compared);
    printf(p->alone ? "; %lld of the second have no counterpart\n" : "\n", (long long)p->alone);
    return EXIT_FINE;
}

int against_run(const struct options *o, const char *path)
{
    char none[1] = "";
    struct pair p = {.o = o, .why = none};
    if (option_set(o, OPT_interpret) || option_set(o, OPT_check) || option_set(o, OPT_test_data) ||
        option_set(o, OPT_data))
        return usage_error(o, "--against excludes --interpret, --check, --test-data and --data");
    if (!*option_text(o, OPT_against, ""))
        return usage_error(o, "--against: expected a device or a file");
    int code = tolerance_read(o, &p.tolerance);
    if (code != EXIT_FINE)
        return code;
    if (!(p.out = tmpfile()))
        return tool_error(o, EXIT_ENVIRONMENT, "no temporary file: %s", strerror(errno));
    code = run_first(path, &p);
    if (code == EXIT_FINE)
        code = fseeko(p.out, 0, SEEK_END) == 0 ? compare_all(&p, path) : tool_error(o, EXIT_ENVIRONMENT, "%m");
    if (p.a.map && p.a.map != MAP_FAILED)
        munmap(p.a.map, p.a.size);
    free(p.a.list);
    free(p.a.table);
    fclose(p.out);
    return code;
}
