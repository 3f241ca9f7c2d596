/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs that are only given, in the order of a caller's stream. Each stream has a session of its own (a model with state
 * has one for all), so that runs of different streams don't wait for each other. What a run reads and writes is kept
 * until it is known to be done: when it was waited for, or so many came behind it that the runtime has waited.
 */
#include "tools/python/model_int.h"

#include <stdlib.h>
#include <string.h>

enum {
    RUNS = sizeof((struct lane *)0)->kept / sizeof *((struct lane *)0)->kept
}; /* as many as the runtime has under way at once */

/* What others call a stream: attributes that hold its number. */
static const char *const attributes[] = {"cuda_stream", "ptr", "handle"};

static PyObject *number_of(PyObject *o)
{
    PyObject *pair =
        PyObject_HasAttrString(o, "__cuda_stream__") ? PyObject_CallMethod(o, "__cuda_stream__", NULL) : NULL;
    PyObject *number = NULL;
    if (pair) {
        number = PySequence_GetItem(pair, 1); /* (version, address) */
        Py_DECREF(pair);
        return number;
    }
    for (size_t i = 0; i < sizeof attributes / sizeof *attributes && !number && !PyErr_Occurred(); i++)
        if (PyObject_HasAttrString(o, attributes[i]))
            number = PyObject_GetAttrString(o, attributes[i]);
    return number;
}

int py_stream(PyObject *o, uintptr_t *stream)
{
    PyObject *number = o == Py_None || PyLong_Check(o) ? Py_NewRef(o) : number_of(o);
    long long n = -1;
    *stream = 0;
    if (number && number != Py_None) {
        n = PyLong_Check(number) ? PyLong_AsLongLong(number) : -1;
        *stream = n ? (uintptr_t)n : 1; /* the default stream, as DLPack has it */
    }
    bool none = number == Py_None;
    Py_XDECREF(number);
    if (none || n >= 0)
        return 0;
    return PyErr_Occurred()
               ? -1
               : py_fail(TCC_EUSAGE, "expected a stream: its number, or an object that has one (torch.cuda.Stream)");
}

/* -- Lanes -------------------------------------------------------------------------------------------------- */

static struct lane *find_lane(struct model *m, uintptr_t stream)
{
    for (int i = 0; i < m->nlanes; i++)
        if (m->single || m->lanes[i]->stream == stream)
            return m->lanes[i];
    return NULL;
}

/* The session of a model with state is everybody's, and so is its lock. */
static struct lane *new_lane(struct model *m, uintptr_t stream)
{
    struct lane *lane = calloc(1, sizeof *lane), **list = NULL;
    struct tccrt_session *s = lane ? py_take_session(m) : NULL;
    PyThread_type_lock lock = m->single ? m->lock : s ? PyThread_allocate_lock() : NULL;
    if (s && lock && !find_lane(m, stream)) /* another thread may have made it while the session was */
        list = realloc(m->lanes, ((size_t)m->nlanes + 1) * sizeof *list);
    if (s && (m->single || !list))
        py_give_session(m, s);
    if (!list) {
        if (lock && !m->single)
            PyThread_free_lock(lock);
        free(lane);
        return find_lane(m, stream) ? find_lane(m, stream) : (PyErr_Occurred() ? NULL : (PyErr_NoMemory(), NULL));
    }
    *lane = (struct lane){.stream = stream, .s = s, .lock = lock};
    m->lanes = list;
    return m->lanes[m->nlanes++] = lane;
}

struct lane *py_take_lane(struct model *m, uintptr_t stream)
{
    struct lane *lane = find_lane(m, stream);
    if (!m->m)
        return py_fail(TCC_EUSAGE, "the model is closed"), NULL;
    if (!lane && !(lane = new_lane(m, stream)))
        return NULL;
    py_lock(lane->lock);
    lane->stream = stream;
    return lane;
}

void py_give_lane(struct lane *lane)
{
    PyThread_release_lock(lane->lock);
}

/* Objects that go may free arrays, which takes locks: the caller holds none. */
static void forget(int n, struct kept *list)
{
    for (int k = 0; k < n; k++) {
        for (int i = 0; i < list[k].n; i++)
            py_value_free(&list[k].values[i]);
        free(list[k].values);
        Py_XDECREF(list[k].objects);
    }
}

int py_keep(struct lane *lane, int64_t ticket, int n, struct py_value *values, PyObject *objects)
{
    struct kept old[RUNS], kept = {ticket, n, malloc((size_t)n * sizeof *values + 1), objects};
    int nold = 0, waited = TCC_OK;
    if (!kept.values) {
        waited = tccrt_wait(lane->s, 0);
        py_give_lane(lane);
        Py_XDECREF(objects);
        return py_failed(waited);
    }
    memcpy(kept.values, values, (size_t)n * sizeof *values);
    memset(values, 0, (size_t)n * sizeof *values);
    while (nold < lane->nkept && (lane->kept[nold].ticket <= ticket - RUNS || lane->nkept - nold == RUNS)) {
        old[nold] = lane->kept[nold];
        nold++;
    }
    memmove(lane->kept, lane->kept + nold, (size_t)(lane->nkept - nold) * sizeof *lane->kept);
    lane->nkept -= nold;
    lane->kept[lane->nkept++] = kept;
    py_give_lane(lane);
    forget(nold, old);
    return 0;
}

int py_wait_lane(struct lane *lane)
{
    struct kept old[RUNS];
    int n, status;
    Py_BEGIN_ALLOW_THREADS status = tccrt_wait(lane->s, 0);
    Py_END_ALLOW_THREADS n = lane->nkept;
    memcpy(old, lane->kept, (size_t)n * sizeof *old);
    lane->nkept = 0;
    int bad = py_failed(status);
    py_give_lane(lane);
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    forget(n, old);
    PyErr_Restore(type, value, trace);
    return bad;
}

int py_wait_but(struct model *m, uintptr_t stream)
{
    PyObject *type = NULL, *value, *trace;
    for (int i = 0; i < m->nlanes; i++) {
        struct lane *lane = m->lanes[i];
        if (!lane->nkept || (stream && lane->stream == stream))
            continue;
        py_lock(lane->lock);
        if (py_wait_lane(lane) && !type)
            PyErr_Fetch(&type, &value, &trace); /* the first, when all have been waited for */
    }
    if (type)
        PyErr_Restore(type, value, trace);
    return type ? -1 : 0;
}

int py_wait(struct model *m)
{
    return py_wait_but(m, 0);
}

void py_free_lanes(struct model *m)
{
    for (int i = 0; i < m->nlanes; i++) {
        struct lane *lane = m->lanes[i];
        if (!m->single) {
            tccrt_session_free(lane->s);
            PyThread_free_lock(lane->lock);
        }
        free(lane);
    }
    free(m->lanes);
    m->lanes = NULL;
    m->nlanes = 0;
}

PyObject *model_wait(PyObject *self, PyObject *unused)
{
    (void)unused;
    return py_wait((struct model *)self) ? NULL : Py_NewRef(Py_None);
}
