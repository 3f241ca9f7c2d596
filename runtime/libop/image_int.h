/* SPDX-License-Identifier: Apache-2.0 */
/*
 * image_int.h - what the decoders of image_decoder share. Each takes the file `m->p`, m->size bytes, and gives u8[h, w,
 * c] in the format that was asked for. Sizes are checked before memory is asked for; a decoder that needs a library
 * opens it when it is called.
 */
#ifndef TCC_RUNTIME_LIBOP_IMAGE_INT_H
#define TCC_RUNTIME_LIBOP_IMAGE_INT_H

#include "runtime/libop/libop_int.h"

#define LIB_IMAGE_PIXELS (INT64_C(1) << 28) /* of the largest image that is decoded */

struct lib_image {
    const uint8_t *p;
    int64_t size, at, w, h;
    const char *format; /* RGB, BGR, Grayscale */
};

/* The result for an image of m->w times m->h pixels; NULL after a report, of too many pixels too. */
uint8_t *lib_image_output(struct tcc_lib_call *call, const struct lib_image *m);
/* May an image have m->w times m->h pixels? Else reports. */
bool lib_image_fits(struct tcc_lib_call *call, const struct lib_image *m);
/* Pixel i of the result. */
void lib_image_put(uint8_t *y, int64_t i, const struct lib_image *m, const uint8_t *rgb);
/* The result, of m->w times m->h pixels of `step` bytes whose first three are red, green, blue. */
int lib_image_from_rgb(struct tcc_lib_call *call, const struct lib_image *m, const uint8_t *rgb, int step);
/* Functions of a library that is looked for by the names in `files` (ended by NULL), into *to[i] for names[i]. *handle
 * keeps it open for the process. TCC_EENV after a report: it is not installed, or lacks one of them. */
int lib_image_open(struct tcc_lib_call *call, const char *format, _Atomic(void *) *handle, const char *const *files,
                   int n,
                   const char *const *names, void **const *to);

int lib_image_jpeg(struct tcc_lib_call *call, struct lib_image *m);
int lib_image_jpeg2000(struct tcc_lib_call *call, struct lib_image *m);
int lib_image_png(struct tcc_lib_call *call, struct lib_image *m);
int lib_image_tiff(struct tcc_lib_call *call, struct lib_image *m);
int lib_image_webp(struct tcc_lib_call *call, struct lib_image *m);

#endif
