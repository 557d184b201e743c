# SPDX-License-Identifier: Apache-2.0
"""What the tests of traces do alike."""

import gzip
import pickle

import pytest
from moiety import trace
from moiety._trace.convert import Options, convert

HEADER = b"Thread,Time,Action,Pointer,Size,Stream\n"


def written(folder, data, name="in"):
    path = folder / name
    path.write_bytes(data)
    return path


def converted(folder, data, source=None, **options):
    """(what convert() returned, the operations, the I lines) of these bytes."""
    target = folder / "out.mtrace"
    done = convert(written(folder, data), target, source, Options(**options))
    with trace.read(target) as reader:
        return done, list(reader), reader.info


def refused(folder, data, source=None, **options):
    """The TraceError, which leaves nothing behind."""
    with pytest.raises(trace.TraceError) as caught:
        convert(written(folder, data), folder / "out.mtrace", source,
                Options(**options))
    assert [path.name for path in folder.iterdir()] == ["in"]
    return caught.value


def rmm(*lines):
    return HEADER + b"".join(line.encode() + b"\n" for line in lines)


def entry(action, addr=0x1000, size=512, stream=0, time_us=1, **others):
    """As device_traces has them."""
    return {"action": action, "addr": addr, "size": size, "stream": stream,
            "time_us": time_us, "frames": [
                {"name": "main", "filename": "a.py", "line": 1}], **others}


def snapshot(*traces, segments=(), protocol=4):
    return pickle.dumps({"segments": list(segments),
                         "device_traces": list(traces),
                         "allocator_settings": {"expandable": False}}, protocol)


SMALL_TRACE = b"""moiety-trace 1
I source hand
T 0 main
S 0 any
G 0 layer 1
a 0 0 0 4096 0 0
T 1 17
S 1 0x7f00
a 10 1 1 1 1
u 0 1 1 0
q 5 0 0 0
f 5 1 0 1
x 0 0 1
r 0 0 1
g 1 0 2097152 1
t 1 0 2097152 1
o 1 1 18446744073709551615 0
w 1 1 1
a 0 0 7 0 0
s 0 0 7 0
E 13
"""


def read_all(folder, data):
    with trace.read(written(folder, data)) as reader:
        return list(reader)


def squeezed(data):
    return gzip.compress(data, mtime=0)


# A whole file of each kind or more, for damage to be done to them.
LOG = rmm(*(f"{i % 3},23:59:59.99999{i},{action},0x{i // 2:x}00,{1 << i},0x{i}"
            for i in range(8)
            for action in ("allocate", "free", "allocate failure")))
ENTRIES = [entry(action, addr=i // 3, time_us=i, user_metadata="a")
           for i, action in enumerate((
               "segment_alloc", "alloc", "free_requested", "alloc",
               "free_completed", "oom", "segment_free"))]
SEGMENT = {"device": 0, "address": 8, "total_size": 1024, "stream": 0,
           "blocks": [{"size": 512, "state": "active_allocated"}]}

SEEDS = {
    "text": [SMALL_TRACE],
    "rmm": [LOG],
    "torch": [snapshot(ENTRIES, segments=[SEGMENT], protocol=protocol)
              for protocol in (0, 2, 4)],
}
