/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: values in files, .npy and .pb of each kind. What is read prints and equals itself. */
#include <stdlib.h>

#include "tools/values/values_int.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void use(struct tcc_object *v, const char *error)
{
    static const struct tolerance exact = {.absolute = true};
    char why[ERROR_SIZE], *text = NULL;
    size_t length = 0;

    if (!v && !*error)
        abort(); /* refused without a word */
    if (!v)
        return;
    if (!value_equal(v, v, &exact, why))
        abort();
    FILE *f = open_memstream(&text, &length);
    if (f) {
        value_print(f, v);
        fclose(f);
    }
    free(text);
    tccrt_object_unref(v);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char error[ERROR_SIZE] = "";

    use(npy_parse("fuzz.npy", data, size, error), error);
    for (int kind = VALUE_TENSOR; kind <= VALUE_OPTIONAL; kind++) {
        char *name = NULL;
        error[0] = '\0';
        struct tcc_object *v = pb_parse("fuzz.pb", data, size, (enum value_kind)kind, &name, error);
        if (v)
            free(name);
        use(v, error);
    }
    return 0;
}
