/* SPDX-License-Identifier: Apache-2.0 */
/*
 * programs.c - the programs of a kernel, made once. Fusing asks whether the engines take a kernel that may come of two,
 * schedules ask it of each one, then its programs go into the image, or a warning says why it has none: all ask here,
 * and a kernel that was seen before has the answer: one of the same meaning, of which the same roles were known.
 */
#include "compiler/neuron/neuron_int.h"

#include <stdlib.h>
#include <string.h>

/* Kernels by digest, in a table of a power of two places. */
struct nk_kept {
    struct nk_made **at;
    size_t n, room;
};

struct nk_kept *nk_kept_new(struct ir_ctx *ctx)
{
    return IR_NEW(ctx, struct nk_kept);
}

static struct nk_made **place_of(struct nk_made **at, size_t room, uint64_t digest, const struct kn_roles *roles)
{
    size_t s = digest & (room - 1);
    while (at[s] && (at[s]->digest != digest || memcmp(&at[s]->roles, roles, sizeof *roles) != 0))
        s = (s + 1) & (room - 1);
    return &at[s];
}

static void grow(struct ir_ctx *ctx, struct nk_kept *kept)
{
    size_t room = kept->room ? 2 * kept->room : 64;
    struct nk_made **at = IR_NEWN(ctx, room, struct nk_made *);
    for (size_t k = 0; k < kept->room; k++)
        if (kept->at[k])
            *place_of(at, room, kept->at[k]->digest, &kept->at[k]->roles) = kept->at[k];
    kept->at = at;
    kept->room = room;
}

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

static struct nk_made *make(struct ir_ctx *ctx, const struct nk_machine *m, const struct kn_kernel *k, uint64_t digest)
{
    struct nk_made *made = IR_NEW(ctx, struct nk_made);
    struct neuron_program *p[NK_PROGRAMS] = {NULL};
    made->digest = digest;
    made->roles = k->roles;
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
    struct nk_kept *kept = m->kept;
    uint64_t digest = kn_digest_meaning(k);
    if (2 * kept->n >= kept->room)
        grow(ctx, kept);
    struct nk_made **at = place_of(kept->at, kept->room, digest, &k->roles);
    if (!*at) {
        *at = make(ctx, m, k, digest);
        kept->n++;
    }
    return *at;
}
