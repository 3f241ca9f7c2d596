/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs any compiled model that takes tensors: opens it, prints its entry points with the names, types and shapes of their
 * inputs and outputs, runs the first one on a ramp of numbers (unknown dims are 1) and prints each output's first values.
 *
 *   dlopen MODEL.so
 *
 * Build: cc -I TOP/runtime dlopen.c libtccrt.a -lm -lpthread -ldl (or pkg-config tccrt).
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tccrt.h>

enum { MAX_VALUES = 16 };

static const char *const dtype_names[TCC_NDTYPES] = {
#define X(id, n, name, bytes, class) [n] = name,
    TCC_DTYPES(X)
#undef X
};
static const int dtype_bytes[TCC_NDTYPES] = {
#define X(id, n, name, bytes, class) [n] = bytes,
    TCC_DTYPES(X)
#undef X
};

static void print_value(const char *what, const struct tccrt_value_info *v)
{
    printf("  %s %s: %s [", what, v->name, v->dtype > 0 && v->dtype < TCC_NDTYPES ? dtype_names[v->dtype] : "?");
    for (int i = 0; i < v->rank; i++) {
        const char *comma = i ? ", " : "";
        if (v->dims[i] >= 0)
            printf("%s%" PRId64, comma, v->dims[i]);
        else
            printf("%s%s", comma, v->dim_names[i] ? v->dim_names[i] : "?");
    }
    printf("]\n");
}

static int print_entry(const struct tccrt_model *m, const char *entry)
{
    struct tccrt_value_info v;

    printf("entry %s\n", entry);
    for (int i = 0; i < tccrt_ninputs(m, entry); i++) {
        if (tccrt_input(m, entry, i, &v) != TCC_OK)
            return 1;
        print_value("input", &v);
    }
    for (int i = 0; i < tccrt_noutputs(m, entry); i++) {
        if (tccrt_output(m, entry, i, &v) != TCC_OK)
            return 1;
        print_value("output", &v);
    }
    return 0;
}

/* A tensor for input `v`: dims that are not known become 1; f32 elements are i / n, all others 0. */
static int make_input(const struct tccrt_value_info *v, struct tcc_tensor *t)
{
    int64_t n = 1;

    if (v->kind != TCC_OBJ_TENSOR || v->rank < 0 || v->dtype <= 0 || v->dtype >= TCC_NDTYPES ||
        v->dtype == TCC_STRING) {
        fprintf(stderr, "dlopen: input %s is not a tensor of numbers\n", v->name);
        return 1;
    }
    memset(t, 0, sizeof *t);
    t->dtype = v->dtype;
    t->rank = v->rank;
    for (int i = 0; i < v->rank; i++)
        n *= t->dims[i] = v->dims[i] < 0 ? 1 : v->dims[i];
    t->data = calloc((size_t)n + 1, (size_t)dtype_bytes[v->dtype]);
    if (!t->data)
        return 1;
    for (int64_t i = 0; v->dtype == TCC_F32 && i < n; i++)
        ((float *)t->data)[i] = (float)i / (float)n;
    return 0;
}

static void print_output(const char *name, const struct tcc_tensor *t)
{
    int64_t n = 1;

    for (int i = 0; i < t->rank; i++)
        n *= t->dims[i];
    printf("%s =", name);
    for (int64_t i = 0; i < n && i < 8; i++) {
        if (t->dtype == TCC_F32)
            printf(" %g", (double)((const float *)t->data)[i]);
        else if (t->dtype == TCC_I64)
            printf(" %" PRId64, ((const int64_t *)t->data)[i]);
    }
    printf("%s\n", n > 8 ? " ..." : "");
}

static int run(struct tccrt_model *m)
{
    const char *entry = tccrt_entry_name(m, 0);
    int nin = tccrt_ninputs(m, entry), nout = tccrt_noutputs(m, entry), status = 0;
    struct tcc_tensor in[MAX_VALUES] = {{0}}, out[MAX_VALUES] = {{0}};
    struct tccrt_session *s = NULL;
    struct tccrt_value_info v;

    if (nin < 0 || nout < 0 || nin > MAX_VALUES || nout > MAX_VALUES)
        return 1;
    for (int i = 0; status == 0 && i < nin; i++)
        status = tccrt_input(m, entry, i, &v) != TCC_OK || make_input(&v, &in[i]);
    if (status == 0 &&
        (tccrt_session_new(m, NULL, &s) != TCC_OK || tccrt_run(s, entry, nin, in, nout, out) != TCC_OK)) {
        fprintf(stderr, "dlopen: %s\n", tccrt_error());
        status = 1;
    }
    for (int i = 0; status == 0 && i < nout; i++) {
        status = tccrt_output(m, entry, i, &v) != TCC_OK;
        print_output(v.name, &out[i]);
    }
    tccrt_session_free(s);
    for (int i = 0; i < nin; i++)
        free(in[i].data);
    return status;
}

int main(int argc, char **argv)
{
    struct tccrt_model *m;
    int status = 0;

    if (argc != 2) {
        fprintf(stderr, "usage: dlopen MODEL.so\n");
        return 2;
    }
    if (tccrt_open(argv[1], &m) != TCC_OK) {
        fprintf(stderr, "dlopen: %s\n", tccrt_error());
        return 1;
    }
    printf("model %s, runtime %s\n", tccrt_name(m), tccrt_version());
    for (int i = 0; status == 0 && i < tccrt_nentries(m); i++)
        status = print_entry(m, tccrt_entry_name(m, i));
    if (status == 0)
        status = run(m);
    tccrt_close(m);
    return status;
}
