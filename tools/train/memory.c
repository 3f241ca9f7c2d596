/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --memory-report: what each rank holds and took. Measured is the process's anonymous memory (/proc/self/statm) beyond
 * what it had before its session was made, looked at between steps, since a session's memory grows to what a step takes
 * and stays; batches that wait are in it, mapped files are not. Of a device with a memory of its own: what the session
 * has held at most, and weights, which sessions share. The prediction is the compiler's (tccrt_memory()).
 */
#include "tools/train/train_int.h"

#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#define MANY_LOOKS 8 /* at the first steps; then */
#define OFTEN 50     /* milliseconds */

/* 0: the system doesn't say. */
static int64_t anonymous_bytes(void)
{
    long long size, resident, shared;
    FILE *f = fopen("/proc/self/statm", "re");
    bool ok = f && fscanf(f, "%lld %lld %lld", &size, &resident, &shared) == 3;

    if (f)
        fclose(f);
    return ok ? (int64_t)(resident - shared) * sysconf(_SC_PAGESIZE) : 0;
}

void memory_begin(struct trainer *t)
{
    t->memory = (struct trainer_memory){.before = anonymous_bytes(), .predicted = -1};
}

void memory_look(struct trainer *t)
{
    struct tccrt_memory m;
    double time = now_ms();

    if (t->done > t->done_at_start + MANY_LOOKS && time - t->looked < OFTEN)
        return;
    t->looked = time;
    int64_t now = anonymous_bytes() - t->memory.before;
    t->memory.now = now;
    if (now > t->memory.peak)
        t->memory.peak = now;
    if (tccrt_memory(t->m.session, t->step.name, &m) == TCC_OK) {
        t->memory.state = m.state;
        t->memory.device = m.device_peak;
        t->memory.device_now = m.device;
        t->memory.weights = m.device_weights;
        t->memory.params = m.params;
        t->memory.optimizer = m.optimizer;
        t->memory.gradients = m.gradients;
        t->memory.arena = m.arena;
        t->memory.constants = m.weights;
        t->memory.predicted = m.predicted > t->memory.predicted ? m.predicted : t->memory.predicted;
    }
}

static void show(const struct trainer *t, int rank, const struct trainer_memory *m)
{
    char predicted[40] = "null";

    if (m->predicted >= 0)
        snprintf(predicted, sizeof predicted, t->json ? "%.0f" : "%.1f MB", (double)m->predicted / (t->json ? 1 : 1e6));
    if (t->json)
        printf("{\"rank\":%d,\"state_bytes\":%" PRId64 ",\"peak_bytes\":%" PRId64 ",\"predicted_peak_bytes\":%s", rank,
               m->state, m->peak, predicted);
    else
        printf("rank %d: %.1f MB of state, peak of memory %.1f MB (predicted: %s)", rank, (double)m->state / 1e6,
               (double)m->peak / 1e6, m->predicted >= 0 ? predicted : "not known");
    if (t->json)
        printf(",\"param_bytes\":%" PRId64 ",\"optimizer_bytes\":%" PRId64 ",\"gradient_bytes\":%" PRId64
               ",\"arena_bytes\":%" PRId64 ",\"constant_bytes\":%" PRId64,
               m->params, m->optimizer, m->gradients, m->arena, m->constants);
    else if (m->constants >= 100000)
        printf(", %.1f MB of constants in the artifact", (double)m->constants / 1e6);
    if (m->device)
        printf(t->json ? ",\"device_peak_bytes\":%.0f,\"device_weight_bytes\":%.0f"
                       : ", of the device %.1f MB and %.1f MB of weights",
               (double)m->device / (t->json ? 1 : 1e6), (double)m->weights / (t->json ? 1 : 1e6));
    puts(t->json ? "}" : "");
}

int report_memory(struct trainer *t)
{
    int64_t count = (int64_t)sizeof t->memory / 8;
    struct trainer_memory *all = calloc((size_t)t->processes, sizeof *all);
    struct tcc_tensor in = {&t->memory, TCC_I64, 1, {count}}, out = {all, TCC_I64, 1, {count * t->processes}};
    int code = all ? EXIT_FINE : tool_error(t->o, EXIT_ENVIRONMENT, "no memory");
    bool shown = t->chief && (option_set(t->o, OPT_memory_report) || !(t->json || t->quiet));

    if (code == EXIT_FINE && tccrt_comm_all_gather(t->world, &in, &out, NULL, NULL) != TCC_OK)
        code = trainer_status(t, TCC_EENV);
    for (int r = 0; r < t->processes && shown && code == EXIT_FINE; r++)
        show(t, r, &all[r]);
    free(all);
    return code;
}
