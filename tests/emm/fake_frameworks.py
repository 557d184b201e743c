# SPDX-License-Identifier: Apache-2.0
"""CuPy, RMM and ONNX Runtime as far as moiety.cupy, moiety.rmm and
moiety.onnxruntime use them, without the CUDA runtime that they need: modules of
the same names, signatures and rules. tests/stacks has the first two, on a GPU.

Of CuPy, `cupy.cuda.where` has the device and the stream that are current."""

import collections
import ctypes
import sys
import threading
import types


class Where:
    """What is current, in CuPy's modules."""

    def __init__(self):
        self.device = 0
        self.stream = 0


def _capsule(kind, function, signature):
    """As Cython exports a function: a capsule that keeps what it needs."""
    make = ctypes.pythonapi.PyCapsule_New
    make.restype = ctypes.py_object
    make.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    text = ctypes.c_char_p(signature)
    pointer = kind(function)
    _kept.append((text, pointer))
    return make(ctypes.cast(pointer, ctypes.c_void_p), text, None)


_kept = []


class BaseMemory:
    """Of cupy.cuda.memory: all memory has these."""

    __slots__ = ()

    def __int__(self):
        return self.ptr


class UnownedMemory(BaseMemory):
    def __init__(self, ptr, size, owner, device_id=-1):
        assert isinstance(ptr, int) and isinstance(size, int)
        if device_id < 0:
            raise RuntimeError("the fake asks for no device")
        self.ptr, self.size, self._owner = ptr, size, owner
        self.device_id = device_id


class MemoryPointer:
    def __init__(self, mem, offset):
        assert isinstance(mem, BaseMemory)
        self.mem, self.ptr = mem, mem.ptr + offset
        self.device_id = mem.device_id


class _Member(ctypes.Structure):
    """PyMemberDef."""

    _fields_ = [("name", ctypes.c_char_p), ("type", ctypes.c_int),
                ("offset", ctypes.c_ssize_t), ("flags", ctypes.c_int),
                ("doc", ctypes.c_char_p)]


class _Slot(ctypes.Structure):
    """PyType_Slot."""

    _fields_ = [("slot", ctypes.c_int), ("value", ctypes.c_void_p)]


class _Spec(ctypes.Structure):
    """PyType_Spec."""

    _fields_ = [("name", ctypes.c_char_p), ("basicsize", ctypes.c_int),
                ("itemsize", ctypes.c_int), ("flags", ctypes.c_uint),
                ("slots", ctypes.POINTER(_Slot))]


_TYPES_OF_C = {"int": 1, "object": 16, "intptr_t": 17, "size_t": 18}


def _type_in_c(name, *fields):
    """A type with a field of a C type in each eight bytes, as Cython makes it;
    None is none."""
    head = object.__basicsize__
    members = (_Member * (len(fields) + 1))(*(
        _Member(field[1].encode(), _TYPES_OF_C[field[0]], head + 8 * index)
        for index, field in enumerate(fields) if field))
    slots = (_Slot * 2)((72, ctypes.addressof(members)))  # Py_tp_members
    spec = _Spec(name.encode(), head + 8 * len(fields), 0, 1 << 10, slots)
    _kept.append((members, slots, spec))
    make = ctypes.pythonapi.PyType_FromSpec
    make.restype = ctypes.py_object
    return make(ctypes.byref(spec))


class UnownedMemoryInC(
        _type_in_c("fake.Memory", ("intptr_t", "ptr"), ("size_t", "size"),
                   ("int", "device_id"), ("object", "_owner")), BaseMemory):
    """As CuPy's is in memory, without Cython."""

    __slots__ = ()
    __init__ = UnownedMemory.__init__


class MemoryPointerInC(
        _type_in_c("fake.Pointer", None, ("intptr_t", "ptr"),
                   ("int", "device_id"), ("object", "mem"))):
    """The same; the first field is Cython's."""

    __slots__ = ()
    __init__ = MemoryPointer.__init__


class CupyOutOfMemoryError(MemoryError):
    def __init__(self, size, total, limit=0):
        self._size, self._total, self._limit = size, total, limit
        super().__init__(f"Out of memory allocating {size:,} bytes (allocated "
                         f"so far: {total:,} bytes, limit set to: {limit:,} "
                         f"bytes).")

    def __reduce__(self):
        return type(self), (self._size, self._total, self._limit)


class PinnedMemoryPointer:
    def __init__(self, mem, offset):
        self.mem, self.ptr = mem, mem.ptr + offset

    def size(self):
        return self.mem.size - (self.ptr - self.mem.ptr)


class Stream:
    def __init__(self, ptr):
        self.ptr = ptr

    def begin_capture(self, mode=None): pass

    def end_capture(self): pass


def _module(name, **members):
    made = types.ModuleType(name)
    vars(made).update(members)
    sys.modules[name] = made
    package, _, short = name.rpartition(".")
    if package:
        setattr(sys.modules[package], short, made)
    return made


def _memory_module():
    current = {"allocator": None}
    own = threading.local()

    def set_allocator(allocator=None):
        if getattr(own, "allocator", None) is not None:
            raise ValueError("Can't change the global allocator inside "
                             "`using_allocator` context manager")
        current["allocator"] = allocator

    return {"BaseMemory": BaseMemory, "UnownedMemory": UnownedMemory,
            "MemoryPointer": MemoryPointer,
            "OutOfMemoryError": CupyOutOfMemoryError,
            "set_allocator": set_allocator, "_thread_local": own,
            "get_allocator": lambda: current["allocator"],
            "alloc": lambda size: current["allocator"](size)}


def install_cupy(has_capsules=True):
    """Puts CuPy's modules where they are imported from."""
    where, pinned = Where(), {"allocator": None}
    _module("cupy", __version__="14.2.0")
    cuda = _module("cupy.cuda", where=where)
    _module("cupy.cuda.device", get_device_id=lambda: where.device)
    memory = _module("cupy.cuda.memory", **_memory_module())
    stream = _module("cupy.cuda.stream", Stream=Stream,
                     get_current_stream=lambda: Stream(where.stream))
    _module("cupy.cuda.pinned_memory", PinnedMemoryPointer=PinnedMemoryPointer,
            set_pinned_memory_allocator=lambda allocator=None: pinned.update(
                allocator=allocator),
            alloc_pinned_memory=lambda size: pinned["allocator"](size))
    cuda.set_allocator, cuda.alloc = memory.set_allocator, memory.alloc
    cuda.Stream, cuda.MemoryPointer = stream.Stream, memory.MemoryPointer
    if has_capsules:
        _module("cupy_backends")
        _module("cupy_backends.cuda")
        cuda.device.__pyx_capi__ = {"get_device_id": _capsule(
            ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int),
            lambda skip: where.device, b"int (int __pyx_skip_dispatch)")}
        kept = _module("cupy_backends.cuda.stream")
        kept.__pyx_capi__ = {"get_current_stream_ptr": _capsule(
            ctypes.PYFUNCTYPE(ctypes.c_ssize_t), lambda: where.stream,
            b"intptr_t (void)")}
    return sys.modules["cupy"]


class RmmStream:
    """Of rmm.pylibrmm.stream."""

    def __init__(self, pointer=0):
        self._pointer = pointer

    def __cuda_stream__(self):
        return (0, self._pointer)


class CallbackMemoryResource:
    """Calls as RMM's C++ does, with a new stream object for each call; what is
    raised leaves it as RMM turns it into C++ and back."""

    def __init__(self, allocate_func, deallocate_func):
        self._allocate_func = allocate_func
        self._deallocate_func = deallocate_func

    def allocate(self, nbytes, stream=RmmStream()):
        try:
            return self._allocate_func(nbytes, RmmStream(stream._pointer))
        except MemoryError as error:
            text = str(error)
        except BaseException as error:
            raise RuntimeError(str(error)) from None
        raise MemoryError(f"std::bad_alloc: out_of_memory: {text}")

    def deallocate(self, ptr, nbytes, stream=RmmStream()):
        self._deallocate_func(ptr, nbytes, RmmStream(stream._pointer))


class OrtFail(RuntimeError):
    """Of onnxruntime.capi.onnxruntime_pybind11_state."""


class InferenceSession:
    """Allocates as ONNX Runtime's CUDAExternalAllocator does: from the
    functions whose addresses the provider's options have."""

    _TYPES = {"gpu_external_alloc": ctypes.CFUNCTYPE(ctypes.c_void_p,
                                                     ctypes.c_size_t),
              "gpu_external_free": ctypes.CFUNCTYPE(None, ctypes.c_void_p),
              "gpu_external_empty_cache": ctypes.CFUNCTYPE(None)}

    def __init__(self, path, providers):
        (name, options), *_ = providers
        assert name == "CUDAExecutionProvider"
        assert all(isinstance(text, str) for text in options.values())
        if "user_compute_stream" in options:
            raise OrtFail("!(info.has_user_compute_stream && "
                          "info.external_allocator_info.UseExternalAllocator())")
        assert options.keys() == {"device_id", *self._TYPES}
        self._alloc, self._free, self._empty_cache = (
            made(int(options[key])) for key, made in self._TYPES.items())
        self._reserved = set()

    def alloc(self, size):
        if not size:
            return None
        block = self._alloc(size)
        if not block:
            raise OrtFail("p != nullptr was false.")
        return block

    def reserve(self, size):
        block = self.alloc(size)
        self._reserved.add(block)
        return block

    def free(self, block):
        self._free(block)
        if block in self._reserved:
            self._reserved.remove(block)
            self._empty_cache()


def install_onnxruntime():
    return _module(
        "onnxruntime", __version__="1.32.0", InferenceSession=InferenceSession,
        get_available_providers=lambda: ["CUDAExecutionProvider",
                                         "CPUExecutionProvider"])


def install_rmm():
    resources = collections.defaultdict(object)  # RMM has one at first
    rmm = _module("rmm", __version__="26.10.00")
    _module("rmm.mr", CallbackMemoryResource=CallbackMemoryResource,
            set_per_device_resource=resources.__setitem__,
            get_per_device_resource=resources.__getitem__)
    return rmm
