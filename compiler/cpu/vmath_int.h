/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vmath_int.h - transcendental words and fmod, as vector code for float and double in any number of lanes.
 */
#ifndef TCC_CPU_VMATH_INT_H
#define TCC_CPU_VMATH_INT_H

#include "compiler/cpu/emit_int.h"

/* The word on values of float or double type (scalar or vector); NULL: not one of vmath's words. */
LLVMValueRef vm_word(struct em *e, enum ir_op word, int nargs, LLVMValueRef *args);
bool vm_has(enum ir_op word);

#endif
