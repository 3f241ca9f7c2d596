/* SPDX-License-Identifier: Apache-2.0 */
/* plan.c - writes the plan's in-memory form (ir/kernel.h) as the block of bytes that the runtime walks
 * (runtime/abi.h). */
#include "compiler/artifact/plan_int.h"

#include <string.h>

/* -- Tables ------------------------------------------------------------------------------------------------ */

static void write_syms(struct plan_writer *w)
{
    for (int i = 0; i < w->p->nsyms; i++) {
        ir_expr s = w->p->syms[i];
        VEC_PUSH(w->ctx, w->syms, (struct tcc_psym){plan_string(w, ir_sym_said(s)), plan_expr(w, s), s->lo, s->hi});
    }
    if (w->unknown)
        VEC_PUSH(w->ctx, w->syms,
                 (struct tcc_psym){plan_string(w, w->unknown->name), plan_expr(w, w->unknown), w->unknown->lo,
                                   w->unknown->hi});
}

static void write_metas(struct plan_writer *w)
{
    for (int i = 0; i < w->p->module->nmetas; i++) {
        struct tcc_pmeta x = {.key = plan_string(w, w->p->module->metas[i].key)};
        x.value = plan_string(w, w->p->module->metas[i].value);
        VEC_PUSH(w->ctx, w->metas, x);
    }
}

static void write_memories(struct plan_writer *w)
{
    static const struct kn_memory host = {"host", true, false};
    static const char *const names[] = {"host", "compute", "copy in", "copy out", "communication"};
    static const struct kn_queue order = {0, TCC_QUEUE_HOST};
    const struct kn_program *p = w->p;
    for (int i = 0; i < (p->nmemories ? p->nmemories : 1); i++) {
        const struct kn_memory *m = p->nmemories ? &p->memories[i] : &host;
        VEC_PUSH(w->ctx, w->memories,
                 (struct tcc_pmemory){plan_string(w, m->name), (m->shared ? TCC_MEMORY_SHARED_WITH_HOST : 0) |
                                                                   (m->pinned ? TCC_MEMORY_PINNED : 0)});
    }
    for (int i = 0; i < (p->nqueues ? p->nqueues : 1); i++) {
        const struct kn_queue *q = p->nqueues ? &p->queues[i] : &order;
        VEC_PUSH(w->ctx, w->queues,
                 (struct tcc_pqueue){plan_string(w, names[q->kind]), (uint32_t)q->memory, q->kind, 0});
    }
}

struct tcc_range plan_buffers(struct plan_writer *w, int n, const struct kn_buffer *buffers)
{
    struct tcc_range r = {(uint32_t)w->buffers.n, (uint32_t)n};
    for (int i = 0; i < n; i++) {
        const struct kn_buffer *b = &buffers[i];
        struct tcc_pbuffer x = {.space = b->space,
                                .dtype = b->dtype,
                                .index = (uint32_t)b->index,
                                .name = plan_string(w, b->name),
                                .memory = (uint32_t)b->memory,
                                .rank = TCC_NO};
        x.offset = plan_expr(w, b->offset);
        x.bytes = plan_expr(w, b->bytes);
        if (b->type && b->type->kind == IR_T_TENSOR && b->type->rank >= 0 && b->bytes) {
            x.rank = (uint32_t)b->type->rank;
            x.dims = plan_expr_list(w, b->type->rank, b->type->dim);
        }
        x.first = (uint32_t)b->first_step;
        x.last = (uint32_t)b->last_step;
        VEC_PUSH(w->ctx, w->buffers, x);
    }
    return r;
}

/* Steps of an entry point, from number `first` on, wait for steps. */
static void name_awaited(struct plan_writer *w, int first)
{
    for (int i = first; i < w->steps.n; i++) {
        struct tcc_range r = w->steps.at[i].waits;
        for (uint32_t k = r.first; k < r.first + r.count; k++)
            w->u32s.at[k] = w->event_step.at[w->u32s.at[k]];
    }
}

struct tcc_psignature plan_signature(struct plan_writer *w, const char *name, ir_type t)
{
    struct tcc_psignature x = {.name = plan_string(w, name), .kind = TCC_OBJ_TENSOR, .rank = TCC_NO};
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
            x.dims = plan_expr_list(w, t->rank, t->dim);
        }
    }
    return x;
}

static struct tcc_psignature labelled(struct plan_writer *w, const char *name, ir_type t)
{
    struct tcc_psignature x = plan_signature(w, name, t);
    const struct ir_labels *labels = ir_labels_of(w->p->module, name);
    uint32_t *strings = IR_NEWN(w->ctx, labels ? labels->n + 1 : 1, uint32_t);
    for (int i = 0; labels && i < labels->n; i++)
        strings[i] = plan_string(w, labels->at[i]);
    if (labels)
        x.labels = plan_list(w, labels->n, strings);
    return x;
}

/* The arena buffers of an entry point whose sizes are bound at run time. */
static struct tcc_range placed(struct plan_writer *w, const struct kn_entry *e)
{
    const struct kn_program *p = w->p;
    int *uses = IR_NEWN(w->ctx, p->nbuffers + 1, int), n = 0;
    uint32_t *buffers = IR_NEWN(w->ctx, p->nbuffers + 1, uint32_t);
    kn_count_uses(p->buffers, &e->steps, uses);
    for (int b = 0; b < p->nbuffers; b++)
        if (uses[b] && p->buffers[b].space == TCC_SPACE_ARENA)
            buffers[n++] = (uint32_t)b;
    return plan_list(w, n, buffers);
}

/* Is e a version of an entry point that an earlier one is a version of too? */
static bool later_version(const struct kn_program *p, int e)
{
    for (int i = 0; i < e && p->entries[e].func->version; i++)
        if (!strcmp(ir_entry_name(p->entries[i].func), ir_entry_name(p->entries[e].func)))
            return true;
    return false;
}

/* The entry, or the first of its versions, that a call runs which gives inputs that need not be given; -1: there is
 * none. */
static int given_entry(const struct kn_program *p)
{
    for (int i = 0; i < p->module->ndefaults; i++)
        for (int e = 0; p->module->defaults[i].value && e < p->nentries; e++)
            if (!strcmp(ir_entry_name(p->entries[e].func), IR_GIVEN))
                return e;
    return -1;
}

/* Is e no entry point that the user sees: a version beyond the first, or @main.given? */
static bool is_hidden(const struct kn_program *p, int e)
{
    return later_version(p, e) || e == given_entry(p);
}

/* The program's entry that gives the user's entry point i its name. */
static int first_entry(const struct kn_program *p, int i)
{
    int e = 0;
    while (is_hidden(p, e) || i-- > 0)
        e++;
    return e;
}

/* What calls of @main may give, and what they may not. */
static void write_defaults(struct plan_writer *w, const struct ir_func *f, struct tcc_pentry *x)
{
    const struct ir_module *m = f->module;
    bool main = !strcmp(ir_entry_name(f), "main") && !m->staged;
    uint32_t *fixed = IR_NEWN(w->ctx, m->ndefaults + 1, uint32_t);
    int n = 0;
    x->defaults.first = (uint32_t)w->attrs.n;
    for (int i = 0; i < m->ndefaults && main; i++) {
        const struct ir_default *d = &m->defaults[i];
        struct tcc_pattr attr = {.name = plan_string(w, d->input)};
        if (!d->value) {
            fixed[n++] = attr.name;
            continue;
        }
        plan_tensor_attr(w, &attr, d->value);
        VEC_PUSH(w->ctx, w->attrs, attr);
        x->defaults.count++;
        x->given = 1 + (uint32_t)artifact_nentries(w->p);
    }
    x->fixed = plan_list(w, n, fixed);
}

const struct kn_entry *artifact_entry(const struct kn_program *p, int i)
{
    return &p->entries[first_entry(p, i)];
}

static void write_case(struct plan_writer *w, int e, uint32_t number)
{
    const struct ir_version *v = w->p->entries[e].func->version;
    struct tcc_pcase x = {.entry = number, .guards = {(uint32_t)w->guards.n, (uint32_t)v->nguards}};
    x.text = plan_string(w, ir_guards_text(w->ctx, v->nguards, v->guards));
    for (int i = 0; i < v->nguards; i++)
        VEC_PUSH(w->ctx, w->guards,
                 (struct tcc_pguard){v->guards[i].op, plan_expr(w, v->guards[i].a), plan_expr(w, v->guards[i].b), 0});
    VEC_PUSH(w->ctx, w->cases, x);
}

/* The entry point that versions are together; they stand behind all that the user sees, in the program's order. */
static void write_versions(struct plan_writer *w, int first)
{
    const struct kn_program *p = w->p;
    const struct ir_func *f = p->entries[first].func;
    struct tcc_pentry x = {.name = plan_string(w, f->version->entry), .arena = TCC_NO};
    uint32_t number = (uint32_t)(artifact_nentries(p) + (given_entry(p) >= 0));
    write_defaults(w, f, &x);
    x.inputs = (struct tcc_range){(uint32_t)w->signatures.n, (uint32_t)f->version->ninputs};
    for (int i = 0; i < f->version->ninputs; i++)
        VEC_PUSH(w->ctx, w->signatures, labelled(w, f->input_names[i], f->version->inputs[i]));
    x.outputs = (struct tcc_range){(uint32_t)w->signatures.n, (uint32_t)f->body->last->nin};
    for (int i = 0; i < f->body->last->nin; i++)
        VEC_PUSH(w->ctx, w->signatures, labelled(w, ir_output_name(f, i), ir_entry_result(f, i, w->unknown)));
    x.scratch = plan_expr(w, ir_const(w->ctx, 0));
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
uint32_t plan_state_number(const struct plan_writer *w, int index)
{
    uint32_t n = 0;
    for (const struct ir_state *s = w->p->module->states; s->index != index; s = s->next)
        n++;
    return n;
}

/* The values of programs, of an entry point's steps from number `first` on, follow its own. */
static void number_late(struct plan_writer *w, int first, uint32_t n)
{
    for (int i = first; i < w->steps.n; i++)
        if (w->steps.at[i].kind == TCC_STEP_PROGRAM) {
            w->steps.at[i].what = n;
            n += w->steps.at[i].sizes.count;
        }
}

static void write_entry(struct plan_writer *w, const struct kn_entry *e)
{
    struct tcc_pentry x = {.name = plan_string(w, e->name)};
    const struct ir_func *f = e->func;
    x.inputs = (struct tcc_range){(uint32_t)w->signatures.n, (uint32_t)e->ninputs};
    for (int i = 0; i < e->ninputs; i++)
        VEC_PUSH(w->ctx, w->signatures, labelled(w, f->input_names[i], f->body->params[i]->type));
    x.outputs = (struct tcc_range){(uint32_t)w->signatures.n, (uint32_t)e->noutputs};
    for (int i = 0; i < e->noutputs; i++)
        VEC_PUSH(w->ctx, w->signatures, labelled(w, ir_output_name(f, i), f->body->last->in[i].value->type));
    x.input_buffers = plan_int_list(w, e->ninputs, e->input_buffers);
    x.output_buffers = plan_int_list(w, e->noutputs, e->output_buffers);
    int first = w->steps.n;
    x.steps = plan_steps(w, &e->steps);
    name_awaited(w, first);
    x.arena = e->arena ? plan_expr(w, e->arena) : TCC_NO;
    x.arenas = plan_expr_list(w, e->arenas ? w->p->nmemories - 1 : 0, e->arenas);
    if (!e->arena)
        x.placed = placed(w, e);
    x.scratch = plan_expr(w, ir_const(w->ctx, 0));
    uint32_t *advances = IR_NEWN(w->ctx, 2 * f->nadvances + 1, uint32_t);
    for (int i = 0; i < f->nadvances; i++) {
        advances[2 * i] = plan_state_number(w, f->advances[i].state->index);
        advances[2 * i + 1] = plan_expr(w, f->advances[i].to);
    }
    x.advances = plan_list(w, 2 * f->nadvances, advances);
    if (!f->version)
        write_defaults(w, f, &x);
    x.control = plan_control(w, &e->steps, false);
    number_late(w, first, x.control.count);
    VEC_PUSH(w->ctx, w->entries, x);
}

int artifact_nentries(const struct kn_program *p)
{
    int n = 0;
    for (const struct kn_staged *q = p->module->staged; q; q = q->next)
        n++;
    for (int e = 0; e < p->nentries && !p->module->staged; e++)
        n += !is_hidden(p, e);
    return n;
}

const char *artifact_entry_name(const struct kn_program *p, int i)
{
    const struct kn_staged *q = p->module->staged;
    if (!q)
        return ir_entry_name(artifact_entry(p, i)->func);
    while (i-- > 0)
        q = q->next;
    return q->name;
}

/* What the time of a launch follows from, where it is known: arithmetic alone, at places that are not looked up, of
 * each point by itself or of a product. */
static uint32_t cost_flags(const struct kn_kernel *k)
{
    for (int i = 0; i < k->ninsns; i++)
        if (k->insns[i].code == KN_SCALAR && ir_is_expensive(k->insns[i].op))
            return 0;
    if (k->custom || kn_has(k, KN_BIT(KN_INDEX) | KN_BIT(KN_SORT)))
        return 0;
    if (k->roles.form == KN_CONTRACTION)
        return TCC_KERNEL_PRODUCT;
    return kn_is_map(k) ? TCC_KERNEL_LIGHT : 0;
}

/* Operands in memory are a launch's arguments; local ones are none. */
static void write_kernel(struct plan_writer *w, const struct kn_kernel *k)
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
    uint32_t flags = cost_flags(k) | (kn_has(k, KN_BIT(KN_INDEX)) ? TCC_KERNEL_FAULTS : 0);
    VEC_PUSH(w->ctx, w->kernels, (struct tcc_pkernel){plan_string(w, k->name), flags, plan_list(w, n, list_of)});
}

static void write_states(struct plan_writer *w)
{
    for (const struct ir_state *s = w->p->module->states; s; s = s->next) {
        struct tcc_pstate x = {.name = plan_string(w, s->name),
                               .dtype = s->type->dtype,
                               .rank = (uint32_t)s->type->rank,
                               .flags = (uint32_t)s->flags};
        x.dims = plan_expr_list(w, s->type->rank, s->type->dim);
        x.bytes = (uint64_t)ir_const_or(
            ir_mulc(w->ctx, ir_num_elements(w->ctx, s->type), tcc_dtype_bytes(s->type->dtype)), 0);
        x.owner_stage = (uint32_t)s->owner_stage;
        x.memory = w->p->nmemories > 1 && !s->on_host; /* the device's, where there is one */
        x.sym = s->sym ? (uint32_t)plan_sym_number(w, s->sym) : TCC_NO;
        if (s->shard.parts)
            x.shard = (struct tcc_pshard){(uint32_t)s->shard.axis + 1, plan_group_number(w, s->shard.group),
                                          (uint32_t)s->shard.parts,    (uint32_t)s->shard.blocks,
                                          (uint32_t)s->shard.padding,  0};
        x.owner = s->owner ? (uint32_t)plan_sym_number(w, s->owner) : TCC_NO;
        x.init = UINT64_MAX;
        for (int b = 0; s->init && b < w->p->nbuffers; b++)
            if (w->p->buffers[b].space == TCC_SPACE_WEIGHT && w->p->buffers[b].weight == s->init &&
                !w->p->buffers[b].layout)
                x.init = (uint64_t)ir_const_or(w->p->buffers[b].offset, 0);
        VEC_PUSH(w->ctx, w->states, x);
    }
}

/* -- The block ------------------------------------------------------------------------------------------------- */

/* Where a table of n things stands; `size` is what the block has come to. */
static struct tcc_range table(uint64_t *size, int n, size_t each)
{
    uint64_t at = (*size + 15) / 16 * 16;
    *size = at + each * (size_t)n;
    return (struct tcc_range){(uint32_t)at, (uint32_t)n};
}

struct artifact_plan artifact_plan(struct ir_ctx *ctx, const struct kn_program *p)
{
    struct plan_writer w = {.ctx = ctx, .p = p, .levels = 1};
    plan_string(&w, "");
    for (int e = 0; e < p->nentries; e++)
        if (p->entries[e].func->version)
            w.unknown = ir_sym(ctx, "?");
    write_syms(&w);
    write_memories(&w);
    write_metas(&w);
    plan_buffers(&w, p->nbuffers, p->buffers);
    for (int i = 0; i < p->nkernels; i++)
        write_kernel(&w, p->kernels[i]);
    for (const struct kn_staged *q = p->module->staged; q; q = q->next)
        plan_write_staged(&w, q);
    int seen = p->module->staged ? 0 : artifact_nentries(p), given = given_entry(p);
    for (int i = 0; i < seen + (given >= 0); i++) {
        int e = i < seen ? first_entry(p, i) : given;
        if (p->entries[e].func->version)
            write_versions(&w, e);
        else
            write_entry(&w, &p->entries[e]);
    }
    for (int e = 0; e < p->nentries; e++)
        if (p->module->staged || p->entries[e].func->version)
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
#define TCC_TABLE(member, type) head.member = table(&size, w.member.n, sizeof(type));
#include "runtime/plan.def"
    head.size = size;
    uint8_t *bytes = IR_NEWN(ctx, size, uint8_t);
    memcpy(bytes, &head, sizeof head);
#define TCC_TABLE(member, type) \
    if (w.member.n)             \
        memcpy(bytes + head.member.first, w.member.at, (size_t)w.member.n * sizeof(type));
#include "runtime/plan.def"
    return (struct artifact_plan){bytes, size, w.libs.n, w.libs.at};
}
