# SPDX-License-Identifier: Apache-2.0
"""RMM's log and our own traces as sources: what is kept, what is dropped and
counted, what is refused."""

import tracemalloc

import pytest
from moiety import trace
from moiety._trace.convert import convert
from trace_support import (
    HEADER, SMALL_TRACE, converted, refused, rmm, squeezed, written)

ALLOCATE = "1,10:00:00.000001,allocate,0x7f00,1024,0x0"


def kinds(operations):
    return [(one.kind, one.id, one.time_ns) for one in operations]


def test_a_log_becomes_a_trace(tmp_path):
    done, made, info = converted(tmp_path, rmm(
        ALLOCATE,
        "2,10:00:00.000002,allocate,0x8f00,2048,0x7FAB",
        "2,10:00:00.000003,allocate failure,(nil),18446744073709551615,0x2",
        "2,10:00:01.000001,free,0x7f00,1024,0x7fab",
        "1,10:00:01.000001,allocate,0x9f00,1,0"))
    assert made == [
        trace.Operation("alloc", 0, "1", 0, 1024, 0),
        trace.Operation("alloc", 1000, "2", 1, 2048, 0x7fab),
        trace.Operation("oom", 2000, "2", None, (1 << 64) - 1, 2),
        trace.Operation("free", 10**9, "2", 0, None, 0x7fab),
        trace.Operation("alloc", 10**9, "1", 0, 1, 0)]
    assert info == {"source": "rmm"}
    assert done == {"from": "rmm", "operations": 5, "peak_live_bytes": 3072,
                    "counts": {}}


def test_line_ends_of_windows_and_gzip_are_read_alike(tmp_path):
    plain = rmm(ALLOCATE)
    expected = converted(tmp_path, plain)
    assert converted(tmp_path, plain.replace(b"\n", b"\r\n")) == expected
    assert converted(tmp_path, squeezed(plain)) == expected


def test_what_a_log_lost_is_counted(tmp_path):
    done, made, info = converted(tmp_path, rmm(
        "1,10:00:00.000001,free,0x6f00,8,0x0",      # never allocated
        ALLOCATE,
        ALLOCATE,                                   # without a free between
        "1,10:00:00.000001,free,0x7f00,1000,0x0",   # of another size
        "1,10:00:00.000001,free,0x7f00,1024,0x0",   # twice
        "1,10:00:00.000001,allocate,(nil),0,0x0",
        "1,10:00:00.000001,free,(nil),0,0x0"))
    assert kinds(made) == [("alloc", 0, 0), ("free", 0, 0), ("alloc", 0, 0),
                           ("free", 0, 0)]
    assert done["counts"] == {"dropped_frees": 2, "implied_frees": 1,
                              "null_blocks": 2, "other_sizes": 1}
    assert info.items() >= {"dropped_frees": "2", "implied_frees": "1",
                            "null_blocks": "2", "other_sizes": "1"}.items()


FREE = "1,10:00:00.000002,free,0x7f00,1024,0x0"


def test_a_last_line_that_is_cut_is_counted(tmp_path):
    """As of a program that was killed."""
    expected = converted(tmp_path, rmm(ALLOCATE, FREE))[1]
    for cut in (b"1", b"1,10:00:00.000003,fr", ALLOCATE.encode(),
                b"\0" * 99, b"1,10" + b"\0" * (1 << 17)):
        done, made, info = converted(tmp_path, rmm(ALLOCATE, FREE) + cut)
        assert made == expected
        assert done["counts"] == {"cut_lines": 1} and info["cut_lines"] == "1"


def test_old_logs_have_a_colon_before_microseconds_and_no_thread(tmp_path):
    expected = converted(tmp_path, rmm(ALLOCATE, FREE))[1]
    colons = rmm(ALLOCATE, FREE).replace(b":00.", b":00:")
    assert converted(tmp_path, colons)[1] == expected
    old = b"".join(line.partition(b",")[2]
                   for line in colons.splitlines(keepends=True))
    assert old.startswith(b"Time,")
    _, made, _ = converted(tmp_path, old)
    assert made == [one._replace(thread="all") for one in expected]


def test_what_others_write_around_a_log(tmp_path):
    plain = rmm(ALLOCATE, FREE)
    expected = converted(tmp_path, plain)
    lines = plain.splitlines()
    for data in (
            b"\xef\xbb\xbf" + plain,              # a byte order mark
            plain + b"\n", plain + b"\r\n \n",    # blank last lines
            # The index column of to_csv(), its quotes, and columns of others.
            b"".join(b"%s,%s\n" % (str(i - 1).encode() if i else b"", line)
                     for i, line in enumerate(lines)),
            b"".join(b'"%s"\n' % line.replace(b",", b'","')
                     for line in lines),
            b"".join(b"%s,%s\n" % (line, b"x" if i else b"Note")
                     for i, line in enumerate(lines))):
        assert converted(tmp_path, data) == expected, data
    done, made, _ = converted(tmp_path, b"node7, 1 GPU\n\nbegins\n" + plain)
    assert made == expected[1] and done["counts"] == {"skipped_lines": 2}


def test_of_two_logs_in_a_file_one_is_named(tmp_path):
    first, second = rmm(ALLOCATE, FREE), rmm(ALLOCATE, FREE, FREE)
    both = [converted(tmp_path, one)[1] for one in (first, second)]
    (tmp_path / "out.mtrace").unlink()
    for data, cut_count in ((first + second, 0), (first + b"1,10" + second, 1),
                            (first + b"\n" + second, 0)):
        error = refused(tmp_path, data)
        assert error.line == 4 + (b"\n\n" in data)
        assert "--nth=1" in str(error) and "--nth=2" in str(error)
        error = refused(tmp_path, data, nth=3)
        assert "has 2 logs" in str(error) and "--nth=3" in str(error)
        for nth in (1, 2):
            done, made, _ = converted(tmp_path, data, nth=nth)
            assert made == both[nth - 1]
            assert done["counts"] == (
                {"dropped_frees": 1} if nth == 2 else
                {"cut_lines": 1} if cut_count else {})
        (tmp_path / "out.mtrace").unlink()


def times(folder, *stamps):
    done, made, _ = converted(folder, rmm(*(
        f"1,{stamp},allocate,{i + 1:#x},1,0"
        for i, stamp in enumerate(stamps))))
    return [one.time_ns for one in made], done["counts"]


def test_midnight_and_late_lines(tmp_path):
    assert times(tmp_path, "23:59:59.999999", "00:00:00.000001") == (
        [0, 2000], {})
    assert times(tmp_path, "23:59:59.999999", "00:00:00.000001",
                 "23:59:59.999999", "00:00:00.000002") == (
        [0, 2000, 2000, 3000], {"late_times": 1})
    assert times(tmp_path, "23:59:59.999999", "00:00:00.000001",
                 "13:00:00.000001")[0][2] == 2000 + 13 * 3600 * 10**9
    assert times(tmp_path, "10:00:00.500000", "10:00:00.400000",
                 "10:00:00.500001") == ([0, 0, 1000], {"late_times": 1})
    assert times(tmp_path, "10:00:01.000000", "10:00:00.000000")[1] == {
        "late_times": 1}


def test_the_hour_at_which_summer_time_ends(tmp_path):
    """What was logged late is of before."""
    assert times(tmp_path, "02:59:59.999999", "02:00:00.000001",
                 "02:59:59.999999", "02:00:00.000002", "02:59:59.000000",
                 "03:00:00.000001") == (
        [0, 2000, 2000, 3000, 3599 * 10**9 + 1000, 3600 * 10**9 + 2000],
        {"hours_back": 1, "late_times": 1})
    # Of the day after, over midnight, and where it is midnight itself.
    assert times(tmp_path, "23:59:59.999999", "00:00:00.000001",
                 "01:59:59.000001", "01:00:00.000001")[0][2:] == [
        7199 * 10**9 + 2000, 7200 * 10**9 + 2000]
    assert times(tmp_path, "23:59:59.999999", "23:00:00.000001",
                 "23:59:59.999999", "00:00:00.000001") == (
        [0, 2000, 2000, 3600 * 10**9 + 2000],
        {"hours_back": 1, "late_times": 1})


@pytest.mark.parametrize("before, after", [
    ("12:59:59.999999", "12:00:00.000001"),  # no summer time ends then
    ("02:59:59.999999", "01:59:58.000000"),  # more than an hour
    ("02:20:00.000000", "02:00:00.000000")])  # less
def test_time_that_goes_back_otherwise_is_refused(tmp_path, before, after):
    error = refused(tmp_path, rmm(f"1,{before},allocate,0x1,1,0",
                                  f"1,{after},allocate,0x2,1,0"))
    assert error.line == 3 and "goes back" in str(error)


BAD = {
    b"": (1, "empty"),
    b"Thread,Time\n": (1, "is not Thread,Time"),
    (ALLOCATE + "\n").encode() * 200: (1, "is not Thread,Time"),
    HEADER: (None, "no operation"),
    HEADER[:-1]: (1, "cut off"),
    rmm(ALLOCATE, "Thread,Time,Action,Pointer,Size,Stream"): (3, "second log"),
    rmm(ALLOCATE, "Thread,Time,Action"): (3, "3 fields"),
    rmm(ALLOCATE + ",7"): (2, "7 fields"),
    rmm("x" + ALLOCATE): (2, "Thread is"),
    rmm("-" + ALLOCATE): (2, "Thread is"),
    rmm("9" * 20 + ALLOCATE[1:]): (2, "Thread is"),
    rmm(ALLOCATE.replace("10:", "24:")): (2, "Time is '24:"),
    rmm(ALLOCATE.replace("allocate", "steal")): (2, "Action is 'steal'"),
    rmm(ALLOCATE.replace("0x7f00", "0x")): (2, "Pointer is '0x'"),
    rmm(ALLOCATE.replace("0x7f00", "0x1" + "0" * 16)): (2, "Pointer is"),
    rmm(ALLOCATE.replace("1024", "-1024")): (2, "the size is negative"),
    rmm(ALLOCATE.replace("1024", "281474976710657")): (2, "above 2^48"),
    rmm(ALLOCATE.replace("1024", "9" * 21)): (2, "Size is"),
    rmm(ALLOCATE.replace("1024", "1e3")): (2, "Size is '1e3'"),
    rmm(ALLOCATE.replace("0x0", "main")): (2, "Stream is 'main'"),
    rmm("1,10:00:02.000000,allocate,0x1,1,0",
        "1,10:00:00.999999,allocate,0x2,1,0"): (3, "goes back by 1000001000"),
    rmm(ALLOCATE, ALLOCATE.replace("0x7f00", "\0")): (3, "NUL"),
    rmm(ALLOCATE, "1" * (1 << 20)): (3, "longer than 1024"),
    squeezed(rmm(ALLOCATE))[:-3]: (1, "damaged or cut off"),
}


@pytest.mark.parametrize("number", range(len(BAD)))
def test_what_is_refused(tmp_path, number):
    data, (line, words) = list(BAD.items())[number]
    error = refused(tmp_path, data, "rmm")
    assert error.line == line and words in str(error)


def test_the_format_is_told_by_the_first_bytes(tmp_path):
    assert "empty" in str(refused(tmp_path, b""))
    assert "--from" in str(refused(tmp_path, b"Zhread,Time\n"))
    assert "damaged" in str(refused(tmp_path, b"\x1f\x8bnot gzip"))
    # Named wrong, it is read as what it is called.
    assert refused(tmp_path, SMALL_TRACE, "rmm").line == 1


def test_a_trace_is_converted_to_small_ids_once(tmp_path):
    def trace_of(lines):
        return (b"moiety-trace 1\nI dropped_frees 1\nI host here\nT 0 main\n"
                b"S 0 any\n" + lines + b"E %d\n" % lines.count(b"\n"))
    done, made, info = converted(tmp_path, trace_of(
        b"f 7 0 139637976727552 0\na 2 0 139637976727552 16 0\n"
        b"a 2 0 0 32 0\nf 2 0 0 0\nf 2 0 0 0\na 0 0 64 8 0\n"
        b"q 0 0 64 0\nq 0 0 64 0\n"))
    assert kinds(made) == [
        ("alloc", 0, 2), ("alloc", 1, 4), ("free", 1, 6), ("alloc", 1, 8),
        ("free_requested", 1, 8)]
    assert done["counts"] == {"dropped_frees": 3, "dropped_uses": 1}
    assert info == {"source": "moiety", "host": "here", "dropped_frees": "3",
                    "dropped_uses": "1"}
    once = (tmp_path / "out.mtrace").read_bytes()
    assert converted(tmp_path, once)[1][-1].id == 1
    converted(tmp_path, (tmp_path / "out.mtrace").read_bytes())
    twice = (tmp_path / "out.mtrace").read_bytes()
    converted(tmp_path, twice)
    assert (tmp_path / "out.mtrace").read_bytes() == twice


def test_memory_is_for_what_is_live_not_for_the_log(tmp_path):
    path = written(tmp_path, HEADER)
    with path.open("ab") as file:
        for i in range(10000):
            file.write(b"1,10:00:00.000001,%s,0x%x00,1024,0x0\n"
                       % ((b"allocate", b"free")[i % 2], i // 2 % 7 + 1))
    tracemalloc.start()
    try:
        assert convert(path, tmp_path / "out.mtrace")["operations"] == 10000
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # Kept as objects, the operations would be 2 MB.
    assert peak_bytes < 512 << 10


def test_a_trace_that_is_none_is_refused_with_the_line(tmp_path):
    assert refused(tmp_path, SMALL_TRACE[:-5]).line == 21
    assert refused(tmp_path, SMALL_TRACE.replace(b"E 13", b"E 14")).line == 21
    bad = SMALL_TRACE.replace(b"I source", b"I other_sizes")
    assert "other_sizes" in str(refused(tmp_path, bad))
