/* SPDX-License-Identifier: Apache-2.0 */
/* roles.c - what goes over the roles of any form: the table of forms, and everything that is made of it. */
#include "ir/roles/roles_int.h"
#include "base/mutant.h"

#include <string.h>

#define AT(type, member) offsetof(struct kn_roles, type.member) / sizeof(int)
#define MANY(type, member) sizeof(((struct kn_roles *)0)->type.member) / sizeof(int)
#define ROW(form, kind, name) {KN_ROLE_##kind, #name, AT(form, name), MANY(form, name)},
#define SCORE(kind, name, n) {KN_ROLE_##kind, #name, AT(attention, is.name), MANY(attention, is.name)},
#define CONTRACTION(kind, name, n) ROW(contraction, kind, name)
#define ATTENTION(kind, name, n) ROW(attention, kind, name)
#define GRAD(kind, name, n) ROW(attention_grad, kind, name)
#define WINOGRAD(kind, name, n) ROW(winograd, kind, name)
#define SCATTER(kind, name, n) ROW(scatter, kind, name)
#define REDUCTION(kind, name, n) ROW(reduction, kind, name)
#define SOFTMAX(kind, name, n) ROW(softmax, kind, name)

static const struct kn_role_row contraction[] = {KN_CONTRACTION_ROLES(CONTRACTION){0}};
static const struct kn_role_row attention[] = {KN_ATTENTION_ROLES(ATTENTION) KN_SCORE_ROLES(SCORE){0}};
static const struct kn_role_row attention_grad[] = {KN_ATTENTION_GRAD_ROLES(GRAD) KN_SCORE_ROLES(SCORE){0}};
static const struct kn_role_row winograd[] = {KN_WINOGRAD_ROLES(WINOGRAD){0}};
static const struct kn_role_row scatter[] = {KN_SCATTER_ROLES(SCATTER){0}};
static const struct kn_role_row reduction[] = {KN_REDUCTION_ROLES(REDUCTION){0}};
static const struct kn_role_row softmax[] = {KN_SOFTMAX_ROLES(SOFTMAX){0}};

_Static_assert(AT(attention, is) == AT(attention_grad, is), "SCORE is for both");

const struct kn_form_row kn_forms[KN_NFORMS] = {
    [KN_CONTRACTION] = {"contraction", contraction, kn_find_contraction},
    [KN_ATTENTION] = {"attention", attention, kn_find_attention},
    [KN_ATTENTION_GRAD] = {"attention_grad", attention_grad, kn_find_attention_grad},
    [KN_WINOGRAD] = {"winograd", winograd, kn_find_winograd},
    [KN_SCATTER] = {"scatter", scatter, kn_find_scatter},
    [KN_REDUCTION] = {"reduction", reduction, kn_find_reduction},
    [KN_SOFTMAX] = {"softmax", softmax, kn_find_softmax},
};

int *kn_role(struct kn_roles *r, const struct kn_role_row *row, int i)
{
    return (int *)r + row->at + i;
}

struct kn_roles kn_roles_of(enum kn_form form)
{
    struct kn_roles r = {.form = form};
    for (const struct kn_role_row *row = kn_forms[form].roles; row && row->name; row++)
        for (int i = 0; i < row->n; i++)
            *kn_role(&r, row, i) = row->kind == KN_ROLE_DIMS ? 0 : -1;
    return r;
}

bool kn_role_is_played(const struct kn_role_row *row, int is)
{
    return row->kind == KN_ROLE_DIMS ? is != 0 : is >= 0;
}

bool kn_find_form(const struct kn_kernel *k, enum kn_form form, struct kn_roles *r)
{
    *r = kn_roles_of(form);
    if (kn_forms[form].find(k, r))
        return true;
    *r = (struct kn_roles){0};
    return false;
}

bool kn_find_roles(const struct kn_kernel *k, struct kn_roles *r)
{
    int form = KN_NO_FORM + 1;
    while (form < KN_NFORMS && !kn_find_form(k, (enum kn_form)form, r))
        form++;
    return form < KN_NFORMS;
}

bool kn_roles_hold(const struct kn_kernel *k)
{
    struct kn_roles written = k->roles, found;
    if (!written.form)
        return true;
    if (!kn_find_form(k, written.form, &found))
        return false;
    for (const struct kn_role_row *row = kn_forms[written.form].roles; row->name; row++)
        if (MUTANT(407, memcmp(kn_role(&written, row, 0), kn_role(&found, row, 0), (size_t)row->n * sizeof(int)), 0))
            return false;
    return true;
}

void kn_renumber_roles(struct kn_roles *r, const int *insn, const int *stage, const int *operand)
{
    const int *const number[] = {
        [KN_ROLE_DIMS] = NULL, [KN_ROLE_INSN] = insn, [KN_ROLE_STAGE] = stage, [KN_ROLE_OPERAND] = operand};
    for (const struct kn_role_row *row = kn_forms[r->form].roles; row && row->name; row++)
        for (int i = 0; i < row->n; i++) {
            int *at = kn_role(r, row, i);
            if (number[row->kind] && *at >= 0)
                *at = number[row->kind][*at];
        }
}

uint32_t kn_without_bit(uint32_t set, int bit)
{
    uint32_t below = (1u << bit) - 1;
    return (set & below) | ((set >> 1) & ~below);
}

void kn_leave_roles(struct kn_roles *r, enum kn_role_kind kind, int number)
{
    for (const struct kn_role_row *row = kn_forms[r->form].roles; row && row->name; row++)
        for (int i = 0; i < row->n; i++) {
            int *at = kn_role(r, row, i);
            if (kind == KN_ROLE_DIM && row->kind == KN_ROLE_DIMS)
                *at = (int)kn_without_bit((uint32_t)*at, number);
            else if (row->kind == kind)
                *at = *at == number ? -1 : *at - (*at > number);
        }
}

bool kn_names_dims(enum kn_form form)
{
    for (const struct kn_role_row *row = kn_forms[form].roles; row && row->name; row++)
        if (row->kind == KN_ROLE_DIM || row->kind == KN_ROLE_DIMS)
            return true;
    return false;
}

int kn_stage_of(const struct kn_kernel *k, int insn)
{
    for (int s = 0; s < k->nstages; s++)
        if (insn >= k->stages[s].first && insn < k->stages[s].last)
            return s;
    return -1;
}

const struct kn_stage *kn_main_stage(const struct kn_kernel *k)
{
    const struct kn_roles *r = &k->roles;
    int insn = r->form == KN_CONTRACTION ? r->contraction.reduce
               : r->form == KN_REDUCTION ? r->reduction.reduce[0]
                                         : r->scatter.store;
    return &k->stages[kn_stage_of(k, insn)];
}

int kn_without_casts(const struct kn_kernel *k, int insn)
{
    while (kn_is_cast(&k->insns[insn]))
        insn = k->insns[insn].arg[0];
    return insn;
}

bool kn_runs_along(const struct kn_insn *n, ir_expr var)
{
    for (int i = 0; i < n->nindex; i++)
        if (ir_uses_sym(n->index[i], var))
            return true;
    return false;
}

bool kn_same_element(const struct kn_insn *a, const struct kn_insn *b)
{
    if (a->operand != b->operand || a->nindex != b->nindex)
        return false;
    for (int i = 0; i < a->nindex; i++)
        if (a->index[i] != b->index[i])
            return false;
    return true;
}
