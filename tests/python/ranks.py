# SPDX-License-Identifier: Apache-2.0
"""The torch.distributed backend "tccc", as a rank of mpirun's or torchrun's: collectives beside what they mean, DDP beside one process. Rank 0 prints TAP.

usage: mpirun -n N python ranks.py, with the package on PYTHONPATH
"""
import os
import sys

import torch
import torch.distributed as dist
import torch.nn as nn

import tccc.distributed
from tap import raises

torch.set_num_threads(1)
tccc.distributed.init()
rank, size = dist.get_rank(), dist.get_world_size()

def of(r, *shape, dtype=torch.float32):
    return (torch.arange(torch.Size(shape).numel(), dtype=torch.float32).reshape(shape) + 10 * r).to(dtype)

def test_reductions():
    for dtype in torch.float32, torch.float64, torch.int64, torch.bfloat16:
        t = of(rank, 3, 2, dtype=dtype)
        dist.all_reduce(t)
        assert torch.equal(t, sum(of(r, 3, 2, dtype=dtype) for r in range(size))), dtype
    t = of(rank, 4)
    dist.all_reduce(t, dist.ReduceOp.MAX)
    assert torch.equal(t, of(size - 1, 4))
    t = of(rank, 2, 3).t()
    dist.all_reduce(t)                                # strided
    assert torch.equal(t, sum(of(r, 2, 3).t() for r in range(size)))
    t = of(rank, 4)
    dist.reduce(t, 1)
    assert torch.equal(t, sum(of(r, 4) for r in range(size)) if rank == 1 else of(rank, 4))
    out = torch.empty(2)
    dist.reduce_scatter_tensor(out, of(rank, 2 * size))
    assert torch.equal(out, sum(of(r, 2 * size) for r in range(size))[2 * rank:2 * rank + 2])

def test_copies():
    t = of(rank, 5)
    dist.broadcast(t, size - 1)
    assert torch.equal(t, of(size - 1, 5))
    parts = [torch.empty(3) for _ in range(size)]
    dist.all_gather(parts, of(rank, 3))
    assert all(torch.equal(p, of(r, 3)) for r, p in enumerate(parts))
    whole = torch.empty(3 * size)
    dist.all_gather_into_tensor(whole, of(rank, 3))
    assert torch.equal(whole, torch.cat([of(r, 3) for r in range(size)]))
    out = torch.empty(size, 2)
    dist.all_to_all_single(out, of(rank, size, 2))
    assert torch.equal(out, torch.stack([of(r, size, 2)[rank] for r in range(size)]))
    ins = [k + 1 if rank == 0 else 1 for k in range(size)]
    outs = [rank + 1] + [1] * (size - 1)
    out = torch.empty(sum(outs), 2)
    dist.all_to_all_single(out, of(rank, sum(ins), 2), outs, ins)
    assert torch.equal(out[:rank + 1], of(0, size * (size + 1) // 2, 2)[rank * (rank + 1) // 2:][:rank + 1])
    things = [None] * size
    dist.all_gather_object(things, {"rank": rank})
    assert things == [{"rank": r} for r in range(size)]
    dist.barrier()
    if rank == 0:
        dist.send(of(0, 4), 1)
    elif rank == 1:
        t = torch.empty(4)
        dist.recv(t, 0)
        assert torch.equal(t, of(0, 4))

def test_requests_and_groups():
    t = of(rank, 100)
    work = dist.all_reduce(t, async_op=True)
    work.wait()
    assert torch.equal(t, sum(of(r, 100) for r in range(size)))
    group = dist.new_group([1, 0])
    t = of(rank, 4)
    if rank < 2:
        dist.all_reduce(t, group=group)
        assert torch.equal(t, of(0, 4) + of(1, 4))
    bits = {dist.ReduceOp.BAND: torch.bitwise_and, dist.ReduceOp.BOR: torch.bitwise_or, dist.ReduceOp.BXOR: torch.bitwise_xor}
    for op, of_two in bits.items():
        for dtype in torch.uint8, torch.int32, torch.int64, torch.bool:
            mine = [(of(3 * r + 5, 9, dtype=torch.int64) % (2 if dtype == torch.bool else 97)).to(dtype) for r in range(size)]
            t, want = mine[rank].clone(), mine[0]
            for x in mine[1:]:
                want = of_two(want, x)
            dist.all_reduce(t, op)
            assert torch.equal(t, want), (op, dtype)
    raises(Exception, "and of f32: it is for integers and bool", dist.all_reduce, torch.ones(1), dist.ReduceOp.BAND)

def test_ddp():
    def make():
        torch.manual_seed(1)
        return nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3))
    torch.manual_seed(2)
    x, y = torch.randn(8 * size, 6), torch.randn(8 * size, 3)
    one, many = make(), nn.parallel.DistributedDataParallel(make())
    for net, mine in (one, slice(None)), (many, slice(8 * rank, 8 * rank + 8)):
        o = torch.optim.AdamW(net.parameters(), 1e-2)
        for _ in range(4):
            o.zero_grad()
            nn.functional.mse_loss(net(x[mine]), y[mine]).backward()
            o.step()
    for a, b in zip(one.parameters(), many.module.parameters()):
        assert torch.allclose(a, b, rtol=1e-4, atol=1e-5)
    mine = torch.cat([p.detach().flatten() for p in many.module.parameters()])
    theirs = mine.clone()
    dist.broadcast(theirs, 0)
    assert torch.equal(mine, theirs)                  # equal bits on all ranks

def trained(net, mine, x, y, call=None):
    """The losses of ten steps."""
    o, losses = torch.optim.AdamW(net.parameters(), 1e-2), []
    for _ in range(10):
        o.zero_grad()
        loss = nn.functional.mse_loss((call or net)(x[mine]), y[mine])
        loss.backward()
        o.step()
        losses.append(loss.item())
    return torch.tensor(losses)

def sharded(compiled, whole=False):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3))
    if compiled:
        for part in [net] if whole else net:
            part.compile(backend="tccc")
    mesh = init_device_mesh("cpu", (size,))
    for part in net:
        fully_shard(part, mesh=mesh)
    return fully_shard(net, mesh=mesh)

def test_compiled_data_parallel_and_sharded():
    """Each rank's losses are those of the same job in eager PyTorch."""
    import tccc.dynamo  # noqa: F401
    def parallel(compiled):
        torch.manual_seed(1)
        net = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3)))
        return torch.compile(net, backend="tccc") if compiled else net
    def around(compiled):
        torch.manual_seed(1)
        net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3))
        return nn.parallel.DistributedDataParallel(torch.compile(net, backend="tccc") if compiled else net)
    torch.manual_seed(2)
    x, y, mine = torch.randn(8 * size, 6), torch.randn(8 * size, 3), slice(8 * rank, 8 * rank + 8)
    def sharded_whole(compiled):
        return sharded(compiled, whole=True)
    for make in parallel, around, sharded, sharded_whole:
        losses = []
        for compiled in False, True:
            torch._dynamo.reset()
            losses.append(trained(make(compiled), mine, x, y))
        assert torch.allclose(*losses, rtol=1e-4, atol=1e-6), (make.__name__, losses)

def test_distributed_tensors_and_batches_of_sends():
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor
    mesh, whole = init_device_mesh("cpu", (size,)), torch.arange(float(6 * size))
    t = distribute_tensor(whole, mesh, [Shard(0)])
    assert torch.equal(t.full_tensor(), whole) and torch.equal(t.redistribute(mesh, [Replicate()]).to_local(), whole)
    assert torch.equal((t * 2).sum().full_tensor(), 2 * whole.sum())
    to, source, got = (rank + 1) % size, (rank - 1) % size, torch.zeros(2)
    for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, torch.full((2,), float(rank)), to), dist.P2POp(dist.irecv, got, source)]):
        work.wait()
    assert got.tolist() == [source] * 2

def test_compiled_step():
    torch.manual_seed(3)
    net = nn.Linear(4, 2)
    x, y = torch.randn(4 * size, 4), torch.randn(4 * size, 2)
    step = tccc.train(net, loss="mse", optimizer="sgd:lr=0.1", example=(x[:4], y[:4]), world=True, threads=1)
    for _ in range(3):
        step(x[4 * rank:4 * rank + 4], y[4 * rank:4 * rank + 4])
    o = torch.optim.SGD(net.parameters(), 0.1)
    for _ in range(3):
        o.zero_grad()
        nn.functional.mse_loss(net(x), y).backward()
        o.step()
    assert torch.allclose(step.state_dict()["weight"], net.weight, atol=1e-5)

bad = False
for number, (name, test) in enumerate([(n, f) for n, f in list(globals().items()) if n.startswith("test_")], 1):
    why = ""
    try:
        test()
    except Exception as e:
        why = f"{type(e).__name__}: {e}"
    if why:
        print(f"# rank {rank}, {name}: {why}", flush=True)
    if rank == 0 or why:
        print(f"{'not ' if why else ''}ok {number} - {name[5:].replace('_', ' ')}", flush=True)
    bad |= bool(why)
if rank == 0:
    print(f"1..{number}", flush=True)
dist.barrier()
dist.destroy_process_group()
sys.exit(bad)
