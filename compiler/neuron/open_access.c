/* SPDX-License-Identifier: Apache-2.0 */
/*
 * open_access.c - of a kernel with sizes that only the run knows: its units, what it reads one by one, and how each
 * access goes on from one unit to the next. open.c makes turns of that.
 */
#include <string.h>

#include "compiler/neuron/open_int.h"

enum { MOST_COPIES = 8 };

bool nk_open_refuse(struct nk_open *o, const char *why)
{
    o->why = ir_internf(o->ctx, "sizes that only the run knows (--dim says them): %s", why);
    return false;
}

/* -- The units -- */

bool nk_uses_size(const struct kn_kernel *k, ir_expr e)
{
    bool any = false;
    for (int s = 0; e && s < k->nsizes; s++)
        any |= ir_uses_sym(e, k->sizes[s]);
    return any;
}

bool nk_find_units(struct nk_open *o)
{
    const struct kn_kernel *k = o->k;
    if (k->nsizes > NEURON_SIZES || k->split.combine)
        return nk_open_refuse(o, "more of them than registers hold");
    for (int d = 0; d < k->ndims; d++) {
        struct nk_open_axis *a = &o->axis[o->naxes];
        if (!nk_uses_size(k, k->dims[d].extent))
            continue;
        if (o->naxes == NK_OPEN)
            return nk_open_refuse(o, "of more than three dims");
        if (k->dims[d].role == KN_PIECES)
            return nk_open_refuse(o, "of a dim in pieces");
        *a = (struct nk_open_axis){.dim = d, .var = k->dims[d].var, .each = 1};
        if (!nk_factors(k, k->dims[d].extent, &a->each, &a->power))
            return nk_open_refuse(o, "of which a dim is no multiple");
        o->naxes++;
    }
    return true;
}

bool nk_open_elements(struct nk_open *o, const struct kn_operand *x, int64_t *each, uint16_t *power)
{
    *each = 1;
    *power = 0;
    for (int i = 0; i < x->rank; i++)
        if (!nk_factors(o->k, x->dims[i], each, power))
            return nk_open_refuse(o, "of which an operand is no multiple");
    int n = 0;
    for (int s = 0; s < NEURON_SIZES; s++)
        n += *power >> 2 * s & NEURON_POWER;
    return n <= NEURON_SIZES || nk_open_refuse(o, "of which an operand has too many");
}

/* Does nothing but accesses have the index, for their first axis? What is out of its bounds is out of the tensor's. */
static bool is_first(const struct kn_kernel *k, int insn)
{
    const struct kn_insn *n = &k->insns[insn];
    bool fine = true;
    for (int i = 0; i < k->ninsns && fine; i++) {
        const struct kn_insn *x = &k->insns[i];
        bool moves = x->code == KN_LOAD || x->code == KN_STORE;
        if (x == n)
            continue;
        fine = moves ? !kn_guards_use(x, n->expr) : !kn_insn_uses(x, n->expr);
        for (int p = 1; p < x->nindex; p++)
            fine &= !ir_uses_sym(x->index[p], n->expr);
        for (int a = 0; a < x->nargs; a++)
            fine &= x->arg[a] != insn;
    }
    return fine;
}

/* A number's value: one that is loaded, times 1 or -1, plus a number. NULL: it is another one. */
static const struct kn_insn *loaded(const struct kn_kernel *k, int insn, int64_t *times, int64_t *plus)
{
    const struct kn_insn *n = &k->insns[insn], *a = n->nargs ? &k->insns[n->arg[0]] : n,
                         *b = n->nargs > 1 ? &k->insns[n->arg[1]] : n;
    bool add = n->code == KN_SCALAR && n->op == IR_add, sub = n->code == KN_SCALAR && n->op == IR_sub;
    *times = 1;
    *plus = 0;
    if ((add || sub) && a->dtype == b->dtype && (a->code == KN_CONST) != (b->code == KN_CONST)) {
        *times = sub && a->code == KN_CONST ? -1 : 1;
        *plus = a->code == KN_CONST ? a->ivalue : sub ? -b->ivalue : b->ivalue;
        n = a->code == KN_CONST ? b : a;
    }
    bool fine = n->code == KN_LOAD && !n->nindex && !n->nguards && k->operands[n->operand].use == KN_IN &&
                (n->dtype == TCC_I64 || n->dtype == TCC_I32) && *plus == (int32_t)*plus;
    return fine ? n : NULL;
}

bool nk_find_reads(struct nk_open *o)
{
    struct kn_kernel *k = nk_copy_kernel(o->ctx, o->k);
    for (int i = 0; i < k->ninsns && o->nread < NK_READ; i++) {
        struct kn_insn *n = &k->insns[i];
        struct nk_read r = {.bound = {.space = NEURON_REGISTER, .reg = NEURON_NO_REGISTER}};
        const struct kn_insn *from = n->code == KN_INDEX ? loaded(k, n->arg[0], &r.times, &r.plus) : NULL;
        int64_t bound = 1;
        if (!from || !is_first(k, i) || !nk_factors(k, n->bound, &bound, &r.bound.power[0]))
            continue;
        r.tensor = (uint16_t)from->operand;
        r.words = nk_is_wide((enum tcc_dtype)from->dtype) ? 2 : 1;
        *(r.bound.power[0] ? &r.bound.by[0] : &r.bound.offset) = bound;
        o->axis[o->naxes + o->nread] = (struct nk_open_axis){.dim = -1, .var = n->expr, .each = 1};
        o->read[o->nread++] = r;
        *n = (struct kn_insn){.code = KN_CONST, .dtype = from->dtype, .arg = {-1, -1, -1}};
    }
    o->k = o->nread ? k : o->k;
    return true;
}

/* -- Accesses -- */

/* By how much e goes on with a unit; false: it depends on where. */
static bool goes_on(const struct nk_open *o, const struct nk_open_axis *axis, ir_expr e, int64_t *by)
{
    int64_t x = 0, c;
    *by = 0;
    if (e->kind == IR_X_CONST || e->kind == IR_X_SYM) {
        *by = e == axis->var ? axis->each : 0;
        return true;
    }
    if (!ir_uses_sym(e, axis->var))
        return true;
    for (int a = 0; a < e->nargs; a++) {
        if (!goes_on(o, axis, e->arg[a], &x))
            return false;
        switch ((enum ir_expr_kind)e->kind) {
        case IR_X_ADD: *by += x; break;
        case IR_X_MUL:
            for (int b = 0; x && b < e->nargs; b++)
                if (b != a && !ir_is_const(e->arg[b], &c))
                    return false;
                else if (b != a)
                    x *= c;
            *by += x;
            break;
        case IR_X_FLOORDIV:
        case IR_X_MOD:
            if (a)
                break;
            if (!ir_is_const(e->arg[1], &c) || c <= 0 || x % c != 0)
                return false;
            *by = e->kind == IR_X_MOD ? 0 : x / c;
            break;
        default: /* MIN, MAX */
            if (a && x != *by)
                return false;
            *by = x;
        }
    }
    return true;
}

/* Does it stay as it is? A value may be made of sizes. */
static bool stays(const struct nk_open *o, ir_expr e, bool value)
{
    int64_t by;
    bool fine = value || !nk_uses_size(o->k, e);
    for (int a = 0; fine && e && a < o->naxes + o->nread; a++)
        fine = goes_on(o, &o->axis[a], e, &by) && !by;
    return fine;
}

/* Does an address depend on an index that is read? */
static bool is_indexed(const struct kn_kernel *k, const struct kn_insn *n)
{
    bool any = false;
    for (int i = 0; i < k->ninsns; i++)
        for (int x = 0; x < n->nindex && k->insns[i].code == KN_INDEX; x++)
            any |= ir_uses_sym(n->index[x], k->insns[i].expr);
    return any;
}

/* Products of sizes that elements lie apart by, where an index is e and its rows do by `row`. */
static bool add_products(struct nk_open *o, struct nk_chain *to, ir_expr e, uint16_t row)
{
    bool fine = true;
    if (e->kind == IR_X_ADD) {
        for (int a = 0; fine && a < e->nargs; a++)
            fine = add_products(o, to, e->arg[a], row);
        return fine;
    }
    for (int a = 0; fine && e->kind == IR_X_MUL && a < e->nargs; a++) {
        int s = nk_size_of(o->k, e->arg[a]);
        fine = s >= 0 ? nk_power_times(&row, (uint16_t)(1 << 2 * s)) : !nk_uses_size(o->k, e->arg[a]);
    }
    int s = nk_size_of(o->k, e);
    if (s >= 0)
        fine = nk_power_times(&row, (uint16_t)(1 << 2 * s));
    else if (e->kind != IR_X_MUL)
        fine = !nk_uses_size(o->k, e);
    return fine && nk_chain_add(to, row);
}

static bool find_chain(struct nk_open *o, const struct kn_insn *n)
{
    const struct kn_operand *x = &o->k->operands[n->operand];
    uint16_t row = 0;
    int64_t elements = 1, all;
    for (int i = n->nindex - 1; i >= 0; i--) {
        if (!add_products(o, &o->chain[n->operand], n->index[i], row))
            return nk_open_refuse(o, "an access that does not go on evenly with them");
        if (i && !nk_factors(o->k, x->dims[i], &elements, &row))
            return nk_open_refuse(o, "rows whose distance is no multiple of them");
        if (__builtin_mul_overflow(elements, nk_stand_in(row, o->chain[n->operand].far), &all) ||
            all > NK_MOST_STAND_IN || all < 1)
            return nk_open_refuse(o, "rows whose distance has too many of them as factors");
    }
    return !o->chain[n->operand].n || !is_indexed(o->k, n) ||
           nk_open_refuse(o, "an index into rows whose distance they say");
}

/* By how many elements an access of the pinned kernel goes on with a unit. */
static bool find_shift(struct nk_open *o, const struct nk_open_axis *axis, const struct kn_insn *n, int64_t *shift)
{
    const struct kn_operand *x = &o->pinned->operands[n->operand];
    int64_t row = 1, by;
    *shift = 0;
    for (int i = n->nindex - 1; i >= 0; row *= i ? ir_const_or(x->dims[i], 0) : 1, i--) {
        if (!goes_on(o, axis, n->index[i], &by))
            return nk_open_refuse(o, "an access that does not go on evenly with them");
        *shift += by * row;
    }
    bool result = n->code == KN_STORE && x->use != KN_LOCAL && axis->dim >= 0 && o->k->dims[axis->dim].role == KN_OUTER;
    if (*shift && is_indexed(o->pinned, n)) /* by rows of all of the tensor */
        return nk_open_refuse(o, "an index into what goes on with them");
    bool state = nk_is_some_keys(o->k) && x->use == KN_INOUT; /* of whichever rows are under way */
    if (result && !*shift && !state)
        return nk_open_refuse(o, "a result that is no unit's alone");
    if ((*shift < 0 && axis->dim >= 0) || (x->use == KN_LOCAL && *shift))
        return nk_open_refuse(o, "an access that goes backwards");
    return true;
}

/* Does the access go on as those of its operand that were seen before? */
static bool goes_as(const struct nk_open *o, int operand, const int64_t *shift)
{
    bool same = true;
    for (int a = 0; a < o->naxes + o->nread; a++) {
        int64_t seen = o->axis[a].shift[operand];
        same &= seen == NK_NOT_YET || seen == shift[a];
    }
    return same;
}

/* The operand that an access like that has: its own, or a copy of it, whose accesses go on otherwise; -1: a result can
 * have none. */
static int operand_for(struct nk_open *o, struct kn_kernel *k, const struct kn_insn *n, const int64_t *shift)
{
    int own = n->operand, to = own;
    while (to < k->noperands && ((to != own && o->copied[to] != own) || !goes_as(o, to, shift)))
        to++;
    if (to == own || to < k->noperands)
        return to;
    if (k->operands[own].use != KN_IN || to == o->noperands + MOST_COPIES || to >= NEURON_ARGUMENTS)
        return -1;
    k->operands[k->noperands++] = k->operands[own];
    o->copied[to] = own;
    o->chain[to] = o->chain[own];
    return to;
}

/* What each operand goes on by. An input that is read in several ways counts as several. */
static bool find_steps(struct nk_open *o)
{
    struct kn_kernel *k = nk_copy_kernel(o->ctx, o->k), *numbers = nk_copy_kernel(o->ctx, o->pinned);
    int room = k->noperands + MOST_COPIES;
    o->copied = IR_NEWN(o->ctx, room, int);
    k->operands = IR_NEWN(o->ctx, room, struct kn_operand);
    memcpy(k->operands, o->k->operands, (size_t)o->noperands * sizeof *k->operands);
    for (int a = 0; a < o->naxes + o->nread; a++) {
        o->axis[a].shift = IR_NEWN(o->ctx, room, int64_t);
        for (int i = 0; i < room; i++)
            o->axis[a].shift[i] = NK_NOT_YET;
    }
    for (int i = 0; i < room; i++)
        o->copied[i] = -1;
    for (int i = 0; i < k->ninsns; i++) {
        struct kn_insn *n = &k->insns[i];
        int64_t shift[NK_OPEN + NK_READ];
        if (n->code != KN_LOAD && n->code != KN_STORE)
            continue;
        for (int a = 0; a < o->naxes + o->nread; a++)
            if (!find_shift(o, &o->axis[a], &o->pinned->insns[i], &shift[a]))
                return false;
        int to = operand_for(o, k, n, shift);
        if (to < 0)
            return nk_open_refuse(o, "an operand of which accesses go on by different steps");
        for (int a = 0; a < o->naxes + o->nread; a++)
            o->axis[a].shift[to] = shift[a];
        n->operand = numbers->insns[i].operand = to;
    }
    numbers->operands = IR_NEWN(o->ctx, room, struct kn_operand);
    for (int i = 0; i < k->noperands; i++)
        numbers->operands[i] = o->pinned->operands[o->copied[i] < 0 ? i : o->copied[i]];
    numbers->noperands = k->noperands;
    o->k = k;
    o->pinned = numbers;
    return true;
}

/* Is there one size, that no dim but a tensor's first has, so that it does no more than begin accesses? */
static bool is_added(const struct nk_open *o)
{
    bool fine = o->k->nsizes == 1 && !o->naxes;
    for (int i = 0; i < o->k->noperands; i++)
        for (int d = 1; fine && d < o->k->operands[i].rank; d++)
            fine = !nk_uses_size(o->k, o->k->operands[i].dims[d]);
    return fine;
}

/* Of a value, the axes that it says where a turn is of. */
static void find_where(struct nk_open *o, ir_expr e)
{
    int64_t by;
    for (int a = 0; a < o->naxes; a++) {
        bool known = goes_on(o, &o->axis[a], e, &by) && !by;
        for (int w = 0; w < o->where.n; w++)
            known |= o->where_axis[w] == a;
        if (known)
            continue;
        o->where.symbol[o->where.n] =
            ir_sym_bounded(o->ctx, ir_internf(o->ctx, "where turns of axis %d are", a), 0, 1 << 29);
        o->where_axis[o->where.n++] = a;
    }
}

/* A value of a dim's indices: those of the turn's points, from where the turn is on. */
static ir_expr from_where(const struct nk_open *o, ir_expr e)
{
    ir_expr from[NK_OPEN], to[NK_OPEN];
    for (int w = 0; w < o->where.n; w++) {
        from[w] = o->axis[o->where_axis[w]].var;
        to[w] = ir_add(o->ctx, from[w], o->where.symbol[w]);
    }
    return ir_subst(o->ctx, e, o->where.n, from, to);
}

/* The kernel with numbers for its sizes. The first dim of a tensor says nothing of where its elements lie. */
static const struct kn_kernel *pin(const struct nk_open *o)
{
    struct kn_kernel *k = nk_copy_kernel(o->ctx, o->k);
    ir_expr *stand_in = IR_NEWN(o->ctx, k->nsizes + 1, ir_expr);
    for (int s = 0; s < k->nsizes; s++)
        stand_in[s] = ir_const(o->ctx, nk_stand_in((uint16_t)(1 << 2 * s), is_added(o)));
    for (int i = 0; i < k->noperands; i++)
        if (k->operands[i].rank && nk_uses_size(o->k, k->operands[i].dims[0]))
            k->operands[i].dims[0] = ir_const(o->ctx, 1);
    kn_subst(o->ctx, k, k->nsizes, o->k->sizes, stand_in);
    for (int i = 0; i < k->ninsns; i++) /* values of sizes are the run's */
        if (k->insns[i].code == KN_EXPR)
            k->insns[i].expr = nk_is_position(o->k, i) ? o->k->insns[i].expr : from_where(o, o->k->insns[i].expr);
    return k;
}

bool nk_find_shifts(struct nk_open *o)
{
    const struct kn_kernel *k = o->k;
    o->noperands = k->noperands;
    o->chain = IR_NEWN(o->ctx, k->noperands + MOST_COPIES, struct nk_chain);
    for (int i = 0; i < k->noperands; i++)
        o->chain[i].far = is_added(o);
    for (int i = 0; i < k->ninsns; i++) {
        const struct kn_insn *n = &k->insns[i];
        bool fine = n->code == KN_INDEX ? !nk_uses_size(k, n->bound)
                                        : n->code == KN_EXPR || (stays(o, n->expr, false) && stays(o, n->bound, false));
        for (int g = 0; g < n->nguards; g++)
            fine &=
                stays(o, n->guards[g].e, false) && stays(o, n->guards[g].lo, false) && stays(o, n->guards[g].hi, false);
        if (!fine)
            return nk_open_refuse(o, "a condition that depends on them");
        if (n->code == KN_EXPR && !nk_is_position(k, i))
            find_where(o, n->expr);
        if ((n->code == KN_LOAD || n->code == KN_STORE) && !find_chain(o, n))
            return false;
    }
    o->pinned = pin(o);
    return find_steps(o);
}
