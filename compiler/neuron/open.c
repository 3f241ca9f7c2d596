/* SPDX-License-Identifier: Apache-2.0 */
/*
 * open.c - kernels with sizes that only the run knows. Of such a kernel up to three outer dims are open: their extents
 * are numbers times products of sizes, the units. What it does for some units of each is a kernel of known sizes, a
 * turn; for the next ones the same, further on in HBM by as many bytes a unit of each tensor. So the program is a nest
 * of loops of turns of many points, behind each loops of turns of fewer, down to one, whose counts come from registers
 * (turns.c). A turn has so many that engines, which meet at its end, are at work for long before they do. Distances of
 * rows may depend on sizes, too (sizes.c).
 *
 * Where an access does not go on like that, or a value says which unit it is of, the kernel is the host's.
 *
 * The heads of attention that is too large to be unrolled are turns, too, whose number is known.
 */
#include <stdlib.h>
#include <string.h>

#include "compiler/neuron/cost.h"
#include "compiler/neuron/neuron_int.h"

/* LONG: ticks that a turn should take; MORE: points of a level's turn, as a multiple of the next one's. DMA carries so
 * many bytes a tick. */
enum { LONG = 1 << 19, MORE = 8, MOST_LEVELS = 4, DMA_BYTES = 48, MOST_COPIES = 8 };

static const int64_t NOT_YET = INT64_MIN;

/* An open dim: points of it in a unit; whose product the units are, or, if it is not 0, how many. Or an index that is
 * read from a tensor, the same for all points (dim -1). */
struct axis {
    int dim;
    ir_expr var;
    int64_t each, units, *shift; /* shift: of an operand: elements a unit, or NOT_YET */
    uint8_t power;
};
struct open {
    struct ir_ctx *ctx;
    const struct kn_kernel *k, *pinned; /* pinned: with numbers that stand for the sizes */
    const char *why;
    int naxes, nread;
    struct axis axis[NK_OPEN + NK_READ]; /* open dims, then what is read */
    struct nk_read read[NK_READ];        /* tensor: the operand */
    struct nk_chain *chain;              /* by operand */
    /* without copies; by operand, whose copy it is; -1: it is none */
    int noperands, *copied;
};

static bool refuse(struct open *o, const char *why)
{
    o->why = ir_internf(o->ctx, "sizes that only the run knows (--dim says them): %s", why);
    return false;
}

/* -- The units -- */

static bool uses_size(const struct kn_kernel *k, ir_expr e)
{
    bool any = false;
    for (int s = 0; e && s < k->nsizes; s++)
        any |= ir_uses_sym(e, k->sizes[s]);
    return any;
}

static bool find_units(struct open *o)
{
    const struct kn_kernel *k = o->k;
    if (k->nsizes > NEURON_SIZES || k->split.combine)
        return refuse(o, "more of them than registers hold");
    for (int d = 0; d < k->ndims; d++) {
        struct axis *a = &o->axis[o->naxes];
        if (!uses_size(k, k->dims[d].extent))
            continue;
        if (o->naxes == NK_OPEN)
            return refuse(o, "of more than three dims");
        if (k->dims[d].role == KN_PIECES)
            return refuse(o, "of a dim in pieces");
        *a = (struct axis){.dim = d, .var = k->dims[d].var, .each = 1};
        if (!nk_factors(k, k->dims[d].extent, &a->each, &a->power))
            return refuse(o, "of which a dim is no multiple");
        o->naxes++;
    }
    return true;
}

/* The elements of an operand: a number times sizes. */
static bool elements_of(struct open *o, const struct kn_operand *x, int64_t *each, uint8_t *power)
{
    *each = 1;
    *power = 0;
    for (int i = 0; i < x->rank; i++)
        if (!nk_factors(o->k, x->dims[i], each, power))
            return refuse(o, "of which an operand is no multiple");
    int n = 0;
    for (int s = 0; s < NEURON_SIZES; s++)
        n += *power >> 2 * s & NEURON_POWER;
    return n <= NEURON_SIZES || refuse(o, "of which an operand has too many");
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

/* Indices that are single numbers in HBM, as a loop's counter: registers have them. */
static bool find_reads(struct open *o)
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
        o->axis[o->naxes + o->nread] = (struct axis){.dim = -1, .var = n->expr, .each = 1};
        o->read[o->nread++] = r;
        *n = (struct kn_insn){.code = KN_CONST, .dtype = from->dtype, .arg = {-1, -1, -1}};
    }
    o->k = o->nread ? k : o->k;
    return true;
}

/* -- Accesses -- */

/* By how much e goes on with a unit; false: it depends on where. */
static bool goes_on(const struct open *o, const struct axis *axis, ir_expr e, int64_t *by)
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

/* Does it stay as it is? */
static bool stays(const struct open *o, ir_expr e)
{
    int64_t by;
    bool fine = !uses_size(o->k, e);
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
static bool add_products(struct open *o, struct nk_chain *to, ir_expr e, uint8_t row)
{
    bool fine = true;
    if (e->kind == IR_X_ADD) {
        for (int a = 0; fine && a < e->nargs; a++)
            fine = add_products(o, to, e->arg[a], row);
        return fine;
    }
    for (int a = 0; fine && e->kind == IR_X_MUL && a < e->nargs; a++) {
        int s = nk_size_of(o->k, e->arg[a]);
        fine = s >= 0 ? nk_power_times(&row, (uint8_t)(1 << 2 * s)) : !uses_size(o->k, e->arg[a]);
    }
    int s = nk_size_of(o->k, e);
    if (s >= 0)
        fine = nk_power_times(&row, (uint8_t)(1 << 2 * s));
    else if (e->kind != IR_X_MUL)
        fine = !uses_size(o->k, e);
    return fine && nk_chain_add(to, row);
}

static bool find_chain(struct open *o, const struct kn_insn *n)
{
    const struct kn_operand *x = &o->k->operands[n->operand];
    uint8_t row = 0;
    int64_t elements = 1, all;
    for (int i = n->nindex - 1; i >= 0; i--) {
        if (!add_products(o, &o->chain[n->operand], n->index[i], row))
            return refuse(o, "an access that does not go on evenly with them");
        if (i && !nk_factors(o->k, x->dims[i], &elements, &row))
            return refuse(o, "rows whose distance is no multiple of them");
        if (__builtin_mul_overflow(elements, nk_stand_in(row), &all) || all > NK_MOST_STAND_IN || all < 1)
            return refuse(o, "rows whose distance has too many of them as factors");
    }
    return !o->chain[n->operand].n || !is_indexed(o->k, n) || refuse(o, "an index into rows whose distance they say");
}

/* By how many elements an access of the pinned kernel goes on with a unit. */
static bool find_shift(struct open *o, const struct axis *axis, const struct kn_insn *n, int64_t *shift)
{
    const struct kn_operand *x = &o->pinned->operands[n->operand];
    int64_t row = 1, by;
    *shift = 0;
    for (int i = n->nindex - 1; i >= 0; row *= i ? ir_const_or(x->dims[i], 0) : 1, i--) {
        if (!goes_on(o, axis, n->index[i], &by))
            return refuse(o, "an access that does not go on evenly with them");
        *shift += by * row;
    }
    bool result = n->code == KN_STORE && x->use != KN_LOCAL && axis->dim >= 0 && o->k->dims[axis->dim].role == KN_OUTER;
    if (*shift && is_indexed(o->pinned, n)) /* by rows of all of the tensor */
        return refuse(o, "an index into what goes on with them");
    if (result && !*shift)
        return refuse(o, "a result that is no unit's alone");
    if ((*shift < 0 && axis->dim >= 0) || (x->use == KN_LOCAL && *shift))
        return refuse(o, "an access that goes backwards");
    return true;
}

/* Does the access go on as those of its operand that were seen before? */
static bool goes_as(const struct open *o, int operand, const int64_t *shift)
{
    bool same = true;
    for (int a = 0; a < o->naxes + o->nread; a++) {
        int64_t seen = o->axis[a].shift[operand];
        same &= seen == NOT_YET || seen == shift[a];
    }
    return same;
}

/* The operand that an access like that has: its own, or a copy of it, whose accesses go on otherwise; -1: a result can
 * have none. */
static int operand_for(struct open *o, struct kn_kernel *k, const struct kn_insn *n, const int64_t *shift)
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
static bool find_steps(struct open *o)
{
    struct kn_kernel *k = nk_copy_kernel(o->ctx, o->k), *numbers = nk_copy_kernel(o->ctx, o->pinned);
    int room = k->noperands + MOST_COPIES;
    o->copied = IR_NEWN(o->ctx, room, int);
    k->operands = IR_NEWN(o->ctx, room, struct kn_operand);
    memcpy(k->operands, o->k->operands, (size_t)o->noperands * sizeof *k->operands);
    for (int a = 0; a < o->naxes + o->nread; a++) {
        o->axis[a].shift = IR_NEWN(o->ctx, room, int64_t);
        for (int i = 0; i < room; i++)
            o->axis[a].shift[i] = NOT_YET;
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
            return refuse(o, "an operand of which accesses go on by different steps");
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

struct pinned {
    struct ir_ctx *ctx;
    int n;
    const ir_expr *from, *to;
};

static ir_expr put(void *user, ir_expr e)
{
    const struct pinned *p = user;
    return e ? ir_subst(p->ctx, e, p->n, p->from, p->to) : NULL;
}

/* The kernel with numbers for its sizes. The first dim of a tensor says nothing of where its elements lie. */
static const struct kn_kernel *pin(const struct open *o)
{
    struct kn_kernel *k = nk_copy_kernel(o->ctx, o->k);
    ir_expr *stand_in = IR_NEWN(o->ctx, k->nsizes + 1, ir_expr);
    for (int s = 0; s < k->nsizes; s++)
        stand_in[s] = ir_const(o->ctx, nk_stand_in((uint8_t)(1 << 2 * s)));
    for (int i = 0; i < k->noperands; i++)
        if (k->operands[i].rank && uses_size(o->k, k->operands[i].dims[0]))
            k->operands[i].dims[0] = ir_const(o->ctx, 1);
    kn_map_exprs(o->ctx, k, put, &(struct pinned){o->ctx, k->nsizes, o->k->sizes, stand_in});
    k->nsizes = k->nrequired = 0;
    return k;
}

static bool find_shifts(struct open *o)
{
    const struct kn_kernel *k = o->k;
    o->noperands = k->noperands;
    o->chain = IR_NEWN(o->ctx, k->noperands + MOST_COPIES, struct nk_chain);
    for (int i = 0; i < k->ninsns; i++) {
        const struct kn_insn *n = &k->insns[i];
        bool fine = n->code == KN_INDEX ? !uses_size(k, n->bound)
                                        : nk_is_position(k, i) || (stays(o, n->expr) && stays(o, n->bound));
        for (int g = 0; g < n->nguards; g++)
            fine &= stays(o, n->guards[g].e) && stays(o, n->guards[g].lo) && stays(o, n->guards[g].hi);
        if (!fine)
            return refuse(o, "a value or a condition that depends on them");
        if ((n->code == KN_LOAD || n->code == KN_STORE) && !find_chain(o, n))
            return false;
    }
    o->pinned = pin(o);
    return find_steps(o);
}

/* -- Turns -- */

/* The kernel for so many units of each axis. */
static struct kn_kernel *kernel_of(const struct open *o, const int64_t *units)
{
    struct kn_kernel *k = nk_copy_kernel(o->ctx, o->pinned);
    ir_expr zero = ir_const(o->ctx, 0);
    int64_t all = 1;
    for (int r = 0; r < o->nread; r++)
        kn_map_exprs(o->ctx, k, put, &(struct pinned){o->ctx, 1, &o->axis[o->naxes + r].var, &zero});
    for (int a = 0; a < o->naxes; a++) {
        k->dims[o->axis[a].dim].extent = ir_const(o->ctx, units[a] * o->axis[a].each);
        all *= units[a];
    }
    for (int i = 0; i < k->noperands; i++) {
        int64_t first = 1;
        uint8_t power = 0;
        if (k->operands[i].rank && uses_size(o->k, o->k->operands[i].dims[0]) &&
            nk_factors(o->k, o->k->operands[i].dims[0], &first, &power))
            k->operands[i].dims[0] = ir_const(o->ctx, first * all);
    }
    return k;
}

static int64_t ticks_of(const struct nk_machine *m, const struct neuron_program *p)
{
    int64_t most = 0, bytes = 0;
    for (int e = 0; e < NEURON_NENGINES; e++) {
        int64_t sum = 0;
        for (int k = 0; k < p->stream[e].n; k++) {
            const struct neuron_instr *i = &p->stream[e].code[k];
            sum += nk_cycles(&nk_costs, m->core, (enum neuron_engine)e, i);
            if (neuron_is_dma((enum neuron_op)i->op))
                bytes += neuron_free_size(&i->operand[0]) * neuron_type_bytes((enum neuron_type)i->operand[0].type) *
                         (i->operand[0].count ? i->operand[0].count : 1);
        }
        sum *= nk_cycle_ticks(m->core, (enum neuron_engine)e);
        most = sum > most ? sum : most;
    }
    return bytes / DMA_BYTES > most ? bytes / DMA_BYTES : most;
}

static int instructions_of(const struct neuron_program *p)
{
    int n = 0;
    for (int e = 0; e < NEURON_NENGINES; e++)
        n += p->stream[e].n;
    return n;
}

/* By tensor of a turn, its operand. */
static int *operands_of(const struct open *o, int ntensors)
{
    int *operand = IR_NEWN(o->ctx, ntensors + 1, int);
    for (int t = 0, i = 0; t < ntensors; t++, i++) {
        while (i < o->k->noperands && o->k->operands[i].use == KN_LOCAL)
            i++;
        operand[t] = i < o->k->noperands ? i : -1;
    }
    return operand;
}

/* NULL: it can't be made, `why` says why. */
static struct neuron_program *turn(const struct open *o, const struct nk_machine *m, const int64_t *units,
                                   enum nk_keys keys, const char **why)
{
    struct neuron_program *p = nk_turn_program(o->ctx, m, kernel_of(o, units), keys, why);
    if (!p)
        return NULL;
    int *operand = operands_of(o, p->ntensors);
    struct nk_chain *chain = IR_NEWN(o->ctx, p->ntensors + 1, struct nk_chain);
    for (int t = 0; t < p->ntensors; t++)
        if (operand[t] >= 0)
            chain[t] = o->chain[operand[t]];
    if (nk_sizes_apart(chain, p->ntensors, p))
        return p;
    *why = "distances of rows that are not theirs alone";
    neuron_program_free(p);
    return NULL;
}

/* May turns be of more points than this program's? Where there are several axes there will be one for each pair. */
static bool is_short(const struct open *o, const struct nk_machine *m, const struct neuron_program *p)
{
    int most = o->naxes == 1 ? NK_MOST_INSTRUCTIONS / MORE : o->naxes == 2 ? 4000 : 1000;
    return ticks_of(m, p) < LONG && instructions_of(p) <= most;
}

/* From one unit a turn to as many as make it long, of the last axis first: how many units the longest turn has of
 * each. */
static bool find_levels(struct open *o, const struct nk_machine *m, struct nk_turns *t, int64_t *longest)
{
    const char *why = "";
    for (int a = 0; a < o->naxes; a++)
        longest[a] = 1;
    struct neuron_program *p = turn(o, m, longest, NK_KEYS_ALL, &why);
    if (!p) {
        o->why = why;
        return false;
    }
    for (bool grows = true; grows && is_short(o, m, p);) {
        grows = false;
        for (int a = o->naxes - 1; a >= 0 && is_short(o, m, p); a--) {
            if (t->axis[a].n == (o->naxes > 1 ? MOST_LEVELS - 1 : MOST_LEVELS) ||
                (o->axis[a].units && longest[a] * MORE > o->axis[a].units))
                continue;
            longest[a] *= MORE;
            struct neuron_program *more = turn(o, m, longest, NK_KEYS_ALL, &why);
            if (!more || (o->naxes > 1 && instructions_of(more) > NK_MOST_INSTRUCTIONS / MORE)) {
                longest[a] /= MORE;
                neuron_program_free(more);
                continue;
            }
            neuron_program_free(p);
            p = more;
            t->axis[a].n++;
            grows = true;
        }
    }
    neuron_program_free(p);
    return true;
}

static bool make_turn(struct open *o, const struct nk_machine *m, struct nk_turns *t, int p, const int64_t *units,
                      enum nk_keys keys)
{
    t->program[p] = turn(o, m, units, keys, &o->why);
    return t->program[p];
}

/* Rows and keys of attention, in turns of so many points; which of them meet is put_rows()'s matter (turns.c). */
static bool make_rows(struct open *o, const struct nk_machine *m, struct nk_turns *t)
{
    static const int64_t points[] = {512, 128, 32, 8, 1};
    int rows = o->naxes - 2, keys = o->naxes - 1, n = 0;
    struct nk_axis_turns *x = &t->axis[keys];
    int64_t units[NK_OPEN] = {1, 1, 1};
    bool fine = true;
    for (int l = 0; l < NK_LEVELS; l++)
        if (points[l] * o->axis[keys].each <= points[0] || points[l] == 1)
            x->points[n++] = points[l];
    x->n = n;
    memcpy(&t->axis[rows], x, sizeof *x);
    t->rows = true;
    t->causal = o->k->roles.attention.is.compare >= 0;
    for (int l = 0; l < n && fine; l++) {
        units[rows] = x->points[l];
        for (int k = l > 1 ? l : 0; k < n && fine; k++) {
            units[keys] = x->points[k];
            fine = (t->causal && !l && k) || make_turn(o, m, t, l * n + k, units, NK_KEYS_OTHER);
        }
        units[keys] = units[rows];
        fine = fine && make_turn(o, m, t, n * n + l, units, NK_KEYS_OWN) &&
               make_turn(o, m, t, n * n + n + l, units, NK_KEYS_NONE);
    }
    return fine;
}

static bool make_turns(struct open *o, const struct nk_machine *m, struct nk_turns *t)
{
    int64_t longest[NK_OPEN], units[NK_OPEN];
    bool fine = true;
    t->naxes = o->naxes;
    for (int a = 0; a < o->naxes; a++)
        t->axis[a] =
            (struct nk_axis_turns){.n = 1, .points = {1}, .units = o->axis[a].units, .power = o->axis[a].power};
    if (nk_is_some_keys(o->k))
        return make_rows(o, m, t);
    if (!find_levels(o, m, t, longest))
        return false;
    int n = 1;
    for (int a = 0; a < o->naxes; n *= t->axis[a++].n)
        for (int l = 0; l < t->axis[a].n; l++)
            t->axis[a].points[l] = l ? t->axis[a].points[l - 1] / MORE : longest[a];
    for (int p = 0; p < n && fine; p++) {
        for (int a = o->naxes - 1, left = p; a >= 0; left /= t->axis[a--].n)
            units[a] = t->axis[a].points[left % t->axis[a].n];
        fine = make_turn(o, m, t, p, units, NK_KEYS_ALL);
    }
    return fine;
}

static void free_turns(struct nk_turns *t)
{
    for (int p = 0; p < NK_TURNS; p++)
        neuron_program_free(t->program[p]);
}

/* Tensors of the joined program: the operands without copies, then what turns have besides. By tensor of a turn. */
static uint16_t *places_of(const struct open *o, int ntensors)
{
    const int *operand = operands_of(o, ntensors);
    uint16_t *place = IR_NEWN(o->ctx, ntensors + 1, uint16_t);
    for (int t = 0; t < ntensors; t++) {
        int of = operand[t] < 0 ? -1 : o->copied[operand[t]];
        place[t] = (uint16_t)(operand[t] < 0 ? t - (o->k->noperands - o->noperands) : t);
        for (int u = 0; u < t && of >= 0; u++)
            if (operand[u] == of)
                place[t] = (uint16_t)u;
    }
    return place;
}

/* Sizes, and tensors as the turns have them, those of the operands as long as the sizes say. Temporary ones are as long
 * as any turn has them; what phases hand on is such a tensor, too. */
static void add_names(struct nk *nk, struct open *o, const struct nk_turns *t, int nphases, int nown)
{
    struct neuron_tensor all[NEURON_ARGUMENTS + NEURON_ARGUMENTS / 2] = {{0}};
    int n = 0;
    for (int s = 0; s < o->k->nsizes; s++) {
        char name[16];
        int length = snprintf(name, sizeof name, "n%d", s);
        neuron_add_size(nk->p, name, (size_t)length, (uint8_t)(NEURON_REGISTERS - NEURON_SIZES + s));
    }
    for (int f = 0; f < nphases; f++)
        for (int p = 0; p < NK_TURNS; p++) {
            const struct neuron_program *from = t[f].program[p];
            if (!from)
                continue;
            const int *operand = operands_of(&o[f], from->ntensors);
            const uint16_t *place = places_of(&o[f], from->ntensors);
            for (int k = 0; k < from->ntensors; k++) {
                struct neuron_tensor tensor = from->tensors[k];
                int64_t each;
                uint8_t power = 0;
                if (operand[k] >= o[f].noperands)
                    continue;
                if (operand[k] >= 0 && elements_of(&o[f], &o[f].k->operands[operand[k]], &each, &power) && power)
                    tensor.dims[0] = (nk_is_wide(o[f].k->operands[operand[k]].dtype) ? 2 : 1) * each;
                for (int s = 0; s < NEURON_SIZES; s++)
                    for (int x = power >> 2 * s & NEURON_POWER; x; x--)
                        tensor.sizes[tensor.nsizes++] = (uint8_t)s;
                tensor.use = operand[k] >= nown ? NEURON_TEMP : tensor.use;
                if (place[k] >= n || tensor.dims[0] > all[place[k]].dims[0])
                    all[place[k]] = tensor;
                n = place[k] >= n ? place[k] + 1 : n;
            }
        }
    for (int k = 0; k < n; k++) {
        char name[16];
        if (strcmp(all[k].name, NEURON_ENV_NAME) != 0) {
            snprintf(name, sizeof name, "a%d", k);
            all[k].name = name;
        }
        if (neuron_add_tensor(nk->p, &all[k]) < 0)
            nk_refuse(nk, "no memory for a program");
    }
}

/* Bytes by which tensors go on with a unit of each axis. */
static void add_steps(struct nk *nk, const struct open *o, struct nk_turns *t)
{
    for (int p = 0; p < NK_TURNS; p++)
        t->ntensors = t->program[p] && t->program[p]->ntensors > t->ntensors ? t->program[p]->ntensors : t->ntensors;
    const int *operand = operands_of(o, t->ntensors);
    t->place = places_of(o, t->ntensors);
    t->nread = o->nread;
    for (int r = 0; r < o->nread; r++) {
        t->read[r] = o->read[r];
        for (int k = 0; k < t->ntensors; k++)
            if (operand[k] == o->read[r].tensor)
                t->read[r].tensor = (uint16_t)k;
    }
    t->step = IR_NEWN(o->ctx, t->ntensors + 1, struct nk_steps);
    for (int k = 0; k < t->ntensors; k++)
        for (int a = 0; a < o->naxes + o->nread && operand[k] >= 0; a++) {
            const struct kn_operand *x = &o->k->operands[operand[k]];
            int64_t by = o->axis[a].shift[operand[k]] != NOT_YET ? o->axis[a].shift[operand[k]] : 0;
            by *= (nk_is_wide(x->dtype) ? 2 : 1) * neuron_type_bytes(nk_type(nk, x->dtype));
            if (!nk_take_apart(&o->chain[operand[k]], by, &t->step[k].by[a]))
                nk_refuse(nk, "a step that sizes are no factors of");
        }
}

static bool join(struct nk *nk, struct open *o, struct nk_turns *t, int nphases, int nown)
{
    char error[NEURON_ERROR];
    if (setjmp(nk->refused))
        return false;
    add_names(nk, o, t, nphases, nown);
    for (int f = 0; f < nphases; f++)
        add_steps(nk, &o[f], &t[f]);
    nk_put_turns(nk, t, nphases);
    if (!neuron_check(nk->p, error))
        nk_refuse(nk, "a program that breaks a rule: %s", error);
    return true;
}

/* Phases one behind the other; nown: operands of the kernel that they are of. NULL: *why says why. */
static struct neuron_program *in_turns(struct open *o, int nphases, int nown, const struct nk_machine *m,
                                       const char **why)
{
    struct nk_turns *t = IR_NEWN(o->ctx, nphases, struct nk_turns);
    struct nk *nk = IR_NEW(o->ctx, struct nk);
    bool fine = true;
    for (int f = 0; f < nphases && fine; f++) {
        fine = make_turns(&o[f], m, &t[f]);
        *why = o[f].why;
    }
    *nk = (struct nk){.ctx = o->ctx, .machine = m, .k = o->k, .p = fine ? neuron_program_new(m->core) : NULL};
    fine = nk->p && join(nk, o, t, nphases, nown);
    if (!fine && nk->why) {
        refuse(o, nk->why);
        *why = o->why;
    }
    for (int f = 0; f < nphases; f++)
        free_turns(&t[f]);
    if (fine)
        return nk->p;
    neuron_program_free(nk->p);
    return NULL;
}

struct neuron_program *nk_open_program(struct ir_ctx *ctx, const struct nk_machine *m, const struct kn_kernel *k,
                                       const char **why)
{
    const struct kn_kernel *phase[NK_PHASES];
    struct open *o = IR_NEWN(ctx, NK_PHASES, struct open);
    int n = k->nsizes > NEURON_SIZES ? 0 : nk_phases(ctx, k, phase);
    *why = "sizes that only the run knows (--dim says them): a reduction along them that is not of float32 sums or "
           "extremes";
    if (n > 0 && phase[0]->noperands >= NEURON_ARGUMENTS)
        return NULL;
    for (int f = 0; f < n; f++) {
        o[f] = (struct open){.ctx = ctx, .k = phase[f], .why = "no memory for a program"};
        bool fine = find_units(&o[f]) && find_reads(&o[f]) && find_shifts(&o[f]);
        for (int i = 0; fine && i < phase[f]->noperands; i++) {
            int64_t each;
            uint8_t power;
            fine = elements_of(&o[f], &phase[f]->operands[i], &each, &power);
        }
        *why = o[f].why;
        if (!fine)
            return NULL;
    }
    return n ? in_turns(o, n, k->noperands, m, why) : NULL;
}

struct neuron_program *nk_heads_program(struct ir_ctx *ctx, const struct nk_machine *m, const struct kn_kernel *k)
{
    enum { MOST_EACH = 16 };
    const struct kn_roles *r = &k->roles;
    int row = r->form == KN_ATTENTION ? r->attention.row : r->form == KN_ATTENTION_GRAD ? r->attention_grad.row : -1;
    for (int d = 0; d < k->ndims && row >= 0; d++)
        for (int64_t each = 1, n; each <= MOST_EACH; each *= 2) {
            struct open o = {.ctx = ctx, .k = k, .naxes = 1, .axis = {{.dim = d, .var = k->dims[d].var, .each = each}}};
            if (d == row || k->dims[d].role != KN_OUTER || !ir_is_const(k->dims[d].extent, &n) || n % each ||
                n / each < 2 || !find_shifts(&o))
                continue;
            const char *why;
            o.axis[0].units = n / each;
            return in_turns(&o, 1, k->noperands, m, &why);
        }
    return NULL;
}
