# SPDX-License-Identifier: Apache-2.0
"""Data parallel training: each process has a part of every batch, gradients are averaged inside the compiled step.

usage: mpirun -n 2 python3 data_parallel.py MODEL.onnx PICTURES.idx3-ubyte LABELS.idx1-ubyte
"""
import sys

import idx
import tccc


def main():
    world = tccc.world()
    x, y = idx.pictures(sys.argv[2]), idx.labels(sys.argv[3])
    step = tccc.train(sys.argv[1], loss="cross_entropy:input=logits", optimizer="sgd:lr=0.05,momentum=0.9", world=world, threads=1)
    batch = 48
    for first in range(0, len(x) - batch + 1, batch):
        part = slice(first + batch // world.size * world.rank, first + batch // world.size * (world.rank + 1))
        loss = step(x[part], y[part])                          # the mean over all processes
    if world.rank == 0:
        print(f"{world.size} processes, last loss {loss:.6f}")
        step.checkpoint("parallel.safetensors")


if __name__ == "__main__":
    main()
