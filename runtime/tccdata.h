/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tccdata.h - pictures for compiled models, from C (public): a file becomes the tensor that an input takes, with the
 * same bits that tccc-train and tccc-run --data make of it.
 *
 *   struct tccrt_value_info in;  struct tccdata_picture p;
 *   if (tccrt_input(m, "main", 0, &in) || tccdata_picture_for(&in, &p)) ...
 *   p.resize = 256;  p.mean[0] = 0.485f;  ...                  what training was told (size=, resize=, mean=, std=)
 *   float *x = malloc(tccdata_bytes(&p));
 *   if (tccdata_read(&p, "cat.jpg", x)) fprintf(stderr, "%s\n", tccdata_error());
 *   struct tcc_tensor t = {x, TCC_F32, 4, {1, 3, 224, 224}};   one sample; n of them lie one behind the other
 *
 * Formats are known by a file's first bytes. BMP and PNM (values to 255) need nothing; JPEG, PNG, TIFF, WebP and JPEG
 * 2000 are decoded by libjpeg-turbo, libpng, libtiff, libwebp and OpenJPEG, which are opened when the first such
 * picture comes: without them that call is TCC_EENV, and the message names the library. Of PNG, BMP, PNM, TIFF and
 * lossless WebP pixels are the file's; those of JPEG are libjpeg-turbo's by its defaults, as Pillow's are. Alpha is
 * dropped, 16 bits become 8; TIFF is turned as its tag of orientation says, while that of EXIF, gamma and colour
 * profiles are not looked at. A picture has at most 2^28 pixels, one that is made at most 16384 along a side.
 *
 * Functions return a tcc_status (abi.h): TCC_OK; TCC_EINPUT, the picture or the input is to blame; TCC_EENV, a library,
 * a file or memory is missing; TCC_EUSAGE, an argument makes no sense. tccdata_error() has the message of the calling
 * thread's last failure. The library keeps nothing between calls: any threads may call it at once, for any pictures.
 * Link libtccdata.a before libtccrt.a (pkg-config tccdata), or libtccdata.so alone.
 */
#ifndef TCCDATA_H
#define TCCDATA_H

#include "tccrt.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a sample of an input is. Value v of a channel c, 0 to 255, becomes (v / 255 - mean[c]) / std[c] of float32, each
 * step rounded; or stays as it is (TCC_U8). */
struct tccdata_picture {
    int channels;                /* 3: red, green, blue; 1: grey, by ITU-R BT.601 as Pillow has it */
    int height, width;           /* pixels, 1 to 16384 */
    /* the shorter side becomes so many pixels, then the middle is cut out; 0: the lesser of height and width */
    int resize;
    int last;                    /* 0: [channels, height, width], as PyTorch has it; 1: [height, width, channels] */
    int dtype;                   /* TCC_F32 or TCC_U8 */
    float mean[3], std[3];       /* of values from 0 to 1, by channel; not looked at with TCC_U8 */
};

/* Pixels in memory: `channels` bytes each, from the upper left one on, rows `stride` bytes apart. What the library made
 * is freed by tccdata_free(); a program's own (a camera's) may be given wherever none are made. */
struct tccdata_pixels {
    int width, height, channels;
    size_t stride;
    unsigned char *data;
};
struct tccdata_box {
    int left, top, width, height;
};

/* What the input says of its pictures: channels, height, width (0: it leaves that open, say it), order and type; resize
 * is 0, mean 0, std 1. TCC_EINPUT: it takes none; those that do are of floats or bytes, [samples, 1 or 3, height,
 * width] or [samples, height, width, 1 or 3]. For one of f16 or bf16 the program converts the float32. */
int tccdata_picture_for(const struct tccrt_value_info *input, struct tccdata_picture *p);
size_t tccdata_bytes(const struct tccdata_picture *p);                     /* of a sample; 0: p makes no sense */

/* A picture file's `size` bytes, or the file PATH, as a sample: tccdata_bytes(p) bytes at `to`. A failed call may have
 * written some of them. */
int tccdata_decode(const struct tccdata_picture *p, const void *file, size_t size, void *to);
int tccdata_read(const struct tccdata_picture *p, const char *path, void *to);

/* The same in steps: what is in a file; in the size of the sample, its middle; as a sample of an input. Results of the
 * first three are the caller's, all zeros after a failure. */
int tccdata_pixels(const void *file, size_t size, int channels, struct tccdata_pixels *out);
/* Resize, then CenterCrop, as torchvision has them: what lies outside of a picture that is too small is 0. */
int tccdata_middle(const struct tccdata_picture *p, const struct tccdata_pixels *x, struct tccdata_pixels *out);
/* Pillow's bilinear filter: a triangle as wide as two pixels of the result, of the source where that is enlarged. box
 * NULL: the whole picture. */
int tccdata_resize(const struct tccdata_pixels *x, const struct tccdata_box *box, int width, int height,
                   struct tccdata_pixels *out);
int tccdata_sample(const struct tccdata_picture *p, const struct tccdata_pixels *x, void *to);
void tccdata_free(struct tccdata_pixels *x);                               /* its data; x becomes zeros */

const char *tccdata_error(void);                 /* of this thread; "" when none */

#ifdef __cplusplus
}
#endif
#endif
