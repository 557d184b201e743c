# SPDX-License-Identifier: Apache-2.0
"""The inputs that fuzzing found worth keeping: the readers keep to their rule
(trace_rule.py). And so that this can fail, readers that break it."""

import tracemalloc

import pytest
import trace_corpus
import trace_pack
from moiety import trace
from trace_rule import READERS, Breach, check
from trace_support import SMALL_TRACE

PEAK_BYTES_MAX = 16 << 20


@pytest.mark.parametrize("name", READERS)
def test_readers_keep_to_the_rule(name):
    inputs = trace_corpus.load(name)
    assert 20 <= len(set(inputs)) <= trace_corpus.INPUTS_MAX
    assert max(map(len, inputs)) <= trace_corpus.INPUT_BYTES_MAX
    for read in READERS[name]:
        taken = sum(check(read, data) for data in inputs)
        assert 0 < taken < len(inputs)


@pytest.mark.parametrize("name", READERS)
def test_no_input_takes_much_memory(name):
    for data in trace_corpus.load(name):
        tracemalloc.start()
        try:
            for read in READERS[name]:
                check(read, data)
            _, peak_bytes = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak_bytes < PEAK_BYTES_MAX, data


def raises_key_error(file):
    raise KeyError(file.read(1))


def tells_no_place(file):
    raise trace.TraceError("it is wrong")


def tells_two_lines(file):
    raise trace.TraceError("it is\nwrong", line=1)


def imports(file):
    import this  # noqa: F401


def opens(file):
    open("/dev/null", "rb").close()


@pytest.mark.parametrize("reader, what", [
    (raises_key_error, KeyError), (tells_no_place, Breach),
    (tells_two_lines, Breach), (imports, Breach), (opens, Breach)])
def test_readers_that_break_the_rule_are_found(reader, what):
    with pytest.raises(what):
        check(reader, b"something")


def test_a_reader_that_keeps_to_the_rule_is_not():
    def refuses(file):
        raise trace.TraceError("it is wrong", line=1)

    assert not check(refuses, b"something")
    assert check(lambda file: file.read(), b"something")


def test_what_is_packed_is_what_is_loaded(tmp_path):
    inputs = [b"", b"\0\xff\n", b"text"]
    trace_corpus.save("rmm", inputs, tmp_path)
    assert sorted(trace_corpus.load("rmm", tmp_path)) == sorted(inputs)


def test_what_reaches_nothing_more_is_not_packed(tmp_path, monkeypatch):
    for name, data in (("whole", SMALL_TRACE), ("cut", SMALL_TRACE[:-2]),
                       ("cut before", SMALL_TRACE[:-3]), ("none", b"")):
        (tmp_path / name).write_bytes(data)
    saved = []
    monkeypatch.setattr(trace_corpus, "save",
                        lambda reader, inputs: saved.append((reader, inputs)))
    trace_pack.pack("text", tmp_path)
    assert saved == [("text", [b"", SMALL_TRACE[:-3], SMALL_TRACE])]
