/* SPDX-License-Identifier: Apache-2.0 */
/* sniff.h - what a file is that a front end can't read; apart, since those who open files know nothing of builders. */
#ifndef TCC_IMPORT_SNIFF_H
#define TCC_IMPORT_SNIFF_H

#include <stdbool.h>
#include <stdint.h>

/*
 * What the file is when it is no model of the front end's, as the end of a sentence that also names what works; NULL
 * when nothing else is recognised.
 */
const char *imp_sniff(const uint8_t *data, uint64_t size);

#endif
