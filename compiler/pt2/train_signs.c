/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signs that a program to be trained was exported for inference: in eval mode, in which batch normalisation keeps its
 * statistics and dropout does nothing, or after normalisation was folded into convolutions (compiler/import/refuse.c
 * judges them).
 */
#include "compiler/pt2/pt2_int.h"

#include <string.h>

static bool names_norm(const char *name)
{
    static const char *const norms[] = {"layer_norm", "rms_norm", "group_norm", "batch_norm", "instance_norm"};
    bool found = false;

    for (size_t k = 0; k < sizeof norms / sizeof *norms; k++)
        found = found || strstr(name, norms[k]);
    return found;
}

void pt2_note_signs(struct pt2 *p)
{
    const char *name = p->row->name;
    struct imp_export_signs *s = &p->signs;

    if (!p->im->train || p->at.instead)
        return;
    if (strstr(name, "batch_norm")) {
        s->batch_norms++;
        s->still_batch_norms += strstr(name, "no_training") || !pt2_b(p, "training", true);
    }
    if (names_norm(name)) {
        s->norms++;
    } else if (strstr(name, "dropout")) {
        s->dropouts++;
        s->still_dropouts += !pt2_b(p, "train", true);
    } else if (!strncmp(name, "conv", 4) || !strcmp(name, "_convolution")) {
        *(pt2_given(p, "bias") ? &s->biased : &s->plain) += 1;
    }
}
