# SPDX-License-Identifier: Apache-2.0
"""The recordings are what index.json says of them, and small. Copies that are
damaged are found out."""

import gzip
import hashlib
import json
import os
import pathlib

import pytest
from moiety._trace.info import collect

BYTES_MAX = 300_000
LISTED = pathlib.Path(os.environ["TEST_SRCDIR"], os.environ["TEST_WORKSPACE"],
                      "bench", "traces")
# With what the BUILD file may have forgotten.
FOLDER = (LISTED / "index.json").resolve().parent
FIELDS = {"file": str, "sha256": str, "what": str, "operations": int,
          "threads": int, "streams": int, "peak_live_bytes": int,
          "recorded_with": dict, "host": str, "driver": str, "date": str,
          "command": str, "licence": str}
RECORDED_FIELDS = {"allocator": str, "version": str,
                   "peak_reserved_bytes": int}


def entries(folder):
    return json.loads((folder / "index.json").read_text())["traces"]


def misnamed(folder):
    """Traces without one entry, entries without one trace."""
    there = sorted(path.name for path in folder.glob("*mtrace*"))
    said = sorted(entry["file"] for entry in entries(folder))
    return [] if there == said else [f"files {there}, entries {said}"]


def lacking(fields, of):
    return [name for name, kind in fields.items()
            if not isinstance(of.get(name), kind) or of[name] in ("", 0, {})]


def unlike(folder, entry):
    """What the file has otherwise than the entry."""
    path = folder / entry["file"]
    data = path.read_bytes()
    wrong = lacking(FIELDS, entry) + lacking(
        RECORDED_FIELDS, entry.get("recorded_with", {}))
    if len(data) >= BYTES_MAX:
        wrong.append(f"{len(data)} bytes")
    if data[:4] != b"\x1f\x8b\x08\0" or data[4:8] != bytes(4):
        wrong.append("not gzip, or a name or a time in it")
    if hashlib.sha256(data).hexdigest() != entry["sha256"]:
        return [*wrong, "sha256"]
    found = collect(path)
    wrong += [name for name in ("operations", "threads", "streams",
                                "peak_live_bytes")
              if found[name] != entry[name]]
    # Known where the recorded allocator's growing is in the trace.
    if found["peak_reserved_bytes"] not in (
            None, entry["recorded_with"]["peak_reserved_bytes"]):
        wrong.append("peak_reserved_bytes")
    return wrong


def complaints(folder):
    return misnamed(folder) + [
        (entry["file"], wrong) for entry in entries(folder)
        if (folder / entry["file"]).exists()
        for wrong in unlike(folder, entry)]


def test_the_recordings_are_what_the_index_says():
    assert len(entries(FOLDER)) >= 3
    assert complaints(FOLDER) == []


def test_the_build_file_lists_all_of_them():
    assert misnamed(LISTED) == []


SMALL = b"""moiety-trace 1
I reserved_before_bytes 0
T 0 main
S 0 legacy
g 0 0 2097152 0
a 0 0 0 4096 0
f 9 0 0 0
E 3
"""


@pytest.fixture
def small(tmp_path):
    """A recording with its entry, in which nothing is wrong."""
    path = tmp_path / "small.mtrace.gz"
    path.write_bytes(gzip.compress(SMALL, mtime=0))
    entry = {"file": path.name, "operations": 3, "threads": 1, "streams": 1,
             "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
             "peak_live_bytes": 4096, "what": "a", "host": "b", "driver": "c",
             "date": "d", "command": "e", "licence": "f", "recorded_with": {
                 "allocator": "g", "version": "h",
                 "peak_reserved_bytes": 2097152}}

    def write(**changes):
        (tmp_path / "index.json").write_text(
            json.dumps({"traces": [entry | changes]}))
        return tmp_path

    assert complaints(write()) == []
    return write, path, entry


def test_a_trace_without_an_entry_is_found(small):
    write, path, _ = small
    (path.parent / "other.mtrace.gz").write_bytes(path.read_bytes())
    assert "other.mtrace.gz" in complaints(write())[0]


def test_an_entry_without_a_trace_is_found(small):
    write, path, _ = small
    path.unlink()
    assert len(complaints(write())) == 1


@pytest.mark.parametrize("field", [
    "operations", "threads", "streams", "peak_live_bytes"])
def test_a_wrong_number_is_found(small, field):
    write, path, entry = small
    assert complaints(write(**{field: entry[field] + 1})) == [
        (path.name, field)]


def test_a_wrong_reserved_peak_is_found(small):
    write, path, entry = small
    recorded = entry["recorded_with"] | {"peak_reserved_bytes": 1}
    assert complaints(write(recorded_with=recorded)) == [
        (path.name, "peak_reserved_bytes")]


@pytest.mark.parametrize("field", ["licence", "command", "date"])
def test_an_empty_field_is_found(small, field):
    write, path, _ = small
    assert complaints(write(**{field: ""})) == [(path.name, field)]


def test_another_byte_is_found(small):
    write, path, _ = small
    data = bytearray(path.read_bytes())
    data[-9] ^= 1
    path.write_bytes(data)
    assert complaints(write()) == [(path.name, "sha256")]


def test_a_time_in_the_file_is_found(small):
    write, path, _ = small
    data = bytearray(path.read_bytes())
    data[4] = 1
    path.write_bytes(data)
    assert [wrong for _, wrong in complaints(write())] == [
        "not gzip, or a name or a time in it", "sha256"]


def test_a_large_file_is_found(small):
    write, path, _ = small
    path.write_bytes(path.read_bytes() + bytes(BYTES_MAX))
    assert f"{path.stat().st_size} bytes" in [
        wrong for _, wrong in complaints(write())]
