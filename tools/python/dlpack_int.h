/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DLPack's structures (https://dmlc.github.io/dlpack/latest/c_api.html, version 1.3): how frameworks hand each other
 * tensors. Only what is used here. Two forms of ownership are in use: capsules "dltensor" (before 1.0) and
 * "dltensor_versioned"; and a table of C functions that a type offers as __dlpack_c_exchange_api__, by which a tensor
 * is read and made without a call of Python code.
 */
#ifndef TCCC_PYTHON_DLPACK_INT_H
#define TCCC_PYTHON_DLPACK_INT_H

#include <stdint.h>

enum { DL_CPU = 1, DL_CUDA = 2, DL_CUDA_HOST = 3, DL_EXTENSION = 12 };

struct dl_device { int32_t type, id; };
struct dl_type { uint8_t code, bits; uint16_t lanes; };
struct dl_tensor {
    void *data;
    struct dl_device device;
    int32_t ndim;
    struct dl_type dtype;
    int64_t *shape, *strides;    /* strides in elements; NULL: row-major */
    uint64_t byte_offset;
};
struct dl_managed {              /* "dltensor" */
    struct dl_tensor t;
    void *context;
    void (*deleter)(struct dl_managed *self);
};
struct dl_version { uint32_t major, minor; };
struct dl_versioned {            /* "dltensor_versioned" */
    struct dl_version version;
    void *context;
    void (*deleter)(struct dl_versioned *self);
    uint64_t flags;              /* 1: read-only */
    struct dl_tensor t;
};

struct dl_exchange {
    struct dl_version version;
    const struct dl_exchange *previous;
    int (*allocate)(struct dl_tensor *prototype, struct dl_versioned **out, void *context,
                    void (*set_error)(void *context, const char *kind, const char *message));
    int (*managed_from_object)(void *object, struct dl_versioned **out);
    int (*to_object)(struct dl_versioned *tensor, void **object);              /* takes it over */
    /* borrowed; NULL where a type hasn't it */
    int (*tensor_from_object)(void *object, struct dl_tensor *out);
    int (*current_stream)(int32_t device_type, int32_t device_id, void **out);
};

#endif
