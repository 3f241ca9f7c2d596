/* SPDX-License-Identifier: Apache-2.0 */
/*
 * image_decoder for the formats that need no library: BMP (uncompressed, 8, 24 and 32 bits) and binary or plain PNM (P1
 * to P6 with values up to 255). Sources: the Windows bitmap headers; the Netpbm manual pages pbm(5), pgm(5), ppm(5).
 */
#include "runtime/libop_int.h"

struct image {
    const uint8_t *p;
    int64_t size, at;
    int64_t w, h;
    int channels;
};

static uint32_t little(const struct image *m, int64_t at, int bytes)
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

static void put_pixel(uint8_t *y, int64_t i, const char *format, const uint8_t *rgb)
{
    if (format[0] == 'G') {
        y[i] = gray(rgb);
        return;
    }
    for (int k = 0; k < 3; k++)
        y[3 * i + k] = rgb[format[0] == 'B' ? 2 - k : k];
}

static uint8_t *make_output(struct tcc_lib_call *call, const struct image *m, const char *format)
{
    int64_t dims[3] = {m->h, m->w, format[0] == 'G' ? 1 : 3};

    return lib_out(call, 0, TCC_U8, 3, dims);
}

static int read_bmp(struct tcc_lib_call *call, struct image *m, const char *format)
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
    if (data + stride * m->h > m->size)
        return LIB_FAIL(call, "the BMP is cut off");
    if (!(y = make_output(call, m, format)))
        return TCC_EENV;
    for (int64_t r = 0; r < m->h; r++) {
        const uint8_t *row = m->p + data + stride * (height < 0 ? r : m->h - 1 - r);

        for (int64_t c = 0; c < m->w; c++) {
            uint8_t rgb[3];

            for (int k = 0; k < 3; k++)
                rgb[k] = bits == 8 ? (uint8_t)little(m, 14 + header + 4 * (int64_t)row[c] + 2 - k, 1)
                                   : row[c * (bits / 8) + 2 - k];
            put_pixel(y, r * m->w + c, format, rgb);
        }
    }
    return TCC_OK;
}

/* The next number of a PNM header or of plain data, comments skipped; -1: there is none. */
static int64_t pnm_number(struct image *m)
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

static int read_pnm(struct tcc_lib_call *call, struct image *m, const char *format)
{
    int kind = m->p[1] - '0', channels = kind % 3 == 0 ? 3 : 1;
    bool plain = kind <= 3, bits = kind % 3 == 1;
    int64_t max, n, need;
    uint8_t *y;

    m->at = 2;
    m->w = pnm_number(m);
    m->h = pnm_number(m);
    max = bits ? 1 : pnm_number(m);
    m->at++; /* one white space ends the header */
    if (m->w < 1 || m->h < 1 || max < 1 || max > 255)
        return LIB_FAIL(call, "a PNM of %lldx%lld pixels up to %lld is not supported", (long long)m->w, (long long)m->h,
                        (long long)max);
    n = m->w * m->h;
    need = bits ? (m->w + 7) / 8 * m->h : n * channels;
    if (!plain && m->size - m->at < need)
        return LIB_FAIL(call, "the PNM is cut off");
    if (!(y = make_output(call, m, format)))
        return TCC_EENV;
    for (int64_t i = 0; i < n; i++) {
        uint8_t rgb[3] = {0};

        for (int k = 0; k < channels; k++) {
            int64_t v = plain  ? pnm_number(m)
                        : bits ? m->p[m->at + i / m->w * ((m->w + 7) / 8) + i % m->w / 8] >> (7 - i % m->w % 8) & 1
                               : m->p[m->at + i * channels + k];

            if (v < 0)
                return LIB_FAIL(call, "the PNM is cut off");
            v = bits ? !v : v;
            rgb[k] = (uint8_t)(v >= max ? 255 : v * 255 / max);
        }
        if (channels == 1)
            rgb[1] = rgb[2] = rgb[0];
        put_pixel(y, i, format, rgb);
    }
    return TCC_OK;
}

/* u8[n] -> u8[h, w, c]. attr pixel_format: RGB (default), BGR, Grayscale */
int tccrt_lib_image_decoder(struct tcc_lib_call *call)
{
    const char *format = lib_text(call, "pixel_format", "RGB");
    const struct tcc_tensor *x;
    struct image m = {0};
    int status = lib_need(call, 0, 1, TCC_U8, &x);

    if (status)
        return status;
    m.p = x->data;
    m.size = x->dims[0];
    if (strcmp(format, "RGB") != 0 && strcmp(format, "BGR") != 0 && strcmp(format, "Grayscale") != 0)
        return LIB_FAIL(call, "pixel_format '%s' is not known", format);
    if (m.size > 54 && m.p[0] == 'B' && m.p[1] == 'M')
        return read_bmp(call, &m, format);
    if (m.size > 8 && m.p[0] == 'P' && m.p[1] >= '1' && m.p[1] <= '6')
        return read_pnm(call, &m, format);
    return LIB_FAIL(call, "only BMP and PNM images can be decoded, not JPEG, PNG, TIFF or WebP");
}
