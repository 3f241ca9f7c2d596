/* SPDX-License-Identifier: Apache-2.0 */
/* model_int.h - what the runtime has below a session: messages, objects, the CPU, models as opened, threads. A part of
 * rt_int.h, which includes it. */
#ifndef TCCRT_MODEL_INT_H
#define TCCRT_MODEL_INT_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/abi.h"
#include "runtime/tccrt.h"

/* -- error.c ---------------------------------------------------------------------------------- */
int tcr_fail(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A session is used by one thread at a time: tcr_enter() refuses the second (and NULL) and clears the thread's error;
 * tcr_leave() returns `status`. */
int tcr_enter(struct tccrt_session *s);
int tcr_leave(struct tccrt_session *s, int status);
int tcr_vfail(int status, const char *prefix, const char *format, va_list args);
void tcr_clear_error(void);
/* The message of a bad index that a kernel met: whose it is, by the launch's `checks`, and what the kernel noted. */
int tcr_bad_index(const char *checks, const struct tcc_env *met);
struct tccrt_session;
/* "node 'y': ..." becomes "node 'y' (Gather): ...", by the plan's steps. */
void tcr_say_operator(const struct tccrt_session *s);

/* -- object.c --------------------------------------------------------------------------------- */
int tcr_dtype_bytes(int dtype);              /* 0: no such type */
const char *tcr_dtype_name(int dtype);
bool tcr_dtype_is_float(int dtype);
/* Number of elements; -1: a negative dim, or more than PTRDIFF_MAX bytes. */
int64_t tcr_elements(int dtype, int rank, const int64_t *dims);
/* "[2, 3]" into a buffer of at least 256 bytes, which is returned. */
char *tcr_dims_text(char *to, int rank, const int64_t *dims);
/* An object header over memory of somebody else: tccrt_object_ref() copies it, tccrt_object_unref() ignores it. */
void tcr_object_borrow(struct tcc_object *to, const struct tcc_tensor *t);

/* -- cpu.c ---------------------------------------------------------------------------------- */
/* Whether this CPU and kernel run code for `isa` (struct tcc_version); else `missing` names the first lack. */
bool tcr_cpu_runs(const char *isa, char *missing, size_t size);
/* For those: code whose `isa` is `prefix` and a list of features, as tcr_cpu_has_all() reads it. */
bool tcr_cpu_runs_list(const char *isa, const char *prefix, bool (*has)(const char *name, size_t size), char *missing,
                       size_t size);
/* Is all that code for `isa` may use in that psABI level? */
bool tcr_cpu_within(const char *isa, const char *level);
uint32_t tcr_fp_enter(void);                 /* sets round-to-nearest, denormals kept; returns the old mode */
void tcr_fp_leave(uint32_t old);

/* -- model.c ---------------------------------------------------------------------------------- */
struct tccrt_model {
    const struct tcc_model *desc;
    const struct tcc_plan *plan;
#define TCC_TABLE(member, type) const type *member;
#include "runtime/plan.def"

    const tcc_kernel_fn *functions;  /* of kernels, in the chosen code version */
    const char *isa;
    const uint8_t *weights;
    void *map;                       /* of the sidecar */
    size_t map_size;
    bool made;                       /* the map is no file's: weights were drawn */
    void *handle;                    /* of dlopen */
    uint32_t *level_first;           /* levels + 1: expressions of level l are level_exprs[level_first[l]...] */
    uint32_t *level_exprs;
    uint32_t *slot_of;               /* buffer -> slot of DYNAMIC and OBJECT buffers, else TCC_NO */
    uint32_t nslots;
    char **expr_text;                /* of the expressions in signatures that are no constants, else NULL */
    struct tcr_uploaded *uploaded;   /* the weights on machines */
    struct tccrt_model *next;        /* the same for another device, closed with this one; NULL: none */
};

/* The model of a descriptor. `what`: its name in messages; handle: closed with the model, or at once where that fails;
 * NULL: none. */
int tcr_open_model(const struct tcc_model *desc, const char *what, void *handle, struct tccrt_model **out);

/* uploaded.c. Weights that lie on a machine (its own pointer is the key), until the model is closed. keep: end(machine,
 * at) is called then; returns what lies there now, which another thread may have put there; NULL: no memory.
 * Thread-safe. */
const void *tcr_uploaded(struct tccrt_model *m, const void *machine);
const void *tcr_keep_uploaded(struct tccrt_model *m, void *machine, void *at, void (*end)(void *machine, void *at));
void tcr_uploaded_free(struct tccrt_model *m);
/* Bytes of the weights, from their beginning, that a device with a memory of its own reads. What only the host reads
 * and first values of state lie behind. */
size_t tcr_device_weights(const struct tccrt_model *m);
int tcr_random_weights(struct tccrt_model *m, const char *what);            /* random_weights.c; TCC_RANDOM_WEIGHTS */

static inline const char *tcr_string(const struct tccrt_model *m, uint32_t at)
{
    return at == TCC_NO ? "" : m->strings + at;
}

/* NULL: none, message set */
const struct tcc_pentry *tcr_find_entry(const struct tccrt_model *m, const char *name);

/* check.c: fills in m's table pointers after checking every index that the plan holds. */
int tcr_check_plan(struct tccrt_model *m, const char *what);

/* -- pool.c ----------------------------------------------------------------------------------- */
struct tcr_pool;
int tcr_cpu_count(void);                     /* physical cores that the process may use, at least 1 */
struct tcr_pool *tcr_pool_get(int threads);  /* shared; NULL: no memory. threads is clamped to [1, TCR_MAX_THREADS] */
void tcr_pool_put(struct tcr_pool *pool);    /* the last one ends the threads */
/* Calls fn(arg, 0) here and fn(arg, i) on up to n - 1 other threads with different i in [1, n); returns when all those
 * that began have ended. fn must finish the whole work with however many take part. Threads that sleep are let sleep
 * for a while, since the work may be shorter than it takes to wake them: fn(arg, 0) asks tcr_pool_late() between its
 * pieces, which wakes them when it is time. */
void tcr_pool_run(struct tcr_pool *pool, int n, void (*fn)(void *arg, int i), void *arg);
void tcr_pool_late(struct tcr_pool *pool);
#define TCR_MAX_THREADS 512

#endif
