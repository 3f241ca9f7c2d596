# SPDX-License-Identifier: Apache-2.0
"""Processes that work together: the world of mpirun, srun or torchrun."""
from . import _runtime

_world = None


def world(engine=None, timeout=0.0):
    """The group of all processes (rank, size, collective calls); the first call begins it. A process that was started alone is a world of one.

    engine: "auto", "mpi", "ucx", "sim"; None: $TCCC_COMM, else as the launcher suits. timeout: seconds without a sign of life after which calls fail.
    """
    global _world
    if _world is None:
        _world = _runtime.Comm(engine, timeout)
    return _world
