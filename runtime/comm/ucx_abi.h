/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ucx_abi.h - what ucx.c needs of UCP's binary interface: structures up to the last field that it sets (but whole where
 * the library may read all), and values. Source: ucp/api/ucp.h of UCX 1.10 to 1.18.
 */
#ifndef TCCRT_COMM_UCX_H
#define TCCRT_COMM_UCX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    UCX_OK = 0,
    UCX_IN_PROGRESS = 1,
    UCX_ERR_NO_MEMORY = -4,
    UCX_ERR_INVALID = -5,
    UCX_ERR_TRUNCATED = -9,
    UCX_ERR_LAST = -100
};
typedef signed char ucx_status;      /* ucs_status_t as an argument of a callback: a packed enum, one byte */

/* A function's result that is a pointer: NULL (done), a request, or a failure's number. */
static inline bool ucx_is_request(const void *p)
{
    return (uintptr_t)p - 1 < (uintptr_t)UCX_ERR_LAST - 1;
}

enum { UCX_PARAM_FEATURES = 1 << 0, UCX_PARAM_TAG_SENDER_MASK = 1 << 4, UCX_PARAM_ESTIMATED_NUM_EPS = 1 << 6 };
enum { UCX_FEATURE_TAG = 1 << 0 };

struct ucx_params {
    uint64_t field_mask, features;
    size_t request_size;
    void (*request_init)(void *), (*request_cleanup)(void *);
    uint64_t tag_sender_mask;
    int mt_workers_shared;
    size_t estimated_num_eps, estimated_num_ppn;
    const char *name;
};

enum { UCX_WORKER_PARAM_THREAD_MODE = 1 << 0 };
enum { UCX_THREAD_MODE_SERIALIZED = 1 };

struct ucx_worker_params {
    uint64_t field_mask;
    int thread_mode;
    unsigned long cpu_mask[1024 / 8 / sizeof(unsigned long)];
    unsigned events;
    void *user_data;
    int event_fd;
    uint64_t flags;
    const char *name;
    size_t am_alignment;
    uint64_t client_id;
};

enum { UCX_EP_PARAM_REMOTE_ADDRESS = 1 << 0, UCX_EP_PARAM_ERR_MODE = 1 << 1, UCX_EP_PARAM_ERR_HANDLER = 1 << 2 };
enum { UCX_ERR_MODE_NONE = 0, UCX_ERR_MODE_PEER = 1 };

struct ucx_sock_addr { const void *addr; unsigned length; };

struct ucx_ep_params {
    uint64_t field_mask;
    const void *address;
    int err_mode;
    struct { void (*cb)(void *arg, void *ep, ucx_status status); void *arg; } err_handler;
    void *user_data;
    unsigned flags;
    struct ucx_sock_addr sockaddr;
    void *conn_request;
    const char *name;
    struct ucx_sock_addr local_sockaddr;
};

struct ucx_request_param {
    uint32_t op_attr_mask, flags;
    void *request;
    void (*cb)(void);
    uint64_t datatype;
    void *user_data, *reply_buffer;
    int memory_type;
    void *recv_info, *memh;
};

/* A tag: the lane, the sender's rank, the message's own; between them bits of the job's key, without which no message
 * is anybody's. */
#define UCX_TAG_KEY_AT 22        /* 10 bits: TCR_TAG_BITS */
#define UCX_TAG_RANK_AT 32
#define UCX_TAG_RANKS 0xfffffu
#define UCX_TAG_KEY2_AT 52       /* 4 bits */
#define UCX_TAG_LANE_AT 56
#define UCX_TAG_KEY3_AT 58       /* 6 bits */

#endif
