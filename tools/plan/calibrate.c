/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tccc-plan --calibrate: this machine as a cluster of one node. Speed is that of the project's own kernels: small
 * models are compiled and timed, a product of matrices, a sum of long vectors, a row of small operations. What lies
 * between two processes is measured by starting this program twice by mpirun, where that is there.
 */
#include "tools/plan/plan_tool_int.h"

#include "base/safe.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SIDE 384         /* of the matrices: a product is over before another process takes the core, as a rule */
#define LENGTH (1 << 22) /* of the vectors */
#define SHORT (1 << 16)  /* of vectors that a cache holds */
#define SMALL 32         /* small operations, one after another */
#define LINK_BYTES (8 << 20)
#define MESSAGES 64 /* whose latency is measured, of so many bytes */
#define MESSAGE_BYTES 16384
#define WORK 0.2 /* ms */

double plan_time(void *arg, bool (*run)(void *arg))
{
    double least = INFINITY, start = now_ms();
    if (!run(arg)) /* the first is not like the others */
        return -1;
    for (int i = 0; i < 5 || (now_ms() - start < 500 && i < 200); i++) {
        double before = now_ms();
        if (!run(arg))
            return -1;
        double took = now_ms() - before;
        least = took < least ? took : least;
    }
    return least * 1e-3;
}

/* -- Kernels ------------------------------------------------------------------------------------------------------- */

struct kernel {
    struct model m;
    int n;
    struct tcc_tensor in[2];
};

static bool run_kernel(void *arg)
{
    struct kernel *k = arg;
    struct tcc_tensor out = {0};
    return tccrt_run(k->m.session, k->m.entry, k->n, k->in, 1, &out) == TCC_OK;
}

static void write_kernel(FILE *f, int which)
{
    static const char *const products[] = {"f32", "bf16"};
    if (which < 2) {
        fprintf(f, "func @main(%%x: %s[%d,%d], %%y: %s[%d,%d]) -> (f32[%d,%d]) {\n", products[which], SIDE, SIDE,
                products[which], SIDE, SIDE, SIDE, SIDE);
        fprintf(f, "  %%z = matmul(%%x, %%y) {to = f32}\n  return(%%z)\n}\n");
    } else if (which == 2 || which == 4) {
        int length = which == 2 ? LENGTH : SHORT;
        fprintf(f, "func @main(%%x: f32[%d], %%y: f32[%d]) -> (f32[%d]) {\n  %%z = add(%%x, %%y)\n  return(%%z)\n}\n",
                length, length, length);
    } else {
        fprintf(f, "func @main(%%x: f32[8,8], %%y: f32[8,8]) -> (f32[8,8]) {\n");
        for (int i = 0; i < SMALL; i++)
            fprintf(f, i ? "  %%z%d = matmul(%%z%d, %%y) {to = f32}\n" : "  %%z%d = matmul(%%x, %%y) {to = f32}\n", i,
                    i - 1);
        fprintf(f, "  return(%%z%d)\n}\n", SMALL - 1);
    }
}

static int open_kernel(const struct options *o, int which, struct kernel *k)
{
    static const int64_t sizes[] = {SIDE * SIDE, SIDE * SIDE, LENGTH, 64, SHORT};
    char path[PATH_MAX];
    struct options plain = *o;

    memset(plain.given, 0, sizeof plain.given);
    *k = (struct kernel){.n = 2};
    snprintf(path, sizeof path, "%s/tccc-plan-XXXXXX.tcir", tcr_temporary());
    int fd = mkstemps(path, 5);
    FILE *f = fd < 0 ? NULL : fdopen(fd, "w");
    if (!f)
        return tool_error(o, EXIT_ENVIRONMENT, "cannot make a file like '%s': %m", path);
    write_kernel(f, which);
    int code = fclose(f) ? tool_error(o, EXIT_ENVIRONMENT, "cannot write '%s': %m", path)
                         : model_open(&plain, path, &k->m, NULL);
    unlink(path);
    for (int i = 0; i < 2 && code == EXIT_FINE; i++) {
        struct tccrt_value_info *v = &k->m.in[i].info;
        k->in[i] = (struct tcc_tensor){calloc((size_t)sizes[which], 4), v->dtype, v->rank, {0}};
        memcpy(k->in[i].dims, v->dims, sizeof v->dims);
        if (!k->in[i].data)
            code = tool_error(o, EXIT_ENVIRONMENT, "no memory");
        for (int64_t e = 0; code == EXIT_FINE && v->dtype == TCC_F32 && e < sizes[which]; e++)
            ((float *)k->in[i].data)[e] = 0.01f;
    }
    return code;
}

static void close_kernel(struct kernel *k)
{
    for (int i = 0; i < 2; i++)
        free(k->in[i].data);
    model_close(&k->m);
}

/* Seconds with one thread, and with as many as there are cores; *cores: how many these are. */
static int time_kernel(const struct options *o, int which, double *one, double *all, int *cores)
{
    struct kernel k;
    int code = open_kernel(o, which, &k);
    for (int threads = 1; code == EXIT_FINE && threads >= 0; threads--) {
        code = model_session(o, &k.m, threads, NULL);
        double seconds = code == EXIT_FINE ? plan_time(&k, run_kernel) : 0;
        if (seconds < 0)
            code = tool_error(o, EXIT_ENVIRONMENT, "%s", tccrt_error());
        *(threads ? one : all) = seconds;
        if (code == EXIT_FINE)
            *cores = tccrt_threads(k.m.session);
        tccrt_session_free(k.m.session);
        k.m.session = NULL;
    }
    close_kernel(&k);
    return code;
}

/* -- Two processes ------------------------------------------------------------------------------------------------- */

struct pair {
    struct tccrt_comm *world;
    int rank, times;
    bool reduce;
    struct tcc_tensor t;
};

/* There and back, `times` times; or sums. */
static bool exchange(void *arg)
{
    struct pair *p = arg;
    int status = TCC_OK;
    for (int i = 0; i < p->times && status == TCC_OK; i++) {
        if (p->reduce) {
            status = tccrt_comm_all_reduce(p->world, TCCRT_SUM, 1, 1, &p->t, &p->t, NULL);
            continue;
        }
        for (int turn = 0; turn < 2 && status == TCC_OK; turn++)
            status = turn == p->rank ? tccrt_comm_send(p->world, 1 - p->rank, 0, &p->t, NULL)
                                     : tccrt_comm_recv(p->world, 1 - p->rank, 0, &p->t, NULL);
    }
    return status == TCC_OK;
}

static void work(double ms)
{
    for (double start = now_ms(); now_ms() - start < ms;) {
    }
}

/*
 * Seconds until a message is there that leaves while its sender goes on computing, as a pipeline's do; the lower
 * quartile. A message holds the time at which it left: between two machines the clocks' difference cancels out, since
 * both ways are measured. < 0: it failed.
 */
static double message_latency(struct pair *p)
{
    double took[MESSAGES], *sent = p->t.data, mean;
    struct tcc_tensor t = {sent, TCC_U8, 1, {MESSAGE_BYTES}}, sum = {&mean, TCC_F64, 1, {1}};
    int status = TCC_OK;
    for (int i = 0; i < MESSAGES; i++)
        for (int turn = 0; turn < 2 && status == TCC_OK; turn++) {
            struct tccrt_request *request;
            if (turn != p->rank) {
                status = tccrt_comm_recv(p->world, 1 - p->rank, 0, &t, NULL);
                took[i] = now_ms() - *sent;
                work(2 * WORK); /* until the other has done its own */
                continue;
            }
            *sent = now_ms();
            status = tccrt_comm_send(p->world, 1 - p->rank, 0, &t, &request);
            work(WORK);
            if (status == TCC_OK)
                status = tccrt_comm_wait(request);
        }
    if (status == TCC_OK) {
        sort_times(took, MESSAGES);
        mean = took[MESSAGES / 4];
        status = tccrt_comm_all_reduce(p->world, TCCRT_AVG, 1, 1, &sum, &sum, NULL);
    }
    return status != TCC_OK ? -1 : mean > 1e-4 ? mean * 1e-3 : 1e-7;
}

/* Both processes must do the same number of times, so not for a time. */
static double least_exchange(struct pair *p, int times)
{
    double least = INFINITY;
    p->times = times;
    for (int i = 0; i < 12; i++) {
        double before = now_ms();
        if (!exchange(p))
            return -1;
        double took = (now_ms() - before) * 1e-3 / times;
        least = took < least ? took : least;
    }
    return least;
}

static int calibrate_link(const struct options *o)
{
    struct pair p = {0};
    int begun = model_world(o, false, &p.world);
    if (begun != EXIT_FINE)
        return begun;
    if (tccrt_comm_size(p.world) != 2) {
        tccrt_comm_finalize(p.world, NULL);
        return usage_error(o, "--calibrate=link is for two processes: mpirun -np 2 tccc-plan --calibrate=link");
    }
    float *data = calloc(LINK_BYTES / sizeof *data, sizeof *data);
    p.rank = tccrt_comm_rank(p.world);
    tccrt_comm_cores(p.world);
    p.t = (struct tcc_tensor){data, TCC_F32, 1, {LINK_BYTES / sizeof *data}};
    double latency = data ? message_latency(&p) : -1, large = latency < 0 ? -1 : least_exchange(&p, 1) / 2;
    p.reduce = true;
    double sum = large < 0 ? -1 : least_exchange(&p, 1);
    int code = sum < 0 ? tool_error(o, EXIT_ENVIRONMENT, "%s", data ? tccrt_error() : "no memory") : EXIT_FINE;
    if (code == EXIT_FINE && p.rank == 0)
        printf("latency = %.3gus\nbandwidth = %.4gG\nreduce = %.4gG\n", latency * 1e6, LINK_BYTES / large / 1e9,
               LINK_BYTES / sum / 1e9);
    free(data);
    if (tccrt_comm_finalize(p.world, code == EXIT_FINE ? NULL : tool_last_error()) && code == EXIT_FINE)
        code = tool_error(o, EXIT_ENVIRONMENT, "%s", tccrt_error());
    return code;
}

/* This program twice, by mpirun. False: it isn't there, or doesn't start. */
static bool run_pair(struct plan_cluster *c)
{
    char self[PATH_MAX], command[PATH_MAX + 200], line[200];
    double latency = 0, bandwidth = 0, reduce = 0;
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n <= 0 || strchr(self, '\''))
        return false;
    self[n] = '\0';
    if (geteuid() == 0) { /* the two processes are our own; mpirun's caution is about others' programs */
        setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
        setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
    }
    snprintf(command, sizeof command,
             "timeout 60 mpirun --oversubscribe -np 2 '%s' --comm=mpi --calibrate=link 2>/dev/null </dev/null", self);
    FILE *f = popen(command, "r");
    while (f && fgets(line, sizeof line, f)) {
        sscanf(line, "latency = %lfus", &latency);
        sscanf(line, "bandwidth = %lfG", &bandwidth);
        sscanf(line, "reduce = %lfG", &reduce);
    }
    if (!f || pclose(f) || latency <= 0 || bandwidth <= 0 || reduce <= 0)
        return false;
    /* Cores move the bytes themselves. */
    c->local = (struct plan_link){latency * 1e-6, bandwidth * 1e9, reduce * 1e9, 0};
    return true;
}

/* -- The machine --------------------------------------------------------------------------------------------------- */

static double memory_bytes(void)
{
    double bytes = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE), limit;
    FILE *f = fopen("/sys/fs/cgroup/memory.max", "re");
    if (f && fscanf(f, "%lf", &limit) == 1 && limit > 0 && limit < bytes)
        bytes = limit;
    if (f)
        fclose(f);
    return bytes;
}

static int measure_kernels(const struct options *o, struct plan_cluster *c)
{
    double one[5], all[5], products = 2.0 * SIDE * SIDE * SIDE, bytes = 12.0 * LENGTH;
    int cores = 1, code = EXIT_FINE;
    for (int i = 0; i < 5 && code == EXIT_FINE; i++)
        code = time_kernel(o, i, &one[i], &all[i], &cores);
    if (code != EXIT_FINE)
        return code;
    c->nodes = 1;
    c->devices = cores;
    c->divided = cores > 1;
    c->flops = products / all[0] / cores;
    c->bf16_flops = products / all[1] / cores;
    c->bandwidth = bytes / one[2];
    c->node_bandwidth = cores > 1 ? bytes / all[2] : 0;
    c->memory = memory_bytes() / cores;
    c->launch = one[3] / SMALL;
    long cache = sysconf(_SC_LEVEL2_CACHE_SIZE);
    c->cache = cache > 0 ? (double)cache : 0;
    c->cache_bandwidth = 12.0 * SHORT / one[4];
    return EXIT_FINE;
}

static int write_cluster(const struct options *o, const struct plan_cluster *c, const char *first, const char *rest)
{
    const char *path = option_text(o, OPT_output, NULL);
    struct tcr_save save;
    if (path && tcr_save_open(&save, path, TCR_SAVE_STREAM))
        return tool_error(o, EXIT_ENVIRONMENT, "cannot write '%s': %m", path);
    FILE *f = path ? save.stream : stdout;
    fprintf(f, "# %s%s\n", first, rest);
    plan_cluster_write(f, c);
    if (path ? tcr_save_commit(&save) : fflush(f))
        return tool_error(o, EXIT_ENVIRONMENT, "cannot write '%s': %m", path ? path : "standard output");
    return EXIT_FINE;
}

int plan_calibrate(const struct options *o)
{
    const char *what = option_text(o, OPT_calibrate, "");
    struct plan_cluster c = {.local = {5e-6, 2e9, 2e9, 0}};
    int64_t ranks = 0;
    if (!strcmp(what, "link"))
        return calibrate_link(o);
    if (*what && !option_int(o, OPT_plan_ranks, 1, 4096, &ranks))
        return EXIT_USAGE;
    if (*what)
        return plan_machine(what, (int)ranks, &c)
                   ? write_cluster(o, &c, "Simulated GPUs, by tccc-plan --calibrate=", what)
                   : usage_error(o,
                                 "--calibrate=%s: expected nothing, link, or a simulated machine: a100, h100, h200, "
                                 "with changes as h100,hbm=8e12",
                                 what);
    int code = measure_kernels(o, &c);
    if (code != EXIT_FINE)
        return code;
    bool linked = run_pair(&c);
    c.remote = (struct plan_link){2e-5, 1.25e9, 1.25e9, 1}; /* 10 Gb/s */
    return write_cluster(
        o, &c, "This machine, measured by tccc-plan --calibrate.",
        linked ? "\n# [remote] is used when nodes are more than 1: a guess, unless it is set."
               : "\n# What lies between processes was not measured (mpirun did not start two): [local] is a guess.\n"
                 "# [remote] is used when nodes are more than 1: a guess, unless it is set.");
}
