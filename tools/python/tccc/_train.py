# SPDX-License-Identifier: Apache-2.0
"""Training: one compiled step."""
import os

from ._compile import _is, _pairs, make, split_options
from ._model import Model
from ._world import world as _the_world
from .errors import InputError, UsageError


# -- torch.optim ----------------------------------------------------------------------------------------------------

# Names of torch.optim: ours, and the options by which they are told; others must have the value that is given here.
_OPTIMIZERS = {
    "SGD": ("sgd", {"lr": "lr", "momentum": "momentum", "dampening": "dampening", "weight_decay": "weight_decay", "nesterov": "nesterov", "maximize": "maximize"}, {}),
    "Adam": ("adam", {"lr": "lr", "eps": "eps", "weight_decay": "weight_decay", "amsgrad": "amsgrad", "maximize": "maximize"}, {"decoupled_weight_decay": False}),
    "AdamW": ("adamw", {"lr": "lr", "eps": "eps", "weight_decay": "weight_decay", "amsgrad": "amsgrad", "maximize": "maximize"}, {}),
    "Adadelta": ("adadelta", {"lr": "lr", "rho": "rho", "eps": "eps", "weight_decay": "weight_decay", "maximize": "maximize"}, {}),
    "Adagrad": ("adagrad", {"lr": "lr", "lr_decay": "lr_decay", "weight_decay": "weight_decay", "initial_accumulator_value": "initial_accumulator_value", "eps": "eps",
                            "maximize": "maximize"}, {}),
    "RMSprop": ("rmsprop", {"lr": "lr", "alpha": "alpha", "eps": "eps", "weight_decay": "weight_decay", "momentum": "momentum", "centered": "centered",
                            "maximize": "maximize"}, {}),
}
_INDIFFERENT = {"params", "betas", "foreach", "capturable", "differentiable", "fused", "decoupled_weight_decay", "initial_lr", "param_names"}


def _option(value):
    return str(int(value)) if isinstance(value, bool) else repr(float(value))


def _group_text(name, known, fixed, group):
    parts = []
    for key, value in group.items():
        if key in known:
            parts.append(f"{known[key]}={_option(value)}")
        elif key in fixed and value != fixed[key]:
            raise UsageError(f"torch.optim's {key}={value!r} has no counterpart here")
        elif key not in _INDIFFERENT and key not in fixed:
            raise UsageError(f"torch.optim's option {key}={value!r} is not known here")
    if "betas" in group and name in ("adam", "adamw"):
        parts += [f"beta1={_option(group['betas'][0])}", f"beta2={_option(group['betas'][1])}"]
    return ",".join(parts)


def optimizer_text(optimizer, module):
    """A torch.optim object as --optimizer says it. What has no counterpart is a UsageError."""
    kind = type(optimizer).__name__
    if kind not in _OPTIMIZERS or not type(optimizer).__module__.startswith("torch.optim"):
        raise UsageError(f"there is no optimizer {kind} here: {', '.join(_OPTIMIZERS)}, or a text such as 'adamw:lr=1e-3'")
    if any(float(s.get("step", 1)) > 0 for s in optimizer.state.values()):
        raise UsageError("the optimizer has made steps already; its state is not taken over")
    name, known, fixed = _OPTIMIZERS[kind]
    texts = [_group_text(name, known, fixed, g) for g in optimizer.param_groups]
    if len(texts) == 1:
        return f"{name}:{texts[0]}"
    if not _is(module, "torch.nn", "Module"):
        raise UsageError("groups of parameters need the torch.nn.Module that they are of")
    names = {id(p): n for n, p in module.named_parameters()}
    parts = [f"{name}:{texts[0]}"]
    for text, group in zip(texts[1:], optimizer.param_groups[1:]):
        parts += [f"{_escape(names[id(p)])}:{text}" for p in group["params"] if id(p) in names]
    return ";".join(parts)


def _escape(name):
    return "".join("\\" + c if c in ",:;=\\" else "[" + c + "]" if c in "*?[" else c for c in name)


def _left_out(optimizer, module):
    """Parameters of the module that the optimizer has not."""
    ours = {id(p) for g in optimizer.param_groups for p in g["params"]}
    return [n for n, p in module.named_parameters() if p.requires_grad and id(p) not in ours]


# -- Steps -----------------------------------------------------------------------------------------------------------

class Step(Model):
    """A compiled training step with its state: parameters, moments, counters. Made by train(), or by Step(path) of an artifact of tccc --train.

    step(x, ..., target) does forward pass, backward pass and update, and returns the loss as a float (a tuple whose first is the loss, with step_outputs).
    """

    def __call__(self, *inputs, **named):
        result = self.run("step", *inputs, **named)
        return (float(result[0]), *result[1:]) if isinstance(result, tuple) else float(result)

    _same, _constant = {}, {}      # of the module that was compiled: other names of state variables; what is no variable, since nothing changes it

    @property
    def inputs(self):
        """What a step takes: a tuple of Value, the target last."""
        return self.signature("step")[0]

    @property
    def outputs(self):
        """What a step gives: the loss, then step_outputs."""
        return self.signature("step")[1]

    def eval(self, *inputs, **named):
        """(loss, outputs...) in inference behaviour; changes nothing."""
        result = self.run("eval", *inputs, **named)
        return (float(result[0]), *result[1:]) if isinstance(result, tuple) else float(result)

    def predict(self, *inputs, **named):
        """The model's outputs, in inference behaviour, without a target."""
        return self.run("predict", *inputs, **named)

    def names(self, *kinds):
        """Names of the state variables of these kinds: "param", "buffer", "optimizer", "gradient", "other"."""
        return [v.name for v, kind in self.states() if not kinds or kind in kinds]

    def state_dict(self, torch=None):
        """Parameters and buffers by name: torch tensors where torch is loaded (or asked for: torch=True), else numpy arrays. Copies. Of a compiled torch.nn.Module all that its
        own state_dict() has: weights that are tied under each of their names, and buffers that nothing changes."""
        import sys
        values = {n: self.state(n) for n in self.names("param", "buffer")}
        values.update({n: values[one] for n, one in self._same.items()})
        if torch is False or (torch is None and "torch" not in sys.modules):
            return {**values, **{n: v.numpy() for n, v in self._constant.items() if v.dtype.itemsize > 2 or not v.dtype.is_floating_point}}
        import torch as framework
        tensors = {n: framework.from_numpy(v) if v.dtype.name != "bfloat16" else framework.from_numpy(v.view("u2")).view(framework.bfloat16) for n, v in values.items()}
        return {**tensors, **{n: v.clone() for n, v in self._constant.items()}}

    def load_state_dict(self, values):
        """Sets parameters and buffers by name (numpy arrays, tensors). A name that the step lacks is an InputError."""
        known = set(self.names("param", "buffer"))
        unknown = sorted(set(values) - known - set(self._same) - set(self._constant))
        if unknown:
            raise InputError(f"the step has no parameter or buffer {', '.join(unknown[:5])}")
        for name, value in values.items():
            value = value.detach() if hasattr(value, "detach") else value
            if name in self._constant:
                self._check_constant(name, value)
                continue
            name = self._same.get(name, name)
            self.set_state(name, value)
            if "master." + name in self.names("other", "optimizer"):
                self.set_state("master." + name, value)

    def _check_constant(self, name, value):
        import torch
        if not torch.equal(torch.as_tensor(value).to(self._constant[name].dtype), self._constant[name]):
            raise InputError(f"'{name}' is a constant of the step, compiled in with another value")

    def _take_names(self, model):
        """What state_dict() of the module, or of the exported program, has besides the step's variables."""
        values = model.state_dict() if callable(model.state_dict) else model.state_dict
        known = set(self.names("param", "buffer"))
        places = {(v.data_ptr(), v.shape, v.stride()): n for n, v in values.items() if n in known and v.numel()}
        rest = {n: v for n, v in values.items() if n not in known}
        self._same = {n: places[v.data_ptr(), v.shape, v.stride()] for n, v in rest.items() if (v.data_ptr(), v.shape, v.stride()) in places}
        self._constant = {n: v.detach().clone() for n, v in rest.items() if n not in self._same}

    @property
    def lr(self):
        """The base learning rate, `train.rate`."""
        return float(self.state("train.rate"))

    @lr.setter
    def lr(self, value):
        self.set_state("train.rate", [value] if self._rank("train.rate") else value)

    def _rank(self, name):
        return next(len(v.shape) for v, _ in self.states() if v.name == name)

    def checkpoint(self, path, weights_only=False, **meta):
        """Writes state, seed and counter of runs as safetensors, atomically; `meta`: texts of the program's own."""
        self.save_checkpoint(path, weights_only, {k: str(v) for k, v in meta.items()})

    def restore(self, path, weights_only=False, partial=False):
        """Reads a checkpoint (or any safetensors file with the parameters: weights_only=True). On any error nothing has changed."""
        self.load_checkpoint(path, weights_only, partial)


def load_step(path, **runtime):
    """Opens an artifact of tccc --train."""
    step = Step(path, **runtime)
    step.path = os.path.abspath(os.fspath(path))
    return step


def train(model, *, loss, optimizer="sgd:lr=0.01", example=None, dynamic_shapes=None, world=None, target=None, dims=None, shapes=None, output=None, **options):
    """Compiles a training step and opens it: a Step.

    model: as for compile(); of a torch.nn.Module `example` is the tuple (x, ..., target) of a batch, and the module is exported as it is (after train() Dropout
    drops). loss: a text of --loss ("cross_entropy", "mse:target=y"...). optimizer: a text of --optimizer, or an object of torch.optim, which is translated;
    parameters that it does not have are frozen. world: a group of processes (tccc.world()), or True or "mpi", "ucx"...: data parallel training.
    precision ("bf16-sr"...), schedule, clip_norm, accumulate, memory_budget, step_outputs, freeze, train_only, zero and others are those of the command line
    (doc/training.md), and compile()'s.
    """
    runtime, options = split_options(options)
    if not isinstance(optimizer, str):
        frozen = _left_out(optimizer, model) if _is(model, "torch.nn", "Module") else []
        optimizer = optimizer_text(optimizer, model)
        if frozen:
            options["freeze"] = list(options.get("freeze") or []) + [_escape(n) for n in frozen]
    if _is(model, "torch.nn", "Module") and isinstance(example, tuple) and not loss.startswith("output:"):
        if len(example) < 2:
            raise UsageError("example: expected a tuple of the module's inputs and the target")
        example = example[:-1]
    for name in ("freeze", "train_only"):
        if isinstance(options.get(name), str):
            options[name] = [options[name]]
    group = None
    if world:
        group = _the_world(world if isinstance(world, str) else None) if world is True or isinstance(world, str) else world
        options.setdefault("data_parallel", True)
    options.update(loss=loss, optimizer=optimizer, target=target, dims=_pairs(dims), shapes=_pairs(shapes, "x"))
    step = make(Step, model, options, True, output, runtime, example, dynamic_shapes)
    if _is(model, "torch.nn", "Module") or _is(model, "torch.export", "ExportedProgram"):
        step._take_names(model)
    if group is not None:
        step.world = group
        for name in ("world", "dp"):
            if step.uses_group(name):
                step.group(name, group)
        step.share_state(group)
    return step
