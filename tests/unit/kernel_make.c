/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_make.c - see kernel_make.h. */
#include "tests/unit/kernel_make.h"

#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* -- Building ------------------------------------------------------------------------------- */

struct maker {
    struct ir_ctx *ctx;
    struct kn_kernel *k;
    enum tcc_dtype type; /* of scalar instructions */
};

static struct kn_kernel *new_kernel(struct maker *m, struct ir_ctx *ctx, enum ir_kind kind)
{
    struct kn_kernel *k = IR_NEW(ctx, struct kn_kernel);
    *m = (struct maker){ctx, k, TCC_F32};
    k->kind = kind;
    k->name = "by_hand";
    k->dims = IR_NEWN(ctx, KN_MAX_DIMS, struct kn_dim);
    k->operands = IR_NEWN(ctx, 8, struct kn_operand);
    k->insns = IR_NEWN(ctx, 128, struct kn_insn);
    k->stages = IR_NEWN(ctx, 2, struct kn_stage);
    k->sizes = IR_NEWN(ctx, 1, ir_expr);
    k->flops = ir_const(ctx, 0);
    return k;
}

static ir_expr number(struct maker *m, int64_t v)
{
    return ir_const(m->ctx, v);
}

static ir_expr add_dim(struct maker *m, ir_expr extent, enum kn_role role)
{
    ir_expr var = ir_iter(m->ctx, "i", extent);
    m->k->dims[m->k->ndims++] = (struct kn_dim){var, extent, role};
    return var;
}

static ir_expr outer(struct maker *m, int64_t extent)
{
    return add_dim(m, number(m, extent), KN_OUTER);
}

static ir_expr inner(struct maker *m, int64_t extent, uint32_t *set)
{
    *set |= 1u << m->k->ndims;
    return add_dim(m, number(m, extent), KN_INNER);
}

static int add_operand(struct maker *m, enum kn_operand_use use, enum tcc_dtype dtype, int rank, const ir_expr *dims)
{
    struct kn_operand *o = &m->k->operands[m->k->noperands];
    *o = (struct kn_operand){
        .use = use, .space = use == KN_LOCAL ? KN_SCRATCH : KN_GLOBAL, .dtype = dtype, .rank = rank, .name = "x"};
    memcpy(o->dims, dims, (size_t)rank * sizeof *dims);
    return m->k->noperands++;
}

static int add_insn(struct maker *m, struct kn_insn in)
{
    m->k->insns[m->k->ninsns] = in;
    return m->k->ninsns++;
}

static int access_insn(struct maker *m, enum kn_code code, int operand, const ir_expr *index, int value)
{
    int n = m->k->operands[operand].rank;
    ir_expr *copy = IR_NEWN(m->ctx, n, ir_expr);
    memcpy(copy, index, (size_t)n * sizeof *copy);
    return add_insn(m, (struct kn_insn){.code = code,
                                        .dtype = m->k->operands[operand].dtype,
                                        .operand = operand,
                                        .nindex = n,
                                        .index = copy,
                                        .nargs = value >= 0,
                                        .arg = {value, -1, -1}});
}
#define INDEX(...) ((const ir_expr[]){__VA_ARGS__})
#define RANK(a) ((int)(sizeof(a) / sizeof *(a)))
#define OPERAND(m, use, dtype, ...) add_operand(m, use, dtype, RANK(INDEX(__VA_ARGS__)), INDEX(__VA_ARGS__))

static int word(struct maker *m, enum ir_op w, int a, int b)
{
    return add_insn(
        m, (struct kn_insn){.code = KN_SCALAR, .dtype = m->type, .op = w, .nargs = b < 0 ? 1 : 2, .arg = {a, b, -1}});
}

static int constant(struct maker *m, double v)
{
    return add_insn(m, (struct kn_insn){.code = KN_CONST, .dtype = TCC_F32, .fvalue = v, .arg = {-1, -1, -1}});
}

static int reduce(struct maker *m, enum kn_reducer r, int v, uint32_t set)
{
    int id = add_insn(
        m, (struct kn_insn){.code = KN_REDUCE, .dtype = m->type, .reducer = r, .nargs = 1, .arg = {v, -1, -1}});
    m->k->stages[m->k->nstages++] = (struct kn_stage){.inner = set, .last = m->k->ninsns};
    return id;
}

static void end(struct maker *m)
{
    m->k->stages[1] = (struct kn_stage){.first = m->k->stages[0].last, .last = m->k->ninsns};
    m->k->nstages = 2;
}

struct kn_kernel *km_matmul(struct ir_ctx *ctx, const struct km_matmul *v)
{
    struct maker mk, *m = &mk;
    struct kn_kernel *k = new_kernel(m, ctx, IR_K_CONTRACT);
    enum tcc_dtype d = v->dtype ? v->dtype : TCC_F32, other = v->dtype_b ? v->dtype_b : d;
    uint32_t set = 0;
    ir_expr rows = v->dynamic ? ir_sym(ctx, "rows") : number(m, v->m);
    ir_expr b = outer(m, v->b), i = add_dim(m, rows, KN_OUTER), j = outer(m, v->n), x = inner(m, v->k, &set);
    ir_expr nb = number(m, v->b), nn = number(m, v->n), nk = number(m, v->k), p = number(m, v->panel ? v->panel : 1);
    if (v->dynamic)
        k->sizes[k->nsizes++] = rows;
    m->type = tcc_is_float(d) ? TCC_F32 : TCC_I32;
    v->trans_a ? OPERAND(m, KN_IN, d, nb, nk, rows) : OPERAND(m, KN_IN, d, nb, rows, nk);
    ir_expr g = number(m, v->group > 1 ? v->group : 1);
    if (v->panel && v->group > 1)
        OPERAND(m, KN_IN, other, ir_ceildiv(ctx, nn, p), ir_floordiv(ctx, nk, g), p, g);
    else if (v->panel)
        OPERAND(m, KN_IN, other, ir_ceildiv(ctx, nn, p), nk, p);
    else
        v->trans_b ? OPERAND(m, KN_IN, other, nb, nn, nk) : OPERAND(m, KN_IN, other, nb, nk, nn);
    OPERAND(m, KN_IN, m->type, nn);
    OPERAND(m, KN_OUT, m->type, nb, rows, nn);
    int la = access_insn(m, KN_LOAD, 0, v->trans_a ? INDEX(b, x, i) : INDEX(b, i, x), -1);
    ir_expr panel = ir_floordiv(ctx, j, p), column = ir_mod(ctx, j, p);
    int lb = access_insn(m, KN_LOAD, 1,
                         v->panel && v->group > 1 ? INDEX(panel, ir_floordiv(ctx, x, g), column, ir_mod(ctx, x, g))
                         : v->panel               ? INDEX(panel, x, column)
                         : v->trans_b             ? INDEX(b, j, x)
                                                  : INDEX(b, x, j),
                         -1);
    int a2 = d == TCC_F32 ? la : word(m, IR_cast, la, -1), b2 = other == TCC_F32 ? lb : word(m, IR_cast, lb, -1);
    int mul = word(m, IR_mul, a2, b2), red = reduce(m, KN_SUM, mul, set), r = red;
    if (v->relu) {
        r = word(m, IR_add, r, access_insn(m, KN_LOAD, 2, INDEX(j), -1));
        r = word(m, IR_max, constant(m, 0), r);
    }
    for (int t = 0; v->longer && t < 24; t++)
        r = word(m, IR_add, word(m, IR_mul, r, constant(m, 0.75)), constant(m, 0.25));
    access_insn(m, KN_STORE, 3, INDEX(b, i, j), r);
    end(m);
    kn_find_roles(k, &k->roles);
    k->partial = v->half ? TCC_F16 : TCC_NONE;
    return k;
}

int64_t km_conv_out(const struct km_conv *v, bool height)
{
    return ((height ? v->h : v->w) + 2 * v->pad - v->dilation * ((height ? v->kh : v->kw) - 1) - 1) / v->stride + 1;
}

static struct kn_guard *guards(struct maker *m, ir_expr y, ir_expr x, int h, int w)
{
    struct kn_guard *g = IR_NEWN(m->ctx, 2, struct kn_guard);
    g[0] = (struct kn_guard){y, number(m, 0), number(m, h)};
    g[1] = (struct kn_guard){x, number(m, 0), number(m, w)};
    return g;
}

static ir_expr tap(struct maker *m, ir_expr out, ir_expr t, int stride, int dilation, int pad)
{
    return ir_addc(m->ctx, ir_add(m->ctx, ir_mulc(m->ctx, out, stride), ir_mulc(m->ctx, t, dilation)), -pad);
}

struct kn_kernel *km_conv(struct ir_ctx *ctx, const struct km_conv *v)
{
    struct maker mk, *m = &mk;
    struct kn_kernel *k = new_kernel(m, ctx, IR_K_WINDOW);
    uint32_t set = 0;
    int64_t oh = km_conv_out(v, true), ow = km_conv_out(v, false);
    ir_expr cb = number(m, (v->c + 15) / 16), ob = number(m, (v->o + 15) / 16), l16 = number(m, 16),
            N = number(m, v->n);
    ir_expr H = number(m, v->h), W = number(m, v->w), KH = number(m, v->kh), KW = number(m, v->kw), OH = number(m, oh),
            OW = number(m, ow);
    ir_expr n = outer(m, v->n), b = outer(m, (v->o + 15) / 16), y = outer(m, oh), x = outer(m, ow), l = outer(m, 16);
    ir_expr ib = v->depthwise ? b : inner(m, v->plain ? v->c : (v->c + 15) / 16, &set);
    ir_expr ty = inner(m, v->kh, &set), tx = inner(m, v->kw, &set),
            il = v->depthwise || v->plain ? l : inner(m, 16, &set);
    if (v->plain)
        OPERAND(m, KN_IN, TCC_F32, N, number(m, v->c), H, W);
    else
        OPERAND(m, KN_IN, TCC_F32, N, cb, H, W, l16);
    if (v->depthwise)
        OPERAND(m, KN_IN, TCC_F32, ob, KH, KW, l16);
    else if (v->plain)
        OPERAND(m, KN_IN, TCC_F32, ob, number(m, v->c), KH, KW, l16);
    else
        OPERAND(m, KN_IN, TCC_F32, ob, cb, KH, KW, l16, l16);
    OPERAND(m, KN_IN, TCC_F32, ob, l16);
    OPERAND(m, KN_OUT, TCC_F32, N, ob, OH, OW, l16);
    OPERAND(m, KN_IN, TCC_F32, N, ob, OH, OW, l16);
    ir_expr iy = tap(m, y, ty, v->stride, v->dilation, v->pad), ix = tap(m, x, tx, v->stride, v->dilation, v->pad);
    int la = access_insn(m, KN_LOAD, 0, v->plain ? INDEX(n, ib, iy, ix) : INDEX(n, ib, iy, ix, il), -1);
    if (v->pad) {
        k->insns[la].nguards = 2;
        k->insns[la].guards = guards(m, iy, ix, v->h, v->w);
    }
    int lb = access_insn(m, KN_LOAD, 1,
                         v->depthwise ? INDEX(b, ty, tx, l)
                         : v->plain   ? INDEX(b, ib, ty, tx, l)
                                      : INDEX(b, ib, ty, tx, il, l),
                         -1);
    int mul = word(m, IR_mul, la, lb), red = reduce(m, KN_SUM, mul, set);
    int r = word(m, IR_add, red, access_insn(m, KN_LOAD, 2, INDEX(b, l), -1));
    if (v->residual)
        r = word(m, IR_add, r, access_insn(m, KN_LOAD, 4, INDEX(n, b, y, x, l), -1));
    if (v->relu)
        r = word(m, IR_max, constant(m, 0), r);
    access_insn(m, KN_STORE, 3, INDEX(n, b, y, x, l), r);
    end(m);
    kn_find_roles(k, &k->roles);
    return k;
}

/* With channels last. */
static struct kn_kernel *last_conv(struct ir_ctx *ctx, const struct km_conv *v)
{
    struct maker mk, *m = &mk;
    struct kn_kernel *k = new_kernel(m, ctx, IR_K_WINDOW);
    uint32_t set = 0;
    enum tcc_dtype d = v->dtype ? v->dtype : TCC_F32;
    int64_t oh = km_conv_out(v, true), ow = km_conv_out(v, false);
    ir_expr n = outer(m, v->n), y = outer(m, oh), x = outer(m, ow), o = outer(m, v->o);
    ir_expr ty = inner(m, v->kh, &set), tx = inner(m, v->kw, &set), i = inner(m, v->c, &set), N = number(m, v->n),
            O = number(m, v->o), C = number(m, v->c);
    OPERAND(m, KN_IN, d, N, number(m, v->h), number(m, v->w), C);
    OPERAND(m, KN_IN, d, O, number(m, v->kh), number(m, v->kw), C);
    OPERAND(m, KN_OUT, TCC_F32, N, number(m, oh), number(m, ow), O);
    ir_expr iy = tap(m, y, ty, v->stride, v->dilation, v->pad), ix = tap(m, x, tx, v->stride, v->dilation, v->pad);
    int la = access_insn(m, KN_LOAD, 0, INDEX(n, iy, ix, i), -1);
    if (v->pad) {
        k->insns[la].nguards = 2;
        k->insns[la].guards = guards(m, iy, ix, v->h, v->w);
    }
    int lb = access_insn(m, KN_LOAD, 1, INDEX(o, ty, tx, i), -1);
    int a2 = d == TCC_F32 ? la : word(m, IR_cast, la, -1), b2 = d == TCC_F32 ? lb : word(m, IR_cast, lb, -1);
    int mul = word(m, IR_mul, a2, b2), red = reduce(m, KN_SUM, mul, set);
    access_insn(m, KN_STORE, 2, INDEX(n, y, x, o), v->relu ? word(m, IR_max, constant(m, 0), red) : red);
    end(m);
    kn_find_roles(k, &k->roles);
    return k;
}

struct kn_kernel *km_plain_conv(struct ir_ctx *ctx, const struct km_conv *v, int groups)
{
    if (v->last)
        return last_conv(ctx, v);
    struct maker mk, *m = &mk;
    struct kn_kernel *k = new_kernel(m, ctx, IR_K_WINDOW);
    uint32_t set = 0;
    enum tcc_dtype d = v->dtype ? v->dtype : TCC_F32;
    int per_in = v->c / groups, per_out = v->o / groups;
    int64_t oh = km_conv_out(v, true), ow = km_conv_out(v, false);
    ir_expr n = outer(m, v->n), o = outer(m, v->o), y = outer(m, oh), x = outer(m, ow);
    ir_expr i = inner(m, per_in, &set), ty = inner(m, v->kh, &set), tx = inner(m, v->kw, &set), N = number(m, v->n),
            O = number(m, v->o);
    OPERAND(m, KN_IN, d, N, number(m, v->c), number(m, v->h), number(m, v->w));
    OPERAND(m, KN_IN, d, O, number(m, per_in), number(m, v->kh), number(m, v->kw));
    OPERAND(m, KN_OUT, TCC_F32, N, O, number(m, oh), number(m, ow));
    ir_expr iy = tap(m, y, ty, v->stride, v->dilation, v->pad), ix = tap(m, x, tx, v->stride, v->dilation, v->pad);
    ir_expr group = groups == 1 ? number(m, 0) : ir_floordiv(ctx, o, number(m, per_out));
    int la = access_insn(m, KN_LOAD, 0, INDEX(n, ir_add(ctx, ir_mulc(ctx, group, per_in), i), iy, ix), -1);
    if (v->pad) {
        k->insns[la].nguards = 2;
        k->insns[la].guards = guards(m, iy, ix, v->h, v->w);
    }
    int lb = access_insn(m, KN_LOAD, 1, INDEX(o, i, ty, tx), -1);
    int a2 = d == TCC_F32 ? la : word(m, IR_cast, la, -1), b2 = d == TCC_F32 ? lb : word(m, IR_cast, lb, -1);
    int mul = word(m, IR_mul, a2, b2), red = reduce(m, KN_SUM, mul, set);
    access_insn(m, KN_STORE, 2, INDEX(n, o, y, x), v->relu ? word(m, IR_max, constant(m, 0), red) : red);
    end(m);
    kn_find_roles(k, &k->roles);
    return k;
}

struct kn_kernel *km_pool(struct ir_ctx *ctx, const struct km_pool *v)
{
    struct maker mk, *m = &mk;
    struct kn_kernel *k = new_kernel(m, ctx, IR_K_WINDOW);
    uint32_t set = 0;
    int64_t oh = (v->h + 2 * v->pad - v->k) / v->stride + 1, ow = (v->w + 2 * v->pad - v->k) / v->stride + 1;
    ir_expr n = outer(m, v->n), b = outer(m, (v->c + 15) / 16), y = outer(m, oh), x = outer(m, ow), l = outer(m, 16);
    ir_expr ty = inner(m, v->k, &set), tx = inner(m, v->k, &set), N = number(m, v->n), cb = number(m, (v->c + 15) / 16),
            l16 = number(m, 16);
    OPERAND(m, KN_IN, TCC_F32, N, cb, number(m, v->h), number(m, v->w), l16);
    OPERAND(m, KN_OUT, TCC_F32, N, cb, number(m, oh), number(m, ow), l16);
    ir_expr iy = tap(m, y, ty, v->stride, 1, v->pad), ix = tap(m, x, tx, v->stride, 1, v->pad);
    int outside = v->max && v->pad ? constant(m, -INFINITY) : -1,
        load = access_insn(m, KN_LOAD, 0, INDEX(n, b, iy, ix, l), outside);
    if (v->pad) {
        k->insns[load].nguards = 2;
        k->insns[load].guards = guards(m, iy, ix, v->h, v->w);
    }
    access_insn(m, KN_STORE, 1, INDEX(n, b, y, x, l), reduce(m, v->max ? KN_MAX : KN_SUM, load, set));
    end(m);
    kn_find_roles(k, &k->roles); /* as the pass `recognise` does */
    return k;
}

/* -- Compiling and running ------------------------------------------------------------------------ */

/* The kernels are hidden symbols: a table of them, in C, is linked in. */
static bool write_table(const char *folder, int n)
{
    char path[256];
    snprintf(path, sizeof path, "%s/table.c", folder);
    FILE *f = fopen(path, "w");
    if (!f)
        return false;
    for (int i = 0; i < n; i++)
        fprintf(f, "extern void tk%d(void);\n", i);
    fprintf(f, "void *table[] = {");
    for (int i = 0; i < n; i++)
        fprintf(f, "(void *)tk%d, ", i);
    fprintf(f, "};\n");
    return fclose(f) == 0;
}

bool km_load(struct ir_ctx *ctx, const char *arch, const char *planned, int n, struct kn_kernel **kernels,
             tcc_kernel_fn *functions)
{
    char folder[] = "/tmp/kernelsXXXXXX", path[64];
    const char *dump = getenv("KM_DUMP"); /* llvm or asm, to standard error */
    struct target_code code = {0};
    struct kn_program p = {.nkernels = n, .kernels = kernels};
    struct target_options o = {
        .arch = arch, .planned = planned, .level = 2, .jobs = 1, .dump = dump, .dump_to = stderr};
    if (!mkdtemp(folder))
        return false;
    bool done = target_cpu.compile(ctx, &p, &o, "t", folder, &code);
    for (int i = 0; i < ir_nmessages(ctx); i++)
        ir_print_message(stderr, ir_message(ctx, i));
    char *command = IR_NEWN(ctx, 1000 + 300 * code.nobjects, char), *at = command;
    at += sprintf(at, "${CC:-cc} -shared -fPIC -o %s/all.so %s/table.c", folder, folder);
    for (int i = 0; done && i < code.nobjects; i++)
        at += snprintf(at, 300, " %s", code.objects[i]);
    done = done && write_table(folder, n) && system(command) == 0;
    snprintf(path, sizeof path, "%s/all.so", folder);
    void *library = done ? dlopen(path, RTLD_NOW) : NULL;
    void **table = library ? dlsym(library, "table") : NULL;
    for (int i = 0; table && i < n; i++)
        functions[i] = (tcc_kernel_fn)table[i];
    sprintf(command, "rm -rf %s", folder);
    return system(command) == 0 && table;
}

static bool size_value(void *user, ir_expr sym, int64_t *out)
{
    (void)sym;
    *out = *(const int64_t *)user;
    return true;
}

bool km_run(const struct kn_kernel *k, tcc_kernel_fn f, void *const *args, int64_t size)
{
    struct tcc_env env = {0};
    int64_t tiles, scratch;
    if (!ir_eval(k->tiles, size_value, &size, &tiles) || !ir_eval(k->scratch, size_value, &size, &scratch))
        return false;
    void *memory = aligned_alloc(64, (size_t)scratch / 64 * 64 + 128);
    if (!memory)
        return false;
    memset(memory, 0xff, (size_t)scratch);   /* NaNs: nothing may be read before it was written */
    for (int64_t t = tiles - 1; t >= 0; t--) /* any order will do */
        f(args, &size, memory, &env, t, t + 1);
    free(memory);
    return true;
}

bool km_can_run(const char *arch)
{
    switch (arch[strlen(arch) - 1]) {
    case '4': return __builtin_cpu_supports("x86-64-v4");
    case '3': return __builtin_cpu_supports("x86-64-v3");
    default: return __builtin_cpu_supports("x86-64-v2");
    }
}
