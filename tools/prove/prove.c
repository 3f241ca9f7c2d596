/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prove.c - translation validation: each device kernel of an artifact runs in the simulator, with all of its checks on,
 * and must give what the interpreter gives for the kernel that it was made of. Nothing is shared by the two but the
 * kernel's meaning (ir/kernel.h).
 */
#include "tools/prove/prove_int.h"
#include "tools/prove/records_int.h"

#include "base/draw.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_ARGS = 1024,
    MOST_SIZES = 32,
    MULTIPROCESSORS = 4, /* so few that resident blocks have several tiles */
    MANY = 132,          /* and, where some of the blocks run, so many that these have few */
    BLOCKS = 16,         /* operations that the simulator runs of a sample, for one that the interpreter does */
    LEAST_BLOCKS = 4,
    LEAST_POINTS = 16,
    MOST_ELEMENTS = 1 << 27, /* of an operand */
    UNTOUCHED = 0xa5         /* bytes of results that nobody has written, in a sample */
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

/* -- Launching
 * ------------------------------------------------------------------------------------------------------ */

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

/* -- Comparing
 * ------------------------------------------------------------------------------------------------------ */

struct lookup {
    const struct kn_kernel *k;
    const int64_t *sizes;
};

static bool size_of(void *user, ir_expr sym, int64_t *out)
{
    const struct lookup *l = user;
    for (int i = 0; i < l->k->nsizes; i++)
        if (l->k->sizes[i] == sym) {
            *out = l->sizes[i];
            return true;
        }
    return false;
}

/* Floats between -1 and 1, small whole numbers (which are counts and indexes, too), truths. */
static void fill(enum tcc_dtype d, void *data, int64_t n, int whole, uint64_t *state)
{
    int bytes = tcc_dtype_bytes(d);
    for (int64_t i = 0; i < n; i++) {
        void *at = (char *)data + i * bytes;
        uint64_t r = tcr_draw_next(state) >> 11;
        if (tcc_dtype_class(d) == TCC_CLASS_COMPLEX)
            memset(at, (int)(r & 15), (size_t)bytes);
        else if (tcc_is_float(d))
            tcc_store_f64(d, at, (double)r * 0x1p-52 - 1);
        else
            tcc_store_i64(d, at, d == TCC_BOOL ? (int64_t)(r & 1) : (int64_t)(r % (uint64_t)whole));
    }
}

/* Error allowed for values of the size of the largest: half the bits of a sum's type, a rounding of a small one. */
static double allowed(enum tcc_dtype d)
{
    switch (tcc_dtype_bytes(d)) {
    case 8: return 1e-9;
    case 4: return 2e-5;
    case 2: return d == TCC_F16 ? 4e-3 : 2e-2;
    default: return 0.3;
    }
}

static bool is_untouched(const void *p, int bytes)
{
    for (int i = 0; i < bytes; i++)
        if (((const unsigned char *)p)[i] != UNTOUCHED)
            return false;
    return true;
}

/* Is that element to be compared? */
static bool is_of_sample(const void *want, const void *got, int bytes, int64_t *compared)
{
    if (!compared)
        return true;
    bool both = !is_untouched(want, bytes) && !is_untouched(got, bytes);
    *compared += both;
    return both;
}

/* error: of values of the size of the largest. compared: those that both have written count, and are counted; NULL:
 * all. */
static bool equal(enum tcc_dtype d, double error, const void *want, const void *got, int64_t n, int64_t *where,
                  int64_t *compared)
{
    int bytes = tcc_dtype_bytes(d);
    double most = 0;
    if (!tcc_is_float(d)) {
        for (*where = 0; *where < n; ++*where)
            if (is_of_sample((const char *)want + *where * bytes, (const char *)got + *where * bytes, bytes,
                             compared) &&
                memcmp((const char *)want + *where * bytes, (const char *)got + *where * bytes, (size_t)bytes))
                return false;
        return true;
    }
    for (int64_t i = 0; i < n; i++) {
        double w = fabs(tcc_load_f64(d, (const char *)want + i * bytes));
        if (isfinite(w) && w > most)
            most = w;
    }
    for (*where = 0; *where < n; ++*where) {
        double w = tcc_load_f64(d, (const char *)want + *where * bytes),
               g = tcc_load_f64(d, (const char *)got + *where * bytes);
        if (is_of_sample((const char *)want + *where * bytes, (const char *)got + *where * bytes, bytes, compared) &&
            !(w == g || (isnan(w) && isnan(g)) || fabs(w - g) <= error * most))
            return false;
    }
    return true;
}

struct operands {
    int n;
    void *want[MOST_ARGS], *got[MOST_ARGS];
    size_t bytes[MOST_ARGS];
    int64_t elements[MOST_ARGS];
    enum tcc_dtype dtype[MOST_ARGS];
    enum kn_operand_use uses[MOST_ARGS];
};

static void release(struct operands *o)
{
    for (int i = 0; i < o->n; i++) {
        free(o->want[i]);
        free(o->got[i]);
    }
    free(o);
}

/* NULL: they are too many or too large, or a size is none. */
static struct operands *allocate(const struct kn_kernel *k, const int64_t *sizes, int64_t most, int whole,
                                 uint64_t seed)
{
    struct operands *o = calloc(1, sizeof *o);
    struct lookup l = {k, sizes};
    for (int i = 0; o && i < k->noperands; i++) {
        const struct kn_operand *p = &k->operands[i];
        int64_t n = 1, d;
        bool ok = o->n < MOST_ARGS;
        for (int j = 0; j < p->rank && ok; j++) {
            ok = ir_eval(p->dims[j], size_of, &l, &d) && d >= 0 && (d == 0 || n <= most / d);
            n = ok ? n * d : 0;
        }
        if (p->use == KN_LOCAL && ok)
            continue;
        if (ok) {
            o->uses[o->n] = p->use;
            o->dtype[o->n] = p->dtype;
            o->elements[o->n] = n;
            o->bytes[o->n] = (size_t)n * (size_t)tcc_dtype_bytes(p->dtype);
            o->want[o->n] = calloc(1, o->bytes[o->n] + 1);
            o->got[o->n] = calloc(1, o->bytes[o->n] + 1);
            ok = o->want[o->n] && o->got[o->n];
            o->n++;
        }
        if (!ok) {
            release(o);
            return NULL;
        }
        if (p->use != KN_OUT)
            fill(p->dtype, o->want[o->n - 1], n, whole, &seed);
        memcpy(o->got[o->n - 1], o->want[o->n - 1], o->bytes[o->n - 1]);
    }
    return o;
}

/* Of an operand's values. Weights of attention are rounded to the type that they are multiplied in, whatever the
 * result's. */
static double error_of(const struct kn_kernel *k, enum tcc_dtype d)
{
    double error = allowed(d);
    for (int i = 0; i < k->ninsns && k->kind == IR_K_ATTENTION; i++) {
        enum tcc_dtype own = (enum tcc_dtype)k->insns[i].dtype;
        if (k->insns[i].code == KN_LOAD && (own == TCC_F16 || own == TCC_BF16) && allowed(own) > error)
            error = allowed(own);
    }
    return error;
}

/* compared: as of equal(). */
static bool compare(const struct kn_kernel *k, const struct operands *o, const struct tcc_env *env, int status,
                    int64_t *compared, char *error)
{
    if (env->fault != status) {
        snprintf(error, PROVE_TEXT, "expected status %d, found %d", status, env->fault);
        return false;
    }
    for (int i = 0, n = 0; i < k->noperands && !status; i++) {
        int64_t at;
        if (k->operands[i].use == KN_LOCAL)
            continue;
        if (k->operands[i].use != KN_IN &&
            !equal(o->dtype[n], error_of(k, o->dtype[n]), o->want[n], o->got[n], o->elements[n], &at, compared)) {
            char want[64] = "other bits", got[64] = "";
            int bytes = tcc_dtype_bytes(o->dtype[n]);
            if (tcc_is_float(o->dtype[n])) {
                snprintf(want, sizeof want, "%.9g", tcc_load_f64(o->dtype[n], (char *)o->want[n] + at * bytes));
                snprintf(got, sizeof got, ", found %.9g", tcc_load_f64(o->dtype[n], (char *)o->got[n] + at * bytes));
            }
            snprintf(error, PROVE_TEXT, "operand %d ('%s'), element %lld of %lld: expected %s%s", i,
                     ir_shown(k->operands[i].name), (long long)at, (long long)o->elements[n], want, got);
            return false;
        }
        n++;
    }
    return true;
}

/* -- Samples
 * --------------------------------------------------------------------------------------------------------- */

/* Which points of a sample the interpreter runs. */
struct choice {
    const struct operands *o;
    bool blocks; /* of those that the device has stored */
    int64_t every;
};

static bool is_chosen(void *user, int64_t point, int arg, int64_t element)
{
    const struct choice *c = user;
    uint64_t state = (uint64_t)point;
    if (c->every > 1 && tcr_draw_next(&state) % (uint64_t)c->every)
        return false;
    int bytes = tcc_dtype_bytes(c->o->dtype[arg]);
    return !c->blocks || (element >= 0 && !is_untouched((char *)c->o->got[arg] + element * bytes, bytes));
}

/* Can some of its points run, and how many are there? What they write is none that others read or add to. */
static bool has_points(const struct kn_kernel *k, const int64_t *sizes, int64_t *points)
{
    struct lookup look = {k, sizes};
    int64_t n;
    *points = 1;
    for (int d = 0; d < k->ndims; d++)
        if (k->dims[d].role == KN_OUTER &&
            (!ir_eval(k->dims[d].extent, size_of, &look, &n) || n < 1 || __builtin_mul_overflow(*points, n, points)))
            return false;
    for (int i = 0; i < k->noperands; i++)
        if (k->operands[i].use == KN_INOUT)
            return false;
    for (int i = 0; i < k->ninsns; i++)
        if (k->insns[i].code == KN_SORT)
            return false;
    return true;
}

/* Some of the blocks of a kernel of one function, of the points that these store some; of other kernels all blocks. */
static bool prove_sample(struct prove *p, struct prove_launch *l, const struct kn_kernel *k, int64_t flops,
                         uint64_t seed, const char **skipped, char *error)
{
    int64_t points, work = flops > l->tiles ? flops : l->tiles, share = work / p->most / BLOCKS;
    struct tcc_env env = l->env;
    int functions, whole = 4;
    records_of(p->image, l->kernel, &functions);
    bool some = !p->whole && has_points(k, l->sizes, &points) && work / points <= p->most;
    for (int i = 0; i < k->ninsns; i++)
        whole = k->insns[i].code == KN_INDEX ? 1 : whole;
    struct operands *o = some ? allocate(k, l->sizes, MOST_ELEMENTS, whole, seed) : NULL;
    *skipped = !some ? "too many operations" : !o ? "operands are too large" : NULL;
    if (!o)
        return true;
    for (int i = 0; i < o->n; i++)
        if (o->uses[i] == KN_OUT) {
            memset(o->want[i], UNTOUCHED, o->bytes[i]);
            memset(o->got[i], UNTOUCHED, o->bytes[i]);
            p->sample.results += o->elements[i];
        }
    struct choice choice = {o, functions == 1 && share > 1, work / p->most};
    if (choice.blocks)
        choice.every = BLOCKS;
    if (choice.every > points / LEAST_POINTS / (choice.blocks ? share : 1))
        choice.every = 1;
    p->sample.share = l->share = choice.blocks ? share : 1;
    l->nargs = o->n;
    l->args = o->got;
    l->bytes = o->bytes;
    l->uses = o->uses;
    bool ok = prove_run(p, l, error);
    int64_t written = 0;
    for (int i = 0; i < o->n && ok; i++)
        for (int64_t e = 0; e < o->elements[i] && o->uses[i] == KN_OUT; e++)
            written +=
                !is_untouched((char *)o->got[i] + e * tcc_dtype_bytes(o->dtype[i]), tcc_dtype_bytes(o->dtype[i]));
    if (ok && written < p->sample.results / l->share / 2) {
        snprintf(error, PROVE_TEXT, "%lld of %lld results are written by one of %lld blocks", (long long)written,
                 (long long)p->sample.results, (long long)l->share);
        ok = false;
    }
    int status = ok ? kn_interp_sample(k, o->want, l->sizes, &env, &(struct kn_sample){is_chosen, &choice}) : TCC_OK;
    if (ok && status != TCC_OK)
        *skipped = "the sizes don't fit each other";
    else
        ok = ok && compare(k, o, &l->env, status, &p->sample.compared, error);
    if (ok && !*skipped && !p->sample.compared) {
        snprintf(error, PROVE_TEXT, "none of a sample's results is written");
        ok = false;
    }
    p->counters = l->counters;
    p->operations = flops;
    release(o);
    return ok;
}

static bool run_host(const struct prove *p, struct prove_launch *l, const struct kn_kernel *k, struct lookup *look,
                     uint64_t seed, char *error)
{
    struct prove_extent e = {0, 0};
    if ((k->scratch && !ir_eval(k->scratch, size_of, look, &e.scratch)) ||
        (k->combining && !ir_eval(k->combining, size_of, look, &e.combining))) {
        snprintf(error, PROVE_TEXT, "its scratch has no size");
        return false;
    }
    return prove_run_host(p->host[l->kernel], l, &e, seed % 2 == 0, error);
}

bool prove_kernel(struct prove *p, int kernel, const struct kn_kernel *k, const int64_t *sizes, uint64_t seed,
                  const char **skipped, char *error)
{
    struct lookup look = {k, sizes};
    struct prove_launch l = {
        .kernel = kernel, .nsizes = k->nsizes, .sizes = sizes, .env = {.threads = 1, .seed = seed, .run = 3}};
    l.by_control = !p->host && k->nsizes && seed % 2;
    int64_t flops = 0;
    *skipped = NULL;
    p->sample = (struct prove_sample){0};
    if (!ir_eval(k->tiles, size_of, &look, &l.tiles) || (k->flops && (!ir_eval(k->flops, size_of, &look, &flops))))
        *skipped = "a size is negative";
    else if (p->host && (flops > l.tiles ? flops : l.tiles) > p->most)
        *skipped = "too many operations";
    else if ((flops > l.tiles ? flops : l.tiles) > p->most)
        return prove_sample(p, &l, k, flops, seed, skipped, error);
    /* Whole numbers may be indexes: smaller ones where those are out of range. */
    for (int whole = 4; !*skipped; whole = 1) {
        struct tcc_env env = l.env;
        struct operands *o = allocate(k, sizes, (p->most > PROVE_MOST ? p->most : PROVE_MOST) / 16, whole, seed);
        if (!o && p->host)
            *skipped = "operands are too large";
        if (!o)
            return p->host || prove_sample(p, &l, k, flops, seed, skipped, error);
        int status = kn_interp_kernel(k, o->want, sizes, &env);
        if (status == TCC_EINDEX && whole > 1) {
            release(o);
            continue;
        }
        bool ok = status == TCC_OK || status == TCC_EINDEX;
        if (!ok)
            *skipped = "the sizes don't fit each other";
        l.nargs = o->n;
        l.args = o->got;
        l.bytes = o->bytes;
        l.uses = o->uses;
        ok = !ok || ((p->host ? run_host(p, &l, k, &look, seed, error) : prove_run(p, &l, error)) &&
                     compare(k, o, &l.env, status, NULL, error));
        p->counters = l.counters;
        p->operations = flops;
        release(o);
        return ok;
    }
    return true;
}

/* -- Several launches as one
 * ------------------------------------------------------------------------------------------ */

enum { ROWS = 3 };

/* The function that runs several launches of the kernel; NULL: it has none. */
static const struct tcc_plaunch *rows_of(const struct tcc_pimage *m, int kernel)
{
    int n;
    const struct tcc_plaunch *plain = records_of(m, kernel, &n),
                             *all = (const struct tcc_plaunch *)((const char *)m + m->launches.first);
    return n == 1 && plain + 1 < all + m->launches.count && plain[1].flags & TCC_LAUNCH_ROWS ? plain + 1 : NULL;
}

/* Operands of one of the launches on the device, and its row of the table: *blocks more than there were. */
static bool add_row(struct prove *p, struct prove_launch *l, const struct tcc_plaunch *f, const struct operands *o,
                    struct memory *m, uint64_t *row, uint64_t *blocks, char *error)
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

static bool run_rows(struct prove *p, struct prove_launch *l, const struct tcc_plaunch *f, const struct kn_kernel *k,
                     struct operands *const *o, const int64_t (*sizes)[MOST_SIZES], char *error)
{
    uint64_t table[ROWS + 1 + ROWS * (MOST_ARGS / ROWS + MOST_SIZES + 1)], blocks = 0;
    size_t each = (size_t)(o[0]->n + k->nsizes + 1),
           words = tcc_rows_words(ROWS, (uint64_t)o[0]->n, (uint64_t)k->nsizes);
    struct tcc_control control = {.env = l->env};
    struct memory m = {.n = 0};
    bool ok = true;
    for (int r = 0; r < ROWS && ok; r++) {
        struct lookup look = {k, sizes[r]};
        l->sizes = sizes[r];
        table[r] = blocks;
        ok = ir_eval(k->tiles, size_of, &look, &l->tiles) &&
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

/* Launches of several sizes as one, beside the interpreter's one by one. True: they agree, or the kernel has no such
 * function. */
static bool prove_rows(struct prove *p, int kernel, const struct kn_kernel *k, char *error)
{
    static const int64_t points[ROWS] = {130, 1, 9000};
    const struct tcc_plaunch *f = rows_of(p->image, kernel);
    struct prove_launch l = {.kernel = kernel, .nsizes = k->nsizes, .env = {.threads = 1, .seed = 5, .run = 3}};
    struct operands *o[ROWS] = {NULL};
    int64_t sizes[ROWS][MOST_SIZES];
    bool ok = f != NULL;
    if (!f || k->nsizes > MOST_SIZES || k->noperands > MOST_ARGS / ROWS)
        return true;
    for (int r = 0; r < ROWS && ok; r++) {
        for (int i = 0; i < k->nsizes; i++)
            sizes[r][i] = points[r];
        struct tcc_env env = l.env;
        ok = (o[r] = allocate(k, sizes[r], p->most / 16, 4, (uint64_t)r + 1)) != NULL &&
             kn_interp_kernel(k, o[r]->want, sizes[r], &env) == TCC_OK;
    }
    bool right = !ok || run_rows(p, &l, f, k, o, sizes, error);
    for (int r = 0; r < ROWS && right && ok; r++)
        right = compare(k, o[r], &l.env, TCC_OK, NULL, error);
    for (int r = 0; r < ROWS; r++)
        if (o[r])
            release(o[r]);
    return right;
}

/* -- Artifacts
 * -------------------------------------------------------------------------------------------------------- */

static bool in_bounds(const struct kn_kernel *k, int64_t v)
{
    for (int i = 0; i < k->nsizes; i++)
        if (v < k->sizes[i]->lo || v > k->sizes[i]->hi)
            return false;
    return true;
}

struct tally {
    int proved, sampled, wrong, skipped;
    bool counts;
};

static unsigned long long count(uint64_t n)
{
    return n;
}

/* What the last run of a kernel counted, and of what kind it is: words and numbers for programs. */
static void print_counts(const struct prove *p, const struct kn_kernel *k, FILE *out)
{
    const struct ptx_counters *c = &p->counters;
    int64_t width = 1;
    for (int i = 0; i < k->schedule.nparams; i++)
        if (!strcmp(k->schedule.params[i].key, "width"))
            width = k->schedule.params[i].value;
    int a = k->roles.form == KN_CONTRACTION ? k->insns[k->roles.contraction.load[0]].dtype : -1;
    fprintf(out, "counts %s @%s schedule %s width %lld factors %s", records_string(p->image, p->image->machine),
            ir_shown(k->name), k->schedule.how, (long long)width, a < 0 ? "none" : tcc_dtype_name((enum tcc_dtype)a));
    fprintf(out, " requests %llu sectors %llu ideally %llu wavefronts %llu ideally %llu mma %llu operations %lld\n",
            count(c->global_requests), count(c->global_sectors), count(c->ideal_sectors), count(c->shared_wavefronts),
            count(c->shared_ideal), count(c->mma), (long long)p->operations);
}

/* A kernel at sizes around those of warps, blocks and vectors. */
static void prove_one(struct prove *p, int i, const struct kn_kernel *k, struct tally *t, FILE *out)
{
    static const int64_t values[] = {1, 3, 17, 32, 65, 130};
    int n = k->nsizes ? (int)(sizeof values / sizeof *values) : p->host ? 2 : 1, done = 0; /* 2: ends, beginnings */
    const char *skipped = "no size is within its bounds";
    struct prove_sample sample = {0}; /* of the last that ran */
    char error_text[PROVE_TEXT] = "";
    for (int v = 0; v < n; v++) {
        int64_t sizes[32];
        char error[PROVE_TEXT] = "";
        const char *why;
        for (int s = 0; s < k->nsizes && s < 32; s++)
            sizes[s] = values[v];
        if (k->nsizes > 32 || !in_bounds(k, values[v]))
            continue;
        p->whole = done > 0; /* it has run at smaller ones */
        if (!prove_kernel(p, i, k, sizes, (uint64_t)v + 1, &why, error)) {
            fprintf(out, "kernel %s, sizes of %lld: %s\n", ir_shown(k->name), (long long)(k->nsizes ? values[v] : 0),
                    error);
            t->wrong++;
            return;
        }
        if (why) {
            skipped = why;
            continue;
        }
        sample = p->sample;
        done++;
    }
    if (done && !p->host && !prove_rows(p, i, k, error_text)) {
        fprintf(out, "kernel %s, launches as one: %s\n", ir_shown(k->name), error_text);
        t->wrong++;
        return;
    }
    if (done) {
        t->proved++;
        t->sampled += sample.share > 0;
        if (sample.share)
            fprintf(out, "kernel %s: a sample: one of %lld blocks, %lld of %lld results\n", ir_shown(k->name),
                    (long long)sample.share, (long long)sample.compared, (long long)sample.results);
        if (t->counts && !p->host)
            print_counts(p, k, out);
        return;
    }
    t->skipped++;
    fprintf(out, "kernel %s: skipped: %s\n", ir_shown(k->name), skipped);
}

/* The kernels of the artifact's code for this machine; one size twice, in memory that ends at, and that begins behind,
 * a page that nobody may touch. */
static bool prove_host(const struct tcc_model *m, int nkernels, struct kn_kernel *const *k, int64_t most, FILE *out)
{
    struct tally t = {0};
    struct prove p = {.most = most, .host = m->versions[m->nversions - 1].kernels};
    for (int j = 0; j < nkernels; j++)
        if (p.host[j])
            prove_one(&p, j, k[j], &t, out);
    fprintf(out, "%s: %d kernels proved, %d wrong, %d skipped\n", m->versions[m->nversions - 1].isa, t.proved, t.wrong,
            t.skipped);
    return !t.wrong;
}

bool prove_artifact(const struct tcc_model *m, int nkernels, struct kn_kernel *const *k, int64_t most, bool counts,
                    FILE *out)
{
    char error[PROVE_TEXT];
    bool ok = true;
    if (!m->nimages)
        return prove_host(m, nkernels, k, most, out);
    for (uint32_t i = 0; i < m->nimages; i++) {
        struct tally t = {.counts = counts};
        struct prove p;
        const struct tcc_range *ranges =
            (const struct tcc_range *)((const char *)m->images[i] + m->images[i]->kernels.first);
        if (!strncmp(records_string(m->images[i], m->images[i]->format), "cubin",
                     5)) /* made of the PTX that follows it */
            continue;
        if (!prove_open(&p, m->images[i], 1, error)) {
            fprintf(out, "%s: %s\n", records_string(m->images[i], m->images[i]->machine), error);
            ok = false;
            continue;
        }
        p.most = most;
        for (int j = 0; j < nkernels; j++)
            if (ranges[j].count)
                prove_one(&p, j, k[j], &t, out);
        fprintf(out, "%s: %d kernels proved, %d wrong, %d skipped; of %d a sample ran\n",
                records_string(m->images[i], m->images[i]->machine), t.proved, t.wrong, t.skipped, t.sampled);
        ok = ok && !t.wrong;
        prove_close(&p);
    }
    return ok;
}
