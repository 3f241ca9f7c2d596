# SPDX-License-Identifier: Apache-2.0
"""torch.compile(net, backend="tccc"): graphs of AOTAutograd, forward and backward, as compiled artifacts.

A graph that cannot be compiled runs in eager PyTorch, with a warning that says why (tccc.metrics() counts). Options, as torch.compile(..., options={...}):
those of tccc.compile() (level, march, exact, fast_math, cache_dir, threads...), and
    freeze      True (default): where no gradients are computed, parameters are constants of the artifact, packed once. In-place changes of them and other modules are noticed
                and compiled anew, the second time without freezing; writes by an address, or by names taken before the first call, are not: False then.
    fallback    True (default): False: what cannot be compiled is an error.
"""
import functools
import hashlib
import math
import operator
import os
import shutil
import warnings
import weakref

from . import _autoload, _backward, _compile, _direct, _grid
from ._model import Model
from .errors import Error, UsageError

_made = {}                             # key of a graph: its model


def _device_of(values):
    import torch
    for v in values:
        if isinstance(v, torch.Tensor) and v.device.type != "cpu":
            return v.device
    return None


# -- Results ------------------------------------------------------------------------------------------------------------

def _dense(t):
    """Row-major?"""
    step = 1
    for size, stride in zip(reversed(t.shape), reversed(t.stride())):
        if size != 1 and stride != step:
            return False
        step = step * size
    return True


# What PyTorch's expressions of sizes are made of beside sums and products.
_SIZE_FUNCTIONS = {"FloorDiv": operator.floordiv, "CleanDiv": operator.floordiv, "Mod": operator.mod, "PythonMod": operator.mod, "CeilDiv": lambda a, b: -(-a // b),
                   "ModularIndexing": lambda a, b, c: a // b % c, "PowByNatural": pow, "FloatPow": pow, "Max": max, "Min": min, "ToFloat": float, "IntTrueDiv": operator.truediv,
                   "FloatTrueDiv": operator.truediv, "TruncToInt": math.trunc, "FloorToInt": math.floor, "CeilToInt": math.ceil, "RoundToInt": round,
                   "Where": lambda c, a, b: a if c else b}


def _size_of(value, placeholders):
    """A function of the graph's inputs that gives a SymInt's value."""
    import sympy
    import torch
    symbols, places = sorted(value.node.expr.free_symbols, key=str), []
    for s in symbols:
        for k, p in enumerate(placeholders):
            v = p.meta["val"]
            if isinstance(v, torch.SymInt) and v.node.expr == s:
                places.append((k, None))
                break
            if isinstance(v, torch.Tensor):
                d = next((d for d, n in enumerate(v.shape) if isinstance(n, torch.SymInt) and n.node.expr == s), None)
                if d is not None:
                    places.append((k, d))
                    break
        else:
            raise UsageError(f"a result is a size, {value}, that does not follow from the inputs' sizes")
    compute = sympy.lambdify(symbols, value.node.expr, modules=[_SIZE_FUNCTIONS, "math"])
    return lambda args: int(compute(*[args[k] if d is None else args[k].shape[d] for k, d in places]))


def _storage(node):
    """What is the same for tensors of a traced graph that share memory; None: no tensor."""
    import torch
    value = node.meta.get("val") if isinstance(node, torch.fx.Node) else None
    return value.untyped_storage()._cdata if isinstance(value, torch.Tensor) else None


def _lies_dense(t):
    """Are the elements of t all that its memory holds, whatever the order of its axes?"""
    order = sorted((d for d in range(t.dim()) if not _is_one(t.shape[d])), key=lambda d: _hint(t.stride(d)), reverse=True)
    return _dense(t.permute(order + [d for d in range(t.dim()) if d not in order])) and t.storage_offset() == 0


def _is_one(size):
    return isinstance(size, int) and size == 1


def _hint(size):
    return size if isinstance(size, int) else size.node.hint


class _Results:
    """What a graph returns, in terms of what the artifact computes: tensors that it computes once each, views of them and of inputs where eager's results share
    memory, inputs handed through, sizes, None."""

    def __init__(self, gm, shared):
        """shared: of so many results, the first ones, it matters who shares memory."""
        import torch
        nodes = list(gm.graph.nodes)
        placeholders = [n for n in nodes if n.op == "placeholder"]
        returned = nodes[-1].args[0]
        returned = returned if isinstance(returned, (tuple, list)) else (returned,)
        self.nodes, self.plan, self.bases = [], [], {}
        numbers = {p: k for k, p in enumerate(placeholders)}
        groups = self._groups(nodes, returned[:shared], placeholders)
        for number, r in enumerate(returned):
            base = groups.get(_storage(r)) if number < shared else None
            if base is not None and r not in numbers:
                self.plan.append(self._view(r, base, numbers, placeholders))
                continue
            if not isinstance(r, torch.fx.Node):
                self.plan.append(self._constant(r))
            elif r in numbers:
                self.plan.append(self._input(numbers[r]))
            elif isinstance(r.meta["val"], torch.Tensor):
                if r not in self.nodes:
                    self.nodes.append(r)
                self.plan.append(self._tensor(self.nodes.index(r), r.meta["val"]))
            else:
                self.plan.append((lambda size: lambda args, out: size(args))(_size_of(r.meta["val"], placeholders)))
        self._make_pick(len(placeholders))

    @staticmethod
    def _groups(nodes, returned, placeholders):
        """{memory that several results lie in, or a result and an input: the node of which they are views}."""
        memories, given = [_storage(r) for r in returned], {_storage(p): p for p in placeholders}
        groups = {m: given.get(m) for k, m in enumerate(memories) if m is not None and (m in given or m in memories[:k])}
        for n in nodes if groups else ():
            m = _storage(n)
            if m in groups and groups[m] is None:
                groups[m] = n
        return groups

    def _view(self, r, base, numbers, placeholders):
        """A result as a view of another tensor, which is an input, or is computed and laid out as in eager PyTorch."""
        like, whole = r.meta["val"], base.meta["val"]
        if like.dtype != whole.dtype or (base not in numbers and (not _lies_dense(whole) or (whole.is_complex() and not _dense(whole)))):
            raise UsageError("results that share memory in a way that artifacts cannot")
        if base not in numbers and base not in self.nodes:
            self.nodes.append(base)
        if base not in numbers:
            self.bases[self.nodes.index(base)] = self._tensor(self.nodes.index(base), whole)
        sizes = [(lambda size: lambda args: size)(n) if isinstance(n, int) else _size_of(n, placeholders) for n in (*like.shape, *like.stride(), like.storage_offset() - whole.storage_offset())]
        rank, static = like.dim(), all(isinstance(n, int) for n in (*like.shape, *like.stride(), like.storage_offset() - whole.storage_offset()))
        fixed = [s(()) for s in sizes] if static else None
        of_input, k = base in numbers, numbers[base] if base in numbers else self.nodes.index(base)

        def view(args, out):
            n = fixed or [s(args) for s in sizes]
            t = args[k] if of_input else out[k]
            return t if r is base else t.as_strided(n[:rank], n[rank:2 * rank], n[-1] + t.storage_offset())
        return view

    def _make_pick(self, inputs):
        """The overhead of a call is that of small graphs' time: usual results are picked at once, out of what the artifact gives, inputs and constants."""
        places, self.constants = [], []
        for p in self.plan:
            if hasattr(p, "plain"):
                places.append(p.plain)
            elif hasattr(p, "input"):
                places.append(len(self.nodes) + p.input)
            elif hasattr(p, "constant"):
                places.append(len(self.nodes) + inputs + len(self.constants))
                self.constants.append(p.constant)
        self.plain = len(places) == len(self.plan) and places == list(range(len(self.nodes)))
        self.pick = operator.itemgetter(*places) if len(places) == len(self.plan) > 1 else None

    @staticmethod
    def _constant(value):
        def given(args, out):
            return value
        given.constant = value
        return given

    @staticmethod
    def _input(k):
        def handed_through(args, out):
            return args[k]
        handed_through.input = k
        return handed_through

    @staticmethod
    def _tensor(k, like):
        """Memory laid out as eager PyTorch's would be, since what follows may count on it."""
        import torch
        if like.is_complex():          # artifacts give pairs; the order of axes is not eager's
            return lambda args, out: torch.view_as_complex(out[k])
        if _dense(like):
            def plain(args, out):
                return out[k]
            plain.plain = k
            return plain
        order = sorted(range(like.dim()), key=lambda d: (_hint(like.stride(d)), _hint(like.shape[d])), reverse=True)
        back = [order.index(d) for d in range(like.dim())]

        def laid_out(args, out):
            return out[k].permute(order).contiguous().permute(back)
        return laid_out

    def of(self, args, out):
        if self.pick:
            return self.pick((*out, *args, *self.constants))
        if self.bases:                 # laid out once
            out = list(out)
            for k, lay in self.bases.items():
                out[k] = lay(args, out)
        return [p(args, out) for p in self.plan]


# -- Compiling --------------------------------------------------------------------------------------------------------------

def _compile_archive(data, key, options):
    import torch
    options = dict(options)
    options.setdefault("threads", torch.get_num_threads())
    digest = hashlib.sha256(repr((key, sorted(options.items()))).encode()).hexdigest() if key else None
    if digest in _made:
        _compile.count("cached")
        return _made[digest]
    runtime, options = _compile.split_options(options)
    folder = _compile.temporary_folder()
    try:
        path = os.path.join(folder, "graph.pt2")
        with open(path, "wb") as f:
            f.write(data)
        m = _compile.make(Model, path, options, False, None, runtime)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    _compile.count("graphs")
    if digest:
        _made[digest] = m
    return m


def _ready(args):
    """Strided tensors, which PyTorch copies faster, and complex ones in the form in which an artifact takes them."""
    import torch

    def ready(a):
        a = a if a.is_contiguous() else a.contiguous()
        return torch.view_as_real(a.resolve_conj()) if a.is_complex() else a
    return [ready(a) if isinstance(a, torch.Tensor) else a for a in args]


def _all_plain(values):
    """Are all of them such that _ready() changes nothing?"""
    import torch
    return all(_dense(v) and not v.is_complex() for v in values if isinstance(v, torch.Tensor))


_watching = {}                         # by the address of frozen memory, whom to tell that it was given away


def _tell(t):
    """The tensor's memory gets another name, writes to which count no version."""
    import torch
    if _watching and type(t) in (torch.Tensor, torch.nn.Parameter):
        try:
            where = t.untyped_storage().data_ptr()
        except RuntimeError:           # a transform's, which has none
            return
        for frozen in _watching.get(where, ()):
            frozen.given = True


def _watch_memory():
    """`data`, numpy() and DLPack give a tensor's memory away: from now on they tell."""
    import torch
    if "data" in vars(torch.Tensor):
        return
    data = torch.Tensor.data

    def get(t):
        _tell(t)
        return data.__get__(t)
    torch.Tensor.data = property(get, data.__set__, data.__delete__)
    for name in "numpy", "__array__", "__dlpack__":
        def telling(t, *args, _own=getattr(torch.Tensor, name), **named):
            _tell(t)
            return _own(t, *args, **named)
        setattr(torch.Tensor, name, functools.wraps(getattr(torch.Tensor, name))(telling))


def _unwatch(places):
    """Their graph is gone; another may watch the same memory."""
    for where in places:
        if not list(_watching.get(where, ())):
            _watching.pop(where, None)


class _Frozen:
    """Parameters that are constants of an artifact, and whether they still are what they were."""

    def __init__(self, tensors):
        self.tensors = tensors         # {number: tensor}
        self.state = [(k, t, t._version, t.data_ptr, t.data_ptr()) for k, t in tensors.items()]
        self.given = False             # their memory, to somebody who may write to it unseen
        _watch_memory()
        places = {t.untyped_storage().data_ptr() for t in tensors.values()}
        for where in places:
            _watching.setdefault(where, weakref.WeakSet()).add(self)
        weakref.finalize(self, _unwatch, places).atexit = False

    def holds(self, args):
        if self.given:
            return False
        for k, t, version, address, where in self.state:
            if args[k] is not t or t._version != version or address() != where:
                return False
        return True


def _boxed(call):
    """Marked as a function that empties the list of its inputs. Decorators keep its attributes."""
    call._boxed_call = True
    return call


def _draws(gm):
    """Does the graph draw random numbers?"""
    import torch
    return any(torch.Tag.nondeterministic_seeded in getattr(n.target, "tags", ())
               for m in gm.modules() if isinstance(m, torch.fx.GraphModule) for n in m.graph.nodes if n.op == "call_function")


class _Runner:
    """Calls an artifact of which more is to be said than its inputs: the seed of its random ops, drawn from PyTorch's generator, so that manual_seed(), fork_rng(),
    set_rng_state() and activation checkpoints mean what they mean elsewhere; and PyTorch as the framework of its results, where no input says it."""

    def __init__(self, model, draws):
        import torch
        self.run_as, self.draws, self.like = model.run_as, draws, torch.empty(0)

    def __call__(self, inputs):
        import torch
        return self.run_as(inputs, self.like, torch.empty((), dtype=torch.int64).random_().item() if self.draws else None)


class _Graph:
    """A compiled graph."""

    def __init__(self, gm, options, parameters, results):
        self.gm, self.options = gm, options
        self.draws = "seed" not in options and _draws(gm)
        self.results = results
        self.general = self.special = self.frozen = None
        self.held = []
        self.inputs = [n for n in gm.graph.nodes if n.op == "placeholder"]
        self.plain = _all_plain(n.meta["val"] for n in self.inputs)     # dynamo guards strides
        self.freezes = 0
        if parameters:
            self.freeze(parameters)
        else:
            self.compile_general()

    def freeze(self, parameters):
        from ._fx import serialise
        self.freezes += 1
        self.special = None
        self.frozen = _Frozen(parameters)
        data, _, self.special_held = serialise(self.gm, self.results.nodes, parameters)
        self.given = [k for k in range(len(self.inputs)) if k not in parameters]
        self.special = self.runner(_compile_archive(data, None, self.options), self.special_held, self.given)
        self.plain = self.plain and _all_plain(self.special_held)

    def compile_general(self):
        from ._fx import serialise
        data, key, self.held = serialise(self.gm, self.results.nodes)
        self.general = self.runner(_compile_archive(data, key, self.options), self.held, range(len(self.inputs)))
        self.plain = self.plain and _all_plain(self.held)

    def runner(self, model, held, given):
        """A function of the numbered inputs, and of what is held, that runs the artifact."""
        import torch
        tensors = bool(held) or any(isinstance(self.inputs[k].meta["val"], torch.Tensor) for k in given)
        return _Runner(model, self.draws) if self.draws or not tensors else model.run_list

    def thaw(self, args):
        """The parameters are others, or have changed: once more as constants, then as inputs."""
        import torch
        if self.freezes < 2 and not self.frozen.given and all(isinstance(args[k], torch.Tensor) for k in self.frozen.tensors):
            self.freeze({k: args[k] for k in self.frozen.tensors})
        else:
            self.frozen = None
            if self.general is None:
                self.compile_general()

    def caller(self):
        """A function of the sequence of inputs. Small graphs' calls are to be short: one function, and nothing that is known before."""
        constants, pick, frozen = self.results.constants, self.results.pick, self.frozen
        if self.held or not self.plain or not (self.results.plain or pick):
            return self.call
        if frozen is not None:
            if self.special_held or not self.results.plain:
                return self.call
            given, run, holds = self.given, self.special, frozen.holds
            span = slice(given[0], given[-1] + 1) if given and given == list(range(given[0], given[-1] + 1)) else None

            def call(args):
                if self.frozen is not frozen or not holds(args):
                    return self.call(args)
                return run(args[span] if span else [args[k] for k in given])
            return call
        run = self.general
        if self.results.plain:
            return run

        def call(args):
            return pick((*run(args), *args, *constants))
        return call

    def call(self, args):
        frozen = self.frozen
        if frozen is not None and not frozen.holds(args):
            self.thaw(args)
            frozen = self.frozen
        if frozen is not None:
            inputs, run = [args[k] for k in self.given] + self.special_held, self.special
        else:
            inputs, run = [*args, *self.held], self.general
        out = run(inputs if self.plain else _ready(inputs))
        return out if self.results.plain else self.results.of(args, out)

    def boxed(self):
        """As AOTAutograd calls it: with a list of inputs, which is emptied."""
        call = self.caller()

        def forward(args):
            out = call(args)
            args.clear()
            return out
        return _boxed(forward)


def _eager(gm):
    def forward(args):
        given = list(args)
        args.clear()
        return gm.forward(*given)
    return _boxed(forward)


def compile_graph(gm, inputs, options, parameters=None, shared=0):
    """A callable for a graph of ATen ops; what cannot be compiled is called as it is. shared: of so many results it matters who shares memory."""
    options = dict(options)
    fallback = options.pop("fallback", True)
    freeze = options.pop("freeze", True)
    nodes = list(gm.graph.nodes)
    if all(n.op in ("placeholder", "output") for n in nodes):
        return _eager(gm)              # nothing to compute
    try:
        device = _device_of(inputs)
        if device is not None:
            raise UsageError(f"tensors on {device}: graphs take the CPU's tensors (options={{'target': ..., 'device': ...}} says what runs them)")
        results = _Results(gm, shared)
        if not results.nodes:
            return _eager(gm)          # views of inputs
        graph = _Graph(gm, options, parameters if freeze else None, results)
        call = graph.boxed()
        call.graph = graph
        return call
    except UsageError as e:
        if not fallback or "there is no option" in str(e) or ": expected" in str(e):
            raise
        why = e
    except Error as e:
        if not fallback:
            raise
        why = e
    except Exception as e:             # PyTorch's serialiser has no form for something
        if not fallback:
            raise
        why = f"{type(e).__name__}: {e}"
    _compile.count("fallbacks")
    warnings.warn(f"tccc: a graph runs in eager PyTorch: {why}", stacklevel=2)
    return _eager(gm)


# -- Decompositions ------------------------------------------------------------------------------------------------------------

def _encoder_layer(src, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, use_gelu, norm_first, eps, norm_weight_1, norm_bias_1, norm_weight_2,
                   norm_bias_2, ffn_weight_1, ffn_bias_1, ffn_weight_2, ffn_bias_2, mask=None, mask_type=None):
    """aten._transformer_encoder_layer_fwd, which nn.TransformerEncoderLayer becomes in inference, as its slow path says it."""
    import torch
    import torch.nn.functional as F
    if mask is not None:
        return NotImplemented

    def attend(x):
        b, t, _ = x.shape
        q, k, v = (y.reshape(b, t, num_heads, embed_dim // num_heads).transpose(1, 2) for y in F.linear(x, qkv_weight, qkv_bias).split(embed_dim, 2))
        a = torch.softmax(torch.matmul(q * (embed_dim // num_heads) ** -0.5, k.transpose(2, 3)), -1)
        return F.linear(torch.matmul(a, v).transpose(1, 2).reshape(b, t, embed_dim), proj_weight, proj_bias)

    def feed(x):
        h = F.linear(x, ffn_weight_1, ffn_bias_1)
        return F.linear(F.gelu(h) if use_gelu else F.relu(h), ffn_weight_2, ffn_bias_2)

    def norm_1(x):
        return F.layer_norm(x, (embed_dim,), norm_weight_1, norm_bias_1, eps)

    def norm_2(x):
        return F.layer_norm(x, (embed_dim,), norm_weight_2, norm_bias_2, eps)
    if norm_first:
        x = src + attend(norm_1(src))
        return x + feed(norm_2(x))
    x = norm_1(src + attend(src))
    return norm_2(x + feed(x))


@functools.cache
def _bool_power(x, exponent):
    """A bool to the power of True or False is a bool: what PyTorch says of its type without computing it is int64."""
    import torch
    if x.dtype != torch.bool or not isinstance(exponent, bool):
        return NotImplemented
    return x.clone() if exponent else torch.ones_like(x)


def _ldexp(x, exponent):
    """As eager PyTorch computes it, whose types are others than its decomposition's; whole exponents of floats are the importer's."""
    import torch
    if x.is_floating_point() and not exponent.is_floating_point() and not exponent.is_complex():
        return NotImplemented
    return x * torch.pow(2.0, exponent)


def _decompositions():
    import torch
    from torch._decomp import core_aten_decompositions
    table = dict(core_aten_decompositions())
    # Its decomposition gives the weights where the op gives the logarithms of their sums, which is what the backward op wants: in eager PyTorch, too.
    table.pop(torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default, None)
    # Its decomposition takes the logarithm of integers beside 16-bit floats in float32.
    for form in "Tensor", "Scalar_Self", "Scalar_Other":
        table.pop(getattr(torch.ops.aten.xlogy, form), None)
    # Theirs take indices below 0 as counted from the end, which the ops themselves refuse.
    for op in torch.ops.aten.index_add, torch.ops.aten.index_copy:
        table.pop(op.default, None)
    table[torch.ops.aten.pow.Tensor_Scalar] = _bool_power
    table[torch.ops.aten.ldexp.Tensor] = _ldexp
    table[torch.ops.aten._transformer_encoder_layer_fwd.default] = _encoder_layer
    table[torch.ops.aten.grid_sampler_2d_backward.default] = _grid.grid_sampler_2d_backward
    table.update(_backward.decompositions())
    return table


def _parameters_of(gm, example_inputs):
    """Numbers of the inputs that are parameters or buffers of a module, and their values."""
    import torch
    found = {}
    nodes = [n for n in gm.graph.nodes if n.op == "placeholder"]
    if len(nodes) != len(example_inputs):
        return found
    for k, (n, x) in enumerate(zip(nodes, example_inputs)):
        if isinstance(x, torch.nn.Parameter) or getattr(x, "_dynamo_static_input_type", None) is not None or isinstance(x, torch.nn.Buffer):
            if type(x).__name__ != "FakeTensor" and not x.is_inference():
                found[k] = x
    return found


def backend(gm, example_inputs, *, options=None, mode=None):
    """The backend "tccc" of torch.compile."""
    import torch
    from functorch.compile import min_cut_rematerialization_partition
    from torch._dynamo.backends.common import aot_autograd
    options = dict(options or {})
    if mode not in (None, "default"):
        raise UsageError(f"torch.compile's mode={mode!r} is Inductor's; options={{'level': 3}} optimises more")
    parameters = _parameters_of(gm, example_inputs)

    made = {}

    def compiler(kind):
        def compile_one(graph, inputs):
            made[kind] = compile_graph(graph, inputs, options, kept(graph) if kind == "inference" else None, 0 if kind == "backward" else _direct.results_of(graph))
            return made[kind]
        return compile_one

    def kept(graph):
        nodes = [n for n in graph.graph.nodes if n.op == "placeholder"]
        same = len(nodes) == len(example_inputs) and all(
            not isinstance(n.meta["val"], torch.Tensor) or n.meta["val"].dim() == example_inputs[k].dim() for k, n in enumerate(nodes))
        written = {n.args[0] for n in graph.graph.nodes if n.op == "call_function" and n.target is torch.ops.aten.copy_.default}
        written |= {nodes[k] for k in _direct.changed_inputs() if k < len(nodes)}
        return {k: t for k, t in parameters.items() if same and nodes[k] not in written and tuple(nodes[k].meta["val"].shape) == tuple(t.shape)}
    # Checks (of a singular matrix) hang on tokens, which graphs make themselves, as Inductor's: they are no inputs.
    with torch._functorch.config.patch(unlift_effect_tokens=True):
        call = aot_autograd(fw_compiler=compiler("forward"), bw_compiler=compiler("backward"), inference_compiler=compiler("inference"), decompositions=dict(_decompositions()),
                            partition_fn=min_cut_rematerialization_partition)(gm, example_inputs)
    return _direct.call_of(made, len(example_inputs), call)


_autoload.tell_accelerate()
