/* SPDX-License-Identifier: Apache-2.0 */
/* recognise: kernels whose form no builder could write down, since fusion made it or a chain of launches, get their
 * roles (ir/roles/). */
#include "passes/pass.h"

bool pass_recognise_run(struct pass_run *r);

bool pass_recognise_run(struct pass_run *r)
{
    struct kn_program *p = pass_module(r)->program;
    if (!p)
        return ir_error(pass_ctx(r), NULL, "recognise: the module has not been lowered");
    for (int i = 0; i < p->nkernels; i++)
        if (!p->kernels[i]->roles.form)
            kn_find_roles(p->kernels[i], &p->kernels[i]->roles);
    return true;
}
