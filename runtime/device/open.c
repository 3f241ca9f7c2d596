/* SPDX-License-Identifier: Apache-2.0 */
/* open.c - devices by name. */
#include <string.h>

#include "runtime/device/cpu/cpu_int.h"
#include "runtime/device/cuda/cuda_int.h"
#include "runtime/device/neuron/neuron_int.h"
#include "runtime/device/split/split_int.h"

static const struct {
    const char *name;
    int (*open)(const struct tcr_device_request *r, struct tcr_device **out);
} devices[] = {{"cpu", tcr_device_cpu}, {"cpu-split", tcr_device_split}};

/* Artifacts for the CPU go without them: linkers take no file of an archive for a weak name (optional.c). */
#pragma weak tcr_device_cuda
#pragma weak tcr_device_neuron

/* NAME or NAME:something */
static bool is_called(const char *name, const char *device)
{
    size_t n = strlen(device);

    return !strncmp(name, device, n) && (!name[n] || name[n] == ':');
}

/* The simulator of which machines? Of those that the artifact has images for. */
static bool is_for_neuron(const struct tcr_device_request *r)
{
    const struct tcc_pimage *i = r->nimages ? r->images[0] : NULL;

    return i && !strcmp(tcr_image_text(i, i->format), "neuron");
}

int tcr_device_open(const char *name, const struct tcr_device_request *r, struct tcr_device **out)
{
    *out = NULL;
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++)
        if (!strcmp(devices[i].name, name))
            return devices[i].open(r, out);
    for (uint32_t i = 0; i < r->nimages; i++)
        if (!tcr_image_ok(r->images[i], r->nkernels))
            return TCC_EBUG;
    if (is_called(name, "neuron") || (is_called(name, "sim") && is_for_neuron(r))) {
        if (tcr_device_neuron)
            return tcr_device_neuron(name, r, out);
        return tcr_fail(
            TCC_EENV,
            "device '%s': what was compiled for the CPU only, and is not run by a tool, has no NeuronCore runtime",
            name);
    }
    if (is_called(name, "cuda") || is_called(name, "sim")) {
        if (tcr_device_cuda)
            return tcr_device_cuda(name, r, out);
        return tcr_fail(
            TCC_EENV, "device '%s': what was compiled for the CPU only, and is not run by a tool, has no CUDA runtime",
            name);
    }
    return tcr_fail(TCC_EUSAGE, "no device '%s': there are auto, cpu, cpu-split, cuda[:K], neuron and sim", name);
}
