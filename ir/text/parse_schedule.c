/* SPDX-License-Identifier: Apache-2.0 */
/*
 * parse_schedule.c - what text says of a kernel beside what it computes: its roles, and how its target runs it.
 */
#include <string.h>

#include "ir/roles/roles_int.h"
#include "ir/text/parse_kernel_int.h"

bool parse_contraction(struct kernel_reader *r)
{
    static const char *const sets[] = {"batch", "m", "n", "k"};
    struct kn_contraction *c = &r->k->roles.contraction;
    int a, b, *const parts[] = {&c->load[0], &c->load[1], &c->mul, &c->reduce};
    uint32_t *const dims[] = {&c->batch, &c->m, &c->n, &c->k};
    r->k->roles = kn_roles_of(KN_CONTRACTION);
    if (!parse_operand_name(r, &a) || !parse_operand_name(r, &b))
        return false;
    for (int i = 0; i < 4; i++)
        if (!parse_insn_name(r, parts[i]))
            return false;
    for (int i = 0; i < 2; i++)
        c->factor[i] = r->insns.at[c->mul].arg[i];
    for (int i = 0; i < 4; i++)
        if (!lex_expect_word(r->p, sets[i]) || !parse_dim_set(r, dims[i]))
            return false;
    return !lex_take_word(r->p, "partial") || parse_dtype(r->p, &r->k->partial);
}

static bool read_role(struct kernel_reader *r, enum kn_role_kind kind, int *out)
{
    struct token at = r->p->tok;
    const char *name;
    int64_t number;
    if (kind == KN_ROLE_DIMS)
        return parse_dim_set(r, (uint32_t *)out);
    if (lex_take(r->p, '-'))
        return true;
    if (kind == KN_ROLE_OPERAND)
        return parse_operand_name(r, out);
    if (r->p->tok.kind == T_VALUE)
        return parse_insn_name(r, out);
    if (kind != KN_ROLE_DIM) { /* a stage, or a store, which has no name */
        if (!lex_small(r->p, 0, (kind == KN_ROLE_STAGE ? r->stages.n : r->insns.n) - 1, &number))
            return false;
        *out = (int)number;
        return true;
    }
    if (!lex_ident(r->p, &name))
        return false;
    for (int d = 0; d < r->p->nscope; d++)
        if (r->p->scope[d].name == name)
            *out = d;
    return *out >= 0 || parse_error(r->p, &at, "unknown dim %s", name);
}

bool parse_roles(struct kernel_reader *r)
{
    struct parser *p = r->p;
    struct token at = p->tok;
    struct kn_roles *to = &r->k->roles;
    const char *name;
    int form = KN_NO_FORM + 1;
    if ((r->no_roles = lex_take_word(p, "none")))
        return true;
    if (!lex_ident(p, &name))
        return false;
    while (form < KN_NFORMS && strcmp(kn_forms[form].name, name) != 0)
        form++;
    if (form == KN_NFORMS)
        return parse_error(p, &at, "unknown form of kernel '%s'", name);
    *to = kn_roles_of((enum kn_form)form);
    if (!lex_expect(p, '('))
        return false;
    do {
        const struct kn_role_row *row = kn_forms[form].roles;
        at = p->tok;
        if (!lex_ident(p, &name) || !lex_expect(p, '='))
            return false;
        while (row->name && strcmp(row->name, name) != 0)
            row++;
        if (!row->name)
            return parse_error(p, &at, "%s has no role '%s'", kn_forms[form].name, name);
        for (int i = 0; i < row->n && !lex_is(p, ',') && !lex_is(p, ')'); i++)
            if (!read_role(r, row->kind, kn_role(to, row, i)))
                return false;
    } while (lex_take(p, ','));
    return lex_expect(p, ')');
}

static bool read_tile(struct kernel_reader *r, struct kn_schedule *s)
{
    int n = 0;
    if (!lex_expect(r->p, '('))
        return false;
    while (!lex_is(r->p, ')')) {
        if (n == KN_MAX_DIMS)
            return parse_expected(r->p, "')'");
        if ((n && !lex_expect(r->p, ',')) || !lex_small(r->p, 0, INT64_MAX, &s->tile[n++]))
            return false;
    }
    lex_next(r->p);
    return true;
}

static bool read_params(struct kernel_reader *r, struct kn_schedule *s)
{
    struct parser *p = r->p;
    if (!lex_is(p, '('))
        return true;
    lex_next(p);
    while (!lex_is(p, ')')) {
        struct kn_param *at = &s->params[s->nparams];
        if (s->nparams == KN_MAX_PARAMS)
            return parse_expected(p, "')'");
        if ((s->nparams && !lex_expect(p, ',')) || !lex_ident(p, &at->key) || !lex_expect(p, '=') ||
            !lex_small(p, 0, INT32_MAX, &at->value))
            return false;
        s->nparams++;
    }
    lex_next(p);
    return true;
}

bool parse_schedule(struct kernel_reader *r)
{
    struct kn_schedule *s = &r->k->schedule;
    *s = (struct kn_schedule){0};
    return lex_ident(r->p, &s->how) && read_params(r, s) && (!lex_take_word(r->p, "tile") || read_tile(r, s));
}
