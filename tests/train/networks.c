/* SPDX-License-Identifier: Apache-2.0 */
/*
 * networks.c - a hundred training steps of small networks against PyTorch's figures (networks.py makes both). Prints
 * TAP.
 *
 *   networks [--target=TARGET] [--device=DEVICE] [--steps=N] FOLDER/CASE.onnx...      figures are in FOLDER/CASE.txt;
 *   N: the first ones
 *
 * Batches come of a formula (hashed) that networks.py has too.
 */
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "compiler/tccc.h"
#include "runtime/tccrt.h"
#include "tools/values/values_int.h"

enum { BATCHES = 4, SAMPLES = 4, MAX_ELEMENTS = 1 << 20 };

/* A line "case OPTIMIZER x DIMS CLASSES target DIMS CLASSES"; classes 0: numbers in [-1, 1). */
struct network {
    const char *path;
    char optimizer[200];
    struct tcc_tensor in[2];
    unsigned classes[2];
    struct tccrt_model *model;
    struct tccrt_session *session;
    char why[400];
};

static const char *target, *device;
static int steps = INT_MAX;

static bool fail(struct network *n, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool fail(struct network *n, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(n->why, sizeof n->why, format, args);
    va_end(args);
    return false;
}

/* -- Batches */

static uint32_t hashed(uint32_t i)
{
    uint32_t h = i * 0x9E3779B1u;
    h = (h ^ h >> 15) * 0x85EBCA77u;
    h = (h ^ h >> 13) * 0xC2B2AE3Du;
    return h ^ h >> 16;
}

static int64_t count(const struct tcc_tensor *t)
{
    int64_t n = 1;
    for (int i = 0; i < t->rank; i++)
        n *= t->dims[i];
    return n;
}

static void fill(struct network *n, int step)
{
    for (int k = 0; k < 2; k++) {
        uint32_t first = (uint32_t)(2 * (step % BATCHES) + k) * 10000019u;
        for (uint32_t i = 0; i < (uint32_t)count(&n->in[k]); i++) {
            uint32_t h = hashed(first + i);
            if (n->classes[k])
                ((int64_t *)n->in[k].data)[i] = h % n->classes[k];
            else
                ((float *)n->in[k].data)[i] = (float)(h / 2147483648.0 - 1);
        }
    }
}

static bool read_dims(const char *text, struct tcc_tensor *t)
{
    char *end;
    for (t->rank = 0; t->rank < TCC_MAX_RANK; text = end + 1) {
        t->dims[t->rank++] = strtoll(text, &end, 10);
        if (*end != 'x')
            return *end == '\0' && count(t) > 0 && count(t) < MAX_ELEMENTS;
    }
    return false;
}

static bool read_case(struct network *n, const char *line)
{
    char dims[2][100];
    if (sscanf(line, "case %199s x %99s %u target %99s %u", n->optimizer, dims[0], &n->classes[0], dims[1],
               &n->classes[1]) != 5)
        return fail(n, "no case: %s", line);
    for (int k = 0; k < 2; k++) {
        if (!read_dims(dims[k], &n->in[k]))
            return fail(n, "dims %s", dims[k]);
        n->in[k].dtype = n->classes[k] ? TCC_I64 : TCC_F32;
        n->in[k].data = calloc((size_t)count(&n->in[k]), 8);
        if (!n->in[k].data)
            return fail(n, "no memory");
    }
    return true;
}

/* -- Steps */

static void keep_message(void *user, int severity, const char *text)
{
    if (severity > 1)
        fail(user, "%s", text);
}

static bool open_network(struct network *n)
{
    char file[] = "/tmp/tccc-network-XXXXXX.so";
    int fd = mkstemps(file, 3);
    struct tccc_train train = {.loss = "cross_entropy", .optimizer = n->optimizer};
    struct tccc_options o;
    if (fd < 0)
        return fail(n, "no temporary file");
    close(fd);
    tccc_options_init(&o);
    o.model = n->path;
    o.output = file;
    o.name = "network";
    o.target = target;
    o.train = &train;
    /* NeuronCores' programs are of fixed sizes; `batch` is that of the first input. */
    char batch[32];
    const char *dims[] = {batch, NULL};
    snprintf(batch, sizeof batch, "batch=%d", (int)n->in[0].dims[0]);
    if (target && !strncmp(target, "neuron", 6))
        o.dims = dims;
    o.verify = true;
    o.message = keep_message;
    o.user = n;
    struct tccrt_options threads = {.threads = 2, .device = device};
    bool ok = tccc_compile(&o) == 0;
    if (ok && (tccrt_open(file, &n->model) || tccrt_session_new(n->model, &threads, &n->session)))
        ok = fail(n, "%s", tccrt_error());
    unlink(file);
    return ok;
}

static bool run(struct network *n, const char *entry, float *loss)
{
    struct tcc_tensor out = {0};
    if (tccrt_run(n->session, entry, 2, n->in, 1, &out))
        return fail(n, "%s: %s", entry, tccrt_error());
    *loss = *(float *)out.data;
    return true;
}

static bool check_loss(struct network *n, const char *line)
{
    int step;
    double want, tolerance;
    float got;
    if (sscanf(line, "loss %d %lf %lf", &step, &want, &tolerance) != 3)
        return fail(n, "no loss: %s", line);
    fill(n, step);
    /* Gradients of this step, if its next lines ask for them; the update comes after them. */
    if (!run(n, "grad", &got))
        return false;
    if (float_excess((double)got, want, 0, tolerance) > 0)
        return fail(n, "loss at step %d: %.9g, PyTorch has %.9g (within %g)", step, (double)got, want, tolerance);
    return true;
}

static bool check_gradient(struct network *n, const char *line)
{
    int step, used;
    double tolerance, norm, want[SAMPLES], sum = 0;
    char name[300] = "grad.";
    struct tcc_tensor t;
    if (sscanf(line, "grad %d %lf %250s %lf %lf %lf %lf %lf%n", &step, &tolerance, name + 5, &norm, &want[0], &want[1],
               &want[2], &want[3], &used) != 8)
        return fail(n, "no gradient: %s", line);
    if (tccrt_state_get(n->session, name, &t))
        return fail(n, "%s", tccrt_error());
    const float *g = t.data;
    int64_t size = count(&t);
    for (int64_t i = 0; i < size; i++)
        sum += (double)g[i] * (double)g[i];
    if (float_excess(sqrt(sum), norm, 0, tolerance) > 0)
        return fail(n, "%s at step %d: norm %.9g, PyTorch has %.9g (within %g)", name, step, sqrt(sum), norm,
                    tolerance);
    for (int64_t i = 0; i < SAMPLES; i++) {
        double got = (double)g[i * (size - 1) / (SAMPLES - 1)];
        if (float_excess(got, want[i], 0, tolerance) > 0)
            return fail(n, "%s at step %d: sample %d is %.9g, PyTorch has %.9g (within %g)", name, step, (int)i, got,
                        want[i], tolerance);
    }
    return true;
}

static bool figures(struct network *n)
{
    char path[1000], line[1000];
    float loss;
    bool ok = true, begun = false;
    snprintf(path, sizeof path, "%.*s.txt", (int)(strlen(n->path) - strlen(".onnx")), n->path);
    FILE *f = fopen(path, "r");
    if (!f || !fgets(line, sizeof line, f))
        ok = fail(n, "can't read %s", path);
    ok = ok && read_case(n, line) && open_network(n);
    while (ok && fgets(line, sizeof line, f)) {
        if (line[0] == 's') /* digest of PyTorch's state, for networks.py */
            continue;
        if (line[0] != 'l') {
            ok = check_gradient(n, line);
            continue;
        }
        if (atoi(line + strlen("loss")) >= steps)
            break;
        ok = (!begun || run(n, "step", &loss)) && check_loss(n, line);
        begun = true;
    }
    if (f)
        fclose(f);
    return ok && (begun || fail(n, "no figures"));
}

int main(int argc, char **argv)
{
    bool good = true;
    for (; argc > 1 && argv[1][0] == '-'; argc--, argv++) {
        const char *value = strchr(argv[1], '=');
        if (value && strncmp(argv[1], "--target=", 9) == 0)
            target = value + 1;
        else if (value && strncmp(argv[1], "--device=", 9) == 0)
            device = value + 1;
        else if (value && strncmp(argv[1], "--steps=", 8) == 0)
            steps = atoi(value + 1);
        else
            return fprintf(stderr, "unknown option '%s'\n", argv[1]), 2;
    }
    printf("1..%d\n", argc - 1);
    for (int i = 1; i < argc; i++) {
        struct network n = {.path = argv[i]};
        bool ok = figures(&n);
        printf("%sok %d - %s%s%s\n", ok ? "" : "not ", i, strrchr(argv[i], '/') ? strrchr(argv[i], '/') + 1 : argv[i],
               ok ? "" : ": ", n.why);
        fflush(stdout);
        tccrt_session_free(n.session);
        tccrt_close(n.model);
        free(n.in[0].data);
        free(n.in[1].data);
        good &= ok;
    }
    return !good;
}
