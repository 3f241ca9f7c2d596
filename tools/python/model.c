/* SPDX-License-Identifier: Apache-2.0 */
/*
 * _runtime.Model: an open artifact, the sessions in which it runs, and calls.
 *
 * A model without state has as many sessions as threads call it at once: a call takes one that is free. One with state (a training step, a
 * cache) has one session, and calls take turns. The GIL is given up while the model runs.
 */
#include "tools/python/model_int.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* -- Sessions ------------------------------------------------------------------------------------------------- */

static void lock(struct model *m)
{
    if (PyThread_acquire_lock(m->lock, NOWAIT_LOCK) == PY_LOCK_ACQUIRED)
        return;
    Py_BEGIN_ALLOW_THREADS PyThread_acquire_lock(m->lock, WAIT_LOCK);
    Py_END_ALLOW_THREADS
}

static struct tccrt_session *new_session(struct model *m)
{
    struct tccrt_session *s = NULL;
    int status;
    Py_BEGIN_ALLOW_THREADS status = tccrt_session_new(m->m, &m->options, &s);
    Py_END_ALLOW_THREADS return py_failed(status) ? NULL : s;
}

struct tccrt_session *py_take_session(struct model *m)
{
    if (!m->m) {
        py_fail(TCC_EUSAGE, "the model is closed");
        return NULL;
    }
    if (!m->single)
        return m->nfree ? m->free_sessions[--m->nfree] : new_session(m);
    lock(m);
    if (!m->own && !(m->own = new_session(m)))
        PyThread_release_lock(m->lock);
    return m->own;
}

void py_give_session(struct model *m, struct tccrt_session *s)
{
    if (m->single && s == m->own) {
        PyThread_release_lock(m->lock);
        return;
    }
    if (m->nfree == m->capacity) {
        int more = m->capacity ? 2 * m->capacity : 4;
        struct tccrt_session **list = realloc(m->free_sessions, (size_t)more * sizeof *list);
        if (!list) {
            tccrt_session_free(s);
            return;
        }
        m->free_sessions = list;
        m->capacity = more;
    }
    m->free_sessions[m->nfree++] = s;
}

/* -- Opening ------------------------------------------------------------------------------------------------------- */

static bool plain_value(const struct tccrt_value_info *v)
{
    return v->kind == TCC_OBJ_TENSOR && !v->optional && v->rank >= 0 && v->dtype != TCC_STRING && v->dtype != TCC_NONE;
}

static int read_entry(struct tccrt_model *m, int number, struct entry *e)
{
    e->name = tccrt_entry_name(m, number);
    e->nin = tccrt_ninputs(m, e->name);
    e->nout = tccrt_noutputs(m, e->name);
    e->in = calloc((size_t)e->nin + 1, sizeof *e->in);
    e->out = calloc((size_t)e->nout + 1, sizeof *e->out);
    if (!e->in || !e->out) {
        PyErr_NoMemory();
        return -1;
    }
    e->plain = e->fixed = true;
    for (int i = 0; i < e->nin; i++) {
        if (py_failed(tccrt_input(m, e->name, i, &e->in[i])))
            return -1;
        e->plain &= plain_value(&e->in[i]);
    }
    for (int i = 0; i < e->nout; i++) {
        if (py_failed(tccrt_output(m, e->name, i, &e->out[i])))
            return -1;
        e->plain &= plain_value(&e->out[i]);
        for (int d = 0; d < e->out[i].rank; d++)
            e->fixed &= e->out[i].dims[d] >= 0;
    }
    e->fixed &= e->plain;
    return 0;
}

static void close_model(struct model *m)
{
    for (int i = 0; i < m->nfree; i++)
        tccrt_session_free(m->free_sessions[i]);
    m->nfree = 0;
    tccrt_session_free(m->own);
    m->own = NULL;
    for (int i = 0; i < m->nentries; i++) {
        free(m->entries[i].in);
        free(m->entries[i].out);
    }
    free(m->entries);
    m->entries = NULL;
    m->nentries = 0;
    tccrt_close(m->m);
    m->m = NULL;
}

static int open_model(struct model *m, const char *path)
{
    int status;
    Py_BEGIN_ALLOW_THREADS status = tccrt_open(path, &m->m);
    Py_END_ALLOW_THREADS if (py_failed(status)) return -1;
    m->single = tccrt_nstates(m->m) > 0;
    int n = tccrt_nentries(m->m);
    m->entries = calloc((size_t)n + 1, sizeof *m->entries);
    if (!m->entries) {
        PyErr_NoMemory();
        return -1;
    }
    for (; m->nentries < n; m->nentries++)
        if (read_entry(m->m, m->nentries, &m->entries[m->nentries])) {
            m->nentries++;
            return -1;
        }
    return 0;
}

static char *text(const char *s)
{
    return s ? strdup(s) : NULL;
}

static PyObject *model_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"path", "threads", "device", "seed", "sim", "rounding", "profile", "stage", NULL};
    PyObject *path = NULL;
    int threads = 0, profile = 0, stage = 0;
    unsigned long long seed = 0;
    const char *device = NULL, *sim = NULL, *rounding = NULL;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&|$izKzzpi:Model", names, PyUnicode_FSConverter, &path, &threads,
                                     &device, &seed, &sim, &rounding, &profile, &stage))
        return NULL;
    struct model *m = (struct model *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (m) {
        m->lock = PyThread_allocate_lock();
        m->device = text(device);
        m->sim = text(sim);
        m->rounding = text(rounding);
        m->options = (struct tccrt_options){.threads = threads,
                                            .seed = seed,
                                            .profile = profile,
                                            .stage = stage,
                                            .device = m->device,
                                            .sim = m->sim,
                                            .rounding = m->rounding};
        struct tccrt_session *first = m->lock && !open_model(m, PyBytes_AsString(path)) ? py_take_session(m) : NULL;
        if (first) { /* so that a device that isn't there is said at once */
            py_give_session(m, first);
        } else {
            Py_DECREF((PyObject *)m);
            m = NULL;
        }
    }
    Py_DECREF(path);
    return (PyObject *)m;
}

static void model_free(PyObject *self)
{
    struct model *m = (struct model *)self;
    PyTypeObject *type = Py_TYPE(self);
    close_model(m);
    free(m->free_sessions);
    free(m->device);
    free(m->sim);
    free(m->rounding);
    if (m->lock)
        PyThread_free_lock(m->lock);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF((PyObject *)type);
}

/* -- Calls ---------------------------------------------------------------------------------------------------------- */

/* What a call needs beside its results; of small signatures it lies on the stack. */
struct call {
    struct model *m;
    const struct entry *e;
    struct py_kind kind;
    struct py_value *values;
    struct tcc_tensor *in, *out;
    struct py_result *results;
    struct tcc_object *headers, **objects, **made;
};

static PyObject *tuple_or_one(const struct entry *e, bool always, PyObject *(*get)(void *user, int i), void *user)
{
    if (e->nout == 1 && !always)
        return get(user, 0);
    PyObject *all = PyTuple_New(e->nout);
    for (int i = 0; all && i < e->nout; i++) {
        PyObject *x = get(user, i);
        if (!x || PyTuple_SetItem(all, i, x)) {
            Py_DECREF(all);
            all = NULL;
        }
    }
    return all;
}

static PyObject *get_result(void *user, int i)
{
    return py_result_done(&((struct call *)user)->results[i]);
}

static PyObject *run_fixed(struct call *c)
{
    const struct entry *e = c->e;
    PyObject *result = NULL;
    int made = 0, bad = 0, status;
    for (int i = 0; i < e->nin; i++)
        c->in[i] = c->values[i].t;
    while (!bad && made < e->nout) {
        struct tcc_tensor *t = &c->out[made];
        *t = (struct tcc_tensor){.dtype = e->out[made].dtype, .rank = e->out[made].rank};
        memcpy(t->dims, e->out[made].dims, (size_t)t->rank * sizeof *t->dims);
        bad = py_result_make(&c->kind, t, &c->results[made++]);
        if (!t->data) /* no elements; the runtime wants an address */
            t->data = c->out;
    }
    struct tccrt_session *s = bad ? NULL : py_take_session(c->m);
    if (s) {
        Py_BEGIN_ALLOW_THREADS status = tccrt_run(s, e->name, e->nin, c->in, e->nout, c->out);
        Py_END_ALLOW_THREADS py_give_session(c->m, s);
        if (!py_failed(status))
            result = tuple_or_one(e, c->kind.for_autograd, get_result, c);
    }
    for (int i = 0; i < made; i++)
        py_result_drop(&c->results[i]);
    return result;
}

static PyObject *get_object(void *user, int i)
{
    struct call *c = user;
    struct tcc_object *o = c->made[i];
    c->made[i] = NULL;
    return py_result_object(&c->kind, o);
}

static PyObject *run_objects(struct call *c)
{
    const struct entry *e = c->e;
    PyObject *result = NULL;
    int status;
    for (int i = 0; i < e->nin; i++) {
        c->headers[i] = (struct tcc_object){.refs = -1, .kind = TCC_OBJ_TENSOR, .t = c->values[i].t};
        c->objects[i] = c->values[i].none ? NULL : c->values[i].object ? c->values[i].object : &c->headers[i];
    }
    struct tccrt_session *s = py_take_session(c->m);
    if (!s)
        return NULL;
    Py_BEGIN_ALLOW_THREADS status = tccrt_run_objects(s, e->name, e->nin, c->objects, e->nout, c->made);
    Py_END_ALLOW_THREADS py_give_session(c->m, s);
    if (!py_failed(status))
        result = tuple_or_one(e, c->kind.for_autograd, get_object, c);
    for (int i = 0; i < e->nout && !status; i++)
        tccrt_object_unref(c->made[i]);
    return result;
}

static PyObject *run(struct model *m, const struct entry *e, PyObject **given, bool for_autograd)
{
    enum { FEW = 6 };
    struct py_value values[FEW];
    struct tcc_tensor in[FEW], out[FEW];
    struct py_result results[FEW];
    struct tcc_object headers[FEW], *objects[FEW], *made[FEW];
    struct call c = {m, e, {.for_autograd = for_autograd}, values, in, out, results, headers, objects, made};
    PyObject *result = NULL;
    char *block = NULL;
    if (e->nin > FEW || e->nout > FEW) {
        size_t n = (size_t)(e->nin > e->nout ? e->nin : e->nout);
        block = calloc(n, sizeof *values + sizeof *in + sizeof *out + sizeof *results + sizeof *headers +
                              2 * sizeof *objects);
        if (!block)
            return PyErr_NoMemory();
        c.values = (struct py_value *)block;
        c.in = (struct tcc_tensor *)(c.values + n);
        c.out = c.in + n;
        c.results = (struct py_result *)(c.out + n);
        c.headers = (struct tcc_object *)(c.results + n);
        c.objects = (struct tcc_object **)(c.headers + n);
        c.made = c.objects + n;
    }
    int taken = 0, bad = 0;
    while (taken < e->nin && !bad) {
        c.values[taken] = (struct py_value){0};
        bad = py_value_take(given[taken], &e->in[taken], &c.values[taken], &c.kind);
        taken++;
    }
    if (!bad) {
        for (int i = 0; i < e->nout; i++)
            c.made[i] = NULL;
        result = e->fixed ? run_fixed(&c) : run_objects(&c);
    }
    for (int i = 0; i < taken; i++)
        py_value_free(&c.values[i]);
    free(block);
    return result;
}

static int wrong_inputs(const struct entry *e, const char *what, const char *name)
{
    char list[400] = "";
    size_t at = 0;
    for (int i = 0; i < e->nin && at < sizeof list - 40; i++) {
        int n = snprintf(list + at, sizeof list - at, "%s%.60s", i ? ", " : "", e->in[i].name);
        at += n > 0 ? (size_t)n : 0;
    }
    return py_fail(TCC_EUSAGE, "'%s' takes %d inputs (%.380s): %s%s", e->name, e->nin, list, what, name);
}

/* Positional inputs in order, others by name; an optional input that is not given is None. */
static int gather(const struct entry *e, PyObject *args, Py_ssize_t skip, PyObject *kwargs, PyObject **given)
{
    Py_ssize_t n = PyTuple_Size(args) - skip, at = 0;
    PyObject *key, *value;
    if (n > e->nin)
        return wrong_inputs(e, "too many were given", "");
    for (int i = 0; i < e->nin; i++)
        given[i] = i < n ? PyTuple_GetItem(args, i + skip) : NULL;
    while (kwargs && PyDict_Next(kwargs, &at, &key, &value)) {
        const char *name = PyUnicode_AsUTF8AndSize(key, NULL);
        int i = 0;
        if (!name)
            return -1;
        while (i < e->nin && strcmp(e->in[i].name, name) != 0)
            i++;
        if (i == e->nin || given[i])
            return wrong_inputs(e, i == e->nin ? "there is none named " : "given twice: ", name);
        given[i] = value;
    }
    for (int i = 0; i < e->nin; i++) {
        if (!given[i] && !e->in[i].optional)
            return wrong_inputs(e, "missing: ", e->in[i].name);
        if (!given[i])
            given[i] = Py_None;
    }
    return 0;
}

static PyObject *call_entry(struct model *m, const struct entry *e, PyObject *args, Py_ssize_t skip, PyObject *kwargs)
{
    PyObject *few[16], **given = e->nin > 16 ? malloc((size_t)e->nin * sizeof *given) : few;
    if (!given)
        return PyErr_NoMemory();
    PyObject *result = gather(e, args, skip, kwargs, given) ? NULL : run(m, e, given, false);
    if (given != few)
        free(given);
    return result;
}

static PyObject *model_call(PyObject *self, PyObject *args, PyObject *kwargs)
{
    struct model *m = (struct model *)self;
    if (!m->nentries)
        return py_fail(TCC_EUSAGE, "the model is closed"), NULL;
    return call_entry(m, &m->entries[0], args, 0, kwargs);
}

static const struct entry *find_entry(struct model *m, PyObject *name)
{
    if (name == Py_None && m->nentries)
        return &m->entries[0];
    const char *wanted = PyUnicode_AsUTF8AndSize(name, NULL);
    if (!wanted)
        return NULL;
    for (int i = 0; i < m->nentries; i++)
        if (strcmp(m->entries[i].name, wanted) == 0)
            return &m->entries[i];
    py_fail(TCC_EUSAGE, m->m ? "the model has no entry point '%s'" : "the model is closed; no '%s'", wanted);
    return NULL;
}

/* For torch.compile: a list of inputs, a list of results, and whether tensors require gradients is autograd's business. */
static PyObject *model_run_list(PyObject *self, PyObject *list)
{
    struct model *m = (struct model *)self;
    const struct entry *e = m->entries;
    Py_ssize_t n = e ? PySequence_Size(list) : py_fail(TCC_EUSAGE, "the model is closed");
    if (n < 0 || (n != e->nin && wrong_inputs(e, "another number was given", "")))
        return NULL;
    PyObject **given = calloc((size_t)n + 1, sizeof *given), *result = NULL;
    Py_ssize_t taken = 0;
    while (given && taken < n && (given[taken] = PySequence_GetItem(list, taken)))
        taken++;
    if (!given)
        PyErr_NoMemory();
    else if (taken == n)
        result = run(m, e, given, true);
    for (Py_ssize_t i = 0; i < taken; i++)
        Py_DECREF(given[i]);
    free(given);
    return result;
}

static PyObject *model_run(PyObject *self, PyObject *args, PyObject *kwargs)
{
    if (PyTuple_Size(args) < 1)
        return py_fail(TCC_EUSAGE, "run(ENTRY, ...): the entry point's name is missing"), NULL;
    const struct entry *e = find_entry((struct model *)self, PyTuple_GetItem(args, 0));
    return e ? call_entry((struct model *)self, e, args, 1, kwargs) : NULL;
}

/* -- Questions ----------------------------------------------------------------------------------------------------------- */

static PyObject *infos(int n, const struct tccrt_value_info *list)
{
    PyObject *all = PyTuple_New(n);
    for (int i = 0; all && i < n; i++) {
        PyObject *x = py_info(&list[i]);
        if (!x || PyTuple_SetItem(all, i, x)) {
            Py_DECREF(all);
            return NULL;
        }
    }
    return all;
}

static PyObject *model_signature(PyObject *self, PyObject *name)
{
    const struct entry *e = find_entry((struct model *)self, name);
    PyObject *in = e ? infos(e->nin, e->in) : NULL, *out = in ? infos(e->nout, e->out) : NULL;
    PyObject *both = out ? PyTuple_Pack(2, in, out) : NULL;
    Py_XDECREF(in);
    Py_XDECREF(out);
    return both;
}

static PyObject *model_entries(PyObject *self, void *unused)
{
    const struct model *m = (struct model *)self;
    PyObject *all = PyTuple_New(m->nentries);
    (void)unused;
    for (int i = 0; all && i < m->nentries; i++)
        PyTuple_SetItem(all, i, PyUnicode_FromString(m->entries[i].name));
    return all;
}

static PyObject *model_name(PyObject *self, void *unused)
{
    const struct model *m = (struct model *)self;
    (void)unused;
    return m->m ? PyUnicode_FromString(tccrt_name(m->m)) : Py_NewRef(Py_None);
}

static PyObject *model_device(PyObject *self, void *unused)
{
    struct model *m = (struct model *)self;
    struct tccrt_session *s = py_take_session(m);
    (void)unused;
    if (!s)
        return NULL;
    PyObject *result = PyUnicode_FromString(tccrt_device_used(s));
    py_give_session(m, s);
    return result;
}

static PyObject *model_threads(PyObject *self, void *unused)
{
    struct model *m = (struct model *)self;
    struct tccrt_session *s = py_take_session(m);
    (void)unused;
    if (!s)
        return NULL;
    PyObject *result = PyLong_FromLong(tccrt_threads(s));
    py_give_session(m, s);
    return result;
}

static PyObject *model_close(PyObject *self, PyObject *unused)
{
    struct model *m = (struct model *)self;
    (void)unused;
    lock(m);
    close_model(m);
    PyThread_release_lock(m->lock);
    return Py_NewRef(Py_None);
}

static PyMethodDef methods[] = {
    {"run", (PyCFunction)(void (*)(void))model_run, METH_VARARGS | METH_KEYWORDS,
     "run(entry, *inputs, **inputs): calls an entry point; None is the first."},
    {"run_list", model_run_list, METH_O,
     "run_list(inputs): the first entry point; a tuple of results. Of tensors that require gradients it takes the "
     "values."},
    {"signature", model_signature, METH_O, "signature(entry): (inputs, outputs), tuples of Value."},
    {"close", model_close, METH_NOARGS,
     "Frees the sessions and the artifact. Calls that are under way must have ended."},
    {"states", model_states, METH_NOARGS, "State variables: a list of (Value, kind)."},
    {"state", model_state, METH_O, "state(name): a copy of a state variable, as a numpy array."},
    {"set_state", model_set_state, METH_VARARGS, "set_state(name, value)."},
    {"reset", model_reset, METH_VARARGS, "reset(name=None): the variable, or all of them, has its first value again."},
    {"save_checkpoint", model_save_checkpoint, METH_VARARGS, "save_checkpoint(path, weights, meta)."},
    {"load_checkpoint", model_load_checkpoint, METH_VARARGS, "load_checkpoint(path, weights, partial)."},
    {"random", model_random, METH_VARARGS,
     "random([seed, runs]): sets, and returns, the seed and the counter of runs."},
    {"group", model_group, METH_VARARGS, "group(name, comm): the plan's steps of that group run among these ranks."},
    {"uses_group", model_uses_group, METH_O, "uses_group(name): has the model steps of that group?"},
    {"share_state", model_share, METH_VARARGS, "share_state(comm, root=0): all state becomes that of rank root."},
    {"profile", model_profile, METH_NOARGS,
     "Rows (kernel, node, calls, ns, flops, bytes) since the model was opened with profile=True."},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef getters[] = {{"entries", model_entries, NULL, "Names of the entry points.", NULL},
                                {"name", model_name, NULL, "The model's name.", NULL},
                                {"device", model_device, NULL, "What runs it: 'cpu', 'cuda:0', 'sim'...", NULL},
                                {"threads", model_threads, NULL, "The number of threads of a call.", NULL},
                                {NULL, NULL, NULL, NULL, NULL}};

PyType_Spec py_model_spec = {
    "tccc._runtime.Model", sizeof(struct model), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    (PyType_Slot[]){{Py_tp_new, (void *)model_new},
                    {Py_tp_dealloc, (void *)model_free},
                    {Py_tp_call, (void *)model_call},
                    {Py_tp_methods, methods},
                    {Py_tp_getset, getters},
                    {Py_tp_doc, (void *)(uintptr_t)"An open artifact. m(x, ...) runs its first entry point."},
                    {0, NULL}}};
