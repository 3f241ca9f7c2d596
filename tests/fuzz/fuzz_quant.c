/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target: tccc-quantize's own reader of ONNX files, and what it writes of them in the modes that need no data.
 * What is refused must come with a message; what is written must be a model that is read again, with as many nodes at
 * least.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/fuzz/tmpdir.h"
#include "tools/quant/quant_int.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char in[PATH_MAX], out[PATH_MAX];

static void clean(void)
{
    char external[PATH_MAX + 8];

    snprintf(external, sizeof external, "%s.data", out);
    unlink(in);
    unlink(out);
    unlink(external);
}

/* Opens a file; the exit code. */
static int look(struct quant *q, const char *path)
{
    q->path = path;
    int code = quant_open(q);
    if (code != EXIT_FINE && !*tool_last_error())
        abort(); /* refused without a word */
    return code;
}

static void quantise(const struct options *o, struct ir_ctx *ctx, enum quant_mode mode, bool qdq)
{
    struct quant q = {.o = o, .ctx = ctx, .mode = mode, .group = 16, .qdq = qdq}, again = {.o = o, .ctx = ctx};

    if (look(&q, in) == EXIT_FINE && quant_choose(&q) == EXIT_FINE && quant_write(&q, out) == EXIT_FINE &&
        (look(&again, out) != EXIT_FINE || again.nnodes < q.nnodes - q.ntensors))
        abort();
    quant_close(&again);
    quant_close(&q);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct {
        enum quant_mode mode;
        bool qdq;
    } ways[] = {{QUANT_DYNAMIC, false}, {QUANT_WEIGHT8, false}, {QUANT_WEIGHT4, false}, {QUANT_WEIGHT4, true}};
    static struct options o = {.tool = TOOL_Q};

    snprintf(in, sizeof in, "%s/fuzz-quant.%d.onnx", fuzz_tmpdir(), (int)getpid());
    snprintf(out, sizeof out, "%s/fuzz-quant.%d.out.onnx", fuzz_tmpdir(), (int)getpid());
    FILE *f = fopen(in, "wb");
    if (!f || fwrite(data, 1, size, f) != size || fclose(f))
        abort();
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        struct ir_ctx *ctx = ir_ctx_new();
        struct ir_protect frame;
        if (ctx && IR_PROTECT(ctx, &frame)) {
            quantise(&o, ctx, ways[i].mode, ways[i].qdq);
            ir_unprotect(ctx);
        }
        ir_ctx_free(ctx);
    }
    clean();
    return 0;
}
