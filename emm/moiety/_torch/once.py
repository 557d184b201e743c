# SPDX-License-Identifier: Apache-2.0
"""moiety.torch.load_once(): a module whose tensors are in a region."""

import collections
import contextlib
import dataclasses
import time

from moiety import _native, regions
from moiety._support import driver as _driver
from moiety._torch import layout as _layout

# A region that exists while a process loads: it has the lease of that process.
_CLAIM = "#loading"
_CLAIM_NBYTES = 2 << 20
_TURN_S = 0.02
# Attributes in which nn.Module keeps all the others.
_OWN = frozenset(("_parameters", "_buffers", "_modules"))
_SEQUENCES = (list, tuple, set, frozenset, collections.deque)


class _Slot:
    """Where a module has a tensor: by a name, as a parameter, buffer or attribute."""

    def __init__(self, name, kind, slots, leaf):
        self.name, self.kind = name, kind
        self._slots, self._leaf = slots, leaf

    def get(self):
        return self._slots[self._leaf]

    def set(self, tensor):
        self._slots[self._leaf] = tensor


def _inside(value):
    """The members of a container."""
    if isinstance(value, dict):
        return list(value.values())
    if isinstance(value, _SEQUENCES):
        return list(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [getattr(value, field.name, None)
                for field in dataclasses.fields(value)]
    return []


def _hides(torch, value, known):
    """Whether a container has, at any depth, a tensor, or a module that is not one of
    the known ones."""
    found, seen = _inside(value), set()
    while found:
        one = found.pop()
        if isinstance(one, torch.Tensor) or (
                isinstance(one, torch.nn.Module) and id(one) not in known):
            return True
        if id(one) not in seen:
            seen.add(id(one))
            found += _inside(one)
    return False


def _is_flat(torch, owner, leaf):
    """Whether it is the list in which a recurrent layer repeats its parameters."""
    return isinstance(owner, torch.nn.RNNBase) and leaf == "_flat_weights"


def _slots_of(torch, module):
    """All slots of a module. Raises ValueError for tensors that are in lists and
    the like, where none can be put."""
    slots, hidden = [], []
    known = {id(owner) for owner in module.modules()}
    for prefix, owner in module.named_modules():
        start = f"{prefix}." if prefix else ""
        own = {leaf: value for leaf, value in vars(owner).items()
               if leaf not in _OWN and not _is_flat(torch, owner, leaf)}
        for kind, where in (("parameter", owner._parameters),
                            ("buffer", owner._buffers), ("attribute", own)):
            slots += [_Slot(start + leaf,
                            "parameter" if isinstance(value, torch.nn.Parameter)
                            else kind, vars(owner) if where is own else where, leaf)
                      for leaf, value in where.items()
                      if isinstance(value, torch.Tensor)]
        hidden += [start + leaf for leaf, value in own.items()
                   if not isinstance(value, torch.Tensor)
                   and _hides(torch, [value], known)]
    if hidden:
        raise ValueError("the module has tensors within lists, dicts or the like, "
                         f"which load_once() cannot share: {', '.join(hidden[:5])}")
    return slots


def _fault(torch, tensor, is_meta):
    """Why a tensor cannot be shared, or None. A skeleton's are on "meta"."""
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter):
        return f"is a {type(tensor).__name__}"
    if tensor.layout != torch.strided:
        return f"is {tensor.layout}"
    if tensor.is_nested:
        return "is nested"
    if tensor.is_quantized:
        return "is quantized"
    if tensor.is_conj() or tensor.is_neg():
        return "is a lazy conjugate or negative"
    if _hides(torch, vars(tensor), ()):
        return "has attributes with tensors"
    if is_meta:
        return None
    if tensor.is_meta:
        return "has no data: it is on the device \"meta\""
    if not _layout.is_in(tensor.untyped_storage().nbytes(), tensor.element_size(),
                         tensor.storage_offset(), tensor.shape, tensor.stride()):
        return "has a storage that is smaller than its shape says"
    return None


def _checked_slots(torch, module, is_meta=False):
    """All slots of a module, whose tensors can be shared. Raises ValueError."""
    slots = _slots_of(torch, module)
    for slot in slots:
        if fault := _fault(torch, slot.get(), is_meta):
            raise ValueError(f"load_once() cannot share {slot.name}: it {fault}")
    return slots


def _dtype_name(tensor):
    return str(tensor.dtype).removeprefix("torch.")


def _described(slots):
    """The storages of the tensors, once each, and the tensors for a layout."""
    storages, numbers, tensors = [], {}, {}
    for slot in slots:
        tensor = slot.get()
        storage = tensor.untyped_storage()
        if storage._cdata not in numbers:
            numbers[storage._cdata] = len(storages)
            storages.append(storage)
        tensors.setdefault(id(tensor), [
            [], numbers[storage._cdata], _dtype_name(tensor),
            tensor.storage_offset(), list(tensor.shape), list(tensor.stride())]
        )[0].append([slot.name, slot.kind])
    return storages, list(tensors.values())


def _memories(torch, part, places):
    """The bytes of each storage in a region, as tensors with a storage of their
    own."""
    return [torch.from_dlpack(regions.Part(
        part._region, part.device, part.address + begin, nbytes)) if nbytes else
        torch.empty(0, dtype=torch.uint8, device=f"cuda:{part.device}")
        for begin, nbytes in places]


def _view(torch, memories, described):
    """A tensor of a layout."""
    _, storage, dtype, offset, shape, strides = described
    dtype = getattr(torch, dtype)
    memory = memories[storage]
    whole = memory.numel() - memory.numel() % dtype.itemsize
    return memory[:whole].view(dtype).as_strided(shape, strides, offset)


def _put(torch, module, slots, memories, tensors):
    """Puts the region's tensors into the slots of a module."""
    slots = {slot.name: slot for slot in slots}
    for described in tensors:
        tensor = _view(torch, memories, described)
        if any(kind == "parameter" for _, kind in described[0]):
            tensor = torch.nn.Parameter(tensor, requires_grad=False)
        for name, _ in described[0]:
            vars(tensor).update(vars(slots[name].get()))
            slots[name].set(tensor)
    for owner in module.modules():
        if isinstance(owner, torch.nn.RNNBase):
            owner._flat_weights = [getattr(owner, name, None)
                                   for name in owner._flat_weights_names]


# --- the first process, and the others ---

class _Call:
    """A call of load_once(). `load` and `skeleton` make the module."""

    def __init__(self, torch, keeper, name, load, skeleton, key, device, limit_s):
        self.torch, self.keeper, self.name, self.key = torch, keeper, name, key
        self.load, self.skeleton = load, skeleton or load
        self.device = torch.device("cuda", device)
        self.deadline = None if limit_s is None else time.monotonic() + limit_s

    def open(self):
        """The region; None if there is none yet."""
        try:
            return self.keeper.open(self.name, (self.device.index,))
        except KeyError:
            return None

    def claim(self):
        """The region, and None; or None, and the claim to make it. Waits for the
        process that has the claim."""
        while True:
            try:
                if region := self.open():
                    return region, None
                claim = self.keeper.create(self.name + _CLAIM,
                                           {self.device.index: _CLAIM_NBYTES})
            except _native.InUseError as error:
                reason = error
            else:
                # Another process may have had the claim before, and be done.
                try:
                    region = self.open()
                    if not region:
                        return None, claim
                    self.close(claim)
                    return region, None
                except _native.InUseError as error:
                    self.close(claim)
                    reason = error
                except BaseException:
                    self.close(claim)
                    raise
            if self.deadline is not None and time.monotonic() >= self.deadline:
                raise _native._error_for(
                    "E_TIMEOUT", f"another process loads {self.name!r} for longer "
                    f"than limit_s: {reason}")
            time.sleep(_TURN_S)

    @staticmethod
    def close(region):
        """If that fails, its lease ends with the process."""
        with contextlib.suppress(_native.Error):
            region.close()

    def fill(self, memories, storages):
        """Copies each storage, when the work that fills it is over; the host is
        between two devices."""
        torch = self.torch
        for device in {one.device for one in storages}:
            if device.type == "cuda":
                torch.cuda.synchronize(device)
        for memory, storage in zip(memories, storages):
            is_elsewhere = storage.device.type == "cuda" and \
                storage.device != self.device
            source = storage.cpu() if is_elsewhere else storage
            memory.copy_(torch.empty(0, dtype=torch.uint8,
                                     device=source.device).set_(source))
        torch.cuda.synchronize(self.device)

    @staticmethod
    def commit(region, text):
        """Without an answer, the region may be committed: once more tells."""
        try:
            region.commit(text)
        except (_native.PeerGoneError, _native.TimedOutError):
            region.commit(text)

    def write(self):
        """Makes the module, and the region from it."""
        module = self.load().eval().requires_grad_(False)
        slots = _checked_slots(self.torch, module)
        storages, tensors = _described(slots)
        places, nbytes = _layout.placed([one.nbytes() for one in storages])
        text = _layout.encoded(self.key, places, nbytes, tensors)
        region = self.keeper.create(
            self.name, {self.device.index: max(nbytes, _layout.ALIGNMENT)})
        try:
            memories = _memories(self.torch, region.parts[self.device.index], places)
            self.fill(memories, storages)
            _put(self.torch, module, slots, memories, tensors)
            self.commit(region, text)
        except BaseException:
            with contextlib.suppress(Exception):
                self.torch.cuda.synchronize(self.device)
            self.close(region)
            raise
        return module

    def itemsize_of(self, name):
        dtype = getattr(self.torch, name)
        if not isinstance(dtype, self.torch.dtype):
            raise ValueError(name)
        return dtype.itemsize

    def bare(self):
        """The module without its tensors."""
        try:
            with self.torch.device("meta"):
                return self.skeleton().eval().requires_grad_(False)
        except Exception as error:
            raise ValueError(
                "the module cannot be made without its weights: load_once() calls "
                "`skeleton`, or `load` if there is none, within "
                "torch.device(\"meta\")") from error

    def read(self, region):
        """Makes the module without its tensors, and fills it."""
        part = region.parts[self.device.index]
        layout = _layout.decoded(region.layout, part.nbytes, self.itemsize_of)
        if layout["key"] != self.key:
            raise ValueError(f"the region {self.name!r} was made with the key "
                             f"{layout['key']!r}, and not {self.key!r}")
        module = self.bare()
        slots = _checked_slots(self.torch, module, is_meta=True)
        wrong = _layout.difference(
            {slot.name: (slot.kind, tuple(slot.get().shape)) for slot in slots},
            _layout.named(layout))
        if wrong:
            raise ValueError(f"the region {self.name!r} has another module: {wrong}")
        _put(self.torch, module, slots,
             _memories(self.torch, part, layout["storages"]), layout["tensors"])
        return module

    def run(self):
        region, claim = self.claim()
        if claim:
            try:
                return self.write()
            finally:
                self.close(claim)
        try:
            return self.read(region)
        except BaseException:
            self.close(region)
            raise


def load_once(torch, keeper, name, load, skeleton, key, device, limit_s):
    if name.endswith(_CLAIM):
        raise ValueError(f"name={name!r}: names that end in {_CLAIM!r} are "
                         "load_once()'s own")
    # So that no turn of a process that waits makes a context and destroys it.
    _driver.retain_primary(device)
    try:
        return _Call(torch, keeper, name, load, skeleton, key, device,
                     limit_s).run()
    finally:
        with contextlib.suppress(_native.Error):
            _driver.release_primary(device)
