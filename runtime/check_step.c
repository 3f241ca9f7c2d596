/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check_step.c - checks of steps and of what an entry point has beside them: operands that a kind of step needs, loops,
 * cases, control blocks.
 */
#include "runtime/check_int.h"

/* What each kind must have: fewest and most args, regions (-1: any), and whether args may be omitted. */
static const struct {
    int8_t min, max, regions;
    bool omit;
} shapes[] = {
    [TCC_STEP_LAUNCH] = {0, -1, 0, false},     [TCC_STEP_COPY] = {2, 2, 0, false},
    [TCC_STEP_LIB] = {0, -1, 0, true},         [TCC_STEP_BIND] = {1, 1, 0, false},
    [TCC_STEP_DIMS] = {1, 1, 0, false},        [TCC_STEP_EVAL] = {0, 0, 0, false},
    [TCC_STEP_ALLOC] = {0, -1, 0, false},      [TCC_STEP_FREE] = {0, -1, 0, false},
    [TCC_STEP_IF] = {1, 1, 2, false},          [TCC_STEP_LOOP] = {2, 2, 1, true},
    [TCC_STEP_BOX] = {2, 2, 0, false},         [TCC_STEP_UNBOX] = {2, 2, 0, false},
    [TCC_STEP_ACCUM] = {2, 2, 0, false},       [TCC_STEP_STACK] = {2, 2, 0, false},
    [TCC_STEP_CHECK] = {0, 0, 0, false},       [TCC_STEP_REF] = {2, 2, 0, false},
    [TCC_STEP_COLLECTIVE] = {0, -1, 0, false}, [TCC_STEP_SEND] = {1, 1, 0, false},
    [TCC_STEP_RECV] = {1, 1, 0, false},        [TCC_STEP_PROGRAM] = {0, 0, 1, false},
    [TCC_STEP_PARALLEL] = {0, 0, -1, false},   [TCC_STEP_BATCH] = {0, 0, 1, false},
    [TCC_STEP_CALL] = {0, -1, 0, false},       [TCC_STEP_RESULT] = {1, 1, 0, false},
};

static bool is_object(struct tcr_check *c, uint32_t b)
{
    return c->m->buffers[b].space == TCC_SPACE_OBJECT;
}

/* Communication works on dense buffers, in one of a bounded number of queues. */
static bool check_communication(struct tcr_check *c, const struct tcc_pstep *s)
{
    static const uint32_t inputs[TCC_NCOLLECTIVES] = {
        [TCC_ALL_GATHER] = 1, [TCC_REDUCE_SCATTER] = 1, [TCC_ALL_TO_ALL] = 1};
    const uint32_t *a = c->m->u32s + s->args.first;

    if (!tcr_index_ok(c, "group", s->group, c->p->groups.count))
        return false;
    for (uint32_t i = 0; i < s->args.count; i++)
        if (is_object(c, a[i]))
            return tcr_bad_plan(c, "an object cannot be communicated", a[i], 0);
    if (s->kind != TCC_STEP_COLLECTIVE)
        return s->sizes.count == 2 || tcr_bad_plan(c, "peer and tag", s->sizes.count, 2);
    if (!tcr_index_ok(c, "collective", s->what, TCC_NCOLLECTIVES))
        return false;
    for (uint32_t i = 0; s->what == TCC_IS_OWNER && i < s->args.count; i++)
        if (c->m->buffers[a[i]].dtype != TCC_BOOL)
            return tcr_bad_plan(c, "ownership that is no bool", c->m->buffers[a[i]].dtype, TCC_BOOL);
    if (s->what == TCC_IS_OWNER && s->syms.count && s->syms.count != s->args.count)
        return tcr_bad_plan(c, "symbols of is_owner", s->syms.count, s->args.count);
    if (s->what == TCC_IS_OWNER)
        return !s->nin || tcr_bad_plan(c, "inputs of is_owner", s->nin, 0);
    return (s->args.count == 2 * (uint64_t)s->nin && (!inputs[s->what] || s->nin == inputs[s->what])) ||
           tcr_bad_plan(c, "inputs and outputs of a collective", s->args.count, 2 * (uint64_t)s->nin);
}

/* Its launches are alike. */
static bool check_batch(struct tcr_check *c, const struct tcc_pstep *s)
{
    struct tcc_range r = c->m->regions[s->regions.first].steps;
    const struct tcc_pstep *first = &c->m->steps[r.first];

    for (const struct tcc_pstep *p = first; p < first + r.count; p++)
        if (p->kind != TCC_STEP_LAUNCH || p->what != s->what || p->queue != s->queue || p->waits.count ||
            p->sizes.count != first->sizes.count)
            return tcr_bad_plan(c, "a launch that is not as others of its batch", (uint64_t)(p - c->m->steps), 0);
    return tcr_index_ok(c, "kernel", s->what, c->p->kernels.count);
}

/* Each region is one loop. */
static bool check_parallel(struct tcr_check *c, const struct tcc_pstep *s)
{
    for (uint32_t i = 0; i < s->regions.count; i++) {
        struct tcc_range r = c->m->regions[s->regions.first + i].steps;

        if (r.count != 1 || c->m->steps[r.first].kind != TCC_STEP_LOOP || c->m->steps[r.first].waits.count)
            return tcr_bad_plan(c, "a loop that can't run beside others", r.first, 0);
    }
    return true;
}

/* The kinds whose operands must be objects, dense, or in a certain space. */
static bool check_operands(struct tcr_check *c, const struct tcc_pstep *s)
{
    const uint32_t *a = c->m->u32s + s->args.first;

    switch (s->kind) {
    case TCC_STEP_LAUNCH:
        for (uint32_t i = 0; i < s->args.count; i++)
            if (is_object(c, a[i]))
                return tcr_bad_plan(c, "a kernel's operand is an object", a[i], 0);
        return tcr_index_ok(c, "kernel", s->what, c->p->kernels.count) &&
               tcr_index_ok(c, "tiles", s->tiles, c->p->exprs.count) &&
               (s->args.count == c->m->kernels[s->what].uses.count ||
                tcr_bad_plan(c, "operands of a kernel", s->args.count, c->m->kernels[s->what].uses.count));
    case TCC_STEP_BATCH: return check_batch(c, s);
    case TCC_STEP_COPY:
        return is_object(c, a[0]) == is_object(c, a[1]) ||
               tcr_bad_plan(c, "copy between an object and a tensor", a[0], 0);
    case TCC_STEP_LIB:
        for (uint32_t i = s->nin; i < s->args.count; i++)
            if (a[i] != TCC_NO && c->m->buffers[a[i]].space != TCC_SPACE_OBJECT && c->m->buffers[a[i]].rank == TCC_NO)
                return tcr_bad_plan(c, "output of unknown rank", a[i], 0);
        return tcr_index_ok(c, "library op", s->what, c->p->nlibops) &&
               (s->nin <= s->args.count || tcr_bad_plan(c, "inputs", s->nin, s->args.count));
    case TCC_STEP_EVAL: return tcr_index_ok(c, "level", s->what, c->p->levels);
    case TCC_STEP_ALLOC:
    case TCC_STEP_FREE:
        for (uint32_t i = 0; i < s->args.count; i++)
            if (c->m->slot_of[a[i]] == TCC_NO || (s->kind == TCC_STEP_ALLOC && is_object(c, a[i])))
                return tcr_bad_plan(c, "a buffer that is neither dynamic nor an object", a[i], 0);
        return true;
    case TCC_STEP_BIND:
        return c->m->buffers[a[0]].dtype == TCC_I64 ||
               tcr_bad_plan(c, "sizes that are not i64", c->m->buffers[a[0]].dtype, 0);
    case TCC_STEP_BOX: return is_object(c, a[1]) || tcr_bad_plan(c, "result that is not an object", a[1], 0);
    case TCC_STEP_UNBOX:
        return (is_object(c, a[0]) && !is_object(c, a[1])) || tcr_bad_plan(c, "object expected", a[0], 0);
    case TCC_STEP_ACCUM: return is_object(c, a[1]) || tcr_bad_plan(c, "object expected", a[1], 0);
    case TCC_STEP_STACK:
    case TCC_STEP_REF: return (is_object(c, a[0]) && is_object(c, a[1])) || tcr_bad_plan(c, "object expected", a[0], 0);
    case TCC_STEP_PARALLEL: return check_parallel(c, s);
    case TCC_STEP_CHECK:
        return tcr_index_ok(c, "relation", s->what, TCC_NRELATIONS) &&
               (s->sizes.count % 2 == 0 || tcr_bad_plan(c, "pairs of sizes", s->sizes.count, 0));
    case TCC_STEP_COLLECTIVE:
    case TCC_STEP_SEND:
    case TCC_STEP_RECV: return check_communication(c, s);
    case TCC_STEP_CALL:
        return tcr_index_ok(c, "entry point", s->what, c->p->entries.count) &&
               (s->nin <= s->args.count || tcr_bad_plan(c, "inputs", s->nin, s->args.count));
    default: return true;
    }
}

static bool check_loop(struct tcr_check *c, const struct tcc_pstep *s)
{
    bool loop = s->kind == TCC_STEP_LOOP, plain = s->kind >= TCC_STEP_PROGRAM;

    for (uint32_t i = 0; i < s->regions.count; i++) {
        const struct tcc_pregion *r = &c->m->regions[s->regions.first + i];
        uint32_t carried = loop ? r->params.count - 2 : r->results.count;

        if (loop && (r->params.count < 2 || r->results.count != r->params.count - 1))
            return tcr_bad_plan(c, "loop parameters do not match its results", r->params.count, r->results.count);
        if (plain && (r->params.count || r->results.count))
            return tcr_bad_plan(c, "a region that hands values over", r->params.count, 0);
        if (s->kind == TCC_STEP_PROGRAM && s->what > c->p->u32s.count)
            return tcr_bad_plan(c, "a number of the control block", s->what, c->p->u32s.count);
        if (r->exits.count != carried)
            return tcr_bad_plan(c, "region's outputs do not match its results", r->exits.count, carried);
    }
    return true;
}

bool tcr_check_step(struct tcr_check *c)
{
    const struct tcc_pstep *s = &c->m->steps[c->at];

    for (uint32_t i = 0; i < s->args.count && !shapes[s->kind].omit; i++)
        if (!tcr_index_ok(c, "buffer", c->m->u32s[s->args.first + i], c->p->buffers.count))
            return false;
    if ((int)s->args.count < shapes[s->kind].min ||
        (shapes[s->kind].max >= 0 && (int)s->args.count > shapes[s->kind].max))
        return tcr_bad_plan(c, "number of operands", s->args.count, (uint64_t)shapes[s->kind].max);
    if (shapes[s->kind].regions >= 0 && (int)s->regions.count != shapes[s->kind].regions)
        return tcr_bad_plan(c, "number of regions", s->regions.count, (uint64_t)shapes[s->kind].regions);
    return check_operands(c, s) && check_loop(c, s);
}

/* The shape versions of an entry point. */
static bool check_cases(struct tcr_check *c, const struct tcc_pentry *e)
{
    if (e->cases.count && (e->steps.count || e->staged))
        return tcr_bad_plan(c, "an entry point with versions has steps", e->steps.count, 0);
    for (uint32_t i = 0; i < e->cases.count; i++) {
        const struct tcc_pcase *x = &c->m->cases[e->cases.first + i];
        const struct tcc_pentry *v = &c->m->entries[x->entry];

        if (v->cases.count || v->staged || v->inputs.count != e->inputs.count || v->outputs.count != e->outputs.count)
            return tcr_bad_plan(c, "a version does not match its entry point", x->entry, c->p->entries.count);
    }
    return true;
}

/* What a run leaves in state variables that have symbols. */
static bool check_advances(struct tcr_check *c, const struct tcc_pentry *e)
{
    if (e->advances.count % 2)
        return tcr_bad_plan(c, "advances are no pairs", e->advances.count, 0);
    for (uint32_t i = 0; i < e->advances.count; i += 2) {
        const uint32_t *pair = c->m->u32s + e->advances.first + i;

        if (!tcr_index_ok(c, "advanced state variable", pair[0], c->p->states.count) ||
            !tcr_index_ok(c, "advance", pair[1], c->p->exprs.count))
            return false;
        if (c->m->states[pair[0]].sym == TCC_NO)
            return tcr_bad_plan(c, "an advanced state variable has no symbol", pair[0], c->p->states.count);
    }
    return true;
}

/* What is uploaded when a run begins is known then. */
static bool check_control(struct tcr_check *c, const struct tcc_pentry *e)
{
    for (uint32_t i = 0; i < e->control.count; i++) {
        const struct tcc_pexpr *x = &c->m->exprs[c->m->u32s[e->control.first + i]];

        if (x->level)
            return tcr_bad_plan(c, "the level of a value of the control block", x->level, 1);
    }
    return true;
}

/* The inputs that a call may leave out. */
static bool check_defaults(struct tcr_check *c, const struct tcc_pentry *e)
{
    const struct tcc_pentry *given = e->given ? &c->m->entries[e->given - 1] : NULL;

    if (!given)
        return !e->defaults.count || tcr_bad_plan(c, "values of inputs that nothing takes", e->defaults.count, 0);
    if (given->given || given->staged || e->staged || !e->defaults.count || given->outputs.count != e->outputs.count ||
        given->inputs.count - e->defaults.count != e->inputs.count)
        return tcr_bad_plan(c, "an entry point with inputs given does not match", e->given, c->p->entries.count);
    for (uint32_t i = 0; i < e->defaults.count; i++)
        if (c->m->attrs[e->defaults.first + i].kind != TCC_ATTR_TENSOR ||
            c->m->attrs[e->defaults.first + i].dtype == TCC_STRING)
            return tcr_bad_plan(c, "the value of an input is no tensor of numbers", i, e->defaults.count);
    return true;
}

bool tcr_check_entry(struct tcr_check *c)
{
    const struct tcc_pentry *e = &c->m->entries[c->at];

    if (e->staged && (e->steps.count || c->m->staged[e->staged - 1].axes.count != e->inputs.count ||
                      c->m->staged[e->staged - 1].results.count != e->outputs.count))
        return tcr_bad_plan(c, "stages do not match their entry point", e->staged, c->p->staged.count);
    if (!e->staged && !e->cases.count &&
        (e->input_buffers.count != e->inputs.count || e->output_buffers.count != e->outputs.count))
        return tcr_bad_plan(c, "buffers do not match the signature", e->input_buffers.count, e->inputs.count);
    return check_control(c, e) && check_cases(c, e) && check_advances(c, e) && check_defaults(c, e);
}
