/* SPDX-License-Identifier: Apache-2.0 */
/* launch.c - a device's kernels in the simulator: an image is loaded, and its launch records run as they say. */
#include "tools/prove/parts_int.h"

#include <string.h>

enum {
    MULTIPROCESSORS = 4, /* so few that resident blocks have several tiles */
    MANY = 132,          /* and, where some of the blocks run, so many that these have few */
    LEAST_BLOCKS = 4
};

/* -- Loading ------------------------------------------------------------------------------------------------------ */

bool prove_open(struct prove *p, const struct tcc_pimage *image, uint64_t seed, char *error)
{
    struct ptx_config config = {.threads = 1, .seed = seed, .checks = true};
    *p = (struct prove){.image = image, .most = PROVE_MOST};
    if (strcmp(records_string(image, image->format), "ptx")) {
        snprintf(error, PROVE_TEXT, "an image in the format '%s' does not run in the simulator",
                 records_string(image, image->format));
        return false;
    }
    p->device = ptx_device_new(&config, error);
    if (p->device)
        p->module = ptx_load(p->device, (const char *)image + image->code.first, image->code.count - 1, error);
    if (p->module)
        return true;
    prove_close(p);
    return false;
}

void prove_close(struct prove *p)
{
    if (p->module)
        ptx_unload(p->module);
    if (p->device)
        ptx_device_free(p->device);
    p->module = NULL;
    p->device = NULL;
}

/* -- Launching ----------------------------------------------------------------------------------------------------- */

static struct records records_for(const struct prove *p, const struct prove_launch *l)
{
    return (struct records){p->image, l->nsizes, l->sizes, l->tiles};
}

struct memory {
    uint64_t at[MOST_ARGS + 4];
    int n;
};

static uint64_t upload(struct prove *p, struct memory *m, const char *name, const void *data, size_t bytes, char *error)
{
    uint64_t at = ptx_alloc(p->device, bytes ? bytes : 1, name, error);
    if (at)
        m->at[m->n++] = at;
    return at && (!data || !bytes || ptx_write(p->device, at, data, bytes, error)) ? at : 0;
}

/* blocks: along x; 0: as many as the record says. */
static bool run_function(struct prove *p, struct prove_launch *l, const struct tcc_plaunch *launch, unsigned blocks,
                         const uint64_t *params, size_t size, char *error)
{
    const struct ptx_kernel *f = ptx_find(p->module, records_string(p->image, launch->symbol));
    struct ptx_launch x = {.params = params, .params_size = size};
    struct ptx_counters counters;
    const struct ptx_report *list;
    struct records r = records_for(p, l);
    struct records_shape shape = {0};
    bool ok = f && records_shape(&r, launch, &shape);
    if (!ok) {
        snprintf(error, PROVE_TEXT, "its launch record is not valid");
        return false;
    }
    memcpy(x.grid, shape.grid, sizeof x.grid);
    if (blocks)
        x.grid[0] = blocks;
    else
        x.grid[0] = tcc_launch_blocks(launch->flags, x.grid[0], shape.cluster[0], l->share ? MANY : MULTIPROCESSORS);
    memcpy(x.block, shape.block, sizeof x.block);
    memcpy(x.cluster, shape.cluster, sizeof x.cluster);
    x.shared = shape.shared;
    if (l->share) {
        uint64_t all = (uint64_t)x.grid[0] * x.grid[1] * x.grid[2] / (shape.cluster[0] ? shape.cluster[0] : 1),
                 some = all / (uint64_t)l->share;
        x.sample = some > LEAST_BLOCKS ? some : all > LEAST_BLOCKS ? LEAST_BLOCKS : all;
    }
    ok = ptx_run(p->device, f, &x, &counters, error);
    uint64_t *sum = (uint64_t *)&l->counters, *one = (uint64_t *)&counters;
    for (size_t i = 0; i < sizeof counters / sizeof *sum; i++)
        sum[i] += one[i];
    if (ptx_reports(p->device, &list)) {
        ptx_report_text(&list[0], error, PROVE_TEXT);
        ok = false;
    }
    ptx_reports_clear(p->device);
    return ok;
}

/* The parameters, by the convention of runtime/abi.h; their number, 0: no memory. */
static int make_params(struct prove *p, struct prove_launch *l, struct memory *m, uint64_t scratch, uint64_t control,
                       uint64_t *params, char *error)
{
    int n = l->nargs;
    for (int i = 0; i < l->nsizes; i++)
        params[n++] = l->by_control ? (uint64_t)(i + 1) : (uint64_t)l->sizes[i];
    if (tcc_launch_has_table((uint64_t)l->nargs, (uint64_t)l->nsizes)) {
        uint64_t table = upload(p, m, "table", params, 8 * (size_t)n, error);
        if (!table)
            return 0;
        params[0] = table;
        n = 1;
    }
    params[n++] = scratch;
    params[n++] = control;
    params[n++] = l->by_control ? 0 : (uint64_t)l->tiles;
    params[n++] = l->by_control ? control + offsetof(struct tcc_control, values) : 0;
    return n;
}

bool prove_run(struct prove *p, struct prove_launch *l, char *error)
{
    int count;
    const struct tcc_plaunch *launches = records_of(p->image, l->kernel, &count);
    struct records r = records_for(p, l);
    struct memory m = {.n = 0};
    union {
        struct tcc_control head;
        int64_t words[sizeof(struct tcc_control) / sizeof(int64_t) + MOST_SIZES + 1];
    } control = {.words = {0}};
    uint64_t params[MOST_ARGS + 128], scratch = 0, at;
    int64_t most = 0, v = 0;
    bool ok = l->nargs <= MOST_ARGS && l->nsizes <= MOST_SIZES;
    snprintf(error, PROVE_TEXT, "too many operands");
    for (int i = 0; i < l->nargs && ok; i++) {
        params[i] = upload(p, &m, "operand", l->uses[i] == KN_OUT && !l->share ? NULL : l->args[i], l->bytes[i], error);
        ok = params[i] != 0;
    }
    for (int i = 0; i < count && ok; i++) {
        ok = records_value(&r, launches[i].scratch, 0, &v);
        most = v > most ? v : most;
    }
    if (ok && most)
        ok = (scratch = upload(p, &m, "scratch", NULL, (size_t)most, error)) != 0;
    control.head.env = l->env;
    control.head.values[0] = l->tiles;
    for (int i = 0; i < l->nsizes && ok; i++)
        control.head.values[i + 1] = l->sizes[i];
    ok = ok && (at = upload(p, &m, "control", &control, sizeof control, error)) != 0;
    int n = ok ? make_params(p, l, &m, scratch, at, params, error) : 0;
    memset(&l->counters, 0, sizeof l->counters);
    ok = ok && n;
    uint64_t args[MOST_ARGS];
    for (int i = 0; i < l->nargs && ok; i++)
        args[i] = m.at[i];
    static const struct tcc_map_driver maps = {ptx_map_tiled, ptx_map_im2col};
    for (int i = 0; i < count && ok && l->tiles; i++)
        ok = run_function(p, l, &launches[i], 0, params,
                          records_maps(&r, &launches[i], !l->by_control, args, l->nargs, params, (size_t)n, &maps),
                          error);
    for (int i = 0; i < l->nargs && ok; i++)
        if (l->uses[i] != KN_IN && l->bytes[i])
            ok = ptx_read(p->device, l->args[i], args[i], l->bytes[i], error);
    ok = ok && ptx_read(p->device, &l->env, at, sizeof l->env, error);
    char ignored[PTX_ERROR];
    for (int i = 0; i < m.n; i++)
        ptx_free(p->device, m.at[i], ignored);
    return ok;
}

/* -- Several launches as one */

/* Operands of one of the launches on the device, and its row of the table: *blocks more than there were. */
static bool add_row(struct prove *p, struct prove_launch *l, const struct tcc_plaunch *f,
                    const struct prove_operands *o, struct memory *m, uint64_t *row, uint64_t *blocks, char *error)
{
    struct records r = records_for(p, l);
    struct records_shape shape;
    bool ok = records_shape(&r, f, &shape);
    *blocks += ok ? shape.grid[0] : 0;
    for (int i = 0; i < o->n && ok; i++)
        ok = (*row++ = upload(p, m, "operand", o->uses[i] == KN_OUT ? NULL : o->got[i], o->bytes[i], error)) != 0;
    for (int i = 0; i < l->nsizes && ok; i++)
        *row++ = (uint64_t)l->sizes[i];
    *row = (uint64_t)l->tiles;
    return ok;
}

bool prove_run_rows(struct prove *p, struct prove_launch *l, const struct tcc_plaunch *f, const struct kn_kernel *k,
                    struct prove_operands *const *o, const int64_t (*sizes)[MOST_SIZES], char *error)
{
    uint64_t table[ROWS + 1 + ROWS * (MOST_ARGS / ROWS + MOST_SIZES + 1)], blocks = 0;
    size_t each = (size_t)(o[0]->n + k->nsizes + 1),
           words = tcc_rows_words(ROWS, (uint64_t)o[0]->n, (uint64_t)k->nsizes);
    struct tcc_control control = {.env = l->env};
    struct memory m = {.n = 0};
    bool ok = true;
    for (int r = 0; r < ROWS && ok; r++) {
        struct prove_lookup look = {k, sizes[r]};
        l->sizes = sizes[r];
        table[r] = blocks;
        ok = ir_eval(k->tiles, prove_size_of, &look, &l->tiles) &&
             add_row(p, l, f, o[r], &m, table + ROWS + 1 + each * (size_t)r, &blocks, error);
    }
    table[ROWS] = blocks;
    uint64_t params[5] = {0, 0, 0, ROWS, 0};
    ok = ok && (params[0] = upload(p, &m, "table", table, 8 * words, error)) != 0 &&
         (params[2] = upload(p, &m, "control", &control, sizeof control, error)) != 0 &&
         run_function(p, l, f, (unsigned)blocks, params, sizeof params, error);
    for (int r = 0, at = 0; r < ROWS && ok; r++)
        for (int i = 0; i < o[r]->n && ok; i++, at++)
            if (o[r]->uses[i] != KN_IN && o[r]->bytes[i])
                ok = ptx_read(p->device, o[r]->got[i], m.at[at], o[r]->bytes[i], error);
    char ignored[PTX_ERROR];
    for (int i = 0; i < m.n; i++)
        ptx_free(p->device, m.at[i], ignored);
    return ok;
}
