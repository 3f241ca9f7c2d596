/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The NeuronCore target: every kernel that the engines can run becomes a program, the others run on the host. An image holds, for each kernel of the plan and each
 * physical core of a logical one, where its program lies among the bytes behind (two u64: offset and size; 0: it has none), then the programs (neuron_encode()). A kernel
 * that is not cut in halves has one for the first core only.
 */
#include "compiler/image_int.h"
#include "compiler/neuron/neuron_int.h"

#include <stdlib.h>
#include <string.h>

static const struct pass_machine *machine(struct ir_ctx *ctx, const char *arch)
{
    const struct nk_machine *m = nk_machine_make(ctx, arch);
    return m ? &m->pass : NULL;
}

static const char *resolve(struct ir_ctx *ctx, const char *arch)
{
    return ir_strdup(ctx, strcmp(arch, "native") ? arch : "trn1");
}

static const char *refuses(struct ir_ctx *ctx, const struct kn_kernel *k)
{
    return target_cpu.refuses(ctx, k); /* any kernel may run on the host */
}

static void dump(const struct target_options *o, const struct kn_kernel *k, const char *which,
                 const struct neuron_program *p)
{
    char *text = neuron_disassemble(p);
    fprintf(o->dump_to, "# kernel %s%s\n%s\n", k->name, which, text ? text : "# no memory");
    free(text);
}

struct image {
    uint64_t *table, head; /* two u64 for each program; bytes of all of them */
    VEC(char) bytes;
};

static bool add_program(struct ir_ctx *ctx, struct image *to, int number, const struct neuron_program *p)
{
    size_t size = 0;
    uint8_t *encoded = neuron_encode(p, &size);
    if (!encoded)
        return false;
    to->table[2 * number] = to->head + (uint64_t)to->bytes.n;
    to->table[2 * number + 1] = size;
    for (size_t b = 0; b < size; b++)
        VEC_PUSH(ctx, to->bytes, (char)encoded[b]);
    free(encoded);
    return true;
}

/* Programs of kernel i; false: *why says why it has none. */
static bool add_kernel(struct ir_ctx *ctx, const struct nk_machine *m, const struct target_options *o, struct image *to,
                       int i, const struct kn_kernel *k, const char **why)
{
    const struct kn_kernel *half[2];
    struct neuron_program *p[2] = {NULL, NULL};
    bool fine, dumps = o->dump && !strcmp(o->dump, "neuron");
    if (m->lnc == 2 && nk_halves(ctx, k, half))
        for (int core = 0; core < 2; core++)
            p[core] = neuron_kernel_program(ctx, m, half[core], why);
    bool cut = p[0] && p[1];
    if (!cut) {
        neuron_program_free(p[0]);
        neuron_program_free(p[1]);
        p[1] = NULL;
        p[0] = neuron_kernel_program(ctx, m, k, why);
    }
    fine = p[0] != NULL;
    for (int core = 0; core < 2 && fine && p[core]; core++) {
        fine = add_program(ctx, to, i * m->lnc + core, p[core]);
        if (dumps && fine)
            dump(o, k, !cut ? "" : core ? ", core 1" : ", core 0", p[core]);
    }
    neuron_program_free(p[0]);
    neuron_program_free(p[1]);
    return fine;
}

static bool compile(struct ir_ctx *ctx, const struct kn_program *p, const struct target_options *o, const char *prefix,
                    const char *folder, struct target_code *code)
{
    const struct nk_machine *m = nk_machine_make(ctx, o->arch);
    (void)folder;
    if (!m)
        return false;
    struct image_kernel *kernels = IR_NEWN(ctx, p->nkernels + 1, struct image_kernel);
    int nprograms = p->nkernels * m->lnc;
    struct image image = {.table = IR_NEWN(ctx, 2 * nprograms + 2, uint64_t), .head = 16 * (uint64_t)nprograms};
    for (int i = 0; i < p->nkernels; i++) {
        const struct kn_kernel *k = p->kernels[i];
        const char *why = "no memory";
        if (!strcmp(k->schedule.how, "host")) {
            if (o->dump && !strcmp(o->dump, "neuron")) {
                neuron_program_free(neuron_kernel_program(ctx, m, k, &why));
                fprintf(o->dump_to, "# kernel %s: on the host: %s\n", k->name, why);
            }
            continue;
        }
        if (!add_kernel(ctx, m, o, &image, i, k, &why)) {
            ir_error(ctx, NULL, "kernel %s: the engines can't run it: %s", ir_shown(k->name), why);
            return false;
        }
        kernels[i].nlaunches = 1;
        kernels[i].launches[0].symbol = ir_internf(ctx, "%sk%d", prefix, i);
    }
    char *all = IR_NEWN(ctx, image.head + (uint64_t)image.bytes.n + 1, char);
    memcpy(all, image.table, image.head);
    if (image.bytes.n)
        memcpy(all + image.head, image.bytes.at, (size_t)image.bytes.n);
    target_add_image(ctx, code,
                     image_make(ctx, p, kernels, o->arch, "neuron", all, image.head + (size_t)image.bytes.n));
    return true;
}

const struct target target_neuron = {.name = "neuron",
                                     .machines = "trn1 trn2",
                                     .host = &target_cpu,
                                     .device = "tcr_device_neuron",
                                     .machine = machine,
                                     .resolve = resolve,
                                     .refuses = refuses,
                                     .compile = compile};
