# SPDX-License-Identifier: Apache-2.0
"""Makes the pictures of docs/how-it-works.md: a hit, a miss, a free, a piece that
moves. 390 pixels wide, in the reader's light or dark colours.

usage: pictures.py [--check] [ROOT]
"""

import pathlib
import sys
from xml.sax.saxutils import escape

FOLDER = "docs/pictures"
WIDTH = 390
STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#1c1c1c}.small{font-size:11px}"
    ".back{fill:#fff}.room{fill:none;stroke:#9a9a9a}.used{fill:#c9ced6}"
    ".free{fill:#cfeadd;stroke:#0b7a4b}.chosen{fill:#0b7a4b;stroke:#0b7a4b}"
    ".hole{fill:none;stroke:#9a9a9a;stroke-dasharray:3 3}"
    ".arrow{fill:none;stroke:#0a5fb4;stroke-width:2}.tip{fill:#0a5fb4}"
    "@media(prefers-color-scheme:dark){text{fill:#e8e8e8}.back{fill:#0d1117}"
    ".room{stroke:#7a7f87}.used{fill:#444b55}.free{fill:#12402d;stroke:#4cd58f}"
    ".chosen{fill:#4cd58f;stroke:#4cd58f}.hole{stroke:#7a7f87}"
    ".arrow{stroke:#6db3ff}.tip{fill:#6db3ff}}")


def box(x, y, width, height, kind):
    return (f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" '
            f'height="{height}" rx="3"/>')


def text(x, y, words, anchor="start", kind="small"):
    return (f'<text class="{kind}" x="{x}" y="{y}" text-anchor="{anchor}">'
            f"{escape(words)}</text>")


def arrow(x1, y1, x2, y2):
    """Straight, along an axis."""
    if y1 == y2:
        turn = 1 if x2 > x1 else -1
        tip = f"M{x2} {y2}l{-8 * turn} -5v10z"
    else:
        turn = 1 if y2 > y1 else -1
        tip = f"M{x2} {y2}l-5 {-8 * turn}h10z"
    return (f'<path class="arrow" d="M{x1} {y1}L{x2} {y2}"/>'
            f'<path class="tip" d="{tip}"/>')


def bar(x, y, parts, unit=12):
    """Memory, from left to right: (kind, length)."""
    for kind, length in parts:
        yield box(x, y, length * unit - 2, 22, kind)
        x += length * unit


def blocks(x, y, kinds):
    return bar(x, y, [(kind, 2) for kind in kinds])


def room(x, y, width, height, name):
    return [box(x, y, width, height, "room"), text(x + 8, y + 15, name)]


def hit():
    return 96, [
        *room(10, 10, 220, 60, "magazine of this thread and stream"),
        *blocks(20, 36, ["free"] * 5 + ["chosen"]),
        arrow(170, 47, 290, 47),
        text(298, 43, "your program"),
        text(298, 57, "a block"),
        text(10, 88, "One thread alone touches it: no lock, no driver call."),
    ]


def miss():
    return 196, [
        *room(10, 10, 220, 60, "magazine: empty"),
        *blocks(20, 36, ["hole"] * 6),
        arrow(330, 104, 330, 66),
        text(298, 43, "your program"),
        text(298, 57, "the first block"),
        arrow(120, 104, 120, 74),
        text(130, 94, "more blocks by the same call"),
        *room(10, 108, 370, 60, "heap of the stream, under its short lock"),
        *bar(20, 134, [("used", 4), ("free", 2), ("used", 3), ("chosen", 5),
                       ("used", 5), ("free", 8), ("used", 2)]),
        text(10, 188, "The shortest free extent that fits is cut exactly."),
    ]


def free():
    return 196, [
        text(298, 43, "your program"),
        text(298, 57, "frees on s"),
        arrow(290, 47, 236, 47),
        *room(10, 10, 220, 60, "magazine of this thread and s: full"),
        *blocks(20, 36, ["chosen"] * 4 + ["free"] * 4),
        arrow(64, 74, 64, 104),
        text(76, 94, "the oldest half"),
        *room(10, 108, 370, 60, "heap of s"),
        *bar(20, 134, [("used", 4), ("chosen", 4), ("used", 6), ("free", 5),
                       ("used", 3), ("free", 7)]),
        text(10, 188, "Neighbours join. Nothing waits, and no event is recorded."),
    ]


def move():
    before = [("used", 6), ("free", 2), ("used", 5), ("chosen", 2), ("used", 6),
              ("free", 4), ("hole", 2)]
    after = [(kind if kind in ("used", "free") else
              {"chosen": "hole", "hole": "chosen"}[kind], length)
             for kind, length in before]
    return 154, [
        text(10, 18, "A request for three pieces: no free extent is that long."),
        *bar(20, 28, before, 13),
        '<path class="arrow" d="M201 52V70H357V82"/>',
        '<path class="tip" d="M357 88l-5 -8h10z"/>',
        text(20, 74, "unmapped here, mapped there"),
        *bar(20, 90, after, 13),
        text(10, 130, "Dashed: addresses without memory. Live blocks (grey) stay where"),
        text(10, 146, "they are. No byte is copied, as only free memory moves."),
    ]


PICTURES = {"hit": hit, "miss": miss, "free": free, "move": move}


def drawn(name):
    height, parts = PICTURES[name]()
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'width="{WIDTH}" height="{height}" role="img" aria-label="{name}">',
        f"<style>{STYLE}</style>",
        f'<rect class="back" width="{WIDTH}" height="{height}"/>', *parts,
        "</svg>", ""])


def main(words):
    is_check = "--check" in words
    roots = [word for word in words if word != "--check"]
    folder = pathlib.Path(roots[0] if roots else ".") / FOLDER
    status = 0
    for name in PICTURES:
        path = folder / f"{name}.svg"
        if not is_check:
            path.write_text(drawn(name))
        elif not path.exists() or path.read_text() != drawn(name):
            print(f"pictures: {path} is not as it is made: python3 "
                  "docs/dev/reference/pictures.py", file=sys.stderr)
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
