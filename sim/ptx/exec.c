/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A warp's loop. Lanes that diverge are kept on a stack of splits (mask, pc, where they rejoin): the lowest split of a
 * branch waits at the branch's immediate post-dominator with all its lanes, the sides run one after the other above it
 * (Fung et al., "Dynamic Warp Formation", section 2). A call has its own splits above its caller's. Registers carry a
 * defined bit a lane, which row operations pass on and addresses, branches and stores check.
 */
#include <fenv.h>
#include <stdlib.h>

#include "sim/grow.h"
#include "sim/ptx/ptx_int.h"

static const struct {
    const char *name;
    enum ptx_type type;
} specials[] = {
#define SPECIAL(id, name, type, value) {name, PT_##type},
#include "sim/ptx/specials.def"
};
enum {
#define SPECIAL(id, name, type, value) SR_##id,
#include "sim/ptx/specials.def"
    SR_COUNT
};

int ptx_special(const char *name, enum ptx_type *type)
{
    for (int k = 0; k < SR_COUNT; k++)
        if (strcmp(specials[k].name, name) == 0) {
            *type = specials[k].type;
            return k;
        }
    return -1;
}

static void ptx_special_set(struct ptx_warp *w, int special, void *row)
{
    const struct ptx_block *b = w->b;
    for (uint32_t l = 0; l < LANES; l++) {
        uint32_t t = (uint32_t)w->id * LANES + l;
        uint64_t v = 0;
        switch (special) {
#define SPECIAL(id, name, type, value) \
    case SR_##id:                      \
        v = value;                     \
        break;
#include "sim/ptx/specials.def"
        }
        memcpy((uint8_t *)row + (size_t)l * ptx_types[specials[special].type].bytes, &v,
               ptx_types[specials[special].type].bytes);
    }
}

/* -- Frames and splits -- */

static void no_memory(struct ptx_warp *w)
{
    w->b->g->no_memory = true;
    w->b->stop = true;
}

static bool push_split(struct ptx_warp *w, uint32_t mask, int pc, int rejoin)
{
    if (!GROWN(w->split, w->nsplit, w->split_room, 64)) {
        no_memory(w);
        return false;
    }
    w->split[w->nsplit++] = (struct ptx_split){mask, pc, rejoin};
    return true;
}

void ptx_push_frame(struct ptx_warp *w, const struct ptx_func *f, uint32_t mask, const struct ptx_insn *call)
{
    if (w->nframes == (int)(sizeof w->frames / sizeof *w->frames)) {
        ptx_report(w, PTX_CHECK_STACK, __builtin_ctz(mask), 0, "more than %d calls deep", w->nframes);
        return;
    }
    struct ptx_frame *r = &w->frames[w->nframes];
    size_t rows = (f->frame_bytes + 63) & ~(size_t)63, def = ((size_t)f->nregs * 4 + 63) & ~(size_t)63;
    size_t vars = (f->var_bytes * LANES + 63) & ~(size_t)63, params = f->entry ? 0 : f->param_bytes * LANES;
    size_t need = rows + def + vars + params + 64;
    if (need > r->room) {
        free(r->memory);
        r->memory = aligned_alloc(64, (need + 63) & ~(size_t)63);
        r->room = r->memory ? need : 0;
    }
    if (!r->memory || !push_split(w, mask, 0, -1)) {
        no_memory(w);
        return;
    }
    r->f = f;
    r->rows = r->memory;
    r->def = (uint32_t *)(r->rows + rows);
    r->vars = r->rows + rows + def;
    r->params = r->vars + vars;
    r->base = w->nsplit - 1;
    r->call = call;
    memset(r->def, 0, def + vars + params);
    r->def[0] = FULL;
    for (int k = 0; k < f->nspecials; k++) {
        ptx_special_set(w, f->specials[k].special, r->rows + f->reg_at[f->specials[k].reg]);
        r->def[f->specials[k].reg] = FULL;
    }
    w->nframes++;
    w->frame = r;
}

/* Moves values between a caller's variables or registers and a callee's parameters, lane by lane. */
static void pass(struct ptx_warp *w, struct ptx_frame *caller, struct ptx_frame *callee, bool back, uint32_t mask)
{
    const struct ptx_call *c = callee->call->call;
    int n = back ? c->nrets : c->nargs;
    for (int k = 0; k < n; k++) {
        const struct ptx_arg *a = back ? &c->rets[k] : &c->args[k];
        const struct ptx_sym *s = back ? callee->f->rets[k] : callee->f->params[k];
        size_t size = s->size;
        EACH_LANE(l, mask) {
            uint8_t *in = s->reg >= 0 ? callee->rows + callee->f->reg_at[s->reg] + (size_t)l * size
                                      : callee->params + (size_t)l * callee->f->param_bytes + s->at;
            size_t each = a->is_op ? a->op.bytes : a->var->size;
            uint8_t *out = !a->is_op
                               ? caller->vars + (size_t)l * caller->f->var_bytes + a->var->at
                               : (a->op.constant ? caller->f->constants : caller->rows) + a->op.at + (size_t)l * each;
            memcpy(back ? out : in, back ? in : out, each < size ? each : size);
        }
        if (s->reg >= 0 && !back)
            callee->def[s->reg] |= mask;
        if (a->is_op && back)
            caller->def[a->op.reg] |= mask;
    }
    (void)w;
}

static void pop_frame(struct ptx_warp *w)
{
    struct ptx_frame *done = w->frame;
    w->nframes--;
    w->frame = w->nframes ? done - 1 : NULL;
}

/* Drops empty splits and finished frames. False: the warp is done. */
static bool settle(struct ptx_warp *w)
{
    while (w->nframes) {
        while (w->nsplit > w->frame->base && !w->split[w->nsplit - 1].mask)
            w->nsplit--;
        if (w->nsplit > w->frame->base)
            return true;
        pop_frame(w);
    }
    w->state = W_DONE;
    return false;
}

/* Lanes that leave the function; all of them leave its splits, lanes that exit leave the callers' too. */
static void leave(struct ptx_warp *w, uint32_t mask, bool exits)
{
    if (!exits && w->nframes > 1)
        pass(w, w->frame - 1, w->frame, true, mask);
    for (int k = exits ? 0 : w->frame->base; k < w->nsplit; k++)
        w->split[k].mask &= ~mask;
    if (exits || w->nframes == 1) {
        ptx_copies_arrive(w, -1, mask);
        w->live &= ~mask;
    }
    if (!settle(w))
        ptx_barrier_exit(w->b);
}

static void branch(struct ptx_warp *w, const struct ptx_insn *i, uint32_t taken)
{
    struct ptx_split *top = &w->split[w->nsplit - 1];
    uint32_t others = top->mask & ~taken;
    int next = top->pc; /* already advanced */
    if (!others || !taken) {
        top->pc = taken ? i->target : next;
        return;
    }
    w->b->count.divergent_branches++;
    if (i->flags & F_UNIFORM)
        ptx_report(w, PTX_CHECK_UNIFORM, __builtin_ctz(taken), 0, "lanes %#x take the branch, lanes %#x do not", taken,
                   others);
    bool swap = ptx_random(&w->b->random) & 1;
    int rejoin = i->rejoin;
    if (rejoin < 0 || rejoin != top->rejoin) {
        if (rejoin >= 0)
            top->pc = rejoin;
        else
            top->mask = 0;
        if (!push_split(w, swap ? taken : others, swap ? i->target : next, rejoin))
            return;
    } else {
        top->mask = swap ? taken : others;
        top->pc = swap ? i->target : next;
    }
    push_split(w, swap ? others : taken, swap ? next : i->target, rejoin);
}

/* -- Row operations -- */

static void run_row(struct ptx_warp *w, const struct ptx_insn *i, uint32_t mask)
{
    struct ptx_frame *r = w->frame;
    uint8_t tmp[LANES * 16] __attribute__((aligned(64)));
    void *d = i->d.sink || mask != FULL ? tmp : r->rows + i->d.at;
    uint32_t def = r->def[i->s[0].reg];
    i->fn.row(d, ptx_row(w, &i->s[0]), i->nsrc > 1 ? ptx_row(w, &i->s[1]) : NULL,
              i->nsrc > 2 ? ptx_row(w, &i->s[2]) : NULL);
    if (i->d.sink)
        return;
    if (i->nsrc > 1)
        def &= r->def[i->s[1].reg];
    if (i->nsrc > 2)
        def &= r->def[i->s[2].reg];
    if (mask != FULL)
        w->rows->blend(r->rows + i->d.at, tmp, mask, i->d.bytes);
    r->def[i->d.reg] = (r->def[i->d.reg] & ~mask) | (def & mask);
}

/* With flushing, saturation or a directed rounding. */
static void run_float(struct ptx_warp *w, const struct ptx_insn *i, uint32_t mask)
{
    static const int modes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};
    uint8_t tmp[4][LANES * 8] __attribute__((aligned(64)));
    const void *s[3] = {0};
    uint32_t def = FULL;
    for (int k = 0; k < i->nsrc; k++) {
        s[k] = ptx_row(w, &i->s[k]);
        def &= w->frame->def[i->s[k].reg];
        if (i->flags & F_FTZ) {
            w->rows->flush(tmp[k], s[k], i->type);
            s[k] = tmp[k];
        }
    }
    if (i->round)
        fesetround(modes[i->round]);
    i->fn.row(tmp[3], s[0], s[1], s[2]);
    if (i->round)
        fesetround(FE_TONEAREST);
    if (i->flags & F_FTZ)
        w->rows->flush(tmp[3], tmp[3], i->type);
    if (i->flags & F_SAT)
        w->rows->saturate(tmp[3], i->type);
    if (i->d.sink)
        return;
    w->rows->blend(w->frame->rows + i->d.at, tmp[3], mask, i->d.bytes);
    w->frame->def[i->d.reg] = (w->frame->def[i->d.reg] & ~mask) | (def & mask);
}

/* After a handler: its destination is as defined as its sources. */
static void run_handler(struct ptx_warp *w, const struct ptx_insn *i, uint32_t mask)
{
    uint32_t def = FULL;
    for (int k = 0; k < i->nsrc; k++)
        def &= w->frame->def[i->s[k].reg];
    struct ptx_frame *r = w->frame;
    i->fn.run(w, i, mask);
    if (def != FULL && i->nsrc && (def & mask) != mask) {
        if (!i->d.sink && i->d.reg)
            r->def[i->d.reg] &= def | ~mask;
        if (!i->d2.sink && i->d2.reg)
            r->def[i->d2.reg] &= def | ~mask;
    }
}

static void run_call(struct ptx_warp *w, const struct ptx_insn *i, uint32_t mask)
{
    struct ptx_frame *caller = w->frame;
    int before = w->nframes;
    ptx_push_frame(w, i->callee, mask, i);
    if (w->nframes > before)
        pass(w, caller, w->frame, false, mask);
}

static void refresh_clocks(struct ptx_warp *w)
{
    const struct ptx_func *f = w->frame->f;
    for (int k = 0; k < f->nspecials; k++)
        if (f->specials[k].special >= SR_CLOCK)
            ptx_special_set(w, f->specials[k].special, w->frame->rows + f->reg_at[f->specials[k].reg]);
}

static bool over_limit(struct ptx_warp *w, uint32_t mask)
{
    struct ptx_block *b = w->b;
    b->executed += w->tick & 1023 ? 0 : 1024;
    if (b->executed <= b->d->config.limit && !atomic_load_explicit(&b->g->stop, memory_order_relaxed))
        return false;
    if (b->executed > b->d->config.limit)
        ptx_report(w, PTX_CHECK_LIMIT, __builtin_ctz(mask), 0, "the block executed more than %llu instructions",
                   (unsigned long long)b->d->config.limit);
    b->stop = true;
    return true;
}

void ptx_step_warp(struct ptx_warp *w)
{
    struct ptx_block *b = w->b;
    while (w->state == W_READY && !b->stop && w->quantum-- > 0) {
        struct ptx_split *top = &w->split[w->nsplit - 1];
        if (top->pc == top->rejoin) {
            w->nsplit--;
            continue;
        }
        const struct ptx_insn *i = w->frame->f->code + top->pc++;
        uint32_t mask = top->mask;
        w->at = i;
        w->tick++;
        b->count.warp_instructions++;
        b->count.by_class[i->cls]++;
        if (w->nproducts && b->d->config.checks)
            ptx_product_guard(w, i, mask);
        if (!(w->tick & 1023) && over_limit(w, mask))
            return;
        if (i->flags & F_GUARD) {
            ptx_need_defined(w, &i->guard, mask, "the guard");
            mask &= ptx_pred(w, &i->guard);
            if (!mask)
                continue;
        }
        b->count.lane_instructions += mask == FULL ? LANES : (unsigned)__builtin_popcount(mask);
        switch (i->kind) {
        case K_ROW: run_row(w, i, mask); break;
        case K_FLOAT: run_float(w, i, mask); break;
        case K_COMPARE: {
            uint32_t def = w->frame->def[i->s[0].reg] & w->frame->def[i->s[1].reg];
            ptx_set_pred(w, &i->d, mask, i->fn.cmp(ptx_row(w, &i->s[0]), ptx_row(w, &i->s[1])));
            if ((def & mask) != mask && !i->d.sink)
                w->frame->def[i->d.reg] &= def | ~mask;
            break;
        }
        case K_RUN:
            if (w->frame->f->nspecials)
                refresh_clocks(w);
            run_handler(w, i, mask);
            break;
        case K_BRANCH: branch(w, i, mask); break;
        case K_CALL: run_call(w, i, mask); break;
        case K_RETURN: leave(w, mask, false); break;
        default: leave(w, mask, true);
        }
    }
}
