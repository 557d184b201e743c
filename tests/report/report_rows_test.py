# SPDX-License-Identifier: Apache-2.0
"""What a report makes of its rows, and what it says about wrong ones. No
browser is needed for that."""

import json
import os
import sys
from pathlib import Path

import pytest
import sample_rows
from binade import _report


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
    return data_of(path, "binade-numbers")


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
    assert " src=" not in page[:page.index("binade-figures")]
    assert "<link" not in page[:page.index("binade-figures")]


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
    assert "1 thread, device held<" in page
    assert page.count('data-field="releases"') == 2  # rounded and exact


def test_who_ran_out_of_memory_is_not_the_best(out):
    _report.write([small(), small(subject="naive", ooms=3,
                                  peak_reserved_bytes=1)], out)
    assert "Not ranked, because memory ran out: naive (3 times)" in \
        out.read_text()
    assert "Least memory: binade" in out.read_text()
    labels = [figure["layout"]["yaxis"]["ticktext"] for figure in
              data_of(out, "binade-figures").values()
              if figure["data"][0]["type"] == "bar"]
    assert len(labels) == 4
    for naive, binade in labels:
        assert naive.startswith("naive, failed<br>")
        assert binade.startswith("binade<br>")


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
    assert "unknown" in out.read_text()


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
              data_of(out, "binade-figures").values()
              for one in figure["data"] if one["type"] == "scatter"}
    for name, op in (("live", 12345), ("reserved", 777)):
        curve = curves[name]
        assert len(curve["x"]) <= 601
        assert curve["y"][curve["x"].index(op)] == 3


def test_no_row_is_an_error(tmp_path, out):
    refused_with([], out, "there is no row of a replay")
    refused_with(["\n", "  \n"], out, "there is no row of a replay")
    refused_with([{"kind": "progress"}], out, "there is no row of a replay")


@pytest.mark.parametrize("line, message", [
    ("{", "no JSON"),
    ('{"kind": NaN}', "no JSON"),
    (b"\xff\xfe", "no JSON"),
    ("[" * 100000, "no JSON"),
    ("[]", "no object with a kind"),
    ("{}", "no object with a kind"),
    ('{"kind": 3}', "no object with a kind"),
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
    with pytest.raises(ImportError, match=r"pip install binade\[report\]"):
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
    name = os.fsdecode(b"\xff.btrace")
    row = small()
    row["trace"]["file"] = name
    _report.write([row], Path(out))
    assert "?.btrace" in out.read_text()
