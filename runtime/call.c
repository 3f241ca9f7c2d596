/* SPDX-License-Identifier: Apache-2.0 */
/*
 * call.c - what an artifact's own C functions (NAME_ENTRY) call: a run without a session of the caller's. Idle sessions
 * are kept per model, so that calls from several threads at once work and later ones are cheap; a model with state has
 * one session, which calls take in turn. Everything is released when the library or program that holds it ends.
 */
#include <pthread.h>
#include <stdlib.h>

#include "runtime/rt_int.h"

struct idle {
    struct tccrt_session *session;
    struct idle *next;
};
struct called {
    const struct tcc_model *linked;
    struct tccrt_model *model;
    struct idle *idle;
    bool busy; /* the one session of a model with state is out */
    struct called *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t returned = PTHREAD_COND_INITIALIZER;
static struct called *models;

/* The model's entry in the list, opened at the first call. Under the lock. */
static int find(const struct tcc_model *linked, struct called **out)
{
    for (*out = models; *out; *out = (*out)->next)
        if ((*out)->linked == linked)
            return TCC_OK;
    struct called *c = calloc(1, sizeof *c);
    if (!c)
        return tcr_fail(TCC_EENV, "no memory");
    int status = tccrt_open_linked(linked, &c->model);
    if (status) {
        free(c);
        return status;
    }
    c->linked = linked;
    c->next = models;
    models = c;
    *out = c;
    return TCC_OK;
}

static int take(const struct tcc_model *linked, struct called **model, struct idle **session)
{
    pthread_mutex_lock(&lock);
    int status = find(linked, model);
    bool alone = !status && tccrt_nstates((*model)->model) > 0;
    while (alone && (*model)->busy)
        pthread_cond_wait(&returned, &lock);
    if (!status) {
        (*model)->busy = alone;
        *session = (*model)->idle;
        if (*session)
            (*model)->idle = (*session)->next;
    }
    pthread_mutex_unlock(&lock);
    if (status || *session)
        return status;
    *session = calloc(1, sizeof **session);
    status =
        *session ? tccrt_session_new((*model)->model, NULL, &(*session)->session) : tcr_fail(TCC_EENV, "no memory");
    if (status) {
        free(*session);
        *session = NULL;
    }
    return status;
}

static void give_back(struct called *model, struct idle *session)
{
    pthread_mutex_lock(&lock);
    if (session) {
        session->next = model->idle;
        model->idle = session;
    }
    model->busy = false;
    pthread_cond_broadcast(&returned);
    pthread_mutex_unlock(&lock);
}

int tccrt_call(const struct tcc_model *linked, int entry, const struct tcc_tensor *in, struct tcc_tensor *out)
{
    struct called *model = NULL;
    struct idle *session = NULL;
    if (!linked)
        return tcr_fail(TCC_EUSAGE, "a model is required, got NULL");
    int status = take(linked, &model, &session);
    if (!status) {
        const char *name = tccrt_entry_name(model->model, entry);
        int nout = tccrt_noutputs(model->model, name);
        if (nout > 0 && !out)
            status = tcr_fail(TCC_EUSAGE, "entry point %d: a list of outputs is required, got NULL", entry);
        for (int i = 0; i < nout && !status; i++)
            if (!out[i].data)
                status = tcr_fail(TCC_EUSAGE,
                                  "output %d: its memory must be given (use a session where the size is not known)", i);
        if (!status)
            status = tccrt_run(session->session, name, tccrt_ninputs(model->model, name), in, nout, out);
    }
    if (model)
        give_back(model, session);
    return status;
}

static __attribute__((destructor)) void release(void)
{
    for (struct called *c = models, *next; c; c = next) {
        next = c->next;
        for (struct idle *i = c->idle, *after; i; i = after) {
            after = i->next;
            tccrt_session_free(i->session);
            free(i);
        }
        tccrt_close(c->model);
        free(c);
    }
    models = NULL;
}
