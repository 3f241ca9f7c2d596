/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One picture as a row: decoded by the library op that models decode with (image_decoder: JPEG, PNG and others by
 * libraries opened at run time), then brought to the input's size, and to floats in [0, 1], normalised by channel.
 *
 *   without a draw   the shorter side becomes `resize` (default: the input's), then the middle is cut out:
 *   torchvision's Resize, CenterCrop
 *   crop             a box of 8 % to 100 % of the area, of proportions from 3:4 to 4:3: RandomResizedCrop (ten tries,
 *                    then the middle)
 *   flip             half of the pictures are mirrored
 *   jitter           brightness, contrast and saturation times 0.6 to 1.4 each: ColorJitter(0.4, 0.4, 0.4), in this
 *                    order
 *
 * Random numbers are a hash (splitmix64) of seed, epoch, sample and a counter.
 */
#include "tools/data/data_int.h"
#include "base/format.h"
#include "base/draw.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* -- Decoding ------------------------------------------------------------------------------------------------------ */

struct decoding {
    char *error;
    int status;
};

static void *own_output(struct tcc_lib_call *call, int k, int dtype, int rank, const int64_t *dims)
{
    tccrt_object_unref(call->out[k]);
    call->out[k] = tccrt_object_tensor(dtype, rank, dims);
    return call->out[k] ? call->out[k]->t.data : NULL;
}

static void own_set(struct tcc_lib_call *call, int k, struct tcc_object *object)
{
    tccrt_object_unref(call->out[k]);
    call->out[k] = object;
}

static int own_fail(struct tcc_lib_call *call, int status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static int own_fail(struct tcc_lib_call *call, int status, const char *format, ...)
{
    struct decoding *d = call->user;

    FORMAT_INTO(d->error, 200, format);
    return status;
}

static tcc_libop_fn decoder(void)
{
    int low = 0, high = tccrt_nlibops;

    while (low < high) {
        int middle = (low + high) / 2, order = strcmp(tccrt_libops[middle].name, "image_decoder");
        if (!order)
            return tccrt_libops[middle].fn;
        *(order < 0 ? &low : &high) = order < 0 ? middle + 1 : middle;
    }
    return NULL;
}

/* u8[h, w, channels]; NULL after `why` (200 bytes). */
static struct tcc_object *decode(const unsigned char *bytes, size_t size, int channels, char *why)
{
    static const struct tcc_lib_host host = {own_output, own_set, own_fail, NULL};
    const char *format = channels == 1 ? "Grayscale" : "RGB";
    struct decoding d = {.error = why};
    struct tcc_object file = {.refs = -1,
                              .kind = TCC_OBJ_TENSOR,
                              .t = {(void *)(uintptr_t)bytes, TCC_U8, 1, {(int64_t)size}}},
                      *out = NULL;
    const struct tcc_object *in = &file;
    struct tcc_attr attr = {.name = "pixel_format", .kind = TCC_ATTR_STRINGS, .n = 1, .strings = &format};
    struct tcc_lib_call call = {
        .host = &host, .user = &d, .nin = 1, .nout = 1, .in = &in, .out = &out, .nattrs = 1, .attrs = &attr};
    tcc_libop_fn run = decoder();

    snprintf(why, 200, "cannot be decoded");
    if (run && run(&call) == TCC_OK && out)
        return out;
    tccrt_object_unref(out);
    return NULL;
}

/* -- Random choices ------------------------------------------------------------------------------------------------ */

struct dice {
    uint64_t key, counter;
};

static uint64_t mix(uint64_t x)
{
    return tcr_draw_next(&x);
}

static double uniform(struct dice *d, double low, double high)
{
    return low + (high - low) * ((double)(mix(d->key + ++d->counter) >> 11) * 0x1p-53);
}

struct box {
    int x, y, w, h;
};

static struct box random_box(struct dice *d, int w, int h)
{
    for (int tries = 0; tries < 10; tries++) {
        double area = uniform(d, 0.08, 1) * w * h, ratio = exp(uniform(d, log(3.0 / 4), log(4.0 / 3)));
        int bw = (int)lround(sqrt(area * ratio)), bh = (int)lround(sqrt(area / ratio));
        if (bw < 1 || bh < 1 || bw > w || bh > h)
            continue;
        int x = (int)uniform(d, 0, w - bw + 1), y = (int)uniform(d, 0, h - bh + 1);
        return (struct box){x, y, bw, bh};
    }
    double ratio = (double)w / h, bw = ratio > 4.0 / 3 ? h * 4.0 / 3 : w, bh = ratio < 3.0 / 4 ? w * 4.0 / 3 : h;
    return (struct box){(int)((w - bw) / 2), (int)((h - bh) / 2), (int)bw, (int)bh};
}

static uint8_t blend(double value, double other, double share)
{
    double v = value * share + other * (1 - share);
    return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
}

static double luma(const uint8_t *x, int channels)
{
    return channels < 3 ? x[0] : 0.2989 * x[0] + 0.587 * x[1] + 0.114 * x[2];
}

static void jitter(struct dice *d, uint8_t *x, int64_t pixels, int channels)
{
    double bright = uniform(d, 0.6, 1.4), contrast = uniform(d, 0.6, 1.4), colour = uniform(d, 0.6, 1.4), mean = 0;

    for (int64_t i = 0; i < pixels * channels; i++)
        x[i] = blend(x[i], 0, bright);
    for (int64_t i = 0; i < pixels; i++)
        mean += luma(x + i * channels, channels);
    mean /= (double)pixels;
    for (int64_t i = 0; i < pixels; i++) {
        uint8_t *at = x + i * channels;
        for (int c = 0; c < channels; c++)
            at[c] = blend(at[c], mean, contrast);
        double gray = luma(at, channels);
        for (int c = 0; c < channels; c++)
            at[c] = blend(at[c], gray, colour);
    }
}

enum { MOST_SIDE = 16384, LARGEST = 1 << 28 };

/* -- Sizes --------------------------------------------------------------------------------------------------------- */

/* torchvision's Resize, then CenterCrop: the picture is scaled whole, since the filter would see less at the edges of a
 * part. A strip so thin that it would take more than LARGEST pixels is left out as no picture: *thin. */
static uint8_t *scaled_middle(const uint8_t *x, int w, int h, const struct data_picture *p, bool *thin)
{
    int64_t longer = w <= h ? (int64_t)p->resize * h / w : (int64_t)p->resize * w / h;
    if ((*thin = longer > LARGEST / p->resize))
        return NULL;
    int rw = w <= h ? p->resize : (int)longer, rh = w <= h ? (int)longer : p->resize;
    int left = (int)rint((rw - p->width) / 2.0), top = (int)rint((rh - p->height) / 2.0);
    size_t c = (size_t)p->channels;
    uint8_t *whole = malloc((size_t)rw * (size_t)rh * c), *to = calloc((size_t)p->width * (size_t)p->height, c);
    bool ok = whole && to;

    if (ok && rw == w && rh == h)
        memcpy(whole, x, (size_t)w * (size_t)h * c);
    else
        ok = ok && data_resample(x, (size_t)w * c, w, h, p->channels, whole, rw, rh);
    for (int r = 0; ok && r < p->height; r++) { /* what lies outside is black */
        int from = left < 0 ? 0 : left, at = left < 0 ? -left : 0,
            n = rw - from < p->width - at ? rw - from : p->width - at;
        if (top + r >= 0 && top + r < rh && n > 0)
            memcpy(to + ((size_t)r * (size_t)p->width + (size_t)at) * c,
                   whole + ((size_t)(top + r) * (size_t)rw + (size_t)from) * c, (size_t)n * c);
    }
    free(whole);
    if (ok)
        return to;
    free(to);
    return NULL;
}

static uint8_t *scaled_box(const uint8_t *x, int w, const struct data_picture *p, const struct box *box)
{
    size_t c = (size_t)p->channels, stride = (size_t)w * c;
    uint8_t *to = malloc((size_t)p->width * (size_t)p->height * c);

    if (to && data_resample(x + (size_t)box->y * stride + (size_t)box->x * c, stride, box->w, box->h, p->channels, to,
                            p->width, p->height))
        return to;
    free(to);
    return NULL;
}

static void mirror(uint8_t *x, const struct data_picture *p)
{
    size_t c = (size_t)p->channels;

    for (int r = 0; r < p->height; r++)
        for (int i = 0; i < p->width / 2; i++)
            for (size_t k = 0; k < c; k++) {
                uint8_t *a = x + ((size_t)(r * p->width + i)) * c + k,
                        *b = x + ((size_t)(r * p->width + p->width - 1 - i)) * c + k, v = *a;
                *a = *b;
                *b = v;
            }
}

/* Into the input's order of axes and type. Floats as torchvision has them: float32 throughout. */
static void lay_out(const struct data_picture *p, const uint8_t *x, void *to)
{
    int64_t pixels = (int64_t)p->width * p->height;
    int c = p->channels;

    for (int k = 0; k < c; k++)
        for (int64_t i = 0; i < pixels; i++) {
            int64_t at = p->last ? i * c + k : k * pixels + i;
            if (p->dtype == TCC_U8)
                ((uint8_t *)to)[at] = x[i * c + k];
            else
                ((float *)to)[at] = ((float)x[i * c + k] / 255.0f - p->mean[k]) / p->std[k];
        }
}

bool data_picture_row(const struct data_picture *p, const char *name, const unsigned char *bytes, size_t size,
                      int64_t sample, const struct data_draw *draw, void *to, char *error)
{
    char why[200];
    struct tcc_object *o = decode(bytes, size, p->channels, why);
    struct dice d = {draw ? mix(mix(mix(draw->seed) ^ (uint64_t)draw->epoch) ^ (uint64_t)sample) : 0, 0};
    unsigned augment = draw ? p->augment : 0;

    if (!o)
        return put_error(error, "%s: %s", name, why);
    int h = (int)o->t.dims[0], w = (int)o->t.dims[1];
    struct box box = augment & 1u << DATA_CROP ? random_box(&d, w, h) : (struct box){0};
    bool thin = false;
    uint8_t *x = box.w > 0 ? scaled_box(o->t.data, w, p, &box) : scaled_middle(o->t.data, w, h, p, &thin);
    tccrt_object_unref(o);
    if (!x)
        return put_error(error,
                         thin ? "%s: %d x %d pixels are too thin a strip to be scaled to the shorter side's %d"
                              : "%s: no memory",
                         name, w, h, p->resize);
    if (augment & 1u << DATA_FLIP && uniform(&d, 0, 1) < 0.5)
        mirror(x, p);
    if (augment & 1u << DATA_JITTER)
        jitter(&d, x, (int64_t)p->width * p->height, p->channels);
    lay_out(p, x, to);
    free(x);
    return true;
}

/* -- Names --------------------------------------------------------------------------------------------------------- */

bool data_is_picture(const char *extension)
{
    static const char *const list[] = {"jpg", "jpeg", "png", "ppm", "pgm", "bmp", "webp", "tif", "tiff"};

    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        if (!strcasecmp(list[i], extension))
            return true;
    return false;
}

/* -- What an input takes ------------------------------------------------------------------------------------------- */

bool data_takes_pictures(const struct tccrt_value_info *info)
{
    return info->rank == 4 && (tcc_is_float((enum tcc_dtype)info->dtype) || info->dtype == TCC_U8);
}

bool data_takes_classes(const struct tccrt_value_info *info)
{
    return info->rank == 1 && tcc_is_int((enum tcc_dtype)info->dtype);
}

static bool normalisation(const struct data_request *q, struct data_picture *p, char *error)
{
    struct data_options own = *q->o;
    const struct data_numbers *lists[2] = {&own.means, &own.stds};

    if (p->dtype == TCC_F32 && !data_table_scaling(q->path, &own, TCC_U8, error))
        return false;
    for (int i = 0; i < 2; i++) {
        float *to = i ? p->std : p->mean;
        if (lists[i]->n > 1 && lists[i]->n != p->channels)
            return put_error(error, "%s: %d numbers of %s= for %d channels", q->path, lists[i]->n, i ? "std" : "mean",
                             p->channels);
        for (int c = 0; c < p->channels; c++)
            to[c] = (float)(lists[i]->n ? lists[i]->at[lists[i]->n > 1 ? c : 0] : i);
    }
    return true;
}

static int64_t extent(int64_t known, int64_t size)
{
    return known >= 0 ? known : size;
}

bool data_picture_for(const struct data_request *q, struct data_picture *p, int64_t *dims, char *error)
{
    const int64_t *d = q->info->dims;
    struct data_options own = *q->o;
    data_table_size(own.table, &own);
    int64_t size = own.size;
    bool last = d[3] >= 1 && d[3] <= 3 && d[3] != 2 && d[1] != 1 && d[1] != 3;
    int64_t c = last ? d[3] : d[1], h = extent(d[last ? 1 : 2], size), w = extent(d[last ? 2 : 3], size);

    if (!data_takes_pictures(q->info) || (c != 1 && c != 3))
        return put_error(
            error, "%s: input '%s' takes no pictures: expected floats or bytes of [samples, 1 or 3, height, width]",
            q->path, q->info->name);
    if (q->o->scaled)
        return put_error(error, "%s: scale= is not for pictures, whose values are from 0 to 1; mean= and std= are",
                         q->path);
    if (own.resize > MOST_SIDE || h > MOST_SIDE || w > MOST_SIDE)
        return put_error(error, "%s: pictures have at most %d pixels along a side", q->path, MOST_SIDE);
    if (h < 1 || w < 1 || (size && (size != h || size != w)))
        return put_error(error,
                         h < 1 || w < 1 ? "%s: how large are the pictures of input '%s'? Add ,size=N"
                                        : "%s: input '%s' takes pictures of another size than size= says",
                         q->path, q->info->name);
    *p = (struct data_picture){.channels = (int)c,
                               .height = (int)h,
                               .width = (int)w,
                               .resize = (int)(own.resize ? own.resize
                                               : h < w    ? h
                                                          : w),
                               .last = last,
                               .dtype = tcc_is_float((enum tcc_dtype)q->info->dtype) ? TCC_F32 : TCC_U8,
                               .augment = q->o->augment};
    dims[0] = last ? h : c;
    dims[1] = last ? w : h;
    dims[2] = last ? c : w;
    return data_table_picture(q->path, own.table, (const int64_t[]){h, w, p->resize}, error) &&
           normalisation(q, p, error);
}
