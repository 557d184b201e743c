# SPDX-License-Identifier: Apache-2.0
"""A figure as SVG: a line of dots for each row, with whiskers from the least to the
most. 390 pixels wide, in the reader's light or dark colours."""

import math
from xml.sax.saxutils import escape

from figures import NAMES

WIDTH, LEFT, RIGHT = 390, 138, 14
ROW, TOP, LEGEND_ROW = 24, 34, 16
# Told apart without colour, too: each subject has a shape of its own.
LOOKS = {
    "mapped": ("#0b7a4b", "#4cd58f", "circle"),
    "moiety": ("#0a5fb4", "#6db3ff", "square"),
    "native": ("#b3261e", "#ff8a80", "diamond"),
    "best-fit": ("#b3261e", "#ff8a80", "diamond"),
    "expandable": ("#a15c00", "#ffb74d", "triangle"),
    "best-fit-expandable": ("#a15c00", "#ffb74d", "triangle"),
    "cuda-async": ("#6a3fb0", "#c0a2ff", "cross"),
    "rmm-pool": ("#00707a", "#55d3de", "ring"),
    "rmm-arena": ("#5b6600", "#c6d64a", "bar"),
    "cupy": ("#b3261e", "#ff8a80", "diamond"),
    "cupy_moiety": ("#0b7a4b", "#4cd58f", "circle"),
    "mimalloc": ("#555555", "#bbbbbb", "triangle"),
    "mutex": ("#8a2f6b", "#f29ad0", "star"),
    "lists": ("#777777", "#999999", "cross"),
}


def style(is_stale):
    light = "".join(f".{name}{{--c:{look[0]}}}" for name, look in LOOKS.items())
    dark = "".join(f".{name}{{--c:{look[1]}}}" for name, look in LOOKS.items())
    grey = "g,.mark{--c:#9a9a9a !important}" if is_stale else ""
    return (
        "text{font:12px system-ui,sans-serif;fill:#1c1c1c}"
        ".title{font-weight:600;font-size:14px}.small{font-size:11px;fill:#555}"
        ".grid{stroke:#d8d8d8}.back{fill:#fff}.mark{fill:var(--c);stroke:var(--c)}"
        f".open{{fill:none}}{light}"
        "@media(prefers-color-scheme:dark){text{fill:#e8e8e8}"
        ".small{fill:#a8a8a8}.grid{stroke:#3a3f45}.back{fill:#0d1117}"
        f"{dark}}}{grey}")


def place(figure, value):
    """The x of a value; what is beyond an end lies on it."""
    low, high = figure.axis
    value = min(max(value, low), high)
    if figure.is_log:
        share = math.log(value / low) / math.log(high / low)
    else:
        share = (value - low) / (high - low)
    return LEFT + share * (WIDTH - LEFT - RIGHT)


def ticks(figure):
    low, high = figure.axis
    if not figure.is_log:
        count = min((4, 5), key=lambda one: len(f"{(high - low) / one:g}"))
        return [low + (high - low) * i / count for i in range(count + 1)]
    if high / low > 100:
        count = round(math.log10(high / low))
        return [low * 10 ** i for i in range(count + 1)]
    return [low * 2 ** i for i in range(round(math.log2(high / low)) + 1)]


def tick_text(figure, value):
    if figure.unit == "ns":
        for size, unit in ((1e6, "ms"), (1e3, "µs"), (1, "ns")):
            if value >= size:
                return f"{value / size:g} {unit}"
    if value >= 1000:
        return f"{value / 1000:g}k"
    return f"{value:.3g}"


def mark(subject, x, y):
    shape = LOOKS[subject][2]
    say = {
        "circle": f'<circle cx="{x:.1f}" cy="{y}" r="4.5"',
        "ring": f'<circle cx="{x:.1f}" cy="{y}" r="4" stroke-width="2"',
        "square": f'<rect x="{x - 4:.1f}" y="{y - 4}" width="8" height="8"',
        "bar": f'<rect x="{x - 1.5:.1f}" y="{y - 6}" width="3" height="12"',
        "diamond": f'<path d="M{x:.1f} {y - 5.5}l5.5 5.5l-5.5 5.5l-5.5-5.5z"',
        "triangle": f'<path d="M{x:.1f} {y - 5}l5 9h-10z"',
        "cross": f'<path stroke-width="2.5" d="M{x - 4:.1f} {y - 4}l8 8m0-8l-8 8"',
        "star": f'<path stroke-width="2.5" d="M{x - 5:.1f} {y}h10m-5-5v10"',
    }[shape]
    is_open = " open" if shape == "ring" else ""
    return f'{say} class="mark{is_open} {subject}"/>'


def legend(figure, y):
    """Two columns; the y below it."""
    parts = []
    for index, subject in enumerate(figure.subjects):
        x = 14 + (index % 2) * 188
        at = y + index // 2 * LEGEND_ROW
        parts.append(mark(subject, x, at))
        parts.append(f'<text x="{x + 11}" y="{at + 4}">{escape(NAMES[subject])}'
                     "</text>")
    return parts, y + (len(figure.subjects) + 1) // 2 * LEGEND_ROW


def line(figure, name, subjects, y):
    parts = [f'<text x="{LEFT - 8}" y="{y + 4}" text-anchor="end">{escape(name)}'
             "</text>"]
    for subject in figure.subjects:
        if subject not in subjects:
            continue
        middle, least, most = (place(figure, value)
                               for value in subjects[subject])
        if most - least > 9:
            parts.append(f'<path class="mark {subject}" d="M{least:.1f} {y}'
                         f'H{most:.1f}"/>')
        parts.append(mark(subject, middle, y))
    return parts


def drawn(figure, note, is_stale):
    """The text of the file. `note`: where and when it was measured."""
    parts, y = legend(figure, TOP + 12)
    top = y + 4
    bottom = top + ROW * len(figure.values)
    for value in ticks(figure):
        x = place(figure, value)
        parts.append(f'<path class="grid" d="M{x:.1f} {top}V{bottom}"/>')
        anchor = "end" if value == figure.axis[1] else "middle"
        parts.append(f'<text class="small" x="{x:.1f}" y="{bottom + 14}" '
                     f'text-anchor="{anchor}">{tick_text(figure, value)}</text>')
    for index, (name, subjects) in enumerate(figure.values.items()):
        parts += line(figure, name, subjects, top + ROW * index + ROW // 2)
    unit = {"times": "reserved ÷ live"}.get(figure.unit, figure.unit)
    height = bottom + 46
    say = (f"{unit}{', log scale' if figure.is_log else ''}; "
           f"{figure.better} is better")
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'width="{WIDTH}" height="{height}" role="img" '
        f'aria-label="{escape(figure.title)}">',
        f"<style>{style(is_stale)}</style>",
        f'<rect class="back" width="{WIDTH}" height="{height}"/>',
        f'<text class="title" x="10" y="20">{escape(figure.title)}</text>',
        *parts,
        f'<text class="small" x="10" y="{bottom + 28}">{escape(say)}</text>',
        f'<text class="small" x="10" y="{bottom + 41}">{escape(note)}</text>',
        "</svg>", ""])
