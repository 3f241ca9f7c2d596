/* SPDX-License-Identifier: Apache-2.0 */
/*
 * print.c - the text form of level 1 (doc/ir.md). Parsing it gives the same module again.
 *
 * A value is printed by its name where that is an identifier that no value before it in the function has, else by a
 * number; numbers count in the order of printing, so that they do not depend on what was removed before.
 */
#include <inttypes.h>
#include <string.h>

#include "ir/text/kernel_words_int.h"

struct printer {
    FILE *out;
    struct ir_ctx *ctx;
    struct ir_arena *scratch;
    const char **names; /* by value id: name as printed */
    struct ir_set used;
    int numbers;
};

/* == Names == */

static void name_value(struct printer *p, const struct ir_value *v, const char *name)
{
    const char *known = name ? ir_intern(p->ctx, name) : NULL;
    if (known && ir_is_identifier(known)) {
        uint32_t pos = UINT32_MAX;
        uint64_t hash = ir_hash_mix(7, (uint64_t)(uintptr_t)known);
        const void *old;
        while ((old = ir_set_next(&p->used, hash, &pos)) && old != known)
            ;
        if (!old) {
            ir_set_add(p->ctx, &p->used, hash, (void *)known);
            p->names[v->id] = known;
            return;
        }
    }
    p->names[v->id] = ir_internf(p->ctx, "%d", p->numbers++);
}

static const char *param_name(const struct ir_block *b, int i)
{
    if (!b->parent && b->func->input_names)
        return b->func->input_names[i];
    return b->params[i]->name;
}

static void name_block(struct printer *p, const struct ir_block *b)
{
    for (int i = 0; i < b->nparams; i++)
        name_value(p, b->params[i], param_name(b, i));
    IR_EACH_NODE(n, b) {
        for (int i = 0; i < n->nout; i++)
            name_value(p, n->out[i], n->out[i]->name);
        for (int i = 0; i < n->nregions; i++)
            name_block(p, n->regions[i]);
    }
}

static void start(struct printer *p, FILE *out, const struct ir_func *f)
{
    *p = (struct printer){.out = out, .ctx = f->module->ctx};
    p->scratch = p->used.arena = ir_arena_new(p->ctx);
    p->names = ir_arena_alloc(p->scratch, (f->nvalues + 1u) * sizeof *p->names);
    name_block(p, f->body);
}

static void finish(struct printer *p)
{
    ir_arena_free(p->scratch);
}

/* == Nodes == */

static void print_block(struct printer *p, const struct ir_block *b, int indent);

static void print_ref(struct printer *p, const struct ir_value *v)
{
    if (v)
        fprintf(p->out, "%%%s", p->names[v->id] ? p->names[v->id] : "?");
    else
        fputc('_', p->out);
}

/* A value where it is defined: with its source name, where that isn't its printed one. */
static void print_def(struct printer *p, const struct ir_value *v, const char *name)
{
    print_ref(p, v);
    if (name && strcmp(name, p->names[v->id]) != 0) {
        fputc(' ', p->out);
        ir_print_string(p->out, name);
    }
}

static void print_attrs(struct printer *p, const struct ir_node *n)
{
    int printed = 0;
    for (int i = 0; i < n->nattrs; i++) {
        if (n->attrs[i].key == IR_ATTR_types) /* said by the output types */
            continue;
        fputs(printed++ ? ", " : " {", p->out);
        ir_print_attr(p->out, &n->attrs[i]);
    }
    if (printed)
        fputc('}', p->out);
}

static void print_loc_part(FILE *out, const char *s)
{
    if (s)
        ir_print_string(out, s);
    else
        fputc('_', out);
}

static void print_one(struct printer *p, const struct ir_node *n, int indent)
{
    for (int i = 0; i < n->nout; i++) {
        print_def(p, n->out[i], n->out[i]->name);
        fputs(i + 1 < n->nout ? ", " : " = ", p->out);
    }
    fprintf(p->out, "%s(", ir_op_info(n->op)->name);
    for (int i = 0; i < n->nin; i++) {
        if (i)
            fputs(", ", p->out);
        print_ref(p, n->in[i].value);
    }
    fputc(')', p->out);
    print_attrs(p, n);
    for (int i = 0; i < n->nout; i++) {
        fputs(i ? ", " : " : ", p->out);
        ir_print_type(p->out, n->out[i]->type);
        if (n->out[i]->layout) {
            fputs(" layout ", p->out);
            kn_print_layout(p->out, n->out[i]->layout);
        }
    }
    if (n->where.node || n->where.op) {
        fputs(" loc(", p->out);
        print_loc_part(p->out, n->where.node);
        fputs(", ", p->out);
        print_loc_part(p->out, n->where.op);
        fprintf(p->out, ", %d)", n->where.opset);
    }
    for (int i = 0; i < n->nregions; i++) {
        const struct ir_block *b = n->regions[i];
        fputs(" do", p->out);
        for (int j = 0; j < b->nparams; j++) {
            fputs(j ? ", " : " (", p->out);
            print_def(p, b->params[j], b->params[j]->name);
            fputs(": ", p->out);
            ir_print_type(p->out, b->params[j]->type);
        }
        fputs(b->nparams ? ") {\n" : " {\n", p->out);
        print_block(p, b, indent + 2);
        fprintf(p->out, "%*s}", indent, "");
    }
    fputc('\n', p->out);
}

static void print_block(struct printer *p, const struct ir_block *b, int indent)
{
    IR_EACH_NODE(n, b) {
        fprintf(p->out, "%*s", indent, "");
        print_one(p, n, indent);
    }
}

/* == Functions == */

void ir_print_global(FILE *out, const char *name)
{
    fputc('@', out);
    if (ir_is_identifier(name))
        fputs(name, out);
    else
        ir_print_string(out, name);
}

/* version @main(f32[N,8]) when eq(N, 1), ne(M, 2) */
static void print_version(FILE *out, const struct ir_version *v)
{
    fputs(" version ", out);
    ir_print_global(out, v->entry);
    fputc('(', out);
    for (int i = 0; i < v->ninputs; i++) {
        fputs(i ? ", " : "", out);
        ir_print_type(out, v->inputs[i]);
    }
    fputc(')', out);
    for (int i = 0; i < v->nguards; i++) {
        fprintf(out, "%s%s(", i ? ", " : " when ", ir_guard_word(v->guards[i].op));
        ir_print_expr(out, v->guards[i].a);
        fputs(", ", out);
        ir_print_expr(out, v->guards[i].b);
        fputc(')', out);
    }
}

static void print_results(struct printer *p, const struct ir_func *f)
{
    const struct ir_node *end = f->body->last;
    fputs(") -> (", p->out);
    for (int i = 0; end && end->op == IR_return && i < end->nin; i++) {
        const char *name = f->output_names ? f->output_names[i] : NULL;
        if (i)
            fputs(", ", p->out);
        if (name) {
            ir_print_string(p->out, name);
            fputs(": ", p->out);
        }
        ir_print_type(p->out, end->in[i].value->type);
    }
    fputc(')', p->out);
    if (f->version)
        print_version(p->out, f->version);
    for (int i = 0; i < f->nadvances; i++) {
        fputs(i ? ", " : " advance ", p->out);
        ir_print_global(p->out, f->advances[i].state->name);
        fputs(" = ", p->out);
        ir_print_expr(p->out, f->advances[i].to);
    }
    fputs(" {\n", p->out);
}

static void ir_print_func(FILE *out, const struct ir_func *f)
{
    struct printer p;
    start(&p, out, f);
    fputs("func ", out);
    ir_print_global(out, f->name);
    fputc('(', out);
    for (int i = 0; i < f->body->nparams; i++) {
        if (i)
            fputs(", ", out);
        print_def(&p, f->body->params[i], param_name(f->body, i));
        fputs(": ", out);
        ir_print_type(out, f->body->params[i]->type);
    }
    print_results(&p, f);
    print_block(&p, f->body, 2);
    fputs("}\n", out);
    finish(&p);
}

/* == Fusion == */

static void print_node_ref(struct printer *p, const char *word, const struct ir_node *n)
{
    fputs(word, p->out);
    print_ref(p, n->out[0]);
}

static void print_group(struct printer *p, const struct kn_group *g)
{
    for (int i = 0; i < g->nresults; i++) {
        fputs(i ? ", " : "  group ", p->out);
        print_ref(p, g->results[i].value);
        if (g->results[i].into) {
            fputs(" into ", p->out);
            print_ref(p, g->results[i].into);
            fprintf(p->out, " %d", g->results[i].piece);
        }
    }
    if (g->collects) {
        fputs(" collects ", p->out);
        print_ref(p, g->collects);
    } else {
        print_node_ref(p, " at ", g->root);
    }
    if (g->anchor)
        print_node_ref(p, " anchor ", g->anchor);
    if (g->updates)
        fputs(" updates", p->out);
    for (int i = 0; i < g->nnodes; i++)
        print_node_ref(p, i ? ", " : " of ", g->nodes[i]);
    if (g->kernel) {
        int nargs = 0;
        fputs(" kernel ", p->out);
        ir_print_global(p->out, g->kernel->name);
        fputc('(', p->out);
        for (int i = 0; i < g->kernel->noperands; i++)
            if (g->kernel->operands[i].use != KN_LOCAL) {
                fputs(nargs ? ", " : "", p->out);
                print_ref(p, g->args[nargs++]);
            }
        fputc(')', p->out);
        for (int i = 0; i < g->kernel->nsizes; i++) {
            fputs(i ? ", " : " sizes (", p->out);
            ir_print_expr(p->out, g->sizes[i]);
        }
        fputs(g->kernel->nsizes ? ")" : "", p->out);
    }
    fputc('\n', p->out);
}

static void print_fusion(FILE *out, const struct ir_func *f)
{
    struct printer p;
    start(&p, out, f);
    fputs("fusion ", out);
    ir_print_global(out, f->name);
    fputs(" {\n", out);
    for (int i = 0; i < f->fusion->n; i++)
        print_group(&p, &f->fusion->at[i]);
    for (int i = 0; i < f->fusion->places.n; i++) {
        const struct kn_place *q = &f->fusion->places.at[i];
        fputs("  place ", out);
        print_ref(&p, q->into);
        fprintf(out, " %d%s\n", q->piece, q->stays ? " stays" : "");
    }
    fputs("}\n", out);
    finish(&p);
}

/* == Modules == */

static void collect_attr(struct ir_syms *s, const struct ir_attr *a)
{
    if (a->kind == IR_A_EXPR)
        ir_collect_syms(s, a->e);
    for (int i = 0; a->kind == IR_A_EXPRS && i < a->n; i++)
        ir_collect_syms(s, a->exprs[i]);
    for (int i = 0; a->kind == IR_A_TYPES && i < a->n; i++)
        ir_collect_type_syms(s, a->types[i]);
}

static void collect_block(struct ir_syms *s, const struct ir_block *b)
{
    for (int i = 0; i < b->nparams; i++)
        ir_collect_type_syms(s, b->params[i]->type);
    IR_EACH_NODE(n, b) {
        for (int i = 0; i < n->nout; i++)
            ir_collect_type_syms(s, n->out[i]->type);
        for (int i = 0; i < n->nattrs; i++)
            collect_attr(s, &n->attrs[i]);
        for (int i = 0; i < n->nregions; i++)
            collect_block(s, n->regions[i]);
    }
}

static void collect_version(struct ir_syms *s, const struct ir_version *v)
{
    for (int i = 0; v && i < v->ninputs; i++)
        ir_collect_type_syms(s, v->inputs[i]);
    for (int i = 0; v && i < v->nguards; i++) {
        ir_collect_syms(s, v->guards[i].a);
        ir_collect_syms(s, v->guards[i].b);
    }
}

static void print_state(FILE *out, const struct ir_state *s)
{
    static const struct {
        int flag;
        const char *word;
    } words[] = {{IR_STATE_PARAM, " param"},       {IR_STATE_BUFFER, " buffer"}, {IR_STATE_OPTIMIZER, " optimizer"},
                 {IR_STATE_GRADIENT, " gradient"}, {IR_STATE_CACHE, " cache"},   {IR_STATE_LOCAL, " local"}};
    fputs("state ", out);
    ir_print_global(out, s->name);
    fputs(" : ", out);
    ir_print_type(out, s->type);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (s->flags & words[i].flag)
            fputs(words[i].word, out);
    }
    if (s->sym) {
        fputs(" symbol ", out);
        ir_print_expr(out, s->sym);
    }
    if (s->owner) {
        fputs(" owner ", out);
        ir_print_expr(out, s->owner);
    }
    if (s->on_host)
        fputs(" host", out);
    if (s->owner_stage)
        fprintf(out, " stage %d", s->owner_stage - 1);
    if (s->shard.parts) {
        fprintf(out, " shard %d of %d in %d ", s->shard.axis, s->shard.parts, s->shard.blocks);
        if (s->shard.padding)
            fprintf(out, "less %lld ", (long long)s->shard.padding);
        ir_print_bytes(out, s->shard.group, strlen(s->shard.group));
    }
    if (s->init) {
        fputs(" = ", out);
        ir_print_tensor(out, s->init);
    }
    fputc('\n', out);
}

static void print_default(FILE *out, const struct ir_default *d)
{
    fputs("default ", out);
    ir_print_string(out, d->input);
    if (d->value) {
        fputs(" = ", out);
        ir_print_tensor(out, d->value);
    }
    fputc('\n', out);
}

static void print_labels(FILE *out, const struct ir_labels *l)
{
    fputs("labels ", out);
    ir_print_string(out, l->output);
    for (int i = 0; i < l->n; i++) {
        fputs(i ? ", " : " = ", out);
        ir_print_string(out, l->at[i]);
    }
    fputc('\n', out);
}

static void print_meta(FILE *out, const struct ir_meta *x)
{
    fputs("meta ", out);
    ir_print_string(out, x->key);
    fputs(" = ", out);
    ir_print_string(out, x->value);
    fputc('\n', out);
}

void ir_print_module(FILE *out, const struct ir_module *m)
{
    struct ir_syms s = {.ctx = m->ctx, .seen.arena = ir_arena_new(m->ctx)};
    if (m->name && !m->text) {
        fputs("module ", out);
        ir_print_string(out, m->name);
        fputc('\n', out);
    }
    for (const struct ir_state *v = m->states; v; v = v->next)
        for (int i = 0; i < 2; i++)
            if (i ? v->owner : v->sym)
                ir_collect_syms(&s, i ? v->owner : v->sym);
    for (const struct ir_func *f = m->funcs; f; f = f->next) {
        collect_version(&s, f->version);
        for (int g = 0; f->fusion && g < f->fusion->n; g++)
            for (int i = 0; f->fusion->at[g].kernel && i < f->fusion->at[g].kernel->nsizes; i++)
                ir_collect_syms(&s, f->fusion->at[g].sizes[i]);
        for (int i = 0; i < f->nadvances; i++)
            ir_collect_syms(&s, f->advances[i].to);
        collect_block(&s, f->body);
    }
    if (m->program)
        kn_collect_syms(&s, m->program);
    for (const struct kn_staged *p = m->staged; p; p = p->next)
        kn_collect_staged_syms(&s, p);
    ir_print_syms(out, &s);
    for (const struct ir_state *v = m->states; v; v = v->next)
        print_state(out, v);
    for (int i = 0; i < m->ndefaults; i++)
        print_default(out, &m->defaults[i]);
    for (int i = 0; i < m->nlabels; i++)
        print_labels(out, &m->labels[i]);
    for (int i = 0; i < m->nmetas; i++)
        print_meta(out, &m->metas[i]);
    for (const struct ir_func *f = m->funcs; f; f = f->next)
        ir_print_func(out, f);
    if (m->program)
        kn_print_program(out, m->program, true, true);
    for (const struct ir_func *f = m->funcs; f; f = f->next)
        if (f->fusion)
            print_fusion(out, f);
    for (const struct kn_staged *p = m->staged; p; p = p->next)
        kn_print_staged(out, m, p);
}
