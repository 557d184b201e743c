# SPDX-License-Identifier: Apache-2.0
"""Reads pickles that have nothing but None, booleans, numbers, text, bytes,
lists, tuples and dictionaries, from files that nobody vouches for.

Not with a pickle.Unpickler whose find_class() refuses: before that is asked, a
few bytes can make it allocate gigabytes, or hash what is nested without end.
This machine knows no operation that names or calls anything. Each length is
checked before memory is taken for it, what is made is added up, keys are text,
so that no hash is the file's choice, and nothing in here recurses.
"""

import struct

from moiety._trace.files import damage_told
from moiety._trace.format import TraceError

FILE_BYTES_MAX = 1 << 30
STRING_BYTES_MAX = 1 << 20
INTEGER_BYTES_MAX = 16
MEMORY_BYTES_MAX = 1 << 32
DEPTH_MAX = 100
_CHUNK_BYTES = 1 << 16

# What things take, roughly.
_SLOT_BYTES = 8
_VALUE_BYTES = 72
_ENTRY_BYTES = 100

_REFUSED = {
    b"c": "GLOBAL", b"\x93": "STACK_GLOBAL", b"R": "REDUCE", b"b": "BUILD",
    b"i": "INST", b"o": "OBJ", b"\x81": "NEWOBJ", b"\x92": "NEWOBJ_EX",
    b"\x82": "EXT1", b"\x83": "EXT2", b"\x84": "EXT4", b"P": "PERSID",
    b"Q": "BINPERSID", b"\x97": "NEXT_BUFFER", b"\x98": "READONLY_BUFFER"}

_U8, _U16, _U32, _U64, _I32, _F64 = map(
    struct.Struct, ("<B", "<H", "<I", "<Q", "<i", ">d"))


class _Machine:
    def __init__(self, file):
        self._file = file
        self._chunk = b""  # what was read, from the file's offset _start on
        self._start = 0
        self._place = 0  # of what is next, in the chunk
        self._stack = []
        self._outer = []  # stacks below a mark
        self._memo = {}
        self._memory_bytes = 0

    @property
    def offset(self):
        return self._start + self._place

    def run(self):
        while (code := self._take(1)) != b".":
            if code not in _OPCODES:
                self._refuse(code)
            _OPCODES[code](self)
        if self._outer or len(self._stack) != 1:
            self._fail("the pickle ends with values left over, or with none")
        with damage_told(offset=self.offset):
            is_more = self._place < len(self._chunk) or self._file.read(1)
        if is_more:
            self._fail("the file goes on after the pickle's end")
        return self._stack[0]

    def _refuse(self, code):
        if code in _REFUSED:
            self._fail(f"{_REFUSED[code]} names a class or calls a function: "
                       f"refused")
        self._fail(f"{code!r} is no operation of a snapshot's pickle")

    def _fail(self, message):
        raise TraceError(message, offset=self.offset)

    def _take(self, count):
        end = self._place + count
        if end > len(self._chunk):
            self._read_on(count)
            end = count
        taken = self._chunk[self._place:end]
        self._place = end
        return taken

    def _read_on(self, count):
        """So that the chunk begins with the next bytes, at least `count`."""
        if self.offset + count > FILE_BYTES_MAX:
            self._fail(f"the pickle is larger than {FILE_BYTES_MAX} bytes")
        left = self._chunk[self._place:]
        with damage_told(offset=self.offset):
            more = self._file.read(max(_CHUNK_BYTES, count) - len(left))
        if len(left) + len(more) < count:
            self._fail("the pickle is cut off")
        self._start += self._place
        self._chunk = left + more
        self._place = 0

    def _number(self, form):
        return form.unpack(self._take(form.size))[0]

    def _charge(self, memory_bytes):
        self._memory_bytes += memory_bytes
        if self._memory_bytes > MEMORY_BYTES_MAX:
            self._fail(f"what the pickle has takes more than "
                       f"{MEMORY_BYTES_MAX} bytes")

    def _push(self, value, memory_bytes=_VALUE_BYTES):
        self._charge(memory_bytes)
        self._stack.append(value)

    def _pop(self):
        if not self._stack:
            self._fail("a value is missing")
        return self._stack.pop()

    def _top(self, kind):
        if not self._stack or type(self._stack[-1]) is not kind:
            self._fail(f"there is no {kind.__name__} to add to")
        return self._stack[-1]

    def _mark(self):
        if len(self._outer) == DEPTH_MAX:
            self._fail(f"more than {DEPTH_MAX} marks are open")
        self._charge(_VALUE_BYTES)
        self._outer.append(self._stack)
        self._stack = []

    def _since_mark(self):
        if not self._outer:
            self._fail("a mark is missing")
        values = self._stack
        self._stack = self._outer.pop()
        return values

    def _string(self, form, decode):
        count = self._number(form)
        if count > STRING_BYTES_MAX:
            self._fail(f"a string is longer than {STRING_BYTES_MAX} bytes")
        self._push(decode(self._take(count)), _VALUE_BYTES + 4 * count)

    def _integer(self):
        count = self._number(_U8)
        if count > INTEGER_BYTES_MAX:
            self._fail(f"an integer has {count} bytes")
        self._push(int.from_bytes(self._take(count), "little", signed=True))

    def _proto(self):
        if (version := self._number(_U8)) not in range(2, 6):
            self._fail(f"the pickle is of protocol {version}, not 2 to 5")

    def _tuple(self, count):
        if len(self._stack) < count:
            self._fail("a value is missing")
        values = tuple(self._stack[-count:])
        del self._stack[-count:]
        self._push(values)

    def _append(self):
        value = self._pop()
        self._top(list).append(value)

    def _appends(self):
        values = self._since_mark()
        self._top(list).extend(values)

    def _set_item(self):
        value, key = self._pop(), self._pop()
        self._update(self._top(dict), [key, value])

    def _set_items(self):
        values = self._since_mark()
        self._update(self._top(dict), values)

    def _dict(self):
        values, made = self._since_mark(), {}
        self._update(made, values)
        self._push(made)

    def _update(self, target, values):
        if len(values) % 2:
            self._fail("a dictionary has a key without a value")
        for key in values[::2]:
            if type(key) is not str:
                self._fail(f"a {type(key).__name__} is a key")
        self._charge(len(values) // 2 * _ENTRY_BYTES)
        target.update(zip(values[::2], values[1::2]))

    def _put(self, index):
        self._charge(_ENTRY_BYTES)
        if not self._stack:
            self._fail("a value is missing")
        self._memo[index] = self._stack[-1]

    def _get(self, index):
        if index not in self._memo:
            self._fail(f"{index} is not in the memo")
        self._push(self._memo[index], _SLOT_BYTES)


def _text(taken):
    return taken.decode("utf-8", "replace")


_OPCODES = {
    b"\x80": _Machine._proto,
    b"\x95": lambda m: m._take(8),  # FRAME: frames are only for faster reading
    b"(": _Machine._mark,
    b"0": _Machine._pop,
    b"N": lambda m: m._push(None),
    b"\x88": lambda m: m._push(True),
    b"\x89": lambda m: m._push(False),
    b"J": lambda m: m._push(m._number(_I32)),
    b"K": lambda m: m._push(m._number(_U8)),
    b"M": lambda m: m._push(m._number(_U16)),
    b"G": lambda m: m._push(m._number(_F64)),
    b"\x8a": _Machine._integer,
    b"X": lambda m: m._string(_U32, _text),
    b"\x8c": lambda m: m._string(_U8, _text),
    b"\x8d": lambda m: m._string(_U64, _text),
    b"B": lambda m: m._string(_U32, bytes),
    b"C": lambda m: m._string(_U8, bytes),
    b"\x8e": lambda m: m._string(_U64, bytes),
    b"]": lambda m: m._push([]),
    b"l": lambda m: m._push(m._since_mark()),
    b"}": lambda m: m._push({}),
    b"d": _Machine._dict,
    b")": lambda m: m._push(()),
    b"t": lambda m: m._push(tuple(m._since_mark())),
    b"\x85": lambda m: m._tuple(1),
    b"\x86": lambda m: m._tuple(2),
    b"\x87": lambda m: m._tuple(3),
    b"a": _Machine._append,
    b"e": _Machine._appends,
    b"s": _Machine._set_item,
    b"u": _Machine._set_items,
    b"q": lambda m: m._put(m._number(_U8)),
    b"r": lambda m: m._put(m._number(_U32)),
    b"\x94": lambda m: m._put(len(m._memo)),
    b"h": lambda m: m._get(m._number(_U8)),
    b"j": lambda m: m._get(m._number(_U32)),
}


def load(file):
    """The one value in a buffered binary file; TraceError with the offset."""
    return _Machine(file).run()
