# SPDX-License-Identifier: Apache-2.0
"""What a region's layout says of the tensors in it: JSON, compressed. A layout:

    {"version": 1, "key": text, "nbytes": of all storages,
     "storages": [[offset in the region, nbytes], ...],
     "tensors": [[[name, kind], ...], storage, dtype, offset, shape, strides], ...]}

One tensor may have several names, and several tensors may share a storage. Offsets
of storages are in bytes; those of tensors and strides are in elements."""

import json
import zlib

VERSION = 1
# Of a storage in the region: what PyTorch's own allocators keep.
ALIGNMENT = 512
# Of a layout, at most (moiety/region.h).
NBYTES = 1 << 20


def placed(sizes):
    """[offset, nbytes] of each storage, one behind the other, and the end of all."""
    end, storages = 0, []
    for size in sizes:
        storages.append([end, size])
        end += -(-size // ALIGNMENT) * ALIGNMENT
    return storages, end


def encoded(key, storages, nbytes, tensors):
    """The bytes of a layout. Raises ValueError if they are too many for a region."""
    text = zlib.compress(json.dumps(
        {"version": VERSION, "key": key, "nbytes": nbytes, "storages": storages,
         "tensors": tensors}, separators=(",", ":")).encode(), 9)
    if len(text) > NBYTES:
        raise ValueError(f"the names of {len(tensors)} tensors take {len(text)} "
                         f"bytes, compressed: accepted are {NBYTES}")
    return text


def _has_whole_numbers(*values):
    return all(type(value) is int and value >= 0 for value in values)


def _last_element(shape, strides):
    return sum((size - 1) * stride for size, stride in zip(shape, strides))


def is_in(nbytes, itemsize, offset, shape, strides):
    """Whether all elements of a tensor are in a storage of so many bytes."""
    end = offset + _last_element(shape, strides) + 1
    return 0 in shape or end * itemsize <= nbytes


def _is_tensor_in(storage, dtype, offset, shape, strides, itemsize_of):
    return _has_whole_numbers(offset, *shape, *strides) and \
        len(shape) == len(strides) and \
        is_in(storage[1], itemsize_of(dtype), offset, shape, strides)


def _is_sound(layout, nbytes, itemsize_of):
    """Also raises an error of any kind for a layout that is not."""
    end, storages = layout["nbytes"], layout["storages"]
    return _has_whole_numbers(end) and end <= nbytes and \
        isinstance(layout["key"], str) and \
        all(_has_whole_numbers(offset, size) and offset % ALIGNMENT == 0
            and offset + size <= end for offset, size in storages) and \
        all(names and _has_whole_numbers(storage)
            and all(isinstance(word, str) for pair in names for word in pair)
            and _is_tensor_in(storages[storage], *tensor, itemsize_of)
            for names, storage, *tensor in layout["tensors"])


def decoded(text, nbytes, itemsize_of):
    """The layout of a region of so many bytes. `itemsize_of` gives the bytes of an
    element, from a dtype's name, or raises. Raises ValueError for all that encoded()
    does not make."""
    try:
        # No layout unpacks to more.
        layout = json.loads(zlib.decompressobj().decompress(text or b"",
                                                            64 * NBYTES))
        version = layout["version"]
    except Exception as error:
        raise ValueError("the region was not made by load_once()") from error
    if version != VERSION:
        raise ValueError(f"the region has a layout of version {version}; accepted "
                         f"is {VERSION}")
    try:
        is_sound = _is_sound(layout, nbytes, itemsize_of)
    except Exception:
        is_sound = False
    if not is_sound:
        raise ValueError("the region's layout is damaged")
    return layout


def named(layout):
    """{name: (kind, shape)} of all tensors."""
    return {name: (kind, tuple(shape))
            for names, _, _, _, shape, _ in layout["tensors"]
            for name, kind in names}


def difference(wanted, found):
    """What is wrong with `found` where `wanted` was expected, in words, or None.
    Both as named() returns."""
    wrong = [f"{name} is not in the region" for name in wanted if name not in found]
    wrong += [f"{name} is not in the module" for name in found if name not in wanted]
    wrong += [f"{name} is a {found[name][0]} of shape {found[name][1]} in the "
              f"region, a {wanted[name][0]} of shape {wanted[name][1]} in the module"
              for name in wanted if name in found and wanted[name] != found[name]]
    if not wrong:
        return None
    more = f", and {len(wrong) - 3} more" if len(wrong) > 3 else ""
    return "; ".join(wrong[:3]) + more
