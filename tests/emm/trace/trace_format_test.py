# SPDX-License-Identifier: Apache-2.0
"""The format of traces: what is written is what is read, and what a reader
refuses."""

import os
import tracemalloc

import moiety
import pytest
from moiety import trace
from moiety._trace import format as trace_format
from trace_support import SMALL_TRACE, read_all, squeezed, written

MAX = (1 << 64) - 1


def operation(kind, time_ns=0, **fields):
    return trace.Operation(kind, time_ns, "main", **fields)


def test_each_kind_is_read_as_it_is_written(tmp_path):
    made = [
        operation("alloc", id=MAX, size_bytes=1 << 48, stream=0, tag="a b"),
        operation("alloc", id=0, size_bytes=0, stream=1),
        operation("record_use", 3, id=0, stream=MAX - 1),
        operation("export", 3, id=MAX),
        operation("free_requested", 3, id=MAX, stream=2),
        trace.Operation("free", 10**18, "17", id=MAX, stream=0x7f00),
        operation("free_sized", 10**18, id=0, stream=MAX),
        operation("alloc", 10**18, id=0, size_bytes=5, stream=1, tag="é"),
        operation("free_after", 10**18, id=0),
        operation("retire", 10**18, stream=3),
        operation("grow", 10**18, size_bytes=2, stream=0),
        operation("trim", 10**18, size_bytes=1, stream=0),
        operation("oom", (1 << 63) - 1, size_bytes=MAX, stream=0, tag="a b"),
    ]
    assert {one.kind for one in made} == set(trace_format.LETTERS)
    for name in ("a.mtrace", "a.mtrace.gz"):
        with trace.create(tmp_path / name) as writer:
            writer.info("source", "by hand")
            for one in made:
                writer.write(one)
        with trace.read(tmp_path / name) as reader:
            assert list(reader) == made
        assert reader.info == {"source": "by hand"}
        assert reader.threads == ["main", "17"] and reader.tags == ["a b", "é"]
        assert reader.live.peak_bytes == 1 << 48
    assert (tmp_path / name).read_bytes()[:2] == b"\x1f\x8b"
    assert len(list(tmp_path.iterdir())) == 2


def test_the_lines_are_those_of_the_document(tmp_path):
    first, second = list(read_all(tmp_path, SMALL_TRACE))[:2]
    assert first == trace.Operation("alloc", 0, "main", 0, 4096, MAX, "layer 1")
    assert second == trace.Operation("alloc", 10, "17", 1, 1, 0x7f00)
    assert read_all(tmp_path, squeezed(SMALL_TRACE)) == read_all(
        tmp_path, SMALL_TRACE)


START = b"moiety-trace 1\nT 0 main\nS 0 any\n"
BAD = {
    b"": (1, "empty"),
    b"\n": (1, "begins no trace"),
    b"moiety-trace 2\n": (1, "version 1"),
    b"moiety-trace 1": (1, "cut off"),
    b"moiety-trace 1\n": (2, "cut off"),
    START + b"a 0 0 0 1 0\nE 2\n": (5, "the end says 2"),
    START + b"a 0 0 0 1 0\n": (5, "cut off"),
    START + b"a 0 0 0 1 0\nE 1": (5, "cut off"),
    START + b"E 0\n\n": (5, "follow"),
    START + b"E -1\n": (4, "E OPERATIONS"),
    START + b"\n": (4, "no line of a trace"),
    START + b"# a remark\n": (4, "no line of a trace"),
    START + b"a 0 0 0 -5 0\n": (4, "a NS THREAD ID SIZE STREAM [TAG]"),
    START + b"a -1 0 0 1 0\n": (4, "NS"),
    START + b"a 0 0 0 01 0\n": (4, "form"),
    START + b"a 0 0 0 1 0 \n": (4, "form"),
    START + b"a 0 0 0 1 0\r\n": (4, "form"),
    START + b"a 0 0 0 1\n": (4, "form"),
    START + "a 0 0 0 ١ 0\n".encode(): (4, "form"),
    START + b"a 0 0 0 281474976710657 0\n": (4, "above 2^48"),
    START + b"a 0 0 18446744073709551616 1 0\n": (4, "below 2^64"),
    START + b"a 9223372036854775808 0 0 1 0\n": (4, "the time"),
    START + b"a 0 1 0 1 0\n": (4, "the thread 1"),
    START + b"a 0 0 0 1 1\n": (4, "the stream 1"),
    START + b"a 0 0 0 1 0 0\n": (4, "the tag 0"),
    START + b"f 0 0 0 0\n": (4, "free of 0, which is not allocated"),
    START + b"u 0 0 9 0\n": (4, "record_use of 9"),
    START + b"a 0 0 0 1 0\na 0 0 0 1 0\n": (5, "not freed"),
    START + b"a 0 0 0 1 0\nq 0 0 0 0\nq 0 0 0 0\n": (6, "requested before"),
    START + b"a 0 0 0 1 0\nq 0 0 0 0\nu 0 0 0 0\n": (6, "requested before"),
    START + b"T 2 late\n": (4, "1 is next"),
    START + b"T 0 again\n": (4, "1 is next"),
    START + b"T 1 \xff\n": (4, "UTF-8"),
    START + b"T 1 tab\there\n": (4, "control characters"),
    START + b"T 1 " + b"x" * 201 + b"\n": (4, "more than 200"),
    START + "T 1 \x85\n".encode(): (4, "control characters"),
    START + b"T 1 end \n": (4, "ends with a space"),
    START + b"S 1 7f00\n": (4, "the stream '7f00'"),
    START + b"S 1 0x2\n": (4, "the stream '0x2'"),
    START + b"I Key text\n": (4, "I KEY TEXT"),
    START + b"I key a\nI key b\n": (5, "second I line"),
    START + b"a 0 0 0 1 0\0\n": (4, "NUL"),
    START + b"a" * (1 << 20) + b"\n": (4, "longer than 1024"),
    START + b"a" * (1 << 20): (4, "longer than 1024"),
}


@pytest.mark.parametrize("number", range(len(BAD)))
def test_what_a_reader_refuses(tmp_path, number):
    data, (line, words) = list(BAD.items())[number]
    for given in (data, squeezed(data)):
        with pytest.raises(trace.TraceError, match=f"^line {line}: ") as caught:
            read_all(tmp_path, given)
        assert caught.value.line == line and words in str(caught.value)


def test_every_cut_is_seen(tmp_path):
    for data in (SMALL_TRACE, squeezed(SMALL_TRACE)):
        for length in range(len(data)):
            with pytest.raises(trace.TraceError):
                read_all(tmp_path, data[:length])


def test_damage_inside_the_compressed_data_is_told(tmp_path):
    data = bytearray(squeezed(SMALL_TRACE * 1))
    data[-6] ^= 1  # its checksum
    with pytest.raises(trace.TraceError, match="line .*damaged"):
        read_all(tmp_path, bytes(data))


@pytest.mark.parametrize("name, limit", [
    ("LIVE_COUNT_MAX", 3), ("LIVE_BYTES_MAX", 30)])
def test_what_is_live_is_bounded(tmp_path, monkeypatch, name, limit):
    monkeypatch.setattr(trace_format, name, limit)
    data = START + b"".join(b"a 0 0 %d 10 0\n" % i for i in range(3))
    assert len(read_all(tmp_path, data + b"E 3\n")) == 3
    with pytest.raises(trace.TraceError, match="line 7: more than"):
        read_all(tmp_path, data + b"a 0 0 3 10 0\n")


def test_names_are_bounded(tmp_path):
    for letter, name in ((b"T", b"t%d"), (b"S", b"0x%x"), (b"G", b"g%d")):
        lines = [b"%c %d " % (letter, i) + name % (i + 3)
                 for i in range((1 << 16) + 1)]
        data = b"\n".join([b"moiety-trace 1", *lines, b"E 0", b""])
        with pytest.raises(trace.TraceError, match="line 65538: more than"):
            read_all(tmp_path, data)
    lines = b"".join(b"I k%d x\n" % i for i in range(1025))
    with pytest.raises(trace.TraceError, match="line 1026: more than"):
        read_all(tmp_path, b"moiety-trace 1\n" + lines)


WRONG = [
    operation("steal"),
    operation("alloc", -1, id=0, size_bytes=1, stream=0),
    operation("alloc", 1 << 63, id=0, size_bytes=1, stream=0),
    operation("alloc", id=-1, size_bytes=1, stream=0),
    operation("alloc", id=0, size_bytes=-1, stream=0),
    operation("alloc", id=0, size_bytes=(1 << 48) + 1, stream=0),
    operation("alloc", id=0, size_bytes=1),
    operation("alloc", id=0, size_bytes=1, stream=MAX + 1),
    operation("alloc", id=0, size_bytes=1, stream=0, tag="two\nlines"),
    operation("alloc", size_bytes=1, stream=0),
    operation("free", id=0, stream=0),
    operation("alloc", id=0, size_bytes=1, stream=0, tag="\ud800"),
    operation("alloc", id=0, size_bytes=1, stream=0, tag=7),
    operation("free", id=5, size_bytes=1, stream=0),
    operation("free_after", id=5, stream=0),
    trace.Operation("alloc", 0, "", 0, 1, 0),
    operation(["alloc"]),
    operation("alloc", 5.0, id=0, size_bytes=1, stream=0),
    operation("alloc", True, id=0, size_bytes=1, stream=0),
    operation("alloc", id=True, size_bytes=1, stream=0),
    operation("alloc", id=0.0, size_bytes=1, stream=0),
    operation("alloc", id=0, size_bytes=1.5, stream=0),
    operation("alloc", id=0, size_bytes=True, stream=0),
    operation("alloc", id=0, size_bytes="7", stream=0),
    operation("alloc", id=0, size_bytes=1, stream=0.0),
    operation("alloc", id=0, size_bytes=1, stream=False),
    operation("alloc", id=0, size_bytes=1, stream=0, tag=["layer"]),
    operation("alloc", id=0, size_bytes=1, stream=0, tag=b"layer"),
    trace.Operation("alloc", 0, 0, 0, 1, 0),
    trace.Operation("alloc", 0, ["m"], 0, 1, 0),
]


class Whole:
    """As NumPy's integers are."""

    def __init__(self, value):
        self._value = value

    def __index__(self):
        return self._value


def test_whole_numbers_of_other_types_are_written_as_such(tmp_path):
    with trace.create(tmp_path / "a") as writer:
        writer.write(operation("alloc", Whole(5), id=Whole(1 << 60),
                               size_bytes=Whole(7), stream=Whole(9)))
        writer.write(operation("free", Whole(6), id=1 << 60, stream=9))
        assert writer.live.peak_bytes == 7
        assert type(writer.live.peak_bytes) is int
    assert read_all(tmp_path, (tmp_path / "a").read_bytes()) == [
        operation("alloc", 5, id=1 << 60, size_bytes=7, stream=9),
        operation("free", 6, id=1 << 60, stream=9)]


@pytest.mark.parametrize("wrong", WRONG)
def test_what_a_writer_refuses_is_not_in_the_file(tmp_path, wrong):
    good = operation("alloc", id=5, size_bytes=1, stream=0)
    with trace.create(tmp_path / "a") as writer:
        writer.write(good)
        with pytest.raises(trace.TraceError):
            writer.write(wrong)
        for key in ("Key", "", "a b", 7, None):
            with pytest.raises(trace.TraceError):
                writer.info(key, "text")
    with trace.read(tmp_path / "a") as reader:
        assert list(reader) == [good]


def test_a_writer_that_fails_leaves_the_old_file(tmp_path):
    path = written(tmp_path, b"old", "a.mtrace.gz")
    with pytest.raises(ZeroDivisionError), trace.create(path) as writer:
        writer.write(operation("alloc", id=5, size_bytes=1, stream=0))
        1 / 0
    assert path.read_bytes() == b"old" and len(list(tmp_path.iterdir())) == 1


def test_a_pipe_is_written_to_and_stays(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    end = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    with trace.create(path):
        pass
    assert os.read(end, 100) == b"moiety-trace 1\nE 0\n" and path.is_fifo()
    os.close(end)


def test_the_same_operations_are_the_same_bytes(tmp_path):
    for name in ("a.mtrace.gz", "b.mtrace.gz"):
        with trace.create(tmp_path / name) as writer:
            writer.write(operation("alloc", id=5, size_bytes=1, stream=0))
    first, second = ((tmp_path / name).read_bytes()
                     for name in ("a.mtrace.gz", "b.mtrace.gz"))
    assert first == second
    # gzip's header has neither a name nor a time.
    assert first[3:8] == bytes(5)


def test_memory_is_for_what_is_live_not_for_the_file(tmp_path):
    path = tmp_path / "a.mtrace.gz"
    rounds = 6000

    def pairs():
        for i in range(rounds):
            yield operation("alloc", i, id=i % 7, size_bytes=512, stream=0)
            yield operation("free", i, id=i % 7, stream=0)

    tracemalloc.start()
    try:
        with trace.create(path) as writer:
            for one in pairs():
                writer.write(one)
        with trace.read(path) as reader:
            assert sum(1 for _ in reader) == 2 * rounds
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # Kept as objects, the operations would be 2 MB.
    assert peak_bytes < 768 << 10


def test_a_line_without_an_end_is_not_read_whole(tmp_path):
    path = written(tmp_path, squeezed(START + b"a" * (1 << 24)))
    tracemalloc.start()
    try:
        with pytest.raises(trace.TraceError, match="line 4: .*longer"):
            with trace.read(path) as reader:
                list(reader)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 1 << 20


def test_an_id_begins_anew(tmp_path):
    once = b"a 0 0 0 1 0\nq 0 0 0 0\nf 0 0 0 0\n"
    assert len(read_all(tmp_path, START + once * 2 + b"E 6\n")) == 6


def test_the_error_is_a_value_error():
    assert issubclass(moiety.trace.TraceError, ValueError)
