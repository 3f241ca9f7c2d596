/* SPDX-License-Identifier: Apache-2.0 */
/* Options that say something to some targets, or devices, only: to others they would do nothing, and are refused. */
#include "tools/run/model_int.h"

#include <string.h>

enum { ON_CPU = 1, ON_GPU = 2, ON_GPU_SIM = 4, ON_NEURON = 8 };
enum when { COMPILING, RUNNING };

static const struct row {
    enum when when;
    enum option_id id;
    const char *part;
    unsigned targets;
    const char *words;
} rows[] = {
#define HEED(when, id, part, targets, words, example) {when, OPT_##id, part, targets, words},
#include "tools/heeds.def"
#undef HEED
};

static unsigned kind_of(const char *device)
{
    return !strncmp(device, "cuda", 4)     ? ON_GPU
           : !strncmp(device, "sim", 3)    ? ON_GPU_SIM
           : !strncmp(device, "neuron", 6) ? ON_NEURON
                                           : ON_CPU;
}

/* What stands on the command line; TCCC_FLAGS are for all commands. */
static int heeds(const struct options *o, enum when when, const char *device)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct row *r = &rows[i];
        const char *given = option_text(o, r->id, "");
        if (r->when == when && o->given[r->id].n > o->given[r->id].inherited && strstr(given, r->part) &&
            !(r->targets & kind_of(device)))
            return usage_error(o, "--%s%s%s is for %s: it does nothing on %s", option_table[r->id].long_name,
                               *given ? "=" : "", given, r->words, device);
    }
    return EXIT_FINE;
}

int model_heeds(const struct options *o, const struct tccrt_session *s)
{
    return heeds(o, RUNNING, s ? tccrt_device_used(s) : "the interpreter");
}

int compile_heeds(const struct options *o)
{
    return heeds(o, COMPILING, option_text(o, OPT_target, "cpu"));
}
