/* SPDX-License-Identifier: Apache-2.0 */
/* hbm_int.h - tensors of a program, which lie in HBM (hbm.c). */
#ifndef TCC_NEURON_HBM_INT_H
#define TCC_NEURON_HBM_INT_H

#include "compiler/neuron/neuron_int.h"

/* A tensor of n elements behind those that the program has; the runtime knows it by its name and place. Refuses the
 * kernel where there is no memory for it. */
struct nk_buffer *nk_add_tensor(struct nk *nk, const char *name, enum neuron_use use, enum neuron_type type, int64_t n);

#endif
