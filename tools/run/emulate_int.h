/* SPDX-License-Identifier: Apache-2.0 */
/*
 * emulate_int.h - artifacts of other processors: which one a file is for, and running it by QEMU's user mode through
 * tccc-guest, or by the other processor's own tool. Functions that fail write why into `error` (ERROR_SIZE).
 */
#ifndef TCCC_TOOLS_EMULATE_INT_H
#define TCCC_TOOLS_EMULATE_INT_H

#include "tools/run/guest_io_int.h"

struct emulated;
struct emulated_shape { const char *entry; int nneeded, ndefaults, nout; };

/* Why this machine can't open the artifact itself: it is for another. False: it can, or it is nothing known. */
bool emulate_foreign(const char *path, char *error);
/* Starts the emulator on it; cpu: what QEMU's -cpu takes, "": one that has most. A tcc_status. */
int emulated_start(const char *path, const char *entry, const char *cpu, struct emulated **out, char *error);
struct emulated_shape emulated_shape(const struct emulated *e);
/* Inputs, then outputs. */
const struct guest_value *emulated_value(const struct emulated *e, int i);
int emulated_session(struct emulated *e, int threads, char *error);
int emulated_run(struct emulated *e, struct tcc_object *const *in, struct tcc_object **out, char *error);
void emulated_end(struct emulated *e);               /* NULL is fine */
/* The tool of that name that was made for the artifact's processor takes this process's place, under the emulator, with
 * the arguments argv[1] and on but --emulate. Returns only where it can't: a tcc_status. */
int emulate_tool(const char *artifact, const char *name, const char *cpu, char **argv, char *error);

#endif
