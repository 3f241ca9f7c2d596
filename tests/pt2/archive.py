# SPDX-License-Identifier: Apache-2.0
"""Cases of programs: an archive, its inputs and PyTorch's results as TensorProtos."""
import copy, json, os, zipfile
import torch
from onnx import TensorProto

TYPES = {torch.float32: 1, torch.uint8: 2, torch.int8: 3, torch.uint16: 4, torch.int16: 5, torch.int32: 6, torch.int64: 7, torch.bool: 9, torch.float16: 10,
         torch.float64: 11, torch.uint32: 12, torch.uint64: 13, torch.bfloat16: 16}
HALVES = (torch.float16, torch.bfloat16)


def proto(tensor):
    tensor = tensor.detach().clone(memory_format=torch.contiguous_format)
    if tensor.is_complex():                # pairs, as programs take and give them
        tensor = torch.view_as_real(tensor.resolve_conj())
    return TensorProto(dims=tensor.shape, data_type=TYPES[tensor.dtype], raw_data=tensor.reshape(-1).view(torch.uint8).numpy().tobytes() if tensor.numel() else b"")


class Program(torch.nn.Module):
    def __init__(self, f):
        super().__init__()
        self.f = f

    def forward(self, *inputs):
        return self.f(*inputs)


def dynamic_shapes(dynamic):
    """({0: "n"}, None): which axes have which symbol; "2*n" is twice that, "N" at least 2, "n16" at least 16; "?" is as open as the program allows."""
    dims = {}
    def dim(text):
        if text == "?":
            return torch.export.Dim.AUTO
        factor, _, name = text.rpartition("*")
        dims.setdefault(name, torch.export.Dim(name, min=int(name[1:] or (1 if not factor and name.islower() else 2)), max=64))
        return int(factor) * dims[name] if factor else dims[name]
    return tuple({axis: dim(text) for axis, text in (axes or {}).items()} for axes in dynamic)


def targets(program):
    return [str(n.target) for n in program.graph.nodes if n.op == "call_function"]


def flat(results):
    if isinstance(results, torch.Tensor):
        return [results]
    if isinstance(results, dict):
        results = list(results.values())
    if isinstance(results, (tuple, list)):
        return [t for r in results for t in flat(r)]
    return [torch.tensor(results)] if isinstance(results, (bool, int, float)) else []


def save(program, path):
    """As torch.export.save writes it, without what nothing reads (sample inputs, Python's stacks), so that what is stored is small."""
    torch.export.save(program, path)
    with zipfile.ZipFile(path) as archive:
        entries = [(e, archive.read(e)) for e in archive.infolist() if "sample_inputs" not in e.filename]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for e, data in entries:
            if e.filename.endswith("models/model.json"):
                model = json.loads(data)
                for node in model["graph_module"]["graph"]["nodes"]:
                    node["metadata"] = {}
                model["graph_module"]["module_call_graph"] = []
                data = json.dumps(model, separators=(",", ":")).encode()
            info = zipfile.ZipInfo(e.filename, (1980, 1, 1, 0, 0, 0))
            archive.writestr(info, data)


def write(folder, program, inputs, results, tol, number=0, again=False):
    """again: the archive is there, and gets one more set of data."""
    data = os.path.join(folder, f"test_data_set_{number}")
    os.makedirs(data, exist_ok=True)
    if not again:
        save(program, os.path.join(folder, "model.pt2"))
    for kind, tensors in (("input", flat(inputs)), ("output", results)):
        for k, tensor in enumerate(tensors):
            with open(os.path.join(data, f"{kind}_{k}.pb"), "wb") as f:
                f.write(proto(tensor).SerializeToString())
    with open(os.path.join(folder, "tol"), "w") as f:
        f.write(tol + "\n")


def write_case(folder, name, f, inputs, dynamic=None, tol=None, edit=None, also=()):
    """edit: what is done to the program, so that it has ops that the exporter writes otherwise. also: other inputs, of other sizes."""
    module = f if isinstance(f, torch.nn.Module) else Program(f)
    shapes = dynamic_shapes(dynamic) if dynamic else None
    if shapes and not isinstance(f, torch.nn.Module):
        shapes = (shapes,)
    eager = copy.deepcopy(module)          # what a run writes to the program's buffers is not what the archive begins with
    program = torch.export.export(module, tuple(inputs), dynamic_shapes=shapes)
    if edit:
        edit(program.graph)
    sets = []
    for given in (inputs, *also):
        with torch.no_grad():
            sets.append((given, flat(eager(*[x.clone() if isinstance(x, torch.Tensor) else x for x in given]))))
    half = any(x.dtype in HALVES for x in flat(list(inputs)) + sets[0][1])
    tol = tol or ("2e-2 2e-2" if half else "1e-4 1e-5")

    def put(name, program):
        for k, (given, results) in enumerate(sets):
            write(os.path.join(folder, name), program, given, results, tol, number=k, again=k > 0)
    put(name, program)
    if edit or any(x.is_complex() for x in flat(list(inputs))):
        return                             # PyTorch 2.15 cannot decompose these: the guards that it makes fail
    core = program.run_decompositions()
    if targets(core) != targets(program):
        put(name + ".core", core)
