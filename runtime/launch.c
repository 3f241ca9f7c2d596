/* SPDX-License-Identifier: Apache-2.0 */
/* Launches: arguments and sizes of a kernel are gathered, and its tiles given to the device. */
#include "runtime/rt_int.h"

static int gather(struct tccrt_session *s, const struct tcc_pstep *p, const char *node)
{
    const uint32_t *args = s->m->u32s + p->args.first, *sizes = s->m->u32s + p->sizes.first;

    for (uint32_t i = 0; i < p->args.count; i++) {
        int status = tcr_address(s, args[i], node, &s->args[i]);

        if (status)
            return status;
    }
    for (uint32_t i = 0; i < p->sizes.count; i++) {
        s->sizes[i] = s->values[sizes[i]];
        if (!TCR_IS_VALUE(s->sizes[i]))
            return tcr_size(s, sizes[i], "a size", node, &s->sizes[i]);
    }
    return TCC_OK;
}

int tcr_step_launch(struct tccrt_session *s, const struct tcc_pstep *p)
{
    const char *node = tcr_string(s->m, p->node);
    struct tcr_kernel_launch l = {.kernel = p->what,
                                  .tiles = s->values[p->tiles],
                                  .scratch = p->scratch == TCC_NO ? 0 : s->values[p->scratch],
                                  .args = s->args,
                                  .sizes = s->sizes};
    int status, fault;

    if (l.tiles < 0)
        return tcr_size(s, p->tiles, "the number of tiles", node, &l.tiles);
    if (l.tiles == 0)
        return TCC_OK;
    if (l.scratch < 0)
        return tcr_size(s, p->scratch, "scratch", node, &l.scratch);
    if ((status = gather(s, p, node)) || (status = s->device->ops->launch(s->device, &l, &fault)))
        return status;
    return fault ? tcr_fail(TCC_EINDEX, "node '%s': index out of range", node) : TCC_OK;
}
