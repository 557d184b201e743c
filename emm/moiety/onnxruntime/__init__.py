# SPDX-License-Identifier: Apache-2.0
"""ONNX Runtime on the pool.

    import onnxruntime
    import moiety.onnxruntime

    options = moiety.onnxruntime.provider_options(moiety.Pool(limit="8GiB"))
    session = onnxruntime.InferenceSession(
        "model.onnx", providers=[("CUDAExecutionProvider", options)])

All device memory of such sessions comes from the pool. No call runs Python.
docs/guides/libraries.md has more.

Sizes are in bytes. Threads: any."""

import ctypes
import operator
import threading

try:
    import onnxruntime as _onnxruntime
except ImportError as error:
    raise ImportError(
        f"moiety.onnxruntime needs ONNX Runtime with CUDA (pip install "
        f"onnxruntime-gpu): {error}") from error

from moiety import _native
from moiety._pools import pools as _pools

__all__ = ["provider_options", "release"]

_PROVIDER = "CUDAExecutionProvider"
_STREAMS = {_native.ANY: _native.ANY, _native.LEGACY: _native.LEGACY,
            0: _native.LEGACY}


class _Functions(ctypes.Structure):
    _fields_ = [("alloc", ctypes.c_void_p), ("free", ctypes.c_void_p),
                ("empty_cache", ctypes.c_void_p)]


_library = ctypes.CDLL(_native.__file__)
_take = _library.moiety_onnxruntime_take
_take.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p,
                  ctypes.POINTER(_Functions))
_give = _library.moiety_onnxruntime_give
_give.restype = ctypes.c_uint64
_handle_in = ctypes.pythonapi.PyCapsule_GetPointer
_handle_in.restype = ctypes.c_void_p
_handle_in.argtypes = (ctypes.py_object, ctypes.c_char_p)

# Of all below, and of the slots in C.
_lock = threading.Lock()
_slots = {}  # the address of alloc() -> _Slot


class _Slot:
    """A slot in C, and what keeps its pool and tenant open."""

    def __init__(self, source, stream):
        self.source, self.stream = source, stream
        self.held = [_native._capsule_of(_pools.pool_behind(source))]
        pool = _handle_in(self.held[0], b"moiety_pool")
        tenant = None
        if isinstance(source, _native.Tenant):
            self.held.append(_native._capsule_of(source))
            tenant = _handle_in(self.held[1], b"moiety_tenant")
        functions = _Functions()
        self.index = _take(pool, tenant, stream, ctypes.byref(functions))
        if self.index < 0:
            raise _native._error_for("E_NO_ROOM", f"{len(_slots)} pools, tenants and streams "
                          f"are ONNX Runtime's already: release() one")
        self.address = functions.alloc
        self.options = {
            "gpu_external_alloc": str(functions.alloc),
            "gpu_external_free": str(functions.free),
            "gpu_external_empty_cache": str(functions.empty_cache)}


def _stream_of(stream):
    if stream is None:
        return _native.ANY
    if operator.index(stream) not in _STREAMS:
        raise ValueError(
            f"stream is {stream}; accepted are moiety.ANY and moiety.LEGACY: "
            f"ONNX Runtime takes no user_compute_stream together with an "
            f"allocator")
    return _STREAMS[operator.index(stream)]


def _device_of(pool, device_id):
    if device_id is not None:
        return operator.index(device_id)
    if pool is None or isinstance(pool, _pools.Pools):
        return 0
    return _pools.pool_behind(pool).device


def _slot_for(source, stream):
    for slot in _slots.values():
        if slot.source is source and slot.stream == stream:
            return slot
    slot = _Slot(source, stream)
    _slots[slot.address] = slot
    return slot


def provider_options(pool=None, *, stream=None, device_id=None):
    """Returns options of ONNX Runtime's CUDAExecutionProvider, for any number of
    sessions. They are device_id, gpu_external_alloc, gpu_external_free and
    gpu_external_empty_cache. The program can add others.

    pool       a moiety.Pool, moiety.Pools, or Tenant of a Pool; None is
               moiety.pools(). It cannot be closed before release().
    stream     moiety.ANY, or None, is right for all streams of the provider. Freed
               memory is reused after the work that is queued then. With LEGACY it is
               reused at once, for a provider that works on the legacy default
               stream only. Not all versions do.
    device_id  an ordinal; None is the pool's device, or otherwise 0.

    Raises ValueError for a closed pool, a pool of another device, and other streams.
    Raises RuntimeError if the installed ONNX Runtime has no CUDA, and Error, by its
    `status` E_NO_ROOM, for more than 16 pools, tenants and streams."""
    _pools.check_source(pool)
    stream = _stream_of(stream)
    device = _device_of(pool, device_id)
    source = _pools.pool_for(pool, device)
    if _PROVIDER not in _onnxruntime.get_available_providers():
        raise RuntimeError(
            f"the installed ONNX Runtime has no {_PROVIDER}, and would run "
            f"without it: pip install onnxruntime-gpu")
    with _lock:
        slot = _slot_for(source, stream)
    return {"device_id": str(device), **slot.options}


def release(options):
    """Releases the pool or tenant of `options` after all sessions with them are gone.
    The options, and all others of the same pool and stream, become invalid.

    Raises InUseError while ONNX Runtime has memory of the pool: delete its sessions
    and OrtValues first. Raises ValueError for options that provider_options() did not
    return, or that are invalid already."""
    with _lock:
        slot = _slots.get(int(options.get("gpu_external_alloc", 0)))
        if slot is None:
            raise ValueError("provider_options() did not give these options, or "
                             "release() has made them void")
        count = _give(slot.index)
        if count:
            raise _native._error_for("E_IN_USE", f"ONNX Runtime has memory of "
                          f"{slot.source!r}, blocks: {count}; delete its "
                          f"sessions and OrtValues first")
        del _slots[slot.address]
        # Not with the object, which an exception may keep.
        slot.held.clear()
