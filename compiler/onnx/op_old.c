/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operators as ONNX's first versions (opsets 1 to 6) have them, where a later one says the same in other words: the
 * node is restated in those words, and the operator's next row of ops.def reads it. The row's argument says how.
 * Behind them operators that ONNX had on trial then, and that no table of it has any more; converters of those years
 * wrote them, and ONNX Runtime has them.
 */
#include "compiler/onnx/import_int.h"

#include <string.h>
#include <strings.h>

/* The node being imported, with operands that stand for its own, and attributes in place of its own. */
struct restated {
    struct onnx_node node;
    struct onnx_attr attrs[4];
};

static void set_attr(struct restated *r, struct onnx_attr a)
{
    r->attrs[r->node.attr_count++] = a;
    r->node.attrs = r->attrs;
}

/* The same attribute, if it is there, by another name. */
static void keep_attr(struct imp *im, struct restated *r, const char *name, const char *as)
{
    const struct onnx_attr *a = imp_attr(im, name);
    if (!a)
        return;
    struct onnx_attr kept = *a;
    kept.name = as;
    set_attr(r, kept);
}

static bool set_second(struct imp *im, struct ir_value *v)
{
    if (v)
        imp_bind_name(im, im->node->inputs[1], v);
    return v != NULL;
}

/* "Suffix matching is assumed" but for `axis`: where operand 1 begins in operand 0's dims. One element fits
 * anywhere. */
static struct ir_value *begin_at(struct imp *im, const struct ir_value *x, struct ir_value *y)
{
    int64_t axis = imp_i(im, "axis", 0), behind[TCC_MAX_RANK];
    int n = imp_rank(x), m = imp_rank(y);
    bool one = true;
    for (int k = 0; k < m; k++)
        one = one && ir_is_value(imp_dim(y, k), 1);
    if (one)
        return imp_reshape(im, y, 0, NULL);
    if (m > n)
        return imp_bad(im, "operand 1 has %d dims, operand 0 has %d", m, n), NULL;
    if (!imp_attr(im, "axis"))
        axis = n - m;
    if (!imp_axis(im, &axis, n))
        return NULL;
    if (axis + m > n)
        return imp_bad(im, "%d dims from axis %lld on; operand 0 has %d", m, (long long)axis, n), NULL;
    for (int k = 0; k < m; k++)
        if (ir_expr_eq(im->ctx, imp_dim(x, (int)axis + k), imp_dim(y, k)) == IR_NO && !ir_is_value(imp_dim(y, k), 1))
            return imp_bad(im, "operand 1, %s, does not fit into operand 0, %s", ir_type_text(im->ctx, y->type),
                           ir_type_text(im->ctx, x->type)),
                   NULL;
    for (int k = 0; k < n - m - (int)axis; k++)
        behind[k] = m + k;
    return imp_unsqueeze(im, y, n - m - (int)axis, behind);
}

/* Add, And, Pow...: operand 1 broadcasts to operand 0's dims with `broadcast`, else it has them. */
static bool aligned(struct imp *im, struct restated *r)
{
    const char *words[TCC_MAX_RANK];
    struct ir_value *x = imp_tensor(im, 0), *y = x ? imp_tensor(im, 1) : NULL;
    if (!y)
        return false;
    r->node.attr_count = 0;
    if (imp_i(im, "broadcast", 0))
        return set_second(im, begin_at(im, x, y));
    bool same = imp_rank(x) == imp_rank(y);
    for (int k = 0; same && k < imp_rank(x); k++)
        same = ir_expr_eq(im->ctx, imp_dim(x, k), imp_dim(y, k)) != IR_NO;
    if (!same)
        return imp_bad(im, "operands of %s and %s; without broadcast = 1 they have the same dims",
                       ir_type_text(im->ctx, x->type), ir_type_text(im->ctx, y->type));
    for (int k = 0; k < TCC_MAX_RANK; k++)
        words[k] = "the operands' dims differ, and broadcast is not 1";
    return set_second(im, imp_with_dims(im, y, x->type->dim, words));
}

/* Cast: `to` is the name of an element type. */
static bool type_by_name(struct imp *im, struct restated *r)
{
    const char *name = imp_s(im, "to", "");
    for (int64_t k = 1; k < ONNX_DTYPE_COUNT; k++) {
        const char *known = onnx_dtype_name(k);
        if (!known || strcasecmp(known, name))
            continue;
        set_attr(r, (struct onnx_attr){.name = "to", .ref = "", .type = ONNX_ATTR_INT, .i = k});
        return true;
    }
    return imp_bad(im, "to = '%s' is no element type", ir_shown(name));
}

static bool paddings(struct imp *im, struct restated *r)
{
    keep_attr(im, r, "paddings", "pads");
    keep_attr(im, r, "mode", "mode");
    keep_attr(im, r, "value", "value");
    return true;
}

/* Split: sizes that are an operand have the type of what is split. */
static bool sizes_as_values(struct imp *im, struct restated *r)
{
    keep_attr(im, r, "axis", "axis");
    keep_attr(im, r, "split", "split");
    return !imp_has(im, 1) || set_second(im, imp_cast(im, imp_tensor(im, 1), TCC_I64));
}

/* Tile: how many copies, and along which one axis; both have the type of what is repeated. */
static bool tiles(struct imp *im, struct restated *r)
{
    struct ir_value *x = imp_tensor(im, 0), *by = imp_tensor(im, 1), *along = imp_tensor(im, 2);
    ir_expr times[TCC_MAX_RANK], copies;
    double at;
    if (!x || !by || !along)
        return false;
    if (!imp_scalar_of(along, &at))
        return imp_unsupported(im, "an axis that is known only at run time");
    int64_t axis = (int64_t)at;
    if (!imp_axis(im, &axis, imp_rank(x)) ||
        imp_bound_exprs(im, imp_cast(im, by, TCC_I64), 1, 0, IMP_MAX_DIM, &copies) < 0)
        return false;
    for (int k = 0; k < imp_rank(x); k++)
        times[k] = k == axis ? copies : ir_const(im->ctx, 1);
    r->node.input_count = 2;
    return set_second(im, imp_dims(im, imp_rank(x), times));
}

/* Upsample: of pictures, by two attributes; "bilinear" is "linear" today. */
static bool scales(struct imp *im, struct restated *r)
{
    bool linear = !strcmp(imp_s(im, "mode", "nearest"), "bilinear");
    float *list = IR_NEWN(im->ctx, 4, float);
    if (imp_rank(imp_in(im, 0)) != 4)
        return imp_bad(im, "x[n, c, height, width] is expected");
    if (!imp_attr(im, "height_scale") || !imp_attr(im, "width_scale"))
        return imp_bad(im, "height_scale and width_scale are expected");
    list[0] = list[1] = 1;
    list[2] = (float)imp_f(im, "height_scale", 1);
    list[3] = (float)imp_f(im, "width_scale", 1);
    set_attr(r, (struct onnx_attr){.name = "scales", .ref = "", .type = ONNX_ATTR_FLOATS, .count = 4, .floats = list});
    struct onnx_attr mode = {.name = "mode", .ref = "", .type = ONNX_ATTR_STRING};
    mode.s = linear ? (struct onnx_str){"linear", 6} : (struct onnx_str){"nearest", 7};
    set_attr(r, mode);
    return true;
}

/* Selu: constants of five digits. */
static bool rough_constants(struct imp *im, struct restated *r)
{
    set_attr(r,
             (struct onnx_attr){
                 .name = "alpha", .ref = "", .type = ONNX_ATTR_FLOAT, .f = (float)imp_f(im, "alpha", (double)1.6732f)});
    set_attr(r,
             (struct onnx_attr){
                 .name = "gamma", .ref = "", .type = ONNX_ATTR_FLOAT, .f = (float)imp_f(im, "gamma", (double)1.0507f)});
    return true;
}

static bool (*const ways[])(struct imp *im, struct restated *r) = {
    [OLD_ALIGNED] = aligned,
    [OLD_TYPE_BY_NAME] = type_by_name,
    [OLD_PADDINGS] = paddings,
    [OLD_SIZES_AS_VALUES] = sizes_as_values,
    [OLD_TILES] = tiles,
    [OLD_SCALES] = scales,
    [OLD_ROUGH_CONSTANTS] = rough_constants,
};

bool onnx_op_old(struct imp *im)
{
    bool later = false;
    const struct onnx_node *node = im->node;
    const struct imp_row *own = imp_find_row(im->domain, node->op, im->opset, &later);
    const struct imp_row *next = imp_find_row(im->domain, node->op, own->until + 1, &later);
    struct imp_scope scope;
    struct restated *r = IR_NEW(im->ctx, struct restated);
    r->node = *node;
    r->node.attr_count = 0;
    imp_push_scope(im, &scope);
    bool fine = ways[im->row->arg](im, r);
    im->node = &r->node;
    fine = fine && imp_build_row(im, next);
    im->node = node;
    imp_pop_scope(im);
    return fine;
}

/* -- On trial */

static struct ir_value *scaled(struct imp *im, enum ir_op op, struct ir_value *x, const char *attr, double otherwise)
{
    return imp_bin(im, op, x, imp_like(im, x, imp_f(im, attr, otherwise)));
}

/* Affine: alpha x + beta; ParametricSoftplus: alpha log(1 + exp(beta x)); ScaledTanh: alpha tanh(beta x); Scale */
bool onnx_op_trial_map(struct imp *im)
{
    int arg = im->row->arg;
    struct ir_value *x = imp_tensor(im, 0);
    if (!x || !imp_is_float(x))
        return x && imp_bad(im, "floats are expected, got %s", ir_type_text(im->ctx, x->type));
    if (arg == TRIAL_SCALE)
        return imp_out(im, 0, scaled(im, IR_mul, x, "scale", 1));
    if (arg == TRIAL_AFFINE)
        return imp_out(im, 0, scaled(im, IR_add, scaled(im, IR_mul, x, "alpha", 1), "beta", 0));
    x = imp_un(im, arg == TRIAL_SOFTPLUS ? IR_softplus : IR_tanh, scaled(im, IR_mul, x, "beta", 1));
    return imp_out(im, 0, scaled(im, IR_mul, x, "alpha", 1));
}

/* ImageScaler: scale x + bias[channel] */
bool onnx_op_image_scaler(struct imp *im)
{
    struct ir_value *x = imp_tensor(im, 0);
    int n;
    const float *bias = imp_floats(im, "bias", &n);
    int64_t count = n, dim = n;
    if (!x)
        return false;
    if (imp_rank(x) != 4 || (ir_is_const(imp_dim(x, 1), &dim) && bias && dim != n))
        return imp_bad(im, "x[n, c, height, width] and a bias for each channel are expected");
    struct ir_value *y = scaled(im, IR_mul, x, "scale", 1);
    if (!bias)
        return imp_out(im, 0, y);
    struct ir_tensor *t = imp_keep(im, ir_tensor_new(TCC_F32, 1, &count));
    memcpy((void *)(uintptr_t)t->data, bias, (size_t)n * sizeof *bias);
    struct ir_value *by = imp_cast(im, imp_const(im, ir_tensor_ref(t)), imp_dtype(x));
    return imp_assume(im, IR_EQ, imp_dim(x, 1), ir_const(im->ctx, n), "there is a bias for each channel") &&
           imp_out(im, 0, imp_bin(im, IR_add, y, imp_along(im, by, 1, 4)));
}

/* Crop: border = left, top, right, bottom; scale = height and width, counted from left and top */
bool onnx_op_crop(struct imp *im)
{
    struct ir_value *x = imp_tensor(im, 0);
    int n, nsizes;
    const int64_t *border = imp_ints(im, "border", &n), *sizes = imp_ints(im, "scale", &nsizes);
    if (!x)
        return false;
    if (imp_rank(x) != 4 || !border || n != 4 || (sizes && nsizes != 2))
        return imp_bad(im, "x[n, c, height, width], a border of 4 and a scale of 2 integers are expected");
    for (int k = 0; x && k < 2; k++) {
        ir_expr size = imp_dim(x, 2 + k), from = ir_const(im->ctx, border[1 - k]), zero = ir_const(im->ctx, 0);
        ir_expr left = sizes ? ir_const(im->ctx, sizes[k]) : ir_addc(im->ctx, size, -border[1 - k] - border[3 - k]);
        if (!imp_assume(im, IR_LE, zero, from, "the border is inside") ||
            !imp_assume(im, IR_LE, zero, left, "the border is inside") ||
            !imp_assume(im, IR_LE, ir_add(im->ctx, from, left), size, "the border is inside"))
            return false;
        x = imp_slice1(im, x, 2 + k, from, left);
    }
    return imp_out(im, 0, x);
}

/* MeanVarianceNormalization: of each channel's picture, or of all of a sample */
bool onnx_op_trial_mvn(struct imp *im)
{
    struct ir_value *x = imp_tensor(im, 0);
    int64_t axes[TCC_MAX_RANK];
    int n = 0;
    if (!x || imp_rank(x) < 3)
        return x && imp_bad(im, "x[n, c, spatial...] is expected");
    for (int k = imp_i(im, "across_channels", 0) ? 1 : 2; k < imp_rank(x); k++)
        axes[n++] = k;
    struct ir_value *wide = imp_wide(im, x);
    struct ir_value *y = imp_i(im, "normalize_variance", 1)
                             ? imp_normalise(im, wide, n, axes, 1e-9, NULL, NULL)
                             : imp_bin(im, IR_sub, wide, imp_mean(im, wide, n, axes, true));
    return y && imp_out(im, 0, imp_cast(im, y, imp_dtype(x)));
}
