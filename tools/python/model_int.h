/* SPDX-License-Identifier: Apache-2.0 */
/* model_int.h - what the files of _runtime.Model share: the model itself (model.c), its state, ranks and profile
 * (state.c). */
#ifndef TCCC_PYTHON_MODEL_INT_H
#define TCCC_PYTHON_MODEL_INT_H

#include "tools/python/python_int.h"

struct entry {
    const char *name;
    int nin, nout;
    int ndefaults; /* further inputs, that need not be given, in `in` */
    struct tccrt_value_info *in, *out;
    bool plain; /* tensors of numbers only */
    bool fixed; /* and all sizes of results are known */
};

/* Runs of one stream that are only given, one behind the other in a session of their own, and what they read and
 * write. */
struct lane {
    uintptr_t stream;
    struct tccrt_session *s;
    PyThread_type_lock lock;
    int nkept;
    struct kept { int64_t ticket; int n; struct py_value *values; PyObject *objects; } kept[8];
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
    char *device_name;      /* what runs it, */
    struct dl_device where; /* and as others call it */
    struct lane **lanes;
    int nlanes;
    int64_t arrays; /* of its device's memory, alive */
    struct { void *at; size_t bytes; } blocks[16];
    int nblocks;
};

/* A session for the calling thread, to be given back; NULL and an exception. */
struct tccrt_session *py_take_session(struct model *m);
void py_give_session(struct model *m, struct tccrt_session *s);
void py_lock(PyThread_type_lock lock);

/* -- Streams (stream.c) */

/* A stream as the runtime takes it: a number, or what torch, cupy or cuda.core have; None: 0. */
int py_stream(PyObject *o, uintptr_t *stream);
/* The stream's lane, to be given back; NULL and an exception. */
struct lane *py_take_lane(struct model *m, uintptr_t stream);
void py_give_lane(struct lane *lane);
/* The values and a tuple of objects, which are taken over, stay until the run is done; with the lane. */
int py_keep(struct lane *lane, int64_t ticket, int n, struct py_value *values, PyObject *objects);
int py_wait_lane(struct lane *lane);             /* for all of its runs */
int py_wait(struct model *m);                    /* for all runs that were given */
int py_wait_but(struct model *m, uintptr_t stream);      /* but those of the stream */
void py_free_lanes(struct model *m);
PyObject *model_wait(PyObject *self, PyObject *unused);

/* -- Arrays on the device (device.c) */

struct dl_device py_device_of(const char *name);
PyObject *py_array_make(struct model *m, const struct tcc_tensor *t);
bool py_is_array(PyObject *o);
const struct tcc_tensor *py_array_tensor(PyObject *o);
int py_array_take(PyObject *o, struct py_value *v, struct py_kind *kind);
void py_free_blocks(struct model *m);
PyObject *model_to_device(PyObject *self, PyObject *value);
PyObject *model_empty_on_device(PyObject *self, PyObject *args);

/* The entry point of that name (None: the first); NULL and an exception. */
void py_list_name(char *list, size_t room, const char *name);     /* 'A', 'B', ... */
const struct entry *py_find_entry(struct model *m, PyObject *name);

/* -- Methods (call.c, state.c); what they do says the table of model.c */

PyObject *model_call(PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *model_run(PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *model_run_list(PyObject *self, PyObject *list);
PyObject *model_run_as(PyObject *self, PyObject *args);

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
