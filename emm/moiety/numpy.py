# SPDX-License-Identifier: Apache-2.0
"""NumPy arrays in pinned memory, on the NUMA node next to a GPU.

    with moiety.numpy.pinned(device=0):
        batch = np.empty((64, 3, 224, 224), np.float32)

    batch = moiety.numpy.empty_pinned((64, 3, 224, 224), np.float32)

The first makes NumPy's own functions allocate from an arena (NEP 49), with all
that a with-block computes, its temporaries included; requests below a page
(4096 bytes) are served from plain memory. The second makes one array.

What arrays keep. Each array frees its memory into the arena it came from,
whenever and on whatever thread it goes: after the with-block too. Its memory
serves again when the work that was queued on any stream by then is over. As
long as there are such arrays, or contexts that would make some, their arena
cannot be closed: moiety.Error, E_BUSY. (Small arrays count too, and those that
a module keeps which was first imported in the with-block.) What empty_pinned()
made does not keep it open, as no HostBlock does; but it keeps its bytes when its
arena is closed.

Contexts. NumPy keeps its handler in a context variable. It holds for the
thread or the asyncio task that set it and for tasks started from there, and
new threads begin with NumPy's own, those of a ThreadPoolExecutor too: use
contextvars.copy_context().run, or a with-block in the thread.

Errors. When there is no pinned memory to be had, NumPy raises MemoryError, and
empty_pinned() and its like raise moiety.OutOfMemoryError, which is one.

Fork. A child has a copy of the arrays in memory of the handler. What
empty_pinned() and its like made it has only if their arena has a handler too:
otherwise an access is a segmentation fault (docs/process.md). A child has no
driver. Where it inherits the handler, as workers do that
are forked in a with-block, NumPy's new arrays are in plain memory there;
what asks for pinned memory by its name is moiety.Error, E_FORKED.

Driver calls. NumPy calls its handler with the GIL held, and an arena that has
to grow calls the driver. Where host functions that need the GIL run on
streams, reserve what is needed beforehand: arena(...).reserve(nbytes).

What NumPy tells: numpy._core.multiarray.get_handler_name(array) is
"moiety:...", get_handler_version(array) is 1; both are None for a view and for
what empty_pinned() made, whose memory is not NumPy's.

Needs NumPy 1.22 or newer.
"""

import contextlib
import os
import threading

import numpy as np

from moiety import HostArena, _nep49
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


def _nodes_of(node):
    nodes = (node,) if isinstance(node, int) else tuple(node)
    if not nodes:
        raise ValueError("node: no NUMA node is named")
    return nodes


def _place(device, node, nearest):
    """What distinguishes one arena from another: HostArena's arguments."""
    if node is not None and nearest is not None:
        raise TypeError("name a node, or what the memory shall be near to")
    if nearest is not None and device is not None:
        raise TypeError("name a device, or what the memory shall be near to")
    if node is not None:
        return device or 0, "explicit", _nodes_of(node)
    if nearest == "caller":
        return 0, "caller", ()
    if nearest is not None:
        device = _device_of(nearest)
    return device or 0, "nearest", ()


def arena(device=None, *, node=None, nearest=None):
    """The arena that the functions below use for the same arguments: made when
    it is first asked for, and kept until it is closed.

    device: ordinal of the GPU whose nearest NUMA nodes the memory is on; 0.
    node: number of a NUMA node, or several, instead of those.
    nearest: instead of an ordinal, an array on the GPU, or a device object of
        cuda.core, CuPy or torch; "caller": the node of the CPU that runs this
        the first time.

    Raises moiety.Error where there is no driver, device or node of that kind.
    """
    if node is None and nearest is None:
        known = _nearest.get(device or 0)
        if known is not None and known.is_open:
            return known
    place = _place(device, node, nearest)
    with _lock:
        known = _arenas.get(place)
        if known is None or not known.is_open:
            ordinal, policy, nodes = place
            known = HostArena(ordinal, policy=policy, nodes=nodes)
            _arenas[place] = known
            if policy == "nearest":
                _nearest[ordinal] = known
        return known


def _name_of(host):
    nodes = ""
    for (_, policy, numbers), known in list(_arenas.items()):
        if known is host and policy != "nearest":
            nodes = ":" + "+".join(map(str, numbers)) if numbers else ":caller"
    return f"moiety:device{host.device}{nodes}"


def handler(host):
    """NumPy's handler for a HostArena: a capsule "mem_handler", for
    PyDataMem_SetHandler() and packages that take one. It keeps the arena
    open."""
    return _nep49.handler(host._capsule(), _name_of(host))


def context(host):
    """The address that functions() are to be called with for this arena, valid
    for ever: what is asked of an arena that is closed is answered by NULL."""
    return _nep49.context(handler(host))


def functions():
    """The addresses of the four functions of NEP 49, by name: "malloc",
    "calloc", "realloc", "free". Each takes context(arena) first; any thread may
    call them, with the GIL or without."""
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
    """Makes NumPy allocate from a HostArena from now on, in this context; None:
    from where it does by itself. Works as a with-block too, at the end of
    which it allocates as before."""
    return _Use(None if host is None else handler(host))


@contextlib.contextmanager
def _held(device, node, nearest):
    host = arena(device, node=node, nearest=nearest)
    with use(host):
        yield host


class _Pinned:
    """What pinned() returns: one with-block, or a decorator."""

    def __init__(self, *place):
        self._place = place
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


def pinned(device=None, *, node=None, nearest=None):
    """A with-block in which NumPy's arrays are in pinned memory: arena(...),
    which it gives. As a decorator it does the same for each call: of an async
    function until it has ended, and of a generator while its own code runs,
    but not while its caller's does between two items. A class is TypeError.

    In a generator that is not decorated, do not yield inside the with-block:
    the caller's arrays would be pinned, too."""
    return _Pinned(device, node, nearest)


_ORDERS = {"C": False, "F": True}
_arena_at = arena


def _empty(is_zeroed, shape, dtype, order, device, node, nearest, host):
    is_fortran = _ORDERS.get(order)
    if is_fortran is None:
        raise ValueError(f"order must be 'C' or 'F', not {order!r}")
    if host is None:
        host = _arena_at(device, node=node, nearest=nearest)
    elif not device is node is nearest is None:
        raise TypeError("an arena is where it is: name no place beside it")
    return _nep49.empty(host.alloc, shape, dtype, is_fortran, is_zeroed)


def empty_pinned(shape, dtype=float, order="C", *, device=None, node=None,
                 nearest=None, arena=None):
    """A new array in pinned memory, whatever its size, of undefined contents.

    shape, dtype, order: as for numpy.empty(); order is "C" or "F". Elements
        that refer to Python objects cannot be pinned: TypeError.
    device, node, nearest: as for arena(); or arena: a HostArena of your own.

    Its base is the moiety.HostBlock: array.base.device_address is where the GPU
    finds it, array.base.stream = s says that work on s uses it last.
    """
    return _empty(False, shape, dtype, order, device, node, nearest, arena)


def zeros_pinned(shape, dtype=float, order="C", *, device=None, node=None,
                 nearest=None, arena=None):
    """empty_pinned(), filled with zeros."""
    return _empty(True, shape, dtype, order, device, node, nearest, arena)


def _axes_by_stride(prototype):
    return sorted(range(prototype.ndim),
                  key=lambda axis: -abs(prototype.strides[axis]))


def empty_like_pinned(prototype, dtype=None, order="K", shape=None, **place):
    """empty_pinned() with the shape and type of another array, unless others
    are given.

    order: "C", "F", "A" (F if the prototype is, else C) or "K" (as near to the
        prototype's as can be). Where that is neither C nor F the array is a
        view of one whose base the HostBlock is.
    """
    prototype = np.asanyarray(prototype)
    dtype = prototype.dtype if dtype is None else dtype
    if order == "A" or (order == "K" and
                        (shape is not None or prototype.flags.forc)):
        order = "F" if prototype.flags.fnc else "C"
    shape = prototype.shape if shape is None else shape
    if order != "K":
        return empty_pinned(shape, dtype, order, **place)
    axes = _axes_by_stride(prototype)
    array = empty_pinned([shape[axis] for axis in axes], dtype, **place)
    return array.transpose(np.argsort(axes))
