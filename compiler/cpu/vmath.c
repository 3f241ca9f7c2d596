/* SPDX-License-Identifier: Apache-2.0 */
#include "compiler/cpu/vmath_int.h"
bool vm_has(enum ir_op word) { (void)word; return false; }
LLVMValueRef vm_word(struct em *e, enum ir_op word, int nargs, LLVMValueRef *args)
{ (void)e; (void)word; (void)nargs; (void)args; return NULL; }
