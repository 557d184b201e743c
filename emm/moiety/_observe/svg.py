# SPDX-License-Identifier: Apache-2.0
"""A map of pools as an SVG: a row for each segment, to one scale, coloured by
what the memory is."""

from html import escape

from moiety._observe import MAPPED

WIDTH, LEFT, ROW, GAP, TOP = 1000, 190, 18, 6, 64
# More segments or smaller pieces than this cannot be told apart.
ROWS_MAX = 400
PIECE_PIXELS = 0.75

# For light and for dark; and in words.
KINDS = {
    "used": ("#2563a8", "#6ea8e0", "in use"),
    "cached": ("#3f9c5c", "#63c482", "in a thread's cache"),
    "retiring": ("#c4632d", "#e58a55", "freed, work not over"),
    "kept": ("#7b58a6", "#ab8ad4", "freed, kept for others"),
    "lost": ("#b3202e", "#ff6b78", "lost by a mistake"),
    "free": ("#e3e5e8", "#3a3f46", "free"),
}

_STYLE = """\
text { font: 12px system-ui, sans-serif; fill: #1b1f24 }
.title { font-size: 15px; font-weight: 600 }
.ground { fill: #ffffff } .frame { fill: none; stroke: #8a929c }
%s
@media (prefers-color-scheme: dark) {
text { fill: #e6e8eb } .ground { fill: #16191d } .frame { stroke: #737b85 }
%s
}
"""


def _bytes(count):
    size = float(count)
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if size < 1024 or unit == "GiB":
            return f"{size:.4g} {unit}"
        size /= 1024
    raise AssertionError


def _style():
    return _STYLE % tuple(
        "\n".join(f".{kind} {{ fill: {colours[i]} }}"
                  for kind, colours in KINDS.items()) for i in (0, 1))


def _pieces(intervals, scale):
    """(start, bytes, the kind that has most of it, text): neighbours that are
    too small to be seen are one piece."""
    held, held_bytes, count, start = {}, 0, 0, None
    for index, one in enumerate(intervals):
        start = one["address"] if start is None else start
        kind = one["kind"] if one["kind"] in KINDS else "lost"
        held[kind] = held.get(kind, 0) + one["size_bytes"]
        held_bytes += one["size_bytes"]
        count += 1
        if (held_bytes * scale >= PIECE_PIXELS
                or index + 1 == len(intervals)):
            kinds = sorted(held, key=held.get, reverse=True)
            words = ", ".join(f"{_bytes(held[kind])} {KINDS[kind][2]}"
                              for kind in kinds)
            if count > 1:
                words = f"{count} pieces: {words}"
            yield start, held_bytes, kinds[0], words
            held, held_bytes, count, start = {}, 0, 0, None


def _row(pool, segment, y, scale):
    first = segment["first_interval"]
    intervals = pool["intervals"][first:first + segment["interval_count"]]
    yield (f'<text x="{LEFT - 8}" y="{y + 13}" text-anchor="end">'
           f'{segment["address"]:#x}, {_bytes(segment["size_bytes"])}</text>')
    for start, size, kind, words in _pieces(intervals, scale):
        x = LEFT + (start - segment["address"]) * scale
        yield (f'<rect class="{kind}" x="{x:.2f}" y="{y}" '
               f'width="{size * scale:.2f}" height="{ROW}"><title>'
               f'{escape(words)}, from {start:#x}</title></rect>')
    yield (f'<rect class="frame" x="{LEFT}" y="{y}" '
           f'width="{segment["size_bytes"] * scale:.2f}" height="{ROW}"/>')


def _hole(before, segment):
    """Bytes between two segments of a mapped pool: memory has moved away from
    there, or never was there."""
    return segment["address"] - before["address"] - before["size_bytes"]


def _legend(pools):
    sums = dict.fromkeys(KINDS, 0)
    for pool in pools:
        for one in pool["intervals"]:
            kind = one["kind"] if one["kind"] in KINDS else "lost"
            sums[kind] += one["size_bytes"]
    x, y = 8, 34
    for kind, (_, _, words) in KINDS.items():
        if sums[kind] == 0:
            continue
        text = f"{words}: {_bytes(sums[kind])}"
        width = 24 + 7 * len(text)
        if x + width > WIDTH:
            x, y = 8, y + 18
        yield (f'<rect class="{kind}" x="{x}" y="{y}" width="12" height="12"/>'
               f'<text x="{x + 17}" y="{y + 10}">{escape(text)}</text>')
        x += width


def _rows(pools):
    """(pool, segment) of those that are drawn, and how many are not."""
    found = [(pool, one) for pool in pools for one in pool["segments"]]
    if len(found) > ROWS_MAX:
        largest = sorted(found, key=lambda pair: -pair[1]["size_bytes"])
        kept = {id(one) for _, one in largest[:ROWS_MAX]}
        return ([pair for pair in found if id(pair[1]) in kept],
                len(found) - ROWS_MAX)
    return found, 0


def draw(answer):
    """Returns an SVG of what snapshot() returned, as text."""
    pools = [pool for pool in answer["pools"] if "segments" in pool]
    rows, left_out = _rows(pools)
    most = max((one["size_bytes"] for _, one in rows), default=1)
    scale = (WIDTH - LEFT - 8) / most
    body, y, shown, before = [], TOP + 12, None, None
    for pool, segment in rows:
        if pool is not shown:
            shown, before = pool, None
            body.append(f'<text class="title" x="8" y="{y + 14}">'
                        f'Pool {pool["id"]}: {escape(pool["source"])}, device '
                        f'{pool["device"]}</text>')
            y += 24
        is_told = before and pool["source"] == MAPPED and not left_out
        if is_told and _hole(before, segment):
            body.append(f'<text x="{LEFT}" y="{y + 13}">'
                        f'{_bytes(_hole(before, segment))} of addresses '
                        f'without memory</text>')
            y += ROW + GAP
        before = segment
        body += _row(pool, segment, y, scale)
        y += ROW + GAP
    if left_out or not rows:
        text = (f"and {left_out} smaller segments" if left_out
                else "no segments")
        body.append(f'<text x="8" y="{y + 14}">{text}</text>')
        y += 24
    title = (f"Moiety {answer['version']}, memory of process {answer['pid']}")
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" '
        f'viewBox="0 0 {WIDTH} {y + 8}" aria-label="{escape(title)}">',
        f"<title>{escape(title)}</title>", f"<style>{_style()}</style>",
        f'<rect class="ground" width="{WIDTH}" height="{y + 8}"/>',
        f'<text class="title" x="8" y="22">{escape(title)}</text>',
        *_legend(pools), *body, "</svg>", ""])
