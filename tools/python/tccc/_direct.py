# SPDX-License-Identifier: Apache-2.0
"""Calls of compiled graphs without AOTAutograd's wrappers, whose work on each call is more than a small graph's own.

AOTAutograd leaves a description of the graph (ViewAndMutationMeta). Where it says that nothing is to be done around a call but what is done here, the backend hands
out a function of its own; else AOTAutograd's. Done here: autograd's node with what the backward graph needs, gradients laid out row-major, buffers that the graph
changes. Not done here, so AOTAutograd's: results that are views of inputs or of each other, inputs that share memory, gradients of inputs that are changed, tensor
subclasses, random states of other devices, sizes that are open, effects, hooks that are compiled in, compiled autograd.
"""


def _inputs_again(meta):
    """Results that are inputs: (number of the result, number of the input)."""
    return [(k, o.base_idx) for k, o in enumerate(meta.output_info) if o.output_type.name == "is_input"]


def _description(inputs):
    """AOTAutograd's description of the graph that was just compiled; None: there is none, or it asks for more than what is done here."""
    import torch
    context = torch._guards.TracingContext.try_get()
    meta = getattr(context, "fw_metadata", None)
    try:
        usual = meta is not None and not (
            len(meta.input_info) != inputs or meta.num_outputs_aliased != len(_inputs_again(meta)) or meta.num_intermediate_bases or meta.tokens or meta.num_backward_tokens
            or meta.is_rng_op_functionalized or meta.num_graphsafe_rng_states or meta.dynamic_outputs or meta.num_symints_saved_for_bw
            or meta.num_opaque_objects_saved_for_bw or meta.num_tensors_saved_with_no_vc_check or meta.indices_of_inputs_that_requires_grad_with_mutations_in_bw
            or meta.grad_enabled_mutation is not None or any(s is not None for s in meta.mutated_inp_stream_indices or ())
            or any(type(m).__name__ != "PlainTensorMeta" for m in meta.subclass_inp_meta + meta.subclass_fw_graph_out_meta + meta.subclass_tangent_meta))
        changed = [meta.input_info[k] for k in meta.mutated_inp_runtime_indices] if usual else []
    except AttributeError:             # another PyTorch's
        return None
    if not usual or any(not c.mutates_data or c.mutates_metadata or c.mutates_storage_metadata or c.requires_grad for c in changed):
        return None
    return meta


def results_of(graph):
    """Of how many of the graph's results, the first ones, somebody outside hears: the others are kept for the backward graph."""
    import torch
    meta = getattr(torch._guards.TracingContext.try_get(), "fw_metadata", None)
    returned = next(reversed(graph.graph.nodes)).args[0]
    try:
        return len(meta.mutated_inp_runtime_indices) + len(meta.output_info) + meta.num_intermediate_bases
    except AttributeError:
        return len(returned) if isinstance(returned, (tuple, list)) else 1


def changed_inputs():
    """Numbers of the inputs that the graph which is being compiled changes."""
    import torch
    return getattr(getattr(torch._guards.TracingContext.try_get(), "fw_metadata", None), "mutated_inp_runtime_indices", ())


def _inference(graph, inputs):
    """A function of the inputs that calls a compiled graph, which gives new values of those that it changes before the results; None: AOTAutograd is to call it."""
    import torch
    meta = _description(inputs)
    if meta is None or len(graph.inputs) != inputs:
        return None
    run, write, places = graph.caller(), torch._foreach_copy_, list(meta.mutated_inp_runtime_indices)
    again = _inputs_again(meta)
    if not places and not again:
        def call(*args):
            return run(args)
        return call

    def call_and_write(*args):
        out = list(run(args))
        if places:                     # none of them has a gradient
            write([args[k] for k in places], out[:len(places)])
            del out[:len(places)]
        for k, which in again:
            out[k] = args[which]
        return out
    return call_and_write


def _hooked():
    """Is something compiled in that autograd calls, or is the backward pass to be compiled with others?"""
    import torch
    from torch._functorch._aot_autograd import utils
    return (torch._dynamo.config.compiled_autograd or torch._dynamo.compiled_autograd.compiled_autograd_enabled
            or utils.saved_tensors_hooks_are_inlineable(utils.top_saved_tensors_hooks()))


def _node(forward, backward, returned, tangents, constants, views):
    """Autograd's function. Forward's results behind the first ones are kept for backward, which takes the gradients of the numbered results behind them. constants: numbers of
    results that have no gradient; views: numbers of kept ones that are views."""
    import torch
    grad_enabled = torch.is_grad_enabled

    class Graph(torch.autograd.Function):
        @staticmethod
        def forward(ctx, *args):
            out = forward(args)
            kept = out[returned:]
            if views:
                kept = [t.detach() if k in views else t for k, t in enumerate(kept)]
            ctx.save_for_backward(*kept)
            if constants:
                ctx.mark_non_differentiable(*[out[k] for k in constants])
                ctx._materialize_non_diff_grads = False
            return tuple(out[:returned])

        @staticmethod
        def backward(ctx, *gradients):
            wanted = [gradients[k].contiguous() for k in tangents]
            if grad_enabled():
                return Twice.apply(torch.empty(0, requires_grad=True), *ctx.saved_tensors, *wanted)
            return tuple(backward([*ctx.saved_tensors, *wanted]))

    class Twice(torch.autograd.Function):
        """For create_graph=True: gradients that say, when they are asked for their own, that there are none."""

        @staticmethod
        def forward(ctx, _, *args):
            return tuple(backward(args))

        @staticmethod
        def backward(ctx, *unused):
            raise RuntimeError("torch.compile's graphs have first derivatives only (no double backward)")
    return Graph


def _training(meta, forward, backward, inputs):
    """The same of two graphs, forward and backward."""
    import torch
    if len(forward.inputs) != inputs or len(backward.results.plan) != inputs or meta.dynamic_saved_tensors_idxs or meta.num_outputs_aliased:
        return None
    changed = list(meta.mutated_inp_runtime_indices)
    results, first = forward.results.plan, len(changed)
    returned, kept = first + len(meta.output_info), results[first + len(meta.output_info):]
    tangents = [first + k for k, o in enumerate(meta.output_info) if o.requires_grad_for_backward]
    if (not all(issubclass(o.raw_type, torch.Tensor) for o in meta.output_info) or len(backward.inputs) != len(kept) + len(tangents)
            or any(i.requires_grad and hasattr(g, "constant") for i, g in zip(meta.input_info, backward.results.plan))):
        return None
    constants = [*range(first), *(first + k for k, o in enumerate(meta.output_info) if not o.requires_grad)]
    views = {k for k, r in enumerate(kept) if not hasattr(r, "plain") and not hasattr(r, "input")}
    apply = _node(forward.caller(), backward.caller(), returned, tangents, constants, views).apply
    grad_enabled, write = torch.is_grad_enabled, torch._foreach_copy_

    def call(*args):
        if grad_enabled():
            out = apply(*args)
        else:                          # compiled where gradients are turned on inside
            with torch.enable_grad():
                out = apply(*args)
        if not first:
            return out
        write([args[k] for k in changed], list(out[:first]))
        return out[first:]
    return call


def _training_later(made, inputs, call):
    """AOTAutograd has the backward graph compiled when it is first needed; calls are its own until then."""
    meta = _description(inputs)
    if meta is None or _hooked():
        return call
    chosen = None

    def choose(*args):
        nonlocal chosen
        if chosen is None:
            if "backward" not in made:
                return call(*args)
            graphs = [getattr(made[kind], "graph", None) for kind in ("forward", "backward")]
            chosen = (all(graphs) and _training(meta, *graphs, inputs)) or call
        return chosen(*args)
    return choose


def call_of(made, inputs, call):
    """What is to be called with so many inputs: AOTAutograd's call, or one that is shorter. made: compiled graphs by kind, filled in as they are needed."""
    if "forward" in made:
        return _training_later(made, inputs, call)
    graph = getattr(made.get("inference"), "graph", None)
    return (graph and _inference(graph, inputs)) or call
