/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tune.c - tccc --tune=FILE: schedules by time instead of by formula.
 *
 *     the model's kernels as the compiler schedules them (text of --dump-ir=kernels), but for those of which FILE has a
 *     line each one timed as it is; of those that make up nearly all of a run's time each schedule that the target
 *     thinks worth it the fastest of each, by its digest, goes into FILE, behind what was there; then the model is
 *     compiled by the whole table
 *
 * A kernel is timed by itself, on random operands. One that depends on sizes that are not known has no time: --dim
 * gives them. FILE is all that a later compilation needs to make the same artifact again, on a machine with a device or
 * without.
 */
#include "compiler/target.h"
#include "compiler/tccc.h"
#include "base/safe.h"
#include "tools/run/model_int.h"
#include "tools/prove/prove_int.h"
#include "tools/bench/tune_int.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_CANDIDATES = 48, MOST_ARGS = 256, PATTERN = 1 << 20 };
static const double nearly_all = 0.95, worth_it = 0.98; /* of a run's time; of the time of the compiler's choice */

/* A kernel of the program, for one architecture. */
struct tuned {
    struct kn_kernel *k; /* with the compiler's schedule */
    uint64_t digest;
    int launches;           /* in the plan */
    double before, seconds; /* with the compiler's schedule, with the best one */
    struct kn_schedule best;
    int ways; /* that were timed */
};

struct tuning {
    const struct options *o;
    const struct tccc_options *c;
    const struct target *target;
    const struct pass_machine *machine;
    const char *arch;
    struct ir_ctx *ctx;
    const struct kn_program *program;
    struct tune_clock clock;
    struct tuned *list;
    int n, unknown;
};

bool tune_room(uint64_t **list, int n, int *room, char *error)
{
    int more = 2 * *room + 16;
    uint64_t *to = n < *room ? *list : realloc(*list, (size_t)more * sizeof *to);
    if (!to) {
        strcpy(error, "no memory");
        return false;
    }
    *room = n < *room ? *room : more;
    *list = to;
    return true;
}

/* -- Which kernels ------------------------------------------------------------------------------------------------ */

static void count_launches(const struct kn_program *p, const struct kn_steps *steps, int *launches)
{
    for (int i = 0; i < steps->n; i++) {
        const struct kn_step *s = &steps->at[i];
        if (s->kind == TCC_STEP_LAUNCH && p->queues[s->queue].memory)
            for (int k = 0; k < p->nkernels; k++)
                launches[k] += p->kernels[k] == s->kernel;
        for (int r = 0; r < s->nregions; r++)
            count_launches(p, &s->regions[r].steps, launches);
    }
}

static bool is_overridden(const struct tuning *t, const struct pass_overrides *overrides, uint64_t digest)
{
    for (int i = 0; overrides && i < overrides->n; i++)
        if (overrides->at[i].kernel == digest && !strcmp(overrides->at[i].arch, t->arch))
            return true;
    return false;
}

static void find_kernels(struct tuning *t, const struct pass_overrides *overrides)
{
    const struct kn_program *p = t->program;
    int *launches = IR_NEWN(t->ctx, p->nkernels + 1, int);
    for (int e = 0; e < p->nentries && p->nqueues; e++)
        count_launches(p, &p->entries[e].steps, launches);
    t->list = IR_NEWN(t->ctx, p->nkernels + 1, struct tuned);
    t->n = t->unknown = 0;
    for (int i = 0; i < p->nkernels; i++) {
        uint64_t digest = kn_digest_meaning(p->kernels[i]);
        int64_t tiles;
        if (!launches[i] || p->kernels[i]->custom || is_overridden(t, overrides, digest))
            continue;
        if (p->kernels[i]->nsizes || kn_argument_of(p->kernels[i], p->kernels[i]->noperands) > MOST_ARGS ||
            !ir_is_const(p->kernels[i]->tiles, &tiles)) {
            t->unknown++;
            continue;
        }
        struct tuned *u = &t->list[t->n++];
        *u = (struct tuned){.digest = digest, .launches = launches[i]};
        u->k = IR_NEW(t->ctx, struct kn_kernel);
        *u->k = *p->kernels[i];
        t->machine->schedule(t->machine, t->ctx, u->k);
    }
}

/* -- Timing ------------------------------------------------------------------------------------------------------ */

/* The kernels' code. */
static const struct tcc_pimage *compile(struct tuning *t, int n, struct kn_kernel **kernels)
{
    struct tcr_scratch scratch;
    struct target_code code = {0};
    struct kn_program program = {.module = t->program->module, .nkernels = n, .kernels = kernels};
    struct target_options o = {
        .arch = t->arch, .level = t->c->level, .exact = t->c->exact, .fast_math = t->c->fast_math, .jobs = 1};
    if (tcr_scratch_make(&scratch, NULL, "tccc-tune") != 0)
        return NULL;
    bool ok = t->target->compile(t->ctx, &program, &o, "tune_", scratch.path, &code) && code.nimages > 0;
    tcr_scratch_remove(&scratch);
    return ok ? (const struct tcc_pimage *)(const void *)code.images[code.nimages - 1].bytes : NULL;
}

/* Values that a kernel may meet: floats between -1 and 1, small whole numbers. One pattern, again and again. */
static void fill(enum tcc_dtype d, char *to, size_t bytes)
{
    size_t each = (size_t)tcc_dtype_bytes(d), n = (bytes < PATTERN ? bytes : PATTERN) / each;
    uint64_t x = 0x9e3779b97f4a7c15ull;
    for (size_t i = 0; i < n; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        if (tcc_is_float(d))
            tcc_store_f64(d, to + i * each, (double)(x >> 11) * 0x1p-52 - 1);
        else if (tcc_dtype_class(d) == TCC_CLASS_COMPLEX)
            memset(to + i * each, 0, each);
        else
            tcc_store_i64(d, to + i * each, d == TCC_BOOL ? (int64_t)(x & 1) : (int64_t)(x & 3));
    }
    for (size_t done = n * each; done < bytes; done += n * each)
        memcpy(to + done, to, bytes - done < n * each ? bytes - done : n * each);
}

/* A kernel's operands on the device. */
static bool upload(struct tuning *t, const struct kn_kernel *k, uint64_t *args, char *error)
{
    bool ok = true;
    for (int i = 0, n = 0; i < k->noperands && ok; i++) {
        const struct kn_operand *p = &k->operands[i];
        int64_t elements = 1, d;
        if (p->use == KN_LOCAL)
            continue;
        for (int j = 0; j < p->rank; j++)
            elements *= ir_is_const(p->dims[j], &d) ? d : 0;
        size_t bytes = (size_t)elements * (size_t)tcc_dtype_bytes(p->dtype);
        char *data = malloc(bytes + 1);
        if (!data) {
            strcpy(error, "no memory");
            return false;
        }
        fill(p->dtype, data, bytes);
        ok = t->clock.memory(&t->clock, bytes, data, &args[n++], error);
        free(data);
    }
    return ok;
}

/* All functions of kernel number `number` of the image that is loaded, on operands that are there. */
static bool time_launches(struct tuning *t, const struct tcc_pimage *image, int number, const struct kn_kernel *k,
                          const uint64_t *args, uint64_t scratch, uint64_t control, double *seconds, char *error)
{
    struct records r = {.image = image};
    uint64_t params[MOST_ARGS + 128];
    int nlaunches, n = kn_argument_of(k, k->noperands);
    const struct tcc_plaunch *launches = records_of(image, number, &nlaunches);
    int64_t flops = 0;
    ir_is_const(k->tiles, &r.tiles);
    if (k->flops)
        ir_is_const(k->flops, &flops);
    memcpy(params, args, (size_t)n * sizeof *args);
    params[n++] = scratch;
    params[n++] = control;
    params[n++] = (uint64_t)r.tiles;
    params[n++] = 0;
    *seconds = 0;
    for (int i = 0; i < nlaunches; i++) {
        struct records_shape shape;
        double one;
        if (!records_shape(&r, &launches[i], &shape)) {
            strcpy(error, "its launch record is not valid");
            return false;
        }
        size_t bytes = records_maps(&r, &launches[i], true, args, n, params, (size_t)n, &t->clock.maps);
        if (!t->clock.time(&t->clock, records_string(image, launches[i].symbol), &shape, params, bytes,
                           i ? 0 : (double)flops, &one, error))
            return false;
        *seconds += one;
    }
    return true;
}

/* Bytes of scratch that the launches of kernel number `number` take. */
static int64_t scratch_bytes(const struct tcc_pimage *image, int number, const struct kn_kernel *k)
{
    struct records r = {.image = image};
    int n;
    const struct tcc_plaunch *launches = records_of(image, number, &n);
    int64_t most = 0, v;
    ir_is_const(k->tiles, &r.tiles);
    for (int i = 0; i < n; i++)
        if (records_value(&r, launches[i].scratch, 0, &v) && v > most)
            most = v;
    return most;
}

/* n kernels of one image on operands of the first: the same kernel in several ways, or (n 1) one of many. times[i] < 0:
 * `error` says why it has none. */
static bool time_ways(struct tuning *t, const struct tcc_pimage *image, int first, int n, struct kn_kernel **ways,
                      double *times, char *error)
{
    char zeros[sizeof(struct tcc_control) + 64] = {0};
    uint64_t args[MOST_ARGS], scratch = 0, at;
    int64_t most = 0;
    for (int i = 0; i < n; i++) {
        int64_t bytes = scratch_bytes(image, first + i, ways[i]);
        most = bytes > most ? bytes : most;
    }
    bool ok = upload(t, ways[0], args, error) &&
              (!most || t->clock.memory(&t->clock, (size_t)most, NULL, &scratch, error)) &&
              t->clock.memory(&t->clock, sizeof zeros, zeros, &at, error);
    for (int i = 0; i < n && ok; i++)
        if (!time_launches(t, image, first + i, ways[i], args, scratch, at, &times[i], error))
            times[i] = -1;
    t->clock.free(&t->clock);
    return ok;
}

/* -- Choosing ----------------------------------------------------------------------------------------------------- */

static int failed(struct tuning *t, const char *kernel, const char *error)
{
    for (int i = 0; i < ir_nmessages(t->ctx); i++)
        if (ir_message(t->ctx, i)->severity >= IR_ERROR)
            error = ir_message(t->ctx, i)->text;
    return tool_error(t->o, EXIT_ENVIRONMENT, "--tune: kernel %s for %s: %s", kernel, t->arch, error);
}

/* Each kernel as the compiler would have it. */
static int time_all(struct tuning *t)
{
    char error[TUNE_TEXT] = "it can't be compiled";
    struct kn_kernel **kernels = IR_NEWN(t->ctx, t->n + 1, struct kn_kernel *);
    for (int i = 0; i < t->n; i++)
        kernels[i] = t->list[i].k;
    const struct tcc_pimage *image = compile(t, t->n, kernels);
    if (!image || !t->clock.load(&t->clock, image, error))
        return failed(t, "(all)", error);
    for (int i = 0; i < t->n; i++) {
        struct tuned *u = &t->list[i];
        if (!time_ways(t, image, i, 1, &kernels[i], &u->before, error) || u->before < 0)
            return failed(t, u->k->name, error);
        u->seconds = u->before;
        u->best = u->k->schedule;
        u->ways = 1;
    }
    return EXIT_FINE;
}

static int try_ways(struct tuning *t, struct tuned *u)
{
    char error[TUNE_TEXT] = "it can't be compiled";
    struct kn_schedule list[MOST_CANDIDATES];
    struct kn_kernel *ways[MOST_CANDIDATES];
    double times[MOST_CANDIDATES];
    int n = t->machine->candidates(t->machine, t->ctx, u->k, list, MOST_CANDIDATES);
    for (int i = 0; i < n; i++) {
        ways[i] = IR_NEW(t->ctx, struct kn_kernel);
        *ways[i] = *u->k;
        t->machine->override(t->machine, t->ctx, ways[i], &list[i]);
        ways[i]->name = ir_internf(t->ctx, "%s_way%d", u->k->name, i);
    }
    if (n < 2)
        return EXIT_FINE;
    const struct tcc_pimage *image = compile(t, n, ways);
    if (!image || !t->clock.load(&t->clock, image, error) || !time_ways(t, image, 0, n, ways, times, error))
        return failed(t, u->k->name, error);
    u->ways = n;
    if (times[0] > 0)
        u->before = u->seconds = times[0];
    for (int i = 1; i < n; i++)
        if (times[i] > 0 && times[i] < worth_it * u->before && times[i] < u->seconds) {
            u->seconds = times[i];
            u->best = list[i];
        }
    return EXIT_FINE;
}

static int by_time(const void *a, const void *b)
{
    const struct tuned *x = a, *y = b;
    double p = x->before * x->launches, q = y->before * y->launches;
    return p != q ? (p < q) - (p > q) : strcmp(x->k->name, y->k->name);
}

static void put_schedule(FILE *to, const struct kn_schedule *s)
{
    fputs(s->how, to);
    for (int i = 0; i < s->nparams; i++)
        fprintf(to, "%s%s=%lld", i ? ", " : "(", s->params[i].key, (long long)s->params[i].value);
    fputs(s->nparams ? ")" : "", to);
}

static void put_lines(struct tuning *t, FILE *to)
{
    for (int i = 0; i < t->n; i++) {
        const struct tuned *u = &t->list[i];
        fprintf(to, "%s %016llx ", t->arch, (unsigned long long)u->digest);
        put_schedule(to, &u->best);
        fprintf(to, "  # %s: %.2f us", u->k->name, 1e6 * u->seconds);
        if (u->seconds < u->before)
            fprintf(to, ", by the formula %.2f", 1e6 * u->before);
        fprintf(to, "; of %d way%s, %s\n", u->ways, u->ways == 1 ? "" : "s", t->clock.name);
    }
}

static void report(struct tuning *t)
{
    double before = 0, after = 0;
    int ways = 0, faster = 0;
    for (int i = 0; i < t->n; i++) {
        const struct tuned *u = &t->list[i];
        before += u->before * u->launches;
        after += u->seconds * u->launches;
        ways += u->ways;
        faster += u->seconds < u->before;
    }
    printf("%s on %s: %d kernels timed in %d ways, %d faster: %.2f us of kernels, were %.2f\n", t->arch,
           t->clock.name[0] ? t->clock.name : "nothing", t->n, ways, faster, 1e6 * after, 1e6 * before);
    if (t->unknown)
        printf("%s: %d kernels of sizes that are not known were not timed (--dim)\n", t->arch, t->unknown);
}

static int open_clock(struct tuning *t)
{
    char error[TUNE_TEXT] = "";
    const char *device = option_text(t->o, OPT_device, "auto");
    bool any = !strcmp(device, "auto"), gpu = !strncmp(device, "cuda", 4);
    if (!any && !gpu && strcmp(device, "sim"))
        return usage_error(t->o, "--device=%s: with --tune expected auto, cuda, cuda:K or sim", device);
    if ((any || gpu) && tune_device(&t->clock, gpu ? device : "cuda", t->arch, error))
        return EXIT_FINE;
    if (gpu)
        return tool_error(t->o, EXIT_ENVIRONMENT, "--tune: %s; --device=sim takes the simulator's modelled time",
                          error);
    return tune_sim(&t->clock, t->arch, error) ? EXIT_FINE : tool_error(t->o, EXIT_ENVIRONMENT, "--tune: %s", error);
}

/* One architecture's lines, to `to`. */
static int tune_arch(struct tuning *t, const struct pass_overrides *overrides, FILE *to)
{
    double all = 0, sum = 0;
    find_kernels(t, overrides);
    t->clock = (struct tune_clock){.name = ""};
    if (!t->n) {
        report(t);
        return EXIT_FINE;
    }
    int code = open_clock(t);
    if (code != EXIT_FINE)
        return code;
    code = time_all(t);
    if (code == EXIT_FINE && t->n)
        qsort(t->list, (size_t)t->n, sizeof *t->list, by_time);
    for (int i = 0; i < t->n; i++)
        all += t->list[i].before * t->list[i].launches;
    for (int i = 0; i < t->n && code == EXIT_FINE && sum < nearly_all * all; i++) {
        sum += t->list[i].before * t->list[i].launches;
        code = try_ways(t, &t->list[i]);
    }
    if (code == EXIT_FINE) {
        put_lines(t, to);
        report(t);
    }
    t->clock.close(&t->clock);
    return code;
}

/* -- The table ---------------------------------------------------------------------------------------------------- */

static int append(const struct options *o, const char *path, bool is_new, const char *lines)
{
    FILE *f = *lines ? fopen(path, "ae") : NULL;
    if (!*lines)
        return EXIT_FINE;
    if (f && is_new)
        fputs("# schedules of kernels, written by tccc --tune; tccc --schedules=FILE takes them: machine, kernel, "
              "schedule\n",
              f);
    bool ok = f && fputs(lines, f) >= 0;
    ok = f && !fclose(f) && ok;
    return ok ? EXIT_FINE : tool_error(o, EXIT_ENVIRONMENT, "cannot write '%s': %s", path, strerror(errno));
}

static int tune_program(const struct options *o, const struct tccc_options *c, const char *path, struct ir_module *m)
{
    char list[256], *save, *lines = NULL;
    size_t size;
    struct tuning t = {.o = o, .c = c, .target = target_by_name("cuda"), .ctx = m->ctx, .program = m->program};
    bool is_new = access(path, F_OK) != 0;
    const struct pass_overrides *overrides = is_new ? NULL : target_schedules(m->ctx, path);
    FILE *to = open_memstream(&lines, &size);
    int code = to ? EXIT_FINE : tool_error(o, EXIT_ENVIRONMENT, "%s", strerror(errno));
    const char *archs = strchr(c->target, ':');
    if (!is_new && !overrides)
        code =
            tool_error(o, EXIT_DATA, "%s:%d: %s", path, ir_message(m->ctx, 0)->where.line, ir_message(m->ctx, 0)->text);
    snprintf(list, sizeof list, "%s", archs ? archs + 1 : "native");
    for (char *a = strtok_r(list, ",", &save); a && code == EXIT_FINE; a = strtok_r(NULL, ",", &save)) {
        t.arch = t.target->resolve(m->ctx, a);
        t.machine = t.target->machine(m->ctx, t.arch);
        code = tune_arch(&t, overrides, to);
    }
    if (to)
        fclose(to);
    if (code == EXIT_FINE)
        code = append(o, path, is_new, lines);
    free(lines);
    return code;
}

int tune_model(const struct options *o, struct tccc_options *c)
{
    const char *path = option_text(o, OPT_tune, NULL);
    int code;
    if (option_set(o, OPT_schedules))
        return usage_error(o, "--tune and --schedules exclude each other: --tune reads its table, too");
    if (!c->target || strncmp(c->target, "cuda", 4) || (c->target[4] && c->target[4] != ':') || !target_by_name("cuda"))
        return usage_error(o, "--tune requires --target=cuda");
    struct ir_ctx *ctx;
    struct ir_module *module = model_kernels(o, c, true, &ctx, &code);
    if (code == EXIT_FINE && module->program)
        code = tune_program(o, c, path, module);
    if (ctx)
        ir_ctx_free(ctx);
    if (code == EXIT_FINE && access(path, F_OK) == 0)
        c->schedules = path;
    return code;
}
