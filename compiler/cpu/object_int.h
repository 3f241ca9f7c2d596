/* SPDX-License-Identifier: Apache-2.0 */
/*
 * object_int.h - compiles some of a program's kernels to one object file, in a child process.
 */
#ifndef TCC_CPU_OBJECT_INT_H
#define TCC_CPU_OBJECT_INT_H

#include "compiler/cpu/cpu_int.h"

struct object_job {
    struct ir_ctx *ctx;
    const struct kn_program *program;
    const struct cpu_machine *machine;
    const struct target_options *options;
    const char *prefix;
    const int *part_of;              /* per kernel: the part that compiles it */
    int part;
    const char *path;                /* object file to write */
    const char *dump_path;           /* where options->dump goes */
};
/* The child: writes the object (and dump), or a message to `report`; ends the process. */
_Noreturn void object_child(const struct object_job *job, int report);
/* Does the object need nothing but memcpy, memmove, memset? A diagnostic (our bug) names what it needs otherwise. */
bool object_check(struct ir_ctx *ctx, const char *path);

#endif
