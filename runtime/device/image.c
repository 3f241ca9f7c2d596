/* SPDX-License-Identifier: Apache-2.0 */
/* image.c - what is checked of an image (struct tcc_pimage, runtime/abi.h) whatever its device, as a plan's tables are:
 * that all lies inside of it. */
#include <string.h>

#include "runtime/device/device.h"
#include "runtime/rt_int.h"

const char *tcr_image_text(const struct tcc_pimage *i, uint32_t at)
{
    return (const char *)i + i->strings.first + at;
}

static bool bad(const char *what, uint64_t value, uint64_t limit)
{
    tcr_fail(TCC_EBUG, "an image of the artifact is damaged: %s (%llu, limit %llu)", what, (unsigned long long)value,
             (unsigned long long)limit);
    return false;
}

static bool table_ok(const struct tcc_pimage *i, const char *name, struct tcc_range r, size_t size, size_t align)
{
    uint64_t end = (uint64_t)r.first + (uint64_t)r.count * size;

    return (end <= i->size && r.first % align == 0) || bad(name, end, i->size);
}

static bool number_ok(const struct tcc_pimage *i, uint32_t e)
{
    return e == TCC_NO || e < i->exprs.count || bad("an expression", e, i->exprs.count);
}

static bool exprs_ok(const struct tcc_pimage *i)
{
    const struct tcc_pexpr *e = (const void *)((const char *)i + i->exprs.first);

    for (uint32_t k = 0; k < i->exprs.count; k++) {
        if (e[k].op > TCC_EX_MAX)
            return bad("an operation", e[k].op, TCC_EX_MAX);
        if (e[k].op > TCC_EX_SYM && (e[k].a >= k || e[k].b >= k))
            return bad("an expression names a later one", e[k].a > e[k].b ? e[k].a : e[k].b, k);
        if (e[k].op == TCC_EX_SYM && (e[k].k < 0 || e[k].k > UINT32_MAX))
            return bad("a size", (uint64_t)e[k].k, UINT32_MAX);
    }
    return true;
}

static bool launch_ok(const struct tcc_pimage *i, const struct tcc_plaunch *l)
{
    bool ok = (l->symbol < i->strings.count || bad("a function's name", l->symbol, i->strings.count)) &&
              number_ok(i, l->shared) && number_ok(i, l->scratch) &&
              (l->flags <= TCC_LAUNCH_RESIDENT || bad("flags of a launch", l->flags, TCC_LAUNCH_RESIDENT));

    for (int k = 0; k < 3 && ok; k++)
        ok = number_ok(i, l->grid[k]) && number_ok(i, l->block[k]) && number_ok(i, l->cluster[k]);
    return ok && ((uint64_t)l->recipes.first + l->recipes.count <= i->bytes.count ||
                  bad("recipes", l->recipes.first, i->bytes.count));
}

/* Of "cubins": the table lies in the code, and each module. */
static bool modules_ok(const struct tcc_pimage *i)
{
    const struct tcc_range *list = (const void *)((const char *)i + i->code.first);
    uint64_t size = i->code.count;

    if (size < 2 * sizeof *list || list->first || list->count < 2 || (uint64_t)list->count * sizeof *list > size)
        return bad("its table of modules", size, 2 * sizeof *list);
    for (uint32_t k = 1; k < list->count; k++)
        if ((uint64_t)list[k].first + list[k].count > size || !list[k].count || list[k].first % 64)
            return bad("a module", (uint64_t)list[k].first + list[k].count, size);
    return true;
}

bool tcr_image_ok(const struct tcc_pimage *i, uint32_t nkernels)
{
    const struct tcc_range *kernels;
    const struct tcc_plaunch *launches;

    if (i->magic != TCC_IMAGE_MAGIC || i->version != TCC_ABI_VERSION)
        return bad("its version", i->version, TCC_ABI_VERSION);
    if (!table_ok(i, "strings", i->strings, 1, 1) ||
        !table_ok(i, "expressions", i->exprs, sizeof(struct tcc_pexpr), 8) ||
        !table_ok(i, "kernels", i->kernels, sizeof *kernels, 4) ||
        !table_ok(i, "launches", i->launches, sizeof *launches, 4) || !table_ok(i, "recipes", i->bytes, 1, 1) ||
        !table_ok(i, "code", i->code, 1, 64))
        return false;
    if (!i->strings.count || tcr_image_text(i, 0)[i->strings.count - 1] || i->machine >= i->strings.count ||
        i->format >= i->strings.count)
        return bad("its strings", i->strings.count, i->size);
    if (i->kernels.count != nkernels)
        return bad("its number of kernels", i->kernels.count, nkernels);
    if (!strcmp(tcr_image_text(i, i->format), "ptx") &&
        (!i->code.count || ((const char *)i + i->code.first)[i->code.count - 1]))
        return bad("its PTX is not terminated", i->code.count, i->size);
    if (!strcmp(tcr_image_text(i, i->format), "cubins") && !modules_ok(i))
        return false;
    kernels = (const void *)((const char *)i + i->kernels.first);
    launches = (const void *)((const char *)i + i->launches.first);
    for (uint32_t k = 0; k < nkernels; k++)
        if ((uint64_t)kernels[k].first + kernels[k].count > i->launches.count)
            return bad("launches of a kernel", kernels[k].first, i->launches.count);
    for (uint32_t k = 0; k < i->launches.count; k++)
        if (!launch_ok(i, &launches[k]))
            return false;
    return exprs_ok(i);
}
