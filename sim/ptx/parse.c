/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PTX text into modules: directives, variables, functions, statements. A statement is decoded as soon as it is read;
 * branches and calls find their targets at the end of the function or module. Names are scoped by braces (PTX ISA,
 * "Scoping").
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "sim/ptx/ptx_int.h"

const struct ptx_type_row ptx_types[PT_COUNT] = {
    {"", 0, 0},
#define TYPE(id, text, bytes, cls) {text, bytes, cls},
#include "sim/ptx/types.def"
#undef TYPE
};

/* -- Errors -- */

void ptx_fail(struct ptx_parse *p, int line, const char *format, ...)
{
    va_list args;
    int n = snprintf(p->error, PTX_ERROR, "line %d: ", line);
    va_start(args, format);
    vsnprintf(p->error + n, (size_t)(PTX_ERROR - n), format, args);
    va_end(args);
    longjmp(p->out, 1);
}

/* -- Tokens -- */

static void next(struct ptx_parse *p)
{
    ptx_lex(&p->x);
    if (p->x.bad)
        ptx_fail(p, p->x.line, "malformed number or string");
}

static bool is_punct(const struct ptx_parse *p, char c)
{
    return p->x.token == T_PUNCT && p->x.punct == c;
}

static bool accept(struct ptx_parse *p, char c)
{
    if (!is_punct(p, c))
        return false;
    next(p);
    return true;
}

static void expect(struct ptx_parse *p, char c)
{
    if (!accept(p, c))
        ptx_fail(p, p->x.line, "expected '%c'", c);
}

static bool is_dot(const struct ptx_parse *p, const char *text)
{
    return p->x.token == T_DOT && p->x.len == strlen(text) && memcmp(p->x.word, text, p->x.len) == 0;
}

static bool accept_dot(struct ptx_parse *p, const char *text)
{
    if (!is_dot(p, text))
        return false;
    next(p);
    return true;
}

static const char *take_word(struct ptx_parse *p)
{
    if (p->x.token != T_WORD)
        ptx_fail(p, p->x.line, "expected a name");
    const char *name = ptx_name(p, p->x.word, p->x.len);
    next(p);
    return name;
}

static uint64_t take_int(struct ptx_parse *p)
{
    uint64_t v = p->x.value;
    if (p->x.token != T_INT)
        ptx_fail(p, p->x.line, "expected a number");
    next(p);
    return v;
}

static void skip_to(struct ptx_parse *p, char c)
{
    while (p->x.token != T_END && !is_punct(p, c))
        next(p);
    expect(p, c);
}

static void skip_line(struct ptx_parse *p)
{
    int line = p->x.line;
    while (p->x.token != T_END && p->x.line == line)
        next(p);
}

static enum ptx_type take_type(struct ptx_parse *p)
{
    enum ptx_type t = p->x.token == T_DOT ? ptx_type_named(p->x.word, p->x.len) : PT_NONE;
    if (t == PT_NONE)
        ptx_fail(p, p->x.line, "expected a type");
    next(p);
    return t;
}

/* -- Variables -- */

static int vector_width(struct ptx_parse *p)
{
    return accept_dot(p, "v2") ? 2 : accept_dot(p, "v4") ? 4 : accept_dot(p, "v8") ? 8 : 1;
}

static void put_value(struct ptx_parse *p, struct ptx_sym *s, size_t *at)
{
    bool minus = accept(p, '-');
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
    next(p);
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
        if (accept(p, '{'))
            depth++;
        else if (accept(p, '}'))
            depth--;
        else if (!accept(p, ','))
            put_value(p, s, &at);
    } while (depth > 0 && p->x.token != T_END);
}

/* .align N .type name[dims]: the part that all variables share. */
static struct ptx_sym *variable(struct ptx_parse *p, enum ptx_space space)
{
    struct ptx_sym *s = ptx_new(p, sizeof *s);
    bool array = false;
    s->align = 0;
    s->reg = -1;
    if (accept_dot(p, "align"))
        s->align = (int)take_int(p);
    int lanes = vector_width(p);
    s->type = take_type(p);
    while (p->x.token == T_DOT) {
        if (accept_dot(p, "align"))
            s->align = (int)take_int(p);
        else
            next(p); /* .ptr .global: what a pointer points to */
    }
    s->name = take_word(p);
    s->space = space;
    s->scope = p->scope;
    s->size = (size_t)lanes * ptx_types[s->type].bytes;
    while (accept(p, '[')) {
        uint64_t n = is_punct(p, ']') ? 0 : take_int(p);
        expect(p, ']');
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

static size_t place(size_t *total, const struct ptx_sym *s)
{
    size_t at = (*total + (size_t)s->align - 1) & ~((size_t)s->align - 1);
    *total = at + s->size;
    return at;
}

/* Module variables: .global and .const get memory now, .shared an offset in each function that names it. */
static void module_variable(struct ptx_parse *p, enum ptx_space space, bool external)
{
    struct ptx_sym *s = variable(p, space);
    if (external && space != SP_SHARED)
        ptx_fail(p, p->x.line, "external variable '%s' is not supported", s->name);
    for (const struct ptx_sym *o = p->m->globals; o && !external; o = o->next)
        if (!strcmp(o->name, s->name))
            ptx_fail(p, p->x.line, "variable '%s' is defined a second time", s->name);
    if (accept(p, '='))
        initialiser(p, s);
    expect(p, ';');
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

static void own_variable(struct ptx_parse *p, enum ptx_space space)
{
    struct ptx_func *f = p->f;
    struct ptx_sym *s = variable(p, space);
    expect(p, ';');
    if (space == SP_SHARED)
        ptx_place_shared(p, s);
    else
        s->at = place(space == SP_LOCAL ? &f->local_bytes : &f->var_bytes, s);
    s->placed = f;
    s->next = f->syms;
    f->syms = s;
}

static void add_range(struct ptx_parse *p, const char *name, int count, enum ptx_type type)
{
    p->regs = ptx_grow(p, p->regs, p->nregs, &p->reg_room, sizeof *p->regs);
    p->regs[p->nregs++] = (struct ptx_reg){name, count, p->scope, p->f->nregs, type};
    for (int i = 0; i < (count < 0 ? 1 : count); i++)
        ptx_add_register(p, type);
}

static void registers(struct ptx_parse *p)
{
    if (vector_width(p) > 1)
        ptx_fail(p, p->x.line, "vector registers are not supported");
    enum ptx_type type = take_type(p);
    do {
        const char *name = take_word(p);
        uint64_t n = 0;
        bool range = accept(p, '<');
        if (range) {
            n = take_int(p);
            expect(p, '>');
        }
        if (n > 1000000)
            ptx_fail(p, p->x.line, "too many registers");
        add_range(p, name, range ? (int)n : -1, type);
    } while (accept(p, ','));
    expect(p, ';');
}

/* -- Statements -- */

static struct ptx_operand operand(struct ptx_parse *p);

static void operand_list(struct ptx_parse *p, struct ptx_operand *o, char close)
{
    int room = 0;
    while (!accept(p, close)) {
        o->list = ptx_grow(p, o->list, o->n, &room, sizeof *o->list);
        o->list[o->n++] = operand(p);
        if (!is_punct(p, close))
            expect(p, ',');
    }
}

static int64_t signed_offset(struct ptx_parse *p)
{
    int64_t sum = 0;
    while (is_punct(p, '+') || is_punct(p, '-')) {
        bool minus = is_punct(p, '-');
        next(p);
        minus ^= accept(p, '-');
        int64_t v = (int64_t)take_int(p);
        sum += minus ? -v : v;
    }
    return sum;
}

static void address(struct ptx_parse *p, struct ptx_operand *o)
{
    o->kind = O_MEM;
    if (p->x.token == T_WORD)
        o->name = take_word(p);
    else
        o->offset = (int64_t)take_int(p);
    o->offset += signed_offset(p);
    if (accept(p, ',')) { /* a tensor map's coordinates */
        o->second = ptx_new(p, sizeof *o->second);
        *o->second = operand(p);
    }
    expect(p, ']');
}

static struct ptx_operand number(struct ptx_parse *p, bool minus)
{
    struct ptx_operand o = {.kind = p->x.token == T_INT   ? O_INT
                                    : p->x.token == T_F32 ? O_F32
                                                          : O_F64,
                            .value = p->x.value};
    if (p->x.token != T_INT && p->x.token != T_F32 && p->x.token != T_F64)
        ptx_fail(p, p->x.line, "expected an operand");
    next(p);
    if (minus)
        o.value = o.kind == O_INT ? 0 - o.value : o.value ^ (o.kind == O_F32 ? UINT64_C(1) << 31 : UINT64_C(1) << 63);
    return o;
}

static struct ptx_operand operand(struct ptx_parse *p)
{
    struct ptx_operand o = {0};
    if (accept(p, '[')) {
        address(p, &o);
        return o;
    }
    if (accept(p, '{')) {
        o.kind = O_VEC;
        operand_list(p, &o, '}');
        return o;
    }
    if (accept(p, '(')) {
        o.kind = O_LIST;
        operand_list(p, &o, ')');
        return o;
    }
    if (accept(p, '-'))
        return number(p, true);
    o.negate = accept(p, '!');
    if (p->x.token != T_WORD)
        return number(p, false);
    o.name = take_word(p);
    enum ptx_type type;
    o.kind = strcmp(o.name, "_") == 0                                                 ? O_SINK
             : ptx_register(p, o.name, &type) >= 0 || ptx_special(o.name, &type) >= 0 ? O_REG
                                                                                      : O_SYM;
    o.offset = o.kind == O_SYM ? signed_offset(p) : 0;
    if (accept(p, '|')) {
        o.second = ptx_new(p, sizeof *o.second);
        *o.second = operand(p);
    }
    return o;
}

static void split_opcode(struct ptx_parse *p, const char *word)
{
    struct ptx_statement *st = &p->st;
    const char *dot = strchr(word, '.');
    st->opcode = dot ? ptx_name(p, word, (size_t)(dot - word)) : word;
    st->nmod = 0;
    while (dot) {
        const char *from = dot + 1;
        dot = strchr(from, '.');
        if (st->nmod == (int)(sizeof st->mod / sizeof *st->mod))
            ptx_fail(p, st->line, "too many modifiers");
        st->mod[st->nmod++] = dot ? ptx_name(p, from, (size_t)(dot - from)) : from;
    }
}

static void statement(struct ptx_parse *p, const char *word)
{
    struct ptx_statement *st = &p->st;
    const char *guard = st->guard;
    bool guard_not = st->guard_not;
    *st = (struct ptx_statement){.line = p->x.line, .guard = guard, .guard_not = guard_not};
    split_opcode(p, word);
    while (!is_punct(p, ';')) {
        if (st->nop == (int)(sizeof st->op / sizeof *st->op))
            ptx_fail(p, st->line, "too many operands");
        st->op[st->nop++] = operand(p);
        if (!is_punct(p, ';'))
            expect(p, ',');
    }
    ptx_decode(p);
    next(p);
    st->guard = NULL;
}

static void label(struct ptx_parse *p, const char *name)
{
    for (int i = 0; i < p->nlabels; i++)
        if (p->labels[i].scope == p->scope && strcmp(p->labels[i].name, name) == 0)
            ptx_fail(p, p->x.line, "label '%s' is defined twice", name);
    p->labels = ptx_grow(p, p->labels, p->nlabels, &p->label_room, sizeof *p->labels);
    p->labels[p->nlabels++] = (struct ptx_label){name, p->scope, p->f->ncode};
}

static void push_scope(struct ptx_parse *p)
{
    p->parent = ptx_grow(p, p->parent, p->nscopes, &p->scope_room, sizeof *p->parent);
    p->parent[p->nscopes] = p->scope;
    p->scope = p->nscopes++;
}

/* .loc FILE LINE COLUMN[, what it was inlined into]: the next instructions' place in the source. */
static void source_place(struct ptx_parse *p)
{
    struct ptx_func *f = p->f;
    struct ptx_lexer x = p->x;
    int64_t number[2] = {0, 0};

    for (int i = 0; i < 2; i++) {
        ptx_lex(&x);
        if (x.token != T_INT || x.value > INT32_MAX)
            break;
        number[i] = (int64_t)x.value;
    }
    skip_line(p);
    if (!number[0] || !number[1])
        return;
    f->places = ptx_grow(p, f->places, f->nplaces, &f->place_room, sizeof *f->places);
    f->places[f->nplaces++] = (struct ptx_loc){f->ncode, (int)number[0], (int)number[1]};
}

/* .file NUMBER "NAME"[, time, size] */
static void source_file(struct ptx_parse *p)
{
    struct ptx_lexer x = p->x;
    struct ptx_file *f = ptx_new(p, sizeof *f);

    ptx_lex(&x);
    f->number = x.token == T_INT ? (int64_t)(x.value & INT32_MAX) : -1;
    ptx_lex(&x);
    if (f->number >= 0 && x.token == T_STRING) {
        f->name = ptx_name(p, x.word, x.len);
        f->next = p->m->files;
        p->m->files = f;
    }
    skip_line(p);
}

static void body_directive(struct ptx_parse *p)
{
    if (accept_dot(p, "reg"))
        registers(p);
    else if (accept_dot(p, "local"))
        own_variable(p, SP_LOCAL);
    else if (accept_dot(p, "shared"))
        own_variable(p, SP_SHARED);
    else if (accept_dot(p, "param"))
        own_variable(p, SP_PARAM);
    else if (is_dot(p, "loc"))
        source_place(p);
    else if (is_dot(p, "pragma") || is_dot(p, "callprototype"))
        skip_to(p, ';');
    else
        ptx_fail(p, p->x.line, "directive '.%.*s' is not supported here", (int)p->x.len, p->x.word);
}

static void body(struct ptx_parse *p)
{
    int depth = 0;
    for (;;) {
        if (p->x.token == T_END)
            ptx_fail(p, p->x.line, "'}' is missing at the end of '%s'", p->f->name);
        if (accept(p, '{')) {
            push_scope(p);
            depth++;
        } else if (is_punct(p, '}')) {
            if (!depth--)
                return;
            p->scope = p->parent[p->scope];
            next(p);
        } else if (accept(p, '@')) {
            p->st.guard_not = accept(p, '!');
            p->st.guard = take_word(p);
            statement(p, take_word(p));
        } else if (p->x.token == T_DOT) {
            body_directive(p);
        } else if (!accept(p, ';')) {
            const char *word = take_word(p);
            if (accept(p, ':'))
                label(p, word);
            else
                statement(p, word);
        }
    }
}

/* -- Functions -- */

static void parameters(struct ptx_parse *p, struct ptx_sym ***list, int *n)
{
    int room = 0;
    struct ptx_func *f = p->f;
    *n = 0;
    *list = NULL;
    if (!accept(p, '('))
        return;
    while (!accept(p, ')')) {
        bool reg = accept_dot(p, "reg");
        if (!reg && !accept_dot(p, "param"))
            ptx_fail(p, p->x.line, "expected .param");
        struct ptx_sym *s = variable(p, SP_PARAM);
        if (reg) {
            add_range(p, s->name, -1, s->type);
            s->reg = f->nregs - 1;
        } else {
            s->at = place(&f->param_bytes, s);
        }
        s->next = f->syms;
        f->syms = s;
        *list = ptx_grow(p, *list, *n, &room, sizeof **list);
        (*list)[(*n)++] = s;
        if (!is_punct(p, ')'))
            expect(p, ',');
    }
}

static void three(struct ptx_parse *p, int *v)
{
    for (int i = 0; i < 3; i++)
        v[i] = i == 0 || accept(p, ',') ? (int)take_int(p) : 1;
}

static void performance_directives(struct ptx_parse *p)
{
    int ignored[3];
    while (p->x.token == T_DOT) {
        if (accept_dot(p, "maxntid"))
            three(p, p->f->maxntid);
        else if (accept_dot(p, "reqntid"))
            three(p, p->f->reqntid);
        else if (accept_dot(p, "minnctapersm") || accept_dot(p, "maxnctapersm"))
            three(p, ignored);
        else if (accept_dot(p, "reqnctapercluster"))
            three(p, p->f->cluster);
        else if (accept_dot(p, "maxclusterrank"))
            take_int(p);
        else if (accept_dot(p, "explicitcluster"))
            continue;
        else if (accept_dot(p, "maxnreg"))
            p->f->maxnreg = (int)take_int(p);
        else if (is_dot(p, "pragma"))
            skip_to(p, ';');
        else if (!accept_dot(p, "noreturn"))
            ptx_fail(p, p->x.line, "directive '.%.*s' is not supported", (int)p->x.len, p->x.word);
    }
}

static void function(struct ptx_parse *p, bool entry)
{
    struct ptx_func scratch = {.m = p->m, .local_bytes = entry ? 0 : p->m->func_local};
    struct ptx_sym **rets = NULL;
    int nrets = 0;
    p->nregs = p->nlabels = p->nfixes = p->nscopes = p->ndynamic = 0;
    p->scope = -1;
    p->f = &scratch;
    push_scope(p);
    ptx_add_register(p, PT_PRED); /* register 0: the constants */
    if (!entry)
        parameters(p, &rets, &nrets);
    const char *name = take_word(p);
    struct ptx_func *f = ptx_function_named(p, name), *after = f->next;
    if (f->defined)
        ptx_fail(p, p->x.line, "'%s' is defined twice", name);
    *f = scratch;
    f->name = name, f->next = after, f->rets = rets, f->nrets = nrets, f->entry = entry;
    p->f = f;
    parameters(p, &f->params, &f->nparams);
    performance_directives(p);
    if (accept(p, ';')) {
        p->f = NULL;
        return;
    }
    expect(p, '{');
    body(p);
    p->st =
        (struct ptx_statement){.line = p->x.line, .opcode = entry ? "exit" : "ret"}; /* falling off the end returns */
    ptx_decode(p);
    next(p);
    ptx_resolve_labels(p);
    ptx_resolve_dynamic(p);
    ptx_flow(p, f);
    if (!entry)
        p->m->func_local = f->local_bytes;
    f->registers = ptx_registers(f);
    f->defined = true;
    p->f = NULL;
}

/* -- Modules -- */

static void header(struct ptx_parse *p)
{
    if (accept_dot(p, "version")) {
        next(p);
    } else if (accept_dot(p, "address_size")) {
        if (take_int(p) != 64)
            ptx_fail(p, p->x.line, "requires .address_size 64");
    } else if (accept_dot(p, "target")) {
        do
            if (strncmp(take_word(p), "sm_", 3) != 0 && !p->m->sm)
                ptx_fail(p, p->x.line, "expected a target sm_NN");
            else
                p->m->sm = 1;
        while (accept(p, ','));
    } else if (is_dot(p, "file")) {
        source_file(p);
    } else if (is_dot(p, "loc")) {
        skip_line(p);
    } else if (is_dot(p, "pragma")) {
        skip_to(p, ';');
    } else if (accept_dot(p, "section")) {
        skip_to(p, '}');
    } else {
        ptx_fail(p, p->x.line, "directive '.%.*s' is not supported", (int)p->x.len, p->x.word);
    }
}

static void module(struct ptx_parse *p)
{
    for (next(p); p->x.token != T_END;) {
        bool external = false;
        while (is_dot(p, "visible") || is_dot(p, "extern") || is_dot(p, "weak") || is_dot(p, "common")) {
            external |= is_dot(p, "extern");
            next(p);
        }
        if (p->x.token != T_DOT)
            ptx_fail(p, p->x.line, "expected a directive");
        if (accept_dot(p, "entry"))
            function(p, true);
        else if (accept_dot(p, "func"))
            function(p, false);
        else if (accept_dot(p, "global"))
            module_variable(p, SP_GLOBAL, external);
        else if (accept_dot(p, "const"))
            module_variable(p, SP_CONST, external);
        else if (accept_dot(p, "shared"))
            module_variable(p, SP_SHARED, external);
        else
            header(p);
    }
    if (!p->m->sm)
        ptx_fail(p, p->x.line, "not a PTX module: no .target");
    ptx_resolve_calls(p);
}

/* False: an error, which ptx_fail() wrote. */
static bool guarded(struct ptx_parse *p)
{
    if (setjmp(p->out))
        return false;
    module(p);
    return true;
}

struct ptx_module *ptx_load(struct ptx_device *d, const char *text, size_t size, char *error)
{
    struct ptx_module *m = calloc(1, sizeof *m);
    struct ptx_parse *p = calloc(1, sizeof *p);
    if (!m || !p) {
        snprintf(error, PTX_ERROR, "no memory");
        free(m);
        free(p);
        return NULL;
    }
    while (size && !text[size - 1])
        size--; /* a terminator, which drivers want */
    m->d = d;
    m->func_local = FUNC_LOCAL;
    p->m = m;
    p->rows = d->rows;
    p->error = error;
    p->x = (struct ptx_lexer){.at = text, .end = text + size, .line = 1};
    bool done = guarded(p);
    free(p);
    if (done)
        return m;
    ptx_unload(m);
    return NULL;
}
