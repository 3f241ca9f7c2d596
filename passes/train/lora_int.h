/* SPDX-License-Identifier: Apache-2.0 */
/* lora_int.h - between lora.c, which adds adapters to a step, dora.c, which adds magnitudes, lora_merge.c, which adds
 * stored ones to weights, lora_choose.c, which puts several in, lora_names.c, which knows what stored names mean, and
 * base.c, which makes the weights small. */
#ifndef TCC_PASSES_TRAIN_LORA_INT_H
#define TCC_PASSES_TRAIN_LORA_INT_H

#include "passes/train/adapt_int.h"

/* lora_names.c: does the pattern match the name, or what is behind one of its dots? */
bool lora_matches(const char *pattern, const char *name);
/* Does `save` mean the parameter: by its name, its layer's, or that of another one of its layer, as PEFT saves layers
 * whole? Of a layer that has an adapter it means what it names alone. pattern NULL: no. */
bool lora_saves(struct ir_module *m, const char *pattern, const char *param);
/* The same adapters under the names that their layers and parameters have in the model. Of a module read for training,
 * weights that an exporter has renamed and turned, and that are saved whole, become PyTorch's again. */
const struct train_lora *lora_in_model(struct ir_module *m, const struct train_lora *l);

/* A layer that has an adapter. stored: its numbers (NULL: new). */
struct lora_layer { struct dense d; const struct train_adapter *stored; };
struct lora_layers { VEC(struct lora_layer) list; };
/* The layers of a function that the options mean. False after a diagnostic: there is none, a stored adapter has no
 * layer, or has other sizes than it. */
bool lora_find(struct ir_func *f, const struct train_lora *l, struct lora_layers *out);

/* base.c: weights under adapters in 8 or 4 bits. Chosen and encoded while they are parameters yet, put in the place of
 * the constants that these have become; false: there was none. base_values: what a parameter then is. */
struct base { VEC(struct base_weight) list; };
void base_encode(struct ir_module *m, const struct base_form *form, struct base *base);
struct ir_tensor *base_values(struct ir_ctx *ctx, const struct base *base, struct ir_tensor *t);
bool base_replace(struct ir_module *m, struct base *base);

/* Sizes of an adapter's two matrices; what has more than two dims is a convolution's. */
struct lora_sizes { int rank; int64_t a[TCC_MAX_RANK], b[TCC_MAX_RANK]; };
struct lora_sizes lora_sizes(const struct dense *d, int64_t r);

/* (x A') B', or the same of convolutions. */
struct ir_value *lora_delta(struct ir_builder *b, const struct dense *d, struct ir_value *x, struct ir_value *first,
                            struct ir_value *second);
/* What reads y reads `sum`, in y's type, after both calls; what is built between them may read y. */
struct ir_value *lora_hold(struct ir_builder *b, struct ir_value *y);
bool lora_release(struct ir_builder *b, struct ir_value *held, struct ir_value *y, struct ir_value *sum);

/* lora_merge.c: the constant whose place a parameter takes that is saved beside adapters. NULL after a diagnostic. */
struct ir_value *lora_saved(struct ir_func *f, const char *from, const struct train_saved *saved);

/* dora.c: a magnitude for each output. Their dims (in `a`), their first values: the norms of the layer's weight w. */
struct lora_sizes dora_size(const struct dense *d);
struct ir_tensor *dora_norms(struct ir_ctx *ctx, const struct dense *d, const struct ir_tensor *w);
/* By what the outputs of layer and adapter are multiplied: magnitude / |W + scale b a|. */
struct dora_parts { struct ir_value *a, *b, *scale, *magnitude; };
struct ir_value *dora_factor(struct ir_builder *b, const struct dense *d, const struct dora_parts *p);

#endif
