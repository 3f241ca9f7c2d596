/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nccl.h - libtcccnccl.so: NCCL's functions (NCCL 2.28 user guide, "NCCL API"; ABI of its header on x86-64) for
 * simulated GPUs, whose driver is libtccptx.so. Any thread may call any of them; ranks are processes of one machine, or
 * devices of one process.
 *
 * What a rank is given goes into its stream, and is done in the order of the stream and of the communicator.
 * Descriptions of all ranks' collectives are compared: counts, types, operations and roots that differ, and two
 * communicators in opposite order, are errors of the communicator. A communicator that does not block (ncclConfig_t)
 * answers ncclInProgress a few times, and enqueues nothing before it says ncclSuccess, as NCCL may. A rank that is gone
 * is not noticed, as over NVLink; after TCCC_SIM_NCCL_TIMEOUT seconds (120) an operation gives up. Sums are in the
 * order of a ring, rounded at each hop. TCCC_SIM_NCCL_VERSION (22809) is what ncclGetVersion() says.
 */
#ifndef TCCC_SIM_NCCL_H
#define TCCC_SIM_NCCL_H

#include <limits.h>
#include <stddef.h>

typedef struct ncclComm *ncclComm_t;
typedef struct { char internal[128]; } ncclUniqueId;
typedef enum {
    ncclSuccess, ncclUnhandledCudaError, ncclSystemError, ncclInternalError, ncclInvalidArgument, ncclInvalidUsage,
        ncclRemoteError, ncclInProgress
} ncclResult_t;
/* others: ncclRedOpCreatePreMulSum()'s */
typedef enum { ncclSum, ncclProd, ncclMax, ncclMin, ncclAvg, ncclNumOps } ncclRedOp_t;
typedef enum {
    ncclInt8, ncclUint8, ncclInt32, ncclUint32, ncclInt64, ncclUint64, ncclFloat16, ncclFloat32, ncclFloat64,
        ncclBfloat16, ncclNumTypes
} ncclDataType_t;
typedef enum { ncclScalarDevice, ncclScalarHostImmediate } ncclScalarResidence_t;
#define NCCL_CONFIG_UNDEF_INT INT_MIN
#define NCCL_CONFIG_MAGIC 0xcafebeefu
typedef struct {
    size_t size;
    unsigned magic, version;
    int blocking, cga_cluster, min_ctas, max_ctas;           /* up to here since 2.17; longer ones are taken, too */
} ncclConfig_t;
typedef void *cudaStream_t;

ncclResult_t ncclGetVersion(int *version);
const char *ncclGetErrorString(ncclResult_t r);
const char *ncclGetLastError(ncclComm_t comm);
ncclResult_t ncclGetUniqueId(ncclUniqueId *id);
ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t *config);
ncclResult_t ncclCommDestroy(ncclComm_t comm);
ncclResult_t ncclCommAbort(ncclComm_t comm);
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error);
ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t *op, void *scalar, ncclDataType_t type, ncclScalarResidence_t where,
                                      ncclComm_t comm);
ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm);
ncclResult_t ncclGroupStart(void);
ncclResult_t ncclGroupEnd(void);
ncclResult_t ncclAllReduce(const void *in, void *out, size_t n, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                           cudaStream_t stream);
ncclResult_t ncclReduce(const void *in, void *out, size_t n, ncclDataType_t type, ncclRedOp_t op, int root,
                        ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclBroadcast(const void *in, void *out, size_t n, ncclDataType_t type, int root, ncclComm_t comm,
                           cudaStream_t stream);
ncclResult_t ncclAllGather(const void *in, void *out, size_t n, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream);
ncclResult_t ncclReduceScatter(const void *in, void *out, size_t n, ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclSend(const void *in, size_t n, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclRecv(void *out, size_t n, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream);

#endif
