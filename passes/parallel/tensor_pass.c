/* SPDX-License-Identifier: Apache-2.0 */
/* tensor: every function for one rank of those that share its tensors. Options: parts, sequence (1: norms on parts of
 * the sequence). */
#include "passes/parallel/tensor_int.h"

#include <stdlib.h>
#include <string.h>

bool pass_tensor_run(struct pass_run *r);

bool pass_tensor_run(struct pass_run *r)
{
    const char *text = pass_param(r, "parts", "2");
    char *end;
    long parts = strtol(text, &end, 10);
    struct ir_module *m = pass_module(r);
    struct ir_func *f = ir_entry_by_name(m, "train");

    if (*end || parts < 2 || parts > 1 << 16)
        return ir_error(pass_ctx(r), NULL, "tensor{parts=%s}: expected 2 to %d", text, 1 << 16);
    f = f ? f : ir_entry_by_name(m, "main");
    if (!f)
        return ir_error(pass_ctx(r), NULL, "tensor: there is no function 'train' or 'main'");
    struct tensor_plan *plan =
        pass_changed(r) ? tensor_choose(f, (int)parts, !strcmp(pass_param(r, "sequence", "0"), "1")) : NULL;
    return !ir_nerrors(pass_ctx(r)) && (!plan || tensor_apply(m, plan));
}
