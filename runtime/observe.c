/* SPDX-License-Identifier: Apache-2.0 */
/*
 * observe.c - what each step of the plan makes, as it is made: after every step that computes, copies or communicates,
 * the host waits for it, and the observer gets the values that it has written. Programs are walked step by step
 * meanwhile. Objects (strings, sequences) and what only orders others are left out, as is communication that goes on
 * beside the steps.
 */
#include <stdlib.h>

#include "runtime/rt_int.h"

int tccrt_observe(struct tccrt_session *s, tccrt_observer observer, void *user)
{
    if (!s)
        return tcr_fail(TCC_EUSAGE, "observe: a session is required, got NULL");
    s->observer = observer;
    s->observed = user;
    return TCC_OK;
}

/* Does the step write its argument number i? */
static bool writes(const struct tccrt_session *s, const struct tcc_pstep *p, uint32_t i)
{
    switch (p->kind) {
    case TCC_STEP_LAUNCH: return s->m->u32s[s->m->kernels[p->what].uses.first + i] & TCC_WRITES;
    case TCC_STEP_COPY:
    case TCC_STEP_UNBOX: return i == 1;
    case TCC_STEP_LIB:
    case TCC_STEP_COLLECTIVE: return i >= p->nin;
    case TCC_STEP_RECV: return i == 0;
    default: return false;
    }
}

/* One value: of the device's memory a copy. */
static int show(struct tccrt_session *s, const struct tcc_pstep *p, uint32_t b)
{
    const struct tcc_pbuffer *buffer = &s->m->buffers[b];
    const struct tcr_slot *slot = s->m->slot_of[b] == TCC_NO ? NULL : &s->slots[s->m->slot_of[b]];
    const char *node = tcr_string(s->m, p->node);
    struct tcc_tensor t = {0};
    int64_t bytes, n;
    void *copy = NULL;
    int status;

    if (buffer->space == TCC_SPACE_OBJECT || tcr_lacks(s, b) || (slot && !slot->data))
        return TCC_OK;
    if ((status = tcr_buffer_tensor(s, b, node, &t)) || !t.data)
        return status;
    bytes = slot ? slot->bytes : 0; /* symbols of a library call's result are bound by a step behind it */
    if ((!slot && (status = tcr_buffer_bytes(s, b, node, &bytes))) || !bytes)
        return status;
    n = tcr_elements(t.dtype, t.rank, t.dims);
    if (s->discrete && tcr_memory(s, b)) {
        if (!(copy = malloc((size_t)bytes)))
            return tcr_fail(TCC_EENV, "node '%s': no memory for a value of %lld bytes", node, (long long)bytes);
        if ((status = tcr_download(s, copy, t.data, (size_t)bytes))) {
            free(copy);
            return status;
        }
    }
    struct tccrt_made made = {.step = (uint32_t)(p - s->m->steps),
                              .what = tcr_profile_name(s, p),
                              .node = node,
                              .value = tcr_string(s->m, buffer->name),
                              .bytes = (size_t)bytes,
                              .dense = n * tcr_dtype_bytes(t.dtype) == bytes};
    made.tensor = t;
    made.tensor.data = copy ? copy : t.data;
    status = s->observer(s->observed, &made) ? tcr_fail(TCC_EUSAGE, "the observer has ended the run") : TCC_OK;
    free(copy);
    return status;
}

int tcr_observe_step(struct tccrt_session *s, const struct tcc_pstep *p)
{
    int status = TCC_OK;

    if (s->requests[p->queue])
        return TCC_OK;
    for (uint32_t i = 0; i < p->args.count && !status; i++) {
        uint32_t b = s->m->u32s[p->args.first + i];

        if (b == TCC_NO || !writes(s, p, i))
            continue;
        if (s->discrete)
            status = tcr_sync(s);
        status = status ? status : show(s, p, b);
    }
    return status;
}
