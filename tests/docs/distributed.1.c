/* run: digits */
/* build: tccc --train --loss=cross_entropy --data-parallel model.onnx -o model.so */
#include <stdint.h>
#include <stdio.h>

#include <tccrt.h>

static float pictures[4 * 28 * 28];
static int64_t labels[4] = {1, 2, 3, 4};

/* A step of one process that begins the world, which is then of one. */
int main(void)
{
    struct tccrt_model *model = NULL;
    struct tccrt_session *session = NULL;
    struct tcc_tensor in[] = {{pictures, TCC_F32, 4, {4, 1, 28, 28}}, {labels, TCC_I64, 1, {4}}}, loss = {0};

    if (tccrt_open("model.so", &model) || tccrt_session_new(model, NULL, &session)) {
        fprintf(stderr, "%s\n", tccrt_error());
        return 1;
    }
@block@
    printf("%s: loss %g\n", tccrt_error(), loss.data ? *(const float *)loss.data : -1);
    return loss.data && *(const float *)loss.data > 0 ? 0 : 1;
}
