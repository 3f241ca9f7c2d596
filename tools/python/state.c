/* SPDX-License-Identifier: Apache-2.0 */
/* _runtime.Model: its state and checkpoints, the ranks that it works with, its profile. */
#include "tools/python/model_int.h"

#include <stdlib.h>
#include <string.h>

/* -- State --------------------------------------------------------------------------------------------------------- */

static struct tccrt_session *take_state(struct model *m)
{
    if (m->m && !m->single)
        return py_fail(TCC_EUSAGE, "model '%s' has no state", tccrt_name(m->m)), NULL;
    return py_take_session(m);
}

PyObject *model_states(PyObject *self, PyObject *unused)
{
    static const char *const words[] = {"param", "buffer", "optimizer", "gradient", "cache"};
    const struct model *m = (struct model *)self;
    PyObject *list = PyList_New(0);
    (void)unused;
    for (int i = 0; list && i < tccrt_nstates(m->m); i++) {
        struct tccrt_value_info info;
        int flags = tccrt_state_flags(m->m, i), k = 0;
        PyObject *value = py_failed(tccrt_state_info(m->m, i, &info)) ? NULL : py_info(&info, Py_None);
        while (k < 5 && !(flags & 1 << k))
            k++;
        PyObject *pair = value ? Py_BuildValue("Ns", value, k < 5 ? words[k] : "other") : NULL;
        if (!pair || PyList_Append(list, pair)) {
            Py_DECREF(list);
            list = NULL;
        }
        Py_XDECREF(pair);
    }
    return list;
}

PyObject *model_state(PyObject *self, PyObject *name)
{
    struct model *m = (struct model *)self;
    const char *wanted = PyUnicode_AsUTF8AndSize(name, NULL);
    struct tccrt_session *s = wanted ? take_state(m) : NULL;
    struct tcc_tensor t;
    if (!s)
        return NULL;
    PyObject *result = py_failed(tccrt_state_get(s, wanted, &t)) ? NULL : py_result_copy(&t);
    py_give_session(m, s);
    return result;
}

static int find_state(const struct tccrt_model *m, const char *name, struct tccrt_value_info *info)
{
    for (int i = 0; i < tccrt_nstates(m); i++)
        if (tccrt_state_info(m, i, info) == TCC_OK && strcmp(info->name, name) == 0)
            return 0;
    char names[400] = "";
    for (int i = 0; i < tccrt_nstates(m); i++)
        if (tccrt_state_info(m, i, info) == TCC_OK)
            py_list_name(names, sizeof names, info->name);
    return py_fail(TCC_EUSAGE, "there is no state variable '%s'; there is %s", name, *names ? names : "none");
}

PyObject *model_set_state(PyObject *self, PyObject *args)
{
    struct model *m = (struct model *)self;
    const char *name;
    PyObject *value;
    struct py_value v = {0};
    struct tccrt_value_info info;
    struct tccrt_session *s = NULL;
    if (!PyArg_ParseTuple(args, "sO:set_state", &name, &value) || find_state(m->m, name, &info))
        return NULL;
    int bad = py_value_take(value, &info, &v, NULL);
    if (!bad && (s = take_state(m))) {
        bad = py_failed(tccrt_state_set(s, name, &v.t));
        py_give_session(m, s);
    }
    py_value_free(&v);
    return bad || !s ? NULL : Py_NewRef(Py_None);
}

PyObject *model_reset(PyObject *self, PyObject *args)
{
    struct model *m = (struct model *)self;
    const char *name = NULL;
    struct tccrt_session *s = PyArg_ParseTuple(args, "|z:reset", &name) ? take_state(m) : NULL;
    if (!s)
        return NULL;
    int bad = py_failed(tccrt_state_reset(s, name));
    py_give_session(m, s);
    return bad ? NULL : Py_NewRef(Py_None);
}

/* The items of a dict of str, as pairs that live as long as it does. */
static struct tccrt_pair *pairs(PyObject *dict, int *n)
{
    Py_ssize_t at = 0;
    PyObject *key, *value;
    struct tccrt_pair *list = calloc((size_t)PyDict_Size(dict) + 1, sizeof *list);
    *n = 0;
    while (list && PyDict_Next(dict, &at, &key, &value)) {
        struct tccrt_pair p = {PyUnicode_AsUTF8AndSize(key, NULL), PyUnicode_AsUTF8AndSize(value, NULL)};
        if (!p.key || !p.value) {
            free(list);
            return NULL;
        }
        list[(*n)++] = p;
    }
    return list ? list : (PyErr_NoMemory(), NULL);
}

PyObject *model_save_checkpoint(PyObject *self, PyObject *args)
{
    struct model *m = (struct model *)self;
    PyObject *path = NULL, *meta;
    int weights, n = 0, status;
    if (!PyArg_ParseTuple(args, "O&pO!:save_checkpoint", PyUnicode_FSConverter, &path, &weights, &PyDict_Type, &meta))
        return NULL;
    struct tccrt_pair *list = pairs(meta, &n);
    struct tccrt_session *s = list ? take_state(m) : NULL;
    if (s) {
        const char *file = PyBytes_AsString(path);
        Py_BEGIN_ALLOW_THREADS status = tccrt_checkpoint_save(s, file, weights ? TCCRT_CHECKPOINT_WEIGHTS : 0, n, list);
        Py_END_ALLOW_THREADS py_failed(status);
        py_give_session(m, s);
    }
    free(list);
    Py_DECREF(path);
    return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}

PyObject *model_load_checkpoint(PyObject *self, PyObject *args)
{
    struct model *m = (struct model *)self;
    PyObject *path = NULL;
    int weights, partial, status;
    if (!PyArg_ParseTuple(args, "O&pp:load_checkpoint", PyUnicode_FSConverter, &path, &weights, &partial))
        return NULL;
    struct tccrt_session *s = take_state(m);
    if (s) {
        const char *file = PyBytes_AsString(path);
        int flags = (weights ? TCCRT_CHECKPOINT_WEIGHTS : 0) | (partial ? TCCRT_CHECKPOINT_PARTIAL : 0);
        Py_BEGIN_ALLOW_THREADS status = tccrt_checkpoint_load(s, file, flags);
        Py_END_ALLOW_THREADS py_failed(status);
        py_give_session(m, s);
    }
    Py_DECREF(path);
    return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}

PyObject *model_random(PyObject *self, PyObject *args)
{
    struct model *m = (struct model *)self;
    unsigned long long seed = 0;
    long long runs = -1;
    uint64_t was;
    int64_t ran;
    struct tccrt_session *s = PyArg_ParseTuple(args, "|KL:random", &seed, &runs) ? take_state(m) : NULL;
    if (!s)
        return NULL;
    if (runs >= 0)
        tccrt_random_set(s, seed, runs);
    tccrt_random_get(s, &was, &ran);
    py_give_session(m, s);
    return Py_BuildValue("KL", (unsigned long long)was, (long long)ran);
}

/* -- Ranks, profiles ----------------------------------------------------------------------------------------------- */

PyObject *model_group(PyObject *self, PyObject *args)
{
    struct model *m = (struct model *)self;
    const char *name;
    PyObject *comm;
    struct tccrt_comm *c = NULL;
    if (!PyArg_ParseTuple(args, "sO:group", &name, &comm) || (comm != Py_None && !(c = py_comm_of(comm))))
        return NULL;
    m->single = true;
    struct tccrt_session *s = py_take_session(m);
    if (!s)
        return NULL;
    int bad = py_failed(tccrt_session_group(s, name, c));
    py_give_session(m, s);
    return bad ? NULL : Py_NewRef(Py_None);
}

PyObject *model_uses_group(PyObject *self, PyObject *name)
{
    const char *wanted = PyUnicode_AsUTF8AndSize(name, NULL);
    return wanted ? PyBool_FromLong(tccrt_uses_group(((struct model *)self)->m, wanted)) : NULL;
}

PyObject *model_share(PyObject *self, PyObject *args)
{
    struct model *m = (struct model *)self;
    PyObject *comm;
    int root = 0, status;
    struct tccrt_comm *c = PyArg_ParseTuple(args, "O|i:share_state", &comm, &root) ? py_comm_of(comm) : NULL;
    struct tccrt_session *s = c ? take_state(m) : NULL;
    if (!s)
        return NULL;
    Py_BEGIN_ALLOW_THREADS status = tccrt_comm_state(c, root, s);
    Py_END_ALLOW_THREADS py_failed(status);
    py_give_session(m, s);
    return status ? NULL : Py_NewRef(Py_None);
}

PyObject *model_profile(PyObject *self, PyObject *unused)
{
    struct model *m = (struct model *)self;
    const struct tccrt_profile_row *rows;
    struct tccrt_session *s = py_take_session(m);
    (void)unused;
    if (!s)
        return NULL;
    int n = tccrt_profile(s, &rows);
    PyObject *list = PyList_New(n < 0 ? 0 : n);
    for (int i = 0; list && i < n; i++)
        PyList_SetItem(list, i,
                       Py_BuildValue("zzLddd", rows[i].kernel, rows[i].node, (long long)rows[i].calls, rows[i].ns,
                                     rows[i].flops, rows[i].bytes));
    py_give_session(m, s);
    return list;
}
