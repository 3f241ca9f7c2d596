/* SPDX-License-Identifier: Apache-2.0 */
/*
 * beside.c - a text of a module whose big constants lie in a file beside it, each once however often the module is
 * printed: a reproducer is written before each pass, and hundreds of megabytes of hexadecimal digits would take longer
 * than the compilation. Constants that are ranges of a file are named as such in any text.
 */
#include "ir/ir_int.h"
#include "base/safe.h"

#include <fcntl.h>
#include <unistd.h>

enum { BIG = 65536, ALIGNED = 64 };

struct ir_beside {
    struct ir_ctx *ctx;
    const char *path;
    int fd; /* -1: nothing is written yet; it ends with the process that compiles */
    uint64_t size;
    VEC(struct {
        const struct ir_tensor *t; /* held, so that no other one has its address */
        uint64_t at;
    })
    tensors;
};

static _Thread_local struct ir_beside *printing;

struct ir_beside *ir_beside_new(struct ir_ctx *ctx, const char *path)
{
    struct ir_beside *b = IR_NEW(ctx, struct ir_beside);
    *b = (struct ir_beside){.ctx = ctx, .path = path, .fd = -1};
    return b;
}

/* False: there is no room; the text holds it, then. */
static bool put(struct ir_beside *b, const struct ir_tensor *t, uint64_t *at)
{
    if (b->fd < 0 && (b->fd = open(b->path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666)) < 0)
        return false;
    *at = (b->size + ALIGNED - 1) / ALIGNED * ALIGNED;
    if (lseek(b->fd, (off_t)*at, SEEK_SET) < 0 || tcr_write_all(b->fd, t->data, t->bytes))
        return false;
    b->size = *at + t->bytes;
    return true;
}

const char *ir_beside_range(const struct ir_tensor *t, uint64_t *at)
{
    struct ir_beside *b = printing;
    if (!b || t->splat || t->bytes < BIG || t->dtype == TCC_STRING)
        return NULL;
    for (int i = 0; i < b->tensors.n; i++)
        if (b->tensors.at[i].t == t) {
            *at = b->tensors.at[i].at;
            return b->path;
        }
    if (!put(b, t, at))
        return NULL;
    ir_keep_tensor(b->ctx, ir_tensor_ref(t));
    VEC_PUSH(b->ctx, b->tensors, (__typeof__(*b->tensors.at)){t, *at});
    return b->path;
}

void ir_print_module_beside(FILE *out, const struct ir_module *m, struct ir_beside *b)
{
    struct ir_protect frame;
    printing = b;
    if (!IR_PROTECT(m->ctx, &frame)) {
        printing = NULL;
        ir_no_memory(m->ctx);
    }
    ir_print_module(out, m);
    printing = NULL;
    ir_unprotect(m->ctx);
}
