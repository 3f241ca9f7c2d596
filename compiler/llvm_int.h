/* SPDX-License-Identifier: Apache-2.0 */
/*
 * llvm_int.h - LLVM's C interface. The library takes 12 ms to load, most of it relocations, whether or not anything is
 * compiled; so nothing is linked with it: its functions (llvm.def) are members of one struct, which llvm_load() fills,
 * and their names mean these members. Whoever calls LLVM includes this header and none of LLVM's own.
 */
#ifndef TCC_LLVM_INT_H
#define TCC_LLVM_INT_H

#include <llvm-c/Analysis.h>
#include <llvm-c/Core.h>
#include <llvm-c/DebugInfo.h>
#include <llvm-c/ErrorHandling.h>
#include <llvm-c/Support.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>
#include <llvm-c/Transforms/PassBuilder.h>
#include <llvm/Config/llvm-config.h>
#include <stdbool.h>

struct llvm_functions {
#define F(name) __typeof__(name) *name;
#include "compiler/llvm.def"
};
extern struct llvm_functions llvm_functions;
#include "compiler/llvm_names.inc"

/* Loads LLVM if that has not happened yet. NULL: it is there, else why not. Child processes have what their parent had.
 * Thread-safe. */
const char *llvm_load(void);

#endif
