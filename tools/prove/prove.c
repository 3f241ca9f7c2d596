/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prove.c - translation validation: each device kernel of an artifact runs in the simulator, with all of its checks on,
 * and must give what the interpreter gives for the kernel that it was made of. Nothing is shared by the two but the
 * kernel's meaning (ir/kernel.h).
 */
#include "tools/prove/parts_int.h"

#include "base/draw.h"

#include <string.h>

enum {
    BLOCKS = 16, /* operations that the simulator runs of a sample, for one that the interpreter does */
    LEAST_POINTS = 16,
    MOST_ELEMENTS = 1 << 27 /* of an operand */
};

/* -- Samples ------------------------------------------------------------------------------------------------------- */

/* Which points of a sample the interpreter runs. */
struct choice {
    const struct prove_operands *o;
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
    return !c->blocks || (element >= 0 && !prove_is_untouched((char *)c->o->got[arg] + element * bytes, bytes));
}

/* Can some of its points run, and how many are there? What they write is none that others read or add to. */
static bool has_points(const struct kn_kernel *k, const int64_t *sizes, int64_t *points)
{
    struct prove_lookup look = {k, sizes};
    int64_t n;
    *points = 1;
    for (int d = 0; d < k->ndims; d++)
        if (k->dims[d].role == KN_OUTER && (!ir_eval(k->dims[d].extent, prove_size_of, &look, &n) || n < 1 ||
                                            __builtin_mul_overflow(*points, n, points)))
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
    struct prove_operands *o = some ? prove_allocate(k, l->sizes, MOST_ELEMENTS, whole, seed) : NULL;
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
                !prove_is_untouched((char *)o->got[i] + e * tcc_dtype_bytes(o->dtype[i]), tcc_dtype_bytes(o->dtype[i]));
    if (ok && written < p->sample.results / l->share / 2) {
        snprintf(error, PROVE_TEXT, "%lld of %lld results are written by one of %lld blocks", (long long)written,
                 (long long)p->sample.results, (long long)l->share);
        ok = false;
    }
    int status = ok ? kn_interp_sample(k, o->want, l->sizes, &env, &(struct kn_sample){is_chosen, &choice}) : TCC_OK;
    if (ok && status != TCC_OK)
        *skipped = "the sizes don't fit each other";
    else
        ok = ok && prove_compare(k, o, &l->env, status, &p->sample.compared, error);
    if (ok && !*skipped && !p->sample.compared) {
        snprintf(error, PROVE_TEXT, "none of a sample's results is written");
        ok = false;
    }
    p->counters = l->counters;
    p->operations = flops;
    prove_release(o);
    return ok;
}

static bool run_host(const struct prove *p, struct prove_launch *l, const struct kn_kernel *k,
                     struct prove_lookup *look, uint64_t seed, char *error)
{
    struct prove_extent e = {0, 0};
    if ((k->scratch && !ir_eval(k->scratch, prove_size_of, look, &e.scratch)) ||
        (k->combining && !ir_eval(k->combining, prove_size_of, look, &e.combining))) {
        snprintf(error, PROVE_TEXT, "its scratch has no size");
        return false;
    }
    return prove_run_host(p->host[l->kernel], l, &e, seed % 2 == 0, error);
}

bool prove_kernel(struct prove *p, int kernel, const struct kn_kernel *k, const int64_t *sizes, uint64_t seed,
                  const char **skipped, char *error)
{
    struct prove_lookup look = {k, sizes};
    struct prove_launch l = {
        .kernel = kernel, .nsizes = k->nsizes, .sizes = sizes, .env = {.seed = seed, .run = 3}};
    l.by_control = !p->host && k->nsizes && seed % 2;
    int64_t flops = 0;
    *skipped = NULL;
    p->sample = (struct prove_sample){0};
    if (!ir_eval(k->tiles, prove_size_of, &look, &l.tiles) ||
        (k->flops && (!ir_eval(k->flops, prove_size_of, &look, &flops))))
        *skipped = "a size is negative";
    else if (p->host && (flops > l.tiles ? flops : l.tiles) > p->most)
        *skipped = "too many operations";
    else if ((flops > l.tiles ? flops : l.tiles) > p->most)
        return prove_sample(p, &l, k, flops, seed, skipped, error);
    /* Whole numbers may be indexes: smaller ones where those are out of range. */
    for (int whole = 4; !*skipped; whole = 1) {
        struct tcc_env env = l.env;
        struct prove_operands *o =
            prove_allocate(k, sizes, (p->most > PROVE_MOST ? p->most : PROVE_MOST) / 16, whole, seed);
        if (!o && p->host)
            *skipped = "operands are too large";
        if (!o)
            return p->host || prove_sample(p, &l, k, flops, seed, skipped, error);
        int status = kn_interp_kernel(k, o->want, sizes, &env);
        if (status == TCC_EINDEX && whole > 1) {
            prove_release(o);
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
                     prove_compare(k, o, &l.env, status, NULL, error));
        p->counters = l.counters;
        p->operations = flops;
        prove_release(o);
        return ok;
    }
    return true;
}

/* -- Several launches as one --------------------------------------------------------------------------------------- */

/* The function that runs several launches of the kernel; NULL: it has none. */
static const struct tcc_plaunch *rows_of(const struct tcc_pimage *m, int kernel)
{
    int n;
    const struct tcc_plaunch *plain = records_of(m, kernel, &n),
                             *all = (const struct tcc_plaunch *)((const char *)m + m->launches.first);
    return n == 1 && plain + 1 < all + m->launches.count && plain[1].flags & TCC_LAUNCH_ROWS ? plain + 1 : NULL;
}

/* Launches of several sizes as one, beside the interpreter's one by one. True: they agree, or the kernel has no such
 * function. */
static bool prove_rows(struct prove *p, int kernel, const struct kn_kernel *k, char *error)
{
    static const int64_t points[ROWS] = {130, 1, 9000};
    const struct tcc_plaunch *f = rows_of(p->image, kernel);
    struct prove_launch l = {.kernel = kernel, .nsizes = k->nsizes, .env = {.seed = 5, .run = 3}};
    struct prove_operands *o[ROWS] = {NULL};
    int64_t sizes[ROWS][MOST_SIZES];
    bool ok = f != NULL;
    if (!f || k->nsizes > MOST_SIZES || k->noperands > MOST_ARGS / ROWS)
        return true;
    for (int r = 0; r < ROWS && ok; r++) {
        for (int i = 0; i < k->nsizes; i++)
            sizes[r][i] = points[r];
        struct tcc_env env = l.env;
        ok = (o[r] = prove_allocate(k, sizes[r], p->most / 16, 4, (uint64_t)r + 1)) != NULL &&
             kn_interp_kernel(k, o[r]->want, sizes[r], &env) == TCC_OK;
    }
    bool right = !ok || prove_run_rows(p, &l, f, k, o, sizes, error);
    for (int r = 0; r < ROWS && right && ok; r++)
        right = prove_compare(k, o[r], &l.env, TCC_OK, NULL, error);
    for (int r = 0; r < ROWS; r++)
        if (o[r])
            prove_release(o[r]);
    return right;
}

/* -- Artifacts ----------------------------------------------------------------------------------------------------- */

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
