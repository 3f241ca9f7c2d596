/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tensor.h - tensor parallel training (--tensor-parallel=T): products, attention, embedding and loss are divided among
 * the T ranks of group "tp", each of which holds a part of their parameters. Part of the door pass.h; do not include it
 * by itself.
 *
 * The cuts are Megatron-LM's (Shoeybi et al. 2019, arXiv 1909.08053; with sequence parallel norms Korthikanti et al.
 * 2022, arXiv 2205.05198), but nothing is looked up by name or pattern. tensor_choose() follows an axis of a parameter
 * through the graph, by the rules of tensor.def: the axis of an MLP's hidden units goes from one product's columns over
 * elementwise work to the next one's rows, that of attention's heads from three products to a fourth, that of the
 * vocabulary from the embedding to the loss. Whatever divides much of the parameters for few bytes that the ranks must
 * exchange is cut. tensor_apply() then rewrites every function of the training program, as GSPMD does (Xu et al. 2021,
 * arXiv 2105.04663): each value is whole on every rank, cut along an axis, or a sum over the ranks that is still to be
 * made; forward and backward pass, clipping and update follow from the parameters' cuts alone.
 */
#ifndef TCC_PASSES_PARALLEL_TENSOR_H
#define TCC_PASSES_PARALLEL_TENSOR_H

/* The group of ranks that have parts of the same tensors; its name in the IR and for tccrt_session_group(). */
#define TENSOR_GROUP "tp"

struct tensor_plan;

/* What the ranks of a group divide. */
enum tensor_how {
    TENSOR_PARAMETERS,           /* --tensor-parallel */
    TENSOR_SEQUENCE,             /* --tensor-parallel --sequence-parallel */
    TENSOR_CONTEXT,              /* --context-parallel */
    TENSOR_EXPERTS               /* --expert-parallel */
};

/*
 * Chooses which parameters are cut, by what `train`, a function of the module, computes. NULL after a diagnostic:
 * nothing can be cut, or something has a size that `parts` doesn't divide. Lives in the context.
 */
struct tensor_plan *tensor_choose(struct ir_func *train, int parts, bool sequence);
/* For --context-parallel: parameters stay whole, each rank has a part of the sequence (tensor_ring.c). */
struct tensor_plan *tensor_choose_context(struct ir_func *train, int parts);
/* For --expert-parallel: each rank has a part of the experts, and of the samples, whose tokens go to their experts and
 * back by all-to-all, where an axis that is cut becomes another (Lepikhin et al. 2020, arXiv 2006.16668). */
struct tensor_plan *tensor_choose_experts(struct ir_func *train, int parts);
/*
 * The same for who wants to know what a rank would do, and changes nothing: by id of the function's values, which are
 * cut; what the ranks exchange, each value by as many all-reduces as `times` (a half: it is gathered once). False: it
 * can't be; *why says so, in a few words, and no message is left.
 */
struct tensor_exchange { const struct ir_node *node; const struct ir_value *value; double times; };
struct tensor_survey { bool *cut; int nexchanges; struct tensor_exchange *exchanges; };
bool tensor_survey(struct ir_func *train, int parts, enum tensor_how how, struct tensor_survey *out, const char **why);
/* Rewrites all functions and pipelines of the module for one rank, and its state variables, whose types become those of
 * a part. False after a diagnostic. */
bool tensor_apply(struct ir_module *m, const struct tensor_plan *plan);

#endif
