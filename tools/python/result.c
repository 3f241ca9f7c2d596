/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a call gives back. A result whose shape is known before the run is written by the model into memory that the
 * framework of the inputs allocated (numpy.empty, DLPack's allocator); one whose shape the run decides is an object of
 * the runtime's, which _runtime.Memory offers by the buffer protocol (or DLPack's deleter frees). Neither is copied.
 */
#include "tools/python/python_int.h"

#include <stdlib.h>
#include <string.h>

PyTypeObject *py_memory_type;

/* -- Descriptions -------------------------------------------------------------------------------------------- */

static PyObject *shape_of(int rank, const int64_t *dims, const char *const *names)
{
    PyObject *shape = PyTuple_New(rank);
    for (int i = 0; shape && i < rank; i++) {
        PyObject *d = dims[i] >= 0                     ? PyLong_FromLongLong(dims[i])
                      : names && names[i] && *names[i] ? PyUnicode_FromString(names[i])
                                                       : Py_NewRef(Py_None);
        if (!d || PyTuple_SetItem(shape, i, d)) {
            Py_DECREF(shape);
            return NULL;
        }
    }
    return shape;
}

PyObject *py_info(const struct tccrt_value_info *info, PyObject *labels)
{
    static PyObject *make;
    static const char *const kinds[] = {
        [TCC_OBJ_NONE] = "none", [TCC_OBJ_TENSOR] = "tensor", [TCC_OBJ_SEQUENCE] = "sequence"};
    if (!make && !(make = py_helper("_types", "Value")))
        return NULL;
    PyObject *shape = info->rank < 0 ? Py_NewRef(Py_None) : shape_of(info->rank, info->dims, info->dim_names);
    if (!shape)
        return NULL;
    PyObject *value = PyObject_CallFunction(make, "ssOsOO", info->name, py_dtype_name(info->dtype), shape,
                                            kinds[info->kind], info->optional ? Py_True : Py_False, labels);
    Py_DECREF(shape);
    return value;
}

/* -- numpy --------------------------------------------------------------------------------------------------------- */

/* numpy.empty(shape, type), of the type's bits where the buffer protocol has no letter for it. */
static PyObject *numpy_empty(const struct tcc_tensor *t)
{
    static PyObject *empty, *types[TCC_NDTYPES];
    PyObject *array = NULL;
    if (!empty && !(empty = py_helper("_convert", "empty")))
        return NULL;
    if (!types[t->dtype]) {
        const char *name = py_dtype_has_format(t->dtype)   ? py_dtype_name(t->dtype)
                           : py_dtype_bytes(t->dtype) == 2 ? "uint16"
                                                           : "uint8";
        PyObject *make = py_helper("_convert", "dtype");
        types[t->dtype] = make ? PyObject_CallFunction(make, "s", name) : NULL;
        Py_XDECREF(make);
        if (!types[t->dtype])
            return NULL;
    }
    PyObject *shape = shape_of(t->rank, t->dims, NULL);
    if (shape)
        array = PyObject_CallFunctionObjArgs(empty, shape, types[t->dtype], NULL);
    Py_XDECREF(shape);
    return array;
}

/* Bits become what they stand for (ml_dtypes), where that is installed. */
static PyObject *numpy_typed(PyObject *array, int dtype)
{
    static PyObject *helper;
    if (!array || py_dtype_has_format(dtype))
        return array;
    PyObject *typed = helper || (helper = py_helper("_convert", "typed"))
                          ? PyObject_CallFunction(helper, "Os", array, py_dtype_name(dtype))
                          : NULL;
    Py_DECREF(array);
    return typed;
}

/* -- Results of known shape ---------------------------------------------------------------------------------------- */

static void set_error(void *context, const char *kind, const char *message)
{
    (void)context;
    PyErr_Format(PyExc_RuntimeError, "%s: %s", kind, message);
}

static int make_exchange(const struct dl_exchange *x, struct dl_device device, struct tcc_tensor *t,
                         struct py_result *r)
{
    struct dl_tensor like = {.device = device, .ndim = t->rank, .shape = t->dims};
    if (!py_dlpack_of_dtype(t->dtype, &like.dtype))
        return py_fail(TCC_EINPUT, "a result of type %s has no form in DLPack: pass numpy arrays",
                       py_dtype_name(t->dtype));
    if (x->allocate(&like, &r->managed, NULL, set_error))
        return PyErr_Occurred() ? -1 : py_fail(TCC_EENV, "no memory for a result");
    r->exchange = x;
    t->data = r->managed->t.data ? (char *)r->managed->t.data + r->managed->t.byte_offset : NULL;
    return 0;
}

int py_result_make(const struct py_kind *kind, struct tcc_tensor *t, struct py_result *r)
{
    *r = (struct py_result){.dtype = t->dtype};
    if (kind->exchange)
        return make_exchange(kind->exchange, (struct dl_device){DL_CPU, 0}, t, r);
    r->framework = kind->framework;
    r->array = numpy_empty(t);
    if (!r->array || PyObject_GetBuffer(r->array, &r->view, PyBUF_CONTIG))
        return -1;
    r->has_view = true;
    t->data = r->view.buf;
    return 0;
}

int py_result_make_there(const struct py_kind *kind, struct dl_device device, struct tcc_tensor *t, struct py_result *r)
{
    *r = (struct py_result){.dtype = t->dtype};
    return make_exchange(kind->exchange, device, t, r);
}

void py_result_drop(struct py_result *r)
{
    if (r->has_view)
        PyBuffer_Release(&r->view);
    Py_XDECREF(r->array);
    if (r->managed && r->managed->deleter)
        r->managed->deleter(r->managed);
    *r = (struct py_result){0};
}

static PyObject *to_framework(PyObject *like, PyObject *array)
{
    static PyObject *helper;
    PyObject *o = array && (helper || (helper = py_helper("_convert", "like")))
                      ? PyObject_CallFunctionObjArgs(helper, like, array, NULL)
                      : NULL;
    Py_XDECREF(array);
    return o;
}

PyObject *py_result_like(const struct py_kind *kind, PyObject *array)
{
    return kind->framework ? to_framework(kind->framework, array) : array;
}

PyObject *py_result_done(struct py_result *r)
{
    PyObject *array = r->array;
    if (r->managed) {
        void *o = NULL;
        struct dl_versioned *managed = r->managed;
        r->managed = NULL;
        return r->exchange->to_object(managed, &o) ? NULL : o;
    }
    if (r->has_view)
        PyBuffer_Release(&r->view);
    r->has_view = false;
    r->array = NULL;
    array = numpy_typed(array, r->dtype);
    return r->framework ? to_framework(r->framework, array) : array;
}

/* -- Objects of the runtime's -------------------------------------------------------------------------------------- */

struct memory {
    PyObject_HEAD struct tcc_object *object;
    Py_ssize_t dims[TCC_MAX_RANK], strides[TCC_MAX_RANK];
};

static int memory_buffer(PyObject *self, Py_buffer *view, int flags)
{
    struct memory *m = (struct memory *)self;
    const struct tcc_tensor *t = &m->object->t;
    Py_ssize_t size = py_dtype_bytes(t->dtype), step = size;
    for (int i = t->rank - 1; i >= 0; i--) {
        m->dims[i] = (Py_ssize_t)t->dims[i];
        m->strides[i] = step;
        step *= m->dims[i];
    }
    *view = (Py_buffer){.buf = t->data,
                        .obj = Py_NewRef(self),
                        .len = (Py_ssize_t)tcc_elements(t->rank, t->dims) * size,
                        .itemsize = size,
                        .ndim = t->rank,
                        .shape = m->dims,
                        .strides = m->strides,
                        .format = flags & PyBUF_FORMAT ? (char *)(uintptr_t)py_dtype_format(t->dtype) : NULL};
    return 0;
}

static void memory_free(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    tccrt_object_unref(((struct memory *)self)->object);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF((PyObject *)type);
}

PyType_Spec py_memory_spec = {
    "tccc._runtime.Memory", sizeof(struct memory), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    (PyType_Slot[]){{Py_tp_dealloc, (void *)memory_free},
                    {Py_bf_getbuffer, (void *)memory_buffer},
                    {Py_tp_doc, (void *)(uintptr_t) "Memory of a result, by the buffer protocol."},
                    {0, NULL}}};

static PyObject *memory_of(struct tcc_object *o)
{
    allocfunc alloc = (allocfunc)PyType_GetSlot(py_memory_type, Py_tp_alloc);
    struct memory *m = (struct memory *)alloc(py_memory_type, 0);
    if (m)
        m->object = o;
    else
        tccrt_object_unref(o);
    return (PyObject *)m;
}

static PyObject *array_object(struct tcc_object *o)
{
    static PyObject *asarray;
    int dtype = o->t.dtype;
    PyObject *memory = memory_of(o), *array = NULL;
    if (memory && (asarray || (asarray = py_helper("_convert", "asarray"))))
        array = PyObject_CallFunctionObjArgs(asarray, memory, NULL);
    Py_XDECREF(memory);
    return numpy_typed(array, dtype);
}

static void object_deleter(struct dl_versioned *self)
{
    tccrt_object_unref(self->context);
    free(self);
}

static PyObject *exchange_object(const struct dl_exchange *x, struct tcc_object *o)
{
    void *result = NULL;
    struct dl_versioned *m = calloc(1, sizeof *m);
    struct dl_tensor t = {.data = o->t.data, .device = {DL_CPU, 0}, .ndim = o->t.rank, .shape = o->t.dims};
    if (!m || !py_dlpack_of_dtype(o->t.dtype, &t.dtype)) {
        m ? py_fail(TCC_EINPUT, "a result of type %s has no form in DLPack: pass numpy arrays",
                    py_dtype_name(o->t.dtype))
          : (PyErr_NoMemory(), 0);
        tccrt_object_unref(o);
        free(m);
        return NULL;
    }
    *m = (struct dl_versioned){.version = {1, 0}, .context = o, .deleter = object_deleter, .t = t};
    return x->to_object(m, &result) ? NULL : result;
}

static PyObject *strings_object(struct tcc_object *o)
{
    static PyObject *helper;
    int64_t n = tcc_elements(o->t.rank, o->t.dims);
    const struct tcc_string *s = o->t.data;
    PyObject *list = PyList_New((Py_ssize_t)n), *shape = shape_of(o->t.rank, o->t.dims, NULL), *result = NULL;
    bool bad = !list || !shape;
    for (int64_t i = 0; i < n && !bad; i++) {
        PyObject *text = PyUnicode_DecodeUTF8(s[i].data ? s[i].data : "", (Py_ssize_t)s[i].size, "surrogateescape");
        bad = !text || PyList_SetItem(list, (Py_ssize_t)i, text);
    }
    if (!bad && (helper || (helper = py_helper("_convert", "string_array"))))
        result = PyObject_CallFunctionObjArgs(helper, list, shape, NULL);
    Py_XDECREF(list);
    Py_XDECREF(shape);
    tccrt_object_unref(o);
    return result;
}

static PyObject *list_object(const struct py_kind *kind, struct tcc_object *o)
{
    PyObject *list = PyList_New((Py_ssize_t)o->n);
    for (int64_t i = 0; i < o->n && list; i++) {
        struct tcc_object *item = tccrt_object_ref(o->items[i]);
        PyObject *x = item ? py_result_object(kind, item) : PyErr_NoMemory();
        if (!x || PyList_SetItem(list, (Py_ssize_t)i, x)) {
            Py_DECREF(list);
            list = NULL;
        }
    }
    tccrt_object_unref(o);
    return list;
}

PyObject *py_result_object(const struct py_kind *kind, struct tcc_object *o)
{
    if (!o || o->kind == TCC_OBJ_NONE) {
        tccrt_object_unref(o);
        return Py_NewRef(Py_None);
    }
    if (o->kind == TCC_OBJ_SEQUENCE)
        return list_object(kind, o);
    if (o->t.dtype == TCC_STRING)
        return strings_object(o);
    if (kind->exchange)
        return exchange_object(kind->exchange, o);
    return kind->framework ? to_framework(kind->framework, array_object(o)) : array_object(o);
}

PyObject *py_result_copy(const struct tcc_tensor *t)
{
    struct tcc_tensor to = *t;
    struct py_result r;
    int64_t n = tcc_elements(t->rank, t->dims);
    if (py_result_make(&(struct py_kind){0}, &to, &r)) {
        py_result_drop(&r);
        return NULL;
    }
    if (n > 0)
        memcpy(to.data, t->data, (size_t)n * (size_t)py_dtype_bytes(t->dtype));
    return py_result_done(&r);
}
