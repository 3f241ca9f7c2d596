/* SPDX-License-Identifier: Apache-2.0 */
/* records.c - launch records of an image, read for one launch (records_int.h). */
#include "tools/prove/records_int.h"

#include <string.h>

const char *records_string(const struct tcc_pimage *m, uint32_t at)
{
    return (const char *)m + m->strings.first + at;
}

const struct tcc_plaunch *records_of(const struct tcc_pimage *m, int kernel, int *n)
{
    const struct tcc_range *range =
        (const struct tcc_range *)(const void *)((const char *)m + m->kernels.first) + kernel;
    *n = (int)range->count;
    return (const struct tcc_plaunch *)(const void *)((const char *)m + m->launches.first) + range->first;
}

static bool symbol_value(const struct records *r, int64_t k, int64_t *out)
{
    if (k < 0 || k > r->nsizes)
        return false;
    *out = k == r->nsizes ? r->tiles : r->sizes[k];
    return true;
}

bool records_value(const struct records *r, uint32_t at, int64_t otherwise, int64_t *out)
{
    const struct tcc_pexpr *x =
        (const struct tcc_pexpr *)(const void *)((const char *)r->image + r->image->exprs.first) + at;
    int64_t a, b, q;
    if (at == TCC_NO) {
        *out = otherwise;
        return true;
    }
    if (at >= r->image->exprs.count)
        return false;
    if (x->op == TCC_EX_CONST || x->op == TCC_EX_SYM) {
        *out = x->k;
        return x->op == TCC_EX_CONST || symbol_value(r, x->k, out);
    }
    if (!records_value(r, x->a, 0, &a) || !records_value(r, x->b, 0, &b))
        return false;
    if ((x->op == TCC_EX_FLOORDIV || x->op == TCC_EX_MOD) && b <= 0)
        return false;
    q = b > 0 ? a / b - (a % b < 0) : 0;
    switch (x->op) {
    case TCC_EX_ADD: *out = a + b; break;
    case TCC_EX_MUL: *out = a * b; break;
    case TCC_EX_FLOORDIV: *out = q; break;
    case TCC_EX_MOD: *out = a - q * b; break;
    case TCC_EX_MIN: *out = a < b ? a : b; break;
    default: *out = a > b ? a : b;
    }
    return true;
}

bool records_shape(const struct records *r, const struct tcc_plaunch *l, struct records_shape *to)
{
    int64_t v = 0;
    bool ok = true;
    for (int i = 0; i < 3 && ok; i++) {
        ok = records_value(r, l->grid[i], 1, &v);
        to->grid[i] = (unsigned)v;
        ok = ok && records_value(r, l->block[i], 1, &v);
        to->block[i] = (unsigned)v;
        ok = ok && records_value(r, l->cluster[i], 0, &v);
        to->cluster[i] = (unsigned)v;
    }
    to->grid[0] = tcc_launch_blocks(l->flags, to->grid[0], to->cluster[0], RECORDS_MULTIPROCESSORS);
    ok = ok && records_value(r, l->shared, 0, &v);
    to->shared = (size_t)v;
    return ok;
}

size_t records_maps(const struct records *r, const struct tcc_plaunch *l, bool wanted, const uint64_t *args, int nargs,
                    uint64_t *params, size_t n, const struct tcc_map_driver *driver)
{
    const struct tcc_pmap *list =
        (const struct tcc_pmap *)(const void *)((const char *)r->image + r->image->bytes.first + l->recipes.first);
    size_t count = l->recipes.count / sizeof *list;
    int64_t first;
    if (!count)
        return 8 * n;
    memset(params + n, 0, tcc_map_at(n, count) - 8 * n);
    params[n] = wanted;
    for (size_t i = 0; i < count && params[n]; i++) {
        const struct tcc_pmap *m = &list[i];
        uint64_t dims[TCC_MAP_RANK], strides[TCC_MAP_RANK];
        _Alignas(128) char map[TCC_MAP_BYTES];
        bool ok = tcc_map_ok(m) && m->arg < (uint32_t)nargs && records_value(r, m->first, 0, &first);
        for (uint32_t d = 0; d < m->rank && ok; d++)
            ok = records_value(r, m->dims[d], 0, (int64_t *)&dims[d]) &&
                 records_value(r, m->strides[d], 0, (int64_t *)&strides[d]);
        params[n] = ok && tcc_map_encode(driver, map, m, args[m->arg] + (uint64_t)first, dims, strides);
        memcpy((char *)params + tcc_map_at(n, i), map, sizeof map);
    }
    return tcc_map_at(n, count);
}
