/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target: tccc-quantize's own reader of ONNX files, and what it writes of them in the modes that need no data.
 * What is refused must come with a message; what is written must be a model that is read again, with as many nodes at
 * least. And the graph that --tensorboard's event files hold of such a file (tools/train/events_graph.c): each of its
 * nodes has a name and an operator, and as many nodes as the file has are in it at most.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/safe.h"
#include "tools/quant/quant_int.h"
#include "tools/train/train_int.h"

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

/* Of a NodeDef: are its first two fields a name and an operator? */
static bool is_node(const struct wire_record *r)
{
    const uint8_t *at = r->payload, *end = r->end;
    struct wire_record x;

    for (unsigned want = 1; want <= 2; want++)
        if (at >= end || wire_read_record(&at, end, &x) || x.number != want || x.wire != WIRE_BYTES)
            return false;
    return true;
}

static void draw(const struct options *o)
{
    const char *words[] = {in};
    struct options own = *o;
    struct wire_buffer graph = {0};
    struct wire_record r;

    own.words = words;
    own.nwords = 1;
    int code = train_events_graph(&own, &graph);
    if (code != EXIT_FINE && !*tool_last_error())
        abort();
    for (const uint8_t *at = graph.data, *end = graph.n ? at + graph.n : at; code == EXIT_FINE && at < end;)
        if (wire_read_record(&at, end, &r) || (r.number == 1 && !is_node(&r)))
            abort();
    free(graph.data);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct {
        enum quant_mode mode;
        bool qdq;
    } ways[] = {{QUANT_DYNAMIC, false}, {QUANT_WEIGHT8, false}, {QUANT_WEIGHT4, false}, {QUANT_WEIGHT4, true}};
    static struct options o = {.tool = TOOL_Q};

    snprintf(in, sizeof in, "%s/fuzz-quant.%d.onnx", tcr_temporary(), (int)getpid());
    snprintf(out, sizeof out, "%s/fuzz-quant.%d.out.onnx", tcr_temporary(), (int)getpid());
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
    draw(&o);
    clean();
    return 0;
}
