# SPDX-License-Identifier: Apache-2.0
"""Batches of other sizes on each rank, and of none on some, with --sync-bn: parameters and running statistics are those of one process. For tests/dist.tap.

usage: mpirun -n N python uneven.py, with the package on PYTHONPATH
"""
import sys

import numpy as np
import onnx
import tccc
from onnx import TensorProto as T, helper as h, numpy_helper as nh

r = np.random.default_rng(1)
values = {"scale": r.standard_normal(4), "bias": r.standard_normal(4), "mean": np.zeros(4), "var": np.ones(4), "w": r.standard_normal((4, 3))}
nodes = [h.make_node("BatchNormalization", ["x", "scale", "bias", "mean", "var"], ["n"], momentum=0.5), h.make_node("MatMul", ["n", "w"], ["y"])]
graph = h.make_graph(nodes, "g", [h.make_tensor_value_info("x", T.FLOAT, ["N", 4])], [h.make_tensor_value_info("y", T.FLOAT, None)],
                     [nh.from_array(v.astype(np.float32), k) for k, v in values.items()])
model = h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8).SerializeToString()
world = tccc.world()
make = lambda lr, **o: tccc.train(model, loss="mse:reduction=sum", optimizer=f"sgd:lr={lr},momentum=0.5", threads=1, **o)
one, many = make(0.01), make(0.01 * world.size, world=world, sync_bn=True)    # ranks average
worst = 0
for sizes in ([3, 1], [1, 4], [2, 2], [4, 0]):
    sizes = [sizes[k % 2] for k in range(world.size)]
    x, y = (r.standard_normal((sum(sizes), n)).astype(np.float32) for n in (4, 3))
    at = sum(sizes[:world.rank])
    one(x, y), many(x[at:at + sizes[world.rank]], y[at:at + sizes[world.rank]])
    worst = max([worst] + [float(abs(one.state(k) - many.state(k)).max()) for k in values])
print(f"rank {world.rank}: off by {worst:.2g}", flush=True)
sys.exit(not worst < 1e-5)
