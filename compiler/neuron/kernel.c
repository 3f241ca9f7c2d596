/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kernel.c - a kernel to a program, by the first template that takes it: attention and its gradients, a product by the
 * tensor engine, else the lanes. A tile that does not fit in SBUF is tried again alone, then with fewer elements of a
 * value at once.
 */
#include "base/format.h"
#include "compiler/neuron/cost.h"
#include "compiler/neuron/hbm_int.h"

#include <stdio.h>
#include <string.h>

void nk_refuse(struct nk *nk, const char *why, ...)
{
    FORMATTED(text, 200, why);
    nk->why = ir_strdup(nk->ctx, text);
    longjmp(nk->refused, 1);
}

void nk_full(struct nk *nk, const char *why)
{
    nk->full = true;
    nk_refuse(nk, "%s", why);
}

static void add_operand(struct nk *nk, int operand)
{
    /* Partial results are the program's own, or those of programs that the runtime runs one after the other. */
    const enum neuron_use uses[] = {[KN_IN] = NEURON_IN,
                                    [KN_OUT] = NEURON_OUT,
                                    [KN_INOUT] = NEURON_INOUT,
                                    [KN_PARTIAL] = nk->then ? NEURON_TEMP : NEURON_INOUT};
    const struct kn_operand *o = &nk->k->operands[operand];
    int64_t all = nk_is_wide(o->dtype) ? 2 : 1, n; /* words */
    char name[16];
    snprintf(name, sizeof name, "a%d", nk->p->ntensors);
    for (int i = 0; i < o->rank; i++) {
        if (!ir_is_const(o->dims[i], &n))
            nk_refuse(nk, "sizes that only the run knows (--dim says them)");
        all *= n;
    }
    if (all < 1)
        nk_refuse(nk, "an operand without elements");
    nk->hbm[operand] = nk_add_tensor(nk, name, uses[o->use], nk_type(nk, o->dtype), all);
}

bool nk_is_where(const struct neuron_tensor *t)
{
    return !strcmp(t->name, NK_WHERE_NAME);
}

/* Are sizes values? */
static bool has_size_values(const struct kn_kernel *k)
{
    bool any = false;
    for (int i = 0; i < k->ninsns; i++)
        any |= k->insns[i].code == KN_EXPR && nk_uses_size(k, k->insns[i].expr);
    return any;
}

static void find_extents(struct nk *nk)
{
    for (int d = 0; d < nk->k->ndims; d++)
        if (!ir_is_const(nk->k->dims[d].extent, &nk->extent[d]))
            nk_refuse(nk, "sizes that only the run knows (--dim says them)");
        else if (nk->extent[d] < 1)
            nk_refuse(nk, "a loop without points");
}

static void begin(struct nk *nk)
{
    const struct kn_kernel *k = nk->k;
    if (k->split.combine)
        nk_refuse(nk, "a reduction in pieces");
    if (k->noperands > NEURON_ARGUMENTS)
        nk_refuse(nk, "more than %d operands", NEURON_ARGUMENTS);
    find_extents(nk);
    for (int i = 0; i < k->noperands; i++)
        if (k->operands[i].use != KN_LOCAL && k->operands[i].use != KN_PARTIAL)
            add_operand(nk, i);
    if (kn_has(k, KN_BIT(KN_ENV)) || has_size_values(k) || (nk->then && kn_has(nk->then, KN_BIT(KN_ENV))))
        nk->env = nk_add_tensor(nk, NEURON_ENV_NAME, NEURON_IN, NEURON_I32, NEURON_ENV_WORDS);
    if (nk->where && nk->where->n)
        nk->where_words = nk_add_tensor(nk, NK_WHERE_NAME, NEURON_TEMP, NEURON_I32, NK_OPEN);
    for (int i = 0; i < k->noperands; i++)
        if (k->operands[i].use == KN_PARTIAL) /* behind those that the runtime binds */
            add_operand(nk, i);
    for (int i = 0; i < NEURON_SEMAPHORES; i++)
        nk->semaphore_user[i] = -1;
    VEC_PUSH(nk->ctx, nk->sbuf, (struct nk_segment){0, neuron_sbuf_bytes(nk->machine->core), NULL});
}

/* Outer points run in any order: none reads what another one writes, unless it is by an index. Once some tiles are
 * made, it is clear whether all of them are too much. */
void nk_begin_tile(struct nk *nk)
{
    enum { FEW = 16, SOME = 256 };
    if (nk->tiles == FEW)
        nk_no_more_than(nk, nk->instructions * nk->expected / FEW / 2);
    else if (nk->tiles == SOME)
        nk_no_more_than(nk, nk->instructions * nk->expected / SOME * 63 / 64);
    if (nk->steady && nk->tiles % nk->steady == 0) {
        nk->old_places.n = 0;
        for (int i = 0; i < nk->places.n; i++)
            VEC_PUSH(nk->ctx, nk->old_places, nk->places.at[i]);
        nk->places.n = 0;
        nk->began = nk->taken;
        nk->next_bank = nk->next_semaphore = nk->next_temp = 0;
        memset(nk->work, 0, sizeof nk->work);
    }
    nk->tiles++;
    if (kn_has(nk->k, KN_BIT(KN_INDEX)))
        return;
    for (int o = 0; o < nk->k->noperands; o++)
        if (nk->k->operands[o].use == KN_INOUT) {
            struct nk_buffer *b = IR_NEW(nk->ctx, struct nk_buffer);
            *b = (struct nk_buffer){.space = NEURON_HBM, .live = true, .tensor = nk->hbm[o]->tensor};
            nk->hbm[o] = b;
        }
}

static bool attempt(struct nk *nk)
{
    char error[NEURON_ERROR];
    if (setjmp(nk->refused))
        return false;
    begin(nk);
    if (nk_takes_attention(nk))
        nk_run_attention(nk);
    else if (nk_takes_attention_grad(nk))
        nk_run_attention_grad(nk);
    else if (nk_takes_scatter(nk))
        nk_run_scatter(nk);
    else if ((nk->lanes = true) && nk_takes_product(nk))
        nk_run_product(nk);
    else if (nk->product)
        nk_refuse(nk, "no product");
    else
        nk_run_tiles(nk);
    if (nk->then) {
        nk->k = nk->then;
        nk->pieces = false;
        find_extents(nk);
        nk_run_tiles(nk);
    }
    if (nk->turn)
        nk_meet(nk);
    nk_finish(nk);
    if (nk->steady && !nk->turn)
        nk_roll(nk);
    if (!nk->turn && !neuron_check(nk->p, error)) /* of turns, all of them together (open.c) */
        nk_refuse(nk, "a program that breaks a rule: %s", error);
    return true;
}

/* what: the kernel, and in which way it is to be made. NULL: it can't be so. large: that is since it has too many
 * instructions. */
static struct neuron_program *make_so(struct nk what, int64_t *tiles, bool *large, const char **why)
{
    struct nk *nk = IR_NEW(what.ctx, struct nk);
    int64_t room = NK_ROOM;
    int together = NK_TOGETHER;
    bool keeps = true;
    *large = false;
    while (room >= 4) {
        *nk = what;
        nk->room = room;
        nk->groups = NEURON_ARGUMENTS;
        nk->together = together;
        nk->keeps = keeps;
        nk->p = neuron_program_new(what.machine->core);
        if (!nk->p)
            return NULL;
        *tiles = 0;
        if (attempt(nk)) {
            *tiles = nk->tiles;
            return nk->p;
        }
        neuron_program_free(nk->p);
        *why = nk->why;
        *large = nk->large;
        if (nk->large || (!nk->full && !nk->optional))
            break;
        if (together > 1) {
            together--;
        } else if (keeps) {
            keeps = false;
            together = NK_TOGETHER;
        } else {
            room /= 4;
        }
    }
    return NULL;
}

/* One that was made, and its length; of a turn loops are made later (turns.c). */
struct made {
    struct neuron_program *p;
    int64_t length, tiles;
};

static struct made make_and_count(struct nk what, bool *large, const char **why)
{
    struct made m = {0};
    m.p = make_so(what, &m.tiles, large, why);
    if (m.p)
        m.length = what.turn ? nk_rolled_length(&what, m.p) : nk_instructions_of(m.p);
    return m;
}

/* What is at most three quarters as long as what there is, or all there is. */
static void take_shorter(struct made *best, struct made other)
{
    bool better = other.p && (!best->p || 4 * other.length <= 3 * best->length);
    neuron_program_free(better ? best->p : other.p);
    *best = better ? other : *best;
}

/* One that is long as it comes has loops, of turns of as few tiles as make it short, if that does. */
static struct neuron_program *make(struct nk what, const char **why)
{
    /* rows of attention that engines work on at the same time; ticks of a tile that hide a transfer's beginning */
    enum { SHORT = 8, AT_WORK = 3, LONG_TILE = 1 << 14 };
    int64_t tiles;
    bool large;
    what.k = nk_with_words(what.ctx, what.k);
    what.then = what.then ? nk_with_words(what.ctx, what.then) : NULL;
    what.most = NK_SHORT;
    struct neuron_program *p = make_so(what, &tiles, &large, why);
    if (!p && large && !what.turn)
        p = nk_heads_program(what.ctx, what.machine, what.k);
    if (p || !large)
        return p;
    what.most = NK_MOST_INSTRUCTIONS;
    struct made best = make_and_count(what, &large, why);
    int64_t unrolled = best.p ? best.length : INT64_MAX;
    if (!best.p && !large)
        return NULL;
    bool longs = best.p && nk_ticks_of(what.machine->core, best.p) >= LONG_TILE * best.tiles;
    if (best.p && !longs && !what.turn) /* it would wait for transfers */
        return best.p;
    what.most = NK_MOST_UNROLLED;
    large = false;
    for (what.steady = what.turn ? AT_WORK
                       : longs   ? NK_STEADY
                                 : NK_MOST_STEADY;
         what.steady <= NK_MOST_STEADY && !large; what.steady *= 2) {
        take_shorter(&best, make_and_count(what, &large, why));
        if (best.p && best.length <= unrolled / SHORT)
            break;
    }
    return best.p;
}

struct neuron_program *neuron_kernel_program(struct ir_ctx *ctx, const struct nk_machine *m, const struct kn_kernel *k,
                                             const char **why)
{
    if (k->nsizes)
        return nk_open_program(ctx, m, k, why);
    const struct kn_kernel *ones = nk_with_ones(ctx, k), *pass[2];
    struct nk whole = {.ctx = ctx, .machine = m, .k = k}, product = whole, passes = whole;
    product.k = ones;
    product.product = true;
    struct neuron_program *p = ones ? make(product, why) : nk_rows_program(ctx, m, k, why);
    if (!p && nk_few(ctx, m->core, k, pass)) {
        passes.k = pass[0];
        passes.then = pass[1];
        passes.pieces = true;
        p = make(passes, why);
    }
    return p ? p : make(whole, why);
}

struct neuron_program *nk_turn_program(struct ir_ctx *ctx, const struct nk_machine *m, const struct kn_kernel *k,
                                       enum nk_keys keys, const struct nk_where *where, const char **why)
{
    return make((struct nk){.ctx = ctx, .machine = m, .k = k, .turn = true, .keys = keys, .where = where}, why);
}

struct neuron_program *nk_pass_program(struct ir_ctx *ctx, const struct nk_machine *m, const struct kn_kernel *k,
                                       bool pieces, const char **why)
{
    return make((struct nk){.ctx = ctx, .machine = m, .k = k, .pieces = pieces}, why);
}
