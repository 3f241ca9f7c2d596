/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensor maps (struct tcc_pmap, runtime/abi.h), behind a function's other parameters. They hold addresses and sizes, so they are made for each launch: the driver
 * does that without the device. A program keeps its launches' parameters, and with them the maps: where their numbers vary from run to run there are none,
 * nor where the driver makes none of an address or stride; the function does without them then.
 */
#include <string.h>

#include "runtime/device/cuda/cuda_int.h"

enum { MAP_F16 = 6, MAP_BF16 = 9, MAP_SWIZZLE_128 = 3, MAP_PROMOTE_256 = 3 };  /* of the driver's enumerations */

bool cuda_maps_ok(const struct tcc_pimage *i, const struct tcc_plaunch *l)
{
    const struct tcc_pmap *m = cuda_map_list(i, l);
    uint32_t n = l->recipes.count / sizeof *m;

    if (l->recipes.count % sizeof *m || l->recipes.first % 4 || i->bytes.first % 4 || n > CUDA_MAX_MAPS)
        return false;
    for (uint32_t k = 0; k < n; k++) {
        if (m[k].rank < 1 || m[k].rank > TCC_MAP_RANK || m[k].first >= i->exprs.count ||
            (m[k].type != TCC_F16 && m[k].type != TCC_BF16))
            return false;
        for (uint32_t d = 0; d < m[k].rank; d++)
            if (m[k].dims[d] >= i->exprs.count || m[k].strides[d] >= i->exprs.count)
                return false;
    }
    return true;
}

/* False: it is not the same from run to run. */
static bool known(const struct tcr_cuda *c, uint32_t e, uint64_t *n)
{
    *n = (uint64_t)c->values[e].lo;
    return c->values[e].lo == c->values[e].hi && c->values[e].lo >= 0;
}

static bool encode(struct tcr_cuda *c, const struct tcc_pmap *m, const struct tcr_kernel_launch *l, void *to)
{
    uint64_t first, dims[TCC_MAP_RANK], strides[TCC_MAP_RANK];
    uint32_t steps[TCC_MAP_RANK];

    if (m->arg >= l->nargs || !known(c, m->first, &first))
        return false;
    for (uint32_t d = 0; d < m->rank; d++) {
        if (!known(c, m->dims[d], &dims[d]) || !known(c, m->strides[d], &strides[d]))
            return false;
        steps[d] = 1;
    }
    return c->m->cu->cuTensorMapEncodeTiled(to, m->type == TCC_F16 ? MAP_F16 : MAP_BF16, m->rank,
                                            (void *)((uintptr_t)l->args[m->arg] + first), dims,
                                            strides + 1, m->box, steps, 0, MAP_SWIZZLE_128, MAP_PROMOTE_256, 0) == 0;
}

int cuda_maps(struct tcr_cuda *c, const struct cuda_launch *f, const struct tcr_kernel_launch *l, size_t *bytes)
{
    const struct tcc_pmap *list = cuda_map_list(c->code->image, f->record);
    size_t n = f->record->recipes.count / sizeof *list, at = *bytes / 8, all = tcc_map_at(at, n);
    _Alignas(128) char map[TCC_MAP_BYTES];
    int status;

    if (!n)
        return TCC_OK;
    if ((status = cuda_room_for_params(c, all / 8)))
        return status;
    memset(c->params + at, 0, all - 8 * at);
    c->params[at] = c->m->cu->cuTensorMapEncodeTiled != NULL;
    for (size_t i = 0; i < n && c->params[at]; i++) {
        c->params[at] = encode(c, &list[i], l, map);
        memcpy((char *)c->params + tcc_map_at(at, i), map, sizeof map);
    }
    *bytes = all;
    return TCC_OK;
}
