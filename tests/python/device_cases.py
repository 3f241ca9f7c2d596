# SPDX-License-Identifier: Apache-2.0
"""Arrays and streams on a model's device, with numpy alone. usage: device_cases.py TOP [TEST...], with the package on PYTHONPATH and TCCC_LIBDIR the build folder.

Device `cuda` is the simulator, too: TCCC_CUDA_LIBRARY has it take the place of the driver, so that memory and streams are those of a CUDA device to everybody.
"""
import ctypes
import gc
import os
import tempfile
import threading

import numpy as np

os.environ["TCCC_CUDA_LIBRARY"] = os.path.join(os.environ["TCCC_LIBDIR"], "libtccptx.so.0")
import tccc  # noqa: E402
from tap import main, raises  # noqa: E402

folder = tempfile.TemporaryDirectory()
NET = 'func @main(%x: f32[N,4], %y: f32[4]) -> ("a": f32[N,4], "b": f32[N,4]) {\n  %a = add(%x, %y)\n  %b = mul(%x, %y)\n  return(%a, %b)\n}\n'
GATHER = ('state @s: f32[4] buffer\nfunc @main(%x: f32[N,4], %i: i64[N]) -> ("y": f32[N,4]) {\n  %s = state_read() {name = "s"} : f32[4]\n'
          '  %g = gather(%x, %i) {axis = 0} : f32[N,4]\n  %y = add(%g, %s) : f32[N,4]\n  %m = reduce_max(%y) {axes = [0], keepdims = 0} : f32[4]\n'
          '  state_write(%m) {name = "s"}\n  return(%y)\n}\n')
X, Y = np.arange(12, dtype=np.float32).reshape(3, 4), np.full(4, 2, np.float32)
driver = ctypes.CDLL(os.environ["TCCC_CUDA_LIBRARY"])


def text(name, source, **options):
    path = os.path.join(folder.name, name + ".tcir")
    with open(path, "w") as f:
        f.write(source)
    return tccc.compile(path, level=1, **options)


def net(device, source=NET):
    target = {"sim": "cuda:sm_80", "cuda:0": "cuda:sm_80", "neuron": "neuron:trn1"}.get(device, device)
    return text("net", source, target=target, device={"neuron": None}.get(device, device), dims={"N": 3} if device == "neuron" else None)


def stream_of(m):
    """A stream of the driver's, in the context that the model's device is in."""
    m.wait()
    s, context, device = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_int()
    assert driver.cuDeviceGet(ctypes.byref(device), 0) == 0
    assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device) == 0 and driver.cuCtxSetCurrent(context) == 0
    assert driver.cuStreamCreate(ctypes.byref(s), 1) == 0
    return s.value


def arrays_on(device, where):
    m = net(device)
    x = m.to_device(X)
    assert m.device == device and x.device == device and x.__dlpack_device__() == where, (m.device, x.__dlpack_device__())
    assert x.shape == (3, 4) and x.dtype == "float32" and x.nbytes == 48 and repr(x) == f"<tccc.DeviceArray float32(3, 4) on {device}>"
    a, b = m(x, Y)                                   # results are where an input is
    assert isinstance(a, tccc.DeviceArray) and np.array_equal(a.numpy(), X + Y) and np.array_equal(np.asarray(b), X * Y)
    for _ in range(20):                              # one run's result is the next one's input
        a, b = m(a, Y)
    assert np.array_equal(a.numpy(), X + 21 * Y)
    a, b = m(x, Y, on_device=False)
    assert isinstance(a, np.ndarray) and np.array_equal(a, X + Y) and np.array_equal(b, X * Y)
    a, b = m.run("main", X, y=m.to_device(Y), on_device=True)
    assert isinstance(b, tccc.DeviceArray) and np.array_equal(b.numpy(), X * Y)
    a, b = m(X, Y, on_device=True)
    assert np.array_equal(np.from_dlpack(a, device="cpu", copy=True), X + Y) and np.array_equal(np.array(b, np.float64), X * Y)
    x.set(X[::-1])
    assert np.array_equal(m(x, Y)[0].numpy(), X[::-1] + Y)
    e = m.empty_on_device((3, 4))
    e.set(X)
    assert np.array_equal(m(e, Y)[1].numpy(), X * Y)
    raises(tccc.InputError, "another type or shape", e.set, X[:2])
    raises(tccc.InputError, "no such element type", m.empty_on_device, (3,), "float99")
    raises(tccc.InputError, "no tensor", m.empty_on_device, (-1,))
    raises(ValueError, "copy is needed", e.__array__, copy=False)
    raises(BufferError, "it can be handed out there", e.__dlpack__, dl_device=(7, 0))
    raises(tccc.UsageError, "arrays on its device that are in use", m.close)
    del a, b, e, x
    gc.collect()
    m.close()
    raises(tccc.UsageError, "closed", m.to_device, X)


def test_the_host():
    arrays_on("cpu", (1, 0))
    m = net("cpu")
    x = m.to_device(X)
    view = np.from_dlpack(x)
    view[0, 0] = 7                                   # its own memory
    assert x.numpy()[0, 0] == 7 and view.ctypes.data == x.pointer
    raises(tccc.UsageError, "has no streams", m, x, Y, stream=1)


def test_cpu_split():
    arrays_on("cpu-split", (12, 0))


def test_a_simulated_GPU():
    arrays_on("sim", (12, 0))


def test_a_CUDA_device():
    arrays_on("cuda:0", (2, 0))


def test_a_simulated_NeuronCore():
    arrays_on("neuron", (12, 0))


def test_streams():
    for device in "sim", "cuda:0":
        m = net(device)
        one, two = stream_of(m), stream_of(m)
        x = m.to_device(X)
        a = m(x, Y, stream=one)[0]
        for _ in range(30):                          # more than are under way at once; nothing is held by us but the last
            a = m(a, Y, stream=one)[0]
        b = m(a, Y, stream=two)[1]                   # what another stream makes is waited for
        assert np.array_equal(b.numpy(), (X + 31 * Y) * Y)
        class Stream:
            cuda_stream = one
        class Other:
            def __cuda_stream__(self):
                return 0, two
        for s in Stream(), Other(), 0, 1:
            assert np.array_equal(m(X, Y, stream=s, on_device=True)[0].numpy(), X + Y)
        assert np.array_equal(m(x, Y, stream=one, on_device=False)[0], X + Y)      # results on the host are there
        dropped = [m(m.to_device(X), Y, stream=one) for _ in range(3)]
        del dropped
        gc.collect()
        m.wait()
        raises(tccc.UsageError, "expected a stream", m, x, Y, stream="one")
        raises(tccc.UsageError, "expected a stream", m, x, Y, stream=-5)


def test_threads_and_streams():
    m = net("sim")
    streams, bad = [stream_of(m) for _ in range(2)], []

    def work(k):
        x = m.to_device(X + k)
        for i in range(25):
            a = m(x, Y, stream=streams[k % 2])[0]
            if i % 8 == k and not np.array_equal(a.numpy(), X + k + Y):
                bad.append((k, i))
    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    m.wait()
    assert not bad, bad


def test_state_and_errors_of_runs_that_were_given():
    m = net("sim", GATHER)
    x, s = m.to_device(X), stream_of(m)
    good, wrong = m.to_device(np.array([2, 1, 0])), m.to_device(np.array([0, 5, 0]))
    y = m(x, good, stream=s)
    assert np.array_equal(y.numpy(), X[::-1]) and np.array_equal(m.state("s"), X[2])
    kept = [m.empty_on_device((3, 4)) for _ in range(3)]
    del kept                                         # memory that is there: what follows waits for nothing
    m(x, wrong, stream=s)
    m(x, good, stream=s)                             # behind a run that fails: does nothing
    e = raises(tccc.InputError, "index 5 is outside an axis of 3", m.wait)
    assert e.status == 5
    m.wait()                                         # reported once
    m(x, wrong, stream=s)
    assert raises(tccc.InputError, "index 5 is outside an axis of 3", m.state, "s").status == 5      # or by what has to wait
    assert np.array_equal(m.state("s"), X[2]) and np.array_equal(m(x, good, stream=s).numpy(), X[::-1] + X[2])


def test_sizes_that_the_run_decides():
    source = 'func @main(%x: f32[N]) -> ("i": i64[1,K], "d": f32[N]) {\n  %i = lib(%x) {name = "nonzero"} : i64[1,K]\n  %d = add(%x, %x) : f32[N]\n  return(%i, %d)\n}\n'
    for device in "cpu", "sim":
        m = net(device, source)
        x = m.to_device(np.array([0, 3, 0, 4], np.float32))
        raises(tccc.InputError, "result 'i' has a size that the run decides", m, x)
        i, d = m(x, on_device=False)
        assert i.tolist() == [[1, 3]] and d.tolist() == [0, 6, 0, 8]


def test_arrays_of_another_model():
    a, b, host = net("sim"), net("sim"), net("cpu")
    s = stream_of(a)
    x = a(X, Y, stream=s, on_device=True)[0]
    for stream in None, s:
        assert np.array_equal(b(x, Y, stream=stream)[0].numpy(), X + 2 * Y)
    assert np.array_equal(host(x, Y)[0], X + 2 * Y) and isinstance(host(x, Y)[0], np.ndarray)     # of another device: by way of the host
    raises(tccc.InputError, "axis 1: expected 4, got 3", a, a.to_device(np.zeros((3, 3), np.float32)), Y)
    raises(tccc.InputError, "expected f32", a, a.to_device([1, 2]), Y)


# -- Frameworks: on device `cuda` by DLPack's two doors ---------------------------------------------------------------------

class Foreign:
    """A framework's tensor, which has __dlpack__ and no more."""
    streams = []

    def __init__(self, array):
        self.array = array

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

    def __dlpack__(self, **how):
        Foreign.streams.append(how.get("stream"))
        return self.array.__dlpack__(**how)


def from_dlpack(array):
    return Foreign(array)


def test_tensors_of_a_framework():
    m, other = net("cuda:0"), net("cuda:0")
    s = stream_of(m)
    x = Foreign(other.to_device(X))
    a, b = m(x, Y)
    assert isinstance(a, Foreign) and np.array_equal(a.array.numpy(), X + Y) and Foreign.streams == [1]
    a, b = m(a, Y, stream=s)
    assert np.array_equal(b.array.numpy(), (X + Y) * Y) and Foreign.streams == [1, s]
    assert np.array_equal(other(m.to_device(X), Y)[0].numpy(), X + Y)
    raises(tccc.InputError, "it lies on device 2:0", net("cpu"), x, Y)
    raises(tccc.InputError, "it lies on device 12:0", m, Foreign(net("sim").to_device(X)), Y)
    # The capsules' forms; one that nobody takes gives its memory back.
    array = other.to_device(X)
    assert '"dltensor"' in repr(array.__dlpack__()) and '"dltensor_versioned"' in repr(array.__dlpack__(max_version=(1, 1)))
    raises(TypeError, "pair", array.__dlpack__, max_version=3)


class DlTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("type", ctypes.c_int32), ("id", ctypes.c_int32), ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8),
                ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("offset", ctypes.c_uint64)]


class Versioned(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64), ("t", DlTensor)]


def pointer_of(array):
    """The DLPack structure of an array, taken out of its capsule."""
    capsule, api = array.__dlpack__(stream=-1, max_version=(1, 0)), ctypes.pythonapi
    api.PyCapsule_GetPointer.restype, api.PyCapsule_GetPointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    api.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]
    at = api.PyCapsule_GetPointer(capsule, b"dltensor_versioned")
    api.PyCapsule_SetName(capsule, b"used_dltensor_versioned")
    return at


def test_tensors_of_a_framework_with_C_functions():
    m = net("cuda:0")
    s, made = stream_of(m), []

    class Tensor:
        def __init__(self, at, stride=1):
            self.at, self.t = at, DlTensor()
            ctypes.memmove(ctypes.byref(self.t), ctypes.addressof(Versioned.from_address(at).t), ctypes.sizeof(DlTensor))
            if stride > 1:
                self.steps = (ctypes.c_int64 * 2)(4 * stride, 1)
                self.t.strides = self.steps
    F = ctypes.PYFUNCTYPE

    @F(ctypes.c_int, ctypes.POINTER(DlTensor), ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p, ctypes.c_void_p)
    def allocate(like, out, context, error):
        t = like[0]
        made.append((t.type, t.id, tuple(t.shape[:t.ndim])))
        out[0] = pointer_of(m.empty_on_device(tuple(t.shape[:t.ndim])))
        return 0

    @F(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.py_object))
    def to_object(at, out):
        tensor = Tensor(at)
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(tensor))
        ctypes.cast(out, ctypes.POINTER(ctypes.c_void_p))[0] = id(tensor)
        return 0

    @F(ctypes.c_int, ctypes.py_object, ctypes.POINTER(DlTensor))
    def borrow(o, out):
        ctypes.memmove(out, ctypes.byref(o.t), ctypes.sizeof(DlTensor))
        return 0

    @F(ctypes.c_int, ctypes.c_int32, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p))
    def current(kind, number, out):
        made.append((kind, number))
        out[0] = s
        return 0
    table = (ctypes.c_void_p * 7)(1, None, *(ctypes.cast(f, ctypes.c_void_p) if f else None for f in (allocate, None, to_object, borrow, current)))
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    Tensor.__dlpack_c_exchange_api__ = new(ctypes.addressof(table), b"dlpack_exchange_api", None)
    x = Tensor(pointer_of(m.to_device(X)))
    a, b = m(x, Y)
    assert isinstance(a, Tensor) and made == [(2, 0), (2, 0, (3, 4)), (2, 0, (3, 4))], made      # behind the framework's stream, in its memory
    m.wait()
    host = m.empty_on_device((3, 4))
    assert driver.cuMemcpyDtoD_v2(ctypes.c_uint64(host.pointer), ctypes.c_uint64(b.t.data), ctypes.c_size_t(48)) == 0 and driver.cuCtxSynchronize() == 0
    assert np.array_equal(host.numpy(), X * Y)
    a, b = m(a, Y)
    m.wait()
    assert driver.cuMemcpyDtoD_v2(ctypes.c_uint64(host.pointer), ctypes.c_uint64(a.t.data), ctypes.c_size_t(48)) == 0 and driver.cuCtxSynchronize() == 0
    assert np.array_equal(host.numpy(), X + 2 * Y)
    raises(tccc.InputError, "x.contiguous()", m, Tensor(x.at, 2), Y)


main(__name__)
