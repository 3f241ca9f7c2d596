/* SPDX-License-Identifier: Apache-2.0 */
/* plan_tables.c - what the plan's tables are made of: strings, each held once; lists of words; expressions of sizes,
 * each held once too, behind those that it needs (runtime/abi.h). */
#include "compiler/artifact/plan_int.h"

#include <string.h>

/* -- Strings and lists ------------------------------------------------------------------------------- */

uint32_t plan_string(struct plan_writer *w, const char *s)
{
    void **at = ir_map_add(w->ctx, &w->string_at, ir_map_key(s = ir_intern(w->ctx, s ? s : "")));
    if (!*at) {
        *at = (void *)(uintptr_t)(w->strings.n + 1);
        for (size_t i = 0, n = strlen(s) + 1; i < n; i++)
            VEC_PUSH(w->ctx, w->strings, s[i]);
    }
    return (uint32_t)(uintptr_t)*at - 1;
}

uint32_t plan_data(struct plan_writer *w, const void *p, size_t size)
{
    while (w->bytes.n % 16)
        VEC_PUSH(w->ctx, w->bytes, 0);
    uint32_t at = (uint32_t)w->bytes.n;
    for (size_t i = 0; i < size; i++)
        VEC_PUSH(w->ctx, w->bytes, ((const uint8_t *)p)[i]);
    return at;
}

struct tcc_range plan_list(struct plan_writer *w, int n, const uint32_t *v)
{
    struct tcc_range r = {(uint32_t)w->u32s.n, (uint32_t)n};
    for (int i = 0; i < n; i++)
        VEC_PUSH(w->ctx, w->u32s, v[i]);
    return r;
}

struct tcc_range plan_int_list(struct plan_writer *w, int n, const int *v)
{
    uint32_t *u = IR_NEWN(w->ctx, n + 1, uint32_t);
    for (int i = 0; i < n; i++)
        u[i] = v[i] < 0 ? TCC_NO : (uint32_t)v[i];
    return plan_list(w, n, u);
}

/* -- Expressions ---------------------------------------------------------------------------------------- */

int plan_sym_number(const struct plan_writer *w, ir_expr sym)
{
    for (int i = 0; i < w->p->nsyms; i++)
        if (w->p->syms[i] == sym)
            return i;
    return sym == w->unknown ? w->p->nsyms : -1; /* behind the others */
}

static uint32_t push_expr(struct plan_writer *w, struct tcc_pexpr x)
{
    VEC_PUSH(w->ctx, w->exprs, x);
    return (uint32_t)w->exprs.n - 1;
}

uint32_t plan_expr(struct plan_writer *w, ir_expr e)
{
    if (!e)
        return TCC_NO;
    while ((uint32_t)w->by_id.n <= e->id)
        VEC_PUSH(w->ctx, w->by_id, 0);
    if (w->by_id.at[e->id])
        return w->by_id.at[e->id] - 1;
    static const uint32_t ops[] = {
        [IR_X_CONST] = TCC_EX_CONST,       [IR_X_SYM] = TCC_EX_SYM, [IR_X_ADD] = TCC_EX_ADD, [IR_X_MUL] = TCC_EX_MUL,
        [IR_X_FLOORDIV] = TCC_EX_FLOORDIV, [IR_X_MOD] = TCC_EX_MOD, [IR_X_MIN] = TCC_EX_MIN, [IR_X_MAX] = TCC_EX_MAX};
    struct tcc_pexpr x = {.op = ops[e->kind]};
    uint32_t n;
    if (e->kind == IR_X_CONST) {
        x.k = e->value;
        n = push_expr(w, x);
    } else if (e->kind == IR_X_SYM) {
        x.k = plan_sym_number(w, e);
        x.level = x.k >= 0 && x.k < w->p->nsyms ? (uint32_t)w->p->sym_level[x.k] : 0;
        n = push_expr(w, x);
    } else {
        n = plan_expr(w, e->arg[0]);
        for (int i = 1; i < e->nargs; i++) {
            uint32_t b = plan_expr(w, e->arg[i]);
            uint32_t la = w->exprs.at[n].level, lb = w->exprs.at[b].level;
            x.a = n;
            x.b = b;
            x.level = la > lb ? la : lb;
            n = push_expr(w, x);
        }
    }
    if (w->exprs.at[n].level + 1 > w->levels)
        w->levels = w->exprs.at[n].level + 1;
    w->by_id.at[e->id] = n + 1;
    return n;
}

struct tcc_range plan_expr_list(struct plan_writer *w, int n, const ir_expr *e)
{
    uint32_t *u = IR_NEWN(w->ctx, n + 1, uint32_t);
    for (int i = 0; i < n; i++)
        u[i] = plan_expr(w, e[i]);
    return plan_list(w, n, u);
}
