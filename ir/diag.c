/* SPDX-License-Identifier: Apache-2.0 */
/* diag.c - diagnostics: collected in the context, handed to a handler, printed as one line each. */
#include <string.h>

#include "ir/ir_int.h"
#include "base/safe.h"

static const enum ir_severity severities[] = {
    [IR_D_NOTE] = IR_NOTE,   [IR_D_WARNING] = IR_WARNING,   [IR_D_ERROR] = IR_ERROR, [IR_D_UNSUPPORTED] = IR_ERROR,
    [IR_D_USAGE] = IR_ERROR, [IR_D_ENVIRONMENT] = IR_ERROR, [IR_D_BUG] = IR_BUG};

/* Interned as it may be shown. */
static const char *shown(struct ir_ctx *ctx, const char *s, bool lines)
{
    size_t size = s ? tcr_show(NULL, 0, s, lines) + 1 : 0;
    if (!s || size == strlen(s) + 1)
        return s ? ir_intern(ctx, s) : NULL;
    char *text = ir_alloc(ctx, size);
    tcr_show(text, size, s, lines);
    return ir_intern(ctx, text);
}

const char *ir_shown(const char *s)
{
    enum { TEXTS = 8, LONGEST = 512 };
    static _Thread_local char texts[TEXTS][LONGEST];
    static _Thread_local unsigned next;
    if (!s || tcr_show(NULL, 0, s, false) == strlen(s))
        return s;
    char *text = texts[next++ % TEXTS];
    tcr_show(text, LONGEST, s, false);
    return text;
}

__attribute__((nonnull(2))) static const char *format_text(struct ir_ctx *ctx, const char *format, va_list args)
{
    va_list again;
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, format, again);
    va_end(again);
    if (n < 0)
        n = 0;
    char *text = ir_alloc(ctx, (size_t)n + 1);
    vsnprintf(text, (size_t)n + 1, format, args);
    return text;
}

static void report(struct ir_ctx *ctx, const struct ir_where *where, enum ir_diag_kind kind, const char *text)
{
    enum ir_severity severity = severities[kind];
    text = shown(ctx, text, kind == IR_D_UNSUPPORTED);
    if (ctx->attempt && severity == IR_ERROR) {
        if (!ctx->attempt->errors++) {
            ctx->attempt->text = text;
            ctx->attempt->where = where ? *where : (struct ir_where){0};
        }
        return;
    }
    if (ctx->capture) {
        if (!ctx->capture[0])
            snprintf(ctx->capture, ctx->capture_size, "%s", text);
        return;
    }
    if (ctx->quiet)
        return;
    struct ir_message m = {.severity = severity, .kind = kind, .text = text};
    if (where) {
        m.where = *where;
        m.where.file = shown(ctx, where->file, false);
        m.where.node = shown(ctx, where->node, false);
        m.where.op = shown(ctx, where->op, false);
    }
    IR_PUSH(ctx, ctx->messages, ctx->nmessages, ctx->cap_messages, m);
    ctx->nerrors += severity >= IR_ERROR;
    if (ctx->handler)
        ctx->handler(ctx->handler_user, &ctx->messages[ctx->nmessages - 1]);
}

void ir_capture(struct ir_ctx *ctx, char *buffer, size_t size)
{
    ctx->capture = buffer;
    ctx->capture_size = size;
    if (buffer)
        buffer[0] = 0;
}

void ir_attempt_begin(struct ir_ctx *ctx, struct ir_attempt *a)
{
    *a = (struct ir_attempt){.outer = ctx->attempt};
    ctx->attempt = a;
}

void ir_attempt_end(struct ir_ctx *ctx)
{
    ctx->attempt = ctx->attempt->outer;
}

void ir_quiet(struct ir_ctx *ctx, bool on)
{
    ctx->quiet = on;
}

bool ir_diag(struct ir_ctx *ctx, const struct ir_where *where, enum ir_diag_kind kind, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    report(ctx, where, kind, format_text(ctx, format, args));
    va_end(args);
    return false;
}

void ir_invalid(struct ir_ctx *ctx, const struct ir_where *where, enum ir_diag_kind kind, const char *text)
{
    ir_diag(ctx, where, kind, "%s%s", kind == IR_D_BUG ? "invalid IR: " : "", text);
}

bool ir_error(struct ir_ctx *ctx, const struct ir_where *where, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    report(ctx, where, IR_D_ERROR, format_text(ctx, format, args));
    va_end(args);
    return false;
}

void ir_detail(struct ir_ctx *ctx, const char *format, ...)
{
    va_list args;
    if (!ctx->verbose || ctx->capture)
        return;
    va_start(args, format);
    report(ctx, NULL, IR_D_NOTE, format_text(ctx, format, args));
    va_end(args);
}

void ir_verbose(struct ir_ctx *ctx, bool on)
{
    ctx->verbose = on;
}

void ir_replay(struct ir_ctx *ctx, enum ir_diag_kind kind, const struct ir_where *where, const char *text)
{
    report(ctx, where, kind, text);
}

void ir_on_diag(struct ir_ctx *ctx, ir_diag_handler handler, void *user)
{
    ctx->handler = handler;
    ctx->handler_user = user;
}

int ir_nerrors(const struct ir_ctx *ctx)
{
    int n = ctx->nerrors;
    for (const struct ir_attempt *a = ctx->attempt; a; a = a->outer)
        n += a->errors;
    return n;
}

int ir_nmessages(const struct ir_ctx *ctx)
{
    return ctx->nmessages;
}

const struct ir_message *ir_message(const struct ir_ctx *ctx, int i)
{
    return i >= 0 && i < ctx->nmessages ? &ctx->messages[i] : NULL;
}

void ir_print_where(FILE *out, const struct ir_where *w)
{
    if (w->file)
        fprintf(out, "%s:", w->file);
    if (w->line)
        fprintf(out, "%d:%d:", w->line, w->col);
    if (w->file || w->line)
        fputc(' ', out);
    if (!w->node && !w->op)
        return;
    if (w->node)
        fprintf(out, "node '%s'", w->node);
    else
        fputs("node without a name", out);
    if (w->op) {
        fprintf(out, " (%s", w->op);
        if (w->opset)
            fprintf(out, ", opset %d", w->opset);
        fputc(')', out);
    }
    fputs(": ", out);
}

void ir_print_message(FILE *out, const struct ir_message *m)
{
    static const char *const words[] = {"note: ", "warning: ", "error: ", "internal error: "};
    fputs(words[m->severity], out);
    ir_print_where(out, &m->where);
    fprintf(out, "%s\n", m->text);
}
