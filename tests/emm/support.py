# SPDX-License-Identifier: Apache-2.0
"""What several tests do alike: programs in processes of their own, threads."""

import os
import subprocess
import sys
import textwrap
import threading

import moiety
import pytest

MIB = 1 << 20


def run_program(text, *arguments, **environment):
    """What became of a Python program in a process of its own."""
    return subprocess.run(
        [sys.executable, "-B", "-c", textwrap.dedent(text), *arguments],
        env=os.environ | environment, capture_output=True, text=True,
        timeout=120, check=False)


def refusal(call, *arguments):
    """The error that says why the call is refused."""
    with pytest.raises((moiety.Error, moiety.OutOfMemoryError)) as raised:
        call(*arguments)
    assert str(raised.value)
    return raised.value


def status_of(call, *arguments):
    return refusal(call, *arguments).status


def run_threads(count, work):
    """Calls work(0), work(1), ... in a thread each, to their ends."""
    threads = [threading.Thread(target=work, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def close_while_others_are_inside(source):
    """Closes what has alloc(): it is refused, or takes the source away from
    the threads that are in there: never a crash."""
    is_over = threading.Event()

    def work():
        try:
            while not is_over.is_set():
                source.alloc(3 * MIB)
        except ValueError:
            pass

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(50):
        try:
            source.close()
        except moiety.Error as error:
            assert error.status == "E_IN_USE"
    is_over.set()
    for thread in threads:
        thread.join()
    source.close()
