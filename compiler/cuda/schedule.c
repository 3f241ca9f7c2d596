/* SPDX-License-Identifier: Apache-2.0 */
/*
 * schedule.c - schedules are words and numbers in kernels (schedules.def), here read, written and checked; and how a
 * kernel is launched by its schedule.
 */
#include "compiler/cuda/attention_int.h"
#include "compiler/cuda/contract_int.h"

#include <string.h>

/* -- The tables ------------------------------------------------------------------------------------------------ */

static const char *const templates[] = {
#define CUDA_TEMPLATE(id, name) name,
#include "compiler/cuda/schedules.def"
};

static const struct param {
    const char *name;
    size_t offset;
    int absent, least, most;
} params[] = {
#define CUDA_PARAM(field, absent, least, most) {#field, offsetof(struct cuda_schedule, field), absent, least, most},
#include "compiler/cuda/schedules.def"
};
enum { NPARAMS = sizeof params / sizeof *params };
_Static_assert(NPARAMS <= KN_MAX_PARAMS, "a kernel has room for them");

static int *field(struct cuda_schedule *s, int i)
{
    return (int *)((char *)s + params[i].offset);
}

struct cuda_schedule cuda_plain_schedule(enum cuda_how how)
{
    struct cuda_schedule s = {.how = how};
    for (int i = 0; i < NPARAMS; i++)
        *field(&s, i) = params[i].absent;
    return s;
}

void cuda_put_schedule(struct kn_kernel *k, struct cuda_schedule s)
{
    k->schedule.how = templates[s.how];
    k->schedule.nparams = 0;
    for (int i = 0; i < NPARAMS; i++)
        if (*field(&s, i) != params[i].absent)
            k->schedule.params[k->schedule.nparams++] = (struct kn_param){params[i].name, *field(&s, i)};
}

/* False, and *wrong is the word: it names a template or parameter that is not there, or not of this value. */
static bool get(const struct kn_kernel *k, struct cuda_schedule *s, const char **wrong)
{
    int how = 0;
    *wrong = k->schedule.how;
    while (how < CUDA_NTEMPLATES && strcmp(templates[how], k->schedule.how))
        how++;
    if (how == CUDA_NTEMPLATES)
        return false;
    *s = cuda_plain_schedule((enum cuda_how)how);
    for (int j = 0; j < k->schedule.nparams; j++) {
        const struct kn_param *p = &k->schedule.params[j];
        int i = 0;
        while (i < NPARAMS && strcmp(params[i].name, p->key))
            i++;
        *wrong = p->key;
        if (i == NPARAMS || p->value < params[i].least || p->value > params[i].most)
            return false;
        *field(s, i) = (int)p->value;
    }
    return true;
}

struct cuda_schedule cuda_get_schedule(const struct kn_kernel *k)
{
    struct cuda_schedule s;
    const char *wrong;
    get(k, &s, &wrong);
    return s;
}

struct cuda_schedule cuda_combine_schedule(void)
{
    struct cuda_schedule s = cuda_plain_schedule(CUDA_GROUPS);
    s.group = 32;
    return s;
}

bool cuda_is_product(enum cuda_how how)
{
    return how == CUDA_CONTRACT || how == CUDA_MMA || how == CUDA_WGMMA;
}

static const char *what_is_wrong_in_tiles(const struct cuda_machine *m, const struct cuda_schedule *s, int bytes)
{
    if ((s->threads != 256 && !cuda_has_maps(s)) || s->bm < 32 || s->bn < 32 || s->bm & (s->bm - 1) ||
        (s->how == CUDA_WGMMA ? s->bn % 64 : s->bn & (s->bn - 1)))
        return "256 threads run a tile (of wgmma 384, where a warpgroup sends for the factors), whose sides are powers "
               "of two from 32 on (of wgmma, columns are a multiple of 64)";
    if (cuda_contract_shared(s, bytes) > m->shared)
        return "tiles fit in shared memory";
    if (s->how == CUDA_CONTRACT && (s->bk != 8 || s->bn > 128))
        return "bk is 8, sides at most 128";
    if (s->how == CUDA_MMA &&
        (s->bk * bytes < 32 || s->bk * bytes > 128 || s->bk & (s->bk - 1) || s->bm < 64 || s->bn < 64 || s->bn > 128))
        return "bk terms are 32, 64 or 128 bytes, sides 64 or 128";
    if (s->how == CUDA_WGMMA && (!m->wgmma || s->bm != 128 || s->bn < 64 || s->bk * bytes != CT_ROW))
        return "it is of sm_90a; bm is 128, bn 64 to 256, bk terms are 128 bytes";
    if (s->how == CUDA_WGMMA && s->fp8 && s->bn > 128) /* each sum twice: a step's and all of them */
        return "bn is at most 128";
    return NULL;
}

static const char *what_is_wrong_in_attention(const struct cuda_machine *m, struct ir_ctx *ctx,
                                              const struct kn_kernel *k, const struct cuda_schedule *s)
{
    struct fa_shape attention;
    if (s->bn & (s->bn - 1) || !cuda_attention_shape(ctx, k, &attention) ||
        s->threads != attention.threads + (attention.sent ? FA_SENDING : 0))
        return "the kernel is no attention that the template takes";
    if (s->warpgroups && !m->wgmma)
        return "wgmma is of sm_90a";
    if (attention.sent && (s->split > 1 || !cuda_may_map(ctx, k, s)))
        return "tensor copies bring the whole of keys and values of f16 or bf16";
    for (int i = 0; i < em_nouter(k); i++)
        if (k->schedule.tile[i] != (i == attention.row ? attention.rows : 1))
            return "a tile is 64 rows, or as many for each warpgroup";
    if (s->split > 1 &&
        (attention.gradient || attention.r.mean < 0 || !ir_is_const(k->dims[attention.col].extent, NULL)))
        return "pieces are of a known number of keys";
    return k->tiles && k->scratch ? NULL : "it comes with tiles and scratch";
}

static const char *what_is_wrong_in_transpose(const struct kn_kernel *k, const struct cuda_schedule *s)
{
    if (s->vector < 0 || s->along >= em_nouter(k) || s->along == s->vector || s->width != 1 ||
        s->threads & (s->threads - 1))
        return "threads, a power of two of them, turn two outer dims";
    for (int i = 0; i < em_nouter(k); i++)
        if (k->schedule.tile[i] != (i == s->vector || i == s->along ? 32 : 1))
            return "a tile is 32 x 32 points";
    return k->tiles && k->scratch ? NULL : "it comes with tiles and scratch";
}

static const char *what_is_wrong(const struct cuda_machine *m, struct ir_ctx *ctx, const struct kn_kernel *k,
                                 const struct cuda_schedule *s)
{
    if (k->split.combine && (s->how > CUDA_GROUPS || s->width > 1 || !k->combining))
        return "a split kernel is run by threads or groups, and comes with its second phase's tiles";
    for (int i = 0; i < k->nstages && s->how != CUDA_ATTENTION; i++)
        if (k->stages[i].repeat)
            return "a stage that is repeated is attention's";
    if (s->vector >= em_nouter(k))
        return "its vector dim is not an outer dim";
    if (s->width & (s->width - 1))
        return "width is a power of two";
    if (s->how == CUDA_GROUPS && s->vector >= 0)
        return "a group's vectors lie along inner dims";
    if (s->threads % 32 || (s->group != 1 && s->group % 32) || (s->group & (s->group - 1)) || s->threads % s->group)
        return "threads are whole warps and whole groups, and a group one thread or 32, 64, 128 and so on";
    if ((s->how == CUDA_GROUPS) != (s->group > 1))
        return "groups are of template group";
    if (s->how == CUDA_GROUPS && !cuda_may_group(k))
        return "a group's threads take inner points in any order";
    if (cuda_is_product(s->how)) {
        if (!cuda_takes_contract(ctx, k, s->how))
            return "the kernel is no product that the template takes";
        if (s->fp8 && ((int)s->how != m->fp8 || !cuda_may_fp8(ctx, k)))
            return "mma multiplies 8-bit floats on sm_89, wgmma on sm_90a";
        const char *why = what_is_wrong_in_tiles(m, s, s->fp8 ? 1 : cuda_product_bytes(ctx, k));
        if (why)
            return why;
        if (cuda_has_maps(s) && !cuda_may_map(ctx, k, s))
            return "tensor copies bring matrices of f16, bf16 or, along the terms, 8-bit floats";
    }
    if (s->fp8 && !cuda_is_product(s->how))
        return "fp8 is of products";
    if (s->cluster > 1 && !cuda_has_maps(s))
        return "blocks of a cluster share what tensor copies bring";
    if (s->split > 1 && !cuda_is_product(s->how) && s->how != CUDA_ATTENTION)
        return "pieces are of products and attention";
    if (s->how == CUDA_ATTENTION)
        return what_is_wrong_in_attention(m, ctx, k, s);
    if (s->warpgroups)
        return "warpgroups are of attention";
    ir_expr rows;
    if (s->how == CUDA_OWNERS && (!cuda_owner_rows(ctx, k, &rows) || s->width != 1))
        return "the kernel is no scatter that the template takes";
    if (s->rows > 1 && s->how != CUDA_OWNERS)
        return "rows are of template owners";
    if ((s->how == CUDA_TRANSPOSE) != (s->along >= 0))
        return "transpose, and it alone, has a dim along which it loads";
    if (s->how == CUDA_TRANSPOSE)
        return what_is_wrong_in_transpose(k, s);
    for (int i = 0; i < em_nouter(k); i++)
        if (k->schedule.tile[i] != (i == s->vector ? s->width : 1))
            return "a tile is a point, or one vector";
    return k->tiles && k->scratch ? NULL : "it comes with tiles and scratch";
}

bool cuda_verify_schedule(const struct pass_machine *m, struct ir_ctx *ctx, const struct kn_kernel *k)
{
    struct cuda_schedule s;
    const char *wrong, *why;
    if (!get(k, &s, &wrong))
        return ir_error(ctx, NULL,
                        "kernel %s: the CUDA target has no such template or parameter, or not of this value: '%s'",
                        ir_shown(k->name), ir_shown(wrong));
    why = what_is_wrong((const struct cuda_machine *)m, ctx, k, &s);
    if (why)
        ir_error(ctx, NULL, "kernel %s: schedule %s: %s", ir_shown(k->name), ir_shown(k->schedule.how), why);
    return !why;
}

const char *cuda_override_schedule(const struct pass_machine *m, struct ir_ctx *ctx, struct kn_kernel *k,
                                   const struct kn_schedule *want)
{
    struct kn_kernel tried = *k;
    struct cuda_schedule s;
    const char *wrong;
    tried.schedule.how = want->how;
    tried.schedule.nparams = want->nparams;
    memcpy(tried.schedule.params, want->params, sizeof want->params);
    if (!get(&tried, &s, &wrong))
        return ir_internf(ctx, "no such template or parameter, or not of this value: '%s'", ir_shown(wrong));
    if ((s.how == CUDA_ATTENTION) != (cuda_get_schedule(k).how == CUDA_ATTENTION))
        return "attention is one kernel's template, and its only one";
    for (int i = 0; i < em_nouter(k) && s.how != CUDA_ATTENTION; i++)
        tried.schedule.tile[i] = s.how == CUDA_TRANSPOSE && (i == s.vector || i == s.along) ? 32
                                 : i == s.vector                                            ? s.width
                                                                                            : 1;
    ir_expr rows;
    if (cuda_is_product(s.how) ? !cuda_takes_contract(ctx, k, s.how)
                               : s.how == CUDA_OWNERS && !cuda_owner_rows(ctx, k, &rows))
        return "the kernel is none that the template takes";
    struct fa_shape shape;
    if (s.how == CUDA_ATTENTION && cuda_attention_shape(ctx, &tried, &shape) && shape.row >= 0)
        tried.schedule.tile[shape.row] = shape.rows;
    tried.tiles = cuda_is_product(s.how) ? cuda_product_tiles(ctx, k, &s)
                  : s.how == CUDA_OWNERS ? cuda_owner_tiles(ctx, k, &s)
                                         : em_tile_count(ctx, &tried);
    const char *why = what_is_wrong((const struct cuda_machine *)m, ctx, &tried, &s);
    if (!why)
        *k = tried;
    return why;
}

struct kn_kernel *cuda_kernel_for(const struct cuda_machine *m, struct ir_ctx *ctx, struct kn_kernel *k)
{
    struct cuda_schedule s = cuda_get_schedule(k);
    bool better = m->fp8 && !s.fp8 && cuda_is_product(s.how) && cuda_may_fp8(ctx, k); /* than as f16 */
    if ((!cuda_is_product(s.how) && s.how != CUDA_ATTENTION) || (!better && !what_is_wrong(m, ctx, k, &s)))
        return k;
    struct kn_kernel *own = IR_NEW(ctx, struct kn_kernel);
    *own = *k;
    cuda_choose_schedule(&m->pass, ctx, own);
    return own;
}

/* -- Launches ------------------------------------------------------------------------------------------------------ */

enum {
    MOST_PRIVATE = 4096, /* bytes of local operands that a thread has in its own memory */
    MOST_SHARED =
        CUDA_MOST_STATIC,      /* bytes of them that a block has in shared memory, without asking the driver for more */
    MOST_BLOCKS = 8192,        /* of a grid; threads go on in strides */
    MOST_SCRATCH_BLOCKS = 512, /* where each unit has scratch */
    ROW_TILES = 8              /* of a thread where several launches run as one: a block has to find its own first */
};

enum cuda_locals cuda_locals(struct ir_ctx *ctx, const struct kn_kernel *k, const struct cuda_schedule *s,
                             ir_expr *bytes)
{
    int64_t size;
    *bytes = em_local_scratch(ctx, k, 1);
    if (s->how == CUDA_ATTENTION) /* it holds a block of a row's scores, in registers */
        return CUDA_NO_LOCALS;
    if (ir_is_value(*bytes, 0)) { /* there may be some without elements */
        for (int i = 0; i < k->noperands; i++)
            if (k->operands[i].use == KN_LOCAL)
                return CUDA_PRIVATE;
        return CUDA_NO_LOCALS;
    }
    if (!ir_is_const(*bytes, &size))
        return CUDA_SCRATCH;
    if (s->group == 1)
        return size <= MOST_PRIVATE ? CUDA_PRIVATE : CUDA_SCRATCH;
    return size * (s->threads / s->group) <= MOST_SHARED ? CUDA_SHARED : CUDA_SCRATCH;
}

int cuda_group_of(const struct cuda_schedule *s)
{
    return s->how == CUDA_TRANSPOSE || s->how == CUDA_OWNERS || s->how == CUDA_ATTENTION || cuda_is_product(s->how)
               ? s->threads
               : s->group;
}

int64_t cuda_ring_bytes(const struct cuda_schedule *s, int bytes)
{
    int64_t exact = (int64_t)s->stages * 8 * (s->bm + s->bn + 8) * 4, tiles = exact;
    if (s->how != CUDA_CONTRACT) {
        int pad = s->how == CUDA_MMA ? 16 : 0; /* of rows of one k, both sides' */
        tiles = (int64_t)bytes * s->stages * s->bk * (s->bm + s->bn + pad);
        tiles = tiles > exact ? tiles : exact;
    }
    return tiles;
}

int64_t cuda_contract_shared(const struct cuda_schedule *s, int bytes)
{
    int64_t ring = cuda_ring_bytes(s, bytes),
            strip = (int64_t)4 * (s->bn + 8) * (s->how == CUDA_MMA ? 32 : 16); /* rows at once */
    strip = s->how == CUDA_WGMMA ? ct_own_bytes() : strip;
    return cuda_has_maps(s) ? ring + strip + (int64_t)2 * 8 * s->stages : ring > strip ? ring : strip;
}

int64_t cuda_dynamic_shared(struct ir_ctx *ctx, const struct kn_kernel *k, const struct cuda_schedule *s)
{
    int64_t bytes = cuda_is_product(s->how)    ? cuda_contract_shared(s, s->fp8 ? 1 : cuda_product_bytes(ctx, k))
                       : s->how == CUDA_ATTENTION ? cuda_attention_bytes(ctx, k)
                                               : 0;
    return bytes > MOST_SHARED ? bytes : 0;
}

/* The results of a product, the rows of attention. */
static ir_expr outer_points(struct ir_ctx *ctx, const struct kn_kernel *k)
{
    ir_expr n = ir_const(ctx, 1);
    for (int d = 0; d < em_nouter(k); d++)
        n = ir_mul(ctx, n, k->dims[d].extent);
    return n;
}

struct image_kernel cuda_launches(struct ir_ctx *ctx, const struct kn_kernel *k, const char *symbol, bool rows)
{
    struct cuda_schedule s = cuda_get_schedule(k);
    struct image_kernel to = {.nlaunches = 1};
    struct image_launch *l = &to.launches[0];
    ir_expr bytes;
    enum cuda_locals locals = cuda_locals(ctx, k, &s, &bytes);
    int units = s.threads / cuda_group_of(&s);
    ir_expr tiles = cuda_is_product(s.how) ? cuda_product_tiles(ctx, k, &s) : image_tiles(ctx);
    if (s.how == CUDA_ATTENTION) /* other machines' may be of other rows */
        tiles = ir_mulc(ctx, em_tile_count(ctx, k), s.split);
    ir_expr blocks = ir_ceildiv(ctx, tiles, ir_const(ctx, units));
    if (k->split.combine) {
        struct cuda_schedule second = cuda_combine_schedule();
        int warps = second.threads / second.group;
        ir_expr all = ir_ceildiv(ctx, k->combining, ir_const(ctx, warps));
        to.launches[to.nlaunches++] = (struct image_launch){.symbol = ir_internf(ctx, "%s_sum", symbol),
                                                            .grid = {ir_min(ctx, all, ir_const(ctx, MOST_BLOCKS))},
                                                            .block = {ir_const(ctx, second.threads)}};
    }
    *l = (struct image_launch){.symbol = symbol};
    l->grid[0] = ir_min(ctx, blocks, ir_const(ctx, locals == CUDA_SCRATCH ? MOST_SCRATCH_BLOCKS : MOST_BLOCKS));
    l->block[0] = ir_const(ctx, s.threads);
    for (int i = 0; i < 3 && s.cluster > 1; i++)
        l->cluster[i] = ir_const(ctx, i ? 1 : s.cluster);
    l->resident = cuda_is_product(s.how) && cuda_has_maps(&s);
    cuda_launch_maps(ctx, k, &s, l);
    if (cuda_dynamic_shared(ctx, k, &s))
        l->shared = ir_const(ctx, cuda_dynamic_shared(ctx, k, &s));
    if (locals == CUDA_SCRATCH)
        l->scratch = ir_mul(ctx, bytes, ir_mulc(ctx, l->grid[0], units));
    if (s.split > 1) {
        ir_expr results = outer_points(ctx, k);
        l->scratch = ir_mulc(ctx, results, (int64_t)4 * s.split);
        if (s.how == CUDA_ATTENTION) {
            l->scratch = cuda_attention_scratch(ctx, k, s.split);
            results = cuda_attention_results(ctx, k, results);
        }
        blocks = ir_ceildiv(ctx, results, ir_const(ctx, s.threads));
        to.launches[to.nlaunches++] = (struct image_launch){.symbol = ir_internf(ctx, "%s_sum", symbol),
                                                            .grid = {ir_min(ctx, blocks, ir_const(ctx, MOST_BLOCKS))},
                                                            .block = {l->block[0]}};
    }
    if (rows)
        to.rows = (struct image_launch){
            .symbol = ir_internf(ctx, "%s_rows", symbol),
            .grid = {ir_min(ctx, ir_ceildiv(ctx, blocks, ir_const(ctx, ROW_TILES)), ir_const(ctx, MOST_BLOCKS))},
            .block = {l->block[0]}};
    return to;
}
