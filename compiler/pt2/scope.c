/* SPDX-License-Identifier: Apache-2.0 */
/* Names of values, by graph: a graph within another one has its own. */
#include "compiler/pt2/pt2_int.h"

#include <string.h>

void pt2_push_scope(struct pt2 *p, struct pt2_scope *s, json_t *graph)
{
    *s = (struct pt2_scope){.outer = p->at.scope, .graph = graph};
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
    void **at = ir_map_add(p->ctx, &s->values, ir_map_key(key));
    if (*at)
        return imp_bad(p->im, "'%s' is defined twice", name), NULL;
    struct pt2_value *v = *at = IR_NEW(p->ctx, struct pt2_value);
    v->name = key;
    v->scope = s;
    return v;
}

/* A graph sees its own names only: what it takes from outside are its operands. */
struct pt2_value *pt2_lookup(struct pt2 *p, const char *name)
{
    void **v = ir_map_find(&p->at.scope->values, ir_map_key(ir_intern(p->ctx, name)));
    return v ? *v : NULL;
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
