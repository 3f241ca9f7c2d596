/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stream capture (CUDA Driver API, "Stream management"; CUDA C++ Programming Guide, "Stream Capture"): how it begins,
 * which streams have joined, and the graph that its end gives.
 */
#include <stdlib.h>

#include "sim/grow.h"
#include "sim/ptx/drv_int.h"

static __thread int thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

void drv_nodes_free(struct drv_nodes *n)
{
    free(n->at);
    *n = (struct drv_nodes){0};
}

bool drv_nodes_set(struct drv_nodes *to, const struct drv_nodes *from)
{
    to->n = 0;
    for (int k = 0; k < from->n; k++)
        if (!drv_nodes_add(to, from->at[k]))
            return false;
    return true;
}

void drv_capture_unref(struct drv_capture *c)
{
    if (!c || --c->refs)
        return;
    if (c->graph)
        drv_graph_unref(c->graph);
    free(c);
}

CUresult drv_capture_breaks(struct drv_capture *c, CUresult why)
{
    c->broken = true;
    return why;
}

/* -- Capture -- */

static CUresult begin(CUstream handle, int mode)
{
    CUstream s;
    CUresult r = drv_stream(handle, &s);
    if (r || mode < 0 || mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return r ? r : CUDA_ERROR_INVALID_VALUE;
    if (s->legacy)
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (s->capture)
        return CUDA_ERROR_ILLEGAL_STATE;
    struct drv_capture *c = calloc(1, sizeof *c);
    if (!c || !(c->graph = drv_graph_new())) {
        free(c);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    c->origin = s;
    c->ctx = s->ctx;
    c->mode = mode;
    c->refs = 1;
    c->thread = pthread_self();
    c->next = drv.captures;
    drv.captures = c;
    s->capture = c;
    s->tips.n = 0;
    return CUDA_SUCCESS;
}
API(cuStreamBeginCapture_v2, NEED_CTX, (CUstream stream, int mode), begin(stream, mode))

/* Streams that joined and whose work the origin's last nodes do not wait for. */
static bool unjoined(const struct drv_capture *c)
{
    bool reached[4096] = {false}, found = false;
    int n = c->graph->nodes.n < 4096 ? c->graph->nodes.n : 4096;
    for (int k = 0; k < c->origin->tips.n; k++)
        if (c->origin->tips.at[k]->number < n)
            reached[c->origin->tips.at[k]->number] = true;
    for (int k = n - 1; k >= 0; k--) /* dependencies of captured nodes come before them */
        for (int j = 0; reached[k] && j < c->graph->nodes.at[k]->deps.n; j++)
            reached[c->graph->nodes.at[k]->deps.at[j]->number] = true;
    for (CUstream s = c->ctx->streams; s; s = s->next)
        for (int k = 0; s->capture == c && k < s->tips.n; k++)
            found |= s->tips.at[k]->number < n && !reached[s->tips.at[k]->number];
    return found;
}

static void leave(struct drv_capture *c)
{
    UNLINK(drv.captures, c);
    c->over = true;
    for (CUstream s = c->ctx->streams; s; s = s->next)
        if (s->capture == c) {
            s->capture = NULL;
            drv_nodes_free(&s->tips);
            drv_capture_unref(c);
        }
}

static CUresult end(CUstream handle, CUgraph *graph)
{
    CUstream s;
    CUresult r = drv_stream(handle, &s);
    if (r || !graph)
        return r ? r : CUDA_ERROR_INVALID_VALUE;
    struct drv_capture *c = s->capture;
    *graph = NULL;
    if (!c)
        return CUDA_ERROR_ILLEGAL_STATE;
    if (c->origin != s)
        return drv_capture_breaks(c, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    if (c->mode != CU_STREAM_CAPTURE_MODE_RELAXED && !pthread_equal(c->thread, pthread_self()))
        return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    r = c->broken     ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
        : unjoined(c) ? CUDA_ERROR_STREAM_CAPTURE_UNJOINED
                      : CUDA_SUCCESS;
    if (!r) {
        *graph = c->graph;
        c->graph->refs++;
    }
    leave(c);
    return r;
}
API(cuStreamEndCapture, NEED_CTX, (CUstream stream, CUgraph *graph), end(stream, graph))

static CUresult capturing(CUstream handle, int *status)
{
    CUstream s;
    CUresult r = drv_stream(handle, &s);
    if (r || !status)
        return r ? r : CUDA_ERROR_INVALID_VALUE;
    if (s->legacy && drv_ties_capture(s->ctx))
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    *status = !s->capture          ? CU_STREAM_CAPTURE_STATUS_NONE
              : s->capture->broken ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                   : CU_STREAM_CAPTURE_STATUS_ACTIVE;
    return CUDA_SUCCESS;
}
API(cuStreamIsCapturing, NEED_CTX, (CUstream stream, int *status), capturing(stream, status))

static CUresult exchange(int *mode)
{
    if (!mode || *mode < 0 || *mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    int before = thread_mode;
    thread_mode = *mode;
    *mode = before;
    return CUDA_SUCCESS;
}
API(cuThreadExchangeStreamCaptureMode, NEED_INIT, (int *mode), exchange(mode))

bool drv_capture_forbids(void)
{
    for (struct drv_capture *c = drv.captures; c; c = c->next) {
        bool own = pthread_equal(c->thread, pthread_self());
        bool counts = thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED ? false
                      : thread_mode == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
                          ? own && c->mode != CU_STREAM_CAPTURE_MODE_RELAXED
                      : own ? c->mode != CU_STREAM_CAPTURE_MODE_RELAXED
                            : c->mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
        if (counts) {
            c->broken = true;
            return true;
        }
    }
    return false;
}
