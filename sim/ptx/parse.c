/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PTX text into modules: directives, variables, functions, statements. A statement is decoded as soon as it is read;
 * branches and calls find their targets at the end of the function or module. Names are scoped by braces (PTX ISA,
 * "Scoping").
 */
#include <stdio.h>
#include <stdlib.h>

#include "sim/ptx/text_int.h"

const struct ptx_type_row ptx_types[PT_COUNT] = {
    {"", 0, 0},
#define TYPE(id, text, bytes, cls) {text, bytes, cls},
#include "sim/ptx/types.def"
};

/* -- Errors -- */

/* -- Statements -- */

static struct ptx_operand operand(struct ptx_parse *p);

static void operand_list(struct ptx_parse *p, struct ptx_operand *o, char close)
{
    int room = 0;
    while (!ptx_accept(p, close)) {
        o->list = ptx_grow(p, o->list, o->n, &room, sizeof *o->list);
        o->list[o->n++] = operand(p);
        if (!ptx_is_punct(p, close))
            ptx_expect(p, ',');
    }
}

static int64_t signed_offset(struct ptx_parse *p)
{
    int64_t sum = 0;
    while (ptx_is_punct(p, '+') || ptx_is_punct(p, '-')) {
        bool minus = ptx_is_punct(p, '-');
        ptx_next(p);
        minus ^= ptx_accept(p, '-');
        int64_t v = (int64_t)ptx_int(p);
        sum += minus ? -v : v;
    }
    return sum;
}

static void address(struct ptx_parse *p, struct ptx_operand *o)
{
    o->kind = O_MEM;
    if (p->x.token == T_WORD)
        o->name = ptx_word(p);
    else
        o->offset = (int64_t)ptx_int(p);
    o->offset += signed_offset(p);
    if (ptx_accept(p, ',')) { /* a tensor map's coordinates */
        o->second = ptx_new(p, sizeof *o->second);
        *o->second = operand(p);
    }
    ptx_expect(p, ']');
}

static struct ptx_operand number(struct ptx_parse *p, bool minus)
{
    struct ptx_operand o = {.kind = p->x.token == T_INT   ? O_INT
                                    : p->x.token == T_F32 ? O_F32
                                                          : O_F64,
                            .value = p->x.value};
    if (p->x.token != T_INT && p->x.token != T_F32 && p->x.token != T_F64)
        ptx_fail(p, p->x.line, "expected an operand");
    ptx_next(p);
    if (minus)
        o.value = o.kind == O_INT ? 0 - o.value : o.value ^ (o.kind == O_F32 ? UINT64_C(1) << 31 : UINT64_C(1) << 63);
    return o;
}

static struct ptx_operand operand(struct ptx_parse *p)
{
    struct ptx_operand o = {0};
    if (ptx_accept(p, '[')) {
        address(p, &o);
        return o;
    }
    if (ptx_accept(p, '{')) {
        o.kind = O_VEC;
        operand_list(p, &o, '}');
        return o;
    }
    if (ptx_accept(p, '(')) {
        o.kind = O_LIST;
        operand_list(p, &o, ')');
        return o;
    }
    if (ptx_accept(p, '-'))
        return number(p, true);
    o.negate = ptx_accept(p, '!');
    if (p->x.token != T_WORD)
        return number(p, false);
    o.name = ptx_word(p);
    enum ptx_type type;
    o.kind = strcmp(o.name, "_") == 0                                                 ? O_SINK
             : ptx_register(p, o.name, &type) >= 0 || ptx_special(o.name, &type) >= 0 ? O_REG
                                                                                      : O_SYM;
    o.offset = o.kind == O_SYM ? signed_offset(p) : 0;
    if (ptx_accept(p, '|')) {
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
    while (!ptx_is_punct(p, ';')) {
        if (st->nop == (int)(sizeof st->op / sizeof *st->op))
            ptx_fail(p, st->line, "too many operands");
        st->op[st->nop++] = operand(p);
        if (!ptx_is_punct(p, ';'))
            ptx_expect(p, ',');
    }
    ptx_decode(p);
    ptx_next(p);
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
    ptx_skip_line(p);
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
    ptx_skip_line(p);
}

static void body_directive(struct ptx_parse *p)
{
    if (ptx_accept_dot(p, "reg"))
        ptx_read_registers(p);
    else if (ptx_accept_dot(p, "local"))
        ptx_own_variable(p, SP_LOCAL);
    else if (ptx_accept_dot(p, "shared"))
        ptx_own_variable(p, SP_SHARED);
    else if (ptx_accept_dot(p, "param"))
        ptx_own_variable(p, SP_PARAM);
    else if (ptx_is_dot(p, "loc"))
        source_place(p);
    else if (ptx_is_dot(p, "pragma") || ptx_is_dot(p, "callprototype"))
        ptx_skip_to(p, ';');
    else
        ptx_fail(p, p->x.line, "directive '.%.*s' is not supported here", (int)p->x.len, p->x.word);
}

static void body(struct ptx_parse *p)
{
    int depth = 0;
    for (;;) {
        if (p->x.token == T_END)
            ptx_fail(p, p->x.line, "'}' is missing at the end of '%s'", p->f->name);
        if (ptx_accept(p, '{')) {
            push_scope(p);
            depth++;
        } else if (ptx_is_punct(p, '}')) {
            if (!depth--)
                return;
            p->scope = p->parent[p->scope];
            ptx_next(p);
        } else if (ptx_accept(p, '@')) {
            p->st.guard_not = ptx_accept(p, '!');
            p->st.guard = ptx_word(p);
            statement(p, ptx_word(p));
        } else if (p->x.token == T_DOT) {
            body_directive(p);
        } else if (!ptx_accept(p, ';')) {
            const char *word = ptx_word(p);
            if (ptx_accept(p, ':'))
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
    if (!ptx_accept(p, '('))
        return;
    while (!ptx_accept(p, ')')) {
        bool reg = ptx_accept_dot(p, "reg");
        if (!reg && !ptx_accept_dot(p, "param"))
            ptx_fail(p, p->x.line, "expected .param");
        struct ptx_sym *s = ptx_variable(p, SP_PARAM);
        if (reg) {
            ptx_add_range(p, s->name, -1, s->type);
            s->reg = f->nregs - 1;
        } else {
            s->at = ptx_place_variable(&f->param_bytes, s);
        }
        s->next = f->syms;
        f->syms = s;
        *list = ptx_grow(p, *list, *n, &room, sizeof **list);
        (*list)[(*n)++] = s;
        if (!ptx_is_punct(p, ')'))
            ptx_expect(p, ',');
    }
}

static void three(struct ptx_parse *p, int *v)
{
    for (int i = 0; i < 3; i++)
        v[i] = i == 0 || ptx_accept(p, ',') ? (int)ptx_int(p) : 1;
}

static void performance_directives(struct ptx_parse *p)
{
    int ignored[3];
    while (p->x.token == T_DOT) {
        if (ptx_accept_dot(p, "maxntid"))
            three(p, p->f->maxntid);
        else if (ptx_accept_dot(p, "reqntid"))
            three(p, p->f->reqntid);
        else if (ptx_accept_dot(p, "minnctapersm") || ptx_accept_dot(p, "maxnctapersm"))
            three(p, ignored);
        else if (ptx_accept_dot(p, "reqnctapercluster"))
            three(p, p->f->cluster);
        else if (ptx_accept_dot(p, "maxclusterrank"))
            ptx_int(p);
        else if (ptx_accept_dot(p, "explicitcluster"))
            continue;
        else if (ptx_accept_dot(p, "maxnreg"))
            p->f->maxnreg = (int)ptx_int(p);
        else if (ptx_is_dot(p, "pragma"))
            ptx_skip_to(p, ';');
        else if (!ptx_accept_dot(p, "noreturn"))
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
    const char *name = ptx_word(p);
    struct ptx_func *f = ptx_function_named(p, name), *after = f->next;
    if (f->defined)
        ptx_fail(p, p->x.line, "'%s' is defined twice", name);
    *f = scratch;
    f->name = name, f->next = after, f->rets = rets, f->nrets = nrets, f->entry = entry;
    p->f = f;
    parameters(p, &f->params, &f->nparams);
    performance_directives(p);
    if (ptx_accept(p, ';')) {
        p->f = NULL;
        return;
    }
    ptx_expect(p, '{');
    body(p);
    p->st =
        (struct ptx_statement){.line = p->x.line, .opcode = entry ? "exit" : "ret"}; /* falling off the end returns */
    ptx_decode(p);
    ptx_next(p);
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
    if (ptx_accept_dot(p, "version")) {
        ptx_next(p);
    } else if (ptx_accept_dot(p, "address_size")) {
        if (ptx_int(p) != 64)
            ptx_fail(p, p->x.line, "requires .address_size 64");
    } else if (ptx_accept_dot(p, "target")) {
        do
            if (strncmp(ptx_word(p), "sm_", 3) != 0 && !p->m->sm)
                ptx_fail(p, p->x.line, "expected a target sm_NN");
            else
                p->m->sm = 1;
        while (ptx_accept(p, ','));
    } else if (ptx_is_dot(p, "file")) {
        source_file(p);
    } else if (ptx_is_dot(p, "loc")) {
        ptx_skip_line(p);
    } else if (ptx_is_dot(p, "pragma")) {
        ptx_skip_to(p, ';');
    } else if (ptx_accept_dot(p, "section")) {
        ptx_skip_to(p, '}');
    } else {
        ptx_fail(p, p->x.line, "directive '.%.*s' is not supported", (int)p->x.len, p->x.word);
    }
}

static void module(struct ptx_parse *p)
{
    for (ptx_next(p); p->x.token != T_END;) {
        bool external = false;
        while (ptx_is_dot(p, "visible") || ptx_is_dot(p, "extern") || ptx_is_dot(p, "weak") ||
               ptx_is_dot(p, "common")) {
            external |= ptx_is_dot(p, "extern");
            ptx_next(p);
        }
        if (p->x.token != T_DOT)
            ptx_fail(p, p->x.line, "expected a directive");
        if (ptx_accept_dot(p, "entry"))
            function(p, true);
        else if (ptx_accept_dot(p, "func"))
            function(p, false);
        else if (ptx_accept_dot(p, "global"))
            ptx_module_variable(p, SP_GLOBAL, external);
        else if (ptx_accept_dot(p, "const"))
            ptx_module_variable(p, SP_CONST, external);
        else if (ptx_accept_dot(p, "shared"))
            ptx_module_variable(p, SP_SHARED, external);
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
