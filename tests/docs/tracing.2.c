/* run: - */
#include <stdint.h>
#include <stdio.h>

#include <compiler/trace.h>
#include <tccrt.h>

static float pictures[256 * 784];
static int64_t labels[256];

static void make_parameters(struct trace_ctx *c, struct trace_tensor **params)
{
    params[0] = trace_param(trace_kaiming(c, TCC_F32, 2, (int64_t[]){32, 784}, 784), "first");
    params[1] = trace_param(trace_kaiming(c, TCC_F32, 2, (int64_t[]){10, 32}, 32), "second");
}

/* Rows 16 m to 16 m + 15 of a batch of 64. */
static struct trace_tensor *quarter(struct trace_tensor *batch, int m)
{
    return trace_slice(batch, 0, 16 * m, 16);
}

int main(void)
{
    struct trace_ctx *c;
    struct trace_tensor *params[2], *loss[4], *batch[2];
    struct trace_optimizer *opt;
    struct trace_loader *data;
    struct tcc_tensor arrays[] = {{pictures, TCC_F32, 2, {256, 784}}, {labels, TCC_I64, 1, {256}}};
    bool more;
    int status;

    for (int i = 0; i < 256 * 784; i++)
        pictures[i] = (float)(i % 31) / 31;
    for (int i = 0; i < 256; i++)
        labels[i] = i % 10;
    if (trace_new(&(struct trace_options){.seed = 1}, &c))
        return 1;
@block@
    status = trace_wait(c);
    if (status)
        fprintf(stderr, "%s\n", tccrt_error());
    trace_loader_free(data);
    trace_free(c);
    return status;
}
