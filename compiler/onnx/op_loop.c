/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loop and Scan, by one builder. The types of a region's results are known only when it has been imported, and a loop's
 * carried values may change their shape: the loop is imported with the initial types first, and where the results
 * disagree once more with fresh symbols in those dims.
 */
#include "compiler/onnx/control_int.h"
#include "base/mutant.h"

struct looping {
    const struct onnx_graph *body;
    struct ir_value *trip, *cond; /* may be NULL */
    ir_expr trips;                /* number of iterations if it is certain, else NULL */
    bool certain;                 /* there is one iteration at least */
    int ncarried, nscan_in, nscan_out;
    struct ir_value **initial;
    struct ir_value **scan_in; /* the loop reads element `iteration` of these */
    const int64_t *in_axes;
    const bool *in_reverse;
    bool
        onnx_loop; /* the body has the iteration and the condition as its first inputs, the condition as first output */
    ir_type types[MAX_RESULTS];   /* of the carried values in the body */
    ir_type results[MAX_RESULTS]; /* of the node's outputs */
};

/* Element `t` of a Scan's input. */
static struct ir_value *scan_element(struct imp *im, const struct looping *l, int k, struct ir_value *t)
{
    struct ir_value *x = l->scan_in[k];
    int axis = (int)l->in_axes[k];
    if (l->in_reverse[k])
        t = imp_bin(im, IR_sub, imp_dim_value(im, ir_addc(im->ctx, imp_dim(x, axis), -1)), t);
    return imp_gather(im, x, t, axis);
}

/* What the body yields where it is wrong: values of the types that it should have. Sizes that names say of what is
 * collected are the region's own: nothing outside binds them. False: nobody says what the types are. */
static bool refuse_body(struct imp *im, const struct looping *l, const struct imp_attempt *a, struct ir_block *b,
                        struct ir_value **outs)
{
    ir_type types[2 * MAX_RESULTS];
    int n = l->ncarried + l->nscan_out;
    for (int k = 0; k < n; k++) {
        ir_expr dims[TCC_MAX_RANK];
        ir_type t = k < l->ncarried ? l->types[k] : imp_type_of(im, l->body->outputs[k + l->onnx_loop].type);
        if (!t || ir_type_impossible(t))
            return false;
        types[k] = t;
        if (k < l->ncarried || !ir_is_tensor(t))
            continue;
        for (int j = 0; j < t->rank; j++)
            dims[j] = MUTANT(403, ir_is_const(t->dim[j], NULL), true) ? t->dim[j] : NULL;
        types[k] = imp_fresh_type(im, (enum tcc_dtype)t->dtype, t->rank, dims);
    }
    return imp_attempt_refuse(im, a, b, n, types, outs);
}

/* The graph, in the loop's region; values in `outs` (condition first). A body that is wrong where it stands is an error
 * of the run in which there is an iteration, unless one is certain. */
static bool import_body(struct imp *im, const struct looping *l, struct ir_block *b, struct ir_value *go,
                        struct ir_value **outs)
{
    size_t n = (size_t)(1 + l->ncarried + l->nscan_out);
    struct imp_attempt tried;
    imp_attempt_begin(im, &tried);
    bool fine = imp_graph(im, l->body, outs + !l->onnx_loop);
    if (!l->onnx_loop)
        outs[0] = go;
    fine = fine && !control_poisoned(im, n, outs);
    im->malformed |= fine && l->onnx_loop && imp_dtype(outs[0]) != TCC_BOOL; /* at any size */
    if (fine && l->onnx_loop && imp_dtype(outs[0]) != TCC_BOOL)
        fine = imp_bad(im, "the body's condition is %s; a bool is expected", ir_type_text(im->ctx, outs[0]->type));
    enum imp_outcome how = imp_attempt_end(im, &tried, fine);
    if (how != IMP_WRONG)
        return how == IMP_FINE;
    outs[0] = go;
    if (!l->certain && refuse_body(im, l, &tried, b, outs + 1))
        return true;
    imp_attempt_tell(im, &tried);
    return false;
}

/* What the body gives for carried value k, as one of its type. A sequence that took other elements in stays as it is:
 * settle() finds the type that both have. */
static struct ir_value *carried(struct imp *im, const struct looping *l, struct ir_value *v, int k)
{
    ir_type t = l->types[k];
    bool other = v && t->kind == IR_T_SEQUENCE && v->type->kind == IR_T_SEQUENCE &&
                 control_common_type(im, t, v->type, UINT32_MAX, k) != t;
    return other ? v : control_as_type(im, v, t);
}

/* Imports the body into the loop node; yields are in `outs` (condition first). */
static bool loop_body(struct imp *im, const struct looping *l, struct ir_node *node, struct ir_value **outs,
                      struct ir_value **cond_param)
{
    struct imp_scope scope;
    struct ir_builder saved;
    const struct onnx_graph *g = l->body;
    struct ir_block *b = control_open(im, node, &scope, &saved);
    struct ir_value *t = ir_param_new(b, ir_scalar_type(im->ctx, TCC_I64), "iteration");
    struct ir_value *go = ir_param_new(b, ir_scalar_type(im->ctx, TCC_BOOL), "condition");
    *cond_param = go;
    bool fine = true;
    size_t at = 0;
    if (l->onnx_loop) {
        imp_bind_name(im, g->inputs[at++].name, t);
        imp_bind_name(im, g->inputs[at++].name, go);
    }
    for (int k = 0; k < l->ncarried; k++)
        imp_bind_name(im, g->inputs[at++].name, ir_param_new(b, l->types[k], NULL));
    for (int k = 0; k < l->nscan_in && fine; k++) {
        struct ir_value *x = scan_element(im, l, k, t);
        fine = x != NULL;
        imp_bind_name(im, g->inputs[at++].name, x);
    }
    fine = fine && import_body(im, l, b, go, outs);
    size_t n = (size_t)(1 + l->ncarried + l->nscan_out);
    if (fine && outs[0])
        outs[0] = imp_single(im, outs[0]);
    for (size_t k = 1; k < n && fine; k++) {
        if ((int)k <= l->ncarried)
            outs[k] = carried(im, l, outs[k], (int)k - 1);
        fine = outs[k] != NULL;
    }
    fine = fine && imp_yield(im, n, outs);
    control_close(im, &saved);
    return fine;
}

/* What nobody sees, since an iteration is certain and reads it not before it has written it, may have the type that the
 * iteration gives: paddle2onnx carries the variables of a loop's body in as scalars. */
static bool retype_unread(struct imp *im, struct looping *l, int k, const struct ir_value *param, ir_type got)
{
    ir_expr dims[TCC_MAX_RANK];
    ir_type was = l->initial[k]->type;
    if (!l->certain || ir_has_uses(param) || !ir_is_tensor(was) || !ir_is_tensor(got) || was->dtype != got->dtype ||
        was->rank == got->rank)
        return false;
    for (int j = 0; j < got->rank; j++)
        dims[j] = ir_is_const(got->dim[j], NULL) ? got->dim[j] : ir_const(im->ctx, 0);
    l->initial[k] = imp_splat(im, (enum tcc_dtype)got->dtype, 0, got->rank, dims);
    return l->initial[k] != NULL;
}

/* Types of the carried values that hold both what goes in and what comes out; *changed: another round is needed. */
static bool settle(struct imp *im, struct looping *l, const struct ir_node *node, struct ir_value **outs,
                   uint32_t first_inside, bool *changed)
{
    *changed = false;
    for (int k = 0; k < l->ncarried; k++) {
        ir_type got = outs[k + 1]->type;
        if (got == l->types[k])
            continue;
        if (retype_unread(im, l, k, node->regions[0]->params[2 + k], got)) {
            l->types[k] = control_outside_type(im, got, first_inside, k);
            *changed = true;
            continue;
        }
        ir_type t = control_common_type(im, l->types[k], got, first_inside, k);
        if (!t)
            return imp_bad(im, "carried value %d is %s before and %s after an iteration", k,
                           ir_type_text(im->ctx, l->types[k]), ir_type_text(im->ctx, got));
        /* A dim that was generalised already stays: its symbol stands for whatever comes. */
        if (t->kind == IR_T_TENSOR && got->kind == IR_T_TENSOR && t->rank >= 0 && l->types[k]->rank == t->rank) {
            bool open = true;
            for (int j = 0; j < t->rank; j++)
                open &= got->dim[j] == l->types[k]->dim[j] || l->types[k]->dim[j]->id >= first_inside;
            if (open)
                continue;
        }
        l->types[k] = t;
        *changed = true;
    }
    return true;
}

static void result_types(struct imp *im, struct looping *l, struct ir_value **outs, const struct ir_value *cond_param,
                         uint32_t first_inside)
{
    double always = 0;
    bool counted = l->trips && (outs[0] == cond_param || (imp_scalar_of(outs[0], &always) && always));
    for (int k = 0; k < l->ncarried; k++) {
        /* Where the type had to be generalised the result has symbols of its own. */
        l->results[k] =
            l->types[k] == l->initial[k]->type ? l->types[k] : control_outside_type(im, l->types[k], first_inside, k);
    }
    for (int k = 0; k < l->nscan_out; k++) {
        ir_type e = outs[1 + l->ncarried + k]->type;
        ir_expr dims[TCC_MAX_RANK];
        int slot = l->ncarried + k;
        if (e->kind != IR_T_TENSOR || e->rank < 0 || e->rank + 1 > TCC_MAX_RANK) {
            l->results[slot] = ir_unranked_type(im->ctx, e->kind == IR_T_TENSOR ? (enum tcc_dtype)e->dtype : TCC_F32);
            continue;
        }
        dims[0] = counted ? l->trips : imp_fresh_dim(im, slot, 0);
        for (int j = 0; j < e->rank; j++)
            dims[j + 1] = control_outside_dim(im, e->dim[j], first_inside, slot, j + 1);
        l->results[slot] = ir_tensor_type(im->ctx, (enum tcc_dtype)e->dtype, e->rank + 1, dims);
    }
}

static struct ir_node *build_loop(struct imp *im, struct looping *l)
{
    int nout = l->ncarried + l->nscan_out;
    struct ir_value **outs = IR_NEWN(im->ctx, nout + 4, struct ir_value *),
                    **in = IR_NEWN(im->ctx, l->ncarried + 2, struct ir_value *);
    for (int k = 0; k < l->ncarried; k++)
        l->types[k] = l->initial[k]->type;
    for (int round = 0; round < 4; round++) {
        uint32_t first_inside = control_mark(im);
        bool changed;
        struct ir_value *cond_param;
        in[0] = l->trip;
        in[1] = l->cond;
        for (int k = 0; k < l->ncarried; k++) {
            /* Fresh symbols of the generalised types belong to the region, so they are made after the mark. */
            if (round && l->types[k] != l->initial[k]->type && l->types[k]->kind == IR_T_TENSOR &&
                l->types[k]->rank > 0) {
                ir_expr dims[TCC_MAX_RANK];
                ir_type t = l->types[k], from = l->initial[k]->type;
                for (int j = 0; j < t->rank; j++)
                    dims[j] = t->dim[j] == from->dim[j] ? t->dim[j] : imp_fresh_dim(im, k, j);
                l->types[k] = ir_tensor_type(im->ctx, (enum tcc_dtype)t->dtype, t->rank, dims);
            }
            in[k + 2] = control_as_type(im, l->initial[k], l->types[k]);
        }
        for (int k = 0; k < nout; k++)
            l->results[k] = k < l->ncarried ? l->types[k] : ir_scalar_type(im->ctx, TCC_BOOL);
        struct ir_node *node = ir_build_typed(
            &im->b, IR_loop, 2 + l->ncarried, in,
            IR_ATTRS(ir_attr_i(IR_ATTR_nscan, l->nscan_out), ir_attr_types(IR_ATTR_types, nout, l->results)), nout,
            l->results);
        if (!node || !loop_body(im, l, node, outs, &cond_param) || !settle(im, l, node, outs, first_inside, &changed))
            return NULL;
        if (!changed) {
            result_types(im, l, outs, cond_param, first_inside);
            ir_set_attr(node, ir_attr_types(IR_ATTR_types, nout, l->results));
            for (int k = 0; k < nout; k++)
                node->out[k]->type = l->results[k];
            return node;
        }
        ir_remove(node);
    }
    return imp_unsupported(im, "the types of the carried values do not settle"), NULL;
}

bool onnx_op_loop(struct imp *im)
{
    struct looping l = {
        .body = control_graph(im, "body"), .trip = imp_in(im, 0), .cond = imp_in(im, 1), .onnx_loop = true};
    double on = 1;
    if (!l.body)
        return false;
    l.ncarried = imp_nin(im) - 2;
    l.nscan_out = (int)l.body->output_count - 1 - l.ncarried;
    if (l.ncarried < 0 || l.nscan_out < 0 || (int)l.body->input_count != l.ncarried + 2 ||
        imp_nout(im) > l.ncarried + l.nscan_out)
        return imp_bad(im, "%d operands, a body with %zu inputs and %zu outputs, %d results", imp_nin(im),
                       l.body->input_count, l.body->output_count, imp_nout(im));
    l.initial = IR_NEWN(im->ctx, l.ncarried + 1, struct ir_value *);
    for (int k = 0; k < l.ncarried; k++) {
        if (!(l.initial[k] = imp_in(im, k + 2)))
            return imp_bad(im, "operand %d is missing", k + 2);
    }
    if ((l.trip && !(l.trip = control_operand(im, 0))) || (l.cond && !(l.cond = control_operand(im, 1))))
        return false;
    if (l.cond && imp_dtype(l.cond) != TCC_BOOL)
        return imp_bad(im, "the condition is %s; a bool is expected", ir_type_text(im->ctx, l.cond->type));
    if (l.trip)
        l.trip = imp_cast(im, l.trip, TCC_I64);
    if (l.cond && imp_scalar_of(l.cond, &on) && on)
        l.cond = NULL;
    ir_expr trips;
    if (l.trip && !l.cond && imp_exprs_of(im, l.trip, 1, &trips) == 1)
        l.trips = ir_max(im->ctx, ir_const(im->ctx, 0), trips);
    double most = 1;
    l.certain = !l.cond && (!l.trip || (imp_scalar_of(l.trip, &most) && most >= 1));
    struct ir_node *n = build_loop(im, &l);
    for (int k = 0; n && k < imp_nout(im); k++) {
        struct ir_value *v = n->out[k];
        ir_type declared = !ir_is_tensor(v->type) && imp_wants(im, k) ? imp_declared(im, im->node->outputs[k]) : NULL;
        if (declared && ir_is_tensor(declared) && v->type->kind == IR_T_TENSOR)
            v = imp_unbox(im, v, imp_fresh_type(im, (enum tcc_dtype)declared->dtype, declared->rank, declared->dim));
        else if (declared && v->type->kind == IR_T_OPTIONAL && declared->kind != IR_T_OPTIONAL)
            v = control_as_type(im, v, v->type->elem);
        if (!imp_out(im, k, v))
            return false;
    }
    return n != NULL;
}

/* -- Scan */

static bool direction_list(struct imp *im, const char *name, int n, bool *out)
{
    int given;
    const int64_t *v = imp_ints(im, name, &given);
    if (v && given != n)
        return imp_bad(im, "%s has %d values, %d are expected", name, given, n);
    for (int k = 0; k < n; k++)
        out[k] = v && v[k];
    return true;
}

/* Moves axis 0 of a collected value to where the node wants it, and turns it round if asked. */
static struct ir_value *place_output(struct imp *im, struct ir_value *v, int64_t axis, bool reverse)
{
    ir_expr start[TCC_MAX_RANK], size[TCC_MAX_RANK], step[TCC_MAX_RANK];
    int64_t perm[TCC_MAX_RANK];
    int rank = imp_rank(v);
    if (!imp_axis(im, &axis, rank))
        return NULL;
    for (int k = 0; k < rank; k++) {
        bool back = reverse && !k;
        start[k] = back ? ir_addc(im->ctx, imp_dim(v, 0), -1) : ir_const(im->ctx, 0);
        size[k] = imp_dim(v, k);
        step[k] = ir_const(im->ctx, back ? -1 : 1);
        perm[k] = k == axis ? 0 : k < axis ? k + 1 : k;
    }
    return imp_transpose(im, imp_slice(im, v, start, size, step), perm);
}

/* One scan over operands first .. ; `drop`: the batch axis that opset 8 put in front of everything. */
static bool scan(struct imp *im, struct looping *l, const int64_t *out_axes, const bool *out_reverse,
                 struct ir_value **results)
{
    l->trips = imp_dim(l->scan_in[0], (int)l->in_axes[0]);
    l->certain = l->trips->lo >= 1;
    l->trip = imp_dim_value(im, l->trips);
    struct ir_node *n = build_loop(im, l);
    for (int k = 0; n && k < l->ncarried + l->nscan_out; k++) {
        int s = k - l->ncarried;
        if (s >= 0 && !ir_is_tensor(n->out[k]->type))
            return imp_unsupported(im, "result %d has a rank that is known only at run time", k);
        results[k] = s < 0 ? n->out[k] : place_output(im, n->out[k], out_axes[s], out_reverse[s]);
        if (!results[k])
            return false;
    }
    return n != NULL;
}

static bool read_scan(struct imp *im, struct looping *l, int first)
{
    l->body = control_graph(im, "body");
    l->nscan_in = (int)imp_i(im, "num_scan_inputs", 0);
    l->ncarried = imp_nin(im) - first - l->nscan_in;
    if (!l->body)
        return false;
    l->nscan_out = (int)l->body->output_count - l->ncarried;
    if (l->nscan_in < 1 || l->ncarried < 0 || l->nscan_out < 0 ||
        (int)l->body->input_count != l->ncarried + l->nscan_in)
        return imp_bad(im, "%d operands, %d of them scanned, and a body with %zu inputs and %zu outputs", imp_nin(im),
                       l->nscan_in, l->body->input_count, l->body->output_count);
    l->initial = IR_NEWN(im->ctx, l->ncarried + 1, struct ir_value *);
    l->scan_in = IR_NEWN(im->ctx, l->nscan_in + 1, struct ir_value *);
    for (int k = 0; k < l->ncarried + l->nscan_in; k++) {
        struct ir_value *v = imp_tensor(im, first + k);
        if (!v)
            return false;
        *(k < l->ncarried ? &l->initial[k] : &l->scan_in[k - l->ncarried]) = v;
    }
    return true;
}

/* Opset 8: the first axis of everything is a batch; each of its elements is scanned on its own. The batch's size must
 * be known. */
static bool scan8(struct imp *im)
{
    struct looping l = {0};
    int64_t batch, zero = 0;
    struct ir_value *rows[64], *each[64][32];
    if (imp_has(im, 0))
        return imp_unsupported(im, "sequence_lens");
    if (!read_scan(im, &l, 1))
        return false;
    int n = l.ncarried + l.nscan_out;
    if (imp_rank(l.scan_in[0]) && !ir_is_const(imp_dim(l.scan_in[0], 0), &batch))
        return imp_open_size(im, imp_dim(l.scan_in[0], 0), NULL, "a batch whose size is known only at run time");
    if (!imp_rank(l.scan_in[0]) || batch > 64 || batch < 1 || n > 32)
        return imp_unsupported(im, "a batch of 0 or more than 64, or more than 32 results");
    bool *in_reverse = IR_NEWN(im->ctx, l.nscan_in, bool), *out_reverse = IR_NEWN(im->ctx, l.nscan_out + 1, bool);
    int64_t *in_axes = IR_NEWN(im->ctx, l.nscan_in, int64_t), *out_axes = IR_NEWN(im->ctx, l.nscan_out + 1, int64_t);
    if (!direction_list(im, "directions", l.nscan_in, in_reverse))
        return false;
    for (int b = 0; b < batch; b++) {
        struct looping one = l;
        one.initial = IR_NEWN(im->ctx, l.ncarried + 1, struct ir_value *);
        one.scan_in = IR_NEWN(im->ctx, l.nscan_in + 1, struct ir_value *);
        one.in_axes = in_axes;
        one.in_reverse = in_reverse;
        ir_expr at = ir_const(im->ctx, b), single = ir_const(im->ctx, 1);
        for (int k = 0; k < l.ncarried; k++)
            one.initial[k] = imp_squeeze(im, imp_slice1(im, l.initial[k], 0, at, single), 1, &zero);
        for (int k = 0; k < l.nscan_in; k++)
            one.scan_in[k] = imp_squeeze(im, imp_slice1(im, l.scan_in[k], 0, at, single), 1, &zero);
        if (!scan(im, &one, out_axes, out_reverse, each[b]))
            return false;
        for (int k = 0; k < n; k++)
            each[b][k] = imp_unsqueeze(im, each[b][k], 1, &zero);
    }
    for (int k = 0; k < n && k < imp_nout(im); k++) {
        for (int b = 0; b < batch; b++)
            rows[b] = each[b][k];
        if (!imp_out(im, k, imp_concat(im, (int)batch, rows, 0)))
            return false;
    }
    return true;
}

bool onnx_op_scan(struct imp *im)
{
    struct looping l = {0};
    int given;
    if (im->row->arg == 8)
        return scan8(im);
    if (!read_scan(im, &l, 0))
        return false;
    bool *in_reverse = IR_NEWN(im->ctx, l.nscan_in, bool), *out_reverse = IR_NEWN(im->ctx, l.nscan_out + 1, bool);
    int64_t *in_axes = IR_NEWN(im->ctx, l.nscan_in, int64_t), *out_axes = IR_NEWN(im->ctx, l.nscan_out + 1, int64_t);
    const int64_t *axes = imp_ints(im, "scan_input_axes", &given);
    for (int k = 0; k < l.nscan_in; k++) {
        in_axes[k] = axes && k < given ? axes[k] : 0;
        if (!imp_axis(im, &in_axes[k], imp_rank(l.scan_in[k])))
            return false;
    }
    axes = imp_ints(im, "scan_output_axes", &given);
    for (int k = 0; k < l.nscan_out; k++)
        out_axes[k] = axes && k < given ? axes[k] : 0;
    if (!direction_list(im, "scan_input_directions", l.nscan_in, in_reverse) ||
        !direction_list(im, "scan_output_directions", l.nscan_out, out_reverse))
        return false;
    l.in_axes = in_axes;
    l.in_reverse = in_reverse;
    struct ir_value **results = IR_NEWN(im->ctx, l.ncarried + l.nscan_out + 1, struct ir_value *);
    if (!scan(im, &l, out_axes, out_reverse, results))
        return false;
    for (int k = 0; k < imp_nout(im) && k < l.ncarried + l.nscan_out; k++) {
        if (!imp_out(im, k, results[k]))
            return false;
    }
    return true;
}
