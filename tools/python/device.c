/* SPDX-License-Identifier: Apache-2.0 */
/*
 * _runtime.DeviceArray: a dense array in the memory of a model's device. Runs read their inputs there and leave their
 * results there; others get at it by DLPack, as the memory of a CUDA device (2, K) where it is one, else of an
 * extension's (12): a simulated device's addresses mean nothing to anybody else.
 *
 * A model keeps what runs that were only given read and write, until they are done: freeing an array never waits.
 * Blocks that nobody but its runs has seen are kept for arrays of the same size, since a driver waits for the whole
 * device when it takes memory back.
 */
#include "tools/python/model_int.h"

#include <stdlib.h>
#include <string.h>

struct array {
    PyObject_HEAD struct model *m; /* NULL: nothing is here */
    struct tcc_tensor t;
    size_t bytes;
    bool exported; /* others' streams may use it */
    int64_t strides[TCC_MAX_RANK];
};

PyTypeObject *py_array_type;

struct dl_device py_device_of(const char *name)
{
    const char *colon = strchr(name, ':');
    int32_t number = colon ? (int32_t)strtol(colon + 1, NULL, 10) : 0;
    int32_t type = strcmp(name, "cpu") == 0 ? DL_CPU : strncmp(name, "cuda", 4) == 0 ? DL_CUDA : DL_EXTENSION;
    return (struct dl_device){type, number};
}

/* -- Memory ----------------------------------------------------------------------------------------------------- */

static void *take_block(struct model *m, size_t bytes)
{
    void *at = NULL;
    for (int i = m->nblocks - 1; i >= 0; i--)
        if (m->blocks[i].bytes == bytes) {
            at = m->blocks[i].at;
            m->blocks[i] = m->blocks[--m->nblocks];
            return at;
        }
    struct tccrt_session *s = m->single && py_wait(m) ? NULL : py_take_session(m); /* it waits for the session's runs */
    if (!s)
        return NULL;
    Py_BEGIN_ALLOW_THREADS at = tccrt_device_alloc(s, bytes);
    Py_END_ALLOW_THREADS if (!at) py_fail(TCC_EENV, "%s", tccrt_error());
    py_give_session(m, s);
    return at;
}

static void free_block(struct model *m, void *at, size_t bytes)
{
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    struct tccrt_session *s = py_take_session(m);
    if (s) {
        Py_BEGIN_ALLOW_THREADS tccrt_device_free(s, at, bytes);
        Py_END_ALLOW_THREADS py_give_session(m, s);
    }
    PyErr_Restore(type, value, trace);
}

void py_free_blocks(struct model *m)
{
    while (m->nblocks) {
        m->nblocks--;
        free_block(m, m->blocks[m->nblocks].at, m->blocks[m->nblocks].bytes);
    }
}

static void give_block(struct model *m, void *at, size_t bytes, bool exported)
{
    if (exported || m->nblocks == sizeof m->blocks / sizeof *m->blocks) {
        free_block(m, at, bytes);
        return;
    }
    m->blocks[m->nblocks].at = at;
    m->blocks[m->nblocks++].bytes = bytes;
}

PyObject *py_array_make(struct model *m, const struct tcc_tensor *t)
{
    int64_t n = t->dtype == TCC_STRING || !py_dtype_bytes(t->dtype) ? -1 : tcc_elements(t->rank, t->dims);
    if (n < 0 || n > INT64_MAX / 16)
        return py_fail(TCC_EINPUT, "an array on the device: its type and shape are of no tensor"), NULL;
    struct array *a = (struct array *)((allocfunc)PyType_GetSlot(py_array_type, Py_tp_alloc))(py_array_type, 0);
    if (!a)
        return NULL;
    a->t = *t;
    a->bytes = (size_t)n * (size_t)py_dtype_bytes(t->dtype);
    a->t.data = take_block(m, a->bytes ? a->bytes : 1);
    if (!a->t.data) {
        Py_DECREF((PyObject *)a);
        return NULL;
    }
    Py_INCREF((PyObject *)m);
    a->m = m;
    m->arrays++;
    return (PyObject *)a;
}

static void array_free(PyObject *self)
{
    struct array *a = (struct array *)self;
    PyTypeObject *type = Py_TYPE(self);
    if (a->m) {
        a->m->arrays--;
        give_block(a->m, a->t.data, a->bytes ? a->bytes : 1, a->exported);
        Py_DECREF((PyObject *)a->m);
    }
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF((PyObject *)type);
}

/* -- Copies ------------------------------------------------------------------------------------------------------- */

static int copy(struct array *a, bool to_device, void *host)
{
    struct model *m = a->m;
    if (!a->bytes)
        return 0;
    if (py_wait(m)) /* for runs that read or write it, and their errors */
        return -1;
    struct tccrt_session *s = py_take_session(m);
    int status = TCC_OK;
    if (!s)
        return -1;
    Py_BEGIN_ALLOW_THREADS status = to_device ? tccrt_device_copy(s, true, a->t.data, false, host, a->bytes)
                                              : tccrt_device_copy(s, false, host, true, a->t.data, a->bytes);
    Py_END_ALLOW_THREADS py_give_session(m, s);
    return py_failed(status);
}

static PyObject *to_host(struct array *a)
{
    struct tcc_tensor t = a->t;
    struct py_result r;
    if (py_result_make(&(struct py_kind){0}, &t, &r) || copy(a, false, t.data)) {
        py_result_drop(&r);
        return NULL;
    }
    return py_result_done(&r);
}

static PyObject *array_numpy(PyObject *self, PyObject *unused)
{
    (void)unused;
    return to_host((struct array *)self);
}

static PyObject *array_array(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"dtype", "copy", NULL};
    PyObject *dtype = Py_None, *may_copy = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|OO:__array__", names, &dtype, &may_copy))
        return NULL;
    if (may_copy == Py_False) {
        PyErr_SetString(PyExc_ValueError, "an array on a device is not numpy's memory: a copy is needed");
        return NULL;
    }
    PyObject *host = to_host((struct array *)self);
    if (!host || dtype == Py_None)
        return host;
    PyObject *cast = PyObject_CallMethod(host, "astype", "O", dtype);
    Py_DECREF(host);
    return cast;
}

static int set_from(struct array *a, PyObject *o)
{
    struct tccrt_value_info info = {.name = "value", .kind = TCC_OBJ_TENSOR, .dtype = a->t.dtype, .rank = a->t.rank};
    struct py_value v = {0};
    int bad = py_value_take(o, &info, &v, NULL);
    if (!bad && (v.t.dtype != a->t.dtype || v.t.rank != a->t.rank ||
                 memcmp(v.t.dims, a->t.dims, (size_t)a->t.rank * sizeof *a->t.dims) != 0))
        bad = py_fail(TCC_EINPUT, "the array on the device has another type or shape (%s)", py_dtype_name(a->t.dtype));
    if (!bad)
        bad = copy(a, true, v.t.data);
    py_value_free(&v);
    return bad;
}

static PyObject *array_set(PyObject *self, PyObject *value)
{
    return set_from((struct array *)self, value) ? NULL : Py_NewRef(Py_None);
}

/* -- DLPack -------------------------------------------------------------------------------------------------------- */

static void release(PyObject *a)
{
    PyGILState_STATE state = PyGILState_Ensure();
    Py_DECREF(a);
    PyGILState_Release(state);
}

static void old_deleter(struct dl_managed *self)
{
    release(self->context);
    free(self);
}

static void new_deleter(struct dl_versioned *self)
{
    release(self->context);
    free(self);
}

/* A capsule that nobody has taken. */
static void capsule_free(PyObject *capsule)
{
    if (PyCapsule_IsValid(capsule, "dltensor")) {
        struct dl_managed *m = PyCapsule_GetPointer(capsule, "dltensor");
        m->deleter(m);
    } else if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
        struct dl_versioned *m = PyCapsule_GetPointer(capsule, "dltensor_versioned");
        m->deleter(m);
    }
}

static PyObject *export(struct array *a, bool versioned)
{
    struct dl_tensor t = {
        .data = a->t.data, .device = a->m->where, .ndim = a->t.rank, .shape = a->t.dims, .strides = a->strides};
    int64_t step = 1;
    if (!py_dlpack_of_dtype(a->t.dtype, &t.dtype)) {
        PyErr_Format(PyExc_BufferError, "arrays of %s have no form in DLPack", py_dtype_name(a->t.dtype));
        return NULL;
    }
    for (int i = a->t.rank - 1; i >= 0; i--) {
        a->strides[i] = step;
        step *= a->t.dims[i];
    }
    struct dl_managed *old = versioned ? NULL : calloc(1, sizeof *old);
    struct dl_versioned *new = versioned ? calloc(1, sizeof *new) : NULL;
    if (!old && !new)
        return PyErr_NoMemory();
    if (new)
        *new = (struct dl_versioned){
            .version = {1, 0}, .context = Py_NewRef((PyObject *)a), .deleter = new_deleter, .t = t};
    else
        *old = (struct dl_managed){.t = t, .context = Py_NewRef((PyObject *)a), .deleter = old_deleter};
    PyObject *capsule =
        new ? PyCapsule_New(new, "dltensor_versioned", capsule_free) : PyCapsule_New(old, "dltensor", capsule_free);
    if (!capsule)
        new ? new_deleter(new) : old_deleter(old);
    return capsule;
}

/* The same bytes on the host, as numpy hands them out. */
static PyObject *export_host(struct array *a, PyObject *max_version)
{
    PyObject *host = to_host(a), *get = host ? PyObject_GetAttrString(host, "__dlpack__") : NULL, *capsule = NULL;
    PyObject *none = PyTuple_New(0), *how = PyDict_New();
    if (get && none && how && (max_version == Py_None || !PyDict_SetItemString(how, "max_version", max_version)))
        capsule = PyObject_Call(get, none, how);
    if (!capsule && PyErr_ExceptionMatches(PyExc_TypeError)) { /* an older numpy */
        PyErr_Clear();
        capsule = PyObject_Call(get, none, NULL);
    }
    Py_XDECREF(how);
    Py_XDECREF(none);
    Py_XDECREF(get);
    Py_XDECREF(host);
    return capsule;
}

/* The consumer's stream sees what all runs wrote: those that were given on another one are waited for. */
static int ready_for(struct array *a, PyObject *stream)
{
    uintptr_t theirs = 0;
    if (PyLong_Check(stream) && PyLong_AsLongLong(stream) == -1) /* it looks after that itself */
        return PyErr_Occurred() ? -1 : 0;
    return py_stream(stream, &theirs) || py_wait_but(a->m, theirs) ? -1 : 0;
}

static PyObject *array_dlpack(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"stream", "max_version", "dl_device", "copy", NULL};
    PyObject *stream = Py_None, *max_version = Py_None, *device = Py_None, *copied = Py_None;
    struct array *a = (struct array *)self;
    struct dl_device ours = a->m->where;
    int type = ours.type, id = ours.id;
    long major = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$OOOO:__dlpack__", names, &stream, &max_version, &device, &copied))
        return NULL;
    if (device != Py_None && !PyArg_ParseTuple(device, "ii", &type, &id))
        return NULL;
    if (max_version != Py_None &&
        (!PyTuple_Check(max_version) || PyTuple_Size(max_version) < 1 ||
         ((major = PyLong_AsLong(PyTuple_GetItem(max_version, 0))) == -1 && PyErr_Occurred())))
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_TypeError, "max_version: expected a pair of numbers");
    if (type == DL_CPU && (copied == Py_True || (ours.type != DL_CPU && copied != Py_False)))
        return export_host(a, max_version);
    if (type != ours.type || id != ours.id || copied == Py_True)
        return PyErr_Format(PyExc_BufferError,
                            "the array lies on device (%d, %d): it can be handed out there, or copied to the host",
                            ours.type, ours.id);
    if (ready_for(a, stream))
        return NULL;
    PyObject *capsule = export(a, major >= 1);
    a->exported |= capsule != NULL;
    return capsule;
}

static PyObject *array_dlpack_device(PyObject *self, PyObject *unused)
{
    struct dl_device d = ((struct array *)self)->m->where;
    (void)unused;
    return Py_BuildValue("ii", d.type, d.id);
}

/* -- As inputs and results of runs --------------------------------------------------------------------------------- */

bool py_is_array(PyObject *o)
{
    return Py_TYPE(o) == py_array_type;
}

int py_array_take(PyObject *o, struct py_value *v, struct py_kind *kind)
{
    struct array *a = (struct array *)o;
    struct model *m = kind ? kind->m : NULL;
    v->t = a->t;
    if (m && strcmp(m->device_name, a->m->device_name) == 0) {
        v->on_device = kind->on_device = true;
        v->kept = Py_NewRef(o);
        return py_wait_but(a->m, kind->stream); /* what other streams do with it */
    }
    v->kept = to_host(a); /* on a device that this call knows nothing of */
    v->has_view = v->kept && PyObject_GetBuffer(v->kept, &v->view, PyBUF_RECORDS_RO) == 0;
    if (!v->has_view)
        return -1;
    v->t.data = v->view.buf;
    return 0;
}

const struct tcc_tensor *py_array_tensor(PyObject *o)
{
    return &((struct array *)o)->t;
}

/* -- Methods of the model ------------------------------------------------------------------------------------------ */

PyObject *model_to_device(PyObject *self, PyObject *value)
{
    static PyObject *helper;
    struct model *m = (struct model *)self;
    struct tccrt_value_info info = {.name = "value", .kind = TCC_OBJ_TENSOR, .dtype = TCC_F32, .rank = -1};
    struct py_value v = {0};
    PyObject *array = NULL, *source = NULL;
    if (!helper && !(helper = py_helper("_convert", "anything")))
        return NULL;
    if (!m->m)
        return py_fail(TCC_EUSAGE, "the model is closed"), NULL;
    if ((source = PyObject_CallFunctionObjArgs(helper, value, NULL)) && !py_value_take(source, &info, &v, NULL) &&
        (array = py_array_make(m, &v.t)) && copy((struct array *)array, true, v.t.data))
        Py_CLEAR(array);
    py_value_free(&v);
    Py_XDECREF(source);
    return array;
}

PyObject *model_empty_on_device(PyObject *self, PyObject *args)
{
    struct model *m = (struct model *)self;
    struct tcc_tensor t = {0};
    const char *type = "float32";
    PyObject *shape;
    if (!PyArg_ParseTuple(args, "O|s:empty_on_device", &shape, &type))
        return NULL;
    Py_ssize_t rank = PySequence_Size(shape);
    t.dtype = py_dtype_of_name(type);
    if (rank < 0)
        return NULL;
    if (!m->m || !t.dtype || rank > TCC_MAX_RANK)
        return py_fail(m->m ? TCC_EINPUT : TCC_EUSAGE, "%s",
                       m->m ? "no such element type or rank" : "the model is closed"),
               NULL;
    for (t.rank = 0; t.rank < rank; t.rank++) {
        PyObject *d = PySequence_GetItem(shape, t.rank);
        t.dims[t.rank] = d ? PyLong_AsLongLong(d) : -1;
        Py_XDECREF(d);
        if (PyErr_Occurred())
            return NULL;
    }
    return py_array_make(m, &t);
}

/* -- The type ------------------------------------------------------------------------------------------------------ */

static PyObject *array_shape(PyObject *self, void *unused)
{
    const struct array *a = (struct array *)self;
    PyObject *shape = PyTuple_New(a->t.rank);
    (void)unused;
    for (int i = 0; shape && i < a->t.rank; i++)
        PyTuple_SetItem(shape, i, PyLong_FromLongLong(a->t.dims[i]));
    return shape;
}

static PyObject *array_dtype(PyObject *self, void *unused)
{
    (void)unused;
    return PyUnicode_FromString(py_dtype_name(((struct array *)self)->t.dtype));
}

static PyObject *array_device(PyObject *self, void *unused)
{
    (void)unused;
    return PyUnicode_FromString(((struct array *)self)->m->device_name);
}

static PyObject *array_nbytes(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromSize_t(((struct array *)self)->bytes);
}

static PyObject *array_pointer(PyObject *self, void *unused)
{
    struct array *a = (struct array *)self;
    (void)unused;
    a->exported = true;
    return PyLong_FromVoidPtr(a->t.data);
}

static PyObject *array_repr(PyObject *self)
{
    PyObject *shape = array_shape(self, NULL);
    const struct array *a = (struct array *)self;
    PyObject *text = shape ? PyUnicode_FromFormat("<tccc.DeviceArray %s%S on %s>", py_dtype_name(a->t.dtype), shape,
                                                  a->m->device_name)
                           : NULL;
    Py_XDECREF(shape);
    return text;
}

static PyMethodDef methods[] = {
    {"numpy", array_numpy, METH_NOARGS, "numpy(): a copy on the host, when all runs that were given are done."},
    {"set", array_set, METH_O, "set(value): copies an array of the same type and shape to the device."},
    {"__array__", (PyCFunction)(void (*)(void))array_array, METH_VARARGS | METH_KEYWORDS, "A copy on the host."},
    {"__dlpack__", (PyCFunction)(void (*)(void))array_dlpack, METH_VARARGS | METH_KEYWORDS,
     "__dlpack__(*, stream, max_version, dl_device, copy): the memory itself, for others on the device; with "
     "dl_device=(1, 0) a copy on "
     "the host."},
    {"__dlpack_device__", array_dlpack_device, METH_NOARGS,
     "(2, K): CUDA device K; (1, 0): the host; (12, K): a simulated one."},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef getters[] = {{"shape", array_shape, NULL, "Its sizes.", NULL},
                                {"dtype", array_dtype, NULL, "numpy's name of its element type.", NULL},
                                {"device", array_device, NULL, "Where it lies: 'cuda:0', 'sim', 'cpu'...", NULL},
                                {"nbytes", array_nbytes, NULL, "Bytes of its elements.", NULL},
                                {"pointer", array_pointer, NULL, "Its address on the device.", NULL},
                                {NULL, NULL, NULL, NULL, NULL}};

PyType_Spec py_array_spec = {
    "tccc._runtime.DeviceArray", sizeof(struct array), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    (PyType_Slot[]){{Py_tp_dealloc, (void *)array_free},
                    {Py_tp_methods, methods},
                    {Py_tp_getset, getters},
                    {Py_tp_repr, (void *)array_repr},
                    {Py_tp_doc,
                     (void *)(uintptr_t) "A dense array in the memory of a model's device, made by Model.to_device(), "
                                         "Model.empty_on_device() and runs."},
                    {0, NULL}}};
