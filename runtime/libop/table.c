/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of all library ops. It lives in an object file of its own: artifacts reference the ops that they use by
 * symbol and do not pull this one, and with it all of them, in.
 */
#include "runtime/libop/libop_int.h"

const struct tcc_libop tccrt_libops[] = {
#define OP(name, meaning) {#name, "tccrt_lib_" #name, tccrt_lib_##name},
#include "runtime/libop/libops.def"
};
const int tccrt_nlibops = (int)(sizeof tccrt_libops / sizeof *tccrt_libops);
