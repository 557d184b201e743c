# SPDX-License-Identifier: Apache-2.0
"""PyTorch's snapshots as sources; those that are none, and pickles made to do
harm."""

import collections
import io
import os
import pickle
import pickletools
import struct
import tracemalloc

import pytest
from moiety import trace
from moiety._trace import from_torch, plain_pickle
from moiety._trace.convert import convert
from moiety._trace.format import CONTROL, TEXT_BYTES_MAX
from trace_support import (
    converted, entry, refused, snapshot, squeezed, written)

MIB = 1 << 20


def segment(*blocks, address=0x1000, device=0, total_size=2 * MIB, stream=0):
    return {"device": device, "address": address, "total_size": total_size,
            "stream": stream, "segment_type": "small", "blocks": list(blocks),
            "segment_pool_id": (0, 0), "frames": []}


def block(size, state="active_allocated", **others):
    return {"size": size, "state": state, "frames": [], **others}


@pytest.mark.parametrize("protocol", range(6))
def test_a_snapshot_becomes_a_trace(tmp_path, protocol):
    data = snapshot(
        [], [entry("segment_alloc", size=2 * MIB, stream=1 << 40),
             entry("alloc", size=500, time_us=2, user_metadata="layer\n7"),
             entry("snapshot", addr=0, time_us=3),
             entry("free_requested", size=500, time_us=5),
             entry("free_completed", size=500, time_us=9),
             {"action": "oom", "size": 1 << 60, "stream": 0, "time_us": 9,
              "device_free": 0},
             entry("alloc", size=1, stream=7, time_us=10),
             entry("segment_free", size=2 * MIB, time_us=11)],
        segments=[segment(device=1, total_size=4 * MIB),
                  segment(device=0, total_size=64 * MIB)], protocol=protocol)
    done, made, info = converted(tmp_path, data)
    assert made == [
        trace.Operation("grow", 0, "all", None, 2 * MIB, 1 << 40),
        trace.Operation("alloc", 1000, "all", 0, 500, 0, "layer 7"),
        trace.Operation("free", 8000, "all", 0, None, 0),
        trace.Operation("oom", 8000, "all", None, 1 << 60, 0),
        trace.Operation("alloc", 9000, "all", 0, 1, 7),
        trace.Operation("trim", 10000, "all", None, 2 * MIB, 0)]
    assert info == {"source": "torch", "device": "1", "skipped_entries": "1",
                    "reserved_before_bytes": str(4 * MIB)}
    assert done["counts"] == {"skipped_entries": 1}
    assert converted(tmp_path, squeezed(data))[1] == made


def kinds(operations):
    return [(one.kind, one.id) for one in operations]


def test_a_free_that_waits_for_other_streams_has_both_moments(tmp_path):
    _, made, _ = converted(tmp_path, snapshot([
        entry("alloc"), entry("free_requested", time_us=2),
        entry("alloc", addr=0x3000, time_us=3),
        entry("free_completed", time_us=4),
        entry("free_requested", addr=0x3000, time_us=4)]))
    assert kinds(made) == [
        ("alloc", 0), ("free_requested", 0), ("alloc", 1), ("free", 0),
        ("free_requested", 1)]


def test_an_address_begins_anew(tmp_path):
    done, made, _ = converted(tmp_path, snapshot([
        one for i in range(2) for one in (
            entry("alloc", time_us=i), entry("free_requested", time_us=i),
            entry("oom", time_us=i), entry("free_completed", time_us=i))]))
    assert [one.kind for one in made] == [
        "alloc", "free_requested", "oom", "free"] * 2
    assert done["counts"] == {}


def test_what_the_ring_lost_is_dropped_and_counted(tmp_path):
    done, made, _ = converted(tmp_path, snapshot([
        entry("free_requested", addr=8), entry("free_completed", addr=8),
        entry("free_completed", addr=16), entry("free_requested", addr=24),
        entry("alloc"), entry("alloc", size=7)]))
    assert kinds(made) == [("alloc", 0), ("free", 0), ("alloc", 0)]
    assert done["counts"] == {"dropped_frees": 2, "dropped_uses": 1,
                              "implied_frees": 1}


def test_blocks_that_are_older_than_the_entries_are_allocated_first(tmp_path):
    _, made, _ = converted(tmp_path, snapshot(
        [entry("alloc", addr=0x1200, size=100, time_us=9)],
        segments=[segment(block(512, requested_size=300), block(512),
                          block(512, "inactive"),
                          block(1024, "active_pending_free"), stream=5)]))
    assert made == [
        trace.Operation("alloc", 0, "all", 0, 300, 5, "before"),
        trace.Operation("alloc", 0, "all", 1, 1024, 5, "before"),
        trace.Operation("alloc", 0, "all", 2, 100, 0)]


def test_without_entries_live_blocks_are_the_trace(tmp_path):
    """The program has not recorded, or the ring was emptied."""
    segments = [segment(block(512, requested_size=300), block(512, "inactive"),
                        block(7, address=0x8000), stream=5),
                segment(device=1, total_size=1 << 22)]
    expected = [
        trace.Operation("alloc", 0, "all", 0, 300, 5, "before"),
        trace.Operation("alloc", 0, "all", 1, 7, 5, "before")]
    for data in (snapshot(segments=segments),
                 snapshot([], [], segments=segments),
                 snapshot([entry("snapshot")], segments=segments),
                 # Of torch.cuda.memory_snapshot().
                 pickle.dumps(segments),
                 pickle.dumps({"segments": segments})):
        _, made, info = converted(tmp_path, data)
        assert made == expected
        assert info["device"] == "0"
        assert info["reserved_before_bytes"] == str(2 * MIB)
    assert info["history"] == "none"
    (tmp_path / "out.mtrace").unlink()
    segments.append(segment(block(1), device=1, address=0x9000))
    assert "--device" in str(refused(tmp_path, pickle.dumps(segments)))
    assert "of device 7" in str(refused(tmp_path, pickle.dumps(segments),
                                        device=7))
    assert converted(tmp_path, pickle.dumps(segments),
                     device=1)[1][0].size_bytes == 1


def test_of_pinned_memory_alone_the_host_traces_are_read(tmp_path):
    entries = [entry("alloc", addr=0x1200, size=100, time_us=9)]
    host = {"host_segments": [segment(block(512))], "host_traces": [entries]}
    for data in (host, {**host, "segments": [], "device_traces": [[], []]}):
        _, made, info = converted(tmp_path, pickle.dumps(data))
        assert [one.size_bytes for one in made] == [512, 100]
        assert info["memory"] == "pinned" and info["device"] == "0"
    _, made, info = converted(tmp_path, pickle.dumps(
        {**host, "segments": [], "device_traces": [[], entries]}))
    assert [one.size_bytes for one in made] == [100]
    assert "memory" not in info and info["device"] == "1"


@pytest.mark.parametrize("protocol", range(6))
def test_what_programs_put_into_a_snapshot_is_passed_over(tmp_path, protocol):
    plain = {"segments": [segment(block(512))], "device_traces": [
        [entry("alloc", addr=0x3000)]]}
    expected = converted(tmp_path, pickle.dumps(plain))
    odd = {1: 2.5, "set": {1, 2}, "frozen": frozenset("ab"), None: b"bytes",
           (1, 2): (3, [4]), "deep": {"a": [{"b": bytearray(3)}]}, -1: 1 << 99,
           1.5: -1.5e300, "long": 1 << 40, True: False, "é\n\\'": "é\0"}
    made = collections.OrderedDict(plain, notes=odd, settings=[odd, odd])
    made["segments"] = [collections.OrderedDict(
        one, odd=odd, frames=[odd, {}]) for one in plain["segments"]]
    made["device_traces"] = [[collections.OrderedDict(
        one, user_metadata=odd, time_us=1.0, odd=odd)
        for one in plain["device_traces"][0]]]
    data = pickle.dumps(made, protocol)
    for one in (data, pickletools.optimize(data),
                # As Python 2 wrote it, whose memo began with 1.
                pickle_of_python_2(made) if protocol == 0 else data):
        assert converted(tmp_path, one) == expected


def pickle_of_python_2(snapshot):
    class Python2(pickle._Pickler):
        def memoize(self, value):
            self.memo[id(value)] = len(self.memo) + 1, value
            self.write(self.put(len(self.memo)))

        def save_str(self, value):
            text = repr(value.encode("utf-8"))[1:].encode()
            self.write(b"S" + text + b"\n")

        dispatch = {**pickle._Pickler.dispatch, str: save_str}

    target = io.BytesIO()
    Python2(target, 0).dump(snapshot)
    return target.getvalue()


def test_an_entry_that_is_named_twice(tmp_path):
    shared = entry("alloc")
    assert converted(tmp_path, snapshot([shared] * 3))[0]["counts"] == {
        "implied_frees": 2}


def test_segments_do_not_share_their_blocks(tmp_path):
    """A few bytes would name the same list again and again: so many blocks for
    each segment, where there is room for so many segments."""
    shared = segment(*[block(512)] * 100)
    error = refused(tmp_path, snapshot([entry("alloc")],
                                       segments=[segment()] * 2 + [shared] * 2))
    assert str(error) == "segment 3: its blocks are another segment's"


def test_of_a_long_tag_no_more_is_read_than_is_kept(tmp_path, monkeypatch):
    """One text can be named at every entry."""
    class Control:
        read_count = 0

        @staticmethod
        def sub(new, text):
            Control.read_count += len(text)
            return CONTROL.sub(new, text)

    monkeypatch.setattr(from_torch, "CONTROL", Control)
    shared = entry("alloc", user_metadata="a\n" + "é" * 10**5)
    _, made, _ = converted(tmp_path, snapshot([shared] * 30))
    assert {one.tag for one in made if one.kind == "alloc"} == {
        "a " + "é" * 99}
    assert Control.read_count <= 30 * TEXT_BYTES_MAX


def test_snapshots_without_times_have_an_order_only(tmp_path):
    entries = [entry("alloc"), entry("alloc", addr=8)]
    for one in entries:
        del one["time_us"]
    assert [one.time_ns for one in
            converted(tmp_path, snapshot(entries))[1]] == [0, 0]


def test_of_several_devices_one_is_named(tmp_path):
    data = snapshot([entry("alloc", size=1)], [entry("alloc", size=2)])
    assert "--device" in str(refused(tmp_path, data))
    assert converted(tmp_path, data, device=1)[1][0].size_bytes == 2
    (tmp_path / "out.mtrace").unlink()
    assert "of device 2" in str(refused(tmp_path, data, device=2))


def one_of(**others):
    return snapshot([entry("alloc"), {**entry("alloc", addr=8), **others}])


NO_SNAPSHOTS = [
    (snapshot(), "no entries"),
    (snapshot([], []), "_record_memory_history"),
    (snapshot([entry("snapshot")]), "no entry is about memory"),
    (pickle.dumps([1]), "has a list"),
    (pickle.dumps({}), "'segments' is missing"),
    (pickle.dumps({"device_traces": [1]}), "device_traces[0] is a int"),
    (pickle.dumps({"device_traces": {}}), "'device_traces' is a dict"),
    (pickle.dumps({"device_traces": [[entry("alloc")]]}), "'segments'"),
    (snapshot([7]), "entry 0 is a int"),
    (one_of(action=None), "entry 1: 'action' is a NoneType"),
    (one_of(addr="x"), "entry 1: 'addr' is a str"),
    (one_of(addr=-8), "entry 1: 'addr' is -8"),
    (one_of(addr=1 << 64), "entry 1: 'addr' is 18446744073709551616"),
    (one_of(size=True), "entry 1: 'size' is a bool"),
    (one_of(size={1}), "entry 1: 'size' is a set or an object"),
    (pickle.dumps([pickle.loads(snapshot([entry("alloc")]))] * 2), "a list"),
    (one_of(size=-1), "entry 1: the size is negative: -1"),
    (one_of(size=1 << 60), "entry 1: the size, 1152921504606846976 bytes"),
    (one_of(stream=-1), "entry 1: 'stream' is -1"),
    (one_of(time_us=float("inf")), "entry 1: 'time_us' is a float"),
    (one_of(time_us="1"), "entry 1: 'time_us' is a str"),
    (one_of(time_us=1 << 62), "entry 1: the time"),
    (snapshot([entry("alloc", time_us=2 * 10**6),
               entry("alloc", addr=8, time_us=0)]), "entry 1: the time goes"),
    (snapshot([entry("alloc")], segments=[{}]), "segment 0: 'device'"),
    (snapshot([entry("alloc")], segments=[segment(7)]), "block 0 is a int"),
    (snapshot([entry("alloc")], segments=[segment(block(-1))]), "block 0"),
    (snapshot([entry("alloc")], segments=[
        segment(block(1, requested_size=-1), address=8)]),
     "block 0: the size is negative"),
]


@pytest.mark.parametrize("number", range(len(NO_SNAPSHOTS)))
def test_what_is_no_snapshot_is_refused(tmp_path, number):
    data, words = NO_SNAPSHOTS[number]
    assert words in str(refused(tmp_path, data))


class Command:
    """A pickle of it runs a command where it is loaded."""

    def __init__(self, path):
        self._path = path

    def __reduce__(self):
        return os.system, (f"touch '{self._path}'",)


@pytest.mark.parametrize("protocol", range(6))
def test_a_pickle_that_would_run_a_command_is_refused(tmp_path, protocol):
    proof = tmp_path.parent / f"ran-{protocol}"
    data = pickle.dumps({"device_traces": [[Command(proof)]]}, protocol)
    error = refused(tmp_path, data)
    assert "names a class" in str(error) and 0 < error.offset <= len(data)
    assert not proof.exists()
    pickle.loads(data)  # the same bytes do it elsewhere
    assert proof.exists()


BEGIN = b"\x80\x04"


def long_text(count):
    return b"\x8d" + struct.pack("<Q", count)


HARMFUL = {
    "class": (BEGIN + b"cos\nsystem\n.", "GLOBAL"),
    "call": (BEGIN + b"N)R.", "REDUCE"),
    "calls": (BEGIN + b"N" + b")R" * 10**5 + b".", "REDUCE"),
    "persistent": (BEGIN + b"Pid\n.", "PERSID"),
    "extension": (BEGIN + b"\x82\x01.", "EXT1"),
    "instance": (BEGIN + b"(ios\nsystem\n.", "INST"),
    "name": (BEGIN + b"ccollections\nOrderedDict\nN\x85R.", "REDUCE"),
    "long name": (b"\x80\x04c" + b"x" * 10**6 + b"\nx\n.", "GLOBAL"),
    "deep name": (BEGIN + b")" + b"\x85" * 10**5 + b"N\x93.", "STACK_GLOBAL"),
    "text": (BEGIN + b"I1\n.", "has a int"),
    "long line": (BEGIN + b"I" + b"1" * (1 << 21), "a line is longer"),
    "many digits": (BEGIN + b"I" + b"1" * 99 + b"\n.", "an integer is"),
    "no float": (BEGIN + b"Fx\n.", "a number is"),
    "no quotes": (BEGIN + b"Sx\n.", "no quotes"),
    "negative place": (b"(lp-1\n.", "no place in the memo"),
    "set": (BEGIN + b"\x8f.", "has a set or"),
    "no set": (BEGIN + b"N(N\x90.", "no set"),
    "new": (b"\x80\x06N.", "protocol 6"),
    "long": (BEGIN + long_text(1 << 62) + b"x", "longer"),
    "missing": (BEGIN + long_text(1 << 20) + b"x", "cut off"),
    "integer": (BEGIN + b"\x8a\xff" + b"x" * 255 + b".", "255 bytes"),
    "memo": (BEGIN + b"h\x07.", "not in the memo"),
    "underflow": (BEGIN + b"0.", "missing"),
    "no mark": (BEGIN + b"t.", "mark"),
    "pair": (BEGIN + b"K\x01\x86.", "missing"),
    "nothing": (BEGIN + b".", "none"),
    "too much": (BEGIN + b"NN.", "left over"),
    "open mark": (BEGIN + b"(N.", "left over"),
    "after": (BEGIN + b"N.N", "goes on"),
    "no list": (BEGIN + b"NNa.", "no list"),
    "no dict": (BEGIN + b"](u.", "no dict"),
    "half": (BEGIN + b"}(X\x01\x00\x00\x00au.", "without a value"),
    "integer key": (BEGIN + b"}K\x01Ns.", "is missing"),
    "deep key": (BEGIN + b"}" + b")" + b"\x85" * 10**5 + b"Ns.", "is missing"),
    "deep lists": (BEGIN + b"]" * 10**5 + b"a" * 10**5 + b".", "no list"),
    "deep marks": (BEGIN + b"(" * 10**5 + b".", "marks are open"),
    "deep": (BEGIN + b"]" * 10**5 + b"a" * (10**5 - 1) + b".", "has a list"),
    "deep tuples": (BEGIN + b")" + b"\x85" * 10**5 + b".", "has a tuple"),
    "cut": (BEGIN + b"]", "cut off"),
    # A memo of C grows to the index that it is told: 64 GB for this one.
    "memo index": (BEGIN + b"]r\xff\xff\xff\xff.", "has a list"),
    "in itself": (BEGIN + b"]q\x00h\x00a.", "has a list"),
}


@pytest.mark.parametrize("name", HARMFUL)
def test_harmful_pickles_are_refused(tmp_path, name):
    data, words = HARMFUL[name]
    assert words in str(refused(tmp_path, data))


def test_what_a_pickle_may_take_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(plain_pickle, "MEMORY_BYTES_MAX", 1 << 20)
    doubling = b"](N" + b"\x94h\x00" * 10**5 + b"e."  # of the memo
    keys = b"".join(b"\x8c\x01%c\x94" % (32 + i) for i in range(90))
    entries = b"".join(b"h%ch\0" % i for i in range(90))
    for body in (
            keys + b"0" * 90 + (b"}(" + entries + b"u") * 200, b"]" * 10**5,
            b"N\x94" * 10**5, b"NNN\x87" * 10**5, b"(l" * 10**5, doubling,
            b"](" + b"}X\x01\x00\x00\x00aNs" * 10**5):
        error = refused(tmp_path, BEGIN + body)
        assert "takes more than 1048576 bytes" in str(error)
        # A byte of the file is worth some bytes of memory, not thousands.
        assert error.offset > 1000


@pytest.mark.parametrize("body", [
    b"]" * 50000, b"}" * 50000, b"]\x94" * 50000, b")" + b"\x85" * 50000,
    b"\x8c\x04\xf0\x9f\x98\x80" * 50000,
    (b"X\xa0\x0f\0\0" + b"\xf0\x9f\x98\x80" * 1000) * 1000,
    b"\x8c\x01a\x94" + b"}h\0h\0s" * 50000, b"](Ne" * 50000,
    (b"\x8a\x10" + b"\x7f" * 16) * 50000],
    ids=lambda body: repr(body[:8]))
def test_what_is_added_up_is_what_is_taken(tmp_path, monkeypatch, body):
    monkeypatch.setattr(plain_pickle, "MEMORY_BYTES_MAX", 1 << 20)
    path = written(tmp_path, BEGIN + body)
    tracemalloc.start()
    try:
        with pytest.raises(trace.TraceError):
            convert(path, tmp_path / "out.mtrace")
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 2 << 20


def test_of_a_pickle_only_so_much_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(plain_pickle, "FILE_BYTES_MAX", 1 << 17)
    error = refused(tmp_path, squeezed(BEGIN + b"N0" * 10**6))
    assert "larger than 131072 bytes" in str(error)
    assert error.offset == 1 << 17


def test_every_cut_is_seen(tmp_path):
    data = snapshot([entry("alloc"), entry("free_completed", time_us=2)])
    for length in range(1, len(data)):
        error = refused(tmp_path, data[:length], "torch")
        assert error.offset is not None and error.offset <= length
