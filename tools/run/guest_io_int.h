/* SPDX-License-Identifier: Apache-2.0 */
/*
 * guest_io_int.h - what goes between tccc-run --emulate and tccc-guest, which holds the artifact under an emulator:
 * numbers and values through pipes, little-endian as all machines here are.
 *
 * The guest says first: a status, a message where it isn't TCC_OK, else the entry point's name, the numbers of inputs,
 * of inputs that may be left out, of outputs; then each value's description. From then on it answers commands:
 * GUEST_SESSION (threads) by a status and a message; GUEST_RUN (inputs) by those and the outputs; the end of its
 * input ends it.
 */
#ifndef TCCC_TOOLS_GUEST_IO_INT_H
#define TCCC_TOOLS_GUEST_IO_INT_H

#include "runtime/tccrt.h"

#include <stdbool.h>
#include <stdio.h>

enum { GUEST_SESSION = 'S', GUEST_RUN = 'R' };

/* A value's description; least, most: as of tccrt_input_bounds(). */
struct guest_value { struct tccrt_value_info info; int64_t least[TCC_MAX_RANK], most[TCC_MAX_RANK]; };

/* False: the other side is gone, or sent something else. Texts that are read are the caller's to free (NULL: sent
 * so). */
bool guest_put_number(FILE *to, int64_t v);
bool guest_put_text(FILE *to, const char *s);
bool guest_put_value(FILE *to, const struct guest_value *v);
bool guest_put_object(FILE *to, const struct tcc_object *o);          /* NULL, too */
bool guest_get_number(FILE *from, int64_t *v);
bool guest_get_text(FILE *from, char **s);
bool guest_get_value(FILE *from, struct guest_value *v);               /* its names are the caller's, too */
bool guest_get_object(FILE *from, struct tcc_object **o);

#endif
