# SPDX-License-Identifier: Apache-2.0
"""A report in a real browser."""

import re

import page_checks as checks
import pytest
import sample_rows
from binade import _report
from browser import Browser

LOOKS = [(width, height, scheme) for width, height in ((1280, 800), (390, 844))
         for scheme in ("light", "dark")]
BACKGROUNDS = {"light": "rgb(255, 255, 255)", "dark": "rgb(20, 23, 27)"}
UNTIL_DARK = """
new Promise(done => {
  const look = () => {
    const page = getComputedStyle(document.body);
    const text = document.querySelector('.plot svg text');
    if (page.backgroundColor === 'rgb(20, 23, 27)'
        && getComputedStyle(text).fill === page.color) done();
    else setTimeout(look, 20);
  };
  look();
})
"""
HOSTILE = "</script><script>window.hit=1</script><img src=x onerror=hit=1>"


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Browser(tmp_path_factory.mktemp("profile")) as made:
        yield made


@pytest.fixture(scope="module")
def rows():
    return sample_rows.rows()


@pytest.fixture(scope="module")
def report(rows, tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.html"
    _report.write(rows, path)
    return path


@pytest.fixture
def small(tmp_path):
    """(rows, path) of a report of one subject, to be spoiled."""
    path, rows = tmp_path / "small.html", [sample_rows.row(points=20)]
    _report.write(rows, path)
    return rows, path


def spoil(path, old, new):
    """Without the policy, under which nothing that is planted would run."""
    page = re.sub('<meta http-equiv[^>]*>', "", path.read_text())
    assert old in page
    path.write_text(page.replace(old, new, 1))


@pytest.mark.parametrize("width, height, scheme", LOOKS)
def test_is_whole_on_each_screen(browser, report, rows, width, height, scheme):
    browser.look(width, height, scheme)
    browser.open(report)
    assert checks.complaints(browser) == []
    assert checks.requests(browser) == []
    assert checks.overflow(browser) == []
    assert checks.wrong_colours(browser) == []
    assert checks.wrong_cells(browser, rows) == []
    assert checks.wrong_plots(browser, rows) == []
    assert browser.value("getComputedStyle(document.body).backgroundColor"
                         ) == BACKGROUNDS[scheme]


def test_follows_the_reader_into_the_dark(browser, small):
    browser.look(1280, 800, "light")
    browser.open(small[1])
    browser.look(1280, 800, "dark")
    browser.value(UNTIL_DARK)
    browser.drawn()
    assert checks.wrong_colours(browser) == []


def test_says_why_a_subject_did_not_run(browser, report):
    browser.open(report)
    assert browser.value("document.querySelector('.refused').textContent"
                         ) == "cudaMallocAsync: there is no GPU here"


def test_names_cannot_break_the_page(browser, tmp_path):
    row = sample_rows.row(trace=HOSTILE, subject=HOSTILE, points=20)
    row["trace"]["info"] = {HOSTILE: HOSTILE}
    row["machine"] = {HOSTILE: HOSTILE}
    row["commit"] = row["driver"] = row["date"] = HOSTILE
    path = tmp_path / "report.html"
    _report.write([row, {**row, "subject": HOSTILE + "2",
                         "refused": HOSTILE}], path)
    browser.look(390, 844, "light")
    browser.open(path)
    assert checks.complaints(browser) == []
    assert checks.requests(browser) == []
    assert checks.overflow(browser) == []
    assert browser.value("typeof window.hit") == "undefined"
    assert browser.value("document.querySelector('section h2').textContent"
                         ).startswith(HOSTILE)
    assert browser.value("document.querySelector('section th[scope=row]')"
                         ".textContent") == HOSTILE
    # The policy holds off what is planted, and says so.
    page = path.read_text()
    path.write_text(page.replace("<main>", "<main><script>hit = 1</script>"))
    browser.open(path)
    assert browser.value("typeof window.hit") == "undefined"
    assert len(checks.complaints(browser)) == 1


@pytest.mark.parametrize("old, new, check", [
    ("</main>", "</main><script>console.error('planted')</script>",
     checks.complaints),
    ("</main>", "</main><script>console.warn('planted')</script>",
     checks.complaints),
    ("</main>", "</main><script>setTimeout(() => { throw 'x'; })</script>",
     checks.complaints),
    ("</main>", "</main><img src='http://127.0.0.1:9/planted.png'>",
     checks.requests),
    ("<main>", "<main><div style='width: 1300px'>wide</div>",
     checks.overflow),
    ("set = {'font.color': one('--text'),",
     "set = {'font.color': '#123456',", checks.wrong_colours),
], ids=["error", "warning", "exception", "request", "overflow", "colour"])
def test_what_is_wrong_with_a_page_is_found(browser, small, old, new, check):
    browser.look(1280, 800, "light")
    spoil(small[1], old, new)
    browser.open(small[1])
    assert check(browser)


def add_calls(row):
    row["driver_calls"] += 1


def reserve_more(row):
    row["peak_reserved_bytes"] += 1


def live_more(row):
    row["timeline"]["live"][10] += 1 << 20


def hand_out_less(row):
    del row["map"]["blocks"][:300]


def count_more(row):
    row["latency_ns"]["histogram"][5][1] += 100


@pytest.mark.parametrize("change, check, word", [
    (add_calls, checks.wrong_cells, "driver_calls"),
    (reserve_more, checks.wrong_cells, "footprint"),
    (reserve_more, checks.wrong_plots, "bar of"),
    (live_more, checks.wrong_plots, "live at"),
    (hand_out_less, checks.wrong_plots, "map of"),
    (count_more, checks.wrong_plots, "share of")])
def test_a_number_that_is_not_the_rows_is_found(browser, small, change, check,
                                                word):
    rows, path = small
    browser.open(path)
    assert check(browser, rows) == []
    change(rows[0])
    assert any(word in one for one in check(browser, rows))
