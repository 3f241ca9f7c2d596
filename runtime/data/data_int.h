/* SPDX-License-Identifier: Apache-2.0 */
/* data_int.h - what the parts of libtccdata share. */
#ifndef TCC_RUNTIME_DATA_INT_H
#define TCC_RUNTIME_DATA_INT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* w x h pixels of u8[h, w, channels], rows `stride` bytes apart, become tw x th without gaps. False: no memory. */
bool tcr_resample(const uint8_t *from, size_t stride, int w, int h, int channels, uint8_t *to, int tw, int th);

#endif
