/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The NeuronCore target: every kernel that the engines can run becomes a program, the others run on the host. An image
 * holds, for each kernel of the plan and each physical core of a logical one, where its program lies among the bytes
 * behind (two u64: offset and size; 0: it has none), then the programs (neuron_encode()). A kernel that is not cut in
 * halves has one for the first core only. Logical cores of two have another such table behind that, with an entry for
 * each kernel: the program of its second launch, by the first core, of a reduction that both cores have done half of.
 */
#include "compiler/artifact/image_int.h"
#include "compiler/neuron/neuron_int.h"

#include <stdlib.h>
#include <string.h>

static const struct pass_machine *machine(struct ir_ctx *ctx, const char *arch)
{
    const struct nk_machine *m = nk_machine_make(ctx, arch);
    return m ? &m->pass : NULL;
}

/* The name that the image has says how many physical cores a logical one is, but for trn1. */
static const char *resolve(struct ir_ctx *ctx, const char *arch)
{
    const struct nk_machine *m = nk_machine_make(ctx, strcmp(arch, "native") ? arch : "trn1");
    if (!m)
        return NULL;
    const char *lnc = neuron_generation(m->core) < 3 ? "" : m->lnc == 2 ? NEURON_LNC2 : NEURON_LNC1;
    return ir_internf(ctx, "%s%s", neuron_core_name(m->core), lnc);
}

static const char *refuses(struct ir_ctx *ctx, const struct kn_kernel *k)
{
    return target_cpu.refuses(ctx, k); /* any kernel may run on the host */
}

static const char *host_reason(struct ir_ctx *ctx, const struct pass_machine *m, const struct kn_kernel *k)
{
    const struct nk_made *made = nk_programs(ctx, (const struct nk_machine *)m, k);

    return made->fine ? "the text of its schedule says so" : made->why;
}

static void dump(const struct target_options *o, const struct kn_kernel *k, const char *which, const uint8_t *bytes,
                 size_t size)
{
    char error[NEURON_ERROR] = "no memory";
    struct neuron_program *p = neuron_decode(bytes, size, error);
    char *text = p ? neuron_disassemble(p) : NULL;
    fprintf(o->dump_to, "# kernel %s%s\n", k->name, which);
    if (text)
        fprintf(o->dump_to, "%s\n", text);
    else
        fprintf(o->dump_to, "# %s\n", error);
    free(text);
    neuron_program_free(p);
}

struct image {
    uint64_t *table, head; /* two u64 for each program; bytes of all of them */
    VEC(char) bytes;
};

static void add_program(struct ir_ctx *ctx, struct image *to, int number, const uint8_t *bytes, size_t size)
{
    to->table[2 * number] = to->head + (uint64_t)to->bytes.n;
    to->table[2 * number + 1] = size;
    for (size_t b = 0; b < size; b++)
        VEC_PUSH(ctx, to->bytes, (char)bytes[b]);
}

/* Programs of kernel i of n; how many launches they are. */
static int add_kernel(struct ir_ctx *ctx, const struct nk_machine *m, const struct target_options *o, struct image *to,
                      int i, int n, const struct kn_kernel *k, const struct nk_made *made)
{
    static const char *const which[] = {", core 0", ", core 1", ", then"};
    const int at[] = {i * m->lnc, i * m->lnc + 1, n * m->lnc + i};
    for (int c = 0; c < NK_PROGRAMS; c++) {
        if (!made->bytes[c])
            continue;
        add_program(ctx, to, at[c], made->bytes[c], made->size[c]);
        if (o->dump && !strcmp(o->dump, "neuron"))
            dump(o, k, made->cut ? which[c] : "", made->bytes[c], made->size[c]);
    }
    return made->bytes[NK_THEN] ? 2 : 1;
}

/* The machine of an image: the plan's has the programs of its kernels. */
static const struct nk_machine *machine_of(struct ir_ctx *ctx, const struct target_options *o)
{
    const struct nk_machine *m = nk_machine_make(ctx, o->arch), *plan = (const struct nk_machine *)o->machine;
    return m && plan && plan->core == m->core && plan->lnc == m->lnc ? plan : m;
}

static bool compile(struct ir_ctx *ctx, const struct kn_program *p, const struct target_options *o, const char *prefix,
                    const char *folder, struct target_code *code)
{
    const struct nk_machine *m = machine_of(ctx, o);
    (void)folder;
    if (!m)
        return false;
    struct image_kernel *kernels = IR_NEWN(ctx, p->nkernels + 1, struct image_kernel);
    int nprograms = p->nkernels * NEURON_PROGRAMS(m->lnc);
    struct image image = {.table = IR_NEWN(ctx, 2 * nprograms + 2, uint64_t), .head = 16 * (uint64_t)nprograms};
    for (int i = 0; i < p->nkernels; i++) {
        const struct kn_kernel *k = p->kernels[i];
        if (!strcmp(k->schedule.how, "host")) {
            if (o->dump && !strcmp(o->dump, "neuron"))
                fprintf(o->dump_to, "# kernel %s: on the host: %s\n", k->name, host_reason(ctx, &m->pass, k));
            continue;
        }
        const struct nk_made *made = nk_programs(ctx, m, k);
        if (!made->fine)
            return ir_error(ctx, NULL, "kernel %s: the engines can't run it: %s", ir_shown(k->name), made->why);
        kernels[i].nlaunches = add_kernel(ctx, m, o, &image, i, p->nkernels, k, made);
        kernels[i].launches[0].symbol = ir_internf(ctx, "%sk%d", prefix, i);
        kernels[i].launches[1].symbol = ir_internf(ctx, "%sk%d_then", prefix, i);
    }
    if (o->dump)
        fflush(o->dump_to); /* before what is reported, which may go the same way */
    char *all = IR_NEWN(ctx, image.head + (uint64_t)image.bytes.n + 1, char);
    memcpy(all, image.table, image.head);
    if (image.bytes.n)
        memcpy(all + image.head, image.bytes.at, (size_t)image.bytes.n);
    target_add_image(ctx, code,
                     image_make(ctx, p, kernels, o->arch, "neuron", all, image.head + (size_t)image.bytes.n));
    return true;
}

const struct target target_neuron = {.name = "neuron",
                                     .machines = "trn1 trn2 trn3",
                                     .host = &target_cpu,
                                     .device = "tcr_device_neuron",
                                     .machine = machine,
                                     .resolve = resolve,
                                     .refuses = refuses,
                                     .host_reason = host_reason,
                                     .compile = compile};
