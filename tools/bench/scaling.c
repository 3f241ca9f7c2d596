/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tccc-bench --scaling: what more threads bring, on a machine that needn't have the cores. In runs of one thread each
 * tile is timed; how long a launch takes on n threads follows from giving its tiles to n of them as
 * runtime/device/cpu/host.c does: shares of adjacent tiles, taken in chunks, those who are done take of others. A tile
 * that isn't behind its thread's last one takes as long as in runs in which none is. What lies between launches stays
 * as it is. Not in the model: memory that cores share, and caches that are another's.
 */
#include "base/grow.h"
#include "tools/bench/bench_int.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_COUNTS = 16, MOST_THREADS = 1024, MOST_RUNS = 50, LEAST_RUNS = 5, CHUNKS_PER_SHARE = 8 };
#define COUNT_MS 1000.0 /* for which a number of threads is measured */

/* A line of memory goes from one core to another in some 100 ns: a helper sees the region and joins it, one after the
 * other; the last to leave is seen by whoever waits. */
#define WAKE_NS 200.0
#define JOIN_NS 100.0
#define CHUNK_NS 20.0 /* to take a chunk */

/* Tiles of a run, one launch behind the other: the least that each took. */
struct tiles {
    double *ns;
    int64_t n, room, at; /* at: the next one's, in a later run */
};

struct scaling {
    const struct options *o;
    struct model *m;
    double (*run)(void *user);
    void *user;
    int n, counts[MOST_COUNTS], cores;
    int64_t *launches, nlaunches, room; /* how many tiles each has */
    /* behind its thread's last one, and as the first that a thread runs */
    struct tiles behind, apart, *now;
    double all;                                           /* ns of the tiles of the run at hand */
    double measured[MOST_COUNTS], predicted[MOST_COUNTS]; /* ms; measured < 0: not */
};

/* -- The model ------------------------------------------------------------------------------------------------ */

struct worker {
    double at;         /* when it takes its next chunk */
    int64_t next, end; /* its share */
    int64_t behind;    /* the tile behind the last that it has run */
    int past;          /* shares that it has found empty */
};

static void give_shares(struct worker *w, int threads, int64_t tiles)
{
    int64_t each = tiles / threads, more = tiles % threads;

    for (int i = 0; i < threads; i++)
        w[i] = (struct worker){.at = i ? WAKE_NS + JOIN_NS * i : 0,
                               .next = each * i + (i < more ? i : more),
                               .end = each * (i + 1) + (i + 1 < more ? i + 1 : more),
                               .behind = -1};
}

/* ns that a launch takes on so many threads; apart: what a tile takes that isn't behind its thread's last one. */
static double spread(int threads, int64_t tiles, const double *ns, const double *apart)
{
    static struct worker w[MOST_THREADS];
    double end = 0;

    threads = tiles < threads ? (int)tiles : threads;
    give_shares(w, threads, tiles);
    int64_t chunk = tiles / ((int64_t)threads * CHUNKS_PER_SHARE);
    chunk = chunk < 1 ? 1 : chunk;
    for (int64_t left = tiles; left > 0;) {
        int first = 0;
        for (int i = 1; i < threads; i++)
            if (w[i].past < threads && (w[first].past == threads || w[i].at < w[first].at))
                first = i;
        struct worker *by = &w[first], *of = &w[(first + by->past) % threads];
        if (of->next >= of->end) {
            by->past++;
            continue;
        }
        by->at += CHUNK_NS;
        for (int64_t k = 0; k < chunk && of->next < of->end; k++, left--) {
            by->at += of->next == by->behind ? ns[of->next] : apart[of->next];
            by->behind = ++of->next;
        }
        end = by->at > end ? by->at : end;
    }
    return end + (threads > 1 ? JOIN_NS : 0);
}

/* ns that a run's launches take on so many threads. */
static double launches_take(const struct scaling *s, int threads)
{
    double sum = 0;
    int64_t at = 0;

    for (int64_t i = 0; i < s->nlaunches; at += s->launches[i++])
        sum += spread(threads, s->launches[i], s->behind.ns + at, s->apart.ns + at);
    return sum;
}

static void observe(void *user, int64_t tiles, const double *ns)
{
    struct scaling *s = user;
    struct tiles *t = s->now;
    bool first = t->at == t->n;

    if (first && t == &s->behind && GROWN(s->launches, s->nlaunches, s->room, 256))
        s->launches[s->nlaunches++] = tiles;
    for (int64_t i = 0; i < tiles; i++) {
        s->all += ns[i];
        if (first && GROWN(t->ns, t->n, t->room, 1024))
            t->ns[t->n++] = ns[i];
        else if (t->at < t->n && ns[i] < t->ns[t->at])
            t->ns[t->at] = ns[i];
        t->at++;
    }
}

/* -- Runs ----------------------------------------------------------------------------------------------------- */

/* A session of so many threads (0: as many as there are cores) in the place of m's. */
static int open_session(struct scaling *s, int threads)
{
    struct tccrt_options options = {.threads = threads, .device = "cpu"};
    struct tccrt_session *session;

    if (tccrt_session_new(s->m->artifact, &options, &session) != TCC_OK)
        return tool_error(s->o, EXIT_ENVIRONMENT, "%s", tccrt_error());
    tccrt_session_free(s->m->session);
    s->m->session = session;
    return s->run(s->user) < 0 ? EXIT_DATA : EXIT_FINE; /* not warm yet */
}

/* Runs until there are enough of them, or one has failed; how many. times: of each; with `tiles` without what these
 * take. */
static int runs_of(struct scaling *s, double *times, struct tiles *tiles)
{
    int n = 0;

    s->now = tiles;
    for (double start = now_ms(); n < MOST_RUNS && (n < LEAST_RUNS || now_ms() - start < COUNT_MS); n++) {
        s->all = 0;
        if (tiles)
            tiles->at = 0;
        double ms = s->run(s->user);
        if (ms < 0)
            return -1;
        times[n] = ms - s->all / 1e6;
    }
    return n;
}

/* Where runs differ in what they launch, what their tiles take can't be compared. */
static int predict(struct scaling *s)
{
    double times[MOST_RUNS];
    int code = open_session(s, 1), n = 0;

    for (int apart = 1; apart >= 0 && code == EXIT_FINE; apart--) {
        struct tiles *t = apart ? &s->apart : &s->behind;

        tccrt_observe_tiles(s->m->session, apart, observe, s);
        if ((n = runs_of(s, times, t)) < 0)
            code = EXIT_DATA;
        else if (t->at != t->n || s->behind.n > s->apart.n)
            code = tool_error(s->o, EXIT_DATA, "--scaling: runs with the same inputs differ in what they launch");
    }
    if (code != EXIT_FINE)
        return code;
    double rest = sort_times(times, n);
    for (int i = 0; i < s->n; i++)
        s->predicted[i] = rest + launches_take(s, s->counts[i]) / 1e6;
    return EXIT_FINE;
}

static int measure(struct scaling *s)
{
    double times[MOST_RUNS];
    int code = EXIT_FINE;

    for (int i = 0; i < s->n && code == EXIT_FINE; i++) {
        s->measured[i] = -1;
        if (s->counts[i] > s->cores || (code = open_session(s, s->counts[i])) != EXIT_FINE)
            continue;
        int n = runs_of(s, times, NULL);
        if (n < 0)
            return EXIT_DATA;
        s->measured[i] = sort_times(times, n);
    }
    return code;
}

/* -- In and out ------------------------------------------------------------------------------------------------ */

static int read_counts(struct scaling *s)
{
    const char *text = option_text(s->o, OPT_scaling, "");

    for (const char *at = text; !s->n || at[-1] == ',';) {
        char *end;
        long v = strtol(at, &end, 10);

        if (end == at || v < 1 || v > MOST_THREADS || (*end && *end != ','))
            return usage_error(s->o, "--scaling=%s: expected numbers of threads, 1 to %d, with commas", text,
                               MOST_THREADS);
        if (s->n == MOST_COUNTS)
            return usage_error(s->o, "--scaling=%s: at most %d numbers", text, MOST_COUNTS);
        s->counts[s->n++] = (int)v;
        at = end + 1;
    }
    return EXIT_FINE;
}

/* efficiency: the time of one thread by that of n, and by n; both by the tiles. */
static void print(const struct scaling *s, double one)
{
    bool json = option_set(s->o, OPT_json);

    fputs(json ? "{\"scaling\":[" : "threads  measured ms  by tiles ms  efficiency\n", stdout);
    for (int i = 0; i < s->n; i++) {
        double efficiency = one / (s->predicted[i] * s->counts[i]);

        if (json)
            printf("%s{\"threads\":%d,\"measured_ms\":", i ? "," : "", s->counts[i]);
        else
            printf("%7d  ", s->counts[i]);
        if (s->measured[i] < 0)
            printf("%*s", json ? 4 : 11, json ? "null" : "-");
        else
            printf(json ? "%.4f" : "%11.3f", s->measured[i]);
        printf(json ? ",\"by_tiles_ms\":%.4f,\"efficiency\":%.4f}" : "  %11.3f  %8.1f %%\n", s->predicted[i],
               json ? efficiency : 100 * efficiency);
    }
    fputs(json ? "]}\n" : "", stdout);
    fflush(stdout);
}

int bench_scaling(const struct options *o, struct model *m, double (*run)(void *user), void *user)
{
    struct scaling s = {.o = o, .m = m, .run = run, .user = user};
    int code = read_counts(&s);

    if (code == EXIT_FINE && s.n == MOST_COUNTS)
        return usage_error(o, "--scaling: at most %d numbers", MOST_COUNTS - 1);
    if (code == EXIT_FINE)
        code = open_session(&s, 0);
    s.cores = code == EXIT_FINE ? tccrt_threads(m->session) : 0;
    if (code == EXIT_FINE)
        code = measure(&s);
    s.counts[s.n++] = 1; /* what efficiency is by */
    if (code == EXIT_FINE)
        code = predict(&s);
    if (code == EXIT_FINE)
        print(&s, s.predicted[--s.n]);
    free(s.launches);
    free(s.behind.ns);
    free(s.apart.ns);
    return code;
}
