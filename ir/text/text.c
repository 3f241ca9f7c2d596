/* SPDX-License-Identifier: Apache-2.0 */
/* text.c - words of the text form that printers share: identifiers, quoted strings, symbols' bounds. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "ir/ir_int.h"
#include "base/safe.h"

bool ir_is_identifier(const char *s)
{
    if (!isalpha((unsigned char)*s) && *s != '_')
        return false;
    for (; *s; s++) {
        if (!isalnum((unsigned char)*s) && *s != '_' && *s != '.')
            return false;
    }
    return true;
}

void ir_print_bytes(FILE *out, const char *s, size_t n)
{
    fputc('"', out);
    for (size_t i = 0; i < n; i++) {
        char next[5] = "";
        memcpy(next, s + i, n - i < 4 ? n - i : 4);
        int plain = tcr_plain(next);
        if (s[i] == '"' || s[i] == '\\')
            fprintf(out, "\\%c", s[i]);
        else if (plain)
            fwrite(s + i, 1, (size_t)plain, out);
        else
            fprintf(out, "\\x%02x", (unsigned char)s[i]);
        i += plain ? (size_t)plain - 1 : 0;
    }
    fputc('"', out);
}

void ir_print_string(FILE *out, const char *s)
{
    size_t n = 0;
    while (s[n])
        n++;
    ir_print_bytes(out, s, n);
}

const char *ir_text_of(struct ir_ctx *ctx, void (*print)(FILE *out, const void *what), const void *what)
{
    size_t size = 0;
    free(ctx->pending_text);
    ctx->pending_text = NULL;
    FILE *out = open_memstream(&ctx->pending_text, &size);
    if (!out)
        ir_no_memory(ctx);
    print(out, what);
    if (fclose(out) != 0 || !ctx->pending_text) /* glibc's fclose() says nothing where the first buffer can't be had */
        ir_no_memory(ctx);
    const char *kept = ir_intern(ctx, ctx->pending_text);
    free(ctx->pending_text);
    ctx->pending_text = NULL;
    return kept;
}

/* == Symbols and their bounds == */

static void collect(void *user, ir_expr sym)
{
    struct ir_syms *s = user;
    uint32_t pos = UINT32_MAX;
    uint64_t hash = ir_hash_mix(9, sym->id);
    for (const void *p; (p = ir_set_next(&s->seen, hash, &pos));) {
        if (p == sym)
            return;
    }
    ir_set_add(s->ctx, &s->seen, hash, (void *)sym);
    if (!sym->extent)
        VEC_PUSH(s->ctx, s->v, sym);
}

void ir_collect_syms(struct ir_syms *s, ir_expr e)
{
    ir_each_sym(e, collect, s);
}

void ir_collect_type_syms(struct ir_syms *s, ir_type t)
{
    if (t && t->kind != IR_T_TENSOR)
        ir_collect_type_syms(s, t->elem);
    for (int i = 0; t && t->kind == IR_T_TENSOR && i < t->rank; i++)
        ir_collect_syms(s, t->dim[i]);
}

static int by_name(const void *a, const void *b)
{
    return strcmp((*(const ir_expr *)a)->name, (*(const ir_expr *)b)->name);
}

void ir_print_syms(FILE *out, struct ir_syms *s)
{
    if (s->v.n)
        qsort(s->v.at, (size_t)s->v.n, sizeof *s->v.at, by_name);
    for (int i = 0; i < s->v.n; i++) {
        ir_expr e = s->v.at[i];
        if (e->lo == 0 && e->hi == IR_SYM_HI)
            continue;
        fputs("sym ", out);
        ir_print_expr(out, e);
        fprintf(out, " in %lld..%lld\n", (long long)e->lo, (long long)e->hi);
    }
    ir_arena_free(s->seen.arena);
}
