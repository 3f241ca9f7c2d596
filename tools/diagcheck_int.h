/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to tools/: compares messages with the comments that announce them (tccc-opt --verify-diags):
 *   ; expected-error@+1 {{part of the text}}       also -warning, -note; @+N, @-N, nothing (this line), @any
 */
#ifndef TCCC_TOOLS_DIAGCHECK_INT_H
#define TCCC_TOOLS_DIAGCHECK_INT_H

#include "ir/ir.h"

/* True if each announced message arose and no other did; else what differs is printed to standard error. */
bool diags_as_expected(struct ir_ctx *ctx, const char *name, const char *text, size_t size);

#endif
