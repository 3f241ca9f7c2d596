# SPDX-License-Identifier: Apache-2.0
"""An FX graph of ATen ops as a .pt2 archive: what torch.export.save() would write of it, without a pickle.

PyTorch's own serialiser makes the graph's JSON (torch._export.serde, schema 8); the archive around it is written here, since a graph of AOTAutograd's is no
ExportedProgram: it has no module and no state, and its results may be None, inputs and sizes.
"""
import io
import json
import zipfile


def _argument(node):
    import torch
    from torch.export.graph_signature import ConstantArgument, SymIntArgument, TensorArgument
    if not isinstance(node, torch.fx.Node):
        return ConstantArgument(name="", value=node)
    value = node.meta["val"]
    return TensorArgument(name=node.name) if isinstance(value, torch.Tensor) else SymIntArgument(name=node.name)


def _fix_inputs(graph, gm):
    """Tensors that the graph module holds become inputs behind the others: the list of their values."""
    import torch
    constants, last = [], None
    for node in graph.nodes:
        if node.op == "placeholder":
            last = node
    for node in list(graph.nodes):
        if node.op != "get_attr":
            continue
        value = gm
        for part in node.target.split("."):
            value = getattr(value, part)
        if not isinstance(value, torch.Tensor):
            continue
        with graph.inserting_after(last) if last is not None else graph.inserting_before(next(iter(graph.nodes))):
            new = graph.placeholder(f"held_{len(constants)}")
        new.meta["val"] = node.meta.get("val", value)
        node.replace_all_uses_with(new)
        graph.erase_node(node)
        constants.append(value)
        last = new
    return constants


def _add_in_pairs(graph):
    """torch.sym_sum, for which PyTorch's serialiser has no words, as sums of two."""
    import operator
    import torch
    for node in list(graph.nodes):
        if node.op != "call_function" or node.target is not torch.sym_sum:
            continue
        total, value = 0, 0
        with graph.inserting_before(node):
            for term in node.args[0]:
                value = value + (term.meta["val"] if isinstance(term, torch.fx.Node) else term)
                total = graph.call_function(operator.add, (total, term))
                total.meta["val"] = value
        node.replace_all_uses_with(total)
        graph.erase_node(node)


def _ranges(placeholders):
    """The bounds of the symbols in the inputs' sizes: the format's range_constraints."""
    import torch
    ranges = {}
    for node in placeholders:
        value = node.meta["val"]
        for size in value.shape if isinstance(value, torch.Tensor) else (value,):
            if not isinstance(size, torch.SymInt):
                continue
            for symbol in size.node.expr.free_symbols:
                bounds = size.node.shape_env.var_to_range.get(symbol)
                if bounds is not None:
                    ranges[str(symbol)] = {f"{side}_val": int(v) if v.is_Integer else None for side, v in (("min", bounds.lower), ("max", bounds.upper))}
    return ranges


def serialise(gm, results, frozen=None):
    """The archive of a graph module whose results are these nodes (each a tensor, each once).

    frozen: {placeholder's number: tensor}, inputs that become parameters with these values. Returns (bytes, key, held): key stands for all but the frozen values;
    held are tensors that are to be given behind the other inputs.
    """
    import torch
    import torch._export.serde.serialize as serde
    from torch._subclasses.fake_tensor import unset_fake_temporarily
    from torch.export.graph_signature import ExportGraphSignature, InputKind, InputSpec, OutputKind, OutputSpec
    frozen = frozen or {}
    graph, names = torch.fx.Graph(), {}
    graph.graph_copy(gm.graph, names)
    new_results = [names[r] for r in results]
    for old, new in names.items():
        new.meta = dict(old.meta)
    output = graph.output(tuple(new_results))
    _add_in_pairs(graph)
    new_results = list(output.args[0])
    held = _fix_inputs(graph, gm)
    graph.eliminate_dead_code()
    copy = torch.fx.GraphModule(gm, graph)
    for module in copy.modules():      # what else nodes know has no form in the archive
        for node in module.graph.nodes if isinstance(module, torch.fx.GraphModule) else ():
            value = node.meta.get("val")
            if isinstance(value, list) and isinstance(node.target, torch._ops.HigherOrderOperator):
                value = tuple(value)   # as the serialiser wants results of cond()'s gradient
            node.meta = {"val": value} if "val" in node.meta else {}
    placeholders = [n for n in graph.nodes if n.op == "placeholder"]
    inputs = [InputSpec(InputKind.PARAMETER if k in frozen else InputKind.USER_INPUT, _argument(n), n.name if k in frozen else None) for k, n in enumerate(placeholders)]
    outputs = [OutputSpec(OutputKind.USER_OUTPUT, _argument(n), None) for n in new_results]
    made = serde.GraphModuleSerializer(ExportGraphSignature(inputs, outputs), []).serialize(copy)
    module = serde._dataclass_to_dict(made)
    program = {"graph_module": module, "opset_version": {"aten": 10}, "range_constraints": _ranges(placeholders), "guards_code": [], "verifiers": ["ATEN"],
               "schema_version": dict(zip(("major", "minor"), serde.SCHEMA_VERSION)), "torch_version": str(torch.__version__)}
    text = json.dumps(program, cls=serde.EnumEncoder, sort_keys=True)
    with unset_fake_temporarily():     # the values are real ones
        return _archive(text, module["graph"]["tensor_values"], {placeholders[k].name: t for k, t in frozen.items()}), text, held


def _archive(program, metas, parameters):
    import torch
    import torch._export.serde.serialize as serde
    out = io.BytesIO()
    config = {}
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as z:
        for name, text in (("archive_format", "pt2"), ("archive_version", "0"), ("byteorder", "little"), ("models/model.json", program),
                           ("data/constants/model_constants_config.json", '{"config": {}}')):
            z.writestr("graph/" + name, text)
        for k, (name, t) in enumerate(parameters.items()):
            t = t.detach().contiguous()
            meta = dict(metas[name], strides=[{"as_int": s} for s in t.stride()], storage_offset={"as_int": 0})
            config[name] = {"path_name": f"weight_{k}", "is_param": True, "use_pickle": False, "tensor_meta": meta}
            with z.open(f"graph/data/weights/weight_{k}", "w", force_zip64=True) as f:
                f.write(memoryview(t.reshape(-1).view(torch.uint8).numpy()))
        z.writestr("graph/data/weights/model_weights_config.json", json.dumps({"config": config}, cls=serde.EnumEncoder))
    return out.getvalue()
