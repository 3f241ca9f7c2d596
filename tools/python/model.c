/* SPDX-License-Identifier: Apache-2.0 */
/*
 * _runtime.Model: an open artifact, and the sessions in which it runs.
 *
 * A model without state has as many sessions as threads call it at once: a call takes one that is free. One with state
 * (a training step, a cache) has one session, and calls take turns. The GIL is given up while the model runs.
 */
#include "base/grow.h"
#include "tools/python/model_int.h"

#include <stdlib.h>
#include <string.h>

/* -- Sessions ------------------------------------------------------------------------------------------------- */

void py_lock(PyThread_type_lock lock)
{
    if (PyThread_acquire_lock(lock, NOWAIT_LOCK) == PY_LOCK_ACQUIRED)
        return;
    Py_BEGIN_ALLOW_THREADS PyThread_acquire_lock(lock, WAIT_LOCK);
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
    if (!m->m)
        return py_fail(TCC_EUSAGE, "the model is closed"), NULL;
    if (!m->single)
        return m->nfree ? m->free_sessions[--m->nfree] : new_session(m);
    py_lock(m->lock);
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
    if (!GROWN(m->free_sessions, m->nfree, m->capacity, 4)) {
        tccrt_session_free(s);
        return;
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
    e->ndefaults = tccrt_ndefaults(m, e->name);
    e->in = calloc((size_t)(e->nin + e->ndefaults) + 1, sizeof *e->in);
    e->out = calloc((size_t)e->nout + 1, sizeof *e->out);
    if (!e->in || !e->out) {
        PyErr_NoMemory();
        return -1;
    }
    e->plain = e->fixed = true;
    for (int i = 0; i < e->nin + e->ndefaults; i++) {
        if (py_failed(tccrt_input(m, e->name, i, &e->in[i])))
            return -1;
        e->in[i].optional |= i >= e->nin;
        e->plain &= i >= e->nin || plain_value(&e->in[i]);
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
    if (m->nblocks)
        py_free_blocks(m);
    py_free_lanes(m);
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
            m->device_name = text(tccrt_device_used(first));
            py_give_session(m, first);
        }
        if (m->device_name) {
            m->where = py_device_of(m->device_name);
        } else {
            if (!PyErr_Occurred())
                PyErr_NoMemory();
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
    free(m->device_name);
    if (m->lock)
        PyThread_free_lock(m->lock);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF((PyObject *)type);
}

/* -- Questions ----------------------------------------------------------------------------------------------------- */

struct words {
    const struct tccrt_model *m;
    const char *entry;
    int i;
};

static const char *input_word(const struct words *w, int k)
{
    return tccrt_input_label(w->m, w->entry, w->i, k);
}

static const char *output_word(const struct words *w, int k)
{
    return tccrt_output_label(w->m, w->entry, w->i, k);
}

static const char *class_word(const struct words *w, int k)
{
    return tccrt_class_name(w->m, k);
}

/* None: there are none. */
static PyObject *words_of(const char *(*word_of)(const struct words *, int), const struct words *w)
{
    int n = 0;
    while (word_of(w, n))
        n++;
    if (!n)
        return Py_NewRef(Py_None);
    PyObject *words = PyTuple_New(n);
    for (int k = 0; words && k < n; k++) {
        const char *text = word_of(w, k);
        PyObject *word = PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
        if (!word || PyTuple_SetItem(words, k, word)) {
            Py_DECREF(words);
            return NULL;
        }
    }
    return words;
}

/* of: whose inputs or outputs they are; NULL: inputs that may be left out. */
static PyObject *infos(const struct tccrt_model *of, const char *entry, int n, const struct tccrt_value_info *list,
                       bool output)
{
    PyObject *all = PyTuple_New(n);
    for (int i = 0; all && i < n; i++) {
        PyObject *labels = of ? words_of(output ? output_word : input_word, &(struct words){of, entry, i})
                              : Py_NewRef(Py_None),
                 *x = labels ? py_info(&list[i], labels) : NULL;
        Py_XDECREF(labels);
        if (!x || PyTuple_SetItem(all, i, x)) {
            Py_DECREF(all);
            return NULL;
        }
    }
    return all;
}

static PyObject *model_signature(PyObject *self, PyObject *name)
{
    const struct entry *e = py_find_entry((struct model *)self, name);
    const struct tccrt_model *m = ((struct model *)self)->m;
    PyObject *in = e ? infos(m, e->name, e->nin, e->in, false) : NULL,
             *out = in ? infos(m, e->name, e->nout, e->out, true) : NULL;
    PyObject *both = out ? PyTuple_Pack(2, in, out) : NULL;
    Py_XDECREF(in);
    Py_XDECREF(out);
    return both;
}

static PyObject *model_defaults(PyObject *self, void *unused)
{
    const struct model *m = (struct model *)self;
    (void)unused;
    return m->nentries ? infos(NULL, NULL, m->entries->ndefaults, m->entries->in + m->entries->nin, false)
                       : PyTuple_New(0);
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

static PyObject *model_classes(PyObject *self, void *unused)
{
    const struct model *m = (const struct model *)self;

    (void)unused;
    return m->m ? words_of(class_word, &(struct words){.m = m->m}) : Py_NewRef(Py_None);
}

static PyObject *model_name(PyObject *self, void *unused)
{
    const struct model *m = (struct model *)self;
    (void)unused;
    return m->m ? PyUnicode_FromString(tccrt_name(m->m)) : Py_NewRef(Py_None);
}

static PyObject *model_device(PyObject *self, void *unused)
{
    const struct model *m = (struct model *)self;
    (void)unused;
    return m->m ? PyUnicode_FromString(m->device_name) : (py_fail(TCC_EUSAGE, "the model is closed"), NULL);
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
    if (m->nlanes && py_wait(m))
        return NULL;
    if (m->arrays)
        return py_fail(TCC_EUSAGE, "the model has %lld arrays on its device that are in use", (long long)m->arrays),
               NULL;
    close_model(m);
    return Py_NewRef(Py_None);
}

static PyMethodDef methods[] = {
    {"run", (PyCFunction)(void (*)(void))model_run, METH_VARARGS | METH_KEYWORDS,
     "run(entry, *inputs, stream=None, on_device=None, **inputs): calls an entry point; None is the first.\n\n"
     "stream: work comes behind what it was given, and the call returns when it is given, if all results stay on the "
     "device; "
     "a number, torch.cuda.Stream or the like. on_device: results are arrays there; None: if an input is."},
    {"to_device", model_to_device, METH_O, "to_device(value): a DeviceArray with that value."},
    {"empty_on_device", model_empty_on_device, METH_VARARGS,
     "empty_on_device(shape, dtype='float32'): a DeviceArray that holds anything."},
    {"wait", model_wait, METH_NOARGS, "Waits for all runs that were given to streams; raises what went wrong in them."},
    {"run_list", model_run_list, METH_O,
     "run_list(inputs): the first entry point; a tuple of results. Of tensors that require gradients it takes the "
     "values."},
    {"run_as", model_run_as, METH_VARARGS,
     "run_as(inputs, like, seed): the same; results are tensors of like's framework (None: of the inputs'), and random "
     "ops have that seed (None: the model's own)."},
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

static PyGetSetDef getters[] = {
    {"entries", model_entries, NULL, "Names of the entry points.", NULL},
    {"defaults", model_defaults, NULL,
     "Inputs of the first entry point, behind `inputs`, that have values where a call gives "
     "none: a tuple of Value.",
     NULL},
    {"name", model_name, NULL, "The model's name.", NULL},
    {"classes", model_classes, NULL, "Names of the classes that it tells apart: a tuple; None: it has none.", NULL},
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
                    {Py_tp_doc, (void *)(uintptr_t) "An open artifact. m(x, ...) runs its first entry point."},
                    {0, NULL}}};
