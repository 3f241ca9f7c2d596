/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Profiles: time, floating-point operations and bytes per step of the plan, summed over runs; and the events of the
 * last run (or of the runs that were under way together) as a Chrome trace (https://chromium.googlesource.com/catapult:
 * "Trace Event Format", complete events).
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "base/numbers.h"
#include "runtime/rt_int.h"
#include "base/safe.h"

#define STAGES 2
#define DEVICE 1000           /* + its queue */
#define THREADS 2000          /* + the host's thread */
#define SPANS 900             /* + the number of the program's own track */
#define MAX_EVENTS (1u << 20) /* of a run with long loops only the first are kept */

struct total {
    int64_t calls;
    double ns, flops, bytes;
    const char *bound; /* by what the device says, of the last launch */
};
struct event {
    uint32_t step,
        /* track 1: communication under way; STAGES + stage: steps of that stage's list; THREADS + i: that thread's part
         * in the step */
        track;
    double start, end;
};

/* Bytes that the session has, from then on: in the host's memory, and in a device's of its own. */
struct sample {
    double at;
    size_t bytes[2];
};

struct start {
    uint32_t events, samples;
    double at;
};

struct tcr_profile {
    struct total *totals; /* by step */
    struct total others;  /* a device's copies of no step: of inputs, outputs and state */
    struct total waits;   /* of the host for the device */
    struct tccrt_profile_row *rows;
    struct event *events;
    struct sample *samples;
    uint32_t nevents, room, nsamples, sample_room;
    struct tcr_part *parts; /* what the host writes to by thread, while it is open */
    double begin;
    struct start starts[TCR_RUNS]; /* by number of the run that was given, of those under way */
};

static const char *const kind_names[] = {
    [TCC_STEP_LAUNCH] = "launch",
    [TCC_STEP_COPY] = "copy",
    [TCC_STEP_LIB] = "library op",
    [TCC_STEP_BIND] = "bind",
    [TCC_STEP_DIMS] = "dims",
    [TCC_STEP_EVAL] = "sizes",
    [TCC_STEP_ALLOC] = "alloc",
    [TCC_STEP_FREE] = "free",
    [TCC_STEP_IF] = "if",
    [TCC_STEP_LOOP] = "loop",
    [TCC_STEP_BOX] = "box",
    [TCC_STEP_UNBOX] = "unbox",
    [TCC_STEP_ACCUM] = "append",
    [TCC_STEP_STACK] = "stack",
    [TCC_STEP_CHECK] = "check",
    [TCC_STEP_REF] = "share",
    [TCC_STEP_COLLECTIVE] = "collective",
    [TCC_STEP_SEND] = "send",
    [TCC_STEP_RECV] = "receive",
    [TCC_STEP_PROGRAM] = "program",
    [TCC_STEP_PARALLEL] = "parallel",
    [TCC_STEP_BATCH] = "launch",
    [TCC_STEP_CALL] = "call",
    [TCC_STEP_RESULT] = "output",
};

int tcr_profile_new(struct tccrt_session *s)
{
    size_t n = s->m->plan->steps.count + 3;
    struct tcr_profile *p = calloc(1, sizeof *p);

    if (!p)
        return tcr_fail(TCC_EENV, "no memory for a profile");
    s->profile = p;
    p->totals = calloc(n, sizeof *p->totals);
    p->rows = calloc(n, sizeof *p->rows);
    if (s->host->threads > 1) { /* one thread's part is the step */
        size_t bytes = (size_t)s->host->threads * sizeof *p->parts;
        if ((p->parts = aligned_alloc(TCR_ALIGN, bytes)))
            memset(p->parts, 0, bytes);
        s->host->parts = p->parts;
    }
    return p->totals && p->rows && (s->host->threads == 1 || p->parts) ? TCC_OK
                                                                       : tcr_fail(TCC_EENV, "no memory for a profile");
}

void tcr_profile_free(struct tccrt_session *s)
{
    if (!s->profile)
        return;
    free(s->profile->totals);
    free(s->profile->rows);
    free(s->profile->events);
    free(s->profile->samples);
    free(s->profile->parts);
    free(s->profile);
}

/* Room for one more in a list that a run makes longer, up to MAX_EVENTS; false: it stays as it is. */
static bool more_room(void *list, uint32_t n, uint32_t *room, size_t each)
{
    return n < *room || (*room < MAX_EVENTS && tcc_grow(list, each, room, sizeof *room, 1024));
}

/* What the session has now, where that is not what it had. */
static void sample_memory(struct tccrt_session *s, double at)
{
    struct tcr_profile *f = s->profile;
    struct sample now = {at, {s->heap.held, s->device->held}},
                  *last = f->nsamples ? &f->samples[f->nsamples - 1] : NULL;

    if ((last && !memcmp(last->bytes, now.bytes, sizeof now.bytes)) ||
        !more_room(&f->samples, f->nsamples, &f->sample_room, sizeof now))
        return;
    f->samples[f->nsamples++] = now;
}

/* Where the lists stood when a run began. */
static void mark_run(struct tcr_profile *f, int64_t run, double at)
{
    f->starts[run % TCR_RUNS] = (struct start){f->nevents, f->nsamples, at};
}

void tcr_profile_begin(struct tccrt_session *s)
{
    struct tcr_profile *f = s->profile;

    f->nevents = f->nsamples = 0;
    f->begin = tcr_now();
    sample_memory(s, f->begin);
    mark_run(f, s->given, f->begin);
}

/* What lies before the first run that is under way goes, up to the oldest of the lists' first `events` and
 * `samples`. */
static void forget(struct tcr_profile *f, const struct start *first)
{
    memmove(f->events, f->events + first->events, (f->nevents - first->events) * sizeof *f->events);
    memmove(f->samples, f->samples + first->samples, (f->nsamples - first->samples) * sizeof *f->samples);
    f->nevents -= first->events;
    f->nsamples -= first->samples;
    f->begin = first->at;
}

void tcr_profile_behind(struct tccrt_session *s)
{
    struct tcr_profile *f = s->profile;
    struct start first = f->starts[s->waited % TCR_RUNS];

    if (!s->device->timing) { /* times of a device come when all is done, as of the oldest run */
        forget(f, &first);
        for (int64_t r = s->waited; r < s->given; r++) {
            f->starts[r % TCR_RUNS].events -= first.events;
            f->starts[r % TCR_RUNS].samples -= first.samples;
        }
    }
    mark_run(f, s->given, tcr_now());
}

/* Bytes of the step's operands, where they are known. */
static double traffic(const struct tccrt_session *s, const struct tcc_pstep *p)
{
    double bytes = 0;

    if (p->kind != TCC_STEP_LAUNCH && p->kind != TCC_STEP_COPY)
        return 0;
    for (uint32_t i = 0; i < p->args.count; i++) {
        uint32_t e = s->m->buffers[s->m->u32s[p->args.first + i]].bytes;

        if (e != TCC_NO && s->values[e] > 0)
            bytes += (double)s->values[e];
    }
    return bytes;
}

static void add_event(struct tcr_profile *f, struct event e)
{
    if (more_room(&f->events, f->nevents, &f->room, sizeof e))
        f->events[f->nevents++] = e;
}

/* What each of the host's threads did of the step that has ended. */
static void add_parts(struct tccrt_session *s, uint32_t step, double start)
{
    struct tcr_part *parts = s->host->parts;

    for (int i = 0; parts && i < s->host->threads; i++) {
        if (parts[i].end > 0 && parts[i].start >= start)
            add_event(s->profile, (struct event){step, THREADS + (uint32_t)i, parts[i].start, parts[i].end});
        parts[i].end = 0;
    }
}

/* As a call of step p: what step x does. */
static void count_work(struct tccrt_session *s, const struct tcc_pstep *p, const struct tcc_pstep *x)
{
    struct total *t = &s->profile->totals[p - s->m->steps];
    uint32_t flops = x->kind == TCC_STEP_LAUNCH ? x->flops : TCC_NO;

    t->bytes += traffic(s, x);
    if (flops != TCC_NO && s->values[flops] > 0)
        t->flops += (double)s->values[flops];
}

static void count(struct tccrt_session *s, const struct tcc_pstep *p)
{
    s->profile->totals[p - s->m->steps].calls++;
    count_work(s, p, p);
}

/* Does the device take the time of the step? */
static bool is_devices(const struct tccrt_session *s, const struct tcc_pstep *p)
{
    return s->device->timing && !s->ordered && (p->kind == TCC_STEP_LAUNCH || p->kind == TCC_STEP_COPY);
}

void tcr_profile_given(struct tccrt_session *s, const struct tcc_pstep *p)
{
    if (p->regions.count == 0)
        count(s, p);
}

void tcr_profile_batch(struct tccrt_session *s, const struct tcc_pstep *p)
{
    struct tcc_range steps = s->m->regions[p->regions.first].steps;

    s->profile->totals[p - s->m->steps].calls++;
    for (uint32_t i = 0; i < steps.count; i++)
        count_work(s, p, &s->m->steps[steps.first + i]);
}

void tcr_profile_waited(struct tccrt_session *s, double ns)
{
    s->profile->waits.calls++;
    s->profile->waits.ns += s->device->modelled ? 0 : ns; /* the simulator's own time says nothing */
}

void tcr_profile_device(struct tccrt_session *s)
{
    struct tcr_profile *f = s->profile;
    const struct tcr_timed *list;
    size_t n = 0;

    if (!s->device->timing || s->device->ops->timed(s->device, &list, &n))
        return;
    for (size_t i = 0; i < n; i++) {
        struct total *t = list[i].tag == TCC_NO ? &f->others : &f->totals[list[i].tag];

        t->ns += list[i].end - list[i].start;
        t->bound = list[i].bound;
        if (list[i].tag == TCC_NO) {
            t->calls++;
            t->bytes += (double)list[i].bytes;
        }
        add_event(f, (struct event){list[i].tag, DEVICE + (uint32_t)list[i].queue, f->begin + list[i].start,
                                    f->begin + list[i].end});
    }
}

/* Regions' own steps are counted; IF and LOOP appear in the trace only. */
void tcr_profile_step(struct tccrt_session *s, const struct tcc_pstep *p, double start, double end)
{
    struct tcr_profile *f = s->profile;
    uint32_t step = (uint32_t)(p - s->m->steps);

    sample_memory(s, end);
    if (p->regions.count == 0) {
        count(s, p);
        if (is_devices(s, p))
            return;
        f->totals[step].ns += end - start;
    }
    add_event(f, (struct event){step, 0, start, end});
    add_parts(s, step, start);
}

/* Time for which the run stood still until the step that it had started ended is that step's. */
void tcr_profile_wait(struct tccrt_session *s, uint32_t step, double ns)
{
    if (s->profile)
        s->profile->totals[step].ns += ns;
}

void tcr_profile_aside(struct tccrt_session *s, uint32_t step, double start, double end)
{
    if (s->profile)
        add_event(s->profile, (struct event){step, 1, start, end});
}

void tcr_profile_staged(struct tccrt_session *s, uint32_t stage, const struct tcc_pstep *p, double start, double end)
{
    if (s->profile)
        add_event(s->profile, (struct event){(uint32_t)(p - s->m->steps), STAGES + stage, start, end});
}

const char *tcr_profile_name(const struct tccrt_session *s, const struct tcc_pstep *p)
{
    return p->kind == TCC_STEP_LAUNCH || p->kind == TCC_STEP_BATCH ? tcr_string(s->m, s->m->kernels[p->what].name)
                                                                   : kind_names[p->kind];
}

static int slower_first(const void *a, const void *b)
{
    const struct tccrt_profile_row *x = a, *y = b;

    return x->ns > y->ns ? -1 : x->ns < y->ns;
}

/* Rows, slowest first; they belong to the session and are good until its next run or profile. -1: profiling is off. */
int tccrt_profile(struct tccrt_session *s, const struct tccrt_profile_row **rows)
{
    struct tcr_profile *f = s ? s->profile : NULL;
    int n = 0;

    if (!s || !rows) {
        tcr_fail(TCC_EUSAGE, "profile: a session and a place for the rows are required, got NULL");
        return -1;
    }
    *rows = NULL;
    if (!f) {
        tcr_fail(TCC_EUSAGE, "the session was made without profiling");
        return -1;
    }
    for (uint32_t i = 0; i < s->m->plan->steps.count; i++) {
        const struct total *t = &f->totals[i];

        if (t->calls)
            f->rows[n++] = (struct tccrt_profile_row){tcr_profile_name(s, &s->m->steps[i]),
                                                      tcr_string(s->m, s->m->steps[i].node),
                                                      t->calls,
                                                      t->ns,
                                                      t->flops,
                                                      t->bytes,
                                                      t->bound};
    }
    if (f->others.calls)
        f->rows[n++] = (struct tccrt_profile_row){
            "copy", "inputs, outputs and state", f->others.calls, f->others.ns, 0, f->others.bytes, NULL};
    if (f->waits.calls)
        f->rows[n++] =
            (struct tccrt_profile_row){"wait", "the host for the device", f->waits.calls, f->waits.ns, 0, 0, NULL};
    qsort(f->rows, (size_t)n, sizeof *f->rows, slower_first);
    *rows = f->rows;
    return n;
}

int tccrt_profile_reset(struct tccrt_session *s)
{
    if (!s || !s->profile)
        return tcr_fail(TCC_EUSAGE, "the session was made without profiling");
    memset(s->profile->totals, 0, (s->m->plan->steps.count + 1) * sizeof *s->profile->totals);
    s->profile->others = s->profile->waits = (struct total){0};
    return TCC_OK;
}

static void put_event(FILE *f, const struct tccrt_session *s, const struct event *e)
{
    double begin = s->profile->begin;
    bool staged = e->track >= STAGES && e->track < DEVICE;
    const struct tcc_pstep *step = e->step == TCC_NO ? NULL : &s->m->steps[e->step];
    const char *kind = !step ? "copy" : staged && step->kind == TCC_STEP_COLLECTIVE ? "gather" : kind_names[step->kind];

    fputs("{\"name\":", f);
    tcr_print_json(f, !step ? "copy" : staged ? tcr_string(s->m, step->node) : tcr_profile_name(s, step));
    fprintf(f, ",\"cat\":\"%s\",\"ph\":\"X\",\"pid\":%d,\"tid\":%u,\"ts\":%.3f,\"dur\":%.3f,\"args\":{", kind,
            s->stage > 0 ? s->stage : 1, 1 + e->track, (e->start - begin) / 1e3, (e->end - e->start) / 1e3);
    if (staged) {
        fprintf(f, "\"microbatch\":%u", tcr_stage_micro(s->m, step));
    } else {
        fputs("\"node\":", f);
        tcr_print_json(f, step ? tcr_string(s->m, step->node) : "");
    }
    fputs("}}", f);
}

static void put_track_name(FILE *f, int pid, int tid, const char *name)
{
    fprintf(f, "{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":%d,\"tid\":%d,\"args\":{\"name\":", pid, tid);
    tcr_print_json(f, name);
    fputs("}}", f);
}

/* Between two events of the list. */
static void next_event(FILE *f, bool *any)
{
    fputs(*any ? ",\n" : "\n", f);
    *any = true;
}

/* The program's own rows: the first span of a track names it. */
static void put_spans(FILE *f, const struct tccrt_session *s, int n, const struct tccrt_span *spans, bool *any)
{
    int pid = s->stage > 0 ? s->stage : 1;

    for (int i = 0; i < n; i++) {
        int first = 0;

        while (strcmp(spans[first].track, spans[i].track) != 0)
            first++;
        if (first == i) {
            next_event(f, any);
            put_track_name(f, pid, SPANS + first, spans[i].track);
        }
        if (spans[i].end < s->profile->begin)
            continue;
        next_event(f, any);
        fputs("{\"name\":", f);
        tcr_print_json(f, spans[i].name);
        fprintf(f, ",\"cat\":\"program\",\"ph\":\"X\",\"pid\":%d,\"tid\":%d,\"ts\":%.3f,\"dur\":%.3f}", pid,
                SPANS + first, (spans[i].start - s->profile->begin) / 1e3, (spans[i].end - spans[i].start) / 1e3);
    }
}

/* Memory over time, as a counter: what the session has on the host, and on a device with a memory of its own. */
static void put_samples(FILE *f, const struct tccrt_session *s, bool *any)
{
    const struct tcr_profile *p = s->profile;
    int pid = s->stage > 0 ? s->stage : 1;

    for (uint32_t i = 0; i < p->nsamples; i++) {
        next_event(f, any);
        fprintf(f, "{\"name\":\"memory\",\"ph\":\"C\",\"pid\":%d,\"ts\":%.3f,\"args\":{\"host\":%zu", pid,
                (p->samples[i].at - p->begin) / 1e3, p->samples[i].bytes[0]);
        if (s->discrete)
            fprintf(f, ",\"device\":%zu", p->samples[i].bytes[1]);
        fputs("}}", f);
    }
}

int tccrt_profile_trace(struct tccrt_session *s, const char *path)
{
    return tccrt_profile_trace_with(s, path, 0, NULL);
}

int tccrt_profile_trace_with(struct tccrt_session *s, const char *path, int n, const struct tccrt_span *spans)
{
    struct tcr_profile *p = s && path ? s->profile : NULL;
    struct tcr_save save;
    bool any = false;
    locale_t before;
    FILE *f;

    if (!p)
        return tcr_fail(TCC_EUSAGE, "the session was made without profiling");
    if (tcr_save_open(&save, path, TCR_SAVE_STREAM))
        return tcr_fail(TCC_EENV, "%s: %s", path, strerror(errno));
    f = save.stream;
    before = tcc_locale_plain();
    fputs("{\"traceEvents\":[", f);
    for (uint32_t i = 0; i < p->nevents; i++) {
        next_event(f, &any);
        put_event(f, s, &p->events[i]);
    }
    for (int i = 0; s->host->parts && i < s->host->threads; i++) {
        char name[32];
        snprintf(name, sizeof name, "thread %d", i);
        next_event(f, &any);
        put_track_name(f, s->stage > 0 ? s->stage : 1, 1 + THREADS + i, name);
    }
    put_samples(f, s, &any);
    put_spans(f, s, n, spans, &any);
    if (s->device->ops->trace) {
        next_event(f, &any);
        s->device->ops->trace(s->device, f);
    }
    fputs("\n],\"displayTimeUnit\":\"ms\"}\n", f);
    tcc_locale_back(before);
    return tcr_save_commit(&save) ? tcr_fail(TCC_EENV, "%s: %s", path, strerror(errno)) : TCC_OK;
}
