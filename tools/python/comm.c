/* SPDX-License-Identifier: Apache-2.0 */
/*
 * _runtime.Comm: a group of processes (runtime/tccrt.h, Communication). Tensors are whatever offers dense memory of the
 * host; collective calls return a _runtime.Request, which holds that memory until it is waited for.
 */
#include "tools/python/python_int.h"

#include <stdlib.h>
#include <string.h>

PyTypeObject *py_comm_type;

enum { MOST = 2 };
struct comm {
    PyObject_HEAD struct tccrt_comm *c;
    bool world;
};

struct request {
    PyObject_HEAD struct tccrt_request *r;
    struct py_value *values;
    int nvalues;
};
static PyTypeObject *request_type;

struct tccrt_comm *py_comm_of(PyObject *o)
{
    if (!PyObject_TypeCheck(o, py_comm_type))
        return py_fail(TCC_EUSAGE, "a group of processes (tccc.world()) was expected"), NULL;
    if (!((struct comm *)o)->c)
        py_fail(TCC_EUSAGE, "the group of processes was closed");
    return ((struct comm *)o)->c;
}

static PyObject *wrap(struct tccrt_comm *c, bool world)
{
    struct comm *self = (struct comm *)((allocfunc)PyType_GetSlot(py_comm_type, Py_tp_alloc))(py_comm_type, 0);
    if (self) {
        self->c = c;
        self->world = world;
    }
    return (PyObject *)self;
}

static void comm_free(PyObject *self)
{
    struct comm *c = (struct comm *)self;
    PyTypeObject *type = Py_TYPE(self);
    if (!c->world)
        tccrt_comm_free(c->c);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF((PyObject *)type);
}

static PyObject *comm_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"engine", "timeout", "alone", NULL};
    struct tccrt_comm_options o = {0};
    struct tccrt_comm *c = NULL;
    int alone = 0, status;
    (void)type;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|zdp:Comm", names, &o.engine, &o.timeout, &alone))
        return NULL;
    o.alone = alone;
    Py_BEGIN_ALLOW_THREADS status = tccrt_comm_init(&o, &c);
    Py_END_ALLOW_THREADS if (py_failed(status)) return NULL;
    if (tccrt_comm_rank(c) == 0 && tccrt_comm_unguarded(c) &&
        PyErr_WarnEx(PyExc_RuntimeWarning,
                     "TCCC_COMM_SECRET is not set: anybody who reaches the port of rank 0 can join the job", 1)) {
        tccrt_comm_finalize(c, "a warning was made an error");
        return NULL;
    }
    return wrap(c, true);
}

/* -- Requests ----------------------------------------------------------------------------------------------------- */

static void drop_values(struct request *r)
{
    for (int i = 0; i < r->nvalues; i++)
        py_value_free(&r->values[i]);
    free(r->values);
    r->values = NULL;
    r->nvalues = 0;
}

static PyObject *request_wait(PyObject *self, PyObject *unused)
{
    struct request *r = (struct request *)self;
    struct tccrt_request *pending = r->r;
    int status = TCC_OK;
    (void)unused;
    r->r = NULL;
    if (pending) {
        Py_BEGIN_ALLOW_THREADS status = tccrt_comm_wait(pending);
        Py_END_ALLOW_THREADS
    }
    drop_values(r);
    return py_failed(status) ? NULL : Py_NewRef(Py_None);
}

static PyObject *request_test(PyObject *self, PyObject *unused)
{
    struct request *r = (struct request *)self;
    bool done = true;
    (void)unused;
    return r->r && py_failed(tccrt_comm_test(r->r, &done)) ? NULL : PyBool_FromLong(done);
}

static void request_free(PyObject *self)
{
    struct request *r = (struct request *)self;
    PyTypeObject *type = Py_TYPE(self);
    if (r->r) {
        Py_BEGIN_ALLOW_THREADS tccrt_comm_wait(r->r);
        Py_END_ALLOW_THREADS
    }
    drop_values(r);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF((PyObject *)type);
}

static struct request *new_request(int nvalues)
{
    struct request *r = (struct request *)((allocfunc)PyType_GetSlot(request_type, Py_tp_alloc))(request_type, 0);
    if (r && !(r->values = calloc((size_t)nvalues + 1, sizeof *r->values))) {
        PyErr_NoMemory();
        Py_DECREF((PyObject *)r);
        return NULL;
    }
    return r;
}

/* -- Collective calls ---------------------------------------------------------------------------------------------- */

static int take(struct request *r, PyObject *o, struct tcc_tensor *t)
{
    struct py_value *v = &r->values[r->nvalues++];
    if (py_value_writable(o, "tensor", v))
        return -1;
    *t = v->t;
    return 0;
}

/* The lists of tensors of a call; -1 and an exception. */
static int take_lists(struct request *r, PyObject *in, PyObject *out, struct tcc_tensor *from, struct tcc_tensor *to,
                      Py_ssize_t n)
{
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *a = PySequence_GetItem(in, i), *b = PySequence_GetItem(out, i);
        int bad = !a || !b || take(r, a, &from[i]) || take(r, b, &to[i]);
        Py_XDECREF(a);
        Py_XDECREF(b);
        if (bad)
            return -1;
    }
    return 0;
}

static int reduction_of(const char *name)
{
    static const struct {
        const char *name;
        int reduction;
    } all[] = {{"sum", TCCRT_SUM},         {"avg", TCCRT_AVG}, {"min", TCCRT_MIN}, {"max", TCCRT_MAX},
               {"product", TCCRT_PRODUCT}, {"and", TCCRT_AND}, {"or", TCCRT_OR},   {"xor", TCCRT_XOR}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (strcmp(all[i].name, name) == 0)
            return all[i].reduction;
    return py_fail(TCC_EUSAGE, "there is no reduction '%s': sum, avg, min, max, product, and, or, xor", name);
}

static PyObject *finish(struct request *r, int status)
{
    if (!py_failed(status))
        return (PyObject *)r;
    Py_DECREF((PyObject *)r);
    return NULL;
}

static PyObject *drop(struct request *r)
{
    Py_XDECREF((PyObject *)r);
    return NULL;
}

/* all_reduce(op, ins, outs, scale), reduce(op, ins, outs, scale, root), broadcast(tensors, root): lists of tensors. */
static PyObject *reduce(PyObject *self, PyObject *in, PyObject *out, const char *op, double scale, int root)
{
    struct tccrt_comm *c = py_comm_of(self);
    int reduction = op ? reduction_of(op) : 0;
    Py_ssize_t n = c && reduction >= 0 ? PySequence_Size(in) : -1;
    if (n >= 0 && PySequence_Size(out) != n)
        py_fail(TCC_EUSAGE, "as many tensors are needed for results as are given");
    if (n < 0 || PyErr_Occurred())
        return NULL;
    struct request *r = new_request((int)n * MOST);
    struct tcc_tensor *from = calloc((size_t)n * 2 + 1, sizeof *from);
    if (!r || !from || take_lists(r, in, out, from, from + n, n)) {
        free(from);
        return PyErr_Occurred() ? drop(r) : (drop(r), PyErr_NoMemory());
    }
    int status;
    Py_BEGIN_ALLOW_THREADS status = !op ? tccrt_comm_broadcast(c, root, (int)n, from, &r->r)
                                    : root >= 0
                                        ? tccrt_comm_reduce(c, reduction, scale, root, (int)n, from, from + n, &r->r)
                                        : tccrt_comm_all_reduce(c, reduction, scale, (int)n, from, from + n, &r->r);
    Py_END_ALLOW_THREADS free(from);
    return finish(r, status);
}

static PyObject *comm_all_reduce(PyObject *self, PyObject *args)
{
    PyObject *in, *out;
    const char *op = "sum";
    double scale = 1;
    return PyArg_ParseTuple(args, "OO|sd:all_reduce", &in, &out, &op, &scale) ? reduce(self, in, out, op, scale, -1)
                                                                              : NULL;
}

static PyObject *comm_reduce(PyObject *self, PyObject *args)
{
    PyObject *in, *out;
    const char *op = "sum";
    double scale = 1;
    int root = 0;
    return PyArg_ParseTuple(args, "OO|sdi:reduce", &in, &out, &op, &scale, &root)
               ? reduce(self, in, out, op, scale, root < 0 ? 1 << 30 : root)
               : NULL;
}

static PyObject *comm_broadcast(PyObject *self, PyObject *args)
{
    PyObject *list;
    int root = 0;
    return PyArg_ParseTuple(args, "O|i:broadcast", &list, &root) ? reduce(self, list, list, NULL, 1, root) : NULL;
}

/* Numbers of elements by rank; None: NULL. */
static int counts_of(PyObject *o, int size, int64_t *counts, const int64_t **out)
{
    *out = NULL;
    if (o == Py_None)
        return 0;
    if (PySequence_Size(o) != size)
        return PyErr_Occurred() ? -1 : py_fail(TCC_EUSAGE, "counts: expected %d numbers, one a rank", size);
    for (int i = 0; i < size; i++) {
        PyObject *x = PySequence_GetItem(o, i);
        counts[i] = x ? PyLong_AsLongLong(x) : -1;
        Py_XDECREF(x);
        if (PyErr_Occurred())
            return -1;
    }
    *out = counts;
    return 0;
}

enum parts { ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL };

static PyObject *parts(PyObject *self, enum parts what, PyObject *in, PyObject *out, PyObject *in_counts,
                       PyObject *out_counts, const char *op, double scale)
{
    struct tccrt_comm *c = py_comm_of(self);
    int reduction = c ? reduction_of(op) : -1, size = c ? tccrt_comm_size(c) : 0, status;
    struct request *r = reduction < 0 ? NULL : new_request(MOST);
    int64_t *counts = r ? calloc((size_t)size * 2, sizeof *counts) : NULL;
    const int64_t *ic = NULL, *oc = NULL;
    struct tcc_tensor from, to;
    if (!counts || counts_of(in_counts, size, counts, &ic) || counts_of(out_counts, size, counts + size, &oc) ||
        take(r, in, &from) || take(r, out, &to)) {
        free(counts);
        return PyErr_Occurred() ? drop(r) : (drop(r), PyErr_NoMemory());
    }
    Py_BEGIN_ALLOW_THREADS status = what == ALL_GATHER ? tccrt_comm_all_gather(c, &from, &to, oc, &r->r)
                                    : what == REDUCE_SCATTER
                                        ? tccrt_comm_reduce_scatter(c, reduction, scale, &from, &to, ic, &r->r)
                                        : tccrt_comm_all_to_all(c, &from, ic, &to, oc, &r->r);
    Py_END_ALLOW_THREADS free(counts);
    return finish(r, status);
}

static PyObject *comm_all_gather(PyObject *self, PyObject *args)
{
    PyObject *in, *out, *counts = Py_None;
    return PyArg_ParseTuple(args, "OO|O:all_gather", &in, &out, &counts)
               ? parts(self, ALL_GATHER, in, out, Py_None, counts, "sum", 1)
               : NULL;
}

static PyObject *comm_reduce_scatter(PyObject *self, PyObject *args)
{
    PyObject *in, *out, *counts = Py_None;
    const char *op = "sum";
    double scale = 1;
    return PyArg_ParseTuple(args, "OO|sdO:reduce_scatter", &in, &out, &op, &scale, &counts)
               ? parts(self, REDUCE_SCATTER, in, out, counts, Py_None, op, scale)
               : NULL;
}

static PyObject *comm_all_to_all(PyObject *self, PyObject *args)
{
    PyObject *in, *out, *in_counts = Py_None, *out_counts = Py_None;
    return PyArg_ParseTuple(args, "OO|OO:all_to_all", &in, &out, &in_counts, &out_counts)
               ? parts(self, ALL_TO_ALL, in, out, in_counts, out_counts, "sum", 1)
               : NULL;
}

static PyObject *message(PyObject *self, PyObject *args, bool send)
{
    PyObject *o;
    int peer, tag = 0, status;
    struct tcc_tensor t;
    struct tccrt_comm *c = PyArg_ParseTuple(args, "Oi|i", &o, &peer, &tag) ? py_comm_of(self) : NULL;
    struct request *r = c ? new_request(1) : NULL;
    if (!r || take(r, o, &t))
        return drop(r);
    Py_BEGIN_ALLOW_THREADS status =
        send ? tccrt_comm_send(c, peer, tag, &t, &r->r) : tccrt_comm_recv(c, peer, tag, &t, &r->r);
    Py_END_ALLOW_THREADS return finish(r, status);
}

static PyObject *comm_send(PyObject *self, PyObject *args)
{
    return message(self, args, true);
}

static PyObject *comm_recv(PyObject *self, PyObject *args)
{
    return message(self, args, false);
}

static PyObject *comm_barrier(PyObject *self, PyObject *unused)
{
    struct tccrt_comm *c = py_comm_of(self);
    struct request *r = c ? new_request(0) : NULL;
    int status;
    (void)unused;
    if (!r)
        return NULL;
    Py_BEGIN_ALLOW_THREADS status = tccrt_comm_barrier(c, &r->r);
    Py_END_ALLOW_THREADS return finish(r, status);
}

/* -- Groups -------------------------------------------------------------------------------------------------------- */

static PyObject *comm_group(PyObject *self, PyObject *list)
{
    struct tccrt_comm *c = py_comm_of(self), *made = NULL;
    Py_ssize_t n = c ? PySequence_Size(list) : -1;
    int *ranks = n >= 0 ? calloc((size_t)n + 1, sizeof *ranks) : NULL, status;
    if (!ranks)
        return PyErr_Occurred() ? NULL : PyErr_NoMemory();
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *x = PySequence_GetItem(list, i);
        ranks[i] = x ? (int)PyLong_AsLong(x) : -1;
        Py_XDECREF(x);
    }
    if (PyErr_Occurred()) {
        free(ranks);
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS status = tccrt_comm_group(c, (int)n, ranks, &made);
    Py_END_ALLOW_THREADS free(ranks);
    return py_failed(status) ? NULL : made ? wrap(made, false) : Py_NewRef(Py_None);
}

static PyObject *comm_finalize(PyObject *self, PyObject *args)
{
    const char *why = NULL;
    struct tccrt_comm *c = PyArg_ParseTuple(args, "|z:finalize", &why) ? py_comm_of(self) : NULL;
    int status;
    if (!c)
        return NULL;
    ((struct comm *)self)->c = NULL;
    Py_BEGIN_ALLOW_THREADS status = tccrt_comm_finalize(c, why);
    Py_END_ALLOW_THREADS return py_failed(status) ? NULL : Py_NewRef(Py_None);
}

static PyObject *comm_close(PyObject *self, PyObject *unused)
{
    struct comm *c = (struct comm *)self;
    (void)unused;
    if (!c->world)
        tccrt_comm_free(c->c);
    c->c = NULL;
    return Py_NewRef(Py_None);
}

static PyObject *comm_number(PyObject *self, void *get)
{
    const struct tccrt_comm *c = py_comm_of(self);
    return c ? PyLong_FromLong(((int (*)(const struct tccrt_comm *))get)(c)) : NULL;
}

static PyMethodDef methods[] = {
    {"all_reduce", comm_all_reduce, METH_VARARGS,
     "all_reduce(inputs, outputs, op='sum', scale=1): lists of tensors; a Request."},
    {"reduce", comm_reduce, METH_VARARGS, "reduce(inputs, outputs, op='sum', scale=1, root=0)."},
    {"broadcast", comm_broadcast, METH_VARARGS, "broadcast(tensors, root=0)."},
    {"all_gather", comm_all_gather, METH_VARARGS, "all_gather(input, output, counts=None)."},
    {"reduce_scatter", comm_reduce_scatter, METH_VARARGS,
     "reduce_scatter(input, output, op='sum', scale=1, counts=None)."},
    {"all_to_all", comm_all_to_all, METH_VARARGS, "all_to_all(input, output, input_counts=None, output_counts=None)."},
    {"send", comm_send, METH_VARARGS, "send(tensor, to, tag=0)."},
    {"recv", comm_recv, METH_VARARGS, "recv(tensor, source, tag=0)."},
    {"barrier", comm_barrier, METH_NOARGS, "barrier(): a Request."},
    {"group", comm_group, METH_O, "group(ranks): a Comm of these ranks, called by them; None elsewhere."},
    {"finalize", comm_finalize, METH_VARARGS, "finalize(why=None): ends the world."},
    {"close", comm_close, METH_NOARGS, "Frees a group; the world stays."},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef getters[] = {
    {"rank", comm_number, NULL, "Number of this process in the group.", (void *)tccrt_comm_rank},
    {"size", comm_number, NULL, "Processes in the group.", (void *)tccrt_comm_size},
    {"local_rank", comm_number, NULL, "Number among the processes of this machine.", (void *)tccrt_comm_local_rank},
    {NULL, NULL, NULL, NULL, NULL}};

static PyType_Spec py_comm_spec = {
    "tccc._runtime.Comm", sizeof(struct comm), 0, Py_TPFLAGS_DEFAULT,
    (PyType_Slot[]){
        {Py_tp_new, (void *)comm_new},
        {Py_tp_dealloc, (void *)comm_free},
        {Py_tp_methods, methods},
        {Py_tp_getset, getters},
        {Py_tp_doc,
         (void *)(uintptr_t) "A group of processes; Comm(engine=None, timeout=0, alone=False) is the world."},
        {0, NULL}}};

static PyMethodDef request_methods[] = {
    {"wait", request_wait, METH_NOARGS, "Returns when it is done; raises what went wrong."},
    {"test", request_test, METH_NOARGS, "Is it done?"},
    {NULL, NULL, 0, NULL}};

static PyType_Spec request_spec = {
    "tccc._runtime.Request", sizeof(struct request), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    (PyType_Slot[]){{Py_tp_dealloc, (void *)request_free},
                    {Py_tp_methods, request_methods},
                    {Py_tp_doc, (void *)(uintptr_t) "A collective call that is under way."},
                    {0, NULL}}};

int py_comm_setup(PyObject *module)
{
    py_comm_type = (PyTypeObject *)PyType_FromSpec(&py_comm_spec);
    request_type = (PyTypeObject *)PyType_FromSpec(&request_spec);
    return !py_comm_type || !request_type || PyModule_AddObjectRef(module, "Comm", (PyObject *)py_comm_type) ||
                   PyModule_AddObjectRef(module, "Request", (PyObject *)request_type)
               ? -1
               : 0;
}
