/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls of a model's entry points: inputs are taken, a session runs, results are handed out. Three ways: results of
 * known sizes in memory of the inputs' framework; objects of the runtime's; and what reads or leaves something on the
 * device. The GIL is given up while the model runs.
 */
#include "tools/python/model_int.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a call needs beside its results; of small signatures it lies on the stack. */
struct call {
    struct model *m;
    const struct entry *e;
    struct py_kind kind;
    const uint64_t *seed; /* of the run's random ops; NULL: the session goes on with its own */
    struct py_value *values;
    struct tcc_tensor *in, *out;
    struct py_result *results;
    struct tcc_object *headers, **objects, **made;
};

static struct tccrt_session *take_session(const struct call *c)
{
    struct tccrt_session *s = py_take_session(c->m);
    if (s && c->seed)
        tccrt_random_set(s, *c->seed, 0);
    return s;
}

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
    struct tccrt_session *s = bad ? NULL : take_session(c);
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
    struct tccrt_session *s = take_session(c);
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

/* -- On the device ----------------------------------------------------------------------------------------------- */

/* A call that reads or leaves something in the device's memory, or is given to a stream. */
struct there {
    struct call *c;
    bool on_device; /* results stay there; else they come to the host */
    PyObject **
        /* by output: what is on the device, and copies of what lay in the session's memory; NULL: c->results has it */
        arrays;
    bool *copied, *in_there, *out_there;
};

static bool known(const struct tcc_tensor *t)
{
    bool all = t->rank >= 0;
    for (int d = 0; all && d < t->rank; d++)
        all = t->dims[d] >= 0;
    return all;
}

static int make_there(struct there *x, int k)
{
    struct call *c = x->c;
    struct tcc_tensor *t = &c->out[k];
    int bad;
    if (!known(t) && x->on_device)
        return py_fail(TCC_EINPUT,
                       "result '%s' has a size that the run decides, so it cannot stay on the device: on_device=False",
                       c->e->out[k].name);
    x->out_there[k] = x->on_device;
    x->copied[k] = !known(t);
    if (x->copied[k])
        return 0;
    if (!x->on_device) {
        bad = py_result_make(&c->kind, t, &c->results[k]);
    } else if (c->kind.framework_there && c->kind.exchange) {
        bad = py_result_make_there(&c->kind, c->m->where, t, &c->results[k]);
    } else {
        x->arrays[k] = py_array_make(c->m, t);
        bad = x->arrays[k] ? 0 : -1;
        if (!bad)
            t->data = py_array_tensor(x->arrays[k])->data;
    }
    if (!bad && !t->data) /* no elements; the runtime wants an address */
        t->data = c->out;
    return bad;
}

/* Memory for the results, whose shapes the inputs' say. */
static int make_all_there(struct there *x)
{
    struct call *c = x->c;
    const struct entry *e = c->e;
    struct tccrt_session *s = py_take_session(c->m);
    if (!s)
        return -1;
    int bad = py_failed(tccrt_output_shapes(s, e->name, e->nin, c->in, e->nout, c->out));
    py_give_session(c->m, s);
    for (int k = 0; k < e->nout && !bad; k++)
        bad = make_there(x, k);
    return bad;
}

static int run_in(struct there *x, struct tccrt_session *s, bool later, int64_t *ticket)
{
    struct call *c = x->c;
    const struct entry *e = c->e;
    struct tccrt_async how = {c->kind.stream, x->in_there, x->out_there};
    int status, bad;
    Py_BEGIN_ALLOW_THREADS status = tccrt_run_async(s, e->name, e->nin, c->in, e->nout, c->out, &how, ticket);
    if (!status && !later)
        status = tccrt_wait(s, *ticket);
    Py_END_ALLOW_THREADS bad = py_failed(status);
    for (int k = 0; k < e->nout && !bad; k++) {
        if (x->copied[k])
            x->arrays[k] = py_result_copy(&c->out[k]);
        else if (x->on_device && !x->arrays[k])
            x->arrays[k] = py_result_done(&c->results[k]);
        bad = (x->copied[k] || x->on_device) && !x->arrays[k] ? -1 : 0;
    }
    return bad;
}

/* What a run that is only given needs until it is done. */
static PyObject *pack(const struct there *x, PyObject **given)
{
    const struct entry *e = x->c->e;
    PyObject *all = PyTuple_New(e->nin + e->nout);
    for (int i = 0; all && i < e->nin; i++)
        PyTuple_SetItem(all, i, Py_NewRef(given[i]));
    for (int k = 0; all && k < e->nout; k++)
        PyTuple_SetItem(all, e->nin + k, Py_NewRef(x->arrays[k]));
    return all;
}

static int run_to_stream(struct there *x, PyObject **given)
{
    struct call *c = x->c;
    struct lane *lane = py_take_lane(c->m, c->kind.stream);
    int64_t ticket = 0;
    if (!lane)
        return -1;
    int bad = run_in(x, lane->s, x->on_device, &ticket);
    PyObject *objects = bad || !x->on_device ? NULL : pack(x, given);
    if (objects)
        return py_keep(lane, ticket, c->e->nin, c->values, objects);
    if (!ticket || !x->on_device) {
        py_give_lane(lane);
        return bad;
    }
    py_wait_lane(lane); /* no memory to keep what it works on */
    return -1;
}

static PyObject *get_there(void *user, int k)
{
    struct there *x = user;
    PyObject *array = x->arrays[k];
    x->arrays[k] = NULL;
    return array ? py_result_like(&x->c->kind, array) : py_result_done(&x->c->results[k]);
}

static PyObject *run_there(struct call *c, PyObject **given, bool on_device)
{
    const struct entry *e = c->e;
    size_t nout = (size_t)e->nout, bytes = nout * (sizeof(PyObject *) + 2) + (size_t)e->nin;
    char *block = e->plain ? calloc(1, bytes + 1) : NULL;
    if (!block)
        return e->plain ? PyErr_NoMemory()
                        : (py_fail(TCC_EINPUT,
                                   "'%s' takes or gives strings, sequences or optional values, which lie on the host",
                                   e->name),
                           NULL);
    bool *flags = (bool *)(block + nout * sizeof(PyObject *));
    struct there x = {c, on_device, (PyObject **)block, flags, flags + 2 * nout, flags + nout};
    for (int i = 0; i < e->nin; i++) {
        c->in[i] = c->values[i].t;
        x.in_there[i] = c->values[i].on_device;
    }
    for (size_t k = 0; k < nout; k++)
        c->results[k] = (struct py_result){0};
    int bad = make_all_there(&x);
    if (!bad && c->kind.stream) {
        bad = run_to_stream(&x, given);
    } else if (!bad) {
        struct tccrt_session *s = py_take_session(c->m);
        bad = s ? run_in(&x, s, false, &(int64_t){0}) : -1;
        if (s)
            py_give_session(c->m, s);
    }
    PyObject *result = bad ? NULL : tuple_or_one(e, c->kind.for_autograd, get_there, &x);
    for (size_t k = 0; k < nout; k++) {
        Py_XDECREF(x.arrays[k]);
        py_result_drop(&c->results[k]);
    }
    free(block);
    return result;
}

/* -- Any call ------------------------------------------------------------------------------------------------------ */

/* What the caller says beside the inputs. */
struct how {
    PyObject *stream, *on_device; /* NULL or None: nothing */
    bool for_autograd;
    PyObject *like; /* results are of this tensor's framework; NULL or None: of the inputs' */
    const uint64_t *seed;
};

static bool says(PyObject *o)
{
    return o && o != Py_None;
}

static PyObject *run_taken(struct call *c, PyObject **given, const struct how *how)
{
    int on_device = says(how->on_device) ? PyObject_IsTrue(how->on_device) : c->kind.on_device;
    if (on_device < 0)
        return NULL;
    if (c->kind.on_device || on_device || c->kind.stream)
        return run_there(c, given, on_device);
    return c->e->fixed ? run_fixed(c) : run_objects(c);
}

static PyObject *run(struct model *m, const struct entry *e, PyObject **given, const struct how *how)
{
    enum { FEW = 6 };
    struct py_value values[FEW];
    struct tcc_tensor in[FEW], out[FEW];
    struct py_result results[FEW];
    struct tcc_object headers[FEW], *objects[FEW], *made[FEW];
    struct call c = {
        m, e, {.for_autograd = how->for_autograd, .m = m}, how->seed, values, in, out, results, headers, objects, made};
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
    if (says(how->like))
        py_kind_like(how->like, &c.kind);
    int taken = 0, bad = says(how->stream) ? py_stream(how->stream, &c.kind.stream) : 0;
    while (taken < e->nin && !bad) {
        c.values[taken] = (struct py_value){0};
        bad = py_value_take(given[taken], &e->in[taken], &c.values[taken], &c.kind);
        taken++;
    }
    if (!bad) {
        for (int i = 0; i < e->nout; i++)
            c.made[i] = NULL;
        result = run_taken(&c, given, how);
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

/* A word that says how to run, unless the entry point has an input of that name. */
static PyObject **word_of(const struct entry *e, const char *name, struct how *how)
{
    PyObject **word = strcmp(name, "stream") == 0      ? &how->stream
                      : strcmp(name, "on_device") == 0 ? &how->on_device
                                                       : NULL;
    for (int i = 0; word && i < e->nin; i++)
        if (strcmp(e->in[i].name, name) == 0)
            word = NULL;
    return word;
}

/* Is it an input of the model whose value is compiled in? */
static bool is_fixed(const struct model *m, const struct entry *e, const char *name)
{
    const char *fixed;
    for (int i = 0; (fixed = tccrt_fixed_input(m->m, e->name, i)); i++)
        if (strcmp(fixed, name) == 0)
            return true;
    return false;
}

/* The entry point as a call with these inputs takes it: those with values of their own are left out where none is
 * given. */
static struct entry as_called(const struct entry *e, PyObject *const *given)
{
    struct entry called = *e;
    for (int i = e->nin; i < e->nin + e->ndefaults; i++)
        if (given[i] != Py_None)
            called.nin = e->nin + e->ndefaults;
    called.fixed &= called.nin == e->nin; /* with other sizes, results may have others */
    return called;
}

/* Positional inputs in order, others by name; an optional input that is not given, or has a value of its own, is
 * None. */
static int gather(const struct model *m, const struct entry *e, PyObject *args, Py_ssize_t skip, PyObject *kwargs,
                  PyObject **given, struct how *how)
{
    Py_ssize_t n = PyTuple_Size(args) - skip, at = 0;
    PyObject *key, *value;
    if (n > e->nin + e->ndefaults)
        return wrong_inputs(e, "too many were given", "");
    for (int i = 0; i < e->nin + e->ndefaults; i++)
        given[i] = i < n ? PyTuple_GetItem(args, i + skip) : NULL;
    while (kwargs && PyDict_Next(kwargs, &at, &key, &value)) {
        const char *name = PyUnicode_AsUTF8AndSize(key, NULL);
        PyObject **word = name ? word_of(e, name, how) : NULL;
        int i = 0;
        if (!name)
            return -1;
        if (word) {
            *word = value;
            continue;
        }
        while (i < e->nin + e->ndefaults && strcmp(e->in[i].name, name) != 0)
            i++;
        if (i == e->nin + e->ndefaults && is_fixed(m, e, name))
            return wrong_inputs(e, "the value is compiled in (tccc.compile(..., defaults='all')) of ", name);
        if (i == e->nin + e->ndefaults || given[i])
            return wrong_inputs(e, i == e->nin + e->ndefaults ? "there is none named " : "given twice: ", name);
        given[i] = value;
    }
    for (int i = 0; i < e->nin + e->ndefaults; i++) {
        if (!given[i] && i < e->nin && !e->in[i].optional)
            return wrong_inputs(e, "missing: ", e->in[i].name);
        if (!given[i])
            given[i] = Py_None;
    }
    return 0;
}

static PyObject *call_entry(struct model *m, const struct entry *e, PyObject *args, Py_ssize_t skip, PyObject *kwargs)
{
    struct how how = {0};
    int n = e->nin + e->ndefaults;
    PyObject *few[16], **given = n > 16 ? malloc((size_t)n * sizeof *given) : few, *result = NULL;
    if (!given)
        return PyErr_NoMemory();
    if (!gather(m, e, args, skip, kwargs, given, &how)) {
        struct entry called = as_called(e, given);
        result = run(m, &called, given, &how);
    }
    if (given != few)
        free(given);
    return result;
}

PyObject *model_call(PyObject *self, PyObject *args, PyObject *kwargs)
{
    struct model *m = (struct model *)self;
    if (!m->nentries)
        return py_fail(TCC_EUSAGE, "the model is closed"), NULL;
    return call_entry(m, &m->entries[0], args, 0, kwargs);
}

void py_list_name(char *list, size_t room, const char *name)
{
    size_t used = strlen(list);

    if (used + strlen(name) + 12 < room)
        snprintf(list + used, room - used, "%s'%s'", used ? ", " : "", name);
    else if (used + 6 < room && (used < 3 || strcmp(list + used - 3, "...")))
        snprintf(list + used, room - used, ", ...");
}

const struct entry *py_find_entry(struct model *m, PyObject *name)
{
    if (name == Py_None && m->nentries)
        return &m->entries[0];
    const char *wanted = PyUnicode_AsUTF8AndSize(name, NULL);
    if (!wanted)
        return NULL;
    for (int i = 0; i < m->nentries; i++)
        if (strcmp(m->entries[i].name, wanted) == 0)
            return &m->entries[i];
    char names[400] = "";
    for (int i = 0; i < m->nentries; i++)
        py_list_name(names, sizeof names, m->entries[i].name);
    if (m->m)
        py_fail(TCC_EUSAGE, "the model has no entry point '%s'; it has %s", wanted, names);
    else
        py_fail(TCC_EUSAGE, "the model is closed; no '%s'", wanted);
    return NULL;
}

/* For torch.compile: a list of inputs, a list of results, and whether tensors require gradients is autograd's
 * business. */
static PyObject *run_list(struct model *m, PyObject *list, PyObject *like, const uint64_t *seed)
{
    const struct entry *e = m->entries;
    Py_ssize_t n = e ? PySequence_Size(list) : py_fail(TCC_EUSAGE, "the model is closed");
    if (n < 0 || (n != e->nin && wrong_inputs(e, "another number was given", "")))
        return NULL;
    PyObject *few[16], **given = n > 16 ? malloc((size_t)n * sizeof *given) : few, *result = NULL;
    Py_ssize_t taken = 0;
    while (given && taken < n && (given[taken] = PySequence_GetItem(list, taken)))
        taken++;
    if (!given)
        PyErr_NoMemory();
    else if (taken == n)
        result = run(m, e, given, &(struct how){.for_autograd = true, .like = like, .seed = seed});
    for (Py_ssize_t i = 0; i < taken; i++)
        Py_DECREF(given[i]);
    if (given != few)
        free(given);
    return result;
}

PyObject *model_run_list(PyObject *self, PyObject *list)
{
    return run_list((struct model *)self, list, NULL, NULL);
}

PyObject *model_run_as(PyObject *self, PyObject *args)
{
    PyObject *list, *like, *given;
    if (!PyArg_ParseTuple(args, "OOO:run_as", &list, &like, &given))
        return NULL;
    uint64_t seed = given == Py_None ? 0 : PyLong_AsUnsignedLongLongMask(given);
    if (seed == UINT64_MAX && PyErr_Occurred())
        return NULL;
    return run_list((struct model *)self, list, like, given == Py_None ? NULL : &seed);
}

PyObject *model_run(PyObject *self, PyObject *args, PyObject *kwargs)
{
    if (PyTuple_Size(args) < 1)
        return py_fail(TCC_EUSAGE, "run(ENTRY, ...): the entry point's name is missing"), NULL;
    const struct entry *e = py_find_entry((struct model *)self, PyTuple_GetItem(args, 0));
    return e ? call_entry((struct model *)self, e, args, 1, kwargs) : NULL;
}
