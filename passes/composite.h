/* SPDX-License-Identifier: Apache-2.0 */
/* composite.h - ops that stand in graphs as several (composite.def): what finds them, for all that ask. */
#ifndef TCC_PASSES_COMPOSITE_H
#define TCC_PASSES_COMPOSITE_H

#include "ir/ir.h"

/* NONE is 0; a composite's id may stand in several rows of the table. */
enum composite {
    COMPOSITE_NONE,
    COMPOSITE_softmax, COMPOSITE_log_softmax, COMPOSITE_batch_norm, COMPOSITE_layer_norm, COMPOSITE_rms_norm,
        COMPOSITE_lp_norm,
    COMPOSITE_local_norm, COMPOSITE_quantise, COMPOSITE_dequantise, COMPOSITE_bytes
};
#define COMPOSITE_MAX_NODES 24
struct composite_match {
    struct ir_value *value[26];      /* by letter of the pattern; NULL: not in it */
    int nnodes;
    struct ir_node *node[COMPOSITE_MAX_NODES];       /* all of it, n first, moves between included */
};

/* Is n the last node of that composite? */
bool composite_match(struct ir_node *n, enum composite what, struct composite_match *m);
/* What each node of the function belongs to, regions included, by its id; in the context's memory. */
const uint8_t *composites_of(struct ir_func *f);

#endif
