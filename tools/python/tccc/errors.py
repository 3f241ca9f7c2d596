# SPDX-License-Identifier: Apache-2.0
"""Exceptions. Each has `status`, the C status of runtime/abi.h (enum tcc_status), which is also the exit status of the tools."""


class Error(RuntimeError):
    """What tccc raises."""

    status = 4

    def __init__(self, message, status=None):
        super().__init__(message)
        if status is not None:
            self.status = status


class InputError(Error, ValueError):
    """A model, tensor, shape, name or value is wrong or unsupported (status 1; 5: an index lies outside its axis)."""

    status = 1


class UsageError(Error, TypeError):
    """A call that the interface does not allow (status 2)."""

    status = 2


class UnavailableError(Error):
    """What the environment lacks: memory, a device, a linker, a file (status 3)."""

    status = 3


class InternalError(Error):
    """A bug of tccc's (status 4)."""

    status = 4


_classes = {1: InputError, 2: UsageError, 3: UnavailableError, 4: InternalError, 5: InputError}


def of_status(status, message):
    """The exception that stands for a status."""
    return _classes.get(status, InternalError)(message, status)
