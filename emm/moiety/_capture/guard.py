# SPDX-License-Identifier: Apache-2.0
"""Holds the library's capture guard from the begin to the end of a capture, by
whatever a framework captures with: a graph, a stream, a builder.

A context event that a pool recorded meanwhile would break the capture, and the
driver cannot be asked whether there is one. So the functions of a framework
that begin and end captures are replaced by ones that hold the guard as well.
"""

import ctypes
import functools
import gc
import weakref

from moiety import _native


class Guard:
    """One count of the library's guard, given back once. Threads: any; and
    finalizers, which the garbage collector runs in the middle of anything: so
    no lock."""

    def __init__(self):
        self._counts = []
        self._finalizer = None
        try:
            _native.capture_guard_begin()
        except _native.ForkedError:
            # No pool is of any use here. What the child captures is none of our
            # business.
            pass
        else:
            self._counts.append(1)

    def release_with(self, owner, function, *arguments):
        """Calls the function when the owner is dropped before the release."""
        self._finalizer = weakref.finalize(owner, function, *arguments)
        self._finalizer.atexit = False

    def release(self):
        if self._finalizer is not None:
            self._finalizer.detach()
        try:
            self._counts.pop()  # one thread gets it
        except IndexError:
            return
        try:
            _native.capture_guard_end()
        except _native.Error:
            pass  # as above


class Captures:
    """The captures under way of one framework, by a key that both its begin
    and its end know. Dropping the object that a capture ends with, the owner,
    ends the capture: nobody else can."""

    def __init__(self):
        self._held = {}

    def begin(self, key, owner, guard):
        """The owner is None where others may still end the capture."""
        # One that was there was given up: a second begin is refused else.
        self.end(key)
        self._held[key] = guard
        if owner is not None:
            guard.release_with(owner, self._drop, key, guard)

    def end(self, key):
        guard = self._held.pop(key, None)
        if guard is not None:
            guard.release()

    def _drop(self, key, guard):
        if self._held.get(key) is guard:
            self.end(key)

    def wrap_begin(self, function, key_of=id, owner_of=lambda owner: owner):
        """A method that begins a capture, with a guard from before it until
        the capture ends, or this fails."""

        @functools.wraps(function)
        def begin(owner, *arguments, **options):
            guard = Guard()
            try:
                result = function(owner, *arguments, **options)
            except BaseException:
                guard.release()
                raise
            self.begin(key_of(owner), owner_of(owner), guard)
            return result

        return begin

    def wrap_end(self, function, key_of=id, is_capturing=lambda owner: False):
        """A method that ends a capture. If it fails, is_capturing() says
        whether the capture goes on."""

        @functools.wraps(function)
        def end(owner, *arguments, **options):
            key = key_of(owner)
            try:
                result = function(owner, *arguments, **options)
            except BaseException:
                if not is_capturing(owner):
                    self.end(key)
                raise
            self.end(key)
            return result

        return end


def replace(kind, name, function):
    """Gives the class another method, and returns what brings the old one
    back. AttributeError if the class has none of its own by that name."""
    if name not in vars(kind):
        raise AttributeError(f"{kind.__qualname__} has no {name}")
    old = vars(kind)[name]
    _set(kind, name, function)
    return functools.partial(_set, kind, name, old)


def _set(kind, name, function):
    try:
        setattr(kind, name, function)
    except TypeError:
        # A class written in C or Cython: its dictionary is the one thing that
        # the proxy in front of it refers to.
        (dictionary,) = gc.get_referents(vars(kind))
        dictionary[name] = function
        ctypes.pythonapi.PyType_Modified(ctypes.py_object(kind))
