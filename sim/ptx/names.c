/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the names of PTX text mean: variables and registers by the scopes of braces (PTX ISA, "Scoping"), functions,
 * and, once a function or a module is read to its end, labels, the launch's shared memory and calls.
 */
#include <stdlib.h>

#include "sim/ptx/text_int.h"

/* -- Variables and registers -- */

static bool visible(const struct ptx_parse *p, int scope)
{
    for (int s = p->scope; s >= 0; s = p->parent[s])
        if (s == scope)
            return true;
    return false;
}

struct ptx_sym *ptx_symbol(struct ptx_parse *p, const char *name)
{
    struct ptx_sym *best = NULL;
    for (struct ptx_sym *s = p->f ? p->f->syms : NULL; s; s = s->next)
        if (strcmp(s->name, name) == 0 && visible(p, s->scope) && (!best || s->scope > best->scope))
            best = s;
    for (struct ptx_sym *s = p->m->globals; s && !best; s = s->next)
        if (strcmp(s->name, name) == 0)
            best = s;
    return best;
}

int ptx_add_register(struct ptx_parse *p, enum ptx_type type)
{
    struct ptx_func *f = p->f;
    int room = f->reg_room;
    size_t bytes = type == PT_PRED ? 4 : (size_t)LANES * ptx_types[type].bytes;
    f->reg_at = ptx_grow(p, f->reg_at, f->nregs, &f->reg_room, sizeof *f->reg_at);
    f->reg_type = ptx_grow(p, f->reg_type, f->nregs, &room, 1);
    if (type != PT_PRED)
        f->frame_bytes = (f->frame_bytes + 63) & ~(size_t)63;
    f->reg_at[f->nregs] = (uint32_t)f->frame_bytes;
    f->reg_type[f->nregs] = (uint8_t)type;
    f->frame_bytes += bytes;
    if (f->frame_bytes > (1u << 30))
        ptx_fail(p, p->x.line, "too many registers");
    return f->nregs++;
}

int ptx_register(struct ptx_parse *p, const char *name, enum ptx_type *type)
{
    size_t n = strlen(name), stem = n;
    int best = -1, best_scope = -1;
    while (stem && name[stem - 1] >= '0' && name[stem - 1] <= '9')
        stem--;
    for (int i = 0; i < p->nregs; i++) {
        const struct ptx_reg *r = &p->regs[i];
        int k = 0;
        if (r->scope <= best_scope || !visible(p, r->scope))
            continue;
        if (r->count < 0 ? strcmp(r->prefix, name) != 0
                         : n == stem || n - stem > 7 || strlen(r->prefix) != stem || memcmp(r->prefix, name, stem) ||
                               (k = atoi(name + stem)) >= r->count)
            continue;
        best = r->first + k;
        best_scope = r->scope;
        *type = r->type;
    }
    return best;
}

/* -- Functions, and what is found at their end -- */

struct ptx_func *ptx_function_named(struct ptx_parse *p, const char *name)
{
    for (struct ptx_func *f = p->m->funcs; f; f = f->next)
        if (strcmp(f->name, name) == 0)
            return f;
    struct ptx_kernel *k = ptx_new(p, sizeof *k);
    k->f.name = name;
    k->f.m = p->m;
    k->f.next = p->m->funcs;
    p->m->funcs = &k->f;
    return &k->f;
}

void ptx_resolve_labels(struct ptx_parse *p)
{
    for (int i = 0; i < p->nfixes; i++) {
        int found = -1;
        for (int s = p->fixes[i].scope; s >= 0 && found < 0; s = p->parent[s])
            for (int j = 0; j < p->nlabels && found < 0; j++)
                if (p->labels[j].scope == s && strcmp(p->labels[j].name, p->fixes[i].label) == 0)
                    found = p->labels[j].pc;
        if (found < 0)
            ptx_fail(p, p->f->code[p->fixes[i].pc].line, "label '%s' is not defined", p->fixes[i].label);
        p->f->code[p->fixes[i].pc].target = found;
    }
}

/* The launch's shared memory begins behind the function's own variables. */
void ptx_resolve_dynamic(struct ptx_parse *p)
{
    struct ptx_func *f = p->f;
    if (p->ndynamic)
        f->shared_bytes = (f->shared_bytes + 15) & ~(size_t)15;
    f->dynamic_at = ((f->shared_bytes + 15) & ~(size_t)15) + (f->nshared ? f->gaps + SHARED_GAP : 0);
    for (int i = 0; i < p->ndynamic; i++) {
        uint64_t v = f->dynamic_at + (uint64_t)p->dynamic[i].add;
        if (!f->entry)
            ptx_fail(p, p->x.line, "dynamic shared memory in '%s', which is not an entry, is not supported", f->name);
        if (p->dynamic[i].is_imm)
            f->code[p->dynamic[i].pc].imm = (int64_t)v;
        for (int l = 0; !p->dynamic[i].is_imm && l < LANES; l++) {
            uint8_t *row = f->constants + p->dynamic[i].constant;
            size_t each = p->dynamic[i].pc < 0 ? 8 : 4;
            memcpy(row + (size_t)l * each, &v, each);
        }
    }
}

void ptx_resolve_calls(struct ptx_parse *p)
{
    for (struct ptx_func *f = p->m->funcs; f; f = f->next)
        for (int i = 0; i < f->ncode; i++) {
            const struct ptx_call *c = f->code[i].call;
            if (f->code[i].kind != K_CALL)
                continue;
            struct ptx_func *to = p->m->funcs;
            while (to && strcmp(to->name, c->name) != 0)
                to = to->next;
            if (!to || !to->defined)
                ptx_fail(p, f->code[i].line, "function '%s' is not defined", c->name);
            if (to->nparams != c->nargs || to->nrets != c->nrets)
                ptx_fail(p, f->code[i].line, "call of '%s' with %d arguments and %d results, expected %d and %d",
                         c->name, c->nargs, c->nrets, to->nparams, to->nrets);
            f->code[i].callee = to;
        }
}
