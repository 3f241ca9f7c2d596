/* SPDX-License-Identifier: Apache-2.0 */
/*
 * image_decoder: ONNX ImageDecoder. Which format a file has, its first bytes say. Here are those that need no library:
 * BMP (uncompressed, 8, 24 and 32 bits) and binary or plain PNM (P1 to P6 with values up to 65535); the others are in
 * libop_image_*.c, by libraries that are opened when an image of theirs comes. Sources: the Windows bitmap headers; the
 * Netpbm manual pages pbm(5), pgm(5), ppm(5).
 */
#include <dlfcn.h>
#include <math.h>
#include <stdatomic.h>

#include "runtime/libop/image_int.h"

/* -- Shared by all formats ---------------------------------------------------------------------------------------- */

static uint32_t little(const struct lib_image *m, int64_t at, int bytes)
{
    uint32_t v = 0;

    for (int i = bytes - 1; i >= 0; i--)
        v = v << 8 | (at + i < m->size ? m->p[at + i] : 0);
    return v;
}

/* Luma of ITU-R BT.601, as Pillow converts. */
static uint8_t gray(const uint8_t *rgb)
{
    return (uint8_t)((rgb[0] * 19595u + rgb[1] * 38470u + rgb[2] * 7471u + 0x8000) >> 16);
}

void lib_image_put(uint8_t *y, int64_t i, const struct lib_image *m, const uint8_t *rgb)
{
    if (m->format[0] == 'G') {
        y[i] = gray(rgb);
        return;
    }
    for (int k = 0; k < 3; k++)
        y[3 * i + k] = rgb[m->format[0] == 'B' ? 2 - k : k];
}

bool lib_image_fits(struct tcc_lib_call *call, const struct lib_image *m)
{
    if (m->w >= 1 && m->h >= 1 && m->w <= LIB_IMAGE_PIXELS / m->h)
        return true;
    LIB_FAIL(call, "an image of %lldx%lld pixels is not decoded: it may have %lld pixels", (long long)m->w,
             (long long)m->h, (long long)LIB_IMAGE_PIXELS);
    return false;
}

uint8_t *lib_image_output(struct tcc_lib_call *call, const struct lib_image *m)
{
    int64_t dims[3] = {m->h, m->w, m->format[0] == 'G' ? 1 : 3};

    return lib_image_fits(call, m) ? lib_out(call, 0, TCC_U8, 3, dims) : NULL;
}

int lib_image_from_rgb(struct tcc_lib_call *call, const struct lib_image *m, const uint8_t *rgb, int step)
{
    uint8_t *y = lib_image_output(call, m);

    for (int64_t i = 0; y && i < m->w * m->h; i++)
        lib_image_put(y, i, m, rgb + i * step);
    return y ? TCC_OK : TCC_EENV;
}

int lib_image_open(struct tcc_lib_call *call, const char *format, _Atomic(void *) *handle, const char *const *files,
                   int n, const char *const *names, void **const *to)
{
    void *library = atomic_load(handle);

    for (int i = 0; !library && files[i]; i++)
        library = dlopen(files[i], RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return call ? call->host->fail(call, TCC_EENV, "%s images need the library %s, which is not installed", format,
                                       files[0])
                    : TCC_EENV;
    atomic_store(handle, library);
    for (int i = 0; i < n; i++)
        if (!(*to[i] = dlsym(library, names[i])))
            return call ? call->host->fail(call, TCC_EENV, "%s images need %s, which the installed %s lacks", format,
                                           names[i], files[0])
                        : TCC_EENV;
    return TCC_OK;
}

/* -- BMP ----------------------------------------------------------------------------------------------------------- */

static int read_bmp(struct tcc_lib_call *call, struct lib_image *m)
{
    int64_t data = little(m, 10, 4), header = little(m, 14, 4), height = (int32_t)little(m, 22, 4), stride;
    uint32_t bits = little(m, 28, 2), compression = little(m, 30, 4);
    uint8_t *y;

    m->w = (int32_t)little(m, 18, 4);
    m->h = height < 0 ? -height : height;
    stride = (m->w * bits + 31) / 32 * 4;
    if (header < 40 || m->w < 1 || m->h < 1 || (bits != 8 && bits != 24 && bits != 32) ||
        (compression != 0 && compression != 3))
        return LIB_FAIL(call, "a BMP of %u bits per pixel and compression %u is not supported", bits, compression);
    if (!lib_image_fits(call, m))
        return TCC_EINPUT;
    if (data > m->size || m->h > (m->size - data) / stride)
        return LIB_FAIL(call, "the BMP is cut off");
    if (!(y = lib_image_output(call, m)))
        return TCC_EENV;
    for (int64_t r = 0; r < m->h; r++) {
        const uint8_t *row = m->p + data + stride * (height < 0 ? r : m->h - 1 - r);

        for (int64_t c = 0; c < m->w; c++) {
            uint8_t rgb[3];

            for (int k = 0; k < 3; k++)
                rgb[k] = bits == 8 ? (uint8_t)little(m, 14 + header + 4 * (int64_t)row[c] + 2 - k, 1)
                                   : row[c * (bits / 8) + 2 - k];
            lib_image_put(y, r * m->w + c, m, rgb);
        }
    }
    return TCC_OK;
}

/* -- PNM ----------------------------------------------------------------------------------------------------------- */

/* The next number of a PNM header or of plain data, comments skipped; -1: there is none. */
static int64_t pnm_number(struct lib_image *m)
{
    int64_t v = 0;
    bool any = false;

    for (; m->at < m->size; m->at++) {
        uint8_t c = m->p[m->at];

        if (c == '#' && !any) {
            while (m->at < m->size && m->p[m->at] != '\n')
                m->at++;
        } else if (c >= '0' && c <= '9') {
            v = v < 1 << 24 ? v * 10 + c - '0' : v;
            any = true;
        } else if (any) {
            break;
        }
    }
    return any ? v : -1;
}

/* The next digit of plain bits, which nothing need separate; -1: there is none. */
static int64_t pnm_bit(struct lib_image *m)
{
    while (m->at < m->size && m->p[m->at] != '0' && m->p[m->at] != '1')
        m->at++;
    return m->at < m->size ? m->p[m->at++] - '0' : -1;
}

static int read_pnm(struct tcc_lib_call *call, struct lib_image *m)
{
    int kind = m->p[1] - '0', channels = kind % 3 == 0 ? 3 : 1;
    bool plain = kind <= 3, bits = kind % 3 == 1, wide;
    int64_t max, n, need;
    uint8_t *y;

    m->at = 2;
    m->w = pnm_number(m);
    m->h = pnm_number(m);
    max = bits ? 1 : pnm_number(m);
    m->at++; /* one white space ends the header */
    if (m->w < 1 || m->h < 1 || max < 1 || max > 65535)
        return LIB_FAIL(call, "a PNM of %lldx%lld pixels up to %lld is not supported", (long long)m->w, (long long)m->h,
                        (long long)max);
    if (!lib_image_fits(call, m))
        return TCC_EINPUT;
    n = m->w * m->h;
    wide = max > 255 && !plain;                                           /* two bytes, the high one first */
    need = bits && !plain ? (m->w + 7) / 8 * m->h : n * channels << wide; /* plain: at least a digit each */
    if (m->size - m->at < need)
        return LIB_FAIL(call, "the PNM is cut off");
    if (!(y = lib_image_output(call, m)))
        return TCC_EENV;
    for (int64_t i = 0; i < n; i++) {
        uint8_t rgb[3] = {0};

        for (int k = 0; k < channels; k++) {
            int64_t v = plain  ? (bits ? pnm_bit(m) : pnm_number(m))
                        : bits ? m->p[m->at + i / m->w * ((m->w + 7) / 8) + i % m->w / 8] >> (7 - i % m->w % 8) & 1
                        : wide ? m->p[m->at + 2 * (i * channels + k)] << 8 | m->p[m->at + 2 * (i * channels + k) + 1]
                               : m->p[m->at + i * channels + k];

            if (v < 0)
                return LIB_FAIL(call, "the PNM is cut off");
            v = bits ? !v : v;
            rgb[k] = (uint8_t)(v >= max ? 255 : max == 255 ? v : lrint((double)v / (double)max * 255));
        }
        if (channels == 1)
            rgb[1] = rgb[2] = rgb[0];
        lib_image_put(y, i, m, rgb);
    }
    return TCC_OK;
}

/* -- The op -------------------------------------------------------------------------------------------------------- */

/* A format by its first bytes; a '?' stands for any byte. */
static const struct {
    int (*decode)(struct tcc_lib_call *call, struct lib_image *m);
    int length, least; /* of the first bytes, and of the smallest file that is looked at */
    const char *first;
} formats[] = {
    {read_bmp, 2, 55, "BM"},
    {lib_image_jpeg, 3, 4, "\xff\xd8\xff"},
    {lib_image_png, 8, 9, "\x89PNG\r\n\x1a\n"},
    {lib_image_tiff, 4, 9, "II*\0"},
    {lib_image_tiff, 4, 9, "MM\0*"},
    {lib_image_webp, 12, 13, "RIFF????WEBP"},
    {lib_image_jpeg2000, 12, 13, "\0\0\0\x0cjP  \r\n\x87\n"},
    {lib_image_jpeg2000, 4, 5, "\xff\x4f\xff\x51"},
};

static bool begins(const struct lib_image *m, const char *first, int length)
{
    for (int i = 0; i < length; i++)
        if (first[i] != '?' && m->p[i] != (uint8_t)first[i])
            return false;
    return true;
}

/* u8[n] -> u8[h, w, c]. attr pixel_format: RGB (default), BGR, Grayscale */
int tccrt_lib_image_decoder(struct tcc_lib_call *call)
{
    const struct tcc_tensor *x;
    struct lib_image m = {.format = lib_text(call, "pixel_format", "RGB")};
    int status = lib_need(call, 0, 1, TCC_U8, &x);

    if (status)
        return status;
    m.p = x->data;
    m.size = x->dims[0];
    if (strcmp(m.format, "RGB") != 0 && strcmp(m.format, "BGR") != 0 && strcmp(m.format, "Grayscale") != 0)
        return LIB_FAIL(call, "pixel_format '%s' is not known", m.format);
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (m.size >= formats[i].least && begins(&m, formats[i].first, formats[i].length))
            return formats[i].decode(call, &m);
    if (m.size > 8 && m.p[0] == 'P' && m.p[1] >= '1' && m.p[1] <= '6')
        return read_pnm(call, &m);
    return LIB_FAIL(call, "this is no image in BMP, JPEG, JPEG 2000, PNG, PNM, TIFF or WebP format");
}
