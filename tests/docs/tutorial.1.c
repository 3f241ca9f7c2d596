/* run: digits */
/* build: cp model.onnx digits.onnx && tccc digits.onnx -o digits.a -H digits.h */
#include <stdint.h>
#include <stdio.h>

#include "digits.h"

static float pixels[3 * 28 * 28];

int main(void)
{
    struct tccrt_model *model = NULL;
    struct tccrt_session *session = NULL;
    int64_t n = 3;

@block@
    return out.data && out.rank == 2 && out.dims[0] == 3 && out.dims[1] == 10 ? 0 : 1;
}
