# SPDX-License-Identifier: Apache-2.0
"""What `import torch` calls (entry point of the group torch.backends): accelerate, and by it transformers' Trainer, goes by a list of backends of its own, and gets "tccc" into it when it is
imported. So torch_compile_backend="tccc" needs no import of tccc first. Nothing else happens: the backend is imported when it is asked for."""
import importlib.abc
import importlib.util
import sys

_WHERE = "accelerate.utils.dataclasses"


def _add(module):
    """To an enumeration, one more member."""
    known = getattr(module, "DynamoBackend", None)
    if known is not None and "TCCC" not in known.__members__:
        member = str.__new__(known, "TCCC")
        member._name_ = member._value_ = "TCCC"
        known._member_map_["TCCC"] = known._value2member_map_["TCCC"] = member
        known._member_names_.append("TCCC")


class _Loader(importlib.abc.Loader):
    def __init__(self, loader):
        self.loader = loader

    def create_module(self, spec):
        return self.loader.create_module(spec)

    def exec_module(self, module):
        self.loader.exec_module(module)
        _add(module)


class _Finder(importlib.abc.MetaPathFinder):
    """Finds that module as others do, and looks in when it has been executed."""

    def find_spec(self, name, path=None, target=None):
        if name != _WHERE:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec


def tell_accelerate():
    if _WHERE in sys.modules:
        _add(sys.modules[_WHERE])
    elif not any(isinstance(f, _Finder) for f in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
