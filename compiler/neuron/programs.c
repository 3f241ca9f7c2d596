/* SPDX-License-Identifier: Apache-2.0 */
/*
 * programs.c - the programs of a kernel, made once. Fusing asks whether the engines take a kernel that may come of two,
 * schedules ask it of each one, then its programs go into the image, or a warning says why it has none: all ask here,
 * and a kernel that was seen before has the answer: one of the same meaning, of which the same roles were known.
 */
#include "compiler/neuron/neuron_int.h"
#include "ir/map.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* Programs of both halves, and of what follows; false: one of them can't be made, or the kernel is better left
 * whole. */
static bool cut_in_two(struct ir_ctx *ctx, const struct nk_machine *m, const struct kn_kernel *k,
                       struct neuron_program *p[NK_PROGRAMS], const char **why)
{
    struct nk_halves h;
    if (m->lnc < 2 || k->nsizes || !nk_halves(ctx, m, k, &h))
        return false;
    for (int core = 0; core < 2; core++)
        p[core] = h.then ? nk_pass_program(ctx, m, h.half[core], true, why)
                         : neuron_kernel_program(ctx, m, h.half[core], why);
    p[NK_THEN] = h.then ? nk_pass_program(ctx, m, h.then, false, why) : NULL;
    return p[NK_CORE0] && p[NK_CORE1] && (p[NK_THEN] || !h.then);
}

static void keep(struct ir_ctx *ctx, struct nk_made *to, int which, struct neuron_program *p)
{
    uint8_t *bytes = p ? neuron_encode(p, &to->size[which]) : NULL;
    neuron_program_free(p);
    if (!bytes)
        return;
    to->bytes[which] = IR_NEWN(ctx, (int)to->size[which], uint8_t);
    memcpy(to->bytes[which], bytes, to->size[which]);
    free(bytes);
}

static struct nk_made *make(struct ir_ctx *ctx, const struct nk_machine *m, const struct kn_kernel *k)
{
    struct nk_made *made = IR_NEW(ctx, struct nk_made);
    struct neuron_program *p[NK_PROGRAMS] = {NULL};
    made->why = "no memory";
    made->cut = cut_in_two(ctx, m, k, p, &made->why);
    for (int c = 0; !made->cut && c < NK_PROGRAMS; c++) {
        neuron_program_free(p[c]);
        p[c] = c ? NULL : neuron_kernel_program(ctx, m, k, &made->why);
    }
    bool second = p[NK_CORE1] != NULL, then = p[NK_THEN] != NULL;
    for (int c = 0; c < NK_PROGRAMS; c++)
        keep(ctx, made, c, p[c]);
    made->fine = made->bytes[NK_CORE0] && (made->bytes[NK_CORE1] || !second) && (made->bytes[NK_THEN] || !then);
    return made;
}

const struct nk_made *nk_programs(struct ir_ctx *ctx, const struct nk_machine *m, const struct kn_kernel *k)
{
    uint64_t key = XXH3_64bits_withSeed(&k->roles, sizeof k->roles, kn_digest_meaning(k));
    void **at = ir_map_find(m->programs, key);
    if (at)
        return *at;
    struct nk_made *made = make(ctx, m, k);
    return *ir_map_add(ctx, m->programs, key) = made;
}
