/* SPDX-License-Identifier: Apache-2.0 */
/* Modelled time of a simulated device: a run's share, as text and as JSON. */
#include "tools/run/sim_int.h"

#include <inttypes.h>
#include <string.h>

struct tccrt_sim sim_between(const struct tccrt_sim *before, const struct tccrt_sim *after, int runs)
{
    struct tccrt_sim d = *after;
    double n = runs > 0 ? runs : 1;

#define SHARE(field) d.field = (__typeof__(d.field))((double)(after->field - before->field) / n)
    SHARE(seconds);
    SHARE(copy_seconds);
    SHARE(launches);
    SHARE(copies);
    SHARE(collectives);
    SHARE(collective_bytes);
    SHARE(collective_seconds);
    SHARE(exposed_seconds);
    SHARE(copy_bytes);
    SHARE(dma_transfers);
    SHARE(dma_bytes);
    SHARE(dma_paid_bytes);
    SHARE(hbm_read);
    SHARE(hbm_written);
    SHARE(dma_busy);
    SHARE(hbm_busy);
    SHARE(flops);
    SHARE(peak_flops);
    for (int e = 0; e < d.nengines; e++) {
        SHARE(engines[e].instructions);
        SHARE(engines[e].busy);
        SHARE(engines[e].waiting);
    }
#undef SHARE
    return d;
}

/* What was busy longest, and for what part of the time. */
static const char *bound(const struct tccrt_sim *s, double *part)
{
    const struct {
        const char *name;
        double busy;
    } others[] = {
        {"dma", s->dma_busy}, {"hbm", s->hbm_busy}, {"copies", s->copy_seconds}, {"collectives", s->exposed_seconds}};
    const char *name = "nothing";
    double most = 0;

    for (int k = 0; k < s->nengines + 4; k++) {
        double busy = k < s->nengines ? s->engines[k].busy : others[k - s->nengines].busy;

        if (busy <= most)
            continue;
        most = busy;
        name = k < s->nengines ? s->engines[k].name : others[k - s->nengines].name;
    }
    *part = s->seconds > 0 ? most / s->seconds : 0;
    return name;
}

static double share(double part, double whole)
{
    return whole > 0 ? 100 * part / whole : 0;
}

void sim_print(FILE *to, const struct tccrt_sim *s)
{
    double hbm = (double)(s->hbm_read + s->hbm_written), part;
    const char *limit = bound(s, &part);

    fprintf(to, "modelled on %s%s: %.3f us of %" PRId64 " launches and %" PRId64 " copies; busiest: %s, %.1f %%%s\n",
            s->core, s->physical > 1 ? ", two cores" : "", s->seconds * 1e6, s->launches, s->copies, limit, 100 * part,
            s->rounding && strcmp(s->rounding, "nearest") ? "; stochastic rounding" : "");
    for (int e = 0; e < s->nengines; e++)
        if (s->engines[e].instructions)
            fprintf(to, "  %-7s %" PRId64 " instructions, busy %.1f %%, waiting for semaphores %.1f %%\n",
                    s->engines[e].name, s->engines[e].instructions, share(s->engines[e].busy, s->seconds),
                    share(s->engines[e].waiting, s->seconds));
    if (s->dma_transfers)
        fprintf(to,
                "  dma     %" PRId64 " transfers, %" PRId64
                " bytes, %.1f %% of the bytes that rows are paid for, engines busy %.1f %%\n",
                s->dma_transfers, s->dma_bytes, share((double)s->dma_bytes, (double)s->dma_paid_bytes),
                share(s->dma_busy, s->seconds));
    if (hbm > 0)
        fprintf(to, "  hbm     %" PRId64 " bytes read, %" PRId64 " written, %.1f GB/s\n", s->hbm_read, s->hbm_written,
                s->seconds > 0 ? hbm / s->seconds / 1e9 : 0);
    fprintf(to, "  copies  %" PRId64 " bytes, %.3f us\n", s->copy_bytes, s->copy_seconds * 1e6);
    if (s->collectives)
        fprintf(to, "  ranks   %" PRId64 " collectives, %" PRId64 " bytes, %.3f us; the core waited %.3f us for them\n",
                s->collectives, s->collective_bytes, s->collective_seconds * 1e6, s->exposed_seconds * 1e6);
    if (s->flops > 0)
        fprintf(to,
                "  products %.0f FLOP, %.3f TFLOP/s, %.2f %% of the peak for 16-bit types; %.1f FLOP a byte of HBM\n",
                s->flops, s->flops / s->seconds / 1e12, share(s->flops, s->peak_flops), hbm > 0 ? s->flops / hbm : 0);
}

void sim_print_json(FILE *to, const struct tccrt_sim *s)
{
    double part;
    const char *limit = bound(s, &part);

    fprintf(to,
            "{\"core\":\"%s\",\"lnc\":%d,\"rounding\":\"%s\",\"ms\":%.9g,\"copy_ms\":%.9g,\"launches\":%" PRId64
            ",\"copies\":%" PRId64 ",\"copy_bytes\":%" PRId64
            ",\"bound\":\"%s\",\"bound_share\":%.4f,\"dma_transfers\":%" PRId64 ",\"dma_bytes\":%" PRId64
            ",\"dma_paid_bytes\":%" PRId64 ",\"dma_busy_ms\":%.9g,\"hbm_read\":%" PRId64 ",\"hbm_written\":%" PRId64
            ",\"collectives\":%" PRId64 ",\"collective_bytes\":%" PRId64
            ",\"collective_ms\":%.9g,\"exposed_ms\":%.9g,\"flops\":%.0f,\"mfu\":%.6g,\"engines\":{",
            s->core, s->physical, s->rounding ? s->rounding : "nearest", s->seconds * 1e3, s->copy_seconds * 1e3,
            s->launches, s->copies, s->copy_bytes, limit, part, s->dma_transfers, s->dma_bytes, s->dma_paid_bytes,
            s->dma_busy * 1e3, s->hbm_read, s->hbm_written, s->collectives, s->collective_bytes,
            s->collective_seconds * 1e3, s->exposed_seconds * 1e3, s->flops,
            s->peak_flops > 0 ? s->flops / s->peak_flops : 0);
    for (int e = 0; e < s->nengines; e++)
        fprintf(to, "%s\"%s\":{\"instructions\":%" PRId64 ",\"busy_ms\":%.9g,\"waiting_ms\":%.9g}", e ? "," : "",
                s->engines[e].name, s->engines[e].instructions, s->engines[e].busy * 1e3, s->engines[e].waiting * 1e3);
    fputs("}}", to);
}
