/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random kernels, compiled and interpreted: odd access maps (floordiv, mod, offsets, reversals, overlaps), guards,
 * gathers, several stages with row buffers, every reducer, known and symbolic extents. Values are small integers, so
 * results must be equal whatever the order of the sums. The same kernels for CUDA, in the simulator; reductions in
 * pieces too (pass_split_kernel()).
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/kernels.h"
#include "tests/unit/suite.h"
#include "tools/prove/prove_int.h"

#define BATCH 40
#define C(v) ir_const(r->b.ctx, (v))

static const enum tcc_dtype types[] = {TCC_F32, TCC_I32, TCC_F64, TCC_I8, TCC_U8, TCC_I64, TCC_F16};
static const int64_t extents[] = {1, 2, 3, 5, 7, 16, 17, 33, 48, 66};

/* A kernel being made up. */
struct recipe {
    struct hk b;
    uint64_t state;
    enum tcc_dtype d;
    int ndims, nouter;
    ir_expr var[6], extent[6];
    int64_t value[6]; /* of the extents; the symbolic one is 19 */
    uint32_t inner;
};
#define SYMBOLIC 19

/* A number below n. At most one a full expression: C doesn't say in which order a call's arguments draw theirs, and
 * compilers differ. */
static int pick(struct recipe *r, int n)
{
    return (int)((hk_random(&r->state) >> 8) % (uint64_t)n);
}

static void make_dims(struct recipe *r)
{
    r->nouter = 1 + pick(r, 3);
    r->ndims = r->nouter + pick(r, 3);
    int64_t total = 1;
    for (int i = 0; i < r->ndims; i++) {
        int64_t n = extents[pick(r, (int)(sizeof extents / sizeof *extents))];
        if (total * n > 20000)
            n = 1 + pick(r, 3);
        bool symbolic = pick(r, 6) == 0 && total * SYMBOLIC <= 20000;
        r->value[i] = symbolic ? SYMBOLIC : n;
        total *= r->value[i];
        r->extent[i] = symbolic ? hk_size(&r->b, "N") : C(n);
        r->var[i] = i < r->nouter ? hk_outer(&r->b, r->extent[i]) : hk_inner(&r->b, r->extent[i]);
        if (i >= r->nouter)
            r->inner |= 1u << i;
    }
}

/* One axis of an operand, of up to `visible` dims' variables: its index and its extent. */
static void make_axis(struct recipe *r, int visible, ir_expr *index, ir_expr *extent, struct kn_guard *guard,
                      bool *guarded)
{
    struct ir_ctx *ctx = r->b.ctx;
    int i = pick(r, visible), j = pick(r, visible), factor = pick(r, 4), c = 2 + factor * (1 + pick(r, 4));
    ir_expr v = r->var[i], n = r->extent[i];
    switch (pick(r, 10)) {
    case 0:
        *index = ir_floordiv(ctx, v, C(c));
        *extent = ir_ceildiv(ctx, n, C(c));
        break;
    case 1:
        *index = ir_mod(ctx, v, C(c));
        *extent = C(c);
        break;
    case 2:
        *index = ir_addc(ctx, v, c);
        *extent = ir_addc(ctx, n, c);
        break;
    case 3:
        *index = i == j ? ir_mulc(ctx, v, 2) : ir_add(ctx, ir_mulc(ctx, v, 2), r->var[j]);
        *extent = ir_add(ctx, ir_mulc(ctx, n, 2), i == j ? C(0) : r->extent[j]);
        break;
    case 4:
        *index = ir_sub(ctx, ir_addc(ctx, n, -1), v);
        *extent = n;
        break;
    case 5:
        *index = C(0);
        *extent = C(1 + pick(r, 2));
        break;
    case 6:
        if (!*guarded && r->value[i] > 3) {
            *index = ir_addc(ctx, v, -1);
            *extent = ir_addc(ctx, n, -3);
            *guard = (struct kn_guard){*index, C(0), *extent};
            *guarded = true;
            break;
        }
        /* fall through */
    default: *index = v; *extent = n;
    }
}

/* Loads through a gathered index: x[g, ...]. */
static ir_expr make_gather(struct recipe *r, int visible)
{
    int i = pick(r, visible), idx = hk_operand(&r->b, KN_IN, TCC_I64, 1, E(r->extent[i]));
    return hk_index(&r->b, hk_load(&r->b, idx, E(r->var[i])), C(4));
}

static int make_load(struct recipe *r, int visible)
{
    ir_expr index[3], extent[3];
    struct kn_guard guard;
    bool guarded = false;
    int rank = 1 + pick(r, 3);
    for (int i = 0; i < rank; i++)
        make_axis(r, visible, &index[i], &extent[i], &guard, &guarded);
    if (pick(r, 6) == 0) {
        index[0] = make_gather(r, visible);
        extent[0] = C(4);
    }
    int otherwise = guarded && pick(r, 2) ? hk_const(&r->b, r->d, 2) : -1;
    int operand = hk_operand(&r->b, KN_IN, r->d, rank, extent);
    return guarded ? hk_load_guarded(&r->b, operand, index, guard, otherwise) : hk_load(&r->b, operand, index);
}

static int make_value(struct recipe *r, int visible)
{
    static const enum ir_op words[] = {IR_add, IR_sub, IR_max, IR_min};
    int v = make_load(r, visible);
    for (int n = pick(r, 3); n > 0; n--) {
        enum ir_op word = words[pick(r, 4)];
        int other = make_load(r, visible);
        v = hk_scalar(&r->b, word, r->d, v, other, -1);
    }
    return v;
}

/* Stores to an output whose axes are the dims [0, n) in some order. */
static void make_store(struct recipe *r, int n, int v, bool temp)
{
    ir_expr index[6], extent[6];
    int order[6], start = temp ? r->nouter : 0, count = 0;
    for (int i = start; i < n; i++)
        order[count++] = i;
    for (int i = 0; i < count; i++) {
        int j = pick(r, count), t = order[i];
        order[i] = order[j];
        order[j] = t;
    }
    for (int i = 0; i < count; i++) {
        index[i] = r->var[order[i]];
        extent[i] = r->extent[order[i]];
    }
    int operand = hk_operand(&r->b, temp ? KN_LOCAL : KN_OUT, (enum tcc_dtype)r->b.insns[v].dtype, count, extent);
    hk_store(&r->b, operand, index, v);
}

static struct kn_kernel *make_kernel(struct ir_ctx *ctx, uint64_t seed)
{
    struct recipe recipe = {.state = seed * 977 + 5}, *r = &recipe;
    hk_init(&r->b, ctx, ir_internf(ctx, "random_%ld", (long)seed));
    r->d = types[pick(r, (int)(sizeof types / sizeof *types))];
    make_dims(r);
    hk_stage(&r->b, r->inner);
    int v = make_value(r, r->ndims);
    if (!r->inner || pick(r, 4) == 0) {
        make_store(r, r->ndims, v, false);
        if (!r->inner)
            return hk_finish(&r->b);
    }
    /* A reduction, perhaps a position; then what an outer point makes of it, and perhaps the row again. */
    enum kn_reducer how = (enum kn_reducer[]){KN_SUM, KN_MAX, KN_MIN}[pick(r, 3)];
    int reduced = hk_reduce(&r->b, KN_REDUCE, how, r->d, v, -1, 0), at = -1;
    if (pick(r, 3) == 0) {
        enum kn_reducer extreme = pick(r, 2) ? KN_MAX : KN_MIN;
        int position = hk_expr(&r->b, TCC_I64, r->var[r->ndims - 1]);
        bool last = r->ndims - r->nouter == 1 && pick(r, 2);
        at = hk_reduce(&r->b, KN_ARGREDUCE, extreme, TCC_I64, v, position, last);
    }
    if (r->ndims - r->nouter > 1)
        at = -1; /* positions repeat along the other inner dim: which one is found is not said */
    int row = -1;
    if (pick(r, 2)) {
        make_store(r, r->ndims, v, true);
        row = r->b.k.ninsns - 1;
    }
    hk_stage(&r->b, 0);
    make_store(r, r->nouter, reduced, false);
    if (at >= 0)
        make_store(r, r->nouter, at, false);
    if (row >= 0) {
        hk_stage(&r->b, r->inner);
        int again = hk_load(&r->b, r->b.insns[row].operand, r->b.insns[row].index);
        make_store(r, r->ndims, hk_scalar(&r->b, IR_max, r->d, again, reduced, -1), false);
    }
    return hk_finish(&r->b);
}

/* The same kernel in pieces; NULL: it can't be cut. */
static struct kn_kernel *make_split(struct ir_ctx *ctx, uint64_t seed, int64_t pieces)
{
    struct kn_kernel *k = make_kernel(ctx, seed);
    int dim = k->ndims - 1;
    k->kind = IR_K_REDUCE;
    while (dim > 0 && k->dims[dim - 1].role == KN_INNER && (seed & 1))
        dim--;
    return pass_split_kernel(ctx, k, dim, pieces);
}

/* -- Running -------------------------------------------------------------------------------------------- */

/* fn: k's code; NULL: k is interpreted. Arguments that only k has, what its pieces come to, stand behind the others. */
static void check_kernel(const struct kn_kernel *original, const struct kn_kernel *k, tcc_kernel_fn fn,
                         const char *arch)
{
    static const int64_t sizes[] = {SYMBOLIC};
    void *want[HK_MAX], *got[HK_MAX];
    size_t bytes[HK_MAX];
    uint64_t state = 7;
    int n = 0, more = 0;
    for (int i = 0; i < original->noperands; i++) {
        const struct kn_operand *o = &original->operands[i];
        if (o->use == KN_LOCAL)
            continue;
        int64_t elements = hk_elements(original, i, sizes);
        bytes[n] = (size_t)elements * (size_t)tcc_dtype_bytes(o->dtype);
        want[n] = hk_alloc(bytes[n]);
        got[n] = hk_alloc(bytes[n]);
        for (int64_t j = 0; j < elements && o->use == KN_IN; j++) {
            void *p = (char *)want[n] + j * tcc_dtype_bytes(o->dtype);
            int64_t v = (int64_t)(hk_random(&state) % 4);
            if (tcc_is_float(o->dtype))
                tcc_store_f64(o->dtype, p, (double)v);
            else
                tcc_store_i64(o->dtype, p, v);
        }
        memcpy(got[n], want[n], bytes[n]);
        n++;
    }
    for (int i = 0; i < k->noperands; i++)
        if (k->operands[i].use == KN_PARTIAL) {
            bytes[n + more] = (size_t)hk_elements(k, i, sizes) * (size_t)tcc_dtype_bytes(k->operands[i].dtype);
            got[n + more] = hk_alloc(bytes[n + more]);
            memset(got[n + more], 0x5a, bytes[n + more]);
            more++;
        }
    int status = kn_interp_kernel(original, want, sizes, NULL);
    ck_assert_msg(status == 0, "%s: interpreter %d", original->name, status);
    ck_assert_int_eq(fn ? hk_run(k, fn, got, sizes, 1) : kn_interp_kernel(k, got, sizes, NULL), 0);
    for (int i = n; i < n + more; i++)
        hk_free(got[i], bytes[i]);
    for (int i = 0; i < n; i++) {
        if (memcmp(want[i], got[i], bytes[i]) != 0) {
            kn_print_kernel(stderr, original);
            kn_print_kernel(stderr, k);
            ck_abort_msg("%s (%s): argument %d differs", original->name, arch, i);
        }
        hk_free(want[i], bytes[i]);
        hk_free(got[i], bytes[i]);
    }
}

static const char *const arches[] = {"x86-64-v2", "x86-64-v3",           "x86-64-v4",
                                     "native",    "x86-64-v2/x86-64-v4", "x86-64-v3/x86-64-v4"};
#define NARCHES ((int)(sizeof arches / sizeof *arches))

START_TEST(agree)
{
    struct ir_ctx *ctx = ir_ctx_new();
    const char *arch = arches[_i % NARCHES];
    int64_t more = getenv("RANDOM_KERNELS") ? atol(getenv("RANDOM_KERNELS")) : 0;
    if (hk_cpu_runs(ctx, arch)) {
        struct kn_kernel *original[BATCH], *compiled[BATCH];
        struct hk_loaded loaded;
        for (int i = 0; i < BATCH; i++) {
            uint64_t seed = (uint64_t)(more + _i / NARCHES * BATCH + i);
            original[i] = make_kernel(ctx, seed);
            compiled[i] = make_kernel(ctx, seed);
            ck_assert_msg(kn_verify_kernel(ctx, original[i]), "%s does not verify: %s", original[i]->name,
                          ir_nmessages(ctx) ? ir_message(ctx, 0)->text : "");
        }
        hk_load_kernels(ctx, &loaded, BATCH, compiled, arch, 2, true);
        for (int i = 0; i < BATCH; i++)
            check_kernel(original[i], compiled[i], loaded.fn[i], arch);
        hk_unload(&loaded);
    }
    ir_ctx_free(ctx);
}
END_TEST

/* The same as device functions, in the simulator with its checks on; the last four times kernels in pieces. */
START_TEST(on_device)
{
    static const int64_t sizes[] = {SYMBOLIC};
    struct ir_ctx *ctx = ir_ctx_new();
    int64_t more = getenv("RANDOM_KERNELS") ? atol(getenv("RANDOM_KERNELS")) : 0;
    char folder[] = "/tmp/tccc-kernels-XXXXXX", error[PROVE_TEXT];
    const char *arch = _i & 1 ? "sm_90" : "sm_80", *why;
    struct kn_kernel *kernels[BATCH];
    struct target_code code = {0};
    struct target_options o = {.arch = arch, .level = 2, .jobs = 1};
    struct kn_program program = {.nkernels = BATCH, .kernels = kernels};
    const struct pass_machine *m = target_cuda.machine(ctx, arch);
    struct prove p;
    uint64_t seed = (uint64_t)(more + _i * BATCH);
    for (int i = 0; i < BATCH; i++) {
        do
            kernels[i] = _i < 4 ? make_kernel(ctx, seed) : make_split(ctx, seed, 2 << seed % 6);
        while (seed++, !kernels[i]);
        m->schedule(m, ctx, kernels[i]);
        ck_assert_msg(m->verify_schedule(m, ctx, kernels[i]), "%s", ir_message(ctx, 0)->text);
    }
    ck_assert_ptr_nonnull(mkdtemp(folder));
    ck_assert_msg(target_cuda.compile(ctx, &program, &o, "p", folder, &code), "%s", ir_message(ctx, 0)->text);
    rmdir(folder);
    ck_assert_msg(prove_open(&p, (const struct tcc_pimage *)code.images[0].bytes, (uint64_t)_i, error), "%s", error);
    for (int i = 0; i < BATCH; i++)
        if (!prove_kernel(&p, i, kernels[i], sizes, 7, &why, error) || why) {
            kn_print_kernel(stderr, kernels[i]);
            ck_abort_msg("%s (%s): %s", kernels[i]->name, arch, why ? why : error);
        }
    prove_close(&p);
    ir_ctx_free(ctx);
}
END_TEST

START_TEST(pieces_agree)
{
    struct ir_ctx *ctx = ir_ctx_new();
    const char *arch = arches[_i % NARCHES];
    struct kn_kernel *original[BATCH], *interpreted[BATCH], *compiled[BATCH];
    struct hk_loaded loaded;
    int n = 0;
    for (uint64_t seed = (uint64_t)(_i / NARCHES) * 1000; n < BATCH; seed++) {
        int64_t pieces = 2 << seed % 4;
        if (!(interpreted[n] = make_split(ctx, seed, pieces)))
            continue;
        original[n] = make_kernel(ctx, seed);
        compiled[n] = make_split(ctx, seed, pieces);
        ck_assert_msg(kn_verify_kernel(ctx, interpreted[n]), "%s in pieces does not verify: %s", original[n]->name,
                      ir_nmessages(ctx) ? ir_message(ctx, 0)->text : "");
        check_kernel(original[n], interpreted[n], NULL, "interpreted");
        n++;
    }
    if (hk_cpu_runs(ctx, arch)) {
        hk_load_kernels(ctx, &loaded, n, compiled, arch, 2, _i / NARCHES != 1);
        for (int i = 0; i < n; i++)
            check_kernel(original[i], compiled[i], loaded.fn[i], arch);
        hk_unload(&loaded);
    }
    ir_ctx_free(ctx);
}
END_TEST

/* A kernel of the host that strays by as many elements as its size says, from the end of what it reads and what it
 * writes. */
static void stray(void *const *args, const int64_t *sizes, void *scratch, struct tcc_env *env, int64_t first,
                  int64_t last)
{
    const float *x = args[0];
    float *y = args[1];
    (void)scratch;
    (void)env;
    for (int64_t i = first; i < last; i++)
        y[i + sizes[1]] = x[i + sizes[0]] + 1;
}

/* --prove-kernels of the host: what lies outside is found, whichever side of it, read or written. */
START_TEST(host_strays)
{
    static const struct {
        int64_t read, written;
        bool begins;
        const char *error; /* NULL: fine */
    } rows[] = {{0, 0, false, NULL},
                {0, 0, true, NULL},
                {1, 0, false, "outside of argument 0 of 20 bytes, at byte 20"},
                {-1, 0, true, "outside of argument 0 of 20 bytes, at byte -4"},
                {0, 2, false, "outside of argument 1 of 20 bytes, at byte 20"},
                {0, -1, true, "outside of argument 1 of 20 bytes, at byte -4"},
                {0, 1, true, "it wrote beside argument 1 of 20 bytes"},
                {0, -1, false, "it wrote beside argument 1 of 20 bytes"}};
    static const enum kn_operand_use uses[] = {KN_IN, KN_OUT};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        float x[5] = {1, 2, 3, 4, 5}, y[5] = {0};
        char error[PROVE_TEXT] = "";
        int64_t sizes[] = {rows[i].read, rows[i].written};
        struct prove_launch l = {.nargs = 2,
                                 .nsizes = 2,
                                 .args = (void *[]){x, y},
                                 .bytes = (const size_t[]){sizeof x, sizeof y},
                                 .uses = uses,
                                 .sizes = sizes,
                                 .tiles = 5};
        struct prove_extent e = {0, 0};
        bool fine = prove_run_host(stray, &l, &e, rows[i].begins, error);
        ck_assert_msg(fine == !rows[i].error && (fine || strstr(error, rows[i].error)), "%zu: %s", i, error);
        ck_assert(!fine || (y[0] == 2 && y[4] == 6));
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("random kernels");
    TCase *c = tcase_create("random kernels");
    tcase_set_timeout(c, 300);
    ADD_ROUNDS(c, agree, 4 * NARCHES);
    ADD_ROUNDS(c, on_device, 8);
    ADD_ROUNDS(c, pieces_agree, 3 * NARCHES);
    suite_add_tcase(s, c);
    c = tcase_create("host");
    tcase_add_test(c, host_strays);
    suite_add_tcase(s, c);
    return run_tests(s);
}
