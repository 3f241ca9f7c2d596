/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks of a plan, once, when it is opened: every table lies inside the block, every index inside its table, every
 * step has the operands that its kind needs, regions do not nest into themselves. The walker trusts all of it. What a
 * field may be by itself is what plan.def says; what fields must be together is written here and in check_*.c, and may
 * trust that.
 * A plan that fails was not written by a compiler of this version: TCC_EINPUT for a foreign or cut block, TCC_EBUG for
 * one that contradicts itself.
 */
#include <stdlib.h>

#include "runtime/check_int.h"

#define MAX_NESTING 64

bool tcr_bad_plan(struct tcr_check *c, const char *problem, uint64_t value, uint64_t limit)
{
    c->status = tcr_fail(TCC_EBUG, "%s: plan: %s %u: %s (%llu, limit %llu)", c->what, c->where, c->at, problem,
                         (unsigned long long)value, (unsigned long long)limit);
    return false;
}

bool tcr_check_no_memory(struct tcr_check *c)
{
    c->status = tcr_fail(TCC_EENV, "%s: no memory", c->what);
    return false;
}

bool tcr_index_ok(struct tcr_check *c, const char *what, uint32_t i, uint32_t n)
{
    return i < n || tcr_bad_plan(c, what, i, n);
}

static bool range_ok(struct tcr_check *c, const char *what, struct tcc_range r, uint32_t n)
{
    return (uint64_t)r.first + r.count <= n || tcr_bad_plan(c, what, (uint64_t)r.first + r.count, n);
}

/* A range of u32s whose values are indices below n. */
static bool list_ok(struct tcr_check *c, const char *what, struct tcc_range r, uint32_t n, bool none_allowed)
{
    if (!range_ok(c, what, r, c->p->u32s.count))
        return false;
    for (uint32_t i = 0; i < r.count; i++) {
        uint32_t v = c->m->u32s[r.first + i];

        if (!(none_allowed && v == TCC_NO) && !tcr_index_ok(c, what, v, n))
            return false;
    }
    return true;
}

/* NAME_fields(): is each field of entry number c->at of that table what plan.def says? */
#define ANY(name, argument) true
#define BELOW(name, n) tcr_index_ok(c, #name, x->name, n)
#define BELOW_HEAD(name, member) BELOW(name, c->p->member)
#define INDEX(name, table) BELOW(name, c->p->table.count)
#define INDEX_OR_NO(name, table) (x->name == TCC_NO || INDEX(name, table))
#define INDEX_OR_0(name, table) (!x->name || tcr_index_ok(c, #name, x->name - 1, c->p->table.count))
#define RANGE(name, table) range_ok(c, #name, x->name, c->p->table.count)
#define LIST(name, table) LIST_BELOW(name, c->p->table.count)
#define LIST_OR_NO(name, table) list_ok(c, #name, x->name, c->p->table.count, true)
#define LIST_BELOW(name, n) list_ok(c, #name, x->name, n, false)
#define TCC_RECORDS(member, record, word, needed)    \
    static bool member##_fields(struct tcr_check *c) \
    {                                                \
        const struct record *x = &c->m->member[c->at];
#define TCC_FIELD(type, name, check, argument) \
    if (!check(name, argument))                \
        return false;
#define TCC_END  \
    return true; \
    }
#include "runtime/plan.def"

static bool type_ok(struct tcr_check *c, uint32_t dtype, uint32_t rank, struct tcc_range dims, bool any)
{
    if (!(any && dtype == TCC_NONE) && !tcr_dtype_bytes((int)dtype))
        return tcr_bad_plan(c, "element type", dtype, TCC_NDTYPES);
    if (any && rank == TCC_NO)
        return dims.count == 0 || tcr_bad_plan(c, "dims of an unranked tensor", dims.count, 0);
    if (rank > TCC_MAX_RANK || dims.count != rank)
        return tcr_bad_plan(c, "rank", rank, TCC_MAX_RANK);
    return true;
}

/* -- Tables ------------------------------------------------------------------------------------- */

static const void *table(struct tcr_check *c, const char *name, struct tcc_range r, size_t size, bool *ok)
{
    uint64_t end = (uint64_t)r.first + (uint64_t)r.count * size;

    if (end > c->p->size || (r.count && r.first < sizeof *c->p) || r.first % 16) {
        c->status = tcr_fail(TCC_EINPUT, "%s: plan is cut off or damaged: table '%s' ends at byte %llu of %llu",
                             c->what, name, (unsigned long long)end, (unsigned long long)c->p->size);
        *ok = false;
    }
    return (const char *)c->p + r.first;
}

static bool map_tables(struct tcr_check *c)
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

static bool check_expr(struct tcr_check *c)
{
    const struct tcc_pexpr *e = &c->m->exprs[c->at];

    if (e->op == TCC_EX_CONST)
        return true;
    if (e->op == TCC_EX_SYM)
        return (e->k >= 0 && e->k < c->p->syms.count) || tcr_bad_plan(c, "symbol", (uint64_t)e->k, c->p->syms.count);
    return tcr_index_ok(c, "operand", e->a, c->at) && tcr_index_ok(c, "operand", e->b, c->at) &&
           ((c->m->exprs[e->a].level <= e->level && c->m->exprs[e->b].level <= e->level) ||
            tcr_bad_plan(c, "operand of a later level", e->level, c->p->levels));
}

static bool shard_ok(struct tcr_check *c, struct tcc_pshard shard, uint32_t rank)
{
    return !shard.axis ||
           (tcr_index_ok(c, "split axis", shard.axis - 1, rank == TCC_NO ? 0 : rank) &&
            tcr_index_ok(c, "group", shard.group, c->p->groups.count) &&
            tcr_index_ok(c, "number of parts", shard.parts - 2, (1 << 20) - 1) &&
            tcr_index_ok(c, "number of blocks", shard.blocks - 1, INT32_MAX) &&
            (!shard.padding || tcr_index_ok(c, "number of blocks that are padded", shard.blocks - 1, 1)));
}

/* Of a state variable, whose dims are constants: is its first value, that of all parts without their padding, within
 * the weights? */
static bool whole_ok(struct tcr_check *c, const struct tcc_pstate *s)
{
    uint64_t parts = s->shard.axis ? s->shard.parts : 1, room = c->m->desc->weights_size;
    uint64_t rows = s->shard.axis ? (uint64_t)c->m->exprs[c->m->u32s[s->dims.first + s->shard.axis - 1]].k : 0;

    if (s->shard.padding && (!rows || s->shard.padding / parts >= rows))
        return tcr_bad_plan(c, "padding, of parts of so many elements", s->shard.padding, rows);
    return s->init == ~(uint64_t)0 ||
           (s->init <= room && s->bytes <= UINT64_MAX / parts && tcr_whole_bytes(c->m, s) <= room - s->init) ||
           tcr_bad_plan(c, "initial value outside the weights", s->init, room);
}

static bool check_buffer(struct tcr_check *c)
{
    const struct tcc_pbuffer *b = &c->m->buffers[c->at];
    bool object = b->space == TCC_SPACE_OBJECT;

    if (!type_ok(c, b->dtype, b->rank, b->dims, object))
        return false;
    if ((b->bytes == TCC_NO && !object) ||
        (b->offset == TCC_NO && (b->space == TCC_SPACE_WEIGHT || b->space == TCC_SPACE_ALIAS)))
        return tcr_bad_plan(c, "no bytes or offset", b->space, 0);
    if (!object && b->dtype == TCC_STRING)
        return tcr_bad_plan(c, "strings outside an object", b->dtype, 0);
    if ((b->space == TCC_SPACE_INPUT && !tcr_index_ok(c, "input", b->index, c->inputs)) ||
        (b->space == TCC_SPACE_OUTPUT && !tcr_index_ok(c, "output", b->index, c->outputs)))
        return false;
    if (b->space == TCC_SPACE_STATE && !tcr_index_ok(c, "state variable", b->index, c->p->states.count))
        return false;
    return b->space != TCC_SPACE_ALIAS || (tcr_index_ok(c, "aliased buffer (an earlier one)", b->index, c->at) &&
                                           (c->m->buffers[b->index].space != TCC_SPACE_OBJECT ||
                                            tcr_bad_plan(c, "alias of an object", b->index, c->at)));
}

static bool check_signature(struct tcr_check *c)
{
    const struct tcc_psignature *s = &c->m->signatures[c->at];

    return type_ok(c, s->dtype, s->rank, s->dims, true) && shard_ok(c, s->shard, s->rank);
}

static bool check_state(struct tcr_check *c)
{
    const struct tcc_pstate *s = &c->m->states[c->at];

    return type_ok(c, s->dtype, s->rank, s->dims, false) && shard_ok(c, s->shard, s->rank) &&
           (s->sym == TCC_NO || s->bytes == 8 ||
            tcr_bad_plan(c, "a state variable with a symbol has another size", s->bytes, 8)) &&
           whole_ok(c, s);
}

static bool check_attr(struct tcr_check *c)
{
    const struct tcc_pattr *a = &c->m->attrs[c->at];
    uint64_t size = 8 * (uint64_t)a->n;
    bool strings = a->kind == TCC_ATTR_STRINGS;
    int64_t dims[TCC_MAX_RANK], n = a->n;

    if (a->kind == TCC_ATTR_TENSOR) {
        if (a->rank > TCC_MAX_RANK || a->dims.count != a->rank)
            return tcr_bad_plan(c, "rank", a->rank, TCC_MAX_RANK);
        for (uint32_t i = 0; i < a->rank; i++)
            dims[i] = c->m->u32s[a->dims.first + i];
        n = tcr_elements((int)a->dtype, (int)a->rank, dims);
        strings = a->dtype == TCC_STRING;
        if (n < 0 || (strings && n > c->p->u32s.count))
            return tcr_bad_plan(c, "tensor", a->dtype, 0);
        size = (uint64_t)n * tcr_dtype_bytes((int)a->dtype);
    }
    if (strings)
        return list_ok(c, "string", (struct tcc_range){a->data, (uint32_t)n}, c->p->strings.count, false);
    return (a->data <= c->p->bytes.count && size <= c->p->bytes.count - a->data && a->data % 8 == 0) ||
           tcr_bad_plan(c, "data outside the bytes", a->data, c->p->bytes.count);
}

/* -- Nesting -------------------------------------------------------------------------------------- */

/* A step's depth is known once (0: not yet, 255: being computed), so shared regions cost nothing extra. */
static bool depth_of(struct tcr_check *c, uint8_t *depth, struct tcc_range steps, int level)
{
    if (level > MAX_NESTING)
        return tcr_bad_plan(c, "regions nest too deeply, or into themselves", (uint64_t)level, MAX_NESTING);
    for (uint32_t i = steps.first; i < steps.first + steps.count; i++) {
        const struct tcc_pstep *s = &c->m->steps[i];

        if (s->kind == TCC_STEP_CALL || s->kind == TCC_STEP_RESULT)
            return tcr_bad_plan(c, "a step of stages' lists stands elsewhere", s->kind, TCC_NSTEPS);
        if (depth[i] >= level || s->regions.count == 0)
            continue;
        depth[i] = (uint8_t)level;
        for (uint32_t r = 0; r < s->regions.count; r++)
            if (!depth_of(c, depth, c->m->regions[s->regions.first + r].steps, level + 1))
                return false;
    }
    return true;
}

static bool check_nesting(struct tcr_check *c)
{
    uint8_t *depth = calloc(c->p->steps.count + 1, 1);
    bool ok = true;

    if (!depth)
        return tcr_check_no_memory(c);
    c->where = "entry point";
    for (c->at = 0; ok && c->at < c->p->entries.count; c->at++)
        ok = depth_of(c, depth, c->m->entries[c->at].steps, 1);
    free(depth);
    return ok;
}

/* -- All of it ------------------------------------------------------------------------------------ */

/* A buffer's INPUT and OUTPUT number must exist in some entry point; the session has room for the largest. */
static bool prepare(struct tcr_check *c)
{
    const struct tcc_plan *p = c->p;

    if (p->levels > p->exprs.count + 1)
        return tcr_bad_plan(c, "more levels than expressions", p->levels, p->exprs.count + 1);
    if (p->nvisible > p->entries.count)
        return tcr_bad_plan(c, "entry points that are seen", p->nvisible, p->entries.count);
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
    return c->m->slot_of || tcr_check_no_memory(c);
}

/* In this order: first each field, then what stands on that. */
static const struct {
    const char *word;
    size_t table; /* its range, in struct tcc_plan */
    bool needed;
    bool (*ok)(struct tcr_check *c);
} checks[] = {
#define TCC_RECORDS(member, record, word, needed) {word, offsetof(struct tcc_plan, member), needed, member##_fields},
#include "runtime/plan.def"
    {"expression", offsetof(struct tcc_plan, exprs), false, check_expr},
    {"buffer", offsetof(struct tcc_plan, buffers), false, check_buffer},
    {"signature", offsetof(struct tcc_plan, signatures), false, check_signature},
    {"state variable", offsetof(struct tcc_plan, states), false, check_state},
    {"attribute", offsetof(struct tcc_plan, attrs), false, check_attr},
    {"step", offsetof(struct tcc_plan, steps), false, tcr_check_step},
    {"entry point in stages", offsetof(struct tcc_plan, staged), false, tcr_check_staged},
    {"entry point", offsetof(struct tcc_plan, entries), false, tcr_check_entry},
};

static bool check_records(struct tcr_check *c)
{
    for (size_t i = 0; i < sizeof checks / sizeof *checks; i++) {
        const struct tcc_range *table = (const void *)((const char *)c->p + checks[i].table);

        c->where = checks[i].word;
        c->at = 0;
        if (checks[i].needed && !table->count)
            return tcr_bad_plan(c, "there is none", 0, 0);
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
    struct tcr_check c = {.m = m, .p = p, .what = what, .where = "plan"};

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
