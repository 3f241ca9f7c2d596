/* SPDX-License-Identifier: Apache-2.0 */
/*
 * state.c - versions of state variables: their types, who accesses them, making and checking them.
 *
 * A version is a value whose type names the variable, and whose content is what the variable holds. `state_version` is
 * the one that a call begins with; a `state_write` overwrites a version and gives the next one; a `state_read` gives a
 * version's content, wherever it stands. Ifs and loops hand versions on as any other value: as results, carried values
 * and yields. What holds beyond SSA is that a variable is one memory: a write overwrites the newest version on each way
 * there, and a region that makes a version hands it on. So the versions of a variable are a chain on each way through a
 * function, and the last one is what the call leaves.
 *
 * Who builds nodes need not know the newest version: a `state_version` may stand behind writes and then means the
 * version at its place, until ir_state_versions() puts the right one in (SSA construction for structured control flow:
 * one walk with the newest version of each variable, which regions hand over to the node around them). ir_return()
 * calls it; who adds accesses later calls it.
 */

#include "ir/ir_int.h"

ir_type ir_version_type(struct ir_ctx *ctx, struct ir_state *s)
{
    if (!s->version) {
        struct ir_type_node *t = IR_NEW(ctx, struct ir_type_node);
        *t =
            (struct ir_type_node){.kind = IR_T_VERSION, .dtype = TCC_NONE, .rank = -1, .id = ctx->ntypes++, .state = s};
        s->version = t;
    }
    return s->version;
}

bool ir_is_version(ir_type t)
{
    return t && t->kind == IR_T_VERSION;
}

struct ir_state *ir_state_of(const struct ir_node *n)
{
    ir_type t = n->op == IR_state_read                                 ? n->in[0].value->type
                : n->op == IR_state_write || n->op == IR_state_version ? n->out[0]->type
                                                                       : NULL;
    return ir_is_version(t) ? t->state : NULL;
}

static struct ir_state *state_of_value(const struct ir_value *v)
{
    return v && ir_is_version(v->type) ? v->type->state : NULL;
}

/* == The newest versions at a place == */

struct change {
    int state;
    struct ir_value *before;
};

struct walk {
    struct ir_ctx *ctx;
    struct ir_value **now; /* by a variable's index: its newest version here; NULL: the one that the call begins with */
    int *slot;             /* by a variable's index: 0, but while lists are compared */
    VEC(struct change) changes;
    /* Construction only. */
    struct ir_func *func;
    struct ir_value **first; /* by a variable's index: the version that the call begins with; NULL: nobody has asked */
    struct ir_node *last_first;
    /* The check only. */
    const struct ir_state **of; /* by index: the module's variables */
    int nstates;
    const struct ir_node *node; /* that is wrong */
    const char *problem;
};

static struct walk new_walk(const struct ir_module *m, struct ir_arena *arena)
{
    int n = 1;
    for (const struct ir_state *s = m->states; s; s = s->next)
        n = s->index >= n ? s->index + 1 : n;
    return (struct walk){.ctx = m->ctx,
                         .now = ir_arena_alloc(arena, (size_t)n * sizeof(struct ir_value *)),
                         .nstates = n,
                         .of = ir_arena_alloc(arena, (size_t)n * sizeof(struct ir_state *)),
                         .slot = ir_arena_alloc(arena, (size_t)n * sizeof(int)),
                         .first = ir_arena_alloc(arena, (size_t)n * sizeof(struct ir_value *))};
}

static void set_now(struct walk *w, const struct ir_state *s, struct ir_value *v)
{
    VEC_PUSH(w->ctx, w->changes, (struct change){s->index, w->now[s->index]});
    w->now[s->index] = v;
}

static void undo(struct walk *w, int mark)
{
    for (; w->changes.n > mark; w->changes.n--)
        w->now[w->changes.at[w->changes.n - 1].state] = w->changes.at[w->changes.n - 1].before;
}

/* Newest versions at the end of a region, where they are others than at its beginning. */
struct ends {
    VEC(struct ir_value *) at;
};

static struct ends ends_since(struct walk *w, int mark)
{
    struct ends e = {0};
    for (int i = mark; i < w->changes.n; i++) {
        int s = w->changes.at[i].state;
        if (!w->slot[s]++)
            VEC_PUSH(w->ctx, e.at, w->now[s]);
    }
    for (int i = mark; i < w->changes.n; i++)
        w->slot[w->changes.at[i].state] = 0;
    return e;
}

/* == Construction == */

/* Versions that a call begins with stand in front of all else in the function, in the order in which they are met. */
static struct ir_node *behind_first(const struct walk *w)
{
    return w->last_first ? w->last_first->next : w->func->body->first;
}

static struct ir_value *first_version(struct walk *w, struct ir_state *s)
{
    if (!w->first[s->index]) {
        struct ir_builder b = {.ctx = w->ctx, .func = w->func, .block = w->func->body, .before = behind_first(w)};
        w->first[s->index] = ir_state_version(&b, s);
        w->last_first = w->first[s->index]->def;
    }
    return w->first[s->index];
}

static struct ir_value *newest(struct walk *w, struct ir_state *s)
{
    return w->now[s->index] ? w->now[s->index] : first_version(w, s);
}

static void place_version(struct walk *w, struct ir_node *n)
{
    struct ir_state *s = ir_state_of(n);
    struct ir_value *v = w->now[s->index] ? w->now[s->index] : w->first[s->index];
    if (!v) {
        ir_move_before(n, behind_first(w));
        w->first[s->index] = n->out[0];
        w->last_first = n;
    } else if (v != n->out[0]) {
        ir_replace_uses(n->out[0], v);
        ir_remove(n);
    }
}

static bool hands_on(const struct ir_node *n, const struct ir_state *s)
{
    for (int i = 0; i < n->nout; i++)
        if (state_of_value(n->out[i]) == s)
            return true;
    return false;
}

static void take_results(struct walk *w, struct ir_node *n)
{
    for (int i = 0; i < n->nout; i++)
        if (state_of_value(n->out[i]))
            set_now(w, state_of_value(n->out[i]), n->out[i]);
}

static void construct_block(struct walk *w, struct ir_block *b);

/* Region r of n yields, as its results from operand `first` on, the newest versions that it has made. */
static void yield_newest(struct walk *w, struct ir_node *n, int r, int first)
{
    struct ir_node *yield = n->regions[r]->last;
    for (int i = 0; i < n->nout && first + i < yield->nin; i++) {
        struct ir_state *s = state_of_value(n->out[i]);
        if (s && w->now[s->index])
            ir_set_operand(yield, first + i, w->now[s->index]);
    }
}

static void add_if_result(struct walk *w, struct ir_node *n, struct ir_state *s, struct ir_value *yes,
                          struct ir_value *no)
{
    if (hands_on(n, s))
        return;
    ir_add_operand(n->regions[0]->last, yes ? yes : newest(w, s));
    ir_add_operand(n->regions[1]->last, no ? no : newest(w, s));
    ir_insert_output(n, n->nout, ir_version_type(w->ctx, s));
}

static void construct_if(struct walk *w, struct ir_node *n)
{
    struct ends e[2];
    int mark = w->changes.n;
    for (int r = 0; r < 2; r++) {
        construct_block(w, n->regions[r]);
        yield_newest(w, n, r, 0);
        e[r] = ends_since(w, mark);
        undo(w, mark);
    }
    for (int i = 0; i < e[1].at.n; i++)
        w->slot[state_of_value(e[1].at.at[i])->index] = i + 1;
    for (int i = 0; i < e[0].at.n; i++) {
        struct ir_state *s = state_of_value(e[0].at.at[i]);
        int other = w->slot[s->index];
        add_if_result(w, n, s, e[0].at.at[i], other ? e[1].at.at[other - 1] : NULL);
    }
    for (int i = 0; i < e[1].at.n; i++) {
        struct ir_state *s = state_of_value(e[1].at.at[i]);
        w->slot[s->index] = 0;
        add_if_result(w, n, s, NULL, e[1].at.at[i]); /* unless region 0 had one too */
    }
    take_results(w, n);
}

/* Variables that a block writes are carried by the loop n, whose body it is, or is a part of. */
static void carry_written(struct walk *w, struct ir_node *n, const struct ir_block *b)
{
    IR_EACH_NODE(inner, b) {
        struct ir_state *s = inner->op == IR_state_write ? ir_state_of(inner) : NULL;
        for (int r = 0; r < inner->nregions; r++)
            carry_written(w, n, inner->regions[r]);
        if (!s || hands_on(n, s))
            continue;
        int ncarried = n->nin - 2;
        ir_add_operand(n, newest(w, s));
        ir_insert_operand(
            n->regions[0]->last, 1 + ncarried,
            ir_param_new(n->regions[0], ir_version_type(w->ctx, s), NULL)); /* until the body has been walked */
        ir_insert_output(n, ncarried, ir_version_type(w->ctx, s));
    }
}

static void construct_loop(struct walk *w, struct ir_node *n)
{
    int mark = w->changes.n;
    struct ir_block *body = n->regions[0];
    carry_written(w, n, body);
    for (int i = 2; i < body->nparams; i++)
        if (state_of_value(body->params[i]))
            set_now(w, state_of_value(body->params[i]), body->params[i]);
    construct_block(w, body);
    yield_newest(w, n, 0, 1);
    undo(w, mark);
    take_results(w, n);
}

static void construct_block(struct walk *w, struct ir_block *b)
{
    for (struct ir_node *n = b->first, *next; n; n = next) {
        next = n->next;
        if (n->op == IR_state_version)
            place_version(w, n);
        else if (n->op == IR_if)
            construct_if(w, n);
        else if (n->op == IR_loop)
            construct_loop(w, n);
        else if (n->op == IR_state_write)
            take_results(w, n);
    }
}

/* Text may lack what the verifier is going to ask for. */
static bool regions_yield(const struct ir_block *b)
{
    IR_EACH_NODE(n, b) {
        if ((n->op == IR_if && n->nregions != 2) ||
            (n->op == IR_loop && (n->nregions != 1 || n->nin < 2 || n->nout < n->nin - 2)))
            return false;
        for (int r = 0; r < n->nregions; r++) {
            const struct ir_node *last = n->regions[r]->last;
            if (!last || last->op != IR_yield || !regions_yield(n->regions[r]))
                return false;
        }
    }
    return true;
}

void ir_state_versions(struct ir_func *f)
{
    if (!f->module->states || !regions_yield(f->body))
        return;
    struct ir_arena *arena = ir_arena_new(f->module->ctx);
    struct walk w = new_walk(f->module, arena);
    w.func = f;
    construct_block(&w, f->body);
    ir_arena_free(arena);
}

/* == The check == */

static bool wrong(struct walk *w, const struct ir_node *n, const char *format, const struct ir_state *s)
{
    if (!w->problem) {
        w->node = n;
        w->problem = ir_internf(w->ctx, format, s ? s->name : "");
    }
    return false;
}

/* Is it the variable's newest version here? */
static bool is_newest(const struct walk *w, const struct ir_value *v)
{
    const struct ir_value *now = w->now[state_of_value(v)->index];
    return now ? v == now : v->def && v->def->op == IR_state_version;
}

/* Regions hand on versions; no other node takes one. */
static bool may_take(const struct ir_node *n, int i)
{
    switch ((int)n->op) {
    case IR_state_read: return i == 0;
    case IR_state_write: return i == 1;
    case IR_loop: return i >= 2;
    case IR_yield: return n->block->parent->op == IR_if || (i >= 1 && i < n->block->parent->nin - 1);
    default: return false;
    }
}

static bool check_block(struct walk *w, const struct ir_block *b);

/* Region r's yields, from operand `first` on: the newest version of each variable that the region makes one of. */
static bool check_region(struct walk *w, const struct ir_node *n, int r, int first)
{
    const struct ir_node *yield = n->regions[r]->last;
    int mark = w->changes.n;
    for (int i = 2; n->op == IR_loop && i < n->regions[r]->nparams; i++)
        if (state_of_value(n->regions[r]->params[i]))
            set_now(w, state_of_value(n->regions[r]->params[i]), n->regions[r]->params[i]);
    if (!check_block(w, n->regions[r]))
        return false;
    for (int i = first; i < yield->nin; i++)
        if (state_of_value(yield->in[i].value) && !is_newest(w, yield->in[i].value))
            return wrong(w, n, "a region yields another version of '%s' than the newest",
                         state_of_value(yield->in[i].value));
    for (int i = mark; i < w->changes.n; i++) {
        const struct ir_value *v = w->now[w->changes.at[i].state];
        if (v && !hands_on(n, state_of_value(v)))
            return wrong(w, n, "a region makes a version of '%s' that the node does not hand on", state_of_value(v));
    }
    undo(w, mark);
    return true;
}

static bool check_node(struct walk *w, const struct ir_node *n)
{
    for (int i = 0; i < n->nin; i++) {
        const struct ir_state *s = state_of_value(n->in[i].value);
        if (s && !may_take(n, i))
            return wrong(w, n, "takes a version of '%s' as an operand", s);
        if (s && n->op != IR_state_read && n->op != IR_yield && !is_newest(w, n->in[i].value))
            return wrong(w, n, "overwrites another version of '%s' than the newest", s);
    }
    if (n->op == IR_state_version && w->now[ir_state_of(n)->index])
        return wrong(w, n, "'%s' has a newer version here than the one that the call begins with", ir_state_of(n));
    for (int r = 0; r < n->nregions; r++)
        if (!check_region(w, n, r, n->op == IR_loop))
            return false;
    for (int i = 0; i < n->nout; i++) {
        struct ir_state *s = state_of_value(n->out[i]);
        if (s && (s->index >= w->nstates || w->of[s->index] != s))
            return wrong(w, n, "'%s' is no state variable of the module", s);
        for (int k = 0; k < i && s; k++)
            if (state_of_value(n->out[k]) == s)
                return wrong(w, n, "two results are versions of '%s'", s);
        if (s && n->op != IR_state_version)
            set_now(w, s, n->out[i]);
    }
    return true;
}

static bool check_block(struct walk *w, const struct ir_block *b)
{
    IR_EACH_NODE(n, b)
        if (!check_node(w, n))
            return false;
    return true;
}

const char *ir_state_error(const struct ir_func *f, const struct ir_node **node)
{
    *node = NULL;
    if (!f->module->states)
        return NULL;
    struct ir_arena *arena = ir_arena_new(f->module->ctx);
    struct walk w = new_walk(f->module, arena);
    for (const struct ir_state *s = f->module->states; s; s = s->next)
        w.of[s->index] = s;
    for (int i = 0; i < f->body->nparams; i++)
        if (state_of_value(f->body->params[i]))
            wrong(&w, NULL, "an input is a version of '%s'", state_of_value(f->body->params[i]));
    check_block(&w, f->body);
    *node = w.node;
    ir_arena_free(arena);
    return w.problem;
}
