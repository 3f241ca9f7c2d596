/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors from nothing: fills, ranges, random numbers; and numbers that nodes compute. */
#include "compiler/pt2/pt2_int.h"

#include <math.h>
#include <string.h>

/* The sizes of the result: `size`, or the operand's (full_like and its kin). */
static int sizes(struct pt2 *p, ir_expr *dims)
{
    struct ir_value *like = pt2_t(p, "self");
    int n = pt2_exprs(p, "size", TCC_MAX_RANK, dims);
    pt2_ignore(p, "dtype");
    if (n != -1 || !like)
        return n;
    memcpy(dims, like->type->dim, (size_t)imp_rank(like) * sizeof *dims);
    return imp_rank(like);
}

/* Filled with `fill_value`, with arg where there is none (empty: 0). */
bool aten_full(struct pt2 *p)
{
    ir_expr dims[TCC_MAX_RANK];
    enum tcc_dtype d = pt2_out_type(p, 0);
    bool number;
    struct ir_value *fill = pt2_operand(p, "fill_value", &number);
    int n = sizes(p, dims);
    double v;
    pt2_ignore(p, "stride", "physical_layout");
    if (n < 0)
        return false;
    if (!fill)
        return pt2_out(p, 0, imp_splat(p->im, d, p->row->arg, n, dims));
    if (imp_scalar_of(fill, &v) && tcc_is_float(d))
        return pt2_out(p, 0, imp_splat(p->im, d, v, n, dims));
    return pt2_out(p, 0, imp_expand(p->im, imp_cast(p->im, fill, d), n, dims));
}

/* fill(self, value), zero (no value) */
bool aten_fill(struct pt2 *p)
{
    bool number;
    struct ir_value *x = pt2_need(p, "self"),
                    *v = pt2_given(p, "value") ? pt2_operand(p, "value", &number) : imp_like(p->im, x, 0);
    return x && v && pt2_out(p, 0, pt2_expand_as(p, imp_cast(p->im, v, imp_dtype(x)), x));
}

/* copy(self, src): src in self's shape and type */
bool aten_copy(struct pt2 *p)
{
    struct ir_value *x = pt2_need(p, "self"), *src = x ? pt2_need(p, "src") : NULL;
    return src && pt2_out(p, 0, pt2_expand_as(p, imp_cast(p->im, src, imp_dtype(x)), x));
}

bool aten_scalar_tensor(struct pt2 *p)
{
    bool number;
    pt2_ignore(p, "dtype");
    return pt2_out(p, 0, pt2_operand(p, "s", &number));
}

/* arange(end), arange.start(start, end), arange.start_step(start, end, step): integers may be symbolic */
/* start + step * (0 .. n - 1) */
static struct ir_value *progression(struct pt2 *p, ir_expr n, ir_expr start, ir_expr step)
{
    struct imp *im = p->im;
    struct ir_value *v = imp_iota(im, 1, &n, 0, TCC_I64);
    v = ir_is_value(step, 1) ? v : imp_bin(im, IR_mul, v, imp_dim_value(im, step));
    return ir_is_value(start, 0) ? v : imp_bin(im, IR_add, v, imp_dim_value(im, start));
}

bool aten_arange(struct pt2 *p)
{
    struct imp *im = p->im;
    bool number;
    double step_f = 1;
    enum tcc_dtype d = pt2_out_type(p, 0);
    struct ir_value *start = pt2_operand(p, "start", &number), *end = pt2_operand(p, "end", &number),
                    *step = pt2_operand(p, "step", &number);
    pt2_ignore(p, "dtype");
    if (!end)
        return false;
    start = start ? start : imp_int(im, TCC_I64, 0);
    step = step ? step : imp_int(im, TCC_I64, 1);
    ir_expr a, b;
    if (!imp_scalar_of(step, &step_f) || step_f == 0 || !isfinite(step_f))
        return imp_unsupported(im, "a step of 0, without end, or known only at run time");
    if (imp_exprs_of(im, start, 1, &a) == 1 && imp_exprs_of(im, end, 1, &b) == 1 && fabs(step_f) < 0x1p53 &&
        step_f == (double)(int64_t)step_f) {
        int64_t s = (int64_t)step_f;
        ir_expr span = s > 0 ? ir_sub(p->ctx, b, a) : ir_sub(p->ctx, a, b);
        ir_expr n = ir_max(p->ctx, ir_const(p->ctx, 0), ir_ceildiv(p->ctx, span, ir_const(p->ctx, s > 0 ? s : -s)));
        return pt2_out(p, 0, progression(p, n, a, ir_const(p->ctx, s)));
    }
    struct ir_value *delta = imp_cast(im, step, TCC_F64);
    struct ir_value *limit = imp_cast(im, end, TCC_F64);
    struct ir_value *v = imp_range(im, imp_cast(im, start, TCC_F64), limit, delta);
    return v && pt2_out(p, 0, imp_cast(im, v, d));
}

/* linspace(start, end, steps): start + i * (end - start) / (steps - 1), the second half counted from the end, which
 * decides what whole numbers are rounded to; logspace (arg 1): `base` to that power. Ends may be tensors. */
bool aten_linspace(struct pt2 *p)
{
    bool number;
    struct ir_value *start = imp_cast(p->im, pt2_operand(p, "start", &number), TCC_F64),
                    *end = start ? imp_cast(p->im, pt2_operand(p, "end", &number), TCC_F64) : NULL;
    int64_t steps = pt2_i(p, "steps", 1);
    ir_expr n = ir_const(p->ctx, steps);
    pt2_ignore(p, "dtype");
    if (!end)
        return false;
    double half = fmax(1, (double)(steps / 2)), last = fmax(1, (double)(steps - 1));
    struct ir_value *i = imp_iota(p->im, 1, &n, 0, TCC_F64);
    start = imp_unsqueeze(p->im, start, 1, &(int64_t){0});
    end = imp_unsqueeze(p->im, end, 1, &(int64_t){0});
    struct ir_value *v = imp_formula_n(p->im, "select(lt(x, a), y + x * ((z - y) / b), z - (b - x) * ((z - y) / b))",
                                       IMP_NUMBERS(half, last), i, start, end);
    return pt2_out(p, 0, p->row->arg ? imp_bin(p->im, IR_pow, imp_like(p->im, v, pt2_f(p, "base", 10)), v) : v);
}

struct ir_value *pt2_on_diagonal(struct pt2 *p, ir_expr m, ir_expr n, int64_t ahead)
{
    return imp_band(p->im, IR_eq, (const ir_expr[]){m, n}, imp_int(p->im, TCC_I64, ahead));
}

bool aten_eye(struct pt2 *p)
{
    ir_expr dims[2] = {pt2_e(p, "n", 0), NULL};
    dims[1] = pt2_given(p, "m") ? pt2_e(p, "m", 0) : dims[0];
    pt2_ignore(p, "dtype");
    if (!dims[0] || !dims[1])
        return false;
    return pt2_out(p, 0, pt2_on_diagonal(p, dims[0], dims[1], 0));
}

/* range(start, end, step): floats, the end included */
bool aten_range(struct pt2 *p)
{
    struct imp *im = p->im;
    double start = pt2_f(p, "start", 0), end = pt2_f(p, "end", 0), step = pt2_f(p, "step", 1);
    pt2_ignore(p, "dtype");
    if (!(step != 0 && (end - start) / step >= 0 && (end - start) / step <= 1e9))
        return imp_bad(im, "from %g to %g by %g", start, end, step);
    ir_expr n = ir_const(p->ctx, (int64_t)((end - start) / step) + 1);
    struct ir_value *v = imp_with(im, IR_mul, imp_iota(im, 1, &n, 0, TCC_F64), step);
    return pt2_out(p, 0, imp_with(im, IR_add, v, start));
}

/* Windows as sums of cosines, a[0] - a[1] cos(2 pi i / n) + a[2] cos(4 pi i / n); n: the length, less one where the
 * window is symmetric. */
enum { HANN, HAMMING, BLACKMAN, BARTLETT };
static const double cosines[][3] = {{0.5, 0.5, 0}, {0.54, 0.46, 0}, {0.42, 0.5, 0.08}};

bool aten_window(struct pt2 *p)
{
    int arg = p->row->arg;
    struct imp *im = p->im;
    int64_t length = pt2_i(p, "window_length", 0);
    bool periodic = pt2_b(p, "periodic", true);
    double alpha = pt2_f(p, "alpha", arg == BARTLETT ? 0 : cosines[arg][0]),
           beta = pt2_f(p, "beta", arg == BARTLETT ? 0 : cosines[arg][1]);
    ir_expr n = ir_const(p->ctx, length);
    pt2_ignore(p, "dtype");
    if (length < 0)
        return imp_bad(im, "a window of %lld values", (long long)length);
    double turn = (double)length - !periodic;
    struct ir_value *at = imp_iota(im, 1, &n, 0, TCC_F64), *y;
    if (length <= 1)
        return pt2_out(p, 0, imp_splat(im, pt2_out_type(p, 0), 1, 1, &n));
    if (arg == BARTLETT)
        return pt2_out(p, 0, imp_formula_n(im, "1 - abs(x * a - 1)", IMP_NUMBERS(2 / turn), at));
    y = imp_formula_n(im, "cos(x * a) * b", IMP_NUMBERS(2 * M_PI / turn, -beta), at);
    if (cosines[arg][2] != 0)
        y = imp_formula_n(im, "y + cos(x * a) * b", IMP_NUMBERS(4 * M_PI / turn, cosines[arg][2]), at, y);
    return pt2_out(p, 0, imp_with(im, IR_add, y, alpha));
}

/* -- Random numbers: other ones than PyTorch's, of the same distribution */

static struct ir_value *random_values(struct pt2 *p, enum ir_op op, int n, const ir_expr *dims)
{
    return imp_random(p->im, op, n, dims, TCC_F32, 0);
}

bool aten_random(struct pt2 *p)
{
    ir_expr dims[TCC_MAX_RANK];
    int n = sizes(p, dims);
    return n >= 0 && pt2_out(p, 0, random_values(p, (enum ir_op)p->row->arg, n, dims));
}

/* randint(high), randint.low(low, high), and their _like forms */
bool aten_randint(struct pt2 *p)
{
    struct imp *im = p->im;
    ir_expr dims[TCC_MAX_RANK];
    double low = pt2_f(p, "low", 0), high = pt2_f(p, "high", 1);
    int n = sizes(p, dims);
    struct ir_value *u = n >= 0 ? random_values(p, IR_random_uniform, n, dims) : NULL;
    return pt2_out(p, 0, imp_formula_n(im, "floor(x * a + b)", IMP_NUMBERS(high - low, low), u));
}

/* randperm(n): where the sorted random numbers come from */
bool aten_randperm(struct pt2 *p)
{
    ir_expr n = pt2_e(p, "n", 0);
    struct ir_value *u = n ? random_values(p, IR_random_uniform, 1, &n) : NULL;
    pt2_ignore(p, "dtype");
    struct ir_node *node = u ? imp_topk(p->im, u, 0, n, false, true) : NULL;
    return node && pt2_out(p, 0, node->out[1]);
}

bool aten_bernoulli(struct pt2 *p)
{
    struct imp *im = p->im;
    struct ir_value *x = pt2_need(p, "self");
    struct ir_value *u = x ? random_values(p, IR_random_uniform, imp_rank(x), x->type->dim) : NULL;
    struct ir_value *chance =
        x && pt2_given(p, "p") ? imp_num(im, TCC_F32, pt2_f(p, "p", 0.5)) : imp_cast(im, x, TCC_F32);
    return u && chance && pt2_out(p, 0, imp_bin(im, IR_lt, u, chance));
}

enum { UNIFORM, NORMAL, EXPONENTIAL, GEOMETRIC, CAUCHY, LOG_NORMAL, WHOLE };

/* Of 1 - u, u uniform on [0, 1). */
static struct ir_value *minus_log(struct pt2 *p, struct ir_value *u)
{
    return imp_formula(p->im, "-log1p(-x)", u);
}

/* random(self, from, to): whole numbers, to excluded */
static struct ir_value *whole_numbers(struct pt2 *p, struct ir_value *u)
{
    double from = pt2_f(p, "from", 0), to = pt2_f(p, "to", 0);
    if (!pt2_given(p, "to"))
        return imp_unsupported(p->im, "random_() without an end"), NULL;
    return imp_formula_n(p->im, "floor(x * a) + b", IMP_NUMBERS(to - from, from), u);
}

/* uniform(self, from, to), normal_functional(self, mean, std), exponential(self, lambd), geometric(self, p),
 * cauchy(self, median, sigma), log_normal(self, mean, std), random(self, from, to): drawn anew, of the operand's
 * shape */
bool aten_drawn(struct pt2 *p)
{
    int arg = p->row->arg;
    struct imp *im = p->im;
    struct ir_value *x = pt2_need(p, "self");
    bool normal = arg == NORMAL || arg == LOG_NORMAL;
    struct ir_value *u =
        x ? random_values(p, normal ? IR_random_normal : IR_random_uniform, imp_rank(x), x->type->dim) : NULL;
    if (arg == EXPONENTIAL) {
        double scale = 1 / pt2_f(p, "lambd", 1);
        return pt2_out(p, 0, imp_with(im, IR_mul, minus_log(p, u), scale));
    }
    if (arg == GEOMETRIC) {
        double trials = -1 / log1p(-pt2_f(p, "p", 0.5));
        return pt2_out(p, 0, imp_formula_n(im, "ceil(max(x * a, 0.5))", IMP_NUMBERS(trials), minus_log(p, u)));
    }
    if (arg == CAUCHY) {
        double sigma = pt2_f(p, "sigma", 1), median = pt2_f(p, "median", 0);
        return pt2_out(p, 0, imp_formula_n(im, "tan((x - 0.5) * a) * b + c", IMP_NUMBERS(M_PI, sigma, median), u));
    }
    if (arg == LOG_NORMAL) {
        double mean = pt2_f(p, "mean", 1), std = pt2_f(p, "std", 2);
        return pt2_out(p, 0, imp_formula_n(im, "exp(x * a + b)", IMP_NUMBERS(std, mean), u));
    }
    if (arg == WHOLE)
        return pt2_out(p, 0, whole_numbers(p, u));
    double from = pt2_f(p, arg == NORMAL ? "mean" : "from", 0),
           by = arg == NORMAL ? pt2_f(p, "std", 1) : pt2_f(p, "to", 1) - from;
    return pt2_out(p, 0, imp_formula_n(im, "x * a + b", IMP_NUMBERS(by, from), u));
}

/* normal(mean, std): of tensors, which broadcast, or a tensor and a number; in place as normal_functional, whose row's
 * argument it has */
bool aten_normal(struct pt2 *p)
{
    bool number;
    if (pt2_given(p, "self")) /* in place */
        return aten_drawn(p);
    struct ir_value *mean = pt2_operand(p, "mean", &number), *std = pt2_operand(p, "std", &number);
    mean = imp_cast(p->im, mean, TCC_F32);
    std = pt2_given(p, "std") ? imp_cast(p->im, std, TCC_F32) : imp_num(p->im, TCC_F32, 1);
    struct ir_value *both = imp_bin(p->im, IR_add, mean, std);
    struct ir_value *drawn = both ? random_values(p, IR_random_normal, imp_rank(both), both->type->dim) : NULL;
    return pt2_out(p, 0, imp_bin(p->im, IR_add, mean, imp_bin(p->im, IR_mul, std, drawn)));
}

/* multinomial(self, num_samples, replacement): of a race, in which an element of weight w takes an exponential time
 * with rate w, the first; or without replacement the first num_samples */
bool aten_multinomial(struct pt2 *p)
{
    struct imp *im = p->im;
    struct ir_value *w = pt2_need(p, "self");
    ir_expr n = pt2_e(p, "num_samples", 1), dims[3];
    bool again = pt2_b(p, "replacement", false);
    if (!w || !n || imp_rank(w) < 1 || imp_rank(w) > 2)
        return w && n && imp_bad(im, "weights [n] or [rows, n] are expected");
    int rank = imp_rank(w);
    int64_t last = rank - 1;
    w = imp_cast(im, w, TCC_F32);
    if (!again) {
        struct ir_value *times = minus_log(p, random_values(p, IR_random_uniform, rank, w->type->dim));
        struct ir_node *first = times ? imp_topk(p->im, imp_bin(im, IR_div, w, times), last, n, true, true) : NULL;
        return first && pt2_out(p, 0, first->out[1]);
    }
    w = imp_unsqueeze(im, w, 1, &last);
    for (int k = 0; w && k <= rank; k++)
        dims[k] = k == last ? n : imp_dim(w, k);
    struct ir_value *times = w ? minus_log(p, random_values(p, IR_random_uniform, rank + 1, dims)) : NULL;
    struct ir_value *speed = imp_bin(im, IR_div, w, times);
    return pt2_out(
        p, 0,
        imp_op(im, IR_argmax, 1, &speed, IR_ATTRS(ir_attr_i(IR_ATTR_axis, rank), ir_attr_i(IR_ATTR_keepdims, 0))));
}

/* fft_fftfreq(n, d); fft_rfftfreq, arg 1: the middles of a transform's bins */
bool aten_frequencies(struct pt2 *p)
{
    int arg = p->row->arg;
    int64_t n = pt2_i(p, "n", 1);
    double step = pt2_f(p, "d", 1);
    pt2_ignore(p, "dtype");
    if (n < 1)
        return imp_bad(p->im, "%lld bins", (long long)n);
    ir_expr count = ir_const(p->ctx, arg ? n / 2 + 1 : n);
    struct ir_value *i = imp_iota(p->im, 1, &count, 0, TCC_F64);
    if (!arg)
        i = imp_formula_n(p->im, "select(lt(x, b), x, x - a)", IMP_NUMBERS((double)n, (double)((n + 1) / 2)), i);
    return pt2_out(p, 0, imp_with(p->im, IR_mul, i, 1 / ((double)n * step)));
}

/* prims.iota: start + step * (0 .. length - 1) */
bool aten_prims_iota(struct pt2 *p)
{
    ir_expr n = pt2_e(p, "length", 0), start = pt2_e(p, "start", 0), step = pt2_e(p, "step", 1);
    pt2_ignore(p, "dtype", "device", "requires_grad");
    return n && start && step && pt2_out(p, 0, progression(p, n, start, step));
}

/* -- Numbers */

bool aten_sym_size(struct pt2 *p)
{
    struct ir_value *x = pt2_need(p, "self");
    int64_t axis;
    return x && imp_rank(x) && pt2_axis(p, "dim", 0, imp_rank(x), &axis) && pt2_out_e(p, 0, imp_dim(x, (int)axis));
}

bool aten_sym_numel(struct pt2 *p)
{
    struct ir_value *x = pt2_need(p, "self");
    return x && pt2_out_e(p, 0, ir_num_elements(p->ctx, x->type));
}

/* Of a tensor in row-major order; arg 1: where it begins. */
bool aten_sym_stride(struct pt2 *p)
{
    int arg = p->row->arg;
    struct ir_value *x = pt2_need(p, "self");
    int64_t axis = 0;
    ir_expr e = ir_const(p->ctx, arg ? 0 : 1);
    if (!x || (!arg && !pt2_axis(p, "dim", 0, imp_rank(x), &axis)))
        return false;
    for (int k = (int)axis + 1; !arg && k < imp_rank(x); k++)
        e = ir_mul(p->ctx, e, imp_dim(x, k));
    return pt2_out_e(p, 0, e);
}

/* item, _local_scalar_dense: integers that the run decides become symbols, which sizes may be made of. */
bool aten_item(struct pt2 *p)
{
    struct ir_value *x = pt2_need(p, "self");
    ir_expr e;
    p->at.reads = true;
    if (!x)
        return false;
    if (tcc_is_int(imp_dtype(x)))
        return imp_bound_exprs(p->im, x, 1, -IMP_MAX_DIM, IMP_MAX_DIM, &e) == 1 && pt2_out_e(p, 0, e);
    return pt2_out(p, 0, imp_rank(x) ? imp_reshape(p->im, x, 0, NULL) : x);
}

/* Checks that PyTorch makes while it traces, or that the run makes anyway. */
bool aten_nothing(struct pt2 *p)
{
    json_t *inputs = js_array(p->at.node, "inputs"), *input;
    size_t k;
    json_array_foreach(inputs, k, input) if (js_string(input, "name")) pt2_ignore(p, js_string(input, "name"));
    return true;
}

/* _assert_async(self, assert_msg) and _assert_scalar, whose self is a number of the program: all elements hold. What is
 * said of sizes alone is the exporter's doing: of a result whose size the data decide it takes for granted that it has
 * two elements at least. */
bool aten_assert(struct pt2 *p)
{
    bool number;
    struct ir_value *holds = imp_cast(p->im, pt2_operand(p, "self", &number), TCC_BOOL);
    const char *message = pt2_s(p, "assert_msg", "an assertion of the program does not hold");
    const struct ir_tensor *known = holds ? ir_const_of(holds) : NULL;
    struct pt2_check check = {p->im->b.where, holds, message};
    if (holds && !(number && !p->at.reads) && !(known && known->nelems == 1 && *(const bool *)ir_tensor_at(known, 0)))
        VEC_PUSH(p->ctx, p->checks, check);
    return holds != NULL;
}

/* By a number of 0 to 30; NULL: by another one. */
static ir_expr shifted_left(struct ir_ctx *ctx, ir_expr a, ir_expr b)
{
    int64_t n;
    return ir_is_const(b, &n) && n >= 0 && n <= 30 ? ir_mulc(ctx, a, INT64_C(1) << n) : NULL;
}

static ir_expr shifted_right(struct ir_ctx *ctx, ir_expr a, ir_expr b)
{
    int64_t n;
    return ir_is_const(b, &n) && n >= 0 && n <= 30 ? ir_floordiv(ctx, a, ir_const(ctx, INT64_C(1) << n)) : NULL;
}

/* Python's arithmetic on sizes: the op on expressions where there is one, else on scalars. */
static const struct number_op {
    ir_expr (*on_exprs)(struct ir_ctx *ctx, ir_expr a, ir_expr b);
    enum ir_op op;
} number_ops[] = {
    {ir_add, IR_add}, {ir_sub, IR_sub},    {ir_mul, IR_mul},       {ir_floordiv, IR_div},   {ir_mod, IR_mod},
    {ir_max, IR_max}, {ir_min, IR_min},    {NULL, IR_eq},          {NULL, IR_ne},           {NULL, IR_lt},
    {NULL, IR_le},    {NULL, IR_gt},       {NULL, IR_ge},          {NULL, IR_and},          {NULL, IR_or},
    {NULL, IR_div},   {pt2_power, IR_pow}, {shifted_left, IR_shl}, {shifted_right, IR_shr},
};
enum { FLOORDIV = 3, MOD = 4, TRUEDIV = 15 };

static ir_expr integer_of(struct pt2 *p, const char *name)
{
    bool number;
    const char *kind;
    json_t *value = pt2_arg(p, name, &kind);
    ir_expr e = NULL;
    if (value && (!strcmp(kind, "as_sym_int") || !strcmp(kind, "as_int")))
        e = pt2_known_size(p, value);
    if (e)
        return e;
    struct ir_value *v = value ? pt2_operand(p, name, &number) : NULL;
    return v && tcc_is_int(imp_dtype(v)) && imp_exprs_of(p->im, v, 1, &e) == 1 ? e : NULL;
}

static const char *operand_name(struct pt2 *p, size_t k)
{
    return js_string(json_array_get(js_array(p->at.node, "inputs"), k), "name");
}

static struct pt2_py number_at(struct pt2 *p, size_t k)
{
    const char *name = operand_name(p, k);
    return (struct pt2_py){.e = name ? integer_of(p, name) : NULL, .argument = name};
}

static struct ir_value *scalar_of(struct pt2 *p, const struct pt2_py *x)
{
    bool number;
    if (x->v || x->argument)
        return x->v ? x->v : pt2_operand(p, x->argument, &number);
    return x->e ? imp_dim_value(p->im, x->e) : NULL;
}

static struct pt2_py scalar(struct ir_value *v)
{
    return (struct pt2_py){.v = v};
}

static struct pt2_py integer(ir_expr e)
{
    return (struct pt2_py){.e = e};
}

struct pt2_py pt2_numbers(struct pt2 *p, int arg, const struct pt2_py *x, const struct pt2_py *y)
{
    struct imp *im = p->im;
    const struct number_op *op = &number_ops[arg];
    ir_expr a = x->e, b = y->e;
    if (a && b && op->on_exprs) {
        if ((arg == FLOORDIV || arg == MOD) && b->hi < 1)
            return imp_unsupported(im, "a divisor that is not positive"), scalar(NULL);
        if ((arg == FLOORDIV || arg == MOD) && b->lo < 1) {
            if (!imp_assume(im, IR_LE, ir_const(p->ctx, 1), b, "a size is divided by one that is positive"))
                return scalar(NULL);
            b = ir_max(p->ctx, b, ir_const(p->ctx, 1));
        }
        ir_expr e = op->on_exprs(p->ctx, a, b);
        if (e)
            return integer(e);
    }
    struct ir_value *v = scalar_of(p, x), *w = v ? scalar_of(p, y) : NULL;
    if (!w)
        return scalar(NULL);
    enum tcc_dtype d = arg == TRUEDIV ? TCC_F64 : pt2_promote(v, true, w, true);
    v = imp_cast(im, v, d);
    w = imp_cast(im, w, d);
    if (arg == FLOORDIV && tcc_is_int(d))
        return scalar((w = pt2_not_zero(p, w)) ? pt2_floor_div(p, v, w) : NULL);
    v = imp_bin(im, op->op, v, w);
    return scalar(arg == FLOORDIV ? imp_un(im, IR_floor, v) : v);
}

static bool number_out(struct pt2 *p, const struct pt2_py *y)
{
    return y->e ? pt2_out_e(p, 0, y->e) : pt2_out(p, 0, y->v);
}

bool aten_number2(struct pt2 *p)
{
    struct pt2_py a = number_at(p, 0), b = number_at(p, 1);
    struct pt2_py y = pt2_numbers(p, p->row->arg, &a, &b);
    return number_out(p, &y);
}

/* sym_ite(condition, a, b): an integer that the run chooses becomes a symbol. */
bool aten_number_if(struct pt2 *p)
{
    struct imp *im = p->im;
    struct ir_value *v[3];
    bool number;
    ir_expr e;
    for (size_t k = 0; k < 3; k++) {
        const char *name = operand_name(p, k);
        v[k] = name ? pt2_operand(p, name, &number) : NULL;
        if (!v[k])
            return false;
    }
    enum tcc_dtype d = pt2_promote(v[1], true, v[2], true);
    struct ir_value *v2_cast = imp_cast(im, v[2], d);
    struct ir_value *v1_cast = imp_cast(im, v[1], d);
    struct ir_value *y = imp_select(im, imp_cast(im, v[0], TCC_BOOL), v1_cast, v2_cast);
    if (!y || !tcc_is_int(d))
        return pt2_out(p, 0, y);
    return imp_bound_exprs(im, y, 1, -IMP_MAX_DIM, IMP_MAX_DIM, &e) == 1 && pt2_out_e(p, 0, e);
}

struct pt2_py pt2_number_of(struct pt2 *p, int arg, const struct pt2_py *x)
{
    ir_expr e = x->e;
    if (e && arg == IR_neg)
        return integer(ir_mulc(p->ctx, e, -1));
    if (e && (!arg || arg == IR_trunc || arg == IR_ceil || arg == IR_floor))
        return integer(e);
    struct ir_value *v = scalar_of(p, x);
    if (!v || arg == IR_not)
        return scalar(v ? imp_with(p->im, IR_eq, v, 0) : NULL);
    v = arg ? imp_cast(p->im, v, TCC_F64) : v;
    if (!arg || arg == IR_cast)
        return scalar(v);
    v = imp_un(p->im, (enum ir_op)arg, v);
    if (arg == IR_sqrt || arg == IR_neg)
        return scalar(v);
    v = imp_cast(p->im, v, TCC_I64);
    return integer(v && imp_bound_exprs(p->im, v, 1, -IMP_MAX_DIM, IMP_MAX_DIM, &e) == 1 ? e : NULL);
}

/* neg, pos (arg 0), not_, sym_float, sym_int, math.ceil, math.floor, math.trunc, math.sqrt */
bool aten_number1(struct pt2 *p)
{
    struct pt2_py x = number_at(p, 0), y = pt2_number_of(p, p->row->arg, &x);
    return number_out(p, &y);
}

/* vander(x, N, increasing), linalg_vander(x, N) (arg 1, increasing, of rows): powers along a new axis, the last */
bool aten_vander(struct pt2 *p)
{
    struct ir_value *x = pt2_need(p, "x");
    bool rising = p->row->arg || pt2_b(p, "increasing", false);
    if (!x || imp_rank(x) < 1 || imp_rank(x) == TCC_MAX_RANK)
        return x && imp_bad(p->im, "%s; a vector is expected", ir_type_text(p->ctx, x->type));
    int64_t last = imp_rank(x);
    x = imp_cast(p->im, x, pt2_out_type(p, 0));
    ir_expr n = pt2_given(p, "N") ? pt2_e(p, "N", 0) : imp_dim(x, (int)last - 1), dims[TCC_MAX_RANK];
    if (!n || n->lo < 0)
        return n && imp_bad(p->im, "a number of columns that is negative");
    for (int k = 0; k < last; k++)
        dims[k] = imp_dim(x, k);
    dims[last] = n;
    struct ir_value *first = imp_with(p->im, IR_eq, imp_iota(p->im, (int)last + 1, dims, (int)last, TCC_I64), 0);
    struct ir_value *column = imp_unsqueeze(p->im, x, 1, &last);
    struct ir_value *y = imp_select(p->im, first, imp_like(p->im, x, 1), column);
    y = y ? imp_op(p->im, IR_cumprod, 1, &y, IR_ATTRS(ir_attr_i(IR_ATTR_axis, last))) : NULL;
    return pt2_out(p, 0, rising ? y : pt2_flip(p, y, 1, &last));
}
