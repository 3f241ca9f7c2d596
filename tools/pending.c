/* SPDX-License-Identifier: Apache-2.0 */
/* Weak definitions of what is not in the tree yet, so that the tools link meanwhile. Goes away with the last of them. */
#include "ir/ir.h"

__attribute__((weak)) const int tccrt_nlibops = 0;
__attribute__((weak)) const struct tcc_libop tccrt_libops[1] = {{0}};
