/* SPDX-License-Identifier: Apache-2.0 */
/*
 * objects.h - what LLVM made once it does not make again: forms of a case, and levels and devices, have many kernels in
 * common, and half of the time of sizes-run was LLVM's. The same of the linker.
 */
#ifndef TCCC_TESTS_SIZES_OBJECTS_H
#define TCCC_TESTS_SIZES_OBJECTS_H

#include <stdbool.h>
#include <stdint.h>

/* From now on, in this process and its children: an object is taken from the folder where the same LLVM IR has been
 * made into one for the same machine, by the same passes, and an artifact where the same objects have been linked.
 * quick: LLVM chooses instructions without optimising, in a third of the time. Loads LLVM. NULL, or why not. */
const char *objects_share(const char *folder, bool quick);

/* From now on objects_linked() is this process's own, and its children's, who say it. */
bool objects_begin(void);

/* The digest of what the artifact that was linked last consists of, without its options; 0: none was since the last
 * call. */
uint64_t objects_linked(void);

#endif
