# SPDX-License-Identifier: Apache-2.0
"""Processes that work together: the world of mpirun, srun or torchrun."""
import atexit
import sys

from . import _runtime

_world = None
groups = []                            # parts of it, which are to be closed before it ends


def _end():
    """At the end of the program: the others learn that it is over, and why where an exception ended it."""
    why = getattr(sys, "last_value", None)
    for group in groups:
        group.close()
    try:
        _world.finalize(None if why is None else f"{type(why).__name__}: {why}"[:300])
    except Exception:                  # a rank that has failed is told by the call that met it
        pass


def world(engine=None, timeout=0.0):
    """The group of all processes (rank, size, collective calls); the first call begins it. A process that was started alone is a world of one.

    engine: "auto", "mpi", "ucx", "sim"; None: $TCCC_COMM, else as the launcher suits. timeout: seconds without a sign of life after which calls fail.
    """
    global _world
    if _world is None:
        _world = _runtime.Comm(engine, timeout)
        atexit.register(_end)
    return _world
