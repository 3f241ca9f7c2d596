/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Images (runtime/abi.h). The first that the device runs is loaded, once a machine: PTX of its architecture or an
 * earlier one, which the driver compiles, or a cubin of the same major one (of many kernels: several modules), in whose
 * place PTX is taken where the driver is older than the cubin; a suffix `a` asks for that very architecture.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/device/cuda/cuda_int.h"

#define LOG 1024

/* -- Which one fits ----------------------------------------------------------------------------------- */

/* "sm_90a": 9, 0, true. */
static bool parse_machine(const char *text, int *major, int *minor, bool *exact)
{
    char *end;
    long n;

    if (strncmp(text, "sm_", 3) != 0)
        return false;
    n = strtol(text + 3, &end, 10);
    *major = (int)(n / 10);
    *minor = (int)(n % 10);
    *exact = *end == 'a';
    return n >= 10 && n < 10000 && (!*end || (*exact && !end[1]));
}

/* Where the modules of an image begin within its code: `one` where that is a single one. */
static const struct tcc_range *modules_of(const struct tcc_pimage *i, const struct tcc_range *one, uint32_t *n)
{
    const struct tcc_range *list = (const void *)((const char *)i + i->code.first);
    bool several = !strcmp(tcr_image_text(i, i->format), "cubins");

    *n = several ? list->count - 1 : 1;
    return several ? list + 1 : one;
}

/* The simulator runs text, which an assembler may leave as it is. */
static bool is_text(const struct tcc_pimage *i)
{
    const struct tcc_range one = {0, i->code.count}, *first;
    uint32_t n;

    first = modules_of(i, &one, &n);
    return first->count > 4 && memcmp((const char *)i + i->code.first + first->first, "\177ELF", 4) != 0;
}

static bool fits(const struct cuda_machine *m, const struct tcc_pimage *i)
{
    const char *format = tcr_image_text(i, i->format);
    bool ptx = !strcmp(format, "ptx"), exact;
    int major, minor;

    if ((!ptx && strcmp(format, "cubin") != 0 && strcmp(format, "cubins") != 0) ||
        !parse_machine(tcr_image_text(i, i->machine), &major, &minor, &exact))
        return false;
    if (m->cu->ptx_driver_next && !is_text(i))
        return false;
    if (exact)
        return major == m->major && minor == m->minor;
    return ptx ? 10 * major + minor <= 10 * m->major + m->minor : major == m->major && minor <= m->minor;
}

/* -- Loading ------------------------------------------------------------------------------------------ */

/* The exprs that a launch's numbers are made of, each after those that it is made of. */
static bool find_needs(const struct tcc_pimage *i, struct cuda_launch *l)
{
    const struct tcc_pexpr *e = (const void *)((const char *)i + i->exprs.first);
    const uint32_t *of = (const uint32_t *)(const void *)l->record + offsetof(struct tcc_plaunch, grid) / 4;
    uint8_t *used = calloc(i->exprs.count + 1, 1);
    uint32_t n = 0;

    if (!used)
        return false;
    for (int k = 0; k < 11; k++) /* grid, block, cluster, shared, scratch */
        if (of[k] != TCC_NO)
            used[of[k]] = 1;
    for (uint32_t k = 0; k < l->record->recipes.count / sizeof(struct tcc_pmap); k++) {
        const struct tcc_pmap *m = &cuda_map_list(i, l->record)[k];

        used[m->first] = 1;
        for (uint32_t d = 0; d < m->rank; d++)
            used[m->dims[d]] = used[m->strides[d]] = 1;
    }
    for (uint32_t k = i->exprs.count; k-- > 0;)
        if (used[k] && ++n && e[k].op > TCC_EX_SYM)
            used[e[k].a] = used[e[k].b] = 1;
    if ((l->needs = malloc((n + 1) * sizeof *l->needs)))
        for (uint32_t k = 0; k < i->exprs.count; k++)
            if (used[k])
                l->needs[l->nneeds++] = k;
    free(used);
    return l->needs;
}
_Static_assert(offsetof(struct tcc_plaunch, scratch) - offsetof(struct tcc_plaunch, grid) == 40, "eleven in a row");

static void free_code(struct cuda_machine *m, struct cuda_code *c)
{
    cuda_context before;

    for (uint32_t k = 0; c->launches && k < c->image->launches.count; k++)
        free(c->launches[k].needs);
    m->cu->cuCtxPushCurrent_v2(m->context);
    for (uint32_t k = 0; k < c->nmodules; k++)
        m->cu->cuModuleUnload(c->modules[k]);
    m->cu->cuCtxPopCurrent_v2(&before);
    free(c->modules);
    free(c->launches);
    free(c);
}

/* The artifact's PTX is of a later version than the driver reads. */
static int too_old(const struct cuda_machine *m, const struct cuda_code *c)
{
    const char *text = (const char *)c->image + c->image->code.first, *at = strstr(text, ".version ");
    int n = at ? (int)strcspn(at + 9, " \n") : 0;

    return tcr_fail(
        TCC_EENV,
        "device '%s:%d': the driver, of CUDA %d.%d, is too old for the artifact's code for %s, PTX %.*s: update it",
        m->cu->name, m->ordinal, m->cu->version / 1000, m->cu->version % 1000 / 10,
        tcr_image_text(c->image, c->image->machine), n ? n : 1, n ? at + 9 : "?");
}

static int load_module(struct cuda_machine *m, struct cuda_code *c, const char *code)
{
    char log[LOG] = "";
    int options[] = {CUDA_ERROR_LOG, CUDA_ERROR_LOG_SIZE}, result, status;
    void *values[] = {log, (void *)(uintptr_t)sizeof log};

    result = m->cu->cuModuleLoadDataEx(&c->modules[c->nmodules], code, 2, options, values);
    if (!result) {
        c->nmodules++;
        return TCC_OK;
    }
    if (result == CUDA_OLD_DRIVER)
        return too_old(m, c);
    status = cuda_says(m, result, "cuModuleLoadDataEx", NULL);
    return *log ? tcr_fail(status, "device '%s:%d': the artifact's code for %s can't be loaded: %.400s", m->cu->name,
                           m->ordinal, tcr_image_text(c->image, c->image->machine), log)
                : status;
}

/* The function of that name, from whichever module has it. */
static int find_function(struct cuda_machine *m, struct cuda_code *c, const char *name, cuda_function *function)
{
    int result = CUDA_NOT_FOUND;

    for (uint32_t k = 0; k < c->nmodules && result == CUDA_NOT_FOUND; k++)
        result = m->cu->cuModuleGetFunction(function, c->modules[k], name);
    return result;
}

static int load(struct cuda_machine *m, struct cuda_code *c)
{
    const struct tcc_pimage *i = c->image;
    const struct tcc_plaunch *records = (const void *)((const char *)i + i->launches.first);
    const struct tcc_range one = {0, i->code.count}, *list;
    uint32_t n;
    int status = TCC_OK;

    list = modules_of(i, &one, &n);
    if (!(c->modules = calloc(n, sizeof *c->modules)))
        return tcr_fail(TCC_EENV, "no memory for the kernels of an image");
    for (uint32_t k = 0; k < n && !status; k++)
        status = load_module(m, c, (const char *)i + i->code.first + list[k].first);
    if (!status && !(c->launches = calloc(i->launches.count + 1, sizeof *c->launches)))
        status = tcr_fail(TCC_EENV, "no memory for the kernels of an image");
    for (uint32_t k = 0; k < i->launches.count && !status; k++) {
        const char *name = tcr_image_text(i, records[k].symbol);
        int result = find_function(m, c, name, &c->launches[k].function);

        c->launches[k].record = &records[k];
        if (!cuda_maps_ok(i, &records[k]))
            status = tcr_fail(TCC_EINPUT, "the artifact's image for %s is not valid: tensor maps of '%s'",
                              tcr_image_text(i, i->machine), name);
        else if (result)
            status = cuda_says(m, result, "cuModuleGetFunction", name);
        else if (!find_needs(i, &c->launches[k]))
            status = tcr_fail(TCC_EENV, "no memory for the kernels of an image");
    }
    return status;
}

/* What the artifact holds, what the device is, and what to do. */
static int none_fits(const struct cuda_machine *m, const struct tcr_device_request *r)
{
    char list[160] = "";
    size_t n = 0;

    for (uint32_t k = 0; k < r->nimages && n < sizeof list; k++)
        n += (size_t)snprintf(list + n, sizeof list - n, "%s%s (%s)", n ? ", " : "",
                              tcr_image_text(r->images[k], r->images[k]->machine),
                              tcr_image_text(r->images[k], r->images[k]->format));
    return tcr_fail(TCC_EENV,
                    "the artifact holds %s%s, device '%s:%d' is %s (sm_%d%d): compile it with --target=cuda:sm_%d%d",
                    r->nimages ? "code for " : "no code for CUDA devices", list, m->cu->name, m->ordinal, m->name,
                    m->major, m->minor, m->major, m->minor);
}

/* The caller holds the lock. */
static struct cuda_code *get(struct cuda_machine *m, const struct tcc_pimage *image, int *status)
{
    struct cuda_code *c = m->codes;
    cuda_context before;

    while (c && c->image != image)
        c = c->next;
    if (c) {
        c->users++;
        return c;
    }
    if (!(c = calloc(1, sizeof *c))) {
        *status = tcr_fail(TCC_EENV, "no memory for an image");
        return NULL;
    }
    c->image = image;
    m->cu->cuCtxPushCurrent_v2(m->context);
    *status = load(m, c);
    m->cu->cuCtxPopCurrent_v2(&before);
    if (*status) {
        free_code(m, c);
        return NULL;
    }
    c->users = 1;
    c->next = m->codes;
    return m->codes = c;
}

struct cuda_code *cuda_code_get(struct cuda_machine *m, const struct tcr_device_request *r, int *status)
{
    struct cuda_code *c = NULL;
    uint32_t k = 0, fitting = 0;

    cuda_lock();
    for (*status = TCC_EENV; k < r->nimages && !c && *status == TCC_EENV; k++)
        if (fits(m, r->images[k])) {
            *status = TCC_OK;
            c = get(m, r->images[k], status);
            fitting++;
        }
    cuda_unlock();
    if (!fitting)
        *status = none_fits(m, r);
    return c;
}

void cuda_code_put(struct cuda_machine *m, struct cuda_code *c)
{
    struct cuda_code **at = &m->codes;

    cuda_lock();
    if (--c->users == 0) {
        while (*at != c)
            at = &(*at)->next;
        *at = c->next;
        free_code(m, c);
    }
    cuda_unlock();
}
