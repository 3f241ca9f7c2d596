/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program of which the compiler and the runtime are a part, and whose threads are not as a plain program's:
 *
 *   host AS MODEL OUT.so TRACE.json     compiles, opens, runs, writes a trace; TRACE "-": a training step is compiled
 *
 * AS: plain; comma (a locale that writes 0,5); flushed (denormals are 0); upward (rounding); trapping (0 / 0 is a
 * signal); childless (SIGCHLD is ignored); narrow (a stack of 64 KiB). Exit status 77: this cannot be had here.
 */
#include "compiler/tccc.h"
#include "runtime/tccrt.h"

#include <fenv.h>
#include <locale.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#ifdef __SSE2__
#include <xmmintrin.h>
#endif

enum { NO_SUCH_THING = 77, NARROW = 64 << 10 };

static void say(void *user, int severity, const char *text)
{
    (void)user;
    if (severity)
        fprintf(stderr, "%s\n", text);
}

static int compile(const char *model, const char *output, bool training)
{
    struct tccc_train train = {.loss = "mse", .optimizer = "adamw:lr=0.0625,weight_decay=0.25", .clip_norm = 0.75};
    struct tccc_options o;

    tccc_options_init(&o);
    o.model = model;
    o.output = output;
    o.message = say;
    o.train = training ? &train : NULL;
    return tccc_compile(&o);
}

static int run(const char *path, const char *trace)
{
    struct tccrt_model *m;
    struct tccrt_session *s;
    float x[64 * 8] = {0.5f};
    struct tcc_tensor in = {x, TCC_F32, 2, {64, 8}}, out[2] = {0};

    if (tccrt_open(path, &m) || tccrt_session_new(m, &(struct tccrt_options){.profile = true}, &s) ||
        tccrt_run(s, NULL, 1, &in, 2, out) || tccrt_profile_trace(s, trace)) {
        fprintf(stderr, "%s\n", tccrt_error());
        return 1;
    }
    tccrt_session_free(s);
    tccrt_close(m);
    return 0;
}

static char **args;

static void *work(void *status)
{
    bool training = !strcmp(args[4], "-");

    *(int *)status = compile(args[2], args[3], training);
    if (!*(int *)status && !training)
        *(int *)status = run(args[3], args[4]);
    return NULL;
}

static int with_a_narrow_stack(void)
{
    pthread_attr_t a;
    pthread_t t;
    int status = NO_SUCH_THING;

    pthread_attr_init(&a);
    if (!pthread_attr_setstacksize(&a, NARROW) && !pthread_create(&t, &a, work, &status))
        pthread_join(t, NULL);
    return status;
}

static bool become(const char *as)
{
    if (!strcmp(as, "comma"))
        return setlocale(LC_ALL, "de_DE.UTF-8") != NULL;
    if (!strcmp(as, "upward"))
        return fesetround(FE_UPWARD) == 0;
    if (!strcmp(as, "childless"))
        return signal(SIGCHLD, SIG_IGN) != SIG_ERR;
#ifdef __SSE2__
    if (!strcmp(as, "flushed"))
        return _mm_setcsr(_mm_getcsr() | 0x8040), true;
#endif
#ifdef __GLIBC__
    if (!strcmp(as, "trapping"))
        return feenableexcept(FE_DIVBYZERO | FE_INVALID | FE_OVERFLOW) != -1;
#endif
    return !strcmp(as, "plain");
}

int main(int argc, char **argv)
{
    int status = 0, round;
    char half[8];

    if (argc != 5)
        return 2;
    args = argv;
    if (!strcmp(argv[1], "narrow"))
        return with_a_narrow_stack();
    if (!become(argv[1]))
        return NO_SUCH_THING;
    round = fegetround();
    work(&status);
    snprintf(half, sizeof half, "%.1f", 0.5); /* the program's thread is as it was */
    return status ? status : strcmp(half, strcmp(argv[1], "comma") ? "0.5" : "0,5") || fegetround() != round;
}
