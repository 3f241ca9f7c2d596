/* SPDX-License-Identifier: Apache-2.0 */
/* small_target.h - a whole target in one file, for tests and to read (doc/adding.md). */
#ifndef TCC_TESTS_SMALL_TARGET_H
#define TCC_TESTS_SMALL_TARGET_H

#include "compiler/target.h"

extern const struct target small_target; /* "small": register it with target_register() */

#endif
