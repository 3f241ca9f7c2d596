/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Statements into instructions. forms.def names for each opcode the function that reads its modifiers; what a function
 * does not take is an error that names the line. Row operations are found by name and type in rows.def.
 */
#include <stdio.h>

#include "sim/ptx/text_int.h"

/* -- Arithmetic -- */

static void take_float_flags(struct ptx_parse *p, struct ptx_insn *i)
{
    static const char *const rounds[] = {"rn", "rz", "rm", "rp"};
    for (int r = 0; r < 4; r++)
        if (ptx_take(p, rounds[r]))
            i->round = (uint8_t)r;
    if (ptx_take(p, "ftz"))
        i->flags |= F_FTZ;
    if (ptx_take(p, "sat"))
        i->flags |= F_SAT;
}

static void find_row(struct ptx_parse *p, struct ptx_insn *i, const char *name, enum ptx_type type, int *bytes)
{
    int nsrc;
    ptx_row_fn *fn = p->rows->find(name, type, &nsrc, bytes);
    if (!fn)
        ptx_fail(p, p->st.line, "instruction '%s' of type .%s is not supported", name, ptx_types[type].text);
    i->fn.row = fn;
    i->nsrc = (uint8_t)nsrc;
    i->kind = i->round || i->flags & (F_FTZ | F_SAT) ? K_FLOAT : K_ROW;
    i->type = (uint8_t)type;
}

static void row(struct ptx_parse *p, struct ptx_insn *i, const char *name, enum ptx_type type)
{
    int bytes;
    find_row(p, i, name, type, &bytes);
    ptx_operands(p, i->nsrc + 1);
    i->d = ptx_dest_of(p, &p->st.op[0], bytes);
    enum ptx_type wide = type == PT_U16 ? PT_U32 : type == PT_S16 ? PT_S32 : type == PT_U32 ? PT_U64 : PT_S64;
    for (int s = 0; s < i->nsrc; s++)
        i->s[s] = ptx_source(p, &p->st.op[s + 1], s == 2 && strcmp(name, "mad.wide") == 0 ? wide : type);
}

static void carry(struct ptx_parse *p, struct ptx_insn *i, const char *name)
{
    i->flags |= (uint8_t)(ptx_take(p, "cc") ? F_CC : 0);
    i->flags |= (uint8_t)(name[3] == 'c' ? F_CC_IN : 0);
    i->op = name[0] == 'a' ? 'a' : name[0] == 's' ? 's' : ptx_take(p, "hi") ? 'h' : (ptx_take(p, "lo"), 'l');
    i->type = (uint8_t)ptx_take_type(p);
    i->nsrc = name[0] == 'm' ? 3 : 2;
    ptx_operands(p, i->nsrc + 1);
    i->d = ptx_dest_of(p, &p->st.op[0], ptx_types[i->type].bytes);
    for (int s = 0; s < i->nsrc; s++)
        i->s[s] = ptx_source(p, &p->st.op[s + 1], i->type);
    i->kind = K_RUN;
    i->fn.run = ptx_run_carry;
}

/* Sub-operations that are part of a row's name, in the order in which the name has them. */
static const char *const parts[] = {"lo", "hi",   "wide",  "approx", "full", "NaN", "relu", "shiftamt", "l",
                                    "r",  "wrap", "clamp", "f4e",    "b4e",  "rc8", "ecl",  "ecr",      "rc16"};

static void d_math(struct ptx_parse *p, struct ptx_insn *i)
{
    char name[64];
    const char *base = p->st.opcode;
    bool has_cc = false;
    for (int k = 0; k < p->st.nmod; k++)
        has_cc |= strcmp(p->st.mod[k], "cc") == 0;
    if (has_cc || strcmp(base, "addc") == 0 || strcmp(base, "subc") == 0 || strcmp(base, "madc") == 0) {
        carry(p, i, base);
        return;
    }
    size_t n = (size_t)snprintf(name, sizeof name, "%s", base);
    for (size_t k = 0; k < sizeof parts / sizeof *parts && n < sizeof name - 16; k++)
        if (ptx_take(p, parts[k]))
            n += (size_t)snprintf(name + n, sizeof name - n, ".%s", parts[k]);
    take_float_flags(p, i);
    enum ptx_type type = ptx_take_type(p);
    char cls = ptx_types[type].cls;
    if (cls == 'f' || cls == 'x') {
        i->cls = type == PT_F64 ? PTX_CLASS_DOUBLE : strstr(name, "approx") ? PTX_CLASS_SPECIAL : PTX_CLASS_FLOAT;
        if (strcmp(name, "mad") == 0)
            snprintf(name, sizeof name, "fma");
    } else if (i->flags & F_SAT) {
        snprintf(name + n, sizeof name - n, ".sat");
        i->flags &= (uint8_t)~F_SAT;
    }
    if (strcmp(base, "prmt") == 0 || strcmp(base, "shf") == 0)
        type = PT_B32;
    if (strstr(name, ".wide") && i->round)
        ptx_fail(p, p->st.line, "a rounding of an integer product");
    row(p, i, name, type);
}

static void d_dp4a(struct ptx_parse *p, struct ptx_insn *i)
{
    char name[64];
    enum ptx_type a = ptx_take_type(p), b = ptx_take_type(p);
    snprintf(name, sizeof name, "dp4a.%s.%s", ptx_types[a].text, ptx_types[b].text);
    row(p, i, name, PT_B32);
}

static void d_logic(struct ptx_parse *p, struct ptx_insn *i)
{
    enum ptx_type type = ptx_take_type(p);
    if (type != PT_PRED) {
        row(p, i, p->st.opcode, type);
        return;
    }
    i->nsrc = strcmp(p->st.opcode, "not") == 0 ? 1 : 2;
    ptx_operands(p, i->nsrc + 1);
    i->d = ptx_dest_of(p, &p->st.op[0], 0);
    for (int s = 0; s < i->nsrc; s++)
        i->s[s] = ptx_source(p, &p->st.op[s + 1], PT_PRED);
    i->op = (uint8_t)p->st.opcode[0];
    i->kind = K_RUN;
    i->fn.run = ptx_run_pred;
}

static void d_shift(struct ptx_parse *p, struct ptx_insn *i)
{
    int bytes;
    enum ptx_type type = ptx_take_type(p);
    find_row(p, i, p->st.opcode, type, &bytes);
    ptx_operands(p, 3);
    i->d = ptx_dest_of(p, &p->st.op[0], bytes);
    i->s[0] = ptx_source(p, &p->st.op[1], type);
    i->s[1] = ptx_source(p, &p->st.op[2], PT_B32);
}

/* bfe bfi bmsk fns lop3 szext: lane by lane. */
static void d_bits(struct ptx_parse *p, struct ptx_insn *i)
{
    static const struct {
        const char *name;
        char op;
        int n, first;
    } ops[] = {{"bfe", 'e', 3, 1}, {"bfi", 'i', 4, 2},   {"bmsk", 'm', 2, 0},
               {"fns", 'n', 3, 0}, {"szext", 's', 2, 1}, {"lop3", '3', 4, 3}};
    size_t k = 0;
    while (strcmp(ops[k].name, p->st.opcode) != 0)
        k++;
    i->op2 = ptx_take(p, "wrap") ? 1 : 0;
    ptx_take(p, "clamp");
    enum ptx_type type = ptx_take_type(p);
    if (ptx_types[type].bytes < 4)
        ptx_fail(p, p->st.line, "'%s' of type .%s is not supported", p->st.opcode, ptx_types[type].text);
    ptx_operands(p, ops[k].n + 1);
    i->type = (uint8_t)type;
    i->op = (uint8_t)ops[k].op;
    i->nsrc = (uint8_t)ops[k].n;
    i->d = ptx_dest_of(p, &p->st.op[0], ptx_types[type].bytes);
    for (int s = 0; s < i->nsrc; s++)
        i->s[s] = ptx_source(p, &p->st.op[s + 1], s < ops[k].first ? type : PT_B32);
    i->kind = K_RUN;
    i->fn.run = ptx_run_bits;
}

void ptx_run_by(struct ptx_insn *i, ptx_run_fn *fn)
{
    i->kind = K_RUN;
    i->fn.run = fn;
}

/* -- Moves -- */

static void d_mov(struct ptx_parse *p, struct ptx_insn *i)
{
    enum ptx_type type = ptx_take_type(p);
    struct ptx_operand *d = &p->st.op[0], *s = &p->st.op[1];
    ptx_operands(p, 2);
    i->type = (uint8_t)type;
    if (type == PT_PRED) {
        i->d = ptx_dest_of(p, d, 0);
        i->s[0] = ptx_source(p, s, PT_PRED);
        i->nsrc = 1;
        i->op = 'm';
        ptx_run_by(i, ptx_run_pred);
    } else if (s->kind == O_VEC) {
        i->d = ptx_dest_of(p, d, ptx_types[type].bytes);
        ptx_vector(p, i, s, PT_B8, false);
        ptx_run_by(i, ptx_run_pack);
    } else if (d->kind == O_VEC) {
        i->s[0] = ptx_source(p, s, type);
        i->nsrc = 1;
        ptx_vector(p, i, d, PT_NONE, true);
        ptx_run_by(i, ptx_run_unpack);
    } else {
        enum ptx_type bits = ptx_types[type].bytes == 2              ? PT_B16
                             : type == PT_F16X2 || type == PT_BF16X2 ? PT_B32
                                                                     : type;
        row(p, i, "mov", bits);
    }
}

/* One of two of a type, by a third operand. */
static void selected(struct ptx_parse *p, struct ptx_insn *i, enum ptx_type type, enum ptx_type by)
{
    ptx_operands(p, 4);
    i->type = (uint8_t)type;
    i->d = ptx_dest_of(p, &p->st.op[0], ptx_types[type].bytes);
    i->s[0] = ptx_source(p, &p->st.op[1], type);
    i->s[1] = ptx_source(p, &p->st.op[2], type);
    i->s[2] = ptx_source(p, &p->st.op[3], by);
}

static void d_selp(struct ptx_parse *p, struct ptx_insn *i)
{
    selected(p, i, ptx_take_type(p), PT_PRED);
    i->nsrc = 0; /* defined by what is selected */
    ptx_run_by(i, ptx_run_selp);
}

static void d_slct(struct ptx_parse *p, struct ptx_insn *i)
{
    i->flags |= (uint8_t)(ptx_take(p, "ftz") ? F_FTZ : 0);
    enum ptx_type type = ptx_take_type(p), by = ptx_take_type(p);
    i->type2 = (uint8_t)by;
    selected(p, i, type, by);
    i->nsrc = 3;
    ptx_run_by(i, ptx_run_slct);
}

/* -- Comparisons -- */

static const char *const compare_names[] = {"eq", "ne",  "lt",  "le",  "gt",  "ge",  "lo",  "ls",  "hi",
                                            "hs", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"};

static const char *take_compare(struct ptx_parse *p, struct ptx_insn *i)
{
    for (size_t k = 0; k < sizeof compare_names / sizeof *compare_names; k++)
        if (ptx_take(p, compare_names[k])) {
            i->op = (uint8_t)k;
            return compare_names[k];
        }
    ptx_fail(p, p->st.line, "'%s' requires a comparison", p->st.opcode);
}

static void compare(struct ptx_parse *p, struct ptx_insn *i, const char *name, enum ptx_type type, int first)
{
    i->type = (uint8_t)type;
    i->fn.cmp = p->rows->compare(name, type);
    bool half = type == PT_F16 || type == PT_BF16 || type == PT_F16X2 || type == PT_BF16X2;
    if (!i->fn.cmp && !half)
        ptx_fail(p, p->st.line, "comparison '%s' of type .%s is not supported", name, ptx_types[type].text);
    i->s[0] = ptx_source(p, &p->st.op[first], type);
    i->s[1] = ptx_source(p, &p->st.op[first + 1], type);
    i->nsrc = 2;
    if (i->op2)
        i->s[i->nsrc++] = ptx_source(p, &p->st.op[first + 2], PT_PRED);
}

/* The comparison's name; what it is combined with, if anything, and how it takes small numbers are noted. */
static const char *take_comparison(struct ptx_parse *p, struct ptx_insn *i)
{
    const char *name = take_compare(p, i);
    i->op2 = ptx_take(p, "and") ? '&' : ptx_take(p, "or") ? '|' : ptx_take(p, "xor") ? '^' : 0;
    i->flags |= (uint8_t)(ptx_take(p, "ftz") ? F_FTZ : 0);
    return name;
}

static void keep_compare(struct ptx_parse *p, struct ptx_insn *i)
{
    struct ptx_op *keep = ptx_new(p, sizeof(ptx_cmp_fn *));
    memcpy(keep, &i->fn.cmp, sizeof i->fn.cmp);
    i->more = keep;
}

static void d_setp(struct ptx_parse *p, struct ptx_insn *i)
{
    const char *name = take_comparison(p, i);
    ptx_operands(p, i->op2 ? 4 : 3);
    i->d = ptx_dest_of(p, &p->st.op[0], 0);
    i->d2 = p->st.op[0].second ? ptx_dest_of(p, p->st.op[0].second, 0) : (struct ptx_op){.sink = 1};
    compare(p, i, name, ptx_take_type(p), 1);
    bool plain = i->fn.cmp && !i->op2 && i->d2.sink && !(i->flags & F_FTZ);
    i->kind = plain ? K_COMPARE : K_RUN;
    if (!plain) {
        keep_compare(p, i);
        i->fn.run = ptx_run_setp;
    }
}

static void d_set(struct ptx_parse *p, struct ptx_insn *i)
{
    const char *name = take_comparison(p, i);
    enum ptx_type to = ptx_take_type(p);
    ptx_operands(p, i->op2 ? 4 : 3);
    i->type2 = (uint8_t)to;
    i->d = ptx_dest_of(p, &p->st.op[0], ptx_types[to].bytes);
    compare(p, i, name, ptx_take_type(p), 1);
    keep_compare(p, i);
    ptx_run_by(i, ptx_run_set);
}

static void d_testp(struct ptx_parse *p, struct ptx_insn *i)
{
    static const char *const kinds[] = {"finite", "infinite", "number", "notanumber", "normal", "subnormal"};
    for (int k = 0; k < 6; k++)
        if (ptx_take(p, kinds[k]))
            i->op = (uint8_t)(k + 1);
    enum ptx_type type = ptx_take_type(p);
    ptx_operands(p, 2);
    if (!i->op || (type != PT_F32 && type != PT_F64))
        ptx_fail(p, p->st.line, "'testp' requires a property and .f32 or .f64");
    i->type = (uint8_t)type;
    i->d = ptx_dest_of(p, &p->st.op[0], 0);
    i->s[0] = ptx_source(p, &p->st.op[1], type);
    i->nsrc = 1;
    ptx_run_by(i, ptx_run_testp);
}

/* -- Conversions -- */

static void d_cvt(struct ptx_parse *p, struct ptx_insn *i)
{
    static const char *const rounds[] = {"rn", "rz", "rm", "rp", "rna", "rni", "rzi", "rmi", "rpi"};
    for (size_t r = 0; r < sizeof rounds / sizeof *rounds; r++)
        if (ptx_take(p, rounds[r])) {
            i->round = (uint8_t)(r < 5 ? r : r - 5);
            i->op2 = r >= 5;
        }
    i->flags |= (uint8_t)((ptx_take(p, "ftz") ? F_FTZ : 0) | (ptx_take(p, "sat") ? F_SAT : 0));
    i->op = ptx_take(p, "relu") ? 1 : 0;
    if (ptx_take(p, "satfinite"))
        i->op |= 2;
    enum ptx_type to = ptx_take_type(p), from = ptx_take_type(p);
    bool pair = ptx_types[to].cls == 'x' && ptx_types[from].cls != 'x';
    ptx_operands(p, pair ? 3 : 2);
    i->type = (uint8_t)to;
    i->type2 = (uint8_t)from;
    i->d = ptx_dest(p, &p->st.op[0]);
    if (i->d.bytes < ptx_types[to].bytes)
        ptx_fail(p, p->st.line, "destination of 'cvt' is too narrow");
    i->nsrc = pair ? 2 : 1;
    for (int s = 0; s < i->nsrc; s++)
        i->s[s] = ptx_source_of(p, &p->st.op[s + 1], from, false);
    ptx_run_by(i, ptx_run_cvt);
    /* Conversions of integers that change nothing but the width. */
    char c = ptx_types[to].cls, f = ptx_types[from].cls;
    if (strchr("usb", c) && strchr("usb", f) && i->d.bytes == i->s[0].bytes &&
        ptx_types[to].bytes == ptx_types[from].bytes && ptx_types[to].bytes == i->d.bytes && !(i->flags & F_SAT)) {
        int bytes;
        find_row(p, i, "mov", i->d.bytes == 2 ? PT_B16 : i->d.bytes == 4 ? PT_B32 : PT_B64, &bytes);
    }
}

/* -- Control -- */

static void d_bra(struct ptx_parse *p, struct ptx_insn *i)
{
    i->flags |= (uint8_t)(ptx_take(p, "uni") ? F_UNIFORM : 0);
    ptx_operands(p, 1);
    if (p->st.op[0].kind != O_SYM)
        ptx_fail(p, p->st.line, "'bra' requires a label");
    p->fixes = ptx_grow(p, p->fixes, p->nfixes, &p->fix_room, sizeof *p->fixes);
    p->fixes[p->nfixes++] = (struct ptx_fix){p->f->ncode, p->st.op[0].name, p->scope};
    i->kind = K_BRANCH;
}

static void call_list(struct ptx_parse *p, const struct ptx_operand *o, struct ptx_arg **list, int *n)
{
    *n = o->n;
    *list = ptx_new(p, sizeof **list * (size_t)(o->n + 1));
    for (int k = 0; k < o->n; k++) {
        const struct ptx_operand *a = &o->list[k];
        struct ptx_sym *v = a->kind == O_SYM ? ptx_symbol(p, a->name) : NULL;
        if (v && v->space == SP_PARAM)
            (*list)[k].var = v;
        else if (a->kind == O_REG || a->kind == O_INT || a->kind == O_F32 || a->kind == O_F64) {
            (*list)[k].is_op = true;
            (*list)[k].op =
                a->kind == O_REG ? ptx_register_op(p, a->name) : ptx_constant(p, a->value, a->kind == O_F64 ? 8 : 4);
        } else
            ptx_fail(p, p->st.line, "unknown argument of a call");
    }
}

static void d_call(struct ptx_parse *p, struct ptx_insn *i)
{
    struct ptx_call *c = ptx_new(p, sizeof *c);
    struct ptx_operand *o = p->st.op, none = {0};
    int n = p->st.nop;
    ptx_take(p, "uni");
    bool rets = n && o[0].kind == O_LIST;
    const struct ptx_operand *name = &o[rets ? 1 : 0], *args = n > rets + 1 ? &o[rets + 1] : &none;
    if (n < rets + 1 || name->kind != O_SYM || n > rets + 2)
        ptx_fail(p, p->st.line, "only direct calls are supported");
    c->name = name->name;
    call_list(p, rets ? &o[0] : &none, &c->rets, &c->nrets);
    call_list(p, args, &c->args, &c->nargs);
    i->call = c;
    i->kind = K_CALL;
}

static void d_ret(struct ptx_parse *p, struct ptx_insn *i)
{
    ptx_take(p, "uni");
    ptx_operands(p, 0);
    i->kind = p->f->entry ? K_EXIT : K_RETURN;
}

static void d_exit(struct ptx_parse *p, struct ptx_insn *i)
{
    ptx_operands(p, 0);
    i->kind = K_EXIT;
}

static void d_trap(struct ptx_parse *p, struct ptx_insn *i)
{
    ptx_operands(p, 0);
    ptx_run_by(i, ptx_run_trap);
}

void ptx_decode_ld(struct ptx_parse *p, struct ptx_insn *i);
void ptx_decode_st(struct ptx_parse *p, struct ptx_insn *i);
void ptx_decode_atom(struct ptx_parse *p, struct ptx_insn *i);
void ptx_decode_hint(struct ptx_parse *p, struct ptx_insn *i);
void ptx_decode_fence(struct ptx_parse *p, struct ptx_insn *i);
void ptx_decode_cvta(struct ptx_parse *p, struct ptx_insn *i);
void ptx_decode_isspacep(struct ptx_parse *p, struct ptx_insn *i);
void ptx_decode_bar(struct ptx_parse *p, struct ptx_insn *i);
void ptx_decode_shfl(struct ptx_parse *p, struct ptx_insn *i);
void ptx_decode_vote(struct ptx_parse *p, struct ptx_insn *i);
void ptx_decode_match(struct ptx_parse *p, struct ptx_insn *i);
void ptx_decode_activemask(struct ptx_parse *p, struct ptx_insn *i);
void ptx_decode_redux(struct ptx_parse *p, struct ptx_insn *i);
void ptx_decode_elect(struct ptx_parse *p, struct ptx_insn *i);
void ptx_decode_cp(struct ptx_parse *p, struct ptx_insn *i);
void ptx_decode_mbarrier(struct ptx_parse *p, struct ptx_insn *i);
void ptx_decode_matrix(struct ptx_parse *p, struct ptx_insn *i);
void ptx_decode_wgmma(struct ptx_parse *p, struct ptx_insn *i);
void ptx_decode_setmaxnreg(struct ptx_parse *p, struct ptx_insn *i);
void ptx_decode_mapa(struct ptx_parse *p, struct ptx_insn *i);
void ptx_decode_mma(struct ptx_parse *p, struct ptx_insn *i);

static const struct form {
    const char *name;
    void (*decode)(struct ptx_parse *p, struct ptx_insn *i);
    uint8_t cls;
} forms[] = {
#define FORM(name, decode, cls) {name, decode, PTX_CLASS_##cls},
#include "sim/ptx/forms.def"
#undef FORM
    {NULL, NULL, 0},
};

/* -- One statement -- */

void ptx_decode(struct ptx_parse *p)
{
    struct ptx_func *f = p->f;
    struct ptx_statement *st = &p->st;
    const struct form *form = forms;
    struct ptx_insn i = {.line = st->line, .target = -1, .rejoin = -1, .d2 = {.sink = 1}};
    char text[96];
    size_t n = (size_t)snprintf(text, sizeof text, "%s", st->opcode);
    for (int k = 0; k < st->nmod && n < sizeof text; k++)
        n += (size_t)snprintf(text + n, sizeof text - n, ".%s", st->mod[k]);
    i.text = ptx_name(p, text, strlen(text));
    while (form->name && strcmp(form->name, st->opcode) != 0)
        form++;
    if (!form->name)
        ptx_fail(p, st->line, "instruction '%s' is not supported", i.text);
    i.cls = form->cls;
    if (st->guard) {
        i.guard = ptx_register_op(p, st->guard);
        if (i.guard.bytes)
            ptx_fail(p, st->line, "guard '%s' is not a predicate", st->guard);
        i.guard.negate = st->guard_not;
        i.flags |= F_GUARD;
    }
    form->decode(p, &i);
    if (st->nmod)
        ptx_fail(p, st->line, "instruction '%s' is not supported: modifier '.%s'", i.text, st->mod[0]);
    f->code = ptx_grow(p, f->code, f->ncode, &f->room, sizeof *f->code);
    f->code[f->ncode++] = i;
}
