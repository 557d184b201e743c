# SPDX-License-Identifier: Apache-2.0
"""Reads pickles of None, booleans, numbers, text, lists, tuples and
dictionaries, of any protocol, from files that nobody vouches for.

Not with a pickle.Unpickler whose find_class() refuses: before that is asked, a
few bytes can make it allocate gigabytes, or hash what is nested without end.
This machine knows no operation that calls anything, and of names only that of
an ordered dictionary, which it reads as one. Each length is checked before
memory is taken for it, what is kept is added up, only keys that are text are
kept, so that no hash is the file's choice, and nothing in here recurses.

A pickle may be larger than memory: containers under keys that are not wanted
are read and skipped, and a Sink hands on what is added to it.
"""

import codecs
import re
import struct

from moiety._trace.files import placed
from moiety._trace.format import TraceError

FILE_BYTES_MAX = 1 << 36
STRING_BYTES_MAX = 1 << 20
INTEGER_BYTES_MAX = 16
MEMORY_BYTES_MAX = 768 << 20
DEPTH_MAX = 100
_CHUNK_BYTES = 1 << 16
_STEPS = 1 << 10  # between two looks at the memory
_TEXT_BYTES_KEPT = 1 << 10
_GAP_MAX = 16  # in the memo's indices: some begin with 1
_TEXT_COUNT_MAX = 1 << 17  # that are kept so that they can be named again

# What things take, roughly.
_SLOT_BYTES = 8
_VALUE_BYTES = 72
_ENTRY_BYTES = 132
_CONTAINER_BYTES = 250
_TEXT_BYTES = 300

# Stands for what is skipped, and for sets and bytes.
SKIPPED = frozenset()

_REFUSED = {
    b"i": "INST", b"o": "OBJ", b"\x82": "EXT1", b"\x83": "EXT2",
    b"\x84": "EXT4", b"P": "PERSID", b"Q": "BINPERSID",
    b"\x97": "NEXT_BUFFER", b"\x98": "READONLY_BUFFER"}
_ORDERED = object()  # stands for collections.OrderedDict

_U8, _U16, _U32, _U64, _I32, _F64 = map(
    struct.Struct, ("<B", "<H", "<I", "<Q", "<i", ">d"))

# Operations that do no more than to put something on the stack.
_PUSHES = re.compile(rb"(?:h.|j....|K.|M..|J....|[N\x88\x89])+", re.DOTALL)
_ESCAPE = re.compile(rb"\\(x[0-9a-fA-F]{2}|.)", re.DOTALL)
_ESCAPES = {b"n": b"\n", b"r": b"\r", b"t": b"\t"}


class Sink:
    """Is in the place of a list, and keeps of what is added what it wants."""

    def take(self, value):
        """Returns the bytes of memory that it keeps for it."""
        raise NotImplementedError


class Lists(list):
    """A list whose lists are of another kind."""

    def __init__(self, kind):
        super().__init__()
        self.kind = kind


class _Dict(dict):
    """.place: in the memo, or None. What was named again is .is_shared."""
    __slots__ = ("place", "taken_bytes", "is_shared")

    def __init__(self):
        super().__init__()
        self.place = None
        self.taken_bytes = _CONTAINER_BYTES
        self.is_shared = False


class _Machine:
    def __init__(self, file, wanted):
        self._file = file
        self._wanted = wanted
        self._chunk = b""  # what was read, from the file's offset _start on
        self._start = 0
        self._place = 0  # of what is next, in the chunk
        self._stack = []
        self._outer = []  # stacks below a mark, and whether they are skipped
        self._is_skipped = False
        self._memo = []
        self._memo_far = {}  # of indices that do not follow one another
        self._texts = {}
        self._kept_bytes = 0

    @property
    def offset(self):
        return self._start + self._place

    def run(self):
        while True:
            self._check_memory()
            for _ in range(_STEPS):
                if self._place == len(self._chunk):
                    self._read_on(1)
                code = self._chunk[self._place]
                self._place += 1
                if code == 46:  # STOP, a full stop
                    return self._result()
                _STEP_OF[code](self)

    def _result(self):
        if self._outer or len(self._stack) != 1:
            self._fail("the pickle ends with values left over, or with none")
        with placed(offset=self.offset):
            is_more = self._place < len(self._chunk) or self._file.read(1)
        if is_more:
            self._fail("the file goes on after the pickle's end")
        return self._stack[0]

    def refuse(self):
        code = self._chunk[self._place - 1:self._place]
        if code in _REFUSED:
            self._refuse_call(_REFUSED[code])
        self._fail(f"{code!r} is no operation of a snapshot's pickle")

    def _refuse_call(self, operation, name=""):
        name = f" ({name[:60]!r})" if name.strip(".") else ""
        self._fail(f"{operation} names a class or calls a function{name}: "
                   f"refused")

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
        with placed(offset=self.offset):
            more = self._file.read(max(_CHUNK_BYTES, count - len(left)))
        if len(left) + len(more) < count:
            self._fail("the pickle is cut off")
        self._start += self._place
        self._chunk = left + more
        self._place = 0

    def _line(self):
        """The bytes up to the next line's end."""
        count = 0
        while (end := self._chunk.find(b"\n", self._place + count)) < 0:
            count = len(self._chunk) - self._place
            if count > STRING_BYTES_MAX:
                self._fail(f"a line is longer than {STRING_BYTES_MAX} bytes")
            self._read_on(count + 1)
        line = self._chunk[self._place:end]
        self._place = end + 1
        return line

    def _number(self, form):
        return form.unpack(self._take(form.size))[0]

    def _check_memory(self):
        count = len(self._stack) + sum(len(one) for one, _ in self._outer)
        each = (_VALUE_BYTES if len(self._texts) < _TEXT_COUNT_MAX else
                _VALUE_BYTES + 4 * _TEXT_BYTES_KEPT)
        if (self._kept_bytes + count * each + len(self._memo) * _SLOT_BYTES
                + len(self._memo_far) * _ENTRY_BYTES) > MEMORY_BYTES_MAX:
            self._fail(f"what the pickle has takes more than "
                       f"{MEMORY_BYTES_MAX} bytes")

    def _push(self, value):
        self._stack.append(value)

    def _pop(self):
        if not self._stack:
            self._fail("a value is missing")
        return self._stack.pop()

    def _above(self):
        """What a new value is put on: what it belongs to, or its key."""
        if self._stack:
            return self._stack[-1]
        return self._outer[-1][0][-1] if self._outer and self._outer[-1][0] \
            else None

    def _skips(self):
        """Whether a container that begins here is not wanted."""
        if self._is_skipped:
            return True
        above = self._above()
        if type(above) is str:
            return self._wanted is not None and above not in self._wanted
        return above is SKIPPED or (
            # What is above is another key, of what is skipped.
            len(self._stack) > 1 and self._stack[-2] is SKIPPED)

    def _mark(self):
        if len(self._outer) == DEPTH_MAX:
            self._fail(f"more than {DEPTH_MAX} marks are open")
        is_skipped = self._skips()
        self._outer.append((self._stack, self._is_skipped))
        self._stack, self._is_skipped = [], is_skipped

    def _since_mark(self):
        if not self._outer:
            self._fail("a mark is missing")
        values = self._stack
        self._stack, self._is_skipped = self._outer.pop()
        return values

    def _string(self, form):
        count = self._number(form)
        if count > STRING_BYTES_MAX:
            self._fail(f"a string is longer than {STRING_BYTES_MAX} bytes")
        return self._take(count)

    def _text(self, taken):
        """The same text is the same object; where there are too many, it cannot
        be named again."""
        taken = taken[:_TEXT_BYTES_KEPT]
        text = self._texts.get(taken)
        if text is None:
            if len(self._texts) == _TEXT_COUNT_MAX:
                text = (SKIPPED if self._is_skipped else
                        taken.decode("utf-8", "replace"))
            else:
                text = taken.decode("utf-8", "replace")
                self._texts[taken] = text
                self._kept_bytes += _TEXT_BYTES + 5 * len(taken)
        self._push(text)

    def _bytes(self, form):
        self._string(form)
        self._push(SKIPPED)

    def _quoted(self):
        line = self._line()
        if len(line) < 2 or line[:1] not in b"'\"" or line[-1:] != line[:1]:
            self._fail("a string has no quotes")
        self._text(_ESCAPE.sub(
            lambda match: bytes([int(match[1][1:], 16)])
            if len(match[1]) == 3 else _ESCAPES.get(match[1], match[1]),
            line[1:-1]))

    def _integer(self, form):
        count = self._number(form)
        if not 0 <= count <= INTEGER_BYTES_MAX:
            self._fail(f"an integer has {count} bytes")
        self._push(int.from_bytes(self._take(count), "little", signed=True))

    def _decimal(self):
        line = self._line()
        if not re.fullmatch(rb"-?\d{1,39}L?", line):
            self._fail(f"an integer is {line[:60]!r}")
        return int(line.rstrip(b"L"))

    def _index(self):
        index = self._decimal()
        if index < 0:
            self._fail(f"{index} is no place in the memo")
        return index

    def _old_integer(self):
        is_bool = self._chunk[self._place:self._place + 3] in (b"00\n", b"01\n")
        number = self._decimal()
        self._push(bool(number) if is_bool else number)

    def _float(self):
        line = self._line()
        try:
            self._push(float(line[:60]))
        except ValueError:
            self._fail(f"a number is {line[:60]!r}")

    def _proto(self):
        if (version := self._number(_U8)) not in range(6):
            self._fail(f"the pickle is of protocol {version}, not 0 to 5")

    def _new_list(self):
        if self._skips():
            self._push(SKIPPED)
            return
        above = self._above()
        within = self._outer[-1][0][-1:] if self._outer else []
        kind = list
        if type(above) is str and self._wanted:
            kind = self._wanted[above]
        elif isinstance(above, Lists):
            kind = above.kind
        elif within and isinstance(within[0], Lists):
            kind = within[0].kind
        self._kept_bytes += _CONTAINER_BYTES
        self._push(kind())

    def _new_dict(self):
        if self._skips():
            self._push(SKIPPED)
            return
        self._kept_bytes += _CONTAINER_BYTES
        self._push(_Dict())

    def _tuple_of(self, values):
        self._kept_bytes += _CONTAINER_BYTES + len(values) * _VALUE_BYTES
        self._push(tuple(values))

    def _tuple(self):
        values = self._since_mark()
        if self._skips():
            self._push(SKIPPED)
        else:
            self._tuple_of(values)

    def _short_tuple(self, count):
        if len(self._stack) < count:
            self._fail("a value is missing")
        values = self._stack[len(self._stack) - count:]
        del self._stack[len(self._stack) - count:]
        if self._skips():
            self._push(SKIPPED)
        else:
            self._tuple_of(values)

    def _list(self):
        values = self._since_mark()
        self._new_list()
        self._add(values)

    def _dict(self):
        values = self._since_mark()
        self._new_dict()
        self._update(values)

    def _append(self):
        self._add([self._pop()])

    def _appends(self):
        self._add(self._since_mark())

    def _add(self, values):
        """To the list on the stack."""
        target = self._stack[-1] if self._stack else None
        if isinstance(target, Sink):
            for value in values:
                self._kept_bytes += target.take(value)
                if type(value) is _Dict:
                    self._forget(value)
        elif isinstance(target, list):
            self._kept_bytes += len(values) * _VALUE_BYTES
            target.extend(values)
        elif target is not SKIPPED:
            self._fail("there is no list to add to")

    def _forget(self, value):
        """What a sink has taken and nothing else has."""
        if value.is_shared:
            return
        self._kept_bytes -= value.taken_bytes
        value.taken_bytes = 0
        if value.place is not None and self._memo[value.place] is value:
            self._memo[value.place] = SKIPPED

    def _add_to_set(self):
        self._since_mark()
        if not self._stack or self._stack[-1] is not SKIPPED:
            self._fail("there is no set to add to")

    def _frozen_set(self):
        self._since_mark()
        self._push(SKIPPED)

    def _set_item(self):
        value, key = self._pop(), self._pop()
        self._update([key, value])

    def _set_items(self):
        self._update(self._since_mark())

    def _update(self, values):
        """The dictionary on the stack. What has no text for a key is nothing
        of a snapshot's."""
        target = self._stack[-1] if self._stack else None
        if target is SKIPPED:
            return
        if type(target) is not _Dict:
            self._fail("there is no dict to add to")
        if len(values) % 2:
            self._fail("a dictionary has a key without a value")
        for key, value in zip(values[::2], values[1::2]):
            if type(key) is str:
                target[key] = value
                taken = _ENTRY_BYTES + (
                    4 * len(value) if type(value) is str else 0)
                target.taken_bytes += taken
                self._kept_bytes += taken

    def _put(self, index):
        if not self._stack:
            self._fail("a value is missing")
        value = self._stack[-1]
        if type(value) is str and len(self._texts) == _TEXT_COUNT_MAX:
            value = SKIPPED
        if index <= len(self._memo) + _GAP_MAX:
            self._memo += [SKIPPED] * (index - len(self._memo))
        else:
            self._memo_far[index] = value
            if type(value) is _Dict:
                value.is_shared = True
            return
        if index == len(self._memo):
            self._memo.append(value)
        else:
            self._memo[index] = value
        if type(value) is _Dict:
            value.is_shared = value.place is not None
            value.place = index

    def _get(self, index):
        if index < len(self._memo):
            value = self._memo[index]
        elif index in self._memo_far:
            value = self._memo_far[index]
        else:
            self._fail(f"{index} is not in the memo")
        if type(value) is _Dict:
            value.is_shared = True
        self._push(value)
        if self._is_skipped:
            self._skip_pushes()

    def _skip_pushes(self):
        """All that is put here is dropped at the mark's end: no more of it is
        kept than operations before that can take away."""
        pushes = _PUSHES.match(self._chunk, self._place)
        if pushes:
            self._place = pushes.end()
            self._stack += [SKIPPED] * 3

    def _twice(self):
        value = self._pop()
        if type(value) is _Dict:
            value.is_shared = True
        self._stack += [value, value]

    def _name(self, operation, module, name):
        """Of a class or function. Where all is skipped, so is what it makes."""
        if self._skips():
            self._push(SKIPPED)
        elif (module, name) == ("collections", "OrderedDict"):
            self._push(_ORDERED)
        else:
            self._refuse_call(operation, f"{module}.{name}")

    def _global(self):
        module, name = self._line(), self._line()
        self._name("GLOBAL", module.decode("utf-8", "replace"),
                   name.decode("utf-8", "replace"))

    def _stack_global(self):
        name, module = self._pop(), self._pop()
        if type(name) is not str or type(module) is not str:
            name = module = ""
        self._name("STACK_GLOBAL", module, name)

    def _call(self, operation, argument_count):
        """Only an ordered dictionary is made; what is skipped stays so."""
        *arguments, name = [self._pop() for _ in range(argument_count + 1)]
        if name is SKIPPED:
            self._push(SKIPPED)
        elif name is _ORDERED and arguments == [()]:
            self._new_dict()
        else:
            self._refuse_call(operation)


_OPERATIONS = {
    b"\x80": _Machine._proto,
    b"\x95": lambda m: m._take(8),  # FRAME: frames are only for faster reading
    b"(": _Machine._mark,
    b"0": _Machine._pop,
    b"1": _Machine._since_mark,
    b"2": _Machine._twice,
    b"N": lambda m: m._push(None),
    b"\x88": lambda m: m._push(True),
    b"\x89": lambda m: m._push(False),
    b"I": _Machine._old_integer,
    b"L": lambda m: m._push(m._decimal()),
    b"J": lambda m: m._push(m._number(_I32)),
    b"K": lambda m: m._push(m._number(_U8)),
    b"M": lambda m: m._push(m._number(_U16)),
    b"F": _Machine._float,
    b"G": lambda m: m._push(m._number(_F64)),
    b"\x8a": lambda m: m._integer(_U8),
    b"\x8b": lambda m: m._integer(_I32),
    b"S": _Machine._quoted,
    # By the function: the name of the codec would import a module.
    b"V": lambda m: m._text(codecs.raw_unicode_escape_decode(
        m._line(), "replace")[0].encode("utf-8", "replace")),
    b"T": lambda m: m._text(m._string(_U32)),
    b"U": lambda m: m._text(m._string(_U8)),
    b"X": lambda m: m._text(m._string(_U32)),
    b"\x8c": lambda m: m._text(m._string(_U8)),
    b"\x8d": lambda m: m._text(m._string(_U64)),
    b"B": lambda m: m._bytes(_U32),
    b"C": lambda m: m._bytes(_U8),
    b"\x8e": lambda m: m._bytes(_U64),
    b"\x96": lambda m: m._bytes(_U64),
    b"]": _Machine._new_list,
    b"l": _Machine._list,
    b"}": _Machine._new_dict,
    b"d": _Machine._dict,
    b")": lambda m: m._short_tuple(0),
    b"t": _Machine._tuple,
    b"\x85": lambda m: m._short_tuple(1),
    b"\x86": lambda m: m._short_tuple(2),
    b"\x87": lambda m: m._short_tuple(3),
    b"\x8f": lambda m: m._push(SKIPPED),
    b"\x90": _Machine._add_to_set,
    b"\x91": _Machine._frozen_set,
    b"a": _Machine._append,
    b"e": _Machine._appends,
    b"s": _Machine._set_item,
    b"u": _Machine._set_items,
    b"p": lambda m: m._put(m._index()),
    b"q": lambda m: m._put(m._number(_U8)),
    b"r": lambda m: m._put(m._number(_U32)),
    b"\x94": lambda m: m._put(len(m._memo)),
    b"g": lambda m: m._get(m._index()),
    b"h": lambda m: m._get(m._number(_U8)),
    b"j": lambda m: m._get(m._number(_U32)),
    b"c": _Machine._global,
    b"\x93": _Machine._stack_global,
    b"R": lambda m: m._call("REDUCE", 1),
    b"b": lambda m: m._call("BUILD", 1),
    b"\x81": lambda m: m._call("NEWOBJ", 1),
    b"\x92": lambda m: m._call("NEWOBJ_EX", 2),
}
_STEP_OF = [_OPERATIONS.get(bytes([code]), _Machine.refuse)
            for code in range(256)]


def load(file, wanted=None):
    """The one value in a buffered binary file; TraceError with the offset.
    `wanted` has the keys whose lists and dictionaries are kept, and what is
    called for each such list; without it all are."""
    return _Machine(file, wanted).run()
