# SPDX-License-Identifier: Apache-2.0
"""The address-space map: which part of each stretch is handed out. Its size is
that of the picture, however many blocks there are."""

COLUMNS = 48
ROWS = 16


def pieces(found):
    """Segments and blocks, each sorted by address."""
    return tuple(sorted((int(address), int(size))
                        for address, size in found.get(name) or () if size)
                 for name in ("segments", "blocks"))


def placed(segments, blocks):
    """Blocks as (offset, bytes) where the segments lie end to end."""
    base, index = 0, 0
    for start, size in segments:
        while index < len(blocks) and blocks[index][0] < start + size:
            address, length = blocks[index]
            index += 1
            if address >= start:
                yield (base + address - start,
                       min(length, start + size - address))
        base += size


def free_pieces(found):
    """Bytes of each hole between blocks, of each segment by itself."""
    segments, blocks = pieces(found)
    holes, base, taken = [], 0, list(placed(segments, blocks))
    index = 0
    for _, size in segments:
        at = base
        while index < len(taken) and taken[index][0] < base + size:
            offset, length = taken[index]
            if offset > at:
                holes.append(offset - at)
            at = max(at, offset + length)
            index += 1
        if at < base + size:
            holes.append(base + size - at)
        base += size
    return holes


def cells(found):
    """Lines of COLUMNS cells, each with the percentage that is handed out;
    None after the end."""
    segments, blocks = pieces(found)
    total = sum(size for _, size in segments)
    count = min(COLUMNS * ROWS, total)
    used = [0.0] * count
    for offset, length in placed(segments, blocks):
        first, last = offset * count / total, (offset + length) * count / total
        for cell in range(int(first), min(int(last) + 1, count)):
            used[cell] += max(0, min(last, cell + 1) - max(first, cell))
    line = [min(100, round(100 * share, 1)) for share in used]
    line += [None] * (-count % COLUMNS)
    return [line[at:at + COLUMNS] for at in range(0, len(line), COLUMNS)]
