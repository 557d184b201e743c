# SPDX-License-Identifier: Apache-2.0
"""Device memory that outlives the processes that made it.

    moiety serve --socket=/run/user/1000/moiety      # once, in a shell

    # The process that loads weights
    with moiety.regions.connect("/run/user/1000/moiety") as keeper:
        region = keeper.create("weights", {0: 4 << 30})   # bytes of each device
        array = cupy.asarray(region.parts[0])             # or torch.from_dlpack()
        ...                                               # write it
        stream.synchronize()
        region.commit(b"what readers need to know")

    # Any other process, also after the end of the first
    with moiety.regions.connect("/run/user/1000/moiety") as keeper:
        region = keeper.open("weights")
        array = cupy.asarray(region.parts[0])             # to read

The keeper, the program moiety-serve, holds the memory and never calls the driver.

**A writer** has the region to itself until commit(). If it ends or closes the region
before that, the region goes. From commit() on, its own mapping is for reading.

**A reader** is trusted. A kernel that writes its mapping is an illegal address, which
costs the process its context. Copies are the reader's affair.

**Close a region** when no work and no array uses it: its addresses are unmapped. A
process that ends closes its regions.

Sizes are in bytes. Threads: any; one call at a time waits for the keeper. A call waits
about ten seconds at most. In the child of a fork, all calls raise ForkedError.

Raises PeerGoneError if no keeper answers, TimedOutError if it does not answer in time,
or other errors by their `status`."""

import contextlib
import ctypes
import os
import threading
from pathlib import Path
from typing import NamedTuple

from moiety import _native
from moiety._support import driver as _driver

__all__ = ["Entry", "Keeper", "Part", "Region", "connect"]

_WRITE = 1
_NAME_BYTES = 256
_PIDS = 16
# Of DLPack: the kind of device, and the type of an element.
_CUDA = 2
_BYTES = (1, 8)
_STATES = {1: "writing", 2: "committed", 3: "fenced", 4: "dropped",
           5: "quarantined"}


class _KeeperOptions(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_uint32), ("flags", ctypes.c_uint32),
                ("path", ctypes.c_char_p)]


class _Part(ctypes.Structure):
    _fields_ = [("context", ctypes.c_void_p), ("want_address", ctypes.c_uint64),
                ("size_bytes", ctypes.c_uint64), ("device", ctypes.c_int32),
                ("reserved", ctypes.c_uint32)]


class _Options(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_uint32), ("flags", ctypes.c_uint32),
                ("name", ctypes.c_char_p), ("parts", ctypes.POINTER(_Part)),
                ("part_count", ctypes.c_uint32), ("reserved", ctypes.c_uint32),
                ("handle_bytes", ctypes.c_uint64)]


class _Info(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_uint32), ("state", ctypes.c_uint32),
                ("generation", ctypes.c_uint64), ("address", ctypes.c_uint64),
                ("size_bytes", ctypes.c_uint64), ("handle_bytes", ctypes.c_uint64),
                ("device_uuid", ctypes.c_uint8 * 16), ("layout", ctypes.c_void_p),
                ("layout_bytes", ctypes.c_uint64), ("part_count", ctypes.c_uint32),
                ("reserved", ctypes.c_uint32)]


class _Entry(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_uint32), ("state", ctypes.c_uint32),
                ("id", ctypes.c_uint64), ("generation", ctypes.c_uint64),
                ("size_bytes", ctypes.c_uint64), ("layout_bytes", ctypes.c_uint64),
                ("part_count", ctypes.c_uint32), ("hold_count", ctypes.c_uint32),
                ("writer_pid", ctypes.c_uint32), ("reserved", ctypes.c_uint32),
                ("hold_pids", ctypes.c_uint32 * _PIDS),
                ("name", ctypes.c_char * _NAME_BYTES)]


_POINTER = ctypes.c_void_p
_library = ctypes.CDLL(str(Path(_native.__file__).with_name("libmoiety.so.0")))
for _name, _types in {
        "moiety_keeper_connect": (ctypes.POINTER(_KeeperOptions),
                                  ctypes.POINTER(_POINTER)),
        "moiety_keeper_disconnect": (_POINTER,),
        "moiety_keeper_drop": (_POINTER, ctypes.c_char_p),
        "moiety_keeper_list": (_POINTER, ctypes.c_uint64, ctypes.POINTER(_Entry)),
        "moiety_region_create": (_POINTER, ctypes.POINTER(_Options),
                                 ctypes.POINTER(_POINTER)),
        "moiety_region_open": (_POINTER, ctypes.POINTER(_Options),
                               ctypes.POINTER(_POINTER)),
        "moiety_region_commit": (_POINTER, ctypes.c_char_p, ctypes.c_size_t),
        "moiety_region_get_info": (_POINTER, ctypes.c_uint32,
                                   ctypes.POINTER(_Info)),
        "moiety_region_close": (_POINTER,)}.items():
    getattr(_library, _name).argtypes = _types
_library.moiety_status_name.restype = ctypes.c_char_p
_library.moiety_last_error_message.restype = ctypes.c_char_p


def _call(name, *arguments):
    status = getattr(_library, name)(*arguments)
    if status:
        word = _library.moiety_status_name(status).decode()
        text = _library.moiety_last_error_message().decode(errors="replace")
        raise _native._error_for(word.removeprefix("MOIETY_"), text)


def _sized(kind):
    return kind(struct_size=ctypes.sizeof(kind))


def _name_bytes(name):
    """The C function refuses what is too long; it cannot see what follows a 0."""
    text = os.fsencode(name)
    if b"\0" in text:
        raise ValueError("a region's name has a zero byte")
    return text


def _release(devices):
    while devices:
        _driver.release_primary(devices.pop())


class Entry(NamedTuple):
    """A region that a keeper has. Fields:

    name          its name.
    state         "writing", "committed", "fenced" (its writer is ending) or "dropped"
                  (it has no name any more, and goes when no process holds it). Or
                  "quarantined": two processes could not map it, so none can open it.
    generation    commits so far.
    nbytes        bytes of all parts.
    layout_bytes  bytes of the layout.
    parts         number of parts.
    holders       leases of processes that have it open, the writer's included.
    writer        the process that writes it, or None.
    pids          processes that have it open, the latest first, at most 16. Those that
                  the keeper cannot see, as in other containers, are left out."""

    name: str
    state: str
    generation: int
    nbytes: int
    layout_bytes: int
    parts: int
    holders: int
    writer: int | None
    pids: tuple[int, ...] = ()


class Part:
    """A region's memory on one device, as bytes, with __cuda_array_interface__ and
    DLPack. PyTorch takes what is read-only by DLPack alone. It keeps its Region.
    Attributes: `device`, `address`, `nbytes`, `is_readonly`."""

    def __init__(self, region, device, address, nbytes):
        self._region = region
        self.device = device
        self.address = address
        self.nbytes = nbytes

    @property
    def is_readonly(self):
        """Whether this process does not write the region, or no longer."""
        return not self._region.is_writer

    def _check_open(self):
        if not self._region.is_open:
            raise _native._error_for("E_CLOSED", "the region is closed")

    @property
    def __cuda_array_interface__(self):
        self._check_open()
        return {"shape": (self.nbytes,), "typestr": "|u1", "version": 3,
                "data": (self.address, self.is_readonly), "strides": None,
                "stream": None}

    def __dlpack_device__(self):
        return _CUDA, self.device

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None,
                   copy=None):
        if dl_device not in (None, self.__dlpack_device__()):
            raise BufferError("the memory is on another device")
        if copy:
            raise BufferError("a region is never copied")
        self._check_open()
        return _native._dlpack_make(
            self, self.address, self.__dlpack_device__(), _BYTES, (self.nbytes,),
            None, max_version, self.is_readonly)

    def __repr__(self):
        return (f"<moiety.regions.Part of {self.nbytes} bytes at "
                f"{self.address:#x} on device {self.device}>")


class Region:
    """A region that this process has created or opened, by Keeper.create() or
    Keeper.open(). Attributes:

    name        its name.
    generation  commits so far.
    layout      the bytes of the last commit, or None.
    parts       a dict with a Part for each device by which it was created or opened.
    is_writer   whether this process writes it.
    is_open     whether close() was not called."""

    def __init__(self, keeper, name, handle, devices, is_writer):
        self._keeper = keeper
        self._handle = handle
        self._devices = devices
        self.name = name
        self.is_writer = is_writer
        self.generation = 0
        self.layout = None
        self.parts = {}

    @property
    def is_open(self):
        """Whether close() was not called."""
        return self._handle is not None

    def _info_of(self, part):
        info = _sized(_Info)
        _call("moiety_region_get_info", self._handle, part, ctypes.byref(info))
        return info

    def _read(self):
        """What a commit changes."""
        info = self._info_of(0)
        self.generation = info.generation
        self.layout = ctypes.string_at(info.layout, info.layout_bytes) \
            if info.layout else None

    def _find_parts(self):
        """Those that are mapped here. The order is that of the region's maker."""
        devices = {_native.probe(device)["uuid"]: device
                   for device in self._devices}
        for part in range(self._info_of(0).part_count):
            info = self._info_of(part)
            if info.address:
                device = devices[bytes(info.device_uuid)]
                self.parts[device] = Part(self, device, info.address,
                                          info.size_bytes)

    def commit(self, layout=None):
        """Publishes what was written, as the next generation: other processes can open
        the region.

        layout  at most 1 MiB of bytes for readers, copied.

        All work that writes the region is over. Raises Error, with the status E_INVALID,
        if this process does not write it, or if the layout is too long. After
        PeerGoneError and TimedOutError the region may be published: call again."""
        text = bytes(layout or b"") or None
        with self._keeper._lock:
            if self._handle is None:
                raise _native._error_for("E_CLOSED", "the region is closed")
            _call("moiety_region_commit", self._handle, text, len(text or b""))
            self.is_writer = False
            self._read()

    def close(self):
        """Unmaps the region, and ends this process's lease of it. The memory stays with
        the keeper, unless the region was being written or was dropped. A second call
        does nothing. All work that uses the region is over."""
        with self._keeper._lock:
            if self._handle is None:
                return
            try:
                _call("moiety_region_close", self._handle)
            except (_native.PeerGoneError, _native.TimedOutError):
                pass  # closed here; its lease ends with the process
            self._handle = None
            self._keeper._regions.discard(self)
            _release(self._devices)

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        self.close()

    def __repr__(self):
        what = "closed" if not self.is_open else \
            "being written" if self.is_writer else "open"
        return f"<moiety.regions.Region {self.name!r}, {what}>"


class Keeper:
    """A connection to a keeper, by connect(). Attribute: `path`."""

    def __init__(self, path):
        self.path = os.fsdecode(path)
        self._lock = threading.Lock()
        self._regions = set()
        self._handle = _POINTER()
        options = _sized(_KeeperOptions)
        options.path = os.fsencode(path)
        _call("moiety_keeper_connect", ctypes.byref(options),
              ctypes.byref(self._handle))

    def create(self, name, sizes, *, handle_nbytes=0):
        """Makes a region and returns it; this process writes it until Region.commit().

        name           1 to 255 bytes without "/" and zero bytes.
        sizes          {device: bytes}, 1 to 16 devices; bytes are rounded up to a
                       multiple of 2 MiB. The memory has undefined contents.
        handle_nbytes  bytes of a piece of memory, each a file descriptor of the
                       keeper, a multiple of 2 MiB; 0: 1 GiB.

        Raises InUseError if there is such a region. Raises BudgetExceededError above the
        keeper's limit, if it has 1 024 regions, or if it is drained. Raises
        OutOfMemoryError, UnsupportedError for a device that exports no memory, or Error
        with the status E_INVALID. Nothing is kept then."""
        sizes = {device: _native._bytes_of("sizes", size)
                 for device, size in sizes.items()}
        return self._make("moiety_region_create", name, sizes, 0,
                          _native._bytes_of("handle_nbytes", handle_nbytes))

    def open(self, name, devices=(0,), *, write=False):
        """Opens a committed region and returns it.

        devices  those on which this process uses it: their parts are mapped.
        write    makes this process the writer. No process may have it open, this one
                 included. The region is to be committed again, and goes if the process
                 ends or closes it before that.

        Raises KeyError if there is no such region, and InUseError if a process writes
        it, or with `write` if one has it open. Raises Error with the status E_INVALID
        for a device on which it has no part."""
        return self._make("moiety_region_open", name,
                          dict.fromkeys(devices, 0), _WRITE if write else 0, 0)

    def drop(self, name):
        """Takes a region's name away; its memory goes when no process has it open. Raises
        KeyError if there is no such region, and InUseError if a process writes it."""
        with self._locked():
            self._named("moiety_keeper_drop", self._handle, _name_bytes(name))

    def entries(self):
        """Returns an Entry for each region of the keeper, the oldest first."""
        entries, entry = [], _sized(_Entry)
        with self._locked():
            while True:
                try:
                    _call("moiety_keeper_list", self._handle, entry.id,
                          ctypes.byref(entry))
                except _native.PeerGoneError as error:
                    if error.status == "E_STALE":
                        return entries
                    raise
                entries.append(Entry(
                    os.fsdecode(entry.name), _STATES.get(entry.state, "unknown"),
                    entry.generation, entry.size_bytes, entry.layout_bytes,
                    entry.part_count, entry.hold_count, entry.writer_pid or None,
                    tuple(pid for pid in entry.hold_pids if pid)))

    def close(self):
        """Closes its regions, and the connection. A second call does nothing."""
        for region in list(self._regions):
            region.close()
        with self._lock:
            if self._handle:
                _call("moiety_keeper_disconnect", self._handle)
                self._handle = None

    @contextlib.contextmanager
    def _locked(self):
        with self._lock:
            if not self._handle:
                raise _native._error_for("E_CLOSED", "the keeper is closed")
            yield

    @staticmethod
    def _named(*call):
        try:
            _call(*call)
        except _native.PeerGoneError as error:
            if error.status != "E_STALE":
                raise
            raise KeyError(str(error)) from None

    def _make(self, function, name, sizes, flags, handle_nbytes):
        parts = (_Part * len(sizes))()
        handle, devices = _POINTER(), []
        text = _name_bytes(name)
        options = _Options(ctypes.sizeof(_Options), flags, text, parts, len(sizes),
                           0, handle_nbytes)
        with self._locked():
            try:
                for part, (device, size) in zip(parts, sizes.items()):
                    part.context = _driver.retain_primary(device)
                    devices.append(device)
                    part.device, part.size_bytes = device, size
                self._named(function, self._handle, ctypes.byref(options),
                            ctypes.byref(handle))
            except BaseException:
                _release(devices)
                raise
            region = Region(self, os.fsdecode(text), handle, devices,
                            function == "moiety_region_create" or bool(flags))
            self._regions.add(region)
        try:
            with self._locked():
                region._read()
                region._find_parts()
        except BaseException:
            region.close()
            raise
        return region

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        self.close()

    def __repr__(self):
        return f"<moiety.regions.Keeper at {self.path!r}>"


def connect(path):
    """Returns a Keeper, connected to the program that `moiety serve` has started.

    path  of its socket, at most 107 bytes.

    Raises PeerGoneError if none answers, or one of another user."""
    return Keeper(path)
