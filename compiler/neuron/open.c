/* SPDX-License-Identifier: Apache-2.0 */
/*
 * open.c - kernels with sizes that only the run knows. Of such a kernel one outer dim is open: its extent is a number
 * times a product of sizes, the units. What it does for some units is a kernel of known sizes, a turn; for the next
 * ones the same, further on in HBM by as many bytes a unit of each tensor. So the program is a loop of turns of many
 * points, behind it loops of turns of fewer, down to one, whose counts registers hold (roll.c). A turn has so many that
 * engines, which meet at its end, are at work for long before they do.
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
enum { LONG = 1 << 19, MORE = 8, DMA_BYTES = 48 };

struct open {
    struct ir_ctx *ctx;
    const struct kn_kernel *k;
    const char *why;
    int dim, nsizes, sizes[NEURON_SIZES]; /* the open dim; whose product the units are */
    int64_t each;                         /* points of it in a unit */
    int64_t units;                        /* how many; 0: the run says */
    int64_t *shift;                       /* of an operand: elements a unit; -1: not known yet */
};

static bool refuse(struct open *o, const char *why)
{
    o->why = ir_internf(o->ctx, "sizes that only the run knows (--dim says them): %s", why);
    return false;
}

/* -- The units -- */

static int size_of(const struct kn_kernel *k, ir_expr e)
{
    int s = 0;
    while (s < k->nsizes && k->sizes[s] != e)
        s++;
    return s < k->nsizes ? s : -1;
}

static bool uses_size(const struct kn_kernel *k, ir_expr e)
{
    bool any = false;
    for (int s = 0; e && s < k->nsizes; s++)
        any |= ir_uses_sym(e, k->sizes[s]);
    return any;
}

/* e as a number times sizes, which are added to the list. */
static bool factors(const struct kn_kernel *k, ir_expr e, int64_t *number, int *sizes, int *n)
{
    int64_t c;
    int s = size_of(k, e);
    if (ir_is_const(e, &c)) {
        *number *= c;
        return true;
    }
    if (s >= 0 && *n < NEURON_SIZES) {
        int at = (*n)++;
        for (; at && sizes[at - 1] > s; at--)
            sizes[at] = sizes[at - 1];
        sizes[at] = s;
        return true;
    }
    bool fine = e->kind == IR_X_MUL;
    for (int a = 0; fine && a < e->nargs; a++)
        fine = factors(k, e->arg[a], number, sizes, n);
    return fine;
}

static bool find_units(struct open *o)
{
    const struct kn_kernel *k = o->k;
    if (k->nsizes > NEURON_SIZES || k->split.combine)
        return refuse(o, "more of them than registers hold");
    o->dim = -1;
    for (int d = 0; d < k->ndims; d++) {
        if (!uses_size(k, k->dims[d].extent))
            continue;
        if (o->dim >= 0)
            return refuse(o, "of two dims");
        if (k->dims[d].role != KN_OUTER)
            return refuse(o, "of a dim that is reduced");
        o->dim = d;
        o->each = 1;
        if (!factors(k, k->dims[d].extent, &o->each, o->sizes, &o->nsizes))
            return refuse(o, "of which a dim is no multiple");
    }
    return o->dim >= 0 || refuse(o, "which no loop has");
}

/* Elements by unit; 0: it does not depend on them. */
static bool elements_of(struct open *o, const struct kn_operand *x, int64_t *each)
{
    int sizes[NEURON_SIZES], n = 0;
    *each = 1;
    for (int i = 0; i < x->rank; i++)
        if (!factors(o->k, x->dims[i], each, sizes, &n))
            return refuse(o, "of which an operand is no multiple");
    if (n && (n != o->nsizes || memcmp(sizes, o->sizes, (size_t)n * sizeof *sizes) != 0))
        return refuse(o, "of an operand, which differ from those of the loops");
    *each = n ? *each : 0;
    return true;
}

/* -- Accesses -- */

/* By how much e goes on with a unit; false: it depends on where. */
static bool goes_on(const struct open *o, ir_expr e, int64_t *by)
{
    int64_t x = 0, c;
    *by = 0;
    if (e->kind == IR_X_CONST || e->kind == IR_X_SYM) {
        *by = e == o->k->dims[o->dim].var ? o->each : 0;
        return true;
    }
    if (!ir_uses_sym(e, o->k->dims[o->dim].var))
        return true;
    for (int a = 0; a < e->nargs; a++) {
        if (!goes_on(o, e->arg[a], &x))
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
    return !e || (!uses_size(o->k, e) && goes_on(o, e, &by) && !by);
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

static bool find_shift(struct open *o, const struct kn_insn *n)
{
    const struct kn_operand *x = &o->k->operands[n->operand];
    int64_t row = 1, shift = 0, c;
    bool known = true;
    for (int i = n->nindex - 1; i >= 0; i--) {
        int64_t by;
        if (uses_size(o->k, n->index[i]) || !goes_on(o, n->index[i], &by))
            return refuse(o, "an access that does not go on evenly with them");
        if (!known && !ir_is_value(n->index[i], 0))
            return refuse(o, "rows whose distance depends on them");
        shift += by * (known ? row : 0);
        known = known && ir_is_const(x->dims[i], &c);
        row *= known ? c : 1;
    }
    if (o->shift[n->operand] >= 0 && o->shift[n->operand] != shift)
        return refuse(o, "an operand of which accesses go on by different steps");
    if (shift && is_indexed(o->k, n)) /* by rows of all of the tensor */
        return refuse(o, "an index into what goes on with them");
    if (n->code == KN_STORE && x->use != KN_LOCAL && !shift)
        return refuse(o, "a result that is no unit's alone");
    if (shift < 0 || (x->use == KN_LOCAL && shift))
        return refuse(o, "an access that goes backwards");
    o->shift[n->operand] = shift;
    return true;
}

static bool find_shifts(struct open *o)
{
    const struct kn_kernel *k = o->k;
    o->shift = IR_NEWN(o->ctx, k->noperands + 1, int64_t);
    for (int i = 0; i < k->noperands; i++)
        o->shift[i] = -1;
    for (int i = 0; i < k->ninsns; i++) {
        const struct kn_insn *n = &k->insns[i];
        bool fine = n->code == KN_INDEX ? !uses_size(k, n->bound) : stays(o, n->expr) && stays(o, n->bound);
        for (int g = 0; g < n->nguards; g++)
            fine &= stays(o, n->guards[g].e) && stays(o, n->guards[g].lo) && stays(o, n->guards[g].hi);
        if (!fine)
            return refuse(o, "a value or a condition that depends on them");
        if ((n->code == KN_LOAD || n->code == KN_STORE) && !find_shift(o, n))
            return false;
    }
    return true;
}

/* -- Turns -- */

struct pinned {
    const struct open *o;
    const ir_expr *values;
};

static ir_expr pinned(void *user, ir_expr e)
{
    const struct pinned *p = user;
    return e ? ir_subst(p->o->ctx, e, p->o->k->nsizes, p->o->k->sizes, p->values) : NULL;
}

static void *copy(struct ir_ctx *ctx, const void *from, size_t bytes)
{
    char *to = IR_NEWN(ctx, bytes + 1, char);
    return memcpy(to, from, bytes);
}

/* The kernel for so many units: sizes are 1 in it, but that the first dim of a tensor that has one is so many times as
 * long. (A size may be a factor of the units more than once.) */
static struct kn_kernel *kernel_of(const struct open *o, int64_t units)
{
    struct kn_kernel *k = IR_NEW(o->ctx, struct kn_kernel);
    ir_expr *ones = IR_NEWN(o->ctx, o->k->nsizes + 1, ir_expr), times = ir_const(o->ctx, units);
    for (int s = 0; s < o->k->nsizes; s++)
        ones[s] = ir_const(o->ctx, 1);
    *k = *o->k;
    k->dims = copy(o->ctx, k->dims, (size_t)k->ndims * sizeof *k->dims);
    k->operands = copy(o->ctx, k->operands, (size_t)k->noperands * sizeof *k->operands);
    k->insns = copy(o->ctx, k->insns, (size_t)k->ninsns * sizeof *k->insns);
    k->nsizes = k->nrequired = 0;
    k->dims[o->dim].extent = ir_const(o->ctx, units * o->each);
    for (int i = 0; i < k->noperands; i++) {
        struct kn_operand *x = &k->operands[i];
        int d = 0;
        while (d < x->rank && !uses_size(o->k, x->dims[d]))
            d++;
        if (d < x->rank)
            x->dims[d] = ir_mul(o->ctx, times, x->dims[d]);
    }
    kn_map_exprs(o->ctx, k, pinned, &(struct pinned){o, ones});
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

static void count_signals(const struct neuron_program *p, int64_t *signals)
{
    for (int e = 0; e < NEURON_NENGINES; e++)
        for (int k = 0; k < p->stream[e].n; k++) {
            const struct neuron_instr *i = &p->stream[e].code[k];
            for (int n = 0; n < i->nsignals; n++)
                signals[i->signal[n].semaphore] +=
                    (int64_t)i->signal[n].value * (neuron_is_dma((enum neuron_op)i->op) ? NEURON_DMA_ENGINES : 1);
        }
}

/* From one unit a turn to as many as make it long; those of most come first then. */
static void make_turns(struct open *o, const struct nk_machine *m, struct nk_turns *t)
{
    const char *why = "";
    for (int64_t units = 1; t->n < NK_LEVELS && !(o->units && units > o->units); units *= MORE) {
        struct neuron_program *p = nk_turn_program(o->ctx, m, kernel_of(o, units), &why);
        if (!p && !t->n)
            o->why = why;
        if (!p)
            return;
        memmove(t->program + 1, t->program, (size_t)t->n * sizeof *t->program);
        memmove(t->points + 1, t->points, (size_t)t->n++ * sizeof *t->points);
        t->program[0] = p;
        t->points[0] = units;
        if (ticks_of(m, p) >= LONG || instructions_of(p) > NK_MOST_INSTRUCTIONS / MORE)
            return;
    }
}

/* The turn with most tensors: some go by temporary ones, which stand behind all others. Theirs are as long as the
 * longest. */
static const struct neuron_program *most_tensors(const struct nk_turns *t)
{
    struct neuron_program *most = t->program[0];
    for (int l = 1; l < t->n; l++)
        if (t->program[l]->ntensors > most->ntensors)
            most = t->program[l];
    for (int l = 0; l < t->n; l++)
        for (int k = 0; k < t->program[l]->ntensors; k++)
            if (most->tensors[k].use == NEURON_TEMP && t->program[l]->tensors[k].dims[0] > most->tensors[k].dims[0])
                most->tensors[k].dims[0] = t->program[l]->tensors[k].dims[0];
    return most;
}

/* Sizes, and tensors as the turns have them, those of the operands as long as the sizes say. */
static void add_names(struct nk *nk, const struct open *o, const struct neuron_program *from, int64_t *shift)
{
    const struct kn_kernel *k = o->k;
    int operand = 0;
    for (int s = 0; s < k->nsizes; s++) {
        char name[16];
        int n = snprintf(name, sizeof name, "n%d", s);
        neuron_add_size(nk->p, name, (size_t)n, (uint8_t)(NEURON_REGISTERS - NEURON_SIZES + s));
    }
    for (int t = 0; t < from->ntensors; t++) {
        struct neuron_tensor tensor = from->tensors[t];
        while (operand < k->noperands && k->operands[operand].use == KN_LOCAL)
            operand++;
        if (operand < k->noperands) {
            int64_t each = 0, words = nk_is_wide(k->operands[operand].dtype) ? 2 : 1;
            elements_of(&(struct open){.ctx = o->ctx, .k = k, .nsizes = o->nsizes}, &k->operands[operand], &each);
            if (each) {
                tensor.dims[0] = words * each;
                tensor.nsizes = (uint8_t)o->nsizes;
                for (int s = 0; s < o->nsizes; s++)
                    tensor.sizes[s] = (uint8_t)o->sizes[s];
            }
            int64_t by = o->shift[operand] > 0 ? o->shift[operand] : 0;
            shift[t] = by * words * neuron_type_bytes((enum neuron_type)tensor.type);
        }
        if (neuron_add_tensor(nk->p, &tensor) < 0)
            nk_refuse(nk, "no memory for a program");
        operand++;
    }
}

static bool join(struct nk *nk, const struct open *o, struct nk_turns *t)
{
    char error[NEURON_ERROR];
    if (setjmp(nk->refused))
        return false;
    const struct neuron_program *names = most_tensors(t);
    int64_t *shift = IR_NEWN(o->ctx, names->ntensors + 1, int64_t);
    add_names(nk, o, names, shift);
    t->shift = shift;
    nk_roll_turns(nk, t);
    if (!neuron_check(nk->p, error))
        nk_refuse(nk, "a program that breaks a rule: %s", error);
    return true;
}

/* NULL: o->why says why. */
static struct neuron_program *in_turns(struct open *o, const struct nk_machine *m)
{
    struct nk_turns t = {.nsizes = o->nsizes, .units = o->units};
    struct nk *nk = IR_NEW(o->ctx, struct nk);
    memcpy(t.sizes, o->sizes, sizeof t.sizes);
    make_turns(o, m, &t);
    for (int l = 0; l < t.n; l++)
        count_signals(t.program[l], t.signals[l]);
    *nk = (struct nk){.ctx = o->ctx, .machine = m, .k = o->k, .p = t.n ? neuron_program_new(m->core) : NULL};
    bool fine = nk->p && join(nk, o, &t);
    if (!fine && nk->why)
        refuse(o, nk->why);
    for (int l = 0; l < t.n; l++)
        neuron_program_free(t.program[l]);
    if (fine)
        return nk->p;
    neuron_program_free(nk->p);
    return NULL;
}

struct neuron_program *nk_open_program(struct ir_ctx *ctx, const struct nk_machine *m, const struct kn_kernel *k,
                                       const char **why)
{
    struct open o = {.ctx = ctx, .k = k, .why = "no memory for a program"};
    bool fine = find_units(&o) && find_shifts(&o);
    for (int i = 0; fine && i < k->noperands; i++) {
        int64_t each;
        fine = elements_of(&o, &k->operands[i], &each);
    }
    struct neuron_program *p = fine ? in_turns(&o, m) : NULL;
    *why = o.why;
    return p;
}

struct neuron_program *nk_heads_program(struct ir_ctx *ctx, const struct nk_machine *m, const struct kn_kernel *k)
{
    enum { MOST_EACH = 16 };
    const struct kn_roles *r = &k->roles;
    int row = r->form == KN_ATTENTION ? r->attention.row : r->form == KN_ATTENTION_GRAD ? r->attention_grad.row : -1;
    for (int d = 0; d < k->ndims && row >= 0; d++)
        for (int64_t each = 1, n; each <= MOST_EACH; each *= 2) {
            struct open o = {.ctx = ctx, .k = k, .dim = d, .each = each};
            if (d == row || k->dims[d].role != KN_OUTER || !ir_is_const(k->dims[d].extent, &n) || n % each ||
                n / each < 2 || !find_shifts(&o))
                continue;
            o.units = n / each;
            return in_turns(&o, m);
        }
    return NULL;
}
