# SPDX-License-Identifier: Apache-2.0
"""The torch.distributed backend "tccc": import tccc.distributed registers it.

    import torch.distributed as dist, tccc.distributed
    dist.init_process_group("tccc")            # under torchrun; under mpirun tccc.distributed.init() says rank and size
    net = torch.nn.parallel.DistributedDataParallel(net)

Collective calls on CPU tensors go by libtccrt's communication over MPI or UCX: sums are added in the order of ranks, equal bits on all ranks and from run to run. A
call whose peer has died raises after the timeout and names the rank.
"""
import os
import threading

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import _create_work_from_future
from torch.futures import Future

from ._world import groups as _groups, world as _world
from .errors import UsageError

_REDUCTIONS = {dist.ReduceOp.SUM: "sum", dist.ReduceOp.AVG: "avg", dist.ReduceOp.MIN: "min", dist.ReduceOp.MAX: "max", dist.ReduceOp.PRODUCT: "product",
               dist.ReduceOp.BAND: "and", dist.ReduceOp.BOR: "or", dist.ReduceOp.BXOR: "xor"}


def _reduction(op):
    for known, name in _REDUCTIONS.items():
        if op == known:
            return name
    raise UsageError(f"reduction {op}: sum, avg, min, max, product, band, bor and bxor are there")


def _one(tensors):
    if len(tensors) != 1:
        raise UsageError("one tensor a process, got a list of several")
    return tensors[0]


def _cpu(t):
    if t.device.type != "cpu":
        raise UsageError(f"a tensor on {t.device}: the backend is for CPU tensors")
    return t.detach()


class _Finisher:
    """A thread that waits for requests in their order, so that callbacks (DDP's) come without anybody waiting."""

    def __init__(self):
        self.queue, self.change, self.thread = [], threading.Condition(), None

    def give(self, job):
        with self.change:
            self.queue.append(job)
            if self.thread is None:
                self.thread = threading.Thread(target=self.run, name="tccc-distributed", daemon=True)
                self.thread.start()
            self.change.notify()

    def run(self):
        while True:
            with self.change:
                while not self.queue:
                    self.change.wait()
                job = self.queue.pop(0)
            job()


def _base():
    """A backend of PyTorch's own process groups, where it lets Python make one, so that whoever asks a group for its backend gets it; else a group."""
    try:
        from torch._C._distributed_c10d import Backend
        Backend(0, 1)
        return Backend
    except (ImportError, TypeError):
        return dist.ProcessGroup


class ProcessGroup(_base()):
    """A group of processes; torch.distributed makes it."""

    def __init__(self, comm, rank, size):
        super().__init__(rank, size)
        self.comm, self.finisher = comm, _Finisher()

    def getBackendName(self):
        """The backend that torch.distributed knows it by."""
        return "tccc"

    @property
    def group_name(self):
        """The group's name, as torch.distributed sets it."""
        return getattr(self, "_tccc_name", "")

    def _set_group_name(self, name):
        self._tccc_name = name

    @property
    def pg_name(self):
        """The same."""
        return self.group_name

    def _work(self, request, result, after=None):
        """A Work for a request; after() runs when it is done, before anybody hears of it."""
        future = Future()

        def finish():
            try:
                request.wait()
                if after:
                    after()
            except Exception as e:
                future.set_exception(e)
            else:
                future.set_result(result)
        self.finisher.give(finish)
        return _create_work_from_future(future)

    def _reduce_all(self, tensors, op):
        """Of tensors that are not dense, copies are reduced."""
        tensors = [_cpu(t) for t in tensors]
        dense = [t.contiguous() for t in tensors]
        request = self.comm.all_reduce(dense, dense, _reduction(op))

        def back():
            for t, d in zip(tensors, dense):
                if t.data_ptr() != d.data_ptr():
                    t.copy_(d)
        return request, back

    def allreduce(self, tensors, opts=None):
        """Reduces a tensor over all ranks, in place."""
        request, back = self._reduce_all(tensors, opts.reduceOp if opts is not None and hasattr(opts, "reduceOp") else opts if opts is not None else dist.ReduceOp.SUM)
        return self._work(request, tensors, back)

    def allreduce_coalesced(self, tensors, opts=None):
        """Reduces several tensors over all ranks, in place."""
        return self.allreduce(tensors, opts)

    def broadcast(self, tensors, opts=None):
        """Every rank's tensor becomes rank rootRank's."""
        t = _cpu(_one(tensors))
        dense = t.contiguous()
        request = self.comm.broadcast([dense], opts.rootRank if opts is not None else 0)
        return self._work(request, tensors, None if dense is t else lambda: t.copy_(dense))

    def reduce(self, tensors, opts=None):
        """Reduces a tensor over all ranks; rank rootRank gets it."""
        t = _cpu(_one(tensors))
        root = opts.rootRank if opts is not None else 0
        dense, out = t.contiguous(), torch.empty_like(t, memory_format=torch.contiguous_format)
        request = self.comm.reduce([dense], [out], _reduction(opts.reduceOp if opts is not None else dist.ReduceOp.SUM), 1.0, root)
        return self._work(request, tensors, lambda: t.copy_(out) if self.comm.rank == root else None)

    def _gather(self, outputs, t):
        whole = torch.empty((self.comm.size, *t.shape), dtype=t.dtype)
        request = self.comm.all_gather(_cpu(t).contiguous(), whole)

        def spread():
            for o, part in zip(outputs, whole):
                o.copy_(part)
        return request, spread

    def allgather(self, outputs, inputs, opts=None):
        """Gathers a tensor of every rank, at every rank."""
        request, spread = self._gather(_one(outputs), _one(inputs))
        return self._work(request, outputs, spread)

    def _allgather_base(self, output, t, opts=None):
        t = _cpu(t).contiguous()
        whole = _cpu(output) if output.is_contiguous() else torch.empty_like(output, memory_format=torch.contiguous_format)
        return self._work(self.comm.all_gather(t, whole), output, None if output.is_contiguous() else lambda: output.copy_(whole))

    def gather(self, outputs, inputs, opts=None):
        """Gathers a tensor of every rank, at rank rootRank."""
        root = opts.rootRank if opts is not None else 0
        request, spread = self._gather(_one(outputs) if self.comm.rank == root else [], _one(inputs))
        return self._work(request, outputs, spread)

    def scatter(self, outputs, inputs, opts=None):
        """Every rank gets its tensor of rank rootRank's list."""
        t = _cpu(_one(outputs))
        root = opts.rootRank if opts is not None else 0
        whole = torch.stack([_cpu(i) for i in _one(inputs)]) if self.comm.rank == root else torch.empty((self.comm.size, *t.shape), dtype=t.dtype)
        return self._work(self.comm.broadcast([whole], root), outputs, lambda: t.copy_(whole[self.comm.rank]))

    def reduce_scatter(self, outputs, inputs, opts=None):
        """Reduces lists of tensors, one a rank: each rank gets its own."""
        t = _cpu(_one(outputs))
        whole, out = torch.stack([_cpu(i) for i in _one(inputs)]), torch.empty(t.shape, dtype=t.dtype)
        request = self.comm.reduce_scatter(whole, out, _reduction(opts.reduceOp if opts is not None else dist.ReduceOp.SUM))
        return self._work(request, outputs, lambda: t.copy_(out))

    def _reduce_scatter_base(self, output, t, opts=None):
        out = torch.empty(output.shape, dtype=output.dtype)
        request = self.comm.reduce_scatter(_cpu(t).contiguous(), out, _reduction(opts.reduceOp if opts is not None else dist.ReduceOp.SUM))
        return self._work(request, output, lambda: output.copy_(out))

    def alltoall_base(self, output, t, output_splits, input_splits, opts=None):
        """Rows of a tensor go to the ranks, and come from them."""
        rows = t.shape[0] if t.dim() else 1
        per = t.numel() // rows if rows else 0
        out_rows = output.shape[0] if output.dim() else 1
        out_per = output.numel() // out_rows if out_rows else 0
        dense, out = _cpu(t).contiguous(), torch.empty(output.shape, dtype=output.dtype)
        request = self.comm.all_to_all(dense, out, [n * per for n in input_splits] if input_splits else None, [n * out_per for n in output_splits] if output_splits else None)
        return self._work(request, output, lambda: output.copy_(out))

    def alltoall(self, outputs, inputs, opts=None):
        """A tensor goes to each rank, and comes from it."""
        dense = torch.cat([_cpu(i).reshape(-1) for i in inputs])
        out = torch.empty(sum(o.numel() for o in outputs), dtype=outputs[0].dtype)
        request = self.comm.all_to_all(dense, out, [i.numel() for i in inputs], [o.numel() for o in outputs])

        def spread():
            for o, part in zip(outputs, out.split([o.numel() for o in outputs])):
                o.copy_(part.reshape(o.shape))
        return self._work(request, outputs, spread)

    def _each(self, one, outputs, inputs, opts):
        """One collective a pair of tensors; the finisher comes to this one's end behind theirs."""
        works, future = [one(o, i, opts) for o, i in zip(outputs, inputs)], Future()

        def finish():
            try:
                for w in works:
                    w.wait()
            except Exception as e:
                future.set_exception(e)
            else:
                future.set_result(outputs)
        self.finisher.give(finish)
        return _create_work_from_future(future)

    def allgather_into_tensor_coalesced(self, outputs, inputs, opts=None):
        """Gathers several tensors of every rank, each into one."""
        return self._each(self._allgather_base, outputs, inputs, opts)

    def reduce_scatter_tensor_coalesced(self, outputs, inputs, opts=None):
        """Reduces several tensors, each in parts: each rank gets its own."""
        return self._each(self._reduce_scatter_base, outputs, inputs, opts)

    supports_coalescing = supports_splitting = supports_shrinking = supports_reconfigure = supports_window = supports_tensor_alloc = supports_abort_hooks = False

    # Names since PyTorch 2.15.
    all_gather_single_coalesced, reduce_scatter_single_coalesced = allgather_into_tensor_coalesced, reduce_scatter_tensor_coalesced
    all_gather_single, reduce_scatter_single, all_to_all_single = _allgather_base, _reduce_scatter_base, alltoall_base

    def gather_single(self, output, t, opts=None):
        """Gathers a tensor of every rank into one, at rank root."""
        root = opts.rootRank if opts is not None else 0
        return self.gather([list(output.chunk(self.comm.size))] if self.comm.rank == root else [[]], [t], opts)

    def barrier(self, opts=None):
        """Done when every rank has come to it."""
        return self._work(self.comm.barrier(), [])

    def send(self, tensors, to, tag=0):
        """Sends a tensor to a rank."""
        t = _cpu(_one(tensors)).contiguous()
        return self._work(self.comm.send(t, to, tag), tensors)

    def recv(self, tensors, source, tag=0):
        """Receives a tensor from a rank."""
        t = _cpu(_one(tensors))
        dense = t if t.is_contiguous() else torch.empty(t.shape, dtype=t.dtype)
        return self._work(self.comm.recv(dense, source, tag), tensors, None if dense is t else lambda: t.copy_(dense))


def _create(store, rank, size, timeout):
    """Of init_process_group() the world; of new_group() its members, which tell each other by the store who they are."""
    whole = _world(timeout=min(timeout.total_seconds(), 600.0) if timeout is not None else 0.0)
    store.set(f"tccc/{rank}", str(whole.rank))
    ranks = [int(store.get(f"tccc/{r}")) for r in range(size)]
    comm = whole if ranks == list(range(whole.size)) else whole.group(ranks)
    if comm is None:
        raise UsageError(f"this process, {whole.rank}, is not among the group's {ranks}")
    if comm is not whole:
        _groups.append(comm)
    return ProcessGroup(comm, rank, size)


def init(**how):
    """dist.init_process_group("tccc") where the launcher has set no RANK and WORLD_SIZE (mpirun, srun): they are those of tccc.world(). MASTER_ADDR and MASTER_PORT are for
    torch.distributed's own store, by default 127.0.0.1:29517, the first process's machine."""
    if "RANK" not in os.environ or "WORLD_SIZE" not in os.environ:
        whole = _world()
        os.environ.update(RANK=str(whole.rank), WORLD_SIZE=str(whole.size), LOCAL_RANK=str(whole.local_rank))
        os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
        os.environ.setdefault("MASTER_PORT", "29517")
    dist.init_process_group("tccc", **how)


def _hide_from_dynamo():
    """Collectives are called within graphs that torch.compile has broken, where it would compile the functions here."""
    try:
        from torch._C._dynamo.eval_frame import skip_code
    except ImportError:
        return
    for f in [*vars(ProcessGroup).values(), *vars(_Finisher).values(), _reduction, _one, _cpu, _create]:
        codes = [getattr(f, "fget", f).__code__] if hasattr(getattr(f, "fget", f), "__code__") else []
        for code in codes:
            skip_code(code)
            codes += [c for c in code.co_consts if hasattr(c, "co_code")]


_hide_from_dynamo()
if not hasattr(dist.Backend, "TCCC"):
    dist.Backend.register_backend("tccc", _create, devices=["cpu"])
