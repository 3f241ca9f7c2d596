/* SPDX-License-Identifier: Apache-2.0 */
/* Modules, functions, launches, occupancy (CUDA Driver API, "Module management", "Execution control", "Occupancy"). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/grow.h"
#include "sim/ptx/drv_int.h"
#include "sim/time.h"

/* -- Modules -- */

enum { JIT_INFO_LOG = 3, JIT_INFO_SIZE = 4, JIT_ERROR_LOG = 5, JIT_ERROR_SIZE = 6 };

static void put_log(unsigned n, const int *options, void **values, int log, int size, const char *text)
{
    char *to = NULL;
    int at = -1;
    for (unsigned k = 0; k < n; k++) {
        to = options[k] == log ? values[k] : to;
        at = options[k] == size ? (int)k : at;
    }
    if (at < 0)
        return;
    size_t room = (uintptr_t)values[at], len = strlen(text);
    if (to && room) {
        len = len < room - 1 ? len : room - 1;
        memcpy(to, text, len);
        to[len] = 0;
    }
    values[at] = (void *)(uintptr_t)(to ? len : 0);
}

static CUresult load(CUmodule *out, const char *image, unsigned n, const int *options, void **values)
{
    char error[PTX_ERROR] = "", log[PTX_ERROR + 32];
    if (!out || !image || (n && (!options || !values)))
        return CUDA_ERROR_INVALID_VALUE;
    if (memcmp(image, "\177ELF", 4) == 0)
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    if (!drv_reads_ptx(image))
        return CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
    CUmodule m = calloc(1, sizeof *m);
    CUcontext ctx = drv_current();
    if (!m)
        return CUDA_ERROR_OUT_OF_MEMORY;
    m->m = ptx_load(drv.devices[ctx->device].d, image, strlen(image), error);
    snprintf(log, sizeof log, "%s%s", *error ? "error: " : "", error);
    put_log(n, options, values, JIT_INFO_LOG, JIT_INFO_SIZE, "");
    put_log(n, options, values, JIT_ERROR_LOG, JIT_ERROR_SIZE, log);
    if (!m->m) {
        free(m);
        return CUDA_ERROR_INVALID_PTX;
    }
    m->magic = MAGIC_MODULE;
    m->ctx = ctx;
    m->next = ctx->modules;
    *out = ctx->modules = m;
    return CUDA_SUCCESS;
}
API(cuModuleLoadDataEx, NEED_CTX | NEED_QUIET,
    (CUmodule * m, const void *image, unsigned n, int *options, void **values), load(m, image, n, options, values))
API(cuModuleLoadData, NEED_CTX | NEED_QUIET, (CUmodule * m, const void *image), load(m, image, 0, NULL, NULL))

void drv_module_drop(CUmodule m)
{
    UNLINK(m->ctx->modules, m);
    while (m->functions) {
        CUfunction f = m->functions;
        m->functions = f->next;
        f->magic = 0;
        free(f);
    }
    ptx_unload(m->m);
    m->magic = 0;
    free(m);
}

static CUresult unload(CUmodule m)
{
    if (!IS(m, MODULE))
        return CUDA_ERROR_INVALID_HANDLE;
    drv_drain(m->ctx); /* launches of its kernels */
    drv_quiet();
    drv_module_drop(m);
    return CUDA_SUCCESS;
}
API(cuModuleUnload, NEED_CTX | NEED_SAFE | WAITS, (CUmodule m), unload(m))

static CUresult function(CUfunction *out, CUmodule m, const char *name)
{
    if (!out || !name || !IS(m, MODULE))
        return out && name ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_INVALID_VALUE;
    const struct ptx_kernel *k = ptx_find(m->m, name);
    CUfunction f = m->functions;
    while (f && f->kernel != k)
        f = f->next;
    if (!k)
        return CUDA_ERROR_NOT_FOUND;
    if (!f) {
        if (!(f = calloc(1, sizeof *f)))
            return CUDA_ERROR_OUT_OF_MEMORY;
        *f = (struct CUfunc_st){MAGIC_FUNCTION, m, k, 0, m->functions};
        m->functions = f;
        size_t shared, local;
        int params;
        ptx_kernel_needs(k, &shared, &local, &params);
        f->dynamic = shared < 49152 ? 49152 - (int)shared : 0;
    }
    *out = f;
    return CUDA_SUCCESS;
}
API(cuModuleGetFunction, NEED_CTX, (CUfunction * f, CUmodule m, const char *name), function(f, m, name))

static CUresult global(CUdeviceptr *address, size_t *bytes, CUmodule m, const char *name)
{
    size_t size = 0;
    if (!name || !IS(m, MODULE))
        return name ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_INVALID_VALUE;
    uint64_t at = ptx_global(m->m, name, &size);
    if (!at)
        return CUDA_ERROR_NOT_FOUND;
    if (address)
        *address = at;
    if (bytes)
        *bytes = size;
    return CUDA_SUCCESS;
}
API(cuModuleGetGlobal_v2, NEED_CTX, (CUdeviceptr * address, size_t *bytes, CUmodule m, const char *name),
    global(address, bytes, m, name))

static CUresult count(unsigned *n, CUmodule m)
{
    if (!n || !IS(m, MODULE))
        return n ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_INVALID_VALUE;
    *n = (unsigned)ptx_kernel_count(m->m);
    return CUDA_SUCCESS;
}
API(cuModuleGetFunctionCount, NEED_CTX, (unsigned *n, CUmodule m), count(n, m))

/* -- Functions -- */

enum {
    F_MAX_THREADS,
    F_SHARED,
    F_CONST,
    F_LOCAL,
    F_REGISTERS,
    F_PTX,
    F_BINARY,
    F_CACHE,
    F_DYNAMIC,
    F_CARVEOUT,
    F_CLUSTER_MUST,
    F_CLUSTER_X,
    F_CLUSTER_Y,
    F_CLUSTER_Z,
    F_NONPORTABLE,
    F_POLICY
};

static int registers(const struct CUfunc_st *f)
{
    return ptx_kernel_registers(f->kernel);
}

static int most_threads(const struct CUfunc_st *f)
{
    int most = ptx_kernel_threads(f->kernel), fit = SIM_REGISTERS / ((registers(f) + 7) / 8 * 8) / 32 * 32;
    return most < fit ? most : fit;
}

static CUresult get_attribute(int *value, int which, CUfunction f)
{
    size_t shared, local;
    int params;
    if (!value || which < 0 || which > F_POLICY || !IS(f, FUNCTION))
        return value && which >= 0 && which <= F_POLICY ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_INVALID_VALUE;
    ptx_kernel_needs(f->kernel, &shared, &local, &params);
    switch (which) {
    case F_MAX_THREADS: *value = most_threads(f); break;
    case F_SHARED: *value = (int)shared; break;
    case F_LOCAL: *value = (int)local; break;
    case F_REGISTERS: *value = registers(f); break;
    case F_PTX:
    case F_BINARY: *value = 10 * drv.machine->major + drv.machine->minor; break;
    case F_DYNAMIC: *value = f->dynamic; break;
    case F_CARVEOUT: *value = -1; break;
    default: *value = 0;
    }
    return CUDA_SUCCESS;
}
API(cuFuncGetAttribute, NEED_CTX, (int *value, int which, CUfunction f), get_attribute(value, which, f))

static CUresult set_attribute(CUfunction f, int which, int value)
{
    size_t shared, local;
    int params;
    if (!IS(f, FUNCTION))
        return CUDA_ERROR_INVALID_HANDLE;
    ptx_kernel_needs(f->kernel, &shared, &local, &params);
    if (which == F_CARVEOUT && value >= -1 && value <= 100)
        return CUDA_SUCCESS; /* how shared memory and L1 share: no matter here */
    if (which == F_NONPORTABLE && (value == 0 || value == 1))
        return CUDA_SUCCESS;
    if (which != F_DYNAMIC || value < 0 || (size_t)value + shared > (size_t)drv.machine->shared_block)
        return CUDA_ERROR_INVALID_VALUE;
    f->dynamic = value;
    return CUDA_SUCCESS;
}
API(cuFuncSetAttribute, NEED_CTX, (CUfunction f, int which, int value), set_attribute(f, which, value))
API(cuFuncSetCacheConfig, NEED_CTX, (CUfunction f, int config),
    !IS(f, FUNCTION)           ? CUDA_ERROR_INVALID_HANDLE
    : config < 0 || config > 3 ? CUDA_ERROR_INVALID_VALUE
                               : CUDA_SUCCESS)

static CUresult name_of(const char **name, CUmodule *module, CUfunction f)
{
    if (!IS(f, FUNCTION) || (!name && !module))
        return name || module ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_INVALID_VALUE;
    if (name)
        *name = ptx_kernel_name(f->kernel);
    if (module)
        *module = f->module;
    return CUDA_SUCCESS;
}
API(cuFuncGetName, NEED_CTX, (const char **name, CUfunction f), name_of(name, NULL, f))
API(cuFuncGetModule, NEED_CTX, (CUmodule * m, CUfunction f), name_of(NULL, m, f))

static CUresult param(CUfunction f, size_t i, size_t *offset, size_t *bytes)
{
    size_t at, size;
    const char *type;
    if (!IS(f, FUNCTION) || !offset)
        return offset ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_INVALID_VALUE;
    if (!ptx_kernel_param(f->kernel, (int)i, &at, &size, &type))
        return CUDA_ERROR_INVALID_VALUE;
    *offset = at;
    if (bytes)
        *bytes = size;
    return CUDA_SUCCESS;
}
API(cuFuncGetParamInfo, NEED_CTX, (CUfunction f, size_t i, size_t *offset, size_t *bytes), param(f, i, offset, bytes))

/* -- Launches -- */

static CUresult pack(struct drv_work *w, const struct ptx_kernel *k, void **params, void **extra)
{
    enum { EXTRA_BUFFER = 1, EXTRA_SIZE = 2 };
    size_t shared, local, offset, bytes;
    const void *buffer = NULL;
    size_t given = 0;
    const char *type;
    int size;
    ptx_kernel_needs(k, &shared, &local, &size);
    for (int e = 0; extra && extra[e]; e += 2) {
        if ((uintptr_t)extra[e] == EXTRA_BUFFER)
            buffer = extra[e + 1];
        else if ((uintptr_t)extra[e] == EXTRA_SIZE)
            given = *(const size_t *)extra[e + 1];
        else
            return CUDA_ERROR_INVALID_VALUE;
    }
    if ((params && extra) || (size && !params && (!buffer || given < (size_t)size)))
        return CUDA_ERROR_INVALID_VALUE;
    uint8_t *block = calloc(1, (size_t)size + 8);
    if (!block)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (!params && size)
        memcpy(block, buffer, (size_t)size);
    for (int i = 0; params && ptx_kernel_param(k, i, &offset, &bytes, &type); i++)
        memcpy(block + offset, params[i], bytes);
    w->launch.params = block;
    w->launch.params_size = (size_t)size;
    return CUDA_SUCCESS;
}

CUresult drv_kernel_work(struct drv_work *w, CUfunction f, const unsigned *grid, const unsigned *block, unsigned shared,
                         void **params, void **extra)
{
    static const unsigned most_grid[3] = {0x7fffffff, 65535, 65535}, most_block[3] = {1024, 1024, 64};
    CUcontext ctx = drv_current();
    if (!IS(f, FUNCTION) || f->module->ctx != ctx)
        return CUDA_ERROR_INVALID_HANDLE;
    for (int i = 0; i < 3; i++)
        if (!grid[i] || grid[i] > most_grid[i] || !block[i] || block[i] > most_block[i])
            return CUDA_ERROR_INVALID_VALUE;
    uint64_t threads = (uint64_t)block[0] * block[1] * block[2];
    if (threads > 1024 || shared > (unsigned)f->dynamic)
        return CUDA_ERROR_INVALID_VALUE;
    if (threads > (unsigned)most_threads(f))
        return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
    *w = (struct drv_work){.kind = WORK_KERNEL, .func = f, .ctx = ctx};
    memcpy(w->launch.grid, grid, sizeof w->launch.grid);
    memcpy(w->launch.block, block, sizeof w->launch.block);
    w->launch.shared = shared;
    snprintf(w->who, sizeof w->who, "%s", ptx_kernel_name(f->kernel));
    return pack(w, f->kernel, params, extra);
}

static int occupancy(const struct CUfunc_st *f, int threads, size_t dynamic)
{
    size_t shared, local;
    int params;
    ptx_kernel_needs(f->kernel, &shared, &local, &params);
    return sim_occupancy(drv.machine, threads, registers(f), shared + dynamic);
}

static CUresult fits_at_once(CUfunction f, const unsigned *grid, const unsigned *block, unsigned shared)
{
    if (!IS(f, FUNCTION))
        return CUDA_ERROR_INVALID_HANDLE;
    uint64_t blocks = (uint64_t)grid[0] * grid[1] * grid[2];
    uint64_t most = (uint64_t)occupancy(f, (int)(block[0] * block[1] * block[2]), shared) * (unsigned)drv.machine->sms;
    return blocks > most ? CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE : CUDA_SUCCESS;
}

enum { ALONE, TOGETHER };

static CUresult launch(CUfunction f, const unsigned *grid, const unsigned *block, const unsigned *cluster,
                       unsigned shared, CUstream handle, void **params, void **extra, int how)
{
    CUstream s;
    struct drv_work w = {0};
    CUresult r = drv_stream(handle, &s);
    r = !r && how == TOGETHER ? fits_at_once(f, grid, block, shared) : r;
    r = r ? r : drv_kernel_work(&w, f, grid, block, shared, params, extra);
    w.launch.cooperative = how == TOGETHER;
    if (!r && cluster)
        memcpy(w.launch.cluster, cluster, sizeof w.launch.cluster);
    return r ? r : drv_enqueue(s, &w, false);
}

CUresult cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                        unsigned shared, CUstream stream, void **params, void **extra)
{
    unsigned grid[3] = {gx, gy, gz}, block[3] = {bx, by, bz};
    CUresult r = drv_enter("cuLaunchKernel", NEED_CTX);
    return drv_leave(
        drv_told("cuLaunchKernel", r ? r : launch(f, grid, block, NULL, shared, stream, params, extra, ALONE)));
}

CUresult cuLaunchCooperativeKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                                   unsigned bz, unsigned shared, CUstream stream, void **params)
{
    unsigned grid[3] = {gx, gy, gz}, block[3] = {bx, by, bz};
    CUresult r = drv_enter("cuLaunchCooperativeKernel", NEED_CTX);
    return drv_leave(drv_told("cuLaunchCooperativeKernel",
                              r ? r : launch(f, grid, block, NULL, shared, stream, params, NULL, TOGETHER)));
}

static CUresult launch_ex(const CUlaunchConfig *c, CUfunction f, void **params, void **extra)
{
    if (!c || (c->nattrs && !c->attrs))
        return CUDA_ERROR_INVALID_VALUE;
    const unsigned *cluster = NULL;
    int how = ALONE;
    for (unsigned k = 0; k < c->nattrs; k++) {
        const CUlaunchAttribute *a = &c->attrs[k];
        if (a->id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE && a->value.value)
            how = TOGETHER;
        if (a->id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
            cluster = &a->value.cluster.x;
    }
    uint64_t blocks = cluster ? (uint64_t)cluster[0] * cluster[1] * cluster[2] : 1;
    if (blocks > 1 && drv.machine->major < 9)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (!blocks || blocks > 16)
        return CUDA_ERROR_INVALID_CLUSTER_SIZE;
    for (int i = 0; cluster && i < 3; i++)
        if (c->grid[i] % cluster[i])
            return CUDA_ERROR_INVALID_VALUE;
    return launch(f, c->grid, c->block, cluster, c->shared, c->stream, params, extra, how);
}
API(cuLaunchKernelEx, NEED_CTX, (const CUlaunchConfig *c, CUfunction f, void **params, void **extra),
    launch_ex(c, f, params, extra))

/* -- Occupancy -- */

static CUresult active(int *blocks, CUfunction f, int threads, size_t shared)
{
    if (!blocks || threads <= 0 || !IS(f, FUNCTION))
        return blocks && threads > 0 ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_INVALID_VALUE;
    *blocks = threads > most_threads(f) ? 0 : occupancy(f, threads, shared);
    return CUDA_SUCCESS;
}
API(cuOccupancyMaxActiveBlocksPerMultiprocessor, NEED_CTX, (int *blocks, CUfunction f, int threads, size_t shared),
    active(blocks, f, threads, shared))
API(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, NEED_CTX,
    (int *blocks, CUfunction f, int threads, size_t shared, unsigned flags),
    flags > 1 ? CUDA_ERROR_INVALID_VALUE : active(blocks, f, threads, shared))

/* The block size with the most resident threads; the largest of those. */
static CUresult potential(int *grid, int *block, CUfunction f, CUoccupancyB2DSize size, size_t shared, int limit)
{
    int best = 0;
    if (!grid || !block || !IS(f, FUNCTION))
        return grid && block ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_INVALID_VALUE;
    int most = limit > 0 && limit < most_threads(f) ? limit : most_threads(f);
    for (int threads = (most + 31) / 32 * 32; threads > 0; threads -= 32) {
        int t = threads < most ? threads : most, blocks = occupancy(f, t, size ? size(t) : shared);
        if (blocks * t > best) {
            best = blocks * t;
            *block = t;
            *grid = blocks * drv.machine->sms;
        }
    }
    return best ? CUDA_SUCCESS : CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
}
API(cuOccupancyMaxPotentialBlockSize, NEED_CTX,
    (int *grid, int *block, CUfunction f, CUoccupancyB2DSize size, size_t shared, int limit),
    potential(grid, block, f, size, shared, limit))

static CUresult available(size_t *bytes, CUfunction f, int blocks, int threads)
{
    size_t shared, local;
    int params;
    if (!bytes || blocks <= 0 || threads <= 0 || !IS(f, FUNCTION))
        return bytes && blocks > 0 && threads > 0 ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_INVALID_VALUE;
    ptx_kernel_needs(f->kernel, &shared, &local, &params);
    size_t each = (size_t)drv.machine->shared_sm / (size_t)blocks / 128 * 128, used = shared + SIM_RESERVED_SHARED;
    each = each > used ? each - used : 0;
    *bytes = each < (size_t)drv.machine->shared_block - shared ? each : (size_t)drv.machine->shared_block - shared;
    return CUDA_SUCCESS;
}
API(cuOccupancyAvailableDynamicSMemPerBlock, NEED_CTX, (size_t * bytes, CUfunction f, int blocks, int threads),
    available(bytes, f, blocks, threads))

static CUresult clusters(int *n, CUfunction f, const CUlaunchConfig *c)
{
    unsigned size = 1;
    if (!n || !c || !IS(f, FUNCTION))
        return n && c ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_INVALID_VALUE;
    for (unsigned k = 0; k < c->nattrs; k++)
        if (c->attrs[k].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
            size = c->attrs[k].value.cluster.x * c->attrs[k].value.cluster.y * c->attrs[k].value.cluster.z;
    if (!size || size > 16)
        return CUDA_ERROR_INVALID_CLUSTER_SIZE;
    *n = occupancy(f, (int)(c->block[0] * c->block[1] * c->block[2]), c->shared) * drv.machine->sms / (int)size;
    return CUDA_SUCCESS;
}
API(cuOccupancyMaxActiveClusters, NEED_CTX, (int *n, CUfunction f, const CUlaunchConfig *c), clusters(n, f, c))
