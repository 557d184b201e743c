# SPDX-License-Identifier: Apache-2.0
"""What a report makes of its rows, and what it says about wrong ones. No
browser is needed for that."""

import json
import os
import re
import sys
from pathlib import Path

import pytest
import sample_rows
from moiety import _report


def small(**changes):
    return {**sample_rows.row(points=4, blocks=4), **changes}


def line_of(row):
    return json.dumps(row) + "\n"


def data_of(path, name):
    """What the page tells programs."""
    page = path.read_text()
    begin = page.index(">", page.index(f'id="{name}"')) + 1
    return json.loads(page[begin:page.index("</script>", begin)])


def numbers_of(path):
    return data_of(path, "moiety-numbers")


@pytest.fixture
def out(tmp_path):
    return tmp_path / "report.html"


def refused_with(rows, out, message):
    with pytest.raises(ValueError) as caught:
        _report.write(rows, out)
    assert message in str(caught.value)
    assert not out.exists()


def test_a_path_a_file_lines_and_rows_make_the_same(tmp_path, out):
    rows, pages = [small(), small(subject="naive")], []
    path = tmp_path / "rows.json"
    path.write_text("\n".join(map(line_of, rows)))
    with open(path) as file, open(path, "rb") as raw:
        for source in (rows, iter(rows), map(line_of, rows), str(path), path,
                       file, raw):
            _report.write(source, out)
            pages.append(out.read_bytes())
    assert len(set(pages)) == 1


def test_loads_nothing(out):
    _report.write([small()], out)
    page = out.read_text()
    assert "default-src 'none'" in page.replace("&#x27;", "'")
    assert " src=" not in page[:page.index("moiety-figures")]
    assert "<link" not in page[:page.index("moiety-figures")]


def test_repeats_give_the_median_and_the_ends(out):
    _report.write([small(driver_calls=calls) for calls in (7, 1, 2)], out)
    subject, = numbers_of(out)[0]["subjects"]
    assert subject["driver_calls"] == {"median": 2, "min": 1, "max": 7,
                                       "count": 3}


def test_what_differs_in_mode_threads_or_limit_is_not_a_repeat(out):
    _report.write([small(), small(mode="concurrent"), small(threads=2),
                   small(limit_bytes=1)], out)
    assert [len(one["subjects"]) for one in numbers_of(out)] == [1] * 4


def test_what_differs_in_the_devices_lag_is_not_a_repeat(out):
    _report.write([small(), small(lag="held", releases=7),
                   small(lag="idle")], out)
    found = numbers_of(out)
    assert [one["lag"] for one in found] == ["idle", "held"]
    assert found[0]["subjects"][0]["median_ns"]["count"] == 2
    assert found[1]["subjects"][0]["releases"]["median"] == 7
    page = out.read_text()
    assert "1\u00a0thread, device held<" in page
    assert page.count('data-field="releases"') == 2  # rounded and exact


def test_who_ran_out_of_memory_is_not_the_best(out):
    _report.write([small(), small(subject="naive", ooms=3,
                                  peak_reserved_bytes=1)], out)
    page = out.read_text()
    assert "it served less and is not ranked: naive (3\u00a0times)." in page
    assert "Memory reserved at the peak: moiety 1.768\u00a0GiB." in page
    assert "<th scope=col>naive, failed</th>" in page
    assert "<th scope=col>moiety</th>" in page
    labels = [figure["layout"]["yaxis"]["ticktext"] for figure in
              data_of(out, "moiety-figures").values()
              if figure["data"][0]["type"] == "bar"]
    assert len(labels) == 6
    for naive, moiety in labels:
        assert naive.startswith("naive, failed<br>")
        assert moiety.startswith("moiety<br>")


def heading(title="A tight limit", says="What is seen here."):
    return {"kind": "heading", "title": title, "says": says}


def test_a_heading_is_of_the_rows_behind_it(out):
    _report.write([small(), heading(), small(), heading("Again"), small(),
                   small()], out)
    page = out.read_text()
    assert [one["subjects"][0]["median_ns"]["count"]
            for one in numbers_of(out)] == [1, 1, 2]
    titles = re.findall(r'<section id="c\d"><h2>(.*)</h2>', page)
    assert titles == ["serving.mtrace, serial, 1\u00a0thread",
                      "A tight limit", "Again"]
    assert page.count("<p>What is seen here.</p>") == 2
    assert "of another kind" not in page


def test_it_says_what_the_known_allocators_are(out):
    _report.write([small(), small(subject="best-fit"),
                   small(subject="somebody's")], out)
    page = out.read_text()
    assert "<dt>best-fit</dt><dd>A model in C of PyTorch" in page
    assert "<dt>somebody" not in page


def timed(subject, *medians):
    for median in medians:
        made = small(subject=subject, mode="concurrent", threads=8,
                     peak_reserved_bytes=None)
        made["latency_ns"]["all"] = {"median": median}
        yield made


def verdicts_of(path):
    """{title: what it lists}"""
    return {title: re.findall(r"</a>\. (.*)\.</li>", found)
            for title, found in re.findall(
                r'<h3>([^<]*)</h3>\n<ul class="found verdict">(.*?)</ul>',
                path.read_text(), re.DOTALL)}


def test_what_the_runs_cannot_tell_is_called_so(out):
    _report.write([*timed("moiety", 90, 100, 120),
                   *timed("best-fit", 110, 130, 150)], out)
    page = out.read_text()
    said = "no difference beyond the spread of the runs"
    assert f"best-fit 130\u00a0ns ({said})" in page
    assert list(verdicts_of(out)) == ["No difference that the runs could show"]
    assert page.count('class="best" data-field="median_ns"') == 4


def test_what_the_runs_can_tell_is_said_whoever_is_better(out):
    for ours, title in ((100, "Moiety is better"), (400, "Moiety is worse")):
        _report.write([*timed("moiety", ours, ours + 1),
                       *timed("best-fit", 200, 201)], out)
        assert list(verdicts_of(out)) == [title]
    assert verdicts_of(out)[title] == [
        "Median time of an operation: best-fit 200.5\u00a0ns; moiety "
        "400.5\u00a0ns, 2\u00a0times as long"]


def test_of_one_run_it_says_that_it_may_be_chance(out):
    _report.write([*timed("moiety", 100), *timed("best-fit", 200)], out)
    said, = verdicts_of(out)["Moiety is better"]
    assert said.endswith("2\u00a0times as long (of one run, so that it may "
                         "be chance)")


def test_a_commit_with_changes_is_said_to_have_them(out):
    _report.write([small(commit="0123abc-dirty")], out)
    assert "<dd>0123abc, with changes that were not committed</dd>" in \
        out.read_text()


def test_moiety_is_not_its_own_rival(out):
    _report.write([*timed("moiety", 100), *timed("moiety-nocache", 900)], out)
    assert verdicts_of(out) == {}


def test_who_serves_all_where_others_fail_is_better(out):
    _report.write([small(), small(subject="naive", ooms=3)], out)
    assert "Allocations failed: naive (3\u00a0times); moiety served all" in \
        verdicts_of(out)["Moiety is better"]
    _report.write([small(ooms=2), small(subject="naive")], out)
    assert verdicts_of(out) == {"Moiety is worse": [
        "Allocations failed: moiety (2\u00a0times)"]}


def facts_of(path):
    """{name: words} of the first section."""
    page = path.read_text()
    found = page[page.index('<dl class="how">'):]
    return dict(re.findall("<dt>(.*)</dt><dd>(.*)</dd>",
                           found[:found.index("</dl>")]))


def test_how_it_was_replayed_is_said_in_words(out):
    machine = {"cpu": "Some processor", "processors": 2}
    _report.write([small(mode="concurrent", threads=16, lag="work:50+sync:9",
                         limit_bytes=1 << 27, machine=machine)] * 3, out)
    said = facts_of(out)
    assert said["Replayed by"] == \
        "16\u00a0threads at once on 2\u00a0processors."
    assert said["Note"].startswith("at most 2\u00a0threads ran at a time.")
    assert said["Memory"] == "128\u00a0MiB for each allocator."
    assert said["Device"].startswith("Work of 50\u00a0\u00b5s was queued")
    assert said["Repeated"].startswith("3\u00a0runs of each allocator")
    assert "Measured on: Some processor, 2\u00a0processors." in \
        out.read_text()
    _report.write([small(machine=machine, lag="of another kind")], out)
    said = facts_of(out)
    assert said["Replayed by"].startswith("one thread on 2\u00a0processors")
    assert said["Device"] == "The device: of another kind."
    assert said["Repeated"].startswith("One run of each allocator")


def test_what_a_recording_says_of_itself_is_in_words(out):
    row = small()
    row["trace"]["info"] = {"source": "torch", "device": 0,
                            "reserved_before_bytes": 0, "of_mine": "yes"}
    _report.write([row], out)
    said = facts_of(out)["Recording"]
    assert said.startswith("serving.mtrace: 200,000\u00a0operations")
    assert said.endswith("recorded by PyTorch&#39;s history of its memory, on "
                         "its device\u00a00, of mine: yes.")


@pytest.mark.parametrize("is_simulated, words", [
    (True, "the times of its calls are imitated"),
    (False, "its calls cost next to nothing")])
def test_the_stand_in_is_called_what_it_is(out, is_simulated, words):
    _report.write([small(is_simulated=is_simulated)], out)
    page = out.read_text()
    assert "There was no GPU." in page and words in page
    _report.write([small(is_standin=False)], out)
    assert "There was no GPU." not in out.read_text()


def test_at_a_glance_a_failure_stands_beside_what_it_took(out):
    _report.write([small(), small(subject="naive", ooms=3), small(threads=2)],
                  out)
    page = out.read_text()
    glance = page[page.index('class="glance"'):page.index("<section")]
    marked = re.findall(r'data-field="(\w+)" data-label="(\w+)">'
                        r'<span>[^<]*<span class="spread">failed<', glance)
    assert marked == [(name, "naive") for name in (
        "footprint", "mean_ns", "median_ns", "p99_ns")]


def test_rows_of_other_kinds_are_left_out_and_counted(out):
    _report.write([small(), {"kind": "progress"}], out)
    assert "1 of another kind are left out" in out.read_text()
    assert len(numbers_of(out)) == 1


def test_what_is_unknown_is_said_to_be(out):
    row = small()
    bare = {name: row[name] for name in ("kind", "trace", "subject", "mode")}
    _report.write([bare], out)
    subject, = numbers_of(out)[0]["subjects"]
    assert subject["driver_calls"] is None
    assert subject["footprint"] is None
    empty = {**row, "latency_ns": {"all": None, "histogram": []},
             "timeline": {"op": [], "live": None}, "map": {"segments": []}}
    _report.write([empty], out)
    nothing = {name: None if name not in bare else value
               for name, value in row.items()}
    _report.write([nothing], out)
    assert "Nothing was measured." in out.read_text()
    _report.write([small(driver_calls=None), small(subject="naive")], out)
    assert "<span>unknown</span>" in out.read_text()


def test_nothing_live_or_reserved_is_no_division_by_zero(out):
    row = small(peak_live_bytes=0, peak_reserved_bytes=0, driver_calls=0,
                smallest_limit_bytes=0)
    row["map"] = {"segments": [[0, 0]], "blocks": [[0, 0]]}
    row["timeline"] = {"op": [0], "reserved": [0], "live": [0]}
    row["latency_ns"] = {"all": {"median": 0, "p99": 0},
                         "histogram": [[0, 1]]}
    _report.write([row], out)
    assert numbers_of(out)[0]["subjects"][0]["footprint"] is None


def test_all_may_be_refused(out):
    _report.write([sample_rows.refused()], out)
    assert "there is no GPU here" in out.read_text()


def test_numbers_of_any_size_are_drawn(out):
    for value in (1e-9, 0.5, 1, 7, 1023, 1 << 40, 2 ** 64 - 1):
        row = small(peak_live_bytes=value, peak_reserved_bytes=value,
                    driver_calls=value, smallest_limit_bytes=value)
        row["latency_ns"]["all"] = {"median": value, "p99": value * 0.9}
        _report.write([row], out)


def test_a_long_timeline_is_thinned_and_keeps_its_peaks(out):
    row = small()
    count, mib = 50021, 1 << 20
    series = {name: [mib] * count for name in ("live", "reserved")}
    series["live"][12345] = series["reserved"][777] = 3 * mib
    row["timeline"] = {"op": list(range(count)), **series}
    _report.write([row], out)
    curves = {one["name"]: one for figure in
              data_of(out, "moiety-figures").values()
              for one in figure["data"] if one["type"] == "scatter"}
    for name, op in (("live", 12345), ("reserved", 777)):
        curve = curves[name]
        assert len(curve["x"]) <= 601
        assert curve["y"][curve["x"].index(op)] == 3


def test_no_row_is_an_error(tmp_path, out):
    refused_with([], out, "there is no row of a replay")
    refused_with(["\n", "  \n"], out, "there is no row of a replay")
    refused_with([heading()], out, "there is no row of a replay")
    refused_with([{"kind": "progress"}], out, "there is no row of a replay")


@pytest.mark.parametrize("line, message", [
    ("{", "no JSON"),
    ('{"kind": NaN}', "no JSON"),
    (b"\xff\xfe", "no JSON"),
    ("[" * 100000, "no JSON"),
    ("[]", "no object with a kind"),
    ("{}", "no object with a kind"),
    ('{"kind": 3}', "no object with a kind"),
    ('{"kind": "heading", "says": "x"}', "title is no text"),
    (line_of(heading(says=" ")), "says is no text"),
    ('{"kind": "replay"}', "trace.file is no text"),
    (line_of(small(subject=None)), "subject is no text"),
    (line_of(small(mode=3)), "mode is no text"),
    (line_of(small(lag=3)), "lag is no text"),
    (line_of(small(trace=[])), "trace: [] is no object"),
    (line_of(small(driver_calls=-1)), "driver_calls: -1 is no number"),
    (line_of(small(driver_calls="1")), "driver_calls: '1' is no number"),
    (line_of(small(driver_calls=True)), "driver_calls: True is no number"),
    (line_of(small(driver_calls=10 ** 400)), "driver_calls: 1000"),
    (line_of(small(threads=[])), "threads: [] is no number"),
    (line_of(small(latency_ns=3)), "latency_ns: 3 is no object"),
    (line_of(small(latency_ns={"all": 3})), "all: 3 is no object"),
    (line_of(small(latency_ns={"histogram": 3})), "histogram: 3 is no pair"),
    (line_of(small(latency_ns={"histogram": [[1]]})), "[1] is no pair"),
    (line_of(small(timeline=[])), "timeline: [] is no object"),
    (line_of(small(timeline={})), "timeline.op is no list"),
    (line_of(small(timeline={"op": [1], "live": []})), "timeline.live"),
    (line_of(small(timeline={"op": [1], "live": [-1]})), "timeline.live: -1"),
    (line_of(small(map={"segments": [[1, -1]]})), "map.segments: [1, -1]"),
    (line_of(small(map={"blocks": {}})), "map.blocks: {} is no pair"),
])
def test_a_wrong_row_is_named_by_its_line(out, line, message):
    refused_with([line_of(small()), "\n", line], out, message)
    refused_with([line_of(small()), "\n", line], out, "line 3: ")


def test_a_wrong_object_is_named_by_its_place(out):
    refused_with([small(), None], out, "row 2: no object with a kind")


@pytest.mark.parametrize("library", ["plotly", "jinja2"])
def test_without_its_libraries_it_says_what_to_install(out, monkeypatch,
                                                       library):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ImportError, match=r"pip install plotly jinja2"):
        _report.write([small()], out)
    assert not out.exists()


def test_the_program_writes_it_or_says_what_is_wrong(tmp_path, out, capsys):
    rows = tmp_path / "rows.json"
    rows.write_text(line_of(small()))
    assert _report.main([str(rows), str(out)]) == 0
    assert out.read_text().startswith("<!DOCTYPE html>")
    assert capsys.readouterr() == ("", "")
    rows.write_text("{\n")
    assert _report.main([str(rows), str(out)]) == 1
    assert f"{rows}: line 1: no JSON" in capsys.readouterr().err
    assert _report.main([str(tmp_path / "none"), str(out)]) == 1
    assert "No such file" in capsys.readouterr().err
    assert _report.main([]) == 2
    assert "usage:" in capsys.readouterr().err


def test_names_that_are_no_utf_8_are_written(out):
    name = os.fsdecode(b"\xff.mtrace")
    row = small()
    row["trace"]["file"] = name
    _report.write([row], Path(out))
    assert "?.mtrace" in out.read_text()
