/* SPDX-License-Identifier: Apache-2.0 */
/*
 * image.c - writes an image as the block of bytes that runtimes of devices read (struct tcc_pimage, runtime/abi.h).
 *
 * Expressions are written once for each kernel: symbol k is size k of the launching step, so that the same symbol of
 * two kernels may be two numbers.
 */
#include "compiler/artifact/image_int.h"
#include "compiler/target.h"

#include <string.h>

struct writer {
    struct ir_ctx *ctx;
    const struct kn_kernel *k; /* whose expressions are written */
    VEC(char) strings;
    VEC(struct tcc_pexpr) exprs;
    VEC(struct tcc_plaunch) launches;
    VEC(struct tcc_range) kernels;
    VEC(struct tcc_pmap) maps;
};

ir_expr image_tiles(struct ir_ctx *ctx)
{
    return ir_sym(ctx, "tiles of the launch");
}

static uint32_t string(struct writer *w, const char *s)
{
    uint32_t at = (uint32_t)w->strings.n;
    for (size_t i = 0, n = strlen(s) + 1; i < n; i++)
        VEC_PUSH(w->ctx, w->strings, s[i]);
    return at;
}

static uint32_t push(struct writer *w, struct tcc_pexpr x)
{
    VEC_PUSH(w->ctx, w->exprs, x);
    return (uint32_t)w->exprs.n - 1;
}

static int64_t symbol(const struct writer *w, ir_expr sym)
{
    int i = 0;
    while (i < w->k->nsizes && w->k->sizes[i] != sym)
        i++;
    return i; /* behind the sizes: the number of tiles */
}

static uint32_t expr(struct writer *w, ir_expr e)
{
    static const uint32_t ops[] = {[IR_X_ADD] = TCC_EX_ADD, [IR_X_MUL] = TCC_EX_MUL, [IR_X_FLOORDIV] = TCC_EX_FLOORDIV,
                                   [IR_X_MOD] = TCC_EX_MOD, [IR_X_MIN] = TCC_EX_MIN, [IR_X_MAX] = TCC_EX_MAX};
    if (!e)
        return TCC_NO;
    if (e->kind == IR_X_CONST)
        return push(w, (struct tcc_pexpr){.op = TCC_EX_CONST, .k = e->value});
    if (e->kind == IR_X_SYM)
        return push(w, (struct tcc_pexpr){.op = TCC_EX_SYM, .k = symbol(w, e)});
    uint32_t n = expr(w, e->arg[0]);
    for (int i = 1; i < e->nargs; i++) {
        uint32_t b = expr(w, e->arg[i]);
        n = push(w, (struct tcc_pexpr){.op = ops[e->kind], .a = n, .b = b});
    }
    return n;
}

static void write_map(struct writer *w, const struct image_map *m)
{
    struct tcc_pmap x = {.arg = (uint32_t)m->arg, .type = m->type, .rank = (uint32_t)m->rank, .windows = m->windows};
    x.first = expr(w, m->first);
    for (int i = 0; i < TCC_MAP_RANK; i++) {
        x.dims[i] = expr(w, m->dims[i]);
        x.strides[i] = expr(w, m->strides[i]);
        x.box[i] = (uint32_t)m->box[i];
        x.step[i] = (uint32_t)m->step[i];
    }
    memcpy(x.lower, m->lower, sizeof x.lower);
    memcpy(x.upper, m->upper, sizeof x.upper);
    VEC_PUSH(w->ctx, w->maps, x);
}

static void write_launch(struct writer *w, const struct image_launch *l, uint32_t flags)
{
    struct tcc_plaunch x = {.symbol = string(w, l->symbol), .flags = flags | (l->resident ? TCC_LAUNCH_RESIDENT : 0)};
    for (int i = 0; i < 3; i++) {
        x.grid[i] = expr(w, l->grid[i]);
        x.block[i] = expr(w, l->block[i]);
        x.cluster[i] = expr(w, l->cluster[i]);
    }
    x.shared = expr(w, l->shared);
    x.scratch = expr(w, l->scratch);
    x.recipes = (struct tcc_range){(uint32_t)(w->maps.n * (int)sizeof *w->maps.at),
                                   (uint32_t)(l->nmaps * (int)sizeof *w->maps.at)};
    for (int i = 0; i < l->nmaps; i++)
        write_map(w, &l->maps[i]);
    VEC_PUSH(w->ctx, w->launches, x);
}

/* Room for n entries at the end of the block, aligned. */
static struct tcc_range table(uint64_t *size, size_t n, size_t each, size_t align)
{
    *size = (*size + align - 1) / align * align;
    struct tcc_range r = {(uint32_t)*size, (uint32_t)n};
    *size += n * each;
    return r;
}

struct target_image image_make(struct ir_ctx *ctx, const struct kn_program *p, const struct image_kernel *kernels,
                               const char *machine, const char *format, const void *code, size_t size)
{
    struct writer w = {.ctx = ctx};
    struct tcc_pimage head = {.magic = TCC_IMAGE_MAGIC, .version = TCC_ABI_VERSION, .size = sizeof head};
    string(&w, "");
    head.machine = string(&w, machine);
    head.format = string(&w, format);
    for (int i = 0; i < p->nkernels; i++) {
        struct tcc_range r = {(uint32_t)w.launches.n, (uint32_t)kernels[i].nlaunches};
        w.k = p->kernels[i];
        for (int l = 0; l < kernels[i].nlaunches; l++)
            write_launch(&w, &kernels[i].launches[l], 0);
        if (kernels[i].rows.symbol)
            write_launch(&w, &kernels[i].rows, TCC_LAUNCH_ROWS);
        VEC_PUSH(ctx, w.kernels, r);
    }
    head.strings = table(&head.size, (size_t)w.strings.n, 1, 16);
    head.exprs = table(&head.size, (size_t)w.exprs.n, sizeof *w.exprs.at, 16);
    head.kernels = table(&head.size, (size_t)w.kernels.n, sizeof *w.kernels.at, 16);
    head.launches = table(&head.size, (size_t)w.launches.n, sizeof *w.launches.at, 16);
    head.bytes = table(&head.size, (size_t)w.maps.n * sizeof *w.maps.at, 1, 16);
    head.code = table(&head.size, size, 1, 64);
    uint8_t *to = IR_NEWN(ctx, head.size, uint8_t);
    memcpy(to, &head, sizeof head);
    memcpy(to + head.strings.first, w.strings.at, (size_t)w.strings.n);
    if (w.exprs.n)
        memcpy(to + head.exprs.first, w.exprs.at, (size_t)w.exprs.n * sizeof *w.exprs.at);
    if (w.kernels.n)
        memcpy(to + head.kernels.first, w.kernels.at, (size_t)w.kernels.n * sizeof *w.kernels.at);
    if (w.launches.n)
        memcpy(to + head.launches.first, w.launches.at, (size_t)w.launches.n * sizeof *w.launches.at);
    if (w.maps.n)
        memcpy(to + head.bytes.first, w.maps.at, head.bytes.count);
    memcpy(to + head.code.first, code, size);
    return (struct target_image){to, head.size};
}
