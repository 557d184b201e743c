# SPDX-License-Identifier: Apache-2.0
"""moiety.torch.load_once(): a module whose tensors are in a region."""

import contextlib
import time

from moiety import _native
from moiety._torch import layout as _layout

# A region that exists while a process loads: it has the lease of that process.
_CLAIM = "#loading"
_CLAIM_NBYTES = 2 << 20
_TURN_S = 0.02
# What nn.Module itself keeps in an instance.
_OWN = frozenset(("_parameters", "_buffers", "_modules"))


class _Slot:
    """Where a module has a tensor: by a name, as a parameter, buffer or attribute."""

    def __init__(self, name, kind, slots, leaf):
        self.name, self.kind = name, kind
        self._slots, self._leaf = slots, leaf

    def get(self):
        return self._slots[self._leaf]

    def set(self, tensor):
        self._slots[self._leaf] = tensor


def _contained(value):
    if isinstance(value, dict):
        return list(value.values())
    return list(value) if isinstance(value, (list, tuple, set)) else []


def _slots_of(torch, module):
    """All slots of a module. Raises ValueError for tensors that are in lists and
    the like, where none can be put."""
    slots, hidden = [], []
    for prefix, owner in module.named_modules():
        start = f"{prefix}." if prefix else ""
        own = {leaf: value for leaf, value in vars(owner).items()
               if leaf not in _OWN}
        for kind, where in (("parameter", owner._parameters),
                            ("buffer", owner._buffers), ("attribute", own)):
            slots += [_Slot(start + leaf, kind, vars(owner) if where is own
                            else where, leaf)
                      for leaf, value in where.items()
                      if isinstance(value, torch.Tensor)]
        hidden += [start + leaf for leaf, value in own.items()
                   if any(isinstance(one, torch.Tensor)
                          for one in _contained(value))]
    if hidden:
        raise ValueError("the module has tensors within lists, tuples or dicts, "
                         f"which load_once() cannot share: {', '.join(hidden[:5])}")
    return slots


def _check(torch, slot, is_meta):
    tensor = slot.get()
    reason = (
        f"is a {type(tensor).__name__}"
        if type(tensor) not in (torch.Tensor, torch.nn.Parameter) else
        f"is {tensor.layout}" if tensor.layout != torch.strided else
        "is quantized" if tensor.is_quantized else
        "is a lazy conjugate or negative" if tensor.is_conj() or tensor.is_neg() else
        "has no data: it is on the device \"meta\""
        if tensor.is_meta and not is_meta else None)
    if reason:
        raise ValueError(f"load_once() cannot share {slot.name}: it {reason}")


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


def _view(torch, memory, layout, described):
    """A tensor of a layout, in the region's bytes."""
    _, storage, dtype, offset, shape, strides = described
    dtype = getattr(torch, dtype)
    begin, size = layout["storages"][storage]
    size -= size % dtype.itemsize
    typed = memory[begin:begin + size].view(dtype)
    return typed.as_strided(shape, strides, typed.storage_offset() + offset)


def _put(torch, module, memory, layout):
    """Puts the region's tensors into a module."""
    slots = {slot.name: slot for slot in _slots_of(torch, module)}
    for described in layout["tensors"]:
        tensor = _view(torch, memory, layout, described)
        if any(kind == "parameter" for _, kind in described[0]):
            tensor = torch.nn.Parameter(tensor, requires_grad=False)
        for name, _ in described[0]:
            vars(tensor).update(vars(slots[name].get()))
            slots[name].set(tensor)


def _itemsize_of(torch, name):
    dtype = getattr(torch, name)
    if not isinstance(dtype, torch.dtype):
        raise ValueError(name)
    return dtype.itemsize


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
            with contextlib.suppress(_native.InUseError):
                if region := self.open():
                    return region, None
                claim = self.keeper.create(self.name + _CLAIM,
                                           {self.device.index: _CLAIM_NBYTES})
                # Another process may have had the claim before, and be done.
                try:
                    region = self.open()
                except BaseException:
                    claim.close()
                    raise
                if region:
                    claim.close()
                return region, None if region else claim
            if self.deadline is not None and time.monotonic() >= self.deadline:
                raise _native._error_for(
                    "E_TIMEOUT", f"another process loads {self.name!r}, or writes "
                    "that region, for longer than limit_s")
            time.sleep(_TURN_S)

    def write(self):
        """Makes the module, and the region from it."""
        module = self.load().eval().requires_grad_(False)
        slots = _slots_of(self.torch, module)
        for slot in slots:
            _check(self.torch, slot, False)
        storages, tensors = _described(slots)
        places, nbytes = _layout.placed([one.nbytes() for one in storages])
        text = _layout.encoded(self.key, places, nbytes, tensors)
        region = self.keeper.create(
            self.name, {self.device.index: max(nbytes, _layout.ALIGNMENT)})
        try:
            memory = self.torch.from_dlpack(
                region.parts[self.device.index])
            for (begin, size), storage in zip(places, storages):
                source = self.torch.empty(0, dtype=self.torch.uint8,
                                          device=storage.device)
                memory[begin:begin + size].copy_(source.set_(storage))
            self.torch.cuda.synchronize(self.device)
            region.commit(text)
        except BaseException:
            self.torch.cuda.synchronize(self.device)
            region.close()
            raise
        _put(self.torch, module, memory, {"storages": places, "tensors": tensors})
        return module

    def read(self, region):
        """Makes the module without its tensors, and fills it."""
        torch = self.torch
        part = region.parts[self.device.index]
        layout = _layout.decoded(region.layout, part.nbytes,
                                 lambda name: _itemsize_of(torch, name))
        if layout["key"] != self.key:
            raise ValueError(f"the region {self.name!r} was made with the key "
                             f"{layout['key']!r}, and not {self.key!r}")
        with torch.device("meta"):
            module = self.skeleton()
        module = module.eval().requires_grad_(False)
        slots = _slots_of(torch, module)
        for slot in slots:
            _check(torch, slot, True)
        wrong = _layout.difference(
            {slot.name: (slot.kind, tuple(slot.get().shape)) for slot in slots},
            _layout.named(layout))
        if wrong:
            raise ValueError(f"the region {self.name!r} has another module: {wrong}")
        _put(torch, module, torch.from_dlpack(part), layout)
        return module


def load_once(torch, keeper, name, load, skeleton, key, device, limit_s):
    call = _Call(torch, keeper, name, load, skeleton, key, device, limit_s)
    region, claim = call.claim()
    if claim:
        with claim:
            return call.write()
    try:
        return call.read(region)
    except BaseException:
        region.close()
        raise
