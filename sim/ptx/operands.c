/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operands of statements into operands of instructions: registers, immediates, addresses of symbols, vectors, and the
 * modifiers behind an opcode, which every decode function takes in the order in which PTX has them.
 */
#include "sim/ptx/text_int.h"

bool ptx_take(struct ptx_parse *p, const char *modifier)
{
    struct ptx_statement *st = &p->st;
    for (int i = 0; i < st->nmod; i++)
        if (strcmp(st->mod[i], modifier) == 0) {
            memmove(st->mod + i, st->mod + i + 1, (size_t)(st->nmod - i - 1) * sizeof *st->mod);
            st->nmod--;
            return true;
        }
    return false;
}

enum ptx_type ptx_type_named(const char *text, size_t n)
{
    for (int t = 1; t < PT_COUNT; t++)
        if (strlen(ptx_types[t].text) == n && memcmp(ptx_types[t].text, text, n) == 0)
            return (enum ptx_type)t;
    return PT_NONE;
}

/* The first modifier that is a type; PT_NONE: there is none. */
static enum ptx_type maybe_type(struct ptx_parse *p)
{
    for (int i = 0; i < p->st.nmod; i++) {
        enum ptx_type t = ptx_type_named(p->st.mod[i], strlen(p->st.mod[i]));
        if (t != PT_NONE) {
            ptx_take(p, p->st.mod[i]);
            return t;
        }
    }
    return PT_NONE;
}

enum ptx_type ptx_take_type(struct ptx_parse *p)
{
    enum ptx_type t = maybe_type(p);
    if (t == PT_NONE)
        ptx_fail(p, p->st.line, "'%s' requires a type", p->st.opcode);
    return t;
}

void ptx_operands(struct ptx_parse *p, int n)
{
    if (p->st.nop != n)
        ptx_fail(p, p->st.line, "'%s' requires %d operands, got %d", p->st.opcode, n, p->st.nop);
}

struct ptx_op ptx_constant(struct ptx_parse *p, uint64_t value, int bytes)
{
    struct ptx_func *f = p->f;
    size_t each = bytes ? (size_t)bytes : 4, size = bytes ? each * LANES : 4;
    if (!bytes)
        value = value ? FULL : 0;
    if (f->const_bytes + size + 64 > f->const_room) {
        size_t room = 2 * f->const_room + 16384;
        uint8_t *grown = ptx_new(p, room + 64);
        grown += 64 - ((uintptr_t)grown & 63);
        if (f->const_bytes)
            memcpy(grown, f->constants, f->const_bytes);
        f->constants = grown;
        f->const_room = room;
    }
    struct ptx_op o = {.at = (uint32_t)f->const_bytes, .bytes = (uint8_t)bytes, .constant = 1};
    for (size_t at = 0; at < size; at += each) {
        memset(f->constants + o.at + at, 0, each);
        memcpy(f->constants + o.at + at, &value, each > 8 ? 8 : each);
    }
    f->const_bytes = (f->const_bytes + size + 63) & ~(size_t)63;
    return o;
}

static void ptx_dynamic(struct ptx_parse *p, bool is_imm, uint32_t constant, int64_t add)
{
    p->dynamic = ptx_grow(p, p->dynamic, p->ndynamic, &p->dynamic_room, sizeof *p->dynamic);
    p->dynamic[p->ndynamic].is_imm = is_imm;
    p->dynamic[p->ndynamic].constant = constant;
    p->dynamic[p->ndynamic].pc = p->f->ncode;
    p->dynamic[p->ndynamic++].add = add;
}

void ptx_place_shared(struct ptx_parse *p, struct ptx_sym *s)
{
    struct ptx_func *f = p->f;
    uint64_t align = (uint64_t)s->align, gap = align > SHARED_GAP ? align : SHARED_GAP;
    uint64_t at = (f->shared_bytes + align - 1) & ~(align - 1);
    if (f->nshared)
        f->gaps = (f->gaps + SHARED_GAP + gap - 1) & ~(gap - 1);
    s->at = at + f->gaps;
    s->placed = f;
    f->shared_bytes = (size_t)(at + s->size);
    f->shared = ptx_grow(p, f->shared, f->nshared, &f->shared_room, sizeof *f->shared);
    f->shared[f->nshared++] = (struct ptx_span){s->name, s->at, s->at + s->size};
}

/* Shared variables of the module get their place in the function that names them first, function by function. */
static void place_shared(struct ptx_parse *p, struct ptx_sym *s)
{
    if (s->space != SP_SHARED || s->placed == p->f || s->dynamic)
        return;
    if (!p->f->entry)
        ptx_fail(p, p->st.line, "shared variable '%s' of the module in '%s', which is not an entry, is not supported",
                 s->name, p->f->name);
    ptx_place_shared(p, s);
}

/* The address of a variable in its own space, as a constant. */
static struct ptx_op symbol_address(struct ptx_parse *p, const struct ptx_operand *o, int bytes)
{
    struct ptx_sym *s = ptx_symbol(p, o->name);
    if (!s)
        ptx_fail(p, p->st.line, "unknown name '%s'", o->name);
    place_shared(p, s);
    if (s->space == SP_PARAM && p->f->entry && s->placed)
        ptx_fail(p, p->st.line, "the address of the call parameter '%s' is not supported", s->name);
    struct ptx_op c = ptx_constant(p, s->at + (uint64_t)o->offset, bytes);
    if (s->dynamic && s->space == SP_SHARED) {
        ptx_dynamic(p, false, c.at, o->offset);
        p->dynamic[p->ndynamic - 1].pc = bytes == 8 ? -1 : 0;
    }
    return c;
}

struct ptx_op ptx_register_op(struct ptx_parse *p, const char *name)
{
    enum ptx_type type = PT_NONE;
    int r = ptx_register(p, name, &type);
    if (r < 0) {
        int special = ptx_special(name, &type);
        if (special < 0)
            ptx_fail(p, p->st.line, "unknown register '%s'", name);
        int room = p->f->nspecials;
        r = ptx_add_register(p, type);
        p->f->specials = ptx_grow(p, p->f->specials, p->f->nspecials, &room, sizeof *p->f->specials);
        p->f->specials[p->f->nspecials].special = (uint8_t)special;
        p->f->specials[p->f->nspecials++].reg = (uint32_t)r;
    }
    return (struct ptx_op){.at = p->f->reg_at[r], .reg = (uint32_t)r, .bytes = ptx_types[type].bytes};
}

static uint64_t immediate(struct ptx_parse *p, const struct ptx_operand *o, enum ptx_type type)
{
    double d;
    float f;
    uint32_t bits = (uint32_t)o->value;
    uint64_t v = o->value;
    if (o->kind == O_F64 && ptx_types[type].bytes == 4) {
        memcpy(&d, &o->value, 8);
        f = (float)d;
        memcpy(&bits, &f, 4);
        return bits;
    }
    if (o->kind == O_F32 && type == PT_F64) {
        memcpy(&f, &bits, 4);
        d = f;
        memcpy(&v, &d, 8);
    } else if ((o->kind == O_F32 && ptx_types[type].bytes != 4) || (o->kind == O_F64 && ptx_types[type].bytes != 8)) {
        ptx_fail(p, p->st.line, "immediate does not fit type .%s", ptx_types[type].text);
    }
    return v;
}

/* A source of at least the type's width (registers of memory instructions and conversions may be wider: `exact`
 * false). */
struct ptx_op ptx_source_of(struct ptx_parse *p, const struct ptx_operand *o, enum ptx_type type, bool exact)
{
    int bytes = ptx_types[type].bytes;
    switch (o->kind) {
    case O_REG: {
        struct ptx_op r = ptx_register_op(p, o->name);
        if (type == PT_PRED ? r.bytes != 0 : exact ? r.bytes != bytes : r.bytes < bytes)
            ptx_fail(p, p->st.line, "register '%s' has %d bytes, '%s' expected %d", o->name, r.bytes, p->st.opcode,
                     bytes);
        r.negate = o->negate;
        return r;
    }
    case O_INT:
    case O_F32:
    case O_F64: return ptx_constant(p, immediate(p, o, type), bytes);
    case O_SYM: return symbol_address(p, o, bytes);
    default: ptx_fail(p, p->st.line, "operand of '%s' must be a register or an immediate", p->st.opcode);
    }
}

struct ptx_op ptx_source(struct ptx_parse *p, const struct ptx_operand *o, enum ptx_type type)
{
    return ptx_source_of(p, o, type, true);
}

struct ptx_op ptx_dest(struct ptx_parse *p, const struct ptx_operand *o)
{
    if (o->kind == O_SINK)
        return (struct ptx_op){.sink = 1, .bytes = 8};
    if (o->kind != O_REG)
        ptx_fail(p, p->st.line, "destination of '%s' must be a register", p->st.opcode);
    return ptx_register_op(p, o->name);
}

struct ptx_op ptx_dest_of(struct ptx_parse *p, const struct ptx_operand *o, int bytes)
{
    struct ptx_op d = ptx_dest(p, o);
    if (!d.sink && d.bytes != bytes)
        ptx_fail(p, p->st.line, "destination '%s' has %d bytes, '%s' expected %d", o->name, d.bytes, p->st.opcode,
                 bytes);
    return d;
}

/* Address [reg+imm], [variable+imm], [imm] into source `s` and imm. */
void ptx_address(struct ptx_parse *p, struct ptx_insn *i, const struct ptx_operand *o, int s)
{
    if (o->kind != O_MEM)
        ptx_fail(p, p->st.line, "'%s' requires an address", p->st.opcode);
    i->imm = o->offset;
    i->s[s] = (struct ptx_op){.constant = 1, .bytes = 0, .sink = 1}; /* no register */
    if (!o->name)
        return;
    enum ptx_type type;
    if (ptx_register(p, o->name, &type) >= 0) {
        i->s[s] = ptx_register_op(p, o->name);
        if (i->s[s].bytes != 8 && i->s[s].bytes != 4)
            ptx_fail(p, p->st.line, "address register '%s' has %d bytes", o->name, i->s[s].bytes);
        return;
    }
    struct ptx_sym *v = ptx_symbol(p, o->name);
    if (!v)
        ptx_fail(p, p->st.line, "unknown name '%s'", o->name);
    place_shared(p, v);
    if (v->dynamic && v->space == SP_SHARED)
        ptx_dynamic(p, true, 0, o->offset);
    i->imm += (int64_t)v->at;
    if (i->space == SP_PARAM)
        i->op2 = v->placed ? 2 : 1; /* variable of the body, or parameter of the function */
    else if (i->space == SP_GENERIC)
        i->space = v->space == SP_SHARED || v->space == SP_LOCAL ? v->space : SP_GENERIC;
}

/* {a, b, c} or one operand, appended to the instruction's `more`. */
void ptx_vector(struct ptx_parse *p, struct ptx_insn *i, const struct ptx_operand *o, enum ptx_type type, bool dest)
{
    int n = o->kind == O_VEC ? o->n : 1, room = i->nmore;
    const struct ptx_operand *from = o->kind == O_VEC ? o->list : o;
    struct ptx_op *list = ptx_new(p, (size_t)(room + n) * sizeof *list);
    if (i->nmore)
        memcpy(list, i->more, (size_t)i->nmore * sizeof *list);
    i->more = list;
    for (int k = 0; k < n; k++)
        i->more[i->nmore++] = dest ? ptx_dest(p, from + k) : ptx_source_of(p, from + k, type, false);
}
