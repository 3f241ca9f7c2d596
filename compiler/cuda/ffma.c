/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ffma.c - tiles multiplied by fused multiply-adds (two operations under --exact), in ascending order of k. 16 x 16
 * threads; a thread has bm / 16 x bn / 16 results, of eight the second four half a tile further, so that a quarter of a
 * warp reads 128 bytes that lie together.
 */
#include "compiler/cuda/contract_int.h"

#define V LLVMValueRef

static V element(struct ct *c, const struct ct_side *s, V value)
{
    (void)c, (void)s;
    return value;
}

static void layout(struct ct_side *s, int bk)
{
    (void)bk;
    s->k_rows = true;
    s->pitch = s->size + 4;
}

static V index_of(struct ct *c, const struct ct_side *s, V row, V k)
{
    struct em *e = c->e;
    return LLVMBuildAdd(e->b, LLVMBuildMul(e->b, k, em_i64(e, s->pitch), ""), row, "");
}

/* Results that lie together: all of a thread's, at most four. */
static int chunk(int size)
{
    return size / 16 < 4 ? size / 16 : 4;
}

/* A thread's elements of row k of a side. */
static void load_row(struct ct *c, const struct ct_side *s, V buffer, int k, V thread, V *to)
{
    struct em *e = c->e;
    int n = chunk(s->size);
    V base = ct_at(e, ct_buffer(c, s, buffer), em_i64(e, (int64_t)k * s->pitch), 4);
    for (int part = 0; part * 64 < s->size; part++) {
        V at = ct_at(e, ct_at(e, base, thread, 4 * n), em_i64(e, part * 64), 4);
        V v = LLVMBuildLoad2(e->b, em_vec(e->t_f32, n), at, "");
        LLVMSetAlignment(v, (unsigned)(4 * n));
        for (int i = 0; i < n; i++)
            to[part * 4 + i] = n == 1 ? v : LLVMBuildExtractElement(e->b, v, em_i64(e, i), "");
    }
}

static V thread_row(struct ct *c)
{
    return LLVMBuildUDiv(c->e->b, c->f->thread, em_i64(c->e, 16), "");
}

static V thread_col(struct ct *c)
{
    return LLVMBuildURem(c->e->b, c->f->thread, em_i64(c->e, 16), "");
}

static void multiply(struct ct *c, V buffer)
{
    struct em *e = c->e;
    V rows[8], cols[16], y = thread_row(c), x = thread_col(c);
    int m = c->rows.size / 16, n = c->cols.size / 16;
    for (int k = 0; k < c->bk; k++) {
        load_row(c, &c->rows, buffer, k, y, rows);
        load_row(c, &c->cols, buffer, k, x, cols);
        for (int i = 0; i < m; i++)
            for (int j = 0; j < n; j++) {
                V *acc = &c->acc[i * n + j];
                *acc = e->exact ? LLVMBuildFAdd(e->b, *acc, LLVMBuildFMul(e->b, rows[i], cols[j], ""), "")
                                : em_fma(e, rows[i], cols[j], *acc);
            }
    }
}

static void put(struct ct *c, int strip, V to)
{
    struct em *e = c->e;
    int n = c->cols.size / 16, together = chunk(c->cols.size);
    V row = ct_at(e, to, thread_row(c), 4 * c->pitch);
    for (int part = 0; part * 64 < c->cols.size; part++) {
        V at = ct_at(e, ct_at(e, row, thread_col(c), 4 * together), em_i64(e, part * 64), 4);
        V v = LLVMGetPoison(em_vec(e->t_f32, together));
        for (int i = 0; i < together; i++) {
            V x = c->acc[strip * n + part * 4 + i];
            v = together == 1 ? x : LLVMBuildInsertElement(e->b, v, x, em_i64(e, i), "");
        }
        LLVMSetAlignment(LLVMBuildStore(e->b, v, at), (unsigned)(4 * together));
    }
}

static V row(struct ct *c, int strip, V r)
{
    struct em *e = c->e;
    int n = chunk(c->rows.size);
    V first = LLVMBuildMul(e->b, r, em_i64(e, n), "");
    return LLVMBuildAdd(e->b, first, em_i64(e, strip % n + (strip / n) * 64), "");
}

const struct ct_engine ct_ffma = {.bytes = 4,
                                  .strip = 16,
                                  .element = element,
                                  .layout = layout,
                                  .index = index_of,
                                  .multiply = multiply,
                                  .put = put,
                                  .row = row};
