/* SPDX-License-Identifier: Apache-2.0 */
/*
 * autocast: floats of a lower type where that is allowed. Options: mode (list, matmul, all or a file), type (bf16,
 * fp16). mx: products of such floats in MX formats, those of gradients too, each along its own sum. Option: type (e4m3,
 * e5m2).
 */
#include "passes/train/autocast_int.h"
#include "passes/pass.h"

#include <string.h>

bool pass_autocast_run(struct pass_run *r);
bool pass_mx_run(struct pass_run *r);

bool pass_autocast_run(struct pass_run *r)
{
    const char *type = pass_param(r, "type", "bf16");
    struct autocast a;

    if (strcmp(type, "bf16") && strcmp(type, "fp16"))
        return ir_error(pass_ctx(r), NULL, "autocast{type=%s}: expected bf16 or fp16", type);
    if (!autocast_read(pass_ctx(r), pass_param(r, "mode", "list"), type[0] == 'b' ? TCC_BF16 : TCC_F16, &a))
        return false;
    for (struct ir_func *f = pass_module(r)->funcs; f; f = f->next)
        if (pass_changed(r) && !autocast_func(f, &a))
            return false;
    return true;
}

/* A vector's product gains nothing: its other factor is read once. */
static bool is_for_mx(const struct ir_node *n)
{
    enum { MULTIPLE = 128 };
    if (n->op != IR_matmul || ir_attr(n, IR_ATTR_mx))
        return false;
    ir_type a = n->in[0].value->type, y = n->out[0]->type;
    int64_t k;
    for (int i = 0; i < 2; i++) {
        int d = n->in[i].value->type->dtype;
        if ((d != TCC_BF16 && d != TCC_F16) || ir_is_value(y->dim[y->rank - 1 - i], 1))
            return false;
    }
    return ir_is_const(a->dim[a->rank - (ir_get_i(n, IR_ATTR_trans_a, 0) ? 2 : 1)], &k) && k % MULTIPLE == 0;
}

static void round_block(struct pass_run *r, struct ir_block *block, enum tcc_dtype type)
{
    IR_EACH_NODE(n, block) {
        for (int i = 0; i < n->nregions; i++)
            round_block(r, n->regions[i], type);
        if (is_for_mx(n) && pass_changed(r))
            ir_set_attr(n, ir_attr_dtype(IR_ATTR_mx, type));
    }
}

bool pass_mx_run(struct pass_run *r)
{
    const char *type = pass_param(r, "type", "e4m3");

    if (strcmp(type, "e4m3") && strcmp(type, "e5m2"))
        return ir_error(pass_ctx(r), NULL, "mx{type=%s}: expected e4m3 or e5m2", type);
    for (struct ir_func *f = pass_module(r)->funcs; f; f = f->next)
        round_block(r, f->body, type[1] == '4' ? TCC_F8E4M3FN : TCC_F8E5M2);
    return true;
}
