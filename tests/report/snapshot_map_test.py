# SPDX-License-Identifier: Apache-2.0
"""The map of `moiety snapshot` in a real browser: it is whole on each screen,
complains of nothing, and its numbers are those of the JSON."""

import re

import moiety
import pytest
from moiety import observe
from moiety._observe.svg import KINDS, LEFT, WIDTH
from browser import Browser, is_wanted

MIB = 1 << 20
GROUNDS = {"light": "rgb(255, 255, 255)", "dark": "rgb(22, 25, 29)"}
UNITS = {"bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}

# Of each piece that is drawn its text, row, and where it begins and ends; all
# texts with their boxes; the drawing's own box.
READ = """
(() => {
  const box = one => {
    const found = one.getBoundingClientRect();
    return [found.left, found.top, found.right, found.bottom];
  };
  return {
    pieces: [...document.querySelectorAll('rect > title')].map(one =>
      [one.textContent, one.parentElement.y.baseVal.value,
       one.parentElement.x.baseVal.value,
       one.parentElement.width.baseVal.value]),
    texts: [...document.querySelectorAll('text')].map(one =>
      [one.textContent, box(one)]),
    ground: box(document.querySelector('.ground')),
    colour: getComputedStyle(document.querySelector('.ground')).fill,
  };
})()
"""


def in_bytes(text):
    number, unit = re.match(r"([\d.e+]+) (\w+)", text).groups()
    return float(number) * UNITS[unit]


def is_near(found, wanted):
    """Four digits are shown."""
    return abs(found - wanted) <= wanted / 1000


def crossing(texts):
    """Texts that stand on each other."""
    return [(one, other) for i, (one, a) in enumerate(texts)
            for other, b in texts[i + 1:]
            if min(a[2], b[2]) - max(a[0], b[0]) > 1
            and min(a[3], b[3]) - max(a[1], b[1]) > 1]


def outside(seen):
    left, top, right, bottom = seen["ground"]
    return [text for text, box in seen["texts"]
            if box[0] < left or box[1] < top or box[2] > right
            or box[3] > bottom]


def wrong_sums(seen, pools):
    """What the legend says otherwise than the JSON."""
    said = dict(text.split(": ") for text, _ in seen["texts"]
                if text.split(": ")[0] in [one[2] for one in KINDS.values()])
    wrong = []
    for kind, (_, _, words) in KINDS.items():
        held = sum(one["size_bytes"] for pool in pools
                   for one in pool["intervals"] if one["kind"] == kind)
        if held and not is_near(in_bytes(said.pop(words, "0 bytes")), held):
            wrong.append(words)
    return wrong + list(said)


def wrong_pieces(seen, pools):
    """Where the drawing differs: of each address that begins a piece, how much
    there is up to the next one."""
    starts = {one["address"]: one for pool in pools
              for one in pool["intervals"]}
    segments = [one for pool in pools for one in pool["segments"]]
    scale = (WIDTH - LEFT - 8) / max(one["size_bytes"] for one in segments)
    wrong, drawn = [], 0
    for text, _, _, width in seen["pieces"]:
        address = int(text.rsplit("from ", 1)[1], 16)
        # There are commas in the words too.
        said = sum(in_bytes(part) for part in re.split(r", (?=\d)", text.split(
            "pieces: ")[-1].rsplit(", from ", 1)[0]))
        drawn += said
        if address not in starts or abs(width - said * scale) > 1:
            wrong.append(text)
    if not is_near(drawn, sum(one["size_bytes"] for one in segments)):
        wrong.append(f"{drawn} bytes are drawn")
    return wrong


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    if not is_wanted():
        pytest.skip("no chromium here")
    with Browser(tmp_path_factory.mktemp("profile")) as made:
        yield made


@pytest.fixture(scope="module")
def answer():
    with moiety.Pool() as pool:
        blocks = [pool.alloc(size) for size in (
            600, 70_000, 2 * MIB, 9 * MIB, 40 * MIB, 5 * MIB)]
        blocks += [pool.alloc(30_000) for _ in range(40)]
        del blocks[1], blocks[10:30]
        yield observe.snapshot(pool)
        del blocks


@pytest.fixture
def drawn(answer, tmp_path):
    path = tmp_path / "map.svg"
    path.write_text(observe.svg(answer))
    return path


def seen_on(browser, path, width, scheme):
    browser.look(width, 900, scheme)
    browser.load(path)
    return browser.value(READ)


@pytest.mark.parametrize("width", [1280, 390])
def test_is_whole_on_each_screen(browser, drawn, answer, width):
    for scheme, ground in GROUNDS.items():
        seen = seen_on(browser, drawn, width, scheme)
        assert seen["colour"] == ground
        assert outside(seen) == []
        assert crossing(seen["texts"]) == []
        assert wrong_sums(seen, answer["pools"]) == []
        assert wrong_pieces(seen, answer["pools"]) == []
        assert browser.complaints() == []
        assert browser.requests() == [drawn.resolve().as_uri()]


def test_what_is_wrong_is_found(browser, drawn, answer):
    def spoiled(old, new):
        text, count = re.subn(old, new, drawn.read_text(), count=1)
        assert count == 1
        path = drawn.with_name("spoiled.svg")
        path.write_text(text)
        return seen_on(browser, path, 1280, "light")

    pools = answer["pools"]
    assert outside(spoiled(r'(<text class="title") x="8"', r'\1 x="990"'))
    assert crossing(spoiled(r'(<text class="title" x="8" y=)"\d+">Pool',
                            r'\1"26">Pool')["texts"])
    assert wrong_sums(spoiled(r"in use: [\d.]+", "in use: 1"), pools)
    assert wrong_pieces(spoiled(r"40 MiB in use", "41 MiB in use"), pools)
    assert wrong_pieces(spoiled(
        r'(class="used" x="[\d.]+" y="\d+" width=)"[\d.]+"(.{12}><title>)',
        r'\1"99"\2'), pools)
    spoiled("</svg>", '<image href="http://127.0.0.1:9/a.png"/></svg>')
    assert len(browser.requests()) > 1 and browser.complaints()
