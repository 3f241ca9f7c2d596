/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: the parser of .tcir, the verifier and the printer. What parses and verifies prints and parses back. */
#include <stdlib.h>

#include "ir/ir.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct ir_module *read_module(struct ir_ctx *ctx, const char *text, size_t size)
{
    struct ir_module *m = ir_parse(ctx, "fuzz.tcir", text, size);

    if (!m && ir_nerrors(ctx) == 0)
        abort(); /* refused without a word */
    return m && ir_verify(m) ? m : NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ir_ctx *ctx = ir_ctx_new(), *other = ir_ctx_new();
    struct ir_protect frame, other_frame;
    char *text = NULL;
    size_t length = 0;

    if (ctx && other && IR_PROTECT(ctx, &frame) && IR_PROTECT(other, &other_frame)) {
        struct ir_module *m = read_module(ctx, (const char *)data, size);
        FILE *f = m ? open_memstream(&text, &length) : NULL;
        if (f) {
            ir_print_module(f, m);
            fclose(f);
            if (!read_module(other, text, length))
                abort(); /* its own output is refused */
        }
    }
    free(text);
    ir_ctx_free(ctx);
    ir_ctx_free(other);
    return 0;
}
