# SPDX-License-Identifier: Apache-2.0
"""NumPy arrays in pinned memory, on the NUMA node next to a GPU.

    with moiety.numpy.pinned(device=0):
        batch = np.empty((64, 3, 224, 224), np.float32)

    batch = moiety.numpy.empty_pinned((64, 3, 224, 224), np.float32)

The with-block makes NumPy's own functions allocate from an arena (NEP 49), also for
temporary arrays. Requests below a page (4096 bytes) use plain memory. The function
makes one array. NumPy 1.22 or newer is required.

**Lifetime.** Each array returns its memory to its arena, on any thread, also after
the with-block. The memory is reused after the work that is queued on any stream
then. While such arrays or contexts exist, close() of their arena raises InUseError.
Arrays of empty_pinned() do not keep it open, but keep their bytes when it is closed.

**Contexts.** NumPy keeps its handler in a context variable. The handler applies to
the thread or asyncio task that set it, and to tasks that are started there. New
threads begin with NumPy's own: use contextvars.copy_context().run, or a with-block
in the thread.

**Errors.** Without pinned memory NumPy raises MemoryError. empty_pinned() and the
like raise moiety.OutOfMemoryError, which is one.

**Fork.** A child has a copy of the arrays that the handler allocated. It has those
of empty_pinned() only if their arena has a handler too. Otherwise an access is a
segmentation fault (docs/process.md). A child has no driver: new arrays use plain
memory, and empty_pinned() raises ForkedError.

**Driver calls.** NumPy calls its handler with the GIL held, and an arena that grows
calls the driver. If host functions on streams need the GIL, reserve the memory
before: arena(...).reserve(nbytes).

**Names.** numpy._core.multiarray.get_handler_name(array) is "moiety:...", and
get_handler_version(array) is 1. Both are None for views and for arrays of
empty_pinned()."""

import contextlib
import operator
import os
import threading

import numpy as np

from moiety import HostArena, _native, _nep49
from moiety._during import during

__all__ = [
    "arena",
    "context",
    "empty_like_pinned",
    "empty_pinned",
    "functions",
    "handler",
    "pinned",
    "use",
    "zeros_pinned",
]

PINNED_BYTES_MIN = _nep49.PINNED_BYTES_MIN

_lock = threading.Lock()
_arenas = {}  # place -> HostArena
_nearest = {}  # device -> that of its nearest nodes, for a look without the lock


def _forget():
    """In the child of a fork, where the parent's arenas have no memory."""
    global _lock
    _lock = threading.Lock()
    _arenas.clear()
    _nearest.clear()


os.register_at_fork(after_in_child=_forget)


def _device_of(thing):
    """The ordinal of the GPU that an array or a device object is on."""
    if isinstance(thing, int):
        return thing
    if hasattr(thing, "__dlpack_device__"):
        kind, ordinal = thing.__dlpack_device__()
        if kind not in (2, 3, 13):  # CUDA, pinned, managed
            raise ValueError(f"{thing!r} is not on a GPU")
        return ordinal
    for name in ("device_id", "id", "index"):
        ordinal = getattr(thing, name, None)
        if isinstance(ordinal, int):
            return ordinal
    raise TypeError(f"{type(thing).__name__} does not tell which GPU it is on")


def _place_of(place):
    """As a key: text, or numbers of nodes."""
    if isinstance(place, str):
        return place
    return ((operator.index(place),) if hasattr(place, "__index__")
            else tuple(map(operator.index, place)))


def arena(device=None, *, place="nearest"):
    """Returns the HostArena that the functions below use for the same arguments.
    The first call creates it.

    device  the ordinal of a GPU, an array on the GPU, or a device object of
            cuda.core, CuPy or PyTorch; None is device 0.
    place   as for HostArena: "nearest" to the device, "caller", numbers of NUMA
            nodes, or "interleave:0+2".

    Raises Error without a driver, device or node of that kind, and ValueError for
    another place.
    """
    if place == "nearest":
        known = _nearest.get(device or 0) if device is None or isinstance(
            device, int) else None
        if known is not None and known.is_open:
            return known
    ordinal = 0 if device is None else _device_of(device)
    key = ordinal, _place_of(place)
    with _lock:
        known = _arenas.get(key)
        if known is None or not known.is_open:
            known = _arenas[key] = HostArena(ordinal, place=key[1])
            if key[1] == "nearest":
                _nearest[ordinal] = known
        return known


def _name_of(host):
    named = ""
    for (_, place), known in list(_arenas.items()):
        if known is host and place != "nearest":
            named = ":" + (place if isinstance(place, str)
                           else "+".join(map(str, place)))
    return f"moiety:device{host.device}{named}"


def handler(host):
    """Returns NumPy's handler for a HostArena: a capsule "mem_handler", for
    PyDataMem_SetHandler() and packages that take one. It keeps the arena open."""
    return _nep49.handler(_native._capsule_of(host), _name_of(host))


def context(host):
    """Returns the address with which functions() are called for this arena. It is always
    valid: if the arena is closed, the functions return NULL."""
    return _nep49.context(handler(host))


def functions():
    """Returns the addresses of the four functions of NEP 49 by name: "malloc", "calloc",
    "realloc", "free". Each takes context(arena) first. Any thread can call them, with
    or without the GIL."""
    return dict(_nep49.FUNCTIONS)


class _Use:
    """What use() returns: restores what was before at the end of a with-block,
    or when restore() is called."""

    def __init__(self, capsule):
        self._before = [_nep49.set_handler(capsule)]

    def restore(self):
        """Sets what was before; a second call does nothing."""
        if self._before:
            _nep49.set_handler(self._before.pop())

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        self.restore()


def use(host):
    """Makes NumPy allocate from a HostArena from now on, in this context. None is NumPy's
    own memory. As a with-block, it ends with the block; otherwise, with restore() of
    the object that it returns."""
    return _Use(None if host is None else handler(host))


@contextlib.contextmanager
def _held(device, place):
    host = arena(device, place=place)
    with use(host):
        yield host


class _Pinned:
    """What pinned() returns: one with-block, or a decorator."""

    def __init__(self, device, place):
        self._place = device, place
        self._block = None

    def __enter__(self):
        if self._block is not None:
            raise RuntimeError("it is entered already: call pinned() for each "
                               "with-block")
        block = _held(*self._place)
        host = block.__enter__()
        self._block = block
        return host

    def __exit__(self, kind, error, trace):
        block, self._block = self._block, None
        return block.__exit__(kind, error, trace)

    def __call__(self, function):
        return during(function, lambda: _held(*self._place))


def pinned(device=None, *, place="nearest"):
    """Returns a with-block in which NumPy allocates from arena(device, place=place). The
    with-block returns the HostArena.

    As a decorator it does the same for each call. For an async function that is until
    it ends. For a generator it is while its own code runs, but not while its caller
    runs between two items. A class raises TypeError.

    Do not yield inside the with-block in a generator that is not decorated: the
    caller's arrays would be pinned too."""
    return _Pinned(device, place)


_ORDERS = {"C": False, "F": True}
_arena_at = arena


def _empty(is_zeroed, shape, dtype, order, device, place, host):
    is_fortran = _ORDERS.get(order)
    if is_fortran is None:
        raise ValueError(f"order must be 'C' or 'F', not {order!r}")
    if host is None:
        host = _arena_at(device, place=place)
    elif device is not None or place != "nearest":
        raise TypeError("an arena is where it is: name no device and no place with it")
    return _nep49.empty(host.alloc, _native._show, shape, dtype, is_fortran,
                         is_zeroed)


def empty_pinned(shape, dtype=float, order="C", *, device=None,
                 place="nearest", arena=None):
    """Returns a new array in pinned memory, of any size, with undefined contents.

    shape, dtype, order  as for numpy.empty(); `order` is "C" or "F".
    device, place        as for arena().
    arena                a HostArena instead.

    The base of the array is the moiety.HostBlock. array.base.device_address is the
    address for the GPU. Assign array.base.stream to name the stream that uses the array
    last.

    Raises TypeError for elements that refer to Python objects, and OutOfMemoryError."""
    return _empty(False, shape, dtype, order, device, place, arena)


def zeros_pinned(shape, dtype=float, order="C", *, device=None,
                 place="nearest", arena=None):
    """Returns an array as empty_pinned() does, filled with zeros."""
    return _empty(True, shape, dtype, order, device, place, arena)


def _axes_by_stride(prototype):
    return sorted(range(prototype.ndim),
                  key=lambda axis: -abs(prototype.strides[axis]))


def empty_like_pinned(prototype, dtype=None, order="K", shape=None, **where):
    """Returns an array as empty_pinned() does, with the shape and type of another array
    unless others are given.

    order  "C", "F", "A" (F if the prototype is, otherwise C) or "K" (as close to the
           prototype as possible). If "K" is neither C nor F, the array is a view, and
           the base of its base is the HostBlock.
    where  device, place and arena, as for empty_pinned()."""
    prototype = np.asanyarray(prototype)
    dtype = prototype.dtype if dtype is None else dtype
    if order == "A" or (order == "K" and
                        (shape is not None or prototype.flags.forc)):
        order = "F" if prototype.flags.fnc else "C"
    shape = prototype.shape if shape is None else shape
    if order != "K":
        return empty_pinned(shape, dtype, order, **where)
    axes = _axes_by_stride(prototype)
    array = empty_pinned([shape[axis] for axis in axes], dtype, **where)
    return array.transpose(np.argsort(axes))
