/* SPDX-License-Identifier: Apache-2.0 */
/*
 * losses.c - losses and their gradients against the figures of losses.txt (PyTorch's; see losses.py). Prints TAP.
 *
 *   losses-run losses.txt
 *
 * Each case is a model whose scores are its input plus a parameter of zeros: @grad then leaves the gradient by the
 * scores in that parameter's gradient. Further outputs of the same kind, o0 and o1, are for losses of several. Of a
 * case "of N rows" only the run knows how many, and the parameter is a row, which is added to each. A label out of
 * range follows: the run must fail and leave all state as it was.
 */
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

enum { MAX = 256 };

struct value {
    struct tcc_tensor t;
    char dims[64]; /* as the file has them: 4x5, scalar */
    float f[MAX];
    int64_t i[MAX];
};
struct test_case {
    char name[64], option[300], why[400];
    struct value x, target, others[2];
    int nothers, neach;
    bool each_one;    /* losses of elements, of which there may be none */
    bool rows;        /* of inputs only the run knows how many; a parameter is one */
    double tolerance; /* of gradients, of the largest */
    double loss;
    float grad[MAX], other_grads[2][MAX], each[MAX];
    long at; /* behind the case's lines, in the file */
    struct tccrt_model *model;
    struct tccrt_session *session;
};

static bool fail(struct test_case *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool fail(struct test_case *c, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(c->why, sizeof c->why, format, args);
    va_end(args);
    return false;
}

static int read_numbers(const char *s, float *f, int64_t *i)
{
    int n = 0;
    for (char *end; n < MAX; s = end, n++) {
        double v = strtod(s, &end);
        if (end == s)
            break;
        f[n] = (float)v;
        if (i)
            i[n] = (int64_t)v;
    }
    return n;
}

static bool read_value(struct test_case *c, struct value *v, const char *type, const char *rest)
{
    int used = 0;
    if (sscanf(rest, "%63s%n", v->dims, &used) != 1)
        return fail(c, "no dims");
    v->t.dtype = !strcmp(type, "i64") ? TCC_I64 : TCC_F32;
    v->t.data = v->t.dtype == TCC_I64 ? (void *)v->i : (void *)v->f;
    for (char *s = v->dims, *end; strcmp(v->dims, "scalar"); s = end + 1) {
        v->t.dims[v->t.rank++] = strtoll(s, &end, 10);
        if (*end != 'x')
            break;
    }
    read_numbers(rest + used, v->f, v->i);
    return true;
}

static void read_line(struct test_case *c, const char *line)
{
    char type[8];
    int used = 0, k = 0;
    if (line[0] == 'x')
        read_value(c, &c->x, "f32", line + 1);
    else if (sscanf(line, "target %7s%n", type, &used) == 1)
        read_value(c, &c->target, type, line + used);
    else if (!strncmp(line, "other ", 6))
        read_value(c, &c->others[c->nothers++], "f32", line + 6);
    else if (sscanf(line, "other_grad %d%n", &k, &used) == 1)
        read_numbers(line + used, c->other_grads[k & 1], NULL);
    else if (!strncmp(line, "each ", 5))
        c->each_one = true, c->neach = read_numbers(line + 5, c->each, NULL);
    else if (sscanf(line, "loss %lf", &c->loss) != 1)
        read_numbers(line + 4, c->grad, NULL);
}

static const char of_rows[] = "of N rows ";

/* Lines up to the next one that begins a case. */
static bool read_case(struct test_case *c, FILE *in)
{
    static char line[1 << 16];
    if (!fgets(line, sizeof line, in) || sscanf(line, "case %63s %299[^\n]", c->name, c->option) != 2)
        return false;
    if ((c->rows = !strncmp(c->option, of_rows, strlen(of_rows))))
        memmove(c->option, c->option + strlen(of_rows), strlen(c->option + strlen(of_rows)) + 1);
    for (long at = ftell(in); fgets(line, sizeof line, in) && strncmp(line, "case ", 5); at = ftell(in)) {
        read_line(c, line);
        if (at < 0)
            return false;
        c->at = ftell(in);
    }
    return fseek(in, c->at, SEEK_SET) == 0;
}

/* 4x5 as f32[4,5]; a scalar as f32[]. Of N rows: as f32[N,5], and the parameter as f32[5]. */
static void print_type(FILE *out, const struct test_case *c, const struct value *v, bool parameter)
{
    int first = c->rows && parameter;
    fputs("f32[", out);
    for (int i = first; i < v->t.rank; i++) {
        fputs(i > first ? "," : "", out);
        if (i == 0 && c->rows)
            fputs("N", out);
        else
            fprintf(out, "%lld", (long long)v->t.dims[i]);
    }
    fputc(']', out);
}

static bool write_model(const struct test_case *c, const char *path)
{
    FILE *out = fopen(path, "w");
    if (!out)
        return false;
    for (int k = -1; k < c->nothers; k++) {
        fprintf(out, k < 0 ? "state @p : " : "state @q%d : ", k);
        print_type(out, c, k < 0 ? &c->x : &c->others[k], true);
        fputs(" param\n", out);
    }
    for (int k = -1; k < c->nothers; k++) {
        fprintf(out, k < 0 ? "func @main(%%x: " : ", %%i%d: ", k);
        print_type(out, c, k < 0 ? &c->x : &c->others[k], false);
    }
    for (int k = -1; k < c->nothers; k++) {
        fprintf(out, k < 0 ? ") -> (\"y\": " : ", \"o%d\": ", k);
        print_type(out, c, k < 0 ? &c->x : &c->others[k], false);
    }
    fputs(") {\n  %p = state_read() {name = \"p\"}\n  %y = add(%x, %p)\n", out);
    for (int k = 0; k < c->nothers; k++)
        fprintf(out, "  %%q%d = state_read() {name = \"q%d\"}\n  %%o%d = add(%%i%d, %%q%d)\n", k, k, k, k, k);
    fputs("  return(%y", out);
    for (int k = 0; k < c->nothers; k++)
        fprintf(out, ", %%o%d", k);
    fputs(")\n}\n", out);
    return fclose(out) == 0;
}

static void keep_message(void *user, int severity, const char *text)
{
    if (severity > 1)
        fail(user, "%s", text);
}

static bool open_case(struct test_case *c)
{
    struct tccc_train train = {.loss = c->option};
    struct tccc_options o;
    tccc_options_init(&o);
    o.model = "loss.tcir";
    o.output = "loss.so";
    o.train = &train;
    o.verify = true;
    o.message = keep_message;
    o.user = c;
    if (!write_model(c, o.model) || tccc_compile(&o))
        return *c->why ? false : fail(c, "can't compile");
    bool ok = tccrt_open("./loss.so", &c->model) == 0 && tccrt_session_new(c->model, NULL, &c->session) == 0;
    return ok || fail(c, "%s", tccrt_error());
}

static bool compare_gradient(struct test_case *c, const char *state, const struct value *x, const float *wanted)
{
    struct tcc_tensor grad;
    double largest = 0;
    int n = 1;
    if (tccrt_state_get(c->session, state, &grad))
        return fail(c, "%s", tccrt_error());
    for (int i = c->rows; i < x->t.rank; i++)
        n *= (int)x->t.dims[i];
    for (int i = 0; i < n; i++)
        largest = fmax(largest, fabs((double)wanted[i]));
    for (int i = 0; i < n; i++) {
        double g = (double)((float *)grad.data)[i], want = (double)wanted[i];
        if (float_excess(g, want, 1e-6, c->tolerance * largest) > 0)
            return fail(c, "%s %d is %.9g, PyTorch has %.9g", state, i, g, want);
    }
    return true;
}

static int inputs(struct test_case *c, struct tcc_tensor *in)
{
    int n = 0;
    in[n++] = c->x.t;
    for (int k = 0; k < c->nothers; k++)
        in[n++] = c->others[k].t;
    if (c->target.t.data)
        in[n++] = c->target.t;
    return n;
}

static bool compare(struct test_case *c)
{
    struct tcc_tensor in[4], out[2] = {{0}};
    int n = inputs(c, in);
    if (tccrt_run(c->session, "grad", n, in, c->each_one ? 2 : 1, out))
        return fail(c, "%s", tccrt_error());
    double got = (double)*(float *)out[0].data;
    if (float_excess(got, c->loss, 1e-6, 1e-7) > 0)
        return fail(c, "loss %.9g, PyTorch has %.9g", got, c->loss);
    for (int i = 0; i < c->neach; i++) {
        double each = (double)((float *)out[1].data)[i], want = (double)c->each[i];
        if (float_excess(each, want, 1e-6, 1e-6) > 0)
            return fail(c, "element %d's loss is %.9g, PyTorch has %.9g", i, each, want);
    }
    return compare_gradient(c, "grad.p", &c->x, c->grad) &&
           (c->nothers < 1 || compare_gradient(c, "grad.q0", &c->others[0], c->other_grads[0])) &&
           (c->nothers < 2 || compare_gradient(c, "grad.q1", &c->others[1], c->other_grads[1]));
}

/* Labels on both sides of the classes. */
static bool refuses(struct test_case *c)
{
    struct tcc_tensor in[2] = {c->x.t, c->target.t}, out = {0}, p;
    bool classes = !strncmp(c->option, "cross_entropy", 13) || !strncmp(c->option, "nll", 3);
    if (c->target.t.dtype != TCC_I64 || !classes || c->each_one || !c->target.t.dims[0])
        return true;
    for (int k = 0; k < 2; k++) {
        c->target.i[0] = k ? 5 : -1;
        int status = tccrt_run(c->session, "step", 2, in, 1, &out);
        if (status != TCC_EINDEX)
            return fail(c, "label %d gives status %d", (int)c->target.i[0], status);
        if (tccrt_state_get(c->session, "p", &p))
            return fail(c, "%s", tccrt_error());
        if (*(float *)p.data != 0)
            return fail(c, "label %d changed the state", (int)c->target.i[0]);
        if (tccrt_state_get(c->session, "train.step", &p) || *(int64_t *)p.data != 0)
            return fail(c, "label %d counted as a step", (int)c->target.i[0]);
    }
    return true;
}

int main(int argc, char **argv)
{
    FILE *in = argc == 2 ? fopen(argv[1], "r") : NULL;
    bool good = true;
    int n = 0;
    if (!in) {
        fprintf(stderr, "usage: losses-run losses.txt (in a folder to write to)\n");
        return 2;
    }
    for (;;) {
        struct test_case *c = calloc(1, sizeof *c);
        if (!c || !read_case(c, in)) {
            free(c);
            break;
        }
        c->tolerance = strncmp(c->option, "ctc", 3) ? 2e-7 : 5e-6; /* a recursion over time */
        bool ok = open_case(c) && compare(c) && refuses(c);
        printf("%sok %d - %s %s%s%s\n", ok ? "" : "not ", ++n, c->name, c->option, ok ? "" : ": ", c->why);
        fflush(stdout);
        tccrt_session_free(c->session);
        tccrt_close(c->model);
        free(c);
        good &= ok;
    }
    fclose(in);
    printf("1..%d\n", n);
    return !good;
}
