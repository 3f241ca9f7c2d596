/* SPDX-License-Identifier: Apache-2.0 */
/*
 * image_decoder: TIFF by libtiff's RGBA interface (TIFFReadRGBAImage(3tiff)), from memory through TIFFClientOpen. From
 * libtiff 4.5 on errors, warnings and the size of an allocation are set for the file alone; before that messages are
 * turned off for the process.
 */
#include <stdarg.h>
#include <stdio.h>

#include "runtime/libop/image_int.h"

enum {
    TAG_WIDTH = 256,
    TAG_LENGTH = 257,
    TAG_ORIENTATION = 274,
    TAG_EXTRA = 338,
    PREMULTIPLIED = 1,
    OPACITY = 2,
    TOP_LEFT = 1
};
#define MAX_ALLOCATION (INT64_C(1) << 30)

struct tiff_calls {
    void *(*open)(const char *, const char *, void *, int64_t (*)(void *, void *, int64_t),
                  int64_t (*)(void *, void *, int64_t), uint64_t (*)(void *, uint64_t, int), int (*)(void *),
                  uint64_t (*)(void *), int (*)(void *, void **, uint64_t *), void (*)(void *, void *, uint64_t));
    int (*field)(void *, uint32_t, ...), (*set_field)(void *, uint32_t, ...);
    int (*read)(void *, uint32_t, uint32_t, uint32_t *, int, int);
    void (*close)(void *);
    void *(*on_error)(void *), *(*on_warning)(void *);
};

/* What libtiff 4.5 has beyond that. */
struct tiff_options {
    void *(*make)(void);
    void (*release)(void *);
    void (*limit)(void *, int64_t);
    void (*on_error)(void *, int (*)(void *, void *, const char *, const char *, va_list), void *);
    void (*on_warning)(void *, int (*)(void *, void *, const char *, const char *, va_list), void *);
    void *(*open)(const char *, const char *, void *, int64_t (*)(void *, void *, int64_t),
                  int64_t (*)(void *, void *, int64_t), uint64_t (*)(void *, uint64_t, int), int (*)(void *),
                  uint64_t (*)(void *), int (*)(void *, void **, uint64_t *), void (*)(void *, void *, uint64_t),
                  void *);
};

static int64_t read_bytes(void *user, void *to, int64_t n)
{
    struct lib_image *m = user;

    if (n < 0 || m->at >= m->size)
        return 0;
    n = n > m->size - m->at ? m->size - m->at : n;
    memcpy(to, m->p + m->at, (size_t)n);
    m->at += n;
    return n;
}

static int64_t write_bytes(void *user, void *from, int64_t n)
{
    (void)user, (void)from, (void)n;
    return -1;
}

static uint64_t seek(void *user, uint64_t to, int whence)
{
    struct lib_image *m = user;
    int64_t from = whence == SEEK_CUR ? m->at : whence == SEEK_END ? m->size : 0, at;

    if (__builtin_add_overflow(from, (int64_t)to, &at) || at < 0)
        return UINT64_MAX;
    m->at = at;
    return (uint64_t)at;
}

static int close_nothing(void *user)
{
    (void)user;
    return 0;
}

static uint64_t size_of(void *user)
{
    return (uint64_t)((struct lib_image *)user)->size;
}

static int map_nothing(void *user, void **base, uint64_t *size)
{
    (void)user, (void)base, (void)size;
    return 0;
}

static void unmap_nothing(void *user, void *base, uint64_t size)
{
    (void)user, (void)base, (void)size;
}

static int say_nothing(void *tiff, void *user, const char *module, const char *format, va_list args)
{
    (void)tiff, (void)user, (void)module, (void)format, (void)args;
    return 1;
}

static void *open_tiff(const struct tiff_calls *c, const struct tiff_options *o, struct lib_image *m)
{
    void *options = o->open ? o->make() : NULL, *tiff;

    if (!options) {
        c->on_error(NULL);
        c->on_warning(NULL);
        return c->open("image", "rm", m, read_bytes, write_bytes, seek, close_nothing, size_of, map_nothing,
                       unmap_nothing);
    }
    o->limit(options, MAX_ALLOCATION);
    o->on_error(options, say_nothing, NULL);
    o->on_warning(options, say_nothing, NULL);
    tiff = o->open("image", "rm", m, read_bytes, write_bytes, seek, close_nothing, size_of, map_nothing, unmap_nothing,
                   options);
    o->release(options);
    return tiff;
}

/* libtiff would multiply colours by an alpha that they have not been multiplied by: they are as they are. */
static void drop_alpha(const struct tiff_calls *c, void *tiff)
{
    uint16_t n = 0, *kinds = NULL, as_they_are = PREMULTIPLIED;

    if (c->field(tiff, TAG_EXTRA, &n, &kinds) && n == 1 && *kinds == OPACITY)
        c->set_field(tiff, TAG_EXTRA, 1, &as_they_are);
}

/* libtiff mirrors, but does not exchange rows and columns, as orientations from 5 on want: true, the caller has to,
 * when it has mirrored as these want it before. */
static bool turned(const struct tiff_calls *c, void *tiff)
{
    static const int before[] = {1, 4, 3, 2};
    uint16_t is = 0;

    return c->field(tiff, TAG_ORIENTATION, &is) && is >= 5 && is <= 8 &&
           c->set_field(tiff, TAG_ORIENTATION, before[is - 5]);
}

static int exchange(struct tcc_lib_call *call, struct lib_image *m, const uint32_t *pixels)
{
    int64_t w = m->h, h = m->w;

    m->w = w;
    m->h = h;
    uint8_t *y = lib_image_output(call, m);
    for (int64_t r = 0; y && r < h; r++)
        for (int64_t k = 0; k < w; k++)
            lib_image_put(y, r * w + k, m, (const uint8_t *)&pixels[k * h + r]);
    return y ? TCC_OK : TCC_EENV;
}

/* Red is the lowest byte of a pixel. */
static int decode(struct tcc_lib_call *call, const struct tiff_calls *c, void *tiff, struct lib_image *m)
{
    uint32_t w = 0, h = 0, *pixels;

    if (!c->field(tiff, TAG_WIDTH, &w) || !c->field(tiff, TAG_LENGTH, &h))
        return LIB_FAIL(call, "the TIFF has no size");
    m->w = w;
    m->h = h;
    if (!lib_image_fits(call, m))
        return TCC_EINPUT;
    if (!(pixels = malloc((size_t)(m->w * m->h) * sizeof *pixels)))
        return LIB_NO_MEMORY(call);
    int status = TCC_OK;
    bool across = turned(c, tiff);

    drop_alpha(c, tiff);
    if (!c->read(tiff, w, h, pixels, TOP_LEFT, 1))
        status = LIB_FAIL(call, "the TIFF cannot be decoded");
    else
        status = across ? exchange(call, m, pixels) : lib_image_from_rgb(call, m, (const uint8_t *)pixels, 4);
    free(pixels);
    return status;
}

int lib_image_tiff(struct tcc_lib_call *call, struct lib_image *m)
{
    static const char *const files[] = {"libtiff.so.6", "libtiff.so.5", "libtiff.so", NULL};
    static const char *const names[] = {
        "TIFFClientOpen", "TIFFGetField",        "TIFFSetField",         "TIFFReadRGBAImageOriented",
        "TIFFClose",      "TIFFSetErrorHandler", "TIFFSetWarningHandler"};
    static const char *const extra[] = {"TIFFOpenOptionsAlloc",
                                        "TIFFOpenOptionsFree",
                                        "TIFFOpenOptionsSetMaxSingleMemAlloc",
                                        "TIFFOpenOptionsSetErrorHandlerExtR",
                                        "TIFFOpenOptionsSetWarningHandlerExtR",
                                        "TIFFClientOpenExt"};
    static _Atomic(void *) handle;
    struct tiff_calls c = {0};
    struct tiff_options o = {0};
    int status =
        lib_image_open(call, "TIFF", &handle, files, 7, names,
                       (void **[]){(void **)&c.open, (void **)&c.field, (void **)&c.set_field, (void **)&c.read,
                                   (void **)&c.close, (void **)&c.on_error, (void **)&c.on_warning});

    if (status)
        return status;
    if (lib_image_open(NULL, "TIFF", &handle, files, 6, extra,
                       (void **[]){(void **)&o.make, (void **)&o.release, (void **)&o.limit, (void **)&o.on_error,
                                   (void **)&o.on_warning, (void **)&o.open}))
        o.open = NULL;
    void *tiff = open_tiff(&c, &o, m);

    if (!tiff)
        return LIB_FAIL(call, "the TIFF cannot be decoded");
    status = decode(call, &c, tiff, m);
    c.close(tiff);
    return status;
}
