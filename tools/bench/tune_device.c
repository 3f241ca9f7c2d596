/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tune_device.c - kernels timed on a GPU, by events around launches one behind the other, after some that are not
 * counted: the median of several such rows. The driver is opened as the run-time library does it, libcuda.so.1 or
 * $TCCC_CUDA_LIBRARY, and translates the PTX. Types: CUDA Driver API.
 */
#include "runtime/tccrt.h"
#include "tools/run/model_int.h"
#include "tools/bench/tune_int.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAJOR = 75, MINOR = 76, MOST_SHARED = 8 }; /* attributes of devices and functions */
enum { ROWS = 5, SLOW_MS = 100 };                 /* milliseconds that a row may take */

/* CUlaunchConfig with one attribute, the size of clusters. */
struct attribute {
    unsigned id;
    char pad[4];
    unsigned cluster[16];
};
struct config {
    unsigned grid[3], block[3], shared;
    void *stream;
    const struct attribute *attributes;
    unsigned n;
};
enum { CLUSTER = 4 };
_Static_assert(sizeof(struct config) == 56 && sizeof(struct attribute) == 72, "CUlaunchConfig, CUlaunchAttribute");

/* FN(name, arguments): what is asked of the driver. */
#define FUNCTIONS(FN)                                                                                                  \
    FN(cuInit, (unsigned flags))                                                                                       \
    FN(cuGetErrorString, (int error, const char **text))                                                               \
    FN(cuDeviceGet, (int *device, int ordinal))                                                                        \
    FN(cuDeviceGetName, (char *name, int size, int device))                                                            \
    FN(cuDeviceGetAttribute, (int *value, int attribute, int device))                                                  \
    FN(cuDevicePrimaryCtxRetain, (void **context, int device))                                                         \
    FN(cuDevicePrimaryCtxRelease_v2, (int device))                                                                     \
    FN(cuCtxSetCurrent, (void *context))                                                                               \
    FN(cuModuleLoadDataEx, (void **module, const void *image, unsigned n, int *options, void **values))                \
    FN(cuModuleUnload, (void *module))                                                                                 \
    FN(cuModuleGetFunction, (void **function, void *module, const char *name))                                         \
    FN(cuFuncSetAttribute, (void *function, int attribute, int value))                                                 \
    FN(cuLaunchKernel, (void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,         \
                        unsigned shared, void *stream, void **params, void **extra))                                   \
    FN(cuLaunchKernelEx, (const struct config *config, void *f, void **params, void **extra))                          \
    FN(cuMemAlloc_v2, (uint64_t * address, size_t bytes))                                                              \
    FN(cuMemFree_v2, (uint64_t address))                                                                               \
    FN(cuMemcpyHtoD_v2, (uint64_t to, const void *from, size_t bytes))                                                 \
    FN(cuEventCreate, (void **event, unsigned flags))                                                                  \
    FN(cuEventRecord, (void *event, void *stream))                                                                     \
    FN(cuEventSynchronize, (void *event))                                                                              \
    FN(cuEventElapsedTime, (float *ms, void *from, void *to))                                                          \
    FN(cuTensorMapEncodeTiled,                                                                                         \
       (void *map, int type, unsigned rank, void *address, const uint64_t *dims, const uint64_t *strides,              \
        const uint32_t *box, const uint32_t *steps, int interleave, int swizzle, int promotion, int fill))             \
    FN(cuTensorMapEncodeIm2col,                                                                                        \
       (void *map, int type, unsigned rank, void *address, const uint64_t *dims, const uint64_t *strides,              \
        const int *lower, const int *upper, unsigned channels, unsigned pixels, const uint32_t *steps, int interleave, \
        int swizzle, int promotion, int fill))

struct gpu {
    void *library, *context, *module, *events[2];
    int device;
    uint64_t *at;
    int n, room;
#define FN(name, args) int(*name) args;
    FUNCTIONS(FN)
#undef FN
};

static bool fine(struct gpu *g, int result, const char *call, char *error)
{
    const char *text = NULL;
    if (!result)
        return true;
    g->cuGetErrorString(result, &text);
    snprintf(error, TUNE_TEXT, "%s: %s", call, text ? text : "unknown error");
    return false;
}

static bool load(struct tune_clock *c, const struct tcc_pimage *image, char *error)
{
    struct gpu *g = c->state;
    if (g->module)
        g->cuModuleUnload(g->module);
    g->module = NULL;
    return fine(g, g->cuModuleLoadDataEx(&g->module, (const char *)image + image->code.first, 0, NULL, NULL),
                "cuModuleLoadDataEx", error);
}

static bool memory(struct tune_clock *c, size_t bytes, const void *data, uint64_t *at, char *error)
{
    struct gpu *g = c->state;
    if (!tune_room(&g->at, g->n, &g->room, error))
        return false;
    if (!fine(g, g->cuMemAlloc_v2(at, bytes ? bytes : 1), "cuMemAlloc", error))
        return false;
    g->at[g->n++] = *at;
    return !data || !bytes || fine(g, g->cuMemcpyHtoD_v2(*at, data, bytes), "cuMemcpyHtoD", error);
}

static void release(struct tune_clock *c)
{
    struct gpu *g = c->state;
    while (g->n)
        g->cuMemFree_v2(g->at[--g->n]);
}

static int launch(struct gpu *g, void *f, const struct records_shape *s, void **extra)
{
    if (s->cluster[0] < 2)
        return g->cuLaunchKernel(f, s->grid[0], s->grid[1], s->grid[2], s->block[0], s->block[1], s->block[2],
                                 (unsigned)s->shared, NULL, NULL, extra);
    struct attribute a = {.id = CLUSTER, .cluster = {s->cluster[0], s->cluster[1], s->cluster[2]}};
    struct config c = {.shared = (unsigned)s->shared, .attributes = &a, .n = 1};
    memcpy(c.grid, s->grid, sizeof c.grid);
    memcpy(c.block, s->block, sizeof c.block);
    return g->cuLaunchKernelEx ? g->cuLaunchKernelEx(&c, f, NULL, extra) : 801; /* CUDA_ERROR_NOT_SUPPORTED */
}

/* n launches between two events. */
static bool row(struct gpu *g, void *f, const struct records_shape *s, const uint64_t *params, size_t size, int n,
                double *seconds, char *error)
{
    void *extra[] = {(void *)1, (void *)(uintptr_t)params, (void *)2, &size,
                     NULL}; /* CU_LAUNCH_PARAM_BUFFER_POINTER, _SIZE, _END */
    float ms = 0;
    if (!fine(g, g->cuEventRecord(g->events[0], NULL), "cuEventRecord", error))
        return false;
    for (int i = 0; i < n; i++)
        if (!fine(g, launch(g, f, s, extra), "cuLaunchKernel", error))
            return false;
    if (!fine(g, g->cuEventRecord(g->events[1], NULL), "cuEventRecord", error) ||
        !fine(g, g->cuEventSynchronize(g->events[1]), "cuEventSynchronize", error) ||
        !fine(g, g->cuEventElapsedTime(&ms, g->events[0], g->events[1]), "cuEventElapsedTime", error))
        return false;
    *seconds = 1e-3 * ms / n;
    return true;
}

static bool time_one(struct tune_clock *c, const char *symbol, const struct records_shape *s, const uint64_t *params,
                     size_t size, double work, double *seconds, char *error)
{
    struct gpu *g = c->state;
    double times[ROWS], start = now_ms();
    void *f = NULL;
    (void)work;
    if (!fine(g, g->cuModuleGetFunction(&f, g->module, symbol), "cuModuleGetFunction", error) ||
        (s->shared && !fine(g, g->cuFuncSetAttribute(f, MOST_SHARED, (int)s->shared), "cuFuncSetAttribute", error)) ||
        !row(g, f, s, params, size, 2, seconds, error))
        return false;
    double real = (now_ms() - start) / 2 + 1e-3;         /* of a launch, with what surrounds it */
    int n = *seconds > 0 ? (int)(1e-3 / *seconds) : 100; /* a millisecond of them */
    n = n > 100 ? 100 : n;
    n = n > SLOW_MS / real ? (int)(SLOW_MS / real) : n;
    if (n < 1) /* it is slow enough to be measured by the two that were not to be counted */
        return true;
    for (int i = 0; i < ROWS; i++)
        if (!row(g, f, s, params, size, n, &times[i], error))
            return false;
    *seconds = sort_times(times, ROWS);
    return true;
}

static void close_device(struct tune_clock *c)
{
    struct gpu *g = c->state;
    release(c);
    if (g->module)
        g->cuModuleUnload(g->module);
    if (g->context)
        g->cuDevicePrimaryCtxRelease_v2(g->device);
    free(g->at);
    free(g); /* the driver stays, as it wants it */
}

/* What old drivers may lack. */
static bool newer(const char *name)
{
    return !strncmp(name, "cuTensorMapEncode", 17) || !strcmp(name, "cuLaunchKernelEx");
}

static bool open_driver(struct gpu *g, char *error)
{
    const char *given = tccrt_env_text("TCCC_CUDA_LIBRARY"), *path = given ? given : "libcuda.so.1", *lacks = NULL;
    if (!(g->library = dlopen(path, RTLD_NOW | RTLD_LOCAL))) {
        const char *why = dlerror();
        snprintf(error, TUNE_TEXT, "no CUDA driver (%s)", why ? why : path);
        return false;
    }
#define FN(name, args)                                                     \
    if (!(*(void **)&g->name = dlsym(g->library, #name)) && !newer(#name)) \
        lacks = #name;
    FUNCTIONS(FN)
#undef FN
    if (lacks)
        snprintf(error, TUNE_TEXT, "no CUDA driver (%s: it has no %s)", path, lacks);
    return !lacks;
}

/* Code of an architecture with a letter runs on that one alone; other code on later ones too, translated. */
static bool suits(struct gpu *g, const char *arch, const char *name, char *error)
{
    int major = 0, minor = 0, wanted = atoi(arch + 3);
    g->cuDeviceGetAttribute(&major, MAJOR, g->device);
    g->cuDeviceGetAttribute(&minor, MINOR, g->device);
    int has = 10 * major + minor;
    if (arch[strlen(arch) - 1] == 'a' ? has == wanted : has >= wanted)
        return true;
    snprintf(error, TUNE_TEXT, "%s is of compute capability %d.%d: it does not run code for %s", name, major, minor,
             arch);
    return false;
}

bool tune_device(struct tune_clock *c, const char *device, const char *arch, char *error)
{
    struct gpu *g = calloc(1, sizeof *g);
    const char *at = strchr(device, ':');
    *c = (struct tune_clock){
        .state = g, .load = load, .memory = memory, .free = release, .time = time_one, .close = close_device};
    if (!g) {
        strcpy(error, "no memory");
        return false;
    }
    if (open_driver(g, error) && fine(g, g->cuInit(0), "cuInit", error) &&
        fine(g, g->cuDeviceGet(&g->device, at ? atoi(at + 1) : 0), "cuDeviceGet", error) &&
        fine(g, g->cuDeviceGetName(c->name, sizeof c->name, g->device), "cuDeviceGetName", error) &&
        suits(g, arch, c->name, error) &&
        fine(g, g->cuDevicePrimaryCtxRetain(&g->context, g->device), "cuDevicePrimaryCtxRetain", error) &&
        fine(g, g->cuCtxSetCurrent(g->context), "cuCtxSetCurrent", error) &&
        fine(g, g->cuEventCreate(&g->events[0], 0), "cuEventCreate", error) &&
        fine(g, g->cuEventCreate(&g->events[1], 0), "cuEventCreate", error)) {
        c->maps = (struct tcc_map_driver){g->cuTensorMapEncodeTiled, g->cuTensorMapEncodeIm2col};
        return true;
    }
    if (g->context)
        g->cuDevicePrimaryCtxRelease_v2(g->device);
    free(g);
    return false;
}
