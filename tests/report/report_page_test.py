# SPDX-License-Identifier: Apache-2.0
"""A report in a real browser."""

import copy
import re

import page_checks as checks
import pytest
import sample_rows
from moiety import _report
from browser import Browser, is_wanted

BACKGROUNDS = {"light": "rgb(255, 255, 255)", "dark": "rgb(20, 23, 27)"}
UNTIL_PAINTED = """
new Promise(done => {
  const look = () => {
    const page = getComputedStyle(document.body);
    const text = document.querySelector('.plot svg text');
    if (page.backgroundColor === '%s'
        && getComputedStyle(text).fill === page.color) done();
    else setTimeout(look, 20);
  };
  look();
})
"""
HOSTILE = "</script x><script>window.hit=1</script><img src=x onerror=hit=1>"


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    if not is_wanted():
        pytest.skip("no chromium here")
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


def turn(browser, width, height, scheme):
    """Changes what the reader has, while the page is open."""
    browser.look(width, height, scheme)
    browser.value(UNTIL_PAINTED % BACKGROUNDS[scheme])
    browser.drawn()


@pytest.mark.parametrize("width, height, schemes", [
    (1280, 800, ("light", "dark")), (390, 844, ("dark", "light"))])
def test_is_whole_on_each_screen(browser, report, rows, width, height,
                                 schemes):
    browser.look(width, height, schemes[0])
    browser.open(report)
    for scheme in schemes:
        turn(browser, width, height, scheme)
        assert checks.overflow(browser) == []
        assert checks.wrong_colours(browser) == []
    assert checks.wrong_cells(browser, rows) == []
    assert checks.wrong_plots(browser, rows) == []
    turn(browser, 1024, 768, "light")
    assert checks.overflow(browser) == []
    assert browser.value("document.querySelector('.refused').textContent"
                         ) == "cudaMallocAsync: there is no GPU here"
    assert "1.955\u00a0GiB reserved at the peak by the allocator that it was " \
        "recorded on" in browser.value(
            "document.querySelector('section').textContent")
    assert checks.empty(browser) == []
    assert checks.torn(browser) == []
    assert checks.complaints(browser) == []
    assert checks.requests(browser) == []


def test_is_whole_with_headings_limits_and_failures(browser, tmp_path):
    rows = []
    for title, changes in (
            ("A tight limit", {"limit_bytes": 1 << 27}),
            ("A device that lags", {"lag": "work:50", "mode": "concurrent",
                                    "threads": 16, "timeline": None,
                                    "map": None})):
        rows.append({"kind": "heading", "title": title, "says": "Look."})
        for subject in sample_rows.SUBJECTS:
            made = sample_rows.row(subject, points=20)
            rows.append({**made, **changes, "ooms": 9 * (subject == "naive"),
                         "is_simulated": True})
    path = tmp_path / "report.html"
    _report.write(rows, path)
    for width, scheme in ((390, "dark"), (1280, "light")):
        browser.look(width, 900, scheme)
        browser.open(path)
        assert checks.overflow(browser) == []
        assert checks.wrong_colours(browser) == []
        assert checks.empty(browser) == []
        assert checks.torn(browser) == []
    assert browser.value("[...document.querySelectorAll('section h2')].map("
                         "one => one.textContent)") == [
        "A tight limit", "A device that lags"]


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


def test_a_number_that_is_not_the_rows_is_found(browser, report, rows):
    if browser.page != report:
        browser.open(report)
    for change, check, word in (
            (add_calls, checks.wrong_cells, "driver_calls"),
            (reserve_more, checks.wrong_cells, "footprint"),
            (reserve_more, checks.wrong_plots, "bar of"),
            (live_more, checks.wrong_plots, "live at"),
            (hand_out_less, checks.wrong_plots, "map of"),
            (count_more, checks.wrong_plots, "share of")):
        changed = copy.deepcopy(rows)
        for row in changed[:3]:  # the repeats of one subject
            change(row)
        assert any(word in one for one in check(browser, changed))


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
    assert browser.value("JSON.parse(document.getElementById("
                         "'moiety-numbers').textContent)[0].trace") == HOSTILE
    assert browser.value("document.querySelector('section h2').textContent"
                         ).startswith(HOSTILE)
    assert browser.value("document.querySelector('section th[scope=col]"
                         ":nth-child(2)').textContent") == HOSTILE


def test_what_is_planted_does_not_run(browser, small):
    """The page's own policy holds it off."""
    path = small[1]
    head, main, _ = path.read_text().partition("<main>")
    path.write_text(head + main + "<script>hit = 1</script>"
                    "<img src='http://127.0.0.1:9/planted.png'>")
    browser.load(path)
    assert browser.value("typeof window.hit") == "undefined"
    said = checks.complaints(browser)
    assert len(said) == 2
    assert all("Content Security Policy" in one for one in said)


def test_what_is_wrong_with_a_page_is_found(browser, small):
    path = small[1]
    # Without the policy, under which nothing of this would run.
    page = re.sub('<meta http-equiv[^>]*>', "", path.read_text())
    for old, new in (
            ("</main>",
             "</main><script>console.error('planted error')</script>"
             "<script>console.warn('planted warning')</script>"
             "<script>setTimeout(() => { throw 'planted throw'; })</script>"
             "<img src='http://127.0.0.1:9/planted.png'>"),
            ("<h2>", "<section><h2>none</h2></section><ul></ul>"
             "<p>took 5 ms</p><h2>"),
            ("<main>", "<main><div style='width: 1300px'>wide</div>"),
            ("{'font.color': one('--text'),", "{'font.color': '#123456',")):
        assert old in page
        page = page.replace(old, new, 1)
    path.write_text(page)
    browser.look(1280, 800, "light")
    browser.open(path)
    said = "".join(checks.complaints(browser))
    for word in ("planted error", "planted warning", "planted throw"):
        assert word in said
    assert checks.requests(browser) == ["http://127.0.0.1:9/planted.png"]
    assert any("wide" in one for one in checks.overflow(browser))
    assert any("rgb(18, 52, 86)" in one for one in
               checks.wrong_colours(browser))
    assert checks.empty(browser) == ["section", "ul"]
    assert checks.torn(browser) == ["5 ms"]
