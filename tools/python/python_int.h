/* SPDX-License-Identifier: Apache-2.0 */
/*
 * python_int.h - the extension modules of the Python package: _runtime (runs artifacts; needs no compiler) and
 * _compiler.
 *
 * Both are of Python's limited C API (abi3, Python 3.11 and later), so that one file serves all versions. Python code
 * in tools/python/tccc is what users see; what a call must do quickly, and what touches memory, is here. Functions that
 * return PyObject * or -1 set an exception. All are called with the GIL held, and give it up while the runtime works.
 */
#ifndef TCCC_PYTHON_INT_H
#define TCCC_PYTHON_INT_H

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030b0000
#include <Python.h>

#include <stdbool.h>

#include "runtime/tccrt.h"
#include "tools/python/dlpack_int.h"

/* -- Errors (module.c) -------------------------------------------------------------------------------------- */

/* Raises the class of tccc.errors that stands for the status, with `.status`. Returns -1. */
int py_fail(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));
int py_failed(int status);                       /* the same with tccrt_error(); 0 where the status is TCC_OK */
/* Attribute NAME of module tccc.MODULE; a new reference. Kept by the caller. */
PyObject *py_helper(const char *module, const char *name);

/* -- Element types (dtype.c) --------------------------------------------------------------------------------- */

const char *py_dtype_name(int dtype);            /* numpy's */
/* of the buffer protocol; of those that have none, that of integers of their size */
const char *py_dtype_format(int dtype);
bool py_dtype_has_format(int dtype);
int py_dtype_bytes(int dtype);
int py_dtype_of_name(const char *name);          /* numpy's; TCC_NONE: none */
int py_dtype_of_buffer(const Py_buffer *view);   /* TCC_NONE: none of ours */
int py_dtype_of_dlpack(struct dl_type type);
bool py_dlpack_of_dtype(int dtype, struct dl_type *type);

/* -- Values that come in (value.c) ------------------------------------------------------------------------------ */

/* A Python object as the runtime takes it, for the duration of a call. Nothing is copied that is dense, row-major and
 * of the right type; what is strided is copied, and a list or number becomes an array of the type that is wanted. */
struct py_value {
    struct tcc_tensor t;         /* where object is NULL */
    struct tcc_object *object;   /* strings, sequences */
    bool none;                   /* of an optional input */
    bool on_device;              /* t.data is an address of the model's device */
    Py_buffer view;
    bool has_view;
    PyObject *kept;              /* an array that was made on the way */
    struct dl_managed *managed;
    struct dl_versioned *versioned;
    void *copy;
};

/* Results are of the kind of the call's inputs: tensors of the first framework that offers DLPack's functions, else
 * numpy's arrays. `m` (NULL: none): the model that is called, whose device's memory inputs may lie in; `stream`: what
 * its work is to come behind, 0: nothing is known yet. */
struct py_kind {
    const struct dl_exchange *exchange;
    PyObject *framework;
    bool for_autograd;
    struct model *m;
    uintptr_t stream;
    bool on_device;              /* an input lies there */
    bool framework_there;        /* and is one of the framework's */
};

/* Results are of the framework of tensor `o`, which stays for as long as the call does. */
void py_kind_like(PyObject *o, struct py_kind *kind);
/* Reads `o` as the input that `info` describes. The value is to be freed in any case. */
int py_value_take(PyObject *o, const struct tccrt_value_info *info, struct py_value *v, struct py_kind *kind);
void py_value_free(struct py_value *v);
/* Memory that the runtime writes to: a writable dense array of any type. */
int py_value_writable(PyObject *o, const char *name, struct py_value *v);

/* -- Results (result.c) ------------------------------------------------------------------------------------------- */

/* A new array or tensor of that type and shape, and its memory in t->data; `held` is to be given to py_result_done(),
 * which says what the caller gets. */
struct py_result {
    PyObject *array;
    Py_buffer view;
    bool has_view;
    struct dl_versioned *managed;
    const struct dl_exchange *exchange;
    PyObject *framework;
    int dtype;
};
int py_result_make(const struct py_kind *kind, struct tcc_tensor *t, struct py_result *r);
PyObject *py_result_done(struct py_result *r);
void py_result_drop(struct py_result *r);
/* What the object holds; its memory is not copied, and the reference is taken over, also on failure. */
PyObject *py_result_object(const struct py_kind *kind, struct tcc_object *o);
PyObject *py_result_copy(const struct tcc_tensor *t);    /* a numpy array of its own */
PyObject *py_info(const struct tccrt_value_info *info, PyObject *labels);  /* a tccc.Value */
/* The same on a CUDA device whose memory the framework has, by its allocator. */
int py_result_make_there(const struct py_kind *kind, struct dl_device device, struct tcc_tensor *t,
                         struct py_result *r);
/* the array, which is taken over, as the inputs' framework has it */
PyObject *py_result_like(const struct py_kind *kind, PyObject *array);
extern PyType_Spec py_memory_spec;
extern PyTypeObject *py_memory_type;

/* -- Types -------------------------------------------------------------------------------------------------------- */

extern PyType_Spec py_model_spec, py_array_spec;
extern PyTypeObject *py_array_type;
int py_comm_setup(PyObject *module);
extern PyTypeObject *py_comm_type;
struct tccrt_comm *py_comm_of(PyObject *o);              /* NULL and an exception: it isn't one, or was closed */

#endif
