/* SPDX-License-Identifier: Apache-2.0 */
/*
 * parse_plan.c - text of programs: kernels, levels of symbols, buffers, entry points (doc/ir.md). The data of weights
 * is not part of it (buffers show its digest only). What is read passes kn_verify_program.
 */
#include <string.h>

#include "ir/text/kernel_words_int.h"
#include "ir/text/parse_int.h"

bool parse_numbers(struct parser *p, int **out, int *n)
{
    VEC(int) v = {0};
    if (!lex_expect(p, '('))
        return false;
    while (!lex_is(p, ')')) {
        int64_t i;
        if ((v.n && !lex_expect(p, ',')) || !lex_small(p, -1, INT32_MAX, &i))
            return false;
        VEC_PUSH(p->ctx, v, (int)i);
    }
    lex_next(p);
    VEC_GIVE(v, *out, *n);
    return true;
}

/* (N, _, M): expressions, _ for NULL */
static bool parse_optional_exprs(struct parser *p, ir_expr **out, int *n)
{
    VEC(ir_expr) v = {0};
    if (!lex_expect(p, '('))
        return false;
    while (!lex_is(p, ')')) {
        ir_expr e = NULL;
        if ((v.n && !lex_expect(p, ',')) || (!lex_take_word(p, "_") && !parse_expr(p, &e)))
            return false;
        VEC_PUSH(p->ctx, v, e);
    }
    lex_next(p);
    VEC_GIVE(v, *out, *n);
    return true;
}

bool parse_number(struct parser *p, int64_t lo, int *out)
{
    int64_t v;
    if (!lex_small(p, lo, INT32_MAX, &v))
        return false;
    *out = (int)v;
    return true;
}

/* == Buffers == */

bool parse_layout(struct parser *p, ir_type type, const struct kn_layout **out)
{
    struct kn_axis axes[TCC_MAX_RANK];
    struct token at = p->tok;
    int n = 0;
    if (!type || type->kind != IR_T_TENSOR || type->rank < 1)
        return parse_error(p, &at, "a layout needs a ranked tensor");
    while (lex_take(p, '(')) {
        int64_t axis, div, mod;
        if (n == TCC_MAX_RANK)
            return parse_error(p, &at, "more than %d physical axes", TCC_MAX_RANK);
        if (!lex_small(p, 0, type->rank - 1, &axis) || !lex_expect(p, ',') || !lex_small(p, 1, INT32_MAX, &div) ||
            !lex_expect(p, ',') || !lex_small(p, 0, INT32_MAX, &mod) || !lex_expect(p, ')'))
            return false;
        axes[n++] = (struct kn_axis){(int16_t)axis, (int32_t)div, (int32_t)mod};
    }
    *out = kn_layout_make(p->ctx, type->rank, n, axes);
    return true;
}

static bool parse_buffer_item(struct parser *p, struct kn_buffer *b, bool *done)
{
    if (lex_take_word(p, "layout"))
        return parse_layout(p, b->type, &b->layout);
    if (lex_take_word(p, "index"))
        return parse_number(p, 0, &b->index);
    if (lex_take_word(p, "memory"))
        return parse_number(p, 0, &b->memory);
    if (lex_take_word(p, "bytes"))
        return parse_expr(p, &b->bytes);
    if (lex_take_word(p, "offset"))
        return parse_expr(p, &b->offset);
    if (lex_take_word(p, "steps"))
        return parse_number(p, 0, &b->first_step) && lex_expect(p, P_DOTS) && parse_number(p, 0, &b->last_step);
    if (lex_take_word(p, "digest"))
        return lex_uint(p, &b->digest);
    if (lex_take_word(p, "name"))
        return lex_string(p, &b->name);
    *done = true;
    return true;
}

bool parse_buffer(struct parser *p, struct kn_buffer *b, int number)
{
    struct token at = p->tok;
    const char *space;
    int64_t n;
    if (!lex_small(p, 0, INT32_MAX, &n))
        return false;
    if (n != number)
        return parse_error(p, &at, "expected buffer %d", number);
    at = p->tok;
    if (!lex_ident(p, &space))
        return false;
    int s = kn_word(kn_space_words, space);
    if (s < 0)
        return parse_error(p, &at, "unknown space '%s'", space);
    b->space = (enum tcc_space)s;
    if (!lex_take_word(p, "none") && !parse_dtype(p, &b->dtype))
        return false;
    if (!lex_take(p, '?') && !parse_type(p, &b->type))
        return false;
    for (bool done = false; !done;) {
        if (!parse_buffer_item(p, b, &done))
            return false;
    }
    return true;
}

/* == Steps == */

static bool parse_steps(struct parser *p, struct kn_steps *steps);

static bool parse_attrs(struct parser *p, struct kn_step *s)
{
    VEC(struct ir_attr) v = {0};
    while (!lex_is(p, '}')) {
        struct ir_attr a;
        if ((v.n && !lex_expect(p, ',')) || !parse_attr(p, IR_lib, &a))
            return false;
        VEC_PUSH(p->ctx, v, a);
    }
    lex_next(p);
    VEC_GIVE(v, s->attrs, s->nattrs);
    return true;
}

static bool parse_region(struct parser *p, struct kn_step *s)
{
    struct kn_region *more = IR_LONGER(p->ctx, s->regions, s->nregions);
    struct kn_region *g = &more[s->nregions];
    struct token at = p->tok;
    int nexits;
    s->regions = more;
    s->nregions++;
    if (!parse_numbers(p, &g->params, &g->nparams) || !parse_numbers(p, &g->results, &g->nresults) ||
        !parse_numbers(p, &g->exits, &nexits))
        return false;
    if (nexits == 0)
        g->exits = NULL;
    else if (nexits != g->nresults - (s->kind == TCC_STEP_LOOP))
        return parse_error(p, &at, "%d results and %d final buffers", g->nresults, nexits);
    return parse_steps(p, &g->steps);
}

static bool parse_versions(struct parser *p, struct kn_step *s)
{
    struct token at = p->tok;
    int n, *numbers;
    if (!parse_numbers(p, &numbers, &n))
        return false;
    if (n % 3)
        return parse_error(p, &at, "expected a buffer, the version read and the version made for each variable");
    s->nversions = n / 3;
    s->versions = IR_NEWN(p->ctx, s->nversions + 1, struct kn_version);
    for (int i = 0; i < s->nversions; i++)
        s->versions[i] = (struct kn_version){numbers[3 * i], numbers[3 * i + 1], numbers[3 * i + 2]};
    return true;
}

static bool parse_step_item(struct parser *p, struct kn_step *s, bool *done)
{
    if (lex_take_word(p, "nin"))
        return parse_number(p, 0, &s->nin);
    if (lex_take_word(p, "micro"))
        return parse_number(p, 0, &s->micro);
    if (lex_take_word(p, "peer"))
        return parse_number(p, 0, &s->peer);
    if (lex_take_word(p, "what"))
        return parse_number(p, -1, &s->what);
    if (lex_take_word(p, "queue"))
        return parse_number(p, 0, &s->queue);
    if (lex_take_word(p, "event"))
        return parse_number(p, 1, &s->event);
    if (lex_take_word(p, "sizes"))
        return parse_optional_exprs(p, &s->sizes, &s->nsizes);
    if (lex_take_word(p, "syms"))
        return parse_optional_exprs(p, &s->syms, &s->nsyms);
    if (lex_take_word(p, "waits"))
        return parse_numbers(p, &s->waits, &s->nwaits);
    if (lex_take_word(p, "versions"))
        return parse_versions(p, s);
    if (lex_take_word(p, "tiles"))
        return parse_expr(p, &s->tiles);
    if (lex_take_word(p, "combining"))
        return parse_expr(p, &s->combining);
    if (lex_take_word(p, "scratch"))
        return parse_expr(p, &s->scratch);
    if (lex_take_word(p, "node"))
        return lex_string(p, &s->node);
    if (lex_take_word(p, "of"))
        return lex_string(p, &s->op);
    if (lex_take(p, '{'))
        return parse_attrs(p, s);
    if (lex_take_word(p, "do"))
        return parse_region(p, s);
    *done = true;
    return true;
}

bool parse_step(struct parser *p, const char *word, const struct token *word_at, struct kn_step *s)
{
    const char *name;
    int kind = kn_word(kn_step_words, word);
    if (kind < 0)
        return parse_error(p, word_at, "unknown step '%s'", word);
    s->kind = (enum tcc_step_kind)kind;
    struct token at = p->tok;
    if (p->tok.kind == T_GLOBAL || lex_is(p, '@')) {
        if (!lex_global(p, &name))
            return false;
        s->kernel = parse_kernel_named(p, name);
        if (!s->kernel)
            return parse_error(p, &at, "unknown kernel @%s", name);
    }
    if (p->tok.kind == T_STRING && !lex_string(p, &s->lib))
        return false;
    if (!parse_numbers(p, &s->args, &s->nargs))
        return false;
    for (bool done = false; !done;) {
        if (!parse_step_item(p, s, &done))
            return false;
    }
    return s->nin <= s->nargs || parse_error(p, &at, "%d inputs among %d buffers", s->nin, s->nargs);
}

static bool parse_steps(struct parser *p, struct kn_steps *steps)
{
    VEC(struct kn_step) v = {0};
    if (!parse_enter(p) || !lex_expect(p, '{'))
        return false;
    while (!lex_is(p, '}')) {
        struct kn_step s = {0};
        struct token at = p->tok;
        const char *word;
        if (!lex_ident(p, &word) || !parse_step(p, word, &at, &s))
            return false;
        VEC_PUSH(p->ctx, v, s);
    }
    lex_next(p);
    p->depth--;
    *steps = (struct kn_steps){v.at, v.n, v.cap};
    return true;
}

static bool parse_entry(struct parser *p, struct kn_entry *e, int memories)
{
    struct token at = p->tok;
    if (!lex_string(p, &e->name) || !parse_numbers(p, &e->input_buffers, &e->ninputs) || !lex_expect(p, P_ARROW) ||
        !parse_numbers(p, &e->output_buffers, &e->noutputs))
        return false;
    if (lex_take_word(p, "arena") && !parse_expr(p, &e->arena))
        return false;
    int narenas = 0;
    if (lex_take_word(p, "arenas") && !parse_optional_exprs(p, &e->arenas, &narenas))
        return false;
    if (e->arenas && narenas != memories - 1)
        return parse_error(p, &at, "%d arenas besides the host's, %d memories", narenas, memories);
    if (lex_take_word(p, "peak") && !parse_expr(p, &e->peak_live))
        return false;
    e->func = ir_func_by_name(p->module, e->name);
    return parse_steps(p, &e->steps);
}

/* == Programs == */

struct program {
    VEC(struct kn_kernel *) kernels;
    VEC(struct kn_buffer) buffers;
    VEC(struct kn_entry) entries;
    VEC(struct kn_memory) memories;
    VEC(struct kn_queue) queues;
    VEC(ir_expr) syms;
    VEC(int) levels;
};

static bool parse_level(struct parser *p, struct program *g)
{
    ir_expr sym;
    int level;
    struct token at = p->tok;
    if (!parse_expr(p, &sym) || !lex_expect(p, '=') || !parse_number(p, 0, &level))
        return false;
    if (sym->kind != IR_X_SYM)
        return parse_error(p, &at, "expected a symbol");
    VEC_PUSH(p->ctx, g->syms, sym);
    VEC_PUSH(p->ctx, g->levels, level);
    return true;
}

/* memory 1 "device" */
static bool parse_memory(struct parser *p, struct program *g)
{
    struct token at = p->tok;
    struct kn_memory m = {0};
    int number;
    if (!parse_number(p, 0, &number) || !lex_string(p, &m.name))
        return false;
    if (number != g->memories.n)
        return parse_error(p, &at, "expected memory %d", g->memories.n);
    m.shared = lex_take_word(p, "shared");
    m.pinned = lex_take_word(p, "pinned");
    VEC_PUSH(p->ctx, g->memories, m);
    return true;
}

/* queue 1 compute memory 1 */
static bool parse_queue(struct parser *p, struct program *g)
{
    struct token at = p->tok;
    struct kn_queue q = {0};
    const char *word;
    int number;
    if (!parse_number(p, 0, &number))
        return false;
    if (number != g->queues.n)
        return parse_error(p, &at, "expected queue %d", g->queues.n);
    at = p->tok;
    if (!lex_ident(p, &word))
        return false;
    int kind = kn_word(kn_queue_words, word);
    if (kind < 0)
        return parse_error(p, &at, "unknown kind of queue '%s'", word);
    if (!lex_take_word(p, "memory"))
        return parse_error(p, &p->tok, "expected memory");
    q.kind = (enum tcc_queue_kind)kind;
    if (!parse_number(p, 0, &q.memory))
        return false;
    VEC_PUSH(p->ctx, g->queues, q);
    return true;
}

static bool parse_part(struct parser *p, struct program *g, struct kn_program *out)
{
    if (lex_take_word(p, "kernel")) {
        struct kn_kernel *k;
        struct token at = p->tok;
        if (!parse_kernel(p, &k))
            return false;
        for (int i = 0; i < g->kernels.n; i++) {
            if (g->kernels.at[i]->name == k->name)
                return parse_error(p, &at, "kernel @%s is defined twice", k->name);
        }
        k->id = g->kernels.n;
        VEC_PUSH(p->ctx, g->kernels, k);
        VEC_GIVE(g->kernels, out->kernels, out->nkernels);
        return true;
    }
    if (lex_take_word(p, "buffer")) {
        struct kn_buffer b = {0};
        if (!parse_buffer(p, &b, g->buffers.n))
            return false;
        VEC_PUSH(p->ctx, g->buffers, b);
        return true;
    }
    if (lex_take_word(p, "level"))
        return parse_level(p, g);
    if (lex_take_word(p, "memory"))
        return parse_memory(p, g);
    if (lex_take_word(p, "queue"))
        return parse_queue(p, g);
    struct kn_entry e = {0};
    lex_next(p);
    if (!parse_entry(p, &e, g->memories.n))
        return false;
    VEC_PUSH(p->ctx, g->entries, e);
    return true;
}

/* == Weights == */

struct constants {
    struct parser *p;
    struct kn_program *g;
    int missing;
};

/* The weights of that content, whose data is not known yet, are this. */
static void is_weight(struct constants *c, const struct ir_tensor *t)
{
    uint64_t digest = 0;
    for (int b = 0; t && c->missing && b < c->g->nbuffers; b++) {
        struct kn_buffer *w = &c->g->buffers[b];
        if (w->space != TCC_SPACE_WEIGHT || w->weight || !w->digest || !w->type ||
            ir_tensor_type_i(c->p->ctx, (enum tcc_dtype)t->dtype, t->rank, t->dims) != w->type)
            continue;
        digest = digest ? digest : ir_tensor_digest(t);
        if (digest != w->digest)
            continue;
        w->weight = t;
        c->missing--;
    }
}

static void find_in_block(struct constants *c, const struct ir_block *block)
{
    IR_EACH_NODE(n, block) {
        if (n->op == IR_constant)
            is_weight(c, ir_const_of(n->out[0]));
        for (int i = 0; i < n->nregions; i++)
            find_in_block(c, n->regions[i]);
    }
}

/* The data of weights is that of the module's constants and state variables with the same content; a plan by itself has
 * none. */
static void find_weights(struct parser *p, struct kn_program *g)
{
    struct constants c = {.p = p, .g = g};
    for (int b = 0; b < g->nbuffers; b++)
        c.missing += g->buffers[b].space == TCC_SPACE_WEIGHT && g->buffers[b].digest;
    for (const struct ir_func *f = p->module->funcs; f && c.missing; f = f->next)
        find_in_block(&c, f->body);
    for (const struct ir_state *s = p->module->states; s && c.missing; s = s->next)
        is_weight(&c, s->init);
}

struct kn_kernel *parse_kernel_named(const struct parser *p, const char *name)
{
    const struct kn_program *g = p->module->program;
    for (int i = 0; g && i < g->nkernels; i++)
        if (g->kernels[i]->name == name)
            return g->kernels[i];
    return NULL;
}

bool parse_program(struct parser *p)
{
    struct program g = {0};
    struct kn_program *out = p->module->program = IR_NEW(p->ctx, struct kn_program);
    out->module = p->module;
    bool ok = true;
    while (ok && (lex_is_word(p, "kernel") || lex_is_word(p, "buffer") || lex_is_word(p, "level") ||
                  lex_is_word(p, "memory") || lex_is_word(p, "queue") || lex_is_word(p, "entry")))
        ok = parse_part(p, &g, out);
    VEC_GIVE(g.buffers, out->buffers, out->nbuffers);
    VEC_GIVE(g.memories, out->memories, out->nmemories);
    VEC_GIVE(g.queues, out->queues, out->nqueues);
    VEC_GIVE(g.entries, out->entries, out->nentries);
    VEC_GIVE(g.syms, out->syms, out->nsyms);
    out->sym_level = g.levels.at;
    if (ok)
        find_weights(p, out);
    return ok && kn_verify_program(out);
}
