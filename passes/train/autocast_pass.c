/* SPDX-License-Identifier: Apache-2.0 */
/* autocast: floats of a lower type where that is allowed. Options: mode (list, matmul, all or a file), type (bf16,
 * fp16). */
#include "passes/train/autocast_int.h"
#include "passes/pass.h"

#include <string.h>

bool pass_autocast_run(struct pass_run *r);

bool pass_autocast_run(struct pass_run *r)
{
    const char *type = pass_param(r, "type", "bf16");
    struct autocast a;

    if (strcmp(type, "bf16") && strcmp(type, "fp16")) {
        ir_error(pass_ctx(r), NULL, "autocast{type=%s}: expected bf16 or fp16", type);
        return false;
    }
    if (!autocast_read(pass_ctx(r), pass_param(r, "mode", "list"), type[0] == 'b' ? TCC_BF16 : TCC_F16, &a))
        return false;
    for (struct ir_func *f = pass_module(r)->funcs; f; f = f->next)
        if (pass_changed(r) && !autocast_func(f, &a))
            return false;
    return true;
}
