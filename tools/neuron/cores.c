/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tccc-neuron ls, top and monitor: the cores of the simulated instance, which processes have them and what they have
 * done, in modelled time. ls has the columns of the vendor's neuron-ls, monitor the groups of neuron-monitor's JSON, as
 * far as a simulator has what they show.
 */
#include "sim/neuron/neuronsim.h"
#include "runtime/tccrt.h"
#include "tools/neuron/neuron_tool_int.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

enum { MOST = 128 };

/* An instance: chips in a torus of 4 x 4, joined with their neighbours. */
struct instance {
    const char *kind, *type;
    int chips, per_chip;
    int64_t chip_bytes;
};
static const struct instance instances[] = {
    {"trn1", "trn1.32xlarge", 16, 2, INT64_C(34359738368)},
    {"trn2", "trn2.48xlarge", 16, 8, INT64_C(103079215104)},
    {"trn3", "trn3.48xlarge", 16, 8, INT64_C(154618822656)},
};

static const struct instance *chosen(const struct options *o)
{
    const char *kind = option_text(o, OPT_nc_core, "trn1");

    for (size_t k = 0; k < sizeof instances / sizeof *instances; k++)
        if (!strcmp(instances[k].kind, kind))
            return &instances[k];
    return usage_error(o, "--core=%s: expected trn1, trn2 or trn3", kind), NULL;
}

static void neighbours(int chip, char to[32])
{
    int row = chip / 4, column = chip % 4;
    snprintf(to, 32, "%d, %d, %d, %d", (row + 3) % 4 * 4 + column, (row + 1) % 4 * 4 + column,
             row * 4 + (column + 3) % 4, row * 4 + (column + 1) % 4);
}

/* -- ls -- */

/* Physical cores of a logical one: what the variable says, else what a process has that runs, else the vendor's
 * default; 0 after an error. */
static int configuration(const struct options *o, const struct instance *i, const struct tccrt_neuron_core *c, int n)
{
    const char *said = neuron_env_lnc();
    if (said && strcmp(said, "1") && (strcmp(said, "2") || i->per_chip < 8)) {
        usage_error(o, "NEURON_LOGICAL_NC_CONFIG=%s: expected 1%s", said, i->per_chip < 8 ? " on trn1" : " or 2");
        return 0;
    }
    if (said)
        return *said - '0';
    if (!n)
        return NEURON_DEFAULT_LNC(i->per_chip < 8 ? 2 : 3);
    bool pair = n > 1 && c[0].core % 2 == 0 && c[1].core == c[0].core + 1 && c[1].process == c[0].process;
    return pair ? 2 : 1;
}

static void list_text(const struct instance *i, const struct tccrt_neuron_core *c, int n, int lnc)
{
    int cores = i->per_chip / lnc;
    printf("instance-type: %s (simulated)\nlogical-neuroncore-config: %d\n", i->type, lnc);
    printf("%-6s %-6s %-9s %-8s %-16s %s\n", "DEVICE", "CORES", "CORE IDS", "MEMORY", "CONNECTED", "PROCESSES");
    for (int chip = 0; chip < i->chips; chip++) {
        char near[32], ids[32], memory[32];
        neighbours(chip, near);
        snprintf(ids, sizeof ids, "%d-%d", chip * cores, (chip + 1) * cores - 1);
        snprintf(memory, sizeof memory, "%d GiB", (int)(i->chip_bytes >> 30));
        printf("%-6d %-6d %-9s %-8s %-16s", chip, cores, ids, memory, near);
        for (int k = 0; k < n; k++)
            if (c[k].core / i->per_chip == chip)
                printf(" %" PRId64 ":%" PRId64 "(%s)", c[k].core, c[k].process, c[k].command);
        putchar('\n');
    }
}

static void put_text(const char *text)
{
    putchar('"');
    for (; *text; text++)
        printf((unsigned char)*text < 32 || *text == '"' || *text == '\\' ? "\\u%04x" : "%c", (unsigned char)*text);
    putchar('"');
}

static void put_core(const struct tccrt_neuron_core *c)
{
    printf("{\"core\":%" PRId64 ",\"pid\":%" PRId64 ",\"command\":", c->core, c->process);
    put_text(c->command);
    printf(",\"launches\":%" PRId64 ",\"modelled_s\":%.9g,\"memory\":%" PRId64 ",\"utilization\":{", c->launches,
           c->seconds, c->held);
    for (int e = 0; e < NEURON_NENGINES; e++)
        printf("%s\"%s\":%.4f", e ? "," : "", neuron_engine_name((enum neuron_engine)e),
               c->seconds > 0 ? 100 * c->busy[e] / c->seconds : 0);
    printf("}}");
}

static void list_json(const struct instance *i, const struct tccrt_neuron_core *c, int n, int lnc)
{
    printf("[");
    for (int chip = 0; chip < i->chips; chip++) {
        char near[32];
        const char *comma = "";
        neighbours(chip, near);
        printf("%s{\"neuron_device\":%d,\"nc_count\":%d,\"logical_neuroncore_config\":%d,\"memory_size\":%" PRId64
               ",\"connected_to\":[%s],\"neuron_processes\":[",
               chip ? ",\n" : "", chip, i->per_chip / lnc, lnc, i->chip_bytes, near);
        for (int k = 0; k < n; k++) {
            if (c[k].core / i->per_chip != chip)
                continue;
            printf("%s", comma);
            put_core(&c[k]);
            comma = ",";
        }
        printf("]}");
    }
    printf("]\n");
}

/* -- top, monitor -- */

static void top(const struct instance *i, const struct tccrt_neuron_core *c, int n, int lnc)
{
    printf("%s (simulated): %d of %d %scores in use\n", i->type, n, i->chips * i->per_chip, lnc > 1 ? "physical " : "");
    printf("%-5s %-8s %-16s %10s %12s %10s", "CORE", "PID", "COMMAND", "LAUNCHES", "MODELLED ms", "MEMORY MB");
    for (int e = 0; e < NEURON_NENGINES; e++)
        printf(" %7s%%", neuron_engine_name((enum neuron_engine)e));
    putchar('\n');
    for (int k = 0; k < n; k++) {
        printf("%-5" PRId64 " %-8" PRId64 " %-16.16s %10" PRId64 " %12.3f %10.1f", c[k].core, c[k].process,
               c[k].command, c[k].launches, 1e3 * c[k].seconds, (double)c[k].held / 1e6);
        for (int e = 0; e < NEURON_NENGINES; e++)
            printf(" %8.2f", c[k].seconds > 0 ? 100 * c[k].busy[e] / c[k].seconds : 0);
        putchar('\n');
    }
}

static void monitor(const struct instance *i, const struct tccrt_neuron_core *c, int n, int lnc, double period)
{
    printf("{\"neuron_runtime_data\":[");
    for (int k = 0; k < n; k++) {
        printf("%s{\"pid\":%" PRId64 ",\"neuron_runtime_tag\":", k ? "," : "", c[k].process);
        put_text(c[k].command);
        printf(",\"report\":{\"execution_stats\":{\"period\":%g,\"execution_summary\":{\"completed\":%" PRId64
               "}},\"memory_used\":{\"neuron_runtime_used_bytes\":{\"neuron_device\":%" PRId64
               "}},\"neuroncore_counters\":{\"neuroncores_in_use\":{\"%" PRId64 "\":",
               period, c[k].launches, c[k].held, c[k].core);
        put_core(&c[k]);
        printf("}}}}");
    }
    printf("],\"instance_info\":{\"instance_type\":\"%s\",\"simulated\":true},\"neuron_hardware_info\":{\"neuron_"
           "device_count\":%d,"
           "\"neuroncore_per_device_count\":%d,\"logical_neuroncore_config\":%d}}\n",
           i->type, i->chips, i->per_chip / lnc, lnc);
}

int neuron_cores(const struct options *o, const char *command)
{
    const struct instance *i = chosen(o);
    struct tccrt_neuron_core cores[MOST];
    bool is_monitor = !strcmp(command, "monitor");
    int64_t count = is_monitor ? 0 : 1; /* 0: until it is ended */
    double period = 1;

    if (!i || !option_int(o, OPT_nc_count, 1, INT64_MAX, &count) || !option_float(o, OPT_nc_period, &period))
        return EXIT_USAGE;
    if (!(period >= 0.001 && period <= 86400))
        return usage_error(o, "--period=%g: expected seconds from 0.001 to 86400", period);
    for (int64_t k = 0; !count || k < count; k++) {
        if (k)
            nanosleep(&(struct timespec){(time_t)period, (long)((period - (double)(time_t)period) * 1e9)}, NULL);
        int n = tccrt_neuron_cores(i->kind, MOST, cores), lnc = configuration(o, i, cores, n);
        if (!lnc)
            return EXIT_USAGE;
        if (is_monitor)
            monitor(i, cores, n, lnc, period);
        else if (!strcmp(command, "top"))
            top(i, cores, n, lnc);
        else if (option_set(o, OPT_json))
            list_json(i, cores, n, lnc);
        else
            list_text(i, cores, n, lnc);
        if (fflush(stdout) != 0)
            return tool_error(o, EXIT_ENVIRONMENT, "cannot write standard output: %m");
    }
    return EXIT_FINE;
}
