/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a call is given: buffers (PEP 3118: numpy arrays, memoryviews, bytes), DLPack tensors by the C functions of
 * their type or by __dlpack__(), lists and numbers, strings, sequences. Memory of others is read where it lies; the
 * objects that own it are held.
 */
#include "tools/python/model_int.h"

#include <stdlib.h>
#include <string.h>

/* A deleter may be Python code, which must not meet the exception that is on its way. */
static void delete_tensors(struct py_value *v)
{
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    if (v->managed && v->managed->deleter)
        v->managed->deleter(v->managed);
    if (v->versioned && v->versioned->deleter)
        v->versioned->deleter(v->versioned);
    PyErr_Restore(type, value, trace);
}

void py_value_free(struct py_value *v)
{
    if (v->has_view)
        PyBuffer_Release(&v->view);
    if (v->managed || v->versioned)
        delete_tensors(v);
    if (v->object)
        tccrt_object_unref(v->object);
    Py_XDECREF(v->kept);
    free(v->copy);
    *v = (struct py_value){0};
}

static int set_dims(struct tcc_tensor *t, const char *name, int rank, const Py_ssize_t *dims)
{
    if (rank > TCC_MAX_RANK)
        return py_fail(TCC_EINPUT, "input '%s': got rank %d, at most %d is supported", name, rank, TCC_MAX_RANK);
    t->rank = rank;
    for (int i = 0; i < rank; i++)
        t->dims[i] = dims[i];
    return 0;
}

/* -- Buffers -------------------------------------------------------------------------------------------------- */

/* The elements of a strided buffer in row-major order. */
static int make_dense(struct py_value *v)
{
    v->copy = malloc(v->view.len ? (size_t)v->view.len : 1);
    if (!v->copy) {
        PyErr_NoMemory();
        return -1;
    }
    v->t.data = v->copy;
    return PyBuffer_ToContiguous(v->copy, &v->view, v->view.len, 'C');
}

static int take_view(struct py_value *v, const char *name, int dtype)
{
    v->t.dtype = dtype ? dtype : py_dtype_of_buffer(&v->view);
    if (!v->t.dtype)
        return py_fail(TCC_EINPUT, "input '%s': elements of format '%s' are none of ours (native byte order only)",
                       name, v->view.format ? v->view.format : "B");
    if (set_dims(&v->t, name, v->view.ndim, v->view.shape))
        return -1;
    v->t.data = v->view.buf;
    return PyBuffer_IsContiguous(&v->view, 'C') ? 0 : make_dense(v);
}

/* An array whose type the buffer protocol has no letter for: seen as integers of its size (tccc._convert.bits). */
static int take_bits(PyObject *o, struct py_value *v, const char *name)
{
    static PyObject *helper;
    if (!helper && !(helper = py_helper("_convert", "bits")))
        return -1;
    PyObject *pair = PyObject_CallFunctionObjArgs(helper, o, NULL);
    if (!pair)
        return -1;
    PyObject *text = PyTuple_GetItem(pair, 1);
    const char *type = text ? PyUnicode_AsUTF8AndSize(text, NULL) : NULL;
    int dtype = type ? py_dtype_of_name(type) : TCC_NONE;
    int bad = !type    ? -1
              : !dtype ? py_fail(TCC_EINPUT, "input '%s': elements of type %s are none of ours", name, type)
                       : 0;
    if (!bad) {
        v->kept = Py_NewRef(PyTuple_GetItem(pair, 0));
        v->has_view = PyObject_GetBuffer(v->kept, &v->view, PyBUF_RECORDS_RO) == 0;
        bad = v->has_view ? take_view(v, name, dtype) : -1;
    }
    Py_DECREF(pair);
    return bad;
}

static int take_buffer(PyObject *o, struct py_value *v, const char *name)
{
    if (PyObject_GetBuffer(o, &v->view, PyBUF_RECORDS_RO) == 0) {
        v->has_view = true;
        return take_view(v, name, TCC_NONE);
    }
    if (!PyErr_ExceptionMatches(PyExc_ValueError) && !PyErr_ExceptionMatches(PyExc_BufferError))
        return -1;
    PyErr_Clear();
    return take_bits(o, v, name);
}

/* -- DLPack ------------------------------------------------------------------------------------------------------- */

static bool dense(const struct dl_tensor *t)
{
    int64_t step = 1;
    for (int i = t->ndim - 1; t->strides && i >= 0; i--) {
        if (t->shape[i] == 0)
            return true;
        if (t->shape[i] != 1 && t->strides[i] != step)
            return false;
        step *= t->shape[i];
    }
    return true;
}

/* Copies a strided tensor, the last axis innermost. */
static int copy_strided(struct py_value *v, const struct dl_tensor *t, size_t size)
{
    int64_t at[TCC_MAX_RANK] = {0}, n = tcc_elements(v->t.rank, v->t.dims), from = 0;
    char *to = n < 0 ? NULL : malloc((size_t)n * size + 1);
    if (!to) {
        PyErr_NoMemory();
        return -1;
    }
    v->copy = v->t.data = to;
    for (int64_t i = 0; i < n; i++) {
        memcpy(to + (size_t)i * size, (const char *)t->data + t->byte_offset + from * (int64_t)size, size);
        for (int d = t->ndim - 1; d >= 0; d--) {
            from += t->strides[d];
            if (++at[d] < t->shape[d])
                break;
            from -= t->strides[d] * t->shape[d];
            at[d] = 0;
        }
    }
    return 0;
}

/* Where the model's inputs may lie, too? */
static bool on_device_of(const struct model *m, const struct dl_tensor *t)
{
    return m && m->where.type == DL_CUDA && t->device.type == DL_CUDA && t->device.id == m->where.id;
}

static int take_dl_tensor(const struct dl_tensor *t, struct py_value *v, const char *name, struct py_kind *kind)
{
    v->t.dtype = py_dtype_of_dlpack(t->dtype);
    if (!v->t.dtype)
        return py_fail(TCC_EINPUT, "input '%s': elements of DLPack type %d, %d bits are none of ours", name,
                       t->dtype.code, t->dtype.bits);
    v->on_device = on_device_of(kind ? kind->m : NULL, t);
    if (t->device.type != DL_CPU && t->device.type != DL_CUDA_HOST && !v->on_device)
        return py_fail(
            TCC_EINPUT,
            "input '%s': it lies on device %d:%d (2: CUDA), but the model's inputs lie in the host's memory: x.cpu()",
            name, (int)t->device.type, (int)t->device.id);
    if (t->ndim < 0 || t->ndim > TCC_MAX_RANK)
        return py_fail(TCC_EINPUT, "input '%s': got rank %d, at most %d is supported", name, (int)t->ndim,
                       TCC_MAX_RANK);
    v->t.rank = t->ndim;
    if (t->ndim && t->shape)
        memcpy(v->t.dims, t->shape, (size_t)t->ndim * sizeof *t->shape);
    int64_t n = t->ndim && !t->shape ? -1 : tcc_elements(v->t.rank, v->t.dims);
    if (n < 0 || (n > 0 && !t->data))
        return py_fail(TCC_EINPUT, "input '%s': its DLPack tensor has no %s", name,
                       n < 0 ? "shape that is one" : "data");
    v->t.data = t->data ? (char *)t->data + t->byte_offset : NULL;
    if (v->on_device)
        kind->on_device = kind->framework_there = true;
    if (v->on_device && !dense(t))
        return py_fail(TCC_EINPUT,
                       "input '%s': expected dense memory on the device, got a strided tensor: x.contiguous()", name);
    return dense(t) ? 0 : copy_strided(v, t, (size_t)py_dtype_bytes(v->t.dtype));
}

/* The functions that a type offers; NULL: none. Types live long, so the last one is remembered. */
static const struct dl_exchange *exchange_of(PyObject *o)
{
    static PyTypeObject *last;
    static const struct dl_exchange *found;
    if (Py_TYPE(o) == last)
        return found;
    PyObject *capsule = PyObject_GetAttrString((PyObject *)Py_TYPE(o), "__dlpack_c_exchange_api__");
    const struct dl_exchange *x = NULL;
    if (capsule && PyCapsule_IsValid(capsule, "dlpack_exchange_api"))
        x = PyCapsule_GetPointer(capsule, "dlpack_exchange_api");
    while (x && x->version.major != 1)
        x = x->previous;
    PyErr_Clear();
    Py_XDECREF(capsule);
    if (x) {
        Py_XDECREF((PyObject *)last);
        last = (PyTypeObject *)Py_NewRef((PyObject *)Py_TYPE(o));
        found = x;
    }
    return x;
}

/* A tensor that wants a gradient gets none through a compiled model: said, not passed over. */
static int check_gradient(PyObject *o, const char *name)
{
    static PyObject *attribute;
    if (!attribute && !(attribute = PyUnicode_InternFromString("requires_grad")))
        return -1;
    PyObject *wants = PyObject_GetAttr(o, attribute);
    if (!wants) {
        PyErr_Clear();
        return 0;
    }
    bool yes = wants == Py_True;
    Py_DECREF(wants);
    return yes ? py_fail(TCC_EUSAGE,
                         "input '%s' requires a gradient, and none flows through a compiled model: x.detach(), or "
                         "torch.compile(net, backend=\"tccc\")",
                         name)
               : 0;
}

/* PyTorch negates and conjugates lazily (x.conj().imag): memory holds other numbers than such a tensor, and DLPack has
 * no word for it. *o becomes one that has its own, which v keeps. */
static int resolve(PyObject **o, struct py_value *v)
{
    static const struct {
        const char *is, *resolve;
    } ways[] = {{"is_neg", "resolve_neg"}, {"is_conj", "resolve_conj"}};
    static PyObject *names[2];
    for (int i = 0; i < 2; i++) {
        if (!names[i] && !(names[i] = PyUnicode_InternFromString(ways[i].is)))
            return -1;
        PyObject *is = PyObject_CallMethodObjArgs(*o, names[i], NULL), *resolved = NULL;
        if (!is && !PyErr_ExceptionMatches(PyExc_AttributeError))
            return -1;
        PyErr_Clear();
        bool lazy = is == Py_True;
        Py_XDECREF(is);
        if (lazy && !(resolved = PyObject_CallMethod(*o, ways[i].resolve, NULL)))
            return -1;
        if (resolved) {
            Py_XDECREF(v->kept);
            *o = v->kept = resolved;
        }
    }
    return 0;
}

/* Work on the framework's tensors comes behind what its current stream was given, unless the caller named another. */
static int behind_current(const struct dl_exchange *x, const struct dl_tensor *t, struct py_kind *kind)
{
    void *stream = NULL;
    if (kind->stream || !x->current_stream)
        return 0;
    if (x->current_stream(t->device.type, t->device.id, &stream))
        return PyErr_Occurred() ? -1 : py_fail(TCC_EENV, "the framework has no current stream on the device");
    kind->stream = stream ? (uintptr_t)stream : 1;
    return 0;
}

static int take_exchange(PyObject *o, const struct dl_exchange *x, struct py_value *v, const char *name,
                         struct py_kind *kind)
{
    struct dl_tensor t;
    if ((!(kind && kind->for_autograd) && check_gradient(o, name)) || resolve(&o, v))
        return -1;
    if (kind && !kind->exchange && !kind->framework)
        kind->exchange = x;
    if (x->tensor_from_object) {
        if (x->tensor_from_object(o, &t))
            return PyErr_Occurred() ? -1 : py_fail(TCC_EINPUT, "input '%s': its framework does not hand it out", name);
        return take_dl_tensor(&t, v, name, kind) || (v->on_device && behind_current(x, &t, kind)) ? -1 : 0;
    }
    if (x->managed_from_object(o, &v->versioned))
        return PyErr_Occurred() ? -1 : py_fail(TCC_EINPUT, "input '%s': its framework does not hand it out", name);
    return take_dl_tensor(&v->versioned->t, v, name, kind) ||
                   (v->on_device && behind_current(x, &v->versioned->t, kind))
               ? -1
               : 0;
}

/* What is on a CUDA device is asked for in the order of our stream: the caller's, else the default one. */
static PyObject *get_capsule(PyObject *o, struct py_kind *kind)
{
    PyObject *device =
        kind && kind->m && kind->m->where.type == DL_CUDA ? PyObject_CallMethod(o, "__dlpack_device__", NULL) : NULL;
    int type = DL_CPU, id = 0;
    bool bad = device ? !PyArg_ParseTuple(device, "ii", &type, &id) : PyErr_Occurred() != NULL;
    Py_XDECREF(device);
    if (bad)
        return NULL;
    if (type != DL_CUDA || id != kind->m->where.id)
        return PyObject_CallMethod(o, "__dlpack__", NULL);
    PyObject *get = PyObject_GetAttrString(o, "__dlpack__"), *none = PyTuple_New(0), *capsule = NULL;
    PyObject *how = Py_BuildValue("{s:K}", "stream", (unsigned long long)(kind->stream ? kind->stream : 1));
    if (get && none && how)
        capsule = PyObject_Call(get, none, how);
    Py_XDECREF(get);
    Py_XDECREF(none);
    Py_XDECREF(how);
    return capsule;
}

static int take_capsule(PyObject *o, struct py_value *v, const char *name, struct py_kind *kind)
{
    PyObject *capsule = get_capsule(o, kind);
    int bad = -1;
    if (!capsule)
        return -1;
    if (PyCapsule_IsValid(capsule, "dltensor")) {
        v->managed = PyCapsule_GetPointer(capsule, "dltensor");
        PyCapsule_SetName(capsule, "used_dltensor");
        bad = take_dl_tensor(&v->managed->t, v, name, kind);
    } else if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
        v->versioned = PyCapsule_GetPointer(capsule, "dltensor_versioned");
        PyCapsule_SetName(capsule, "used_dltensor_versioned");
        bad = v->versioned->version.major != 1
                  ? py_fail(TCC_EINPUT, "input '%s': DLPack version %u", name, v->versioned->version.major)
                  : take_dl_tensor(&v->versioned->t, v, name, kind);
    } else {
        py_fail(TCC_EINPUT, "input '%s': __dlpack__() gave no DLPack capsule", name);
    }
    Py_DECREF(capsule);
    return bad;
}

/* -- Strings, lists, sequences ------------------------------------------------------------------------------------- */

static int set_strings(struct tcc_object *to, PyObject *list)
{
    struct tcc_string *s = to->t.data;
    Py_ssize_t n = PyList_Size(list);
    for (Py_ssize_t i = 0; i < n; i++) {
        Py_ssize_t size = 0;
        char *text = NULL;
        if (PyBytes_AsStringAndSize(PyList_GetItem(list, i), &text, &size))
            return -1;
        if (tccrt_string_set(&s[i], text, size)) {
            PyErr_NoMemory();
            return -1;
        }
    }
    return 0;
}

/* tccc._convert.strings() gives a shape and a list of bytes. */
static int take_strings(PyObject *o, struct py_value *v, const char *name)
{
    static PyObject *helper;
    int64_t dims[TCC_MAX_RANK];
    if (!helper && !(helper = py_helper("_convert", "strings")))
        return -1;
    PyObject *pair = PyObject_CallFunctionObjArgs(helper, o, NULL);
    if (!pair)
        return -1;
    PyObject *shape = PyTuple_GetItem(pair, 0), *list = PyTuple_GetItem(pair, 1);
    Py_ssize_t rank = shape ? PyTuple_Size(shape) : -1;
    int bad = rank < 0 || !list ? -1
              : rank > TCC_MAX_RANK
                  ? py_fail(TCC_EINPUT, "input '%s': got rank %zd, at most %d is supported", name, rank, TCC_MAX_RANK)
                  : 0;
    for (Py_ssize_t i = 0; i < rank && !bad; i++)
        dims[i] = PyLong_AsLongLong(PyTuple_GetItem(shape, i));
    if (!bad && !(v->object = tccrt_object_tensor(TCC_STRING, (int)rank, dims))) {
        PyErr_NoMemory();
        bad = -1;
    }
    if (!bad)
        bad = set_strings(v->object, list);
    Py_DECREF(pair);
    return bad;
}

static struct tcc_object *copy_of(const struct tcc_tensor *t)
{
    struct tcc_object *o = tccrt_object_tensor(t->dtype, t->rank, t->dims);
    int64_t n = tcc_elements(t->rank, t->dims);
    if (o && n > 0)
        memcpy(o->t.data, t->data, (size_t)n * (size_t)py_dtype_bytes(t->dtype));
    return o;
}

static int take_sequence(PyObject *o, const struct tccrt_value_info *info, struct py_value *v)
{
    struct tccrt_value_info item = *info;
    item.kind = TCC_OBJ_TENSOR;
    item.optional = false;
    item.rank = -1;
    if (!PyList_Check(o) && !PyTuple_Check(o))
        return py_fail(TCC_EINPUT, "input '%s' is a sequence: expected a list or tuple of arrays", info->name);
    Py_ssize_t n = PySequence_Size(o);
    v->object = tccrt_object_sequence(n);
    if (!v->object) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        struct py_value x = {0};
        PyObject *element = PySequence_GetItem(o, i);
        int bad = !element || py_value_take(element, &item, &x, NULL);
        if (!bad && !(v->object->items[i] = x.object ? tccrt_object_ref(x.object) : copy_of(&x.t))) {
            PyErr_NoMemory();
            bad = -1;
        }
        py_value_free(&x);
        Py_XDECREF(element);
        if (bad)
            return -1;
    }
    return 0;
}

/* A number, a nested list, or whatever else numpy makes an array of, in the type that is wanted. */
static int take_any(PyObject *o, const struct tccrt_value_info *info, struct py_value *v)
{
    static PyObject *helper;
    if (!helper && !(helper = py_helper("_convert", "array")))
        return -1;
    PyObject *array = PyObject_CallFunction(helper, "Oss", o, py_dtype_name(info->dtype), info->name);
    if (!array)
        return -1;
    v->kept = array;
    return take_buffer(array, v, info->name);
}

static bool has_attribute(PyObject *o, const char *name)
{
    PyObject *found = PyObject_GetAttrString(o, name);
    if (!found)
        PyErr_Clear();
    Py_XDECREF(found);
    return found;
}

int py_value_take(PyObject *o, const struct tccrt_value_info *info, struct py_value *v, struct py_kind *kind)
{
    const struct dl_exchange *x;
    if (o == Py_None) {
        v->none = true;
        return info->optional
                   ? 0
                   : py_fail(TCC_EINPUT, "input '%s': expected %s, got None", info->name, py_dtype_name(info->dtype));
    }
    if (info->kind == TCC_OBJ_SEQUENCE)
        return take_sequence(o, info, v);
    if (info->dtype == TCC_STRING)
        return take_strings(o, v, info->name);
    if (PyObject_CheckBuffer(o))
        return take_buffer(o, v, info->name);
    if (py_is_array(o))
        return py_array_take(o, v, kind);
    if ((x = exchange_of(o)))
        return take_exchange(o, x, v, info->name, kind);
    if (has_attribute(o, "__dlpack__")) {
        if (kind && !kind->exchange && !kind->framework)
            kind->framework = o;
        return check_gradient(o, info->name) || resolve(&o, v) ? -1 : take_capsule(o, v, info->name, kind);
    }
    return take_any(o, info, v);
}

void py_kind_like(PyObject *o, struct py_kind *kind)
{
    kind->exchange = exchange_of(o);
    if (!kind->exchange)
        kind->framework = o;
}

int py_value_writable(PyObject *o, const char *name, struct py_value *v)
{
    const struct dl_exchange *x;
    if (PyObject_CheckBuffer(o)) {
        if (PyObject_GetBuffer(o, &v->view, PyBUF_CONTIG | PyBUF_FORMAT))
            return -1;
        v->has_view = true;
        return take_view(v, name, TCC_NONE);
    }
    if ((x = exchange_of(o)))
        return take_exchange(o, x, v, name, NULL) ? -1
               : v->copy || v->kept
                   ? py_fail(TCC_EINPUT, "'%s': expected dense memory, got a strided or negated tensor", name)
                   : 0;
    return has_attribute(o, "__dlpack__")
               ? (take_capsule(o, v, name, NULL) ? -1
                  : v->copy ? py_fail(TCC_EINPUT, "'%s': expected dense memory, got a strided tensor", name)
                            : 0)
               : py_fail(TCC_EUSAGE, "'%s': expected an array or a tensor", name);
}
