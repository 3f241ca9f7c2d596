/* SPDX-License-Identifier: Apache-2.0 */
/* plan.c - writes the plan's in-memory form (ir/kernel.h) as the block of bytes that the runtime walks (runtime/abi.h). */
#include "compiler/artifact_int.h"
#include "compiler/budget_int.h"

#include <string.h>
#include <xxhash.h>

struct writer {
    struct ir_ctx *ctx;
    const struct kn_program *p;
    VEC(char) strings;
    uint32_t *slots; /* where each string is, + 1, by its hash; 0: a free slot */
    uint32_t nslots; /* a power of two */
    uint32_t nstrings;
    VEC(uint8_t) bytes;
    VEC(uint32_t) u32s;
    VEC(struct tcc_pexpr) exprs;
    VEC(uint32_t) by_id; /* expression id -> number + 1 */
    VEC(struct tcc_psym) syms;
    VEC(struct tcc_pbuffer) buffers;
    VEC(struct tcc_psignature) signatures;
    VEC(struct tcc_pstep) steps;
    VEC(struct tcc_pregion) regions;
    VEC(struct tcc_pattr) attrs;
    VEC(struct tcc_pkernel) kernels;
    VEC(struct tcc_pentry) entries;
    VEC(struct tcc_pstate) states;
    VEC(struct tcc_ppipe) pipes;
    VEC(struct tcc_pvalue) pvalues;
    VEC(struct tcc_pcall) pcalls;
    VEC(struct tcc_poutput) poutputs;
    VEC(struct tcc_ptask) ptasks;
    VEC(struct tcc_pcase) cases;
    VEC(struct tcc_pguard) guards;
    VEC(struct tcc_pmemory) memories;
    VEC(struct tcc_pqueue) queues;
    VEC(struct tcc_pgroup) groups;
    VEC(const char *) libs;
    VEC(uint32_t) event_step; /* by event of the entry point: its step */
    ir_expr unknown;          /* a dim that depends on the shape version; NULL: none is */
    uint32_t levels;
};

struct control {
    bool *has; /* by expression: is it in the list? */
    VEC(int) list;
};

/* -- Strings and lists ------------------------------------------------------------------------------- */

/* The slot of a string, or the free one where it belongs. */
static uint32_t *slot_of(const struct writer *w, const char *s)
{
    uint32_t i = (uint32_t)XXH3_64bits(s, strlen(s)) & (w->nslots - 1);
    while (w->slots[i] && strcmp(w->strings.at + w->slots[i] - 1, s) != 0)
        i = (i + 1) & (w->nslots - 1);
    return &w->slots[i];
}

static void more_slots(struct writer *w)
{
    uint32_t *old = w->slots, n = w->nslots;
    w->nslots = n ? 2 * n : 256;
    w->slots = IR_NEWN(w->ctx, w->nslots, uint32_t);
    for (uint32_t i = 0; i < n; i++)
        if (old[i])
            *slot_of(w, w->strings.at + old[i] - 1) = old[i];
}

static uint32_t string(struct writer *w, const char *s)
{
    if (!s)
        s = "";
    if (2 * w->nstrings >= w->nslots)
        more_slots(w);
    uint32_t *slot = slot_of(w, s);
    if (!*slot) {
        *slot = (uint32_t)w->strings.n + 1;
        w->nstrings++;
        for (size_t i = 0, n = strlen(s) + 1; i < n; i++)
            VEC_PUSH(w->ctx, w->strings, s[i]);
    }
    return *slot - 1;
}

static uint32_t data(struct writer *w, const void *p, size_t size)
{
    while (w->bytes.n % 16)
        VEC_PUSH(w->ctx, w->bytes, 0);
    uint32_t at = (uint32_t)w->bytes.n;
    for (size_t i = 0; i < size; i++)
        VEC_PUSH(w->ctx, w->bytes, ((const uint8_t *)p)[i]);
    return at;
}

static struct tcc_range list(struct writer *w, int n, const uint32_t *v)
{
    struct tcc_range r = {(uint32_t)w->u32s.n, (uint32_t)n};
    for (int i = 0; i < n; i++)
        VEC_PUSH(w->ctx, w->u32s, v[i]);
    return r;
}

static struct tcc_range int_list(struct writer *w, int n, const int *v)
{
    uint32_t *u = IR_NEWN(w->ctx, n + 1, uint32_t);
    for (int i = 0; i < n; i++)
        u[i] = v[i] < 0 ? TCC_NO : (uint32_t)v[i];
    return list(w, n, u);
}

/* -- Expressions ---------------------------------------------------------------------------------------- */

static int sym_number(const struct writer *w, ir_expr sym)
{
    for (int i = 0; i < w->p->nsyms; i++)
        if (w->p->syms[i] == sym)
            return i;
    return sym == w->unknown ? w->p->nsyms : -1; /* behind the others */
}

static uint32_t push_expr(struct writer *w, struct tcc_pexpr x)
{
    VEC_PUSH(w->ctx, w->exprs, x);
    return (uint32_t)w->exprs.n - 1;
}

static uint32_t expr(struct writer *w, ir_expr e)
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
        x.k = sym_number(w, e);
        x.level = x.k >= 0 && x.k < w->p->nsyms ? (uint32_t)w->p->sym_level[x.k] : 0;
        n = push_expr(w, x);
    } else {
        n = expr(w, e->arg[0]);
        for (int i = 1; i < e->nargs; i++) {
            uint32_t b = expr(w, e->arg[i]);
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

static struct tcc_range expr_list(struct writer *w, int n, const ir_expr *e)
{
    uint32_t *u = IR_NEWN(w->ctx, n + 1, uint32_t);
    for (int i = 0; i < n; i++)
        u[i] = expr(w, e[i]);
    return list(w, n, u);
}

/* A group of ranks by its name, which the table holds once. */
static uint32_t group_number(struct writer *w, const char *name)
{
    uint32_t s = string(w, name);
    int i = 0;
    while (i < w->groups.n && w->groups.at[i].name != s)
        i++;
    if (i == w->groups.n)
        VEC_PUSH(w->ctx, w->groups, (struct tcc_pgroup){s, 0});
    return (uint32_t)i;
}

/* -- Tables ------------------------------------------------------------------------------------------------ */

static void write_syms(struct writer *w)
{
    for (int i = 0; i < w->p->nsyms; i++) {
        ir_expr s = w->p->syms[i];
        VEC_PUSH(w->ctx, w->syms, (struct tcc_psym){string(w, s->name), expr(w, s), s->lo, s->hi});
    }
    if (w->unknown)
        VEC_PUSH(w->ctx, w->syms,
                 (struct tcc_psym){string(w, w->unknown->name), expr(w, w->unknown), w->unknown->lo, w->unknown->hi});
}

static void write_memories(struct writer *w)
{
    static const struct kn_memory host = {"host", true};
    static const char *const names[] = {"host", "compute", "copy in", "copy out", "communication"};
    static const struct kn_queue order = {0, TCC_QUEUE_HOST};
    const struct kn_program *p = w->p;
    for (int i = 0; i < (p->nmemories ? p->nmemories : 1); i++) {
        const struct kn_memory *m = p->nmemories ? &p->memories[i] : &host;
        VEC_PUSH(w->ctx, w->memories,
                 (struct tcc_pmemory){string(w, m->name), m->shared ? TCC_MEMORY_SHARED_WITH_HOST : 0});
    }
    for (int i = 0; i < (p->nqueues ? p->nqueues : 1); i++) {
        const struct kn_queue *q = p->nqueues ? &p->queues[i] : &order;
        VEC_PUSH(w->ctx, w->queues, (struct tcc_pqueue){string(w, names[q->kind]), (uint32_t)q->memory, q->kind, 0});
    }
}

static void write_buffers(struct writer *w)
{
    for (int i = 0; i < w->p->nbuffers; i++) {
        const struct kn_buffer *b = &w->p->buffers[i];
        struct tcc_pbuffer x = {.space = b->space,
                                .dtype = b->dtype,
                                .index = (uint32_t)b->index,
                                .name = string(w, b->name),
                                .memory = (uint32_t)b->memory,
                                .rank = TCC_NO};
        x.offset = expr(w, b->offset);
        x.bytes = expr(w, b->bytes);
        if (b->type && b->type->kind == IR_T_TENSOR && b->type->rank >= 0 && b->bytes) {
            x.rank = (uint32_t)b->type->rank;
            x.dims = expr_list(w, b->type->rank, b->type->dim);
        }
        x.first = (uint32_t)b->first_step;
        x.last = (uint32_t)b->last_step;
        VEC_PUSH(w->ctx, w->buffers, x);
    }
}

static uint32_t lib_number(struct writer *w, const char *name)
{
    for (int i = 0; i < w->libs.n; i++)
        if (!strcmp(w->libs.at[i], name))
            return (uint32_t)i;
    VEC_PUSH(w->ctx, w->libs, name);
    return (uint32_t)w->libs.n - 1;
}

static bool communicates(const struct kn_step *s)
{
    return s->kind == TCC_STEP_COLLECTIVE || s->kind == TCC_STEP_SEND || s->kind == TCC_STEP_RECV;
}

/* The attribute by which communication names its group, which becomes a number. */
static bool names_group(const struct kn_step *s, const struct ir_attr *a)
{
    return communicates(s) && a->kind == IR_A_STRING && !strcmp(a->name, "group");
}

static uint32_t group(struct writer *w, const struct kn_step *s)
{
    for (int i = 0; i < s->nattrs; i++)
        if (names_group(s, &s->attrs[i]))
            return group_number(w, s->attrs[i].s);
    return communicates(s) ? group_number(w, "world") : 0;
}

static struct tcc_range attrs(struct writer *w, const struct kn_step *s)
{
    struct tcc_range r = {(uint32_t)w->attrs.n, 0};
    for (int i = 0; i < s->nattrs; i++) {
        const struct ir_attr *a = &s->attrs[i];
        if (names_group(s, a))
            continue;
        r.count++;
        struct tcc_pattr x = {.name = string(w, a->name), .n = (uint32_t)a->n};
        if (a->kind == IR_A_INTS || a->kind == IR_A_INT) {
            x.kind = TCC_ATTR_INTS;
            x.n = a->kind == IR_A_INT ? 1 : a->n;
            x.data = data(w, a->kind == IR_A_INT ? &a->i : a->ints, 8 * (size_t)x.n);
        } else if (a->kind == IR_A_FLOATS || a->kind == IR_A_FLOAT) {
            x.kind = TCC_ATTR_FLOATS;
            x.n = a->kind == IR_A_FLOAT ? 1 : a->n;
            x.data = data(w, a->kind == IR_A_FLOAT ? &a->f : a->floats, 8 * (size_t)x.n);
        } else if (a->kind == IR_A_STRINGS || a->kind == IR_A_STRING) {
            x.kind = TCC_ATTR_STRINGS;
            x.n = a->kind == IR_A_STRING ? 1 : a->n;
            uint32_t *u = IR_NEWN(w->ctx, x.n + 1, uint32_t);
            for (uint32_t j = 0; j < x.n; j++)
                u[j] = string(w, a->kind == IR_A_STRING ? a->s : a->strings[j]);
            x.data = list(w, (int)x.n, u).first;
        } else {
            const struct ir_tensor *t = a->t;
            x.kind = TCC_ATTR_TENSOR;
            x.n = 1;
            x.dtype = t->dtype;
            x.rank = t->rank;
            uint32_t dims[TCC_MAX_RANK];
            for (int d = 0; d < t->rank; d++)
                dims[d] = (uint32_t)t->dims[d];
            x.dims = list(w, t->rank, dims);
            if (t->dtype == TCC_STRING) {
                uint32_t *u = IR_NEWN(w->ctx, t->nelems + 1, uint32_t);
                for (int64_t j = 0; j < t->nelems; j++) {
                    const struct tcc_string *text = ir_tensor_at(t, j);
                    char *copy = ir_alloc(w->ctx, (size_t)text->size + 1); /* zeroed: terminated */
                    if (text->size)
                        memcpy(copy, text->data, (size_t)text->size);
                    u[j] = string(w, copy);
                }
                x.data = list(w, (int)t->nelems, u).first;
                VEC_PUSH(w->ctx, w->attrs, x);
                continue;
            }
            size_t size = (size_t)tcc_dtype_bytes(t->dtype);
            uint8_t *elements = IR_NEWN(w->ctx, size * (size_t)t->nelems + 1, uint8_t);
            for (int64_t j = 0; j < t->nelems; j++)
                memcpy(elements + size * (size_t)j, ir_tensor_at(t, j), size);
            x.data = data(w, elements, size * (size_t)t->nelems);
        }
        VEC_PUSH(w->ctx, w->attrs, x);
    }
    return r;
}

static struct tcc_range steps(struct writer *w, const struct kn_steps *s);
static struct tcc_range control(struct writer *w, const struct kn_steps *s, bool program);

static struct tcc_range regions(struct writer *w, const struct kn_step *s)
{
    struct tcc_pregion *made = IR_NEWN(w->ctx, s->nregions + 1, struct tcc_pregion);
    for (int i = 0; i < s->nregions; i++) {
        const struct kn_region *g = &s->regions[i];
        int nexits = g->nresults - (s->kind == TCC_STEP_LOOP);
        made[i].steps = steps(w, &g->steps);
        made[i].params = int_list(w, g->nparams, g->params);
        made[i].results = int_list(w, g->nresults, g->results);
        made[i].exits = int_list(w, g->exits ? nexits : 0, g->exits);
    }
    struct tcc_range r = {(uint32_t)w->regions.n, (uint32_t)s->nregions};
    for (int i = 0; i < s->nregions; i++)
        VEC_PUSH(w->ctx, w->regions, made[i]);
    return r;
}

static struct tcc_pstep step(struct writer *w, const struct kn_step *s)
{
    struct tcc_pstep x = {
        .kind = s->kind, .queue = (uint32_t)s->queue, .what = (uint32_t)s->what, .nin = (uint32_t)s->nin};
    x.node = string(w, s->node);
    x.args = int_list(w, s->nargs, s->args);
    x.sizes = expr_list(w, s->nsizes, s->sizes);
    uint32_t *syms = IR_NEWN(w->ctx, s->nsyms + 1, uint32_t);
    for (int i = 0; i < s->nsyms; i++)
        syms[i] = s->syms[i] ? (uint32_t)sym_number(w, s->syms[i]) : TCC_NO;
    x.syms = list(w, s->nsyms, syms);
    x.attrs = attrs(w, s);
    x.regions = regions(w, s);
    x.waits = int_list(w, s->nwaits, s->waits);
    x.group = group(w, s);
    x.tiles = s->tiles ? expr(w, s->tiles) : TCC_NO;
    x.scratch = s->scratch ? expr(w, s->scratch) : TCC_NO;
    x.combining = s->combining ? expr(w, s->combining) : TCC_NO;
    x.flops = TCC_NO;
    if (s->kind == TCC_STEP_LAUNCH) { /* a kernel's own symbols stand for this step's sizes */
        x.what = (uint32_t)s->kernel->id;
        w->kernels.at[x.what].flags |= w->queues.at[x.queue].memory ? TCC_KERNEL_DEVICE : TCC_KERNEL_HOST;
        x.flops = expr(w, ir_subst(w->ctx, s->kernel->flops, s->nsizes, s->kernel->sizes, s->sizes));
    }
    if (s->kind == TCC_STEP_LIB)
        x.what = lib_number(w, s->lib);
    if (s->kind == TCC_STEP_PROGRAM)
        x.sizes = control(w, &s->regions[0].steps, true);
    return x;
}

/* A list's steps stand together; lists of nested regions stand before them. `waits` are events until the entry point is whole. */
static struct tcc_range steps(struct writer *w, const struct kn_steps *s)
{
    struct tcc_pstep *made = IR_NEWN(w->ctx, s->n + 1, struct tcc_pstep);
    for (int i = 0; i < s->n; i++)
        made[i] = step(w, &s->at[i]);
    struct tcc_range r = {(uint32_t)w->steps.n, (uint32_t)s->n};
    for (int i = 0; i < s->n; i++) {
        while (w->event_step.n <= s->at[i].event)
            VEC_PUSH(w->ctx, w->event_step, 0);
        w->event_step.at[s->at[i].event] = (uint32_t)w->steps.n;
        VEC_PUSH(w->ctx, w->steps, made[i]);
    }
    return r;
}

/* Steps of an entry point, from number `first` on, wait for steps. */
static void name_awaited(struct writer *w, int first)
{
    for (int i = first; i < w->steps.n; i++) {
        struct tcc_range r = w->steps.at[i].waits;
        for (uint32_t k = r.first; k < r.first + r.count; k++)
            w->u32s.at[k] = w->event_step.at[w->u32s.at[k]];
    }
}

static struct tcc_psignature signature(struct writer *w, const char *name, ir_type t)
{
    struct tcc_psignature x = {.name = string(w, name), .kind = TCC_OBJ_TENSOR, .rank = TCC_NO};
    if (t->kind == IR_T_OPTIONAL) {
        x.optional = 1;
        if (!t->elem)
            return x;
        t = t->elem;
    }
    if (t->kind == IR_T_SEQUENCE) {
        x.kind = TCC_OBJ_SEQUENCE;
        x.dtype = t->elem && t->elem->kind == IR_T_TENSOR ? t->elem->dtype : 0;
    } else if (t->kind == IR_T_TENSOR) {
        x.dtype = t->dtype;
        if (t->rank >= 0) {
            x.rank = (uint32_t)t->rank;
            x.dims = expr_list(w, t->rank, t->dim);
        }
    }
    return x;
}

static void mark_buffers(const struct kn_steps *s, bool *used)
{
    for (int i = 0; i < s->n; i++) {
        for (int a = 0; a < s->at[i].nargs; a++)
            if (s->at[i].args[a] >= 0)
                used[s->at[i].args[a]] = true;
        for (int r = 0; r < s->at[i].nregions; r++) {
            const struct kn_region *g = &s->at[i].regions[r];
            const int *lists[3] = {g->params, g->results, g->exits};
            int n[3] = {g->nparams, g->nresults, g->exits ? g->nresults - (s->at[i].kind == TCC_STEP_LOOP) : 0};
            for (int l = 0; l < 3; l++)
                for (int k = 0; k < n[l]; k++)
                    if (lists[l][k] >= 0)
                        used[lists[l][k]] = true;
            mark_buffers(&g->steps, used);
        }
    }
}

/* The arena buffers of an entry point whose sizes are bound at run time. */
static struct tcc_range placed(struct writer *w, const struct kn_entry *e)
{
    const struct kn_program *p = w->p;
    bool *used = IR_NEWN(w->ctx, p->nbuffers + 1, bool);
    uint32_t *buffers = IR_NEWN(w->ctx, p->nbuffers + 1, uint32_t);
    int n = 0;
    mark_buffers(&e->steps, used);
    for (int b = p->nbuffers - 1; b >= 0; b--)
        if (used[b] && p->buffers[b].space == TCC_SPACE_ALIAS)
            used[p->buffers[b].index] = true;
    for (int b = 0; b < p->nbuffers; b++)
        if (used[b] && p->buffers[b].space == TCC_SPACE_ARENA)
            buffers[n++] = (uint32_t)b;
    return list(w, n, buffers);
}

/* Is e a version of an entry point that an earlier one is a version of too? */
static bool later_version(const struct kn_program *p, int e)
{
    for (int i = 0; i < e && p->entries[e].func->version; i++)
        if (!strcmp(ir_entry_name(p->entries[i].func), ir_entry_name(p->entries[e].func)))
            return true;
    return false;
}

/* The program's entry that gives the user's entry point i its name. */
static int first_entry(const struct kn_program *p, int i)
{
    int e = 0;
    while (later_version(p, e) || i-- > 0)
        e++;
    return e;
}

const struct kn_entry *artifact_entry(const struct kn_program *p, int i)
{
    return &p->entries[first_entry(p, i)];
}

static void write_case(struct writer *w, int e, uint32_t number)
{
    const struct ir_version *v = w->p->entries[e].func->version;
    struct tcc_pcase x = {.entry = number, .guards = {(uint32_t)w->guards.n, (uint32_t)v->nguards}};
    x.text = string(w, ir_guards_text(w->ctx, v->nguards, v->guards));
    for (int i = 0; i < v->nguards; i++)
        VEC_PUSH(w->ctx, w->guards,
                 (struct tcc_pguard){v->guards[i].op, expr(w, v->guards[i].a), expr(w, v->guards[i].b), 0});
    VEC_PUSH(w->ctx, w->cases, x);
}

/* The entry point that versions are together; they stand behind all that the user sees, in the program's order. */
static void write_versions(struct writer *w, int first)
{
    const struct kn_program *p = w->p;
    const struct ir_func *f = p->entries[first].func;
    struct tcc_pentry x = {.name = string(w, f->version->entry), .arena = TCC_NO};
    uint32_t number = (uint32_t)artifact_nentries(p);
    x.inputs = (struct tcc_range){(uint32_t)w->signatures.n, (uint32_t)f->version->ninputs};
    for (int i = 0; i < f->version->ninputs; i++)
        VEC_PUSH(w->ctx, w->signatures, signature(w, f->input_names[i], f->version->inputs[i]));
    x.outputs = (struct tcc_range){(uint32_t)w->signatures.n, (uint32_t)f->body->last->nin};
    for (int i = 0; i < f->body->last->nin; i++)
        VEC_PUSH(w->ctx, w->signatures, signature(w, ir_output_name(f, i), ir_entry_result(f, i, w->unknown)));
    x.scratch = expr(w, ir_const(w->ctx, 0));
    x.cases.first = (uint32_t)w->cases.n;
    for (int e = 0; e < p->nentries; e++) {
        const struct ir_version *v = p->entries[e].func->version;
        if (v && !strcmp(v->entry, f->version->entry))
            write_case(w, e, number);
        number += v != NULL;
    }
    x.cases.count = (uint32_t)w->cases.n - x.cases.first;
    VEC_PUSH(w->ctx, w->entries, x);
}

/* Where the variable stands in the table. */
static uint32_t state_number(const struct writer *w, int index)
{
    uint32_t n = 0;
    for (const struct ir_state *s = w->p->module->states; s->index != index; s = s->next)
        n++;
    return n;
}

/* Adds what a program's launches of a list read in the control block: sizes and numbers of tiles of launches of which something differs from run to
 * run; those that are known when a run begins, or the others. */
static void control_of(struct writer *w, const struct kn_steps *s, bool program, bool late, struct control *to)
{
    for (int i = 0; i < s->n; i++) {
        const struct kn_step *x = &s->at[i];
        for (int r = 0; r < x->nregions; r++)
            control_of(w, &x->regions[r].steps, program || x->kind == TCC_STEP_PROGRAM, late, to);
        if (!program || x->kind != TCC_STEP_LAUNCH)
            continue;
        bool varies = false;
        for (int k = 0; k < x->nsizes + 2; k++) {
            ir_expr e = k < x->nsizes ? x->sizes[k] : k == x->nsizes ? x->tiles : x->combining;
            varies |= e && e->kind != IR_X_CONST;
        }
        for (int k = 0; varies && k < x->nsizes + 2; k++) {
            ir_expr e = k < x->nsizes ? x->sizes[k] : k == x->nsizes ? x->tiles : x->combining;
            if (!e || to->has[expr(w, e)] || (w->exprs.at[expr(w, e)].level > 0) != late)
                continue;
            to->has[expr(w, e)] = true;
            VEC_PUSH(w->ctx, to->list, (int)expr(w, e));
        }
    }
}

/* The steps' expressions have been written. */
static struct tcc_range control(struct writer *w, const struct kn_steps *s, bool program)
{
    if (program && w->levels < 2)
        return (struct tcc_range){0, 0};
    struct control c = {.has = IR_NEWN(w->ctx, w->exprs.n + 1, bool)};
    control_of(w, s, program, program, &c);
    return int_list(w, c.list.n, c.list.at);
}

/* The values of programs, of an entry point's steps from number `first` on, follow its own. */
static void number_late(struct writer *w, int first, uint32_t n)
{
    for (int i = first; i < w->steps.n; i++)
        if (w->steps.at[i].kind == TCC_STEP_PROGRAM) {
            w->steps.at[i].what = n;
            n += w->steps.at[i].sizes.count;
        }
}

static void write_entry(struct writer *w, const struct kn_entry *e)
{
    struct tcc_pentry x = {.name = string(w, e->name)};
    const struct ir_func *f = e->func;
    x.inputs = (struct tcc_range){(uint32_t)w->signatures.n, (uint32_t)e->ninputs};
    for (int i = 0; i < e->ninputs; i++)
        VEC_PUSH(w->ctx, w->signatures, signature(w, f->input_names[i], f->body->params[i]->type));
    x.outputs = (struct tcc_range){(uint32_t)w->signatures.n, (uint32_t)e->noutputs};
    for (int i = 0; i < e->noutputs; i++)
        VEC_PUSH(w->ctx, w->signatures, signature(w, ir_output_name(f, i), f->body->last->in[i].value->type));
    x.input_buffers = int_list(w, e->ninputs, e->input_buffers);
    x.output_buffers = int_list(w, e->noutputs, e->output_buffers);
    int first = w->steps.n;
    x.steps = steps(w, &e->steps);
    name_awaited(w, first);
    x.arena = e->arena ? expr(w, e->arena) : TCC_NO;
    x.arenas = expr_list(w, e->arenas ? w->p->nmemories - 1 : 0, e->arenas);
    if (!e->arena)
        x.placed = placed(w, e);
    x.scratch = expr(w, ir_const(w->ctx, 0));
    uint32_t *advances = IR_NEWN(w->ctx, 2 * f->nadvances + 1, uint32_t);
    for (int i = 0; i < f->nadvances; i++) {
        advances[2 * i] = state_number(w, f->advances[i].state->index);
        advances[2 * i + 1] = expr(w, f->advances[i].to);
    }
    x.advances = list(w, 2 * f->nadvances, advances);
    x.control = control(w, &e->steps, false);
    number_late(w, first, x.control.count);
    VEC_PUSH(w->ctx, w->entries, x);
}

/* -- Pipelines --------------------------------------------------------------------------------------- */

int artifact_nentries(const struct kn_program *p)
{
    int n = 0;
    for (const struct pipe *q = p->module->pipes; q; q = q->next)
        n++;
    for (int e = 0; e < p->nentries && !p->module->pipes; e++)
        n += !later_version(p, e);
    return n;
}

const char *artifact_entry_name(const struct kn_program *p, int i)
{
    const struct pipe *q = p->module->pipes;
    if (!q)
        return ir_entry_name(artifact_entry(p, i)->func);
    while (i-- > 0)
        q = q->next;
    return q->name;
}

static uint32_t entry_of(const struct writer *w, const struct ir_func *f)
{
    int e = 0;
    while (e < w->p->nentries && w->p->entries[e].func != f)
        e++;
    return (uint32_t)(artifact_nentries(w->p) + e);
}

static struct tcc_range tasks(struct writer *w, const struct pipe *p)
{
    uint32_t *lists = IR_NEWN(w->ctx, 2 * p->stages + 1, uint32_t);
    for (int s = 0; s < p->stages; s++) {
        lists[2 * s] = (uint32_t)w->ptasks.n;
        lists[2 * s + 1] = (uint32_t)p->tasks[s].n;
        for (int i = 0; i < p->tasks[s].n; i++) {
            const struct pipe_task *t = &p->tasks[s].at[i];
            VEC_PUSH(w->ctx, w->ptasks,
                     (struct tcc_ptask){t->kind, (uint32_t)t->what, (uint32_t)t->micro, (uint32_t)t->peer});
        }
    }
    return list(w, 2 * p->stages, lists);
}

static void write_pipe_tables(struct writer *w, const struct pipe *p, struct tcc_ppipe *x)
{
    x->values = (struct tcc_range){(uint32_t)w->pvalues.n, (uint32_t)p->nvalues};
    for (int i = 0; i < p->nvalues; i++) {
        const struct pipe_value *v = &p->values[i];
        struct tcc_pvalue y = {.name = string(w, v->name),
                               .dtype = v->type->dtype,
                               .space = v->space,
                               .input = (uint32_t)v->input,
                               .slots = (uint32_t)v->slots,
                               .rank = (uint32_t)v->type->rank};
        y.dims = expr_list(w, v->type->rank, v->type->dim);
        VEC_PUSH(w->ctx, w->pvalues, y);
    }
    x->calls = (struct tcc_range){(uint32_t)w->pcalls.n, (uint32_t)p->ncalls};
    for (int i = 0; i < p->ncalls; i++) {
        const struct pipe_call *c = &p->calls[i];
        struct tcc_pcall y = {.entry = entry_of(w, c->func), .stage = (uint32_t)c->stage};
        y.in = int_list(w, c->nin, c->in);
        y.out = int_list(w, c->nout, c->out);
        VEC_PUSH(w->ctx, w->pcalls, y);
    }
    x->outputs = (struct tcc_range){(uint32_t)w->poutputs.n, (uint32_t)p->noutputs};
    for (int i = 0; i < p->noutputs; i++)
        VEC_PUSH(w->ctx, w->poutputs,
                 (struct tcc_poutput){(uint32_t)p->outputs[i].value, (uint32_t)p->outputs[i].stage, p->outputs[i].how,
                                      (uint32_t)p->outputs[i].axis});
}

/* As an entry point that the user sees. */
/* By stage; none where the sizes are unknown. */
static struct tcc_range peaks(struct writer *w, const struct pipe *p)
{
    int *words = IR_NEWN(w->ctx, 4 * p->stages + 1, int);
    uint64_t bytes[2];
    for (int s = 0; s < p->stages; s++) {
        if (!budget_stage_bytes(w->p->module, p, s, &bytes[0], &bytes[1]))
            return (struct tcc_range){0, 0};
        memcpy(words + 4 * s, bytes, sizeof bytes);
    }
    return int_list(w, 4 * p->stages, words);
}

static void write_pipe(struct writer *w, const struct pipe *p)
{
    struct tcc_pentry e = {.name = string(w, p->name), .arena = TCC_NO, .pipe = (uint32_t)w->pipes.n + 1};
    struct tcc_ppipe x = {.stages = (uint32_t)p->stages,
                          .micros = (uint32_t)p->micros,
                          .last = p->last < 0 ? TCC_NO : (uint32_t)p->last,
                          .accumulates = p->accumulates,
                          .counter = p->counter ? 1 + state_number(w, p->counter->index) : 0};
    int *axes = IR_NEWN(w->ctx, p->ninputs + 1, int), *early = IR_NEWN(w->ctx, p->nearly + 1, int);
    e.inputs = (struct tcc_range){(uint32_t)w->signatures.n, (uint32_t)p->ninputs};
    for (int i = 0; i < p->ninputs; i++) {
        VEC_PUSH(w->ctx, w->signatures, signature(w, p->inputs[i].name, p->inputs[i].type));
        axes[i] = p->inputs[i].axis;
    }
    e.outputs = (struct tcc_range){(uint32_t)w->signatures.n, (uint32_t)p->noutputs};
    for (int i = 0; i < p->noutputs; i++)
        VEC_PUSH(w->ctx, w->signatures, signature(w, p->outputs[i].name, p->outputs[i].type));
    e.scratch = expr(w, ir_const(w->ctx, 0));
    x.axes = int_list(w, p->ninputs, axes);
    for (int i = 0; i < p->nearly; i++)
        early[i] = (int)state_number(w, p->early[i]);
    x.early = int_list(w, p->nearly, early);
    write_pipe_tables(w, p, &x);
    x.tasks = tasks(w, p);
    x.peaks = peaks(w, p);
    VEC_PUSH(w->ctx, w->entries, e);
    VEC_PUSH(w->ctx, w->pipes, x);
}

/* Operands in memory are a launch's arguments; local ones are none. */
static void write_kernel(struct writer *w, const struct kn_kernel *k)
{
    static const uint32_t uses[] = {[KN_IN] = TCC_READS,
                                    [KN_OUT] = TCC_WRITES,
                                    [KN_INOUT] = TCC_READS | TCC_WRITES,
                                    [KN_PARTIAL] = TCC_READS | TCC_WRITES};
    uint32_t *list_of = IR_NEWN(w->ctx, k->noperands + 1, uint32_t);
    int n = 0;
    for (int i = 0; i < k->noperands; i++)
        if (k->operands[i].use != KN_LOCAL)
            list_of[n++] = uses[k->operands[i].use];
    uint32_t flags = 0;
    for (int i = 0; i < k->ninsns; i++)
        if (k->insns[i].code == KN_INDEX)
            flags = TCC_KERNEL_FAULTS;
    VEC_PUSH(w->ctx, w->kernels, (struct tcc_pkernel){string(w, k->name), flags, list(w, n, list_of)});
}

static void write_states(struct writer *w)
{
    for (const struct ir_state *s = w->p->module->states; s; s = s->next) {
        struct tcc_pstate x = {.name = string(w, s->name),
                               .dtype = s->type->dtype,
                               .rank = (uint32_t)s->type->rank,
                               .flags = (uint32_t)s->flags};
        x.dims = expr_list(w, s->type->rank, s->type->dim);
        x.bytes = (uint64_t)ir_const_or(
            ir_mulc(w->ctx, ir_num_elements(w->ctx, s->type), tcc_dtype_bytes(s->type->dtype)), 0);
        x.home = (uint32_t)s->home;
        x.memory = w->p->nmemories > 1; /* the device's, where there is one */
        x.sym = s->sym ? (uint32_t)sym_number(w, s->sym) : TCC_NO;
        x.init = UINT64_MAX;
        for (int b = 0; s->init && b < w->p->nbuffers; b++)
            if (w->p->buffers[b].space == TCC_SPACE_WEIGHT && w->p->buffers[b].weight == s->init &&
                !w->p->buffers[b].layout)
                x.init = (uint64_t)ir_const_or(w->p->buffers[b].offset, 0);
        VEC_PUSH(w->ctx, w->states, x);
    }
}

/* -- The block ------------------------------------------------------------------------------------------------- */

/* In the order in which they stand behind the head, each at a multiple of 16 bytes. */
// clang-format off
#define TABLES(T) \
    T(strings) T(bytes) T(u32s) T(exprs) T(syms) T(buffers) T(signatures) T(steps) T(regions) T(attrs) \
    T(kernels) T(entries) T(states) T(pipes) T(pvalues) T(pcalls) T(poutputs) T(ptasks) T(cases) T(guards) \
    T(memories) T(queues) T(groups)
// clang-format on

/* Where a table of n things stands; `size` is what the block has come to. */
static struct tcc_range table(uint64_t *size, int n, size_t each)
{
    uint64_t at = (*size + 15) / 16 * 16;
    *size = at + each * (size_t)n;
    return (struct tcc_range){(uint32_t)at, (uint32_t)n};
}

struct artifact_plan artifact_plan(struct ir_ctx *ctx, const struct kn_program *p)
{
    struct writer w = {.ctx = ctx, .p = p, .levels = 1};
    string(&w, "");
    for (int e = 0; e < p->nentries; e++)
        if (p->entries[e].func->version)
            w.unknown = ir_sym(ctx, "?");
    write_syms(&w);
    write_memories(&w);
    write_buffers(&w);
    for (int i = 0; i < p->nkernels; i++)
        write_kernel(&w, p->kernels[i]);
    for (const struct pipe *q = p->module->pipes; q; q = q->next)
        write_pipe(&w, q);
    for (int i = 0; i < artifact_nentries(p) && !p->module->pipes; i++) {
        int e = first_entry(p, i);
        if (p->entries[e].func->version)
            write_versions(&w, e);
        else
            write_entry(&w, &p->entries[e]);
    }
    for (int e = 0; e < p->nentries; e++)
        if (p->module->pipes || p->entries[e].func->version)
            write_entry(&w, &p->entries[e]);
    write_states(&w);
    /* Levels that no expression has are evaluated too: EVAL steps name them. */
    for (int i = 0; i < p->nsyms; i++)
        if ((uint32_t)p->sym_level[i] + 1 > w.levels)
            w.levels = (uint32_t)p->sym_level[i] + 1;
    for (int i = 0; i < w.steps.n; i++)
        if (w.steps.at[i].kind == TCC_STEP_EVAL && w.steps.at[i].what + 1 > w.levels)
            w.levels = w.steps.at[i].what + 1;
    struct tcc_plan head = {.magic = TCC_PLAN_MAGIC,
                            .version = TCC_ABI_VERSION,
                            .levels = w.levels,
                            .nlibops = (uint32_t)w.libs.n,
                            .nvisible = (uint32_t)artifact_nentries(p)};
    uint64_t size = sizeof head;
#define PLACE(member) head.member = table(&size, w.member.n, sizeof *w.member.at);
    TABLES(PLACE)
    head.size = size;
    uint8_t *bytes = IR_NEWN(ctx, size, uint8_t);
    memcpy(bytes, &head, sizeof head);
#define COPY(member) \
    if (w.member.n)  \
        memcpy(bytes + head.member.first, w.member.at, (size_t)w.member.n * sizeof *w.member.at);
    TABLES(COPY)
    return (struct artifact_plan){bytes, size, w.libs.n, w.libs.at};
}
