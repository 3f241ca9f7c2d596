/* SPDX-License-Identifier: Apache-2.0 */
/*
 * phases.c - a kernel that reduces along open dims (open.c) as several that only have turns, one behind the other.
 * What a stage reduces along them is added up, turn by turn, in a tensor of the program's own, which has an element
 * for each outer point: one kernel sets it to what adds nothing, the next one reduces some points and combines that
 * with what is there. Stages behind it read it from there; what else they need of stages without inner dims they work
 * out again. A running sum is two kernels: one sets it, and one goes on from turn to turn. A softmax is five: the
 * largest and the sum, each set and added up, and the quotients. Attention stays one kernel, of some rows and some keys
 * a turn (attention.c): what rows have of the keys so far, means, largest scores and sums of weights, is in tensors of
 * the program's own.
 */
#include <string.h>

#include "compiler/neuron/open_int.h"

static void *copy(struct ir_ctx *ctx, const void *from, size_t bytes)
{
    char *to = IR_NEWN(ctx, bytes + 1, char);
    return memcpy(to, from, bytes);
}

struct kn_kernel *nk_copy_kernel(struct ir_ctx *ctx, const struct kn_kernel *from)
{
    struct kn_kernel *k = IR_NEW(ctx, struct kn_kernel);
    *k = *from;
    k->dims = copy(ctx, k->dims, (size_t)k->ndims * sizeof *k->dims);
    k->operands = copy(ctx, k->operands, (size_t)k->noperands * sizeof *k->operands);
    k->insns = copy(ctx, k->insns, (size_t)k->ninsns * sizeof *k->insns);
    k->stages = copy(ctx, k->stages, (size_t)k->nstages * sizeof *k->stages);
    return k;
}

struct phases {
    struct ir_ctx *ctx;
    const struct kn_kernel *k, **to;
    int n;
    struct kn_operand *operands;
    int noperands, *temp; /* temp: by instruction, the operand that has what it reduces; -1: none */
    ir_expr **index;      /* and where: outer dims, of attention something besides */
};

/* A kernel of the phases under construction; at: by instruction of the whole, where it stands; -1: nowhere yet. */
struct phase {
    struct kn_kernel *k;
    int *at;
    VEC(struct kn_insn) insns;
};

static int add(struct phases *p, struct phase *f, struct kn_insn n)
{
    VEC_PUSH(p->ctx, f->insns, n);
    return f->insns.n - 1;
}

static struct phase begin(struct phases *p)
{
    struct phase f = {.k = nk_copy_kernel(p->ctx, p->k), .at = IR_NEWN(p->ctx, p->k->ninsns + 1, int)};
    for (int i = 0; i < p->k->ninsns; i++)
        f.at[i] = -1;
    f.k->stages = IR_NEWN(p->ctx, 4, struct kn_stage);
    f.k->nstages = 0;
    f.k->kind = IR_K_MAP;
    return f;
}

/* What was added since the last stage is one. */
static void end_stage(struct phase *f, uint32_t inner)
{
    int first = f->k->nstages ? f->k->stages[f->k->nstages - 1].last : 0;
    if (first < f->insns.n)
        f->k->stages[f->k->nstages++] = (struct kn_stage){.inner = inner, .first = first, .last = f->insns.n};
}

/* Dims that are neither outer nor among these go. */
static void end(struct phases *p, struct phase *f, uint32_t keep)
{
    struct kn_kernel *k = f->k;
    VEC_GIVE(f->insns, k->insns, k->ninsns);
    for (int d = p->k->ndims - 1; d >= 0; d--)
        if (p->k->dims[d].role != KN_OUTER && !(keep >> d & 1))
            kn_remove_dim(k, d);
    if (kn_find_roles(k, &k->roles) && k->roles.form == KN_CONTRACTION)
        k->kind = IR_K_CONTRACT;
    p->to[p->n++] = k;
}

/* Of what instruction `of` reduces, where it is kept. */
static struct kn_insn access_of(const struct phases *p, enum kn_code code, int of, int arg)
{
    return (struct kn_insn){.code = (uint8_t)code,
                            .dtype = p->operands[p->temp[of]].dtype,
                            .nargs = code == KN_STORE,
                            .nindex = p->operands[p->temp[of]].rank,
                            .operand = p->temp[of],
                            .index = p->index[of],
                            .answer = KN_PROVED,
                            .arg = {arg, -1, -1}};
}

/* Symbols of addresses are bound before. */
static bool add_indices(struct phases *p, struct phase *f, int insn);

/* The instruction and what it needs that isn't there yet: of the stage it stands in, or of stages without inner dims.
 * False: it needs something else. */
static bool bring(struct phases *p, struct phase *f, int insn, const struct kn_stage *g)
{
    if (insn < 0 || f->at[insn] >= 0)
        return true;
    struct kn_insn n = p->k->insns[insn];
    const struct kn_stage *own = &p->k->stages[kn_stage_of(p->k, insn)];
    if (p->temp[insn] >= 0 && own != g && n.code != KN_SCAN) {
        f->at[insn] = add(p, f, access_of(p, KN_LOAD, insn, -1));
        return true;
    }
    if ((own != g && own->inner) || n.code == KN_ENV || n.code == KN_SCAN || n.code == KN_ARGREDUCE ||
        n.code == KN_SORT || !add_indices(p, f, insn))
        return false;
    for (int a = 0; a < n.nargs; a++) {
        if (!bring(p, f, n.arg[a], g))
            return false;
        n.arg[a] = n.arg[a] >= 0 ? f->at[n.arg[a]] : -1;
    }
    if (n.code == KN_LOAD && !n.nargs && n.arg[0] >= 0) {
        if (!bring(p, f, n.arg[0], g))
            return false;
        n.arg[0] = f->at[n.arg[0]];
    }
    f->at[insn] = add(p, f, n);
    return true;
}

static bool add_indices(struct phases *p, struct phase *f, int insn)
{
    bool fine = true;
    for (int i = 0; i < insn && fine; i++)
        if (p->k->insns[i].code == KN_INDEX && kn_insn_uses(&p->k->insns[insn], p->k->insns[i].expr))
            fine = bring(p, f, i, &p->k->stages[kn_stage_of(p->k, i)]);
    return fine;
}

/* What a stage needs of others stands before it: in a stage of its own, or with it. */
static bool bring_others(struct phases *p, struct phase *f, const struct kn_stage *g)
{
    bool fine = true;
    for (int i = g->first; i < g->last && fine; i++)
        for (int a = 0; a < 3 && fine; a++) {
            int from = a < p->k->insns[i].nargs || p->k->insns[i].code == KN_LOAD ? p->k->insns[i].arg[a] : -1;
            if (from >= 0 && (from < g->first || from >= g->last))
                fine = bring(p, f, from, g);
        }
    return fine;
}

/* What adds nothing to a reduction or a scan; of integers to sums and products. */
static struct kn_insn nothing(const struct kn_insn *reduce)
{
    return (struct kn_insn){.code = KN_CONST,
                            .dtype = reduce->dtype,
                            .arg = {-1, -1, -1},
                            .ivalue = reduce->reducer == KN_PROD,
                            .fvalue = nk_identity_of(reduce)};
}

/* Two values combined as a reduction or a scan combines. */
static struct kn_insn combined(const struct kn_insn *reduce, int a, int b)
{
    return (struct kn_insn){
        .code = KN_SCALAR, .dtype = reduce->dtype, .op = (uint16_t)nk_word_of(reduce), .nargs = 2, .arg = {a, b, -1}};
}

/* A phase that sets what the stage's reductions or scans begin with. */
static void add_beginnings(struct phases *p, const struct kn_stage *g)
{
    struct phase set = begin(p);
    for (int i = g->first; i < g->last; i++)
        if (p->k->insns[i].code == KN_REDUCE || p->k->insns[i].code == KN_SCAN) {
            int none = add(p, &set, nothing(&p->k->insns[i]));
            add(p, &set, access_of(p, KN_STORE, i, none));
        }
    end_stage(&set, 0);
    end(p, &set, 0);
}

/* Two phases: results are set, and added up. */
static bool add_reduction(struct phases *p, const struct kn_stage *g)
{
    add_beginnings(p, g);
    struct phase f = begin(p);
    bool fine = bring_others(p, &f, g);
    end_stage(&f, 0);
    for (int i = g->first; i < g->last && fine; i++)
        fine = bring(p, &f, i, g);
    end_stage(&f, g->inner);
    for (int i = g->first; i < g->last && fine; i++) {
        const struct kn_insn *n = &p->k->insns[i];
        if (n->code != KN_REDUCE)
            continue;
        int old = add(p, &f, access_of(p, KN_LOAD, i, -1)), both = add(p, &f, combined(n, old, f.at[i]));
        add(p, &f, access_of(p, KN_STORE, i, both));
    }
    end_stage(&f, 0);
    f.k->kind = IR_K_REDUCE;
    end(p, &f, g->inner);
    return fine;
}

/* Two phases, too: a turn's running combination goes on from that of all points before, which the turn's are then added
 * to. */
static bool add_scan(struct phases *p, const struct kn_stage *g)
{
    add_beginnings(p, g);
    struct phase f = begin(p);
    bool fine = bring_others(p, &f, g);
    int scan = g->first;
    while (p->k->insns[scan].code != KN_SCAN)
        scan++;
    struct kn_insn n = p->k->insns[scan],
                   sum = {.code = KN_REDUCE, .dtype = n.dtype, .reducer = n.reducer, .nargs = 1, .arg = {-1, -1, -1}};
    int old = add(p, &f, access_of(p, KN_LOAD, scan, -1));
    end_stage(&f, 0);
    fine = fine && bring(p, &f, n.arg[0], g);
    for (int i = g->first; i < g->last && fine; i++) {
        if (i == scan) {
            n.arg[0] = f.at[n.arg[0]];
            int own = add(p, &f, n);
            f.at[i] = add(p, &f, combined(&n, old, own));
        }
        fine = bring(p, &f, i, g);
    }
    end_stage(&f, g->inner);
    for (int i = g->first; i < g->last; i++) /* a stage's points are its own */
        f.at[i] = -1;
    fine = fine && bring(p, &f, p->k->insns[scan].arg[0], g);
    sum.arg[0] = fine ? f.at[p->k->insns[scan].arg[0]] : -1;
    int all = add(p, &f, sum);
    end_stage(&f, g->inner);
    int both = add(p, &f, combined(&n, old, all));
    add(p, &f, access_of(p, KN_STORE, scan, both));
    end_stage(&f, 0);
    f.k->kind = IR_K_SCAN;
    end(p, &f, g->inner);
    return fine;
}

/* A stage that stores; its dims are outer ones of the phase. */
static bool add_stores(struct phases *p, const struct kn_stage *g)
{
    struct phase f = begin(p);
    bool fine = bring_others(p, &f, g);
    for (int i = g->first; i < g->last && fine; i++)
        fine = bring(p, &f, i, g);
    end_stage(&f, 0);
    for (int d = 0; d < p->k->ndims; d++)
        if (g->inner >> d & 1)
            f.k->dims[d].role = KN_OUTER;
    end(p, &f, g->inner);
    return fine;
}

static bool is_open(const struct kn_kernel *k, const struct kn_stage *g)
{
    bool open = false;
    for (int d = 0; d < k->ndims; d++)
        open |= g->inner >> d & 1 && nk_uses_size(k, k->dims[d].extent);
    return open;
}

/* A tensor of the program's own with an element for each outer point, and how its elements are found. */
static bool outer_points(const struct phases *p, struct kn_operand *o, ir_expr *index)
{
    *o = (struct kn_operand){.use = KN_INOUT, .dtype = TCC_F32, .name = "partial"};
    for (int d = 0; d < p->k->ndims; d++)
        if (p->k->dims[d].role == KN_OUTER) {
            if (o->rank == TCC_MAX_RANK)
                return false;
            index[o->rank] = p->k->dims[d].var;
            o->dims[o->rank++] = p->k->dims[d].extent;
        }
    return true;
}

/* Such tensors for what stages reduce along open dims. */
static bool add_temporaries(struct phases *p)
{
    const struct kn_kernel *k = p->k;
    ir_expr *index = IR_NEWN(p->ctx, TCC_MAX_RANK, ir_expr);
    struct kn_operand o;
    if (!outer_points(p, &o, index))
        return false;
    for (int i = 0; i < k->ninsns; i++) {
        const struct kn_insn *n = &k->insns[i];
        p->temp[i] = -1;
        if ((n->code != KN_REDUCE && n->code != KN_SCAN) || !is_open(k, &k->stages[kn_stage_of(k, i)]))
            continue;
        bool integer = (n->dtype == TCC_I32 || n->dtype == TCC_I64) && (n->reducer == KN_SUM || n->reducer == KN_PROD);
        if ((n->dtype != TCC_F32 && !integer) || p->noperands == k->noperands + NK_PHASES)
            return false;
        p->temp[i] = p->noperands;
        p->index[i] = index;
        o.dtype = n->dtype;
        p->operands[p->noperands++] = o;
    }
    return true;
}

/* -- Attention along an open dim -- */

bool nk_is_some_keys(const struct kn_kernel *k)
{
    int behind = k->roles.form == KN_ATTENTION ? k->roles.attention.last + 1 : k->nstages;
    const struct kn_insn *n = behind < k->nstages ? &k->insns[k->stages[behind].first] : NULL;
    return n && k->roles.attention.lse < 0 && n->code == KN_STORE && k->operands[n->operand].use == KN_INOUT;
}

bool nk_is_position(const struct kn_kernel *k, int insn)
{
    const struct kn_score *s = &k->roles.attention.is;
    return nk_is_some_keys(k) && s->compare >= 0 && (insn == s->query || insn == s->key);
}

/* Are rows and keys at the same places, where a causal mask compares those? */
static bool is_even(const struct kn_kernel *k, const struct kn_attention *r)
{
    bool causal = r->is.compare >= 0;
    return k->dims[r->row].extent == k->dims[r->t].extent &&
           (!causal ||
            (k->insns[r->is.query].expr == k->dims[r->row].var && k->insns[r->is.key].expr == k->dims[r->t].var));
}

/* A tensor of what the rows of a turn have: the same for all turns of rows, which come one behind the other. Its
 * elements lie as attention_means.c has them. */
static bool add_state(struct phases *p, const struct kn_attention *r)
{
    const struct kn_dim *columns = &p->k->dims[r->e];
    ir_expr *index = IR_NEWN(p->ctx, TCC_MAX_RANK, ir_expr);
    struct kn_operand *o = &p->operands[p->noperands];
    for (int i = 0; i < p->k->ninsns; i++)
        p->temp[i] = -1;
    if (!outer_points(p, o, index))
        return false;
    for (int i = 0; i < o->rank; i++)
        if (index[i] == p->k->dims[r->row].var) {
            memmove(&index[i], &index[i + 1], (size_t)(o->rank - i - 1) * sizeof *index);
            memmove(&o->dims[i], &o->dims[i + 1], (size_t)(--o->rank - i) * sizeof *o->dims);
        }
    index[o->rank] = index[o->rank + 1] = ir_const(p->ctx, 0);
    o->dims[o->rank++] = ir_const(p->ctx, NK_ROWS);
    o->dims[o->rank++] = ir_addc(p->ctx, columns->extent, NK_STATE_COLUMNS);
    p->index[r->mean] = index;
    p->temp[r->mean] = p->noperands++;
    return true;
}

/* One phase: the kernel, of some keys a turn, and a stage that stores what rows have of them. */
static bool cut_attention(struct phases *p, struct kn_kernel *whole)
{
    const struct kn_attention *r = &whole->roles.attention;
    if (r->row < 0 || r->mean < 0 || r->lse >= 0 || r->last != whole->nstages - 1 || !is_even(whole, r) ||
        !add_state(p, r))
        return false;
    whole->noperands = p->noperands;
    struct phase f = begin(p);
    for (int i = 0; i < whole->ninsns; i++) { /* the template has rows on chip, where the kernel has a buffer */
        struct kn_insn n = whole->insns[i];
        bool local = (n.code == KN_LOAD || n.code == KN_STORE) && whole->operands[n.operand].use == KN_LOCAL;
        add(p, &f, local ? (struct kn_insn){.code = KN_CONST, .dtype = TCC_F32, .arg = {-1, -1, -1}} : n);
    }
    add(p, &f, access_of(p, KN_STORE, r->mean, r->mean));
    f.k->nstages = whole->nstages + 1;
    f.k->stages = IR_NEWN(p->ctx, f.k->nstages, struct kn_stage);
    memcpy(f.k->stages, whole->stages, (size_t)whole->nstages * sizeof *whole->stages);
    f.k->stages[whole->nstages] = (struct kn_stage){.first = whole->ninsns, .last = f.insns.n};
    VEC_GIVE(f.insns, f.k->insns, f.k->ninsns);
    f.k->kind = whole->kind;
    p->to[p->n++] = f.k;
    return true;
}

static bool cut(struct phases *p)
{
    const struct kn_kernel *k = p->k;
    struct kn_kernel *whole = nk_copy_kernel(p->ctx, k);
    whole->operands = p->operands;
    if (k->roles.form == KN_ATTENTION) {
        p->k = whole;
        return cut_attention(p, whole);
    }
    bool fine = !k->split.combine && add_temporaries(p) && !kn_has_operand(k, KN_BIT(KN_LOCAL));
    whole->noperands = p->noperands;
    p->k = k = whole;
    for (int s = 0; s < k->nstages && fine; s++) {
        const struct kn_stage *g = &k->stages[s];
        bool reduces = false, stores = false, open = is_open(k, g);
        int scans = 0;
        for (int i = g->first; i < g->last; i++) {
            reduces |= k->insns[i].code == KN_REDUCE;
            scans += k->insns[i].code == KN_SCAN;
            stores |= k->insns[i].code == KN_STORE;
        }
        fine = !g->repeat && !(reduces && (stores || !open)) && (stores || open || !g->inner) &&
               p->n + 2 <= NK_PHASES && scans <= open && !(scans && reduces);
        if (fine && scans)
            fine = add_scan(p, g);
        else if (fine && reduces)
            fine = add_reduction(p, g);
        else if (fine && stores)
            fine = add_stores(p, g);
    }
    return fine && p->n;
}

static int in_phases(struct ir_ctx *ctx, const struct kn_kernel *k, const struct kn_kernel **to)
{
    struct phases p = {.ctx = ctx, .k = k, .to = to, .noperands = k->noperands};
    p.temp = IR_NEWN(ctx, k->ninsns + 1, int);
    p.index = IR_NEWN(ctx, k->ninsns + 1, ir_expr *);
    p.operands = IR_NEWN(ctx, k->noperands + NK_PHASES, struct kn_operand);
    memcpy(p.operands, k->operands, (size_t)k->noperands * sizeof *k->operands);
    return cut(&p) ? p.n : 0;
}

int nk_phases(struct ir_ctx *ctx, const struct kn_kernel *k, const struct kn_kernel **to)
{
    struct kn_kernel *even = nk_copy_kernel(ctx, k);
    bool open = false;
    k = nk_even_dims(ctx, even) ? even : k;
    for (int s = 0; s < k->nstages; s++)
        open |= is_open(k, &k->stages[s]);
    *to = k;
    return open ? in_phases(ctx, k, to) : 1;
}

const struct kn_kernel *nk_some_keys(struct ir_ctx *ctx, const struct kn_kernel *k)
{
    const struct kn_kernel *to;
    return k->noperands < NEURON_ARGUMENTS && in_phases(ctx, k, &to) ? to : NULL;
}
