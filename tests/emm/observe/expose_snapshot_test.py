# SPDX-License-Identifier: Apache-2.0
"""`python -m moiety snapshot`: PyTorch's pickle and the map."""

import io
import json
import os
import pickle
import pickletools
from xml.etree import ElementTree

import moiety
import pytest
from moiety import observe, trace
from moiety._trace.convert import Options, convert
from expose_support import exposed, run

MIB = 1 << 20
SVG = "{http://www.w3.org/2000/svg}"
# What the unpickler of PyTorch's viewer knows.
VIEWERS_OPCODES = {
    "PROTO", "FRAME", "MARK", "STOP", "EMPTY_DICT", "EMPTY_LIST", "EMPTY_TUPLE",
    "APPEND", "APPENDS", "SETITEM", "SETITEMS", "BINGET", "LONG_BINGET",
    "MEMOIZE", "BININT", "BININT1", "BININT2", "LONG1", "NEWTRUE", "NEWFALSE",
    "NONE", "SHORT_BINUNICODE", "BINUNICODE", "TUPLE1", "TUPLE2", "TUPLE3",
    "TUPLE"}


@pytest.fixture
def used():
    """A pool with a history in which blocks were freed in every way."""
    with moiety.Pool(history_entries=4096, memory="driver",
                     first_segment_bytes=32 * MIB) as pool:
        blocks = [pool.alloc(30000 * i) for i in range(1, 20)]
        blocks.append(pool.alloc(70 * MIB))
        del blocks[3:9]
        yield pool
        del blocks


class Builtins(pickle.Unpickler):
    def find_class(self, module, name):
        raise AssertionError((module, name))


def loaded(data):
    assert {one.name for one, _, _ in pickletools.genops(data)} \
        <= VIEWERS_OPCODES
    return Builtins(io.BytesIO(data)).load()


def dumped(answer):
    file = io.BytesIO()
    observe.write_pickle(answer, file)
    return file.getvalue()


def go_back(snapshot, device):
    """Undoes the entries one by one, as the viewer does, and looks at what was
    there before the first. An entry that could not have been is an error."""
    live = {}
    for segment in snapshot["segments"]:
        if segment["device"] == device:
            for block in segment["blocks"]:
                if block["state"] != "inactive":
                    live[block["address"]] = block["state"]
    for entry in reversed(snapshot["device_traces"][device]):
        address = entry.get("addr")
        if entry["action"] == "free_completed":
            assert address not in live
            live[address] = "active_pending_free"
        elif entry["action"] == "free_requested":
            assert live[address] == "active_pending_free"
            live[address] = "active_allocated"
        elif entry["action"] == "alloc":
            assert live.pop(address) == "active_allocated"
        else:
            assert entry["action"] == "oom"
    return live


def check(snapshot, pool):
    """What PyTorch's own functions rely on; and the pool's sums."""
    stats = pool.stats().as_dict()
    for segment in snapshot["segments"]:
        at, sums = segment["address"], {}
        for block in segment["blocks"]:
            assert block["address"] == at
            assert 0 < block["requested_size"] <= block["size"]
            at += block["size"]
            sums[block["state"]] = sums.get(block["state"], 0) + block["size"]
            for frame in block["frames"]:
                assert frame.keys() == {"name", "filename", "line"}
        assert at == segment["address"] + segment["total_size"]
        assert segment["allocated_size"] == sums.get("active_allocated", 0)
        assert segment["active_size"] == (
            segment["allocated_size"] + sums.get("active_pending_free", 0))
    for key, name in (("total_size", "reserved_bytes.all.current"),
                      ("allocated_size", "allocated_bytes.all.current")):
        assert sum(one[key] for one in snapshot["segments"]) == stats[name]
    times = [one["time_us"] for one in snapshot["device_traces"][0]]
    assert times == sorted(times)
    assert go_back(snapshot, 0) == {}


def test_pickle_of_a_process(used, tmp_path):
    out = tmp_path / "now.pickle"
    with exposed() as path:
        done = run("snapshot", path, "--out", out)
        assert (done.returncode, done.stderr) == (0, "")
        snapshot = loaded(out.read_bytes())
    check(snapshot, used)
    assert len(snapshot["segments"]) == 2
    actions = [one["action"] for one in snapshot["device_traces"][0]]
    assert actions.count("alloc") == 20
    assert actions.count("free_completed") == 6
    assert "now.pickle" in done.stdout and "segments 2" in done.stdout
    asked = {30000 * i for i in range(1, 20)} - {30000 * i for i in
                                                 range(4, 10)} | {70 * MIB}
    assert asked == {block["requested_size"]
                     for segment in snapshot["segments"]
                     for block in segment["blocks"]
                     if block["state"] == "active_allocated"}


def test_pickle_of_a_pool_of_ones_own(used):
    snapshot = loaded(dumped(observe.snapshot(used)))
    check(snapshot, used)
    with moiety.Pool() as silent:
        block = silent.alloc(9)
        both = loaded(dumped(observe.snapshot([used, silent])))
        assert len(both["segments"]) == len(snapshot["segments"]) + 1
        assert go_back(both, 0) == {block.address: "active_allocated"}
        block.free()


def test_work_that_is_not_over_is_pending(driver):
    stream = driver.stream()
    # What does not fit into the thread's cache waits for its work.
    with moiety.Pool(history_entries=4096, thread_cache_bytes=4 * MIB) as pool:
        with driver.held(stream):
            for block in [pool.alloc(MIB, stream.value) for _ in range(50)]:
                block.free(stream.value)
            answer = observe.snapshot(pool)
            check(loaded(dumped(answer)), pool)
        snapshot = loaded(dumped(answer))
        waiting = sum(one["size_bytes"] for one in
                      answer["pools"][0]["intervals"]
                      if one["kind"] == "retiring")
        assert waiting >= 10 * MIB
        assert waiting == sum(one["active_size"] - one["allocated_size"]
                              for one in snapshot["segments"])
        actions = [one["action"] for one in snapshot["device_traces"][0]]
        assert actions.count("alloc") == actions.count("free_requested") == 50
        assert 50 * MIB - waiting == MIB * actions.count("free_completed")


def test_out_of_memory_is_in_the_trace():
    with moiety.Pool(history_entries=64, limit=64 * MIB,
                     wait_ms=0) as pool:
        block = pool.alloc(40 * MIB)
        with pytest.raises(moiety.OutOfMemoryError):
            pool.alloc(50 * MIB)
        snapshot = loaded(dumped(observe.snapshot(pool)))
        [oom] = [one for one in snapshot["device_traces"][0]
                 if one["action"] == "oom"]
        assert (oom["size"], oom["device_free"]) == (50 * MIB, 0)
        assert "addr" not in oom
        block.free()


def test_our_converter_reads_it(used, tmp_path):
    source, target = tmp_path / "now.pickle", tmp_path / "now.mtrace"
    source.write_bytes(dumped(observe.snapshot(used)))
    done = convert(source, target, None, Options(None))
    assert done["from"] == "torch"
    with trace.read(target) as reader:
        kinds = [one.kind for one in reader]
    assert kinds.count("alloc") == 20 and kinds.count("free") == 6
    assert done["peak_live_bytes"] == sum(
        30000 * i for i in range(1, 20)) + 70 * MIB


def test_pinned_memory_is_not_the_devices(used, arena):
    block = arena.alloc(5000)
    with exposed() as path:
        snapshot = loaded(dumped(observe.snapshot(path)))
    check(snapshot, used)
    [segment] = snapshot["host_segments"]
    assert segment["total_size"] == 4 * MIB
    assert segment["allocated_size"] == 5120
    block.free()


def rects(root, kind):
    return [one for one in root.iter(f"{SVG}rect") if one.get("class") == kind
            and one.find(f"{SVG}title") is not None]


def test_map(used, tmp_path):
    out = tmp_path / "map.svg"
    with exposed() as path:
        done = run("snapshot", path, "--out", out, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    about = json.loads(done.stdout)
    assert (about["segments"], about["pid"]) == (2, os.getpid())
    root = ElementTree.fromstring(out.read_bytes())
    assert root.tag == f"{SVG}svg" and str(os.getpid()) in root[0].text
    frames = [one for one in root.iter(f"{SVG}rect")
              if one.get("class") == "frame"]
    assert len(frames) == 2
    # The pieces fill the rows.
    for frame in frames:
        width = sum(float(one.get("width")) for kind in
                    ("used", "cached", "free") for one in rects(root, kind)
                    if one.get("y") == frame.get("y"))
        assert abs(width - float(frame.get("width"))) < 1
    assert any("70 MiB in use" in one[0].text for one in rects(root, "used"))
    texts = [one.text for one in root.iter(f"{SVG}text")]
    assert any("in use: " in text for text in texts)
    assert "prefers-color-scheme: dark" in out.read_text()


def test_mapped_memory_has_holes_in_the_map_and_is_expandable():
    with moiety.Pool(memory="mapped") as pool:
        blocks = [pool.alloc(size * MIB, moiety.LEGACY)
                  for size in (32, 2, 32, 2)]
        blocks[0].free()
        blocks[2].free()
        large = pool.alloc(64 * MIB, moiety.LEGACY)
        memory = observe.snapshot(pool)
        assert large.is_live
    root = ElementTree.fromstring(observe.svg(memory))
    holes = [one.text for one in root.iter(f"{SVG}text")
             if "without memory" in one.text]
    assert holes == ["32 MiB of addresses without memory"]
    file = io.BytesIO()
    observe.write_pickle(memory, file)
    segments = pickle.loads(file.getvalue())["segments"]
    assert [one["is_expandable"] for one in segments] == [True, True]


def test_map_is_small_whatever_it_shows():
    intervals = [{"address": i * 512, "size_bytes": 512, "thread_id": 0,
                  "kind": ("used", "free", "<new>")[i % 3]}
                 for i in range(100000)]
    pool = {"id": 1, "device": 0, "source": "<&>", "intervals": intervals,
            "segments": [{"address": 0, "size_bytes": 512 * 100000,
                          "first_interval": 0, "interval_count": 100000}]
            + [{"address": 1 << 40, "size_bytes": 0, "first_interval": 0,
                "interval_count": 0}] * 1000}
    text = observe.svg({"version": "1", "pid": 2, "pools": [pool]})
    root = ElementTree.fromstring(text)
    assert len(text) < 400000
    assert any("and 601 smaller segments" == one.text
               for one in root.iter(f"{SVG}text"))
    empty = ElementTree.fromstring(
        observe.svg({"version": "1", "pid": 2, "pools": []}))
    assert any("no segments" == one.text for one in empty.iter(f"{SVG}text"))


def test_files_are_whole_or_not_there(used, tmp_path):
    with exposed() as path:
        done = run("snapshot", path, "--out", tmp_path / "a.gif")
        assert done.returncode == 2 and ".pickle, .svg, .json" in done.stderr
        done = run("snapshot", path, "--out", tmp_path / "no" / "a.svg")
        assert done.returncode == 1 and done.stderr.startswith(
            f"moiety: {tmp_path}/no/a.svg: No such file")
        full = tmp_path / "full.json"
        full.symlink_to("/dev/full")
        done = run("snapshot", path, "--out", full)
        assert done.returncode == 1 and done.stderr == (
            f"moiety: {full}: No space left on device\n")
        full.unlink()
        done = run("snapshot", path, "--out", tmp_path / "a.json")
        assert done.returncode == 0
        answer = json.loads((tmp_path / "a.json").read_text())
        assert answer["request"] == "snapshot"
        before = (tmp_path / "a.json").read_text()
    done = run("snapshot", path, "--out", tmp_path / "a.json")
    assert done.returncode == 1 and "No such file" in done.stderr
    assert [one.name for one in tmp_path.iterdir()] == ["a.json"]
    assert (tmp_path / "a.json").read_text() == before
