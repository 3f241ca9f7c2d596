/* SPDX-License-Identifier: Apache-2.0 */
/* coll_int.h - operations as sequences of messages: what coll.c and coll_cast.c share. */
#ifndef TCC_RUNTIME_COLL_INT_H
#define TCC_RUNTIME_COLL_INT_H

#include "runtime/comm/comm_int.h"

#define WINDOW 4                        /* chunks under way */
#define CHUNK_BYTES ((size_t)512 << 10) /* of one rank's elements */

/* coll.c. Elements of several tensors as if they were one, [first, first + n): in one stretch of memory, or NULL; from
 * there to `flat`, or (out_of false) back. */
char *tcr_coll_stretch(const struct tcr_coll *c, const struct tcr_piece *pieces, int64_t first, int64_t n);
void tcr_coll_copy(const struct tcr_coll *c, const struct tcr_piece *pieces, int64_t first, int64_t n, char *flat,
                   bool out_of);
int tcr_coll_world(const struct tcr_op *op, int rank);      /* the group's rank as one of the world */
bool tcr_coll_all_over(struct tcr_msg *m, int n);           /* are all these messages sent and come? */

/* coll_cast.c */
int tcr_cast_begin(struct tcr_op *op);
int tcr_cast_advance(struct tcr_op *op, bool *moved);
void tcr_cast_end(struct tcr_op *op);

#endif
