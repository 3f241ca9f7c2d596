/* SPDX-License-Identifier: Apache-2.0 */
/*
 * items.c - sequences and optionals whose structure is known when compiling: which values they hold.
 *
 * The importer notes it beside the library op that makes the object, so that whoever takes an item out gets the tensor
 * itself, and nothing behind it needs to know of sequences: neither kernels nor gradients. An object that nobody reads
 * any more goes with dead code.
 */
#include "compiler/onnx/import_int.h"

const struct imp_items *imp_items_of(const struct imp *im, const struct ir_value *v)
{
    for (int i = im->items.n - 1; v && i >= 0; i--)
        if (im->items.at[i].value == v)
            return &im->items.at[i];
    return NULL;
}

bool imp_set_items(struct imp *im, const struct ir_value *v, int n, struct ir_value *const *at)
{
    struct imp_items items = {v, n, IR_NEWN(im->ctx, n + 1, struct ir_value *)};
    for (int i = 0; i < n; i++)
        items.at[i] = at[i];
    VEC_PUSH(im->ctx, im->items, items);
    return true;
}
