/* SPDX-License-Identifier: Apache-2.0 */
/* model_int.h - what the files of _runtime.Model share: the model itself (model.c), its state, ranks and profile (state.c). */
#ifndef TCCC_PYTHON_MODEL_INT_H
#define TCCC_PYTHON_MODEL_INT_H

#include "tools/python/python_int.h"

struct entry {
    const char *name;
    int nin, nout;
    struct tccrt_value_info *in, *out;
    bool plain; /* tensors of numbers only */
    bool fixed; /* and all sizes of results are known */
};

struct model {
    PyObject_HEAD struct tccrt_model *m;
    struct tccrt_options options;
    char *device, *sim, *rounding;
    struct entry *entries;
    int nentries;
    struct tccrt_session **free_sessions;
    int nfree, capacity;
    bool single; /* one session: `own`, by whoever has `lock` */
    struct tccrt_session *own;
    PyThread_type_lock lock;
};

/* A session for the calling thread, to be given back; NULL and an exception. */
struct tccrt_session *py_take_session(struct model *m);
void py_give_session(struct model *m, struct tccrt_session *s);

/* -- Methods (state.c); what they do says the table of model.c */

PyObject *model_states(PyObject *self, PyObject *unused);
PyObject *model_state(PyObject *self, PyObject *name);
PyObject *model_set_state(PyObject *self, PyObject *args);
PyObject *model_reset(PyObject *self, PyObject *args);
PyObject *model_save_checkpoint(PyObject *self, PyObject *args);
PyObject *model_load_checkpoint(PyObject *self, PyObject *args);
PyObject *model_random(PyObject *self, PyObject *args);
PyObject *model_group(PyObject *self, PyObject *args);
PyObject *model_uses_group(PyObject *self, PyObject *name);
PyObject *model_share(PyObject *self, PyObject *args);
PyObject *model_profile(PyObject *self, PyObject *unused);

#endif
