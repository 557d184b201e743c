# SPDX-License-Identifier: Apache-2.0
"""The C module: pools and host arenas as Python objects.

Sizes are in bytes. Streams are integers (a CUstream, or one of the constants
below) or objects that have one: __cuda_stream__() of cuda.core, .ptr of CuPy,
.cuda_stream of torch, .handle of numba; None is ANY. The GIL is released around
whatever can call the driver or wait; what a thread's cache serves keeps it.

Every call can raise Error, of which .status is the name of a moiety_status
("E_INVALID", "E_FORKED", ...); TypeError and OverflowError for arguments that
are none; ValueError for what is closed or freed. All objects may be used by any
thread. After fork() the child gets Error with status E_FORKED.
"""
import os
from types import TracebackType
from typing import Any, Callable, Final, Iterable, final

LEGACY: Final[int]  # the legacy default stream; 0 is the same
PER_THREAD: Final[int]  # the calling thread's default stream
ANY: Final[int]  # no stream can be named: safe on all, by waiting for all
DONE: Final[int]  # for frees: no work that uses the block is pending

class Error(RuntimeError):
    status: str
    report: dict[str, Any] | None  # of an OutOfMemoryError

class OutOfMemoryError(Error, MemoryError):
    # As moiety_oom_report; None where the request was refused before it got
    # to the pool's memory (larger than the limit, a tenant's budget), and for
    # Tenant.resume().
    report: dict[str, Any] | None

@final
class Block:
    """Device memory of a pool, freed when the last reference goes."""
    address: Final[int]
    nbytes: Final[int]  # as asked for
    stream: int  # that free() without a stream names; may be assigned
    pool: Final["Pool"]
    tenant: Final["Tenant | None"]  # that took it
    is_live: Final[bool]
    __cuda_array_interface__: Final[dict[str, Any]]  # bytes, version 3
    def free(self, stream: Any = ...) -> None:
        """Frees now; a second call does nothing."""
    def __dlpack__(self, *, stream: Any = ..., max_version: Any = ...,
                   dl_device: Any = ..., copy: bool | None = ...) -> Any: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...
    def __array__(self, dtype: Any = ..., copy: bool | None = ...) -> Any:
        """TypeError: the bytes are on the device."""
    def _repr_html_(self) -> str: ...
    def __enter__(self) -> "Block": ...
    def __exit__(self, kind: Any, error: Any, trace: Any, /) -> None: ...
    def __int__(self) -> int: ...
    def __len__(self) -> int: ...

@final
class HostBlock:
    """Pinned memory of an arena, freed when the last reference goes."""
    address: Final[int]  # for the CPU
    device_address: Final[int]
    nbytes: Final[int]
    stream: int
    arena: Final["HostArena"]
    tenant: Final["Tenant | None"]
    is_live: Final[bool]
    is_pinned: Final[bool]  # True
    __array_interface__: Final[dict[str, Any]]  # bytes; numpy.asarray(block)
    def free(self, stream: Any = ...) -> None:
        """Frees now, or with the last view; a second call does nothing."""
    def __buffer__(self, flags: int, /) -> memoryview:
        """memoryview(block), numpy.frombuffer(block): the bytes, writable. A
        view keeps them, whatever is freed or closed."""
    def __dlpack__(self, *, stream: Any = ..., max_version: Any = ...,
                   dl_device: Any = ..., copy: bool | None = ...) -> Any: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...
    def __bytes__(self) -> bytes: ...
    def _show(self) -> int:
        """The address, for an object that keeps the block."""
    def _repr_html_(self) -> str: ...
    def __enter__(self) -> "HostBlock": ...
    def __exit__(self, kind: Any, error: Any, trace: Any, /) -> None: ...
    def __int__(self) -> int: ...
    def __len__(self) -> int: ...

@final
class Pool:
    """A pool of device memory. Options are those of moiety_pool_options, and
    `memory`: "driver" is cuMemAlloc(); "mapped" is mapped piece by piece, or
    Error, E_UNSUPPORTED, where there is none (docs/mapped.md); "auto" is mapped
    where there is such memory and the pool is not exportable. `peers`: devices
    that may access mapped memory beside the pool's own. `auto_scope`: graphs may
    be captured that allocate; the pool keeps their memory until
    release_scopes(). `context`: the address of a CUcontext of the device; 0 or
    None is its primary one."""
    device: Final[int]
    is_open: Final[bool]
    limit_bytes: Final[int]  # what set_limit() changes
    memory: Final[str]  # what it became: "driver" or "mapped"
    def __init__(self, device: int = 0, *, context: int | None = 0,
                 limit_bytes: int = ..., first_segment_bytes: int = ...,
                 largest_segment_bytes: int = ...,
                 thread_cache_bytes: int = ..., cache_bytes: int = ...,
                 history_entries: int = ..., watermark_bytes: int = ...,
                 quarantine_bytes: int = ..., wait_ms: int = ...,
                 exportable: bool = False, checked: bool = False,
                 pass_through: bool = False, auto_scope: bool = False,
                 memory: str = "driver",
                 peers: Iterable[int] = ()) -> None: ...
    def segments(self) -> list[dict[str, Any]]:
        """The pieces of memory that a transport can register, by address: id,
        address, nbytes, hold_count, device, is_mapped (moiety/segment.h)."""
    def hold(self, address: int, nbytes: int = 1, /) -> None:
        """Keeps all segments of a range from moving and from going back to the
        driver, until release_hold() was called as often."""
    def release_hold(self, address: int, nbytes: int = 1, /) -> None: ...
    def watch_segments(
            self, added: Callable[[dict[str, Any]], object] | None = None,
            releasing: Callable[[dict[str, Any]], object] | None = None,
    ) -> "SegmentWatch":
        """Tells of segments, for who registers all of a pool (RDMA, UCX, NIXL):
        added(segment) of each that is there, before this returns, and of each
        that comes, before a block is in it; releasing(segment) of each that
        goes, when no block is in it any more and while its memory is there. A
        piece that moves or pauses is released, and added with another id. The
        pool's end releases all; the end of the interpreter tells nothing.

        segment: as segments() has it, a dictionary of its own for each call.
        Threads: whichever grows or trims the pool runs them, one at a time; it
            may block, but not wait for a thread that is in a call of the pool.
        Meanwhile: calls on the pool are Error, E_BUSY, but for frees: those of
            all pools, also of blocks that go by themselves, are done when the
            call is over that told. What such a free fails with, and what the
            functions raise, goes to sys.unraisablehook(), and the pool goes on.
        Life: the pool keeps the functions, and the watch, which may be dropped,
            until its close(). A function that refers to its pool keeps it from
            going by itself, until the garbage collector finds both; one that
            refers to a block keeps it for good: close the watch or the pool.

        TypeError without a function; Error, E_UNSUPPORTED, for a pool that
        passes all through."""
    def add_peer(self, device: int, /) -> None:
        """One more device that may access all memory of the pool, which is
        mapped."""
    def alloc(self, nbytes: int, stream: Any = ANY) -> Block: ...
    def allocate(self, nbytes: int, stream: Any = ANY) -> int:
        """An address without an owner, for deallocate()."""
    def deallocate(self, address: int, stream: Any = ANY) -> None:
        """Ignored when the pool is closed, as its memory is gone."""
    def _capsule(self) -> Any:
        """The moiety_pool* as a capsule "moiety_pool": as long as it is there,
        close() raises Error, E_BUSY."""
    def _deallocate_for_rmm(self, address: int, nbytes: int, stream: Any, /
                            ) -> None: ...
    def usable_size(self, address: int, /) -> int: ...
    def owns(self, address: int, /) -> bool:
        """Whether `address` is in memory of this pool, used or not."""
    def record_use(self, address: int, stream: Any) -> None: ...
    def tenant(self, name: str = "", budget_bytes: int = 0, *,
               pausable: bool = False) -> "Tenant":
        """A part of the program with a budget of its own; 0: any amount. `name`
        is for people, up to 31 bytes. `pausable`: it has pause() and resume(),
        and memory of the pool for itself; Error, E_UNSUPPORTED, in a pool that
        is not mapped, is checked, or passes all through."""
    def stats(self) -> dict[str, int]: ...
    def snapshot(self) -> dict[str, Any]:
        """Segments and intervals as moiety/heap.h has them."""
    def history(self) -> dict[str, Any]:
        """The newest operations of all threads, 65536 at most, oldest first, as
        moiety/history.h has them: "entries", and how many were "noted" and
        "lost". Error, E_UNSUPPORTED, for a pool without history_entries."""
    def synchronize(self, timeout_ms: int = 4294967295) -> None:
        """Waits for all work that was queued before; what was freed before it is
        everybody's then, and trim() gives it back. Error, E_CAPTURING, while a
        graph is captured; E_BUSY, when the time is over."""
    def trim(self, keep_bytes: int = 0) -> int:
        """Bytes given back to the driver. What waits for work stays."""
    def set_limit(self, limit_bytes: int) -> None:
        """The most that it reserves from now on; 0: what the device has. What is
        reserved above it goes back as far as nobody uses it. Error,
        E_TOO_LARGE, above 16 times the limit that it was made with."""
    def used_bytes(self) -> int:
        """Bytes of blocks in use."""
    def total_bytes(self) -> int:
        """Bytes that are reserved, used or not."""
    def free_all_blocks(self) -> None:
        """synchronize() and trim(), as CuPy's pools have it; while a graph is
        captured, trim() alone."""
    def reset_peaks(self) -> None:
        """Lets the peaks of stats() begin anew at the current values."""
    def reserve(self, nbytes: int) -> None:
        """Grows until this much is reserved, used or not."""
    def last_oom(self) -> dict[str, Any] | None: ...
    def export(self, address: int, /) -> bytes:
        """A moiety_ipc_handle of any address in a live block, for
        moiety_ipc_import(). moiety.ipc.export() makes one of an array. Error,
        E_UNSUPPORTED, where the memory is mapped."""
    def ticket(self, address: int, /) -> bytes:
        """The same; of mapped memory, for a process that has received it."""
    def send(self, address: int, socket: int, /) -> None:
        """Sends a live block through a socket, for moiety_ipc_receive():
        moiety_ipc_send(). moiety.ipc.send() sends an array."""
    def release_scopes(self) -> None:
        """All graphs that were captured with auto_scope=True are gone: their
        memory serves others once all work that is queued now is over. Error,
        E_BUSY, while another thread does the same."""
    def release_exports(self, address: int, /) -> None:
        """No process has what was exported of that segment open any more; 0: of
        all segments. Then the handles go stale. Error, E_BUSY, while this
        process itself has an import of it."""
    def context_lost(self) -> None: ...
    def close(self) -> int:
        """Destroys the pool with all its memory; blocks that were live, whose
        number is returned, are dead. Again: 0."""
    def _repr_html_(self) -> str: ...
    def __enter__(self) -> "Pool":
        """ValueError when it is closed."""
    def __exit__(self, kind: type[BaseException] | None,
                 error: BaseException | None,
                 trace: TracebackType | None, /) -> None: ...

@final
class SegmentWatch:
    """What Pool.watch_segments() began."""
    is_open: Final[bool]  # False after close(), or the pool's
    def close(self) -> None:
        """Ends it, and tells nothing of the segments that are there. Neither
        function runs any more when this returns. Error, E_BUSY, within a
        function of the pool. Again: nothing happens."""
    def __enter__(self) -> "SegmentWatch": ...
    def __exit__(self, kind: type[BaseException] | None,
                 error: BaseException | None,
                 trace: TracebackType | None, /) -> None: ...

@final
class HostArena:
    """Pinned host memory near a device. Options: moiety_host_options."""
    device: Final[int]
    is_open: Final[bool]
    limit_bytes: Final[int]  # what set_limit() changes
    def __init__(self, device: int = 0, *, context: int | None = 0,
                 policy: str = "nearest",  # caller, explicit, interleave
                 nodes: tuple[int, ...] = (), limit_bytes: int = ...,
                 first_segment_bytes: int = ...,
                 largest_segment_bytes: int = ...,
                 thread_cache_bytes: int = ..., touch_threads: int = ...,
                 wait_ms: int = ..., strict: bool = False,
                 write_combined: bool = False, read_only: bool = False,
                 huge: str = "") -> None:  # "2M", "1G"
        ...
    def alloc(self, nbytes: int, stream: Any = ANY) -> HostBlock: ...
    def allocate(self, nbytes: int, stream: Any = ANY) -> int: ...
    def deallocate(self, address: int, stream: Any = ANY) -> None: ...
    def device_address(self, address: int, /) -> int: ...
    def usable_size(self, address: int, /) -> int: ...
    def owns(self, address: int, /) -> bool: ...
    def record_use(self, address: int, stream: Any) -> None: ...
    def reserve(self, nbytes: int, threads: int = 0,
                progress: Callable[[int, int], None] | None = None) -> None: ...
    def tenant(self, name: str = "", budget_bytes: int = 0, *,
               pausable: bool = False) -> "Tenant":
        """`pausable` is Error, E_UNSUPPORTED: pinned memory is not paused."""
    def stats(self) -> dict[str, Any]:
        """Of the pool, and under "host" those of moiety_host_stats."""
    def report(self) -> str: ...
    def synchronize(self, timeout_ms: int = 4294967295) -> None:
        """As Pool.synchronize()."""
    def trim(self, keep_bytes: int = 0) -> int: ...
    def set_limit(self, limit_bytes: int) -> None:
        """The most that it reserves from now on; 0: as much as it may. What is
        reserved above it goes back as far as nobody uses it. Error,
        E_TOO_LARGE, above 16 times the limit that it was made with."""
    def used_bytes(self) -> int:
        """Bytes of blocks in use."""
    def total_bytes(self) -> int:
        """Bytes that are reserved, used or not."""
    def free_all_blocks(self) -> None:
        """synchronize() and trim(), as CuPy's pools have it; while a graph is
        captured, trim() alone."""
    def reset_peaks(self) -> None:
        """Lets the peaks of stats() begin anew at the current values."""
    def last_oom(self) -> dict[str, Any] | None: ...
    def context_lost(self) -> None: ...
    def close(self) -> int:
        """Nothing is allocated any more, and blocks are dead, whose number is
        returned; but those of which an array or another object has the bytes
        (by __array_interface__ or DLPack) stay as they are, and the arena's
        memory with them, until the last of these objects goes. Again: 0."""
    def _capsule(self) -> Any:
        """The moiety_host* as a capsule "moiety_host": as long as it is there,
        close() raises Error, E_BUSY."""
    def _repr_html_(self) -> str: ...
    def __enter__(self) -> "HostArena":
        """ValueError when it is closed."""
    def __exit__(self, kind: Any, error: Any, trace: Any, /) -> None: ...

@final
class Tenant:
    """A budget in bytes for a part of the program, within a Pool or a HostArena
    that others use too; their tenant() makes it. RMM's LimitingResourceAdaptor
    and CuPy's MemoryPool.set_limit() bound all that goes through an object;
    here allocations that name a tenant are bounded, exactly, whatever threads
    do at a time, and all serve each other from the same caches.

    Threads: any. Its blocks keep it, and it is gone with the last reference;
    what allocate() gave does not: then it ends with its pool.
    """
    name: Final[str]
    pool: Final[Pool | HostArena]
    budget_bytes: int  # 0: any amount; assigned below live_bytes it takes
    # nothing away, but refuses until enough was freed
    is_open: Final[bool]
    is_paused: Final[bool]
    def alloc(self, nbytes: int, stream: Any = ANY) -> Any:
        """A Block of the pool, or a HostBlock of the arena. OutOfMemoryError
        with status "E_BUDGET", at once and without a report, where the budget
        is in the way; another status where the pool has no memory."""
    def allocate(self, nbytes: int, stream: Any = ANY) -> int:
        """An address without an owner, for the pool's deallocate()."""
    def pause(self, keep_contents: bool = False) -> None:
        """Gives its device memory back to the driver; blocks keep their
        addresses. Others may have the memory until resume(). To be called when
        all work that uses it is queued, for which it waits; no more is queued,
        and no graph that uses it launched, before resume(). Meanwhile blocks
        can be freed, and alloc() is Error, E_BUSY.

        keep_contents: they are copied to pinned memory of the host; without it
            they are undefined afterwards.

        Raises Error with the status
            E_UNSUPPORTED  it was not made with pausable=True,
            E_BUSY         it is paused, or another thread does that; a segment
                           of it is held; or work is not over after the pool's
                           wait_ms,
        or OutOfMemoryError where there is no pinned memory for the contents. It
        runs as before then."""
    def resume(self) -> None:
        """Puts memory at its addresses again, and the contents if they were
        kept. Graphs that use it can be launched again.

        Raises OutOfMemoryError, E_NO_DEVICE_MEMORY, while others have the
        memory: it is paused as before, for a later try. Error, E_INVALID, for a
        tenant that is not paused, E_UNSUPPORTED as pause()."""
    def stats(self) -> dict[str, Any]:
        """name, budget_bytes, live_bytes and peak_bytes (what blocks hold, not
        what was asked for), allocation_count, refusal_count."""
    def close(self) -> None:
        """Error, E_BUSY, while it has live blocks. Again: nothing happens."""
    def _capsule(self) -> Any:
        """The moiety_tenant as a capsule "moiety_tenant", in the same way."""
    def _repr_html_(self) -> str: ...
    def __enter__(self) -> "Tenant": ...
    def __exit__(self, kind: Any, error: Any, trace: Any, /) -> None: ...

@final
class _Import:
    """Memory of another process, closed when the last reference goes: what
    moiety.ipc.Import is made of."""
    address: Final[int]  # that the handle names
    is_open: Final[bool]
    stream: int
    def __init__(self, handle: bytes, context: int = 0) -> None: ...
    def close(self, stream: Any = ..., wait: bool = True) -> int:
        """A number for ipc_wait(); 0: it is over."""

@final
class _CuPyAllocator:
    """What moiety.cupy.MemoryPool has its malloc() of. device and stream:
    callables, or the capsules by which CuPy exports them to Cython."""
    is_direct: Final[bool]  # fills CuPy's objects without their constructors
    def __init__(self, find_source: Callable[[int], Pool | Tenant],
                 refuse: Callable[[int, OutOfMemoryError], object],
                 memory_type: Callable[..., Any],
                 pointer_type: Callable[..., Any], device: Any,
                 stream: Any) -> None: ...
    def malloc(self, size: int, /) -> Any: ...

def version() -> str: ...
def probe(device: int = 0) -> dict[str, Any]:
    """moiety_caps: what the driver and the device are and can do."""
def topology(json: bool = False) -> str:
    """moiety_host_topology(): nodes, GPUs, and what is used for what."""
def pin(address: int, nbytes: int) -> None:
    """Pins the caller's memory, counted: moiety_host_pin(). A context must be
    current."""
def unpin(address: int, nbytes: int) -> None: ...
def ipc_wait(closing: int, timeout_ms: int = 1000) -> None:
    """Until the close with that number is over; Error, E_BUSY, after the
    time."""
def ipc_trim(keep_count: int = 0) -> int:
    """Gives back segments of others that no import uses, but for so many; how
    many are open afterwards."""
def _ipc_receive(socket: int, context: int, /) -> tuple[_Import, bytes]:
    """moiety_ipc_receive(): the memory, and the moiety_ipc_handle of it."""
def expose_start(path: str | os.PathLike[str], /) -> None:
    """moiety_expose_start(): other programs of this user may look at the pools
    through a Unix socket."""
def expose_stop() -> None:
    """moiety_expose_stop(): nobody may any more, and the socket is gone."""
def pool_of(address: int, /) -> Pool | None:
    """The Pool that has the address, used or not; None where no pool has.

    Also one that another part of the program has made, in C or for PyTorch
    (moiety.torch): it is used as any other, and blocks of both sides share its
    limit. Its close() is Error, E_UNSUPPORTED, and it must not be used when its
    maker has ended it. Pools of host memory, and of a source of the program's,
    are not told of."""
def _dlpack_make(owner: Any, address: int, device: tuple[int, int],
                 dtype: tuple[int, int], shape: tuple[int, ...],
                 strides: tuple[int, ...] | None,
                 max_version: tuple[int, int] | None, is_readonly: bool,
                 /) -> Any:
    """A DLPack capsule that keeps the owner. dtype: code and bits; strides in
    elements."""
def _dlpack_read(capsule: Any, /) -> tuple[
        int, tuple[int, int], tuple[int, int, int], tuple[int, ...],
        tuple[int, ...] | None, bool]:
    """(address, device, dtype, shape, strides, is_readonly), which the capsule
    keeps."""
def _default_pool(device: int, /) -> Pool:
    """The Pool of moiety_default_pool(), which all of the process shares; borrowed,
    as those of pool_of()."""
def _check_options(device: int = 0, **options: Any) -> None:
    """Raises what Pool() would for its options, and makes none."""
def _note_refusal(error: BaseException, object: Any, refusal: Error,
                  /) -> None:
    """For __exit__(): the refusal becomes a note of the program's error."""
def capture_guard_begin() -> None:
    """Until the end that belongs to it, no pool of the process asks when all
    work is over, which would break a capture. Counted."""
def capture_guard_end() -> None:
    """Error, E_INVALID, if no guard is held."""
