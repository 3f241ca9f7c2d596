/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tccc_custom.h - kernels for operators of one's own (public; doc/custom-op.md). It includes nothing of tccc's, and a
 * FILE that is given with
 * --custom-op=DOMAIN:NAME=FILE includes it alone:
 *
 *     #include <tccc_custom.h>
 *     static int shape(struct tccc_custom *c) { return tccc_custom_like(c, 0, 0); }
 *     static int run(struct tccc_custom *c) { ... c->in[0].data ... c->out[0].data ...; return 0; }
 *     TCCC_CUSTOM_OP(NAME) = {.version = TCCC_CUSTOM_VERSION, .shape = shape, .run = run};
 *
 * FILE is compiled once by the C compiler. The compiler of models loads it and calls shape(); an artifact has it linked
 * in, and calls shape() and run(). One file may define several operators.
 *
 * A gradient is an operator too, NAME_grad, defined in the same file: its operands are those of NAME, then its results,
 * then the gradients of these, and its results are the gradients of NAME's operands of floats, in their order. Without
 * a shape() they are like those operands.
 *
 * A FILE.cu is read twice: by NVRTC, which defines __CUDACC__, for device code, and as C, without, for the host's
 * section. See "On a GPU" below.
 *
 * All functions are to depend on nothing but the call's own description: they may be called at any time, by several
 * threads at once, for different calls; equal calls may be computed once.
 */
#ifndef TCCC_CUSTOM_H
#define TCCC_CUSTOM_H

#ifndef __CUDACC_RTC__
#include <stddef.h>
#include <stdint.h>
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define TCCC_CUSTOM_VERSION 1u
#define TCCC_CUSTOM_RANK 12 /* the most dims of a tensor */

/* Element types, numbered as ONNX's. Types of 4 and 2 bits are held one element to a byte. */
enum tccc_custom_dtype {
    TCCC_NONE = 0,
    TCCC_F32 = 1, TCCC_U8, TCCC_I8, TCCC_U16, TCCC_I16, TCCC_I32, TCCC_I64,
    TCCC_BOOL = 9, TCCC_F16, TCCC_F64, TCCC_U32, TCCC_U64, TCCC_C64, TCCC_C128, TCCC_BF16,
    TCCC_F8E4M3FN, TCCC_F8E4M3FNUZ, TCCC_F8E5M2, TCCC_F8E5M2FNUZ, TCCC_U4, TCCC_I4, TCCC_F4E2M1, TCCC_F8E8M0, TCCC_U2,
        TCCC_I2
};

#ifndef __CUDACC__
/* -- On the host ---------------------------------------------------------------------------------------- */

/* A dense row-major tensor. dtype TCCC_NONE: an operand that the model leaves out. */
struct tccc_custom_tensor {
    void *data;                  /* in shape(): NULL */
    int32_t dtype;               /* enum tccc_custom_dtype */
    int32_t rank;
    int64_t dims[TCCC_CUSTOM_RANK];
};

/* While a model is compiled, shape() may meet operands whose sizes are known at run time only: such a dim is negative,
 * and names the size. Copied into a result's dims it stays that size. What is computed of one is not known: the
 * result's dim is then set to TCCC_CUSTOM_UNKNOWN, and shape() is called again with the sizes when the model runs. */
#define TCCC_CUSTOM_UNKNOWN INT64_MIN

enum tccc_custom_attr_kind { TCCC_ATTR_INTS, TCCC_ATTR_FLOATS, TCCC_ATTR_STRINGS, TCCC_ATTR_TENSOR };
struct tccc_custom_attr {
    const char *name;
    int32_t kind;                /* enum tccc_custom_attr_kind */
    int32_t n;                   /* number of values; 1 where the model gives one by itself */
    const int64_t *ints;
    const double *floats;
    const char *const *strings;
    const struct tccc_custom_tensor *tensor;
};

/* A call. */
struct tccc_custom {
    int32_t nin, nout;           /* as the model's node has them */
    const struct tccc_custom_tensor *in;
    /* shape() fills in dtype, rank and dims; run() the bytes at data, which hold anything before */
    struct tccc_custom_tensor *out;
    int32_t nattrs;
    const struct tccc_custom_attr *attrs;
    uint64_t workspace;          /* shape() may ask for that many bytes; */
    void *work;                  /* run() finds them here, 64-byte aligned, not cleared */
    /* Reports why the call fails; returns what shape() or run() is to return then. */
    int (*fail)(struct tccc_custom *c, const char *format, ...);
    /* In run(): body(arg, i) for each i in [0, n), by the threads of the session, in any order; returns when all have
     * ended. Calls do not nest. */
    void (*each)(struct tccc_custom *c, int64_t n, void (*body)(void *arg, int64_t i), void *arg);
    void *host;                  /* tccc's own */
};

/* How a GPU launches the operator's device code: */
struct tccc_custom_cuda {
    int32_t block;               /* threads of a block; 0: the operator has no device code */
    /* 0: a thread for each element of result 0 (it takes several in its stride where there are many); 1: a block for
     * each row of result 0, a row being what its last axis holds */
    int32_t rows;
    int32_t shared;              /* bytes of dynamic shared memory of a block */
    int32_t pad;
};

struct tccc_custom_op {
    uint32_t version;            /* TCCC_CUSTOM_VERSION */
    uint32_t flags;              /* 0 */
    int (*shape)(struct tccc_custom *c);         /* 0: done; else what fail() returned */
    int (*run)(struct tccc_custom *c);           /* the same; NULL: no code for the CPU */
    struct tccc_custom_cuda cuda;
};

#define TCCC_CUSTOM_OP(name) __attribute__((visibility("default"))) const struct tccc_custom_op tccc_custom_op_##name

static inline const struct tccc_custom_attr *tccc_custom_attr(const struct tccc_custom *c, const char *name)
{
    for (int32_t i = 0; i < c->nattrs; i++) {
        const char *a = c->attrs[i].name, *b = name;
        while (*a && *a == *b)
            a++, b++;
        if (*a == *b)
            return &c->attrs[i];
    }
    return NULL;
}

/* The attribute as a number; `otherwise` where the model has none of that name or it is of another kind. */
static inline int64_t tccc_custom_int(const struct tccc_custom *c, const char *name, int64_t otherwise)
{
    const struct tccc_custom_attr *a = tccc_custom_attr(c, name);
    return a && a->kind == TCCC_ATTR_INTS && a->n > 0 ? a->ints[0] : otherwise;
}

static inline double tccc_custom_float(const struct tccc_custom *c, const char *name, double otherwise)
{
    const struct tccc_custom_attr *a = tccc_custom_attr(c, name);
    return a && a->kind == TCCC_ATTR_FLOATS && a->n > 0 ? a->floats[0] : otherwise;
}

static inline const char *tccc_custom_string(const struct tccc_custom *c, const char *name, const char *otherwise)
{
    const struct tccc_custom_attr *a = tccc_custom_attr(c, name);
    return a && a->kind == TCCC_ATTR_STRINGS && a->n > 0 ? a->strings[0] : otherwise;
}

/* Elements of a tensor whose dims are known. */
static inline int64_t tccc_custom_elements(const struct tccc_custom_tensor *t)
{
    int64_t n = 1;
    for (int32_t i = 0; i < t->rank; i++)
        n *= t->dims[i];
    return n;
}

/* In shape(): result `out` has the type of operand `in`. */
static inline int tccc_custom_like(struct tccc_custom *c, int out, int in)
{
    if (out >= c->nout || in >= c->nin || !c->in[in].dtype)
        return c->fail(c, "result %d is to be like operand %d, and there is no such one", out, in);
    c->out[out] = c->in[in];
    return 0;
}

#else
/* -- On a GPU ---------------------------------------------------------------------------------------------
 * Device code of operator NAME:
 *
 *     TCCC_CUDA_OP(NAME)
 *     {
 *         for (long long i = tccc_thread(); i < c.out[0].elements; i += tccc_threads())
 *             ...
 *     }
 *
 * It is a function template over the call, `c`: c.in[k], c.out[k] (struct tccc_cuda_tensor), and constants C::nin,
 * C::nout, C::attr_int("name", otherwise), C::attr_float("name", otherwise), C::attr_ints("name", i, otherwise),
 * C::attr_count("name"). dtypes and ranks are constants of the call, so that tests of them cost nothing. With .rows,
 * tccc_row() is this block's row. A grid may have more threads than there is work, and fewer. */
struct tccc_cuda_tensor {
    void *data;
    int dtype;                   /* enum tccc_custom_dtype; TCCC_NONE: left out */
    int rank;
    long long dims[TCCC_CUSTOM_RANK];
    long long elements;
};

#define TCCC_CUDA_OP(name) template <class C> static __device__ void tccc_cuda_op_##name(const C &c)
#endif

#ifdef __cplusplus
}
#endif

#ifdef __CUDACC__
static __device__ inline long long tccc_thread()         /* of the grid */
{
    return (long long)blockIdx.x * blockDim.x + threadIdx.x;
}
static __device__ inline long long tccc_threads()
{
    return (long long)gridDim.x * blockDim.x;
}
static __device__ inline long long tccc_row()
{
    return blockIdx.x;
}
#endif
#endif
