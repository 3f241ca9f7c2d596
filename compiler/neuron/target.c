/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The NeuronCore target: every kernel that the engines can run becomes a program, the others run on the host. An image holds, for each kernel of the plan,
 * where its program lies among the bytes behind (two u64: offset and size; 0: it has none), then the programs (neuron_encode()).
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

static void dump(const struct target_options *o, const struct kn_kernel *k, const struct neuron_program *p)
{
    char *text = neuron_disassemble(p);
    fprintf(o->dump_to, "# kernel %s\n%s\n", k->name, text ? text : "# no memory");
    free(text);
}

static bool compile(struct ir_ctx *ctx, const struct kn_program *p, const struct target_options *o, const char *prefix,
                    const char *folder, struct target_code *code)
{
    const struct nk_machine *m = nk_machine_make(ctx, o->arch);
    struct image_kernel *kernels = IR_NEWN(ctx, p->nkernels + 1, struct image_kernel);
    uint64_t *table = IR_NEWN(ctx, 2 * p->nkernels + 2, uint64_t), head = 16 * (uint64_t)p->nkernels;
    VEC(char) bytes = {0};
    (void)folder;
    if (!m)
        return false;
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
        struct neuron_program *program = neuron_kernel_program(ctx, m, k, &why);
        size_t size = 0;
        uint8_t *encoded = program ? neuron_encode(program, &size) : NULL;
        if (!encoded) {
            neuron_program_free(program);
            ir_error(ctx, NULL, "kernel %s: the engines can't run it: %s", ir_shown(k->name), why);
            return false;
        }
        if (o->dump && !strcmp(o->dump, "neuron"))
            dump(o, k, program);
        table[2 * i] = head + (uint64_t)bytes.n;
        table[2 * i + 1] = size;
        for (size_t b = 0; b < size; b++)
            VEC_PUSH(ctx, bytes, (char)encoded[b]);
        kernels[i].nlaunches = 1;
        kernels[i].launches[0].symbol = ir_internf(ctx, "%sk%d", prefix, i);
        free(encoded);
        neuron_program_free(program);
    }
    char *all = IR_NEWN(ctx, head + (uint64_t)bytes.n + 1, char);
    memcpy(all, table, head);
    if (bytes.n)
        memcpy(all + head, bytes.at, (size_t)bytes.n);
    target_add_image(ctx, code, image_make(ctx, p, kernels, o->arch, "neuron", all, head + (size_t)bytes.n));
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
