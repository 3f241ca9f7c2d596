/* SPDX-License-Identifier: Apache-2.0 */
/* The module tccc._runtime, and how statuses become exceptions. */
#include "base/format.h"
#include "tools/python/python_int.h"

#include <stdio.h>
#include <string.h>

int py_fail(int status, const char *format, ...)
{
    static PyObject *make;
    FORMATTED(text, 2048, format);
    if (!make && !(make = py_helper("errors", "of_status")))
        return -1;
    PyObject *message = PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
    PyObject *error = message ? PyObject_CallFunction(make, "iO", status, message) : NULL;
    if (error)
        PyErr_SetObject((PyObject *)Py_TYPE(error), error);
    Py_XDECREF(error);
    Py_XDECREF(message);
    return -1;
}

int py_failed(int status)
{
    return status == TCC_OK ? 0 : py_fail(status, "%s", tccrt_error());
}

PyObject *py_helper(const char *module, const char *name)
{
    char full[80];
    snprintf(full, sizeof full, "tccc.%s", module);
    PyObject *m = PyImport_ImportModule(full), *found = m ? PyObject_GetAttrString(m, name) : NULL;
    Py_XDECREF(m);
    return found;
}

static PyObject *env_check(PyObject *self, PyObject *unused)
{
    (void)self;
    (void)unused;
    return py_failed(tccrt_env_check()) ? NULL : Py_NewRef(Py_None);
}

static PyMethodDef functions[] = {
    {"env_check", env_check, METH_NOARGS,
     "Raises UsageError where one of our environment variables has a value that is unknown."},
    {NULL, NULL, 0, NULL}};

static struct PyModuleDef definition = {.m_base = PyModuleDef_HEAD_INIT,
                                        .m_name = "tccc._runtime",
                                        .m_doc = "Runs compiled models.",
                                        .m_size = -1,
                                        .m_methods = functions};

PyMODINIT_FUNC PyInit__runtime(void);
PyMODINIT_FUNC PyInit__runtime(void)
{
    PyObject *module = PyModule_Create(&definition);
    if (!module)
        return NULL;
    PyObject *model = PyType_FromSpec(&py_model_spec);
    py_memory_type = (PyTypeObject *)PyType_FromSpec(&py_memory_spec);
    py_array_type = (PyTypeObject *)PyType_FromSpec(&py_array_spec);
    bool bad = !model || !py_memory_type || !py_array_type ||
               PyModule_AddObjectRef(module, "DeviceArray", (PyObject *)py_array_type) ||
               PyModule_AddObjectRef(module, "Model", model) || py_comm_setup(module) ||
               PyModule_AddStringConstant(module, "version", tccrt_version());
    Py_XDECREF(model);
    if (bad) {
        Py_DECREF(module);
        return NULL;
    }
    return module;
}
