/* SPDX-License-Identifier: Apache-2.0 */
/* The precision that a network is trained in: reads the options. */
#include "passes/precision_int.h"

#include <string.h>

static bool usage(struct ir_ctx *ctx, const char *text)
{
    static const struct ir_where nowhere;
    ir_error(ctx, &nowhere, "%s", text);
    return false;
}

bool precision_parse(struct ir_ctx *ctx, const struct train_options *o, struct precision_config *c)
{
    static const char *const modes[] = {"float32", "autocast", "bf16-sr", "bf16-master"};
    int mode = 0;

    while (o->precision && mode < 4 && strcmp(o->precision, modes[mode]))
        mode++;
    if (mode == 4)
        return usage(
            ctx, ir_internf(ctx, "--precision=%s: expected float32, autocast, bf16-sr or bf16-master", o->precision));
    c->mode = (enum precision_mode)mode;
    c->cast = o->auto_cast ? o->auto_cast : "list";
    c->type = TCC_BF16;
    if (o->auto_cast || o->auto_cast_type) {
        if (o->precision && c->mode != PRECISION_AUTOCAST)
            return usage(ctx, ir_internf(ctx, "--auto-cast and --auto-cast-type go with --precision=autocast, not %s",
                                         o->precision));
        c->mode = PRECISION_AUTOCAST;
    }
    if (o->auto_cast_type && !strcmp(o->auto_cast_type, "fp16"))
        c->type = TCC_F16;
    else if (o->auto_cast_type && strcmp(o->auto_cast_type, "bf16"))
        return usage(ctx, ir_internf(ctx, "--auto-cast-type=%s: expected bf16 or fp16", o->auto_cast_type));
    return true;
}
