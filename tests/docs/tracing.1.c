/* run: - */
#include <stdint.h>
#include <stdio.h>

#include <compiler/trace.h>

static int steps;

static void print_loss(void *user, int n, const struct tcc_tensor *values)
{
    (void)user;
    steps++;
    printf("%d: %g\n", n, *(const float *)values[0].data);
}

static float pictures[256 * 784];
static int64_t labels[256];

static int train(const struct tcc_tensor *arrays)
{
@block@
    return steps == 4 ? 0 : 1;
}

int main(void)
{
    for (int i = 0; i < 256 * 784; i++)
        pictures[i] = (float)(i % 31) / 31;
    for (int i = 0; i < 256; i++)
        labels[i] = i % 10;
    return train((const struct tcc_tensor[]){{pictures, TCC_F32, 2, {256, 784}}, {labels, TCC_I64, 1, {256}}});
}
