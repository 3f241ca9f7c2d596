/* SPDX-License-Identifier: Apache-2.0 */
/*
 * image_decoder: JPEG 2000 (files and bare code streams) by OpenJPEG 2 (openjpeg.h). The structures that cross, an
 * image and its components, are declared here as its interface 7 has them; the decoder's parameters are only filled in
 * by the library itself.
 */
#include "runtime/libop/image_int.h"

enum { CODEC_STREAM = 0, CODEC_FILE = 2, COLOR_SYCC = 3, PARAMETERS = 65536, STREAM_BUFFER = 1 << 16 };

struct component {
    uint32_t dx, dy, w, h, x0, y0, prec, bpp, sgnd, resno_decoded, factor;
    int32_t *data;
    uint16_t alpha;
};

struct image {
    uint32_t x0, y0, x1, y1, numcomps;
    int color_space;
    struct component *comps;
    uint8_t *icc;
    uint32_t icc_size;
};

struct calls {
    void *(*stream_create)(size_t, int);
    void (*stream_destroy)(void *);
    void (*set_user)(void *, void *, void (*)(void *));
    void (*set_length)(void *, uint64_t);
    void (*set_read)(void *, size_t (*)(void *, size_t, void *));
    void (*set_skip)(void *, int64_t (*)(int64_t, void *));
    void (*set_seek)(void *, int (*)(int64_t, void *));
    void *(*create)(int);
    void (*destroy)(void *);
    void (*defaults)(void *);
    int (*setup)(void *, void *);
    int (*header)(void *, void *, struct image **);
    int (*decode)(void *, void *, struct image *);
    int (*end)(void *, void *);
    void (*image_destroy)(struct image *);
};

static size_t read_bytes(void *to, size_t n, void *user)
{
    struct lib_image *m = user;
    size_t left = m->at < m->size ? (size_t)(m->size - m->at) : 0;

    if (!left)
        return (size_t)-1;
    n = n > left ? left : n;
    memcpy(to, m->p + m->at, n);
    m->at += (int64_t)n;
    return n;
}

static int64_t skip_bytes(int64_t n, void *user)
{
    struct lib_image *m = user;

    if (n < 0)
        return -1;
    n = n > m->size - m->at ? m->size - m->at : n;
    m->at += n;
    return n;
}

static int seek_to(int64_t at, void *user)
{
    struct lib_image *m = user;

    if (at < 0 || at > m->size)
        return 0;
    m->at = at;
    return 1;
}

/* Component k at column x, row y of the image, as a byte. */
static int sample(const struct component *c, int64_t x, int64_t y)
{
    int64_t at = y / c->dy * c->w + x / c->dx, v = c->data[at] + (c->sgnd ? INT64_C(1) << (c->prec - 1) : 0);

    v = c->prec > 8 ? v >> (c->prec - 8) : c->prec < 8 ? v * 255 / ((1 << c->prec) - 1) : v;
    return (int)(v < 0 ? 0 : v > 255 ? 255 : v);
}

static uint8_t byte_of(double v)
{
    return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v + 0.5);
}

/* Full-range luma and chroma, as in JPEG. */
static void from_ycc(uint8_t *rgb)
{
    double y = rgb[0], cb = rgb[1] - 128, cr = rgb[2] - 128;

    rgb[0] = byte_of(y + 1.402 * cr);
    rgb[1] = byte_of(y - 0.344136 * cb - 0.714136 * cr);
    rgb[2] = byte_of(y + 1.772 * cb);
}

/* Do the components that are read cover the image? */
static bool complete(const struct image *i, const struct lib_image *m, int n)
{
    for (int k = 0; k < n; k++) {
        const struct component *c = &i->comps[k];

        if (!c->data || c->dx < 1 || c->dy < 1 || c->prec < 1 || c->prec > 31 || (m->w - 1) / c->dx >= c->w ||
            (m->h - 1) / c->dy >= c->h)
            return false;
    }
    return true;
}

static int deliver(struct tcc_lib_call *call, const struct image *i, const struct lib_image *m)
{
    int n = i->numcomps < 3 ? 1 : 3;
    uint8_t *y;

    if (i->numcomps < 1 || !complete(i, m, n))
        return LIB_FAIL(call, "a JPEG 2000 image of %u components of this kind is not supported", i->numcomps);
    if (!(y = lib_image_output(call, m)))
        return TCC_EENV;
    for (int64_t p = 0; p < m->w * m->h; p++) {
        uint8_t rgb[3];

        for (int k = 0; k < 3; k++)
            rgb[k] = (uint8_t)sample(&i->comps[n == 1 ? 0 : k], p % m->w, p / m->w);
        if (i->color_space == COLOR_SYCC && n == 3)
            from_ycc(rgb);
        lib_image_put(y, p, m, rgb);
    }
    return TCC_OK;
}

static int decode(struct tcc_lib_call *call, const struct calls *c, void *codec, void *stream, struct lib_image *m)
{
    void *parameters = calloc(1, PARAMETERS);
    struct image *i = NULL;
    int status = TCC_OK;

    if (!parameters)
        return LIB_NO_MEMORY(call);
    c->defaults(parameters);
    if (!c->setup(codec, parameters) || !c->header(stream, codec, &i)) {
        status = LIB_FAIL(call, "the JPEG 2000 image cannot be decoded");
    } else {
        m->w = (int64_t)i->x1 - i->x0;
        m->h = (int64_t)i->y1 - i->y0;
        if (!lib_image_fits(call, m))
            status = TCC_EINPUT;
        else if (!c->decode(codec, stream, i) || !c->end(codec, stream))
            status = LIB_FAIL(call, "the JPEG 2000 image cannot be decoded");
        else
            status = deliver(call, i, m);
    }
    if (i)
        c->image_destroy(i);
    free(parameters);
    return status;
}

int lib_image_jpeg2000(struct tcc_lib_call *call, struct lib_image *m)
{
    static const char *const files[] = {"libopenjp2.so.7", "libopenjp2.so", NULL};
    static const char *const names[] = {"opj_stream_create",
                                        "opj_stream_destroy",
                                        "opj_stream_set_user_data",
                                        "opj_stream_set_user_data_length",
                                        "opj_stream_set_read_function",
                                        "opj_stream_set_skip_function",
                                        "opj_stream_set_seek_function",
                                        "opj_create_decompress",
                                        "opj_destroy_codec",
                                        "opj_set_default_decoder_parameters",
                                        "opj_setup_decoder",
                                        "opj_read_header",
                                        "opj_decode",
                                        "opj_end_decompress",
                                        "opj_image_destroy"};
    static _Atomic(void *) handle;
    struct calls c = {0};
    int status = lib_image_open(call, "JPEG 2000", &handle, files, 15, names,
                                (void **[]){(void **)&c.stream_create, (void **)&c.stream_destroy, (void **)&c.set_user,
                                            (void **)&c.set_length, (void **)&c.set_read, (void **)&c.set_skip,
                                            (void **)&c.set_seek, (void **)&c.create, (void **)&c.destroy,
                                            (void **)&c.defaults, (void **)&c.setup, (void **)&c.header,
                                            (void **)&c.decode, (void **)&c.end, (void **)&c.image_destroy});

    if (status)
        return status;
    void *codec = c.create(m->p[0] == 0xff ? CODEC_STREAM : CODEC_FILE), *stream = c.stream_create(STREAM_BUFFER, 1);

    if (codec && stream) {
        c.set_user(stream, m, NULL);
        c.set_length(stream, (uint64_t)m->size);
        c.set_read(stream, read_bytes);
        c.set_skip(stream, skip_bytes);
        c.set_seek(stream, seek_to);
        status = decode(call, &c, codec, stream, m);
    } else {
        status = LIB_NO_MEMORY(call);
    }
    if (stream)
        c.stream_destroy(stream);
    if (codec)
        c.destroy(codec);
    return status;
}
