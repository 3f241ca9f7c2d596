/* SPDX-License-Identifier: Apache-2.0 */
/* overrides.c - schedules that somebody asked for in place of the machine's own (tccc --schedules). */
#include "passes/pass.h"

#include <string.h>

bool pass_override_schedule(const struct pass_machine *m, struct ir_ctx *ctx, struct kn_kernel *k,
                            const struct pass_overrides *overrides)
{
    if (!overrides || !overrides->n || !m->arch || !m->override)
        return false;
    uint64_t digest = kn_digest_meaning(k);
    for (int i = 0; i < overrides->n; i++) {
        const struct pass_override *p = &overrides->at[i];
        if (p->kernel != digest || strcmp(p->arch, m->arch))
            continue;
        const char *why = m->override(m, ctx, k, &p->schedule);
        if (why)
            ir_diag(ctx, NULL, IR_D_WARNING, "kernel %s: the table's schedule for %s, %s, is left out: %s",
                    ir_shown(k->name), m->arch, ir_shown(p->schedule.how), why);
        return !why;
    }
    return false;
}
