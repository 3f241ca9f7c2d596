/* SPDX-License-Identifier: Apache-2.0 */
/* --auto-cast without --train: the casts come last, so that what folds into weights is folded in float32 before. */
#include "compiler/import/frontend.h"
#include "passes/train/train.h"

#include <string.h>

/* As an option of a pass: with a backslash before what ends it. */
static const char *escaped(struct ir_ctx *ctx, const char *text)
{
    char *out = IR_NEWN(ctx, 2 * strlen(text) + 1, char), *to = out;

    for (; *text; text++) {
        if (strchr(",={}\\", *text))
            *to++ = '\\';
        *to++ = *text;
    }
    return out;
}

bool frontend_autocast(struct ir_module *m, const char *what, const char *type, const struct pass_options *o)
{
    if (!what && !type)
        return true;
    return pass_list(m,
                     ir_internf(m->ctx, "autocast{mode=%s,type=%s},casts", escaped(m->ctx, what ? what : "list"),
                                type ? type : "bf16"),
                     o);
}

bool frontend_mx(struct ir_module *m, const char *what, const struct pass_options *o)
{
    return !what || strcmp(what, AUTOCAST_MXFP8) || pass_list(m, "mx", o);
}
