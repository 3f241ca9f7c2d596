/* SPDX-License-Identifier: Apache-2.0 */
/* text_int.h - regular expressions of library ops (text.c). */
#ifndef TCC_RUNTIME_LIBOP_TEXT_INT_H
#define TCC_RUNTIME_LIBOP_TEXT_INT_H

#include <regex.h>

#include "runtime/libop/libop_int.h"

/* Compiles a pattern in RE2's syntax, as far as POSIX's extended expressions go; `whole`: it must match whole texts.
 * Free it with regfree() if the status is TCC_OK; else the error has been reported. */
int lib_regex(struct tcc_lib_call *call, const char *pattern, bool whole, regex_t *r);

#endif
