/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ops.c - a scalar op becomes instructions, by the table of ways (formulas.c): in which type it is computed and
 * rounded, which casts are none, what stays the same along the lanes and is computed once. Floats of any type are
 * computed in float32 and rounded once.
 */
#include "compiler/neuron/ops_int.h"

static int class_of(enum tcc_dtype d)
{
    enum tcc_class c = tcc_dtype_class(d);
    return c == TCC_CLASS_FLOAT ? 0 : c == TCC_CLASS_BOOL ? 2 : 1;
}

enum neuron_alu nk_alu_of(enum ir_op op)
{
    const struct nk_way *w = &nk_ways[op][0];
    return w->how == BY_ALU ? (enum neuron_alu)w->what : NEURON_ALU_BYPASS;
}

bool nk_is_function(enum ir_op op, enum neuron_func *f)
{
    const struct nk_way *w = &nk_ways[op][0];
    *f = (enum neuron_func)w->what;
    return w->how == BY_FUNC;
}

/* f(x + a column), which waits, in one instruction. */
static value biased(struct nk_op o, enum neuron_func f, value x)
{
    struct nk_value *to = nk_new(o.nk, o.t, o.to);
    nk_activate(o.nk, o.t, f, to, x->half->x, 1, nk_bias(o.nk, o.t, x), NEURON_ACC_IDLE);
    return to;
}

/* i64 of which 32 bits say all: what keeps them so. */
static bool keeps_small(enum ir_op op)
{
    return (op >= IR_eq && op <= IR_select) || op == IR_min || op == IR_max;
}

static bool is_wide(struct nk_op o, const struct kn_insn *n, const struct nk_value *const *args)
{
    enum ir_op op = (enum ir_op)n->op;
    bool small = keeps_small(op);
    if (op == IR_cast)
        return nk_is_wide(o.from) || nk_is_wide(o.to);
    for (int i = op == IR_select; i < n->nargs; i++)
        small &= !args[i]->high;
    return nk_is_wide(o.from) && !small;
}

static double rounded(enum tcc_dtype d, double x)
{
    char bytes[8];
    tcc_store_f64(d, bytes, x);
    return tcc_load_f64(d, bytes);
}

/* Is it one instruction, of floats, that reads and writes floats of any length? */
static bool takes_any(const struct kn_insn *n)
{
    const struct nk_way *w = &nk_ways[n->op][0];
    return n->code == KN_SCALAR && (w->how == BY_ALU || w->how == BY_FUNC);
}

/* Does its last instruction write floats of any length? A quotient is a product with a reciprocal. */
static bool writes_any(const struct kn_insn *n)
{
    return takes_any(n) || (n->code == KN_SCALAR && n->op == IR_div);
}

/* The instruction's number, if it is one of those that the lanes run of nk's kernel; -1. */
static int lanes_number(const struct nk *nk, const struct kn_insn *n)
{
    const struct kn_kernel *k = nk->k;
    if (!nk->lanes || n < k->insns || n >= k->insns + k->ninsns)
        return -1;
    return (int)(n - k->insns);
}

/* Is the instruction one from `from` to the sum of a product, the sum included? */
static bool is_of_product(const struct kn_kernel *k, int insn, int from)
{
    return k->roles.form == KN_CONTRACTION && insn >= from && insn <= k->roles.contraction.reduce;
}

/* A cast to float32 of 16 bits whose readers take these as they are: engines compute in float32 whatever they read, but
 * factors of a product are given to the tensor engine as they are said to be. */
static bool is_view(const struct nk *nk, const struct kn_insn *n, enum tcc_dtype from, const struct nk_value *v)
{
    const struct kn_kernel *k = nk->k;
    int number = lanes_number(nk, n);
    if (number < 0 || n->dtype != TCC_F32 || !tcc_is_half(from) || v->is_number)
        return false;
    for (int i = number + 1; i < k->ninsns; i++)
        for (int a = 0; a < k->insns[i].nargs; a++)
            if (k->insns[i].arg[a] == number && ((!takes_any(&k->insns[i]) && k->insns[i].code != KN_REDUCE) ||
                                                 is_of_product(k, i, k->roles.contraction.mul)))
                return false;
    return true;
}

/* The type that an instruction's result has: the shorter one where all that is done with it is to round it to that. */
static enum tcc_dtype result_type(const struct nk *nk, const struct kn_insn *n, enum tcc_dtype from)
{
    int number = lanes_number(nk, n), reader;
    if (number < 0 || is_of_product(nk->k, number, 0) || n->dtype != TCC_F32 || !tcc_is_float(from) ||
        !writes_any(n) || (reader = nk_reader_of(nk->k, number)) < 0 || !kn_is_cast(&nk->k->insns[reader]) ||
        !tcc_is_half((enum tcc_dtype)nk->k->insns[reader].dtype))
        return (enum tcc_dtype)n->dtype;
    return (enum tcc_dtype)nk->k->insns[reader].dtype;
}

const struct nk_value *nk_scalar(struct nk *nk, const struct nk_tile *t, const struct kn_insn *n, enum tcc_dtype from,
                                 const struct nk_value *const *args)
{
    struct nk_op o = {.nk = nk, .t = t, .to = result_type(nk, n, from), .from = from, .insn = n};
    enum ir_op op = (enum ir_op)n->op;
    const struct nk_way *w = &nk_ways[op][class_of(op == IR_select ? o.to : from)];
    int mark = nk_mark(nk);
    value v, x[3];
    bool wide = is_wide(o, n, args), paired = false, one_word = true;
    if (op == IR_cast && args[0]->is_number && tcc_is_half(from) && n->dtype == TCC_F32)
        return nk_number(nk, TCC_F32, rounded(from, args[0]->number));
    if (w->how == BY_HOST && !wide)
        nk_refuse(nk, "the engines have no %s of %s", ir_op_info(op)->name, tcc_dtype_name(from));
    for (int i = 0; i < n->nargs; i++)
        paired |= args[i]->half != NULL;
    bool biases = paired && w->how == BY_FUNC;
    paired &= w->how == BY_ALU;
    for (int i = 0; i < n->nargs; i++) {
        x[i] = paired || biases ? args[i] : nk_computed(nk, t, args[i]);
        one_word &= !x[i]->high;
    }
    struct nk_tile part; /* what stays the same is computed once */
    if (!paired && !biases && !wide && one_word && nk_distinct(t, n->nargs, x, &part))
        return nk_spread(nk, t, &part, nk_scalar(nk, &part, n, from, x));
    /* Formulas take values; numbers stand beside another value. */
    if (!wide && w->how == BY_MAKE && x[0]->is_number && op != IR_cast && !(op == IR_div && !x[1]->is_number))
        x[0] = nk_solid(nk, t, x[0]);
    if (paired)
        v = nk_pair(nk, t, o.to, (enum neuron_alu)w->what, x[0], x[1]);
    else if (wide)
        v = nk_wide(nk, t, op, from, o.to, x, n->nargs);
    else if (w->how == BY_ALU)
        v = nk_tt(nk, t, o.to, (enum neuron_alu)w->what, x[0], x[1]);
    else if (biases)
        v = biased(o, (enum neuron_func)w->what, x[0]);
    else if (w->how == BY_FUNC)
        v = nk_act(nk, t, o.to, (enum neuron_func)w->what, x[0], 1);
    else
        v = op == IR_cast && is_view(nk, n, from, x[0]) ? x[0] : w->make(o, x);
    bool view = v == x[0] && op == IR_cast;
    if (v->dtype != o.to && !v->is_number && (view || v->type == nk_type(nk, o.to))) {
        struct nk_value *same = IR_NEW(nk->ctx, struct nk_value);
        *same = *v;
        same->dtype = (uint8_t)o.to;
        v = same;
    } else if (v->dtype != o.to) {
        v = nk_copy(nk, t, o.to, v);
    }
    nk_release_to(nk, mark, (const struct nk_value *const[]){v, v->high}, 2);
    return v;
}
