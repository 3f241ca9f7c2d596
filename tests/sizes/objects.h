/* SPDX-License-Identifier: Apache-2.0 */
/*
 * objects.h - what LLVM made once it does not make again: forms of a case, and levels and devices, have many kernels in
 * common, and half of the time of sizes-run was LLVM's.
 */
#ifndef TCCC_TESTS_SIZES_OBJECTS_H
#define TCCC_TESTS_SIZES_OBJECTS_H

/* From now on, in this process and its children: an object is taken from the folder where the same LLVM IR has been
 * made into one for the same machine, by the same passes. Loads LLVM. NULL, or why not. */
const char *objects_share(const char *folder);

#endif
