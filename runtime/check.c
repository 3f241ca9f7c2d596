/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks of a plan, once, when it is opened: every table lies inside the block, every index inside its table, every
 * step has the operands that its kind needs, regions do not nest into themselves. The walker trusts all of it. What a
 * field may be by itself is what plan.def says; what fields must be together is written here, and may trust that.
 * A plan that fails was not written by a compiler of this version: TCC_EINPUT for a foreign or cut block, TCC_EBUG for
 * one that contradicts itself.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/rt_int.h"

#define MAX_NESTING 64

struct check {
    struct tccrt_model *m;
    const struct tcc_plan *p;
    const char *what;  /* name for messages */
    const char *where; /* table and entry being checked */
    uint32_t at;
    int status;               /* of the failure */
    uint32_t inputs, outputs; /* the most of an entry point */
};

static bool bad(struct check *c, const char *problem, uint64_t value, uint64_t limit)
{
    c->status = tcr_fail(TCC_EBUG, "%s: plan: %s %u: %s (%llu, limit %llu)", c->what, c->where, c->at, problem,
                         (unsigned long long)value, (unsigned long long)limit);
    return false;
}

static bool no_memory(struct check *c)
{
    c->status = tcr_fail(TCC_EENV, "%s: no memory", c->what);
    return false;
}

static bool index_ok(struct check *c, const char *what, uint32_t i, uint32_t n)
{
    return i < n || bad(c, what, i, n);
}

static bool range_ok(struct check *c, const char *what, struct tcc_range r, uint32_t n)
{
    return (uint64_t)r.first + r.count <= n || bad(c, what, (uint64_t)r.first + r.count, n);
}

/* A range of u32s whose values are indices below n. */
static bool list_ok(struct check *c, const char *what, struct tcc_range r, uint32_t n, bool none_allowed)
{
    if (!range_ok(c, what, r, c->p->u32s.count))
        return false;
    for (uint32_t i = 0; i < r.count; i++) {
        uint32_t v = c->m->u32s[r.first + i];

        if (!(none_allowed && v == TCC_NO) && !index_ok(c, what, v, n))
            return false;
    }
    return true;
}

/* NAME_fields(): is each field of entry number c->at of that table what plan.def says? */
#define ANY(name, argument) true
#define BELOW(name, n) index_ok(c, #name, x->name, n)
#define BELOW_HEAD(name, member) BELOW(name, c->p->member)
#define INDEX(name, table) BELOW(name, c->p->table.count)
#define INDEX_OR_NO(name, table) (x->name == TCC_NO || INDEX(name, table))
#define INDEX_OR_0(name, table) (!x->name || index_ok(c, #name, x->name - 1, c->p->table.count))
#define RANGE(name, table) range_ok(c, #name, x->name, c->p->table.count)
#define LIST(name, table) LIST_BELOW(name, c->p->table.count)
#define LIST_OR_NO(name, table) list_ok(c, #name, x->name, c->p->table.count, true)
#define LIST_BELOW(name, n) list_ok(c, #name, x->name, n, false)
#define TCC_RECORDS(member, record, word, needed) \
    static bool member##_fields(struct check *c)  \
    {                                             \
        const struct record *x = &c->m->member[c->at];
#define TCC_FIELD(type, name, check, argument) \
    if (!check(name, argument))                \
        return false;
#define TCC_END  \
    return true; \
    }
#include "runtime/plan.def"

static bool type_ok(struct check *c, uint32_t dtype, uint32_t rank, struct tcc_range dims, bool any)
{
    if (!(any && dtype == TCC_NONE) && !tcr_dtype_bytes((int)dtype))
        return bad(c, "element type", dtype, TCC_NDTYPES);
    if (any && rank == TCC_NO)
        return dims.count == 0 || bad(c, "dims of an unranked tensor", dims.count, 0);
    if (rank > TCC_MAX_RANK || dims.count != rank)
        return bad(c, "rank", rank, TCC_MAX_RANK);
    return true;
}

/* -- Tables ------------------------------------------------------------------------------------- */

static const void *table(struct check *c, const char *name, struct tcc_range r, size_t size, bool *ok)
{
    uint64_t end = (uint64_t)r.first + (uint64_t)r.count * size;

    if (end > c->p->size || (r.count && r.first < sizeof *c->p) || r.first % 16) {
        c->status = tcr_fail(TCC_EINPUT, "%s: plan is cut off or damaged: table '%s' ends at byte %llu of %llu",
                             c->what, name, (unsigned long long)end, (unsigned long long)c->p->size);
        *ok = false;
    }
    return (const char *)c->p + r.first;
}

static bool map_tables(struct check *c)
{
    struct tccrt_model *m = c->m;
    const struct tcc_plan *p = c->p;
    bool ok = true;

#define TCC_TABLE(member, type) m->member = table(c, #member, p->member, sizeof(type), &ok);
#include "runtime/plan.def"
    if (ok && p->strings.count && m->strings[p->strings.count - 1] != 0) {
        c->status = tcr_fail(TCC_EINPUT, "%s: plan is damaged: its strings are not terminated", c->what);
        ok = false;
    }
    return ok;
}

/* -- Entries of the tables ------------------------------------------------------------------------ */

static bool check_expr(struct check *c)
{
    const struct tcc_pexpr *e = &c->m->exprs[c->at];

    if (e->op == TCC_EX_CONST)
        return true;
    if (e->op == TCC_EX_SYM)
        return (e->k >= 0 && e->k < c->p->syms.count) || bad(c, "symbol", (uint64_t)e->k, c->p->syms.count);
    return index_ok(c, "operand", e->a, c->at) && index_ok(c, "operand", e->b, c->at) &&
           ((c->m->exprs[e->a].level <= e->level && c->m->exprs[e->b].level <= e->level) ||
            bad(c, "operand of a later level", e->level, c->p->levels));
}

static bool shard_ok(struct check *c, struct tcc_pshard shard, uint32_t rank)
{
    return !shard.axis || (index_ok(c, "split axis", shard.axis - 1, rank == TCC_NO ? 0 : rank) &&
                           index_ok(c, "group", shard.group, c->p->groups.count) &&
                           index_ok(c, "number of parts", shard.parts - 2, (1 << 20) - 1) &&
                           index_ok(c, "number of blocks", shard.blocks - 1, INT32_MAX) &&
                           (!shard.padding || index_ok(c, "number of blocks that are padded", shard.blocks - 1, 1)));
}

/* Of a state variable, whose dims are constants: is its first value, that of all parts without their padding, within
 * the weights? */
static bool whole_ok(struct check *c, const struct tcc_pstate *s)
{
    uint64_t parts = s->shard.axis ? s->shard.parts : 1, room = c->m->desc->weights_size;
    uint64_t rows = s->shard.axis ? (uint64_t)c->m->exprs[c->m->u32s[s->dims.first + s->shard.axis - 1]].k : 0;

    if (s->shard.padding && (!rows || s->shard.padding / parts >= rows))
        return bad(c, "padding, of parts of so many elements", s->shard.padding, rows);
    return s->init == ~(uint64_t)0 ||
           (s->init <= room && s->bytes <= UINT64_MAX / parts && tcr_whole_bytes(c->m, s) <= room - s->init) ||
           bad(c, "initial value outside the weights", s->init, room);
}

static bool check_buffer(struct check *c)
{
    const struct tcc_pbuffer *b = &c->m->buffers[c->at];
    bool object = b->space == TCC_SPACE_OBJECT;

    if (!type_ok(c, b->dtype, b->rank, b->dims, object))
        return false;
    if ((b->bytes == TCC_NO && !object) ||
        (b->offset == TCC_NO && (b->space == TCC_SPACE_WEIGHT || b->space == TCC_SPACE_ALIAS)))
        return bad(c, "no bytes or offset", b->space, 0);
    if (!object && b->dtype == TCC_STRING)
        return bad(c, "strings outside an object", b->dtype, 0);
    if ((b->space == TCC_SPACE_INPUT && !index_ok(c, "input", b->index, c->inputs)) ||
        (b->space == TCC_SPACE_OUTPUT && !index_ok(c, "output", b->index, c->outputs)))
        return false;
    if (b->space == TCC_SPACE_STATE && !index_ok(c, "state variable", b->index, c->p->states.count))
        return false;
    return b->space != TCC_SPACE_ALIAS ||
           (index_ok(c, "aliased buffer (an earlier one)", b->index, c->at) &&
            (c->m->buffers[b->index].space != TCC_SPACE_OBJECT || bad(c, "alias of an object", b->index, c->at)));
}

static bool check_signature(struct check *c)
{
    const struct tcc_psignature *s = &c->m->signatures[c->at];

    return type_ok(c, s->dtype, s->rank, s->dims, true) && shard_ok(c, s->shard, s->rank);
}

static bool check_state(struct check *c)
{
    const struct tcc_pstate *s = &c->m->states[c->at];

    return type_ok(c, s->dtype, s->rank, s->dims, false) && shard_ok(c, s->shard, s->rank) &&
           (s->sym == TCC_NO || s->bytes == 8 ||
            bad(c, "a state variable with a symbol has another size", s->bytes, 8)) &&
           whole_ok(c, s);
}

static bool check_attr(struct check *c)
{
    const struct tcc_pattr *a = &c->m->attrs[c->at];
    uint64_t size = 8 * (uint64_t)a->n;
    bool strings = a->kind == TCC_ATTR_STRINGS;
    int64_t dims[TCC_MAX_RANK], n = a->n;

    if (a->kind == TCC_ATTR_TENSOR) {
        if (a->rank > TCC_MAX_RANK || a->dims.count != a->rank)
            return bad(c, "rank", a->rank, TCC_MAX_RANK);
        for (uint32_t i = 0; i < a->rank; i++)
            dims[i] = c->m->u32s[a->dims.first + i];
        n = tcr_elements((int)a->dtype, (int)a->rank, dims);
        strings = a->dtype == TCC_STRING;
        if (n < 0 || (strings && n > c->p->u32s.count))
            return bad(c, "tensor", a->dtype, 0);
        size = (uint64_t)n * tcr_dtype_bytes((int)a->dtype);
    }
    if (strings)
        return list_ok(c, "string", (struct tcc_range){a->data, (uint32_t)n}, c->p->strings.count, false);
    return (a->data <= c->p->bytes.count && size <= c->p->bytes.count - a->data && a->data % 8 == 0) ||
           bad(c, "data outside the bytes", a->data, c->p->bytes.count);
}

/* -- Steps ---------------------------------------------------------------------------------------- */

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

static bool is_object(struct check *c, uint32_t b)
{
    return c->m->buffers[b].space == TCC_SPACE_OBJECT;
}

/* Communication works on dense buffers, in one of a bounded number of queues. */
static bool check_communication(struct check *c, const struct tcc_pstep *s)
{
    static const uint32_t inputs[TCC_NCOLLECTIVES] = {
        [TCC_ALL_GATHER] = 1, [TCC_REDUCE_SCATTER] = 1, [TCC_ALL_TO_ALL] = 1};
    const uint32_t *a = c->m->u32s + s->args.first;

    if (!index_ok(c, "group", s->group, c->p->groups.count))
        return false;
    for (uint32_t i = 0; i < s->args.count; i++)
        if (is_object(c, a[i]))
            return bad(c, "an object cannot be communicated", a[i], 0);
    if (s->kind != TCC_STEP_COLLECTIVE)
        return s->sizes.count == 2 || bad(c, "peer and tag", s->sizes.count, 2);
    if (!index_ok(c, "collective", s->what, TCC_NCOLLECTIVES))
        return false;
    for (uint32_t i = 0; s->what == TCC_IS_OWNER && i < s->args.count; i++)
        if (c->m->buffers[a[i]].dtype != TCC_BOOL)
            return bad(c, "ownership that is no bool", c->m->buffers[a[i]].dtype, TCC_BOOL);
    if (s->what == TCC_IS_OWNER && s->syms.count && s->syms.count != s->args.count)
        return bad(c, "symbols of is_owner", s->syms.count, s->args.count);
    if (s->what == TCC_IS_OWNER)
        return !s->nin || bad(c, "inputs of is_owner", s->nin, 0);
    return (s->args.count == 2 * (uint64_t)s->nin && (!inputs[s->what] || s->nin == inputs[s->what])) ||
           bad(c, "inputs and outputs of a collective", s->args.count, 2 * (uint64_t)s->nin);
}

/* Its launches are alike. */
static bool check_batch(struct check *c, const struct tcc_pstep *s)
{
    struct tcc_range r = c->m->regions[s->regions.first].steps;
    const struct tcc_pstep *first = &c->m->steps[r.first];

    for (const struct tcc_pstep *p = first; p < first + r.count; p++)
        if (p->kind != TCC_STEP_LAUNCH || p->what != s->what || p->queue != s->queue || p->waits.count ||
            p->sizes.count != first->sizes.count)
            return bad(c, "a launch that is not as others of its batch", (uint64_t)(p - c->m->steps), 0);
    return index_ok(c, "kernel", s->what, c->p->kernels.count);
}

/* Each region is one loop. */
static bool check_parallel(struct check *c, const struct tcc_pstep *s)
{
    for (uint32_t i = 0; i < s->regions.count; i++) {
        struct tcc_range r = c->m->regions[s->regions.first + i].steps;

        if (r.count != 1 || c->m->steps[r.first].kind != TCC_STEP_LOOP || c->m->steps[r.first].waits.count)
            return bad(c, "a loop that can't run beside others", r.first, 0);
    }
    return true;
}

/* The kinds whose operands must be objects, dense, or in a certain space. */
static bool check_operands(struct check *c, const struct tcc_pstep *s)
{
    const uint32_t *a = c->m->u32s + s->args.first;

    switch (s->kind) {
    case TCC_STEP_LAUNCH:
        for (uint32_t i = 0; i < s->args.count; i++)
            if (is_object(c, a[i]))
                return bad(c, "a kernel's operand is an object", a[i], 0);
        return index_ok(c, "kernel", s->what, c->p->kernels.count) &&
               index_ok(c, "tiles", s->tiles, c->p->exprs.count) &&
               (s->args.count == c->m->kernels[s->what].uses.count ||
                bad(c, "operands of a kernel", s->args.count, c->m->kernels[s->what].uses.count));
    case TCC_STEP_BATCH: return check_batch(c, s);
    case TCC_STEP_COPY:
        return is_object(c, a[0]) == is_object(c, a[1]) || bad(c, "copy between an object and a tensor", a[0], 0);
    case TCC_STEP_LIB:
        for (uint32_t i = s->nin; i < s->args.count; i++)
            if (a[i] != TCC_NO && c->m->buffers[a[i]].space != TCC_SPACE_OBJECT && c->m->buffers[a[i]].rank == TCC_NO)
                return bad(c, "output of unknown rank", a[i], 0);
        return index_ok(c, "library op", s->what, c->p->nlibops) &&
               (s->nin <= s->args.count || bad(c, "inputs", s->nin, s->args.count));
    case TCC_STEP_EVAL: return index_ok(c, "level", s->what, c->p->levels);
    case TCC_STEP_ALLOC:
    case TCC_STEP_FREE:
        for (uint32_t i = 0; i < s->args.count; i++)
            if (c->m->slot_of[a[i]] == TCC_NO || (s->kind == TCC_STEP_ALLOC && is_object(c, a[i])))
                return bad(c, "a buffer that is neither dynamic nor an object", a[i], 0);
        return true;
    case TCC_STEP_BIND:
        return c->m->buffers[a[0]].dtype == TCC_I64 || bad(c, "sizes that are not i64", c->m->buffers[a[0]].dtype, 0);
    case TCC_STEP_BOX: return is_object(c, a[1]) || bad(c, "result that is not an object", a[1], 0);
    case TCC_STEP_UNBOX: return (is_object(c, a[0]) && !is_object(c, a[1])) || bad(c, "object expected", a[0], 0);
    case TCC_STEP_ACCUM: return is_object(c, a[1]) || bad(c, "object expected", a[1], 0);
    case TCC_STEP_STACK:
    case TCC_STEP_REF: return (is_object(c, a[0]) && is_object(c, a[1])) || bad(c, "object expected", a[0], 0);
    case TCC_STEP_PARALLEL: return check_parallel(c, s);
    case TCC_STEP_CHECK:
        return index_ok(c, "relation", s->what, TCC_NRELATIONS) &&
               (s->sizes.count % 2 == 0 || bad(c, "pairs of sizes", s->sizes.count, 0));
    case TCC_STEP_COLLECTIVE:
    case TCC_STEP_SEND:
    case TCC_STEP_RECV: return check_communication(c, s);
    case TCC_STEP_CALL:
        return index_ok(c, "entry point", s->what, c->p->entries.count) &&
               (s->nin <= s->args.count || bad(c, "inputs", s->nin, s->args.count));
    default: return true;
    }
}

static bool check_loop(struct check *c, const struct tcc_pstep *s)
{
    bool loop = s->kind == TCC_STEP_LOOP, plain = s->kind >= TCC_STEP_PROGRAM;

    for (uint32_t i = 0; i < s->regions.count; i++) {
        const struct tcc_pregion *r = &c->m->regions[s->regions.first + i];
        uint32_t carried = loop ? r->params.count - 2 : r->results.count;

        if (loop && (r->params.count < 2 || r->results.count != r->params.count - 1))
            return bad(c, "loop parameters do not match its results", r->params.count, r->results.count);
        if (plain && (r->params.count || r->results.count))
            return bad(c, "a region that hands values over", r->params.count, 0);
        if (s->kind == TCC_STEP_PROGRAM && s->what > c->p->u32s.count)
            return bad(c, "a number of the control block", s->what, c->p->u32s.count);
        if (r->exits.count != carried)
            return bad(c, "region's outputs do not match its results", r->exits.count, carried);
    }
    return true;
}

static bool check_step(struct check *c)
{
    const struct tcc_pstep *s = &c->m->steps[c->at];

    for (uint32_t i = 0; i < s->args.count && !shapes[s->kind].omit; i++)
        if (!index_ok(c, "buffer", c->m->u32s[s->args.first + i], c->p->buffers.count))
            return false;
    if ((int)s->args.count < shapes[s->kind].min ||
        (shapes[s->kind].max >= 0 && (int)s->args.count > shapes[s->kind].max))
        return bad(c, "number of operands", s->args.count, (uint64_t)shapes[s->kind].max);
    if (shapes[s->kind].regions >= 0 && (int)s->regions.count != shapes[s->kind].regions)
        return bad(c, "number of regions", s->regions.count, (uint64_t)shapes[s->kind].regions);
    return check_operands(c, s) && check_loop(c, s);
}

/* The shape versions of an entry point. */
static bool check_cases(struct check *c, const struct tcc_pentry *e)
{
    if (e->cases.count && (e->steps.count || e->staged))
        return bad(c, "an entry point with versions has steps", e->steps.count, 0);
    for (uint32_t i = 0; i < e->cases.count; i++) {
        const struct tcc_pcase *x = &c->m->cases[e->cases.first + i];
        const struct tcc_pentry *v = &c->m->entries[x->entry];

        if (v->cases.count || v->staged || v->inputs.count != e->inputs.count || v->outputs.count != e->outputs.count)
            return bad(c, "a version does not match its entry point", x->entry, c->p->entries.count);
    }
    return true;
}

/* What a run leaves in state variables that have symbols. */
static bool check_advances(struct check *c, const struct tcc_pentry *e)
{
    if (e->advances.count % 2)
        return bad(c, "advances are no pairs", e->advances.count, 0);
    for (uint32_t i = 0; i < e->advances.count; i += 2) {
        const uint32_t *pair = c->m->u32s + e->advances.first + i;

        if (!index_ok(c, "advanced state variable", pair[0], c->p->states.count) ||
            !index_ok(c, "advance", pair[1], c->p->exprs.count))
            return false;
        if (c->m->states[pair[0]].sym == TCC_NO)
            return bad(c, "an advanced state variable has no symbol", pair[0], c->p->states.count);
    }
    return true;
}

/* What is uploaded when a run begins is known then. */
static bool check_control(struct check *c, const struct tcc_pentry *e)
{
    for (uint32_t i = 0; i < e->control.count; i++) {
        const struct tcc_pexpr *x = &c->m->exprs[c->m->u32s[e->control.first + i]];

        if (x->level)
            return bad(c, "the level of a value of the control block", x->level, 1);
    }
    return true;
}

/* The inputs that a call may leave out. */
static bool check_defaults(struct check *c, const struct tcc_pentry *e)
{
    const struct tcc_pentry *given = e->given ? &c->m->entries[e->given - 1] : NULL;

    if (!given)
        return !e->defaults.count || bad(c, "values of inputs that nothing takes", e->defaults.count, 0);
    if (given->given || given->staged || e->staged || !e->defaults.count || given->outputs.count != e->outputs.count ||
        given->inputs.count - e->defaults.count != e->inputs.count)
        return bad(c, "an entry point with inputs given does not match", e->given, c->p->entries.count);
    for (uint32_t i = 0; i < e->defaults.count; i++)
        if (c->m->attrs[e->defaults.first + i].kind != TCC_ATTR_TENSOR ||
            c->m->attrs[e->defaults.first + i].dtype == TCC_STRING)
            return bad(c, "the value of an input is no tensor of numbers", i, e->defaults.count);
    return true;
}

static bool check_entry(struct check *c)
{
    const struct tcc_pentry *e = &c->m->entries[c->at];

    if (e->staged && (e->steps.count || c->m->staged[e->staged - 1].axes.count != e->inputs.count ||
                      c->m->staged[e->staged - 1].results.count != e->outputs.count))
        return bad(c, "stages do not match their entry point", e->staged, c->p->staged.count);
    if (!e->staged && !e->cases.count &&
        (e->input_buffers.count != e->inputs.count || e->output_buffers.count != e->outputs.count))
        return bad(c, "buffers do not match the signature", e->input_buffers.count, e->inputs.count);
    return check_control(c, e) && check_cases(c, e) && check_advances(c, e) && check_defaults(c, e);
}

/* -- Stages --------------------------------------------------------------------------------------- */

static bool check_values(struct check *c, const struct tcc_pstaged *p)
{
    for (uint32_t i = 0; i < p->buffers.count; i++) {
        const struct tcc_pbuffer *b = &c->m->buffers[p->buffers.first + i];

        if (b->space != TCC_SPACE_INPUT && b->space < TCC_SPACE_SLOT)
            return bad(c, "a buffer of a stage's list is in the space", b->space, TCC_SPACE_SLOT);
        if (b->space == TCC_SPACE_SLOT && (b->index < 1 || b->index > p->micros + 1))
            return bad(c, "slots", b->index, p->micros);
        if (b->space == TCC_SPACE_INPUT && !index_ok(c, "stages' input", b->index, p->axes.count))
            return false;
    }
    for (uint32_t i = 0; i < p->results.count; i++) {
        const struct tcc_presult *x = &c->m->results[p->results.first + i];

        if (!index_ok(c, "result's buffer", x->buffer - p->buffers.first, p->buffers.count) ||
            !index_ok(c, "result's stage", x->stage, p->stages))
            return false;
    }
    return true;
}

/* Operands from number `first` on have slots; where others than calls look at them, those lie with the host. */
static bool slots_ok(struct check *c, const struct tcc_pstep *s, uint32_t first)
{
    for (uint32_t i = first; i < s->args.count; i++) {
        const struct tcc_pbuffer *b = &c->m->buffers[c->m->u32s[s->args.first + i]];

        if (b->space != TCC_SPACE_SLOT || (b->memory && s->kind != TCC_STEP_CALL))
            return bad(c, "an operand of a stage's step has no slot there", i, s->args.count);
    }
    return true;
}

/* An operand of a call has its entry's element type and rank. */
static bool call_ok(struct check *c, const struct tcc_pstep *s)
{
    const struct tcc_pentry *e = &c->m->entries[s->what];

    for (uint32_t i = 0; i < s->args.count; i++) {
        const struct tcc_pbuffer *b = &c->m->buffers[c->m->u32s[s->args.first + i]];
        uint32_t k = i < s->nin ? e->inputs.first + i : e->outputs.first + (i - s->nin);

        if (c->m->signatures[k].dtype != b->dtype || c->m->signatures[k].rank != b->rank)
            return bad(c, "an operand of a call is of another type", i, s->args.count);
    }
    return true;
}

static bool staged_step_ok(struct check *c, const struct tcc_pstaged *p, const struct tcc_pstep *s, bool last)
{
    const struct tcc_pentry *e = &c->m->entries[s->kind == TCC_STEP_CALL ? s->what : 0];
    bool message = s->kind == TCC_STEP_SEND || s->kind == TCC_STEP_RECV;
    const uint32_t most[] = {message ? p->stages : p->micros, p->micros};

    if (s->sizes.count != (s->kind == TCC_STEP_COLLECTIVE ? 0u : 1u + message))
        return bad(c, "sizes of a stage's step", s->sizes.count, 2);
    for (uint32_t i = 0; i < s->sizes.count; i++) {
        const struct tcc_pexpr *x = &c->m->exprs[c->m->u32s[s->sizes.first + i]];

        if (x->op != TCC_EX_CONST || x->k < 0 || x->k >= most[i])
            return bad(c, "a stage's step is of the stage or microbatch", (uint64_t)x->k, most[i]);
    }
    for (uint32_t i = 0; i < s->args.count; i++)
        if (!index_ok(c, "operand of a stage's step", c->m->u32s[s->args.first + i] - p->buffers.first,
                      p->buffers.count))
            return false;
    if (s->kind == TCC_STEP_CALL)
        return (!e->staged && e->inputs.count == s->nin && e->outputs.count == s->args.count - s->nin &&
                slots_ok(c, s, s->nin) && call_ok(c, s)) ||
               bad(c, "a call does not match its entry point", s->what, c->p->entries.count);
    if (s->kind == TCC_STEP_RESULT && index_ok(c, "result", s->what, p->results.count) &&
        c->m->results[p->results.first + s->what].buffer != c->m->u32s[s->args.first])
        return bad(c, "another buffer than the result's", s->what, p->results.count);
    return (!last &&
            (message || (s->kind == TCC_STEP_COLLECTIVE && s->what == TCC_ALL_GATHER) ||
             (s->kind == TCC_STEP_RESULT && index_ok(c, "result", s->what, p->results.count))) &&
            slots_ok(c, s, 0)) ||
           bad(c, "a stage's list has a step of kind", s->kind, TCC_NSTEPS);
}

/* By buffer where its slots begin, by slot 1 + the microbatch there, by result how many have come. */
struct held {
    uint32_t *first, nslots, *micro, *results;
};

static bool step_finds(struct check *c, const struct tcc_pstaged *p, const struct held *h, const struct tcc_pstep *s)
{
    bool lists = s->kind == TCC_STEP_CALL || s->kind == TCC_STEP_COLLECTIVE;
    uint32_t reads = lists ? s->nin : s->kind != TCC_STEP_RECV, micro = tcr_stage_micro(c->m, s);

    for (uint32_t i = 0; i < s->args.count; i++) {
        uint32_t b = c->m->u32s[s->args.first + i] - p->buffers.first, n = c->m->buffers[p->buffers.first + b].index;

        if (c->m->buffers[p->buffers.first + b].space != TCC_SPACE_SLOT)
            continue;
        if (i >= reads)
            h->micro[h->first[b] + micro % n] = micro + 1;
        else if (h->micro[h->first[b] + micro % n] != micro + 1)
            return bad(c, "what a stage's step reads is not in its slot: microbatch", micro, p->micros);
    }
    if (s->kind == TCC_STEP_RESULT)
        h->results[s->what]++;
    return true;
}

/* Each stage's list, and behind it the one of all: does each step find what it reads? */
static bool lists_find(struct check *c, const struct tcc_pstaged *p, struct held *h)
{
    const struct tcc_pregion *lists = c->m->regions + p->lists.first;
    const struct tcc_pbuffer *x = c->m->buffers + p->buffers.first;

    h->results = h->first + p->buffers.count;
    for (uint32_t b = 0; b < p->buffers.count; b++) {
        h->first[b] = h->nslots;
        h->nslots += x[b].space == TCC_SPACE_SLOT ? x[b].index : 0;
    }
    if (!(h->micro = malloc(((size_t)h->nslots + 1) * sizeof *h->micro)))
        return no_memory(c);
    for (uint32_t l = 0; l < p->stages; l++) {
        memset(h->micro, 0, (size_t)h->nslots * sizeof *h->micro);
        for (uint32_t i = 0; i < lists[l].steps.count; i++)
            if (!step_finds(c, p, h, &c->m->steps[lists[l].steps.first + i]))
                return false;
        for (uint32_t i = 0; i < lists[p->stages].steps.count; i++)
            if (!step_finds(c, p, h, &c->m->steps[lists[p->stages].steps.first + i]))
                return false;
    }
    for (uint32_t i = 0; i < p->results.count; i++)
        if (h->results[i] != p->micros)
            return bad(c, "microbatches of a result", h->results[i], p->micros);
    return true;
}

static bool check_slots(struct check *c, const struct tcc_pstaged *p)
{
    struct held h = {.first = calloc((size_t)p->buffers.count + p->results.count + 1, sizeof *h.first)};
    bool ok = h.first ? lists_find(c, p, &h) : no_memory(c);

    free(h.first);
    free(h.micro);
    return ok;
}

static bool check_staged(struct check *c)
{
    const struct tcc_pstaged *p = &c->m->staged[c->at];

    if (p->stages < 1 || p->stages > 1024 || p->micros < 1 || p->micros > 1 << 16)
        return bad(c, "stages or microbatches", p->stages, 1024);
    if (p->counter && c->m->states[p->counter - 1].bytes != 8)
        return bad(c, "counter", c->m->states[p->counter - 1].bytes, 8);
    if (p->peaks.count && p->peaks.count != 4 * p->stages)
        return bad(c, "peaks of stages", p->peaks.count, 4 * p->stages);
    if (p->lists.count != p->stages + 1)
        return bad(c, "lists of stages", p->lists.count, p->stages + 1);
    if (!check_values(c, p))
        return false;
    for (uint32_t l = 0; l < p->lists.count; l++) {
        struct tcc_range r = c->m->regions[p->lists.first + l].steps;

        for (uint32_t i = r.first; i < r.first + r.count; i++)
            if (!staged_step_ok(c, p, &c->m->steps[i], l == p->stages))
                return false;
    }
    return check_slots(c, p);
}

/* -- Nesting -------------------------------------------------------------------------------------- */

/* A step's depth is known once (0: not yet, 255: being computed), so shared regions cost nothing extra. */
static bool depth_of(struct check *c, uint8_t *depth, struct tcc_range steps, int level)
{
    if (level > MAX_NESTING)
        return bad(c, "regions nest too deeply, or into themselves", (uint64_t)level, MAX_NESTING);
    for (uint32_t i = steps.first; i < steps.first + steps.count; i++) {
        const struct tcc_pstep *s = &c->m->steps[i];

        if (s->kind == TCC_STEP_CALL || s->kind == TCC_STEP_RESULT)
            return bad(c, "a step of stages' lists stands elsewhere", s->kind, TCC_NSTEPS);
        if (depth[i] >= level || s->regions.count == 0)
            continue;
        depth[i] = (uint8_t)level;
        for (uint32_t r = 0; r < s->regions.count; r++)
            if (!depth_of(c, depth, c->m->regions[s->regions.first + r].steps, level + 1))
                return false;
    }
    return true;
}

static bool check_nesting(struct check *c)
{
    uint8_t *depth = calloc(c->p->steps.count + 1, 1);
    bool ok = true;

    if (!depth)
        return no_memory(c);
    c->where = "entry point";
    for (c->at = 0; ok && c->at < c->p->entries.count; c->at++)
        ok = depth_of(c, depth, c->m->entries[c->at].steps, 1);
    free(depth);
    return ok;
}

/* -- All of it ------------------------------------------------------------------------------------ */

/* A buffer's INPUT and OUTPUT number must exist in some entry point; the session has room for the largest. */
static bool prepare(struct check *c)
{
    const struct tcc_plan *p = c->p;

    if (p->levels > p->exprs.count + 1)
        return bad(c, "more levels than expressions", p->levels, p->exprs.count + 1);
    if (p->nvisible > p->entries.count)
        return bad(c, "entry points that are seen", p->nvisible, p->entries.count);
    for (uint32_t i = 0; i < p->entries.count; i++) {
        c->inputs = c->m->entries[i].inputs.count > c->inputs ? c->m->entries[i].inputs.count : c->inputs;
        c->outputs = c->m->entries[i].outputs.count > c->outputs ? c->m->entries[i].outputs.count : c->outputs;
    }
    c->m->slot_of = malloc(((size_t)p->buffers.count + 1) * sizeof(uint32_t));
    for (uint32_t i = 0; c->m->slot_of && i < p->buffers.count; i++) {
        uint32_t space = c->m->buffers[i].space;
        bool slot = space == TCC_SPACE_DYNAMIC || space == TCC_SPACE_OBJECT;

        c->m->slot_of[i] = slot ? c->m->nslots++ : TCC_NO;
    }
    return c->m->slot_of || no_memory(c);
}

/* In this order: first each field, then what stands on that. */
static const struct {
    const char *word;
    size_t table; /* its range, in struct tcc_plan */
    bool needed;
    bool (*ok)(struct check *c);
} checks[] = {
#define TCC_RECORDS(member, record, word, needed) {word, offsetof(struct tcc_plan, member), needed, member##_fields},
#include "runtime/plan.def"
    {"expression", offsetof(struct tcc_plan, exprs), false, check_expr},
    {"buffer", offsetof(struct tcc_plan, buffers), false, check_buffer},
    {"signature", offsetof(struct tcc_plan, signatures), false, check_signature},
    {"state variable", offsetof(struct tcc_plan, states), false, check_state},
    {"attribute", offsetof(struct tcc_plan, attrs), false, check_attr},
    {"step", offsetof(struct tcc_plan, steps), false, check_step},
    {"entry point in stages", offsetof(struct tcc_plan, staged), false, check_staged},
    {"entry point", offsetof(struct tcc_plan, entries), false, check_entry},
};

static bool check_records(struct check *c)
{
    for (size_t i = 0; i < sizeof checks / sizeof *checks; i++) {
        const struct tcc_range *table = (const void *)((const char *)c->p + checks[i].table);

        c->where = checks[i].word;
        c->at = 0;
        if (checks[i].needed && !table->count)
            return bad(c, "there is none", 0, 0);
        for (; c->at < table->count; c->at++)
            if (!checks[i].ok(c))
                return false;
    }
    return true;
}

/* Checks the plan of m->desc and fills in m's tables. `what` names the artifact in messages. */
int tcr_check_plan(struct tccrt_model *m, const char *what)
{
    const struct tcc_plan *p = m->desc->plan;
    struct check c = {.m = m, .p = p, .what = what, .where = "plan"};

    m->plan = p;
    if (!p || (uintptr_t)p % 16)
        return tcr_fail(TCC_EBUG, "%s: it has no plan, or one that is not aligned to 16 bytes", what);
    if (p->magic != TCC_PLAN_MAGIC || p->version != TCC_ABI_VERSION)
        return tcr_fail(TCC_EINPUT, "%s: its plan has version %u, this runtime reads version %u", what, p->version,
                        TCC_ABI_VERSION);
    if (!map_tables(&c) || !prepare(&c) || !check_records(&c) || !check_nesting(&c))
        return c.status;
    return TCC_OK;
}
