/* SPDX-License-Identifier: Apache-2.0 */
/* Where the compiler's own files are: libtccrt.a, which artifacts embed, and the headers that generated headers
 * name. */
#ifndef TCCC_COMPILER_LOCATE_INT_H
#define TCCC_COMPILER_LOCATE_INT_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Find the support file `name` (for example "libtccrt.a") and write its path to `path` (`size` bytes, always
 * terminated). Looked at, in this order: the folder in the environment variable TCCC_LIBDIR (nothing else when it is
 * set), the folder of the running program or of this library (a build tree), ../lib beside that folder (an installed
 * tree, wherever it was moved), the library folder given at configure time. Returns false where none has it; `path`
 * then holds the last place that was looked at. Thread-safe.
 */
bool tccc_locate(const char *name, char *path, size_t size);

#endif
