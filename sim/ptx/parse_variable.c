/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Variables of PTX text and their initialisers, of modules and of functions, and registers (PTX ISA, "State spaces,
 * types, and variables").
 */

#include "sim/ptx/text_int.h"

static int vector_width(struct ptx_parse *p)
{
    return ptx_accept_dot(p, "v2") ? 2 : ptx_accept_dot(p, "v4") ? 4 : ptx_accept_dot(p, "v8") ? 8 : 1;
}

static void put_value(struct ptx_parse *p, struct ptx_sym *s, size_t *at)
{
    bool minus = ptx_accept(p, '-');
    size_t each = ptx_types[s->type].bytes;
    uint64_t v = p->x.value;
    if (p->x.token != T_INT && p->x.token != T_F32 && p->x.token != T_F64)
        ptx_fail(p, p->x.line, "unsupported initialiser of '%s'", s->name);
    if (p->x.token == T_F64 && each == 4) {
        double d;
        memcpy(&d, &v, 8);
        float f = (float)(minus ? -d : d);
        v = 0;
        memcpy(&v, &f, 4);
    } else if (minus) {
        v = p->x.token == T_INT ? 0 - v : v ^ (p->x.token == T_F32 ? UINT64_C(1) << 31 : UINT64_C(1) << 63);
    }
    if (*at + each > s->size)
        ptx_fail(p, p->x.line, "too many values for '%s'", s->name);
    memcpy(s->init + *at, &v, each);
    *at += each;
    ptx_next(p);
}

#define MOST_INITIALISED ((size_t)1 << 30) /* bytes: of a text's own variables; a short one must not take all memory */

static void initialiser(struct ptx_parse *p, struct ptx_sym *s)
{
    size_t at = 0;
    int depth = 0;
    if (s->size > MOST_INITIALISED)
        ptx_fail(p, p->x.line, "'%s' is too large for a variable with an initialiser: %zu bytes", s->name,
                 (size_t)s->size);
    s->init = ptx_new(p, s->size + 8);
    do {
        if (ptx_accept(p, '{'))
            depth++;
        else if (ptx_accept(p, '}'))
            depth--;
        else if (!ptx_accept(p, ','))
            put_value(p, s, &at);
    } while (depth > 0 && p->x.token != T_END);
}

/* .align N .type name[dims]: the part that all variables share. */
struct ptx_sym *ptx_variable(struct ptx_parse *p, enum ptx_space space)
{
    struct ptx_sym *s = ptx_new(p, sizeof *s);
    bool array = false;
    s->align = 0;
    s->reg = -1;
    if (ptx_accept_dot(p, "align"))
        s->align = (int)ptx_int(p);
    int lanes = vector_width(p);
    s->type = ptx_type_token(p);
    while (p->x.token == T_DOT) {
        if (ptx_accept_dot(p, "align"))
            s->align = (int)ptx_int(p);
        else
            ptx_next(p); /* .ptr .global: what a pointer points to */
    }
    s->name = ptx_word(p);
    s->space = space;
    s->scope = p->scope;
    s->size = (size_t)lanes * ptx_types[s->type].bytes;
    while (ptx_accept(p, '[')) {
        uint64_t n = ptx_is_punct(p, ']') ? 0 : ptx_int(p);
        ptx_expect(p, ']');
        array = true;
        if (n > (UINT64_C(1) << 40) / (s->size ? s->size : 1))
            ptx_fail(p, p->x.line, "'%s' is too large", s->name);
        s->size *= n;
    }
    if (s->align <= 0)
        s->align = lanes * ptx_types[s->type].bytes;
    if (s->align & (s->align - 1) || s->align <= 0)
        ptx_fail(p, p->x.line, "alignment of '%s' is not a power of two", s->name);
    s->dynamic = array && !s->size;
    return s;
}

size_t ptx_place_variable(size_t *total, const struct ptx_sym *s)
{
    size_t at = (*total + (size_t)s->align - 1) & ~((size_t)s->align - 1);
    *total = at + s->size;
    return at;
}

/* Module variables: .global and .const get memory now, .shared an offset in each function that names it. */
void ptx_module_variable(struct ptx_parse *p, enum ptx_space space, bool external)
{
    struct ptx_sym *s = ptx_variable(p, space);
    if (external && space != SP_SHARED)
        ptx_fail(p, p->x.line, "external variable '%s' is not supported", s->name);
    for (const struct ptx_sym *o = p->m->globals; o && !external; o = o->next)
        if (!strcmp(o->name, s->name))
            ptx_fail(p, p->x.line, "variable '%s' is defined a second time", s->name);
    if (ptx_accept(p, '='))
        initialiser(p, s);
    ptx_expect(p, ';');
    if (space != SP_SHARED) {
        char why[PTX_ERROR];
        int room = p->m->nowned;
        s->at = ptx_alloc(p->m->d, s->size ? s->size : 1, s->name, why);
        if (!s->at)
            ptx_fail(p, p->x.line, "%s", why);
        p->m->owned = ptx_grow(p, p->m->owned, p->m->nowned, &room, sizeof *p->m->owned);
        p->m->owned[p->m->nowned++] = s->at;
        if (s->init)
            ptx_write(p->m->d, s->at, s->init, s->size, why);
        else
            ptx_fill(p->m->d, s->at, 0, s->size, why);
        ptx_lookup(p->m->d, s->at)->constant = space == SP_CONST;
    }
    s->next = p->m->globals;
    p->m->globals = s;
}

void ptx_own_variable(struct ptx_parse *p, enum ptx_space space)
{
    struct ptx_func *f = p->f;
    struct ptx_sym *s = ptx_variable(p, space);
    ptx_expect(p, ';');
    if (space == SP_SHARED)
        ptx_place_shared(p, s);
    else
        s->at = ptx_place_variable(space == SP_LOCAL ? &f->local_bytes : &f->var_bytes, s);
    s->placed = f;
    s->next = f->syms;
    f->syms = s;
}

void ptx_add_range(struct ptx_parse *p, const char *name, int count, enum ptx_type type)
{
    p->regs = ptx_grow(p, p->regs, p->nregs, &p->reg_room, sizeof *p->regs);
    p->regs[p->nregs++] = (struct ptx_reg){name, count, p->scope, p->f->nregs, type};
    for (int i = 0; i < (count < 0 ? 1 : count); i++)
        ptx_add_register(p, type);
}

void ptx_read_registers(struct ptx_parse *p)
{
    if (vector_width(p) > 1)
        ptx_fail(p, p->x.line, "vector registers are not supported");
    enum ptx_type type = ptx_type_token(p);
    do {
        const char *name = ptx_word(p);
        uint64_t n = 0;
        bool range = ptx_accept(p, '<');
        if (range) {
            n = ptx_int(p);
            ptx_expect(p, '>');
        }
        if (n > 1000000)
            ptx_fail(p, p->x.line, "too many registers");
        ptx_add_range(p, name, range ? (int)n : -1, type);
    } while (ptx_accept(p, ','));
    ptx_expect(p, ';');
}
