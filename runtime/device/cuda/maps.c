/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensor maps (struct tcc_pmap, runtime/abi.h), behind a function's other parameters. They hold addresses and sizes, so
 * they are made for each launch: the driver does that without the device. A program keeps its launches' parameters, and
 * with them the maps: where their numbers vary from run to run there are none, nor where the driver makes none of an
 * address or stride; the function does without them then.
 */
#include <string.h>

#include "runtime/device/cuda/cuda_int.h"
#include "runtime/tensor_map.h"

bool cuda_maps_ok(const struct tcc_pimage *i, const struct tcc_plaunch *l)
{
    const struct tcc_pmap *m = cuda_map_list(i, l);
    uint32_t n = l->recipes.count / sizeof *m;

    if (l->recipes.count % sizeof *m || l->recipes.first % 4 || i->bytes.first % 4 || n > CUDA_MAX_MAPS)
        return false;
    for (uint32_t k = 0; k < n; k++) {
        if (!tcc_map_ok(&m[k]) || m[k].first >= i->exprs.count)
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
    const struct tcc_map_driver driver = {c->m->cu->cuTensorMapEncodeTiled, c->m->cu->cuTensorMapEncodeIm2col};

    if (m->arg >= l->nargs || !known(c, m->first, &first))
        return false;
    for (uint32_t d = 0; d < m->rank; d++)
        if (!known(c, m->dims[d], &dims[d]) || !known(c, m->strides[d], &strides[d]))
            return false;
    return tcc_map_encode(&driver, to, m, (uintptr_t)l->args[m->arg] + first, dims, strides);
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
    c->params[at] = true;
    for (size_t i = 0; i < n && c->params[at]; i++) {
        c->params[at] = encode(c, &list[i], l, map);
        memcpy((char *)c->params + tcc_map_at(at, i), map, sizeof map);
    }
    *bytes = all;
    return TCC_OK;
}
