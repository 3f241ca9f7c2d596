/* SPDX-License-Identifier: Apache-2.0 */
/*
 * infer: recomputes every type from the inputs on, so that pinned dims (--dim, --shape) and dims that passes made
 * constant reach all of the graph. Running it twice changes nothing.
 */
#include "passes/pass.h"

bool pass_infer_run(struct pass_run *r);

bool pass_infer_run(struct pass_run *r)
{
    for (struct ir_func *f = pass_module(r)->funcs; f; f = f->next)
        if (!ir_infer_func(f))
            return false;
    return true;
}
