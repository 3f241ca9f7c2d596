# SPDX-License-Identifier: Apache-2.0
"""tccc as a backend of ONNX (onnx.backend.base), which onnx's own test runner takes:

    backend_test = onnx.backend.test.BackendTest(tccc.onnx_backend, __name__)
"""
from onnx.backend.base import Backend, BackendRep, Device, DeviceType, namedtupledict

from . import _compile
from .errors import InputError


class Rep(BackendRep):
    """A compiled model."""

    def __init__(self, model):
        self.model = model

    def run(self, inputs, **kwargs):
        """Inputs in order, or by name as a dict; results by position and by name."""
        if isinstance(inputs, dict):
            result = self.model(**inputs)
        else:
            result = self.model(*(inputs if isinstance(inputs, (list, tuple)) else (inputs,)))
        names = [v.name for v in self.model.outputs]
        return namedtupledict("Outputs", names)(*(result if len(names) != 1 else (result,)))


class TcccBackend(Backend):
    """onnx.backend.base.Backend by tccc.compile(), whose options prepare() takes."""

    @classmethod
    def is_compatible(cls, model, device="CPU", **kwargs):
        """Can it be compiled?"""
        try:
            cls.prepare(model, device, **kwargs)
        except InputError:
            return False
        return True

    @classmethod
    def prepare(cls, model, device="CPU", **kwargs):
        """Compiles the model: a Rep, whose run() takes its inputs. kwargs are options of tccc.compile()."""
        super().prepare(model, device, **{})
        if not cls.supports_device(device):
            raise InputError(f"device {device}: expected CPU; other targets by tccc.compile(target=...)")
        return Rep(_compile.compile(model, **kwargs))

    @classmethod
    def run_model(cls, model, inputs, device="CPU", **kwargs):
        """Compiles the model and runs it once."""
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(cls, node, inputs, device="CPU", outputs_info=None, **kwargs):
        """Runs one node, as a model of its own. kwargs are helper.make_model()'s."""
        import numpy as np
        from onnx import helper
        super().run_node(node, inputs, device, outputs_info)
        names = [n for n in node.input if n]
        values = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(np.asarray(x).dtype), np.asarray(x).shape) for n, x in zip(names, inputs)]
        outputs = [helper.make_value_info(n, helper.make_tensor_type_proto(*[helper.np_dtype_to_tensor_dtype(np.dtype(i[0])), i[1]]) if i else helper.TypeProto())
                   for n, i in zip(node.output, outputs_info or [None] * len(node.output))]
        model = helper.make_model(helper.make_graph([node], "node", values, outputs), **kwargs)
        return cls.prepare(model, device).run(inputs)

    @classmethod
    def supports_device(cls, device):
        """CPU alone: other targets are tccc.compile()'s."""
        return Device(device).type == DeviceType.CPU


is_compatible = TcccBackend.is_compatible
prepare = TcccBackend.prepare
run_model = TcccBackend.run_model
run_node = TcccBackend.run_node
supports_device = TcccBackend.supports_device
