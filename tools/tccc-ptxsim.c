/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tccc-ptxsim: runs kernels of a PTX file in the simulator. Without --launch it lists the file's kernels and their
 * parameters. Arguments are numbers or buffers, which may come from files and be written to files after the launch.
 * Failed checks go to standard error.
 */
#include "ir/ir.h"
#include "sim/ptx/ptxsim.h"
#include "base/safe.h"
#include "tools/options_int.h"
#include "tools/values/values_int.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define MAX_ARGS 256

struct buffer {
    uint64_t address;
    struct tcc_object *v; /* type and shape; its data are the first contents */
    const char *out;
};

struct job {
    const struct options *o;
    struct ptx_device *d;
    struct ptx_module *m;
    const struct ptx_kernel *k;
    struct ptx_launch l;
    struct buffer buffers[MAX_ARGS];
    int nbuffers;
    uint8_t *params;
    char error[ERROR_SIZE];
};

/* -- The launch -- */

/* X, XxY or XxYxZ. */
static const char *read_dims(const char *s, unsigned dims[3])
{
    for (int i = 0; i < 3; i++) {
        char *end;
        dims[i] = 1;
        if (i && *s != 'x')
            continue;
        s += i > 0;
        errno = 0;
        unsigned long v = strtoul(s, &end, 10);
        if (end == s || *s < '0' || *s > '9' || errno || v > 0x7fffffff)
            return NULL;
        dims[i] = (unsigned)v;
        s = end;
    }
    return s;
}

static const char *kernels_there(const struct ptx_module *m, const char *name, struct ir_known *known)
{
    known->near.word = name;
    for (int i = 0; i < ptx_kernel_count(m); i++)
        ir_known_add(known, ptx_kernel_name(ptx_kernel_at(m, i)));
    return ir_known_text(known);
}

static int read_launch(struct job *j, char *text)
{
    const struct options *o = j->o;
    char *name = text, *grid = strchr(text, ':'), *end;
    const char *at = grid ? read_dims(grid + 1, j->l.grid) : NULL;
    at = at && *at == ':' ? read_dims(at + 1, j->l.block) : NULL;
    if (at && *at == ':') {
        errno = 0;
        j->l.shared = strtoull(at + 1, &end, 10);
        at = errno || end == at + 1 || at[1] < '0' || at[1] > '9' ? NULL : end;
    }
    if (!at || *at)
        return usage_error(o, "--launch=%s: expected ENTRY:GRID:BLOCK[:SHARED]", text);
    *grid = 0;
    j->k = ptx_find(j->m, name);
    if (!j->k)
        return tool_error(o, EXIT_DATA, "%s has no kernel '%s'%s", o->words[0], name,
                          kernels_there(j->m, name, &(struct ir_known){0}));
    return EXIT_FINE;
}

/* -- Arguments -- */

/* Takes ",key=value" from the end of an argument. */
static const char *take_setting(char *arg, const char *key)
{
    size_t n = strlen(key);
    for (char *c = strchr(arg, ','); c; c = strchr(c + 1, ','))
        if (strncmp(c + 1, key, n) == 0 && c[n + 1] == '=') {
            char *value = c + n + 2, *next = strchr(value, ',');
            *c = 0;
            if (next) { /* the other setting stays, behind the argument */
                char *copy = strdup(next), *own;
                *next = 0;
                own = strdup(value);
                if (copy)
                    strcpy(c, copy);
                free(copy);
                return own;
            }
            return strdup(value);
        }
    return NULL;
}

static struct tcc_object *raw_file(struct job *j, const char *path, enum tcc_dtype dtype)
{
    size_t size;
    unsigned char *bytes = file_read(path, &size, j->error);
    int64_t n = (int64_t)(size / (size_t)tcc_dtype_bytes(dtype));
    struct tcc_object *v = bytes ? tccrt_object_tensor((int)dtype, 1, &n) : NULL;
    if (v)
        memcpy(v->t.data, bytes, (size_t)n * (size_t)tcc_dtype_bytes(dtype));
    free(bytes);
    return v;
}

static bool ends_in_npy(const char *path)
{
    size_t n = strlen(path);
    return n > 4 && strcmp(path + n - 4, ".npy") == 0;
}

static int add_buffer(struct job *j, char *arg, const char *type, const char *out, uint64_t *address)
{
    static const char *const kinds[] = {"zeros:", "new:", "ones:"};
    enum tcc_dtype dtype = TCC_U8;
    struct buffer *b = &j->buffers[j->nbuffers];
    int kind = -1;
    for (int t = 1; type && t < TCC_NDTYPES; t++)
        if (strcmp(tcc_dtype_name((enum tcc_dtype)t), type) == 0)
            dtype = (enum tcc_dtype)t;
    if (type && (strcmp(tcc_dtype_name(dtype), type) != 0 || tcc_dtype_bytes(dtype) <= 0))
        return usage_error(j->o, "--arg: unknown type '%s'", type);
    for (int k = 0; k < 3; k++)
        if (strncmp(arg, kinds[k], strlen(kinds[k])) == 0)
            kind = k;
    if (kind >= 0) {
        char *end, *from = strchr(arg, ':') + 1;
        errno = 0;
        unsigned long long bytes = strtoull(from, &end, 10);
        if (end == from || *end || errno || *from == '-' || bytes > (UINT64_C(1) << 40))
            return usage_error(j->o, "--arg=%s: expected a number of bytes", arg);
        int64_t n = (int64_t)(bytes / (unsigned)tcc_dtype_bytes(dtype));
        b->v = tccrt_object_tensor((int)dtype, 1, &n);
        if (b->v && kind == 2)
            memset(b->v->t.data, 0xff, (size_t)n * (size_t)tcc_dtype_bytes(dtype));
    } else {
        b->v = ends_in_npy(arg + 1) ? npy_read(arg + 1, j->error) : raw_file(j, arg + 1, dtype);
    }
    if (!b->v)
        return tool_error(j->o, *j->error ? EXIT_DATA : EXIT_ENVIRONMENT, "%s", *j->error ? j->error : "no memory");
    size_t bytes =
        (size_t)tcc_elements(b->v->t.rank, b->v->t.dims) * (size_t)tcc_dtype_bytes((enum tcc_dtype)b->v->t.dtype);
    char name[64];
    snprintf(name, sizeof name, "argument %d", j->nbuffers);
    b->address = ptx_alloc(j->d, bytes ? bytes : 1, name, j->error);
    b->out = out;
    j->nbuffers++;
    if (!b->address || (kind != 1 && !ptx_write(j->d, b->address, b->v->t.data, bytes, j->error)))
        return tool_error(j->o, EXIT_ENVIRONMENT, "%s", j->error);
    *address = b->address;
    return EXIT_FINE;
}

/* A number as the bits of the parameter's type. */
static bool number(const char *text, const char *type, size_t bytes, uint64_t *bits)
{
    char *end;
    errno = 0;
    *bits = 0;
    if (strcmp(type, "f32") == 0) {
        float f = strtof(text, &end);
        memcpy(bits, &f, 4);
    } else if (strcmp(type, "f64") == 0) {
        double d = strtod(text, &end);
        memcpy(bits, &d, 8);
    } else {
        *bits = *text == '-' ? (uint64_t)strtoll(text, &end, 0) : strtoull(text, &end, 0);
    }
    return end != text && !*end && errno != EINVAL && bytes <= 8;
}

static int read_arg(struct job *j, int i, const char *given)
{
    size_t offset, bytes;
    const char *type;
    char *arg = strdup(given);
    uint64_t v = 0;
    int code = EXIT_FINE;
    if (!arg)
        return tool_error(j->o, EXIT_ENVIRONMENT, "no memory");
    if (!ptx_kernel_param(j->k, i, &offset, &bytes, &type)) {
        free(arg);
        return usage_error(j->o, "kernel %s takes %d parameters, not %d", ptx_kernel_name(j->k), i,
                           j->o->given[OPT_sim_arg].n);
    }
    const char *out = take_setting(arg, "out"), *holds = take_setting(arg, "type");
    if (*arg == '@' || strncmp(arg, "zeros:", 6) == 0 || strncmp(arg, "new:", 4) == 0 || strncmp(arg, "ones:", 5) == 0)
        code = bytes == 8 ? add_buffer(j, arg, holds, out, &v)
                          : usage_error(j->o, "parameter %d of %s has %zu bytes: not a pointer", i,
                                        ptx_kernel_name(j->k), bytes);
    else if (!number(arg, type, bytes, &v))
        code = usage_error(j->o, "--arg=%s: expected a number of type %s, or a buffer", given, type);
    if (code == EXIT_FINE)
        memcpy(j->params + offset, &v, bytes);
    free((char *)holds);
    free(arg);
    return code;
}

static int read_args(struct job *j)
{
    size_t shared, local, offset, bytes;
    const char *type;
    int size, n = j->o->given[OPT_sim_arg].n, wanted = 0, code = EXIT_FINE;
    ptx_kernel_needs(j->k, &shared, &local, &size);
    while (ptx_kernel_param(j->k, wanted, &offset, &bytes, &type))
        wanted++;
    if (n != wanted)
        return usage_error(j->o, "kernel %s takes %d parameters, got %d", ptx_kernel_name(j->k), wanted, n);
    if (n > MAX_ARGS)
        return usage_error(j->o, "more than %d parameters", MAX_ARGS);
    if (!(j->params = calloc(1, (size_t)size + 8)))
        return tool_error(j->o, EXIT_ENVIRONMENT, "no memory");
    j->l.params = j->params;
    j->l.params_size = (size_t)size;
    for (int i = 0; i < n && code == EXIT_FINE; i++)
        code = read_arg(j, i, j->o->given[OPT_sim_arg].at[i]);
    return code;
}

/* -- Results -- */

static void print_counters(const struct ptx_counters *c)
{
    printf("warp instructions %" PRIu64 ", lane instructions %" PRIu64 "\n", c->warp_instructions,
           c->lane_instructions);
    for (int k = 0; k < PTX_NCLASSES; k++)
        if (c->by_class[k])
            printf("  %-8s %" PRIu64 "\n", ptx_class_name((enum ptx_class)k), c->by_class[k]);
    printf("global: %" PRIu64 " requests, %" PRIu64 " sectors, ideal %" PRIu64 "\n", c->global_requests,
           c->global_sectors, c->ideal_sectors);
    printf("shared: %" PRIu64 " requests, %" PRIu64 " wavefronts, ideal %" PRIu64 "\n", c->shared_requests,
           c->shared_wavefronts, c->shared_ideal);
    printf("barriers %" PRIu64 ", divergent branches %" PRIu64 ", mma %" PRIu64 ", asynchronous copies %" PRIu64 "\n",
           c->barriers, c->divergent_branches, c->mma, c->async_copies);
}

/* Modelled on the machine of TCCC_SIM_MACHINE, as the simulator's driver does it. */
static void print_time(const struct job *j, const struct ptx_counters *c)
{
    const char *machine = getenv("TCCC_SIM_MACHINE");
    struct ptx_time t;
    machine = machine && *machine ? machine : "h100";
    if (ptx_modelled(j->k, &j->l, c, machine, &t))
        printf("modelled on %s: %" PRIu64 " cycles, %.3f us, bound by %s; %d registers, %d blocks an SM\n", machine,
               t.cycles, t.seconds * 1e6, t.bound, t.registers, t.occupancy);
}

static int write_results(struct job *j)
{
    for (int i = 0; i < j->nbuffers; i++) {
        struct buffer *b = &j->buffers[i];
        size_t bytes =
            (size_t)tcc_elements(b->v->t.rank, b->v->t.dims) * (size_t)tcc_dtype_bytes((enum tcc_dtype)b->v->t.dtype);
        if (!ptx_read(j->d, b->v->t.data, b->address, bytes, j->error))
            return tool_error(j->o, EXIT_BUG, "%s", j->error);
        printf("argument %d: ", i);
        value_print(stdout, b->v);
        putchar('\n');
        if (b->out && ends_in_npy(b->out) && !npy_write(b->out, b->v, j->error))
            return tool_error(j->o, EXIT_ENVIRONMENT, "%s", j->error);
        if (!b->out || ends_in_npy(b->out))
            continue;
        struct tcr_save save;
        bool open = !tcr_save_open(&save, b->out, 0), wrote = open && !tcr_write_all(save.fd, b->v->t.data, bytes);
        if (open && !wrote)
            tcr_save_drop(&save);
        if (!wrote || tcr_save_commit(&save))
            return tool_error(j->o, EXIT_ENVIRONMENT, "cannot write '%s': %s", b->out, strerror(errno));
    }
    return EXIT_FINE;
}

static int print_reports(const struct job *j)
{
    const struct ptx_report *list;
    int n = ptx_reports(j->d, &list);
    char text[PTX_ERROR];
    for (int i = 0; i < n; i++) {
        ptx_report_text(&list[i], text, sizeof text);
        tool_error(j->o, EXIT_DATA, "%s: %s", j->o->words[0], text);
    }
    return n;
}

static void list_kernels(const struct job *j)
{
    for (int i = 0; i < ptx_kernel_count(j->m); i++) {
        const struct ptx_kernel *k = ptx_kernel_at(j->m, i);
        size_t shared, local, offset, bytes;
        const char *type;
        int size;
        ptx_kernel_needs(k, &shared, &local, &size);
        printf("%s(", ptx_kernel_name(k));
        for (int p = 0; ptx_kernel_param(k, p, &offset, &bytes, &type); p++)
            printf("%s%s", p ? ", " : "", type);
        printf("): %zu bytes of shared memory, %zu of local memory a thread\n", shared, local);
    }
}

static int launch(struct job *j)
{
    struct ptx_counters c;
    char *text = strdup(option_text(j->o, OPT_sim_launch, ""));
    int code = text ? read_launch(j, text) : tool_error(j->o, EXIT_ENVIRONMENT, "no memory");
    free(text);
    if (code == EXIT_FINE)
        code = read_args(j);
    if (code != EXIT_FINE)
        return code;
    bool ran = ptx_run(j->d, j->k, &j->l, &c, j->error);
    if (option_set(j->o, OPT_sim_counters)) {
        print_counters(&c);
        print_time(j, &c);
    }
    int failed = print_reports(j);
    if (!ran)
        return failed ? EXIT_DATA : tool_error(j->o, EXIT_DATA, "%s", j->error);
    code = write_results(j);
    return code == EXIT_FINE && failed ? EXIT_DATA : code;
}

static int load(struct job *j)
{
    size_t size;
    unsigned char *text = file_read(j->o->words[0], &size, j->error);
    if (!text)
        return tool_error(j->o, EXIT_DATA, "%s", j->error);
    j->m = ptx_load(j->d, (const char *)text, size, j->error);
    free(text);
    return j->m ? EXIT_FINE : tool_error(j->o, EXIT_DATA, "%s: %s", j->o->words[0], j->error);
}

static int run(struct options *o)
{
    struct job j = {.o = o};
    struct ptx_config config = {.checks = true};
    const char *check = option_text(o, OPT_sim_check, "all");
    int64_t seed = 0, threads = 0, limit = 0;
    if (o->nwords != 1)
        return usage_error(o, o->nwords ? "more than one file" : "no file given");
    if (strcmp(check, "all") != 0 && strcmp(check, "none") != 0)
        return usage_error(o, "--check=%s: expected all or none", check);
    if (!option_int(o, OPT_sim_seed, 0, INT64_MAX, &seed) || !option_int(o, OPT_sim_threads, 1, 256, &threads) ||
        !option_int(o, OPT_sim_limit, 1, INT64_MAX, &limit))
        return EXIT_USAGE;
    if (option_set(o, OPT_sim_arg) && !option_set(o, OPT_sim_launch))
        return usage_error(o, "--arg requires --launch");
    config.checks = strcmp(check, "all") == 0;
    config.seed = (uint64_t)seed;
    config.threads = (int)threads;
    config.limit = (uint64_t)limit;
    if (!(j.d = ptx_device_new(&config, j.error)))
        return tool_error(o, EXIT_ENVIRONMENT, "%s", j.error);
    int code = load(&j);
    if (code == EXIT_FINE && option_set(o, OPT_sim_launch))
        code = launch(&j);
    else if (code == EXIT_FINE)
        list_kernels(&j);
    for (int i = 0; i < j.nbuffers; i++) {
        tccrt_object_unref(j.buffers[i].v);
        free((char *)j.buffers[i].out);
    }
    free(j.params);
    ptx_unload(j.m);
    ptx_device_free(j.d);
    return code;
}

int main(int argc, char **argv)
{
    return options_run(TOOL_S, argc, argv, run);
}
