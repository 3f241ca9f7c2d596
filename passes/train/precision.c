/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The precision that a network is trained in: reads the options, and gives the forward functions their types before
 * anything else is built on them. In the bf16 modes parameters and buffers become bf16 and all ops outside
 * autocast.def's float32 rows run in it; gradients have the types of what they belong to.
 */
#include "passes/train/precision_int.h"
#include "passes/train/autocast_int.h"
#include "passes/train/loss_int.h"
#include "passes/train/train_int.h"

#include <string.h>

static bool usage(struct ir_ctx *ctx, const char *text)
{
    static const struct ir_where nowhere;
    return ir_error(ctx, &nowhere, "%s", text);
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
    /* products of what is bf16 already may be in MX formats, too */
    bool packed = o->auto_cast && !strcmp(o->auto_cast, AUTOCAST_MXFP8) && c->mode > PRECISION_AUTOCAST;
    if ((o->auto_cast && !packed) || o->auto_cast_type) {
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

/* The state variable in bf16, with its first value rounded. */
static void narrow_state(struct ir_ctx *ctx, struct ir_state *s)
{
    struct ir_tensor *from = s->init, *to;

    s->type = ir_with_dtype(ctx, s->type, TCC_BF16);
    if (!from)
        return;
    to = ir_tensor_new(TCC_BF16, from->rank, from->dims);
    if (!to)
        ir_no_memory(ctx);
    for (int64_t i = 0; i < from->nelems; i++)
        tcc_cast(TCC_BF16, (char *)to->data + 2 * i, TCC_F32, ir_tensor_at(from, i), false, NULL);
    s->init = to;
    ir_tensor_unref(from);
}

void precision_settle(struct ir_module *m, const struct train_options *o, struct train_options *out)
{
    int bf16 = 0, f16 = 0, others = 0;
    bool given = o->precision || o->auto_cast || o->auto_cast_type;
    const char *type, *how;

    *out = *o;
    for (const struct ir_state *s = m->states; s; s = s->next)
        if (s->flags & IR_STATE_PARAM && tcc_is_float((enum tcc_dtype)s->type->dtype))
            *(s->type->dtype == TCC_BF16 ? &bf16 : s->type->dtype == TCC_F16 ? &f16 : &others) += 1;
    if (!bf16 && !f16) /* what bf16-sr rounds stochastically is bf16 */
        return;
    if (o->precision && (!strcmp(o->precision, "bf16-master") || (!strcmp(o->precision, "bf16-sr") && !f16)))
        return;
    type = bf16 && f16 ? "bf16 and f16" : bf16 ? "bf16" : "f16";
    if (f16 || (o->precision && !strcmp(o->precision, "float32"))) {
        out->updates = TRAIN_UPDATES_MASTER;
        how = "float32 copies of them are updated, as by --precision=bf16-master";
    } else if (!given && !others) {
        out->precision = "bf16-sr";
        how = "training uses --precision=bf16-sr (bf16-master: with float32 copies)";
    } else {
        out->updates = TRAIN_UPDATES_ROUNDED;
        how = "their updates are rounded stochastically, as by --precision=bf16-sr (float32: by float32 copies)";
    }
    ir_diag(m->ctx, NULL, IR_D_NOTE, "the model's parameters are %s: %s", type, how);
}

bool precision_apply(struct ir_module *m, const struct train_options *o)
{
    struct precision_config c;
    struct autocast a = {.mode = AUTOCAST_ALL, .type = TCC_BF16};
    struct train_loss loss = {0};

    if (!precision_parse(m->ctx, o, &c))
        return false;
    if (c.mode == PRECISION_FLOAT32)
        return true;
    if (c.mode == PRECISION_AUTOCAST) {
        if (!autocast_read(m->ctx, c.cast, c.type, &a))
            return false;
        if (c.type == TCC_F16 && !o->loss_scale)
            ir_diag(m->ctx, NULL, IR_D_WARNING,
                    "--auto-cast-type=fp16 without --loss-scale: small gradients become zero; --loss-scale=dynamic "
                    "prevents that");
    } else {
        for (struct ir_state *s = m->states; s; s = s->next)
            if (s->type->dtype == TCC_F32 && s->flags & (IR_STATE_PARAM | IR_STATE_BUFFER))
                narrow_state(m->ctx, s);
    }
    if (o->loss && !train_loss_read(m->ctx, o->loss, &loss))
        return false;
    a.loss = o->loss ? &loss : NULL;
    for (struct ir_func *f = m->funcs; f; f = f->next)
        if (!autocast_func(f, &a))
            return false;
    return true;
}
