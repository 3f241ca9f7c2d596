/* SPDX-License-Identifier: Apache-2.0 */
/* compile_int.h - private to compiler/: compiling a module that was built in memory. */
#ifndef TCCC_COMPILE_INT_H
#define TCCC_COMPILE_INT_H

#include "compiler/tccc.h"
#include "ir/ir.h"

/* As tccc_compile(), for inference, of `m` instead of a file: o->model is a name for messages, o->name must be given.
 * The module is changed by the passes and stays its context's, whose diagnostics say what went wrong (o->message is not
 * called). `digest` stands for the module in the cache's key, and the module is left alone where o->cache_dir has the
 * artifact (*cached). fresh: compile whatever is there, and replace it. */
int compile_module(const struct tccc_options *o, struct ir_module *m, uint64_t digest, bool fresh, bool *cached);

#endif
