/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The module tccc._compiler: tccc_compile() of libtccc, which compiles in a process of its own. Options come as a dict
 * and go by base/options.def into the structures of compiler/tccc.h; messages come back as a list, whatever the
 * status.
 */
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030b0000
#include <Python.h>

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/fields.h"
#include "base/safe.h"

struct job {
    struct tccc_options o;
    struct tccc_train t;
    struct tccc_split split;
    int train; /* a step is compiled */
    const char ***lists;
    int nlists;
    char *text; /* messages, each behind its severity's digit, ended by \0 */
    size_t size;
    FILE *messages;
};

/* -- Options --------------------------------------------------------------------------------------------------- */

static int wrong(const char *name, const char *what)
{
    PyErr_Format(PyExc_TypeError, "%s: expected %s", name, what);
    return -1;
}

static int take_text(const char *name, PyObject *value, const char **to)
{
    *to = PyUnicode_Check(value) ? PyUnicode_AsUTF8AndSize(value, NULL) : NULL;
    return *to ? 0 : PyErr_Occurred() ? -1 : wrong(name, "a str");
}

/* A list of texts, ended by NULL; it borrows them. */
static int take_list(struct job *j, const char *name, PyObject *value, const char *const **to)
{
    Py_ssize_t n = PyUnicode_Check(value) ? -1 : PySequence_Size(value);
    const char **list = n < 0 ? NULL : calloc((size_t)n + 1, sizeof *list);
    if (!list)
        return PyErr_Clear(), wrong(name, "a list of str");
    j->lists[j->nlists++] = list;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *item = PySequence_GetItem(value, i);
        int bad = !item || take_text(name, item, &list[i]);
        Py_XDECREF(item); /* the list has it */
        if (bad)
            return -1;
    }
    *to = list;
    return 0;
}

static int take_whole(const char *name, PyObject *value, long long *to)
{
    *to = PyLong_AsLongLong(value);
    return PyErr_Occurred() ? (PyErr_Clear(), wrong(name, "an int")) : 0;
}

/* Arguments that are no options of the command line. */
static const struct tccc_field others[] = {
    {"", "reproducer", TCCC_OPTIONS, TCCC_TEXT, TCCC_ARGUMENT, offsetof(struct tccc_options, reproducer), 0, 0},
    {"", "group", TCCC_TRAIN, TCCC_TEXT, TCCC_ARGUMENT, offsetof(struct tccc_train, group), 0, 0},
};

/* The K-th argument; NULL: there are no more. */
static const struct tccc_field *argument(int k)
{
    const int nothers = sizeof others / sizeof *others;

    return k < nothers ? &others[k] : k - nothers < tccc_nfields ? &tccc_fields[k - nothers] : NULL;
}

static int no_option(const char *key)
{
    PyObject *known = PyUnicode_FromString("");
    const struct tccc_field *f;

    for (int k = 0; known && (f = argument(k)); k++) {
        if (f->uses & TCCC_ARGUMENT) {
            PyObject *more = PyUnicode_FromFormat(k ? "%U, %s" : "%U%s", known, f->name);

            Py_DECREF(known);
            known = more;
        }
    }
    if (known)
        PyErr_Format(PyExc_TypeError, "there is no option '%s'; there are %U", key, known);
    Py_XDECREF(known);
    return -1;
}

static int take_number(const char *name, PyObject *value, const struct tccc_field *f, void *to)
{
    long long whole;

    if (take_whole(name, value, &whole))
        return -1;
    bool size = f->type == TCCC_SIZE;
    if (size ? whole < 1 : whole < f->least || whole > f->most) {
        PyErr_Format(PyExc_TypeError, "%s: expected an int from %lld to %lld, not %lld", name,
                     size ? 1LL : (long long)f->least, size ? LLONG_MAX : (long long)f->most, whole);
        return -1;
    }
    if (f->type == TCCC_INT)
        TCCC_FIELD_AT(int, to, f) = (int)whole;
    else if (f->type == TCCC_LONG)
        TCCC_FIELD_AT(long, to, f) = (long)whole;
    else
        TCCC_FIELD_AT(unsigned long long, to, f) = (unsigned long long)whole;
    return 0;
}

/* True: the option without a text. */
static int set_members(PyObject *value, const struct tccc_field *f, void *to)
{
    const char *text = "", *expected;

    if (value == Py_False || (value != Py_True && take_text(f->name, value, &text)))
        return value == Py_False ? 0 : -1;
    expected = tccc_setter(f)->set(to, text);
    return expected ? wrong(f->name, expected) : 0;
}

static int take_real(PyObject *value, const struct tccc_field *f, void *to)
{
    double v = TCCC_FIELD_AT(double, to, f) = PyFloat_AsDouble(value);

    return !PyErr_Occurred() && f->uses & TCCC_POSITIVE && v == 0 ? wrong(f->name, "a number above 0") : 0;
}

static int take_field(struct job *j, PyObject *value, const struct tccc_field *f)
{
    void *const structures[] = {[TCCC_OPTIONS] = &j->o, [TCCC_TRAIN] = &j->t, [TCCC_SPLIT] = &j->split};
    void *to = structures[f->in];

    switch (f->type) {
    case TCCC_TEXT: return take_text(f->name, value, &TCCC_FIELD_AT(const char *, to, f));
    case TCCC_LIST: return take_list(j, f->name, value, &TCCC_FIELD_AT(const char *const *, to, f));
    case TCCC_FLAG: TCCC_FIELD_AT(bool, to, f) = PyObject_IsTrue(value) == 1; break;
    case TCCC_SET: return set_members(value, f, to);
    case TCCC_REAL:
    case TCCC_LIMIT:
        if (take_real(value, f, to))
            return -1;
        break;
    default: return take_number(f->name, value, f, to);
    }
    return PyErr_Occurred() ? -1 : 0;
}

static int take_option(struct job *j, const char *key, PyObject *value)
{
    const struct tccc_field *f;

    for (int k = 0; (f = argument(k)); k++)
        if (f->uses & TCCC_ARGUMENT && strcmp(key, f->name) == 0) {
            if (j->train || f->in == TCCC_OPTIONS || value == Py_False)
                return take_field(j, value, f);
            PyErr_Format(PyExc_TypeError, "there is no option '%s' without training: it is one of tccc.train()", key);
            return -1;
        }
    return no_option(key);
}

static int take_options(struct job *j, PyObject *dict)
{
    Py_ssize_t at = 0;
    PyObject *key, *value;
    while (PyDict_Next(dict, &at, &key, &value)) {
        const char *name = PyUnicode_AsUTF8AndSize(key, NULL);
        if (!name || (value != Py_None && take_option(j, name, value)))
            return -1;
    }
    return 0;
}

/* -- Compiling ----------------------------------------------------------------------------------------------------- */

static void tell(void *user, int severity, const char *text)
{
    const struct job *j = user;
    fprintf(j->messages, "%c%s%c", '0' + severity, text, 0);
}

static PyObject *messages_of(const struct job *j)
{
    PyObject *list = PyList_New(0);
    for (const char *p = j->text, *end = p + j->size; list && p < end; p += strlen(p) + 1) {
        PyObject *text = PyUnicode_DecodeUTF8(p + 1, (Py_ssize_t)strlen(p + 1), "replace");
        PyObject *pair = text ? Py_BuildValue("iN", *p - '0', text) : NULL;
        if (!pair || PyList_Append(list, pair)) {
            Py_DECREF(list);
            list = NULL;
        }
        Py_XDECREF(pair);
    }
    return list;
}

static PyObject *compile_job(struct job *j)
{
    int status;
    j->messages = open_memstream(&j->text, &j->size);
    if (!j->messages)
        return PyErr_NoMemory();
    j->o.message = tell;
    j->o.user = j;
    Py_BEGIN_ALLOW_THREADS status = tccc_compile(&j->o);
    Py_END_ALLOW_THREADS if (fclose(j->messages) != 0) return PyErr_NoMemory();
    PyObject *list = messages_of(j);
    return list ? Py_BuildValue("iN", status, list) : NULL;
}

static int kind_of(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot && strcmp(dot, ".o") == 0 ? TCCC_OBJECT : dot && strcmp(dot, ".a") == 0 ? TCCC_ARCHIVE : TCCC_SO;
}

static PyObject *compile(PyObject *self, PyObject *args)
{
    PyObject *model = NULL, *output = NULL, *options, *result = NULL;
    struct job j = {0};
    (void)self;
    if (!PyArg_ParseTuple(args, "O&O&O!p:compile", PyUnicode_FSConverter, &model, PyUnicode_FSConverter, &output,
                          &PyDict_Type, &options, &j.train)) {
        Py_XDECREF(model);
        return NULL;
    }
    tccc_options_init(&j.o);
    j.split.default_stage = -1;
    j.o.model = PyBytes_AsString(model);
    j.o.output = PyBytes_AsString(output);
    j.o.kind = kind_of(j.o.output);
    j.lists = calloc((size_t)PyDict_Size(options) + 1, sizeof *j.lists);
    if (!j.lists)
        PyErr_NoMemory();
    else if (take_options(&j, options) == 0) {
        if (j.train)
            j.o.train = &j.t;
        if (j.split.partitions > 1 || j.split.microbatches > 1)
            j.t.split = &j.split;
        result = compile_job(&j);
    }
    for (int i = 0; i < j.nlists; i++)
        free(j.lists[i]);
    free(j.lists);
    free(j.text);
    Py_DECREF(model);
    Py_DECREF(output);
    return result;
}

static PyObject *build(PyObject *self, PyObject *unused)
{
    (void)self;
    (void)unused;
    return PyUnicode_FromString(tccc_build());
}

/* Removed by its watcher when this process and those that it forks have ended, however they do. */
static PyObject *scratch(PyObject *self, PyObject *unused)
{
    struct tcr_scratch folder;

    (void)self;
    (void)unused;
    if (tcr_scratch_make(&folder, NULL, "tccc-"))
        return PyErr_SetFromErrnoWithFilename(PyExc_OSError, tcr_temporary());
    return PyUnicode_DecodeFSDefault(folder.path);
}

static PyMethodDef functions[] = {
    {"compile", compile, METH_VARARGS, "compile(model, output, options, train): (status, [(severity, message)])."},
    {"scratch", scratch, METH_NOARGS, "A new folder for temporary files, which goes with the process."},
    {"build", build, METH_NOARGS, "What the compiler is: LLVM's version, targets, opsets."},
    {NULL, NULL, 0, NULL}};

static struct PyModuleDef definition = {.m_base = PyModuleDef_HEAD_INIT,
                                        .m_name = "tccc._compiler",
                                        .m_doc = "Compiles models.",
                                        .m_size = -1,
                                        .m_methods = functions};

PyMODINIT_FUNC PyInit__compiler(void);
PyMODINIT_FUNC PyInit__compiler(void)
{
    PyObject *module = PyModule_Create(&definition);
    if (module && PyModule_AddStringConstant(module, "version", tccc_version())) {
        Py_DECREF(module);
        return NULL;
    }
    return module;
}
