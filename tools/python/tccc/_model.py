# SPDX-License-Identifier: Apache-2.0
"""Models that run. Calls are the extension's; what is here is done seldom."""
import concurrent.futures
import os
import shutil

from . import _runtime
from .errors import UsageError

_workers = None


def _pool():
    global _workers
    if _workers is None:
        _workers = concurrent.futures.ThreadPoolExecutor(thread_name_prefix="tccc")
    return _workers


class Model(_runtime.Model):
    """An open artifact. Made by load() and compile().

    m(x, ...) runs its first entry point: inputs in order or by name, arrays of numpy or tensors of a framework with DLPack, read where they lie
    if dense; results are of the same framework. One result comes alone, several as a tuple. Any number of threads may call it at once.

    On a device with a memory of its own: to_device(x) gives a DeviceArray; results are on the device where an input is (on_device= says otherwise), and with
    stream= the call returns when the work is given to the device, behind what that stream was given; wait() waits for all such runs.
    """

    _folder = None                 # of a compiled artifact that has no other place
    path = None
    compiled_from = None

    @property
    def inputs(self):
        """What the first entry point takes: a tuple of Value."""
        return self.signature(None)[0]

    @property
    def outputs(self):
        """What the first entry point gives: a tuple of Value."""
        return self.signature(None)[1]

    def run_async(self, *inputs, **named):
        """The same as a call, on another thread: a concurrent.futures.Future. Inputs stay as they are until it is done."""
        return _pool().submit(self, *inputs, **named)

    def save(self, path):
        """Writes the artifact, and its file of weights where it has one, beside each other. Raises UsageError where there is none any more."""
        if self.path is None or not os.path.exists(self.path):
            raise UsageError("the artifact's file is gone")
        path = os.fspath(path)
        sidecars = [n for n in os.listdir(os.path.dirname(os.path.abspath(self.path))) if n.endswith(".weights")] if self._folder else []
        for name in sidecars:
            shutil.copyfile(os.path.join(os.path.dirname(self.path), name), os.path.join(os.path.dirname(os.path.abspath(path)), name))
        temporary = f"{path}.tmp{os.getpid()}"
        shutil.copyfile(self.path, temporary)
        os.chmod(temporary, 0o755)
        os.replace(temporary, path)

    def __repr__(self):
        if self.name is None:
            return "<tccc.Model, closed>"
        def show(values):
            return ", ".join(f"{v.name}: {v.dtype}{list(v.shape) if v.shape is not None else '[?]'}" for v in values)
        return f"<tccc.Model {self.name}({show(self.inputs)}) -> ({show(self.outputs)})>"


def load(path, *, threads=0, device=None, seed=0, sim=None, rounding=None, profile=False):
    """Opens an artifact.

    threads: of a call; 0: the physical cores that the process may use. device: what runs it ("auto", "cpu", "cuda", "cuda:K", "sim", "cpu-split";
    None: $TCCC_DEVICE, else auto). seed: of random ops. sim, rounding: of simulated NeuronCores. profile: count times for profile().
    Raises UnavailableError (no such file or device), InputError (not an artifact of this version).
    """
    m = Model(path, threads=threads, device=device, seed=seed, sim=sim, rounding=rounding, profile=profile)
    m.path = os.path.abspath(os.fspath(path))
    return m
