/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One picture as a row: decoded, brought to the input's size, and to floats in [0, 1], normalised by channel, by
 * libtccdata (runtime/tccdata.h), with what is random in training.
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
#include "base/draw.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <strings.h>

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

static struct tccdata_box random_box(struct dice *d, int w, int h)
{
    for (int tries = 0; tries < 10; tries++) {
        double area = uniform(d, 0.08, 1) * w * h, ratio = exp(uniform(d, log(3.0 / 4), log(4.0 / 3)));
        int bw = (int)lround(sqrt(area * ratio)), bh = (int)lround(sqrt(area / ratio));
        if (bw < 1 || bh < 1 || bw > w || bh > h)
            continue;
        int x = (int)uniform(d, 0, w - bw + 1), y = (int)uniform(d, 0, h - bh + 1);
        return (struct tccdata_box){x, y, bw, bh};
    }
    double ratio = (double)w / h, bw = ratio > 4.0 / 3 ? h * 4.0 / 3 : w, bh = ratio < 3.0 / 4 ? w * 4.0 / 3 : h;
    return (struct tccdata_box){(int)((w - bw) / 2), (int)((h - bh) / 2), (int)bw, (int)bh};
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

static void mirror(const struct tccdata_pixels *x)
{
    size_t c = (size_t)x->channels;

    for (int r = 0; r < x->height; r++)
        for (int i = 0; i < x->width / 2; i++)
            for (size_t k = 0; k < c; k++) {
                uint8_t *row = x->data + (size_t)r * x->stride, *a = row + (size_t)i * c + k,
                        *b = row + (size_t)(x->width - 1 - i) * c + k, v = *a;
                *a = *b;
                *b = v;
            }
}

/* Of the picture's size, with what is random about it. */
static int changed(const struct data_picture *p, const struct tccdata_pixels *x, struct dice *d, unsigned augment,
                   struct tccdata_pixels *out)
{
    struct tccdata_box box;
    int status;

    if (augment & 1u << DATA_CROP) {
        box = random_box(d, x->width, x->height);
        status = tccdata_resize(x, &box, p->as.width, p->as.height, out);
    } else {
        status = tccdata_middle(&p->as, x, out);
    }
    if (!status && augment & 1u << DATA_FLIP && uniform(d, 0, 1) < 0.5)
        mirror(out);
    if (!status && augment & 1u << DATA_JITTER)
        jitter(d, out->data, (int64_t)out->width * out->height, out->channels);
    return status;
}

bool data_picture_row(const struct data_picture *p, const char *name, const unsigned char *bytes, size_t size,
                      int64_t sample, const struct data_draw *draw, void *to, char *error)
{
    struct dice d = {draw ? mix(mix(mix(draw->seed) ^ (uint64_t)draw->epoch) ^ (uint64_t)sample) : 0, 0};
    struct tccdata_pixels file = {0}, x = {0};
    int status = tccdata_pixels(bytes, size, p->as.channels, &file);

    if (!status)
        status = changed(p, &file, &d, draw ? p->augment : 0, &x);
    if (!status)
        status = tccdata_sample(&p->as, &x, to);
    tccdata_free(&file);
    tccdata_free(&x);
    return !status || put_error(error, "%s: %s", name, tccdata_error());
}

/* -- Names --------------------------------------------------------------------------------------------------------- */

static bool is_listed(const char *extension, const char *const *list)
{
    while (*list && strcasecmp(*list, extension))
        list++;
    return *list;
}

bool data_is_picture(const char *extension)
{
    static const char *const list[] = {"jpg", "jpeg", "png", "ppm", "pgm", "bmp", "webp", "tif", "tiff", NULL};
    return is_listed(extension, list);
}

bool data_is_other_picture(const char *extension)
{
    static const char *const list[] = {"avif", "gif", "heic", "heif", "jfif", "jp2", "jpe", "jxl", "pbm", "pcx", "pnm",
                                       "svg", "tga", NULL};
    return is_listed(extension, list);
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

/* A list's numbers by channel, one for all channels; of an empty one `to` stays. */
static void spread(const struct data_numbers *list, float *to, int channels)
{
    for (int c = 0; c < channels && list->n; c++)
        to[c] = (float)list->at[list->n > 1 && c < list->n ? c : 0];
}

static bool normalisation(const struct data_request *q, struct tccdata_picture *p, char *error)
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
        spread(lists[i], to, p->channels);
    }
    return true;
}

/* What is too large stays so. */
static int pixels(int64_t n)
{
    return n > INT_MAX ? INT_MAX : (int)n;
}

bool data_picture_for(const struct data_request *q, struct data_picture *picture, int64_t *dims, char *error)
{
    struct data_options own = *q->o;
    struct tccdata_picture *p = &picture->as;
    data_table_size(own.table, &own);

    picture->augment = q->o->augment;
    if (tccdata_picture_for(q->info, p))
        return put_error(error, "%s: %s", q->path, tccdata_error());
    if (q->o->scaled)
        return put_error(error, "%s: scale= is not for pictures, whose values are from 0 to 1; mean= and std= are",
                         q->path);
    int64_t h = p->height ? p->height : own.size, w = p->width ? p->width : own.size;
    if (h < 1 || w < 1 || (own.size && (own.size != h || own.size != w)))
        return put_error(error,
                         h < 1 || w < 1 ? "%s: how large are the pictures of input '%s'? Add ,size=N"
                                        : "%s: input '%s' takes pictures of another size than size= says",
                         q->path, q->info->name);
    p->height = pixels(h);
    p->width = pixels(w);
    p->resize = own.resize ? pixels(own.resize) : p->height < p->width ? p->height : p->width;
    dims[0] = p->last ? h : p->channels;
    dims[1] = p->last ? w : h;
    dims[2] = p->last ? p->channels : w;
    return data_table_picture(q->path, own.table, (const int64_t[]){h, w, p->resize}, error) &&
           normalisation(q, p, error) && (tccdata_bytes(p) || put_error(error, "%s: %s", q->path, tccdata_error()));
}

/* -- What training made of pictures (--image-decode) --------------------------------------------------------------- */

/* Those of the one input of pictures that the checkpoint knows, where the options say nothing else. */
static int checkpoint_told(const struct options *o, const char *path, struct data_options *own,
                           struct tccdata_picture *p)
{
    struct data_tables all = {0};
    const struct data_table *t = NULL;
    int n = 0, code = data_tables_load(o, path, &all);

    for (int i = 0; i < all.n; i++)
        if (all.at[i]->picture[0] && ++n)
            t = all.at[i];
    if (code == EXIT_FINE && n != 1)
        code = tool_error(o, EXIT_DATA, "--image-decode: %s knows of %s: say size=, resize=, mean= and std=", path,
                          n ? "several inputs of pictures" : "no pictures");
    if (code == EXIT_FINE) {
        p->height = own->size ? 0 : pixels(t->picture[0]);
        p->width = own->size ? 0 : pixels(t->picture[1]);
        own->resize = own->resize ? own->resize : t->picture[2];
        own->means = own->means.n ? own->means : t->means;
        own->stds = own->stds.n ? own->stds : t->stds;
    }
    data_tables_free(&all);
    return code;
}

int data_picture_told(const struct options *o, struct tccdata_picture *p)
{
    const char *text = option_text(o, OPT_image_decode, "");
    char all[4096], given[200];
    struct data_words words;
    struct data_options *own = &words.o;

    *p = (struct tccdata_picture){.std = {1, 1, 1}};
    bool keys = text[strcspn(text, ",=")] == '='; /* alone */
    if (snprintf(all, sizeof all, "%s%s", keys ? "," : "", text) >= (int)sizeof all)
        return usage_error(o, "--image-decode: a text of more than %d bytes", (int)sizeof all - 2);
    snprintf(given, sizeof given, "--image-decode=%s", text);
    int code = data_words_read(o, all, given, &words);
    if (code == EXIT_FINE)
        code = data_words_check(o, &words, READER_folder, given);
    if (code == EXIT_FINE && (words.reader >= 0 || words.name || own->limit || own->scaled || own->augment))
        code = usage_error(o, "%s: expected a checkpoint, or size=N, resize=N, mean=R+G+B, std=R+G+B", given);
    if (code == EXIT_FINE && *words.path)
        code = checkpoint_told(o, words.path, own, p);
    if (code == EXIT_FINE && own->size)
        p->height = p->width = pixels(own->size);
    p->resize = pixels(own->resize);
    for (int i = 0; i < 2 && code == EXIT_FINE; i++) {
        const struct data_numbers *list = i ? &own->stds : &own->means;
        if (list->n == 2 || list->n > 3 || (list->n == 3 && p->channels == 1))
            code = usage_error(o, "%s: %d numbers of %s= for 1 or 3 channels", given, list->n, i ? "std" : "mean");
        spread(list, i ? p->std : p->mean, 3);
        if (list->n == 3)
            p->channels = 3;
    }
    free(words.text);
    return code;
}
