/* SPDX-License-Identifier: Apache-2.0 */
/*
 * numbers.h - numbers as texts have a point, also where the library is part of a program whose locale has a comma
 * there (setlocale(LC_ALL, "") of a German user). The C locale is one object of the C library's, which nobody frees.
 */
#ifndef TCC_NUMBERS_H
#define TCC_NUMBERS_H

#include <locale.h>
#include <stdlib.h>

static inline locale_t tcc_c_locale(void)
{
    return newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

/* As strtod(). */
static inline double tcc_strtod(const char *text, char **end)
{
    return strtod_l(text, end, tcc_c_locale());
}

/* Until tcc_locale_back() of what this returns, what the calling thread writes and reads is as in the C locale. */
static inline locale_t tcc_locale_plain(void)
{
    return uselocale(tcc_c_locale());
}

static inline void tcc_locale_back(locale_t before)
{
    uselocale(before);
}

#endif
