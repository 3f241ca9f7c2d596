/* SPDX-License-Identifier: Apache-2.0 */
/* open.c - devices by name. */
#include <string.h>

#include "runtime/device/cpu/cpu_int.h"
#include "runtime/device/split/split_int.h"

static const struct {
    const char *name;
    int (*open)(const struct tcr_device_request *r, struct tcr_device **out);
} devices[] = {{"cpu", tcr_device_cpu}, {"cpu-split", tcr_device_split}};

/* Known by name, and to come. */
static const char *const later[] = {"cuda", "sim", "neuron"};

int tcr_device_open(const char *name, const struct tcr_device_request *r, struct tcr_device **out)
{
    *out = NULL;
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++)
        if (!strcmp(devices[i].name, name))
            return devices[i].open(r, out);
    for (size_t i = 0; i < sizeof later / sizeof *later; i++)
        if (!strncmp(later[i], name, strlen(later[i])))
            return tcr_fail(TCC_EENV, "device '%s': not in this version: there are auto, cpu and cpu-split", name);
    return tcr_fail(TCC_EUSAGE, "no device '%s': there are auto, cpu and cpu-split", name);
}
