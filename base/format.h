/* SPDX-License-Identifier: Apache-2.0 */
/*
 * format.h - what a function that ends in `const char *format, ...` is told, as text. Macros, since va_start() has to
 * stand in that function.
 */
#ifndef TCC_FORMAT_H
#define TCC_FORMAT_H

#include <stdarg.h>
#include <stdio.h>

/* Into a buffer of that size that is there already. */
#define FORMAT_INTO(text, size, format)             \
    do {                                            \
        va_list args_;                              \
        va_start(args_, format);                    \
        vsnprintf((text), (size), (format), args_); \
        va_end(args_);                              \
    } while (0)
/* Declares `text` besides. */
#define FORMATTED(text, size, format) \
    char text[size];                  \
    FORMAT_INTO(text, size, format)

#endif
