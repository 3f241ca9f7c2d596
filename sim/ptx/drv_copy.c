/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies and fills (CUDA Driver API, "Memory management"; "API synchronization behavior"). A copy from pageable memory
 * takes the bytes when it is called; one to pageable memory is done when the call returns; with pinned memory on the
 * host's side an asynchronous copy reads and writes it when its turn comes. Copies between devices and fills return at
 * once in both forms.
 */
#include <stdlib.h>
#include <string.h>

#include "sim/ptx/drv_int.h"

/* Checks the sides, stages a pageable source and enqueues. */
static CUresult enqueue(struct drv_work *w, CUstream handle, bool is_async)
{
    CUstream s;
    CUresult r = drv_stream(handle, &s);
    size_t bytes = w->width * w->height;
    bool from_device = drv_device_of(w->from.at) >= 0, to_device = drv_device_of(w->to.at) >= 0;
    if (r || !bytes)
        return r;
    for (size_t y = 0; y < w->height; y++)
        if ((from_device && !drv_is_device(w->from.at + y * w->from.pitch, w->width)) ||
            (to_device && !drv_is_device(w->to.at + y * w->to.pitch, w->width)))
            return CUDA_ERROR_INVALID_VALUE;
    bool from_pageable = !from_device && !drv_is_pinned(w->from.at, w->width),
         to_pageable = !to_device && !drv_is_pinned(w->to.at, w->width);
    if (s->capture && (from_pageable || to_pageable) && !from_device && !to_device)
        to_pageable = from_pageable = false;
    if (from_pageable && is_async && !s->capture) {
        uint8_t *staged = malloc(bytes);
        if (!staged)
            return CUDA_ERROR_OUT_OF_MEMORY;
        for (size_t y = 0; y < w->height; y++)
            memcpy(staged + y * w->width, (const char *)(uintptr_t)w->from.at + y * w->from.pitch, w->width);
        w->staged = staged;
        w->from = (struct drv_side){(uintptr_t)staged, w->width, bytes};
    }
    bool wait = is_async ? to_pageable && !s->capture : !(from_device && to_device);
    return drv_enqueue(s, w, wait);
}

static CUresult copy(uint64_t to, uint64_t from, size_t bytes, CUstream stream, bool is_async)
{
    struct drv_work w = {.kind = WORK_COPY,
                         .to = {to, bytes, bytes},
                         .from = {from, bytes, bytes},
                         .width = bytes,
                         .height = 1,
                         .depth = 1};
    if (bytes && (!to || !from))
        return CUDA_ERROR_INVALID_VALUE;
    return enqueue(&w, stream, is_async);
}

static CUresult between(uint64_t to, uint64_t from, size_t bytes, CUstream stream, bool is_async, bool to_device,
                        bool from_device)
{
    bool t = drv_device_of(to) >= 0 || drv_is_pinned(to, 1), f = drv_device_of(from) >= 0 || drv_is_pinned(from, 1);
    if (bytes && ((to_device && !t) || (from_device && !f)))
        return CUDA_ERROR_INVALID_VALUE;
    return copy(to, from, bytes, stream, is_async);
}

#define SYNC (NEED_CTX | NEED_SAFE)
API(cuMemcpy, SYNC, (CUdeviceptr to, CUdeviceptr from, size_t n), copy(to, from, n, NULL, false))
API(cuMemcpyAsync, NEED_CTX, (CUdeviceptr to, CUdeviceptr from, size_t n, CUstream s), copy(to, from, n, s, true))
API(cuMemcpyHtoD_v2, SYNC, (CUdeviceptr to, const void *from, size_t n),
    between(to, (uintptr_t)from, n, NULL, false, true, false))
API(cuMemcpyDtoH_v2, SYNC, (void *to, CUdeviceptr from, size_t n),
    between((uintptr_t)to, from, n, NULL, false, false, true))
API(cuMemcpyDtoD_v2, SYNC, (CUdeviceptr to, CUdeviceptr from, size_t n), between(to, from, n, NULL, false, true, true))
API(cuMemcpyHtoDAsync_v2, NEED_CTX, (CUdeviceptr to, const void *from, size_t n, CUstream s),
    between(to, (uintptr_t)from, n, s, true, true, false))
API(cuMemcpyDtoHAsync_v2, NEED_CTX, (void *to, CUdeviceptr from, size_t n, CUstream s),
    between((uintptr_t)to, from, n, s, true, false, true))
API(cuMemcpyDtoDAsync_v2, NEED_CTX, (CUdeviceptr to, CUdeviceptr from, size_t n, CUstream s),
    between(to, from, n, s, true, true, true))

static CUresult peer(CUdeviceptr to, CUcontext tc, CUdeviceptr from, CUcontext fc, size_t n, CUstream s, bool is_async)
{
    if (!IS(tc, CTX) || !IS(fc, CTX))
        return CUDA_ERROR_INVALID_CONTEXT;
    if (n && (drv_device_of(to) != tc->device || drv_device_of(from) != fc->device))
        return CUDA_ERROR_INVALID_VALUE;
    return copy(to, from, n, s, is_async);
}
API(cuMemcpyPeer, SYNC, (CUdeviceptr to, CUcontext tc, CUdeviceptr from, CUcontext fc, size_t n),
    peer(to, tc, from, fc, n, NULL, false))
API(cuMemcpyPeerAsync, NEED_CTX, (CUdeviceptr to, CUcontext tc, CUdeviceptr from, CUcontext fc, size_t n, CUstream s),
    peer(to, tc, from, fc, n, s, true))

static bool side(struct drv_side *s, int type, const void *host, CUdeviceptr device, size_t x, size_t y, size_t pitch,
                 size_t width)
{
    uint64_t base = type == CU_MEMORYTYPE_HOST ? (uintptr_t)host : device;
    *s = (struct drv_side){base + x + y * pitch, pitch ? pitch : width, 0};
    return base && type >= CU_MEMORYTYPE_HOST && type != CU_MEMORYTYPE_ARRAY && type <= CU_MEMORYTYPE_UNIFIED &&
           (!pitch || pitch >= width);
}

static CUresult copy_2d(const CUDA_MEMCPY2D *c, CUstream stream, bool is_async)
{
    struct drv_work w = {.kind = WORK_COPY, .depth = 1};
    if (!c)
        return CUDA_ERROR_INVALID_VALUE;
    w.width = c->width;
    w.height = c->height;
    if (!side(&w.from, c->src_type, c->src_host, c->src_device, c->src_x, c->src_y, c->src_pitch, c->width) ||
        !side(&w.to, c->dst_type, c->dst_host, c->dst_device, c->dst_x, c->dst_y, c->dst_pitch, c->width))
        return CUDA_ERROR_INVALID_VALUE;
    return enqueue(&w, stream, is_async);
}
API(cuMemcpy2D_v2, SYNC, (const CUDA_MEMCPY2D *c), copy_2d(c, NULL, false))
API(cuMemcpy2DAsync_v2, NEED_CTX, (const CUDA_MEMCPY2D *c, CUstream s), copy_2d(c, s, true))

static CUresult fill(CUdeviceptr to, size_t pitch, uint32_t value, uint32_t element, size_t width, size_t height,
                     CUstream handle)
{
    CUstream s;
    CUresult r = drv_stream(handle, &s);
    struct drv_work w = {
        .kind = WORK_FILL, .to = {to, pitch, 0}, .value = value, .element = element, .width = width, .height = height};
    if (r || !width || !height)
        return r;
    if (to % element || (height > 1 && pitch < width * element))
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t y = 0; y < height; y++)
        if (!drv_is_device(to + y * pitch, width * element))
            return CUDA_ERROR_INVALID_VALUE;
    return drv_enqueue(s, &w, drv_device_of(to) < 0 && !s->capture); /* of the host: the call waits */
}
API(cuMemsetD8_v2, SYNC, (CUdeviceptr to, unsigned char v, size_t n), fill(to, n, v, 1, n, 1, NULL))
API(cuMemsetD16_v2, SYNC, (CUdeviceptr to, unsigned short v, size_t n), fill(to, 2 * n, v, 2, n, 1, NULL))
API(cuMemsetD32_v2, SYNC, (CUdeviceptr to, unsigned v, size_t n), fill(to, 4 * n, v, 4, n, 1, NULL))
API(cuMemsetD8Async, NEED_CTX, (CUdeviceptr to, unsigned char v, size_t n, CUstream s), fill(to, n, v, 1, n, 1, s))
API(cuMemsetD16Async, NEED_CTX, (CUdeviceptr to, unsigned short v, size_t n, CUstream s),
    fill(to, 2 * n, v, 2, n, 1, s))
API(cuMemsetD32Async, NEED_CTX, (CUdeviceptr to, unsigned v, size_t n, CUstream s), fill(to, 4 * n, v, 4, n, 1, s))
API(cuMemsetD2D8Async, NEED_CTX,
    (CUdeviceptr to, size_t pitch, unsigned char v, size_t width, size_t height, CUstream s),
    fill(to, pitch, v, 1, width, height, s))
