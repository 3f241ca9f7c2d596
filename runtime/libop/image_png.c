/* SPDX-License-Identifier: Apache-2.0 */
/*
 * image_decoder: PNG by libpng's simplified interface (libpng-manual, section "The simplified API") and WebP by
 * libwebp's (decode.h). Neither needs its header: the one structure that crosses, png_image of version 1, is part of
 * libpng16's interface.
 */

#include "runtime/libop/image_int.h"

struct png_image {
    void *opaque;
    uint32_t version, width, height, format, flags, colormap_entries, warning_or_error;
    char message[64];
};

enum { PNG_VERSION_1 = 1, PNG_RGBA = 3, PNG_16_BITS_ARE_SRGB = 4, PNG_FAILED = 2, SIGNATURE = 8, CHUNK = 12 };

struct png {
    int (*begin)(struct png_image *, const void *, size_t);
    int (*finish)(struct png_image *, const void *, void *, int32_t, void *);
    void (*release)(struct png_image *);
};

/* The file without what it says of colours, by which the simplified interface would change pixels, at
 * `to`, which has room for all of it; its size. */
static size_t without_colours(const struct lib_image *m, uint8_t *to)
{
    static const char names[][5] = {"gAMA", "cHRM", "sRGB", "iCCP", "cICP"};
    size_t size = SIGNATURE;
    int64_t length;

    memcpy(to, m->p, SIGNATURE);
    for (int64_t at = SIGNATURE; at < m->size; at += length) {
        const uint8_t *p = m->p + at;
        bool kept = true;

        length = m->size - at;
        if (length >= CHUNK) {
            int64_t own = CHUNK + ((int64_t)p[0] << 24 | p[1] << 16 | p[2] << 8 | p[3]);
            length = own < length ? own : length;
            for (size_t i = 0; i < sizeof names / sizeof *names; i++)
                kept &= memcmp(p + 4, names[i], 4) != 0;
        }
        if (kept)
            memcpy(to + size, p, (size_t)length);
        size += kept ? (size_t)length : 0;
    }
    return size;
}

static int decode(struct tcc_lib_call *call, const struct png *l, const uint8_t *file, size_t size, struct lib_image *m)
{
    struct png_image png = {.version = PNG_VERSION_1};
    int status = TCC_OK;

    if (!l->begin(&png, file, size) || (png.warning_or_error & PNG_FAILED))
        return LIB_FAIL(call, "the PNG cannot be decoded: %.60s", png.message);
    m->w = png.width;
    m->h = png.height;
    if (!lib_image_fits(call, m)) {
        l->release(&png);
        return TCC_EINPUT;
    }
    uint8_t *pixels = malloc((size_t)(m->w * m->h) * 4);

    if (!pixels) {
        l->release(&png);
        return LIB_NO_MEMORY(call);
    }
    png.format = PNG_RGBA; /* the alpha channel is dropped, nothing is blended */
    png.flags |= PNG_16_BITS_ARE_SRGB;
    if (l->finish(&png, NULL, pixels, (int32_t)(4 * m->w), NULL) && !(png.warning_or_error & PNG_FAILED))
        status = lib_image_from_rgb(call, m, pixels, 4);
    else
        status = LIB_FAIL(call, "the PNG cannot be decoded: %.60s", png.message);
    l->release(&png);
    free(pixels);
    return status;
}

int lib_image_png(struct tcc_lib_call *call, struct lib_image *m)
{
    static const char *const files[] = {"libpng16.so.16", "libpng16.so", NULL};
    static const char *const names[] = {"png_image_begin_read_from_memory", "png_image_finish_read", "png_image_free"};
    static _Atomic(void *) handle;
    struct png l = {0};
    int status = lib_image_open(call, "PNG", &handle, files, 3, names,
                                (void **[]){(void **)&l.begin, (void **)&l.finish, (void **)&l.release});

    if (status)
        return status;
    uint8_t *file = malloc((size_t)m->size);

    if (!file)
        return LIB_NO_MEMORY(call);
    status = decode(call, &l, file, without_colours(m, file), m);
    free(file);
    return status;
}

int lib_image_webp(struct tcc_lib_call *call, struct lib_image *m)
{
    static const char *const files[] = {"libwebp.so.7", "libwebp.so.6", "libwebp.so", NULL};
    static const char *const names[] = {"WebPGetInfo", "WebPDecodeRGBInto"};
    static _Atomic(void *) handle;
    int (*describe)(const uint8_t *, size_t, int *, int *) = NULL;
    uint8_t *(*decode)(const uint8_t *, size_t, uint8_t *, size_t, int) = NULL;
    int w = 0, h = 0,
        status =
            lib_image_open(call, "WebP", &handle, files, 2, names, (void **[]){(void **)&describe, (void **)&decode});

    if (status)
        return status;
    if (!describe(m->p, (size_t)m->size, &w, &h))
        return LIB_FAIL(call, "the WebP cannot be decoded");
    m->w = w;
    m->h = h;
    if (!lib_image_fits(call, m))
        return TCC_EINPUT;
    size_t bytes = (size_t)(m->w * m->h) * 3;
    uint8_t *pixels = malloc(bytes);

    if (!pixels)
        return LIB_NO_MEMORY(call);
    if (decode(m->p, (size_t)m->size, pixels, bytes, 3 * w))
        status = lib_image_from_rgb(call, m, pixels, 3);
    else
        status = LIB_FAIL(call, "the WebP cannot be decoded");
    free(pixels);
    return status;
}
