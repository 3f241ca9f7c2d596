/* SPDX-License-Identifier: Apache-2.0 */
/*
 * image_decoder: JPEG by libjpeg-turbo (libjpeg.txt). Its structures are declared here as far as they are used: up to
 * output_scanline they are the same in the interfaces 6.2, 7 and 8 (libjpeg.so.62, libjpeg.so.8). The rest is room; how
 * large the whole is and which interface it is, the library itself tells when it refuses a wrong number. Its errors
 * jump: nothing is left to free on that way but what jpeg_destroy frees.
 */
#include <setjmp.h>

#include "runtime/libop/image_int.h"

enum { COLOR_RGB = 2, COLOR_CMYK = 4, COLOR_YCCK = 5, MESSAGE_ROOM = 200, STRUCT_ROOM = 2048 };

struct jpeg_error {
    void (*error_exit)(void *);
    void (*emit_message)(void *, int);
    void (*output_message)(void *);
    void (*format_message)(void *, char *);
    void (*reset)(void *);
    int code;
    union {
        int i[8];
        char s[80];
    } parameter;
    int trace_level;
    long warnings;
    const char *const *table;
    int last;
    const char *const *addon;
    int first_addon, last_addon;
};

struct jpeg {
    struct jpeg_error *err;
    void *mem, *progress, *client_data;
    int is_decompressor, global_state;
    void *src;
    unsigned image_width, image_height;
    int num_components, jpeg_color_space, out_color_space;
    unsigned scale_num, scale_denom;
    double output_gamma;
    int buffered_image, raw_data_out, dct_method, fancy_upsampling, block_smoothing, quantize, dither, two_pass, colors,
        one_pass_quant, external_quant, two_pass_quant;
    unsigned output_width, output_height;
    int out_color_components, output_components, rec_outbuf_height, actual_colors;
    uint8_t **colormap;
    unsigned output_scanline;
};

struct decoder {
    struct jpeg_error err; /* first: the library hands it back */
    jmp_buf jump;
    char text[MESSAGE_ROOM];
    bool cut_off;
    union {
        struct jpeg j;
        char room[STRUCT_ROOM];
    } u;
    struct jpeg_error *(*std_error)(struct jpeg_error *);
    void (*create)(struct jpeg *, int, size_t);
    void (*source)(struct jpeg *, const uint8_t *, unsigned long);
    int (*header)(struct jpeg *, int);
    int (*start)(struct jpeg *);
    unsigned (*lines)(struct jpeg *, uint8_t **, unsigned);
    int (*finish)(struct jpeg *);
    void (*destroy)(struct jpeg *);
};

static void fail(void *jpeg)
{
    struct decoder *d = (struct decoder *)((struct jpeg *)jpeg)->err;

    d->err.format_message(jpeg, d->text);
    longjmp(d->jump, 1);
}

static void note(void *jpeg, int level)
{
    struct decoder *d = (struct decoder *)((struct jpeg *)jpeg)->err;

    if (level >= 0)
        return;
    d->err.warnings++;
    d->err.format_message(jpeg, d->text);
    d->cut_off = d->cut_off || strncmp(d->text, "Premature end", 13) == 0;
}

static void print_nothing(void *jpeg)
{
    (void)jpeg;
}

/* Makes the decoder: a wrong version is refused with the right one, then a wrong size with the right one. */
static bool create(struct decoder *d)
{
    volatile int version = 62;
    volatile size_t size = 0;

    for (volatile int i = 0; i < 3; i++) {
        memset(&d->u, 0, sizeof d->u);
        d->u.j.err = d->std_error(&d->err);
        d->err.error_exit = fail;
        d->err.emit_message = note;
        d->err.output_message = print_nothing;
        if (!setjmp(d->jump)) {
            d->create(&d->u.j, version, size);
            return true;
        }
        if (d->err.parameter.i[1] == version)
            version = d->err.parameter.i[0];
        else if (d->err.parameter.i[0] >= (int)sizeof d->u.j && (size_t)d->err.parameter.i[0] <= sizeof d->u)
            size = (size_t)d->err.parameter.i[0];
        else
            return false;
    }
    return false;
}

/* Adobe's inverted CMYK, rounded to the nearest. */
static void from_cmyk(uint8_t *row, int64_t w)
{
    for (int64_t i = 0; i < w; i++)
        for (int k = 0; k < 3; k++)
            row[4 * i + k] = (uint8_t)((row[4 * i + k] * row[4 * i + 3] + 127) / 255);
}

/* After a setjmp: `row` and the output outlive a jump, the caller frees the row. */
static int decode(struct tcc_lib_call *call, struct decoder *d, struct lib_image *m, uint8_t *volatile *row)
{
    struct jpeg *j = &d->u.j;
    uint8_t *y, *line;

    d->source(j, m->p, (unsigned long)m->size);
    d->header(j, 1);
    bool cmyk = j->jpeg_color_space == COLOR_CMYK || j->jpeg_color_space == COLOR_YCCK;
    int step = cmyk ? 4 : 3;

    m->w = j->image_width;
    m->h = j->image_height;
    if (!lib_image_fits(call, m))
        return TCC_EINPUT;
    j->out_color_space = cmyk ? COLOR_CMYK : COLOR_RGB;
    d->start(j);
    if (j->output_components != step || (int64_t)j->output_width != m->w || (int64_t)j->output_height != m->h)
        return LIB_FAIL(call, "a JPEG of %d components per pixel is not supported", j->output_components);
    if (!(y = lib_image_output(call, m)))
        return TCC_EENV;
    if (!(line = *row = malloc((size_t)m->w * 4)))
        return LIB_NO_MEMORY(call);
    for (int64_t r = 0; r < m->h; r++) {
        if (d->lines(j, &line, 1) != 1)
            return LIB_FAIL(call, "the JPEG is cut off");
        if (cmyk)
            from_cmyk(line, m->w);
        for (int64_t c = 0; c < m->w; c++)
            lib_image_put(y, r * m->w + c, m, line + c * step);
    }
    d->finish(j);
    return d->cut_off ? LIB_FAIL(call, "the JPEG is cut off") : TCC_OK;
}

int lib_image_jpeg(struct tcc_lib_call *call, struct lib_image *m)
{
    static const char *const files[] = {"libjpeg.so.62", "libjpeg.so.8", "libjpeg.so", NULL};
    static const char *const names[] = {"jpeg_std_error",         "jpeg_CreateDecompress",  "jpeg_mem_src",
                                        "jpeg_read_header",       "jpeg_start_decompress",  "jpeg_read_scanlines",
                                        "jpeg_finish_decompress", "jpeg_destroy_decompress"};
    static _Atomic(void *) handle;
    struct decoder *d = calloc(1, sizeof *d);
    uint8_t *volatile row = NULL;

    if (!d)
        return LIB_NO_MEMORY(call);
    volatile int status = lib_image_open(call, "JPEG", &handle, files, 8, names,
                                         (void **[]){(void **)&d->std_error, (void **)&d->create, (void **)&d->source,
                                                     (void **)&d->header, (void **)&d->start, (void **)&d->lines,
                                                     (void **)&d->finish, (void **)&d->destroy});

    if (!status && !create(d))
        status = call->host->fail(call, TCC_EENV, "libjpeg has an interface that is not supported: %s", d->text);
    else if (!status) {
        if (setjmp(d->jump))
            status = LIB_FAIL(call, "the JPEG cannot be decoded: %s", d->text);
        else
            status = decode(call, d, m, &row);
        d->destroy(&d->u.j);
    }
    free(row);
    free(d);
    return status;
}
