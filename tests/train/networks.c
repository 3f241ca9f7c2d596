/* SPDX-License-Identifier: Apache-2.0 */
/*
 * networks.c - a hundred training steps of small networks against PyTorch's figures (networks.py makes both). Prints
 * TAP.
 *
 *   networks [--target=TARGET] [--device=DEVICE] [--steps=N] FOLDER/CASE.onnx...      figures are in FOLDER/CASE.txt;
 *   N: the first ones
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
#include "tests/train/batches.h"
#include "tools/values/values_int.h"

enum { SAMPLES = 4 };

struct network {
    const char *path;
    struct batch batch;
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
    struct tccc_train train = {.loss = "cross_entropy", .optimizer = n->batch.optimizer};
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
    snprintf(batch, sizeof batch, "batch=%d", (int)n->batch.in[0].dims[0]);
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
    if (tccrt_run(n->session, entry, 2, n->batch.in, 1, &out))
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
    batch_fill(&n->batch, step);
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
    int64_t size = elements(&t);
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
    if (ok && !batch_read(&n->batch, line))
        ok = fail(n, "no case: %s", line);
    ok = ok && open_network(n);
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
        free(n.batch.in[0].data);
        free(n.batch.in[1].data);
        good &= ok;
    }
    return !good;
}
