/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Misuse of the C API: each call must return the status that its line says, with a message, and the session must work
 * afterwards. The model is `func @main(%x: f32[N,8]) -> (f32[N,16], f32[N,8])` with a state variable f32[8], given as a
 * file.
 */
#include "runtime/tccrt.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int number, bad;
static float buffer[4096] __attribute__((aligned(64)));

static void want(const char *what, int expected, int status)
{
    int ok = status == expected && (status < 1 || status > 99 || *tccrt_error());

    number++;
    bad += !ok;
    printf("%s %d - %s\n", ok ? "ok" : "not ok", number, what);
    if (!ok)
        printf("# status %d, not %d: %s\n", status, expected, tccrt_error());
    fflush(stdout);
}
#define WANT(expected, call) want(#call, expected, call)

static struct tcc_tensor x_of(int64_t n)
{
    return (struct tcc_tensor){buffer, TCC_F32, 2, {n, 8}};
}

static int run(struct tccrt_session *s, struct tcc_tensor x)
{
    struct tcc_tensor out[2] = {0};

    return tccrt_run(s, NULL, 1, &x, 2, out);
}

static int run_into(struct tccrt_session *s, struct tcc_tensor first)
{
    struct tcc_tensor x = x_of(2), out[2] = {first};

    return tccrt_run(s, NULL, 1, &x, 2, out);
}

static void models(const char *path, struct tccrt_model *m)
{
    struct tccrt_model *q = NULL;
    struct tccrt_session *s = NULL;
    struct tccrt_value_info info;
    struct tccrt_options o = {0};

    WANT(TCC_EUSAGE, tccrt_open(NULL, &q));
    WANT(TCC_EUSAGE, tccrt_open(path, NULL));
    WANT(TCC_EUSAGE, tccrt_open_linked(NULL, &q));
    WANT(TCC_EINPUT, tccrt_open("/etc/passwd", &q));
    WANT(TCC_EINPUT, tccrt_open("/dev/zero", &q));
    WANT(TCC_EINPUT, tccrt_open("/tmp", &q));
    WANT(TCC_EENV, tccrt_open("", &q));
    WANT(TCC_EUSAGE, tccrt_session_new(NULL, NULL, &s));
    WANT(TCC_EUSAGE, tccrt_session_new(m, NULL, NULL));
    o.stage = 99;
    WANT(TCC_EUSAGE, tccrt_session_new(m, &o, &s));
    o.stage = -3;
    WANT(TCC_EUSAGE, tccrt_session_new(m, &o, &s));
    o = (struct tccrt_options){.threads = -1};
    WANT(TCC_EUSAGE, tccrt_session_new(m, &o, &s));
    WANT(TCC_EUSAGE, tccrt_input(m, NULL, 99, &info));
    WANT(TCC_EUSAGE, tccrt_input(m, NULL, -1, &info));
    WANT(TCC_EUSAGE, tccrt_input(m, NULL, 0, NULL));
    WANT(TCC_EUSAGE, tccrt_input(NULL, NULL, 0, &info));
    WANT(TCC_EUSAGE, tccrt_output(m, "x", 0, &info));
    WANT(TCC_EUSAGE, tccrt_output(NULL, "x", 0, &info));
    WANT(TCC_EUSAGE, tccrt_state_info(m, 5, &info));
    WANT(TCC_EUSAGE, tccrt_state_info(m, 0, NULL));
    WANT(TCC_EUSAGE, tccrt_state_info(NULL, 0, &info));
    WANT(-1, tccrt_ninputs(m, "nope"));
    WANT(-1, tccrt_ninputs(NULL, NULL));
    WANT(-1, tccrt_noutputs(NULL, NULL));
    WANT(TCC_OK,
         tccrt_entry_name(m, 77) || tccrt_entry_name(m, -1) || tccrt_entry_name(NULL, 0) || tccrt_state_flags(m, -1));
    WANT(TCC_OK, tccrt_nentries(NULL) || tccrt_nstates(NULL) || tccrt_state_flags(NULL, 0) || tccrt_name(NULL));
    WANT(TCC_EUSAGE, tccrt_call(NULL, 0, NULL, NULL));
    tccrt_session_free(NULL);
    tccrt_close(NULL);
    tccrt_tensors_close(NULL);
}

static void inputs(struct tccrt_session *s)
{
    struct tcc_tensor x = x_of(2), out[2] = {0};
    int64_t done;

    WANT(TCC_EUSAGE, tccrt_run(NULL, NULL, 1, &x, 2, out));
    WANT(TCC_EUSAGE, tccrt_run(s, NULL, 1, NULL, 2, out));
    WANT(TCC_EUSAGE, tccrt_run(s, NULL, 1, &x, 2, NULL));
    WANT(TCC_EUSAGE, tccrt_run(s, "nope", 1, &x, 2, out));
    WANT(TCC_EINPUT, tccrt_run(s, NULL, -1, &x, 2, out));
    WANT(TCC_EINPUT, tccrt_run(s, NULL, 2, &x, 2, out));
    WANT(TCC_EINPUT, tccrt_run(s, NULL, 1, &x, 1000, out));
    WANT(TCC_EUSAGE, tccrt_run_many(s, NULL, 1, 1, &x, 2, out, NULL));
    WANT(TCC_EUSAGE, tccrt_run_many(s, NULL, 1, 1, NULL, 2, out, &done));
    x.data = NULL;
    WANT(TCC_EINPUT, run(s, x));
    static const int ranks[] = {1000, -1, 1, 13};
    for (int i = 0; i < 4; i++) {
        x = x_of(2), x.rank = ranks[i];
        WANT(TCC_EINPUT, run(s, x));
    }
    static const int dtypes[] = {TCC_F64, 9999, -1, TCC_STRING};
    for (int i = 0; i < 4; i++) {
        x = x_of(2), x.dtype = dtypes[i];
        WANT(TCC_EINPUT, run(s, x));
    }
    WANT(TCC_EINPUT, run(s, x_of(INT64_C(1) << 61)));
    WANT(TCC_EINPUT, run(s, x_of(INT64_MAX)));
    WANT(TCC_EINPUT, run(s, x_of(-5)));
    WANT(TCC_OK, run(s, x_of(0)));
    x = x_of(2), x.data = (char *)buffer + 1;
    WANT(TCC_EINPUT, run(s, x));
    x.data = (char *)buffer + 4;
    WANT(TCC_OK, run(s, x));
}

static void outputs(struct tccrt_session *s)
{
    struct tcc_tensor out = {buffer + 1024, TCC_F32, 2, {2, 15}};

    WANT(TCC_EINPUT, run_into(s, out));
    out.rank = 1000;
    WANT(TCC_EINPUT, run_into(s, out));
    out.rank = -7;
    WANT(TCC_EINPUT, run_into(s, out));
    out = (struct tcc_tensor){buffer + 1024, TCC_F64, 2, {2, 16}};
    WANT(TCC_EINPUT, run_into(s, out));
    out.dtype = TCC_F32;
    WANT(TCC_OK, run_into(s, out));
}

/* -- Memory that is read and written ---------------------------------------------------------------------- */

enum { ROWS = 400, LEAD = 40 };
static float field[LEAD + 3 * ROWS * 16], apart[ROWS * 16];

/* a is x beside x, b is x plus the state, whose elements are 1 to 8; x was `first`, `first` + 1, ... */
static int is_right(const float *a, const float *b, float first)
{
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < 8; j++) {
            float x = first + (float)(i * 8 + j);

            if ((a && (a[i * 16 + j] != x || a[i * 16 + 8 + j] != x)) || (b && b[i * 8 + j] != x + (float)(j + 1)))
                return 0;
        }
    return 1;
}

static struct tcc_tensor ramp(float *at)
{
    for (int i = 0; i < ROWS * 8; i++)
        at[i] = (float)i;
    return (struct tcc_tensor){at, TCC_F32, 2, {ROWS, 8}};
}

/* An input is read as it was before the run, wherever the run writes. */
static void inputs_overwritten(struct tccrt_session *s)
{
    struct tcc_tensor x, out[2];

    for (int at = 0; at <= LEAD; at += 8) { /* rows of a in front of, at and behind those of x they are made of */
        x = ramp(field + LEAD);
        out[0] = (struct tcc_tensor){field + at, TCC_F32, 2, {ROWS, 16}};
        out[1] = (struct tcc_tensor){apart, TCC_F32, 2, {ROWS, 8}};
        WANT(TCC_OK, tccrt_run(s, NULL, 1, &x, 2, out));
        want("its first result lies over the input", 0, !is_right(out[0].data, apart, 0));
    }
    x = ramp(field);
    out[0] = (struct tcc_tensor){apart, TCC_F32, 2, {ROWS, 16}}, out[1] = x;
    WANT(TCC_OK, tccrt_run(s, NULL, 1, &x, 2, out));
    want("its second result lies in the input", 0, !is_right(apart, field, 0));
    x = ramp(field);
    memset(out, 0, sizeof out);
    WANT(TCC_OK, tccrt_run(s, NULL, 1, &x, 2, out));
    x = out[0], x.dims[0] *= 2, x.dims[1] = 8;
    memset(out, 0, sizeof out);
    WANT(TCC_OK, tccrt_run(s, NULL, 1, &x, 2, out));
    const float *a = out[0].data;
    int wrong = 0;
    for (int i = 0; i < 2 * ROWS; i++)
        for (int j = 0; j < 16; j++)
            wrong += a[i * 16 + j] != (float)(i / 2 * 8 + j % 8);
    want("the session's last result is an input", 0, wrong);
}

static void outputs_overlap(struct tccrt_session *s, const char *name)
{
    struct tcc_tensor x = ramp(apart), out[2], state;

    out[0] = (struct tcc_tensor){field, TCC_F32, 2, {ROWS, 16}};
    out[1] = (struct tcc_tensor){field + ROWS * 16 - 1, TCC_F32, 2, {ROWS, 8}};
    WANT(TCC_EINPUT, tccrt_run(s, NULL, 1, &x, 2, out));
    out[1].data = field + ROWS * 16;
    WANT(TCC_OK, tccrt_run(s, NULL, 1, &x, 2, out));
    want("results side by side", 0, !is_right(field, out[1].data, 0));
    WANT(TCC_OK, tccrt_state_get(s, name, &state));
    x = (struct tcc_tensor){state.data, TCC_F32, 2, {1, 8}};
    out[0].dims[0] = out[1].dims[0] = 1;
    WANT(TCC_OK, tccrt_run(s, NULL, 1, &x, 2, out));
    want("a state variable is an input", 0, field[0] != 1 || field[15] != 8 || field[ROWS * 16 + 7] != 16);
    out[1].data = state.data;
    WANT(TCC_EINPUT, tccrt_run(s, NULL, 1, &x, 2, out));
}

static void overlaps(struct tccrt_session *s, const char *name)
{
    struct tcc_tensor t = {buffer, TCC_F32, 1, {8}};

    for (int i = 0; i < 8; i++)
        buffer[i] = (float)(i + 1);
    WANT(TCC_OK, tccrt_state_set(s, name, &t));
    inputs_overwritten(s);
    outputs_overlap(s, name);
}

static void objects(struct tccrt_session *s)
{
    struct tcc_object o = {.refs = -1, .kind = TCC_OBJ_TENSOR, .t = x_of(2)}, *in[1] = {&o}, *out[2] = {0};

    WANT(TCC_EUSAGE, tccrt_run_objects(NULL, NULL, 1, in, 2, out));
    WANT(TCC_EUSAGE, tccrt_run_objects(s, NULL, 1, NULL, 2, out));
    WANT(TCC_EUSAGE, tccrt_run_objects(s, NULL, 1, in, 2, NULL));
    o.t.rank = 500;
    WANT(TCC_EINPUT, tccrt_run_objects(s, NULL, 1, in, 2, out));
    o.t = x_of(2), o.kind = 77;
    WANT(TCC_EINPUT, tccrt_run_objects(s, NULL, 1, in, 2, out));
    in[0] = NULL;
    WANT(TCC_EINPUT, tccrt_run_objects(s, NULL, 1, in, 2, out));
}

static void states(struct tccrt_session *s, const char *name)
{
    struct tcc_tensor t = {buffer, TCC_F32, 1, {8}}, got;
    uint64_t seed;
    int64_t runs;

    WANT(TCC_EUSAGE, tccrt_state_get(s, "nope", &got));
    WANT(TCC_EUSAGE, tccrt_state_get(s, NULL, &got));
    WANT(TCC_EUSAGE, tccrt_state_get(s, name, NULL));
    WANT(TCC_EUSAGE, tccrt_state_get(NULL, name, &got));
    WANT(TCC_EUSAGE, tccrt_state_set(s, "nope", &t));
    WANT(TCC_EUSAGE, tccrt_state_set(s, name, NULL));
    WANT(TCC_EUSAGE, tccrt_state_set(NULL, name, &t));
    WANT(TCC_OK, tccrt_state_set(s, name, &t));
    t.rank = 1000;
    WANT(TCC_EINPUT, tccrt_state_set(s, name, &t));
    t.rank = 1, t.data = NULL;
    WANT(TCC_EINPUT, tccrt_state_set(s, name, &t));
    WANT(TCC_EUSAGE, tccrt_state_bind(s, 0, &t));
    WANT(TCC_EUSAGE, tccrt_state_bind(s, 0, NULL));
    WANT(TCC_EUSAGE, tccrt_state_bind(s, 99, &t));
    WANT(TCC_EUSAGE, tccrt_state_bind(NULL, 0, &t));
    WANT(TCC_EUSAGE, tccrt_checkpoint_save(NULL, "x", 0, 0, NULL));
    WANT(TCC_EUSAGE, tccrt_checkpoint_save(s, NULL, 0, 0, NULL));
    WANT(TCC_EUSAGE, tccrt_checkpoint_load(s, NULL, 0));
    WANT(TCC_EUSAGE, tccrt_checkpoint_load(NULL, "x", 0));
    WANT(TCC_EUSAGE, tccrt_profile(s, NULL) < 0 ? TCC_EUSAGE : TCC_OK);
    WANT(TCC_EUSAGE, tccrt_profile_trace(s, "/dev/null"));
    WANT(TCC_EUSAGE, tccrt_profile_trace(NULL, "/dev/null"));
    WANT(TCC_EUSAGE, tccrt_profile_reset(NULL));
    WANT(TCC_EUSAGE, tccrt_observe_tiles(NULL, false, NULL, NULL));
    tccrt_random_get(NULL, &seed, &runs);
    tccrt_random_get(s, NULL, NULL);
    tccrt_random_set(NULL, 1, 1);
}

static void files(void)
{
    struct tccrt_tensors *f;
    struct tccrt_named named = {NULL, x_of(2)}, deep = {"x", {buffer, TCC_F32, 13, {1}}},
                       none = {"x", {NULL, TCC_F32, 1, {4}}};

    WANT(TCC_EUSAGE, tccrt_tensors_open(NULL, &f));
    WANT(TCC_EUSAGE, tccrt_tensors_open("x", NULL));
    WANT(TCC_EUSAGE, tccrt_tensors_write(NULL, 0, NULL, 0, NULL));
    WANT(TCC_EUSAGE, tccrt_tensors_write("x.safetensors", 1, NULL, 0, NULL));
    WANT(TCC_EUSAGE, tccrt_tensors_write("x.safetensors", 0, NULL, 1, NULL));
    WANT(TCC_EUSAGE, tccrt_tensors_write("x.safetensors", -1, NULL, 0, NULL));
    WANT(TCC_EUSAGE, tccrt_tensors_write("x.safetensors", 1, &named, 0, NULL));
    WANT(TCC_EUSAGE, tccrt_tensors_write("x.safetensors", 1, &deep, 0, NULL));
    WANT(TCC_EUSAGE, tccrt_tensors_write("x.safetensors", 1, &none, 0, NULL));
    WANT(TCC_EUSAGE, tccrt_tensors_check(NULL));
    WANT(TCC_OK, tccrt_tensors_count(NULL) || tccrt_tensors_at(NULL, 0) || tccrt_tensors_find(NULL, "x") ||
                     access("x.safetensors", F_OK) == 0);
}

/* -- Threads: one session, used by two at once, answers the second; sessions of their own are independent. */

struct worker { struct tccrt_session *s; int ok, busy, other; };

static void *work(void *arg)
{
    struct worker *w = arg;
    float mine[64 * 8] = {0};

    for (int i = 0; i < 3000; i++) {
        struct tcc_tensor x = {mine, TCC_F32, 2, {1 + i * 7 % 64, 8}}, out[2] = {0};
        int status = tccrt_run(w->s, NULL, 1, &x, 2, out);

        w->ok += !status;
        w->busy += status == TCC_EUSAGE && strstr(tccrt_error(), "in use by another thread") != NULL;
        w->other += status && status != TCC_EUSAGE;
    }
    return NULL;
}

static void threads(struct tccrt_model *m, struct tccrt_session *s)
{
    struct worker w[4] = {{s}, {s}, {s}, {s}};
    pthread_t t[4];
    int sum = 0, ok = 0;

    for (int i = 0; i < 4; i++)
        pthread_create(&t[i], NULL, work, &w[i]);
    for (int i = 0; i < 4; i++) {
        pthread_join(t[i], NULL);
        sum += w[i].ok + w[i].busy;
        ok += w[i].ok;
    }
    want("four threads with one session: each call runs or is refused", TCC_OK, sum == 12000 && ok > 0 ? TCC_OK : 1);
    want("and the session works afterwards", TCC_OK, run(s, x_of(3)));
    for (int i = 0; i < 4; i++) {
        w[i] = (struct worker){0};
        want("a session of its own", TCC_OK, tccrt_session_new(m, &(struct tccrt_options){.threads = 1}, &w[i].s));
        pthread_create(&t[i], NULL, work, &w[i]);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(t[i], NULL);
        want("never refused", 3000, w[i].ok);
        tccrt_session_free(w[i].s);
    }
}

/* A forked child runs its parent's session. */
static void forks(struct tccrt_model *m)
{
    struct tccrt_session *s = NULL;
    int state = 0;

    WANT(TCC_OK, tccrt_session_new(m, &(struct tccrt_options){.threads = 4}, &s));
    WANT(TCC_OK, run(s, x_of(64)));
    fflush(stdout);
    pid_t child = fork();
    if (!child) {
        alarm(20);
        _exit(run(s, x_of(64)));
    }
    waitpid(child, &state, 0);
    want("a forked child's run", 0, state);
    tccrt_session_free(s);
}

int main(int argc, char **argv)
{
    struct tccrt_model *m;
    struct tccrt_session *s;

    alarm(120);
    if (argc != 3 || tccrt_open(argv[1], &m) || tccrt_session_new(m, &(struct tccrt_options){.threads = 1}, &s)) {
        fprintf(stderr, "usage: misuse MODEL.so STATE; %s\n", tccrt_error());
        return 99;
    }
    models(argv[1], m);
    inputs(s);
    outputs(s);
    overlaps(s, argv[2]);
    objects(s);
    states(s, argv[2]);
    files();
    want("the session works afterwards", TCC_OK, run(s, x_of(3)));
    threads(m, s);
    forks(m);
    tccrt_session_free(s);
    tccrt_close(m);
    printf("1..%d\n", number);
    return bad != 0;
}
