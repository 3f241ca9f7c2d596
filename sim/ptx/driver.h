/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver functions of libtccptx.so: the functions of driver.def with the ABI of the CUDA driver on x86-64, so that
 * code which talks to libcuda.so.1 talks to the simulator unchanged. Layouts and numbers are those of CUDA 13.0 (CUDA
 * Driver API, "Data types used by CUDA driver"); static assertions in drv_device.c hold the sizes.
 *
 * Any thread may call any function. Work is deferred: it runs when somebody synchronises, in an order that
 * TCCC_ORDER_SEED draws among the legal ones, or, after a moment, in a thread of the simulator's. A failed check of a
 * kernel, a race between streams included, ends its context with a sticky error; ptx_driver_reports() says what it was.
 */
#ifndef TCCC_PTX_DRIVER_H
#define TCCC_PTX_DRIVER_H

#include <stddef.h>
#include <stdint.h>

#include "sim/ptx/ptxsim.h"

typedef enum CUresult {
#define ERROR(number, name, text) name = number,
#include "sim/ptx/errors.def"
} CUresult;

typedef int CUdevice;
typedef uint64_t CUdeviceptr, CUmemGenericAllocationHandle;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphNode_st *CUgraphNode;
typedef struct CUgraphExec_st *CUgraphExec;
typedef struct CUmemPool_st *CUmemoryPool;
typedef void (*CUhostFn)(void *data);
typedef size_t (*CUoccupancyB2DSize)(int threads);
typedef struct { uint8_t bytes[16]; } CUuuid;

#define CU_STREAM_LEGACY ((CUstream)1)
#define CU_STREAM_PER_THREAD ((CUstream)2)
enum { CU_STREAM_NON_BLOCKING = 1, CU_EVENT_DISABLE_TIMING = 2, CU_EVENT_RECORD_EXTERNAL = 1 };
enum { CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, CU_STREAM_CAPTURE_MODE_RELAXED };
enum { CU_STREAM_CAPTURE_STATUS_NONE, CU_STREAM_CAPTURE_STATUS_ACTIVE, CU_STREAM_CAPTURE_STATUS_INVALIDATED };
enum { CU_MEMORYTYPE_HOST = 1, CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_ARRAY, CU_MEMORYTYPE_UNIFIED };
enum { CU_GRAPH_NODE_TYPE_KERNEL, CU_GRAPH_NODE_TYPE_MEMCPY, CU_GRAPH_NODE_TYPE_MEMSET, CU_GRAPH_NODE_TYPE_HOST,
    CU_GRAPH_NODE_TYPE_GRAPH,
       CU_GRAPH_NODE_TYPE_EMPTY, CU_GRAPH_NODE_TYPE_WAIT_EVENT, CU_GRAPH_NODE_TYPE_EVENT_RECORD,
           CU_GRAPH_NODE_TYPE_MEM_ALLOC = 10, CU_GRAPH_NODE_TYPE_MEM_FREE };
enum {
    CU_LAUNCH_ATTRIBUTE_COOPERATIVE = 2, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION = 4,
    CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION = 6
};

typedef struct { unsigned id; char pad[4]; union { char bytes[64]; struct { unsigned x, y,
    z; } cluster; int value; } value; } CUlaunchAttribute;
typedef struct {
    unsigned grid[3], block[3], shared;
    CUstream stream;
    CUlaunchAttribute *attrs;
    unsigned nattrs;
} CUlaunchConfig;
typedef struct {
    CUfunction func;
    unsigned grid[3], block[3], shared;
    void **params, **extra, *kernel;
    CUcontext ctx;
} CUDA_KERNEL_NODE_PARAMS;
typedef struct {
    CUdeviceptr dst;
    size_t pitch;
    unsigned value, element;
    size_t width, height;
} CUDA_MEMSET_NODE_PARAMS;
typedef struct { CUhostFn fn; void *data; } CUDA_HOST_NODE_PARAMS;
typedef struct {
    size_t src_x, src_y; int src_type; const void *src_host; CUdeviceptr src_device; void *src_array; size_t src_pitch;
    size_t dst_x, dst_y; int dst_type; void *dst_host; CUdeviceptr dst_device; void *dst_array; size_t dst_pitch;
    size_t width, height;
} CUDA_MEMCPY2D;
typedef struct {
    size_t src_x, src_y, src_z, src_lod; int src_type; const void *src_host; CUdeviceptr src_device; void *src_array,
        *src_reserved; size_t src_pitch, src_height;
    size_t dst_x, dst_y, dst_z, dst_lod; int dst_type; void *dst_host; CUdeviceptr dst_device; void *dst_array,
        *dst_reserved; size_t dst_pitch, dst_height;
    size_t width, height, depth;
} CUDA_MEMCPY3D;
typedef struct { int result; CUgraphNode error_node, error_from; } CUgraphExecUpdateResultInfo;
typedef struct { int type, id; } CUmemLocation;
typedef struct {
    int type, handle_types;
    CUmemLocation location;
    void *metadata;
    uint8_t flags[8];
} CUmemAllocationProp;
typedef struct { CUmemLocation location; int flags; } CUmemAccessDesc;

#define FN(symbol, name, version, args) CUresult symbol args;
#include "sim/ptx/driver.def"

/* Failed checks on a device so far (device: its ordinal); the list is valid until the next call of any function
 * here. */
int ptx_driver_reports(int device, const struct ptx_report **list);
void ptx_driver_reports_clear(int device);
/* Names for this thread's next launch or copy: who it is (for reports), and what it may touch (ptx_ranges; n 0:
 * anything). */
bool ptx_driver_next(const char *who, const struct ptx_range *list, int n);
/* From now on launches are timed by a few of their blocks, without checks, and nothing has values (drv_sample.c). It is
 * said once, before or after memory is made: CUDA_ERROR_INVALID_VALUE for another answer than the first one of the
 * process. */
CUresult ptx_driver_time_only(bool on);
/* Calls in which the host has waited for work so far: synchronisation, copies that are not asynchronous, frees and
 * unloading. */
uint64_t ptx_driver_waits(void);
/* Modelled seconds: when what the event stands behind in its stream began and ended; CUDA_ERROR_NOT_READY before. now:
 * when all that was given has ended; busy: for how long the device's kernels, copies from the host and copies to it
 * took; waits for all work. */
CUresult ptx_driver_times(CUevent event, double *start, double *end);
/* What bounds the kernel that the event stands behind (sim_bound_name()); NULL: it is no kernel, or one of a graph. */
CUresult ptx_driver_bound(CUevent event, const char **to);
void ptx_driver_modelled(int device, double *now, double busy[3]);
/* Work that somebody outside of this process takes part in, as a collective of several devices does: once all that it
 * stands behind in its stream is done, poll() is asked until it says that it is over; other streams go on meanwhile. It
 * may read and write memory of devices, whose checks take it for one launch. time(): the modelled end of what could
 * begin at `start`; false: not known yet, it is asked again. poll() and time() are never called at once for one device,
 * call no function of the driver and return soon. drop(): it is of no use any more. Not in a capture. */
/* illegal: the context's sticky error, as of a kernel */
enum ptx_outside { PTX_OUTSIDE_PENDING, PTX_OUTSIDE_DONE, PTX_OUTSIDE_ILLEGAL };
struct ptx_outside_work {
    enum ptx_outside (*poll)(void *data);
    bool (*time)(void *data, double start, double *end);
    void (*drop)(void *data);
    void *data;
};
/* takes w->data if it succeeds */
CUresult ptx_driver_outside(CUstream stream, const struct ptx_outside_work *w);
/* these two in poll() alone; false: not memory of a device */
bool ptx_driver_read(void *to, CUdeviceptr from, size_t bytes);
bool ptx_driver_write(CUdeviceptr to, const void *from, size_t bytes);
const char *ptx_driver_machine(void);                                /* its id in sim/machines.def */
/* Counters of all launches of a device since it began or was cleared. */
void ptx_driver_counters(int device, struct ptx_counters *sum);

#endif
