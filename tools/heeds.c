/* SPDX-License-Identifier: Apache-2.0 */
/* Options of a run that say something to some devices only: to others they would do nothing, and are refused. */
#include "tools/run/model_int.h"

#include <string.h>

enum { ON_CPU = 1, ON_GPU = 2, ON_GPU_SIM = 4, ON_NEURON = 8 };

/* `part`: of the option's argument, NULL: any. */
static const struct row {
    enum option_id id;
    const char *part;
    unsigned devices;
    const char *are;
} rows[] = {
    {OPT_nc_rounding, NULL, ON_NEURON, "NeuronCores"},
    {OPT_nc_sim, NULL, ON_GPU_SIM | ON_NEURON, "simulated devices"},
    {OPT_comm, "nccl", ON_GPU | ON_GPU_SIM, "GPUs"},
};

static unsigned kind_of(const char *device)
{
    return !strncmp(device, "cuda", 4)     ? ON_GPU
           : !strncmp(device, "sim", 3)    ? ON_GPU_SIM
           : !strncmp(device, "neuron", 6) ? ON_NEURON
                                           : ON_CPU;
}

int model_heeds(const struct options *o, const struct tccrt_session *s)
{
    const char *device = s ? tccrt_device_used(s) : "the interpreter";

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct row *r = &rows[i];
        const char *given = option_text(o, r->id, NULL);
        bool here = o->given[r->id].n > o->given[r->id].inherited;
        if (here && (!r->part || strstr(given, r->part)) && !(r->devices & kind_of(device)))
            return usage_error(o, "--%s=%s is for %s: it does nothing on %s", option_table[r->id].long_name, given,
                               r->are, device);
    }
    return EXIT_FINE;
}
