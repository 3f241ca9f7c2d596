/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program with a compiled network inside: no file is opened at run time but the picture.
 *
 *   embed PICTURE.pgm          28 x 28, binary PGM (P5); prints the label
 *
 *   tccc digits.onnx -o digits.a -H digits.h
 *   cc embed.c digits.a $(pkg-config --cflags --static --libs tccrt) -o embed
 *
 * digits.h declares digits_main(), which runs the entry point "main", and digits_model, for programs that want sessions of
 * their own (see samples/two-models).
 */
#include <stdio.h>

#include "digits.h"

enum { SIZE = 28, CLASSES = 10 };

/* Reads the picture as grey values 0..1; false when it is not what is asked for. */
static bool read_picture(const char *path, float pixels[SIZE * SIZE])
{
    FILE *f = fopen(path, "rb");
    int width = 0, height = 0, max = 0, c = 0;

    if (!f)
        return false;
    bool good = fscanf(f, "P5 %d %d %d", &width, &height, &max) == 3 && width == SIZE && height == SIZE && max == 255;
    good = good && getc(f) != EOF;
    for (int i = 0; good && i < SIZE * SIZE; i++) {
        c = getc(f);
        good = c != EOF;
        pixels[i] = (float)c / 255.0f;
    }
    fclose(f);
    return good;
}

int main(int argc, char **argv)
{
    float pixels[SIZE * SIZE], probabilities[CLASSES];
    struct tcc_tensor in[DIGITS_MAIN_INPUTS] = {{pixels, TCC_F32, 4, {1, 1, SIZE, SIZE}}};
    struct tcc_tensor out[DIGITS_MAIN_OUTPUTS] = {{probabilities, TCC_F32, 2, {1, CLASSES}}};
    int label = 0;

    if (argc != 2 || !read_picture(argv[1], pixels)) {
        fprintf(stderr, "usage: embed PICTURE.pgm    (binary PGM, %d x %d, 8 bits)\n", SIZE, SIZE);
        return 2;
    }
    if (digits_main(in, out) != TCC_OK) {
        fprintf(stderr, "embed: %s\n", tccrt_error());
        return 1;
    }
    for (int i = 1; i < CLASSES; i++)
        if (probabilities[i] > probabilities[label])
            label = i;
    printf("label: %d\n", label);
    return 0;
}
