/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libtccdata: one picture as a sample. Decoded by the library op that models decode with (image_decoder), then brought
 * to the input's size as torchvision's Resize and CenterCrop do it, and to its order of axes and type. The tools read
 * pictures by these functions, too.
 */
#include "runtime/tccdata.h"
#include "runtime/libop/image_int.h"
#include "base/format.h"
#include "base/safe.h"
#include "runtime/data/data_int.h"

#include <errno.h>
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_SIDE = 16384, MOST_FILE = 1 << 30 };

static _Thread_local char message[256];

const char *tccdata_error(void)
{
    return message;
}

static int fail(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));
static int fail(int status, const char *format, ...)
{
    FORMATTED(text, sizeof message, format);
    tcr_show(message, sizeof message, text, false);
    return status;
}

static int no_memory(void)
{
    return fail(TCC_EENV, "no memory");
}

/* -- Pixels -------------------------------------------------------------------------------------------------------- */

static bool make(struct tccdata_pixels *x, int width, int height, int channels)
{
    size_t stride = (size_t)width * (size_t)channels;

    *x = (struct tccdata_pixels){width, height, channels, stride, calloc((size_t)height, stride)};
    if (!x->data)
        *x = (struct tccdata_pixels){0};
    return x->data != NULL;
}

void tccdata_free(struct tccdata_pixels *x)
{
    free(x->data);
    *x = (struct tccdata_pixels){0};
}

static int check_pixels(const struct tccdata_pixels *x)
{
    bool fine = x->data && (x->channels == 1 || x->channels == 3) && x->width > 0 && x->height > 0 &&
                x->width <= LIB_IMAGE_PIXELS / x->height && x->stride >= (size_t)x->width * (size_t)x->channels;

    return fine ? TCC_OK
                : fail(TCC_EUSAGE,
                       "pixels: expected 1 or 3 channels, at most 2^28 pixels, rows not less than their pixels apart; "
                       "found %d x %d of %d channels, rows %zu bytes apart",
                       x->width, x->height, x->channels, x->stride);
}

/* The decoder's result goes where `user` says. */
static void *own_output(struct tcc_lib_call *call, int k, int dtype, int rank, const int64_t *dims)
{
    struct tccdata_pixels *x = call->user;

    (void)k, (void)dtype, (void)rank;
    tccdata_free(x);
    if (!make(x, (int)dims[1], (int)dims[0], (int)dims[2]))
        no_memory();
    return x->data;
}

static int own_fail(struct tcc_lib_call *call, int status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static int own_fail(struct tcc_lib_call *call, int status, const char *format, ...)
{
    FORMATTED(text, sizeof message, format);
    (void)call;
    return fail(status, "%s", text);
}

int tccdata_pixels(const void *file, size_t size, int channels, struct tccdata_pixels *out)
{
    static const struct tcc_lib_host host = {.output = own_output, .fail = own_fail};
    const char *format = channels == 1 ? "Grayscale" : "RGB";
    struct tcc_object bytes = {
        .refs = -1, .kind = TCC_OBJ_TENSOR, .t = {(void *)(uintptr_t)file, TCC_U8, 1, {(int64_t)size}}};
    const struct tcc_object *in = &bytes;
    struct tcc_attr attr = {.name = "pixel_format", .kind = TCC_ATTR_STRINGS, .n = 1, .strings = &format};
    struct tcc_lib_call call = {
        .host = &host, .user = out, .nin = 1, .nout = 1, .in = &in, .nattrs = 1, .attrs = &attr};

    *out = (struct tccdata_pixels){0};
    if ((channels != 1 && channels != 3) || size > INT64_MAX)
        return fail(TCC_EUSAGE, "%d channels: expected 1 or 3", channels);
    int status = tccrt_lib_image_decoder(&call);
    if (status)
        tccdata_free(out);
    return status;
}

/* -- Sizes --------------------------------------------------------------------------------------------------------- */

static bool side(int n)
{
    return n >= 1 && n <= MOST_SIDE;
}

static int check_picture(const struct tccdata_picture *p)
{
    bool f32 = p->dtype == TCC_F32;

    if ((p->channels != 1 && p->channels != 3) || !side(p->height) || !side(p->width) ||
        (p->resize && !side(p->resize)))
        return fail(TCC_EUSAGE,
                    "a picture of %d x %d x %d, resize %d: expected 1 or 3 channels and 1 to %d pixels along a side",
                    p->channels, p->height, p->width, p->resize, MOST_SIDE);
    for (int c = 0; c < p->channels && f32; c++)
        if (!isfinite(p->mean[c]) || !isfinite(p->std[c]) || p->std[c] == 0)
            return fail(TCC_EUSAGE, "channel %d: mean %g, std %g: expected finite numbers, the latter not 0", c,
                        (double)p->mean[c], (double)p->std[c]);
    return f32 || p->dtype == TCC_U8 ? TCC_OK : fail(TCC_EUSAGE, "expected type TCC_F32 or TCC_U8");
}

size_t tccdata_bytes(const struct tccdata_picture *p)
{
    size_t n = (size_t)p->channels * (size_t)p->height * (size_t)p->width;

    return check_picture(p) ? 0 : p->dtype == TCC_U8 ? n : n * sizeof(float);
}

int tccdata_resize(const struct tccdata_pixels *x, const struct tccdata_box *box, int width, int height,
                   struct tccdata_pixels *out)
{
    const struct tccdata_box whole = {0, 0, x->width, x->height}, *b = box ? box : &whole;
    size_t c = (size_t)x->channels;

    *out = (struct tccdata_pixels){0};
    int status = check_pixels(x);
    if (status)
        return status;
    if (b->left < 0 || b->top < 0 || b->width < 1 || b->height < 1 || b->width > x->width - b->left ||
        b->height > x->height - b->top || width < 1 || height < 1 || width > LIB_IMAGE_PIXELS / height)
        return fail(TCC_EUSAGE, "a box of %d x %d at %d, %d of %d x %d pixels cannot become %d x %d", b->width,
                    b->height, b->left, b->top, x->width, x->height, width, height);
    if (make(out, width, height, x->channels) &&
        tcr_resample(x->data + (size_t)b->top * x->stride + (size_t)b->left * c, x->stride, b->width, b->height,
                     x->channels, out->data, width, height))
        return TCC_OK;
    tccdata_free(out);
    return no_memory();
}

/* Where the middle begins; below 0: as many are missing in front. Halves as torchvision rounds them. */
static int middle(int whole, int part)
{
    return whole < part ? -((part - whole) / 2) : (int)rint((whole - part) / 2.0);
}

/* What of `whole` lies in the middle; what lies outside of it stays black. */
static void cut_out(const struct tccdata_pixels *whole, struct tccdata_pixels *to)
{
    size_t c = (size_t)to->channels;
    int left = middle(whole->width, to->width), top = middle(whole->height, to->height);
    int from = left < 0 ? 0 : left, at = left < 0 ? -left : 0, rest = whole->width - from, room = to->width - at,
        n = rest < room ? rest : room;

    for (int r = 0; r < to->height; r++)
        if (top + r >= 0 && top + r < whole->height && n > 0)
            memcpy(to->data + (size_t)r * to->stride + (size_t)at * c,
                   whole->data + (size_t)(top + r) * whole->stride + (size_t)from * c, (size_t)n * c);
}

/* The picture is scaled whole, since the filter would see less at the edges of a part. A strip so thin that it would
 * take more pixels than a picture may have is none. */
int tccdata_middle(const struct tccdata_picture *p, const struct tccdata_pixels *x, struct tccdata_pixels *out)
{
    int w = x->width, h = x->height;
    struct tccdata_pixels scaled = {0};

    *out = (struct tccdata_pixels){0};
    int status = check_picture(p);
    if (status || (status = check_pixels(x)))
        return status;
    if (x->channels != p->channels)
        return fail(TCC_EUSAGE, "pixels of %d channels for a picture of %d", x->channels, p->channels);
    int shorter = p->resize ? p->resize : p->height < p->width ? p->height : p->width;
    int64_t longer = w <= h ? (int64_t)shorter * h / w : (int64_t)shorter * w / h;
    if (longer > LIB_IMAGE_PIXELS / shorter)
        return fail(TCC_EINPUT, "%d x %d pixels are too thin a strip to be scaled to the shorter side's %d", w, h,
                    shorter);
    int rw = w <= h ? shorter : (int)longer, rh = w <= h ? (int)longer : shorter;
    if ((rw != w || rh != h) && (status = tccdata_resize(x, NULL, rw, rh, &scaled)))
        return status;
    if (make(out, p->width, p->height, p->channels))
        cut_out(scaled.data ? &scaled : x, out);
    else
        status = no_memory();
    tccdata_free(&scaled);
    return status;
}

/* -- Samples ------------------------------------------------------------------------------------------------------- */

/* Channel k of row r. */
static void sample_row(const struct tccdata_picture *p, const uint8_t *row, int k, int r, void *to)
{
    size_t w = (size_t)p->width, c = (size_t)p->channels, channel = (size_t)k, line = (size_t)r, step = p->last ? c : 1,
           at = p->last ? line * w * c + channel : (channel * (size_t)p->height + line) * w;

    for (size_t i = 0; i < w; i++, at += step)
        if (p->dtype == TCC_U8)
            ((uint8_t *)to)[at] = row[i * c + channel];
        else
            ((float *)to)[at] = ((float)row[i * c + channel] / 255.0f - p->mean[k]) / p->std[k];
}

/* Into the input's order of axes and type. Floats as torchvision has them: float32 throughout. */
int tccdata_sample(const struct tccdata_picture *p, const struct tccdata_pixels *x, void *to)
{
    int c = p->channels, status = check_picture(p);

    if (status || (status = check_pixels(x)))
        return status;
    if (x->width != p->width || x->height != p->height || x->channels != c)
        return fail(TCC_EUSAGE, "%d x %d pixels of %d channels are no sample of %d x %d and %d", x->width, x->height,
                    x->channels, p->width, p->height, c);
    for (int k = 0; k < c; k++)
        for (int r = 0; r < p->height; r++)
            sample_row(p, x->data + (size_t)r * x->stride, k, r, to);
    return TCC_OK;
}

int tccdata_decode(const struct tccdata_picture *p, const void *file, size_t size, void *to)
{
    struct tccdata_pixels x = {0}, middle = {0};
    int status = check_picture(p);

    if (!status)
        status = tccdata_pixels(file, size, p->channels, &x);
    if (!status)
        status = tccdata_middle(p, &x, &middle);
    if (!status)
        status = tccdata_sample(p, &middle, to);
    tccdata_free(&middle);
    tccdata_free(&x);
    return status;
}

/* To the end, which a pipe does not tell beforehand; NULL and errno: none within MOST_FILE bytes, or an error. */
static unsigned char *read_all(int fd, size_t room, size_t *n)
{
    unsigned char *bytes = malloc(room), *grown;
    ssize_t got = 1;

    for (*n = 0; bytes && got > 0; *n += got > 0 ? (size_t)got : 0) {
        if (*n == room) {
            errno = EFBIG;
            grown = room < MOST_FILE ? realloc(bytes, room *= 2) : NULL;
            if (!grown)
                break;
            bytes = grown;
        }
        got = read(fd, bytes + *n, room - *n);
    }
    if (got == 0)
        return bytes;
    int why = errno;
    free(bytes);
    errno = why;
    return NULL;
}

int tccdata_read(const struct tccdata_picture *p, const char *path, void *to)
{
    struct stat st;
    size_t n = 0;
    int fd = tcr_open_input(path, true), status;
    unsigned char *bytes = fd >= 0 && !fstat(fd, &st) ? read_all(fd, (size_t)st.st_size + 4096, &n) : NULL;

    status = bytes ? tccdata_decode(p, bytes, n, to) : fail(TCC_EENV, "%s: cannot be read: %s", path, strerror(errno));
    free(bytes);
    if (fd >= 0)
        close(fd);
    return status;
}

/* -- What an input takes ------------------------------------------------------------------------------------------- */

int tccdata_picture_for(const struct tccrt_value_info *input, struct tccdata_picture *p)
{
    const int64_t *d = input->dims;
    bool bytes = input->dtype == TCC_U8, takes = input->kind == TCC_OBJ_TENSOR && input->rank == 4 &&
                                                 (bytes || lib_class(input->dtype) == TCC_CLASS_FLOAT);
    bool last = takes && d[3] >= 1 && d[3] <= 3 && d[3] != 2 && d[1] != 1 && d[1] != 3;
    int64_t c = takes ? d[last ? 3 : 1] : 0, h = takes ? d[last ? 1 : 2] : 0, w = takes ? d[last ? 2 : 3] : 0;

    if (c != 1 && c != 3)
        return fail(TCC_EINPUT,
                    "input '%s' takes no pictures: expected floats or bytes of [samples, 1 or 3, height, width]",
                    input->name);
    if (h > MOST_SIDE || w > MOST_SIDE)
        return fail(TCC_EINPUT, "pictures have at most %d pixels along a side", MOST_SIDE);
    *p = (struct tccdata_picture){.channels = (int)c,
                                  .height = h > 0 ? (int)h : 0,
                                  .width = w > 0 ? (int)w : 0,
                                  .last = last,
                                  .dtype = bytes ? TCC_U8 : TCC_F32,
                                  .std = {1, 1, 1}};
    return TCC_OK;
}
