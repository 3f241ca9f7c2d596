/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --tensorboard=DIR: an event file, as TensorBoard and what else shows runs read it: the model's graph, numbers of each
 * step and evaluation, histograms of the parameters and the confusion matrix as a picture of each evaluation. The
 * format is that of TensorFlow's TFRecord files (tensorflow.org/tutorials/load_data/tfrecord): length, its checksum, an
 * Event message (tensorflow/core/util/event.proto), its checksum; checksums are CRC-32C, rotated by 15 bits and moved
 * by a constant.
 *
 * A run that goes on from a checkpoint writes another file of the folder, which begins with the step from which on
 * readers forget what earlier files said (SessionLog.START).
 */
#include "tools/train/train_int.h"

#include "base/wire.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>

enum { BUCKETS = 64, PICTURE = 320, FLUSH_MS = 1000 };

/* Field numbers of tensorflow/core/util/event.proto and tensorflow/core/framework/summary.proto. */
enum { EVENT_TIME = 1, EVENT_STEP = 2, EVENT_VERSION = 3, EVENT_GRAPH = 4, EVENT_SUMMARY = 5, EVENT_SESSION = 7 };
enum { SESSION_STATUS = 1, SESSION_START = 1 };
enum { SUMMARY_VALUE = 1, VALUE_TAG = 1, VALUE_NUMBER = 2, VALUE_IMAGE = 4, VALUE_HISTOGRAM = 5 };
enum { IMAGE_HEIGHT = 1, IMAGE_WIDTH = 2, IMAGE_COLOURS = 3, IMAGE_BYTES = 4 };
enum {
    HISTOGRAM_LEAST = 1,
    HISTOGRAM_MOST = 2,
    HISTOGRAM_COUNT = 3,
    HISTOGRAM_SUM = 4,
    HISTOGRAM_SQUARES = 5,
    HISTOGRAM_LIMITS = 6,
    HISTOGRAM_BUCKETS = 7
};

struct train_events {
    FILE *f;
    char path[PATH_MAX];
    double flushed; /* ms of the clock */
};

static int cannot(const struct trainer *t, const char *path)
{
    return tool_error(t->o, EXIT_ENVIRONMENT, "--tensorboard: cannot write '%s': %s", path, strerror(errno));
}

/* -- Records ---------------------------------------------------------------------------------------------- */

/* CRC-32C (Castagnoli; RFC 3720, B.4), bit by bit: an event is a few hundred bytes. */
static uint32_t checksum(const void *data, size_t n)
{
    const uint8_t *p = data;
    uint32_t crc = ~0u;

    for (size_t i = 0; i < n; i++) {
        crc ^= p[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
    }
    crc = ~crc;
    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

static void write_event(struct train_events *e, struct wire_buffer *event)
{
    uint64_t n = event->n;
    uint32_t head = checksum(&n, sizeof n), tail = checksum(event->data, event->n);

    if (event->failed)
        errno = ENOMEM;
    else if (fwrite(&n, sizeof n, 1, e->f) == 1 && fwrite(&head, sizeof head, 1, e->f) == 1 &&
             fwrite(event->data, 1, event->n, e->f) == event->n)
        (void)!fwrite(&tail, sizeof tail, 1, e->f); /* ferror() says it at the end */
    free(event->data);
    if (now_ms() - e->flushed > FLUSH_MS) {
        fflush(e->f);
        e->flushed = now_ms();
    }
}

static struct wire_buffer begin_event(int64_t step)
{
    struct wire_buffer event = {0};
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    wire_put_double(&event, EVENT_TIME, (double)now.tv_sec + 1e-9 * (double)now.tv_nsec);
    if (step)
        wire_put_number(&event, EVENT_STEP, (uint64_t)step);
    return event;
}

/* -- Opening ---------------------------------------------------------------------------------------------- */

int train_events_open(struct trainer *t)
{
    const char *folder = option_text(t->o, OPT_tensorboard, NULL);
    char host[256] = "";

    if (!folder || !t->chief)
        return EXIT_FINE;
    if (mkdir(folder, 0777) != 0 && errno != EEXIST)
        return cannot(t, folder);
    struct train_events *e = t->events = calloc(1, sizeof *e);
    if (!e)
        return tool_error(t->o, EXIT_ENVIRONMENT, "no memory");
    gethostname(host, sizeof host - 1);
    snprintf(e->path, sizeof e->path, "%s/events.out.tfevents.%010" PRId64 ".%s.%ld", folder, (int64_t)time(NULL), host,
             (long)getpid());
    if (!(e->f = fopen(e->path, "wb")))
        return cannot(t, e->path);
    struct wire_buffer version = begin_event(0);
    wire_put_text(&version, EVENT_VERSION, "brain.Event:2");
    write_event(e, &version);
    struct wire_buffer graph = {0};
    int code = t->done ? EXIT_FINE : train_events_graph(t->o, &graph);
    if (graph.n) {
        struct wire_buffer event = begin_event(0);
        wire_put_message(&event, EVENT_GRAPH, &graph);
        write_event(e, &event);
    }
    if (t->done) {
        struct wire_buffer event = begin_event(t->done + 1), session = {0};
        wire_put_number(&session, SESSION_STATUS, SESSION_START);
        wire_put_message(&event, EVENT_SESSION, &session);
        write_event(e, &event);
    }
    return code;
}

int train_events_close(struct trainer *t)
{
    struct train_events *e = t->events;
    bool bad = e && e->f && (ferror(e->f) | fclose(e->f)) != 0;
    int code = bad ? cannot(t, e->path) : EXIT_FINE;

    free(e);
    t->events = NULL;
    return code;
}

/* -- Numbers ---------------------------------------------------------------------------------------------- */

void train_events_scalars(struct trainer *t, int n, const struct train_scalar *scalars)
{
    if (!t->events)
        return;
    struct wire_buffer event = begin_event(t->done), summary = {0};
    for (int i = 0; i < n; i++) {
        struct wire_buffer value = {0};
        wire_put_text(&value, VALUE_TAG, scalars[i].name);
        wire_put_float(&value, VALUE_NUMBER, (float)scalars[i].value);
        wire_put_message(&summary, SUMMARY_VALUE, &value);
    }
    wire_put_message(&event, EVENT_SUMMARY, &summary);
    write_event(t->events, &event);
}

/* -- Histograms ------------------------------------------------------------------------------------------- */

/* Of a tensor's finite elements. */
struct histogram {
    double least, most, sum, squares, count, buckets[BUCKETS];
};

static double element(const struct tcc_tensor *x, int64_t i)
{
    enum tcc_dtype dtype = (enum tcc_dtype)x->dtype;

    return tcc_load_f64(dtype, (const char *)x->data + i * tcc_dtype_bytes(dtype));
}

static struct histogram histogram_of(const struct tcc_tensor *x)
{
    struct histogram h = {.least = INFINITY, .most = -INFINITY};
    int64_t n = tcc_elements(x->rank, x->dims);

    for (int64_t i = 0; i < n; i++) {
        double v = element(x, i);
        if (!isfinite(v))
            continue;
        h.least = fmin(h.least, v);
        h.most = fmax(h.most, v);
        h.sum += v;
        h.squares += v * v;
        h.count++;
    }
    double scale = h.most > h.least ? BUCKETS / (h.most - h.least) : 0;
    for (int64_t i = 0; i < n; i++) {
        double v = element(x, i);
        int k = isfinite(v) ? (int)((v - h.least) * scale) : -1;
        if (k >= 0)
            h.buckets[k < BUCKETS ? k : BUCKETS - 1]++;
    }
    return h;
}

static void put_histogram(struct wire_buffer *value, const struct histogram *h)
{
    struct wire_buffer proto = {0};
    double limits[BUCKETS];

    for (int k = 0; k < BUCKETS; k++)
        limits[k] = k == BUCKETS - 1 ? h->most : h->least + (h->most - h->least) * (k + 1) / BUCKETS;
    wire_put_double(&proto, HISTOGRAM_LEAST, h->least);
    wire_put_double(&proto, HISTOGRAM_MOST, h->most);
    wire_put_double(&proto, HISTOGRAM_COUNT, h->count);
    wire_put_double(&proto, HISTOGRAM_SUM, h->sum);
    wire_put_double(&proto, HISTOGRAM_SQUARES, h->squares);
    wire_put_bytes(&proto, HISTOGRAM_LIMITS, limits, sizeof limits);
    wire_put_bytes(&proto, HISTOGRAM_BUCKETS, h->buckets, sizeof h->buckets);
    wire_put_message(value, VALUE_HISTOGRAM, &proto);
}

/* An event of one value, which is freed. */
static void write_value(struct trainer *t, struct wire_buffer *value)
{
    struct wire_buffer event = begin_event(t->done), summary = {0};

    wire_put_message(&summary, SUMMARY_VALUE, value);
    wire_put_message(&event, EVENT_SUMMARY, &summary);
    write_event(t->events, &event);
}

static void write_histogram(struct trainer *t, const char *name, const struct tcc_tensor *x)
{
    struct histogram h = histogram_of(x);
    struct wire_buffer value = {0};

    if (!(h.count > 0))
        return;
    wire_put_text(&value, VALUE_TAG, name);
    put_histogram(&value, &h);
    write_value(t, &value);
}

void train_events_parameters(struct trainer *t)
{
    if (!t->events)
        return;
    for (int i = 0; i < tccrt_nstates(t->m.artifact); i++) {
        struct tccrt_value_info info;
        struct tcc_tensor x;
        if (tccrt_state_flags(t->m.artifact, i) & TCCRT_STATE_PARAM &&
            tccrt_state_info(t->m.artifact, i, &info) == TCC_OK && tcc_is_float((enum tcc_dtype)info.dtype) &&
            tccrt_state_get(t->m.session, info.name, &x) == TCC_OK)
            write_histogram(t, info.name, &x);
    }
}

/* -- Pictures --------------------------------------------------------------------------------------------- */

static void put_chunk(struct wire_buffer *png, const char *type, const void *data, size_t n)
{
    uint8_t length[4] = {(uint8_t)(n >> 24), (uint8_t)(n >> 16), (uint8_t)(n >> 8), (uint8_t)n};
    uLong crc = crc32(crc32(0, (const Bytef *)type, 4), data, (uInt)n);
    uint8_t tail[4] = {(uint8_t)(crc >> 24), (uint8_t)(crc >> 16), (uint8_t)(crc >> 8), (uint8_t)crc};

    wire_put(png, length, sizeof length);
    wire_put(png, type, 4);
    wire_put(png, data, n);
    wire_put(png, tail, sizeof tail);
}

/* An RGB picture as PNG (RFC 2083); rows: each begins with a byte of 0, its filter. */
static struct wire_buffer png_of(uint32_t width, uint32_t height, const uint8_t *rows)
{
    struct wire_buffer png = {0};
    uLong bytes = (uLong)height * (1 + 3 * (uLong)width);
    uLongf packed = compressBound(bytes);
    uint8_t *data = malloc(packed), head[13] = {[8] = 8 /* bits */, 2 /* RGB */};

    for (int i = 0; i < 4; i++) {
        head[i] = (uint8_t)(width >> (24 - 8 * i));
        head[4 + i] = (uint8_t)(height >> (24 - 8 * i));
    }
    png.failed = !data || compress(data, &packed, rows, bytes) != Z_OK;
    if (!png.failed) {
        wire_put(&png, "\x89PNG\r\n\x1a\n", 8);
        put_chunk(&png, "IHDR", head, sizeof head);
        put_chunk(&png, "IDAT", data, packed);
        put_chunk(&png, "IEND", "", 0);
    }
    free(data);
    return png;
}

/* As confusion.c colours it: right ones blue, wrong ones red, as dark as their share of the row. */
static void colour(uint8_t *to, double share, bool right)
{
    uint8_t light = (uint8_t)(255 - (int)(share * 205 + 0.5));

    to[0] = right ? light : 255;
    to[1] = light;
    to[2] = right ? 255 : light;
}

static void draw(uint8_t *rows, int64_t n, int side, const double *counts)
{
    int64_t stride = 1 + 3 * n * side;

    for (int64_t r = 0; r < n; r++) {
        double all = 0;
        for (int64_t c = 0; c < n; c++)
            all += counts[r * n + c];
        uint8_t *row = rows + r * side * stride;
        for (int64_t x = 0; x < n * side; x++)
            colour(row + 1 + 3 * x, all > 0 ? counts[r * n + x / side] / all : 0, x / side == r);
        for (int k = 1; k < side; k++)
            memcpy(row + k * stride, row, (size_t)stride);
    }
}

void train_events_confusion(struct trainer *t, int64_t n, const double *counts)
{
    int side = n < PICTURE ? (int)(PICTURE / n) : 1;

    if (!t->events)
        return;
    uint32_t size = (uint32_t)(n * side);
    uint8_t *rows = calloc(size, 1 + 3 * (size_t)size);
    if (!rows)
        return;
    draw(rows, n, side, counts);
    struct wire_buffer value = {0}, image = {0}, png = png_of(size, size, rows);
    free(rows);
    wire_put_number(&image, IMAGE_HEIGHT, size);
    wire_put_number(&image, IMAGE_WIDTH, size);
    wire_put_number(&image, IMAGE_COLOURS, 3);
    wire_put_message(&image, IMAGE_BYTES, &png);
    wire_put_text(&value, VALUE_TAG, "eval/confusion");
    wire_put_message(&value, VALUE_IMAGE, &image);
    write_value(t, &value);
}
