/* SPDX-License-Identifier: Apache-2.0 */
/* Names of values, by graph: a graph within another one has its own. */
#include "compiler/pt2/pt2_int.h"

#include <string.h>

static uint32_t slot_of(const struct pt2_scope *s, const char *key)
{
    uint32_t k = (uint32_t)(((uintptr_t)key >> 4) * 0x9e3779b1u) & (s->room - 1);
    while (s->slots[k] && s->slots[k]->name != key)
        k = (k + 1) & (s->room - 1);
    return k;
}

void pt2_push_scope(struct pt2 *p, struct pt2_scope *s, json_t *graph)
{
    *s = (struct pt2_scope){.outer = p->at.scope, .graph = graph, .room = 64};
    s->slots = IR_NEWN(p->ctx, s->room, struct pt2_value *);
    p->at.scope = s;
}

void pt2_pop_scope(struct pt2 *p)
{
    p->at.scope = p->at.scope->outer;
}

struct pt2_value *pt2_bind(struct pt2 *p, const char *name)
{
    struct pt2_scope *s = p->at.scope;
    const char *key = ir_intern(p->ctx, name);
    if (s->count * 2 >= s->room) {
        struct pt2_scope old = *s;
        s->room *= 2;
        s->slots = IR_NEWN(p->ctx, s->room, struct pt2_value *);
        for (uint32_t k = 0; k < old.room; k++) {
            if (old.slots[k])
                s->slots[slot_of(s, old.slots[k]->name)] = old.slots[k];
        }
    }
    uint32_t at = slot_of(s, key);
    if (s->slots[at])
        return imp_bad(p->im, "'%s' is defined twice", name), NULL;
    struct pt2_value *v = s->slots[at] = IR_NEW(p->ctx, struct pt2_value);
    s->count++;
    v->name = key;
    v->scope = s;
    return v;
}

/* A graph sees its own names only: what it takes from outside are its operands. */
struct pt2_value *pt2_lookup(struct pt2 *p, const char *name)
{
    return p->at.scope->slots[slot_of(p->at.scope, ir_intern(p->ctx, name))];
}

const char *pt2_name_of(json_t *argument)
{
    json_t *value;
    const char *kind = js_union(argument, &value), *name;
    for (int depth = 0; kind && depth < 4; depth++) {
        if (!strcmp(kind, "as_name"))
            return json_string_value(value);
        name = js_string(value, "name");
        if (name)
            return name;
        kind = js_union(value, &value);
    }
    return NULL;
}

struct pt2_value *pt2_named(struct pt2 *p, json_t *argument)
{
    const char *name = pt2_name_of(argument);
    struct pt2_value *v = name ? pt2_lookup(p, name) : NULL;
    if (!v)
        imp_bad(p->im, "'%s' is not defined", name ? name : "");
    return v;
}

struct ir_value *pt2_number(struct pt2 *p, struct pt2_value *v)
{
    if (!v->v && v->e)
        v->v = imp_dim_value(p->im, v->e);
    return v->v;
}
