/* SPDX-License-Identifier: Apache-2.0 */
/* params.c - schedules as kernels carry them, words and numbers, and as this target reads them (schedules.def). */
#include "compiler/cpu/cpu_int.h"

#include <string.h>

/* -- The table ------------------------------------------------------------------------------------------ */

static const struct param {
    const char *name;
    size_t offset;
    int absent, least, most;
} params[] = {
#define CPU_PARAM(field, absent, least, most) {#field, offsetof(struct cpu_schedule, field), absent, least, most},
#include "compiler/cpu/schedules.def"
};
enum {
#define CPU_PARAM(field, absent, least, most) PARAM_##field,
#include "compiler/cpu/schedules.def"
    NPARAMS
};
_Static_assert(NPARAMS <= KN_MAX_PARAMS, "a kernel has room for them");

static const struct {
    const char *name;
    uint32_t params; /* bit set */
} templates[] = {
#define P(field) (1u << PARAM_##field)
#define CPU_TEMPLATE(id, name, params) {name, params},
#include "compiler/cpu/schedules.def"
#undef P
};

static int *field(struct cpu_schedule *s, int i)
{
    return (int *)((char *)s + params[i].offset);
}

static int find_template(const char *name)
{
    for (int i = 0; name && i < CPU_NTEMPLATES; i++)
        if (!strcmp(templates[i].name, name))
            return i;
    return -1;
}

/* -- To and from kernels ---------------------------------------------------------------------------------- */

void cpu_put_schedule(struct kn_kernel *k, struct cpu_schedule s)
{
    k->schedule = (struct kn_schedule){.how = templates[s.how].name};
    for (int i = 0; i < NPARAMS; i++)
        if (templates[s.how].params >> i & 1 && *field(&s, i) != params[i].absent)
            k->schedule.params[k->schedule.nparams++] = (struct kn_param){params[i].name, *field(&s, i)};
}

/* What k->schedule says. False, and *wrong is the word: it names a template or parameter that is not there. */
static bool get(const struct kn_kernel *k, struct cpu_schedule *s, const char **wrong)
{
    int how = find_template(*wrong = k->schedule.how);
    if (how < 0)
        return false;
    s->how = (enum cpu_how)how;
    for (int i = 0; i < NPARAMS; i++)
        *field(s, i) = params[i].absent;
    for (int j = 0; j < k->schedule.nparams; j++) {
        const struct kn_param *p = &k->schedule.params[j];
        int i = 0;
        while (i < NPARAMS && strcmp(params[i].name, p->key))
            i++;
        *wrong = p->key;
        if (i == NPARAMS || !(templates[how].params >> i & 1) || p->value < params[i].least ||
            p->value > params[i].most)
            return false;
        *field(s, i) = (int)p->value;
    }
    return true;
}

struct cpu_schedule cpu_get_schedule(const struct kn_kernel *k)
{
    struct cpu_schedule s = {0};
    const char *wrong;
    get(k, &s, &wrong);
    return s;
}

bool cpu_verify_schedule(const struct pass_machine *m, struct ir_ctx *ctx, const struct kn_kernel *k)
{
    struct cpu_schedule s = {0};
    struct kn_kernel copy = *k;
    const char *wrong, *why = NULL;
    if (!get(k, &s, &wrong))
        return ir_error(ctx, NULL,
                        "kernel %s: the CPU target has no such template or parameter, or not of this value: '%s'",
                        ir_shown(k->name), ir_shown(wrong));
    if (s.vector >= k->ndims)
        why = "its vector dim is not there";
    else if (s.width & (s.width - 1) || s.unroll & (s.unroll - 1))
        why = "width and unroll are powers of two";
    else if (s.nr % s.width)
        why = "nr is whole vectors";
    else if (s.nr / s.width > CPU_TILE_VECTORS || s.mr * (s.nr / s.width) > CPU_TILE_SUMS)
        why = "its register tile is too large";
    else if (!k->tiles || !k->scratch || (k->split.combine && !k->combining))
        why = "it comes with tiles and scratch";
    for (int t = 0; !why && cpu_templates[t]; t++)
        if (cpu_templates[t]->how == s.how && !cpu_templates[t]->schedule((const struct cpu_machine *)m, ctx, &copy))
            why = "the template doesn't take the kernel";
    if (why)
        ir_error(ctx, NULL, "kernel %s: schedule %s: %s", ir_shown(k->name), ir_shown(k->schedule.how), why);
    return !why;
}
