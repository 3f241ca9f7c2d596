/* SPDX-License-Identifier: Apache-2.0 */
/*
 * env.h - environment variables, by the table env.def: one parser for runtime, compiler and tools; and the clock.
 * Private to the project; users have tccrt_env_* (runtime/tccrt.h). The environment is read at each call: safe in
 * threads as getenv() is.
 */
#ifndef TCC_BASE_ENV_H
#define TCC_BASE_ENV_H

#include <stdbool.h>
#include <stddef.h>

/* Have all variables of ours (doc/environment.md) values that are known? Else the message says which has not. */
bool tcr_env_check(char *message, size_t size);
const char *tcr_env_text(const char *name);                                /* NULL: not set, or empty */
double tcr_env_seconds(const char *name, double otherwise);
bool tcr_env_has(const char *name, const char *word);                      /* is the word in the variable's list? */

double tcr_now(void);                                                      /* by the clock that runs on: nanoseconds */

#endif
